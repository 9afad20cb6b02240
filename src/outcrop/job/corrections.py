"""Corrections of votes by strokes, rejected patches and exemplars, applied when the votes of a line are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt


def from_nearest(votes: np.ndarray, empty: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """Return a copy of the votes in which each empty sample has the votes of the nearest sample with suitable votes.

    Suitable votes are votes for classes that are not excluded at the empty sample; only these votes are copied.

    Parameters
    ----------
    votes : uint8 array, shape (n_classes, n_traces, n_samples)
    empty : bool array, shape (n_traces, n_samples)
        Samples without votes, which are filled.
    excluded : bool array, shape (n_classes, n_traces, n_samples)
        Excluded classes of each sample.

    Examples
    --------
    >>> votes = np.array([[[255, 255, 0]], [[0, 0, 255]]], np.uint8)  # votes for fault, votes for salt
    >>> excluded = np.array([[[0, 1, 0]], [[0, 0, 0]]], bool)  # the sample in the middle is no fault
    >>> votes[excluded] = 0
    >>> from_nearest(votes, ~votes.any(axis=0), excluded)[:, 0].tolist()
    [[255, 0, 0], [0, 255, 255]]
    """
    found = votes.copy()
    for classes in np.unique(excluded[:, empty], axis=1).T:  # samples with the same classes excluded
        here = empty & (excluded == classes[:, None, None]).all(axis=0)
        source = votes[~classes].any(axis=0)
        if source.any():
            nearest = distance_transform_edt(~source, return_distances=False, return_indices=True)
            found[:, here] = np.where(classes[:, None], 0, votes[:, *nearest[:, here]])
    return found


@dataclass(eq=False)
class Corrections:
    """Corrections of the votes of lines by strokes, rejected patches and exemplars.

    Parameters
    ----------
    painted : dict
        Section (direction, position) -> painted codes, uint8, shape (n_traces, n_samples); see `painted_sections`.
    excluded : dict
        Section (direction, position) -> where each code is excluded, bool, shape (n_codes, n_traces, n_samples).
    names : list of str
        Class of each code, starting with code 1.
    background : str or None
        Class of everything that is no marked structure; None if the job has no such class.
    along : int
        Direction of the lines: 0 inline, 1 crossline.
    shape : (int, int, int)
        Shape of the volume.
    rejected : list of (str, (int, int, int))
        Class and position of the centre of every rejected patch.
    clicked : list of (str, (int, int, int))
        Class and position of every exemplar; its sample has this class unless a stroke covers it.
    """

    painted: Mapping[tuple[int, int], np.ndarray]
    excluded: Mapping[tuple[int, int], np.ndarray]
    names: Sequence[str]
    background: str | None
    along: int
    shape: Sequence[int]
    rejected: Sequence[tuple[str, tuple[int, int, int]]] = ()
    clicked: Sequence[tuple[str, tuple[int, int, int]]] = ()

    def __post_init__(self) -> None:
        self.section_shape = self.shape[1 - self.along], self.shape[2]
        self.rejected_on, self.clicked_on = self._by_line(self.rejected), self._by_line(self.clicked)
        # positions of the lines on which something is painted, excluded, rejected or clicked
        self.lines = self.rejected_on.keys() | self.clicked_on.keys()
        for (direction, position), section in [*self.painted.items(), *self.excluded.items()]:
            if direction == self.along:
                self.lines.add(position)
            else:
                marked = section.any(axis=-1).reshape(-1, self.shape[self.along]).any(axis=0)
                self.lines |= set(np.flatnonzero(marked).tolist())

    def _by_line(self, places: Sequence[tuple[str, tuple[int, int, int]]]) -> dict[int, list[tuple[int, int, int]]]:
        """Return a dict: line position -> list of (code - 1, trace position, sample position) on this line.

        `places` is a list of (class, position on the three axes).
        """
        found: dict[int, list[tuple[int, int, int]]] = {}
        for name, at in places:
            found.setdefault(at[self.along], []).append((self.names.index(name), at[1 - self.along], at[2]))
        return found

    def codes(self, line: int) -> np.ndarray:
        """Return the codes that strokes and exemplars give to the samples of a line, shape (n_traces, n_samples).

        Strokes on crossing sections count on the common trace. Samples without a stroke or an exemplar have code 0.
        """
        codes = np.zeros(self.section_shape, np.uint8)
        for code, trace, sample in self.clicked_on.get(line, ()):
            codes[trace, sample] = code + 1
        painted = self.painted.get((self.along, line))
        if painted is not None:
            codes = np.where(painted > 0, painted, codes)
        for (direction, position), section in self.painted.items():
            if direction != self.along and section[line].any():
                codes[position] = np.where(section[line] > 0, section[line], codes[position])
        return codes

    def excluded_on(self, line: int) -> np.ndarray:
        """Return at which samples of a line each class is excluded, bool, shape (n_codes, n_traces, n_samples).

        At the centre of a rejected patch, the class of the patch is excluded too.
        """
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
        """Return classes and votes of a line with its corrections applied; None for a line without corrections.

        `line` is the position of the line; `store` is the `VoteStore` with its votes.

        At a painted sample all votes are for the painted class. An excluded class loses its votes, and the votes for
        the other classes remain. If no votes remain at a sample, those of the nearest sample with votes count.

        Returns
        -------
        classes : list of str
            The classes of the stored votes, then classes that are only painted.
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
        empty = np.asarray(labelled & ~votes.any(axis=0))
        if empty.any():
            votes = from_nearest(votes, empty, gone)
        empty &= ~votes.any(axis=0)
        for one, name, allowed in zip(votes, classes, ~gone, strict=True):
            one[empty & allowed] = 255 if name == self.background else 1
        for one, code in zip(votes, codes, strict=True):
            one[labelled & (painted > 0)] = 0
            one[labelled & (painted == (-1 if code is None else code + 1))] = 255
        return classes, votes
