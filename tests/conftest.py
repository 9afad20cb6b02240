"""Fixtures for several test files."""

import sys

import pytest

import outcrop as oc
from outcrop.cli.program import main


@pytest.fixture
def outcrop(monkeypatch, capsys):
    """Return a function that runs a command in this process: (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["outcrop", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return the path of a small synthetic survey."""
    path = tmp_path_factory.mktemp("survey") / "v.sgy"
    oc.datasets.write_synthetic(path, (8, 110, 96), seed=3)
    return path
