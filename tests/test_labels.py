"""Label volumes: patches vote with weights, every live sample is labelled, interrupted runs are resumed."""

import numpy as np
import pytest
import xarray as xr

from outcrop import PatchGrid, export_segy, label_volume, open_volume
from outcrop.labels.decision import decide
from outcrop.labels.stability import stability
from outcrop.labels.store import open_labels
from outcrop.labels.votes import line_votes
from outcrop.mapping.registry import MAPPERS, make_mapper


class ByAmplitude:
    """A mapper with known scores: bright samples are `high`, dark ones `low`, by their distance from 0.5."""

    classes_ = np.array(["low", "high"])
    min_confidence = None

    def scores(self, patches):
        """Evidence of both classes."""
        return np.stack([1 - patches, patches], axis=-1)


def ramp(shape=(4, 70, 60), missing=None):
    """Volume with values in [0, 1] that grow along the crosslines."""
    values = np.broadcast_to(np.linspace(0, 1, shape[1])[None, :, None], shape).astype(np.float32).copy()
    live = np.ones(shape[:2], bool)
    if missing is not None:
        live[missing] = False
        values[missing] = np.nan
    coords = {
        "inline": 10 + np.arange(shape[0]), "crossline": np.arange(shape[1]), "time": 4.0 * np.arange(shape[2]),
        "live": (("inline", "crossline"), live),
    }  # fmt: skip
    return xr.DataArray(values, coords=coords, dims=("inline", "crossline", "time"), attrs={"scaled": True})


@pytest.mark.parametrize("along", ["inline", "crossline"])
def test_votes_of_a_local_mapper_equal_its_scores(along):
    """If all patches give a sample the same score, the vote is that score, on the axes of the volume."""
    volume = ramp((70, 70, 60))
    out = label_volume(volume, PatchGrid(volume, size=33, step=11, along=along), ByAmplitude())
    expected = np.where(volume.values > 0.5, 2, 1)
    assert out["label"].dims == volume.dims
    assert out["label"].dtype == out["confidence"].dtype == np.uint8
    np.testing.assert_array_equal(out["label"], expected)
    sure = np.maximum(volume.values, 1 - volume.values)
    np.testing.assert_allclose(out["confidence"] / 255, sure, atol=0.003)
    assert out.attrs["classes"] == ["low", "high"]


def test_every_live_sample_gets_a_label_and_missing_ones_none():
    """Labels reach the rim of a gap; missing traces are not labelled and have confidence 0."""
    volume = ramp((3, 120, 60), missing=(1, slice(50, 60)))
    out = label_volume(volume, PatchGrid(volume, size=33, step=11), ByAmplitude())
    live = np.isfinite(volume.values)
    assert (out["label"].values[live] > 0).all()
    assert not out["label"].values[~live].any()
    assert not out["confidence"].values[~live].any()


def test_unsure_samples_become_uncertain():
    """With a minimum confidence, only the middle of the ramp is uncertain."""
    volume = ramp()
    out = label_volume(volume, PatchGrid(volume, size=33, step=11), ByAmplitude(), min_confidence=0.75)
    unsure = np.maximum(volume.values, 1 - volume.values) < 0.75
    assert ((out["label"].values == 255) == unsure).mean() > 0.98
    assert (out["label"].values > 0).all()


