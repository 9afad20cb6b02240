"""The texture mapper finds where in a patch its class lies, from image labels alone, at any size and on two classes."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from sklearn.exceptions import ConvergenceWarning

from outcrop import TextureMapper
from outcrop.features.energies import describe, every_second, mirrored, smoothed
from outcrop.mapping.constraint import Ridge, balance, maximise
from outcrop.mapping.familiarity import STRANGE, Familiarity
from outcrop.mapping.pixels import (
    NODE_WEIGHT,
    POWER,
    POWERS,
    REACH,
    UNSURE,
    along_reflectors,
    at_pixels,
    class_shares,
    dips,
    fitted_power,
    node_masks,
    upsample,
)
from outcrop.mapping.texture import AVERAGED


def textures(n, size=64, seed=0):
    """Patches of flat stripes; those of class `steep` have steep ones in their right part, of random width."""
    rng = np.random.default_rng(seed)
    t, x = np.mgrid[:size, :size]
    patches, truth = [], []
    for i in range(2 * n):
        phase = rng.uniform(0, 2 * np.pi, 2)
        flat, steep = 0.5 + 0.3 * np.sin(t / 1.5 + phase[0]), 0.5 + 0.3 * np.sin(x / 1.5 + phase[1])
        inside = (x > rng.integers(size // 4, 3 * size // 4)) & (i < n)
        patches.append(np.where(inside, steep, flat) + 0.05 * rng.normal(size=(size, size)))
        truth.append(inside)
    return np.clip(patches, 0, 1).astype("f4"), np.array(truth), np.repeat(["steep", "other"], n)


@pytest.fixture(scope="module")
def fitted():
    """A small mapper and the patches it saw."""
    patches, truth, classes = textures(24)
    mapper = TextureMapper(members=2, patches_per_class=24, n_features=200, rounds=12).fit(patches, classes)
    return mapper, patches, truth


def test_finds_the_structure_inside_its_patches(fitted):
    """From the class of whole patches: nine of ten pixels right beyond the reach of the descriptors (two sigma)."""
    mapper, patches, truth = fitted
    assert mapper.classes_.tolist() == ["steep", "other"]
    right = (mapper.predict(patches) == 1) == truth
    edge = truth.argmax(axis=2)[:24, :, None]
    far = np.abs(np.arange(64) - edge) > 28
    assert right[:24][far].mean() > 0.9
    assert right[24:].mean() > 0.95
    assert mapper.shares_["steep"] < 0.95


def test_patches_of_two_sizes(fitted):
    """A list of one array is the array; with small patches of the structure beside large ones it is found as well."""
    _, patches, truth = fitted
    classes = np.repeat(["steep", "other"], 24)
    options = {"members": 1, "patches_per_class": 24, "n_features": 200, "rounds": 12}
    whole, listed = (TextureMapper(**options).fit(own, classes) for own in (patches, [patches]))
    np.testing.assert_array_equal(whole.scores(patches[:2]), listed.scores(patches[:2]))
    small = patches[:24, 8:56, 16:64]
    mixed = TextureMapper(**options).fit([small, patches[24:]], classes)
    far = np.abs(np.arange(64) - truth.argmax(axis=2)[:24, :, None]) > 28
    assert ((mixed.predict(patches) == 1) == truth)[:24][far].mean() > 0.9
    painted = TextureMapper(**options).fit([small, patches[24:]], classes, [small[:, :1, :1] * 0, patches[24:] * 0])
    np.testing.assert_array_equal(painted.scores(patches[:2]), mixed.scores(patches[:2]))


def test_any_size_and_any_split_give_the_same(fitted):
    """A section is labelled as its parts are, away from the rims; patches one by one as in a stack."""
    mapper, patches, _ = fitted
    np.testing.assert_allclose(
        mapper.scores(patches[:3]), np.concatenate([mapper.scores(p[None]) for p in patches[:3]]), atol=1e-5
    )
    section = textures(1, size=200, seed=5)[0]
    assert mapper.predict(section).shape == (2, 200, 200)
    assert mapper.scores(patches[:1, :50, :37]).shape == (1, 50, 37, 2)


def test_same_seed_same_labels():
    """Bit for bit, and other labels hardly differ."""
    patches, _, classes = textures(12)
    options = {"members": 1, "patches_per_class": 8, "n_features": 100, "rounds": 5}
    a, b, c = (TextureMapper(random_state=s, **options).fit_predict(patches, classes) for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert (a == c).mean() > 0.8


def test_mirrored_and_reversed_sections_keep_their_labels(fitted):
    """Texture has no left, no right and no polarity."""
    mapper, patches, _ = fitted
    labels = mapper.predict(patches)
    assert (mapper.predict(patches[:, :, ::-1])[:, :, ::-1] == labels).mean() > 0.95
    assert (mapper.predict(1 - patches) == labels).mean() > 0.95


def test_painted_pixels_bind():
    """Paint says that nothing of the flat part is steep: those pixels keep their class in fit_predict."""
    patches, truth, classes = textures(12)
    masks = np.where(truth, 0, 2).astype("u1")
    masks[12:] = 0
    options = {"members": 1, "patches_per_class": 12, "n_features": 100, "rounds": 5}
    labels = TextureMapper(**options).fit_predict(patches, classes, masks)
    assert (labels[masks > 0] == 2).all()


def test_without_a_background_every_pixel_is_of_its_patch():
    """Two structures and no background: a warning, no pixel is moved anywhere, the classes are just told apart."""
    patches, _, classes = textures(12)
    mapper = TextureMapper(members=1, patches_per_class=12, n_features=100)
    with pytest.warns(UserWarning, match="No class is the background") as caught:
        mapper.fit(patches, np.char.replace(classes, "other", "flat"))
    assert len(caught) == 1 and mapper.background_ is None
    assert mapper.shares_ == {}
    assert mapper.classes_.tolist() == ["steep", "flat"]


@pytest.mark.parametrize(("name", "background"), [("background", "other"), ("Rest", "other"), ("shale", "shale")])
def test_the_background_may_have_any_name(name, background):
    """A common name is recognised, any other one given: the scores are those of `other` to the bit."""
    patches, _, classes = textures(8, size=32)
    options = {"members": 1, "patches_per_class": 8, "n_features": 60, "rounds": 5}
    plain = TextureMapper(**options).fit(patches, classes)
    renamed = TextureMapper(background=background, **options).fit(patches, np.where(classes == "other", name, classes))
    assert renamed.background_ == name
    np.testing.assert_array_equal(renamed.scores(patches), plain.scores(patches))


def test_unsure_pixels_become_uncertain(fitted):
    """A limit above all confidences leaves nothing labelled; one below leaves all."""
    mapper, patches, _ = fitted
    strict = TextureMapper(min_confidence=1.01)
    strict.__dict__.update({k: v for k, v in mapper.__dict__.items() if k.endswith("_")})
    assert not strict.predict(patches).any()
    assert mapper.predict(patches).all()


def test_a_texture_nobody_named_is_background_and_doubted(fitted):
    """However loud: stripes of another direction and grain; what was learnt stays familiar."""
    mapper, patches, _ = fitted
    t, x = np.mgrid[:64, :64]
    strange = np.stack([0.5 + gain * np.sin((t + x) / 5) for gain in (0.1, 0.4)]).astype("f4")
    assert mapper.votes(strange)[1].max() < 0.01
    assert mapper.votes(patches)[1].mean() > 0.9
    assert (mapper.predict(strange) == 2).all()
    assert mapper.confidence(strange).max() <= 1 - UNSURE / 2 + 1e-3
    assert np.median(mapper.confidence(patches)) > 0.9


def test_without_a_background_strange_textures_are_only_doubted(fitted):
    """Votes keep their winner, and move towards all classes alike."""
    mapper, patches, _ = fitted
    votes, _ = mapper.votes(patches[:2])
    usual, none = np.zeros((*votes.shape[:3], 2), "f4"), np.zeros(2, bool)
    sure, doubted = (at_pixels(votes, own, none, patches[:2]) for own in (usual + 1, usual))
    np.testing.assert_allclose(doubted, sure + UNSURE * (0.5 - sure), atol=1e-5)


def test_few_small_patches_are_enough():
    """One patch a class of 8 pixels has fewer nodes than descriptors."""
    patches = np.random.default_rng(0).random((2, 8, 8)).astype("f4")
    labels = TextureMapper(members=1, n_features=20).fit_predict(patches, ["fault", "other"])
    assert labels.shape == patches.shape and labels.all()


def test_familiarity_knows_no_amplitude():
    """A tenth of what was learnt is strange, and as strange when it is louder."""
    descriptors = np.random.default_rng(0).normal(size=(2000, 64)).astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        familiar = Familiarity.learnt(descriptors, 0)
    usual = familiar(descriptors)
    strange = familiar.log_likelihood(descriptors) < familiar.limits[-1]
    assert 0.8 * STRANGE < strange.mean() < 1.2 * STRANGE
    np.testing.assert_allclose(familiar(descriptors + 2), usual, atol=1e-4)
    assert familiar(5 * descriptors).max() < 0.01


def test_maximise_keeps_known_nodes_and_leaves_other_patches_alone():
    """Painted nodes never move, patches of the background are all background."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 50, 10)).astype("f4")
    known = np.zeros((6, 50), int)
    known[0, :5] = 1
    there, options = np.ones((6, 50), bool), {"background": np.array([1]), "rounds": 5, "step": lambda round: None}
    ridge = Ridge(rows, np.where(known > 0, 20, 1))
    labels, shares = maximise(ridge, np.array([0, 0, 0, 1, 1, 1]), known, there, n_classes=2, **options)
    assert (labels[0, :5] == 0).all()
    assert (labels[3:] == 1).all()
    assert 0.1 <= shares[0] <= 1


