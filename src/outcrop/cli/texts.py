"""Parse the texts of command-line options: numbers, ranges, points and NAME=VALUE pairs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Text = str | None
Texts = list[str] | None
OnePath = Path | None


def numbers(text: str, count: int, option: str, kind: Callable[[str], Any] = int) -> tuple[Any, ...]:
    """Return the comma-separated numbers in the text of an option; raise ValueError if there are not `count` of them.

    `kind` converts each number. `option` is the name of the option, for the error message.

    Examples
    --------
    >>> numbers("189,193", 2, "--header-bytes")
    (189, 193)
    """
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ValueError(f"{option} is {text!r}; give {count} numbers separated by commas.")
    return values


def stroke_points(text: str, along: str) -> list[tuple[float, float, float]]:
    """Return the points (inline, crossline, time) in the text of a --stroke option.

    `along` is the direction of the painted section, inline or crossline.

    Examples
    --------
    >>> stroke_points("330,540,1500:560,1640", "inline")
    [(330.0, 540.0, 1500.0), (330.0, 560.0, 1640.0)]
    """
    line, _, points = text.partition(",")
    try:
        number = float(line)
        places = [(float(trace), float(time)) for trace, time in (point.split(",") for point in points.split(":"))]
    except ValueError:
        raise ValueError(
            f"--stroke is {text!r}; write LINE,TRACE,TIME:TRACE,TIME, e.g. 330,540,1500:560,1640."
        ) from None
    return [(number, trace, time) if along == "inline" else (trace, number, time) for trace, time in places]


def number_list(text: Text, option: str) -> list[int]:
    """Return the whole numbers in the text of an option, with ranges written out; an empty list if `text` is None.

    `option` is the name of the option, for the error message.

    Examples
    --------
    >>> number_list("1,2,5-7", "--lines")
    [1, 2, 5, 6, 7]
    """
    found: list[int] = []
    for part in [] if text is None else text.split(","):
        ends = re.fullmatch(r"\s*(-?\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not ends:
            raise ValueError(f"{option} is {text!r}; give whole numbers separated by commas, or ranges such as 5-9.")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def line_list(text: Text) -> list[int] | None:
    """Return the line numbers in the text of a --lines option; None, which means all lines, if `text` is None."""
    return number_list(text, "--lines") or None


def named_value(text: str, option: str, form: str) -> tuple[str, str]:
    """Return the name and the value in the text NAME=VALUE of an option.

    `option` is the name of the option, and `form` the expected text, for the error message.

    Examples
    --------
    >>> named_value("fault=310,547,1600", "--exemplar", "CLASS=INLINE,CROSSLINE,TIME")
    ('fault', '310,547,1600')
    """
    name, _, value = text.partition("=")
    if not name.strip() or not value.strip():
        raise ValueError(f"{option} is {text!r}; write {form}.")
    return name.strip(), value.strip()
