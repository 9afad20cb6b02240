"""What strokes change: residuals of the votes at painted grid points, carried to samples that look alike or lie near.

A Gaussian process with mean 0 is fitted to the difference between what was painted and the votes before. On lines
without strokes, it takes this difference to samples that look much alike. On painted lines a second one does, whose
kernel also joins samples near each other that look alike less closely. Samples that resemble nothing painted keep their
votes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from outcrop.mapping.survey_sample import Floats

ALIKE = 0.7  # width of the kernel, in distances between neighbouring landmarks
NEARBY = 40.0  # samples and traces, width of the part of the kernel that counts near a stroke
ALIKE_NEARBY = 3.0  # widths of the kernel at which samples near a stroke are as alike
NOISE = 1.0  # variance of what is painted on a grid point, where that of the votes is 1
MOST = 1500  # painted grid points that are kept, drawn at random
N_PLACES = 3  # last columns of what is compared: line, trace and sample


class Correction(NamedTuple):
    """Residuals of votes, interpolated between painted grid points."""

    painted: Floats  # (n, n_features + 3): features in widths of the kernel; line, trace and sample
    weights: Floats  # (n, n_classes), for lines without strokes
    line_weights: Floats  # (n, n_classes), for painted lines

    def at(self, points: Floats) -> Floats:
        """Return what to add to the votes of grid points of one line, shape (n, n_classes)."""
        similarity, near = _similarity(points, self.painted)
        weights = self.line_weights if near.any() else self.weights
        added: Floats = ((similarity + near) @ weights).astype(np.float32)
        return added

    def without_places(self) -> "Correction":
        """Return the same correction for another survey, where nothing lies near a stroke."""
        elsewhere = self.painted.copy()
        elsewhere[:, -N_PLACES:] = np.inf
        return self._replace(painted=elsewhere)


def with_places(features: Floats, line: float | None, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Floats:
    """Return features with the line, trace and sample of grid points; without a line, they lie nowhere."""
    places = np.empty((*features.shape[:-1], N_PLACES), np.float32)
    places[..., 0] = np.inf if line is None else line
    places[..., 1], places[..., 2] = columns, rows
    return np.concatenate([features, places], axis=-1)


def _similarity(these: Floats, those: Floats) -> tuple[Floats, Floats]:
    """Return how much points look alike, and how much they do so near each other on one line, each between 0 and 1."""
    unlike = _squares(these[:, :-N_PLACES], those[:, :-N_PLACES])
    near = np.zeros_like(unlike)
    lines = those[:, -N_PLACES]
    for line in np.intersect1d(these[:, -N_PLACES], lines[np.isfinite(lines)]):
        both = np.ix_(these[:, -N_PLACES] == line, lines == line)
        apart = _squares(*(some[some[:, -N_PLACES] == line, 1 - N_PLACES :] for some in (these, those)))
        near[both] = np.exp(-0.5 * (unlike[both] / np.float32(ALIKE_NEARBY**2) + apart / np.float32(NEARBY**2)))
    return np.exp(np.float32(-0.5) * unlike), near


def _squares(these: Floats, those: Floats) -> Floats:
    """Return squared distances between rows."""
    squares: Floats = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1) - 2 * these @ those.T
    return np.maximum(squares, 0)


def fit_correction(points: Floats, residuals: Floats) -> Correction:
    """Fit residuals at painted grid points.

    Parameters
    ----------
    points : array, shape (n, n_features + 3)
        As `with_places` gives them, features in widths of the kernel.
    residuals : array, shape (n, n_classes)

    Examples
    --------
    >>> points = with_places(np.array([[0.0, 0], [9, 9]], np.float32), None, 0, 0)
    >>> correction = fit_correction(points, np.array([[1.0], [-1]], np.float32))
    >>> correction.at(with_places(np.array([[0, 0], [99, 99]], np.float32), 7, 0, 0)).round(1).tolist()
    [[0.5], [0.0]]
    """
    if len(points) > MOST:
        rows = np.sort(np.random.default_rng(0).permutation(len(points))[:MOST])
        points, residuals = points[rows], residuals[rows]
    similarity, near = _similarity(points, points)
    return Correction(points, _solved(similarity, residuals), _solved(similarity + near, residuals))


def _solved(similarity: Floats, residuals: Floats) -> Floats:
    """Return the weights of the mean of a Gaussian process with this covariance."""
    system = similarity.astype(np.float64)
    system[np.diag_indices_from(system)] += NOISE
    weights: Floats = scipy.linalg.solve(system, residuals, assume_a="pos").astype(np.float32)
    return weights
