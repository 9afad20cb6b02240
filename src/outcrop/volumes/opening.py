"""Opening of any seismic volume as one lazy xarray.DataArray: SEG-Y, ZGY, Zarr, NumPy, pictures, folders of lines.

All volumes are normalised here, and only here. Axes are in the order inline, crossline, time or depth, in ms or m.
Missing traces are marked, and the value of zero amplitude is found.
"""

import functools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.core import indexing

from outcrop.parallel import memory_budget
from outcrop.volumes import class_table, folders, segy, segy_headers
from outcrop.volumes.amplitude import find_offset, sample_lines
from outcrop.volumes.axes import fit_grid, name_axes, stated_units, unit_factor
from outcrop.volumes.lazy import LazyVolume, NpyFile, PictureFile, check_axes, lazy_source, lazy_volume, take_block
from outcrop.volumes.neighbours import line_steps
from outcrop.volumes.recognise import recognise, refuse_foreign, refuse_remote
from outcrop.volumes.zgy import open_zgy

Array = npt.NDArray[Any]
# Units that are converted to ms or m: factor -> axis -> unit.
CONVERTED = {1000.0: {"time": "seconds", "depth": "km"}, 0.001: {"time": "microseconds"}, 0.3048: {"depth": "feet"}}
STORED = "stored"  # entry in the encoding of a converted axis: its values before the conversion
OFF_GREY = 0.05  # largest distance of a picture's median from middle grey, if middle grey is zero amplitude
MOST_LINES = 10**7  # more than any survey has; line numbers of a longer axis might not fit in memory


def open_volume(
    source: Any, *, header_bytes: tuple[int, int] | None = None, endian: str | None = None, domain: str | None = None
) -> xr.DataArray:
    """Open a seismic volume of any supported format as one lazy array of raw amplitudes.

    Parameters
    ----------
    source : path, address or array
        A SEG-Y or ZGY file, a Zarr or MDIO folder, a ``.npy`` file, a picture of one section (time downwards), or a
        folder of single lines (pictures, ``.npy`` or SEG-Y files). An array has the axes (inline, crossline, time), or
        (time, crossline) for one section; a DataArray has named axes. A volume from this function is returned
        unchanged. Class names are read from ``SOURCE.classes.toml``; if a picture has such a table, its pixels are
        class codes.
    header_bytes : (int, int), optional
        SEG-Y only: bytes of inline and crossline in the trace header, counted from 1; detected by default.
    endian : {"big", "little"}, optional
        SEG-Y only: byte order; detected by default.
    domain : {"time", "depth"}, optional
        What the sample axis measures, if the file does not state it.

    Returns
    -------
    volume : xarray.DataArray of float32, dims ("inline", "crossline", "time" or "depth")
        Time is in ms, depth in m. Missing and dead traces are NaN. If traces are missing, the volume has the coordinate
        ``live``, which is False for them.

    Raises
    ------
    ValueError, OSError
        The source cannot be opened; no other type of error is raised.

    Notes
    -----
    Every volume has these attributes:

    - ``source``, ``format``: path or address, and name of the file format; both are ``array`` for an array.
    - ``domain``: ``time`` or ``depth``.
    - ``scaled``: whether the amplitudes lie in [0, 1], with zero amplitude at 0.5.
    - ``line_step``: steps of the inline and of the crossline numbers; see `line_steps`.

    It has these attributes if they are known:

    - ``options``: the opening options; ``open_volume(volume.attrs["source"], **volume.attrs["options"])`` opens the
      file again.
    - ``sample_interval``, ``delay``: sample interval, and time or depth of the first sample, in ms or m.
    - ``bin_size``: metres between neighbouring inlines, and between neighbouring crosslines.
    - ``map``: X and Y at inline 0, crossline 0; their change per inline number; their change per crossline number.
    - ``header_bytes``, ``text``: bytes of inline and crossline in the trace header of SEG-Y, and its text header.
    - ``classes``: class names; code i + 1 means ``classes[i]``.
    - ``offset``: value of zero amplitude, if no amplitude is negative.
    - ``notes``: corrections that were made, and assumptions.

    Examples
    --------
    >>> open_volume(np.zeros((5, 8))).sizes
    Frozen({'inline': 1, 'crossline': 8, 'time': 5})
    """
    if domain not in (None, "time", "depth"):
        raise ValueError(f"domain is {domain!r}; choose time or depth.")
    is_path = isinstance(source, str | os.PathLike)
    try:
        if is_path:
            volume = open_path(os.fspath(source), header_bytes=header_bytes, endian=endian, domain=domain)
        else:
            volume = from_array(source, domain=domain)
        volume = with_line_step(volume)
        opened_before = not is_path and lazy_source(volume, whole=True) is not None
        return volume if opened_before else note_offset(volume)
    except Exception as error:  # decoders raise errors of any type
        if isinstance(error, ValueError | OSError) and "\n" not in str(error):
            raise
        what, why = source if is_path else type(source).__name__, " ".join(str(error).split())
        raise ValueError(f"{what} cannot be opened as a volume ({type(error).__name__}: {why}).") from error


