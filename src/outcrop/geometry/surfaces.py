"""Fault surfaces: sticks of neighbouring lines and of both directions that belong to one fault."""

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from outcrop.geometry.coordinates import map_grid
from outcrop.patches.grid import DIRECTIONS

LINES = 3  # lines from a stick to the next one of the same surface, at most
STRIKE = 2.0  # traces a line by which a surface may run across the lines; beyond, the other direction sees it better
BEND = 1.5  # traces, standard deviation, by which two sticks of a surface may differ in shape
OVERLAP = 0.4  # share of the shorter stick that lies at the depth of the other one
SHARED = 6  # samples that two sticks of a surface on one line may overlap by
PLANE = 2.0  # traces, root mean square, that two pieces of a surface may lie off their common plane
FAR = 10, 20  # lines and samples between two pieces of a surface
NEAR = 2.5  # traces between a crossline stick and the surface of inline sticks that it belongs to
VELOCITY = 2500.0  # m/s, by which times become depths where a dip is stated


def join_sticks(sticks, volume, *, least=1):
    """Give every stick the number of its surface, the largest surface first.

    Parameters
    ----------
    sticks : DataFrame
        stick, inline, crossline, time (or depth), and optionally likelihood, along and accepted; points in order.
    volume : DataArray
        Gives the axes.
    least : int
        Lines that a surface must be seen on; sticks of others are left out, unless one of them is accepted.

    Returns
    -------
    DataFrame
        With a column `surface` in front; sorted by surface and stick, sticks counted anew.
    """
    columns = ["surface", "stick", *volume.dims, *(name for name in ("likelihood", "accepted") if name in sticks)]
    if not len(sticks):
        return sticks.assign(surface=pd.Series(dtype=int))[columns]
    courses = [_Course(number, points, volume) for number, points in sticks.groupby("stick", sort=True)]
    surfaces = _Union(len(courses))
    for direction in (0, 1):
        _join_lines(courses, [n for n, one in enumerate(courses) if one.direction == direction], surfaces)
        _join_coplanar(courses, [n for n, one in enumerate(courses) if one.direction == direction], surfaces)
    _join_directions(courses, surfaces)
    roots = np.array([surfaces.root(n) for n in range(len(courses))])
    seen = pd.Series([(one.direction, one.line) for one in courses]).groupby(roots).nunique()
    accepted = sticks.loc[sticks["accepted"].astype(bool), "stick"].unique() if "accepted" in sticks else []
    kept = pd.Series([one.number in accepted for one in courses]).groupby(roots).any() | (seen >= least)
    sizes = pd.Series([len(one.samples) for one in courses]).groupby(roots).sum()[kept]
    order = {root: rank for rank, root in enumerate(sizes.sort_values(ascending=False, kind="stable").index)}
    surface_of = {one.number: order[root] for one, root in zip(courses, roots, strict=True) if root in order}
    sticks = sticks[sticks["stick"].isin(surface_of)]
    joined = sticks.assign(surface=sticks["stick"].map(surface_of).astype(int))
    joined = joined.sort_values(["surface", "stick"], kind="stable", ignore_index=True)
    numbers = {stick: number for number, stick in enumerate(joined["stick"].drop_duplicates())}
    return joined.assign(stick=joined["stick"].map(numbers))[columns]


def least_lines(positions):
    """Lines that a surface must be seen on: 3 where at least 5 lines were picked and all follow each other, else 1.

    Examples
    --------
    >>> least_lines([3, 4, 5, 6, 7]), least_lines([10, 20, 30, 40, 50]), least_lines([3])
    (3, 1, 1)
    """
    return 3 if len(positions) >= 5 and np.all(np.diff(positions) == 1) else 1


def direction_of(points):
    """0 for a stick on an inline, 1 for one on a crossline."""
    if "along" in points:
        return DIRECTIONS.index(points["along"].iloc[0])
    return int(np.ptp(points["inline"]) > np.ptp(points["crossline"]))


