"""Synthetic volumes with known fault planes, made in another way than the encoder's training sections, and scores."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import convolve1d, gaussian_filter, gaussian_filter1d, uniform_filter1d
from scipy.spatial import cKDTree

BIN, DEPTH_STEP = 25.0, 5.0  # metres between lines and traces, and between samples
VISIBLE = 1.5  # samples: smallest visible throw
NEAR = 2.0  # traces within which a point counts as found


@dataclass
class Plane:
    """An elliptic fault plane with the largest throw in its centre; positions and sizes in lines, traces, samples."""

    line: float
    trace: float
    sample: float
    azimuth: float  # degrees of its strike from the direction of rising inlines towards rising crosslines
    slope: float  # traces per sample, across the strike
    throw: float
    length: float
    height: float
    reach: float

    def throw_at(self, lines, traces, samples):
        """Return the throw, and the signed distance in traces across the strike."""
        turn = np.deg2rad(self.azimuth)
        along = (lines - self.line) * np.cos(turn) + (traces - self.trace) * np.sin(turn)
        across = (traces - self.trace) * np.cos(turn) - (lines - self.line) * np.sin(turn)
        below = samples - self.sample
        share = 1 - (along / self.length) ** 2 - (below / self.height) ** 2
        return self.throw * np.clip(share, 0, None), across - self.slope * below

    def points(self, shape):
        """Return line, trace and sample of the visible plane inside a volume, a point for every line and sample."""
        lines, samples = (part.ravel() for part in np.meshgrid(np.arange(shape[0]), np.arange(shape[2]), indexing="ij"))
        turn = np.deg2rad(self.azimuth)
        across = self.slope * (samples - self.sample)
        traces = self.trace + (across + (lines - self.line) * np.sin(turn)) / np.cos(turn)
        throw, _ = self.throw_at(lines, traces, samples)
        inside = (throw > VISIBLE) & (traces >= 0) & (traces <= shape[1] - 1)
        return np.column_stack([lines, traces, samples])[inside]

    @property
    def dip(self):
        """Return the dip in degrees from the horizontal."""
        return np.degrees(np.arctan2(DEPTH_STEP, abs(self.slope) * BIN))


def volume_with_planes(shape=(60, 200, 200), *, seed=0, noise=None, count=5, azimuth=50.0):
    """Make a volume of folded layers with `count` faults of random place, strike, dip and throw.

    Parameters
    ----------
    shape : (int, int, int)
    seed : int
    noise : float, optional
        Signal over noise in decibels; none by default.
    count : int
    azimuth : float
        Largest angle in degrees between a strike and the direction of rising inlines.

    Returns
    -------
    DataArray in depth, list of Plane
    """
    rng = np.random.default_rng([seed, 1])
    lines, traces, samples = np.ogrid[: shape[0], : shape[1], : shape[2]]
    planes = [_plane(rng, shape, azimuth) for _ in range(count)]
    age = np.zeros(shape, np.float32) + samples
    for plane in planes:
        throw, distance = plane.throw_at(lines, traces, samples)
        age -= np.sign(distance * plane.slope) * 0.5 * throw * np.exp(-np.abs(distance) / plane.reach)
    age += 5 * _folds(rng, lines, traces, (150, 500)) + rng.uniform(-0.15, 0.15) * traces
    age += 4 * samples / shape[2] * _folds(rng, lines, traces, (100, 300))
    impedance = np.interp(2 * (age + 300), np.arange(4096), _log(rng, 4096))
    amplitudes = np.diff(impedance, axis=2, prepend=impedance[..., :1])
    argument = (np.pi * np.arange(-30, 31) / rng.uniform(8, 16)) ** 2
    amplitudes = convolve1d(amplitudes, (1 - 2 * argument) * np.exp(-argument), axis=2)
    amplitudes = convolve1d(amplitudes, [0.25, 0.5, 0.25], axis=1)
    amplitudes /= amplitudes.std()
    if noise is not None:
        added = gaussian_filter(rng.standard_normal(shape), (0, 0.7, 1.2))
        amplitudes += added / added.std() * 10 ** (-noise / 20)
    axes = {"inline": np.arange(shape[0]), "crossline": np.arange(shape[1]), "depth": DEPTH_STEP * np.arange(shape[2])}
    return xr.DataArray(amplitudes.astype(np.float32), axes, attrs={"bin_size": (BIN, BIN)}), planes


def _plane(rng, shape, azimuth):
    return Plane(
        line=rng.uniform(0.2, 0.8) * shape[0],
        trace=rng.uniform(0.1, 0.9) * shape[1],
        sample=rng.uniform(0.25, 0.75) * shape[2],
        azimuth=rng.uniform(-azimuth, azimuth),
        slope=rng.choice([-1, 1]) * rng.uniform(0.1, 0.5),
        throw=rng.uniform(4, 12),
        length=rng.uniform(0.6, 1.2) * shape[0],
        height=rng.uniform(0.3, 0.8) * shape[2],
        reach=rng.uniform(20, 60),
    )


def _folds(rng, lines, traces, wavelengths, n=4):
    """Return a sum of plane waves of unit variance over the map."""
    total = np.zeros((lines.shape[0], traces.shape[1], 1))
    for k, way, phase in zip(2 * np.pi / rng.uniform(*wavelengths, n), *rng.uniform(0, 2 * np.pi, (2, n)), strict=True):
        total += np.sqrt(2 / n) * np.cos(k * (np.cos(way) * lines + np.sin(way) * traces) + phase)
    return total


def _log(rng, n):
    """Return impedance by age: beds of random thickness in units of random contrast."""
    log = np.cumsum(rng.standard_normal(n) * (rng.random(n) < 0.35))
    log -= uniform_filter1d(log, 60)
    log *= np.exp(0.5 * np.sqrt(2 * np.sqrt(np.pi) * 60) * gaussian_filter1d(rng.standard_normal(n), 60))
    return log / log.std()


def surface_scores(sticks, table, planes, shape):
    """Return the numbers of planes, found planes, surfaces and right surfaces, and the errors of strike and dip.

    A plane is found if a surface lies within 2 traces of half its visible points; a surface is right if half its points
    lie within 2 traces of a plane.

    Returns
    -------
    dict
        planes, found, surfaces, right; strike and dip are lists of errors in degrees of the found planes.
    """
    truth = [(plane, plane.points(shape)) for plane in planes]
    truth = [(plane, points) for plane, points in truth if len(points) >= 200]
    found = {surface: dense_points(part) for surface, part in sticks.groupby("surface")}
    near = {
        surface: [[_near(points, places).mean(), _near(places, points).mean()] for _, points in truth]
        for surface, places in found.items()
    }
    shares = np.array(list(near.values())).reshape(len(found), len(truth), 2)
    best = shares[:, :, 0].argmax(axis=0) if len(found) else np.zeros(len(truth), int)
    score: dict = {"planes": len(truth), "found": 0, "surfaces": len(found), "strike": [], "dip": []}
    score["right"] = int((shares[:, :, 1].max(axis=1) >= 0.5).sum()) if shares.size else 0
    facts = table.set_index("surface")
    for number, (plane, _) in enumerate(truth):
        if len(found) and shares[best[number], number, 0] >= 0.5:
            row = facts.loc[list(found)[best[number]]]
            off = abs(row["strike"] - plane.azimuth % 180)
            score["found"] += 1
            score["strike"].append(min(off, 180 - off))
            score["dip"].append(abs(row["dip"] - plane.dip))
    return score


def dense_points(sticks):
    """Return line, trace and sample of sticks, a point for every sample."""
    parts = []
    for _, stick in sticks.groupby("stick"):
        samples = stick["depth"].to_numpy() / DEPTH_STEP
        every = np.arange(samples.min(), samples.max() + 1)
        parts.append(np.column_stack([*(np.interp(every, samples, stick[n]) for n in ("inline", "crossline")), every]))
    return np.concatenate(parts)


def _near(points, places):
    """Return which points lie near one of some places; distances in samples count a quarter."""
    weights = np.array([1, 1, 0.25])
    return np.isfinite(cKDTree(places * weights).query(points * weights, distance_upper_bound=NEAR)[0])


def summed(scores):
    """Return the scores of several volumes as one row."""
    total = pd.DataFrame([{k: v for k, v in score.items() if not isinstance(v, list)} for score in scores]).sum()
    errors = {name: np.concatenate([score[name] for score in scores]) for name in ("strike", "dip")}
    return {
        "planes": int(total["planes"]),
        "surfaces": int(total["surfaces"]),
        "recall": total["found"] / total["planes"],
        "precision": total["right"] / max(total["surfaces"], 1),
        "strike error": np.nanmedian(errors["strike"]) if len(errors["strike"]) else np.nan,
        "dip error": np.nanmedian(errors["dip"]) if len(errors["dip"]) else np.nan,
    }
