"""Find the geobodies in the labels of a job, and write a table, horizons of tops and bases, pictures and a report."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import plots
from outcrop.export.lines import new_folder
from outcrop.geometry.bodies import MIN_SAMPLES, SIDES, Bodies, find_bodies
from outcrop.geometry.coordinates import trace_coordinates
from outcrop.geometry.horizons import horizon_misfit, horizon_table, read_horizon, write_horizon
from outcrop.job.fault_report import section_at
from outcrop.job.fitting import job_mapper
from outcrop.job.fusion import can_fuse, fused_labels, voted_labels
from outcrop.job.pictures import save
from outcrop.job.sections import labelling_grid
from outcrop.job.status import checked_lines
from outcrop.labels.votes import lines_of
from outcrop.parallel import Progress
from outcrop.patches.grid import DIRECTIONS
from outcrop.report import write_report
from outcrop.volumes.axes import nearest_label
from outcrop.volumes.lazy import live_traces
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

DRAWN = 4  # bodies whose tops are drawn as maps
UNITS = {
    "samples": "the bin size or the vertical unit is unknown, so the size of a body is its number of samples",
    "m2 ms": "volumes of bodies are in m2 ms (area times two-way time); with --velocity they are in m3",
}


def job_bodies(
    job: "Job",
    classes: Sequence[str] | None = None,
    *,
    min_samples: int = MIN_SAMPLES,
    velocity: float | None = None,
    fuse: bool | None = None,
    stale: bool = False,
    memory: int | None = None,
    progress: Progress | None = None,
) -> tuple[Bodies, xr.Dataset, list[str]]:
    """Return the geobodies in the labels of a job.

    Parameters
    ----------
    job : Job
    classes : sequence of str, optional
        Classes of the geobodies; by default all classes but the background.
    min_samples, velocity, memory
        As for `outcrop.bodies`.
    fuse : bool, optional
        If True, label the lines of the other direction too (crosslines if inlines are labelled), and sum the votes of
        both directions.
        None means True if every line is labelled and the other direction can be labelled, else False.
    stale : bool
        If True, also use stale lines; if False, they raise ValueError.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    found : Bodies
    labels : Dataset
        The labels in which the bodies were found.
    notes : list of str
        Sentences for the user on incomplete labels, disagreement of the two directions, and units of volumes.
    """
    plan, done = job.plan, checked_lines(job, stale=stale)
    if fuse is None:
        fuse = can_fuse(job) and len(done) >= len(lines_of(labelling_grid(job, plan), job_mapper(job, plan)))
    labels = fused_labels(job, memory=memory, progress=progress) if fuse else voted_labels(job, [plan])
    along = DIRECTIONS[plan.along]
    found = find_bodies(
        labels, classes, min_samples=min_samples, velocity=velocity, along=along, memory=memory,
        progress=progress,
    )  # fmt: skip
    return found, labels, _notes(job, found, labels, len(done))


def _notes(job: "Job", found: Bodies, labels: xr.Dataset, done: int) -> list[str]:
    """Return sentences for the user on incomplete labels, on the directions used, and on units of volumes.

    `done` is the number of labelled lines.
    """
    direction, notes = job.plan.along, []
    along, across, n_lines = DIRECTIONS[direction], DIRECTIONS[1 - direction], job.volume.shape[direction]
    if done < n_lines:
        notes.append(f"{done} of {counted(n_lines, f'{along}s', 'are')} labelled; bodies end where the labels end")
    if not labels.attrs["fused"] and can_fuse(job):
        notes.append(f"bodies are found in the labels of {along}s alone; --fuse adds the votes of {across}s")
    for name, share in labels.attrs.get("one_sided", {}).items():
        notes.append(
            f"{name}: labels of {along}s and {across}s agree on {share:.0%} of the samples of this class, so only "
            f"{along}s count for it; structures with one strike, such as faults, show on lines across their strike"
        )
    return notes + [text for unit, text in UNITS.items() if (found.table["unit"] == unit).any()]


def read_tops(job: "Job", files: Mapping[str, str | Path]) -> dict[str, pd.DataFrame]:
    """Return a dict: class -> table of its horizon, to compare with the top of the largest geobody of the class.

    `files` maps a class to the file of its horizon; see `read_horizon`.
    """
    for name in files:
        if name not in job.classes:
            raise ValueError(f"Class {name!r} of a top is unknown; choose one of {', '.join(job.classes)}.")
    return {name: read_horizon(path, job.volume) for name, path in files.items()}


def top_misfits(found: Bodies, tops: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a table with one row per class: the misfit between a horizon and the top of the largest geobody.

    `tops` maps a class to its horizon. The columns are ``top of`` (the class) and those of `horizon_misfit`.
    """
    rows = []
    for name, horizon in tops.items():
        known = (name, 1) in found.outlines
        misfit = horizon_misfit(found.surface(name), horizon) if known else {"traces": 0, "found": 0.0}
        rows.append({"top of": name, **misfit})
    return pd.DataFrame(rows)


