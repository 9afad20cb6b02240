"""Convert line numbers to map coordinates X and Y, from trace headers, the corners of the survey, or the bin size."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from xarray import DataArray

from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes import segy, segy_headers, segy_layout
from outcrop.volumes.axes import fit_grid, positions_of
from outcrop.volumes.neighbours import line_spacing, smallest_step
from outcrop.volumes.opening import segy_geometry

NUMBERS, BINS = "line numbers", "bin size"  # values of `MapGrid.source` if the volume has no coordinates
NEAR = 64  # traces; headers with smaller gaps between them are read in one call
FITTED = 40  # number of lines of each direction; a map is fitted to the coordinates at their crossings
OFF = 2.0  # traces; points farther from a 2-D line do not lie on it
FINE = 256  # points per trace of a 2-D line, of which the nearest one is searched


class MapGrid(NamedTuple):
    """Map from line numbers to X and Y: ``origin + inline * inline_step + crossline * crossline_step``.

    ``origin`` and the two steps are pairs (X, Y). ``metres`` is the length in m of one unit of X and Y; ``source``
    names the data that the map was made from, such as "trace headers".

    Examples
    --------
    >>> grid = MapGrid(np.array([1000.0, 2000.0]), np.array([0.0, 25.0]), np.array([12.5, 0.0]), "trace headers")
    >>> grid.to_map([4], [2])
    (array([1025.]), array([2100.]))
    >>> grid.to_lines([1025.0], [2100.0])
    (array([4.]), array([2.]))
    """

    origin: np.ndarray
    inline_step: np.ndarray
    crossline_step: np.ndarray
    source: str
    metres: float = 1.0

    @property
    def in_metres(self) -> bool:
        """Return True if X and Y are lengths, False if they are line numbers."""
        return self.source != NUMBERS

    def to_map(self, inline: npt.ArrayLike, crossline: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return X and Y of positions that are given by their inline and crossline numbers."""
        inline, crossline = (np.asarray(part, float)[:, None] for part in (inline, crossline))
        x, y = (self.origin + inline * self.inline_step + crossline * self.crossline_step).T
        return x, y

    def to_lines(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the inline and crossline numbers, with fractions, of positions that are given by X and Y."""
        steps = np.column_stack([self.inline_step, self.crossline_step])
        inline, crossline = np.linalg.solve(steps, np.array([x, y], float) - self.origin[:, None])
        return inline, crossline


class MapLine(NamedTuple):
    """Map from line numbers to X and Y along a single line, which may be crooked.

    X and Y are interpolated linearly between traces. ``along`` is the direction of the line, ``number`` its line
    number, ``traces`` the crossline (or inline) numbers of its traces, and ``points`` their X and Y, shape (n, 2).

    Examples
    --------
    >>> line = MapLine("inline", 7.0, np.array([1.0, 2, 3]), np.array([[0.0, 0], [10, 0], [10, 10]]))
    >>> line.to_map([7], [2.5])
    (array([10.]), array([5.]))
    >>> line.to_lines([10.0], [5.0])
    (array([7.]), array([2.5]))
    """

    along: str
    number: float
    traces: np.ndarray
    points: np.ndarray
    source: str = "trace headers"
    metres: float = 1.0
    in_metres: bool = True

    def to_map(self, inline: npt.ArrayLike, crossline: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return X and Y of positions that are given by their inline and crossline numbers."""
        trace = np.asarray(crossline if self.along == "inline" else inline, float)
        x, y = (np.interp(trace, self.traces, part) for part in self.points.T)
        return x, y

    def to_lines(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the inline and crossline numbers of positions that are given by X and Y.

        They are NaN for positions farther than two traces from the line.
        """
        fine = np.linspace(self.traces[0], self.traces[-1], FINE * len(self.traces))
        reach = OFF * np.median(np.linalg.norm(np.diff(self.points, axis=0), axis=1))
        tree = cKDTree(np.column_stack(self.to_map(fine, fine)))
        nearest = tree.query(np.column_stack([x, y]), distance_upper_bound=reach)[1]
        trace = np.append(fine, np.nan)[nearest]
        line = np.full(len(trace), self.number)
        return (line, trace) if self.along == "inline" else (trace, line)


def map_grid(volume: DataArray) -> MapGrid | MapLine:
    """Return the map from the line numbers of a volume to X and Y.

    The first available source is used: the corners of a ZGY file; the coordinates of the traces, with the scalars of
    their headers; or the bin size, with X along rising crossline numbers and Y along rising inline numbers, both 0 at
    the first trace. Without any of these, X and Y are the crossline and inline numbers.
    """
    if "map" in volume.attrs:
        origin, inline_step, crossline_step = np.asarray(volume.attrs["map"], float)
        return MapGrid(origin, inline_step, crossline_step, "corners of the survey")
    try:
        found = _map_of_traces(volume)
    except ValueError:  # no coordinates
        found = None
    if found is not None:
        return found
    spacing = line_spacing(volume)
    if spacing is None:
        return MapGrid(np.zeros(2), np.array([0.0, 1.0]), np.array([1.0, 0.0]), NUMBERS)
    bins = np.nan_to_num(spacing, nan=1.0)
    first = [float(volume[name].values[0]) for name in DIRECTIONS]
    down, across = (size / smallest_step(volume[name].values) for size, name in zip(bins, DIRECTIONS, strict=True))
    origin = -np.array([first[1] * across, first[0] * down])
    return MapGrid(origin, np.array([0.0, down]), np.array([across, 0.0]), BINS)


def _map_of_traces(volume: DataArray) -> MapGrid | MapLine | None:
    """Return the map fitted to X and Y of traces spread over the survey; None if X and Y do not form a grid.

    For a single line, return a `MapLine` through all of its traces; None if their coordinates are unknown or equal.
    """
    axes, metres = _survey(volume)
    single = min(map(len, axes)) == 1
    counts = [len(axis) if single else min(len(axis), FITTED) for axis in axes]
    chosen = [axis[np.linspace(0, len(axis) - 1, n).astype(int)] for axis, n in zip(axes, counts, strict=True)]
    lines = [part.ravel() for part in np.meshgrid(*chosen, indexing="ij")]
    x, y = trace_coordinates(volume, *lines)
    if single:
        known, along = np.isfinite(x) & np.isfinite(y), int(len(axes[0]) > 1)
        points = np.column_stack([x, y])[known]
        if len(points) < 2 or not np.ptp(points, axis=0).any():
            return None
        traces = lines[1 - along][known].astype(float)
        return MapLine(DIRECTIONS[along], float(axes[along][0]), traces, points, metres=metres)
    grid = fit_grid(lines[0], lines[1], x + 1j * y)
    if grid is None or not abs((grid[1].conjugate() * grid[2]).imag) > 0.1 * abs(grid[1] * grid[2]):
        return None  # no regular grid, or inlines parallel to crosslines
    origin, inline_step, crossline_step = np.column_stack([grid.real, grid.imag])
    return MapGrid(origin, inline_step, crossline_step, "trace headers", metres)


def trace_coordinates(
    volume: DataArray, inlines: npt.ArrayLike, crosslines: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return X and Y of traces from the trace headers of the volume's file, with the coordinate scalars applied.

    Parameters
    ----------
    volume : DataArray
        A volume that `open_volume` opened from a SEG-Y or ZGY file; or any volume with coordinates ``cdp_x`` and
        ``cdp_y`` on inline and crossline.
    inlines, crosslines : array of int, shape (n,)
        Line numbers of the traces.

    Returns
    -------
    x, y : array, shape (n,)
        In the units of the headers; NaN for missing traces.

    Raises
    ------
    ValueError
        The volume has no coordinates, or its coordinates are angles instead of lengths.
    """
    rows, columns = (
        _rows_of(axis, name, labels)
        for axis, name, labels in zip(_survey(volume)[0], DIRECTIONS, (inlines, crosslines), strict=True)
    )
    if {"cdp_x", "cdp_y"} <= set(volume.coords):
        x, y = (volume[name].transpose(*DIRECTIONS).values[rows, columns] for name in ("cdp_x", "cdp_y"))
        return x, y
    if "map" in volume.attrs:
        return map_grid(volume).to_map(inlines, crosslines)
    if not _is_segy(volume):
        source = volume.attrs.get("source") or "This volume"
        raise ValueError(f"{source} is not SEG-Y, so X and Y of its traces are unknown; write csv.")
    geometry = segy_geometry(volume)
    numbers, order = np.full(len(rows), -1, np.int64), np.argsort(rows, kind="stable")
    for of_row in np.split(order, np.flatnonzero(np.diff(rows[order])) + 1):
        if len(of_row):
            numbers[of_row] = geometry.traces[rows[of_row[:1]], columns[of_row]][0]
    points = np.full((len(rows), 2), np.nan)
    points[numbers >= 0] = _header_points(geometry, numbers[numbers >= 0])
    return points[:, 0], points[:, 1]


def _survey(volume: DataArray) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """Return ((inline numbers, crossline numbers), metres) of a volume, or of the SEG-Y file that it was opened from.

    ``metres`` is the length in m of one unit of X and Y.
    """
    if _is_segy(volume) and "cdp_x" not in volume.coords:
        geometry = segy_geometry(volume)
        return (geometry.inlines, geometry.crosslines), geometry.metres
    return (volume["inline"].values, volume["crossline"].values), 1.0


def _rows_of(axis: np.ndarray, name: str, labels: npt.ArrayLike) -> np.ndarray:
    """Return the positions of line numbers on an axis; raise `ValueError` if one of them is not on the axis.

    `labels` are the line numbers, and `name` is the name of the axis.
    """
    found = positions_of(axis, labels)
    if (found < 0).any():
        missing = np.asarray(labels)[found < 0][0]
        raise ValueError(f"The volume has no {name} {missing:g}; it has {axis.min():g} to {axis.max():g}.")
    return found


def _is_segy(volume: DataArray) -> bool:
    return str(volume.attrs.get("format", "")).startswith("SEG-Y")


def _header_points(geometry: segy.Geometry, numbers: np.ndarray) -> np.ndarray:
    """Return X and Y of the midpoints of traces, shape (n, 2); `numbers` are the positions of the traces in the file.

    If the headers hold no midpoints, X and Y of the sources are returned.
    """
    layout = geometry.layout
    order = np.argsort(numbers, kind="stable")
    headers: Any = np.empty(len(numbers), segy_headers.trace_dtype(layout.order))
    with open(layout.path, "rb") as file:
        for run in np.split(order, np.flatnonzero(np.diff(numbers[order]) > NEAR) + 1):
            if len(run):
                first, last = int(numbers[run[0]]), int(numbers[run[-1]])
                raw = segy_layout.trace_records(file, layout, first, last + 1)["header"][numbers[run] - first]
                headers[run] = np.ascontiguousarray(raw).view(headers.dtype)
    if (headers["coordinate_units"] > 1).any():
        raise ValueError(f"The coordinates of {layout.path} are angles, not X and Y; write csv.")
    scalar = segy_headers.coordinate_scalars(headers)
    for name in ("cdp", "source"):
        points: np.ndarray = np.column_stack([headers[f"{name}_x"], headers[f"{name}_y"]]) * scalar[:, None]
        if points.any() or not len(points):
            return points
    raise ValueError(f"The trace headers of {layout.path} hold no coordinates; write csv.")


def positions_on(axis: np.ndarray, labels: npt.ArrayLike) -> np.ndarray:
    """Return the positions of values on an axis, counted from 0 with fractions.

    Positions of values beyond the ends of the axis are extrapolated.

    Examples
    --------
    >>> positions_on(np.array([10, 12, 14]), [9, 10, 13, 18])
    array([-0.5,  0. ,  1.5,  4. ])
    """
    values: np.ndarray = np.asarray(labels, float)
    if len(axis) == 1:
        return np.asarray(values - float(axis[0]))
    step = float(axis[-1] - axis[0]) / (len(axis) - 1)
    outside = (values < axis[0]) | (values > axis[-1])
    return np.asarray(np.where(outside, (values - axis[0]) / step, np.interp(values, axis, np.arange(len(axis)))))
