"""The net mapper learns from the textures what a pixel may be, and answers for sections of any size."""

import numpy as np
import pytest
from test_texture import textures

from outcrop.nets import NetMapper
from outcrop.texture import describe, upsample

torch = pytest.importorskip("torch", reason="torch is not installed")
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


@pytest.mark.parametrize("shape", [(64, 48), (33, 50), (99, 35), (7, 6)])
def test_votes_of_a_net_stay_where_they_were_cast(shape):
    """A net whose votes rise linearly down or across: at the pixels between the nodes they are the same again."""
    for places in np.indices(shape).astype(np.float32):
        ramp = torch.from_numpy(places[None] / places.max() * 0.8 + 0.1)
        mapper = NetMapper(device="cpu")
        mapper.nets_ = [lambda x, ramp=ramp: torch.stack([ramp, 1 - ramp], 1).log()]
        nodes = mapper.net_votes(np.zeros((1, *shape)))
        assert nodes.shape[:3] == describe(np.zeros((1, *shape))).shape[:3]
        found = (upsample(nodes, shape)[0, ..., 0] - 0.1) / 0.8 * places.max()
        # outside of the first and last node, which lies at pixel 4 k + 2.5, votes are constant
        inside = (places > 2) & (places < (places.max() + 1) // 4 * 4 - 1)
        np.testing.assert_allclose(found[inside], places[inside], atol=0.1)


def test_the_vote_of_a_pixel_lands_on_its_node():
    """Votes for one class in the 4 x 4 pixels around node (5, 3) have their centre of gravity there."""
    votes = np.full((1, 2, 48, 40), 1e-6, np.float32)
    votes[0, 0, 21:25, 13:17] = 1
    mapper = NetMapper(device="cpu")
    mapper.nets_ = [lambda x: torch.from_numpy(votes).log()]
    section = upsample(mapper.net_votes(np.zeros((1, 48, 40))), (48, 40))[0, ..., 0] - 0.5
    centre = [(np.arange(n) * section.sum(axis=1 - axis)).sum() / section.sum() for axis, n in enumerate((48, 40))]
    np.testing.assert_allclose(centre, (22.5, 14.5), atol=0.1)
