"""The random walker: laws of the spread of seeds, and of votes that follow it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcrop.mapping import walker
from outcrop.mapping.walker import conductances, correct, reach


def lattice(seed, shape=(9, 11), n_kinds=3, n_seeds=6):
    """Random features and seeds of several kinds, some of them weak."""
    rng = np.random.default_rng(seed)
    seeds = np.zeros((*shape, n_kinds))
    for _ in range(n_seeds):
        place = tuple(rng.integers(shape))
        seeds[place] = 0
        seeds[(*place, rng.integers(n_kinds))] = rng.choice([1, 0.5])
    return rng.standard_normal((*shape, 5)), seeds


def slow_reach(along, down, seeds, gamma):
    """Twin of `reach`: walkers step node by node, as often as it takes."""
    rows, columns, _ = seeds.shape
    fixed, u = seeds.any(axis=-1), seeds.astype(float)
    for _ in range(20000):
        new = seeds.astype(float)
        for i, j in np.argwhere(~fixed):
            ways = [(i - 1, j, along[i - 1, j] if i else 0), (i + 1, j, along[i, j] if i < rows - 1 else 0)]
            ways += [(i, j - 1, down[i, j - 1] if j else 0), (i, j + 1, down[i, j] if j < columns - 1 else 0)]
            ways = [way for way in ways if way[2] > 0]
            new[i, j] = sum(w * u[a, b] for a, b, w in ways) / (sum(w for *_, w in ways) + gamma)
        if np.abs(new - u).max() < 1e-9:
            return new
        u = new
    raise AssertionError("no rest")


def test_reach_is_what_single_walkers_do():
    """The solved system is the rest that walkers come to, step by step."""
    features, seeds = lattice(0, (5, 6), n_seeds=3)
    along, down = conductances(features, beta=0.5)
    np.testing.assert_allclose(reach(along, down, seeds, 0.1), slow_reach(along, down, seeds, 0.1), atol=1e-6)


@given(st.integers(0, 10**6), st.floats(0.001, 1))
@settings(max_examples=30, deadline=None)
def test_maximum_principle(seed, gamma):
    """Seeds stay; elsewhere no node reaches more than the strongest seed of a kind, nor all kinds more than 1."""
    features, seeds = lattice(seed)
    found = reach(*conductances(features, beta=1), seeds, gamma)
    fixed = seeds.any(axis=-1)
    np.testing.assert_array_equal(found[fixed], seeds[fixed])
    assert (found >= 0).all() and (found <= seeds.max(axis=(0, 1)) + 1e-12).all()
    assert (found.sum(axis=-1) <= 1 + 1e-9).all()


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_votes_stay_shares(seed):
    """Corrected votes sum to 1 and none is negative; seeds have their class, excluded classes have nothing."""
    rng = np.random.default_rng(seed)
    features, seeds = lattice(seed)
    votes = rng.dirichlet(np.ones(3), seeds.shape[:2])
    known = reach(*conductances(features), seeds)
    excluded = np.zeros_like(votes)
    excluded[0, 0, 1] = 1
    found = correct(votes, known, excluded, np.array([True, False, False]))
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-9)
    assert found.min() >= -1e-12
    sure = seeds.max(axis=-1) == 1
    np.testing.assert_allclose(found[sure], seeds[sure], atol=1e-12)
    assert found[0, 0, 1] == pytest.approx(known[0, 0, 1])


def test_without_seeds_nothing_changes():
    """No stroke reaches nowhere, and votes that nothing reaches stay to the bit."""
    features, _ = lattice(1)
    none = np.zeros((9, 11, 3))
    assert not reach(*conductances(features), none).any()
    votes = np.random.default_rng(1).dirichlet(np.ones(3), (9, 11))
    np.testing.assert_array_equal(correct(votes, none, none, np.zeros(3, bool)), votes)


def test_a_stroke_stops_where_the_texture_changes():
    """Within its own texture a stroke reaches far, along the layers farther than across; beyond the edge hardly."""
    features = np.zeros((41, 41, 2))
    features[:, 25:] = 5
    seeds = np.zeros((41, 41, 1))
    seeds[20, 20] = 1
    found = reach(*conductances(features), seeds)[..., 0]
    assert found[24, 20] > found[20, 24] > 50 * found[20, 26]
    assert (np.diff(found[20:, 20]) < 0).all()


def test_far_from_all_seeds_nothing_is_solved(monkeypatch):
    """A bound on the distance changes next to nothing, and farther away nothing at all."""
    rng = np.random.default_rng(2)
    features, seeds = rng.standard_normal((60, 40, 4)), np.zeros((60, 40, 1))
    seeds[5, 5] = 1
    ways = conductances(features, beta=0.1)
    near = reach(*ways, seeds)
    monkeypatch.setattr(walker, "NEAR", 100)
    np.testing.assert_allclose(near, reach(*ways, seeds), atol=5e-3)
    assert not near[36:].any() and not near[:, 36:].any()


def test_all_classes_excluded_leaves_the_votes():
    """Where everything is excluded the votes stay rather than vanish."""
    votes = np.array([0.7, 0.3])
    np.testing.assert_array_equal(correct(votes, np.zeros(2), np.ones(2), np.array([True, False])), votes)
