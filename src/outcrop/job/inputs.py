"""Checks of arguments of a job: class names, colours, pictures, rows and points."""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

RESERVED = ("uncertain", "right", "wrong", "erase")  # words with a meaning of their own
LONGEST_NAME = 40  # characters of the name of a class
Place = Sequence[float]


def class_name(text: Any) -> str:
    """Return a class name with spaces in place of hyphens and underscores; raise ValueError if it is not valid.

    Examples
    --------
    >>> class_name(" salt-dome ")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", text).strip() if isinstance(text, str) else ""
    problem = name_problem(name)
    if problem:
        raise ValueError(f"{str(text)[:50]!r} is not a class name: {problem}; use a word such as fault or salt-dome.")
    return name


def name_problem(name: str) -> str:
    """Return the reason why a class name is not valid, or an empty text if it is valid.

    Examples
    --------
    >>> name_problem("a/b"), name_problem("fault")
    ("it has '/'", '')
    """
    odd = re.search(r"[^\w .()]", name)
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, more than {LONGEST_NAME}"
    if odd:
        return f"it has {odd[0]!r}"
    if not re.match(r"\w", name):
        return "it begins with neither a letter nor a digit"
    return f"{', '.join(RESERVED)} are reserved" if name.casefold() in RESERVED else ""


def check_colour(text: str) -> str:
    """Return a colour #rrggbb in lower case; raise ValueError for any other text."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", str(text)):
        raise ValueError(f"Colour {str(text)[:20]!r} is not valid; write it as #rrggbb.")
    return str(text).lower()


def pack(picture: np.ndarray) -> str:
    """Return a picture (an array) as base64 text, the form in which a decision stores it."""
    out = io.BytesIO()
    np.save(out, picture, allow_pickle=False)
    return base64.b64encode(out.getvalue()).decode()


def unpack(text: str) -> np.ndarray:
    """Return the picture that `pack` turned into text."""
    picture: np.ndarray = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return picture


def row_list(rows: Any) -> list[int]:
    """Return numbers of patches in the index (rows) as a list of int; raise ValueError for other values."""
    found = np.atleast_1d(np.asarray(rows))
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ValueError(f"Rows are {rows!r}; give whole numbers from the column 'row' of the retrieved table.")
    return [int(row) for row in found]


def point_list(points: Any) -> list[list[float]]:
    """Return points of inline, crossline and time as lists of float; a single point gives a list with one point."""
    try:
        found = np.atleast_2d(np.asarray(points, float))
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    if found.ndim != 2 or found.shape[1] != 3 or not np.isfinite(found).all():
        raise ValueError(f"Points are {str(points)[:80]}; give inline, crossline and time (or depth) of each.")
    return [[float(part) for part in point] for point in found]
