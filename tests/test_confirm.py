"""Confirmed lines: labels that no longer change, are exported with decisions, can be undone, and teach other lines."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import outcrop as oc
from outcrop.export.label_segy import export_segy
from outcrop.job.choosing import choose_labels
from outcrop.storage.workspace import Damaged

LINE, OTHER = 102, 104


@pytest.fixture(scope="module")
def made():
    """Return a synthetic volume and its truth."""
    return oc.datasets.synthetic((6, 160, 128), seed=4)


@pytest.fixture
def job(made, tmp_path):
    """Yield a job with one click for each class, near the middle of its samples on one line."""
    volume, truth = made
    with oc.Job(tmp_path / "v.outcrop", volume=volume) as one:
        choose_labels(one, mapping="points")
        for code, name in enumerate(truth.attrs["classes"], 1):
            places = np.argwhere(truth.values[2] == code)
            trace, sample = places[len(places) // 2]
            one.add_exemplar(name, (LINE, float(volume["crossline"][trace]), float(volume["time"][sample])))
        yield one


def codes(job, line=LINE, along="inline"):
    """Return the labels of a line as `Job.labels` gives them."""
    return job.labels["label"].sel({along: line}).values


def sure(job, line=LINE):
    """Return the confidence of the labels of a line."""
    return job.labels["confidence"].sel(inline=line).values


def centre(made, line, name):
    """Return a place on a line where the truth is the given class."""
    volume, truth = made
    places = np.argwhere(truth.sel(inline=line).values == 1 + truth.attrs["classes"].index(name))
    trace, sample = places[len(places) // 2]
    return line, float(volume["crossline"][trace]), float(volume["time"][sample])


def at(job, place):
    """Return the class labelled at a place, None if it is uncertain or not labelled."""
    labels = job.labels
    code = int(labels["label"].sel(dict(zip(labels["label"].dims, place, strict=True)), method="nearest"))
    return labels.attrs["classes"][code - 1] if 0 < code < 255 else None


def test_a_confirmed_line_keeps_its_labels(job, made):
    """Later clicks, labels of other lines and another minimum confidence do not change them."""
    job.label([LINE])
    shown = codes(job)
    assert job.confirm([LINE]) == [LINE]
    np.testing.assert_array_equal(codes(job), shown)
    assert (sure(job) == 255).all()
    job.add_exemplar("salt dome", centre(made, OTHER, "fault"))
    assert not job.labelled[2]  # not stale: nothing on it is open
    job.label([LINE, OTHER])
    np.testing.assert_array_equal(codes(job), shown)
    job.label([LINE], min_confidence=0.99)
    np.testing.assert_array_equal(codes(job), shown)


def test_uncertain_samples_are_not_confirmed(job, made):
    """Computed labels show there and follow later decisions; after one, the line is stale."""
    job.label([LINE], min_confidence=0.9)
    shown = codes(job)
    assert (shown == 255).any() and (shown < 255).any()
    job.confirm([LINE])
    np.testing.assert_array_equal(codes(job), shown)
    job.label([LINE], min_confidence=0)
    later = codes(job)
    assert (later < 255).all()
    np.testing.assert_array_equal(later[shown < 255], shown[shown < 255])
    job.add_exemplar("other", centre(made, OTHER, "fault"))
    assert job.labelled[2]


def test_undo_and_redo_and_unconfirm(job, made):
    """A confirmation is a decision with a person and a time; undo restores the earlier votes and their key."""
    job.label([LINE, OTHER])
    before, key = codes(job, OTHER), job.plan.keys["votes"]
    job.confirm([LINE])
    row = job.decisions.iloc[-1]
    assert (row["what"], row["where"], row["who"]) == ("confirm", f"inline {LINE}", job.log.who)
    taught = job.plan.keys["votes"]
    assert taught != key
    job.undo()
    assert job.plan.keys["votes"] == key
    np.testing.assert_array_equal(codes(job, OTHER), before)
    job.redo()
    assert job.plan.keys["votes"] == taught
    job.unconfirm([LINE])
    assert job.plan.keys["votes"] == key and job.status()["decisions"]["confirmed"] == 0
    with pytest.raises(ValueError, match="inline 102 is not confirmed; confirmed inlines are: none"):
        job.unconfirm([LINE])


def test_a_later_stroke_or_click_wins_and_an_earlier_one_does_not(job, made):
    """A later stroke or click changes labels at its place only; an earlier stroke changes none."""
    place = centre(made, LINE, "salt dome")
    job.paint("fault", [place], radius=5)
    job.label([LINE])
    truth = made[1]
    job.confirm([LINE], labels=truth)
    assert at(job, place) == "salt dome"  # the stroke came before
    confirmed = codes(job)
    job.paint("chaotic", [place], radius=5)
    assert at(job, place) == "chaotic"
    changed = codes(job) != confirmed
    assert 0 < changed.sum() <= 81
    job.undo()
    np.testing.assert_array_equal(codes(job), confirmed)
    job.add_exemplar("other", place)
    assert at(job, place) == "other"
    job.undo()
    job.paint("erase", [place], radius=5)
    job.label([LINE])
    assert at(job, place) is not None  # a computed label shows there
    job.confirm([LINE], labels=truth)
    assert at(job, place) == "salt dome"


def test_part_of_a_line(job, made):
    """An outline confirms the samples that it encloses; all other samples are still computed."""
    volume, truth = made
    job.label([LINE])
    traces, times = volume["crossline"].values, volume["time"].values
    outline = [(traces[20], times[20]), (traces[60], times[20]), (traces[60], times[90]), (traces[20], times[90])]
    job.confirm([LINE], labels=truth, outline=outline)
    inside = np.zeros(truth.shape[1:], bool)
    inside[20:61, 20:91] = True
    confidence, shown = sure(job), codes(job)
    names = job.labels.attrs["classes"]
    wanted = np.array([0, *(1 + names.index(name) for name in truth.attrs["classes"])])[truth.values[2].astype(int)]
    np.testing.assert_array_equal(shown[inside], wanted[inside])
    assert (confidence[inside] == 255).all() and (confidence[~inside] < 255).any()
    with pytest.raises(ValueError, match="three points or more"):
        job.confirm([LINE], outline=outline[:2])


def test_crosslines_and_time_slices_show_a_confirmed_line(job, made):
    """Labels and scores of a sample are equal on inline, crossline and time slice."""
    truth = made[1]
    job.label()
    job.confirm([LINE], labels=truth)
    labels, names = job.labels, job.labels.attrs["classes"]
    for key in ({"crossline": 40}, {"time": 50}):
        np.testing.assert_array_equal(labels["label"].isel(key).sel(inline=LINE).values, codes(job)[
            (key["crossline"], slice(None)) if "crossline" in key else (slice(None), key["time"])
        ])  # fmt: skip
    from outcrop.job.exports import with_scores

    scores = with_scores(job, labels)["score"].sel(inline=LINE).values
    for code in range(1, 1 + len(names)):
        np.testing.assert_array_equal(scores[code - 1] == 255, codes(job) == code)


def test_both_directions_fused(tmp_path):
    """Votes of the lines across and of neighbouring traces do not change a confirmed sample."""
    volume, truth = oc.datasets.synthetic((34, 40, 64), seed=1)
    with oc.Job(tmp_path / "f.outcrop", volume=volume) as job:
        job.choose_index(size=32)
        choose_labels(job, mapping="points")
        job.confirm([103, 120], labels=truth)
        job.label()
        fused = job.fused_labels()
        np.testing.assert_array_equal(fused["label"].sel(inline=120).values, codes(job, 120))
        np.testing.assert_array_equal(fused["label"].isel(crossline=7).values[20], codes(job, 120)[7])
        for name in ("confidence", "margin"):
            assert (fused[name].sel(inline=120).values == 255).all()


def test_a_confirmed_crossline(job, made):
    """It shows where it crosses labelled inlines and teaches; an inline confirmed later wins at the crossing."""
    volume, truth = made
    line = int(volume["crossline"][80])
    job.label([LINE, OTHER])
    key = job.plan.keys["votes"]
    job.confirm([line], along="crossline", labels=truth)
    assert job.plan.keys["votes"] != key
    names = job.labels.attrs["classes"]
    table = np.array([0, *(1 + names.index(name) for name in truth.attrs["classes"])])
    crossing = table[truth.values[:, 80].astype(int)]
    np.testing.assert_array_equal(codes(job, line, "crossline"), crossing)
    np.testing.assert_array_equal(codes(job)[80], crossing[2])
    assert job.mapper().forest_ is not None
    assert job.status()["decisions"]["confirmed"] == 1 and job.status()["lines"]["confirmed"] == 0
    other = truth.copy(data=np.full(truth.shape, 1, np.uint8))
    job.confirm([LINE], labels=other)
    np.testing.assert_array_equal(codes(job)[80], np.full(truth.shape[2], names.index(truth.attrs["classes"][0]) + 1))
    np.testing.assert_array_equal(codes(job, line, "crossline")[3], crossing[3])


def test_a_job_without_any_click_is_taught_by_confirmed_lines(made, tmp_path):
    """Expert labels of a line show before any fit, and the other lines are labelled better than by chance."""
    volume, truth = made
    with oc.Job(tmp_path / "v.outcrop", volume=volume) as job:
        choose_labels(job, mapping="points")
        job.confirm([101, 104], labels=truth)
        assert job.labelled == {1: False, 4: False}
        names = job.labels.attrs["classes"]
        table = np.array([0, *(1 + names.index(name) for name in truth.attrs["classes"])])
        np.testing.assert_array_equal(codes(job, 101), table[truth.values[1].astype(int)])
        assert not codes(job, 102).any()
        job.label([102])
        right = codes(job, 102) == table[truth.values[2].astype(int)]
        assert right.mean() > 0.7


def test_exported_decisions_hold_the_labels_of_confirmed_lines(job, made, tmp_path):
    """Import restores them, also on a smaller volume; a second import changes nothing, and undo removes them."""
    job.label([LINE])
    job.confirm([LINE])
    shown = codes(job)
    job.log.give(tmp_path / "all.jsonl")
    with oc.Job(tmp_path / "o.outcrop", volume=made[0]) as other:
        assert other.log.take(tmp_path / "all.jsonl") == other.log.take(tmp_path / "all.jsonl")
        np.testing.assert_array_equal(codes(other), shown)
        assert other.plan.keys == job.plan.keys
        other.undo()
        assert not other.plan.state.confirmed
    part = made[0].isel(inline=slice(1, 4), crossline=slice(10, 150), time=slice(8, 120))
    with oc.Job(tmp_path / "part.outcrop", volume=part) as other:
        other.log.take(tmp_path / "all.jsonl")
        np.testing.assert_array_equal(codes(other), shown[10:150, 8:120])
    text = (tmp_path / "all.jsonl").read_text()
    entry = json.loads(text.splitlines()[-1])
    (tmp_path / "bad.jsonl").write_text(json.dumps(entry | {"labels": entry["labels"][:-8]}) + "\n")
    with oc.Job(tmp_path / "b.outcrop", volume=made[0]) as other:
        with pytest.raises(ValueError, match="damaged labels of inline 102"):
            other.log.take(tmp_path / "bad.jsonl")
        assert not other.log.entries


def test_decisions_of_this_job_win_over_an_imported_line(job, made, tmp_path):
    """An imported confirmed line does not replace strokes and confirmed lines of this job."""
    volume, truth = made
    place = centre(made, LINE, "salt dome")
    with oc.Job(tmp_path / "o.outcrop", volume=volume) as other:
        other.confirm([LINE, OTHER], labels=truth)
        other.log.give(tmp_path / "all.jsonl")
    mine = truth.copy(data=np.full(truth.shape, 1 + truth.attrs["classes"].index("other"), np.uint8))
    job.paint("chaotic", [place], radius=3)
    job.confirm([OTHER], labels=mine)
    job.log.take(tmp_path / "all.jsonl")
    assert at(job, place) == "chaotic"
    assert (codes(job, OTHER) == job.classes["other"]).all()
    assert (codes(job) == job.classes["salt dome"]).any()


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_a_lost_file_is_reported_and_all_else_works(job, made, tmp_path, how):
    """The line is computed, the status names the file, and importing the exported decisions restores it."""
    job.label([LINE])
    key = job.plan.keys["votes"]
    job.confirm([LINE, 103], labels=made[1])
    shown = codes(job)
    job.log.give(tmp_path / "all.jsonl")
    name = job.plan.state.confirmed[0]["file"]
    path = job.path / "decisions" / "confirmed" / f"{name}.npz"
    if how == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-5])
    again = oc.Job(job.path, volume=made[0])
    with pytest.warns(UserWarning, match=f"{name}.npz .*confirmed line"):
        report = again.status()
    assert report["damaged"] == {f"confirmed/{name}.npz": 1} and report["decisions"]["confirmed"] == 1
    assert again.plan.keys["votes"] != key
    again.label([LINE])
    assert (codes(again) != shown).any() and (codes(again, 103) > 0).all()
    again.log.take(tmp_path / "all.jsonl")
    assert not again.status()["damaged"]
    np.testing.assert_array_equal(codes(again), shown)
    again.close()


def test_classes_that_are_renamed_or_removed(job, made):
    """A renamed class keeps its confirmed samples; samples of a removed class are open until undo restores them."""
    job.label([LINE])
    job.confirm([LINE], labels=made[1])
    shown, code = codes(job), job.classes["salt dome"]
    job.rename_class("salt dome", "salt")
    np.testing.assert_array_equal(codes(job), shown)
    job.remove_class("salt")
    job.label([LINE])
    assert (codes(job) != code).all() and (codes(job)[shown != code] == shown[shown != code]).all()
    job.undo()
    np.testing.assert_array_equal(codes(job), shown)


def test_labels_of_files_and_arrays(job, made, tmp_path):
    """SEG-Y, Zarr, DataArray and Dataset confirm the same labels; class names match where that is obvious."""
    volume, truth = made
    renamed = truth.assign_attrs(classes=["Salt" if name == "salt dome" else name for name in truth.attrs["classes"]])
    dataset = xr.Dataset({"label": renamed.astype("uint8")}, attrs={"classes": renamed.attrs["classes"]})
    export_segy(dataset.assign(confidence=dataset["label"]), tmp_path / "truth.sgy", like=volume)
    dataset.drop_attrs(deep=False).assign(label=dataset["label"]).to_zarr(tmp_path / "truth.zarr", consolidated=False)
    job.label([LINE])
    shown = []
    for labels in (tmp_path / "truth.sgy", renamed, dataset, tmp_path / "truth.zarr"):
        with pytest.warns(UserWarning, match="salt dome 'Salt'"):
            job.confirm([LINE], labels=labels)
        shown.append(codes(job))
        job.undo()
    first = shown[0]
    assert all(np.array_equal(other, first) for other in shown)
    assert job.redo()
    assert "Salt" not in job.classes and (first == job.classes["salt dome"]).any()
    with pytest.raises(ValueError, match="has no table of classes"):
        job.confirm([LINE], labels=truth.drop_attrs())
    with pytest.raises(ValueError, match="has no labels on inline 102; its inlines are: 103 to 105"):
        job.confirm([103, LINE], labels=truth.sel(inline=slice(103, None)))
    assert len(job.plan.state.confirmed) == 1


def test_horizons_are_boundaries(job, made, tmp_path):
    """Samples above and below a horizon get their classes; traces without the horizon are not confirmed."""
    volume, _ = made
    traces, times = volume["crossline"].values, volume["time"].values
    depth = times[40] + np.arange(len(traces)) % 7
    table = pd.DataFrame({"inline": LINE, "crossline": traces, "time": depth})[20:100]
    table.to_csv(tmp_path / "top.csv", index=False)
    job.label([LINE])
    with pytest.raises(ValueError, match="is a horizon; name the class above"):
        job.confirm([LINE], labels=tmp_path / "top.csv")
    before = codes(job)
    job.confirm([LINE], labels=tmp_path / "top.csv", above="other", below="salt dome")
    shown = codes(job)
    np.testing.assert_array_equal(shown[:20], before[:20])
    below = times >= depth[20:100, None]
    np.testing.assert_array_equal(shown[20:100] == job.classes["salt dome"], below)
    np.testing.assert_array_equal(shown[20:100] == job.classes["other"], ~below)
    with pytest.raises(ValueError, match="no labels on inline 104"):
        job.confirm([OTHER], labels=tmp_path / "top.csv", below="salt dome")


def test_fault_sticks(job, made, tmp_path):
    """Samples near the sticks are confirmed as fault, no others; a line without a stick is refused."""
    volume, _ = made
    traces, times = volume["crossline"].values, volume["time"].values
    stick = {"stick": 0, "inline": LINE, "crossline": [traces[30], traces[40]], "time": [times[20], times[100]]}
    pd.DataFrame(stick).to_csv(tmp_path / "sticks.csv", index=False)
    job.label([LINE, OTHER])
    before = codes(job)
    assert job.confirm(labels=tmp_path / "sticks.csv") == [LINE]
    on = sure(job) == 255
    assert (codes(job)[35, 58:63] == job.classes["fault"]).all() and on[35, 60]
    far = np.ones_like(on)
    far[25:46] = False
    np.testing.assert_array_equal(codes(job)[far], before[far])
    with pytest.raises(ValueError, match="no labels on inline 104"):
        job.confirm([OTHER], labels=tmp_path / "sticks.csv")


def test_a_single_class_is_shown_where_it_is_confirmed(made, tmp_path):
    """A single class gives no computed labels, but its confirmed samples show."""
    volume, _ = made
    with oc.Job(tmp_path / "one.outcrop", volume=volume) as job:
        array = xr.zeros_like(volume.isel(inline=[2]), dtype=np.uint8).assign_attrs(classes=["fault"])
        array[:, 30:40, 50:60] = 1
        job.confirm(labels=array)
        for _ in range(2):
            shown = codes(job)
            assert (shown[30:40, 50:60] == 1).all() and not ((shown > 0) & (shown < 255)).sum() > 100
            with pytest.warns(UserWarning, match="only class"):
                job.label([LINE])


def test_lines_that_cannot_be_confirmed_are_refused(job, made):
    """A line without labels, a line or direction that does not exist, and no line each have their own error."""
    job.label([LINE])
    with pytest.raises(ValueError, match=r"inline 104 has no labels; run 'outcrop label .* --lines 104' first"):
        job.confirm([LINE, OTHER])
    with pytest.raises(ValueError, match="There is no inline 999"):
        job.confirm([999])
    with pytest.raises(ValueError, match="Direction 'time'"):
        job.confirm([LINE], along="time")
    with pytest.raises(ValueError, match="No inline is named"):
        job.confirm()
    assert not job.plan.state.confirmed


def test_a_stroke_on_a_confirmed_line_teaches(job, made):
    """The mapper learns the later stroke in place of the labels that were confirmed there."""
    job.label([LINE])
    job.confirm([LINE], labels=made[1])
    place = centre(made, LINE, "salt dome")
    job.paint("chaotic", [place], radius=9)
    from outcrop.job.confirmed import confirmed_evidence, job_confirmed

    plan = job.plan
    taught = confirmed_evidence(job_confirmed(job, plan), [])[2.0]
    np.testing.assert_array_equal(taught, codes(job).T)
    assert (taught == job.classes["chaotic"]).any()


def test_the_line_to_correct_next(job, made):
    """Once a line is confirmed, status names a line of low confidence far from it, and the place of the lowest."""
    job.label()
    assert job.status()["correct_next"] is None
    job.confirm([101], labels=made[1])
    job.label()
    advice = job.status()["correct_next"]
    confidence = job.labels["confidence"]
    mean = confidence.mean(dim=["crossline", "time"])
    assert advice["line"] in (103, 104, 105) and advice["place"][0] == advice["line"]
    around = confidence.sel(inline=advice["line"]).sel(
        crossline=slice(advice["place"][1] - 20, advice["place"][1] + 20),
        time=slice(advice["place"][2] - 80, advice["place"][2] + 80),
    )
    assert float(around.mean()) < float(mean.sel(inline=advice["line"]))
    job.confirm([100, 102, 103, 104, 105], labels=made[1])
    assert job.status()["correct_next"] is None


def shell(*words):
    """Run a command in a shell and return its exit code and output."""
    return subprocess.run(
        [sys.executable, "-m", "outcrop", *map(str, words)], capture_output=True, text=True, timeout=300
    )


def test_the_command(made, tmp_path):
    """`confirm` adds and removes lines, status and evaluate report them; wrong input gives one line and code 2."""
    truth = made[1]
    oc.datasets.write_synthetic(tmp_path / "v.sgy", (6, 160, 128), seed=4)
    path = tmp_path / "v.outcrop"
    with oc.Job(path, volume=tmp_path / "v.sgy") as job:
        choose_labels(job, mapping="points")
    done = shell("confirm", path, "--lines", "101,103", "--from", tmp_path / "v.truth.sgy", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"lines": [101, 103], "along": "inline", "confirmed": 2}
    report = json.loads(shell("status", path, "--json").stdout)
    assert report["decisions"]["confirmed"] == 2 and report["lines"] == {
        "total": 6, "labelled": 2, "stale": 0, "confirmed": 2
    }  # fmt: skip
    done = shell("label", path, "--lines", "102")
    assert done.returncode == 0, done.stderr
    done = shell("evaluate", path, "--truth", tmp_path / "v.truth.sgy")
    assert "Confirmed: 2 inlines of 3" in done.stdout + done.stderr
    done = shell("confirm", path, "--lines", "101", "--remove")
    assert done.returncode == 0 and "1 line is still confirmed" in done.stdout + done.stderr
    done = shell("decisions", path, "--undo")
    assert done.returncode == 0 and json.loads(shell("status", path, "--json").stdout)["decisions"]["confirmed"] == 2
    for words in (["--lines", "105", "--remove"], ["--remove"], ["--lines", "105"], ["--lines", "999"],
                  ["--lines", "101", "--above", "salt"]):  # fmt: skip
        done = shell("confirm", path, *words)
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    exported = shell("export", path, tmp_path / "out.npy", "--stale")
    assert exported.returncode == 0
    table = np.array([0, *(1 + oc.Job(path).labels.attrs["classes"].index(name) for name in truth.attrs["classes"])])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy")[1], table[truth.values[1].astype(int)])


def test_a_kill_between_file_and_decision_loses_nothing(job, made, monkeypatch):
    """The file is written before the decision, so no decision can lack its file."""
    job.label([LINE])
    monkeypatch.setattr(job.log, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        job.confirm([LINE])
    monkeypatch.undo()
    assert not job.plan.state.confirmed and not job.status()["damaged"]
    job.confirm([LINE])
    files = list((job.path / "decisions" / "confirmed").iterdir())
    assert [path.stem for path in files] == [job.plan.state.confirmed[0]["file"]]
    with pytest.raises(Damaged):
        job.log.line_files.read("0" * 32)
