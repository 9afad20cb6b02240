"""Find the trace of a SEG-Y file at each crossing of an inline and a crossline.

To save memory, line numbers are stored as runs: consecutive traces whose line numbers change in even steps.
"""

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 1 << 17  # traces placed at a time
FAR = 16  # lines; requested lines that are farther apart are looked up separately

# A run: consecutive traces of the file whose inline and crossline numbers change in even steps.
RUN = np.dtype(
    [("number", "i8"), ("count", "i4"), ("inline", "i4"), ("crossline", "i4")]
    + [("inline_step", "i8"), ("crossline_step", "i8")]
)


@dataclasses.dataclass(frozen=True)
class Traces:
    """Numbers of the traces in a file, from 0, at the crossings of inlines and crosslines; stored as runs.

    ``traces[rows, columns]`` returns the numbers at positions on the two axes, shape (n_rows, n_columns); -1 for a
    trace that is missing or marked dead.

    Attributes
    ----------
    inlines, crosslines : array of int
        Line numbers, ascending.
    runs : array of RUN
        All traces, sorted by the lowest inline of the run.
    dead : array of int64
        Numbers of the traces marked dead, ascending.
    """

    inlines: Array
    crosslines: Array
    runs: Array
    dead: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Number of inlines and number of crosslines."""
        return len(self.inlines), len(self.crosslines)

    @functools.cached_property
    def reach(self) -> tuple[Array, Array]:
        """Two ascending arrays: lowest inline of every run, and highest inline of this run and all runs before it."""
        low, high = ends(self.runs, "inline")
        return low, np.maximum.accumulate(high)

    def __getitem__(self, key: tuple[npt.ArrayLike, npt.ArrayLike]) -> Array:
        (rows, down), (columns, across) = (np.unique(np.asarray(k, int), return_inverse=True) for k in key)
        # Distant lines are looked up separately, because all traces between lines of one lookup are unrolled.
        groups = [np.split(labels, np.flatnonzero(np.diff(labels) > FAR) + 1) for labels in (rows, columns)]
        parts = [part for group in groups[0] for part in np.array_split(group, 1 + group.size * columns.size // BLOCK)]
        table = np.block([[self.block(part, group) for group in groups[1]] for part in parts])
        return table[np.ix_(down.ravel(), across.ravel())]

    def block(self, rows: Array, columns: Array) -> Array:
        """Return trace numbers at ascending rows and columns, shape (n_rows, n_columns); -1 for a missing trace."""
        if not rows.size or not columns.size:
            return np.empty((rows.size, columns.size), np.int64)
        numbers, at_row, at_column = self.inside(rows, columns)
        live = np.append(self.dead, -1)[np.searchsorted(self.dead, numbers)] != numbers
        table = np.full((np.ptp(rows) + 1, np.ptp(columns) + 1), -1, np.int64)
        # Of traces at the same crossing the last one is used.
        table[at_row[live] - rows[0], at_column[live] - columns[0]] = numbers[live]
        return table[np.ix_(rows - rows[0], columns - columns[0])]

    def inside(self, rows: Array, columns: Array) -> tuple[Array, Array, Array]:
        """Return (numbers, rows, columns) of all traces, live or dead, in the rectangle that rows and columns span.

        `rows` and `columns` ascend; the rectangle reaches from the first to the last of each.
        """
        inlines, crosslines = self.inlines[rows[[0, -1]]], self.crosslines[columns[[0, -1]]]
        low, high = self.reach
        runs = self.runs[np.searchsorted(high, inlines[0]) : np.searchsorted(low, inlines[1], "right")]
        runs = runs[np.argsort(runs["number"])]
        begin, end = np.zeros(len(runs), np.int64), runs["count"].astype(np.int64)
        for name, limits in (("inline", inlines), ("crossline", crosslines)):
            first, last = steps_within(runs[name].astype(np.int64), runs[f"{name}_step"], *limits)
            begin, end = np.maximum(begin, first), np.minimum(end, last + 1)
        count = np.maximum(end - begin, 0)
        numbers, inline, crossline = (unroll(runs, name, begin, count) for name in ("number", "inline", "crossline"))
        return numbers, place(self.inlines, inline), place(self.crosslines, crossline)

    def live(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the crossings that have a live trace, shape (n_inline, n_crossline)."""
        live, columns = np.empty(self.shape, bool), np.arange(self.shape[1])
        for rows in np.array_split(np.arange(len(live)), -(-live.size // BLOCK)):
            live[rows] = self[rows, columns] >= 0
        return live


def find_runs(inline: npt.ArrayLike, crossline: npt.ArrayLike, *, first: int = 0) -> Array:
    """Group consecutive traces into runs whose line numbers change in even steps; return an array of `RUN`.

    `inline` and `crossline` have the line numbers of the traces; `first` is the number of the first trace in the file.

    Examples
    --------
    >>> find_runs([7, 7, 7, 8, 8], [1, 2, 3, 3, 2])[["number", "count", "crossline", "crossline_step"]].tolist()
    [(0, 3, 1, 1), (3, 2, 3, -1)]
    """
    labels = np.array([inline, crossline], np.int64)
    place, steps = np.arange(labels.shape[1]), np.diff(labels, append=labels[:, -1:])
    uneven = np.ones(len(place), bool)
    uneven[1:2] = False
    uneven[2:] = np.any(steps[:, 1:-1] != steps[:, :-2], axis=0)
    # The second trace of a run sets its step, so in a row of uneven traces every second one begins a run.
    starts = np.flatnonzero(uneven & ((place - np.maximum.accumulate(np.where(uneven, -1, place))) % 2 == 1))
    runs = np.zeros(len(starts), RUN)
    runs["number"], runs["count"] = first + starts, np.diff(starts, append=len(place))
    runs["inline"], runs["crossline"] = labels[:, starts]
    runs["inline_step"], runs["crossline_step"] = np.where(runs["count"] > 1, steps[:, starts], 0)
    return runs


def ends(runs: Array, name: str) -> tuple[Array, Array]:
    """Return the lowest and the highest line number of every run; `name` is ``inline`` or ``crossline``."""
    first = runs[name].astype(np.int64)
    last = first + runs[f"{name}_step"] * (runs["count"] - 1)
    return np.minimum(first, last), np.maximum(first, last)


def steps_within(first: Array, step: Array, low: int, high: int) -> tuple[Array, Array]:
    """Return the smallest and the largest integer n for which ``first + n * step`` lies in [low, high].

    If there is no such n, the smallest one is larger than the largest one.

    Examples
    --------
    >>> steps_within(np.array([0, 9]), np.array([2, -1]), 3, 6)
    (array([2, 3]), array([3, 6]))
    """
    still, inside = step == 0, (first >= low) & (first <= high)
    divisor = np.where(still, 1, step)
    near, far = np.where(step > 0, [[low], [high]], [[high], [low]]) - first
    return np.where(still, 0, -(-near // divisor)), np.where(still, np.where(inside, 1 << 62, -1), far // divisor)


def unroll(runs: Array, name: str, begin: Any, count: Array) -> Array:
    """Return the line numbers or the trace numbers of `count` traces of every run, beginning at trace `begin`.

    `name` is ``inline``, ``crossline``, or ``number`` for trace numbers. `begin` counts the traces within each run: 0
    is the first trace of the run.

    Examples
    --------
    >>> unroll(find_runs([7, 7, 7, 8, 8], [1, 2, 3, 3, 2]), "crossline", np.array([1, 0]), np.array([2, 2]))
    array([2, 3, 3, 2])
    """
    step = np.ones(len(runs), np.int64) if name == "number" else runs[f"{name}_step"]
    first = runs[name] - (np.cumsum(count) - count - begin) * step
    return np.asarray(np.repeat(first, count) + np.repeat(step, count) * np.arange(np.sum(count)))


def make_grid(runs: Array, dead: Array) -> dict[str, Any] | None:
    """Return a dict with the fields of `Geometry` that describe axes and traces; None if the lines form no grid.

    `runs` and `dead` have the line numbers of all traces and the numbers of the dead traces; see `Traces`.
    """
    inlines, crosslines = line_axis(runs, "inline"), line_axis(runs, "crossline")
    n_traces, size = int(runs["count"].sum(dtype=np.int64)), len(inlines) * len(crosslines)
    # The traces of a survey fill a large part of its grid, random numbers almost nothing.
    if size > 16 * n_traces + 1024:
        return None
    dead = dead[: 0 if len(dead) == n_traces else None]
    runs = runs[np.argsort(ends(runs, "inline")[0], kind="stable")]
    traces = Traces(inlines, crosslines, runs, dead)
    n_live, n_placed = n_traces - len(dead), int(traces.live().sum())
    if n_placed < n_live / 2:
        return None
    return {
        "inlines": inlines,
        "crosslines": crosslines,
        "traces": traces,
        "missing": size - n_placed,
        "duplicates": n_live - n_placed,
        "dead": len(dead),
        "sorting": sorting(runs),
    }


def line_axis(runs: Array, name: str) -> Array:
    """Return the line numbers of a survey, ascending; missing lines are added unless they outnumber the present ones.

    Examples
    --------
    >>> line_axis(find_runs([10, 30, 20, 60], [1, 2, 1000, 2]), "inline").tolist()
    [10, 20, 30, 40, 50, 60]
    >>> line_axis(find_runs([10, 30, 20, 60], [1, 2, 1000, 2]), "crossline").tolist()
    [1, 2, 1000]
    """
    low, high = ends(runs, name)
    first, last, count = int(low.min()), int(high.max()), np.where(low == high, 1, runs["count"].astype(np.int64))
    total = np.cumsum(count)
    cuts = np.searchsorted(total, np.arange(0, total[-1], BLOCK), "right").tolist()
    parts = (slice(*cut) for cut in itertools.pairwise([*cuts, len(runs)]))
    blocks = (unroll(runs[part], name, 0, count[part]) for part in parts)
    if last - first < max(total[-1], 1 << 16):
        seen = np.zeros(last - first + 1, bool)
        for labels in blocks:
            seen[labels - first] = True
        present = first + np.flatnonzero(seen)
    else:
        present = np.unique(np.concatenate([np.unique(labels) for labels in blocks]))
    step = int(np.gcd.reduce(np.diff(present))) or 1
    return np.arange(first, last + 1, step) if (last - first) // step < 2 * len(present) else present


def place(axis: Array, labels: Array) -> Array:
    """Return the position of each line number on an axis that contains all of them."""
    if len(axis) > 1 and axis[-1] - axis[0] == (len(axis) - 1) * (axis[1] - axis[0]):
        return np.asarray((labels.astype(np.int64) - axis[0]) // (axis[1] - axis[0]))
    return np.searchsorted(axis, labels)


def sorting(runs: Array) -> str:
    """Return in which direction most lines are contiguous in the file: ``inline``, ``crossline`` or ``neither``."""
    along = {name: runs[f"{name}_step"] == 0 for name in ("inline", "crossline")}
    within = np.where(along["inline"] != along["crossline"], runs["count"] - 1, 0)
    inline, crossline = (np.sum(within[on_line]) / np.sum(runs["count"], dtype=np.int64) for on_line in along.values())
    return "neither" if max(inline, crossline) < 0.25 else "inline" if inline >= crossline else "crossline"
