"""Purity of what a few exemplars retrieve, by rank: on the real F3 sections and on a synthetic volume."""

import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

from outcrop import datasets, plots
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.experiments import Result
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import build_index
from outcrop.retrieval.ranking import retrieve

RANKS = (10, 50, 100, 200, 300)


def run(data, *, quick=False):
    """Retrieve from the exemplars of both lines of ``exemplars.toml`` and from one synthetic exemplar a class."""
    sections, labels = datasets.f3_sections(data)
    volume, truth = datasets.synthetic(seed=0)
    if quick:
        volume, truth = volume[40::10], truth[40::10]
    found = {
        "F3": purity(sections, labels, eye_exemplars(310, 330), size=99, step=33 if quick else 11, count=600),
        "synthetic": purity(volume, truth, datasets.exemplars(truth, 64), size=64, step=32 if quick else 16, count=200),
    }
    rows = [
        {
            "volume": name,
            "class": label,
            "patches judged": len(shown),
            **{f"first {n}": shown[:n].mean() for n in RANKS},
        }
        for name, curves in found.items()
        for label, shown in curves.items()
    ]
    figure = plots.new_figure(figsize=(12, 4), layout="constrained")
    for ax, (name, curves) in zip(figure.subplots(1, 2), found.items(), strict=True):
        plots.purity_curves(curves, ax=ax).set_title(name, loc="left")
    remark = (
        "The paper retrieves on the whole F3 volume and reports no purity there; a patch counts as right where at "
        "least 20 % of its labelled pixels are of the class (80 % for other)."
    )
    return Result(pd.DataFrame(rows), figure, remark)


def eye_exemplars(*lines):
    """Exemplars of some lines that were chosen by eye, class by class, at most two each."""
    table = tomllib.loads((Path(__file__).parent / "exemplars.toml").read_text(encoding="utf-8"))
    places: dict = {}
    for line in lines:
        for name, found in table[str(line)].items():
            places.setdefault(name, []).extend(tuple(place) for place in found)
    return {name: found[:: max(1, len(found) // 2)][:2] for name, found in places.items()}


def purity(volume, truth, exemplars, *, size, step, count):
    """Class -> whether each retrieved patch shows its class, by rank, where the truth is known."""
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            volume, PatchGrid(volume, size=size, step=step), Path(folder) / "job.outcrop", measure="curvelet-svd"
        )
        weak = retrieve(index, exemplars, min(count, len(index) // len(exemplars)))
        shown = weak_label_scores(weak, index.grid, truth)
    return {name: shares[np.isfinite(shares)] for name, shares in shown.items()}
