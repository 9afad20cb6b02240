"""Open ZGY files: pyzgy reads the headers, and samples are read from the bricks of the file.

A ZGY file has a grid of bricks, usually 64 x 64 x 64 samples, and a table of their positions. pyzgy (OpenZGY) reads
the headers and the table, and decodes compressed bricks. Only the requested part of an uncompressed brick is read, so
reading a line takes about as long as in SEG-Y.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import io
import itertools
import math
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.storage.kept import Kept
from outcrop.volumes.lazy import Key, check_axes, lazy_volume
from outcrop.volumes.segy_headers import number_name

Array = npt.NDArray[Any]
Three = tuple[int, int, int]
MAGIC = b"VBS\0"
LARGEST_BRICK = 1 << 26  # bytes; 64 x 64 x 64 samples take 1 MB
SMALL = 1 << 18  # bytes; a smaller part of a brick is read, a larger one is mapped
MOST_LINES = 10**7  # as in `outcrop.volumes.opening`
# Entries of the table of bricks: the highest byte is the kind, the others the start of the brick or its constant value.
EMPTY, CONSTANT, COMPRESSED = 0x00, 0x80, 0xC0
ZEROS = np.uint64(CONSTANT << 56)  # version 1 stores it as 1
PLACE = np.uint64((1 << 56) - 1)
TYPES = {"int8": "<i1", "int16": "<i2", "float": "<f4"}

_decoded = Kept()
_output_lock = threading.RLock()  # because output is redirected for all threads


@dataclasses.dataclass(frozen=True)
class Layout:
    """Positions of the bricks of a ZGY file, and its axes.

    Attributes
    ----------
    path : str
    stamp : (int, int)
        Size and modification time (ns) of the opened file.
    version : int
        Version of the format, 1 to 4.
    shape, brick : (int, int, int)
        Samples of the volume and of a brick along inline, crossline and depth or time.
    type : str
        NumPy type of the samples as stored.
    factor, offset : float
        Amplitude = factor * stored sample + offset.
    table : array of uint64, shape (bricks along inline, along crossline, downwards)
        One entry for each brick at full resolution: its kind, and its first byte in the file or its constant value.
    inlines, crosslines, samples : array
        Line numbers, ascending; times in ms, depths in m, or numbers as stored if the file does not state their unit.
    reversed : (bool, bool)
        Whether the inline numbers and the crossline numbers descend in the file.
    domain : {"time", "depth"} or None
        None if the file does not state it.
    unit : str
        Unit of the sample axis as named in the file, empty if the file does not state what the axis measures.
    grid : tuple or None
        Origin (X, Y), and the steps (X, Y) per inline number and per crossline number; None if the corners of the
        survey span no area.
    bin_size : (float, float) or None
        Metres between neighbouring inlines and between neighbouring crosslines; None if the file does not state that X
        and Y are lengths.
    """

    path: str
    stamp: tuple[int, int]
    version: int
    shape: Three
    brick: Three
    type: str
    factor: float
    offset: float
    table: Array
    inlines: Array
    crosslines: Array
    samples: Array
    reversed: tuple[bool, bool]
    domain: str | None
    unit: str
    grid: tuple[Any, ...] | None
    bin_size: tuple[float, ...] | None

    def live(self) -> Array:
        """Return a mask of the traces that have a brick at any depth, shape (n_inline, n_crossline)."""
        columns = (self.table != EMPTY).any(2)
        return np.asarray(columns[np.ix_(self.stored(0) // self.brick[0], self.stored(1) // self.brick[1])])

    def stored(self, axis: int, positions: Any = slice(None)) -> Array:
        """Convert positions on an axis of the volume (0 inline, 1 crossline) to positions on this axis in the file."""
        order = np.arange(self.shape[axis])
        return np.asarray((order[::-1] if self.reversed[axis] else order)[positions])


def open_zgy(path: str, *, domain: str | None) -> xr.DataArray:
    """Open a ZGY file as a volume; see `outcrop.open_volume`."""
    layout = scan(path)
    if domain and layout.domain and domain != layout.domain:
        raise ValueError(f"{path} says that its samples are {layout.domain}, not {domain}; leave the domain out.")
    name, samples = layout.domain or domain or "time", layout.samples
    attrs: dict[str, Any] = {"source": path, "format": f"ZGY {layout.version}, {number_name(layout.type)}"}
    attrs |= {"domain": name, "scaled": False, "notes": [], "bin_size": layout.bin_size, "map": layout.grid}
    if layout.domain:
        attrs["sample_interval"] = float(samples[1] - samples[0]) if len(samples) > 1 else 0.0
        attrs["delay"] = float(samples[0])
    else:
        attrs["unit"] = ""
        attrs["notes"] = [f"the file does not state what its samples measure; they are taken as {name}"]
    axes = {"inline": layout.inlines, "crossline": layout.crosslines, name: samples}
    volume = lazy_volume(functools.partial(read, layout), axes, attrs, live=layout.live())
    check_axes(volume)
    return volume


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output and warnings of OpenZGY about missing modules, headers and open files."""
    with _output_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield


