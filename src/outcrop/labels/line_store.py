"""Arrays of a survey on disk: a Zarr group with one file for each line and array, and a log of finished lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from outcrop.storage.chunks import confirm_chunks
from outcrop.storage.workspace import DoneLog, whole_file

TRACES = 32  # traces in a chunk; a section across the lines reads one chunk of each line
Seals = dict[str, list[str]]  # name of an array -> checksums of the chunks of one line


def create_group(
    path: Path,
    arrays: Mapping[str, tuple[Sequence[int], str]],
    axes: Mapping[str, int],
    *,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, Any],
) -> None:
    """Create a Zarr group atomically; each array gets one file per line, in chunks of a few traces.

    Parameters
    ----------
    path : Path
        Folder of the group.
    arrays : dict
        Name of each array -> its shape and type. Apart from the axis of the lines, the last two axes are traces and
        samples.
    axes : dict
        Name of each array -> number of its axis of lines.
    dims : dict, optional
        Name of each array -> names of its axes.
    coords : dict, optional
        Name of each axis -> its coordinates.
    attrs : dict
        Attributes of the group.
    """
    with whole_file(path) as aside:
        group = zarr.open_group(aside, mode="w", attributes=dict(attrs))
        for name, values in (coords or {}).items():
            group.create_array(name, data=values, dimension_names=(name,))
        for name, (shape, dtype) in arrays.items():
            chunks, shards = file_layout(shape, axes[name])
            codecs: list[Any] = [ZstdCodec(), Crc32cCodec()]
            layout: dict[str, Any] = {"chunks": chunks, "shards": shards} if len(shape) > 2 else {"chunks": chunks}
            layout["dimension_names"] = (dims or {}).get(name)
            group.create_array(name, shape=tuple(shape), dtype=dtype, fill_value=0, compressors=codecs, **layout)


def file_layout(shape: Sequence[int], axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a chunk and the shape of a file, for an array in which the given axis numbers the lines.

    Examples
    --------
    >>> file_layout((100, 3, 70, 462), 0)
    ((1, 3, 32, 462), (1, 3, 96, 462))
    """
    chunk = [max(1, n) for n in shape]
    chunk[axis] = 1
    traces = next((other for other in range(len(shape) - 2, -1, -1) if other != axis), None)
    if traces is None or len(shape) < 3:
        return tuple(chunk), tuple(chunk)
    whole = list(chunk)
    chunk[traces] = min(TRACES, chunk[traces])
    whole[traces] = -(-whole[traces] // chunk[traces]) * chunk[traces]
    return tuple(chunk), tuple(whole)


class LineStore:
    """Arrays on disk that are written line by line, by this or another process, with a log of finished lines.

    Parameters
    ----------
    path : path
        Path of the Zarr group; ``NAME.done`` next to it lists the finished lines.
    """

    arrays: dict[str, Any]
    axes: dict[str, int]  # name of each array -> number of its axis of lines

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.done = DoneLog(self.path.with_suffix(".done"))

    def confirm(self, line: int, seals: Seals) -> None:
        """Record a line as finished, after checking that this process can read the chunks that were written.

        `seals` holds the checksums of the written chunks of each array.
        """
        for name, seal in seals.items():
            confirm_chunks(self.arrays[name], self.axes[name], line, seal)
        self.done.add(line)
