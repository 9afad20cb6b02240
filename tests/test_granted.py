"""Expectations of users: names of classes, areas, strokes, exports, a full disk."""

import json
from collections import namedtuple

import numpy as np
import pytest
import xarray as xr
from filelock import FileLock

import outcrop as oc
from outcrop.job import folder
from outcrop.patches.grid import PatchGrid
from outcrop.storage.workspace import DoneLog

LINE = 104


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a survey and a job with one labelled line."""
    path = tmp_path_factory.mktemp("survey")
    oc.datasets.write_synthetic(path / "v.sgy", (8, 110, 96), seed=3)
    with oc.Job(path / "v.outcrop", volume=path / "v.sgy") as job:
        job.choose_index(size=32, step=16)
        for name, place in {"fault": (LINE, 350, 200), "other": (105, 330, 100)}.items():
            job.add_exemplar(name, place)
        job.label([LINE])
    return path


def expert(made, path, **names):
    """Write the expert labels of the survey with other class names; return their path."""
    codes = oc.open_volume(made / "v.truth.sgy").load()
    classes = [names.get(name, name) for name in codes.attrs["classes"]]
    oc.export_zarr(codes.assign_attrs(classes=classes), path)
    return path


def test_similar_class_names_of_an_expert_are_matched_with_a_note(made, tmp_path, outcrop):
    """The name Faults in expert labels is the class fault, with a note; another name gives a warning."""
    given = {"same": {}, "obvious": {"fault": "Faults"}, "odd": {"fault": "Bruch"}}
    found = {}
    for name, names in given.items():
        path = expert(made, tmp_path / f"{name}.zarr", **names)
        code, output, error = outcrop("evaluate", made / "v.outcrop", "--truth", path, "--json")
        assert code == 0, error
        found[name] = json.loads(output)["IU"], " ".join(error.split())
    assert found["obvious"][0] == found["same"][0] and found["same"][0]["fault"] > 0
    assert "calls fault 'Faults'" in found["obvious"][1]
    assert found["odd"][0]["Bruch"] == 0 and "No label is called" in found["odd"][1] and "'fault'" in found["odd"][1]


def test_exemplars_outside_the_area_give_a_warning(made, tmp_path, outcrop):
    """An exemplar outside the area is kept with a warning, an exemplar inside without."""
    job = tmp_path / "a.outcrop"
    words = ["index", made / "v.sgy", "-o", job, "--size", 32, "--crosslines", "320,380"]
    code, _, error = outcrop(*words)
    assert code == 0, error
    code, _, error = outcrop("retrieve", job, "--exemplar", f"fault={LINE},350,200")
    assert code == 0 and "outside the area" not in error, error
    code, _, error = outcrop("retrieve", job, "--exemplar", f"other={LINE},305,200")
    assert code == 0 and f"{LINE}, 305, 200 lies outside the area of interest" in " ".join(error.split())


def test_strokes_are_painted_from_the_shell(made, tmp_path, outcrop):
    """Strokes of one command are stored as one act, which one undo cancels."""
    job = oc.Job(tmp_path / "p.outcrop", volume=made / "v.sgy")
    words = ["paint", job.path, "--class", "fault", "--radius", 2]
    code, _, error = outcrop(*words, "--stroke", f"{LINE},340,100:345,140", "--stroke", "105,350,200")
    assert code == 0, error
    strokes = [entry for entry in job.log.entries if entry["what"] == "stroke"]
    assert [entry["points"] for entry in strokes] == [[[LINE, 340, 100], [LINE, 345, 140]], [[105, 350, 200]]]
    assert {(entry["radius"], entry["along"], entry["class"]) for entry in strokes} == {(2, "inline", "fault")}
    code, _, error = outcrop("paint", job.path, "--class", "fault", "--along", "crossline", "--stroke", "340,104,100")
    assert code == 0 and job.log.entries[-1]["points"] == [[104, 340, 100]], error
    for _ in range(2):
        assert outcrop("decisions", job.path, "--undo")[0] == 0
    assert not job.decisions.query("not undone and what == 'stroke'").size
    code, _, error = outcrop("paint", job.path, "--class", "fault", "--stroke", "340;104")
    assert code == 2 and "LINE,TRACE,TIME" in error


def test_one_class_is_exported_as_a_volume(made, tmp_path, outcrop):
    """Samples of the class are 1 and others 0: one class as SEG-Y and NumPy, all classes in Zarr."""
    labels = oc.Job(made / "v.outcrop").labels
    code = list(labels.attrs["classes"]).index("fault") + 1
    mask = (labels["label"].values == code).astype(np.uint8)
    assert mask.any() and not mask.all()
    for name in ("m.sgy", "m.npy", "m.zarr"):
        done, _, error = outcrop("export", made / "v.outcrop", tmp_path / name, "--what", "class:fault")
        assert done == 0, error
    np.testing.assert_array_equal(oc.open_volume(tmp_path / "m.sgy").values, mask)
    assert not (tmp_path / "m.sgy.classes.toml").exists() and not (tmp_path / "m.npy.classes.toml").exists()
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), mask)
    stored = xr.open_zarr(tmp_path / "m.zarr")
    np.testing.assert_array_equal(stored["class_fault"].values, mask)
    assert {"class_fault", "class_other"} <= set(stored.data_vars)
    done, _, error = outcrop("export", made / "v.outcrop", tmp_path / "x.sgy", "--what", "class:salt")
    assert done == 2 and "fault, other" in error


@pytest.mark.parametrize("name", ["line.npy", "line.png", "lines.npy"])
def test_labels_are_exported_in_the_format_of_their_volume(tmp_path, outcrop, name):
    """Labels of a NumPy file or a picture have its shape and open as labels; the source is not overwritten."""
    from PIL import Image

    volume, _ = oc.datasets.synthetic((2, 110, 96), seed=3)
    amplitudes = volume.values if name == "lines.npy" else volume.values[0].T
    amplitudes = np.clip(128 + 40 * amplitudes / amplitudes.std(), 0, 255).astype(np.uint8)
    source, out = tmp_path / name, tmp_path / f"labels{name[-4:]}"
    if source.suffix == ".png":
        Image.fromarray(amplitudes).save(source)
    else:
        np.save(source, amplitudes)
    job = oc.Job(tmp_path / "j.outcrop", volume=source)
    job.choose_index(size=32, step=16)
    job.add_exemplar("fault", (0, 50, 50))
    job.add_exemplar("other", (0, 30, 20))
    labels = job.label()
    assert job.status()["next"].endswith(f" labels{out.suffix}")
    code, _, error = outcrop("export", job.path, out)
    assert code == 0, error
    written = np.asarray(Image.open(out)) if out.suffix == ".png" else np.load(out)
    assert written.shape == amplitudes.shape and written.dtype == np.uint8
    back = oc.open_volume(out)
    np.testing.assert_array_equal(back.values, labels["label"].values)
    assert back.attrs["classes"] == labels.attrs["classes"]
    before = source.read_bytes()
    assert outcrop("export", job.path, source)[0] == 2 and source.read_bytes() == before


def test_an_index_that_does_not_fit_on_the_disk_is_refused(made, tmp_path, outcrop, monkeypatch):
    """The error states the needed and the free space, before anything is written."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "total used free")(1, 1, 1))
    code, _, error = outcrop("index", made / "v.sgy", "-o", tmp_path / "d.outcrop", "--size", 32)
    assert code == 2 and "MB are free there" in " ".join(error.split())
    assert not (tmp_path / "d.outcrop").exists()


