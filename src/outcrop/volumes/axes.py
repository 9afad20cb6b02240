"""Recognise the axes of an array by their names and units, convert them to ms or m, and find positions on them.

An array whose axes are not recognised is refused.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.words import counted

Array = npt.NDArray[Any]
Data = TypeVar("Data", xr.DataArray, xr.Dataset)
Places = tuple[int | None, int | None, int | None]  # array axis of inline, crossline and vertical; None if absent
SAME = 1e-6  # values on an axis that differ by less are equal

# Names of axes in other programs, in lower case and without punctuation.
NAMES = {
    "inline": {"inline", "inlines", "iline", "ilines", "il", "inlineno", "inlinenumber"},
    "crossline": {"crossline", "crosslines", "xline", "xlines", "xl", "crosslineno", "crosslinenumber", "cdp", "trace"},
    "time": {"time", "twt", "twtt", "t", "twowaytime", "twowaytraveltime"},
    "depth": {"depth", "tvd", "tvdss"},
    "vertical": {"sample", "samples", "z", "vertical"},  # time or depth, by the unit
    "y": {"y", "northing", "cdpy"},
    "x": {"x", "easting", "cdpx"},
}
VERTICAL = ("time", "depth", "vertical")

# Quantity that a unit measures, and the factor to ms or m.
UNITS = {
    "ms": ("time", 1.0), "msec": ("time", 1.0), "msecs": ("time", 1.0),
    "millisecond": ("time", 1.0), "milliseconds": ("time", 1.0),
    "s": ("time", 1000.0), "sec": ("time", 1000.0), "secs": ("time", 1000.0),
    "second": ("time", 1000.0), "seconds": ("time", 1000.0),
    "us": ("time", 0.001), "microsecond": ("time", 0.001), "microseconds": ("time", 0.001),
    "m": ("depth", 1.0), "meter": ("depth", 1.0), "meters": ("depth", 1.0),
    "metre": ("depth", 1.0), "metres": ("depth", 1.0),
    "km": ("depth", 1000.0), "kilometer": ("depth", 1000.0), "kilometers": ("depth", 1000.0),
    "kilometre": ("depth", 1000.0), "kilometres": ("depth", 1000.0),
    "ft": ("depth", 0.3048), "foot": ("depth", 0.3048), "feet": ("depth", 0.3048),
}  # fmt: skip
# Units of axes that only count samples.
COUNTS = {"", "1", "-", "none", "unitless", "dimensionless", "sample", "samples", "index", "count", "counts"}


def read_name(dim: object) -> tuple[str | None, str]:
    """Return (role, unit) of an axis, read from its name.

    The role is a key of `NAMES`, or None if the name is unknown. The unit is an empty text if the name has none.

    Examples
    --------
    >>> read_name("Two-way time [s]"), read_name("depth_ft"), read_name("iline"), read_name("band")
    (('time', 's'), ('depth', 'ft'), ('inline', ''), (None, ''))
    """
    text = str(dim).strip().lower()
    parts = re.fullmatch(r"(.*?)[\W_]+([a-z]+)[\W_]*", text)
    name, unit = (parts[1], parts[2]) if parts and parts[2] in UNITS else (text, "")
    word = re.sub(r"[\W_]+", "", name)
    role = next((role for role, names in NAMES.items() if word in names), None)
    return (role, unit) if role in VERTICAL or not unit else (None, "")


def is_unnamed(dim: object) -> bool:
    """Return whether an axis has no name or an automatic name such as ``dim_0``."""
    return dim is None or re.fullmatch(r"(phony_)?dim_\d+", str(dim)) is not None


def name_axes(
    dims: Sequence[Any], *, domain: str | None = None, units: Mapping[Any, str] | None = None
) -> tuple[tuple[str, str, str], Places, float | None, list[str]]:
    """Find the role of each axis of an array from the names and units of the axes.

    Parameters
    ----------
    dims : sequence of str or None
        Names of two or three axes; None for an axis without a name.
    domain : {"time", "depth"}, optional
        What the vertical axis measures, if neither its name nor its unit states it.
    units : dict, optional
        Name of an axis -> unit in the attributes of its coordinate.

    Returns
    -------
    names : (str, str, str)
        ``inline``, ``crossline``, and ``time`` or ``depth``.
    axes : tuple of int or None
        For each of these three names, the number of the array axis; None if the array does not have it.
    factor : float or None
        Factor that converts the values on the vertical axis to ms or m; None if no unit is stated.
    notes : list of str
        One text for each role that was inferred, not stated by a name.

    Examples
    --------
    >>> name_axes(["depth", "iline", "xline"])
    (('inline', 'crossline', 'depth'), (1, 2, 0), None, [])
    >>> name_axes([None, None])
    (('inline', 'crossline', 'time'), (None, 1, 0), None, [])
    >>> name_axes(["twt", "y", "x"], units={"twt": "s"})
    (('inline', 'crossline', 'time'), (1, 2, 0), 1000.0, ['axes y and x are taken as inline and crossline'])
    """
    if len(dims) not in (2, 3):
        raise ValueError(
            f"An array of {counted(len(dims), 'dimensions')} is not a volume; give three, or two for a section."
        )
    if all(map(is_unnamed, dims)):
        roles = ["inline", "crossline", "vertical"] if len(dims) == 3 else ["vertical", "crossline"]
        return ("inline", "crossline", domain or "time"), _places(roles), None, []
    found = [read_name(dim) for dim in dims]
    roles, notes = _infer_roles([role for role, _ in found], dims)
    vertical = next((axis for axis, role in enumerate(roles) if role in VERTICAL), None)
    if vertical is None:
        return ("inline", "crossline", domain or "time"), _places(roles), None, notes
    stated = str((units or {}).get(dims[vertical]) or found[vertical][1]).strip()
    domain, factor = _read_unit(roles[vertical], stated, domain, dims[vertical])
    return ("inline", "crossline", domain), _places(roles), factor, notes


def _places(roles: list[Any]) -> Places:
    """Return the numbers of the inline, crossline and vertical axis of an array; None for an axis that it lacks.

    `roles` has the role of each axis of the array.
    """
    axes = {"vertical" if role in VERTICAL else role: axis for axis, role in enumerate(roles)}
    return axes.get("inline"), axes.get("crossline"), axes.get("vertical")


def _infer_roles(roles: list[Any], dims: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Infer unknown roles of axes; return the roles of all axes, and a list with a note for each inferred role.

    Roles are inferred only if one axis is time, depth or samples. Axes y and x are then taken as inline and crossline.
    A single unknown axis is taken as inline if another axis is crossline, and as crossline otherwise. `ValueError` is
    raised if a role is still unknown.
    """
    notes = []
    has_vertical = any(role in VERTICAL for role in roles)
    if "y" in roles and "x" in roles and has_vertical:
        names = " and ".join(str(dims[roles.index(role)]) for role in ("y", "x"))
        notes.append(f"axes {names} are taken as inline and crossline")
        roles = [{"y": "inline", "x": "crossline"}.get(role, role) for role in roles]
    elif has_vertical and len(roles) == 2:
        roles = [role if role in ("inline", *VERTICAL) else "crossline" for role in roles]
    known = [role for role in roles if role not in (None, "x", "y")]
    absent = [role for role in ("inline", "crossline") if role not in known]
    if has_vertical and len(known) == len(roles) - 1 and len(absent) == 1:
        unknown = next(axis for axis, role in enumerate(roles) if role in (None, "x", "y"))
        notes.append(f"axis {dims[unknown]} is taken as {absent[0]}")
        roles = [absent[0] if axis == unknown else role for axis, role in enumerate(roles)]
    meant = ["vertical" if role in VERTICAL else role for role in roles]
    if len(set(meant)) < len(meant) or not set(meant) <= {"inline", "crossline", "vertical"}:
        names = ", ".join(map(str, dims))
        raise ValueError(
            f"Axes {names} are not recognised as inline, crossline and time or depth; rename them, for instance "
            f"array.rename({dims[0]}='time')."
        )
    return roles, notes


