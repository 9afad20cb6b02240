"""What a dry run predicts: as many bytes as the stages take, seconds that follow the work, and nothing is written."""

import itertools
import json

import pytest

import outcrop as oc
from outcrop.job import costs
from outcrop.job.options import IndexOptions
from outcrop.job.status import status


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """A SEG-Y file of 24 lines."""
    path = tmp_path_factory.mktemp("costs") / "v.sgy"
    oc.datasets.write_synthetic(path, (24, 90, 100), seed=1)
    return oc.open_volume(path)


@pytest.fixture
def job(volume, tmp_path):
    """Indexed, with exemplars."""
    with oc.Job(tmp_path / "j.outcrop", volume=volume) as job:
        job.index(32, step=16)
        job.add_exemplar("layers", (103, 330, 128))
        job.add_exemplar("other", (105, 350, 160))
        yield job


def planned(volume, **given):
    """Options and grid of an index."""
    options = IndexOptions(**{"size": 32, "step": 16} | given).fitted(volume.shape)
    return options.grid(volume), options


def test_bytes_of_an_index(volume, job):
    """Those that its descriptors take, to a fifth: small samples compress a little worse."""
    grid, options = planned(volume)
    cost = costs.index_cost(volume, grid, options)
    assert cost.units == len(grid)
    assert cost.bytes == pytest.approx(status(job)["disk"]["index"], rel=0.2)


def test_bytes_of_labels(job):
    """Those that the votes take, to a fifth: of the lines that are left."""
    predicted = costs.label_cost(job)
    assert status(job)["lines"]["labelled"] == 0 and predicted.units == 24
    job.label(range(100, 112))
    assert costs.label_cost(job).units == 12
    job.label()
    assert predicted.bytes == pytest.approx(status(job)["disk"]["votes"], rel=0.2)
    assert costs.label_cost(job) == (0, 0.0, 0.0)
    assert costs.label_cost(job, [104], {"seed": 3}).units == 1


def test_seconds_follow_the_work(volume, job, monkeypatch):
    """With a clock that goes a second forward whenever it is read: a sample of the work takes one, all of it many."""
    ticks = itertools.count()
    monkeypatch.setattr(costs.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(costs, "_digest_seconds", lambda _: 0.0)
    monkeypatch.setattr(costs, "n_cores", lambda: 2)
    some, many = (costs.index_cost(volume, *planned(volume, every=every)) for every in (4, 1))
    assert many.seconds - costs.SPENT == pytest.approx(4 * (some.seconds - costs.SPENT))
    taken = min(costs.PATCHES * 2, many.units) // 3 * 3
    assert many.seconds - costs.SPENT == pytest.approx(many.units / taken)
    on_workers = costs.index_cost(volume, *planned(volume), workers=2)
    assert on_workers.seconds == pytest.approx(many.seconds + costs.START)
    # four lines a second; all 24 are left, and writing one takes a quarter of a second on one of two threads
    assert costs.label_cost(job).seconds == pytest.approx(costs.SPENT + 24 / 4 + 24 / 4 / 2)


def test_a_dry_run_of_labels_writes_none(outcrop, job):
    """Neither votes nor a decision on the mapping; the answer is there for people and for programs."""
    before = job.status()
    code, told, said = outcrop("label", job.path, "--dry-run", "--json", "--mapping", "points", "--lines", "101,102")
    assert code == 0, said
    assert json.loads(told)["units"] == 2 and json.loads(told)["bytes"] > 0
    assert "2 lines to label; about" in said
    after = oc.Job(job.path).status()
    assert after["lines"] == before["lines"] and after["label"] == before["label"]
