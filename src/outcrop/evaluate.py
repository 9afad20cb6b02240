"""How good it is: scores of a similarity matrix (retrieval, clustering) and of pixel labels against an expert's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.linalg
from scipy import ndimage
from sklearn.cluster import KMeans
from sklearn.metrics import rand_score

from outcrop.arrays import Array, to_numpy
from outcrop.mapping.scores import UNCERTAIN, find_background, labelled
from outcrop.parallel import one_blas_thread, spans

UNLABELLED = (0, UNCERTAIN, -1)  # codes that name no class; -1 is uncertain in SEG-Y of signed bytes
_BLOCK = 4_000_000  # numbers worked on at a time: a few dozen MB


def retrieval_scores(S: Array, classes: npt.ArrayLike) -> dict[str, Any]:
    """Score a similarity matrix by retrieval: every image asks for the others of its class.

    Parameters
    ----------
    S : array, shape (n, n)
        Similarity of query (row) and candidate (column), higher is more similar; the diagonal is never ranked.
    classes : sequence, shape (n,)
        Class of every image; each class has two images or more.

    Returns
    -------
    dict
        ``RA`` retrieval accuracy, ``MAP`` mean average precision, ``AUC`` probability that a pair of one class scores
        above a pair of two (ties count one half), ``AUC_row`` the same after every row is scaled to 0 at its least
        similar image and 1 at the query itself, ``precision`` P@M for M = 1 .. n - 1, ``RA_by_class`` and
        ``precision_by_class``, ``roc`` the pair (false, true positive rate), thinned to a few hundred points.

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
    """Score a similarity matrix by clustering: images in a plane by classical scaling, k-means, Rand index.

    The Rand index in the plane is unstable, so it is the mean over k-means runs that differ in their seed alone.

    Parameters
    ----------
    S : array, shape (n, n)
        Similarities; the dissimilarities 1 - S are made symmetric.
    classes : sequence, shape (n,)
        Class of every image; there are as many clusters as classes.
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
    with one_blas_thread():  # points in a plane are too little work for threads
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


def weak_label_scores(weak, grid, truth, *, share=0.2, background=None):
    """Which retrieved patches really show their class, by the truth of their pixels.

    Parameters
    ----------
    weak : WeakLabels
        What was retrieved.
    grid : PatchGrid
        Where the patches lie.
    truth : DataArray
        Codes on the axes of the volume (some lines are enough), with ``attrs["classes"]``; 0 and 255 are unknown.
    share : float
        A patch shows a structure that fills at least this share of it, and the background where at most this share is
        not.
    background : str, optional
        Class of the truth that is the background; by default the one with a common name, as `find_background` has it.

    Returns
    -------
    dict
        Class -> array of 1 (shows it), 0 (does not) and NaN (truth unknown on most of the patch), by rank.
    """
    names = list(truth.attrs["classes"])
    background = find_background(names, background)
    known, starts = grid.centres(weak.rows)["inline"].isin(truth["inline"].values).to_numpy(), grid.places(weak.rows)
    shown = np.full(len(weak), np.nan)
    full = truth.reindex(inline=grid.axes[0][np.unique(starts[known, 1])], fill_value=0)
    for i in np.flatnonzero(known):
        _, line, trace, top = starts[i]
        patch = full.sel(inline=grid.axes[0][line]).values[trace : trace + grid.size[1], top : top + grid.size[0]]
        if labelled(patch).mean() > 0.5:
            share_of_class = (patch == names.index(weak.classes[i]) + 1).sum() / labelled(patch).sum()
            shown[i] = share_of_class >= (1 - share if weak.classes[i] == background else share)
    return {str(name): shown[weak.classes == name] for name in dict.fromkeys(weak.classes)}


def pixel_scores(labels: Any, truth: Any, classes: Sequence[str] | None = None, *, band: int = 0) -> dict[str, Any]:
    """Score pixel labels against an expert's, class by class.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, same shape
        Codes of the classes; 0 (not labelled), 255 and -1 (uncertain) name none, in labels as in the truth. Two arrays
        that carry names in ``attrs["classes"]`` are matched by name, two with coordinates are compared where both have
        samples.
    classes : sequence of str or mapping of int to str, optional
        Names of the codes 1, 2, ... (or code -> name) of arrays that carry none; without any, classes go by their code.
    band : int
        Leave out the pixels that lie within so many rows and columns of another true class.

    Returns
    -------
    dict
        ``PA`` pixel accuracy, ``MA`` mean recall, ``MIU`` mean and ``FWIU`` frequency-weighted intersection over union,
        ``IU`` by class name, ``coverage`` share of the pixels that got a label, ``confusion`` of shape
        (n_classes, 1 + n_classes), counts of true class by label with the unlabelled first, and ``classes``, the names
        of its rows.

    Notes
    -----
    A pixel without a label counts as wrong. Means run over the classes present in the truth.

    Examples
    --------
    >>> scores = pixel_scores([[1, 1, 2, 0]], [[1, 2, 2, 2]], ["other", "fault"])
    >>> scores["PA"], scores["IU"], scores["coverage"]
    (0.5, {'other': 0.5, 'fault': 0.3333333333333333}, 0.75)
    """
    sections, names = _sections(labels, truth, classes)
    n = 1 + len(names)
    confusion = np.zeros((n, n), np.int64)
    for found, true in sections:
        if band:
            true = np.where(_near_boundary(true, band), 0, true)
        confusion += np.bincount((n * true + found).ravel(), minlength=n * n).reshape(n, n)
    confusion = confusion[1:]
    if not confusion.any():
        raise ValueError(
            "The truth says nothing about these pixels (every code is 0); pass a truth with codes of 1 or more."
        )
    right, true = np.diag(confusion[:, 1:]), confusion.sum(1)
    present = true > 0
    union = (true + confusion[:, 1:].sum(0) - right)[present]
    iu = right[present] / union
    return {
        "PA": float(right.sum() / true.sum()),
        "MA": float((right[present] / true[present]).mean()),
        "MIU": float(iu.mean()),
        "FWIU": float(iu @ true[present] / true.sum()),
        "IU": {name: float(value) for name, value in zip(np.array(names, object)[present], iu, strict=True)},
        "coverage": float(confusion[:, 1:].sum() / true.sum()),
        "confusion": confusion,
        "classes": names,
    }


def boundary_distance(labels, truth, name, *, classes=None, spacing=(1.0, 1.0)):
    """Distance between the labelled and the true boundary of a body, down the trace and across the traces.

    Every boundary pixel of one is joined to the nearest boundary pixel (in pixels) of the other, both ways; sections
    where either shows no boundary are left out, as are edges of the section and of what the truth says.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, shape (..., rows, columns)
        Codes of the classes, as in `pixel_scores`; rows are time or depth, columns traces.
    name : str or int
        Class of the body.
    classes : sequence or mapping, optional
        As in `pixel_scores`.
    spacing : (float, float)
        Step from row to row and from column to column, for example 4 (ms) and 25 (m).

    Returns
    -------
    dict
        ``pixels`` (straight line), ``vertical`` and ``horizontal`` (its two parts, times the spacing), each the pair
        (median, 95 % quantile), NaN where no section shows both boundaries; ``sections``, how many do.

    Examples
    --------
    >>> found, true = np.ones((2, 9, 9), int)
    >>> found[:5], true[:3] = 2, 2
    >>> boundary_distance(found, true, 2, spacing=(4.0, 25.0))["vertical"]
    (8.0, 8.0)
    """
    sections, names = _sections(labels, truth, classes)
    code, steps = _code(name, names), []
    for found, true in sections:
        edges = [_edge(x == code, true > 0) for x in (found, true)]
        if edges[0].any() and edges[1].any():
            steps.append(np.hstack([_nearest_steps(*edges), _nearest_steps(*edges[::-1])]))
    down, across = np.hstack(steps) if steps else np.full((2, 1), np.nan)
    distances = {"pixels": np.hypot(down, across), "vertical": down * spacing[0], "horizontal": across * spacing[1]}
    return {k: tuple(np.quantile(d, [0.5, 0.95]).tolist()) for k, d in distances.items()} | {"sections": len(steps)}


def zone_scores(labels, truth, name, *, classes=None, overlap=0.5):
    """Count the connected zones of a class that were found, and the labelled zones with nothing behind them.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, shape (..., rows, columns)
        Codes of the classes, as in `pixel_scores`; zones connect within a section, corners included.
    name : str or int
        Class of the zones.
    classes : sequence or mapping, optional
        As in `pixel_scores`.
    overlap : float
        A true zone is hit when labels cover at least this share of it; a labelled zone is a false alarm when
        less than this share of it is true.

    Returns
    -------
    dict
        ``zones`` and ``hits`` (true zones, those hit), ``alarms`` and ``false_alarms`` (labelled zones, false ones).

    Examples
    --------
    >>> zone_scores([[2, 2, 1, 2, 1]], [[2, 2, 1, 1, 1]], 2)
    {'zones': 1, 'hits': 1, 'alarms': 2, 'false_alarms': 1}
    """
    sections, names = _sections(labels, truth, classes)
    code, counts = _code(name, names), np.zeros(4, int)
    for found, true in sections:
        labelled, real = (found == code) & (true > 0), true == code
        hit, backed = _zone_shares(real, labelled) >= overlap, _zone_shares(labelled, real) >= overlap
        counts += len(hit), hit.sum(), len(backed), (~backed).sum()
    return dict(zip(["zones", "hits", "alarms", "false_alarms"], counts.tolist(), strict=True))


def calibration_error(confidence, correct, *, bins=15):
    """Mean gap between confidence and accuracy over equal-width bins of confidence, weighted by count.

    Parameters
    ----------
    confidence : array of float in [0, 1]
        Confidence of the labelled pixels (leave `uncertain` ones out).
    correct : array of bool, same shape
        Whether the label is right.
    bins : int
        Number of bins.

    Examples
    --------
    >>> calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False])
    0.15
    """
    confidence, correct = _check_confidence(confidence, correct)
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(bin_of, correct, bins) - np.bincount(bin_of, confidence, bins)
    return float(np.abs(gap).sum() / confidence.size)


def risk_coverage(confidence, correct, *, points=200):
    """Share of wrong labels among the surest pixels, as more and more of the pixels are kept.

    Parameters
    ----------
    confidence : array of float in [0, 1]
        Confidence of the labelled pixels.
    correct : array of bool, same shape
        Whether the label is right.
    points : int
        The curve is thinned to about so many points.

    Returns
    -------
    coverage, risk : array
        Share of the pixels kept, rising to 1, and share of these that is wrong. Equally sure pixels are kept together.

    Examples
    --------
    >>> risk_coverage([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    (array([0.25, 0.75, 1. ]), array([0. , 0.333, 0.5 ]))
    """
    confidence, correct = _check_confidence(confidence, correct)
    order = np.argsort(-confidence, kind="stable")
    last = np.flatnonzero(np.diff(confidence[order], append=-1))  # last pixel of every run of equals
    last = last[np.unique(np.linspace(0, len(last) - 1, points).round().astype(int))]
    kept = last + 1
    return kept / confidence.size, np.cumsum(~correct[order])[last] / kept


def _check_square(S, classes):
    S, classes = to_numpy(S), np.asarray(classes)
    if S.ndim != 2 or S.shape != (len(classes), len(classes)):
        raise ValueError(f"S has shape {S.shape} for {len(classes)} classes; pass a square matrix, one class per row.")
    if not np.isfinite(S).all():
        raise ValueError("S holds NaN or infinite values; pass finite similarities.")
    names, codes = np.unique(classes, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"Every image has the class {names.tolist()}; scores need two classes or more.")
    return S, names.tolist(), codes


def _relevant(S, codes, rows):
    """Whether the candidate at every rank has the query's class, the query itself left out."""
    distance = -S[rows]
    queries = np.arange(len(S))[rows]
    distance[np.arange(len(distance)), queries] = -np.inf
    return codes[np.argsort(distance, axis=1, kind="stable")[:, 1:]] == codes[rows, None]


def _row_normalised(S):
    low = S.min(1, keepdims=True)
    reach = np.diag(S)[:, None] - low
    return (S - low) / np.where(reach > 0, reach, 1)


def _roc(S, codes):
    """Exact area under the ROC curve over all ordered pairs of different images, and the curve thinned."""
    same = codes[:, None] == codes
    other = np.sort(S[~same])
    np.fill_diagonal(same, False)
    alike = np.sort(S[same])
    below = np.searchsorted(other, alike, "left").sum() + np.searchsorted(other, alike, "right").sum()
    marks = [x[np.linspace(0, x.size - 1, 200).astype(int)] for x in (alike, other)]
    thresholds = np.unique(np.concatenate(marks))[::-1]
    rates = [np.append(0.0, 1 - np.searchsorted(x, thresholds, "left") / x.size) for x in (other, alike)]
    return float(below / 2 / alike.size / other.size), tuple(rates)


def _embed(D):
    """Classical multidimensional scaling to the plane; the largest coordinate of an axis is positive."""
    D = (0.5 * (D + D.T)) ** 2
    D -= D.mean(0)
    D -= D.mean(1, keepdims=True)
    values, vectors = _leading_two(-0.5 * D)
    plane = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0))
    return plane * np.where(plane[np.abs(plane).argmax(0), [0, 1]] < 0, -1, 1)