def _read_unit(role: str, unit: str, domain: str | None, name: Any) -> tuple[str, float | None]:
    """Return (``time`` or ``depth``, factor): what the vertical axis measures, and the factor to ms or m.

    The factor is None if the axis has no unit or only counts samples. `ValueError` is raised if the unit is unknown, or
    if it contradicts `role` or `domain`.
    """
    word = unit.lower()
    if word in COUNTS:
        meant = {"time": "time", "depth": "depth"}.get(role)
        return domain or meant or ("depth" if str(name).lower() == "z" else "time"), None
    if word not in UNITS:
        raise ValueError(f"Axis {name} is in {unit!r}; convert it to ms or s, or to m, km or ft, and state that unit.")
    measures, factor = UNITS[word]
    wrong = next((other for other in (role, domain) if other in ("time", "depth") and other != measures), None)
    if wrong:
        raise ValueError(f"Axis {name} should be {wrong}, but its unit is {unit!r}; correct its name or its unit.")
    return measures, factor


def stated_units(labels: Any) -> str:
    """Return the unit of an axis from the attributes of its coordinate, as in xarray or MDIO; empty without a unit."""
    attrs = getattr(labels, "attrs", {})
    units = attrs.get("units") or attrs.get("unitsV1") or ""
    return str(next(iter(units.values()), "") if isinstance(units, dict) else units).strip()


