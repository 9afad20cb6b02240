"""Any seismic volume as one lazy xarray.DataArray: SEG-Y, ZGY, Zarr, NumPy, pictures, lines; scaled to [0, 1]."""

import functools
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.parallel import memory_budget
from outcrop.volumes import class_table, folders, segy, segy_headers
from outcrop.volumes.axes import in_seconds, name_axes, stated_units
from outcrop.volumes.lazy import LazyVolume, NpyFile, check_axes, live_traces, open_picture, take_block
from outcrop.volumes.recognise import recognise, refuse_foreign, refuse_remote
from outcrop.volumes.zgy import open_zgy

PICTURES = folders.KINDS["pictures"]

# What is converted to ms or m.
CONVERTED = {
    ("time", 1000.0): "seconds",
    ("time", 0.001): "microseconds",
    ("depth", 1000.0): "km",
    ("depth", 0.3048): "feet",
}

MOST_LINES = 10**7  # no survey has more; labels of an axis that claims to would not fit in memory

FORMAT_NAMES = {
    1: "IBM float, 32 bit",
    2: "integer, 32 bit",
    3: "integer, 16 bit",
    5: "IEEE float, 32 bit",
    6: "IEEE float, 64 bit",
    8: "integer, 8 bit",
    9: "integer, 64 bit",
    10: "unsigned integer, 32 bit",
    11: "unsigned integer, 16 bit",
    12: "unsigned integer, 64 bit",
    16: "unsigned integer, 8 bit",
}


def open_volume(
    source: Any, *, header_bytes: tuple[int, int] | None = None, endian: str | None = None, domain: str | None = None
) -> xr.DataArray:
    """Open a seismic volume, whatever it is stored in, as one lazy array of raw amplitudes.

    Parameters
    ----------
    source : path, address or array
        A SEG-Y or ZGY file, a Zarr or MDIO folder, a ``.npy`` file, a picture of one section (rows are time downwards),
        a folder of single lines (pictures, ``.npy`` or SEG-Y files), or an array: (inline, crossline, time), or
        (time, crossline) for one section, or a DataArray with named axes. Names of codes come from
        ``SOURCE.classes.toml``; pixels of pictures that have one are codes.
    header_bytes : (int, int), optional
        SEG-Y only: bytes of inline and crossline in the trace header, counted from 1; found if not given.
    endian : {"big", "little"}, optional
        SEG-Y only: order of bytes; found if not given.
    domain : {"time", "depth"}, optional
        What the sample axis measures, where the file does not say it.

    Returns
    -------
    volume : xarray.DataArray of float32, dims ("inline", "crossline", "time" or "depth")
        Missing and dead traces are NaN and False in the coordinate ``live``, which is there where traces are missing.
        Time is in ms, depth in m. Attributes: source, format, domain, and where known sample_interval, delay, bin_size
        (metres between inlines, between crosslines), map (X and Y of line 0, 0 and steps per line number),
        header_bytes, text, classes, scaled, notes (what was corrected).
        ``open_volume(volume.attrs["source"], **volume.attrs["options"])`` opens the same volume again.

    Raises
    ------
    ValueError, OSError
        The source cannot be opened; never anything else.

    Examples
    --------
    >>> open_volume(np.zeros((5, 8))).sizes
    Frozen({'inline': 1, 'crossline': 8, 'time': 5})
    """
    if domain not in (None, "time", "depth"):
        raise ValueError(f"domain is {domain!r}; choose time or depth.")
    is_path = isinstance(source, str | os.PathLike)
    try:
        if not is_path:
            return from_array(source, domain=domain)
        return open_path(os.fspath(source), header_bytes=header_bytes, endian=endian, domain=domain)
    except Exception as error:  # decoders of other formats raise what they like
        if isinstance(error, ValueError | OSError) and "\n" not in str(error):
            raise
        what, why = source if is_path else type(source).__name__, " ".join(str(error).split())
        raise ValueError(f"{what} cannot be opened as a volume ({type(error).__name__}: {why}).") from error


