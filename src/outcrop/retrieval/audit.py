"""Audit: draw random members (patches or samples) of a result, and estimate its quality from answers about them.

Members are drawn from groups, in proportion to the sizes of the groups. Every estimate has a confidence interval.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.cluster import KMeans

from outcrop.parallel import one_blas_thread

GROUPS = 4  # groups per class; similar members tend to be right or wrong together, so few answers represent many
BEFORE = 0.5  # weight of the prior of every group, in answers
LEVEL = 0.95  # confidence level of intervals
DRAWS = 4000  # random draws of the shares of true classes, for an interval of IoU
SPREAD = 0.7  # prior standard deviation of a shift of logits
PRIOR = 0.5  # added to sums of squares and degrees of freedom of both variances before they are compared


class Estimate(NamedTuple):
    """An estimated share, its 95 % interval, and the number of answers from which both were computed."""

    share: float
    low: float
    high: float
    answers: int


def similar_groups(descriptors: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Group the patches of one class by similarity and confidence.

    Parameters
    ----------
    descriptors : array, shape (n_patches, n_values)
    confidence : array, shape (n_patches,)

    Returns
    -------
    array of int, shape (n_patches,)
        Group number of each patch; fewer than 8 patches form a single group.
    """
    if len(descriptors) < 2 * GROUPS:
        return np.zeros(len(descriptors), int)
    values = np.asarray(descriptors, float)
    values = values / max(np.sqrt(values.var(axis=0).sum()), 1e-12)
    sure = np.argsort(np.argsort(confidence, kind="stable")) / len(confidence)
    with one_blas_thread():
        found = KMeans(GROUPS, n_init=4, random_state=0).fit_predict(np.column_stack([values, sure]))
    return np.unique(found, return_inverse=True)[1]


def groups_by_class(
    descriptors: np.ndarray, classes: np.ndarray, confidence: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Group similar patches within each class.

    Parameters
    ----------
    descriptors : array, shape (n_patches, n_values)
    classes : array of str, shape (n_patches,)
    confidence : array, shape (n_patches,)

    Returns
    -------
    groups : array of int, shape (n_patches,)
    owners : list of str
        Class of each group.
    """
    groups = np.zeros(len(classes), int)
    owners: list[str] = []
    for name in dict.fromkeys(classes):
        members = np.flatnonzero(classes == name)
        found = similar_groups(descriptors[members], confidence[members])
        groups[members] = len(owners) + found
        owners += [str(name)] * (int(found.max()) + 1)
    return groups, owners


def draw_order(groups: np.ndarray, n: int, *, seed: int = 0) -> np.ndarray:
    """Draw random members (patches or samples) for an interpreter to judge, from each group in proportion to its size.

    With the same seed, a larger draw begins with the same members of each group.

    Parameters
    ----------
    groups : array of int, shape (n_members,)
    n : int
        Number of questions; every group gets at least one if `n` allows.
    seed : int

    Returns
    -------
    array of int
        Positions in `groups`.

    Examples
    --------
    >>> len(draw_order(np.repeat([0, 1], [30, 10]), 8))
    8
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(groups))
    members = [order[groups[order] == group] for group in np.unique(groups)]
    shares = np.array([len(some) for some in members]) / len(groups) * n
    counts = np.maximum(np.floor(shares).astype(int), 1 if n >= len(members) else 0)
    for group in np.argsort(-(shares - counts), kind="stable")[: max(0, n - int(counts.sum()))]:
        counts[group] += 1
    for _ in range(int(counts.sum()) - n):  # small groups may get more questions than their share
        counts[np.where(counts > 1, counts - shares, -np.inf).argmax()] -= 1
    return np.concatenate([some[:count] for some, count in zip(members, counts, strict=True)])


