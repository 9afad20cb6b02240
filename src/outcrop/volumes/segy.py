"""SEG-Y: geometry from the headers, regular or not; traces read lazily; files written whole or not at all.

Plain NumPy on mapped windows of the file: nothing stays open or mapped between reads, so threads and processes share a
geometry freely and memory does not grow with the file.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import mmap
import os
import re
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outcrop.storage.workspace import whole_file
from outcrop.volumes.traces import Traces, find_runs, make_grid, place

TEXT_SIZE, BINARY_SIZE, HEADER_SIZE = 3200, 400, 240

# Sample formats of the SEG-Y standard by code; 1 is IBM floating point, which NumPy knows only as bits.
FORMATS = {1: "u4", 2: "i4", 3: "i2", 5: "f4", 6: "f8", 8: "i1", 9: "i8", 10: "u4", 11: "u2", 12: "u8", 16: "u1"}

# First byte (counted from 1, as in the standard) and type of the header words in use.
BINARY_WORDS = {
    "interval": (3217, "u2"),
    "samples": (3221, "u2"),
    "format": (3225, "i2"),
    "sorting": (3229, "i2"),
    "units": (3255, "i2"),
    "long_samples": (3269, "u4"),
    "revision": (3501, "u1"),
    "fixed_length": (3503, "i2"),
    "extended_text": (3505, "i2"),
    "first_trace": (3521, "u8"),
}
TRACE_WORDS = {
    "line_sequence": (1, "i4"),
    "file_sequence": (5, "i4"),
    "record": (9, "i4"),
    "cdp": (21, "i4"),
    "identification": (29, "i2"),
    "scalar": (71, "i2"),
    "source_x": (73, "i4"),
    "source_y": (77, "i4"),
    "coordinate_units": (89, "i2"),
    "delay": (109, "i2"),
    "samples": (115, "u2"),
    "interval": (117, "u2"),
    "cdp_x": (181, "i4"),
    "cdp_y": (185, "i4"),
    "inline": (189, "i4"),
    "crossline": (193, "i4"),
}
DEAD = 2  # trace identification code

# Where inline and crossline stand, the commonest first; the last is a 2-D line that has only CDP numbers.
HEADER_BYTES = [(189, 193), (9, 21), (5, 21), (17, 21), (9, 13), (17, 13), (21, 25), (233, 237), (213, 217), (189, 21)]

ENDIANS = {">": "big", "<": "little"}
WINDOW = 1 << 26  # bytes of the file mapped at a time
BATCH = 1 << 18  # samples decoded at a time: what they need stays in the cache of a core
NEAR = 1 << 14  # bytes; reading over such a gap costs no more than asking twice

# Words of a text header that tell depth from time; a mere "depth migrated" does not, it may be stretched to time.
DEPTH = re.compile(
    r"\bdepth[\s-]+domain|\bdomain\W+depth\b|\bsampl\w*\W+(int\w*|rate)\W+\d+(\.\d+)?\s*(m|ft|met\w+|feet)\b(?!\s*sec)",
    re.IGNORECASE,
)


@functools.lru_cache
def trace_type(kind, n_samples):
    """NumPy type of a trace of `n_samples` of a type."""
    return np.dtype([("header", f"V{HEADER_SIZE}"), ("samples", kind, n_samples)])


class Layout(NamedTuple):
    """Where the traces lie in a SEG-Y file and how their samples are stored."""

    path: str
    order: str  # of bytes, as NumPy writes it
    format: int
    start: int  # byte of the first trace
    n_samples: int
    n_traces: int

    @property
    def trace(self):
        """NumPy type of one trace: header and samples."""
        return trace_type(self.order + FORMATS[self.format], self.n_samples)


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Axes of a SEG-Y volume and the trace at every crossing of them.

    Attributes
    ----------
    layout : Layout
        Where traces and samples lie in the file.
    header_bytes : (int, int)
        Bytes of inline and crossline in the trace header, counted from 1.
    inlines, crosslines : array of int
        Survey labels, ascending.
    samples : array of float
        Time in ms or depth in m of every sample.
    traces : Traces
        Number of the trace in the file at every crossing.
    missing, duplicates, dead : int
        Crossings without a live trace; traces that a later one of the same labels replaces; traces marked dead in their
        header.
    sorting : str
        Which line is contiguous in the file: inline, crossline or neither.
    interval, delay : float
        Sample interval and first sample in ms or m.
    domain : str
        time or depth.
    bin_size : (float, float) or None
        Metres between neighbouring inlines and between neighbouring crosslines of the grid, NaN for the direction in
        which there is one line only; None where coordinates do not tell.
    text : str
        The text header.
    notes : tuple of str
        What the headers say that the file denies.
    stamp : (int, int)
        Size and time of change (ns) of the file that was scanned.
    """

    layout: Layout
    header_bytes: tuple
    inlines: np.ndarray
    crosslines: np.ndarray
    samples: np.ndarray
    traces: Traces
    missing: int
    duplicates: int
    dead: int
    sorting: str
    interval: float
    delay: float
    domain: str
    bin_size: tuple | None
    text: str
    notes: tuple
    stamp: tuple

    def __reduce__(self):
        return unpack, ({field.name: getattr(self, field.name) for field in dataclasses.fields(self)},)


