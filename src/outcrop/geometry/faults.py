"""Fault sticks: likelihood of a fault at every sample, thinned along the fault, linked into polylines.

The likelihood is what the pretrained encoder answers on the section and on the stretched section and, with a smaller
weight, how little neighbouring traces agree along the layers (dip-steered semblance). A scan over fault dips then
averages it along straight pieces of a fault [Hale2013]_; what is largest across traces is linked downwards and upwards,
over short gaps.

.. [Hale2013] Hale, D., 2013, Methods to compute fault images, extract fault surfaces, and estimate fault throws from 3D
   seismic images: Geophysics 78(2), O33-O43.
"""

from collections import deque
from collections.abc import Callable, Sequence

import numba
import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import gaussian_filter, gaussian_filter1d, median_filter, uniform_filter1d, zoom
from scipy.special import expit, logit

from outcrop.arrays import device_list
from outcrop.features.encoder import Encoder, balanced
from outcrop.geometry.surfaces import join_sticks, least_lines
from outcrop.parallel import map_blocks
from outcrop.patches.gaps import bridge
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.amplitude import scale
from outcrop.volumes.lazy import live_traces

SLOPES = np.linspace(-1.5, 1.5, 31)  # traces a sample, of the faults that the scan looks for
HALF = 4  # samples up and down over which the scan averages
SCALES = (1.0, 1.0), (1.5, 3.0)  # times the samples and traces of a section at which the encoder sees it
WEIGHT = 0.1  # of the discontinuity against the encoder
CONTRAST = 6.0  # times the median of the section at which a discontinuity counts half
STEERED = 2  # traces on either side that the semblance compares
SMOOTH = 4.0  # samples, standard deviation of the vertical window of the semblance
GAP = 6  # samples without a maximum that a stick bridges
REACH = 2  # traces beside its course in which a stick looks for the next maximum
TURN = 0.15  # share of the slope of a sample that the course of a stick takes over
CROSSING = 24  # samples of another stick that a stick crosses
APART = 3  # traces on either side of a stick that belong to it
SHORTEST = 12  # samples
EDGE = 4  # traces at the ends of the section and of gaps, where nothing is compared
NODE = 8  # samples between the points of a stick
THRESHOLD = 0.4
NEIGHBOURS = 2  # lines on either side that support a line
ALIKE = 0.35  # correlation of two lines from which on they are neighbours


def fault_sticks(
    volume: xr.DataArray,
    *,
    along: str = "inline",
    lines: Sequence[int] | None = None,
    threshold: float = THRESHOLD,
    neighbours: int = NEIGHBOURS,
    device: str | None = None,
    progress: Callable | None = None,
) -> pd.DataFrame:
    """Fault sticks of the sections of a volume, joined into surfaces where there are several lines.

    Lines are read one after the other, so the volume need not fit in memory. Sections may be as low as 64 samples.

    Parameters
    ----------
    volume : DataArray, dims (inline, crossline, time or depth)
    along : {"inline", "crossline", "both"}
        Sections to pick on. A fault is seen best on sections across it; ``both`` finds faults of any strike.
    lines : sequence of int, optional
        Survey labels of the lines to pick on; all of them by default. Not with ``both``.
    threshold : float
        Likelihood that a stick reaches somewhere; it is followed down to two thirds of it.
    neighbours : int
        Lines on either side whose likelihood supports that of a line, where they show the same layers.
    device : str, optional
        A torch device for the encoder, for instance ``cuda`` (all GPUs that are visible) or ``cuda:0,cuda:1``.
    progress : callable, optional
        Called with the number of lines done, and of all.

    Returns
    -------
    DataFrame
        surface, stick (counted from 0), inline, crossline, time (or depth), likelihood; the points of a stick in order,
        downwards. Points lie between traces where the fault does. Where at least five lines in a row are picked, what
        fewer than three of them show is left out.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 160, 128), seed=0)
    >>> fault_sticks(volume).columns.tolist()
    ['surface', 'stick', 'inline', 'crossline', 'time', 'likelihood']
    """
    names = _directions(along, lines)
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is {threshold}; choose a value between 0 and 1.")
    volume = volume.transpose(*DIRECTIONS, ...)
    wanted = {name: _positions(volume, name, lines) for name in names}
    parts, total = [], sum(map(len, wanted.values()))
    for name, positions in wanted.items():
        for sticks in line_sticks(volume, name, positions, threshold, neighbours=neighbours, device=device):
            parts.append(sticks)
            if progress:
                progress(len(parts), total)
    if not any(map(len, parts)) and not _any_live(volume, wanted):
        raise ValueError(
            "No trace of these lines is live: all are missing or constant; check what they were read from."
        )
    return join_sticks(assembled(parts, volume), volume, least=min(map(least_lines, wanted.values())))


