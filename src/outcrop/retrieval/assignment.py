"""Which patches go to which class: each to one, the best first."""

from collections.abc import Callable, Sequence

import numpy as np

from outcrop.patches.grid import PatchGrid
from outcrop.volumes.neighbours import NEAR

AHEAD = 4  # times as many rows as are asked for are sorted at first
APART, BACKGROUND_APART = 0.2, 1.0  # what a patch loses of its share where it covers one that was chosen
SURE = 2.0  # more than any share or similarity, so that accepted patches come first


class Overlap:
    """How much patches overlap one of them on the same line or on one up to 250 m away; see `PatchGrid.metres`.

    Parameters
    ----------
    grid : PatchGrid
    rows : array of int
    """

    def __init__(self, grid: PatchGrid, rows: np.ndarray) -> None:
        places = grid.places(rows)
        self.direction = places[:, 0]
        self.metres = grid.metres(places)
        self.corners, self.size = places[:, 2:], np.array([grid.size[1], grid.size[0]])

    def __call__(self, i: int) -> np.ndarray:
        """Share of every patch that lies over patch `i`."""
        near = (self.direction == self.direction[i]) & (np.abs(self.metres - self.metres[i]) <= NEAR)
        gaps = np.ones(self.corners.shape, np.float32)  # in patch sizes
        gaps[near] = np.abs(self.corners[near] - self.corners[i]) / self.size
        return np.asarray((1 - gaps).clip(0).prod(axis=1))


def choose(
    values: np.ndarray, counts: Sequence[int], overlap: Callable[[int], np.ndarray], *, apart: Sequence[float]
) -> list[np.ndarray]:
    """Rows for every want, each for one only, that have high values and do not all lie at one place.

    A row is taken for the want it has the highest value for, and for another where the rows of that do not last.

    Parameters
    ----------
    values : array, shape (n, n_wants)
        Negative where a row cannot be taken.
    counts : sequence of int
        How many rows each want asks for.
    overlap : callable
        ``overlap(row)``: share of every patch that lies over that row, shape (n,).
    apart : sequence of float
        Per want, what a row loses of its value where it lies wholly over one that was taken.

    Returns
    -------
    list of arrays
        Rows per want in the order they were taken.

    Examples
    --------
    >>> values = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> same_place = lambda row: np.array([row < 2, row < 2, row == 2, row == 3])
    >>> choose(values, [2, 1], same_place, apart=[0.3, 0.3])
    [array([0, 2]), array([3])]
    """
    free = np.asarray((values >= 0).any(axis=1))
    winner = values.argmax(axis=1)
    chosen: list[list[int]] = [[] for _ in counts]
    covered = np.zeros((len(counts), len(values)), np.float32)
    for first in (True, False):
        for w, count in enumerate(counts):
            allowed: np.ndarray = free & (values[:, w] >= 0) & ((winner == w) | (not first))
            while len(chosen[w]) < count and allowed.any():
                left = np.where(allowed, values[:, w] - apart[w] * covered[w], -np.inf)
                row = int(left.argmax())
                chosen[w].append(row)
                allowed[row] = free[row] = False
                covered[w] = np.maximum(covered[w], overlap(row))
    return [np.array(rows, int) for rows in chosen]


def assign(similarity: np.ndarray, counts: Sequence[int], *, whole: bool = False) -> list[np.ndarray]:
    """Best rows for every want, each row for one want only: the one it is most similar to.

    Parameters
    ----------
    similarity : array, shape (n, n_wants)
        Negative where a row cannot be taken.
    counts : sequence of int
        How many rows each want asks for.
    whole : bool
        Sort all rows at once; by default only the first, and all of them where those do not last.

    Returns
    -------
    list of arrays
        Rows per want, the most similar first, ties by row; fewer than asked where there are no more.

    Examples
    --------
    >>> assign(np.array([[0.9, 0.8], [0.7, 0.6], [0.1, 0.5]]), [1, 2])
    [array([0]), array([1, 2])]
    """
    n, n_wants = similarity.shape
    most = [n if whole else AHEAD * (count + 100) for count in counts]
    orders = [falling_rows(similarity[:, w], most[w]) for w in range(n_wants)]
    barred = np.zeros((n, n_wants), bool)
    while True:
        chosen = [order[~barred[order, w]][: counts[w]] for w, order in enumerate(orders)]
        taken = np.full((n, n_wants), -np.inf, np.float32)
        for w, rows in enumerate(chosen):
            taken[rows, w] = similarity[rows, w]
        losing = np.isfinite(taken) & (np.arange(n_wants) != taken.argmax(axis=1)[:, None])
        if not losing.any():
            break
        barred |= losing
    if any(len(rows) < counts[w] and most[w] < n for w, rows in enumerate(chosen)):  # what was sorted did not last
        return assign(similarity, counts, whole=True)
    return chosen


def falling_rows(values: np.ndarray, most: int) -> np.ndarray:
    """Rows with values from 0 on, the highest first and ties by row; at least `most` of them where there are so many.

    Examples
    --------
    >>> falling_rows(np.array([0.2, 0.9, -1.0, 0.5, 0.9]), 2)
    array([1, 4])
    """
    least = 0 if most >= len(values) else max(0, np.partition(values, len(values) - most)[len(values) - most])
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")]
