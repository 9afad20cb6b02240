"""Local energies of a section in wavelengths, directions and scales, at the nodes of a lattice."""

from functools import lru_cache

import numpy as np
import scipy.fft
from scipy.ndimage import gaussian_filter

from outcrop.storage.kept import Kept, content

WAVELENGTHS = (4, 7, 12, 20)  # pixels
N_DIRECTIONS = 8
SMOOTHING = (5, 14)  # pixels: how far around a node its energies are averaged
STRIDE = 4  # pixels between nodes, the first at 2
MARGIN = 24  # pixels mirrored around a section so that its rim is not a reflector
KEPT = Kept()  # features of the sections looked at last


def n_energies():
    """Number of energies that describe a node; whatever follows them is the same in a mirror."""
    return len(WAVELENGTHS) * N_DIRECTIONS * len(SMOOTHING)


def describe(sections):
    """Log energies around the nodes of a lattice, in four wavelengths, eight directions and two scales.

    Parameters
    ----------
    sections : array, shape (n, height, width)
        Values in [0, 1].

    Returns
    -------
    array, shape (n, ceil(height / 4), ceil(width / 4), 64)
        The first node lies at pixel 2.
    """
    x = np.asarray(sections, np.float32) - np.float32(0.5)
    height, width = x.shape[1:]
    shape = tuple(scipy.fft.next_fast_len(size + 2 * MARGIN) for size in (height, width))
    pads = [(0, 0), *((MARGIN, full - size - MARGIN) for full, size in zip(shape, (height, width), strict=True))]
    spectrum = scipy.fft.fft2(np.pad(x, pads, mode="symmetric"))
    out: list[list] = [[] for _ in SMOOTHING]
    for window in _log_gabor(shape):
        envelope = np.abs(scipy.fft.ifft2(spectrum * window))[:, MARGIN : MARGIN + height, MARGIN : MARGIN + width]
        half = halved(envelope)
        for energies, sigma in zip(out, SMOOTHING, strict=True):
            smooth = gaussian_filter(half, (0, sigma / 2, sigma / 2), mode="reflect", truncate=3)
            energies.append(np.log(every_second(smooth) + 1e-3))
    return np.stack([energy for energies in out for energy in energies], axis=-1)


def kept_nodes(sections):
    """What `describe` gives, kept in memory for a while where it is of one section."""
    if len(sections) > 1:
        return describe(sections)
    return KEPT.get((WAVELENGTHS, N_DIRECTIONS, SMOOTHING, content(sections)), lambda: describe(sections))


def mirrored(descriptors):
    """Descriptors of the same places in a section that is seen from behind: directions run the other way round."""
    directions = -np.arange(N_DIRECTIONS) % N_DIRECTIONS
    apart = descriptors[..., : n_energies()].reshape(*descriptors.shape[:-1], -1, N_DIRECTIONS)
    energies = apart[..., directions].reshape(*descriptors.shape[:-1], n_energies())
    return np.concatenate(
        [energies, descriptors[..., n_energies() :]], axis=-1
    )  # what follows does not see the direction


@lru_cache(maxsize=8)
def _log_gabor(shape):
    """Log-Gabor windows on one half plane each, so that the modulus of the answer is the envelope."""
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


def halved(x):
    """Means of 2 x 2 pixels, the last row and column repeated where the size is odd."""
    x = np.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2)], mode="edge")
    return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4


def every_second(x):
    """Every second pixel, the last row and column repeated where the size is odd."""
    x = np.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2)], mode="edge")
    return x[:, 1::2, 1::2]
