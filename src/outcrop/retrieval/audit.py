"""How good a result is by a few random questions: groups to draw from, and estimates with intervals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.cluster import KMeans

from outcrop.parallel import one_blas_thread

GROUPS = 4  # of a class: what looks alike is right or wrong together, so a few answers stand for many
BEFORE = 0.5  # of an answer, which stands for every group before it is asked about
LEVEL = 0.95  # how often an interval is to hold the truth
DRAWS = 4000  # of the shares of true classes, for an interval of IoU
SPREAD = 0.7  # of a shift of logits that is expected before any answer
PRIOR = 0.5  # sum of squares, and answers, added to both spreads before one is compared with the other


class Estimate(NamedTuple):
    """A share, its interval of 95 %, and on how many answers it rests."""

    share: float
    low: float
    high: float
    answers: int


def groups_alike(descriptors: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Group the patches of one class by what they look like and how sure their class is.

    Parameters
    ----------
    descriptors : array, shape (n_patches, n_values)
    confidence : array, shape (n_patches,)

    Returns
    -------
    array of int, shape (n_patches,)
        One group where there are few patches.
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
    """Groups of what looks alike, class by class.

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
        found = groups_alike(descriptors[members], confidence[members])
        groups[members] = len(owners) + found
        owners += [str(name)] * (int(found.max()) + 1)
    return groups, owners


def draw_order(groups: np.ndarray, n: int, *, seed: int = 0) -> np.ndarray:
    """Members to ask about, at random inside every group, and as many from each as its size asks for.

    The first members of a longer draw with the same seed are those of a shorter one, group by group.

    Parameters
    ----------
    groups : array of int, shape (n_members,)
    n : int
        Questions; every group gets one at least, where there are as many.
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
    for _ in range(int(counts.sum()) - n):  # small groups got one question more than their share
        counts[np.where(counts > 1, counts - shares, -np.inf).argmax()] -= 1
    return np.concatenate([some[:count] for some, count in zip(members, counts, strict=True)])


def estimate(groups: npt.ArrayLike, sizes: npt.ArrayLike, asked: npt.ArrayLike, answers: npt.ArrayLike) -> Estimate:
    """Share of right members of a whole, from answers on some members of its groups.

    Parameters
    ----------
    groups : array of int, shape (n_groups,)
        Names of the groups.
    sizes : array, shape (n_groups,)
        Members of each; zero for a group that does not belong to the whole asked about.
    asked : array of int, shape (n_answers,)
        Group of every answer.
    answers : array, shape (n_answers,)
        1 right, 0 wrong.

    Returns
    -------
    Estimate

    Notes
    -----
    The share is the mean of the shares of the groups by their sizes; a group without an answer has the share of the
    others. The interval is that of independent answers (Wilson), as many as the answers are worth: more than were
    given by the spread of all answers over that inside the groups, and by :math:`1 / (1 - n / N)`, what is left to ask.

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
    # the spread inside groups is an estimate too: Student's interval instead of the normal one
    if gain > 1:
        gain = max(1.0, gain * (t.ppf(0.5 + LEVEL / 2, 1e6) / t.ppf(0.5 + LEVEL / 2, freedom)) ** 2)
    left = np.clip(1 - counts / np.maximum(sizes, 1), 1e-6, 1)
    alike = gain / float((weights[known] ** 2 / counts[known] * left[known]).sum())
    low, high = wilson(share, alike)
    return Estimate(share, low, high, len(answers))


def wilson(share: float, n: float) -> tuple[float, float]:
    """Interval of a share of `n` independent answers, which need not be a whole number (Wilson 1927).

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
    """Intersection over union of every class and their mean, from the true classes of some members of groups.

    Parameters
    ----------
    sizes : array, shape (n_groups,)
        Members of each group.
    owners : sequence of str, length n_groups
        Class that the members of each group are labelled with.
    asked : array of int, shape (n_answers,)
        Group of every answer.
    truths : sequence of str, length n_answers
        What the member really is.
    classes : sequence of str

    Returns
    -------
    dict
        Class -> Estimate, and ``all`` -> that of the mean of the classes.

    Notes
    -----
    The true classes of a group are drawn from a Dirichlet distribution: the answers of the group, and half
    an answer, one part of it on the label of the group and one on all classes alike. Estimate and interval are the
    median and quantiles of what the draws give.

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
    """What is to be added to the logit of a confidence so that it is right as often as it says.

    Parameters
    ----------
    confidence : array, shape (n,)
        Between 0 and 1, of samples that somebody judged.
    right : array of bool, shape (n,)

    Returns
    -------
    float
        0 without answers; with few of them not far from it.

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
