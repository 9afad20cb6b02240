"""Find the positions of the traces in a SEG-Y file from its headers and its size."""

import functools
import math
import mmap
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from outcrop.volumes import segy_headers
from outcrop.volumes.segy_headers import BINARY_SIZE, ENDIANS, FORMATS, HEADER_SIZE, TEXT_SIZE

Array = npt.NDArray[Any]
WINDOW = 1 << 26  # bytes of the file that are mapped at a time
SAMPLED = (32, 128)  # number of blocks of which headers are read, and number of traces in each block
MOST_EXTENSIONS = 64  # largest number of further headers of a trace; a larger number in the file is not valid


@functools.lru_cache
def trace_type(kind: str, n_samples: int, extensions: int = 0) -> np.dtype[Any]:
    """Return the NumPy type of a stored trace: its headers, and `n_samples` samples of type `kind`.

    `extensions` is the number of further trace headers of 240 bytes after the first one.
    """
    start = HEADER_SIZE * (1 + extensions)
    samples = np.dtype((kind, n_samples))
    return np.dtype(
        {
            "names": ["header", "samples"],
            "formats": [f"V{HEADER_SIZE}", samples],
            "offsets": [0, start],
            "itemsize": start + samples.itemsize,
        }
    )


class Layout(NamedTuple):
    """Positions of the traces in a SEG-Y file, and type of their samples."""

    path: str
    order: str  # byte order in NumPy's notation, < or >
    format: int
    start: int  # byte of the first trace
    n_samples: int
    n_traces: int
    extensions: int = 0  # further trace headers of 240 bytes, between the first one and the samples

    @property
    def trace(self) -> np.dtype[Any]:
        """NumPy type of one trace: header and samples."""
        return trace_type(self.order + FORMATS[self.format], self.n_samples, self.extensions)


def find_layout(
    file: BinaryIO, opening: bytes, *, path: str, size: int, endian: str | None
) -> tuple[Layout, list[str]]:
    """Return the `Layout` that fits the headers and the size of a SEG-Y file, and a list of notes.

    Each note names a header that contradicts the layout. `opening` has the text header and the binary header; `size` is
    the size of the file in bytes. `ValueError` is raised if no layout fits.
    """
    if size <= TEXT_SIZE + BINARY_SIZE + HEADER_SIZE:
        raise ValueError(f"{path} holds {size} bytes, too few for a SEG-Y file; is it empty or truncated?")
    binaries = {order: np.frombuffer(opening, segy_headers.binary_dtype(order), 1, TEXT_SIZE)[0] for order in ENDIANS}
    orders = [order for order, name in ENDIANS.items() if endian in (None, name)]
    order = next((order for order in orders if binaries[order]["format"] in FORMATS), None)
    if order is None:
        codes = " or ".join(str(binaries[order]["format"]) for order in orders)
        known = ", ".join(map(str, FORMATS))
        raise ValueError(f"{path} is not a SEG-Y file that can be read: its sample format is {codes}, none of {known}.")
    binary = binaries[order]
    starts = [start for start in trace_starts(binary) if start + HEADER_SIZE < size]
    file.seek(starts[0])
    first = np.frombuffer(file.read(HEADER_SIZE), segy_headers.trace_dtype(order))[0]
    stated = {"binary": int(binary["samples"]), "trace": int(first["samples"])}
    if binary["revision"] == 2:
        stated = {"extended binary": int(binary["long_samples"]), **stated}
    extensions = int(binary["extensions"]) if binary["revision"] == 2 else 0
    empty = Layout(path, order, int(binary["format"]), start=0, n_samples=0, n_traces=0)
    for number in (extensions, 0) if 0 < extensions <= MOST_EXTENSIONS else (0,):
        layout = fit_layout(file, empty._replace(extensions=number), size, starts=starts, counts=list(stated.values()))
        if layout:
            break
    else:
        raise ValueError(
            f"{path}: {size} bytes do not hold a whole number of traces of {stated['binary']} samples; "
            "the file is truncated or its headers are wrong."
        )
    return layout, [
        f"the {name} header says {count} samples, the file holds {layout.n_samples}"
        for name, count in stated.items()
        if count not in (0, layout.n_samples)
    ]


