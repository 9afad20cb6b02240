"""Energies at grid points, and averages of votes along reflectors."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from outcrop.features.energies import describe, every_second, smoothed
from outcrop.mapping.pixels import NODE_WEIGHT, REACH, along_reflectors, dips, upsample


def test_descriptor_follows_direction_and_wavelength():
    """The energy of stripes is largest at their wavelength and direction."""
    t, x = np.mgrid[:96, :96]
    flat = describe((0.5 + 0.4 * np.sin(2 * np.pi * t / 7))[None])[0, 12, 12, :32].reshape(4, 8)
    steep = describe((0.5 + 0.4 * np.sin(2 * np.pi * x / 12))[None])[0, 12, 12, :32].reshape(4, 8)
    assert np.unravel_index(flat.argmax(), (4, 8)) == (1, 4)
    assert np.unravel_index(steep.argmax(), (4, 8)) == (2, 0)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 37, 300])
def test_smoothing_by_products_equals_the_filter(n):
    """Results are equal for stacks shorter than the Gaussian, for one and several blocks, odd and even."""
    x = np.random.default_rng(n).random((2, n, 6), dtype=np.float32)
    for sigma in (2.5, 7):
        expected = every_second(np.repeat(gaussian_filter1d(x, sigma, axis=1, truncate=3), 2, axis=2))[:, :, :6]
        np.testing.assert_allclose(smoothed(x, sigma), expected, atol=1e-6)


def test_upsampled_grid_points_have_correct_positions():
    """The maximum after upsampling a single grid point is at its position."""
    nodes = np.zeros((1, 8, 11, 1))
    nodes[0, 2, 4] = 3
    back = upsample(nodes, (30, 41))[0, ..., 0]
    assert np.unravel_index(back.argmax(), back.shape) in [(10, 18), (10, 19), (11, 18), (10, 17), (9, 18)]


def test_votes_along_flat_reflectors_fall_off_exponentially():
    """On flat reflectors the two sweeps equal the explicit sum, row by row."""
    values = np.random.default_rng(0).random((2, 3, 9, 2)).astype("f4")
    away = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    weights = np.where(away == 0, NODE_WEIGHT, np.exp(-4 * away / REACH))
    expected = np.einsum("xy,nryc->nrxc", weights / weights.sum(axis=1, keepdims=True), values)
    dip, even = np.zeros((2, 3, 9), "f4"), np.zeros((2, 3, 9, 1), "f4")
    np.testing.assert_allclose(along_reflectors(values, dip, even), expected, rtol=1e-5)


def test_votes_do_not_cross_a_change_of_features():
    """On each side of an abrupt change of the features, the average is that of this side alone."""
    values = np.random.default_rng(0).random((1, 3, 12, 2)).astype("f4")
    features, dip = np.zeros((1, 3, 12, 4), "f4"), np.zeros((1, 3, 12), "f4")
    features[:, :, 5:] = 1
    sides = [
        along_reflectors(values[:, :, part], dip[:, :, part], features[:, :, part]) for part in (slice(5), slice(5, 12))
    ]
    np.testing.assert_allclose(along_reflectors(values, dip, features), np.concatenate(sides, axis=2), rtol=1e-5)


def test_votes_follow_a_dipping_reflector():
    """Constant values along a dipping reflector stay, and noise is removed; horizontal smoothing would blur them."""
    rows, columns = np.mgrid[:120, :200]
    section = (0.5 + 0.5 * np.sin((rows - 0.5 * columns) / 3)).astype("f4")[None]
    nodes = np.mgrid[:30, :50] * 4 + 2.5
    layer = ((nodes[0] - 0.5 * nodes[1]) % 60 < 30).astype("f4")[None, ..., None]
    noisy = layer + np.random.default_rng(0).normal(0, 0.3, layer.shape).astype("f4")
    found, inner = dips(section), (slice(None), slice(4, -4), slice(6, -6))
    np.testing.assert_allclose(found[inner], 0.5, atol=0.03)
    off = [
        np.sqrt(np.mean((along_reflectors(noisy, dip, 0 * layer) - layer)[inner] ** 2)) for dip in (found, 0 * found)
    ]
    assert off[0] < 0.7 * 0.3 < off[1]
