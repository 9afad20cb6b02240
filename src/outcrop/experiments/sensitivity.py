"""What the default mapping makes of wrong image labels, of few or many exemplars, and of a class that nobody named."""

import numpy as np
import pandas as pd

from outcrop import datasets, plots
from outcrop.experiments import Result
from outcrop.experiments.expert import Task, against_expert, fresh, label, opened
from outcrop.labels.decision import confidence_for
from outcrop.mapping.confidence import labelled
from outcrop.mapping.registry import DEFAULT_MAPPING

WRONG = (0.0, 0.05, 0.1, 0.25)
EXEMPLARS = (1, 2, 4)
DRAWS = 2
MAX_ERROR = 0.05


def run(data, *, quick=False, only=None):
    """Score with wrong labels, with 1, 2 and 4 exemplars a class, with two classes; see where a class left out goes.

    `only` names some of `PARTS`.
    """
    unknown = [name for name in only or () if name not in PARTS]
    if unknown:
        raise ValueError(f"sensitivity has no part {unknown[0]!r}; choose from {', '.join(PARTS)}.")
    with opened(data, quick) as yard:
        table = pd.DataFrame([row for name in only or PARTS for row in PARTS[name](yard)])
    remark = (
        "Not in the paper. Nothing in the weak labels says that a structure is of no class; it becomes uncertain where "
        "the classes there are do not fit, at the limit of confidence that is meant to leave 5 % of errors."
    )
    return Result(table, draw(table), remark)


def _row(yard, task, seed=0):
    found = label(yard, task, fresh(DEFAULT_MAPPING, seed, yard.quick), None)
    return against_expert(yard, found)[-1], found


def wrong_labels(yard):
    """MIU when a share of the patches carries the class of another."""
    task = yard.patches()[0][0]
    for share in WRONG[:: 3 if yard.quick else 1]:
        rng = np.random.default_rng(0)
        classes = task.classes.copy()
        wrong = rng.random(len(classes)) < share
        names = np.unique(classes)
        classes[wrong] = [rng.choice(names[names != name]) for name in classes[wrong]]
        found, _ = _row(yard, task._replace(classes=classes))
        yield {"what": "wrong image labels", "number": share, "MIU": found["MIU"]}


def exemplar_counts(yard):
    """MIU from random admissible exemplars, mean over lines and draws."""
    for count in EXEMPLARS[:: 3 if yard.quick else 1]:
        scores = []
        for line in yard.lines[:1] if yard.quick else yard.lines:
            others = [other for other in yard.lines if other != line]
            for seed in range(1 if yard.quick else DRAWS):
                places = datasets.exemplars(
                    yard.truth.sel(inline=[line]), 99, count=count, min_share=0.2, seed=10 * count + seed
                )
                scores.append(_row(yard, yard.retrieved(places, others))[0]["MIU"])
        spread = {"lowest": min(scores), "highest": max(scores)}
        yield {"what": "exemplars a class", "number": count, "MIU": np.mean(scores), **spread}


def structures(yard):
    """Names of the expert's classes but the background; the first alone where it should be quick."""
    names = [name for name in yard.truth.attrs["classes"] if name != "other"]
    return names[:1] if yard.quick else names


def alone(yard):
    """MIU of a structure and `other` where patches of these two are all there is to learn from.

    The other structures of the sections count as background.
    """
    task = yard.patches()[0][0]
    for name in structures(yard):
        keep = np.isin(task.classes, [name, "other"])
        _, found = _row(yard, Task(task.patches[keep], task.classes[keep], task.lines))
        scores = []
        for labels in found:
            truth = yard.truth.sel(inline=labels["inline"], time=labels["time"])
            known = truth.values > 0
            found = labels["label"].values[known] == labels.attrs["classes"].index(name) + 1
            true = truth.values[known] == truth.attrs["classes"].index(name) + 1
            scores.append(np.mean([(a & b).sum() / (a | b).sum() for a, b in ((found, true), (~found, ~true))]))
        yield {"what": f"{name} and other alone", "MIU": np.mean(scores)}


def left_out(yard):
    """What the expert's pixels of a structure become, at 5 % error, when no patch of it is there to learn from."""
    task = yard.patches()[0][0]
    for name in structures(yard):
        keep = task.classes != name
        _, found = _row(yard, Task(task.patches[keep], task.classes[keep], task.lines))
        shares, sure, rest, unsure = [], [], [], []
        for labels in found:
            truth = yard.truth.sel(inline=labels["inline"], time=labels["time"])
            of_class = truth.values == truth.attrs["classes"].index(name) + 1
            confidence = labels["confidence"].values / 255
            limit = confidence_for(labels["confidence"].values, MAX_ERROR)
            found = labels["label"].values
            codes = np.where((confidence >= limit) & labelled(found), found, 0)
            unsure.append((codes[(truth.values > 0) & ~of_class] == 0).mean())
            shares.append(np.bincount(codes[of_class], minlength=5)[:5] / of_class.sum())
            sure.append(confidence[of_class].mean())
            rest.append(confidence[(truth.values > 0) & ~of_class].mean())
        mean = dict(zip(["uncertain", *labels.attrs["classes"]], np.mean(shares, axis=0), strict=False))
        yield {
            "what": f"{name} left out",
            **{f"as {other}": share for other, share in mean.items()},
            "confidence there": np.mean(sure),
            "confidence elsewhere": np.mean(rest),
            "uncertain elsewhere": np.mean(unsure),
        }


PARTS = {
    "wrong labels": wrong_labels,
    "exemplars": exemplar_counts,
    "two classes": alone,
    "left out": left_out,
}


def draw(table):
    """MIU by wrong labels and by exemplars, and where the classes left out go."""
    table = table.reindex(columns=list(dict.fromkeys([*table, "number", "MIU", "lowest", "highest"])))
    figure = plots.new_figure(figsize=(14, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, what in zip(axes, ("wrong image labels", "exemplars a class"), strict=False):
        part = table[table["what"] == what]
        ax.plot(part["number"], part["MIU"], "o-")
        if what.startswith("exemplars"):
            ax.fill_between(
                part["number"].astype(float), part["lowest"].astype(float), part["highest"].astype(float), alpha=0.2
            )
            ax.set_xticks(part["number"])
        ax.set(xlabel=what, ylabel="mean intersection over union", ylim=(0, 0.8))
    part = table[table["what"].str.endswith("left out")]
    columns = [name for name in table if name.startswith("as ")]
    palette = {"uncertain": "grey"} | plots.colours([name[3:] for name in columns if name != "as uncertain"])
    start = np.zeros(len(part))
    for column in columns:
        share = part[column].fillna(0).to_numpy(float)
        axes[2].barh(part["what"], share, left=start, color=palette[column[3:]], label=column)
        start += share
    axes[2].set(xlim=(0, 1), xlabel="share of its pixels")
    axes[2].legend(fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    return figure
