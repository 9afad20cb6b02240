"""Trace fault sticks on a section: thin the likelihood of faults to ridges, and link the ridges into sticks."""

import numba
import numpy as np
from scipy.ndimage import gaussian_filter1d, uniform_filter1d

Stick = tuple[np.ndarray, np.ndarray, np.ndarray]  # samples, traces, likelihoods

SLOPES = np.linspace(-1.5, 1.5, 31)  # slopes of faults in the scan, in traces per sample
HALF = 4  # samples up and down over which the scan averages
GAP = 6  # largest gap of a stick, in samples without a ridge
REACH = 2  # traces on either side of the extrapolated stick in which its next ridge sample is searched
TURN = 0.15  # weight of the slope of the present sample in the running mean slope of a stick
CROSSING = 24  # largest number of samples over which a stick may cross other sticks
APART = 3  # traces on either side of a stick that no other stick can use
SHORTEST = 12  # samples
THRESHOLD = 0.4  # default likelihood that at least one sample of a stick exceeds


def sticks_of(likelihood: np.ndarray, threshold: float = THRESHOLD) -> list[Stick]:
    """Return the fault sticks of one section, the likeliest first.

    `likelihood` has the shape (n_samples, n_traces). A stick is (samples, traces, likelihoods): arrays with one entry
    for each sample of the stick. Its likelihood exceeds `threshold` at least once.
    """
    averaged, slope = scan(np.ascontiguousarray(likelihood, np.float32), SLOPES, HALF)
    return link(averaged, slope, threshold)


@numba.njit(nogil=True, cache=True)
def scan(likelihood: np.ndarray, slopes: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every sample, the largest mean likelihood along a straight line through it, and this line's slope.

    The mean is weighted by a Gaussian that ends at two standard deviations, `half` samples above and below. Slopes are
    in traces per sample.
    """
    n_samples, n_traces = likelihood.shape
    best, steepest = np.zeros_like(likelihood), np.zeros_like(likelihood)
    weights = np.exp(-0.5 * (2 * np.arange(-half, half + 1) / max(half, 1)) ** 2).astype(np.float32)
    for slope in slopes:
        mean = np.zeros_like(likelihood)
        for i in range(n_samples):
            total = np.float32(0)
            for d in range(-half, half + 1):
                if 0 <= i + d < n_samples:
                    total += weights[d + half]
            for d in range(-half, half + 1):
                if 0 <= i + d < n_samples:
                    whole = int(np.floor(slope * d))
                    share = np.float32(slope * d - whole)
                    weight = weights[d + half] / total
                    for j in range(max(0, -whole), min(n_traces, n_traces - whole - 1)):
                        left, right = likelihood[i + d, j + whole], likelihood[i + d, j + whole + 1]
                        mean[i, j] += weight * ((1 - share) * left + share * right)
        for i in range(n_samples):
            for j in range(n_traces):
                if mean[i, j] > best[i, j]:
                    best[i, j], steepest[i, j] = mean[i, j], slope
    return best, steepest


def link(likelihood: np.ndarray, slope: np.ndarray, threshold: float) -> list[Stick]:
    """Link ridge samples into sticks, starting at the highest likelihood; see `sticks_of`.

    `likelihood` and `slope` are the two results of `scan`.
    """
    taken = np.zeros(likelihood.shape, bool)
    free = ridges(likelihood) & (likelihood > 2 / 3 * threshold)
    seeds = np.argwhere(free & (likelihood > threshold))
    seeds = seeds[np.argsort(-likelihood[tuple(seeds.T)], kind="stable")]
    found = []
    for sample, trace in seeds:
        if not free[sample, trace]:
            continue
        points = {int(sample): int(trace)}
        for way in (1, -1):
            points |= _follow(int(sample), int(trace), way, free, taken, likelihood, slope)
        samples = np.arange(min(points), max(points) + 1)
        picked = np.array(sorted(points))
        traces = np.interp(samples, picked, [points[i] for i in picked])
        columns = np.rint(traces).astype(int)
        for i, j in zip(samples, columns, strict=True):
            free[i, max(0, j - APART) : j + APART + 1] = False
            taken[i, max(0, j - APART) : j + APART + 1] = True
        along = likelihood[samples, columns]
        kept = _body(along)
        if kept.stop - kept.start >= SHORTEST:
            traces = traces + _peak_offset(likelihood, samples, columns)
            found.append((samples[kept], gaussian_filter1d(traces, 3.0, mode="nearest")[kept], along[kept]))
    return found


def ridges(likelihood: np.ndarray) -> np.ndarray:
    """Return a mask of the samples whose likelihood is the largest on five traces: their own and two on either side."""
    padded = np.pad(likelihood, ((0, 0), (2, 2)), constant_values=-1)
    n = likelihood.shape[1]
    left = np.maximum(padded[:, :n], padded[:, 1 : n + 1])
    right = np.maximum(padded[:, 3 : n + 3], padded[:, 4 : n + 4])
    return np.asarray((likelihood >= left) & (likelihood > right))


def _follow(
    sample: int, trace: int, way: int, free: np.ndarray, taken: np.ndarray, likelihood: np.ndarray, slope: np.ndarray
) -> dict[int, int]:
    """Continue a stick from a sample downwards (`way` 1) or upwards (`way` -1); return a dict: sample -> trace.

    `free` is a mask of ridge samples that no stick uses yet, `taken` a mask of samples at or close to other sticks.
    """
    n_samples, n_traces = free.shape
    found: dict[int, int] = {}
    course = slope[sample, trace]
    while True:
        missed, crossed = 0, 0
        for step in range(1, GAP + CROSSING + 2):
            i = sample + way * step
            centre = trace + way * step * course
            first, last = max(0, int(np.ceil(centre - REACH))), min(n_traces - 1, int(np.floor(centre + REACH)))
            if not 0 <= i < n_samples or first > last:
                return found
            nearby = first + np.flatnonzero(free[i, first : last + 1])
            if len(nearby):
                break
            if taken[i, first : last + 1].any():
                crossed += 1
            else:
                missed += 1
            if missed > GAP or crossed > CROSSING:
                return found
        else:
            return found
        trace = int(nearby[np.argmin(np.abs(nearby - centre) - 3 * likelihood[i, nearby])])
        sample, found[i] = i, trace
        course += TURN * (slope[i, trace] - course)


def _body(likelihoods: np.ndarray) -> slice:
    """Return the slice of a stick between the first and last sample with at least half of its median likelihood."""
    smooth = uniform_filter1d(likelihoods, 5, mode="nearest")
    inside = np.flatnonzero(smooth >= np.median(smooth) / 2)
    return slice(inside[0], inside[-1] + 1)


def _peak_offset(likelihood: np.ndarray, samples: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return, for each sample, the distance in traces to the peak of a parabola through it and its two neighbours.

    The distance is 0 at samples that are no maximum across the traces.
    """
    last = likelihood.shape[1] - 1
    left, middle, right = (likelihood[samples, np.clip(columns + k, 0, last)] for k in (-1, 0, 1))
    bend = left - 2 * middle + right
    peak = (middle >= left) & (middle >= right) & (bend < 0)
    return np.where(peak, 0.5 * (left - right) / np.where(peak, bend, -1), 0)