def unit_factor(labels: Any, name: str) -> float:
    """Return the factor that converts the values on a time or depth axis to ms or m.

    Without a unit, the factor is 1, with one exception: times are taken as seconds if their mean step is below 0.1 and
    they span less than 60. No survey has a step below 0.1 ms, so such times cannot be in ms.

    Parameters
    ----------
    labels : DataArray or array
        Coordinate of the axis; its attributes may state the unit.
    name : {"time", "depth"}
        What the axis measures.

    Examples
    --------
    >>> unit_factor(np.array([0.0, 0.004, 0.008]), "time"), unit_factor(np.array([0.0, 4.0, 8.0]), "time")
    (1000.0, 1.0)
    """
    unit = stated_units(labels).lower()
    if unit or labels is None or name != "time":
        measured, factor = UNITS.get(unit, ("", 1.0))
        return factor if measured == name else 1.0
    values = np.asarray(labels, np.float64).ravel()
    extent = float(np.ptp(values))
    return 1000.0 if 0 < extent < 60 and extent / (len(values) - 1) < 0.1 else 1.0


def standard_axes(data: Data) -> Data:
    """Return a volume, or its labels, with the time or depth axis in ms or m; no sample is read.

    Examples
    --------
    >>> seconds = xr.DataArray(np.zeros((2, 3)), {"inline": [1, 2], "time": [0.0, 0.004, 0.008]})
    >>> standard_axes(seconds)["time"].values
    array([0., 4., 8.])
    """
    for name in {"time", "depth"} & set(data.dims):
        factor = unit_factor(data[name], str(name))
        if factor != 1:
            data = data.assign_coords({name: np.round(factor * data[name].values, 3)})
    return data


def positions_of(axis: npt.ArrayLike, labels: npt.ArrayLike, within: float = SAME) -> Array:
    """Return the position on `axis` of each of the given line numbers, times or depths, `labels`.

    It is -1 if no value on the axis differs from the given one by at most `within`.

    Examples
    --------
    >>> positions_of([30, 10, 20], [10, 25, 30])
    array([ 1, -1,  0])
    """
    axis, labels = np.asarray(axis), np.asarray(labels)
    order = np.argsort(axis, kind="stable")
    found = order[np.minimum(np.searchsorted(axis[order], labels - within), len(axis) - 1)]
    return np.where(np.abs(axis[found] - labels) <= within, found, -1)


def position_of(axis: npt.ArrayLike, label: float, name: str = "label") -> int:
    """Return the position of a value on an axis; raise `ValueError` if the axis does not have this value.

    `name` is the name of the axis in the error message.
    """
    position = int(positions_of(axis, label))
    if position < 0:
        low, high = np.min(axis), np.max(axis)
        raise ValueError(f"There is no {name} {label:g}; the volume has {low:g} to {high:g}.")
    return position


def nearest_position(axis: Array, value: float, name: str = "") -> int:
    """Return the position on an axis that is nearest to a value.

    `name` is the name of the axis. If it is given, `ValueError` is raised for a value that differs by more than half a
    step from the nearest value on the axis.
    """
    position = int(np.argmin(np.abs(axis - value)))
    step = abs(axis[1] - axis[0]) if len(axis) > 1 else 1
    if name and not abs(axis[position] - value) <= step / 2:
        raise ValueError(f"{name} {value:g} is outside the volume, which has {axis[0]:g} to {axis[-1]:g}.")
    return position


def nearest_label(axis: Array, value: float) -> Any:
    """Return the inline number, crossline number, time or depth on an axis that is nearest to a value."""
    return axis[nearest_position(axis, value)].item()


def fit_grid(rows: Array, columns: Array, points: Array) -> Array | None:
    """Fit a regular grid to points of a map, which are given as complex numbers X + iY; outliers are left out.

    Parameters
    ----------
    rows, columns : array of int
        Row and column of each point in the grid, for instance positions on the inline and crossline axes.
    points : array of complex
        Coordinates X + iY of each point; NaN if unknown.

    Returns
    -------
    grid : complex array, shape (3,), or None
        Origin, step per row and step per column; a step is NaN if there is only one row or column. None if the points
        do not form a grid.

    Examples
    --------
    >>> fit_grid(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([5, 5 + 25j, 17, 17 + 25j])).round()
    array([ 5. +0.j, 12. +0.j,  0.+25.j])
    """
    known = np.isfinite(points)
    rows, columns, points = rows[known], columns[known], points[known]
    if len(points) < 2:
        return None
    varies = [True, np.ptp(rows) > 0, np.ptp(columns) > 0]
    design = np.column_stack([np.ones(len(rows)), rows, columns])[:, varies].astype(np.complex128)
    kept = np.ones(len(points), bool)
    for _ in range(5):  # each fit leaves out the outliers of the last one
        steps, _, rank, _ = np.linalg.lstsq(design[kept], points[kept])
        off = np.abs(points - design @ steps)
        kept = off <= 3 * np.median(off) + 1e-6
    if rank < max(2, sum(varies)) or not np.abs(steps[1:]).min() > 2 * np.median(off):
        return None
    grid = np.full(3, complex(np.nan))
    grid[varies] = steps
    return grid
