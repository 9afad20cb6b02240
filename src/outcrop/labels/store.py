"""Labels on disk as Zarr: written line by line, gone on with after an interruption, read lazily."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from xarray.core import indexing
from zarr.codecs import Crc32cCodec, ZstdCodec

import outcrop
from outcrop.labels.votes import line_axis
from outcrop.storage.chunks import confirm_chunks, write_chunks
from outcrop.storage.workspace import DoneLog, Workspace, damage, whole_file
from outcrop.volumes.lazy import LazyVolume, take_block
from outcrop.volumes.opening import MOST_LINES

TRACES = 32  # of a chunk of labels


class LabelStore:
    """Where label sections go: a Zarr folder with a log of finished lines, or memory."""

    def __init__(self, volume, grid, path, attrs, *, scores=False):
        self.shapes = {"label": volume.shape, "confidence": volume.shape}
        if scores:
            self.shapes["score"] = (len(attrs["classes"]), *volume.shape)
        self.axis = line_axis(grid)
        self.coords = {name: volume[name].values for name in volume.dims}
        self.attrs = attrs | {"source": str(volume.attrs.get("source", "")), "version": outcrop.__version__}
        self.attrs |= {"bin_size": list(volume.attrs["bin_size"])} if "bin_size" in volume.attrs else {}
        self.path, self.done = path and Path(path), path and DoneLog(Path(path).with_suffix(".done"))
        if self.path is None:
            self.arrays: Any = {name: np.zeros(shape, np.uint8) for name, shape in self.shapes.items()}
        else:
            for path in (self.path, self.done.path):
                Workspace(path.parent).inner_path(path.name)
            if not self.path.is_dir():
                self._create(volume)
            self.arrays, coords, found = _open_arrays(self.path, mode="r+")
            if not all(np.array_equal(coords.get(name), labels) for name, labels in self.coords.items()):
                raise ValueError(f"{self.path} holds labels of another volume; remove it and label again.")
            if self.arrays.keys() != self.shapes.keys():
                raise ValueError(
                    f"{self.path} was made {'without' if scores else 'with'} scores; remove it, or ask alike."
                )
            if found.get("digest") != attrs["digest"]:
                raise ValueError(
                    f"{self.path} holds labels of another mapper, grid or limit of confidence; give another path."
                )

    def _create(self, volume):
        # a line is a file, in chunks of some traces, so that a section across the lines reads little of each
        chunks = [min(TRACES, max(1, n)) for n in volume.shape[:2]] + [max(1, volume.shape[2])]
        chunks[self.axis] = 1
        shards = [-(-max(1, n) // size) * size for n, size in zip(volume.shape, chunks, strict=True)]
        shards[self.axis] = 1
        self.done.path.unlink(missing_ok=True)
        with whole_file(self.path) as aside:
            group = zarr.open_group(aside, mode="w", attributes=self.attrs)
            for name, values in self.coords.items():
                group.create_array(name, data=values, dimension_names=(name,))
            for name, shape in self.shapes.items():
                each = (1,) * (len(shape) - 3)  # one class a file
                options: Any = {"shape": shape, "chunks": (*each, *chunks), "shards": (*each, *shards)}
                options |= {"dtype": "uint8", "fill_value": 0, "compressors": [ZstdCodec(), Crc32cCodec()]}
                group.create_array(name, dimension_names=_dims(volume.dims, shape), **options)

    def write(self, line, section):
        """Keep the section of a line; seals of its chunks where they lie in a folder."""
        seals = {}
        for name, values in section.items():
            axis = values.ndim - 2 + self.axis  # one more where values are of several classes
            if self.path is None:
                self.arrays[name][(slice(None),) * axis + (line,)] = values
            else:
                seals[name] = write_chunks(self.arrays[name], axis, line, np.expand_dims(values, axis))
        return seals

    def confirm(self, line, seals):
        """Count a line as done whose chunks are seen here as they were written."""
        for name, seal in seals.items():
            confirm_chunks(self.arrays[name], self.arrays[name].ndim - 3 + self.axis, line, seal)
        if self.done:
            self.done.add(line)

    def dataset(self):
        """Labels, confidence and scores on the axes of the volume."""
        if self.path is not None:
            return open_labels(self.path)
        data = {name: (_dims(self.coords, array.shape), array) for name, array in self.arrays.items()}
        return xr.Dataset(data, coords=self.coords, attrs=self.attrs)


def _dims(dims, shape):
    """Names of the axes of an array on a volume, perhaps with one more for the classes before them."""
    return ("class",) * (len(shape) - 3) + tuple(dims)


def open_labels(path):
    """Labels of a job as a lazy Dataset."""
    if not Path(path).is_dir():
        raise ValueError(f"{path} holds no labels yet; run 'outcrop label' first.")
    arrays, coords, attrs = _open_arrays(path)
    data = {
        name: (
            _dims(coords, array.shape),
            indexing.LazilyIndexedArray(
                LazyVolume(partial(take_block, array, tuple(range(array.ndim))), array.shape, "u1")
            ),
        )
        for name, array in arrays.items()
    }
    return xr.Dataset(data, coords, attrs)


def _open_arrays(path, *, mode="r"):
    """Label, confidence and scores of a store, its axes and attributes; no number in it may ask for much memory."""
    with damage(path, "remove it and label again"):
        group: Any = zarr.open_group(path, mode=mode)
        arrays = {name: group[name] for name in ("label", "confidence", *(["score"] if "score" in group else []))}
        dims = arrays["label"].metadata.dimension_names
        axes = [group[name] for name in dims]
        shape = tuple(axis.shape[0] for axis in axes)
        sound = len(shape) == 3 and max(shape) <= MOST_LINES and isinstance(group.attrs["classes"], list)
        each = {"score": (len(group.attrs["classes"]), *shape)} if sound else {}
        sound &= all(a.dtype == "uint8" and a.shape == each.get(name, shape) for name, a in arrays.items())
        sound &= all(
            c <= n for array in (*axes, *arrays.values()) for c, n in zip(array.chunks, array.shape, strict=True)
        )
        coords = {name: axis[:] for name, axis in zip(dims, axes, strict=True)} if sound else {}
        if not (sound and all(len(np.unique(labels)) == len(labels) for labels in coords.values())):
            raise ValueError("it is not what was written")
        return arrays, coords, dict(group.attrs)
