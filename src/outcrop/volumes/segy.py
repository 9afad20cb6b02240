"""Read SEG-Y files: the geometry of a regular or irregular survey from the headers, and traces when they are needed.

Windows of the file are mapped only while they are read. Threads and processes can therefore share a geometry, and
memory does not grow with the file.
"""

import dataclasses
import itertools
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from outcrop.volumes import segy_headers
from outcrop.volumes.axes import fit_grid
from outcrop.volumes.segy_headers import BINARY_SIZE, DEAD, ENDIANS, HEADER_SIZE, TEXT_SIZE, word_at
from outcrop.volumes.segy_layout import WINDOW, Layout, find_layout, sample_headers, trace_records
from outcrop.volumes.traces import Traces, find_runs, make_grid, place

Array = npt.NDArray[Any]
FOOT = 0.3048  # m
# Header bytes of inline and crossline, the commonest first; the last pair is for 2-D lines with CDP numbers only.
HEADER_BYTES = [(189, 193), (9, 21), (5, 21), (17, 21), (9, 13), (17, 13), (21, 25), (233, 237), (213, 217), (189, 21)]
BATCH = 1 << 18  # samples decoded at a time, few enough for the cache of a core
GAP = 1 << 14  # bytes; reading across a gap up to this size costs no more than two reads
# Words of a text header that state depth; "depth migrated" does not, because the data may be stretched to time.
DEPTH = re.compile(
    r"\bdepth[\s-]+domain|\bdomain\W+depth\b|\bsampl\w*\W+(int\w*|rate)\W+\d+(\.\d+)?\s*(m|ft|met\w+|feet)\b(?!\s*sec)",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Axes of a SEG-Y volume and the trace at every crossing of an inline and a crossline.

    Attributes
    ----------
    layout : Layout
        Where traces and samples lie in the file.
    header_bytes : (int, int)
        Bytes of inline and crossline in the trace header, counted from 1.
    inlines, crosslines : array of int
        Line numbers, ascending.
    samples : array of float
        Time in ms or depth in m of every sample.
    traces : Traces
        Number of the trace in the file at every crossing.
    missing : int
        Number of crossings without a live trace.
    duplicates : int
        Number of traces that a later trace with the same line numbers replaces.
    dead : int
        Number of traces marked dead in their headers.
    sorting : str
        Which lines are contiguous in the file: inline, crossline or neither.
    interval, delay : float
        Sample interval, and time or depth of the first sample, in ms or m.
    domain : str
        time or depth.
    metres : float
        Metres per unit of X and Y: 1, or 0.3048 for feet.
    bin_size : (float, float) or None
        Metres between neighbouring inlines and between neighbouring crosslines of the grid, NaN for a direction
        with a single line; None if the coordinates form no grid.
    text : str
        The text header.
    notes : tuple of str
        Contradictions between headers and file, and assumptions.
    stamp : (int, int)
        Size and modification time (ns) of the scanned file.
    """

    layout: Layout
    header_bytes: tuple[int, int]
    inlines: Array
    crosslines: Array
    samples: Array
    traces: Traces
    missing: int
    duplicates: int
    dead: int
    sorting: str
    interval: float
    delay: float
    domain: str
    metres: float
    bin_size: tuple[float, float] | None
    text: str
    notes: tuple[str, ...]
    stamp: tuple[int, int]

    def is_current(self) -> bool:
        """Return whether the file still has the size and modification time that it had when it was scanned."""
        stat = os.stat(self.layout.path)
        return self.stamp == (stat.st_size, stat.st_mtime_ns)

    def __reduce__(self) -> Any:
        return unpack, ({field.name: getattr(self, field.name) for field in dataclasses.fields(self)},)


def scan(
    path: str | Path,
    *,
    header_bytes: tuple[int, int] | None = None,
    endian: str | None = None,
    domain: str | None = None,
) -> Geometry:
    """Return the geometry of a SEG-Y file from its headers; samples are not read.

    Parameters
    ----------
    path : path
    header_bytes : (int, int), optional
        Bytes of inline and crossline in the trace header, counted from 1; detected by default.
    endian : {"big", "little"}, optional
        Byte order; detected by default.
    domain : {"time", "depth"}, optional
        What the sample axis measures; by default depth if the text header says so, else time.

    Returns
    -------
    geometry : Geometry

    Raises
    ------
    ValueError
        The file is not SEG-Y, is truncated, or has no inline and crossline at the header bytes.
    """
    if endian not in (None, *ENDIANS.values()):
        raise ValueError(f"endian is {endian!r}; choose big or little.")
    path = os.path.abspath(path)
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        opening = file.read(TEXT_SIZE + BINARY_SIZE)
        layout, notes = find_layout(file, opening, path=path, size=stat.st_size, endian=endian)
        headers = sample_headers(file, layout)
        header_bytes, grid = find_grid(file, layout, headers, header_bytes=header_bytes)
    binary = np.frombuffer(opening, segy_headers.binary_dtype(layout.order), 1, TEXT_SIZE)[0]
    words = headers.view(segy_headers.trace_dtype(layout.order)).ravel()
    rows, columns = (
        place(axis, word_at(headers, byte, layout.order).ravel())
        for axis, byte in zip([grid["inlines"], grid["crosslines"]], header_bytes, strict=True)
    )
    text = segy_headers.decode_text(opening[:TEXT_SIZE])
    hint = "depth" if DEPTH.search(text) else "time"
    if hint == "depth":
        notes.append(f"the text header says that samples are in depth; they are read as {domain or hint}")
    domain = domain or hint
    metres = FOOT if binary["units"] == 2 else 1.0
    interval, delay, remarks = sampling(binary, words, unit=metres if domain == "depth" else 1.0)
    return Geometry(
        layout=layout,
        header_bytes=header_bytes,
        samples=delay + interval * np.arange(layout.n_samples),
        interval=interval,
        delay=delay,
        domain=domain,
        metres=metres,
        bin_size=find_bin_size(words, rows, columns, metres=metres),
        text=text,
        notes=(*notes, *remarks),
        stamp=(stat.st_size, stat.st_mtime_ns),
        **grid,
    )


def unpack(fields: dict[str, Any]) -> Geometry:
    """Restore a pickled `Geometry` from its fields; raise `ValueError` if the file has changed since the scan."""
    geometry = Geometry(**fields)
    if not geometry.is_current():
        raise ValueError(f"{geometry.layout.path} has changed since it was opened; open it again.")
    return geometry


def find_grid(
    file: BinaryIO, layout: Layout, headers: Array, *, header_bytes: tuple[int, int] | None
) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return (bytes of inline and crossline in the trace header, grid of the traces as `make_grid` returns it).

    If `header_bytes` is None, the bytes are detected from `headers`, the headers of some traces.
    """
    pairs: list[Any] = HEADER_BYTES if header_bytes is None else [tuple(map(int, header_bytes))]
    if len(pairs[0]) != 2 or not all(1 <= byte <= HEADER_SIZE - 3 for byte in pairs[0]):
        raise ValueError(
            f"Header bytes are {header_bytes}; give two from 1 to {HEADER_SIZE - 3}, inline and crossline."
        )
    likeness = np.array([line_likeness(*(word_at(headers, byte, layout.order) for byte in pair)) for pair in pairs])
    # The first pair above 0.7 is right: on short lines, a trace counter has more steady steps than line numbers.
    for i in np.argsort(np.where(likeness > 0.7, 0, 1 - likeness), kind="stable"):
        grid = make_grid(*read_runs(file, layout, pairs[i])) if likeness[i] > 0 else None
        if grid is not None:
            return pairs[i], grid
    tried = ", ".join(f"{inline}/{crossline}" for inline, crossline in pairs)
    raise ValueError(
        f"{layout.path}: header bytes {tried} do not look like inline/crossline of a stacked volume; "
        "pass --header-bytes IL,XL, in Python header_bytes=(IL, XL)."
    )


def line_likeness(inline: Array, crossline: Array) -> float:
    """Return how much two header words behave like inline and crossline numbers, from 0 to 1.

    It is 1 if no two traces have the same pair of numbers, and if exactly one of the two numbers changes from each
    trace to the next.

    Examples
    --------
    >>> line_likeness(np.array([[7, 7, 7]]), np.array([[1, 2, 3]]))
    1.0
    >>> line_likeness(np.array([[7, 7, 7]]), np.array([[1, 1, 1]]))
    0.0
    """
    position = inline.astype(np.int64) << 32 | crossline.astype(np.int64) & 0xFFFFFFFF
    distinct = float(len(np.unique(position)) / position.size)
    steady = (np.diff(inline) == 0) != (np.diff(crossline) == 0)
    # Unsorted files have no steady steps, so repeated positions weigh more.
    return 0.0 if distinct < 0.5 else distinct**2 * (1 + (float(steady.mean()) if steady.size else 1.0)) / 2


def read_runs(file: BinaryIO, layout: Layout, header_bytes: tuple[int, int]) -> tuple[Array, Array]:
    """Return (runs, dead): line numbers of all traces as runs (see `find_runs`), and numbers of the dead traces.

    Only traces that are marked dead in their headers count as dead.
    """
    words = {"inline": (header_bytes[0], "i4"), "crossline": (header_bytes[1], "i4"), "mark": (29, "i2")}
    kind = segy_headers.words_dtype(words, first=1, size=layout.trace.itemsize, order=layout.order)
    step = max(1, WINDOW // kind.itemsize)
    runs, dead = [], []
    for first in range(0, layout.n_traces, step):
        window = trace_records(file, layout, first, min(first + step, layout.n_traces)).view(kind)
        runs.append(find_runs(window["inline"], window["crossline"], first=first))
        dead.append(first + np.flatnonzero(window["mark"] == DEAD))
    return np.concatenate(runs), np.concatenate(dead)


def sampling(binary: Any, words: Array, *, unit: float) -> tuple[float, float, list[str]]:
    """Return (sample interval, time or depth of the first sample, list of remarks on headers that disagree).

    Interval and first sample are in ms or m. `binary` is the binary header, and `words` has the headers of some traces.
    `unit` is 0.3048 for depths in feet, else 1.
    """
    traced, delay = commonest(words["interval"]), commonest(words["delay"])
    interval = int(binary["interval"]) or traced
    remarks = []
    if not interval:
        remarks.append("no sample interval in the headers; 4 ms (or m) is assumed")
    elif traced not in (0, interval):
        remarks.append(f"the binary header says a sample interval of {interval} us, the traces {traced} us")
    step = (interval or 4000) / 1000
    if unit != 1:
        remarks.append(f"depths in feet are converted to m: a sample interval of {step:g} ft is {step * unit:g} m")
    if np.any(words["delay"] != delay):
        remarks.append(f"the delay differs between traces; {delay} is used for all")
    return step * unit, delay * unit, remarks


def commonest(values: Array) -> int:
    """Return the most frequent value in an array of integers."""
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])


