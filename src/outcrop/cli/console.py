"""What the command line shows: one-line errors, progress, tables."""

import contextlib
import errno
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

screen = Console(stderr=True)
REMEDIES = {
    errno.ENOSPC: "The disk is full; free some space and run the same command again, it goes on where it was",
    errno.EFBIG: "A file may not grow further here; lift the limit on its size and run the same command again",
    errno.EDQUOT: "The disk quota is used up; free some space and run the same command again",
    errno.EACCES: "No permission to read or write here; choose another folder",
    errno.EROFS: "This folder cannot be written; choose another one",
    errno.ENOENT: "No such file or folder",
}
SINGULAR = {"bodies": "body", "patches": "patch"}  # of words that do not merely lose their s


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
    """Return an operating-system error as problem, place and remedy.

    Examples
    --------
    >>> explain(OSError(errno.EROFS, "", "f3.outcrop/.labels.png.host-12-34.part"))
    'This folder cannot be written; choose another one (f3.outcrop/labels.png).'
    """
    final_name = re.sub(r"\.([^/\\]+)\.[^/\\]+-\d+-\d+\.part", r"\1", str(error.filename))
    where = f" ({final_name})" if error.filename else ""
    return (REMEDIES.get(error.errno or 0) or error.strerror or str(error)).rstrip(".") + where + "."


def duration(seconds: float) -> str:
    """Return seconds in words.

    Examples
    --------
    >>> duration(75)
    '1.2 min'
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def counted(n: int, things: str) -> str:
    """Return a number and the word for what is counted, given in the plural.

    Examples
    --------
    >>> counted(1, "exemplars"), counted(2, "exemplars"), counted(1, "patches")
    ('1 exemplar', '2 exemplars', '1 patch')
    """
    return f"{n} {SINGULAR.get(things, things.removesuffix('s')) if n == 1 else things}"


def listed(counts: Mapping[str, int]) -> str:
    """Return counts in words, zeros left out.

    Examples
    --------
    >>> listed({"exemplars": 1, "accepted": 2, "strokes": 0})
    '1 exemplar, 2 accepted'
    """
    return ", ".join(counted(n, things) for things, n in counts.items() if n)


def answer(as_json: bool, result: Any, show: Callable[..., None] | None = None, *shown: Any) -> None:
    """Print a result as JSON on standard output, or let a function show something to a person."""
    if as_json:
        print(json.dumps(result, default=plain))
    elif show is not None:
        show(*shown)


def plain(value: Any) -> Any:
    """Return a NumPy value or the rows of a DataFrame as JSON knows them, None for no number; anything else as text."""
    if hasattr(value, "to_dict"):
        return value.astype(object).where(value.notna(), None).to_dict("records")
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


# ---- progress --------------------------------------------------------------------------------------------------------


class Rate(ProgressColumn):
    """How many steps a second takes."""

    def render(self, task: Task) -> Text:
        """Return the rate of a bar; empty where a step takes a second or more."""
        return Text(f"{task.speed:.0f}/s" if task.speed and task.speed > 1 else "")


@contextlib.contextmanager
def work_bars() -> Iterator[Callable[..., None]]:
    """Show a bar with rate and time left for every part of some work on a terminal, nothing elsewhere.

    Gives a function ``progress(what, done, total)``; what else it is called with is ignored.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int, *_: Any) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what)
            bars.update(tasks[what], completed=done, total=total)

        yield progress


# ---- tables ----------------------------------------------------------------------------------------------------------


def show(table: Table) -> None:
    """Print a table: as wide as its text in a file or a pipe, folded but never cut on a narrow terminal."""
    for column in table.columns:
        column.overflow = "fold"
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def show_frame(frame: "pd.DataFrame", title: str | None = None) -> None:
    """Print a DataFrame as a table: numbers with three decimals, empty where there is none."""
    table = Table(*map(str, frame.columns), title=title, title_justify="left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.3f}".replace("nan", "") if isinstance(value, float) else str(value) for value in row))
    show(table)


