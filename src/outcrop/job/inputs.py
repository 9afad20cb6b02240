"""What is handed to a job, checked: names of classes, places, rows, counts, colours, pictures."""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

RESERVED = ("uncertain", "right", "wrong", "erase")  # words that name no class
LONGEST_NAME = 40  # characters of the name of a class
Place = Sequence[float]


def class_name(text: Any) -> str:
    """Return a class name as the project writes it: hyphens and underscores are spaces.

    Examples
    --------
    >>> class_name(" salt-dome ")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", text).strip() if isinstance(text, str) else ""
    wrong = wrong_with(name)
    if wrong:
        raise ValueError(f"{str(text)[:50]!r} is not a class name: {wrong}; use a word such as fault or salt-dome.")
    return name


def wrong_with(name: str) -> str:
    """Return what is wrong with a class name, "" where nothing is.

    Examples
    --------
    >>> wrong_with("a/b"), wrong_with("fault")
    ("it has '/'", '')
    """
    odd = re.search(r"[^\w .()]", name)
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, {LONGEST_NAME} are the most"
    if odd:
        return f"it has {odd[0]!r}"
    if not re.match(r"\w", name):
        return "it begins with neither a letter nor a digit"
    return f"{', '.join(RESERVED)} mean something else" if name.casefold() in RESERVED else ""


def check_colour(text: str) -> str:
    """Return a colour as #rrggbb; anything else is refused."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", str(text)):
        raise ValueError(f"Colour {str(text)[:20]!r} is not understood; write it as #rrggbb.")
    return str(text).lower()


def pack(picture: np.ndarray) -> str:
    """Return a picture as text, for a decision."""
    out = io.BytesIO()
    np.save(out, picture, allow_pickle=False)
    return base64.b64encode(out.getvalue()).decode()


def unpack(text: str) -> np.ndarray:
    """Return a picture from text."""
    picture: np.ndarray = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return picture


def row_list(rows: Any) -> list[int]:
    """Return row numbers as a list of int."""
    found = np.atleast_1d(np.asarray(rows))
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ValueError(f"Rows are {rows!r}; give whole numbers of the column 'row' of the retrieved table.")
    return [int(row) for row in found]


def point_list(points: Any) -> list[list[float]]:
    """Return points of inline, crossline and time as lists of float; one alone is a list of one."""
    try:
        found = np.atleast_2d(np.asarray(points, float))
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    if found.ndim != 2 or found.shape[1] != 3 or not np.isfinite(found).all():
        raise ValueError(f"Points are {str(points)[:80]}; give inline, crossline and time (or depth) of each.")
    return [[float(part) for part in point] for point in found]
