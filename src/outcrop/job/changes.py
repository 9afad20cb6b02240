"""What the last stroke changed."""

import numpy as np
import pandas as pd

from outcrop.job.entries import STROKES
from outcrop.job.labelling import label_view
from outcrop.job.plan import resolve
from outcrop.job.state import fold
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.patches.grid import DIRECTIONS


def changes(job, line):
    """What the last stroke changed on a line; see `Job.changes`."""
    plan = job.plan
    last = next((entry for entry in reversed(job.log.entries) if _is_last_stroke(entry, plan.state)), None)
    if last is None:
        raise ValueError(f"{job.path} has no strokes whose effect could be shown; paint one first.")
    act = last.get("group", last["id"])
    before = fold([entry for entry in job.log.entries if entry.get("group", entry["id"]) != act])
    axis = job.axes[plan.along]
    position = int(np.flatnonzero(axis == line)[0]) if line in axis else None
    plans = [resolve(plan.volume, before, plan.codes, plan.joined), plan]
    found = [label_view(job, one)[0] for one in plans]
    if any(position not in labels.stores for labels in found):
        raise ValueError(f"{DIRECTIONS[plan.along]} {line} has no labels; label it first.")
    assert position is not None
    codes = [labels.section(position)[0] for labels in found]
    where = codes[0] != codes[1]
    names = {code: name for name, code in job.classes.items()} | {0: "not labelled", UNCERTAIN: "uncertain"}
    pairs, counts = np.unique(np.stack([codes[0][where], codes[1][where]]), axis=1, return_counts=True)
    rows = [
        {"from": names.get(int(a), f"class {a}"), "to": names.get(int(b), f"class {b}"), "samples": int(n)}
        for (a, b), n in zip(pairs.T, counts, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["from", "to", "samples"]).sort_values("samples", ascending=False)
    known = found[1].corrections.codes(position) > 0
    outside = float((where & ~known).sum() / max(((codes[1] > 0) & ~known).sum(), 1))
    return {"where": where, "share": outside, "table": table.reset_index(drop=True)}


def _is_last_stroke(entry, state):
    return entry["what"] in STROKES and any(stroke["id"] == entry["id"] for stroke in state.strokes)
