"""Every measure equals its formula and its golden value, and behaves as a similarity or a distance should."""

import os
import warnings

import numpy as np
import pytest
import reference
import torch

from outcrop import MEASURES, retrieval_scores, similarity
from outcrop.measures import curvelet_histogram, eigenvalues, pairs, registry, structural
from outcrop.measures.curvelet_svd import CurveletSVD
from outcrop.measures.discontinuity import discontinuity

DISTANCES = ["euclidean", "curvelet-histogram"]
GOLDEN = [  # METHOD section 9, to the printed digits; the values of seisim were computed with this package
    ("euclidean", {}, 42.9122092698),
    ("cw-ssim", {}, 0.3558146318),
    ("cw-ssim", {"orientations": 8}, 0.2902187804),
    ("stsim-1", {}, 0.7976680222),
    ("stsim-1", {"window": "local"}, 0.6138620954),
    ("stsim-2", {}, 0.7936535196),
    ("stsim-2", {"window": "local"}, 0.7163370697),
    ("seisim", {}, 0.3759390954),
    ("seisim", {"window": "local"}, 0.3297932859),
    ("curvelet-histogram", {}, 3108.2495216885),
    ("curvelet-histogram", {"standardize": False}, 2704.9357097685),
    ("curvelet-svd", {}, 0.596931838814),
]


def golden(shape=(99, 99)):
    """Return the two images of METHOD section 9."""
    r, c = np.mgrid[: shape[0], : shape[1]]
    a = 0.5 + 0.5 * np.sin(2 * np.pi * (0.07 * r + 0.02 * c))
    b = 0.5 + 0.25 * np.sin(2 * np.pi * (0.11 * r - 0.03 * c)) + 0.25 * np.cos(2 * np.pi * (0.05 * r + 0.00031 * c * c))
    return a, b


def patches(n, shape=(48, 50), dtype="float64"):
    """Return smooth random patches in [0, 1]."""
    noise = np.random.default_rng(0).normal(size=(n, shape[0] + 4, shape[1] + 4))
    smooth = sum(noise[:, i : i + shape[0], j : j + shape[1]] for i in range(5) for j in range(5))
    return ((smooth - smooth.min()) / np.ptp(smooth)).astype(dtype)


def value(name, x, y, **parameters):
    """Return the similarity or distance of one pair."""
    measure = MEASURES[name](**parameters)
    return float(measure.compare(measure.describe(x[None]), measure.describe(y[None]))[0, 0])


@pytest.mark.parametrize(("name", "parameters", "want"), GOLDEN)
def test_golden_values(name, parameters, want):
    """The measure of the two golden images has the recorded value to all printed digits."""
    decimals = len(str(want).split(".")[1])
    assert value(name, *golden(), **parameters) == pytest.approx(want, abs=1.01 * 10**-decimals)


@pytest.mark.parametrize("name", MEASURES)
def test_symmetric_and_perfect_with_itself(name):
    """Every measure is symmetric; a patch has distance 0 or similarity 1 to itself and no other is closer."""
    x = patches(5)
    measure = MEASURES[name]()
    values = measure.compare(measure.describe(x), measure.describe(x.copy()))
    np.testing.assert_allclose(values, values.T, atol=1e-10)
    if measure.distance:
        assert values.min() >= 0 and np.all(values.diagonal() == 0) and np.all(values + 9 * np.eye(5) > 0)
    else:
        np.testing.assert_allclose(values.diagonal(), 1, atol=1e-12)
        assert values.min() >= 0 and values.max() < 1 + 1e-12