def with_line_step(volume: xr.DataArray) -> xr.DataArray:
    """Return a volume with the attribute ``line_step`` (see `line_steps`), which is kept if it is already set."""
    return volume if "line_step" in volume.attrs else volume.assign_attrs(line_step=line_steps(volume))


def note_offset(volume: xr.DataArray) -> xr.DataArray:
    """Return a volume with the attribute ``offset`` and a note, if no amplitude is negative.

    The offset is the value of zero amplitude; see `find_offset`. Amplitudes are not changed. In a picture whose median
    is not middle grey, middle grey is not zero amplitude, so its attribute ``scaled`` becomes False.
    """
    try:
        if "picture" in volume.attrs.get("format", "") and volume.attrs.get("scaled"):
            grey = float(np.nanmedian(sample_lines(volume, 16)[1]))
            volume = volume.assign_attrs(scaled=abs(grey - 0.5) <= OFF_GREY)
        offset = find_offset(volume)
    except (ValueError, OSError):  # an error for damaged samples is raised when they are used
        return volume
    if offset == volume.attrs.get("offset", 0.0):
        return volume
    kept = {name: value for name, value in volume.attrs.items() if name != "offset"}
    notes = [note for note in kept.get("notes", ()) if not note.startswith("no amplitude is negative")]
    if offset:
        kept["offset"] = offset
        notes.append(f"no amplitude is negative: {offset:g} is taken as zero amplitude")
    volume = volume.copy(deep=False)
    volume.attrs = kept | {"notes": notes}
    return volume


def open_path(
    path: str, *, header_bytes: tuple[int, int] | None, endian: str | None, domain: str | None
) -> xr.DataArray:
    """Open the file, folder or remote store at a path; its attribute ``options`` records the given options."""
    options = {} if domain is None else {"domain": domain}
    if "://" in path:
        return open_remote(path, domain=domain).assign_attrs(options=options)
    kind, path = Path(path).suffix.lower(), os.path.abspath(path)
    choices: dict[str, Any] = {"header_bytes": header_bytes, "endian": endian, "domain": domain}
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; give the path of a volume.")
    if os.path.isdir(path):
        if not folders.is_zarr(path):
            return add_classes(folders.open_folder(path, open_segy, **choices), path)
        volume = open_zarr(path, domain=domain)
    elif not os.path.isfile(path):
        raise ValueError(f"{path} is neither a file nor a folder; give the path of a volume.")
    elif kind in folders.KINDS["pictures"]:
        picture = PictureFile(path, codes=bool(class_table.read_class_table(path)))
        attrs: dict[str, Any] = {"source": path, "format": "picture", "scaled": not (picture.codes or picture.raw)}
        attrs["notes"] = picture.notes()
        volume = assemble(picture, attrs=attrs, domain=domain)
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


def open_remote(address: str, *, domain: str | None) -> xr.DataArray:
    """Open a Zarr or MDIO store at a remote address; any other address is refused with a remedy."""
    refuse_remote(address)
    try:
        return open_zarr(address, domain=domain)
    except Exception as error:  # drivers raise errors of any type
        why = " ".join(str(error).split())
        raise ValueError(
            f"{address} cannot be read from here ({why}); copy it to this machine and open the copy."
        ) from error


