"""Results in the user's world: SEG-Y for Petrel and OpendTect, Zarr for xarray, a training set for a net."""

import datetime
import json
import os
import textwrap
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
import xarray as xr
import zarr

import outcrop
from outcrop.mapping.scores import UNCERTAIN, as_codes, labelled
from outcrop.parallel import spans
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.plots import COLOURS, colours
from outcrop.retrieval.core import NEAR_LINES, WeakLabels
from outcrop.storage.workspace import whole_file
from outcrop.volumes import class_table, segy, segy_write
from outcrop.volumes.lazy import as_slice, live_traces
from outcrop.volumes.summary import sample_unit

LINES = 32  # lines read together and stored in one Zarr chunk
BLOCK = 1 << 26  # bytes of labels held at once, unless LINES lines are more
CHUNKS = (LINES, 128, 256)
SPLITS = {"train": 0.7, "val": 0.15, "test": 0.15}
MOST_BLOCKS, DRAWS = 20, 1000  # blocks of lines to split by, and ways to cut and share them out that are tried
TEXT_LINES, TEXT_WIDTH = 38, 75  # that a SEG-Y text header has for us
NOTHING = "#ffffff"  # colour of what is not labelled
PLACE = 1e-3  # ms, m or lines; labels of an axis that differ by less are the same


def export_segy(
    labels: xr.Dataset,
    path: str | Path,
    *,
    like: str | Path | None = None,
    what: str = "label",
    format: int = 5,
    memory: int | None = None,
    provenance: dict | None = None,
) -> None:
    """Write labels, their confidence or the score of a class as SEG-Y, with a text header that says so.

    Parameters
    ----------
    labels : Dataset or DataArray, dims (inline, crossline, time or depth)
        As `label_volume` gives it, or codes alone; ``attrs["classes"]`` names the codes 1, 2, ..., and
        ``attrs["colours"]``, class -> colour, may give them colours.
    path : path
        File to make, whole or not at all.
    like : path or volume, optional
        SEG-Y file the labels belong to, or the volume that `open_volume` made of it: its trace headers are copied byte
        for byte, its binary header but for the sample format. A volume from elsewhere gives its axes, and X and Y where
        it has them. What has no label becomes 0. Without it the file holds the lines that `labels` has.
    what : str
        ``label``, ``confidence`` or ``score:CLASS``; the latter two in percent.
    format : int
        SEG-Y sample format: 5 IEEE float, 1 IBM float, 8 one byte.
    memory : int, optional
        Bytes to use; a sixteenth of it, 64 MB at the most, for lines read together.
    provenance : dict, optional
        What the labels were made from (version, sha256 of the volume, keys ...); by default
        ``labels.attrs["provenance"]``. It goes into ``FILE.provenance.json`` and, as far as it fits, into the text
        header.

    Notes
    -----
    Codes are 0 not labelled, 255 uncertain and i + 1 for ``classes[i]``; in format 8, which holds signed bytes,
    uncertain is -1 and there are at most 127 classes. `mapping.scores.as_codes` makes codes of what is read back.
    Beside a file of labels lie its codes, ``FILE.classes.toml``, and its colours: ``FILE.alut`` for Petrel (256 lines
    of red, green, blue, opacity, one a code) and ``FILE.coltab`` for OpendTect (Manage color tables, Import, OpendTect
    file). In both programs set the range of the colour bar to 0 ... 255, for format 8 to -1 ... 254.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> _, truth = oc.datasets.synthetic((2, 30, 40), seed=0)
    >>> path = f"{tempfile.mkdtemp()}/labels.sgy"
    >>> export_segy(truth, path)
    >>> bool((oc.open_volume(path) == truth).all())
    True
    """
    labels, path = _named(labels), Path(path)
    values, unit = _pick(labels, what)
    if what == "label" and format == 8 and len(labels.attrs["classes"]) > 127:
        raise ValueError(f"Format 8 holds codes up to 127, the labels have {len(labels.attrs['classes'])}; choose 5.")
    labelled = labels.attrs.get("source", "")
    source = labelled if like is None else _source(like)
    if path.exists() and any(os.path.exists(own) and os.path.samefile(path, own) for own in (source, labelled)):
        raise ValueError(f"{path} is the volume that was labelled; choose another name for the export.")
    provenance = _provenance(labels, provenance)
    lowest = -1 if format == 8 else 0  # code at the lower end of the colour bar
    invented = _invented(labels["label"].assign_attrs(labels.attrs) if like is None else like)
    text = _text(labels, what, path, source, lowest=lowest, provenance=provenance, invented=invented)
    file, axes, live = _target(path, values, like, text=text, format=format)
    tables = _colour_tables(path, labels, lowest=lowest)
    origin = Path(f"{path}.provenance.json")
    with file as write:
        for row, section in _sections(values, axes, source, memory):
            if what == "label":
                section[section == (UNCERTAIN if lowest < 0 else -1)] = -1 if lowest < 0 else UNCERTAIN
            section *= unit
            section[~live[row]] = np.nan
            write(row, section)
        # codes and origin of an earlier file must not stay beside this one
        for table in (class_table.class_table_path(path), origin, *tables):
            table.unlink(missing_ok=True)
    if provenance:
        with whole_file(origin) as aside:
            _write_json(aside, provenance)
    if what == "label":
        class_table.write_class_table(path, labels.attrs["classes"])
        for table, text in tables.items():
            with whole_file(table) as aside:
                aside.write_text(text, encoding="utf-8")


