"""Fault sticks of a job: picked line by line, kept, and cut to what the labels of a class say.

A stick that a person accepted, extended or imported is a decision: a stroke of the class that is marked as a stick. It
is written as it was decided, whatever labels and likelihood say; only what a person paints over it later takes it away.
"""

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
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file

VERSION = 3  # of how sticks are picked; another one picks anew
NEAR = 2  # traces from a stick within which a label counts for it
BRIDGED = 12  # samples of another label that do not cut a stick
STROKE = 3.0  # radius in samples of the stroke that accepts or rejects a stick
VERDICTS = ("accept", "reject", "forget")


def fault_class(job, name=None):
    """Name of the class that is marked as faults: the given one, else the one whose name holds the word fault."""
    names = list(job.classes)
    if name is not None:
        return job.plan.names[job._class(name)]
    found = [one for one in names if "fault" in one.lower()]
    if len(found) != 1:
        problem = f"{len(found)} classes of {job.path} are" if found else f"No class of {job.path} is"
        known = ", ".join(names) or "it has no class yet"
        raise ValueError(f"{problem} called fault ({known}); name one with --class.")
    return found[0]


def all_sticks(job, lines=None, *, threshold=THRESHOLD, neighbours=NEIGHBOURS, progress=None):
    """Sticks of lines of a job, whatever their class; lines that were picked before are read back.

    Parameters
    ----------
    lines : sequence of int, optional
        Survey labels; all lines by default.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    DataFrame
        As `line_sticks` gives them, with the column `along`; not joined.
    """
    along, labels = DIRECTIONS[job.plan.along], job.axes[job.plan.along]
    key, folder = _kept_picks(job, threshold, neighbours)
    wanted = np.arange(len(labels)) if lines is None else np.flatnonzero(np.isin(labels, lines))
    files = {position: folder / f"{labels[position]}.csv" for position in wanted.tolist()}
    missing = [position for position, file in files.items() if not file.is_file()]
    picked = line_sticks(job.volume, along, missing, threshold, neighbours=neighbours) if missing else iter(())
    for done, (position, table) in enumerate(zip(missing, picked, strict=True), 1):
        with whole_file(files[position]) as aside:
            table.to_csv(aside, index=False)
        if progress:
            progress("picking faults", done, len(missing))
    job.stages.note("faults", key)
    return assembled([_read(file) for file in files.values()], job.volume)


def _kept_picks(job, threshold, neighbours):
    """Key and folder of the lines that were picked with some options."""
    inputs = {"volume": job.plan.volume["digest"], "weights": weights_digest(), "along": DIRECTIONS[job.plan.along]}
    key = job.stages.begin("faults", inputs | {"version": VERSION, "threshold": threshold, "neighbours": neighbours})
    return key, job.stages.path("faults", key)


def _read(file):
    try:
        return pd.read_csv(file)
    except pd.errors.EmptyDataError:  # a line without a fault
        return pd.DataFrame()


def picked_lines(job, *, threshold=THRESHOLD, neighbours=NEIGHBOURS):
    """Survey labels of the lines that were picked already."""
    folder = _kept_picks(job, threshold, neighbours)[1]
    return [line for line in job.axes[job.plan.along].tolist() if (folder / f"{line}.csv").is_file()]


def sticks_of_class(job, name=None, *, lines=None, threshold=THRESHOLD, progress=None):
    """Sticks of a class: those that were accepted, and those that lie where the labels show it; joined into surfaces.

    The exemplars, verdicts and strokes of the class say which faults are meant: its labels follow them, and a stick is
    cut to the part on which the labels agree. What is painted counts at once, before the line is labelled again.

    Parameters
    ----------
    job : Job
    name : str, optional
        The class; the one whose name holds the word fault by default.
    lines : sequence of int, optional
        Survey labels; by default all labelled lines, and all sections with an accepted stick.

    Returns
    -------
    DataFrame
        As `outcrop.fault_sticks`, and whether a stick was ``accepted``; see `accepted_sticks`.
    """
    name = fault_class(job, name)
    accepted = accepted_sticks(job, name)
    if lines is not None:
        on_lines = accepted[DIRECTIONS[job.plan.along]].isin(lines) & (accepted["along"] == DIRECTIONS[job.plan.along])
        accepted = accepted[on_lines]
    numbers = job.axes[job.plan.along]
    positions = [position for position in sorted(job.labelled) if lines is None or numbers[position] in lines]
    if not positions and not len(accepted):
        raise ValueError(
            f"{job.path} has no labels on the lines asked for; run 'outcrop label' first, or 'outcrop faults VOLUME' "
            "for all faults."
        )
    parts = [accepted]
    if positions:
        every = all_sticks(job, numbers[positions], threshold=threshold, progress=progress)
        parts.append(_agreeing(job, every, name, accepted).assign(accepted=False))
    table = assembled(parts, job.volume)
    table = table if len(table) else table.assign(accepted=False)
    return join_sticks(table, job.volume, picked={DIRECTIONS[job.plan.along]: positions})


