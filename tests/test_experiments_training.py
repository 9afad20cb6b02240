"""The experiment that trains one net on several kinds of labels: training data of each net, and scores."""

import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from benchmarks import training as training_files
from outcrop import PatchGrid, __version__, experiments
from outcrop.datasets.section import CLASSES
from outcrop.experiments import training, training_nets
from outcrop.experiments.expert import opened

pytest.importorskip("monai", reason="needs monai")
real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the real data, OUTCROP_DATA")


def test_codes_follow_class_names():
    """Codes 0 and 255 become 0; other codes become the position of their name in `CLASSES`, in any order of names."""
    names = ["other", "salt dome", "fault"]
    codes = training.coded(np.array([[0, 1, 2, 3, 255]]), names)
    assert codes.tolist() == [[0, *(CLASSES.index(name) + 1 for name in names), 0]]


@pytest.mark.parametrize("n", [3, 10, 25])
def test_every_net_sees_the_same_number_of_patches(n):
    """Patches are drawn without replacement from more than needed, and used equally often if fewer."""
    starts = training_nets.equal_number(np.arange(n), 10, seed=1)
    times = np.bincount(starts, minlength=n)
    assert len(starts) == 10 and times.max() - times.min() <= 1


def test_windows_are_the_patches_of_a_grid():
    """Windows of a volume at the places of a grid equal the patches that the grid extracts."""
    values = np.random.default_rng(0).random((2, 120, 110)).astype("f4")
    coords = {"inline": [1, 2], "crossline": np.arange(120), "time": 4.0 * np.arange(110)}
    volume = xr.DataArray(values, coords, attrs={"scaled": True})
    grid, rows = PatchGrid(volume, size=99, step=7), [0, 5, 17]
    found = training_nets.windows(values, grid.places(np.array(rows))[:, 1:])
    np.testing.assert_array_equal(found, grid.extract(volume, rows))


