"""Mistakes of new users: units, folders, colour pictures, failing commands, a missing volume, undo."""

import json

import numpy as np
import pytest
from PIL import Image

import outcrop as oc

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100)}


@pytest.fixture
def job(tmp_path):
    """Yield a job on a small survey, with an exemplar of each of two classes."""
    oc.datasets.write_synthetic(tmp_path / "v.sgy", (8, 110, 96), seed=3)
    with oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.sgy", origin="shell") as job:
        job.choose_index(size=32, step=16)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        yield job


def history(job):
    """Return the kinds of all log entries of a job, as written."""
    texts = [path.read_text() for path in (job.path / "decisions").glob("*.jsonl")]
    return [json.loads(line)["what"] for text in texts for line in text.splitlines()]


def test_a_time_that_looks_like_seconds_gives_a_note(job):
    """A time within the first sample of an axis in ms gives a note; a time within the survey gives none."""
    job.add_exemplar("fault", (104, 350, 0.2))
    assert any("time 0.2 is taken in ms; for 0.2 s give 200" in note for note in job.notes)
    job.notes.clear()
    job.paint("fault", [(104, 350, 0.1), (104, 350, 0.3)])
    assert any("for 0.3 s give 300" in note for note in job.notes)
    job.notes.clear()
    job.paint("fault", [(104, 350, 200)])
    job.add_exemplar("fault", (104, 352, 204))
    assert not job.notes


@pytest.mark.parametrize("moved", [False, True])
def test_status_reports_the_path_of_the_volume(job, tmp_path, outcrop, moved):
    """A missing volume is reported with the remedy; a volume that was moved together with its job is found."""
    job.close()
    source, path = tmp_path / "v.sgy", job.path
    if moved:
        (tmp_path / "new").mkdir()
        for part in (source, path):
            part.rename(tmp_path / "new" / part.name)
        path = tmp_path / "new" / path.name
    else:
        source.unlink()
    code, output, _ = outcrop("status", path, "--json")
    report = json.loads(output)
    assert code == 0 and str(source) in report["volume_unread"]
    assert ("say where it is" in report["volume_unread"]) != moved
    assert (report["next"] == f"outcrop index VOLUME -o {path}") != moved
    assert report["volume"] == str(tmp_path / "new" / "v.sgy" if moved else source)
    assert str(source) in outcrop("status", path)[1].replace("\n", "")


def test_a_line_without_traces_has_its_own_error(tmp_path):
    """A line without live traces and a line that does not exist give different errors."""
    volume = oc.datasets.synthetic((4, 64, 80), seed=3)[0]
    volume[2] = np.nan
    job = oc.Job(tmp_path / "a.outcrop", volume=volume)
    job.choose_index(size=32, step=16)
    for name, place in {"fault": (101, 320, 200), "other": (100, 330, 100)}.items():
        job.add_exemplar(name, place)
    with pytest.raises(ValueError, match="inline 102 has no traces to label; choose one of 3 inlines from 100 to 103"):
        job.label([102])
    with pytest.raises(ValueError, match="inline 99 is not in the volume"):
        job.label([99])


@pytest.mark.parametrize("kind", ["picture", "folder"])
def test_a_colour_picture_gives_a_note(tmp_path, outcrop, kind):
    """A note reports that only the brightness of colours is used; grey pixels stored as RGB give none."""
    grey = np.random.default_rng(0).integers(0, 255, (64, 70, 1), dtype=np.uint8)
    for name, pixels in {"grey": np.repeat(grey, 3, axis=2), "red": grey * np.array([1, 0, 0], np.uint8)}.items():
        path = tmp_path / name
        path.mkdir()
        for line in (1, 2):
            Image.fromarray(pixels).save(path / f"{line}.png")
        code, output, _ = outcrop("info", path if kind == "folder" else path / "1.png", "--json")
        assert code == 0 and any("in colour" in note for note in json.loads(output)["notes"]) == (name == "red")
    assert "in colour" in outcrop("index", path / "1.png", "-o", tmp_path / "a.outcrop", "--size", "32")[2]


def test_info_and_index_name_the_same_clip(tmp_path, outcrop):
    """Both commands report that a picture, with values from 0 to 1, needs no clip."""
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 70), dtype=np.uint8)).save(tmp_path / "a.png")
    assert "no clip" in outcrop("info", tmp_path / "a.png")[1]
    assert "clip none" in outcrop("index", tmp_path / "a.png", "-o", tmp_path / "a.outcrop", "--size", "32")[2]


@pytest.mark.parametrize("content", ["notes.txt", "decisions", ".hidden", None])
def test_a_folder_with_other_files_does_not_become_a_job(job, tmp_path, outcrop, content):
    """Such a folder is refused and unchanged; an empty folder, and one with decisions of a colleague, are accepted."""
    folder = tmp_path / "mine"
    folder.mkdir()
    if content:
        (folder / content).mkdir()
    refused = content == "notes.txt"
    code, _, error = outcrop("index", tmp_path / "v.sgy", "-o", folder, "--size", "32")
    assert code == (2 if refused else 0) and ("described" in error) != refused
    if refused:
        assert "holds other things" in error and "NAME.outcrop" in error
        assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_command_that_fails_logs_no_decision(job, outcrop):
    """With one wrong row, neither the other verdicts nor the exemplar of the same command are logged."""
    row = int(job.retrieve().table["row"].iloc[0])
    job.close()
    before = history(job)
    words = ["retrieve", job.path, "--exemplar", "salt=106,340,150"]
    code, _, error = outcrop(*words, "--accept", row, "--reject", 10**6)
    assert code == 2 and "not in the retrieved table" in error
    assert history(job) == before
    assert outcrop(*words, "--accept", row)[0] == 0
    assert outcrop("decisions", job.path, "--undo")[0] == 0  # one command, one undo
    with oc.Job(job.path) as again:
        state = again.plan.state
        assert not state.verdicts and sorted(one.name for one in state.exemplars) == sorted(PLACES)


