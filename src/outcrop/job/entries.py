"""Check the lines in a file of decisions; incomplete and invalid lines are skipped and counted."""

import json
import math
from collections.abc import Callable
from typing import Any

from outcrop.job.line_files import is_name
from outcrop.job.options import IndexOptions, LabelOptions, RetrievalOptions

KINDS = (
    "class", "rename", "remove class", "exemplar", "move", "remove", "accept", "reject", "forget", "stroke", "exclude",
    "confirm", "unconfirm", "audit", "set", "undo", "redo", "import",
)  # fmt: skip
STROKES = ("stroke", "exclude")
AUDIT_ANSWERS = ("yes", "no", "unknown")


def parse(line: str) -> dict[str, Any] | None:
    """Return the log entry that a line of JSON contains; None if the line is not a valid entry."""
    try:
        entry = json.loads(line)
        sound = isinstance(entry, dict) and entry["what"] in KINDS and isinstance(entry["id"], str)
        sound = sound and isinstance(entry["time"], str) and isinstance(entry["who"], str)
        if entry["what"] in ("class", "rename", "remove class", "exemplar", "accept", "reject", *STROKES):
            sound = sound and isinstance(entry["class"], str)
        if entry["what"] in ("accept", "reject", "move") or (entry["what"] == "exemplar" and "picture" not in entry):
            sound = sound and _is_place(entry["place"])
        if entry["what"] in STROKES:
            sound = sound and entry["along"] in ("inline", "crossline")
            sound = sound and all(isinstance(entry.get(flag, False), bool) for flag in ("filled", "stick"))
            if "runs" in entry:
                sound = sound and all(_is_place(run) for run in entry["runs"]) and _number(entry["line"])
            else:
                sound = sound and all(map(_is_place, entry["points"])) and entry["radius"] > 0 and bool(entry["points"])
        if entry["what"] in ("confirm", "unconfirm"):
            sound = sound and entry["along"] in ("inline", "crossline") and _number(entry["line"])
        if entry["what"] == "confirm":
            sound = sound and is_name(entry["file"]) and isinstance(entry["classes"], list)
            sound = sound and all(map(_text, entry["classes"]))
            sound = sound and isinstance(entry.get("labels", ""), str)
        if entry["what"] == "audit":
            sound = sound and isinstance(entry["class"], str) and _is_place(entry["place"])
            sound = sound and entry["along"] in ("inline", "crossline") and entry["answer"] in AUDIT_ANSWERS
            sound = sound and all(isinstance(entry[name], str) for name in ("subject", "of"))
            sound = sound and _whole(entry["stratum"], 0)
            sound = sound and (isinstance(entry["really"], str) if "really" in entry else True)
            sound = sound and 0 <= entry.get("confidence", 0) <= 1
        if "import" in entry:
            sound = sound and isinstance(entry["import"], list) and all(map(_text, entry["import"]))
        if entry["what"] == "import":
            sound = sound and isinstance(entry["name"], str)
        if entry["what"] in ("undo", "redo"):
            sound = sound and isinstance(entry["of"], list)
        if entry["what"] == "set":
            sound = sound and valid_option(entry["name"], entry["value"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entry if sound else None


def valid_option(name: str, value: Any) -> bool:
    """Return whether `value` is a valid value of the option `name`; None, the default, is always valid."""
    if name not in CHECKS:
        return False
    try:
        if value is not None:
            CHECKS[name](value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _labels(value: dict[str, Any]) -> LabelOptions:
    known = {"with": "with_jobs"}
    return LabelOptions.read({known.get(key, key): part for key, part in value.items()})


def _neighbourhood(value: dict[str, Any]) -> tuple[IndexOptions, IndexOptions]:
    return IndexOptions(area=value["area"]), IndexOptions.read(value["survey"])


def _checked(kind: type) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise TypeError

    return check


def _whole(value: Any, least: int = 1, most: int = 10**9) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _is_place(value: Any) -> bool:
    return len(value) == 3 and all(_number(part) for part in value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "index": IndexOptions.read,
    "count": lambda value: RetrievalOptions(count=value),
    "per_exemplar": lambda value: RetrievalOptions(per_exemplar=value),
    "diverse": _checked(bool),  # in older jobs, without effect
    "background": _checked(str),
    "label": _labels,
    "limits": LabelOptions.read,
    "neighbourhood": _neighbourhood,
}
