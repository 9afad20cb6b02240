"""Options that several commands share, and how their texts are read."""

import re
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import say

AS_JSON = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
NET = Annotated[bool, typer.Option("--net", help="The labels that 'outcrop train' made, not those of the mapping.")]
HEADER_BYTES = Annotated[
    str | None,
    typer.Option(
        help="First bytes of inline and crossline in the SEG-Y trace headers, e.g. 189,193; found by default."
    ),
]
DOMAIN = Annotated[
    str | None, typer.Option(help="What the samples measure, time or depth, where the file does not say it.")
]
WORKERS = Annotated[
    int | None,
    typer.Option(help="Processes of a local Dask cluster; by default threads, all cores, which start at once."),
]
SCHEDULER = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://node1:8786.")]
MEMORY = Annotated[str | None, typer.Option(help="Memory to use, e.g. 2GB; a quarter of the machine by default.")]


def open_volume(path, header_bytes=None, domain=None):
    """Open a volume with header bytes given as text."""
    options = {} if header_bytes is None else {"header_bytes": numbers(header_bytes, 2, "--header-bytes")}
    return oc.open_volume(path, domain=domain, **options)


def check_device(name: str | None) -> str | None:
    """A torch device that is there, or none."""
    if name is None:
        return None
    from outcrop.arrays import check_device as check

    return check(name)


def check_devices(names: str | None) -> str | None:
    """Torch devices that are there, separated by commas, or none."""
    for name in (names or "").split(","):
        check_device(name.strip() or None)
    return names


DEVICE = Annotated[str | None, typer.Option(callback=check_device, help="A torch device to compute on, e.g. cuda.")]
DEVICES = Annotated[
    str | None,
    typer.Option(callback=check_devices, help="Compute on torch devices: cuda (all of them), or cuda:0,cuda:1."),
]
BACKGROUND = Annotated[
    str | None, typer.Option(help="The class that may appear in any patch; found by its common names by default.")
]
LINES = Annotated[str | None, typer.Option(help="Only these lines, e.g. 310,330: look before a long run.")]


def numbers(text, count, option, kind=int):
    """Comma-separated numbers of an option."""
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ValueError(f"{option} is {text!r}; give {count} numbers separated by commas.")
    return values


def say_notes(job):
    """Say what was noticed on the way."""
    for note in dict.fromkeys(job.notes):
        say(note, style="yellow")


def number_list(text, option):
    """Numbers of an option such as ``1,2,5-9``, none where it was not given."""
    found: list = []
    for part in [] if text is None else text.split(","):
        ends = re.fullmatch(r"\s*(-?\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not ends:
            raise ValueError(f"{option} is {text!r}; give whole numbers separated by commas, or ranges such as 5-9.")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def line_list(text):
    """Line numbers of a --lines option."""
    return number_list(text, "--lines") or None


def plain_rows(frame):
    """Rows of a frame as JSON knows them, None where there is no number."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