def find_bin_size(words: Array, rows: Array, columns: Array, *, metres: float) -> tuple[float, float] | None:
    """Return the metres between neighbouring inlines and between neighbouring crosslines, from X and Y of traces.

    None is returned if the coordinates are angles or do not form a grid. `words` has the headers of some traces, `rows`
    and `columns` have the positions of these traces on the axes. `metres` is the number of metres per unit of X and Y.
    """
    if commonest(words["coordinate_units"]) > 1:  # angles
        return None
    scalar = segy_headers.coordinate_scalars(words) * metres
    for name in ("cdp", "source"):
        grid = fit_grid(rows, columns, (words[f"{name}_x"] + 1j * words[f"{name}_y"]) * scalar)
        if grid is not None:
            inline, crossline = np.abs(grid[1:]).round(2).tolist()
            return inline, crossline
    return None


def read(geometry: Geometry, rows: Array, columns: Array, *, samples: slice = slice(None)) -> Array:
    """Read the amplitudes of a block of a SEG-Y volume; missing and dead traces are NaN.

    Parameters
    ----------
    geometry : Geometry
    rows, columns : array of int
        Positions on the inline and on the crossline axis.
    samples : slice
        Positions on the sample axis.

    Returns
    -------
    block : array of float32, shape (n_rows, n_columns, n_samples)
    """
    wanted = geometry.traces[rows, columns].ravel()
    n_samples = len(range(*samples.indices(geometry.layout.n_samples)))
    block = np.full((wanted.size, n_samples), np.nan, np.float32)
    order = np.argsort(wanted, kind="stable")
    order = order[np.searchsorted(wanted[order], 0) :]
    step = max(1, BATCH // max(1, n_samples))
    with open(geometry.layout.path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != geometry.stamp[0]:
            raise ValueError(f"{geometry.layout.path} has changed since it was opened; open it again.")
        for first in range(0, len(order), step):
            part = order[first : first + step]
            stored = stored_samples(file, geometry.layout, wanted[part], samples)
            block[part] = segy_headers.decode(stored, geometry.layout.format)
    return block.reshape(len(rows), len(columns), n_samples)


def stored_samples(file: BinaryIO, layout: Layout, numbers: Array, samples: slice) -> Array:
    """Return samples of the traces `numbers` (in ascending order) exactly as stored in the file, not decoded."""
    stride = layout.trace.itemsize
    jumps = np.diff(numbers) > 1 + GAP // stride
    turns = np.diff(numbers // max(1, WINDOW // stride)) > 0
    cuts = (np.flatnonzero(jumps | turns) + 1).tolist()
    runs = []
    for low, high in itertools.pairwise([0, *cuts, len(numbers)]):
        first, last = int(numbers[low]), int(numbers[high - 1]) + 1
        run = trace_records(file, layout, first, last)["samples"][:, samples]
        runs.append(run if high - low == last - first else run[numbers[low:high] - first])
    return runs[0] if len(runs) == 1 else np.concatenate(runs)
