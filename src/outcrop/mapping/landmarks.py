"""Graphs that link similar landmarks of a survey; the classes of clicks spread over the links.

Landmarks are random grid points of the survey.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.neighbors import NearestNeighbors

from outcrop.mapping.survey_sample import N_ENERGIES, Floats, SurveySample

GRAPH_SIZE = 2000  # landmarks of a graph
N_NEIGHBOURS = 25  # landmarks linked to each landmark
N_NEAREST = 6  # landmarks from which values at a grid point are interpolated
ALPHA = 0.999  # probability that a random walk continues at each step
FINE_VARIANCE = 1.5  # total variance of the decoder features, where that of the energies is 1
SHARES = np.geomspace(0.01, 0.7, 33)  # shares of the survey that a class may hold
SHARE_PRIOR = 0.35  # exponent p of the prior (q (1 - q))^p of the share q of a class


class LandmarkGraph:
    """Graph that links each landmark to the most similar landmarks.

    Parameters
    ----------
    survey : SurveySample
    mean, scale : array, shape (n_features,)
        The distance of two landmarks is computed from (features - mean) * scale.

    Notes
    -----
    A class spreads from its seeds :math:`s` as :math:`u = D^{-1/2} (I - \\alpha D^{-1/2} W D^{-1/2})^{-1} D^{-1/2} s`
    with link weights :math:`W` and their row sums :math:`D`: the density with which a random walk from the seeds visits
    a landmark [1]_. The system is factorised once, so another click costs milliseconds.

    .. [1] D. Zhou et al., Learning with local and global consistency, NIPS 16, 2004.
    """

    def __init__(self, survey: SurveySample, mean: Floats, scale: Floats):
        self.mean, self.scale = mean, scale
        self.points = self.embedded(survey.landmarks)
        self.search = NearestNeighbors(algorithm="brute").fit(self.points)
        n = len(self.points)
        n_neighbours = min(N_NEIGHBOURS, n - 1)
        distance, neighbour = self.search.kneighbors(n_neighbors=n_neighbours)
        self.width = float(np.median(distance[:, -1])) or 1.0
        ties = np.zeros((n, n), np.float32)
        ties[np.repeat(np.arange(n), n_neighbours), neighbour.ravel()] = np.exp(-((distance / self.width) ** 2)).ravel()
        ties = np.maximum(ties, ties.T)
        self.root = 1 / np.sqrt(np.maximum(ties.sum(axis=1), np.float32(1e-12)))
        system = np.eye(n, dtype=np.float32) - np.float32(ALPHA) * self.root[:, None] * ties * self.root
        self.factor: Any = scipy.linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        pairs = [self.weights(self.embedded(part)) for part in (survey.landmarks, survey.below, survey.beside)]
        self.pairs = [(pairs[0], other) for other in pairs[1:]]

    def embedded(self, features: Floats) -> Floats:
        """Return (features - mean) * scale; the variance of a scaled feature is its weight in distances."""
        embedded: Floats = ((features - self.mean) * self.scale).astype(np.float32)
        return embedded

    def weights(self, points: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the landmarks nearest to each point, at most 6, and their weights, which sum to 1 for each point.

        `points` holds features from `embedded`. Both results have one row per point.
        """
        return nearest_weights(self.search, points)

    def reach(self, seeds: Floats) -> Floats:
        """Return how often random walks from the seeds visit each landmark, scaled to mean 1 for each class.

        `seeds` holds the weight of each landmark as a start of walks. Seeds and result have the shape (n_landmarks,
        n_classes).
        """
        spread = scipy.linalg.cho_solve(self.factor, self.root[:, None] * seeds, check_finite=False)
        spread = np.maximum(self.root[:, None] * spread, 1e-9)
        relative: Floats = (spread / spread.mean(axis=0)).astype(np.float32)
        return relative

    def membership(self, reach: Floats) -> Floats:
        """Return the probability that each landmark belongs to a class, averaged over all possible shares of the class.

        Parameters
        ----------
        reach : array, shape (n_landmarks,)
            How often random walks from the seeds of the class visit each landmark: a column of the result of `reach`.

        Notes
        -----
        If a class has share q of the survey, it consists of the share q of landmarks with the largest reach. Because
        classes end at edges, q is more likely if log reach changes more between neighbouring grid points of which only
        one belongs to the class. The probability of a landmark is the sum of the probabilities of all q at which the
        landmark belongs to the class.
        """
        log_reach = np.log(reach)
        levels = np.quantile(log_reach, 1 - SHARES)
        jumps, crossings = np.zeros(len(SHARES)), np.zeros(len(SHARES))
        for here, there in self.pairs:
            ends = np.stack([interpolated(log_reach, *here), interpolated(log_reach, *there)])
            low, high = ends.min(axis=0), ends.max(axis=0)
            crossed = (low <= levels[:, None]) & (high > levels[:, None])
            jumps += crossed @ (high - low)
            crossings += crossed.sum(axis=1)
        likely = jumps / np.maximum(crossings, 1e-3) * (SHARES * (1 - SHARES)) ** SHARE_PRIOR
        at_least = np.cumsum(likely[::-1])[::-1] / max(likely.sum(), 1e-12)
        rank = 1 - np.searchsorted(np.sort(log_reach), log_reach) / len(log_reach)
        member: Floats = np.interp(np.log(rank), np.log(SHARES), at_least, left=1, right=0).astype(np.float32)
        return member


def nearest_weights(search: NearestNeighbors, points: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the points of `search` that are nearest to each given point, and their weights.

    The weights decrease with distance and sum to 1 for each given point.
    """
    distance, nearest = search.kneighbors(points, min(N_NEAREST, search.n_samples_fit_))
    weight = np.exp(-((distance / np.maximum(distance[:, -1:], 1e-6)) ** 2)).astype(np.float32)
    return nearest, weight / weight.sum(axis=1, keepdims=True)


def interpolated(values: Floats, nearest: npt.NDArray[np.intp], weight: Floats) -> Floats:
    """Interpolate values of landmarks to points, with the nearest landmarks and the weights from `nearest_weights`.

    `values` has the shape (n_landmarks,) or (n_landmarks, n_values), the result (n_points,) or (n_points, n_values).
    """
    result: Floats = np.einsum("nk,nk...->n...", weight, values[nearest])
    return result


def landmark_graphs(survey: SurveySample) -> list[LandmarkGraph]:
    """Split the landmarks of a survey into disjoint groups, and return a graph of each group.

    The mean of the votes of several graphs is less random than the votes of one graph.
    """
    mean, scale = survey.landmarks.mean(axis=0), _block_scale(survey.landmarks)
    n_graphs = max(1, len(survey.landmarks) // GRAPH_SIZE)
    return [LandmarkGraph(survey.part(slice(first, None, n_graphs)), mean, scale) for first in range(n_graphs)]


def _block_scale(features: Floats) -> Floats:
    """Return a factor for each feature.

    Energies times their factors have a total variance of 1, and decoder features a total variance of `FINE_VARIANCE`.
    """
    n = N_ENERGIES
    variance = np.concatenate([np.full(n, 1 / n), np.full(features.shape[1] - n, FINE_VARIANCE)])
    variance[n:] /= max(features.shape[1] - n, 1)
    scale: Floats = (np.sqrt(variance) / (features.std(axis=0) + 1e-6)).astype(np.float32)
    return scale