def scan(path, *, header_bytes=None, endian=None, domain=None):
    """Geometry of a SEG-Y file from its headers; samples are not read.

    Parameters
    ----------
    path : path
        The file.
    header_bytes : (int, int), optional
        Bytes of inline and crossline in the trace header, counted from 1; found if not given.
    endian : {"big", "little"}, optional
        Order of bytes; found if not given.
    domain : {"time", "depth"}, optional
        What the sample axis measures; by default depth where the text header says so, time otherwise.

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
    binary = np.frombuffer(opening, binary_dtype(layout.order), 1, TEXT_SIZE)[0]
    words = headers.view(trace_dtype(layout.order)).ravel()
    rows, columns = (
        place(axis, word_at(headers, byte, layout.order).ravel())
        for axis, byte in zip([grid["inlines"], grid["crosslines"]], header_bytes, strict=True)
    )
    text = decode_text(opening[:TEXT_SIZE])
    domain = domain or ("depth" if DEPTH.search(text) else "time")
    metres = 0.3048 if binary["units"] == 2 else 1.0
    interval, delay, remarks = sampling(binary, words, unit=metres if domain == "depth" else 1.0)
    return Geometry(
        layout=layout,
        header_bytes=header_bytes,
        samples=delay + interval * np.arange(layout.n_samples),
        interval=interval,
        delay=delay,
        domain=domain,
        bin_size=find_bin_size(words, rows, columns, metres=metres),
        text=text,
        notes=(*notes, *remarks),
        stamp=(stat.st_size, stat.st_mtime_ns),
        **grid,
    )


def unpack(fields):
    """Geometry that another process has scanned; refused where the file has changed since."""
    path, stat = fields["layout"].path, os.stat(fields["layout"].path)
    if fields["stamp"] != (stat.st_size, stat.st_mtime_ns):
        raise ValueError(f"{path} has changed since it was opened; open it again.")
    return Geometry(**fields)


def words_dtype(words, *, first, size, order=">"):
    """NumPy type of a header of `size` bytes with some words named; byte 0 is the standard's byte `first`."""
    return np.dtype(
        {
            "names": list(words),
            "formats": [order + kind for _, kind in words.values()],
            "offsets": [byte - first for byte, _ in words.values()],
            "itemsize": size,
        }
    )


def trace_dtype(order=">"):
    """NumPy type of a trace header."""
    return words_dtype(TRACE_WORDS, first=1, size=HEADER_SIZE, order=order)


def binary_dtype(order=">"):
    """NumPy type of the binary header."""
    return words_dtype(BINARY_WORDS, first=TEXT_SIZE + 1, size=BINARY_SIZE, order=order)


def word_at(headers, byte, order):
    """The four-byte integer at a byte, counted from 1, of every trace header."""
    return headers.view(words_dtype({"word": (byte, "i4")}, first=1, size=HEADER_SIZE, order=order))["word"]


