"""Write and read chunks of Zarr arrays in many processes at once; a chunk is complete or missing, never truncated.

A worker writes a chunk, reads it back and returns its seal: the size of its file and a checksum of the end of the file.
The main process compares the seal with the file that it sees before it counts the chunk as finished. Zarr writes every
file under a temporary name and renames it; the checksum in every chunk is compared at every read.
"""

import contextlib
import itertools
import os
import socket
import time
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import Zstd

SEEN_WITHIN = (0.05, 0.2, 1.0, 4.0, 10.0)  # pauses in seconds between two looks at a file: network folders show it late
EMPTY = 2**64 - 1  # offset of a chunk of zeros, which is not stored
END = 4096  # bytes at the end of a file that its seal covers
LEFT_AFTER = 60.0  # seconds after which an unfinished file is taken to belong to a killed process


def write_chunks(array: Any, axis: int, number: int, values: np.ndarray) -> list[str]:
    """Write all chunks that have the number `number` on one axis of a Zarr array; return their seals.

    The chunks are read back before their seals are computed.

    Parameters
    ----------
    array : zarr.Array
        Array in a folder, with a checksum as its last codec.
    axis, number : int
        All chunks with this number, counted from 0, on this axis are written.
    values : array
        Values of these chunks.

    Returns
    -------
    list of str
        Seal of every chunk: size of its file and checksum of the end of the file. Empty for a chunk of zeros, which has
        no file.

    Examples
    --------
    >>> import tempfile, zarr
    >>> from zarr.codecs import Crc32cCodec
    >>> options = {"shape": (4, 3), "chunks": (2, 3), "dtype": "u1", "compressors": [Crc32cCodec()]}
    >>> array = zarr.create_array(f"{tempfile.mkdtemp()}/a.zarr", **options)
    >>> seals = write_chunks(array, 0, 1, np.ones((2, 3), "u1"))
    >>> seals == chunk_seals(array, 0, 1), chunk_seals(array, 0, 0)
    (True, [''])
    """
    _check_seen(array)
    size = _file_shape(array)[axis]
    where = (slice(None),) * axis + (slice(number * size, min((number + 1) * size, array.shape[axis])),)
    array[where] = values
    if not np.array_equal(array[where], values):
        raise OSError(f"Chunk {number} of {_root(array)} holds other values than were written; check the disk.")
    return chunk_seals(array, axis, number)


def write_file(array: Any, number: int, values: Any) -> list[str]:
    """Write the file that holds the values at one position on the first axis; return a list with its seal.

    The seal is the same as from `write_chunks`. This function does not use Zarr, which takes ten milliseconds, longer
    than all other work on a short line.

    Parameters
    ----------
    array : zarr.Array
        Array with the codecs zstd and checksum, divided into chunks along one axis only.
    number : int
        Position on the first axis.
    values : array
        Values at this position.
    """
    _check_seen(array)
    (path,) = _files(array, 0, number)
    data = _encoded(array, np.asarray(values, array.dtype))
    if data is None:
        path.unlink(missing_ok=True)
        return [""]
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    aside.write_bytes(data)
    os.replace(aside, path)
    if path.read_bytes() != data:
        raise OSError(f"{path} holds other values than were written; check the disk.")
    return chunk_seals(array, 0, number)


