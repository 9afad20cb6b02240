"""A net learns from masks, resumes an interrupted training, and saves its weights as plain arrays."""

import json
import sys

import numpy as np
import pytest
import torch
import xarray as xr

import outcrop as oc
from outcrop import PatchGrid, export_training_set, label_volume
from outcrop.cli.program import main
from outcrop.export.training_set import TrainingSet
from outcrop.job.training import net_labels
from outcrop.labels.store import open_labels
from outcrop.train import Net, open_net, train, train_on_arrays

pytest.importorskip("monai", reason="needs monai")


@pytest.fixture(scope="module")
def earth():
    """Return a volume with fine layers above coarse layers, its labels with confidence, and a grid of patches."""
    rng = np.random.default_rng(0)
    i, x, t = np.meshgrid(np.arange(40), np.arange(48), np.arange(64), indexing="ij")
    below = t > 32 + 4 * np.sin(x / 9 + i / 20)
    values = np.where(below, np.sin(t / 3), np.sin(1.6 * t)) / 3 + 0.5 + 0.03 * rng.normal(size=i.shape)
    coords = {"inline": 100 + np.arange(40), "crossline": 300 + np.arange(48), "time": 4.0 * np.arange(64)}
    volume = xr.DataArray(np.clip(values, 0, 1).astype("f4"), coords, attrs={"scaled": True})
    labels = xr.Dataset({"label": volume.copy(data=1 + below.astype("u1"))}, attrs={"classes": ["fine", "coarse"]})
    labels["confidence"] = volume.copy(data=np.full(volume.shape, 255, "u1"))
    return volume, labels, PatchGrid(volume, size=32, step=16, every=4)


@pytest.fixture
def patches(earth, tmp_path):
    """Return the folder of a training set of the volume."""
    volume, labels, grid = earth
    export_training_set(labels, tmp_path / "patches", volume=volume, grid=grid, gap=0)
    return tmp_path / "patches"


