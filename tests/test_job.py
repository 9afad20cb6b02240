"""A job: no decision is lost and no stale label counts as fresh, with several writers and after interruptions."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import outcrop as oc
from outcrop import datasets
from outcrop.job import retrieved
from outcrop.job.labelling import label_view, vote_keys
from outcrop.job.scoring import compare_jobs
from outcrop.job.sections import marked_sections
from outcrop.job.strokes import excluded_sections, stroke_mask
from outcrop.volumes.identity import identify

SIZE = 32
PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100), "salt dome": (103, 380, 260)}


@pytest.fixture
def job(source, tmp_path):
    """Yield a job with a coarse index and exemplars of three classes."""
    shutil.copy(source, tmp_path / "v.sgy")
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy") as one:
        one.index(SIZE, step=16)
        for name, place in PLACES.items():
            one.add_exemplar(name, place)
        yield one


def counts(job):
    """Return the number of decisions of each kind, and of labelled and stale lines."""
    status = job.status()
    return status["decisions"], status["lines"]["labelled"], status["lines"]["stale"]


def codes(job, line):
    """Return the label codes of a line."""
    return job.labels["label"].sel(inline=line).values


def test_retrieve_and_label(job):
    """A labelled line has codes from the table of classes, a label for every sample, and is not stale."""
    weak = job.retrieve()
    assert set(weak.classes) == set(PLACES) and (job.path / "retrieved.csv").is_file()
    labels = job.label([103, 104])
    assert labels.sizes["inline"] == 2 and set(np.unique(labels["label"])) <= {1, 2, 3}
    assert job.classes == {"fault": 1, "other": 2, "salt dome": 3} and job.plan.background_name == "other"
    assert not labels["stale"].any() and labels.attrs["classes"] == ["fault", "other", "salt dome"]
    assert counts(job)[1:] == (2, 0)


def test_another_limit_is_applied_on_reading(job):
    """Another limit of confidence or error computes no votes, makes no line stale and loses no line."""
    job.label()
    before = {line: codes(job, line) for line in (103, 106)}
    done = vote_keys(job, job.plan)
    job.label([103], min_confidence=0.9)
    assert vote_keys(job, job.plan) == done and counts(job)[1:] == (8, 0)
    limited, sure = codes(job, 106), job.labels["confidence"].sel(inline=106).values
    np.testing.assert_array_equal(limited == 255, sure < np.ceil(0.9 * 255))
    np.testing.assert_array_equal(limited[limited < 255], before[106][limited < 255])
    job.label([103], max_error=0.2)
    assert counts(job)[1:] == (8, 0)
    job.label([103])
    assert job.plan.state.options["limits"] == {"max_error": 0.2}  # a limit stays until it is cleared
    job.label([103], min_confidence=0)
    np.testing.assert_array_equal(codes(job, 106), before[106])


def test_labelling_one_line_with_another_seed_makes_the_others_stale(job):
    """Lines of older options stay, are marked stale, and are fresh again with the older options."""
    job.label()
    before = {line: codes(job, line) for line in (103, 104)}
    job.label([104], seed=5)
    assert counts(job)[1:] == (8, 7)
    assert job.labels["stale"].values.tolist() == [line != 104 for line in range(100, 108)]
    np.testing.assert_array_equal(codes(job, 103), before[103])
    job.label([104])
    assert counts(job)[1:] == (8, 7)  # a seed is kept for the next call, like the mapping
    job.label([104], seed=0)
    assert counts(job)[1:] == (8, 0)
    np.testing.assert_array_equal(codes(job, 104), before[104])


def test_undo_restores_the_earlier_result(job, monkeypatch):
    """After an undo the earlier table, mapper and labels are read again; nothing is computed."""
    job.label()
    before, table = codes(job, 103), job.retrieve().table
    job.reject(int(table["row"][2]))
    assert counts(job)[1:] == (8, 8)
    job.undo()
    monkeypatch.setattr("outcrop.job.retrieved.retrieve", None)
    monkeypatch.setattr("outcrop.job.fitting.fit", None)
    monkeypatch.setattr("outcrop.job.labelling.written_votes", lambda *_, **__: iter(()))
    pd.testing.assert_frame_equal(job.retrieve().table, table)
    job.label()
    assert counts(job)[1:] == (8, 0)
    np.testing.assert_array_equal(codes(job, 103), before)


def test_the_same_command_again_fits_nothing(job, monkeypatch):
    """Labelling again with the same decisions loads the mapper and reads the votes."""
    job.label([103])
    before = codes(job, 103)
    monkeypatch.setattr("outcrop.job.fitting.fit", None)
    again = oc.Job(job.path)
    np.testing.assert_array_equal(again.label([103])["label"].values[0], before)
    assert (again.label([103, 104])["label"] > 0).all()


def test_another_step_a_touched_and_a_moved_file_keep_every_decision(job, tmp_path):
    """Exemplars, verdicts, strokes and labelled lines stay, and no line becomes stale."""
    job.reject(int(job.retrieve().rows[3]))
    job.paint("fault", [(104, 350, 200), (104, 360, 240)], radius=3)
    job.label()
    decided = counts(job)[0]
    assert decided == {"exemplars": 3, "accepted": 0, "rejected": 1, "strokes": 1, "confirmed": 0}
    os.utime(tmp_path / "v.sgy")
    assert counts(oc.Job(job.path)) == (decided, 8, 0)
    job.index(SIZE, step=12)  # labels learn from points, not from the patches of an index
    assert counts(job) == (decided, 8, 0)
    os.rename(tmp_path / "v.sgy", tmp_path / "w.sgy")
    assert counts(oc.Job(job.path)) == (decided, 8, 0)
    with pytest.raises(ValueError, match="no longer at"):
        oc.Job(job.path).label([103])
    moved = oc.Job(job.path, volume=tmp_path / "w.sgy")
    assert counts(moved) == (decided, 8, 0) and oc.Job(job.path).volume.shape == (8, 110, 96)


def test_a_folder_that_moved_with_its_volume_opens(job, tmp_path, monkeypatch):
    """The volume is found relative to the job folder, not to the current directory; Zarr too."""
    job.volume.load().to_dataset(name="amplitude").drop_attrs().to_zarr(tmp_path / "z.zarr", consolidated=False)
    monkeypatch.chdir(tmp_path)
    with oc.Job("z.outcrop", volume="z.zarr") as zarr_job:
        zarr_job.add_exemplar("fault", (104, 350, 192))
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert oc.Job(tmp_path / "z.outcrop").volume.shape == (8, 110, 96)
    os.mkdir("both")
    job.close()  # Windows moves no folder of which a file is open
    for name in ("z.zarr", "z.outcrop", "v.sgy", "v.outcrop"):
        os.rename(tmp_path / name, os.path.join("both", name))
    for name in ("z.outcrop", "v.outcrop"):
        moved = oc.Job(os.path.join("both", name))
        assert moved.volume.shape == (8, 110, 96) and moved.status()["decisions"]["exemplars"] >= 1


def change_sample(path):
    """Change a sample on inline 104 of the small survey, between the blocks that identify a file."""
    with open(path, "r+b") as handle:
        handle.seek(3600 + (4 * 110 + 50) * (240 + 4 * 96) + 240 + 201)
        handle.write(b"\x42\x42\x42\x42")


def test_changed_samples_are_noticed_line_by_line(source, tmp_path, monkeypatch):
    """If samples between the blocks that identify a file change, the line is refused, then all lines are stale."""
    monkeypatch.setattr("outcrop.storage.workspace.BLOCK", 16)  # blocks as sparse as in a file of many GB
    shutil.copy(source, tmp_path / "v.sgy")
    job = oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy")
    job.index(SIZE, step=16)
    for name, place in PLACES.items():
        job.add_exemplar(name, place)
    job.label()
    before = os.stat(tmp_path / "v.sgy")
    change_sample(tmp_path / "v.sgy")
    os.utime(tmp_path / "v.sgy", ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh = oc.Job(job.path)
    assert identify(oc.open_volume(tmp_path / "v.sgy"))["digest"] == job.plan.volume["samples"]
    with pytest.raises(ValueError, match="run the same command again"):
        fresh.label(seed=1)
    again = oc.Job(job.path)
    assert counts(again)[1:] == (8, 8)
    again.label(seed=1)
    assert counts(again)[1:] == (8, 0)


def test_a_filtered_volume_replaces_the_raw_volume(job):
    """With other samples on the same axes decisions stay and results are stale; the raw volume finds its results."""
    job.label([103])
    filtered = job.volume.copy(data=np.gradient(job.volume.values, axis=-1).astype("f4"))
    other = oc.Job(job.path, volume=filtered)
    assert counts(other) == (counts(job)[0], 1, 1)
    other.label([103])
    assert counts(other)[1:] == (1, 0)
    assert counts(oc.Job(job.path, volume=job.path.parent / "v.sgy"))[1:] == (1, 0)


def test_a_job_uses_the_volume_that_it_opened(job):
    """If another writer switches to a filtered volume, labels of the first volume are still stored under its key."""
    job.label([103])
    filtered = job.volume.copy(data=np.gradient(job.volume.values, axis=-1).astype("f4"))
    other = oc.Job(job.path, volume=filtered)
    other.label([104])
    keys = job.status()["keys"]["votes"], other.status()["keys"]["votes"]
    assert keys[0] != keys[1]
    raw = job.label([106])["label"].values
    assert other.labelled[6]  # stale there, because it was labelled from the raw volume
    clean = oc.Job(job.path.with_name("clean.outcrop"), volume=job.path.parent / "v.sgy")
    job.log.give(job.path.with_name("all.jsonl"))
    clean.log.take(job.path.with_name("all.jsonl"))
    np.testing.assert_array_equal(clean.label([106])["label"].values, raw)


def test_axes_are_put_in_order(source, tmp_path):
    """A transposed volume is ordered by the names of its axes, and a single section becomes one inline."""
    volume = oc.open_volume(source).load()
    turned = oc.Job(tmp_path / "t.outcrop", volume=volume.transpose("time", "crossline", "inline"))
    assert turned.volume.dims == ("inline", "crossline", "time") and turned.volume.shape == volume.shape
    assert oc.Job(tmp_path / "s.outcrop", volume=volume.sel(inline=103)).status()["lines"]["total"] == 1


def test_row_numbers_refer_to_the_current_table(job):
    """After another index a row number still means the patch with this number in retrieved.csv."""
    job.retrieve(count=8)
    table = pd.read_csv(job.path / "retrieved.csv")
    job.index(SIZE, step=10)
    job.reject(int(table["row"][5]))
    place = tuple(float(table[name][5]) for name in ("inline", "crossline", "time"))
    assert [(one.name, one.place) for one in job.plan.state.verdicts] == [(table["class"][5], place)]


def test_patches_that_version_02_stored_as_csv_are_read(job):
    """A folder of version 0.2 shows the patches of its table without a search."""
    weak = job.retrieve(count=9)
    folder = job.stages.path("retrieved", job.plan.keys["retrieved"])
    weak.save(folder / "table.csv")
    facts = {name: getattr(weak, name) for name in ("suggested", "accepted", "rejected")}
    facts["curves"] = {name: curve.tolist() for name, curve in weak.curves.items()}
    (folder / "facts.json").write_text(json.dumps(facts))
    (folder / retrieved.ARRAYS).unlink()
    again = oc.Job(job.path)
    assert again.status()["retrieved"] == dict.fromkeys(weak.suggested, 9) and not again.status()["retrieved_stale"]
    found = retrieved.kept(again, again.plan)
    pd.testing.assert_frame_equal(found.table, weak.table)
    assert found.suggested == weak.suggested and (folder / retrieved.ARRAYS).is_file()


def test_a_missing_joined_job_does_not_block_the_job(job, tmp_path):
    """A job given with --with is checked before it is recorded; if it is removed later, other work still runs."""
    with pytest.raises(ValueError, match="not a job folder"):
        job.label([103], with_jobs=[tmp_path / "nope"])
    assert "label" not in job.plan.state.options
    shutil.copytree(job.path, tmp_path / "other.outcrop")
    job.label([103], with_jobs=[tmp_path / "other.outcrop"])
    shutil.rmtree(tmp_path / "other.outcrop")
    assert counts(job)[1:] == (1, 1)
    with pytest.raises(ValueError, match="does not exist"):
        job.mapper()
    with pytest.raises(ValueError, match="does not exist"):
        job.label([103])
    job.label([103], with_jobs=())
    assert counts(job)[1:] == (1, 0)


def test_arrays_are_identified_by_all_samples(tmp_path):
    """Changing one sample or one axis label gives another identity, an equal copy the same."""
    values = np.random.default_rng(0).standard_normal((5, 60, 60)).astype("f4")
    first = oc.open_volume(values)
    assert identify(first) == identify(oc.open_volume(values.copy()))
    values = values.copy()
    values[3, 17, 41] += 1e-3
    assert identify(first)["digest"] != identify(oc.open_volume(values))["digest"]
    assert identify(first)["digest"] != identify(first.assign_coords(inline=np.arange(5) + 1))["digest"]


def test_another_survey_is_refused(job, tmp_path):
    """A volume with other axes is refused, and the job is unchanged."""
    datasets.write_synthetic(tmp_path / "o.sgy", (6, 80, 80), seed=1)
    with pytest.raises(ValueError, match="another survey"):
        oc.Job(job.path, volume=tmp_path / "o.sgy")
    assert counts(oc.Job(job.path)) == counts(job)


def test_exports_report_missing_and_stale_lines(job, tmp_path):
    """Stale lines are refused unless requested; missing lines are counted; the file contains the provenance."""
    with pytest.raises(ValueError, match="no labels yet"):
        job.export(tmp_path / "l.sgy")
    job.label([103, 104])
    assert "2 of 8 lines labelled, 6 missing" in job.export(tmp_path / "l.sgy")
    np.testing.assert_array_equal(oc.open_volume(tmp_path / "l.sgy").sel(inline=104).values, codes(job, 104))
    job.add_exemplar("fault", (102, 340, 150))
    with pytest.raises(ValueError, match="2 of 2 labelled lines are stale"):
        job.export(tmp_path / "l.zarr")
    assert "2 of them stale" in job.export(tmp_path / "l.zarr", stale=True)
    made = xr.open_zarr(tmp_path / "l.zarr").attrs["provenance"]
    assert made["volume"] == job.plan.volume["digest"] and made["lines"] == {"labelled": 2, "stale": 2, "total": 8}
    assert made["stale_lines"] == [103, 104]
    with pytest.raises(ValueError, match=r"\.tif"):
        job.export(tmp_path / "l.tif")
    assert not (tmp_path / "l.tif").exists()
    job.undo()
    job.export(tmp_path / "patches")
    manifest = pd.read_csv(tmp_path / "patches" / "manifest.csv")
    assert set(manifest["inline"]) <= {103, 104} and len(manifest)


def test_renaming_changes_only_names(job):
    """Codes, table, labels and keys are unchanged; an undo restores the old name everywhere."""
    job.label([103])
    before, keys = codes(job, 103), job.status()["keys"]
    job.rename_class("fault", "normal fault")
    assert job.classes == {"normal fault": 1, "other": 2, "salt dome": 3}
    assert job.labels.attrs["classes"][0] == "normal fault" and job.status()["keys"] == keys
    assert "normal fault" in set(job.retrieve().classes) and "normal fault" in job.mapper().classes_
    np.testing.assert_array_equal(codes(job, 103), before)
    job.add_class("fault")
    assert job.classes["fault"] == 4
    job.undo()
    job.undo()
    assert job.labels.attrs["classes"][0] == "fault" and counts(job)[1:] == (1, 0)


def test_a_class_keeps_its_code_permanently(job):
    """Removing a class, adding others, importing older decisions: no code changes its meaning."""
    job.remove_class("other")
    job.add_class("channel")
    assert job.classes == {"fault": 1, "salt dome": 3, "channel": 4}
    entry = {"id": "x", "time": "1999-01-01T00:00:00+00:00", "who": "old", "what": "class", "class": "gas"}
    (job.path / "decisions" / "import-old.jsonl").write_text(json.dumps(entry) + "\n")
    assert oc.Job(job.path).classes == {"gas": 5, "fault": 1, "salt dome": 3, "channel": 4}
    job.undo()
    job.undo()
    assert job.classes["other"] == 2


def test_code_255_is_given_to_no_class(job):
    """255 means uncertain: 254 classes have codes, and the next one is refused before anything is recorded."""
    for number in range(254 - len(PLACES)):
        job.add_class(f"class {number}")
    assert max(job.classes.values()) == 254
    before = len(job.decisions)
    with pytest.raises(ValueError, match="at most 254 classes"):
        job.add_class("one more")
    assert len(job.decisions) == before and len(job.classes) == 254


def test_a_table_that_lost_a_class_is_refused(job):
    """A truncated table is refused, and its missing rows are not taken as rejected."""
    job.retrieve(count=5)
    path = job.path / "retrieved.csv"
    whole = path.read_text()
    pd.read_csv(path).query("`class` != 'fault'").to_csv(path, index=False)
    with pytest.raises(ValueError, match="no patch of 'fault'"):
        job.retrieve()
    path.write_text(whole)
    assert len(job.retrieve()) == 15 and not job.plan.state.verdicts


def test_decisions_that_cannot_be_read_are_noted(job):
    """Opening a job with an unreadable log entry gives a note."""
    (path,) = (job.path / "decisions").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    again = oc.Job(job.path)
    assert len(again.plan.state.exemplars) == 2 and "cannot be read" in again.notes[0]


def test_a_registered_mapper_labels_a_job(job, monkeypatch):
    """A mapper like the one on the architecture page labels a job; without it the job still opens."""
    from outcrop.mapping import registry
    from outcrop.mapping.saved import Saved

    class Loudness(Saved):
        def fit(self, patches, classes, masks=None, weights=None, *, progress=None):
            self.classes_, codes = np.unique(classes, return_inverse=True)
            loud = np.abs(patches - 0.5).mean(axis=(1, 2))
            self.levels_ = np.array([loud[codes == code].mean() for code in range(len(self.classes_))])
            return self

        def scores(self, patches):
            return 1 / (0.01 + np.abs(np.abs(patches - 0.5)[..., None] - self.levels_))

        def saved(self):
            return {"kind": "Loudness", "classes": self.classes_.tolist()}, {"levels": self.levels_}

        @classmethod
        def restored(cls, about, arrays):
            mapper = cls()
            mapper.classes_, mapper.levels_ = np.array(about["classes"]), arrays["levels"]
            return mapper

    with monkeypatch.context() as patched:
        patched.setitem(registry.MAPPERS, "loudness", Loudness)
        patched.setitem(registry.KINDS, "Loudness", Loudness)
        labels = job.label(lines=[104], mapping="loudness")
        assert labels["label"].values.any() and job.status()["lines"]["labelled"] == 1
    assert oc.Job(job.path).status()["lines"]["labelled"] == 1


def test_a_table_edited_by_hand_is_read_back_as_decisions(job):
    """Removed rows are rejected, added rows accepted; the table is written again, and the job warns."""
    job.retrieve(count=8)
    table = pd.read_csv(job.path / "retrieved.csv")
    gone, moved = table.iloc[2], table.iloc[12]
    edited = table.drop(index=2)
    edited.loc[12, "class"] = "fault"
    edited.to_csv(job.path / "retrieved.csv", index=False)
    other = oc.Job(job.path)
    with pytest.warns(UserWarning, match="edited by hand"):
        weak = other.retrieve()
    assert counts(other)[0] == {"exemplars": 3, "accepted": 1, "rejected": 1, "strokes": 0, "confirmed": 0}
    assert gone["row"] not in weak.rows
    assert weak.classes[weak.rows == moved["row"]].tolist() == ["fault"]
    assert oc.Job(job.path).retrieve().table.equals(weak.table)
    now = pd.read_csv(job.path / "retrieved.csv")
    now.drop(index=0).to_csv(job.path / "retrieved.csv", index=False, sep=";", decimal=",")  # a German spreadsheet
    with pytest.warns(UserWarning, match="edited by hand"):
        weak = oc.Job(job.path).retrieve()
    assert now["class"][0] == "fault" and now["row"][0] not in weak.rows[weak.classes == "fault"]
    (job.path / "retrieved.csv").write_text("class,inline\nfault,1\n")
    with pytest.raises(ValueError, match="not a table"):
        oc.Job(job.path).retrieve()
    now.iloc[:0].to_csv(job.path / "retrieved.csv", index=False)
    with pytest.raises(ValueError, match="holds no patch"):
        oc.Job(job.path).retrieve()


def test_accept_and_reject_by_rows(job):
    """Accepted rows come first, rejected rows are removed, and forgetting both restores the first result."""
    weak = job.retrieve(count=6)
    rows = weak.rows[weak.classes == "fault"]
    job.accept(int(rows[4]))
    job.reject([int(rows[1])])
    after = job.retrieve()
    assert after.rows[0] == rows[4] and rows[1] not in after.rows
    with pytest.raises(ValueError, match="not in the retrieved table"):
        job.accept(10**6)
    job.forget([int(rows[1]), int(rows[4])])
    np.testing.assert_array_equal(job.retrieve().rows, weak.rows)


def test_painted_samples_have_the_painted_class(job):
    """Painted samples have their class with full confidence, also from crosslines; erasing restores the labels."""
    job.label([103, 104])
    before = codes(job, 104)
    job.paint("fault", [(104, 350, 200)], radius=5)
    a, b = np.ogrid[:110, :96]
    disc = (a - 50) ** 2 + (b - 50) ** 2 <= 25
    after = codes(job, 104)
    assert (after[disc] == 1).all() and set(after[after != before]) <= {1}
    assert (job.labels["confidence"].sel(inline=104).values[disc] == 255).all() and counts(job)[1:] == (2, 2)
    job.paint("salt dome", [(101, 340, 100), (106, 340, 100)], radius=1, along="crossline")
    assert codes(job, 103)[40, 25] == codes(job, 104)[40, 25] == 3
    job.erase([(104, 350, 200)], radius=30)
    np.testing.assert_array_equal(codes(job, 104)[disc], before[disc])
    job.label([104])
    assert counts(job)[1:] == (2, 1)


def test_a_class_with_strokes_only_is_learnt(job):
    """A class without an exemplar gets labels from its strokes alone."""
    job.paint("gas", [(104, 350, 200), (104, 370, 220)], radius=8)
    assert "gas" in job.mapper().classes_
    job.label([104])
    code = job.classes["gas"]
    painted = np.zeros((110, 96), bool)
    painted[marked_sections(job, job.plan)[0][0, 4] == code] = True
    assert (codes(job, 104)[painted] == code).all() and (codes(job, 104) == code).sum() >= painted.sum()


def test_right_and_wrong_without_a_class(job):
    """Painting right keeps the labels; painting wrong excludes the current class, also repeatedly, until erased."""
    job.label([104])
    before = codes(job, 104)
    disc = stroke_mask({"along": "inline", "points": [(104, 380, 300)], "radius": 3}, job.axes)
    job.paint("right", [(104, 350, 200)], radius=6)
    assert job.plan.state.strokes[-1]["what"] == "stroke"
    np.testing.assert_array_equal(codes(job, 104)[45:56, 45:56], before[45:56, 45:56])
    job.paint("wrong", [(104, 380, 300)], radius=3)
    assert {stroke["what"] for stroke in job.plan.state.strokes} == {"stroke", "exclude"}
    once = codes(job, 104)
    assert (once[disc] != before[disc]).all() and (once[disc] > 0).all()
    job.label([104])
    now = codes(job, 104)
    assert (now[disc] != before[disc]).all()
    job.paint("wrong", [(104, 380, 300)], radius=3)
    twice = codes(job, 104)
    assert (twice[disc] != before[disc]).all() and (twice[disc] != now[disc]).all()
    job.erase([(104, 380, 300)], radius=3)
    assert not excluded_sections(job.plan.state.strokes, list(job.plan.state.classes), job.axes)
    for word in ("right", "wrong"):
        with pytest.raises(ValueError, match=f"no labels to mark as {word}"):
            job.paint(word, [(101, 350, 200)], radius=6)


def test_a_stroke_does_not_spread_into_excluded_samples(job):
    """A class painted and then called wrong stays out of those samples when the next line is painted with it."""
    job.label([104])
    job.paint("salt dome", [(104, 350, 200)], radius=8)
    wrong = stroke_mask({"along": "inline", "points": [(104, 355, 200)], "radius": 2}, job.axes)
    assert (codes(job, 104)[wrong] == 3).all()
    job.paint("wrong", [(104, 355, 200)], radius=2)
    job.paint("salt dome", [(105, 355, 200)], radius=4)
    assert (codes(job, 104)[wrong] != 3).all() and codes(job, 104)[50, 50] == 3
    job.label([104])
    assert (codes(job, 104)[wrong] != 3).all()


def test_a_stroke_teaches_the_mapper_and_reads_no_survey(job, monkeypatch):
    """After a stroke the survey is not sampled again and other lines are stale; an undo restores mapper and labels."""
    job.label()
    before, plain = codes(job, 104), job.mapper()
    monkeypatch.setattr("outcrop.job.fitting.sample_survey", None)
    job.paint("fault", [(104, 350, 200)], radius=6)
    assert counts(job)[1:] == (8, 8)
    labels = job.label([104])
    assert counts(job)[1:] == (8, 7) and not labels["stale"].any()
    assert plain.correction_ is None and job.mapper().correction_ is not None
    again = oc.Job(job.path)
    np.testing.assert_array_equal(again.label([104])["label"].values, labels["label"].values)
    job.undo()
    assert counts(job)[1:] == (8, 0)
    np.testing.assert_array_equal(codes(job, 104), before)
    assert set(job.stages.keys("mapper")) >= {job.plan.mapper_key}


def test_labels_do_not_depend_on_when_strokes_were_learnt(job, tmp_path):
    """Labelling after every stroke gives the same labels as labelling after all strokes."""
    strokes = [("fault", (104, 350, 200)), ("salt dome", (104, 370, 300)), ("other", (105, 340, 120))]
    other = oc.Job(tmp_path / "o.outcrop", volume=tmp_path / "v.sgy")
    job.log.give(tmp_path / "all.jsonl")
    other.log.take(tmp_path / "all.jsonl")
    for name, place in strokes:
        job.paint(name, [place], radius=4)
        job.label([104])
    for name, place in strokes:
        other.paint(name, [place], radius=4)
    one, two = (each.label([104]) for each in (job, other))
    for what in ("label", "confidence"):
        np.testing.assert_array_equal(one[what].values, two[what].values)


def test_a_stroke_changes_its_line_at_once(job):
    """Before the mapper learns, a stroke changes the votes of its samples and of no others."""
    job.label()
    view = label_view(job, job.plan)[0]
    before = {line: view.votes(line)[1].astype(int) for line in range(8)}
    job.paint("salt dome", [(100, 350, 200)], radius=4)
    after = label_view(job, job.plan)[0]
    painted = marked_sections(job, job.plan)[0][0, 0] > 0
    for line in range(8):
        changed = (after.votes(line)[1] != before[line]).any(axis=0)
        assert not (changed & ~painted).any() if line == 0 else not changed.any()
    assert (after.votes(0)[1][2, painted] == 255).all()


def test_changes_of_the_last_stroke_are_reported(job):
    """`changes` returns where labels changed, a table of the changes, and their share outside the strokes."""
    job.label([104])
    with pytest.raises(ValueError, match="no strokes"):
        job.changes(104)
    before = codes(job, 104)
    job.paint("salt dome", [(104, 350, 200)], radius=4)
    job.label([104])
    found = job.changes(104)
    np.testing.assert_array_equal(found["where"], codes(job, 104) != before)
    assert found["table"]["samples"].sum() == found["where"].sum() and 0 <= found["share"] <= 1
    with pytest.raises(ValueError, match="has no labels"):
        job.changes(101)


def test_outlines_are_filled_and_exported(job, tmp_path):
    """A filled outline paints the samples inside; exported decisions paint the same samples in another job."""
    corners = [(104, 340, 100), (104, 360, 100), (104, 360, 180), (104, 340, 180)]
    job.label([104])
    job.paint("salt dome", corners, filled=True)
    job.paint("wrong", [(104, 380, 300)], radius=3)
    assert (marked_sections(job, job.plan)[0][0, 4][40:61, 25:46] == 3).all() and (
        marked_sections(job, job.plan)[0][0, 4] == 3
    ).sum() == 21 * 21
    job.erase([(104, 345, 120), (104, 355, 120), (104, 355, 160), (104, 345, 160)], filled=True)
    assert (marked_sections(job, job.plan)[0][0, 4] == 3).sum() == 21 * 21 - 11 * 11
    job.log.give(tmp_path / "all.jsonl")
    other = oc.Job(tmp_path / "o.outcrop", volume=tmp_path / "v.sgy")
    other.log.take(tmp_path / "all.jsonl")
    np.testing.assert_array_equal(marked_sections(other, other.plan)[0][0, 4], marked_sections(job, job.plan)[0][0, 4])
    names = list(job.plan.state.classes)
    theirs, ours = (excluded_sections(one.plan.state.strokes, names, one.axes) for one in (other, job))
    np.testing.assert_array_equal(theirs[0, 4], ours[0, 4])
    labels = [one.label([104])["label"].values for one in (other, job)]
    np.testing.assert_array_equal(*labels)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda job: job.add_exemplar("fault", (1, 2, 3)), "outside the volume"),
        (lambda job: job.add_exemplar("uncertain", (104, 350, 200)), "not a class name"),
        (lambda job: job.paint("fault", [(104, 350, 200), (105, 350, 200)]), "lies on one inline"),
        (lambda job: job.paint("fault", [(999, 350, 200)]), "no inline 999"),
        (lambda job: job.paint("fault", [(104, 350, 200)], radius=0), "radius"),
        (lambda job: job.paint("fault", [(104, 350, 200)], along="time"), "Direction"),
        (lambda job: job.rename_class("fault", "other"), "exists already"),
        (lambda job: job.rename_class("gas", "x"), "unknown"),
        (lambda job: job.recolour_class("fault", "red"), "#rrggbb"),
        (lambda job: job.retrieve(count=0), "Count is 0"),
        (lambda job: job.label(mapping="magic"), "unknown"),
        (lambda job: job.label(max_error=1.5), "between 0 and 1"),
        (lambda job: job.index(500), "exceeds"),
        (lambda job: job.label([55]), "not in the volume"),
        (lambda job: job.remove_exemplar("nope"), "no exemplar"),
        (lambda job: job.add_exemplar("fault", np.zeros((5, 5))), "samples, but the patches"),
        (lambda job: job.add_exemplar("fault", "abc"), "three numbers"),
        (lambda job: job.add_exemplar(None, (104, 350, 200)), "not a class name"),
        (lambda job: job.label([103], seed=-1), "seed is -1"),
        (lambda job: job.label([103], step=0), "step is 0"),
        (lambda job: job.reject(None), "whole numbers"),
        (lambda job: job.reject(1.5), "whole numbers"),
        (lambda job: job.index(SIZE, every=0), "every is 0"),
    ],
)
def test_invalid_arguments_are_refused_and_change_nothing(job, call, says):
    """One line gives the problem and the remedy; the decisions are unchanged."""
    before = job.plan.state
    with pytest.raises(ValueError, match=says):
        call(job)
    assert job.plan.state == before


def test_three_writers_use_one_job_at_once(job):
    """Shell, page and notebook see each other's decisions and do not overwrite them."""
    page, shell = oc.Job(job.path, origin="page"), oc.Job(job.path, origin="shell")
    page.add_exemplar("fault", (102, 340, 150))
    shell.reject(int(shell.retrieve().rows[0]))
    job.paint("other", [(104, 350, 200)])
    assert counts(job)[0] == counts(page)[0] == counts(shell)[0]
    assert counts(job)[0] == {"exemplars": 4, "accepted": 0, "rejected": 1, "strokes": 1, "confirmed": 0}
    assert set(job.decisions["from"]) == {"python", "page", "shell"} and job.decisions["who"].nunique() == 3
    assert page.undo() and counts(job)[0]["exemplars"] == 3 and counts(shell)[0]["rejected"] == 1


