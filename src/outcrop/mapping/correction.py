"""What strokes change: residuals of the votes at painted grid points, carried to samples that look alike.

A Gaussian process with mean 0 is fitted to the difference between what was painted and the votes before. Samples that
look like nothing that was painted keep their votes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from outcrop.mapping.survey_sample import Floats

ALIKE = 0.7  # width of the kernel, in distances between neighbouring landmarks
NOISE = 1.0  # variance of what is painted on a grid point, where that of the votes is 1
MOST = 1500  # painted grid points that are kept, drawn at random


class Correction(NamedTuple):
    """Residuals of votes, interpolated between painted grid points."""

    painted: Floats  # (n, n_features), in widths of the kernel
    weights: Floats  # (n, n_classes)

    def at(self, features: Floats) -> Floats:
        """Return what to add to the votes of grid points with these features, shape (n, n_classes)."""
        added: Floats = kernel(features, self.painted) @ self.weights
        return added


def kernel(these: Floats, those: Floats) -> Floats:
    """Return the similarity of features, between 0 and 1: exp(-d^2 / 2) of their distance."""
    squares = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1) - 2 * these @ those.T
    similarity: Floats = np.exp(-0.5 * np.maximum(squares, 0))
    return similarity


def fit_correction(features: Floats, residuals: Floats) -> Correction:
    """Fit residuals at painted grid points.

    Parameters
    ----------
    features : array, shape (n, n_features)
        In widths of the kernel.
    residuals : array, shape (n, n_classes)

    Examples
    --------
    >>> features = np.array([[0.0, 0], [3, 3]], np.float32)
    >>> correction = fit_correction(features, np.array([[1.0], [-1]], np.float32))
    >>> correction.at(np.array([[0, 0], [9, 9]], np.float32)).round(1).tolist()
    [[0.5], [0.0]]
    """
    if len(features) > MOST:
        rows = np.sort(np.random.default_rng(0).permutation(len(features))[:MOST])
        features, residuals = features[rows], residuals[rows]
    system = kernel(features, features).astype(np.float64)
    system[np.diag_indices_from(system)] += NOISE
    weights: npt.NDArray[np.float64] = scipy.linalg.solve(system, residuals, assume_a="pos")
    return Correction(features, weights.astype(np.float32))