def weights(path):
    """Return the arrays of a file of weights."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def test_a_net_learns_two_textures(earth, patches, tmp_path):
    """Labels of sections of any size are correct except at the boundary, and the file gives the same net."""
    volume, labels, grid = earth
    losses = []
    net = train(
        patches,
        tmp_path / "net.npz",
        epochs=8,
        progress=lambda what, done, total: losses.append(float(what.split()[-1])),
    )
    assert losses[-1] < losses[0] / 2
    found = label_volume(volume, grid, net, lines=[100, 120])["label"].sel(inline=[100, 120])
    assert (found == labels["label"].sel(inline=[100, 120])).mean() > 0.9
    section = volume.values[0].T
    scores = net.scores(section[None])
    assert scores.shape == (1, 64, 48, 2)
    np.testing.assert_allclose(scores.sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(open_net(tmp_path / "net.npz").scores(section[None]), scores)
    assert net.scores(section[None, :37, :41]).shape == (1, 37, 41, 2)


def test_a_resumed_training_gives_the_same_net(patches, tmp_path):
    """A training stopped after any epoch ends with the same weights; another seed starts again."""

    def stop(what, done, total):
        if done == 2:
            raise KeyboardInterrupt

    train(patches, tmp_path / "whole.npz", epochs=4)
    with pytest.raises(KeyboardInterrupt):
        train(patches, tmp_path / "half.npz", epochs=4, progress=stop)
    calls = []
    train(patches, tmp_path / "half.npz", epochs=4, progress=lambda what, done, total: calls.append(done))
    assert calls == [3, 4]
    whole, half = weights(tmp_path / "whole.npz"), weights(tmp_path / "half.npz")
    for name, values in whole.items():
        np.testing.assert_array_equal(half[name], values, err_msg=name)
    train(patches, tmp_path / "half.npz", epochs=4, seed=1, progress=lambda what, done, total: calls.append(done))
    assert calls[2:] == [1, 2, 3, 4]


def test_pixels_without_confidence_have_no_effect(earth, tmp_path):
    """Any label, uncertain included, at pixels with confidence 0 gives the same weights of the net."""
    volume, labels, grid = earth
    nets = []
    for wrong in (1, 2, 255):
        changed = labels.copy(deep=True)
        changed["label"].values[:, :24, :20] = wrong
        changed["confidence"].values[:, :24, :20] = 0
        folder = tmp_path / f"patches{wrong}"
        export_training_set(changed, folder, volume=volume, grid=grid, gap=0)
        (folder / "manifest.csv").write_text((tmp_path / "patches1" / "manifest.csv").read_text())
        train(folder, tmp_path / f"{wrong}.npz", epochs=1)
        nets.append(weights(tmp_path / f"{wrong}.npz"))
    for name, values in nets[0].items():
        for other in nets[1:]:
            np.testing.assert_array_equal(other[name], values, err_msg=name)


def test_refuses_wrong_training_input(patches, tmp_path):
    """Zero epochs, a folder without training set and a file without net are refused."""
    for call, message in [
        (lambda: train(patches, tmp_path / "n.npz", epochs=0), "choose 1 or more"),
        (lambda: train(tmp_path / "none", tmp_path / "n.npz"), "is not a training set"),
        (lambda: train(patches, tmp_path / "n.npz", device="abacus"), "Device 'abacus' cannot be used"),
        (lambda: open_net(tmp_path / "none.npz"), "not a file with a net"),
        (lambda: open_net(patches / "classes.toml"), "not a file with a net"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_net_scores_on_its_device():
    """Scores are NumPy arrays, for patches of any size."""
    net = Net(torch.nn.Conv2d(1, 3, 1), ["a", "b", "c"])
    assert isinstance(net.scores(np.zeros((2, 9, 7), "f4")), np.ndarray)


def test_train_command_labels_the_volume_and_reports_scores(earth, tmp_path, monkeypatch, capsys):
    """Labels of the net are stored separately, can be scored and exported, and are refused once they are stale."""
    np.save(tmp_path / "v.npy", earth[0].values)
    job = oc.Job(tmp_path / "v.outcrop", volume=tmp_path / "v.npy")
    job.choose_index(size=32, step=16, every=4)
    job.add_exemplar("fine", (4, 20, 16))
    job.add_exemplar("coarse", (4, 20, 46))
    job.set_background("fine")
    job.label()

    def outcrop(*words):
        monkeypatch.setattr(sys, "argv", ["outcrop", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    code, output, error = outcrop("train", tmp_path / "v.outcrop", "--epochs", "8", "--json")
    assert code == 0, error
    found = json.loads(output)
    assert found["agreement"]["all"] > 0.8 and len(found["inlines"]) == 40
    before = net_labels(job)["label"].values
    assert outcrop("export", tmp_path / "v.outcrop", tmp_path / "net.zarr", "--net")[0] == 0
    np.testing.assert_array_equal(open_labels(tmp_path / "net.zarr")["label"].values, before)
    assert outcrop("evaluate", tmp_path / "v.outcrop", "--net")[0] == 2
    job.label([4], seed=1)
    code, _, error = outcrop("export", tmp_path / "v.outcrop", tmp_path / "old.zarr", "--net")
    assert code == 2
    assert "run 'outcrop train " in error
    job.label([4], seed=0)
    assert outcrop("export", tmp_path / "v.outcrop", tmp_path / "again.zarr", "--net")[0] == 0


def test_patches_in_memory_and_in_a_folder_give_the_same_net(patches, tmp_path):
    """Both functions use the same patches, order and weights, so the nets are equal."""
    read = TrainingSet(patches)
    images, masks, sure = (torch.stack(part).numpy() for part in zip(*read, strict=True))
    from_folder = train(patches, tmp_path / "net.npz", epochs=2, seed=4, device="cpu")
    in_memory = train_on_arrays(images[:, 0], masks, read.classes, weights=sure, epochs=2, seed=4, device="cpu")
    np.testing.assert_array_equal(in_memory.scores(images[:3, 0]), from_folder.scores(images[:3, 0]))
    with pytest.raises(ValueError, match="epochs is 0"):
        train_on_arrays(images[:, 0], masks, read.classes, epochs=0)
