"""The folder of a job: its volume, its decisions, and the plan that follows from them."""

import contextlib
import errno
import json
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from outcrop.job.decisions import Decisions
from outcrop.job.options import IndexOptions
from outcrop.job.plan import Joined, Plan, resolve
from outcrop.job.state import State
from outcrop.mapping.registry import DEFAULT_MAPPING, REMOVED
from outcrop.measures.registry import indexed_measure
from outcrop.parallel import Progress
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import Index, build_index, finished_index
from outcrop.storage.stages import Stages
from outcrop.storage.workspace import Damaged, whole_file
from outcrop.volumes.identity import (
    as_recorded,
    compare_lines,
    file_stamp,
    glance,
    how_to_give,
    known_volume,
    lost_volume,
    place_of,
    record_volume,
    reopen,
    take_volume,
)
from outcrop.volumes.opening import open_volume
from outcrop.words import counted

Result = TypeVar("Result")
QUICK = 2**28  # bytes of a changed file that are compared before its labels are shown
LAST_CODE = 254  # 255 means uncertain
WAIT = 10  # s to wait for another program that adds classes


class JobFolder:
    """A job folder: its volume, its decisions, its plan, and a cache in memory of the results used last."""

    def __init__(self, path: str | Path, volume: Any = None, *, origin: str = "python"):
        self.path = Path(path)
        self.notes: list[str] = []
        self._volume = None if volume is None else as_recorded(self.path, open_volume(volume))
        self._taken: dict[str, Any] | None = None  # record of the volume that this job reads
        self._look_again = 0.0  # earliest time of the next check of a volume in a folder
        self._glance: str | None = None  # digest of some samples of an array, which may change in place
        if self._volume is not None:
            self._taken, self._glance = take_volume(self.path, self._volume), glance(self._volume)
        elif not known_volume(self.path):
            raise ValueError(f"{self.path} is not a job folder; make one: {how_to_give(self.path)}.")
        self.stages = Stages(self.path)
        self.log = Decisions(self.path, origin=origin)
        self._lock = threading.RLock()
        self._memory: dict[str, tuple[Any, Any]] = {}  # name -> key and value of the last result
        self._jobs: dict[str, JobFolder] = {}  # joined jobs by their folders
        self._codes(self.log.state())
        mapping = self.log.state().options.get("label", {}).get("mapping")
        if mapping in REMOVED.values():
            self._note(f"Mapping {mapping!r} no longer exists; {self.path} is labelled by {DEFAULT_MAPPING!r} instead.")
        for name, lines in self.log.damaged.items():
            self.notes.append(
                f"{counted(lines, 'lines')} of {self.log.folder / name} cannot be read; their decisions are left out."
            )

    def close(self) -> None:
        """Release the file that this job writes its decisions to."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Job({str(self.path)!r})"

    def _held(self, name: str, key: Any, make: Callable[[], Result]) -> Result:
        """Return the result held in memory under a name; if it is missing or its key changed, call `make` for it."""
        with self._lock:
            found = self._memory.get(name)
        if found is None or found[0] != key:
            found = (key, make())
            with self._lock:
                self._memory[name] = found
        result: Result = found[1]
        return result

    def _drop(self, name: str) -> None:
        """Remove the result held in memory under a name, if it exists."""
        with self._lock:
            self._memory.pop(name, None)

    def _note(self, text: str, category: type[Warning] = UserWarning) -> None:
        """Add a sentence to the notes of the job; in Python, also show it as a warning."""
        self.notes.append(text)
        if self.log.origin == "python":
            warnings.warn(text, category, stacklevel=3)

    # ---- the plan ---------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Options, classes, evidence and keys of the present volume and decisions; made again only after a change."""
        state, known = self._readable(self.log.state()), self._known
        codes, joined = self._codes(state), tuple(map(self._joined, state.options.get("label", {}).get("with", ())))
        return self._held("plan", (state, known, codes, joined), lambda: resolve(known, state, codes, joined))

    def _readable(self, state: State) -> State:
        """Return `state` without confirmed lines whose file is missing or damaged; add a note for each such file."""
        if not state.confirmed:
            return state

        def make() -> State:
            problems = {one["file"]: self.log.line_files.problem(one["file"]) for one in state.confirmed}
            for problem in problems.values():
                if problem and problem not in self.notes:
                    self._note(problem)
            kept = [one for one in state.confirmed if not problems[one["file"]]]
            return state if kept == state.confirmed else state._replace(confirmed=kept)

        return self._held("readable state", (state, self.log.line_files.changed()), make)

    def _joined(self, path: str) -> Joined:
        """Return the path and the plan of another job, from which the mapper of this job learns too.

        The plan is None if the job cannot be opened.
        """
        try:
            return Joined(path, self._joined_job(path).plan)
        except (ValueError, OSError):
            return Joined(path, None)

    def _joined_job(self, path: str) -> Any:
        """Return the opened job in the folder `path`, from which the mapper of this job learns too."""
        if path not in self._jobs or not self._jobs[path].path.is_dir():
            self._jobs[path] = type(self)(path)
        return self._jobs[path]

    def _codes(self, state: State) -> dict[str, int]:
        """Return a dict: name under which a class was first added -> its code; removed classes are included.

        New classes get codes, which are stored in the folder. The code of a class never changes.
        """
        path, names = self.path / "classes.json", list(state.classes)
        codes: dict[str, int] = self._memory.get("codes", (None, {}))[1]
        if not all(name in codes for name in names):
            codes = _read_json(path)
        if not all(name in codes for name in names):
            try:
                with FileLock(self.path / ".classes.lock", timeout=WAIT):
                    codes = _with_codes(_read_json(path), names)
                    with whole_file(path) as aside:
                        aside.write_text(json.dumps(codes), encoding="utf-8")
            except Timeout:
                raise OSError(f"Another program has locked {path}; end it, or try again later.") from None
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                codes = _with_codes(codes, names)  # the folder is read-only
        self._memory["codes"] = (None, codes)
        return codes

    # ---- the volume -------------------------------------------------------------------------------------------------

    @property
    def volume(self) -> xr.DataArray:
        """The seismic volume of the job, opened on first use."""
        with self._lock:
            if self._volume is None:
                found = reopen(self.path)
                self._taken = take_volume(self.path, found)
                self._volume = found
            return self._volume

    @property
    def axes(self) -> list[np.ndarray]:
        """Inline numbers, crossline numbers and times (or depths) of the volume."""
        return [self.volume[name].values for name in self.volume.dims]

    @property
    def _known(self) -> dict[str, Any]:
        """Facts about the open volume, such as digest and shape; if none is open, about the volume recorded last."""
        written = (self.path / "job.toml").stat()
        key = (written.st_mtime_ns, written.st_size, written.st_ino)
        recorded = self._held("known", key, lambda: known_volume(self.path))
        if self._taken is not None and self._taken["samples"] != recorded.get("samples"):
            return self._taken  # another program recorded another volume meanwhile
        compared: tuple[Any, dict[str, Any]] = self._memory.get("compared", (None, recorded))
        return compared[1]

    def _check_volume(self, *, most: int | None = None, progress: Progress | None = None) -> str:
        """Check whether the samples of the volume changed since they were read; if so, earlier results become stale.

        A file with the same size and time counts as unchanged. In any other file, evenly spaced blocks and all lines
        that were read before are compared; in an array in memory, all samples.

        Parameters
        ----------
        most : int, optional
            Maximum number of bytes to read; by default no limit.
        progress : callable, optional
            Called as ``progress(what, done, total)``.

        Returns
        -------
        str
            A sentence for the user if the volume could not be compared, otherwise an empty text.
        """
        before = self._known
        if not before["source"]:
            self._check_array(before, most)
            return ""
        place = place_of(self.path, before)
        if not place:
            return lost_volume(self.path, before)
        if os.path.isdir(place) and most is not None and time.monotonic() < self._look_again:
            return ""
        begin = time.monotonic()
        stamp = file_stamp(place)
        self._look_again = time.monotonic() + 20 * (time.monotonic() - begin)  # a folder may have very many files
        return "" if stamp in ("", before.get("stamp")) else self._check_file(place, before, most, progress)

    def _check_array(self, before: dict[str, Any], most: int | None) -> None:
        """Record the array of this job as a new volume if its samples were changed in place.

        If `most` is not None, only a few samples are compared. `before` are the facts recorded earlier.
        """
        if self._glance is None or self._volume is None:
            return
        now = glance(self._volume)
        if now != self._glance or most is None:
            self._taken, self._glance = take_volume(self.path, self._volume), now
            self._note_changed(before)

    def _check_file(self, place: str, before: dict[str, Any], most: int | None, progress: Progress | None) -> str:
        """Compare the samples of a file whose size or time changed with the samples that were read before.

        Return a sentence for the user if the comparison would need more than `most` bytes, otherwise an empty text.
        """
        now = open_volume(place, **before["options"])
        taken = take_volume(self.path, now)
        compared = compare_lines(self.path, taken, now, most=most, progress=progress)
        with self._lock:
            if taken["samples"] != before["samples"] or self._volume is None:
                self._volume, self._taken = now, taken
        if compared is None:
            return (
                f"{place} was written to since its lines were read; the next 'outcrop label', 'index' or 'export' "
                "checks whether they changed."
            )
        self._taken = compared
        try:
            record_volume(self.path, compared)
            self._drop("compared")
        except OSError:  # the folder is read-only
            self._memory["compared"] = (None, compared)
        self._note_changed(before)
        return ""

    def _note_changed(self, before: dict[str, Any]) -> None:
        """Add a note if the samples of the volume differ from those recorded in `before`."""
        if self._known["digest"] != before["digest"]:
            about = before["source"] or "The array"
            self._note(f"{about} changed since it was read: results of its earlier samples are kept, but are stale.")

    # ---- the index --------------------------------------------------------------------------------------------------

    def _indexed(self, plan: Plan) -> bool:
        """Return whether the index of a plan is finished."""
        return finished_index(self.stages, plan.index_stage.key)

    def _grid(self, plan: Plan) -> PatchGrid:
        """Return the grid of the patches of a plan."""
        return self._grid_of(plan.index)

    def _grid_of(self, options: IndexOptions) -> PatchGrid:
        """Return the patch grid of index options, kept in memory; raise ValueError if the patches do not fit."""
        fitted = options.fitted(tuple(self._known["shape"]))
        return self._held("grid", (self._known["digest"], fitted), lambda: fitted.grid(self.volume))

    def _index(
        self,
        plan: Plan,
        *,
        client: Any = None,
        memory: int | None = None,
        progress: Progress | None = None,
        **where: Any,
    ) -> Index:
        """Return the index of a plan; build or continue it if it is not finished."""
        grid, measure = self._grid(plan), plan.index

        def opened() -> Index:
            key = plan.index_stage.key
            if finished_index(self.stages, key):
                with contextlib.suppress(Damaged):
                    return Index(self.path, key, self.volume, grid, indexed_measure(vars(measure)))
            return build_index(
                self.volume,
                grid,
                self.path,
                measure=measure.measure,
                truncate=measure.truncate,
                finest=measure.finest,
                client=client,
                memory=memory,
                progress=progress,
                known=self._known,
                **where,
            )

        index = self._held("index", plan.index_stage.key, opened)
        index.client, index.memory = client, memory
        return index


def _read_json(path: Path) -> dict[str, int]:
    """Return the content of a JSON file, empty if it cannot be read."""
    try:
        found: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _with_codes(codes: dict[str, int], names: list[str]) -> dict[str, int]:
    """Return a copy of `codes` (class -> code) in which each class of `names` without a code gets the next code."""
    codes = dict(codes)
    for name in names:
        if name not in codes:
            codes[name] = max(codes.values(), default=0) + 1
            if codes[name] > LAST_CODE:
                raise ValueError(f"Class {name!r} cannot be added: a job has at most {LAST_CODE} classes.")
    return codes
