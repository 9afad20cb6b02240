"""Estimates of the time and disk space that an index or labels need, measured on a small part of the work."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
import zarr

from outcrop.job.fitting import job_mapper
from outcrop.job.labelling import labelled_lines, line_positions
from outcrop.job.options import IndexOptions
from outcrop.job.sections import labelling_grid
from outcrop.labels.vote_store import VoteStore
from outcrop.labels.votes import line_votes, lines_of
from outcrop.measures.registry import indexed_measure
from outcrop.parallel import map_blocks, n_cores, spans
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import BLOCK, feature_codecs
from outcrop.storage.chunks import stored_bytes
from outcrop.volumes.identity import line_digest

if TYPE_CHECKING:
    from outcrop.job.core import Job

PATCHES = 64  # number of patches that each thread describes for the measurement
LINES = 2  # number of lines that each thread labels for the measurement
START = 4.0  # seconds until the processes of a local cluster have started and loaded the package
SPENT = 3.0  # seconds in which a command loads libraries, opens the volume and ends


class Cost(NamedTuple):
    """Cost of a stage: number of patches or lines, seconds, and bytes on the disk."""

    units: int
    seconds: float
    bytes: float


def index_cost(volume: xr.DataArray, grid: PatchGrid, options: IndexOptions, *, workers: int | None = None) -> Cost:
    """Return the time and disk space that an index with all patches of a grid needs.

    The descriptors of a few patches at three places of the survey are computed and timed. As many threads work as for
    the index, so that the measurement includes the competition between threads.

    Parameters
    ----------
    volume : DataArray
    grid : PatchGrid
    options : IndexOptions
    workers : int, optional
        Number of processes; if it is not given, threads are used instead, one for each core.
    """
    measure, threads = indexed_measure(asdict(options)), workers or n_cores()
    parts = _places(len(grid), PATCHES, threads)
    first = np.nan_to_num(grid.extract(volume, slice(0, min(2, len(grid)))))
    measure.describe(first, workers=1)  # prepares kernels and windows before the clock starts

    def described(rows: np.ndarray) -> np.ndarray:
        return np.asarray(measure.describe(np.nan_to_num(grid.extract(volume, rows)), workers=1))

    begin = time.perf_counter()
    found = np.concatenate(list(map_blocks(described, parts, workers=threads)))
    per_patch = (time.perf_counter() - begin) / len(found)
    lines = sum(1 for _ in grid.lines())
    # every block checks the lines of its patches, so a line shared by two blocks is read twice
    seconds = SPENT + len(grid) * per_patch + (lines + len(grid) / BLOCK) * _digest_seconds(volume) / threads
    return Cost(len(grid), seconds + (START if workers else 0), len(grid) * _stored(found) / len(found))


def label_cost(
    job: "Job",
    lines: Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    progress: Any = None,
    **where: Any,
) -> Cost:
    """Return the time and disk space needed to label the lines whose labels are missing or stale.

    If no mapper of the present decisions is stored, it is fitted and stored first.

    Parameters
    ----------
    job : Job
    lines : list of int, optional
        Line numbers; by default all lines.
    options : dict, optional
        Mapping and seed, if they differ from those of the job.
    workers : int, optional
        Number of processes; if it is not given, threads are used instead, one for each core.
    progress, **where
        As for `Job.label`; ``where`` may contain ``device`` and ``memory``.
    """
    plan = replace(job.plan, label=job.plan.label.updated(**(options or {})))
    mapper = job_mapper(job, plan, progress=progress, **where)
    grid = labelling_grid(job, plan)
    every = sorted(lines_of(grid, mapper))
    wanted = line_positions(job, plan, lines, every)
    done = labelled_lines(job, plan)
    left = [line for line in wanted if done.get(line, True)]
    if not left:
        return Cost(0, 0.0, 0.0)
    threads = workers or n_cores()
    axis = job.axes[plan.along]
    some = every[max(0, len(every) // 2 - LINES * threads // 2) :][: max(1, LINES * threads)]
    where["workers"] = threads
    # Load nets and windows before the clock starts; on a line that is not timed, as its features stay in memory.
    list(line_votes(job.volume, grid, mapper, axis[every[:1]], **where))
    begin = time.perf_counter()
    votes = [votes for _, votes in line_votes(job.volume, grid, mapper, axis[some], **where)]
    per_line = (time.perf_counter() - begin) / len(some)
    writing, size = _written(votes, [str(name) for name in mapper.classes_])
    seconds = SPENT + len(left) * (per_line + (writing + _digest_seconds(job.volume)) / threads)
    return Cost(len(left), seconds + (START if workers else 0), len(left) * size)


def check_disk(folder: Path, needed: float) -> None:
    """Raise ValueError if `needed` bytes do not fit on the disk of a folder; the folder may not exist yet.

    Files in the folder count as free space, because they may be part of the same work.
    """
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        # earlier results in the folder may be part of the work
        free += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if needed > free:
        raise ValueError(
            f"{folder} needs about {needed / 1e6:.0f} MB, but only {free / 1e6:.0f} MB are free there; free some "
            "space, choose a larger step or a larger value of 'every', or choose another folder."
        )


def _places(n: int, count: int, threads: int) -> list[np.ndarray]:
    """Return blocks of patch numbers to measure, from the start, the middle and the end of a grid of `n` patches.

    The blocks contain about `count` patches for each thread.
    """
    size = max(1, min(count * threads, n) // 3)
    starts = sorted({0, max(0, n // 2 - size // 2), n - size})
    rows = np.unique(np.concatenate([np.arange(start, start + size) for start in starts]))
    return [rows[span] for span in spans(len(rows), max(1, len(rows) // (2 * threads)))]


def _digest_seconds(volume: xr.DataArray) -> float:
    """Return the seconds needed to read one line of the volume and to compute its digest."""
    begin = time.perf_counter()
    line_digest(volume[len(volume) // 2].values)
    return time.perf_counter() - begin


def _stored(features: np.ndarray) -> float:
    """Return the bytes on the disk that descriptors take in an index after compression."""
    with tempfile.TemporaryDirectory() as folder:
        array = zarr.create_array(Path(folder) / "f.zarr", data=features, chunks=features.shape, **feature_codecs())
        return stored_bytes(array)


def _written(votes: Sequence[np.ndarray], classes: Sequence[str]) -> tuple[float, float]:
    """Return the mean seconds and bytes that storing the votes of one line takes; `votes` has one array per line."""
    with tempfile.TemporaryDirectory() as folder:
        store = VoteStore.make(Path(folder), (len(votes), *votes[0].shape[1:]), classes)
        begin = time.perf_counter()
        for line, votes_of_line in enumerate(votes):
            store.confirm(line, store.write(line, votes_of_line))
        return (time.perf_counter() - begin) / len(votes), stored_bytes(store.votes) / len(votes)