def trace_starts(binary: Any) -> list[int]:
    """Return the bytes at which the first trace may begin according to the binary header; the likeliest comes first.

    There are several, because the number of extended text headers before the first trace may be unknown or wrong.
    """
    extended = int(binary["extended_text"])
    counts = range(17) if extended < 0 else (extended, 0)  # -1: the number is not stated
    starts = [TEXT_SIZE + BINARY_SIZE + TEXT_SIZE * count for count in counts]
    stated = [int(binary["first_trace"])] if binary["revision"] == 2 else []
    return [start for start in stated + starts if start >= TEXT_SIZE + BINARY_SIZE]


def fit_layout(file: BinaryIO, layout: Layout, size: int, *, starts: list[int], counts: Iterable[int]) -> Layout | None:
    """Return the layout whose traces fill the file and whose trace headers agree; None if no layout fills the file.

    `starts` are possible first bytes of the first trace, and `counts` the numbers of samples per trace that headers
    state. `counts` are tried first, then all other numbers, for which the file must have at least four traces. If no
    trace headers agree, the first layout with a number in `counts` that fills the file is returned.
    """
    likely = filling(layout, size, starts=starts, counts=counts)
    for fit in likely:
        if headers_agree(file, fit):
            return fit
    for fit in filling(layout, size, starts=starts, counts=range(1, 1 << 16)):
        if fit.n_traces >= 4 and headers_agree(file, fit):
            return fit
    return likely[0] if likely else None


def filling(layout: Layout, size: int, *, starts: list[int], counts: Iterable[int]) -> list[Layout]:
    """Return all layouts whose last trace ends exactly at byte `size`, the end of the file.

    `starts` are possible first bytes of the first trace, `counts` possible numbers of samples per trace; all pairs are
    tried.
    """
    wanted = np.array([count for count in counts if count > 0], np.int64)
    strides = HEADER_SIZE * (1 + layout.extensions) + wanted * np.dtype(FORMATS[layout.format]).itemsize
    return [
        layout._replace(start=start, n_samples=int(wanted[i]), n_traces=int((size - start) // strides[i]))
        for start in starts
        for i in np.flatnonzero((size - start) % strides == 0)
    ]


def headers_agree(file: BinaryIO, layout: Layout) -> bool:
    """Return whether most of 16 traces across the file have the sample count and interval of the first trace."""
    numbers = np.linspace(0, layout.n_traces - 1, min(16, layout.n_traces)).astype(np.int64)
    stated = [trace_records(file, layout, n, n + 1)["header"].tobytes()[114:118] for n in numbers.tolist()]
    return any(stated[0]) and stated.count(stated[0]) > 0.75 * len(stated)


def trace_records(file: BinaryIO, layout: Layout, first: int, last: int) -> Array:
    """Return the traces `first` to `last` - 1 as stored; many traces are memory-mapped and read only when used."""
    trace = layout.trace
    start, size = layout.start + first * trace.itemsize, (last - first) * trace.itemsize
    if size < 1 << 18:
        file.seek(start)
        return np.frombuffer(file.read(size), trace, last - first)
    page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    window = mmap.mmap(file.fileno(), start + size - page, offset=page, access=mmap.ACCESS_READ)
    return np.frombuffer(window, trace, last - first, start - page)


def sample_headers(file: BinaryIO, layout: Layout) -> Array:
    """Return the trace headers of evenly spaced blocks of traces, shape `SAMPLED`.

    For a small file, return the headers of all traces, shape (1, n_traces).
    """
    if layout.n_traces <= math.prod(SAMPLED):
        return trace_records(file, layout, 0, layout.n_traces)["header"][None].copy()
    firsts = np.linspace(0, layout.n_traces - SAMPLED[1], SAMPLED[0]).astype(np.int64).tolist()
    return np.stack([trace_records(file, layout, first, first + SAMPLED[1])["header"] for first in firsts])
