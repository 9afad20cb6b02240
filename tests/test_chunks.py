"""Chunks that several processes write: the main process compares the seal of each, and no chunk is incomplete."""

import os
import time

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from outcrop.storage.chunks import (
    chunk_seals,
    clear_leftovers,
    confirm_chunks,
    read_chunk,
    stored_bytes,
    write_chunks,
    write_file,
)


@pytest.fixture
def array(tmp_path):
    """Return an array of lines with two chunks per line."""
    options = {"shape": (4, 6, 5), "chunks": (1, 3, 5), "dtype": "u1", "fill_value": 0}
    return zarr.create_array(tmp_path / "a.zarr", **options, compressors=[ZstdCodec(), Crc32cCodec()])


def test_only_the_chunks_of_a_line_are_written(array):
    """Every written chunk has a seal; other lines have no files."""
    line = np.arange(30, dtype="u1").reshape(1, 6, 5)
    seals = write_chunks(array, 0, 2, line)
    assert len(set(seals)) == 2 and all(seals)
    np.testing.assert_array_equal(array[2:3], line)
    assert chunk_seals(array, 0, 1) == ["", ""]
    assert stored_bytes(array) == sum(int(seal.split()[0]) for seal in seals)


def test_the_axis_of_the_lines_may_be_another(tmp_path):
    """Labels of crosslines have chunks through all inlines."""
    array = zarr.create_array(tmp_path / "a.zarr", shape=(3, 4, 5), chunks=(3, 1, 5), dtype="u1")
    write_chunks(array, 1, 3, np.full((3, 1, 5), 7, "u1"))
    assert (array[:, 3] == 7).all() and not array[:, :3].any()


def test_a_chunk_must_match_its_seal(array, monkeypatch):
    """A chunk that differs from the seal of its worker is refused with the remedy; a late chunk is accepted."""
    monkeypatch.setattr("outcrop.storage.chunks.SEEN_WITHIN", (0.01,))
    seals = write_chunks(array, 0, 0, np.ones((1, 6, 5), "u1"))
    confirm_chunks(array, 0, 0, seals)
    write_chunks(array, 0, 0, np.full((1, 6, 5), 2, "u1"))
    with pytest.raises(OSError, match="under the same path"):
        confirm_chunks(array, 0, 0, seals)
    monkeypatch.setattr(time, "sleep", lambda _: write_chunks(array, 0, 0, np.ones((1, 6, 5), "u1")))
    confirm_chunks(array, 0, 0, seals)


def test_a_worker_that_does_not_see_the_folder_writes_nothing(array, tmp_path):
    """The worker raises an error and does not make a folder under the same path."""
    os.rename(tmp_path / "a.zarr", tmp_path / "b.zarr")
    with pytest.raises(OSError, match="not visible to the worker"):
        write_chunks(array, 0, 0, np.ones((1, 6, 5), "u1"))
    assert not (tmp_path / "a.zarr").exists()


def test_a_chunk_that_comes_back_changed_is_refused(array, monkeypatch):
    """Values are read back and compared with the written values."""
    monkeypatch.setattr(type(array), "__getitem__", lambda *_: np.zeros((1, 6, 5), "u1"))
    with pytest.raises(OSError, match="other values than were written"):
        write_chunks(array, 0, 0, np.ones((1, 6, 5), "u1"))


@pytest.mark.parametrize("sharded", [True, False])
def test_a_directly_written_file_equals_that_of_zarr(tmp_path, sharded):
    """Zarr reads files written without it, chunks of zeros take no space, and other lines are unchanged."""
    options = {"shape": (4, 2, 7, 5), "chunks": (1, 2, 3, 5), "shards": (1, 2, 9, 5), "dtype": "u1", "fill_value": 0}
    options |= {} if sharded else {"chunks": (1, 2, 7, 5), "shards": None, "dtype": "u4"}
    codecs = {"compressors": [ZstdCodec(), Crc32cCodec()]}
    plain, direct = (zarr.create_array(tmp_path / f"{name}.zarr", **options, **codecs) for name in "ab")
    lines = np.random.default_rng(0).integers(0, 9, (4, 2, 7, 5)).astype(plain.dtype)
    lines[1, :, 3:6], lines[2] = 0, 0
    for number in (3, 1, 2):
        assert write_chunks(plain, 0, number, lines[number : number + 1]) == write_file(direct, number, lines[number])
    np.testing.assert_array_equal(direct[1:], lines[1:])
    assert not direct[:1].any() and stored_bytes(direct) == stored_bytes(plain)
    assert not any(tmp_path.rglob("*.partial"))
    if sharded:
        np.testing.assert_array_equal(read_chunk(direct, 3, 0)[0], lines[3, :, :3])


def test_a_file_that_comes_back_changed_is_refused(array, monkeypatch, tmp_path):
    """A file that is read back changed, and a folder that the worker does not see, give an error."""
    array = zarr.create_array(tmp_path / "c.zarr", shape=(2, 3), chunks=(1, 3), dtype="u1", compressors=[ZstdCodec()])
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.read_bytes", lambda _: b"")
        with pytest.raises(OSError, match="other values than were written"):
            write_file(array, 0, np.ones(3))
    os.rename(tmp_path / "c.zarr", tmp_path / "d.zarr")
    with pytest.raises(OSError, match="not visible to the worker"):
        write_file(array, 0, np.ones(3))
    assert not (tmp_path / "c.zarr").exists()


def test_only_old_partial_files_are_removed(array, tmp_path):
    """Partial files older than the duration of a write are removed; newer files of running processes stay."""
    write_chunks(array, 0, 0, np.ones((1, 6, 5), "u1"))
    folder = next(tmp_path.rglob("c/0/0/0")).parent
    old, new = folder / "0.a.partial", folder / "0.b.partial"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    clear_leftovers(array, 0, [0, 1])
    assert not old.exists() and new.exists() and (array[0] == 1).all()