def accepted_sticks(job, name=None):
    """Sticks of a class as a person decided on them: accepted, extended and imported ones.

    What was painted over one later, as another class or by erasing, is gone. Of two sticks within three traces of each
    other the one of the later act counts.

    Returns
    -------
    DataFrame
        As `all_sticks` gives them, with likelihood 1 and the column ``accepted``, which is True.
    """
    name = fault_class(job, name)
    plan = job.plan
    first, code, painted = plan.firsts[name], plan.classes[name], marked_sections(job, job.plan)[0]
    found: list = []  # act, section, stick; the latest first
    for stroke in reversed(plan.state.strokes):
        section = section_of(stroke, job.axes)
        if not stroke.get("stick") or stroke["class"] != first or section is None or section not in painted:
            continue
        points = pd.DataFrame(stroke["points"], columns=list(job.volume.dims)).sort_values(job.volume.dims[2])
        points = points.assign(likelihood=1.0, along=stroke["along"])
        later = [one for act, where, one in found if where == section and act != stroke["group"]]
        found += [(stroke["group"], section, part) for part in _cut(job, points, painted[section] == code, later)]
    numbered = [part.assign(stick=number, accepted=True) for number, (*_, part) in enumerate(reversed(found))]
    columns = ["stick", *job.volume.dims, "likelihood", "along", "accepted"]
    return pd.concat(numbered, ignore_index=True)[columns] if numbered else _no_sticks(columns)


def _no_sticks(columns):
    table = pd.DataFrame({name: np.empty(0) for name in columns})
    return table.astype({"stick": int, "along": str, "accepted": bool})


def _agreeing(job, sticks, name, accepted):
    """Parts of sticks on which the labels show the class and no stick is accepted, counted anew."""
    code, labels, painted = job.classes[name], job.labels["label"], marked_sections(job, job.plan)[0]
    direction = job.plan.along
    along, parts = DIRECTIONS[direction], []
    accepted = accepted[accepted["along"] == along]
    for line, on_line in sticks.groupby(along):
        position = int(np.flatnonzero(job.axes[direction] == line)[0])
        section = np.array(labels.isel({along: position}).values)
        stroke = painted.get((direction, position))
        if stroke is not None:
            section = np.where(stroke > 0, stroke, section)
        shown = binary_dilation(section == code, np.ones((2 * NEAR + 1, 1)))
        if stroke is not None:
            shown &= (stroke == 0) | (stroke == code)  # painted as something else
        taken = [points for _, points in accepted[accepted[along] == line].groupby("stick")]
        for _, points in on_line.groupby("stick"):
            parts += _cut(job, points, shown, taken)
    numbered = [part.assign(stick=number) for number, part in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True) if numbered else sticks.iloc[:0]


def _cut(job, points, shown, others=()):
    """Parts of one stick that lie inside a mask of shape (n_traces, n_samples), and not along one of some others."""
    vertical, samples = job.volume.dims[2], job.axes[2]
    every, columns = _course(job, points)
    inside = np.pad(shown[columns, every], BRIDGED)
    inside = binary_closing(inside, np.ones(BRIDGED + 1))[BRIDGED:-BRIDGED]
    for other in others:
        _, shared, theirs = np.intersect1d(every, _course(job, other)[0], return_indices=True)
        taken = np.zeros(len(every), bool)
        taken[shared] = np.abs(columns[shared] - _course(job, other)[1][theirs]) <= APART
        inside &= ~binary_opening(taken, np.ones(min(SHORTEST, len(every))))  # sticks that cross share less
    if inside.all():
        return [points]
    runs, count = label(inside)
    parts = []
    for run in range(1, count + 1):
        span = np.flatnonzero(runs == run)
        if len(span) < min(SHORTEST, len(every)):
            continue
        top, base = samples[every[span[0]]], samples[every[span[-1]]]
        between = points[vertical].to_numpy(float)
        nodes = np.unique([top, *between[(between > top) & (between < base)], base])
        part = pd.DataFrame({vertical: nodes})
        for column_name in ("inline", "crossline", "likelihood"):
            part[column_name] = np.interp(nodes, between, points[column_name])
        parts.append(part.assign(along=points["along"].iloc[0]))
    return parts


