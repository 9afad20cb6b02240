"""Cut the patches of exemplars, and find the patches of a `PatchGrid` that nearly cover given patches."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.ndimage import zoom

from outcrop.patches.gain import by_rms
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.index import Index
from outcrop.volumes.neighbours import line_spacing


def exemplar_patch(index: Index, exemplar: Any) -> np.ndarray:
    """Return the patch of an exemplar, with values in [0, 1].

    The exemplar is a picture, or a position: inline, crossline, time or depth, and optionally the direction.
    """
    grid = index.grid
    if np.ndim(exemplar) == 1:
        along = exemplar[3] if len(exemplar) == 4 and exemplar[3] in DIRECTIONS else None
        place = [float(part) for part in (exemplar if along is None else exemplar[:3])]
        patch: np.ndarray = grid.cut(index.volume, grid.start_at(place, along=along))[0]
        if not np.isfinite(patch).any():
            raise ValueError(f"The exemplar at {tuple(exemplar)} lies on missing traces; move it.")
        return np.where(np.isfinite(patch), patch, np.float32(0.5))  # missing samples become zero amplitude
    patch = exemplar_picture(index.volume, grid, exemplar)
    return np.asarray(by_rms(2 * patch[None] - 1)[0]) if grid.gain == "patch" else patch


def exemplar_picture(volume: xr.DataArray, grid: PatchGrid, exemplar: Any) -> np.ndarray:
    """Convert a picture to the patch of an exemplar, with values in [0, 1].

    Raise a ValueError if its size or its values do not fit. A picture with known sample interval and trace spacing is
    resampled first.
    """
    if isinstance(exemplar, xr.DataArray) and {"sample_interval", "trace_spacing"} <= exemplar.attrs.keys():
        exemplar = _resample(exemplar, volume, grid)
    patch = np.asarray(exemplar, np.float32)
    if patch.shape != grid.size:
        raise ValueError(
            f"An exemplar picture has {' x '.join(map(str, patch.shape))} samples, but the patches have "
            f"{grid.size[0]} x {grid.size[1]}; cut it to that size, or give it as a DataArray with sample_interval and "
            "trace_spacing to resample it."
        )
    if not (np.isfinite(patch).all() and patch.min() >= 0 and patch.max() <= 1):
        raise ValueError(
            f"An exemplar picture has values from {patch.min():g} to {patch.max():g}; scale it to 0 ... 1."
        )
    if patch.min() == patch.max():
        raise ValueError(f"An exemplar picture has the value {patch.min():g} everywhere; choose another picture.")
    return patch


def _resample(picture: xr.DataArray, volume: xr.DataArray, grid: PatchGrid) -> np.ndarray:
    """Resample a picture to the sample interval and trace spacing of the volume, and cut the patch from its middle."""
    spacing = line_spacing(volume)
    if spacing is None:
        raise ValueError(
            "The bin size of the volume is unknown, so the picture of an exemplar cannot be resampled to its trace "
            "spacing; give a picture of the patch size without sample_interval and trace_spacing."
        )
    across = spacing[1] if grid.along != "crossline" else spacing[0]
    axis = volume[volume.dims[2]].values
    factors = picture.attrs["sample_interval"] / abs(axis[1] - axis[0]), picture.attrs["trace_spacing"] / across
    fitted = np.asarray(zoom(np.asarray(picture, np.float32), factors, order=1))
    top, left = ((have - want) // 2 for have, want in zip(fitted.shape, grid.size, strict=True))
    return fitted[max(top, 0) : max(top, 0) + grid.size[0], max(left, 0) : max(left, 0) + grid.size[1]]


def rows_near(grid: PatchGrid, starts: np.ndarray) -> np.ndarray:
    """Return, for each given patch, the row of the nearest patch of `grid` on the same line.

    The row is -1 if this patch covers less than three quarters of the given patch, or if the line has no patch.

    Parameters
    ----------
    grid : PatchGrid
    starts : array, shape (n, 4)
        Start positions of the given patches, as in `PatchGrid.starts`.
    """
    lines = {head: number for number, head in enumerate(map(tuple, grid._heads.tolist()))}
    first = np.concatenate([[0], grid._ends[:-1]])
    found = np.full(len(starts), -1)
    for i, (direction, line, *corner) in enumerate(starts.tolist()):
        number = lines.get((direction, line))
        if number is not None:
            off = np.abs(grid._on_line(number)[:, 2:] - corner) / (grid.size[1], grid.size[0])
            nearest = int(off.sum(axis=1).argmin())
            if (1 - off[nearest]).clip(0).prod() >= 0.75:
                found[i] = first[number] + nearest
    return found
