"""Measure which share of labels stays the same when the data are changed in ways that should have no effect."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.labels.volume import label_volume
from outcrop.mapping.confidence import labelled
from outcrop.parallel import Progress
from outcrop.patches.grid import PatchGrid
from outcrop.volumes.amplitude import centre
from outcrop.volumes.axes import positions_of


def stability(
    volume: xr.DataArray,
    grid: PatchGrid,
    fit: Callable[[int], Any],
    *,
    lines: Sequence[int],
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the share of labels of each class that stay the same under changes that should have no effect.

    Parameters
    ----------
    volume : DataArray
        The volume to label.
    grid : PatchGrid
        Grid of the patches from which the labels are computed.
    fit : callable
        ``fit(seed)`` returns a fitted mapper, or None for a seed other than 0 if the mapper cannot be fitted again.
    lines : sequence of int
        Numbers of the inlines to label.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    DataFrame
        One row per change, such as a mirrored section, that applies to the mapper and the volume. Column ``change``
        names the change; a column per class, and ``all`` for all classes, hold the shares.
    """
    mapper, options = fit(0), grid.parameters | {"area": None, "between": None, "sample": None, "every": 1}
    few = volume.sel(inline=list(lines)).load()
    step = [half // 2 for half in grid.step]

    def labels(data: xr.DataArray, model: Any = mapper, *, shift: Sequence[int] = (0, 0)) -> np.ndarray:
        axes = [data[name].values for name in data.dims]
        area = {data.dims[1]: (axes[1][shift[1]], axes[1][-1]), data.dims[2]: (axes[2][shift[0]], axes[2][-1])}
        with_area = options | {"area": area, "along": "inline"}
        found: np.ndarray = label_volume(data, PatchGrid(data, **with_area), model)["label"].values
        return found

    scaled = bool(few.attrs.get("scaled"))
    middle = centre(few)
    inlines = volume["inline"].values
    changes: dict[str, Callable[[], np.ndarray]] = {
        "mirrored": lambda: labels(few.copy(data=few.values[:, ::-1]))[:, ::-1],
        "grid shifted by half a step": lambda: labels(few, shift=step),
        "3 dB louder": lambda: labels(few.copy(data=_clipped((few.values - middle) * 10**0.15 + middle, scaled))),
        "polarity reversed": lambda: labels(few.copy(data=2 * middle - few.values)),
    }
    if hasattr(mapper, "votes"):  # the mapper labels whole sections, without a grid of patches
        del changes["grid shifted by half a step"]
    if len(inlines) > 1:
        after = positions_of(inlines, lines) + 1
        nearest = volume.isel(inline=np.where(after < len(inlines), after, after - 2))
        changes["neighbouring line"] = lambda: labels(nearest.assign_coords(inline=few["inline"].values).load())
    reseeded = fit(1)
    if reseeded is not None:
        changes["another seed"] = lambda: labels(few, reseeded)
    base = labels(few)
    rows: list[dict[str, Any]] = []
    for count, (name, change) in enumerate(changes.items(), 1):
        rows.append({"change": name, **unchanged(base, change(), mapper.classes_)})
        if progress:
            progress("labelling under changes", count, len(changes))
    return pd.DataFrame(rows)


def _clipped(values: np.ndarray, scaled: bool) -> np.ndarray:
    return np.clip(values, 0, 1) if scaled else values


def unchanged(before: np.ndarray, after: np.ndarray, classes: Sequence[str]) -> dict[str, float]:
    """Return a dict: class name -> share of the labels of this class in `before` that are equal in `after`.

    The key ``all`` has the share over all classes. Samples that are uncertain or not labelled in one array or in both
    do not count. The share of a class without samples is NaN.
    """
    both = labelled(before) & labelled(after)
    same = before == after
    shares = {str(name): before == code for code, name in enumerate(classes, 1)}
    means = {
        name: same[of_class & both].mean() if (of_class & both).any() else np.nan for name, of_class in shares.items()
    }
    return {**means, "all": same[both].mean() if both.any() else np.nan}