def test_stored_labels_equal_labels_in_memory_and_are_resumed(tmp_path):
    """Written to disk, stopped and resumed, the result equals that in memory; chosen lines are labelled first."""
    volume = ramp((6, 70, 60))
    grid = PatchGrid(volume, size=33, step=11)
    whole = label_volume(volume, grid, ByAmplitude())
    path, seen = tmp_path / "labels.zarr", []

    def stop(what, done, total):
        seen.append(done)
        if done == 3:
            raise KeyboardInterrupt

    label_volume(volume, grid, ByAmplitude(), path=path, lines=[14])
    assert (open_labels(path)["label"].sel(inline=14) > 0).all()
    assert not (open_labels(path)["label"].sel(inline=12) > 0).any()
    with pytest.raises(KeyboardInterrupt):
        label_volume(volume, grid, ByAmplitude(), path=path, progress=stop)
    calls = []

    class Counted(ByAmplitude):
        def scores(self, patches):
            calls.append(len(patches))
            return super().scores(patches)

    streamed = label_volume(volume, grid, Counted(), path=path)
    xr.testing.assert_equal(streamed.load(), whole)
    assert sum(calls) == 3 * len(grid) // 6  # line 14, and two lines before the stop, were finished


@pytest.mark.parametrize("along", ["inline", "crossline"])
def test_scores_are_stored_on_request(along, tmp_path):
    """The largest score is that of the label, in memory and on disk; scores are read back and exported by name."""
    volume = ramp((40, 40, 36))
    grid = PatchGrid(volume, size=33, step=11, along=along)
    held = label_volume(volume, grid, ByAmplitude(), scores=True)
    streamed = label_volume(volume, grid, ByAmplitude(), scores=True, path=tmp_path / "labels.zarr")
    assert held["score"].dims == ("class", *volume.dims)
    np.testing.assert_array_equal(held["score"].values, streamed["score"].values)
    np.testing.assert_array_equal(held["score"].values.argmax(axis=0) + 1, held["label"].values)
    export_segy(streamed, tmp_path / "low.sgy", what=f"score:{held.attrs['classes'][0]}")
    back = open_volume(tmp_path / "low.sgy")
    np.testing.assert_allclose(back.values, held["score"].values[0] / 2.55, atol=1e-4)
    with pytest.raises(ValueError, match="with scores"):
        label_volume(volume, grid, ByAmplitude(), path=tmp_path / "labels.zarr")


def test_paper_mapper_labels_a_volume():
    """The mapper labels two textures at their positions, twice with the same result bit for bit."""
    from outcrop import LabelMapper

    x, t = np.meshgrid(np.arange(120), np.arange(60), indexing="ij")
    section = np.where(x < 60, 0.9 * (t % 8 < 4), 0.9 * (x % 8 < 4)).astype(np.float32)
    volume = ramp((2, 120, 60)).copy(data=np.stack([section, section]))
    grid = PatchGrid(volume, size=32, step=8)
    classes = np.where(grid.table.crossline < 60, "flat", "steep")
    inside = (np.abs(grid.table.crossline - 60) >= 16).to_numpy()
    mapper = LabelMapper(atoms_per_class=6, sparsity=0.4, iterations=60)
    mapper.fit(grid.extract(volume, np.flatnonzero(inside)), classes[inside])
    first, second = (label_volume(volume, grid, mapper)["label"].values for _ in range(2))
    np.testing.assert_array_equal(first, second)
    names = list(mapper.classes_)
    for name, part in (("flat", slice(0, 48)), ("steep", slice(72, 120))):
        bright = section[part] > 0  # zeros are no evidence for any class
        assert (first[:, part][:, bright] == names.index(name) + 1).mean() > 0.8


def test_decide_turns_votes_into_labels():
    """No votes give no label, too few give uncertain; shares and bytes, classes last and first, agree."""
    votes = np.array([[[0.0, 0.0], [0.2, 0.8], [0.6, 0.4]]])
    for own in (votes, np.moveaxis(np.round(255 * votes).astype("u1"), -1, 0)):
        labels, sure = decide(own, 0.7)
        assert labels.tolist() == [[0, 2, 255]]
        assert sure.tolist() == [[0, 204, 153]]


def test_a_single_class_gives_no_labels():
    """With a single class, its votes are the confidence, and every sample is uncertain."""
    labels, sure = decide(np.array([[0, 1, 255]], np.uint8))
    assert labels.tolist() == [0, 255, 255] and sure.tolist() == [0, 1, 255]


