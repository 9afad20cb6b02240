"""Patch sizes given in samples and traces or in physical units."""

import re

import numpy as np


def parse_size(text, volume, *, along="inline"):
    """Height in samples and width in traces of a patch given in samples and traces or in physical units.

    Parameters
    ----------
    text : str
        ``99`` (square), ``99,131`` (height, width) or with units, ``400ms,2500m``.
    volume : xarray.DataArray
    along : {"inline", "crossline"}
        The sections on which patches lie, for the distance between their traces.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume = oc.open_volume(np.zeros((2, 200, 300))).assign_attrs(sample_interval=4.0, bin_size=(12.5, 25.0))
    >>> parse_size("99", volume), parse_size("400ms,2500m", volume), parse_size("0.2 s, 40", volume)
    ((99, 99), (100, 100), (50, 40))
    """
    parts = str(text).split(",")
    height, width = parts if len(parts) == 2 else (str(text), str(text))
    bins = volume.attrs.get("bin_size") or (np.nan, np.nan)
    lengths = {"m": 1, "km": 1000}
    return (
        parse_length(
            height, volume.attrs.get("sample_interval"), lengths if volume.dims[2] == "depth" else {"ms": 1, "s": 1000}
        ),
        parse_length(width, bins[1 if along == "inline" else 0], lengths),
    )


def parse_length(text, step, units):
    """Length as a number of steps: a bare number is one already, one with a unit is divided by the step.

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
            f"Size {text!r} needs a spacing that this volume does not tell; write a number of samples or traces."
        )
    length = round(float(match[1]) * units[match[2]] / step) if match[2] else int(match[1])
    if length < 1:
        raise ValueError(f"Size {text!r} is less than one sample or trace; choose a larger one.")
    return length
