"""Effect of the last stroke on the labels of a line."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from outcrop.job.entries import STROKES
from outcrop.job.labelling import label_view
from outcrop.job.plan import resolve
from outcrop.job.state import fold
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.axes import positions_of

if TYPE_CHECKING:
    from outcrop.job.core import Job


def changes(job: "Job", line: int) -> dict[str, Any]:
    """Return which labels of a line the last stroke changed; see `Job.changes`."""
    plan, entries = job.plan, job.log.entries
    in_force = {stroke["id"] for stroke in plan.state.strokes}
    acts = [
        entry.get("group", entry["id"]) for entry in entries if entry["what"] in STROKES and entry["id"] in in_force
    ]
    if not acts:
        raise ValueError(f"{job.path} has no strokes; paint one first.")
    before = fold([entry for entry in entries if entry.get("group", entry["id"]) != acts[-1]])
    plans = [resolve(plan.volume, before, plan.codes, plan.joined), plan]
    found = [label_view(job, one)[0] for one in plans]
    axis = job.axes[plan.along]
    position = int(positions_of(axis, line))
    if any(position not in labels.stores for labels in found):
        raise ValueError(f"{DIRECTIONS[plan.along]} {line} has no labels; label it first.")
    codes = [labels.section(position)[0] for labels in found]
    where = codes[0] != codes[1]
    words = [f"class {code}" for code in range(256)]
    for name, code in (job.classes | {"not labelled": 0, "uncertain": UNCERTAIN}).items():
        words[code] = name
    pairs = pd.DataFrame({"from": np.array(words)[codes[0][where]], "to": np.array(words)[codes[1][where]]})
    table = pairs.value_counts().rename("samples").reset_index()
    known = found[1].corrections.codes(position) > 0
    outside = float((where & ~known).sum() / max(((codes[1] > 0) & ~known).sum(), 1))
    return {"where": where, "share": outside, "table": table}