def test_decisions_are_imported_in_another_folder(job, tmp_path):
    """An exported file contains all decisions; places outside another survey are kept but not used."""
    job.reject(int(job.retrieve().rows[3]))
    job.paint("fault", [(104, 350, 200)])
    job.log.give(tmp_path / "all.jsonl")
    other = oc.Job(tmp_path / "o.outcrop", volume=tmp_path / "v.sgy")
    other.log.take(tmp_path / "all.jsonl")
    assert counts(other)[0] == counts(job)[0] and other.status()["keys"] == job.status()["keys"]
    datasets.write_synthetic(tmp_path / "small.sgy", (8, 80, 96), seed=1)
    away = oc.Job(tmp_path / "s.outcrop", volume=tmp_path / "small.sgy")
    away.log.take(tmp_path / "all.jsonl")
    assert counts(away)[0]["exemplars"] == 3
    assert set(away.retrieve().classes) <= {"fault", "other"}


def test_a_mapper_labels_another_volume(job, tmp_path):
    """The mapper of a job is copied to another job and labels it by features only, without positions."""
    job.label([103])
    other = oc.Job(tmp_path / "o.outcrop", volume=tmp_path / "v.sgy")
    other.borrow_mapper(job)
    labels = other.label([103])
    mapper = job.mapper()
    mapper.forget_places()
    expected = oc.label_volume(job.volume, job.grid(), mapper, lines=[103])["label"].sel(inline=103)
    names = [*mapper.classes_]
    table = np.array([0, *(labels.attrs["classes"].index(name) + 1 for name in names)], np.uint8)
    np.testing.assert_array_equal(labels["label"].values[0], table[expected.values])
    job.close()
    shutil.rmtree(job.path)
    assert (oc.Job(other.path).label([104])["label"] > 0).all()


