"""Compute the starts of windows along an axis, and stitch overlapping windows of a section."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def runs_of(mask: Array) -> list[tuple[int, int]]:
    """Return (first, last + 1) of each run of True values in a mask.

    Examples
    --------
    >>> runs_of(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(a, b) for a, b in edges.reshape(-1, 2).tolist()]


def patch_starts(length: int, size: int, step: int) -> list[int]:
    """Return the first index of every patch along one axis; the last patch ends at the end of the axis.

    Examples
    --------
    >>> patch_starts(11, size=4, step=3)
    [0, 3, 6, 7]
    """
    if size > length:
        raise ValueError(f"Patch size {size} exceeds the axis length {length}; choose a size of at most {length}.")
    starts = list(range(0, length - size + 1, step))
    if starts[-1] + size < length:
        starts.append(length - size)
    return starts


def stitch(values: npt.ArrayLike, starts: npt.ArrayLike, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return the weighted mean of overlapping windows, and the sum of their weights.

    The weight of a window falls from its middle to its edge.

    Parameters
    ----------
    values : array, shape (n, a, b, ...)
        Windows.
    starts : array, shape (n, 2)
        First row and column of each window.
    shape : (int, int)
        Shape of the section.

    Returns
    -------
    section : array, shape (n_rows, n_columns, ...)
        Weighted mean; zero outside all windows.
    weight : array, shape (n_rows, n_columns)
        Sum of the weights; zero outside all windows.

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


def add_windows(total: Array, weight: Array, values: Array, starts: npt.ArrayLike) -> None:
    """Add weighted windows to a section `total`, and their weights to `weight`, in place; see `stitch`."""
    _, a, b = values.shape[:3]
    taper = np.outer(_taper(a), _taper(b))
    wide = taper.reshape(a, b, *(1,) * (values.ndim - 3))
    for value, (i, j) in zip(values, np.asarray(starts), strict=True):
        total[i : i + a, j : j + b] += value * wide
        weight[i : i + a, j : j + b] += taper


def _taper(n: int) -> Array:
    return np.asarray(np.sin(np.pi * (np.arange(n) + 0.5) / n).astype(np.float32) + 0.05)
