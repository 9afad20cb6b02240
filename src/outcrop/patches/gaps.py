"""Interpolate amplitudes in short gaps between live traces."""

from typing import Any

import numpy as np
import numpy.typing as npt

from outcrop.patches.windows import runs_of

Array = npt.NDArray[Any]
GAP = 5  # traces: longest gap that is bridged


def short_gaps(live: Array) -> list[tuple[int, int]]:
    """Return (first, last + 1) of each gap of at most `GAP` missing traces that has live traces on both sides.

    Examples
    --------
    >>> short_gaps(np.array([False, True, False, False, True, False]))
    [(2, 4)]
    """
    return [(a, b) for a, b in runs_of(~live) if b - a <= GAP and a > 0 and b < len(live)]


def bridged(live: Array) -> Array:
    """Return a mask of the traces of a line that are live or lie in a short gap; see `short_gaps`."""
    live = live.copy()
    for a, b in short_gaps(live):
        live[a:b] = True
    return live


def bridge(section: npt.ArrayLike, live: Array) -> Array:
    """Fill short gaps of a section linearly from the live traces on both sides; other missing traces become NaN.

    Parameters
    ----------
    section : array, shape (n_traces, n_samples)
        Values of missing traces have no effect.
    live : bool array, shape (n_traces,)
        Which traces are live.

    Examples
    --------
    >>> bridge([[2.0], [0.0], [4.0], [0.0]], np.array([True, False, True, False])).ravel()
    array([ 2.,  3.,  4., nan], dtype=float32)
    """
    if live.all():
        return np.asarray(section, np.float32)
    filled = np.array(section, np.float32)
    filled[~live] = np.nan
    for a, b in short_gaps(live):
        share = (np.arange(1, b - a + 1, dtype=np.float32) / (b - a + 1))[:, None]
        filled[a:b] = (1 - share) * filled[a - 1] + share * filled[b]
    return filled
