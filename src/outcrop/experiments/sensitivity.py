"""What the default mapping makes of wrong image labels, of few or many exemplars, and of a class that nobody named."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.expert import Names, Task, Yard, against_expert, check_choices, fresh, label, opened
from outcrop.labels.decision import confidence_for
from outcrop.mapping.confidence import labelled
from outcrop.mapping.registry import DEFAULT_MAPPING

WRONG = (0.0, 0.05, 0.1, 0.25)
EXEMPLARS = (1, 2, 4)
DRAWS = 2
MAX_ERROR = 0.05


def run(data: Data, *, quick: bool = False, only: Names = None) -> Result:
    """Score with wrong labels, with 1, 2 and 4 exemplars a class, with two classes; see where a class left out goes.

    `only` names some of `PARTS`.
    """
    with opened(data, quick) as yard:
        table = pd.DataFrame([row for name in check_choices(only, PARTS) for row in PARTS[name](yard)])
    return Result(table, draw(table))


def labels_from(yard: Yard, task: Task) -> list[xr.Dataset]:
    """Return the labels of all lines of a task by the default mapping."""
    return label(yard, task, fresh(DEFAULT_MAPPING, 0, yard.quick))


def wrong_labels(yard: Yard) -> Iterator[dict[str, Any]]:
    """Yield MIU when a share of the patches carries the class of another."""
    task = yard.patches()[0][0]
    for share in WRONG[:: 3 if yard.quick else 1]:
        rng = np.random.default_rng(0)
        classes = task.classes.copy()
        wrong = rng.random(len(classes)) < share
        names = np.unique(classes)
        classes[wrong] = [rng.choice(names[names != name]) for name in classes[wrong]]
        found = against_expert(yard, labels_from(yard, task._replace(classes=classes)))[-1]
        yield {"what": "wrong image labels", "number": share, "MIU": found["MIU"]}


def exemplar_counts(yard: Yard) -> Iterator[dict[str, Any]]:
    """Yield MIU from random admissible exemplars, mean over lines and draws."""
    for count in EXEMPLARS[:: 3 if yard.quick else 1]:
        scores = []
        for line in yard.lines[:1] if yard.quick else yard.lines:
            others, truth = [other for other in yard.lines if other != line], yard.truth.sel(inline=[line])
            for seed in range(1 if yard.quick else DRAWS):
                places = oc.datasets.exemplars(truth, 99, count=count, min_share=0.2, seed=10 * count + seed)
                found = labels_from(yard, yard.retrieved(places, others))
                scores.append(against_expert(yard, found)[-1]["MIU"])
        spread = {"lowest": min(scores), "highest": max(scores)}
        yield {"what": "exemplars a class", "number": count, "MIU": np.mean(scores), **spread}


def structures(yard: Yard) -> list[str]:
    """Return the names of the expert's classes but the background; the first alone where it should be quick."""
    names = [name for name in yard.truth.attrs["classes"] if name != "other"]
    return names[:1] if yard.quick else names


def labels_of_some(yard: Yard, name: str, keep: np.ndarray) -> Iterator[tuple[xr.Dataset, np.ndarray, np.ndarray]]:
    """Yield the labels learnt from some patches, line by line, where the expert drew a class, and where nothing."""
    task = yard.patches()[0][0]
    for labels in labels_from(yard, Task(task.patches[keep], task.classes[keep], task.lines)):
        truth = yard.truth.sel(inline=labels["inline"], time=labels["time"])
        yield labels, truth.values == truth.attrs["classes"].index(name) + 1, truth.values > 0


def alone(yard: Yard) -> Iterator[dict[str, Any]]:
    """Yield MIU of a structure and `other` where patches of these two are all there is to learn from.

    The other structures of the sections count as background.
    """
    classes = yard.patches()[0][0].classes
    for name in structures(yard):
        scores = []
        for labels, of_class, known in labels_of_some(yard, name, np.isin(classes, [name, "other"])):
            found, true = labels["label"].values[known] == labels.attrs["classes"].index(name) + 1, of_class[known]
            scores.append(np.mean([(a & b).sum() / (a | b).sum() for a, b in ((found, true), (~found, ~true))]))
        yield {"what": f"{name} and other alone", "MIU": np.mean(scores)}


def left_out(yard: Yard) -> Iterator[dict[str, Any]]:
    """Yield what the expert's pixels of a structure become, at 5 % error, when no patch of it is learnt from."""
    classes = yard.patches()[0][0].classes
    for name in structures(yard):
        rows = []
        for labels, of_class, known in labels_of_some(yard, name, classes != name):
            confidence, found, elsewhere = labels["confidence"].values / 255, labels["label"].values, known & ~of_class
            limit = confidence_for(labels["confidence"].values, MAX_ERROR)
            codes = np.where((confidence >= limit) & labelled(found), found, 0)
            shares = np.bincount(codes[of_class], minlength=5) / of_class.sum()
            row = {
                f"as {other}": share
                for other, share in zip(["uncertain", *labels.attrs["classes"]], shares, strict=False)
            }
            row |= {"confidence there": confidence[of_class].mean()}
            row |= {"confidence elsewhere": confidence[elsewhere].mean()}
            rows.append(row | {"uncertain elsewhere": (codes[elsewhere] == 0).mean()})
        yield {"what": f"{name} left out", **pd.DataFrame(rows).mean(skipna=False)}


PARTS = {
    "wrong labels": wrong_labels,
    "exemplars": exemplar_counts,
    "two classes": alone,
    "left out": left_out,
}


def draw(table: pd.DataFrame) -> Any:
    """Draw MIU by wrong labels and by exemplars, and where the classes left out go."""
    table = table.reindex(columns=list(dict.fromkeys([*table, "number", "MIU", "lowest", "highest"])))
    figure = oc.plots.new_figure(figsize=(14, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, what in zip(axes, ("wrong image labels", "exemplars a class"), strict=False):
        part = table.loc[table["what"] == what, ["number", "MIU", "lowest", "highest"]].astype(float)
        ax.plot(part["number"], part["MIU"], "o-")
        ax.fill_between(part["number"], part["lowest"], part["highest"], alpha=0.2)
        ax.set(xlabel=what, xticks=part["number"], ylabel="mean intersection over union", ylim=(0, 0.8))
    part = table[table["what"].str.endswith("left out")].set_index("what").filter(like="as ").astype(float).fillna(0)
    palette = oc.plots.colours([name.removeprefix("as ") for name in part], {"uncertain": "grey"})
    start = np.zeros(len(part))
    for column, share in part.items():
        axes[2].barh(part.index, share, left=start, color=palette[column.removeprefix("as ")], label=column)
        start += share
    axes[2].set(xlim=(0, 1), xlabel="share of its pixels")
    axes[2].legend(fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    return figure
