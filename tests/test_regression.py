"""A regression that takes new rows: the same as one fitted on all of them."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import outcrop as oc
from outcrop.features.energies import describe, mirrored
from outcrop.mapping.constraint import Ridge
from outcrop.mapping.registry import load_mapper
from outcrop.mapping.regression import NormalEquations


def rows_and_labels(seed=0, n=60, n_features=12, n_classes=3):
    """Random rows, labels and weights."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((1, n, n_features)).astype(np.float32)
    return rows, rng.integers(n_classes, size=(1, n)), rng.uniform(0.5, 3, (1, n))


def test_an_update_is_a_fit_with_all_rows():
    """Rows added later give the weights that all rows give at once, to the precision of float32."""
    rows, labels, weights = rows_and_labels()
    part = Ridge(rows[:, :40], weights[:, :40]).equations(labels[:, :40], 3)
    updated = part.plus(rows[0, 40:], np.eye(3)[labels[0, 40:]], weights[0, 40:]).solve()
    np.testing.assert_allclose(updated, Ridge(rows, weights).fit(labels, 3), atol=1e-5)
    assert np.abs(part.solve() - updated).max() > 1e-3


def test_saved_equations_come_back():
    """One triangle as float32 is all that the equations are."""
    rows, labels, weights = rows_and_labels(1)
    equations = Ridge(rows, weights).equations(labels, 3)
    again = NormalEquations.unpacked(**equations.packed())
    np.testing.assert_allclose(again.solve(), equations.solve(), atol=1e-5)
    assert sum(array.nbytes for array in equations.packed().values()) == 4 * (12 * 13 // 2 + 12 * 3)


@pytest.fixture(scope="module")
def mapper():
    """A texture mapper of layers and noise."""
    rng = np.random.default_rng(0)
    layers = 0.5 + 0.4 * np.sin(np.arange(40)[:, None] / 2 + rng.uniform(0, 6, (20, 1, 1))) * np.ones(40)
    noise = rng.random((20, 40, 40))
    patches = np.concatenate([layers, noise]).astype(np.float32)
    options = {"members": 2, "patches_per_class": 20, "n_features": 60, "rounds": 2}
    return oc.TextureMapper(**options).fit(patches, ["other"] * 20 + ["chaotic"] * 20)


def test_a_mapper_updates_as_its_regressions_do(mapper, tmp_path):
    """An update is that of every member with the nodes and their mirror images, from a saved mapper too."""
    section = np.random.default_rng(1).random((1, 48, 60)).astype(np.float32)
    nodes = describe(section)[0].reshape(-1, 64)[:25]
    targets, weights = np.tile([1.0, 0.0], (25, 1)), np.full(25, 4.0)
    updated = mapper.updated(nodes, targets, weights)
    for member, (features, before, _) in enumerate(mapper.models_):
        (_, after, _), equations = updated.models_[member], mapper.equations_[member]
        both, twice = np.concatenate([nodes, mirrored(nodes)]), np.concatenate([targets, targets])
        np.testing.assert_allclose(after, equations.plus(features(both), twice, np.full(50, 2.0)).solve(), atol=1e-6)
        assert np.abs(after - before).max() > 1e-4
    assert (updated.scores(section)[..., 0] >= mapper.scores(section)[..., 0] - 1e-3).mean() > 0.9
    mapper.save(tmp_path / "mapper")
    again = load_mapper(tmp_path / "mapper").updated(nodes, targets, weights)
    np.testing.assert_allclose(again.scores(section), updated.scores(section), atol=1e-5)
    updated.save(tmp_path / "updated")
    np.testing.assert_array_equal(load_mapper(tmp_path / "updated").scores(section), updated.scores(section))
    with pytest.raises(NotFittedError):
        updated.updated(nodes, targets, weights)


def test_nothing_painted_is_nothing_learnt(mapper):
    """An update by nodes without weight gives the same votes."""
    section = np.random.default_rng(2).random((1, 48, 60)).astype(np.float32)
    same = mapper.updated(describe(section)[0, 0], np.ones((15, 2)), np.zeros(15))
    np.testing.assert_allclose(same.scores(section), mapper.scores(section), atol=1e-5)


def test_a_class_that_was_only_painted(mapper):
    """A new class wins on the texture that was painted as it."""
    section = np.random.default_rng(3).random((1, 48, 60)).astype(np.float32)
    nodes = describe(section)[0].reshape(-1, 64)
    updated = mapper.updated(nodes, np.tile([0, 0, 1.0], (len(nodes), 1)), np.full(len(nodes), 50.0), ["gas"])
    assert updated.classes_.tolist() == ["other", "chaotic", "gas"]
    assert (updated.predict(section) == 3).mean() > 0.9


def test_strokes_do_not_overrule_the_patches(mapper):
    """However much is painted, it counts no more than all patches together."""
    section = np.random.default_rng(4).random((1, 48, 60)).astype(np.float32)
    nodes = describe(section)[0].reshape(-1, 64)
    targets = np.tile([1.0, 0.0], (len(nodes), 1))
    much, more = (mapper.updated(nodes, targets, np.full(len(nodes), weight)) for weight in (1e6, 1e9))
    np.testing.assert_allclose(much.scores(section), more.scores(section), atol=1e-5)
