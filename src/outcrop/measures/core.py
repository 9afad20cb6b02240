"""Similarity measures between seismic patches: `describe` a stack once, `compare` descriptions pair by pair.

Every measure is a small class with `describe(patches)`, which turns a stack of patches into descriptions (an array or
a list of arrays, one entry per patch along the first axis), and `compare(a, b)`, which turns two sets of descriptions
into the (n_a, n_b) matrix of the measure itself; `distance` says whether that is a distance. `similarity` does both
and always answers with similarities.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import combinations
from math import isqrt, pi, prod, sqrt, tan
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.spatial.distance import cdist

from outcrop.arrays import Array, array_namespace, as_floats, constant, fourier, is_numpy, on_cpu, to_numpy
from outcrop.features import patch_encoder
from outcrop.measures.curvelet import Curvelet
from outcrop.measures.eigenvalues import symmetric_eigenvalues
from outcrop.measures.pyramid import SteerablePyramid, max_levels
from outcrop.parallel import map_blocks, spans

WINDOW = 7  # side of the local windows of CW-SSIM and STSIM


class CurveletSVD:
    r"""Singular values of curvelet coefficients, cut at the effective rank (Alfarraj et al., MMSP 2016).

    Parameters
    ----------
    truncate : bool
        Keep, per coefficient array, only as many singular values as its effective rank, as the paper does.
    finest : bool
        Use the finest scale too, as the paper does. Leaving it out makes the measure a little better on F3.

    Notes
    -----
    With singular values :math:`\sigma_i` of one array and :math:`p_i = \sigma_i / \sum \sigma`, the effective rank is
    :math:`\exp(-\sum p_i \log p_i)`; the first floor(effective rank) values stay, the others become zero. Two patches
    with features u and v have the similarity :math:`1 - \|u - v\|_1 / \|u + v\|_1`.

    Examples
    --------
    >>> patches = np.random.default_rng(0).random((2, 99, 99))
    >>> measure = CurveletSVD()
    >>> features = measure.describe(patches)
    >>> features.shape, measure.compare(features, features).diagonal()
    ((2, 500), array([1., 1.]))
    """

    distance = False

    def __init__(self, *, truncate: bool = True, finest: bool = True):
        self.truncate = truncate
        self.finest = finest

    def describe(self, patches: Array, *, workers: int | None = None) -> Array:
        """Features of a stack of patches, shape (n, n_singular_values); 500 values for 99 x 99 patches."""
        patches, xp = as_floats(patches)
        frame = Curvelet(patches.shape[-2:])
        if not is_numpy(xp):
            # a GPU wants large batches; its memory bounds them
            blocks = spans(patches.shape[0], 4096)
            return xp.concat([self._describe_block(patches[span, ...], frame, xp) for span in blocks])
        out = [np.empty((0, sum(self.lengths(frame))), patches.dtype)]
        blocks = spans(len(patches), 32)
        out += map_blocks(lambda span: self._describe_block(patches[span], frame, xp), blocks, workers=workers)
        return np.concatenate(out)

    def blocks(self, size: tuple[int, int]) -> list[int]:
        """Values that are compared together: all of them."""
        return [sum(self.lengths(Curvelet(size)))]

    def inputs(self) -> dict:
        """What descriptors depend on besides the patches and the parameters of the measure: nothing."""
        return {}

    def lengths(self, frame: Curvelet) -> list[int]:
        """Number of singular values of each coefficient array that the feature vector strings together."""
        scales = frame.windows if self.finest else frame.windows[:-1]
        return [min(window.shape) for scale in scales for window in scale]

    def _describe_block(self, patches, frame, xp):
        scales = list(frame.wedges(patches, finest=self.finest))
        # the cosine part of a wedge is sqrt(2) times the real part
        gains = np.repeat(
            [1.0 if len(wedges) == 1 else np.sqrt(2) for wedges in scales for _ in wedges], self.lengths(frame)
        )
        wedges = [wedge.real for wedges in scales for wedge in wedges]
        values = xp.concat(singular_values_of_each(wedges, xp), axis=-1)
        values = values * constant(xp, gains, like=values, dtype=values.dtype)
        return effective(values, self.lengths(frame)) if self.truncate else values

    def compare(self, a: Array, b: Array) -> Array:
        """Similarity of every pair of features, shape (n_a, n_b), from 0 to 1."""
        return bray_curtis(a, b)


class PatchEncoder:
    r"""Overlap of what a net, pretrained on synthetic sections, sees in two patches; not in the paper.

    Notes
    -----
    Amplitudes are balanced, filtered by five layers of convolutions, and the mean and the spread of every filter over
    the patch become 128 numbers :math:`u \ge 0` of sum one. Two patches with descriptions u and v have the similarity
    :math:`1 - \|u - v\|_1 / \|u + v\|_1`. The net works in float32 whatever the patches are.
    """

    distance = False

    def describe(self, patches, *, workers=None):
        """Descriptions of a stack of patches, shape (n, 128)."""
        patches, xp = as_floats(patches)
        found = patch_encoder.describe(to_numpy(patches), workers=workers)
        return constant(xp, found, like=patches, dtype=patches.dtype)

    def compare(self, a, b):
        """Similarity of every pair of descriptions, shape (n_a, n_b), from 0 to 1."""
        return bray_curtis(a, b)

    def blocks(self, size):
        """Values that are compared together: all of them. Patches that are too small are refused."""
        patch_encoder.check_size(size)
        return [patch_encoder.LENGTH]

    def inputs(self):
        """What descriptions depend on besides the patches: the weights."""
        return {"weights": patch_encoder.weights_digest()}


class Euclidean:
    """Euclidean distance between the pixels of two patches."""

    distance = True

    def describe(self, patches, *, workers=None):
        """Pixels of every patch, shape (n, n_pixels)."""
        patches, xp = as_floats(patches)
        return xp.reshape(patches, (patches.shape[0], prod(patches.shape[1:])))

    def compare(self, a, b):
        """Distance of every pair, shape (n_a, n_b)."""
        return all_pairs(euclidean, [a], [b], side=256 if is_numpy(array_namespace(a)) else 4096)


class CWSSIM:
    r"""Complex-wavelet structural similarity (Sampat, Wang, Gupta, Bovik, Markey 2009).

    Parameters
    ----------
    levels : int
        Levels of the steerable pyramid, of which the last is compared; clipped to what fits the patches. The authors'
        6 do not fit 99 x 99, where 4 do.
    orientations : int
        Oriented bands of that level.

    Notes
    -----
    With the coefficients x and y of two patches in a 7 x 7 window of one band, the window scores
    :math:`2 |\sum x \bar y| / (\sum |x|^2 + \sum |y|^2)`; windows are averaged with Gaussian weights, then bands.
    """

    distance = False

    def __init__(self, *, levels=4, orientations=16):
        self.levels = levels
        self.orientations = orientations

    def describe(self, patches, *, workers=None):
        """Complex bands of the last level, shape (n, orientations, rows, columns)."""
        patches, _ = as_floats(patches)
        shape = patches.shape[-2:]
        pyramid = SteerablePyramid(shape, min(self.levels, max_levels(shape)), self.orientations)
        return describe_blocks(lambda block: [pyramid.level(block, -1)], patches, 32, workers=workers)[0]

    def compare(self, a, b):
        """Similarity of every pair, shape (n_a, n_b), from 0 to 1."""
        windows = (a.shape[-2] - WINDOW + 1) * (a.shape[-1] - WINDOW + 1)
        return all_pairs(coherence, [a], [b], side=_side(array_namespace(a), windows, budget=2**20))


class STSIM:
    r"""Structural texture similarity 1 or 2 (Zujovic, Pappas, Neuhoff 2013).

    Parameters
    ----------
    cross : bool
        Compare correlations between bands too: STSIM-2.
    window : {"global", "local"}
        Statistics of whole bands, or of every 7 x 7 window of them. Which of the two the seismic literature used is not
        known; local windows cost about a thousand times the memory and the time.
    levels, orientations : int
        Of the steerable pyramid; levels are clipped to what fits the patches.

    Notes
    -----
    In every window of a band two patches agree by :math:`(l\, c\, c_{01}\, c_{10})^{1/4}`, where with means
    :math:`\mu` and :math:`\mu'` :math:`l = (2 \mu \mu' + C) / (\mu^2 + \mu'^2 + C)`, c is the same of the standard
    deviations, and :math:`c_{01} = 1 - |\rho - \rho'| / 2` compares the correlations of horizontal neighbours,
    :math:`c_{10}` of vertical ones. The mean over windows, then over bands, is STSIM-1. STSIM-2 counts as further bands
    the pairs of bands of one level, and of one direction on adjacent levels: :math:`1 - |\rho - \rho'| / 2` of the
    correlations of their magnitudes. C is 0.001 for pixels from 0 to 255, so patches are scaled up from [0, 1].
    """

    distance = False

    def __init__(self, *, cross=False, window="global", levels=4, orientations=8):
        self.cross = cross
        self.window = window
        self.levels = levels
        self.orientations = orientations

    def describe(self, patches, *, workers=None):
        """Statistics (n, 6, bands, windows) of groups of bands, and with `cross` correlations (n, pairs, windows)."""
        return describe_blocks(self._describe_block, as_floats(patches)[0], 8, workers=workers)

    def _describe_block(self, patches):
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

    def compare(self, a, b):
        """Similarity of every pair, shape (n_a, n_b), from 0 to 1."""
        n_groups = len(a) - self.cross
        weight = sum(group.shape[2] for group in a[:n_groups])
        total = sum(agreement(x, y) for x, y in zip(a[:n_groups], b[:n_groups], strict=True))
        if self.cross:
            n_pairs, n_windows = a[-1].shape[1:]
            side = 64 if is_numpy(array_namespace(a[-1])) else 512
            total = total + n_pairs - all_pairs(flat_city_block, a[-1:], b[-1:], side=side) / (2 * n_windows)
            weight += n_pairs
        return total / weight


class SeiSIM:
    """Seismic similarity: texture (STSIM-1) times geology (discontinuity maps), after Long, Wang, AlRegib (2015).

    The paper says that the two are combined, not how. **The rule here, a geometric mean, and the attribute, dip-guided
    semblance compared like a band of STSIM-1, are our reading.**

    Parameters
    ----------
    window : {"global", "local"}
        Windows of the texture part, see `STSIM`; discontinuity maps are always compared as wholes.
    levels, orientations : int
        Of the texture part.
    """

    distance = False

    def __init__(self, *, window="global", levels=4, orientations=8):
        self.texture = STSIM(window=window, levels=levels, orientations=orientations)

    def describe(self, patches, *, workers=None):
        """Statistics of the bands as in `STSIM`, and last those of the discontinuity map, shape (n, 6, 1, 1)."""
        patches, _ = as_floats(patches)
        geology = partial(statistics, window="global", stabilizer=1e-6)
        maps = describe_blocks(lambda x: [geology(discontinuity(x)[:, None, ...] + 0j)], patches, 32, workers=workers)
        return self.texture.describe(patches, workers=workers) + maps

    def compare(self, a, b):
        """Similarity of every pair, shape (n_a, n_b), from 0 to 1."""
        return (self.texture.compare(a[:-1], b[:-1]) * agreement(a[-1], b[-1], stabilizer=1e-6)) ** 0.5


class CurveletHistogram:
    r"""Squared-chord distance between histograms of curvelet coefficients (Alaudah, AlRegib, ICIP 2015).

    Parameters
    ----------
    standardize : bool
        Bring every patch to mean 0 and standard deviation 1 first, as the authors' code does; on F3 the measure is
        better without.
    finest : bool, optional
        Use the finest scale too; by default, as the authors' code does, only where there are fewer than four scales.

    Notes
    -----
    For every coefficient array the bins come from the sum of the two patches' coefficients (Scott's rule, rounded to 1,
    2, 3 or 5 times a power of ten), so each pair has its own. :math:`D = \sum (\sqrt{h} - \sqrt{h'})^2` over all bins
    of all arrays is symmetric and zero for equal patches, but no metric.
    """

    distance = True

    def __init__(self, *, standardize=True, finest=None):
        self.standardize = standardize
        self.finest = finest

    def describe(self, patches, *, workers=None):
        """Coefficients, a list over sizes of arrays (n, n_arrays, n_coefficients)."""
        return describe_blocks(self._describe_block, as_floats(patches)[0], 32, workers=workers)

    def _describe_block(self, patches):
        xp, frame = array_namespace(patches), Curvelet(patches.shape[-2:])
        if self.standardize:
            patches = patches - xp.mean(patches, axis=(-2, -1), keepdims=True)
            spread = xp.std(patches, axis=(-2, -1), correction=1, keepdims=True)
            patches = patches / xp.where(spread > 0, spread, xp.ones_like(spread))
        finest = len(frame.windows) < 4 if self.finest is None else self.finest
        by_size: dict[int, list] = {}
        for wedges in frame.wedges(patches, finest=finest):
            gain = 1 if len(wedges) == 1 else sqrt(2)  # of the cosine part over the real part
            for wedge in wedges:
                flat = xp.reshape(gain * wedge.real, (patches.shape[0], -1))
                by_size.setdefault(flat.shape[-1], []).append(flat)
        return [xp.stack(arrays, axis=1) for arrays in by_size.values()]

    def compare(self, a, b):
        """Distance of every pair, shape (n_a, n_b)."""
        xp = array_namespace(a[0])
        side = 16 if is_numpy(xp) else _side(xp, sum(x.shape[1] * x.shape[2] for x in a))
        return all_pairs(squared_chord, a, b, side=side)


def singular_values_of_each(stacks, xp):
    """Singular values of several stacks of matrices; on a GPU those with equally many are solved together."""
    if is_numpy(xp) or on_cpu(stacks[0]):
        return [singular_values(stack, xp) for stack in stacks]
    found: list = [None] * len(stacks)
    for size in {min(stack.shape[-2:]) for stack in stacks}:
        alike = [number for number, stack in enumerate(stacks) if min(stack.shape[-2:]) == size]
        values = _roots(symmetric_eigenvalues(xp.concat([_gram(stacks[number], xp) for number in alike]), xp), xp)
        for place, number in enumerate(alike):
            n = stacks[number].shape[0]
            found[number] = xp.astype(values[place * n : (place + 1) * n, ...], stacks[number].dtype)
    return found


def singular_values(matrices, xp):
    """Singular values of a stack of matrices, descending."""
    if matrices.dtype == xp.float64 and (is_numpy(xp) or matrices.device.type == "cpu"):
        return np.linalg.svd(matrices, compute_uv=False) if is_numpy(xp) else xp.linalg.svdvals(matrices)
    # Eigenvalues of the smaller Gram matrix in float64: as exact as a float32 SVD, a quarter less work, fast on GPUs.
    return xp.astype(_roots(symmetric_eigenvalues(_gram(matrices, xp), xp), xp), matrices.dtype)


def _gram(matrices, xp):
    """The smaller of the products of matrices and their transposes, float64."""
    m = xp.astype(matrices, xp.float64)
    return m @ m.mT if m.shape[-2] <= m.shape[-1] else m.mT @ m


def _roots(values, xp):
    """Square roots of eigenvalues, the largest first, 0 where rounding made one negative."""
    values = xp.flip(values, axis=-1)
    return xp.where(values > 0, values, xp.zeros_like(values)) ** 0.5


def effective(values, lengths):
    """Singular values beyond the effective rank of their array set to zero.

    Parameters
    ----------
    values : array, shape (n, sum(lengths))
        Singular values of several arrays side by side, descending within each.
    lengths : list of int
        How many of them belong to each array.

    Examples
    --------
    >>> effective(np.array([[2.0, 2.0, 0.0, 5.0, 0.1]]), [3, 2])
    array([[2., 2., 0., 5., 0.]])
    """
    xp = array_namespace(values)
    member = np.repeat(np.eye(len(lengths)), lengths, axis=0)
    member = constant(xp, member, like=values, dtype=xp.float64)
    order = constant(xp, np.concatenate([np.arange(n) for n in lengths]), like=values)
    wide = xp.astype(values, xp.float64)
    total = wide @ member @ member.T
    p = wide / xp.where(total > 0, total, xp.ones_like(total))
    entropy = -(p * xp.log(xp.where(p > 0, p, xp.ones_like(p)))) @ member
    rank = xp.floor(xp.exp(entropy) + 1e-12)  # a flat spectrum must not lose a value to rounding
    return xp.where(order < rank @ member.T, values, xp.zeros_like(values))


def bray_curtis(a, b):
    """One less the sum of absolute differences over the sum of all values, of every pair of rows from 0 on."""
    xp = array_namespace(a)
    total = xp.sum(a, axis=-1)[:, None] + xp.sum(b, axis=-1)[None, :]
    difference = city_block(a, b, xp)
    # two all-zero patches are equal
    return 1 - difference / xp.where(total > 0, total, xp.ones_like(total))


def city_block(a, b, xp):
    """Sum of absolute differences of every pair of rows."""
    if not is_numpy(xp):
        import torch

        return torch.cdist(a, b, p=1)
    blocks = map_blocks(lambda span: cdist(a[span], b, "cityblock"), spans(len(a), 64))
    return np.concatenate([np.empty((0, len(b))), *blocks]).astype(a.dtype, copy=False)


def describe_blocks(function, patches, size, *, workers=None):
    """Descriptions (a list of arrays) of a stack, `size` patches at a time in threads, for torch more in one thread."""
    xp, n = array_namespace(patches), patches.shape[0]
    blocks = spans(n, size if is_numpy(xp) else 8 * size)
    mapped = partial(map_blocks, workers=workers) if is_numpy(xp) else map
    described = mapped(lambda span: function(patches[span, ...]), blocks)
    # shapes and types of the parts, also of an empty stack
    like = function(xp.zeros((1, *patches.shape[1:]), dtype=patches.dtype, device=device(patches)))
    out = [xp.empty((n, *part.shape[1:]), dtype=part.dtype, device=device(part)) for part in like]
    for span, parts in zip(blocks, described, strict=True):
        for whole, part in zip(out, parts, strict=True):
            whole[span, ...] = part
    return out


def all_pairs(function, a, b, *, side):
    """Matrix of a symmetric function of descriptions, in blocks of `side` x `side` pairs; half of it if `a` is `b`."""
    xp = array_namespace(a[0])
    same = all(x is y for x, y in zip(a, b, strict=True))
    rows, columns = spans(a[0].shape[0], side), spans(b[0].shape[0], side)
    blocks = [(r, c) for r in rows for c in columns if not same or r.start <= c.start]
    mapped = map_blocks if is_numpy(xp) else map
    values = mapped(lambda at: function([x[at[0], ...] for x in a], [x[at[1], ...] for x in b]), blocks)
    shape, dtype = (a[0].shape[0], b[0].shape[0]), xp.real(a[0][:0, ...]).dtype
    out = xp.empty(shape, dtype=dtype, device=device(a[0]))
    for (r, c), value in zip(blocks, values, strict=True):
        out[r, c] = value
        if same:
            out[c, r] = value.T
    return out


@lru_cache
def _compiled(function):
    """Loops over NumPy arrays as machine code, five to ten times as fast as vectorised; None where numba is missing."""
    try:
        import numba
    except ImportError:
        return None
    # sums may be reordered, but NaN stay NaN; no check for division by zero, which keeps loops from being vectorised
    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "nsz"})(function)


def _side(xp, numbers, *, budget=2**17):
    """Side of blocks of pairs whose intermediate arrays stay in the cache of a core, or keep a GPU busy."""
    return max(1, isqrt((budget if is_numpy(xp) else 2**24) // numbers))


def euclidean(a, b):
    """Euclidean distance of every pair of rows of two arrays, by one matrix product in float64."""
    (a,), (b,) = a, b
    xp, dtype = array_namespace(a), a.dtype
    centre = xp.mean(xp.astype(b, xp.float64), axis=0)  # shorter vectors, less rounding
    x, y = (xp.astype(z, xp.float64) - centre for z in (a, b))
    energy = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :]
    squared = energy - 2 * x @ y.T
    # what is left of equal patches is rounding
    return xp.astype(xp.where(squared > 1e-12 * energy, squared, xp.zeros_like(squared)) ** 0.5, dtype)


def flat_city_block(a, b):
    """Sum of absolute differences of every pair, over all axes but the first."""
    xp = array_namespace(a[0])
    a, b = (xp.reshape(x[0], (x[0].shape[0], -1)) for x in (a, b))
    if is_numpy(xp):
        # a few thousand columns of a block stay in the cache
        return sum(cdist(a[:, part], b[:, part], "cityblock") for part in spans(a.shape[1], 4096))
    import torch

    return torch.cdist(a, b, p=1)


def coherence(a, b):
    """CW-SSIM of every pair of stacks of complex bands (n, bands, rows, columns), at least 7 x 7."""
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


def gaussian(rows, columns, sigma):
    """Gaussian weights of a shape around its middle, summing to one."""
    r, c = np.arange(rows) - (rows - 1) / 2, np.arange(columns) - (columns - 1) / 2
    weights = np.exp(-np.add.outer(r**2, c**2) / (2 * sigma**2))
    return weights / weights.sum()


def _windows(band, xp):
    """All windows of a stack of bands, shape (n_windows, n, 49)."""
    n, rows, columns = band.shape
    starts = [(r, c) for r in range(rows - WINDOW + 1) for c in range(columns - WINDOW + 1)]
    return xp.stack([xp.reshape(band[:, r : r + WINDOW, c : c + WINDOW], (n, -1)) for r, c in starts])


def _energies(band, xp):
    """Energy of the same windows, shape (n_windows, n)."""
    means = moving_mean(xp.real(band) ** 2 + xp.imag(band) ** 2, (WINDOW, WINDOW))
    return WINDOW**2 * xp.reshape(means, (band.shape[0], -1)).T


def statistics(bands, window, *, stabilizer=1e-3):
    """Mean, standard deviation and correlations of neighbours (complex: two parts each) in every window of bands.

    Parameters
    ----------
    bands : array, shape (n, n_bands, rows, columns)
        Complex.
    window : {"global", "local"}
        The whole band, or every 7 x 7 window.
    stabilizer : float
        Keeps correlations of windows without any contrast at one.

    Returns
    -------
    array, shape (n, 6, n_bands, n_windows)
    """
    xp = array_namespace(bands)
    size = _window_size(bands, window)
    centre = xp.mean(bands, axis=(-2, -1), keepdims=True)
    x = bands - centre  # variances of centred bands lose nothing in float32
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


def cross_correlations(magnitudes, window, *, stabilizer=1e-3):
    """Correlations, in every window, of the magnitudes of bands that share a level, or a direction on adjacent levels.

    Parameters
    ----------
    magnitudes : array, shape (n, levels, orientations, rows, columns)
        Of bands that all have the size of the image.
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