@pytest.mark.parametrize("name", MEASURES)
def test_results_do_not_depend_on_blocks(name, monkeypatch):
    """One pair at a time, blocks of pairs and the mirrored half of a symmetric matrix give the same numbers."""
    x, y = patches(5), patches(5)[::-1][:2]
    measure = MEASURES[name]()
    whole = measure.compare(measure.describe(x), measure.describe(y))
    each = [[value(name, p, q) for q in y] for p in x]
    np.testing.assert_allclose(whole, each, rtol=1e-12)
    original = pairs.all_pairs
    for module in (curvelet_histogram, registry, structural):
        monkeypatch.setattr(module, "all_pairs", lambda f, a, b, side: original(f, a, b, side=2))
    described = measure.describe(x)
    np.testing.assert_allclose(measure.compare(described, described)[:, [4, 3]], whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MEASURES)
def test_torch_agrees_with_numpy(name, dtype):
    """NumPy and torch give the same numbers in the same precision; float32 may move single histogram counts."""
    x = patches(4, (64, 65), dtype)
    ours, theirs = similarity(x, x[:3], name), similarity(torch.from_numpy(x), torch.from_numpy(x[:3]), name)
    assert ours.dtype == dtype and theirs.dtype == getattr(torch, dtype) and theirs.shape == (4, 3)
    loose = 2e-2 if name == "curvelet-histogram" else 2e-5
    np.testing.assert_allclose(ours, theirs.numpy(), atol=loose if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("name", ["stsim-1", "stsim-2", "seisim"])
def test_torch_agrees_with_numpy_in_local_windows(name):
    """The same holds for local windows, where float32 must keep small variances."""
    x = patches(2, (36, 37))
    ours = similarity(x, x, name, window="local")
    np.testing.assert_allclose(
        similarity(torch.from_numpy(x), torch.from_numpy(x), name, window="local"), ours, atol=1e-10
    )
    np.testing.assert_allclose(similarity(x.astype("f4"), x.astype("f4"), name, window="local"), ours, atol=1e-4)


def test_euclidean_equals_the_norm():
    """The matrix product gives the plain distances, in float32 too, and exact zeros for copies."""
    x = patches(9)
    measure = MEASURES["euclidean"]()
    plain = np.linalg.norm((x[:, None] - x).reshape(9, 9, -1), axis=-1)
    np.testing.assert_allclose(measure.compare(measure.describe(x), measure.describe(x)), plain, atol=1e-11)
    near = x.astype("f4") + np.float32(1e-4)
    got = measure.compare(measure.describe(x.astype("f4")), measure.describe(near))
    np.testing.assert_allclose(got.diagonal(), 1e-4 * np.sqrt(48 * 50), rtol=1e-3)


@pytest.mark.parametrize(("shape", "levels"), [((48, 50), 3), ((65, 67), 4)])
def test_cw_ssim_equals_the_slow_twin(shape, levels):
    """Equal window by window with Gaussian weights; four levels are reduced to the maximum for the size."""
    x, y = patches(2, shape)
    assert value("cw-ssim", x, y) == pytest.approx(reference.cw_ssim(x, y, levels), abs=1e-12)


@pytest.mark.parametrize("window", ["global", "local"])
@pytest.mark.parametrize("name", ["stsim-1", "stsim-2"])
def test_stsim_equals_the_slow_twin(name, window):
    """Equal band by band and window by window, with the cross terms of STSIM-2; small bands are one window."""
    x, y = patches(2, (18, 21))
    want = reference.stsim(x, y, window, name == "stsim-2", levels=2, orientations=3)
    assert value(name, x, y, window=window, levels=2, orientations=3) == pytest.approx(want, abs=1e-11)


def test_seisim_is_the_geometric_mean_of_texture_and_geology():
    """SeiSIM squared is STSIM-1 times the agreement of the two discontinuity maps."""
    x, y = patches(2)
    geology = reference.band_agreement(reference.discontinuity(x), reference.discontinuity(y), 1e-6)
    assert value("seisim", x, y) ** 2 == pytest.approx(value("stsim-1", x, y) * geology, abs=1e-12)


def test_discontinuity_equals_the_slow_twin():
    """Semblance along the dip is equal pixel by pixel, at odd and even heights."""
    for shape in ((33, 40), (40, 33)):
        x = patches(2, shape)
        np.testing.assert_allclose(discontinuity(x)[1], reference.discontinuity(x[1]), atol=1e-10)


@pytest.mark.parametrize("degrees", [0, 45, -45, 85])
def test_plane_layers_are_continuous(degrees):
    """Plane layers show no discontinuity at 0, 45, -45 and 85 degrees; noise does."""
    r, c = np.mgrid[:99, :99]
    turn = np.radians(degrees)
    layers = np.sin(2 * np.pi / 12 * (r * np.cos(turn) + c * np.sin(turn)))
    noise = np.random.default_rng(0).normal(size=(99, 99))
    assert np.median(discontinuity(layers[None])) < 0.02
    assert np.median(discontinuity(noise[None])) > 0.5


@pytest.mark.parametrize("parameters", [{}, {"standardize": False}, {"finest": True}])
@pytest.mark.parametrize("shape", [(99, 99), (48, 50)])
def test_histogram_distance_equals_the_slow_twin(shape, parameters):
    """Equal array by array with the bins of each pair, compiled and vectorised; small patches use the finest scale."""
    x, y = patches(2, shape)
    want = reference.curvelet_histogram(x, y, **parameters)
    assert value("curvelet-histogram", x, y, **parameters) == pytest.approx(want, rel=1e-12)
    assert value("curvelet-histogram", *torch.from_numpy(patches(2, shape)), **parameters) == pytest.approx(
        want, rel=1e-12
    )


@pytest.mark.parametrize("name", ["stsim-1", "curvelet-histogram"])
def test_without_numba(name, monkeypatch):
    """Without numba, NumPy gives the same results, more slowly."""
    x = patches(4)
    want = similarity(x, x, name)
    for module in (curvelet_histogram, structural):
        monkeypatch.setattr(module, "compiled_pairs", lambda function: None)
    np.testing.assert_allclose(similarity(x, x, name), want, atol=1e-12)


def test_curvelet_svd_equals_the_slow_twin():
    """Features, truncated at the effective rank, and their similarities are equal."""
    x = patches(3, (99, 99))
    features = CurveletSVD().describe(x)
    want = np.stack([reference.curvelet_svd(p) for p in x])
    np.testing.assert_allclose(features, want, atol=1e-11)
    plain = 1 - np.abs(want[:, None] - want).sum(-1) / (want[:, None] + want).sum(-1)
    np.testing.assert_allclose(CurveletSVD().compare(features, features), plain, atol=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_oblong_patches_and_empty_stacks(name):
    """Measures accept oblong patches and empty stacks."""
    x = patches(2, (40, 70))
    assert similarity(x, x, name).shape == (2, 2)
    measure = MEASURES[name]()
    assert measure.compare(measure.describe(x[:0]), measure.describe(x)).shape == (0, 2)


@pytest.mark.parametrize("name", MEASURES)
def test_constant_patches_are_alike(name):
    """Constant patches have similarity 1 to each other, and no NaN in comparison with a live patch."""
    x = np.concatenate([np.zeros((2, 48, 50)), patches(1)])
    S = similarity(x, x, name)
    assert np.isfinite(S).all() and S[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_become_row_normalised_similarities(name):
    """S = 1 - D / largest of the row: 1 on the diagonal and 0 for the farthest."""
    x = patches(5)
    measure = MEASURES[name]()
    D = measure.compare(measure.describe(x), measure.describe(x))
    np.testing.assert_allclose(similarity(x, x, name), 1 - D / D.max(1, keepdims=True), atol=1e-12)


def test_parameters_reach_the_measure():
    """Parameters of `similarity` change its result."""
    x = patches(3, (64, 64))
    for name, parameters in (
        ("cw-ssim", {"levels": 2}),
        ("stsim-1", {"window": "local"}),
        ("curvelet-histogram", {"standardize": False}),
        ("curvelet-svd", {"finest": False}),
    ):
        assert not np.allclose(similarity(x, x, name), similarity(x, x, name, **parameters), atol=1e-6)


def test_patches_that_cannot_be_compared_are_refused():
    """Unknown names and windows, a single patch, two sizes, and NaN give clear errors."""
    x = patches(2)
    for words, call in (
        ("Unknown measure 'ssim'", lambda: similarity(x, x, "ssim")),
        ("window is 'both'", lambda: similarity(x, x, "stsim-1", window="both")),
        ("pass a stack", lambda: similarity(x[0], x[0])),
        ("48 x 50 and of 40 x 40", lambda: similarity(x, patches(1, (40, 40)))),
        ("NaN", lambda: similarity(x * np.nan, x)),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_real_patches_score_as_measured():
    """RA and MAP of METHOD section 9 on 100 real patches per class, for the two fastest measures."""
    folder = os.environ.get("OUTCROP_DATA")
    if not folder or not os.path.exists(f"{folder}/seg2017_patches.npz"):
        pytest.skip("OUTCROP_DATA does not name a folder with seg2017_patches.npz")
    file, rng = np.load(f"{folder}/seg2017_patches.npz"), np.random.default_rng(0)
    rows = np.concatenate([c * 500 + rng.choice(500, 100, replace=False) for c in range(4)])
    x = (file["images"][rows] * file["scale"]).astype("f4")
    for name, ra, average in (("euclidean", 0.289, 0.383), ("curvelet-svd", 0.890, 0.945)):
        got = retrieval_scores(similarity(x, x, name), file["classes"][rows])
        assert (got["RA"], got["MAP"]) == (pytest.approx(ra, abs=0.01), pytest.approx(average, abs=0.01))


def test_the_encoder_ignores_gain_and_polarity():
    """Another gain or the opposite polarity gives the same descriptor."""
    x = patches(4, (64, 65))
    measure = MEASURES["encoder"]()
    described = measure.describe(x)
    assert described.min() >= 0
    np.testing.assert_allclose(described.sum(axis=1), 1, atol=0.01)  # not exactly 1, because a constant prevents 0 / 0
    for changed in (0.5 + 0.3 * (x - 0.5), 1 - x):
        np.testing.assert_allclose(measure.describe(changed), described, atol=1e-4)


def test_the_encoder_refuses_small_patches():
    """Patches smaller than 32 x 32 give a clear error."""
    with pytest.raises(ValueError, match="20 x 40"):
        similarity(patches(2, (20, 40)), patches(2, (20, 40)), "encoder")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("solver", ["_jax", "_cupy", None])
def test_eigenvalues_on_a_gpu(solver, monkeypatch):
    """With each solver, descriptors equal those of NumPy; without a batched solver, a warning says so."""

    def missing():
        raise ImportError

    for name in {"_jax", "_cupy"} - {solver}:
        monkeypatch.setattr(eigenvalues, name, missing)
    eigenvalues.batched_solver.cache_clear()
    images = np.random.default_rng(0).random((40, 99, 99), dtype=np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = CurveletSVD().describe(torch.from_numpy(images).to("cuda")).cpu().numpy()
    eigenvalues.batched_solver.cache_clear()
    np.testing.assert_allclose(found, CurveletSVD().describe(images), atol=1e-4)
    assert bool(caught) == (solver is None)


def test_a_missing_batched_solver_gives_a_warning(monkeypatch):
    """The warning has one line and appears once."""

    def missing():
        raise ImportError

    for name in ("_jax", "_cupy"):
        monkeypatch.setattr(eigenvalues, name, missing)
    eigenvalues.batched_solver.cache_clear()
    with pytest.warns(UserWarning, match="Neither jax nor cupy"):
        assert eigenvalues.batched_solver() is None
    eigenvalues.batched_solver.cache_clear()
