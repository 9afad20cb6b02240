"""What is shown of the labels of a session: sections, pictures, shares of classes, scores against a truth."""

import contextlib
import copy
import threading
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop.app.pictures import MOST_PIXELS, crop
from outcrop.app.work import Latest
from outcrop.job import labelling as stages
from outcrop.job.strokes import section_of
from outcrop.patches.grid import DIRECTIONS

MOST_LINES = 20  # of labels that are read before a section across them is shown; the others follow
KEPT = 4  # sections of labels in memory


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


class ShownLabels:
    """Labels of the survey as they can be read now, and pictures of them.

    Parameters
    ----------
    job : Job
    survey : Survey
    work : Work
    truth : DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    correcting : int or None
        Position of the line that is being brought up to the strokes on it.
    draft : Draft or None
        Shown until the labels are ready.
    """

    def __init__(self, job, survey, work, truth=None):
        self.job, self.survey, self.work, self.truth = job, survey, work, truth
        self.draft: Draft | None = None
        self._shown: Shown | None = None
        self._scores: tuple = (None, None)
        self._shares: tuple = (None, {})
        self._sections: dict = {}  # (position, limit) -> what was shown and the labels read last
        self._all_lines: dict = {}  # direction -> key of a section across the lines, and the labels of all of them
        self._wanted: dict = {}  # direction -> key of the one asked for last
        self._reader = Latest(self._read_all)
        self.correcting: int | None = None
        self._before: Before | None = None
        self._n_read = 0  # sections that were read again after a stroke
        self._reading = threading.Lock()

    def following(self):
        """Positions of stale lines that are about to be labelled again."""
        return []

    def _updates(self, work):
        """Whether the mapper learns from strokes without being fitted again."""
        return not work.options["mapper"] and work.updates and work.fitted()

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
            self._reader.request()
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