def test_examples_are_read_as_written(tmp_path):
    """Examples read from their file equal the written ones, with and without weights."""
    rng = np.random.default_rng(0)
    sources = {name: rng.integers(0, 255, (2, 9, 9)).astype("u1") for name in ("patches", "sections")}
    plain = training_nets.Examples("patches", sources["patches"], None, np.zeros((3, 3), int))
    tasks = {("ours", 310, 0): plain._replace(weights=sources["sections"]), ("expert", 330, 1): plain}
    training_files.write_examples(tmp_path / "examples.npz", sources, [310, 330], tasks, CLASSES)
    again = training_files.read_examples(tmp_path / "examples.npz")
    assert again[1] == [310, 330] and again[3] == CLASSES and again[2].keys() == tasks.keys()
    assert all((again[0][name] == values).all() for name, values in sources.items())
    for key, examples in tasks.items():
        for a, b in zip(again[2][key], examples, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nets_of_another_size_or_version_are_not_read(tmp_path):
    """Nets are read only if their settings equal the requested ones."""
    codes, made = np.eye(4, dtype=np.uint8), {"version": "1", "patches": 10, "epochs": 2}
    path = tmp_path / "training-nets.npz"
    assert training_nets.read_nets(path, made) == {}
    training_files.write_nets(path, {("ours", 310, 0): codes}, made | {"examples": "digest"})
    assert training_nets.read_nets(path, made)["ours", 310, 0].tolist() == codes.tolist()
    assert training_nets.read_nets(path, made | {"epochs": 3}) == {}


@real_data
def test_nets_trained_elsewhere_are_scored_without_training(tmp_path):
    """If the folder has labels of all nets, here the expert's labels, the table scores them."""
    with opened(None, quick=True) as survey:
        truth = survey.truth.sel(time=survey.clean["time"])
        codes = {line: training.coded(truth.sel(inline=line).values, truth.attrs["classes"]) for line in (310, 330)}
    made = {"version": __version__, "patches": training_nets.PATCHES, "epochs": training_nets.EPOCHS}
    found = {(name, line, 0): codes[line] for name in training.LABELS for line in codes}
    training_files.write_nets(tmp_path / "training-nets.npz", found, made)
    result = training.run(None, folder=tmp_path)
    assert (result.table[["MIU", "PA", "share of expert"]] == 1).all(axis=None)


def test_shares_refer_to_the_expert_trained_net_on_the_same_line():
    """The expert's share is one on every line, and the seeds are averaged before shares are computed."""
    rows = [
        {"labels": name, "seed": seed, "line": line, "MIU": miu + 0.1 * seed, "PA": 0.5, "IU fault": miu, "seconds": 1}
        for name, miu in (("ours", 0.3), ("expert", 0.5))
        for seed in (0, 1)
        for line in (310, "all")
    ]
    rows = [row | {"MA": 0.5, "FWIU": 0.5, "coverage": 1.0} for row in rows]
    table = training.summary(pd.DataFrame(rows)).set_index(["labels", "line"])
    assert table.loc["expert", "share of expert"].tolist() == [1, 1]
    np.testing.assert_allclose(table.loc[("ours", 310), ["MIU", "share of expert"]].astype(float), [0.35, 0.35 / 0.55])
    np.testing.assert_allclose(table["MIU_sd"], 0.1 / np.sqrt(2))


@real_data
@pytest.mark.parametrize("line", [310, 330])
def test_no_net_sees_patches_near_its_line(line):
    """No patch of the paper within ten lines is used; the expert's patches are on the other line."""
    with opened(None, quick=False) as survey:
        near = np.flatnonzero(np.abs(survey.dataset["inline"].values.astype(int) - line) <= 10)
        from_authors = training.authors_labels(survey, line, 0, None)
        from_expert = training.expert_labels(survey, line, 0, None)
    assert len(near) and len(from_authors.starts) == 2000 - len(near)
    assert not np.isin(near, from_authors.starts[:, 0]).any() and not from_authors.codes[near].any()
    published = survey.dataset["published"].values[from_authors.starts[:, 0]]
    np.testing.assert_array_equal(training_nets.windows(from_authors.codes, from_authors.starts), published)
    other = survey.clean["inline"].values.tolist().index(640 - line)
    assert (from_expert.starts[:, 0] == other).all()
    truth = survey.truth.sel(inline=640 - line, time=survey.clean["time"])
    np.testing.assert_array_equal(from_expert.codes[other], training.coded(truth.values, truth.attrs["classes"]))


@real_data
def test_a_job_on_the_other_sections_never_reads_the_scored_line():
    """Replacing the scored line by noise does not change the patches labelled from exemplars."""
    with opened(None, quick=True) as survey:
        plain = training.our_labels_from_exemplars(survey, 310, 0, None)
        scored = survey.clean["inline"].values.tolist().index(310)
    with opened(None, quick=True) as survey:
        survey.clean = survey.clean.copy()
        survey.clean.values[scored] = np.random.default_rng(0).random(survey.clean.shape[1:])
        blind = training.our_labels_from_exemplars(survey, 310, 0, None)
    assert scored not in plain.starts[:, 0] and not plain.codes[scored].any()
    for a, b in zip(plain, blind, strict=True):
        np.testing.assert_array_equal(a, b)


@real_data
def test_a_quick_run_scores_every_kind_of_labels_on_both_lines(tmp_path):
    """Every kind of labels has a row per line and one for both lines together; table and figure are written."""
    result, deviations = experiments.run("training", None, tmp_path, quick=True)
    kinds = [(name, line) for name in training.LABELS for line in (310, 330, "all")]
    assert list(zip(result.table["labels"], result.table["line"], strict=True)) == kinds
    assert result.table[["MIU", "PA", "coverage"]].ge(0).all(axis=None) and result.remark.endswith(".")
    assert {path.suffix for path in tmp_path.glob("training.*")} >= {".csv", ".png", ".svg"} and not deviations
