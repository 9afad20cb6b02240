"""Scores of confidence: calibration error, and risk by coverage."""

import numpy as np
import numpy.typing as npt

from outcrop.arrays import to_numpy

BINS = 15  # bins of confidence, of equal width
POINTS = 200  # approximate number of points to which a curve is thinned


def calibration_error(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the mean absolute difference between confidence and accuracy over 15 bins of confidence.

    Each bin is weighted by its number of pixels.

    Parameters
    ----------
    confidence : array of float in [0, 1]
        Confidence of the labelled pixels; leave uncertain pixels out.
    correct : array of bool, same shape
        True where the label of the pixel is right.

    Examples
    --------
    >>> calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False])
    0.15
    """
    confidence, correct = _check_confidence(confidence, correct)
    bin_of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = np.bincount(bin_of, correct, BINS) - np.bincount(bin_of, confidence, BINS)
    return float(np.abs(gap).sum() / confidence.size)


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of wrong labels (risk) among the most confident pixels, by share of all pixels (coverage).

    Parameters
    ----------
    confidence : array of float in [0, 1]
        Confidence of the labelled pixels.
    correct : array of bool, same shape
        True where the label of the pixel is right.

    Returns
    -------
    coverage, risk : array
        Coverage is the share of the most confident pixels in all pixels, and rises to 1. Risk is the share of these
        most confident pixels whose label is wrong. Pixels of equal confidence are counted together.

    Examples
    --------
    >>> risk_coverage([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    (array([0.25, 0.75, 1. ]), array([0. , 0.333, 0.5 ]))
    """
    confidence, correct = _check_confidence(confidence, correct)
    order = np.argsort(-confidence, kind="stable")
    last = np.flatnonzero(np.diff(confidence[order], append=-1))  # last pixel of every run of equals
    last = last[np.unique(np.linspace(0, len(last) - 1, POINTS).round().astype(int))]
    kept = last + 1
    return kept / confidence.size, np.cumsum(~correct[order])[last] / kept


def _check_confidence(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    confidence, correct = np.ravel(to_numpy(confidence)), np.ravel(to_numpy(correct)).astype(bool)
    if confidence.size != correct.size or not confidence.size:
        raise ValueError(
            f"{confidence.size} confidences for {correct.size} labels; pass one confidence for each labelled pixel."
        )
    if not (confidence.min() >= 0 and confidence.max() <= 1):
        span = f"{confidence.min()} to {confidence.max()}"
        raise ValueError(f"Confidence runs from {span}; scale it to [0, 1] (divide uint8 confidence by 255).")
    return confidence, correct
