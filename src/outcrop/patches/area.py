"""Restrict patches to ranges of the axes of a volume, to the interval between two horizons, and to live traces."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from outcrop.patches.windows import patch_starts, runs_of
from outcrop.volumes.axes import positions_of

Array = npt.NDArray[Any]

PLACES = ("inline", "crossline"), ("x", "y")  # names of columns that locate a point of a horizon


def read_points(path: str | os.PathLike[str], vertical: str, unnamed: tuple[str, str]) -> pd.DataFrame:
    """Read the points of a horizon from a text file with one point per line.

    Parameters
    ----------
    path : path
        Columns are separated by commas or spaces. A header line may name the columns: inline and crossline (or x and
        y), and time or depth. Other lines before the first numbers, and lines that begin with # or !, are comments.
    vertical : {"time", "depth"}
        Name of the vertical axis.
    unnamed : (str, str)
        Names of the first two columns in a file without a header line; the third is the vertical axis.

    Returns
    -------
    DataFrame
        Columns inline and crossline, or x and y, or `unnamed`; and time or depth. All values are finite.
    """
    columns: list[str] = []
    rows: list[list[float]] = []
    at = [0, 1, 2]
    with open(os.fspath(path), encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = [word.strip().strip('"') for word in (line.split(",") if "," in line else line.split())]
            if not rows and not columns:
                names = [word.lower() for word in words if word != "#"]
                columns = next(([*pair, vertical] for pair in PLACES if set(pair) <= set(names)), [])
                if columns and vertical not in names:
                    raise ValueError(f"{path} has columns {', '.join(names)[:100]}; it needs {', '.join(columns)}.")
                at = [names.index(name) for name in columns] or at
            try:
                rows.append([float(words[i] or "nan") for i in at])
            except (ValueError, IndexError):
                if rows and words and not words[0].startswith(("#", "!")):
                    text = " ".join(line.split())[:60]
                    wanted = ", ".join(columns or [*unnamed, vertical])
                    raise ValueError(f"Line {number} of {path} is {text!r}; give numbers: {wanted}.") from None
    points = pd.DataFrame(rows, columns=columns or [*unnamed, vertical], dtype=np.float64)
    points = points[np.isfinite(points).all(axis=1)].reset_index(drop=True)
    if not len(points):
        raise ValueError(f"{path} holds no point of a horizon; give lines with {', '.join(points.columns)}.")
    return points


def area_positions(volume: xr.DataArray, limits: Mapping[str, tuple[float, float]]) -> list[Array]:
    """Return, for each axis of a volume, the positions inside the area of interest.

    Parameters
    ----------
    volume : DataArray
    limits : dict
        Name of an axis -> smallest and largest coordinate of the area; an axis without limits is used completely.
    """
    for name in limits:
        if name not in volume.dims:
            raise ValueError(
                f"The area of interest names {name!r}, which is not an axis of the volume; choose among "
                f"{', '.join(map(str, volume.dims))}."
            )
    found = []
    for name in map(str, volume.dims):
        axis, (low, high) = volume[name].values, sorted(limits.get(name, (-np.inf, np.inf)))
        found.append(np.flatnonzero((axis >= low) & (axis <= high)))
        if not len(found[-1]):
            raise ValueError(f"No {name} lies from {low:g} to {high:g}; the volume has {axis[0]:g} to {axis[-1]:g}.")
    return found


def fitting_starts(alive: Array, width: int, step: int) -> tuple[Array, int]:
    """Find all patches on a line that contain only live traces; also count the patches of a line without gaps.

    Parameters
    ----------
    alive : bool array, shape (n_traces,)
        Which traces are live.
    width, step : int
        Width of a patch, and distance from one patch to the next, in traces.

    Returns
    -------
    starts : array of int
        First trace of each patch.
    asked : int
        Number of patches that the line would have if no trace were missing; at least the number of `starts`.
    """
    asked = len(patch_starts(len(alive), width, step))
    starts = [a + np.array(patch_starts(b - a, width, step)) for a, b in runs_of(alive) if b - a >= width]
    return (np.concatenate(starts) if starts else np.empty(0, int)), max(asked, sum(map(len, starts)))


def horizon_grid(path: str | os.PathLike[str], vertical: str, inlines: Array, crosslines: Array) -> Array:
    """Read a horizon file as times (or depths), shape (n_inlines, n_crosslines); NaN on traces without a pick."""
    horizon = read_points(path, vertical, PLACES[0])
    if "inline" not in horizon:
        raise ValueError(f"{path} has columns {', '.join(horizon.columns)}; it needs inline, crossline and {vertical}.")
    grid = np.full((len(inlines), len(crosslines)), np.nan)
    rows, columns = positions_of(inlines, horizon["inline"]), positions_of(crosslines, horizon["crossline"])
    known = (rows >= 0) & (columns >= 0)
    grid[rows[known], columns[known]] = horizon[vertical].to_numpy()[known]
    return grid
