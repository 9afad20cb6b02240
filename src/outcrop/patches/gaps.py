"""Short gaps between live traces, and how they are bridged."""

from typing import Any

import numpy as np
import numpy.typing as npt

from outcrop.patches.windows import runs_of

Array = npt.NDArray[Any]
GAP = 5  # traces; a longer run of missing ones is not bridged


def short_gaps(live: Array) -> list[tuple[int, int]]:
    """First and last + 1 of the runs of at most `GAP` missing traces that have live ones on both sides.

    Examples
    --------
    >>> short_gaps(np.array([False, True, False, False, True, False]))
    [(2, 4)]
    """
    return [(a, b) for a, b in runs_of(~live) if b - a <= GAP and a > 0 and b < len(live)]


def bridged(live: Array) -> Array:
    """Traces of a line that are live or lie in a short gap between live ones."""
    live = live.copy()
    for a, b in short_gaps(live):
        live[a:b] = True
    return live


def bridge(section: npt.ArrayLike, live: Array) -> Array:
    """Traces of a line with short gaps filled linearly from the live traces on both sides; other gaps are NaN.

    Parameters
    ----------
    section : array, shape (n_traces, n_samples)
        What it holds at missing traces does not count.
    live : bool array, shape (n_traces,)

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
