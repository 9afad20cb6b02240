"""Horizons out and in: IRAP classic points and csv, with X and Y from the trace headers.

IRAP classic points are lines of X, Y and Z, Z downwards; in files of several lines ``999 999 999`` ends each. A csv has
a line of names: inline, crossline, x, y, and time or depth.
"""

import functools
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.geometry.coordinates import map_grid
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file
from outcrop.volumes import segy, segy_headers, segy_layout

END = 999.0  # three of them end a line in IRAP classic files
MOST_BYTES = 1 << 31  # of a horizon file; one of 20 million points is smaller
NEAR = 64  # traces; reading over such a gap costs no more than asking twice


def trace_coordinates(volume, inlines, crosslines):
    """X and Y of traces as the headers of the volume's SEG-Y file have them, scalars applied.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it for a SEG-Y or ZGY file; or any with coordinates ``cdp_x`` and ``cdp_y`` on inline and
        crossline.
    inlines, crosslines : array of int, shape (n,)
        Survey labels of the traces.

    Returns
    -------
    x, y : array, shape (n,)
        In the units of the headers; NaN where there is no trace.

    Raises
    ------
    ValueError
        The volume has no coordinates, or angles instead of lengths.
    """
    rows, columns = (
        _positions(volume, name, labels) for name, labels in zip(DIRECTIONS, (inlines, crosslines), strict=True)
    )
    if {"cdp_x", "cdp_y"} <= set(volume.coords):
        return tuple(
            np.asarray(volume[name].transpose(*DIRECTIONS).values)[rows, columns] for name in ("cdp_x", "cdp_y")
        )
    if "map" in volume.attrs:
        return map_grid(volume).to_map(inlines, crosslines)
    geometry = _geometry(volume)
    numbers, order = np.full(len(rows), -1, np.int64), np.argsort(rows, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(rows[order])) + 1):
        if len(here):
            numbers[here] = geometry.traces[rows[here[:1]], columns[here]][0]
    points = np.full(len(rows), np.nan + 0j)
    points[numbers >= 0] = _points(_headers(geometry, numbers[numbers >= 0]), geometry.layout.path)
    return points.real, np.where(np.isnan(points.real), np.nan, points.imag)


def _positions(volume, name, labels):
    """Positions on an axis of labels that it must have."""
    axis, labels = volume[name].values, np.asarray(labels)
    order = np.argsort(axis, kind="stable")
    found = order[np.minimum(np.searchsorted(axis[order], labels), len(axis) - 1)]
    if (axis[found] != labels).any():
        missing = labels[axis[found] != labels][0]
        raise ValueError(f"The volume has no {name} {missing:g}; it has {axis.min():g} to {axis.max():g}.")
    return found


def _geometry(volume):
    """Geometry of the SEG-Y file behind a volume."""
    source = str(volume.attrs.get("source", ""))
    if not str(volume.attrs.get("format", "")).startswith("SEG-Y"):
        raise ValueError(f"{source or 'This volume'} is not SEG-Y, so X and Y of its traces are not known; write csv.")
    options = volume.attrs.get("options", {})
    chosen = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in options.items())
    return _scanned(source, Path(source).stat().st_mtime_ns, chosen)


@functools.lru_cache(maxsize=2)
def _scanned(source, stamp, options):
    """Geometry of a SEG-Y file as it was at the time `stamp`: several horizons of a survey need it."""
    return segy.scan(source, **dict(options))


def _headers(geometry, numbers):
    """Trace headers by number of the trace in the file."""
    layout = geometry.layout
    order = np.argsort(numbers, kind="stable")
    out = np.empty(len(numbers), segy_headers.trace_dtype(layout.order))
    cuts = np.flatnonzero(np.diff(numbers[order]) > NEAR) + 1
    with open(layout.path, "rb") as file:
        for run in np.split(order, cuts):
            if len(run):
                first, last = int(numbers[run[0]]), int(numbers[run[-1]])
                raw = segy_layout.trace_records(file, layout, first, last + 1)["header"][numbers[run] - first]
                out[run] = np.ascontiguousarray(raw).view(out.dtype)
    return out


def _points(headers, path):
    """X + iY of trace headers, of the midpoints where they have any, else of the sources."""
    if (headers["coordinate_units"] > 1).any():
        raise ValueError(f"The coordinates of {path} are angles, not X and Y; write csv.")
    scalar = segy_headers.coordinate_scalars(headers)
    for name in ("cdp", "source"):
        points = (headers[f"{name}_x"] + 1j * headers[f"{name}_y"]) * scalar
        if points.any() or not len(points):
            return points
    raise ValueError(f"The trace headers of {path} hold no coordinates; write csv.")


