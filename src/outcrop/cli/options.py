"""Options that several commands share."""

from typing import Annotated

from typer import Option

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


AS_JSON = Annotated[bool, Option("--json", help="Answer in JSON on standard output.")]
DRY_RUN_AS_JSON = Annotated[bool, Option("--json", help="With --dry-run: in JSON on standard output.")]
NET = Annotated[bool, Option("--net", help="The labels that 'outcrop train' made, not those of the mapping.")]
HEADER_BYTES = Annotated[
    Text, Option(help="Bytes of inline and crossline in trace headers: 189,193. Found by default.")
]
DOMAIN = Annotated[Text, Option(help="What samples measure, time or depth, where the file does not say it.")]
WORKERS = Annotated[int | None, Option(help="Processes of a local Dask cluster; by default threads, on all cores.")]
SCHEDULER = Annotated[Text, Option(help="Address of a Dask scheduler, e.g. tcp://node1:8786.")]
MEMORY = Annotated[Text, Option(help="Memory to use, e.g. 2GB; a quarter of the machine by default.")]
DEVICE = Annotated[Text, Option(callback=check_device, help="A torch device to compute on, e.g. cuda.")]
DEVICES = Annotated[Text, Option(callback=check_devices, help="Torch devices: cuda (all of them), or cuda:0,cuda:1.")]
BACKGROUND = Annotated[Text, Option(help="The class that may appear in any patch; found by its name by default.")]
LINES = Annotated[Text, Option(help="Only these lines, e.g. 310,330: look before a long run.")]
STALE = Annotated[bool, Option("--stale", help="Take lines of older decisions too.")]