def openzgy() -> Any:
    """Return the API of OpenZGY, which is part of pyzgy."""
    if importlib.util.find_spec("openzgy") is None:
        raise ImportError("pip install 'outcrop[zgy]'")
    with _quiet():
        from openzgy import api
    return api


def scan(path: str) -> Layout:
    """Return the layout of a ZGY file from its headers; samples are not read.

    Raises
    ------
    ValueError
        pyzgy is not installed, or the headers are damaged.
    """
    path = os.path.abspath(path)
    try:
        api = openzgy()
    except ImportError as error:
        raise ValueError(f"{path} is a ZGY file, which pyzgy reads; install it with {error}.") from None
    stat = os.stat(path)
    with _quiet():
        try:
            with api.ZgyReader(path) as reader:
                return _layout(reader, path, (stat.st_size, stat.st_mtime_ns))
        except ImportError as error:
            problem = f"{path} is a compressed ZGY file, which zfpy decodes; install it with {error}."
        except Exception as error:  # OpenZGY raises errors of any type for damaged headers
            why = " ".join(str(error).split()) or type(error).__name__
            problem = f"{path} is a ZGY file with damaged headers ({why}); copy it again from its origin."
    raise ValueError(problem)  # outside of `except`: the error of OpenZGY would keep the file open


