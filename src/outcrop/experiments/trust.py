"""Calibration of labels: their accuracy by confidence, their error by coverage, and a figure of all sections."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop.evaluate.calibration import calibration_error, risk_coverage
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.expert import F3Data, JobTask, answers, label_by_job, opened
from outcrop.experiments.f3 import eye_exemplars
from outcrop.labels.decision import confidence_for
from outcrop.mapping.registry import DEFAULT_MAPPING

MAPPERS = (DEFAULT_MAPPING, "paper")
EXEMPLAR_LINE = 330  # both mappings learn from exemplars chosen by eye on this line; it is not scored
MAX_ERROR = 0.05


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Compare confidence and accuracy on the expert's lines, and draw all sections."""
    with opened(data, quick) as survey:
        task = JobTask(eye_exemplars(EXEMPLAR_LINE), survey.clean["inline"].values.tolist())
        found = {}
        for name in MAPPERS:
            labels = label_by_job(survey, task, name, 0, device)
            found[name] = xr.concat(labels, "inline", combine_attrs="override")
        table = pd.DataFrame([{"mapper": name, **trust(survey, labels)} for name, labels in found.items()])
        figure = draw(survey, found)
    return Result(table, figure)


def scored(survey: F3Data) -> list[int]:
    """Return the lines with expert labels, except the line of the exemplars."""
    return [line for line in survey.lines if line != EXEMPLAR_LINE]


def trust(survey: F3Data, labels: xr.Dataset) -> dict[str, float]:
    """Return accuracy, calibration error, coverage at 5 and 10 % error, and a limit of confidence for 5 % error.

    Coverage is the share of pixels whose labels have a confidence above a limit. The limit for 5 % error is chosen from
    the confidence alone; the true error and the coverage of the labels above this limit are returned, too.
    """
    sure, right = answers(survey, labels.sel(inline=scored(survey)))
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


def draw(survey: F3Data, found: dict[str, xr.Dataset]) -> Any:
    """Draw four panels for every section, and the curves of `_curves` below them.

    The panels are the labels of the expert, the labels of the paper's mapping, and the labels and the confidence of the
    default mapping.
    """
    lines = survey.clean["inline"].values.tolist()
    figure = oc.plots.new_figure(figsize=(24, 4.2 * (len(lines) + 1)), layout="constrained")
    axes = figure.subplots(len(lines) + 1, 4)
    for row, line in zip(axes, lines, strict=False):
        section, known = survey.clean.sel(inline=line), line in survey.lines
        if known:
            oc.plots.overlay(
                section, survey.truth.sel(inline=line, time=section["time"]), survey.truth.attrs["classes"], ax=row[0]
            )
        else:
            oc.plots.section(section, ax=row[0])
        row[0].set_title(f"inline {line}, {'expert' if known else 'no expert labels'}", loc="left")
        for ax, name in zip(row[1:3], ("paper", DEFAULT_MAPPING), strict=True):
            oc.plots.overlay(section, found[name]["label"].sel(inline=line), found[name].attrs["classes"], ax=ax)
            ax.set_title(name, loc="left")
        sure = found[DEFAULT_MAPPING]["confidence"].sel(inline=line).values.T / 255
        image = row[3].imshow(sure, cmap="viridis", vmin=0, vmax=1, **oc.plots.frame(section))
        figure.colorbar(image, ax=row[3], pad=0.01)
        row[3].set_title(f"confidence of {DEFAULT_MAPPING}", loc="left")
    _curves(axes[-1], survey, found)
    return figure


def _curves(axes: np.ndarray, survey: F3Data, found: dict[str, xr.Dataset]) -> None:
    """Draw accuracy by confidence and error by coverage."""
    for name, labels in found.items():
        sure, right = answers(survey, labels.sel(inline=scored(survey)))
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
