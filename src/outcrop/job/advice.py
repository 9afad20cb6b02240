"""Advice on which labelled line to correct next, and where on this line to start."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import uniform_filter

from outcrop.job.labelling import label_view
from outcrop.job.plan import Plan
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.neighbours import line_distances

if TYPE_CHECKING:
    from outcrop.job.core import Job

LINES = 100  # maximum number of labelled lines that are compared; they are evenly spaced
REACH = 500.0  # m from a confirmed line at which a correction gains 1 - 1 / e of what it gains far away


def line_gain(confidence: np.ndarray, metres: np.ndarray, confirmed: np.ndarray) -> np.ndarray:
    """Return the expected gain, 0 to 1, of correcting each line.

    The gain is high if the confidence of a line is low and the nearest confirmed line is far away.

    Parameters
    ----------
    confidence : array, shape (n,)
        Mean confidence of each line, from 0 to 1.
    metres : array, shape (n,)
        Position of each line in m, measured across the lines.
    confirmed : array, shape (m,)
        Positions of the confirmed lines in m; may be empty.

    Examples
    --------
    >>> line_gain(np.array([0.5, 0.5, 0.9]), np.array([100.0, 1000.0, 1000.0]), np.array([0.0])).round(2)
    array([0.09, 0.43, 0.09])
    """
    apart = np.abs(metres[:, None] - confirmed).min(axis=1, initial=np.inf)
    gain: np.ndarray = (1 - confidence) * (1 - np.exp(-apart / REACH))
    return gain


def next_line(job: "Job", plan: Plan) -> dict[str, Any] | None:
    """Return the line to correct next, and the place on it with the lowest confidence.

    Returns
    -------
    dict or None
        ``line``, the inline or crossline number; ``place``, [inline, crossline, time or depth] of the centre of the
        patch of this line with the lowest mean confidence. None if no labelled line is left to confirm.
    """
    view, _ = label_view(job, plan)
    lines = [line for line in sorted(view.stores) if line not in view.confirmed.whole]
    if not lines:
        return None
    some = np.array(lines)[np.unique(np.linspace(0, len(lines) - 1, LINES).astype(int))]
    counts = np.array([view.stores[line].counts[line] for line in some.tolist()], np.float64)
    counts[:, 0] = 0  # not labelled
    some, counts = some[counts.any(axis=1)], counts[counts.any(axis=1)]
    if not len(some):  # all traces are missing
        return None
    mean = counts @ np.arange(256) / 255 / np.maximum(counts.sum(axis=1), 1)
    metres = line_distances(job.volume, DIRECTIONS[plan.along])
    gain = line_gain(mean, metres[some], metres[sorted(view.confirmed.whole)])
    line = int(some[gain.argmax()])
    label, confidence = view.section(line)
    sure = uniform_filter(np.where(label > 0, confidence, 255).astype(np.float32), plan.size[::-1], mode="nearest")
    trace, sample = np.unravel_index(sure.argmin(), sure.shape)
    at = [line, int(trace)] if plan.along == 0 else [int(trace), line]
    place = [axis[position].item() for axis, position in zip(job.axes, [*at, int(sample)], strict=True)]
    return {"line": job.axes[plan.along][line].item(), "place": place}
