"""A local Dask cluster gives the same results as threads, also when a worker is killed during the work."""

import os
import signal

import numpy as np
import pytest
import zarr

from outcrop import Job, LabelMapper, PatchGrid, build_index, datasets, label_volume, open_index, open_volume, retrieve
from outcrop.parallel import cluster, map_blocks
from outcrop.storage.chunks import clear_leftovers
from outcrop.volumes.identity import LineLog, lines_path

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    """Yield a client of two workers, each a process with one thread."""
    with cluster(workers=2, memory=2 * 10**9) as client:
        yield client


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Return the volume of a small SEG-Y file, which workers open themselves."""
    path = tmp_path_factory.mktemp("cluster") / "ein Volumen ø.sgy"
    datasets.write_synthetic(path, (8, 100, 96), seed=3)
    return open_volume(path)


@pytest.fixture(scope="module")
def index(volume, tmp_path_factory):
    """Return an index of the volume, built by threads."""
    grid = PatchGrid(volume, size=32, step=(8, 12))
    return build_index(volume, grid, tmp_path_factory.mktemp("threads") / "v.outcrop")


def kill_a_worker(client):
    """Kill one worker process."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_order_of_blocks_errors_and_a_killed_worker(client):
    """Results come in the order of the blocks although a worker is killed; errors name their block."""
    seen = []
    for i, square in enumerate(map_blocks(lambda i: i * i, range(40), client=client)):
        seen.append(square)
        if i == 5:
            kill_a_worker(client)
    assert seen == [i * i for i in range(40)]
    with pytest.raises(ZeroDivisionError) as caught:
        list(map_blocks(lambda i: 1 // (3 - i), range(8), client=client))
    assert caught.value.__notes__ == ["while working on block 3"]


def test_a_block_that_kills_every_worker_gives_an_error_with_remedy(client):
    """The work stops with an error of one line that states the remedy."""
    with pytest.raises(OSError, match=r"gave up on block \d .* run the same command again"):
        list(map_blocks(lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == 1 else i, range(3), client=client))


def test_index_and_search_equal_those_of_threads(client, volume, index, tmp_path, monkeypatch):
    """Index and search are identical, although a worker is killed after the third block."""
    monkeypatch.setattr("outcrop.retrieval.index.BLOCK", 128)
    killed = []

    def progress(what, done, total):
        if done > 300 and not killed:
            killed.append(kill_a_worker(client))

    made = build_index(volume, index.grid, tmp_path / "v.outcrop", client=client, progress=progress)
    assert killed
    np.testing.assert_array_equal(made.features[:], index.features[:])
    np.testing.assert_array_equal(made.status, index.status)
    exemplars = {"layers": [(103, 350, 200)], "other": [(105, 330, 100)]}
    on_cluster, expected = open_index(made.workspace.path), retrieve(index, exemplars, 40)
    on_cluster.client = client
    np.testing.assert_array_equal(retrieve(on_cluster, exemplars, 40).rows, expected.rows)


def writes_nothing(*_, **__):
    """Replace `write_chunks` in the main process, which must not write."""
    raise AssertionError("the process that gathers wrote a chunk")


def die_at_the_next_rename(flag):
    """Let a worker kill itself after it has written a partial file and before it renames the file."""
    from pathlib import Path

    def replace(path, target):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    Path.replace = replace


def test_workers_killed_during_a_write_leave_no_incomplete_chunk(client, volume, index, tmp_path, monkeypatch):
    """If all workers are killed during a write, other workers write the chunks, and partial files can be removed."""
    monkeypatch.setattr("outcrop.retrieval.index.BLOCK", 128)
    monkeypatch.setattr("outcrop.retrieval.index.write_chunks", writes_nothing)
    flag = tmp_path / "died"
    client.wait_for_workers(2, timeout=120)
    client.run(die_at_the_next_rename, str(flag))
    made = build_index(volume, index.grid, tmp_path / "v.outcrop", client=client)
    assert flag.exists()
    np.testing.assert_array_equal(made.features[:], index.features[:])
    assert list(tmp_path.rglob("*.partial"))
    monkeypatch.setattr("outcrop.storage.chunks.LEFT_AFTER", -1)
    clear_leftovers(made.features, 0, range(made.features.shape[0] // 128 + 1))
    assert not list(tmp_path.rglob("*.partial"))
    np.testing.assert_array_equal(made.features[:], index.features[:])


@pytest.fixture
def quick_job(volume, tmp_path):
    """Return a function that makes a job with exemplars and retrieved patches."""

    def make(name):
        job = Job(tmp_path / name, volume=volume)
        job.index(size=32, step=(8, 12))
        job.add_exemplar("layers", (103, 350, 200))
        job.add_exemplar("other", (105, 330, 100))
        job.retrieve(count=20)
        return job

    return make


def test_workers_write_the_votes_of_a_job(client, quick_job, monkeypatch):
    """Votes and digests equal those from threads, although a worker is killed; this process writes no chunk."""
    on_threads, on_cluster = quick_job("threads.outcrop"), quick_job("cluster.outcrop")
    on_threads.label()
    monkeypatch.setattr("outcrop.labels.vote_store.write_file", writes_nothing)
    killed = []

    def progress(stage, done, total):
        if stage == "labelling" and done == 2 and not killed:
            killed.append(kill_a_worker(client))

    on_cluster.label(client=client, progress=progress)
    assert killed
    for name in ("label", "confidence"):
        np.testing.assert_array_equal(on_cluster.labels[name].values, on_threads.labels[name].values)
    assert on_cluster.status()["lines"] == on_threads.status()["lines"]
    logs = [LineLog(lines_path(job.path, job.plan.volume["digest"])).read() for job in (on_threads, on_cluster)]
    assert logs[0] == logs[1] and len(logs[0]) == 8


def test_labels_equal_those_of_threads(client, volume, index, tmp_path, monkeypatch):
    """Workers compute and write labels and scores line by line; gathered labels are equal too."""
    monkeypatch.setattr("outcrop.labels.store.write_chunks", writes_nothing)
    weak = retrieve(index, {"layers": [(103, 350, 200)], "other": [(105, 330, 100)]}, 20)
    mapper = LabelMapper(atoms_per_class=5, iterations=20).fit(index.grid.extract(volume, weak.rows), weak.classes)
    grid = PatchGrid(volume, size=32, step=16, clip=index.grid.clip)
    wanted = {"lines": [101, 104, 105], "scores": True}
    expected = label_volume(volume, grid, mapper, **wanted)
    written = label_volume(volume, grid, mapper, **wanted, client=client, path=tmp_path / "labels.zarr")
    gathered = label_volume(volume, grid, mapper, **wanted, client=client)
    for name in ("label", "confidence", "score"):
        np.testing.assert_array_equal(written[name].values, expected[name].values)
        np.testing.assert_array_equal(gathered[name].values, expected[name].values)


def test_workers_read_zarr_from_an_address(client, volume, tmp_path):
    """Workers open a volume by its fsspec address, and the job stores the address."""
    array = zarr.create_array(tmp_path / "v.zarr", data=volume.values, chunks=(2, 50, 48))
    assert array.shape == volume.shape
    remote = open_volume(f"file://{tmp_path}/v.zarr")
    grid = PatchGrid(remote, size=32, step=32)
    made = build_index(remote, grid, tmp_path / "z.outcrop", client=client)
    direct = build_index(open_volume(volume.values), grid, tmp_path / "d.outcrop")
    np.testing.assert_array_equal(made.features[:], direct.features[:])
    assert len(open_index(tmp_path / "z.outcrop")) == len(grid)
