"""The paper's ROC curves: how well each measure separates pairs of the same class from pairs of different classes."""

from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.table1 import PAPER, matrix, shown_sets


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Draw the ROC curves of the seven measures in two panels.

    In the first, similarities are as the paper defines them; in the second, each row of similarities is normalised.
    """
    sets = shown_sets(data, quick)
    figure = oc.plots.new_figure(figsize=(11.5, 5.6 * len(sets)), layout="constrained")
    rows = []
    for axes, (name, patches) in zip(figure.subplots(len(sets), 2, squeeze=False), sets.items(), strict=True):
        for measure in PAPER:
            S = matrix(data, name, measure, quick, device).similarity
            printed, normalised = (oc.retrieval_scores(x, patches.classes) for x in (S, row_normalised(S)))
            for ax, scores in zip(axes, (printed, normalised), strict=True):
                style = {"color": "black", "lw": 2.5, "zorder": 3} if measure == "curvelet-svd" else {"lw": 1.5}
                ax.plot(*scores["roc"], label=f"{scores['AUC']:.3f}  {measure}", **style)
            rates = {f"true at {rate} false": np.interp(rate, *printed["roc"]) for rate in (0.01, 0.1)}
            aucs = {"AUC": printed["AUC"], "AUC row": normalised["AUC"], "paper AUC": PAPER[measure][2]}
            rows.append({"data": name, "measure": measure} | aucs | rates)
        finish(axes[0], f"{name}, {len(patches.images)} images: as the paper defines it")
        finish(axes[1], "every row normalised alike")
    return Result(pd.DataFrame(rows), figure)


def row_normalised(S: np.ndarray) -> np.ndarray:
    """Return a similarity matrix with every row scaled to 0 at the least similar image and 1 at the query itself."""
    low = S.min(1, keepdims=True)
    return np.asarray((S - low) / (np.diag(S)[:, None] - low))


def finish(ax: Any, title: str) -> None:
    """Draw axes, diagonal and legend of one panel."""
    ax.plot([0, 1], [0, 1], color="grey", lw=0.8, ls=":")
    ax.set(xlim=(0, 1), ylim=(0, 1.005), xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    ax.set_title(title, loc="left", fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right", fontsize="small", title="AUC", alignment="left")
