"""Scores of a job are computed on labelled lines, in known units, for classes matched by name."""

import json

import numpy as np
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.cli.tables import show_scores
from outcrop.job import training
from outcrop.job.scoring import compare_jobs, probe_labels, recode_table, score_labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a small survey and its truth."""
    path = tmp_path_factory.mktemp("survey")
    datasets.write_synthetic(path / "v.sgy", (48, 44, 64), seed=3)
    return path


def made(path, volume, along, places):
    """Return a job with two labelled lines in a direction, and their numbers."""
    job = oc.Job(path, volume=volume)
    job.choose_index(size=32, step=16, every=4, along=along)
    for name, place in places.items():
        job.add_exemplar(name, place)
    lines = job.axes[job.plan.along][[20, 21]].tolist()
    job.label(lines)
    return job, lines


@pytest.fixture(scope="module")
def crossline(folder):
    """Return a job that labels crosslines, and its labelled lines."""
    places = {"fault": (120, 320, 100), "Other": (130, 322, 140)}
    return made(folder / "x.outcrop", folder / "v.sgy", "crossline", places)


def test_crosslines_are_scored_where_crosslines_are_labelled(crossline, folder, outcrop):
    """Scores, stability and --lines use the lines in the direction of the job."""
    job, lines = crossline
    scores = score_labels(job, folder / "v.truth.sgy")
    assert scores["crosslines"] == lines and scores["coverage"] > 0.99 and "inlines" not in scores
    table = probe_labels(job, lines[:1])
    assert table["all"].between(0, 1).all() and table.set_index("change")["all"]["mirrored"] > 0.5
    code, said, error = outcrop("evaluate", job.path, "--truth", folder / "v.truth.sgy", "--lines", lines[1])
    assert code == 0 and f"crosslines {lines[1]}" in said, error
    code, _, error = outcrop("evaluate", job.path, "--lines", 147)
    assert code == 2 and "crossline 147" in error


def test_a_net_is_compared_on_the_lines_of_the_job(crossline, folder, monkeypatch):
    """If crosslines are labelled, net and labels are compared and scored on crosslines."""
    job, lines = crossline
    monkeypatch.setattr(training, "net_labels", lambda job: job.labels)
    gain = training.net_gain(job, truth=folder / "v.truth.sgy")
    assert gain["crosslines"] == lines and gain["agreement"]["all"] == 1
    scores = score_labels(job, folder / "v.truth.sgy")
    assert [row["MIU"] for row in gain["rows"]] == [scores["MIU"]] * 2


def test_codes_follow_the_names_of_classes():
    """Codes are matched by class name, in any order and with any capitals; codes of no class become 0."""
    table = recode_table(["salt", "Fault"], ["fault", "other", "salt"])
    assert table[[0, 1, 2, 255]].tolist() == [0, 3, 1, 0]


def test_a_borrowed_mapper_is_probed_without_another_seed(crossline, folder, tmp_path):
    """A borrowed mapper cannot be fitted again, so only the other changes are tried."""
    job, lines = crossline
    with oc.Job(tmp_path / "b.outcrop", volume=folder / "v.sgy") as other:
        other.borrow_mapper(job)
        other.label(lines[:1])
        table = probe_labels(other, lines[:1])
        changes = ["mirrored", "3 dB louder", "polarity reversed", "neighbouring line"]
        assert table["change"].tolist() == changes


def test_units_are_printed_if_they_are_known(folder, tmp_path, outcrop, capsys):
    """A SEG-Y file has milliseconds and metres; an array without units has samples and traces."""
    values = oc.open_volume(folder / "v.sgy").values
    truth = oc.open_volume(folder / "v.truth.sgy")
    np.save(tmp_path / "v.npy", values)
    np.save(tmp_path / "t.npy", truth.values.astype("u1"))
    (tmp_path / "t.npy.classes.toml").write_text((folder / "v.truth.sgy.classes.toml").read_text())
    job, _ = made(tmp_path / "n.outcrop", tmp_path / "v.npy", "inline", {"fault": (20, 20, 25), "other": (30, 22, 35)})
    scores = score_labels(job, tmp_path / "t.npy")
    assert scores["units"] == ("samples", "traces")
    code, said, error = outcrop("evaluate", job.path, "--truth", tmp_path / "t.npy")
    assert code == 0 and " ms" not in said and "half or more" in said, error
    off = {"vertical": (3, 9), "horizontal": (2, 7), "sections": 1}
    show_scores(scores | {"bodies": [{"class": "fault", **off, "hits": 0, "zones": 0, "false_alarms": 0, "alarms": 0}]})
    assert "3, 9 samples; 2, 7 traces" in capsys.readouterr().out
    code, said, _ = outcrop("info", tmp_path / "v.npy", "--size", "32")
    assert code == 0 and "32 x 32 = 32 samples x 32 traces" in said
    assert json.loads(outcrop("info", tmp_path / "v.npy", "--json")[1])["unit"] is None
    assert "= 128 ms x 800 m" in outcrop("info", folder / "v.sgy", "--size", "32")[1]


def test_two_jobs_are_compared_on_the_requested_lines(crossline, folder, outcrop):
    """Other and other are one class; --lines selects lines; --against with --truth is refused."""
    job, lines = crossline
    other, _ = made(
        folder / "y.outcrop", folder / "v.sgy", "crossline", {"fault": (120, 320, 100), "other": (130, 322, 140)}
    )
    found = compare_jobs(job, other)
    assert found["classes"] == ["fault", "Other"] and found["agreement"] > 0.9
    assert compare_jobs(job, other, lines=lines[:1])["lines"] == lines[:1]
    words = ["evaluate", job.path, "--against", other.path]
    code, said, _ = outcrop(*words, "--lines", lines[0], "--json")
    assert code == 0 and json.loads(said)["lines"] == lines[:1]
    code, _, error = outcrop(*words, "--truth", folder / "v.truth.sgy")
    assert code == 2 and "--against" in error


def test_labels_of_an_axis_in_seconds_reach_segy_in_milliseconds(folder, tmp_path):
    """An array with times in seconds is exported with times in ms, with and without the headers of a survey."""
    volume = oc.open_volume(folder / "v.sgy").load()
    seconds = volume.assign_coords(time=volume["time"] / 1000)
    for number, given in enumerate((seconds, seconds.drop_attrs())):
        places = {"fault": (120, 320, 100), "other": (130, 322, 140)}
        job, lines = made(tmp_path / f"{number}.outcrop", given, "inline", places)
        job.export(tmp_path / "l.sgy")
        written = oc.open_volume(tmp_path / "l.sgy")
        np.testing.assert_allclose(written["time"].values, volume["time"].values)
        np.testing.assert_array_equal(written.sel(inline=lines).values, job.labels["label"].sel(inline=lines).values)


def test_stability_does_not_use_confirmed_lines(tmp_path):
    """The confirmed labels of a line do not count in its stability; without a second line its row is missing."""
    volume = datasets.synthetic((6, 110, 96), seed=3)[0]
    places = {"fault": (104, 350, 200), "other": (104, 330, 100)}
    tables = []
    for name, part in {"all": volume, "alone": volume[4:5]}.items():
        job = oc.Job(tmp_path / f"{name}.outcrop", volume=part)
        for one, place in places.items():
            job.add_exemplar(one, place)
        job.label()
        job.confirm([int(part["inline"][0])])
        tables.append(probe_labels(job, [104]).set_index("change"))
        assert job.mapper().confirmed_  # the mapper of the job keeps its places
    rows = ["mirrored", "3 dB louder", "polarity reversed", "neighbouring line", "another seed"]
    assert list(tables[0].index) == rows and tables[0].loc["neighbouring line", "all"] < 1
    assert list(tables[1].index) == [row for row in rows if row != "neighbouring line"]
