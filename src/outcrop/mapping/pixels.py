"""Averages of votes along reflectors, and interpolation of votes from grid points to pixels."""

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter

from outcrop.arrays import Array, array_namespace, constant
from outcrop.features.energies import STRIDE, every_second, halved, stretched

REACH = 75  # pixels along a reflector over which the weight of a vote falls to 1 / e
EDGE = 0.75  # change of the features from one grid point to the next at which the weight of a vote falls to 1 / e
SHARP = 8  # exponent of this change; the larger, the more abruptly the weight falls
NODE_WEIGHT = 10  # weight of the vote at the grid point itself relative to a neighbour's; preserves small geobodies
STEEPEST = 2  # samples per trace: steepest dip along which votes are averaged


def dips(sections: np.ndarray) -> Array:
    """Return the dip of the reflectors at each grid point, in samples per trace, from the structure tensor.

    Sections have shape (n, n_samples, n_traces); the result has shape (n, rows, columns).

    Examples
    --------
    >>> rows, columns = np.indices((60, 80))
    >>> dips(0.5 + 0.5 * np.sin((rows - 0.5 * columns) / 2)[None])[0, 7, 10].round(1)
    np.float32(0.5)
    """
    x = np.asarray(sections, np.float32)
    down, across = (gaussian_filter(x, (0, 1.5, 1.5), order=order) for order in ((0, 1, 0), (0, 0, 1)))
    products = down * down, across * across, down * across
    zz, xx, zx = (every_second(gaussian_filter(halved(product), (0, 3, 3))) for product in products)
    steepest = float(np.arctan(STEEPEST))
    return -np.tan(np.clip(np.arctan2(2 * zx, zz - xx) / 2, -steepest, steepest))


def along_reflectors(values: Array, dips: Array, features: Array) -> Array:
    """Average values along the reflectors, with weights that decrease exponentially on both sides of a grid point.

    The weights also fall where the features change abruptly.

    Parameters
    ----------
    values : array, shape (n, rows, columns, n_values)
        Values at the grid points of n sections.
    dips : array, shape (n, rows, columns)
        Dips at the grid points, in rows per column, equal to samples per trace.
    features : array, shape (n, rows, columns, n_features)
        Features at the grid points. Their unit is the distance between neighbouring landmarks.

    Examples
    --------
    >>> values, dips = np.array([0, 0, 1, 1], "f4").reshape(1, 1, 4, 1), np.zeros((1, 1, 4), "f4")
    >>> along_reflectors(values, dips, 0 * values).ravel().round(1)
    array([0.1, 0.1, 0.9, 0.9], dtype=float32)
    >>> along_reflectors(values, dips, values).ravel().round(1)
    array([0., 0., 1., 1.], dtype=float32)
    """
    xp = array_namespace(values)
    values = xp.concat([values, xp.ones_like(values[..., :1])], axis=-1)  # the last one sums the weights
    swept = xp.concat([values, xp.flip(values, axis=2)])  # to the right and to the left
    dips = xp.concat([dips, -xp.flip(dips, axis=2)])
    seen = xp.concat([features, xp.flip(features, axis=2)])
    last = swept.shape[1] - 1
    sections, rows = (constant(xp, np.arange(n)[:, None], like=values) for n in swept.shape[:2])
    places = xp.clip(rows - dips, 0, last)
    above = xp.clip(xp.astype(places, xp.int64), 0, max(last - 1, 0))
    shares, below = xp.astype(places - above, values.dtype)[..., None], xp.clip(above + 1, 0, last)

    def before(some: Array, column: int) -> Array:
        """Return values at the points where the reflectors of a column cross the column before."""
        at = some[:, :, column - 1]
        upper, lower = at[sections, above[:, :, column]], at[sections, below[:, :, column]]
        return upper + shares[:, :, column] * (lower - upper)

    for column in range(1, swept.shape[2]):
        change = xp.sum((seen[:, :, column] - before(seen, column)) ** 2, axis=-1)[..., None]
        keep = xp.exp(-STRIDE / REACH - (change / EDGE**2) ** (SHARP / 2))
        swept[:, :, column] += keep * before(swept, column)
    forth, back = swept[: len(values)], xp.flip(swept[len(values) :], axis=2)
    total = (NODE_WEIGHT - 2) * values + forth + back  # each sweep includes the grid point itself once
    return total[..., :-1] / total[..., -1:]


def upsample(nodes: Array, shape: Sequence[int]) -> Array:
    """Interpolate values linearly from the grid points of sections to all their pixels.

    `nodes` has the shape (n, rows, columns, n_values). `shape` is the height and width of a section in pixels.

    Examples
    --------
    >>> upsample(np.array([[[[0.0], [4.0]]]]), (1, 8))[0, 0, :, 0]
    array([0. , 0. , 0. , 0.5, 1.5, 2.5, 3.5, 4. ])
    """
    for axis, size in ((1, shape[0]), (2, shape[1])):
        nodes = stretched(nodes, (np.arange(size) - 2.5) / STRIDE, axis)
    return nodes
