"""Export of labels as a NumPy array, or of one section as a picture."""

import os
from pathlib import Path

import numpy as np
from xarray import Dataset

from outcrop.export.colour_tables import code_colours
from outcrop.export.label_segy import pick
from outcrop.export.lines import line_spans, provenance_of, write_json
from outcrop.storage.workspace import whole_file
from outcrop.volumes import class_table

ARRAYS = (".npy", ".png")


def export_array(labels: Dataset, path: str | Path, *, what: str = "label", memory: int | None = None) -> None:
    """Write labels, their confidence, or the score or mask of a class as a .npy or .png file of uint8.

    Parameters
    ----------
    labels : Dataset
        As for `export_segy`.
    path : path
        File to write; if writing fails, an existing file stays unchanged. A .npy file has the axes (inline, crossline,
        time or depth), or (time, trace) if the labelled volume is a .npy file with these two axes. A .png file holds
        one section, time downwards; its pixels are codes with a colour table.
    what : str
        As for `export_segy`, but confidence and scores run from 0 to 255.
    memory : int, optional
        As for `export_segy`.
    """
    path, origin = Path(path), Path(f"{path}.provenance.json")
    source = str(labels.attrs.get("source", ""))
    values, _, code = pick(labels, what)
    if path.exists() and not origin.is_file():
        raise ValueError(f"{path} is already there and was not written by Outcrop; remove it or choose another name.")
    if path.suffix == ".png" and len(values) > 1:
        raise ValueError(f"A picture holds one section, but the labels have {len(values)} inlines; write OUT.npy.")
    section = path.suffix == ".png" or (
        source.endswith(".npy") and os.path.isfile(source) and np.load(source, mmap_mode="r").ndim == 2
    )
    table = class_table.class_table_path(path)
    table.unlink(missing_ok=True)
    with whole_file(path) as aside:
        if section:
            codes = values[0].values.T
            codes = codes if code is None else np.equal(codes, code).astype(np.uint8)
            if path.suffix == ".npy":
                with open(aside, "wb") as file:
                    np.save(file, codes)
            else:
                _save_picture(aside, codes, labels if what == "label" else None)
        else:
            array = np.lib.format.open_memmap(aside, "w+", np.uint8, values.shape)
            for span in line_spans(values, memory):
                array[span] = values[span].values if code is None else values[span].values == code
            array.flush()
            del array  # Windows cannot move a mapped file
    write_json(origin, provenance_of(labels, None))
    if what == "label":
        class_table.write_class_table(path, labels.attrs["classes"])


def _save_picture(path: Path, codes: np.ndarray, labels: Dataset | None) -> None:
    """Save codes as a PNG picture: in the class colours of `labels`, or in grey if `labels` is None."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(codes))
    if labels is not None:
        palette = np.zeros((256, 3), np.uint8)
        for code, colour in code_colours(labels).items():
            palette[code] = list(bytes.fromhex(colour[1:]))
        image.putpalette(palette.tobytes())
    image.save(path, format="png")
