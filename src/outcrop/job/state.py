"""What the decisions of a job add up to: classes, exemplars, verdicts, strokes, options."""

import bisect
from typing import NamedTuple

from outcrop.job.imports import holding, scope
from outcrop.job.inputs import unpack
from outcrop.mapping.confidence import find_background


class Exemplar(NamedTuple):
    """A patch that an interpreter chose: the one centred at a place, or a picture."""

    id: str
    name: str  # of its class
    place: tuple | None
    packed: str | None = None  # the picture as the decision has it; see `inputs.pack`
    scope: tuple = ()  # files through which it was imported

    @property
    def patch(self):
        """As `outcrop.retrieve` takes it: the place, or the picture as an array."""
        return self.place if self.packed is None else unpack(self.packed)


class Verdict(NamedTuple):
    """Yes or no to a retrieved patch."""

    name: str
    place: tuple
    along: str
    accept: bool
    scope: tuple = ()


class State(NamedTuple):
    """What holds after all decisions; classes go by the name under which they first appeared."""

    classes: dict  # first name -> {"name", "colour", "scope"}
    exemplars: list
    verdicts: list
    strokes: list  # entries
    options: dict
    audits: list  # entries, the last answer to each question

    def queries(self):
        """Exemplars of every class that has some, in the order of the classes.

        A class without any is looked for by its accepted patches.
        """
        accepted = [Exemplar("", one.name, one.place[:3]) for one in self.verdicts if one.accept]
        found = {
            name: [one for one in self.exemplars if one.name == name] or [one for one in accepted if one.name == name]
            for name in self.classes
        }
        return {name: some for name, some in found.items() if some}

    def first_name(self, name):
        """First name of the class that is called so now, None where there is none."""
        return next((key for key, facts in self.classes.items() if facts["name"] == name), None)


def acts(entries):
    """Ids of the acts of a person that can be undone and redone, the next one last."""
    past: list = []
    future: list = []
    before: list = []  # what could be redone before the last act
    for entry in entries:
        if entry["what"] == "undo" and entry.get("withdrawn"):
            past = [act for act in past if act != entry["of"]]
            future = before
        elif entry["what"] == "undo":
            past = [act for act in past if act != entry["of"]]
            future.append(entry["of"])
        elif entry["what"] == "redo":
            future = [act for act in future if act != entry["of"]]
            past.append(list(entry["of"]))
        elif together := [act for act in past if act[0] == entry.get("group")]:
            together[0].append(entry["id"])
        else:
            past.append([entry["id"]])
            before, future = future, []
    return past, future


def fold(entries):
    """What holds after some entries."""
    holds = holding(entries)
    state = State({}, [], [], [], {}, [])
    decided: set = set()  # scopes that have decided something so far
    for entry in entries:
        path = scope(entry)
        if (path, entry["id"]) not in holds or entry["what"] not in FOLDS:
            continue
        if entry["what"] != "set" or all(other[: len(path)] == path for other in decided):
            FOLDS[entry["what"]](state, entry)  # options are taken over where nothing else was decided
        decided.add(path)
    return state


def background_of(state):
    """First name of the class that may appear in any patch: the one decided on, or recognised by its name."""
    chosen = state.options.get("background")
    if chosen in state.classes:
        return chosen
    found = find_background([facts["name"] for facts in state.classes.values()])
    return find_background(list(state.classes)) if found is None else state.first_name(found)


def _acts_on(entry, path):
    """Whether an entry may change what came through some files: what was imported changes nothing else."""
    return not scope(entry) or scope(entry) == path


def _class(state, entry):
    fresh = {"name": entry["class"], "colour": None, "scope": scope(entry)}
    known = state.classes.setdefault(entry["class"], fresh)
    if entry.get("colour") and _acts_on(entry, known["scope"]):
        known["colour"] = entry["colour"]


def _rename(state, entry):
    known = state.classes.get(entry["class"])
    if known is not None and state.first_name(entry["name"]) is None and _acts_on(entry, known["scope"]):
        known["name"] = str(entry["name"])


def _remove_class(state, entry):
    name = entry["class"]
    state.exemplars[:] = [one for one in state.exemplars if one.name != name or not _acts_on(entry, one.scope)]
    state.verdicts[:] = [one for one in state.verdicts if one.name != name or not _acts_on(entry, one.scope)]
    state.strokes[:] = [one for one in state.strokes if one["class"] != name or not _acts_on(entry, scope(one))]
    used = [*(one.name for one in state.exemplars + state.verdicts), *(one["class"] for one in state.strokes)]
    if name in used or (name in state.classes and not _acts_on(entry, state.classes[name]["scope"])):
        return
    state.classes.pop(name, None)
    if state.options.get("background") == name:
        del state.options["background"]
    if isinstance(state.options.get("count"), dict):
        state.options["count"] = {key: value for key, value in state.options["count"].items() if key != name}


def _exemplar(state, entry):
    _class(state, entry)
    place = None if "picture" in entry else tuple(entry["place"])
    same = [one for one in state.exemplars if place and (one.name, one.place) == (entry["class"], place)]
    if not same:
        state.exemplars.append(Exemplar(entry["id"], entry["class"], place, entry.get("picture"), scope(entry)))


def _move(state, entry):
    for i, one in enumerate(state.exemplars):
        if one.id == entry["of"] and _acts_on(entry, one.scope):
            state.exemplars[i] = one._replace(place=tuple(entry["place"]))


def _remove(state, entry):
    state.exemplars[:] = [one for one in state.exemplars if one.id != entry["of"] or not _acts_on(entry, one.scope)]


def _verdict(state, entry):
    _class(state, entry)
    _forget(state, entry)
    place, along = tuple(entry["place"]), entry.get("along", "inline")
    if not any((one.place, one.along) == (place, along) for one in state.verdicts):
        state.verdicts.append(Verdict(entry["class"], place, along, entry["what"] == "accept", scope(entry)))


def _forget(state, entry):
    def meant(one):
        everywhere = "place" not in entry
        same = everywhere or (one.place, one.along) == (tuple(entry["place"]), entry.get("along", "inline"))
        return same and _acts_on(entry, one.scope)

    state.verdicts[:] = [one for one in state.verdicts if not meant(one)]


def _stroke(state, entry):
    if entry["class"] != "erase":
        _class(state, entry)
    # What was painted in this job lies on top of what was imported.
    below = bisect.bisect_left(state.strokes, True, key=lambda one: not scope(one))
    state.strokes.insert(below if scope(entry) else len(state.strokes), entry)


def _audit(state, entry):
    def question(one):
        return one["class"], one["place"], one["along"], one["subject"], one["of"]

    same = [one for one in state.audits if question(one) == question(entry)]
    if all(_acts_on(entry, scope(one)) for one in same):
        state.audits[:] = [one for one in state.audits if one not in same] + [entry]


def _set(state, entry):
    if entry["value"] is None:
        state.options.pop(entry["name"], None)
    else:
        state.options[entry["name"]] = entry["value"]


FOLDS = {
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
    "audit": _audit,
    "set": _set,
}
