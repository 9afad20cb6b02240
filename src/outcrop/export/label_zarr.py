"""Export of labels, confidence and scores as a Zarr group."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

import outcrop
from outcrop.export.colour_tables import code_colours
from outcrop.export.lines import LINES, line_spans, new_folder, provenance_of
from outcrop.labels.named import named_labels
from outcrop.storage.stages import as_json

CHUNKS = (LINES, 128, 256)


def export_zarr(
    labels: xr.Dataset, path: str | Path, *, memory: int | None = None, provenance: dict[str, Any] | None = None
) -> None:
    """Write labels, confidence and scores as a Zarr 3 group that ``xarray.open_zarr`` reads without Outcrop.

    Parameters
    ----------
    labels : Dataset or DataArray
        As for `export_segy`; its variables ``label``, ``confidence``, ``score`` and ``class_NAME`` are written.
    path : path
        Folder to create; if writing fails, it is not created.
    memory : int, optional
        As for `export_segy`.
    provenance : dict, optional
        As for `export_segy`; it becomes the attribute ``provenance`` of the group.

    Notes
    -----
    The group and ``label`` have the attributes ``classes`` (code i + 1 means ``classes[i]``) and ``colours``; ``label``
    also has ``flag_values`` and ``flag_meanings`` of the CF conventions: 0 not labelled, the classes, 255 uncertain.
    ``colours`` of ``label`` has one entry for each flag value.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> _, truth = oc.datasets.synthetic((2, 30, 40), seed=0)
    >>> path = f"{tempfile.mkdtemp()}/labels.zarr"
    >>> export_zarr(truth, path)
    >>> xr.open_zarr(path)["label"].attrs["flag_meanings"]
    'not_labelled chaotic other fault salt_dome uncertain'
    """
    labels = named_labels(labels)
    classes = labels.attrs["classes"]
    meanings = " ".join("_".join(name.split()) for name in ["not labelled", *classes, "uncertain"])
    palette, provenance = code_colours(labels), provenance_of(labels, provenance)
    names = {"classes": classes, "colours": list(palette.values())}
    flags = {"flag_values": list(palette), "flag_meanings": meanings}
    attrs = {"version": outcrop.__version__, **labels.attrs, **names}
    attrs |= {"provenance": provenance} if provenance else {}
    with new_folder(path) as aside:
        group = zarr.open_group(aside, mode="w", zarr_format=3, attributes=as_json(attrs))
        coords = {name: coord for name, coord in labels.coords.items() if coord.dtype.kind in "biuf"}
        for name, coord in coords.items():
            form: dict[str, Any] = {"dimension_names": coord.dims, "attributes": as_json(coord.attrs)}
            group.create_array(str(name), data=coord.values, **form)
        auxiliary = " ".join(str(name) for name, coord in coords.items() if coord.dims != (name,))
        for name in map(str, labels.data_vars):
            if name in ("label", "confidence", "score") or name.startswith("class_"):
                attributes = names | flags if name == "label" else {}
                attributes |= {"coordinates": auxiliary} if auxiliary else {}
                _copy_lines(labels[name], group, as_json({**labels[name].attrs, **attributes}), memory)
        with warnings.catch_warnings():  # zarr warns that consolidated metadata are new; xarray looks for them
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(aside)


def _copy_lines(values: xr.DataArray, group: zarr.Group, attrs: dict[str, Any], memory: int | None) -> None:
    """Copy an array into a Zarr group, block by block of lines."""
    chunks = (1,) * (values.ndim - 3) + tuple(map(min, CHUNKS, values.shape[-3:]))
    form: dict[str, Any] = {"shape": values.shape, "chunks": chunks, "dtype": values.dtype}
    array = group.create_array(str(values.name), **form, dimension_names=map(str, values.dims), attributes=attrs)
    for lead in np.ndindex(values.shape[:-3]):
        for span in line_spans(values, memory):
            array[(*lead, span)] = values[(*lead, span)].values
