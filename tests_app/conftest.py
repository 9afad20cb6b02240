"""Fixtures: one browser for the tests of a file, and a small job."""

import pytest
from tab import chromium

import outcrop as oc
from outcrop import datasets


@pytest.fixture(scope="module")
def browser():
    """Return a headless Chromium."""
    with chromium() as one:
        yield one


@pytest.fixture
def job(tmp_path):
    """Return the path of a job with two classes."""
    datasets.write_synthetic(tmp_path / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(tmp_path / "job.outcrop", volume=tmp_path / "survey.sgy") as one:
        one.add_class("fault")
        one.add_class("other")
    return tmp_path / "job.outcrop"