def _any_live(volume, wanted):
    """Whether a line has a trace with data; reads as far as the first that has."""
    places = ((DIRECTIONS.index(name), position) for name, some in wanted.items() for position in some)
    return any(section_of_line(volume, *place)[1].any() for place in places)


def _directions(along, lines):
    if along not in (*DIRECTIONS, "both"):
        raise ValueError(f"Direction {along!r} is unknown; choose inline, crossline or both.")
    if along == "both" and lines is not None:
        raise ValueError("lines are given for both directions; choose along inline or crossline.")
    return DIRECTIONS if along == "both" else (along,)


def _positions(volume, name, lines):
    """Positions of lines given by their survey labels, all of them by default."""
    labels = volume[name].values
    if lines is None:
        return np.arange(len(labels))
    missing = [line for line in lines if line not in labels]
    if missing:
        raise ValueError(f"The volume has no {name} {missing[0]}; it has {labels[0]} to {labels[-1]}.")
    return np.flatnonzero(np.isin(labels, lines))


def assembled(parts, volume):
    """Sticks of lines as one table, counted through."""
    columns = ["stick", *volume.dims, "likelihood", "along"]
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame({name: np.empty(0) for name in columns}).astype({"stick": int, "along": str})
    counts = np.cumsum([0, *(part["stick"].max() + 1 for part in parts[:-1])])
    parts = [part.assign(stick=part["stick"] + first) for part, first in zip(parts, counts, strict=True)]
    return pd.concat(parts, ignore_index=True)


def line_sticks(volume, along, positions, threshold=THRESHOLD, *, neighbours=NEIGHBOURS, device=None):
    """Yield the sticks of lines, one table after the other, in the order of their positions."""
    direction = DIRECTIONS.index(along)
    needed = sorted({p + k for p in positions for k in range(-neighbours, neighbours + 1)})
    needed = [p for p in needed if 0 <= p < volume.shape[direction]]
    devices = device_list(device) or [None]

    def likelihood(position):
        return position, *likelihood_of_line(volume, direction, position, devices[position % len(devices)])

    maps = map_blocks(likelihood, needed)

    def pick(supported):
        position, support = supported
        return _table(volume, direction, position, sticks_of(along_strike(support), threshold))

    yield from map_blocks(pick, _supported(maps, positions, needed, neighbours))


def _supported(maps, positions, needed, neighbours):
    """Yield positions with the distance and likelihood of every line that supports them, from those of all lines."""
    held: deque = deque()
    for position in positions:
        while not held or held[-1][0] < min(position + neighbours, needed[-1]):
            held.append(next(maps))
        while held[0][0] < position - neighbours:
            held.popleft()
        here = next(section for p, _, section in held if p == position)
        support = [
            (p - position, likelihood)
            for p, likelihood, section in held
            if p == position or (abs(p - position) <= neighbours and alike(here, section))
        ]
        yield position, support


def alike(section, other):
    """Whether two sections are neighbours that show the same layers: lines of a coarse selection are not."""
    one, two = ((part[::2, ::2] - 0.5).ravel() for part in (section, other))
    return float(one @ two) > ALIKE * float(np.linalg.norm(one) * np.linalg.norm(two))


def likelihood_of_line(volume, direction, position, device=None):
    """Likelihood of a fault at every sample of a line, 0 near ends and gaps, and its section; (n_samples, n_traces)."""
    section, valid = section_of_line(volume, direction, position)
    if not valid.any():
        return np.zeros(section.shape, np.float32), section
    likelihood = fault_likelihood(section, device=device)
    near = np.convolve(~np.pad(valid, EDGE), np.ones(2 * EDGE + 1), "valid") > 0
    likelihood[:, near] = 0
    return likelihood, section


