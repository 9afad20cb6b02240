"""Likelihood of a fault at every sample of a section, from the encoder and from broken reflectors."""

import numba
import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d, median_filter, zoom
from scipy.special import expit, logit
from xarray import DataArray

from outcrop.features.encoder import Encoder, balanced
from outcrop.patches.gaps import bridge
from outcrop.volumes.amplitude import centre, scale
from outcrop.volumes.lazy import live_traces

SCALES = (1.0, 1.0), (1.5, 3.0)  # times the samples and traces of a section at which the encoder sees it
WEIGHT = 0.1  # of the discontinuity against the encoder
CONTRAST = 6.0  # times the median of the section at which a discontinuity counts half
STEERED = 2  # traces on either side that the semblance compares
SMOOTH = 4.0  # samples, standard deviation of the vertical window of the semblance
NEIGHBOURS = 2  # lines on either side that support a line
ALIKE = 0.35  # correlation of two lines from which on they are neighbours
EDGE = 4  # traces at the ends of the section and of gaps, where nothing is compared


def alike(section: np.ndarray, other: np.ndarray) -> bool:
    """Whether two sections are neighbours that show the same layers: lines of a coarse selection are not."""
    one, two = ((part[::2, ::2] - 0.5).ravel() for part in (section, other))
    return float(one @ two) > ALIKE * float(np.linalg.norm(one) * np.linalg.norm(two))


def likelihood_of_line(
    volume: DataArray, direction: int, position: int, device: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Likelihood of a fault at every sample of a line, 0 near ends and gaps, and its section; (n_samples, n_traces)."""
    section, valid = section_of_line(volume, direction, position)
    if not valid.any():
        return np.zeros(section.shape, np.float32), section
    likelihood = fault_likelihood(section, device=device)
    near = np.convolve(~np.pad(valid, EDGE), np.ones(2 * EDGE + 1), "valid") > 0
    likelihood[:, near] = 0
    return likelihood, section


def section_of_line(volume: DataArray, direction: int, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes of a line around 0.5, shape (n_samples, n_traces), and which traces hold data; short gaps are filled.

    Each line is scaled by itself, which the encoder does not mind: it balances amplitudes anyway.
    """
    section = np.asarray(volume[(slice(None),) * direction + (position,)].values, np.float32)
    live = live_traces(volume)[(slice(None),) * direction + (position,)]
    section = np.where(np.isfinite(section), section, 0)
    live = live & (np.ptp(section, axis=1) > 0)
    section = np.asarray(bridge(section, live))
    valid = np.asarray(np.isfinite(section).all(axis=1))
    if not valid.any():
        return np.full_like(section.T, 0.5, np.float32), valid
    if not volume.attrs.get("scaled"):
        section = section - np.float32(centre(volume))
        section = scale(section, float(np.percentile(np.abs(section[valid]), 99.5)) or 1.0)
    return np.where(valid[:, None], section, np.float32(0.5)).T.astype(np.float32), valid


def fault_likelihood(
    section: np.ndarray,
    *,
    weight: float = WEIGHT,
    device: str | None = None,
) -> np.ndarray:
    """Likelihood of a fault at every sample of one section.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes of any gain around 0.5.
    weight : float
        Of the discontinuity of the data: 0 is the encoder alone, 1 the discontinuity alone.
    device : str, optional
        A torch device for the encoder.

    Returns
    -------
    array, shape (n_samples, n_traces)
        ``encoder ** (1 - weight) * discontinuity ** weight``, both times the probability that there is neither chaos
        nor salt, in which every trace differs from the next.
    """
    answers = answers_at_scales(section, device)
    layered = (1 - answers["chaos"]) * (1 - answers["salt"])
    measured = discontinuity(section, answers["dip"])
    return np.asarray(layered * answers["fault"] ** (1 - weight) * measured**weight, np.float32)


def answers_at_scales(section: np.ndarray, device: str | None = None) -> dict[str, np.ndarray]:
    """Mean of the encoder's answers, as logits, over scales at which it sees a section; the dip of the first of them.

    A section stretched across shows steep faults flatter and with more traces to either side.
    """
    names = ("fault", "chaos", "salt")
    total, dip = dict.fromkeys(names, np.float32(0)), None
    for factors in SCALES:
        seen = section if factors == (1.0, 1.0) else zoom(section, factors, order=3)
        answers = Encoder(device=device).answers(seen[None].astype(np.float32))
        back = [n / n_seen for n, n_seen in zip(section.shape, seen.shape, strict=True)]
        for name in names:
            total[name] = total[name] + logit(np.clip(zoom(answers[name][0], back, order=1), 1e-5, 1 - 1e-5))
        if dip is None:
            dip = zoom(answers["dip"][0], back, order=1) * np.float32(back[0] / back[1])
    return {name: expit(total[name] / len(SCALES)) for name in names} | {"dip": dip}


def discontinuity(section: np.ndarray, dip: np.ndarray) -> np.ndarray:
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
    return np.asarray(apart / (apart + CONTRAST * middle + np.float32(1e-6)))


def _regional(dip: np.ndarray) -> np.ndarray:
    """Dip without what a fault drags: a median over some 25 traces, smoothed."""
    coarse = median_filter(dip[::4, ::4], (3, 7), mode="nearest")
    fine = np.repeat(np.repeat(coarse, 4, 0), 4, 1)[: dip.shape[0], : dip.shape[1]]
    return np.asarray(gaussian_filter(fine, (4, 8), mode="nearest"), np.float32)


@numba.njit(nogil=True, cache=True)
def _along_dip(amplitudes: np.ndarray, dip: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray]:
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


def along_strike(support: list[tuple[int, np.ndarray]]) -> np.ndarray:
    """Mean of the likelihoods of neighbouring lines along the strike that makes it largest.

    Parameters
    ----------
    support : list of (int, array)
        Distance of a line in lines and its likelihood; distance 0 must be there.
    """
    if len(support) == 1:
        return support[0][1]
    shifted = [[_shifted(part, strike * away) for away, part in support] for strike in (-1, 0, 1)]
    return np.asarray(np.max([np.sum(parts, axis=0) / len(support) for parts in shifted], axis=0))


def _shifted(section: np.ndarray, traces: int) -> np.ndarray:
    """Section whose trace j is trace j + `traces` of the given one; the last trace repeats."""
    if not traces:
        return section
    return section[:, np.clip(np.arange(section.shape[1]) + traces, 0, section.shape[1] - 1)]
