"""The job of a page: all that the page asks of a job beyond the public names of `Job`, in one place."""

import contextlib
import copy
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

import outcrop as oc
from outcrop.job import fitting, labelling, retrieved
from outcrop.job.advice import next_line
from outcrop.job.core import Job
from outcrop.job.decisions import Decisions
from outcrop.job.options import IndexOptions
from outcrop.job.plan import Plan, Stage
from outcrop.job.sections import filled_section, marked_sections
from outcrop.job.strokes import excluded_sections, section_of
from outcrop.mapping.survey_sample import nodes_of
from outcrop.retrieval.index import build_index, finished_index
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.stages import digest
from outcrop.storage.workspace import Workspace
from outcrop.volumes.amplitude import volume_name
from outcrop.volumes.identity import known_volume
from outcrop.volumes.lengths import parse_size

FEW_LINES = 16  # of a volume that are looked at before all others


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

    def refresh(self) -> None:
        """Read what was written since, unless it is not to change now."""
        if not getattr(self._drawing, "held", False):
            super().refresh()


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
        self._chooser: PageJob | None = None  # the same job as another writer

    def close(self) -> None:
        """Let go of the files that decisions are written to."""
        super().close()
        if self._chooser is not None:
            self._chooser.log.close()

    @property
    def person(self) -> str:
        """Name of the person who decides here."""
        return self.log.who.rpartition("-")[0]

    def last_act(self) -> list[dict[str, Any]]:
        """Entries of the decision that was undone or redone last."""
        entries = self.log.entries
        return [entry for entry in entries if entry["id"] in entries[-1]["of"]]

    # ---- decisions --------------------------------------------------------------------------------------------------

    def first_name(self, name: str) -> str:
        """First name of the class that is called so now; anything else as it is."""
        return self.plan.firsts.get(name, name)

    @property
    def exemplars(self) -> list[Any]:
        """Exemplars with the present names of their classes; ``place`` is None for a picture."""
        plan = self.plan
        return [one._replace(name=plan.names[one.name]) for one in plan.state.exemplars]

    @property
    def strokes(self) -> list[dict[str, Any]]:
        """What was painted, as entries of the decisions."""
        return self.plan.state.strokes

    def verdicts(self, name: str) -> dict[tuple[Any, str], bool]:
        """Yes (True) and no (False) to patches of a class, by place and direction."""
        first = self.first_name(name)
        return {(one.place, one.along): one.accept for one in self.plan.state.verdicts if one.name == first}

    def section_of(self, stroke: dict[str, Any]) -> tuple[int, int] | None:
        """Direction and position of the section a stroke lies on, None where the volume does not have it."""
        section: tuple[int, int] | None = section_of(stroke, self.axes)
        return section

    def painted_on(self, direction: int, position: int) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]:
        """Codes of what is painted on a section, and whether each code is excluded; None for nothing.

        A rejected fault stick excludes its class, and is not shown.
        """
        plan = self.plan
        painted, excluded = marked_sections(self, plan)
        brushed = [one for one in self.strokes if not (one["what"] == "exclude" and one.get("stick"))]
        masks = excluded.get((direction, position))
        if masks is not None and len(brushed) < len(self.strokes):
            names = sorted(plan.codes, key=plan.codes.__getitem__)
            key = plan.state, plan.codes
            shown = self._held("excluded by brush", key, lambda: excluded_sections(brushed, names, self.axes))
            masks = masks & shown[direction, position] if (direction, position) in shown else None
        return painted.get((direction, position)), masks

    # ---- options ----------------------------------------------------------------------------------------------------

    def full(self, chosen: IndexOptions) -> IndexOptions:
        """Options of an index with the size and the step that fit the survey."""
        return chosen.fitted(tuple(self.plan.volume["shape"]))

    def patches_of(self, chosen: IndexOptions) -> int:
        """About how many patches the index of some options has."""
        return self.full(chosen).patch_count(tuple(self.plan.volume["shape"]))

    def choose_where(self, index: IndexOptions, survey: IndexOptions | None, *, by_page: bool = False) -> None:
        """Decide on the options of the index; where it is of a neighbourhood, also on those of the whole `survey`.

        What the page chooses by itself is not what the interpreter's undo takes back.
        """
        mark = None if survey is None else {"area": index.area, "survey": survey.changed()}
        (self._as_page() if by_page else self).choose(index=index, neighbourhood=mark)

    def _as_page(self) -> "PageJob":
        if self._chooser is None:
            _ = self.log.who  # the interpreter's file comes first
            self._chooser = copy.copy(self)
            self._chooser.log = PageLog(self.path)
        return self._chooser

    def counts(self) -> dict[str, Any]:
        """Class -> patches asked for, of the classes for which a number was given."""
        names, count = self.plan.names, self.plan.retrieval.count
        given = count if isinstance(count, dict) else {} if count == "auto" else dict.fromkeys(names, count)
        return {names[first]: number for first, number in given.items() if first in names}

    # ---- index and retrieved patches --------------------------------------------------------------------------------

    def index_finished(self, chosen: IndexOptions) -> bool:
        """Whether the index of some options is finished."""
        stage = Stage("index", self.full(chosen).inputs(self.plan.volume["digest"]))
        return finished_index(self.stages, stage.key)

    def ever_indexed(self) -> bool:
        """Whether any index was finished, of whatever options."""
        return self.indexed or bool(self.stages.last("index"))

    def opened_index(self, progress: Any = None) -> Any:
        """The index of the decisions, made where it is missing."""
        return self._index(self.plan, progress=progress)

    def build(self, chosen: IndexOptions, task: Any) -> None:
        """Make the index of some options, which decides nothing; `task` is told how far it is."""
        full = self.full(chosen)
        grid = full.grid(self.volume)
        task.total = len(grid)
        measure: dict[str, Any] = {name: getattr(full, name) for name in ("measure", "truncate", "finest")}
        build_index(self.volume, grid, self.path, progress=lambda _, done, total: task.progress_behind(done), **measure)

    def patches(self, *, newest: bool = False) -> Found | None:
        """Patches of the present decisions where they were searched for before; nothing is computed or written.

        Where they were not, None, or the `newest` patches, of whatever decisions.
        """
        plan = self.plan
        weak, key = retrieved.kept(self, plan), plan.keys["retrieved"]
        if weak is not None:
            exemplars = [(one.id, one.place) for one in plan.state.exemplars]
            return Found(weak, key, digest(exemplars, plan.index_stage.key, vars(plan.retrieval)))
        last = retrieved.newest(self, plan) if newest and plan.queries else None
        return last and Found(last[1], last[0], last[0])

    # ---- labels -----------------------------------------------------------------------------------------------------

    def read_labels(self, plan: Plan) -> tuple[Any, set[int], list[str]]:
        """How labels are read, the positions of the stale lines, and the names of the codes from 1 on."""
        labels, stale = labelling.label_view(self, plan)
        return labels, stale, labelling.class_names(plan, labels)

    def learns_at_once(self, plan: Plan) -> bool:
        """Whether the mapper learns from strokes without being fitted again."""
        return fitting.learns_at_once(self, plan)

    def label_lines(self, plan: Plan, lines: Sequence[Any] | None, **options: Any) -> None:
        """Label lines, by their numbers, or the whole survey, as `outcrop.job.labelling.label_lines` does."""
        labelling.label_lines(self, plan, lines, **options)

    def add_background(self, plan: Plan) -> None:
        """Add a background class where the survey needs one; see `outcrop.job.fitting.add_background`."""
        fitting.add_background(self, plan)

    def describe_line(self, position: int) -> None:
        """Compute the features of a line, which are kept for a while: labels after a stroke come sooner."""
        plan = self.plan
        if plan.by_points:
            nodes_of(filled_section(self, plan, plan.along, position)[0])

    def next_line(self, plan: Plan) -> dict[str, Any] | None:
        """The line to correct next and a place on it; see `outcrop.job.advice.next_line`."""
        return next_line(self, plan)

    # ---- what the shell warns about ---------------------------------------------------------------------------------

    def fitted_mapper(self, plan: Plan) -> Any:
        """Mapper of a plan where it was fitted before, else None."""
        key = plan.mapper_key
        kept = key is not None and (self.stages.path("mapper", key) / "mapper").is_dir()
        return fitting.job_mapper(self, plan) if kept else None

    def retrieval_warnings(self, weak: WeakLabels) -> list[str]:
        """Sentences about retrieved patches, as the shell prints them."""
        if not self.indexed:
            return []
        usable = int((self._index(self.plan).status == 0).sum())
        return [*retrieved.warnings(weak, usable), *retrieved.exemplars_outside(self)]

    # ---- what was written -------------------------------------------------------------------------------------------

    def written(self, kind: str) -> int:
        """Bytes of the journal of indexes or of retrieved tables: it grows with whatever anybody makes."""
        path = self.stages.root / kind / "journal.txt"
        return path.stat().st_size if path.is_file() else 0

    def labels_written(self) -> int:
        """Bytes of the lists of finished lines: they grow with every line that anybody labels."""
        return sum(path.stat().st_size for path in (self.stages.root / "votes").glob("*/votes.done"))


def refuse_empty(volume: xr.DataArray) -> None:
    """Refuse a volume without a single amplitude, before a job is made for it; lines far apart are read first."""
    lines = np.linspace(0, volume.shape[0] - 1, min(FEW_LINES, volume.shape[0])).astype(int)
    for line in dict.fromkeys([*lines.tolist(), *range(volume.shape[0])]):
        amplitudes = volume[line].values
        if (np.isfinite(amplitudes) & (amplitudes != 0)).any():
            return
    raise ValueError(f"{volume_name(volume)} holds only zeros or NaN; give a volume with amplitudes.")


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
    if fresh:
        source = source if hasattr(source, "dims") else oc.open_volume(source)
        refuse_empty(source)
    opened = PageJob(path, source)
    if not known_volume(path)["source"] and source is None:
        raise ValueError(f"Job {path} was made from an array; open it with outcrop.explore(volume, job=...).")
    if fresh and size is not None:
        height, width = np.broadcast_to(parse_size(size, opened.volume) if isinstance(size, str) else size, 2).tolist()
        shape = opened.volume.shape
        opened.choose_index(size=[min(height, shape[2]), min(width, shape[1])])
    return opened
