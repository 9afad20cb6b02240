"""What the command line shows: one-line errors, progress, tables."""

import contextlib
import errno
import re
import sys

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

screen = Console(stderr=True)


def fail(message, *, code=2):
    """Say one line on standard error and stop."""
    print("Error: " + " ".join(str(message).split()), file=sys.stderr)
    sys.exit(code)


def say(text, *, style=None):
    """Tell the user something on standard error, in one line that is not broken."""
    screen.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def explain(error):
    """An operating-system error as problem, place and remedy."""
    where = f" ({_final_name(str(error.filename))})" if error.filename else ""
    remedies = {
        errno.ENOSPC: "The disk is full; free some space and run the same command again, it goes on where it was",
        errno.EFBIG: "A file may not grow further here; lift the limit on its size and run the same command again",
        errno.EDQUOT: "The disk quota is used up; free some space and run the same command again",
        errno.EACCES: "No permission to read or write here; choose another folder",
        errno.EROFS: "This folder cannot be written; choose another one",
        errno.ENOENT: "No such file or folder",
    }
    return (remedies.get(error.errno) or error.strerror or str(error)).rstrip(".") + where + "."


def _final_name(path):
    """Name that a file was to have when it was whole.

    Examples
    --------
    >>> _final_name("f3.outcrop/.labels.png.host-12-34.part")
    'f3.outcrop/labels.png'
    """
    return re.sub(r"\.([^/\\]+)\.[^/\\]+-\d+-\d+\.part", r"\1", path)


def _bars():
    """Bars with rate and time left on a terminal, nothing elsewhere."""
    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    return Progress(*columns, console=screen, disable=not screen.is_terminal)


@contextlib.contextmanager
def progress_bar(title, total):
    """Show a bar with rate and time left on a terminal, nothing elsewhere; gives a function of the work done so far."""
    with _bars() as bar:
        task = bar.add_task(title, total=total, rate="")

        def update(done, *_):
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, rate=f"{speed:.0f}/s" if speed else "")

        yield update


@contextlib.contextmanager
def work_bars():
    """Show a bar for every part of some work on a terminal, nothing elsewhere.

    Gives a function ``progress(what, done, total)``.
    """
    with _bars() as bars:
        tasks: dict = {}

        def progress(what, done, total):
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, rate="")
            speed = next((task.speed for task in bars.tasks if task.id == tasks[what]), None)
            bars.update(tasks[what], completed=done, total=total, rate=f"{speed:.0f}/s" if speed and speed > 1 else "")

        yield progress


def duration(seconds):
    """Seconds in words.

    Examples
    --------
    >>> duration(75)
    '1.2 min'
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def sparkline(values, width=48):
    """Numbers as a row of bars, None left blank.

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


