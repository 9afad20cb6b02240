"""Open volumes and jobs for commands, with a Dask cluster, memory limit and progress bars."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcrop as oc
from outcrop.cli.console import say, work_bars
from outcrop.cli.texts import numbers
from outcrop.parallel import cluster, memory_budget

if TYPE_CHECKING:
    import xarray as xr


def open_volume(path: str, header_bytes: str | None = None, domain: str | None = None) -> "xr.DataArray":
    """Open a volume; `header_bytes` is the text of --header-bytes, such as ``9,21``; None detects the bytes."""
    if header_bytes is None:
        return oc.open_volume(path, domain=domain)
    return oc.open_volume(path, domain=domain, header_bytes=numbers(header_bytes, 2, "--header-bytes"))


@contextlib.contextmanager
def open_job(path: str | Path, volume: "xr.DataArray | None" = None) -> "Iterator[oc.Job]":
    """Open a job for a command of the shell, and print the notes of the job when the command ends.

    A new job needs `volume`; an existing job opens its volume itself if `volume` is None.
    """
    with oc.Job(path, volume=volume, origin="shell") as job:
        try:
            yield job
        finally:
            for note in dict.fromkeys(job.notes):
                say(note, style="yellow")


@contextlib.contextmanager
def resources(workers: int | None, scheduler: str | None, memory: str | None) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments ``client``, ``memory`` (in bytes) and ``progress`` for methods of `Job`.

    ``client`` is a Dask client, or None if neither `workers` nor `scheduler` is given.
    """
    budget = memory_budget(memory)
    with cluster(workers=workers, scheduler=scheduler, memory=budget) as client, work_bars() as progress:
        yield {"client": client, "memory": budget, "progress": progress}
