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

    key: Any  # class, lines, decisions, bytes of the journal of votes
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
    """

    def __init__(self, session):
        self.session, self.job, self.survey = session, session.job, session.survey
        self.of = session.view.get("sticks-of", "")
        self._picked: dict = {}  # whether a section lies across the lines -> Picked
        self._bodies: Any = None
        self._bodies_of: Any = None
        self._wanted: Any = None
        self._picker = Latest(self._pick)

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
                self._wanted = across, key
                self._picker.ask()
            older = self._none()
            if picked is not None and picked.key[0] == key[0] and (across or picked.key[1] == key[1]):
                older = picked.sticks
            picked = Picked(key, older, "picking faults ...")
        label = self.survey.axes[direction].labels[position].item()
        return Shown(picked.sticks, fault_traces(picked.sticks, self.job.volume, direction, label), picked.note)

    def _key(self, direction, position):
        """What the sticks of a section depend on: on lines the line, across them all that is picked so far."""
        self.choices()
        lines = (
            [self.survey.lines[position].item()] if direction == self.survey.along else faults.picked_lines(self.job)
        )
        return self.of, tuple(lines), self.job.state, self.session.labelling.written()

    def _pick(self):
        if self._wanted is None:
            return
        across, key = self._wanted
        try:
            self._picked[across] = Picked(key, *self._sticks(list(key[1])))
        except Exception as error:
            self._picked[across] = Picked(key, self._none(), str(error))
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
            self._bodies, _, _ = job_bodies(self.job, fuse=False, stale=True, progress=task.stage)
            self._bodies_of = self.session.labelling.written()
            self.session.tell("geology")

        return self.session.work.start("finding bodies", find)

    def bodies_note(self):
        """What bodies there are, in words."""
        if self._bodies is None:
            return ""
        words = f"{len(self._bodies.table)} bodies"
        old = self._bodies_of != self.session.labelling.written()
        return f"{words} of older labels: find them again" if old else words

    def horizons(self, direction, position):
        """Class, side (top or base) and line (across, down) of the horizons on a section."""
        if self._bodies is None:
            return []
        label = self.survey.axes[direction].labels[position].item()
        return [
            (name, side, line)
            for name, body in self._bodies.outlines
            for side in SIDES
            for line in horizon_traces(self._bodies.surface(name, body, side), direction, label)
        ]

    # ---- files ------------------------------------------------------------------------------------------------------

    def export_sticks(self, name="sticks.csv"):
        """Write the sticks of all labelled lines, or of all lines, into the export folder, in a thread."""

        def write(task):
            if self.of == ALL:
                sticks = join_sticks(faults.all_sticks(self.job, progress=task.stage), self.job.volume)
            else:
                sticks = faults.sticks_of_class(self.job, self.of, progress=task.stage)
            out = free_name(self.session.results.folder, name)
            write_sticks(sticks, out, self.job.volume)
            text = f"{out} written: {sticks['stick'].nunique()} sticks"
            self.session.results.written.append(Written(out, text))

        return self.session.work.start(f"writing {name}", write)

    def export_bodies(self):
        """Write bodies, tops and bases into the export folder, in a thread."""

        def write(task):
            out = free_name(self.session.results.folder, "bodies")
            found, _ = write_bodies(self.job, out, fuse=False, stale=True, progress=task.stage)
            self.session.results.written.append(Written(out, f"{out} written: {len(found.table)} bodies"))

        return self.session.work.start("writing bodies", write)
