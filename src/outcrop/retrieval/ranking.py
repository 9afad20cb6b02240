"""Retrieval of the patches most similar to exemplars: how many, in which order, and with which class."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from outcrop.measures.curvelet_svd import CurveletSVD
from outcrop.parallel import memory_budget
from outcrop.retrieval import graph
from outcrop.retrieval.assignment import (
    ACCEPTED_BONUS,
    BACKGROUND_PENALTY,
    OVERLAP_PENALTY,
    Overlap,
    assign,
    choose,
    falling_rows,
)
from outcrop.retrieval.counts import NEAREST, Count, auto_count, counts_of, highest
from outcrop.retrieval.exemplars import exemplar_patch, rows_near
from outcrop.retrieval.feedback import number_most_informative
from outcrop.retrieval.index import USED, Index
from outcrop.retrieval.search import search_index
from outcrop.retrieval.weak import WeakLabels
from outcrop.words import counted

RANKINGS = ("graph", "similarity")
RANKING = 45  # measured number of bytes that ranking needs for each patch and class
CANDIDATES, MOST_CANDIDATES = 8192, 32768  # least and most candidates (patches in the graph) of a large index
TIMES = 4  # number of candidates, as a multiple of the requested patches
ANYWHERE = 0.25  # share of candidates that are drawn from the whole survey

Requests = list[tuple[str, np.ndarray, int]]  # class, positions of its queries, number of patches
Verdicts = Mapping[str, Any]  # class -> rows of the grid that were judged
Places = Mapping[str, Sequence[Sequence[Any]]]  # class -> (inline, crossline, time, direction) of judged patches
ByClass = dict[str, np.ndarray]


def retrieve(
    index: Index,
    exemplars: Mapping[str, Sequence[Sequence[float]]],
    count: Count = "auto",
    *,
    per_exemplar: bool = False,
    ranking: str | None = None,
    background: str | None = "other",
    device: str | None = None,
    accepted: Places | None = None,
    rejected: Places | None = None,
) -> WeakLabels:
    """Retrieve the patches most similar to the exemplars of each class.

    Parameters
    ----------
    index : Index
        Index of the volume.
    exemplars : dict
        Class name -> list of exemplars: centres (inline, crossline, time) at which patches are cut, or arrays of the
        patch size with values in [0, 1]. A 2-D DataArray with ``attrs["sample_interval"]`` (ms or m) and
        ``attrs["trace_spacing"]`` (m) is resampled to the sample interval and trace spacing of the volume.
    count : int, dict or "auto"
        Number of patches for every class, or class name -> number; ``auto`` is the number from `auto_count`.
    per_exemplar : bool
        True: every exemplar of a class retrieves an equal part of the count. False: the count applies to the whole
        class, and a patch is compared with the most similar exemplar.
    ranking : {"graph", "similarity"}, optional
        ``graph``: by the share of the class when evidence from exemplars and verdicts spreads over a graph that links
        similar patches, and with patches spread over the survey; see `outcrop.retrieval.graph`. ``similarity``: by the
        similarity to the nearest exemplar, as in the paper. By default ``similarity`` for an index with the paper's
        measure, ``graph`` otherwise.
    background : str, optional
        Class of everything else in the survey; with ranking ``graph`` its patches are spread farther apart. None if no
        class is the background.
    device : str, optional
        A torch device to search on, for instance ``cuda``; by default NumPy on all cores.
    accepted, rejected : dict, optional
        Class name -> positions (inline, crossline, time, direction) of patches that an interpreter accepted or rejected
        for this class. A verdict applies to the patch of the index that nearly covers its position (see `rows_near`):
        accepted patches come first in their class, rejected patches are not retrieved for that class again. If the
        index has no such patch, a patch is cut at the position; it serves as a further exemplar, or as a counterexample
        of the class.

    Returns
    -------
    WeakLabels

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = oc.build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> weak = retrieve(index, {"fault": [(100, 330, 100)], "other": [(101, 330, 200)]}, count=3)
    >>> weak.classes.tolist()
    ['fault', 'fault', 'fault', 'other', 'other', 'other']
    """
    ranking = ranking or ("similarity" if isinstance(index.measure, CurveletSVD) else "graph")
    if ranking not in RANKINGS:
        raise ValueError(f"ranking is {ranking!r}; choose one of {', '.join(RANKINGS)}.")
    if not exemplars or not all(len(places) for places in exemplars.values()):
        raise ValueError(
            "Every class needs at least one exemplar; give some as {'fault': [(inline, crossline, time)]}."
        )
    yes, further_queries = _verdict_rows(index, accepted or {}, exemplars)
    no, counterexamples = _verdict_rows(index, rejected or {}, exemplars)
    queries = {}
    for name, places in exemplars.items():
        patches = np.stack([exemplar_patch(index, place) for place in places])
        queries[name] = np.concatenate([index.measure.describe(patches), further_queries[name]])
    need = len(index) * (4 * sum(map(len, queries.values())) + RANKING * len(queries))
    if need > (index.memory or memory_budget()):
        raise ValueError(
            f"Ranking {len(index)} patches for {len(queries)} classes needs about {need / 1e9:.1f} GB, more than "
            "the limit of memory; allow more memory, or index fewer lines (option every)."
        )
    usable = int((index.status == USED).sum())
    if not usable:
        raise ValueError(
            f"None of the {counted(len(index), 'patches')} of the index can be used: they touch missing samples, or "
            "are muted, water or constant; check the amplitudes of the volume with 'outcrop info'."
        )
    near = _similarities(index, queries, device)
    similarity = {name: found.max(axis=1) for name, found in near.items()}
    ninth = min(max(3, usable // NEAREST), usable)
    suggested = {name: auto_count(highest(values, ninth), usable) for name, values in similarity.items()}
    counts = counts_of(count, suggested, yes, usable=usable)
    requests = search_requests(near, counts, per_exemplar)
    if ranking == "graph":
        against = _similarities(index, {name: some for name, some in counterexamples.items() if len(some)}, device)
        weak = _collect(index, requests, near, *_by_graph(index, near, requests, background, against, yes, no))
        number_most_informative(index, weak, [*yes.values(), *no.values()])
    else:
        values = _with_verdicts(_values(near, requests), requests, yes, no)
        chosen = assign(values, [n for *_, n in requests])
        weak = _collect(index, requests, near, chosen, [np.ones(len(rows)) for rows in chosen])
    _check_found(weak, near, no)
    for name, rows in yes.items():
        weak.weights[(weak.classes == name) & np.isin(weak.rows, rows)] = 1
    weak.curves = {name: highest(similarity[name], min(10 * n, usable)) for name, n in counts.items()}
    weak.suggested, weak.accepted, weak.rejected = suggested, yes, no
    return weak


def _verdict_rows(index: Index, verdicts: Places, classes: Iterable[str]) -> tuple[dict[str, list[int]], ByClass]:
    """Return two dicts for judged patches.

    The first is: class -> rows of the judged patches that are in the index. The second is: class -> descriptors of the
    other judged patches.
    """
    rows: dict[str, list[int]] = {}
    others: ByClass = {}
    for name in classes:
        starts = []
        for place in verdicts.get(name, []):
            with suppress(ValueError):  # the patch of this size does not fit into the volume
                starts.append(index.grid.start_at(place[:3], along=place[3]))
        inside = np.array(starts, int).reshape(-1, 4)
        near = rows_near(index.grid, inside)
        used = (near >= 0) & (index.status[near] == USED)
        rows[name] = sorted(set(near[used].tolist()))
        patches = index.grid.cut(index.volume, inside[~used])
        patches = patches[np.isfinite(patches).all(axis=(1, 2))]
        none = np.empty((0, index.features.shape[1]), "f4")
        others[name] = index.measure.describe(patches) if len(patches) else none
    return rows, others


def search_requests(near: ByClass, counts: Mapping[str, int], per_exemplar: bool) -> Requests:
    """Return the search requests: one for each class or, if `per_exemplar` is True, one for each query of a class.

    A request consists of the class, the positions of its queries (exemplars) and the number of patches.
    """
    requests: Requests = []
    for name, found in near.items():
        queries = np.arange(found.shape[1])
        groups = np.split(queries, len(queries)) if per_exemplar else [queries]
        shares = [len(part) for part in np.array_split(range(counts[name]), len(groups))]
        requests += [(name, group, n) for group, n in zip(groups, shares, strict=True) if n]
    return requests


def _check_found(weak: WeakLabels, classes: Iterable[str], rejected: Verdicts) -> None:
    """Raise `ValueError` if a class has no patch in the result."""
    for name in set(classes) - set(weak.classes):
        if rejected[name]:
            raise ValueError(
                f"No patch of {name!r} is left: {counted(len(rejected[name]), 'patches', 'were')} rejected and the "
                "others are more similar to another class; undo verdicts (all: --forget, Job.forget()), or choose "
                "another exemplar."
            )
        raise ValueError(f"No patch is more similar to {name!r} than to other classes; choose another exemplar.")


def _similarities(index: Index, queries: ByClass, device: str | None) -> ByClass:
    """Return a dict: class -> similarity of every patch to each query of the class; -1 without a descriptor."""
    if not queries:
        return {}
    scores = search_index(index, np.concatenate(list(queries.values())), device=device)
    ends = np.cumsum([len(some) for some in queries.values()])[:-1]
    return dict(zip(queries, np.split(scores, ends, axis=1), strict=True))


def _values(near: ByClass, requests: Requests) -> np.ndarray:
    """Return the similarity of every patch to the most similar query of each request, shape (n, n_requests)."""
    return np.stack([near[name][:, queries].max(axis=1) for name, queries, _ in requests], axis=1)


def _with_verdicts(values: np.ndarray, requests: Requests, accepted: Verdicts, rejected: Verdicts) -> np.ndarray:
    """Change the values of judged patches in place, and return the values.

    Accepted patches come first in the requests of their class and are excluded from others. Rejected patches are
    excluded from the requests of the class for which they were rejected.
    """
    for w, (name, *_) in enumerate(requests):
        for other, rows in accepted.items():
            values[rows, w] = values[rows, w] + ACCEPTED_BONUS if other == name else -1
        values[rejected[name], w] = -1
    return values


def _by_graph(
    index: Index,
    near: ByClass,
    requests: Requests,
    background: str | None,
    against: ByClass,
    yes: Verdicts,
    no: Verdicts,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return two lists: for each request, rows of the patches that the ranking by graph chooses, and their weights.

    These patches have the largest shares of the class in the evidence, and are spread over the survey.
    """
    counts = [n for *_, n in requests]
    judged = [row for verdicts in (yes, no) for rows in verdicts.values() for row in rows]
    rows = _candidates(index, near, TIMES * sum(counts), judged)
    accepted, rejected = (
        {name: np.searchsorted(rows, np.array(some, int)) for name, some in given.items()} for given in (yes, no)
    )
    if not index._graph or not np.array_equal(index._graph[0], rows):  # verdicts change neither links nor overlaps
        features = np.ascontiguousarray(index.descriptors(rows))
        index._graph = rows, graph.link_matrix(*graph.nearest(features, index.edges)), Overlap(index.grid, rows)
    _, matrix, overlap = index._graph
    shares = _shares(rows, matrix, near, requests, against, accepted, rejected)
    values = _with_verdicts(shares.copy(), requests, accepted, rejected)
    chosen = choose(
        values,
        counts,
        overlap,
        penalties=[BACKGROUND_PENALTY if name == background else OVERLAP_PENALTY for name, *_ in requests],
    )
    chosen = [some[np.argsort(-values[some, w], kind="stable")] for w, some in enumerate(chosen)]
    likely = [np.clip(shares[some, w], 1e-3, 1) for w, some in enumerate(chosen)]
    chosen = [rows[some] for some in chosen]
    missing = [n - len(some) for n, some in zip(counts, chosen, strict=True)]
    if any(missing):  # too few candidates, so the most similar of the other rows follow
        values = _values(near, requests)
        values[rows] = -1
        more = assign(values, missing)
        likely = [
            np.append(some, np.full(len(new), some.min(initial=1.0))) for some, new in zip(likely, more, strict=True)
        ]
        chosen = [np.append(some, new) for some, new in zip(chosen, more, strict=True)]
    return chosen, likely


