"""Strokes: the samples that they cover, and the grid points and patches from which mappers learn them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import label as connected

from outcrop.features.energies import STRIDE
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.volumes.axes import nearest_position, positions_of

Section = tuple[int, int]  # direction and position
FULL = 0.25  # share of painted samples above which a grid point has full weight


def covered(shape: tuple[int, int], spots: npt.ArrayLike, radius: float) -> np.ndarray:
    """Return a mask of the samples within a radius of the straight lines that join the points `spots`.

    Points are pairs of array positions; the radius is in array positions too. One point gives a disc.

    Examples
    --------
    >>> covered((3, 5), [(1, 1), (1, 3)], 0.5).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    mask = np.zeros(shape, bool)
    spots = np.asarray(spots, float).reshape(-1, 2)
    for a, b in zip(spots, spots[1:] if len(spots) > 1 else spots, strict=False):
        low = np.clip(np.floor(np.minimum(a, b) - radius), 0, None).astype(int)
        high = np.clip(np.ceil(np.maximum(a, b) + radius) + 1, 0, shape).astype(int)
        if (low >= high).any():
            continue
        points = np.stack(np.meshgrid(*map(np.arange, low, high), indexing="ij"), axis=-1) - a
        along = b - a
        share = np.clip(points @ along / max(along @ along, 1e-12), 0, 1)
        near = np.sum((points - share[..., None] * along) ** 2, axis=-1) <= radius**2 + 1e-9
        mask[low[0] : high[0], low[1] : high[1]] |= near
    return mask


