"""The paper's purpose on real data: one U-Net trained on several kinds of labels, scored on expert lines it never saw.

Every net has the same architecture, first weights and number of patches seen; only the labels differ. The line that a
net is scored on, and all patches within ten lines of it, are kept from the net and from the mapper that labels for it.
"""

from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import __version__, plots
from outcrop.arrays import to_numpy
from outcrop.datasets.section import CLASSES
from outcrop.evaluate.pixels import pixel_scores
from outcrop.experiments import Result
from outcrop.experiments.expert import APART, fresh, opened, small_mappers
from outcrop.experiments.references import flat
from outcrop.experiments.retrieval import eye_exemplars
from outcrop.experiments.training_nets import EPOCHS, PATCHES, Examples, labels_of_net, read_nets, windows
from outcrop.job.core import Job
from outcrop.job.options import IndexOptions
from outcrop.mapping.confidence import confidence, label, majority_filter

OTHER_LINE = {310: 330, 330: 310}  # scored line -> the line whose expert labels or exemplars may be used
NOT_A_CLASS = (0, 255)  # codes of pixels without a label, in mappers' answers and in label volumes
QUICK_PATCHES, QUICK_EPOCHS = 16, 1


def run(data, *, quick=False, device=None, seeds=1, folder=None):
    """Train on every kind of labels, for both expert lines, and score the nets' labels of the line they never saw.

    Nets that ``benchmarks/training.py`` trained on another machine are taken from ``training-nets.npz`` in the folder.
    """
    made = {"version": __version__, "patches": PATCHES, "epochs": EPOCHS}
    trained = read_nets(Path(folder) / "training-nets.npz", made) if folder and not quick else {}
    rows, shown = [], {}
    with opened(data, quick) as yard:
        sources = amplitudes(yard)
        for seed, name in product(range(seeds), LABELS):
            found, seconds = {}, {}
            for line in OTHER_LINE:
                begin = perf_counter()
                codes = trained.get((name, line, seed))
                if codes is None:
                    codes = net_codes(yard, sources, LABELS[name](yard, line, seed, device), line, seed, device)
                section = yard.clean.sel(inline=[line])
                found[line] = section.copy(data=codes[None]).assign_attrs(classes=list(CLASSES))
                seconds[line] = perf_counter() - begin
            rows += [{"labels": name, "seed": seed} | row for row in scores(yard.truth, found, seconds)]
            if seed == 0:
                shown[name] = found
        by_seed = pd.DataFrame(rows)
        table = summary(by_seed)
        figure = draw(yard, shown, summary(by_seed[by_seed["seed"] == 0]))
        bars(table, figure.axes[-1])
    return Result(table, figure, remark(table))


def amplitudes(yard):
    """8-bit amplitudes that nets learn from, shape (n, n_traces, n_samples): the paper's patches, and the sections."""
    patches = yard.dataset["image"].values.swapaxes(1, 2)
    named = {"patches": patches, "sections": yard.clean.values}
    return {name: np.round(255 * values).astype(np.uint8) for name, values in named.items()}


def net_codes(yard, sources, examples, line, seed, device):
    """Codes of a line by a net trained on some examples."""
    section = sources["sections"][yard.clean["inline"].values.tolist().index(line)]
    sizes = {"patches": QUICK_PATCHES, "epochs": QUICK_EPOCHS} if yard.quick else {}
    return labels_of_net(sources[examples.source], examples, section, CLASSES, seed=seed, device=device, **sizes)


def away(dataset, line):
    """Which of the paper's patches a net that is scored on a line may see: none within ten lines of it."""
    if "inline" not in dataset.coords:
        raise ValueError("The data do not say where the patches lie; name a folder with seg2017_patches.npz.")
    return np.abs(dataset["inline"].values.astype(int) - line) > APART


def authors_labels(yard, line, seed, device):
    """The paper's patches with the labels that its authors released."""
    rows = away(yard.dataset, line)
    published = yard.dataset["published"].values[rows]
    return on_patches(yard.dataset, rows, coded(published, yard.dataset.attrs["classes"]))


def paper_labels(yard, line, seed, device):
    """The paper's patches with the labels of its factorisation, fitted on them."""
    rows = away(yard.dataset, line)
    images: Any = yard.dataset["image"].values[rows]
    if device is not None:
        import torch

        images = torch.from_numpy(images).to(device)
    mapper = fresh("paper", seed, yard.quick)
    masks = to_numpy(mapper.fit_predict(images, yard.dataset["weak"].values[rows]))
    return on_patches(yard.dataset, rows, coded(masks, mapper.classes_))


