"""Find geobodies (connected samples of a class in 3-D), and measure their size, tops and bases.

The labels are read in slabs of neighbouring lines. `scipy.ndimage.label` finds the connected pieces of a class within a
slab. Pieces of two adjacent slabs belong to one geobody if a sample of one piece shares a face with a sample of the
other. Only the size of each piece and its first and last position on each trace stay in memory. They need as much
memory as a few maps of the survey.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from outcrop.geometry.fusion import decided
from outcrop.labels.named import named_labels
from outcrop.mapping.confidence import as_codes, find_background, labelled
from outcrop.parallel import Progress, map_blocks, memory_budget, spans
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.neighbours import line_spacing, neighbour_groups
from outcrop.volumes.summary import sample_unit

MIN_SAMPLES = 1000  # smallest geobody by default: about 10 x 10 x 10 samples
COST = 100  # bytes of memory for each sample of a slab, for codes, confidence and numbers of pieces
MOST_LINES = 128  # largest number of lines in a slab
LEAST = 1  # smallest margin (of 255), so that a surface lies halfway between two samples of margin 0
SIDES = ("top", "base")


class Outline(NamedTuple):
    """Top and base of a geobody on each of its traces, as four arrays of equal length.

    ``line`` and ``trace`` are indices on the axes of lines and traces; ``top`` and ``base`` are positions in samples,
    with fractions. ``top`` is -inf where the geobody touches the first sample of the volume, ``base`` is inf where it
    touches the last. A trace that crosses several pieces of the geobody (see `Pieces`) has one entry for each piece.
    """

    line: np.ndarray
    trace: np.ndarray
    top: np.ndarray
    base: np.ndarray


class Slab(NamedTuple):
    """Labels of neighbouring lines that are processed together, as arrays of shape (n_lines, n_traces, n_samples).

    ``first`` is the index of the first of these lines on the axis of lines. ``margin`` is the lead of the class of a
    sample over its second class, from 0 to 255 (see `surface`). ``confidence`` is None if the labels have no
    confidence; ``margin`` is None if they have neither votes nor confidence.
    """

    first: int
    codes: np.ndarray
    confidence: np.ndarray | None
    margin: np.ndarray | None


class Pieces(NamedTuple):
    """Connected pieces of a class in one slab.

    ``samples`` is the number of samples of each piece, and ``confidence`` the sum of their confidences (0 to 255 each;
    NaN if the labels have none). ``piece`` is the number of the piece to which each entry of ``outline`` belongs.
    """

    samples: np.ndarray
    confidence: np.ndarray
    piece: np.ndarray
    outline: Outline


class Bodies(NamedTuple):
    """Geobodies of one or more classes.

    Attributes
    ----------
    table : DataFrame
        One row for each geobody, as `bodies` returns it.
    outlines : dict
        (class name, number of the geobody) -> `Outline`.
    axes : dict
        Name -> values of each axis of the survey, in the order line, trace, sample.
    unit : str
        Unit of the sample axis, ms or m; empty if it is not known.
    """

    table: pd.DataFrame
    outlines: dict[tuple[str, int], Outline]
    axes: dict[str, np.ndarray]
    unit: str = ""

    def surface(self, name: str, body: int = 1, side: str = "top") -> xr.DataArray:
        """Return the top or base of a geobody as a map of times (ms) or depths (m); see the function `surface`."""
        if side not in SIDES:
            raise ValueError(f"side is {side!r}; choose top or base.")
        if (name, body) not in self.outlines:
            have = sorted(number for other, number in self.outlines if other == name)
            known = f"choose 1 to {have[-1]}" if have else "none of its bodies is large enough; reduce min_samples"
            raise ValueError(f"There is no body {body} of class {name!r}; {known}.")
        outline = self.outlines[name, body]
        lines, traces = (slice(part.min(), part.max() + 1) for part in (outline.line, outline.trace))
        shape = lines.stop - lines.start, traces.stop - traces.start
        place = outline.line - lines.start, outline.trace - traces.start
        extreme, edge = (np.minimum, -np.inf) if side == "top" else (np.maximum, np.inf)
        depth = np.full(shape, -edge)
        extreme.at(depth, place, outline.top if side == "top" else outline.base)
        along, across, sample = self.axes
        values = np.interp(depth, np.arange(len(self.axes[sample])), self.axes[sample])
        coords = {along: self.axes[along][lines], across: self.axes[across][traces]}
        attrs = {"class": name, "body": body, "side": side, "domain": sample, "unit": self.unit}
        found = xr.DataArray(np.where(np.isfinite(depth), values, np.nan), coords, [along, across], sample, attrs)
        return found.transpose(*DIRECTIONS)


def bodies(
    labels: xr.Dataset | xr.DataArray,
    name: str | Sequence[str] | None = None,
    *,
    min_samples: int = MIN_SAMPLES,
    bin_size: tuple[float, float] | None = None,
    velocity: float | None = None,
    along: str = "inline",
    memory: int | None = None,
) -> pd.DataFrame:
    """Return a table of the geobodies of one or more classes; within a class, the largest geobody comes first.

    Samples of a class are connected if they share a face. Samples on two lines are connected only if the lines are
    neighbours; see `outcrop.volumes.neighbours`. The labels are read in slabs of lines, so the volume need not fit in
    memory.

    Parameters
    ----------
    labels : Dataset or DataArray
        ``label`` (0 not labelled, 255 uncertain, i + 1 = ``attrs["classes"][i]``) and optionally ``confidence``
        (255 = sure), as `label_volume` and jobs return them; or a label volume that `open_volume` opened.
    name : str or sequence of str, optional
        Names of the classes; by default all classes except the background.
    min_samples : int
        Smallest number of samples of a geobody; smaller geobodies are left out.
    bin_size : (float, float), optional
        Metres between neighbouring inlines and between neighbouring crosslines; by default the bin size of the labels.
    velocity : float, optional
        Mean velocity in m/s that converts two-way time into thickness, for volumes in time.
    along : {"inline", "crossline"}
        Direction of the lines that are read one after the other. The direction in which the volume was labelled is
        fastest.
    memory : int, optional
        Bytes of memory to use; by default a quarter of the memory of the machine.

    Returns
    -------
    DataFrame
        One row for each geobody. ``class`` is its class and ``body`` its number (1 is the largest of its class).
        ``samples`` is the number of its samples. ``volume`` has the unit in ``unit``: m3; m2 ms in time without a
        velocity; samples if the bin size is not known. ``inline_first`` and ``inline_last`` are its extent, with
        columns of the same kind for crossline and time or depth. ``confidence`` is its mean confidence (0 to 1, NaN if
        the labels have none). ``at_edge`` is True if the geobody touches the first or last inline, crossline or sample,
        so that it may continue outside the volume.

    Examples
    --------
    >>> codes = np.ones((9, 20, 30), np.uint8)
    >>> codes[2:7, 5:15, 10:20] = 2
    >>> axes = {"inline": np.arange(9), "crossline": np.arange(20), "time": 4.0 * np.arange(30)}
    >>> labels = xr.DataArray(codes, axes, attrs={"classes": ["other", "salt dome"], "bin_size": (25, 25)})
    >>> bodies(labels, "salt dome", min_samples=100)[["samples", "volume", "unit", "time_first", "time_last"]]
       samples     volume   unit  time_first  time_last
    0      500  1250000.0  m2 ms        38.0       78.0
    """
    return find_bodies(
        labels, name, min_samples=min_samples, bin_size=bin_size, velocity=velocity, along=along, memory=memory
    ).table


def surface(
    labels: xr.Dataset | xr.DataArray,
    name: str,
    body: int = 1,
    side: str = "top",
    *,
    min_samples: int = MIN_SAMPLES,
    along: str = "inline",
    memory: int | None = None,
) -> xr.DataArray:
    """Return the top or base of a geobody as a horizon, with a precision finer than one sample.

    The surface lies between a sample inside the geobody and the adjacent sample outside, at the position where both
    classes have equal votes. If the labels have ``score`` or ``margin``, this position is interpolated from the margins
    of the two samples; the margin of a sample is the votes of its class minus the votes of its second class. Otherwise
    the excess of the confidence over one half replaces the margin. If the labels have no confidence, or if the sample
    outside is uncertain, the surface lies halfway. Where a trace crosses a geobody several times, the top is the
    shallowest and the base the deepest position.

    Parameters
    ----------
    labels, min_samples, along, memory
        As for `bodies`.
    name : str
        Name of the class.
    body : int
        Number of the geobody in the table of `bodies`, 1 for the largest.
    side : {"top", "base"}
        Upper or lower surface of the geobody.

    Returns
    -------
    DataArray
        Time in ms or depth in m on inline and crossline, over the extent of the geobody; NaN on traces without it, and
        where it touches the first or last sample of the volume.

    Examples
    --------
    >>> codes = np.ones((9, 20, 30), np.uint8)
    >>> codes[2:7, 5:15, 10:20] = 2
    >>> axes = {"inline": np.arange(9), "crossline": np.arange(20), "time": 4.0 * np.arange(30)}
    >>> labels = xr.DataArray(codes, axes, attrs={"classes": ["other", "salt dome"]})
    >>> top = surface(labels, "salt dome", min_samples=100)
    >>> top.sizes, float(top[0, 0])
    (Frozen({'inline': 5, 'crossline': 10}), 38.0)
    """
    found = find_bodies(labels, name, min_samples=min_samples, along=along, memory=memory)
    return found.surface(str(name), body, side)


def find_bodies(
    labels: xr.Dataset | xr.DataArray,
    name: str | Sequence[str] | None = None,
    *,
    min_samples: int = MIN_SAMPLES,
    bin_size: tuple[float, float] | None = None,
    velocity: float | None = None,
    along: str = "inline",
    memory: int | None = None,
    progress: Progress | None = None,
) -> Bodies:
    """Return the table and the outlines of geobodies from one pass over the labels.

    The parameters are those of `bodies`, and `progress`, which is called as ``progress(what, done, total)`` after every
    slab of lines; ``done`` and ``total`` count lines.
    """
    labels = named_labels(labels)
    names = _chosen_classes(labels, name)
    if along not in DIRECTIONS:
        raise ValueError(f"along is {along!r}; choose inline or crossline.")
    if min_samples < 1:
        raise ValueError(f"min_samples is {min_samples}; choose 1 or more.")
    if velocity is not None and not velocity > 0:
        raise ValueError(f"velocity is {velocity}; give a positive number of m/s.")
    across = DIRECTIONS[1 - DIRECTIONS.index(along)]
    sample = str(labels["label"].dims[2])
    axes = {axis: labels[axis].values for axis in (along, across, sample)}
    groups = [neighbour_groups(labels, axis) for axis in (along, across)]
    codes = {one: 1 + labels.attrs["classes"].index(one) for one in names}
    collected = {one: _CollectedPieces(groups[1]) for one in names}
    size = len(axes[across]) * len(axes[sample])
    lines = int(np.clip((memory or memory_budget()) // (COST * size), 1, MOST_LINES))
    edges = np.searchsorted(groups[0], np.arange(groups[0][-1] + 2))
    parts = [
        slice(int(first) + part.start, int(first) + part.stop)
        for first, last in pairwise(edges)
        for part in spans(int(last - first), lines)
    ]
    for part, slab in zip(parts, map_blocks(partial(_read, labels, along), parts, workers=2), strict=True):
        for one in names:
            collected[one].add(slab, slab.codes == codes[one], touches=part.start not in edges)
        if progress:
            progress("bodies", part.stop, len(groups[0]))
    bin_size = line_spacing(labels) if bin_size is None else bin_size
    down = sample_unit(labels["label"].assign_attrs(labels.attrs))
    cell, unit = _cell(axes, sample, bin_size if down else None, velocity)
    rows, outlines = [], {}
    for one in names:
        for body, (outline, samples, mean) in enumerate(collected[one].bodies(min_samples), 1):
            outlines[one, body] = outline
            row = {"class": one, "body": body, "samples": samples, "volume": samples * cell, "unit": unit}
            rows.append(row | {"confidence": mean} | _extent(outline, axes))
    limits = [f"{axis}_{end}" for axis in (*DIRECTIONS, sample) for end in ("first", "last")]
    columns = ["class", "body", "samples", "volume", "unit", *limits, "confidence", "at_edge"]
    return Bodies(pd.DataFrame(rows, columns=columns), outlines, axes, down or "")


def _chosen_classes(labels: xr.Dataset, name: str | Sequence[str] | None) -> list[str]:
    """Return the names of the requested classes; if `name` is None, of all classes except the background."""
    classes = labels.attrs["classes"]
    if name is None:
        background = labels.attrs.get("background") or find_background(classes)
        return [one for one in classes if one != background]
    names = [name] if isinstance(name, str) else [str(one) for one in name]
    for one in names:
        if one not in classes:
            raise ValueError(f"Class {one!r} is not a class of these labels; choose one of {', '.join(classes)}.")
    return names


def _read(labels: xr.Dataset, along: str, part: slice) -> Slab:
    """Read the labels of one slab: of the lines at the positions `part` (a slice) on the axis `along`."""
    data = labels.isel({along: part}).transpose(..., along, DIRECTIONS[along == "inline"], labels["label"].dims[2])
    confidence: np.ndarray | None = data["confidence"].values if "confidence" in data else None
    margin: np.ndarray | None
    if "margin" in data:
        margin = data["margin"].values
    elif "score" in data:
        margin = decided(data["score"].values)[2]
    else:
        margin = None if confidence is None else np.clip(confidence, 128, 255) - np.uint8(127)
    contiguous = [None if one is None else np.ascontiguousarray(one) for one in (confidence, margin)]
    return Slab(part.start, np.ascontiguousarray(as_codes(data["label"].values)), *contiguous)


class _CollectedPieces:
    """Pieces of one class from all slabs added so far, and the pairs of pieces that touch across two slabs."""

    def __init__(self, groups: np.ndarray):
        """Start without pieces.

        `groups` holds the group number of every trace; only traces of one group are connected (see `neighbour_groups`).
        """
        self.gaps = np.flatnonzero(np.diff(groups)) + 1
        self.parts: list[Pieces] = []
        self.pairs: list[np.ndarray] = []
        self.count = 0
        self.last = np.zeros(0, np.int64)  # number of the piece at every sample of the last line, 0 outside

    def add(self, slab: Slab, inside: np.ndarray, *, touches: bool) -> None:
        """Add the pieces of the next slab.

        `inside` is True at samples of the class. `touches` is True if the last line of the previous slab and the first
        line of this slab are neighbours.
        """
        separated = np.insert(inside, self.gaps, False, axis=1)  # an empty trace between traces that are not neighbours
        numbers, count = ndimage.label(separated)
        numbers = np.delete(numbers, self.gaps + np.arange(len(self.gaps)), axis=1)
        if count:
            self.parts.append(_pieces(slab, inside, numbers - 1, count, self.count))
        if touches:
            both = inside[0] & (self.last > 0)
            pairs = np.stack([self.last[both] - 1, numbers[0][both] - 1 + self.count])
            changes = np.ones(pairs.shape[1], bool)  # along a trace, most pairs equal the pair above
            changes[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
            self.pairs.append(np.unique(pairs[:, changes], axis=1))
        self.last = np.where(inside[-1], numbers[-1].astype(np.int64) + self.count, 0)
        self.count += count

    def bodies(self, min_samples: int) -> Iterator[tuple[Outline, int, float]]:
        """Yield (outline, number of samples, mean confidence) of each geobody, the largest first.

        Geobodies with fewer than `min_samples` samples are left out. The confidence is 0 to 1, NaN if not known.
        """
        if not self.count:
            return
        pairs = np.concatenate([np.zeros((2, 0), np.int64), *self.pairs], axis=1)
        touching = coo_array((np.ones(pairs.shape[1], bool), tuple(pairs)), shape=(self.count, self.count))
        count, body_of = connected_components(touching, directed=False)
        samples, confidence = (
            np.bincount(body_of, weights=np.concatenate(values), minlength=count)
            for values in ([part.samples for part in self.parts], [part.confidence for part in self.parts])
        )
        bodies = body_of[np.concatenate([part.piece for part in self.parts])]
        combined = Outline(*map(np.concatenate, zip(*(part.outline for part in self.parts), strict=True)))
        large = np.flatnonzero(samples >= min_samples)
        kept = np.flatnonzero(np.isin(bodies, large))
        kept = kept[np.argsort(bodies[kept], kind="stable")]
        cuts = np.searchsorted(bodies[kept], large, side="right")[:-1]
        outlines = dict(zip(large.tolist(), np.split(kept, cuts), strict=False))
        for body in large[np.argsort(-samples[large], kind="stable")].tolist():
            outline = Outline(*(part[outlines[body]] for part in combined))
            yield outline, int(samples[body]), float(confidence[body] / samples[body] / 255)


def _pieces(slab: Slab, inside: np.ndarray, numbers: np.ndarray, count: int, before: int) -> Pieces:
    """Return the pieces of one class in a slab.

    `inside` is True at samples of the class, and `numbers` holds the number of the piece at these samples, from 0.
    `count` is the number of pieces of the slab, `before` the number of pieces of all earlier slabs.
    """
    traces, starts, ends = _runs(inside)
    piece = numbers.reshape(-1, inside.shape[2])[traces, starts]
    lengths = ends - starts + 1
    samples = np.bincount(piece, weights=lengths, minlength=count)
    if slab.confidence is None:
        total = np.full(count, np.nan)
    else:  # indexing by `inside` returns the samples run by run
        sums = np.add.reduceat(slab.confidence[inside].astype(np.int64), np.cumsum(lengths) - lengths)
        total = np.bincount(piece, weights=sums, minlength=count)
    codes = slab.codes.reshape(-1, inside.shape[2])
    margin = None if slab.margin is None else slab.margin.reshape(codes.shape)
    key = piece * np.int64(len(codes)) + traces
    _, shallowest = np.unique(key, return_index=True)
    _, deepest = np.unique(key[::-1], return_index=True)
    deepest = len(key) - 1 - deepest
    top = _crossing(codes, margin, traces[shallowest], starts[shallowest], -1)
    base = _crossing(codes, margin, traces[deepest], ends[deepest], 1)
    line, trace = np.divmod(traces[shallowest], inside.shape[1])
    outline = Outline((slab.first + line).astype(np.int32), trace.astype(np.int32), top, base)
    return Pieces(samples, total, before + piece[shallowest], outline)


def _runs(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (trace numbers, first samples, last samples) of all vertical runs of True, ordered by trace and sample.

    Examples
    --------
    >>> _runs(np.array([[[True, False, True], [False, True, True]]]))
    (array([0, 0, 1]), array([0, 2, 1]), array([0, 2, 2]))
    """
    n_samples = inside.shape[-1]
    padded = np.zeros((inside.size // n_samples, n_samples + 1), bool)  # a False sample between traces, which ends runs
    padded[:, 1:] = inside.reshape(-1, n_samples)
    flat = np.append(padded.ravel(), False)
    turns = np.flatnonzero(flat[1:] != flat[:-1])
    starts, ends = turns[::2], turns[1::2] - 1
    return starts // (n_samples + 1), starts % (n_samples + 1), ends % (n_samples + 1)


def _crossing(
    codes: np.ndarray, margin: np.ndarray | None, trace: np.ndarray, sample: np.ndarray, step: int
) -> np.ndarray:
    """Return the positions, in samples, of the surface above (`step` -1) or below (`step` 1) samples of a geobody.

    `trace` and `sample` are the indices of these samples. At the ends of the volume, the position is infinite. See
    `surface` for the interpolation.
    """
    neighbour = sample + step
    at_end = (neighbour < 0) | (neighbour >= codes.shape[1])
    neighbour = np.where(at_end, sample, neighbour)
    share = np.full(len(sample), 0.5)
    if margin is not None:
        inside, outside = (np.maximum(margin[trace, at], LEAST).astype(np.float64) for at in (sample, neighbour))
        share = np.where(labelled(codes[trace, neighbour]), inside / (inside + outside), 0.5)
    return np.where(at_end, step * np.inf, sample + step * share).astype(np.float32)


def _cell(
    axes: dict[str, np.ndarray], sample: str, bin_size: tuple[float, float] | None, velocity: float | None
) -> tuple[float, str]:
    """Return the volume that one sample represents, and the unit of this volume; see `bodies`.

    `sample` is the name of the vertical axis.
    """
    steps = np.diff(axes[sample])
    if bin_size is None or not np.isfinite(bin_size).all() or not len(steps):
        return 1.0, "samples"
    area, thickness = float(np.prod(bin_size)), float(abs(steps[0]))
    if sample == "depth":
        return area * thickness, "m3"
    return (area * thickness, "m2 ms") if velocity is None else (area * thickness / 2000 * velocity, "m3")


def _extent(outline: Outline, axes: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return a dict with the extent of one geobody: column of the table of `bodies` -> value.

    The columns are ``at_edge``, and the first and last inline, crossline and time or depth.
    """
    first = outline.line.min(), outline.trace.min(), outline.top.min()
    last = outline.line.max(), outline.trace.max(), outline.base.max()
    found: dict[str, Any] = {"at_edge": False}
    for (axis, labels), *ends in zip(axes.items(), first, last, strict=True):
        found["at_edge"] |= bool(ends[0] <= 0 or ends[1] >= len(labels) - 1)
        positions = np.interp(np.array(ends, np.float64), np.arange(len(labels)), labels).astype(labels.dtype)
        found[f"{axis}_first"], found[f"{axis}_last"] = positions.tolist()
    return found
