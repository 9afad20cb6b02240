"""What interpreters decide in a job: classes, exemplars, yes and no, strokes, options."""

import contextlib
import difflib
import json
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from filelock import FileLock

from outcrop.job import tables
from outcrop.job.folder import JobFolder
from outcrop.job.inputs import Place, as_json, check_colour, class_name, pack, point_list, row_list
from outcrop.job.state import State, background_of
from outcrop.job.strokes import excluded_sections, painted_sections, runs, section_of, stroke_mask
from outcrop.patches.grid import DIRECTIONS
from outcrop.plots.colours import COLOURS, EXTRA
from outcrop.retrieval.exemplars import exemplar_picture
from outcrop.storage.workspace import whole_file


class JobChoices(JobFolder):
    """A job folder in which can be decided."""

    @property
    def state(self) -> State:
        """What holds after all decisions, of this writer and of all others."""
        return self.log.state()

    @property
    def decisions(self) -> pd.DataFrame:
        """All decisions: when, who, from where, what, of which class, where, and whether it was undone."""
        return tables.decisions_table(self.log.entries)

    @property
    def classes(self) -> dict:
        """Class -> code, of the classes in use; a code is fixed when its class first appears."""
        state, codes = self.state, self._codes()
        return {facts["name"]: codes[name] for name, facts in state.classes.items()}

    @property
    def palette(self) -> dict:
        """Class -> colour."""
        state, codes = self.state, self._codes()
        taken = [facts["colour"] for facts in state.classes.values()]
        spare = [colour for colour in EXTRA if colour not in taken] or list(EXTRA)
        found = {}
        for name, facts in state.classes.items():
            colour = facts["colour"] or COLOURS.get(name)
            if colour is None:
                colour = spare[(codes[name] - 1) % len(spare)]
            found[facts["name"]] = colour
        return found

    def _codes(self):
        """Code of every class that ever was, by its first name; kept in the folder so that no import changes one."""
        path, names = self.path / "classes.json", list(self.state.classes)
        codes = self._opened.get("codes", {})  # a code never changes
        if all(name in codes for name in names):
            return codes
        codes = _read_json(path)
        if all(name in codes for name in names):
            self._opened["codes"] = codes
            return codes
        with contextlib.suppress(OSError), FileLock(self.path / ".classes.lock", timeout=10):
            codes = _with_codes(_read_json(path), names)
            with whole_file(path) as aside:
                aside.write_text(json.dumps(codes), encoding="utf-8")
        return _with_codes(codes, names)

    @property
    def background(self) -> str | None:
        """The class that may appear in any patch: as decided, or recognised by its name."""
        state = self.state
        first = background_of(state)
        return None if first is None else state.classes[first]["name"]

    def _decide(self, *entries):
        """Write entries as one act, and fix the codes of classes that appear."""
        written = self.log.add(*entries)
        self._codes()
        return written

    def _class(self, name, *, new=False):
        """First name of a class; of one that is not there yet only where it may be made."""
        first = self.state.first_name(name)  # also of an old job, where more names were allowed
        if first is None:
            name = class_name(name)
            first = self.state.first_name(name)
        if first is not None:
            return first
        self._check_case(name)
        if not new:
            known = ", ".join(facts["name"] for facts in self.state.classes.values())
            raise ValueError(f"Class {name!r} is unknown; choose one of {known or 'none yet'}.")
        first, number = name, 1
        while first in self.state.classes:  # a class that is called otherwise by now had this name first
            number += 1
            first = f"{name} {number}"
        return first

    def _check_case(self, name, *, but=None):
        """Refuse a name that differs from that of a class, `but` one by its first name, in capitals alone."""
        for first, facts in self.state.classes.items():
            if first != but and facts["name"] != name and facts["name"].casefold() == name.casefold():
                raise ValueError(f"Class {name!r} is there already as {facts['name']!r}; write it the same way.")

    def _new_class(self, name):
        """Entries that make a class, none where it is there; its first name."""
        first = self._class(name, new=True)
        if first in self.state.classes:
            return [], first
        self._warn_of_typo(class_name(name))
        entries = [{"what": "class", "class": first}]
        if first != class_name(name):
            entries.append({"what": "rename", "class": first, "name": class_name(name)})
        return entries, first

    def _warn_of_typo(self, name):
        """Say that a class is new where its name is nearly that of another one, but for a number."""
        known = [facts["name"] for facts in self.state.classes.values()]
        near = difflib.get_close_matches(name, known, 1, 0.8)
        if near and re.sub(r"[\W\d]", "", near[0]) != re.sub(r"[\W\d]", "", name):
            self._note(f"Class {name!r} is new here; if {near[0]!r} is meant, undo this and name it so.")

    def add_class(self, name: str, colour: str | None = None) -> str:
        """Add a class; its name as it is written here."""
        if self.state.first_name(class_name(name)) is not None:
            raise ValueError(f"Class {class_name(name)!r} is there already; choose another name.")
        entries, _ = self._new_class(name)
        if colour:
            entries[0]["colour"] = check_colour(colour)
        self._decide(*entries)
        return class_name(name)

    def rename_class(self, old: str, new: str) -> None:
        """Call a class by another name, everywhere; its code, patches and labels stay."""
        first, new = self._class(old), class_name(new)
        if self.state.classes[first]["name"] == new:
            return
        if self.state.first_name(new) is not None:
            raise ValueError(f"Class {new!r} is there already; choose another name.")
        self._check_case(new, but=first)
        self._decide({"what": "rename", "class": first, "name": new})

    def recolour_class(self, name: str, colour: str) -> None:
        """Give a class another colour."""
        self._decide({"what": "class", "class": self._class(name), "colour": check_colour(colour)})

    def remove_class(self, name: str) -> None:
        """Remove a class with its exemplars, verdicts and strokes; undo brings them back."""
        self._decide({"what": "remove class", "class": self._class(name)})

    def set_background(self, name: str | None) -> None:
        """Say which class may appear in any patch; None leaves it to the common names."""
        self._set("background", None if name is None else self._class(name))

    def add_exemplar(self, name: str, place: Place | np.ndarray) -> None:
        """Add an exemplar of a class: the patch centred at (inline, crossline, time), or a picture of that size."""
        entries, first = self._new_class(name)
        if np.ndim(place) < 2:
            place = self._check_place(place)
            known = [one for one in self.state.exemplars if (one.name, one.place) == (first, tuple(place))]
            entries += [] if known else [{"what": "exemplar", "class": first, "place": place}]
        else:
            picture = np.asarray(exemplar_picture(self.volume, self.grid(), place), np.float32)
            entries.append({"what": "exemplar", "class": first, "picture": pack(picture)})
        if entries:
            self._decide(*entries)

    def move_exemplar(self, id: str, place: Place) -> None:
        """Move an exemplar, given by its id in ``state.exemplars``."""
        self._decide({"what": "move", "of": self._exemplar(id).id, "place": self._check_place(place)})

    def remove_exemplar(self, id: str) -> None:
        """Remove an exemplar, given by its id in ``state.exemplars``."""
        self._decide({"what": "remove", "of": self._exemplar(id).id})

    def _exemplar(self, id):
        for one in self.state.exemplars:
            if one.id == id:
                return one
        raise ValueError(f"There is no exemplar {id!r}; it may have been removed elsewhere.")

    def _check_place(self, place):
        """Place as plain numbers; refused where no patch around it fits into the volume."""
        if isinstance(place, str) or np.ndim(place) != 1 or len(place) != 3:
            raise ValueError(f"Place {place!r} is not inline, crossline and {self.volume.dims[2]}; give three numbers.")
        place = point_list(place)[0]
        self.grid().start_at(place)
        return [int(part) if part == int(part) else part for part in place]

    def accept(self, rows: Sequence[int] | int) -> None:
        """Say yes to retrieved patches, given by the column `row` of the table."""
        self._judge(rows, "accept")

    def reject(self, rows: Sequence[int] | int) -> None:
        """Say no to retrieved patches, given by the column `row` of the table."""
        self._judge(rows, "reject")

    def _judge(self, rows, what):
        rows = row_list(rows)
        found = tables.published(self)
        if found is None or not set(rows) <= set(found.index):
            found = self.retrieve().table.set_index("row")
        if not set(rows) <= set(found.index):  # an earlier no may have moved it out of the table that was looked at
            found = pd.concat([found, *tables.earlier(self)])
        for row in rows:
            if row not in found.index:
                raise ValueError(f"Row {row} is not among the retrieved patches; give numbers of their column 'row'.")
        dims = list(self.volume.dims)
        chosen = [found.loc[[row]].iloc[0] for row in rows]
        self.judge([(one["class"], one[dims].tolist(), str(one["along"])) for one in chosen], what)

    def judge(self, patches: Sequence[tuple], what: str) -> None:
        """Say ``accept``, ``reject`` or ``forget`` to patches given as (class, place, direction)."""
        entries = []
        for name, place, along in patches:
            place = [float(part) for part in place]
            entry = {"what": what, "place": place, "along": along}
            entries.append(entry if what == "forget" else {**entry, "class": self._class(name)})
        if entries:
            self._decide(*entries)

    def forget(self, rows: Sequence[int] | int | None = None) -> None:
        """Take back the verdict on patches, given by their rows in the index; on all of them by default."""
        if rows is None:
            self._decide({"what": "forget"})
            return
        grid = self.grid()
        centres = grid.centres(row_list(rows))
        dims = list(self.volume.dims)
        places = [(None, row[dims].tolist(), str(row["along"])) for _, row in centres.iterrows()]
        self.judge(places, "forget")

    def paint(
        self, name: str, points: Sequence[Place], radius: float | None = None, along: str = "inline", *,
        filled: bool = False, stick: bool = False, id: str | None = None,
    ) -> None:  # fmt: skip
        """Say what the samples of a section under a stroke are.

        Parameters
        ----------
        name : str
            A class; ``right`` (they are what the labels say), ``wrong`` (they are not what the labels say) or ``erase``
            (they are unmarked again).
        points : sequence of (inline, crossline, time)
            All on one section; the stroke covers what lies within `radius` samples and traces of the line through them:
            a disc around one point, a straight line along a fault or a horizon through two, any line through more.
        radius : float, optional
            4 by default; 0.5, one sample wide, where the line is filled.
        along : {"inline", "crossline"}
        filled : bool
            The line is closed, and what it encloses is painted too.
        stick : bool
            The line is a fault stick of the class, which `outcrop faults` writes as it is.
        id : str, optional
            Of the decision; a stroke that was painted under this id before is not painted again.
        """
        if id is not None and any(entry["id"] == id for entry in self.log.entries):
            return
        points = point_list(points)
        radius = (0.5 if filled else 4.0) if radius is None else float(radius)
        stroke: dict = {"what": "stroke", "along": along, "points": points, "radius": radius}
        stroke |= {flag: True for flag, given in (("filled", filled), ("stick", stick)) if given}
        self._check_stroke(stroke)
        if name in ("right", "wrong"):
            entries = self._as_labelled(stroke, "stroke" if name == "right" else "exclude")
        elif name == "erase":
            entries = [stroke | {"class": "erase"}]
        else:
            made, first = self._new_class(name)
            entries = [*made, stroke | {"class": first}]
        if entries:
            entries[0] |= {} if id is None else {"id": id}
            self._decide(*entries)

    def erase(
        self, points: Sequence[Place], radius: float | None = None, along: str = "inline", *, filled: bool = False
    ) -> None:
        """Take back what is painted under a stroke; see `paint`."""
        self.paint("erase", points, radius, along, filled=filled)

    def _check_stroke(self, stroke):
        direction = DIRECTIONS.index(stroke["along"]) if stroke["along"] in DIRECTIONS else None
        if direction is None:
            raise ValueError(f"Direction {stroke['along']!r} is unknown; paint along inline or crossline.")
        if not stroke["points"] or not all(len(p) == 3 and np.isfinite(p).all() for p in stroke["points"]):
            raise ValueError("A stroke needs points of inline, crossline and time (or depth), all of them numbers.")
        if not 0 < stroke["radius"] <= 1000:
            raise ValueError(f"The radius of a stroke is {stroke['radius']:g}; choose a positive number of samples.")
        if len({point[direction] for point in stroke["points"]}) > 1:
            raise ValueError(f"A stroke lies on one {stroke['along']}; its points name several.")
        if section_of(stroke, self.axes) is None:
            axis = self.axes[direction]
            label = stroke["points"][0][direction]
            raise ValueError(f"The volume has no {stroke['along']} {label:g}; it has {axis[0]:g} to {axis[-1]:g}.")
        if not stroke_mask(stroke, self.axes).any():
            inside = ", ".join(
                f"{name} {axis.min():g} to {axis.max():g}"
                for name, axis in zip(self.volume.dims, self.axes, strict=True)
            )
            raise ValueError(f"The stroke at {stroke['points'][0]} covers no sample of the volume: it has {inside}.")

    def _as_labelled(self, stroke, what):
        """Entries, class by class, of the samples under a stroke that are labelled so: they are, or are not."""
        direction, position = section_of(stroke, self.axes)
        section = self.labels["label"].isel({DIRECTIONS[direction]: position}).values
        if not section.any():
            word = "right" if what == "stroke" else "wrong"
            raise ValueError(f"This section has no labels that could be {word}; label it first.")
        mask = stroke_mask(stroke, self.axes)
        line = self.axes[direction][position].item()
        entries = []
        for name, code in self.classes.items():
            part = mask & (section == code)
            if part.any():
                kept = runs(part, self.axes[1 - direction], self.axes[2])
                entry = {"what": what, "class": self.state.first_name(name), "along": stroke["along"]}
                entries.append(entry | {"line": line, "runs": kept})
        return entries

    @property
    def axes(self) -> list:
        """Labels of the three axes of the volume."""
        return [self.volume[name].values for name in self.volume.dims]

    def painted(self) -> dict:
        """Codes of what is painted, by section; see `painted_sections`."""
        strokes, names = self._known_strokes()
        return painted_sections(strokes, names, self.axes)

    def excluded(self) -> dict:
        """Whether each code is excluded, by section; see `excluded_sections`."""
        strokes, names = self._known_strokes()
        return excluded_sections(strokes, names, self.axes)

    def _known_strokes(self):
        """Strokes of classes that are there, and all classes in the order of their codes."""
        state, codes = self.state, self._codes()
        kept = [stroke for stroke in state.strokes if stroke["class"] in (*state.classes, "erase")]
        return kept, sorted(codes, key=codes.__getitem__)

    def undo(self) -> bool:
        """Take back this writer's last decision; whether there was one."""
        return self.log.undo()

    def redo(self) -> bool:
        """Do again what was undone; whether there was anything."""
        return self.log.redo()

    def _set(self, *pairs):
        """Keep options, one name and value after the other, where they change."""
        state = self.state
        changed = [
            {"what": "set", "name": name, "value": value}
            for name, value in zip(pairs[::2], pairs[1::2], strict=True)
            if as_json(state.options.get(name)) != as_json(value)
        ]
        if changed:
            self._decide(*changed)


def _read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _with_codes(codes, names):
    """Codes with the next free ones for names that have none."""
    codes = dict(codes)
    for name in names:
        if name not in codes:
            codes[name] = max(codes.values(), default=0) + 1
    return codes