def test_rare_classes_count_as_if_their_patches_were_repeated():
    """Two patches beside six of another class: the regression is that of six and six."""
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(8, 50, 10)).astype("f4"), np.array([0] * 6 + [1] * 2)
    labels = rng.integers(2, size=(8, 50))
    weights = np.ones((8, 50)) * balance(codes)[:, None]
    again = np.array([*range(6), *[6, 7] * 3])
    repeated = Ridge(rows[again], np.ones((12, 50))).fit(labels[again], 2)
    np.testing.assert_allclose(Ridge(rows, weights).fit(labels, 2), repeated, atol=1e-5)
    assert np.abs(Ridge(rows, np.ones((8, 50))).fit(labels, 2) - repeated).max() > 1e-3


def test_descriptor_follows_direction_and_wavelength():
    """The energy of stripes is largest in their own wavelength and direction."""
    t, x = np.mgrid[:96, :96]
    flat = describe((0.5 + 0.4 * np.sin(2 * np.pi * t / 7))[None])[0, 12, 12, :32].reshape(4, 8)
    steep = describe((0.5 + 0.4 * np.sin(2 * np.pi * x / 12))[None])[0, 12, 12, :32].reshape(4, 8)
    assert np.unravel_index(flat.argmax(), (4, 8)) == (1, 4)
    assert np.unravel_index(steep.argmax(), (4, 8)) == (2, 0)


