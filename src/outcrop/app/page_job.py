"""The job that the page works on: a `Job` with further methods and properties for the page."""

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
from outcrop.job.choosing import choose_options
from outcrop.job.core import Job
from outcrop.job.decisions import Decisions
from outcrop.job.options import IndexOptions
from outcrop.job.plan import Plan, Stage, chosen_options
from outcrop.job.sections import filled_section, marked_sections
from outcrop.job.strokes import excluded_sections, section_of
from outcrop.mapping.survey_sample import nodes_of
from outcrop.parallel import one_blas_thread
from outcrop.retrieval.index import build_index, finished_index
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.stages import digest
from outcrop.storage.workspace import Workspace
from outcrop.volumes.amplitude import volume_name
from outcrop.volumes.identity import known_volume
from outcrop.volumes.lengths import parse_size

FEW_LINES = 16  # number of lines, far apart, that are read before all others


class PageLog(Decisions):
    """The log of the decisions of a job; in a ``with`` block of `held`, the log reads no new decisions.

    The page is drawn in such a block. Drawing asks for the decisions about a hundred times; outside the block, the log
    would look for new entries on the disk each time. Other threads run while it looks, so that a click would wait for
    these threads while a survey is being labelled.
    """

    def __init__(self, job: Path) -> None:
        super().__init__(job, origin="page")
        self._drawing = threading.local()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Read new decisions once, and read no more in this thread until the ``with`` block ends."""
        before = getattr(self._drawing, "held", False)
        self.refresh()
        self._drawing.held = True
        try:
            yield
        finally:
            self._drawing.held = before

    def refresh(self) -> None:
        """Read the decisions that were written since the last call; do nothing inside `held`."""
        if not getattr(self._drawing, "held", False):
            super().refresh()


class Found(NamedTuple):
    """Retrieved patches, with digests of the inputs from which they were made."""

    weak: WeakLabels
    key: str | None  # digest of all inputs
    basis: str | None  # digest of all inputs except the verdicts


class PageJob(Job):
    """A job with further methods for the page.

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
        """Close the files to which this page writes decisions."""
        super().close()
        if self._chooser is not None:
            self._chooser.log.close()

    @property
    def person(self) -> str:
        """Name of the person at this page, such as ``ann@ws1``; see `person_of` in `outcrop.app.words`."""
        return self.log.who.rpartition("-")[0]

    def last_act(self) -> list[dict[str, Any]]:
        """Return the log entries of the act that was undone or redone last; call this right after an undo or redo."""
        entries = self.log.entries
        return [entry for entry in entries if entry["id"] in entries[-1]["of"]]

    # ---- decisions --------------------------------------------------------------------------------------------------

    def first_name(self, name: str) -> str:
        """Return the first name of a class, which stays the same when the class is renamed.

        A text that is not the present name of a class is returned unchanged.
        """
        return self.plan.firsts.get(name, name)

    @property
    def exemplars(self) -> list[Any]:
        """The exemplars of the job, with the present class names; an exemplar given as a picture has ``place`` None."""
        plan = self.plan
        return [one._replace(name=plan.names[one.name]) for one in plan.state.exemplars]

    @property
    def strokes(self) -> list[dict[str, Any]]:
        """The strokes of the job that are not undone, each as an entry (dict) of the log of decisions."""
        return self.plan.state.strokes

    def verdicts(self, name: str) -> dict[tuple[Any, str], bool]:
        """Return the verdicts on the patches of a class.

        The result is a dict: (place, direction) of a patch -> True if it was accepted, False if it was rejected.
        """
        first = self.first_name(name)
        return {(one.place, one.along): one.accept for one in self.plan.state.verdicts if one.name == first}

    def section_of(self, stroke: dict[str, Any]) -> tuple[int, int] | None:
        """Return (direction, position) of the section with a given stroke; None if the volume lacks this section."""
        section: tuple[int, int] | None = section_of(stroke, self.axes)
        return section

    def painted_on(self, direction: int, position: int) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]:
        """Return the painted class and the excluded classes at each sample of a section.

        Returns
        -------
        painted : array, shape (n_traces, n_samples), or None
            Code of the painted class, 0 where nothing is painted; None if the section has no strokes.
        excluded : bool array, shape (n_classes, n_traces, n_samples), or None
            True where strokes state that the label is not this class; None if no class is excluded. Exclusions by
            rejected fault sticks are left out.
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
        """Return the index options `chosen` with automatic values of patch size and step filled in for the survey."""
        return chosen.fitted(tuple(self.plan.volume["shape"]))

    def patches_of(self, chosen: IndexOptions) -> int:
        """Return the approximate number of patches that an index with the given options contains."""
        return self.full(chosen).patch_count(tuple(self.plan.volume["shape"]))

    def choose_where(self, index: IndexOptions, survey: IndexOptions | None, *, by_page: bool = False) -> None:
        """Log the options of the index that the next search uses.

        Parameters
        ----------
        index : IndexOptions
            Options of the index to search: of the whole survey, or of the neighbourhood of a line.
        survey : IndexOptions or None
            If `index` covers only a neighbourhood, the options of the later index of the whole survey; else None.
        by_page : bool
            If True, the choice is logged as made by the page, so that the interpreter's undo does not cancel it.
        """
        mark = None if survey is None else {"area": index.area, "survey": survey.changed()}
        choose_options(self._as_page() if by_page else self, index=index, neighbourhood=mark)

    def _as_page(self) -> "PageJob":
        if self._chooser is None:
            _ = self.log.who  # creates the interpreter's file first
            self._chooser = copy.copy(self)
            self._chooser.log = PageLog(self.path)
        return self._chooser

    def counts(self) -> dict[str, Any]:
        """Return a dict: class -> requested number of patches, or "auto"; classes without a request are left out."""
        names, count = self.plan.names, self.plan.retrieval.count
        given = count if isinstance(count, dict) else {} if count == "auto" else dict.fromkeys(names, count)
        return {names[first]: number for first, number in given.items() if first in names}

    @property
    def chosen_index(self) -> IndexOptions:
        """Options of the index as they were chosen, before automatic values are filled in."""
        return chosen_options(self.log.state()).index

    # ---- index and retrieved patches --------------------------------------------------------------------------------

    @property
    def indexed(self) -> bool:
        """Whether the index with the present options is finished."""
        return self._indexed(self.plan)

    def index_finished(self, chosen: IndexOptions) -> bool:
        """Return whether the index with the given options is finished."""
        stage = Stage("index", self.full(chosen).inputs(self.plan.volume["digest"]))
        return finished_index(self.stages, stage.key)

    def ever_indexed(self) -> bool:
        """Return whether the job has or had a finished index, with any options."""
        return self.indexed or bool(self.stages.last("index"))

    def opened_index(self, progress: Any = None) -> Any:
        """Return the index with the present options; build the index if it is missing."""
        return self._index(self.plan, progress=progress)

    def build(self, chosen: IndexOptions, task: Any) -> None:
        """Build the index with the given options, without logging a decision; `task` receives the progress."""
        full = self.full(chosen)
        grid = full.grid(self.volume)
        task.total = len(grid)
        measure: dict[str, Any] = {name: getattr(full, name) for name in ("measure", "truncate", "finest")}
        build_index(self.volume, grid, self.path, progress=lambda _, done, total: task.progress_behind(done), **measure)

    def patches(self, *, newest: bool = False) -> Found | None:
        """Return the stored patches that were retrieved with the present decisions, without computing or writing.

        If no such patches are stored, return None; but if `newest` is True, return the patches of the last search, even
        if decisions changed since.
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
        """Return (reader of the labels, positions of stale lines, class names of the codes 1, 2, ...).

        The labels are those of `plan`, the decisions and options of the job at one moment.
        """
        labels, stale = labelling.label_view(self, plan)
        return labels, stale, labelling.class_names(plan, labels)

    def learns_at_once(self, plan: Plan) -> bool:
        """Return whether the mapper can learn from a stroke within seconds."""
        return fitting.learns_at_once(self, plan)

    def label_lines(self, plan: Plan, lines: Sequence[Any] | None, **options: Any) -> None:
        """Label the lines with the numbers `lines`; None labels the survey. See `outcrop.job.labelling.label_lines`."""
        labelling.label_lines(self, plan, lines, **options)

    def add_background(self, plan: Plan) -> None:
        """Add a background class if the survey needs one; see `outcrop.job.fitting.add_background`."""
        fitting.add_background(self, plan)

    def describe_line(self, position: int) -> None:
        """Compute and cache the features of the line at a position, so that labels after a stroke are ready sooner."""
        plan = self.plan
        if plan.by_points:
            with one_blas_thread():  # as for all labels
                nodes_of(filled_section(self, plan, plan.along, position)[0])

    def next_line(self, plan: Plan) -> dict[str, Any] | None:
        """Return the line to correct next, and its place of lowest confidence; see `outcrop.job.advice.next_line`."""
        return next_line(self, plan)

    # ---- warnings ---------------------------------------------------------------------------------------------------

    def fitted_mapper(self, plan: Plan) -> Any:
        """Return the stored mapper for `plan` (decisions and options at one moment); None if it was not fitted yet."""
        key = plan.mapper_key
        kept = key is not None and (self.stages.path("mapper", key) / "mapper").is_dir()
        return fitting.job_mapper(self, plan) if kept else None

    def retrieval_warnings(self, weak: WeakLabels) -> list[str]:
        """Return the warnings about retrieved patches; the command line prints the same warnings."""
        if not self.indexed:
            return []
        usable = int((self._index(self.plan).status == 0).sum())
        return [*retrieved.warnings(weak, usable), *retrieved.exemplars_outside(self)]

    # ---- sizes of journals ------------------------------------------------------------------------------------------

    def written(self, kind: str) -> int:
        """Return the size in bytes of a stage's journal file, which grows with every new result of the stage.

        `kind` is the name of the stage, such as "index".
        """
        path = self.stages.root / kind / "journal.txt"
        return path.stat().st_size if path.is_file() else 0

    def labels_written(self) -> int:
        """Return the size in bytes of the files that list labelled lines; it grows with every labelled line."""
        return sum(path.stat().st_size for path in (self.stages.root / "votes").glob("*/votes.done"))


def refuse_empty(volume: xr.DataArray) -> None:
    """Raise an error if all amplitudes of a volume are zero or missing; a few lines, far apart, are read first."""
    lines = np.linspace(0, volume.shape[0] - 1, min(FEW_LINES, volume.shape[0])).astype(int)
    for line in dict.fromkeys([*lines.tolist(), *range(volume.shape[0])]):
        amplitudes = volume[line].values
        if (np.isfinite(amplitudes) & (amplitudes != 0)).any():
            return
    raise ValueError(f"{volume_name(volume)} holds only zeros or NaN; give a volume with amplitudes.")


def open_job(source: Any, job: str | Path | None, size: Any) -> PageJob:
    """Open a job folder, or the job of a volume; create the job if the volume has no job.

    Parameters
    ----------
    source : path or DataArray
        A volume, or a job folder.
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a new job, in samples and traces or in the format of `parse_size`; an existing job keeps its size.
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
