"""Fault sticks of a job: picked line by line, kept, and cut to what the labels of a class say."""

import numpy as np
import pandas as pd
from scipy.ndimage import binary_closing, binary_dilation, label

from outcrop.encoder import weights_digest
from outcrop.geometry.faults import NEIGHBOURS, SHORTEST, THRESHOLD, assembled, line_sticks
from outcrop.geometry.sticks import read_sticks
from outcrop.geometry.surfaces import direction_of, join_sticks, least_lines
from outcrop.patches import DIRECTIONS
from outcrop.workspace import whole_file

VERSION = 1  # of how sticks are picked; another one picks anew
NEAR = 2  # traces from a stick within which a label counts for it
BRIDGED = 12  # samples of another label that do not cut a stick
STROKE = 3.0  # radius in samples of the stroke that accepts or rejects a stick


def fault_class(job, name=None):
    """Name of the class that is marked as faults: the given one, else the one whose name holds the word fault."""
    names = list(job.classes)
    if name is not None:
        return job.state.classes[job._class(name)]["name"]
    found = [one for one in names if "fault" in one.lower()]
    if len(found) != 1:
        known = ", ".join(names) or "none yet"
        raise ValueError(f"{len(found)} classes of {job.path} are called fault ({known}); name one with --class.")
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
    along = DIRECTIONS[job.along]
    inputs = {"volume": job.known["digest"], "weights": weights_digest(), "along": along, "version": VERSION}
    key = job.stages.begin("faults", inputs | {"threshold": threshold, "neighbours": neighbours})
    folder = job.stages.path("faults", key)
    labels = job.volume[along].values
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


def _read(file):
    try:
        return pd.read_csv(file)
    except pd.errors.EmptyDataError:  # a line without a fault
        return pd.DataFrame()


def sticks_of_class(job, name=None, *, lines=None, threshold=THRESHOLD, progress=None):
    """Sticks that lie where the labels of a job show a class, joined into surfaces.

    The exemplars, verdicts and strokes of the class say which faults are meant: its labels follow them, and a stick is
    cut to the part on which the labels agree. What is painted counts at once, before the line is labelled again.

    Parameters
    ----------
    job : Job
    name : str, optional
        The class; the one whose name holds the word fault by default.
    lines : sequence of int, optional
        Survey labels; all labelled lines by default.

    Returns
    -------
    DataFrame
        As `outcrop.fault_sticks`.
    """
    name = fault_class(job, name)
    positions = [position for position in sorted(job.labelled()) if lines is None or job.lines[position] in lines]
    if not positions:
        raise ValueError(
            f"{job.path} has no labels on the lines asked for; run 'outcrop label' first, or 'outcrop faults VOLUME' "
            "for all faults."
        )
    sticks = all_sticks(job, job.lines[positions], threshold=threshold, progress=progress)
    return join_sticks(_agreeing(job, sticks, name), job.volume, least=least_lines(positions))


def _agreeing(job, sticks, name):
    """Parts of sticks on which the labels show the class, counted anew."""
    code, labels, painted = job.classes[name], job.labels["label"], job.painted()
    along, axes, parts = DIRECTIONS[job.along], job.axes, []
    vertical = job.volume.dims[2]
    for line, on_line in sticks.groupby(along):
        position = int(np.flatnonzero(axes[job.along] == line)[0])
        section = np.array(labels.isel({along: position}).values)
        stroke = painted.get((job.along, position))
        if stroke is not None:
            section = np.where(stroke > 0, stroke, section)
        shown = binary_dilation(section == code, np.ones((2 * NEAR + 1, 1)))
        if stroke is not None:
            shown &= (stroke == 0) | (stroke == code)  # painted as something else
        for _, points in on_line.groupby("stick"):
            parts += _cut(points, shown, axes[1 - job.along], axes[2], vertical)
    numbered = [part.assign(stick=number) for number, part in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True) if numbered else sticks.iloc[:0]


def _cut(points, shown, traces, samples, vertical):
    """Parts of one stick that lie inside a mask of shape (n_traces, n_samples)."""
    across = DIRECTIONS[1 - direction_of(points)]
    every = np.arange(*np.searchsorted(samples, points[vertical].iloc[[0, -1]]) + [0, 1])
    trace = np.interp(samples[every], points[vertical], points[across])
    column = np.clip(np.rint(np.interp(trace, traces, np.arange(len(traces)))).astype(int), 0, len(traces) - 1)
    inside = np.pad(shown[column, every], BRIDGED)
    inside = binary_closing(inside, np.ones(BRIDGED + 1))[BRIDGED:-BRIDGED]
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


def judge_sticks(job, sticks, what, name=None):
    """Accept or reject sticks: decisions, kept as strokes of the class, or of the background, along each stick.

    Parameters
    ----------
    sticks : DataFrame
        Sticks to judge, as `sticks_of_class` gives them; change their points to move or extend them.
    what : {"accept", "reject"}
    """
    if what not in ("accept", "reject"):
        raise ValueError(f"Sticks are to be {what!r}; choose accept or reject.")
    name = fault_class(job, name)
    if what == "reject" and job.background is None:
        raise ValueError("No class is the background; say with --background of 'outcrop retrieve' which one is.")
    _paint(job, sticks, name if what == "accept" else job.background)


def import_sticks(job, path, name="fault", *, format=None):
    """Take the sticks of a file over as strokes of a class, made where it is not there; how many there were."""
    sticks = read_sticks(path, job.volume, format=format)
    _paint(job, sticks, name)
    return sticks["stick"].nunique()


def _paint(job, sticks, name):
    """Paint a class along sticks, as one act."""
    vertical = job.volume.dims[2]
    with job.log.act():
        for _, points in sticks.groupby("stick"):
            along = DIRECTIONS[direction_of(points)]
            job.paint(name, points[["inline", "crossline", vertical]].to_numpy(float).tolist(), STROKE, along)
