"""`Job`: the one way into a job folder for shell, page and notebook."""

import base64
import contextlib
import difflib
import io
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from filelock import FileLock

from outcrop.job import labelling, options, tables
from outcrop.job.decisions import Decisions
from outcrop.job.legacy import import_legacy
from outcrop.job.state import State, background_of
from outcrop.job.strokes import excluded_sections, painted_sections, runs, section_of, stroke_mask
from outcrop.mapping.registry import MAPPERS
from outcrop.measures.registry import indexed_measure
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.plots.figure import COLOURS, EXTRA
from outcrop.retrieval.core import Index, build_index, finished_index, index_inputs
from outcrop.retrieval.exemplars import exemplar_picture
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.stages import Stages, digest
from outcrop.storage.workspace import Damaged, whole_file
from outcrop.volumes.identity import (
    compare_lines,
    file_stamp,
    glance,
    known_volume,
    place_of,
    record_volume,
    reopen,
    take_volume,
)
from outcrop.volumes.lazy import check_axes
from outcrop.volumes.opening import open_volume

RESERVED = ("uncertain", "right", "wrong", "erase")  # words that name no class
LONGEST_NAME = 40  # characters of the name of a class
QUICK = 2**28  # bytes of a changed file that are compared where only its labels are looked at
if TYPE_CHECKING:
    from outcrop.job.auditing import Audit

Place = Sequence[float]
Count = int | str | Mapping[str, int | str]  # of patches to retrieve: a number, auto, or one of these by class


