"""Labels for display: sections, pictures, shares of classes, and scores by comparison with expert labels."""

import contextlib
import threading
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop.app.page_job import PageJob
from outcrop.app.pictures import MOST_PIXELS, Codes, Picture, Size, Window, crop
from outcrop.app.survey import Survey
from outcrop.app.work import Last, Latest, Work
from outcrop.job.confirming import confirmed_numbers
from outcrop.job.plan import Plan
from outcrop.job.scoring import matched_names
from outcrop.patches.grid import DIRECTIONS

MOST_LINES = 20  # lines read before a section across them is shown; a thread reads the others
KEPT = 4  # number of sections whose labels are in memory
Both = tuple[Codes, Codes]  # label codes and confidence


class Before(NamedTuple):
    """Labels of a line before its last correction."""

    position: int
    codes: Codes
    number: int  # number of the correction
    fitted: bool  # whether the correction is finished, so that the next stroke begins another correction


class Shown(NamedTuple):
    """Labels of the survey at one moment, with the stale lines and the names of the classes."""

    plan: Plan
    written: int  # size of the files that list finished lines
    labels: Any  # the `Labels` of `outcrop.job.votes`, which read labels from stored votes
    stale: set[int]
    names: list[str]  # of the codes from 1 on


class ShownLabels:
    """The present labels of the survey, and pictures of them.

    Parameters
    ----------
    job : PageJob
    survey : Survey
    work : Work
    truth : DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    correcting : int or None
        Position of the line that is being updated after strokes.
    """

    def __init__(self, job: PageJob, survey: Survey, work: Work, truth: xr.DataArray | None = None) -> None:
        self.job, self.survey, self.work, self.truth = job, survey, work, truth
        self.correcting: int | None = None
        self._before: Before | None = None
        self._shown, self._scores, self._shares = Last(), Last(), Last()
        self._sections: dict[tuple[int, float], tuple[Shown, Both]] = {}  # (position, limit) -> labels read last
        self._all_lines: dict[int, tuple[Any, list[Codes]]] = {}  # direction -> key and labels of a section
        self._wanted: dict[int, tuple[Any, ...]] = {}  # direction -> key of the section requested last
        self._reader = Latest(self._read_all)
        self._n_read = 0  # number of sections that were read again after a stroke
        self._reading = threading.Lock()

    def following(self) -> list[int]:
        """Return the positions of stale lines that are about to be labelled again: here none; see `PageLabels`."""
        return []

    def shown(self) -> Shown:
        """Return the present labels of the survey, with the positions of stale lines and the names of the classes."""
        plan, written = self.job.plan, self.job.labels_written()
        with self._reading:
            return self._shown.get((plan, written), lambda: Shown(plan, written, *self.job.read_labels(plan)))

    def counts(self) -> tuple[int, int, int]:
        """Return (number of lines, number of labelled lines, number of stale lines).

        A line that is being corrected does not count as stale.
        """
        found = self.shown()
        return len(self.survey.lines), len(found.labels.stores), len(found.stale - {self.correcting})

    def done(self) -> set[int]:
        """Return the positions of the labelled lines."""
        return set(self.shown().labels.stores)

    def is_stale(self, position: int) -> bool:
        """Return whether the labels of the line at a position are stale and the line is not being corrected."""
        return position in self.shown().stale and position != self.correcting

    def waits(self, position: int) -> bool:
        """Return whether a line has strokes from which the mapper learns only when the line is labelled again."""
        here = (self.survey.along, position)
        painted = any(self.job.section_of(one) == here for one in self.job.strokes)
        return painted and self.is_stale(position) and not self.job.learns_at_once(self.job.plan)

    def codes(self, line: float) -> Codes | None:
        """Return the label codes of line number `line`, shape (n_traces, n_samples); None if it is not labelled."""
        position = self.survey.line_at(line)
        return self._section(position)[0] if position in self.shown().labels.stores else None

    def _section(self, position: int, limit: float | None = None, found: Shown | None = None) -> Both:
        """Return (label codes, confidence) of the line at a position, from a cache if possible.

        `limit` replaces the minimum confidence of the job, and `found` replaces the present labels. While the line is
        being corrected, the labels in view are returned; a thread reads the new labels.
        """
        found = found or self.shown()
        limit = float(found.labels.limit if limit is None else limit)
        kept = self._sections.get((position, limit))
        if kept is not None and (kept[0] is found or position == self.correcting):
            return kept[1]
        return self._read_section(found, position, limit)

    def _read_section(self, found: Shown, position: int, limit: float) -> Both:
        both: Both = found.labels._replace(limit=limit).section(position)
        others = [item for item in self._sections.items() if item[0] != (position, limit)]
        self._sections = dict([*others[1 - KEPT :], ((position, limit), (found, both))])
        return both

    def shares(self, line: float) -> dict[str, float]:
        """Return a dict: class -> its share of the labels of line number `line`; {} if the line is not labelled."""
        found, position = self.shown(), self.survey.line_at(line)
        if position not in found.labels.stores:
            return {}
        key = (self.source(self.survey.along, position), position, found.names, found.labels.limit)
        return self._shares.get(key, lambda: class_shares(self._section(position)[0], found.names))

    @property
    def limit(self) -> float:
        """Minimum confidence, 0 to 1: samples with less confidence count as uncertain."""
        return float(self.shown().labels.limit)

    def source(self, direction: int, position: int) -> tuple[Any, ...]:
        """Return a tuple that identifies the labels of a section; an equal tuple means an unchanged picture."""
        found = self.shown()
        if direction == self.survey.along:
            store = found.labels.stores.get(position)
            return (
                store and store.folder.name, self.is_stale(position), position in self.following(),
                found.plan if position != self.correcting else None, self._n_read, self._before and self._before[2:],
            )  # fmt: skip
        key = (direction, position, found.written, found.plan)
        return (key, self._all_lines.get(direction, (None,))[0] == key)

    def pictures(
        self, direction: int, position: int, window: Window | None = None, *, most: Size = MOST_PIXELS
    ) -> tuple[Picture, Picture, list[str]] | None:
        """Return (picture of label codes, picture of confidence, class names); None if the section has no labels.

        The minimum confidence is not applied here; the browser applies it.
        """
        found, frame = self.shown(), self.survey.sections.frame(direction)
        if direction == self.survey.along and position in found.labels.stores:
            both = [values.T for values in self._section(position, limit=0.0)]
        elif direction != self.survey.along and found.labels.stores:
            both = self._across(found, direction, position)
        else:
            return None
        label, sure = (crop(values, frame, window, mean=False, most=most) for values in both)
        return label, sure, found.names

    def before(self, direction: int, position: int, window: Window | None = None) -> Codes:
        """Return the label codes of a section before its last correction; an array [[0]] if it was not corrected."""
        found = self._before
        if found is None or (direction, position) != (self.survey.along, found.position):
            return np.zeros((1, 1), np.uint8)
        return crop(found.codes.T, self.survey.sections.frame(direction), window, mean=False).codes

    def _across(self, found: Shown, direction: int, position: int) -> list[Codes]:
        """Return (label codes, confidence) of a section that crosses the labelled lines, such as a time slice.

        At first only some of the labelled lines are read; a thread then reads all of them.
        """
        key = (direction, position, found.written, found.plan)
        kept = self._all_lines.get(direction)
        if kept is not None and kept[0] == key:
            return kept[1]
        if len(found.labels.stores) > MOST_LINES:
            self._wanted[direction] = key
            self._reader.request()
        return self._read_across(found.labels, direction, position, MOST_LINES)

    def _read_all(self) -> None:
        """Show all labels of sections that cross the labelled lines: in each direction, the section requested last.

        `_across` read only some of the labelled lines for such a section; this method reads all of them.
        """
        for direction, key in list(self._wanted.items()):
            found = self.shown()
            if key[2:] != (found.written, found.plan) or self._all_lines.get(direction, (None,))[0] == key:
                continue
            with contextlib.suppress(ValueError, OSError):  # the coarse picture stays
                both = self._read_across(found.labels, key[0], key[1], len(found.labels.stores))
                self._all_lines[direction] = (key, both)
                self.work.tell("labels")

    def _read_across(self, labels: Any, direction: int, position: int, most: int) -> list[Codes]:
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

    def stale_parts(self, direction: int, position: int) -> list[list[float]]:
        """Return (left, right, top, bottom), in coordinates, of each part of a section that has stale labels."""
        stale, along = self.shown().stale, self.survey.along
        across, down = self.survey.sections.frame(direction)
        whole = [across.low, across.high, down.low, down.high]
        if direction == along:
            return [whole] if self.is_stale(position) else []
        axis, parts = self.survey.axes[along], []
        for first, last in runs_of(sorted(stale)):
            ends = axis.ends(first, last + 1)
            parts.append([*whole[:2], *ends] if direction == 2 and along == 0 else [*ends, *whole[2:]])
        return parts

    def confirmed_numbers(self, direction: int, *, whole: bool = False) -> list[float]:
        """Return the numbers of the confirmed lines of a direction; if `whole` is True, omit partly confirmed lines."""
        return [] if direction == 2 else confirmed_numbers(self.job, DIRECTIONS[direction], whole=whole)

    def confirmed_parts(self, direction: int, position: int) -> tuple[list[list[float]], str]:
        """Return (parts, notice): the confirmed parts of a section, and a text for the page or "".

        Each part is (left, right, top, bottom) in coordinates.
        """
        confirmed = self.shown().labels.confirmed
        across, down = self.survey.sections.frame(direction)
        if not confirmed.parts:
            return [], ""
        if direction == 2:
            whole = [across.low, across.high, down.low, down.high]
            parts = []
            for way, at in {place for place, _ in confirmed.parts}:
                ends = self.survey.axes[way].ends(at, at + 1)
                parts.append([*ends, *whole[2:]] if way == 1 else [*whole[:2], *ends])
            return parts, ""
        known = confirmed.section(direction, position) > 0
        traces = np.flatnonzero(known.any(axis=1)).tolist()
        parts = []
        for first, last in runs_of(traces):
            samples = np.flatnonzero(known[first : last + 1].any(axis=0))
            parts.append([*across.ends(first, last + 1), *down.ends(int(samples[0]), int(samples[-1]) + 1)])
        if (direction, position) not in {place for place, _ in confirmed.parts}:
            return parts, ""
        percent = 100 * float(known.mean())
        return parts, "✓ Confirmed" if percent > 99.5 else f"✓ Confirmed: {percent:.0f} % of this section"

    def truth_picture(
        self, direction: int, position: int, window: Window | None = None
    ) -> tuple[Picture, list[str]] | None:
        """Return (picture of the expert labels, class names of the codes); None if the section has no expert labels."""
        if self.truth is None:
            return None
        name, label = self.survey.volume.dims[direction], self.survey.axes[direction].labels[position]
        if label not in self.truth[name].values:
            return None
        codes = self.truth.sel({name: label}).values.astype(np.uint8)
        codes = codes if direction == 2 else codes.T
        names, _ = matched_names(self.truth.attrs["classes"], list(self.job.palette), "")
        return crop(codes, self.survey.sections.frame(direction), window, mean=False), names

    def scores(self, line: float) -> dict[str, Any] | None:
        """Return the scores of a line against the expert labels; None if the line lacks labels or expert labels."""
        name, found, truth = self.survey.line_name, self.shown(), self.truth
        if truth is None or line not in truth[name].values:
            return None
        key = (line, self.source(self.survey.along, self.survey.line_at(line)), found.names)
        return self._scores.get(key, lambda: self._score(truth.sel({name: [line]}), found.names))

    def _score(self, truth: xr.DataArray, names: list[str]) -> dict[str, Any] | None:
        """Return the scores of a line against its expert labels `truth`; None if the line has no labels."""
        name, volume = self.survey.line_name, self.survey.volume
        codes = self.codes(truth[name].item())
        if codes is None:
            return None
        coords = {dim: volume[dim].values for dim in volume.dims} | {name: truth[name].values}
        codes = np.expand_dims(codes, self.survey.along)
        labels = xr.DataArray(codes, coords, list(volume.dims), attrs={"classes": names})
        alike, _ = matched_names(truth.attrs["classes"], names, "")
        return oc.pixel_scores(labels, truth.astype("uint8").assign_attrs(classes=alike))


def class_shares(codes: Codes, names: list[str]) -> dict[str, float]:
    """Return a dict: class -> its share of the samples whose code is not 0; uncertain samples (255) are among these.

    `names` are the class names of the codes 1, 2, ...

    Examples
    --------
    >>> class_shares(np.array([1, 1, 2, 255, 0]), ["fault", "other"])
    {'fault': 0.5, 'other': 0.25}
    """
    counts = np.bincount(codes.ravel(), minlength=256)
    total = max(1, int(counts[1:].sum()))
    return {name: float(counts[code] / total) for code, name in enumerate(names, 1)}


def runs_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of every run of consecutive numbers.

    Examples
    --------
    >>> runs_of([1, 2, 3, 7, 9, 10])
    [(1, 3), (7, 7), (9, 10)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
