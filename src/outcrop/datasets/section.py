"""Computation of one line of a synthetic survey.

The `age` of a sample is the depth, in samples, that its rock would have without folds, salt and faults. The impedance
log is read at `age`, and its reflectivity is convolved with the wavelet. A line depends only on the shape and seed of
the survey and on the line's position, so lines can be computed in any order.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft, ndimage, signal

from outcrop.datasets.earth import DEBRIS, FINE, KNOT, LOG, STEP, Earth

Array = npt.NDArray[Any]
Plane = Callable[[int], Array]  # function from the number of a plane to its fine and coarse random fields

CLASSES = ["chaotic", "other", "fault", "salt dome"]
CHAOTIC, OTHER, FAULT, SALT_DOME = 1, 2, 3, 4
_MOVED = 200  # samples: upper limit of half the thickness of a band plus its displacement by folds, salt and faults
_REACH = 45  # traces from a fault plane to undisturbed layers
_HALF = 20  # half the wavelet, in samples
_PLANE = 4  # lines between planes with independent random fields


def _relief(waves: Array, row: int, traces: Array) -> Array:
    """Return the sum of plane waves along one line, shape (n_crossline, 1); its variance over the map is 1."""
    k_line, k_trace, phase = waves
    height = np.sqrt(2 / len(phase)) * np.cos(k_line * row + k_trace * traces + phase).sum(1, keepdims=True)
    return np.asarray(height, np.float32)


def make_line(earth: Earth, row: int, plane: Plane) -> tuple[Array, Array]:
    """Return amplitudes and true labels of the inline at position `row`, both of shape (n_crossline, n_sample).

    ``plane(number)`` returns random fields as `texture_plane` draws them.
    """
    n_crossline, n_sample = earth.shape[1:]
    traces, samples = np.arange(n_crossline, dtype=np.float32)[:, None], np.arange(n_sample + 1, dtype=np.float32)
    age = _fold(earth, row, traces, samples)
    salt, slope = pierce(earth, row, traces, samples, age)
    faulted = _slip(earth, row, traces, samples, age)
    fine, coarse = _texture(row, plane)
    chaotic, buried = _bury(earth, row, traces, age, coarse)
    facies = _relief(earth.facies, row, traces)
    impedance = _impedance(earth, age + buried, facies, coarse, faulted=faulted, chaotic=chaotic)
    impedance = np.where(samples > salt, 1.2 * fine + 1.2 * coarse, impedance)
    truth = np.where(faulted, np.uint8(FAULT), np.uint8(OTHER))
    truth[chaotic] = CHAOTIC
    truth[samples > salt] = SALT_DOME
    section = _seismic(earth, row, np.diff(impedance, axis=1))
    _add_salt_face(section, salt, slope, coarse)
    return section, truth[:, :-1]


def _fold(earth: Earth, row: int, traces: Array, samples: Array) -> Array:
    """Return the age (depth before folding, in samples) of all samples of a line with gently folded layers."""
    apart = np.abs(samples - KNOT * np.arange(len(earth.knots), dtype=np.float32)[:, None]) / KNOT
    weights = np.cos(0.5 * np.pi * np.minimum(apart, 1)) ** 2
    reliefs = np.hstack([4 * _relief(knot, row, traces) for knot in earth.knots])
    return np.asarray(samples + 9 * _relief(earth.fold, row, traces) + reliefs @ weights)


def pierce(earth: Earth, row: int, traces: Array, samples: Array, age: Array) -> tuple[Array, Array]:
    """Lift the layers at the salt domes by changing `age` in place; return depth and slope of the top of the salt.

    `age` is the depth in samples that each sample had before deformation. The depth of the salt is in samples, the
    slope in samples per trace; both have shape (n_crossline, 1).
    """
    salt, slope = np.full(traces.shape, 1e6, np.float32), np.zeros(traces.shape, np.float32)
    rough = 4 * _relief(earth.rough, row, traces)
    for dome in earth.domes:
        x, y = (row - dome.line) / dome.radius, (traces[:, 0] - dome.trace) / dome.radius
        near = np.hypot(x, y) < 4
        if near.any():
            y = y[near, None]
            angle = np.arctan2(x, y)
            outline = 1 + 0.1 * np.cos(2 * angle + dome.phase) + 0.06 * np.cos(3 * angle + 2 * dome.phase)
            rho = np.hypot(x, y) * outline
            ramp = np.clip((samples - dome.top + 140) / 160, 0, 1)
            lift = np.exp(-((rho / 0.95) ** 2)) - 0.25 * np.exp(-((rho / 1.9) ** 2))  # with a rim syncline
            age[near] += dome.uplift * lift * (ramp * ramp * (3 - 2 * ramp))
            surface = dome.top + dome.height * (rho**2.2 + (rho / 1.15) ** 12) + rough[near]
            steep = dome.height / dome.radius * (2.2 * rho**1.2 + 12 / 1.15 * (rho / 1.15) ** 11)
            slope[near] = np.where(surface < salt[near], steep, slope[near])
            salt[near] = np.minimum(salt[near], surface)
    return salt, slope


def _slip(earth: Earth, row: int, traces: Array, samples: Array, age: Array) -> Array:
    """Move the layers along the faults by changing `age` in place; return a mask of the zones around fault planes.

    `age` is the depth in samples that each sample had before deformation.
    """
    zone = np.zeros(age.shape, bool)
    for fault in earth.faults:
        below = samples - fault.sample
        throw = fault.throw * (1 - ((row - fault.line) / fault.length) ** 2 - (below / fault.height) ** 2)
        live = np.flatnonzero(throw > 0)
        if len(live):
            below, throw = below[live], throw[live]
            plane = fault.trace + fault.strike * (row - fault.line) + (fault.dip + fault.listric * below) * below
            first, last = np.clip([plane.min() - _REACH, plane.max() + _REACH + 1], 0, len(traces)).astype(int)
            box = slice(first, last), slice(live[0], live[-1] + 1)
            distance = (traces[box[0]] - plane) * np.sign(fault.dip)
            away = np.abs(distance)
            drag = 1 - 0.3 * np.exp(-0.5 * away)
            slip = 0.5 * throw * np.clip(1 - away / _REACH, 0, 1) ** 2 * drag
            age[box] -= np.copysign(slip, distance)
            zone[box] |= (away <= 10) & (throw > 3)
    return zone


def _bury(earth: Earth, row: int, traces: Array, age: Array, coarse: Array) -> tuple[Array, Array]:
    """Return a mask of the chaotic bands, and for every sample a shift of its `age`.

    `age` is the depth in samples that each sample had before deformation. The shift is 0 above the shallowest
    unconformity.
    """
    chaotic, buried = np.zeros(age.shape, bool), np.zeros(age.shape, np.float32)
    swell, tilt = 4 * _relief(earth.fold, -2 * row, 2 * traces), _relief(earth.tilt, row, traces)
    for band in earth.bands:
        around = slice(max(0, int(band.sample) - _MOVED), int(band.sample) + _MOVED)
        deeper = band.shift + band.tilt * tilt
        edge = age[:, around] + 2 * coarse[:, around] - band.sample
        chaotic[:, around] |= np.abs(edge) < band.thickness / 2 - swell
        buried[:, around] += (age[:, around] > band.unconformity) * deeper
        buried[:, around.stop :] += deeper
    return chaotic, buried


def _impedance(earth: Earth, age: Array, facies: Array, coarse: Array, *, faulted: Array, chaotic: Array) -> Array:
    """Return the impedance of all samples, read from the impedance log at their `age`.

    In chaotic bands, where `chaotic` is True, layers are broken into rafts: displaced blocks.
    """
    raft = (8 + 1.5 * np.clip(coarse, -5, 5)).astype(np.int32)
    age += coarse * np.where(chaotic, np.float32(2), np.where(faulted, np.float32(0.9), np.float32(0.3)))
    age += chaotic * (5 * earth.rafts[0])[raft]
    index = ((age + LOG) * FINE).astype(np.int32)
    index = np.where(chaotic, LOG * FINE | index & (DEBRIS * FINE - 1), index & (LOG * FINE - 1))
    log = earth.log[0][index] + facies * earth.log[1][index]
    return np.asarray(log * (1 + chaotic * (0.4 * earth.rafts[1])[raft]))


def _texture(row: int, plane: Plane) -> Array:
    """Return a fine and a coarse random field of unit variance on one line; neighbouring lines have similar fields.

    They are interpolated between the random fields that ``plane(number)`` returns.
    """
    first, step = divmod(row, _PLANE)
    f = step / _PLANE
    spline = np.array([(1 - f) ** 3, 3 * f**3 - 6 * f**2 + 4, -3 * f**3 + 3 * f**2 + 3 * f + 1, f**3])
    weights = (spline / np.linalg.norm(spline)).astype(np.float32)
    return np.asarray(sum(weight * plane(first + k) for k, weight in enumerate(weights)))


def texture_plane(earth: Earth, number: int) -> Array:
    """Draw the fine and the coarse random field of the plane with the given number.

    Planes lie at every `_PLANE`-th line of a survey; `_texture` interpolates the fields of its lines from them.
    """
    rng = np.random.default_rng([earth.seed, 1, number])
    white = rng.standard_normal((earth.shape[1], earth.shape[2] + 1), dtype=np.float32)
    return np.stack([_smooth(white, 2.0, 2.2), _smooth(white, 3.6, 5.5)])


def _smooth(white: Array, *sigmas: float) -> Array:
    """Smooth white noise by a Gaussian with one standard deviation for each axis, and restore unit variance."""
    for axis, sigma in enumerate(sigmas):
        gain = np.float32(np.sqrt(2 * np.sqrt(np.pi) * sigma))
        white = gain * ndimage.gaussian_filter1d(white, sigma, axis, truncate=3)
    return white


def _seismic(earth: Earth, row: int, reflectivity: Array) -> Array:
    """Return amplitudes from reflectivity: add noise, smooth laterally, convolve with a wavelet that varies with depth.

    High frequencies decrease with depth.
    """
    n_sample = reflectivity.shape[1]
    rng = np.random.default_rng([earth.seed, 2, row])
    reflectivity += np.float32(0.2) * rng.standard_normal(reflectivity.shape, dtype=np.float32)
    padded = np.pad(reflectivity, ((1, 1), (0, 0)), mode="edge")
    reflectivity = 0.5 * reflectivity + 0.25 * (padded[:-2] + padded[2:])
    n = fft.next_fast_len(n_sample + 2 * _HALF, real=True)
    spectrum = fft.rfft(reflectivity, n, axis=1)
    near, far = (fft.irfft(spectrum * wavelet, n, axis=1)[:, _HALF : _HALF + n_sample] for wavelet in _wavelets(n))
    lost = (1 - np.exp(-np.arange(n_sample) * STEP / 2500)).astype(np.float32)
    return np.asarray(near + lost * (far - near))


def _add_salt_face(section: Array, salt: Array, slope: Array, coarse: Array) -> None:
    """Add the reflection of the salt's surface to a section in place; on steep parts, the wavelet is longer."""
    samples = np.arange(section.shape[1], dtype=np.float32)
    near = np.flatnonzero(salt[:, 0] < len(samples) + 6 * _HALF)
    stretch = 1 + 0.2 * slope[near] ** 2
    argument = (0.12 * np.pi * (samples - salt[near])) ** 2 / stretch
    face = (1 - 2 * argument) * np.exp(-argument)
    section[near] += 2 * stretch**-0.25 * (1 + 0.4 * coarse[near, :-1]) * face


@functools.cache
def _wavelets(n: int) -> Array:
    """Return the spectra of two wavelets, for shallow (42 Hz) and for deep samples (26 Hz), padded to `n` samples.

    Their phase is 25 degrees.
    """
    time = np.arange(-_HALF, _HALF + 1) * STEP / 1000
    argument = (np.pi * np.array([[42], [26]]) * time) ** 2
    wavelets = np.real(signal.hilbert((1 - 2 * argument) * np.exp(-argument)) * np.exp(-1j * np.deg2rad(25)))
    return np.asarray(fft.rfft(wavelets / np.linalg.norm(wavelets, axis=1, keepdims=True), n).astype(np.complex64))
