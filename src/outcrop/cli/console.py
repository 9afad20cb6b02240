"""Print the messages, JSON results, progress bars and tables of commands."""

import contextlib
import errno
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from rich import progress as rich_progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outcrop.words import counted

if TYPE_CHECKING:
    import pandas as pd

screen = Console(stderr=True)
REMEDIES = {
    errno.ENOSPC: "The disk is full; free some space and run the same command again to resume it",
    errno.EFBIG: "The file exceeds the size limit of this system; raise the limit and run the same command again",
    errno.EDQUOT: "The disk quota is used up; free some space and run the same command again",
    errno.EACCES: "No permission to read or write here; choose another folder",
    errno.EROFS: "This folder cannot be written; choose another one",
    errno.ENOENT: "No such file or folder; check the path",
}


# ---- sentences -------------------------------------------------------------------------------------------------------


def fail(message: object, *, code: int = 2) -> NoReturn:
    """Print an error message on one line of standard error, and exit the program with the exit code `code`."""
    print("Error: " + " ".join(str(message).split()), file=sys.stderr)
    sys.exit(code)


def say(text: object, *, style: str | None = None) -> None:
    """Print a message on standard error, without line breaks at the width of the terminal."""
    screen.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def warn(text: object) -> None:
    """Print a warning in one line on standard error."""
    say(f"Warning: {text}", style="yellow")


def explain(error: OSError) -> str:
    """Return a message for an operating-system error: one sentence with the problem, the remedy and the path.

    The path of a temporary file is replaced by the path of the final file.

    Examples
    --------
    >>> explain(OSError(errno.EROFS, "", "f3.outcrop/.labels.png.host-12-34.part"))
    'This folder cannot be written; choose another one (f3.outcrop/labels.png).'
    """
    final_name = re.sub(r"\.([^/\\]+)\.[^/\\]+-\d+-\d+\.part", r"\1", str(error.filename))
    where = f" ({final_name})" if error.filename else ""
    return (REMEDIES.get(error.errno or 0) or error.strerror or str(error)).rstrip(".") + where + "."


def duration(seconds: float) -> str:
    """Return a duration in seconds as text in s, min or h.

    Examples
    --------
    >>> duration(75)
    '1.2 min'
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def listed(counts: Mapping[str, int]) -> str:
    """Return counts of things as text, separated by commas; counts of 0 are left out.

    Examples
    --------
    >>> listed({"exemplars": 1, "accepted": 2, "strokes": 0})
    '1 exemplar, 2 accepted'
    """
    return ", ".join(counted(n, things) for things, n in counts.items() if n)


def answer(as_json: bool, result: Any, show: Callable[..., None] | None = None, *shown: Any) -> None:
    """Print the result of a command: as JSON on standard output if `as_json` is True, else by calling `show(*shown)`.

    If `as_json` is False and `show` is None, nothing is printed.
    """
    if as_json:
        print(json.dumps(result, default=plain))
    elif show is not None:
        show(*shown)


def plain(value: Any) -> Any:
    """Convert a value that the json module cannot write to a value that it can.

    A DataFrame becomes a list of rows, with None for NaN. NumPy values become numbers or lists, and any other value
    becomes text.
    """
    if hasattr(value, "to_dict"):
        return value.astype(object).where(value.notna(), None).to_dict("records")
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


# ---- progress --------------------------------------------------------------------------------------------------------


class Rate(rich_progress.ProgressColumn):
    """Column of a progress bar that shows how many steps are done per second."""

    def render(self, task: rich_progress.Task) -> Text:
        """Return the rate of a task as text, such as ``12/s``; the text is empty if a step takes a second or more."""
        return Text(f"{task.speed:.0f}/s" if task.speed and task.speed > 1 else "")


@contextlib.contextmanager
def work_bars() -> Iterator[Callable[..., None]]:
    """Show a progress bar with rate and remaining time for each task, if standard error is a terminal.

    Yields a function ``progress(what, done, total)``, which updates the bar of a task. The text of `what` before the
    first comma names the task; the text after the comma, such as the current loss, may change.
    """
    done, left = rich_progress.MofNCompleteColumn(), rich_progress.TimeRemainingColumn()
    columns = ("{task.description}", rich_progress.BarColumn(), done, Rate(), left)
    with rich_progress.Progress(*columns, console=screen, disable=not screen.is_terminal) as bars:
        tasks: dict[str, rich_progress.TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            name = what.partition(",")[0]
            if name not in tasks:
                tasks[name] = bars.add_task(what)
            bars.update(tasks[name], description=what, completed=done, total=total)

        yield progress


# ---- tables ----------------------------------------------------------------------------------------------------------


def show(table: Table) -> None:
    """Print a table; long cells are wrapped on a terminal, and stay on one line in a file or pipe."""
    for column in table.columns:
        column.overflow = "fold"
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def show_frame(frame: "pd.DataFrame", title: str | None = None) -> None:
    """Print a DataFrame as a table: numbers with three decimals, NaN as an empty cell."""
    table = Table(*map(str, frame.columns), title=title, title_justify="left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.3f}".replace("nan", "") if isinstance(value, float) else str(value) for value in row))
    show(table)


def show_rows(title: object, rows: Mapping[str, Any]) -> None:
    """Print a table with two columns, names and their texts; rows with an empty text are left out."""
    table = Table(title=str(title), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        if text:
            table.add_row(name, str(text))
    show(table)