class Job:
    """A folder with what interpreters decided about a volume and what was computed from it.

    Parameters
    ----------
    path : path
        The job folder, by convention ``NAME.outcrop``; it is made where it is not there.
    volume : path or DataArray, optional
        Needed the first time, when the volume moved, and always where it is an array.
    origin : str
        Where the decisions come from: python, shell or page.

    Examples
    --------
    >>> import tempfile
    >>> amplitudes = np.random.default_rng(0).standard_normal((3, 128, 128))
    >>> job = Job(Path(tempfile.mkdtemp()) / "noise.outcrop", volume=open_volume(amplitudes))
    >>> job.add_exemplar("fault", (1, 60, 60))
    >>> job.add_exemplar("other", (2, 64, 70))
    >>> job.status()["decisions"]["exemplars"], job.undo(), job.status()["decisions"]["exemplars"]
    (2, True, 1)
    """

    def __init__(self, path: str | Path, volume: Any = None, *, origin: str = "python"):
        self.path = Path(path)
        import_legacy(self.path)
        self._volume = None if volume is None else as_volume(volume)
        self._taken: dict | None = None  # what the folder says of the volume that this job reads
        self._look_again = 0.0  # when the time of a volume in many files is next looked at
        self._glance: str | None = None  # at an array in memory, which may be changed in place
        if self._volume is not None:
            self._taken, self._glance = take_volume(self.path, self._volume), glance(self._volume)
        elif not known_volume(self.path):
            raise ValueError(f"{self.path} is not a job folder; make one with 'outcrop index VOLUME -o {self.path}'.")
        self.stages = Stages(self.path)
        self.log = Decisions(self.path, origin=origin)
        self._lock = threading.RLock()
        self._opened: dict = {}  # the index and grid used last, by key
        self._codes()

    def close(self) -> None:
        """Let go of the file that this job writes its decisions to."""
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"Job({str(self.path)!r})"

    # ---- the volume -------------------------------------------------------------------------------------------------

    @property
    def volume(self) -> xr.DataArray:
        """The volume, opened when it is first asked for."""
        with self._lock:
            if self._volume is None:
                found = reopen(self.path)
                self._taken = take_volume(self.path, found)
                self._volume = found
            return self._volume

    @property
    def known(self) -> dict:
        """What the folder says of the volume: of the one that this job has open, else of the one recorded last."""
        written = (self.path / "job.toml").stat()
        key = (written.st_mtime_ns, written.st_size, written.st_ino)
        found = self._opened.get("known", (None, {}))
        if found[0] != key:
            found = self._opened["known"] = (key, known_volume(self.path))
        if self._taken is not None and self._taken["samples"] != found[1].get("samples"):
            return dict(self._taken)  # somebody else goes on with another volume
        return dict(self._opened.get("compared", found[1]))

    def check_volume(self, *, most: int | None = None, progress: Callable | None = None) -> str:
        """Notice where the volume is not what it was when it was read, so that nothing made from it passes for fresh.

        A file of the same size and time is taken to be the same. Of any other one evenly spaced blocks and all lines
        that were read before are compared, of an array in memory all samples.

        Parameters
        ----------
        most : int, optional
            Bytes to read at most.
        progress : callable, optional
            Called as ``progress(what, done, total)``.

        Returns
        -------
        str
            What could not be compared, empty where nothing was left out.
        """
        before = self.known
        if not before["source"]:
            self._check_array(before, most)
            return ""
        place = place_of(self.path, before)
        if os.path.isdir(place) and most is not None and time.monotonic() < self._look_again:
            return ""
        begin = time.monotonic()
        stamp = file_stamp(place)
        self._look_again = time.monotonic() + 20 * (time.monotonic() - begin)  # a folder may hold very many files
        return "" if stamp in ("", before.get("stamp")) else self._check_file(place, before, most, progress)

    def _check_array(self, before, most):
        """Take an array that was changed in place as another volume."""
        if self._glance is None or self._volume is None:
            return
        now = glance(self._volume)
        if now != self._glance or most is None:
            self._taken, self._glance = take_volume(self.path, self._volume), now
            self._say_changed(before)

    def _check_file(self, place, before, most, progress):
        """Compare a file that is of another size or time; a sentence where that would take long."""
        now = open_volume(place, **before["options"])
        taken = take_volume(self.path, now)
        told = progress and (lambda done, total: progress("comparing the volume with what was read", done, total))
        compared = compare_lines(self.path, taken, now, most=most, progress=told)
        with self._lock:
            if taken["samples"] != before["samples"] or self._volume is None:
                self._volume, self._taken = now, taken
        if compared is None:
            return (
                f"{place} was written to since its lines were read; whether they changed is found out by the next "
                "'outcrop label', 'index' or 'export'."
            )
        self._taken = compared
        try:
            record_volume(self.path, compared)
            self._opened.pop("compared", None)
        except OSError:  # a folder that cannot be written
            self._opened["compared"] = compared
        self._say_changed(before)
        return ""

    def _say_changed(self, before):
        if self.known["digest"] != before["digest"]:
            about = before["source"] or "The array"
            self._note(f"{about} changed since it was read: what was made from its older samples is kept as stale.")

    def _note(self, text):
        """Keep a sentence for whoever asks; in a notebook it is a warning."""
        self.notes.append(text)
        if self.log.origin == "python":
            warnings.warn(text, stacklevel=3)

    @property
    def along(self) -> int:
        """Direction of the lines that are labelled: 0 inline, 1 crossline."""
        return int(self.index_options()["along"] == "crossline")

    @property
    def lines(self) -> np.ndarray:
        """Numbers of the lines that can be labelled."""
        return self.volume[DIRECTIONS[self.along]].values

    # ---- decisions --------------------------------------------------------------------------------------------------

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
        """Say which class may appear in any patch; None leaves it to the usual names."""
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
        place = _points(place)[0]
        self.grid().start_at(place)
        return [int(part) if part == int(part) else part for part in place]

    def accept(self, rows: Sequence[int] | int) -> None:
        """Say yes to retrieved patches, given by the column `row` of the table."""
        self._judge(rows, "accept")

    def reject(self, rows: Sequence[int] | int) -> None:
        """Say no to retrieved patches, given by the column `row` of the table."""
        self._judge(rows, "reject")

    def _judge(self, rows, what):
        rows = _rows(rows)
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
        centres = grid.centres(_rows(rows))
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
            (nothing is said about them any more).
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
        points = _points(points)
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
            if _plain(state.options.get(name)) != _plain(value)
        ]
        if changed:
            self._decide(*changed)

    # ---- index ------------------------------------------------------------------------------------------------------

    def index_options(self, state: State | None = None) -> dict:
        """Options of the index that the decisions ask for, with size and step resolved."""
        return options.index_options((state or self.state).options.get("index", {}), self.known["shape"])

    def grid(self, state: State | None = None) -> PatchGrid:
        """The plan of patches that the decisions ask for."""
        found = self.index_options(state)
        key = digest(found, self.known["digest"])
        with self._lock:
            if self._opened.get("grid", ("",))[0] != key:
                given = {name: found[name] for name in options.GRID_OPTIONS}
                self._opened["grid"] = (key, PatchGrid(self.volume, **given))
            return self._opened["grid"][1]

    def choose_index(self, **given: Any) -> None:
        """Decide on the options of the index: those given, in place of all earlier ones."""
        self._set("index", self.check_index(**given) or None)

    def check_index(self, **given: Any) -> dict:
        """Options of an index that are not the usual ones, as they are kept; refused where they cannot be."""
        for name in given.keys() - options.INDEX.keys():
            raise ValueError(f"An index has no option {name!r}; choose from {', '.join(options.INDEX)}.")
        chosen = {name: value for name, value in given.items() if value not in (None, options.INDEX[name])}
        if "between" in chosen:
            chosen["between"] = [str(Path(path).resolve()) for path in chosen["between"]]
        chosen = _plain(chosen)
        found = options.index_options(chosen, self.known["shape"])
        grid = PatchGrid(self.volume, **{name: found[name] for name in options.GRID_OPTIONS})
        indexed_measure(found).blocks(grid.size)  # like the grid it refuses what cannot be
        return chosen

    def set_options(self, values: dict) -> None:
        """Keep several options as one decision, which one undo takes back."""
        self._set(*(part for pair in values.items() for part in pair))

    def index(
        self,
        size: int | tuple[int, int] | None = None,
        step: int | tuple[int, int] | None = None,
        every: int = 1,
        along: str = "inline",
        gain: str = "volume",
        *,
        workers: int | None = None,
        client: Any = None,
        memory: int | None = None,
        device: str | None = None,
        progress: Callable | None = None,
        **more: Any,
    ) -> Index:
        """Describe the patches of the survey; what is described already is not read again.

        Parameters
        ----------
        size : int or (int, int), optional
            Height and width of a patch; 99, or less where the volume is smaller.
        step : int or (int, int), optional
            From patch to patch; by default as dense as the size of the survey allows.
        every, along, gain
            As in `PatchGrid`, and so are ``area``, ``between``, ``sample``, ``clip`` and ``seed``.
        workers, client, memory, device
            As in `build_index`, and so are ``measure``, ``truncate`` and ``finest``.
        progress : callable, optional
            Called as ``progress(what, done, total)``.
        """
        self.check_volume(progress=progress)
        self.choose_index(size=size, step=step, every=every, along=along, gain=gain, **more)
        return self.open_index(workers=workers, client=client, memory=memory, device=device, progress=progress)

    def index_key(self, state: State | None = None) -> str:
        """Key of the index that the decisions ask for."""
        return digest("index", index_inputs(self.known["digest"], self.index_options(state)))

    def indexed(self, state: State | None = None) -> bool:
        """Whether the index that the decisions ask for is finished."""
        return finished_index(self.stages, self.index_key(state))

    def open_index(
        self,
        state: State | None = None,
        *,
        workers: int | None = None,
        client: Any = None,
        memory: int | None = None,
        device: str | None = None,
        progress: Callable | None = None,
    ) -> Index:
        """The index that the decisions ask for, made where it is not there."""
        state = state or self.state
        key = self.index_key(state)
        with self._lock:
            if self._opened.get("index", ("",))[0] == key:
                index = self._opened["index"][1]
                index.client, index.memory = client, memory
                return index
        grid, found = self.grid(state), self.index_options(state)
        index = self._finished_index(key, grid, found)
        if index is not None:
            index.client, index.memory = client, memory
            return index
        told = progress and (lambda done: progress("describing patches", done, len(grid)))
        index = build_index(
            self.volume, grid, self.path, measure=found["measure"], truncate=found["truncate"], finest=found["finest"],
            workers=workers, client=client, memory=memory, device=device, progress=told, known=self.known,
        )  # fmt: skip
        index.client, index.memory = client, memory
        with self._lock:
            self._opened["index"] = (index.key, index)
        return index

    def _finished_index(self, key, grid, found):
        """An index that is finished, opened without writing anything; None where it is not there or damaged."""
        if not finished_index(self.stages, key):
            return None
        try:
            index = Index(self.path, key, self.volume, grid, indexed_measure(found))
        except Damaged:
            return None
        with self._lock:
            self._opened["index"] = (key, index)
        return index

    # ---- retrieved patches ------------------------------------------------------------------------------------------

    def choose_retrieval(
        self, *, count: Count | None = None, per_exemplar: bool | None = None, diverse: bool | None = None
    ) -> None:
        """Decide how many patches are retrieved and how; None leaves an option as it is.

        `count` is a number, ``auto``, or class -> one of these.
        """
        pairs: list = []
        if count is not None:
            if isinstance(count, dict):
                count = {self._class(name): _count(n) for name, n in count.items()}
            else:
                count = _count(count)
            pairs += ["count", None if count == "auto" else count]
        for name, value in (("per_exemplar", per_exemplar), ("diverse", diverse)):
            if value is not None:
                pairs += [name, bool(value) or None]
        self._set(*pairs)

    def retrieve(
        self,
        count: Count | None = None,
        *,
        per_exemplar: bool | None = None,
        diverse: bool | None = None,
        device: str | None = None,
        progress: Callable | None = None,
        **where: Any,
    ) -> WeakLabels:
        """Patches that look like the exemplars; indexes first where needed.

        Parameters
        ----------
        count : int, "auto" or dict, optional
            Patches of a class, or class -> patches; kept for the next time, ``auto`` at first: see `auto_count`.
        per_exemplar, diverse : bool, optional
            As in `outcrop.retrieve`; kept too.
        device : str, optional
            Search on a torch device.
        progress : callable, optional
            Called as ``progress(what, done, total)``.
        **where
            ``workers``, ``client``, ``memory`` of `index`.

        Returns
        -------
        WeakLabels
            Classes under their present names.
        """
        self.check_volume(progress=progress)
        self.choose_retrieval(count=count, per_exemplar=per_exemplar, diverse=diverse)
        if not self.retrievable():
            raise ValueError(
                f"{self.path} has no exemplars yet; add some, for instance fault at inline, crossline, time."
            )
        index = self.open_index(progress=progress, **where)
        for text in tables.take_edits(self, index):
            self._note(text)
        state = self.state
        key, weak, _ = tables.retrieved(self, self.open_index(state), state, device=device)
        if key == self.retrieved_key():  # decided otherwise meanwhile: the next search publishes its table
            tables.publish(self, key, weak)
        return weak

    @property
    def notes(self) -> list:
        """Sentences about what was noticed on the way, for instance that a table was edited by hand."""
        return self.__dict__.setdefault("_notes", [])

    def retrievable(self) -> bool:
        """Whether there is an exemplar, or an accepted patch, to look for."""
        return bool(tables.request(self.state)["exemplars"])

    def retrieved_key(self, state: State | None = None) -> str | None:
        """Key of the patches that the decisions lead to, None where there are no exemplars."""
        return tables.retrieved_key(state or self.state, self.index_key(state))

    # ---- labels -----------------------------------------------------------------------------------------------------

    def choose_labels(
        self,
        *,
        mapping: str | None = None,
        seed: int | None = None,
        min_confidence: float | None = None,
        max_error: float | None = None,
        step: int | str | None = None,
        with_jobs: Sequence[str | Path] | None = None,
    ) -> None:
        """Decide how labels are made and which of them are uncertain.

        What is None stays as it was. A `min_confidence` of 0 lifts a limit, a `step` of ``auto`` the step, and no
        `with_jobs`, an empty sequence, the jobs.
        """
        for name, value in (("min_confidence", min_confidence), ("max_error", max_error)):
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; choose a value between 0 and 1.")
        if max_error is not None and (min_confidence is not None or not 0 < max_error < 1):
            raise ValueError(
                f"max_error is {max_error}; choose a value between 0 and 1, and no min_confidence with it; "
                "min_confidence 0 alone lifts the limit."
            )
        before = options.LABEL | self.state.options.get("label", {})
        if mapping is not None and mapping not in MAPPERS:
            raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join(MAPPERS)}.")
        seed = before["seed"] if seed is None else seed
        if int(seed) != seed or seed < 0:
            raise ValueError(f"seed is {seed}; choose a whole number from 0 on.")
        step = before["step"] if step is None else None if step == "auto" else step
        most = min(self.index_options()["size"])
        if step is not None and (not isinstance(step, int | np.integer) or not 1 <= step <= most):
            raise ValueError(f"step is {step}; choose 1 to {most}, the size of a patch, or auto for a third of it.")
        others = [Job(path) for path in with_jobs or ()]  # refused here where one is none
        paths = before["with"] if with_jobs is None else [str(Path(path).resolve()) for path in with_jobs]
        chosen = {"mapping": mapping or before["mapping"], "seed": int(seed), "step": step and int(step)}
        chosen |= {"with": paths, "mapper": before["mapper"]}
        if mapping is not None:
            chosen["mapper"] = None
        chosen = {name: value for name, value in chosen.items() if value != options.LABEL[name]}
        limits = self.state.options.get("limits")
        if min_confidence is not None or max_error is not None:
            limits = {"max_error": max_error} if min_confidence is None else {"min_confidence": min_confidence}
        self._set("label", chosen or None, "limits", None if limits == {"min_confidence": 0} else limits)
        for other in others:
            for name in other.classes:
                entries, _ = self._new_class(name)
                if entries:
                    self._decide(*entries)

    def label(
        self,
        lines: Sequence[int] | None = None,
        mapping: str | None = None,
        seed: int | None = None,
        min_confidence: float | None = None,
        max_error: float | None = None,
        *,
        step: int | str | None = None,
        with_jobs: Sequence[str | Path] | None = None,
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> xr.Dataset:
        """Label lines of the survey; fits where no mapper of the present decisions is there.

        Parameters
        ----------
        lines : sequence of int, optional
            Survey labels; all lines with live traces by default. Lines whose votes are there are not computed again.
        mapping : str, optional
            A name of `outcrop.MAPPERS`; by default the one of the last time, `encoder` at first.
        seed : int, optional
            By default the one of the last time, 0 at first.
        min_confidence, max_error : float, optional
            Samples below a confidence, or as many as would bring more errors than that share, are uncertain. A limit
            stays for the next time; a `min_confidence` of 0 lifts it.
        step : int, optional
            Samples and traces between patches, for mappings that take patches of one size; kept for the next time,
            ``auto`` lifts it.
        with_jobs : sequence of path, optional
            Jobs on the same volume with patches of another size, to learn from too; kept for the next time, an empty
            sequence lifts them.
        device : str, optional
            A torch device.
        progress : callable, optional
            Called as ``progress(what, done, total)``; what it raises ends the work, and the next call goes on.

        Returns
        -------
        Dataset
            Of those lines: ``label`` (0 not labelled, 255 uncertain, else the code of a class), ``confidence`` (uint8,
            255 = sure) and ``stale`` of every line; lazy.
        """
        self.check_volume(progress=progress)
        self.choose_labels(
            mapping=mapping, seed=seed, min_confidence=min_confidence, max_error=max_error, step=step,
            with_jobs=with_jobs,
        )  # fmt: skip
        if self.retrievable() and tables.edited(self):
            self.retrieve(client=client, memory=memory, progress=progress)
        work = labelling.Labelling(self)
        done = work.label(lines, device=device, client=client, memory=memory, progress=progress)
        return self.labels.isel({DIRECTIONS[self.along]: done})

    def mapper(
        self,
        *,
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> Any:
        """The mapper that the decisions lead to: loaded where the same was fitted before, fitted otherwise."""
        self.check_volume(progress=progress)
        return labelling.Labelling(self).mapper(device=device, client=client, memory=memory, progress=progress)

    def borrow_mapper(self, source: "Job", *, progress: Callable | None = None) -> None:
        """Label this volume with the mapper of another job, which is copied here; its classes keep their order."""
        work = labelling.Labelling(source)
        mapper = work.mapper(progress=progress)
        key = self.stages.begin("mapper", {"borrowed": work.mapper_key(), "classes": [str(n) for n in mapper.classes_]})
        folder = self.stages.path("mapper", key) / "mapper"
        if not folder.is_dir():
            mapper.save(folder)
        entries = [entry for name in mapper.classes_ for entry in self._new_class(str(name))[0]]
        if entries:
            self._decide(*entries)
        found = source.index_options()
        kept = {name: found[name] for name in ("size", "gain", "along")}
        self.choose_index(**{**self.state.options.get("index", {}), **kept})
        chosen = {"mapping": work.options["mapping"], "mapper": key}
        self._set("label", chosen, "background", source.background and self._class(source.background))

    @property
    def labels(self) -> xr.Dataset:
        """Labels of the whole survey, lazy; lines of older decisions are marked in ``stale``."""
        self.check_volume(most=QUICK)
        return labelling.Labelling(self).dataset().assign_attrs(colours=self.palette)

    def fused_labels(
        self,
        *,
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> xr.Dataset:
        """Labels by the votes of both directions: the lines across are labelled too, with the same mapper; lazy.

        They are kept as those of the lines are; `labels` and exports stay as they are. Votes of both directions and of
        the eight traces around a sample count, so that `outcrop.bodies` are not striped along one direction. A class of
        which the lines across show little, such as faults of one strike, counts by the votes of the lines alone:
        ``attrs["one_sided"]`` names it, with how far the directions agree.
        """
        from outcrop.job.fusion import fused_labels

        return fused_labels(self, device=device, client=client, memory=memory, progress=progress)

    def changes(self, line: int) -> dict:
        """What the last stroke changed on a line, as far as its votes from before are kept.

        Returns
        -------
        dict
            ``where`` (bool, traces and samples of the line), ``share`` of the labelled samples that are not painted
            whose label is another one, and ``table``: a DataFrame of from, to and samples.
        """
        return labelling.changes(self, line)

    def labelled(self) -> dict:
        """Positions of the lines that are labelled -> whether their labels are stale."""
        self.check_volume(most=QUICK)
        return labelling.Labelling(self).lines()

    def export(
        self,
        path: str | Path,
        *,
        what: str = "label",
        format: int = 5,
        stale: bool = False,
        seed: int = 0,
        memory: int | None = None,
    ) -> str:
        """Write labels as SEG-Y (.sgy), Zarr (.zarr) or, to any other folder, as a training set.

        Parameters
        ----------
        path : path
        what : str
            For SEG-Y: ``label``, ``confidence``, or ``score:CLASS``.
        format : int
            SEG-Y sample format.
        stale : bool
            Write lines of older decisions too; refused otherwise.
        seed : int
            Of the split of a training set.

        Returns
        -------
        str
            A sentence on what was written: lines labelled, stale, missing.
        """
        from outcrop.job.exports import export

        return export(self, path, what=what, format=format, stale=stale, seed=seed, memory=memory)

    def audit(self, clicks: int = 30, *, of: str = "patches", seed: int = 0) -> "Audit":
        """Random patches or labelled samples to say yes, no or cannot tell to, and what follows; see `Audit`."""
        from outcrop.job.auditing import Audit

        return Audit(self, clicks, of=of, seed=seed)

    def unseen(self, groups: int = 5, *, seed: int = 0) -> pd.DataFrame:
        """Patches that look like nothing that was marked, in a few groups; see `unseen_groups`."""
        from outcrop.job.unseen import unseen_groups

        return unseen_groups(self, groups, seed=seed)

    # ---- what is there ----------------------------------------------------------------------------------------------

    def status(self) -> dict:
        """What is decided and done, under which keys, and what would run next."""
        from outcrop.job.status import status

        return status(self)

    def clean(self, *, keep: int | None = None, dry_run: bool = False) -> list:
        """Free the space of what older keys hold; see `outcrop clean`."""
        from outcrop.job.status import clean

        return clean(self, keep=keep, dry_run=dry_run)


def as_volume(source):
    """A volume of a path, or of a DataArray whose axes are put into the order inline, crossline, time or depth."""
    if not hasattr(source, "dims"):
        return open_volume(source)
    if len(source.dims) == 3 and set(source.dims) - set(DIRECTIONS) in ({"time"}, {"depth"}):
        check_axes(source)
        return source if source.dims[:2] == DIRECTIONS else source.transpose(*DIRECTIONS, ...)
    return open_volume(source.load().assign_attrs(source="array"))


def class_name(text):
    """Class name as the project writes it: hyphens and underscores are spaces.

    Examples
    --------
    >>> class_name(" salt-dome ")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", text).strip() if isinstance(text, str) else ""
    wrong = wrong_with(name)
    if wrong:
        raise ValueError(f"{str(text)[:50]!r} is not a class name: {wrong}; use a word such as fault or salt-dome.")
    return name


def wrong_with(name):
    """What is wrong with a class name, "" where nothing is.

    Examples
    --------
    >>> wrong_with("a/b"), wrong_with("fault")
    ("it has '/'", '')
    """
    odd = re.search(r"[^\w .()]", name)
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, {LONGEST_NAME} are the most"
    if odd:
        return f"it has {odd[0]!r}"
    if not re.match(r"\w", name):
        return "it begins with neither a letter nor a digit"
    return f"{', '.join(RESERVED)} mean something else" if name.casefold() in RESERVED else ""


def check_colour(text):
    """Colour as #rrggbb."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", str(text)):
        raise ValueError(f"Colour {str(text)[:20]!r} is not understood; write it as #rrggbb.")
    return str(text).lower()


def pack(picture):
    """A picture as text, for a decision."""
    out = io.BytesIO()
    np.save(out, picture, allow_pickle=False)
    return base64.b64encode(out.getvalue()).decode()


def unpack(text):
    """A picture from text."""
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)


def _rows(rows):
    """Row numbers as a list of int."""
    found = np.atleast_1d(np.asarray(rows))
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ValueError(f"Rows are {rows!r}; give whole numbers of the column 'row' of the retrieved table.")
    return found.tolist()


def _points(points):
    """Points of inline, crossline and time as lists of float; one alone is a list of one."""
    try:
        found = np.atleast_2d(np.asarray(points, float))
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    if found.ndim != 2 or found.shape[1] != 3 or not np.isfinite(found).all():
        raise ValueError(f"Points are {str(points)[:80]}; give inline, crossline and time (or depth) of each.")
    return found.tolist()


def _count(value):
    if value == "auto":
        return value
    if not isinstance(value, int | float | np.number) or int(value) != value or value < 1:
        raise ValueError(f"Count is {value}; choose a number of patches from 1 on, or auto.")
    return int(value)


def _plain(value):
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value, default=lambda one: one.tolist() if hasattr(one, "tolist") else str(one)))


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
