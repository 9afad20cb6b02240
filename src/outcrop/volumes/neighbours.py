"""Distances between the lines of a survey in metres; lines up to 250 m apart are neighbours in the whole package."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

NEAR = 252.0  # m from a line to its farthest neighbours: ten lines of 25 m, and 2 m for rounded coordinates
USUAL = 25.0  # m for the smallest step of line numbers, if the volume has no bin size
CLOSEST = 1.0  # m per line number; a smaller distance means that single lines were selected from a survey


def smallest_step(labels: npt.ArrayLike) -> float:
    """Return the smallest difference between successive line numbers; 1 for a single line.

    Examples
    --------
    >>> smallest_step([100, 104, 106]), smallest_step([7])
    (2.0, 1.0)
    """
    labels = np.sort(np.asarray(labels, np.float64))
    return float(np.diff(labels).min()) if len(labels) > 1 else 1.0


def line_steps(volume: xr.DataArray | xr.Dataset) -> tuple[float, float]:
    """Return (step of the inline numbers, step of the crossline numbers) of a survey; 0 for an axis of one line.

    `open_volume` stores these steps as the attribute ``line_step``, so a selection of lines keeps the survey's steps.
    """
    stored: Any = volume.attrs.get("line_step")
    if stored is None:
        spaced = [volume[name].values if volume.sizes[name] > 1 else [0, 0] for name in ("inline", "crossline")]
        stored = map(smallest_step, spaced)
    inline, crossline = map(float, stored)
    return inline, crossline


def spacing_attrs(volume: xr.DataArray | xr.Dataset) -> dict[str, list[float]]:
    """Return a dict with bin size (if known) and line steps of a volume: attributes that its labels get, too.

    `line_distances` needs them.
    """
    sizes = {"bin_size": list(volume.attrs["bin_size"])} if "bin_size" in volume.attrs else {}
    return sizes | {"line_step": list(line_steps(volume))}


def metres_per_number(volume: xr.DataArray | xr.Dataset, name: str) -> float:
    """Return the distance in metres between two lines whose numbers differ by 1; `name` is inline or crossline."""
    sizes: Any = volume.attrs.get("bin_size")
    steps = line_steps(volume)
    metres = np.nan if sizes is None else float(sizes[name == "crossline"]) / (steps[name == "crossline"] or 1.0)
    return metres if metres >= CLOSEST else USUAL / min(filter(None, steps), default=1.0)


def line_spacing(volume: xr.DataArray | xr.Dataset) -> tuple[float, float] | None:
    """Return the distance in metres from one inline to the next and from one crossline to the next; None if not known.

    Examples
    --------
    >>> axes = {"inline": range(100, 120), "crossline": [7, 8]}
    >>> volume = xr.DataArray(np.zeros((20, 2)), axes, attrs={"bin_size": (20.0, 12.5), "line_step": (1.0, 1.0)})
    >>> line_spacing(volume[::5])
    (100.0, 12.5)
    """
    sizes: Any = volume.attrs.get("bin_size")
    if sizes is None:
        return None
    steps = zip(("inline", "crossline"), line_steps(volume), strict=True)
    apart = [
        smallest_step(volume[name].values) / step if step and volume.sizes[name] > 1 else 1 for name, step in steps
    ]
    return float(sizes[0]) * apart[0], float(sizes[1]) * apart[1]


def line_distances(volume: xr.DataArray | xr.Dataset, name: str) -> npt.NDArray[np.float64]:
    """Return the distance in metres of every inline or crossline from the first one.

    Parameters
    ----------
    volume : DataArray or Dataset
        It has the axes inline and crossline and, if known, the attributes ``bin_size`` (metres between neighbouring
        inlines and between neighbouring crosslines of the survey) and ``line_step`` (see `line_steps`). Without a bin
        size, the smallest step of line numbers in both directions counts as 25 m.
    name : {"inline", "crossline"}

    Examples
    --------
    >>> axes = {"inline": [100, 102, 110], "crossline": [7, 8]}
    >>> line_distances(xr.DataArray(np.zeros((3, 2)), axes, attrs={"bin_size": (20.0, 12.5)}), "inline")
    array([  0.,  20., 100.])
    >>> line_distances(xr.DataArray(np.zeros((3, 2)), axes), "inline")
    array([  0.,  50., 250.])
    """
    labels = np.asarray(volume[name].values, np.float64)
    distances: npt.NDArray[np.float64] = np.abs(labels - labels[0]) * metres_per_number(volume, name)
    return distances.round(3)  # in whole millimetres, so that distances equal to a limit compare exactly


def lines_within(volume: xr.DataArray | xr.Dataset, name: str) -> int:
    """Return how many lines fit into 250 m, at the smallest distance between successive lines of the volume.

    Examples
    --------
    >>> axes = {"inline": [100, 102, 110], "crossline": [7, 8]}
    >>> lines_within(xr.DataArray(np.zeros((3, 2)), axes, attrs={"bin_size": (50.0, 25.0)}), "inline")
    5
    """
    apart = np.abs(np.diff(line_distances(volume, name)))
    return int(NEAR // apart.min()) if len(apart) else 0


def neighbour_groups(volume: xr.DataArray | xr.Dataset, name: str) -> npt.NDArray[np.intp]:
    """Return the group number of every inline or crossline, from 0 along the axis.

    A new group begins at every line that is more than 250 m from the previous one; see `line_distances`. Data of
    different groups must not be joined, averaged or interpolated.

    Examples
    --------
    >>> axes = {"inline": [100, 102, 104, 200, 202], "crossline": [7, 8]}
    >>> neighbour_groups(xr.DataArray(np.zeros((5, 2)), axes, attrs={"bin_size": (25.0, 25.0)}), "inline")
    array([0, 0, 0, 1, 1])
    """
    apart = np.abs(np.diff(line_distances(volume, name)))
    return np.cumsum(np.concatenate([[False], apart > NEAR])).astype(np.intp)
