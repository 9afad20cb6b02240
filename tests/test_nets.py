"""The net mapper learns from the textures what a pixel may be, and answers for sections of any size."""

import numpy as np
import pytest
from test_texture import textures

from outcrop.nets import NetMapper

pytest.importorskip("torch", reason="torch is not installed")
SMALL = {"members": 1, "steps": 30, "width": 8}


@pytest.fixture(scope="module")
def fitted():
    """A small mapper, and the patches it saw."""
    patches, truth, classes = textures(24)
    return NetMapper(**SMALL).fit(patches, classes), patches, truth, classes


def test_finds_the_structure_inside_its_patches(fitted):
    """From the class of whole patches, beyond the reach of the descriptors; none of it where all is background."""
    mapper, patches, truth, _ = fitted
    found = mapper.predict(patches) == 1
    far = np.abs(np.arange(64) - truth.argmax(axis=2)[:24, :, None]) > 28
    assert (found == truth)[:24][far].mean() > 0.85
    assert found[24:].mean() < 0.05


def test_a_pixel_is_taught_its_patch_class_or_the_background(fitted):
    """Nothing else has any probability; painted pixels have what was painted."""
    mapper, patches, _, classes = fitted
    codes = np.array([list(mapper.classes_).index(name) for name in classes])
    masks = np.zeros(patches.shape, np.uint8)
    masks[0, :5] = 2
    target = mapper._targets(patches, codes, masks)
    np.testing.assert_allclose(target.sum(axis=-1), 1, rtol=1e-5)
    assert (target[24:, ..., 0] == 0).all()
    assert (target[0, :5] == [0, 1]).all()


def test_any_size_and_same_seed(fitted):
    """Sections of any size; the same seed gives the same scores."""
    mapper, patches, _, classes = fitted
    assert mapper.scores(patches[:1, :50, :37]).shape == (1, 50, 37, 2)
    again = NetMapper(**SMALL).fit(patches, classes)
    np.testing.assert_allclose(again.scores(patches[:2]), mapper.scores(patches[:2]), atol=1e-4)
