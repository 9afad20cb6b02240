"""Choice of the patches that an interpreter should judge next, because these verdicts would be most informative."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from outcrop.retrieval.graph import DAMPING
from outcrop.retrieval.index import Index
from outcrop.retrieval.weak import WeakLabels

NUMBERED = 20  # number of patches of a class that get a rank in `WeakLabels.judge`
CONSIDERED = 1000  # largest number of candidates in a class


def number_most_informative(index: Index, weak: WeakLabels, verdicts: Iterable[Sequence[int]]) -> None:
    """Rank, in every class, the patches whose verdicts would be most informative; store the ranks in `weak.judge`.

    `verdicts` holds arrays of rows: the patches that were judged already.
    """
    candidates, matrix, _ = index._graph
    places = np.searchsorted(candidates, weak.rows)
    inside = candidates[np.minimum(places, len(candidates) - 1)] == weak.rows
    judged = np.searchsorted(candidates, np.concatenate([np.array(rows, int) for rows in verdicts]))
    for name in dict.fromkeys(weak.classes):
        of_class = np.flatnonzero(inside & (weak.classes == name))[:CONSIDERED]
        order = most_informative(matrix, places[of_class], 1 - weak.weights[of_class], judged)
        weak.judge[of_class[order]] = np.arange(1, len(order) + 1)


def most_informative(matrix: csr_matrix, members: np.ndarray, doubt: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Return the patches of a class whose verdicts would be most informative about other uncertain patches.

    Patches are chosen one by one. A patch reaches other patches within two links of the graph. The next patch is the
    one that reaches most of the uncertainty that the patches chosen before do not reach.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        From `link_matrix`.
    members : array of int, shape (n_members,)
        Patches of the class.
    doubt : array, shape (n_members,)
        Uncertainty of each patch, 0 to 1.
    judged : array of int
        Patches with a verdict.

    Returns
    -------
    array of int
        Positions in `members`, the most informative first.
    """
    from_members = matrix[members]

    def reach(others: np.ndarray) -> np.ndarray:
        twice = DAMPING**2 * (from_members @ matrix[:, others])
        return np.asarray((DAMPING * from_members[:, others] + twice).toarray())

    within = reach(members) + np.eye(len(members))
    known = np.isin(members, judged)
    covered = np.maximum(reach(judged).max(axis=1, initial=0), known)
    within[:, known] = 0
    order: list[int] = []
    while len(order) < min(NUMBERED, len(members) - known.sum()):
        gain = (np.maximum(within - covered[:, None], 0) * doubt[:, None]).sum(axis=0)
        gain[order] = -1
        gain[known] = -1
        order.append(int(gain.argmax()))
        covered = np.maximum(covered, within[:, order[-1]])
    return np.array(order, int)
