"""The search for similar patches on the page: first near a line, later in the whole survey.

In a large volume without an index, the page first searches only the lines near the line in view. The job logs the
options of this small index, and the options of the later index of the whole survey. A background task then indexes the
survey, and the next search covers the whole survey.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from outcrop.app.page_job import Found, PageJob
from outcrop.app.pictures import Codes
from outcrop.app.survey import Place, Survey
from outcrop.app.work import Last, Latest, Task, Work
from outcrop.job.options import IndexOptions

NEAR_PATCHES = 4000  # patches in the neighbourhood that is searched first, within seconds
SURVEY_PATCHES = 100_000  # patches in the index of the survey; in a larger survey, lines are skipped
IN_MEMORY = 1 << 30  # bytes of descriptors that are held in memory, for a search within milliseconds


class Search:
    """The search for patches like the exemplars, and the retrieved patches.

    Parameters
    ----------
    job : PageJob
    survey : Survey
    work : Work
        The tasks of the session; a search is one of them.

    Attributes
    ----------
    weak : WeakLabels or None
        The retrieved patches. During a search, they are those of the last search, or None.
    key : str or None
        Digest of everything that the retrieved patches were made from.
    basis : str or None
        Digest of the same inputs, but without the verdicts.
    """

    def __init__(self, job: PageJob, survey: Survey, work: Work) -> None:
        self.job, self.survey, self.work = job, survey, work
        self._latest = Latest(self._follow)
        self._mine = False
        self._covered = Last()
        self.weak: Any = None
        self.key: str | None = None
        self.basis: str | None = None
        self._take(job.patches(newest=True))
        self._asked = self.weak is not None

    def close(self) -> None:
        """Wait until the search in progress has ended."""
        self._latest.wait()

    # ---- retrieved patches ------------------------------------------------------------------------------------------

    def _take(self, found: Found | None) -> None:
        self.weak, self.key, self.basis = found or (None, None, None)

    @property
    def searching(self) -> bool:
        """Whether a search is running that will change the retrieved patches."""
        return self._latest.busy

    @property
    def stale(self) -> bool:
        """Whether the retrieved patches were made from older decisions than the present ones."""
        return self.weak is not None and self.key != self.job.plan.keys["retrieved"]

    def refresh(self, *, mine: bool = True) -> None:
        """Update the retrieved patches after a decision, in a thread.

        If `mine` is False, another program made the decision; the page then shows stored patches without a search.
        """
        self._mine |= mine
        self._latest.request()
        self.work.tell("work")

    def wait(self) -> None:
        """Wait until the retrieved patches are updated."""
        self._latest.wait()

    def _follow(self) -> None:
        mine, self._mine = self._mine, False
        try:
            found = self.job.patches()
            if found is None and mine and self._asked and self.job.plan.queries and self.job.indexed:
                found = self._searched()
            self._show(found)
        except (ValueError, OSError) as error:
            self.work.say(str(error), wrong=True)

    def _searched(self) -> Found | None:
        """Search with the present decisions and return the patches.

        The descriptors stay in memory if they take at most `IN_MEMORY` bytes.
        """
        index = self.job.opened_index()
        if index.features.nbytes <= IN_MEMORY and not isinstance(index.features.store, zarr.storage.MemoryStore):
            index.features = zarr.create_array({}, data=index.features[:], compressors=None)
        self.job.retrieve()
        return self.job.patches()

    def _show(self, found: Found | None) -> None:
        """Show the found patches.

        If `found` is None, the present patches stay in view as stale; but if the job has no exemplars, none are shown.
        """
        self._asked |= found is not None
        if found is not None or not self.job.plan.queries:
            self._take(found)
        self.work.tell("weak")

    def accepted(self) -> npt.NDArray[np.bool_]:
        """Return a mask, shape (n_patches,), of the retrieved patches that the interpreter accepted."""
        rows = self.weak.accepted
        pairs = zip(self.weak.rows.tolist(), self.weak.classes.tolist(), strict=True)
        return np.array([row in rows.get(name, ()) for row, name in pairs], bool)

    def places(self) -> npt.NDArray[Any]:
        """Return inline, crossline and time of the retrieved patches, shape (n_patches, 3)."""
        places: npt.NDArray[Any] = self.weak.positions[list(self.survey.volume.dims)].to_numpy()
        return places

    def asked(self, name: str) -> tuple[int, int] | None:
        """Return the requested and the suggested number of patches of a class; None if the class was not searched."""
        if self.weak is None or name not in self.weak.suggested:
            return None
        count, suggested = self.job.counts().get(name, "auto"), self.weak.suggested[name]
        return (suggested if count == "auto" else int(count)), suggested

    def thumbnail(self, place: Place, along: str) -> Codes:
        """Return an 8-bit picture of the patch around a place, on the inline or crossline (`along`) through the place.

        At the rim of the survey the picture is smaller.
        """
        grid = self.job.grid()
        try:
            start = grid.start_at(place, along=along)
        except ValueError:  # a patch of another size
            return self.survey.patch(place)
        patch: npt.NDArray[np.float32] = grid.cut(self.survey.volume, np.array([start]))[0]
        return np.round(255 * np.nan_to_num(patch)).astype(np.uint8)

    # ---- scope ------------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> str:
        """What the present index covers: "neighbourhood" (lines near one line), "survey", or "" without an index."""
        return self._where()[0]

    def survey_waits(self) -> bool:
        """Return whether the survey's index is finished but not searched yet; the next search then uses it."""
        return self._where()[1]

    def _where(self) -> tuple[str, bool]:
        """Return the values of `scope` and `survey_waits`, cached until the index or the decisions change."""

        def look() -> tuple[str, bool]:
            whole = self.job.plan.survey
            scope = "" if not self.job.indexed else "survey" if whole is None else "neighbourhood"
            return scope, whole is not None and self.job.index_finished(whole)

        return self._covered.get((self.job.plan, self.job.written("index")), look)

    def choose_size(self, size: tuple[int, int], line: float | None = None) -> None:
        """Choose the height (samples) and width (traces) of patches; the next search computes their descriptors.

        In a large survey, the next search covers only the lines near line number `line`.
        """
        chosen = self.job.plan.survey or self.job.chosen_index
        self._decide(chosen.updated(size=size, step="auto"), line)

    def _decide(self, whole: IndexOptions, line: float | None, *, by_page: bool = False) -> None:
        """Choose the index of the next search: of the whole survey or, if that is large, of the lines near `line`.

        `whole` holds the options of the index of the whole survey; `by_page` is as in `PageJob.choose_where`.
        """
        near = self._around(whole, line) if self._is_large(whole) else None
        self.job.choose_where(near or whole, near and whole, by_page=by_page)

    def retrieve(self, line: float | None = None) -> Task:
        """Start a task that searches for patches like the exemplars, and return the task.

        The search covers the whole survey if it is indexed or small, else the lines near line number `line`.
        """
        if not self.job.plan.queries:
            raise ValueError("No exemplar is placed yet; choose a class and click on a place that shows it.")
        return self.work.start("searching", self._retrieve, line)

    def _retrieve(self, task: Task, line: float | None) -> None:
        self._choose(line)
        self.job.opened_index(task.stage)
        task.stage("searching")
        self._show(self._searched())
        self._index_behind()

    def _choose(self, line: float | None) -> None:
        """Choose what the search covers: the survey if it is indexed or small, else the lines near `line`."""
        whole = self.job.plan.survey
        if whole is None:
            if self.job.ever_indexed():
                return  # the index was chosen outside this page
            whole = self.job.chosen_index
            every = round(self.job.patches_of(whole) * whole.every / SURVEY_PATCHES)
            whole = whole.updated(every=max(whole.every, every))
        if not (self._is_large(whole) and self._covers(line)):
            self._decide(whole, line, by_page=True)
            self.work.tell("state")

    def _is_large(self, whole: IndexOptions) -> bool:
        """Return whether the index with options `whole` is missing and so large that a part is searched first."""
        lines = self._lines(whole)
        return not self.job.index_finished(whole) and lines * self._per_line(whole) > NEAR_PATCHES

    def _lines(self, whole: IndexOptions) -> int:
        return math.ceil(len(self.survey.lines) / whole.every)

    def _per_line(self, whole: IndexOptions) -> int:
        return max(1, self.job.patches_of(whole) // self._lines(whole))

    def _covers(self, line: float | None) -> bool:
        """Return whether the chosen index covers only lines near one line, and line number `line` is among them.

        If `line` is None, any such index counts.
        """
        ends = (self.job.plan.index.area or {}).get(self.survey.line_name)
        if self.job.plan.survey is None or not ends:
            return False
        return line is None or ends[0] <= line <= ends[1]

    def _around(self, whole: IndexOptions, line: float | None) -> IndexOptions:
        """Return the options of an index of the lines near line number `line`, by default near the middle line.

        `whole` holds the options of the index of the whole survey.
        """
        lines = self.survey.lines
        count = max(1, NEAR_PATCHES // self._per_line(whole))
        at = len(lines) // 2 if line is None else self.survey.line_at(line)
        every = max(1, min(3, len(lines) // count))
        first = at - every * min(at // every, count // 2)
        ends = lines[[first, min(first + every * (count - 1), len(lines) - 1)]]
        area = (whole.area or {}) | {self.survey.line_name: (float(ends.min()), float(ends.max()))}
        return whole.updated(every=every, area=area, sample="auto")

    def _index_behind(self) -> None:
        """Start a background task that indexes the whole survey, if only a neighbourhood is indexed."""
        whole = self.job.plan.survey
        if whole is None or self.job.index_finished(whole):
            return

        def build(task: Task) -> None:
            self.job.build(whole, task)
            if self.job.plan.survey != whole:  # another patch size was chosen meanwhile
                return
            if not self.job.plan.by_points and self.job.labels_written():
                self.work.say(
                    "The whole survey is indexed: search again to find patches in all of it. The labels then become "
                    "stale."
                )
                return
            self._decide(whole, None, by_page=True)
            self.work.say("The whole survey is indexed and searched.")
            self.work.tell("state")
            self.refresh()

        self.work.start_behind("indexing the survey", build)