def test_stored_weak_labels_equal_computed_ones(job):
    """Weak labels are equal bit for bit whether they are computed or read from disk."""
    job.retrieve(count={"fault": 9})
    job.reject(job.retrieve().rows[2])
    made = retrieved.weak_labels(job, job.plan)
    read = retrieved.kept(job, job.plan)
    (job.stages.path("retrieved", job.plan.keys["retrieved"]) / retrieved.ARRAYS).unlink()
    again = retrieved.weak_labels(job, job.plan)
    for one in (read, again):
        for name in ("rows", "classes", "similarity", "exemplar", "starts", "weights", "judge"):
            np.testing.assert_array_equal(getattr(one, name), getattr(made, name), err_msg=name)
        assert one.suggested == made.suggested and one.rejected == made.rejected
        assert one.table.to_csv() == made.table.to_csv()
        for name, curve in made.curves.items():
            np.testing.assert_array_equal(one.curves[name], curve)


def test_damaged_stages_are_computed_again(job):
    """With damaged mapper, votes and table the same labels are computed again, and the damaged files are kept."""
    job.label([103])
    before, table = codes(job, 103), job.retrieve().table
    folder = job.path / "stages"
    next(folder.rglob("mapper.json")).write_text("{")
    next(folder.rglob("votes.zarr")).joinpath("zarr.json").write_text("]")
    next(folder.rglob("weak.npz")).write_text("nonsense")
    again = oc.Job(job.path)
    assert counts(again)[1:] in ((0, 0), (1, 0))
    pd.testing.assert_frame_equal(again.retrieve().table, table)
    again.label([103])
    np.testing.assert_array_equal(codes(again, 103), before)
    assert len(list(folder.rglob("*.damaged-1"))) >= 3


