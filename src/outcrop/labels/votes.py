"""Compute the votes of a mapper for each class, line by line, from overlapping patches or from whole sections."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from outcrop.arrays import device_list, to_numpy
from outcrop.mapping.points import PointMapper
from outcrop.parallel import map_blocks, memory_budget, spans
from outcrop.patches.grid import PatchGrid
from outcrop.patches.windows import add_windows
from outcrop.volumes.axes import positions_of

BLOCK = 256  # patches whose scores are in memory at once
LEAST = 1 / 255  # smallest vote for a single class, so that its samples differ from samples without votes
COST = 250, 50  # bytes per sample of a line while it is labelled, and additional bytes per class


def line_votes(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    lines: Sequence[int] | np.ndarray | None = None,
    *,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    workers: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the votes on the lines of a grid, in ascending order of the lines; only a few lines are in memory.

    Parameters
    ----------
    volume, grid, mapper, lines, device, client, memory
        As for `label_volume`.
    workers : int, optional
        Number of threads, all cores by default.

    Yields
    ------
    line : int
        Position on the axis of the lines.
    votes : uint8 array, shape (n_classes, n_traces, n_samples)
        255 = all votes at the sample are for the class. Samples without votes have 0 for all classes. `decide` turns
        votes into labels.
    """
    rows = lines_of(grid, mapper)
    wanted = chosen_lines(grid, rows, lines)
    memory, devices = memory or memory_budget(), device_list(device)
    options: dict[str, Any] = {"client": client, "memory": memory, "cost": cost(volume, grid, mapper.classes_)}
    work = partial(_packed_votes, volume, grid, mapper, devices, _at_once(grid, mapper, memory))
    if devices and not _takes_sections(grid, mapper):  # a mapper of sections computes most of its votes on the CPU
        workers = len(devices)
    votes = map_blocks(work, [(line, rows[line]) for line in wanted], workers=workers, **options)
    yield from zip(wanted, votes, strict=True)


def written_votes(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    write: Callable[[int, np.ndarray], Any],
    lines: Sequence[int] | np.ndarray | None = None,
    *,
    client: Any = None,
    **where: Any,
) -> Iterator[tuple[int, Any]]:
    """Compute the votes on the lines of a grid and pass them to `write`; on a cluster, each worker writes its votes.

    Parameters
    ----------
    write : callable
        Called as ``write(position of a line, votes)``; its result should be small.
    volume, grid, mapper, lines, client, **where
        As for `line_votes`.

    Yields
    ------
    line : int
        Position on the axis of the lines, in ascending order.
    written
        Result of `write`.
    """
    if client is None:
        votes = line_votes(volume, grid, mapper, lines, **where)
        # more threads would compete with the threads of the votes; with a device they write while it computes
        yield from map_blocks(lambda pair: (pair[0], write(*pair)), votes, workers=None if where.get("device") else 1)
        return
    rows = lines_of(grid, mapper)
    wanted = chosen_lines(grid, rows, lines)
    at_once = _at_once(grid, mapper, where.get("memory") or memory_budget())
    work = partial(_packed_votes, volume, grid, mapper, device_list(where.get("device")), at_once)
    blocks = [(line, rows[line]) for line in wanted]
    yield from zip(wanted, map_blocks(partial(_write_votes, work, write), blocks, client=client), strict=True)


def _write_votes(work: Callable[..., np.ndarray], write: Callable[..., Any], block: tuple[int, slice]) -> Any:
    return write(block[0], work(block))


