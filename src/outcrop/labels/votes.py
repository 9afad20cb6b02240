"""Votes for whole sections, line by line, from overlapping patches or sections at once."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import xarray as xr

from outcrop.arrays import device_list, to_numpy
from outcrop.mapping.points import PointMapper
from outcrop.parallel import map_blocks, map_groups, memory_budget, spans
from outcrop.patches.grid import PatchGrid
from outcrop.patches.windows import add_windows
from outcrop.volumes.axes import positions_of
from outcrop.volumes.neighbours import neighbour_groups

BLOCK = 256  # patches whose scores are held at once
ON_DEVICE = 8 << 20  # samples of the lines that a torch device labels at once
Votes = Mapping[int, np.ndarray]  # of a line and its neighbours, by position
COST = 250, 50  # bytes a sample of a line takes while it is labelled, and more per class


def line_votes(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    lines: Sequence[int] | np.ndarray | None = None,
    *,
    across: int = 0,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    workers: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the votes on the lines of a grid, one after the other in rising order; a few lines are held at a time.

    Parameters
    ----------
    volume, grid, mapper, lines, across, device, client, memory
        As for `label_volume`.
    workers : int, optional
        Number of threads, all cores by default.

    Yields
    ------
    line : int
        Position on the axis of the lines.
    votes : uint8 array, shape (n_classes, n_traces, n_samples)
        Mean of the line and its neighbours, 255 = all of the vote; 0 for all classes where nobody votes. `decide` makes
        labels of them.
    """
    wanted, rows = _wanted(volume, grid, mapper, lines, across)
    needed = sorted({line for lines in wanted.values() for line in lines})
    memory = memory or memory_budget()
    options: dict[str, Any] = {"client": client, "memory": memory, "cost": cost(volume, grid, mapper.classes_)}
    devices = device_list(device)
    if devices and not client and _takes_sections(grid, mapper):
        votes = _device_votes(volume, grid, mapper, devices, needed, **options)
    else:
        work = partial(_packed_votes, volume, grid, mapper, devices, _at_once(grid, mapper, memory))
        blocks = [(line, rows[line]) for line in needed]
        votes = map_blocks(work, blocks, workers=len(devices) or workers, **options)
    yield from _together(wanted, zip(needed, votes, strict=True))


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
    """Compute votes on the lines of a grid, each given to `write` where it was made: on a cluster by its worker.

    Parameters
    ----------
    write : callable
        Called with the position of a line and its votes; what it returns should be small.
    volume, grid, mapper, lines, client, **where
        As for `line_votes`.

    Yields
    ------
    line : int
        Position on the axis of the lines, in rising order.
    written
        What `write` returned.
    """
    if client is None:
        votes = line_votes(volume, grid, mapper, lines, **where)
        # threads would only compete with those that vote; a device does not wait while its last lines are written
        yield from map_blocks(lambda pair: (pair[0], write(*pair)), votes, workers=None if where.get("device") else 1)
        return
    wanted, rows = _wanted(volume, grid, mapper, lines, where.get("across", 0))
    at_once = _at_once(grid, mapper, where.get("memory") or memory_budget())
    work = partial(_packed_votes, volume, grid, mapper, device_list(where.get("device")), at_once)
    groups = ((line, {one: (one, rows[one]) for one in near}) for line, near in wanted.items())
    yield from zip(wanted, map_groups(client, work, partial(_write_mean, write), groups), strict=True)


def _write_mean(write: Callable[[int, np.ndarray], Any], line: int, votes: Votes) -> Any:
    return write(line, _mean_votes(line, votes))


def _wanted(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, lines: Sequence[int] | np.ndarray | None, across: int
) -> tuple[dict[int, list[int]], dict[int, slice]]:
    """Return position of every line asked for -> rising positions of the lines that vote on it; and rows of patches."""
    rows = lines_of(grid, mapper)
    group = neighbour_groups(volume, grid.along)
    chosen = chosen_lines(grid, rows, lines)
    near: dict[int, list[int]] = {}
    for line in chosen:
        close = range(line - across, line + across + 1)
        near[line] = [other for other in close if other in rows and group[other] == group[line]]
    return near, rows


