"""The folder of a job and its volume: opened, compared with what was read before."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from outcrop.job.decisions import Decisions
from outcrop.job.inputs import as_volume
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.stages import Stages
from outcrop.volumes.identity import (
    as_recorded,
    compare_lines,
    file_stamp,
    glance,
    known_volume,
    place_of,
    record_volume,
    reopen,
    take_volume,
)
from outcrop.volumes.opening import open_volume

QUICK = 2**28  # bytes of a changed file that are compared where only its labels are looked at


class JobFolder:
    """A job folder, its log of decisions and its volume."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # what `Job` adds
            ...

    def __init__(self, path: str | Path, volume: Any = None, *, origin: str = "python"):
        self.path = Path(path)
        self._volume = None if volume is None else as_recorded(self.path, as_volume(volume))
        self._taken: dict | None = None  # what the folder says of the volume that this job reads
        self._look_again = 0.0  # when the time of a volume in many files is next looked at
        self._glance: str | None = None  # at an array in memory, which may be changed in place
        if self._volume is not None:
            self._taken, self._glance = take_volume(self.path, self._volume), glance(self._volume)
        elif not known_volume(self.path):
            raise ValueError(f"{self.path} is not a job folder; make one with 'outcrop index VOLUME -o {self.path}'.")
        self.stages = Stages(self.path)
        self.log = Decisions(self.path, origin=origin)
        self._lock = threading.RLock()
        self._opened: dict = {}  # the index and grid used last, by key
        self._codes()
        for name, lines in self.log.damaged.items():
            self.notes.append(
                f"{lines} lines of {self.log.folder / name} cannot be read; what they decided is left out."
            )

    def close(self) -> None:
        """Let go of the file that this job writes its decisions to."""
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"Job({str(self.path)!r})"

    @property
    def volume(self) -> xr.DataArray:
        """The volume, opened when it is first asked for."""
        with self._lock:
            if self._volume is None:
                found = reopen(self.path)
                self._taken = take_volume(self.path, found)
                self._volume = found
            return self._volume

    @property
    def known(self) -> dict:
        """What the folder says of the volume: of the one that this job has open, else of the one recorded last."""
        written = (self.path / "job.toml").stat()
        key = (written.st_mtime_ns, written.st_size, written.st_ino)
        found = self._opened.get("known", (None, {}))
        if found[0] != key:
            found = self._opened["known"] = (key, known_volume(self.path))
        if self._taken is not None and self._taken["samples"] != found[1].get("samples"):
            return dict(self._taken)  # somebody else goes on with another volume
        return dict(self._opened.get("compared", found[1]))

    def check_volume(self, *, most: int | None = None, progress: Callable | None = None) -> str:
        """Notice where the volume is not what it was when it was read, so that nothing made from it passes for fresh.

        A file of the same size and time is taken to be the same. Of any other one evenly spaced blocks and all lines
        that were read before are compared, of an array in memory all samples.

        Parameters
        ----------
        most : int, optional
            Bytes to read at most.
        progress : callable, optional
            Called as ``progress(what, done, total)``.

        Returns
        -------
        str
            What could not be compared, empty where nothing was left out.
        """
        before = self.known
        if not before["source"]:
            self._check_array(before, most)
            return ""
        place = place_of(self.path, before)
        if os.path.isdir(place) and most is not None and time.monotonic() < self._look_again:
            return ""
        begin = time.monotonic()
        stamp = file_stamp(place)
        self._look_again = time.monotonic() + 20 * (time.monotonic() - begin)  # a folder may hold very many files
        return "" if stamp in ("", before.get("stamp")) else self._check_file(place, before, most, progress)

    def _check_array(self, before, most):
        """Take an array that was changed in place as another volume."""
        if self._glance is None or self._volume is None:
            return
        now = glance(self._volume)
        if now != self._glance or most is None:
            self._taken, self._glance = take_volume(self.path, self._volume), now
            self._say_changed(before)

    def _check_file(self, place, before, most, progress):
        """Compare a file that is of another size or time; a sentence where that would take long."""
        now = open_volume(place, **before["options"])
        taken = take_volume(self.path, now)
        report = progress and (lambda done, total: progress("comparing the volume with what was read", done, total))
        compared = compare_lines(self.path, taken, now, most=most, progress=report)
        with self._lock:
            if taken["samples"] != before["samples"] or self._volume is None:
                self._volume, self._taken = now, taken
        if compared is None:
            return (
                f"{place} was written to since its lines were read; whether they changed is found out by the next "
                "'outcrop label', 'index' or 'export'."
            )
        self._taken = compared
        try:
            record_volume(self.path, compared)
            self._opened.pop("compared", None)
        except OSError:  # a folder that cannot be written
            self._opened["compared"] = compared
        self._say_changed(before)
        return ""

    def _say_changed(self, before):
        if self.known["digest"] != before["digest"]:
            about = before["source"] or "The array"
            self._note(f"{about} changed since it was read: what was made from its older samples is kept as stale.")

    def _note(self, text):
        """Keep a sentence for whoever asks; in a notebook it is a warning."""
        self.notes.append(text)
        if self.log.origin == "python":
            warnings.warn(text, stacklevel=3)

    @property
    def along(self) -> int:
        """Direction of the lines that are labelled: 0 inline, 1 crossline."""
        return int(self.index_options()["along"] == "crossline")

    @property
    def lines(self) -> np.ndarray:
        """Numbers of the lines that can be labelled."""
        return self.volume[DIRECTIONS[self.along]].values
