"""Files of a job folder, without its results: atomic writing, fingerprints of files, handling of damaged files."""

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import socket
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import tomli_w

import outcrop

FORMAT = 2  # of the job folder; raised with every change that older programs cannot read
BLOCK = 4096
REFUSED = (0.01, 0.03, 0.1, 0.3, 0.6)  # pauses in seconds before a refused rename is tried again
VOLUMES = (".sgy", ".segy", ".zgy", ".vds", ".sgz", ".npy", ".zarr", ".mdio")  # endings of the names of volumes


class Workspace:
    """A job folder whose files are written atomically.

    Parameters
    ----------
    path : str or Path
        The folder, by convention ``NAME.outcrop``.

    Examples
    --------
    >>> import tempfile
    >>> job = Workspace(Path(tempfile.mkdtemp()) / "f3.outcrop")
    >>> job.path.mkdir()
    >>> job.write({"volume": {"source": "f3.sgy"}})
    >>> job.read()["volume"]["source"]
    'f3.sgy'
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def inner_path(self, name: str) -> Path:
        """Return the path at which to write the file `name`; raise `ValueError` if a link leads out of the job."""
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise ValueError(f"{path} is a link to {path.resolve()}, outside the job; replace the link by the file.")
        return path

    def exists(self) -> bool:
        """Return whether the folder holds a job."""
        return (self / "job.toml").is_file()

    def read(self) -> dict[str, Any]:
        """Return the contents of ``job.toml``, the metadata of the job; raise `ValueError` if it cannot be read."""
        if not self.exists():
            raise ValueError(f"{self.path} is not a job folder; make one with 'outcrop index VOLUME -o {self.path}'.")
        try:
            job = tomllib.loads((self / "job.toml").read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(
                f"{self / 'job.toml'} cannot be read ({error}); repair it, or run 'outcrop index' again."
            ) from None
        if job.get("format") != FORMAT:
            raise ValueError(
                f"Job {self.path} has format {job.get('format')!r}, this program reads {FORMAT}; give the "
                f"volume again with 'outcrop index VOLUME -o {self.path}': decisions are kept."
            )
        return job

    def write(self, job: dict[str, Any]) -> None:
        """Write the tables `job`, the format of the folder and the program's version as the new ``job.toml``."""
        with whole_file(self / "job.toml") as path:
            path.write_text(tomli_w.dumps({"format": FORMAT, "version": outcrop.__version__} | job), encoding="utf-8")

    def log(self, event: str, **fields: Any) -> None:
        """Append a line to ``log.jsonl`` with an event, its fields, the time and the program's version."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with open(self.inner_path("log.jsonl"), "a", encoding="utf-8") as handle:
            handle.write(json.dumps({"time": now, "event": event, "version": outcrop.__version__} | fields) + "\n")


class DoneLog:
    """File with the numbers of the finished blocks of a computation, one in each line; ``!7`` cancels block 7.

    An incomplete last line, left by a killed process, does not count.

    Examples
    --------
    >>> import tempfile
    >>> log = DoneLog(Path(tempfile.mkdtemp()) / "features.done")
    >>> log.add(3)
    >>> log.read()
    {3}
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def read(self) -> set[int]:
        """Return the numbers of finished blocks."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.is_file() else []
        found: set[int] = set()
        for line in lines:
            number = line.removeprefix(b"!")
            if number.isdigit() and len(number) < 10:
                (found.add if number == line else found.discard)(int(number))
        return found

    def add(self, number: int) -> None:
        """Record that a block is finished."""
        self._append(f"{number}")

    def drop(self, number: int) -> None:
        """Record that a block must be computed again."""
        self._append(f"!{number}")

    def _append(self, text: str) -> None:
        with open(no_link(self.path), "a+b") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - 1))
            cut_short = handle.read() not in (b"", b"\n")  # by a full disk: the two numbers must not join
            handle.write((b"?\n" if cut_short else b"") + f"{text}\n".encode())


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to `path` at the end and removed after an error.

    If several threads or processes write the same file at once, the file that is finished last is kept. Of folders,
    the one that is finished first is kept, because all writers of a folder write the same contents. Temporary files of
    killed processes are removed when the same path is written again.
    """
    path = Path(path)
    existed = _is_filled(path)
    _clear_leftovers(path)
    aside = path.with_name(f"{_aside_prefix(path)}{os.getpid()}-{threading.get_ident()}.part")
    remove(aside)
    try:
        yield aside
        try:
            _replace(aside, path)
        except OSError:
            if existed or not (aside.is_dir() and _is_filled(path)):
                raise
    finally:
        remove(aside)


