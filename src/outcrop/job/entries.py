"""Which lines of a file of decisions are whole and make sense; everything else is passed over and counted."""

import json
import math

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
    """Whether an option of a stage has a value that the stage can take; None stands for the default."""
    if value is None:
        return name in OPTIONS
    if name == "index":
        return _index(value)
    return OPTIONS.get(name, _never)(value)


def _index(value):
    return isinstance(value, dict) and all(INDEX.get(key, _never)(part) for key, part in value.items())


def _neighbourhood(value):
    return isinstance(value, dict) and _area(value.get("area")) and _index(value.get("survey"))


def _never(value):
    return False


def _whole(value, least=1, most=10**9):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _sizes(value):
    return _whole(value) or (isinstance(value, list) and len(value) in (1, 2) and all(map(_whole, value)))


def _area(value):
    pairs = list(value.values()) if isinstance(value, dict) else [None]
    return all(isinstance(ends, list) and len(ends) == 2 and all(map(_number, ends)) for ends in pairs)


def _count(value):
    if isinstance(value, dict):
        return all(n == "auto" or _whole(n) for n in value.values())
    return value == "auto" or _whole(value)


def _label(value):
    kinds = {"mapping": str, "seed": int, "step": int, "mapper": str, "with": list}
    return isinstance(value, dict) and all(isinstance(part, kinds.get(key, ())) for key, part in value.items())


def _limits(value):
    known = ("min_confidence", "max_error")
    return isinstance(value, dict) and all(
        key in known and _number(part) and 0 <= part <= 1 for key, part in value.items()
    )


def _text(value):
    return isinstance(value, str)


def _flag(value):
    return isinstance(value, bool)


def _files(value):
    return isinstance(value, list) and len(value) == 2 and all(map(_text, value))


def _is_place(value):
    return len(value) == 3 and all(_number(part) for part in value)


def _number(value):
    return isinstance(value, int | float) and math.isfinite(value)


INDEX: dict = {
    "size": _sizes, "step": _sizes, "every": _whole, "sample": _whole, "seed": lambda seed: _whole(seed, 0, 2**63),
    "along": _text, "gain": _text, "clip": lambda clip: _number(clip) and clip > 0, "area": _area, "between": _files,
    "measure": _text, "truncate": _flag, "finest": _flag,
}  # fmt: skip
OPTIONS: dict = {
    "index": None, "count": _count, "per_exemplar": _flag, "diverse": _flag, "background": _text, "label": _label,
    "limits": _limits, "neighbourhood": _neighbourhood,
}  # fmt: skip
