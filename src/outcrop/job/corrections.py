"""What is painted, excluded or rejected on a line decides its votes when they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False)
class Corrections:
    """Votes of lines under the strokes on them and the patches rejected there.

    Parameters
    ----------
    painted : dict
        (direction, position) -> code of the class painted, uint8, shape (n_traces, n_samples); see `painted_sections`.
    excluded : dict
        (direction, position) -> whether each code is excluded, bool, shape (n_codes, n_traces, n_samples).
    names : list of str
        Class of each code, that of code 1 first.
    background : str or None
    along : int
        Direction of the lines.
    shape : (int, int, int)
        Of the volume.
    rejected : list of (str, (int, int, int))
        Class and position of the centre of every rejected patch.
    """

    painted: Mapping[tuple[int, int], np.ndarray]
    excluded: Mapping[tuple[int, int], np.ndarray]
    names: Sequence[str]
    background: str | None
    along: int
    shape: Sequence[int]
    rejected: Sequence[tuple[str, tuple[int, int, int]]] = ()

    def __post_init__(self) -> None:
        self.section_shape = self.shape[1 - self.along], self.shape[2]
        self.rejected_on: dict[int, list[tuple[int, int, int]]] = {}  # code, trace and sample by position of a line
        for name, at in self.rejected:
            place = self.names.index(name), at[1 - self.along], at[2]
            self.rejected_on.setdefault(at[self.along], []).append(place)
        # positions of the lines on which something is painted, excluded or rejected
        self.lines = set(self.rejected_on)
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
        """Return where each code is excluded or rejected on a line, shape (n_codes, n_traces, n_samples)."""
        found = np.zeros((len(self.names), *self.section_shape), bool)
        for (direction, position), section in self.excluded.items():
            if (direction, position) == (self.along, line):
                found |= section
            elif direction != self.along:
                found[:, position] |= section[:, line]
        for place in self.rejected_on.get(line, ()):
            found[place] = True
        return found

    def votes(self, line: int, store: Any) -> tuple[list[str], np.ndarray] | None:
        """Return classes and votes of a line under its strokes, None where there are none.

        A painted sample has all votes for its class. An excluded class has none: those of the other classes count, or
        the background where they have none either.

        Returns
        -------
        classes : list of str
            Those of the store, then those that are only painted.
        votes : uint8 array, shape (n_classes, n_traces, n_samples)
        """
        if line not in self.lines:
            return None
        painted, excluded = self.codes(line), self.excluded_on(line)
        only_painted = [self.names[code - 1] for code in np.unique(painted[painted > 0])]
        classes = [*store.classes, *(name for name in only_painted if name not in store.classes)]
        votes = np.zeros((len(classes), *self.section_shape), np.uint8)
        votes[: len(store.classes)] = store.read(line)
        labelled = votes.any(axis=0)
        codes = [self.names.index(name) if name in self.names else None for name in classes]
        gone = np.stack([excluded[code] if code is not None else np.zeros_like(labelled) for code in codes])
        votes[gone] = 0
        empty = labelled & ~votes.any(axis=0)
        for one, name, there in zip(votes, classes, ~gone, strict=True):
            one[empty & there] = 255 if name == self.background else 1
        for one, code in zip(votes, codes, strict=True):
            one[labelled & (painted > 0)] = 0
            one[labelled & (painted == (-1 if code is None else code + 1))] = 255
        return classes, votes
