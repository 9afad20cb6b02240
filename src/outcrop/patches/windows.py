"""Windows along an axis and over a section: where they begin, how overlapping ones are put together."""

import numpy as np


def within(places, n):
    """Places on an axis of n, mirrored at its ends.

    Examples
    --------
    >>> within(np.arange(-2, 6), 4)
    array([1, 0, 0, 1, 2, 3, 3, 2])
    """
    folded = places % (2 * n)
    return np.where(folded < n, folded, 2 * n - 1 - folded)


def patch_starts(length, size, step):
    """First index of every patch along one axis; the last patch touches the end.

    Examples
    --------
    >>> patch_starts(11, size=4, step=3)
    [0, 3, 6, 7]
    """
    if size > length:
        raise ValueError(f"Patch size {size} exceeds the axis length {length}; choose size <= {length}.")
    starts = list(range(0, length - size + 1, step))
    if starts[-1] + size < length:
        starts.append(length - size)
    return starts


def stitch(values, starts, shape):
    """Weighted mean of overlapping windows, heavier in the middle of a window than at its edge.

    Parameters
    ----------
    values : array, shape (n, a, b, ...)
        Windows.
    starts : array, shape (n, 2)
        Where each begins.
    shape : (int, int)
        Of the whole.

    Examples
    --------
    >>> whole, weight = stitch(np.ones((2, 3, 3)), [(0, 0), (1, 0)], (4, 4))
    >>> whole
    array([[1., 1., 1., 0.],
           [1., 1., 1., 0.],
           [1., 1., 1., 0.],
           [1., 1., 1., 0.]])
    """
    values = np.asarray(values)
    total = np.zeros((*shape, *values.shape[3:]), np.result_type(values.dtype, np.float32))
    weight = np.zeros(shape, np.float32)
    add_windows(total, weight, values, starts)
    return total / np.where(weight > 0, weight, 1).reshape(*shape, *(1,) * (values.ndim - 3)), weight


def add_windows(total, weight, values, starts):
    """Add weighted windows to a running total and their weights to another, in place."""
    _, a, b = values.shape[:3]
    taper = np.outer(_taper(a), _taper(b))
    wide = taper.reshape(a, b, *(1,) * (values.ndim - 3))
    for value, (i, j) in zip(values, starts, strict=True):
        total[i : i + a, j : j + b] += value * wide
        weight[i : i + a, j : j + b] += taper


def _taper(n):
    return np.sin(np.pi * (np.arange(n) + 0.5) / n).astype(np.float32) + 0.05
