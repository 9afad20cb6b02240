"""Which patches go to which class: each to one, the best first, near-copies skipped where asked."""

import numpy as np

from outcrop.retrieval.index import NEAR_LINES

AHEAD = 4  # times as many rows as are asked for are sorted at first
APART, BACKGROUND_APART = 0.2, 1.0  # what a patch loses of its share where it covers one that was chosen
SURE = 2.0  # more than any share or similarity, so that accepted patches come first


class Overlap:
    """How much the patches of some rows overlap one of them within ten lines.

    Parameters
    ----------
    grid : PatchGrid
    rows : array of int
    """

    def __init__(self, grid, rows):
        places = grid.places(rows)
        self.direction, line = places[:, 0], places[:, 1]
        self.line = np.empty(len(rows))
        for direction in (0, 1):
            on_direction = self.direction == direction
            self.line[on_direction] = grid.axes[direction][line[on_direction]]
        self.corners, self.size = places[:, 2:], np.array([grid.size[1], grid.size[0]])

    def __call__(self, i):
        """Share of every patch that lies over patch `i`."""
        return (1 - self._gaps(i)).clip(0).prod(axis=1)

    def copies(self, i):
        """Whether every patch is a near-copy of patch `i`: less than half a patch away in both directions."""
        return (self._gaps(i) < 0.5).all(axis=1)

    def _gaps(self, i):
        """Distance of every patch to patch `i` in patch sizes, 1 where it lies on no line nearby."""
        near = (self.direction == self.direction[i]) & (np.abs(self.line - self.line[i]) <= NEAR_LINES)
        gaps = np.ones(self.corners.shape, np.float32)
        gaps[near] = np.abs(self.corners[near] - self.corners[i]) / self.size
        return gaps


def choose(values, counts, overlap, *, apart, skip=None):
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
    skip : callable, optional
        ``skip(row)``: which rows are left out once that one is taken, shape (n,); none by default.

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
    free = (values >= 0).any(axis=1)
    winner = values.argmax(axis=1)
    chosen: list = [[] for _ in counts]
    covered = np.zeros((len(counts), len(values)), np.float32)
    open_to = (values >= 0).T
    for first in (True, False):
        for w, count in enumerate(counts):
            allowed = free & open_to[w] & ((winner == w) | (not first))
            while len(chosen[w]) < count and allowed.any():
                left = np.where(allowed, values[:, w] - apart[w] * covered[w], -np.inf)
                row = int(left.argmax())
                chosen[w].append(row)
                allowed[row] = free[row] = False
                covered[w] = np.maximum(covered[w], overlap(row))
                if skip is not None:
                    open_to[w] &= ~skip(row) | (values[:, w] >= SURE)
                    allowed &= open_to[w]
    return [np.array(rows, int) for rows in chosen]


def wanted_rows(near, counts, per_exemplar):
    """What is to be found: (class, its queries, how many); one want per query where the count is shared."""
    queries = {name: np.arange(positions.shape[1]) for name, positions in near.items()}
    if not per_exemplar:
        return [(name, positions, counts[name]) for name, positions in queries.items()]
    shares = {
        name: [len(p) for p in np.array_split(range(counts[name]), len(positions))]
        for name, positions in queries.items()
    }
    return [
        (name, [q], n) for name, positions in queries.items() for q, n in zip(positions, shares[name], strict=True) if n
    ]


def assign(similarity, counts, *, near=None, whole=False):
    """Best rows for every want, each row for one want only: the one it is most similar to.

    Parameters
    ----------
    similarity : array, shape (n, n_wants)
        Negative where a row cannot be taken.
    counts : list of int
        How many rows each want asks for.
    near : callable, optional
        ``near(row, accepted)`` tells whether a row is a near-copy of one already accepted.
    whole : bool
        Sort all rows at once; by default only the first, and all of them where those do not last.

    Returns
    -------
    chosen : list of arrays
        Rows per want, the most similar first, ties by row; fewer than asked where there are no more.
    lost : array of int
        Per want, rows among its best that went to another.

    Examples
    --------
    >>> assign(np.array([[0.9, 0.8], [0.7, 0.6], [0.1, 0.5]]), [1, 2])
    ([array([0]), array([1, 2])], array([0, 1]))
    """
    n, n_wants = similarity.shape
    most = [n if near is not None or whole else AHEAD * (count + 100) for count in counts]
    orders = [falling_rows(similarity[:, w], most[w]) for w in range(n_wants)]
    barred = np.zeros((n, n_wants), bool)
    while True:
        chosen = [_first(order[~barred[order, w]], counts[w], near) for w, order in enumerate(orders)]
        taken = np.full((n, n_wants), -np.inf, np.float32)
        for w, rows in enumerate(chosen):
            taken[rows, w] = similarity[rows, w]
        winner = taken.argmax(axis=1)
        losing = np.isfinite(taken) & (np.arange(n_wants) != winner[:, None])
        if not losing.any():
            break
        barred |= losing
    short = any(len(rows) < count and most[w] < n for w, (rows, count) in enumerate(zip(chosen, counts, strict=True)))
    if short:  # what was sorted did not last
        return assign(similarity, counts, near=near, whole=True)
    return chosen, barred.sum(axis=0)


def falling_rows(values, most):
    """Rows with values from 0 on, the highest first and ties by row; at least `most` of them where there are so many.

    Examples
    --------
    >>> falling_rows(np.array([0.2, 0.9, -1.0, 0.5, 0.9]), 2)
    array([1, 4])
    """
    least = 0 if most >= len(values) else max(0, np.partition(values, len(values) - most)[len(values) - most])
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")]


def _first(order, count, near):
    if near is None:
        return order[:count]
    accepted: list = []
    for row in order:
        if not near(row, accepted):
            accepted.append(row)
            if len(accepted) == count:
                break
    return np.array(accepted, dtype=order.dtype)


def near_copies(grid, kept):
    """Test whether a row overlaps an accepted one by more than half within ten lines; rows in `kept` never count."""
    kept = {row for rows in kept.values() for row in rows}
    limit = np.array([1, NEAR_LINES + 1, grid.size[1] / 2, grid.size[0] / 2])

    def near(row, accepted):
        if int(row) in kept:
            return False
        return bool((np.abs(grid.starts[accepted] - grid.starts[row]) < limit).all(axis=1).any()) if accepted else False

    return near
