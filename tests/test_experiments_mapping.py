"""Experiments on label mapping: laws on small data, and quick runs on the real patches."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from outcrop import datasets, experiments
from outcrop.experiments import claims, comparison, evolution, expert, references, robustness
from outcrop.experiments.f3 import eye_exemplars

real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the real data, OUTCROP_DATA")
CLASSES = np.repeat(["chaotic", "other", "fault"], 20)


@pytest.fixture(scope="module")
def stripes():
    """Return small patches with stripes, whose direction is their class."""
    rng = np.random.default_rng(0)
    row, column = np.indices((12, 12))
    waves = {"chaotic": row + column, "other": row, "fault": column}
    shifts = rng.uniform(0, 6, len(CLASSES))
    return np.array([0.5 + 0.4 * np.sin(waves[c] + s) for c, s in zip(CLASSES, shifts, strict=True)], np.float32)


def test_a_share_of_every_class_is_replaced_by_other_classes():
    """The requested share of each class is replaced by patches of other classes."""
    source = robustness.swap(CLASSES, 0.25, seed=3)
    replaced = source != np.arange(len(CLASSES))
    assert [int(replaced[name == CLASSES].sum()) for name in ("chaotic", "other", "fault")] == [5, 5, 5]
    assert (CLASSES[source] != CLASSES)[replaced].all()


def test_a_larger_share_contains_the_replacements_of_a_smaller_one():
    """With the same seed, a larger share adds replacements and changes none."""
    few, many = (robustness.swap(CLASSES, share, seed=1) for share in (0.1, 0.2))
    replaced = few != np.arange(len(CLASSES))
    assert (many[replaced] == few[replaced]).all()


def test_relative_performance_is_one_without_wrong_labels(stripes):
    """The first point of every curve compares the base run with itself."""
    found = robustness.curves(stripes, CLASSES, seeds=2, shares=(0.0, 0.2), atoms_per_class=3, iterations=5)
    performance = np.array(found["performance"])
    assert performance.shape == (2, 2) and (performance[:, 0] == 1).all() and (performance[:, 1] < 1).all()
    assert len(found["another_seed"]) == 1


def test_replaced_patches_and_unsure_pixels_do_not_count():
    """Only labelled pixels of the base run on kept patches are compared."""
    base = np.array([[[1, 0]], [[2, 2]]])
    assert robustness.relative_performance(np.array([[[1, 3]], [[1, 1]]]), base, np.array([True, False])) == 1


def test_curves_in_the_file_are_not_computed_again(stripes, tmp_path):
    """A file with the same sizes is read; with other sizes the curves are computed."""
    path, sizes = tmp_path / "robustness.json", {"seeds": 1, "shares": (0.0, 0.2), "iterations": 2}
    first = robustness.measure(stripes, CLASSES, path, sweep=[(3, 0.4)], **sizes)
    marked = first | {"curves": {"k 3, sparsity 0.4": {"performance": [[1, 7]], "another_seed": []}}}
    path.write_text(json.dumps(marked))
    assert robustness.measure(stripes, CLASSES, path, sweep=[(3, 0.4)], **sizes) == marked
    more = robustness.measure(stripes, CLASSES, path, sweep=[(3, 0.4)], **sizes | {"iterations": 3})
    assert more["curves"]["k 3, sparsity 0.4"]["performance"][0][1] <= 1


def test_the_papers_curves_are_complete():
    """Each curve of the paper has 26 points, begins at 1, and ends at the value of the paper's source."""
    ends = {"k": [0.7790, 0.8009, 0.8587, 0.9049], "sparsity": [0.8196, 0.8289, 0.8415, 0.8674, 0.9138]}
    for axis, sweep in robustness.SWEEPS.items():
        printed = [robustness.printed_curve(axis, pair[axis == "sparsity"]) for pair in sweep]
        assert all(len(curve) == 26 and curve[0] == 1 for curve in printed)
        assert [curve[-1] for curve in printed] == ends[axis]


def test_shares_of_labels_sum_to_one():
    """Every pixel of a class is labelled as its class, other, foreign or uncertain."""
    labels = np.random.default_rng(0).integers(0, 4, (60, 9, 9))
    found = evolution.shares(labels, CLASSES, ["chaotic", "other", "fault"])
    np.testing.assert_allclose(found[["its class", "other", "foreign", "uncertain"]].sum(axis=1), 1)


def test_a_band_of_wrong_labels_differs_from_evenly_spread_ones():
    """Wrong labels in the middle third only give 3, evenly spread ones 1."""
    even, middle = np.full((1, 9, 9), 3), np.full((1, 9, 9), 1)
    middle[:, 3:6] = 3
    names = ["chaotic", "other", "fault"]
    assert comparison.bands(even, ["chaotic"], names) == [1]
    assert comparison.bands(middle, ["chaotic"], names) == [3]


def test_a_claim_without_a_number_is_not_tested():
    """A claim whose number is NaN is neither held nor refuted."""
    assert claims.verdict("c", False, np.nan, "")["held"] == "not tested"
    assert claims.verdict("c", True, 0.2, "")["held"] == "yes"


