"""Faults and geobodies on the page: sticks, tops and bases on the section in view, and verdicts on sticks."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from outcrop.app.results import Written
from outcrop.app.survey import Place
from outcrop.app.work import Latest, Task
from outcrop.geometry.bodies import SIDES
from outcrop.geometry.coordinates import map_grid
from outcrop.geometry.crossings import FaultTrace, fault_traces, horizon_traces
from outcrop.geometry.sticks import write_sticks
from outcrop.geometry.surfaces import join_sticks
from outcrop.job import faults
from outcrop.job.bodies import job_bodies, write_bodies
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.app.session import Session

ALL = "all faults"  # in place of the sticks of one class


class Picked(NamedTuple):
    """Fault sticks picked for sections, and the inputs of the picking; new inputs make the sticks out of date."""

    key: Any  # inputs from `Geology._key`: classes, line numbers, plan of the job, label folders
    sticks: pd.DataFrame
    rejected: pd.DataFrame
    note: str


class Shown(NamedTuple):
    """Fault sticks on the section in view, and the lines drawn for them; rejected sticks have fields of their own."""

    sticks: pd.DataFrame
    traces: list[FaultTrace]
    rejected: pd.DataFrame
    rejected_traces: list[FaultTrace]
    note: str


class Geology:
    """Fault sticks and geobodies of the job of a session.

    Parameters
    ----------
    session : Session
        The open job with its tasks.

    Attributes
    ----------
    of : str
        Class whose sticks are shown, or `ALL` ("all faults").
    picking : bool
        Whether a thread is picking the sticks of the section in view.
    """

    def __init__(self, session: "Session") -> None:
        self.session, self.job, self.survey = session, session.job, session.survey
        self.of = session.view.get("sticks-of", "")
        self._picked: dict[bool, Picked] = {}  # sticks for sections along the lines (False) and across the lines (True)
        self._bodies: tuple[Any, Any] | None = None  # geobodies, and the inputs of the labels that they were found in
        self._wanted: tuple[bool, Any] | None = None
        self._picker = Latest(self._pick)
        self.picking = False

    def close(self) -> None:
        """Wait for the thread that picks faults."""
        self._wanted = None
        self._picker.wait()

    # ---- sticks -----------------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """Return the choices for the sticks to show: the name of every class, and `ALL`.

        If the chosen class was removed from the job, choose `ALL` instead.
        """
        names = list(self.job.palette)
        if self.of not in (ALL, *names):
            self.of = ALL
        return [*names, ALL]

    def choose(self, name: str) -> None:
        """Show the sticks of the class `name`, or all sticks if `name` is `ALL`."""
        self.of = name
        self.session.view.keep(**{"sticks-of": name})
        self.session.tell("geology")

    def shown(self, direction: int, position: int) -> Shown:
        """Return the fault sticks on a section, given by its direction and position.

        While a thread picks the sticks, return the sticks of the same class that were picked earlier for this section;
        return empty tables if no such sticks exist.
        """
        key, across = self._key(direction, position), direction != self.survey.along
        picked = self._picked.get(across)
        if picked is None or picked.key != key:
            if self._wanted != (across, key):
                self._wanted, self.picking = (across, key), True
                self._picker.request()
                self.session.tell("work")
            same = picked is not None and picked.key[0] == key[0] and (across or picked.key[1] == key[1])
            before = picked if picked and same else Picked(key, self._none(), self._none(), "")
            picked = before._replace(note="picking faults ...")
        label = self.survey.axes[direction].labels[position].item()
        traces = [fault_traces(some, self.job.volume, direction, label) for some in (picked.sticks, picked.rejected)]
        return Shown(picked.sticks, traces[0], picked.rejected, traces[1], picked.note)

    def _key(self, direction: int, position: int) -> tuple[Any, ...]:
        """Return a tuple of the inputs of the sticks of a section: classes, line numbers, plan of the job, and labels.

        A section along the lines depends on one line; a section across the lines depends on all picked lines. Labels
        of other lines are left out: after a verdict, up to twenty lines are labelled again, and faults shall not be
        picked again after each of them.
        """
        self.choices()
        along, lines = self.survey.along, self.survey.lines
        numbers = [lines[position].item()] if direction == along else faults.picked_lines(self.job)
        stores = self.session.labelling.shown().labels.stores
        at = np.flatnonzero(np.isin(lines, numbers)).tolist()
        labels = tuple(stores[i].folder.name if i in stores else None for i in at)
        return (self.of, self.fault_class()), tuple(numbers), self.job.plan, labels

    def _pick(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        across, key = wanted
        try:
            self._picked[across] = Picked(key, *self._sticks(list(key[1])))
        except Exception as error:
            self._picked[across] = Picked(key, self._none(), self._none(), str(error))
        self.picking = self._wanted is not wanted
        self.session.tell("geology")

    def _sticks(self, lines: list[float]) -> tuple[pd.DataFrame, pd.DataFrame, str]:
        """Return (sticks, rejected sticks, note) for the given line numbers; the note states the numbers of sticks."""
        name, along = self.fault_class(), self.survey.line_name
        rejected = self._none()
        if name in self.job.palette:
            rejected = faults.rejected_sticks(self.job, name)
            rejected = rejected[rejected[along].isin(lines) & (rejected["along"] == along)].assign(surface=-1)
        labelled = True
        if self.of == ALL:
            sticks, words = self._all_sticks(lines), "sticks of any class"
        else:
            done = {self.survey.lines[i].item() for i in self.session.labelling.done()}
            labelled, words = not done.isdisjoint(lines), f"sticks of {self.of}"
            if labelled:
                sticks = faults.sticks_of_class(self.job, self.of, lines=lines)
            else:
                accepted = faults.accepted_sticks(self.job, self.of)
                sticks = join_sticks(accepted[accepted[along].isin(lines)], self.job.volume)
        kept = sticks.loc[sticks["accepted"].astype(bool), "stick"].nunique()
        note = f"{sticks['stick'].nunique()} {words}: {kept} accepted, {rejected['stick'].nunique()} rejected"
        return sticks, rejected, note if labelled else f"{note}; label the line to see the sticks of its labels"

    def _all_sticks(self, lines: list[float] | None = None, **options: Any) -> pd.DataFrame:
        """Return the picked sticks and the accepted sticks, without rejected sticks, on the given lines.

        `lines` are line numbers, by default all. `options` are passed to `outcrop.job.faults.judged_sticks`.
        """
        name = self.fault_class()
        return faults.judged_sticks(self.job, name if name in self.job.palette else None, lines, **options)

    def _none(self) -> pd.DataFrame:
        columns = ["surface", "stick", *self.job.volume.dims, "likelihood", "accepted"]
        return pd.DataFrame({name: np.empty(0) for name in columns})

    def pick_all(self) -> Task:
        """Pick faults in a thread, on every line on which faults were not picked yet."""

        def pick(task: Task) -> None:
            faults.all_sticks(self.job, progress=task.stage)
            self.session.tell("geology")

        return self.session.work.start("picking faults", pick)

    # ---- decisions --------------------------------------------------------------------------------------------------

    def fault_class(self) -> str:
        """Return the class that a stick gets when the interpreter accepts it.

        It is the class whose sticks are shown, else the class that the interpreter chose, else the class of the last
        verdict on a stick, else a class whose name contains "fault". If no class fits, it is the new class "fault",
        which the first verdict adds to the job.
        """
        if self.of in self.job.palette:
            return self.of
        chosen: str = self.job.plan.names.get(self.session.view.get("fault-class", ""), "")
        if chosen:
            return chosen
        try:
            return faults.fault_class(self.job)
        except ValueError:  # no class holds verdicts, or several do
            named = [name for name in self.job.palette if faults.FAULT in name.lower()]
            return named[0] if named else faults.FAULT

    def fault_classes(self) -> list[str]:
        """Return the classes that the interpreter can choose for accepted sticks."""
        names = [name for name in self.job.palette if name != self.job.plan.background_name]
        return names if self.fault_class() in names else [*names, self.fault_class()]

    def choose_fault_class(self, name: str) -> None:
        """Choose the class that sticks get when the interpreter accepts them."""
        self.session.view.keep(**{"fault-class": self.job.first_name(name)})
        self.session.tell("geology")

    def judge(self, sticks: pd.DataFrame, what: str, position: int) -> None:
        """Accept or reject sticks, or clear the verdicts on them; one undo cancels all verdicts of the call.

        Parameters
        ----------
        sticks : DataFrame
            Points of the sticks, all on one line.
        what : {"accept", "reject", "forget"}
            The verdict; "forget" clears earlier verdicts.
        position : int
            Position of the line on its axis.
        """
        self.session.decide_on(position, self._judge, sticks, what)

    def _judge(self, sticks: pd.DataFrame, what: str) -> None:
        name = self.fault_class()
        with self.job.log.act():
            if name not in self.job.palette:
                self.job.add_class(name)
            faults.judge_sticks(self.job, sticks, what, name)

    def extend(self, stick: pd.DataFrame, place: Place, position: int) -> None:
        """Extend a stick to a place on the same line, and accept the longer stick.

        `position` is the position of the line on its axis.
        """
        self.session.decide_on(position, self._extend, stick, place)

    def _extend(self, stick: pd.DataFrame, place: Place) -> None:
        faults.extended_stick(self.job, stick, place)  # raises before a decision is logged
        name = self.fault_class()
        with self.job.log.act():
            if name not in self.job.palette:
                self.job.add_class(name)
            faults.extend_stick(self.job, stick, place, name)

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def find_bodies(self) -> Task:
        """Find the geobodies of the labelled lines, in a thread."""

        def find(task: Task) -> None:
            labels = self._labels()
            bodies, _, _ = job_bodies(self.job, fuse=False, stale=True, progress=task.stage)
            self._bodies = bodies, labels
            self.session.tell("geology")

        return self.session.work.start("finding bodies", find)

    def bodies_note(self) -> str:
        """Return a text with the number of geobodies, and whether they are out of date; "" before the first search."""
        if self._bodies is None:
            return ""
        words = counted(len(self._bodies[0].table), "bodies")
        return f"{words} from older labels: find the bodies again" if self.bodies_old() else words

    def bodies_old(self) -> bool:
        """Return whether the labels changed since the geobodies were found."""
        return self._bodies is not None and self._bodies[1] != self._labels()

    def _labels(self) -> tuple[Any, ...]:
        """Return a tuple that changes with the labels: strokes, limit of confidence, folders of the votes."""
        labels = self.session.labelling.shown().labels
        return self.job.strokes, labels.limit, {line: store.folder.name for line, store in labels.stores.items()}

    def horizons(self, direction: int, position: int) -> list[tuple[str, str, Any]]:
        """Return the lines along which tops and bases of geobodies cross a section.

        Each line is (class, "top" or "base", points). The points are two arrays: axis values (line numbers, ms or m)
        across and down the section. The list is empty before the first search for geobodies.
        """
        if self._bodies is None:
            return []
        bodies, interval = self._bodies[0], abs(self.survey.axes[2].step)
        label = self.survey.axes[direction].labels[position].item()
        found = []
        for name, body in bodies.outlines:
            for side in SIDES:
                surface = bodies.surface(name, body, side)
                found += [(name, side, line) for line in horizon_traces(surface, direction, label, interval=interval)]
        return found

    # ---- files ------------------------------------------------------------------------------------------------------

    def export_sticks(self, name: str = "sticks.csv", *, stale: bool = False) -> Task:
        """Write the sticks of the class `of`, or all sticks, into a file of the export folder, in a thread.

        If `of` is a class, its sticks on labelled lines are written, and stale labels raise an error unless `stale`
        is True. If `of` is `ALL`, all sticks are written, and no labels are needed. Rejected sticks are left out.
        """
        results = self.session.results

        def write(task: Task) -> None:
            old = 0 if self.of == ALL else results.check_stale(stale=stale)
            if self.of == ALL:
                sticks = self._all_sticks(progress=task.stage)
            else:
                sticks = faults.sticks_of_class(self.job, self.of, progress=task.stage)
            out = results.free_path(name)
            known = map_grid(self.job.volume).in_metres
            with warnings.catch_warnings(action="ignore"):  # the text below states it
                write_sticks(sticks, out, self.job.volume)
            coordinates = "X and Y" if known else "without X and Y, because the volume has no coordinates"
            self._wrote(out, f"{counted(sticks['stick'].nunique(), 'sticks')}, {coordinates}", old)

        return self.session.work.start(f"writing {name}", write)

    def export_bodies(self, *, stale: bool = False) -> Task:
        """Write geobodies, tops and bases into the export folder, in a thread.

        Stale labels raise an error unless `stale` is True.
        """
        results = self.session.results

        def write(task: Task) -> None:
            old, out = results.check_stale(stale=stale), results.free_path("bodies")
            found, _ = write_bodies(self.job, out, fuse=False, stale=stale, progress=task.stage)
            self._wrote(out, counted(len(found.table), "bodies"), old)

        return self.session.work.start("writing bodies", write)

    def _wrote(self, out: Path, what: str, old: int) -> None:
        """Add a written file to the list of exports.

        `what` describes the content of the file, and `old` is the number of stale lines in it.
        """
        lines = f", including {old} stale line{'s' if old > 1 else ''}" if old else ""
        self.session.results.written.append(Written(out, f"{out} written: {what}{lines}", geology=True))
