"""Scores of retrieval and of clusters from a similarity matrix."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse.linalg
from sklearn.cluster import KMeans
from sklearn.metrics import auc, rand_score, roc_curve

from outcrop.arrays import Array, to_numpy
from outcrop.parallel import one_blas_thread, spans

_BLOCK = 4_000_000  # numbers processed at a time: a few dozen MB


def retrieval_scores(S: Array, classes: npt.ArrayLike) -> dict[str, Any]:
    """Score a similarity matrix by retrieval, with every image as a query for the other images of its class.

    Parameters
    ----------
    S : array, shape (n, n)
        Similarity of query (row) and candidate (column), higher is more similar; the diagonal is not ranked.
    classes : sequence, shape (n,)
        Class of every image; each class has at least two images.

    Returns
    -------
    dict
        - ``RA``: retrieval accuracy. For a query whose class has m other images, it is the share of the m most similar
          images that have the class; RA is the mean over all queries.
        - ``MAP``: mean average precision.
        - ``AUC``: probability that a pair of the same class is more similar than a pair of different classes; ties
          count one half.
        - ``AUC_row``: the AUC after every row was scaled to 0 at its least similar image and 1 at the query itself.
        - ``precision``: share of the M most similar images that have the query's class, for M = 1 to n - 1.
        - ``RA_by_class`` and ``precision_by_class``: class -> RA and precision of its queries.
        - ``roc``: pair of arrays, false and true positive rate, reduced to a few hundred points.

    Notes
    -----
    Appendix A of Alaudah, Alfarraj and AlRegib (2019). Equal similarities are ranked in the order of the columns.

    Examples
    --------
    >>> S = np.array([[1.0, 0.9, 0.2, 0.1], [0.9, 1.0, 0.3, 0.2], [0.2, 0.3, 1.0, 0.25], [0.1, 0.2, 0.25, 1.0]])
    >>> scores = retrieval_scores(S, ["fault", "fault", "salt", "salt"])
    >>> scores["RA"], scores["MAP"], scores["AUC"]
    (0.75, 0.875, 0.875)
    """
    S, names, codes = _check_square(S, classes)
    n, counts = len(S), np.bincount(codes)
    if counts.min() < 2:
        raise ValueError(
            f"Class {names[counts.argmin()]!r} has a single image; retrieval needs two or more of each class."
        )
    precision, average, accuracy = np.zeros((len(names), n - 1)), np.empty(n), np.empty(n)
    depth = np.arange(1, n)
    for rows in spans(n, max(1, _BLOCK // n)):
        same = _relevant(S, codes, rows)
        at = np.cumsum(same, axis=1) / depth
        average[rows] = (at * same).sum(1) / (counts[codes[rows]] - 1)
        accuracy[rows] = at[np.arange(len(at)), counts[codes[rows]] - 2]
        precision += (codes[rows] == np.arange(len(names))[:, None]) @ at
    auc, roc = _roc(S, codes)
    return {
        "RA": float(accuracy.mean()),
        "MAP": float(average.mean()),
        "AUC": auc,
        "AUC_row": _roc(_row_normalised(S), codes)[0],
        "precision": precision.sum(0) / n,
        "RA_by_class": {name: float(accuracy[codes == c].mean()) for c, name in enumerate(names)},
        "precision_by_class": dict(zip(names, precision / counts[:, None], strict=True)),
        "roc": roc,
    }


def cluster_scores(S: Array, classes: npt.ArrayLike, *, random_state: int = 0, seeds: int = 10) -> dict[str, Any]:
    """Score a similarity matrix by clustering: multidimensional scaling to a plane, k-means, Rand index.

    The Rand index in the plane is unstable, so it is averaged over k-means runs with different seeds.

    Parameters
    ----------
    S : array, shape (n, n)
        Similarities; the dissimilarities 1 - S are made symmetric.
    classes : sequence, shape (n,)
        Class of every image; the number of clusters is the number of classes.
    random_state : int
        First seed; the runs use ``random_state``, ``random_state + 1``, ...
    seeds : int
        Number of k-means runs, each the best of 20 restarts.

    Returns
    -------
    dict
        ``rand_index`` (mean), ``rand_index_sd``, ``rand_indices`` (one per seed), ``embedding`` of shape (n, 2).

    Examples
    --------
    >>> S = np.kron(np.eye(2), np.ones((3, 3)))
    >>> cluster_scores(S, ["fault"] * 3 + ["salt"] * 3)["rand_index"]
    1.0
    """
    S, names, codes = _check_square(S, classes)
    plane = _embed(1 - S.astype(np.float64))
    with one_blas_thread():  # too little work for several threads
        clusters = [
            KMeans(len(names), n_init=20, random_state=random_state + i).fit_predict(plane) for i in range(seeds)
        ]
    runs = [rand_score(codes, found) for found in clusters]
    return {
        "rand_index": float(np.mean(runs)),
        "rand_index_sd": float(np.std(runs)),
        "rand_indices": runs,
        "embedding": plane,
    }


def _check_square(S: Array, classes: npt.ArrayLike) -> tuple[np.ndarray, list[Any], np.ndarray]:
    S, classes = to_numpy(S), np.asarray(classes)
    if S.ndim != 2 or S.shape != (len(classes), len(classes)):
        raise ValueError(f"S has shape {S.shape} for {len(classes)} classes; pass a square matrix, one class per row.")
    if not np.isfinite(S).all():
        raise ValueError("S holds NaN or infinite values; pass finite similarities.")
    names, codes = np.unique(classes, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"Every image has the class {names.tolist()}; scores need two classes or more.")
    return S, names.tolist(), codes


def _relevant(S: np.ndarray, codes: np.ndarray, rows: slice) -> Array:
    """Return a mask, shape (n_queries, n - 1): whether the image at each rank has the query's class.

    The queries are the `rows` of the similarity matrix; a query itself is not ranked.
    """
    distance = -S[rows]
    queries = np.arange(len(S))[rows]
    distance[np.arange(len(distance)), queries] = -np.inf
    return codes[np.argsort(distance, axis=1, kind="stable")[:, 1:]] == codes[rows, None]


def _row_normalised(S: np.ndarray) -> Array:
    low = S.min(1, keepdims=True)
    reach = np.diag(S)[:, None] - low
    return (S - low) / np.where(reach > 0, reach, 1)


def _roc(S: np.ndarray, codes: np.ndarray) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """Return the exact area under the ROC curve of all ordered pairs of images, and points on this curve."""
    pairs = ~np.eye(len(S), dtype=bool)
    false, true, _ = roc_curve((codes[:, None] == codes)[pairs], S[pairs])
    shown = np.unique(np.linspace(0, len(false) - 1, 400).astype(int))
    return float(auc(false, true)), (false[shown], true[shown])


def _embed(D: np.ndarray) -> Array:
    """Return points in a plane, shape (n, 2), from dissimilarities `D` by classical multidimensional scaling.

    Each axis is mirrored if necessary, so that its value with the largest magnitude is positive.
    """
    D = (0.5 * (D + D.T)) ** 2
    D -= D.mean(0)
    D -= D.mean(1, keepdims=True)
    values, vectors = _leading_two(-0.5 * D)
    plane = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0))
    return plane * np.where(plane[np.abs(plane).argmax(0), [0, 1]] < 0, -1, 1)


def _leading_two(B: np.ndarray) -> Any:
    """Return the two largest eigenvalues of a symmetric matrix, ascending, and their eigenvectors."""
    n = len(B)
    if n < 1000:
        return scipy.linalg.eigh(B, subset_by_index=[n - 2, n - 1])
    # Lanczos: 1 s instead of a minute for 4000 images; a fixed start vector makes results repeatable
    return scipy.sparse.linalg.eigsh(B, k=2, which="LA", v0=np.random.default_rng(0).normal(size=n))
