"""Choose the best patches for each class; each patch goes to one class."""

from collections.abc import Callable, Sequence

import numpy as np

from outcrop.patches.grid import PatchGrid
from outcrop.volumes.neighbours import NEAR

AHEAD = 4  # number of rows sorted at first, as a multiple of the requested number
OVERLAP_PENALTY, BACKGROUND_PENALTY = (
    0.2,
    1.0,
)  # penalty on the value of a patch that overlaps a chosen patch, per share of overlap; second for the background
ACCEPTED_BONUS = (
    2.0  # added to the value of accepted patches, which then come first; larger than any share or similarity
)


class Overlap:
    """Overlap of patches with one given patch, on its line and on lines up to 250 m away; see `PatchGrid.metres`.

    Parameters
    ----------
    grid : PatchGrid
    rows : array of int
        Rows of the patches in the grid.
    """

    def __init__(self, grid: PatchGrid, rows: np.ndarray) -> None:
        places = grid.places(rows)
        self.direction = places[:, 0]
        self.metres = grid.metres(places)
        self.corners, self.size = places[:, 2:], np.array([grid.size[1], grid.size[0]])

    def __call__(self, i: int) -> np.ndarray:
        """Return, for every patch, the share of its area that overlaps the patch at position `i` of `rows`."""
        near = (self.direction == self.direction[i]) & (np.abs(self.metres - self.metres[i]) <= NEAR)
        gaps = np.ones(self.corners.shape, np.float32)  # in patch sizes
        gaps[near] = np.abs(self.corners[near] - self.corners[i]) / self.size
        return np.asarray((1 - gaps).clip(0).prod(axis=1))


def choose(
    values: np.ndarray, counts: Sequence[int], overlap: Callable[[int], np.ndarray], *, penalties: Sequence[float]
) -> list[np.ndarray]:
    """Choose patches with high values for every request; each patch serves one request, and overlap is penalised.

    A request is a class or one of its exemplars. A row of `values` stands for a patch. A row is chosen for the request
    for which its value is highest, and for another request only if that request has no other rows left.

    Parameters
    ----------
    values : array, shape (n, n_requests)
        Negative for rows that must not be chosen.
    counts : sequence of int
        Number of rows for each request.
    overlap : callable
        ``overlap(row)`` returns, for every patch, the share of its area that overlaps the patch `row`, shape (n,).
    penalties : sequence of float
        For each request, the penalty on the value of a row whose patch coincides with a chosen patch.

    Returns
    -------
    list of arrays
        Chosen rows of each request, in the order of choice.

    Examples
    --------
    >>> values = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> same_place = lambda row: np.array([row < 2, row < 2, row == 2, row == 3])
    >>> choose(values, [2, 1], same_place, penalties=[0.3, 0.3])
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
                left = np.where(allowed, values[:, w] - penalties[w] * covered[w], -np.inf)
                row = int(left.argmax())
                chosen[w].append(row)
                allowed[row] = free[row] = False
                covered[w] = np.maximum(covered[w], overlap(row))
    return [np.array(rows, int) for rows in chosen]


def assign(similarity: np.ndarray, counts: Sequence[int], *, whole: bool = False) -> list[np.ndarray]:
    """Choose the most similar patches for every request; each patch serves the request that it resembles most.

    A request is a class or one of its exemplars. A row of `similarity` stands for a patch.

    Parameters
    ----------
    similarity : array, shape (n, n_requests)
        Negative for rows that must not be chosen.
    counts : sequence of int
        Number of rows for each request.
    whole : bool
        Whether to sort all rows at once. By default, only the most similar rows are sorted at first, and all rows if
        these are too few; the result is the same.

    Returns
    -------
    list of arrays
        Rows of each request, the most similar first, ties by row; fewer than requested if no more can be chosen.

    Examples
    --------
    >>> assign(np.array([[0.9, 0.8], [0.7, 0.6], [0.1, 0.5]]), [1, 2])
    [array([0]), array([1, 2])]
    """
    n, n_requests = similarity.shape
    most = [n if whole else AHEAD * (count + 100) for count in counts]
    orders = [falling_rows(similarity[:, w], most[w]) for w in range(n_requests)]
    barred = np.zeros((n, n_requests), bool)
    while True:
        chosen = [order[~barred[order, w]][: counts[w]] for w, order in enumerate(orders)]
        taken = np.full((n, n_requests), -np.inf, np.float32)
        for w, rows in enumerate(chosen):
            taken[rows, w] = similarity[rows, w]
        losing = np.isfinite(taken) & (np.arange(n_requests) != taken.argmax(axis=1)[:, None])
        if not losing.any():
            break
        barred |= losing
    if any(len(rows) < counts[w] and most[w] < n for w, rows in enumerate(chosen)):  # too few rows were sorted
        return assign(similarity, counts, whole=True)
    return chosen


def falling_rows(values: np.ndarray, most: int) -> np.ndarray:
    """Return the rows of the `most` highest values, the highest first; rows with negative values are left out.

    Rows with the same value as the last of these are returned too. Equal values are sorted by row.

    Examples
    --------
    >>> falling_rows(np.array([0.2, 0.9, -1.0, 0.5, 0.9]), 2)
    array([1, 4])
    """
    least = 0 if most >= len(values) else max(0, np.partition(values, len(values) - most)[len(values) - most])
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")]
