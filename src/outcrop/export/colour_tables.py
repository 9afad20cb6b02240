"""Colour tables of label codes for Petrel and OpendTect."""

import datetime
from pathlib import Path

from xarray import Dataset

from outcrop.mapping.confidence import UNCERTAIN
from outcrop.plots.colours import COLOURS, colours

NOTHING = "#ffffff"  # colour of samples that are not labelled


def code_colours(labels: Dataset) -> dict[int, str]:
    """Return a dict: code -> colour as #rrggbb, for 0 (not labelled), the codes of the classes, and 255 (uncertain)."""
    from matplotlib.colors import to_hex

    found = colours(list(labels.attrs["classes"]), labels.attrs.get("colours"))
    named = {code: to_hex(colour) for code, colour in enumerate(found.values(), 1)}
    return {0: NOTHING, **named, UNCERTAIN: to_hex(COLOURS["uncertain"])}


def colour_tables(path: Path, labels: Dataset, *, lowest: int) -> dict[Path, str]:
    """Return the colour tables of the label file `path` as a dict: file to write -> its text.

    The files are for Petrel (.alut) and OpendTect (.coltab). Each table has the colours of 256 codes; the
    first is the code `lowest`.
    """
    palette = code_colours(labels)
    codes = [UNCERTAIN if code == -1 else code for code in range(lowest, lowest + 256)]
    rgb = [bytes.fromhex(palette.get(code, NOTHING)[1:]) for code in codes]
    opaque = [code > 0 and code in palette for code in codes]
    alut = "".join(f"{r},{g},{b},{255 * seen}\n" for (r, g, b), seen in zip(rgb, opaque, strict=True))
    # OpendTect: four header lines, then keys. With segments, colours change abruptly between codes.
    lines = ["dTect V6.6", "Default settings", datetime.datetime.now().strftime("%a %d %b %Y, %X"), "!"]
    lines += [f"1.Name: {path.stem}", "1.Marker color: 0`0`0`0", "1.Undef color: 255`255`255`0", "1.Nr segments: 256"]
    lines += [f"1.Transparency.{i}: {i / 255:.6g}`{0 if seen else 255}" for i, seen in enumerate(opaque)]
    lines += [f"1.Value-Color.{i}: {i / 255:.6g}`{r}`{g}`{b}`0" for i, (r, g, b) in enumerate(rgb)]
    return {Path(f"{path}.alut"): alut, Path(f"{path}.coltab"): "\n".join([*lines, "!", ""])}