def find_layout(file, opening, *, path, size, endian):
    """Layout that the headers state as far as the size of the file bears it out, and notes on where it does not."""
    if size <= TEXT_SIZE + BINARY_SIZE + HEADER_SIZE:
        raise ValueError(f"{path} holds {size} bytes, too few for a SEG-Y file; is it empty or truncated?")
    binaries = {order: np.frombuffer(opening, binary_dtype(order), 1, TEXT_SIZE)[0] for order in ENDIANS}
    orders = [order for order, name in ENDIANS.items() if endian in (None, name)]
    order = next((order for order in orders if binaries[order]["format"] in FORMATS), None)
    if order is None:
        codes = " or ".join(str(binaries[order]["format"]) for order in orders)
        known = ", ".join(map(str, FORMATS))
        raise ValueError(f"{path} is not a SEG-Y file that can be read: its sample format is {codes}, none of {known}.")
    binary = binaries[order]
    starts = [start for start in trace_starts(binary) if start + HEADER_SIZE < size]
    file.seek(starts[0])
    first = np.frombuffer(file.read(HEADER_SIZE), trace_dtype(order))[0]
    said = {"binary": int(binary["samples"]), "trace": int(first["samples"])}
    if binary["revision"] == 2:
        said = {"extended binary": int(binary["long_samples"]), **said}
    unknown = Layout(path, order, int(binary["format"]), start=0, n_samples=0, n_traces=0)
    layout = fit_layout(file, unknown, size, starts=starts, said=list(said.values()))
    if layout is None:
        raise ValueError(
            f"{path}: {size} bytes do not hold a whole number of traces of {said['binary']} samples; "
            "the file is truncated or its headers are wrong."
        )
    return layout, [
        f"the {name} header says {count} samples, the file holds {layout.n_samples}"
        for name, count in said.items()
        if count not in (0, layout.n_samples)
    ]


def trace_starts(binary):
    """Bytes where the first trace may begin, the likeliest first: after the extended text headers, if there are any."""
    extended = int(binary["extended_text"])
    counts = range(17) if extended < 0 else (extended, 0)  # -1: as many as there are
    starts = [TEXT_SIZE + BINARY_SIZE + TEXT_SIZE * count for count in counts]
    stated = [int(binary["first_trace"])] if binary["revision"] == 2 else []
    return [start for start in stated + starts if start >= TEXT_SIZE + BINARY_SIZE]


def fit_layout(file, layout, size, *, starts, said):
    """The layout whose traces fill the file and whose trace headers agree, None if there is none.

    Sample counts that the headers say come first, then any other, which needs four traces to be believed.
    """
    stated = filling(layout, size, starts=starts, counts=said)
    for fit in stated:
        if headers_agree(file, fit):
            return fit
    for fit in filling(layout, size, starts=starts, counts=range(1, 1 << 16)):
        if fit.n_traces >= 4 and headers_agree(file, fit):
            return fit
    return stated[0] if stated else None