def _leading_two(B):
    """The two largest eigenvalues of a symmetric matrix, ascending, and their vectors."""
    n = len(B)
    if n < 1000:
        return scipy.linalg.eigh(B, subset_by_index=[n - 2, n - 1])
    # Lanczos: 1 s instead of a minute for 4000 images; a fixed start keeps the answer the same from run to run
    return scipy.sparse.linalg.eigsh(B, k=2, which="LA", v0=np.random.default_rng(0).normal(size=n))


def _sections(labels, truth, classes):
    """Pairs of sections (rows, columns) read one at a time, in the codes 1 .. n of one list of names, and that list."""
    if hasattr(labels, "coords") and hasattr(truth, "coords"):
        labels, truth = _shared_samples(labels, truth)
    pair = [x if hasattr(x, "coords") else to_numpy(x) for x in (labels, truth)]
    if pair[0].shape != pair[1].shape:
        raise ValueError(
            f"Labels have shape {pair[0].shape}, the truth {pair[1].shape}; pass arrays of the same samples."
        )
    tables = [_table(getattr(x, "attrs", {}).get("classes", classes)) for x in pair]
    if not any(tables):
        tables[0] = {code: code for code in np.union1d(*pair).tolist() if code not in UNLABELLED}
    found, true = tables[0] or tables[1], tables[1] or tables[0]
    names = list(dict.fromkeys([*true.values(), *found.values()]))
    sections = (
        (_recode(pair[0][i], found, names, "labels"), _recode(pair[1][i], true, names, "truth"))
        for i in np.ndindex(pair[0].shape[:-2])
    )
    return sections, names