def horizon_table(surface, volume=None):
    """Points of a surface: inline, crossline, x, y, and time or depth.

    Parameters
    ----------
    surface : DataArray
        On inline and crossline, NaN where there is none, as `outcrop.surface` gives it.
    volume : DataArray, optional
        Gives x and y, see `trace_coordinates`; without it the table has none.
    """
    surface = surface.transpose(*DIRECTIONS)
    rows, columns = np.nonzero(np.isfinite(surface.values))
    table = {"inline": surface["inline"].values[rows], "crossline": surface["crossline"].values[columns]}
    if volume is not None:
        table["x"], table["y"] = trace_coordinates(volume, table["inline"], table["crossline"])
    return pd.DataFrame(table | {surface.name or "time": surface.values[rows, columns]})


def write_horizon(path, table):
    """Write points of `horizon_table`: as csv where the name ends in .csv, else as IRAP classic points.

    Points without X and Y are left out of IRAP files.
    """
    with whole_file(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            table.to_csv(aside, index=False, float_format="%.10g")
            return
        if not {"x", "y"} <= set(table.columns):
            raise ValueError(f"{path} needs X and Y, which these points do not have; write csv.")
        points = table[["x", "y", table.columns[-1]]].to_numpy(np.float64)
        np.savetxt(aside, points[np.isfinite(points).all(axis=1)], fmt=("%.2f", "%.2f", "%.4f"))


def read_horizon(path, volume):
    """Points of a horizon file on the traces of a survey.

    Parameters
    ----------
    path : path
        A csv with inline and crossline, or x and y, and time or depth; or IRAP classic points, X, Y and Z.
    volume : DataArray
        The survey. X and Y are placed on its nearest traces, by its trace headers.

    Returns
    -------
    DataFrame
        ``inline``, ``crossline`` and ``time`` or ``depth``, one row a trace: the shallowest point where several lie on
        it. Points outside the survey are left out; ``attrs["outside"]`` says how many. Where all Z are negative, as
        programs write them that count upwards, the sign is turned.

    Raises
    ------
    ValueError
        The file is not such a file, or none of its points lies in the survey.
    """
    if Path(path).stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 30} GB, too large for a horizon; give one horizon.")
    domain = volume.dims[2]
    table = _read_csv(path, domain) if Path(path).suffix.lower() == ".csv" else _read_irap(path, domain)
    if not set(DIRECTIONS) <= set(table.columns):
        table = table.assign(**_places(volume, table["x"].to_numpy(), table["y"].to_numpy(), path))
    depth, samples = table[domain].to_numpy(), volume[domain].values
    if (depth <= 0).all() and samples.min() >= 0:
        depth = -depth
    inside = np.isfinite(depth) & (depth >= samples.min()) & (depth <= samples.max())
    for name in DIRECTIONS:
        inside &= np.isin(table[name].to_numpy(), volume[name].values)
    if not inside.any():
        spans = ", ".join(
            f"{name} {volume[name].values.min():g} to {volume[name].values.max():g}" for name in volume.dims
        )
        raise ValueError(
            f"None of the {len(table)} points of {path} lies in the survey ({spans}); is it of another one?"
        )
    found = pd.DataFrame({name: table[name][inside].astype(volume[name].dtype) for name in DIRECTIONS})
    found = found.assign(**{domain: depth[inside]}).groupby(list(DIRECTIONS), as_index=False).min()
    found.attrs = {"outside": int((~inside).sum()), "source": str(path)}
    return found


def _read_csv(path, domain):
    try:
        table = pd.read_csv(path, skipinitialspace=True)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a csv ({_one_line(error)}); give inline, crossline and {domain}.") from None
    table.columns = [str(name).strip().lower() for name in table.columns]
    places = next((pair for pair in (DIRECTIONS, ("x", "y")) if set(pair) <= set(table.columns)), None)
    if places is None or domain not in table.columns:
        have = ", ".join(map(str, table.columns))[:100]
        raise ValueError(f"{path} has columns {have}; give inline, crossline (or x, y) and {domain}.")
    table = table[[*places, domain]].apply(pd.to_numeric, errors="coerce").dropna()
    if not len(table):
        raise ValueError(f"{path} holds no points; give rows of {', '.join([*places, domain])}.")
    return table.astype(np.float64)


def _read_irap(path, domain):
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that the file is empty
            points = np.loadtxt(path, ndmin=2, comments=("#", "!"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not IRAP classic points ({_one_line(error)}); give lines of X, Y and Z.") from None
    if points.size and points.shape[1] != 3:
        raise ValueError(f"{path} has {points.shape[1]} columns; IRAP classic points have three: X, Y and Z.")
    points = points.reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=1) & ~(points == END).all(axis=1)]
    if not len(points):
        raise ValueError(f"{path} holds no points; give lines of X, Y and Z.")
    return pd.DataFrame(points, columns=["x", "y", domain])