def test_a_damaged_chunk_gives_one_line_and_the_next_run_repairs_it(job):
    """A changed byte in descriptors or votes gives an error with the remedy; the same call again succeeds."""
    job.label([103])
    before = codes(job, 103)
    for name in ("features.zarr", "votes.zarr"):
        store = next((job.path / "stages").rglob(name))
        chunk = max(
            (p for p in store.rglob("*") if p.is_file() and p.name != "zarr.json"), key=lambda p: p.stat().st_size
        )
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 255
        chunk.write_bytes(data)
    again = oc.Job(job.path)
    with pytest.raises(ValueError, match="damaged"):
        again.labels["label"].sel(inline=103).load()
    again = oc.Job(job.path)
    again.label([103])
    np.testing.assert_array_equal(codes(again, 103), before)
    with pytest.raises(ValueError, match="damaged"):
        again.retrieve(count=5)
    assert len(oc.Job(job.path).retrieve(count=5)) == 15


def test_clean_removes_only_unused_stages(job):
    """Older stages are listed, kept up to a size, and removed on request; the stages of current labels stay."""
    job.label()
    job.label([103], seed=1)
    shown = codes(job, 104)
    job.index(SIZE, step=24)
    job.index(SIZE, step=16)
    rows = job.clean(dry_run=True)
    assert {row["kind"] for row in rows} == {"index", "mapper", "survey"} and not any(row["removed"] for row in rows)
    assert not any(row["removed"] for row in job.clean(keep=10**9))
    assert all(row["removed"] for row in job.clean()) and job.clean() == []
    np.testing.assert_array_equal(codes(job, 104), shown)
    assert counts(job)[1:] == (8, 7)


