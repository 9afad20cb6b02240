"""Structural similarity measures CW-SSIM, STSIM and SeiSIM, on the bands of a steerable pyramid."""

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from outcrop.arrays import Array, array_namespace, as_floats, constant, is_numpy
from outcrop.measures.discontinuity import discontinuity
from outcrop.measures.pairs import all_pairs, block_side, city_block, compiled_pairs, describe_blocks
from outcrop.measures.pyramid import SteerablePyramid, max_levels

WINDOW = 7  # side of the local windows of CW-SSIM and STSIM


class CWSSIM:
    r"""Complex-wavelet structural similarity (Sampat, Wang, Gupta, Bovik, Markey 2009).

    Parameters
    ----------
    levels : int
        Levels of the steerable pyramid, of which the last is compared; reduced to the maximum for the patch size. The
        authors use 6 levels; patches of 99 x 99 allow 4.
    orientations : int
        Number of oriented bands of the compared level.

    Notes
    -----
    For the coefficients x and y of two patches in a 7 x 7 window of one band, the similarity is
    :math:`2 |\sum x \bar y| / (\sum |x|^2 + \sum |y|^2)`; windows are averaged with Gaussian weights, then bands.
    """

    distance = False

    def __init__(self, *, levels: int = 4, orientations: int = 16) -> None:
        self.levels = levels
        self.orientations = orientations

    def describe(self, patches: Array, *, workers: int | None = None) -> Array:
        """Return the complex bands of the patches on the last level, shape (n, orientations, rows, columns)."""
        patches, _ = as_floats(patches)
        shape = patches.shape[-2:]
        pyramid = SteerablePyramid(shape, min(self.levels, max_levels(shape)), self.orientations)
        return describe_blocks(lambda block: [pyramid.level(block, -1)], patches, 32, workers=workers)[0]

    def compare(self, a: Array, b: Array) -> Array:
        """Return the CW-SSIM similarity of each patch of `a` to each patch of `b`, shape (n_a, n_b), from 0 to 1."""
        windows = (a.shape[-2] - WINDOW + 1) * (a.shape[-1] - WINDOW + 1)
        return all_pairs(coherence, [a], [b], side=block_side(array_namespace(a), windows, budget=2**20))


class STSIM:
    r"""Structural texture similarity 1 or 2 (Zujovic, Pappas, Neuhoff 2013).

    Parameters
    ----------
    cross : bool
        Whether to compare correlations between bands too (STSIM-2).
    window : {"global", "local"}
        Statistics of whole bands, or of every 7 x 7 window. The seismic literature does not state which it used; local
        windows take about a thousand times the memory and time.
    levels, orientations : int
        Levels and orientations of the steerable pyramid; levels are reduced to the maximum for the patch size.

    Notes
    -----
    The similarity of two patches in a window of a band is :math:`(l\, c\, c_{01}\, c_{10})^{1/4}`, where with means
    :math:`\mu` and :math:`\mu'` :math:`l = (2 \mu \mu' + C) / (\mu^2 + \mu'^2 + C)`, c is the same expression with
    standard deviations, :math:`c_{01} = 1 - |\rho - \rho'| / 2` compares the correlations :math:`\rho` of horizontal
    neighbours, and :math:`c_{10}` compares those of vertical neighbours. The mean over windows, then over bands, is
    STSIM-1. STSIM-2 counts pairs of bands as further bands: pairs of one level, and pairs of one direction on adjacent
    levels. The similarity of such a pair is :math:`1 - |\rho - \rho'| / 2` with the correlations of the two bands'
    magnitudes. C is 0.001 for pixels from 0 to 255, so patches are scaled up from [0, 1].
    """

    distance = False

    def __init__(self, *, cross: bool = False, window: str = "global", levels: int = 4, orientations: int = 8) -> None:
        self.cross = cross
        self.window = window
        self.levels = levels
        self.orientations = orientations

    def describe(self, patches: Array, *, workers: int | None = None) -> list[Array]:
        """Return the statistics of bands and, if `cross` is True, the correlations between bands, as a list of arrays.

        Statistics have the shape (n, 6, bands, windows), correlations (n, pairs of bands, windows).
        """
        return describe_blocks(self._describe_block, as_floats(patches)[0], 8, workers=workers)

    def _describe_block(self, patches: Array) -> list[Array]:
        xp, shape = array_namespace(patches), tuple(patches.shape[-2:])
        size = (min(self.levels, max_levels(shape)), self.orientations)
        high, bands, low = SteerablePyramid(shape, *size).forward(255 * patches)
        groups = [statistics(x, self.window) for x in (high[:, None, ...] + 0j, *bands, low[:, None, ...] + 0j)]
        if self.window == "global":
            groups = [xp.concat(groups, axis=2)]
        if self.cross:
            bands = SteerablePyramid(shape, *size, decimate=False).forward(255 * patches)[1]
            groups.append(cross_correlations(xp.abs(xp.stack(bands, axis=1)), self.window))
        return groups

    def compare(self, a: list[Array], b: list[Array]) -> Array:
        """Return the STSIM similarity of each patch of `a` to each patch of `b`, shape (n_a, n_b), from 0 to 1."""
        n_groups = len(a) - self.cross
        weight = sum(group.shape[2] for group in a[:n_groups])
        total = sum(agreement(x, y) for x, y in zip(a[:n_groups], b[:n_groups], strict=True))
        if self.cross:
            n_pairs, n_windows = a[-1].shape[1:]
            side = 64 if is_numpy(array_namespace(a[-1])) else 512
            total = total + n_pairs - all_pairs(city_block, a[-1:], b[-1:], side=side) / (2 * n_windows)
            weight += n_pairs
        return total / weight