def test_a_locked_table_of_classes_gives_an_error(made, tmp_path, monkeypatch):
    """While another program has the table of classes locked, a new class gives an error instead of a repeated code."""
    monkeypatch.setattr(folder, "WAIT", 0.1)
    job = oc.Job(tmp_path / "l.outcrop", volume=made / "v.sgy")
    with FileLock(job.path / ".classes.lock"), pytest.raises(OSError, match=r"has locked .*classes\.json"):
        job.add_class("salt")
    assert job.classes == {"salt": 1}


@pytest.mark.parametrize("shape", [(4, 26, 128), (4, 26, 26)])
@pytest.mark.parametrize("size", [48, 26])
def test_a_survey_too_small_for_any_patch_is_refused_with_the_smallest_size(shape, size):
    """The error proposes no size that another check refuses, and names what works without patches."""
    from outcrop.job.options import IndexOptions

    volume, _ = oc.datasets.synthetic(shape, seed=0)
    with pytest.raises(ValueError, match=r"too small for any patch\..* 32 x 32 or more.* label from exemplars"):
        IndexOptions(size=size).fitted(volume.shape).grid(volume)


@pytest.mark.parametrize("path", [None, "labels.zarr"])
def test_a_line_that_is_requested_twice_is_labelled_once(tmp_path, path):
    """Repeated line numbers have no effect, in memory and on disk."""

    class Halves:
        """A mapper with half of every vote for each class."""

        classes_ = ("fault", "other")

        def scores(self, patches):
            """Return the same score for both classes."""
            return np.full((*patches.shape, 2), 0.5)

    volume, _ = oc.datasets.synthetic((4, 48, 64), seed=0)
    grid = PatchGrid(volume, size=32, step=16)
    path = None if path is None else tmp_path / path
    labels = oc.label_volume(volume, grid, Halves(), lines=[101, 101], path=path)
    assert labels["label"].values.any(axis=(1, 2)).tolist() == [False, True, False, False]


