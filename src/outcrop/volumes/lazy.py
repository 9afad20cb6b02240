"""Arrays of which only what is asked for is read: blocks of files, arrays and pictures behind xarray."""

import functools
import numbers
import os

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from outcrop.storage.kept import Kept


class LazyVolume(BackendArray):
    """Array of which xarray reads what is asked for, when it is asked for.

    Parameters
    ----------
    read : callable
        ``read(key)`` returns a block for a key of three slices or arrays of int, and can be pickled.
    shape : (int, int, int)
    dtype : dtype
    """

    def __init__(self, read, shape, dtype=np.float32):
        self.read, self.shape, self.dtype = read, tuple(shape), np.dtype(dtype)

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.block)

    def block(self, key):
        """Part of the volume by position; an integer takes its axis away."""
        wanted = tuple(
            np.array([k]) if isinstance(k, numbers.Integral) else np.arange(n)[k]
            for k, n in zip(key, self.shape, strict=True)
        )
        try:
            block = self.read(tuple(map(as_slice, wanted)))
        except (ValueError, OSError):
            raise
        except Exception as error:  # whatever a decoder throws at damaged data
            raise OSError(f"Part of the volume cannot be read ({type(error).__name__}: {error}).") from error
        block = np.asarray(block, self.dtype)
        return block[tuple(0 if isinstance(k, numbers.Integral) else slice(None) for k in key)]


def as_slice(positions):
    """Positions as a slice where they ascend evenly, which every reader does faster; as they are otherwise.

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

    def __init__(self, path):
        self.path = path
        array = self.load()
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def load(self):
        """The mapped array."""
        try:
            return np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{self.path} is not an array of numbers that NumPy can map ({error}).") from None


class PictureFile:
    """A picture of a section, decoded when it is read; the last ones stay in memory for as long as they fit."""

    decoded = Kept()

    def __init__(self, path, *, codes):
        from PIL import Image

        self.path, self.codes = path, codes
        with Image.open(path) as image:
            self.shape = (image.height, image.width)
        self.ndim, self.dtype = 2, np.dtype(np.float32)

    def load(self):
        """Pixels, rows downwards."""
        stat = os.stat(self.path)
        key = (self.path, self.codes, stat.st_size, stat.st_mtime_ns)
        return self.decoded.get(key, functools.partial(self.decode))

    def decode(self):
        """Pixels as they are in the file now."""
        pixels = open_picture(self.path, codes=self.codes)
        if pixels.shape != self.shape:
            raise ValueError(f"{self.path} has changed since it was opened; open it again.")
        return pixels


def open_picture(path, *, codes=False):
    """Grey values in [0, 1] of a picture of a section, or its pixels as they are where these are codes of classes."""
    from PIL import Image

    with Image.open(path) as image:
        if codes:
            return np.asarray(image.convert("L") if len(image.getbands()) > 1 else image, np.float32)
        if image.mode == "F" or image.mode.startswith("I"):
            return np.clip(np.asarray(image, np.float32) / (1 if image.mode == "F" else 65535), 0, 1)
        return np.asarray(image.convert("L"), np.float32) / 255


def take_block(array, axes, key):
    """Block of an array whose axis ``axes[i]`` is axis i of a volume, for a key of slices or arrays."""
    present = [axis for axis in axes if axis is not None]
    wanted = tuple(key[axes.index(axis)] for axis in sorted(present))
    if isinstance(array, NpyFile | PictureFile | np.ndarray):
        array = array if isinstance(array, np.ndarray) else array.load()
        for axis, k in enumerate(wanted):
            array = array[(slice(None),) * axis + (k,)]
    else:
        array = array[wanted].values if isinstance(array, xr.Variable) else array.oindex[wanted]
    return array.transpose(present)[tuple(None if axis is None else slice(None) for axis in axes)]


def live_traces(volume):
    """Which traces of a volume hold data, shape (n_inline, n_crossline): all of them unless it says otherwise."""
    return volume.coords["live"].values if "live" in volume.coords else np.broadcast_to(True, volume.shape[:2])


def check_axes(volume):
    """Refuse a volume with two lines of one number, for nobody could tell them apart, or with uneven samples."""
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
