"""Labels and confidence of a whole volume."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from outcrop.labels.decision import decide
from outcrop.labels.store import LabelStore
from outcrop.labels.votes import chosen_lines, cost, line_votes, lines_of, made_from, written_votes
from outcrop.mapping.registry import mapper_digest
from outcrop.parallel import map_blocks, memory_budget
from outcrop.patches.grid import PatchGrid


def label_volume(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    *,
    lines: Sequence[int] | None = None,
    across: int = 0,
    min_confidence: float | None = None,
    scores: bool = False,
    path: str | Path | None = None,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    progress: Callable | None = None,
) -> xr.Dataset:
    """Label every sample of the lines of a grid by the weighted vote of the patches that cover it.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it.
    grid : PatchGrid
        Overlapping patches on inlines or on crosslines, of the size the mapper was fitted on.
    mapper : LabelMapper or any object with ``classes_`` and ``scores(patches)``
        Already fitted.
    lines : sequence of int, optional
        Survey labels of the lines to do; by default all lines of the grid.
    across : int
        Neighbouring lines on either side whose votes count as much as those of a line itself; they are read for it even
        where they are not to be labelled. Lines of an irregular axis have no neighbours.
    min_confidence : float, optional
        Samples whose share of the vote is lower become `uncertain`; by default the value of the mapper, or none.
    scores : bool
        Keep the share of every class too; as large as one label volume a class.
    path : path, optional
        A Zarr folder to stream to; an interrupted run goes on there, one with another mapper, grid or limit is
        refused. Without it the result is held in memory.
    device : str, optional
        A torch device for the mapper, for instance ``cuda`` (all GPUs that are visible), or several that share the
        lines, ``cuda:0,cuda:1``.
    client : distributed.Client, optional
        A Dask cluster to label on, line by line; its workers write to `path`. By default the threads of this process.
    memory : int, optional
        Bytes to use, a quarter of the machine by default; it bounds the patches held at once and the threads.
    progress : callable, optional
        Called with the number of lines done so far.

    Returns
    -------
    Dataset
        ``label`` (uint8: 0 not labelled, 255 uncertain, i + 1 = ``attrs["classes"][i]``) and ``confidence`` (uint8,
        255 = sure) on the axes of the volume. Missing traces, samples that no patch covers and lines that were not
        asked for are not labelled and have confidence 0. With `scores` also ``score`` (uint8, 255 = all of the vote),
        with an axis ``class`` before the others.

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
        raise ValueError("Patches on inlines and crosslines at once cannot vote; make a grid along one of them.")
    if min_confidence is None:
        min_confidence = getattr(mapper, "min_confidence", None) or 0.0
    chosen = chosen_lines(grid, lines_of(grid, mapper), lines)
    names = [str(name) for name in mapper.classes_]
    attrs = {"classes": names, "mapping": type(mapper).__name__}
    if path:
        options = grid.parameters | {"across": across, "min_confidence": min_confidence}
        attrs["digest"] = made_from(mapper_digest(mapper), options)
    out = LabelStore(volume, grid, path, attrs, scores=scores)
    finished = out.done.read() if out.done else set()
    left = [line for line in sorted(chosen) if line not in finished]
    labels = out.coords[grid.along][left]
    where: dict = {"across": across, "device": device, "client": client, "memory": memory}
    if client is not None and path:
        written = written_votes(volume, grid, mapper, partial(_write_section, out, min_confidence), labels, **where)
        for count, (line, seals) in enumerate(written, len(chosen) - len(left) + 1):
            out.confirm(line, seals)
            if progress:
                progress(count)
        return out.dataset()
    votes = line_votes(volume, grid, mapper, labels, **where)
    # Here threads would only compete with those that vote; where a cluster or a device votes, one could not keep up.
    options = {
        "workers": None if client or device else 1,
        "memory": memory or memory_budget(),
        "cost": cost(volume, grid, names),
    }
    sections = map_blocks(partial(_decided, min_confidence, scores), (line_votes for _, line_votes in votes), **options)
    for count, (line, section) in enumerate(zip(left, sections, strict=True), len(chosen) - len(left) + 1):
        out.confirm(line, out.write(line, section))
        if progress:
            progress(count)
    return out.dataset()


def _write_section(out, min_confidence, line, votes):
    return out.write(line, _decided(min_confidence, "score" in out.shapes, votes))


def _decided(min_confidence, scores, votes):
    """Label and confidence of a line, and the share of every class where it is asked for."""
    found = dict(zip(("label", "confidence"), decide(votes, min_confidence), strict=True))
    return found | ({"score": votes} if scores else {})
