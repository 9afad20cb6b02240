"""The curvelet frame preserves energy, inverts, treats stacks like images, and maps plane waves to their wedges."""

import numpy as np
import pytest
import reference
import torch

from outcrop import Curvelet

SHAPES = [(32, 32), (33, 47), (64, 65), (99, 99), (97, 131), (128, 128), (35, 300), (150, 300)]


def images(shape, n=2, dtype="float64"):
    """Return random images."""
    return np.random.default_rng(0).normal(size=(n, *shape)).astype(dtype)


def golden():
    """Return the two images of METHOD section 9."""
    r, c = np.mgrid[:99, :99]
    a = 0.5 + 0.5 * np.sin(2 * np.pi * (0.07 * r + 0.02 * c))
    b = 0.5 + 0.25 * np.sin(2 * np.pi * (0.11 * r - 0.03 * c)) + 0.25 * np.cos(2 * np.pi * (0.05 * r + 0.00031 * c * c))
    return a, b


@pytest.mark.parametrize("shape", SHAPES)
def test_preserves_energy_and_inverts(shape):
    """Parseval and perfect reconstruction to rounding, at odd, even and oblong sizes."""
    x, frame = images(shape), Curvelet(shape)
    c = frame.forward(x)
    assert sum(float((w**2).sum()) for scale in c for w in scale) == pytest.approx((x**2).sum(), rel=1e-12)
    np.testing.assert_allclose(frame.adjoint(c), x, atol=1e-12)


@pytest.mark.parametrize("shape", [(99, 99), (64, 65), (33, 47)])
def test_adjoint_passes_the_dot_test(shape):
    """<forward(x), c> = <x, adjoint(c)> for random coefficients."""
    frame, rng = Curvelet(shape), np.random.default_rng(1)
    x = rng.normal(size=shape)
    c = [[rng.normal(size=s) for s in scale] for scale in frame.shapes]
    forward = frame.forward(x)
    left = sum(float((a * b).sum()) for s, t in zip(forward, c, strict=True) for a, b in zip(s, t, strict=True))
    assert left == pytest.approx(float((x * frame.adjoint(c)).sum()), rel=1e-10)


@pytest.mark.parametrize("shape", [(99, 99), (100, 99), (64, 130)])
def test_equals_the_slow_twin(shape):
    """Every coefficient equals the plain centred formulas."""
    x = images(shape, 1)[0]
    for fast, slow in zip(Curvelet(shape).forward(x), reference.curvelet(x), strict=True):
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_stack_equals_loop():
    """Any number of leading axes forms the batch."""
    x, frame = images((48, 50), 6), Curvelet((48, 50))
    stacked = frame.forward(x.reshape(2, 3, 48, 50))
    for i in range(6):
        for s, t in zip(stacked, frame.forward(x[i]), strict=True):
            for a, b in zip(s, t, strict=True):
                np.testing.assert_allclose(a[i // 3, i % 3], b, atol=1e-13)


def test_golden_values():
    """Energies per scale and single coefficients of METHOD section 9."""
    a, b = (Curvelet((99, 99)).forward(x) for x in golden())
    energy = [[sum(float((w**2).sum()) for w in scale) for scale in c] for c in (a, b)]
    assert energy[0] == pytest.approx([2531.0653321118, 1142.5829611996, 0.9659079602, 0.4396629195], abs=1e-9)
    assert energy[1] == pytest.approx([2745.5355623338, 301.7119576522, 8.4281686500, 0.2725051958], abs=1e-9)
    picked = [a[0][0][8, 8], a[1][2][6, 8], a[2][3][12, 8], a[2][19][12, 8]]
    assert picked == pytest.approx([3.368130228236, -0.003668771741, 0.000122918698, -0.000193750936], abs=1e-12)


def test_sizes_at_99():
    """Coefficient sizes of METHOD table 1.10."""
    coarsest, second, third, finest = Curvelet((99, 99)).shapes
    assert coarsest == [(17, 17)]
    assert finest == [(99, 99)]
    assert second[:8] == [(14, 17), (12, 17), (12, 17), (14, 17), (17, 14), (17, 12), (17, 12), (17, 14)]
    assert third[:8] == [(27, 17), (25, 18), (25, 18), (25, 17), (25, 17), (25, 18), (25, 18), (27, 17)]
    assert third[8:16] == [s[::-1] for s in third[:8]]
    assert third[16:] == third[:16]


@pytest.mark.parametrize("wedge", range(16))
def test_plane_wave_lands_in_its_wedge(wedge):
    """Most energy of a dipping plane wave is in the wedge of its direction."""
    slope = (wedge % 8 + 0.5) / 4 - 1  # eight wedges per quadrant, evenly spaced by tangent
    along = np.array([-1, slope] if wedge < 8 else [slope, 1])  # wave vector (rows, columns): first north, then east
    r, c = np.mgrid[:99, :99] - 49
    cycles = 13 * along / abs(along).max()  # per image: the middle of scale 3
    taper = np.hanning(99)[:, None] * np.hanning(99)
    third = Curvelet((99, 99)).forward(taper * np.cos(2 * np.pi * (cycles[0] * r + cycles[1] * c) / 99))[2]
    energy = np.array([(third[i] ** 2).sum() + (third[i + 16] ** 2).sum() for i in range(16)])
    assert energy.argmax() == wedge
    assert energy.max() > 0.5 * energy.sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_agrees_with_numpy(dtype):
    """NumPy and torch give the same coefficients in the same precision, and the same image back."""
    x, frame = images((65, 70), 3, dtype), Curvelet((65, 70))
    ours, theirs = frame.forward(x), frame.forward(torch.from_numpy(x))
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for s, t in zip(ours, theirs, strict=True):
        for a, b in zip(s, t, strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b.numpy(), atol=tolerance)
    np.testing.assert_allclose(frame.adjoint(theirs).numpy(), x, atol=tolerance)


def test_refuses_wrong_image_sizes():
    """Images below 32 samples and images of another shape are refused with their size."""
    with pytest.raises(ValueError, match="at least 32"):
        Curvelet((31, 99))
    with pytest.raises(ValueError, match="this frame is for"):
        Curvelet((64, 64)).forward(np.zeros((64, 65)))
