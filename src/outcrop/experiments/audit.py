"""Simulated audits on F3 sections: how wide the confidence intervals are, and how often they contain the truth.

An audit estimates the share of right patches among retrieved patches; the true share follows from expert labels.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.f3 import COUNT, SHOWN, SIZE, labelled_sections, right_patches, shown_classes, temporary_index
from outcrop.retrieval.audit import draw_order, estimate, groups_by_class

DRAWS, AUDITS = 20, 10  # number of random sets of exemplars; audits of the patches that each set retrieves
CLICKS = (15, 30, 60)  # numbers of judged patches of an audit


class Retrieved(NamedTuple):
    """Retrieved patches on expert-labelled sections, divided into groups of similar patches of one class.

    The arrays have one entry for each patch: ``groups`` is the number of its group, ``classes`` its class, ``weights``
    its estimated probability of being right, and ``right`` is True if it is right.
    """

    groups: np.ndarray
    owners: list[str]  # class of every group
    classes: np.ndarray
    weights: np.ndarray
    right: np.ndarray  # whether the patch shows its class according to the expert


def run(data: Data, *, quick: bool = False) -> Result:
    """Simulate audits of patches that random exemplars retrieve, for all classes together and for each class."""
    found = []
    for known in retrieved(data, 2 if quick else DRAWS):
        for clicks in CLICKS:
            for seed in range(AUDITS):
                found += [{"clicks": clicks, **row} for row in audited(known, clicks, seed)]
    each = pd.DataFrame(found)
    squared = each.assign(error=each["error"] ** 2, estimated=each["estimated"] ** 2)
    groups = squared.groupby(["clicks", "of"], sort=False)
    table = groups[["holds", "half", "error", "estimated"]].mean()
    table[["error", "estimated"]] **= 0.5
    table.insert(0, "audits", groups.size())
    names = {"holds": "intervals that hold the truth", "half": "half width", "error": "error of the audit"}
    table = table.rename(columns=names | {"estimated": "error of the estimate without answers"}).reset_index()
    return Result(table, draw(each))


def retrieved(data: Data, draws: int) -> Iterator[Retrieved]:
    """Draw one random exemplar per class, `draws` times, and yield the retrieved patches of each draw."""
    volume, truth = labelled_sections(data)
    with temporary_index(volume) as index:
        shown = shown_classes(index.grid, truth)
        for seed in range(draws):
            weak = oc.retrieve(index, oc.datasets.exemplars(truth, SIZE, min_share=SHOWN, seed=seed), COUNT)
            right = right_patches(weak, shown, truth.attrs["classes"])
            known = np.isfinite(right)
            classes, weights = weak.classes[known], weak.weights[known]
            groups, owners = groups_by_class(index.descriptors(weak.rows[known]), classes, weights)
            yield Retrieved(groups, owners, classes, weights, right[known] == 1)


def audited(known: Retrieved, clicks: int, seed: int) -> Iterator[dict[str, Any]]:
    """Simulate one audit; yield a row for all classes together and a row for each class.

    `clicks` is the number of judged patches. In a row, ``holds`` is True if the interval contains the true share of
    right patches, and ``half`` is half the width of the interval. ``error`` is the error of the audit's estimate of
    this share. ``estimated`` is the error of an estimate without an audit: the mean weight of the patches.
    """
    sizes = np.bincount(known.groups, minlength=len(known.owners))
    asked = draw_order(known.groups, clicks, seed=seed)
    for name in ("all", *dict.fromkeys(known.owners)):
        counted = np.where([name in ("all", owner) for owner in known.owners], sizes, 0)
        found = estimate(np.arange(len(known.owners)), counted, known.groups[asked], known.right[asked])
        of_class = (known.classes == name) | (name == "all")
        truth = known.right[of_class].mean()
        about = {"of": "all classes" if name == "all" else "one class", "truth": truth, "share": found.share}
        errors = {"error": found.share - truth, "estimated": known.weights[of_class].mean() - truth}
        yield about | {"holds": found.low <= truth <= found.high, "half": (found.high - found.low) / 2} | errors


def draw(each: pd.DataFrame) -> Any:
    """Plot the share of right patches that each audit estimates against the true share.

    Each number of judged patches has its own colour.
    """
    ax = oc.plots.new_axes(figsize=(5.5, 5))
    for clicks, some in each[each["of"] == "all classes"].groupby("clicks"):
        ax.plot(some["truth"], some["share"], ".", alpha=0.6, label=f"{clicks} clicks")
    ax.plot([0, 1], [0, 1], "k-", lw=0.8)
    ax.set(xlabel="share of right patches, expert", ylabel="share by the audit", xlim=(0.4, 1), ylim=(0.4, 1))
    ax.legend(loc="lower right", fontsize="small")
    return ax.figure
