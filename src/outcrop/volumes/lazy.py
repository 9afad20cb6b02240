"""Arrays of which only what is asked for is read: blocks of files, arrays and pictures behind xarray."""

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
LINE_BYTES = 32 << 20  # of lines that stay in memory: some twenty of 951 x 462 samples
GREY = 16  # most that red, green and blue of grey pixels differ, after lossy compression too
COLOUR_NOTE = "the picture is in colour: only its brightness is taken, which is no amplitude of a colour scale"
WHOLE_LINE = 4  # a block of at least this part of a line, a quarter, is cut from the whole line
Key = tuple[Any, ...]  # a slice or an array of positions for each axis


class LazyVolume(BackendArray):
    """Array of which xarray reads what is asked for, when it is asked for.

    Parameters
    ----------
    read : callable
        ``read(key)`` returns a block for a key of three slices or arrays of int, and can be pickled.
    shape : (int, int, int)
    dtype : dtype
    computed : bool
        Whether it wraps an array that was computed, so that no file holds the same samples.
    keep_lines : bool
        Whether the lines that were read last stay in memory, so that one is not read from a file again and again.
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
        return _lazy_again, (self.read, self.shape, self.dtype, self.computed, self.keep_lines)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LazyVolume":
        return self  # nothing in it changes

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.block)

    def block(self, key: Key) -> Array:
        """Part of the volume by position; an integer takes its axis away."""
        wanted = tuple(
            np.array([k]) if isinstance(k, numbers.Integral) else np.arange(n)[k]
            for k, n in zip(key, self.shape, strict=True)
        )
        try:
            block = self._line(wanted) if self.keep_lines else self.read(tuple(map(as_slice, wanted)))
        except (ValueError, OSError):
            raise
        except Exception as error:  # decoders raise any type of error on damaged data
            raise OSError(f"Part of the volume cannot be read ({type(error).__name__}: {error}).") from error
        block = np.asarray(block, self.dtype)
        return block[tuple(0 if isinstance(k, numbers.Integral) else slice(None) for k in key)]

    def _line(self, wanted: tuple[Array, ...]) -> Array:
        """Read a block; where it is a large part of one line, read and keep the whole line."""
        alone = [axis for axis in (0, 1) if len(wanted[axis]) == 1]
        if len(alone) == 1 and WHOLE_LINE * math.prod(map(len, wanted)) >= math.prod(self.shape) / self.shape[alone[0]]:
            line = tuple(as_slice(some) if axis == alone[0] else slice(None) for axis, some in enumerate(wanted))
            whole = self._lines.get((alone[0], int(wanted[alone[0]][0])), lambda: np.asarray(self.read(line)))
            part = tuple(slice(None) if axis == alone[0] else as_slice(some) for axis, some in enumerate(wanted))
            return whole[part[0]][:, part[1]][:, :, part[2]].copy()
        return self.read(tuple(map(as_slice, wanted)))


def lazy_source(volume: xr.DataArray, *, whole: bool = False) -> LazyVolume | None:
    """Return what a lazy volume reads from a file by; None where samples were loaded or computed.

    With `whole`, None for a part of the file and for other axes too.
    """
    data: Any = volume.variable._data
    while not isinstance(data, LazyVolume):
        if whole and hasattr(data, "key") and not all(_is_all(part) for part in data.key.tuple):
            return None
        data = getattr(data, "array", None)
        if data is None:
            return None
    return None if data.computed or (whole and data.shape != volume.shape) else data


def _is_all(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


def _lazy_again(read: Any, shape: Any, dtype: Any, computed: bool, keep_lines: bool) -> LazyVolume:
    return LazyVolume(read, shape, dtype, computed=computed, keep_lines=keep_lines)


def lazy_volume(
    read: Callable[[Key], Array], axes: dict[Any, Array], attrs: dict[str, Any], *, live: Array | None = None
) -> xr.DataArray:
    """Volume of a reader of blocks on labelled axes; attributes that are None are left out, missing traces noted."""
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
    """A ``.npy`` file, mapped for the length of a read only."""

    def __init__(self, path: str) -> None:
        self.path = path
        array = self.load()
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def load(self) -> Array:
        """The mapped array."""
        try:
            mapped: Array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{self.path} is not an array of numbers that NumPy can map ({error}).") from None
        return mapped


class PictureFile:
    """A picture of a section, decoded when it is read; the last ones stay in memory for as long as they fit.

    Parameters
    ----------
    path : str
    codes : bool
        Whether its pixels are codes of classes, which are not scaled.

    Attributes
    ----------
    raw : bool
        Whether it holds amplitudes rather than grey values from 0 to 1: floating-point numbers beyond these.
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
        """Return a note where the picture shows colours, none of grey values or codes."""
        with open_image(self.path) as image:
            if self.codes or image.mode in ("F", "L", "LA", "1") or image.mode.startswith("I"):
                return []
            return [COLOUR_NOTE] if np.ptp(np.asarray(image.convert("RGB")), axis=-1).max() > GREY else []

    def load(self) -> Array:
        """Pixels, rows downwards."""
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
    """Open a picture with Pillow, TIFF of 64-bit floating-point numbers included."""
    from PIL import Image, TiffImagePlugin, UnidentifiedImageError

    for order, raw in ((b"II", "F;64F"), (b"MM", "F;64BF")):  # Pillow has the decoder, not the entry for it
        TiffImagePlugin.OPEN_INFO.setdefault((order, 1, (3,), 1, (64,), ()), ("F", raw))
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        raise ValueError(
            f"{path} is a picture that Pillow cannot read; save it as PNG or as TIFF of 8, 16 or 32 bits, or its "
            "numbers with numpy.save."
        ) from None


def take_block(array: Any, axes: tuple[int | None, ...], key: Key) -> Array:
    """Block of an array whose axis ``axes[i]`` is axis i of a volume, for a key of slices or arrays."""
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
    """Which traces of a volume hold data, shape (n_inline, n_crossline): all of them unless it says otherwise."""
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
        how = f"every {steps.min():g} to {steps.max():g}"
        way = "resample it evenly" if steps.min() > 0 else f"sort it, in xarray with volume.sortby({vertical!r})"
        raise ValueError(
            f"{volume.attrs.get('source') or 'The array'} has samples {how} in {vertical}, not evenly: {way}."
        )