def our_labels(yard, line, seed, device):
    """The paper's patches with the labels of our default mapping, fitted on them, which count by their confidence."""
    rows = away(yard.dataset, line)
    images = yard.dataset["image"].values[rows]
    mapper = fresh("texture", seed, yard.quick)
    evidence = mapper.fit(images, yard.dataset["weak"].values[rows]).scores(images)
    masks = label(evidence, smooth=majority_filter)  # as `predict` gives them, but the evidence is computed once
    sure = np.round(255 * confidence(evidence)).astype(np.uint8)
    return on_patches(yard.dataset, rows, coded(masks, mapper.classes_), sure)


def on_patches(dataset, rows, masks, weights=None):
    """Examples of some of the paper's patches; each counts as a section of its size."""
    codes, sure = (np.zeros(dataset["image"].shape, np.uint8) for _ in range(2))
    codes[rows] = masks
    if weights is not None:
        sure[rows] = weights
    starts = np.column_stack([np.flatnonzero(rows), np.zeros((np.sum(rows), 2), int)])
    return Examples("patches", codes.swapaxes(1, 2), None if weights is None else sure.swapaxes(1, 2), starts)


def our_labels_from_exemplars(yard, line, seed, device):
    """Patches of all sections but the scored one, labelled by a job from the other line's exemplars by eye."""
    sections = yard.clean.drop_sel(inline=line)
    folder = yard.folder / f"without-{line}.outcrop"
    labels = job_labels(sections, eye_exemplars(OTHER_LINE[line]), folder, seed=seed, quick=yard.quick)
    return on_sections(yard, labels["label"], labels.attrs["classes"], labels["confidence"])


def job_labels(volume, exemplars, folder, *, seed, quick):
    """Labels that a job with default options gives from some exemplars: a Dataset of ``label`` and ``confidence``."""
    with Job(folder, volume=volume) as job, small_mappers(quick):
        if quick:
            job.choose(index=IndexOptions(step=66))
        for name, places in exemplars.items():
            for place in places:
                job.add_exemplar(name, place)
        return job.label(seed=seed).load()


def expert_labels(yard, line, seed, device):
    """Patches of the other expert line with the expert's labels."""
    truth = yard.truth.sel(inline=[OTHER_LINE[line]])
    return on_sections(yard, truth, truth.attrs["classes"])


def on_sections(yard, labels, classes, sure=None):
    """Examples of the overlapping patches of all sections in which something is labelled."""
    codes = coded(labels.reindex_like(yard.clean, fill_value=0).values, classes)
    weights = None if sure is None else sure.reindex_like(yard.clean, fill_value=0).values
    starts = yard.grid.places(np.arange(len(yard.grid)))[:, 1:]
    labelled = windows(codes, starts).any(axis=(1, 2))
    return Examples("sections", codes, weights, starts[labelled])


LABELS = {
    "authors' release": authors_labels,
    "paper's mapping": paper_labels,
    "our mapping": our_labels,
    "our mapping, exemplars by eye": our_labels_from_exemplars,
    "expert": expert_labels,
}


def coded(labels, classes):
    """Label codes in the order of `CLASSES`; 0 where there is no label.

    Examples
    --------
    >>> coded(np.array([0, 1, 2, 255]), ["fault", "other"])
    array([0, 3, 2, 0], dtype=uint8)
    """
    table = np.zeros(256, np.uint8)
    for code, name in enumerate(classes, 1):
        if code not in NOT_A_CLASS:
            table[code] = CLASSES.index(str(name)) + 1
    return table[np.asarray(labels)]


def scores(truth, found, seconds):
    """Scores of nets' labels: of every line alone, and of all lines together."""
    together = xr.concat(list(found.values()), "inline", combine_attrs="override")
    cases = [*((line, codes, seconds[line]) for line, codes in found.items()), ("all", together, sum(seconds.values()))]
    out = []
    for line, codes, took in cases:
        true = truth.sel(inline=codes["inline"], time=codes["time"])
        out.append({"line": line} | flat(pixel_scores(codes, true)) | {"seconds": took})
    return out


def summary(table):
    """Means over the seeds by labels and line, the spread of MIU, and the share of the expert-trained net's MIU."""
    groups = table.groupby(["labels", "line"], sort=False)
    out = groups.mean().drop(columns="seed").reset_index()
    if table["seed"].nunique() > 1:
        out.insert(3, "MIU_sd", groups["MIU"].std().values)
    best = out[out["labels"] == "expert"].set_index("line")["MIU"]
    out["share of expert"] = out["MIU"] / out["line"].map(best)
    return out[_columns(out)]


