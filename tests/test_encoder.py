"""The pretrained encoder: its invariances, and independence of tiles and sizes."""

import numpy as np
import pytest

from outcrop.features import encoder
from outcrop.features.encoder import ANSWERS, WEIGHTS, Encoder


@pytest.fixture(scope="module")
def section():
    """Return dipping layers with a fault of 8 samples in the middle, shape (1, 144, 176)."""
    rows, columns = np.indices((144, 176))
    shifted = rows + 0.1 * columns + 8 * (columns > 88)
    noise = np.random.default_rng(0).standard_normal((144, 176))
    return (0.5 + 0.2 * np.sin(shifted / 2.5) + 0.1 * np.sin(shifted / 4.1) + 0.02 * noise)[None].astype(np.float32)


def test_the_weights_are_small():
    """The weights are part of the wheel and smaller than 4 MB."""
    assert WEIGHTS.stat().st_size < 4e6


def test_the_encoder_finds_a_fault_and_the_dip(section):
    """The fault plane is found at its position and nowhere else, and the dip of layers is correct."""
    found = Encoder().answers(section)
    assert list(found) == list(ANSWERS) and all(values.shape == section.shape for values in found.values())
    across = found["fault"][0, 20:120].mean(axis=0)
    assert abs(int(across.argmax()) - 88) <= 2
    assert across[80:97].max() > 0.5 > 4 * across[20:60].max()
    assert abs(np.median(found["dip"][0, 20:120, 20:70]) + 0.1) < 0.05


@pytest.mark.parametrize(
    "change",
    [lambda x: 0.5 + 0.25 * (x - 0.5), lambda x: 1 - x, lambda x: x[..., ::-1]],
    ids=["gain", "polarity", "mirror"],
)
def test_features_do_not_depend_on_gain_polarity_and_direction(section, change):
    """Gain and polarity do not change the features; mirroring the section mirrors them."""
    before, after = Encoder().describe(section), Encoder().describe(change(section))
    if change(section)[0, 0, 0] == section[0, 0, -1]:
        after = after[:, :, ::-1]
    np.testing.assert_allclose(after, before, atol=2e-3)


def test_mirroring_reverses_the_dip(section):
    """All other predictions are mirrored without change."""
    before, after = Encoder().answers(section), Encoder().answers(section[..., ::-1])
    np.testing.assert_allclose(after["fault"][..., ::-1], before["fault"], atol=1e-3)
    np.testing.assert_allclose(after["dip"][..., ::-1], -before["dip"], atol=1e-2)


@pytest.mark.parametrize(("width", "tolerance"), [(172, 1e-3), (164, 1e-3), (161, 0.3)])
def test_mirroring_has_no_other_effect_at_any_width(section, width, tolerance):
    """Mirroring is exact if the width is a multiple of 4; otherwise one side is padded by up to three traces."""
    part = section[..., :width]
    before, after = Encoder().answers(part)["fault"], Encoder().answers(part[..., ::-1])["fault"][..., ::-1]
    np.testing.assert_allclose(after, before, atol=tolerance)


def test_missing_samples_have_a_local_effect(section):
    """One missing sample does not change the whole section."""
    holed = section.copy()
    holed[0, 50, 50] = np.nan
    found = Encoder().answers(holed)
    assert all(np.isfinite(values).all() for values in found.values())
    assert np.abs(found["fault"] - Encoder().answers(section)["fault"])[:, :, 100:].max() < 0.1


def test_one_section_needs_a_stack(section):
    """A single section without a stack axis gives a clear error."""
    with pytest.raises(ValueError, match="shape"):
        Encoder().describe(section[0])


def test_results_do_not_depend_on_tiles(section, monkeypatch):
    """Tiles of a large section have sufficient margins."""
    large = np.tile(section, (1, 3, 4))[:, :416, :608]
    whole = Encoder().answers(large)
    monkeypatch.setattr(encoder, "TILE", 208)
    tiled = Encoder().answers(large)
    for name in encoder.CLASSES:
        np.testing.assert_allclose(tiled[name], whole[name], atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 5, 7), (3, 99, 99), (1, 33, 130)])
def test_sections_may_have_any_size(shape):
    """Every fourth pixel of a section of any size has features."""
    sections = np.random.default_rng(1).random(shape, np.float32)
    features = Encoder().describe(sections)
    assert features.shape[:3] == (shape[0], -(-shape[1] // 4), -(-shape[2] // 4))
    assert np.isfinite(features).all()


def test_a_constant_section_has_finite_predictions():
    """A section without signal gives finite predictions."""
    assert all(np.isfinite(values).all() for values in Encoder().answers(np.full((1, 40, 40), 0.5)).values())
