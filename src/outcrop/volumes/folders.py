"""Open a folder of single lines (pictures, arrays or SEG-Y files) as one volume.

Line numbers come from the file names or, for SEG-Y files, also from the trace headers.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.volumes import class_table
from outcrop.volumes.axes import name_axes, positions_of
from outcrop.volumes.lazy import Key, NpyFile, PictureFile, lazy_volume, live_traces, take_block
from outcrop.words import counted

Array = npt.NDArray[Any]

ZARR = ("zarr.json", ".zarray", ".zgroup", ".zmetadata", ".zattrs")
KINDS: dict[str, set[str]] = {
    "pictures": {".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg"},
    "NumPy files": {".npy"},
    "SEG-Y files": {".sgy", ".segy"},
}
BEFORE = r"(?:^|.*[^a-z])"  # part of a file name before a word such as inline
CROSSLINE = re.compile(BEFORE + r"(?:xl|xline|crossline|cross[\W_]line)[\W_]*")
SLICE = re.compile(BEFORE + r"(?:time|twt|depth|z|ts|(?:time|depth)[\W_]*slice)[\W_]*")


def is_zarr(folder: str | Path) -> bool:
    """Return whether a folder is a Zarr store: whether it contains a metadata file of Zarr."""
    return any((Path(folder) / name).exists() for name in ZARR)


def find_lines(folder: str | Path) -> tuple[str, list[Path], int]:
    """Find the files of single lines in a folder.

    Parameters
    ----------
    folder : path

    Returns
    -------
    kind : str
        A key of `KINDS`; empty if the folder has no files of these kinds.
    files : list of Path
        The files of this kind, sorted by name.
    others : int
        Number of other files, which are ignored.

    Raises
    ------
    ValueError
        The folder holds files of two kinds.
    """
    files = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    found = {kind: [path for path in files if path.suffix.lower() in ends] for kind, ends in KINDS.items()}
    kinds = [kind for kind, paths in found.items() if paths]
    if len(kinds) > 1:
        raise ValueError(f"{folder} holds {' and '.join(kinds)}; give a folder with lines of one kind.")
    if not kinds:
        return "", [], len(files)
    return kinds[0], found[kinds[0]], len(files) - len(found[kinds[0]])


def number_files(files: list[Path]) -> tuple[list[int], str]:
    """Return (line numbers, direction) of files, read from the file names; direction is ``inline`` or ``crossline``.

    Examples
    --------
    >>> number_files([Path("f3_xl_300.png"), Path("f3_xl_0310.png")])
    ([300, 310], 'crossline')
    >>> number_files([Path("61.bmp"), Path("211.bmp")])
    ([61, 211], 'inline')
    """
    parts = [re.split(r"(\d+)", path.stem.lower()) for path in files]
    words, folder = parts[0][::2], files[0].parent
    for path, part in zip(files, parts, strict=True):
        if part[::2] != words:
            raise ValueError(
                f"{files[0].name} and {path.name} in {folder} are named in different ways; give a folder of files "
                "whose names differ in one number only, such as inline_100.png, inline_101.png."
            )
    numbers = [list(map(int, column)) for column in zip(*(part[1::2] for part in parts), strict=True)]
    varying = [column for column, values in enumerate(numbers) if len(set(values)) > 1]
    if len(files) == 1 and numbers:
        varying = [len(numbers) - 1]
    if len(varying) != 1:
        what = "differ in more than one number" if varying else "have no number that differs"
        raise ValueError(
            f"File names in {folder}, such as {files[0].name}, {what}; give each line one number, such as "
            "inline_100.png, inline_101.png."
        )
    before, found = words[varying[0]], numbers[varying[0]]
    if len(set(found)) < len(found):
        twice = next(number for number in found if found.count(number) > 1)
        raise ValueError(f"{folder} holds {found.count(twice)} files of line {twice}; keep one of them.")
    if SLICE.fullmatch(before):
        raise ValueError(
            f"{folder} holds time or depth slices ({files[0].name}); give a folder of inlines or crosslines."
        )
    return found, "crossline" if CROSSLINE.fullmatch(before) else "inline"


@dataclasses.dataclass(frozen=True)
class Part:
    """One of several files that form a volume: its axes, and a function that reads a block of its amplitudes.

    Attributes
    ----------
    path : str
    inlines, crosslines, samples : array
        Inline numbers, crossline numbers, and times or depths.
    read : callable
        ``read(key)`` returns a block of amplitudes; `key` has a slice or an array of positions for each axis.
    live : array of bool, shape (n_inline, n_crossline)
        Whether each trace holds data.
    """

    path: str
    inlines: Array
    crosslines: Array
    samples: Array
    read: Callable[[Key], Array]
    live: Array


class Mosaic:
    """Volume made of several files that have no trace in common; its axes have the lines of all files.

    Parameters
    ----------
    parts : list of Part
        The files.

    Attributes
    ----------
    inlines, crosslines, samples : array
        Inline numbers, crossline numbers, and times or depths.
    live : array of bool, shape (n_inline, n_crossline)
        Whether each trace holds data.
    """

    def __init__(self, parts: list[Part]) -> None:
        self.parts, self.samples = parts, parts[0].samples
        for part in parts[1:]:
            if part.samples.shape != self.samples.shape or not np.allclose(part.samples, self.samples, atol=1e-3):
                raise ValueError(
                    f"{parts[0].path} has {_extent(self.samples)}, {part.path} has {_extent(part.samples)}; "
                    "give lines with the same samples."
                )
        self.inlines = np.unique(np.concatenate([part.inlines for part in parts]))
        self.crosslines = np.unique(np.concatenate([part.crosslines for part in parts]))
        self.live = np.zeros((len(self.inlines), len(self.crosslines)), bool)
        places = [
            (positions_of(self.inlines, part.inlines), positions_of(self.crosslines, part.crosslines)) for part in parts
        ]
        self.first, self.last = (
            np.array([[end(rows), end(columns)] for rows, columns in places]) for end in (np.min, np.max)
        )
        for part, where in zip(parts, places, strict=True):
            if (self.live[np.ix_(*where)] & part.live).any():
                raise ValueError(f"{part.path} holds traces that another file of the folder also holds; remove one.")
            self.live[np.ix_(*where)] |= part.live

    def read(self, key: Key) -> Array:
        """Read a block of amplitudes at the positions in `key`, one slice or array per axis; missing traces are NaN."""
        wanted = [np.arange(n)[k] for k, n in zip(key[:2], self.live.shape, strict=True)]
        block = np.full((*map(len, wanted), len(self.samples[key[2]])), np.nan, np.float32)
        if not block.size:
            return block
        low, high = np.array([[end(places) for places in wanted] for end in (np.min, np.max)])
        for number in np.flatnonzero((self.first <= high).all(1) & (self.last >= low).all(1)):
            part = self.parts[number]
            stored = [
                positions_of(*labels)
                for labels in ((part.inlines, self.inlines[wanted[0]]), (part.crosslines, self.crosslines[wanted[1]]))
            ]
            place = np.ix_(*(np.flatnonzero(positions >= 0) for positions in stored))
            rows, columns = (positions[positions >= 0] for positions in stored)
            if len(rows) and len(columns):
                live = part.live[np.ix_(rows, columns)][..., None]
                block[place] = np.where(live, part.read((rows, columns, key[2])), block[place])
        return block


def _extent(samples: Array) -> str:
    return f"{counted(len(samples), 'samples')} from {samples[0]:g} to {samples[-1]:g}"


def open_folder(
    path: str, open_segy: Callable[..., xr.DataArray], *, domain: str | None = None, **choices: Any
) -> xr.DataArray:
    """Open a folder of single lines as one volume.

    Parameters
    ----------
    path : path
    open_segy : callable
        ``open_segy(path, header_bytes=..., endian=..., domain=...)`` opens a SEG-Y file as a volume.
    domain : {"time", "depth"}, optional
        What the sample axis measures, if the files do not state it.
    **choices
        Options ``header_bytes`` and ``endian`` for SEG-Y files.

    Returns
    -------
    volume : xarray.DataArray
    """
    if os.path.exists(os.path.join(path, "job.toml")):
        raise ValueError(f"{path} is a job folder, not a volume; give the volume of the job.")
    kind, files, others = find_lines(path)
    if not files:
        raise ValueError(
            f"{path} holds no Zarr volume and no lines; give a SEG-Y or ZGY file, a Zarr or MDIO folder, or a folder "
            "of pictures, .npy or SEG-Y files of single lines."
        )
    choices = {name: value for name, value in {**choices, "domain": domain}.items() if value is not None}
    if kind == "SEG-Y files":
        parts, attrs, numbered = _segy_lines(path, files, [open_segy(str(file), **choices) for file in files])
    else:
        choices.pop("header_bytes", None), choices.pop("endian", None)
        parts, attrs, numbered = _array_lines(path, files, kind, domain or "time")
    notes = [f"{counted(len(files), kind)}, lines {numbered}"]
    notes += [f"{counted(others, 'other files', 'are')} ignored"] if others else []
    about = {"source": str(path), "format": f"folder of {kind}", "scaled": False, "options": choices}
    mosaic, about = Mosaic(parts), about | attrs | {"notes": [*notes, *attrs.get("notes", ())]}
    axes = {"inline": mosaic.inlines, "crossline": mosaic.crosslines, about["domain"]: mosaic.samples}
    return lazy_volume(mosaic.read, axes, about, live=mosaic.live)


def _segy_lines(path: str, files: list[Path], lines: list[xr.DataArray]) -> tuple[list[Part], dict[str, Any], str]:
    """Return (parts, attributes of the volume, note) for a folder of SEG-Y files.

    There is a `Part` for each file. The note states whether headers or file names give the line numbers.
    `lines` are the files, opened as volumes.
    """
    domains = {line.dims[2] for line in lines}
    if len(domains) > 1:
        raise ValueError(f"{path} holds lines in time and lines in depth; give a folder with one of the two.")
    attrs = {"domain": lines[0].dims[2]}
    attrs |= {name: lines[0].attrs[name] for name in ("sample_interval", "delay", "bin_size") if name in lines[0].attrs}
    parts = [segy_part(line) for line in lines]
    same = len(parts) > 1 and all(part.inlines.tolist() == parts[0].inlines[:1].tolist() for part in parts)
    if not same or all(len(part.crosslines) == 1 for part in parts):
        return parts, attrs, "numbered by their headers"
    # If headers of 2-D lines only count traces, all lines have the same number there.
    numbers, direction = number_files(files)
    parts = [number_part(part, number, direction) for part, number in zip(parts, numbers, strict=True)]
    return parts, attrs, f"numbered as {direction}s by their file names"


def _array_lines(path: str, files: list[Path], kind: str, domain: str) -> tuple[list[Part], dict[str, Any], str]:
    """Return (parts, attributes of the volume, note) for a folder of pictures or arrays.

    There is a `Part` for each file. The note states the direction of the lines, which are numbered by the file names.
    `kind` is a key of `KINDS`.
    """
    numbers, direction = number_files(files)
    codes = bool(class_table.read_class_table(path))
    pictures = kind == "pictures"
    arrays: list[Any] = [PictureFile(str(file), codes=codes) if pictures else NpyFile(str(file)) for file in files]
    parts = [array_part(array) for array in arrays]
    widths = [len(part.crosslines) for part in parts]
    if min(widths) < max(widths):
        shortest = parts[widths.index(min(widths))]
        raise ValueError(
            f"{shortest.path} has {counted(min(widths), 'traces')}, others {max(widths)}; give lines of one length."
        )
    parts = [number_part(part, number, direction) for part, number in zip(parts, numbers, strict=True)]
    attrs: dict[str, Any] = {"domain": domain, "scaled": pictures and not (codes or any(array.raw for array in arrays))}
    attrs["notes"] = arrays[0].notes() if pictures else []
    return parts, attrs, f"numbered as {direction}s by their file names"


def segy_part(line: xr.DataArray) -> Part:
    """Return the `Part` for one SEG-Y file of a folder; `line` is this file, opened as a volume."""
    inlines, crosslines, samples = (line[name].values for name in line.dims)
    lazy: Any = line.variable._data
    return Part(line.attrs["source"], inlines, crosslines, samples, lazy.array.read, live_traces(line))


def array_part(array: Any) -> Part:
    """Return the `Part` for one picture or array of a folder: a line with traces numbered from 0."""
    _, axes, _, _ = name_axes([None] * array.ndim)
    shape = [1 if axis is None else array.shape[axis] for axis in axes]
    if array.dtype.kind not in "biuf" or shape[0] != 1 or 0 in shape:
        raise ValueError(f"{array.path} holds {array.dtype} of shape {array.shape}; give one line as (time, traces).")
    inlines, crosslines, samples = map(np.arange, shape)
    read = functools.partial(take_block, array, axes)
    return Part(array.path, inlines, crosslines, samples.astype(np.float64), read=read, live=np.ones(shape[:2], bool))


def number_part(part: Part, number: int, direction: str) -> Part:
    """Return a copy of the `Part` of a single line, which gets the given line number and direction.

    `direction` is ``inline`` or ``crossline``; the line in `part` is an inline.
    """
    numbers = np.array([number])
    if direction == "inline":
        return dataclasses.replace(part, inlines=numbers)
    read = functools.partial(read_turned, part.read)
    return dataclasses.replace(part, inlines=part.crosslines, crosslines=numbers, read=read, live=part.live.T)


def read_turned(read: Callable[[Key], Array], key: Key) -> Array:
    """Read a block of a crossline with `read`, a function for which the line is an inline.

    `key` has a slice or an array of positions for each axis: inline, crossline, and time or depth.
    """
    return read((key[1], key[0], key[2])).transpose(1, 0, 2)