def _window_size(bands, window):
    if window not in ("global", "local"):
        raise ValueError(f"window is {window!r}; choose 'global' or 'local'.")
    rows, columns = bands.shape[-2:]
    return (rows, columns) if window == "global" else (min(WINDOW, rows), min(WINDOW, columns))


def _deviation(power, mean, xp):
    variance = power - xp.real(mean) ** 2 - (xp.imag(mean) ** 2 if xp.isdtype(mean.dtype, "complex floating") else 0)
    return xp.where(variance > 0, variance, xp.zeros_like(variance)) ** 0.5


def moving_mean(x, size):
    """Mean of every window of a size that lies inside the last two axes.

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


def _along(x, axis, start, length):
    return x[..., start : start + length, :] if axis == -2 else x[..., start : start + length]


def agreement(a, b, *, stabilizer=1e-3):
    """Fourth root of l c c01 c10 of every pair of `statistics`, mean over windows, sum over bands."""
    xp, n_windows = array_namespace(a), a.shape[3]
    x = xp.reshape(a, (a.shape[0], 6, a.shape[2] * n_windows))
    y = x if a is b else xp.reshape(b, (b.shape[0], 6, b.shape[2] * n_windows))
    compiled = _compiled(_agreement_loops) if is_numpy(xp) else None
    function = compiled or _agreement
    side = 16 if compiled else _side(xp, x.shape[2])
    return all_pairs(lambda x, y: function(x[0], y[0], stabilizer), [x], [y], side=side) / n_windows


def _agreement(x, y, stabilizer):
    xp = array_namespace(x)
    x, y = ([xp.expand_dims(z[:, i, ...], axis=axis) for i in range(6)] for z, axis in ((x, 1), (y, 0)))
    product = _alike(x[0], y[0], stabilizer) * _alike(x[1], y[1], stabilizer)
    for i in (2, 4):
        product *= 1 - 0.5 * ((x[i] - y[i]) ** 2 + (x[i + 1] - y[i + 1]) ** 2) ** 0.5
    product = xp.where(product > 0, product, xp.zeros_like(product))
    return xp.sum((product**0.5) ** 0.5, axis=-1)


def _alike(x, y, stabilizer):
    return (2 * x * y + stabilizer) / (x**2 + (y**2 + stabilizer))


def _agreement_loops(x, y, stabilizer):
    out = np.zeros((len(x), len(y)))
    for start in range(0, x.shape[2], 1024):  # so much of every patch stays in the cache
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


def discontinuity(sections):
    """Discontinuity of seismic sections: one minus semblance along the local dip, from 0 (continuous) to 1.

    Parameters
    ----------
    sections : array, shape (n, rows, columns)
        Rows are time or depth, columns traces.

    Returns
    -------
    array, shape (n, rows - 4, columns - 2)

    Notes
    -----
    The dip of the analytic signal's phase picks one of four 3 x 3 neighbourhoods: along 0, 45, -45 or 90 degrees.
    """
    sections, xp = as_floats(sections)
    signal = analytic(sections - xp.mean(sections, axis=(-2, -1), keepdims=True))
    rows, columns = signal.shape[-2:]

    def at(r, c):
        return signal[..., 2 + r : rows - 2 + r, 1 + c : columns - 1 + c]

    here, near = xp.conj(at(0, 0)), (-1, 0, 1)
    down, across = xp.imag(here * (at(1, 0) - at(-1, 0))), xp.imag(here * (at(0, 1) - at(0, -1)))
    flat, rising, falling = ([[at(t + slope * j, j) for j in near] for t in near] for slope in (0, -1, 1))
    steep = [[at(j, t) for j in near] for t in near]
    tilted = xp.where(down * across > 0, _semblance(rising, xp), _semblance(falling, xp))
    along = xp.where(xp.abs(across) <= tan(pi / 8) * xp.abs(down), _semblance(flat, xp), tilted)
    return 1 - xp.where(xp.abs(across) > tan(3 * pi / 8) * xp.abs(down), _semblance(steep, xp), along)


def analytic(sections):
    """Complex trace: a section and, as its imaginary part, the Hilbert transform of every column."""
    xp = array_namespace(sections)
    n, fft = sections.shape[-2], fourier(xp)
    keep = np.where(np.arange(n) <= n / 2, 2.0, 0.0)  # twice the positive frequencies, once zero and the highest
    keep[[0, n // 2] if n % 2 == 0 else [0]] = 1
    spectrum = fft.fftn(sections, axes=(-2,))
    return fft.ifftn(spectrum * constant(xp, keep[:, None], like=sections, dtype=sections.dtype), axes=(-2,))


def _semblance(neighbours, xp):
    """Energy of the mean over neighbouring traces over the mean of their energies, both summed over time."""
    stacked = sum(xp.abs(sum(row)) ** 2 for row in neighbours) / 3
    energy = sum(xp.abs(x) ** 2 for row in neighbours for x in row)
    return xp.where(energy > 0, stacked / xp.where(energy > 0, energy, xp.ones_like(energy)), xp.ones_like(energy))


def squared_chord(a, b):
    """Squared-chord distance of every pair of lists of coefficient arrays, with bins made for the pair."""
    xp = array_namespace(a[0])
    function = (_compiled(_chord_loops) if is_numpy(xp) else None) or _chord
    total = sum(function(x, y) for x, y in zip(a, b, strict=True))
    return xp.astype(total, a[0].dtype, copy=False)


def _chord(x, y):
    """One list entry of `squared_chord`, all pairs at once."""
    xp = array_namespace(x)
    x, y = x[:, None, ...], y[None, ...]
    both = x + y
    low, high = xp.min(both, axis=-1, keepdims=True), xp.max(both, axis=-1, keepdims=True)
    width = nice(3.5 * xp.std(both, axis=-1, correction=1, keepdims=True) / both.shape[-1] ** (1 / 3))
    left = width * xp.floor(low / width)
    bins = xp.ceil((high - left) / width)
    bins = xp.where(bins > 0, bins, xp.ones_like(bins))
    one, two = _histogram(x, left, width, bins), _histogram(y, left, width, bins)
    return xp.sum((one**0.5 - two**0.5) ** 2, axis=(-2, -1))


def _chord_loops(x, y):
    n = x.shape[2]
    out = np.zeros((len(x), len(y)))
    place, counts = np.empty(n, np.int64), np.empty((2, n))  # Scott's rule makes fewer bins than there are values
    for i in range(len(x)):
        for j in range(len(y)):
            for k in range(x.shape[1]):
                u, v = x[i, k], y[j, k]
                low = high = u[0] + v[0]
                mean = variance = 0.0
                for m in range(n):
                    both = u[m] + v[m]
                    low, high, mean = min(low, both), max(high, both), mean + both
                mean /= n
                for m in range(n):
                    variance += (u[m] + v[m] - mean) ** 2
                if not np.isfinite(variance):
                    out[i, j] = np.nan
                    continue
                width = 3.5 * np.sqrt(variance / (n - 1)) / n ** (1 / 3)
                power = 10 ** np.floor(np.log10(width)) if width > 0 else 1.0
                share = width / power
                width = power * (1 + (share >= 1.5) + (share >= 2.5) + 2 * (share >= 4) + 5 * (share >= 7.5))
                left = width * np.floor(low / width)
                bins = min(max(1, int(np.ceil((high - left) / width))), n)
                counts[:, :bins] = 0
                for side, values in enumerate((u, v)):
                    for m in range(n):
                        at = (values[m] - left) / width
                        place[m] = np.floor(at) - (at == bins)  # the last bin is closed
                    for m in range(n):
                        if 0 <= place[m] < bins:
                            counts[side, place[m]] += 1
                for m in range(bins):
                    out[i, j] += (np.sqrt(counts[0, m]) - np.sqrt(counts[1, m])) ** 2
    return out


def nice(width):
    """Bin widths rounded to 1, 2, 3, 5 or 10 times a power of ten; 1 where there is no spread.

    Examples
    --------
    >>> nice(np.array([0.0, 0.16, 2.4, 26.0, 41.0]))
    array([ 1. ,  0.2,  2. , 30. , 50. ])
    """
    xp = array_namespace(width)
    width = xp.where(width > 0, width, xp.ones_like(width))
    power = 10 ** xp.floor(xp.log10(width))
    steps = xp.ones_like(width)
    for limit, step in ((1.5, 1), (2.5, 1), (4, 2), (7.5, 5)):
        steps = steps + step * xp.astype(width / power >= limit, width.dtype)
    return power * steps


def _histogram(x, left, width, bins):
    """Counts in half-open bins, the last one closed, values outside dropped: one bin axis in place of the last axis."""
    xp = array_namespace(x)
    most = int(xp.max(bins)) + 1  # one bin more, for what is dropped
    place = (x - left) / width
    place = xp.floor(place) - xp.astype(place == bins, place.dtype)
    place = xp.where((place >= 0) & (place < bins), place, xp.full_like(place, most - 1))
    cells = tuple(place.shape[:-1])
    first = constant(xp, most * np.arange(prod(cells)).reshape(*cells, 1), like=x)
    counts = xp.bincount(xp.reshape(xp.astype(place, xp.int64) + first, (-1,)), minlength=most * prod(cells))
    return xp.astype(xp.reshape(counts, (*cells, most))[..., :-1], x.dtype)


MEASURES: dict[str, Callable] = {
    "euclidean": Euclidean,
    "cw-ssim": CWSSIM,
    "stsim-1": STSIM,
    "stsim-2": partial(STSIM, cross=True),
    "seisim": SeiSIM,
    "curvelet-histogram": CurveletHistogram,
    "curvelet-svd": CurveletSVD,
    "encoder": PatchEncoder,
}
"""Similarity measures by name; each value makes one, with the parameters of its class.