def show_rows(title: object, rows: Mapping[str, Any]) -> None:
    """Print names and texts as a table of two columns; what is empty is left out."""
    table = Table(title=str(title), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in rows.items():
        if text:
            table.add_row(name, str(text))
    show(table)


def sparkline(values: Sequence[float | None], width: int = 48) -> str:
    """Return numbers as a row of bars, None left blank.

    Examples
    --------
    >>> sparkline([0, 1, 2, 3, None, 7])
    '▁▂▃▄ █ (0 to 7)'
    """
    parts = np.array_split(np.array([np.nan if v is None else v for v in values], float), min(width, len(values)))
    means = [part[np.isfinite(part)].mean() if np.isfinite(part).any() else None for part in parts]
    known = [mean for mean in means if mean is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    bars = [" " if m is None else "▁▂▃▄▅▆▇█"[int((m - low) / ((high - low) or 1) * 7.999)] for m in means]
    return "".join(bars) + f" ({low:.4g} to {high:.4g})"


def show_facts(name: str, facts: Mapping[str, Any]) -> None:
    """Print what `describe` found in a volume."""
    amplitude, rms, patch, geometry, unit = (facts[key] for key in ("amplitude", "rms", "patch", "geometry", "unit"))
    flaws = [f"{n} {key.replace('_', ' ')}" for key, n in geometry.items() if key.endswith("traces") and n]
    extent = [f"{patch['height_' + unit]:g} {unit}" if f"height_{unit}" in patch else f"{patch['samples']} samples"]
    extent += [f"{patch['width_m']:g} m" if "width_m" in patch else f"{patch['traces']} traces"]
    looked = f" (of {len(rms['inline'])} lines)" if len(rms["inline"]) < facts["axes"]["inline"]["count"] else ""
    bins, header_bytes = facts["bin_size"], facts["header_bytes"]
    rows = {"format": facts["format"]}
    for axis, a in facts["axes"].items():
        step = "uneven steps" if a["step"] is None else f"step {a['step']:g}"
        rows[axis] = f"{a['first']:g} to {a['last']:g}, {step} ({a['count']})"
    rows |= {
        "geometry": ", ".join(["regular" if geometry["regular"] else "irregular", *flaws]),
        "header bytes": header_bytes and "inline {}, crossline {}".format(*header_bytes),
        "bin size": bins and "{:g} m between inlines, {:g} m between crosslines".format(*bins),
        "patch": f"{patch['samples']} x {patch['traces']} = {' x '.join(extent)}",
        "amplitude": ", ".join(f"{p} %: {value:g}" for p, value in amplitude["percentiles"].items()),
        "range": "{minimum:g} to {maximum:g}{}; clip to [0, 1] at {clip:g}".format(looked, **amplitude),
        "histogram": sparkline(amplitude["histogram"]["counts"]),
        "RMS by line": sparkline(rms["by_line"]) + f", drift {rms['drift_lines'] or 0:.1f} dB",
        "RMS by " + facts["domain"]: sparkline(rms["by_time"]) + f", drift {rms['drift_time'] or 0:.1f} dB",
        "not finite": amplitude["nan"] + amplitude["infinite"] and "{nan} NaN, {infinite} Inf".format(**amplitude),
        "classes": facts["classes"] and ", ".join(f"{i} {name}" for i, name in enumerate(facts["classes"], 1)),
        "notes": "\n".join(facts["notes"]),
        "text": "\n".join(line.rstrip() for line in facts["text"] if line.strip(" C0123456789")),
    }
    show_rows(name, rows)


def show_summary(summary: Mapping[str, Mapping[str, Any]], job: Path, decisions: Mapping[str, int]) -> None:
    """Print how many patches of every class were retrieved, and how similar they are."""
    table = Table("class", "patches", "best", "last", "likely wrong")
    for name, row in summary.items():
        table.add_row(name, *map(str, row.values()))
    show(table)
    say(f"{listed(decisions)} in all; 'outcrop decisions {job}' lists them")
    say(f"{job / 'retrieved.csv'}; pictures: gallery.png, similarity.png, section.png")


def show_comparison(found: Mapping[str, Any], job: Path, other: Path) -> None:
    """Print where the labels of two jobs differ, and whose decisions they come from."""
    agree = f"{found['agreement']:.1%} of {counted(len(found['lines']), 'lines')} agree"
    show_frame(found["rows"], f"{job} against {other}: {agree}")
    show_frame(found["differ"].head(8), "lines that differ most, share of the samples")
    show_frame(found["decisions"], "decisions")


def show_stages(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the stages that the present decisions do not use, and which of them were removed."""
    table = Table("stage", "key", "made", "MB", "removed")
    for row in rows:
        size, removed = f"{row['bytes'] / 1e6:.1f}", "yes" if row["removed"] else ""
        table.add_row(row["kind"], row["key"], row["made"][:19], size, removed)
    show(table)
    total, freed = (sum(row["bytes"] for row in rows if row["removed"] or not removed) for removed in (False, True))
    say(f"{total / 1e6:.1f} MB are not used by the present decisions; {freed / 1e6:.1f} MB removed")


def show_scores(scores: Mapping[str, Any]) -> None:
    """Print pixel scores, MIU first, and what is known of the boundaries and zones of each structure."""
    import pandas as pd

    along = "crosslines" if "crosslines" in scores else "inlines"
    lines = scores[along]
    named = ", ".join(map(str, lines)) if len(lines) <= 6 else f"{lines[0]} to {lines[-1]} ({len(lines)} of them)"
    values = {"MIU": scores["MIU"], "MIU without 5 px": scores["MIU_without_boundary"]}
    values |= {key: scores[key] for key in ("PA", "FWIU", "coverage")}
    values |= {f"IU {name}": iu for name, iu in scores["IU"].items()}
    show_frame(pd.DataFrame([values], dtype=float), f"{along} {named}")
    if scores["coverage"] < 1:
        right = scores["PA"] / scores["coverage"] if scores["coverage"] else float("nan")
        say(f"Uncertain samples count as wrong here; of the {scores['coverage']:.0%} labelled {right:.1%} are right")
    titles = ("boundary off by (median, 95 %)", "zones labelled by half or more", "labelled zones less than half true")
    bodies = Table("structure", *titles)
    down, across = scores.get("units", ("ms", "m"))
    for body in scores["bodies"]:
        off = "{:.0f}, {:.0f} {}; ".format(*body["vertical"], down)
        off += "{:.0f}, {:.0f} {}".format(*body["horizontal"], across)
        hits, alarms = f"{body['hits']} of {body['zones']}", f"{body['false_alarms']} of {body['alarms']}"
        bodies.add_row(body["class"], off if body["sections"] else "-", hits, alarms)
    show(bodies)


def show_gain(gain: Mapping[str, Any]) -> None:
    """Print how far a net agrees with the labels it was trained on, and the scores of both where they are known."""
    import pandas as pd

    agreement = pd.DataFrame([gain["agreement"]])
    show_frame(agreement, f"share of the labels that the net repeats, {counted(len(gain['inlines']), 'inlines')}")
    if "rows" in gain:
        scores = pd.DataFrame(gain["rows"]).set_index("what").T
        show_frame(scores.rename_axis("score", axis=0).reset_index(), "against the truth")


def show_status(job: Path, report: Mapping[str, Any]) -> None:
    """Print what is decided and done in a job."""
    index, label, lines, disk = (report[key] for key in ("index", "label", "lines", "disk"))
    background = {report["background"]: " (background)"}
    decided = listed(report["decisions"])
    chosen = [f"{name.replace('_', ' ')} {value}" for name, value in label.items() if value and name != "mapping"]
    edited = " (retrieved.csv was edited by hand: the next retrieve or label takes it)"
    patches = "patches {} x {}, step {} x {}, every {} along {}".format(
        *index["size"], *index["step"], index["every"], index["along"]
    )
    used = []
    if "index" in disk:
        used.append(f"index {disk['index'] / 1e6:.1f} MB, {disk['bytes_a_patch']:.0f} bytes a patch")
    if "votes" in disk:
        used.append(f"votes {disk['votes'] / 1e6:.1f} MB, {disk['bytes_a_sample']:.2f} bytes a sample")
    rows = {
        "volume": f"{report['volume']}\n{report['volume_unread']}".strip(),
        "classes": ", ".join(f"{code} {name}{background.get(name, '')}" for name, code in report["classes"].items()),
        "decided": decided and f"{decided}; by {', '.join(report['writers'])}",
        "index": patches + ("" if index["finished"] else ": not finished"),
        "retrieved": ", ".join(f"{name} {n}" for name, n in report["retrieved"].items())
        + (" (of older decisions)" if report["retrieved_stale"] else "")
        + (edited if report["retrieved_edited"] else ""),
        "labels": f"{lines['labelled']} of {lines['total']} lines"
        + (f", {lines['stale']} of them stale" if lines["stale"] else "")
        + f"; mapping {', '.join([label['mapping'], *chosen])}",
        "disk": ", ".join(used),
        "unreadable": ", ".join(f"{counted(n, 'lines')} of {name}" for name, n in report["damaged"].items()),
        "next": report["next"],
    }
    show_rows(job, rows)


def show_decisions(table: "pd.DataFrame", title: str) -> None:
    """Print decisions, without their ids and with times to the second."""
    show_frame(table.drop(columns="id").assign(when=table["when"].astype(str).str[:19]), title)


def picture(values: np.ndarray, box: Iterable[int], colour: str, *, width: int = 96) -> Text:
    """Return amplitudes from 0 to 1 as text of two pixels a character, with a frame around a part of them.

    Parameters
    ----------
    values : array, shape (height, width)
    box : tuple of int
        Top, left, height and width of what is framed; a single sample gets a cross.
    colour : str
        Of the frame, as #rrggbb.
    width : int
        Characters of a line at most.
    """
    step = max(1, -(-values.shape[1] // width))
    shown = values[::step, ::step]
    shown = shown[: len(shown) // 2 * 2]
    grey = np.clip(np.nan_to_num(shown, nan=0.5) * 255, 0, 255).astype(int)
    pixels = np.full(grey.shape, "", object)
    for at in np.ndindex(grey.shape):
        pixels[at] = "#" + 3 * f"{grey[at]:02x}"
    top, left, height, across = (part // step for part in box)
    bottom, right = min(top + height, len(pixels) - 1), min(left + across, pixels.shape[1] - 1)
    if height and across:
        pixels[[top, bottom], left : right + 1] = colour
        pixels[top : bottom + 1, [left, right]] = colour
    else:
        for off in (-4, -3, -2, 2, 3, 4):
            for row, column in ((top + off, left), (top, left + off)):
                if 0 <= row < len(pixels) and 0 <= column < pixels.shape[1]:
                    pixels[row, column] = colour
    text = Text()
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            text.append("▀", f"{above} on {below}")
        text.append("\n")
    return text
