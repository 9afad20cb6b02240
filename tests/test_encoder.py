"""The pretrained encoder: what it must not see, and that tiles and sizes do not matter."""

import numpy as np
import pytest
import xarray as xr

import outcrop as oc
from outcrop.features import encoder
from outcrop.features.encoder import ANSWERS, WEIGHTS, Encoder
from outcrop.mapping.encoder_mapping import SURROUND, Places
from outcrop.mapping.pixels import UNSURE, class_shares
from outcrop.mapping.registry import load_mapper
from outcrop.mapping.texture import node_familiarity


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


@pytest.fixture(scope="module")
def weak():
    """Patches of layers, and of layers with a band of noise on the left, with what surrounds them."""
    rng = np.random.default_rng(0)
    side = 96 + 2 * SURROUND
    windows = 0.5 + 0.3 * np.sin(np.arange(side)[:, None] / 2 + rng.uniform(0, 6, (24, 1, 1))) * np.ones(side)
    windows += 0.05 * rng.standard_normal(windows.shape)
    windows[12:, :, SURROUND : SURROUND + 40] = rng.random((12, side, 40))
    windows = windows.astype(np.float32)
    return windows, windows[:, SURROUND:-SURROUND, SURROUND:-SURROUND], ["other"] * 12 + ["chaotic"] * 12


def test_patches_with_their_surroundings_teach(weak, tmp_path):
    """Noise is told from layers in sections; the mapper comes back from the disk to the bit; strokes update it."""
    windows, patches, classes = weak
    mapper = oc.EncoderMapper(members=1, patches_per_class=12, n_features=60, rounds=8)
    mapper.fit(patches, classes, places=_places(windows))
    found = mapper.predict(windows[12:16]) == 2
    assert found[:, :, SURROUND + 5 : SURROUND + 35].mean() > 0.95
    assert found[:, :, -40:].mean() < 0.05
    mapper.save(tmp_path / "mapper")
    np.testing.assert_array_equal(load_mapper(tmp_path / "mapper").scores(patches[:2]), mapper.scores(patches[:2]))
    nodes = mapper.nodes(patches[:1])[0].reshape(-1, mapper.nodes(patches[:1]).shape[-1])[:20]
    updated = mapper.updated(nodes, np.tile([0.0, 1.0], (20, 1)), np.full(20, 50.0))
    assert (updated.node_votes(nodes)[:, 1] > mapper.node_votes(nodes)[:, 1]).all()


def _places(windows):
    """Where the patches lie if every window is a line."""
    volume = xr.DataArray(windows.swapaxes(1, 2), dims=("inline", "crossline", "time"), attrs={"scaled": True})
    grid = oc.PatchGrid(volume, size=windows.shape[1] - 2 * SURROUND)
    starts = [(0, line, SURROUND, SURROUND) for line in range(len(windows))]
    return Places(grid, volume, starts)


def test_lines_and_windows_give_the_same_answers(weak):
    """A line that holds many patches is encoded whole; each patch gets what its window would have given."""
    places, rows = _places(weak[0]), np.array([3, 13, 14])
    assert places.whole.all()
    whole = np.concatenate([answers for _, answers in places.answers(rows)])
    places.whole[:] = False
    single = np.concatenate([answers for _, answers in places.answers(rows)])
    np.testing.assert_allclose(single, whole, atol=1e-4)


def test_the_same_seed_gives_the_same_mapper(weak):
    """Twice the same, without surroundings too."""
    _, patches, classes = weak
    options = {"members": 1, "patches_per_class": 6, "n_features": 30, "rounds": 2}
    first, second = (oc.EncoderMapper(**options).fit(patches, classes).scores(patches[:2]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_windows_hold_their_patches():
    """What lies around patches is mirrored at the ends of the survey; the middle is the patch."""
    volume = oc.datasets.synthetic((4, 60, 50), seed=0)[0]
    grid = oc.PatchGrid(volume, size=(32, 24), step=9)
    starts = grid.places(slice(None))
    windows, patches = grid.around(volume, starts, 20), grid.cut(volume, starts)
    assert windows.shape == (len(starts), 72, 64)
    np.testing.assert_array_equal(windows[:, 20:-20, 20:-20], patches)
    at_edge = np.flatnonzero(starts[:, 3] == 0)
    np.testing.assert_array_equal(windows[at_edge, 19], windows[at_edge, 20])


def test_other_weights_are_another_mapper(weak, tmp_path, monkeypatch):
    """What was learnt on the features of one encoder is refused with those of another."""
    _, patches, classes = weak
    oc.EncoderMapper(members=1, patches_per_class=3, n_features=10, rounds=1).fit(patches, classes).save(tmp_path / "m")
    monkeypatch.setattr("outcrop.mapping.encoder_mapping.weights_digest", lambda: "others")
    with pytest.raises(ValueError, match=r"other weights|fit the mapper again"):
        load_mapper(tmp_path / "m")


def test_answers_that_nobody_showed_are_doubted(weak):
    """Where the texture is usual but the encoder sees what it has not seen in any patch, nothing is sure."""
    _, patches, classes = weak
    mapper = oc.EncoderMapper(members=1, patches_per_class=10, n_features=60, rounds=2).fit(patches, classes)
    nodes = mapper.nodes(patches[:2]).reshape(-1, 78)
    other = nodes.copy()
    other[:, 64:] += 20
    before, after = (node_familiarity(mapper.models_, side) for side in (nodes, other))
    np.testing.assert_array_equal(after[:, 0], before[:, 0])
    assert (before[:, 1] <= before[:, 0]).all() and after[:, 1].max() < 0.01 < before[:, 1].mean()
    unsure = class_shares(mapper.node_votes(nodes), after, np.zeros(len(mapper.classes_), bool), 1.0)
    assert unsure.max() <= 1 - UNSURE * (1 - 1 / len(mapper.classes_)) + 1e-6
