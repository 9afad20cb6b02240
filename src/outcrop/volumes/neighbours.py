"""Which lines of a survey are neighbours: one definition for the whole package, in metres."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

NEAR = 250.0  # m from a line to the next one up to which they are neighbours: ten lines of an ordinary survey
USUAL = 25.0  # m for the smallest spacing of line numbers, where the volume has no bin size
CLOSEST = 1.0  # m for one line number; a smaller figure means that single lines were selected from a survey


def smallest_step(labels: npt.ArrayLike) -> float:
    """Smallest spacing of line numbers; 1 for a single line.

    Examples
    --------
    >>> smallest_step([100, 104, 106]), smallest_step([7])
    (2.0, 1.0)
    """
    labels = np.sort(np.asarray(labels, np.float64))
    return float(np.diff(labels).min()) if len(labels) > 1 else 1.0


def line_distances(volume: xr.DataArray | xr.Dataset, name: str) -> npt.NDArray[np.float64]:
    """Distance in metres of every inline or crossline from the first one.

    Parameters
    ----------
    volume : DataArray or Dataset
        Has the axes inline and crossline and, where it is known, the attribute ``bin_size``: metres between
        neighbouring inlines and between neighbouring crosslines. Without it, the smallest spacing of the line numbers
        of both directions counts as 25 m.
    name : {"inline", "crossline"}

    Examples
    --------
    >>> axes = {"inline": [100, 102, 110], "crossline": [7, 8]}
    >>> line_distances(xr.DataArray(np.zeros((3, 2)), axes, attrs={"bin_size": (20.0, 12.5)}), "inline")
    array([  0.,  20., 100.])
    >>> line_distances(xr.DataArray(np.zeros((3, 2)), axes), "inline")
    array([  0.,  50., 250.])
    """
    sizes: Any = volume.attrs.get("bin_size")
    labels = np.asarray(volume[name].values, np.float64)
    metres = np.nan if sizes is None else sizes[name == "crossline"] / smallest_step(labels)
    if not metres >= CLOSEST:
        spaced = [volume[axis].values for axis in ("inline", "crossline") if volume.sizes[axis] > 1]
        metres = USUAL / min(map(smallest_step, spaced), default=1.0)
    distances: npt.NDArray[np.float64] = np.abs(labels - labels[0]) * metres
    return distances


def neighbour_groups(volume: xr.DataArray | xr.Dataset, name: str) -> npt.NDArray[np.intp]:
    """Number of the group of neighbours to which every inline or crossline belongs, counted from 0 along the axis.

    Lines are neighbours up to 250 m from one to the next; see `line_distances`. Nothing may be joined, averaged or
    interpolated between lines of different groups.

    Examples
    --------
    >>> axes = {"inline": [100, 102, 104, 200, 202], "crossline": [7, 8]}
    >>> neighbour_groups(xr.DataArray(np.zeros((5, 2)), axes, attrs={"bin_size": (25.0, 25.0)}), "inline")
    array([0, 0, 0, 1, 1])
    """
    apart = np.abs(np.diff(line_distances(volume, name)))
    return np.cumsum(np.concatenate([[False], apart > NEAR])).astype(np.intp)
