"""What tells one volume from another: its samples, never its path or its time stamp."""

import contextlib
import hashlib
import os
import threading
from pathlib import Path

import numpy as np
from xarray.core import indexing

from outcrop.storage.stages import append_line, digest, read_lines
from outcrop.storage.workspace import Workspace, fingerprint, set_aside
from outcrop.volumes.lazy import LazyVolume
from outcrop.volumes.opening import MOST_LINES, open_volume


class ChangedVolume(ValueError):
    """A line of a file has other samples than when it was first read."""


def identify(volume):
    """Identity of a volume.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it, or anything computed from it.

    Returns
    -------
    dict
        ``digest``, which alone decides whether two volumes are the same; ``source`` and ``options``, with which
        `open_volume` opens it again (empty for an array); ``shape`` and ``dims``.

    Notes
    -----
    A file is known by its size, its headers and evenly spaced blocks, and by the digest of every line (`LineLog`). An
    array, and whatever was computed from a file, is known by all of its samples.
    """
    source = str(volume.attrs.get("source") or "")
    about = {"shape": list(volume.shape), "dims": list(volume.dims)}
    facts = [about, _axes(volume), bool(volume.attrs.get("scaled"))]
    if not untouched(volume):
        return {"digest": digest(facts, _all_samples(volume)), "source": "", "options": {}, **about}
    if "://" in source:
        return {"digest": digest(facts, source, _few_samples(volume)), "source": source, "options": {}, **about}
    found = fingerprint(source)
    options = dict(volume.attrs.get("options") or {})
    return {
        "digest": digest(facts, found["size"], found["sha256"], options),
        "source": os.path.abspath(source),
        "options": options,
        **about,
    }


def untouched(volume):
    """Whether a DataArray is a file as `open_volume` opened it: lazy, whole, nothing computed."""
    source = str(volume.attrs.get("source") or "")
    data = volume.variable._data
    while isinstance(data, indexing.MemoryCachedArray | indexing.CopyOnWriteArray):
        data = data.array
    lazy = isinstance(data, indexing.LazilyIndexedArray) and isinstance(data.array, LazyVolume)
    if not lazy or not all(isinstance(part, slice) and part == slice(None) for part in data.key.tuple):
        return False
    return "://" in source or Path(source).exists()


def _axes(volume):
    return [
        hashlib.sha256(np.ascontiguousarray(volume[name].values, "f8").tobytes()).hexdigest() for name in volume.dims
    ]


def _all_samples(volume):
    """Digest of every sample, line by line."""
    found = hashlib.sha256()
    for line in range(volume.shape[0]):
        found.update(_bytes(volume[line].values))
    return found.hexdigest()