def add_classes(volume: xr.DataArray, path: str) -> xr.DataArray:
    """Return a volume with the class names from ``FILE.classes.toml``, if this class table exists."""
    classes = class_table.read_class_table(path)
    return volume.assign_attrs(classes=classes) if classes else volume


def open_segy(path: str, **choices: Any) -> xr.DataArray:
    """Open a SEG-Y file; see `open_volume`."""
    geometry = segy.scan(path, **choices)
    layout, domain = geometry.layout, geometry.domain
    endian = segy_headers.ENDIANS[layout.order]
    axes = {"inline": geometry.inlines, "crossline": geometry.crosslines, domain: geometry.samples}
    attrs = {
        "source": layout.path,
        "format": f"SEG-Y, {segy_headers.format_name(layout.format)}, {endian} endian",
        "domain": domain,
        "sample_interval": geometry.interval,
        "scaled": False,
        "options": {"header_bytes": list(geometry.header_bytes), "endian": endian, "domain": domain},
    }
    names = ("delay", "header_bytes", "sorting", "duplicates", "dead", "notes", "text", "bin_size")
    attrs |= {name: getattr(geometry, name) for name in names}
    live = geometry.traces.live() if geometry.missing else None
    return add_classes(lazy_volume(functools.partial(read_segy, geometry), axes, attrs, live=live), path)


def read_segy(geometry: segy.Geometry, key: tuple[Any, ...]) -> Array:
    """Read a block of a SEG-Y volume; `key` has a slice or an array of positions for each axis."""
    rows, columns, samples = (
        np.arange(n)[k] for k, n in zip(key, (*geometry.traces.shape, len(geometry.samples)), strict=True)
    )
    if isinstance(key[2], slice):
        return segy.read(geometry, rows, columns, samples=key[2])
    first = samples.min()
    return segy.read(geometry, rows, columns, samples=slice(first, samples.max() + 1))[..., samples - first]


def segy_geometry(volume: xr.DataArray) -> segy.Geometry:
    """Return the geometry (see `Geometry`) of the SEG-Y file of a volume.

    The file is scanned again if it has changed, or if the volume does not hold the geometry.
    """
    lazy = lazy_source(volume)
    if lazy is not None and isinstance(lazy.read, functools.partial) and lazy.read.func is read_segy:
        geometry: segy.Geometry = lazy.read.args[0]
        if geometry.is_current():
            return geometry
    return segy.scan(volume.attrs["source"], **volume.attrs.get("options", {}))


def open_zarr(path: str, *, domain: str | None) -> xr.DataArray:
    """Open a Zarr array, or the volume in a Zarr group that xarray, MDIO or zarr wrote."""
    import zarr

    try:
        node = zarr.open(path, mode="r")
    except FileNotFoundError:
        raise ValueError(f"{path} holds no Zarr volume; give a SEG-Y file or a Zarr or MDIO folder.") from None
    for stored in [node] if isinstance(node, zarr.Array) else dict(node.arrays()).values():
        too_long = stored.ndim == 1 and stored.size > MOST_LINES
        if too_long or math.prod(stored.chunks) * stored.dtype.itemsize > memory_budget():
            raise ValueError(
                f"{path}: array {stored.path!r} of shape {stored.shape} in chunks of {stored.chunks} does not fit in "
                "memory; check its metadata, or store it in smaller chunks."
            )
    arrays = {"amplitude": node} if isinstance(node, zarr.Array) else group_arrays(node)
    candidates = [name for name, array in arrays.items() if array.ndim in (2, 3) and array.dtype.kind in "iuf"]
    if not candidates:
        raise ValueError(
            f"{path} has no array of numbers on two or three axes (its arrays: {', '.join(arrays) or 'none'}); give "
            "another folder or file."
        )
    name = max(
        candidates, key=lambda name: (name == "amplitude", name == "label", arrays[name].ndim, arrays[name].size)
    )
    array = arrays.pop(name)
    dims = getattr(array, "dims", None) or getattr(array.metadata, "dimension_names", None)
    attrs = {**array.attrs, "source": path, "format": "Zarr"}
    return assemble(array, dims, attrs=attrs, companions=arrays, domain=domain)


