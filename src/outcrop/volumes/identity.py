"""Identify a volume by its samples, and record the volume of a job.

The identity does not depend on the path or the modification time of a file.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.parallel import Progress
from outcrop.storage.stages import append_line, digest, read_lines
from outcrop.storage.workspace import Workspace, fingerprint, set_aside
from outcrop.volumes.lazy import lazy_source
from outcrop.volumes.neighbours import NEAR, metres_per_number
from outcrop.volumes.opening import MOST_LINES, STORED, open_volume

JOB_PARTS = {"job.toml", "decisions", "stages", "volume", "features.zarr", "classes.json"}  # names in a job folder
Array = npt.NDArray[Any]
Line = tuple[int, int]  # direction (0 inline, 1 crossline) and position on that axis


class ChangedVolume(ValueError):
    """Raised if the samples of a line have changed since the line was first read from its file."""


def identify(volume: xr.DataArray) -> dict[str, Any]:
    """Return the identity of a volume: a checksum of its contents, its source and its shape.

    Parameters
    ----------
    volume : DataArray
        From `open_volume`, or computed from such a volume.

    Returns
    -------
    dict
        ``digest``, a checksum by which volumes are compared; ``source`` and ``options``, with which `open_volume` opens
        the volume again (empty for an array); ``shape`` and ``dims``.

    Notes
    -----
    The checksum of a file covers its size, its headers and evenly spaced blocks of samples; in addition, `LineLog`
    compares every line that is read. The checksum of an array, or of a volume computed from a file, covers all samples.
    """
    source = str(volume.attrs.get("source") or "")
    shape = {"shape": list(volume.shape), "dims": list(volume.dims)}
    if not untouched(volume):
        return {"digest": _array_digest(volume), "source": "", "options": {}, **shape}
    if "://" in source:  # few samples, because each costs the transfer of a whole chunk
        samples = volume[tuple(slice(None, None, max(1, n // 2)) for n in volume.shape)].values
        found = digest(_facts(volume), source, hashlib.sha256(_bytes(samples)).hexdigest())
        return {"digest": found, "source": source, "options": {}, **shape}
    blocks, options = fingerprint(source), dict(volume.attrs.get("options") or {})
    found = digest(_facts(volume), blocks["size"], blocks["sha256"], options)
    return {"digest": found, "source": os.path.abspath(source), "options": options, **shape}


def untouched(volume: xr.DataArray) -> bool:
    """Return whether a volume is a whole file exactly as `open_volume` opened it: lazy, with nothing computed."""
    source = str(volume.attrs.get("source") or "")
    return lazy_source(volume, whole=True) is not None and ("://" in source or Path(source).exists())


def _facts(volume: xr.DataArray) -> list[Any]:
    """Return the properties that the digest of a volume covers in addition to its samples: shape, axes and scaling."""
    shape = {"shape": list(volume.shape), "dims": list(volume.dims)}
    # Earlier versions did not have these attributes: they enter only if they are set, so older digests stay valid.
    added = [volume.attrs[name] for name in ("offset", "empty_traces") if name in volume.attrs]
    return [shape, _axes(volume), bool(volume.attrs.get("scaled")), *added]


def _axes(volume: xr.DataArray) -> list[str]:
    """Return, for each axis, the digest of its line numbers, times or depths."""
    return [
        hashlib.sha256(np.ascontiguousarray(volume[name].values, "f8").tobytes()).hexdigest() for name in volume.dims
    ]


def _array_digest(volume: xr.DataArray) -> str:
    """Return the digest of all samples of a volume, read line by line."""
    samples = hashlib.sha256()
    for line in range(volume.shape[0]):
        samples.update(_bytes(volume[line].values))
    return str(digest(_facts(volume), samples.hexdigest()))


def _bytes(values: npt.ArrayLike) -> bytes:
    """Return samples as the bytes of float32 numbers; every NaN gives the same bytes."""
    values = np.ascontiguousarray(values, np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), values).tobytes()


def file_stamp(source: str) -> str:
    """Return size and modification time of a file or folder as text; empty if it is missing or remote."""
    path = Path(source)
    if not str(source) or "://" in str(source) or not path.exists():
        return ""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    found = [file.stat() for file in files]
    return f"{sum(one.st_size for one in found)} {max((one.st_mtime_ns for one in found), default=0)}"


def glance(volume: xr.DataArray, most: int = 4_000_000) -> str | None:
    """Return a digest of about `most` evenly spaced samples of an array in memory; None for a lazy volume."""
    if not isinstance(volume.variable._data, np.ndarray):
        return None
    step = max(1, int(np.ceil((volume.size / most) ** (1 / volume.ndim))))
    return hashlib.sha256(_bytes(volume.variable._data[(slice(None, None, step),) * volume.ndim])).hexdigest()


def line_digest(section: npt.ArrayLike) -> str:
    """Return the digest of the samples of one line.

    Examples
    --------
    >>> line_digest(np.zeros((3, 4))) == line_digest(np.zeros((3, 4), "float32"))
    True
    """
    return hashlib.sha256(_bytes(section)).hexdigest()[:16]


class LineLog:
    """Log file with a digest of the samples of each line, by which a changed line is noticed.

    The digest is recorded when a line is first read, and compared when the line is read again.

    Parameters
    ----------
    path : path
        Text file; each row has the direction (0 inline, 1 crossline), position and digest of a line.

    Examples
    --------
    >>> import tempfile
    >>> log = LineLog(Path(tempfile.mkdtemp()) / "lines.txt")
    >>> log.check(0, 7, line_digest(np.zeros(3)))
    >>> log.check(0, 7, line_digest(np.ones(3)))
    Traceback (most recent call last):
        ...
    outcrop.volumes.identity.ChangedVolume: The line at position 7 has other amplitudes now than when it was first read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._known: dict[Line, str] = {}
        self._size = -1  # bytes of the log when it was last read

    def check(self, direction: int, line: int, found: str) -> None:
        """Record the digest `found` of a line; raise `ChangedVolume` if another digest of it is already recorded."""
        key = int(direction), int(line)
        with self._lock:
            self._catch_up()
            if key not in self._known:
                append_line(self.path, f"{key[0]} {key[1]} {found}")
                self._known[key] = found
            elif self._known[key] != found:
                raise ChangedVolume(
                    f"The line at position {line} has other amplitudes now than when it was first read."
                )

    def read(self) -> dict[Line, str]:
        """Return all recorded digests as a dict: (direction, position) of a line -> digest."""
        with self._lock:
            self._catch_up()
            return dict(self._known)

    def _catch_up(self) -> None:
        """Read digests that any process recorded since the last call; the first recorded digest of a line is used."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size == self._size:
            return
        self._size = size
        for row in read_lines(self.path):
            words = row.split()
            if len(words) == 3 and words[0].isdigit() and words[1].isdigit() and len(words[2]) == 16:
                self._known.setdefault((int(words[0]), int(words[1])), words[2])


# ---- the volume of a job -------------------------------------------------------------------------------------------


def known_volume(job: str | Path) -> dict[str, Any]:
    """Return the record of the volume from ``job.toml`` in a job folder; empty if the job has no volume yet."""
    workspace = Workspace(job)
    if not workspace.exists():
        return {}
    record = workspace.read().get("volume", {})
    texts = ("source", "relative", "samples", "digest", "axes")
    valid = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in texts)
    valid = valid and isinstance(record.get("options"), dict) and len(record.get("dims", ())) == 3
    shape = record.get("shape") if valid else None
    if not isinstance(shape, list) or len(shape) != 3 or not all(type(n) is int and 0 < n <= MOST_LINES for n in shape):
        raise ValueError(
            f"{workspace / 'job.toml'} is damaged: its record of the volume cannot be read; give the volume again with "
            f"'outcrop index VOLUME -o {job}'."
        )
    return dict(record)


def as_recorded(job: str | Path, volume: xr.DataArray) -> xr.DataArray:
    """Return a volume with its time or depth axis in the unit that a job folder recorded.

    Earlier versions did not convert this axis to ms or m. Decisions in jobs of these versions are in the unit of the
    file, so these jobs keep the axis of the file. For any other job the volume is returned unchanged.
    """
    name = volume.dims[2]
    stored = volume[name].variable.encoding.get(STORED)
    if stored is None:
        return volume
    as_stored = volume.assign_coords({name: stored})
    note = f"this job was made with the stored, unconverted {name} axis and keeps it"
    as_stored.attrs["notes"] = [*(one for one in volume.attrs["notes"] if "converted to" not in one), note]
    try:
        return as_stored if known_volume(job).get("axes") == digest(_axes(as_stored)) else volume
    except ValueError:  # damaged job.toml
        return volume


def _is_unused(job: Path) -> bool:
    """Return whether a job folder holds neither decisions nor results."""
    return not any((job / "decisions").glob("*.jsonl")) and not any((job / "stages").glob("*/*"))


def take_volume(job: str | Path, volume: xr.DataArray) -> dict[str, Any]:
    """Record a volume as the volume of a job folder, or check that it fits the recorded one.

    A volume with the same axes and other samples replaces the recorded one; results computed from the recorded volume
    are kept. A volume with other axes is refused.

    Returns
    -------
    dict
        The record as `known_volume` returns it; its ``digest`` is part of the cache key of every result.
    """
    refuse_other_folder(job)
    volume = as_recorded(job, volume)
    found, axes = identify(volume), digest(_axes(volume))
    try:
        known = known_volume(job)
    except ValueError:  # damaged job.toml: it is set aside, and the record is written again
        set_aside(Path(job) / "job.toml")
        known = {}
    if known.get("axes", axes) != axes and _is_unused(Path(job)):
        known = {}  # a refused command left the record, for instance of wrong header bytes
    if known.get("axes", axes) != axes:
        raise ValueError(
            f"{job} holds the work on another survey ({known.get('source') or 'an array'}, "
            f"{' x '.join(map(str, known['shape']))}); choose another job folder, and carry decisions over with "
            "'outcrop decisions --export' and '--import'."
        )
    relative = _relative(found["source"], job)
    record = {"source": found["source"], "relative": relative, "options": found["options"]}
    near = [int(NEAR // metres_per_number(volume, name)) for name in ("inline", "crossline")]
    if near != [10, 10]:  # earlier versions used 10 line numbers for every survey and did not record it
        record["near"] = near
    if known.get("samples") == found["digest"]:
        record = {name: value for name, value in known.items() if name != "near"} | record
    else:
        # Earlier versions recorded a picture as an array: with the same samples it keeps its digest.
        was_array = known and not known["source"] and found["source"] and known["samples"] == _array_digest(volume)
        name = known["digest"] if was_array else found["digest"]
        record |= {"samples": found["digest"], "digest": name, "axes": axes}
        record |= {"shape": found["shape"], "dims": found["dims"]}
        if not lines_path(job, name).exists():  # no line was read from it so far
            record["stamp"] = file_stamp(found["source"])
    if record != known:
        try:
            Path(job).mkdir(parents=True, exist_ok=True)
            Workspace(job).write({"volume": record})
        except OSError:
            if record.get("digest") != known.get("digest"):
                raise  # with the same digest, a job in a read-only folder can still be read
    return record


def refuse_other_folder(job: str | Path) -> None:
    """Raise `ValueError` for a folder that holds files and is not a job folder."""
    path = Path(job)
    found = sorted(part.name for part in path.iterdir() if part.name[0] != ".") if path.is_dir() else []
    if found and not JOB_PARTS & set(found):
        raise ValueError(
            f"{path} is not a job folder and holds other things, such as {found[0]}; name a new folder, for instance "
            f"{path / 'NAME.outcrop'}."
        )


def _relative(source: str, job: str | Path) -> str:
    """Return the path of a volume relative to its job folder; empty for an array, a remote store or another drive."""
    if not source or "://" in source:
        return ""
    try:
        return os.path.relpath(source, os.path.abspath(job))
    except ValueError:  # another drive
        return ""


def record_volume(job: str | Path, record: dict[str, Any]) -> None:
    """Write the record of the volume of a job, unless another process recorded another volume meanwhile."""
    if known_volume(job)["samples"] == record["samples"] and known_volume(job) != record:
        Workspace(job).write({"volume": record})


def reopen(job: str | Path) -> xr.DataArray:
    """Open the volume of a job from its recorded path, absolute or relative to the job folder.

    `ValueError` is raised if the volume is at neither path, or if the job was made from an array.
    """
    known = known_volume(job)
    if not known:
        raise ValueError(f"{job} has no volume yet; give one: {how_to_give(job)}.")
    if not known["source"]:
        raise ValueError(f"Job {job} was made from an array; pass the volume again, as volume=ARRAY.")
    place = place_of(job, known)
    if place:
        return open_volume(place, **known["options"])
    raise ValueError(lost_volume(job, known))


def lost_volume(job: str | Path, known: dict[str, Any]) -> str:
    """Return the error message for a volume that is no longer at its recorded path."""
    return f"The volume of {job} is no longer at {known['source']}; say where it is: {how_to_give(job)}."


def how_to_give(job: str | Path) -> str:
    """Return, as text for messages, the command and the Python call that set the volume of a job folder."""
    return f"'outcrop index VOLUME -o {job}', in Python Job({str(job)!r}, volume=VOLUME)"


def place_of(job: str | Path, known: Mapping[str, Any]) -> str:
    """Return the path at which the volume of a job exists; empty if the volume is not found.

    It is the recorded path or, if that is missing, the recorded path relative to the job folder. A remote address is
    returned without a check.
    """
    places = [known["source"]] if known["source"] else []
    if known["relative"]:
        places.append(os.path.normpath(os.path.join(os.path.abspath(job), known["relative"])))
    return next((place for place in places if "://" in place or os.path.exists(place)), "")


def lines_path(job: str | Path, volume_digest: str) -> Path:
    """Return the path of the file in a job folder that holds the line digests of a volume."""
    return Path(job) / "volume" / f"{volume_digest}.txt"


def compare_lines(
    job: str | Path,
    known: dict[str, Any],
    volume: xr.DataArray,
    *,
    most: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any] | None:
    """Check all recorded line digests of a file whose size or modification time changed.

    Parameters
    ----------
    job : path
    known : dict
        From `take_volume`; its ``stamp`` is the size and modification time of the file when its lines were last
        compared.
    volume : DataArray
        The file as `open_volume` opens it now.
    most : int, optional
        Maximum number of bytes to read; if more are needed, nothing is compared.
    progress : callable, optional
        Called as ``progress(what, done, total)``.

    Returns
    -------
    dict or None
        `known` with the present ``stamp``. If a line changed, it also has another ``digest``: the digest of an earlier
        version of the file if its recorded lines are the same as now, else a new digest. None if more than `most` bytes
        would have to be read.
    """
    stamp = file_stamp(volume.attrs["source"])
    expected = LineLog(lines_path(job, known["digest"])).read()
    if most is not None and sum(volume[line].nbytes for line in map(_selection, expected)) > most:
        return None
    fresh: dict[Line, str] = {}

    def present(key: Line) -> str:
        if key not in fresh:
            fresh[key] = line_digest(volume[_selection(key)].values)
        return fresh[key]

    for number, key in enumerate(expected, 1):
        present(key)
        if progress:
            progress("comparing the volume with the lines read before", number, len(expected))
    if fresh == expected:
        return known | {"stamp": stamp}
    for path in sorted(lines_path(job, known["digest"]).parent.glob("*.txt")):
        lines = LineLog(path).read() if _state_of(path, known["samples"]) else {}
        if lines and all(present(key) == value for key, value in lines.items()):
            return known | {"digest": path.stem, "stamp": stamp}
    return known | {"digest": _new_state(job, known, fresh), "stamp": stamp}


def checked_volume(job: str | Path, volume: xr.DataArray) -> dict[str, Any]:
    """Record the volume of a job as `take_volume` does, and return the record.

    If the size or modification time of the file changed, its lines are compared with the recorded line digests.
    """
    known = take_volume(job, volume)
    if known["source"] and file_stamp(known["source"]) not in ("", known.get("stamp")):
        known = compare_lines(job, known, volume) or known
        with contextlib.suppress(OSError):  # a read-only folder
            record_volume(job, known)
    return known


def _selection(key: Line) -> tuple[Any, ...]:
    """Return the array index that selects a line, given as (direction, position)."""
    return (slice(None),) * key[0] + (key[1],)


def _state_of(path: Path, samples: str) -> bool:
    """Return whether a file of line digests belongs to a volume for which `identify` returned the digest `samples`."""
    return path.stem == samples or f"samples {samples}" in read_lines(path)


def _new_state(job: str | Path, known: dict[str, Any], digests: dict[Line, str]) -> str:
    """Return a new digest for a volume with changed lines, and write the digests of its lines to a new file."""
    name = str(digest(known["digest"], sorted(digests.items())))
    rows = [f"samples {known['samples']}", *(f"{d} {line} {found}" for (d, line), found in digests.items())]
    append_line(lines_path(job, name), "\n".join(rows))
    return name


def check_lines(job: str | Path, log: LineLog, digests: dict[Line, str]) -> None:
    """Record the digests of lines of a job's volume, or raise `ChangedVolume` if one differs from its record.

    If one differs, a new digest of the volume is recorded too, so that results of the old samples count as stale.

    Parameters
    ----------
    job : path
    log : LineLog
        The recorded digests.
    digests : dict
        (direction, position) of a line -> digest of its samples as just read.
    """
    try:
        for (direction, line), found in digests.items():
            log.check(direction, line, found)
    except ChangedVolume as error:
        known = known_volume(job)
        other = _new_state(job, known, {(direction, line): found})
        Workspace(job).write({"volume": known | {"digest": other, "stamp": ""}})
        raise ChangedVolume(
            f"{known['source']} changed since job {job} first read it: {error} Results of the old samples are kept "
            "and marked stale; run the same command again to use the new samples."
        ) from None