def open_path(path, *, header_bytes, endian, domain):
    """Open what lies at a path by the kind of thing it is, and note with which options."""
    options = {} if domain is None else {"domain": domain}
    if "://" in path:
        return open_remote(path, domain=domain).assign_attrs(options=options)
    kind, path = Path(path).suffix.lower(), os.path.abspath(path)
    choices = {"header_bytes": header_bytes, "endian": endian, "domain": domain}
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; give the path of a volume.")
    if os.path.isdir(path):
        if not folders.is_zarr(path):
            return add_classes(folders.open_folder(path, open_segy, **choices), path)
        volume = open_zarr(path, domain=domain)
    elif not os.path.isfile(path):
        raise ValueError(f"{path} is neither a file nor a folder; give the path of a volume.")
    elif kind in PICTURES:
        codes = bool(class_table.read_class_table(path))
        attrs = {"source": path, "format": "picture", "scaled": not codes}
        volume = assemble(open_picture(path, codes=codes), attrs=attrs, domain=domain)
    else:
        found = "NumPy" if kind == ".npy" else recognise(path)
        if found is None:
            return open_segy(path, **choices)
        if found == "ZGY":
            volume = open_zgy(path, domain=domain)
        elif found == "NumPy":
            volume = assemble(NpyFile(path), attrs={"source": path, "format": "NumPy"}, domain=domain)
        else:
            refuse_foreign(path, found)
    return add_classes(volume.assign_attrs(options=options), path)


def open_remote(address, *, domain):
    """Open a Zarr or MDIO store on another machine; anything else is refused with what to do."""
    refuse_remote(address)
    try:
        return open_zarr(address, domain=domain)
    except Exception as error:  # of any driver
        why = " ".join(str(error).split())
        raise ValueError(
            f"{address} cannot be read from here ({why}); copy it to this machine and open the copy."
        ) from error


def add_classes(volume, path):
    """Set on a volume the names of its codes, where a class table ``FILE.classes.toml`` lies next to its file."""
    classes = class_table.read_class_table(path)
    return volume.assign_attrs(classes=classes) if classes else volume


def open_segy(path, **choices):
    """Open a SEG-Y file; see `open_volume`."""
    geometry = segy.scan(path, **choices)
    layout = geometry.layout
    data = LazyVolume(functools.partial(read_segy, geometry), (*geometry.traces.shape, layout.n_samples))
    volume = xr.DataArray(
        indexing.LazilyIndexedArray(data),
        dims=("inline", "crossline", geometry.domain),
        coords={"inline": geometry.inlines, "crossline": geometry.crosslines, geometry.domain: geometry.samples},
        name="amplitude",
        attrs={
            "source": layout.path,
            "format": f"SEG-Y, {FORMAT_NAMES[layout.format]}, {segy_headers.ENDIANS[layout.order]} endian",
            "domain": geometry.domain,
            "sample_interval": geometry.interval,
            "delay": geometry.delay,
            "header_bytes": geometry.header_bytes,
            "sorting": geometry.sorting,
            "duplicates": geometry.duplicates,
            "dead": geometry.dead,
            "notes": geometry.notes,
            "text": geometry.text,
            "scaled": False,
            "options": {
                "header_bytes": list(geometry.header_bytes),
                "endian": segy_headers.ENDIANS[layout.order],
                "domain": geometry.domain,
            },
        },
    )
    if geometry.missing:
        volume = volume.assign_coords(live=(("inline", "crossline"), geometry.traces.live()))
    if geometry.bin_size is not None:
        volume.attrs["bin_size"] = geometry.bin_size
    return add_classes(volume, path)


def read_segy(geometry, key):
    """Block of a SEG-Y volume for a key of slices or arrays."""
    rows, columns, samples = (
        np.arange(n)[k] for k, n in zip(key, (*geometry.traces.shape, len(geometry.samples)), strict=True)
    )
    if isinstance(key[2], slice):
        return segy.read(geometry, rows, columns, samples=key[2])
    first = samples.min()
    return segy.read(geometry, rows, columns, samples=slice(first, samples.max() + 1))[..., samples - first]


def open_zarr(path, *, domain):
    """Open a Zarr array, or the volume in a Zarr group as xarray, MDIO or plain zarr write it."""
    import zarr

    try:
        node = zarr.open(path, mode="r")
    except FileNotFoundError:
        raise ValueError(f"{path} holds no Zarr volume; give a SEG-Y file or a Zarr or MDIO folder.") from None
    for stored in [node] if isinstance(node, zarr.Array) else dict(node.arrays()).values():
        long = stored.ndim == 1 and stored.size > MOST_LINES
        if long or math.prod(stored.chunks) * stored.dtype.itemsize > memory_budget():
            raise ValueError(
                f"{path}: array {stored.path!r} of shape {stored.shape} in chunks of {stored.chunks} does not fit in "
                "memory; is its metadata damaged? Store it in smaller chunks otherwise."
            )
    arrays = {"amplitude": node} if isinstance(node, zarr.Array) else group_arrays(node)
    candidates = [name for name, array in arrays.items() if array.ndim in (2, 3) and array.dtype.kind in "iuf"]
    if not candidates:
        raise ValueError(f"{path} holds no volume of numbers; its arrays are {', '.join(arrays) or 'none'}.")
    name = max(
        candidates, key=lambda name: (name == "amplitude", name == "label", arrays[name].ndim, arrays[name].size)
    )
    array = arrays.pop(name)
    dims = getattr(array, "dims", None) or getattr(array.metadata, "dimension_names", None)
    attrs = {**array.attrs, "source": path, "format": "Zarr"}
    return assemble(array, dims, attrs=attrs, beside=arrays, domain=domain)


