"""Wrong or interrupted input: an error of one line names the problem, and nothing partial is kept silently."""

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
from outcrop.job.choosing import choose_options
from outcrop.job.decisions import Decisions
from outcrop.job.options import LabelOptions
from outcrop.job.pictures import save
from outcrop.retrieval import index as retrieval
from outcrop.volumes.amplitude import amplitude_clip

PLACES = {"fault": (104, 350, 200), "other": (105, 330, 100)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a small survey."""
    path = tmp_path_factory.mktemp("survey")
    datasets.write_synthetic(path / "v.sgy", (8, 110, 96), seed=3)
    return path


@pytest.fixture
def job(folder, tmp_path):
    """Yield a job with two exemplars and no index."""
    with oc.Job(tmp_path / "v.outcrop", volume=folder / "v.sgy") as one:
        one.choose_index(size=32, step=16)
        for name, place in PLACES.items():
            one.add_exemplar(name, place)
        yield one


def test_an_interrupt_is_reported_in_one_line(outcrop, folder, tmp_path, monkeypatch):
    """Ctrl-C while patches are described gives exit code 130 and a message with the next step."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("outcrop.retrieval.index.map_blocks", interrupted)
    code, _, error = outcrop("index", folder / "v.sgy", "-o", tmp_path / "i.outcrop", "--size", "32", "--step", "16")
    assert code == 130 and error.splitlines()[-1] == "Error: Interrupted; run the same command again to resume it."


def test_an_interrupt_while_loading_is_no_traceback(tmp_path):
    """Ctrl-C before the program has loaded its libraries gives one line."""
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
    """Strokes on traces, times and lines outside the volume are refused, and no decision is kept."""
    for point in ((104, 99999, 200), (104, 350, -4000), (999, 350, 200)):
        with pytest.raises(ValueError, match="volume"):
            job.paint("fault", [point])
    assert not job.plan.state.strokes
    job.paint("fault", [(104, 298, 200)], radius=4)  # its rim lies inside
    job.paint("fault", (104, 350, 200))
    assert len(job.plan.state.strokes) == 2


def test_a_failed_command_is_not_redone(tmp_path):
    """A command that failed leaves nothing to redo, and the act undone before it can still be redone."""
    log = Decisions(tmp_path)
    log.add({"what": "class", "class": "a"})
    log.add({"what": "class", "class": "b"})
    log.undo()
    with pytest.raises(ValueError), log.act():
        log.add({"what": "class", "class": "c"})
        raise ValueError
    assert log.redo() and list(log.state().classes) == ["a", "b"] and not log.redo()


def test_undo_names_who_decided_last(job, outcrop):
    """While a notebook has the job open, the shell is another writer, and undo names the last writer."""
    code, _, error = outcrop("decisions", job.path, "--undo")
    assert (
        code == 0
        and "no decision to undo" in error
        and job.log.who in error
        and "exemplar other 105, 330, 100" in error
    )
    job.close()
    code, output, _ = outcrop("decisions", job.path, "--undo")
    assert code == 0 and "undo: done" in output


def test_a_truncated_decision_is_counted(job):
    """Status counts a truncated last line as damaged; a line that lacks only its newline is read."""
    path = job.path / "decisions" / f"{job.log.who}.jsonl"
    text = path.read_bytes()
    path.write_bytes(text[:-30])
    status = oc.Job(job.path).status()
    assert status["damaged"] == {path.name: 1} and status["decisions"]["exemplars"] == 1
    path.write_bytes(text[:-1])
    status = oc.Job(job.path).status()
    assert status["damaged"] == {} and status["decisions"]["exemplars"] == 2


def test_two_lines_of_one_number_are_refused(folder, tmp_path):
    """A volume with two inlines of one number is refused, because positions on them would be ambiguous."""
    volume = oc.open_volume(folder / "v.sgy").load().assign_coords(inline=np.r_[100, 100:107])
    for make in (lambda: oc.Job(tmp_path / "d.outcrop", volume=volume), lambda: oc.open_volume(volume)):
        with pytest.raises(ValueError, match="inline 100 2 times"):
            make()
    assert not (tmp_path / "d.outcrop").exists()


def test_a_command_has_one_action(job, outcrop, tmp_path):
    """Undo with redo, or with an export, is refused, and neither is done."""
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
def test_wrong_values_raise_errors_of_one_line(job, call):
    """A wrong value passed from Python raises a ValueError with one line that names it."""
    with pytest.raises(ValueError) as error:
        call(job)
    assert "\n" not in str(error.value)


def test_a_class_with_a_similar_name_gives_a_warning(job):
    """A new class whose name differs in one letter is added with a warning; a numbered class has none."""
    with pytest.warns(UserWarning, match="'fault' is meant"):
        job.paint("falt", [(104, 350, 200)])
    job.add_class("fault 2")
    job.add_class("channel")


def test_the_next_step_of_status_can_be_run(folder, tmp_path):
    """For a job on an array status gives Python; a job with a borrowed mapper needs no index."""
    volume = oc.open_volume(folder / "v.sgy").load()
    job = oc.Job(tmp_path / "a.outcrop", volume=volume)
    assert job.status()["next"].endswith("volume=array).add_exemplar(...)")
    job.choose_index(size=32, step=16)
    job.add_exemplar("fault", PLACES["fault"])
    assert job.status()["next"].endswith("volume=array).label()")
    carried = oc.Job(tmp_path / "c.outcrop", volume=folder / "v.sgy")
    choose_options(carried, label=LabelOptions(mapper="0" * 16))
    assert carried.status()["next"] == f"outcrop label {carried.path}"


def test_a_picture_in_a_read_only_folder_gives_a_warning(tmp_path, monkeypatch):
    """A picture that cannot be saved in a read-only folder gives a warning; a full disk is an error."""
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
    """If a file cannot grow, the threads that describe patches have ended when the error is raised."""
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


def test_messages_of_commands(outcrop, job, folder, tmp_path):
    """A message ends in one full stop and names an array as such; file names are checked before any work."""
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
