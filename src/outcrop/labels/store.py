"""Store labels as Zarr: written line by line, resumed after an interruption, read lazily."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from xarray.core import indexing

from outcrop.labels.line_store import LineStore, Seals, create_group
from outcrop.storage.chunks import write_chunks
from outcrop.storage.workspace import Workspace, damage
from outcrop.volumes.lazy import LazyVolume, take_block
from outcrop.volumes.opening import MOST_LINES


class LabelStore(LineStore):
    """A Zarr folder with labels, confidence and, if chosen, scores, written line by line.

    Parameters
    ----------
    path : path
        The Zarr folder; it is created if it does not exist.
    volume : DataArray
        The labelled volume.
    axis : int
        Axis of the volume that numbers the lines.
    attrs : dict
        Attributes of the labels: ``classes`` (names), ``digest`` (of the mapper and the options) and others.
    scores : bool
        Whether to store the share of the votes of every class too.
    """

    def __init__(self, path: str | Path, volume: xr.DataArray, axis: int, attrs: dict[str, Any], *, scores: bool):
        super().__init__(path)
        for one in (self.path, self.done.path):
            Workspace(one.parent).inner_path(one.name)
        shapes = array_shapes(volume, attrs["classes"], scores=scores)
        coords = {str(name): volume[name].values for name in volume.dims}
        self.axes = {name: len(shape) - 3 + axis for name, shape in shapes.items()}
        if not self.path.is_dir():
            self.done.path.unlink(missing_ok=True)
            arrays = {name: (shape, "uint8") for name, shape in shapes.items()}
            dims = {name: array_dims(coords, shape) for name, shape in shapes.items()}
            create_group(self.path, arrays, self.axes, dims=dims, coords=coords, attrs=attrs)
        self.arrays, found, about = _open_arrays(self.path, mode="r+")
        if not all(name in found and np.array_equal(found[name], labels) for name, labels in coords.items()):
            raise ValueError(f"{self.path} holds labels of another volume; remove it and label again.")
        if self.arrays.keys() != shapes.keys():
            how = "without" if scores else "with"
            raise ValueError(f"The labels in {self.path} were made {how} scores; remove them, or label {how} scores.")
        if about.get("digest") != attrs["digest"]:
            raise ValueError(
                f"{self.path} holds labels from another mapper, grid or minimum confidence; give another path."
            )

    def write(self, line: int, section: dict[str, np.ndarray]) -> Seals:
        """Store the arrays of a line, given by name; return the checksums of the written chunks, for `confirm`."""
        return {
            name: write_chunks(self.arrays[name], self.axes[name], line, np.expand_dims(values, self.axes[name]))
            for name, values in section.items()
        }


def array_shapes(volume: xr.DataArray, classes: Sequence[str], *, scores: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays ``label``, ``confidence`` and, if `scores` is True, ``score`` of a volume."""
    shapes: dict[str, tuple[int, ...]] = {"label": volume.shape, "confidence": volume.shape}
    return shapes | ({"score": (len(classes), *volume.shape)} if scores else {})


def array_dims(dims: Iterable[Any], shape: Sequence[int]) -> tuple[str, ...]:
    """Return the names of an array's axes: the axes of the volume, preceded by ``class`` if the array has four axes."""
    return ("class",) * (len(shape) - 3) + tuple(map(str, dims))


def open_labels(path: str | Path) -> xr.Dataset:
    """Open stored labels as a Dataset whose values are read from the disk when they are used."""
    if not Path(path).is_dir():
        raise ValueError(f"{path} holds no labels yet; run 'outcrop label' first.")
    arrays, coords, attrs = _open_arrays(path)
    data = {}
    for name, array in arrays.items():
        lazy = LazyVolume(partial(take_block, array, tuple(range(array.ndim))), array.shape, np.uint8)
        data[name] = (array_dims(coords, array.shape), indexing.LazilyIndexedArray(lazy))
    return xr.Dataset(data, coords, attrs)


def _open_arrays(path: str | Path, *, mode: Any = "r") -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Any]]:
    """Open stored labels; return their arrays, coordinates and attributes.

    Types and shapes are checked first, so that damaged files cannot cause huge allocations of memory.
    """
    with damage(path, "remove it and label again"):
        group: Any = zarr.open_group(path, mode=mode)
        arrays = {name: group[name] for name in ("label", "confidence", *(["score"] if "score" in group else []))}
        dims = arrays["label"].metadata.dimension_names
        axes = [group[name] for name in dims]
        shape = tuple(axis.shape[0] for axis in axes)
        sound = len(shape) == 3 and max(shape) <= MOST_LINES and isinstance(group.attrs["classes"], list)
        each = {"score": (len(group.attrs["classes"]), *shape)} if sound else {}
        sound &= all(a.dtype == "uint8" and a.shape == each.get(name, shape) for name, a in arrays.items())
        every = (*axes, *arrays.values())
        sound &= all(c <= n for array in every for c, n in zip(array.chunks, array.shape, strict=True))
        coords = {name: axis[:] for name, axis in zip(dims, axes, strict=True)} if sound else {}
        if not (sound and all(len(np.unique(labels)) == len(labels) for labels in coords.values())):
            raise ValueError("the arrays do not have the types and shapes of stored labels")
        return arrays, coords, dict(group.attrs)