def test_stored_votes_give_the_same_labels():
    """Votes that are stored and decided later give the label volume."""
    volume = ramp((5, 41, 36))
    noise = np.random.default_rng(0).uniform(-0.2, 0.2, volume.shape).astype("f4")
    volume = volume.copy(data=np.clip(volume.values + noise, 0, 1))
    grid = PatchGrid(volume, size=33, step=11)
    labels = label_volume(volume, grid, ByAmplitude(), min_confidence=0.6)
    votes = dict(line_votes(volume, grid, ByAmplitude(), [14, 11]))
    assert list(votes) == [1, 4]
    for line, own in votes.items():
        assert own.shape == (2, 41, 36) and own.dtype == np.uint8
        label, sure = decide(own, 0.6)
        np.testing.assert_array_equal(label, labels["label"][line])
        np.testing.assert_array_equal(sure, labels["confidence"][line])


def test_a_store_belongs_to_one_mapper(tmp_path):
    """Another mapper, grid or minimum confidence is refused with a remedy; the same ones resume the run."""
    from outcrop import LabelMapper

    volume = ramp((3, 70, 60))
    grid, path = PatchGrid(volume, size=33, step=11), tmp_path / "labels.zarr"
    patches = np.random.default_rng(0).random((4, 33, 33)).astype("f4")
    classes = ["fault", "other"] * 2
    first, same, second = (LabelMapper(2, iterations=3, random_state=s).fit(patches, classes) for s in (0, 0, 1))
    label_volume(volume, grid, first, path=path, lines=[10])
    label_volume(volume, grid, same, path=path, lines=[11])
    others = [
        (grid, second, {}),
        (PatchGrid(volume, size=33, step=9), first, {}),
        (grid, first, {"min_confidence": 0.9}),
    ]
    for own, mapper, different in others:
        with pytest.raises(ValueError, match="another path"):
            label_volume(volume, own, mapper, path=path, **different)


@pytest.mark.parametrize("mapping", list(MAPPERS))
def test_a_mapper_is_made_by_its_name(mapping):
    """Seed, device and background are set if the mapper has them; only factorisations need patches on a device."""
    mapper = make_mapper(mapping, seed=7, device="cpu", background="shale")
    known = mapper.get_params()
    assert known["random_state"] == 7
    assert known.get("background", "shale") == "shale" and known.get("device", "cpu") == "cpu"
    assert mapper.torch_device == ("cpu" if "atoms_per_class" in known else None)
    assert make_mapper(mapping).torch_device is None
    with pytest.raises(ValueError, match="Mapping 'sparse' is unknown; choose one of paper"):
        make_mapper("sparse")


def test_stability_measures_changes():
    """Labels by amplitude do not depend on mirroring, grids, lines and seeds; reversed polarity swaps them."""
    volume = ramp((5, 70, 60))
    table = stability(volume, PatchGrid(volume, size=33, step=11), lambda seed: ByAmplitude(), lines=[11, 13])
    shares = table.set_index("change")
    for change in ("mirrored", "grid shifted by half a step", "neighbouring line", "another seed", "3 dB louder"):
        assert shares.loc[change, "all"] > 0.97
    assert shares.loc["polarity reversed", "all"] < 0.05


def test_refuses_wrong_lines_and_grids(tmp_path):
    """Unknown lines, a grid along both directions, and a store without labels are refused."""
    volume = ramp((40, 70, 60))
    grid = PatchGrid(volume, size=33)
    with pytest.raises(ValueError, match="inline 99 cannot be labelled"):
        label_volume(volume, grid, ByAmplitude(), lines=[99])
    with pytest.raises(ValueError, match="make a grid along inline or crossline"):
        label_volume(volume, PatchGrid(volume, size=33, along="both"), ByAmplitude())
    with pytest.raises(ValueError, match="no labels yet"):
        open_labels(tmp_path / "labels.zarr")