def _candidates(index: Index, near: ByClass, count: int, judged: list[int]) -> np.ndarray:
    """Return the sorted rows of the patches that form the graph.

    In a small index these are all usable patches; otherwise the patches most similar to each class, random patches and
    the judged patches.
    """
    usable = np.flatnonzero(index.status == USED)
    count = int(np.clip(count, CANDIDATES, MOST_CANDIDATES))
    if len(usable) <= count:
        return usable
    each = int((1 - ANYWHERE) * count / len(near))
    parts = [falling_rows(found.max(axis=1), each)[:each] for found in near.values()]
    anywhere = np.random.default_rng(0).choice(usable, int(ANYWHERE * count), replace=False)
    return np.unique(np.concatenate([*parts, anywhere, np.array(judged, int)]))


def _shares(
    rows: np.ndarray,
    matrix: csr_matrix,
    near: ByClass,
    requests: Requests,
    against: ByClass,
    yes: Verdicts,
    no: Verdicts,
) -> np.ndarray:
    """Spread the evidence of exemplars and verdicts over a graph that links similar patches.

    A request is one class and its exemplars. The patches of the graph, the candidates, have the numbers `rows` in the
    index. `yes` and `no` map each class to the positions in `rows` of its accepted and rejected patches; `against` maps
    a class to the similarity of all patches to its counterexamples.

    Returns
    -------
    array, shape (n_candidates, n_requests)
        For each candidate, the part of its evidence that comes from each request.
    """
    exemplars, accepted, rejected = (np.zeros((len(rows), len(requests))) for _ in range(3))
    for w, (name, queries, _) in enumerate(requests):
        exemplars[:, w] = np.mean([graph.exemplar_weights(near[name][rows, q]) for q in queries], axis=0)
        accepted[yes[name], w] = 1
        rejected[no[name], w] = 1
        for similarity in against[name][rows].T if name in against else ():
            rejected[:, w] += graph.exemplar_weights(similarity)
    return graph.shares(matrix, exemplars, accepted, rejected)


def _collect(
    index: Index, requests: Requests, near: ByClass, chosen: list[np.ndarray], likely: list[np.ndarray]
) -> WeakLabels:
    """Return the chosen patches of all requests as weak labels, sorted by class."""
    parts = []
    for (name, queries, _), rows, weights in zip(requests, chosen, likely, strict=True):
        similarity = near[name][rows][:, queries]
        found = {"row": rows, "class": name, "similarity": similarity.max(axis=1), "weight": weights}
        found |= {"exemplar": queries[similarity.argmax(axis=1)], "order": np.arange(len(rows))}
        parts.append(pd.DataFrame(found | {"class_order": list(near).index(name)}))
    table = pd.concat(parts).sort_values(["class_order", "order", "exemplar"], kind="stable")
    rows, classes = table["row"].to_numpy(int), table["class"].to_numpy(str)
    weights = table["weight"].to_numpy(float, copy=True)
    starts, similarity = index.grid.places(rows), table["similarity"].to_numpy()
    return WeakLabels(rows, classes, similarity, table["exemplar"].to_numpy(), starts, index.grid, weights=weights)