def test_depth_is_declared_from_the_shell_and_stays(made, tmp_path, outcrop):
    """With `--domain depth`, the job opens again in depth, and fault sticks of the file have depths."""
    path = tmp_path / "z.outcrop"
    code, _, error = outcrop("index", made / "v.sgy", "-o", path, "--size", 32, "--domain", "depth")
    assert code == 0 and oc.Job(path).volume.dims[2] == "depth", error
    code, _, error = outcrop("faults", made / "v.sgy", "-o", tmp_path / "f.csv", "--lines", LINE, "--domain", "depth")
    assert code == 0 and "depth" in (tmp_path / "f.csv").read_text().splitlines()[0], error


def test_a_job_has_at_most_254_classes(made, tmp_path):
    """Code 255 means uncertain: a class after the last free code is refused and not stored."""
    with oc.Job(tmp_path / "a.outcrop", volume=made / "v.sgy") as job:
        with job.log.act():
            for number in range(folder.LAST_CODE):
                job.add_class(f"class {number}")
        with pytest.raises(ValueError, match="cannot be added: a job has at most 254"):
            job.add_class("one more")
        assert sorted(job.classes.values()) == list(range(1, 255))


def test_an_exemplar_is_removed_by_its_id(made, tmp_path):
    """The table of decisions shows the class and the position of the removed exemplar."""
    with oc.Job(tmp_path / "a.outcrop", volume=made / "v.sgy") as job:
        job.remove_exemplar(job.add_exemplar("fault", (LINE, 350, 200)))
        assert not job.plan.state.exemplars
        row = job.decisions.iloc[-1]
        assert (row["what"], row["class"], row["where"]) == ("remove", "fault", "104, 350, 200")


def test_an_exemplar_on_a_line_that_does_not_exist_is_refused(made, tmp_path):
    """The error names the nearest line, and no decision is logged."""
    with oc.Job(tmp_path / "a.outcrop", volume=oc.open_volume(made / "v.sgy")[::2]) as job:
        with pytest.raises(ValueError, match="The volume has no inline 105; the nearest one is"):
            job.add_exemplar("fault", (105, 350, 200))
        assert not job.log.entries


def test_the_log_of_finished_lines_is_not_read_for_every_line(made, tmp_path, monkeypatch):
    """Labelling many lines reads the log as often as labelling one line."""
    count, read = [], DoneLog.read
    monkeypatch.setattr(DoneLog, "read", lambda log: (count.append(log), read(log))[1])
    with oc.Job(tmp_path / "a.outcrop", volume=made / "v.sgy") as job:
        job.choose_index(size=32, step=16)
        for name, place in {"fault": (LINE, 350, 200), "other": (105, 330, 100)}.items():
            job.add_exemplar(name, place)
        job.label([100])
        calls = []
        for lines in ([101], [102, 103, 104, 105]):
            count.clear()
            job.label(lines)
            calls.append(len(count))
    assert calls[0] == calls[1]


def test_a_job_in_depth_stays_in_depth(tmp_path, outcrop):
    """Indexing a job in depth again needs no --domain, and a truth in SEG-Y is in depth too."""
    survey, path = tmp_path / "s.sgy", tmp_path / "s.outcrop"
    assert outcrop("synth", survey, "--shape", "4,100,96")[0] == 0
    assert outcrop("index", survey, "-o", path, "--size", 48, "--domain", "depth")[0] == 0
    assert "changed" not in "".join(map(str, outcrop("index", survey, "-o", path, "--size", 48)))
    with oc.Job(path) as job:
        assert job.volume.dims[2] == "depth"
        lines, traces, depths = (job.axes[k].tolist() for k in range(3))
        for name, trace in (("fault", 30), ("other", 70)):
            job.add_exemplar(name, (lines[1], traces[trace], depths[50]))
        job.label(lines[:2])
        assert job.evaluate(tmp_path / "s.truth.sgy")["PA"] > 0


def test_a_size_that_is_advised_fits(tmp_path):
    """A patch larger than the sections in both directions is refused with a size that fits."""
    volume, _ = oc.datasets.synthetic((4, 110, 96), seed=0)
    job = oc.Job(tmp_path / "j.outcrop", volume=volume)
    with pytest.raises(ValueError, match="choose 96 x 110 or less"):
        job.index(size=200)
    job.index(size=(96, 110))