def _encoded(array: Any, values: np.ndarray) -> bytes | None:
    """Return the contents of the file of `values`, which lie at one position on the first axis; None if all are 0.

    The file holds chunks, and behind them their offsets if the array has shards. Chunks at the end of an axis are
    padded with 0.
    """
    chunk, file = array.chunks[1:], _file_shape(array)[1:]
    full = np.zeros(file, array.dtype)
    full[tuple(slice(n) for n in values.shape)] = values
    axis = next((axis for axis, (part, whole) in enumerate(zip(chunk, file, strict=True)) if part < whole), 0)
    parts = np.split(full, file[axis] // chunk[axis], axis=axis)
    chunks = [_sealed(Zstd().encode(np.ascontiguousarray(part))) if part.any() else b"" for part in parts]
    if array.shards is None:
        return chunks[0] or None
    ends = np.cumsum([len(one) for one in chunks])
    places = [(end - len(one), len(one)) if one else (EMPTY, EMPTY) for one, end in zip(chunks, ends, strict=True)]
    return b"".join(chunks) + _sealed(np.array(places, "<u8").tobytes()) if any(chunks) else None


def _sealed(data: bytes) -> bytes:
    """Return bytes followed by their checksum (CRC32C, four bytes)."""
    return data + bytes(google_crc32c.value(data).to_bytes(4, "little"))


def _check_seen(array: Any) -> None:
    """Raise `OSError` if this process does not see the folder of an array, for instance on another machine."""
    if not (_root(array) / "zarr.json").is_file():
        raise OSError(
            f"{_root(array)} is not visible to the worker on {socket.gethostname()}; put the job folder where all "
            "workers see it under the same path."
        )


def chunk_seals(array: Any, axis: int, number: int) -> list[str]:
    """Return the seals (see `write_chunks`) of all chunks that have the number `number` on `axis`."""
    return [_seal(path) for path in _files(array, axis, number)]


def confirm_chunks(array: Any, axis: int, number: int, seals: list[str]) -> None:
    """Wait until the chunks that this process sees have the seals that `write_chunks` returned to their writer.

    `OSError` is raised if the seals still differ after about 15 seconds.
    """
    for pause in (*SEEN_WITHIN, None):
        if chunk_seals(array, axis, number) == seals:
            return
        if pause is None:
            break
        time.sleep(pause)
    raise OSError(
        f"Chunk {number} of {_root(array)} differs from what a worker wrote; put the job folder where all workers "
        "and this process see it under the same path, and run the same command again."
    )


def read_chunk(array: Any, shard: int, number: int) -> np.ndarray:
    """Read one chunk of a shard directly from its file; Zarr would take a millisecond longer.

    Parameters
    ----------
    array : zarr.Array
        Array of uint8 with the codecs zstd and checksum, whose shards are divided into chunks along one axis only.
    shard : int
        Position of the shard on the first axis, along which every shard has length 1.
    number : int
        Number of the chunk in its shard.

    Returns
    -------
    array
        Values of the chunk; zeros if it is not stored. A wrong checksum raises ValueError.
    """
    (path,) = _files(array, 0, shard)
    count = int(np.prod(array.shards) // np.prod(array.chunks))
    try:
        with open(path, "rb") as file:
            file.seek(-16 * count - 4, os.SEEK_END)
            offset, size = np.frombuffer(_sound(file.read(), path), "<u8").reshape(count, 2)[number].tolist()
            if offset == EMPTY:
                return np.zeros(array.chunks, np.uint8)
            file.seek(offset)
            data = _sound(file.read(size), path)
    except FileNotFoundError:
        return np.zeros(array.chunks, np.uint8)
    return np.frombuffer(Zstd().decode(data), np.uint8).reshape(array.chunks)


def _sound(data: bytes, path: Path) -> bytes:
    """Return `data` without its last four bytes, a checksum of the others; raise `ValueError` if it does not match.

    The error message names `path`, the file from which the bytes were read.
    """
    if google_crc32c.value(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"a checksum of {path} is wrong")
    return data[:-4]


def clear_leftovers(array: Any, axis: int, numbers: Iterable[int]) -> None:
    """Remove the temporary files of killed processes next to the chunks that have one of `numbers` on `axis`."""
    for number in numbers:
        for folder in {path.parent for path in _files(array, axis, number)}:
            for path in folder.glob("*.partial"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > LEFT_AFTER:
                        path.unlink()


def stored_bytes(array: Any) -> int:
    """Return the size in bytes of all chunks of a Zarr array on the disk."""
    files = (path for path in _root(array).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if path.name != "zarr.json")


def _root(array: Any) -> Path:
    return Path(array.store.root) / str(array.path)


def _files(array: Any, axis: int, number: int) -> list[Path]:
    """Return the paths of the files of all chunks that have the number `number` on `axis`."""
    every = [range(-(-n // size)) for n, size in zip(array.shape, _file_shape(array), strict=True)]
    every[axis] = range(number, number + 1)
    return [_root(array) / array.metadata.encode_chunk_key(place) for place in itertools.product(*every)]


def _file_shape(array: Any) -> tuple[int, ...]:
    """Return the shape of the values in one file of a Zarr array: a shard or, in an array without shards, a chunk."""
    shape: tuple[int, ...] = array.shards or array.chunks
    return shape


def _seal(path: Path) -> str:
    """Return the seal of a file: its size and a checksum of its last 4096 bytes; empty if the file is missing."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - END))
            return f"{size} {zlib.crc32(file.read()):08x}"
    except FileNotFoundError:
        return ""
