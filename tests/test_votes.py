"""The store of votes: votes are read back, in full and in part, and take little space."""

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

import outcrop as oc
from outcrop.labels.line_store import TRACES
from outcrop.labels.vote_store import VoteStore
from outcrop.storage.chunks import read_chunk, stored_bytes
from outcrop.storage.workspace import Damaged

SHAPE = (5, 3 * TRACES + 7, 20)  # lines, traces, samples


@pytest.fixture
def votes():
    """Return votes of two classes that vary slowly from trace to trace, as from mappers; random in the last line."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.integers(-1, 2, (5, 1, *SHAPE[1:])), axis=2) % 256
    first = walk.astype(np.uint8)
    found = np.concatenate([first, 255 - first], axis=1)
    found[-1] = rng.integers(0, 256, found[-1].shape)
    return found


def filled(store, votes):
    """Return a store with all lines written."""
    for line, values in enumerate(votes):
        store.confirm(line, store.write(line, values))
    return store


@pytest.fixture
def store(tmp_path, votes):
    """Return a store with all lines written."""
    return filled(VoteStore.make(tmp_path, SHAPE, ["a", "other"]), votes)


PARTS = [
    slice(None), slice(3, 4), slice(TRACES - 2, TRACES + 3), slice(0, None, 10), slice(SHAPE[1] - 1, None),
    np.array([1, 70]), np.array([TRACES]), np.arange(0),
]  # fmt: skip


@pytest.mark.parametrize("traces", PARTS, ids=str)
def test_parts_are_read_back(store, votes, traces):
    """Parts are traces of one chunk and of several, sparse, or the last; of one line or several; with some samples."""
    for samples in (slice(None), slice(4, 9), np.array([0, 3, 19])):
        expected = votes[:, :, traces][..., samples]
        np.testing.assert_array_equal(store.read(4, traces, samples), expected[4])
        np.testing.assert_array_equal(store.read_lines([0, 1, 4], traces, samples), expected[[0, 1, 4]].swapaxes(0, 1))


def test_chunks_equal_chunks_read_by_zarr(tmp_path, votes):
    """Chunks are equal, also of an unwritten line and without votes; damage is found."""
    votes[1, :, : 2 * TRACES] = 0
    store = filled(VoteStore.make(tmp_path, SHAPE, ["a", "other"]), votes[:3])
    width = -(-SHAPE[1] // TRACES) * TRACES
    for line in range(4):
        whole = np.pad(store.votes[line], [(0, 0), (0, width - SHAPE[1]), (0, 0)])
        for number in range(width // TRACES):
            expected = whole[None, :, number * TRACES : (number + 1) * TRACES]
            np.testing.assert_array_equal(read_chunk(store.votes, line, number), expected)
    path = next(path for path in (tmp_path / "votes.zarr" / "votes" / "c" / "2").rglob("*") if path.is_file())
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="checksum"):
        read_chunk(store.votes, 2, 0)


def test_differences_take_less_space(tmp_path, votes):
    """Differences of slowly varying votes compress better than votes; a line is one file."""
    now = filled(VoteStore.make(tmp_path, SHAPE, ["a", "other"]), votes[:4])
    checked = {"compressors": [ZstdCodec(), Crc32cCodec()], "chunks": (1, 2, 64, 20), "dtype": "uint8"}
    plain = zarr.create_array(tmp_path / "plain.zarr", shape=(4, 2, *SHAPE[1:]), **checked)
    plain[:] = votes[:4]
    assert stored_bytes(now.votes) < 0.7 * stored_bytes(plain)
    files = [path for path in (tmp_path / "votes.zarr" / "votes" / "c").rglob("*") if path.is_file()]
    assert len(files) == 4


@pytest.mark.parametrize("traces", [slice(None), slice(3, 4), slice(90, 100)])
def test_a_damaged_line_among_many_is_named(tmp_path, votes, traces):
    """Only the damaged line is removed from the log of finished lines."""
    store = filled(VoteStore.make(tmp_path, SHAPE, ["a", "other"]), votes)
    path = next(path for path in (tmp_path / "votes.zarr" / "votes" / "c" / "2").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Damaged, match="damaged"):
        store.read_lines(range(5), traces)
    assert store.done.read() == {0, 1, 3, 4}


def test_status_reports_the_bytes(tmp_path, outcrop):
    """Status reports the bytes of a patch and of a labelled sample, from the size of files."""
    volume, _ = oc.datasets.synthetic((6, 70, 64), seed=2)
    job = oc.Job(tmp_path / "j.outcrop", volume=volume)
    assert job.status()["disk"] == {}
    job.index(32, step=16)
    job.add_exemplar("layers", (103, 330, 128))
    job.add_exemplar("other", (105, 350, 160))
    job.label([101, 102])
    disk = job.status()["disk"]
    files = {name: sum(path.stat().st_size for path in job.path.rglob(f"{name}/c/**/*") if path.is_file())
             for name in ("features", "votes")}  # fmt: skip
    assert (disk["index"], disk["votes"]) == (files["features"], files["votes"])
    assert disk["bytes_a_patch"] == pytest.approx(files["features"] / len(job.index()), abs=0.1)
    for kind in ("mapper", "survey"):
        sizes = [path.stat().st_size for path in (job.stages.root / kind).rglob("*") if path.is_file()]
        assert disk[kind] == sum(sizes) > 0
    assert "subset of the survey" in outcrop("status", job.path)[1]
    assert disk["bytes_a_sample"] == pytest.approx(files["votes"] / (2 * 70 * 64), abs=0.001)


def test_a_section_across_the_lines_equals_its_lines(tmp_path):
    """Reading many lines at once works with an unlabelled line, and with strokes near others."""
    volume, _ = oc.datasets.synthetic((9, 70, 64), seed=2)
    job = oc.Job(tmp_path / "j.outcrop", volume=volume)
    job.index(32, step=16)
    job.add_exemplar("layers", (103, 330, 128))
    job.add_exemplar("other", (105, 350, 160))
    job.label([100, 101, 102, 103, 104, 105, 106, 108])
    job.paint("layers", [(101, 320, 80), (101, 330, 100)], radius=2)
    for name in ("label", "confidence"):
        lines = np.stack([job.labels[name].sel(inline=line).values for line in job.labels.inline.values])
        assert lines.any()
        for crossline in (0, 33, 69):
            np.testing.assert_array_equal(job.labels[name].values[:, crossline], lines[:, crossline])
            np.testing.assert_array_equal(job.labels[name][:, crossline].values, lines[:, crossline])