def _at_once(grid: PatchGrid, mapper: Any, memory: int) -> int:
    """Return the number of patches whose scores are held at once."""
    return int(np.clip(memory // (64 * grid.size[0] * grid.size[1] * (1 + len(mapper.classes_))), 8, BLOCK))


def lines_of(grid: PatchGrid, mapper: Any) -> dict[int, slice]:
    """Return position -> rows of the patches, for every line that a mapper can label.

    Mappers that take whole sections need no patches, only the lines.
    """
    rows = {int(line): rows for _, line, rows in grid.lines()}
    if not _takes_sections(grid, mapper):
        return rows
    return {int(line): rows.get(int(line), slice(0, 0)) for line in grid.live_lines()}


def cost(volume: xr.DataArray, grid: PatchGrid, classes: Sequence[str]) -> int:
    """Return the bytes that one line takes while it is labelled."""
    return volume.size // volume.shape[line_axis(grid)] * (COST[0] + COST[1] * len(classes))


def line_axis(grid: PatchGrid) -> int:
    """Return the axis of a volume that the lines of a grid number."""
    return int(grid.along == "crossline")


def made_from(mapper: str, options: dict[str, Any]) -> str:
    """Return the digest of all that the labels of a store depend on besides the volume."""
    return hashlib.sha256(json.dumps([mapper, options], sort_keys=True, default=str).encode()).hexdigest()


def _packed_votes(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, devices: list[str], at_once: int, block: tuple[int, slice]
) -> np.ndarray:
    """Return votes on one line, as bytes, class by class: what travels and what is held of the neighbours."""
    line, rows = block
    if _takes_sections(grid, mapper):
        votes = _whole_section(volume, grid, mapper, (line_axis(grid), line))
    else:
        device = devices[line % len(devices)] if devices else None
        votes = section_votes(volume, grid, mapper, rows, device=device, at_once=at_once)
    return np.ascontiguousarray(np.moveaxis(np.round(255 * votes).astype(np.uint8), -1, 0))


def _device_votes(
    volume: xr.DataArray, grid: PatchGrid, mapper: Any, devices: list[str], lines: list[int], **options: Any
) -> Iterator[np.ndarray]:
    """Yield votes on lines, bytes, several lines at once on each torch device; threads read ahead."""
    from outcrop.mapping.torch_mapping import TorchScores

    scores = [TorchScores(mapper, device) for device in devices]
    sections = map_blocks(lambda line: _filled_section(volume, grid, (line_axis(grid), line)), lines, **options)
    at_once = max(1, ON_DEVICE // (volume.size // volume.shape[line_axis(grid)]))
    at_once = max(1, min(at_once, -(-len(lines) // len(devices))))
    blocks = enumerate(iter(lambda: list(islice(sections, at_once)), []))

    def vote(block: tuple[int, Any]) -> Any:
        number, some = block
        return scores[number % len(scores)].packed(*map(np.stack, zip(*some, strict=True)))

    for votes in map_blocks(vote, blocks, workers=len(devices)):
        yield from votes


def _together(
    near: Mapping[int, list[int]], votes: Iterator[tuple[int, np.ndarray]]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the mean votes of each line and its neighbours, in order; no votes where the line itself has none."""
    held: dict[int, np.ndarray] = {}
    for line, lines in near.items():
        while lines[-1] not in held:
            other, packed = next(votes)
            held[other] = packed
        held = {other: packed for other, packed in held.items() if other >= lines[0]}
        yield line, _mean_votes(line, {other: held[other] for other in lines})


def _mean_votes(line: int, votes: Votes) -> np.ndarray:
    """Return the mean votes of a line and its neighbours, by position, where the line itself has any."""
    if len(votes) == 1:
        return votes[line]
    total = np.where(votes[line].any(axis=0), sum(one.astype(np.uint16) for one in votes.values()), 0)
    return _rounded(total, len(votes))


def _rounded(total: np.ndarray, n: int) -> np.ndarray:
    """Return sums of n bytes, class by class, as means in bytes; the class that wins by a fraction still wins."""
    mean = ((total + n // 2) // n).astype(np.uint8)
    best, seen = total.argmax(axis=0), mean.argmax(axis=0)
    for code in range(1, len(mean)):  # only a class before the winner can take its place
        mean[code] += (best == code) & (seen < code)
    return mean


def section_votes(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    rows: slice,
    *,
    device: str | None = None,
    at_once: int = BLOCK,
) -> np.ndarray:
    """Return shares of the vote on one line, shape (n_traces, n_samples, n_classes); 0 where nobody votes."""
    starts = grid.places(rows)
    if _takes_sections(grid, mapper):
        return _whole_section(volume, grid, mapper, starts[0, :2])
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
    return bool(getattr(mapper, "any_size", False)) and grid.gain != "patch"


def _whole_section(volume: xr.DataArray, grid: PatchGrid, mapper: Any, place: Any) -> np.ndarray:
    """Return votes of a mapper that takes sections of any size; missing traces count as silence and get no vote."""
    section, votes = _filled_section(volume, grid, place)
    if isinstance(mapper, PointMapper):  # the line counts, not only what the section looks like
        scores: np.ndarray = mapper.votes(section, int(place[1]))
    else:
        scores = to_numpy(mapper.scores(section[None]))[0].swapaxes(0, 1)
    shares: np.ndarray = scores / scores.sum(axis=-1, keepdims=True) * votes[..., None]
    return shares


def _filled_section(volume: xr.DataArray, grid: PatchGrid, place: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return a section, shape (n_samples, n_traces), silent where missing; and the mask of votes, transposed."""
    section, live = grid.section(volume, *place)
    known = np.isfinite(section)
    return np.where(known, section, np.float32(0.5)).T, known & live[:, None] & grid.inside(*place)


def _scores(mapper: Any, patches: np.ndarray, device: str | None) -> np.ndarray:
    if device is None:
        return to_numpy(mapper.scores(patches))
    import torch

    return to_numpy(mapper.scores(torch.from_numpy(patches).to(device)))


def chosen_lines(grid: PatchGrid, rows: dict[int, slice], lines: Sequence[int] | np.ndarray | None) -> list[int]:
    """Return rising positions of the lines asked for by their survey labels, all of `rows` by default."""
    if lines is None:
        return sorted(rows)
    axis = grid.axes[line_axis(grid)]
    have = axis[sorted(rows)]
    missing = [label for label in lines if label not in have]
    if missing:
        raise ValueError(
            f"{grid.along} {missing[0]} is not among the lines to label, {have[0]} to {have[-1]}; choose another."
        )
    return sorted({int(position) for position in positions_of(axis, lines)})
