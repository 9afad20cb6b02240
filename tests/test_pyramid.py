"""The steerable pyramid preserves energy, treats stacks like images, and is correct at odd sizes."""

import numpy as np
import pytest
import reference
import torch

from outcrop.measures.pyramid import SteerablePyramid, max_levels

SHAPES = [(99, 99), (64, 64), (97, 131), (100, 33)]


def images(shape, n=2, dtype="float64"):
    """Return random images."""
    return np.random.default_rng(0).normal(size=(n, *shape)).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("orientations", [4, 8])
def test_preserves_energy_without_decimation(shape, orientations):
    """Energy of the image = both residuals + half the bands, to rounding, at odd, even and oblong sizes."""
    x = images(shape)
    high, bands, low = SteerablePyramid(shape, max_levels(shape), orientations, decimate=False).forward(x)
    energy = (high**2).sum() + (low**2).sum() + sum((np.abs(band) ** 2).sum() for band in bands) / 2
    assert energy == pytest.approx((x**2).sum(), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("decimate", [True, False])
def test_equals_the_slow_twin(shape, decimate):
    """Every band equals the plain centred formulas, cropped level by level."""
    x, levels = images(shape, 1)[0], max_levels(shape)
    high, bands, low = SteerablePyramid(shape, levels, 6, decimate=decimate).forward(x)
    slow_high, slow_bands, slow_low = reference.steerable_pyramid(x, levels, 6, decimate)
    np.testing.assert_allclose(high, slow_high, atol=1e-12)
    np.testing.assert_allclose(low, slow_low, atol=1e-10)
    for fast, slow in zip(bands, slow_bands, strict=True):
        np.testing.assert_allclose(fast, slow, atol=1e-11)


def test_golden_values():
    """Single coefficients of pyrtools 1.1.1, whose lookup tables are good to about 1e-5 of the band's largest."""
    r, c = np.mgrid[:96, :128]
    x = 0.5 + 0.5 * np.sin(2 * np.pi * (0.07 * r + 0.02 * c)) + 0.25 * np.cos(2 * np.pi * (0.05 * r + 0.00031 * c * c))
    high, bands, low = SteerablePyramid((96, 128)).forward(x)
    assert bands[1][3, 10, 20] == pytest.approx(0.1956622437693292 + 0.48469349762998243j, abs=1e-5)
    assert bands[2][7, 10, 20] == pytest.approx(-0.0012986453621493 - 0.0058526460993265j, abs=1e-5)
    assert bands[3][5, 5, 6] == pytest.approx(-0.02874622284571019 - 0.01282258175892792j, abs=1e-5)
    assert high[10, 20] == pytest.approx(0.0002711120995784, abs=1e-6)
    assert low[3, 4] == pytest.approx(128.9932659521426, rel=1e-6)


def test_decimation_keeps_every_second_sample():
    """At even sizes, a decimated band is every second sample of the full band, 4 times stronger per level."""
    x = images((64, 96))
    small, full = (SteerablePyramid((64, 96), decimate=d).forward(x)[1] for d in (True, False))
    for level, (a, b) in enumerate(zip(small, full, strict=True)):
        np.testing.assert_allclose(a, 4**level * b[..., :: 2**level, :: 2**level], atol=1e-10)


def test_stack_equals_loop():
    """Any number of leading axes, or none, forms the batch."""
    x, pyramid = images((33, 34), 6), SteerablePyramid((33, 34), 3)
    high, bands, low = pyramid.forward(x.reshape(2, 3, 33, 34))
    for i in range(6):
        one_high, one_bands, one_low = pyramid.forward(x[i])
        np.testing.assert_allclose(high[i // 3, i % 3], one_high, atol=1e-13)
        np.testing.assert_allclose(low[i // 3, i % 3], one_low, atol=1e-12)
        for a, b in zip(bands, one_bands, strict=True):
            np.testing.assert_allclose(a[i // 3, i % 3], b, atol=1e-12)


@pytest.mark.parametrize("band", range(8))
def test_plane_wave_lands_in_its_band(band):
    """A plane wave of wavelength 7 along the direction of a band is strongest there, on the level of its octave."""
    r, c = np.mgrid[:99, :99] - 49
    turn = np.pi * band / 8  # the wave vector's angle from the columns' axis towards the rows'
    taper = np.hanning(99)[:, None] * np.hanning(99)
    wave = taper * np.cos(2 * np.pi / 7 * (r * np.sin(turn) + c * np.cos(turn)))
    bands = SteerablePyramid((99, 99), decimate=False).forward(wave)[1]
    energy = (np.abs(np.stack(bands)) ** 2).sum((-2, -1))
    assert np.unravel_index(energy.argmax(), energy.shape) == (1, band)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_agrees_with_numpy(dtype):
    """NumPy and torch give the same bands in the same precision."""
    x, pyramid = images((65, 70), 3, dtype), SteerablePyramid((65, 70))
    (high, bands, low), theirs = pyramid.forward(x), pyramid.forward(torch.from_numpy(x))
    assert high.dtype == low.dtype == dtype
    for a, b in zip([high, *bands, low], [theirs[0], *theirs[1], theirs[2]], strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-3 if dtype == "float32" else 1e-11)


def test_refuses_too_many_levels_and_other_shapes():
    """Too many levels and images of another shape give errors that state the size."""
    with pytest.raises(ValueError, match=r"6 pyramid levels on images of shape \(99, 99\); choose 1 to 4"):
        SteerablePyramid((99, 99), 6)
    with pytest.raises(ValueError, match="this pyramid is for"):
        SteerablePyramid((64, 64)).forward(np.zeros((64, 65)))