def test_mirror_swaps_directions():
    """What a section seen from behind shows is known from its descriptors, away from the rims."""
    rows, columns = np.indices((128, 128))
    section = 0.5 + 0.2 * np.sin((rows + columns) / 2) + 0.1 * np.sin((rows - 3 * columns) / 4)
    there, behind = describe(section[None]), describe(section[None, :, ::-1])[:, :, ::-1]
    inner = np.s_[:, 8:-8, 8:-8]
    assert np.abs(mirrored(there) - behind)[inner].mean() < 0.05 < 0.3 < np.abs(there - behind)[inner].mean()


def test_nodes_lie_where_they_say():
    """Masks and upsampling use the same lattice: a painted block comes back at its place."""
    masks = np.zeros((1, 30, 41), int)
    masks[0, 8:12, 16:20] = 3
    nodes = node_masks(masks, (30, 41))
    assert np.argwhere(nodes[0]).tolist() == [[2, 4]]
    back = upsample(nodes[..., None].astype(float), (30, 41))[0, ..., 0]
    assert np.unravel_index(back.argmax(), back.shape) in [(10, 18), (10, 19), (11, 18), (10, 17), (9, 18)]


def test_votes_along_flat_reflectors_fall_off_exponentially():
    """On flat reflectors the two sweeps are the sum written out, row by row."""
    values = np.random.default_rng(0).random((2, 3, 9, 2)).astype("f4")
    away = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    weights = np.where(away == 0, NODE_WEIGHT, np.exp(-4 * away / REACH))
    expected = np.einsum("xy,nryc->nrxc", weights / weights.sum(axis=1, keepdims=True), values)
    np.testing.assert_allclose(along_reflectors(values, np.zeros((2, 3, 9), "f4")), expected, rtol=1e-5)


def test_votes_follow_a_dipping_reflector():
    """What is the same all along a dipping reflector stays, and noise on it goes; flat smoothing would blur it."""
    rows, columns = np.mgrid[:120, :200]
    section = (0.5 + 0.5 * np.sin((rows - 0.5 * columns) / 3)).astype("f4")[None]
    nodes = np.mgrid[:30, :50] * 4 + 2.5
    layer = ((nodes[0] - 0.5 * nodes[1]) % 60 < 30).astype("f4")[None, ..., None]
    noisy = layer + np.random.default_rng(0).normal(0, 0.3, layer.shape).astype("f4")
    found, inner = dips(section), (slice(None), slice(4, -4), slice(6, -6))
    np.testing.assert_allclose(found[inner], 0.5, atol=0.03)
    off = [np.sqrt(np.mean((along_reflectors(noisy, dip) - layer)[inner] ** 2)) for dip in (found, 0 * found)]
    assert off[0] < 0.7 * 0.3 < off[1]


