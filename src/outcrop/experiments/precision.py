"""The paper's precision curves: share of right patches among the first M retrieved, class by class."""

import pandas as pd

from outcrop import plots
from outcrop.evaluate.retrieval import retrieval_scores
from outcrop.experiments import Result
from outcrop.experiments.table1 import matrix, shown_sets

RANKS = (1, 10, 50, 100, 250)
REMARK = (
    "The paper finds horizons of LANDMASS-2 without error and faults hardest; on the SEG 2017 patches `other` is two "
    "kinds of patches from two exemplars, so its curve falls from half its size on (dashed: each kind asking for its "
    "own), and faults are easiest, being near-copies on neighbouring lines."
)


def run(data, *, quick=False, device=None):
    """P@M of the paper's measure over all classes and for each; `other` also as the two kinds it consists of."""
    sets = shown_sets(data, quick)
    figure = plots.new_figure(figsize=(6.5 * len(sets), 4.8), layout="constrained")
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
    return Result(pd.DataFrame(rows), figure, REMARK)


def curves(S, patches):
    """Class -> retrieval accuracy and P@M as far as there are others of it: all, each class, each kind of a class."""
    scores, kinds = (retrieval_scores(S, classes) for classes in (patches.classes, patches.modes))
    sizes = pd.concat([pd.Series(x).value_counts() for x in (patches.classes, patches.modes)]).to_dict()
    found = {"all": (scores["RA"], scores["precision"][: max(sizes.values()) - 1])}
    for result in (scores, kinds):
        for name, curve in result["precision_by_class"].items():
            found[name] = result["RA_by_class"][name], curve[: sizes[name] - 1]
    return found


def draw(ax, found):
    """Precision in the paper's colours; every curve ends at its retrieval accuracy."""
    palette = plots.colours(list(found)) | {"all": "black", "horizon": plots.COLOURS["other"]}
    for name, (accuracy, curve) in found.items():
        label, ranks = f"{name}: RA {accuracy:.3f}", range(1, len(curve) + 1)
        if name.startswith("other "):
            ax.plot(ranks, curve, "--", color=plots.COLOURS["other"], lw=1.3, label=label)
        else:
            ax.plot(ranks, curve, color=palette[name], lw=2, label=label)
    ax.set(xlabel="retrieved patches M", ylabel="precision P@M", xlim=(1, None), ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left", fontsize="small")