def enclosed(shape: tuple[int, int], spots: npt.ArrayLike) -> np.ndarray:
    """Return a mask of the samples inside a polygon, by the even-odd rule.

    `spots` are the array positions of the corners.

    Examples
    --------
    >>> enclosed((4, 5), [(0.5, 0.5), (0.5, 3.5), (2.5, 3.5), (2.5, 0.5)]).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    inside = np.zeros(shape, bool)
    spots = np.asarray(spots, float).reshape(-1, 2)
    rows, columns = np.arange(shape[0]), np.arange(shape[1])
    for (row, column), (next_row, next_column) in zip(spots, np.roll(spots, -1, axis=0), strict=True):
        crossed = rows[(rows >= min(row, next_row)) & (rows < max(row, next_row))]
        if len(crossed):
            at = column + (crossed - row) / (next_row - row) * (next_column - column)
            inside[crossed] ^= columns >= at[:, None]
    return inside


def runs(mask: np.ndarray, traces: np.ndarray, samples: np.ndarray) -> list[list[float]]:
    """Return the vertical runs of True in a mask (n_traces, n_samples) as lists [trace number, first time, last time].

    Examples
    --------
    >>> runs(np.array([[0, 1, 1], [0, 0, 0]], bool), np.array([300, 301]), np.array([0.0, 4.0, 8.0]))
    [[300, 4.0, 8.0]]
    """
    edges = np.diff(np.pad(mask.astype(np.int8), [(0, 0), (1, 1)]), axis=1)
    begin, end = np.argwhere(edges == 1), np.argwhere(edges == -1)
    ends = zip(
        traces[begin[:, 0]].tolist(), samples[begin[:, 1]].tolist(), samples[end[:, 1] - 1].tolist(), strict=True
    )
    return [list(run) for run in ends]


def section_of(stroke: Mapping[str, Any], axes: Sequence[np.ndarray]) -> Section | None:
    """Return the section of a stroke as (direction, position); None if the volume does not have this line."""
    direction = DIRECTIONS.index(stroke["along"])
    label = stroke["line"] if "line" in stroke else stroke["points"][0][direction]
    at = int(positions_of(axes[direction], label))
    return (direction, at) if at >= 0 else None


def stroke_mask(stroke: Mapping[str, Any], axes: Sequence[np.ndarray]) -> np.ndarray:
    """Return a mask of the samples that a stroke covers on its section, shape (n_traces, n_samples)."""
    direction = DIRECTIONS.index(stroke["along"])
    traces, samples = axes[1 - direction], axes[2]
    shape = len(traces), len(samples)
    if "runs" not in stroke:
        spots = [(_place(traces, point[1 - direction]), _place(samples, point[2])) for point in stroke["points"]]
        mask = covered(shape, spots, float(stroke["radius"]))
        return mask | enclosed(shape, spots) if stroke.get("filled") else mask
    mask = np.zeros(shape, bool)
    places = positions_of(traces, [run[0] for run in stroke["runs"]])
    for at, (_, *ends) in zip(places, stroke["runs"], strict=True):
        first, last = sorted(round(_place(samples, label)) for label in ends)
        if at >= 0:
            mask[at, max(first, 0) : last + 1] = True
    return mask


def _place(axis: np.ndarray, label: float) -> float:
    """Return the position of the axis value nearest to the value `label`.

    If `label` lies more than a step beyond an end of the axis, its position is extrapolated.
    """
    at = nearest_position(axis, label)
    step = float(axis[1] - axis[0]) if len(axis) > 1 else 1.0
    return at + (label - axis[at]) / step if at in (0, len(axis) - 1) and abs(label - axis[at]) > abs(step) else at


def _placed(
    strokes: Sequence[Mapping[str, Any]], names: Sequence[str], axes: Sequence[np.ndarray]
) -> Iterator[tuple[Section, bool, int, np.ndarray]]:
    """Yield (section, whether it excludes its class, code of its class, mask) of every stroke; an eraser has code 0.

    Strokes on lines that the volume does not have, and strokes of other classes than `names`, are left out.
    """
    codes = {name: i + 1 for i, name in enumerate(names)} | {"erase": 0}
    for stroke in strokes:
        place = section_of(stroke, axes)
        if place is not None and stroke["class"] in codes:
            yield place, stroke.get("what") == "exclude", codes[stroke["class"]], stroke_mask(stroke, axes)


def painted_sections(
    strokes: Sequence[Mapping[str, Any]], names: Sequence[str], axes: Sequence[np.ndarray]
) -> dict[Section, np.ndarray]:
    """Return the painted codes of every section; later strokes win.

    Parameters
    ----------
    strokes : list of dict
        Entries of decisions; a stroke that excludes a class clears earlier strokes of that class.
    names : list of str
        Classes; code i + 1 is ``names[i]``, 0 where nothing is painted.
    axes : list of three arrays
        Inline numbers, crossline numbers and times of the volume.

    Returns
    -------
    dict
        Section (direction, position) -> uint8 array of codes, shape (n_traces, n_samples).
    """
    found: dict[Section, np.ndarray] = {}
    for place, excludes, code, mask in _placed(strokes, names, axes):
        section = found.setdefault(place, np.zeros(mask.shape, np.uint8))
        if excludes:
            section[mask & (section == code)] = 0
        else:
            section[mask] = code
    return {place: section for place, section in found.items() if section.any()}


def excluded_sections(
    strokes: Sequence[Mapping[str, Any]], names: Sequence[str], axes: Sequence[np.ndarray]
) -> dict[Section, np.ndarray]:
    """Return a dict: section -> where each class is excluded on it.

    A later stroke of any class, or a later eraser, clears the exclusions at its samples.

    Parameters
    ----------
    strokes, names, axes
        As for `painted_sections`.

    Returns
    -------
    dict
        Section (direction, position) -> bool array, shape (n_names, n_traces, n_samples).
    """
    found: dict[Section, np.ndarray] = {}
    for place, excludes, code, mask in _placed(strokes, names, axes):
        if excludes:
            found.setdefault(place, np.zeros((len(names), *mask.shape), bool))[code - 1] |= mask
        elif place in found:
            found[place][:, mask] = False
    return {place: section for place, section in found.items() if section.any()}


def cell_means(values: np.ndarray) -> np.ndarray:
    """Return the mean of the 4 x 4 cell of samples around every grid point; samples beyond the edge count as 0.

    Examples
    --------
    >>> cell_means(np.eye(6, dtype=bool))
    array([[0.25 , 0.   ],
           [0.   , 0.125]])
    """
    shape = [-(-n // STRIDE) * STRIDE for n in values.shape]
    cells = np.pad(values, [(0, full - n) for full, n in zip(shape, values.shape, strict=True)])
    means: np.ndarray = cells.reshape(shape[0] // STRIDE, STRIDE, shape[1] // STRIDE, STRIDE).mean(axis=(1, 3))
    return means


def painted_nodes(codes: np.ndarray, excluded: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the grid points that strokes on a section cover, and what a mapper learns at them.

    Parameters
    ----------
    codes : uint8 array, shape (n_traces, n_samples)
        ``i + 1`` for class i.
    excluded : bool array, shape (n_classes, n_traces, n_samples)
        Where each class is excluded.

    Returns
    -------
    rows : int array, shape (n, 2)
        Trace and sample of each grid point, counted in grid points (every fourth trace and sample).
    known : bool array, shape (n, n_classes)
        Painted classes.
    excluded : bool array, shape (n, n_classes)
        Excluded classes.
    weights : array, shape (n,)
        The n grid points of a connected area together have the weight of the fourth root of n.
    """
    parts = []
    for masks, kind in (([codes == c + 1 for c in range(len(excluded))], 0), (excluded, 1)):
        shares = np.stack([cell_means(mask) for mask in masks])
        winner = shares.argmax(axis=0)
        for c, share in enumerate(shares):
            nodes = (share > 0) & (winner == c) if kind == 0 else share > 0
            pieces, _ = connected(nodes)
            sizes = np.bincount(pieces.ravel())
            rows = np.argwhere(nodes)
            weights = np.minimum(share[nodes] / FULL, 1) / sizes[pieces[nodes]] ** 0.75
            both = np.zeros((len(rows), 2, len(shares)), bool)
            both[:, kind, c] = True
            parts.append((rows, both[:, 0], both[:, 1], weights))
    rows, known, excluded, weights = (np.concatenate(some) for some in zip(*parts, strict=True))
    return rows, known, excluded, weights


