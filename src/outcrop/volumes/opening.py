"""Any seismic volume as one lazy xarray.DataArray: SEG-Y, ZGY, Zarr, NumPy, pictures, lines."""

import functools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.parallel import memory_budget
from outcrop.volumes import class_table, folders, segy, segy_headers
from outcrop.volumes.axes import in_seconds, name_axes, stated_units
from outcrop.volumes.lazy import LazyVolume, NpyFile, check_axes, open_picture, take_block
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
        Missing and dead traces are NaN and False in the coordinate ``live``, which exists where traces are missing.
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
    return assemble(array, dims, attrs=attrs, companions=arrays, domain=domain)


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
    companions = {str(name): coord.variable for name, coord in array.coords.items()}
    return assemble(array.variable, array.dims, attrs={**attrs, **array.attrs}, companions=companions, domain=domain)


def assemble(array, dims=None, *, attrs, domain, companions=None):
    """Volume on the axes inline, crossline and time or depth of an array of two or three dimensions.

    Parameters
    ----------
    array : numpy.ndarray, xarray.Variable, zarr.Array or NpyFile
    dims : sequence of str, optional
        Names of its axes; where one is unknown they are inline, crossline, time, or time, crossline for a section.
    attrs : dict
    domain : str or None
    companions : dict of arrays
        What belongs to it by name: labels of the axes, and which traces are live.
    """
    dims, companions = dims or [None] * array.ndim, companions or {}
    units = {name: stated_units(labels) for name, labels in companions.items()}
    names, axes, factor, notes = name_axes(dims, domain=domain, units=units)
    if array.dtype.kind not in "biuf" or 0 in array.shape or max(array.shape) > MOST_LINES:
        raise ValueError(f"{attrs['source']} holds {array.dtype} of shape {array.shape}; give a volume of numbers.")
    lazy = LazyVolume(functools.partial(take_block, array, axes), [1 if i is None else array.shape[i] for i in axes])
    data = lazy.block((slice(None),) * 3) if isinstance(array, np.ndarray) else indexing.LazilyIndexedArray(lazy)
    labels = [
        companions.get(name if i is None or dims[i] is None else dims[i]) for name, i in zip(names, axes, strict=True)
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
    return add_survey(volume, {name: upright(other, plane) for name, other in companions.items()})


def upright(variable, plane):
    """A map of the survey with its axes in the order of the volume; anything else as it is."""
    is_map = isinstance(variable, xr.Variable) and len(plane) == 2 and set(variable.dims) == set(plane)
    return variable.transpose(*plane) if is_map else variable


def axis_labels(labels, n):
    """Labels of an axis, whole numbers as such; positions where there are none."""
    labels = np.arange(n) if labels is None else np.asarray(labels, np.float64).reshape(n)
    return labels.astype(np.int64) if np.array_equal(labels, np.rint(labels)) else labels


def add_survey(volume, companions):
    """Set on a volume what belongs to it: missing traces, distances between lines, names of codes."""
    live = companions.get("live", companions.get("trace_mask"))  # the latter is MDIO's
    if live is not None and live.shape == volume.shape[:2] and not np.all(live):
        volume.coords["live"] = (("inline", "crossline"), np.asarray(live).astype(bool))
    if {"cdp_x", "cdp_y"} <= set(companions) and companions["cdp_x"].shape == companions["cdp_y"].shape == volume.shape[
        :2
    ]:
        some = tuple(slice(None, None, -(-n // 64)) for n in volume.shape[:2])
        points = np.asarray(companions["cdp_x"][some]) + 1j * np.asarray(companions["cdp_y"][some])
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