def test_familiarity_is_the_likelihood_of_scikit_learn():
    """The log likelihood written out equals PCA and GaussianMixture, up to rounding of float32."""
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    descriptors = np.random.default_rng(1).normal(size=(500, 64)).astype("f4")
    centred = descriptors - descriptors.mean(axis=-1, keepdims=True)
    pca = PCA(20, whiten=True, random_state=0).fit(centred)
    mixture = GaussianMixture(3, random_state=0).fit(pca.transform(centred))
    arrays = mixture.means_, mixture.precisions_cholesky_, mixture.weights_, np.zeros(21)
    centre, scale = pca.components_ @ pca.mean_, np.sqrt(pca.explained_variance_)
    ours = Familiarity(centre, pca.components_, scale, *arrays).log_likelihood(descriptors)
    np.testing.assert_allclose(ours, mixture.score_samples(pca.transform(centred)), rtol=1e-4)


def test_progress_rises_and_can_end_the_fit():
    """Steps never go back, and what progress raises comes out."""
    patches, _, classes = textures(6, size=32)
    mapper, steps = TextureMapper(members=2, n_features=20, rounds=3), []
    mapper.fit(patches, classes, progress=lambda what, done, total: steps.append(done / total))
    assert steps == sorted(steps) and steps[-1] <= 1

    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapper.fit(patches, classes, progress=stop)


def test_torch_patches_are_taken_as_numpy():
    """Whatever the device asks for, textures are computed by NumPy: the same scores."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    patches, _, classes = textures(6, size=32)
    options = {"members": 1, "n_features": 20, "rounds": 3}
    here = TextureMapper(**options).fit(patches, classes).scores(patches)
    moved = torch.from_numpy(patches)
    np.testing.assert_array_equal(TextureMapper(**options).fit(moved, classes).scores(moved), here)


def test_the_power_that_labels_were_drawn_with_is_found():
    """Labels drawn from shares of votes raised to the third power, some of them strange, give three again."""
    rng = np.random.default_rng(0)
    votes, usual = rng.uniform(0.1, 1, (40000, 3)), rng.uniform(0, 1, (40000, 2))
    background = np.array([False, True, False])
    share = class_shares(votes, usual, background, 3.0)
    np.testing.assert_allclose(share.sum(axis=-1), 1)
    labels = (rng.random((40000, 1)) > share.cumsum(axis=-1)).sum(axis=-1)
    assert abs(fitted_power(votes, usual, labels, background) - 3) < 0.15


def test_confidence_is_fitted_on_patches_that_members_have_not_seen():
    """Where every member has seen all of them the power is the one by default."""
    patches, _, classes = textures(16, size=32)
    options = {"members": 2, "n_features": 60, "rounds": 4}
    some, every = (TextureMapper(**options, patches_per_class=n).fit(patches, classes) for n in (8, 16))
    assert every.power_ == POWER != some.power_ and POWERS[0] <= some.power_ / AVERAGED <= POWERS[1]


@pytest.mark.parametrize("n", [1, 2, 5, 8, 37, 300])
def test_smoothing_by_products_is_the_filter(n):
    """Of stacks shorter than the Gaussian, of one block and of several; odd and even."""
    x = np.random.default_rng(n).random((2, n, 6), dtype=np.float32)
    for sigma in (2.5, 7):
        expected = every_second(np.repeat(gaussian_filter1d(x, sigma, axis=1, truncate=3), 2, axis=2))[:, :, :6]
        np.testing.assert_allclose(smoothed(x, sigma), expected, atol=1e-6)


def test_a_regression_adds_up_what_changed():
    """Round after round the products are those of all nodes."""
    rng = np.random.default_rng(0)
    rows, weights = rng.random((9, 40, 12), dtype=np.float32), rng.random((9, 40)) + 0.5
    ridge, labels = Ridge(rows, weights), rng.integers(0, 3, (9, 40))
    for _ in range(5):
        labels = np.where(rng.random(labels.shape) < 0.2, rng.integers(0, 3, labels.shape), labels)
        whole = np.einsum("pnf,pnc->fc", rows.astype(float), np.eye(3)[labels] * weights[..., None])
        np.testing.assert_allclose(ridge.products(labels, 3), whole, rtol=1e-5)