def _provenance(labels, given):
    """What labels were made from, as JSON has it: as given, or as they tell it; empty where nobody does."""
    return _plain(given if given is not None else labels.attrs.get("provenance") or {})


def _write_json(path, values):
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _named(labels):
    """Labels as a Dataset on (class,) inline, crossline, time or depth, whose attributes name the codes."""
    if isinstance(labels, xr.DataArray):
        labels = labels.to_dataset(name="label").assign_attrs(labels.attrs)
    classes = labels.attrs.get("classes", labels["label"].attrs.get("classes"))
    if classes is None or not 0 < len(classes) < UNCERTAIN:
        raise ValueError(
            "The labels do not name their codes; set attrs['classes'] to the names of codes 1, 2, ..., 254 at most."
        )
    if labels["label"].ndim != 3 or not {"inline", "crossline"} < set(labels["label"].dims):
        raise ValueError(f"The labels have axes {labels['label'].dims}; give inline, crossline and time or depth.")
    labels = labels.transpose("class", "inline", "crossline", ..., missing_dims="ignore")
    return labels.assign_attrs(classes=[str(name) for name in classes])


def _pick(labels, what):
    """Array that `what` names, and the factor from its numbers to those of the file."""
    kind, _, name = what.partition(":")
    classes = labels.attrs["classes"]
    if kind not in labels.data_vars or (name in classes) != (kind == "score"):
        have = [v for v in ("label", "confidence") if v in labels]
        have += [f"score:{c}" for c in classes if "score" in labels]
        raise ValueError(f"{what!r} cannot be exported; these labels have {', '.join(have)}.")
    if kind == "label":
        return labels["label"], np.float32(1)
    values = labels[kind] if kind == "confidence" else labels["score"][classes.index(name)]
    return values, np.float32(100 / 255 if values.dtype == np.uint8 else 100)


def _source(like):
    return str(like.attrs.get("source", "")) if isinstance(like, xr.DataArray) else like


def _target(path, values, like, *, text, format):
    """SEG-Y file to write, its axes, and which traces of them are there."""
    volume = values if like is None else like
    if isinstance(volume, xr.DataArray) and (like is None or not str(like.attrs.get("format")).startswith("SEG-Y")):
        axes = [volume[name].values for name in volume.dims]
        bins = np.nan_to_num(volume.attrs.get("bin_size", (25.0, 25.0)), nan=25.0)
        grid = volume.attrs.get("map")
        return (
            segy_write.create(path, *axes, bin_size=bins, grid=grid, text=text, format=format),
            axes,
            live_traces(volume),
        )
    header_bytes = like.attrs["header_bytes"] if isinstance(like, xr.DataArray) else None
    geometry = segy.scan(_source(like), header_bytes=header_bytes, domain=values.dims[2])
    axes = [geometry.inlines, geometry.crosslines, geometry.samples]
    # What the source lacks is not written, what it marks dead stays so.
    every = np.broadcast_to(True, geometry.traces.shape)
    return segy_write.create_like(path, geometry, text=text, format=format), axes, every


