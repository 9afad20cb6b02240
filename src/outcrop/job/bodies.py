"""Bodies of a job as files: a table, tops and bases as horizons, pictures and a page."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

from outcrop import plots
from outcrop.geometry.bodies import MIN_SAMPLES, SIDES, find_bodies
from outcrop.geometry.coordinates import trace_coordinates
from outcrop.geometry.horizons import horizon_misfit, horizon_table, read_horizon, write_horizon
from outcrop.job.fault_report import thinned
from outcrop.job.fitting import job_mapper
from outcrop.job.fusion import can_fuse, fused_labels, voted_labels
from outcrop.job.pictures import save
from outcrop.job.sections import labelling_grid
from outcrop.labels.votes import lines_of
from outcrop.patches.grid import DIRECTIONS
from outcrop.report import write_report
from outcrop.storage.workspace import whole_file

DRAWN = 4  # bodies whose tops are drawn as maps


def job_bodies(
    job, classes=None, *, min_samples=MIN_SAMPLES, velocity=None, fuse=None, stale=False, memory=None, progress=None
):
    """Bodies of the labels of a job.

    Parameters
    ----------
    job : Job
    classes : sequence of str, optional
        By default all but the background.
    min_samples, velocity, memory
        As for `outcrop.bodies`.
    fuse : bool, optional
        Label the lines across too and let the votes of both directions count; by default where every line is labelled.
    stale : bool
        Take lines of older decisions too; refused otherwise.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    found : Bodies
    labels : Dataset
        What they were found in.
    notes : list of str
        What is to be known about them.
    """
    plan, done = job.plan, job.labelled
    if not done:
        raise ValueError(f"{job.path} has no labels yet; run 'outcrop label {job.path}' first.")
    old = sum(done.values())
    if old and not stale:
        raise ValueError(
            f"{old} of {len(done)} labelled lines are of older decisions; run 'outcrop label {job.path}' to bring them "
            "up to date, or take them as they are with --stale."
        )
    report = progress or (lambda *_: None)
    if fuse is None:
        fuse = can_fuse(job) and len(done) >= len(lines_of(labelling_grid(job, plan), job_mapper(job, plan)))
    labels = fused_labels(job, memory=memory, progress=progress) if fuse else voted_labels(job, [plan])
    along, n_lines = DIRECTIONS[plan.along], job.volume.shape[plan.along]
    found = find_bodies(
        labels, classes, min_samples=min_samples, velocity=velocity, along=along, memory=memory,
        progress=lambda count: report("bodies", count, n_lines),
    )  # fmt: skip
    return found, labels, _notes(job, found, labels, done)


def _notes(job, found, labels, done):
    """What is to be known about bodies: what they were made of, and where they cannot be trusted."""
    direction, notes = job.plan.along, []
    along, across, n_lines = DIRECTIONS[direction], DIRECTIONS[1 - direction], job.volume.shape[direction]
    if len(done) < n_lines:
        notes.append(f"{len(done)} of {n_lines} {along}s are labelled; bodies end where labels do")
    if not labels.attrs["fused"] and can_fuse(job):
        notes.append(f"labels of {along}s alone; --fuse lets those of {across}s count too")
    for name, share in labels.attrs.get("one_sided", {}).items():
        notes.append(
            f"{name}: {along}s and {across}s agree on {share:.0%} of it, so the {along}s alone count for it; "
            "structures with one strike, such as faults, show on the lines across it"
        )
    if (found.table["unit"] == "samples").any():
        notes.append("the bin size or the unit of the samples is not known: volumes are numbers of samples")
    if (found.table["unit"] == "m2 ms").any():
        notes.append("volumes are in m2 ms, area times two-way time; --velocity gives them in m3")
    return notes


def read_tops(job, files):
    """Horizons to compare tops with, by class, from a file for each class; see `read_horizon`."""
    for name in files:
        if name not in job.classes:
            raise ValueError(f"Class {name!r} of a top is unknown; choose one of {', '.join(job.classes)}.")
    return {name: read_horizon(path, job.volume) for name, path in files.items()}


def top_misfits(found, tops):
    """How far the top of the largest body of each class lies from a horizon; see `horizon_misfit`."""
    rows = []
    for name, horizon in tops.items():
        known = (name, 1) in found.outlines
        misfit = horizon_misfit(found.surface(name), horizon) if known else {"traces": 0, "found": 0.0}
        rows.append({"top of": name, **misfit})
    return pd.DataFrame(rows)


def write_bodies(job, folder, **options):
    """Write the bodies of a job into a new folder: bodies.csv, tops and bases, pictures, report.html.

    Horizons are csv, and IRAP classic points (.poi) where the trace headers have X and Y. `options` are those of
    `job_bodies`.

    Returns
    -------
    found : Bodies
    notes : list of str
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is already there; remove it or choose another name.")
    found, labels, notes = job_bodies(job, **options)
    volume, problem = _with_coordinates(job.volume)
    notes += [f"{problem.rstrip('.')}: horizons as csv alone"] if problem else []
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(folder) as aside:
        aside.mkdir()
        found.table.to_csv(aside / "bodies.csv", index=False, float_format="%.10g")
        for name, body in found.outlines:
            for side in SIDES:
                table = horizon_table(found.surface(name, body, side), volume)
                if len(table):
                    file = re.sub(r"\W+", "-", f"{name.lower()} {body} {side}")
                    for kind in (".csv", ".poi") if volume is not None else (".csv",):
                        write_horizon(aside / f"{file}{kind}", table)
        provenance = {key: labels.attrs[key] for key in ("provenance", "fused", "min_confidence", "mapping")}
        text = json.dumps(provenance | {"notes": notes}, indent=1, ensure_ascii=False, default=str)
        (aside / "provenance.json").write_text(text + "\n", encoding="utf-8")
        _draw(job, found, aside)
        _report(job, found, notes, aside)
    return found, notes