class SeiSIM:
    """Seismic similarity: texture (STSIM-1) times geology (discontinuity maps), after Long, Wang, AlRegib (2015).

    The paper does not state how texture and geology are combined. **The geometric mean, and the attribute (dip-guided
    semblance, compared like a band of STSIM-1), are our interpretation.**

    Parameters
    ----------
    window : {"global", "local"}
        Windows of the texture part, see `STSIM`; discontinuity maps are always compared as a whole.
    levels, orientations : int
        Levels and orientations of the texture part.
    """

    distance = False

    def __init__(self, *, window: str = "global", levels: int = 4, orientations: int = 8) -> None:
        self.texture = STSIM(window=window, levels=levels, orientations=orientations)

    def describe(self, patches: Array, *, workers: int | None = None) -> list[Array]:
        """Return a list: the arrays of `STSIM.describe`, and statistics of discontinuity maps, shape (n, 6, 1, 1)."""
        patches, _ = as_floats(patches)
        geology = partial(statistics, window="global", stabilizer=1e-6)
        maps = describe_blocks(lambda x: [geology(discontinuity(x)[:, None, ...] + 0j)], patches, 32, workers=workers)
        return self.texture.describe(patches, workers=workers) + maps

    def compare(self, a: list[Array], b: list[Array]) -> Array:
        """Return the SeiSIM similarity of each patch of `a` to each patch of `b`, shape (n_a, n_b), from 0 to 1."""
        return (self.texture.compare(a[:-1], b[:-1]) * agreement(a[-1], b[-1], stabilizer=1e-6)) ** 0.5


def coherence(a: Array, b: Array) -> Array:
    """Return the CW-SSIM similarity of each patch of `a` to each patch of `b`, shape (n_a, n_b).

    `a` and `b` are lists that hold one array: the complex bands of patches, shape (n, bands, rows, columns), with at
    least 7 rows and 7 columns.
    """
    (a,), (b,) = a, b
    xp = array_namespace(a)
    rows, columns = a.shape[-2:]
    weights = gaussian(rows - WINDOW + 1, columns - WINDOW + 1, rows / 4)
    weights = constant(xp, weights.ravel(), like=a, dtype=xp.real(a).dtype)[:, None, None]
    total = 0.0
    for band in range(a.shape[1]):
        x, y = a[:, band, ...], b[:, band, ...]
        energy = _energies(x, xp)[:, :, None] + _energies(y, xp)[:, None, :]
        product = 2 * xp.abs(_windows(x, xp) @ xp.conj(xp.matrix_transpose(_windows(y, xp))))
        score = xp.where(energy > 0, product / xp.where(energy > 0, energy, xp.ones_like(energy)), xp.ones_like(energy))
        total = total + xp.sum(weights * score, axis=0)
    return total / a.shape[1]


def gaussian(rows: int, columns: int, sigma: float) -> Array:
    """Return Gaussian weights around the middle of a window of a given shape; they sum to 1."""
    r, c = np.arange(rows) - (rows - 1) / 2, np.arange(columns) - (columns - 1) / 2
    weights = np.exp(-np.add.outer(r**2, c**2) / (2 * sigma**2))
    return weights / weights.sum()


