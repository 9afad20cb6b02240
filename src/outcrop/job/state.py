"""The state of a job: classes, exemplars, verdicts, strokes, options and others, replayed from its decisions."""

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outcrop.job.imports import Entry, Scope, entries_in_force, scope
from outcrop.job.inputs import unpack
from outcrop.mapping.confidence import find_background


class Exemplar(NamedTuple):
    """A patch that an interpreter chose as an example of a class: its centre, or a picture."""

    id: str
    name: str  # first name of its class
    place: tuple[float, ...] | None
    packed: str | None = None  # the picture as text; see `inputs.pack`
    scope: Scope = ()  # files through which it was imported
    along: str | None = None  # direction of an accepted patch; None: the direction of the index

    @property
    def patch(self) -> Any:
        """The place (with the direction, if it is known) or the picture, in the form that `outcrop.retrieve` takes."""
        if self.packed is not None:
            return unpack(self.packed)
        return self.place if self.place is None or self.along is None else (*self.place, self.along)


class Verdict(NamedTuple):
    """A verdict on a retrieved patch: accepted or rejected."""

    name: str  # first name of its class
    place: tuple[float, ...]
    along: str
    accept: bool
    scope: Scope = ()  # files through which it was imported


class State(NamedTuple):
    """The state of a job after all its decisions; classes are keyed by the name under which they first appeared."""

    classes: dict[str, dict[str, Any]]  # first name -> {"name", "colour", "scope"}
    exemplars: list[Exemplar]
    verdicts: list[Verdict]
    strokes: list[Entry]
    options: dict[str, Any]
    audits: list[Entry]  # the last answer to each question
    confirmed: list[Entry]  # with `older`: ids of earlier strokes and exemplars, `without`: classes removed later

    def queries(self) -> dict[str, list[Exemplar]]:
        """Return a dict: first name of a class -> its exemplars, or its accepted patches if it has no exemplar.

        A class with neither exemplars nor accepted patches is left out.
        """
        accepted = [Exemplar("", one.name, one.place, along=one.along) for one in self.verdicts if one.accept]
        found = {
            name: [one for one in self.exemplars if one.name == name] or [one for one in accepted if one.name == name]
            for name in self.classes
        }
        return {name: some for name, some in found.items() if some}

    def first_name(self, name: str) -> str | None:
        """Return the name under which the class now called `name` was first added; None if no class has this name."""
        return next((key for key, facts in self.classes.items() if facts["name"] == name), None)


