"""Horizons out and in: IRAP classic points and csv, with X and Y from the trace headers.

IRAP classic points are lines of X, Y and Z, Z downwards; in files of several lines ``999 999 999`` ends each. A csv has
a line of names: inline, crossline, x, y, and time or depth.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from xarray import DataArray

from outcrop.geometry.coordinates import BINS, NUMBERS, map_grid, positions_on, trace_coordinates
from outcrop.patches.area import read_points
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file
from outcrop.volumes.neighbours import smallest_step
from outcrop.words import counted

END = 999.0  # three of them end a line in IRAP classic files
MOST_BYTES = 1 << 31  # of a horizon file; one of 20 million points is smaller


def horizon_table(surface: DataArray, volume: DataArray | None = None) -> pd.DataFrame:
    """Points of a surface: inline, crossline, x, y, and time or depth.

    Parameters
    ----------
    surface : DataArray
        Time or depth on inline and crossline, NaN on traces without the surface, as `outcrop.surface` returns it.
    volume : DataArray, optional
        Gives x and y, see `trace_coordinates`; without it the table has none.
    """
    surface = surface.transpose(*DIRECTIONS)
    rows, columns = np.nonzero(np.isfinite(surface.values))
    table = {"inline": surface["inline"].values[rows], "crossline": surface["crossline"].values[columns]}
    if volume is not None:
        table["x"], table["y"] = trace_coordinates(volume, table["inline"], table["crossline"])
    return pd.DataFrame(table | {str(surface.name or "time"): surface.values[rows, columns]})


def write_horizon(path: str | Path, table: pd.DataFrame) -> None:
    """Write points of `horizon_table`: as csv where the name ends in .csv, else as IRAP classic points.

    Points without X and Y are left out of IRAP files.
    """
    with whole_file(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            table.to_csv(aside, index=False, float_format="%.10g")
            return
        if not {"x", "y"} <= set(table.columns):
            raise ValueError(f"{path} needs X and Y, which these points do not have; write csv.")
        points = table[["x", "y", table.columns[-1]]].to_numpy(np.float64)
        np.savetxt(aside, points[np.isfinite(points).all(axis=1)], fmt=("%.2f", "%.2f", "%.4f"))


def read_horizon(path: str | Path, volume: DataArray) -> pd.DataFrame:
    """Points of a horizon file on the traces of a survey.

    Parameters
    ----------
    path : path
        A csv with inline and crossline, or x and y, and time or depth; or IRAP classic points, X, Y and Z.
    volume : DataArray
        The survey. X and Y are placed on its nearest traces, by its trace headers.

    Returns
    -------
    DataFrame
        ``inline``, ``crossline`` and ``time`` or ``depth``, one row a trace: the shallowest point where several lie on
        it. Points outside the survey are left out; ``attrs["outside"]`` says how many. Where all Z are negative, as
        programs write them that count upwards, the sign is turned.

    Raises
    ------
    ValueError
        The file is not such a file, or none of its points lies in the survey.
    """
    if Path(path).stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 30} GB, too large for a horizon; give one horizon.")
    domain = str(volume.dims[2])
    table = read_points(path, domain, ("x", "y"))
    table = table[~(table == END).all(axis=1)]
    if not set(DIRECTIONS) <= set(table.columns):
        table = table.assign(**_nearest_traces(volume, table, path))
    depth, samples = table[domain].to_numpy(), volume[domain].values
    if (depth <= 0).all() and samples.min() >= 0:
        depth = -depth
    inside = np.isfinite(depth) & (depth >= samples.min()) & (depth <= samples.max())
    for name in DIRECTIONS:
        inside &= np.isin(table[name].to_numpy(), volume[name].values)
    if not inside.any():
        spans = ", ".join(
            f"{name} {volume[name].values.min():g} to {volume[name].values.max():g}" for name in volume.dims
        )
        raise ValueError(
            f"None of {counted(len(table), 'points')} of {path} lies in the survey ({spans}); is it of another one?"
        )
    found = pd.DataFrame({name: table[name][inside].astype(volume[name].dtype) for name in DIRECTIONS})
    found = found.assign(**{domain: depth[inside]}).groupby(list(DIRECTIONS), as_index=False).min()
    found.attrs = {"outside": int((~inside).sum()), "source": str(path)}
    return found


def _nearest_traces(volume: DataArray, table: pd.DataFrame, path: str | Path) -> dict[Any, Any]:
    """Inline and crossline of the trace nearest to each point by X and Y, NaN outside the survey."""
    grid = map_grid(volume)
    if grid.source in (NUMBERS, BINS):
        raise ValueError(
            f"{path} has X and Y, but those of the survey are not known or make no grid; give a csv with inline and "
            "crossline."
        )
    found = {}
    for name, labels in zip(DIRECTIONS, grid.to_lines(table["x"], table["y"]), strict=True):
        axis = volume[name].values
        nearest = pd.Series(np.rint(positions_on(axis, labels)))
        found[name] = nearest.map(dict(enumerate(axis.tolist()))).to_numpy(float)
    return found


def horizon_misfit(surface: DataArray, horizon: pd.DataFrame) -> dict[str, float]:
    """How far a surface lies from a horizon, over the traces that both have.

    Parameters
    ----------
    surface : DataArray
        As `outcrop.surface` gives it.
    horizon : DataFrame
        As `read_horizon` gives it: the truth.

    Returns
    -------
    dict
        ``traces`` that both have, ``found``, their share of the horizon's, and of the differences, in ms or m and
        positive where the surface lies deeper: ``mean``, ``median_absolute``, ``rms`` and ``p95``.
    """
    name = surface.name
    both = horizon_table(surface).merge(horizon, on=list(DIRECTIONS), suffixes=("", "_true"))
    off = (both[name] - both[f"{name}_true"]).to_numpy()
    size = {"traces": len(both), "found": len(both) / len(horizon)}
    if not len(both):
        return size | dict.fromkeys(("mean", "median_absolute", "rms", "p95"), float("nan"))
    far = np.abs(off)
    numbers = (off.mean(), np.median(far), np.sqrt(np.mean(off**2)), np.quantile(far, 0.95))
    return size | dict(zip(("mean", "median_absolute", "rms", "p95"), map(float, numbers), strict=True))


def polylines(
    horizon: pd.DataFrame, along: str = "inline", *, lines: Sequence[float] | None = None, gap: float = 5
) -> list[list[tuple[float, ...]]]:
    """A horizon as lines of points, section by section, as `Job.paint` takes them.

    Parameters
    ----------
    horizon : DataFrame
        As `read_horizon` gives it.
    along : {"inline", "crossline"}
    lines : sequence of int, optional
        Survey labels of the sections; all of them by default.
    gap : float
        Traces; a longer gap ends a line.

    Returns
    -------
    list of list of (inline, crossline, time)

    Examples
    --------
    >>> horizon = pd.DataFrame({"inline": 7, "crossline": [1, 2, 40, 41], "time": [8.0, 9.0, 5.0, 4.0]})
    >>> [len(points) for points in polylines(horizon)]
    [2, 2]
    """
    across = DIRECTIONS[1 - DIRECTIONS.index(along)]
    longest = gap * smallest_step(horizon[across].unique())
    found = []
    for line, points in horizon.sort_values([along, across]).groupby(along):
        if lines is None or line in lines:
            cuts = np.flatnonzero(np.diff(points[across]) > longest) + 1
            values = points[[*DIRECTIONS, points.columns[-1]]].to_numpy(np.float64)
            found += [[tuple(point) for point in part.tolist()] for part in np.split(values, cuts)]
    return found
