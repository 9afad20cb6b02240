"""What the decisions of a job add up to: classes, exemplars, verdicts, strokes, options."""

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outcrop.job.imports import Entry, Scope, holding, scope
from outcrop.job.inputs import unpack
from outcrop.mapping.confidence import find_background


class Exemplar(NamedTuple):
    """A patch that an interpreter chose: the one centred at a place, or a picture."""

    id: str
    name: str  # of its class
    place: tuple[float, ...] | None
    packed: str | None = None  # the picture as the decision has it; see `inputs.pack`
    scope: Scope = ()  # files through which it was imported
    along: str | None = None  # direction of an accepted patch; None: that of the index

    @property
    def patch(self) -> Any:
        """As `outcrop.retrieve` takes it: the place, with its direction where that is known, or the picture."""
        if self.packed is not None:
            return unpack(self.packed)
        return self.place if self.place is None or self.along is None else (*self.place, self.along)


class Verdict(NamedTuple):
    """Yes or no to a retrieved patch."""

    name: str
    place: tuple[float, ...]
    along: str
    accept: bool
    scope: Scope = ()


class State(NamedTuple):
    """The state of a job after all its decisions; classes are keyed by the name under which they first appeared."""

    classes: dict[str, dict[str, Any]]  # first name -> {"name", "colour", "scope"}
    exemplars: list[Exemplar]
    verdicts: list[Verdict]
    strokes: list[Entry]
    options: dict[str, Any]
    audits: list[Entry]  # the last answer to each question
    confirmed: list[Entry]  # with `older`, ids of earlier strokes and exemplars, and `without`, classes removed since

    def queries(self) -> dict[str, list[Exemplar]]:
        """Return the exemplars of every class that has some, in the order of the classes.

        A class without any is looked for by its accepted patches.
        """
        accepted = [Exemplar("", one.name, one.place, along=one.along) for one in self.verdicts if one.accept]
        found = {
            name: [one for one in self.exemplars if one.name == name] or [one for one in accepted if one.name == name]
            for name in self.classes
        }
        return {name: some for name, some in found.items() if some}

    def first_name(self, name: str) -> str | None:
        """Return the first name of the class that has this name now, None where no class has it."""
        return next((key for key, facts in self.classes.items() if facts["name"] == name), None)


def acts(entries: Iterable[Entry]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the ids of the acts of a person that can be undone, and of the acts to redo; the next one is last."""
    past: dict[str, list[str]] = {}  # acts by their first id, as everywhere here
    future: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}  # what could be redone before the last act
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
    """A state while entries are replayed: verdicts by place and direction, audits by question."""

    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    exemplars: list[Exemplar] = field(default_factory=list)
    verdicts: dict[tuple[Any, ...], Verdict] = field(default_factory=dict)
    strokes: list[Entry] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    audits: dict[tuple[Any, ...], Entry] = field(default_factory=dict)
    confirmed: list[Entry] = field(default_factory=list)


def fold(entries: Sequence[Entry]) -> State:
    """Replay entries into the current state."""
    holds = holding(entries)
    state = Replay()
    decided: set[Scope] = set()  # scopes that have decided something so far
    for entry in entries:
        path = scope(entry)
        if (path, entry["id"]) not in holds or entry["what"] not in FOLDS:
            continue
        if entry["what"] != "set" or all(other[: len(path)] == path for other in decided):
            FOLDS[entry["what"]](state, entry)  # options are taken over where nothing else was decided
        decided.add(path)
    verdicts, audits = list(state.verdicts.values()), list(state.audits.values())
    return State(state.classes, state.exemplars, verdicts, state.strokes, state.options, audits, state.confirmed)


def background_of(state: State) -> str | None:
    """Return the first name of the class that may appear in any patch: as decided, or recognised by its name."""
    chosen: str | None = state.options.get("background")
    if chosen in state.classes:
        return chosen
    found: str | None = find_background([facts["name"] for facts in state.classes.values()])
    return find_background(list(state.classes)) if found is None else state.first_name(found)


def is_later(mark: str, path: Scope, entry: Entry) -> bool:
    """Return whether a stroke or an exemplar, given by id and scope, wins over a confirmed line.

    What was decided in a job wins over what was imported into it; otherwise the later decision wins.
    """
    its = scope(entry)
    if path != its and its == path[: len(its)]:
        return False
    if path != its and path == its[: len(path)]:
        return True
    return mark not in entry["older"]


def _acts_on(entry: Entry, path: Scope) -> bool:
    """Return whether an entry may change what came through some files: its own, and what was imported into them."""
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
            _is_newer(state, one.id)


def _move(state: Replay, entry: Entry) -> None:
    for i, one in enumerate(state.exemplars):
        if one.id == entry["of"] and _acts_on(entry, one.scope):
            state.exemplars[i] = one._replace(place=tuple(entry["place"]))
            _is_newer(state, one.id)


def _is_newer(state: Replay, exemplar: str) -> None:
    """Let an exemplar win over the lines that were confirmed before this entry."""
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
    """Add a stroke or a confirmed line: what was decided in this job lies on top of what was imported."""
    path, below = scope(entry), len(entries)
    if len(path) == 1:
        below = bisect.bisect_left(entries, True, key=lambda one: not scope(one))
    elif path:  # an import of an import lies below what was decided where it was imported first
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
