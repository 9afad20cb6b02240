"""The labels of a session: a quick draft, the labels that the job keeps line by line, and what is shown of them."""

import contextlib
import copy
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop.app.pictures import MOST_PIXELS, crop
from outcrop.app.places import places
from outcrop.app.work import Latest
from outcrop.job import labelling as stages
from outcrop.job import tables
from outcrop.job.strokes import section_of
from outcrop.labels import decide, line_votes
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.parallel import checked, n_cores, one_blas_thread
from outcrop.patches.grid import DIRECTIONS

DRAFT_PATCHES = 20  # per class, for labels to look at while the full fit runs
MOST_LINES = 20  # of labels that are read before a section across them is shown; the others follow
FOLLOW = 20  # labelled lines next to a corrected one that are labelled again behind it
SETTLE, QUIET = 0.25, 2.0  # seconds without a stroke before the line is learnt from, and before other lines follow
KEPT = 4  # sections of labels in memory
SEEN, VANISHED = 0.005, 0.1  # a class of at least this share is said to vanish where less than that part of it is left
TAKEN, OF_LINE = 0.2, 0.01  # part of a class, and of the line, from which it is said what unpainted samples lost
BROKEN_OFF = "labelling-survey"  # what is kept in the view while the survey is labelled


class Newer(Exception):
    """A newer stroke makes the work in hand useless."""


class Draft(NamedTuple):
    """Labels of one line that are on their way."""

    line: float
    label: np.ndarray
    confidence: np.ndarray


class Before(NamedTuple):
    """Labels of a line as they were before the last correction of it."""

    position: int
    codes: np.ndarray
    number: int  # of the correction
    fitted: bool  # whether the correction is finished: the next stroke begins another one


class Shown(NamedTuple):
    """Labels as they can be read now."""

    state: Any
    written: int  # bytes of the journal of votes
    labels: Any  # of `outcrop.job.votes`
    stale: set
    names: list  # of the codes from 1 on


