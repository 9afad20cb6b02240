"""Lazy arrays for xarray: only the requested blocks are read from files, arrays and pictures."""

import functools
import math
import numbers
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from outcrop.storage.kept import Kept

Array = npt.NDArray[Any]
LINE_BYTES = 32 << 20  # bytes of lines kept in memory: about twenty lines of 951 x 462 samples
GREY = 16  # largest difference of red, green and blue in a grey pixel, also after lossy compression
COLOUR_NOTE = "the picture is in colour: brightness is taken as amplitude, which is wrong for most colour scales"
WHOLE_LINE = 4  # a block of at least a quarter of a line is cut from the whole line, which is kept
Key = tuple[Any, ...]  # a slice or an array of positions for each axis


class LazyVolume(BackendArray):
    """Array whose blocks are read when xarray needs them.

    Parameters
    ----------
    read : callable
        ``read(key)`` returns a block; `key` has a slice or an array of positions for each axis. It must be picklable.
    shape : (int, int, int)
    dtype : dtype
    computed : bool
        Whether the samples were computed, so that no file holds them.
    keep_lines : bool
        Whether the most recently read lines stay in memory.
    """

    def __init__(
        self,
        read: Callable[[Key], Array],
        shape: tuple[int, ...],
        dtype: npt.DTypeLike = np.float32,
        *,
        computed: bool = False,
        keep_lines: bool = False,
    ) -> None:
        self.read, self.shape, self.dtype, self.computed = read, tuple(shape), np.dtype(dtype), computed
        self.keep_lines, self._lines = keep_lines, Kept(LINE_BYTES)

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(LazyVolume, computed=self.computed, keep_lines=self.keep_lines)
        return make, (self.read, self.shape, self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LazyVolume":
        return self  # immutable

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.block)

    def block(self, key: Key) -> Array:
        """Read the block at an integer, a slice or an array of positions for each axis; an integer removes its axis."""
        wanted = tuple(
            np.array([k]) if isinstance(k, numbers.Integral) else np.arange(n)[k]
            for k, n in zip(key, self.shape, strict=True)
        )
        try:
            block = self._line(wanted) if self.keep_lines else self.read(tuple(map(as_slice, wanted)))
        except (ValueError, OSError):
            raise
        except Exception as error:  # decoders raise any type of error on damaged data
            why = f"Part of the volume cannot be read ({type(error).__name__}: {error})"
            raise OSError(f"{why}; check the file, or copy it again from its origin.") from error
        block = np.asarray(block, self.dtype)
        return block[tuple(0 if isinstance(k, numbers.Integral) else slice(None) for k in key)]

    def _line(self, wanted: tuple[Array, ...]) -> Array:
        """Read a block; if it is a large part of one line, read the whole line and keep it in memory."""
        alone = [axis for axis in (0, 1) if len(wanted[axis]) == 1]
        if len(alone) == 1 and WHOLE_LINE * math.prod(map(len, wanted)) >= math.prod(self.shape) / self.shape[alone[0]]:
            line = tuple(as_slice(some) if axis == alone[0] else slice(None) for axis, some in enumerate(wanted))
            whole = self._lines.get((alone[0], int(wanted[alone[0]][0])), lambda: np.asarray(self.read(line)))
            part = tuple(slice(None) if axis == alone[0] else as_slice(some) for axis, some in enumerate(wanted))
            return whole[part[0]][:, part[1]][:, :, part[2]].copy()
        return self.read(tuple(map(as_slice, wanted)))


def lazy_source(volume: xr.DataArray, *, whole: bool = False) -> LazyVolume | None:
    """Return the `LazyVolume` by which a volume is read from a file; None if samples were loaded or computed.

    If `whole` is True, return None also if the volume is only a part of the file or has other axes than the file.
    """
    data: Any = volume.variable._data
    while not isinstance(data, LazyVolume):
        parts = data.key.tuple if whole and hasattr(data, "key") else ()
        if not all(isinstance(part, slice) and part == slice(None) for part in parts):
            return None
        data = getattr(data, "array", None)
        if data is None:
            return None
    return None if data.computed or (whole and data.shape != volume.shape) else data


def lazy_volume(
    read: Callable[[Key], Array], axes: dict[Any, Array], attrs: dict[str, Any], *, live: Array | None = None
) -> xr.DataArray:
    """Return a volume that is read from a file only when its samples are needed.

    Parameters
    ----------
    read : callable
        Function that reads a block; see `LazyVolume`.
    axes : dict
        Name of each axis -> its line numbers, times or depths.
    attrs : dict
        Attributes of the volume; those with the value None are left out.
    live : array of bool, shape (n_inline, n_crossline), optional
        Whether each trace holds data; by default all do.
    """
    data = indexing.LazilyIndexedArray(LazyVolume(read, tuple(map(len, axes.values())), keep_lines=True))
    attrs = {name: value for name, value in attrs.items() if value is not None}
    volume = xr.DataArray(data, axes, list(axes), name="amplitude", attrs=attrs)
    return volume if live is None or live.all() else volume.assign_coords(live=(("inline", "crossline"), live))


def as_slice(positions: Array) -> slice | Array:
    """Return positions as a slice if they ascend evenly, which is faster to read; else return them unchanged.

    Examples
    --------
    >>> as_slice(np.array([2, 4, 6])), as_slice(np.array([3, 1]))
    (slice(2, 7, 2), array([3, 1]))
    """
    if len(positions) == 0:
        return slice(0, 0)
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    if step > 0 and np.all(np.diff(positions) == step):
        return slice(int(positions[0]), int(positions[-1]) + 1, step)
    return positions