def filling(layout, size, *, starts, counts):
    """Layouts that fill a file of `size` bytes with whole traces, for starts of the first trace and sample counts."""
    counts = np.array([count for count in counts if count > 0], np.int64)
    strides = HEADER_SIZE + counts * np.dtype(FORMATS[layout.format]).itemsize
    return [
        layout._replace(start=start, n_samples=int(counts[i]), n_traces=int((size - start) // strides[i]))
        for start in starts
        for i in np.flatnonzero((size - start) % strides == 0)
    ]


def headers_agree(file, layout):
    """Whether traces all over the file state the sample count and interval that the first one states."""
    numbers = np.linspace(0, layout.n_traces - 1, min(16, layout.n_traces)).astype(np.int64)
    stated = [trace_records(file, layout, n, n + 1)["header"].tobytes()[114:118] for n in numbers.tolist()]
    return any(stated[0]) and stated.count(stated[0]) > 0.75 * len(stated)


def trace_records(file, layout, first, last):
    """Traces from number `first` to before `last` as stored; a large span is mapped, and only what is used is read."""
    trace = layout.trace
    start, size = layout.start + first * trace.itemsize, (last - first) * trace.itemsize
    if size < 1 << 18:
        file.seek(start)
        return np.frombuffer(file.read(size), trace, last - first)
    page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    window = mmap.mmap(file.fileno(), start + size - page, offset=page, access=mmap.ACCESS_READ)
    return np.frombuffer(window, trace, last - first, start - page)


def sample_headers(file, layout, *, n_blocks=32, block=128):
    """Headers of some thousand traces, shape (n_blocks, block): blocks of neighbours spread evenly over the file."""
    if layout.n_traces <= n_blocks * block:
        return trace_records(file, layout, 0, layout.n_traces)["header"][None].copy()
    firsts = np.linspace(0, layout.n_traces - block, n_blocks).astype(np.int64).tolist()
    return np.stack([trace_records(file, layout, first, first + block)["header"] for first in firsts])


def find_grid(file, layout, headers, *, header_bytes):
    """Header bytes of inline and crossline, given or found, and the grid that they make."""
    pairs = HEADER_BYTES if header_bytes is None else [tuple(map(int, header_bytes))]
    if len(pairs[0]) != 2 or not all(1 <= byte <= HEADER_SIZE - 3 for byte in pairs[0]):
        raise ValueError(
            f"Header bytes are {header_bytes}; give two from 1 to {HEADER_SIZE - 3}, inline and crossline."
        )
    likeness = np.array([line_likeness(*(word_at(headers, byte, layout.order) for byte in pair)) for pair in pairs])
    # Of pairs that look good enough the usual one is right: on short lines it has fewer steady steps than a counter.
    for i in np.argsort(np.where(likeness > 0.7, 0, 1 - likeness), kind="stable"):
        grid = make_grid(*read_runs(file, layout, pairs[i])) if likeness[i] > 0 else None
        if grid is not None:
            return pairs[i], grid
    tried = ", ".join(f"{inline}/{crossline}" for inline, crossline in pairs)
    raise ValueError(
        f"{layout.path}: header bytes {tried} do not look like inline/crossline of a stacked volume; "
        "pass --header-bytes IL,XL."
    )


def line_likeness(inline, crossline):
    """How much two header words behave as line labels, from 0 to 1: no position twice, one label steady at each step.

    Examples
    --------
    >>> line_likeness(np.array([[7, 7, 7]]), np.array([[1, 2, 3]]))
    1.0
    >>> line_likeness(np.array([[7, 7, 7]]), np.array([[1, 1, 1]]))
    0.0
    """
    position = inline.astype(np.int64) << 32 | crossline.astype(np.int64) & 0xFFFFFFFF
    distinct = len(np.unique(position)) / position.size
    steady = (np.diff(inline) == 0) != (np.diff(crossline) == 0)
    # Unsorted files have no steady steps, and positions held twice are the worse sign.
    return 0.0 if distinct < 0.5 else distinct**2 * (1 + (float(steady.mean()) if steady.size else 1.0)) / 2


def read_runs(file, layout, header_bytes):
    """Labels of all traces as runs, and the numbers of those marked dead."""
    words = {
        "inline": (header_bytes[0], "i4"),
        "crossline": (header_bytes[1], "i4"),
        "mark": TRACE_WORDS["identification"],
    }
    kind = words_dtype(words, first=1, size=layout.trace.itemsize, order=layout.order)
    step = max(1, WINDOW // kind.itemsize)
    runs, dead = [], []
    for first in range(0, layout.n_traces, step):
        window = trace_records(file, layout, first, min(first + step, layout.n_traces)).view(kind)
        runs.append(find_runs(window["inline"], window["crossline"], first=first))
        dead.append(first + np.flatnonzero(window["mark"] == DEAD))
    return np.concatenate(runs), np.concatenate(dead)


def sampling(binary, words, *, unit):
    """Sample interval and first sample, in ms or m, and remarks where the headers do not agree on them."""
    traced, delay = commonest(words["interval"]), commonest(words["delay"])
    interval = int(binary["interval"]) or traced
    remarks = []
    if not interval:
        remarks.append("no sample interval in the headers, 4 ms (or m) assumed")
    elif traced not in (0, interval):
        remarks.append(f"the binary header says a sample interval of {interval} us, the traces {traced} us")
    if np.any(words["delay"] != delay):
        remarks.append(f"the delay differs between traces, {delay} taken for all")
    return (interval or 4000) / 1000 * unit, delay * unit, remarks


def commonest(values):
    """The value that occurs most often."""
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])


def coordinate_scalars(headers):
    """What the coordinates of trace headers are multiplied by; a negative scalar in a file divides, 0 is 1.

    Examples
    --------
    >>> coordinate_scalars({"scalar": np.array([-100, 0, 10], "i2")}).tolist()
    [0.01, 1.0, 10.0]
    """
    scalar = headers["scalar"].astype(np.float64)
    return np.where(scalar < 0, -1 / np.where(scalar < 0, scalar, 1), np.where(scalar == 0, 1, scalar))


def find_bin_size(words, rows, columns, *, metres):
    """Metres between neighbouring inlines and crosslines by coordinates of some traces, None if they do not tell."""
    if commonest(words["coordinate_units"]) > 1:  # angles
        return None
    scalar = coordinate_scalars(words) * metres
    for name in ("cdp", "source"):
        steps = fit_steps(rows, columns, (words[f"{name}_x"] + 1j * words[f"{name}_y"]) * scalar)
        if steps is not None:
            return steps
    return None


def fit_steps(rows, columns, points):
    """Distances from row to row and column to column of points x + iy, NaN where there is one; None if no grid."""
    known = np.isfinite(points)
    if known.sum() < 2:
        return None
    rows, columns, points = rows[known], columns[known], points[known]
    varies = [np.ptp(rows) > 0, np.ptp(columns) > 0]
    design = np.column_stack([np.ones(len(rows)), rows, columns]).astype(np.complex128)[:, [True, *varies]]
    kept = np.ones(len(rows), bool)
    for _ in range(5):  # a few wild coordinates must not tilt the fit
        steps, _, rank, _ = np.linalg.lstsq(design[kept], points[kept])
        off = np.abs(points - design @ steps)
        kept = off <= 3 * np.median(off) + 1e-6
    lengths = np.full(2, np.nan)
    lengths[varies] = np.abs(steps[1:])
    if rank < design.shape[1] or not any(varies) or not np.nanmin(lengths) > 2 * np.median(off):
        return None
    return tuple(np.round(lengths, 2).tolist())


def decode_text(raw):
    """Text header, EBCDIC or ASCII, as lines without what cannot be printed."""
    readings = [raw.decode(code) for code in ("cp037", "latin-1")]
    text = max(readings, key=lambda text: sum(c.isascii() and (c.isalnum() or c == " ") for c in text))
    text = "".join(c if c.isascii() and c.isprintable() else " " for c in text)
    return "\n".join(text[i : i + 80].rstrip() for i in range(0, len(text), 80)).rstrip()


def read(geometry, rows, columns, *, samples=slice(None)):
    """Amplitudes of a block of a SEG-Y volume, NaN where a trace is missing or dead.

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
            block[part] = decode(stored_samples(file, geometry.layout, wanted[part], samples), geometry.layout.format)
    return block.reshape(len(rows), len(columns), n_samples)


def stored_samples(file, layout, numbers, samples):
    """Samples as stored of traces in ascending order, read by runs of neighbours."""
    stride = layout.trace.itemsize
    jumps = np.diff(numbers) > 1 + NEAR // stride
    turns = np.diff(numbers // max(1, WINDOW // stride)) > 0
    cuts = (np.flatnonzero(jumps | turns) + 1).tolist()
    runs = []
    for low, high in itertools.pairwise([0, *cuts, len(numbers)]):
        first, last = int(numbers[low]), int(numbers[high - 1]) + 1
        run = trace_records(file, layout, first, last)["samples"][:, samples]
        runs.append(run if high - low == last - first else run[numbers[low:high] - first])
    return runs[0] if len(runs) == 1 else np.concatenate(runs)


def decode(stored, format):
    """Samples as stored in a SEG-Y format as float32; what float32 cannot hold becomes infinite or zero.

    Examples
    --------
    >>> decode(np.array([0x41100000, 0xC276A000, 0], ">u4"), format=1)
    array([   1.   , -118.625,    0.   ], dtype=float32)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if format != 1:
            return stored.astype(np.float32)
        bits = stored.astype(np.uint32)
        fraction = (bits & 0xFFFFFF).astype(np.float32)
        power = (bits >> 22 & 0x1FC).astype(
            np.int32
        ) - 280  # four times (exponent - 64), less the 24 bits of the fraction
        return np.copysign(np.ldexp(fraction, power), bits.view(np.float32))


def ibm_bits(x):
    """Bits of the IBM single-precision numbers nearest to `x`; NaN, which IBM cannot say, becomes 0.

    Notes
    -----
    A number is ``sign * fraction / 2**24 * 16**(exponent - 64)`` with 24 bits of fraction and 7 of exponent.

    Examples
    --------
    >>> [hex(bits) for bits in ibm_bits(np.array([1.0, -118.625, 0.0]))]
    ['0x41100000', '0xc276a000', '0x0']
    """
    bits = np.asarray(x, np.float32).view(np.uint32)
    exponent = (bits >> 23 & 0xFF).astype(np.int32) - 126  # x = mantissa / 2**24 * 2**exponent
    exponent16 = exponent + 3 >> 2
    shift = (4 * exponent16 - exponent).astype(np.uint32)
    fraction = (bits & 0x7FFFFF | 0x800000) + (np.uint32(1) << shift >> 1) >> shift
    sign = bits & 0x80000000
    words = sign | (exponent16 + 64).astype(np.uint32) << 24 | fraction
    words = np.where(exponent == -126, sign, words)  # zero, and what float32 holds with fewer digits
    return np.where(exponent < 129, words, np.where(bits & 0x7FFFFF == 0, sign | 0x7FFFFFFF, 0)).astype(np.uint32)


def encode(x, *, format, order=">"):
    """Samples as a SEG-Y format stores them: IBM bits, or rounded and clipped where the format is an integer.

    Examples
    --------
    >>> encode([0.4, 3.6, -900.0], format=8)
    array([   0,    4, -128], dtype=int8)
    """
    kind = np.dtype(order + FORMATS[format])
    if format == 1:
        return ibm_bits(x).astype(kind)
    if kind.kind == "f":
        return np.asarray(x).astype(kind)
    limits = np.iinfo(kind)
    return np.clip(np.rint(np.nan_to_num(np.asarray(x, np.float64))), limits.min, limits.max).astype(kind)


def text_header(text):
    """Text as the 3200 EBCDIC bytes (40 lines of 80 characters) that open a SEG-Y file.

    Examples
    --------
    >>> text_header("Label volume").decode("cp037")[:15]
    'C 1 Label volum'
    """
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 75) or [""]]
    if len(lines) > 38:
        raise ValueError(f"The text header needs {len(lines)} lines of 75 characters; shorten it to 38.")
    lines += [""] * (38 - len(lines)) + ["SEG Y REV1", "END TEXTUAL HEADER"]
    card = "".join(f"C{number:2d} {line}".ljust(80) for number, line in enumerate(lines, 1))
    return card.encode("ascii", "replace").decode("ascii").encode("cp037")