def refuse_volume_name(path: str | Path) -> None:
    """Raise `ValueError` if `path`, an output file that is no volume, has the ending of a volume, such as ``.sgy``."""
    if Path(path).suffix.lower() in VOLUMES:
        raise ValueError(f"{path} is the name of a volume; choose another name for the output.")


def spare_survey(path: str | Path, *, synthetic: bool = False) -> None:
    """Raise `ValueError` if a SEG-Y file to write would replace a survey or a synthetic volume.

    A file is a survey if its text header does not name Outcrop. If `synthetic` is True, a synthetic volume may be
    replaced.
    """
    path = Path(path)
    if not path.is_file():
        return
    with open(path, "rb") as file:
        head = file.read(3200)
    texts = [head.decode(code, "replace").lower() for code in ("cp037", "ascii")]
    if not any("outcrop" in text for text in texts):
        raise ValueError(f"{path} is already there and was not written by Outcrop; remove it or choose another name.")
    if any("synthetic volume made by outcrop" in text for text in texts) and not synthetic:
        raise ValueError(f"{path} is already there, a synthetic volume or its truth; remove it or choose another name.")


def _replace(aside: Path, path: Path) -> None:
    """Rename `aside` to `path`; try again for a second if Windows refuses this because `path` is open elsewhere."""
    if aside.is_dir():
        with contextlib.suppress(OSError):
            path.rmdir()  # Windows does not replace a folder, even an empty one
    for pause in REFUSED:
        try:
            return os.replace(aside, path)
        except PermissionError:
            time.sleep(pause)
    return os.replace(aside, path)


def _is_filled(path: Path) -> bool:
    """Return whether a path is a folder that is not empty."""
    return path.is_dir() and any(path.iterdir())


def _aside_prefix(path: Path) -> str:
    """Return the beginning of the temporary names under which processes on this host write a file."""
    return f".{path.name}.{socket.gethostname()}-"


def _clear_leftovers(path: Path) -> None:
    """Remove temporary files that killed processes left while they wrote to a path.

    Only files from this host are removed, because processes of other hosts cannot be checked.
    """
    pattern = re.compile(re.escape(_aside_prefix(path)) + r"(\d+)-\d+\.part")
    for name in os.listdir(path.parent) if path.parent.is_dir() else []:
        match = pattern.fullmatch(name)
        if match and not psutil.pid_exists(int(match[1])):
            remove(path.parent / name)


class Damaged(ValueError):
    """Raised if stored data, such as a result in a job folder, are damaged: they are not what this program wrote."""


@contextlib.contextmanager
def damage(store: Any, remedy: str) -> Iterator[None]:
    """Raise `Damaged` instead of any error that occurs inside this context, in which stored data are read.

    The message names `store`, the cause and `remedy`. Errors of the disk are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and not isinstance(error, FileNotFoundError):
            raise  # an error of the disk, not of the store
        raise Damaged(f"{store} is damaged ({_first_line(error)}); {remedy}.") from error
    except Exception as error:
        raise Damaged(f"{store} is damaged ({_first_line(error)}); {remedy}.") from error


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def set_aside(path: str | Path) -> None:
    """Rename a damaged file or folder, so that it can be computed again and is not lost."""
    path, number = Path(path), 1
    while path.with_name(f"{path.name}.damaged-{number}").exists():
        number += 1
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, path.with_name(f"{path.name}.damaged-{number}"))


def no_link(path: str | Path) -> Path:
    """Return the path of a file to append to; raise `ValueError` if it is a link, which may lead out of the job."""
    path = Path(path)
    if path.is_symlink():
        raise ValueError(f"{path} is a link to {path.resolve()}, outside the job; replace the link by the file.")
    return path


def remove(path: str | Path) -> None:
    """Remove a file or a folder, if it exists."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Return a dict that identifies a file or folder: size, modification time, and SHA-256 of evenly spaced blocks."""
    path = Path(path)
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest, size = hashlib.sha256(), sum(file.stat().st_size for file in files)
    spacing = max(1, size // 256)
    position = 0  # of the first byte of the file among the bytes of all files
    for file in files:
        length = file.stat().st_size
        digest.update(f"{file.relative_to(path)}:{length}".encode() if file != path else b"")
        with open(file, "rb") as handle:
            for offset in sorted(
                {0, *range(-position % spacing, length, spacing)}
            ):  # the first block holds the headers
                handle.seek(offset)
                digest.update(handle.read(BLOCK))
        position += length
    return {"size": size, "time": max(file.stat().st_mtime for file in files), "sha256": digest.hexdigest()}
