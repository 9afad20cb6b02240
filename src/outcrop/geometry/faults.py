"""Pick fault sticks: thin the likelihood of a fault at every sample to ridges, and link the ridges into polylines.

The likelihood combines predictions of the pretrained encoder with the discontinuity of neighbouring traces along the
layers (one minus dip-steered semblance), which has a smaller weight. The encoder is applied to the section at its own
size, and to the section stretched 1.5 times vertically and 3 times horizontally, which makes steep faults less steep.
A scan over fault dips then averages the likelihood along straight pieces of a fault [Hale2013]_. The maxima of the
average across traces are linked downwards and upwards, over short gaps.

.. [Hale2013] Hale, D., 2013, Methods to compute fault images, extract fault surfaces, and estimate fault throws from 3D
   seismic images: Geophysics 78(2), O33-O43.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter1d
from xarray import DataArray

from outcrop.arrays import device_list
from outcrop.geometry.likelihood import NEIGHBOURS, alike, along_strike, likelihood_of_line, section_of_line
from outcrop.geometry.surfaces import join_sticks
from outcrop.geometry.tracing import THRESHOLD, sticks_of
from outcrop.parallel import Progress, map_blocks
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.neighbours import neighbour_groups
from outcrop.volumes.opening import open_volume

NODE = 8  # approximate number of samples between two points of a stick


def fault_sticks(
    volume: DataArray,
    *,
    along: str = "inline",
    lines: Sequence[int] | None = None,
    threshold: float = THRESHOLD,
    neighbours: int = NEIGHBOURS,
    device: str | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Pick fault sticks on the sections of a volume, and join sticks of several lines into fault surfaces.

    Lines are read one after the other, so the volume need not fit in memory. Sections need at least 64 samples.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` returns it, or any source that `open_volume` opens.
    along : {"inline", "crossline", "both"}
        Direction of the sections on which sticks are picked. A fault shows best on sections that cut it at a right
        angle; ``both`` finds faults of any strike.
    lines : sequence of int, optional
        Numbers of the lines on which sticks are picked; by default all. Not allowed with ``both``.
    threshold : float
        Likelihood that at least one sample of a stick must exceed; the stick continues while its likelihood is above
        two thirds of this value.
    neighbours : int
        Number of lines on either side of a line. The likelihood of the line is averaged with theirs, if they show the
        same layers.
    device : str, optional
        A torch device for the encoder, for instance ``cuda`` (all visible GPUs) or ``cuda:0,cuda:1``.
    progress : callable, optional
        Called as ``progress(what, done, total)`` after every line; ``done`` and ``total`` count lines.

    Returns
    -------
    DataFrame
        Columns surface and stick (numbers from 0), inline, crossline, time in ms (or depth in m), likelihood, and along
        (direction of the section). Each row is a point; the points of a stick are in downward order and may lie between
        traces. Where at least five neighbouring lines in a row are picked, fault surfaces on fewer than three lines are
        left out.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 160, 128), seed=0)
    >>> fault_sticks(volume).columns.tolist()
    ['surface', 'stick', 'inline', 'crossline', 'time', 'likelihood', 'along']
    """
    names = _directions(along, lines)
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is {threshold}; choose a value between 0 and 1.")
    volume = open_volume(volume)
    wanted = {name: _positions(volume, name, lines) for name in names}
    parts: list[pd.DataFrame] = []
    total = sum(map(len, wanted.values()))
    for name, positions in wanted.items():
        for sticks in line_sticks(volume, name, positions, threshold, neighbours=neighbours, device=device):
            parts.append(sticks)
            if progress:
                progress("picking faults", len(parts), total)
    if not any(map(len, parts)) and not _any_live(volume, wanted):
        raise ValueError(
            "No trace of these lines is live: all are missing or constant; choose other lines, or check the file."
        )
    return join_sticks(assembled(parts, volume), volume, picked=wanted)


def _any_live(volume: DataArray, wanted: dict[str, np.ndarray]) -> bool:
    """Return True if any of the lines has a trace with data; reading stops at the first such line.

    `wanted` is a dict from direction to the positions of the lines. A constant trace has no data.
    """
    lines = ((DIRECTIONS.index(name), position) for name, positions in wanted.items() for position in positions)
    return any(section_of_line(volume, *line)[1].any() for line in lines)