def show_facts(name, facts):
    """Print what `describe` found as a table a person reads."""
    amplitude, rms, patch, geometry, unit = (facts[key] for key in ("amplitude", "rms", "patch", "geometry", "unit"))
    flaws = [f"{n} {key.replace('_', ' ')}" for key, n in geometry.items() if key.endswith("traces") and n]
    extent = [f"{patch['height_' + unit]:g} {unit}" if f"height_{unit}" in patch else f"{patch['samples']} samples"]
    extent += [f"{patch['width_m']:g} m" if "width_m" in patch else f"{patch['traces']} traces"]
    looked = f" (of {len(rms['inline'])} lines)" if len(rms["inline"]) < facts["axes"]["inline"]["count"] else ""
    rows = {"format": facts["format"]}
    for axis, a in facts["axes"].items():
        step = "uneven steps" if a["step"] is None else f"step {a['step']:g}"
        rows[axis] = f"{a['first']:g} to {a['last']:g}, {step} ({a['count']})"
    rows |= {
        "geometry": ", ".join(["regular" if geometry["regular"] else "irregular", *flaws]),
        "header bytes": facts["header_bytes"] and "inline {}, crossline {}".format(*facts["header_bytes"]),
        "bin size": facts["bin_size"]
        and "{:g} m between inlines, {:g} m between crosslines".format(*facts["bin_size"]),
        "patch": f"{patch['samples']} x {patch['traces']} = {' x '.join(extent)}",
        "amplitude": ", ".join(f"{p} %: {value:g}" for p, value in amplitude["percentiles"].items()),
        "range": f"{amplitude['minimum']:g} to {amplitude['maximum']:g}{looked}; clip to [0, 1] at "
        f"{amplitude['clip']:g}",
        "histogram": sparkline(amplitude["histogram"]["counts"]),
        "RMS by line": sparkline(rms["by_line"]) + f", drift {rms['drift_lines'] or 0:.1f} dB",
        "RMS by " + facts["domain"]: sparkline(rms["by_time"]) + f", drift {rms['drift_time'] or 0:.1f} dB",
        "not finite": amplitude["nan"] + amplitude["infinite"]
        and f"{amplitude['nan']} NaN, {amplitude['infinite']} Inf",
        "classes": facts["classes"] and ", ".join(f"{i} {name}" for i, name in enumerate(facts["classes"], 1)),
        "notes": "\n".join(facts["notes"]),
        "text": "\n".join(line.rstrip() for line in facts["text"] if line.strip(" C0123456789")),
    }
    table = Table(title=str(name), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in rows.items():
        if value:
            table.add_row(key, str(value))
    Console().print(table)


def show(table):
    """Print a table: as wide as it wants to be in a file or a pipe, folded but never cut on a narrow terminal."""
    for column in table.columns:
        column.overflow = "fold"
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def show_summary(weak, job, decided):
    """Print the summary as a table."""
    from outcrop.job.table_file import summarise

    table = Table("class", "patches", "best", "last", "likely wrong")
    for name, row in summarise(weak).items():
        table.add_row(name, *(str(value) for value in row.values()))
    show(table)
    words = [f"{n} {what}" for what, n in decided.items() if n]
    say(f"{', '.join(words)} in all; 'outcrop decisions {job}' lists them")
    say(f"{job / 'retrieved.csv'}; pictures: gallery.png, similarity.png, section.png")


def show_comparison(found, job, other):
    """Print where the labels of two jobs differ, and whose decisions they come from."""
    show_frame(found["rows"], f"{job} against {other}: {found['agreement']:.1%} of {len(found['lines'])} lines agree")
    show_frame(found["differ"].head(8), "lines that differ most, share of the samples")
    show_frame(found["decisions"], "decisions")


def show_stages(rows):
    """Print what older keys hold, and what was removed."""
    table = Table("stage", "key", "made", "MB", "removed")
    for row in rows:
        removed = "yes" if row["removed"] else ""
        table.add_row(row["kind"], row["key"], row["made"][:19], f"{row['bytes'] / 1e6:.1f}", removed)
    show(table)
    total, freed = (sum(row["bytes"] for row in rows if row["removed"] or not removed) for removed in (False, True))
    say(f"{total / 1e6:.1f} MB are not used by the present decisions; {freed / 1e6:.1f} MB removed")


def show_scores(scores):
    """Print pixel scores, MIU first, and what is known of the boundaries and zones of each structure."""
    along = "crosslines" if "crosslines" in scores else "inlines"
    lines = scores[along]
    named = ", ".join(map(str, lines)) if len(lines) <= 6 else f"{lines[0]} to {lines[-1]} ({len(lines)} of them)"
    table = Table(title=f"{along} {named}", title_justify="left")
    keys = {
        "MIU": "MIU",
        "MIU_without_boundary": "MIU without 5 px",
        "PA": "PA",
        "FWIU": "FWIU",
        "coverage": "coverage",
    }
    values = {title: scores[key] for key, title in keys.items()} | {
        f"IU {name}": iu for name, iu in scores["IU"].items()
    }
    for title in values:
        table.add_column(title)
    table.add_row(*(f"{value:.3f}" for value in values.values()))
    show(table)
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


def show_gain(gain):
    """Print how far a net agrees with the labels it was trained on, and the scores of both where they are known."""
    import pandas as pd

    agreement = pd.DataFrame([gain["agreement"]])
    along = "crosslines" if "crosslines" in gain else "inlines"
    show_frame(agreement, f"share of the labels that the net repeats, {len(gain[along])} {along}")
    if "rows" in gain:
        scores = pd.DataFrame(gain["rows"]).set_index("what").T
        show_frame(scores.rename_axis("score", axis=0).reset_index(), "against the truth")


def show_status(job, report):
    """Print what is decided and done in a job as a table."""
    index, label, lines = report["index"], report["label"], report["lines"]
    marks = {report["background"]: " (background)"}
    classes = [f"{code} {name}{marks.get(name, '')}" for name, code in report["classes"].items()]
    decided = [f"{n} {what}" for what, n in report["decisions"].items() if n]
    patches = [f"{name} {n}" for name, n in report["retrieved"].items()]
    chosen = [f"{name.replace('_', ' ')} {value}" for name, value in label.items() if value and name != "mapping"]
    rows = {
        "volume": report["volume"] + (f"\n{report['volume_unread']}" if report["volume_unread"] else ""),
        "classes": ", ".join(classes),
        "decided": ", ".join(decided) + (f"; by {', '.join(report['writers'])}" if decided else ""),
        "index": "patches {} x {}, step {} x {}, every {} along {}".format(
            *index["size"], *index["step"], index["every"], index["along"]
        )
        + ("" if index["finished"] else ": not finished"),
        "retrieved": ", ".join(patches)
        + (" (of older decisions)" if report["retrieved_stale"] else "")
        + (
            " (retrieved.csv was edited by hand: the next retrieve or label takes it)"
            if report["retrieved_edited"]
            else ""
        ),
        "labels": f"{lines['labelled']} of {lines['total']} lines"
        + (f", {lines['stale']} of them stale" if lines["stale"] else "")
        + f"; mapping {', '.join([label['mapping'], *chosen])}",
        "disk": ", ".join(_disk_words(report["disk"])),
        "unreadable": ", ".join(f"{n} lines of {name}" for name, n in report["damaged"].items()),
        "next": report["next"],
    }
    table = Table(title=str(job), show_header=False, title_justify="left")
    for title, text in rows.items():
        if text:
            table.add_row(title, text)
    show(table)


def _disk_words(disk):
    """Bytes of index, mappers and votes, in words."""
    if "index" in disk:
        yield f"index {disk['index'] / 1e6:.1f} MB, {disk['bytes_a_patch']:.0f} bytes a patch"
    if "mapper" in disk:
        yield f"mappers {disk['mapper'] / 1e6:.1f} MB"
    if "votes" in disk:
        yield f"votes {disk['votes'] / 1e6:.1f} MB, {disk['bytes_a_sample']:.2f} bytes a sample"


def show_frame(frame, title):
    """Print a DataFrame as a table."""
    table = Table(*map(str, frame.columns), title=title, title_justify="left")
    for row in frame.itertuples(index=False):
        table.add_row(*(_cell(value) for value in row))
    show(table)


def picture(values, box, colour, *, width=96):
    """Amplitudes from 0 to 1 as text of two pixels a character, with a frame around a part of them.

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


def _cell(value):
    """A value in three decimals, empty where there is none."""
    return ("" if np.isnan(value) else f"{value:.3f}") if isinstance(value, float) else str(value)


def plain(value):
    """NumPy values as JSON knows them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
