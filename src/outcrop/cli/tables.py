"""Print the results of commands as tables and sentences."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from outcrop.cli.console import listed, say, show, show_frame, show_rows
from outcrop.words import counted

if TYPE_CHECKING:
    import pandas as pd


def sparkline(values: Sequence[float | None], width: int = 48) -> str:
    """Return numbers as a row of at most `width` bars, followed by their range; the bar of None is blank.

    If there are more numbers than bars, each bar shows the mean of neighbouring numbers that are not None.

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
    """Print the axes, geometry and amplitudes of the volume `name`, from the `facts` that `describe` returned."""
    amplitude, rms, patch, geometry, unit = (facts[key] for key in ("amplitude", "rms", "patch", "geometry", "unit"))
    flaws = [f"{n} {key.replace('_', ' ')}" for key, n in geometry.items() if key.endswith("traces") and n]
    height = f"{patch['height_' + unit]:g} {unit}" if f"height_{unit}" in patch else f"{patch['samples']} samples"
    width = f"{patch['width_m']:g} m" if "width_m" in patch else f"{patch['traces']} traces"
    sampled = counted(len(rms["inline"]), "lines") if len(rms["inline"]) < facts["axes"]["inline"]["count"] else ""
    clip = "; no clip, because values are 0 to 1" if facts["scaled"] else f"; clip to [0, 1] at {amplitude['clip']:g}"
    bins, header_bytes = facts["bin_size"], facts["header_bytes"]
    rows = {"format": facts["format"]}
    for axis, a in facts["axes"].items():
        step = "uneven steps" if a["step"] is None else f"step {a['step']:g}"
        rows[axis] = f"{a['first']:g} to {a['last']:g}, {step} ({a['count']})"
    rows |= {
        "geometry": ", ".join(["regular" if geometry["regular"] else "irregular", *flaws]),
        "header bytes": header_bytes and "inline {}, crossline {}".format(*header_bytes),
        "bin size": bins and "{:g} m between inlines, {:g} m between crosslines".format(*bins),
        "patch": f"{patch['samples']} x {patch['traces']} = {height} x {width}",
        "amplitude": ", ".join(f"{p} %: {value:g}" for p, value in amplitude["percentiles"].items()),
        "range": "{minimum:g} to {maximum:g}".format(**amplitude) + (sampled and f" (of {sampled})") + clip,
        "histogram": sparkline(amplitude["histogram"]["counts"]),
        "RMS by line": sparkline(rms["by_line"]) + f", largest change {rms['drift_lines'] or 0:.1f} dB",
        "RMS by " + facts["domain"]: sparkline(rms["by_time"]) + f", largest change {rms['drift_time'] or 0:.1f} dB",
        "not finite": amplitude["nan"] + amplitude["infinite"] and "{nan} NaN, {infinite} Inf".format(**amplitude),
        "classes": facts["classes"] and ", ".join(f"{i} {name}" for i, name in enumerate(facts["classes"], 1)),
        "notes": "\n".join(facts["notes"]),
        "text": "\n".join(line.rstrip() for line in facts["text"] if line.strip(" C0123456789")),
    }
    show_rows(name, rows)


def show_summary(summary: Mapping[str, Mapping[str, Any]], job: Path, decisions: Mapping[str, int]) -> None:
    """Print a table of the retrieved patches, and the numbers of decisions in the job.

    The table gives for each class the number of patches, the best and the last similarity, and the share of patches
    that are likely wrong.
    """
    table = Table("class", "patches", "best", "last", "likely wrong")
    for name, row in summary.items():
        table.add_row(name, *map(str, row.values()))
    show(table)
    say(f"{listed(decisions)} in all; 'outcrop decisions {job}' lists them")
    say(f"{job / 'retrieved.csv'}; pictures: gallery.png, similarity.png, section.png")


def show_comparison(found: Mapping[str, Any], job: Path, other: Path) -> None:
    """Print how the labels of two jobs differ, by class and line, and the number of decisions in each job."""
    agree = f"{found['agreement']:.1%} of the labels on {counted(len(found['lines']), 'lines')} agree"
    show_frame(found["rows"], f"{job} against {other}: {agree}")
    show_frame(found["differ"].head(8), "lines that differ most, share of the samples")
    show_frame(found["decisions"], "decisions")


