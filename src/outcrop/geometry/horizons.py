"""Read and write horizons as csv or IRAP classic points, with X and Y from the trace headers.

A file of IRAP classic points holds X, Y and Z in each row, with Z positive downwards; ``999 999 999`` may end a line of
points. The first row of a csv names its columns: inline, crossline, x, y, and time or depth.
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

END = 999.0  # three of this number end a line of points in IRAP classic files
MOST_BYTES = 1 << 31  # largest horizon file; 20 million points need less


def horizon_table(surface: DataArray, volume: DataArray | None = None) -> pd.DataFrame:
    """Return the points of a surface as a table of inline, crossline, x, y, and time or depth.

    Parameters
    ----------
    surface : DataArray
        Time or depth on inline and crossline, NaN on traces without the surface, as `outcrop.surface` returns it.
    volume : DataArray, optional
        The volume of the surface, which gives x and y (see `trace_coordinates`); by default the table has no x and y.
    """
    surface = surface.transpose(*DIRECTIONS)
    rows, columns = np.nonzero(np.isfinite(surface.values))
    table = {"inline": surface["inline"].values[rows], "crossline": surface["crossline"].values[columns]}
    if volume is not None:
        table["x"], table["y"] = trace_coordinates(volume, table["inline"], table["crossline"])
    return pd.DataFrame(table | {str(surface.name or "time"): surface.values[rows, columns]})


def write_horizon(path: str | Path, table: pd.DataFrame) -> None:
    """Write the table of `horizon_table` as csv if the file name ends in .csv, else as IRAP classic points.

    IRAP files leave out points without X and Y.
    """
    with whole_file(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            table.to_csv(aside, index=False, float_format="%.10g")
            return
        if not {"x", "y"} <= set(table.columns):
            raise ValueError(f"{path} needs X and Y, but these points have none; write a file whose name ends in .csv.")
        points = table[["x", "y", table.columns[-1]]].to_numpy(np.float64)
        np.savetxt(aside, points[np.isfinite(points).all(axis=1)], fmt=("%.2f", "%.2f", "%.4f"))


def read_horizon(path: str | Path, volume: DataArray) -> pd.DataFrame:
    """Read a horizon file, and return its points on the traces of a survey.

    Parameters
    ----------
    path : path
        A csv with inline and crossline, or x and y, and time or depth; or IRAP classic points, X, Y and Z.
    volume : DataArray
        The survey. Points with X and Y are moved to the nearest trace, by the X and Y in the trace headers of the
        survey.

    Returns
    -------
    DataFrame
        ``inline``, ``crossline`` and ``time`` or ``depth``, one row for each trace with the shallowest point on this
        trace. Points outside the survey are left out; ``attrs["outside"]`` is their number. If all Z are negative,
        because the other program counts upwards, their sign is reversed.

    Raises
    ------
    ValueError
        The file has another format, or none of its points lies in the survey.
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
            f"None of {counted(len(table), 'points')} of {path} lies in the survey ({spans}); give a horizon of this "
            "survey."
        )
    found = pd.DataFrame({name: table[name][inside].astype(volume[name].dtype) for name in DIRECTIONS})
    found = found.assign(**{domain: depth[inside]}).groupby(list(DIRECTIONS), as_index=False).min()
    found.attrs = {"outside": int((~inside).sum()), "source": str(path)}
    return found


def _nearest_traces(volume: DataArray, table: pd.DataFrame, path: str | Path) -> dict[Any, Any]:
    """Return a dict: ``inline`` or ``crossline`` -> numbers of the traces nearest to the points of a table.

    The points have X and Y. The numbers are NaN for points outside the survey.
    """
    grid = map_grid(volume)
    if grid.source in (NUMBERS, BINS):
        raise ValueError(
            f"{path} has X and Y, but the coordinates of the survey are unknown or form no grid; "
            "give a csv with inline and crossline."
        )
    found = {}
    for name, labels in zip(DIRECTIONS, grid.to_lines(table["x"], table["y"]), strict=True):
        axis = volume[name].values
        nearest = pd.Series(np.rint(positions_on(axis, labels)))
        found[name] = nearest.map(dict(enumerate(axis.tolist()))).to_numpy(float)
    return found


def horizon_misfit(surface: DataArray, horizon: pd.DataFrame) -> dict[str, float]:
    """Return statistics of the difference between a surface and a true horizon, over the traces on which both exist.

    Parameters
    ----------
    surface : DataArray
        As `outcrop.surface` returns it.
    horizon : DataFrame
        The true horizon, as `read_horizon` returns it.

    Returns
    -------
    dict
        ``traces``, the number of traces on which both exist; ``found``, this number divided by the number of traces of
        the true horizon; and statistics of the differences in ms or m, positive where the surface is deeper: ``mean``,
        ``median_absolute``, ``rms`` and ``p95`` (95 % quantile of the absolute differences).
    """
    name = surface.name
    both = horizon_table(surface).merge(horizon, on=list(DIRECTIONS), suffixes=("", "_true"))
    difference = (both[name] - both[f"{name}_true"]).to_numpy()
    size = {"traces": len(both), "found": len(both) / len(horizon)}
    if not len(both):
        return size | dict.fromkeys(("mean", "median_absolute", "rms", "p95"), float("nan"))
    distance = np.abs(difference)
    numbers = (difference.mean(), np.median(distance), np.sqrt(np.mean(difference**2)), np.quantile(distance, 0.95))
    return size | dict(zip(("mean", "median_absolute", "rms", "p95"), map(float, numbers), strict=True))


def polylines(
    horizon: pd.DataFrame, along: str = "inline", *, lines: Sequence[float] | None = None, gap: float = 5
) -> list[list[tuple[float, ...]]]:
    """Return a horizon as polylines on sections, in the form that `Job.paint` accepts.

    Parameters
    ----------
    horizon : DataFrame
        As `read_horizon` returns it.
    along : {"inline", "crossline"}
        Direction of the sections.
    lines : sequence of int, optional
        Numbers of the lines; by default all.
    gap : float
        Largest number of traces between two neighbouring points of a polyline; a longer gap starts a new polyline.

    Returns
    -------
    list of list of (inline, crossline, time)
        The points of each polyline, with depth instead of time if the horizon is in depth.

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
