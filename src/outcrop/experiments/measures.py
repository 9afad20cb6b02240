"""The paper's measure and the encoder's side by side: changed recordings, other surveys, and what an expert marked."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import zoom

from outcrop import datasets, plots
from outcrop.evaluate.retrieval import retrieval_scores
from outcrop.experiments import Result
from outcrop.experiments.gain import finer
from outcrop.measures.registry import INDEXED, MEASURES
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval import graph
from outcrop.retrieval.index import NEAR_LINES, build_index
from outcrop.retrieval.ranking import retrieve

COUNT, STEP, SIZE = 200, 22, 99  # patches of a class that are retrieved, their step and size
CLICKS = (0, 5, 20)  # of a class
SHOWN, PURE = 0.2, 0.8  # share of a patch from which it shows a structure, and the background
COMBINED = " + ".join(INDEXED)
GRAPH = "encoder, graph"  # the default: the encoder's measure, ranked by graph
COLUMNS = (*INDEXED, COMBINED, GRAPH)
REMARK = (
    "Not in the paper. The patches are those that the paper's own measure retrieved, which favours it as they are; on "
    "F3 an expert's labels of inlines 310 and 330 judge what one random exemplar a class retrieves."
)


def run(data, *, quick=False):
    """Retrieval accuracy under changes, on LANDMASS where it is at hand, and purity and cover on F3 sections."""
    rows = [*changed_patches(data, 20 if quick else 100), *landmass_patches(data), *f3_purity(data, 2 if quick else 20)]
    table = pd.DataFrame(rows, columns=["data", "what", *COLUMNS])
    return Result(table, draw(table), REMARK)


def changed_patches(data, per_class):
    """Retrieval accuracy of every measure, and of the mean of both, on patches as they are and changed."""
    dataset = datasets.seg2017_patches(data)
    rng = np.random.default_rng(0)
    names = dataset["weak"].values.astype(str)
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
    rows = np.concatenate(
        [rng.choice(rows_of_class, min(per_class, len(rows_of_class)), replace=False) for rows_of_class in members]
    )
    patches, classes = dataset["image"].values[rows].astype(np.float32), names[rows]
    for name, shown in changes(patches, rng).items():
        found = similarities(shown)
        yield {"data": "2000 patches", "what": f"RA, {name}"} | {
            measure: retrieval_scores(S, classes)["RA"] for measure, S in found.items()
        }
        if name == "as they are" and "inline" in dataset.coords:
            places = np.stack([dataset[part].values[rows] for part in ("inline", "crossline", "sample")], axis=1)
            apart = {measure: accuracy_apart(S, classes, places) for measure, S in found.items()}
            yield {"data": "2000 patches", "what": "RA, without the same place within ten lines"} | apart


def changes(patches, rng):
    """Patches as they are, and as another gain, polarity, sampling, noise or phase would have recorded them."""
    odd = (np.arange(len(patches)) % 2 == 1)[:, None, None]
    gains = 2 ** rng.uniform(-1, 1, len(patches))[:, None, None]
    signal = patches - 0.5
    noise = rng.standard_normal(patches.shape) * np.sqrt((signal**2).mean((1, 2), keepdims=True) / 10**0.6)
    turned = np.fft.irfft(1j * np.fft.rfft(signal, axis=1), n=patches.shape[1], axis=1)
    changed = {
        "as they are": patches,
        "random gain of 0.5 to 2": 0.5 + gains * signal,
        "polarity of every second reversed": np.where(odd, 1 - patches, patches),
        "every second sampled twice as finely": np.where(odd, finer(patches), patches),
        "every second sampled half as finely": np.where(odd, coarser(patches), patches),
        "noise at 6 dB": patches + noise,
        "phase of every second turned by 90 degrees": np.where(odd, 0.5 + turned, patches),
    }
    return {name: np.clip(shown, 0, 1).astype(np.float32) for name, shown in changed.items()}


def coarser(patches):
    """Every patch at half the sampling in both directions, with its mirror images around it."""
    n = patches.shape[-1]
    half = np.stack([zoom(patch, 0.5, order=1) for patch in patches])
    sides = [(n - half.shape[1]) // 2, n - half.shape[1] - (n - half.shape[1]) // 2]
    return np.pad(half, [(0, 0), sides, sides], mode="symmetric")


def similarities(patches):
    """Similarity matrix of every measure, and the mean of them."""
    found = {}
    for name in INDEXED:
        measure = MEASURES[name]()
        described = measure.describe(patches)
        found[name] = measure.compare(described, described)
    return found | {COMBINED: sum(found.values()) / len(found), GRAPH: reached(measure, described)}


def reached(measure, described):
    """What reaches every patch of a graph (columns) from each of them as the only exemplar (rows)."""
    matrix = graph.ties(*graph.nearest(described, np.cumsum([0, described.shape[1]])))
    alike = measure.compare(described, described)
    return graph.spread(matrix, np.stack([graph.stand_ins(row) for row in alike], axis=1)).T


def accuracy_apart(S, classes, places):
    """Retrieval accuracy where no patch may find those of its own place within ten lines."""
    _, codes = np.unique(classes, return_inverse=True)
    found = []
    for row, (line, *place) in enumerate(places.tolist()):
        near = (places[:, 1:] == place).all(axis=1) & (np.abs(places[:, 0] - line) <= NEAR_LINES)
        order = np.argsort(-np.where(near, -np.inf, S[row]), kind="stable")
        wanted = int(((codes == codes[row]) & ~near).sum())
        found.append((codes[order[:wanted]] == codes[row]).mean() if wanted else np.nan)
    return float(np.nanmean(found))


def landmass_patches(data):
    """Retrieval accuracy on LANDMASS-1, where the data folder has it."""
    import os

    folder = Path(data or os.environ.get("OUTCROP_DATA", ".")) / "landmass1"
    if folder.is_dir():
        dataset = datasets.landmass(folder, scaling="range")
        found = similarities(dataset["image"].values)
        scores = {name: retrieval_scores(S, dataset["class"].values)["RA"] for name, S in found.items()}
        yield {"data": "LANDMASS-1", "what": "RA, as they are"} | scores


def f3_purity(data, draws):
    """Purity and cover of what one random exemplar a class retrieves on F3 sections, by the clicks that follow."""
    sections, truth = datasets.f3_sections(data)
    volume = sections.sel(time=slice(212, None))  # a caption is burnt into the pictures above
    truth = truth.sel(time=volume["time"])
    places = [datasets.exemplars(truth, SIZE, min_share=SHOWN, seed=seed) for seed in range(draws)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in INDEXED:
            grid = PatchGrid(volume, size=SIZE, step=STEP)
            index = build_index(volume, grid, Path(folder) / "f3.outcrop", measure=name)
            shares = class_shares(grid, truth)
            for column, ranking in ((name, "similarity"), (GRAPH, "graph")):
                if column == name or name == "encoder":
                    draws = [one_draw(index, exemplars, truth, shares, ranking) for exemplars in places]
                    found[column] = pd.DataFrame(draws).mean()
    for what in found[GRAPH].index:
        yield {"data": "F3, expert", "what": what} | {name: values[what] for name, values in found.items()}


def class_shares(grid, truth):
    """Share of each class in every patch of a grid, NaN where the expert labelled less than half of it."""
    lines = {label: k for k, label in enumerate(truth["inline"].values)}
    n = len(truth.attrs["classes"])
    shares = np.full((len(grid), n), np.nan)
    for row, (_, line, trace, top) in enumerate(grid.starts):
        k = lines.get(grid.axes[0][line])
        if k is not None:
            patch = truth.values[k, trace : trace + grid.size[1], top : top + grid.size[0]]
            counts = np.bincount(patch.ravel(), minlength=n + 1)[1 : n + 1]
            if counts.sum() > patch.size / 2:
                shares[row] = counts / counts.sum()
    return shares


def one_draw(index, exemplars, truth, shares, ranking):
    """Purity after every number of clicks, of all classes, the worst and fault; apart from the exemplar; cover."""
    names = list(truth.attrs["classes"])
    shows = shares >= [PURE if name == "other" else SHOWN for name in names]
    shows = np.where(np.isnan(shares), np.nan, shows)

    def right(weak):
        return shows[weak.rows, [names.index(name) for name in weak.classes]]

    def by_class(weak):
        return {name: np.nanmean(right(weak)[weak.classes == name]) for name in names}

    weak = retrieve(index, exemplars, COUNT, ranking=ranking)
    first = weak
    found = {}
    judged: dict[str, Any] = {
        "accepted": {name: [] for name in exemplars},
        "rejected": {name: [] for name in exemplars},
    }
    for clicks in range(0, CLICKS[-1] + 1, 5):
        if clicks:
            for verdicts, chosen in zip(judged.values(), answers(weak, right(weak)), strict=True):
                for name, places in weak.places(chosen).items():
                    verdicts[name] += places
            weak = retrieve(index, exemplars, COUNT, ranking=ranking, **judged)
        if clicks in CLICKS:
            pure = by_class(weak)
            found[f"purity after {clicks} clicks a class"] = np.mean(list(pure.values()))
            found[f"purity of fault after {clicks}"] = pure["fault"]
    found["purity of the worst class, no clicks"] = min(by_class(first).values())
    found["purity without what overlaps the exemplar"] = apart(index, exemplars, right, ranking)
    cover = covered(first, index.grid, truth)
    found["area covered, mean of the classes"] = np.mean(list(cover.values()))
    found["area covered, lowest class"] = min(cover.values())
    return found


def answers(weak, right):
    """Positions of the patches that five clicks a class accept and reject: those that say most, or evenly spaced."""
    judged = [row for given in (weak.accepted, weak.rejected) for rows in given.values() for row in rows]
    open_ = np.isfinite(right) & ~np.isin(weak.rows, judged)
    picks: list = []
    for name in weak.accepted:
        members = np.flatnonzero(open_ & (weak.classes == name))
        telling = members[weak.judge[members] > 0]
        spaced = members[np.unique(np.linspace(0, len(members) - 1, 5).astype(int))] if len(members) else members
        picks += [*telling[np.argsort(weak.judge[telling])], *spaced][:5]
    return [i for i in picks if right[i] == 1], [i for i in picks if right[i] == 0]


def apart(index, exemplars, right, ranking):
    """Purity of what is retrieved without the patches that overlap an exemplar within ten lines."""
    size, lines = index.grid.size, index.grid.axes[0]
    weak = retrieve(index, exemplars, 2 * COUNT, ranking=ranking)
    starts = weak.starts
    near = np.zeros(len(weak), bool)
    for (place,) in exemplars.values():
        _, line, *corner = index.grid.start_at(place)
        over = (np.abs(starts[:, 2:] - corner) < [size[1], size[0]]).all(axis=1)
        near |= over & (np.abs(lines[starts[:, 1]] - lines[line]) <= NEAR_LINES)
    left = weak.take(~near)
    ranks = left.table.groupby("class").cumcount().to_numpy()
    left = left.take(ranks < COUNT)
    return np.mean([np.nanmean(right(left)[left.classes == name]) for name in exemplars])


def covered(weak, grid, truth):
    """Share of the area of every class that lies under the patches retrieved for it."""
    found = {}
    lines = {label: k for k, label in enumerate(truth["inline"].values)}
    for code, name in enumerate(truth.attrs["classes"], 1):
        under = np.zeros(truth.shape, bool)
        for _, line, trace, top in weak.starts[weak.classes == name]:
            k = lines.get(grid.axes[0][line])
            if k is not None:
                under[k, trace : trace + grid.size[1], top : top + grid.size[0]] = True
        found[name] = under[truth.values == code].mean()
    return found


def draw(table):
    """One row of dots a figure, a colour a measure."""
    ax = plots.new_axes(figsize=(10, 0.36 * len(table) + 1.2))
    for k, name in enumerate(COLUMNS):
        ax.plot(table[name], -np.arange(len(table)), "o", color=f"C{k}", label=name, alpha=0.8)
    ax.set_yticks(-np.arange(len(table)), table["data"] + ": " + table["what"], fontsize=9)
    ax.set(xlim=(0, 1), xlabel="retrieval accuracy (RA), purity, or share of the area")
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left", fontsize="small")
    return ax.figure
