"""Plan the positions of patches in a volume, cut patches out and stitch them together.

A patch is a window of an inline or crossline section with time (or depth) downwards. Its position is its centre,
``start + size // 2``, given as inline number, crossline number and time (or depth).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from outcrop.parallel import memory_budget
from outcrop.patches.area import area_positions, fitting_starts, horizon_grid
from outcrop.patches.gain import HEADROOM, agc_window, by_rms, sliding_rms
from outcrop.patches.gaps import GAP, bridge, bridged
from outcrop.patches.windows import patch_starts, stitch
from outcrop.volumes.amplitude import amplitude_clip, scale
from outcrop.volumes.axes import nearest_position, positions_of
from outcrop.volumes.lazy import live_traces
from outcrop.volumes.neighbours import line_distances

Array = npt.NDArray[Any]
Rows = npt.ArrayLike | slice  # rows of a grid: numbers, a mask or a slice
DIRECTIONS = ("inline", "crossline")


def sample_at(volume: xr.DataArray, position: Sequence[float]) -> list[int]:
    """Return the indices of the sample of a volume that is nearest to a position (inline, crossline, time).

    `ValueError` is raised if the volume does not have this inline or crossline.
    """
    names = (*DIRECTIONS, str(volume.dims[2]))
    if len(position) != 3:
        raise ValueError(f"Position {position} has {len(position)} numbers; give {', '.join(names)}.")
    axes = [volume[name].values for name in volume.dims]
    centre = [nearest_position(axis, p, name) for axis, p, name in zip(axes, position, names, strict=True)]
    for axis, at, label, name in zip(axes[:2], centre[:2], position[:2], names[:2], strict=True):
        if abs(axis[at] - label) > 0.5:
            raise ValueError(f"The volume has no {name} {label:g}; the nearest one is {axis[at]:g}.")
    return centre


class PatchGrid:
    """A plan: a list of overlapping patches on the sections of a volume.

    The row of a patch is its number in this list, from 0.

    Parameters
    ----------
    volume : DataArray, dims (inline, crossline, time or depth)
        Provides axes and live traces; amplitudes are read only by `clip` and `extract`.
    size : int or (int, int)
        Height of a patch in samples and width in traces; one number means both.
    step : int or (int, int)
        Samples and traces from one patch to the next; one number means both.
    along : {"inline", "crossline", "both"}
        Direction of the sections.
    every : int
        Use every Nth line; neighbouring lines are near-copies.
    area : dict, optional
        Area of interest: first and last coordinate on some axes, both included, for instance ``{"inline": (100, 300),
        "time": (400, 1600)}``. Patches lie entirely inside the area.
    between : (path, path), optional
        Text files of two horizons: the first above, the second below the centres of all patches; see `read_points`.
    sample : int, optional
        Number of patches at random positions, which replace the regular grid.
    gain : str
        Scaling of amplitudes to [0, 1]: ``volume`` by one clip for all, ``agc:MS`` by the RMS in a sliding window of MS
        milliseconds, ``patch`` by the RMS of each patch.
    clip : float, optional
        Amplitude that maps to 0 and 1 under gain ``volume``; by default a robust percentile of a few lines.
    seed : int
        Seed of the random positions.

    Attributes
    ----------
    starts : array, shape (n, 4)
        For every patch: direction (0 inline, 1 crossline), position of the line, first trace and first sample. Computed
        on first use; `places` computes the starts of chosen rows only, in less memory.
    left_out : int
        Number of patches left out because they would contain a missing trace or leave the area of interest. Gaps of up
        to `GAP` missing traces do not count as missing; they are filled when a patch is cut.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = PatchGrid(volume, size=32, step=16)
    >>> len(grid), grid.extract(volume, [0, 1]).shape
    (24, (2, 32, 32))
    >>> grid.table[["inline", "crossline", "time"]].iloc[0].tolist()  # centre of the first patch
    [100.0, 316.0, 64.0]
    """

    def __init__(
        self,
        volume: xr.DataArray,
        *,
        size: int | tuple[int, int] = 99,
        step: int | tuple[int, int] = 33,
        along: str = "inline",
        every: int = 1,
        area: dict[str, tuple[float, float]] | None = None,
        between: tuple[Any, Any] | None = None,
        sample: int | None = None,
        gain: str = "volume",
        clip: float | None = None,
        seed: int = 0,
    ) -> None:
        self.size, self.step = _pair(size, "size"), _pair(step, "step")
        if along not in (*DIRECTIONS, "both"):
            raise ValueError(f"Direction {along!r} is unknown; choose inline, crossline or both.")
        if every < 1:
            raise ValueError(f"'every' is {every}; choose 1 (each line) or more.")
        self.along, self.every, self.sample, self.seed = along, int(every), sample, seed
        self.gain, self.agc = gain, agc_window(gain, volume)
        self._volume, self._limits, self._between = volume, area, between
        self._clip = self.given_clip = None if clip is None else float(clip)
        self.axes = [volume[name].values for name in volume.dims]
        self.area = area_positions(volume, area or {})
        self.horizons = between and [horizon_grid(path, str(volume.dims[2]), *self.axes[:2]) for path in between]
        self._live, self._is_part = live_traces(volume), False
        directions = [DIRECTIONS.index(name) for name in (DIRECTIONS if along == "both" else (along,))]
        self._check_count(directions)
        if sample:
            parts = [self._scatter(direction, len(directions)) for direction in directions]
            self._draw(np.concatenate([starts for starts, _ in parts]))
            self.left_out = sum(missed for _, missed in parts)
        else:
            self._rule(directions)
        if not len(self):
            raise ValueError(
                f"No patch of {self.size[0]} x {self.size[1]} fits between missing traces and inside the area; "
                "choose a smaller size or a larger area."
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __repr__(self) -> str:
        size, step = (" x ".join(map(str, pair)) for pair in (self.size, self.step))
        how = f"{self.sample} at random" if self.sample else f"step {step}"
        return f"<PatchGrid: {len(self)} patches of {size}, {how}, along {self.along}, every {self.every}>"

    def __reduce__(self) -> Any:
        # Other processes compute the plan again, because its table of starts would be large to send.
        return _grid_again, (self._volume, self.parameters, self._drawn if self._is_part else None)

    @property
    def clip(self) -> float | None:
        """Absolute amplitude that scaling maps to 0 or 1, computed once; None if the volume is already in [0, 1]."""
        if self._clip is None and not self._volume.attrs.get("scaled"):
            self._clip = float(amplitude_clip(self._volume))
        return self._clip

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword arguments with which `PatchGrid` makes the same plan again for the same volume."""
        names = ("size", "step", "along", "every", "sample", "gain", "clip", "seed")
        return {name: getattr(self, name) for name in names} | {"area": self._limits, "between": self._between}

    @cached_property
    def starts(self) -> Array:
        """Starts of all patches: direction (0 inline, 1 crossline), position of the line, first trace, first sample."""
        return np.concatenate([np.empty((0, 4), np.int32), *map(self._on_line, range(len(self._ends)))])

    @cached_property
    def table(self) -> pd.DataFrame:
        """Centre of every patch: a DataFrame with columns inline, crossline, time (or depth) and along (direction)."""
        return self.centres(slice(None))

    def places(self, rows: Rows) -> Array:
        """Return the starts (see `starts`) of the patches at `rows` of the plan, the list of patches; shape (n, 4)."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        wanted = np.atleast_1d(rows)
        wanted = np.flatnonzero(wanted) if wanted.dtype == bool else np.where(wanted < 0, wanted + len(self), wanted)
        number = np.searchsorted(self._ends, wanted, "right")
        out = np.empty((len(wanted), 4), np.int32)
        for line in np.unique(number):
            here = number == line
            out[here] = self._on_line(line)[wanted[here] - self._ends[line]]  # counted from the end of the line
        return out

    def rows_at(self, starts: Array) -> Array:
        """Return, for each start of a patch (see `starts`), the row of this patch in the plan, the list of all patches.

        The row is -1 if no patch of the plan has this start.
        """
        found = np.full(len(starts), -1)
        heads, which = np.unique(starts[:, :2], axis=0, return_inverse=True)
        for number, line in enumerate(positions_of(_joined(self._heads), _joined(heads))):
            if line >= 0:
                on_line, here = self._on_line(line), np.flatnonzero(which.ravel() == number)
                rows = positions_of(_joined(on_line[:, 2:]), _joined(starts[here, 2:]))
                found[here] = np.where(rows < 0, -1, rows + self._ends[line] - len(on_line))
        return found

    def centres(self, rows: Rows) -> pd.DataFrame:
        """Return a table of the centres of the patches with the given rows in the plan (the list of all patches)."""
        return self.centres_at(self.places(rows))

    def centres_at(self, starts: npt.ArrayLike) -> pd.DataFrame:
        """Return the centres of the patches with the given starts (see `starts`); columns as in `table`.

        The patches need not belong to the plan.
        """
        direction, line, trace, first = np.asarray(starts).reshape(-1, 4).T
        middle = trace + self.size[1] // 2
        inline, crossline = np.where(direction == 0, line, middle), np.where(direction == 0, middle, line)
        return pd.DataFrame(
            {
                "inline": self.axes[0][inline],
                "crossline": self.axes[1][crossline],
                self._volume.dims[2]: self.axes[2][first + self.size[0] // 2],
                "along": pd.Categorical.from_codes(direction, DIRECTIONS),
            }
        )

    def metres(self, starts: npt.ArrayLike) -> Array:
        """Return, for each start of a patch, the distance of its line from the first line of the volume, in metres."""
        direction, line = np.asarray(starts).reshape(-1, 4)[:, :2].T
        distances = [line_distances(self._volume, name) for name in DIRECTIONS]
        return np.array([distances[one][at] for one, at in zip(direction, line, strict=True)])

    def extract(self, volume: xr.DataArray, rows: Rows) -> Array:
        """Cut the patches at `rows` of the plan, the list of all patches, out of a volume.

        Each line is read once, and of each line only the traces of its patches.

        Returns
        -------
        float32 array, shape (n, height, width)
            Values in [0, 1]; NaN in gaps of more than `GAP` missing traces.
        """
        return self.cut(volume, self.places(rows))

    def cut(self, volume: xr.DataArray, starts: npt.ArrayLike) -> Array:
        """Cut the patches with the given starts (see `starts`) out of a volume; return an array as `extract` does.

        The patches need not belong to the plan.
        """
        starts = np.asarray(starts).reshape(-1, 4)
        height, width = self.size
        out = np.empty((len(starts), height, width), np.float32)
        lines, which = np.unique(starts[:, :2], axis=0, return_inverse=True)
        for number, (direction, line) in enumerate(lines):
            here = np.flatnonzero(which.ravel() == number)
            first, last = starts[here, 2].min(), starts[here, 2].max() + width
            section = self._traces(volume, direction, line, first, last)
            for i in here:
                trace, sample = starts[i, 2] - first, starts[i, 3]
                out[i] = section[trace : trace + width, sample : sample + height].T
        return by_rms(out) if self.gain == "patch" else out

    def section(self, volume: xr.DataArray, direction: int, line: int) -> tuple[Array, Array]:
        """Return a whole section, scaled and with short gaps interpolated, and a mask of its live traces.

        Parameters
        ----------
        volume : DataArray
        direction, line : int
            0 for an inline or 1 for a crossline, and the position of the line.

        Returns
        -------
        section : array, shape (n_traces, n_samples), float32 in [0, 1]
            NaN in gaps of more than `GAP` missing traces. With gain "patch", the section is scaled by its RMS.
        live : bool array, shape (n_traces,)
            False for missing traces, also in interpolated gaps, and for constant traces.
        """
        live = self._live_on(direction, line)
        section = self._traces(volume, direction, line, 0, len(live))
        known = np.isfinite(section)
        varies = np.where(known, section, -np.inf).max(1) > np.where(known, section, np.inf).min(1)
        live = live & known.any(axis=1) & (varies | (section.shape[1] == 1))
        if self.gain == "patch" and live.any():
            rms = np.sqrt(np.nanmean(np.square(section, dtype=np.float64))).astype(np.float32)
            section = scale(section / (rms or 1), HEADROOM)
        return section, live

    def inside(self, direction: int, line: int) -> Array:
        """Return a mask of the samples of a line that lie in the area of interest, shape (n_traces, n_samples)."""
        inside = [np.isin(np.arange(len(axis)), area) for axis, area in zip(self.axes, self.area, strict=True)]
        return np.asarray(inside[direction][line] & inside[1 - direction][:, None] & inside[2])

    def in_area(self, position: Sequence[float]) -> bool:
        """Return whether a position (inline, crossline, time) lies in the area of interest."""
        at = [nearest_position(axis, p, "") for axis, p in zip(self.axes, position, strict=True)]
        return all(i in area for i, area in zip(at, self.area, strict=True))

    def _traces(self, volume: xr.DataArray, direction: int, line: int, first: int, last: int) -> Array:
        """Return traces `first` to `last` - 1 of a line, scaled to [0, 1], with short gaps interpolated."""
        live = self._live_on(direction, line)
        low, high = first, last
        if not live[first:last].all():
            low, high = max(0, first - GAP), min(len(live), last + GAP)  # with the live neighbours of its gaps
        key: Any = (line, slice(low, high)) if direction == 0 else (slice(low, high), line)
        section = bridge(volume[key].values, live[low:high])
        return self.amplify(section[first - low : last - low], volume)

    def _live_on(self, direction: int, line: int) -> Array:
        """Return a mask of the live traces of a line."""
        return self._live[line] if direction == 0 else self._live[:, line]

    def amplify(self, section: Array, volume: xr.DataArray) -> Array:
        """Scale traces to [0, 1] by the clip or by the sliding RMS, depending on the gain.

        With gain "patch", amplitudes are only centred on zero, because patches are scaled after they are cut.
        """
        section, scaled = np.asarray(section, np.float32), volume.attrs.get("scaled")
        if not scaled and volume.attrs.get("offset"):
            section = section - np.float32(volume.attrs["offset"])
        if self.gain == "volume":
            return section if scaled or self.clip is None else scale(section, self.clip)
        if scaled:
            section = 2 * section - 1
        return scale(section / sliding_rms(section, self.agc), HEADROOM) if self.agc else section

    def start_at(self, position: Sequence[float], *, along: str | None = None) -> Array:
        """Return the start of the patch centred at a position (inline, crossline, time), shape (4,); see `starts`.

        A patch that would leave the volume is shifted inwards.
        """
        centre = sample_at(self._volume, position)
        direction = int((along or self.along) == "crossline")
        starts = [
            int(np.clip(centre[axis] - size // 2, 0, max(0, len(self.axes[axis]) - size)))
            for axis, size in ((1 - direction, self.size[1]), (2, self.size[0]))
        ]
        return np.array([direction, centre[direction], *starts])

    def take(self, rows: Rows) -> "PatchGrid":
        """Return a new plan with only the patches at `rows` of this plan."""
        return self._part(self.places(rows))

    def lines(self) -> Iterator[tuple[int, int, slice]]:
        """Yield (direction, position of the line, slice of the rows of its patches) for each line with patches."""
        ends = self._ends.tolist()
        for head, first, last in zip(self._heads.tolist(), [0, *ends][:-1], ends, strict=True):
            yield (*head, slice(first, last))

    def live_lines(self) -> Array:
        """Return the positions of the lines that have a live trace inside the area; they need not have patches."""
        if self.along == "both":
            raise ValueError("The grid lies along both directions; make one along inline or crossline.")
        direction = DIRECTIONS.index(self.along)
        lines, traces = self.area[direction][:: self.every], self.area[1 - direction]
        return np.array([line for line in lines if self._live_on(direction, line)[traces].any()], int)

    def stitch(self, values: Array, rows: Rows) -> tuple[Array, Array]:
        """Return the weighted mean of overlapping patches that lie on one line, and the sum of their weights.

        Parameters
        ----------
        values : array, shape (n, height, width, ...)
            Values of the patches.
        rows : array of int or slice
            Rows of these patches in the plan.

        Returns
        -------
        section : array, shape (n_traces, n_samples, ...)
            Weighted mean; zero outside all patches.
        weight : array, shape (n_traces, n_samples)
            Sum of the weights; zero outside all patches.
        """
        starts = self.places(rows)
        shape = (len(self.axes[1 - starts[0, 0]]), len(self.axes[2]))
        return stitch(np.moveaxis(np.asarray(values), 1, 2), starts[:, 2:], shape)

    def _check_count(self, directions: list[int]) -> None:
        """Raise `ValueError` if the plan would not fit in memory.

        It takes about 64 bytes for each patch on one line, and 8 bytes for each patch of the plan.
        """
        lines, traces, samples = (len(self.area[axis]) for axis in (directions[0], 1 - directions[0], 2))
        on_line = self.sample or (traces // self.step[1] + 1) * (samples // self.step[0] + 1)
        count = self.sample or -(-lines // self.every) * on_line * len(directions)
        if 64 * on_line + 8 * count > memory_budget():
            raise ValueError(
                f"A plan of about {count} patches does not fit in memory; choose a larger step, or a larger value of "
                "'every'."
            )

    def _part(self, starts: Array) -> "PatchGrid":
        """Return a new plan with only the patches with the given starts, an array of shape (n, 4); see `starts`."""
        part = object.__new__(type(self))  # without __init__, which would compute the plan again
        vars(part).update({name: value for name, value in vars(self).items() if name not in ("table", "starts")})
        part._is_part = True
        part._draw(starts)
        return part

    def _draw(self, starts: Array) -> None:
        """Replace the patches of this plan by those with the given starts (see `starts`), which are sorted by line."""
        change = np.flatnonzero(np.any(np.diff(starts[:, :2], axis=0, prepend=-1), axis=1))
        self._drawn: Array | None = starts
        self._heads, self._ends = starts[change, :2], np.append(change, len(starts))[1:]

    def _rule(self, directions: list[int]) -> None:
        """Make this plan a regular lattice of patches on every Nth line, and count the patches that are left out."""
        heads: list[tuple[int, int]] = []
        counts: list[int] = []
        self._drawn, self.left_out = None, 0
        for direction in directions:
            patch_starts(len(self.area[1 - direction]), self.size[1], 1)  # an area too narrow is refused with its size
            for line in self.area[direction][:: self.every].tolist():
                starts, missed = self._lattice(direction, line)
                self.left_out += missed
                if len(starts):
                    heads.append((direction, line))
                    counts.append(len(starts))
        self._heads, self._ends = np.array(heads, np.int32).reshape(-1, 2), np.cumsum(counts, dtype=np.int64)

    def _on_line(self, number: int) -> Array:
        """Return the starts of the patches on one line; `number` counts the lines that have patches."""
        if self._drawn is None:
            return self._lattice(*self._heads[number])[0]
        return self._drawn[self._ends[number - 1] if number else 0 : self._ends[number]]

    def _lattice(self, direction: int, line: int) -> tuple[Array, int]:
        """Return (starts of the patches on the regular lattice of a line, number of lattice patches left out)."""
        traces, samples = self.area[1 - direction], self.area[2]
        height, width = self.size
        tops = np.array(patch_starts(len(samples), height, self.step[0])) + samples[0]
        alive = bridged(self._live_on(direction, line))[traces]
        fits, asked = fitting_starts(alive, width, self.step[1])
        grid = np.stack(np.meshgrid(fits + traces[0], tops, indexing="ij"), axis=-1).reshape(-1, 2)
        grid = grid[self._wanted(direction, line, grid)]
        starts = np.column_stack([np.full((len(grid), 2), (direction, line)), grid]).astype(np.int32)
        return starts, asked * len(tops) - len(grid)

    def _scatter(self, direction: int, n_directions: int) -> tuple[Array, int]:
        """Return (starts of random patches on every Nth line of one direction, number of random patches left out).

        The `sample` patches of the plan are divided equally among its `n_directions` directions.
        """
        rng = np.random.default_rng((self.seed, direction))
        lines, traces, samples = self.area[direction][:: self.every], self.area[1 - direction], self.area[2]
        height, width = self.size
        patch_starts(len(traces), width, 1), patch_starts(len(samples), height, 1)
        count, found, missed = (self.sample or 0) // n_directions, np.empty((0, 4), np.int32), 0
        for _ in range(100):
            line = rng.choice(lines, count)
            trace = rng.integers(traces[0], traces[-1] - width + 2, count)
            top = rng.integers(samples[0], samples[-1] - height + 2, count)
            alive = {a: bridged(self._live_on(direction, a)) for a in np.unique(line)}
            keep = np.array(
                [
                    alive[a][b : b + width].all() and self._wanted(direction, a, np.array([[b, c]]))[0]
                    for a, b, c in zip(line, trace, top, strict=True)
                ]
            )
            missed += count - int(np.sum(keep))
            drawn = np.column_stack([np.full(count, direction), line, trace, top])[keep]
            found = np.unique(np.concatenate([found, drawn.astype(np.int32)]), axis=0)
            if len(found) >= count:
                chosen = np.sort(rng.choice(len(found), count, replace=False))
                return found[chosen], missed
        return found, missed

    def _wanted(self, direction: int, line: int, grid: Array) -> Array:
        """Return a mask of the patches on one line whose centre lies between the horizons; all True without horizons.

        `grid` has the first trace and the first sample of each patch, shape (n, 2).
        """
        if not self.horizons:
            return np.ones(len(grid), bool)
        trace, time = grid[:, 0] + self.size[1] // 2, self.axes[2][grid[:, 1] + self.size[0] // 2]
        top, base = (h[line, trace] if direction == 0 else h[trace, line] for h in self.horizons)
        return np.asarray((time >= top) & (time <= base))


def _grid_again(volume: xr.DataArray, parameters: dict[str, Any], starts: Array | None) -> PatchGrid:
    """Make a plan again from its parameters; if `starts` is given, it has only the patches with these starts."""
    grid = PatchGrid(volume, **parameters)
    return grid if starts is None else grid._part(starts)


def _joined(pairs: Array) -> Array:
    """Pack pairs of 32-bit integers into 64-bit integers, for searching."""
    return pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1].astype(np.int64)


def _pair(value: int | tuple[int, int], name: str) -> tuple[int, int]:
    first, second = (int(v) for v in np.broadcast_to(value, 2))
    if min(first, second) < 1:
        raise ValueError(f"{name} is {value}; choose positive numbers.")
    return first, second
