"""Local energies of a section at grid points, by wavelength, direction and width of smoothing."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.ndimage import gaussian_filter1d

from outcrop.arrays import Array, array_namespace, constant
from outcrop.parallel import spans
from outcrop.storage.kept import Kept

WAVELENGTHS = (4, 7, 12, 20)  # pixels
N_DIRECTIONS = 8
SMOOTHING = (5, 14)  # pixels: standard deviations of the Gaussians that average energies around a grid point
STRIDE = 4  # pixels between grid points, the first at 2
MARGIN = 24  # pixels mirrored around a section, so that its edge does not act as a reflector
NODES = 64  # rows of grid points smoothed at once
KEPT = Kept()  # cache: features of the most recent sections


def n_energies() -> int:
    """Return the number of energies at a grid point: wavelengths times directions times widths of smoothing."""
    return len(WAVELENGTHS) * N_DIRECTIONS * len(SMOOTHING)


def describe(sections: npt.ArrayLike) -> np.ndarray:
    """Return log energies at grid points, for four wavelengths, eight directions and two widths of smoothing.

    Parameters
    ----------
    sections : array, shape (n, height, width)
        Values in [0, 1].

    Returns
    -------
    array, shape (n, ceil(height / 4), ceil(width / 4), 64)
        The first grid point lies at pixel 2.
    """
    x, inside = padded(sections)
    shape = x.shape[1:]
    spectrum = scipy.fft.fft2(x)
    nodes = [-(-(part.stop - part.start) // STRIDE) for part in inside]
    out = np.empty((len(SMOOTHING) * len(WAVELENGTHS) * N_DIRECTIONS, len(x), *nodes), np.float32)
    for number, window in enumerate(_log_gabor(shape)):
        columns = scipy.fft.ifft(spectrum * window, axis=1, overwrite_x=True)[:, inside[0]]
        answer = scipy.fft.ifft(columns, axis=2, overwrite_x=True)[:, :, inside[1]]
        half = halved(np.sqrt(answer.real**2 + answer.imag**2))
        for scale, sigma in enumerate(SMOOTHING):
            energy = out[scale * len(WAVELENGTHS) * N_DIRECTIONS + number]
            energy[:] = smoothed(smoothed(half, sigma / 2).swapaxes(1, 2), sigma / 2).swapaxes(1, 2)
    return np.moveaxis(np.log(out + np.float32(1e-3), out=out), 0, -1).copy()


def padded(sections: npt.ArrayLike) -> tuple[np.ndarray, list[slice]]:
    """Return sections minus 0.5, extended for fast Fourier transforms, and two slices.

    The sections are mirrored at their edges. The slices cut the original rows and columns from the extended sections.
    """
    x = np.asarray(sections, np.float32) - np.float32(0.5)
    sizes = x.shape[1:]
    full = [scipy.fft.next_fast_len(size + 2 * MARGIN) for size in sizes]
    pads = [(MARGIN, long - size - MARGIN) for long, size in zip(full, sizes, strict=True)]
    return np.pad(x, [(0, 0), *pads], mode="symmetric"), [slice(MARGIN, MARGIN + size) for size in sizes]


def smoothed(x: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth each column of sections by a Gaussian, and return every second row of the result.

    The result equals that of `gaussian_filter1d` and slicing. Here it is computed many times faster, by products with
    the non-zero blocks of a banded matrix.
    """
    out = np.empty((len(x), -(-x.shape[1] // 2), x.shape[2]), np.float32)
    for rows, taken, weights in _smoothing(x.shape[1], sigma):
        out[:, rows] = weights @ x[:, taken]
    return out


@lru_cache(maxsize=64)
def _smoothing(n: int, sigma: float) -> list[tuple[slice, slice, np.ndarray]]:
    """Return the blocks of a matrix that smooths `n` rows by a Gaussian and selects every second row.

    A block is (output rows, input rows, weights). Entries of the matrix outside the blocks are zero.
    """
    reach = int(3 * sigma + 0.5)  # at which the Gaussian is cut off
    blocks = []
    for span in spans(-(-n // 2), NODES):
        taken = slice(max(0, 2 * span.start + 1 - reach), min(n, 2 * span.stop + reach))
        rows = np.minimum(np.arange(2 * span.start + 1, 2 * span.stop, 2), n - 1)
        unit = np.eye(taken.stop - taken.start, dtype=np.float32)
        weights = gaussian_filter1d(unit, sigma, axis=0, mode="reflect", truncate=3)[rows - taken.start]
        blocks.append((span, taken, weights))
    return blocks


@lru_cache(maxsize=8)
def _log_gabor(shape: tuple[int, int]) -> list[np.ndarray]:
    """Return log-Gabor filters in the frequency plane; the modulus of a filtered section is its envelope.

    This holds because each filter is zero, or nearly zero, on one half of the plane.
    """
    k1, k2 = scipy.fft.fftfreq(shape[0])[:, None], scipy.fft.fftfreq(shape[1])[None]
    radius, angle = np.hypot(k1, k2), np.arctan2(k1, k2)
    radius[0, 0] = 1
    windows = []
    for wavelength in WAVELENGTHS:
        radial = np.exp(-(np.log(radius * wavelength) ** 2) / (2 * np.log(1 / 0.6) ** 2))
        radial[0, 0] = 0
        for direction in range(N_DIRECTIONS):
            off = np.angle(np.exp(1j * (angle - np.pi * direction / N_DIRECTIONS)))
            angular = np.exp(-(off**2) / (2 * (0.6 * np.pi / N_DIRECTIONS) ** 2))
            windows.append((2 * radial * angular).astype(np.float32))
    return windows


def stretched(values: Array, places: np.ndarray, axis: int) -> Array:
    """Interpolate values (NumPy or torch) linearly along an axis at the given positions; constant beyond the ends.

    Examples
    --------
    >>> stretched(np.array([0.0, 4.0]), np.array([-1.0, 0.25, 3.0]), 0)
    array([0., 1., 4.])
    """
    xp, last = array_namespace(values), values.shape[axis] - 1
    places = np.clip(places, 0, last)
    below = np.minimum(places.astype(int), max(last - 1, 0))
    lower, upper = (constant(xp, rows, like=values) for rows in (below, np.minimum(below + 1, last)))
    share = constant(xp, places - below, like=values, dtype=values.dtype)
    share = xp.reshape(share, (-1, *[1] * (values.ndim - 1 - axis)))
    return xp.take(values, lower, axis=axis) * (1 - share) + xp.take(values, upper, axis=axis) * share


def halved(x: np.ndarray) -> np.ndarray:
    """Return means of 2 x 2 pixels; if the number of rows or columns is odd, the last one is repeated."""
    x = _even(x)
    total: np.ndarray = x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]
    return total / 4


def every_second(x: np.ndarray) -> np.ndarray:
    """Return every second pixel of axes 1 and 2; if the number of rows or columns is odd, the last one is repeated."""
    return _even(x)[:, 1::2, 1::2]


def _even(x: np.ndarray) -> np.ndarray:
    """Make the numbers of rows and columns even by repeating the last row and column."""
    odd = [(0, n % 2) for n in x.shape[-2:]]
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + odd, mode="edge") if any(n for _, n in odd) else x
