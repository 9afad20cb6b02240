"""Comparison of the paper's and the encoder's measure on changed patches, another survey and expert labels."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import zoom

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.f3 import (
    COUNT,
    SHOWN,
    SIZE,
    Places,
    labelled_sections,
    right_patches,
    shown_classes,
    temporary_index,
)
from outcrop.experiments.gain import finer
from outcrop.experiments.table1 import draw_of_classes
from outcrop.measures.registry import INDEXED
from outcrop.retrieval import graph
from outcrop.retrieval.index import Index
from outcrop.volumes.neighbours import NEAR, USUAL

CLICKS = (0, 5, 20)  # verdicts per class
COMBINED = " + ".join(INDEXED)
GRAPH = "encoder, graph"  # the default: the encoder's measure, ranked by graph
COLUMNS = (*INDEXED, COMBINED, GRAPH)


def run(data: Data, *, quick: bool = False) -> Result:
    """Measure retrieval accuracy (RA) on changed patches, and purity and covered area of retrieved patches on F3.

    RA on LANDMASS-1 is added if this data set is in the data folder.
    """
    rows = [*changed_patches(data, 20 if quick else 100), *landmass_patches(data), *f3_purity(data, 2 if quick else 20)]
    table = pd.DataFrame(rows, columns=["data", "what", *COLUMNS])
    return Result(table, draw(table))


def changed_patches(data: Data, per_class: int) -> Iterator[dict[str, Any]]:
    """Yield a row of retrieval accuracies for the unchanged patches, and one for each change of `changes`.

    A row has the accuracy of each similarity matrix of `similarities`. If the patches have positions, a further row for
    unchanged patches ignores nearby patches; see `accuracy_apart`.
    """
    dataset = oc.datasets.seg2017_patches(data)
    rng = np.random.default_rng(0)
    names = dataset["weak"].values.astype(str)
    rows = draw_of_classes(names, dict.fromkeys(names), per_class, rng)
    patches, classes = dataset["image"].values[rows].astype(np.float32), names[rows]
    for name, shown in changes(patches, rng).items():
        found = similarities(shown)
        yield {"data": "2000 patches", "what": f"retrieval accuracy, {name}"} | accuracies(found, classes)
        if name == "unchanged" and "inline" in dataset.coords:
            places = np.stack([dataset[part].values[rows] for part in ("inline", "crossline", "sample")], axis=1)
            apart = {measure: accuracy_apart(S, classes, places) for measure, S in found.items()}
            yield {
                "data": "2000 patches",
                "what": "retrieval accuracy, ignoring patches at the same place within 250 m",
            } | apart


def changes(patches: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a dict: name of a change -> changed patches; the first entry holds the unchanged patches.

    The changes are another gain, polarity, sampling or phase, and added noise.
    """
    odd = (np.arange(len(patches)) % 2 == 1)[:, None, None]
    gains = 2 ** rng.uniform(-1, 1, len(patches))[:, None, None]
    signal = patches - 0.5
    noise = rng.standard_normal(patches.shape) * np.sqrt((signal**2).mean((1, 2), keepdims=True) / 10**0.6)
    turned = np.fft.irfft(1j * np.fft.rfft(signal, axis=1), n=patches.shape[1], axis=1)
    changed = {
        "unchanged": patches,
        "random gain of 0.5 to 2": 0.5 + gains * signal,
        "polarity of every second reversed": np.where(odd, 1 - patches, patches),
        "every second sampled twice as finely": np.where(odd, finer(patches), patches),
        "every second sampled half as finely": np.where(odd, coarser(patches), patches),
        "noise at 6 dB": patches + noise,
        "phase of every second turned by 90 degrees": np.where(odd, 0.5 + turned, patches),
    }
    return {name: np.clip(shown, 0, 1).astype(np.float32) for name, shown in changed.items()}


