"""Convert patch sizes, given as text in physical units or in samples and traces, to samples and traces."""

import re

import numpy as np
import xarray as xr

from outcrop.volumes.neighbours import line_spacing


def parse_size(text: object, volume: xr.DataArray, *, along: str = "inline") -> tuple[int, int]:
    """Return (height in samples, width in traces) of a patch size given as text.

    Parameters
    ----------
    text : str
        ``99`` (square), ``99,131`` (height, width) or with units, ``400ms,2500m``.
    volume : xarray.DataArray
        Its sample interval and bin size are used to convert physical units.
    along : {"inline", "crossline"}
        Direction of the sections from which patches are cut; it determines the distance between traces.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume = oc.open_volume(np.zeros((2, 200, 300))).assign_attrs(sample_interval=4.0, bin_size=(12.5, 25.0))
    >>> parse_size("99", volume), parse_size("400ms,2500m", volume), parse_size("0.2 s, 40", volume)
    ((99, 99), (100, 100), (50, 40))
    """
    height, comma, width = str(text).partition(",")
    bins = line_spacing(volume) or (np.nan, np.nan)
    across, down = {"m": 1, "km": 1000}, {"ms": 1, "s": 1000}
    interval = volume.attrs.get("sample_interval")
    return (
        parse_length(height, interval, across if volume.dims[2] == "depth" else down),
        parse_length(width if comma else height, bins[1 if along == "inline" else 0], across),
    )


def parse_length(text: str, step: float | None, units: dict[str, int]) -> int:
    """Convert a length, given as text, to a number of samples or traces.

    Text without a unit is this number. A length with a unit is divided by `step`.

    Parameters
    ----------
    text : str
    step : float or None
        Distance between samples in ms or m, or between traces in m; None if unknown.
    units : dict
        Name of each allowed unit -> factor to ms or m.

    Examples
    --------
    >>> parse_length("99", None, {}), parse_length("2.5 km", 25.0, {"m": 1, "km": 1000})
    (99, 100)
    """
    match = re.fullmatch(r"\s*(\d+|\d+\.\d+(?=\s*[a-z]))\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in ("", *units):
        raise ValueError(
            f"Size {text!r} is not understood; write a number of samples or traces, or use {' or '.join(units)}."
        )
    if match[2] and not (step and step > 0):
        raise ValueError(
            f"Size {text!r} needs a spacing that this volume does not state; write a number of samples or traces."
        )
    length = round(float(match[1]) * units[match[2]] / step) if match[2] and step else int(match[1])
    if length < 1:
        raise ValueError(f"Size {text!r} is less than one sample or trace; choose a larger one.")
    return length
