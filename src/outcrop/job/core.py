"""`Job`: the one way into a job folder for shell, page and notebook."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.job import fitting, labelling, retrieved, table_file
from outcrop.job.choices import JobChoices
from outcrop.job.folder import QUICK
from outcrop.job.hints import Advice, advice
from outcrop.job.inputs import row_list
from outcrop.job.options import LabelOptions
from outcrop.mapping.registry import MAPPERS, POINTS
from outcrop.parallel import Progress, Where
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.index import Index
from outcrop.retrieval.weak import WeakLabels

if TYPE_CHECKING:
    from outcrop.job.auditing import Audit


class Job(JobChoices):
    """A folder with what interpreters decided about a volume and what was computed from it.

    Parameters
    ----------
    path : path
        The job folder, by convention ``NAME.outcrop``; made where it does not exist.
    volume : path or DataArray, optional
        Needed the first time, when the volume moved, and always where it is an array.
    origin : str
        Where the decisions come from: python, shell or page.

    Examples
    --------
    >>> import tempfile
    >>> from outcrop.volumes.opening import open_volume
    >>> amplitudes = np.random.default_rng(0).standard_normal((3, 128, 128))
    >>> job = Job(Path(tempfile.mkdtemp()) / "noise.outcrop", volume=open_volume(amplitudes))
    >>> _ = job.add_exemplar("fault", (1, 60, 60))
    >>> _ = job.add_exemplar("other", (2, 64, 70))
    >>> job.status()["decisions"]["exemplars"], len(job.undo()), job.status()["decisions"]["exemplars"]
    (2, 2, 1)
    """

    # ---- index ------------------------------------------------------------------------------------------------------

    def index(
        self,
        size: int | tuple[int, int] | None = None,
        step: int | tuple[int, int] | None = None,
        every: int | None = None,
        along: str | None = None,
        gain: str | None = None,
        *,
        measure: str | None = None,
        area: dict[str, tuple[float, float]] | str | None = None,
        between: tuple[str, str] | str | None = None,
        sample: int | str | None = None,
        clip: float | str | None = None,
        seed: int | None = None,
        **where: Unpack[Where],
    ) -> Index:
        """Describe the patches of the survey; what is described already is not read again.

        Options that are not given keep the value that was chosen before; ``"auto"`` resets one.

        Parameters
        ----------
        size : int or (int, int), optional
            Height and width of a patch; 99, or less where the volume is smaller.
        step : int or (int, int), optional
            From patch to patch; by default as dense as the size of the survey allows.
        every, along, gain, area, between, sample, clip, seed
            As in `PatchGrid`, by default every inline, and gain ``volume``.
        measure : str, optional
            As in `build_index`.
        **where
            See `Where`.
        """
        self._check_volume(progress=where.get("progress"))
        self.choose_index(
            size=size,
            step=step,
            every=every,
            along=along,
            gain=gain,
            measure=measure,
            area=area,
            between=between,
            sample=sample,
            clip=clip,
            seed=seed,
        )
        return self._index(self.plan, **where)

    def grid(self) -> PatchGrid:
        """Return the patches of the index: where they lie, and how they are cut."""
        return self._grid(self.plan)

    # ---- retrieved patches ------------------------------------------------------------------------------------------

    def retrieve(
        self,
        count: int | str | Mapping[str, int | str] | None = None,
        *,
        per_exemplar: bool | None = None,
        **where: Unpack[Where],
    ) -> WeakLabels:
        """Find patches that look like the exemplars; indexes first where needed.

        Parameters
        ----------
        count : int, "auto" or dict, optional
            Patches of a class, or class -> patches; kept for the next time, ``auto`` at first: see `auto_count`.
        per_exemplar : bool, optional
            As in `outcrop.retrieve`; kept too.
        **where
            See `Where`.

        Returns
        -------
        WeakLabels
            Classes under their present names.
        """
        self._check_volume(progress=where.get("progress"))
        self.choose_counts(count, per_exemplar)
        if not self.plan.queries:
            raise ValueError(
                f"{self.path} has no exemplars yet; add some, for instance fault at inline, crossline, time."
            )
        index = self._index(self.plan, **where)
        note = table_file.take_edits(self, index)
        if note:
            self._note(note)
        plan = self.plan
        weak = retrieved.weak_labels(self, plan, device=where.get("device"))
        key = plan.keys["retrieved"]
        if key is not None and key == self.plan.keys["retrieved"]:  # else the next search publishes its table
            table_file.publish(self, key, weak)
        return weak

    def accept(self, rows: Sequence[int] | int) -> None:
        """Say yes to retrieved patches, given by the column `row` of the table."""
        self.judge(self._patches_at(rows), "accept")

    def reject(self, rows: Sequence[int] | int) -> None:
        """Say no to retrieved patches, given by the column `row` of the table."""
        self.judge(self._patches_at(rows), "reject")

    def _patches_at(self, rows: Sequence[int] | int) -> list[tuple[str, Any, str]]:
        """Return class, place and direction of retrieved patches, given by the column `row` of the table."""
        numbers = row_list(rows)
        found = table_file.published(self)
        if found is None or not set(numbers) <= set(found.index):
            found = self.retrieve().table.set_index("row")
        if not set(numbers) <= set(found.index):  # an earlier no may have moved it out of the table that was looked at
            found = pd.concat([found, retrieved.earlier(self, self.plan)])
        for row in numbers:
            if row not in found.index:
                raise ValueError(f"Row {row} is not among the retrieved patches; give numbers of their column 'row'.")
        dims = list(self.volume.dims)
        chosen = [found.loc[[row]].iloc[0] for row in numbers]
        return [(one["class"], one[dims].tolist(), str(one["along"])) for one in chosen]

    # ---- labels -----------------------------------------------------------------------------------------------------

    def label(
        self,
        lines: Sequence[int] | None = None,
        mapping: str | None = None,
        seed: int | None = None,
        min_confidence: float | None = None,
        max_error: float | None = None,
        *,
        step: int | str | None = None,
        with_jobs: Sequence[str | Path] | None = None,
        **where: Unpack[Where],
    ) -> xr.Dataset:
        """Label lines of the survey; fits where no mapper of the present decisions is stored.

        Parameters
        ----------
        lines : sequence of int, optional
            Survey labels; all lines with live traces by default. Lines whose votes are stored are not computed again.
        mapping : str, optional
            ``points``, or a name of `outcrop.MAPPERS`; by default the one of the last time, `points` at first.
        seed : int, optional
            By default the one of the last time, 0 at first.
        min_confidence, max_error : float, optional
            Samples below a confidence, or as many as would bring more errors than that share, are uncertain. A limit
            stays for the next time; a `min_confidence` of 0 removes it.
        step : int, optional
            Samples and traces between patches, for mappings that take patches of one size; kept for the next time,
            ``auto`` resets it.
        with_jobs : sequence of path, optional
            Jobs on the same volume whose exemplars, strokes and verdicts teach too; kept for the next time, an empty
            sequence removes them.
        **where
            See `Where`; work that is ended goes on with the next call.

        Returns
        -------
        Dataset
            Of those lines: ``label`` (0 not labelled, 255 uncertain, else the code of a class), ``confidence`` (uint8,
            255 = sure) and ``stale`` of every line; lazy.
        """
        self._check_volume(progress=where.get("progress"))
        self.choose_labels(
            mapping=mapping, seed=seed, min_confidence=min_confidence, max_error=max_error, step=step,
            with_jobs=with_jobs,
        )  # fmt: skip
        if self.plan.queries and table_file.is_edited(self):
            self.retrieve(**where)
        fitting.add_background(self, self.plan, **where)
        plan = self.plan
        done = labelling.label_lines(self, plan, lines, **where)
        view, _ = labelling.label_view(self, plan)
        for text in advice(plan, fitting.job_mapper(self, plan), view, done, self.axes[plan.along]):
            warnings.warn(text, Advice, stacklevel=2)
        return self._dataset().isel({DIRECTIONS[plan.along]: done})

    def choose_labels(
        self,
        *,
        min_confidence: float | None = None,
        max_error: float | None = None,
        with_jobs: Sequence[str | Path] | None = None,
        **given: Any,
    ) -> None:
        """Decide how labels are made and which of them are uncertain, with the options of `label`."""
        mapping, step = given.get("mapping"), given.get("step")
        if mapping is not None and mapping not in (*MAPPERS, POINTS):
            raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join((*MAPPERS, POINTS))}.")
        size = cast(tuple[int, int], self.options.index.fitted(tuple(self._known["shape"])).size)
        most = min(size)
        if isinstance(step, int | np.integer) and step > most:
            raise ValueError(f"step is {step}; choose 1 to {most}, the size of a patch, or auto for a third of it.")
        if mapping is not None:
            given["mapper"] = "auto"
        chosen = self.options.label.updated(**given)
        if min_confidence is not None or max_error is not None:
            LabelOptions(min_confidence=min_confidence, max_error=max_error)  # refuses both at once
            limits = {"min_confidence": min_confidence or "auto", "max_error": max_error or "auto"}
            chosen = chosen.updated(min_confidence="auto", max_error="auto").updated(**limits)
        names: list[str] = []
        if with_jobs is not None:
            chosen = chosen.updated(with_jobs=tuple(str(Path(path).resolve()) for path in with_jobs))
            names = [name for path in chosen.with_jobs for name in self._joined_job(path).classes]  # refused if no job
        with self.log.act():
            for name in names:
                entries, _ = self._new_class(name)
                if entries:
                    self._decide(*entries)
            self.choose(label=chosen)

    def mapper(self, **where: Unpack[Where]) -> Any:
        """Return the mapper that the decisions lead to: loaded where it was fitted before, fitted otherwise."""
        self._check_volume(progress=where.get("progress"))
        return fitting.named_mapper(self, self.plan, **where)

    def borrow_mapper(self, source: "Job", *, progress: Progress | None = None) -> None:
        """Label this volume with the mapper of another job, which is copied here; its classes keep their order."""
        found = fitting.borrow(self, source, progress)
        label = LabelOptions(source.plan.label.mapping, mapper=found["mapper"])
        with self.log.act():
            for name in found["classes"]:
                entries, _ = self._new_class(name)
                if entries:
                    self._decide(*entries)
            self.choose(index=self.options.index.updated(**found["index"]), label=label)
            self.set_background(source.background)

    @property
    def labels(self) -> xr.Dataset:
        """Labels of the whole survey, lazy; lines of older decisions are marked in ``stale``."""
        self._check_volume(most=QUICK)
        return self._dataset()

    def _dataset(self) -> xr.Dataset:
        return labelling.label_dataset(self, self.plan).assign_attrs(colours=self.palette)

    @property
    def labelled(self) -> dict[int, bool]:
        """Position of every labelled line, and whether its labels are stale."""
        self._check_volume(most=QUICK)
        return labelling.labelled_lines(self, self.plan)

    def fused_labels(self, **where: Unpack[Where]) -> xr.Dataset:
        """Return labels by the votes of both directions: the lines across are labelled with the same mapper; lazy.

        They are stored as those of the lines are; `labels` and exports do not change. Votes of both directions and of
        the eight traces around a sample count, so that `outcrop.bodies` are not striped along one direction. A class of
        which the lines across show little, such as faults of one strike, counts by the votes of the lines alone:
        ``attrs["one_sided"]`` names it, with how far the directions agree.
        """
        from outcrop.job.fusion import fused_labels

        return fused_labels(self, **where)

    def changes(self, line: int) -> dict[str, Any]:
        """Return what the last stroke changed on a line, as far as its votes from before are stored.

        Returns
        -------
        dict
            ``where`` (bool, traces and samples of the line), ``share`` of the labelled samples that are not painted
            whose label changed, and ``table``: a DataFrame of from, to and samples.
        """
        from outcrop.job.changes import changes

        return changes(self, line)

    def export(
        self,
        path: str | Path,
        *,
        what: str = "label",
        format: int = 5,
        stale: bool = False,
        seed: int = 0,
        memory: int | None = None,
    ) -> str:
        """Write labels as SEG-Y (.sgy), .zarr, .npy, .png of one section or, to any other folder, as a training set.

        Parameters
        ----------
        path : path
        what : str
            ``label``, ``confidence``, ``score:CLASS``, or ``class:CLASS``: 1 where that is the label, 0 elsewhere;
            a Zarr holds those of all classes.
        format : int
            SEG-Y sample format.
        stale : bool
            Write lines of older decisions too; refused otherwise.
        seed : int
            Of the split of a training set.

        Returns
        -------
        str
            A sentence on what was written: lines labelled, stale, missing.
        """
        from outcrop.job.exports import export

        return export(self, path, what=what, format=format, stale=stale, seed=seed, memory=memory)

    def evaluate(self, truth: str | Path, *, lines: Sequence[int] | None = None) -> dict[str, Any]:
        """Return scores of the labels against expert labels on the lines that both have; see `outcrop evaluate`."""
        from outcrop.job.scoring import score_labels

        return score_labels(self, truth, lines=lines)

    def audit(self, clicks: int = 30, *, of: str = "patches", seed: int = 0) -> "Audit":
        """Return random patches or labelled samples to say yes, no or cannot tell to; see `Audit`."""
        from outcrop.job.auditing import Audit

        return Audit(self, clicks, of=of, seed=seed)

    def unseen(self, groups: int = 5, *, seed: int = 0) -> pd.DataFrame:
        """Return patches that look like nothing that was marked, in a few groups; see `unseen_groups`."""
        from outcrop.job.unseen import unseen_groups

        return unseen_groups(self, groups, seed=seed)

    # ---- the folder -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what is decided and done, under which keys, and what would run next."""
        from outcrop.job.status import status

        return status(self)

    def clean(self, *, keep: int | None = None, dry_run: bool = False) -> list[dict[str, Any]]:
        """Free the space of what older keys hold; see `outcrop clean`."""
        from outcrop.job.status import clean

        return clean(self, keep=keep, dry_run=dry_run)