def _sections(values, axes, source, memory):
    """Row and section of every inline of a grid, zero where the values say nothing."""
    to = [_places(axis, values[name].values) for axis, name in zip(axes, values.dims, strict=True)]
    for name, places in zip(values.dims, to, strict=True):
        if (places < 0).any():
            label = values[name].values[places < 0][0]
            raise ValueError(f"The labels have {name} {label:g}, {source} does not; give the volume they belong to.")
    shape, inside = (len(axes[1]), len(axes[2])), tuple(map(as_slice, to[1:]))
    if not any(isinstance(part, slice) for part in inside):
        inside = np.ix_(*inside)
    for row in np.setdiff1d(np.arange(len(axes[0])), to[0]):
        yield row, np.zeros(shape, np.float32)
    for span in _line_spans(values, memory):
        for row, own in zip(to[0][span], values[span].values, strict=True):
            section = np.zeros(shape, np.float32)
            section[inside] = np.nan_to_num(own)
            yield row, section


def _places(axis, labels):
    """Position on an axis of every label, -1 where the axis does not have it.

    Examples
    --------
    >>> _places(np.array([10, 12, 14]), np.array([14, 11, 10]))
    array([ 2, -1,  0])
    """
    order = np.argsort(axis, kind="stable")
    near = order[np.minimum(np.searchsorted(axis[order], np.asarray(labels) - PLACE), len(axis) - 1)]
    return np.where(np.abs(axis[near] - labels) <= PLACE, near, -1)