@contextlib.contextmanager
def create(path, inlines, crosslines, times, *, bin_size=(25.0, 25.0), grid=None, text="", format=5):
    """Write a SEG-Y file inline by inline; it appears under its name only when it is whole.

    Parameters
    ----------
    path : path
        File to make; one of that name is replaced on success and left alone on failure.
    inlines, crosslines : array of int
        Survey labels of the lines.
    times : array, shape (n_sample,)
        Two-way time of the samples in ms, evenly spaced, beginning at a whole millisecond.
    bin_size : (float, float)
        Metres between neighbouring inlines and between neighbouring crosslines: X along crosslines, Y along inlines.
    grid : three pairs of float, optional
        X and Y instead: of inline 0 and crossline 0, then the steps per inline number and per crossline number.
    text : str
        Lines of the text header.
    format : int
        SEG-Y sample format: 5 IEEE float, 1 IBM float, 2, 3 and 8 integers of 32, 16 and 8 bits.

    Yields
    ------
    write : callable
        ``write(row, section)`` stores inline number `row`, shape (n_crossline, n_sample), in any order. A trace that
        is NaN throughout is marked dead.
    """
    inlines, crosslines, times = np.asarray(inlines), np.asarray(crosslines), np.asarray(times, np.float64)
    if not inlines.size or not crosslines.size or not times.size:
        raise ValueError(
            f"A volume of {len(inlines)} x {len(crosslines)} x {len(times)} is empty; give every axis a label."
        )
    interval = check_times(times)
    check_format(format)
    binary = np.zeros(1, binary_dtype())
    binary["interval"], binary["samples"], binary["format"], binary["sorting"] = interval, len(times), format, 4
    binary["units"] = binary["revision"] = binary["fixed_length"] = 1
    line = np.zeros(len(crosslines), [("header", trace_dtype()), ("samples", ">" + FORMATS[format], len(times))])
    fill_headers(line["header"], crosslines, delay=times[0], interval=interval, n_samples=len(times))
    written = np.zeros(len(inlines), bool)

    with whole_file(path) as aside, open(aside, "wb") as file:
        file.write(text_header(text) + binary.tobytes())

        def write(row, section):
            section = np.asarray(section)
            check_section(row, section, line["samples"].shape)
            dead = np.isnan(section).all(1)
            number = 1 + row * len(crosslines) + np.arange(len(crosslines))
            line["header"]["line_sequence"] = line["header"]["file_sequence"] = number
            line["header"]["record"] = line["header"]["inline"] = inlines[row]
            line["header"]["identification"] = np.where(dead, DEAD, 1)
            x, y = trace_places(row, inlines[row], crosslines, bin_size=bin_size, grid=grid)
            line["header"]["cdp_x"] = line["header"]["source_x"] = x
            line["header"]["cdp_y"] = line["header"]["source_y"] = y
            line["samples"] = encode(np.where(dead[:, None], 0, section), format=format)
            file.seek(TEXT_SIZE + BINARY_SIZE + int(row) * line.nbytes)
            file.write(line.tobytes())
            written[row] = True

        yield write
        check_written(path, written)