def _columns(table):
    """Columns in the order in which they are read."""
    iu = [name for name in table if name.startswith("IU ")]
    spread = ["MIU_sd"] if "MIU_sd" in table else []
    return ["labels", "line", "MIU", *spread, "share of expert", "PA", *iu, "MA", "FWIU", "coverage", "seconds"]


def remark(table):
    """What the nets reach of the expert-trained one, in a sentence."""
    share = table[table["line"] == "all"].set_index("labels")["share of expert"]
    reached = ", ".join(f"{name} {value:.0%}" for name, value in share.items() if name != "expert")
    return (
        "The paper trains no net; its purpose is labels to train one with. Mean IU on unseen lines, as a share of what "
        f"the same net reaches from an expert's labels of a line 20 lines away: {reached}."
    )


def draw(yard, shown, table):
    """Sections as the expert and as the nets label them, and below them empty axes for `bars`."""
    from matplotlib.patches import Patch

    figure = plots.new_figure(figsize=(15, 2.5 * (len(shown) + 1) + 4.5), layout="constrained")
    heights = [1.0] * (len(shown) + 1) + [1.4]
    grid = figure.add_gridspec(len(heights), len(OTHER_LINE), height_ratios=heights)
    for column, line in enumerate(OTHER_LINE):
        truth = yard.truth.sel(inline=line)
        truth = truth.isel(time=np.flatnonzero((truth.values > 0).any(axis=0)))
        section = yard.sections.sel(inline=line, time=truth["time"])
        expert = truth.copy(data=coded(truth.values, truth.attrs["classes"]))
        panels = {f"inline {line}, labels of the expert": expert}
        for name, found in shown.items():
            panels[_title(table, name, line)] = found[line].sel(inline=line, time=truth["time"])
        for row, (title, codes) in enumerate(panels.items()):
            ax = plots.overlay(section, codes, CLASSES, opacity=0.55, ax=figure.add_subplot(grid[row, column]))
            if legend := ax.get_legend():
                legend.remove()
            ax.set_title(title, loc="left", fontsize=11)
            if row < len(panels) - 1:
                ax.set(xlabel="", xticklabels=[])
    palette = plots.colours(CLASSES)
    handles = [Patch(color=palette[name], label=name) for name in CLASSES]
    handles.append(Patch(color=plots.COLOURS["uncertain"], label="uncertain"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=12)
    figure.add_subplot(grid[-1, :])
    return figure


def _title(table, name, line):
    """Title of a net's panel: what it learnt from and how well it did."""
    row = table[(table["labels"] == name) & (table["line"] == line)].iloc[0]
    source = f"{name}, inline {OTHER_LINE[line]}" if name == "expert" else name
    return f"net trained on: {source} (mean IU {row['MIU']:.2f})"


def bars(table, ax):
    """Draw mean IU and the IU of every class, net by net, on both lines together."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=4, foreground="white")]  # keeps numbers readable on the dashed line
    both = table[table["line"] == "all"].reset_index(drop=True)
    palette = {"mean": "black", **plots.colours(CLASSES)}
    width, handles = 0.8 / len(palette), []
    for i, (name, colour) in enumerate(palette.items()):
        values = both["MIU" if name == "mean" else f"IU {name}"]
        spread = both["MIU_sd"] if name == "mean" and "MIU_sd" in both else None
        place = np.arange(len(both)) + (i - (len(palette) - 1) / 2) * width
        drawn = ax.bar(place, values, width, color=colour, edgecolor="black", linewidth=0.5, label=name, yerr=spread)
        ax.bar_label(drawn, fmt="%.2f", padding=2, fontsize=10, path_effects=halo)
        handles.append(drawn)
    aim = 0.9 * both.loc[both["labels"] == "expert", "MIU"].iloc[0]
    line = ax.axhline(aim, color="black", lw=1, ls="--", zorder=0, label="90 % of the expert-trained net's mean")
    names = [f"{row['labels']}\n{row['share of expert']:.0%} of expert" for _, row in both.iterrows()]
    ax.set_xticks(np.arange(len(both)), names, fontsize=11)
    ax.set(ylim=(0, 1.05), ylabel="intersection over union", xlim=(-0.5, len(both) - 0.5))
    ax.set_title("against the expert, inlines 310 and 330 together", loc="left", fontsize=11)
    above: dict = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2, "frameon": False}
    ax.legend(handles=[*handles, line], ncols=len(handles) + 1, fontsize=10, columnspacing=1, **above)
