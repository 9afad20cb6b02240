"""Scores equal their definitions, and known cases have known scores."""

import numpy as np
import pytest
import reference
import torch
import xarray as xr

from outcrop.evaluate import retrieval
from outcrop.evaluate.calibration import calibration_error, risk_coverage
from outcrop.evaluate.pixels import pixel_scores
from outcrop.evaluate.retrieval import cluster_scores, retrieval_scores
from outcrop.evaluate.zones import boundary_distance, zone_scores

CLASSES = np.repeat(["chaotic", "fault", "salt"], [7, 9, 12])


def similarities(levels=None, n=28):
    """Return random, asymmetric similarities; few levels give many ties."""
    S = np.random.default_rng(0).random((n, n))
    S = S if levels is None else np.round(S * levels) / levels
    np.fill_diagonal(S, 1)
    return S


def codes(shape, n=4, seed=0):
    """Return random label codes 0 .. n."""
    return np.random.default_rng(seed).integers(0, n + 1, shape)


@pytest.mark.parametrize("levels", [None, 4])
def test_retrieval_equals_the_slow_twin(levels, monkeypatch):
    """RA, MAP, AUC and P@M follow Appendix A, with ties and in blocks of rows that do not divide the matrix."""
    monkeypatch.setattr("outcrop.evaluate.retrieval._BLOCK", 5 * 28)
    S = similarities(levels)
    got = retrieval_scores(S, CLASSES)
    accuracy, average, auc, precision = reference.retrieval(S, CLASSES)
    assert [got["RA"], got["MAP"], got["AUC"]] == pytest.approx([accuracy, average, auc], abs=1e-12)
    np.testing.assert_allclose(got["precision"], precision, atol=1e-12)


def test_retrieval_by_class_averages_to_the_whole():
    """Classes weighted by their size give the scores over all images."""
    got = retrieval_scores(similarities(), CLASSES)
    weights = {"chaotic": 7 / 28, "fault": 9 / 28, "salt": 12 / 28}
    assert sum(weights[c] * got["RA_by_class"][c] for c in weights) == pytest.approx(got["RA"])
    np.testing.assert_allclose(sum(weights[c] * got["precision_by_class"][c] for c in weights), got["precision"])


def test_perfect_and_reversed_similarities():
    """If all pairs of one class are more similar, every score is 1; with reversed similarities, AUC is 0."""
    S = (CLASSES[:, None] == CLASSES).astype(float)
    got = retrieval_scores(S, CLASSES)
    assert got["RA"] == got["MAP"] == got["AUC"] == got["AUC_row"] == 1
    assert retrieval_scores(-S, CLASSES)["AUC"] == 0


def test_the_query_never_ranks_itself():
    """The diagonal affects no score except that with row normalisation."""
    S = similarities()
    T = S.copy()
    np.fill_diagonal(T, -5)
    for key in ("RA", "MAP", "AUC"):
        assert retrieval_scores(S, CLASSES)[key] == retrieval_scores(T, CLASSES)[key]


def test_row_normalisation_divides_distances_by_their_maximum():
    """AUC_row is the AUC of 1 - D / rowmax with D = 1 - S, and equals AUC for a row-normalised matrix."""
    S = similarities()
    rows = 1 - (1 - S) / (1 - S).max(1, keepdims=True)
    assert retrieval_scores(S, CLASSES)["AUC_row"] == pytest.approx(retrieval_scores(rows, CLASSES)["AUC"], abs=1e-12)
    got = retrieval_scores(rows, CLASSES)
    assert got["AUC_row"] == pytest.approx(got["AUC"], abs=1e-12)


def test_roc_encloses_the_auc():
    """The curve rises from (0, 0) to (1, 1) and its trapezoids have the area AUC; a long one is thinned."""
    for S, names in ((similarities(), CLASSES), (similarities(n=120), np.repeat(["a", "b"], 60))):
        got = retrieval_scores(S, names)
        false, true = got["roc"]
        assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
        assert np.all(np.diff(false) >= 0) and np.all(np.diff(true) >= 0)
        assert np.trapezoid(true, false) == pytest.approx(got["AUC"], abs=2e-3)
    assert len(false) < 500 < S.size


def test_torch_and_float32_similarities():
    """A torch matrix has the same scores as a NumPy matrix."""
    S = similarities().astype("f4")
    assert retrieval_scores(torch.from_numpy(S), CLASSES)["AUC"] == retrieval_scores(S, CLASSES)["AUC"]


@pytest.mark.parametrize(
    ("S", "classes", "words"),
    [
        (np.ones((3, 4)), ["a", "a", "b"], "square"),
        (np.full((4, 4), np.nan), ["a", "a", "b", "b"], "NaN"),
        (np.ones((4, 4)), ["a"] * 4, "two classes"),
        (np.ones((3, 3)), ["a", "a", "b"], "single image"),
    ],
)
def test_retrieval_refuses(S, classes, words):
    """A matrix that cannot be scored gives an error that names the problem."""
    with pytest.raises(ValueError, match=words):
        retrieval_scores(S, classes)


