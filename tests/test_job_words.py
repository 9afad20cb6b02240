"""Wrong or half-done input: nothing of it is kept in silence, and one line says what is wrong."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.cli.console import explain
from outcrop.job.decisions import Decisions
from outcrop.job.options import LabelOptions
from outcrop.job.pictures import save
from outcrop.retrieval import index as retrieval
from outcrop.volumes.amplitude import amplitude_clip

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small survey."""
    path = tmp_path_factory.mktemp("survey")
    datasets.write_synthetic(path / "v.sgy", (8, 110, 96), seed=3)
    return path


@pytest.fixture
def job(folder, tmp_path):
    """A job with two exemplars, not indexed."""
    with oc.Job(tmp_path / "v.outcrop", volume=folder / "v.sgy") as one:
        one.choose_index(size=32, step=16)
        for name, place in PLACES.items():
            one.add_exemplar(name, place)
        yield one


def test_an_interrupt_is_said_in_one_line(outcrop, folder, tmp_path, monkeypatch):
    """Ctrl-C while patches are described: exit code 130 and what to do next."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("outcrop.retrieval.index.map_blocks", interrupted)
    code, _, error = outcrop("index", folder / "v.sgy", "-o", tmp_path / "i.outcrop", "--size", "32", "--step", "16")
    assert code == 130 and error.splitlines()[-1] == "Error: Interrupted; run the same command again to resume it."


def test_an_interrupt_while_loading_is_no_traceback(tmp_path):
    """Ctrl-C before the program has loaded its libraries."""
    (tmp_path / "typer.py").write_text("import os, time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "outcrop", "--help"]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # programs behind a shell ignore it
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
        **heard,
    ) as process:
        assert process.stdout.readline() == "loading\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and error.startswith("Error: Interrupted") and len(error.splitlines()) == 1


def test_strokes_outside_the_survey_are_refused(job):
    """Traces, times and lines that are not there: refused, and no decision is kept."""
    for point in ((104, 99999, 200), (104, 350, -4000), (999, 350, 200)):
        with pytest.raises(ValueError, match="volume"):
            job.paint("fault", [point])
    assert not job.plan.state.strokes
    job.paint("fault", [(104, 298, 200)], radius=4)  # its rim lies inside
    job.paint("fault", (104, 350, 200))
    assert len(job.plan.state.strokes) == 2


def test_what_failed_is_not_redone(tmp_path):
    """A command that was withdrawn leaves nothing to redo, and what could be redone before still can."""
    log = Decisions(tmp_path)
    log.add({"what": "class", "class": "a"})
    log.add({"what": "class", "class": "b"})
    log.undo()
    with pytest.raises(ValueError), log.act():
        log.add({"what": "class", "class": "c"})
        raise ValueError
    assert log.redo() and list(log.state().classes) == ["a", "b"] and not log.redo()


def test_undo_names_who_decided_last(job, outcrop):
    """While a notebook holds the job the shell is another writer, and says whose the last decision is."""
    code, _, error = outcrop("decisions", job.path, "--undo")
    assert (
        code == 0
        and "no decision to undo" in error
        and job.log.who in error
        and "exemplar other 105, 330, 100" in error
    )
    job.close()
    code, said, _ = outcrop("decisions", job.path, "--undo")
    assert code == 0 and "undo: done" in said


def test_a_cut_decision_is_counted(job):
    """The last line of a file cut short: status says so; a line that lacks its end alone counts."""
    path = job.path / "decisions" / f"{job.log.who}.jsonl"
    text = path.read_bytes()
    path.write_bytes(text[:-30])
    status = oc.Job(job.path).status()
    assert status["damaged"] == {path.name: 1} and status["decisions"]["exemplars"] == 1
    path.write_bytes(text[:-1])
    status = oc.Job(job.path).status()
    assert status["damaged"] == {} and status["decisions"]["exemplars"] == 2


def test_two_lines_of_one_number_are_refused(folder, tmp_path):
    """No label could say which of them is meant."""
    volume = oc.open_volume(folder / "v.sgy").load().assign_coords(inline=np.r_[100, 100:107])
    for make in (lambda: oc.Job(tmp_path / "d.outcrop", volume=volume), lambda: oc.open_volume(volume)):
        with pytest.raises(ValueError, match="inline 100 2 times"):
            make()
    assert not (tmp_path / "d.outcrop").exists()


def test_one_thing_to_do_a_command(job, outcrop, tmp_path):
    """Undo with redo, or with an export, is refused before anything is done."""
    before = len(job.log.entries)
    for words in (["--undo", "--redo"], ["--export", tmp_path / "e.jsonl", "--undo"]):
        code, _, error = outcrop("decisions", job.path, *words)
        assert code == 2 and "cannot be combined" in error
    assert len(job.log.entries) == before and not (tmp_path / "e.jsonl").exists()


@pytest.mark.parametrize(
    "call",
    [
        lambda job: job.add_exemplar("fault", None),
        lambda job: job.add_exemplar("fault", ("a", "b", "c")),
        lambda job: job.paint("fault", "104,350,200"),
        lambda job: job.paint("fault", [(104, float("nan"), 200)]),
        lambda job: job.paint("fault", 5),
        lambda job: job.retrieve(count="x"),
        lambda job: job.retrieve() and job.label(lines="x"),
        lambda job: job.label(lines=slice(100, 104)),
        lambda job: job.label(step="x"),
    ],
)
def test_wrong_values_are_one_line(job, call):
    """Whatever a notebook passes: a ValueError that names it."""
    with pytest.raises(ValueError) as error:
        call(job)
    assert "\n" not in str(error.value)


def test_a_class_that_is_nearly_there_is_asked_about(job):
    """A new class whose name is one letter off is made, and warned about; numbered ones are meant."""
    with pytest.warns(UserWarning, match="'fault' is meant"):
        job.paint("falt", [(104, 350, 200)])
    job.add_class("fault 2")
    job.add_class("channel")


def test_what_comes_next_can_be_done(folder, tmp_path, monkeypatch):
    """A job on an array goes on in Python; one with the mapper of another job needs no index."""
    volume = oc.open_volume(folder / "v.sgy").load()
    job = oc.Job(tmp_path / "a.outcrop", volume=volume)
    assert job.status()["next"].endswith("volume=array).add_exemplar(...)")
    job.choose_index(size=32, step=16)
    job.add_exemplar("fault", PLACES["fault"])
    assert job.status()["next"].endswith("volume=array).label()")
    carried = oc.Job(tmp_path / "c.outcrop", volume=folder / "v.sgy")
    carried.choose(label=LabelOptions(mapper="0" * 16))
    assert carried.status()["next"] == f"outcrop label {carried.path}"


def test_a_picture_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    """A read-only folder: a warning; a full disk is an error as ever."""
    figure = oc.plots.new_figure()

    def refuse(code):
        def replace(*_):
            raise OSError(code, os.strerror(code), str(tmp_path / ".p.png.host-1-2.part"))

        return replace

    monkeypatch.setattr("os.replace", refuse(errno.EROFS))
    with pytest.warns(UserWarning, match=r"p\.png is not written"):
        save(figure, tmp_path / "p.png")
    monkeypatch.setattr("os.replace", refuse(errno.ENOSPC))
    with pytest.raises(OSError) as error:
        save(figure, tmp_path / "p.png")
    assert explain(error.value).endswith(f"({tmp_path / 'p.png'}).")


def test_an_error_while_describing_ends_the_threads(job, monkeypatch):
    """A file that may not grow: the threads that describe patches have ended when the error arrives."""
    ended, real = [], retrieval.map_blocks

    def blocks(*words, **options):
        try:
            yield from real(*words, **options)
        finally:
            ended.append(True)

    def full(*_):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(retrieval, "map_blocks", blocks)
    monkeypatch.setattr(retrieval.DoneLog, "add", full)
    with pytest.raises(OSError) as error:
        job.index()
    assert ended and error.value.errno == errno.EFBIG


def test_words_of_the_shell(outcrop, job, folder, tmp_path):
    """One dot at the end, the array called an array, names and kinds of files checked before anything is made."""
    code, _, error = outcrop("info", tmp_path / "nix.sgy")
    assert code == 2 and error.rstrip().endswith("volume.")
    assert outcrop("synth", tmp_path / "x.npy")[0] == 2 and not list(tmp_path.glob("x.*"))
    for what, path in (("foo", "l.zarr"), ("confidence", "patches")):
        code, _, error = outcrop("export", job.path, tmp_path / path, "--what", what)
        assert code == 2 and what in error and "labels yet" not in error
    assert "at least 32" in " ".join(outcrop("index", "--help")[1].split())
    zeros = oc.open_volume(folder / "v.sgy").load() * 0
    zeros.attrs["source"] = str(folder / "v.sgy")
    with pytest.raises(ValueError, match="The array holds only zeros"):
        amplitude_clip(zeros)
