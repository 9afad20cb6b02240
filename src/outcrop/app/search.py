"""The search of a session: the neighbourhood of a line first, the survey behind, and the patches found.

A volume that was never indexed is searched in the neighbourhood of the line in view first. This is an index with an
area, chosen in the job as everybody sees it, and with it the options of the whole survey, which is indexed behind; the
next search after that chooses the survey.
"""

import copy
from typing import Any

import numpy as np
import zarr

from outcrop.app.survey import lines_to_skip
from outcrop.app.work import Latest
from outcrop.job import options as stage_options
from outcrop.job import tables
from outcrop.job.decisions import Decisions
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.index import GRID_OPTIONS, build_index, index_inputs
from outcrop.storage.stages import digest

NEAR_PATCHES = 4000  # of the neighbourhood that is searched first: seconds, not minutes


class Search:
    """What is retrieved, and from where.

    Parameters
    ----------
    job : Job
    survey : Survey
    work : Work
        Threads to search in.

    Attributes
    ----------
    weak : WeakLabels or None
        The patches of the decisions of `key`.
    key : str or None
        Of the table that is shown.
    basis : str or None
        The same while nothing but yes and no to patches changes.
    """

    def __init__(self, job, survey, work):
        self.job, self.survey, self.work = job, survey, work
        self.weak: Any = None
        self.key: str | None = None
        self.basis: str | None = None
        # The page chooses the area by itself: as another writer, so that undo takes back what the interpreter did.
        self._chooser = copy.copy(job)
        self._chooser.log = Decisions(job.path, origin="page")
        self._latest = Latest(self._follow)
        self._asked = self._mine = False
        self._key_now: tuple = (None, None)
        self._found: tuple = (None, 0, ("", False))
        self.show_kept()

    def close(self):
        """Finish the search under way."""
        self._latest.wait()
        self._chooser.close()

    # ---- what is found ----------------------------------------------------------------------------------------------

    def show_kept(self):
        """Show the table of the present decisions where it was made before, else the last one that was made.

        Nothing is computed or written.
        """
        state = self.job.state
        self.weak = tables.kept(self.job, state)
        if self.weak is not None:
            self.key, self.basis = self.job.retrieved_key(state), self._basis(state)
        elif self.job.retrievable() and (found := tables.newest(self.job, state)) is not None:
            self.key, self.weak = found
            self.basis = self.key
        self._asked = self.weak is not None

    def _basis(self, state):
        asked = tables.retrieval_options(state)
        exemplars = [(one.id, one.place) for one in state.exemplars]
        return digest(
            exemplars, self.job.index_key(state), [asked[name] for name in ("count", "per_exemplar", "diverse")]
        )

    @property
    def searching(self):
        """Whether the patches shown are about to change."""
        return self._latest.busy

    @property
    def stale(self):
        """Whether the patches shown are of older decisions."""
        state = self.job.state
        if self._key_now[0] is not state:
            self._key_now = (state, self.job.retrieved_key(state))
        return self.weak is not None and self.key != self._key_now[1]

    def refresh(self, *, mine=True):
        """Bring the patches up to the decisions; returns at once.

        After a decision of another writer only a table that is there is shown.
        """
        self._mine |= mine
        self._latest.request()
        self.work.tell("work")

    def wait(self):
        """Wait until the patches are those of the decisions."""
        self._latest.wait()

    def _follow(self):
        mine, self._mine = self._mine, False
        try:
            state = self.job.state
            found = tables.kept(self.job, state)
            if found is None and mine and self._asked and self.job.retrievable() and self.job.indexed(state):
                self._in_memory(state)
                self.job.retrieve()
                state = self.job.state
                found = tables.kept(self.job, state)
            self._show(found, state)
        except (ValueError, OSError) as error:
            self.work.say(str(error), wrong=True)

    def _show(self, found, state):
        """Take over a table; older patches stay, marked, while there are exemplars to look for."""
        if found is not None:
            self.weak, self.key, self.basis = found, self.job.retrieved_key(state), self._basis(state)
            self._asked = True
        elif not self.job.retrievable():
            self.weak = self.key = self.basis = None
        self.work.tell("weak")

    def _in_memory(self, state, most=1 << 30):
        """Keep the descriptors in memory where they are not too many: a search is then a matter of milliseconds."""
        index = self.job.open_index(state)
        if index.features.nbytes <= most and not isinstance(index.features.store, zarr.storage.MemoryStore):
            index.features = zarr.create_array({}, data=index.features[:], compressors=None)

    def accepted(self):
        """Which retrieved patches were accepted by hand."""
        rows = self.weak.accepted
        pairs = zip(self.weak.rows.tolist(), self.weak.classes.tolist(), strict=True)
        return np.array([row in rows.get(name, ()) for row, name in pairs], bool)

    def places(self):
        """Inline, crossline and time of the retrieved patches, shape (n_patches, 3)."""
        return self.weak.positions[list(self.survey.volume.dims)].to_numpy()

    def asked(self, name):
        """How many patches of a class are asked for, and how many are suggested; None where it was not searched."""
        if self.weak is None or name not in self.weak.suggested:
            return None
        state, suggested = self.job.state, self.weak.suggested[name]
        count = tables.retrieval_options(state)["count"]
        count = count.get(state.first_name(name), "auto") if isinstance(count, dict) else count
        return (suggested if count == "auto" else int(count)), suggested

    def thumbnail(self, place, along):
        """8-bit picture of the patch around a place, along a direction; of what there is of it at the rim."""
        grid = self.job.grid()
        try:
            start = grid.start_at(place, along=along)
        except ValueError:  # a patch of another size
            return self.survey.patch(place)
        patch = grid.cut(self.survey.volume, np.array([start]))[0]
        return np.round(255 * np.nan_to_num(patch)).astype(np.uint8)

    def choose_size(self, size, line=None):
        """Take patches of another height and width from now on; the next search describes them.

        A large survey is searched around a line first.
        """
        chosen = self._whole() or self.job.state.options.get("index", {})
        whole = {name: value for name, value in chosen.items() if name != "step"} | {"size": [int(n) for n in size]}
        self.job.check_index(**whole)
        if self._finished(whole) or not self._larger(whole):
            self.job.choose_index(**whole)
        else:
            near = self._around(whole, line)
            mark = {"area": near["area"], "survey": whole}
            self.job.set_options({stage_options.NEIGHBOURHOOD: mark, "index": self.job.check_index(**near)})

    # ---- where it is looked for -------------------------------------------------------------------------------------

    @property
    def scope(self):
        """What the index covers: "neighbourhood", "survey", or "" where there is none yet."""
        return self._where()[0]

    def survey_waits(self):
        """Whether the index of the survey is finished and the next search will choose it."""
        return self._where()[1]

    def _where(self):
        """What the index covers, and whether that of the survey waits; looked up where something changed."""
        state, journal = self.job.state, self.job.stages.root / "index" / "journal.txt"
        size = journal.stat().st_size if journal.is_file() else 0
        if self._found[0] is not state or self._found[1] != size:
            whole = self._whole()
            scope = "" if not self.job.indexed(state) else "survey" if whole is None else "neighbourhood"
            self._found = (state, size, (scope, whole is not None and self._finished(whole)))
        return self._found[2]

    def _whole(self):
        """Options of the whole survey where only a neighbourhood is chosen, None otherwise."""
        return stage_options.whole_survey(self.job.state.options)

    def retrieve(self, line=None):
        """Find patches like the exemplars: in the survey where it is indexed, around a line otherwise."""
        if not self.job.retrievable():
            raise ValueError("There is no exemplar yet; choose a class and click on the section.")
        return self.work.start("searching", self._retrieve, line)

    def _retrieve(self, task, line):
        self._choose(line)
        state = self.job.state
        self.job.open_index(state, progress=task.stage)
        task.stage("searching")
        self._in_memory(state)
        self.job.retrieve()
        state = self.job.state
        self._show(tables.kept(self.job, state), state)
        self.index_behind()

    def _choose(self, line):
        """Decide where to look: the survey where it is indexed or small, the neighbourhood of a line otherwise."""
        whole, chosen = self._whole(), self.job.state.options.get("index", {})
        if whole is None:
            if self.job.indexed() or self.job.stages.last("index"):
                return  # somebody planned it
            found = self.survey.options
            every = lines_to_skip(found, self.survey.volume.shape)
            whole = chosen | ({"every": every} if every > 1 else {})
        if self._finished(whole) or not self._larger(whole):
            self._decide(whole)
        elif not self._covers(line):
            self._decide(self._around(whole, line), whole)

    def _decide(self, chosen, whole=None):
        """Write the choice of an index, with the options of the survey where it is a neighbourhood."""
        _ = self.job.log.who  # the interpreter's file comes first
        log = self._chooser.log
        if whole is not None:
            mark = {"area": chosen["area"], "survey": whole}
            log.add({"what": "set", "name": stage_options.NEIGHBOURHOOD, "value": mark})
        self._chooser.choose_index(**chosen)
        self.work.tell("state")

    def _full(self, chosen):
        """Options of an index with all defaults."""
        return stage_options.index_options(chosen, self.survey.volume.shape)

    def _finished(self, chosen):
        """Whether the index of some options is finished."""
        key = digest("index", index_inputs(self.job.known["digest"], self._full(chosen)))
        return any(words[0] == key for words in self.job.stages.journal("index"))

    def _per_line(self, chosen):
        found, shape = self._full(chosen), self.survey.volume.shape
        lines = -(-shape[self.survey.along] // found["every"])
        return max(1, stage_options.patch_count(found, shape, found["step"]) // lines)

    def _larger(self, whole):
        """Whether a survey is larger than a neighbourhood."""
        lines = -(-len(self.survey.lines) // self._full(whole)["every"])
        return lines * self._per_line(whole) > NEAR_PATCHES

    def _covers(self, line):
        """Whether the neighbourhood that is chosen holds a line."""
        name, area = DIRECTIONS[self.survey.along], self.survey.options["area"]
        if self._whole() is None or not area or name not in area:
            return False
        return line is None or area[name][0] <= line <= area[name][1]

    def _around(self, whole, line):
        """Options of an index on some lines around one, by default the middle one."""
        lines = self.survey.lines
        count = max(1, NEAR_PATCHES // self._per_line(whole))
        at = len(lines) // 2 if line is None else int(np.argmin(np.abs(lines - line)))
        every = max(1, min(3, len(lines) // count))
        first = at - every * min(at // every, count // 2)
        ends = lines[[first, min(first + every * (count - 1), len(lines) - 1)]]
        around = {DIRECTIONS[self.survey.along]: [float(ends.min()), float(ends.max())]}
        return whole | {"every": every, "area": (whole.get("area") or {}) | around, "sample": None}

    def index_behind(self):
        """Index the whole survey behind the interpreter's work, where only a neighbourhood is; it decides nothing."""
        whole = self._whole()
        if whole is None or self._finished(whole):
            return

        def build(task):
            found = self._full(whole)
            grid = PatchGrid(self.survey.volume, **{name: found[name] for name in GRID_OPTIONS})
            task.total = len(grid)
            options = {name: found[name] for name in ("measure", "truncate", "finest")}
            build_index(self.survey.volume, grid, self.job.path, progress=task.progress_behind, **options)
            self.work.say("The whole survey is indexed: search again to cover it.")

        self.work.start_behind("indexing the survey", build)
