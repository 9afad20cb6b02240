"""Spreading of evidence from a few labelled patches over a graph that links similar patches.

Every patch is linked to the patches most similar to it. Exemplars and verdicts are sources of evidence for their class;
the evidence spreads along the links and is damped at each link. The share of a class in all evidence that reaches a
patch estimates how likely the patch shows the class. At every patch a further weak source, called the survey, keeps
shares low where almost no evidence arrives.
"""

import numpy as np
from scipy import sparse

from outcrop.parallel import map_blocks, spans
from outcrop.retrieval.search import search

FEWEST, NEIGHBOURS = 5, 30  # links of a patch: a tenth of the number of patches, but within these limits
DAMPING = 0.9  # factor on evidence at each link
STARTS = 20  # number of patches at which the evidence of an exemplar starts
SURVEY = 0.03  # weight of the survey, relative to weight 1 for the exemplars of a class
ACCEPTED, REJECTED = 0.2, 2.0  # weights of an accepted and a rejected patch, relative to weight 1 for the exemplars
FADED = 1e-4  # size of a step, relative to the first step, at which the iteration ends
MORE = 4  # number of candidates that the measure compares, as a multiple of the links
BLOCK = 256  # patches compared with all others at once


def square_roots(descriptors: np.ndarray) -> np.ndarray:
    """Return square roots of normalised descriptors; the product of two roots is a fast measure of similarity.

    Examples
    --------
    >>> square_roots(np.array([[1.0, 3.0]], "f4")).round(2)
    array([[0.5 , 0.87]], dtype=float32)
    """
    total = descriptors.sum(axis=1, keepdims=True)
    return np.sqrt(descriptors / np.where(total > 0, total, 1)).astype(np.float32)


def nearest(features: np.ndarray, edges: np.ndarray, *, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every patch, the patches that are most similar to it, and their similarities.

    A fast comparison, one matrix product, preselects four times as many candidates; the similarity measure chooses the
    nearest of them.

    Parameters
    ----------
    features : float32 array, shape (n, n_values)
    edges : array of int
        Block edges, as in `search`.
    count : int, optional
        Number of similar patches for each patch; by default a tenth of all patches, but 5 to 30.

    Returns
    -------
    rows, similarity : arrays, shape (n, min(count, n - 1))
        Rows of the most similar patches and their similarities, unsorted.
    """
    count = min(count or int(np.clip(len(features) // 10, FEWEST, NEIGHBOURS)), len(features) - 1)
    roots = square_roots(features)

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
    """Return the columns of the `count` highest values in every row, unsorted."""
    return np.argpartition(-values, count - 1, axis=1)[:, :count]


def link_matrix(rows: np.ndarray, similarity: np.ndarray) -> sparse.csr_matrix:
    """Return the symmetric, normalised matrix of a graph of nearest patches.

    Parameters
    ----------
    rows, similarity : arrays, shape (n, count)
        From `nearest`.

    Returns
    -------
    scipy.sparse.csr_matrix, shape (n, n)
        D^-1/2 A D^-1/2, where A holds the `closeness` of linked patches (the larger of the values in both directions)
        and D the sums of the rows of A.
    """
    n, count = rows.shape
    pointers = np.arange(0, n * count + 1, count)
    one_way = sparse.csr_matrix((closeness(similarity).ravel(), rows.ravel(), pointers), shape=(n, n))
    both = one_way.maximum(one_way.T)
    scale = sparse.diags(1 / np.sqrt(np.asarray(both.sum(axis=1)).ravel() + 1e-12))
    return (scale @ both @ scale).tocsr().astype(np.float32)


def closeness(similarity: np.ndarray) -> np.ndarray:
    """Convert similarities to weights by their range in each row: 1 for the highest, 1/e for the lowest.

    Examples
    --------
    >>> closeness(np.array([[0.9, 0.8]])).round(2)
    array([[1.  , 0.37]])
    """
    high, low = similarity.max(axis=-1, keepdims=True), similarity.min(axis=-1, keepdims=True)
    return np.asarray(np.exp((similarity - high) / np.maximum(high - low, 1e-9)))


def exemplar_weights(similarity: np.ndarray) -> np.ndarray:
    """Return the weights of the patches at which the evidence of an exemplar starts; they sum to 1.

    Parameters
    ----------
    similarity : array, shape (n,)
        Similarity of every patch of the graph to the exemplar.

    Examples
    --------
    >>> exemplar_weights(np.array([0.9, 0.8, 0.2])).round(2)
    array([0.45, 0.39, 0.16])
    """
    weights = np.zeros(len(similarity))
    rows = np.argsort(-similarity, kind="stable")[:STARTS]
    weights[rows] = closeness(similarity[rows])
    return np.asarray(weights / weights.sum())


def spread(matrix: sparse.csr_matrix, sources: np.ndarray) -> np.ndarray:
    """Return the evidence that reaches every patch: the solution f of f = a W f + y, with damping a.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        W, from `link_matrix`.
    sources : array, shape (n, n_sources)
        y, the evidence that starts at every patch.
    """
    sources = np.ascontiguousarray(sources, np.float32)
    reached = sources
    for _ in range(int(np.ceil(np.log(FADED) / np.log(DAMPING)))):
        reached = DAMPING * (matrix @ reached) + sources
    return reached


def shares(matrix: sparse.csr_matrix, exemplars: np.ndarray, accepted: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """Return the share of every class in the evidence that reaches each patch of a graph.

    Parameters
    ----------
    matrix : sparse matrix, shape (n, n)
        From `link_matrix`.
    exemplars, accepted, rejected : arrays, shape (n, n_classes)
        For every patch and class: weight at which the evidence of exemplars starts (see `exemplar_weights`), how often
        the patch was accepted, and how often it was rejected.

    Returns
    -------
    array, shape (n, n_classes)
        f_c / (sum of f over all classes + r_c + b), where f_c is the evidence for class c from exemplars and accepted
        patches, r_c the evidence against c from rejected patches, and b the evidence from the survey.
    """
    n, n_classes = exemplars.shape
    survey = np.full((n, 1), SURVEY / n)
    sources = np.concatenate([exemplars + ACCEPTED * accepted, REJECTED * rejected, survey], axis=1)
    reached = spread(matrix, sources)
    found, against, survey_evidence = reached[:, :n_classes], reached[:, n_classes:-1], reached[:, -1:]
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True) + against + survey_evidence, 1e-30))