def test_the_background_may_have_another_name(job):
    """Common names are recognised and stay the background after a rename; any other class can be chosen."""
    job.label([103])
    before, keys = codes(job, 103), job.status()["keys"]
    job.rename_class("other", "strata")
    assert job.plan.background_name == "strata" and job.status()["keys"] == keys
    job.set_background("salt-dome")
    assert job.plan.background_name == "salt dome"
    job.label([103])
    assert (codes(job, 103) != before).any()
    job.set_background("strata")
    job.label([103])
    np.testing.assert_array_equal(codes(job, 103), before)


def test_without_a_background_there_is_a_warning(source, tmp_path):
    """Exemplars of two structures alone leave most of the survey unnamed: class other is added with a warning."""
    job = oc.Job(tmp_path / "v.outcrop", volume=source)
    job.index(SIZE, step=16)
    job.add_exemplar("fault", PLACES["fault"])
    job.add_exemplar("reef", PLACES["other"])
    assert job.plan.background_name is None
    with pytest.warns(UserWarning, match="class .other. was added"):
        job.label([103])


def test_missing_traces_lose_no_line(source, tmp_path):
    """With one trace in twenty missing every line is labelled, and only missing traces have no label."""
    volume = oc.open_volume(source).load()
    dead = np.random.default_rng(0).random(volume.shape[:2]) < 0.05
    volume.values[dead] = np.nan
    volume = volume.assign_coords(live=(("inline", "crossline"), ~dead))
    job = oc.Job(tmp_path / "m.outcrop", volume=volume)
    job.index(SIZE, step=16)
    for name, place in PLACES.items():
        job.add_exemplar(name, place)
    labels = job.label()
    np.testing.assert_array_equal((labels["label"] > 0).values.any(axis=2), ~dead)


