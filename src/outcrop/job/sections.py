"""Grids, sections and marked samples that fitting and labelling share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outcrop.job.confirmed import agree, job_confirmed
from outcrop.job.plan import Plan
from outcrop.job.strokes import excluded_sections, painted_sections
from outcrop.patches.grid import DIRECTIONS, PatchGrid

if TYPE_CHECKING:
    from outcrop.job.core import Job


def labelling_grid(job: "Job", plan: Plan) -> PatchGrid:
    """Return the grid from which lines are labelled: of patches, or for the mapping ``points`` of whole sections."""
    return patch_grid(job, plan, size=1) if plan.by_points else patch_grid(job, plan)


def patch_grid(job: "Job", plan: Plan, size: int | None = None) -> PatchGrid:
    """Return a grid of overlapping patches on every line; the grid is kept in memory.

    `size` (samples and traces) replaces the patch size of the plan.
    """
    options: dict[str, Any] = {name: getattr(plan.index, name) for name in ("size", "gain", "clip")}
    step = plan.label.step or tuple(max(1, n // 3) for n in plan.size)
    if plan.by_points and options["gain"] == "patch":  # a mapping by points has no patches
        options["gain"] = "volume"
    options |= {"size": size or plan.size, "step": step, "along": DIRECTIONS[plan.along], "area": plan.area}
    key = plan.volume["digest"], options
    return job._held(f"grid of {options['along']}s, {size}", key, lambda: PatchGrid(job.volume, **options))


def marked_sections(job: "Job", plan: Plan) -> tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]:
    """Return two dicts: section -> painted codes, and section -> where each class is excluded.

    They are as `painted_sections` and `excluded_sections` return them, but without samples at which a stroke
    contradicts a confirmed label.
    """

    def make() -> tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]:
        strokes = [stroke for stroke in plan.state.strokes if stroke["class"] in (*plan.names, "erase")]
        names = sorted(plan.codes, key=plan.codes.__getitem__)
        painted, excluded = painted_sections(strokes, names, job.axes), excluded_sections(strokes, names, job.axes)
        agree(painted, excluded, job_confirmed(job, plan))
        return painted, excluded

    return job._held("marked sections", (plan.state, plan.codes), make)


def position_in(axes: Sequence[np.ndarray], place: Sequence[float]) -> tuple[int, int, int] | None:
    """Return the positions of a place on the three axes; None if it lies outside the volume or on a missing line."""
    half_sample = abs(float(axes[2][1] - axes[2][0])) / 2 if len(axes[2]) > 1 else 0.5
    row, column, sample = (int(np.argmin(np.abs(axis - label))) for axis, label in zip(axes, place, strict=True))
    off = [abs(axis[at] - label) for axis, at, label in zip(axes, (row, column, sample), place, strict=True)]
    inside = max(off[:2]) <= 0.5 and off[2] <= half_sample
    return (row, column, sample) if inside else None


def clicked_samples(job: "Job", plan: Plan) -> list[tuple[str, tuple[int, int, int]]]:
    """Return class and position of every exemplar in the volume."""

    def make() -> list[tuple[str, tuple[int, int, int]]]:
        places = [(one.name, position_in(job.axes, one.place)) for one in plan.state.exemplars if one.place]
        return [(name, at) for name, at in places if at is not None]

    return job._held("clicked samples", (plan.state, plan.volume["digest"]), make)


def rejected_samples(job: "Job", plan: Plan) -> list[tuple[str, tuple[int, int, int]]]:
    """Return class and position of the centre of every rejected patch, unless an exemplar of its class lies there."""

    def make() -> list[tuple[str, tuple[int, int, int]]]:
        shown = set(clicked_samples(job, plan))
        places = [(one.name, position_in(job.axes, one.place)) for one in plan.state.verdicts if not one.accept]
        return [(name, at) for name, at in places if at is not None and (name, at) not in shown]

    return job._held("rejected samples", (plan.state, plan.volume["digest"]), make)


def filled_section(job: "Job", plan: Plan, direction: int, line: int) -> np.ndarray:
    """Return a section, shape (1, n_samples, n_traces), with values in [0, 1]; missing samples are 0.5."""
    section, _ = labelling_grid(job, plan).section(job.volume, direction, line)
    return np.where(np.isfinite(section), section, np.float32(0.5)).T[None]
