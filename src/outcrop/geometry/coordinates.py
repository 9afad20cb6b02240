"""X and Y of places in a survey, from the trace headers where the volume is a SEG-Y file."""

from typing import NamedTuple

import numpy as np

from outcrop.volumes import segy, segy_headers, segy_layout

NUMBERS = "line numbers"


class MapGrid(NamedTuple):
    """How inline and crossline numbers become X and Y in metres: ``origin + inline * step + crossline * step``.

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

    @property
    def in_metres(self):
        """Whether X and Y are metres; else line numbers stand for them."""
        return self.source != NUMBERS

    def to_map(self, inline, crossline):
        """X and Y of inline and crossline numbers."""
        inline, crossline = (np.asarray(part, float)[:, None] for part in (inline, crossline))
        x, y = (self.origin + inline * self.inline_step + crossline * self.crossline_step).T
        return x, y

    def to_lines(self, x, y):
        """Inline and crossline numbers of X and Y."""
        steps = np.column_stack([self.inline_step, self.crossline_step])
        inline, crossline = np.linalg.solve(steps, np.array([x, y], float) - self.origin[:, None])
        return inline, crossline


def map_grid(volume):
    """Map grid of a volume.

    From the trace headers of a SEG-Y file, scalars applied, or from the corners of a ZGY file; else by its bin size, X
    along crosslines and Y along inlines from the first trace on; else line numbers stand for metres.
    """
    if "map" in volume.attrs:
        origin, inline_step, crossline_step = np.asarray(volume.attrs["map"], float)
        return MapGrid(origin, inline_step, crossline_step, "corners of the survey")
    if str(volume.attrs.get("format", "")).startswith("SEG-Y"):
        found = _from_headers(volume)
        if found is not None:
            return found
    inlines, crosslines = (volume[name].values for name in ("inline", "crossline"))
    if "bin_size" not in volume.attrs:
        return MapGrid(np.zeros(2), np.array([0.0, 1.0]), np.array([1.0, 0.0]), NUMBERS)
    bins = np.nan_to_num(volume.attrs["bin_size"], nan=1.0)
    steps = [size / _step(axis) for size, axis in zip(bins, (inlines, crosslines), strict=True)]
    origin = -np.array([crosslines[0] * steps[1], inlines[0] * steps[0]], float)
    return MapGrid(origin, np.array([0.0, steps[0]]), np.array([steps[1], 0.0]), "bin size")


def _step(axis):
    return float(axis[1] - axis[0]) if len(axis) > 1 else 1.0


def _from_headers(volume):
    """Map grid by coordinates of some thousand traces, None where they do not lie on a grid."""
    geometry = segy.scan(volume.attrs["source"], **volume.attrs["options"])
    with open(geometry.layout.path, "rb") as file:
        headers = segy_layout.sample_headers(file, geometry.layout)
    order = geometry.layout.order
    words = headers.view(segy_headers.trace_dtype(order)).ravel()
    if segy.commonest(words["coordinate_units"]) > 1:  # angles
        return None
    lines = [segy_headers.word_at(headers, byte, order).ravel().astype(float) for byte in geometry.header_bytes]
    scalar = segy_headers.coordinate_scalars(words)
    design = np.column_stack([np.ones(len(words)), *lines])
    for name in ("cdp", "source"):
        points = np.column_stack([words[f"{name}_x"], words[f"{name}_y"]]) * scalar[:, None]
        fitted = _fit(design, points)
        if fitted is not None:
            return MapGrid(fitted[0], fitted[1], fitted[2], "trace headers")
    return None


def _fit(design, points):
    """Origin and two steps of points on a grid, a few wild ones left out; None where there is no grid."""
    if np.linalg.matrix_rank(design) < 3:
        return None
    kept = np.ones(len(points), bool)
    for _ in range(5):
        steps = np.linalg.lstsq(design[kept], points[kept])[0]
        off = np.linalg.norm(points - design @ steps, axis=1)
        kept = off <= 3 * np.median(off) + 1e-6
    lengths = np.linalg.norm(steps[1:], axis=1)
    area = abs(steps[1, 0] * steps[2, 1] - steps[1, 1] * steps[2, 0])
    if lengths.min() <= 2 * np.median(off) or area < 0.1 * lengths.prod():
        return None
    return steps
