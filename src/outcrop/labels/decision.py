"""Turn votes into labels and confidence, and find the minimum confidence for a maximum error rate."""

import math

import numpy as np
from scipy.special import expit, logit

from outcrop.mapping.confidence import UNCERTAIN, confidence, winner


def decide(votes: np.ndarray, min_confidence: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the label and the confidence of every sample from its votes.

    Parameters
    ----------
    votes : uint8 array, shape (n_classes, ...), or float array, shape (..., n_classes)
        Votes from `line_votes` (uint8) or `section_votes` (float).
    min_confidence : float
        Minimum confidence, from 0 to 1. Labels of lower confidence become uncertain.

    Returns
    -------
    labels : uint8 array
        0: not labelled (no votes), 255: uncertain, i + 1: class i. If there is only one class, every sample with votes
        is uncertain.
    confidence : uint8 array
        255 means confidence 1. If there is only one class, the confidence is the vote.

    Examples
    --------
    >>> decide(np.array([[0, 51, 102], [0, 204, 153]], np.uint8), 0.7)
    (array([  0,   2, 255], dtype=uint8), array([  0, 204, 153], dtype=uint8))
    """
    if votes.dtype == np.uint8:
        votes = np.moveaxis(votes, 0, -1) * np.float32(1 / 255)
    labels, best = winner(votes)
    if votes.shape[-1] == 1:
        return np.where(best > 0, np.uint8(UNCERTAIN), np.uint8(0)), np.round(255 * best).astype(np.uint8)
    sure = np.round(255 * confidence(votes)).astype(np.uint8)
    least = math.ceil(255 * min_confidence - 1e-6)  # compared with the confidence that is stored and shown
    labels = np.where(sure >= least, labels, np.uint8(UNCERTAIN))
    return np.where(best > 0, labels, np.uint8(0)), sure


def confidence_for(confidence: np.ndarray, max_error: float) -> float:
    """Return the lowest minimum confidence that keeps the expected error rate of the remaining labels below a maximum.

    Parameters
    ----------
    confidence : uint8 array
        Confidence from `label_volume`: 255 = sure, 0 for samples without a label.
    max_error : float
        Maximum error rate, from 0 to 1. A label with confidence p is expected to be right with probability p.

    Returns
    -------
    float
        Minimum confidence between 0 and 1; 1 if no lower value is enough.

    Examples
    --------
    >>> confidence_for(np.array([255, 255, 230, 128], np.uint8), 0.05)
    0.9019607843137255
    """
    return confidence_limit(np.bincount(np.ravel(confidence), minlength=256), max_error)


def confidence_limit(counts: np.ndarray, max_error: float, shift: float = 0.0) -> float:
    """Return the lowest minimum confidence that keeps the expected error rate of labels below a maximum.

    The result equals that of `confidence_for`, but is computed from the number of samples at each level of confidence.

    Parameters
    ----------
    counts : array, shape (256,)
        Number of samples with confidence 0, 1, ..., 255.
    max_error : float
        Maximum error rate, from 0 to 1.
    shift : float
        Correction from audits, added to the logit of every confidence; see `outcrop.retrieval.audit.confidence_shift`.
    """
    levels = np.arange(255, 0, -1)
    counts = counts[levels]
    error = expit(-(logit(levels / 255) + shift))
    wrong = np.cumsum(counts * error) / np.maximum(np.cumsum(counts), 1)
    low = levels[(wrong <= max_error) & (counts > 0)]
    return float(low.min() / 255) if len(low) else 1.0
