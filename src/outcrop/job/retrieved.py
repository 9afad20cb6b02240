"""Search for the patches that a plan retrieves, and store them as arrays under their cache key."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from outcrop.job.plan import Plan
from outcrop.job.state import Exemplar
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import GRID_OPTIONS, Index, drop_damaged
from outcrop.retrieval.ranking import retrieve
from outcrop.retrieval.weak import FACTS, WeakLabels, read_table
from outcrop.storage.workspace import Damaged
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

ARRAYS = "weak.npz"
DOUBTFUL = 0.5  # estimated share of wrong patches of a class above which a warning is given
MOST = 0.5  # share of the index in a class above which a warning is given


def weak_labels(job: "Job", plan: Plan, *, device: str | None = None) -> WeakLabels:
    """Return the patches that a plan retrieves, with present class names; search the index if they are not stored."""
    index = job._index(plan)

    def load(path: Path) -> WeakLabels:
        return WeakLabels.load_arrays(path, index.grid)

    def make() -> WeakLabels:
        return search(job, plan, index, device)

    assert plan.retrieved_stage is not None
    _convert(job, plan.retrieved_stage.key, index.grid)
    return renamed(job.stages.get(plan.retrieved_stage, ARRAYS, make, load, WeakLabels.save_arrays), plan)


def _convert(job: "Job", key: str, grid: PatchGrid) -> None:
    """Convert retrieved patches that version 0.2 stored as a CSV table to arrays.

    A damaged table is skipped, and the search is repeated later.
    """
    folder = job.stages.path("retrieved", key)
    if (folder / ARRAYS).exists() or not (folder / "table.csv").is_file():
        return
    with contextlib.suppress(ValueError, OSError, KeyError):
        place: Any = SimpleNamespace(volume=job.volume, grid=grid)
        weak = read_table(folder / "table.csv", place)
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        weak.curves = {name: np.array(curve) for name, curve in facts["curves"].items()}
        weak.suggested, weak.accepted, weak.rejected = facts["suggested"], facts["accepted"], facts["rejected"]
        weak.save_arrays(folder / ARRAYS)


def kept(job: "Job", plan: Plan) -> WeakLabels | None:
    """Return the stored patches that a plan retrieves; None if they are not stored."""
    if plan.retrieved_stage is None or not job._indexed(plan):
        return None
    return _read(job, plan.retrieved_stage.key, job._index(plan).grid, plan)


def newest(job: "Job", plan: Plan) -> tuple[str, WeakLabels] | None:
    """Return (cache key, patches) of the last search that can be read; None if no search can be read.

    The patches may be out of date, if decisions changed after the search.
    """
    for key, *_ in reversed(job.stages.journal("retrieved")):
        index = job.stages.facts("retrieved", key).get("inputs", {}).get("index", "")
        given = job.stages.facts("index", index).get("inputs")
        if not given:
            continue
        # the horizon files of `between` may have changed
        options = {name: given[name] for name in GRID_OPTIONS if name != "between"}
        weak = _read(job, key, PatchGrid(job.volume, **options), plan)
        if weak is not None:
            return key, weak
    return None


def earlier(job: "Job", plan: Plan) -> pd.DataFrame | None:
    """Return the patches of earlier searches in the same index as one table, indexed by ``row``, the latest first.

    None is returned if no earlier search is stored.
    """
    grid = job._index(plan).grid
    keys = dict.fromkeys(key for key, *_ in reversed(job.stages.journal("retrieved")))
    inputs = {key: job.stages.facts("retrieved", key).get("inputs", {}) for key in keys}
    same = [key for key in keys if inputs[key].get("index") == plan.index_stage.key]
    found = [weak.table for key in same if (weak := _read(job, key, grid, plan)) is not None]
    return pd.concat(found).set_index("row") if found else None


def _read(job: "Job", key: str, grid: PatchGrid, plan: Plan) -> WeakLabels | None:
    """Return the patches stored under a cache key, with present class names; None if they are missing or damaged."""
    _convert(job, key, grid)
    path = job.stages.path("retrieved", key) / ARRAYS
    try:
        return renamed(WeakLabels.load_arrays(path, grid), plan) if path.is_file() else None
    except ValueError:  # damaged: the next search makes it again
        return None


def search(job: "Job", plan: Plan, index: Index, device: str | None) -> WeakLabels:
    """Search the index for patches like the exemplars of a plan, and return them.

    The classes of the patches have the names under which they were first added.
    """
    exemplars = fitting_exemplars(index.grid, plan)
    if not exemplars:
        raise ValueError("No exemplar has its whole patch inside the volume; move one, or choose a smaller size.")
    usable = int((index.status == 0).sum())  # the count may have been chosen for a larger index
    count = plan.retrieval.count
    if isinstance(count, dict):
        count = {name: _bounded(n, usable) for name, n in count.items() if name in exemplars}
    else:
        count = _bounded(count, usable)
    options: dict[str, Any] = {"per_exemplar": plan.retrieval.per_exemplar, "background": plan.background}
    try:
        weak = retrieve(index, exemplars, count, device=device, **options | plan.verdicts)
    except Damaged:
        drop_damaged(job.path, index)
        job._drop("index")
        raise
    weak.similarity, weak.weights = np.round(weak.similarity.astype(float), 6), np.round(weak.weights, 4)
    weak.curves = {name: np.round(curve.astype(float), 6) for name, curve in weak.curves.items()}
    return weak


def _bounded(count: int | str, most: int) -> int | str:
    """Return a count, reduced to `most` if it is larger; "auto" is returned unchanged."""
    return count if isinstance(count, str) else min(count, most)


def fitting_exemplars(grid: PatchGrid, plan: Plan) -> dict[str, list[Any]]:
    """Return a dict: class -> exemplars whose patch lies inside the volume, in the form for `outcrop.retrieve`."""
    found = {name: [one.patch for one in some if fits(grid, one)] for name, some in plan.queries.items()}
    return {name: some for name, some in found.items() if some}


def fits(grid: PatchGrid, exemplar: Exemplar) -> bool:
    """Return whether the whole patch of an exemplar lies inside the volume; pictures always fit."""
    try:
        return exemplar.place is None or grid.start_at(exemplar.place, along=exemplar.along) is not None
    except ValueError:
        return False


def renamed(weak: WeakLabels, plan: Plan) -> WeakLabels:
    """Return retrieved patches with the present names of their classes."""
    weak.classes = np.array([plan.names.get(name, name) for name in weak.classes], str)
    for part in (*FACTS, "curves"):
        setattr(weak, part, {plan.names.get(name, name): value for name, value in getattr(weak, part).items()})
    return weak


def warnings(weak: WeakLabels, usable: int) -> list[str]:
    """Return warnings about classes with many wrong patches, and about classes that take most of the index."""
    counts = pd.Series(weak.classes).value_counts(sort=False)
    doubtful = [
        f"{wrong:.0%} of the patches of {name!r} are likely wrong; choose a smaller count or another exemplar, or "
        "undo some verdicts."
        for name, wrong in weak.wrong.items()
        if wrong > DOUBTFUL
    ]
    return doubtful + [
        f"Class {name!r} takes {n} of the {counted(usable, 'patches')} of the index, also dissimilar patches; choose a "
        "smaller count, or a smaller step (more patches)."
        for name, n in counts.items()
        if n > MOST * usable
    ]


def exemplars_outside(job: "Job") -> list[str]:
    """Return a list with a warning about exemplars outside the volume; the list is empty if all lie inside."""
    exemplars, grid = job.plan.state.exemplars, job.grid()
    outside = sum(not fits(grid, one) for one in exemplars)
    words = counted(outside, "exemplars", "lie")
    return [f"{words} outside this volume or on a line that it does not have: not used."] if outside else []


def is_stored(folder: Path) -> bool:
    """Return whether the folder of a stage holds retrieved patches, as arrays or as the CSV table of version 0.2."""
    return (folder / ARRAYS).is_file() or (folder / "table.csv").is_file()


def class_counts(folder: Path) -> dict[str, int]:
    """Return a dict: class -> number of retrieved patches stored in a folder; empty if they cannot be read."""
    try:
        if (folder / ARRAYS).is_file():
            with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
                classes = pd.Series(arrays["classes"])
        else:
            classes = pd.read_csv(folder / "table.csv", usecols=["class"], dtype=str)["class"]
        return {str(name): int(count) for name, count in classes.value_counts(sort=False).items()}
    except (OSError, ValueError, KeyError):
        return {}
