"""Fault sticks of a job: picked line by line, stored, and cut to the samples that carry the label of a class.

A stick that a person accepted, extended or imported is a decision: a stroke of the class that is marked as a stick. It
is returned unchanged, independent of labels and likelihood; only later painting over it removes it. A rejected stick is
a stroke that excludes the class and paints no other one; the stick is left out of all tables.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.ndimage import binary_closing, binary_dilation, binary_opening, label

from outcrop.features.encoder import weights_digest
from outcrop.geometry.faults import assembled, line_sticks
from outcrop.geometry.likelihood import NEIGHBOURS
from outcrop.geometry.sticks import read_sticks
from outcrop.geometry.surfaces import direction_of, join_sticks
from outcrop.geometry.tracing import APART, SHORTEST, THRESHOLD
from outcrop.job.sections import marked_sections
from outcrop.job.strokes import section_of
from outcrop.parallel import Progress
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file
from outcrop.volumes.axes import position_of

if TYPE_CHECKING:
    from outcrop.job.core import Job

VERSION = 3  # version of the picking method; a new version picks all sticks again
NEAR = 2  # traces around a stick in which labels count for it
BRIDGED = 12  # samples of another label, at most, that do not cut a stick
STROKE = 3.0  # radius in samples of the stroke that accepts or rejects a stick
VERDICTS: dict[str, dict[str, Any]] = {  # verdict -> fields of its stroke
    "accept": {"what": "stroke", "stick": True},
    "reject": {"what": "exclude", "stick": True},
    "forget": {"what": "stroke"},
}
FAULT = "fault"  # part of the name by which a class of faults is recognised


def fault_class(job: "Job", name: str | None = None) -> str:
    """Return the name of the class of faults.

    It is `name` if that is given, else the class of the last verdict on a fault stick, else the only class whose name
    contains "fault"; without such a class ValueError is raised.
    """
    if name is not None:
        return job.plan.names[job._class(name)]
    plan = job.plan
    judged = [stroke["class"] for stroke in plan.state.strokes if stroke.get("stick") and stroke["class"] in plan.names]
    if judged:
        return plan.names[judged[-1]]
    found = [one for one in job.classes if FAULT in one.lower()]
    if len(found) != 1:
        problem = f"{len(found)} classes of {job.path} are" if found else f"No class of {job.path} is"
        known = ", ".join(job.classes) or "it has no class yet"
        raise ValueError(f"{problem} called fault ({known}); name one with --class.")
    return found[0]


def all_sticks(
    job: "Job",
    lines: Sequence[float] | np.ndarray | None = None,
    *,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return all fault sticks that are picked on lines of a job; sticks that were picked before are read from files.

    Parameters
    ----------
    lines : sequence of int, optional
        Line numbers; all lines by default.
    threshold : float
        Likelihood that at least one sample of a stick exceeds.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    DataFrame
        Sticks as `line_sticks` returns them, with the column `along`; they are not joined into surfaces.
    """
    along, labels = DIRECTIONS[job.plan.along], job.axes[job.plan.along]
    key, folder = _kept_picks(job, threshold)
    wanted = np.arange(len(labels)) if lines is None else np.flatnonzero(np.isin(labels, lines))
    files = {position: folder / f"{labels[position]}.csv" for position in wanted.tolist()}
    missing = [position for position, file in files.items() if not file.is_file()]
    picked = line_sticks(job.volume, along, missing, threshold) if missing else iter(())
    for done, (position, table) in enumerate(zip(missing, picked, strict=True), 1):
        with whole_file(files[position]) as aside:
            table.to_csv(aside, index=False)
        if progress:
            progress("picking faults", done, len(missing))
    job.stages.note("faults", key)
    # the file of a line without faults holds only a line end
    return assembled([pd.read_csv(file) for file in files.values() if file.stat().st_size > 2], job.volume)


def _kept_picks(job: "Job", threshold: float = THRESHOLD) -> tuple[str, Path]:
    """Return the cache key and the folder under which the sticks picked with a likelihood threshold are stored."""
    inputs = {"volume": job.plan.volume["digest"], "weights": weights_digest(), "along": DIRECTIONS[job.plan.along]}
    key = job.stages.begin("faults", inputs | {"version": VERSION, "threshold": threshold, "neighbours": NEIGHBOURS})
    return key, job.stages.path("faults", key)


def picked_lines(job: "Job") -> list[float]:
    """Return the numbers of the lines on which fault sticks were picked and stored, with the default threshold."""
    _, folder = _kept_picks(job)
    return [line for line in job.axes[job.plan.along].tolist() if (folder / f"{line}.csv").is_file()]


