"""The patches that look like an interpreter's exemplars: how many of them, in which order, each for one class only."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from outcrop.measures.curvelet_svd import CurveletSVD
from outcrop.parallel import memory_budget
from outcrop.retrieval import graph
from outcrop.retrieval.assignment import (
    APART,
    BACKGROUND_APART,
    SURE,
    Overlap,
    assign,
    choose,
    falling_rows,
    near_copies,
    wanted_rows,
)
from outcrop.retrieval.counts import NEAREST, auto_count, counts_of, highest
from outcrop.retrieval.exemplars import exemplar_patch, rows_near
from outcrop.retrieval.feedback import number_most_telling
from outcrop.retrieval.index import USED, Index
from outcrop.retrieval.search import search_index
from outcrop.retrieval.weak import WeakLabels

RANKINGS = ("graph", "similarity")
RANKING = 45  # bytes a patch and class that ranking takes, measured
CANDIDATES, MOST_CANDIDATES = 8192, 32768  # patches in the graph of a large index, at least and at most
TIMES = 4  # as many of them as are asked for
ANYWHERE = 0.25  # share of them that is drawn from the whole survey


def retrieve(
    index: "Index",
    exemplars: Mapping[str, Sequence[Sequence[float]]],
    count: int | str | Mapping[str, int | str] = "auto",
    *,
    per_exemplar: bool = False,
    diverse: bool = False,
    ranking: str | None = None,
    background: str = "other",
    device: str | None = None,
    accepted: Mapping[str, Sequence[int]] | None = None,
    rejected: Mapping[str, Sequence[int]] | None = None,
) -> "WeakLabels":
    """Patches that look most like the exemplars of each class.

    Parameters
    ----------
    index : Index
        Of the volume.
    exemplars : dict
        Class name -> list of exemplars: positions (inline, crossline, time) of their centres, cut exactly there, or
        arrays of the patch size with values in [0, 1]. A 2-D DataArray with ``attrs["sample_interval"]`` (ms or m) and
        ``attrs["trace_spacing"]`` (m) is resampled to the sampling of the volume.
    count : int, dict or "auto"
        Patches for every class, or class name -> patches or ``auto``: as many as `auto_count` says.
    per_exemplar : bool
        Share the count evenly among the exemplars of a class; otherwise the best match counts.
    diverse : bool
        Skip near-copies: patches that overlap a better one by more than half within ten lines.
    ranking : {"graph", "similarity"}, optional
        ``graph``: by the share of a class in what reaches a patch when exemplars, yes and no spread over a graph of the
        patches that look most alike, and spread over the survey; see `outcrop.retrieval.graph`. ``similarity``: by the
        similarity to the nearest exemplar, as in the paper. By default ``similarity`` where the index is by the paper's
        measure, ``graph`` otherwise.
    background : str
        Class that stands for the rest of the survey: its patches are spread farther, where the ranking is by graph.
    device : str, optional
        A torch device to search on, for instance ``cuda``; by default NumPy on all cores.
    accepted, rejected : dict, optional
        Class name -> places (inline, crossline, time, direction) of patches an interpreter said yes and no to. They
        hold for the patch of the index that all but covers them (see `rows_near`); one that lies elsewhere serves as a
        further exemplar, or as something that the patches should not look like.

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
    patches = {name: np.stack([exemplar_patch(index, place) for place in some]) for name, some in exemplars.items()}
    queries = {name: index.measure.describe(some) for name, some in patches.items()}
    yes, wanted = _verdict_rows(index, accepted or {}, exemplars)
    no, unwanted = _verdict_rows(index, rejected or {}, exemplars)
    queries = {name: np.concatenate([some, wanted[name]]) for name, some in queries.items()}
    options = {"per_exemplar": per_exemplar, "diverse": diverse, "device": device}
    options |= {"ranking": ranking, "background": background}
    return _rank(index, queries, count, options=options, unwanted=unwanted, accepted=yes, rejected=no)


