"""The weak constraint: a node of a patch is of its class or of the background, and a regression decides which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from outcrop.arrays import Array
from outcrop.features.energies import N_DIRECTIONS, SMOOTHING, WAVELENGTHS
from outcrop.mapping.regression import PENALTY, NormalEquations, ridge_factor
from outcrop.parallel import spans

Step = Callable[..., None]  # reports progress

MIN_MARGIN = 0.05  # by which a node must be more like its patch's class than like the background to keep it
WELL_EXPLAINED = 0.65  # share of a split's variance that the texture should tell
GAIN = 2.0  # of the log energies: patches are learnt up to 17 dB louder and quieter, for amplitudes drift
SCALE = 2.0  # of the random weights of all descriptors together
COLOUR = 0.1  # the same for each wavelength alone: up to 1 dB, for spectra drift with depth
CHANGED = 4096  # nodes with other labels whose products are added up at once
STEP = 0.03  # share of a class moved over to the background where the rounds come to rest too early


def stacked_nodes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays with different numbers of nodes as one: NaN, or 0 in a mask, where a node is missing."""
    most = max(array.shape[1] for array in arrays)
    fill = np.nan if arrays[0].dtype.kind == "f" else 0
    wide = [((0, 0), (0, most - array.shape[1]), *[(0, 0)] * (array.ndim - 2)) for array in arrays]
    return np.concatenate([np.pad(array, pad, constant_values=fill) for array, pad in zip(arrays, wide, strict=True)])


def balance(codes: np.ndarray) -> Array:
    """Weights of patches with which every class counts as much as the most frequent one.

    Examples
    --------
    >>> balance(np.array([0, 0, 1]))
    array([1., 1., 2.])
    """
    counts = np.bincount(codes)
    return counts.max() / counts[codes]


def random_gains(n: int, rng: np.random.Generator) -> np.ndarray:
    """What patches are made louder or quieter by, shape (n, n_energies)."""
    gain = rng.uniform(-GAIN, GAIN, (n, 1)) + rng.uniform(-COLOUR, COLOUR, (n, len(WAVELENGTHS)))
    return np.tile(np.repeat(gain.astype(np.float32), N_DIRECTIONS, axis=1), len(SMOOTHING))


