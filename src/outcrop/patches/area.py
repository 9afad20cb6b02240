"""Which part of a volume is to be covered: ranges of the axes, horizons, live traces."""

import os

import numpy as np
import pandas as pd

from outcrop.patches.windows import patch_starts

PLACES = ("inline", "crossline"), ("x", "y")  # what the columns of a horizon may give


def read_points(path: str | os.PathLike[str], vertical: str, unnamed: tuple[str, str]) -> pd.DataFrame:
    """Points of a horizon in a text file, one in each line, as numbers.

    Parameters
    ----------
    path : path
        Columns are separated by commas or spaces. A line that names them decides what they are: inline and crossline,
        or x and y, and the vertical axis. Lines before the first numbers and lines that begin with # or ! are comments.
    vertical : {"time", "depth"}
    unnamed : (str, str)
        Names of the first two of three columns where no line names them.

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
                    raise ValueError(f"{path} has columns {', '.join(names)[:100]}; give {', '.join(columns)}.")
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
        raise ValueError(f"{path} holds no horizon; give lines of {', '.join(points.columns)}.")
    return points


def area_positions(volume, limits):
    """Positions inside the area of interest, axis by axis."""
    for name in limits:
        if name not in volume.dims:
            raise ValueError(f"The area of interest names {name!r}; the volume has {', '.join(volume.dims)}.")
    return [_inside(volume[name].values, limits.get(name, (-np.inf, np.inf)), name) for name in volume.dims]


def _inside(axis, limits, name):
    """Positions of an axis between two labels."""
    low, high = sorted(limits)
    inside = np.flatnonzero((axis >= low) & (axis <= high))
    if not len(inside):
        raise ValueError(f"No {name} lies from {low:g} to {high:g}; the volume has {axis[0]:g} to {axis[-1]:g}.")
    return inside


def nearest_position(axis, value, name):
    """Position on an axis of the label nearest to a value, which must not lie beyond the ends."""
    step = abs(axis[1] - axis[0]) if len(axis) > 1 else 1
    at = int(np.argmin(np.abs(axis - value)))
    if not np.isfinite(value) or abs(axis[at] - value) > step / 2:
        raise ValueError(f"{name} {value:g} is outside the volume, which has {axis[0]:g} to {axis[-1]:g}.")
    return at


def fitting_starts(alive, width, step):
    """Starts of patches that touch live traces only, run by run, and how many places an unbroken line would have."""
    asked = len(patch_starts(len(alive), width, step))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], alive.astype(np.int8), [0]])))
    runs = [(a, b) for a, b in edges.reshape(-1, 2) if b - a >= width]
    starts = [a + np.array(patch_starts(b - a, width, step)) for a, b in runs]
    return (np.concatenate(starts) if starts else np.empty(0, int)), max(asked, sum(map(len, starts)))


def horizon_grid(
    path: str | os.PathLike[str], vertical: str, inlines: np.ndarray, crosslines: np.ndarray
) -> np.ndarray:
    """Times (or depths) of the horizon in a file on the traces of the volume, NaN where it was not picked."""
    horizon = read_points(path, vertical, PLACES[0])
    if "inline" not in horizon:
        raise ValueError(f"{path} has columns {', '.join(horizon.columns)}; give inline, crossline and {vertical}.")
    grid = np.full((len(inlines), len(crosslines)), np.nan)
    rows = pd.Index(inlines).get_indexer(pd.Index(horizon["inline"]))
    columns = pd.Index(crosslines).get_indexer(pd.Index(horizon["crossline"]))
    known = (rows >= 0) & (columns >= 0)
    grid[rows[known], columns[known]] = horizon[vertical].to_numpy()[known]
    return grid
