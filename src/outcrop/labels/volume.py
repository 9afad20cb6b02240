"""Label every sample of a volume, line by line, with a fitted mapper."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import outcrop
from outcrop.labels.decision import decide
from outcrop.labels.line_store import Seals
from outcrop.labels.store import LabelStore, array_dims, array_shapes, open_labels
from outcrop.labels.votes import chosen_lines, cost, line_axis, line_votes, lines_of, made_from, written_votes
from outcrop.mapping.registry import mapper_digest
from outcrop.parallel import Progress, map_blocks, memory_budget
from outcrop.patches.grid import PatchGrid
from outcrop.volumes.neighbours import spacing_attrs


def label_volume(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    *,
    lines: Sequence[int] | None = None,
    min_confidence: float | None = None,
    scores: bool = False,
    path: str | Path | None = None,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Label every sample on the lines of a grid by a weighted vote of the patches that contain the sample.

    Parameters
    ----------
    volume : DataArray
        From `open_volume`.
    grid : PatchGrid
        Overlapping patches on inlines or on crosslines, with the patch size on which the mapper was fitted.
    mapper : LabelMapper or any object with ``classes_`` and ``scores(patches)``
        A fitted mapper.
    lines : sequence of int, optional
        Numbers of the lines to label; by default all lines of the grid.
    min_confidence : float, optional
        Minimum confidence, from 0 to 1: labels of lower confidence become `uncertain`. By default the
        ``min_confidence`` of the mapper, or 0.
    scores : bool
        Whether to return the share of the votes of every class too; each class needs as much space as the labels.
    path : path, optional
        A Zarr folder for the labels. An interrupted run is resumed; a folder with labels of another mapper, grid or
        minimum confidence is refused. Without a path the result is held in memory.
    device : str, optional
        Torch device of the mapper, for instance ``cuda`` (all visible GPUs); several devices, ``cuda:0,cuda:1``, share
        the lines.
    client : distributed.Client, optional
        A Dask cluster to label on, line by line; its workers write to `path`. By default the threads of this process.
    memory : int, optional
        Bytes of memory to use, by default a quarter of the machine's memory; limits the number of patches in memory
        and of threads.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    Dataset
        ``label`` (uint8: 0 not labelled, 255 uncertain, i + 1 = ``attrs["classes"][i]``) and ``confidence`` (uint8,
        255 = sure) on the axes of the volume. Missing traces, samples outside all patches and lines that were not
        chosen are not labelled and have confidence 0. With `scores` also ``score`` (uint8, 255 = all votes are for the
        class), with ``class`` as first axis.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> patches = grid.extract(volume, range(len(grid)))
    >>> classes = ["chaotic" if row["time"] < 160 else "other" for _, row in grid.table.iterrows()]
    >>> mapper = oc.LabelMapper(4, iterations=5).fit(patches, classes)
    >>> labels = label_volume(volume, grid, mapper, lines=[101])
    >>> labels["label"].shape, labels.attrs["classes"]
    ((2, 64, 80), ['chaotic', 'other'])
    """
    if grid.along == "both":
        raise ValueError("A grid along both directions cannot be labelled; make a grid along inline or crossline.")
    if min_confidence is None:
        min_confidence = getattr(mapper, "min_confidence", None) or 0.0
    chosen = chosen_lines(grid, lines_of(grid, mapper), lines)
    names, axis = [str(name) for name in mapper.classes_], line_axis(grid)
    attrs: dict[str, Any] = {"classes": names, "mapping": type(mapper).__name__, "version": outcrop.__version__}
    attrs["source"] = str(volume.attrs.get("source", ""))
    attrs |= spacing_attrs(volume)
    where: dict[str, Any] = {"device": device, "client": client, "memory": memory}
    decided = partial(_decided, min_confidence, scores)
    report = progress or (lambda *_: None)
    if path is None:
        arrays = {n: np.zeros(shape, np.uint8) for n, shape in array_shapes(volume, names, scores=scores).items()}
        sections = _sections(volume, grid, mapper, chosen, decided, where)
        for count, (line, section) in enumerate(zip(chosen, sections, strict=True), 1):
            for name, values in section.items():
                arrays[name][(slice(None),) * (values.ndim - 2 + axis) + (line,)] = values
            report("labelling", count, len(chosen))
        data = {name: (array_dims(volume.dims, array.shape), array) for name, array in arrays.items()}
        return xr.Dataset(data, {name: volume[name].values for name in volume.dims}, attrs)
    options = grid.parameters | {"across": 0, "min_confidence": min_confidence}
    attrs["digest"] = made_from(mapper_digest(mapper), options)
    store = LabelStore(path, volume, axis, attrs, scores=scores)
    finished = store.done.read()
    left = [line for line in chosen if line not in finished]
    written: Iterable[tuple[int, Any]]
    if client is not None:  # workers write their own lines
        labels = volume[grid.along].values[left]
        written = written_votes(volume, grid, mapper, partial(_write, store, decided), labels, **where)
    else:
        sections = _sections(volume, grid, mapper, left, decided, where)
        written = ((line, store.write(line, section)) for line, section in zip(left, sections, strict=True))
    for count, (line, seals) in enumerate(written, len(chosen) - len(left) + 1):
        store.confirm(line, seals)
        report("labelling", count, len(chosen))
    return open_labels(path)


def _sections(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, lines: list[int], decided: Callable[..., Any], where: Any
) -> Iterable[dict[str, np.ndarray]]:
    """Yield the arrays ``label``, ``confidence`` and, if chosen, ``score`` of each line.

    `lines` holds the positions of the lines. While a line is labelled, the votes of the next lines are computed.
    """
    votes = line_votes(volume, grid, mapper, volume[grid.along].values[lines], **where)
    # Locally, more threads would compete with the threads of the votes; with a cluster or a device, one is too slow.
    workers = None if where["client"] or where["device"] else 1
    memory = where["memory"] or memory_budget()
    one = cost(volume, grid, mapper.classes_)
    return map_blocks(decided, (of_line for _, of_line in votes), workers=workers, memory=memory, cost=one)


def _write(store: LabelStore, decided: Callable[..., Any], line: int, votes: np.ndarray) -> Seals:
    return store.write(line, decided(votes))


def _decided(min_confidence: float, scores: bool, votes: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the arrays ``label`` and ``confidence`` of a line from its votes.

    If `scores` is True, the result also contains the votes, as ``score``.
    """
    found = dict(zip(("label", "confidence"), decide(votes, min_confidence), strict=True))
    return found | ({"score": votes} if scores else {})
