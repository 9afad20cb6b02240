"""The complex steerable pyramid: oriented band-pass images at several levels of resolution.

Reference: Portilla, Simoncelli, A parametric texture model based on joint statistics of complex wavelet coefficients,
International Journal of Computer Vision 40, 2000.
"""

from functools import lru_cache
from math import factorial, floor, log2, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from outcrop.arrays import Array, as_floats, constant, fourier
from outcrop.measures.curvelet import frequencies


class Filter(NamedTuple):
    """Filters of one level: the frequencies of the image that the filters use, and their weights."""

    shape: tuple[int, int]  # shape of the bands
    source: np.ndarray  # position in the flattened spectrum of the image, per frequency of the band
    weight: np.ndarray  # shape (n_bands, rows * columns)


Plan = tuple[tuple[int, int], int, int, bool]  # shape of the images, levels, orientations, whether bands are decimated


class SteerablePyramid:
    """Complex steerable pyramid for images of one shape, with even or odd sizes.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the images.
    levels : int
        Number of levels, each one octave lower; at most floor(log2(shorter side)) - 2.
    orientations : int
        Number of oriented bands per level; band b passes the directions around ``pi * b / orientations``.
    decimate : bool
        True: the size of bands halves from level to level, and the coefficients of level l are ``4**(l - 1)`` times as
        large. False: all bands have the size of the image. Then the energy of the image is the energy of the two
        residuals plus half the energy of the bands.

    Examples
    --------
    >>> high, bands, low = SteerablePyramid((99, 99)).forward(np.random.default_rng(0).random((5, 99, 99)))
    >>> high.shape, [band.shape for band in bands], low.shape
    ((5, 99, 99), [(5, 8, 99, 99), (5, 8, 50, 50), (5, 8, 25, 25), (5, 8, 13, 13)], (5, 7, 7))
    """

    def __init__(
        self, shape: tuple[int, int], levels: int = 4, orientations: int = 8, *, decimate: bool = True
    ) -> None:
        most = max_levels(shape)
        if not 1 <= levels <= most:
            raise ValueError(f"{levels} pyramid levels on images of shape {tuple(shape)}; choose 1 to {most}.")
        self.plan: Plan = ((int(shape[0]), int(shape[1])), levels, orientations, decimate)

    def forward(self, x: Array) -> tuple[Array, list[Array], Array]:
        """Return the high-pass residual, a list with the complex bands of each level, and the low-pass residual."""
        high, *bands, low = self._filtered(x, slice(None))
        return high[..., 0, :, :].real, bands, low[..., 0, :, :].real

    def level(self, x: Array, number: int) -> Array:
        """Return the complex bands (..., orientations, rows, columns) of one level: 0 the finest, -1 the coarsest."""
        number = range(self.plan[1])[number]
        return self._filtered(x, slice(number + 1, number + 2))[0]

    def _filtered(self, x: Array, part: slice) -> list[Array]:
        x, xp = as_floats(x)
        if tuple(x.shape[-2:]) != self.plan[0]:
            raise ValueError(f"Images have shape {tuple(x.shape[-2:])}; this pyramid is for {self.plan[0]}.")
        batch, fft = tuple(x.shape[:-2]), fourier(xp)
        spectrum = xp.reshape(fft.fftn(x, axes=(-2, -1)), (*batch, 1, -1))
        return [
            fft.ifftn(xp.reshape(xp.take(spectrum, source, axis=-1) * weight, (*batch, -1, *shape)), axes=(-2, -1))
            for shape, source, weight in _cast(self.plan, xp, spectrum.dtype, device(x))[part]
        ]


def max_levels(shape: tuple[int, int]) -> int:
    """Return the largest number of pyramid levels for images of a shape.

    Examples
    --------
    >>> max_levels((99, 99)), max_levels((150, 300))
    (4, 5)
    """
    return floor(log2(min(shape))) - 2


@lru_cache(maxsize=32)
def _cast(plan: Plan, xp: Any, dtype: Any, where: Any) -> list[tuple[tuple[int, int], Array, Array]]:
    """Return the filters of a pyramid as arrays of the namespace `xp`, with a given type and device."""
    like = xp.zeros(1, dtype=dtype, device=where)
    return [
        (f.shape, constant(xp, f.source, like=like), constant(xp, f.weight, like=like, dtype=dtype))
        for f in _filters(*plan)
    ]


@lru_cache(maxsize=16)
def _filters(shape: tuple[int, int], levels: int, orientations: int, decimate: bool) -> list[Filter]:
    """Return the filters of the high-pass residual, of every level and of the low-pass residual."""
    # frequencies of rows and columns as fractions of the highest frequency, in the order of the FFT
    f1, f2 = np.meshgrid(*(2 * frequencies(n) / n for n in shape), indexing="ij")
    radius, angle = np.hypot(f1, f2), np.arctan2(f1, f2)
    radius[0, 0] = 2 / shape[1]  # zero has no logarithm; use that of its neighbour
    octave = [np.clip(np.log2(radius) + level + 1, 0, 1) * pi / 2 for level in range(levels + 1)]
    filters, size, low = [_crop(np.sin(octave[0])[None], shape)], shape, np.cos(octave[0])
    steer = _steer(angle, orientations)
    for level in range(1, levels + 1):
        filters.append(_crop(low * np.sin(octave[level]) * steer, size))
        size = ((size[0] + 1) // 2, (size[1] + 1) // 2) if decimate else size
        low = low * np.cos(octave[level])
    return [*filters, _crop(low[None], size)]


def _steer(angle: np.ndarray, orientations: int) -> Array:
    """Return the angular factor of every oriented band: 0 for half of the directions, so that bands are analytic."""
    order = orientations - 1
    gain = 2**order * factorial(order) / sqrt(orientations * factorial(2 * order))
    turned = angle - pi * np.arange(orientations)[:, None, None] / orientations
    return (-1j) ** order * 2 * gain * np.where(np.cos(turned) > 0, np.cos(turned), 0) ** order


def _crop(weight: np.ndarray, size: tuple[int, int]) -> Filter:
    """Return filters with the given weights, cut to the frequencies that bands of a given size can represent."""
    rows, columns = weight.shape[-2:]
    source = np.add.outer(frequencies(size[0]) % rows * columns, frequencies(size[1]) % columns).ravel()
    return Filter(size, source, weight.reshape(len(weight), -1)[:, source])
