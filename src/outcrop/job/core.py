"""`Job`: decisions, index, retrieved patches and labels of a job folder, for shell, page and notebook."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd
import xarray as xr

from outcrop.job import fitting, labelling, retrieved, table_file
from outcrop.job.choices import JobChoices, judge
from outcrop.job.choosing import choose_counts, choose_labels, choose_options
from outcrop.job.folder import QUICK
from outcrop.job.hints import Advice, advice
from outcrop.job.inputs import row_list
from outcrop.job.options import LabelOptions
from outcrop.job.plan import chosen_options
from outcrop.parallel import Progress, Where
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.index import Index
from outcrop.retrieval.weak import WeakLabels

if TYPE_CHECKING:
    from outcrop.job.auditing import Audit


class Job(JobChoices):
    """A folder with the decisions of interpreters about a volume, and the results computed from them.

    Parameters
    ----------
    path : path
        The job folder, by convention ``NAME.outcrop``; created if it does not exist.
    volume : path or DataArray, optional
        The seismic volume. Required for a new job, if the file was moved, and always if the volume is an array.
    origin : str
        Program that makes the decisions, recorded with them: ``python``, ``shell`` or ``page``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
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
        """Compute the descriptors of the patches of the survey; an unfinished index is continued.

        Options that are not given keep their value from the last call; ``"auto"`` resets one.

        Parameters
        ----------
        size : int or (int, int), optional
            Height in samples and width in traces of a patch; by default 99, or less if the volume is smaller.
        step : int or (int, int), optional
            Samples and traces from one patch to the next; by default chosen by the size of the survey.
        every, along, gain, area, between, sample, clip, seed
            As in `PatchGrid`; by default patches lie on all inlines and have the gain ``volume``.
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
        """Return the grid of the patches of the index: their positions, and how they are cut from the volume."""
        return self._grid(self.plan)

    # ---- retrieved patches ------------------------------------------------------------------------------------------

    def retrieve(
        self,
        count: int | str | Mapping[str, int | str] | None = None,
        *,
        per_exemplar: bool | None = None,
        **where: Unpack[Where],
    ) -> WeakLabels:
        """Find patches that look like the exemplars; build the index first if it is not finished.

        Parameters
        ----------
        count : int, "auto" or dict, optional
            Number of patches for each class, or class -> number; kept for the next call. A new job has ``auto``, a
            number chosen from the similarities; see `auto_count`.
        per_exemplar : bool, optional
            As in `outcrop.retrieve`; kept for the next call.
        **where
            See `Where`.

        Returns
        -------
        WeakLabels
            The retrieved patches of all classes, under the present class names.
        """
        self._check_volume(progress=where.get("progress"))
        choose_counts(self, count, per_exemplar)
        if not self.plan.queries:
            raise ValueError(
                f"{self.path} has no exemplars yet; add one first: a class at an inline, crossline and time."
            )
        index = self._index(self.plan, **where)
        note = table_file.take_edits(self, index)
        if note:
            self._note(note)
        plan = self.plan
        weak = retrieved.weak_labels(self, plan, device=where.get("device"))
        key = plan.keys["retrieved"]
        if key is not None and key == self.plan.keys["retrieved"]:  # else decisions changed during the search
            table_file.publish(self, key, weak)
        return weak

    def accept(self, rows: Sequence[int] | int) -> None:
        """Accept retrieved patches, given by their numbers in the column ``row`` of the table of retrieved patches."""
        judge(self, self._patches_at(rows), "accept")

    def reject(self, rows: Sequence[int] | int) -> None:
        """Reject retrieved patches, given by their numbers in the column ``row`` of the table of retrieved patches."""
        judge(self, self._patches_at(rows), "reject")

    def _patches_at(self, rows: Sequence[int] | int) -> list[tuple[str, Any, str]]:
        """Return a list of (class, place, direction) of the patches with the numbers `rows` in the column ``row``."""
        numbers = row_list(rows)
        found = table_file.published(self)
        if found is None or not set(numbers) <= set(found.index):
            found = self.retrieve().table.set_index("row")
        if not set(numbers) <= set(found.index):  # a row of an earlier table
            found = pd.concat([found, retrieved.earlier(self, self.plan)])
        for row in numbers:
            if row not in found.index:
                raise ValueError(f"Row {row} is not in the retrieved table; give numbers from its column 'row'.")
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
        """Label lines of the survey; fit a mapper first if none is stored for the present decisions.

        Parameters
        ----------
        lines : sequence of int, optional
            Line numbers; all lines with live traces by default. Lines whose votes are stored are not computed again.
        mapping : str, optional
            ``points``, or a name of `outcrop.MAPPERS`; by default the mapping of the last call, at first ``points``.
        seed : int, optional
            By default the seed of the last call, at first 0.
        min_confidence, max_error : float, optional
            Samples with a confidence below `min_confidence` are uncertain; `max_error` chooses this minimum so that the
            expected share of wrong labels is at most `max_error`. Kept for the next call; 0 removes the minimum.
        step : int, optional
            Samples and traces from one patch to the next, for mappings that need patches of one size; kept for the next
            call, ``auto`` resets it.
        with_jobs : sequence of path, optional
            Jobs on the same volume whose exemplars, strokes and verdicts the mapper learns from too; kept for the next
            call, an empty sequence removes them.
        **where
            See `Where`; the next call continues interrupted work.

        Returns
        -------
        Dataset
            The labelled lines, read lazily: ``label`` (0 not labelled, 255 uncertain, else the code of a class),
            ``confidence`` (uint8, 255 = highest) and ``stale`` (one value for each line).
        """
        self._check_volume(progress=where.get("progress"))
        choose_labels(
            self, mapping=mapping, seed=seed, min_confidence=min_confidence, max_error=max_error, step=step,
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

    def mapper(self, **where: Unpack[Where]) -> Any:
        """Return the mapper of the present decisions; fit it first if none is stored."""
        self._check_volume(progress=where.get("progress"))
        return fitting.named_mapper(self, self.plan, **where)

    def borrow_mapper(self, source: "Job", *, progress: Progress | None = None) -> None:
        """Copy the mapper of another job to label this volume with it; add its classes to this job."""
        found = fitting.borrow(self, source, progress)
        label = LabelOptions(source.plan.label.mapping, mapper=found["mapper"])
        with self.log.act():
            self._add_classes(found["classes"])
            choose_options(self, index=chosen_options(self.log.state()).index.updated(**found["index"]), label=label)
            self.set_background(source.plan.background_name)

    @property
    def labels(self) -> xr.Dataset:
        """Labels of the whole survey, read lazily; a Dataset as from `label`."""
        self._check_volume(most=QUICK)
        return self._dataset()

    def _dataset(self) -> xr.Dataset:
        return labelling.label_dataset(self, self.plan).assign_attrs(colours=self.palette)

    @property
    def labelled(self) -> dict[int, bool]:
        """Position on the axis (0 is the first line) -> whether the labels are stale, for all labelled lines."""
        self._check_volume(most=QUICK)
        return labelling.labelled_lines(self, self.plan)

    def fused_labels(self, **where: Unpack[Where]) -> xr.Dataset:
        """Return labels, read lazily, that are decided from the votes of both inlines and crosslines.

        Lines of the other direction (crosslines if `label` labels inlines) are labelled first if they have no votes
        yet. Their votes are stored; `labels` and exports do not change.

        The label of a sample is decided from the votes of both directions, at its own trace and at the eight traces
        around it. Geobodies in these labels therefore have no stripes along one direction. If the two directions agree
        little on a class (for instance on faults of one strike), only the votes of the direction that `label` labels
        count for this class. ``attrs["one_sided"]`` maps each such class to the agreement (an IoU).
        """
        from outcrop.job.fusion import fused_labels

        return fused_labels(self, **where)

    def changes(self, line: int) -> dict[str, Any]:
        """Return the labels that the last stroke changed on the line with number `line`.

        The line must have stored votes from before the stroke.

        Returns
        -------
        dict
            ``where``: mask of the samples whose label changed, shape (n_traces, n_samples). ``share``: their share of
            the labelled samples outside strokes. ``table``: number of changed samples (column ``samples``) by label
            before (``from``) and after (``to``) the stroke.
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
        """Write labels as SEG-Y (.sgy), .zarr, .npy or .png (one section); to any other folder, write a training set.

        Parameters
        ----------
        path : path
            File or folder to write.
        what : str
            ``label``, ``confidence``, ``score:CLASS`` (share of votes), or ``class:CLASS`` (1 in the class, else 0).
            A Zarr store gets the scores or masks of all classes.
        format : int
            SEG-Y sample format: 5 IEEE float, 1 IBM float, 8 one byte.
        stale : bool
            If True, also write stale lines; if False, they raise ValueError.
        seed : int
            Seed of the split of a training set.
        memory : int, optional
            Bytes of memory to use.

        Returns
        -------
        str
            A sentence with the numbers of lines that were written, are stale and are missing.
        """
        from outcrop.job.exports import export

        return export(self, path, what=what, format=format, stale=stale, seed=seed, memory=memory)

    def evaluate(self, truth: str | Path, *, lines: Sequence[int] | None = None) -> dict[str, Any]:
        """Return scores of the labels against expert labels on the lines that have both; see `outcrop evaluate`."""
        from outcrop.job.scoring import score_labels

        return score_labels(self, truth, lines=lines)

    def audit(self, clicks: int = 30, *, of: str = "patches", seed: int = 0) -> "Audit":
        """Return random retrieved patches or labelled samples for a person to check; see `Audit`."""
        from outcrop.job.auditing import Audit

        return Audit(self, clicks, of=of, seed=seed)

    def unseen(self, groups: int = 5, *, seed: int = 0) -> pd.DataFrame:
        """Return a table of patches unlike all exemplars, in groups of similar patches; see `unseen_groups`."""
        from outcrop.job.unseen import unseen_groups

        return unseen_groups(self, groups, seed=seed)

    # ---- the folder -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return counts of decisions and results, the cache keys of all stages, and the next step."""
        from outcrop.job.status import status

        return status(self)

    def clean(self, *, keep: int | None = None, dry_run: bool = False) -> list[dict[str, Any]]:
        """Delete results that are no longer used, to free disk space; see `outcrop clean`."""
        from outcrop.job.status import clean

        return clean(self, keep=keep, dry_run=dry_run)