def test_jobs_of_two_interpreters_are_compared(job, tmp_path):
    """With the same decisions two jobs agree; with others the comparison names lines, decisions and their job."""
    job.label([103, 104])
    other = oc.Job(tmp_path / "o.outcrop", volume=tmp_path / "v.sgy")
    job.log.give(tmp_path / "all.jsonl")
    other.log.take(tmp_path / "all.jsonl")
    other.label([104, 105])
    same = compare_jobs(job, other)
    assert same["agreement"] == 1 and same["lines"] == [104]
    other.paint("salt dome", [(104, 350, 200)], radius=10)
    differs = compare_jobs(job, other)
    mask = codes(job, 104) != codes(other, 104)
    assert differs["differ"]["differs"][0] == pytest.approx(mask.mean())
    assert differs["decisions"].query("what == 'stroke'")["job"].tolist() == ["o.outcrop"]


def test_crossline_jobs(tmp_path):
    """In a job along crosslines, the requested crosslines are labelled; strokes in both directions are shown."""
    datasets.write_synthetic(tmp_path / "x.sgy", (60, 60, 70), seed=2)
    job = oc.Job(tmp_path / "x.outcrop", volume=tmp_path / "x.sgy")
    job.index(SIZE, step=16, every=8, along="crossline")
    for name, place in {"fault": (120, 320, 100), "other": (130, 340, 180)}.items():
        job.add_exemplar(name, place)
    labels = job.label([320, 321])
    assert labels["label"].shape == (60, 2, 70) and (labels["label"] > 0).all()
    whole = job.labels["label"].values
    assert (whole.any(axis=(0, 2)) == np.isin(np.arange(300, 360), [320, 321])).all()
    job.paint("fault", [(120, 320, 100)], radius=2, along="crossline")
    job.paint("other", [(125, 321, 60)], radius=1, along="inline")
    assert job.labels["label"].sel(inline=120, crossline=320, time=100) == 1
    assert job.labels["label"].sel(inline=125, crossline=[320, 321], time=60).values.tolist() == [2, 2]