class NpyFile:
    """A ``.npy`` file, memory-mapped only while it is read."""

    def __init__(self, path: str) -> None:
        self.path = path
        array = self._mapped(np.load, mmap_mode="r", allow_pickle=False)
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype
        self._layout = {"offset": array.offset, "shape": array.shape, "order": "C" if array.flags.c_contiguous else "F"}

    def load(self) -> Array:
        """Return the memory-mapped array; the header is not parsed again, because `numpy.load` parses in one thread."""
        mapped: Array = self._mapped(np.memmap, dtype=self.dtype, mode="r", **self._layout)
        return mapped

    def _mapped(self, read: Callable[..., Array], **options: Any) -> Any:
        try:
            return read(self.path, **options)
        except (ValueError, EOFError) as error:
            why = f"{self.path} is not an array of numbers that NumPy can map ({error})"
            raise ValueError(f"{why}; write one with numpy.save.") from None


class PictureFile:
    """A picture of a section, decoded when it is read; recently decoded pictures stay in memory.

    Parameters
    ----------
    path : str
    codes : bool
        Whether the pixels are class codes, which are not scaled.

    Attributes
    ----------
    raw : bool
        Whether the pixels are amplitudes, that is floating-point numbers beyond [0, 1], instead of grey values.
    """

    decoded = Kept()

    def __init__(self, path: str, *, codes: bool) -> None:
        self.path, self.codes = path, codes
        with open_image(path) as image:
            self.shape, is_float = (image.height, image.width), image.mode == "F"
        self.ndim, self.dtype, self.raw = 2, np.dtype(np.float32), False
        if is_float and not codes:
            pixels = self.load()
            self.raw = bool(np.nanmin(pixels, initial=0) < 0 or np.nanmax(pixels, initial=1) > 1)

    def notes(self) -> list[str]:
        """Return a list with a note if the picture is in colour; an empty list for grey values or codes."""
        with open_image(self.path) as image:
            if self.codes or image.mode in ("F", "L", "LA", "1") or image.mode.startswith("I"):
                return []
            return [COLOUR_NOTE] if np.ptp(np.asarray(image.convert("RGB")), axis=-1).max() > GREY else []

    def load(self) -> Array:
        """Return the pixels, rows downwards; decode the file unless its pixels are still in memory."""
        stat = os.stat(self.path)
        key = (self.path, self.codes, stat.st_size, stat.st_mtime_ns)
        pixels: Array = self.decoded.get(key, self.decode)
        return pixels

    def decode(self) -> Array:
        """Read the pixels of the file: grey values scaled to [0, 1]; codes and floating-point numbers unchanged."""
        with open_image(self.path) as image:
            if (image.height, image.width) != self.shape:
                raise ValueError(f"{self.path} has changed since it was opened; open it again.")
            if self.codes or image.mode == "F":
                return np.array(image.convert("L") if len(image.getbands()) > 1 else image, np.float32)
            if image.mode.startswith("I"):
                return np.clip(np.asarray(image, np.float32) / 65535, 0, 1)
            return np.asarray(image.convert("L"), np.float32) / 255


def open_image(path: str) -> Any:
    """Open a picture with Pillow, also a TIFF of 64-bit floating-point numbers."""
    from PIL import Image, TiffImagePlugin, UnidentifiedImageError

    for order, raw in ((b"II", "F;64F"), (b"MM", "F;64BF")):  # Pillow has the decoder but does not register it
        TiffImagePlugin.OPEN_INFO.setdefault((order, 1, (3,), 1, (64,), ()), ("F", raw))
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        raise ValueError(
            f"{path} is a picture that Pillow cannot read; save it as PNG or as TIFF of 8, 16 or 32 bits, or its "
            "numbers with numpy.save."
        ) from None


def take_block(array: Any, axes: tuple[int | None, ...], key: Key) -> Array:
    """Return a block of a stored array; the axes of the block are inline, crossline, and time or depth.

    `axes` has the number of each of these three axes in `array`; an axis with the number None gets length 1. `key` has
    a slice or an array of positions for each of the three.
    """
    present = [axis for axis in axes if axis is not None]
    wanted = tuple(key[axes.index(axis)] for axis in sorted(present))
    if isinstance(array, NpyFile | PictureFile | np.ndarray):
        block = array if isinstance(array, np.ndarray) else array.load()
        for axis, k in enumerate(wanted):
            block = block[(slice(None),) * axis + (k,)]
    else:
        block = array[wanted].values if isinstance(array, xr.Variable) else array.oindex[wanted]
    return block.transpose(present)[tuple(None if axis is None else slice(None) for axis in axes)]


def live_traces(volume: xr.DataArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the traces that hold data, shape (n_inline, n_crossline).

    It is the coordinate ``live``; all traces hold data if the volume does not have this coordinate.
    """
    return volume.coords["live"].values if "live" in volume.coords else np.broadcast_to(True, volume.shape[:2])


def check_axes(volume: xr.DataArray) -> None:
    """Raise `ValueError` if two lines have the same number, or samples are unevenly spaced or descend."""
    for name in volume.dims:
        labels, counts = np.unique(volume[name].values, return_counts=True)
        if (counts > 1).any():
            twice = labels[counts > 1][0]
            raise ValueError(
                f"{volume.attrs.get('source') or 'The array'} has {name} {twice:g} {counts.max()} times; give every "
                f"{name} a distinct number."
            )
    vertical = volume.dims[-1]
    steps = np.diff(np.asarray(volume[vertical].values, float))
    if len(steps) and (steps.min() <= 0 or np.ptp(steps) > 0.01 * steps.mean()):
        sort = f"sort it, in xarray with volume.sortby({vertical!r})"
        raise ValueError(
            f"{volume.attrs.get('source') or 'The array'} has uneven or descending samples in {vertical}, in "
            f"steps of {steps.min():g} to {steps.max():g}; {'resample it evenly' if steps.min() > 0 else sort}."
        )