def group_arrays(group):
    """Arrays of a Zarr group by name: decoded as xarray does where axes have names, as they are otherwise."""
    try:
        # Times stay numbers: "seconds" would become a time difference.
        options: Any = {"consolidated": False, "cache": False, "decode_times": False}
        dataset = xr.open_dataset(group.store, group=group.path, engine="zarr", **options)
        return {str(name): variable for name, variable in dataset.variables.items()}
    except (KeyError, ValueError):
        return dict(group.arrays())


def from_array(array, *, domain):
    """Volume of an array in memory, or of a DataArray, lazy or not, by the names of its axes."""
    attrs = {"source": "array", "format": "array"}
    if not isinstance(array, xr.DataArray):
        return assemble(np.asarray(array), attrs=attrs, domain=domain)
    beside = {str(name): coord.variable for name, coord in array.coords.items()}
    return assemble(array.variable, array.dims, attrs={**attrs, **array.attrs}, beside=beside, domain=domain)


def assemble(array, dims=None, *, attrs, domain, beside=None):
    """Volume on the axes inline, crossline and time or depth of an array of two or three dimensions.

    Parameters
    ----------
    array : numpy.ndarray, xarray.Variable, zarr.Array or NpyFile
    dims : sequence of str, optional
        Names of its axes; where one is unknown they are inline, crossline, time, or time, crossline for a section.
    attrs : dict
    domain : str or None
    beside : dict of arrays
        What lies beside it by name: labels of the axes, and which traces are live.
    """
    dims, beside = dims or [None] * array.ndim, beside or {}
    units = {name: stated_units(labels) for name, labels in beside.items()}
    names, axes, factor, notes = name_axes(dims, domain=domain, units=units)
    if array.dtype.kind not in "biuf" or 0 in array.shape or max(array.shape) > MOST_LINES:
        raise ValueError(f"{attrs['source']} holds {array.dtype} of shape {array.shape}; give a volume of numbers.")
    lazy = LazyVolume(functools.partial(take_block, array, axes), [1 if i is None else array.shape[i] for i in axes])
    data = lazy.block((slice(None),) * 3) if isinstance(array, np.ndarray) else indexing.LazilyIndexedArray(lazy)
    labels = [
        beside.get(name if i is None or dims[i] is None else dims[i]) for name, i in zip(names, axes, strict=True)
    ]
    coords = {name: axis_labels(label, n) for name, label, n in zip(names, labels, lazy.shape, strict=True)}
    coords[names[2]] = coords[names[2]].astype(np.float64)
    if factor is None and names[2] == "time" and in_seconds(labels[2]):
        factor = 1000.0
    if factor not in (None, 1.0) and labels[2] is not None:
        coords[names[2]] = np.round(factor * coords[names[2]], 3)  # whole microseconds, as sampling is
        unit = "ms" if names[2] == "time" else "m"
        notes.append(f"the {names[2]} axis is in {CONVERTED[names[2], factor]}, converted to {unit}")
    if notes:
        attrs = {**attrs, "notes": [*attrs.get("notes", ()), *notes]}
    volume = xr.DataArray(data, coords, names, name="amplitude", attrs={"scaled": False, **attrs, "domain": names[2]})
    if labels[2] is not None and lazy.shape[2] > 1:
        first, last = map(float, coords[names[2]][[0, -1]])
        volume.attrs.update(sample_interval=(last - first) / (lazy.shape[2] - 1), delay=first)
    plane = [dims[i] for i in axes[:2] if i is not None]
    check_axes(volume)
    return add_survey(volume, {name: upright(other, plane) for name, other in beside.items()})


def upright(variable, plane):
    """A map of the survey with its axes in the order of the volume; anything else as it is."""
    is_map = isinstance(variable, xr.Variable) and len(plane) == 2 and set(variable.dims) == set(plane)
    return variable.transpose(*plane) if is_map else variable


