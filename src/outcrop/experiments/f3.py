"""Read the F3 sections, their expert labels and exemplars chosen by eye, and find the classes that patches show."""

import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop.experiments import Data
from outcrop.retrieval.index import Index

BELOW_CAPTION = 212.0  # ms; the pictures contain a caption above this time
COUNT, STEP, SIZE = 200, 22, 99  # number of retrieved patches per class, their step and size
SHOWN, PURE = 0.2, 0.8  # smallest share of a class in a patch that shows it: of a structure, of `other`

Places = dict[str, list[tuple[float, float, float]]]  # class -> exemplars: inline, crossline, time


def labelled_sections(data: Data) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the F3 sections without the caption at their top, and the expert's labels of the labelled sections."""
    sections, truth = oc.datasets.f3_sections(data)
    volume = sections.sel(time=slice(BELOW_CAPTION, None))
    return volume, truth.sel(time=volume["time"])


def eye_exemplars(*lines: int) -> Places:
    """Return the exemplars that were chosen by eye on the given lines, at most two per class."""
    table = tomllib.loads(Path(__file__).with_name("exemplars.toml").read_text(encoding="utf-8"))
    places: Places = {}
    for line in lines:
        for name, found in table[str(line)].items():
            places.setdefault(name, []).extend(tuple(place) for place in found)
    return {name: found[:: max(1, len(found) // 2)][:2] for name, found in places.items()}


@contextmanager
def temporary_index(volume: xr.DataArray, *, size: int = SIZE, step: int = STEP, **options: Any) -> Iterator[Index]:
    """Yield an index of a volume, with the options of `build_index`; remove the index afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield oc.build_index(
            volume, oc.PatchGrid(volume, size=size, step=step), Path(folder) / "job.outcrop", **options
        )


def shown_classes(grid: oc.PatchGrid, truth: xr.DataArray) -> np.ndarray:
    """Return which classes each patch of a grid shows: 1 yes, 0 no, NaN if at most half of the patch is labelled.

    A patch shows a class if at least 20 % of its labelled pixels have this class (80 % for `other`).

    Returns
    -------
    array of float, shape (n_patches, n_classes)
    """
    names, (height, width) = list(truth.attrs["classes"]), grid.size
    codes = truth.reindex(inline=grid.axes[0], fill_value=0).values
    least = [PURE if name == "other" else SHOWN for name in names]
    shown = np.full((len(grid), len(names)), np.nan)
    for row, (_, line, trace, top) in enumerate(grid.starts):
        patch = codes[line, trace : trace + width, top : top + height]
        counts = np.bincount(patch.ravel(), minlength=len(names) + 1)[1 : len(names) + 1]
        if counts.sum() > patch.size / 2:
            shown[row] = counts / counts.sum() >= least
    return shown


def right_patches(weak: oc.WeakLabels, shown: np.ndarray, names: list[str]) -> np.ndarray:
    """Return 1 for each retrieved patch that shows its class, 0 if it does not, NaN if unknown.

    `shown` is the result of `shown_classes` for the same grid, and `names` are the classes of its columns.
    """
    return shown[weak.rows, [names.index(name) for name in weak.classes]]
