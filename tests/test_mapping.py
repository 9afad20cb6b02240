"""The mapper starts from sparse atoms, locates the weak labels and is invariant to irrelevant changes."""

import os
import pickle

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError

from outcrop.mapping.factorisation import VARIANTS
from outcrop.mapping.label_mapper import LabelMapper, class_scores
from outcrop.mapping.sparsity import cluster_means, project_sparsity, sparsity


def scene(n=12, size=12, seed=0):
    """Return patches of two classes: bright left halves and bright right halves on noise."""
    rng = np.random.default_rng(seed)
    patches = 0.1 * rng.random((2 * n, size, size))
    patches[:n, :, : size // 2] += 0.6 * rng.random((n, 1, 1)) + 0.2
    patches[n:, :, size // 2 :] += 0.6 * rng.random((n, 1, 1)) + 0.2
    return patches, ["left"] * n + ["right"] * n


# projection

ROWS = st.integers(2, 40).flatmap(
    lambda n: arrays(float, (3, n), elements=st.one_of(st.floats(1e-100, 1), st.sampled_from([0.0, 0.5, 1.0])))
)


@settings(max_examples=300, deadline=None)
@given(ROWS, st.floats(0.01, 0.99))
def test_projection_laws(rows, wanted):
    """Sparsity is exact to 1e-6, the norm stays, values are non-negative, equal and zero entries work; idempotent."""
    once = project_sparsity(rows, wanted)
    live = np.linalg.norm(rows, axis=1) > 1e-150
    assert (once >= 0).all()
    np.testing.assert_allclose(sparsity(once[live]), wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(once, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-9)
    np.testing.assert_allclose(project_sparsity(once, wanted), once, atol=1e-6)


@pytest.mark.parametrize("wanted", [0.2, 0.4, 0.8])
def test_projection_equals_hoyers_alternation(wanted):
    """On generic rows the closed form equals the limit of Hoyer's alternating projection."""
    rows = np.random.default_rng(1).random((5, 60)) ** 3
    np.testing.assert_allclose(
        project_sparsity(rows, wanted), [reference.hoyer_projection(row, wanted) for row in rows], atol=1e-7
    )


# start


def test_clusters_of_the_rotated_patches_are_those_of_the_patches():
    """k-means on the Cholesky factor finds the same groups as k-means on the pixels; one mean per group."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 8)
    patches = rng.random((4, 50))[groups] + 0.01 * rng.random((32, 50))
    means = cluster_means(patches, 4, random_state=0)
    centres = KMeans(4, n_init=1, random_state=0).fit(patches).cluster_centers_
    np.testing.assert_allclose(means[np.lexsort(means.T)], centres[np.lexsort(centres.T)], atol=1e-12)


def test_equal_patches_can_be_clustered():
    """Copies of one patch, and all-zero patches, give finite means."""
    for patches in (np.zeros((5, 9)), np.ones((5, 9)), np.repeat(np.eye(9)[:2], 4, axis=0)):
        assert np.isfinite(cluster_means(patches, 3, random_state=0)).all()


def test_small_class_gets_one_atom_per_patch():
    """A class with fewer patches than atoms_per_class uses them all as atoms, with a warning that names it."""
    patches, classes = scene()
    with pytest.warns(UserWarning, match="'right' has 3 patches, fewer than atoms_per_class 5"):
        mapper = LabelMapper(5, iterations=3).fit(patches[:15], classes[:15])
    assert np.bincount(mapper.atom_classes_).tolist() == [5, 3]
    assert mapper.atoms_.shape == (8, 12, 12) and mapper.coefficients_.shape == (15, 8)


def test_class_scores_equal_those_of_the_paper():
    """Scores equal W (Q * h 1^T) patch by patch; smoothing preserves their total away from the edges."""
    rng = np.random.default_rng(0)
    W, H = rng.random((42, 6)), rng.random((6, 20))
    codes = np.array([0, 0, 0, 1, 1, 2])
    atoms = W.T.reshape(6, 6, 7)
    scores = class_scores(atoms, H.T, codes)
    np.testing.assert_allclose(scores.reshape(20, 42, 3), reference.class_evidence(W, H, np.eye(3)[codes]))
    atoms = np.pad(atoms, ((0, 0), (2, 2), (2, 2)))
    smooth = class_scores(atoms, H.T, codes, smooth=True)
    np.testing.assert_allclose(smooth.sum((1, 2)) * [3, 2, 1], scores.sum((1, 2)))


# unseen patches


@pytest.mark.parametrize("variant", VARIANTS)
def test_prediction_does_not_depend_on_blocks(variant):
    """Scores of a stack equal those of its patches one by one, up to rounding, and labels derive from them."""
    patches, classes = scene()
    mapper = LabelMapper(4, variant=variant, iterations=30).fit(patches, classes)
    whole = mapper.scores(patches)
    np.testing.assert_allclose(np.concatenate([mapper.scores(patches[i : i + 1]) for i in range(24)]), whole, rtol=1e-9)
    assert whole.shape == (24, 12, 12, 2)
    assert (mapper.predict(patches)[:12, :, :5] == 1).mean() > 0.9
    np.testing.assert_allclose(mapper.confidence(patches), whole.max(-1) / whole.sum(-1))


# the mapper


@pytest.mark.parametrize("variant", VARIANTS)
def test_labels_find_the_bright_halves(variant):
    """If the class of a patch fills one half, that half gets its label."""
    patches, classes = scene()
    mapper = LabelMapper(4, variant=variant)
    labels = mapper.fit_predict(patches, classes)
    assert labels.dtype == np.uint8 and mapper.classes_.tolist() == ["left", "right"]
    assert (labels[:12, :, :6] == 1).mean() > 0.95 and (labels[12:, :, 6:] == 2).mean() > 0.95
    n_iterations = VARIANTS[variant].iterations
    assert mapper.objective_.shape == (n_iterations + 1,) and mapper.objective_.dtype == np.float64
    assert mapper.objective_parts_.shape == (n_iterations + 1, 2)
    assert (mapper.confidence_ >= 0).all() and (mapper.confidence_ <= 1).all()


def test_same_seed_same_labels():
    """Two fits with one seed agree bit for bit, so does a clone; another seed gives another start."""
    patches, classes = scene()
    one = LabelMapper(4, iterations=20).fit(patches, classes)
    two = clone(one).fit(patches, classes)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.coefficients_, two.coefficients_)
    other = LabelMapper(4, iterations=20, random_state=1).fit(patches, classes)
    assert other.objective_[0] != one.objective_[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_numpy_and_torch_agree(variant):
    """NumPy and torch give the same factors in arrays of their own kind, for both types."""
    patches, classes = scene()
    masks = np.zeros(patches.shape, "int64")
    masks[3, :4, 8:] = 1
    for dtype, rtol in (("float64", 1e-8), ("float32", 2e-3)):
        ours = LabelMapper(4, variant=variant, iterations=20).fit(patches.astype(dtype), classes, masks)
        other = clone(ours).fit(torch.asarray(patches.astype(dtype)), classes, torch.asarray(masks))
        assert other.labels_.dtype == torch.uint8 and str(other.atoms_.dtype).endswith(dtype)
        np.testing.assert_allclose(other.coefficients_.numpy(), ours.coefficients_, rtol=rtol, atol=1e-6)
        np.testing.assert_allclose(other.objective_, ours.objective_, rtol=rtol)
        assert (other.predict(patches) == ours.predict(patches)).mean() > 0.99


def test_codes_follow_the_first_appearance():
    """The names of classes are in the order of appearance, so reversing the patches reverses the codes."""
    patches, classes = scene()
    mapper = LabelMapper(4, iterations=2).fit(patches[::-1], classes[::-1])
    assert mapper.classes_.tolist() == ["right", "left"]


def test_baselines_are_parameters():
    """Plain factorisation starts with dense k-means atoms, and its objective is the misfit alone."""
    patches, classes = scene()
    plain = LabelMapper(4, None, orthogonality=0, atom_penalty=0, coefficient_penalty=0, iterations=50)
    plain.fit(patches, classes)
    model = np.tensordot(plain.coefficients_, plain.atoms_, 1)
    assert plain.objective_[-1] == pytest.approx(((patches - model) ** 2).sum(), rel=1e-6)
    np.testing.assert_allclose(plain.objective_parts_[:, 0], plain.objective_)
    assert (plain.atoms_ > 0).all()


def test_min_confidence_decides_which_pixels_are_uncertain():
    """Pixels below min_confidence are uncertain; the thresholds of the variants have no effect, as documented."""
    patches, classes = scene()
    sure = LabelMapper(4, 0.1, smoothing=None, iterations=50).fit(patches, classes)
    assert (sure.labels_ > 0).all()
    strict = LabelMapper(4, 0.1, smoothing=None, iterations=50, min_confidence=0.8).fit(patches, classes)
    np.testing.assert_array_equal(strict.labels_ == 0, strict.confidence_ < 0.8)
    assert 0 < (strict.labels_ == 0).mean() < 1


def test_painted_pixels_keep_their_label():
    """Painted pixels keep their label, and wrong classes have less evidence there than without paint."""
    patches, classes = scene()
    masks = np.zeros(patches.shape, "uint8")
    masks[:6, :, 6:] = 2
    free = LabelMapper(4, 0.1, iterations=100).fit(patches, classes)
    bound = LabelMapper(4, 0.1, iterations=100).fit(patches, classes, masks)
    assert (bound.labels_[masks > 0] == 2).all() and (bound.confidence_[masks > 0] == 1).all()

    def wrong_share(mapper):
        scores = class_scores(mapper.atoms_, mapper.coefficients_, mapper.atom_classes_)[masks > 0]
        return (scores[:, 0] / scores.sum(-1)).mean()

    assert wrong_share(bound) < 0.5 * wrong_share(free)
    blank = LabelMapper(4, 0.1, iterations=100).fit(patches, classes, np.zeros_like(masks))
    np.testing.assert_array_equal(blank.labels_, free.labels_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, c: (p - 1, c), r"Patches go down to -\S+; scale amplitudes"),
        (lambda p, c: (np.where(p > 0.5, np.nan, p), c), "Patches contain NaN or infinite values"),
        (lambda p, c: (p[:0], c[:0]), r"shape \(0, 12, 12\); give a non-empty stack"),
        (lambda p, c: (p[0], c), r"shape \(12, 12\); give a non-empty stack"),
        (lambda p, c: (p, ["left"] * 24), r"number of different classes is 1 \(left\); give 2 to 254"),
        (lambda p, c: (p, c[:5]), r"shape \(5,\) for 24 patches; give one class per patch"),
        (lambda p, c: (p, c, np.zeros((2, 2), int)), r"masks has shape \(2, 2\) and patches"),
        (lambda p, c: (p, c, np.full(p.shape, 3)), "masks contains values outside 0 to 2"),
        (lambda p, c: (p, c, np.full(p.shape, 0.5)), "masks contains values outside 0 to 2"),
    ],
)
def test_refuses_bad_input(change, message):
    """Negative, missing, empty, single-class and mismatched input gives a clear ValueError."""
    with pytest.raises(ValueError, match=message):
        LabelMapper(4).fit(*change(*scene()))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"variant": "fast"}, "variant is 'fast'; choose one of paper, published, exact"),
        ({"sparsity": 1.5}, "sparsity is 1.5; choose a value between 0 and 1"),
        ({"min_confidence": 1.4}, "min_confidence is 1.4; choose a value between 0 and 1"),
        ({"atoms_per_class": 0}, "atoms_per_class is 0; choose 1 or more"),
        ({"orthogonality": -1}, "orthogonality is -1; choose 0 or more"),
        ({"smoothing": "mean"}, "smoothing is 'mean'; choose 'median', 'majority' or None"),
        ({"variant": "published", "accelerate": True}, "would change what 'published' converges to"),
    ],
)
def test_refuses_bad_parameters(parameters, message):
    """Parameters are checked in fit; errors name the remedy."""
    with pytest.raises(ValueError, match=message):
        LabelMapper(**{"atoms_per_class": 4, **parameters}).fit(*scene())


def test_a_fitted_mapper_can_be_pickled_and_refitted():
    """A pickled mapper predicts the same; a refitted one does not use its earlier solver."""
    patches, classes = scene()
    mapper = LabelMapper(4, iterations=10).fit(patches, classes)
    scores = mapper.scores(patches)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mapper)).scores(patches), scores)
    again = mapper.fit(patches[::-1] ** 2, classes[::-1]).scores(patches)
    fresh = LabelMapper(4, iterations=10).fit(patches[::-1] ** 2, classes[::-1])
    np.testing.assert_array_equal(again, fresh.scores(patches))


def test_prediction_needs_a_fit_and_the_fitted_size():
    """Prediction before a fit, or of patches of another size, is refused."""
    patches, classes = scene()
    with pytest.raises(NotFittedError):
        LabelMapper().predict(patches)
    with pytest.raises(ValueError, match="Patches have 10 x 12 pixels, atoms 12 x 12"):
        LabelMapper(4, iterations=1).fit(patches, classes).predict(patches[:, :10])


@pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="OUTCROP_DATA names no folder of real data")
def test_agrees_with_the_released_labels():
    """`published` gives at least 90 % of the pixels of the 2000 patches the label that the authors released.

    50 instead of 400 iterations keep the test short; the agreement is slightly higher with more.
    """
    data = np.load(os.path.join(os.environ["OUTCROP_DATA"], "seg2017_patches.npz"))
    mapper = LabelMapper(250, 0.4, variant="published", iterations=50)
    labels = mapper.fit_predict((data["images"] * data["scale"]).astype("f4"), data["classes"])
    codes = {"chaotic": 1, "other": 2, "fault": 3, "salt dome": 4}
    table = np.array([0, *(codes[name] for name in mapper.classes_)])
    assert (table[labels] == data["published_labels"]).mean() >= 0.90
