"""Join fault sticks of neighbouring lines and of both directions into fault surfaces."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.cluster.hierarchy import DisjointSet
from scipy.spatial import cKDTree
from xarray import DataArray

from outcrop.geometry.coordinates import MapGrid, MapLine, map_grid, positions_on
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.neighbours import line_distances, neighbour_groups

LINES = 3  # largest distance in lines from a stick to the next stick of its surface
STRIKE = 2.0  # traces per line; largest shift of a surface; lines of the other direction show larger shifts better
BEND = 1.5  # traces; largest standard deviation of the distance of two sticks that are joined
OVERLAP = 0.4  # smallest share of the shorter of two joined sticks that lies at common depths
SHARED = 6  # largest overlap in samples of two sticks of a surface on one line
PLANE = 2.0  # traces; largest root mean square distance of two pieces of a surface from their common plane
FAR = 10, 20  # largest distance in lines and in samples between two pieces of a surface
NEAR = 2.5  # traces; largest distance of a crossline stick from the surface of inline sticks that it joins
VELOCITY = 2500.0  # m/s, converts two-way time to depth for dips
ELSEWHERE = 10_000  # lines; offset between groups of neighbouring lines, too large for any join


def join_sticks(
    sticks: pd.DataFrame, volume: DataArray, *, picked: Mapping[str, npt.ArrayLike] | None = None
) -> pd.DataFrame:
    """Join fault sticks into fault surfaces, numbered from 0, the largest surface first.

    Sticks of lines that are not neighbours (see `neighbour_groups`) belong to different surfaces.

    Parameters
    ----------
    sticks : DataFrame
        Columns stick, inline, crossline, time (or depth), and optionally likelihood, along and accepted; each row is a
        point, and the points of a stick are in order.
    volume : DataArray
        The volume on which the sticks were picked; only its axes are used.
    picked : dict, optional
        ``inline`` or ``crossline`` -> positions of the lines on which sticks were picked. Where these are at least five
        neighbouring lines in a row, surfaces on fewer than three lines are left out unless one of their sticks is
        accepted.

    Returns
    -------
    DataFrame
        The sticks with a first column `surface`, sorted by surface and stick. The sticks are numbered again from 0 in
        this order.
    """
    kept_columns = (name for name in ("likelihood", "accepted", "along") if name in sticks)
    columns = ["surface", "stick", *volume.dims, *kept_columns]
    if not len(sticks):
        return sticks.assign(surface=pd.Series(dtype=int))[columns]
    lines = [_line_numbers(volume, name) for name in DIRECTIONS]
    courses = [_course(number, points, volume, lines) for number, points in sticks.groupby("stick", sort=True)]
    surfaces = _Surfaces(courses)
    for direction in (0, 1):
        chosen = [n for n, one in enumerate(courses) if one.direction == direction]
        _join_lines(surfaces, chosen)
        _join_coplanar(surfaces, chosen)
    _join_directions(surfaces)
    least = _least_lines(volume, picked or {})
    accepted = sticks.loc[sticks["accepted"].astype(bool), "stick"].unique() if "accepted" in sticks else []
    table = pd.DataFrame(
        {
            "stick": [one.number for one in courses],
            "root": [surfaces.sets[n] for n in range(len(courses))],
            "line": [(one.direction, one.line) for one in courses],
            "size": [len(one.samples) for one in courses],
            "least": [least.get((one.direction, one.line // ELSEWHERE), 1) for one in courses],
            "accepted": [one.number in accepted for one in courses],
        }
    )
    found = table.groupby("root").agg(
        lines=("line", "nunique"), least=("least", "min"), size=("size", "sum"), accepted=("accepted", "any")
    )
    found = found[found["accepted"] | (found["lines"] >= found["least"])]
    order = found.sort_values("size", ascending=False, kind="stable").index
    table = table[table["root"].isin(order)]
    surface_of = dict(zip(table["stick"], order.get_indexer(pd.Index(table["root"])), strict=True))
    joined = sticks[sticks["stick"].isin(surface_of)]
    joined = joined.assign(surface=joined["stick"].map(surface_of).astype(int))
    joined = joined.sort_values(["surface", "stick"], kind="stable", ignore_index=True)
    return joined.assign(stick=pd.factorize(joined["stick"])[0])[columns]


def _line_numbers(volume: DataArray, name: str) -> np.ndarray:
    """Return a number for every line: its distance from the first line of its group, in units of the smallest spacing.

    A group is a run of neighbouring lines. Each earlier group adds 10,000 to the numbers, so that sticks of different
    groups are never joined.
    """
    groups, distances = neighbour_groups(volume, name), line_distances(volume, name)
    steps = np.diff(distances)[np.diff(groups) == 0]
    spacing = steps.min() if len(steps) else 1.0
    starts = distances[np.searchsorted(groups, groups)]
    return np.rint((distances - starts) / spacing).astype(int) + ELSEWHERE * groups


def _least_lines(volume: DataArray, picked: Mapping[str, npt.ArrayLike]) -> dict[tuple[int, int], int]:
    """Return a dict: (direction, group of neighbouring lines) -> smallest number of lines of a fault surface.

    The number is 3 if sticks were picked on at least five lines of the group, all adjacent, else 1. For `picked`, see
    `join_sticks`.
    """
    least = {}
    for name, positions in picked.items():
        groups, positions = neighbour_groups(volume, name), np.sort(np.asarray(positions, int))
        for group in np.unique(groups[positions]):
            of_group = positions[groups[positions] == group]
            in_a_row = len(of_group) >= 5 and np.all(np.diff(of_group) == 1)
            least[DIRECTIONS.index(name), int(group)] = 3 if in_a_row else 1
    return least


def direction_of(points: pd.DataFrame) -> int:
    """Return 0 for a stick on an inline, 1 for a stick on a crossline."""
    if "along" in points:
        return DIRECTIONS.index(points["along"].iloc[0])
    return int(np.ptp(points["inline"]) > np.ptp(points["crossline"]))


class _Course(NamedTuple):
    """A fault stick in index positions of the volume, with one point for each sample from its top to its base."""

    number: int
    direction: int
    line: int  # as `_line_numbers` counts them
    samples: np.ndarray
    traces: np.ndarray
    places: np.ndarray  # inline, crossline and sample of every point

    def four_points(self) -> np.ndarray:
        """Return four points of the stick from top to base, each as (line, trace, sample)."""
        at = np.linspace(0, len(self.samples) - 1, 4).astype(int)
        return np.column_stack([np.full(len(at), self.line), self.traces[at], self.samples[at]])


def _course(number: int, points: pd.DataFrame, volume: DataArray, lines: list[np.ndarray]) -> _Course:
    direction = direction_of(points)
    inline, crossline, sample = (positions_on(volume[name].values, points[name]) for name in volume.dims)
    line, trace = (inline, crossline) if direction == 0 else (crossline, inline)
    order = np.argsort(sample, kind="stable")
    samples = np.arange(round(sample.min()), round(sample.max()) + 1)
    traces = np.interp(samples, sample[order], trace[order])
    position = round(float(line[0]))
    nearest = int(np.clip(position, 0, len(lines[direction]) - 1))
    across = np.full(len(samples), position)
    pair = (across, traces) if direction == 0 else (traces, across)
    counted = int(lines[direction][nearest]) + position - nearest
    return _Course(number, direction, counted, samples, traces, np.column_stack([*pair, samples]))


class _Surfaces:
    """Fault sticks grouped into sets: the sticks of one set form a fault surface.

    Two sticks of a set on one line overlap by at most six samples. To check this, ``held`` has a dict for each set:
    (direction, line) -> (first sample, last sample) of each stick of the set on this line.
    """

    def __init__(self, courses: list[_Course]):
        self.courses, self.sets = courses, DisjointSet(range(len(courses)))
        self.held = [{(one.direction, one.line): [(one.samples[0], one.samples[-1])]} for one in courses]

    def members(self, chosen: list[int]) -> dict[int, list[int]]:
        """Group the chosen sticks by the set (fault surface) to which they belong.

        Return a dict: index of the stick that represents a set -> indices of the chosen sticks of this set.
        """
        found = defaultdict(list)
        for n in chosen:
            found[self.sets[n]].append(n)
        return found

    def join(self, pairs: list[tuple[float, int, int]]) -> None:
        """Join the two sets of each pair of sticks, unless their sticks overlap by more than six samples on a line.

        Each entry of `pairs` is (cost, stick, stick); the pair with the lowest cost is joined first.
        """
        for _, a, b in sorted(pairs):
            one, other = self.held[self.sets[a]], self.held[self.sets[b]]
            if self.sets.connected(a, b) or any(
                min(base, base_2) - max(top, top_2) > SHARED
                for line in one.keys() & other.keys()
                for (top, base), (top_2, base_2) in product(one[line], other[line])
            ):
                continue
            self.sets.merge(a, b)
            self.held[self.sets[a]] = {k: one.get(k, []) + other.get(k, []) for k in one.keys() | other.keys()}


def _join_lines(surfaces: _Surfaces, chosen: list[int]) -> None:
    """Join similar sticks on nearby lines, the most similar first; `chosen` are the sticks of one direction."""
    by_line = defaultdict(list)
    for n in chosen:
        by_line[surfaces.courses[n].line].append(n)
    pairs = []
    for line, away in product(list(by_line), range(1, LINES + 1)):
        for a, b in product(by_line[line], by_line.get(line + away, [])):
            cost = _difference(surfaces.courses[a], surfaces.courses[b], away)
            if cost is not None:
                pairs.append((cost, a, b))
    surfaces.join(pairs)


def _difference(one: _Course, other: _Course, away: int) -> float | None:
    """Return the cost of joining two sticks that are `away` lines apart; None if they must not share a surface."""
    top, base = max(one.samples[0], other.samples[0]), min(one.samples[-1], other.samples[-1])
    if base - top + 1 < max(OVERLAP * min(len(one.samples), len(other.samples)), 6):
        return None
    traces = [part.traces[top - part.samples[0] : base + 1 - part.samples[0]] for part in (one, other)]
    shift = traces[1] - traces[0]
    strike, bend = abs(shift.mean()) / away, shift.std()
    return None if strike > STRIKE or bend > BEND else float(strike + bend + (away - 1))


def _join_coplanar(surfaces: _Surfaces, chosen: list[int]) -> None:
    """Join nearby fault surfaces that lie in a common plane, the best fit first.

    `chosen` are the sticks of one direction. Surfaces on fewer than three lines are not joined.
    """
    places = {}
    for root, members in surfaces.members(chosen).items():
        points = np.concatenate([surfaces.courses[n].four_points() for n in members])
        if len(np.unique(points[:, 0])) >= 3:
            places[root] = points
    boxes = {root: (points.min(axis=0), points.max(axis=0)) for root, points in places.items()}
    pairs = []
    for a, b in combinations(sorted(places), 2):
        apart = np.maximum(boxes[a][0] - boxes[b][1], boxes[b][0] - boxes[a][1])
        if apart[0] <= FAR[0] and apart[2] <= FAR[1] and apart[1] <= 4 * FAR[0]:
            off = _off_plane(places[a], places[b])
            if off < PLANE:
                pairs.append((off, a, b))
    surfaces.join(pairs)


def _off_plane(one: np.ndarray, other: np.ndarray) -> float:
    """Fit a plane to two sets of points, and return the larger of their two RMS distances from it, in traces.

    Each point is (line, trace, sample).
    """
    points = np.concatenate([one, other])
    design = np.column_stack([np.ones(len(points)), points[:, 0], points[:, 2]])
    weight = np.repeat([1 / np.sqrt(len(one)), 1 / np.sqrt(len(other))], [len(one), len(other)])  # equal for both sets
    plane = np.linalg.lstsq(design * weight[:, None], points[:, 1] * weight)[0]
    off = np.square(points[:, 1] - design @ plane)
    return float(np.sqrt(max(off[: len(one)].mean(), off[len(one) :].mean())))


def _join_directions(surfaces: _Surfaces) -> None:
    """Join each surface of crossline sticks with the surface of inline sticks that is nearest to most of its points.

    Surfaces with fewer than half of their points near an inline stick are not joined.
    """
    courses = surfaces.courses
    inline, crossline = ([n for n, one in enumerate(courses) if one.direction == side] for side in (0, 1))
    if not inline or not crossline:
        return
    scale = np.array([1, 1, 0.25])  # sticks are dense in depth, so depth has a smaller weight
    tree = cKDTree(np.concatenate([courses[n].places for n in inline]) * scale)
    owner = np.repeat(inline, [len(courses[n].samples) for n in inline])
    for members in surfaces.members(crossline).values():
        places = np.concatenate([courses[n].places for n in members]) * scale
        distance, nearest = tree.query(places, distance_upper_bound=NEAR)
        near = np.isfinite(distance)
        if near.mean() >= 0.5:
            roots, votes = np.unique([surfaces.sets[n] for n in owner[nearest[near]]], return_counts=True)
            surfaces.join([(0.0, int(roots[votes.argmax()]), members[0])])


def surface_table(sticks: pd.DataFrame, volume: DataArray, *, velocity: float = VELOCITY) -> pd.DataFrame:
    """Return strike, dip and area of fault surfaces.

    Parameters
    ----------
    sticks : DataFrame
        As `fault_sticks` returns them.
    volume : DataArray
        The volume of the sticks; only its axes and its coordinates or bin size are used.
    velocity : float
        Velocity in m/s that converts two-way time to depth; not used for volumes in depth.

    Returns
    -------
    DataFrame
        Columns surface (its number), sticks and lines (how many the surface has), strike (degrees clockwise from north,
        0 to 180; without coordinates, clockwise from the direction of rising inline numbers), dip (degrees from the
        horizontal), area (m2), first and last inline, crossline and time (or depth), mean likelihood. For a surface on
        fewer than three lines, strike and area are NaN, and the dip is the apparent dip on the section. Strike, dip and
        area are NaN if the spacing of lines is unknown.
    """
    if not velocity > 0:
        raise ValueError(f"velocity is {velocity}; give a positive number of m/s.")
    grid = map_grid(volume)
    vertical = volume.dims[2]
    to_depth = velocity / 2000 if vertical == "time" else 1.0
    rows = []
    for surface, points in sticks.groupby("surface"):
        x, y = (grid.metres * part for part in grid.to_map(points["inline"], points["crossline"]))
        places = np.column_stack([x, y, points[vertical].to_numpy(float) * to_depth])
        row = {"surface": surface, "sticks": points["stick"].nunique()}
        row |= _orientation(points, places, grid)
        if not grid.in_metres:
            row |= dict.fromkeys(("strike", "dip", "area"), np.nan)
        for name in volume.dims:
            row |= {f"first_{name}": points[name].min(), f"last_{name}": points[name].max()}
        if "likelihood" in points:
            row["likelihood"] = points["likelihood"].mean()
        rows.append(row)
    table = pd.DataFrame(rows)
    table.attrs = {"velocity": velocity if vertical == "time" else None, "coordinates": grid.source}
    return table


def _orientation(points: pd.DataFrame, places: np.ndarray, grid: MapGrid | MapLine) -> dict[str, Any]:
    """Return a dict for one fault surface: ``lines`` (their number), ``strike`` and ``dip`` (degrees), ``area`` (m2).

    `places` holds X, Y and depth of its points, shape (n_points, 3).
    """
    sides = pd.Series({stick: direction_of(part) for stick, part in points.groupby("stick")})
    direction = int(sides.mean() > 0.5)
    of_direction = points["stick"].map(sides).to_numpy() == direction
    name = DIRECTIONS[direction]
    lines = np.unique(points.loc[of_direction, name])
    if len(lines) < 3 or isinstance(grid, MapLine):
        run = np.ptp(places[of_direction][:, :2], axis=0)
        dip = np.degrees(np.arctan2(np.ptp(places[of_direction][:, 2]), np.hypot(*run)))
        return {"lines": len(lines), "strike": np.nan, "dip": dip, "area": np.nan}
    normal = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)[2][2]
    strike = np.degrees(np.arctan2(-normal[1], normal[0])) % 180
    dip = np.degrees(np.arccos(min(abs(normal[2]), 1)))
    steps = grid.inline_step, grid.crossline_step
    step, across = steps[direction], steps[1 - direction]
    spacing = np.median(np.diff(lines)) * np.linalg.norm(step) * grid.metres
    heights = (
        pd.Series(places[of_direction][:, 2]).groupby(points.loc[of_direction, "stick"].to_numpy()).agg(np.ptp).sum()
    )
    facing = abs(normal[:2] @ across) / np.linalg.norm(across)
    return {"lines": len(lines), "strike": strike, "dip": dip, "area": heights * spacing / max(facing, 1e-3)}