def _at_once(grid: PatchGrid, mapper: Any, memory: int) -> int:
    """Return how many patches are processed at once, so that their scores fit into the given memory in bytes."""
    return int(np.clip(memory // (64 * grid.size[0] * grid.size[1] * (1 + len(mapper.classes_))), 8, BLOCK))


def lines_of(grid: PatchGrid, mapper: Any) -> dict[int, slice]:
    """Return a dict: position of a line -> rows of its patches in the grid. It has all lines that a mapper can label.

    A mapper of whole sections can label lines without patches too; such a line has an empty slice of rows.
    """
    rows = {int(line): rows for _, line, rows in grid.lines()}
    if not _takes_sections(grid, mapper):
        return rows
    return {int(line): rows.get(int(line), slice(0, 0)) for line in grid.live_lines()}


def cost(volume: xr.DataArray, grid: PatchGrid, classes: Sequence[str]) -> int:
    """Return the memory in bytes that one line needs while it is labelled."""
    return volume.size // volume.shape[line_axis(grid)] * (COST[0] + COST[1] * len(classes))


def line_axis(grid: PatchGrid) -> int:
    """Return which axis of a volume numbers the lines of a grid: 0 inline, 1 crossline."""
    return int(grid.along == "crossline")


def made_from(mapper: str, options: dict[str, Any]) -> str:
    """Combine the digest of a mapper and the options of labelling into one digest, which identifies stored labels."""
    return hashlib.sha256(json.dumps([mapper, options], sort_keys=True, default=str).encode()).hexdigest()


def _packed_votes(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, devices: list[str], at_once: int, block: tuple[int, slice]
) -> np.ndarray:
    """Return the votes on one line as uint8 to save memory, shape (n_classes, n_traces, n_samples)."""
    line, rows = block
    device = devices[line % len(devices)] if devices else None
    if _takes_sections(grid, mapper):
        votes = _whole_section(volume, grid, mapper, (line_axis(grid), line), device)
    else:
        votes = section_votes(volume, grid, mapper, rows, device=device, at_once=at_once)
    return np.ascontiguousarray(np.moveaxis(np.round(255 * votes).astype(np.uint8), -1, 0))


def section_votes(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    rows: slice,
    *,
    device: str | None = None,
    at_once: int = BLOCK,
) -> np.ndarray:
    """Return the share of the votes for each class on one line; 0 at samples without votes.

    Parameters
    ----------
    volume, grid, mapper
        As for `label_volume`.
    rows : slice
        Rows of the grid with the patches of the line.
    device : str, optional
        Torch device of the mapper.
    at_once : int
        Number of patches whose scores are in memory at once.

    Returns
    -------
    array, shape (n_traces, n_samples, n_classes)
    """
    starts = grid.places(rows)
    if _takes_sections(grid, mapper):
        return _whole_section(volume, grid, mapper, starts[0, :2], device)
    shape = (len(grid.axes[1 - starts[0, 0]]), len(grid.axes[2]))
    total = np.zeros((*shape, len(mapper.classes_)), np.float32)
    weight = np.zeros(shape, np.float32)
    for span in spans(len(starts), at_once):
        patches = grid.cut(volume, starts[span])
        whole = np.isfinite(patches).all(axis=(1, 2))
        if not whole.any():
            continue
        scores = _scores(mapper, patches[whole], device)
        share = scores / np.maximum(scores.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        add_windows(total, weight, share.swapaxes(1, 2), starts[span][whole, 2:])
    return total / np.where(weight > 0, weight, 1)[..., None]


def _takes_sections(grid: PatchGrid, mapper: Any) -> bool:
    return hasattr(mapper, "votes") and grid.gain != "patch"


def _whole_section(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, place: Any, device: str | None = None
) -> np.ndarray:
    """Return the votes of a mapper that labels whole sections; missing traces count as zero amplitude and get no votes.

    The shape is (n_traces, n_samples, n_classes).
    """
    section, live = grid.section(volume, *place)
    known = np.isfinite(section)
    options = {"device": device} if device and isinstance(mapper, PointMapper) else {}
    votes: np.ndarray = mapper.votes(np.where(known, section, np.float32(0.5)).T, int(place[1]), **options)
    if votes.shape[-1] == 1:
        votes = np.maximum(votes, np.float32(LEAST))
    return votes * (known & live[:, None] & grid.inside(*place))[..., None]


def _scores(mapper: Any, patches: np.ndarray, device: str | None) -> np.ndarray:
    if device is None:
        return to_numpy(mapper.scores(patches))
    import torch

    return to_numpy(mapper.scores(torch.from_numpy(patches).to(device)))


def chosen_lines(grid: PatchGrid, rows: dict[int, slice], lines: Sequence[int] | np.ndarray | None) -> list[int]:
    """Return the lines to label in ascending order, each as its position on the axis of the lines.

    Raise a ValueError if one of the lines cannot be labelled.

    Parameters
    ----------
    grid : PatchGrid
    rows : dict
        Position of a line -> rows of its patches, from `lines_of`.
    lines : sequence of int, optional
        Inline or crossline numbers; by default all lines of `rows`.
    """
    if lines is None:
        return sorted(rows)
    axis = grid.axes[line_axis(grid)]
    have = axis[sorted(rows)]
    missing = [label for label in lines if label not in have]
    if missing:
        raise ValueError(
            f"{grid.along} {missing[0]} cannot be labelled; choose one of the {len(have)} lines from {have[0]} to "
            f"{have[-1]} that have patches or live traces."
        )
    return sorted({int(position) for position in positions_of(axis, lines)})
