"""Which lines of a file of decisions are whole and make sense; everything else is passed over and counted."""

import json
import math

from outcrop.job.options import IndexOptions, LabelOptions, RetrievalOptions

KINDS = (
    "class", "rename", "remove class", "exemplar", "move", "remove", "accept", "reject", "forget", "stroke", "exclude",
    "audit", "set", "undo", "redo", "import",
)  # fmt: skip
STROKES = ("stroke", "exclude")
AUDIT_ANSWERS = ("yes", "no", "unknown")


def parse(line):
    """An entry of a line of text, None where it is none."""
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


def valid_option(name, value):
    """Return whether a decided option has a value that its stage can take; None stands for the default."""
    if name not in CHECKS:
        return False
    try:
        if value is not None:
            CHECKS[name](value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _labels(value):
    known = {"with": "with_jobs"}
    return LabelOptions.read({known.get(key, key): part for key, part in value.items()})


def _neighbourhood(value):
    return IndexOptions(area=value["area"]), IndexOptions.read(value["survey"])


def _checked(kind):
    def check(value):
        if not isinstance(value, kind):
            raise TypeError

    return check


def _whole(value, least=1, most=10**9):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _text(value):
    return isinstance(value, str)


def _is_place(value):
    return len(value) == 3 and all(_number(part) for part in value)


def _number(value):
    return isinstance(value, int | float) and math.isfinite(value)


CHECKS: dict = {
    "index": IndexOptions.read,
    "count": lambda value: RetrievalOptions(count=value),
    "per_exemplar": lambda value: RetrievalOptions(per_exemplar=value),
    "diverse": _checked(bool),  # of older jobs, without effect
    "background": _checked(str),
    "label": _labels,
    "limits": LabelOptions.read,
    "neighbourhood": _neighbourhood,
}