def write_bodies(job: "Job", folder: str | Path, **options: Any) -> tuple[Bodies, list[str]]:
    """Write the bodies of a job into a new folder: bodies.csv, tops and bases, pictures, report.html.

    Horizons are written as CSV, and also as IRAP classic points (.poi) if the trace headers have X and Y. `options` are
    the keyword arguments of `job_bodies`.

    Returns
    -------
    found : Bodies
    notes : list of str
        Sentences for the user, as from `job_bodies`.
    """
    writer = new_folder(folder)
    found, labels, notes = job_bodies(job, **options)
    volume: xr.DataArray | None = job.volume
    kinds = [".csv", ".poi"]
    try:
        live = np.argwhere(live_traces(job.volume))[-1:].T
        trace_coordinates(job.volume, *(axis[at] for axis, at in zip(job.axes, live, strict=False)))
    except (ValueError, OSError) as error:
        volume, kinds = None, [".csv"]
        notes.append(f"{str(error).rstrip('.')}: horizons are written as csv only")
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with writer as aside:
        aside.mkdir()
        found.table.to_csv(aside / "bodies.csv", index=False, float_format="%.10g")
        for name, body in found.outlines:
            for side in SIDES:
                table = horizon_table(found.surface(name, body, side), volume)
                file = re.sub(r"\W+", "-", f"{name.lower()} {body} {side}")
                for kind in kinds if len(table) else ():
                    write_horizon(aside / f"{file}{kind}", table)
        provenance = {key: labels.attrs[key] for key in ("provenance", "fused", "min_confidence", "mapping")}
        text = json.dumps(provenance | {"notes": notes}, indent=1, ensure_ascii=False, default=str)
        (aside / "provenance.json").write_text(text + "\n", encoding="utf-8")
        sections: dict[str, Any] = {
            "Bodies": [pd.DataFrame(found.table), *(note[0].upper() + note[1:] + "." for note in notes)],
            "Tops and bases": _draw(job, found, aside)
            or f"No geobody has {options.get('min_samples', MIN_SAMPLES)} samples or more; choose a smaller minimum.",
            "How it was made": [{"job": job.status()}],
        }
        write_report(aside / "report.html", title=f"Bodies of {job.path.name}", sections=sections)
    return found, notes


def _draw(job: "Job", found: Bodies, folder: Path) -> list[tuple[Path, str]]:
    """Save pictures of geobodies in a folder, and return a list of (file, caption).

    One picture for each class shows sections through its largest geobody. Another picture shows the tops of the four
    largest geobodies as maps.
    """
    surfaces = [found.surface(name, body, side) for name, body in found.outlines for side in SIDES]
    dims, pictures = [str(name) for name in job.volume.dims], []
    vertical = dims[2]
    for _, row in found.table.drop_duplicates("class").iterrows():
        name, outline = row["class"], found.outlines[row["class"], row["body"]]
        middles = {vertical: nearest_label(job.axes[2], (row[f"{vertical}_first"] + row[f"{vertical}_last"]) / 2)}
        for direction, positions in zip(list(found.axes)[:2], (outline.line, outline.trace), strict=True):
            middles[direction] = found.axes[direction][int(np.median(positions))]
        figure = plots.new_figure(figsize=(12, 14), layout="constrained")
        for ax, direction in zip(figure.subplots(3, 1), dims, strict=True):
            section = section_at(job.volume, direction, middles[direction])
            plots.horizons(section, surfaces, palette=job.palette, ax=ax)
        path = folder / f"{name.replace(' ', '-')}.png"
        save(figure, path)
        pictures.append((path, f"Sections and a slice through the largest body of {name}."))
    largest = found.table.sort_values("samples", ascending=False, kind="stable")
    tops = [found.surface(row["class"], row["body"]) for _, row in largest.iterrows()]
    tops = [top for top in tops if np.isfinite(top).any()][:DRAWN]
    if tops:
        rows = -(-len(tops) // 2)
        figure = plots.new_figure(figsize=(12, 4.5 * rows), layout="constrained")
        for number, top in enumerate(tops, 1):
            plots.horizon_map(top, ax=figure.add_subplot(rows, 2, number))
        save(figure, folder / "tops.png")
        pictures.append((folder / "tops.png", "Tops of the largest bodies."))
    return pictures