def _one_line(error):
    return " ".join(str(error).split())[:120]


def _places(volume, x, y, path):
    """Inline and crossline of the trace nearest to each point, NaN outside the survey."""
    origin, steps = _frame(volume, path)
    apart = np.stack([x, y]) - origin[:, None]
    found = {}
    for name, position in zip(DIRECTIONS, np.linalg.solve(steps, apart), strict=True):
        axis, nearest = volume[name].values, np.rint(position)
        inside = (nearest >= 0) & (nearest < len(axis))
        found[name] = np.where(inside, axis[np.where(inside, nearest, 0).astype(int)], np.nan)
    return found


def _frame(volume, path):
    """X and Y of the first inline and crossline, and the steps from line to line (columns), by a fit to some traces."""
    some = [np.unique(np.linspace(0, n - 1, min(n, 24)).astype(int)) for n in volume.shape[:2]]
    rows, columns = (positions.ravel() for positions in np.meshgrid(*some, indexing="ij"))
    x, y = trace_coordinates(volume, volume["inline"].values[rows], volume["crossline"].values[columns])
    known = np.isfinite(x)
    design = np.column_stack([np.ones(len(rows)), rows, columns])
    for _ in range(3):  # a few wild coordinates must not tilt the fit
        fit, _, rank, _ = np.linalg.lstsq(design[known], np.column_stack([x, y])[known])
        off = np.hypot(*(design @ fit - np.column_stack([x, y])).T)
        known = off <= 3 * np.nanmedian(off) + 1e-6
    if rank < 3 or np.median(off[known]) > 0.5 * min(np.hypot(*fit[1]), np.hypot(*fit[2])):
        raise ValueError(
            f"{path} has X and Y, but those of the survey make no grid; give a csv with inline and crossline."
        )
    return fit[0], fit[1:].T


def horizon_misfit(surface, horizon):
    """How far a surface lies from a horizon, over the traces that both have.

    Parameters
    ----------
    surface : DataArray
        As `outcrop.surface` gives it.
    horizon : DataFrame
        As `read_horizon` gives it: the truth.

    Returns
    -------
    dict
        ``traces`` that both have, ``found``, their share of the horizon's, and of the differences, in ms or m and
        positive where the surface lies deeper: ``mean``, ``median_absolute``, ``rms`` and ``p95``.
    """
    name = surface.name
    both = horizon_table(surface).merge(horizon, on=list(DIRECTIONS), suffixes=("", "_true"))
    off = (both[name] - both[f"{name}_true"]).to_numpy()
    size = {"traces": len(both), "found": len(both) / len(horizon)}
    if not len(both):
        return size | dict.fromkeys(("mean", "median_absolute", "rms", "p95"), float("nan"))
    far = np.abs(off)
    numbers = (off.mean(), np.median(far), np.sqrt(np.mean(off**2)), np.quantile(far, 0.95))
    return size | dict(zip(("mean", "median_absolute", "rms", "p95"), map(float, numbers), strict=True))


def polylines(horizon, along="inline", *, lines=None, gap=5):
    """A horizon as lines of points, section by section, as `Job.paint` takes them.

    Parameters
    ----------
    horizon : DataFrame
        As `read_horizon` gives it.
    along : {"inline", "crossline"}
    lines : sequence of int, optional
        Survey labels of the sections; all of them by default.
    gap : float
        Traces; a longer gap ends a line.

    Returns
    -------
    list of list of (inline, crossline, time)

    Examples
    --------
    >>> horizon = pd.DataFrame({"inline": 7, "crossline": [1, 2, 40, 41], "time": [8.0, 9.0, 5.0, 4.0]})
    >>> [len(points) for points in polylines(horizon)]
    [2, 2]
    """
    across = DIRECTIONS[1 - DIRECTIONS.index(along)]
    step = np.diff(np.unique(horizon[across]))
    longest = gap * (step.min() if len(step) else 1)
    found = []
    for line, points in horizon.sort_values([along, across]).groupby(along):
        if lines is None or line in lines:
            cuts = np.flatnonzero(np.diff(points[across]) > longest) + 1
            values = points[[*DIRECTIONS, points.columns[-1]]].to_numpy(np.float64)
            found += [[tuple(point) for point in part.tolist()] for part in np.split(values, cuts)]
    return found


def horizon_grid(horizon):
    """A horizon as a DataArray on inline and crossline, NaN where it has no point."""
    name = horizon.columns[-1]
    grid = horizon.pivot(index="inline", columns="crossline", values=name)
    coords = {"inline": grid.index.to_numpy(), "crossline": grid.columns.to_numpy()}
    return xr.DataArray(grid.to_numpy(np.float64), coords, list(DIRECTIONS), name)
