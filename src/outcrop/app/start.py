"""The start screen: the jobs and the volumes of a folder, with shape, size and date."""

import datetime
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import panel as pn
from bokeh.models import Button, CustomJS, Div, TextInput

import outcrop as oc
from outcrop.app.components import WIDE, escape, hint, title
from outcrop.storage.workspace import Workspace
from outcrop.volumes.identity import known_volume
from outcrop.volumes.segy_headers import BINARY_SIZE, TEXT_SIZE
from outcrop.volumes.segy_layout import find_layout

ENDING = ".outcrop"
VOLUMES = (".sgy", ".segy", ".npy", ".zarr", ".mdio", ".zgy")
TRUTH = ".truth.sgy"  # ending of label files of synthetic surveys
UNITS = ("bytes", "kB", "MB", "GB", "TB")
OPEN = "window.location.search = '?job=' + encodeURIComponent(cb_obj.text)"


class Entry(NamedTuple):
    """A job or a volume of a folder, described by texts for the start screen."""

    name: str
    shape: str
    size: str
    date: str


def jobs_in(folder: Path) -> list[Entry]:
    """Return the jobs of a folder, the most recently changed first."""
    found = []
    for path in folder.glob(f"*{ENDING}"):
        if Workspace(path).exists():
            changed = max(part.stat().st_mtime for part in (path, path / "decisions") if part.exists())
            found.append((changed, Entry(path.name, _shape_of_job(path), size_of(path), _date(changed))))
    return [entry for _, entry in sorted(found, reverse=True)]


def volumes_in(folder: Path) -> list[Entry]:
    """Return the volumes of a folder, sorted by name."""
    paths = [path for path in folder.iterdir() if path.suffix.lower() in VOLUMES and not path.name.endswith(TRUTH)]
    return [
        Entry(path.name, shape_of(path), size_of(path), _date(path.stat().st_mtime))
        for path in sorted(paths, key=lambda path: path.name.lower())
    ]


def free_job(folder: Path, volume: str) -> str:
    """Return the name of the job folder of a volume file; if the volume has no job, return an unused name.

    Examples
    --------
    >>> free_job(Path("nowhere"), "survey.sgy")
    'survey.outcrop'
    """
    stem = Path(volume).stem
    names = (f"{stem}{f'-{number}' if number > 1 else ''}{ENDING}" for number in range(1, 1000))
    return next(name for name in names if _volume_of(folder / name) in ("", volume))


def checked_job(text: str) -> str:
    """Return the typed name of a job folder, with the ending ``.outcrop``; raise an error if the name is invalid.

    Examples
    --------
    >>> checked_job("salt study"), checked_job("f3.outcrop")
    ('salt study.outcrop', 'f3.outcrop')
    """
    name = text.strip().removesuffix(ENDING)
    if not re.fullmatch(r"\w[\w .()-]{0,100}", name):
        raise ValueError(f"{text!r} is not a valid job name; use letters, digits, spaces, dots and hyphens.")
    return name + ENDING


def shape_of(path: Path) -> str:
    """Return the shape of a volume as text, without reading its samples; if this fails, return the error message."""
    try:
        if path.suffix.lower() in (".sgy", ".segy"):
            with path.open("rb") as file:
                opening = file.read(TEXT_SIZE + BINARY_SIZE)
                layout, _ = find_layout(file, opening, path=str(path), size=path.stat().st_size, endian=None)
            return f"{layout.n_traces} traces of {layout.n_samples} samples"
        if path.suffix.lower() == ".npy":
            return " x ".join(map(str, np.load(path, mmap_mode="r").shape))
        return " x ".join(map(str, oc.open_volume(path).shape))
    except (ValueError, OSError, ImportError) as error:
        return str(error).splitlines()[0]


def size_of(path: Path) -> str:
    """Return the size of a file, or of all files in a folder, as text such as ``2.5 MB``."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return size_text(sum(one.stat().st_size for one in files))


def size_text(size: float) -> str:
    """Return a number of bytes as text, in the largest unit that fits.

    Examples
    --------
    >>> size_text(512), size_text(2_500_000)
    ('512 bytes', '2.5 MB')
    """
    power = min(len(UNITS) - 1, len(str(int(size))) // 3 - (len(str(int(size))) % 3 == 0))
    return f"{size / 1000**power:.{int(power > 0)}f} {UNITS[power]}"


def _date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _volume_of(path: Path) -> str:
    """Return the file name of a job's volume; "" if the job does not exist, `os.devnull` if it is damaged."""
    try:
        return Path(known_volume(path).get("source", "")).name
    except ValueError:
        return os.devnull  # a damaged job belongs to no volume


def _shape_of_job(path: Path) -> str:
    try:
        known = known_volume(path)
    except ValueError as error:
        return str(error)
    return f"{' x '.join(map(str, known['shape']))} of {Path(known['source']).name or 'an array'}"


def start_screen(folder: Path, begin: Callable[[str, str], str], job: str | None, problem: str = "") -> Any:
    """Return the page that offers the jobs and volumes of a folder.

    Parameters
    ----------
    folder : path
    begin : callable
        Called with the file name of a volume and a job name; opens the volume, and returns the name of the job.
    job : str, optional
        Name for new jobs, if one was given on the command line.
    problem : str
        Error message about a job that could not be opened; "" for none.
    """
    status = Div(text=escape(problem), name="status", styles={"color": "#b01818"}, html_attributes={"role": "alert"})
    opened = Div(text="", name="opened", visible=False)
    opened.js_on_change("text", CustomJS(code=OPEN))

    def open_job(name: str, _: Any) -> None:
        opened.text = name

    def open_volume(name: str, field: Any, _: Any) -> None:
        status.text = "Opening ..."
        try:
            opened.text = begin(name, field.value)
        except (ValueError, OSError, ImportError) as error:
            status.text = escape(error)

    jobs, volumes = jobs_in(folder), volumes_in(folder)
    parts: list[Any] = [pn.Row(title(folder)), status, opened]
    parts += [_heading("Jobs"), hint("Continue a job.")] if jobs else []
    for entry in jobs:
        parts.append(_row(entry, functools.partial(open_job, entry.name)))
    about = hint("Begin a new job on a volume, with the name in the field. If a job of this name exists, it is opened.")
    parts += [_heading("Volumes"), about] if volumes else []
    for entry in volumes:
        field = TextInput(value=job or free_job(folder, entry.name), title=f"job for {entry.name}", width=260)
        parts.append(_row(entry, functools.partial(open_volume, entry.name, field), field))
    if not jobs and not volumes:
        parts.append(hint(f"This folder has no volume ({', '.join(VOLUMES)}) and no job ({ENDING}); add a volume."))
    return pn.Column(*parts, scroll="y-auto", sizing_mode="stretch_both", margin=(0, 20))


def _heading(text: str) -> Any:
    return Div(text=f"<h2 style='font-size: 16px; margin: 10px 0 0'>{text}</h2>")


def _row(entry: Entry, action: Callable[[Any], None], *more: Any) -> Any:
    """Return a row of the start screen: a button that opens a job or a volume, and its shape, size and date."""
    button = Button(label=entry.name, width=300, align="end")
    button.on_click(action)
    facts = f"{escape(entry.shape)}<br>{entry.size}, {entry.date}"
    return pn.Row(button, Div(text=facts, width=320, align="end", styles={"font-size": "12.5px"}), *more, **WIDE)
