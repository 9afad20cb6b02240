"""Labels of a few patches spread over a graph of the patches that look most alike.

Every patch is tied to those it resembles most. What exemplars, yes and no say of some patches flows along these ties
and fades on the way, and a patch belongs to a class by its share of what reaches it. The survey itself is a further,
weak source everywhere, so that a patch that next to nothing reaches belongs to no class.
"""

import numpy as np
from scipy import sparse

from outcrop.parallel import map_blocks, spans
from outcrop.retrieval.search import search

FEWEST, NEIGHBOURS = 5, 30  # ties of a patch: a tenth of the patches, within these limits
PASSED_ON = 0.9  # share of what reaches a patch that it passes on
STANDS_FOR = 20  # patches of the graph that stand for an exemplar, which need not be one of them
SURVEY = 0.03  # weight of the survey against that of the exemplars of a class
ACCEPTED, REJECTED = 0.2, 2.0  # weight of a yes and of a no against that of the exemplars of a class
FADED = 1e-4  # share of the first step from which further steps are left out
MORE = 4  # times as many patches as are tied that the measure is asked about
BLOCK = 256  # patches compared with all others at once


def rooted(descriptors: np.ndarray) -> np.ndarray:
    """Square roots of the shares of descriptors: products of these are overlaps of two patches.

    Examples
    --------
    >>> rooted(np.array([[1.0, 3.0]], "f4")).round(2)
    array([[0.5 , 0.87]], dtype=float32)
    """
    total = descriptors.sum(axis=1, keepdims=True)
    return np.sqrt(descriptors / np.where(total > 0, total, 1)).astype(np.float32)


def nearest(features: np.ndarray, edges: np.ndarray, *, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The patches most similar to every patch, by the measure, and how similar they are.

    Overlaps of descriptors, which are one matrix product, choose some times as many, and the measure chooses among
    these.

    Parameters
    ----------
    features : float32 array, shape (n, n_values)
    edges : array of int
        As in `search`.
    count : int, optional
        How many; by default a tenth of the patches, from 5 to 30.

    Returns
    -------
    rows, similarity : arrays, shape (n, min(count, n - 1))
        In no order.
    """
    count = min(count or int(np.clip(len(features) // 10, FEWEST, NEIGHBOURS)), len(features) - 1)
    roots = rooted(features)

    def compare(span: slice) -> tuple[np.ndarray, np.ndarray]:
        overlap = roots[span] @ roots.T
        here = np.arange(span.start, span.stop)
        overlap[here - span.start, here] = -1
        likely = _highest(overlap, min(MORE * count, len(features) - 1))
        similarity = np.stack(
            [
                search(features[rows], features[row : row + 1], edges)[:, 0]
                for row, rows in zip(here, likely, strict=True)
            ]
        )
        best = _highest(similarity, count)
        return np.take_along_axis(likely, best, axis=1), np.take_along_axis(similarity, best, axis=1)

    rows, similarity = zip(*map_blocks(compare, spans(len(features), BLOCK)), strict=True)
    return np.concatenate(rows), np.concatenate(similarity)


def _highest(values: np.ndarray, count: int) -> np.ndarray:
    """Columns of the highest values of every row, in no order."""
    return np.argpartition(-values, count - 1, axis=1)[:, :count]


def ties(rows: np.ndarray, similarity: np.ndarray) -> sparse.csr_matrix:
    """Symmetric, normalised matrix of a graph of nearest patches.

    Parameters
    ----------
    rows, similarity : arrays, shape (n, count)
        As `nearest` gives them.

    Returns
    -------
    scipy.sparse.csr_matrix, shape (n, n)
        D^-1/2 A D^-1/2, where A holds `closeness` of either side of a tie, whichever is larger.
    """
    n, count = rows.shape
    pointers = np.arange(0, n * count + 1, count)
    one_way = sparse.csr_matrix((closeness(similarity).ravel(), rows.ravel(), pointers), shape=(n, n))
    both = one_way.maximum(one_way.T)
    scale = sparse.diags(1 / np.sqrt(np.asarray(both.sum(axis=1)).ravel() + 1e-12))
    return (scale @ both @ scale).tocsr().astype(np.float32)


def closeness(similarity: np.ndarray) -> np.ndarray:
    """Similarities on a scale of their range: 1 for the highest of a row, 1/e for the lowest.

    Examples
    --------
    >>> closeness(np.array([[0.9, 0.8]])).round(2)
    array([[1.  , 0.37]])
    """
    high, low = similarity.max(axis=-1, keepdims=True), similarity.min(axis=-1, keepdims=True)
    return np.asarray(np.exp((similarity - high) / np.maximum(high - low, 1e-9)))


def stand_ins(similarity: np.ndarray) -> np.ndarray:
    """Weights, with the sum 1, of the patches that stand for an exemplar.

    Parameters
    ----------
    similarity : array, shape (n,)
        Of every patch of the graph to the exemplar.

    Examples
    --------
    >>> stand_ins(np.array([0.9, 0.8, 0.2])).round(2)
    array([0.45, 0.39, 0.16])
    """
    weights = np.zeros(len(similarity))
    rows = np.argsort(-similarity, kind="stable")[:STANDS_FOR]
    weights[rows] = closeness(similarity[rows])
    return np.asarray(weights / weights.sum())


def spread(matrix: sparse.csr_matrix, sources: np.ndarray) -> np.ndarray:
    """What reaches every patch: the solution f of f = a W f + y.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        W, of `ties`.
    sources : array, shape (n, n_sources)
        y: what every patch has from the start.
    """
    sources = np.ascontiguousarray(sources, np.float32)
    reached = sources
    for _ in range(int(np.ceil(np.log(FADED) / np.log(PASSED_ON)))):
        reached = PASSED_ON * (matrix @ reached) + sources
    return reached


def shares(matrix: sparse.csr_matrix, exemplars: np.ndarray, accepted: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """Share of every class in what reaches each patch of a graph.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        Of `ties`.
    exemplars, accepted, rejected : arrays, shape (n, n_classes)
        How much of the exemplars of a class a patch stands for (see `stand_ins`), how often it was accepted as one of
        the class, and how often it was rejected.

    Returns
    -------
    array, shape (n, n_classes)
        f_c / (sum of f over all classes + r_c + b), where f is what reaches a patch from exemplars and accepted
        patches, r_c what comes from those that were rejected as class c, and b from the survey.
    """
    n, n_classes = exemplars.shape
    survey = np.full((n, 1), SURVEY / n)
    sources = np.concatenate([exemplars + ACCEPTED * accepted, REJECTED * rejected, survey], axis=1)
    reached = spread(matrix, sources)
    found, against, rest = reached[:, :n_classes], reached[:, n_classes:-1], reached[:, -1:]
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True) + against + rest, 1e-30))
