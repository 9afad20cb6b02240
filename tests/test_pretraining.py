"""How the encoder is made: sections with their truth, training that repeats and resumes, the file that ships."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pretraining import net, sections, train  # noqa: E402


@pytest.fixture(scope="module")
def batch():
    """A dozen sections."""
    return sections.Sections(12).batch(3, crop=160)


def test_it_needs_nothing_of_the_package():
    """NumPy and torch alone."""
    code = "import sys, pretraining.train; sys.exit(any(name.split('.')[0] == 'outcrop' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1]).returncode == 0


def test_sections_are_sound(batch):
    """Finite amplitudes between -1 and 1, silence where nothing is recorded, truth of 0 and 1, planes inside zones."""
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
    """And another one others."""
    source = sections.Sections(2)
    first, again, other = (source.batch(seed).sections for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert other.shape != first.shape or not torch.equal(first, other)


def test_families_can_be_left_out():
    """No fault, no salt, no chaos where they are not wanted; others are refused."""
    source = sections.Sections(8, without=("fault", "salt", "chaos"))
    truth = source.batch(0, crop=192).truth
    assert truth[:, :5].sum() == 0
    with pytest.raises(ValueError, match="'gas' is unknown"):
        sections.Sections(1, without=("gas",)).batch(0)


def test_layers_without_folds_have_the_dip_of_their_age():
    """Where the truth calls a dip, it is that of the layers: sections sheared by hand are flat along it."""
    rows = torch.arange(80.0)[None, :, None].expand(1, 80, 80)
    columns = torch.arange(80.0)[None, None].expand(1, 80, 80)
    nothing = torch.zeros(1, 80, 80, dtype=torch.bool)
    earth = sections.make_earth.__globals__["Earth"](rows, rows - 0.4 * columns, *[nothing] * 5, None)
    dip, layered = sections._dip(earth)
    slope = torch.tan(torch.atan2(dip[:, 0], dip[:, 1]) / 2)[layered]
    np.testing.assert_allclose(slope.median(), 0.4 / 1.1, atol=0.01)


def test_training_in_pieces_is_training_at_once(tmp_path, monkeypatch):
    """The weights are the same to the bit, and another training does not go on in the same folder."""
    monkeypatch.setattr(train, "validate", lambda *arguments, **more: {})
    options = {"steps": 2, "batch": 2, "device": "cpu", "report": lambda *words, **more: None}
    assert train.train(tmp_path / "once", **options)
    assert not train.train(tmp_path / "pieces", minutes=1e-6, **options)
    assert train.train(tmp_path / "pieces", resume=True, **options)
    once, pieces = (torch.load(tmp_path / name / "weights.pt", weights_only=True) for name in ("once", "pieces"))
    assert all(torch.equal(once[name], pieces[name]) for name in once)
    with pytest.raises(ValueError, match="choose another folder"):
        train.train(tmp_path / "pieces", resume=True, **options | {"steps": 3})


def test_the_net_cannot_tell_polarity_and_gain(batch):
    """By construction: before any training."""
    made = net.Net().eval()
    with torch.no_grad():
        x = batch.sections[:2, :96, :96]
        first, other = (made(net.balanced(y)[:, None])[0] for y in (x, -3 * x))
    np.testing.assert_allclose(first, other, atol=1e-4)


def test_the_file_says_what_the_net_says(batch, tmp_path):
    """ONNX and torch agree but for the rounding of the weights, and balance amplitudes alike."""
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
