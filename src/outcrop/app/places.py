"""Find the places where a correction of the labels is most informative.

These places lie in large areas of uncertain labels, contain signal, and differ from each other.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter

from outcrop.app.pictures import Codes, Size
from outcrop.app.survey import Place, Survey
from outcrop.features.energies import describe
from outcrop.volumes.neighbours import NEAR, line_distances

MOST_LINES = 40  # labelled lines that are searched
CANDIDATES = 40  # places from which the most different are chosen
AGREEMENT = 0.2  # correlation of neighbouring traces; a window with less holds noise
SILENT = 0.5  # share of samples without amplitude; a window with this share or more is muted


Spot = tuple[float, int, int, int]  # a confidence, and the positions of line, trace and sample
Floats = npt.NDArray[np.floating[Any]]


class Unsure(NamedTuple):
    """A place to check, and the mean confidence of the labels in the patch around it, 0 to 1."""

    place: list[float]
    confidence: float


def places(
    survey: Survey, labels: Any, seen: Sequence[Place] = (), count: int = 6, check: Callable[[], object] = lambda: None
) -> list[Unsure]:
    """Return the places on labelled lines where a correction is most informative, most informative first.

    Parameters
    ----------
    survey : Survey
    labels : Labels
        Labels of the job, from `PageJob.read_labels`.
    seen : sequence of (inline, crossline, time)
        Places that the interpreter visited before; places near them or similar to them are avoided.
    count : int
        Largest number of places to return.
    check : callable
        Function without arguments, called repeatedly during the search; it can raise an error to end the search.
    """

    def line_first(at: Sequence[int]) -> Sequence[int]:
        """Swap inline and crossline position if the lines are crosslines, so that the line's position comes first."""
        return at if survey.along == 0 else (at[1], at[0], at[2])

    size, done = survey.size[::-1], sorted(labels.stores)
    found: list[Spot] = []
    for line in done[:: max(1, len(done) // MOST_LINES)]:
        check()
        allowed = holds_signal(survey.sections.codes(survey.along, line).T, size)
        if line in labels.corrections.lines:
            allowed &= uniform_filter((labels.corrections.codes(line) > 0).astype(np.float32), size) < 1e-4
        found += [(value, line, *at) for value, *at in least(labels.section(line)[1], size, CANDIDATES, allowed)]
    before = [line_first(survey.positions(place)) for place in seen]
    spacing = np.diff(line_distances(survey.volume, survey.line_name)).min(initial=NEAR)
    found = spread(sorted(found), (2 * int(NEAR // spacing) + 1, *size), CANDIDATES, before)
    offered = [survey.place_at(line_first(one[1:])) for one in found]
    unsure = np.array([1 - value / 255 for value, *_ in found])
    looks = []
    for place in [*offered, *seen]:
        check()
        looks.append(look(survey.patch(place)))
    rows = most_different(unsure, np.array(looks[: len(found)]), np.array(looks[len(found) :]), count)
    return [Unsure(offered[row], 1 - float(unsure[row])) for row in rows]


def look(patch: Codes) -> Floats:
    """Return the features by which 8-bit patches are compared: mean and standard deviation of each log energy."""
    nodes = describe(patch[None] / np.float32(255))[0]
    return np.concatenate([nodes.mean(axis=(0, 1)), nodes.std(axis=(0, 1))])


def most_different(unsure: Floats, looks: Floats, seen: Floats, count: int) -> list[int]:
    """Choose uncertain places that differ most from each other and from visited places.

    Returns the rows of the chosen places in `unsure` and `looks`, most informative first.

    Parameters
    ----------
    unsure : array, shape (n,)
        Uncertainty of each place: 1 - confidence.
    looks : array, shape (n, n_features)
        Features of each place, from `look`.
    seen : array, shape (n_seen, n_features)
        Features of each visited place.
    count : int
        Largest number of places to choose.

    Examples
    --------
    >>> looks = np.array([[0.0], [0.1], [5.0]])
    >>> most_different(np.array([0.9, 0.8, 0.5]), looks, looks[:0], count=2)
    [0, 2]
    >>> most_different(np.array([0.9, 0.8, 0.5]), looks, looks[:1], count=1)
    [2]
    """
    if not len(unsure):
        return []
    scale = np.maximum(looks.std(axis=0), 1e-6)
    apart = np.sqrt(np.mean((looks[:, None] / scale - looks / scale) ** 2, axis=-1))
    mean_distance = max(float(apart.mean()), 1e-6)
    nearest = np.full(len(looks), np.inf)
    for one in seen:
        nearest = np.minimum(nearest, np.sqrt(np.mean(((looks - one) / scale) ** 2, axis=-1)))
    rows: list[int] = []
    while len(rows) < min(count, len(looks)):
        value = unsure * np.minimum(nearest / mean_distance, 1)
        value[rows] = -1
        row = int(value.argmax())
        rows.append(row)
        nearest = np.minimum(nearest, apart[row])
    return rows


def holds_signal(codes: Codes, size: Size) -> npt.NDArray[np.bool_]:
    """Return a mask of the samples around which a window of a given size is neither muted nor noise.

    Parameters
    ----------
    codes : uint8 array, shape (n_traces, n_samples)
        8-bit amplitudes from `Sections`: 0 is a missing sample, 128 is zero amplitude.
    size : (int, int)
        Width of the window in traces and height in samples.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layers = np.tile(rng.integers(1, 256, 60, np.uint8), (60, 1))
    >>> noise, muted = rng.integers(1, 256, (60, 60), np.uint8), np.full((60, 60), 128, np.uint8)
    >>> [bool(holds_signal(codes, (21, 21))[30, 30]) for codes in (layers, noise, muted)]
    [True, False, False]
    """
    silent = (codes == 0) | (codes == 128)
    values = np.where(silent, 0, codes.astype(np.float32) - 128)
    energy = uniform_filter(values**2, size)
    agreement = uniform_filter(values[1:] * values[:-1], size)
    agreement = np.concatenate([agreement, agreement[-1:]]) / np.maximum(energy, 1e-6)
    return np.asarray((agreement > AGREEMENT) & (uniform_filter(silent.astype(np.float32), size) < SILENT))


def spread(found: list[Spot], size: Sequence[int], count: int, before: Sequence[Sequence[int]] = ()) -> list[Spot]:
    """Return the first `count` spots, leaving out spots near a returned spot or near a place in `before`.

    Spots are (confidence, line, trace, sample), and places are (line, trace, sample), as positions. Two are near each
    other if they differ by less than `size` along all three axes.

    Examples
    --------
    >>> spread([(0.1, 5, 50, 50), (0.2, 6, 52, 50), (0.3, 5, 90, 50)], (7, 20, 20), count=2)
    [(0.1, 5, 50, 50), (0.3, 5, 90, 50)]
    >>> spread([(0.1, 5, 50, 50), (0.3, 5, 90, 50)], (7, 20, 20), count=2, before=[(4, 50, 50)])
    [(0.3, 5, 90, 50)]
    """
    kept: list[Spot] = []
    for one in found:
        taken = [*before, *(other[1:] for other in kept)]
        if all(any(abs(a - b) >= n for a, b, n in zip(one[1:], other, size, strict=True)) for other in taken):
            kept.append(one)
    return kept[:count]


def least(sure: Codes, size: Size, count: int, allowed: npt.NDArray[np.bool_]) -> list[tuple[float, int, int]]:
    """Find the windows with the lowest mean confidence; the windows do not overlap.

    Returns a list of (mean confidence, trace, sample); trace and sample are the positions of the window's centre.

    Parameters
    ----------
    sure : uint8 array, shape (n_traces, n_samples)
        Confidence of each sample, 1 to 255; 0 means no value.
    size : (int, int)
        Width of a window in traces and height in samples.
    count : int
        Largest number of windows to return.
    allowed : bool array, shape (n_traces, n_samples)
        True where the centre of a window, (trace, sample), may lie.

    Examples
    --------
    >>> sure = np.full((9, 9), 200); sure[2:5, 4:7] = 20
    >>> least(sure, (3, 3), count=1, allowed=np.ones((9, 9), bool))
    [(20.0, 3, 5)]
    """
    mean = uniform_filter(np.where(sure > 0, sure, 255).astype(np.float32), size)
    mean[~allowed] = 255
    width, height = size
    mean[: width // 2], mean[-(width // 2) :] = 255, 255
    mean[:, : height // 2], mean[:, -(height // 2) :] = 255, 255
    found = []
    for _ in range(count):
        trace, sample = (int(i) for i in np.unravel_index(mean.argmin(), mean.shape))
        if mean[trace, sample] >= 255:
            break
        found.append((float(mean[trace, sample]), trace, sample))
        mean[max(0, trace - width) : trace + width, max(0, sample - height) : sample + height] = 255
    return found
