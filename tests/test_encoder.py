"""The pretrained encoder: what it must not see, and that tiles and sizes do not matter."""

import numpy as np
import pytest

from outcrop.features import encoder
from outcrop.features.encoder import ANSWERS, WEIGHTS, Encoder


@pytest.fixture(scope="module")
def section():
    """Dipping layers with a fault of 8 samples down the middle, shape (1, 144, 176)."""
    rows, columns = np.indices((144, 176))
    shifted = rows + 0.1 * columns + 8 * (columns > 88)
    noise = np.random.default_rng(0).standard_normal((144, 176))
    return (0.5 + 0.2 * np.sin(shifted / 2.5) + 0.1 * np.sin(shifted / 4.1) + 0.02 * noise)[None].astype(np.float32)


def test_the_weights_are_small():
    """They travel in the wheel."""
    assert WEIGHTS.stat().st_size < 4e6


def test_it_sees_a_fault_and_the_dip(section):
    """The plane is found where it is, nowhere else, and layers dip as they were made."""
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
def test_what_should_not_matter_does_not(section, change):
    """Gain, polarity and direction leave the features as they are, mirrored where the section is."""
    before, after = Encoder().describe(section), Encoder().describe(change(section))
    if change(section)[0, 0, 0] == section[0, 0, -1]:
        after = after[:, :, ::-1]
    np.testing.assert_allclose(after, before, atol=2e-3)


def test_the_dip_is_the_other_way_round_in_a_mirror(section):
    """Everything else is where it was."""
    before, after = Encoder().answers(section), Encoder().answers(section[..., ::-1])
    np.testing.assert_allclose(after["fault"][..., ::-1], before["fault"], atol=1e-3)
    np.testing.assert_allclose(after["dip"][..., ::-1], -before["dip"], atol=1e-2)


@pytest.mark.parametrize(("width", "tolerance"), [(172, 1e-3), (164, 1e-3), (161, 0.3)])
def test_direction_does_not_matter_at_any_width(section, width, tolerance):
    """Exactly where the width is a multiple of 4; elsewhere up to three mirrored traces more lie on one side."""
    part = section[..., :width]
    before, after = Encoder().answers(part)["fault"], Encoder().answers(part[..., ::-1])["fault"][..., ::-1]
    np.testing.assert_allclose(after, before, atol=tolerance)


def test_missing_samples_are_silence(section):
    """One of them does not take the whole section along."""
    holed = section.copy()
    holed[0, 50, 50] = np.nan
    found = Encoder().answers(holed)
    assert all(np.isfinite(values).all() for values in found.values())
    assert np.abs(found["fault"] - Encoder().answers(section)["fault"])[:, :, 100:].max() < 0.1


def test_one_section_needs_a_stack(section):
    """A shape that cannot be meant is refused in words."""
    with pytest.raises(ValueError, match="shape"):
        Encoder().describe(section[0])


def test_tiles_do_not_matter(section, monkeypatch):
    """A large section is seen by tiles with as much around them as the answers depend on."""
    large = np.tile(section, (1, 3, 4))[:, :416, :608]
    whole = Encoder().answers(large)
    monkeypatch.setattr(encoder, "TILE", 208)
    tiled = Encoder().answers(large)
    for name in encoder.CLASSES:
        np.testing.assert_allclose(tiled[name], whole[name], atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 5, 7), (3, 99, 99), (1, 33, 130)])
def test_any_size(shape):
    """Every fourth pixel has features."""
    sections = np.random.default_rng(1).random(shape, np.float32)
    features = Encoder().describe(sections)
    assert features.shape[:3] == (shape[0], -(-shape[1] // 4), -(-shape[2] // 4))
    assert np.isfinite(features).all()


def test_silence_is_answered():
    """A dead section gives finite answers."""
    assert all(np.isfinite(values).all() for values in Encoder().answers(np.full((1, 40, 40), 0.5)).values())