def show_stages(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the results that the present decisions of a job do not use, and state which of them were deleted."""
    table = Table("stage", "key", "made", "MB", "removed")
    for row in rows:
        size, removed = f"{row['bytes'] / 1e6:.1f}", "yes" if row["removed"] else ""
        table.add_row(row["kind"], row["key"], row["made"][:19], size, removed)
    show(table)
    total, freed = (sum(row["bytes"] for row in rows if row["removed"] or not removed) for removed in (False, True))
    say(f"{total / 1e6:.1f} MB of results are not used by the present decisions; {freed / 1e6:.1f} MB removed")


def show_scores(scores: Mapping[str, Any]) -> None:
    """Print the pixel scores of labels, mean IoU (MIU) first, and scores of boundaries and zones for each class."""
    import pandas as pd

    along = "crosslines" if "crosslines" in scores else "inlines"
    lines = scores[along]
    named = ", ".join(map(str, lines)) if len(lines) <= 6 else f"{lines[0]} to {lines[-1]} ({len(lines)} of them)"
    values = {"MIU": scores["MIU"], "MIU without 5 px": scores["MIU_without_boundary"]}
    values |= {key: scores[key] for key in ("PA", "FWIU", "coverage")}
    values |= {f"IU {name}": iu for name, iu in scores["IU"].items()}
    show_frame(pd.DataFrame([values], dtype=float), f"{along} {named}")
    if scores["confirmed"]:
        sure = counted(len(scores["confirmed"]), along)
        say(f"Confirmed: {sure} of {len(lines)}; their scores rate a person's labels, not computed labels")
    if scores["coverage"] < 1:
        right = scores["PA"] / scores["coverage"] if scores["coverage"] else float("nan")
        say(f"Uncertain samples count as wrong; of the labelled {scores['coverage']:.0%}, {right:.1%} are right")
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
    """Print which share of its training labels a net reproduces.

    If expert labels are given, print the scores of these training labels and of the net's labels too.
    """
    import pandas as pd

    along = "crosslines" if "crosslines" in gain else "inlines"
    agreement = pd.DataFrame([gain["agreement"]])
    show_frame(agreement, f"share of labels that the net reproduces, {counted(len(gain[along]), along)}")
    if "rows" in gain:
        scores = pd.DataFrame(gain["rows"]).set_index("what").T
        show_frame(scores.rename_axis("score", axis=0).reset_index(), "against the truth")


def show_status(job: Path, report: Mapping[str, Any]) -> None:
    """Print the decisions, options and results of a job, and the next command to run."""
    index, label, lines, disk = (report[key] for key in ("index", "label", "lines", "disk"))
    background = {report["background"]: " (background)"}
    decided = listed(report["decisions"])
    chosen = [f"{name.replace('_', ' ')} {value}" for name, value in label.items() if value and name != "mapping"]
    edited = " (retrieved.csv was edited by hand: the next retrieve or label uses it)"
    patches = "patches {} x {}, step {} x {}".format(*index["size"], *index["step"])
    patches += f", every {index['every']} along {index['along']}"
    used = []
    if "index" in disk:
        used.append(f"index {disk['index'] / 1e6:.1f} MB, {disk['bytes_a_patch']:.0f} bytes a patch")
    if "survey" in disk:
        used.append(f"subset of the survey {disk['survey'] / 1e6:.1f} MB")
    if "mapper" in disk:
        used.append(f"mappers {disk['mapper'] / 1e6:.1f} MB")
    if "votes" in disk:
        used.append(f"votes {disk['votes'] / 1e6:.1f} MB, {disk['bytes_a_sample']:.2f} bytes a sample")
    advice = report["correct_next"]
    place = advice["place"] if advice else []
    rows = {
        "volume": f"{report['volume']}\n{report['volume_unread']}".strip(),
        "classes": ", ".join(f"{code} {name}{background.get(name, '')}" for name, code in report["classes"].items()),
        "decided": decided and f"{decided}; by {', '.join(report['writers'])}",
        "audits": ", ".join(f"{counted(n, 'answers')} about {what}" for what, n in report["audits"].items()),
        "index": patches + ("" if index["finished"] else ": not finished" if "index" in disk else ": not computed yet"),
        "retrieved": ", ".join(f"{name} {n}" for name, n in report["retrieved"].items())
        + (" (from older decisions)" if report["retrieved_stale"] else "")
        + (edited if report["retrieved_edited"] else ""),
        "labels": f"{lines['labelled']} of {counted(lines['total'], 'lines')}"
        + (f", {lines['stale']} of them stale" if lines["stale"] else "")
        + (f", {lines['confirmed']} confirmed" if lines["confirmed"] else "")
        + f"; mapping {', '.join([label['mapping'], *chosen])}",
        "disk": ", ".join(used),
        "unreadable": ", ".join(f"{counted(n, 'lines')} of {name}" for name, n in report["damaged"].items()),
        "next": report["next"],
        "correct next": advice
        and f"line {advice['line']:g}, lowest confidence around {', '.join(f'{part:g}' for part in place)}",
    }
    show_rows(job, rows)


def show_decisions(table: "pd.DataFrame", title: str) -> None:
    """Print a table of decisions, without their ids, with times to the second."""
    show_frame(table.drop(columns="id").assign(when=table["when"].astype(str).str[:19]), title)


def picture(values: np.ndarray, box: Iterable[int], colour: str, *, width: int = 96) -> Text:
    """Return a grey picture of amplitudes as text for a terminal, with a coloured frame or cross.

    Parameters
    ----------
    values : array, shape (height, width)
        Amplitudes from 0 to 1. A character of the text shows two pixels, one above the other.
    box : tuple of int
        Top, left, height and width of the frame; if height or width is 0, a cross marks the point (top, left).
    colour : str
        Colour of the frame, as #rrggbb.
    width : int
        Largest number of characters in a line.
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
