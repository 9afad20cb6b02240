"""Correction of votes by strokes, at the painted grid points and at similar or nearby samples.

A Gaussian process with mean 0 is fitted to the residuals: the painted classes minus the votes without the strokes.
On lines without strokes, its kernel compares features alone. On lines with strokes, a second process is used. Its
kernel also links nearby samples with less similar features. Samples unlike all painted samples keep their votes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from outcrop.mapping.survey_sample import Floats

ALIKE = 0.7  # width of the kernel, in distances between neighbouring landmarks
NEARBY = 40.0  # samples and traces: width of the part of the kernel that acts near a stroke
ALIKE_NEARBY = 3.0  # width of the kernel near a stroke, as a multiple of the width elsewhere
NOISE = 1.0  # noise variance at a painted grid point, where the variance of the votes is 1
MOST = 1500  # painted grid points that are kept, drawn at random
N_PLACES = 3  # last columns of the compared points: line, trace and sample


class Correction(NamedTuple):
    """Correction of votes by strokes: painted grid points, and the weight of each of them in the correction."""

    painted: Floats  # (n, n_features + 3): features, divided by the width of the kernel; line, trace and sample
    weights: Floats  # (n, n_classes), for lines without strokes
    line_weights: Floats  # (n, n_classes), for painted lines

    def at(self, points: Floats) -> Floats:
        """Return the numbers to add to the votes at grid points of one line, shape (n, n_classes).

        `points` come from `with_places`, with features divided by the width of the kernel.
        """
        similarity, near = _similarity(points, self.painted)
        weights = self.line_weights if near.any() else self.weights
        added: Floats = ((similarity + near) @ weights).astype(np.float32)
        return added

    def without_places(self) -> "Correction":
        """Return a copy of the correction for another survey: it has no positions and compares features alone."""
        elsewhere = self.painted.copy()
        elsewhere[:, -N_PLACES:] = np.inf
        return self._replace(painted=elsewhere)


def with_places(features: Floats, line: float | None, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Floats:
    """Append the positions of grid points (line, trace and sample) to their features.

    `columns` holds the traces, `rows` the samples. If `line` is None (another survey), it is stored as infinity.
    """
    places = np.empty((*features.shape[:-1], N_PLACES), np.float32)
    places[..., 0] = np.inf if line is None else line
    places[..., 1], places[..., 2] = columns, rows
    return np.concatenate([features, places], axis=-1)


def _similarity(these: Floats, those: Floats) -> tuple[Floats, Floats]:
    """Return two similarities, from 0 to 1, of every point in `these` to every point in `those`.

    The first compares features alone. The second compares features and distance; it is 0 for points on different lines.
    """
    unlike = _squares(these[:, :-N_PLACES], those[:, :-N_PLACES])
    near = np.zeros_like(unlike)
    lines = those[:, -N_PLACES]
    for line in np.intersect1d(these[:, -N_PLACES], lines[np.isfinite(lines)]):
        both = np.ix_(these[:, -N_PLACES] == line, lines == line)
        apart = _squares(*(some[some[:, -N_PLACES] == line, 1 - N_PLACES :] for some in (these, those)))
        near[both] = np.exp(-0.5 * (unlike[both] / np.float32(ALIKE_NEARBY**2) + apart / np.float32(NEARBY**2)))
    return np.exp(np.float32(-0.5) * unlike), near


def _squares(these: Floats, those: Floats) -> Floats:
    """Return the squared Euclidean distance of each row of `these` from each row of `those`."""
    squares: Floats = (these**2).sum(axis=1)[:, None] + (those**2).sum(axis=1) - 2 * these @ those.T
    return np.maximum(squares, 0)


def fit_correction(points: Floats, residuals: Floats) -> Correction:
    """Fit a correction to the residuals at painted grid points.

    Parameters
    ----------
    points : array, shape (n, n_features + 3)
        From `with_places`, with features divided by the width of the kernel.
    residuals : array, shape (n, n_classes)
        1 for the painted class and 0 for other classes, minus the votes without the strokes.

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
    """Return the weights of the painted points in the posterior mean of a Gaussian process.

    `similarity` is the covariance of the painted points, without noise.
    """
    system = similarity.astype(np.float64)
    system[np.diag_indices_from(system)] += NOISE
    weights: Floats = scipy.linalg.solve(system, residuals, assume_a="pos").astype(np.float32)
    return weights