def _with_coordinates(volume):
    """The volume where X and Y of its traces are known, else None and why they are not."""
    try:
        trace_coordinates(volume, volume["inline"].values[-1:], volume["crossline"].values[-1:])
    except (ValueError, OSError) as error:
        return None, str(error)
    return volume, ""


def _draw(job, found, folder):
    """Save sections through the largest body of each class, and maps of the largest tops."""
    surfaces = [found.surface(name, body, side) for name, body in found.outlines for side in SIDES]
    first = found.table.drop_duplicates("class")
    for _, row in first.iterrows():
        outline = found.outlines[row["class"], row["body"]]
        middles = {}
        for direction, positions in zip(list(found.axes)[:2], (outline.line, outline.trace), strict=True):
            middles[direction] = found.axes[direction][int(np.median(positions))]
        vertical = job.volume.dims[2]
        depth = (row[f"{vertical}_first"] + row[f"{vertical}_last"]) / 2
        middles[vertical] = job.volume[vertical].values[np.argmin(np.abs(job.volume[vertical].values - depth))]
        figure = plots.new_figure(figsize=(12, 14), layout="constrained")
        for ax, direction in zip(figure.subplots(3, 1), job.volume.dims, strict=True):
            section = (thinned(job.volume) if direction == vertical else job.volume).sel(
                {direction: middles[direction]}
            )
            plots.horizons(section, surfaces, palette=job.palette, ax=ax)
        save(figure, folder / f"{row['class'].replace(' ', '-')}.png")
    largest = found.table.sort_values("samples", ascending=False, kind="stable")
    tops = [found.surface(row["class"], row["body"]) for _, row in largest.iterrows()]
    tops = [top for top in tops if np.isfinite(top).any()][:DRAWN]
    if tops:
        figure = plots.new_figure(figsize=(12, 4.5 * -(-len(tops) // 2)), layout="constrained")
        for ax, top in zip(figure.subplots(-(-len(tops) // 2), 2, squeeze=False).ravel(), tops, strict=False):
            plots.horizon_map(top, ax=ax)
        for ax in figure.axes:
            if not ax.has_data():
                ax.set_axis_off()
        save(figure, folder / "tops.png")


def _report(job, found, notes, folder):
    """Write the page."""
    pictures: list = []
    for name in dict.fromkeys(found.table["class"]):
        pictures.append(
            (folder / f"{name.replace(' ', '-')}.png", f"Sections and a slice through the largest body of {name}.")
        )
    if (folder / "tops.png").is_file():
        pictures.append((folder / "tops.png", "Tops of the largest bodies."))
    sections = {
        "Bodies": [pd.DataFrame(found.table), *(note[0].upper() + note[1:] + "." for note in notes)],
        "Tops and bases": pictures or ["No body is large enough."],
        "How it was made": [{"job": job.status()}],
    }
    write_report(folder / "report.html", title=f"Bodies of {job.path.name}", sections=sections)
