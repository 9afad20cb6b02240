"""Which patches an interpreter should judge next: those whose verdict says most about others."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from outcrop.retrieval.graph import PASSED_ON
from outcrop.retrieval.index import Index
from outcrop.retrieval.weak import WeakLabels

NUMBERED = 20  # patches of a class that are numbered
MOST_TELLING = 1000  # patches of a class among which the most telling are looked for


def number_most_telling(index: Index, weak: WeakLabels, verdicts: Iterable[Sequence[int]]) -> None:
    """Number the patches of every class whose verdict would say most."""
    candidates, matrix, _ = index._graph
    places = np.searchsorted(candidates, weak.rows)
    inside = candidates[np.minimum(places, len(candidates) - 1)] == weak.rows
    judged = np.searchsorted(candidates, np.concatenate([np.array(rows, int) for rows in verdicts]))
    for name in dict.fromkeys(weak.classes):
        of_class = np.flatnonzero(inside & (weak.classes == name))[:MOST_TELLING]
        order = most_telling(matrix, places[of_class], 1 - weak.weights[of_class], judged)
        weak.judge[of_class[order]] = np.arange(1, len(order) + 1)


def most_telling(matrix: csr_matrix, members: np.ndarray, doubt: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Which patches of a class to judge next: those that say most about others that nobody is sure of.

    Chosen one by one, each for the doubt it reaches within two ties that those before it do not.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        Of `ties`.
    members : array of int, shape (n_members,)
        Patches of the class.
    doubt : array, shape (n_members,)
        How doubtful each of them is, 0 to 1.
    judged : array of int
        Patches that were judged already.

    Returns
    -------
    array of int
        Positions in `members`, the most telling first.
    """
    from_members = matrix[members]

    def reach(others: np.ndarray) -> np.ndarray:
        twice = PASSED_ON**2 * (from_members @ matrix[:, others])
        return np.asarray((PASSED_ON * from_members[:, others] + twice).toarray())

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
