"""Confirm lines with the labels of the job, with expert labels, or with horizons and fault sticks of other programs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from outcrop.geometry.horizons import polylines
from outcrop.geometry.surfaces import direction_of
from outcrop.job.confirmed import on_axes
from outcrop.job.faults import STROKE, fault_class
from outcrop.job.inputs import class_name
from outcrop.job.interpretations import is_interpretation, read_interpretation
from outcrop.job.labelling import label_dataset, line_numbers
from outcrop.job.line_files import LineLabels
from outcrop.job.scoring import expert_labels, named_alike
from outcrop.job.strokes import stroke_mask
from outcrop.mapping.confidence import UNCERTAIN, as_codes
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.axes import nearest_position, position_of, positions_of
from outcrop.volumes.opening import open_volume

if TYPE_CHECKING:
    from outcrop.job.core import Job

Outline = Sequence[tuple[float, float]]
Codes = npt.NDArray[np.uint8]


class Source(NamedTuple):
    """Labels to confirm, read line by line."""

    what: str  # name of the labels in messages, such as their file
    lines: npt.NDArray[Any]  # numbers of its lines
    classes: Sequence[str]  # code i + 1 is classes[i], "" for codes to leave out
    axes: Sequence[npt.NDArray[Any]]  # inline numbers, crossline numbers, times
    section: Callable[[float], Codes]  # codes of a line, shape (n_traces, n_samples)
    partial: bool = False  # whether it labels only parts of its lines


def confirm_lines(
    job: "Job",
    lines: Sequence[float] | None,
    along: str,
    labels: Any = None,
    outline: Outline | None = None,
    *,
    above: str | None = None,
    below: str | None = None,
) -> list[float]:
    """Confirm lines as one act and return their numbers; see `Job.confirm`."""
    axis = _axis(job, along)
    source = _source(job, along, labels, above, below)
    if lines is None and labels is None:
        raise ValueError(f"No {along} is named; give the numbers of the {along}s to confirm.")
    on_volume = source.lines[positions_of(axis, source.lines) >= 0].tolist()
    numbers = on_volume if lines is None else checked_lines(job, lines, along)
    found: dict[float, tuple[str, list[str]]] = {}
    for line in numbers:
        part = _line_labels(job, source, line, along, outline) if line in on_volume else None
        if part is not None:
            found[line] = job.log.line_files.write(part), part.classes
        elif lines is not None:
            raise ValueError(_nothing_on(job, source, line, along, outline))
    if not found:
        raise ValueError(f"{source.what} has no labels on the {along}s of {job.path}; give labels of this survey.")
    firsts = dict(job.plan.firsts)
    with job.log.act():
        for name in dict.fromkeys(name for _, classes in found.values() for name in classes):
            if name not in firsts:
                added, firsts[name] = job._new_class(name)
                job._decide(*added)
        limited = {"part": True} if source.partial or outline is not None else {}
        entries = [
            {"what": "confirm", "along": along, "line": line, "file": file}
            | limited
            | {"classes": [firsts[name] for name in names]}
            for line, (file, names) in found.items()
        ]
        job._decide(*entries)
    return list(found)


def unconfirm_lines(job: "Job", lines: Sequence[float], along: str) -> None:
    """Remove the confirmation of lines, as one act; see `Job.unconfirm`."""
    numbers = checked_lines(job, lines, along)
    confirmed = confirmed_numbers(job, along)
    for line in numbers:
        if line not in confirmed:
            have = ", ".join(f"{one:g}" for one in confirmed) or "none"
            raise ValueError(f"{along} {line:g} is not confirmed; confirmed {along}s are: {have}.")
    job._decide(*({"what": "unconfirm", "along": along, "line": line} for line in numbers))


def confirmed_numbers(job: "Job", along: str, *, whole: bool = False) -> list[float]:
    """Return the numbers of the confirmed lines of one direction, including lines that the volume does not have.

    If `whole` is True, lines of which only a part is confirmed are left out.
    """
    confirmed = [one for one in job.log.state().confirmed if one["along"] == along]
    return sorted({one["line"] for one in confirmed if not (whole and one.get("part"))})


def _axis(job: "Job", along: str) -> npt.NDArray[Any]:
    """Return all inline numbers or all crossline numbers of the volume."""
    if along not in DIRECTIONS:
        raise ValueError(f"Direction {along!r} is unknown; confirm lines along inline or crossline.")
    return job.axes[DIRECTIONS.index(along)]


def checked_lines(job: "Job", lines: Any, along: str) -> list[float]:
    """Return line numbers without duplicates; raise ValueError for a line that the volume does not have."""
    axis = _axis(job, along)
    found = [axis[position_of(axis, line, along)].item() for line in line_numbers(lines, along)]
    if not found:
        raise ValueError(f"No {along} is named; give numbers of {along}s, for instance [310, 330].")
    return list(dict.fromkeys(found))


def _line_labels(job: "Job", source: Source, line: float, along: str, outline: Outline | None) -> LineLabels | None:
    """Return the labels of `source` on a line; None if it has no labels on the line.

    If `outline` is given, only labels inside this polygon count.
    """
    direction = DIRECTIONS.index(along)
    codes = source.section(line)
    if outline is not None:
        codes = np.where(_inside(job, source, line, along, outline), codes, 0)
    named = np.array([0, *(bool(name) for name in source.classes)] + [0] * 255, bool)
    present = [code for code in np.flatnonzero(np.bincount(codes.ravel(), minlength=256)).tolist() if named[code]]
    table = np.zeros(256, np.uint8)
    table[present] = np.arange(1, 1 + len(present))
    traces, samples = source.axes[1 - direction], source.axes[2]
    labels = LineLabels([source.classes[code - 1] for code in present], traces, samples, table[codes])
    here = on_axes(labels, dict.fromkeys(labels.classes, 1), job.axes[1 - direction], job.axes[2])
    return labels if here.any() else None


def _inside(job: "Job", source: Source, line: float, along: str, outline: Outline) -> npt.NDArray[np.bool_]:
    """Return a mask of the samples of a line inside a polygon, shape (n_traces, n_samples).

    `outline` lists the corners of the polygon as (trace, time).
    """
    points = [tuple(map(float, point)) for point in outline]
    if len(points) < 3 or any(len(point) != 2 for point in points):
        raise ValueError(f"The outline is {str(outline)[:80]}; give three points or more of (trace, time).")
    places = [[line, trace, time] if along == "inline" else [trace, line, time] for trace, time in points]
    stroke = {"along": along, "points": places, "radius": 0.5, "filled": True}
    job._check_stroke(stroke)
    return stroke_mask(stroke, source.axes)


def _nothing_on(job: "Job", source: Source, line: float, along: str, outline: Outline | None) -> str:
    """Return the error message for a line on which a source has no labels to confirm."""
    inside = "" if outline is None else " inside the outline"
    if source.what == str(job.path):
        return f"{along} {line:g} has no labels{inside}; run 'outcrop label {job.path} --lines {line:g}' first."
    ends = [f"{one:g}" for one in dict.fromkeys((source.lines.min(), source.lines.max()))] if len(source.lines) else []
    return f"{source.what} has no labels on {along} {line:g}{inside}; its {along}s are: {' to '.join(ends) or 'none'}."


# ---- sources of labels -----------------------------------------------------------------------------------------


def _source(job: "Job", along: str, labels: Any, above: str | None, below: str | None) -> Source:
    """Return the labels to confirm: those of the job, or those of an expert, of a horizon or of fault sticks."""
    is_file = isinstance(labels, str | Path)
    kind, table = "", pd.DataFrame()
    if is_file and is_interpretation(labels):
        kind, table = read_interpretation(labels, job.volume)
    if (above or below) and kind != "horizon":
        raise ValueError("Classes above and below need a horizon; give the file of the horizon too.")
    if kind == "horizon":
        return _of_horizon(job, along, table, str(labels), above, below)
    if kind == "sticks":
        return _of_sticks(job, along, table, str(labels))
    return _of_job(job, along) if labels is None else _of_expert(job, along, labels)


def _of_job(job: "Job", along: str) -> Source:
    """Return the labels of the job as labels to confirm; removed classes are left out."""
    plan = job.plan
    shown = label_dataset(job, plan)
    classes = [name if name in plan.firsts else "" for name in shown.attrs["classes"]]  # without removed classes
    return _of_array(shown["label"], along, classes, str(job.path))


def _of_expert(job: "Job", along: str, labels: Any) -> Source:
    """Return expert labels, from a file or an array, as labels to confirm.

    Class names of the expert are replaced by names of the job where the match is obvious.
    """
    what = str(labels) if isinstance(labels, str | Path) else "The array of labels"
    if isinstance(labels, str | Path):
        found = expert_labels(labels, str(job.volume.dims[2]))
    else:
        codes = labels["label"].assign_attrs(labels.attrs) if isinstance(labels, xr.Dataset) else labels
        if not isinstance(codes, xr.DataArray) or not codes.attrs.get("classes"):
            raise ValueError(f"{what} has no table of classes; give a DataArray with attrs['classes'], or a file.")
        found = open_volume(codes)
    if found.dims[2] != job.volume.dims[2]:
        raise ValueError(
            f"{what} is in {found.dims[2]}, but the volume is in {job.volume.dims[2]}; convert one of them."
        )
    names = [class_name(name) for name in named_alike(job, found.attrs["classes"], list(job.classes), what)]
    return _of_array(found, along, names, what)


def _of_array(codes: xr.DataArray, along: str, classes: Sequence[str], what: str) -> Source:
    """Return an array of codes as labels to confirm; uncertain samples are not confirmed."""
    across = DIRECTIONS[1 - DIRECTIONS.index(along)]
    axes = [codes[name].values for name in (*DIRECTIONS, codes.dims[2])]

    def section(line: float) -> Codes:
        at = nearest_position(codes[along].values, line)
        found = as_codes(codes.isel({along: at}).transpose(across, ...).values)
        return np.where(found == UNCERTAIN, np.uint8(0), found)

    return Source(what, codes[along].values, classes, axes, section)


def _of_horizon(
    job: "Job", along: str, horizon: pd.DataFrame, path: str, above: str | None, below: str | None
) -> Source:
    """Return labels to confirm from a horizon, on the traces that it covers.

    Samples above the horizon have the class `above`, samples at and below it the class `below`. Samples whose class is
    None are not confirmed.
    """
    if not (above or below):
        raise ValueError(f"{path} is a horizon; name the class above it (--above), below it (--below), or both.")
    direction, samples = DIRECTIONS.index(along), job.axes[2]
    traces = job.axes[1 - direction].astype(np.float64)

    def section(line: float) -> Codes:
        depth = np.full(len(traces), np.nan)
        for points in polylines(horizon, along, lines=[line]):
            course = np.array(points)[:, [1 - direction, 2]]
            between = (traces >= course[0, 0]) & (traces <= course[-1, 0])
            depth[between] = np.interp(traces[between], *course.T)
        below_it = samples >= depth[:, None]
        codes = np.where(below_it, np.uint8(2), np.uint8(1))
        codes[~np.isfinite(depth)] = 0
        return codes

    classes = [class_name(name) if name else "" for name in (above, below)]
    return Source(path, np.unique(horizon[along]), classes, job.axes, section, partial=not (above and below))


def _of_sticks(job: "Job", along: str, sticks: pd.DataFrame, path: str) -> Source:
    """Return labels to confirm from fault sticks: samples near a stick have the class of faults."""
    direction, dims = DIRECTIONS.index(along), list(job.volume.dims)
    drawn = [points for _, points in sticks.groupby("stick") if direction_of(points) == direction]
    lines = np.unique([points[along].iloc[0] for points in drawn])
    name = fault_class(job) if any("fault" in one.lower() for one in job.classes) else "fault"

    def section(line: float) -> Codes:
        codes = np.zeros((len(job.axes[1 - direction]), len(job.axes[2])), np.uint8)
        for points in drawn:
            if points[along].iloc[0] == line:
                places = points.sort_values(dims[2])[dims].to_numpy(np.float64).tolist()
                codes[stroke_mask({"along": along, "points": places, "radius": STROKE}, job.axes)] = 1
        return codes

    return Source(path, lines, [name], job.axes, section, partial=True)