def _windows(band: Array, xp: Any) -> Array:
    """Return the values in all 7 x 7 windows of a stack of bands, shape (n_windows, n, 49)."""
    n, rows, columns = band.shape
    starts = [(r, c) for r in range(rows - WINDOW + 1) for c in range(columns - WINDOW + 1)]
    return xp.stack([xp.reshape(band[:, r : r + WINDOW, c : c + WINDOW], (n, -1)) for r, c in starts])


def _energies(band: Array, xp: Any) -> Array:
    """Return the energy in every 7 x 7 window of a stack of bands, shape (n_windows, n)."""
    means = moving_mean(xp.real(band) ** 2 + xp.imag(band) ** 2, (WINDOW, WINDOW))
    return WINDOW**2 * xp.reshape(means, (band.shape[0], -1)).T


def statistics(bands: Array, window: str, *, stabilizer: float = 1e-3) -> Array:
    """Return mean, standard deviation and complex correlations of neighbouring coefficients in every window of bands.

    Parameters
    ----------
    bands : array, shape (n, n_bands, rows, columns)
        Complex.
    window : {"global", "local"}
        One window for the whole band, or every 7 x 7 window.
    stabilizer : float
        Small constant that makes the correlations of constant windows 1.

    Returns
    -------
    array, shape (n, 6, n_bands, n_windows)
        The six statistics: mean, standard deviation, and real and imaginary part of the horizontal and of the vertical
        correlation.
    """
    xp = array_namespace(bands)
    size = _window_size(bands, window)
    centre = xp.mean(bands, axis=(-2, -1), keepdims=True)
    x = bands - centre  # keeps variances accurate in float32
    power = xp.real(x) ** 2 + xp.imag(x) ** 2
    mean = moving_mean(x, size)
    out = [xp.abs(mean + centre), _deviation(moving_mean(power, size), mean, xp)]
    for one, two, smaller in (
        (np.s_[..., :-1], np.s_[..., 1:], (size[0], size[1] - 1)),
        (np.s_[..., :-1, :], np.s_[..., 1:, :], (size[0] - 1, size[1])),
    ):
        mean = moving_mean(x, smaller)
        deviation = _deviation(moving_mean(power, smaller), mean, xp)
        covariance = moving_mean(x[one] * xp.conj(x[two]), smaller) - mean[one] * xp.conj(mean[two])
        correlation = (covariance + stabilizer) / (deviation[one] * deviation[two] + stabilizer)
        out += [xp.real(correlation), xp.imag(correlation)]
    return xp.stack([xp.reshape(part, (*part.shape[:2], -1)) for part in out], axis=1)


def cross_correlations(magnitudes: Array, window: str, *, stabilizer: float = 1e-3) -> Array:
    """Return, for pairs of bands, the correlation of their magnitudes.

    The two bands of a pair lie on one level, or have one direction on adjacent levels.

    Parameters
    ----------
    magnitudes : array, shape (n, levels, orientations, rows, columns)
        Magnitudes of bands that all have the size of the image.
    window, stabilizer
        As in `statistics`.

    Returns
    -------
    array, shape (n, n_pairs, n_windows)
    """
    xp = array_namespace(magnitudes)
    n, levels, orientations, *shape = magnitudes.shape
    number = np.arange(levels * orientations).reshape(levels, orientations)
    pairs = [pair for level in number for pair in combinations(level.tolist(), 2)]
    pairs += zip(number[:-1].ravel().tolist(), number[1:].ravel().tolist(), strict=True)
    one, two = (list(side) for side in zip(*pairs, strict=True))
    x = xp.reshape(magnitudes, (n, levels * orientations, *shape))
    x = x - xp.mean(x, axis=(-2, -1), keepdims=True)
    if window == "global":
        x = xp.reshape(x, (n, levels * orientations, -1))
        products = x @ xp.matrix_transpose(x) / x.shape[-1]
        deviation = xp.linalg.diagonal(products)[..., None] ** 0.5
        covariance = products[:, one, two][..., None]
    else:
        size = _window_size(x, window)
        mean = moving_mean(x, size)
        deviation = _deviation(moving_mean(x**2, size), mean, xp)
        covariance = moving_mean(x[:, one] * x[:, two], size) - mean[:, one] * mean[:, two]
    correlation = (covariance + stabilizer) / (deviation[:, one] * deviation[:, two] + stabilizer)
    return xp.reshape(correlation, (n, len(pairs), -1))


