"""Synthetic volumes with true labels, in memory or written to SEG-Y line by line."""

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.datasets.earth import BIN_SIZE, STEP, Shape, draw_earth
from outcrop.datasets.section import CLASSES, make_line, pierce, texture_plane
from outcrop.parallel import Progress, map_blocks, n_cores
from outcrop.volumes.class_table import write_class_table
from outcrop.volumes.segy_headers import TEXT_SIZE, decode_text
from outcrop.volumes.segy_write import create

Array = npt.NDArray[Any]


def synthetic(shape: Shape = (120, 200, 256), *, seed: int = 0) -> tuple[xr.DataArray, xr.DataArray]:
    """Make a synthetic seismic volume and the true label of every sample.

    The volume contains folded layers of varying thickness over an unconformity, a chaotic band, a zone of dipping
    normal faults, and a salt dome that pierces the layers and drags them up. A larger survey has several of these.

    Parameters
    ----------
    shape : (int, int, int)
        Number of inlines, crosslines and samples. A survey of 60 x 160 x 200 or more contains every class.
    seed : int
        The same seed and shape give the same volume.

    Returns
    -------
    volume : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Amplitudes, float32, with a standard deviation of about 2000; 4 ms per sample, bins of 25 m x 25 m.
    truth : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Label code of every sample, uint8; `attrs["classes"][code - 1]` is the class name. `fault` is the disturbed zone
        within 10 traces of a fault plane, `salt dome` the whole dome.

    Examples
    --------
    >>> volume, truth = synthetic((2, 60, 80), seed=1)
    >>> volume.sizes["time"], float(volume.time[1]), truth.attrs["classes"][0]
    (80, 4.0, 'chaotic')
    """
    axes = _axes(shape)
    volume = xr.DataArray(np.empty(shape, np.float32), axes, name="amplitude", attrs={"bin_size": BIN_SIZE})
    truth = xr.DataArray(np.empty(shape, np.uint8), axes, name="label", attrs={"classes": list(CLASSES)})
    for row, (section, labels) in enumerate(synthetic_lines(shape, seed=seed)):
        volume.values[row], truth.values[row] = section, labels
    return volume, truth


def write_synthetic(path: str | Path, shape: Shape, *, seed: int = 0, progress: Progress | None = None) -> Path:
    """Write a synthetic volume to a SEG-Y file, line by line, and its true labels to a second file.

    Parameters
    ----------
    path : path
        SEG-Y file to write, for instance `OUT.sgy`.
    shape, seed
        As in `synthetic`, which returns the same samples. Only a few lines are in memory at a time.
    progress : callable, optional
        Called as ``progress(what, done, total)`` after every line.

    Returns
    -------
    truth_path : pathlib.Path
        File of the true labels, `OUT.truth.sgy`; a class table is written next to it.
    """
    axes = _axes(shape)
    path = Path(path)
    truth_path = path.with_suffix(".truth.sgy")
    text = f"Synthetic volume made by Outcrop, shape {tuple(shape)}, seed {seed}"
    with (
        create(path, *axes.values(), bin_size=BIN_SIZE, text=text) as write,
        create(truth_path, *axes.values(), bin_size=BIN_SIZE, text=text + ": truth", format=8) as write_truth,
    ):
        for row, (section, labels) in enumerate(synthetic_lines(shape, seed=seed)):
            write(row, section)
            write_truth(row, labels)
            if progress is not None:
                progress("making a volume", row + 1, shape[0])
        write_class_table(truth_path, CLASSES)  # the volume is completed last, so if it exists, all files do
    return truth_path


def synthetic_seed(path: str | Path) -> int | None:
    """Return the seed of a file that `write_synthetic` wrote; None for another file or if there is no file.

    The text headers of the volume and of its true labels contain the seed:
    ``Synthetic volume made by Outcrop, shape (120, 200, 256), seed 0``.
    """
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        lines = decode_text(file.read(TEXT_SIZE)).splitlines()
    text = " ".join(" ".join(line[4:].strip() for line in lines).split())  # without "C 1 "; a long line is wrapped
    match = re.search(r"Synthetic volume made by Outcrop, shape \([\d, ]+\), seed (\d+)", text)
    return int(match[1]) if match else None


def synthetic_lines(shape: Shape, *, seed: int = 0, rows: Iterable[int] | None = None) -> Iterator[tuple[Array, Array]]:
    """Yield sections and true labels of the given lines of a synthetic volume, without computing other lines.

    Parameters
    ----------
    shape, seed
        As in `synthetic`.
    rows : iterable of int, optional
        Positions of the inlines, 0 for the first, in any order; by default all.

    Yields
    ------
    section, labels : array, shape (n_crossline, n_sample)
    """
    earth = draw_earth(shape, seed)
    plane = functools.lru_cache(maxsize=4 + n_cores())(functools.partial(texture_plane, earth))
    middle, _ = make_line(earth, shape[0] // 2, plane)
    gain = 2000 / np.sqrt(np.mean(middle**2))

    def make(row: int) -> tuple[Array, Array]:
        section, labels = make_line(earth, row, plane)
        return gain * section, labels

    yield from map_blocks(make, range(shape[0]) if rows is None else rows)


def synthetic_top(shape: Shape, *, seed: int = 0) -> xr.DataArray:
    """Return the exact top of the salt of a synthetic volume; its true labels are made from this surface.

    Parameters
    ----------
    shape, seed
        As in `synthetic`.

    Returns
    -------
    top : xarray.DataArray, shape (n_inline, n_crossline)
        Time in ms, not rounded to samples; NaN where the salt lies below the last sample.
    """
    axes, earth = _axes(shape), draw_earth(shape, seed)
    traces = np.arange(shape[1], dtype=np.float32)[:, None]
    age = np.zeros((shape[1], 1), np.float32)
    samples = np.zeros(1, np.float32)
    depth = np.stack([pierce(earth, row, traces, samples, age)[0][:, 0] for row in range(shape[0])])
    top = np.where(depth < shape[2] - 1, STEP * depth.astype(np.float64), np.nan)
    return xr.DataArray(top, {name: axes[name] for name in ("inline", "crossline")}, name="time")


def _axes(shape: Shape) -> dict[str, Array]:
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(
            f"shape is {tuple(shape)}; give the number of inlines, crosslines and samples, each 1 or more."
        )
    return {
        "inline": 100 + np.arange(shape[0]),
        "crossline": 300 + np.arange(shape[1]),
        "time": STEP * np.arange(shape[2]),
    }
