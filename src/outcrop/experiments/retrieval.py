"""Purity, by rank, of the patches that a few exemplars retrieve on the F3 sections and on a synthetic volume."""

import numpy as np
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.experiments import Data, Result
from outcrop.experiments.f3 import Places, eye_exemplars, temporary_index

RANKS = (10, 50, 100, 200, 300)


def run(data: Data, *, quick: bool = False) -> Result:
    """Retrieve patches on F3 and on a synthetic volume, and return their purity by rank.

    On F3, the exemplars are those of both lines in ``exemplars.toml``; the synthetic volume has one exemplar per class.
    """
    sections, labels = oc.datasets.f3_sections(data)
    volume, truth = oc.datasets.synthetic(seed=0)
    if quick:
        volume, truth = volume[40::10], truth[40::10]
    steps = (33, 32) if quick else (11, 16)
    found = {
        "F3": purity(sections, labels, eye_exemplars(310, 330), size=99, step=steps[0], count=600),
        "synthetic": purity(volume, truth, oc.datasets.exemplars(truth, 64), size=64, step=steps[1], count=200),
    }
    rows = []
    figure = oc.plots.new_figure(figsize=(12, 4), layout="constrained")
    for ax, (name, curves) in zip(figure.subplots(1, 2), found.items(), strict=True):
        oc.plots.purity_curves(curves, ax=ax).set_title(name, loc="left")
        for label, shown in curves.items():
            first = {f"first {n}": shown[:n].mean() for n in RANKS}
            rows.append({"volume": name, "class": label, "patches judged": len(shown)} | first)
    return Result(pd.DataFrame(rows), figure)


def purity(
    volume: xr.DataArray, truth: xr.DataArray, exemplars: Places, *, size: int, step: int, count: int
) -> dict[str, np.ndarray]:
    """Return a dict: class -> array in order of rank, 1 for a retrieved patch that shows the class, else 0.

    Patches without true labels are left out.
    """
    with temporary_index(volume, size=size, step=step, measure="curvelet-svd") as index:
        weak = oc.retrieve(index, exemplars, min(count, len(index) // len(exemplars)))
        shown = weak_label_scores(weak, index.grid, truth)
    return {name: shares[np.isfinite(shares)] for name, shares in shown.items()}
