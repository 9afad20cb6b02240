"""The warnings of the command line, for display on the page; each panel shows the warnings about its subject."""

from typing import TYPE_CHECKING, Any

from outcrop.app.work import Latest
from outcrop.job import hints
from outcrop.job.scoring import matched_names, unmatched_classes
from outcrop.patches.grid import DIRECTIONS

if TYPE_CHECKING:
    from outcrop.app.session import Session

EXPERT = "the expert"


class PageAdvice:
    """Warnings about classes, sections, retrieved patches and expert labels; a warning is shown while its cause exists.

    Parameters
    ----------
    session : Session
        The open job with its tasks.
    """

    def __init__(self, session: "Session") -> None:
        self.session, self.job = session, session.job
        self._mapper: Any = None  # the mapper that was fitted last
        self._fitted: str | None = None  # key of this mapper: the digest of its inputs
        self._retrieved: tuple[str | None, list[str]] = (None, [])  # key of a search, and warnings about its patches
        self._failed: tuple[Any, ...] = ()
        self._latest = Latest(self._look)
        self._first_notes = [*session.job.volume.attrs.get("notes", ()), *session.job.notes]
        self._n_settled = len(session.job.notes)

    def close(self) -> None:
        """Wait until the thread that checks the mapper and the retrieved patches has ended."""
        self._latest.wait()

    def notes(self) -> list[str]:
        """Return the notes made when the job was opened, and the notes about the last decision."""
        return list(dict.fromkeys([*self._first_notes, *self.job.notes[self._n_settled :]]))

    def forget_notes(self) -> None:
        """Clear the notes about the last decision; called before the next decision is made."""
        self._n_settled = len(self.job.notes)

    def background(self) -> list[str]:
        """Return a list with one warning if the job needs a background class and has none, otherwise an empty list."""
        plan = self.job.plan
        if plan.background is not None or not plan.by_points or plan.mapper_key is None:
            return []
        mapper = self._known_mapper()
        taught = [name for name in plan.names.values() if name in taught_classes(self.session)]
        if mapper is not None and sorted(map(str, mapper.classes_)) == sorted(plan.firsts[name] for name in taught):
            return hints.background_advice(plan, mapper)  # a layered survey needs no background class
        return [hints.without_background(taught)] if taught else []

    def classes(self) -> list[str]:
        """Return warnings about the classes: no background class, or exemplars that look like another class."""
        plan, mapper = self.job.plan, self._known_mapper()
        known = mapper is not None and {str(name) for name in mapper.classes_} <= plan.names.keys()
        return [*self.background(), *(hints.look_alikes(plan, mapper) if known else [])]

    def section(self, line: float | None) -> list[str]:
        """Return warnings about classes that cover almost no samples, or most samples, of a line.

        `line` is a line number. The list is empty if `line` is None or the line is not labelled.
        """
        codes = None if line is None else self.session.labelling.codes(line)
        if codes is None:
            return []
        plan = self.job.plan
        return hints.section_coverage(plan, [codes], f"{DIRECTIONS[plan.along]} {line:g}")

    def retrieved(self) -> list[str]:
        """Return warnings about the retrieved patches.

        The list is empty if no patches were retrieved, and while a thread still checks the patches.
        """
        search = self.session.search
        if search.weak is None:
            return []
        if self._retrieved[0] != search.key:
            self._request()
            return []
        return self._retrieved[1]

    def expert(self, scored: dict[str, float] | None) -> list[str]:
        """Return warnings about class names in the expert labels that differ from the class names of the job.

        Parameters
        ----------
        scored : dict or None
            Class -> its IoU on the line in view; None if this line was not scored.
        """
        truth, known = self.session.labelling.truth, self.session.labelling.shown().names
        if truth is None or not known:
            return []
        names, notes = matched_names(truth.attrs["classes"], known, EXPERT.capitalize())
        return [*notes, *unmatched_classes(scored or (), names, known, EXPERT)]

    def _known_mapper(self) -> Any:
        """Return the mapper that was fitted to the present decisions; None if nothing is marked yet.

        If this mapper is not fitted or not loaded yet, return the mapper that was loaded before, or None.
        """
        key = self.job.plan.mapper_key
        if key is None:
            return None
        if key != self._fitted:
            self._request()
        return self._mapper

    def _request(self) -> None:
        if self._wanted() != self._failed:
            self._latest.request()

    def _wanted(self) -> tuple[Any, ...]:
        """Return a tuple that changes when the mapper, the labels or the retrieved patches change."""
        return self.job.plan.mapper_key, self.job.labels_written(), self.session.search.key

    def _look(self) -> None:
        wanted, plan, search = self._wanted(), self.job.plan, self.session.search
        found = False
        try:
            mapper = self.job.fitted_mapper(plan)
            if mapper is not None and plan.mapper_key != self._fitted:
                self._mapper, self._fitted, found = mapper, plan.mapper_key, True
            key, weak = search.key, search.weak
            if weak is not None and key != self._retrieved[0] and not search.searching:
                self._retrieved, found = (key, self.job.retrieval_warnings(weak)), True
        except (ValueError, OSError) as error:
            self.session.work.say(str(error), wrong=True)
        self._failed = () if found else wanted  # do not try again until one of the keys changes
        if found:
            self.session.tell("advice")


def taught_classes(session: "Session") -> set[str]:
    """Return the classes with an exemplar, a stroke, an accepted patch, or labels on a confirmed line."""
    plan = session.job.plan
    state = plan.state
    firsts = {one.name for one in state.exemplars} | {one["class"] for one in state.strokes}
    firsts |= {one.name for one in state.verdicts if one.accept}
    firsts |= {first for line in state.confirmed for first in line["classes"]}
    return {plan.names[first] for first in firsts if first in plan.names}