def _few_samples(volume):
    # Every chunk that is touched comes over the network whole.
    few = tuple(slice(None, None, max(1, n // 2)) for n in volume.shape)
    return hashlib.sha256(_bytes(volume[few].values)).hexdigest()


def _bytes(values):
    """Samples as bytes in which every NaN is the same."""
    values = np.ascontiguousarray(values, np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), values).tobytes()


def file_stamp(source):
    """Size and time of the last change of a file or folder; empty where there is none, or it lies in the network."""
    path = Path(source)
    if not str(source) or "://" in str(source) or not path.exists():
        return ""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    found = [file.stat() for file in files]
    return f"{sum(one.st_size for one in found)} {max((one.st_mtime_ns for one in found), default=0)}"


def glance(volume, most=4_000_000):
    """Digest of evenly spaced samples of an array in memory, of all where they are few; None for anything lazy."""
    if not isinstance(volume.variable._data, np.ndarray):
        return None
    step = max(1, int(np.ceil((volume.size / most) ** (1 / volume.ndim))))
    return hashlib.sha256(_bytes(volume.variable._data[(slice(None, None, step),) * volume.ndim])).hexdigest()


def line_digest(section):
    """Digest of the samples of one line.

    Examples
    --------
    >>> line_digest(np.zeros((3, 4))) == line_digest(np.zeros((3, 4), "float32"))
    True
    """
    return hashlib.sha256(_bytes(section)).hexdigest()[:16]


class LineLog:
    """Digests of the lines of a file, each taken when the line is first read and checked when it is read again.

    Parameters
    ----------
    path : path
        A text file, one line each: direction, position, digest.

    Examples
    --------
    >>> import tempfile
    >>> log = LineLog(Path(tempfile.mkdtemp()) / "lines.txt")
    >>> log.check(0, 7, line_digest(np.zeros(3)))
    >>> log.check(0, 7, line_digest(np.ones(3)))
    Traceback (most recent call last):
        ...
    outcrop.volumes.identity.ChangedVolume: Line 7 has other samples than when it was first read.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._lock = threading.Lock()
        self._known: dict = {}
        self._size = -1  # of the file when it was read last

    def check(self, direction, line, found):
        """Note the digest of a line, or raise `ChangedVolume` where an earlier one differs."""
        key = int(direction), int(line)
        with self._lock:
            self._catch_up()
            if key not in self._known:
                append_line(self.path, f"{key[0]} {key[1]} {found}")
                self._known[key] = found
            elif self._known[key] != found:
                raise ChangedVolume(f"Line {line} has other samples than when it was first read.")

    def read(self):
        """Digests so far: (direction, position) -> digest."""
        with self._lock:
            self._catch_up()
            return dict(self._known)

    def _catch_up(self):
        """Read what this or another process has written since; the first word on a line counts."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size == self._size:
            return
        self._size = size
        for row in read_lines(self.path):
            words = row.split()
            if len(words) == 3 and words[0].isdigit() and words[1].isdigit() and len(words[2]) == 16:
                self._known.setdefault((int(words[0]), int(words[1])), words[2])


# ---- the volume of a job -------------------------------------------------------------------------------------------


def known_volume(job):
    """What ``job.toml`` of a job folder says of its volume, empty where it holds none yet."""
    workspace = Workspace(job)
    if not workspace.exists():
        return {}
    record = workspace.read().get("volume", {})
    texts = ("source", "relative", "samples", "digest", "axes")
    sound = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in texts)
    sound = sound and isinstance(record.get("options"), dict) and _is_shape(record.get("shape"))
    if not sound or len(record.get("dims", ())) != 3:
        raise ValueError(
            f"{workspace / 'job.toml'} has been changed to something unreadable; give the volume again with "
            f"'outcrop index VOLUME -o {job}'."
        )
    return dict(record)


def _is_shape(value):
    return (
        isinstance(value, list) and len(value) == 3 and all(isinstance(n, int) and 0 < n <= MOST_LINES for n in value)
    )


def take_volume(job, volume):
    """Record a volume as that of a job folder, or check that it is the one recorded.

    A volume with the same axes and other samples takes the place of the one recorded: what was computed from that stays
    under its keys. A volume with other axes is refused.

    Returns
    -------
    dict
        As `known_volume`; ``digest`` stands for the samples in every key.
    """
    found = identify(volume)
    try:
        known = known_volume(job)
    except ValueError:  # unreadable: the volume that is given says it all, and what it replaces is kept
        set_aside(Path(job) / "job.toml")
        known = {}
    axes = digest(_axes(volume))
    if known.get("axes", axes) != axes:
        raise ValueError(
            f"{job} holds the work on another survey ({known.get('source') or 'an array'}, "
            f"{' x '.join(map(str, known['shape']))}); choose another job folder, and carry decisions over with "
            "'outcrop decisions --export' and '--import'."
        )
    relative = _relative(found["source"], job)
    record = {"source": found["source"], "relative": relative, "options": found["options"]}
    if known.get("samples") == found["digest"]:
        record = known | record
    else:
        record |= {"samples": found["digest"], "digest": found["digest"], "axes": axes}
        record |= {"shape": found["shape"], "dims": found["dims"]}
        if not lines_path(job, found["digest"]).exists():  # none of its lines was read so far
            record["stamp"] = file_stamp(found["source"])
    if record != known:
        try:
            Path(job).mkdir(parents=True, exist_ok=True)
            Workspace(job).write({"volume": record})
        except OSError:
            if record.get("digest") != known.get("digest"):
                raise  # a copy in a folder that cannot be written is read all the same
    return record


def _relative(source, job):
    """Path of a volume from its job folder, empty where there is none."""
    if not source or "://" in source:
        return ""
    try:
        return os.path.relpath(source, os.path.abspath(job))
    except ValueError:  # another drive
        return ""


def record_volume(job, record):
    """Keep what is known of the volume of a job, unless somebody goes on with another one meanwhile."""
    if known_volume(job)["samples"] == record["samples"] and known_volume(job) != record:
        Workspace(job).write({"volume": record})


def reopen(job):
    """Volume of a job folder, from where it was or from next to the folder; refused where neither holds it."""
    known = known_volume(job)
    if not known:
        raise ValueError(f"{job} has no volume yet; give one with 'outcrop index VOLUME -o {job}'.")
    if not known["source"]:
        raise ValueError(f"Job {job} was made from an array; pass the volume.")
    place = place_of(job, known)
    if place:
        return open_volume(place, **known["options"])
    raise ValueError(
        f"The volume of {job} is no longer at {known['source']}; say where it is: 'outcrop index VOLUME -o {job}'."
    )


def place_of(job, known):
    """Where the volume of a job lies: where it was, or next to the folder; empty where it is at neither place."""
    places = [known["source"]] if known["source"] else []
    if known["relative"]:
        places.append(os.path.normpath(os.path.join(os.path.abspath(job), known["relative"])))
    return next((place for place in places if "://" in place or os.path.exists(place)), "")


def lines_path(job, volume_digest):
    """File with the digests of the lines of a volume of a job."""
    return Path(job) / "volume" / f"{volume_digest}.txt"


def compare_lines(job, known, volume, *, most=None, progress=None):
    """Compare a file whose size or time changed with the digests of all lines that were read from it.

    Parameters
    ----------
    job : path
    known : dict
        Of `take_volume`; its ``stamp`` says of what size and time the file was when its lines were compared last.
    volume : DataArray
        As `open_volume` gives it now.
    most : int, optional
        Bytes to read at most; where there are more to read, nothing is done.
    progress : callable, optional
        Called with the lines compared so far and their number.

    Returns
    -------
    dict or None
        `known` with the present ``stamp``, and with another ``digest`` where a line changed: that of an earlier state
        of the file where all its lines are as they were then. None where there is more to read than `most`.
    """
    stamp = file_stamp(volume.attrs["source"])
    expected = LineLog(lines_path(job, known["digest"])).read()
    if most is not None and sum(volume[line].nbytes for line in map(_selection, expected)) > most:
        return None
    fresh: dict = {}

    def found(key):
        if key not in fresh:
            fresh[key] = line_digest(volume[_selection(key)].values)
        return fresh[key]

    for number, key in enumerate(expected, 1):
        found(key)
        if progress:
            progress(number, len(expected))
    if fresh == expected:
        return known | {"stamp": stamp}
    for path in sorted(lines_path(job, known["digest"]).parent.glob("*.txt")):
        lines = LineLog(path).read() if _state_of(path, known["samples"]) else {}
        if lines and all(found(key) == value for key, value in lines.items()):
            return known | {"digest": path.stem, "stamp": stamp}
    return known | {"digest": _new_state(job, known, fresh), "stamp": stamp}


def checked_volume(job, volume):
    """Record a volume as that of a job, as `take_volume`, with its lines compared where the file changed."""
    known = take_volume(job, volume)
    if known["source"] and file_stamp(known["source"]) not in ("", known.get("stamp")):
        known = compare_lines(job, known, volume)
        with contextlib.suppress(OSError):  # a folder that cannot be written
            record_volume(job, known)
    return known


def _selection(key):
    """Index of a line, given as (direction, position)."""
    return (slice(None),) * key[0] + (key[1],)


def _state_of(path, samples):
    """Whether digests of lines are of a file with these evenly spaced blocks."""
    return path.stem == samples or f"samples {samples}" in read_lines(path)


def _new_state(job, known, digests):
    """Digest of a volume some lines of which have other samples than before; those lines are noted."""
    name = digest(known["digest"], sorted(digests.items()))
    rows = [f"samples {known['samples']}", *(f"{d} {line} {found}" for (d, line), found in digests.items())]
    append_line(lines_path(job, name), "\n".join(rows))
    return name


def check_lines(job, log, digests):
    """Note the digests of some lines of the volume of a job; where one changed, the volume gets another digest.

    Parameters
    ----------
    job : path
    log : LineLog
    digests : dict
        (direction, position) -> digest.
    """
    try:
        for (direction, line), found in digests.items():
            log.check(direction, line, found)
    except ChangedVolume as error:
        known = known_volume(job)
        other = _new_state(job, known, {(direction, line): found})
        Workspace(job).write({"volume": known | {"digest": other, "stamp": ""}})
        raise ChangedVolume(
            f"{known['source']} changed since job {job} first read it: {error} What was made from the old samples is "
            "kept and marked stale; run the same command again to go on with the new ones."
        ) from None
