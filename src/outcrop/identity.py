"""What tells one volume from another: its samples, never its path or its time stamp."""

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
from xarray.core import indexing

from outcrop.stages import append_line, digest, read_lines
from outcrop.volume import MOST_LINES, LazyVolume, open_volume
from outcrop.workspace import Workspace, fingerprint, set_aside


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
    outcrop.identity.ChangedVolume: Line 7 has other samples than when it was first read.
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
    except ValueError:  # unreadable: the volume that is given says it all, and what was there is kept
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


def reopen(job):
    """Volume of a job folder, from where it was or from beside the folder; refused where neither holds it."""
    known = known_volume(job)
    if not known:
        raise ValueError(f"{job} has no volume yet; give one with 'outcrop index VOLUME -o {job}'.")
    if not known["source"]:
        raise ValueError(f"Job {job} was made from an array; pass the volume.")
    places = [known["source"]]
    if known["relative"]:
        places.append(os.path.normpath(os.path.join(os.path.abspath(job), known["relative"])))
    for place in places:
        if "://" in place or os.path.exists(place):
            return open_volume(place, **known["options"])
    raise ValueError(
        f"The volume of {job} is no longer at {known['source']}; say where it is: 'outcrop index VOLUME -o {job}'."
    )


def lines_path(job, volume_digest):
    """File with the digests of the lines of a volume of a job."""
    return Path(job) / "volume" / f"{volume_digest}.txt"


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
        Workspace(job).write({"volume": known | {"digest": digest(known["digest"], direction, line, found)}})
        raise ChangedVolume(
            f"{known['source']} changed since job {job} first read it: {error} What was made from the old samples is "
            "kept and marked stale; run the same command again to go on with the new ones."
        ) from None
