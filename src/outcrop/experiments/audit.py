"""How often the intervals of simulated audits hold the truth, and how wide they are, on F3 sections."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from outcrop import datasets, plots
from outcrop.experiments import Result
from outcrop.experiments.measures import COUNT, PURE, SHOWN, SIZE, STEP, class_shares
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.audit import draw_order, estimate, groups_by_class
from outcrop.retrieval.index import build_index
from outcrop.retrieval.ranking import retrieve

DRAWS, AUDITS = 20, 10  # random sets of exemplars, and audits of what each retrieves
CLICKS = (15, 30, 60)
REMARK = (
    "Not in the paper. An expert's labels of inlines 310 and 330 answer; the truth is the share of right patches among "
    "all retrieved there, and an interval should hold it 95 times in a hundred."
)


def run(data, *, quick=False):
    """Audit what random exemplars retrieve, all classes together and each of them."""
    found = []
    for known in retrieved(data, 2 if quick else DRAWS):
        for clicks in CLICKS:
            for seed in range(AUDITS):
                found += [{"clicks": clicks, **row} for row in audited(known, clicks, seed)]
    each = pd.DataFrame(found)
    table = each.groupby(["clicks", "of"], sort=False).agg(
        audits=("holds", "size"), holds=("holds", "mean"), half=("half", "mean"), error=("error", _root_mean_square),
        estimated=("estimated", _root_mean_square),
    )  # fmt: skip
    names = {"holds": "intervals that hold the truth", "half": "half width", "error": "error of the audit"}
    table = table.rename(columns=names | {"estimated": "error of the estimate without answers"}).reset_index()
    return Result(table, draw(each), REMARK)


def retrieved(data, draws):
    """Groups and their classes, class, weight and whether right, of the retrieved patches whose truth is known."""
    sections, truth = datasets.f3_sections(data)
    volume = sections.sel(time=slice(212, None))  # a caption is burnt into the pictures above
    truth = truth.sel(time=volume["time"])
    names = list(truth.attrs["classes"])
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(volume, PatchGrid(volume, size=SIZE, step=STEP), Path(folder) / "f3.outcrop")
        shares = class_shares(index.grid, truth)
        for seed in range(draws):
            weak = retrieve(index, datasets.exemplars(truth, SIZE, min_share=SHOWN, seed=seed), COUNT)
            share = shares[weak.rows, [names.index(name) for name in weak.classes]]
            right = share >= np.where(weak.classes == "other", PURE, SHOWN)
            known = np.isfinite(share)
            classes, weights = weak.classes[known], weak.weights[known]
            groups, owners = groups_by_class(index.descriptors(weak.rows[known]), classes, weights)
            yield groups, owners, classes, weights, right[known]


def audited(known, clicks, seed):
    """One audit: for all and for every class, whether the interval holds the truth, its half width, the errors."""
    groups, owners, classes, weights, right = known
    sizes = np.bincount(groups, minlength=len(owners))
    asked = draw_order(groups, clicks, seed=seed)
    for name in ("all", *dict.fromkeys(owners)):
        counted = np.array([name in ("all", owner) for owner in owners])
        found = estimate(np.arange(len(owners)), np.where(counted, sizes, 0), groups[asked], right[asked])
        of_class = np.isin(classes, name) | (name == "all")
        truth = right[of_class].mean()
        yield {
            "of": "all classes" if name == "all" else "one class", "truth": truth, "share": found.share,
            "holds": found.low <= truth <= found.high, "half": (found.high - found.low) / 2,
            "error": found.share - truth, "estimated": weights[of_class].mean() - truth,
        }  # fmt: skip


def _root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values))))


def draw(each):
    """Estimated against true share, all classes together, by the number of clicks."""
    ax = plots.new_axes(figsize=(5.5, 5))
    for clicks, some in each[each["of"] == "all classes"].groupby("clicks"):
        ax.plot(some["truth"], some["share"], ".", alpha=0.6, label=f"{clicks} clicks")
    ax.plot([0, 1], [0, 1], "k-", lw=0.8)
    ax.set(xlabel="share of right patches, expert", ylabel="share by the audit", xlim=(0.4, 1), ylim=(0.4, 1))
    ax.legend(loc="lower right", fontsize="small")
    return ax.figure
