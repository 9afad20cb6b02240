"""Random walker: what is painted spreads along what looks alike and stops where reflectors or texture change.

A walker starts at every node of a lattice and steps to a neighbour, rather to one that looks alike, and rather along
the layers than across them; at every step it may give up, sooner where the votes are sure. The share of the walkers
from a node that reach a stroke of a class is how much that stroke decides there; the others leave the votes at their
start as they were. So what is near a stroke follows it, what is far keeps its votes, and nothing changes where nothing
is painted.
"""

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter1d
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from outcrop.arrays import Array

BETA = 40.0  # how much a difference of features hinders a step
GAMMA = 0.07  # chance to give up on sure votes, against that of a step along the layers to a node that looks the same
LEAST_SURE = 0.1  # confidence that counts where there is less
ACROSS_LAYERS = 0.25  # a step down or up, against one along the layers
NEAR = 30  # nodes from a seed beyond which nobody reaches it: 120 pixels


def conductances(
    features: np.ndarray,
    *,
    beta: float = BETA,
) -> tuple[np.ndarray, np.ndarray]:
    """How easily a walker steps from a node to the next one, between 0 and 1.

    Parameters
    ----------
    features : array, shape (n_traces, n_samples, n_features)
        At the nodes.
    beta : float
        Against the mean squared difference of features in units of their spread.

    Returns
    -------
    along : array, shape (n_traces - 1, n_samples)
    down : array, shape (n_traces, n_samples - 1)
    """
    standard = features / np.maximum(features.std(axis=(0, 1)), 1e-6)
    along, down = (np.exp(-beta * np.mean(np.diff(standard, axis=axis) ** 2, axis=-1)) for axis in (0, 1))
    return along, ACROSS_LAYERS * down


def giving_up(confidence: np.ndarray, gamma: float = GAMMA) -> Array:
    """Chance of a walker to give up at nodes, by how sure the votes are there.

    Examples
    --------
    >>> giving_up(np.array([0, 0.5, 1]), gamma=0.04)
    array([0.0004, 0.01  , 0.04  ])
    """
    return gamma * np.maximum(confidence, LEAST_SURE) ** 2


def reach(along: np.ndarray, down: np.ndarray, seeds: np.ndarray, gamma: npt.ArrayLike = GAMMA) -> np.ndarray:
    """Share of the walkers from every node that end at the seeds of each kind.

    Parameters
    ----------
    along, down : array
        As `conductances` gives them.
    seeds : array, shape (n_traces, n_samples, n_kinds)
        Share of the walkers arriving at a node that end there as each kind; all 0 where there is no seed.
    gamma : float or array, shape (n_traces, n_samples)
        Chance to give up; see `giving_up`.

    Returns
    -------
    array, shape (n_traces, n_samples, n_kinds)
        Between 0 and the largest seed of each kind. What is missing to 1 has given up.

    Notes
    -----
    With the Laplacian :math:`L` of the lattice, :math:`L u + \\gamma u = 0` away from the seeds and :math:`u = s` on
    them [1]_. Nodes farther than `NEAR` from all seeds have :math:`u = 0`.

    .. [1] L. Grady, Random walks for image segmentation, IEEE Trans. Pattern Anal. Mach. Intell. 28 (11), 2006.
    """
    out = seeds.astype(np.float64)
    fixed = seeds.any(axis=-1)
    near = maximum_filter1d(maximum_filter1d(fixed, 2 * NEAR + 1, axis=0), 2 * NEAR + 1, axis=1)
    free = near & ~fixed
    if not free.any():
        return out
    n, number = fixed.size, np.arange(fixed.size).reshape(fixed.shape)
    first = np.concatenate([number[:-1].ravel(), number[:, :-1].ravel()])
    second = np.concatenate([number[1:].ravel(), number[:, 1:].ravel()])
    weights = np.concatenate([along.ravel(), down.ravel()]).astype(np.float64)
    degree = np.bincount(first, weights, n) + np.bincount(second, weights, n)
    degree += np.broadcast_to(gamma, fixed.shape).ravel()
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    steps = coo_array((np.concatenate([weights, weights]), ends), shape=(n, n)).tocsr()[free.ravel()]
    diagonal = np.arange(len(degree[free.ravel()]))
    system = coo_array((degree[free.ravel()], (diagonal, diagonal))).tocsr() - steps[:, free.ravel()]
    arriving = steps[:, fixed.ravel()] @ out[fixed]
    solver = splu(system.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    out[free] = np.clip(solver.solve(arriving), 0, seeds.max(axis=(0, 1)))
    return out


def correct(votes: np.ndarray, known: np.ndarray, excluded: np.ndarray, background: np.ndarray) -> Array:
    """Votes that follow what is known and give up what is excluded.

    Parameters
    ----------
    votes : array, shape (..., n_classes)
        That sum to 1.
    known : array, shape (..., n_classes)
        Share of each class that is known, as `reach` gives it; what is missing to 1 is left to the votes.
    excluded : array, shape (..., n_classes)
        Share of each class's votes that goes to the other classes, as they have votes; to the background where they
        have none.
    background : bool array, shape (n_classes,)

    Examples
    --------
    >>> votes = np.array([0.8, 0.2, 0.0])
    >>> correct(votes, np.array([0, 0, 0.5]), np.zeros(3), np.array([False, True, False]))
    array([0.4, 0.1, 0.5])
    >>> correct(votes, np.zeros(3), np.array([1, 0, 0]), np.array([False, True, False])).round(2)
    array([0., 1., 0.])
    """
    kept = votes * (1 - excluded)
    others = (votes + 1e-6 * (1e-3 + background)) * (1 - excluded)
    total = others.sum(axis=-1, keepdims=True)
    lost = (votes * excluded).sum(axis=-1, keepdims=True)
    votes = np.where(total > 0, kept + lost * others / np.where(total > 0, total, 1), votes)
    return known + (1 - known.sum(axis=-1, keepdims=True)) * votes
