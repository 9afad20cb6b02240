"""One U-Net trained on several kinds of labels and scored on expert lines that it never saw.

Every net has the same architecture, initial weights and number of patches; only the labels differ. The scored line and
the patches within ten lines of it are used neither by the net nor by the mapper that makes the labels of the net.
"""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop import __version__
from outcrop.arrays import to_numpy
from outcrop.datasets.section import CLASSES
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.evolution import on_device
from outcrop.experiments.expert import APART, F3Data, fresh, job_labels, opened
from outcrop.experiments.f3 import eye_exemplars
from outcrop.experiments.references import flat
from outcrop.experiments.training_nets import EPOCHS, PATCHES, Examples, labels_of_net, read_nets, windows

OTHER_LINE = {310: 330, 330: 310}  # scored line -> line whose expert labels or exemplars are used for training
NOT_A_CLASS = (0, 255)  # codes of pixels without a class, in predictions of mappers and in label volumes
QUICK_PATCHES, QUICK_EPOCHS = 16, 1


def run(data: Data, *, quick: bool = False, device: Device = None, seeds: int = 1, folder: Data = None) -> Result:
    """For each kind of labels and each expert line, train a net without the line, and score its labels on the line.

    If ``benchmarks/training.py`` trained the nets on another machine, their labels are read from
    ``training-nets.npz`` in the folder.
    """
    made = {"version": __version__, "patches": PATCHES, "epochs": EPOCHS}
    trained = read_nets(Path(folder) / "training-nets.npz", made) if folder and not quick else {}
    rows: list[dict[str, Any]] = []
    shown: dict[str, dict[int, xr.DataArray]] = {}
    with opened(data, quick) as survey:
        sources = amplitudes(survey)
        for seed, name in product(range(seeds), LABELS):
            found, seconds = {}, {}
            for line in OTHER_LINE:
                begin = perf_counter()
                codes = trained.get((name, line, seed))
                if codes is None:
                    codes = net_codes(survey, sources, LABELS[name](survey, line, seed, device), line, seed, device)
                section = survey.clean.sel(inline=[line])
                found[line] = section.copy(data=codes[None]).assign_attrs(classes=list(CLASSES))
                seconds[line] = perf_counter() - begin
            rows += [{"labels": name, "seed": seed} | row for row in scores(survey.truth, found, seconds)]
            shown.setdefault(name, found)
        by_seed = pd.DataFrame(rows)
        table = summary(by_seed)
        figure = draw(survey, shown, summary(by_seed[by_seed["seed"] == 0]))
        bars(table, figure.axes[-1])
    share = table[table["line"] == "all"].set_index("labels")["share of expert"].drop("expert")
    remark = (
        "The paper makes labels to train a net with, but trains no net. Mean IU on unseen lines, as a share of the "
        "mean IU that the same net reaches with an expert's labels of a line 20 lines away: "
        f"{', '.join(f'{name} {value:.0%}' for name, value in share.items())}."
    )
    return Result(table, figure, remark)


def amplitudes(survey: F3Data) -> dict[str, np.ndarray]:
    """Return a dict: ``patches`` or ``sections`` -> 8-bit amplitudes, each of shape (n, n_traces, n_samples)."""
    patches = survey.dataset["image"].values.swapaxes(1, 2)
    named = {"patches": patches, "sections": survey.clean.values}
    return {name: np.round(255 * values).astype(np.uint8) for name, values in named.items()}


def net_codes(
    survey: F3Data, sources: dict[str, np.ndarray], examples: Examples, line: int, seed: int, device: Device
) -> np.ndarray:
    """Train a net on the examples and return the codes that it predicts on a line."""
    section = sources["sections"][survey.clean["inline"].values.tolist().index(line)]
    sizes = {"patches": QUICK_PATCHES, "epochs": QUICK_EPOCHS} if survey.quick else {}
    return labels_of_net(sources[examples.source], examples, section, CLASSES, seed=seed, device=device, **sizes)


def authors_labels(survey: F3Data, line: int, seed: int, device: Device) -> Examples:
    """Return the paper's patches farther than ten lines from `line`, with the labels that its authors released."""
    rows = np.abs(survey.inlines() - line) > APART
    return on_patches(survey, rows, survey.dataset["published"].values[rows], survey.dataset.attrs["classes"])


