"""Carry the labels of confirmed lines to other lines, along reflectors and across faults.

Two shifts map each sample of a line to a position on a confirmed line. The vertical shift aligns the traces of the two
lines. The sideways shift follows the reflectors. It is applied only near class boundaries that cut reflectors, such as
faults and flanks, because they move sideways from line to line. For each sample, the distances to the classes are
measured on the confirmed line, from the position to which the sample is mapped. With a confirmed line on each side, the
distances measured on both are interpolated.

The carried labels are combined with the votes of a learner, which labels lines from features. The carried boundaries
are more uncertain, and the learner has more weight, where the confirmed lines are farther away and where the vertical
shift varies more. In a survey that is not layered, the uncertainty grows faster with the distance between the lines.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.ndimage import distance_transform_edt, gaussian_filter, uniform_filter

from outcrop.features.energies import STRIDE, stretched
from outcrop.mapping.pixels import upsample
from outcrop.mapping.survey_sample import Floats, Nodes

LINE = 25.0  # m between neighbouring lines, where the line spacing is unknown
FAR = 6000.0  # m from a confirmed line up to which its labels are carried
KNOWN = 0.1  # share of the samples of a confirmed line that must be labelled for the line to be carried
HALF = 2  # neighbouring traces averaged before two lines are aligned
LARGEST_SHIFT = 20  # samples
LARGEST_MOVE = 6  # grid points sideways
LEAST_SHIFT, LEAST_MOVE = 4, 2  # limits next to a confirmed line; they grow by one every 25 m and 100 m
BEND, JUMP = 1.0, 8.0  # cost of a change of the shift by one step between neighbours, and of a larger change
SIDEWAYS = 50.0  # cost of a move by one grid point, times the distance between the lines in m
OUTLIER = 4.0  # upper limit of a squared difference of balanced amplitudes
OUTLIER_SIDEWAYS = 9.0  # upper limit of a squared difference of predictions, in units of the variance within classes
BOUNDARY = 8  # samples and traces by which labels are moved to find boundaries that cut reflectors
BLUR = 0.1  # pixels: uncertainty of a boundary 100 m from a confirmed line
BLUR_RISE = 1000.0  # m at which this uncertainty is twice its linear extrapolation
ROUGH = 0.5  # pixels added where the shift has a standard deviation of one sample; grows with its square
WIDEST_BLUR = 4.0  # pixels; beyond it the weight of the learner grows instead
LEARNER = 0.1  # exponent of the learner's class shares next to a confirmed line
LEARNER_FAR = 4000.0  # m over which this exponent rises to 1
STRUCTURES = 200.0  # m at which structures that cut layers are as uncertain as layer boundaries at twice the distance
LEAST_SHARE = 0.02  # added to the learner's share of each class
WIDEST = 64.0  # pixels: upper limit of distances to a class


class ConfirmedLine(NamedTuple):
    """Data of a confirmed line that are needed to carry its labels to other lines, about three bytes per sample."""

    section: npt.NDArray[np.uint8]  # (n_samples, n_traces), 255 for amplitude 1
    codes: npt.NDArray[np.uint8]  # (n_samples, n_traces): i + 1 for class i, 0 where the sample is not confirmed
    predictions: npt.NDArray[np.float16]  # (rows, columns, 7) of the encoder at grid points
    dips: npt.NDArray[np.float16]  # (rows, columns), samples per trace


class Carried(NamedTuple):
    """Labels carried from confirmed lines to another line, as distances to the classes and their uncertainty."""

    distance: Floats  # (n_samples, n_traces, n_classes): pixels to each class
    blur: Floats  # (n_samples, n_traces): uncertainty of the boundaries, pixels
    known: Floats  # (n_samples, n_traces): 1 where labels were carried, 0 where they were not
    metres: float  # distance to the confirmed line; with a line on either side, 1 / (1 / first + 1 / second)
    layered: bool  # whether the survey is layered

    def pooled(self, shares: Floats) -> Floats:
        """Return the share of each class at each sample, combined from carried labels and a learner's votes.

        The learner is a mapper that labels lines from their features.

        Parameters
        ----------
        shares : array, shape (n_samples, n_traces, n_classes)
            Share of the learner's votes for each class; the shares of a sample sum to 1.

        Notes
        -----
        The result is proportional to :math:`s^{k} \\exp(-d / b)` with the learner's share s of a class, the distance d
        to the class and the blur b, which is the uncertainty of the boundaries. The exponent k rises from 0.1 next to a
        confirmed line to 1 far away. Where the blur exceeds 4 pixels, b stays 4 while k rises to 1; b grows further
        only when k is 1.
        """
        metres = counted_metres(self.metres, self.layered)
        exponent = np.float32(LEARNER + (1 - LEARNER) * (1 - np.exp(-((metres / LEARNER_FAR) ** 2))))
        more = np.clip(self.blur / np.float32(WIDEST_BLUR), 1, 1 / exponent)
        power = 1 - self.known * (1 - exponent * more)
        logs = power[..., None] * np.log(shares + np.float32(LEAST_SHARE))
        logs -= (self.known * more / self.blur)[..., None] * self.distance
        pooled = np.exp(logs - logs.max(axis=-1, keepdims=True))
        pooled /= pooled.sum(axis=-1, keepdims=True)
        result: Floats = np.where(self.known[..., None] > 0, pooled, shares).astype(np.float32)
        return result


def confirmed_line(section: npt.ArrayLike, nodes: Nodes, codes: npt.ArrayLike) -> ConfirmedLine:
    """Return the data of a confirmed line that are needed to carry its labels to other lines.

    Parameters
    ----------
    section : array, shape (n_samples, n_traces)
        Amplitudes in [0, 1].
    nodes : Nodes
        Features at the grid points of this section.
    codes : array of uint8, shape (n_samples, n_traces)
        ``i + 1`` for class i, 0 where the sample is not confirmed.
    """
    values, known = np.asarray(section, np.float32), np.asarray(codes, np.uint8)
    if known.shape != values.shape:
        raise ValueError(
            f"Codes have shape {known.shape}, but the section has {values.shape}; give one code for each sample."
        )
    values = np.clip(np.where(np.isfinite(values), values, np.float32(0.5)), 0, 1)
    return ConfirmedLine(
        np.rint(255 * values).astype(np.uint8), known, nodes.predictions.astype(np.float16), nodes.dips.astype("f2")
    )


def carry(
    confirmed: Mapping[float, ConfirmedLine],
    section: npt.ArrayLike,
    nodes: Nodes,
    place: float,
    n_classes: int,
    *,
    layered: bool = False,
) -> Carried | None:
    """Carry labels to a line from the nearest confirmed line on each side, or on one side if the other has none.

    Parameters
    ----------
    confirmed : mapping
        Position along the survey in metres -> data of the confirmed line there.
    section : array, shape (n_samples, n_traces)
        Section of the line that receives the labels; amplitudes in [0, 1].
    nodes : Nodes
        Features at the grid points of this section.
    place : float
        Position of this line along the survey, in metres.
    n_classes : int
    layered : bool
        Whether classes end at reflectors. Otherwise their boundaries change faster from line to line.

    Returns
    -------
    Carried or None
        Distance in pixels from every sample to each class, and the uncertainty of the boundaries; None if no line
        within 6 km has at least a tenth of its samples confirmed.

    Examples
    --------
    >>> from outcrop.mapping.survey_sample import nodes_of
    >>> rows = np.indices((96, 64))[0]
    >>> section = (0.5 + 0.4 * np.sin(rows**1.5 / 20)).astype(np.float32)
    >>> line = confirmed_line(section, nodes_of(section), 1 + (rows >= 50))
    >>> other = np.roll(section, 3, axis=0)
    >>> labels = carry({0.0: line}, other, nodes_of(other), 100.0, 2).distance.argmin(axis=-1)
    >>> (labels[:, 30] == 0).sum().item()
    53
    """
    usable = [at for at, line in confirmed.items() if abs(at - place) <= FAR and (line.codes > 0).mean() >= KNOWN]
    before, after = [at for at in usable if at <= place], [at for at in usable if at >= place]
    nearest = {*([max(before)] if before else []), *([min(after)] if after else [])}
    parts = [
        _from_line(confirmed[at], section, nodes, max(abs(at - place), 1), n_classes, layered=layered)
        for at in sorted(nearest)
    ]
    return _blended(parts) if parts else None


def _blended(parts: list[Carried]) -> Carried:
    """Average the labels carried from one or two confirmed lines; the weights are the inverse distances of these lines.

    Class boundaries are thus interpolated linearly between the two lines.
    """
    if len(parts) == 1:
        return parts[0]
    metres = 1 / sum(1 / part.metres for part in parts)
    weights = np.stack([part.known * np.float32(metres / part.metres) for part in parts])
    total = weights.sum(axis=0)
    weights /= np.maximum(total, np.float32(1e-6))
    distance = np.einsum("kij,kijc->ijc", weights, np.stack([part.distance for part in parts]))
    blur = 1 / np.maximum(np.sum([part.known / part.blur for part in parts], axis=0), np.float32(1e-6))
    return Carried(distance, blur, (total > 0).astype(np.float32), metres, parts[0].layered)


def _from_line(
    line: ConfirmedLine, section: npt.ArrayLike, nodes: Nodes, metres: float, n_classes: int, *, layered: bool
) -> Carried:
    """Carry labels from one confirmed line to the section of another line; `metres` is the distance of the lines."""
    source, target = balanced(np.divide(line.section, 255, dtype=np.float32)), balanced(np.asarray(section, np.float32))
    shift, spread = vertical_shift(source, target, metres)
    move = sideways_move(line, nodes, shift, metres)
    rows, columns = places(shift, move, nodes.dips)
    distance = sampled(class_distances(line.codes, n_classes), rows, columns)
    known = sampled((line.codes > 0).astype(np.float32)[..., None], rows, columns)[..., 0] > 0.5
    far = counted_metres(metres, layered)
    blur = np.float32(BLUR * far / 100 * (1 + (far / BLUR_RISE) ** 2)) + np.float32(ROUGH) * spread**2
    return Carried(distance, blur, known.astype(np.float32), metres, layered)


def counted_metres(metres: float, layered: bool) -> float:
    """Return the distance in a layered survey at which boundaries are as uncertain as at `metres` in this survey.

    Both are distances from a confirmed line. In a layered survey they are equal. In other surveys boundaries change
    faster from line to line, so the result is larger than `metres`.

    Examples
    --------
    >>> counted_metres(200.0, True), counted_metres(200.0, False)
    (200.0, 400.0)
    """
    return metres if layered else metres * (1 + (metres / STRUCTURES) ** 3)


def balanced(section: Floats) -> Floats:
    """Subtract zero amplitude (0.5) from a section and divide it by its local RMS; missing samples (NaN) become 0."""
    values = np.where(np.isfinite(section), section, np.float32(0.5)) - np.float32(0.5)
    strength = gaussian_filter(values * values, 12, mode="nearest")
    floor = np.float32(0.1) * np.sqrt(np.mean(values * values)) + np.float32(1e-6)
    result: Floats = values / (np.sqrt(strength) + floor)
    return result


def vertical_shift(source: Floats, target: Floats, metres: float) -> tuple[Floats, Floats]:
    """Return how many samples deeper reflectors lie on a line than on a confirmed line, and how uncertain this is.

    Parameters
    ----------
    source, target : array, shape (n_samples, n_traces)
        Amplitudes of the confirmed line and of the other line, from `balanced`.
    metres : float
        Distance between the two lines.

    Returns
    -------
    shift, spread : array, shape (n_samples, n_traces)
        In samples.

    Notes
    -----
    Semi-global matching [1]_ sums squared differences along paths on both axes, with a cost for changes of the shift,
    and chooses the shift with the smallest sum. `shift` is the local average of the chosen shifts, weighted by the
    squared correlation of the aligned lines; it is 0 where the lines do not match. `spread` is the root mean square
    difference between the chosen shifts and this average; where the lines match it is below one sample, at any noise
    level.

    .. [1] H. Hirschmüller, Stereo processing by semiglobal matching and mutual information, IEEE TPAMI 30, 2008.
    """
    most = int(min(LARGEST_SHIFT, LEAST_SHIFT + metres / LINE))
    n_traces = target.shape[1]
    source, target = _paired(source), _paired(target)
    costs = _vertical_costs(source, target, most)
    shift = _cheapest(uniform_filter(costs, (5, 5, 1), mode="nearest"), BEND, JUMP)
    rows, columns = _grid(shift.shape)
    weight = np.square(matching(_at(source, rows - shift, columns), target, (6, 3)))
    mean = _smooth(shift * weight, (10, 5)) / (_smooth(weight, (10, 5)) + np.float32(0.05))
    spread = np.sqrt(_smooth(np.square(shift - mean), (6, 3)))
    traces = (np.arange(n_traces) - 0.5) / 2
    fine: list[Floats] = [stretched(part, traces, 1).astype(np.float32) for part in (mean, spread)]
    return fine[0], fine[1]


def matching(source: Floats, target: Floats, width: tuple[float, float]) -> Floats:
    """Return the local correlation of two sections at every sample; negative correlations become 0.

    `width` holds the standard deviations of the Gaussian window, in rows and columns.
    """
    product, one, other = (_smooth(part, width) for part in (source * target, source * source, target * target))
    result: Floats = np.maximum(product / np.sqrt(one * other + np.float32(1e-6)), 0)
    return result


def sideways_move(line: ConfirmedLine, nodes: Nodes, shift: Floats, metres: float) -> Floats:
    """Return how many grid points farther right, measured along reflectors, structures lie than on a confirmed line.

    Parameters
    ----------
    line : ConfirmedLine
    nodes : Nodes
        Features at the grid points of the other line.
    shift : array, shape (n_samples, n_traces)
        Vertical shift of the other line, from `vertical_shift`.
    metres : float
        Distance between the lines.

    Returns
    -------
    move : array, shape (rows, columns)
        In grid points, for each grid point of the other line; negative for structures farther left.

    Notes
    -----
    Grid points of the two lines are compared by the encoder's predictions. These are projected on the axes that a
    linear discriminant analysis finds for the confirmed line's classes, and scaled to unit variance within classes.
    """
    source, target = _discriminants(line, nodes)
    rows, columns = _grid(nodes.dips.shape)
    aligned = np.subtract(rows, _at_nodes(shift) / STRIDE, dtype=np.float32)
    source = sampled(source, aligned, columns)
    weight = _at(_crossing(line), aligned, columns)
    most = int(min(LARGEST_MOVE, LEAST_MOVE + metres / (STRIDE * LINE)))
    costs = _sideways_costs(source, target, _smooth(nodes.dips, (2, 2)), most) * weight[..., None]
    costs += np.float32(SIDEWAYS / metres) * np.abs(np.arange(-most, most + 1, dtype=np.float32))
    return _smooth(_cheapest(costs, BEND, JUMP), (2, 1))


def places(shift: Floats, move: Floats, dips: Floats) -> tuple[Floats, Floats]:
    """Return the row and the column on a confirmed line that correspond to each sample of another line.

    `shift` is from `vertical_shift`, and `move` from `sideways_move`. `dips` are the dips at the grid points of the
    other line, in samples per trace.
    """
    fine = upsample(np.stack([STRIDE * move, _smooth(dips, (2, 2))], axis=-1)[None], shift.shape)[0]
    rows, columns = _grid(shift.shape)
    rows, columns = rows - fine[..., 1] * fine[..., 0], columns - fine[..., 0]
    return rows - _at(shift, rows, columns), columns


def class_distances(codes: npt.NDArray[np.uint8], n_classes: int) -> Floats:
    """Return the distance in pixels, at most 64, from each sample of a line to the nearest sample of each class.

    The shape of the result is (n_samples, n_traces, n_classes). `codes` holds ``i + 1`` for class i.

    Examples
    --------
    >>> class_distances(np.array([[1, 1, 2]], np.uint8), 2)[0].tolist()
    [[0.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
    """
    distance = np.full((*codes.shape, n_classes), WIDEST, np.float32)
    for code in np.unique(codes[codes > 0]).tolist():
        distance[..., code - 1] = np.minimum(distance_transform_edt(codes != code), WIDEST)
    return distance


def _discriminants(line: ConfirmedLine, nodes: Nodes) -> tuple[Floats, Floats]:
    """Return the encoder's predictions for a confirmed line and for another line, projected to other axes.

    The axes separate the classes of the confirmed line; a linear discriminant analysis computes them.
    """
    source, target = line.predictions.astype(np.float32), nodes.predictions
    codes = _at_nodes(line.codes)
    mean = source.mean(axis=(0, 1))
    scale = source.std(axis=(0, 1)) + np.float32(1e-6)
    known = codes > 0
    values = ((source - mean) / scale)[known]
    present, of_class = np.unique(codes[known], return_inverse=True)
    means = np.stack([values[of_class == k].mean(axis=0) for k in range(len(present))])
    rest = values - means[of_class]
    within = rest.T @ rest / len(rest) + np.float32(0.05) * np.eye(len(mean), dtype=np.float32)
    centred = means - means.mean(axis=0)
    _, axes = scipy.linalg.eigh(centred.T @ centred, within)
    axes = axes[:, len(mean) - max(1, min(len(present) - 1, len(mean))) :].astype(np.float32)
    return ((source - mean) / scale) @ axes, ((target - mean) / scale) @ axes


def _crossing(line: ConfirmedLine) -> Floats:
    """Return, at each grid point of a confirmed line, the share of the class boundaries around it that cut reflectors.

    Labels are moved by 8 traces along the reflectors and, for comparison, by 8 samples vertically. If a boundary
    follows the reflectors, the move along them changes few labels. If it cuts reflectors, both moves change about
    equally many labels.
    """
    codes = line.codes.astype(np.intp)
    dips = upsample(_smooth(line.dips.astype(np.float32), (2, 2))[None, ..., None], codes.shape)[0, ..., 0]
    rows, columns = _grid(codes.shape)
    n = int(codes.max()) + 1
    counts = np.zeros((2, n * n))
    changes: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]] = []
    for by in (-BOUNDARY, BOUNDARY):
        for way, (row, column) in enumerate([(rows - dips * by, columns - by), (rows - by, columns)]):
            moved = codes[_clipped(row, codes.shape[0]), _clipped(column, codes.shape[1])]
            pair, changed = codes * n + moved, (moved != codes) & (moved > 0) & (codes > 0)
            counts[way] += np.bincount(pair[changed], minlength=n * n)
            changes.append((pair, changed))
    along, vertical = (count.reshape(n, n) + count.reshape(n, n).T for count in counts)
    enough = 0.01 * vertical.sum() + 1e-9
    cut = np.clip(1.5 * along / (vertical + enough) - 0.5, 0, 1).ravel().astype(np.float32)
    cutting: Floats = np.sum([cut[pair] * changed for pair, changed in changes], axis=0, dtype=np.float32)
    every: Floats = np.sum([changed for _, changed in changes], axis=0, dtype=np.float32)
    around = [_smooth(_at_nodes(_smooth(part, (2, 2))), (2, 4)) for part in (cutting, every)]
    result: Floats = around[0] / (around[1] + np.float32(1e-3))
    return result


def _grid(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return two arrays of the given shape: the row number and the column number of every sample."""
    rows, columns = np.indices(shape).astype(np.float32)
    return np.asarray(rows), np.asarray(columns)


def _clipped(places: npt.NDArray[Any], size: int) -> npt.NDArray[np.intp]:
    clipped: npt.NDArray[np.intp] = np.clip(np.rint(places), 0, size - 1).astype(np.intp)
    return clipped


def _at_nodes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values of a section at the samples nearest to its grid points."""
    rows, columns = (np.minimum(np.arange(-(-n // STRIDE)) * STRIDE + 2, n - 1) for n in values.shape)
    return values[np.ix_(rows, columns)]


def _paired(section: Floats) -> Floats:
    """Average neighbouring traces in pairs, which halves the number of columns; an odd last trace stays unchanged."""
    if section.shape[1] % 2:
        section = np.concatenate([section, section[:, -1:]], axis=1)
    result: Floats = (section[:, ::2] + section[:, 1::2]) * np.float32(0.5)
    return result


def _smooth(values: Floats, width: tuple[float, float]) -> Floats:
    result: Floats = gaussian_filter(values, width, mode="nearest")
    return result


def _at(values: Floats, rows: Floats, columns: Floats) -> Floats:
    result: Floats = sampled(values[..., None], rows, columns)[..., 0]
    return result


@numba.njit(nogil=True, cache=True)
def sampled(values, rows, columns):  # type: ignore[no-untyped-def]
    """Interpolate values of shape (n_rows, n_columns, n) linearly at fractional rows and columns.

    Beyond the edges, the edge values are repeated.
    """
    height, width, n = values.shape
    out = np.empty((*rows.shape, n), np.float32)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            row = min(max(rows[i, j], np.float32(0)), np.float32(height - 1))
            column = min(max(columns[i, j], np.float32(0)), np.float32(width - 1))
            top, left = int(row), int(column)
            down, across = row - np.float32(top), column - np.float32(left)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            for k in range(n):
                upper = values[top, left, k] + across * (values[top, right, k] - values[top, left, k])
                lower = values[bottom, left, k] + across * (values[bottom, right, k] - values[bottom, left, k])
                out[i, j, k] = upper + down * (lower - upper)
    return out


@numba.njit(nogil=True, cache=True)
def _vertical_costs(source, target, most):  # type: ignore[no-untyped-def]
    """Return the squared differences of two sections at vertical shifts from -most to most samples.

    The shape of the result is (n_samples, n_traces, n_shifts).
    """
    n_samples, n_traces = target.shape
    out = np.empty((n_samples, n_traces, 2 * most + 1), np.float32)
    for i in range(n_samples):
        for j in range(n_traces):
            for k in range(2 * most + 1):
                row = min(max(i - (k - most), 0), n_samples - 1)
                out[i, j, k] = min((source[row, j] - target[i, j]) ** 2, np.float32(OUTLIER))
    return out


@numba.njit(nogil=True, cache=True)
def _sideways_costs(source, target, dips, most):  # type: ignore[no-untyped-def]
    """Return the squared distances between the features of two lines, for each sideways move of `source`.

    `source` is moved along the reflectors of `target` by -most to most grid points. The shape of the result is (rows,
    columns, n_moves).
    """
    n_rows, n_columns, n = target.shape
    out = np.empty((n_rows, n_columns, 2 * most + 1), np.float32)
    for i in range(n_rows):
        for j in range(n_columns):
            for k in range(2 * most + 1):
                column = min(max(j - (k - most), 0), n_columns - 1)
                row = min(max(i - dips[i, j] * np.float32(j - column), np.float32(0)), np.float32(n_rows - 1))
                top = int(row)
                bottom, share = min(top + 1, n_rows - 1), row - np.float32(top)
                total = np.float32(0)
                for f in range(n):
                    value = source[top, column, f] + share * (source[bottom, column, f] - source[top, column, f])
                    total += (value - target[i, j, f]) ** 2
                out[i, j, k] = min(total, np.float32(OUTLIER_SIDEWAYS))
    return out


@numba.njit(nogil=True, cache=True)
def _cheapest(costs, bend, jump):  # type: ignore[no-untyped-def]
    """Return the shift with the smallest path cost at each position, by semi-global matching (see `vertical_shift`).

    `costs` has the shape (height, width, n_shifts). The cost of a path rises by `bend` where the shift changes by one
    step, and by `jump` where it changes by more. Path costs are summed over four directions, and the shift is refined
    to a fraction of a step.
    """
    height, width, n = costs.shape
    bend, jump = np.float32(bend), np.float32(jump)
    total = np.zeros_like(costs)
    before, now = np.zeros((max(height, width), n), np.float32), np.zeros(n, np.float32)
    for down in (True, False):
        for forth in (True, False):
            before[:] = 0
            outer, inner = (height, width) if down else (width, height)
            for step in range(outer):
                at = step if forth else outer - 1 - step
                for other in range(inner):
                    i, j = (at, other) if down else (other, at)
                    least = before[other].min()
                    for k in range(n):
                        path = min(before[other, k], least + jump)
                        if k > 0:
                            path = min(path, before[other, k - 1] + bend)
                        if k < n - 1:
                            path = min(path, before[other, k + 1] + bend)
                        now[k] = costs[i, j, k] + path - least
                        total[i, j, k] += now[k]
                    before[other] = now
    out = np.empty((height, width), np.float32)
    for i in range(height):
        for j in range(width):
            sums = total[i, j]
            k = sums.argmin()
            best = np.float32(k)
            if 0 < k < n - 1:
                curve = sums[k - 1] - 2 * sums[k] + sums[k + 1]
                if curve > 0:
                    best += np.float32(0.5) * (sums[k - 1] - sums[k + 1]) / curve
            out[i, j] = best - np.float32((n - 1) // 2)
    return out