def _line_spans(values, memory=None):
    """Slices of neighbouring inlines that are read together: whole chunks, and no more than the memory allowed."""
    line = values.dtype.itemsize * values.shape[-2] * values.shape[-1]
    block = min(BLOCK, memory // 16) if memory else BLOCK
    return spans(values.shape[-3], max(1, block // line // LINES) * LINES)


def _invented(volume):
    """What SEG-Y headers must hold and a volume does not know: said in the text header, for nobody should trust it."""
    if not isinstance(volume, xr.DataArray) or str(volume.attrs.get("format")).startswith("SEG-Y"):
        return []
    placed = "map" in volume.attrs or "bin_size" in volume.attrs
    lines = [] if placed else ["X and Y are invented (25 m from line to line): the source has none"]
    return lines + ([] if sample_unit(volume) else ["The sample interval is invented: the source tells no unit"])


def _text(labels, what, path, source, *, lowest, provenance, invented):
    """Text header: what the file is and is not, and what it was made from, as far as that fits."""
    kind, _, name = what.partition(":")
    classes = labels.attrs["classes"]
    uncertain = -1 if lowest < 0 else UNCERTAIN
    names = {0: "not labelled", uncertain: "uncertain", **dict(enumerate(classes, 1))}
    codes = ", ".join(f"{code} = {' '.join(own.split())}" for code, own in names.items())
    about = {
        "label": [
            "LABEL VOLUME, NOT AMPLITUDES",
            textwrap.shorten(f"Codes: {codes}", 1500, placeholder=f" ... all in {path.name}.classes.toml"),
            f"Colours: {path.name}.alut (Petrel), {path.name}.coltab (OpendTect), "
            f"range of the colour bar {lowest} to {lowest + 255}",
        ],
        "confidence": ["CONFIDENCE OF LABELS IN PERCENT, NOT AMPLITUDES", "0 = unsure or not labelled, 100 = sure"],
        "score": [f"SCORE OF CLASS {name.upper()} IN PERCENT, NOT AMPLITUDES"],
    }[kind]
    mapping, limit = labels.attrs.get("mapping"), float(labels.attrs.get("min_confidence") or 0)
    version = labels.attrs.get("version", outcrop.__version__)
    rest = [
        f"Source: {Path(source).name}" if source else "",
        f"Mapping: {mapping}" if mapping else "",
        f"Limit: labels below {100 * limit:.0f} % confidence are uncertain" if limit else "",
        f"Lines: {labels.attrs['lines']}" if labels.attrs.get("lines") else "",
        f"Made by Outcrop {version}, exported {datetime.date.today().isoformat()}",
        "Depth domain, samples in m" if labels["label"].dims[2] == "depth" else "",
        *invented,
    ]
    lines = [*about, *filter(None, rest)]
    for key, value in provenance.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        line = textwrap.shorten(f"{key}: {shown}", 220, placeholder=" ...")
        if sum(len(textwrap.wrap(own, TEXT_WIDTH)) for own in [*lines, line]) <= TEXT_LINES:
            lines.append(line)
    return "\n".join(lines)


def _palette(labels):
    """Colour of every code that has a meaning, as #rrggbb."""
    from matplotlib.colors import to_hex

    found = colours(list(labels.attrs["classes"]), labels.attrs.get("colours"))
    named = {code: to_hex(colour) for code, colour in enumerate(found.values(), 1)}
    return {0: NOTHING, **named, UNCERTAIN: to_hex(COLOURS["uncertain"])}


def _colour_tables(path, labels, *, lowest):
    """Colour tables of Petrel and OpendTect as text by path: 256 colours, one for each code from the lowest on."""
    palette = _palette(labels)
    codes = [UNCERTAIN if code == -1 else code for code in range(lowest, lowest + 256)]
    shown = [palette.get(code, NOTHING) for code in codes]
    rgb = [bytes.fromhex(colour[1:]) for colour in shown]
    opaque = [code > 0 and code in palette for code in codes]
    alut = "".join(f"{r},{g},{b},{255 * seen}\n" for (r, g, b), seen in zip(rgb, opaque, strict=True))
    # A settings file of OpendTect: three header lines, then keys; segments make it jump, not fade, between codes.
    lines = ["dTect V6.6", "Default settings", datetime.datetime.now().strftime("%a %d %b %Y, %X"), "!"]
    lines += [f"1.Name: {path.stem}", "1.Marker color: 0`0`0`0", "1.Undef color: 255`255`255`0", "1.Nr segments: 256"]
    lines += [f"1.Transparency.{i}: {i / 255:.6g}`{0 if seen else 255}" for i, seen in enumerate(opaque)]
    lines += [f"1.Value-Color.{i}: {i / 255:.6g}`{r}`{g}`{b}`0" for i, (r, g, b) in enumerate(rgb)]
    return {Path(f"{path}.alut"): alut, Path(f"{path}.coltab"): "\n".join([*lines, "!", ""])}


def export_zarr(
    labels: xr.Dataset, path: str | Path, *, memory: int | None = None, provenance: dict | None = None
) -> None:
    """Write labels and what lies beside them as a Zarr 3 group that ``xarray.open_zarr`` reads by itself.

    Parameters
    ----------
    labels : Dataset or DataArray
        As for `export_segy`; ``label``, ``confidence`` and ``score`` are written, as far as they are there.
    path : path
        Folder to make, whole or not at all.
    memory : int, optional
        As for `export_segy`.
    provenance : dict, optional
        As for `export_segy`; it becomes the attribute ``provenance`` of the group.

    Notes
    -----
    Attributes of the group and of ``label``: ``classes`` (code i + 1 means ``classes[i]``), ``colours`` (as many as
    ``flag_values``), and ``flag_values`` with ``flag_meanings`` as the CF conventions have them: 0 not labelled, the
    classes, 255 uncertain.

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
    labels = _named(labels)
    classes = labels.attrs["classes"]
    meanings = " ".join("_".join(name.split()) for name in ["not labelled", *classes, "uncertain"])
    palette, provenance = _palette(labels), _provenance(labels, provenance)
    names = {"classes": classes, "colours": list(palette.values())}
    flags = {"flag_values": list(palette), "flag_meanings": meanings}
    about = {"version": outcrop.__version__, **labels.attrs, **names}
    about |= {"provenance": provenance} if provenance else {}
    with _new_folder(path) as aside:
        group = zarr.open_group(aside, mode="w", zarr_format=3, attributes=_plain(about))
        coords = {name: coord for name, coord in labels.coords.items() if coord.dtype.kind in "biuf"}
        for name, coord in coords.items():
            group.create_array(str(name), data=coord.values, dimension_names=coord.dims, attributes=_plain(coord.attrs))
        beside = " ".join(str(name) for name, coord in coords.items() if coord.dims != (name,))
        for name in ("label", "confidence", "score"):
            if name in labels:
                own = names | flags if name == "label" else {}
                own |= {"coordinates": beside} if beside else {}
                _copy_lines(labels[name], group, _plain({**labels[name].attrs, **own}), memory)
        with warnings.catch_warnings():  # xarray looks for consolidated metadata, and zarr warns that it is new
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(aside)


def _copy_lines(values, group, attrs, memory):
    """Copy an array into a Zarr group, block of lines by block of lines."""
    chunks = (1,) * (values.ndim - 3) + tuple(map(min, CHUNKS, values.shape[-3:]))
    array = group.create_array(
        values.name,
        shape=values.shape,
        chunks=chunks,
        dtype=values.dtype,
        dimension_names=values.dims,
        attributes=attrs,
    )
    for lead in np.ndindex(values.shape[:-3]):
        for span in _line_spans(values, memory):
            array[(*lead, span)] = values[(*lead, span)].values


def _plain(attrs):
    """Attributes as JSON has them."""
    return json.loads(
        json.dumps(attrs, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    )


def _new_folder(path):
    """Folder to write to that becomes `path` on a clean exit; nothing that is there is replaced."""
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{path} is already there; remove it or choose another name.")
    return whole_file(path)


def export_training_set(
    labels: xr.Dataset,
    folder: str | Path,
    *,
    volume: xr.DataArray,
    grid: PatchGrid,
    weak: WeakLabels | None = None,
    format: str = "png",
    gap: int = NEAR_LINES,
    seed: int = 0,
    provenance: dict | None = None,
) -> pd.DataFrame:
    """Write patches with their masks for training a net, split by blocks of lines so that neighbours do not leak.

    Parameters
    ----------
    labels : Dataset or DataArray
        As for `export_segy`, on the axes of the volume or on some of its lines.
    folder : path
        Folder to make, whole or not at all: ``images``, ``masks``, ``confidence`` (where the labels have it),
        ``manifest.csv`` and ``classes.toml``.
    volume : DataArray
        Where the images come from.
    grid : PatchGrid
        Where the patches lie.
    weak : WeakLabels, optional
        Export these patches, with their class and similarity; by default all patches of the grid, with the class that
        fills most of the mask.
    format : {"png", "npy"}
        Images as 8-bit PNG or as float32 in [0, 1]; masks and confidence are 8-bit in both.
    gap : int
        Lines left out between patches of different splits.
    seed : int
        Of the split.
    provenance : dict, optional
        As for `export_segy`; it becomes ``provenance.json``.

    Returns
    -------
    manifest : DataFrame
        One row per patch: file, mask, weight (its confidence file), class, similarity, confidence (mean over the
        labelled pixels, 0 to 1), inline, crossline and time or depth of the centre, along, split.

    Notes
    -----
    Masks hold 0 where nothing is labelled, 255 where the label is uncertain, both to be ignored, and i + 1 for
    ``classes[i]``. Patches without a label, or with a missing trace, are left out. Where the lines are too few to
    split, all is ``train``.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> table = export_training_set(truth, f"{tempfile.mkdtemp()}/patches", volume=volume, grid=grid)
    >>> len(table), table["split"].unique().tolist()
    (24, ['train'])
    """
    labels = _named(labels)
    if format not in ("png", "npy"):
        raise ValueError(f"format is {format!r}; choose png or npy.")
    known, starts = _wanted_patches(grid, weak)
    first, last = _touched_lines(grid, starts)
    known["split"] = split_by_lines(first, last, known["class"], gap=gap, seed=seed)
    keep = np.lexsort(starts.T[::-1])  # line by line
    keep = keep[known["split"].to_numpy()[keep] != ""]
    known, starts = known.iloc[keep].reset_index(drop=True), starts[keep]
    with _new_folder(folder) as aside:
        for name in ("images", "masks", *(["confidence"] if "confidence" in labels else [])):
            (aside / name).mkdir(parents=True)
        records, commonest = {}, {}
        for number, image, mask, sure in _labelled_patches(labels, volume, grid, starts):
            records[number] = _write_patch(aside, f"{number:06d}.{format}", image, mask, sure)
            commonest[number] = np.bincount(mask[labelled(mask)]).argmax()
        if not records:
            raise ValueError("None of these patches has a label; give the labels of the lines that the patches lie on.")
        manifest = pd.DataFrame.from_dict(records, orient="index").join(known)
        if weak is None:
            manifest["class"] = [labels.attrs["classes"][code - 1] for code in commonest.values()]
        place = ["inline", "crossline", labels["label"].dims[2], "along"]
        order = ["file", "mask", "weight", "class", "similarity", "confidence", *place, "split"]
        manifest = manifest[order].reset_index(drop=True)
        manifest.to_csv(aside / "manifest.csv", index=False)
        made = {"source": volume.attrs.get("source", ""), "gain": grid.gain, "clip": grid.clip, "size": list(grid.size)}
        made |= {"gap": int(gap), "seed": int(seed), "format": format, "version": outcrop.__version__}
        _write_classes(aside / "classes.toml", labels.attrs["classes"], _palette(labels), made)
        if origin := _provenance(labels, provenance):
            _write_json(aside / "provenance.json", origin)
    return manifest


def _wanted_patches(grid, weak):
    """Class, similarity and centre of the patches to export, and where they start."""
    if weak is None:
        return grid.table.assign(**{"class": "", "similarity": np.nan}), grid.starts
    time = weak.positions.columns[2]
    places = zip(*(weak.positions[name] for name in ("inline", "crossline", time, "along")), strict=True)
    starts = np.array([grid.start_at(place, along=along) for *place, along in places])
    direction, line, trace, top = starts.T
    middle = trace + grid.size[1] // 2
    known = {
        "class": np.asarray(weak.classes),
        "similarity": np.round(weak.similarity, 6),
        "inline": grid.axes[0][np.where(direction == 0, line, middle)],
        "crossline": grid.axes[1][np.where(direction == 0, middle, line)],
        time: grid.axes[2][top + grid.size[0] // 2],
        "along": np.array(DIRECTIONS)[direction],
    }
    return pd.DataFrame(known), starts


def _touched_lines(grid, starts):
    """First and last line, as positions, that each patch touches on the axis by which a training set is split."""
    axis = int(grid.along == "crossline")
    direction, line, trace, _ = starts.T
    along = direction == axis  # with patches on both kinds of line, those across span many
    return np.where(along, line, trace), np.where(along, line, trace + grid.size[1] - 1)


def split_by_lines(first, last, classes, *, gap=NEAR_LINES, seed=0):
    """Train, val or test for every patch, in blocks of lines, with a gap between blocks of different splits.

    Parameters
    ----------
    first, last : array of int, shape (n,)
        First and last line that each patch touches.
    classes : sequence, shape (n,)
        Of the patches.
    gap : int
        Lines between patches of different splits.
    seed : int
        Of the draws of blocks, of which the one that comes closest to 70, 15 and 15 percent of each class is taken.

    Returns
    -------
    split : array of str, shape (n,)
        Empty for patches in a gap; ``train`` for all where there are too few lines for three blocks.

    Examples
    --------
    >>> lines = np.arange(100)
    >>> split = split_by_lines(lines, lines, ["fault"] * 100, gap=5)
    >>> {str(name): int((split == name).sum()) for name in ("train", "val", "test", "")}
    {'train': 61, 'val': 14, 'test': 15, '': 10}
    """
    if gap < 0:
        raise ValueError(f"gap is {gap}; choose 0 lines or more.")
    codes, n_lines = pd.factorize(np.asarray(classes))[0], int(np.max(last) - np.min(first)) + 1
    most = min(MOST_BLOCKS, n_lines // (2 * gap + 1))
    if most < 3:
        return np.full(len(codes), "train")
    wanted = np.array(list(SPLITS.values())) * np.bincount(codes)[:, None]
    # Patches of one class on the same lines go together, whatever the draw.
    shape = (n_lines, n_lines, len(wanted))
    alike = np.ravel_multi_index((np.asarray(first) - np.min(first), np.asarray(last) - np.min(first), codes), shape)
    alike, own, weights = np.unique(alike, return_inverse=True, return_counts=True)
    first, last, codes = np.unravel_index(alike, shape)
    rng = np.random.default_rng(seed)
    best, least = own, np.inf
    for _ in range(DRAWS):
        lines = _draw_lines(rng, n_lines, rng.integers(3, most + 1), gap)
        run = np.concatenate([[0], np.cumsum(np.diff(lines) != 0)])
        split = np.where(run[first] == run[last], lines[first], 3)
        count = np.bincount(4 * codes + split, weights, minlength=4 * len(wanted)).reshape(-1, 4)
        miss = np.sum((count[:, :3] / wanted - 1) ** 2)
        if miss < least:
            best, least = split, miss
    return np.array([*SPLITS, ""])[best[own]]


def _draw_lines(rng, n_lines, n_blocks, gap):
    """Random split (0, 1, 2) of every line in blocks of random length, 3 in the gaps between different ones."""
    shortest = 2 * gap + 1  # keeps more lines than its gaps take
    blocks = rng.permutation(np.append([0, 1, 2], rng.choice(3, n_blocks - 3, p=list(SPLITS.values()))))
    spare = rng.multinomial(n_lines - n_blocks * shortest, rng.dirichlet(np.ones(n_blocks)))
    lines = np.repeat(blocks, shortest + spare)
    edges = np.cumsum(shortest + spare)[:-1]
    for edge in edges[np.diff(blocks) != 0]:
        lines[edge - gap // 2 : edge - gap // 2 + gap] = 3
    return lines


def _labelled_patches(labels, volume, grid, starts):
    """Number, image, mask and confidence (or None) of the patches that have a label, a block of lines at a time."""
    names = [name for name in ("label", "confidence") if name in labels]
    places = [_places(labels[name].values, axis) for name, axis in zip(labels["label"].dims, grid.axes, strict=True)]
    _, block = np.unique(starts[:, :2] // (1, LINES), axis=0, return_inverse=True)
    for own in (np.flatnonzero(block.ravel() == number) for number in range(block.max() + 1)):
        direction = starts[own[0], 0]
        lines = np.unique(starts[own, 1])
        lines = lines[places[direction][lines] >= 0]
        read = labels[names].isel({DIRECTIONS[direction]: places[direction][lines]}).load()
        for number, line in enumerate(lines):
            here = own[starts[own, 1] == line]
            sections = [read[name].isel({DIRECTIONS[direction]: number}).values for name in names]
            for i, image in zip(here, grid.cut(volume, starts[here]), strict=True):
                window = _window(places, starts[i], grid.size)
                masks = [as_codes(s[np.ix_(*window)]).T for s in sections if window]
                if masks and labelled(masks[0]).any() and np.isfinite(image).all():
                    yield i, image, masks[0], masks[1] if len(masks) > 1 else None


def _window(places, start, size):
    """Positions of the traces and samples of a patch on the axes of the labels, None where they do not reach."""
    direction, _, trace, top = start
    window = places[1 - direction][trace : trace + size[1]], places[2][top : top + size[0]]
    return window if min(window[0].min(), window[1].min()) >= 0 else None


def _write_patch(folder, name, image, mask, confidence):
    """Write the files of a patch; returns its part of the manifest."""
    pixels = image if name.endswith(".npy") else np.round(255 * image).astype(np.uint8)
    files = {"file": ("images", pixels), "mask": ("masks", mask), "weight": ("confidence", confidence)}
    for subfolder, array in files.values():
        if array is not None:
            _save(folder / subfolder / name, array)
    record: dict[str, Any] = {key: f"{sub}/{name}" if array is not None else "" for key, (sub, array) in files.items()}
    record["confidence"] = np.nan if confidence is None else round(float(confidence[labelled(mask)].mean() / 255), 4)
    return record


def _save(path, array):
    if path.suffix == ".npy":
        np.save(path, np.asarray(array))
        return
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(array)).save(path)


def _within(folder, name):
    """Path of a file that a manifest names, which must lie in its folder."""
    path = folder / str(name)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{folder / 'manifest.csv'} names {name!r}, outside its folder; mend or export it again.")
    return path


def _load(path):
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture)


def _write_classes(path, classes, palette, made):
    """Write names and colours of the codes, and how the patches were made."""
    tables: dict[str, Any] = {
        "classes": {str(code): name for code, name in enumerate(classes, 1)},
        "colours": {str(code): colour for code, colour in palette.items()},
        "made": {name: value for name, value in made.items() if value is not None},
    }
    path.write_text(
        "# Codes of the masks; 0 is not labelled and 255 uncertain, both are to be ignored.\n" + tomli_w.dumps(tables),
        encoding="utf-8",
    )


def TrainingSet(folder: str | Path, split: str = "train") -> Any:
    """Open one split of a training set as a ``torch.utils.data.Dataset``.

    Parameters
    ----------
    folder : path
        As `export_training_set` wrote it.
    split : {"train", "val", "test"}

    Returns
    -------
    torch.utils.data.Dataset
        Its items are (image, mask, weight): float32 of shape (1, height, width) in [0, 1], int64 of shape
        (height, width) with 0 for not labelled and 255 for uncertain, and float32 of shape (height, width), the
        confidence of the labels, 0 where the mask is 0 or 255. ``classes`` names the codes from 1 on, ``manifest`` is
        the table of the patches.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> folder = f"{tempfile.mkdtemp()}/patches"
    >>> table = oc.export_training_set(truth, folder, volume=volume, grid=grid)
    >>> image, mask, weight = TrainingSet(folder)[0]
    >>> tuple(image.shape), tuple(mask.shape), tuple(weight.shape)
    ((1, 32, 32), (32, 32), (32, 32))
    """
    try:
        import torch
        from torch.utils.data import Dataset
    except ImportError:
        raise ImportError("TrainingSet needs PyTorch; install it with: pip install 'outcrop[torch]'.") from None

    class Patches(Dataset):
        def __init__(self):
            self.folder, (self.manifest, self.classes) = Path(folder), _read_manifest(folder, split)

        def __reduce__(self):  # workers that are spawned import this module and open the folder again
            return TrainingSet, (folder, split)

        def __len__(self):
            return len(self.manifest)

        def __getitem__(self, number):
            files = self.manifest.iloc[number]
            image, mask = (_load(_within(self.folder, files[name])) for name in ("file", "mask"))
            image = image / np.float32(255) if image.dtype == np.uint8 else image
            weight = files["weight"]
            sure = _load(_within(self.folder, weight)) / np.float32(255) if weight else np.float32(1)
            weight = np.where(labelled(mask), sure, 0).astype(np.float32)
            return torch.from_numpy(image[None]), torch.from_numpy(mask.astype(np.int64)), torch.from_numpy(weight)

    return Patches()


def _read_manifest(folder, split):
    """Manifest of one split, and names of the codes."""
    try:
        manifest = pd.read_csv(
            Path(folder) / "manifest.csv", keep_default_na=False, na_values={"similarity": "", "confidence": ""}
        )
        names = tomllib.loads((Path(folder) / "classes.toml").read_text(encoding="utf-8"))["classes"]
    except FileNotFoundError as error:
        raise ValueError(f"{folder} is no training set ({error.filename} is missing); export one.") from None
    own = manifest[manifest["split"] == split].reset_index(drop=True)
    if own.empty:
        have = ", ".join(f"{name} {count}" for name, count in manifest["split"].value_counts().items())
        raise ValueError(f"{folder} has no patches in split {split!r}; it has {have}.")
    return own, [names[str(code)] for code in range(1, len(names) + 1)]
