"""Labels, descriptors and sticks on a torch device equal those of NumPy and onnxruntime up to rounding."""

import numpy as np
import pytest

import outcrop as oc
from outcrop.features import energies, patch_encoder, torch_energies
from outcrop.features.encoder import WEIGHTS, Encoder, session
from outcrop.features.torch_encoder import initialisers, torch_net
from outcrop.retrieval import index as retrieval_index

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(scope="module")
def volume():
    """Return five synthetic lines."""
    return oc.datasets.synthetic((5, 130, 151), seed=3)[0]


@pytest.fixture(scope="module")
def sections(volume):
    """Return the sections of the volume, (n, samples, traces) in [0, 1]."""
    return np.clip(0.5 + volume.values.swapaxes(1, 2) / 20_000, 0, 1).astype(np.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cut", [0, 1])
def test_energies_on_a_device_equal_those_of_numpy(sections, device, cut):
    """Odd and even sizes; energies are logarithms of values in float32."""
    sections = sections[:2, cut:, cut:]
    found = torch_energies.describe(sections, device)
    assert np.allclose(found, energies.describe(sections), atol=1e-4)


def test_labels_on_a_device_equal_labels_on_the_cpu(tmp_path, volume):
    """`outcrop label --device` gives the labels of `outcrop label`."""
    found = []
    for device in (None, "cpu"):
        with oc.Job(tmp_path / f"{device}.outcrop", volume=volume) as job:
            job.add_exemplar("fault", (101, 340, 200))
            job.add_exemplar("other", (103, 390, 400))
            job.label(device=device)
            found.append(job.labels["label"].values)
    assert found[0].any()
    assert np.mean(found[0] != found[1]) < 1e-4


def test_patches_are_described_on_several_devices(tmp_path, volume, monkeypatch):
    """Blocks go to the devices in turn, and the descriptors are the same."""
    monkeypatch.setattr("outcrop.retrieval.index.BLOCK", 16)
    seen = []
    described = retrieval_index._described
    monkeypatch.setattr(retrieval_index, "_described", lambda *some: (seen.append(some[2]), described(*some))[1])
    grid = oc.PatchGrid(volume, size=64, step=16)
    one = oc.build_index(volume, grid, tmp_path / "one.outcrop", device="cpu")
    assert set(seen) == {"cpu"}
    seen.clear()
    two = oc.build_index(volume, grid, tmp_path / "two.outcrop", device="cpu,cpu:0")
    assert set(seen) == {"cpu", "cpu:0"}
    np.testing.assert_allclose(two.features[:], one.features[:], atol=1e-6)


def test_devices_on_the_command_line_are_checked(outcrop, tmp_path):
    """Each device of a list is checked, and the error names the missing one."""
    words = ["label", tmp_path / "x.outcrop", "--device"]
    assert "'nonsense' cannot be used" in outcrop(*words, "cpu,nonsense")[2]
    assert "not a job folder" in outcrop(*words, "cpu,cpu")[2]


@pytest.mark.parametrize("device", DEVICES)
def test_net_equals_onnxruntime(device):
    """The torch net gives the results of onnxruntime."""
    x = np.random.default_rng(0).standard_normal((2, 1, 64, 96)).astype(np.float32)
    for expected, found in zip(
        session(str(WEIGHTS)).run(None, {"sections": x}), torch_net(str(WEIGHTS), device).run(x), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4 if device == "cpu" else 2e-2)


def test_initialisers_equal_those_of_onnx():
    """Names, order and values are equal."""
    onnx = pytest.importorskip("onnx")
    expected = onnx.load(WEIGHTS).graph.initializer
    found = initialisers(WEIGHTS)
    assert list(found) == [tensor.name for tensor in expected]
    for tensor in expected:
        np.testing.assert_array_equal(found[tensor.name], onnx.numpy_helper.to_array(tensor))


def test_fault_sticks_are_equal(volume):
    """Fault sticks picked on a device are the same."""
    plain, found = oc.fault_sticks(volume), oc.fault_sticks(volume, device="cpu")
    assert len(plain) == len(found) > 0
    np.testing.assert_allclose(found["likelihood"], plain["likelihood"], atol=1e-3)


def test_predictions_are_equal(sections):
    """Predictions on a device are the same."""
    plain, found = Encoder().answers(sections[:1]), Encoder(device="cpu").answers(sections[:1])
    for name, values in plain.items():
        np.testing.assert_allclose(found[name], values, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_descriptors_equal_those_of_onnxruntime(volume, device):
    """Descriptors of loud and quiet patches of several shapes are equal, and keep the type of the input."""
    measure = oc.MEASURES["encoder"]()
    for size in (99, 64, (40, 77)):
        grid = oc.PatchGrid(volume, size=size, step=40)
        patches = grid.extract(volume, slice(0, 12))
        patches[:4] = 0.5 + 0.1 * (patches[:4] - 0.5)
        found = patch_encoder.describe_on_device(torch.from_numpy(patches).to(device))
        assert str(found.device).startswith(device) and found.dtype == torch.float32
        np.testing.assert_allclose(found.cpu().numpy(), measure.describe(patches), atol=2e-6)
    if device != "cpu":
        assert str(measure.describe(torch.from_numpy(patches).to(device)).device).startswith(device)
    with pytest.raises(ValueError, match="needs 32 x 32"):
        patch_encoder.describe_on_device(torch.zeros(1, 20, 40))
