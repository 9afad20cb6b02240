"""Export of the labels of a job, with their provenance."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.export.label_array import ARRAYS, export_array
from outcrop.export.label_segy import export_segy
from outcrop.export.label_zarr import export_zarr
from outcrop.export.training_set import export_training_set
from outcrop.job import retrieved, table_file
from outcrop.job.inputs import class_name
from outcrop.job.labelling import label_view
from outcrop.job.status import checked_lines
from outcrop.job.votes import Labels
from outcrop.volumes.axes import standard_axes
from outcrop.volumes.lazy import LazyVolume
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

SEGY = (".sgy", ".segy")


def export(
    job: "Job",
    path: str | Path,
    *,
    what: str = "label",
    format: int = 5,
    stale: bool = False,
    seed: int = 0,
    memory: int | None = None,
    labels: xr.Dataset | None = None,
) -> str:
    """Write the labels of a job, or the given `labels` (for instance of a net); see `Job.export`."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind and kind not in (*SEGY, *ARRAYS, ".zarr") and not path.is_dir():
        raise ValueError(
            f"{path} ends in {kind!r}, which is no export format; name it OUT.sgy, OUT.zarr, OUT.npy or OUT.png, or "
            "give the name of a folder for a training set."
        )
    if not re.fullmatch(r"label|confidence|(score|class):.+", what):
        raise ValueError(f"{what!r} cannot be exported; choose label, confidence, score:CLASS or class:CLASS.")
    form, _, name = what.partition(":")
    what = f"{form}:{class_name(name)}" if name else what
    if kind in (*SEGY, *ARRAYS) and not path.parent.is_dir():
        raise ValueError(f"The folder {path.parent} does not exist; make it, or choose another.")
    if kind not in (*SEGY, *ARRAYS, ".zarr") and what != "label":
        raise ValueError(f"A training set contains only labels; export {what!r} to OUT.sgy or OUT.zarr.")
    job._check_volume()
    lines = checked_lines(job, stale=stale or labels is not None)
    if table_file.is_edited(job):
        job._note(
            f"{job.path / table_file.TABLE} was edited by hand; the labels do not contain the edit until the next "
            "'outcrop label'."
        )
    total, count = job.plan.volume["shape"][job.plan.along], sum(lines.values())
    words = [f"{len(lines)} of {counted(total, 'lines')} labelled"]
    words += [f"{count} of them stale"] if count else []
    words += [f"{total - len(lines)} missing, written as 0"] if len(lines) < total else []
    about = ", ".join(words)
    found = (job.labels.assign_attrs(lines=about) if labels is None else labels).assign_attrs(colours=job.palette)
    if what.startswith("score:") and labels is not None:
        raise ValueError(f"A net stores no scores; export {what!r} of the mapping, without --net.")
    if ":" in what:
        if class_name(name) not in found.attrs["classes"]:
            known = ", ".join(found.attrs["classes"])
            raise ValueError(f"{what!r} cannot be exported; the classes of these labels are {known}.")
        found = with_scores(job, found) if what.startswith("score:") else with_masks(found)
    if kind in SEGY:
        found, like = standard_axes(found), standard_axes(job.volume)
        export_segy(found, path, like=like, what=what, format=format, memory=memory)
    elif kind in ARRAYS:
        export_array(found, path, what=what, memory=memory)
    elif kind == ".zarr":
        export_zarr(found, path, memory=memory)
    else:
        _training_set(job, found, path, lines, seed)
    limit = float(found.attrs.get("min_confidence") or 0)
    about += f"; samples below {100 * limit:.0f} % confidence are uncertain" if limit else ""
    return f"{path} written: {about}"


def _training_set(job: "Job", labels: xr.Dataset, path: Path, lines: dict[int, bool], seed: int) -> None:
    """Write a training set of the retrieved patches on labelled lines."""
    plan = job.plan
    weak = retrieved.weak_labels(job, plan)
    inside = np.isin(weak.starts[:, 1], list(lines)) & (weak.starts[:, 0] == plan.along) & (weak.rows >= 0)
    if not inside.any():
        raise ValueError(
            f"None of the {len(weak)} retrieved patches lies on a labelled line; label more lines "
            f"('outcrop label {job.path}') before you export a training set."
        )
    export_training_set(labels, path, volume=job.volume, grid=weak.grid, weak=weak.take(inside), seed=seed)


def with_masks(labels: xr.Dataset) -> xr.Dataset:
    """Return labels with a mask of every class added: ``class_NAME``, 1 in the class, 0 elsewhere, read lazily."""
    codes = labels["label"]
    masks = {}
    for code, name in enumerate(labels.attrs["classes"], 1):
        lazy = LazyVolume(partial(_mask_block, codes, code), codes.shape, np.uint8)
        masks["_".join(["class", *name.split()])] = (codes.dims, indexing.LazilyIndexedArray(lazy))
    return labels.assign(masks)


def _mask_block(codes: xr.DataArray, code: int, key: Any) -> np.ndarray:
    """Return a mask of a block of labels, uint8: 1 at samples with the code `code`, 0 elsewhere.

    `key` selects the block.
    """
    mask: np.ndarray = np.equal(codes[key].values, code)
    return mask.astype(np.uint8)


def with_scores(job: "Job", labels: xr.Dataset) -> xr.Dataset:
    """Return labels with ``score`` added: the share of votes for every class, in the order of codes, read lazily."""
    view, _ = label_view(job, job.plan)
    first = {number: name for name, number in reversed(view.codes.items())}
    names = [first.get(code, "") for code in range(1, len(labels.attrs["classes"]) + 1)]
    lazy = LazyVolume(partial(_score_blocks, view, names), (len(names), *view.shape), np.uint8)
    scores = xr.DataArray(indexing.LazilyIndexedArray(lazy), dims=("class", *labels["label"].dims))
    return labels.assign(score=scores)


def _score_blocks(view: Labels, names: Sequence[str], key: Any) -> np.ndarray:
    """Return the scores (votes) of selected classes in a block of the volume, uint8.

    `key` has four parts: it selects classes of `names`, then positions of inlines, crosslines and samples.
    """
    return np.stack([view.score_block(name, key[1:]) for name in np.array(names, object)[key[0]]])
