"""The job of a page: all that the page asks of a job beyond the public names of `Job`, in one place."""

import contextlib
import copy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outcrop.app.work import Last
from outcrop.job import labelling, options, tables
from outcrop.job.core import Job
from outcrop.job.decisions import Decisions
from outcrop.job.state import State
from outcrop.job.strokes import section_of
from outcrop.mapping.registry import DEFAULT_MAPPING
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import GRID_OPTIONS, build_index, index_inputs
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.stages import digest
from outcrop.storage.workspace import Workspace
from outcrop.volumes.identity import known_volume
from outcrop.volumes.lengths import parse_size

FLAGS = ("per_exemplar", "diverse")  # options of a retrieval that are on or off


class PageLog(Decisions):
    """Decisions that stay as they are while a page is drawn, which reads them a hundred times.

    Every look at the disk lets other threads run, which a click would wait for while a survey is being labelled.
    """

    def __init__(self, job: Path) -> None:
        super().__init__(job, origin="page")
        self._drawing = threading.local()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Look once, and not again in this thread until the end."""
        before = getattr(self._drawing, "held", False)
        self.refresh()
        self._drawing.held = True
        try:
            yield
        finally:
            self._drawing.held = before

    def refresh(self) -> bool:
        """Read what was written since; whether anything was."""
        return False if getattr(self._drawing, "held", False) else bool(super().refresh())


class Found(NamedTuple):
    """Retrieved patches, their key, and a key that yes and no to patches do not change."""

    weak: WeakLabels
    key: str | None
    basis: str | None


class PageJob(Job):
    """A job as the page uses it.

    Parameters
    ----------
    path : path
    volume : path or DataArray, optional
        As for `Job`.
    """

    log: PageLog

    def __init__(self, path: Path, volume: Any = None) -> None:
        super().__init__(path, volume, origin="page")
        self.log = PageLog(path)
        self._index_options, self._sections, self._patches_key = Last(), Last(), Last()
        self._chooser: PageJob | None = None  # the same job as another writer

    def close(self) -> None:
        """Let go of the files that decisions are written to."""
        super().close()
        if self._chooser is not None:
            self._chooser.log.close()

    def last_act(self) -> list[dict[str, Any]]:
        """Entries of the decision that was undone or redone last."""
        entries = self.log.entries
        return [entry for entry in entries if entry["id"] in entries[-1]["of"]]

    # ---- decisions --------------------------------------------------------------------------------------------------

    @property
    def names(self) -> dict[str, str]:
        """First name of every class, which stays when it is renamed -> its present name."""
        return {first: about["name"] for first, about in self.state.classes.items()}

    def first_name(self, name: str) -> str:
        """First name of the class that is called so now; anything else as it is."""
        return self.state.first_name(name) or name

    @property
    def exemplars(self) -> list[Any]:
        """Exemplars with the present names of their classes; ``place`` is None for a picture."""
        names = self.names
        return [one._replace(name=names[one.name]) for one in self.state.exemplars]

    def queries(self) -> dict[str, list[Any]]:
        """Exemplars, or accepted patches, to look for, by first names of classes that have some."""
        return dict(self.state.queries())

    @property
    def strokes(self) -> list[dict[str, Any]]:
        """What was painted, as entries of the decisions."""
        return self.state.strokes

    def verdicts(self, name: str) -> dict[tuple[Any, str], bool]:
        """Yes (True) and no (False) to patches of a class, by place and direction."""
        first = self.first_name(name)
        return {(one.place, one.along): one.accept for one in self.state.verdicts if one.name == first}

    def section_of(self, stroke: dict[str, Any]) -> tuple[int, int] | None:
        """Direction and position of the section a stroke lies on, None where the volume does not have it."""
        section: tuple[int, int] | None = section_of(stroke, self.axes)
        return section

    def painted_on(self, direction: int, position: int) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]:
        """Codes of what is painted on a section, and whether each code is excluded; None for nothing."""
        painted, excluded = self._sections.get(self.state, lambda: (self.painted(), self.excluded()))
        return painted.get((direction, position)), excluded.get((direction, position))

    # ---- options ----------------------------------------------------------------------------------------------------

    def chosen(self, stage: str) -> dict[str, Any]:
        """Options of a stage (index, label, limits) that were decided on."""
        return dict(self.state.options.get(stage, {}))

    @property
    def mapping(self) -> str:
        """Name of the mapper that is chosen."""
        return str(self.chosen("label").get("mapping", DEFAULT_MAPPING))

    @property
    def index_now(self) -> dict[str, Any]:
        """Options of the index as they are decided now, with all defaults."""
        return self._index_options.get(self.state, self.index_options)

    def full_options(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """Options of an index with all defaults."""
        return dict(options.index_options(chosen, self.volume.shape))

    def patches_of(self, chosen: dict[str, Any]) -> int:
        """About how many patches the index of some options has."""
        full = self.full_options(chosen)
        return int(options.patch_count(full, self.volume.shape, full["step"]))

    def whole_survey(self) -> dict[str, Any] | None:
        """Options of the index of the survey while only a neighbourhood of it is searched, None otherwise."""
        whole: dict[str, Any] | None = options.whole_survey(self.state.options)
        return whole

    def choose_where(self, index: dict[str, Any], survey: dict[str, Any] | None, *, by_page: bool = False) -> None:
        """Decide on the options of the index; where it is of a neighbourhood, also on those of the whole `survey`.

        What the page chooses by itself is not what the interpreter's undo takes back.
        """
        mark = {} if survey is None else {options.NEIGHBOURHOOD: {"area": index["area"], "survey": survey}}
        writer = self._as_page() if by_page else self
        writer.set_options(mark | {"index": self.check_index(**index) or None})

    def _as_page(self) -> "PageJob":
        if self._chooser is None:
            _ = self.log.who  # the interpreter's file comes first
            self._chooser = copy.copy(self)
            self._chooser.log = PageLog(self.path)
        return self._chooser

    def counts(self) -> dict[str, Any]:
        """Class -> patches asked for, of the classes for which a number was given."""
        names, count = self.names, self.state.options.get("count") or {}
        given = count if isinstance(count, dict) else dict.fromkeys(names, count)
        return {names[first]: number for first, number in given.items() if first in names}

    def retrieval_now(self) -> dict[str, Any]:
        """Options of the retrieval as they are decided now, with all defaults."""
        return {name: self.state.options.get(name, default) for name, default in options.RETRIEVE.items()}

    # ---- index and retrieved patches --------------------------------------------------------------------------------

    def index_finished(self, chosen: dict[str, Any]) -> bool:
        """Whether the index of some options is finished."""
        key = digest("index", index_inputs(self.known["digest"], self.full_options(chosen)))
        return any(words[0] == key for words in self.stages.journal("index"))

    def ever_indexed(self) -> bool:
        """Whether any index was finished, of whatever options."""
        return self.indexed() or bool(self.stages.last("index"))

    def build(self, chosen: dict[str, Any], task: Any) -> None:
        """Make the index of some options, which decides nothing; `task` is told how far it is."""
        full = self.full_options(chosen)
        grid = PatchGrid(self.volume, **{name: full[name] for name in GRID_OPTIONS})
        task.total = len(grid)
        measure = {name: full[name] for name in ("measure", "truncate", "finest")}
        build_index(self.volume, grid, self.path, progress=task.progress_behind, **measure)

    def patches(self, *, newest: bool = False) -> Found | None:
        """Patches of the present decisions where they were searched for before; nothing is computed or written.

        Where they were not, None, or the `newest` patches, of whatever decisions.
        """
        state = self.state
        weak = tables.kept(self, state)
        if weak is not None:
            return Found(weak, self.retrieved_key(state), self._basis(state))
        last = tables.newest(self, state) if newest and self.retrievable() else None
        return last and Found(last[1], last[0], last[0])

    def patches_key(self) -> str | None:
        """Key of the patches that the decisions lead to."""
        state = self.state
        return self._patches_key.get(state, lambda: self.retrieved_key(state))

    def _basis(self, state: State) -> str:
        asked = tables.retrieval_options(state)
        exemplars = [(one.id, one.place) for one in state.exemplars]
        return str(digest(exemplars, self.index_key(state), [asked.get(name) for name in ("count", *FLAGS)]))

    # ---- labels -----------------------------------------------------------------------------------------------------

    def labels_now(self) -> labelling.Labelling:
        """How lines are labelled by the present decisions."""
        return labelling.Labelling(self)

    def learns_at_once(self, work: labelling.Labelling) -> bool:
        """Whether the mapper learns from strokes without being fitted again."""
        return not work.options["mapper"] and bool(work.updates) and bool(work.fitted())

    def result_key(self, of: str) -> str | None:
        """Key of the retrieved "patches", or of the labels ("samples"), that the decisions lead to."""
        return self.patches_key() if of == "patches" else self.labels_now().votes_key()

    # ---- what was written -------------------------------------------------------------------------------------------

    def written(self, kind: str) -> int:
        """Bytes of the journal of indexes or of retrieved tables: it grows with whatever anybody makes."""
        path = self.stages.root / kind / "journal.txt"
        return path.stat().st_size if path.is_file() else 0

    def labels_written(self) -> int:
        """Bytes of the lists of finished lines: they grow with every line that anybody labels."""
        return sum(path.stat().st_size for path in (self.stages.root / "votes").glob("*/votes.done"))


def open_job(source: Any, job: str | Path | None, size: Any) -> PageJob:
    """The job of what the interpreter names: a volume, or a job folder.

    Parameters
    ----------
    source : path or DataArray
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a job that is made here; one that is there keeps its size.
    """
    if hasattr(source, "dims"):
        path = Path(job or f"{Path(str(source.attrs.get('source') or 'volume')).stem}.outcrop")
    elif Workspace(source).exists():
        path, source = Path(source), None
    elif Path(source).suffix == ".outcrop":
        raise ValueError(f"{source} is not a job folder; give a volume, or a folder made by 'outcrop index'.")
    else:
        path = Path(job or f"{Path(source).stem}.outcrop")
    fresh = not Workspace(path).exists()
    opened = PageJob(path, source)
    if not known_volume(path)["source"] and source is None:
        raise ValueError(f"Job {path} was made from an array; open it with outcrop.explore(volume, job=...).")
    if fresh and size is not None:
        height, width = np.broadcast_to(parse_size(size, opened.volume) if isinstance(size, str) else size, 2).tolist()
        shape = opened.volume.shape
        opened.choose_index(size=[min(height, shape[2]), min(width, shape[1])])
    return opened
