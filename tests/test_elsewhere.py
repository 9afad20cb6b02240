"""Outcrop works where POSIX is missing and where no other computer can be reached; see tests/blocked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import outcrop as oc

BLOCKED = Path(__file__).parent / "blocked"
SHAPE = 8, 200, 256  # small, so that the demo takes seconds
DEMO = f"""
import sys, urllib.request
import outcrop as oc
from outcrop import demo
scores, *_ = demo.run(sys.argv[1], shape={SHAPE}, progress=lambda *_: None)
assert scores["MIU"] > 0.5, scores
job = oc.Job(sys.argv[1] + "/synthetic.outcrop")
for name in ("labels.sgy", "labels.zarr", "patches"):
    print(job.export(sys.argv[1] + "/again " + name))
page = oc.explore(job.path)
print(urllib.request.urlopen(page.address).status)
page.close()
"""
MAPPED = "import mmap, os; f = open('c', 'rb'); m = mmap.mmap(f.fileno(), 0, access=1); f.close(); os.remove('c')"


def run(blocked, *words, cwd=None, **environment):
    """Run Python in a process in which POSIX or the network is blocked."""
    path = os.pathsep.join([str(BLOCKED), *sys.path])
    variables = os.environ | {"PYTHONPATH": path, "OUTCROP_BLOCKED": blocked, "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=variables, cwd=cwd)


def test_the_demo_the_page_and_exports_need_neither(tmp_path):
    """The demo, its report, three exports and the page work in a folder with spaces and umlauts."""
    pytest.importorskip("panel")
    folder = tmp_path / "Übung mit Größe"
    done = run("posix,network", "-c", DEMO, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "200"
    assert (folder / "report.html").stat().st_size > 10_000
    assert oc.open_volume(folder / "again labels.zarr").shape == SHAPE


@pytest.mark.parametrize(
    ("blocked", "code", "error"),
    [
        ("posix", "import fcntl", "ModuleNotFoundError"),
        ("posix", "import resource", "ModuleNotFoundError"),
        ("posix", "import os; os.sysconf('SC_PAGE_SIZE')", "AttributeError"),
        ("posix", "import os; os.fork()", "AttributeError"),
        ("posix", "import os; f = open('a', 'w'); os.replace('a', 'b')", "PermissionError"),
        ("posix", MAPPED, "PermissionError"),
        ("posix", "open('12:30.txt', 'w')", "OSError"),
        ("posix", "import multiprocessing as m; assert m.get_start_method() == 'fork'", "AssertionError"),
        ("network", "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)", "PermissionError"),
        ("network", "import urllib.request; urllib.request.urlopen('http://example.org')", "PermissionError"),
    ],
)
def test_the_block_is_effective(blocked, code, error, tmp_path):
    """Blocked functions fail in the processes of the test above, and work in other processes."""
    (tmp_path / "c").write_text("content")
    done = run(blocked, "-c", code, cwd=tmp_path)
    assert done.returncode and error in done.stderr
    if blocked == "posix" and "fork()" not in code:
        assert run("", "-c", code, cwd=tmp_path).returncode == 0


def test_characters_outside_the_encoding_are_replaced(tmp_path):
    """Characters that the encoding of a pipe lacks, as on Windows, do not make a command fail."""
    source = tmp_path / "Łódź ▁.sgy"
    oc.datasets.write_synthetic(source, (4, 40, 50))
    done = run("posix", "-m", "outcrop", "info", source.name, cwd=tmp_path, PYTHONIOENCODING="cp1252")
    assert done.returncode == 0, done.stderr
