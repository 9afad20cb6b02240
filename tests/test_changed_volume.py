"""A volume that changes under a job: results of its older samples are reported as stale by every method."""

import os
import shutil
import sys

import numpy as np
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.cli.program import main
from outcrop.volumes.identity import glance

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Compare files by few blocks, as for files of many GB."""
    monkeypatch.setattr("outcrop.storage.workspace.BLOCK", 16)


def labelled(path, volume):
    """Return a job with three labelled lines."""
    job = oc.Job(path, volume=volume)
    job.choose_index(size=32, step=16)
    for name, place in PLACES.items():
        job.add_exemplar(name, place)
    job.label([103, 104, 105])
    return job


@pytest.fixture
def job(source, tmp_path):
    """Yield a labelled job on a file."""
    shutil.copy(source, tmp_path / "v.sgy")
    with labelled(tmp_path / "v.outcrop", tmp_path / "v.sgy") as one:
        yield one


def change(path, *, line=104, traces=1, offset=201):
    """Write other samples into a line; a change of one trace lies between the blocks that are compared."""
    with open(path, "r+b") as handle:
        for trace in range(traces):
            handle.seek(3600 + ((line - 100) * 110 + 50 + trace) * (240 + 4 * 96) + 240 + offset)
            handle.write(b"\x42\x42\x42\x42" * (1 if traces == 1 else 40))


def stale(job):
    """Return the number of stale lines."""
    return job.status()["lines"]["stale"]


@pytest.mark.parametrize("traces", [1, 30])
def test_every_method_notices_a_changed_file(job, tmp_path, traces):
    """In a newly opened job, status, labels, the list of lines and export notice the change, each as the first call."""
    change(tmp_path / "v.sgy", traces=traces)
    looks = [
        lambda one: stale(one) == 3,
        lambda one: all(one.labelled.values()),
        lambda one: one.labels["stale"].sel(inline=[103, 104, 105]).all(),
    ]
    for number, look in enumerate(looks):
        shutil.copytree(job.path, tmp_path / f"{number}.outcrop")
        with pytest.warns(UserWarning, match="changed since it was read"):
            assert look(oc.Job(tmp_path / f"{number}.outcrop"))
    with pytest.raises(ValueError, match="3 of 3 labelled lines"), pytest.warns(UserWarning, match="changed"):
        oc.Job(job.path).export(tmp_path / "l.sgy")


def test_an_open_job_uses_the_changed_file(job, tmp_path):
    """In an open job, the next label uses the new samples, and the labels equal those of a new job."""
    change(tmp_path / "v.sgy", traces=30)
    with pytest.warns(UserWarning, match="changed since it was read"):
        labels = job.label([104])
    assert not labels["stale"].any() and stale(job) == 2
    clean = labelled(tmp_path / "clean.outcrop", tmp_path / "v.sgy")
    np.testing.assert_array_equal(labels["label"].values, clean.label([104])["label"].values)


def test_labels_are_fresh_again_if_the_file_is_restored(job, tmp_path):
    """After one sample is changed and changed back, the earlier labels are fresh again."""
    shutil.copy(tmp_path / "v.sgy", tmp_path / "kept.sgy")
    change(tmp_path / "v.sgy")
    with pytest.warns(UserWarning, match="changed"):
        assert stale(job) == 3
    shutil.copy(tmp_path / "kept.sgy", tmp_path / "v.sgy")
    with pytest.warns(UserWarning, match="changed"):
        assert stale(job) == 0


def test_a_touched_file_is_compared_once_and_is_the_same(job, tmp_path, monkeypatch):
    """Another time stamp makes no line stale, and lines are not read twice."""
    os.utime(tmp_path / "v.sgy")
    assert stale(oc.Job(job.path)) == 0
    monkeypatch.setattr("outcrop.volumes.identity.line_digest", None)
    assert stale(oc.Job(job.path)) == 0 and job.export(tmp_path / "l.sgy")


def test_a_large_file_is_compared_by_the_next_export(job, tmp_path, monkeypatch):
    """If the comparison would take long, status reports that it was not made; export makes it."""
    change(tmp_path / "v.sgy")
    monkeypatch.setattr("outcrop.job.status.QUICK", 1000)
    assert "was written to since" in job.status()["volume_unread"]
    with pytest.raises(ValueError, match="3 of 3 labelled lines"), pytest.warns(UserWarning, match="changed"):
        job.export(tmp_path / "l.sgy")
    assert not job.status()["volume_unread"]


def test_another_survey_under_the_same_file_name_is_reported(job, tmp_path):
    """If the file has other axes, status reports another survey, and label refuses it."""
    datasets.write_synthetic(tmp_path / "o.sgy", (6, 80, 80), seed=1)
    os.replace(tmp_path / "o.sgy", tmp_path / "v.sgy")
    assert "another survey" in oc.Job(job.path).status()["volume_unread"]
    with pytest.raises(ValueError, match="another survey"):
        oc.Job(job.path).label([104])


@pytest.mark.parametrize("count", [1, 10**9])
def test_an_array_changed_in_place_is_another_volume(source, tmp_path, count, monkeypatch):
    """Labels of the older samples become stale; the next label also finds a change of a single sample."""
    volume = oc.open_volume(source).load().copy()
    job = labelled(tmp_path / "a.outcrop", volume)
    monkeypatch.setattr("outcrop.job.folder.glance", lambda one: glance(one, most=1000))
    job._glance = glance(volume, most=1000)
    volume.values.ravel()[4 * 110 * 96 + 5001 :][:count] *= -1
    if count > 1:
        with pytest.warns(UserWarning, match="changed since it was read"):
            assert all(job.labelled.values())
        labels = job.label([104])
    else:
        with pytest.warns(UserWarning, match="changed since it was read"):
            labels = job.label([104])
    assert not labels["stale"].any() and job.labelled == {3: True, 4: False, 5: True}
    clean = labelled(tmp_path / "clean.outcrop", volume.copy()).labels.sel(inline=[104])
    for name in ("label", "confidence"):
        np.testing.assert_array_equal(labels[name].values, clean[name].values)


def test_the_command_line_reports_that_the_file_changed(job, tmp_path, monkeypatch, capsys):
    """The commands status and export report the change in one line."""
    change(tmp_path / "v.sgy")
    shutil.copytree(job.path, tmp_path / "w.outcrop")
    for words, code in ((["status", tmp_path / "w.outcrop"], 0), (["export", job.path, tmp_path / "l.sgy"], 2)):
        monkeypatch.setattr(sys, "argv", ["outcrop", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, error = capsys.readouterr()
        assert stop.value.code == code and "changed since it was read" in error
        assert "3 of them stale" in out or "3 of 3 labelled lines" in error


def test_a_folder_without_decisions_and_results_takes_another_survey(tmp_path):
    """A refused command leaves a folder without work; the next command may use it with other axes."""
    small, large = (oc.datasets.synthetic(shape, seed=0)[0] for shape in ((3, 40, 60), (4, 50, 60)))
    with oc.Job(tmp_path / "j.outcrop", volume=small) as job, pytest.raises(ValueError, match="inline 999 is outside"):
        job.add_exemplar("fault", (999, 310, 100))
    with oc.Job(tmp_path / "j.outcrop", volume=large) as job:
        assert job.volume.shape == large.shape
        job.add_class("fault")
    with pytest.raises(ValueError, match="holds the work on another survey"):
        oc.Job(tmp_path / "j.outcrop", volume=small)
