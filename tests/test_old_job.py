"""A job folder of version 0.2.0, made by `write_old_job.py`, opens without loss."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import outcrop as oc
from outcrop.job import retrieved

EXEMPLARS = {"fault": (101, 330, 120), "salt": (102, 340, 176), "other": (102, 320, 80)}
ARCHIVE = Path(__file__).with_name("old_job.zip")
pytestmark = pytest.mark.filterwarnings("ignore:Class .* has .* patches, fewer than")


@pytest.fixture
def old(tmp_path):
    """Return the folder, unpacked with its volume at another path."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def labelled(old):
    """Return the folder without the decisions that are later than its labels."""
    (log,) = (old / "survey.outcrop" / "decisions").glob("*.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[: len(pd.read_csv(old / "labelled.csv"))]))
    return old


def files(folder):
    """Return path -> content of every file."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["labelled", "stale"])
def test_status_and_decisions_are_those_of_the_old_version(name, request):
    """Classes with their codes, background, decisions, retrieved patches and labelled lines are equal."""
    folder = request.getfixturevalue("labelled" if name == "labelled" else "old")
    before = json.loads((folder / f"{name}.json").read_text())
    with oc.Job(folder / "survey.outcrop") as job:
        now = job.status()
        pd.testing.assert_frame_equal(
            job.decisions.astype(str).replace("None", ""),
            pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False).replace("None", ""),
        )
        assert job.palette["fault"] == "#123456"
    assert not now["damaged"] and not now["volume_unread"]
    for part in ("classes", "background", "writers", "retrieved", "retrieved_edited"):
        assert now[part] == before[part], part
    assert now["decisions"] | before["decisions"] == now["decisions"]
    assert now["lines"] | before["lines"] == now["lines"]
    assert {key: now["label"][key] for key in ("mapping", "seed", "min_confidence")} == {
        key: before["label"][key] for key in ("mapping", "seed", "min_confidence")
    }


def test_nothing_is_computed_again(labelled, monkeypatch):
    """Keys equal those of the old version: index, retrieved patches, mapper and votes are found, not computed."""
    before = json.loads((labelled / "labelled.json").read_text())
    for name in ("job.folder.build_index", "job.retrieved.search", "job.fitting.fit", "labels.votes.section_votes"):
        monkeypatch.setattr(f"outcrop.{name}", None)
    with oc.Job(labelled / "survey.outcrop") as job:
        assert job.plan.keys == before["keys"]
        assert len(job.retrieve()) == sum(before["retrieved"].values())
        assert not job.label([101, 102])["stale"].any()
        assert {str(name) for name in job.mapper().classes_} == set(before["classes"])


def test_labels_are_those_of_the_old_version(labelled):
    """Labels and confidence are equal, sample by sample; a marked sample now shows the class that it was marked as."""
    with oc.Job(labelled / "survey.outcrop") as job, np.load(labelled / "labelled.npz") as shown:
        labels = job.labels.load()
        for name, place in EXEMPLARS.items():
            at = tuple(labels.indexes[axis].get_loc(value) for axis, value in zip(labels.sizes, place, strict=True))
            assert labels["label"].values[at] == job.classes[name]
            for part in ("label", "confidence"):
                labels[part].values[at] = shown[part][at]
        for part in ("label", "confidence", "stale"):
            np.testing.assert_array_equal(labels[part].values, shown[part])


def test_stale_labels_stay_visible_below_the_strokes(old):
    """Near later strokes the strokes decide; elsewhere, where the old version spread them, the votes decide."""
    with oc.Job(old / "survey.outcrop") as job, np.load(old / "labelled.npz") as shown:
        labels = job.labels.load()
        assert labels["stale"].values.tolist() == [False, True, True]
        assert labels["label"].sel(inline=101, crossline=330, time=120) == job.classes["fault"]
        assert labels["label"].sel(inline=102, crossline=344, time=176) == job.classes["salt"]
        changed = labels["label"].values != shown["label"]
        assert 0 < changed.sum() < 0.05 * (shown["label"] > 0).sum()


def test_opening_and_continuing_loses_no_file(old):
    """After new decisions and labels, every decision and result of the old version keeps its content."""
    folder = old / "survey.outcrop"
    before = {path: content for path, content in files(folder).items() if path.parts[0] in ("decisions", "stages")}
    with oc.Job(folder) as job:
        job.add_exemplar("fault", (100, 330, 120))
        job.label([101])
        job.label([101], mapping="points")
    after = files(folder)
    renewed = {path for path in before if path.name.startswith(("published-", "."))}  # the copy of retrieved.csv, locks
    for path in before.keys() - renewed:
        assert after[path].startswith(before[path]), path  # logs grow, everything else stays


def test_an_edited_table_of_the_old_version_is_applied(old):
    """A row removed from retrieved.csv is rejected; a row with another class is accepted for this class."""
    path = old / "survey.outcrop" / "retrieved.csv"
    table = pd.read_csv(path)
    gone = table[table["class"] == "salt"].iloc[-1]
    moved = table[table["class"] == "other"].iloc[-1]
    table = table[table["row"] != gone["row"]]
    table.loc[table["row"] == moved["row"], "class"] = "fault"
    table.to_csv(path, index=False)
    with oc.Job(old / "survey.outcrop", origin="shell") as job:
        assert job.status()["retrieved_edited"]
        weak = job.retrieve()
        verdicts = {(one.name, one.place): one.accept for one in job.plan.state.verdicts}
        names = ["inline", "crossline", "time"]
        assert not verdicts["salt dome", tuple(gone[names])] and verdicts["fault", tuple(moved[names])]
        assert "edited by hand" in job.notes[-1]
        shown = weak.table
        assert not ((shown["class"] == "salt") & (shown["row"] == gone["row"])).any()
        assert ((shown["class"] == "fault") & (shown["row"] == moved["row"])).any()


def test_retrieved_patches_equal_the_table_of_the_old_version(labelled):
    """Class, place, similarity and weight of every patch equal the CSV table of version 0.2.0."""
    with oc.Job(labelled / "survey.outcrop") as job:
        plan = job.plan
        weak = retrieved.kept(job, plan)
        kept = pd.read_csv(job.stages.path("retrieved", plan.keys["retrieved"]) / "table.csv")
    kept["class"] = kept["class"].replace("salt dome", "salt")
    for name in ("class", "row", "inline", "crossline", "time", "similarity", "weight"):
        assert weak.table[name].tolist() == kept[name].tolist(), name
