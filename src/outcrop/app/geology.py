"""Faults and bodies of a session: sticks, tops and bases on the section in view, and decisions about sticks."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from outcrop.app.results import Written, free_name
from outcrop.app.work import Latest
from outcrop.geometry.bodies import SIDES
from outcrop.geometry.crossings import fault_traces, horizon_traces
from outcrop.geometry.sticks import write_sticks
from outcrop.geometry.surfaces import join_sticks
from outcrop.job import faults
from outcrop.job.bodies import job_bodies, write_bodies

ALL = "all faults"  # instead of those of a class


class Picked(NamedTuple):
    """Sticks that can be drawn on a section, and what they were made from."""

    key: Any  # class, lines, decisions, where the labels of the lines are kept
    sticks: pd.DataFrame
    note: str


class Shown(NamedTuple):
    """Sticks of a section in view and the lines to draw for them."""

    sticks: pd.DataFrame
    traces: list
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
    written : list of Written
        Sticks and bodies that were exported so far; they are in the list of all exports too.
    """

    def __init__(self, session):
        self.session, self.job, self.survey = session, session.job, session.survey
        self.of = session.view.get("sticks-of", "")
        self._picked: dict = {}  # whether a section lies across the lines -> Picked
        self._bodies: Any = None
        self._bodies_of: Any = None
        self._wanted: Any = None
        self._picker = Latest(self._pick)
        self.picking = False
        self.written: list = []

    def close(self):
        """Wait for what picks faults."""
        self._wanted = None
        self._picker.wait()

    # ---- sticks -----------------------------------------------------------------------------------------------------

    def choices(self):
        """Of what sticks can be shown; the chosen one is brought up to the classes there are."""
        names = list(self.job.palette)
        if self.of not in (ALL, *names):
            faulty = [name for name in names if "fault" in name.lower()]
            self.of = faulty[0] if len(faulty) == 1 else ALL
        return [*names, ALL]

    def choose(self, name):
        """Show the sticks of a class, or all of them."""
        self.of = name
        self.session.view.keep(**{"sticks-of": name})
        self.session.tell("geology")

    def shown(self, direction, position):
        """Sticks on a section; older ones, or none, while they are picked in a thread."""
        key, across = self._key(direction, position), direction != self.survey.along
        picked = self._picked.get(across)
        if picked is None or picked.key != key:
            if self._wanted != (across, key):
                self._wanted, self.picking = (across, key), True
                self._picker.request()
                self.session.tell("work")
            older = self._none()
            if picked is not None and picked.key[0] == key[0] and (across or picked.key[1] == key[1]):
                older = picked.sticks
            picked = Picked(key, older, "picking faults ...")
        label = self.survey.axes[direction].labels[position].item()
        return Shown(picked.sticks, fault_traces(picked.sticks, self.job.volume, direction, label), picked.note)

    def _key(self, direction, position):
        """What the sticks of a section depend on: on lines the line, across them all that is picked so far.

        Labels of other lines do not count: after a verdict up to twenty of them are labelled again, one by one.
        """
        self.choices()
        lines = (
            [self.survey.lines[position].item()] if direction == self.survey.along else faults.picked_lines(self.job)
        )
        stores = self.session.labelling.shown().labels.stores
        at = np.flatnonzero(np.isin(self.survey.lines, lines)).tolist()
        labels = tuple(stores[i].folder.name if i in stores else None for i in at)
        return self.of, tuple(lines), self.job.state, labels

    def _pick(self):
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

    def _sticks(self, lines):
        """Sticks of some lines, and a sentence about them."""
        if self.of == ALL:
            sticks = join_sticks(faults.all_sticks(self.job, lines), self.job.volume).assign(accepted=False)
            return sticks, f"{sticks['stick'].nunique()} sticks, whatever their class"
        done = {self.survey.lines[i].item() for i in self.session.labelling.done()}
        labelled = [line for line in lines if line in done]
        if labelled:
            sticks = faults.sticks_of_class(self.job, self.of, lines=lines)
        else:
            accepted = faults.accepted_sticks(self.job, self.of)
            sticks = join_sticks(
                accepted[accepted[self.job.volume.dims[self.survey.along]].isin(lines)], self.job.volume
            )
        count, accepted = sticks["stick"].nunique(), sticks.loc[sticks["accepted"].astype(bool), "stick"].nunique()
        words = f"{count} sticks of {self.of}, {accepted} of them accepted"
        return sticks, words if labelled else f"{words}; label the line to see those that its labels show"

    def _none(self):
        columns = ["surface", "stick", *self.job.volume.dims, "likelihood", "accepted"]
        return pd.DataFrame({name: np.empty(0) for name in columns})

    def pick_all(self):
        """Pick the faults of the whole survey; what is picked already stays."""

        def pick(task):
            faults.all_sticks(self.job, progress=task.stage)
            self.session.tell("geology")

        return self.session.work.start("picking faults", pick)

    # ---- decisions --------------------------------------------------------------------------------------------------

    def judge(self, stick, what, position):
        """Accept or reject a stick on a line, or forget what was decided along it."""
        name = self._class()
        self.session.decide_on(position, lambda: faults.judge_sticks(self.job, stick, what, name))

    def extend(self, stick, place, position):
        """Extend a stick on a line to a place, which accepts it."""
        name = self._class()
        self.session.decide_on(position, lambda: faults.extend_stick(self.job, stick, place, name))

    def _class(self):
        """Class to which sticks are accepted."""
        return faults.fault_class(self.job, None if self.of == ALL else self.of)

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def find_bodies(self):
        """Find the bodies of the labelled lines, in a thread."""

        def find(task):
            labels = self._labels()
            self._bodies, _, _ = job_bodies(self.job, fuse=False, stale=True, progress=task.stage)
            self._bodies_of = labels
            self.session.tell("geology")

        return self.session.work.start("finding bodies", find)

    def bodies_note(self):
        """What bodies there are, in words."""
        if self._bodies is None:
            return ""
        words = f"{len(self._bodies.table)} bodies"
        return f"{words} of older labels: find them again" if self.bodies_old() else words

    def bodies_old(self):
        """Whether bodies were found in older labels than there are now."""
        return self._bodies is not None and self._bodies_of != self._labels()

    def _labels(self):
        """What the labels of the survey come from."""
        found = self.session.labelling.shown()
        return (
            found.state.strokes,
            found.labels.limit,
            {line: store.folder.name for line, store in found.labels.stores.items()},
        )

    def horizons(self, direction, position):
        """Class, side (top or base) and line (across, down) of the horizons on a section."""
        if self._bodies is None:
            return []
        label, interval = self.survey.axes[direction].labels[position].item(), abs(self.survey.axes[2].step)
        found = []
        for name, body in self._bodies.outlines:
            for side in SIDES:
                surface = self._bodies.surface(name, body, side)
                found += [(name, side, line) for line in horizon_traces(surface, direction, label, interval=interval)]
        return found

    # ---- files ------------------------------------------------------------------------------------------------------

    def export_sticks(self, name="sticks.csv", *, stale=False):
        """Write the sticks of all labelled lines, or of all lines, into the export folder, in a thread.

        Labels of older decisions are refused unless `stale` ones are wanted; sticks of no class need none.
        """

        def write(task):
            old = 0
            if self.of == ALL:
                sticks = join_sticks(faults.all_sticks(self.job, progress=task.stage), self.job.volume)
            else:
                old = self._check_stale(stale)
                sticks = faults.sticks_of_class(self.job, self.of, progress=task.stage)
            out = free_name(self.session.results.folder, name)
            write_sticks(sticks, out, self.job.volume)
            self._wrote(out, f"{sticks['stick'].nunique()} sticks", old)

        return self.session.work.start(f"writing {name}", write)

    def export_bodies(self, *, stale=False):
        """Write bodies, tops and bases into the export folder, in a thread; refused as `export_sticks` is."""

        def write(task):
            old = self._check_stale(stale)
            out = free_name(self.session.results.folder, "bodies")
            found, _ = write_bodies(self.job, out, fuse=False, stale=stale, progress=task.stage)
            self._wrote(out, f"{len(found.table)} bodies", old)

        return self.session.work.start("writing bodies", write)

    def _check_stale(self, stale):
        return self.session.results.check_stale(self.session.labelling.done(), stale)

    def _wrote(self, out, what, old):
        """Remember what was written, for the lists of exports."""
        lines = f", from {old} stale line{'s' if old > 1 else ''} too" if old else ""
        self.written.append(Written(out, f"{out} written: {what}{lines}"))
        self.session.results.written.append(self.written[-1])
