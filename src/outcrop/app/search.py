"""The search of a session: an index of the neighbourhood first, of the survey behind, and the patches found in it.

A volume that was never indexed is searched in the neighbourhood of the current line first, in the folder
``near.outcrop`` inside the job, while the whole survey is indexed behind; the next search after that covers the survey.
"""

import contextlib
import threading
from typing import Any

import numpy as np
import zarr

import outcrop as oc
from outcrop import job as stages
from outcrop.patches import DIRECTIONS
from outcrop.workspace import remove

NEAR_PATCHES = 4000  # of the neighbourhood that is searched first: seconds, not minutes


class Search:
    """What is retrieved, and from where.

    Parameters
    ----------
    path : Path
        The job folder.
    survey : Survey
    state : State
        Exemplars, judgements and counts.
    work : Work
        Threads to search in.

    Attributes
    ----------
    index : Index or None
        In which the last search was done.
    weak : WeakLabels or None
        What it found.
    """

    def __init__(self, path, survey, state, work):
        self.path, self.survey, self.state, self.work = path, survey, state, work
        self.index: Any = None
        self.weak: Any = None
        self._lock = threading.RLock()

    @property
    def near(self):
        """Folder of the index of the neighbourhood."""
        return self.path / "near.outcrop"

    @property
    def scope(self):
        """What a search covers now: "neighbourhood", "survey", or "" before the first one."""
        return "" if self.index is None else "survey" if self.index.workspace.path == self.path else "neighbourhood"

    def reopen(self):
        """Go on with the index of the last search, and with that search."""
        with contextlib.suppress(ValueError):
            self.index = in_memory(oc.open_index(self.near, volume=self.survey.volume))
        if self.index is None:
            self.index = self._survey_index()
        elif self._survey_index() is None:
            self._index_behind()
        self.refresh()

    def retrieve(self, line=None):
        """Find patches like the exemplars: in the survey where it is indexed, around a line otherwise."""
        if not self.state.data["exemplars"]:
            raise ValueError("There is no exemplar yet; choose a class and click on the section.")
        return self.work.start("searching", self._retrieve, line)

    def _retrieve(self, task, line):
        survey = self._survey_index()
        if survey is not None:
            remove(self.near)
            self.index = survey
        elif self.index is None or (line is not None and not self._covers(line)):
            self.index = self._first_index(task, line)
        self._search()
        with self.state.change() as data:
            data["retrieved"] = True
        if self.scope != "survey":
            self._index_behind()

    def _covers(self, line):
        """Whether the neighbourhood that is indexed holds a line."""
        grid = self.index.grid
        lines = grid.axes[self.survey.along][np.unique(grid.starts[:, 1])]
        return lines[0] <= line <= lines[-1]

    def _first_index(self, task, line):
        """Index of the survey where it is small, otherwise of the lines around one."""
        survey = self.survey
        count = max(1, NEAR_PATCHES // survey.patches_per_line())
        if count >= len(survey.lines) // survey.options["every"]:
            grid, path = survey.grid(), self.path
        else:
            grid, path = self._grid_around(line, count), self.near
        task.stage("indexing the neighbourhood", len(grid))
        return in_memory(oc.build_index(survey.volume, grid, path, progress=task.progress))

    def _grid_around(self, line, count):
        """Patch grid on so many lines around one, by default the middle one."""
        lines, options = self.survey.lines, self.survey.options
        at = len(lines) // 2 if line is None else int(np.argmin(np.abs(lines - line)))
        every = max(1, min(3, len(lines) // count))
        first = at - every * min(at // every, count // 2)
        ends = lines[[first, min(first + every * (count - 1), len(lines) - 1)]]
        around = {DIRECTIONS[self.survey.along]: (float(ends.min()), float(ends.max()))}
        return self.survey.grid(every=every, area=(options.get("area") or {}) | around, sample=None)

    def _index_behind(self):
        """Go on indexing the whole survey behind the interpreter's work."""

        def build(task):
            grid = self.survey.grid()
            task.total = len(grid)
            oc.build_index(self.survey.volume, grid, self.path, progress=task.progress_behind)
            self.work.message = "The whole survey is indexed: the next search covers it."

        self.work.start_behind("indexing the survey", build)

    def _survey_index(self):
        """Index of the whole survey, None while it is not finished."""
        if self.scope == "survey":
            return self.index
        with contextlib.suppress(ValueError):
            return in_memory(oc.open_index(self.path, volume=self.survey.volume))
        return None

    def refresh(self):
        """Bring the retrieved patches up to the decisions."""
        if self.index is None or not self.state.data["retrieved"] or not self.state.exemplars():
            self.weak = None
            self.work.tell("weak")
        else:
            self._search()

    def _search(self):
        """Find patches and keep them in the job as the command line does."""
        asked, workspace = self.request(), self.index.workspace
        weak = stages.ask(self.index, asked)
        with self.writing():
            weak.save(workspace / "retrieved.csv")
            workspace.write(workspace.read() | {"retrieve": asked})
            workspace.log("retrieve", patches=len(weak), lost=weak.lost)
        self.weak = weak
        self.work.tell("weak")

    @contextlib.contextmanager
    def writing(self):
        """Hold the folder of the index in use; pages of one server take turns."""
        with self._lock, self.index.workspace.lock():
            yield

    def counts(self):
        """Class -> patches that are looked for."""
        usable, names = int((self.index.status == 0).sum()), list(self.state.exemplars())
        standard = min(500, max(20, usable // (4 * len(names))))
        return {name: min(self.state.data["counts"].get(name, standard), usable) for name in names}

    def request(self):
        """What is asked of the index, as ``job.toml`` keeps it."""
        exemplars = list(self.state.data["exemplars"])
        rows: dict = {"accepted": {}, "rejected": {}}
        table = self.index.grid.starts
        for one in self.state.data["judged"]:
            if one["class"] not in self.state.exemplars():
                continue
            start = self.index.grid.start_at(one["place"], along=one["along"])
            row = np.flatnonzero((table == start).all(axis=1))
            if len(row):
                rows["accepted" if one["accept"] else "rejected"].setdefault(one["class"], []).append(int(row[0]))
            elif one["accept"]:
                exemplars.append(one)  # no patch of this index lies there: it serves as an exemplar
        texts = [exemplar_text(one) for one in exemplars]
        return {"exemplars": texts, "count": count_text(self.counts()), "per_exemplar": False, "diverse": False} | rows

    def accepted(self):
        """Which retrieved patches were accepted by hand."""
        rows = self.weak.accepted
        pairs = zip(self.weak.rows.tolist(), self.weak.classes.tolist(), strict=True)
        return np.array([row in rows.get(name, ()) for row, name in pairs], bool)

    def places(self):
        """Inline, crossline and time of the retrieved patches, shape (n_patches, 3)."""
        return self.weak.positions[list(self.survey.volume.dims)].to_numpy()

    def thumbnails(self, rows):
        """8-bit patches of rows of the index."""
        return np.round(255 * np.nan_to_num(self.index.grid.extract(self.survey.volume, rows))).astype(np.uint8)


def in_memory(index, most=1 << 30):
    """Index whose descriptors are in memory where they are not too many: a search is then a matter of milliseconds."""
    if index.features.nbytes <= most:
        index.features = zarr.create_array({}, data=index.features[:], compressors=None)
    return index


def exemplar_text(one):
    """An exemplar as the command line takes it."""
    return f"{one['class'].replace(' ', '-')}=" + ",".join(f"{value:.10g}" for value in one["place"])


def count_text(counts):
    """Patches per class as the command line takes them."""
    return ",".join(f"{name.replace(' ', '-')}={count}" for name, count in counts.items())