def _shared_samples(labels, truth):
    labels = labels.transpose(*truth.dims)
    shared = {d: np.intersect1d(labels[d], truth[d]) for d in truth.dims if d in labels.coords and d in truth.coords}
    if any(len(values) == 0 for values in shared.values()):
        empty = [d for d, values in shared.items() if len(values) == 0]
        raise ValueError(f"Labels and truth share no {empty[0]}; pass a truth that lies on the labelled lines.")
    return labels.sel(shared), truth.sel(shared)


def _table(classes):
    """Code -> name."""
    if classes is None:
        return {}
    pairs = classes.items() if isinstance(classes, Mapping) else enumerate(classes, 1)
    return {int(code): name for code, name in pairs if int(code)}


def _recode(section, table, names, what):
    section = np.atleast_2d(section)
    out = np.where(np.isin(section, UNLABELLED), 0, -1)
    for code, name in table.items():
        out[section == code] = 1 + names.index(name)
    if out.min(initial=0) < 0:
        odd = section[out < 0][0]
        raise ValueError(f"The {what} hold code {odd}, the named codes are {sorted(table)}; name every code.")
    return out


def _code(name, names):
    if name not in names:
        raise ValueError(f"No class is called {name!r}; choose one of {names}.")
    return 1 + names.index(name)


