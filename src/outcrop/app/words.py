"""Describe decisions in words, for the messages of undo and redo."""

from collections.abc import Mapping, Sequence
from typing import Any

from outcrop.patches.grid import DIRECTIONS

KINDS = {
    "class": "class {name}", "rename": "new name of {name}", "remove class": "removing class {name}",
    "exemplar": "exemplar of {name}", "move": "moving an exemplar", "remove": "removing an exemplar",
    "accept": "accepting a patch of {name}", "reject": "rejecting a patch of {name}", "forget": "clearing a verdict",
    "stroke": "stroke of {name}", "exclude": "stroke of wrong labels", "audit": "answer about {name}",
    "set": "choice of {option}", "import": "decisions of {option}", "confirm": "confirming {along} {line}",
    "unconfirm": "no longer confirming {along} {line}",
}  # fmt: skip
OPTIONS = {
    "index": "patches", "neighbourhood": "patches", "count": "the number of patches", "label": "the method",
    "limits": "the minimum confidence",
}  # fmt: skip


GROUPS = {
    "class": "class", "rename": "class", "remove class": "class", "exemplar": "exemplar", "move": "exemplar",
    "remove": "exemplar", "accept": "verdict", "reject": "verdict", "forget": "verdict", "exclude": "stroke",
    "unconfirm": "confirm",
}  # fmt: skip


def kind_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the kind of an act: class, exemplar, verdict, stroke, confirm, audit, set (an option) or import."""
    what = str(entries[-1]["what"])
    return GROUPS.get(what, what)


def person_of(entry: Mapping[str, Any]) -> str:
    """Return the name of the person who wrote an entry of the log.

    Examples
    --------
    >>> person_of({"who": "ann@ws1-2"})
    'ann@ws1'
    """
    return str(entry["who"]).rpartition("-")[0]


def in_words(entries: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    """Return a short description of an act: all decisions of one command or one click.

    Parameters
    ----------
    entries : list of dict
        Entries of the act in the log of decisions.
    names : dict
        First name of a class -> its present name.

    Examples
    --------
    >>> stroke = {"what": "stroke", "class": "fault", "along": "inline", "points": [[310, 547, 1600]], "radius": 4}
    >>> in_words([stroke], {})
    'stroke of fault on inline 310'
    >>> in_words([stroke | {"class": "erase"}], {})
    'erasing on inline 310'
    """
    entry = entries[-1]  # an act that adds a class begins with the entry of the class
    first = entry.get("class", "")
    name = names.get(first, first)
    option = str(entry.get("name", ""))
    place = {"along": entry.get("along", ""), "line": f"{entry.get('line', 0):g}"}
    text = KINDS[entry["what"]].format(name=name, option=OPTIONS.get(option, option.replace("_", " ")), **place)
    if entry["what"] in ("stroke", "exclude"):
        line = entry["line"] if "runs" in entry else entry["points"][0][DIRECTIONS.index(entry["along"])]
        if entry.get("stick"):
            text = f"{'rejected ' if entry['what'] == 'exclude' else ''}fault stick of {name}"
        text = f"{'erasing' if first == 'erase' else text} on {entry['along']} {line:g}"
    others = sum(one["what"] == entry["what"] for one in entries) - 1
    return f"{text} and {others} more" if others else text
