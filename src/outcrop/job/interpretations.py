"""Fault sticks and horizons of other programs as exemplars, strokes or truth of a job."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.geometry.bodies import MIN_SAMPLES, find_bodies
from outcrop.geometry.horizons import horizon_misfit, polylines, read_horizon
from outcrop.geometry.sticks import FORMATS, read_sticks, stick_scores
from outcrop.geometry.surfaces import direction_of
from outcrop.job.faults import accept_sticks, fault_class, sticks_of_class
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.axes import nearest_label

if TYPE_CHECKING:
    from outcrop.job.core import Job

STICKS = tuple(suffix for suffixes in FORMATS.values() for suffix in suffixes if suffix != ".csv")
HORIZONS = (".poi", ".irap", ".xyz")
EXEMPLARS = 5  # maximum number from one file
SECTIONS = 50  # maximum number with a stroke along a horizon
RADIUS = 2.0  # samples, of strokes along a horizon


def is_interpretation(path: str | Path) -> bool:
    """Return whether the suffix of a file belongs to a format of fault sticks or horizons.

    Examples
    --------
    >>> is_interpretation("sticks.charisma"), is_interpretation("top.poi"), is_interpretation("truth.sgy")
    (True, True, False)
    """
    return Path(path).suffix.lower() in (*STICKS, *HORIZONS, ".csv")


def read_interpretation(path: str | Path, volume: xr.DataArray) -> tuple[str, pd.DataFrame]:
    """Return the kind of a file, ``sticks`` or ``horizon``, and its table; see `read_sticks` and `read_horizon`."""
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        with open(path, encoding="utf-8", errors="replace") as file:
            names = [name.strip().strip('"').lower() for name in file.readline().split(",")]
        suffix = STICKS[0] if "stick" in names else HORIZONS[0]
    if suffix in STICKS:
        return "sticks", read_sticks(path, volume)
    if suffix in HORIZONS:
        return "horizon", read_horizon(path, volume)
    known = ", ".join((".csv", *STICKS, *HORIZONS))
    raise ValueError(f"{path} is not a file of sticks or of a horizon; its name must end with one of {known}.")


def import_strokes(job: "Job", path: str | Path, name: str) -> int:
    """Import fault sticks as accepted sticks of a class, or a horizon as strokes of it; return their number."""
    kind, table = read_interpretation(path, job.volume)
    if kind == "sticks":
        return accept_sticks(job, table, name)
    along = DIRECTIONS[job.plan.along]
    lines = np.unique(table[along])
    chosen = lines[np.unique(np.linspace(0, len(lines) - 1, SECTIONS).astype(int))]
    strokes = polylines(table, along, lines=chosen.tolist())
    with job.log.act():
        for points in strokes:
            job.paint(name, points, RADIUS, along)
    return len(strokes)


def import_exemplars(job: "Job", path: str | Path, name: str, *, count: int = EXEMPLARS) -> list[list[float]]:
    """Place exemplars of a class on the longest fault sticks in a file, or along the horizon in it, as one act.

    Parameters
    ----------
    count : int
        Maximum number of exemplars; places without room for a patch are skipped.

    Returns
    -------
    list of (inline, crossline, time)
        Places of the exemplars: middles of sticks, or points of a horizon that are far apart.
    """
    kind, table = read_interpretation(path, job.volume)
    grid, found = job._grid(job.plan), []
    with job.log.act():
        for point in _stick_middles(job, table) if kind == "sticks" else _spread(table, count):
            place = [nearest_label(axis, value) for axis, value in zip(job.axes, point, strict=True)]
            try:
                grid.start_at(place)
            except ValueError:  # too near the edge of the volume
                continue
            job.add_exemplar(name, place)
            found.append(place)
            if len(found) == count:
                break
    if not found:
        size = " x ".join(map(str, grid.size))
        raise ValueError(f"No place of {path} has room for a patch of {size}; choose a smaller patch size.")
    return found


def _stick_middles(job: "Job", sticks: pd.DataFrame) -> list[list[float]]:
    """Return the middle (inline, crossline, time) of each stick on the lines of the job, the longest stick first."""
    vertical, ordered = job.volume.dims[2], []
    for _, points in sticks.groupby("stick"):
        if direction_of(points) == job.plan.along:
            points = points.sort_values(vertical)
            middle = (points[vertical].min() + points[vertical].max()) / 2
            place = [float(np.interp(middle, points[vertical], points[one])) for one in DIRECTIONS]
            ordered.append((np.ptp(points[vertical]), [*place, middle]))
    return [place for _, place in sorted(ordered, key=lambda one: -one[0])]


def _spread(horizon: pd.DataFrame, count: int) -> Iterator[list[float]]:
    """Yield points of a horizon: first `count` evenly spaced rows of its table, then all other rows in random order."""
    places = horizon[[*DIRECTIONS, horizon.columns[-1]]].to_numpy(float)
    order = np.linspace(0, len(places) - 1, 2 * count + 1).astype(int)[1::2]
    others = np.random.default_rng(0).permutation(len(places))
    for row in dict.fromkeys([*order.tolist(), *others.tolist()]):
        yield places[row].tolist()


def score_interpretation(
    job: "Job", path: str | Path, name: str | None = None, *, lines: Sequence[float] | None = None
) -> dict[str, Any]:
    """Score the fault sticks or the top of a geobody of a job against an interpreter's sticks or horizon.

    Parameters
    ----------
    path : path
    name : str, optional
        The class; for sticks by default the class of faults. A horizon is compared with the top of the largest body of
        this class.
    lines : sequence of int, optional
        Line numbers; by default all labelled lines.

    Returns
    -------
    dict
        Scores of `stick_scores` or `horizon_misfit`, and ``class``, the name of the class.
    """
    kind, table = read_interpretation(path, job.volume)
    along = DIRECTIONS[job.plan.along]
    done = job.axes[job.plan.along][sorted(job.labelled)]
    chosen = done if lines is None else np.intersect1d(done, lines)
    if kind == "horizon" and name is None:
        raise ValueError(f"{path} is a horizon; name the class whose top it is with --class.")
    name = fault_class(job, name)
    if kind == "sticks":
        mine = pd.Series({stick: direction_of(points) == job.plan.along for stick, points in table.groupby("stick")})
        table = table[table["stick"].map(mine)]
    table = table[table[along].isin(chosen)]
    if not len(table):
        raise ValueError(f"{path} has no points on labelled {along}s; label a line that it covers.")
    if kind == "sticks":
        found = sticks_of_class(job, name, lines=np.unique(table[along]).tolist())
        return {"class": name, **stick_scores(found, table, job.volume)}
    bodies = find_bodies(job.labels, name, min_samples=MIN_SAMPLES, along=along)
    if (name, 1) not in bodies.outlines:
        raise ValueError(f"No body of {name} has {MIN_SAMPLES} samples or more; label more lines.")
    return {"class": name, **horizon_misfit(bodies.surface(name), table)}
