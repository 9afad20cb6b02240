"""Methods of a job that record decisions: classes, exemplars, verdicts, strokes, confirmed lines."""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from outcrop.job.choosing import choose_options
from outcrop.job.decisions import decisions_table
from outcrop.job.folder import LAST_CODE, JobFolder
from outcrop.job.inputs import Place, check_colour, class_name, pack, point_list, row_list
from outcrop.job.labelling import label_dataset
from outcrop.job.plan import chosen_options
from outcrop.job.sections import labelling_grid
from outcrop.job.state import Exemplar
from outcrop.job.strokes import runs, section_of, stroke_mask
from outcrop.patches.grid import DIRECTIONS, PatchGrid, sample_at
from outcrop.plots.colours import COLOURS, EXTRA
from outcrop.retrieval.exemplars import exemplar_picture
from outcrop.volumes.summary import sample_unit

if TYPE_CHECKING:
    from outcrop.job.core import Job

Entry = dict[str, Any]


class JobChoices(JobFolder):
    """A job folder with methods that record decisions."""

    @property
    def decisions(self) -> pd.DataFrame:
        """Table with one row per decision: time, person, origin, kind, class, place, and whether it was undone."""
        return decisions_table(self.log.entries)

    @property
    def classes(self) -> dict[str, int]:
        """Class -> code (1 to 254), for all classes in use; the code of a class never changes."""
        return dict(self.plan.classes)

    @property
    def palette(self) -> dict[str, str]:
        """Class -> colour (#rrggbb), for all classes in use."""
        facts, codes = self.plan.state.classes, self.plan.codes
        taken = [about["colour"] for about in facts.values()]
        spare = [colour for colour in EXTRA if colour not in taken] or list(EXTRA)
        found = {}
        for name, about in facts.items():
            colour = about["colour"] or COLOURS.get(name)
            found[about["name"]] = spare[(codes[name] - 1) % len(spare)] if colour is None else colour
        return found

    def _decide(self, *entries: Entry) -> list[Entry]:
        """Record log entries as one act, give codes to new classes, and return the recorded entries."""
        written = self.log.add(*entries)
        self._codes(self.log.state())
        return written

    def choose_index(self, **given: Any) -> None:
        """Choose options of the index, named as in `IndexOptions`; ``auto`` resets an option, None keeps it."""
        choose_options(self, index=chosen_options(self.log.state()).index.updated(**given))

    # ---- classes ----------------------------------------------------------------------------------------------------

    def _class(self, name: str, *, new: bool = False) -> str:
        """Return the name under which the class `name` was first added; this first name identifies it in the log.

        An unknown class raises ValueError if `new` is False. If `new` is True, a first name for it is returned: `name`,
        with a number if another class has this first name.
        """
        state = self.log.state()
        first = state.first_name(name)  # older jobs may have names that `class_name` refuses
        if first is None:
            name = class_name(name)
            first = state.first_name(name)
        if first is not None:
            return first
        self._check_case(name)
        if not new:
            known = ", ".join(facts["name"] for facts in state.classes.values())
            remedy = f"choose one of {known}" if known else "add it first"
            raise ValueError(f"Class {name!r} is unknown; {remedy}.")
        if max(self._codes(state).values(), default=0) >= LAST_CODE:
            raise ValueError(f"Class {name!r} cannot be added: a job has at most {LAST_CODE} classes.")
        first, number = name, 1
        while first in state.classes:  # this was the first name of a class that was renamed
            number += 1
            first = f"{name} {number}"
        return first

    def _check_case(self, name: str, *, but: str | None = None) -> None:
        """Raise ValueError if a name differs from the name of a class only in capitals.

        The class that was first added under the name `but` is not compared.
        """
        for first, facts in self.log.state().classes.items():
            present = facts["name"]
            if first != but and present != name and present.casefold() == name.casefold():
                raise ValueError(f"Class {name!r} exists as {present!r}; write it the same way.")

    def _new_class(self, name: str) -> tuple[list[Entry], str]:
        """Return the log entries that add a class, and the name that identifies it in the log; see `_class`.

        The list of entries is empty if the class exists.
        """
        first = self._class(name, new=True)
        if first in self.log.state().classes:
            return [], first
        self._warn_of_typo(class_name(name))
        entries = [{"what": "class", "class": first}]
        if first != class_name(name):
            entries.append({"what": "rename", "class": first, "name": class_name(name)})
        return entries, first

    def _warn_of_typo(self, name: str) -> None:
        """Add a note if the name of a new class resembles that of another class and may be a typing error.

        Names that differ only in digits, spaces or punctuation give no note.
        """
        near = difflib.get_close_matches(name, [facts["name"] for facts in self.log.state().classes.values()], 1, 0.8)
        if near and re.sub(r"[\W\d]", "", near[0]) != re.sub(r"[\W\d]", "", name):
            self._note(f"Class {name!r} is new; if {near[0]!r} is meant, undo this and use that name.")

    def _add_classes(self, names: Iterable[str]) -> None:
        """Add the classes that do not exist yet."""
        for name in names:
            entries, _ = self._new_class(name)
            if entries:
                self._decide(*entries)

    def add_class(self, name: str, colour: str | None = None) -> str:
        """Add a class, with a colour (#rrggbb) if one is given.

        Return its name, in which spaces replace hyphens and underscores.
        """
        if class_name(name) in self.plan.firsts:
            raise ValueError(f"Class {class_name(name)!r} exists already; choose another name.")
        entries, _ = self._new_class(name)
        if colour:
            entries[0]["colour"] = check_colour(colour)
        self._decide(*entries)
        return class_name(name)

    def rename_class(self, old: str, new: str) -> None:
        """Rename a class; its code, patches and labels stay unchanged."""
        first, new = self._class(old), class_name(new)
        if self.plan.names[first] == new:
            return
        if new in self.plan.firsts:
            raise ValueError(f"Class {new!r} exists already; choose another name.")
        self._check_case(new, but=first)
        self._decide({"what": "rename", "class": first, "name": new})

    def recolour_class(self, name: str, colour: str) -> None:
        """Change the colour of a class to `colour`, written as #rrggbb."""
        self._decide({"what": "class", "class": self._class(name), "colour": check_colour(colour)})

    def remove_class(self, name: str) -> None:
        """Remove a class with its exemplars, verdicts and strokes; undo restores them."""
        self._decide({"what": "remove class", "class": self._class(name)})

    def set_background(self, name: str | None) -> None:
        """Choose the background, the class that may appear in any patch.

        None chooses the class with a name such as other or background, if one exists.
        """
        first = None if name is None else self._class(name)
        if first != self.log.state().options.get("background"):
            self._decide({"what": "set", "name": "background", "value": first})

    def add_exemplar(self, name: str, place: Place | np.ndarray) -> str:
        """Add an exemplar of a class and return its id.

        `place` is the centre of its patch (inline, crossline, time), or a picture of the patch.
        """
        entries, first = self._new_class(name)
        if np.ndim(place) < 2:
            place = self._check_place(place)
            state, entry = self.log.state(), {"what": "exemplar", "class": first, "place": place}
            for one in state.exemplars:
                if (one.name, one.place) == (first, tuple(place)):
                    if any(one.id in line["older"] for line in state.confirmed):
                        self._decide(entry)  # now later than the confirmed lines, so that it wins over them
                    return one.id
            self._note_outside(place)
            entries.append(entry)
        else:
            picture = np.asarray(exemplar_picture(self.volume, self._chosen_grid(), place), np.float32)
            entries.append({"what": "exemplar", "class": first, "picture": pack(picture)})
        return str(self._decide(*entries)[-1]["id"])

    def _note_outside(self, place: Sequence[float]) -> None:
        """Add a note if a place lies outside the area of interest."""
        area = chosen_options(self.log.state()).index.area
        if area and not labelling_grid(cast("Job", self), self.plan).in_area(place):
            where = ", ".join(f"{part:g}" for part in place)
            self._note(f"{where} lies outside the area of interest: nothing around it is searched or labelled.")

    def remove_exemplar(self, id: str) -> None:
        """Remove the exemplar with an id."""
        self._decide({"what": "remove", "of": self._exemplar(id).id})

    def _exemplar(self, id: str) -> Exemplar:
        for one in self.log.state().exemplars:
            if one.id == id:
                return one
        raise ValueError(f"There is no exemplar {id!r}; it may have been removed in another window or shell.")

    def _check_place(self, place: Any) -> list[float]:
        """Return a place as a list of three numbers; raise ValueError if the volume has no sample there."""
        if isinstance(place, str) or np.ndim(place) != 1 or len(place) != 3:
            raise ValueError(f"Place {place!r} is not inline, crossline and {self.volume.dims[2]}; give three numbers.")
        place = point_list(place)[0]
        sample_at(self.volume, place)
        sample = self.volume.sel(dict(zip(self.volume.dims, place, strict=True)), method="nearest")
        if not np.isfinite(sample.values):
            raise ValueError(
                f"The sample at {', '.join(f'{part:g}' for part in place)} is missing; choose a place with data."
            )
        self._note_unit(place[2])
        return [int(part) if part == int(part) else part for part in place]

    def _note_unit(self, vertical: float) -> None:
        """Add a note if a time or depth is so small that it may be in s or km."""
        name, unit = str(self.volume.dims[2]), sample_unit(self.volume)
        if unit and self.log.origin != "page" and 0 < 1000 * vertical <= self.axes[2][-1]:
            long = "s" if unit == "ms" else "km"
            self._note(f"{name} {vertical:g} is taken in {unit}; for {vertical:g} {long} give {1000 * vertical:g}.")

    def forget(self, rows: Sequence[int] | int | None = None) -> None:
        """Clear the verdicts on the patches in the given rows of the index; without `rows`, clear all verdicts."""
        if rows is None:
            self._decide({"what": "forget"})
            return
        centres = self._chosen_grid().centres(row_list(rows))
        dims = list(self.volume.dims)
        judge(self, [("", row[dims].tolist(), str(row["along"])) for _, row in centres.iterrows()], "forget")

    def _chosen_grid(self) -> PatchGrid:
        """Return the patch grid of the chosen index options."""
        return self._grid_of(chosen_options(self.log.state()).index)

    def paint(
        self, name: str, points: Sequence[Place], radius: float | None = None, along: str = "inline", *,
        filled: bool = False, stick: bool = False, id: str | None = None,
    ) -> None:  # fmt: skip
        """Assign the samples under a stroke on a section to a class, judge their labels, or erase earlier strokes.

        Parameters
        ----------
        name : str
            A class; ``right`` (the labels under the stroke are correct), ``wrong`` (they are not correct) or ``erase``
            (clear earlier strokes there).
        points : sequence of (inline, crossline, time)
            Points on one section, joined by straight lines; the stroke covers all samples within `radius` of these
            lines. One point gives a disc.
        radius : float, optional
            Radius of the stroke in samples and traces; by default 4, or 0.5 (one sample wide) if `filled` is True.
        along : {"inline", "crossline"}
            Direction of the section.
        filled : bool
            If True, join the last point to the first, and also paint the samples inside.
        stick : bool
            If True, the points are a fault stick of the class, which `outcrop faults` writes unchanged.
        id : str, optional
            Id of the decision; if the job already has a decision with this id, nothing is painted.
        """
        if id is not None and any(entry["id"] == id for entry in self.log.entries):
            return
        points = point_list(points)
        radius = (0.5 if filled else 4.0) if radius is None else float(radius)
        stroke: Entry = {"what": "stroke", "along": along, "points": points, "radius": radius}
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

    def confirm(
        self,
        lines: Sequence[float] | None = None,
        along: str = "inline",
        labels: Any = None,
        outline: Sequence[tuple[float, float]] | None = None,
        *,
        above: str | None = None,
        below: str | None = None,
    ) -> list[float]:
        """Confirm the labels of lines: they no longer change, and the mapper learns from them.

        Uncertain samples are not confirmed and keep computed labels. Only later strokes and exemplars change confirmed
        labels, at the samples that they cover.

        Parameters
        ----------
        lines : sequence of float, optional
            Line numbers; if `labels` are given, by default all lines of these labels.
        along : {"inline", "crossline"}
            Direction of the lines.
        labels : path, DataArray or Dataset, optional
            Labels to confirm in place of the labels of this job: codes with a table of classes (an array with
            ``attrs["classes"]``, or a SEG-Y or Zarr file as for `evaluate`), the file of a horizon, or a file of fault
            sticks. Samples near a fault stick are confirmed as faults.
        outline : sequence of (trace, time), optional
            Confirm only samples inside this polygon.
        above, below : str, optional
            For a horizon: class of the samples above the horizon, and class of the samples at and below the horizon.

        Returns
        -------
        list
            Numbers of the lines that were confirmed.
        """
        from outcrop.job.confirming import confirm_lines

        return confirm_lines(cast("Job", self), lines, along, labels, outline, above=above, below=below)

    def unconfirm(self, lines: Sequence[float], along: str = "inline") -> None:
        """Remove the confirmation of lines; their labels are computed again."""
        from outcrop.job.confirming import unconfirm_lines

        unconfirm_lines(cast("Job", self), lines, along)

    def erase(
        self, points: Sequence[Place], radius: float | None = None, along: str = "inline", *, filled: bool = False
    ) -> None:
        """Erase earlier strokes at the samples under a new stroke; see `paint`."""
        self.paint("erase", points, radius, along, filled=filled)

    def _check_stroke(self, stroke: Entry) -> None:
        """Raise ValueError if a stroke has invalid values or covers no sample of the volume."""
        direction = DIRECTIONS.index(stroke["along"]) if stroke["along"] in DIRECTIONS else None
        if direction is None:
            raise ValueError(f"Direction {stroke['along']!r} is unknown; paint along inline or crossline.")
        if not stroke["points"] or not all(len(p) == 3 and np.isfinite(p).all() for p in stroke["points"]):
            raise ValueError("A stroke needs points of inline, crossline and time (or depth), all of them numbers.")
        if not 0 < stroke["radius"] <= 1000:
            raise ValueError(f"The radius of a stroke is {stroke['radius']:g}; choose more than 0, up to 1000 samples.")
        if len({point[direction] for point in stroke["points"]}) > 1:
            raise ValueError(f"A stroke lies on one {stroke['along']}; give points on one {stroke['along']} only.")
        if section_of(stroke, self.axes) is None:
            axis = self.axes[direction]
            label = stroke["points"][0][direction]
            raise ValueError(f"The volume has no {stroke['along']} {label:g}; it has {axis[0]:g} to {axis[-1]:g}.")
        if not stroke_mask(stroke, self.axes).any():
            inside = ", ".join(
                f"{name} {axis.min():g} to {axis.max():g}"
                for name, axis in zip(self.volume.dims, self.axes, strict=True)
            )
            raise ValueError(f"The stroke at {stroke['points'][0]} covers no sample of the volume, which has {inside}.")
        self._note_unit(max(point[2] for point in stroke["points"]))
        self._note_stroke_outside(stroke)

    def _note_stroke_outside(self, stroke: Entry) -> None:
        """Add a note if a stroke lies outside the area of interest."""
        place, plan = section_of(stroke, self.axes), self.plan
        if plan.area and place is not None:
            inside = labelling_grid(cast("Job", self), plan).inside(*place)
            if not (stroke_mask(stroke, self.axes) & inside).any():
                where = f"{stroke['along']} {self.axes[place[0]][place[1]]:g}"
                self._note(f"The stroke on {where} lies outside the area of interest: nothing there is labelled.")

    def _as_labelled(self, stroke: Entry, what: str) -> list[Entry]:
        """Return log entries that mark the labels under a stroke as right or wrong: one entry for each class.

        The kind of entry, `what`, is ``stroke`` for right labels and ``exclude`` for wrong ones.
        """
        place = section_of(stroke, self.axes)
        assert place is not None  # the stroke was checked
        direction, position = place
        section = label_dataset(cast("Job", self), self.plan)["label"].isel({DIRECTIONS[direction]: position}).values
        if not section.any():
            word = "right" if what == "stroke" else "wrong"
            raise ValueError(f"This section has no labels to mark as {word}; label it first.")
        mask = stroke_mask(stroke, self.axes)
        line = self.axes[direction][position].item()
        entries = []
        for name, code in self.plan.classes.items():
            part = mask & (section == code)
            if part.any():
                kept = runs(part, self.axes[1 - direction], self.axes[2])
                entry = {"what": what, "class": self.plan.firsts[name], "along": stroke["along"]}
                entries.append(entry | {"line": line, "runs": kept})
        return entries

    def undo(self, act: str | None = None) -> list[Entry]:
        """Undo the last act of this person, or the act whose first entry has the id `act`; return its entries.

        The list of entries is empty if there is nothing to undo.
        """
        return self._step(lambda: self.log.undo(act))

    def redo(self) -> list[Entry]:
        """Redo the act that was undone last and return its entries; the list is empty if there is nothing to redo."""
        return self._step(self.log.redo)

    def _step(self, step: Callable[[], list[Entry]]) -> list[Entry]:
        """Call `step`, which undoes or redoes an act, and return the entries of the act.

        Add a note if the options of the index changed.
        """
        before = self.plan
        entries, plan = step(), self.plan
        if plan.index != before.index:
            height, width = plan.size
            index = "their index is stored" if self._indexed(plan) else "the next search builds their index"
            stale = plan.keys["votes"] != before.keys["votes"]
            labels = " Labels of the earlier options are stale." if stale and self.stages.journal("votes") else ""
            self._note(f"The index options changed (patches are now {height} x {width}): {index}.{labels}")
        return entries


def move_exemplar(job: JobChoices, id: str, place: Place) -> None:
    """Move the exemplar with an id to another place."""
    of, place = job._exemplar(id).id, job._check_place(place)
    job._note_outside(place)
    job._decide({"what": "move", "of": of, "place": place})


def judge(job: JobChoices, patches: Sequence[tuple[str, Any, str]], what: str) -> None:
    """Record a verdict on each of `patches`, a list of (class, place, direction); all verdicts are one act.

    `what` is ``accept``, ``reject``, or ``forget``, which clears earlier verdicts.
    """
    entries = []
    for name, place, along in patches:
        place = [float(part) for part in place]
        entry = {"what": what, "place": place, "along": along}
        entries.append(entry if what == "forget" else {**entry, "class": job._class(name)})
    if entries:
        job._decide(*entries)