def test_a_folder_of_another_version_is_refused(tmp_path):
    """A folder with another format is refused in one line, and its file is unchanged."""
    (tmp_path / "job.toml").write_text("format = 1\nversion = '0.1.0'\n")
    with pytest.raises(ValueError, match="has format 1"):
        oc.Job(tmp_path)
    assert (tmp_path / "job.toml").read_text().startswith("format = 1")


def test_a_job_in_two_processes(job):
    """A decision of another process is seen in the next call of the first process."""
    code = f"import outcrop as oc; job = oc.Job({str(job.path)!r}); job.add_exemplar('fault', (102, 340, 150))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert counts(job)[0]["exemplars"] == 4


def test_cancelled_labelling_is_resumed(job):
    """An exception from progress stops labelling; finished lines are kept, and the next call labels the others."""

    def stop(what, done, total):
        if what == "labelling" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.label(progress=stop)
    assert counts(job)[1:] == (3, 0)
    seen = []
    job.label(progress=lambda what, done, total: seen.append((what, done)))
    assert ("labelling", 3) in seen and counts(job)[1:] == (8, 0)


def test_a_class_that_was_refused_or_removed_has_no_name_in_the_labels(job):
    """The code of a class that is not in use is listed without its name."""
    with pytest.raises(ValueError, match="inline 9999 is outside"), job.log.act():
        job.add_class("channel")
        assert job.classes["channel"]
        job.add_exemplar("fault", (9999, 340, 150))
    job.add_class("karst")
    assert "channel" not in job.labels.attrs["classes"] and "karst" in job.labels.attrs["classes"]