def estimate(groups: npt.ArrayLike, sizes: npt.ArrayLike, asked: npt.ArrayLike, answers: npt.ArrayLike) -> Estimate:
    """Estimate the share of correct members (patches or samples) of a population from answers about some members.

    Parameters
    ----------
    groups : array of int, shape (n_groups,)
        Numbers of the groups.
    sizes : array, shape (n_groups,)
        Number of members of each group; 0 for groups outside the population.
    asked : array of int, shape (n_answers,)
        Group of every answer.
    answers : array, shape (n_answers,)
        1 if the member was correct, 0 if wrong.

    Returns
    -------
    Estimate

    Notes
    -----
    The share is the mean of the shares of the groups weighted by size; a group without an answer is left out. The
    interval is Wilson's, with an effective number of answers: the number of answers times the ratio of total variance
    to variance within groups, times the finite population correction :math:`1 / (1 - n / N)`.

    Examples
    --------
    >>> found = estimate([0, 1], [60, 40], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0])
    >>> found.share, found.low < 0.6 < found.high
    (0.6, True)
    """
    groups, sizes = np.asarray(groups), np.asarray(sizes, float)
    asked, answers = np.asarray(asked), np.asarray(answers, float)
    counted = np.isin(asked, groups[sizes > 0])
    asked, answers = asked[counted], answers[counted]
    if not len(answers):
        return Estimate(float("nan"), 0.0, 1.0, 0)
    known = np.isin(groups, asked) & (sizes > 0)
    weights = np.where(known, sizes, 0) / sizes[known].sum()
    counts = np.array([(asked == group).sum() for group in groups])
    means = np.array([answers[asked == group].mean() if n else 0.0 for group, n in zip(groups, counts, strict=True)])
    share = float(weights @ means)
    inside = sum(((answers[asked == group] - mean) ** 2).sum() for group, mean in zip(groups, means, strict=True))
    freedom = int(np.maximum(counts - 1, 0).sum()) + PRIOR
    over_all = (((answers - answers.mean()) ** 2).sum() + PRIOR) / (len(answers) - 1 + PRIOR)
    gain = max(1.0, over_all / ((inside + PRIOR) / freedom))
    # the variance within groups is an estimate too, so Student's distribution replaces the normal one
    if gain > 1:
        gain = max(1.0, gain * (t.ppf(0.5 + LEVEL / 2, 1e6) / t.ppf(0.5 + LEVEL / 2, freedom)) ** 2)
    left = np.clip(1 - counts / np.maximum(sizes, 1), 1e-6, 1)
    alike = gain / float((weights[known] ** 2 / counts[known] * left[known]).sum())
    low, high = wilson(share, alike)
    return Estimate(share, low, high, len(answers))


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share of `n` independent answers; `n` may be fractional.

    Examples
    --------
    >>> low, high = wilson(0.5, 30)
    >>> round(low, 2), round(high, 2)
    (0.33, 0.67)
    """
    z = norm.ppf(0.5 + LEVEL / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def iou_estimates(
    sizes: np.ndarray, owners: Sequence[str], asked: npt.ArrayLike, truths: Sequence[str], classes: Sequence[str]
) -> dict[str, Estimate]:
    """Estimate the intersection over union of every class, and their mean, from answers about random members.

    Parameters
    ----------
    sizes : array, shape (n_groups,)
        Number of members of each group.
    owners : sequence of str, length n_groups
        Class with which the members of each group are labelled.
    asked : array of int, shape (n_answers,)
        Group of every answer.
    truths : sequence of str, length n_answers
        True class of the member.
    classes : sequence of str
        Names of all classes.

    Returns
    -------
    dict
        Class -> Estimate, and ``all`` -> Estimate of the mean over the classes.

    Notes
    -----
    The shares of true classes in a group are drawn from a Dirichlet distribution. Its parameters are the numbers of
    answers in the group by true class, plus half an answer: one quarter of an answer for the label of the group, one
    quarter spread over all classes. Share and interval are the median and quantiles over the draws.

    Examples
    --------
    >>> found = iou_estimates([50, 50], ["a", "b"], [0] * 9 + [1] * 9, ["a"] * 9 + ["b"] * 9, ["a", "b"])
    >>> found["a"].share > 0.9, found["all"].answers
    (True, 18)
    """
    classes, asked, truths = list(classes), np.asarray(asked, int), list(truths)
    code = {name: number for number, name in enumerate(classes)}
    counts = np.zeros((len(sizes), len(classes)))
    np.add.at(counts, (asked, np.array([code[name] for name in truths], int)), 1)
    labels = np.array([code[name] for name in owners])
    prior = BEFORE * (np.eye(len(classes))[labels] + 1 / len(classes)) / 2
    gamma = np.random.default_rng(0).gamma(counts + prior, size=(DRAWS, *counts.shape))
    members = gamma / gamma.sum(axis=-1, keepdims=True) * np.asarray(sizes, float)[:, None]
    found = np.stack([members[:, labels == c].sum(axis=1) for c in range(len(classes))], axis=1)
    right = np.diagonal(found, axis1=1, axis2=2)
    union = found.sum(axis=1) + found.sum(axis=2) - right
    each = right / np.maximum(union, 1e-9)
    ends = 0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2
    values = {name: np.quantile(each[:, c], ends) for c, name in enumerate(classes)}
    values["all"] = np.quantile(each.mean(axis=1), ends)
    return {name: Estimate(float(v[0]), float(v[1]), float(v[2]), len(truths)) for name, v in values.items()}


def confidence_shift(confidence: npt.ArrayLike, right: Sequence[bool]) -> float:
    """Return a correction of confidences from audited labels: a number to add to the logit of each confidence.

    It makes the mean confidence agree with the share of correct labels.

    Parameters
    ----------
    confidence : array, shape (n,)
        Confidence of audited samples, between 0 and 1.
    right : array of bool, shape (n,)
        Whether the label of each audited sample is correct.

    Returns
    -------
    float
        Shift; 0 without answers, close to 0 with few answers.

    Examples
    --------
    >>> confidence_shift([], []), confidence_shift([0.9] * 40, [True] * 20 + [False] * 20) < -1
    (0.0, True)
    """
    at, sign = logit(np.clip(np.asarray(confidence, float), 0.01, 0.99)), np.where(right, 1, -1)
    if not len(at):
        return 0.0

    def surprise(shift: float) -> float:
        return float(-np.log(expit(sign * (at + shift))).sum() + (shift / SPREAD) ** 2 / 2)

    return float(minimize_scalar(surprise, bounds=(-5, 5), method="bounded").x)
