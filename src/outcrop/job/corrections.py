"""What is painted on a line and near it, spread over its votes when they are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from outcrop.features.energies import STRIDE
from outcrop.job.strokes import cell_means
from outcrop.mapping.pixels import upsample
from outcrop.mapping.walker import conductances, correct, giving_up, reach
from outcrop.storage.kept import Kept, content

FALL = 75.0  # m across lines over which a stroke falls to 1 / e
LEAST = 0.1  # of a stroke, below which it says nothing about a neighbouring line


@dataclass(eq=False)
class Corrections:
    """Votes of lines after the strokes on them, and on lines near them, have spread.

    Parameters
    ----------
    painted : dict
        (direction, position) -> code of the class painted, uint8, shape (n_traces, n_samples); see `painted_sections`.
    excluded : dict
        (direction, position) -> whether each code is excluded, bool, shape (n_codes, n_traces, n_samples).
    nodes : callable
        ``nodes(line)`` gives the features at the nodes of a line, shape (1, n_samples / 4, n_traces / 4, n_features).
    names : list of str
        Class of each code, that of code 1 first.
    background : str or None
    along : int
        Direction of the lines.
    shape : (int, int, int)
        Of the volume.
    metres : array, shape (n_lines,)
        Distance of every line from the first one; see `line_distances`.
    kept : Kept
    """

    painted: Mapping[tuple[int, int], np.ndarray]
    excluded: Mapping[tuple[int, int], np.ndarray]
    _: KW_ONLY
    nodes: Callable[[int], np.ndarray]
    names: Sequence[str]
    background: str | None
    along: int
    shape: Sequence[int]
    metres: np.ndarray
    kept: Kept

    def __post_init__(self) -> None:
        self.section_shape = self.shape[1 - self.along], self.shape[2]
        self.lines: set[int] = set()  # positions of the lines on which something is painted or excluded
        for (direction, position), section in [*self.painted.items(), *self.excluded.items()]:
            if direction == self.along:
                self.lines.add(position)
            else:
                marked = section.any(axis=-1).reshape(-1, self.shape[self.along]).any(axis=0)
                self.lines |= set(np.flatnonzero(marked).tolist())

    def codes(self, line: int) -> np.ndarray:
        """Return the codes painted on a line, on it or where a painted section crosses it."""
        codes = self.painted.get((self.along, line))
        codes = np.zeros(self.section_shape, np.uint8) if codes is None else codes.copy()
        for (direction, position), section in self.painted.items():
            if direction != self.along and section[line].any():
                codes[position] = np.where(section[line] > 0, section[line], codes[position])
        return codes

    def excluded_on(self, line: int) -> np.ndarray:
        """Return where each code is excluded on a line, shape (n_codes, n_traces, n_samples); no codes if none is."""
        if not self.excluded:
            return np.zeros((0, *self.section_shape), bool)
        found = np.zeros((len(self.names), *self.section_shape), bool)
        for (direction, position), section in self.excluded.items():
            if (direction, position) == (self.along, line):
                found |= section
            elif direction != self.along:
                found[:, position] |= section[:, line]
        return found

    def near(self, line: int) -> list[tuple[int, float]]:
        """Return the lines with strokes that count for a line, the nearest first, and how much each counts."""
        counts = [(other, float(np.exp(-abs(self.metres[other] - self.metres[line]) / FALL))) for other in self.lines]
        return sorted((one for one in counts if one[1] >= LEAST), key=lambda one: (-one[1], one[0]))

    def votes(self, line: int, store: Any) -> tuple[list[str], np.ndarray] | None:
        """Return classes and votes of a line after all strokes near it, None where there are none.

        Returns
        -------
        classes : list of str
            Those of the store, then those that are only painted.
        votes : uint8 array, shape (n_classes, n_traces, n_samples)
        """
        near = self.near(line)
        if not near:
            return None
        painted = [(self.codes(other), self.excluded_on(other), strength) for other, strength in near]
        counts = np.sum([np.bincount(codes.ravel(), minlength=1 + len(self.names)) for codes, *_ in painted], axis=0)
        present = [name for name, count in zip(self.names, counts[1:], strict=True) if count]
        classes = [*store.classes, *(name for name in present if name not in store.classes)]
        exact = self.codes(line), self.excluded_on(line)
        made_from = content(*exact, *(array for codes, gone, _ in painted for array in (codes, gone)))
        key = (store.folder.name, line, tuple(near), self.background, *self.names, made_from)
        return classes, self.kept.get(key, lambda: self._spread(line, store, classes, self._seeds(painted), exact))

    def _seeds(self, painted: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> tuple[np.ndarray, np.ndarray]:
        """Return what is known and excluded at the nodes, each of shape (n_codes, n_traces / 4, n_samples / 4)."""
        known = np.zeros((len(self.names), *(-(-n // STRIDE) for n in self.section_shape)), np.float32)
        excluded = known.copy()
        for codes, gone, strength in painted:  # the nearest line first: it decides
            shares = np.stack([cell_means(codes == code) for code in range(1, len(self.names) + 1)])
            most = (shares.argmax(axis=0) == np.arange(len(shares))[:, None, None]) & (shares > 0)
            known += strength * (most & ~known.any(axis=0))
            for i, mask in enumerate(gone):
                excluded[i] = np.maximum(excluded[i], strength * (cell_means(mask) > 0))
        return known, excluded

    def _spread(self, line: int, store: Any, classes: Sequence[str], seeds: Any, exact: Any) -> np.ndarray:
        """Return the votes of the classes; what is painted or excluded on the line itself holds exactly."""
        votes = np.zeros((len(classes), *self.section_shape), np.uint8)
        votes[: len(store.classes)] = store.read(line)
        along, down = conductances(self.nodes(line)[0].swapaxes(0, 1))
        gamma = giving_up(cell_means(votes.max(axis=0) / 255))
        codes = [self.names.index(name) if name in self.names else None for name in classes]
        known, excluded = (self._reached(along, down, gamma, some, codes) for some in seeds)
        for i, code in enumerate(codes):
            if code is not None and len(exact[1]):
                excluded[exact[1][code], i] = 1
        known *= 1 - excluded
        for i, code in enumerate(codes):
            if code is not None:
                known[exact[0] == code + 1] = np.arange(len(classes)) == i
        touched = votes.any(axis=0) & (known.any(axis=-1) | excluded.any(axis=-1))
        background = np.array([name == self.background for name in classes])
        shares = np.moveaxis(votes, 0, -1)[touched] / np.float32(255)
        shares /= shares.sum(axis=-1, keepdims=True)
        votes[:, touched] = np.round(255 * correct(shares, known[touched], excluded[touched], background)).T
        return votes

    def _reached(self, along: Any, down: Any, gamma: Any, seeds: np.ndarray, codes: Sequence[int | None]) -> Any:
        """Return how far seeds of each class reach, at the pixels, shape (n_traces, n_samples, n_classes)."""
        none = np.zeros(seeds.shape[1:], np.float32)
        chosen = np.stack([none if code is None else seeds[code] for code in codes], axis=-1)
        spread = reach(along, down, chosen, gamma) if chosen.any() else chosen
        return upsample(spread[None], self.section_shape)[0]
