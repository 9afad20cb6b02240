"""Command-line arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from outcrop.cli.texts import Text


def check_device(name: Text) -> Text:
    """Return the name of a torch device; raise ValueError if the device cannot be used. None is returned unchanged."""
    from outcrop import arrays

    return None if name is None else arrays.check_device(name)


def check_devices(names: Text) -> Text:
    """Return the text of comma-separated torch devices unchanged; raise ValueError if one of them cannot be used."""
    for name in (names or "").split(","):
        check_device(name.strip() or None)
    return names


JOB = Annotated[Path, Argument(metavar="JOB", help="Job folder, with your decisions on a volume and the results.")]
VOLUME = Annotated[
    str, Argument(metavar="VOLUME", help="Volume: SEG-Y, ZGY or .npy file, Zarr or MDIO folder, or picture.")
]
AS_JSON = Annotated[bool, Option("--json", help="Print the result as JSON on standard output.")]
DRY_RUN_AS_JSON = Annotated[bool, Option("--json", help="With --dry-run: print the result as JSON.")]
NET = Annotated[bool, Option("--net", help="Use the labels of the U-Net of 'outcrop train', not those of the mapping.")]
HEADER_BYTES = Annotated[
    Text, Option(help="First bytes of inline and crossline number in the trace headers, e.g. 9,21; default: detected.")
]
DOMAIN = Annotated[Text, Option(help="Vertical axis of the volume, time or depth, if the file does not state it.")]
WORKERS = Annotated[
    int | None, Option(help="Number of processes of a local Dask cluster; default: no cluster, threads on all cores.")
]
SCHEDULER = Annotated[
    Text, Option(help="Address of the scheduler of a running Dask cluster to compute on, e.g. tcp://node1:8786.")
]
MEMORY = Annotated[Text, Option(help="Memory limit, e.g. 2GB; default: a quarter of the machine's memory.")]
DEVICE = Annotated[Text, Option(callback=check_device, help="Torch device to compute on, e.g. cuda.")]
DEVICES = Annotated[
    Text,
    Option(callback=check_devices, help="Torch devices to compute on: cuda (all GPUs), or a list, e.g. cuda:0,cuda:1."),
]
BACKGROUND = Annotated[
    Text,
    Option(
        help="Class of all samples that belong to none of the structures you mark; default: a class called other or "
        "background."
    ),
]
LINES = Annotated[Text, Option(help="Use only the lines with these numbers, e.g. 310,330 or 300-340.")]
STALE = Annotated[
    bool,
    Option(
        "--stale",
        help="Include stale lines: lines that were labelled from older decisions or older samples of the volume.",
    ),
]