def _window_size(bands: Array, window: str) -> tuple[int, int]:
    if window not in ("global", "local"):
        raise ValueError(f"window is {window!r}; choose 'global' or 'local'.")
    rows, columns = bands.shape[-2:]
    return (rows, columns) if window == "global" else (min(WINDOW, rows), min(WINDOW, columns))


def _deviation(power: Array, mean: Array, xp: Any) -> Array:
    variance = power - xp.real(mean) ** 2 - (xp.imag(mean) ** 2 if xp.isdtype(mean.dtype, "complex floating") else 0)
    return xp.where(variance > 0, variance, xp.zeros_like(variance)) ** 0.5


def moving_mean(x: Array, size: tuple[int, int]) -> Array:
    """Return the mean of every window of a given size on the last two axes.

    Examples
    --------
    >>> moving_mean(np.arange(12.0).reshape(3, 4), (3, 3))
    array([[5., 6.]])
    """
    xp = array_namespace(x)
    for axis, length in zip((-2, -1), size, strict=True):
        n = x.shape[axis] - length + 1
        if n < length:
            windows = [xp.mean(_along(x, axis, i, length), axis=axis, keepdims=True) for i in range(n)]
            x = xp.concat(windows, axis=axis)
        else:
            x = sum(_along(x, axis, i, n) for i in range(length)) / length
    return x


def _along(x: Array, axis: int, start: int, length: int) -> Array:
    return x[..., start : start + length, :] if axis == -2 else x[..., start : start + length]


def agreement(a: Array, b: Array, *, stabilizer: float = 1e-3) -> Array:
    """Return the STSIM-1 similarity of each patch of `a` to each patch of `b`, summed over bands, shape (n_a, n_b).

    `a` and `b` are results of `statistics`. The similarity of a band is the mean over its windows; see `STSIM`.
    """
    xp, n_windows = array_namespace(a), a.shape[3]
    x = xp.reshape(a, (a.shape[0], 6, a.shape[2] * n_windows))
    y = x if a is b else xp.reshape(b, (b.shape[0], 6, b.shape[2] * n_windows))
    compiled = compiled_pairs(_agreement_loops) if is_numpy(xp) else None
    function = compiled or _agreement
    side = 16 if compiled else block_side(xp, x.shape[2])
    return all_pairs(lambda x, y: function(x[0], y[0], stabilizer), [x], [y], side=side) / n_windows


def _agreement(x: Array, y: Array, stabilizer: float) -> Array:
    xp = array_namespace(x)
    x, y = ([xp.expand_dims(z[:, i, ...], axis=axis) for i in range(6)] for z, axis in ((x, 1), (y, 0)))
    product = _closeness(x[0], y[0], stabilizer) * _closeness(x[1], y[1], stabilizer)
    for i in (2, 4):
        product *= 1 - 0.5 * ((x[i] - y[i]) ** 2 + (x[i + 1] - y[i + 1]) ** 2) ** 0.5
    product = xp.where(product > 0, product, xp.zeros_like(product))
    return xp.sum((product**0.5) ** 0.5, axis=-1)


def _closeness(x: Array, y: Array, stabilizer: float) -> Array:
    return (2 * x * y + stabilizer) / (x**2 + (y**2 + stabilizer))


def _agreement_loops(x: np.ndarray, y: np.ndarray, stabilizer: float) -> np.ndarray:
    out = np.zeros((len(x), len(y)))
    for start in range(0, x.shape[2], 1024):  # a part that fits the cache
        a, b = x[:, :, start : start + 1024].copy(), y[:, :, start : start + 1024].copy()
        for i in range(len(a)):
            for j in range(len(b)):
                u, v, total = a[i], b[j], 0.0
                for k in range(a.shape[2]):
                    above = (2 * u[0, k] * v[0, k] + stabilizer) * (2 * u[1, k] * v[1, k] + stabilizer)
                    below = (u[0, k] ** 2 + v[0, k] ** 2 + stabilizer) * (u[1, k] ** 2 + v[1, k] ** 2 + stabilizer)
                    across = 1 - 0.5 * np.sqrt((u[2, k] - v[2, k]) ** 2 + (u[3, k] - v[3, k]) ** 2)
                    down = 1 - 0.5 * np.sqrt((u[4, k] - v[4, k]) ** 2 + (u[5, k] - v[5, k]) ** 2)
                    total += np.sqrt(np.sqrt(np.abs(above / below * across * down)))
                out[i, j] += total
    return out
