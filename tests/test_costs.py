"""A dry run predicts the bytes of the stages and seconds in proportion to the work, and writes nothing."""

import itertools
import json

import pytest

import outcrop as oc
from outcrop.job import costs
from outcrop.job.options import IndexOptions
from outcrop.job.status import status


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Return the volume of a SEG-Y file of 24 lines."""
    path = tmp_path_factory.mktemp("costs") / "v.sgy"
    oc.datasets.write_synthetic(path, (24, 90, 100), seed=1)
    return oc.open_volume(path)


@pytest.fixture
def job(volume, tmp_path):
    """Yield an indexed job with exemplars."""
    with oc.Job(tmp_path / "j.outcrop", volume=volume) as job:
        job.index(32, step=16)
        job.add_exemplar("layers", (103, 330, 128))
        job.add_exemplar("other", (105, 350, 160))
        yield job


def planned(volume, **given):
    """Return the grid and the options of an index."""
    options = IndexOptions(**{"size": 32, "step": 16} | given).fitted(volume.shape)
    return options.grid(volume), options


def test_bytes_of_an_index(volume, job):
    """The predicted bytes are within a fifth of those of the descriptors: small samples compress less."""
    grid, options = planned(volume)
    cost = costs.index_cost(volume, grid, options)
    assert cost.units == len(grid)
    assert cost.bytes == pytest.approx(status(job)["disk"]["index"], rel=0.2)


def test_bytes_of_labels(job):
    """The predicted bytes of the lines without labels are within a fifth of those of the votes."""
    predicted = costs.label_cost(job)
    assert status(job)["lines"]["labelled"] == 0 and predicted.units == 24
    job.label(range(100, 112))
    assert costs.label_cost(job).units == 12
    job.label()
    assert predicted.bytes == pytest.approx(status(job)["disk"]["votes"], rel=0.2)
    assert costs.label_cost(job) == (0, 0.0, 0.0)
    assert costs.label_cost(job, [104], {"seed": 3}).units == 1


def test_seconds_follow_the_work(volume, job, monkeypatch):
    """With a clock that advances a second at every reading, the prediction is in proportion to the work."""
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
    # four lines per second; all 24 lines are left; writing a line takes a quarter of a second on one of two threads
    assert costs.label_cost(job).seconds == pytest.approx(costs.SPENT + 24 / 4 + 24 / 4 / 2)


def test_a_dry_run_of_labels_writes_none(outcrop, job):
    """It writes neither votes nor a decision on the mapping; the prediction is printed as text and as JSON."""
    before = job.status()
    code, output, messages = outcrop(
        "label", job.path, "--dry-run", "--json", "--mapping", "points", "--lines", "101,102"
    )
    assert code == 0, messages
    assert json.loads(output)["units"] == 2 and json.loads(output)["bytes"] > 0
    assert "2 lines to label; about" in messages
    after = oc.Job(job.path).status()
    assert after["lines"] == before["lines"] and after["label"] == before["label"]
