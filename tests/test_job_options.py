"""Options of a job keep their value until it is changed, and edits of the table by hand are never ignored."""

import shutil

import pandas as pd
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.job import table_file
from outcrop.job.choosing import choose_labels

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a small survey and a job on it with a table of retrieved patches."""
    folder = tmp_path_factory.mktemp("survey")
    datasets.write_synthetic(folder / "v.sgy", (8, 110, 96), seed=3)
    datasets.write_synthetic(folder / "w.sgy", (8, 110, 96), seed=4)
    with oc.Job(folder / "v.outcrop", volume=folder / "v.sgy") as job:
        job.choose_index(size=32, step=16)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.retrieve(count=8)
    return folder


@pytest.fixture
def job(made, tmp_path):
    """Yield a copy of that job."""
    shutil.copytree(made / "v.outcrop", tmp_path / "v.outcrop")
    with oc.Job(tmp_path / "v.outcrop", volume=made / "v.sgy") as one:
        yield one


def drop_row(job, number):
    """Delete a line of the table on disk and return the row number of its patch."""
    table = pd.read_csv(job.path / "retrieved.csv")
    table.drop(index=number).to_csv(job.path / "retrieved.csv", index=False)
    return int(table["row"][number])


def test_step_and_joined_jobs_stay(job, made):
    """Another limit does not change step and joined jobs; `auto` and an empty sequence reset them."""
    shutil.copytree(job.path, job.path.with_name("o.outcrop"))
    choose_labels(job, step=7, with_jobs=[job.path.with_name("o.outcrop")])
    chosen = job.plan.state.options["label"]
    choose_labels(job, max_error=0.05)
    choose_labels(job, seed=3)
    assert job.plan.state.options["label"] == chosen | {"seed": 3} and chosen["step"] == 7
    choose_labels(job, step="auto")
    assert "step" not in job.plan.state.options["label"] and "with" in job.plan.state.options["label"]
    choose_labels(job, with_jobs=())
    assert job.plan.state.options["label"] == {"seed": 3}
    with pytest.raises(ValueError, match=r"step is 2\.5"):
        choose_labels(job, step=2.5)


def test_one_undo_removes_a_joined_job_and_its_classes(job, made):
    """Joining a job is one act: the classes of the other job, and the option."""
    shutil.copytree(job.path, job.path.with_name("o.outcrop"))
    with oc.Job(job.path.with_name("o.outcrop"), volume=made / "v.sgy") as other:
        other.add_class("chalk")
        other.add_class("marl")
    before = job.plan.state
    choose_labels(job, with_jobs=[other.path])
    assert {"chalk", "marl"} < set(job.classes)
    assert len(job.undo()) == 3 and job.plan.state == before


def test_step_and_joined_jobs_stay_in_the_shell(job, outcrop):
    """`label --max-error` keeps the step and the joined jobs of the command before it."""
    shutil.copytree(job.path, job.path.with_name("o.outcrop"))
    label = ["label", job.path, "--lines", "104"]
    assert outcrop(*label, "--with", job.path.with_name("o.outcrop"), "--step", "9")[0] == 0
    key = job.status()["keys"]["votes"]
    assert outcrop(*label, "--max-error", "0.05")[0] == 0
    assert job.status()["keys"]["votes"] == key
    assert outcrop(*label, "--with", "none", "--step", "auto")[0] == 0
    assert "label" not in job.plan.state.options
    code, _, error = outcrop(*label, "--step", "a")
    assert code == 2 and "--step is 'a'" in error


def test_the_same_edit_after_an_undo_counts_again(job):
    """Any table but the one written last is an edit: the same row removed again, or an old copy restored."""
    first = (job.path / "retrieved.csv").read_text()
    row = drop_row(job, 2)
    after_edit = (job.path / "retrieved.csv").read_text()
    for _ in range(2):
        (job.path / "retrieved.csv").write_text(after_edit)
        with pytest.warns(UserWarning, match="1 row removed"):
            assert row not in job.retrieve().rows
        job.undo()
        job.retrieve()
        assert (job.path / "retrieved.csv").read_text() == first
    job.redo()
    job.retrieve()
    (job.path / "retrieved.csv").write_text(first)  # an old copy is restored, and with it the row
    with pytest.warns(UserWarning, match="edited by hand"):
        assert row in job.retrieve().rows


def test_a_kill_while_the_table_is_written_is_no_edit(job, monkeypatch):
    """The digest is recorded and the table is still the old one: the next search finds no edit."""
    job.reject(int(pd.read_csv(job.path / "retrieved.csv")["row"][1]))
    calls = []

    def killed(path, text):
        append(path, text)
        calls.append(text)
        raise KeyboardInterrupt

    append = table_file.append_line
    monkeypatch.setattr(table_file, "append_line", killed)
    with pytest.raises(KeyboardInterrupt):
        job.retrieve()
    monkeypatch.undo()
    assert calls and not table_file.is_edited(job)
    before = job.status()["decisions"]
    oc.Job(job.path).retrieve()
    assert job.status()["decisions"] == before


def test_an_edited_table_is_seen_by_label_status_and_export(job, tmp_path):
    """Status reports the edit, export warns of it, and `Job.label` applies it as the command does."""
    job.label(104)
    drop_row(job, 1)
    status = job.status()
    assert status["retrieved_edited"] and "retrieve" in status["next"]
    with pytest.warns(UserWarning, match="edited by hand"):
        job.export(tmp_path / "l.zarr")
    with pytest.warns(UserWarning, match="1 row removed"):
        labels = job.label([104])
    assert job.status()["decisions"]["rejected"] == 1 and not labels["stale"].any()
    assert not job.status()["retrieved_edited"] or job.status()["retrieved_stale"]


def test_the_table_of_a_label_is_published(job):
    """After `label` has applied an edit, the table on disk is the one that the labels were made from."""
    drop_row(job, 1)
    with pytest.warns(UserWarning, match="1 row removed"):
        job.label([104])
    status = job.status()
    assert not status["retrieved_edited"] and not status["retrieved_stale"]
    assert len(pd.read_csv(job.path / "retrieved.csv")) == sum(status["retrieved"].values())


def test_another_volume_in_a_job_is_reported(job, outcrop, made):
    """If a job gets another survey with the same axes, a note gives the number of lines that became stale."""
    job.label([103, 104])
    job.close()
    code, _, error = outcrop("index", made / "w.sgy", "-o", job.path)
    assert code == 0 and "has other samples than" in error and "2 labelled lines are stale" in error
    code, _, error = outcrop("index", made / "v.sgy", "-o", job.path)
    assert code == 0 and "stale" not in error.replace("w.sgy", "") and oc.Job(job.path).status()["lines"]["stale"] == 0


def test_a_borrowed_mapper_does_not_change_the_volume(job, outcrop, made, tmp_path):
    """`label --mapper` refuses a job folder that holds another volume, and works on one with the same volume."""
    job.label([104])
    oc.Job(tmp_path / "w.outcrop", volume=made / "w.sgy").close()
    before = job.status()
    words = ["--mapper", job.path, "--lines", "104"]
    code, _, error = outcrop("label", made / "v.sgy", "-o", tmp_path / "w.outcrop", *words)
    assert code == 2 and "holds the work on" in error and "w.sgy" in error
    code, _, error = outcrop("label", made / "w.sgy", "-o", tmp_path / "w.outcrop", *words)
    assert code == 0, error
    assert job.status() == before


def test_options_of_the_index_stay_until_they_are_reset(outcrop, made, tmp_path):
    """An area is chosen axis by axis; options that are not given stay, and auto resets one."""
    index = ["index", made / "v.sgy", "-o", tmp_path / "a.outcrop"]

    def chosen(*words):
        code, _, error = outcrop(*index, *words)
        assert code == 0, error
        return oc.Job(tmp_path / "a.outcrop").plan.state.options.get("index", {})

    found = chosen("--size", "32", "--step", "16", "--inlines", "100,103", "--clip", "9000")
    assert found == {"size": [32, 32], "step": [16], "area": {"inline": [100, 103]}, "clip": 9000}
    found = chosen("--crosslines", "300,380")
    assert found["area"] == {"inline": [100, 103], "crossline": [300, 380]}
    found = chosen("--inlines", "auto", "--clip", "auto")
    assert found == {"size": [32, 32], "step": [16], "area": {"crossline": [300, 380]}}
    assert chosen("--crosslines", "auto", "--step", "auto") == {"size": [32, 32]}
    assert outcrop(*index, "--step", "1,2,3")[0] == outcrop(*index, "--clip", "x")[0] == 2