def group_arrays(group: Any) -> dict[str, Any]:
    """Return a dict of the arrays in a Zarr group: name -> array. If their axes have names, xarray decodes them."""
    try:
        # Times stay numbers: xarray would decode "seconds" as time differences.
        options: Any = {"consolidated": False, "cache": False, "decode_times": False}
        dataset = xr.open_dataset(group.store, group=group.path, engine="zarr", **options)
        return {str(name): variable for name, variable in dataset.variables.items()}
    except (KeyError, ValueError):
        return dict(group.arrays())


def from_array(array: Any, *, domain: str | None) -> xr.DataArray:
    """Convert an array in memory, or a DataArray (lazy or not), to a volume.

    The axes of a DataArray are recognised by their names. Its data are kept if the order of its axes and its type of
    numbers need no change. If nothing needs a change, the DataArray itself is returned.
    """
    attrs = {"source": "array", "format": "array"}
    if isinstance(array, xr.Dataset):
        names = ", ".join(map(repr, array.data_vars)) or "none"
        raise ValueError(f"A Dataset is not a volume; give one of its arrays, as dataset[NAME]. It has {names}.")
    if not isinstance(array, xr.DataArray):
        return assemble(np.asarray(array), attrs=attrs, domain=domain)
    stored = array.values if array.variable._in_memory else array.variable
    companions = {str(name): coord.variable for name, coord in array.coords.items()}
    attrs |= array.attrs
    volume = assemble(stored, array.dims, attrs=attrs, companions=companions, domain=domain, computed=True)
    if volume.dims != array.dims or volume.dtype != array.dtype:
        return volume
    new = {name: value for name, value in volume.attrs.items() if not same(value, array.attrs.get(name))}
    coords = {name: c.variable for name, c in volume.coords.items() if not same(c.values, companions.get(str(name)))}
    named = array if array.name == volume.name else array.rename(volume.name)
    return named.assign_coords(coords).assign_attrs(new) if new or coords else named


def same(value: Any, other: Any) -> bool:
    """Return whether two attributes or axes are equal."""
    return value is other or (other is not None and bool(np.array_equal(value, other)))


def assemble(
    array: Any,
    dims: tuple[Any, ...] | None = None,
    *,
    attrs: dict[str, Any],
    domain: str | None,
    companions: Mapping[str, Any] | None = None,
    computed: bool = False,
) -> xr.DataArray:
    """Return a volume on the axes inline, crossline and time or depth, from an array of two or three dimensions.

    Parameters
    ----------
    array : numpy.ndarray, xarray.Variable, zarr.Array, NpyFile or PictureFile
    dims : sequence of str, optional
        Names of its axes; without names, they are (inline, crossline, time), or (time, crossline) for a section.
    attrs : dict
        Attributes of the volume, with at least its ``source``.
    domain : {"time", "depth"} or None
        What the vertical axis measures, if neither its name nor its unit states it.
    companions : dict of arrays
        Other variables of the same store by name: axes, live traces, coordinates of traces.
    computed : bool
        Whether the samples were computed, so that no file holds them.
    """
    dims, companions = dims or (None,) * array.ndim, companions or {}
    units = {name: stated_units(labels) for name, labels in companions.items()}
    names, places, factor, notes = name_axes(dims, domain=domain, units=units)
    if array.dtype.kind not in "biuf" or 0 in array.shape or max(array.shape) > MOST_LINES:
        raise ValueError(f"{attrs['source']} holds {array.dtype} of shape {array.shape}; give a volume of numbers.")
    shape = tuple(1 if i is None else array.shape[i] for i in places)
    lazy = LazyVolume(functools.partial(take_block, array, places), shape, computed=computed)
    data = lazy.block((slice(None),) * 3) if isinstance(array, np.ndarray) else indexing.LazilyIndexedArray(lazy)
    labels = [
        companions.get(name if i is None or dims[i] is None else dims[i]) for name, i in zip(names, places, strict=True)
    ]
    coords: dict[str, Any] = {name: axis_labels(label, n) for name, label, n in zip(names, labels, shape, strict=True)}
    samples = coords[names[2]].astype(np.float64)
    stored, factor = samples, factor or unit_factor(labels[2], names[2])
    if factor != 1 and labels[2] is not None:
        samples = np.round(factor * samples, 3)  # whole microseconds or millimetres
        unit = "ms" if names[2] == "time" else "m"
        notes.append(f"the {names[2]} axis is in {CONVERTED[factor][names[2]]}, converted to {unit}")
    # Earlier versions did not convert axes; their jobs identify a volume by the stored axis.
    coords[names[2]] = xr.Variable(names[2], samples, encoding={} if samples is stored else {STORED: stored})
    if notes:
        attrs = attrs | {"notes": [*attrs.get("notes", ()), *notes]}
    volume = xr.DataArray(data, coords, names, name="amplitude", attrs={"scaled": False, **attrs, "domain": names[2]})
    counts = not stated_units(labels[2]) and np.array_equal(samples, np.arange(shape[2]))
    if labels[2] is not None and shape[2] > 1 and not counts:
        volume.attrs.update(sample_interval=float(samples[-1] - samples[0]) / (shape[2] - 1), delay=float(samples[0]))
    plane = [dims[i] for i in places[:2] if i is not None]
    check_axes(volume)
    return add_survey(volume, {name: orient_map(other, plane) for name, other in companions.items()})


