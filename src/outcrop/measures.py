"""Similarity measures between seismic patches: `describe` a stack once, `compare` descriptions pair by pair.

Every measure is a small class with `describe(patches)`, which turns a stack of patches into descriptions (one per
patch along the first axis), and `compare(a, b)`, which turns two sets of descriptions into the (n_a, n_b) matrix of
the measure itself; `distance` says whether that is a distance. `similarity` does both and always answers with
similarities.
"""

import numpy as np
from scipy.spatial.distance import cdist

from outcrop.arrays import array_namespace, as_floats, constant, is_numpy
from outcrop.curvelet import Curvelet
from outcrop.parallel import map_blocks, spans


class CurveletSVD:
    r"""Singular values of curvelet coefficients, cut at the effective rank (Alfarraj et al., MMSP 2016).

    Parameters
    ----------
    truncate : bool
        Keep, per coefficient array, only as many singular values as its effective rank, as the paper does.
    finest : bool
        Use the finest scale too, as the paper does. Leaving it out makes the measure a little better on F3.

    Notes
    -----
    With singular values :math:`\sigma_i` of one array and :math:`p_i = \sigma_i / \sum \sigma`, the effective rank is
    :math:`\exp(-\sum p_i \log p_i)`; the first floor(effective rank) values stay, the others become zero. Two patches
    with features u and v have the similarity :math:`1 - \|u - v\|_1 / \|u + v\|_1`.
    """

    distance = False

    def __init__(self, *, truncate=True, finest=True):
        self.truncate = truncate
        self.finest = finest

    def describe(self, patches, *, workers=None):
        """Features of a stack of patches, shape (n, n_singular_values); 500 values for 99 x 99 patches."""
        patches, xp = as_floats(patches)
        frame = Curvelet(patches.shape[-2:])
        if not is_numpy(xp):
            # a GPU wants large batches; its memory bounds them
            blocks = spans(patches.shape[0], 1024)
            return xp.concat([self._describe_block(patches[span, ...], frame, xp) for span in blocks])
        out = [np.empty((0, sum(self.lengths(frame))), patches.dtype)]
        blocks = spans(len(patches), 32)
        out += map_blocks(lambda span: self._describe_block(patches[span], frame, xp), blocks, workers=workers)
        return np.concatenate(out)

    def lengths(self, frame):
        """Number of singular values of each coefficient array that the feature vector strings together."""
        scales = frame.windows if self.finest else frame.windows[:-1]
        return [min(window.shape) for scale in scales for window in scale]

    def _describe_block(self, patches, frame, xp):
        scales = list(frame.wedges(patches, finest=self.finest))
        # the cosine part of a wedge is sqrt(2) times the real part
        gains = np.repeat(
            [1.0 if len(wedges) == 1 else np.sqrt(2) for wedges in scales for _ in wedges], self.lengths(frame)
        )
        values = xp.concat([singular_values(wedge.real, xp) for wedges in scales for wedge in wedges], axis=-1)
        values = values * constant(xp, gains, like=values, dtype=values.dtype)
        return effective(values, self.lengths(frame)) if self.truncate else values

    def compare(self, a, b):
        """Similarity of every pair of features, shape (n_a, n_b), from 0 to 1."""
        xp = array_namespace(a)
        total = xp.sum(a, axis=-1)[:, None] + xp.sum(b, axis=-1)[None, :]
        difference = city_block(a, b, xp)
        # two all-zero patches are equal
        return 1 - difference / xp.where(total > 0, total, xp.ones_like(total))


def singular_values(matrices, xp):
    """Singular values of a stack of matrices, descending."""
    if is_numpy(xp):
        return np.linalg.svd(matrices, compute_uv=False)
    if matrices.device.type == "cpu":
        return xp.linalg.svdvals(matrices)
    # batched SVD is slow on GPUs; eigenvalues of the smaller Gram matrix are not, and in float64 they are exact enough
    m = xp.astype(matrices, xp.float64)
    gram = m @ m.mT if m.shape[-2] <= m.shape[-1] else m.mT @ m
    return xp.astype(xp.flip(xp.linalg.eigvalsh(gram), axis=-1).clamp(min=0) ** 0.5, matrices.dtype)


def effective(values, lengths):
    """Singular values beyond the effective rank of their array set to zero.

    Parameters
    ----------
    values : array, shape (n, sum(lengths))
        Singular values of several arrays side by side, descending within each.
    lengths : list of int
        How many of them belong to each array.

    Examples
    --------
    >>> effective(np.array([[2.0, 2.0, 0.0, 5.0, 0.1]]), [3, 2])
    array([[2., 2., 0., 5., 0.]])
    """
    xp = array_namespace(values)
    member = np.repeat(np.eye(len(lengths)), lengths, axis=0)
    member = constant(xp, member, like=values, dtype=xp.float64)
    order = constant(xp, np.concatenate([np.arange(n) for n in lengths]), like=values)
    wide = xp.astype(values, xp.float64)
    total = wide @ member @ member.T
    p = wide / xp.where(total > 0, total, xp.ones_like(total))
    entropy = -(p * xp.log(xp.where(p > 0, p, xp.ones_like(p)))) @ member
    rank = xp.floor(xp.exp(entropy) + 1e-12)  # a flat spectrum must not lose a value to rounding
    return xp.where(order < rank @ member.T, values, xp.zeros_like(values))


def city_block(a, b, xp):
    """Sum of absolute differences of every pair of rows."""
    if not is_numpy(xp):
        import torch

        return torch.cdist(a, b, p=1)
    blocks = map_blocks(lambda span: cdist(a[span], b, "cityblock"), spans(len(a), 64))
    return np.concatenate(list(blocks)).astype(a.dtype, copy=False)


MEASURES = {
    "curvelet-svd": CurveletSVD,
}


def similarity(a, b, measure="curvelet-svd", **parameters):
    """Similarity of every patch of one stack with every patch of another.

    Parameters
    ----------
    a, b : array, shape (n, height, width)
        Patches with values in [0, 1].
    measure : str
        A name from `MEASURES`.
    **parameters
        Passed to the measure, for instance ``finest=False`` for ``curvelet-svd``.

    Returns
    -------
    array, shape (n_a, n_b)
        Higher is more similar; distances are divided by the largest of their row and subtracted from one.

    Examples
    --------
    >>> patches = np.random.default_rng(0).random((3, 64, 64))
    >>> similarity(patches, patches).diagonal()
    array([1., 1., 1.])
    """
    if measure not in MEASURES:
        raise ValueError(f"Unknown measure {measure!r}; choose one of {', '.join(MEASURES)}.")
    chosen = MEASURES[measure](**parameters)
    described = chosen.describe(a)
    values = chosen.compare(described, described if b is a else chosen.describe(b))
    if not chosen.distance:
        return values
    xp = array_namespace(values)
    largest = xp.max(values, axis=-1, keepdims=True)
    return 1 - values / xp.where(largest > 0, largest, xp.ones_like(largest))
