"""Files with the labels of confirmed lines: compressed, named by their digest, never changed."""

import hashlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from outcrop.storage.workspace import Damaged, damage, no_link, whole_file

REMEDY = (
    "it holds the labels of a confirmed line, which now shows computed labels; restore the file from a copy of the "
    "job, or import decisions that were exported before"
)


class LineLabels(NamedTuple):
    """Labels of one line, with the trace numbers and the times or depths of its samples."""

    classes: list[str]  # code i + 1 is classes[i]
    traces: np.ndarray  # numbers of the crossing lines, shape (n_traces,)
    samples: np.ndarray  # in ms or m, shape (n_samples,)
    codes: np.ndarray  # uint8, shape (n_traces, n_samples); 0 = not confirmed


class LineFiles:
    """The files with the labels of the confirmed lines of a job.

    Parameters
    ----------
    folder : Path

    Examples
    --------
    >>> import tempfile
    >>> files = LineFiles(Path(tempfile.mkdtemp()))
    >>> name = files.write(LineLabels(["salt"], np.arange(2.0), np.arange(3.0), np.ones((2, 3), np.uint8)))
    >>> files.read(name).codes.sum(), len(name)
    (np.uint64(6), 32)
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._checked: dict[str, tuple[tuple[int, int] | None, str]] = {}  # name -> stamp of the file, and its problem

    def path(self, name: str) -> Path:
        """Return the path of the file with the given name, which has no suffix."""
        return self.folder / f"{name}.npz"

    def write(self, labels: LineLabels) -> str:
        """Store labels and return the name of their file, without the suffix."""
        out = io.BytesIO()
        traces, samples = (np.asarray(axis, np.float64) for axis in (labels.traces, labels.samples))
        classes = np.array(labels.classes, np.str_)
        np.savez_compressed(out, classes=classes, codes=labels.codes, traces=traces, samples=samples)
        return self.put(out.getvalue())

    def put(self, data: bytes) -> str:
        """Write bytes to the file named by their digest, if it is missing or damaged; return the name of the file."""
        name = hashlib.sha256(data).hexdigest()[:32]
        if self.get(name) is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(no_link(self.path(name))) as aside:
                aside.write_bytes(data)
        return name

    def get(self, name: str) -> bytes | None:
        """Return the bytes of the file with the given name; None if it is missing or damaged."""
        try:
            data = self.path(name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest()[:32] == name else None

    def read(self, name: str) -> LineLabels:
        """Return the labels in a file; raise `Damaged` if it is missing or damaged."""
        if not self.path(name).is_file():
            raise Damaged(f"{self.path(name)} is missing; {REMEDY}.")
        with damage(self.path(name), REMEDY):
            return _labels(self.get(name))

    def problem(self, name: str) -> str:
        """Return a sentence on why a file cannot be read, or an empty text if it can be read.

        A file that was checked before is read again only if it changed.
        """
        try:
            about = self.path(name).stat()
            stamp = about.st_size, about.st_mtime_ns
        except OSError:
            stamp = None
        if stamp is None or self._checked.get(name, (None, ""))[0] != stamp:
            try:
                self.read(name)
                self._checked[name] = stamp, ""
            except Damaged as error:
                self._checked[name] = stamp, str(error)
        return self._checked[name][1]

    def changed(self) -> int:
        """Return the time, in ns, when a file was last added or removed; 0 if the folder does not exist."""
        return self.folder.stat().st_mtime_ns if self.folder.is_dir() else 0


def _labels(data: bytes | None) -> LineLabels:
    """Return the labels in the bytes of a file; raise ValueError if these are None or not valid labels."""
    if data is None:
        raise ValueError("its bytes do not match the digest in its name")
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        codes, classes = stored["codes"], [str(name) for name in stored["classes"]]
        found = LineLabels(classes, stored["traces"], stored["samples"], codes)
    if codes.dtype != np.uint8 or codes.shape != (len(found.traces), len(found.samples)):
        raise ValueError(
            f"its codes have type {codes.dtype} and shape {codes.shape}, but each trace and sample needs one uint8 code"
        )
    if codes.max(initial=0) > len(classes):
        raise ValueError(f"its highest code is {codes.max()}, but it names only {len(classes)} classes")
    return found


def is_name(text: object) -> bool:
    """Return whether a text has the form of a file name: 32 hexadecimal digits.

    Examples
    --------
    >>> is_name("0" * 32), is_name("../secret")
    (True, False)
    """
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{32}", text) is not None
