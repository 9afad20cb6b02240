"""The experiment that trains one net on several kinds of labels: what each net may see, and how it is scored."""

import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from outcrop import experiments
from outcrop.datasets import CLASSES
from outcrop.experiments import training
from outcrop.experiments.expert import opened

pytest.importorskip("monai", reason="needs monai")
real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the real data, OUTCROP_DATA")


def test_codes_without_a_label_become_zero_and_the_others_follow_their_names():
    """0 and 255 are no class; any order of the classes gives the same codes."""
    names = ["other", "salt dome", "fault"]
    codes = training.coded(np.array([[0, 1, 2, 3, 255]]), names)
    assert codes.tolist() == [[0, *(CLASSES.index(name) + 1 for name in names), 0]]


@pytest.mark.parametrize("n", [3, 10, 25])
def test_every_net_sees_the_same_number_of_patches(n):
    """Patches are drawn without replacement where there are more, and used equally often where there are fewer."""
    examples = training.Examples(np.arange(n), np.arange(n) + 100)
    images, masks, weights = training.equal_number(examples, 10, seed=1)
    assert len(images) == 10 and weights is None and (masks == images + 100).all()
    times = np.bincount(images, minlength=n)
    assert times.max() - times.min() <= 1


def test_patches_of_labels_lie_where_the_patches_of_the_section_do():
    """Cut patches of a volume that is its own label volume hold the codes of their amplitudes; empty ones are gone."""
    codes = np.random.default_rng(0).integers(1, 5, (2, 120, 110)).astype(np.uint8)
    codes[1] = 255
    coords = {"inline": [1, 2], "crossline": np.arange(120), "time": 4.0 * np.arange(110)}
    volume = xr.DataArray(codes / np.float32(255), coords, attrs={"scaled": True})
    labels = xr.Dataset({"label": volume.copy(data=codes), "confidence": volume.copy(data=codes)})
    found = training.cut(volume, labels.assign_attrs(classes=CLASSES), step=7)
    np.testing.assert_array_equal(np.round(255 * found.images), found.masks)
    np.testing.assert_array_equal(found.weights, found.masks / np.float32(255))
    assert len(found.images) == 4 * 3  # those of the first line alone


def test_shares_are_of_the_expert_trained_net_on_the_same_line():
    """The expert's share is one on every line, and the seeds are averaged before shares are taken."""
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
def test_no_net_sees_what_lies_near_its_line(line):
    """Of the paper's patches none within ten lines is left; the expert's patches are those of the other line."""
    with opened(None, quick=False) as yard:
        near = np.abs(yard.dataset["inline"].values.astype(int) - line) <= 10
        from_authors = training.authors_labels(yard, line, 0, None)
        yard.grid.step = (49, 49)
        from_expert = training.expert_labels(yard, line, 0, None)
        truth = yard.truth.sel(inline=640 - line)
    assert near.any()
    np.testing.assert_array_equal(from_authors.images, yard.dataset["image"].values[~near])
    first, labelled = from_expert.masks[0], truth.isel(time=slice(104, 203), crossline=slice(0, 99))
    np.testing.assert_array_equal(first, training.coded(labelled.values, truth.attrs["classes"]).T)


@real_data
def test_a_job_on_the_other_sections_never_reads_the_scored_line():
    """With the scored line replaced by noise the patches labelled from exemplars stay the same."""
    with opened(None, quick=True) as yard:
        plain = training.our_labels_from_exemplars(yard, 310, 0, None)
    with opened(None, quick=True) as yard:
        noise = np.random.default_rng(0).random(yard.clean.sel(inline=310).shape)
        yard.clean = yard.clean.copy()
        yard.clean.loc[{"inline": 310}] = noise
        blind = training.our_labels_from_exemplars(yard, 310, 0, None)
    for a, b in zip(plain, blind, strict=True):
        np.testing.assert_array_equal(a, b)


@real_data
def test_a_quick_run_scores_every_kind_of_labels_on_both_lines(tmp_path):
    """One row per kind of labels and line, and one for both lines together; table and figure are written."""
    result, deviations = experiments.run("training", None, tmp_path, quick=True)
    kinds = [(name, line) for name in training.LABELS for line in (310, 330, "all")]
    assert list(zip(result.table["labels"], result.table["line"], strict=True)) == kinds
    assert result.table[["MIU", "PA", "coverage"]].ge(0).all(axis=None) and result.remark.endswith(".")
    assert {path.suffix for path in tmp_path.glob("training.*")} >= {".csv", ".png", ".svg"} and not deviations