def section_of_line(volume, direction, position):
    """Amplitudes of a line around 0.5, shape (n_samples, n_traces), and which traces hold data; short gaps are filled.

    Each line is scaled by itself, which the encoder does not mind: it balances amplitudes anyway.
    """
    section = np.asarray(volume[(slice(None),) * direction + (position,)].values, np.float32)
    live = live_traces(volume)[(slice(None),) * direction + (position,)]
    section = np.where(np.isfinite(section), section, 0)
    live = live & (np.ptp(section, axis=1) > 0)
    section = bridge(section, live)
    valid = np.isfinite(section).all(axis=1)
    if not valid.any():
        return np.full(section.T.shape, 0.5, np.float32), valid
    if not volume.attrs.get("scaled"):
        section = scale(section, float(np.percentile(np.abs(section[valid]), 99.5)) or 1.0)
    return np.where(valid[:, None], section, np.float32(0.5)).T.astype(np.float32), valid


def fault_likelihood(section, *, weight=WEIGHT, scales=SCALES, device=None):
    """Likelihood of a fault at every sample of one section.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes of any gain around 0.5.
    weight : float
        Of the discontinuity of the data: 0 is the encoder alone, 1 the discontinuity alone.
    scales : sequence of (float, float)
        How many times the samples and the traces of the section the encoder sees; the first is that of the dip.
    device : str, optional
        A torch device for the encoder.

    Returns
    -------
    array, shape (n_samples, n_traces)
        ``encoder ** (1 - weight) * discontinuity ** weight``, both times the probability that there is neither chaos
        nor salt, in which every trace differs from the next.
    """
    answers = answers_at_scales(section, scales, device)
    layered = (1 - answers["chaos"]) * (1 - answers["salt"])
    measured = discontinuity(section, answers["dip"])
    return (layered * answers["fault"] ** (1 - weight) * measured**weight).astype(np.float32)


def answers_at_scales(section, scales, device=None):
    """Mean of the encoder's answers, as logits, over scales at which it sees a section; the dip of the first of them.

    A section stretched across shows steep faults flatter and with more traces to either side.
    """
    names = ("fault", "chaos", "salt")
    total, dip = dict.fromkeys(names, np.float32(0)), None
    for factors in scales:
        seen = section if factors == (1.0, 1.0) else zoom(section, factors, order=3)
        answers = Encoder(device=device).answers(seen[None].astype(np.float32))
        back = [n / n_seen for n, n_seen in zip(section.shape, seen.shape, strict=True)]
        for name in names:
            total[name] = total[name] + logit(np.clip(zoom(answers[name][0], back, order=1), 1e-5, 1 - 1e-5))
        if dip is None:
            dip = zoom(answers["dip"][0], back, order=1) * np.float32(back[0] / back[1])
    return {name: expit(total[name] / len(scales)) for name in names} | {"dip": dip}


def discontinuity(section, dip):
    """How little neighbouring traces agree along the layers, between 0 and 1.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes around 0.5.
    dip : array, shape (n_samples, n_traces)
        Samples a trace.

    Notes
    -----
    With the semblance s of five traces along the dip, d = 1 - s over its median over the section, m, is a measure free
    of the noise of the survey; returned is d / (d + 6 m).
    """
    amplitudes = balanced(np.asarray(section, np.float32)[None] - np.float32(0.5))[0]
    stacked, energy = _along_dip(amplitudes, _regional(dip), STEERED)
    stacked, energy = (gaussian_filter1d(part, SMOOTH, axis=0, mode="nearest") for part in (stacked, energy))
    apart = np.maximum(1 - stacked / (energy + np.float32(1e-6) * energy.mean() + np.float32(1e-12)), 0)
    middle = np.median(apart)
    return apart / (apart + CONTRAST * middle + np.float32(1e-6))


def _regional(dip):
    """Dip without what a fault drags: a median over some 25 traces, smoothed."""
    coarse = median_filter(dip[::4, ::4], (3, 7), mode="nearest")
    fine = np.repeat(np.repeat(coarse, 4, 0), 4, 1)[: dip.shape[0], : dip.shape[1]]
    return gaussian_filter(fine, (4, 8), mode="nearest").astype(np.float32)


@numba.njit(nogil=True, cache=True)
def _along_dip(amplitudes, dip, half):
    """Squared sum, and sum of squares times their number, of traces around every sample along its dip."""
    n_samples, n_traces = amplitudes.shape
    stacked, energy = np.zeros_like(amplitudes), np.zeros_like(amplitudes)
    for i in range(n_samples):
        for j in range(n_traces):
            first, last = max(0, j - half), min(n_traces - 1, j + half)
            total, square = np.float32(0), np.float32(0)
            for k in range(first, last + 1):
                place = min(max(i + dip[i, j] * (k - j), 0.0), n_samples - 1.0)
                above = min(int(place), n_samples - 2)
                share = np.float32(place - above)
                value = (1 - share) * amplitudes[above, k] + share * amplitudes[above + 1, k]
                total += value
                square += value * value
            stacked[i, j] = total * total
            energy[i, j] = square * (last - first + 1)
    return stacked, energy


