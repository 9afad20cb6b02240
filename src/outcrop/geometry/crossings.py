"""Find the lines along which faults and horizons cross an inline, a crossline or a time slice."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.geometry.surfaces import LINES, direction_of
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.axes import positions_of
from outcrop.volumes.neighbours import smallest_step

Place = tuple[dict[str, float], float, bool]  # point as axis name -> value, likelihood, whether the stick is accepted

JUMP = 16  # samples between adjacent traces; a larger jump of a top or base ends the line


class FaultTrace(NamedTuple):
    """A line along which a fault surface crosses a section.

    ``across`` and ``down`` are the positions of its points on the horizontal and the vertical axis of the section, in
    line numbers, ms or m. ``stick`` is the stick number if the line is a stick picked on this section; it is -1 if the
    line connects points of sticks picked on other sections. ``accepted`` is True if all its sticks are accepted.
    """

    surface: int
    stick: int
    across: np.ndarray
    down: np.ndarray
    likelihood: float
    accepted: bool


def shown_axes(direction: int, vertical: str) -> tuple[str, str]:
    """Return the names of the horizontal and vertical axis of a section.

    `direction` is 0 for an inline, 1 for a crossline and 2 for a time slice; `vertical` is ``time`` or ``depth``.

    Examples
    --------
    >>> shown_axes(0, "time"), shown_axes(2, "time")
    (('crossline', 'time'), ('crossline', 'inline'))
    """
    return (("crossline", vertical), ("inline", vertical), ("crossline", "inline"))[direction]


def fault_traces(sticks: pd.DataFrame, volume: xr.DataArray, direction: int, label: float) -> list[FaultTrace]:
    """Return the lines along which faults cross a section.

    Each stick picked on the section is one line. Sticks picked on other sections cross the section at points; two
    points of one fault surface are connected if their sticks are at most three lines apart.

    Parameters
    ----------
    sticks : DataFrame
        As `outcrop.fault_sticks` returns them.
    volume : DataArray
        The volume on which the sticks were picked; only its axes are used.
    direction : int
        Direction of the section: 0 inline, 1 crossline, 2 slice at one time or depth.
    label : float
        Inline number, crossline number, time or depth of the section.

    Returns
    -------
    list of FaultTrace
        A line has a single point if no other point of its fault surface is near enough.

    Examples
    --------
    >>> import pandas as pd, xarray as xr
    >>> volume = xr.DataArray(np.zeros((3, 9, 5)), {"inline": [1, 2, 3], "crossline": np.arange(9), "time": range(5)},
    ...                       ["inline", "crossline", "time"])
    >>> sticks = pd.DataFrame({"surface": 0, "stick": [0, 0, 1, 1], "inline": [1, 1, 2, 2], "crossline": [3, 5, 4, 6],
    ...                        "time": [0, 4, 0, 4], "likelihood": 0.5})
    >>> trace, = fault_traces(sticks, volume, 2, 2)
    >>> trace.across.tolist(), trace.down.tolist()
    ([4.0, 5.0], [1.0, 2.0])
    """
    across, down = shown_axes(direction, str(volume.dims[2]))
    found: list[FaultTrace] = []
    crossed: dict[tuple[int, int], list[Place]] = {}
    for number, points in sticks.groupby("stick"):
        along = direction_of(points)
        surface = int(points["surface"].iloc[0])
        likelihood, accepted = _mean(points, "likelihood", 1.0), bool(_mean(points, "accepted", 0.0))
        if along == direction:
            if abs(points[DIRECTIONS[along]].iloc[0] - label) < 1e-6:
                x, y = (points[name].to_numpy(float) for name in (across, down))
                found.append(FaultTrace(surface, int(number), x, y, likelihood, accepted))
            continue
        for place in _crossing(points, str(volume.dims[direction]), label):
            crossed.setdefault((surface, along), []).append((place, likelihood, accepted))
    for (surface, along), places in crossed.items():
        step = smallest_step(volume[DIRECTIONS[along]].values)
        found += _connected(places, surface, DIRECTIONS[along], step, across, down)
    return found


def _mean(points: pd.DataFrame, name: str, default: float) -> float:
    return float(points[name].mean()) if name in points else default


def _crossing(points: pd.DataFrame, name: str, label: float) -> Iterator[dict[str, float]]:
    """Yield each point at which a stick crosses a section, as a dict from axis name to value on that axis.

    The section is at the value `label` of the axis `name`.
    """
    names = [one for one in points.columns if one in (*DIRECTIONS, "time", "depth")]
    places = points[names].to_numpy(float)
    off = places[:, names.index(name)] - label
    for k in range(len(places) - 1):
        if off[k] * off[k + 1] < 0 or off[k] == 0:
            share = off[k] / (off[k] - off[k + 1]) if off[k] != off[k + 1] else 0.0
            yield dict(zip(names, places[k] + share * (places[k + 1] - places[k]), strict=True))
    if len(places) and off[-1] == 0:
        yield dict(zip(names, places[-1], strict=True))


def _connected(
    places: list[Place], surface: int, along: str, step: float, across: str, down: str
) -> Iterator[FaultTrace]:
    """Yield lines that connect the points at which the sticks of one fault surface cross a section.

    Points are connected in the order of the lines on which their sticks were picked, up to three lines apart.
    """
    places = sorted(places, key=lambda one: one[0][along])
    lines = np.array([place[along] for place, *_ in places])
    for run in np.split(np.arange(len(places)), np.flatnonzero(np.diff(lines) > (LINES + 0.5) * step) + 1):
        x, y = (np.array([places[k][0][name] for k in run]) for name in (across, down))
        likelihood = float(np.mean([places[k][1] for k in run]))
        yield FaultTrace(surface, -1, x, y, likelihood, all(places[k][2] for k in run))


def horizon_traces(
    surface: xr.DataArray, direction: int, label: float, *, interval: float = np.inf
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the lines along which a top or base crosses a section, each as (horizontal, vertical) positions.

    Positions are line numbers, ms or m. A line ends where the surface is missing, and where it jumps by more than 16
    samples between adjacent traces, as at an overhang.

    Parameters
    ----------
    surface : DataArray
        As `outcrop.surface` returns it.
    direction, label
        Direction and position of the section, as in `fault_traces`. On slices the lines are contours of the surface.
    interval : float
        Sample interval in the unit of the surface (ms or m). By default it is infinite, and jumps do not end lines.
    """
    surface = surface.transpose(*DIRECTIONS)
    if direction == 2:
        if min(surface.shape) < 2 or not np.isfinite(surface.values).any():
            return []
        from contourpy import contour_generator

        rows, columns = (surface[name].values.astype(float) for name in DIRECTIONS)
        contours = contour_generator(columns, rows, np.ma.masked_invalid(surface.values), line_type="Separate")
        return [(line[:, 0], line[:, 1]) for line in map(np.asarray, contours.lines(float(label)))]
    fixed, traces = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    at = int(positions_of(surface[fixed].values, label))
    if at < 0:
        return []
    depth, places = surface.isel({fixed: at}).values, surface[traces].values.astype(float)
    valid = np.flatnonzero(np.isfinite(depth))
    ends = (np.diff(valid) > 1) | (np.abs(np.diff(depth[valid])) > JUMP * interval)
    runs = np.split(valid, np.flatnonzero(ends) + 1)
    return [(places[run], depth[run]) for run in runs if len(run)]