def _course(job, points):
    """Positions of the samples from the top of a stick to its base, and of its trace at each of them."""
    vertical, samples = job.volume.dims[2], job.axes[2]
    direction = direction_of(points)
    traces = job.axes[1 - direction]
    first, last = np.clip(np.searchsorted(samples, points[vertical].iloc[[0, -1]]), 0, len(samples) - 1)
    every = np.arange(first, last + 1)
    trace = np.interp(samples[every], points[vertical], points[DIRECTIONS[1 - direction]])
    column = np.rint(np.interp(trace, traces, np.arange(len(traces)))).astype(int)
    return every, np.clip(column, 0, len(traces) - 1)


def judge_sticks(job, sticks, what, name=None):
    """Accept or reject sticks, or forget what was decided along them; each call is one decision that undo takes back.

    An accepted stick is kept as a stroke of the class along it, a rejected one as a stroke of the background.

    Parameters
    ----------
    sticks : DataFrame
        Sticks to judge, as `sticks_of_class` gives them; change their points to move them.
    what : {"accept", "reject", "forget"}
    """
    if what not in VERDICTS:
        raise ValueError(f"Sticks are to be {what!r}; choose one of {', '.join(VERDICTS)}.")
    name = fault_class(job, name)
    if what == "reject" and job.background is None:
        raise ValueError("No class is the background; say with --background of 'outcrop retrieve' which one is.")
    _paint(job, sticks, {"accept": name, "reject": job.background, "forget": "erase"}[what], stick=what == "accept")


def extend_stick(job, stick, place, name=None):
    """Extend a stick straight to a place above its top or below its base, and accept it as it is then.

    Parameters
    ----------
    stick : DataFrame
        Points of one stick, as `sticks_of_class` gives them.
    place : (inline, crossline, time)
        On the section of the stick.
    """
    name = fault_class(job, name)
    longer = extended_stick(job, stick, place)
    _paint(job, longer.assign(stick=0, along=DIRECTIONS[direction_of(stick)]), name, stick=True)


def extended_stick(job, stick, place):
    """A stick with a further point; refused where that is no place above its top or below its base."""
    along, vertical = DIRECTIONS[direction_of(stick)], job.volume.dims[2]
    place = dict(zip(job.volume.dims, map(float, place), strict=True))
    for axis, value in place.items():
        first, last = job.volume[axis].values[[0, -1]]
        if not min(first, last) <= value <= max(first, last):
            raise ValueError(f"{axis} {value:g} lies outside the survey ({first:g} to {last:g}); give a place inside.")
    line = stick[along].iloc[0]
    if abs(place[along] - line) > 1e-6:
        raise ValueError(f"The stick lies on {along} {line:g}, not on {place[along]:g}; give a place on its section.")
    top, base = stick[vertical].min(), stick[vertical].max()
    if top <= place[vertical] <= base:
        raise ValueError(
            f"The stick reaches from {top:g} to {base:g}; extend it to a place above or below, not at "
            f"{place[vertical]:g}."
        )
    return pd.concat([stick, pd.DataFrame([place])], ignore_index=True).sort_values(vertical)


def import_sticks(job, path, name="fault", *, format=None):
    """Take the sticks of a file over as accepted ones of a class; see `accept_sticks`."""
    return accept_sticks(job, read_sticks(path, job.volume, format=format), name)


def accept_sticks(job, sticks, name):
    """Take sticks over as accepted ones of a class, made where it is not there, as one act; how many there were."""
    _paint(job, sticks, name, stick=True)
    return sticks["stick"].nunique()


def _paint(job, sticks, name, *, stick):
    """Paint a class along sticks, as one act."""
    vertical = job.volume.dims[2]
    with job.act():
        for _, points in sticks.groupby("stick"):
            along = DIRECTIONS[direction_of(points)]
            places = points[["inline", "crossline", vertical]].to_numpy(float).tolist()
            job.paint(name, places, STROKE, along, stick=stick)