def orient_map(variable: Any, plane: list[Any]) -> Any:
    """Transpose a variable that has one value per trace to the axis order (inline, crossline).

    `plane` has the stored names of these two axes. A variable on other axes is returned unchanged.
    """
    is_map = isinstance(variable, xr.Variable) and len(plane) == 2 and set(variable.dims) == set(plane)
    return variable.transpose(*plane) if is_map else variable


def axis_labels(labels: Any, n: int) -> Array:
    """Return the `n` values on an axis, as integers if all are whole numbers; 0 to n - 1 if `labels` is None."""
    found = np.arange(n) if labels is None else np.asarray(labels, np.float64).reshape(n)
    return found.astype(np.int64) if np.array_equal(found, np.rint(found)) else found


def add_survey(volume: xr.DataArray, companions: Mapping[str, Any]) -> xr.DataArray:
    """Add a mask of live traces, the bin size and class names to a volume, if known, and return the volume.

    `companions` has the other variables of the store by name, for instance X and Y of the traces.
    """
    live = companions.get("live", companions.get("trace_mask"))  # ``trace_mask`` is the name in MDIO
    if live is None and isinstance(volume.variable._data, np.ndarray):
        empty = np.isnan(volume.values[..., :: max(1, volume.shape[2] // 2)]).all(-1)
        empty[empty] = np.isnan(volume.values[empty]).all(-1)
        if empty.any() and not empty.all():
            live, volume.attrs["empty_traces"] = ~empty, int(empty.sum())
    if live is not None and live.shape == volume.shape[:2] and not np.all(live):
        volume.coords["live"] = (("inline", "crossline"), np.asarray(live).astype(bool))
    x, y = companions.get("cdp_x"), companions.get("cdp_y")
    if x is not None and y is not None and x.shape == y.shape == volume.shape[:2]:
        thinned = tuple(slice(0, n, -(-n // 64)) for n in x.shape)
        rows, columns = np.mgrid[thinned]
        points = np.asarray(x[thinned]) + 1j * np.asarray(y[thinned])
        grid = fit_grid(rows.ravel(), columns.ravel(), points.ravel())
        if grid is not None:
            volume.attrs["bin_size"] = tuple(np.abs(grid[1:]).round(2).tolist())
            volume.attrs.pop("line_step", None)  # the coordinates belong to the lines of this volume
    for name in {"bin_size", "line_step"} & volume.attrs.keys():
        volume.attrs[name] = tuple(map(float, volume.attrs[name]))
    if "classes" in volume.attrs:
        volume.attrs["classes"] = list(map(str, volume.attrs["classes"]))
    return volume
