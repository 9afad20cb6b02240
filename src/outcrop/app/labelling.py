"""The labels of a session: those that the job keeps line by line, and what is shown of them."""

import contextlib
import threading
import time
from collections.abc import Sequence

import numpy as np
import xarray as xr

from outcrop.app.page_job import PageJob
from outcrop.app.pictures import Codes
from outcrop.app.places import Unsure, places
from outcrop.app.shown_labels import Before, Shown, ShownLabels, class_shares
from outcrop.app.survey import Place, Survey
from outcrop.app.view import View
from outcrop.app.work import Latest, Task, Work
from outcrop.job.plan import Plan
from outcrop.parallel import checked, n_cores, one_blas_thread

FOLLOW = 20  # labelled lines next to a corrected one that are labelled again behind it
SETTLE, QUIET = 0.25, 2.0  # seconds without a stroke before the line is learnt from, and before other lines follow
SEEN, VANISHED = 0.005, 0.1  # a class of that share is reported to vanish where less than that part of it is left
TAKEN, OF_LINE = 0.2, 0.01  # part of a class, and of the line, from which the loss of unpainted samples is reported
BROKEN_OFF = "labelling-survey"  # what is kept in the view while the survey is labelled


class Newer(Exception):
    """A newer stroke makes the work in hand useless."""


