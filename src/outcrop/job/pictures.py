"""Pictures of retrieved patches and labels in the folder of a job."""

import errno
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from outcrop import plots
from outcrop.patches.grid import DIRECTIONS
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.workspace import whole_file

if TYPE_CHECKING:
    from outcrop.job.core import Job


def save(figure: Any, path: Path) -> None:
    """Save a picture completely or not at all; warn, without an error, if its folder is not writable."""
    try:
        with whole_file(path) as aside:
            figure.savefig(aside, dpi=110, format="png")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        warnings.warn(f"{path} is not written, because its folder is not writable.", stacklevel=2)


def image_axes(
    images: Mapping[tuple[int, int], np.ndarray], *, columns: int, size: tuple[float, float]
) -> tuple[Any, list[Any]]:
    """Draw images without ticks in cells of a grid; return the figure, and a list with the axes of each image.

    Parameters
    ----------
    images : dict
        (row, column) -> image with values in [0, 1].
    columns : int
        Number of columns of the grid.
    size : (float, float)
        Width and height of a cell in inches.
    """
    rows, axes = 1 + max(row for row, _ in images), []
    figure = plots.new_figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    for (row, column), image in images.items():
        ax = figure.add_subplot(rows, columns, row * columns + column + 1, xticks=[], yticks=[])
        ax.imshow(np.nan_to_num(image, nan=0.5), cmap="gray", vmin=0, vmax=1, aspect="auto")
        axes.append(ax)
    return figure, axes


def draw_retrieval(job: "Job", weak: WeakLabels, folder: Path | None = None) -> None:
    """Save pictures of retrieved patches: a gallery, similarity curves, and the section with the most patches.

    They are saved in the folder of the job if `folder` is not given.
    """
    folder = folder or job.path
    grid = job._grid(job.plan)
    picks = weak.picks(10)
    patches = grid.extract(job.volume, weak.rows[picks])
    save(plots.gallery(patches, weak.table.iloc[picks], palette=job.palette), folder / "gallery.png")
    save(plots.similarity_curves(weak, palette=job.palette).figure, folder / "similarity.png")
    along = weak.table["along"].mode()[0]
    section = job.volume.sel({along: weak.table.loc[weak.table["along"] == along, along].mode()[0]})
    save(plots.section(section, weak=weak, size=grid.size, palette=job.palette).figure, folder / "section.png")


def draw_labels(
    job: "Job", line: float, *, truth: Any = None, name: str = "labels.png", labels: xr.Dataset | None = None
) -> None:
    """Save a picture of the labels on one line; it is saved in the job folder under `name`.

    `line` is the number of the line. `labels` replace the labels of the job; `truth` is drawn for comparison.
    """
    place = {DIRECTIONS[job.plan.along]: line}
    labels = (job.labels if labels is None else labels).assign_attrs(colours=job.palette)
    figure = plots.labelled_section(job.volume.sel(place), labels.sel(place), truth=truth)
    save(figure, job.path / name)
