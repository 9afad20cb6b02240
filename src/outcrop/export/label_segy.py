"""Export of labels, confidence or scores as SEG-Y on the grid of a volume."""

import datetime
import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from xarray import DataArray, Dataset

import outcrop
from outcrop.export.colour_tables import colour_tables
from outcrop.export.lines import PLACE, line_spans, provenance_of, write_json
from outcrop.labels.named import named_labels
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.storage.workspace import whole_file
from outcrop.volumes import class_table, segy, segy_write
from outcrop.volumes.axes import positions_of
from outcrop.volumes.lazy import as_slice, live_traces
from outcrop.volumes.neighbours import line_spacing
from outcrop.volumes.opening import segy_geometry
from outcrop.volumes.summary import sample_unit

TEXT_LINES, TEXT_WIDTH = 38, 75  # lines of the SEG-Y text header that Outcrop fills, and their width in characters
PLAIN = str.maketrans("[]{}", "()()")  # the codes of [ ] { } differ between EBCDIC tables


def export_segy(
    labels: Dataset,
    path: str | Path,
    *,
    like: str | Path | DataArray | None = None,
    what: str = "label",
    format: int = 5,
    memory: int | None = None,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write labels, their confidence, or the score or mask of a class as SEG-Y, with a text header that describes them.

    Parameters
    ----------
    labels : Dataset or DataArray, dims (inline, crossline, time or depth)
        As `label_volume` returns it, or codes alone; ``attrs["classes"]`` names the codes 1, 2, ..., and
        ``attrs["colours"]``, class -> colour, is optional.
    path : path
        File to write; if writing fails, an existing file stays unchanged.
    like : path or volume, optional
        SEG-Y file of the labelled volume, or the volume that `open_volume` opened from it: its trace headers are copied
        byte for byte, and its binary header except the sample format. If the volume has another format, only its axes
        are used, and X and Y if it has them. Samples without a label become 0. By default the grid is that of `labels`.
    what : str
        ``label``; ``confidence`` or ``score:CLASS``, in percent; or ``class:CLASS``, 1 where the label is this class,
        else 0.
    format : int
        SEG-Y sample format: 5 IEEE float, 1 IBM float, 8 one byte.
    memory : int, optional
        Bytes of memory to use; a block of lines that are read together takes up to a sixteenth of this, 64 MB at most.
    provenance : dict, optional
        Version, checksum of the volume and other facts about how the labels were made; by default
        ``labels.attrs["provenance"]``. It is written to ``FILE.provenance.json`` and, as far as it fits, to the text
        header.

    Notes
    -----
    Codes are 0 not labelled, 255 uncertain and i + 1 for ``classes[i]``; in format 8, which holds signed bytes,
    uncertain is -1 and there are at most 127 classes. `mapping.confidence.as_codes` converts values of such a file back
    to codes. An export of labels also writes the names of the codes, ``FILE.classes.toml``, and their colours:
    ``FILE.alut`` for Petrel (256 rows of red, green, blue and opacity, one for each code) and ``FILE.coltab`` for
    OpendTect (Manage color tables, Import, OpendTect file). In both programs set the range of the colour bar to
    0 ... 255, for format 8 to -1 ... 254.

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
    labels, path = named_labels(labels), Path(path)
    values, unit, code = pick(labels, what)
    if what == "label" and format == 8 and len(labels.attrs["classes"]) > 127:
        raise ValueError(
            f"Format 8 holds codes up to 127, the labels have {len(labels.attrs['classes'])} classes; choose format 5."
        )
    labelled = labels.attrs.get("source", "")
    source = like.attrs.get("source", "") if isinstance(like, DataArray) else like or labelled
    if path.exists() and any(
        os.path.exists(source_file) and os.path.samefile(path, source_file) for source_file in (source, labelled)
    ):
        raise ValueError(f"{path} is the volume that was labelled; choose another name for the export.")
    provenance = provenance_of(labels, provenance)
    lowest = -1 if format == 8 else 0  # code at the lower end of the colour bar
    invented = _invented_headers(labels["label"].assign_attrs(labels.attrs) if like is None else like)
    text = _text_header(labels, what, path, source, lowest=lowest, provenance=provenance, invented=invented)
    file, axes, live = _new_file(path, values, like, text=text, format=format)
    tables = colour_tables(path, labels, lowest=lowest)
    origin = Path(f"{path}.provenance.json")
    with file as write:
        for row, section in _sections(values, axes, source, memory):
            if what == "label":
                section[section == (UNCERTAIN if lowest < 0 else -1)] = -1 if lowest < 0 else UNCERTAIN
            if code is not None:
                section = (section == code).astype(np.float32)
            section *= unit
            section[~live[row]] = np.nan
            write(row, section)
        # remove the codes and the provenance of an earlier file of this name
        for table in (class_table.class_table_path(path), origin, *tables):
            table.unlink(missing_ok=True)
    if provenance:
        with whole_file(origin) as aside:
            write_json(aside, provenance)
    if what == "label":
        class_table.write_class_table(path, labels.attrs["classes"])
        for table, text in tables.items():
            with whole_file(table) as aside:
                aside.write_text(text, encoding="utf-8")


def pick(labels: Dataset, what: str) -> tuple[DataArray, np.float32, int | None]:
    """Return (array to export, factor that scales it for SEG-Y, code of a class or None).

    The factor scales confidence and scores to percent, and is 1 for labels and masks. The code is None unless `what` is
    ``class:CLASS``; then the export is a mask: samples with this code become 1, all others 0.
    """
    kind, _, name = what.partition(":")
    classes = labels.attrs["classes"]
    if kind == "class" and name in classes:
        return labels["label"], np.float32(1), 1 + classes.index(name)
    if kind not in labels.data_vars or (name in classes) != (kind == "score"):
        have = [v for v in ("label", "confidence") if v in labels]
        have += [f"score:{c}" for c in classes if "score" in labels] + [f"class:{c}" for c in classes]
        raise ValueError(f"{what!r} cannot be exported; these labels have {', '.join(have)}.")
    if kind == "label":
        return labels["label"], np.float32(1), None
    values = labels[kind] if kind == "confidence" else labels["score"][classes.index(name)]
    return values, np.float32(100 / 255 if values.dtype == np.uint8 else 100), None


def _new_file(
    path: Path, values: DataArray, like: str | Path | DataArray | None, *, text: str, format: int
) -> tuple[Any, list[np.ndarray], np.ndarray]:
    """Return (writer of a SEG-Y file, axes of the file, mask of the traces to write).

    The file has the grid and trace headers of `like`, or the grid of `values` if `like` is None.
    """
    volume = values if like is None else like
    if not isinstance(volume, DataArray):
        geometry = segy.scan(volume, domain=str(values.dims[2]))
    elif like is not None and str(volume.attrs.get("format")).startswith("SEG-Y"):
        geometry = segy_geometry(volume)
    else:
        axes = [volume[name].values for name in volume.dims]
        bins = tuple(np.nan_to_num(line_spacing(volume) or (25.0, 25.0), nan=25.0).tolist())
        grid = volume.attrs.get("map")
        file = segy_write.create(path, *axes, bin_size=bins, grid=grid, text=text, format=format)
        return file, axes, live_traces(volume)
    axes = [geometry.inlines, geometry.crosslines, geometry.samples]
    # `create_like` itself skips traces that the source lacks, and writes its dead traces
    every = np.broadcast_to(True, geometry.traces.shape)
    return segy_write.create_like(path, geometry, text=text, format=format), axes, every


def _sections(
    values: DataArray, axes: list[np.ndarray], source: str | Path, memory: int | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (position of the inline, section) for every inline of a file; `values` is the array to export.

    `axes` are the axes of the file. A section has the shape (crosslines, samples); samples that `values` lacks are 0.
    """
    positions = [positions_of(axis, values[name].values, PLACE) for axis, name in zip(axes, values.dims, strict=True)]
    for name, found in zip(values.dims, positions, strict=True):
        if (found < 0).any():
            label = values[name].values[found < 0][0]
            raise ValueError(
                f"The labels have {name} {label:g}, but {source} does not; give the volume they belong to."
            )
    shape, inside = (len(axes[1]), len(axes[2])), tuple(map(as_slice, positions[1:]))
    if not any(isinstance(part, slice) for part in inside):
        inside = np.ix_(*inside)
    for row in np.setdiff1d(np.arange(len(axes[0])), positions[0]):
        yield row, np.zeros(shape, np.float32)
    for span in line_spans(values, memory):
        for row, line_values in zip(positions[0][span], values[span].values, strict=True):
            section = np.zeros(shape, np.float32)
            section[inside] = np.nan_to_num(line_values)
            yield row, section


def _invented_headers(volume: str | Path | DataArray) -> list[str]:
    """Return warnings, for the text header, about header values that are required but unknown for this volume."""
    if not isinstance(volume, DataArray) or str(volume.attrs.get("format")).startswith("SEG-Y"):
        return []
    placed = "map" in volume.attrs or "bin_size" in volume.attrs
    lines = [] if placed else ["X and Y are invented (25 m from line to line): the source has none"]
    return lines + ([] if sample_unit(volume) else ["The sample interval is invented: the source has no unit"])


def _text_header(
    labels: Dataset,
    what: str,
    path: Path,
    source: str | Path,
    *,
    lowest: int,
    provenance: dict[str, Any],
    invented: list[str],
) -> str:
    """Return the text header: content of the file, meaning of the codes, and as much provenance as fits."""
    kind, _, name = what.partition(":")
    classes = labels.attrs["classes"]
    uncertain = -1 if lowest < 0 else UNCERTAIN
    names = {0: "not labelled", uncertain: "uncertain", **dict(enumerate(classes, 1))}
    codes = ", ".join(f"{code} = {' '.join(words.split())}" for code, words in names.items())
    content = {
        "label": [
            "LABEL VOLUME, NOT AMPLITUDES",
            textwrap.shorten(f"Codes: {codes}", 1500, placeholder=f" ... all in {path.name}.classes.toml"),
            f"Colours: {path.name}.alut (Petrel), {path.name}.coltab (OpendTect), "
            f"range of the colour bar {lowest} to {lowest + 255}",
        ],
        "confidence": ["CONFIDENCE OF LABELS IN PERCENT, NOT AMPLITUDES", "0 = unsure or not labelled, 100 = sure"],
        "score": [f"SCORE OF CLASS {name.upper()} IN PERCENT, NOT AMPLITUDES"],
        "class": [f"MASK OF CLASS {name.upper()}: 1 = THIS CLASS, 0 = OTHER CLASSES OR NOT LABELLED"],
    }[kind]
    mapping, limit = labels.attrs.get("mapping"), float(labels.attrs.get("min_confidence") or 0)
    version = labels.attrs.get("version", outcrop.__version__)
    origin = [
        f"Source: {Path(source).name}" if source else "",
        f"Mapping: {mapping}" if mapping else "",
        f"Limit: labels below {100 * limit:.0f} % confidence are uncertain" if limit else "",
        f"Lines: {labels.attrs['lines']}" if labels.attrs.get("lines") else "",
        f"Made by Outcrop {version}, exported {datetime.date.today().isoformat()}",
        "Depth domain" if labels["label"].dims[2] == "depth" else "",
        *invented,
    ]
    lines = [*content, *filter(None, origin)]
    for key, value in provenance.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        line = textwrap.shorten(f"{key}: {shown}", 220, placeholder=" ...")
        if sum(len(textwrap.wrap(words, TEXT_WIDTH)) for words in [*lines, line]) <= TEXT_LINES:
            lines.append(line)
    return "\n".join(lines).translate(PLAIN)
