"""Compute the likelihood of a fault at every sample of a section, from the encoder and from broken reflectors."""

import numba
import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_filter1d, median_filter, zoom
from scipy.special import expit, logit
from xarray import DataArray

from outcrop.features.encoder import Encoder, balanced
from outcrop.patches.gaps import bridge
from outcrop.volumes.amplitude import centre, scale
from outcrop.volumes.lazy import live_traces

SCALES = (1.0, 1.0), (1.5, 3.0)  # (vertical, horizontal) factors by which sections are stretched for the encoder
WEIGHT = 0.1  # weight of the discontinuity; the encoder has the remaining weight
CONTRAST = 6.0  # the discontinuity is 0.5 where one minus semblance is this many times its median
STEERED = 2  # traces on either side that the semblance compares
SMOOTH = 4.0  # samples, standard deviation of the vertical window of the semblance
NEIGHBOURS = 2  # lines on either side of a line whose likelihoods are averaged with its own
ALIKE = 0.35  # smallest correlation of two lines that show the same layers
EDGE = 4  # traces next to the ends of a section and next to gaps, where the likelihood is 0


def alike(section: np.ndarray, other: np.ndarray) -> bool:
    """Return True if two sections (zero amplitude at 0.5) show the same layers: if their correlation exceeds 0.35."""
    one, two = ((part[::2, ::2] - 0.5).ravel() for part in (section, other))
    return float(one @ two) > ALIKE * float(np.linalg.norm(one) * np.linalg.norm(two))


def likelihood_of_line(
    volume: DataArray, direction: int, position: int, device: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (likelihood of a fault, scaled amplitudes) at every sample of a line.

    `direction` is 0 for an inline and 1 for a crossline, `position` the index of the line. Both arrays have the shape
    (n_samples, n_traces). The likelihood is 0 near the ends and gaps of the line.
    """
    section, valid = section_of_line(volume, direction, position)
    if not valid.any():
        return np.zeros(section.shape, np.float32), section
    likelihood = fault_likelihood(section, device=device)
    near = np.convolve(~np.pad(valid, EDGE), np.ones(2 * EDGE + 1), "valid") > 0
    likelihood[:, near] = 0
    return likelihood, section


def section_of_line(volume: DataArray, direction: int, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (amplitudes of a line scaled to [0, 1], mask of the traces with data).

    The amplitudes have the shape (n_samples, n_traces). Zero amplitude is 0.5; short gaps are interpolated. `direction`
    is 0 for an inline and 1 for a crossline, `position` the index of the line. Each line has its own scale,
    because the encoder balances amplitudes.
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
    """Return the likelihood of a fault at every sample of one section.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes of any gain, with zero amplitude at 0.5.
    weight : float
        Weight of the discontinuity: 0 uses the encoder alone, 1 the discontinuity alone.
    device : str, optional
        A torch device for the encoder.

    Returns
    -------
    array, shape (n_samples, n_traces)
        ``layered * encoder ** (1 - weight) * discontinuity ** weight``, where ``encoder`` is the predicted probability
        of a fault, and ``layered`` the probability of neither chaos nor salt. The factor ``layered`` lowers the
        likelihood in chaos and salt, where adjacent traces differ even without a fault.
    """
    predictions = _mean_predictions(section, device)
    layered = (1 - predictions["chaos"]) * (1 - predictions["salt"])
    measured = discontinuity(section, predictions["dip"])
    return np.asarray(layered * predictions["fault"] ** (1 - weight) * measured**weight, np.float32)


def _mean_predictions(section: np.ndarray, device: str | None = None) -> dict[str, np.ndarray]:
    """Return a dict: fault, chaos, salt or dip -> the encoder's prediction at every sample.

    The logits of fault, chaos and salt are averaged over the section at its own size and the stretched section. On the
    stretched section steep faults are less steep and have more traces on either side. The dip is that of the
    unstretched section, in samples per trace.
    """
    names = ("fault", "chaos", "salt")
    total, dip = dict.fromkeys(names, np.float32(0)), None
    for factors in SCALES:
        stretched = section if factors == (1.0, 1.0) else zoom(section, factors, order=3)
        predictions = Encoder(device=device).answers(stretched[None].astype(np.float32))
        back = [n / n_stretched for n, n_stretched in zip(section.shape, stretched.shape, strict=True)]
        for name in names:
            total[name] = total[name] + logit(np.clip(zoom(predictions[name][0], back, order=1), 1e-5, 1 - 1e-5))
        if dip is None:
            dip = zoom(predictions["dip"][0], back, order=1) * np.float32(back[0] / back[1])
    return {name: expit(total[name] / len(SCALES)) for name in names} | {"dip": dip}


def discontinuity(section: np.ndarray, dip: np.ndarray) -> np.ndarray:
    """Return the discontinuity of neighbouring traces along the layers, between 0 and 1.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes, with zero amplitude at 0.5.
    dip : array, shape (n_samples, n_traces)
        Dip of the layers in samples per trace.

    Notes
    -----
    Let s be the semblance of five traces along the dip, d = 1 - s, and m the median of d over the section. The result
    is d / (d + 6 m). The median m adapts the result to the noise level of the survey.
    """
    amplitudes = balanced(np.asarray(section, np.float32)[None] - np.float32(0.5))[0]
    stacked, energy = _along_dip(amplitudes, _regional(dip), STEERED)
    stacked, energy = (gaussian_filter1d(part, SMOOTH, axis=0, mode="nearest") for part in (stacked, energy))
    apart = np.maximum(1 - stacked / (energy + np.float32(1e-6) * energy.mean() + np.float32(1e-12)), 0)
    middle = np.median(apart)
    return np.asarray(apart / (apart + CONTRAST * middle + np.float32(1e-6)))


def _regional(dip: np.ndarray) -> np.ndarray:
    """Return the dip, smoothed by a median over about 25 traces to remove the drag of layers at a fault."""
    coarse = median_filter(dip[::4, ::4], (3, 7), mode="nearest")
    fine = np.repeat(np.repeat(coarse, 4, 0), 4, 1)[: dip.shape[0], : dip.shape[1]]
    return np.asarray(gaussian_filter(fine, (4, 8), mode="nearest"), np.float32)


@numba.njit(nogil=True, cache=True)
def _along_dip(amplitudes: np.ndarray, dip: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numerator and denominator of the semblance along the dip, at every sample.

    The numerator is the squared sum of the amplitudes on up to `half` traces on either side. The denominator is the sum
    of their squares times the number of traces.
    """
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
    """Return the likelihood of a line averaged with its neighbouring lines along the strike of the faults.

    For each sample, three strikes are tried: shifts of -1, 0 and 1 trace per line. The largest mean is returned.

    Parameters
    ----------
    support : list of (int, array)
        (distance in lines, likelihood) of each line; the line itself, at distance 0, is required.
    """
    if len(support) == 1:
        return support[0][1]
    shifted = [[_shifted(part, strike * away) for away, part in support] for strike in (-1, 0, 1)]
    return np.asarray(np.max([np.sum(parts, axis=0) / len(support) for parts in shifted], axis=0))


def _shifted(section: np.ndarray, traces: int) -> np.ndarray:
    """Return a section whose trace j is trace j + `traces` of the given section; end traces are repeated."""
    if not traces:
        return section
    return section[:, np.clip(np.arange(section.shape[1]) + traces, 0, section.shape[1] - 1)]