def _verdict_rows(index, verdicts, classes):
    """Rows that a yes or no holds for, and descriptors of the patches that are no row of the index; by class."""
    rows: dict = {name: [] for name in classes}
    others = {name: np.empty((0, index.features.shape[1]), "f4") for name in classes}
    for name in classes:
        places = verdicts.get(name, [])
        starts = [start for place in places if (start := _start(index.grid, place)) is not None]
        near = rows_near(index.grid, np.array(starts).reshape(-1, 4))
        on = (near >= 0) & (index.status[near] == USED)
        rows[name] = sorted(set(near[on].tolist()))
        if not on.all():
            patches = index.grid.cut(index.volume, np.array(starts)[~on])
            patches = patches[np.isfinite(patches).all(axis=(1, 2))]
            others[name] = index.measure.describe(patches) if len(patches) else others[name]
    return rows, others


def _start(grid, place):
    """Start of the patch around a place and direction, None where it does not fit into the volume."""
    try:
        return grid.start_at(place[:3], along=place[3])
    except ValueError:
        return None


def refine(
    index: "Index",
    weak: "WeakLabels",
    *,
    accept: Sequence[int] = (),
    reject: Sequence[int] = (),
    count: int | str | Mapping[str, int | str] | None = None,
) -> "WeakLabels":
    """Rank the patches again by an interpreter's yes and no to some of those that were retrieved.

    Parameters
    ----------
    index : Index
        Of the volume.
    weak : WeakLabels
        As `retrieve` or this function gave it.
    accept, reject : sequence of int, or dict
        Rows of `weak` that show the class they were retrieved for, and rows that do not; or class name -> rows of the
        grid. They add to the yes and no that `weak` has already; the last word on a row counts.
    count : int, dict or "auto", optional
        As in `retrieve`; by default what was asked before.

    Returns
    -------
    WeakLabels
        Accepted patches stay, first in their class. Rejected ones never come back.

    Notes
    -----
    Ranked by graph, yes and no are further sources in it; ranked by similarity they only keep and bar patches.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = oc.build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> weak = oc.retrieve(index, {"other": [(100, 330, 100)]}, count=4)
    >>> better = refine(index, weak, accept=[weak.rows[1]], reject=[weak.rows[3]])
    >>> bool(better.rows[0] == weak.rows[1]), weak.rows[3] in better.rows
    (True, False)
    """
    if not weak.request:
        raise ValueError("These weak labels were read from a file, without their exemplars; retrieve them again.")
    yes, no = _verdicts(index, weak, accept), _verdicts(index, weak, reject)
    for row in yes.keys() & no.keys():
        raise ValueError(f"Row {row} is both accepted and rejected; say one of them.")
    kept, dropped = _by_row(weak.accepted) | yes, _by_row(weak.rejected) | no
    accepted, rejected = (
        {
            name: sorted(row for row, class_of_row in rows.items() if class_of_row == name and row not in revoked)
            for name in weak.accepted
        }
        for rows, revoked in ((kept, no), (dropped, yes))
    )
    asked = weak.request | ({} if count is None else {"count": count})
    return _rank(index, **asked, accepted=accepted, rejected=rejected)


def _by_row(rows):
    """Class of every row, from the rows of every class."""
    return {int(row): str(name) for name, of_class in rows.items() for row in of_class}


def _verdicts(index, weak, rows):
    """Class of every row that a yes or no names."""
    classes = _by_row(rows) if isinstance(rows, dict) else dict.fromkeys(map(int, rows), "")
    found = dict(zip(weak.rows.tolist(), weak.classes.tolist(), strict=True))
    for row, name in classes.items():
        if not name and row not in found:
            raise ValueError(f"Row {row} is not among the retrieved patches; give numbers of their column 'row'.")
        if name and name not in weak.accepted:
            raise ValueError(f"Class {name!r} of row {row} has no exemplar; choose {', '.join(weak.accepted)}.")
        if not (0 <= row < len(index) and index.status[row] == USED):
            raise ValueError(f"Row {row} is not a patch that the index describes; check the number.")
    return {row: name or found[row] for row, name in classes.items()}