def feature_rows(features: RandomFeatures, nodes: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Random features of the nodes of patches, 0 for those that a small patch lacks."""
    rows = np.empty((*valid.shape, len(features.offsets) + 1), np.float32)
    for row, patch_nodes in zip(rows, nodes, strict=True):
        row[:, :-1], row[:, -1] = features.drawn_at(patch_nodes), 1
    rows[~valid] = 0
    return rows


def maximise(
    ridge: Ridge,
    codes: Array,
    known: Array,
    valid: Array,
    *,
    n_classes: int,
    background: Array,
    rounds: int,
    step: Step,
) -> tuple[Array, dict[int, float]]:
    """Class of every node under the weak constraint, by expectation-maximisation.

    Parameters
    ----------
    ridge : Ridge
        Of the features of the nodes, shape (n_patches, n_nodes, n_features).
    codes : int array, shape (n_patches,)
        Class of each patch.
    known : int array, shape (n_patches, n_nodes)
        Painted nodes: class + 1, or 0.
    valid : bool array, shape (n_patches, n_nodes)
        False for the nodes that a small patch lacks; their features are 0.
    n_classes : int
    background : int array
        The class that may appear in any patch, or empty.
    rounds : int
    step : callable
        Called with the number of every round.

    Returns
    -------
    labels : int array, shape (n_patches, n_nodes)
    shares : dict
        Structure -> share of the nodes of its patches that are labelled with it.

    Notes
    -----
    How well a split into structure and background is explained by the texture is the :math:`R^2` of the margin between
    the two regressions against the split. Where the rounds come to rest with a split that is explained badly, the few
    patches of the background do not look like what surrounds the structure: then the least evident nodes are moved
    over, a few at a time, until the texture tells them. Each structure takes the labels of its best explained round.
    """
    labels = np.repeat(codes[:, None], known.shape[1], axis=1)
    labels = np.where(known > 0, known.astype(int) - 1, labels)
    structures = [c for c in range(n_classes) if c not in background] if len(background) else []
    best = {c: (-np.inf, labels[codes == c]) for c in structures}
    for number in range(rounds + 1 if structures else 0):
        step(number)
        fitted = ridge.rows @ ridge.fit(labels, n_classes)
        for c in structures:
            of_class, real = codes == c, valid[codes == c]
            margin = np.where(real, fitted[of_class, :, c] - fitted[of_class, :, background[0]], np.nan)
            kept = labels[of_class] == c
            explained = 1 - np.nanmean((margin - (2 * kept - 1)) ** 2) / (4 * kept[real].var() + 1e-3)
            if number and explained > best[c][0]:
                best[c] = (explained, labels[of_class].copy())
            # at least a tenth of every patch keeps its class, so that no patch loses what it was retrieved for
            quantile = np.quantile if real.all() else np.nanquantile  # which is many times slower
            least = quantile(margin, 0.9, axis=1)[:, None]
            stay = margin >= np.minimum(MIN_MARGIN, least)
            if number and explained < WELL_EXPLAINED and np.mean((stay != kept)[real]) < 0.01:
                moved = np.nanquantile(margin, min(1 - kept[real].mean() + STEP, 0.9))
                stay = margin >= np.minimum(moved, least)
            labels[of_class] = np.where(
                known[of_class] > 0, known[of_class].astype(int) - 1, np.where(stay, c, background[0])
            )
    for c in structures:
        labels[codes == c] = best[c][1]
    shares = {c: (labels == c)[codes == c][valid[codes == c]] for c in structures}
    return labels, {c: float(kept_nodes.mean()) for c, kept_nodes in shares.items()}


class Ridge:
    """Ridge regression of class indicators on features of weighted nodes, factorised once for all rounds."""

    def __init__(self, rows: np.ndarray, weights: np.ndarray) -> None:
        self.rows, self.weights = rows, weights.astype(np.float32)
        flat = rows.reshape(-1, rows.shape[-1])
        self.gram = self._weighted(flat).T @ flat
        self.factor = ridge_factor(self.gram, PENALTY)
        self._summed: tuple[Any, Any] = (None, None)  # targets of the last round, and their products

    def fit(self, labels: np.ndarray, n_classes: int) -> Array:
        """Weights of the features, shape (n_features, n_classes)."""
        return cho_solve(self.factor, self.products(labels, n_classes)).astype(np.float32)

    def products(self, labels: np.ndarray, n_classes: int) -> Array:
        """Sum of the weighted products of features and indicators, shape (n_features, n_classes).

        From one round to the next few labels change, and only their nodes are added up.
        """
        target = self._weighted(np.eye(n_classes, dtype=np.float32)[labels.ravel()])
        before, products = self._summed
        if before is None or before.shape != target.shape:
            before, products = np.zeros_like(target), np.zeros((self.rows.shape[-1], n_classes))
        changed = np.flatnonzero((target != before).any(axis=1))
        rows = self.rows.reshape(len(target), -1)
        for span in spans(len(changed), CHANGED):
            some = changed[span]
            products = products + rows[some].T @ (target[some] - before[some])
        self._summed = target, products
        return products

    def equations(self, labels: np.ndarray, n_classes: int) -> NormalEquations:
        """What is kept of the regression, so that more nodes can be added to it."""
        return NormalEquations(self.gram, self.products(labels, n_classes).astype(np.float32))

    def _weighted(self, values: np.ndarray) -> Array:
        return values if (self.weights == 1).all() else values * self.weights.reshape(-1, 1)


class RandomFeatures:
    """Random ReLU features of standardised descriptors: a regression on them approximates a kernel machine.

    Parameters
    ----------
    mean, spread : array, shape (n_descriptors,)
    weights : array, shape (n_descriptors, n_features)
    offsets : array, shape (n_features,)
    """

    def __init__(self, mean: np.ndarray, spread: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> None:
        self.mean, self.spread, self.weights, self.offsets = mean, spread, weights, offsets

    @classmethod
    def drawn(cls, descriptors: Array, n_features: int, rng: np.random.Generator, emphasis: Array) -> RandomFeatures:
        """Features for descriptors like the given ones, which count as much as their emphasis."""
        scale = SCALE * emphasis / np.linalg.norm(emphasis)
        weights = (rng.standard_normal((len(emphasis), n_features)) * scale[:, None]).astype(np.float32)
        offsets = (rng.standard_normal(n_features) / 2).astype(np.float32)
        return cls(descriptors.mean(axis=0), descriptors.std(axis=0) + 1e-6, weights, offsets)

    def __call__(self, descriptors: np.ndarray) -> np.ndarray:
        """Features, the last one constant."""
        return np.pad(self.drawn_at(descriptors), [(0, 0), (0, 1)], constant_values=1)

    def times(self, descriptors: np.ndarray, weights: np.ndarray) -> Array:
        """Features times the weights of a regression, without a copy of the features."""
        return self.drawn_at(descriptors) @ weights[:-1] + weights[-1]

    def drawn_at(self, descriptors: np.ndarray) -> Array:
        """Features but for the constant one."""
        standard = np.ones((len(descriptors), len(self.mean) + 1), np.float32)
        np.clip((descriptors - self.mean) / self.spread, -4, 4, out=standard[:, :-1])
        drawn = standard @ np.concatenate([self.weights, self.offsets[None]])
        return np.maximum(drawn, 0, out=drawn)
