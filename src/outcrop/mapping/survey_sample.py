"""Random sample of a survey's grid points, and means of features along its layers, for the mapping from points.

The survey is read once, line by line; the size of the random sample does not depend on the size of the survey.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from outcrop.features import torch_energies
from outcrop.features.encoder import ANSWERS, CLASSES, Encoder, weights_digest
from outcrop.features.energies import KEPT, describe, n_energies
from outcrop.mapping.pixels import dips
from outcrop.parallel import map_blocks
from outcrop.storage.kept import content
from outcrop.storage.workspace import damage, whole_file

Floats = npt.NDArray[np.float32]

N_LANDMARKS = 8000  # grid points in the random sample
N_FINE = 32  # decoder features at half the resolution, the last ones that the encoder returns
SMOOTH = (1, 4)  # grid points: widths, down and across, of the Gaussian that smooths decoder features
LARGEST = 8.0  # limit of the absolute value of a logit
NEIGHBOUR = 2  # grid points from a landmark to the neighbours below and beside it
DIP_SMOOTHING = 5  # grid points: width of the Gaussian that smooths dips before reflectors are followed
N_ENERGIES: int = n_energies()
N_FEATURES = N_ENERGIES + N_FINE
CHANNELS = N_ENERGIES + len(ANSWERS)  # energies and predictions, the channels that are averaged along layers


class Nodes(NamedTuple):
    """Features of one section at its grid points, every 4 samples and traces from 2.5 on."""

    features: Floats  # (rows, columns, n_features): energies and decoder features
    predictions: Floats  # (rows, columns, 7), of the encoder
    dips: Floats  # (rows, columns), samples per trace


class SurveySample(NamedTuple):
    """Random grid points of a survey (landmarks), and sums of features along its layers.

    The relative time of a grid point is the row at which its reflector crosses the middle trace of its line.
    """

    landmarks: Floats  # (n, n_features)
    below: Floats  # (n, n_features): two grid points further down
    beside: Floats  # (n, n_features): two grid points further along the line
    place: Floats  # (n, 3): line, trace and sample
    relative_time: Floats  # (n,)
    layer_sum: npt.NDArray[np.float64]  # (rows, energies and predictions): sums over all grid points of a relative time
    layer_square: npt.NDArray[np.float64]  # (energies and predictions,): sums of squares over all grid points
    layer_count: npt.NDArray[np.float64]  # (rows,)

    def part(self, rows: slice) -> "SurveySample":
        """Return a copy that contains only the landmarks in the given rows; sums along layers stay unchanged."""
        of_landmarks = ("landmarks", "below", "beside", "place", "relative_time")
        return self._replace(**{name: getattr(self, name)[rows] for name in of_landmarks})


def save_sample(sample: SurveySample, path: str | Path) -> None:
    """Write a `SurveySample` atomically into one ``.npz`` file."""
    with whole_file(path) as aside, open(aside, "wb") as file:
        np.savez(file, **sample._asdict())


def load_sample(path: str | Path) -> SurveySample:
    """Read a file that `save_sample` wrote; raise a ValueError if it is damaged."""
    with damage(path, "label again"), open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
        return SurveySample(**{name: stored[name] for name in SurveySample._fields})


def nodes_of(section: npt.ArrayLike, device: str | None = None) -> Nodes:
    """Return features at the grid points of one section.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes in [0, 1]; missing samples (NaN) are taken as zero amplitude, 0.5.
    device : str, optional
        A torch device such as ``cuda`` for energies and encoder; features change only by rounding errors.

    Notes
    -----
    Energies lie at samples and traces 2.5, 6.5, ..., the encoder's features at 1.5, 5.5, ... The encoder's features are
    interpolated linearly to the positions of the energies.
    """
    values = np.asarray(section, np.float32)[None]
    values = np.where(np.isfinite(values), values, np.float32(0.5))
    described: Floats = KEPT.get(
        ("points", weights_digest(), device, content(values)), lambda: _described(values, device)
    )
    features, predictions, dip = np.split(described, [N_FEATURES, N_FEATURES + len(ANSWERS)], axis=-1)
    return Nodes(features, predictions, dip[..., 0])


def _described(values: Floats, device: str | None) -> Floats:
    """Return features, predictions and dip at the grid points of a section in one array, shape (rows, columns, n)."""
    encoded = Encoder(device=device).describe(values)[0]
    encoded = _quarter_step(_quarter_step(encoded, 0), 1)
    predictions = encoded[..., : len(ANSWERS)].copy()
    np.clip(predictions[..., : len(CLASSES)], -LARGEST, LARGEST, out=predictions[..., : len(CLASSES)])
    fine = gaussian_filter(encoded[..., -N_FINE:], (*SMOOTH, 0), mode="nearest")
    energies = torch_energies.describe(values, device) if device else describe(values)
    return np.concatenate([energies[0], fine, predictions, dips(values)[0][..., None]], axis=-1)


def _quarter_step(values: Floats, axis: int) -> Floats:
    """Interpolate values at grid points to positions that lie a quarter of a grid step further along an axis."""
    following = np.minimum(np.arange(values.shape[axis]) + 1, values.shape[axis] - 1)
    moved: Floats = np.float32(0.75) * values + np.float32(0.25) * values.take(following, axis)
    return moved


def sample_survey(
    sections: Iterable[tuple[float, npt.ArrayLike]], *, n_landmarks: int = N_LANDMARKS, random_state: int = 0
) -> SurveySample:
    """Draw random grid points from a survey in one pass; every grid point is equally likely.

    Parameters
    ----------
    sections : iterable of (line, section)
        Line number and amplitudes, shape (n_samples, n_traces), in [0, 1]. A few lines spread over the survey are
        enough; all sections have the same number of samples.
    n_landmarks : int
    random_state : int

    Examples
    --------
    >>> lines = np.random.default_rng(0).random((2, 64, 48), dtype=np.float32)
    >>> sample = sample_survey(enumerate(lines), n_landmarks=20)
    >>> sample.landmarks.shape, int(sample.layer_count.sum())
    ((20, 96), 384)
    """
    rng = np.random.default_rng(random_state)
    drawn: Any = []
    sums: Any = 0.0
    squares: Any = 0.0
    counts: Any = 0.0
    for line, nodes in map_blocks(_line_nodes, sections):
        time = relative_time(nodes.dips)
        new = _candidates(nodes, line, time, rng.random(time.size), n_landmarks)
        both = [np.concatenate(pair) for pair in zip(drawn, new, strict=True)] if drawn else new
        first = np.argsort(both[0])[:n_landmarks]
        drawn = [part[first] for part in both]
        channels = np.concatenate([nodes.features[..., :N_ENERGIES], nodes.predictions], axis=-1)
        by_layer = layer_sums(channels.reshape(-1, CHANNELS), time)
        sums, counts = sums + by_layer, counts + np.bincount(_rows(time).ravel(), minlength=len(time))
        squares = squares + np.square(channels, dtype=np.float64).sum(axis=(0, 1))
    if not drawn:
        raise ValueError("The survey has no sections; give at least one pair (line, section).")
    landmarks, below, beside, place, time = drawn[1:]
    return SurveySample(landmarks, below, beside, place, time, sums, squares, counts)


def _line_nodes(line: tuple[float, npt.ArrayLike]) -> tuple[float, Nodes]:
    return line[0], nodes_of(line[1])


def _candidates(
    nodes: Nodes, line: float, time: Floats, keys: npt.NDArray[np.float64], n: int
) -> list[npt.NDArray[Any]]:
    """Return the data of `n` grid points of a section: of those with the smallest keys.

    `keys` holds a random number for each grid point, and `time` the relative times. The result is a list: the keys of
    the chosen grid points, then the arrays of `SurveySample` from `landmarks` to `relative_time`.
    """
    chosen = np.argsort(keys)[:n]
    rows, columns = np.unravel_index(chosen, time.shape)
    below = nodes.features[np.minimum(rows + NEIGHBOUR, time.shape[0] - 1), columns]
    beside = nodes.features[rows, np.minimum(columns + NEIGHBOUR, time.shape[1] - 1)]
    place = np.stack([np.full(len(chosen), line), 4 * columns + 2.5, 4 * rows + 2.5], axis=-1).astype(np.float32)
    return [keys[chosen], nodes.features[rows, columns], below, beside, place, time[rows, columns]]


def relative_time(dip: Floats) -> Floats:
    """Return the row at which the reflector through each grid point crosses the middle trace of its section.

    Parameters
    ----------
    dip : array, shape (rows, columns)
        Dip at each grid point, in samples per trace.

    Examples
    --------
    >>> relative_time(np.full((6, 3), 0.5, np.float32))[3]
    array([3.5, 3. , 2.5], dtype=float32)
    """
    dip = gaussian_filter(dip, DIP_SMOOTHING, mode="nearest")
    time = np.empty(dip.shape, np.float32)
    rows, middle = np.arange(len(dip)), dip.shape[1] // 2
    time[:, middle] = rows
    for column in range(middle + 1, dip.shape[1]):
        time[:, column] = np.interp(rows - dip[:, column], rows, time[:, column - 1])
    for column in range(middle - 1, -1, -1):
        time[:, column] = np.interp(rows + dip[:, column], rows, time[:, column + 1])
    return time


def _rows(time: Floats) -> npt.NDArray[np.intp]:
    return np.clip(np.rint(time), 0, len(time) - 1).astype(np.intp)


def layer_sums(channels: Floats, time: Floats) -> npt.NDArray[np.float64]:
    """Sum each channel over all grid points with the same rounded relative time; return shape (rows, n_channels)."""
    rows = _rows(time).ravel()
    return np.stack([np.bincount(rows, channel, len(time)) for channel in channels.T], axis=1)