@pytest.mark.parametrize("n", [60, 1200])
def test_embedding_reproduces_distances_in_the_plane(n):
    """Points of a plane are found up to a rigid motion, by either solver, with a fixed sign."""
    points = np.random.default_rng(1).normal(size=(n, 2)) * [3, 1]
    D = np.linalg.norm(points[:, None] - points, axis=-1)
    plane = retrieval._embed(D)
    np.testing.assert_allclose(np.linalg.norm(plane[:, None] - plane, axis=-1), D, atol=1e-6)
    assert np.all(plane[np.abs(plane).argmax(0), [0, 1]] > 0)


def test_separate_clusters_are_found():
    """Three distant groups have a Rand index of 1 for every seed; noise has lower and varying ones."""
    S = 0.9 * (CLASSES[:, None] == CLASSES) + 0.1 * (similarities() + similarities().T) / 2
    good, bad = cluster_scores(S, CLASSES, seeds=3), cluster_scores(similarities(), CLASSES, seeds=3)
    assert good["rand_index"] == 1 and good["rand_index_sd"] == 0 and good["embedding"].shape == (28, 2)
    assert bad["rand_index"] < 0.8 and len(bad["rand_indices"]) == 3
    assert bad["rand_index"] == cluster_scores(similarities(), CLASSES, seeds=3)["rand_index"]


@pytest.mark.parametrize("shape", [(50,), (9, 11), (3, 8, 9)])
def test_pixel_scores_equal_the_slow_twin(shape):
    """PA, MA, MIU, FWIU and coverage are equal, with uncertain labels and unknown truth."""
    labels, truth = codes(shape), codes(shape, seed=1)
    got = pixel_scores(labels, truth)
    want = reference.pixel_scores(labels, truth)
    assert [got[k] for k in ("PA", "MA", "MIU", "FWIU", "coverage")] == pytest.approx(want, abs=1e-12)
    assert got["confusion"].sum() == (truth > 0).sum()
    assert got["classes"] == [1, 2, 3, 4]


def test_means_run_over_classes_in_the_truth():
    """A class that occurs only in the labels makes its pixels wrong but has no score."""
    got = pixel_scores([[1, 1, 3, 2]], [[1, 1, 1, 2]], ["other", "fault", "salt dome"])
    assert got["IU"] == {"other": pytest.approx(2 / 3), "fault": 1}
    assert got["MIU"] == pytest.approx(5 / 6) and got["PA"] == 0.75


def test_names_match_classes_numbered_differently():
    """The same labels with two numberings score 1; names that only one side has count as wrong."""
    names = ["other", "chaotic", "fault"]
    truth = xr.DataArray(codes((5, 6), 3), dims=("time", "crossline"), attrs={"classes": names})
    turned = xr.DataArray(
        np.array([0, 3, 1, 2])[truth], dims=truth.dims, attrs={"classes": ["chaotic", "fault", "other"]}
    )
    got = pixel_scores(turned, truth)
    assert got["PA"] == got["MIU"] == 1 and list(got["IU"]) == names
    sparse = turned.assign_attrs(classes={1: "chaotic", 2: "gas", 3: "other"})
    got = pixel_scores(sparse, truth)
    assert got["IU"] == {"other": 1, "chaotic": 1, "fault": 0} and got["classes"] == [*names, "gas"]


def test_truth_on_some_lines_only():
    """Labels of a volume are scored on the samples of the truth, for any order of axes."""
    axes = {"inline": [310, 320, 330], "crossline": np.arange(7), "time": 4.0 * np.arange(5)}
    labels = xr.DataArray(codes((3, 7, 5)), dims=tuple(axes), coords=axes)
    truth = xr.DataArray(codes((3, 7, 5), seed=1), dims=tuple(axes), coords=axes)
    part = truth.sel(inline=[330], time=slice(8, None))
    want = pixel_scores(labels.values[2:, :, 2:], truth.values[2:, :, 2:])
    assert pixel_scores(labels, part.transpose("time", "crossline", "inline"))["MIU"] == pytest.approx(want["MIU"])
    with pytest.raises(ValueError, match="share no inline"):
        pixel_scores(labels, truth.assign_coords(inline=[1, 2, 3]))


def test_band_around_boundaries_is_left_out():
    """Labels that are wrong only near boundaries are perfect outside the band, which follows its definition."""
    truth = np.kron(codes((3, 3)), np.ones((14, 15), int))
    near = reference.near_boundary(truth, 5)
    labels = np.where(near, 0, truth)
    assert pixel_scores(labels, truth)["PA"] < 1
    got = pixel_scores(labels, truth, band=5)
    assert got["MIU"] == 1 and got["confusion"].sum() == ((truth > 0) & ~near).sum()