class PageLabels(ShownLabels):
    """Labels of the survey as the page makes them and brings them up to strokes, and as the job keeps them.

    Parameters
    ----------
    job : PageJob
    survey : Survey
    work : Work
    view : View
        Remembers that the survey is being labelled.
    truth : DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    changed : float or None
        Share of the line that the last correction gave another label.
    vanished : list of (str, float, float)
        Classes that the last correction nearly took from the line, with their shares before and after.
    vanished_near : list of (int, str, float, float)
        The same of the lines that followed it, with the number of the line first.
    taken : list of (str, float, float)
        Classes of which the last correction took a large part where nothing is painted: that part, and its share of the
        line.
    least_sure : list of Unsure
        Places to look at next; see `places`.
    visited : list of (inline, crossline, time)
        Those of them that were looked at.
    """

    def __init__(self, job: PageJob, survey: Survey, work: Work, view: View, truth: xr.DataArray | None = None) -> None:
        super().__init__(job, survey, work, truth)
        self.view = view
        self.changed: float | None = None
        self.vanished: list[tuple[str, float, float]] = []
        self.vanished_near: list[tuple[int, str, float, float]] = []
        self.taken: list[tuple[str, float, float]] = []
        self._spreader, self._learner = Latest(self._spread), Latest(self._learn)
        self._warmer, self._finder = Latest(self._warm), Latest(self._look)
        self._to_warm: int | None = None
        self._corrected: int | None = None  # position of the line that strokes were followed on last, where they update
        self._followed_at = 0.0  # when the last of them was
        self._n_followed = self._learning = 0  # times that a line was to follow strokes, and the one it learns from
        self._turn = threading.Lock()
        self.least_sure: list[Unsure] = []
        self.visited: list[Place] = []
        self._looked = -1  # bytes of the journal when the least sure places were looked for
        self._closing = False

    def close(self) -> None:
        """Wait for what looks at the labels."""
        self._closing = True
        for thread in (self._spreader, self._warmer, self._learner, self._finder, self._reader):
            thread.wait()

    # ---- making -----------------------------------------------------------------------------------------------------

    def label(self, lines: Sequence[float] | None = None) -> Task:
        """Label some lines, by their numbers, or the whole survey."""
        plan = self.job.plan
        if plan.mapper_key is None:
            raise ValueError("Nothing is marked yet; place an exemplar of each class first.")
        if not plan.label.mapper and len(plan.names) < 2:
            raise ValueError("Labels need two classes or more; add one for everything else, for instance 'other'.")
        return self.work.start("labelling", self._label, plan, lines)

    def _label(self, task: Task, plan: Plan, lines: Sequence[float] | None) -> None:
        """Label as the decisions were when it began: what is decided meanwhile makes these labels stale, not wrong."""
        position = None if lines is None else self.survey.line_at(lines[0])
        if position is None:
            self.view.keep(**{BROKEN_OFF: True})
        else:
            self.begin_correction(position)
        try:
            with one_blas_thread():  # two BLAS threads are slower than one where something else runs
                workers = max(1, n_cores() - 1)  # one core answers clicks
                self.job.add_background(plan)
                plan = self.job.plan if plan.background is None else plan
                self.job.label_lines(plan, lines, workers=workers, progress=task.stage)
            if position is None:
                self.view.keep(**{BROKEN_OFF: False})
            else:
                self._end_correction(position)
        finally:
            self.work.tell("labels")
            self.look()

    def broken_off(self) -> str:
        """A sentence where the survey was being labelled when the server ended, else an empty one."""
        total, labelled, stale = self.counts() if self.view.get(BROKEN_OFF, False) else (0, 0, 0)
        done = labelled - stale
        if done == total:
            return ""
        return (
            f"Labelling the survey was broken off: {done} of {total} lines labelled. Label the survey to go on there."
        )

    def begin_correction(self, position: int, shown: Shown | None = None) -> None:
        """Remember the labels of a line, the present ones or those `shown` before, unless a correction is under way."""
        before, found = self._before, shown or self.shown()
        if position in found.labels.stores and (before is None or before.fitted or before.position != position):
            codes, _ = self._section(position, found=found)
            self._before = Before(position, codes, 1 + (before.number if before else 0), fitted=False)

    def corrected(self, position: int) -> bool:
        """Whether the last correction was one of that line."""
        return self._before is not None and self._before.position == position

    def _end_correction(self, position: int) -> None:
        """Compare with what was remembered."""
        self.changed, self.vanished, self.vanished_near, self.taken, before = None, [], [], [], self._before
        if before is not None and before.position == position:
            after = self.codes(self.survey.lines[position])
            if after is None:  # taken away meanwhile
                return
            self.changed = float((before.codes != after).mean())
            self.vanished = self._vanished(before.codes, after)
            self.taken = self._taken(before.codes, after, position)
            self._before = before._replace(fitted=True)

    def _vanished(self, before: Codes, after: Codes) -> list[tuple[str, float, float]]:
        """Classes that are nearly gone from a line, with their shares before and after."""
        then, now = (class_shares(codes, self.shown().names) for codes in (before, after))
        return [
            (name, share, now[name]) for name, share in then.items() if share >= SEEN and now[name] < VANISHED * share
        ]

    def _taken(self, before: Codes, after: Codes, position: int) -> list[tuple[str, float, float]]:
        """Classes that lost much where nothing is painted: the part of the class, and its share of the line."""
        painted, _ = self.job.painted_on(self.survey.along, position)
        elsewhere = (before != after) & (painted is None or painted == 0)
        gone = {name for name, *_ in self.vanished}
        found: list[tuple[str, float, float]] = []
        for code, name in enumerate(self.shown().names, 1):
            was = before == code
            total, lost = np.count_nonzero(was), np.count_nonzero(was & elsewhere)
            if name not in gone and lost >= TAKEN * total and lost > OF_LINE * before.size:
                found.append((name, float(lost / total), lost / before.size))
        return found

    # ---- strokes ----------------------------------------------------------------------------------------------------

    def follow(self, position: int) -> None:
        """Bring a line up to the strokes on it: first what they cover, then what the mapper learns from them.

        Returns at once; until it is done the line keeps the labels that are in view. Of several strokes in a row only
        the last one is learnt from.
        """
        with self._turn:
            self.correcting = position
            self._n_followed += 1
            self._followed_at = time.monotonic()
        self._spreader.request()

    def wait(self) -> None:
        """Wait until strokes are shown and learnt from."""
        self._spreader.wait()  # which asks the other one before it ends
        self._learner.wait()

    def expect(self, position: int) -> None:
        """Get ready for strokes on a line: its features are computed in a thread."""
        self._to_warm = position
        self._warmer.request()

    def _warm(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # reported when a stroke needs it
            if self._to_warm is not None and self._to_warm in self.shown().labels.stores:
                self.job.describe_line(self._to_warm)

    def _spread(self) -> None:
        """Labels of the line as the strokes change them by themselves."""
        position = self.correcting
        try:
            if position is not None and position in self.shown().labels.stores:
                self._read_again(position)
            self._corrected = position if self.job.learns_at_once(self.job.plan) else None
        except Exception as error:
            self._give_up(error)
        self._learner.request()

    def _learn(self) -> None:
        """Update the mapper by all strokes, and label the line anew; the labelled lines near it follow."""
        with self._turn:
            position, self._learning = self.correcting, self._n_followed
        if position is None:
            return
        try:
            self._pause(self._followed_at + SETTLE - time.monotonic())  # spreading took some of it
            plan = self.job.plan
            updated = self.job.learns_at_once(plan)
            with one_blas_thread(), checked(self._unless_newer):
                if updated:
                    self._label_now(plan, position)
                self._unless_newer()
                if position in self.shown().labels.stores:
                    self._read_again(position)
                with self._turn:
                    self._unless_newer()
                    self._end_correction(position)
                    self.correcting = None
                self.work.tell("labels")
                if updated and self.shown().stale:
                    self._pause(QUIET)
                    self._label_near(plan)
            self._corrected = None
        except Newer:
            return
        except Exception as error:
            self._give_up(error)
        self.work.tell("labels")
        self.look()

    def _give_up(self, error: Exception) -> None:
        """Follow no stroke any more, and say why."""
        self.correcting = None
        self.work.say(str(error), wrong=True)

    def following(self) -> list[int]:
        """Positions of the stale lines near a corrected one that are about to be labelled again, the nearest first."""
        at = self._corrected
        if at is None or not (self._learner.busy or self.correcting is not None):
            return []
        return sorted(self.shown().stale - {self.correcting}, key=lambda line: abs(line - at))[:FOLLOW]

    def _label_near(self, plan: Plan) -> None:
        """Label the lines near a corrected one again that are stale by now."""
        for line in self.following():
            self._unless_newer()
            number, found = self.survey.lines[line], self.shown()
            stale = line in found.labels.stores
            before = found.labels.section(line, painted=False)[0] if stale else None
            self._label_now(plan, line)
            after = self.codes(number)
            if before is not None and after is not None:
                self.vanished_near += [(int(number), *one) for one in self._vanished(before, after)]
            self.work.tell("labels")

    def _label_now(self, plan: Plan, position: int) -> None:
        """Label a line unless there is a newer stroke."""
        self.job.label_lines(plan, [self.survey.lines[position]], workers=1, progress=self._unless_newer)

    def _pause(self, seconds: float) -> None:
        """Let the page answer first."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._unless_newer()
            time.sleep(0.02)

    def _unless_newer(self, *_: object) -> None:
        """Stop where there is a newer stroke, or nobody looks any more."""
        if self._learning != self._n_followed or self._closing:
            raise Newer

    def _read_again(self, position: int) -> None:
        """Read the labels of a line as they are by now, and show them."""
        found = self.shown()
        for limit in {0.0, float(found.labels.limit)}:
            self._read_section(found, position, limit)
        self._n_read += 1
        self.work.tell("labels")

    # ---- where to look next -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look for the least sure places, in a thread, where lines were labelled since."""
        if self.job.labels_written() != self._looked:
            self._finder.request()

    def _look(self) -> None:
        if self.work.busy or self.correcting is not None:
            return  # asked again when the work is done
        try:
            written = self.job.labels_written()
            self.least_sure = places(self.survey, self.shown().labels, self.visited, check=self._unless_correcting)
            self._looked = written
        except Newer:
            return
        except (ValueError, OSError) as error:
            self.work.say(str(error), wrong=True)
        self.work.tell("places")

    def _unless_correcting(self) -> None:
        """Stop where a stroke is to be followed: the places are looked for again behind it."""
        if self.correcting is not None or self._closing:
            raise Newer

    def visit(self, place: Place) -> None:
        """Remember that a place was looked at; when all were, look for others."""
        self.visited.append(place)
        if all(one.place in self.visited for one in self.least_sure):
            self._finder.request()