class _Course:
    """A stick as positions in the volume: a trace for every sample from its top to its base."""

    def __init__(self, number, points, volume):
        self.number, self.direction = number, direction_of(points)
        inline, crossline, sample = (
            _position(points[name].to_numpy(float), volume[name].values) for name in volume.dims
        )
        line, trace = (inline, crossline) if self.direction == 0 else (crossline, inline)
        order = np.argsort(sample, kind="stable")
        self.line = round(float(line[0]))
        self.samples = np.arange(round(sample.min()), round(sample.max()) + 1)
        self.traces = np.interp(self.samples, sample[order], trace[order])

    def ends(self):
        """Traces and samples of a few points from top to base."""
        few = np.linspace(0, len(self.samples) - 1, 4).astype(int)
        return self.traces[few], self.samples[few]

    def places(self):
        """Inline, crossline and sample of every point, as positions."""
        line = np.full(len(self.samples), self.line)
        pair = (line, self.traces) if self.direction == 0 else (self.traces, line)
        return np.column_stack([*pair, self.samples])


def _position(labels, axis):
    """Positions of labels on an axis, beyond its ends too."""
    if len(axis) == 1:
        return labels - axis[0]
    first, step = float(axis[0]), float(axis[-1] - axis[0]) / (len(axis) - 1)
    inside = np.interp(labels, axis, np.arange(len(axis)))
    outside = (labels < axis[0]) | (labels > axis[-1])
    return np.where(outside, (labels - first) / step, inside)


