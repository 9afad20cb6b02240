"""Discontinuity of sections, from the semblance of neighbouring traces."""

from math import pi, tan
from typing import Any

import numpy as np

from outcrop.arrays import Array, array_namespace, as_floats, constant, fourier


def discontinuity(sections: Array) -> Array:
    """Return the discontinuity of seismic sections: 1 - semblance along the local dip, from 0 (continuous) to 1.

    Parameters
    ----------
    sections : array, shape (n, rows, columns)
        Rows are time or depth, columns traces.

    Returns
    -------
    array, shape (n, rows - 4, columns - 2)

    Notes
    -----
    The phase of the analytic signal gives the dip, which selects one of four neighbourhoods of 3 x 3 samples, for dips
    of 0, 45, -45 and 90 degrees.
    """
    sections, xp = as_floats(sections)
    signal = analytic(sections - xp.mean(sections, axis=(-2, -1), keepdims=True))
    rows, columns = signal.shape[-2:]

    def at(r: int, c: int) -> Array:
        return signal[..., 2 + r : rows - 2 + r, 1 + c : columns - 1 + c]

    here, near = xp.conj(at(0, 0)), (-1, 0, 1)
    down, across = xp.imag(here * (at(1, 0) - at(-1, 0))), xp.imag(here * (at(0, 1) - at(0, -1)))
    flat, rising, falling = ([[at(t + slope * j, j) for j in near] for t in near] for slope in (0, -1, 1))
    steep = [[at(j, t) for j in near] for t in near]
    tilted = xp.where(down * across > 0, _semblance(rising, xp), _semblance(falling, xp))
    along = xp.where(xp.abs(across) <= tan(pi / 8) * xp.abs(down), _semblance(flat, xp), tilted)
    return 1 - xp.where(xp.abs(across) > tan(3 * pi / 8) * xp.abs(down), _semblance(steep, xp), along)


def analytic(sections: Array) -> Array:
    """Return complex traces: the section as real part, the Hilbert transform of every column as imaginary part."""
    xp = array_namespace(sections)
    n, fft = sections.shape[-2], fourier(xp)
    keep = np.where(np.arange(n) <= n / 2, 2.0, 0.0)  # double the positive frequencies, but not zero and the highest
    keep[[0, n // 2] if n % 2 == 0 else [0]] = 1
    spectrum = fft.fftn(sections, axes=(-2,))
    return fft.ifftn(spectrum * constant(xp, keep[:, None], like=sections, dtype=sections.dtype), axes=(-2,))


def _semblance(neighbours: list[list[Array]], xp: Any) -> Array:
    """Return the semblance: energy of the mean of neighbouring traces, divided by the mean of their energies."""
    stacked = sum(xp.abs(sum(row)) ** 2 for row in neighbours) / 3
    energy = sum(xp.abs(x) ** 2 for row in neighbours for x in row)
    return xp.where(energy > 0, stacked / xp.where(energy > 0, energy, xp.ones_like(energy)), xp.ones_like(energy))