@contextlib.contextmanager
def create_like(path, geometry, *, text="", format=5):
    """Write a volume on the grid of a SEG-Y file with the trace headers of that file, byte for byte.

    Parameters
    ----------
    path : path
        File to make, whole or not at all.
    geometry : Geometry
        The scanned file; of its binary header only the format changes, and extended text headers are left out.
    text : str
        Lines of the text header: what this volume is.
    format : int
        SEG-Y sample format.

    Yields
    ------
    write : callable
        ``write(row, section)`` stores inline number `row`, shape (n_crossline, n_sample), in any order; traces that
        the source holds twice or marks dead get their samples too.
    """
    check_format(format)
    source = geometry.layout
    target = source._replace(format=format, start=TEXT_SIZE + BINARY_SIZE)
    written = np.zeros(len(geometry.inlines), bool)
    with open(source.path, "rb") as original, whole_file(path) as aside, open(aside, "wb") as file:
        opening = bytearray(original.read(target.start))
        binary = np.frombuffer(opening, binary_dtype(source.order), 1, TEXT_SIZE)
        binary["format"] = format
        if source.start != target.start:
            binary["extended_text"] = binary["first_trace"] = 0
        file.write(text_header(text) + opening[TEXT_SIZE:])
        across = np.arange(len(geometry.crosslines))

        def write(row, section):
            check_section(row, section, (len(geometry.crosslines), source.n_samples))
            numbers, _, columns = geometry.traces.inside(np.array([row]), across)
            cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
            for run, own in zip(np.split(numbers, cuts), np.split(columns, cuts), strict=True) if len(numbers) else []:
                traces = np.empty(len(run), target.trace)
                traces["header"] = trace_records(original, source, int(run[0]), int(run[-1]) + 1)["header"]
                traces["samples"] = encode(section[own], format=format, order=target.order)
                file.seek(target.start + int(run[0]) * target.trace.itemsize)
                file.write(traces.tobytes())
            written[row] = True

        yield write
        check_written(path, written)


