"""Training of the encoder: synthetic sections with truth, reproducible and resumed training, and the ONNX file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pretraining import net, sections, train  # noqa: E402


@pytest.fixture(scope="module")
def batch():
    """Return a dozen sections."""
    return sections.Sections(12).batch(3, crop=160)


def test_pretraining_does_not_import_the_package():
    """Pretraining needs NumPy and torch only."""
    code = "import sys, pretraining.train; sys.exit(any(name.split('.')[0] == 'outcrop' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1]).returncode == 0


def test_sections_are_valid(batch):
    """Amplitudes are finite in [-1, 1] and 0 outside the recorded part, truth is 0 or 1, faults lie in fault zones."""
    assert batch.sections.shape == (12, 160, 160) and batch.truth.shape == (12, len(sections.CLASSES), 160, 160)
    assert torch.isfinite(batch.sections).all() and batch.sections.abs().max() <= 1
    assert (batch.sections[~batch.live] == 0).all()
    assert set(batch.truth.unique().tolist()) == {0.0, 1.0}
    fault, zone, salt, chaos = (
        batch.truth[:, sections.CLASSES.index(name)] > 0 for name in ("fault", "zone", "salt", "chaos")
    )
    assert not (fault & ~zone).any() and not (zone & (salt | chaos)).any()
    np.testing.assert_allclose((batch.dip**2).sum(1), 1, atol=1e-5)


def test_the_same_seed_gives_the_same_sections():
    """Another seed gives other sections."""
    source = sections.Sections(2)
    first, again, other = (source.batch(seed).sections for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert other.shape != first.shape or not torch.equal(first, other)


def test_structures_can_be_left_out():
    """Sections without faults, salt and chaos have none in their truth; unknown names are refused."""
    source = sections.Sections(8, without=("fault", "salt", "chaos"))
    truth = source.batch(0, crop=192).truth
    assert truth[:, :5].sum() == 0
    with pytest.raises(ValueError, match="'gas' is unknown"):
        sections.Sections(1, without=("gas",)).batch(0)


def test_layers_without_folds_have_the_dip_of_their_age():
    """The dip in the truth is the slope of sheared layers."""
    rows = torch.arange(80.0)[None, :, None].expand(1, 80, 80)
    columns = torch.arange(80.0)[None, None].expand(1, 80, 80)
    nothing = torch.zeros(1, 80, 80, dtype=torch.bool)
    earth = sections.make_earth.__globals__["Earth"](rows, rows - 0.4 * columns, *[nothing] * 5, None)
    dip, layered = sections._dip(earth)
    slope = torch.tan(torch.atan2(dip[:, 0], dip[:, 1]) / 2)[layered]
    np.testing.assert_allclose(slope.median(), 0.4 / 1.1, atol=0.01)


def test_training_in_pieces_is_training_at_once(tmp_path, monkeypatch):
    """The weights are identical, and a training with other options is refused in the same folder."""
    monkeypatch.setattr(train, "validate", lambda *arguments, **more: {})
    options = {"steps": 2, "batch": 2, "device": "cpu", "report": lambda *words, **more: None}
    assert train.train(tmp_path / "once", **options)
    assert not train.train(tmp_path / "pieces", minutes=1e-6, **options)
    assert train.train(tmp_path / "pieces", resume=True, **options)
    once, pieces = (torch.load(tmp_path / name / "weights.pt", weights_only=True) for name in ("once", "pieces"))
    assert all(torch.equal(once[name], pieces[name]) for name in once)
    with pytest.raises(ValueError, match="choose another folder"):
        train.train(tmp_path / "pieces", resume=True, **options | {"steps": 3})


def test_the_net_does_not_depend_on_polarity_and_gain(batch):
    """The architecture ensures it, before any training."""
    made = net.Net().eval()
    with torch.no_grad():
        x = batch.sections[:2, :96, :96]
        first, other = (made(net.balanced(y)[:, None])[0] for y in (x, -3 * x))
    np.testing.assert_allclose(first, other, atol=1e-4)


def test_the_onnx_file_equals_the_net(batch, tmp_path):
    """ONNX and torch agree up to the rounding of the weights, and balance amplitudes equally."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    from outcrop.features.encoder import balanced
    from pretraining.export import to_onnx

    made = net.Net().eval()
    onnx.save(to_onnx(made), tmp_path / "net.onnx")
    x = batch.sections[:2, :96, :128]
    np.testing.assert_allclose(balanced(x.numpy()), net.balanced(x), atol=1e-5)
    with torch.no_grad():
        wanted = made(net.balanced(x)[:, None])
    found = runtime.InferenceSession(tmp_path / "net.onnx").run(None, {"sections": net.balanced(x)[:, None].numpy()})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-2)