def paper_labels(survey: F3Data, line: int, seed: int, device: Device) -> Examples:
    """Return the paper's patches farther than ten lines from `line`, with labels of the paper's factorisation."""
    rows, mapper = np.abs(survey.inlines() - line) > APART, fresh("paper", seed, survey.quick)
    images = on_device(survey.dataset["image"].values[rows], device)
    masks = to_numpy(mapper.fit_predict(images, survey.dataset["weak"].values[rows]))
    return on_patches(survey, rows, masks, mapper.classes_)


def on_patches(survey: F3Data, rows: np.ndarray, masks: np.ndarray, classes: Sequence[str]) -> Examples:
    """Return training examples: the paper's patches where `rows` is True, each stored as a small section.

    `masks` holds the label codes of these patches; code i + 1 is ``classes[i]``.
    """
    codes = np.zeros(survey.dataset["image"].shape, np.uint8)
    codes[rows] = coded(masks, classes)
    starts = np.column_stack([np.flatnonzero(rows), np.zeros((np.sum(rows), 2), int)])
    return Examples("patches", codes.swapaxes(1, 2), None, starts)


def our_labels_from_exemplars(survey: F3Data, line: int, seed: int, device: Device) -> Examples:
    """Return patches of all sections except the scored `line`, labelled by a job from exemplars on the other line."""
    sections, places = survey.clean.drop_sel(inline=line), eye_exemplars(OTHER_LINE[line])
    labels = job_labels(sections, places, survey.folder / f"without-{line}.outcrop", seed=seed, quick=survey.quick)
    return on_sections(survey, labels["label"], labels.attrs["classes"], labels["confidence"])


def expert_labels(survey: F3Data, line: int, seed: int, device: Device) -> Examples:
    """Return patches of the expert line that is not scored, with the expert's labels; `line` is the scored line."""
    truth = survey.truth.sel(inline=[OTHER_LINE[line]])
    return on_sections(survey, truth, truth.attrs["classes"])


def on_sections(
    survey: F3Data, labels: xr.DataArray, classes: Sequence[str], sure: xr.DataArray | None = None
) -> Examples:
    """Return training examples: overlapping patches of the sections, without patches that contain no labels.

    `sure` is the confidence of the labels (255 = certain); None gives all labels the same weight.
    """
    codes = coded(labels.reindex_like(survey.clean, fill_value=0).values, classes)
    weights = None if sure is None else sure.reindex_like(survey.clean, fill_value=0).values
    starts = survey.grid.places(np.arange(len(survey.grid)))[:, 1:]
    labelled = windows(codes, starts).any(axis=(1, 2))
    return Examples("sections", codes, weights, starts[labelled])


LABELS: dict[str, Callable[[F3Data, int, int, str | None], Examples]] = {
    "authors' release": authors_labels,
    "paper's mapping": paper_labels,
    "our mapping, exemplars by eye": our_labels_from_exemplars,
    "expert": expert_labels,
}