def painted_patches(
    grid: PatchGrid,
    sections: Mapping[Section, np.ndarray],
    starts: np.ndarray,
    classes: np.ndarray,
    names: Sequence[str],
    *,
    background: str | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return retrieved patches with the samples painted in them, and further patches around other strokes.

    Parameters
    ----------
    grid : PatchGrid
        The grid of the retrieved patches, for their size.
    sections : dict
        As `painted_sections` returns it for `names`.
    starts : array, shape (n, 4)
        Direction, line, first trace and first sample of each retrieved patch, as positions.
    classes : array of str, shape (n,)
        Classes of the retrieved patches.
    names : list of str
        The classes of the patches and the classes that are only painted.
    background : str, optional

    Returns
    -------
    starts : array, shape (m, 4)
    classes : array of str, shape (m,)
        A retrieved patch keeps its class. A further patch has the class with most painted samples in it, where the
        background does not count. If only the background is painted in it, it has the class of a retrieved patch that
        it overlaps on the same section; if it overlaps no retrieved patch, it is background.
    masks : uint8 array, shape (m, height, width), or None if no painted section is large enough for a patch
        ``i + 1`` for the i-th class, in the order in which `classes` first name them.
    """
    height, width = grid.size
    sections = {
        place: codes for place, codes in sections.items() if codes.shape[0] >= width and codes.shape[1] >= height
    }
    if not sections:
        return starts, classes, None
    extra: list[tuple[tuple[int, ...], str]] = []
    for place, codes in sections.items():
        here = (starts[:, :2] == place).all(axis=1)
        found = list(zip(starts[here, 2:].tolist(), classes[here].tolist(), strict=True))
        extra += [((*place, *corner), name) for corner, name in _around(codes, grid, found, names, background)]
    if extra:
        starts = np.concatenate([starts, [start for start, _ in extra]])
        classes = np.concatenate([classes, [name for _, name in extra]])
    masks = np.zeros((len(starts), *grid.size), np.uint8)
    for i, (direction, line, trace, sample) in enumerate(starts):
        if (direction, line) in sections:
            codes = sections[direction, line]
            masks[i] = codes[trace : trace + width, sample : sample + height].T
    order = list(dict.fromkeys(map(str, classes)))
    table = np.array([0, *(order.index(name) + 1 if name in order else 0 for name in names)], np.uint8)
    return starts, classes, table[masks]


def _around(
    codes: np.ndarray, grid: PatchGrid, found: list[Any], names: Sequence[str], background: str | None
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the first (trace, sample) and the class of patches that together cover the painted samples of a section.

    `found` holds ((trace, sample), class) of the retrieved patches on the section.
    """
    height, width = grid.size
    left = codes > 0
    while left.any():
        middle = np.argwhere(left)[np.count_nonzero(left) // 2]
        trace, sample = (
            int(np.clip(at - size // 2, 0, n - size))
            for at, size, n in zip(middle, (width, height), codes.shape, strict=True)
        )
        window = codes[trace : trace + width, sample : sample + height]
        left[trace : trace + width, sample : sample + height] = False
        left[tuple(middle)] = False
        counts = np.bincount(window[window > 0], minlength=len(names) + 1)
        structures = [code for code, name in enumerate(names, 1) if name != background and counts[code]]
        near = [name for (t, s), name in found if abs(t - trace) < width and abs(s - sample) < height]
        if structures:
            name = names[max(structures, key=counts.__getitem__) - 1]
        else:
            name = near[0] if near else names[int(counts.argmax()) - 1]
        yield (trace, sample), name
