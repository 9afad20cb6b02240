"""State and mean confidence of every line of a survey, and the line to correct next."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from outcrop.app.labelling import PageLabels
from outcrop.app.shown_labels import Shown
from outcrop.app.work import Latest
from outcrop.labels.vote_store import VoteStore

STATES = ("not labelled", "labelled", "stale", "confirmed")
UNLABELLED, LABELLED, STALE, CONFIRMED = range(4)
UNKNOWN = 255  # value of lines without a known confidence, in place of a percentage
AT_ONCE = 20  # if more lines of a store have changed, all counts of the store are read together


class Lines:
    """State (such as labelled or stale) and mean confidence of every line of the survey.

    Parameters
    ----------
    labelling : PageLabels
    tell : callable
        Called with "lines" when a confidence or the line to correct next has changed.

    Attributes
    ----------
    next : dict or None
        The line to correct next: ``line`` (its number) and ``place`` [inline, crossline, time], as
        `outcrop.job.advice.next_line` returns them; None if no line to correct is known.
    """

    def __init__(self, labelling: PageLabels, tell: Callable[[str], object]) -> None:
        self.labelling, self.job, self.tell = labelling, labelling.job, tell
        self.next: dict[str, Any] | None = None
        self._sure: dict[tuple[str, int], float] = {}  # key of the votes and position -> mean confidence, 0 to 1
        self._looked: Shown | None = None  # labels that were read last
        self._advised: Any = None  # labels in which `next` was found
        self._looker = Latest(self._look)

    def close(self) -> None:
        """Wait until the thread that reads the lines has ended."""
        self._looker.wait()

    def states(self) -> npt.NDArray[np.uint8]:
        """Return an array with the state of every line; a state is an index into `STATES`."""
        found, correcting = self.labelling.shown(), self.labelling.correcting
        states = np.full(len(self.labelling.survey.lines), UNLABELLED, np.uint8)
        states[list(found.labels.stores)] = LABELLED
        states[list(found.stale - {correcting})] = STALE
        states[list(found.labels.confirmed.whole)] = CONFIRMED
        return states

    def percent_sure(self) -> npt.NDArray[np.uint8]:
        """Return the mean confidence of every line in percent; `UNKNOWN` if a line is not labelled or not read yet."""
        labels = self.labelling.shown().labels
        percent = np.full(len(self.labelling.survey.lines), UNKNOWN, np.uint8)
        for line, store in labels.stores.items():
            if line in labels.confirmed.whole:
                percent[line] = 100
            elif (key := (store.folder.name, line)) in self._sure:
                percent[line] = round(100 * self._sure[key])
        return percent

    def look(self) -> None:
        """Read the confidence of the lines that changed, and find the line to correct next, in a thread."""
        if self.labelling.shown() is not self._looked or self._advice_is_old():
            self._looker.request()

    def _advice_is_old(self) -> bool:
        return not self._waits() and self._advised is not self.labelling.shown()

    def _waits(self) -> bool:
        """Return whether labels are about to change, because a task or a correction is in progress."""
        return self.labelling.work.busy or self.labelling.correcting is not None

    def _look(self) -> None:
        found = self.labelling.shown()
        with contextlib.suppress(ValueError, OSError):  # reported when the line is shown
            self._read(found)
        self._looked = found
        if self._advice_is_old():
            self._advised = found
            with contextlib.suppress(ValueError, OSError):
                self.next = self.job.next_line(found.plan)
        self.tell("lines")

    def _read(self, found: Shown) -> None:
        """Read the mean confidences of the lines that were labelled since the last reading."""
        left: dict[VoteStore, list[int]] = {}
        for line, store in found.labels.stores.items():
            if isinstance(store, VoteStore) and (store.folder.name, line) not in self._sure:
                left.setdefault(store, []).append(line)
        for store, lines in left.items():
            rows = store.counts[:][lines] if len(lines) > AT_ONCE else [store.counts[line] for line in lines]
            counts = np.array(rows, np.float64)
            counts[:, 0] = 0  # not labelled
            means = counts @ np.arange(256) / 255 / np.maximum(counts.sum(axis=1), 1)
            self._sure |= {(store.folder.name, line): mean for line, mean in zip(lines, means.tolist(), strict=True)}