def coded(labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Renumber label codes: in `labels`, code i + 1 is ``classes[i]``; in the result, it is ``CLASSES[i]``.

    Pixels without a class get 0. In `CLASSES`, `other` is the second class and `fault` the third.

    Examples
    --------
    >>> coded(np.array([0, 1, 2, 255]), ["fault", "other"])
    array([0, 3, 2, 0], dtype=uint8)
    """
    table = np.zeros(256, np.uint8)
    for code, name in enumerate(classes, 1):
        if code not in NOT_A_CLASS:
            table[code] = CLASSES.index(str(name)) + 1
    return table.take(labels)


def scores(truth: xr.DataArray, found: dict[Any, xr.DataArray], seconds: dict[Any, float]) -> list[dict[str, Any]]:
    """Return the scores of the nets' labels for each line and for all lines together."""
    together = xr.concat(list(found.values()), "inline", combine_attrs="override")
    out = []
    seconds = seconds | {"all": sum(seconds.values())}
    for line, codes in (found | {"all": together}).items():
        true = truth.sel(inline=codes["inline"], time=codes["time"])
        out.append({"line": line} | flat(oc.pixel_scores(codes, true)) | {"seconds": seconds[line]})
    return out


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the scores averaged over the seeds, for each kind of labels and each line.

    With several seeds, ``MIU_sd`` is the standard deviation of mean IU. ``share of expert`` is the mean IU divided by
    the mean IU of the net trained on expert labels.
    """
    groups = table.groupby(["labels", "line"], sort=False)
    out = groups.mean().drop(columns="seed")
    out["MIU_sd"] = groups["MIU"].std()
    out = out.reset_index()
    best = out[out["labels"] == "expert"].set_index("line")["MIU"]
    out["share of expert"] = out["MIU"] / out["line"].map(best)
    spread = ["MIU_sd"] if table["seed"].nunique() > 1 else []
    iu = list(out.filter(like="IU "))
    return out[["labels", "line", "MIU", *spread, "share of expert", "PA", *iu, "MA", "FWIU", "coverage", "seconds"]]


def draw(survey: F3Data, shown: dict[str, dict[int, xr.DataArray]], table: pd.DataFrame) -> Any:
    """Draw sections with the labels of the expert and of the nets; add empty axes below for `bars`."""
    from matplotlib.patches import Patch

    figure = oc.plots.new_figure(figsize=(15, 2.5 * (len(shown) + 1) + 4.5), layout="constrained")
    heights = [1.0] * (len(shown) + 1) + [1.4]
    grid = figure.add_gridspec(len(heights), len(OTHER_LINE), height_ratios=heights)
    miu = table.set_index(["labels", "line"])["MIU"]
    for column, (line, other) in enumerate(OTHER_LINE.items()):
        truth = survey.truth.sel(inline=line)
        truth = truth.isel(time=np.flatnonzero((truth.values > 0).any(axis=0)))
        section = survey.sections.sel(inline=line, time=truth["time"])
        panels = {f"inline {line}, labels of the expert": truth.copy(data=coded(truth.values, truth.attrs["classes"]))}
        for name, found in shown.items():
            source = f"{name}, inline {other}" if name == "expert" else name
            title = f"net trained on: {source} (mean IU {miu[name, line]:.2f})"
            panels[title] = found[line].sel(inline=line, time=truth["time"])
        for row, (title, codes) in enumerate(panels.items()):
            ax = oc.plots.overlay(section, codes, CLASSES, opacity=0.55, ax=figure.add_subplot(grid[row, column]))
            ax.legend(handles=[]).remove()
            ax.set_title(title, loc="left", fontsize=11)
            if row < len(panels) - 1:
                ax.set(xlabel="", xticklabels=[])
    palette = oc.plots.colours(CLASSES) | {"uncertain": oc.plots.COLOURS["uncertain"]}
    handles = [Patch(color=colour, label=name) for name, colour in palette.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=12)
    figure.add_subplot(grid[-1, :])
    return figure


def bars(table: pd.DataFrame, ax: Any) -> None:
    """Draw mean IU and the IU of every class for each net, on both lines together."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=4, foreground="white")]  # keeps numbers readable on the dashed line
    both = table[table["line"] == "all"].reset_index(drop=True)
    columns = {"MIU": "black"} | {f"IU {name}": colour for name, colour in oc.plots.colours(CLASSES).items()}
    width = 0.8 / len(columns)
    for i, (column, colour) in enumerate(columns.items()):
        spread = both.get("MIU_sd") if column == "MIU" else None
        place = np.arange(len(both)) + (i - (len(columns) - 1) / 2) * width
        name = column.removeprefix("IU ").replace("MIU", "mean")
        drawn = ax.bar(place, both[column], width, color=colour, edgecolor="black", lw=0.5, label=name, yerr=spread)
        ax.bar_label(drawn, fmt="%.2f", padding=2, fontsize=10, path_effects=halo)
    aim = 0.9 * both.loc[both["labels"] == "expert", "MIU"].iloc[0]
    ax.axhline(aim, color="black", lw=1, ls="--", zorder=0, label="90 % of the expert-trained net's mean")
    names = both["labels"] + both["share of expert"].map("\n{:.0%} of expert".format)
    ax.set_xticks(np.arange(len(both)), names, fontsize=11)
    ax.set(ylim=(0, 1.05), ylabel="intersection over union", xlim=(-0.5, len(both) - 0.5))
    ax.set_title("against the expert, inlines 310 and 330 together", loc="left", fontsize=11)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(columns) + 1, fontsize=10, frameon=False)