def _rank(index, queries, count, *, options, unwanted, accepted, rejected):
    """Weak labels of the classes whose exemplars have these descriptors, with what was accepted and rejected so far."""
    need = len(index) * (4 * sum(map(len, queries.values())) + RANKING * len(queries))
    if need > (index.memory or memory_budget()):
        raise ValueError(
            f"Ranking {len(index)} patches for {len(queries)} classes needs about {need / 1e9:.1f} GB, more than "
            "may be used; raise --memory, or index fewer lines (--every)."
        )
    near = _similarities(index, queries, options["device"])
    usable = int((index.status == USED).sum())
    similarity = {name: found.max(axis=1) for name, found in near.items()}
    ninth = max(3, usable // NEAREST)
    suggested = {name: auto_count(highest(values, min(ninth, usable)), usable) for name, values in similarity.items()}
    counts = counts_of(count, suggested, accepted, usable=usable)
    wants = wanted_rows(near, counts, options["per_exemplar"])
    rank = _by_graph if options["ranking"] == "graph" else _by_similarity
    chosen, likely, lost = rank(index, near, wants, options, unwanted, accepted, rejected)
    weak = _collect(index, wants, near, chosen, likely, lost)
    if options["ranking"] == "graph":
        number_most_telling(index, weak, [*accepted.values(), *rejected.values()])
    for name in set(near) - set(weak.classes):
        if rejected[name]:
            raise ValueError(
                f"No patch of {name!r} is left: {len(rejected[name])} were rejected and the others are more like "
                "another class; take verdicts back (undo, or 'outcrop retrieve --forget' for all), "
                "or choose another exemplar."
            )
        raise ValueError(f"No patch is more like {name!r} than like another class; choose another exemplar or count.")
    weak.weights[np.isin(weak.rows, [row for rows in accepted.values() for row in rows])] = 1
    weak.curves = {name: highest(similarity[name], min(10 * n, usable)) for name, n in counts.items()}
    weak.suggested, weak.accepted, weak.rejected = suggested, accepted, rejected
    weak.request = {"queries": queries, "count": count, "options": options, "unwanted": unwanted}
    return weak


def _similarities(index, queries, device=None):
    """Similarity of every patch to each query of a class, by class; -1 where a patch has no descriptor."""
    scores = search_index(index, np.concatenate(list(queries.values())), device=device)
    ends = np.cumsum([len(some) for some in queries.values()])[:-1]
    return dict(zip(queries, np.split(scores, ends, axis=1), strict=True))


def _with_verdicts(values, wants, accepted, rejected):
    """Values to choose by: accepted patches come before all others, for their class only; rejected ones never."""
    for name, rows in accepted.items():
        for w, want in enumerate(wants):
            values[rows, w] = values[rows, w] + SURE if want[0] == name else -1
    for rows in rejected.values():
        values[rows] = -1
    return values


def _by_similarity(index, near, wants, options, unwanted, accepted, rejected):
    """The most similar patches of every want, as in the paper; each is taken to be right."""
    values = np.stack([near[name][:, queries].max(axis=1) for name, queries, _ in wants], axis=1)
    values = _with_verdicts(values, wants, accepted, rejected)
    skip = near_copies(index.grid, accepted) if options["diverse"] else None
    chosen, lost = assign(values, [n for *_, n in wants], near=skip)
    return chosen, [np.ones(len(rows)) for rows in chosen], lost


def _by_graph(index, near, wants, options, unwanted, accepted, rejected):
    """The patches with the largest share of every want in what reaches them in the graph, spread over the survey."""
    counts = np.array([n for *_, n in wants])
    judged = [row for verdicts in (accepted, rejected) for rows in verdicts.values() for row in rows]
    rows = _candidates(index, near, TIMES * counts.sum(), judged)
    here = [{name: np.searchsorted(rows, some) for name, some in verdicts.items()} for verdicts in (accepted, rejected)]
    matrix, overlap = _graph(index, rows)
    shares = _shares(index, rows, matrix, near, wants, unwanted, *here)
    values = _with_verdicts(shares.copy(), wants, *here)
    apart = [BACKGROUND_APART if name == options["background"] else APART for name, *_ in wants]
    chosen = choose(values, counts, overlap, apart=apart, skip=overlap.copies if options["diverse"] else None)
    winner = values.argmax(axis=1)
    lost = [int((winner[falling_rows(values[:, w], n)[:n]] != w).sum()) for w, n in enumerate(counts)]
    chosen = [some[np.argsort(-values[some, w], kind="stable")] for w, some in enumerate(chosen)]
    likely = [np.clip(shares[some, w], 1e-3, 1) for w, some in enumerate(chosen)]
    chosen = [rows[some] for some in chosen]
    if not options["diverse"]:
        chosen, likely = _filled(near, wants, rows, chosen, likely)
    return chosen, likely, lost


def _candidates(index, near, count, judged):
    """Rows of the graph, in order: all patches of a small index; the nearest to each class, and some from anywhere."""
    usable = np.flatnonzero(index.status == USED)
    count = int(np.clip(count, CANDIDATES, MOST_CANDIDATES))
    if len(usable) <= count:
        return usable
    each = int((1 - ANYWHERE) * count / len(near))
    parts = [falling_rows(found.max(axis=1), each)[:each] for found in near.values()]
    anywhere = np.random.default_rng(0).choice(usable, int(ANYWHERE * count), replace=False)
    return np.unique(np.concatenate([*parts, anywhere, np.array(judged, int)]))


def _graph(index, rows):
    """Ties and overlaps of the candidates, kept while the index is open: yes and no leave them as they are."""
    if not index._graph or not np.array_equal(index._graph[0], rows):
        features = np.ascontiguousarray(index.descriptors(rows))
        index._graph = rows, graph.ties(*graph.nearest(features, index.edges)), Overlap(index.grid, rows)
    return index._graph[1:]


def _shares(index, rows, matrix, near, wants, unwanted, accepted, rejected):
    """Share of every want in what reaches each candidate; verdicts are positions among these."""
    exemplars, yes, no = (np.zeros((len(rows), len(wants))) for _ in range(3))
    against = {name: some for name, some in unwanted.items() if len(some)}
    against = _similarities(index, against) if against else {}
    for w, (name, queries, _) in enumerate(wants):
        exemplars[:, w] = np.mean([graph.stand_ins(near[name][rows, q]) for q in queries], axis=0)
        yes[accepted[name], w] = 1
        no[rejected[name], w] = 1
        for similarity in against[name][rows].T if name in against else ():
            no[:, w] += graph.stand_ins(similarity)
    return graph.shares(matrix, exemplars, yes, no)


def _filled(near, wants, candidates, chosen, likely):
    """Chosen rows, and where the candidates did not last the most similar of the other rows."""
    missing = [n - len(rows) for (*_, n), rows in zip(wants, chosen, strict=True)]
    if not any(missing):
        return chosen, likely
    values = np.stack([near[name][:, queries].max(axis=1) for name, queries, _ in wants], axis=1)
    values[candidates] = -1
    more, _ = assign(values, missing)
    least = [some.min(initial=1.0) for some in likely]
    likely = [np.append(some, np.full(len(rows), low)) for some, rows, low in zip(likely, more, least, strict=True)]
    return [np.append(rows, others) for rows, others in zip(chosen, more, strict=True)], likely


def _collect(index, wants, near, chosen, likely, lost):
    """Chosen rows of all wants as weak labels, class by class."""
    parts, losses = [], dict.fromkeys(near, 0)
    for (name, queries, _), rows, weights, missed in zip(wants, chosen, likely, lost, strict=True):
        similarity = near[name][rows][:, queries]
        which = np.asarray(queries)[similarity.argmax(axis=1)]
        found = {"row": rows, "class": name, "exemplar": which, "similarity": similarity.max(axis=1)}
        parts.append(pd.DataFrame(found | {"weight": weights, "order": np.arange(len(rows))}))
        losses[name] += int(missed)
    found = pd.concat(parts)
    found["class_order"] = found["class"].map(list(near).index)
    found = found.sort_values(["class_order", "order", "exemplar"], kind="stable")
    rows = found["row"].to_numpy(int)
    return WeakLabels(
        rows, found["class"].to_numpy(str), found["similarity"].to_numpy(), found["exemplar"].to_numpy(),
        index.grid.places(rows), index.grid, losses, weights=found["weight"].to_numpy(float, copy=True),
    )  # fmt: skip
