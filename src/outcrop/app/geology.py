"""Faults and bodies of a session: sticks, tops and bases on the section in view, and decisions about sticks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from outcrop.app.results import Written
from outcrop.app.survey import Place
from outcrop.app.work import Latest, Task
from outcrop.geometry.bodies import SIDES
from outcrop.geometry.crossings import FaultTrace, fault_traces, horizon_traces
from outcrop.geometry.sticks import write_sticks
from outcrop.geometry.surfaces import join_sticks
from outcrop.job import faults
from outcrop.job.bodies import job_bodies, write_bodies

if TYPE_CHECKING:
    from outcrop.app.session import Session

ALL = "all faults"  # instead of those of a class


class Picked(NamedTuple):
    """Sticks that can be drawn on a section, and what they were made from."""

    key: Any  # class, lines, decisions, where the labels of the lines are kept
    sticks: pd.DataFrame
    note: str


class Shown(NamedTuple):
    """Sticks of a section in view and the lines to draw for them."""

    sticks: pd.DataFrame
    traces: list[FaultTrace]
    note: str


class Geology:
    """Fault sticks and bodies of the job of a session.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    of : str
        Class whose sticks are shown, or `ALL`.
    picking : bool
        Whether the sticks of a section are picked now.
    """

    def __init__(self, session: "Session") -> None:
        self.session, self.job, self.survey = session, session.job, session.survey
        self.of = session.view.get("sticks-of", "")
        self._picked: dict[bool, Picked] = {}  # whether a section lies across the lines -> its sticks
        self._bodies: tuple[Any, Any] | None = None  # and the labels that they were found in
        self._wanted: tuple[bool, Any] | None = None
        self._picker = Latest(self._pick)
        self.picking = False

    def close(self) -> None:
        """Wait for what picks faults."""
        self._wanted = None
        self._picker.wait()

    # ---- sticks -----------------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """Of what sticks can be shown; the chosen one is brought up to the classes there are."""
        names = list(self.job.palette)
        if self.of not in (ALL, *names):
            self.of = ALL
        return [*names, ALL]

    def choose(self, name: str) -> None:
        """Show the sticks of a class, or all of them."""
        self.of = name
        self.session.view.keep(**{"sticks-of": name})
        self.session.tell("geology")

    def shown(self, direction: int, position: int) -> Shown:
        """Sticks on a section; older ones, or none, while they are picked in a thread."""
        key, across = self._key(direction, position), direction != self.survey.along
        picked = self._picked.get(across)
        if picked is None or picked.key != key:
            if self._wanted != (across, key):
                self._wanted, self.picking = (across, key), True
                self._picker.request()
                self.session.tell("work")
            same = picked is not None and picked.key[0] == key[0] and (across or picked.key[1] == key[1])
            picked = Picked(key, picked.sticks if picked and same else self._none(), "picking faults ...")
        label = self.survey.axes[direction].labels[position].item()
        return Shown(picked.sticks, fault_traces(picked.sticks, self.job.volume, direction, label), picked.note)

    def _key(self, direction: int, position: int) -> tuple[Any, ...]:
        """What the sticks of a section depend on: on lines the line, across them all that is picked so far.

        Labels of other lines do not count: after a verdict up to twenty of them are labelled again, one by one.
        """
        self.choices()
        along, lines = self.survey.along, self.survey.lines
        numbers = [lines[position].item()] if direction == along else faults.picked_lines(self.job)
        stores = self.session.labelling.shown().labels.stores
        at = np.flatnonzero(np.isin(lines, numbers)).tolist()
        labels = tuple(stores[i].folder.name if i in stores else None for i in at)
        return self.of, tuple(numbers), self.job.plan, labels

    def _pick(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        across, key = wanted
        try:
            self._picked[across] = Picked(key, *self._sticks(list(key[1])))
        except Exception as error:
            self._picked[across] = Picked(key, self._none(), str(error))
        self.picking = self._wanted is not wanted
        self.session.tell("geology")

    def _sticks(self, lines: list[float]) -> tuple[pd.DataFrame, str]:
        """Sticks of some lines, and a sentence about them."""
        if self.of == ALL:
            sticks = self._all_sticks(lines).assign(accepted=False)
            return sticks, f"{sticks['stick'].nunique()} sticks, whatever their class"
        done = {self.survey.lines[i].item() for i in self.session.labelling.done()}
        labelled = not done.isdisjoint(lines)
        if labelled:
            sticks = faults.sticks_of_class(self.job, self.of, lines=lines)
        else:
            accepted = faults.accepted_sticks(self.job, self.of)
            sticks = join_sticks(accepted[accepted[self.survey.line_name].isin(lines)], self.job.volume)
        count, kept = sticks["stick"].nunique(), sticks.loc[sticks["accepted"].astype(bool), "stick"].nunique()
        words = f"{count} sticks of {self.of}, {kept} of them accepted"
        return sticks, words if labelled else f"{words}; label the line to see those that its labels show"

    def _all_sticks(self, *lines: list[float], **options: Any) -> pd.DataFrame:
        """Sticks of whatever class."""
        return join_sticks(faults.all_sticks(self.job, *lines, **options), self.job.volume)

    def _none(self) -> pd.DataFrame:
        columns = ["surface", "stick", *self.job.volume.dims, "likelihood", "accepted"]
        return pd.DataFrame({name: np.empty(0) for name in columns})

    def pick_all(self) -> Task:
        """Pick the faults of the whole survey; what is picked already stays."""

        def pick(task: Task) -> None:
            faults.all_sticks(self.job, progress=task.stage)
            self.session.tell("geology")

        return self.session.work.start("picking faults", pick)

    # ---- decisions --------------------------------------------------------------------------------------------------

    def judge(self, stick: pd.DataFrame, what: str, position: int) -> None:
        """Accept or reject a stick on a line, or forget what was decided along it."""
        self.session.decide_on(position, faults.judge_sticks, self.job, stick, what, self._class())

    def extend(self, stick: pd.DataFrame, place: Place, position: int) -> None:
        """Extend a stick on a line to a place, which accepts it."""
        self.session.decide_on(position, faults.extend_stick, self.job, stick, place, self._class())

    def _class(self) -> str:
        """Class to which sticks are accepted."""
        return str(faults.fault_class(self.job, None if self.of == ALL else self.of))

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def find_bodies(self) -> Task:
        """Find the bodies of the labelled lines, in a thread."""

        def find(task: Task) -> None:
            labels = self._labels()
            bodies, _, _ = job_bodies(self.job, fuse=False, stale=True, progress=task.stage)
            self._bodies = bodies, labels
            self.session.tell("geology")

        return self.session.work.start("finding bodies", find)

    def bodies_note(self) -> str:
        """What bodies there are, in words."""
        if self._bodies is None:
            return ""
        words = f"{len(self._bodies[0].table)} bodies"
        return f"{words} of older labels: find them again" if self.bodies_old() else words

    def bodies_old(self) -> bool:
        """Whether bodies were found in older labels than there are now."""
        return self._bodies is not None and self._bodies[1] != self._labels()

    def _labels(self) -> tuple[Any, ...]:
        """What the labels of the survey come from."""
        labels = self.session.labelling.shown().labels
        return self.job.strokes, labels.limit, {line: store.folder.name for line, store in labels.stores.items()}

    def horizons(self, direction: int, position: int) -> list[tuple[str, str, Any]]:
        """Class, side (top or base) and line (across, down) of the horizons on a section."""
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
        """Write the sticks of all labelled lines, or of all lines, into the export folder, in a thread.

        Labels of older decisions are refused unless `stale` ones are wanted; sticks of no class need none.
        """
        results = self.session.results

        def write(task: Task) -> None:
            old = 0 if self.of == ALL else results.check_stale(stale=stale)
            if self.of == ALL:
                sticks = self._all_sticks(progress=task.stage)
            else:
                sticks = faults.sticks_of_class(self.job, self.of, progress=task.stage)
            out = results.free_path(name)
            write_sticks(sticks, out, self.job.volume)
            self._wrote(out, f"{sticks['stick'].nunique()} sticks", old)

        return self.session.work.start(f"writing {name}", write)

    def export_bodies(self, *, stale: bool = False) -> Task:
        """Write bodies, tops and bases into the export folder, in a thread; refused as `export_sticks` is."""
        results = self.session.results

        def write(task: Task) -> None:
            old, out = results.check_stale(stale=stale), results.free_path("bodies")
            found, _ = write_bodies(self.job, out, fuse=False, stale=stale, progress=task.stage)
            self._wrote(out, f"{len(found.table)} bodies", old)

        return self.session.work.start("writing bodies", write)

    def _wrote(self, out: Path, what: str, old: int) -> None:
        """Remember what was written, for the lists of exports."""
        lines = f", from {old} stale line{'s' if old > 1 else ''} too" if old else ""
        self.session.results.written.append(Written(out, f"{out} written: {what}{lines}", geology=True))
