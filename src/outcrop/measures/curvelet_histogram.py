"""Similarity measure: distance between histograms of curvelet coefficients."""

from math import prod, sqrt

import numpy as np

from outcrop.arrays import Array, array_namespace, as_floats, constant, is_numpy
from outcrop.measures.curvelet import Curvelet
from outcrop.measures.pairs import all_pairs, block_side, compiled_pairs, describe_blocks


class CurveletHistogram:
    r"""Squared-chord distance between histograms of curvelet coefficients (Alaudah, AlRegib, ICIP 2015).

    Parameters
    ----------
    standardize : bool
        Whether to standardise every patch to mean 0 and standard deviation 1 first, as the authors' code does; on F3
        the measure is better without it.
    finest : bool, optional
        Whether to use the finest scale; by default only if there are fewer than four scales, as in the authors' code.

    Notes
    -----
    Each pair of patches has its own bins: for every coefficient array they depend on the sum of the two patches'
    coefficients (Scott's rule, rounded to 1, 2, 3 or 5 times a power of ten). The distance of histograms h and h' is
    :math:`D = \sum (\sqrt{h} - \sqrt{h'})^2` over all bins of all arrays. It is symmetric and zero for equal patches,
    but not a metric.
    """

    distance = True

    def __init__(self, *, standardize: bool = True, finest: bool | None = None) -> None:
        self.standardize = standardize
        self.finest = finest

    def describe(self, patches: Array, *, workers: int | None = None) -> list[Array]:
        """Return the curvelet coefficients of the patches.

        A patch has one array of coefficients for each scale and direction. Arrays with equally many coefficients are
        stacked; the result is a list of such stacks, shape (n_patches, n_arrays, n_coefficients).
        """
        return describe_blocks(self._describe_block, as_floats(patches)[0], 32, workers=workers)

    def _describe_block(self, patches: Array) -> list[Array]:
        xp, frame = array_namespace(patches), Curvelet(patches.shape[-2:])
        if self.standardize:
            patches = patches - xp.mean(patches, axis=(-2, -1), keepdims=True)
            spread = xp.std(patches, axis=(-2, -1), correction=1, keepdims=True)
            patches = patches / xp.where(spread > 0, spread, xp.ones_like(spread))
        finest = len(frame.windows) < 4 if self.finest is None else self.finest
        by_size: dict[int, list[Array]] = {}
        for wedges in frame.wedges(patches, finest=finest):
            gain = 1 if len(wedges) == 1 else sqrt(2)  # ratio of cosine part and real part
            for wedge in wedges:
                flat = xp.reshape(gain * wedge.real, (patches.shape[0], -1))
                by_size.setdefault(flat.shape[-1], []).append(flat)
        return [xp.stack(arrays, axis=1) for arrays in by_size.values()]

    def compare(self, a: list[Array], b: list[Array]) -> Array:
        """Return the squared-chord distance of each patch of `a` from each patch of `b`, shape (n_a, n_b).

        `a` and `b` are results of `describe`.
        """
        xp = array_namespace(a[0])
        side = 16 if is_numpy(xp) else block_side(xp, sum(x.shape[1] * x.shape[2] for x in a))
        return all_pairs(squared_chord, a, b, side=side)


def nice(width: Array) -> Array:
    """Round bin widths to 1, 2, 3, 5 or 10 times a power of ten; width 0 becomes 1.

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


def histogram(x: Array, left: Array, width: Array, bins: Array) -> Array:
    """Count values along the last axis in bins of a given width, from `left` on; `bins` is the number of bins.

    Bins are half-open, but the last bin is closed. Values outside all bins are not counted.
    """
    xp = array_namespace(x)
    most = int(xp.max(bins)) + 1  # an extra bin for dropped values
    place = (x - left) / width
    place = xp.floor(place) - xp.astype(place == bins, place.dtype)
    place = xp.where((place >= 0) & (place < bins), place, xp.full_like(place, most - 1))
    cells = tuple(place.shape[:-1])
    first = constant(xp, most * np.arange(prod(cells)).reshape(*cells, 1), like=x)
    counts = xp.bincount(xp.reshape(xp.astype(place, xp.int64) + first, (-1,)), minlength=most * prod(cells))
    return xp.astype(xp.reshape(counts, (*cells, most))[..., :-1], x.dtype)


def squared_chord(a: list[Array], b: list[Array]) -> Array:
    """Return the squared-chord distance of each patch of `a` from each patch of `b`, shape (n_a, n_b).

    `a` and `b` hold curvelet coefficients, from `CurveletHistogram.describe`. The distance is between the histograms of
    two patches; the bins are chosen for each pair separately.
    """
    xp = array_namespace(a[0])
    function = (compiled_pairs(_chord_loops) if is_numpy(xp) else None) or _chord
    total = sum(function(x, y) for x, y in zip(a, b, strict=True))
    return xp.astype(total, a[0].dtype, copy=False)


def _chord(x: Array, y: Array) -> Array:
    """Return the part of the squared-chord distance of each pair of patches that comes from arrays of one size.

    `x` and `y` hold curvelet coefficients, shape (n_patches, n_arrays, n_coefficients).
    """
    xp = array_namespace(x)
    x, y = x[:, None, ...], y[None, ...]
    both = x + y
    low, high = xp.min(both, axis=-1, keepdims=True), xp.max(both, axis=-1, keepdims=True)
    width = nice(3.5 * xp.std(both, axis=-1, correction=1, keepdims=True) / both.shape[-1] ** (1 / 3))
    left = width * xp.floor(low / width)
    bins = xp.ceil((high - left) / width)
    bins = xp.where(bins > 0, bins, xp.ones_like(bins))
    one, two = histogram(x, left, width, bins), histogram(y, left, width, bins)
    return xp.sum((one**0.5 - two**0.5) ** 2, axis=(-2, -1))


def _chord_loops(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    n = x.shape[2]
    out = np.zeros((len(x), len(y)))
    place, counts = np.empty(n, np.int64), np.empty((2, n))  # Scott's rule gives fewer bins than values
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