def sticks_of_class(
    job: "Job",
    name: str | None = None,
    *,
    lines: Sequence[float] | None = None,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the fault sticks of a class, joined into surfaces: accepted sticks, and parts of picked sticks.

    Of a picked stick, only the parts along which the labels show the class are returned. A stroke counts like a label
    at once, before the line is labelled again.

    Parameters
    ----------
    job : Job
    name : str, optional
        The class; by default the one that `fault_class` finds.
    lines : sequence of int, optional
        Line numbers; by default all labelled lines, and all sections with an accepted stick.

    Returns
    -------
    DataFrame
        As `outcrop.fault_sticks` returns it, with the column ``accepted``; see `accepted_sticks`.
    """
    name = fault_class(job, name)
    accepted, rejected = accepted_sticks(job, name), rejected_sticks(job, name)
    along, numbers = DIRECTIONS[job.plan.along], job.axes[job.plan.along]
    if lines is not None:
        accepted = accepted[accepted[along].isin(lines) & (accepted["along"] == along)]
    positions = [position for position in sorted(job.labelled) if lines is None or numbers[position] in lines]
    if not positions and not len(accepted):
        raise ValueError(
            f"{job.path} has no labels on the requested lines; run 'outcrop label' first, or 'outcrop faults VOLUME' "
            "to pick all faults."
        )
    parts = [accepted]
    if positions:
        every = all_sticks(job, numbers[positions], threshold=threshold, progress=progress)
        judged = pd.concat([accepted, rejected.assign(stick=rejected["stick"] + len(accepted))])
        parts.append(_parts(job, every, judged, _shown_by_labels(job, name)).assign(accepted=False))
    table = assembled(parts, job.volume)
    table = table if len(table) else table.assign(accepted=False)
    return join_sticks(table, job.volume, picked={DIRECTIONS[job.plan.along]: positions})


def judged_sticks(
    job: "Job",
    name: str | None,
    lines: Sequence[float] | np.ndarray | None = None,
    *,
    threshold: float = THRESHOLD,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the fault sticks on lines, joined into surfaces, independently of labels.

    Accepted sticks are returned unchanged; rejected sticks are left out.

    Parameters
    ----------
    job : Job
    name : str or None
        The class of accepted sticks; None if the job has no class of faults yet.
    lines, threshold, progress
        As for `all_sticks`.

    Returns
    -------
    DataFrame
        As `sticks_of_class` gives them.
    """
    every = all_sticks(job, lines, threshold=threshold, progress=progress).assign(accepted=False)
    if name is None:
        return join_sticks(every, job.volume)
    along = DIRECTIONS[job.plan.along]
    accepted = accepted_sticks(job, name)
    rejected = pd.concat([rejected_sticks(job, one) for one in job.classes], ignore_index=True)
    if lines is not None:
        accepted = accepted[accepted[along].isin(lines) & (accepted["along"] == along)]
    rejected["stick"] = (rejected["stick"].diff() != 0).cumsum() + len(accepted)
    judged = pd.concat([accepted, rejected])
    touched = every[along].isin(judged.loc[judged["along"] == along, along])
    left = _parts(job, every[touched], judged).assign(accepted=False)
    return join_sticks(assembled([accepted, every[~touched], left], job.volume), job.volume)


def accepted_sticks(job: "Job", name: str | None = None) -> pd.DataFrame:
    """Return the accepted, extended and imported sticks of a class.

    Parts that were later erased or painted as another class are left out. Of two sticks within three traces of each
    other only the one that was accepted later counts.

    Returns
    -------
    DataFrame
        As `all_sticks` gives them, with likelihood 1 and the column ``accepted``, which is True.
    """
    return _decided_sticks(job, fault_class(job, name), "stroke").assign(accepted=True)


def rejected_sticks(job: "Job", name: str | None = None) -> pd.DataFrame:
    """Return the rejected sticks of a class.

    Parts that were later painted over, and sticks whose verdict was cleared, are left out.

    Returns
    -------
    DataFrame
        As from `accepted_sticks`; ``accepted`` is False.
    """
    return _decided_sticks(job, fault_class(job, name), "exclude").assign(accepted=False)


def _decided_sticks(job: "Job", name: str, what: str) -> pd.DataFrame:
    """Return the sticks of a class whose verdict is still in force.

    If `what` is ``stroke``, these are the accepted sticks; if it is ``exclude``, the rejected sticks.
    """
    plan, dims = job.plan, list(job.volume.dims)
    first, code = plan.firsts[name], plan.classes[name]
    painted, excluded = marked_sections(job, plan)
    if what == "stroke":
        masks = {section: codes == code for section, codes in painted.items()}
    else:
        masks = {section: classes[code - 1] for section, classes in excluded.items()}
    found: list[tuple[str, Any, pd.DataFrame]] = []  # act, section, stick; the latest first
    for stroke in reversed(plan.state.strokes):
        section = section_of(stroke, job.axes)
        mine = stroke.get("stick") and (stroke["what"], stroke["class"]) == (what, first)
        if not mine or section not in masks:
            continue
        points = pd.DataFrame(stroke["points"], columns=dims).sort_values(dims[2])
        points = points.assign(likelihood=1.0, along=stroke["along"])
        later = [one for act, where, one in found if where == section and act != stroke["group"]]
        found += [(stroke["group"], section, part) for part in _cut(job, points, masks[section], later)]
    table = _numbered(job, [part for *_, part in reversed(found)])
    return table[["stick", *dims, "likelihood", "along"]]


def _numbered(job: "Job", sticks: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return a table of all points of the given sticks, which are numbered from 0 in the column ``stick``."""
    return assembled([stick.assign(stick=0) for stick in sticks], job.volume)


def _shown_by_labels(job: "Job", name: str) -> Callable[[int], np.ndarray]:
    """Return a function: position of a line -> mask of samples on or near the class `name`, (n_traces, n_samples).

    Samples up to two traces away from the class count as near. Strokes count in place of labels.
    """
    code, labels, (painted, _) = job.classes[name], job.labels["label"], marked_sections(job, job.plan)
    direction = job.plan.along

    def shown(position: int) -> np.ndarray:
        section = labels.isel({DIRECTIONS[direction]: position}).values
        stroke = painted.get((direction, position), np.zeros_like(section))
        near: np.ndarray = binary_dilation(np.where(stroke > 0, stroke, section) == code, np.ones((2 * NEAR + 1, 1)))
        near &= (stroke == 0) | (stroke == code)  # not painted as something else
        return near

    return shown


def _parts(
    job: "Job", sticks: pd.DataFrame, judged: pd.DataFrame, shown: Callable[[int], np.ndarray] | None = None
) -> pd.DataFrame:
    """Return the parts of sticks that lie inside the mask of their line and do not follow a judged stick.

    `judged` are the accepted and rejected sticks; a part follows one if it stays within three traces of it. `shown`
    returns the mask of the line at a position; if `shown` is None, all samples count as inside.
    """
    direction = job.plan.along
    along, parts = DIRECTIONS[direction], []
    judged = judged[judged["along"] == along]
    everywhere = np.ones((len(job.axes[1 - direction]), len(job.axes[2])), bool)
    for line, on_line in sticks.groupby(along):
        mask = everywhere if shown is None else shown(position_of(job.axes[direction], line))
        taken = [points for _, points in judged[judged[along] == line].groupby("stick")]
        for _, points in on_line.groupby("stick"):
            parts += _cut(job, points, mask, taken)
    return _numbered(job, parts)


def _cut(
    job: "Job", points: pd.DataFrame, shown: np.ndarray, others: Sequence[pd.DataFrame] = ()
) -> list[pd.DataFrame]:
    """Return the parts of one stick that lie inside the mask `shown` and do not follow a stick in `others`.

    The mask has the shape (n_traces, n_samples); short gaps in it do not cut the stick. A part follows another stick if
    it stays within three traces of it. Parts shorter than `SHORTEST` samples are left out.
    """
    vertical, samples = str(job.volume.dims[2]), job.axes[2]
    every, columns = _course(job, points)
    inside = np.pad(shown[columns, every], BRIDGED)
    inside = binary_closing(inside, np.ones(BRIDGED + 1))[BRIDGED:-BRIDGED]
    shortest = min(SHORTEST, len(every))
    for other in others:
        theirs, their_columns = _course(job, other)
        far = np.full(len(samples), np.inf)
        far[theirs] = their_columns
        taken = np.abs(columns - far[every]) <= APART
        inside &= ~binary_opening(taken, np.ones(shortest))  # sticks that only cross share fewer samples
    if inside.all():
        return [points]
    runs, count = label(inside)
    spans = [np.flatnonzero(runs == run) for run in range(1, count + 1)]
    parts = []
    for span in spans:
        if len(span) >= shortest:
            top, base = samples[every[span[[0, -1]]]]
            between = points[vertical].to_numpy(float)
            nodes = np.unique([top, *between[(between > top) & (between < base)], base])
            names = ("inline", "crossline", "likelihood")
            part = pd.DataFrame({column: np.interp(nodes, between, points[column]) for column in names})
            parts.append(part.assign(**{vertical: nodes, "along": points["along"].iloc[0]}))
    return parts


def _course(job: "Job", points: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the sample positions of a stick, from top to base, and its trace position at each of these samples."""
    vertical, samples = str(job.volume.dims[2]), job.axes[2]
    direction = direction_of(points)
    traces = job.axes[1 - direction]
    first, last = np.clip(np.searchsorted(samples, points[vertical].iloc[[0, -1]]), 0, len(samples) - 1)
    every = np.arange(first, last + 1)
    trace = np.interp(samples[every], points[vertical], points[DIRECTIONS[1 - direction]])
    return every, np.rint(np.interp(trace, traces, np.arange(len(traces)))).astype(int)


def judge_sticks(job: "Job", sticks: pd.DataFrame, what: str, name: str | None = None) -> None:
    """Accept or reject sticks, or clear the verdicts on them; one undo cancels all verdicts of a call.

    An accepted stick is recorded as a stroke of the class along the stick. A rejected stick is recorded as a stroke
    that excludes the class: its samples are not the class, and no other class is painted.

    Parameters
    ----------
    sticks : DataFrame
        Sticks to judge, as `sticks_of_class` returns them; change their points to move them.
    what : {"accept", "reject", "forget"}
        The verdict; ``forget`` clears earlier verdicts.
    name : str, optional
        The class; by default the one that `fault_class` finds.
    """
    if what not in VERDICTS:
        raise ValueError(f"{what!r} is no verdict on sticks; choose one of {', '.join(VERDICTS)}.")
    _decide(job, sticks, fault_class(job, name), what)


def extend_stick(job: "Job", stick: pd.DataFrame, place: Sequence[float], name: str | None = None) -> None:
    """Extend a stick by a straight line to a place above its top or below its base, and accept the longer stick.

    Parameters
    ----------
    stick : DataFrame
        Points of one stick, as `sticks_of_class` gives them.
    place : (inline, crossline, time)
        A place on the section of the stick.
    """
    name = fault_class(job, name)
    longer = extended_stick(job, stick, place)
    _decide(job, longer.assign(stick=0, along=DIRECTIONS[direction_of(stick)]), name, "accept")


def extended_stick(job: "Job", stick: pd.DataFrame, place: Sequence[float]) -> pd.DataFrame:
    """Return a stick with one more point, which must lie on its section, above its top or below its base."""
    dims = [str(name) for name in job.volume.dims]
    along, vertical = DIRECTIONS[direction_of(stick)], dims[2]
    point = dict(zip(dims, map(float, place), strict=True))
    for name, value in point.items():
        first, last = job.volume[name].values[[0, -1]]
        if not min(first, last) <= value <= max(first, last):
            raise ValueError(f"{name} {value:g} lies outside the survey ({first:g} to {last:g}); give a place inside.")
    line = stick[along].iloc[0]
    if abs(point[along] - line) > 1e-6:
        raise ValueError(f"The stick lies on {along} {line:g}, not on {point[along]:g}; give a place on its section.")
    top, base = stick[vertical].min(), stick[vertical].max()
    if top <= point[vertical] <= base:
        raise ValueError(
            f"The stick reaches from {top:g} to {base:g}; extend it to a place above or below, not at "
            f"{point[vertical]:g}."
        )
    return pd.concat([stick, pd.DataFrame([point])], ignore_index=True).sort_values(vertical)


def import_sticks(job: "Job", path: str | Path, name: str = "fault") -> int:
    """Import the fault sticks in a file as accepted sticks of the class `name`; return the number of sticks."""
    return accept_sticks(job, read_sticks(path, job.volume), name)


def accept_sticks(job: "Job", sticks: pd.DataFrame, name: str) -> int:
    """Record sticks as accepted sticks of the class `name`, as one act; return the number of sticks.

    If the job does not have the class, it is added.
    """
    _decide(job, sticks, name, "accept")
    return int(sticks["stick"].nunique())


def _decide(job: "Job", sticks: pd.DataFrame, name: str, what: str) -> None:
    """Record the verdict `what` (``accept``, ``reject`` or ``forget``) on sticks, as one act.

    Each verdict is recorded as a stroke along its stick.
    """
    entries, first = ([], "erase") if what == "forget" else job._new_class(name)
    for _, points in sticks.groupby("stick"):
        places = points[list(job.volume.dims)].to_numpy(float).tolist()
        stroke = {"along": DIRECTIONS[direction_of(points)], "points": places, "radius": STROKE}
        job._check_stroke(stroke)
        entries.append(VERDICTS[what] | stroke | {"class": first})
    job._decide(*entries)