def _near_boundary(truth, band):
    """Pixels with another true class at most `band` rows and columns away; code 0 makes no boundary."""
    size = 2 * band + 1
    lowest = ndimage.minimum_filter(np.where(truth == 0, truth.max(), truth), size, mode="nearest")
    return lowest != ndimage.maximum_filter(truth, size, mode="nearest")


def _edge(body, known):
    return body & known & ndimage.binary_dilation(known & ~body)


def _nearest_steps(edge, other):
    """Rows and columns from every pixel of one edge to the nearest pixel of the other, shape (2, pixels)."""
    nearest = ndimage.distance_transform_edt(~other, return_distances=False, return_indices=True)
    return np.abs(nearest[:, edge] - np.argwhere(edge).T)


def _zone_shares(zones, cover):
    """Share of every connected zone that is covered."""
    zone, n = ndimage.label(zones, np.ones((3, 3)))
    return ndimage.mean(cover, zone, np.arange(1, n + 1)) if n else np.empty(0)


def _check_confidence(confidence, correct):
    confidence, correct = np.ravel(to_numpy(confidence)), np.ravel(to_numpy(correct)).astype(bool)
    if confidence.size != correct.size or not confidence.size:
        raise ValueError(f"{confidence.size} confidences for {correct.size} labels; pass one for each labelled pixel.")
    if not (confidence.min() >= 0 and confidence.max() <= 1):
        span = f"{confidence.min()} to {confidence.max()}"
        raise ValueError(f"Confidence runs from {span}; scale it to [0, 1] (divide uint8 confidence by 255).")
    return confidence, correct
