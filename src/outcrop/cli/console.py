"""Print sentences, JSON, progress bars and tables of commands."""

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
    errno.ENOENT: "No such file or folder",
}


# ---- sentences -------------------------------------------------------------------------------------------------------


def fail(message: object, *, code: int = 2) -> NoReturn:
    """Print one line on standard error and stop."""
    print("Error: " + " ".join(str(message).split()), file=sys.stderr)
    sys.exit(code)


def say(text: object, *, style: str | None = None) -> None:
    """Print one line on standard error; a narrow terminal does not break it."""
    screen.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def warn(text: object) -> None:
    """Print a warning in one line on standard error."""
    say(f"Warning: {text}", style="yellow")


def explain(error: OSError) -> str:
    """Return an operating-system error as one sentence with problem, remedy and path.

    Examples
    --------
    >>> explain(OSError(errno.EROFS, "", "f3.outcrop/.labels.png.host-12-34.part"))
    'This folder cannot be written; choose another one (f3.outcrop/labels.png).'
    """
    final_name = re.sub(r"\.([^/\\]+)\.[^/\\]+-\d+-\d+\.part", r"\1", str(error.filename))
    where = f" ({final_name})" if error.filename else ""
    return (REMEDIES.get(error.errno or 0) or error.strerror or str(error)).rstrip(".") + where + "."


def duration(seconds: float) -> str:
    """Return a duration with its unit.

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
    """Return counts in words, without zeros.

    Examples
    --------
    >>> listed({"exemplars": 1, "accepted": 2, "strokes": 0})
    '1 exemplar, 2 accepted'
    """
    return ", ".join(counted(n, things) for things, n in counts.items() if n)


def answer(as_json: bool, result: Any, show: Callable[..., None] | None = None, *shown: Any) -> None:
    """Print a result as JSON on standard output, or call a function that prints it for a person."""
    if as_json:
        print(json.dumps(result, default=plain))
    elif show is not None:
        show(*shown)


def plain(value: Any) -> Any:
    """Return a NumPy value or the rows of a DataFrame for JSON, NaN in rows as None; any other value as text."""
    if hasattr(value, "to_dict"):
        return value.astype(object).where(value.notna(), None).to_dict("records")
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


# ---- progress --------------------------------------------------------------------------------------------------------


class Rate(rich_progress.ProgressColumn):
    """Column of a progress bar: steps per second."""

    def render(self, task: rich_progress.Task) -> Text:
        """Return the rate of a bar; empty if a step takes a second or more."""
        return Text(f"{task.speed:.0f}/s" if task.speed and task.speed > 1 else "")


@contextlib.contextmanager
def work_bars() -> Iterator[Callable[..., None]]:
    """Show a progress bar with rate and remaining time for each task; on a terminal only.

    Yields a function ``progress(what, done, total)``. The text of `what` before the first comma names the task; the
    text behind it, such as a loss, may change.
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
    """Print a table; long cells are folded on a terminal, and stay on one line in a file or pipe."""
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
    """Print names and texts as a table of two columns, without empty texts."""
    table = Table(title=str(title), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        if text:
            table.add_row(name, str(text))
    show(table)