def coarser(patches: np.ndarray) -> np.ndarray:
    """Return every patch with half as many samples and traces, extended to the old size by mirror images."""
    n = patches.shape[-1]
    half = np.stack([zoom(patch, 0.5, order=1) for patch in patches])
    sides = ((n - half.shape[1]) // 2, n - half.shape[1] - (n - half.shape[1]) // 2)
    return np.pad(half, [(0, 0), sides, sides], mode="symmetric")


def similarities(patches: np.ndarray) -> dict[str, np.ndarray]:
    """Return a dict: name -> similarity matrix, for each measure, the mean of the measures, and the graph ranking."""
    found = {}
    for name in INDEXED:
        measure = oc.MEASURES[name]()
        described = measure.describe(patches)
        found[name] = measure.compare(described, described)
    mean = sum(found.values()) / len(found)
    # graph score of every patch (columns) with each patch as the only exemplar (rows)
    links = graph.link_matrix(*graph.nearest(described, np.cumsum([0, described.shape[1]])))
    reached = graph.spread(links, np.stack([graph.exemplar_weights(row) for row in found[name]], axis=1)).T
    return found | {COMBINED: mean, GRAPH: reached}


def accuracies(found: dict[str, np.ndarray], classes: np.ndarray) -> dict[str, float]:
    """Return a dict: name of a similarity matrix -> its retrieval accuracy (RA)."""
    return {measure: oc.retrieval_scores(S, classes)["RA"] for measure, S in found.items()}


def accuracy_apart(S: np.ndarray, classes: np.ndarray, places: np.ndarray) -> float:
    """Return the retrieval accuracy (RA) without patches at nearly the same position as the query.

    Patches at the crossline and sample of the query are ignored on lines within 250 m (ten lines). `places` holds
    inline, crossline and sample of each patch.
    """
    found = []
    for row, (line, *place) in enumerate(places.tolist()):
        near = (places[:, 1:] == place).all(axis=1) & (USUAL * np.abs(places[:, 0] - line) <= NEAR)
        order = np.argsort(-np.where(near, -np.inf, S[row]), kind="stable")
        wanted = int(((classes == classes[row]) & ~near).sum())
        found.append((classes[order[:wanted]] == classes[row]).mean() if wanted else np.nan)
    return float(np.nanmean(found))


def landmass_patches(data: Data) -> Iterator[dict[str, Any]]:
    """Yield a row of retrieval accuracies on LANDMASS-1, if this data set is in the data folder."""
    folder = Path(data or os.environ.get("OUTCROP_DATA", ".")) / "landmass1"
    if folder.is_dir():
        dataset = oc.datasets.landmass(folder, scaling="range")
        scores = accuracies(similarities(dataset["image"].values), dataset["class"].values)
        yield {"data": "LANDMASS-1", "what": "retrieval accuracy, unchanged"} | scores


def f3_purity(data: Data, draws: int) -> Iterator[dict[str, Any]]:
    """Yield rows of purity and covered area on F3 (see `one_draw`), averaged over random draws of exemplars."""
    volume, truth = labelled_sections(data)
    places = [oc.datasets.exemplars(truth, SIZE, min_share=SHOWN, seed=seed) for seed in range(draws)]
    found = {}
    for name in INDEXED:
        with temporary_index(volume, measure=name) as index:
            shown = shown_classes(index.grid, truth)
            for column, ranking in ((name, "similarity"), (GRAPH, "graph")):
                if column == name or name == "encoder":
                    scores = [one_draw(index, exemplars, truth, shown, ranking) for exemplars in places]
                    found[column] = pd.DataFrame(scores).mean()
    for what in found[GRAPH].index:
        yield {"data": "F3, expert", "what": what} | {name: values[what] for name, values in found.items()}


def one_draw(index: Index, exemplars: Places, truth: xr.DataArray, shown: np.ndarray, ranking: str) -> dict[str, float]:
    """Retrieve patches with one exemplar per class, simulate verdicts, and return a dict: name of a number -> number.

    The numbers are purities (shares of retrieved patches that show their class):

    * after 0, 5 and 20 verdicts per class, as the mean over the classes and for faults alone;
    * of the worst class, before any verdict;
    * before any verdict, without patches that overlap an exemplar; see `apart`.

    The other numbers are the share of the true area of a class that its retrieved patches cover: the mean over the
    classes, and the lowest of them.
    """
    names = list(truth.attrs["classes"])

    def by_class(weak: oc.WeakLabels) -> dict[str, float]:
        right = right_patches(weak, shown, names)
        return {name: float(np.nanmean(right[weak.classes == name])) for name in names}

    first = weak = oc.retrieve(index, exemplars, COUNT, ranking=ranking)
    found = {}
    judged: dict[str, Any] = {what: {name: [] for name in exemplars} for what in ("accepted", "rejected")}
    for clicks in range(0, CLICKS[-1] + 1, 5):
        if clicks:
            for verdicts, chosen in zip(judged.values(), answers(weak, right_patches(weak, shown, names)), strict=True):
                for name, places in weak.places(chosen).items():
                    verdicts[name] += places
            weak = oc.retrieve(index, exemplars, COUNT, ranking=ranking, **judged)
        if clicks in CLICKS:
            pure = by_class(weak)
            found[f"purity after {clicks} clicks a class"] = float(np.mean(list(pure.values())))
            found[f"purity of fault after {clicks}"] = pure["fault"]
    found["purity of the worst class, no clicks"] = min(by_class(first).values())
    far = by_class(apart(index, exemplars, ranking))
    found["purity without what overlaps the exemplar"] = float(np.mean(list(far.values())))
    cover = covered(first, index.grid, truth)
    found["area covered, mean of the classes"] = float(np.mean(cover))
    found["area covered, lowest class"] = min(cover)
    return found


def answers(weak: oc.WeakLabels, right: np.ndarray) -> tuple[list[int], list[int]]:
    """Judge five patches per class, and return two lists of positions in `weak`: of accepted and of rejected patches.

    `right` is 1 for a right patch, 0 for a wrong one, and NaN if unknown. The most informative patches are judged
    first, then patches evenly spaced by rank.
    """
    judged = [row for given in (weak.accepted, weak.rejected) for rows in given.values() for row in rows]
    open_ = np.isfinite(right) & ~np.isin(weak.rows, judged)
    picks: list[int] = []
    for name in weak.accepted:
        members = np.flatnonzero(open_ & (weak.classes == name))
        informative = members[weak.judge[members] > 0]
        spaced = members[np.unique(np.linspace(0, len(members) - 1, 5).astype(int))] if len(members) else members
        picks += [*informative[np.argsort(weak.judge[informative])], *spaced][:5]
    return [i for i in picks if right[i] == 1], [i for i in picks if right[i] == 0]


def apart(index: Index, exemplars: Places, ranking: str) -> oc.WeakLabels:
    """Return retrieved patches, except patches that overlap an exemplar and lie on a line within 250 m of it."""
    height, width = index.grid.size
    weak = oc.retrieve(index, exemplars, 2 * COUNT, ranking=ranking)
    starts = weak.starts
    near = np.zeros(len(weak), bool)
    for (place,) in exemplars.values():
        start = index.grid.start_at(place)
        over = (np.abs(starts[:, 2:] - start[2:]) < [width, height]).all(axis=1)
        near |= over & (np.abs(index.grid.metres(starts) - index.grid.metres(start)) <= NEAR)
    left = weak.take(~near)
    return left.take(left.table.groupby("class").cumcount().to_numpy() < COUNT)


def covered(weak: oc.WeakLabels, grid: oc.PatchGrid, truth: xr.DataArray) -> list[float]:
    """Return for every class the share of its area that is covered by the patches retrieved for this class."""
    (height, width), codes = grid.size, truth.reindex(inline=grid.axes[0], fill_value=0).values
    found = []
    for code, name in enumerate(truth.attrs["classes"], 1):
        under = np.zeros(codes.shape, bool)
        for _, line, trace, top in weak.starts[weak.classes == name]:
            under[line, trace : trace + width, top : top + height] = True
        found.append(under[codes == code].mean())
    return found


def draw(table: pd.DataFrame) -> Any:
    """Draw a row of dots for each row of the table, with a colour for each measure."""
    ax = oc.plots.new_axes(figsize=(10, 0.36 * len(table) + 1.2))
    for k, name in enumerate(COLUMNS):
        ax.plot(table[name], -np.arange(len(table)), "o", color=f"C{k}", label=name, alpha=0.8)
    ax.set_yticks(-np.arange(len(table)), table["data"] + ": " + table["what"], fontsize=9)
    ax.set(xlim=(0, 1), xlabel="retrieval accuracy (RA), purity, or share of the area")
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left", fontsize="small")
    return ax.figure
