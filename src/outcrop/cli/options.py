"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from outcrop.cli.texts import Text


def check_device(name: Text) -> Text:
    """Refuse a torch device that does not exist."""
    from outcrop import arrays

    return None if name is None else arrays.check_device(name)


def check_devices(names: Text) -> Text:
    """Refuse torch devices, separated by commas, that do not exist."""
    for name in (names or "").split(","):
        check_device(name.strip() or None)
    return names


JOB = Annotated[Path, Argument(metavar="JOB", help="Job folder.")]
VOLUME = Annotated[str, Argument(metavar="VOLUME", help="SEG-Y, ZGY or .npy file, Zarr or MDIO folder, or picture.")]
AS_JSON = Annotated[bool, Option("--json", help="Print the result as JSON on standard output.")]
DRY_RUN_AS_JSON = Annotated[bool, Option("--json", help="With --dry-run: print the result as JSON.")]
NET = Annotated[bool, Option("--net", help="Use the labels of the U-Net of 'outcrop train', not those of the mapping.")]
HEADER_BYTES = Annotated[
    Text, Option(help="Bytes of inline and crossline number in the trace headers, e.g. 9,21; default: detected.")
]
DOMAIN = Annotated[Text, Option(help="What the samples measure, time or depth, if the file does not state it.")]
WORKERS = Annotated[
    int | None, Option(help="Number of processes of a local Dask cluster; default: threads, all cores.")
]
SCHEDULER = Annotated[Text, Option(help="Address of a running Dask scheduler, e.g. tcp://node1:8786.")]
MEMORY = Annotated[Text, Option(help="Memory limit, e.g. 2GB; default: a quarter of the machine's memory.")]
DEVICE = Annotated[Text, Option(callback=check_device, help="Torch device to compute on, e.g. cuda.")]
DEVICES = Annotated[Text, Option(callback=check_devices, help="Torch devices: cuda (all GPUs), or cuda:0,cuda:1.")]
BACKGROUND = Annotated[
    Text,
    Option(
        help="Class of all samples that belong to none of the structures you mark; default: a class called other or "
        "background."
    ),
]
LINES = Annotated[Text, Option(help="Only these lines, e.g. 310,330 or 300-340.")]
STALE = Annotated[
    bool,
    Option(
        "--stale", help="Use stale lines too, which were labelled from older decisions or older samples of the volume."
    ),
]
