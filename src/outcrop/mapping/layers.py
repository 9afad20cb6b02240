"""Label a survey whose classes are layers in a fixed vertical order.

The relative time of a grid point is the row at which its reflector crosses the middle trace of its line; each relative
time belongs to one class. Between two clicks on different classes, the boundary is where the encoder's predictions
change most. All boundaries are found together by dynamic programming.
"""

import numpy as np
import numpy.typing as npt

from outcrop.mapping.survey_sample import N_ENERGIES, SurveySample

LAYERED = (
    0.65  # share of the variance of the energies that relative time must explain; .77 in a layered survey, else .37-.53
)

DOUBT = 0.3  # probability that the true boundary lies elsewhere between its two clicks


def layered_share(survey: SurveySample) -> float:
    """Return how much of the variance of the energies relative time explains, from 0 to 1.

    Energies are features of grid points. The relative time of a grid point is the row at which its reflector crosses
    the middle trace of its line. A survey with a large share is layered.
    """
    energies = np.arange(N_ENERGIES)
    count = np.maximum(survey.layer_count, 1)[:, None]
    total = survey.layer_count.sum()
    mean = survey.layer_sum[:, energies].sum(axis=0) / total
    variance = survey.layer_square[energies] / total - mean**2
    between = survey.layer_count @ (survey.layer_sum[:, energies] / count - mean) ** 2 / total
    return float(between.sum() / variance.sum())


def profile_of(survey: SurveySample) -> npt.NDArray[np.float64]:
    """Return the encoder's mean predictions at each relative time, transformed to uncorrelated axes of unit variance.

    The shape is (n_rows, n), one row for each relative time. Relative time is the row at which a reflector crosses the
    middle trace of its line.
    """
    known = np.flatnonzero(survey.layer_count)
    means = survey.layer_sum[known][:, N_ENERGIES:] / survey.layer_count[known, None]
    every = np.arange(len(survey.layer_count))
    profile = np.stack([np.interp(every, known, channel) for channel in means.T], axis=1)
    left, spread, _ = np.linalg.svd(profile - profile.mean(axis=0), full_matrices=False)
    whitened: npt.NDArray[np.float64] = left[:, spread > 1e-6 * max(spread[0], 1e-12)] * np.sqrt(len(profile))
    return whitened


def ordered_layers(
    profile: npt.NDArray[np.float64], rows: npt.ArrayLike, labels: npt.ArrayLike
) -> npt.NDArray[np.intp]:
    """Assign a class to every relative time: each click keeps its class, and layers are as uniform as possible.

    Relative time is the row at which a reflector crosses the middle trace of its line.

    Parameters
    ----------
    profile : array, shape (n_rows, n)
        From `profile_of`, one row for each relative time.
    rows : array, shape (n_clicks,)
        Relative time of each click.
    labels : array, shape (n_clicks,)
        Class of each click. Clicks of one class with no other class between them lie in one layer.

    Returns
    -------
    layers : int array, shape (n_rows,)
        Class of each row.

    Notes
    -----
    The boundaries minimise the sum of squared distances between the rows and the mean row of their layer.

    Examples
    --------
    >>> ordered_layers(np.array([[0.0], [0], [0], [0], [5], [5]]), [0, 5], [1, 0])
    array([1, 1, 1, 1, 0, 0])
    """
    order = np.argsort(rows, kind="stable")
    at, classes = np.clip(np.rint(np.asarray(rows)[order]), 0, len(profile) - 1).astype(int), np.asarray(labels)[order]
    starts = np.concatenate([[True], classes[1:] != classes[:-1]])
    firsts, lasts = at[starts], at[np.concatenate([starts[1:], [True]])]
    sums = np.concatenate([np.zeros((1, profile.shape[1])), np.cumsum(profile, axis=0)])
    squares = np.concatenate([[0.0], np.cumsum((profile**2).sum(axis=1))])

    def cost(begin: npt.NDArray[np.intp], end: int) -> npt.NDArray[np.float64]:
        spread = ((sums[end] - sums[begin]) ** 2).sum(axis=1) / np.maximum(end - begin, 1)
        return np.where(end < begin, np.inf, squares[end] - squares[begin] - spread)

    begins, best, chosen = np.array([0]), np.zeros(1), []
    for last, first in zip(lasts[:-1], firsts[1:], strict=True):
        ends = np.arange(last + 1, max(first, last + 1) + 1)  # the first row of the next layer
        totals = [best + cost(begins, end) for end in ends]
        chosen.append((ends, begins[[int(total.argmin()) for total in totals]]))
        begins, best = ends, np.array([total.min() for total in totals])
    begin = begins[int((best + cost(begins, len(profile))).argmin())]
    boundaries = [int(begin)]
    for ends, before in chosen[::-1]:
        boundaries.append(int(before[np.searchsorted(ends, boundaries[-1])]))
    sizes = np.diff([*boundaries[::-1], len(profile)])
    return np.repeat(classes[starts], sizes)


def layer_shares(
    layers: npt.NDArray[np.intp], rows: npt.ArrayLike, labels: npt.ArrayLike, n_classes: int
) -> npt.NDArray[np.float32]:
    """Return the probability of every class at every relative time.

    Relative time is the row at which a reflector crosses the middle trace of its line. Between clicks on two
    classes the probabilities blend, because the position of the boundary is uncertain.

    Parameters
    ----------
    layers : array, shape (n_rows,)
        Class at each relative time, from `ordered_layers`.
    rows, labels : array, shape (n_clicks,)
        Relative time and class of each click, as for `ordered_layers`.
    n_classes : int

    Returns
    -------
    shares : array, shape (n_rows, n_classes)

    Examples
    --------
    >>> layer_shares(np.array([0, 0, 0, 1, 1]), [0, 4], [0, 1], 2)[:, 1]
    array([0.   , 0.075, 0.15 , 0.925, 1.   ], dtype=float32)
    """
    shares = np.eye(n_classes, dtype=np.float32)[layers]
    order = np.argsort(rows, kind="stable")
    at, classes = np.clip(np.rint(np.asarray(rows)[order]), 0, len(layers) - 1).astype(int), np.asarray(labels)[order]
    for first, last, above, below in zip(at[:-1], at[1:], classes[:-1], classes[1:], strict=True):
        if above != below and last > first:
            deep = np.linspace(0, 1, last - first + 1)[:, None]
            anywhere = (1 - deep) * np.eye(n_classes)[above] + deep * np.eye(n_classes)[below]
            shares[first : last + 1] = (1 - DOUBT) * shares[first : last + 1] + DOUBT * anywhere
    return shares