Examples
--------
>>> import outcrop as oc
>>> list(oc.MEASURES)[-2:]
['curvelet-svd', 'encoder']
>>> oc.MEASURES["curvelet-svd"](finest=False).distance
False
"""
PAPER = tuple(MEASURES)[:7]  # those that the paper compares


INDEXED = ("curvelet-svd", "encoder")  # measures whose descriptors an index can keep and search
DEFAULT = "encoder"  # of them


def indexed_measure(options):
    """Measure of an index by its options: ``measure``, and ``truncate`` and ``finest`` of ``curvelet-svd``."""
    name = options.get("measure") or DEFAULT
    if name not in INDEXED:
        raise ValueError(f"An index cannot be made by measure {name!r}; choose one of {', '.join(INDEXED)}.")
    if name == "curvelet-svd":
        return CurveletSVD(truncate=options["truncate"], finest=options["finest"])
    return MEASURES[name]()


def similarity(a: Array, b: Array, measure: str = "curvelet-svd", **parameters: Any) -> Array:
    """Similarity of every patch of one stack with every patch of another.

    Parameters
    ----------
    a, b : array, shape (n, height, width)
        Patches with values in [0, 1].
    measure : str
        A name from `MEASURES`.
    **parameters
        Passed to the measure, for instance ``finest=False`` for ``curvelet-svd``.

    Returns
    -------
    array, shape (n_a, n_b)
        Higher is more similar; distances are divided by the largest of their row and subtracted from one.

    Examples
    --------
    >>> patches = np.random.default_rng(0).random((3, 64, 64))
    >>> similarity(patches, patches).diagonal()
    array([1., 1., 1.])
    """
    if measure not in MEASURES:
        raise ValueError(f"Unknown measure {measure!r}; choose one of {', '.join(MEASURES)}.")
    chosen = MEASURES[measure](**parameters)
    first = _check(a)
    second = first if b is a else _check(b)
    if first.shape[1:] != second.shape[1:]:
        sizes = [" x ".join(map(str, x.shape[1:])) for x in (first, second)]
        raise ValueError(f"Patches of {sizes[0]} and of {sizes[1]} cannot be compared; cut both to one size.")
    described = chosen.describe(first)
    values = chosen.compare(described, described if b is a else chosen.describe(second))
    if not chosen.distance:
        return values
    xp = array_namespace(values)
    largest = xp.max(values, axis=-1, keepdims=True)
    return 1 - values / xp.where(largest > 0, largest, xp.ones_like(largest))


def _check(patches):
    patches, xp = as_floats(patches)
    if patches.ndim != 3:
        raise ValueError(f"Patches have shape {tuple(patches.shape)}; pass a stack (n, height, width).")
    if not bool(xp.all(xp.isfinite(patches))):
        raise ValueError("Patches hold NaN or infinite values; leave those patches out.")
    return patches
