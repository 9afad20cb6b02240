"""How far the labels can be trusted: confidence against accuracy, error by coverage, and the sections to look at."""

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import plots
from outcrop.evaluate.calibration import calibration_error, risk_coverage
from outcrop.experiments import Result
from outcrop.experiments.expert import fresh, label, opened
from outcrop.labels.decision import confidence_for
from outcrop.mapping.confidence import labelled
from outcrop.mapping.registry import DEFAULT_MAPPING

MAPPERS = (DEFAULT_MAPPING, "texture", "paper")
MAX_ERROR = 0.05


def run(data, *, quick=False, device=None):
    """Compare confidence and accuracy on the expert's lines, and draw all sections."""
    with opened(data, quick) as yard:
        task = yard.patches()[0][0]._replace(lines=yard.clean["inline"].values.tolist())
        found = {}
        for name in MAPPERS:
            labels = label(yard, task, fresh(name, 0, quick), device)
            found[name] = xr.concat(labels, "inline", combine_attrs="override")
        table = pd.DataFrame([{"mapper": name, **trust(yard, labels)} for name, labels in found.items()])
        figure = draw(yard, found)
    remark = (
        "Not in the paper, whose confidence is a raw magnitude; no truth is used to choose the limit for "
        f"{MAX_ERROR:.0%} error, only the confidence itself, so the error it really has tells how honest that is."
    )
    return Result(table, figure, remark)


def trust(yard, labels):
    """Calibration error, coverage at 5 % error, and what the limit chosen without truth gives."""
    sure, right = answers(yard, labels)
    coverage, risk = risk_coverage(sure, right)
    limit = confidence_for(labels["confidence"].values, MAX_ERROR)
    kept = sure >= limit
    return {
        "pixel accuracy": right.mean(),
        "calibration error": calibration_error(sure, right),
        **{f"coverage at {e:.0%} error": coverage[risk <= e].max(initial=0) for e in (0.05, 0.1)},
        "limit for 5 % error": limit,
        "its error": 1 - right[kept].mean() if kept.any() else np.nan,
        "its coverage": kept.mean(),
    }


def answers(yard, labels):
    """Confidence of the labelled pixels that an expert labelled too, and whether their label is right."""
    labels = labels.sel(inline=yard.lines)
    truth = yard.truth.sel(time=labels["time"])
    known = labelled(labels["label"].values) & labelled(truth.values)
    found, true = (np.array(["", *names]) for names in (labels.attrs["classes"], truth.attrs["classes"]))
    right = found[labels["label"].values[known]] == true[truth.values[known]]
    return labels["confidence"].values[known] / 255, right


def draw(yard, found):
    """Every section as the expert, the paper and we label it, our confidence, and two curves."""
    lines = yard.clean["inline"].values.tolist()
    figure = plots.new_figure(figsize=(24, 4.2 * (len(lines) + 1)), layout="constrained")
    axes = figure.subplots(len(lines) + 1, 4)
    for row, line in zip(axes, lines, strict=False):
        section = yard.clean.sel(inline=line)
        if line in yard.lines:
            truth = yard.truth.sel(inline=line, time=section["time"])
            plots.overlay(section, truth, yard.truth.attrs["classes"], ax=row[0])
        else:
            plots.section(section, ax=row[0])
        titles = [f"inline {line}, {'expert' if line in yard.lines else 'no expert labels'}", "paper", DEFAULT_MAPPING]
        for ax, name in zip(row[1:], ("paper", DEFAULT_MAPPING), strict=False):
            plots.overlay(section, found[name]["label"].sel(inline=line), found[name].attrs["classes"], ax=ax)
        sure = found[DEFAULT_MAPPING]["confidence"].sel(inline=line).values.T / 255
        image = row[3].imshow(sure, cmap="viridis", vmin=0, vmax=1, **plots.frame(section))
        figure.colorbar(image, ax=row[3], pad=0.01)
        for ax, title in zip(row, [*titles, f"confidence of {DEFAULT_MAPPING}"], strict=True):
            ax.set_title(title, loc="left")
    _curves(axes[-1], yard, found)
    return figure


def _curves(axes, yard, found):
    """Accuracy by confidence and error by coverage."""
    for name, labels in found.items():
        sure, right = answers(yard, labels)
        bins = np.minimum((sure * 15).astype(int), 14)
        count = np.bincount(bins, minlength=15)
        some = count > 100
        mean = [np.bincount(bins, values, 15)[some] / count[some] for values in (sure, right)]
        axes[0].plot(*mean, "o-", label=name)
        axes[1].plot(*risk_coverage(sure, right), label=name)
    axes[0].plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes[0].set(xlabel="confidence", ylabel="share right")
    axes[1].axhline(MAX_ERROR, color="grey", linewidth=1)
    axes[1].set(xlabel="coverage", ylabel="share wrong")
    for ax in axes[:2]:
        ax.legend()
    for ax in axes[2:]:
        ax.set_axis_off()
