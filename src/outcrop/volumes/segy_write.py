"""Write SEG-Y files inline by inline; a file has a temporary name until it is complete."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from outcrop.storage.workspace import whole_file
from outcrop.volumes.segy import Geometry
from outcrop.volumes.segy_headers import (
    BINARY_SIZE,
    DEAD,
    FORMATS,
    TEXT_SIZE,
    binary_dtype,
    encode,
    text_header,
    trace_dtype,
)
from outcrop.volumes.segy_layout import trace_records, trace_type

Array = npt.NDArray[Any]
Write = Callable[[int, npt.ArrayLike], None]  # stores one inline
Grid = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]


@contextlib.contextmanager
def create(
    path: str | Path,
    inlines: npt.ArrayLike,
    crosslines: npt.ArrayLike,
    times: npt.ArrayLike,
    *,
    bin_size: tuple[float, float] = (25.0, 25.0),
    grid: Grid | None = None,
    text: str = "",
    format: int = 5,
) -> Iterator[Write]:
    """Write a SEG-Y file inline by inline; it has a temporary name until it is complete.

    Parameters
    ----------
    path : path
        File to write; an existing file is replaced on success and kept on failure.
    inlines, crosslines : array of int
        Line numbers, one for each line.
    times : array, shape (n_sample,)
        Two-way time of the samples in ms, evenly spaced, beginning at a whole millisecond.
    bin_size : (float, float)
        Metres between neighbouring inlines (along Y) and between neighbouring crosslines (along X). The first trace
        lies at X = Y = 0.
    grid : three pairs of float, optional
        Three pairs (X, Y), used instead of `bin_size`: coordinates of inline 0, crossline 0; change per inline number;
        change per crossline number.
    text : str
        Lines of the text header.
    format : int
        SEG-Y sample format: 5 IEEE float, 1 IBM float, 2, 3 and 8 integers of 32, 16 and 8 bits.

    Yields
    ------
    write : callable
        ``write(row, section)`` stores the samples of the inline at position `row`, shape (n_crossline, n_sample);
        inlines may come in any order. A trace with only NaN is marked dead.
    """
    inlines, crosslines, times = np.asarray(inlines), np.asarray(crosslines), np.asarray(times, np.float64)
    if not inlines.size or not crosslines.size or not times.size:
        size = f"{len(inlines)} x {len(crosslines)} x {len(times)}"
        raise ValueError(f"A volume of {size} samples is empty; give every axis at least one value.")
    interval = check_times(times)
    check_format(format)
    binary = np.zeros(1, binary_dtype())
    binary["interval"], binary["samples"], binary["format"], binary["sorting"] = interval, len(times), format, 4
    binary["units"] = binary["revision"] = binary["fixed_length"] = 1
    line = np.zeros(len(crosslines), trace_type(">" + FORMATS[format], len(times)))
    headers = line["header"].view(trace_dtype())
    headers["crossline"] = headers["cdp"] = crosslines
    headers["scalar"], headers["coordinate_units"] = -100, 1  # coordinates in centimetres
    headers["delay"], headers["interval"], headers["samples"] = times[0], interval, len(times)

    def store(file: BinaryIO, row: int, section: Array) -> None:
        dead = np.asarray(np.isnan(section).all(1))
        headers["line_sequence"] = headers["file_sequence"] = 1 + row * len(crosslines) + np.arange(len(crosslines))
        headers["record"] = headers["inline"] = inlines[row]
        headers["identification"] = np.where(dead, DEAD, 1)
        x, y = trace_places(row, inlines[row], crosslines, bin_size=bin_size, grid=grid)
        headers["cdp_x"] = headers["source_x"] = x
        headers["cdp_y"] = headers["source_y"] = y
        line["samples"] = encode(np.where(dead[:, None], 0, section), format=format)
        file.seek(TEXT_SIZE + BINARY_SIZE + int(row) * line.nbytes)
        file.write(line.tobytes())

    shape = len(inlines), len(crosslines), len(times)
    with write_lines(path, text_header(text) + binary.tobytes(), shape, store) as write:
        yield write


@contextlib.contextmanager
def create_like(path: str | Path, geometry: Geometry, *, text: str = "", format: int = 5) -> Iterator[Write]:
    """Write a SEG-Y file on the grid of another SEG-Y file, with exactly the same trace headers.

    Parameters
    ----------
    path : path
        File to write; it has a temporary name until it is complete.
    geometry : Geometry
        The scanned source file. In the copied binary header only the format changes; extended text headers are omitted.
    text : str
        Lines of the text header, a description of the new volume.
    format : int
        SEG-Y sample format.

    Yields
    ------
    write : callable
        ``write(row, section)`` stores the samples of the inline at position `row`, shape (n_crossline, n_sample);
        inlines may come in any order. Duplicate and dead traces of the source get samples too.
    """
    check_format(format)
    source = geometry.layout
    target = source._replace(format=format, start=TEXT_SIZE + BINARY_SIZE, extensions=0)
    across = np.arange(len(geometry.crosslines))
    with open(source.path, "rb") as original:
        opening = bytearray(original.read(target.start))
        binary = np.frombuffer(opening, binary_dtype(source.order), 1, TEXT_SIZE)
        binary["format"] = format
        if source.start != target.start:
            binary["extended_text"] = binary["first_trace"] = 0
        if source.extensions:
            binary["extensions"] = 0

        def store(file: BinaryIO, row: int, section: Array) -> None:
            numbers, _, columns = geometry.traces.inside(np.array([row]), across)
            cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
            for run, columns_of_run in zip(np.split(numbers, cuts), np.split(columns, cuts), strict=True):
                if not len(run):
                    continue
                traces = np.empty(len(run), target.trace)
                traces["header"] = trace_records(original, source, int(run[0]), int(run[-1]) + 1)["header"]
                traces["samples"] = encode(section[columns_of_run], format=format, order=target.order)
                file.seek(target.start + int(run[0]) * target.trace.itemsize)
                file.write(traces.tobytes())

        shape = len(geometry.inlines), len(geometry.crosslines), source.n_samples
        with write_lines(path, text_header(text) + opening[TEXT_SIZE:], shape, store) as write:
            yield write


@contextlib.contextmanager
def write_lines(
    path: str | Path, opening: bytes, shape: tuple[int, int, int], store: Callable[[BinaryIO, int, Array], None]
) -> Iterator[Write]:
    """Write the bytes `opening` to a file, and yield a function that writes one inline with `store`.

    `shape` is the shape of the volume. ``store(file, row, section)`` writes the inline at position `row`. `ValueError`
    is raised at the end if an inline was not written.
    """
    written = np.zeros(shape[0], bool)
    with whole_file(path) as aside, open(aside, "wb") as file:
        file.write(opening)

        def write(row: int, section: npt.ArrayLike) -> None:
            section = np.asarray(section)
            if section.shape != shape[1:]:
                raise ValueError(f"Section {row} has shape {section.shape}; it must be {shape[1:]}.")
            store(file, row, section)
            written[row] = True

        yield write
        if not written.all():
            missing = np.sum(~written)
            raise ValueError(f"{path}: {missing} of {len(written)} inlines were not written; write every row.")


def check_format(format: int) -> None:
    """Raise `ValueError` for an unknown sample format."""
    if format not in FORMATS:
        raise ValueError(f"SEG-Y format is {format}; choose one of {', '.join(map(str, FORMATS))}.")


def check_times(times: Array) -> int:
    """Return the interval of `times` in whole microseconds; raise `ValueError` if SEG-Y headers cannot hold them."""
    interval = round(1000 * (times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else 4000
    even = np.allclose(times, times[0] + np.arange(len(times)) * interval / 1000, rtol=0, atol=1e-3)
    if not even or not 0 < interval < 65536 or len(times) > 65535 or times[0] != np.int16(times[0]):
        raise ValueError(
            f"{len(times)} times from {times[0]} ms every {interval} us do not fit SEG-Y headers; "
            "give at most 65535, evenly spaced by 1 to 65535 us, from a whole millisecond."
        )
    return interval


def trace_places(
    row: int, inline: int, crosslines: Array, *, bin_size: tuple[float, float], grid: Grid | None
) -> Array:
    """Return X and Y of the traces of one inline, in whole centimetres, shape (2, n_crossline).

    `row` is the position and `inline` the number of this inline; see `create` for `bin_size` and `grid`.
    """
    if grid is None:
        n = len(crosslines)
        places = np.column_stack([np.arange(n) * bin_size[1], np.full(n, row * bin_size[0])])
    else:
        origin, inline_step, crossline_step = np.asarray(grid, np.float64)
        places = origin + inline * inline_step + np.asarray(crosslines)[:, None] * crossline_step
    places = np.asarray(np.rint(100 * places))
    if np.abs(places).max() > np.iinfo(np.int32).max:
        reach = np.abs(places).max() / 100
        raise ValueError(f"X and Y reach {reach:.0f} m, more than SEG-Y headers hold in cm; check bin size and grid.")
    return places.T
