"""The labels on the page: labelling of lines, and updates after strokes."""

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

FOLLOW = 20  # number of labelled lines near a corrected line that are labelled again after the correction
SETTLE, QUIET = 0.25, 2.0  # seconds without a stroke before learning from the line, and before labelling lines near it
# a class that covered the share SEEN of a line or more has nearly vanished if less than VANISHED of its share is left
SEEN, VANISHED = 0.005, 0.1
# least share of the class, and of the samples of the line, that must be lost outside strokes for a report
TAKEN, OF_LINE = 0.2, 0.01
BROKEN_OFF = "labelling-survey"  # key in the view, true while the survey is being labelled


class Newer(Exception):
    """Raised when a newer stroke makes the current work obsolete."""


class PageLabels(ShownLabels):
    """The labels of the survey, with methods that label lines on request and update labels after strokes.

    Parameters
    ----------
    job : PageJob
    survey : Survey
    work : Work
    view : View
        Settings of the page. It also stores whether the survey is being labelled, so that an interruption is reported.
    truth : DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    changed : float or None
        Share of the corrected line's samples whose label changed in the last correction; None before a correction.
    vanished : list of (str, float, float)
        Each class that the last correction nearly removed from the line: its name, and its share of the line's labelled
        samples before and after the correction.
    vanished_near : list of (int, str, float, float)
        The same for lines near the corrected line that were labelled again after it: line number, name, share before,
        share after.
    taken : list of (str, float, float)
        Each class that lost many samples outside the strokes in the last correction: its name, and the lost samples as
        a share of the class's earlier samples and as a share of all samples of the line.
    least_sure : list of Unsure
        Places to check next, as the function `places` returns them.
    visited : list of (inline, crossline, time)
        Places that the interpreter has visited.
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
        self._corrected: int | None = None  # position of the last line whose strokes updated the mapper
        self._followed_at = 0.0  # time of the last stroke
        self._n_followed = self._learning = 0  # number of calls of `follow`, and number of the call being processed
        self._turn = threading.Lock()
        self.least_sure: list[Unsure] = []
        self.visited: list[Place] = []
        self._looked = -1  # `labels_written` at the last search for places to check next
        self._closing = False

    def close(self) -> None:
        """Wait until the threads that update labels have ended."""
        self._closing = True
        for thread in (self._spreader, self._warmer, self._learner, self._finder, self._reader):
            thread.wait()

    # ---- making -----------------------------------------------------------------------------------------------------

    def label(self, lines: Sequence[float] | None = None) -> Task:
        """Label the lines with the given numbers in a thread; by default label all lines of the survey."""
        plan = self.job.plan
        if plan.mapper_key is None:
            raise ValueError("Nothing is marked yet; place an exemplar of each class first.")
        if not plan.label.mapper and len(plan.names) < 2:
            raise ValueError("Labels need at least two classes; add a class for everything else, for instance 'other'.")
        return self.work.start("labelling", self._label, plan, lines)

    def _label(self, task: Task, plan: Plan, lines: Sequence[float] | None) -> None:
        """Label lines with the decisions and options in `plan`; decisions logged meanwhile make the labels stale."""
        position = None if lines is None else self.survey.line_at(lines[0])
        if position is None:
            self.view.keep(**{BROKEN_OFF: True})
        else:
            self.begin_correction(position)
        try:
            with one_blas_thread():  # two BLAS threads are slower than one while other work runs
                workers = max(1, n_cores() - 1)  # one core stays free for clicks
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
        """Return a sentence if labelling the survey was interrupted and lines are left to label, else an empty text."""
        total, labelled, stale = self.counts() if self.view.get(BROKEN_OFF, False) else (0, 0, 0)
        done = labelled - stale
        if done == total:
            return ""
        return (
            f"Labelling the survey was interrupted: {done} of {total} lines are labelled. Label the survey to continue."
        )

    def begin_correction(self, position: int, shown: Shown | None = None) -> None:
        """Store the labels of a line, to compare them with its labels after a correction.

        The labels are taken from `shown`, by default the present labels. If a correction of this line is in progress,
        the labels from its start stay stored.
        """
        before, found = self._before, shown or self.shown()
        if position in found.labels.stores and (before is None or before.fitted or before.position != position):
            codes, _ = self._section(position, found=found)
            self._before = Before(position, codes, 1 + (before.number if before else 0), fitted=False)

    def corrected(self, position: int) -> bool:
        """Return whether the last correction was made on the line at a position."""
        return self._before is not None and self._before.position == position

    def _end_correction(self, position: int) -> None:
        """Compare the labels of a line before and after a correction; set `changed`, `vanished` and `taken`."""
        self.changed, self.vanished, self.vanished_near, self.taken, before = None, [], [], [], self._before
        if before is not None and before.position == position:
            after = self.codes(self.survey.lines[position])
            if after is None:  # the labels were removed meanwhile
                return
            self.changed = float((before.codes != after).mean())
            self.vanished = self._vanished(before.codes, after)
            self.taken = self._taken(before.codes, after, position)
            self._before = before._replace(fitted=True)

    def _vanished(self, before: Codes, after: Codes) -> list[tuple[str, float, float]]:
        """Return (name, share before, share after) for each class that nearly vanished from a line.

        `before` and `after` are the label codes of the line before and after it was labelled again.
        """
        then, now = (class_shares(codes, self.shown().names) for codes in (before, after))
        return [
            (name, share, now[name]) for name, share in then.items() if share >= SEEN and now[name] < VANISHED * share
        ]

    def _taken(self, before: Codes, after: Codes, position: int) -> list[tuple[str, float, float]]:
        """Return a list of the classes that lost samples outside the strokes when a line was labelled again.

        Each element is (name, lost samples as a share of the class's samples before, lost samples as a share of all
        samples of the line). `before` and `after` are the label codes of the line before and after it was labelled
        again. Small losses (see `TAKEN` and `OF_LINE`) are left out, and so are classes that nearly vanished.
        """
        painted, _ = self.job.painted_on(self.survey.along, position)
        if painted is None:  # no stroke is left, for instance after an undo
            return []
        elsewhere = (before != after) & (painted == 0)
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
        """Update the labels of a line after strokes, in threads.

        First the painted samples change, then the updated mapper labels the line again. The call returns at once. After
        several strokes in quick succession the mapper is updated once.
        """
        with self._turn:
            self.correcting = position
            self._n_followed += 1
            self._followed_at = time.monotonic()
        self._spreader.request()

    def wait(self) -> None:
        """Wait until the strokes are shown and the mapper has learnt from the strokes."""
        self._spreader.wait()  # it requests the learner before it ends
        self._learner.wait()

    def expect(self, position: int) -> None:
        """Compute the features of a line in a thread, so that labels after a stroke are ready sooner."""
        self._to_warm = position
        self._warmer.request()

    def _warm(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # reported when a stroke needs it
            if self._to_warm is not None and self._to_warm in self.shown().labels.stores:
                self.job.describe_line(self._to_warm)

    def _spread(self) -> None:
        """Show the labels of the corrected line with the new strokes, before the mapper learns from the strokes."""
        position = self.correcting
        try:
            if position is not None and position in self.shown().labels.stores:
                self._read_again(position)
            self._corrected = position if self.job.learns_at_once(self.job.plan) else None
        except Exception as error:
            self._give_up(error)
        self._learner.request()

    def _learn(self) -> None:
        """Update the mapper with all strokes, then label the corrected line and the stale lines near it again."""
        with self._turn:
            position, self._learning = self.correcting, self._n_followed
        if position is None:
            return
        try:
            self._pause(self._followed_at + SETTLE - time.monotonic())  # `_spread` used a part of this time
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
        """End the correction, and show the error."""
        self.correcting = None
        self.work.say(str(error), wrong=True)

    def following(self) -> list[int]:
        """Return the positions of stale lines near a corrected line that will be labelled again, nearest first."""
        at = self._corrected
        if at is None or not (self._learner.busy or self.correcting is not None):
            return []
        return sorted(self.shown().stale - {self.correcting}, key=lambda line: abs(line - at))[:FOLLOW]

    def _label_near(self, plan: Plan) -> None:
        """Label the stale lines near a corrected line again."""
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
        """Label the line at a position; stop if a newer stroke arrives."""
        self.job.label_lines(plan, [self.survey.lines[position]], workers=1, progress=self._unless_newer)

    def _pause(self, seconds: float) -> None:
        """Wait for a number of seconds; stop if a newer stroke arrives."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._unless_newer()
            time.sleep(0.02)

    def _unless_newer(self, *_: object) -> None:
        """Raise `Newer` if a newer stroke has arrived or the session closes."""
        if self._learning != self._n_followed or self._closing:
            raise Newer

    def _read_again(self, position: int) -> None:
        """Read the labels of a line again, from its votes and strokes, and show them."""
        found = self.shown()
        for limit in {0.0, float(found.labels.limit)}:
            self._read_section(found, position, limit)
        self._n_read += 1
        self.work.tell("labels")

    # ---- places to check next ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Find the places to check next in a thread, if lines were labelled since the last search."""
        if self.job.labels_written() != self._looked:
            self._finder.request()

    def _look(self) -> None:
        if self.work.busy or self.correcting is not None:
            return  # requested again when the work is done
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
        """Raise `Newer` if a correction is in progress or the session closes.

        The search for places starts again after the correction.
        """
        if self.correcting is not None or self._closing:
            raise Newer

    def visit(self, place: Place) -> None:
        """Record that the interpreter visited a place; if all suggested places were visited, search for new places."""
        self.visited.append(place)
        if all(one.place in self.visited for one in self.least_sure):
            self._finder.request()
