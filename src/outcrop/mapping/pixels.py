"""From votes at the nodes of a lattice to shares of the classes at every pixel, along reflectors."""

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize_scalar

from outcrop.arrays import Array, array_namespace, constant
from outcrop.features.energies import STRIDE, every_second, halved, stretched

REACH = 60  # pixels along a reflector at which a vote has fallen to 1 / e
NODE_WEIGHT = 10  # votes of its neighbours that the vote of a node itself counts, so that small bodies stay
POWER = 4.0  # of the votes, where too few patches are unseen by a member to find it by cross-fitting
POWERS = (1.0, 6.0)  # between which it is looked for
DOUBT = 0.52  # share of the votes on a texture rarer than all learnt that goes to the background, which then wins
UNSURE = 0.4  # share of the votes on what is rarer than all learnt that then goes to all classes alike
STEEPEST = 2  # samples a trace: the dip up to which votes follow a reflector


def fitted_power(votes: np.ndarray, familiar: np.ndarray, labels: np.ndarray, background: np.ndarray) -> float:
    """Power of votes with which labels are likeliest; see `class_shares`."""

    def surprise(power: float) -> float:
        share = class_shares(votes, familiar, background, power)
        return float(-np.log(share[np.arange(len(labels)), labels]).mean())

    return float(minimize_scalar(surprise, bounds=POWERS, method="bounded").x)


def at_pixels(
    votes: np.ndarray, familiar: np.ndarray, background: np.ndarray, sections: np.ndarray, power: float = POWER
) -> Array:
    """Votes at the nodes of sections as scores at every pixel that sum to 1.

    Parameters
    ----------
    votes : array, shape (n, rows, columns, n_classes)
        They are averaged along the reflectors.
    familiar : array, shape (n, rows, columns, 2)
        See `class_shares`.
    background : bool array, shape (n_classes,)
        True for the background, if there is one.
    sections : array, shape (n, height, width)
    power : float
        Of the averaged votes.
    """
    values = np.concatenate([votes / votes.sum(axis=-1, keepdims=True), familiar], axis=-1)
    votes, familiar = np.split(along_reflectors(values, dips(sections)), [votes.shape[-1]], axis=-1)
    return upsample(class_shares(votes, familiar, background, power), sections.shape[1:])


def class_shares(votes: Array, familiar: Array, background: Array, power: float) -> Array:
    """Shares of the classes, which sum to 1, from votes and from how familiar the nodes are.

    Parameters
    ----------
    votes : array, shape (..., n_classes)
    familiar : array, shape (..., 2)
        Of the texture: where it is low the votes go to the background, which is rather what nobody showed. Of all that
        describes a node: where it is low nothing is sure.
    background : bool array, shape (n_classes,)
    power : float
        Of the votes.

    Examples
    --------
    >>> votes, none = np.array([0.9, 0.3]), np.zeros(2, bool)
    >>> [class_shares(votes, familiar, none, 1.0).round(2).tolist() for familiar in (np.ones(2), np.zeros(2))]
    [[0.75, 0.25], [0.65, 0.35]]
    """
    share = votes**power
    share /= share.sum(axis=-1, keepdims=True)
    if background.any():
        share += DOUBT * (1 - familiar[..., :1]) * (background - share)
    return share + UNSURE * (1 - familiar[..., 1:]) * (1 / share.shape[-1] - share)


def dips(sections: np.ndarray) -> Array:
    """Dip of the reflectors at the nodes of `describe`, in samples a trace, by the structure tensor.

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


def along_reflectors(values: Array, dips: Array) -> Array:
    """Mean of values along the reflectors, with weights that fall off exponentially on either side of a node.

    Parameters
    ----------
    values : array, shape (n, rows, columns, n_values)
        At the nodes of a lattice.
    dips : array, shape (n, rows, columns)
        Rows a column.
    """
    xp, keep = array_namespace(values), np.float32(np.exp(-STRIDE / REACH))
    values = xp.concat([values, xp.ones_like(values[..., :1])], axis=-1)  # the last one sums the weights
    swept = xp.concat([values, xp.flip(values, axis=2)])  # both ways
    dips = xp.concat([dips, -xp.flip(dips, axis=2)])
    last = swept.shape[1] - 1
    sections, rows = (constant(xp, np.arange(n)[:, None], like=values) for n in swept.shape[:2])
    places = xp.clip(rows - dips, 0, last)
    above = xp.clip(xp.astype(places, xp.int64), 0, max(last - 1, 0))
    shares, below = xp.astype(places - above, values.dtype)[..., None], xp.clip(above + 1, 0, last)
    for column in range(1, swept.shape[2]):
        before = swept[:, :, column - 1]
        upper, lower = before[sections, above[:, :, column]], before[sections, below[:, :, column]]
        swept[:, :, column] += keep * (upper + shares[:, :, column] * (lower - upper))
    forth, back = swept[: len(values)], xp.flip(swept[len(values) :], axis=2)
    total = (NODE_WEIGHT - 2) * values + forth + back  # each sweep holds the node itself once
    return total[..., :-1] / total[..., -1:]


def node_masks(masks: np.ndarray, shape: Sequence[int]) -> Array:
    """Largest code painted in the 4 x 4 pixels of every node."""
    masks = np.broadcast_to(masks, (len(masks), *shape))
    rows, columns = (-(-size // STRIDE) for size in shape)
    padded = np.pad(masks, [(0, 0), (0, rows * STRIDE - shape[0]), (0, columns * STRIDE - shape[1])])
    return padded.reshape(len(masks), rows, STRIDE, columns, STRIDE).max(axis=(2, 4))


def upsample(nodes: Array, shape: Sequence[int]) -> Array:
    """Values at the nodes as values at the pixels, linearly in between.

    Examples
    --------
    >>> upsample(np.array([[[[0.0], [4.0]]]]), (1, 8))[0, 0, :, 0]
    array([0. , 0. , 0. , 0.5, 1.5, 2.5, 3.5, 4. ])
    """
    for axis, size in ((1, shape[0]), (2, shape[1])):
        nodes = stretched(nodes, (np.arange(size) - 2.5) / STRIDE, axis)
    return nodes
