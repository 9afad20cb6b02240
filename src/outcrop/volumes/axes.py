"""What the axes of an array are, by their names and units: understood or refused, never guessed by position."""

import re

import numpy as np

# What other programs call the axes, without case and punctuation.
NAMES = {
    "inline": {"inline", "inlines", "iline", "ilines", "il", "inlineno", "inlinenumber"},
    "crossline": {"crossline", "crosslines", "xline", "xlines", "xl", "crosslineno", "crosslinenumber", "cdp", "trace"},
    "time": {"time", "twt", "twtt", "t", "twowaytime", "twowaytraveltime"},
    "depth": {"depth", "tvd", "tvdss"},
    "vertical": {"sample", "samples", "z", "vertical"},  # time or depth: the unit tells
    "y": {"y", "northing", "cdpy"},
    "x": {"x", "easting", "cdpx"},
}
DOWN = ("time", "depth", "vertical")

# What an axis measures in a unit, and the factor to ms or m.
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
COUNTS = {"", "1", "-", "none", "unitless", "dimensionless", "sample", "samples", "index", "count", "counts"}


def read_name(dim):
    """What the name of an axis says: a key of `NAMES` or None, and the unit at its end.

    Examples
    --------
    >>> read_name("Two-way time [s]"), read_name("depth_ft"), read_name("iline"), read_name("band")
    (('time', 's'), ('depth', 'ft'), ('inline', ''), (None, ''))
    """
    text = str(dim).strip().lower()
    parts = re.fullmatch(r"(.*?)[\W_]+([a-z]+)[\W_]*", text)
    rest, unit = (parts[1], parts[2]) if parts and parts[2] in UNITS else (text, "")
    word = re.sub(r"[\W_]+", "", rest)
    role = next((role for role, names in NAMES.items() if word in names), None)
    return (role, unit) if role in DOWN or not unit else (None, "")


def is_unnamed(dim):
    """Whether an axis has no name, or one that a program made up."""
    return dim is None or re.fullmatch(r"(phony_)?dim_\d+", str(dim)) is not None


def name_axes(dims, *, domain=None, units=None):
    """What every axis of an array is.

    Parameters
    ----------
    dims : sequence of str or None
        Names of two or three axes.
    domain : {"time", "depth"}, optional
        What the vertical axis measures, where neither its name nor its unit says it.
    units : dict, optional
        Units by name of an axis, as its coordinate states them.

    Returns
    -------
    names : (str, str, str)
        ``inline``, ``crossline``, and ``time`` or ``depth``.
    axes : tuple of int or None
        Which axis of the array each of these is; None for one that the array does not have.
    factor : float or None
        From the numbers of the vertical axis to ms or m; None where no unit is stated.
    notes : list of str
        What was concluded from names that do not say it.

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
        raise ValueError(f"An array of {len(dims)} dimensions is no volume; give three, or two for a section.")
    if all(map(is_unnamed, dims)):
        roles = ["inline", "crossline", "vertical"] if len(dims) == 3 else ["vertical", "crossline"]
        return ("inline", "crossline", domain or "time"), _places(roles), None, []
    found = [read_name(dim) for dim in dims]
    roles, notes = _complete([role for role, _ in found], dims)
    down = next((axis for axis, role in enumerate(roles) if role in DOWN), None)
    if down is None:
        return ("inline", "crossline", domain or "time"), _places(roles), None, notes
    stated = str((units or {}).get(dims[down]) or found[down][1]).strip()
    domain, factor = _measure(roles[down], stated, domain, dims[down])
    return ("inline", "crossline", domain), _places(roles), factor, notes


def _places(roles):
    """Axis of the array that is inline, crossline and vertical, None for what it lacks."""
    where = {"vertical" if role in DOWN else role: axis for axis, role in enumerate(roles)}
    return tuple(map(where.get, ("inline", "crossline", "vertical")))


def _complete(roles, dims):
    """Roles of all axes, and notes: x and y are lines where time or depth is named, an unknown axis is what is left."""
    notes = []
    has_down = any(role in DOWN for role in roles)
    if "y" in roles and "x" in roles and has_down:
        names = " and ".join(str(dims[roles.index(role)]) for role in ("y", "x"))
        notes.append(f"axes {names} are taken as inline and crossline")
        roles = [{"y": "inline", "x": "crossline"}.get(role, role) for role in roles]
    elif has_down and len(roles) == 2:
        roles = [role if role in ("inline", *DOWN) else "crossline" for role in roles]
    known = [role for role in roles if role not in (None, "x", "y")]
    left = [role for role in ("inline", "crossline") if role not in known]
    if has_down and len(known) == len(roles) - 1 and len(left) == 1:
        unknown = next(axis for axis, role in enumerate(roles) if role in (None, "x", "y"))
        notes.append(f"axis {dims[unknown]} is taken as {left[0]}")
        roles = [left[0] if axis == unknown else role for axis, role in enumerate(roles)]
    meant = ["vertical" if role in DOWN else role for role in roles]
    if len(set(meant)) < len(meant) or not set(meant) <= {"inline", "crossline", "vertical"}:
        names = ", ".join(map(str, dims))
        raise ValueError(
            f"The axes ({names}) do not tell inline, crossline and time or depth; rename them so, for instance "
            f"array.rename({dims[0]}='time')."
        )
    return roles, notes


def _measure(role, unit, domain, name):
    """What the vertical axis measures, time or depth, and the factor of its unit, None where none is stated."""
    word = unit.lower()
    if word in COUNTS:
        meant = {"time": "time", "depth": "depth"}.get(role)
        return domain or meant or ("depth" if str(name).lower() == "z" else "time"), None
    if word not in UNITS:
        raise ValueError(f"Axis {name} is in {unit!r}; convert it to ms or s, m, km or ft, and name the unit so.")
    measures, factor = UNITS[word]
    wrong = next((other for other in (role, domain) if other in ("time", "depth") and other != measures), None)
    if wrong:
        raise ValueError(f"Axis {name} is in {unit!r} and should be {wrong}; mend its name or its unit.")
    return measures, factor


def stated_units(labels):
    """Unit that the labels of an axis state, as xarray or MDIO write it; empty where they state none."""
    attrs = getattr(labels, "attrs", {})
    units = attrs.get("units") or attrs.get("unitsV1") or ""
    return str(next(iter(units.values()), "") if isinstance(units, dict) else units).strip()


def in_seconds(labels):
    """Whether the labels of a time axis are seconds: by their units, or because no survey is sampled below 0.1 ms.

    Examples
    --------
    >>> in_seconds(np.array([0.0, 0.004, 0.008])), in_seconds(np.array([0.0, 4.0, 8.0])), in_seconds(None)
    (True, False, False)
    """
    if labels is None:
        return False
    units = stated_units(labels).lower()
    if units:
        return UNITS.get(units) == ("time", 1000.0)
    values = np.asarray(labels, np.float64).ravel()
    extent = float(np.ptp(values))
    return 0 < extent < 60 and extent / (len(values) - 1) < 0.1
