"""How familiar what is at a node is among what was learnt."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from outcrop.arrays import Array, array_namespace, is_numpy
from outcrop.features.energies import mirrored, n_energies

STRANGE = 0.1  # what is as rare as the rarest 10 % of the textures learnt is strange
RANKS = np.linspace(0, 1, 21)  # at which the likelihoods of what was learnt are kept


def rank(found: Array, limits: Array) -> Array:
    """`RANKS` of log likelihoods, linear in between the likelihoods of the ranks."""
    xp = array_namespace(found)
    if is_numpy(xp):
        return np.interp(found, limits, RANKS)
    above = xp.clip(xp.searchsorted(limits, found), 1, len(limits) - 1)
    low, high = limits[above - 1], limits[above]
    share = xp.clip((found - low) / xp.clip(high - low, 1e-12), 0, 1)
    return (above - 1 + share) / (len(RANKS) - 1)


class Familiarity:
    """How familiar a texture is among those learnt, whatever its amplitude: 0 rarer than all of them, 1 not strange.

    A mixture of Gaussians on the whitened principal axes tells how often the energies have such proportions.

    Parameters
    ----------
    centre : array, shape (n_axes,)
        Mean of the proportions, on the axes.
    axes : array, shape (n_axes, n_descriptors)
        Principal axes.
    scale : array, shape (n_axes,)
        Spread along each.
    means : array, shape (n_components, n_axes)
    precisions : array, shape (n_components, n_axes, n_axes)
        Cholesky factors of the inverse covariances.
    weights : array, shape (n_components,)
    limits : array, shape (21,)
        Log likelihoods that are 0, 0.05 ... 1 familiar.
    """

    strange = STRANGE

    def __init__(
        self, centre: Array, axes: Array, scale: Array, means: Array, precisions: Array, weights: Array, limits: Array
    ) -> None:
        self.centre, self.axes, self.scale = centre, axes, scale
        self.means, self.precisions, self.weights, self.limits = means, precisions, weights, limits

    @classmethod
    def learnt(cls, descriptors: np.ndarray, seed: int, most: int = 6000) -> "Familiarity":
        """Familiarity of textures like the given ones."""
        few = descriptors[np.random.default_rng(seed).permutation(len(descriptors))[:most]]
        both = np.concatenate([cls.seen(side) for side in cls.sides(few)])
        pca = PCA(cls.n_axes(both), whiten=True, random_state=seed).fit(both)
        mixture = GaussianMixture(min(8, len(few)), reg_covar=1e-2, max_iter=30, random_state=seed)
        mixture.fit(pca.transform(both))
        spread = np.sqrt(pca.explained_variance_)
        scale = np.maximum(spread, np.finfo(spread.dtype).eps)  # patches all alike have no spread
        centre = pca.mean_.reshape(1, -1) @ pca.components_.T
        learnt = cls(
            centre[0], pca.components_, scale, mixture.means_, mixture.precisions_cholesky_, mixture.weights_, None
        )
        learnt.limits = np.quantile(learnt.log_likelihood(few), cls.strange * RANKS)
        return learnt

    @staticmethod
    def seen(nodes: Array) -> Array:
        """What familiarity is about: the proportions of the energies."""
        energies = nodes[..., : n_energies()]
        return energies - energies.mean(axis=-1, keepdims=True)

    @staticmethod
    def sides(nodes: Array) -> tuple[Array, ...]:
        """Nodes and what a mirror shows of them."""
        return nodes, mirrored(nodes)

    @staticmethod
    def n_axes(descriptors: np.ndarray) -> int:
        """Number of principal axes."""
        return int(min(descriptors.shape)) // 2

    def __call__(self, nodes: Array) -> Array:
        """Between 0 and 1 for every node, mean of both sides."""
        sides = [rank(self.log_likelihood(side), self.limits) for side in self.sides(nodes)]
        return array_namespace(nodes).astype(sum(sides) / len(sides), array_namespace(nodes).float32)

    def log_likelihood(self, nodes: Array) -> Array:
        """Logarithm of the density of the mixture at every node; of torch where nodes and mixture are."""
        xp = array_namespace(nodes)
        x = xp.astype((self.seen(nodes) @ self.axes.T - self.centre) / self.scale, xp.float32)
        factors, shifts, heights = self.side_by_side()
        off = xp.reshape(x @ factors - shifts, (len(x), len(heights), -1))
        each = heights - xp.einsum("nka,nka->nk", off, off) / 2
        most = xp.max(each, axis=1, keepdims=True)
        return most[:, 0] + xp.log(xp.sum(xp.exp(each - most), axis=1))

    def side_by_side(self) -> tuple[Array, ...]:
        """Factors of all components as one matrix, what is taken from products with it, and logarithms of the peaks."""
        xp = array_namespace(self.means)
        factors = xp.concat(list(self.precisions), axis=1)
        shifts = xp.einsum("ki,kij->kj", self.means, self.precisions)
        sizes = xp.sum(xp.log(xp.linalg.diagonal(self.precisions)), axis=1)
        heights = sizes + xp.log(self.weights) - self.means.shape[1] * np.log(2 * np.pi) / 2
        return tuple(xp.astype(part, xp.float32) for part in (factors, xp.reshape(shifts, (-1,)), heights))