def along_strike(support):
    """Mean of the likelihoods of neighbouring lines along the strike that makes it largest.

    Parameters
    ----------
    support : list of (int, array)
        Distance of a line in lines and its likelihood; distance 0 must be there.
    """
    if len(support) == 1:
        return support[0][1]
    means = [sum(_shifted(part, strike * away) for away, part in support) / len(support) for strike in (-1, 0, 1)]
    return np.maximum.reduce(means)


def _shifted(section, traces):
    """Section whose trace j is trace j + `traces` of the given one; the last trace repeats."""
    if not traces:
        return section
    return section[:, np.clip(np.arange(section.shape[1]) + traces, 0, section.shape[1] - 1)]


def sticks_of(likelihood, threshold=THRESHOLD):
    """Sticks of one section as (samples, traces, likelihoods), arrays with an entry per sample, the surest first."""
    averaged, slope = scan(np.ascontiguousarray(likelihood, np.float32), SLOPES, HALF)
    return link(averaged, slope, threshold)


@numba.njit(nogil=True, cache=True)
def scan(likelihood, slopes, half):
    """Largest mean of the likelihood along a straight piece of fault through every sample, and its slope.

    The mean is weighted by a Gaussian that ends at two standard deviations, `half` samples up and down.
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


def link(likelihood, slope, threshold):
    """Link what is largest across traces into sticks, from the surest sample on; see `sticks_of`."""
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
            traces = traces + _between(likelihood, samples, columns)
            found.append((samples[kept], gaussian_filter1d(traces, 3.0, mode="nearest")[kept], along[kept]))
    return found


def ridges(likelihood):
    """Samples whose likelihood is the largest among five traces."""
    padded = np.pad(likelihood, ((0, 0), (2, 2)), constant_values=-1)
    n = likelihood.shape[1]
    left = np.maximum(padded[:, :n], padded[:, 1 : n + 1])
    right = np.maximum(padded[:, 3 : n + 3], padded[:, 4 : n + 4])
    return (likelihood >= left) & (likelihood > right)


def _follow(sample, trace, way, free, taken, likelihood, slope):
    """Samples and traces of a stick from a sample on, downwards (way 1) or upwards (-1)."""
    n_samples, n_traces = free.shape
    found: dict = {}
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


def _body(likelihoods):
    """Part of a stick from where its likelihood first reaches half its median to where it last does."""
    smooth = uniform_filter1d(likelihoods, 5, mode="nearest")
    inside = np.flatnonzero(smooth >= np.median(smooth) / 2)
    return slice(inside[0], inside[-1] + 1)


def _between(likelihood, samples, columns):
    """Distance in traces from the largest of three traces to the top of the parabola through them."""
    last = likelihood.shape[1] - 1
    left, middle, right = (likelihood[samples, np.clip(columns + k, 0, last)] for k in (-1, 0, 1))
    bend = left - 2 * middle + right
    peak = (middle >= left) & (middle >= right) & (bend < 0)
    return np.where(peak, 0.5 * (left - right) / np.where(peak, bend, -1), 0)


def _table(volume, direction, position, sticks):
    """Sticks of a line in survey labels, with points every few samples."""
    rows = []
    labels = [volume[name].values for name in volume.dims]
    traces_of = labels[1 - direction]
    for number, (samples, traces, likelihoods) in enumerate(sticks):
        count = max(2, round((len(samples) - 1) / NODE) + 1)
        nodes = np.linspace(0, len(samples) - 1, count).round().astype(int)
        across = np.interp(traces[nodes], np.arange(len(traces_of)), traces_of)
        smooth = gaussian_filter1d(likelihoods, NODE / 2, mode="nearest")[nodes]
        line = np.full(count, labels[direction][position])
        inline, crossline = (line, across) if direction == 0 else (across, line)
        rows.append(
            pd.DataFrame(
                {
                    "stick": number,
                    "inline": inline,
                    "crossline": crossline,
                    volume.dims[2]: labels[2][samples[nodes]],
                    "likelihood": smooth,
                    "along": DIRECTIONS[direction],
                }
            )
        )
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()