class _Union:
    """Sets of sticks, each with the samples that it holds on every line: of a set, no two may lie at one depth."""

    def __init__(self, n):
        self.parent = list(range(n))
        self.held: dict = {}

    def root(self, n):
        while self.parent[n] != n:
            self.parent[n] = self.parent[self.parent[n]]
            n = self.parent[n]
        return n

    def spans(self, n, courses):
        """(direction, line) -> spans of samples of the set of a stick."""
        if n not in self.held:
            one = courses[n]
            self.held[n] = {(one.direction, one.line): [(one.samples[0], one.samples[-1])]}
        return self.held[n]

    def join(self, a, b, courses):
        """Join two sets unless they hold overlapping sticks on one line."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return
        first, second = self.spans(a, courses), self.spans(b, courses)
        for line in first.keys() & second.keys():
            if any(
                min(base, base_2) - max(top, top_2) > SHARED
                for top, base in first[line]
                for top_2, base_2 in second[line]
            ):
                return
        for line, spans in second.items():
            first.setdefault(line, []).extend(spans)
        self.parent[b] = a


def _join_lines(courses, chosen, surfaces):
    """Join sticks of one direction that go on from line to line, the most alike first."""
    by_line: dict = {}
    for n in chosen:
        by_line.setdefault(courses[n].line, []).append(n)
    pairs = []
    for line, sticks in by_line.items():
        for away in range(1, LINES + 1):
            for a in sticks:
                for b in by_line.get(line + away, []):
                    cost = _difference(courses[a], courses[b], away)
                    if cost is not None:
                        pairs.append((cost, a, b))
    for _, a, b in sorted(pairs):
        surfaces.join(a, b, courses)


def _difference(one, other, away):
    """How much two sticks differ, `away` lines from each other; None where they are no neighbours on one surface."""
    top, base = max(one.samples[0], other.samples[0]), min(one.samples[-1], other.samples[-1])
    if base - top + 1 < max(OVERLAP * min(len(one.samples), len(other.samples)), 6):
        return None
    apart = (
        other.traces[top - other.samples[0] : base + 1 - other.samples[0]]
        - one.traces[top - one.samples[0] : base + 1 - one.samples[0]]
    )
    strike, bend = abs(apart.mean()) / away, apart.std()
    if strike > STRIKE or bend > BEND:
        return None
    return strike + bend + (away - 1)


def _join_coplanar(courses, chosen, surfaces):
    """Join pieces of one direction that lie near each other on one plane, those that fit it best first."""
    pieces: dict = {}
    for n in chosen:
        pieces.setdefault(surfaces.root(n), []).append(n)
    places = {}
    for root, members in pieces.items():
        points = np.concatenate(
            [[(courses[n].line, t, s) for t, s in zip(*courses[n].ends(), strict=True)] for n in members]
        )
        if len(np.unique(points[:, 0])) >= 3:
            places[root] = points
    boxes = {root: (points.min(axis=0), points.max(axis=0)) for root, points in places.items()}
    pairs = []
    roots = sorted(places)
    for k, a in enumerate(roots):
        for b in roots[k + 1 :]:
            apart = np.maximum(boxes[a][0] - boxes[b][1], boxes[b][0] - boxes[a][1])
            if apart[0] <= FAR[0] and apart[2] <= FAR[1] and apart[1] <= 4 * FAR[0]:
                off = _off_plane(places[a], places[b])
                if off < PLANE:
                    pairs.append((off, a, b))
    for _, a, b in sorted(pairs):
        surfaces.join(a, b, courses)


def _off_plane(one, other):
    """Distance in traces of two sets of points from their common plane, of the one that fits it worse."""
    points = np.concatenate([one, other])
    design = np.column_stack([np.ones(len(points)), points[:, 0], points[:, 2]])
    share = np.repeat([1 / np.sqrt(len(one)), 1 / np.sqrt(len(other))], [len(one), len(other)])  # equal say
    plane = np.linalg.lstsq(design * share[:, None], points[:, 1] * share)[0]
    off = np.square(points[:, 1] - design @ plane)
    return float(np.sqrt(max(off[: len(one)].mean(), off[len(one) :].mean())))


def _join_directions(courses, surfaces):
    """Join every surface of crossline sticks with the surface of inline sticks that most of it lies on."""
    inline = [n for n, one in enumerate(courses) if one.direction == 0]
    crossline = [n for n, one in enumerate(courses) if one.direction == 1]
    if not inline or not crossline:
        return
    depth = np.array([1, 1, 0.25])  # a stick is dense in samples, so they count less
    tree = cKDTree(np.concatenate([courses[n].places() for n in inline]) * depth)
    owner = np.repeat(inline, [len(courses[n].samples) for n in inline])
    sets: dict = {}
    for n in crossline:
        sets.setdefault(surfaces.root(n), []).append(n)
    for members in sets.values():
        places = np.concatenate([courses[n].places() for n in members]) * depth
        distance, nearest = tree.query(places, distance_upper_bound=NEAR)
        near = np.isfinite(distance)
        if near.mean() < 0.5:
            continue
        roots, votes = np.unique([surfaces.root(n) for n in owner[nearest[near]]], return_counts=True)
        surfaces.join(int(roots[votes.argmax()]), members[0], courses)


def surface_table(sticks, volume, *, velocity=VELOCITY):
    """Strike, dip and area of fault surfaces.

    Parameters
    ----------
    sticks : DataFrame
        As `fault_sticks` gives them.
    volume : DataArray
        Gives axes and, through its headers or bin size, metres.
    velocity : float
        Metres a second by which two-way times become depths; not used for volumes in depth.

    Returns
    -------
    DataFrame
        surface, sticks, lines, strike (degrees clockwise from north, 0 to 180; from the direction of rising inlines
        where no coordinates are known), dip (degrees from the horizontal), area (m2), the first and last inline,
        crossline and time (or depth), likelihood. Strike and area are NaN below three lines, where the dip is the
        apparent one of the section. All three are NaN where the volume does not say how far its lines lie apart.
    """
    if not velocity > 0:
        raise ValueError(f"velocity is {velocity}; give a positive number of m/s.")
    grid = map_grid(volume)
    vertical = volume.dims[2]
    to_depth = velocity / 2000 if vertical == "time" else 1.0
    rows = []
    for surface, points in sticks.groupby("surface"):
        x, y = grid.to_map(points["inline"], points["crossline"])
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


def _orientation(points, places, grid):
    """Lines, strike, dip and area of one surface."""
    sides = pd.Series({stick: direction_of(part) for stick, part in points.groupby("stick")})
    direction = int(sides.mean() > 0.5)
    mine = points["stick"].map(sides).to_numpy() == direction
    name = DIRECTIONS[direction]
    lines = np.unique(points.loc[mine, name])
    if len(lines) < 3:
        run = np.ptp(places[mine][:, :2], axis=0)
        dip = np.degrees(np.arctan2(np.ptp(places[mine][:, 2]), np.hypot(*run)))
        return {"lines": len(lines), "strike": np.nan, "dip": dip, "area": np.nan}
    normal = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)[2][2]
    strike = np.degrees(np.arctan2(-normal[1], normal[0])) % 180
    dip = np.degrees(np.arccos(min(abs(normal[2]), 1)))
    step, across = grid.inline_step, grid.crossline_step
    if direction == 1:
        step, across = across, step
    spacing = np.median(np.diff(lines)) * np.linalg.norm(step)
    heights = pd.Series(places[mine][:, 2]).groupby(points.loc[mine, "stick"].to_numpy()).agg(np.ptp).sum()
    facing = abs(normal[:2] @ across) / np.linalg.norm(across)
    return {"lines": len(lines), "strike": strike, "dip": dip, "area": heights * spacing / max(facing, 1e-3)}