class Labelling:
    """Labels of the survey, as the job keeps them.

    Parameters
    ----------
    search : Search
    truth : DataArray, optional
        Expert labels to compare with.
    view : View, optional
        Remembers that the survey is being labelled.

    Attributes
    ----------
    correcting : int or None
        Position of the line that is being brought up to the strokes on it.
    changed : float or None
        Share of the line that the last correction gave another label.
    vanished : list of (str, float, float)
        Classes that the last correction nearly took from the line, with their shares before and after.
    vanished_near : list of (int, str, float, float)
        The same of the lines that followed it, with the number of the line first.
    taken : list of (str, float, float)
        Classes of which the last correction took a large part where nothing is painted: that part, and its share of the
        line.
    draft : Draft or None
        Shown until the labels are there.
    least_sure : list of dict
        Places to look at next; see `places`.
    visited : list of (inline, crossline, time)
        Those of them that were looked at.
    """

    def __init__(self, search, truth=None, view=None):
        self.search, self.truth, self.view = search, truth, view
        self.job, self.survey, self.work = search.job, search.survey, search.work
        self.changed: float | None = None
        self.vanished: list = []
        self.vanished_near: list = []
        self.taken: list = []
        self.correcting: int | None = None
        self._before: Before | None = None
        self._spreader, self._learner = Latest(self._spread), Latest(self._learn)
        self._warmer = Latest(self._warm)
        self._to_warm: int | None = None
        self._corrected: int | None = None  # position of the line that strokes were followed on last, where they update
        self._followed_at = 0.0  # when the last of them was
        self._n_followed = self._learning = 0  # times that a line was to follow strokes, and the one it learns from
        self._n_read = 0  # sections that were read again after a stroke
        self._reading, self._turn = threading.Lock(), threading.Lock()
        self.draft: Draft | None = None
        self.least_sure: list = []
        self.visited: list = []
        self._shown: Shown | None = None
        self._scores: tuple = (None, None)
        self._shares: tuple = (None, {})
        self._sections: dict = {}  # (position, limit) -> what was shown and the labels read last
        self._looked = -1  # bytes of the journal when the least sure places were looked for
        self._latest = Latest(self._look)
        self._all_lines: dict = {}  # direction -> key of a section across the lines, and the labels of all of them
        self._wanted: dict = {}  # direction -> key of the one asked for last
        self._closing = False
        self._reader = Latest(self._read_all)

    def close(self):
        """Wait for what looks at the labels."""
        self._closing = True
        self._spreader.wait()
        self._warmer.wait()
        self._learner.wait()
        self._latest.wait()
        self._reader.wait()

    # ---- making -----------------------------------------------------------------------------------------------------

    def label(self, lines=None):
        """Label some lines, by their numbers, or the whole survey."""
        work = stages.Labelling(self.job)
        if not work.options["mapper"]:
            self._check()
        return self.work.start("labelling", self._label, work, lines)

    def _check(self):
        """Refuse what cannot be labelled yet, and say what to do first."""
        asked = tables.request(self.job.state)["exemplars"]
        if not asked or not self.job.indexed():
            raise ValueError("Nothing is retrieved yet; find similar patches first.")
        if len(asked) < 2:
            raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")

    def _label(self, task, work, lines):
        """Label as the decisions were when it began: what is decided meanwhile makes these labels stale, not wrong."""
        position = None if lines is None else self._position(lines[0])
        if position is None:
            self._keep_broken_off(True)
        else:
            self.begin_correction(position)
        try:
            with one_blas_thread():  # two BLAS threads are slower than one where something else runs
                if lines is not None and not work.fitted():
                    task.stage("fitting a quick draft")
                    self._make_draft(work, lines[0], task)
                work.label(lines, workers=max(1, n_cores() - 1), progress=task.stage)  # one core answers clicks
            if position is None:
                self._keep_broken_off(False)
            else:
                self._end_correction(position)
        finally:
            self.draft = None
            self.work.tell("labels")
            self.look()

    def _keep_broken_off(self, running):
        """Remember that the survey is being labelled, in case that the server ends before it is done."""
        if self.view is not None:
            self.view.keep(**{BROKEN_OFF: running})

    def broken_off(self):
        """A sentence where the survey was being labelled when the server ended, else an empty one."""
        if self.view is None or not self.view.get(BROKEN_OFF, False):
            return ""
        total, labelled, stale = self.counts()
        done = labelled - stale
        if done == total:
            return ""
        return (
            f"Labelling the survey was broken off: {done} of {total} lines labelled. Label the survey to go on there."
        )

    def begin_correction(self, position, shown=None):
        """Remember the labels of a line, the present ones or those `shown` before, unless a correction is under way."""
        before, found = self._before, shown or self.shown()
        codes = self._section(position, found=found)[0] if position in found.labels.stores else None
        if codes is not None and (before is None or before.fitted or before.position != position):
            self._before = Before(position, codes, 1 + (before.number if before else 0), fitted=False)

    def corrected(self, position):
        """Whether the last correction was one of that line."""
        return self._before is not None and self._before.position == position

    def _end_correction(self, position):
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

    def _vanished(self, before, after):
        """Classes that are nearly gone from a line, with their shares before and after."""
        then, now = (class_shares(codes, self.shown().names) for codes in (before, after))
        return [
            (name, share, now[name]) for name, share in then.items() if share >= SEEN and now[name] < VANISHED * share
        ]

    def _taken(self, before, after, position):
        """Classes that lost much where nothing is painted: the part of the class, and its share of the line."""
        painted = self.job.painted().get((self.survey.along, position), np.zeros(before.shape, np.uint8))
        elsewhere = (before != after) & (painted == 0)
        gone = {name for name, *_ in self.vanished}
        found = []
        for code, name in enumerate(self.shown().names, 1):
            was = before == code
            lost = np.count_nonzero(was & elsewhere)
            if name not in gone and lost >= TAKEN * np.count_nonzero(was) and lost > OF_LINE * before.size:
                found.append((name, lost / np.count_nonzero(was), lost / before.size))
        return found

    # ---- strokes ----------------------------------------------------------------------------------------------------

    def follow(self, position):
        """Bring a line up to the strokes on it: first what they spread to, then what the mapper learns from them.

        Returns at once; until it is done the line keeps the labels that are in view. Of several strokes in a row only
        the last one is learnt from.
        """
        with self._turn:
            self.correcting = position
            self._n_followed += 1
            self._followed_at = time.monotonic()
        self._spreader.ask()

    def wait(self):
        """Wait until strokes are spread and learnt from."""
        self._spreader.wait()  # which asks the other one before it ends
        self._learner.wait()

    def expect(self, position):
        """Get ready for strokes on a line: what they spread along is described in a thread."""
        self._to_warm = position
        self._warmer.ask()

    def _warm(self):
        found = self.shown().labels
        with contextlib.suppress(ValueError, OSError):  # said when a stroke needs it
            if self._to_warm in found.stores:
                found.corrections.nodes(self._to_warm)

    def _spread(self):
        """Labels of the line as the strokes change them by themselves."""
        position = self.correcting
        try:
            if position is not None and position in self.shown().labels.stores:
                self._read_again(position)
            self._corrected = position if self._updates(stages.Labelling(self.job)) else None
        except Exception as error:
            self.correcting = None
            self.work.say(str(error), wrong=True)
        self._learner.ask()

    def _learn(self):
        """Update the mapper by all strokes, and label the line anew; the labelled lines near it follow."""
        with self._turn:
            position, self._learning = self.correcting, self._n_followed
        if position is None:
            return
        try:
            self._pause(self._followed_at + SETTLE - time.monotonic())  # spreading took some of it
            work = stages.Labelling(self.job)
            updated = self._updates(work)
            with one_blas_thread(), checked(self._unless_newer):
                if updated:
                    work.label([self.survey.lines[position]], workers=1, progress=self._unless_newer)
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
                    self._label_near(work)
            self._corrected = None
        except Newer:
            return
        except Exception as error:
            self.correcting = None
            self.work.say(str(error), wrong=True)
        self.work.tell("labels")
        self.look()

    def _updates(self, work):
        """Whether the mapper learns from strokes without being fitted again."""
        return not work.options["mapper"] and work.updates and work.fitted()

    def following(self):
        """Positions of the stale lines near a corrected one that are about to be labelled again, the nearest first."""
        at = self._corrected
        if at is None or not (self._learner.busy or self.correcting is not None):
            return []
        return sorted(self.shown().stale - {self.correcting}, key=lambda line: abs(line - at))[:FOLLOW]

    def _label_near(self, work):
        """Label the lines near a corrected one again that are stale by now."""
        for line in self.following():
            self._unless_newer()
            number, found = self.survey.lines[line], self.shown()
            stale = line in found.labels.stores
            before = found.labels.section(line, painted=False)[0] if stale else None
            work.label([number], workers=1, progress=self._unless_newer)
            after = self.codes(number)
            if before is not None and after is not None:
                self.vanished_near += [(int(number), *one) for one in self._vanished(before, after)]
            self.work.tell("labels")

    def _pause(self, seconds):
        """Let the page answer first."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._unless_newer()
            time.sleep(0.02)

    def _unless_newer(self, *_):
        """Stop where there is a newer stroke, or nobody looks any more."""
        if self._learning != self._n_followed or self._closing:
            raise Newer

    def _read_again(self, position):
        """Read the labels of a line as they are by now, and show them."""
        found = self.shown()
        for limit in {0.0, float(found.labels.limit)}:
            self._read_section(found, position, limit)
        self._n_read += 1
        self.work.tell("labels")

    # ---- drafts -----------------------------------------------------------------------------------------------------

    def _make_draft(self, work, line, task):
        """Labels of a line by a mapper fitted on few patches: seconds instead of a minute, and never stored."""
        mapper = work.fit(draft=DRAFT_PATCHES, progress=lambda _, done, total: task.progress(done, total))
        options = {"device": getattr(mapper, "torch_device", None)}
        for _, votes in line_votes(self.job.volume, work.grid(), mapper, [line], **options):
            label, sure = decide(votes)
            self.draft = Draft(line, self._coded(label, mapper.classes_, work.state), sure)
        self.work.tell("labels")

    def _coded(self, label, classes, state):
        """Labels of a mapper in the codes of the job."""
        codes, table = self.job.classes, np.zeros(256, np.uint8)
        table[UNCERTAIN] = UNCERTAIN
        names = [state.classes.get(str(first), {"name": str(first)})["name"] for first in classes]
        table[1 : 1 + len(names)] = [codes.get(name, 0) for name in names]
        return table[label]

    # ---- showing ----------------------------------------------------------------------------------------------------

    def written(self):
        """Bytes of the lists of finished lines: they grow with every line that anybody labels."""
        return sum(path.stat().st_size for path in (self.job.stages.root / "votes").glob("*/votes.done"))

    def shown(self):
        """Labels of the survey as they can be read now."""
        with self._reading:
            found, state, written = self._shown, self.job.state, self.written()
            if found is None or found.state is not state or found.written != written:
                work = stages.Labelling(self.job)
                labels, stale = work.labels()
                found = self._shown = Shown(work.state, written, labels, stale, work.class_names(labels))
            return found

    def counts(self):
        """How many lines there are, are labelled, and are stale."""
        found = self.shown()
        return len(self.survey.lines), len(found.labels.stores), len(found.stale - {self.correcting})

    def done(self):
        """Positions of the labelled lines."""
        return set(self.shown().labels.stores)

    def is_stale(self, position):
        """Whether a line has labels of older decisions."""
        return position in self.shown().stale and position != self.correcting

    def waits(self, position):
        """Whether strokes on a line are not learnt from before it is labelled again, for the mapper is not fitted."""
        painted = any(section_of(one, self.job.axes) == (self.survey.along, position) for one in self.job.state.strokes)
        return painted and self.is_stale(position) and not self._updates(stages.Labelling(self.job))

    def codes(self, line):
        """Label codes of a line, None where it is not labelled."""
        position = self._position(line)
        return self._section(position)[0] if position in self.shown().labels.stores else None

    def _section(self, position, limit=None, found=None):
        """Labels and confidence of a line with the limit that is decided, or another; the last ones are kept.

        Of a line that is being corrected these are the ones in view: the new ones are read behind.
        """
        found = found or self.shown()
        limit = float(found.labels.limit if limit is None else limit)
        kept = self._sections.get((position, limit), (None, None))
        if kept[1] is not None and (kept[0] is found or position == self.correcting):
            return kept[1]
        return self._read_section(found, position, limit)

    def _read_section(self, found, position, limit):
        both = found.labels._replace(limit=limit).section(position)
        others = [item for item in self._sections.items() if item[0] != (position, limit)]
        self._sections = dict([*others[1 - KEPT :], ((position, limit), (found, both))])
        return both

    def shares(self, line):
        """Share of every class in the labels of a line, empty where it has none."""
        found = self.shown()
        position = None if line is None else self._position(line)
        if position not in found.labels.stores:
            return {}
        key = (position, self.source(self.survey.along, position), found.names, found.labels.limit)
        if self._shares[0] != key:
            self._shares = (key, class_shares(self.codes(line), found.names))
        return self._shares[1]

    @property
    def limit(self):
        """Confidence below which labels count as uncertain, 0 to 1."""
        return float(self.shown().labels.limit)

    def _position(self, line):
        return int(np.flatnonzero(self.survey.lines == line)[0])

    def source(self, direction, position):
        """What the labels of a section come from: equal where they show the same."""
        if self._draft_on(direction, position):
            return ("draft", id(self.draft))
        found = self.shown()
        if direction == self.survey.along:
            store = found.labels.stores.get(position)
            return (
                store and store.folder.name,
                self.is_stale(position),
                position in self.following(),
                id(found.state) if position != self.correcting else None,
                self._n_read,
                self._before and self._before[2:],
            )
        key = (direction, position, found.written, id(found.state))
        return (key, self._all_lines.get(direction, (None,))[0] == key)

    def _draft_on(self, direction, position):
        same = self.draft and direction == self.survey.along and self.survey.lines[position] == self.draft.line
        return bool(same)

    def pictures(self, direction, position, window=None, *, most=MOST_PIXELS):
        """Pictures of label codes and of confidence, and the names of the codes; None where nothing is labelled.

        A limit of confidence is not applied: the browser does that.
        """
        draft, found, frame = self.draft, self.shown(), self.survey.sections.frame(direction)
        if draft is not None and self._draft_on(direction, position):
            both = [draft.label.T, draft.confidence.T]
        elif direction == self.survey.along:
            if position not in found.labels.stores:
                return None
            both = [values.T for values in self._section(position, limit=0.0)]
        elif found.labels.stores:
            both = self._across(found, direction, position)
        else:
            return None
        return (*(crop(values, frame, window, mean=False, most=most) for values in both), found.names)

    def before(self, direction, position, window=None):
        """Label codes of a section before the last correction of it, a single 0 where there was none."""
        found = self._before
        if found is None or (direction, position) != (self.survey.along, found.position):
            return np.zeros((1, 1), np.uint8)
        return crop(found.codes.T, self.survey.sections.frame(direction), window, mean=False).codes

    def _across(self, found, direction, position):
        """Labels and confidence of a section across the lines, rows downwards.

        At first some of the labelled lines stand for the others, without what strokes on other lines spread to; all of
        them are read behind.
        """
        key = (direction, position, found.written, id(found.state))
        kept = self._all_lines.get(direction, (None, None))
        if kept[0] == key:
            return kept[1]
        corrections = found.labels.corrections
        if len(found.labels.stores) > MOST_LINES or corrections.lines:
            self._wanted[direction] = key
            self._reader.ask()
        untouched = copy.copy(corrections)
        untouched.lines = set()
        return self._read_across(found.labels._replace(corrections=untouched), direction, position, MOST_LINES)

    def _read_all(self):
        """Read all lines of the sections across them that were asked for last."""
        for direction, key in list(self._wanted.items()):
            found = self.shown()
            if key[2:] != (found.written, id(found.state)) or self._all_lines.get(direction, (None,))[0] == key:
                continue
            with contextlib.suppress(ValueError, OSError):  # the coarse picture stays
                both = self._read_across(found.labels, key[0], key[1], len(found.labels.stores))
                self._all_lines[direction] = (key, both)
                self.work.tell("labels")

    def _read_across(self, labels, direction, position, most):
        done = np.array(sorted(labels.stores))
        some = done[:: -(-len(done) // most)]
        other = 1 - self.survey.along
        part = {"traces": [position]} if direction == other else {"samples": [position]}
        labels = labels._replace(limit=0.0)
        read = [[one.ravel() for one in labels.section(line, **part)] for line in some.tolist()]
        nearest = np.clip(np.searchsorted(some, done, side="right") - 1, 0, None)
        shape = self.survey.volume.shape
        both = []
        for which in range(2):
            values = np.zeros((shape[self.survey.along], shape[2 if direction == other else other]), np.uint8)
            values[done] = np.stack([one[which] for one in read])[nearest]
            lines_down = direction == 2 and self.survey.along == 0  # a time slice has inlines downwards
            both.append(values if lines_down else values.T)
        return both

    def stale_parts(self, direction, position):
        """Left, right, top and bottom of the parts of a section whose labels are stale, in coordinates."""
        stale, along = self.shown().stale, self.survey.along
        across, down = self.survey.sections.frame(direction)
        whole = [across.low, across.high, down.low, down.high]
        if direction == along:
            return [whole] if self.is_stale(position) and not self._draft_on(direction, position) else []
        axis, parts = self.survey.axes[along], []
        for first, last in runs_of(sorted(stale)):
            ends = sorted(axis.start + (at * axis.step) for at in (first - 0.5, last + 0.5))
            parts.append([*whole[:2], *ends] if direction == 2 and along == 0 else [*ends, *whole[2:]])
        return parts

    def truth_picture(self, direction, position, window=None):
        """Picture of the expert's codes and their names, None where there is no truth for this section."""
        if self.truth is None:
            return None
        name, label = self.survey.volume.dims[direction], self.survey.axes[direction].labels[position]
        if label not in self.truth[name].values:
            return None
        codes = self.truth.sel({name: label}).values.astype(np.uint8)
        codes = codes if direction == 2 else codes.T
        return crop(codes, self.survey.sections.frame(direction), window, mean=False), list(self.truth.attrs["classes"])

    def scores(self, line):
        """Pixel scores of a labelled line against the truth, None where one of them is missing."""
        name, found = DIRECTIONS[self.survey.along], self.shown()
        if self.truth is None or line not in self.truth[name].values:
            return None
        key = (line, self.source(self.survey.along, self._position(line)), found.names)
        if self._scores[0] != key:
            self._scores = (key, self._score(line, found.names))
        return self._scores[1]

    def _score(self, line, names):
        codes, volume, along = self.codes(line), self.survey.volume, self.survey.along
        if codes is None:
            return None
        coords = {name: volume[name].values for name in volume.dims} | {DIRECTIONS[along]: [line]}
        labels = xr.DataArray(np.expand_dims(codes, along), coords, list(volume.dims), attrs={"classes": names})
        return oc.pixel_scores(labels, self.truth.sel({DIRECTIONS[along]: [line]}).astype("uint8"))

    # ---- where to look next -----------------------------------------------------------------------------------------

    def look(self):
        """Look for the least sure places, in a thread, where lines were labelled since."""
        if self.written() != self._looked:
            self._latest.ask()

    def _look(self):
        if self.work.busy or self.correcting is not None:
            return  # asked again when the work is done
        try:
            written = self.written()
            self.least_sure = places(self, self.visited, check=self._unless_correcting)
            self._looked = written
        except Newer:
            return
        except (ValueError, OSError) as error:
            self.work.say(str(error), wrong=True)
        self.work.tell("places")

    def _unless_correcting(self):
        """Stop where a stroke is to be followed: the places are looked for again behind it."""
        if self.correcting is not None or self._closing:
            raise Newer

    def visit(self, place):
        """Remember that a place was looked at; when all were, look for others."""
        self.visited.append(place)
        if all(one["place"] in self.visited for one in self.least_sure):
            self._latest.ask()


def class_shares(codes, names):
    """Share of every class in label codes, of those samples that have one.

    Examples
    --------
    >>> class_shares(np.array([1, 1, 2, 255, 0]), ["fault", "other"])
    {'fault': 0.5, 'other': 0.25}
    """
    counts = np.bincount(codes.ravel(), minlength=256)
    total = max(1, int(counts[1:].sum()))
    return {name: float(counts[code] / total) for code, name in enumerate(names, 1)}


def runs_of(numbers):
    """First and last of every run of consecutive numbers.

    Examples
    --------
    >>> runs_of([1, 2, 3, 7, 9, 10])
    [(1, 3), (7, 7), (9, 10)]
    """
    found: list = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
