"""The paper's precision curves: the share of right patches among the first M retrieved patches (P@M), by class."""

from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.table1 import Patches, matrix, shown_sets

RANKS = (1, 10, 50, 100, 250)


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Compute P@M, the precision of the paper's measure among the first M retrieved patches.

    It is computed for all classes together, for each class, and for each of the two kinds of `other` patches.
    """
    sets = shown_sets(data, quick)
    figure = oc.plots.new_figure(figsize=(6.5 * len(sets), 4.8), layout="constrained")
    rows = []
    for ax, (name, patches) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        S = matrix(data, name, "curvelet-svd", quick, device).similarity
        found = curves(S, patches)
        for key, (accuracy, curve) in found.items():
            at = {f"P@{m}": curve[m - 1] for m in RANKS if m <= len(curve)}
            paper = {"paper P@M": "1 for every M" if key == "horizon" else ""}
            rows.append({"data": name, "class": key, "RA": accuracy} | at | paper)
        draw(ax, found)
        ax.set_title(f"{name}, {len(patches.images)} images", loc="left", fontsize=11)
    return Result(pd.DataFrame(rows), figure)


def curves(S: np.ndarray, patches: Patches) -> dict[str, tuple[float, np.ndarray]]:
    """Return a dict: name -> (retrieval accuracy, precision curve).

    The names are ``all`` (all classes together), each class, and each kind of a class (see `Patches`). The curve is
    the share of right patches among the first M retrieved patches, for M from 1 to the number of other patches of the
    class.
    """
    scores, kinds = (oc.retrieval_scores(S, classes) for classes in (patches.classes, patches.modes))
    sizes = pd.concat([pd.Series(x).value_counts() for x in (patches.classes, patches.modes)]).to_dict()
    found = {"all": (scores["RA"], scores["precision"][: max(sizes.values()) - 1])}
    for result in (scores, kinds):
        for name, curve in result["precision_by_class"].items():
            found[name] = result["RA_by_class"][name], curve[: sizes[name] - 1]
    return found


def draw(ax: Any, found: dict[str, tuple[float, np.ndarray]]) -> None:
    """Draw precision curves in the paper's colours; every curve ends at its retrieval accuracy."""
    palette = oc.plots.colours(list(found)) | {"all": "black", "horizon": oc.plots.COLOURS["other"]}
    for name, (accuracy, curve) in found.items():
        label, ranks = f"{name}: RA {accuracy:.3f}", range(1, len(curve) + 1)
        if name.startswith("other "):
            ax.plot(ranks, curve, "--", color=oc.plots.COLOURS["other"], lw=1.3, label=label)
        else:
            ax.plot(ranks, curve, color=palette[name], lw=2, label=label)
    ax.set(xlabel="retrieved patches M", ylabel="precision P@M", xlim=(1, None), ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left", fontsize="small")