def acts(entries: Iterable[Entry]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the acts of a person that can be undone, and the acts that can be redone; each act is a list of ids.

    In both lists the act to undo or redo next is the last one.
    """
    past: dict[str, list[str]] = {}  # first id of an act -> its ids, also below
    future: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}  # acts that could be redone before the last act
    for entry in entries:
        if entry["what"] == "undo":
            for one in entry["of"]:
                past.pop(one, None)
            if entry.get("withdrawn"):
                future = before
            elif entry["of"]:
                future[entry["of"][0]] = entry["of"]
        elif entry["what"] == "redo":
            for one in entry["of"]:
                future.pop(one, None)
            past |= {one: list(entry["of"]) for one in entry["of"][:1]}
        elif entry.get("group") in past:
            past[entry["group"]].append(entry["id"])
        else:
            past[entry["id"]] = [entry["id"]]
            before, future = future, {}
    return list(past.values()), list(future.values())


@dataclass
class Replay:
    """The state of a job while its entries are replayed: verdicts by place and direction, audits by question."""

    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    exemplars: list[Exemplar] = field(default_factory=list)
    verdicts: dict[tuple[Any, ...], Verdict] = field(default_factory=dict)
    strokes: list[Entry] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    audits: dict[tuple[Any, ...], Entry] = field(default_factory=dict)
    confirmed: list[Entry] = field(default_factory=list)


def fold(entries: Sequence[Entry]) -> State:
    """Replay log entries, in their order, and return the state of the job after them."""
    in_force = entries_in_force(entries)
    state = Replay()
    decided: set[Scope] = set()  # scopes with a decision so far
    for entry in entries:
        path = scope(entry)
        if (path, entry["id"]) not in in_force or entry["what"] not in FOLDS:
            continue
        if entry["what"] != "set" or all(other[: len(path)] == path for other in decided):
            FOLDS[entry["what"]](state, entry)  # imported options count only if no other scope has decided
        decided.add(path)
    verdicts, audits = list(state.verdicts.values()), list(state.audits.values())
    return State(state.classes, state.exemplars, verdicts, state.strokes, state.options, audits, state.confirmed)


def background_of(state: State) -> str | None:
    """Return the background class, chosen by a person or recognised by its name; None without one.

    It is returned under the name with which it was first added.
    """
    chosen: str | None = state.options.get("background")
    if chosen in state.classes:
        return chosen
    found: str | None = find_background([facts["name"] for facts in state.classes.values()])
    return find_background(list(state.classes)) if found is None else state.first_name(found)


def wins_over_line(mark: str, path: Scope, entry: Entry) -> bool:
    """Return whether a stroke or an exemplar changes the labels of a confirmed line.

    `mark` is the id of the stroke or exemplar, `path` the chain of files through which it was imported, and `entry` the
    entry that confirms the line.

    Decisions of a job win over decisions imported into it; within one scope the later decision wins.
    """
    its = scope(entry)
    if path != its and its == path[: len(its)]:
        return False
    if path != its and path == its[: len(path)]:
        return True
    return mark not in entry["older"]


def _acts_on(entry: Entry, path: Scope) -> bool:
    """Return whether an entry may change decisions of the scope `path`.

    A scope names the files through which a decision was imported. An entry may change decisions of its own scope, and
    of files that were imported into its scope.
    """
    return path[: len(scope(entry))] == scope(entry)


def _class(state: Replay, entry: Entry) -> None:
    fresh = {"name": entry["class"], "colour": None, "scope": scope(entry)}
    known = state.classes.setdefault(entry["class"], fresh)
    if entry.get("colour") and _acts_on(entry, known["scope"]):
        known["colour"] = entry["colour"]


def _rename(state: Replay, entry: Entry) -> None:
    known = state.classes.get(entry["class"])
    taken = [facts["name"] for facts in state.classes.values()]
    if known is not None and entry["name"] not in taken and _acts_on(entry, known["scope"]):
        known["name"] = str(entry["name"])


def _remove_class(state: Replay, entry: Entry) -> None:
    name = entry["class"]
    state.exemplars = [one for one in state.exemplars if one.name != name or not _acts_on(entry, one.scope)]
    state.strokes = [one for one in state.strokes if one["class"] != name or not _acts_on(entry, scope(one))]
    for key, verdict in list(state.verdicts.items()):
        if verdict.name == name and _acts_on(entry, verdict.scope):
            del state.verdicts[key]
    state.confirmed = [
        one | {"without": [*one["without"], name]} if _acts_on(entry, scope(one)) else one for one in state.confirmed
    ]
    used = {one.name for one in state.exemplars} | {one.name for one in state.verdicts.values()}
    used |= {one["class"] for one in state.strokes}
    used |= {first for one in state.confirmed for first in one["classes"] if first not in one["without"]}
    if name in used or (name in state.classes and not _acts_on(entry, state.classes[name]["scope"])):
        return
    state.classes.pop(name, None)
    if state.options.get("background") == name:
        del state.options["background"]
    if isinstance(state.options.get("count"), dict):
        state.options["count"] = {key: value for key, value in state.options["count"].items() if key != name}


def _exemplar(state: Replay, entry: Entry) -> None:
    _class(state, entry)
    place = None if "picture" in entry else tuple(entry["place"])
    known = [one for one in state.exemplars if place is not None and (one.name, one.place) == (entry["class"], place)]
    if not known:
        state.exemplars.append(Exemplar(entry["id"], entry["class"], place, entry.get("picture"), scope(entry)))
    for one in known:
        if _acts_on(entry, one.scope):
            _win_over_lines(state, one.id)


def _move(state: Replay, entry: Entry) -> None:
    for i, one in enumerate(state.exemplars):
        if one.id == entry["of"] and _acts_on(entry, one.scope):
            state.exemplars[i] = one._replace(place=tuple(entry["place"]))
            _win_over_lines(state, one.id)


def _win_over_lines(state: Replay, exemplar: str) -> None:
    """Let the exemplar with an id change the labels of all lines confirmed so far."""
    for line in state.confirmed:
        line["older"].discard(exemplar)


def _remove(state: Replay, entry: Entry) -> None:
    state.exemplars = [one for one in state.exemplars if one.id != entry["of"] or not _acts_on(entry, one.scope)]


def _verdict(state: Replay, entry: Entry) -> None:
    _class(state, entry)
    _forget(state, entry)
    key = place, along = tuple(entry["place"]), entry.get("along", "inline")
    state.verdicts.setdefault(key, Verdict(entry["class"], place, along, entry["what"] == "accept", scope(entry)))


def _forget(state: Replay, entry: Entry) -> None:
    everywhere = "place" not in entry
    meant = list(state.verdicts) if everywhere else [(tuple(entry["place"]), entry.get("along", "inline"))]
    for key in meant:
        if key in state.verdicts and _acts_on(entry, state.verdicts[key].scope):
            del state.verdicts[key]


def _stroke(state: Replay, entry: Entry) -> None:
    if entry["class"] != "erase":
        _class(state, entry)
    _insert(state.strokes, entry)


def _insert(entries: list[Entry], entry: Entry) -> None:
    """Insert a stroke or a confirmed line into a list; decisions of this job come after all imported decisions."""
    path, below = scope(entry), len(entries)
    if len(path) == 1:
        below = bisect.bisect_left(entries, True, key=lambda one: not scope(one))
    elif path:  # an import of an import lies below the decisions of the job that imported it first
        above = (i for i, one in enumerate(entries) if scope(one) != path and scope(one) == path[: len(scope(one))])
        below = next(above, below)
    entries.insert(below, entry)


def _confirm(state: Replay, entry: Entry) -> None:
    for name in entry["classes"]:
        _class(state, {"class": name, "import": list(scope(entry))})
    older = {one.id for one in state.exemplars} | {one["id"] for one in state.strokes}
    _insert(state.confirmed, entry | {"older": older, "without": []})


def _unconfirm(state: Replay, entry: Entry) -> None:
    meant = entry["along"], entry["line"]
    state.confirmed = [
        one for one in state.confirmed if (one["along"], one["line"]) != meant or not _acts_on(entry, scope(one))
    ]


def _audit(state: Replay, entry: Entry) -> None:
    question = entry["class"], tuple(entry["place"]), entry["along"], entry["subject"], entry["of"]
    before = state.audits.get(question)
    if before is None or _acts_on(entry, scope(before)):
        state.audits.pop(question, None)
        state.audits[question] = entry


def _set(state: Replay, entry: Entry) -> None:
    if entry["value"] is None:
        state.options.pop(entry["name"], None)
    else:
        state.options[entry["name"]] = entry["value"]


FOLDS: dict[str, Callable[[Replay, Entry], None]] = {
    "class": _class,
    "rename": _rename,
    "remove class": _remove_class,
    "exemplar": _exemplar,
    "move": _move,
    "remove": _remove,
    "accept": _verdict,
    "reject": _verdict,
    "forget": _forget,
    "stroke": _stroke,
    "exclude": _stroke,
    "confirm": _confirm,
    "unconfirm": _unconfirm,
    "audit": _audit,
    "set": _set,
}
