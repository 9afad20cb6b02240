"""Random structures of a synthetic survey: layers, chaotic bands, salt domes and faults.

Lengths are in samples, traces and lines. A larger survey has more structures, of the same size.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]
STEP = 4.0  # ms
BIN_SIZE = (25.0, 25.0)  # m
_LEVEL = 256  # samples from one chaotic band to the next
_TILE = (150, 220)  # lines and traces that share a salt dome and a fault zone
KNOT = 64  # samples between horizons that are folded independently
LOG, DEBRIS = 4096, 512  # samples of the impedance log of layers, and of the part behind it for chaotic bands
FINE = 32  # values of the log per sample


class _Band(NamedTuple):
    sample: float
    thickness: float
    unconformity: float
    shift: float
    tilt: float


class _Dome(NamedTuple):
    line: float
    trace: float
    top: float
    radius: float
    height: float
    uplift: float
    phase: float


class _Fault(NamedTuple):
    line: float
    trace: float
    sample: float
    strike: float  # traces per line
    dip: float  # traces per sample; the hanging wall is on the side to which the plane leans
    listric: float  # traces per sample squared
    throw: float
    length: float
    height: float


class Earth(NamedTuple):
    """Random structures that all lines of one synthetic survey have in common.

    `log` has two rows: the impedance of layers, and its lateral variation. `rafts` has the displacement and the
    impedance of the blocks in chaotic bands. The fields from `facies` on are sums of plane waves on the map; see
    `_waves`.
    """

    shape: Shape
    seed: int
    bands: list[_Band]
    domes: list[_Dome]
    faults: list[_Fault]
    log: Array
    rafts: Array
    facies: Array
    fold: Array
    tilt: Array
    rough: Array
    knots: list[Array]


def draw_earth(shape: Shape, seed: int) -> Earth:
    """Draw the random structures of a synthetic survey of shape (n_inline, n_crossline, n_sample) from a seed."""
    n_sample = shape[2]
    rng = np.random.default_rng([seed, 0])
    levels = max(1, round(n_sample / _LEVEL))
    height = n_sample / levels
    domes, faults = _structures(rng, shape[:2], levels, height)
    return Earth(
        shape,
        seed,
        [_band(rng, level * height, height) for level in range(levels)],
        domes,
        faults,
        log=np.stack([_impedance_log(rng), 0.5 * _impedance_log(rng)]),
        rafts=(rng.uniform(0.4, 1, (2, 16)) * np.resize([-1, 1], 16)).astype(np.float32),
        facies=_waves(rng, 6, wavelength=(120, 400)),
        fold=_waves(rng, 6, wavelength=(200, 600)),
        tilt=_waves(rng, 2, wavelength=(350, 600)),
        rough=_waves(rng, 12, wavelength=(12, 45)),
        knots=[_waves(rng, 8, wavelength=(130, 450)) for _ in range(n_sample // KNOT + 2)],
    )


def _band(rng: np.random.Generator, top: float, height: float) -> _Band:
    """Draw a chaotic band and, below it, an unconformity that cuts tilted layers."""
    sample, thickness = top + rng.uniform(0.27, 0.33) * height, rng.uniform(62, 80)
    base = sample + thickness / 2
    return _Band(sample, thickness, base + rng.uniform(4, 15), shift=rng.uniform(0, LOG), tilt=rng.uniform(12, 26))


def _structures(
    rng: np.random.Generator, shape: tuple[int, int], levels: int, height: float
) -> tuple[list[_Dome], list[_Fault]]:
    """Draw a salt dome and, next to it, fault zones in each tile of the map; some tiles of large surveys stay empty.

    A tile has about `_TILE` lines and traces. `levels` is the number of chaotic bands that a trace crosses, and
    `height` the number of samples from one band to the next.
    """
    tiles = [max(1, round(n / size)) for n, size in zip(shape, _TILE, strict=True)]
    lines, traces = (n / tile for n, tile in zip(shape, tiles, strict=True))
    domes: list[_Dome] = []
    faults: list[_Fault] = []
    for row, column in np.ndindex(*tiles):
        first = not domes
        line, trace = (row + 0.5) * lines, (column + 0.5) * traces
        aside = rng.choice([-0.26, 0.26]).item() * traces
        if first or rng.random() < 0.5:
            level = rng.integers(levels).item()
            domes.append(_dome(rng, line + rng.uniform(-0.1, 0.1) * lines, trace - aside, (level + 0.42) * height))
        for level in range(levels):
            if first or rng.random() < 0.6:
                faults += _fault_zone(rng, line, trace + aside, (level + 0.76) * height)
    return domes, faults


def _dome(rng: np.random.Generator, line: float, trace: float, top: float) -> _Dome:
    scale, uplift, phase = rng.uniform(0.9, 1.15), rng.uniform(45, 65), rng.uniform(0, 2 * np.pi)
    return _Dome(line, trace, top + rng.uniform(-6, 6), 54 * scale, 140 * scale, uplift, phase)


def _fault_zone(rng: np.random.Generator, line: float, trace: float, sample: float) -> list[_Fault]:
    """Draw domino faults: four parallel normal faults side by side."""
    leaning, spacing = rng.choice([-1, 1]).item(), rng.uniform(22, 26)
    strike, dip = rng.uniform(-0.2, 0.2), leaning / rng.uniform(4.5, 8)
    return [
        _Fault(
            line + rng.uniform(-10, 10),
            trace + k * spacing + rng.uniform(-2.5, 2.5),
            sample + rng.uniform(-6, 6),
            strike + rng.uniform(-0.04, 0.04),
            dip * rng.uniform(0.9, 1.1),
            listric=leaning * rng.uniform(0, 6e-4),
            throw=rng.uniform(9, 16),
            length=rng.uniform(85, 110),
            height=rng.uniform(80, 95),
        )
        for k in (-1.5, -0.5, 0.5, 1.5)
    ]


def _impedance_log(rng: np.random.Generator) -> Array:
    """Draw the logarithm of impedance at each age (depth before deformation); it has `FINE` values per sample.

    It is constant in each bed. Contrast and bed thickness differ between units of 25 to 70 samples.
    """
    log = np.empty((LOG + DEBRIS) * FINE, np.float32)
    start = 0
    while start < LOG + DEBRIS:
        n = int(rng.uniform(25, 70))
        contrast, bed = ((0.45, 1.4), (2.5, 7)) if start < LOG else ((0.7, 1.0), (2, 3.5))
        bases = np.cumsum(np.maximum(rng.exponential(rng.uniform(*bed), n), 1))
        beds = np.exp(rng.uniform(*np.log(contrast))) * np.clip(rng.standard_t(5, n), -3, 3) + rng.normal(0, 0.3)
        unit = beds[np.searchsorted(bases, np.arange(0, n, 1 / FINE), side="right")]
        log[start * FINE :][: n * FINE] = unit[: len(log) - start * FINE]
        start += n
    return np.asarray(ndimage.uniform_filter1d(log, FINE))  # mean over each sample interval, against aliasing


def _waves(rng: np.random.Generator, n: int, *, wavelength: tuple[float, float]) -> Array:
    """Draw `n` plane waves on the map in random directions, with wavelengths between two limits in traces.

    An array of shape (3, n) is returned: phase change per line, phase change per trace, and phase, in radians.
    """
    k, direction = 2 * np.pi / rng.uniform(*wavelength, n), rng.uniform(0, 2 * np.pi, n)
    return np.stack([k * np.cos(direction), k * np.sin(direction), rng.uniform(0, 2 * np.pi, n)])
