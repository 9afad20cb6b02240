"""A job folder is written atomically, and changes of a volume are detected."""

import contextlib
import errno
import multiprocessing
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from outcrop.storage.workspace import FORMAT, DoneLog, Workspace, damage, fingerprint, whole_file


def test_reads_back_what_it_wrote(tmp_path):
    """The tables of job.toml are read back, with the version of the format."""
    job = Workspace(tmp_path)
    job.write({"index": {"size": [99, 99], "gain": "agc:500", "name": "Brønn ß"}})
    assert job.read()["index"] == {"size": [99, 99], "gain": "agc:500", "name": "Brønn ß"}
    assert job.read()["format"] == FORMAT


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "not a job folder"), ("format = 99", "format 99"), ("format = [", "cannot be read"), ("", "format None")],
)
def test_refuses_a_job_it_cannot_read(tmp_path, text, says):
    """A missing job, another version and damaged TOML each give one line."""
    if text is not None:
        (tmp_path / "job.toml").write_text(text)
    with pytest.raises(ValueError, match=says):
        Workspace(tmp_path).read()


def test_files_appear_whole_or_not_at_all(tmp_path):
    """An error while writing keeps the old file and leaves no other file."""
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError), whole_file(target) as aside:
        aside.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_rename_that_is_refused_for_a_moment_is_tried_again(tmp_path, monkeypatch):
    """Windows refuses it while a reader has the file open; after a second it is an error, and the old file is kept."""
    target, replace, refused = tmp_path / "file", os.replace, [2]
    target.write_text("old")

    def refuse(*paths):
        if refused[0]:
            refused[0] -= 1
            raise PermissionError(13, "in use")
        replace(*paths)

    monkeypatch.setattr(os, "replace", refuse)
    with whole_file(target) as aside:
        aside.write_text("new")
    assert target.read_text() == "new"
    refused[0] = 99
    with pytest.raises(PermissionError), whole_file(target) as aside:
        aside.write_text("newer")
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_an_empty_folder_is_replaced(tmp_path):
    """A folder replaces an empty one, also on systems where renaming does not replace folders."""
    target = tmp_path / "a.zarr"
    target.mkdir()
    with whole_file(target) as aside:
        aside.mkdir()
        (aside / "part").write_text("content")
    assert (target / "part").read_text() == "content"


def leave(path):
    """Exit while a file is being written."""
    with whole_file(path) as aside:
        aside.write_text("half")
        os._exit(1)


def test_writers_do_not_disturb_each_other(tmp_path):
    """Two threads write one file at once: both finish, the last one is kept, no other file is left."""
    target, both = tmp_path / "file", threading.Barrier(2)

    def write(text):
        with whole_file(target) as aside:
            aside.write_text(text)
            both.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ["one", "two"]))
    assert target.read_text() in ("one", "two")
    assert os.listdir(tmp_path) == ["file"]


def test_the_next_writer_removes_only_files_of_dead_processes(tmp_path):
    """Temporary files of running processes, of other hosts and with other names stay."""
    target = tmp_path / "file"
    dead = multiprocessing.get_context("spawn").Process(target=leave, args=(target,))
    dead.start()
    dead.join()
    (left,) = os.listdir(tmp_path)
    others = {f".file.{socket.gethostname()}-{os.getppid()}-1.part", ".file.elsewhere-1-1.part", f".x{left}"}
    for name in others:
        (tmp_path / name).write_text("half")
    with whole_file(target) as aside:
        aside.write_text("whole")
    assert set(os.listdir(tmp_path)) == {"file", *others}


def test_of_two_folders_the_first_is_kept(tmp_path):
    """A folder made meanwhile is kept without an error; a folder that existed before is an error."""
    target = tmp_path / "a.zarr"
    for ours, error in (("second", None), ("third", OSError)):
        with pytest.raises(error) if error else contextlib.nullcontext(), whole_file(target) as aside:
            aside.mkdir()
            (aside / "made by").write_text(ours)
            if not target.exists():
                target.mkdir()
                (target / "made by").write_text("first")
        assert (target / "made by").read_text() == "first"
        assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_line_that_was_cut_off_is_ignored(tmp_path):
    """A number that a full disk cut off is not read as another number and does not join the next one."""
    log = DoneLog(tmp_path / "x.done")
    log.add(12)
    with open(log.path, "a") as handle:
        handle.write("7")
    assert log.read() == {12}
    log.add(3)
    log.add(45)
    assert log.read() == {12, 3, 45}
    log.path.write_bytes("²\n\xff\n-1\n".encode("latin-1") + b"9" * 5000 + b"\n6\n")
    assert log.read() == {6}


def test_nothing_is_written_through_a_link(tmp_path):
    """A file of a job that is a link out of its folder is not written."""
    job = Workspace(tmp_path / "a.outcrop")
    job.path.mkdir()
    (job / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside the job"):
        job.log("index")
    assert not (tmp_path / "elsewhere").exists()


def test_damage_is_one_line():
    """Any error of a decoder becomes one line with the remedy; the error of a full disk is raised unchanged."""
    for error in (RuntimeError("bad\nframe"), KeyError("shape"), OSError("checksum")):
        with pytest.raises(ValueError, match=r"x.zarr is damaged \(.*\); label again"), damage("x.zarr", "label again"):
            raise error
    with pytest.raises(OSError, match="No space"), damage("x.zarr", "label again"):
        raise OSError(errno.ENOSPC, "No space left")


def test_fingerprint_sees_content_size_and_time(tmp_path):
    """Same bytes and time give the same fingerprint; one changed byte of a small file gives another."""
    a = tmp_path / "a"
    a.write_bytes(bytes(range(256)) * 40)
    before = fingerprint(a)
    assert fingerprint(a) == before
    stamp = a.stat()
    data = bytearray(a.read_bytes())
    data[5000] ^= 1
    a.write_bytes(bytes(data))
    os.utime(a, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = fingerprint(a)
    assert after["size"] == before["size"]
    assert after["sha256"] != before["sha256"]


def test_fingerprint_of_a_folder(tmp_path):
    """A Zarr folder is identified by its files' names, sizes and contents."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0").write_bytes(b"one")
    first = fingerprint(tmp_path)
    (tmp_path / "c" / "1").write_bytes(b"")
    assert fingerprint(tmp_path)["sha256"] != first["sha256"]