def _layout(reader: Any, path: str, stamp: tuple[int, int]) -> Layout:
    """Return the layout of a ZGY file from its open reader; raise `ValueError` for impossible headers."""
    headers = reader._meta
    version = int(headers._fh._version)
    shape, brick = map(_three, (reader.size, reader.bricksize))
    if not all(0 < n <= MOST_LINES for n in shape):
        raise ValueError(f"impossible size: {shape} inlines, crosslines and samples")
    kind = np.dtype(TYPES[reader.datatype.name])
    if not all(0 < n <= LARGEST_BRICK for n in brick) or math.prod(brick) * kind.itemsize > LARGEST_BRICK:
        raise ValueError(f"they state bricks of {brick} samples")
    count = tuple(-(-n // size) for n, size in zip(shape, brick, strict=True))
    first = int(headers._ih._brickoffsets[0])
    table = np.array(headers._blup._lookup[first : first + math.prod(count)], np.uint64).reshape(count[::-1]).T
    table[table == 1] = ZEROS
    begin = 0 if version == 1 else int(headers._oh._bricklupoff + headers._oh._bricklupsize)
    _check_table(table, math.prod(brick) * kind.itemsize, begin=begin, end=stamp[0])
    factor, offset = map(float, reader._accessor._scaleDataFactorsStorageToFloat())
    if not (math.isfinite(factor) and math.isfinite(offset)):
        raise ValueError(f"they state amplitudes of {factor} times the stored samples plus {offset}")
    samples, domain, unit = _sample_axis(reader)
    grid, bin_size = _survey(reader)
    labels = [_labels(reader, axis) for axis in (0, 1)]
    inlines, crosslines = (np.sort(axis) for axis in labels)
    return Layout(
        path=path,
        stamp=stamp,
        version=version,
        shape=shape,
        brick=brick,
        type=kind.str,
        factor=factor,
        offset=offset,
        table=table,
        inlines=inlines,
        crosslines=crosslines,
        samples=samples,
        reversed=(bool(labels[0][0] > labels[0][-1]), bool(labels[1][0] > labels[1][-1])),
        domain=domain,
        unit=unit,
        grid=grid,
        bin_size=bin_size,
    )


def _three(sizes: Any) -> Three:
    first, second, third = map(int, sizes)
    return first, second, third


def _check_table(table: Array, size: int, *, begin: int, end: int) -> None:
    """Raise `ValueError` if a brick of `size` bytes has an unknown kind, or lies in the headers or beyond the file."""
    kinds, starts = table >> np.uint64(56), table & PLACE
    plain, packed = (kinds == 0) & (table != EMPTY), kinds == COMPRESSED
    if not (plain | packed | (table == EMPTY) | (kinds == CONSTANT)).all():
        raise ValueError("its table of bricks has entries of an unknown kind")
    if (starts[plain | packed] < begin).any():
        raise ValueError("its table of bricks points into its headers")
    beyond = int((plain & (starts + np.uint64(size) > end)).sum() + (packed & (starts >= end)).sum())
    if beyond:
        raise ValueError(f"{beyond} of {table.size} bricks lie beyond the end of the file, which is truncated")
    if packed.any() and importlib.util.find_spec("zfpy") is None:
        raise ImportError("pip install zfpy")  # `scan` puts the reason before this command


def _labels(reader: Any, axis: int) -> Array:
    """Return the inline numbers (`axis` 0) or crossline numbers (1) in the order of the file.

    They are integers if all of them are whole numbers.
    """
    first, step = float(reader.annotstart[axis]), float(reader.annotinc[axis])
    labels = first + step * np.arange(reader.size[axis])
    if not np.isfinite(labels).all() or np.abs(labels).max() > MOST_LINES or (step == 0 and len(labels) > 1):
        raise ValueError(f"its {('inline', 'crossline')[axis]} numbers begin at {first:g} with a step of {step:g}")
    return labels.astype(np.int64) if np.array_equal(labels, np.rint(labels)) else labels


def _sample_axis(reader: Any) -> tuple[Array, str | None, str]:
    """Return (samples, domain, unit): times in ms or depths in m; ``time`` or ``depth``; the unit named in the file.

    If the file does not state what its samples measure, `samples` are the stored values, the domain is None, and the
    unit is empty.
    """
    domain = {"time": "time", "length": "depth"}.get(reader.zunitdim.name)
    scale = float(reader.zunitfactor) * (1000 if domain == "time" else 1) if domain else 1.0  # to ms or m
    first, step = (round(float(value) * scale, 4) for value in (reader.zstart, reader.zinc))
    samples = first + step * np.arange(reader.size[2])
    if not np.isfinite(samples).all() or not step > 0:
        raise ValueError(f"its samples begin at {first:g} in steps of {step:g} {'m' if domain == 'depth' else 'ms'}")
    return samples, domain, " ".join(str(reader.zunitname or "").split()) if domain else ""


def _survey(reader: Any) -> tuple[tuple[Any, ...] | None, tuple[float, ...] | None]:
    """Return (grid, bin_size) as in `Layout`, computed from the corners of the survey; None for an unknown one."""
    if reader.corners is None or reader.hunitdim.name == "arcangle" or min(reader.size[:2]) < 2:
        return None, None
    known = reader.hunitdim.name == "length"
    corners = np.array(reader.corners, float) * (float(reader.hunitfactor) if known else 1.0)
    steps = [(corner - corners[0]) / (n - 1) for corner, n in zip(corners[1:3], reader.size, strict=False)]
    lengths = [float(np.hypot(*step)) for step in steps]
    area = abs(steps[0][0] * steps[1][1] - steps[0][1] * steps[1][0])
    if not np.isfinite(corners).all() or not area > 0.1 * math.prod(lengths):
        return None, None
    per_line = [step / float(number) for step, number in zip(steps, reader.annotinc, strict=True)]
    origin = corners[0] - sum(step * float(first) for step, first in zip(per_line, reader.annotstart, strict=True))
    grid = tuple(tuple(part.tolist()) for part in (origin, *per_line))
    return grid, tuple(round(length, 2) for length in lengths) if known else None


def read(layout: Layout, key: Key) -> Array:
    """Read the amplitudes of a block of a ZGY volume; a trace without a brick at any depth is NaN.

    Parameters
    ----------
    layout : Layout
    key : three slices or arrays of int
        Positions along inline, crossline and time or depth.

    Returns
    -------
    block : array of float32
    """
    places = (layout.stored(0, key[0]), layout.stored(1, key[1]), np.arange(layout.shape[2])[key[2]])
    sorted_places, back = zip(*(np.unique(place, return_inverse=True) for place in places), strict=True)
    block = np.empty([len(place) for place in sorted_places], np.float32)
    groups = [_by_brick(place, size) for place, size in zip(sorted_places, layout.brick, strict=True)]
    empty = ~(layout.table != EMPTY).any(2)
    with open(layout.path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != layout.stamp[0]:
            raise ValueError(f"{layout.path} has changed since it was opened; open it again.")
        for parts in itertools.product(*groups):
            number, out, inside = zip(*parts, strict=True)
            block[out] = np.nan if empty[number[:2]] else _read_brick(file, layout, number, inside)
    if all(np.array_equal(order, np.arange(len(order))) for order in back):
        return block
    return np.asarray(block[np.ix_(*back)])


def _by_brick(places: Array, size: int) -> list[tuple[int, slice, Any]]:
    """Group ascending positions on an axis by the brick in which they lie; `size` is the length of a brick.

    Return (brick number, indices of its positions in `places`, positions within the brick) for each brick.

    Examples
    --------
    >>> _by_brick(np.array([62, 63, 64, 66]), size=64)
    [(0, slice(0, 2, None), slice(62, 64, None)), (1, slice(2, 4, None), array([0, 2]))]
    """
    if not len(places):
        return []
    cuts = np.flatnonzero(np.diff(places // size)) + 1
    found = []
    for first, last in itertools.pairwise([0, *cuts.tolist(), len(places)]):
        number, inside = int(places[first] // size), places[first:last] % size
        whole = inside[-1] - inside[0] + 1 == len(inside)
        found.append((number, slice(first, last), slice(int(inside[0]), int(inside[-1]) + 1) if whole else inside))
    return found


def _read_brick(file: BinaryIO, layout: Layout, number: Three, inside: Key) -> Any:
    """Read the amplitudes of a part of a brick; return a single number if the brick is constant.

    `number` is the position of the brick in the table of the layout, `inside` selects the part within the brick.
    """
    entry = int(layout.table[number])
    if entry == EMPTY:
        return np.float32(0)
    if entry >> 56 == COMPRESSED or layout.version == 1:
        stored = _decoded.get((layout.path, layout.stamp, number), functools.partial(_decode, layout, number))
        return _select(stored, inside)
    kind = np.dtype(layout.type)
    if entry >> 56 == CONSTANT:
        stored = np.frombuffer((entry & int(PLACE)).to_bytes(8, "little")[: kind.itemsize], kind)[0]
    else:
        stored = _read_plain(file, entry, layout.brick, kind, inside)
    if kind.kind == "f":
        return stored
    return np.asarray(stored, np.float32) * np.float32(layout.factor) + np.float32(layout.offset)


def _select(brick: Array, inside: Key) -> Array:
    """Return the part of a brick that slices or arrays of positions select along each axis."""
    for axis, places in enumerate(inside):
        brick = brick[(slice(None),) * axis + (places,)]
    return brick


def _read_plain(file: BinaryIO, start: int, brick: Three, kind: np.dtype[Any], inside: Key) -> Array:
    """Read a part of an uncompressed brick that begins at byte `start`; a large part is memory-mapped."""
    row, rows = brick[1] * brick[2] * kind.itemsize, inside[0]
    first, last = (rows.start, rows.stop) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]) + 1)
    begin, size = start + first * row, (last - first) * row
    if size < SMALL:
        file.seek(begin)
        found = np.frombuffer(file.read(size), kind)
    else:
        found = np.memmap(file, kind, "r", begin, (size // kind.itemsize,))
    places = slice(0, last - first) if isinstance(rows, slice) else rows - first
    return _select(found.reshape(last - first, *brick[1:]), (places, *inside[1:]))


def _decode(layout: Layout, number: Three) -> Array:
    """Return the amplitudes of a whole brick, decoded by OpenZGY: a compressed brick, or one in a file of version 1."""
    brick = np.zeros(layout.brick, np.float32)
    with openzgy().ZgyReader(layout.path) as reader:
        reader.read(tuple(n * size for n, size in zip(number, layout.brick, strict=True)), brick)
    return brick