@real_data
def test_reference_scores_equal_those_of_independent_prototypes():
    """Labels without a mapper have the scores of METHOD section 13."""
    sections, truth = datasets.f3_sections()
    survey = SimpleNamespace(
        quick=True,
        lines=[310, 330],
        dataset=datasets.seg2017_patches(),
        sections=sections,
        truth=truth.sel(inline=[310, 330]),
    )
    found = references.references(survey)
    found = found[found["inline"] == "all"].set_index("mapper")[["PA", "MIU"]].round(3)
    assert found.loc["authors' labels, patches on the expert's lines"].tolist() == [0.536, 0.267]
    assert found.loc["painted whole, patches on the expert's lines"].tolist() == [0.549, 0.340]
    assert found.loc["authors' labels, patches within 5 lines"]["MIU"] == 0.282
    assert found.loc["painted whole, patches within 5 lines"]["MIU"] == 0.431
    assert found.loc["all other"].tolist() == [0.782, 0.195]
    assert found.loc["expert labels of the nearest line"]["MIU"] == 0.755
    assert 0.34 <= found.loc["majority class per row of the nearest line"]["MIU"] <= 0.38


@real_data
def test_rows_are_plain_json():
    """Every mapper, supervision and line, and all lines together, have a row with every score in plain JSON types."""
    done = []
    rows = expert.rows(
        None, mappings=["paper"], seeds=2, quick=True, progress=lambda what, count, total: done.append(count)
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    lines = [*datasets.f3_sections()[1]["inline"].values.tolist(), "all"]
    assert [(row["supervision"], row["inline"]) for row in rows] == [
        (kind, line) for kind in ("patches", "exemplars") for line in lines
    ]
    for row in rows:
        scores = {"PA", "MA", "MIU", "FWIU", "coverage", "calibration_error", "MIU_sd"}
        assert set(row) == {"mapper", "supervision", "inline", "IU", "seconds", *scores}
        assert all(0 <= row[key] <= 1 for key in scores)
        np.testing.assert_allclose(row["MIU"], np.mean(list(row["IU"].values())))
    assert done == [1, 2, 1, 2, 3, 4]


@real_data
def test_an_unknown_mapper_or_supervision_is_refused():
    """The message lists the known names."""
    with pytest.raises(ValueError, match=f"choose from {', '.join(expert.NAMES)}"):
        expert.rows(None, mappings=["magic"], quick=True)
    with pytest.raises(ValueError, match="choose from patches, exemplars"):
        expert.rows(None, supervision="dreams", quick=True)


@real_data
def test_training_patches_near_the_scored_line_are_left_out():
    """With stricter supervision no training patch lies within ten lines of the scored line."""
    with expert.opened(None, quick=False) as survey:
        (tasks,) = survey.patches(apart=10)
    inline = survey.dataset["inline"].values
    for task in tasks:
        assert len(task.patches) == (np.abs(inline - task.lines[0]) >= 10).sum() < 2000


@real_data
@pytest.mark.parametrize(
    "name",
    [
        "robustness-k",
        "robustness-sparsity",
        "convergence",
        "evolution",
        "comparison",
        "expert",
        "trust",
        "claims",
    ],
)
def test_quick_runs_write_table_and_figure(name, tmp_path):
    """Every experiment on label mapping runs with small sizes."""
    result, deviations = experiments.run(name, None, tmp_path, quick=True)
    assert len(result.table) and result.remark.endswith(".") and not deviations
    assert {path.suffix for path in tmp_path.glob(f"{name}.*")} >= {".csv", ".png", ".svg"}


def test_draws_give_their_mean_spread_and_worst():
    """For each mapper, the worst draw has the lowest mean IU."""
    tables = [
        pd.DataFrame({"mapper": ["a", "b"], "supervision": "draw", "inline": "all", "MIU": miu, "PA": [0.5, 0.6]})
        for miu in ([0.2, 0.5], [0.4, 0.3])
    ]
    mean, worst = expert.draws(tables)
    assert mean["MIU"].round(6).tolist() == [0.3, 0.4] and mean["MIU_sd"].round(3).tolist() == [0.141, 0.141]
    assert worst["mapper"].tolist() == ["a", "b"] and worst["MIU"].tolist() == [0.2, 0.3]


@real_data
def test_drawn_exemplars_show_their_class():
    """At least a fifth of every random exemplar is of its class by the expert, and it lies on the requested line."""
    with expert.opened(None, quick=True) as survey:
        line = survey.lines[0]
        places = survey.drawn(line, eye_exemplars(310), seed=1)
        truth, names = survey.truth.sel(inline=line), survey.truth.attrs["classes"]
    for name, of_class in places.items():
        assert len(of_class) == (2 if name == "other" else 1)
        for inline, crossline, t in of_class:
            window = truth.sel(crossline=slice(crossline - 49, crossline + 49), time=slice(t - 196, t + 196))
            assert inline == line and window.shape == (99, 99)
            assert (window.values == names.index(name) + 1).mean() >= 0.2
