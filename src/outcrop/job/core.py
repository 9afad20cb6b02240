"""`Job`: the one way into a job folder for shell, page and notebook."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop.job import labelling, options, tables
from outcrop.job.choices import JobChoices
from outcrop.job.folder import QUICK
from outcrop.job.inputs import Count, as_json, patch_count
from outcrop.job.state import State
from outcrop.mapping.registry import MAPPERS
from outcrop.measures.registry import indexed_measure
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.index import Index, build_index, finished_index, index_inputs
from outcrop.retrieval.weak import WeakLabels
from outcrop.storage.stages import digest
from outcrop.storage.workspace import Damaged

if TYPE_CHECKING:
    from outcrop.job.auditing import Audit


class Job(JobChoices):
    """A folder with what interpreters decided about a volume and what was computed from it.

    Parameters
    ----------
    path : path
        The job folder, by convention ``NAME.outcrop``; it is made where it is not there.
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
    >>> job.add_exemplar("fault", (1, 60, 60))
    >>> job.add_exemplar("other", (2, 64, 70))
    >>> job.status()["decisions"]["exemplars"], job.undo(), job.status()["decisions"]["exemplars"]
    (2, True, 1)
    """

    # ---- index ------------------------------------------------------------------------------------------------------

    def index_options(self, state: State | None = None) -> dict:
        """Options of the index that the decisions ask for, with size and step resolved."""
        return options.index_options((state or self.state).options.get("index", {}), self.known["shape"])

    def grid(self, state: State | None = None) -> PatchGrid:
        """The plan of patches that the decisions ask for."""
        found = self.index_options(state)
        key = digest(found, self.known["digest"])
        with self._lock:
            if self._opened.get("grid", ("",))[0] != key:
                given = {name: found[name] for name in options.GRID_OPTIONS}
                self._opened["grid"] = (key, PatchGrid(self.volume, **given))
            return self._opened["grid"][1]

    def choose_index(self, **given: Any) -> None:
        """Decide on the options of the index: those given, in place of all earlier ones."""
        self._set("index", self.check_index(**given) or None)

    def check_index(self, **given: Any) -> dict:
        """Options of an index that differ from the defaults, as they are kept; refused where they cannot be."""
        for name in given.keys() - options.INDEX.keys():
            raise ValueError(f"An index has no option {name!r}; choose from {', '.join(options.INDEX)}.")
        chosen = {name: value for name, value in given.items() if value not in (None, options.INDEX[name])}
        if "between" in chosen:
            chosen["between"] = [str(Path(path).resolve()) for path in chosen["between"]]
        chosen = as_json(chosen)
        found = options.index_options(chosen, self.known["shape"])
        grid = PatchGrid(self.volume, **{name: found[name] for name in options.GRID_OPTIONS})
        indexed_measure(found).blocks(grid.size)  # like the grid it refuses what cannot be
        return chosen

    def set_options(self, values: dict) -> None:
        """Keep several options as one decision, which one undo takes back."""
        self._set(*(part for pair in values.items() for part in pair))

    def index(
        self,
        size: int | tuple[int, int] | None = None,
        step: int | tuple[int, int] | None = None,
        every: int | None = None,
        along: str | None = None,
        gain: str | None = None,
        *,
        workers: int | None = None,
        client: Any = None,
        memory: int | None = None,
        device: str | None = None,
        progress: Callable | None = None,
        **more: Any,
    ) -> Index:
        """Describe the patches of the survey; what is described already is not read again.

        Without any option those that were chosen for the job before stay; with one, all others are the defaults.

        Parameters
        ----------
        size : int or (int, int), optional
            Height and width of a patch; 99, or less where the volume is smaller.
        step : int or (int, int), optional
            From patch to patch; by default as dense as the size of the survey allows.
        every, along, gain
            As in `PatchGrid`, by default 1, ``inline`` and ``volume``, and so are ``area``, ``between``, ``sample``,
            ``clip`` and ``seed``.
        workers, client, memory, device
            As in `build_index`, and so are ``measure``, ``truncate`` and ``finest``.
        progress : callable, optional
            Called as ``progress(what, done, total)``.
        """
        self.check_volume(progress=progress)
        given = {"size": size, "step": step, "every": every, "along": along, "gain": gain} | more
        if any(value is not None for value in given.values()):
            self.choose_index(**given)
        return self.open_index(workers=workers, client=client, memory=memory, device=device, progress=progress)

    def index_key(self, state: State | None = None) -> str:
        """Key of the index that the decisions ask for."""
        return digest("index", index_inputs(self.known["digest"], self.index_options(state)))

    def indexed(self, state: State | None = None) -> bool:
        """Whether the index that the decisions ask for is finished."""
        return finished_index(self.stages, self.index_key(state))

    def open_index(
        self,
        state: State | None = None,
        *,
        workers: int | None = None,
        client: Any = None,
        memory: int | None = None,
        device: str | None = None,
        progress: Callable | None = None,
    ) -> Index:
        """The index that the decisions ask for, made where it is not there."""
        state = state or self.state
        key = self.index_key(state)
        with self._lock:
            if self._opened.get("index", ("",))[0] == key:
                index = self._opened["index"][1]
                index.client, index.memory = client, memory
                return index
        grid, found = self.grid(state), self.index_options(state)
        index = self._finished_index(key, grid, found)
        if index is not None:
            index.client, index.memory = client, memory
            return index
        report = progress and (lambda done: progress("describing patches", done, len(grid)))
        index = build_index(
            self.volume, grid, self.path, measure=found["measure"], truncate=found["truncate"], finest=found["finest"],
            workers=workers, client=client, memory=memory, device=device, progress=report, known=self.known,
        )  # fmt: skip
        index.client, index.memory = client, memory
        with self._lock:
            self._opened["index"] = (index.key, index)
        return index

    def _finished_index(self, key, grid, found):
        """An index that is finished, opened without writing anything; None where it is not there or damaged."""
        if not finished_index(self.stages, key):
            return None
        try:
            index = Index(self.path, key, self.volume, grid, indexed_measure(found))
        except Damaged:
            return None
        with self._lock:
            self._opened["index"] = (key, index)
        return index

    # ---- retrieved patches ------------------------------------------------------------------------------------------

    def choose_retrieval(
        self, *, count: Count | None = None, per_exemplar: bool | None = None, diverse: bool | None = None
    ) -> None:
        """Decide how many patches are retrieved and how; None leaves an option as it is.

        `count` is a number, ``auto``, or class -> one of these.
        """
        pairs: list = []
        if count is not None:
            if isinstance(count, dict):
                count = {self._class(name): patch_count(n) for name, n in count.items()}
            else:
                count = patch_count(count)
            pairs += ["count", None if count == "auto" else count]
        for name, value in (("per_exemplar", per_exemplar), ("diverse", diverse)):
            if value is not None:
                pairs += [name, bool(value) or None]
        self._set(*pairs)

    def retrieve(
        self,
        count: Count | None = None,
        *,
        per_exemplar: bool | None = None,
        diverse: bool | None = None,
        device: str | None = None,
        progress: Callable | None = None,
        **where: Any,
    ) -> WeakLabels:
        """Patches that look like the exemplars; indexes first where needed.

        Parameters
        ----------
        count : int, "auto" or dict, optional
            Patches of a class, or class -> patches; kept for the next time, ``auto`` at first: see `auto_count`.
        per_exemplar, diverse : bool, optional
            As in `outcrop.retrieve`; kept too.
        device : str, optional
            Search on a torch device.
        progress : callable, optional
            Called as ``progress(what, done, total)``.
        **where
            ``workers``, ``client``, ``memory`` of `index`.

        Returns
        -------
        WeakLabels
            Classes under their present names.
        """
        self.check_volume(progress=progress)
        self.choose_retrieval(count=count, per_exemplar=per_exemplar, diverse=diverse)
        if not self.retrievable():
            raise ValueError(
                f"{self.path} has no exemplars yet; add some, for instance fault at inline, crossline, time."
            )
        index = self.open_index(progress=progress, **where)
        for text in tables.take_edits(self, index):
            self._note(text)
        state = self.state
        key, weak = tables.retrieved(self, self.open_index(state), state, device=device)
        if key == self.retrieved_key():  # decided otherwise meanwhile: the next search publishes its table
            tables.publish(self, key, weak)
        return weak

    @property
    def notes(self) -> list:
        """Sentences about what was noticed on the way, for instance that a table was edited by hand."""
        return self.__dict__.setdefault("_notes", [])

    def retrievable(self) -> bool:
        """Whether there is an exemplar, or an accepted patch, to look for."""
        return bool(self.state.queries())

    def retrieved_key(self, state: State | None = None) -> str | None:
        """Key of the patches that the decisions lead to, None where there are no exemplars."""
        return tables.retrieved_key(state or self.state, self.index_key(state))

    # ---- labels -----------------------------------------------------------------------------------------------------

    def choose_labels(
        self,
        *,
        mapping: str | None = None,
        seed: int | None = None,
        min_confidence: float | None = None,
        max_error: float | None = None,
        step: int | str | None = None,
        with_jobs: Sequence[str | Path] | None = None,
    ) -> None:
        """Decide how labels are made and which of them are uncertain.

        What is None stays as it was. A `min_confidence` of 0 lifts a limit, a `step` of ``auto`` the step, and no
        `with_jobs`, an empty sequence, the jobs.
        """
        for name, value in (("min_confidence", min_confidence), ("max_error", max_error)):
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; choose a value between 0 and 1.")
        if max_error is not None and (min_confidence is not None or not 0 < max_error < 1):
            raise ValueError(
                f"max_error is {max_error}; choose a value between 0 and 1, and no min_confidence with it; "
                "min_confidence 0 alone lifts the limit."
            )
        before = options.LABEL | self.state.options.get("label", {})
        if mapping is not None and mapping not in MAPPERS:
            raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join(MAPPERS)}.")
        seed = before["seed"] if seed is None else seed
        if int(seed) != seed or seed < 0:
            raise ValueError(f"seed is {seed}; choose a whole number from 0 on.")
        step = before["step"] if step is None else None if step == "auto" else step
        most = min(self.index_options()["size"])
        if step is not None and (not isinstance(step, int | np.integer) or not 1 <= step <= most):
            raise ValueError(f"step is {step}; choose 1 to {most}, the size of a patch, or auto for a third of it.")
        others = [Job(path) for path in with_jobs or ()]  # refused here where one is none
        paths = before["with"] if with_jobs is None else [str(Path(path).resolve()) for path in with_jobs]
        chosen = {"mapping": mapping or before["mapping"], "seed": int(seed), "step": step and int(step)}
        chosen |= {"with": paths, "mapper": before["mapper"]}
        if mapping is not None:
            chosen["mapper"] = None
        chosen = {name: value for name, value in chosen.items() if value != options.LABEL[name]}
        limits = self.state.options.get("limits")
        if min_confidence is not None or max_error is not None:
            limits = {"max_error": max_error} if min_confidence is None else {"min_confidence": min_confidence}
        self._set("label", chosen or None, "limits", None if limits == {"min_confidence": 0} else limits)
        for other in others:
            for name in other.classes:
                entries, _ = self._new_class(name)
                if entries:
                    self._decide(*entries)

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
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> xr.Dataset:
        """Label lines of the survey; fits where no mapper of the present decisions is there.

        Parameters
        ----------
        lines : sequence of int, optional
            Survey labels; all lines with live traces by default. Lines whose votes are there are not computed again.
        mapping : str, optional
            A name of `outcrop.MAPPERS`; by default the one of the last time, `encoder` at first.
        seed : int, optional
            By default the one of the last time, 0 at first.
        min_confidence, max_error : float, optional
            Samples below a confidence, or as many as would bring more errors than that share, are uncertain. A limit
            stays for the next time; a `min_confidence` of 0 lifts it.
        step : int, optional
            Samples and traces between patches, for mappings that take patches of one size; kept for the next time,
            ``auto`` lifts it.
        with_jobs : sequence of path, optional
            Jobs on the same volume with patches of another size, to learn from too; kept for the next time, an empty
            sequence lifts them.
        device : str, optional
            A torch device.
        progress : callable, optional
            Called as ``progress(what, done, total)``; what it raises ends the work, and the next call goes on.

        Returns
        -------
        Dataset
            Of those lines: ``label`` (0 not labelled, 255 uncertain, else the code of a class), ``confidence`` (uint8,
            255 = sure) and ``stale`` of every line; lazy.
        """
        self.check_volume(progress=progress)
        self.choose_labels(
            mapping=mapping, seed=seed, min_confidence=min_confidence, max_error=max_error, step=step,
            with_jobs=with_jobs,
        )  # fmt: skip
        if self.retrievable() and tables.edited(self):
            self.retrieve(client=client, memory=memory, progress=progress)
        work = labelling.Labelling(self)
        done = work.label(lines, device=device, client=client, memory=memory, progress=progress)
        return self.labels.isel({DIRECTIONS[self.along]: done})

    def mapper(
        self,
        *,
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> Any:
        """The mapper that the decisions lead to: loaded where the same was fitted before, fitted otherwise."""
        self.check_volume(progress=progress)
        return labelling.Labelling(self).mapper(device=device, client=client, memory=memory, progress=progress)

    def borrow_mapper(self, source: "Job", *, progress: Callable | None = None) -> None:
        """Label this volume with the mapper of another job, which is copied here; its classes keep their order."""
        work = labelling.Labelling(source)
        mapper = work.mapper(progress=progress)
        key = self.stages.begin("mapper", {"borrowed": work.mapper_key(), "classes": [str(n) for n in mapper.classes_]})
        folder = self.stages.path("mapper", key) / "mapper"
        if not folder.is_dir():
            mapper.save(folder)
        entries = [entry for name in mapper.classes_ for entry in self._new_class(str(name))[0]]
        if entries:
            self._decide(*entries)
        found = source.index_options()
        kept = {name: found[name] for name in ("size", "gain", "along")}
        self.choose_index(**{**self.state.options.get("index", {}), **kept})
        chosen = {"mapping": work.options["mapping"], "mapper": key}
        self._set("label", chosen, "background", source.background and self._class(source.background))

    @property
    def labels(self) -> xr.Dataset:
        """Labels of the whole survey, lazy; lines of older decisions are marked in ``stale``."""
        self.check_volume(most=QUICK)
        return labelling.Labelling(self).dataset().assign_attrs(colours=self.palette)

    def fused_labels(
        self,
        *,
        device: str | None = None,
        client: Any = None,
        memory: int | None = None,
        progress: Callable | None = None,
    ) -> xr.Dataset:
        """Labels by the votes of both directions: the lines across are labelled too, with the same mapper; lazy.

        They are kept as those of the lines are; `labels` and exports stay as they are. Votes of both directions and of
        the eight traces around a sample count, so that `outcrop.bodies` are not striped along one direction. A class of
        which the lines across show little, such as faults of one strike, counts by the votes of the lines alone:
        ``attrs["one_sided"]`` names it, with how far the directions agree.
        """
        from outcrop.job.fusion import fused_labels

        return fused_labels(self, device=device, client=client, memory=memory, progress=progress)

    def changes(self, line: int) -> dict:
        """What the last stroke changed on a line, as far as its votes from before are kept.

        Returns
        -------
        dict
            ``where`` (bool, traces and samples of the line), ``share`` of the labelled samples that are not painted
            whose label is another one, and ``table``: a DataFrame of from, to and samples.
        """
        from outcrop.job.changes import changes

        return changes(self, line)

    def labelled(self) -> dict:
        """Positions of the lines that are labelled -> whether their labels are stale."""
        self.check_volume(most=QUICK)
        return labelling.Labelling(self).lines()

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
        """Write labels as SEG-Y (.sgy), Zarr (.zarr) or, to any other folder, as a training set.

        Parameters
        ----------
        path : path
        what : str
            For SEG-Y: ``label``, ``confidence``, or ``score:CLASS``.
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

    def audit(self, clicks: int = 30, *, of: str = "patches", seed: int = 0) -> "Audit":
        """Random patches or labelled samples to say yes, no or cannot tell to, and what follows; see `Audit`."""
        from outcrop.job.auditing import Audit

        return Audit(self, clicks, of=of, seed=seed)

    def unseen(self, groups: int = 5, *, seed: int = 0) -> pd.DataFrame:
        """Patches that look like nothing that was marked, in a few groups; see `unseen_groups`."""
        from outcrop.job.unseen import unseen_groups

        return unseen_groups(self, groups, seed=seed)

    # ---- what is there ----------------------------------------------------------------------------------------------

    def status(self) -> dict:
        """What is decided and done, under which keys, and what would run next."""
        from outcrop.job.status import status

        return status(self)

    def clean(self, *, keep: int | None = None, dry_run: bool = False) -> list:
        """Free the space of what older keys hold; see `outcrop clean`."""
        from outcrop.job.status import clean

        return clean(self, keep=keep, dry_run=dry_run)