@pytest.mark.parametrize(
    ("labels", "truth", "classes", "words"),
    [
        ([[1, 2]], [[1], [2]], None, "shape"),
        ([[1, 2]], [[0, 0]], None, "every code is 0"),
        ([[1, 3]], [[1, 2]], ["a", "b"], "code 3"),
        ([[1, -2]], [[1, 2]], ["a", "b"], "code -2"),
        ([[1, 2]], [[1, np.nan]], ["a", "b"], "code nan in the truth"),
    ],
)
def test_pixel_scores_refuse(labels, truth, classes, words):
    """Shapes that differ, an empty truth and codes without a name are refused."""
    with pytest.raises(ValueError, match=words):
        pixel_scores(labels, truth, classes)


def test_boundary_distance_equals_the_slow_twin():
    """Distances of two blobs agree with all pairs of their boundary pixels."""
    r, c = np.mgrid[:40, :50]
    found, true = np.hypot(r - 20, c - 24) < 12, np.hypot(r - 17, c - 28) < 9
    apart = reference.boundary_distances(found, true)
    got = boundary_distance(1 + found, 1 + true, 2)
    assert got["pixels"] == pytest.approx(tuple(np.quantile(apart, [0.5, 0.95])))


def test_boundary_distance_has_units_and_directions():
    """A flat top is wrong by 8 ms and 0 m, a flank by 75 m and 0 ms; unknown truth makes no boundary."""
    top, deeper, flank, further = np.ones((4, 30, 30), int)
    top[10:], deeper[12:], flank[:, :10], further[:, :13] = 2, 2, 2, 2
    got = boundary_distance(deeper, top, "salt", classes=["other", "salt"], spacing=(4, 25))
    assert got == {"pixels": (2, 2), "vertical": (8, 8), "horizontal": (0, 0), "sections": 1}
    top[:, 25:] = 0
    assert boundary_distance(deeper, top, 2)["vertical"] == (2, 2)
    got = boundary_distance(further, flank, 2, spacing=(4, 25))
    assert got["horizontal"] == (75, 75) and got["vertical"] == (0, 0)


def test_boundary_distance_without_a_geobody():
    """Sections without both boundaries are left out; if all are, the distances are NaN."""
    empty, body = np.ones((2, 9, 9), int)
    body[3:] = 2
    got = boundary_distance(np.stack([empty, body]), np.stack([body, body]), 2)
    assert got["pixels"] == (0, 0) and got["sections"] == 1
    assert np.isnan(boundary_distance(empty, body, 2)["pixels"]).all()
    with pytest.raises(ValueError, match="No class is called 'gas'"):
        boundary_distance(empty, body, "gas")


def test_zones_are_counted_section_by_section():
    """A half-covered zone is hit, a touched one is not, and labels elsewhere are false alarms."""
    truth, labels = np.ones((2, 2, 8, 20), int)
    truth[0, 1:3, 1:5] = truth[0, 5:7, 10:18] = truth[1, :, 3] = 2
    labels[0, 1:3, 3:5] = labels[0, 6, 17] = labels[1, 2:4, 10:12] = 2
    assert zone_scores(labels, truth, 2) == {"zones": 3, "hits": 1, "alarms": 3, "false_alarms": 1}
    assert zone_scores(labels, truth, 2, overlap=0.01)["hits"] == 2
    assert zone_scores(truth, truth, 2) == {"zones": 3, "hits": 3, "alarms": 3, "false_alarms": 0}


def test_calibration_error_of_known_confidences():
    """Calibrated confidence has no error, overconfidence has its gap, and a confidence of 1 has a bin."""
    confidence, correct = np.repeat([0.25, 0.75], 40), np.concatenate([np.arange(40) < 10, np.arange(40) < 30])
    assert calibration_error(confidence, correct) == pytest.approx(0)
    assert calibration_error(np.ones(10), np.arange(10) < 5) == pytest.approx(0.5)
    assert calibration_error(np.float32([0.02, 0.05]), [True, False]) == pytest.approx(0.5 - 0.035)
    with pytest.raises(ValueError, match="divide uint8"):
        calibration_error([3, 255], [True, False])


def test_risk_is_zero_for_the_most_confident_labels():
    """If all correct labels are more confident, risk is 0 up to their share and ends at the error rate."""
    confidence = np.linspace(1, 0, 5000)
    coverage, risk = risk_coverage(confidence, np.arange(5000) < 4000)
    assert len(coverage) <= 200 and coverage[-1] == 1 and risk[-1] == pytest.approx(0.2)
    assert np.all(risk[coverage <= 0.8] == 0) and np.all(np.diff(risk) >= 0)


@pytest.mark.parametrize("code", [255, -1])
def test_uncertain_pixels_count_as_not_labelled(code):
    """Scores equal those with code 0, in labels and truth, with and without names."""
    labels, truth = np.array([[1, 0, 2, 2, 1]]), np.array([[1, 1, 0, 2, 2]])
    for classes in (None, ["other", "fault"]):
        plain = pixel_scores(labels, truth, classes)
        coded = pixel_scores(np.where(labels == 0, code, labels), np.where(truth == 0, code, truth), classes)
        assert str(plain) == str(coded)
    assert zone_scores(np.where(labels == 0, code, labels), truth, 2) == zone_scores(labels, truth, 2)