@pytest.mark.parametrize(
    "wrong", [["--exemplar", "salt=477,350,200"], ["--lines", "99"], ["--with", "nowhere.outcrop"]]
)
def test_label_logs_all_its_decisions_or_none(job, outcrop, wrong):
    """Decisions of a refused command are not logged; one undo cancels all decisions of a command."""
    job.close()
    before = history(job)
    words = ["label", job.path, "--exemplar", "salt=106,340,150", "--min-confidence", "0.6", "--background", "other"]
    code, _, error = outcrop(*words, *wrong)
    assert code == 2 and "Error" in error
    assert history(job) == before
    code, _, error = outcrop(*words, "--exemplar", "fault=103,340,150", "--lines", "103")
    assert code == 0, error
    assert outcrop("decisions", job.path, "--undo")[0] == 0
    with oc.Job(job.path) as again:
        assert sorted(one.name for one in again.plan.state.exemplars) == sorted(PLACES)
        assert again.plan.label.min_confidence is None and again.plan.classes == {"fault": 1, "other": 2}


def test_an_exemplar_that_is_neither_numbers_nor_a_picture_is_refused(job, outcrop):
    """The error states the form of an exemplar, and not that a volume does not exist."""
    code, _, error = outcrop("label", job.path, "--exemplar", "fault=104,x,200")
    assert code == 2 and "neither three numbers nor a file; write CLASS=INLINE,CROSSLINE,TIME" in error


def test_undo_of_index_options_gives_a_note(job, outcrop):
    """Undo and redo of options of the index report the present patch size and the effect; other undos do not."""
    job.index()
    job.choose_index(size=48)
    job.notes.clear()
    job.undo()
    assert any("patches are now 32 x 32" in note and "index is stored" in note for note in job.notes)
    job.notes.clear()
    job.redo()
    assert any("patches are now 48 x 48" in note and "the next search" in note for note in job.notes)
    job.notes.clear()
    job.add_exemplar("fault", (106, 340, 150))
    job.undo()
    assert not job.notes


@pytest.mark.parametrize("who", ["bob@elsewhere-1", None])
def test_the_error_of_undo_names_who_can_undo(job, outcrop, who):
    """Decisions of another person are undone by that person, decisions of an open program by that program."""
    if who:
        entry = {"id": "a", "time": "2030-01-01T00:00:00+00:00", "who": who, "from": "page", "what": "class"}
        (job.path / "decisions" / f"{who}.jsonl").write_text(json.dumps(entry | {"class": "salt"}) + "\n")
        job.close()
        for _ in range(3):
            outcrop("decisions", job.path, "--undo")
    error = " ".join(outcrop("decisions", job.path, "--undo")[2].split())
    assert ("that person can undo it" in error) == bool(who)
    assert ("or here after that program is closed" in error) != bool(who)


def test_strokes_outside_the_area_give_a_note_and_no_labels(job):
    """A stroke outside the area is kept with a note; a stroke that reaches into the area gives none."""
    job.choose_index(area={"crossline": (320, 380)})
    job.label([104])
    job.paint("fault", [(104, 395, 200)])
    assert sum("outside the area of interest" in note for note in job.notes) == 1
    job.paint("fault", [(104, 378, 200), (104, 390, 200)])
    assert sum("outside the area of interest" in note for note in job.notes) == 1
    labels = job.labels["label"].sel(inline=104)
    assert not labels.sel(crossline=slice(381, None)).values.any()


def test_status_counts_answers_to_audits(job, outcrop):
    """Answers are counted by their subject; without an audit there is no count."""
    assert job.status()["audits"] == {}
    job.audit(3).answer(yes=[1, 2], no=[3])
    assert job.status()["audits"] == {"patches": 3}
    assert "3 answers about patches" in outcrop("status", job.path)[1]


def test_the_representation_of_a_grid():
    """It states the number of patches, size, step and direction."""
    volume = oc.datasets.synthetic((2, 64, 80), seed=0)[0]
    assert repr(oc.PatchGrid(volume, size=32, step=16)) == (
        "<PatchGrid: 24 patches of 32 x 32, step 16 x 16, along inline, every 1>"
    )


def test_messages_name_the_options_of_command_line_and_python(job):
    """The remedy names the option of the command line and the argument in Python."""
    job.label([104])
    job.paint("fault", [(104, 350, 100)])
    with pytest.raises(ValueError, match=r"1 of 1 labelled line is.*--stale \(in Python: stale=True"):
        job.export(job.path.parent / "a.sgy")


def test_an_edited_table_survives_a_command_that_fails(job, outcrop):
    """Rows removed from the table by hand are rejected, also after a command with a wrong row."""
    table = job.retrieve().table
    path = job.path / "retrieved.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    job.close()
    assert outcrop("retrieve", job.path, "--accept", 10**6)[0] == 2
    with oc.Job(job.path) as again:
        (verdict,) = again.plan.state.verdicts
        assert not verdict.accept and verdict.place == tuple(table[["inline", "crossline", "time"]].iloc[-1])