def axis_labels(labels, n):
    """Labels of an axis, whole numbers as such; positions where there are none."""
    labels = np.arange(n) if labels is None else np.asarray(labels, np.float64).reshape(n)
    return labels.astype(np.int64) if np.array_equal(labels, np.rint(labels)) else labels


def add_survey(volume, beside):
    """Set on a volume what lies beside it: missing traces, distances between lines, names of codes."""
    live = beside.get("live", beside.get("trace_mask"))  # the latter is MDIO's
    if live is not None and live.shape == volume.shape[:2] and not np.all(live):
        volume.coords["live"] = (("inline", "crossline"), np.asarray(live).astype(bool))
    if {"cdp_x", "cdp_y"} <= set(beside) and beside["cdp_x"].shape == beside["cdp_y"].shape == volume.shape[:2]:
        some = tuple(slice(None, None, -(-n // 64)) for n in volume.shape[:2])
        points = np.asarray(beside["cdp_x"][some]) + 1j * np.asarray(beside["cdp_y"][some])
        rows, columns = np.meshgrid(
            *(np.arange(n)[part] for n, part in zip(volume.shape[:2], some, strict=True)), indexing="ij"
        )
        steps = segy.fit_steps(rows.ravel(), columns.ravel(), points.ravel())
        if steps is not None:
            volume.attrs["bin_size"] = steps
    if "bin_size" in volume.attrs:
        volume.attrs["bin_size"] = tuple(map(float, volume.attrs["bin_size"]))
    if "classes" in volume.attrs:
        volume.attrs["classes"] = list(map(str, volume.attrs["classes"]))
    return volume


def sample_lines(volume, lines):
    """Positions of evenly spaced inlines and their amplitudes, shape (n_lines, n_crossline, n_sample), thinned out."""
    rows = np.unique(np.linspace(0, volume.shape[0] - 1, lines).round().astype(int))
    # A quarter of a million samples of a line tell its amplitudes: cost does not grow with the survey.
    every = -(-volume.shape[1] * volume.shape[2] // (1 << 18))
    return rows, np.stack([volume[row, ::every].values for row in rows])


def amplitude_clip(volume, *, percentile=99.5, lines=16):
    """Amplitude that maps to the ends of [0, 1]: a percentile of the absolute amplitude over evenly spaced inlines.

    Zeros, of which mutes and padding consist, do not count, nor do NaN and Inf.

    Parameters
    ----------
    volume : xarray.DataArray
    percentile : float
        Share in percent of the samples that lie within the clip.
    lines : int
        Number of inlines to look at.

    Returns
    -------
    clip : float

    Examples
    --------
    >>> amplitude_clip(open_volume(np.linspace(-200, 200, 401).reshape(1, 1, -1)), percentile=50)
    100.5
    """
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile is {percentile}; choose a value above 0 and up to 100.")
    sample = np.abs(sample_lines(volume, lines)[1])
    sample = sample[np.isfinite(sample) & (sample > 0)]
    if not sample.size:
        raise ValueError(f"{volume_name(volume)} holds only zeros or NaN; give one with amplitudes.")
    return float(np.percentile(sample, percentile))


def volume_name(volume):
    """What an error calls a volume: its file, but the array where it lies in memory, whatever it was read from."""
    in_memory = isinstance(volume.variable._data, np.ndarray)
    return "The array" if in_memory else str(volume.attrs.get("source") or "The volume")


def scale(amplitudes, clip):
    """Amplitudes from [-clip, clip] to [0, 1]; what lies outside goes to the ends, NaN stays.

    Examples
    --------
    >>> scale(np.array([-9.0, -1.0, 0.0, 4.0]), clip=2.0)
    array([0.  , 0.25, 0.5 , 1.  ])
    """
    if not 0 < clip < np.inf:
        raise ValueError(f"clip is {clip}; choose a positive amplitude.")
    amplitudes = np.asarray(amplitudes)
    kind = np.float64 if amplitudes.dtype == np.float64 else np.float32
    return np.clip(amplitudes.astype(kind, copy=False), -clip, clip) / kind(2 * clip) + kind(0.5)


def describe(volume, *, lines=16):
    """What a user wants to know of a volume before working on it, as plain numbers, text, lists and dicts.

    Amplitudes are those of `lines` evenly spaced inlines. ``drift`` says by how many dB the RMS amplitude differs
    between eighths of the survey and between eighths of the time axis, the loudest against the quietest.
    """
    attrs, live = volume.attrs, live_traces(volume)
    rows, sample = sample_lines(volume, lines)
    finite = np.isfinite(sample)
    if not finite.any():
        raise ValueError(f"{volume_name(volume)} holds no finite amplitude; give one with data.")
    axes = {name: describe_axis(volume[name].values) for name in volume.dims}
    return {
        "source": attrs.get("source"),
        "format": attrs.get("format"),
        "axes": axes,
        "domain": volume.dims[2],
        "unit": sample_unit(volume),
        **{name: attrs.get(name) for name in ("sample_interval", "delay", "bin_size", "header_bytes", "classes")},
        "geometry": {
            "regular": bool(live.all()) and all(axis["step"] is not None for axis in axes.values()),
            "sorting": attrs.get("sorting"),
            "missing_traces": int(np.sum(~live)) - attrs.get("dead", 0),
            "dead_traces": attrs.get("dead", 0),
            "duplicate_traces": attrs.get("duplicates", 0),
        },
        "notes": list(attrs.get("notes", ())),
        "text": attrs.get("text", "").splitlines(),
        "scaled": bool(attrs.get("scaled", False)),
        "amplitude": describe_amplitude(sample, finite),
        "rms": describe_rms(sample, finite, volume["inline"].values[rows], volume[volume.dims[2]].values),
    }


def sample_unit(volume):
    """Unit of the last axis of a volume or a section, ms or m; None where it only counts samples or tells no unit.

    Examples
    --------
    >>> sample_unit(open_volume(np.zeros((2, 3, 4)))) is None
    True
    """
    labels = volume[volume.dims[-1]].values
    counts = np.array_equal(labels, np.arange(len(labels)))
    if "sample_interval" not in volume.attrs and (counts or volume.attrs.get("unit") == ""):
        return None
    return "m" if volume.dims[-1] == "depth" else "ms"


def describe_axis(labels):
    """First, last, step (None where it varies) and count of the labels of an axis."""
    steps = np.diff(labels)
    even = len(steps) > 0 and np.allclose(steps, steps[0])
    step = steps[0].item() if even else 1 if not len(steps) else None
    return {"first": labels[0].item(), "last": labels[-1].item(), "step": step, "count": len(labels)}


def describe_amplitude(sample, finite):
    """Range, percentiles, clip and histogram of a sample of amplitudes, and how many are not numbers or all zero."""
    values = sample[finite].astype(np.float64)
    sizes = np.abs(values[values != 0])
    clip = float(np.percentile(sizes, 99.5)) if sizes.size else 0.0
    counts, edges = np.histogram(values, bins=64, range=(-(clip or 1), clip or 1))
    return {
        "minimum": values.min().item(),
        "maximum": values.max().item(),
        "percentiles": {str(q): np.percentile(values, q).item() for q in (0.5, 1, 5, 25, 50, 75, 95, 99, 99.5)},
        "clip": clip,
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "sampled_traces": int(sample[..., 0].size),
        "zero_traces": int(np.sum((sample == 0).all(-1))),
        "nan": int(np.isnan(sample).sum()),
        "infinite": int(np.isinf(sample).sum()),
    }


def describe_rms(sample, finite, inlines, times):
    """RMS amplitude of each sampled line and of each sample time, and how far it drifts along both."""
    power = np.where(finite, sample, 0).astype(np.float64) ** 2
    with np.errstate(invalid="ignore"):
        by_line = np.sqrt(power.sum((1, 2)) / finite.sum((1, 2)))
        by_time = np.sqrt(power.sum((0, 1)) / finite.sum((0, 1)))
    return {
        "inline": inlines.tolist(),
        "by_line": [None if np.isnan(rms) else rms for rms in by_line.tolist()],
        "time": times.tolist(),
        "by_time": [None if np.isnan(rms) else rms for rms in by_time.tolist()],
        "drift_lines": drift(by_line),
        "drift_time": drift(by_time),
    }


def drift(rms):
    """Decibels between the loudest and the quietest eighth of an axis, of those that hold anything.

    Examples
    --------
    >>> round(drift(np.repeat([1.0, 2.0, 0.0], 8)), 2)
    6.02
    """
    parts = [part[part > 0] for part in np.array_split(rms, min(8, len(rms)))]
    levels = [np.sqrt(np.mean(part**2)) for part in parts if part.size]
    return float(20 * np.log10(max(levels) / min(levels))) if levels else 0.0


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
    >>> volume = open_volume(np.zeros((2, 200, 300))).assign_attrs(sample_interval=4.0, bin_size=(12.5, 25.0))
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
