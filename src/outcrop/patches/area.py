"""Which part of a volume is to be covered: ranges of the axes, horizons, live traces."""

import os

import numpy as np
import pandas as pd

from outcrop.patches.windows import patch_starts


def read_horizon(path):
    """Horizon from a text file of lines with inline, crossline, time (or depth); other lines are comments."""
    rows = []
    with open(os.fspath(path), encoding="utf-8", errors="replace") as handle:
        for line in handle:
            try:
                rows.append([float(word) for word in line.replace(",", " ").split()[:3]])
            except ValueError:
                continue
    rows = [row for row in rows if len(row) == 3]
    if not rows:
        raise ValueError(f"{path} holds no horizon; expected lines of three numbers: inline, crossline, time.")
    return pd.DataFrame(rows, columns=["inline", "crossline", "time"])


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


def horizon_grid(horizon, inlines, crosslines):
    """Times of a horizon on the traces of the volume, NaN where it was not picked."""
    grid = np.full((len(inlines), len(crosslines)), np.nan)
    rows = pd.Index(inlines).get_indexer(horizon["inline"])
    columns = pd.Index(crosslines).get_indexer(horizon["crossline"])
    known = (rows >= 0) & (columns >= 0)
    grid[rows[known], columns[known]] = horizon["time"].to_numpy()[known]
    return grid