def _directions(along: str, lines: Sequence[int] | None) -> tuple[str, ...]:
    if along not in (*DIRECTIONS, "both"):
        raise ValueError(f"Direction {along!r} is unknown; choose inline, crossline or both.")
    if along == "both" and lines is not None:
        raise ValueError("lines cannot be combined with along='both'; choose 'inline' or 'crossline'.")
    return DIRECTIONS if along == "both" else (along,)


def _positions(volume: DataArray, name: str, lines: Sequence[int] | None) -> np.ndarray:
    """Return the positions of line numbers on the axis `name`; if `lines` is None, the positions of all lines."""
    labels = volume[name].values
    if lines is None:
        return np.arange(len(labels))
    missing = [line for line in lines if line not in labels]
    if missing:
        raise ValueError(f"The volume has no {name} {missing[0]}; it has {labels[0]} to {labels[-1]}.")
    return np.flatnonzero(np.isin(labels, lines))


def assembled(parts: Iterable[pd.DataFrame], volume: DataArray) -> pd.DataFrame:
    """Join tables of sticks, one table for each line, into one table with unique stick numbers."""
    columns = ["stick", *volume.dims, "likelihood", "along"]
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame({name: np.empty(0) for name in columns}).astype({"stick": int, "along": str})
    counts = np.cumsum([0, *(part["stick"].max() + 1 for part in parts[:-1])])
    parts = [part.assign(stick=part["stick"] + first) for part, first in zip(parts, counts, strict=True)]
    return pd.concat(parts, ignore_index=True)


def line_sticks(
    volume: DataArray,
    along: str,
    positions: Iterable[int],
    threshold: float = THRESHOLD,
    *,
    neighbours: int = NEIGHBOURS,
    device: str | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a table of fault sticks for each line; `positions` are the indices of the lines, in rising order."""
    direction, groups = DIRECTIONS.index(along), neighbour_groups(volume, along)
    lines_near = {}
    for position in positions:
        lines = np.arange(max(position - neighbours, 0), min(position + neighbours + 1, len(groups)))
        lines_near[position] = lines[groups[lines] == groups[position]].tolist()
    devices: list[Any] = device_list(device) or [None]

    def likelihood(position: int) -> tuple[np.ndarray, np.ndarray]:
        return likelihood_of_line(volume, direction, position, devices[position % len(devices)])

    def pick(supported: tuple[int, list[tuple[int, np.ndarray]]]) -> pd.DataFrame:
        position, support = supported
        return _table(volume, direction, position, sticks_of(along_strike(support), threshold))

    needed = sorted(set().union(*lines_near.values()))
    yield from map_blocks(pick, _with_support(zip(needed, map_blocks(likelihood, needed), strict=True), lines_near))


def _with_support(
    maps: Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]], lines_near: dict[int, list[int]]
) -> Iterator[tuple[int, list[tuple[int, np.ndarray]]]]:
    """Yield, for each line, its position and a list with (distance in lines, likelihood) of each nearby line.

    The list contains the line itself, at distance 0, and only nearby lines that show the same layers. `maps` yields
    (position, (likelihood, section)) of every line needed, in rising order. `lines_near` is a dict: position of a line
    -> positions of the nearby lines and of the line itself.
    """
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for position, lines in lines_near.items():
        held = {line: held[line] for line in held if line >= lines[0]}
        while lines[-1] not in held:
            line, found = next(maps)
            held[line] = found
        section = held[position][1]
        kept = [line for line in lines if line == position or alike(section, held[line][1])]
        yield position, [(line - position, held[line][0]) for line in kept]


def _table(
    volume: DataArray, direction: int, position: int, sticks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> pd.DataFrame:
    """Return the fault sticks of a line as a table of points, about one for every eight samples of a stick.

    The positions of the points are inline and crossline numbers, and time or depth.
    """
    rows = []
    labels = [volume[name].values for name in volume.dims]
    traces_of = labels[1 - direction]
    for number, (samples, traces, likelihoods) in enumerate(sticks):
        nodes = np.linspace(0, len(samples) - 1, max(2, round((len(samples) - 1) / NODE) + 1)).round().astype(int)
        points = {
            "stick": number,
            DIRECTIONS[direction]: labels[direction][position],
            DIRECTIONS[1 - direction]: np.interp(traces[nodes], np.arange(len(traces_of)), traces_of),
            volume.dims[2]: labels[2][samples[nodes]],
            "likelihood": gaussian_filter1d(likelihoods, NODE / 2, mode="nearest")[nodes],
            "along": DIRECTIONS[direction],
        }
        rows.append(pd.DataFrame(points)[["stick", *volume.dims, "likelihood", "along"]])
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()