def check_format(format):
    """Refuse a sample format that is not known."""
    if format not in FORMATS:
        raise ValueError(f"SEG-Y format is {format}; choose one of {', '.join(map(str, FORMATS))}.")


def check_section(row, section, shape):
    """Refuse a section that does not fit the file."""
    if section.shape != shape:
        raise ValueError(f"Section {row} has shape {section.shape}; it must be {shape}.")


def check_written(path, written):
    """Refuse a file of which some inlines were never written."""
    if not written.all():
        missing = np.sum(~written)
        raise ValueError(f"{path}: {missing} of {len(written)} inlines were never written; write every row.")


def check_times(times):
    """Sample interval in whole microseconds of evenly spaced times in ms that SEG-Y headers can hold."""
    interval = round(1000 * (times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else 4000
    even = np.allclose(times, times[0] + np.arange(len(times)) * interval / 1000, rtol=0, atol=1e-3)
    if not even or not 0 < interval < 65536 or len(times) > 65535 or times[0] != np.int16(times[0]):
        raise ValueError(
            f"{len(times)} times from {times[0]} ms every {interval} us do not fit SEG-Y headers; "
            "give at most 65535, evenly spaced by 1 to 65535 us, from a whole millisecond."
        )
    return interval


def trace_places(row, inline, crosslines, *, bin_size, grid):
    """X and Y in whole centimetres of the traces of an inline, by bin sizes from the first trace on or by a grid."""
    if grid is None:
        places = np.column_stack(
            [np.arange(len(crosslines)) * bin_size[1], np.full(len(crosslines), row * bin_size[0])]
        )
    else:
        origin, inline_step, crossline_step = np.asarray(grid, np.float64)
        places = origin + inline * inline_step + np.asarray(crosslines)[:, None] * crossline_step
    places = np.rint(100 * places)
    if np.abs(places).max() > np.iinfo(np.int32).max:
        raise ValueError(f"X and Y reach {np.abs(places).max() / 100:.0f} m, more than SEG-Y headers hold in cm.")
    return places.T


def fill_headers(headers, crosslines, *, delay, interval, n_samples):
    """Set what the trace headers of every inline have in common."""
    headers["crossline"] = headers["cdp"] = crosslines
    headers["scalar"] = -100  # coordinates in centimetres
    headers["coordinate_units"] = 1
    headers["delay"], headers["interval"], headers["samples"] = delay, interval, n_samples


def class_table_path(path):
    """Name of the class table of a file or folder of labels."""
    return Path(f"{path}.classes.toml")


def write_class_table(path, classes):
    """Write the names of the codes in a label SEG-Y beside it; 0 always means not labelled, 255 or -1 uncertain.

    Parameters
    ----------
    path : path
        The SEG-Y file; the table becomes ``path + ".classes.toml"``.
    classes : list of str
        Code i + 1 means ``classes[i]``.
    """
    rows = [f"{code} = {json.dumps(str(name), ensure_ascii=False)}\n" for code, name in enumerate(classes, 1)]
    with whole_file(class_table_path(path)) as aside:
        opening = "# Codes of the labels; 0 is not labelled, 255 (-1 in format 8) uncertain.\n[classes]\n"
        aside.write_text(opening + "".join(rows), encoding="utf-8")


def read_class_table(path):
    """Names of the codes in a label SEG-Y, by code from 1 on, from the table beside it.

    Returns
    -------
    classes : list of str
        Code i + 1 means ``classes[i]``, a code without a name is called ``code N``; empty where no table lies beside
        the file.
    """
    table = class_table_path(path)
    try:
        classes = tomllib.loads(table.read_text("utf-8"))["classes"]
        names = {int(code): str(name) for code, name in classes.items() if 0 < int(code) < 256}
        return [names.get(code, f"code {code}") for code in range(1, max(names) + 1)]
    except FileNotFoundError:
        return []
    except (KeyError, AttributeError, ValueError) as error:
        raise ValueError(
            f'{table} is not a class table ({error}); write lines such as 1 = "fault" under [classes].'
        ) from None
