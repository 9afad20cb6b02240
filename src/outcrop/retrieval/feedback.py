"""What yes and no to some patches say about all others: a ridge regression with the survey as background."""

import numpy as np

from outcrop.regression import NormalEquations

PENALTY = 1.0  # of the ridge, as a share of the mean of the diagonal: a click must not outweigh what is alike
SURVEY = 0.3  # weight of the survey against that of the yes and of the no
AGAINST = -0.5  # target of the survey, most of which shows something else; yes is 1, no is -1
SAMPLE = 2000  # patches that stand for the survey


def rooted(descriptors):
    """Square roots of the shares of descriptors, and a constant: products of these are overlaps of two patches.

    Examples
    --------
    >>> rooted(np.array([[1.0, 3.0]], "f4")).round(2)
    array([[0.5 , 0.87, 0.3 ]], dtype=float32)
    """
    total = descriptors.sum(axis=1, keepdims=True)
    shares = np.sqrt(descriptors / np.where(total > 0, total, 1))
    return np.concatenate([shares, np.full((len(shares), 1), 0.3, shares.dtype)], axis=1).astype(np.float32)


def learn(yes, no, survey):
    """Weights of `rooted` descriptors by which patches of a class stand out from the survey.

    Parameters
    ----------
    yes, no : arrays, shape (n, n_values)
        Descriptors of exemplars and accepted patches of the class; of rejected ones and of those of other classes.
    survey : array, shape (n, n_values)
        Descriptors of patches from anywhere.

    Returns
    -------
    array, shape (n_values + 1,)

    Examples
    --------
    >>> yes, no = np.array([[9.0, 1.0]]), np.array([[1.0, 9.0]])
    >>> weights = learn(yes, no, np.ones((4, 2)))
    >>> (rooted(yes) @ weights).item() > (rooted(no) @ weights).item()
    True
    """
    parts = [(yes, 1.0, 1.0), (no, -1.0, 1.0), (survey, AGAINST, SURVEY)]
    rows = np.concatenate([rooted(part) for part, *_ in parts])
    targets = np.concatenate([np.full(len(part), target) for part, target, _ in parts])
    weights = np.concatenate([np.full(len(part), weight / max(len(part), 1)) for part, _, weight in parts])
    size = rows.shape[1]
    empty = NormalEquations(np.zeros((size, size)), np.zeros((size, 1)), PENALTY)
    return empty.plus(rows, targets[:, None], weights).solve()[:, 0]
