"""Store the results of a job under keys.

The key of a result is a digest of all its inputs, so a new result never replaces one from other inputs.
"""

import contextlib
import datetime
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import outcrop
from outcrop.storage.workspace import no_link, remove, set_aside, whole_file

FACTS = "stage.json"
JOURNAL = "journal.txt"
KINDS = ("index", "retrieved", "survey", "mapper", "votes", "net", "faults")


def digest(*parts: Any) -> str:
    """Return a digest of values that JSON can store: sixteen hexadecimal digits. The order of keys has no effect.

    Examples
    --------
    >>> digest({"size": [99, 99], "step": 11}) == digest({"step": 11, "size": [99, 99]})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_json(value: Any) -> Any:
    """Return a value after writing it to JSON and reading it: tuples and arrays become lists, other objects texts."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


class Stages:
    """Stages of a job: folders with results, each found by its kind, such as ``index``, and its key.

    Parameters
    ----------
    job : path
        The job folder; stages lie in ``stages/KIND/KEY`` below it.

    Examples
    --------
    >>> import tempfile
    >>> stages = Stages(tempfile.mkdtemp())
    >>> key = stages.begin("index", {"size": 99})
    >>> stages.facts("index", key)["inputs"]
    {'size': 99}
    >>> stages.note("index", key); stages.last("index") == key
    True
    """

    def __init__(self, job: str | Path):
        self.root = Path(job) / "stages"

    def path(self, kind: str, key: str) -> Path:
        """Return the path of the folder of a stage, whether it exists or not."""
        return self.root / kind / key

    def begin(self, kind: str, inputs: Any) -> str:
        """Create the folder of a stage unless it exists, record its inputs, and return its key.

        The key is the digest of the kind and the inputs.
        """
        key = digest(kind, inputs)
        folder = self.path(kind, key)
        if not (folder / FACTS).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            facts = {"kind": kind, "key": key, "version": outcrop.__version__, "made": now, "inputs": inputs}
            with whole_file(folder / FACTS) as aside:
                aside.write_text(json.dumps(facts, indent=1, default=_plain), encoding="utf-8")
        return key

    def get(
        self,
        stage: Any,
        name: str,
        make: Callable[[], Any],
        load: Callable[[Path], Any],
        save: Callable[[Any, Path], Any] = lambda made, path: made.save(path),
    ) -> Any:
        """Load a file or folder of a stage; compute and store it if it is missing or damaged.

        Parameters
        ----------
        stage
            Object with the attributes ``kind``, ``inputs`` and ``key``.
        name : str
            Name of the file or folder.
        make : callable
            Computes the result.
        load : callable
            ``load(path)`` reads the result; it raises ValueError if the result is damaged.
        save : callable, optional
            ``save(made, path)`` writes the result; by default, its method ``save`` does.
        """
        path = self.path(stage.kind, stage.key) / name
        if path.exists():
            try:
                return load(path)
            except ValueError:
                set_aside(path)
        self.begin(stage.kind, stage.inputs)
        made = make()
        if not path.exists():  # another process may have stored the same result meanwhile
            save(made, path)
        self.note(stage.kind, stage.key)
        return made

    def facts(self, kind: str, key: str) -> dict[str, Any]:
        """Return inputs, version and start time of a stage as a dict; empty if it does not exist or cannot be read."""
        try:
            found: dict[str, Any] = json.loads((self.path(kind, key) / FACTS).read_text(encoding="utf-8"))
            return found
        except (OSError, ValueError):
            return {}

    def note(self, kind: str, *words: Any) -> None:
        """Record that a stage, or a part of it, is finished: add a line to the journal of its kind.

        The line consists of `words`; the first word is the key of the stage.
        """
        append_line(self.root / kind / JOURNAL, " ".join(map(str, words)))

    def journal(self, kind: str) -> list[list[str]]:
        """Return the words of each line in the journal of a kind (see `note`), oldest first.

        Lines of stages that no longer exist are left out.
        """
        lines = [line.split() for line in read_lines(self.root / kind / JOURNAL)]
        exists = {key: (self.path(kind, key) / FACTS).is_file() for key in {words[0] for words in lines if words}}
        return [words for words in lines if words and exists[words[0]]]

    def last(self, kind: str) -> str | None:
        """Return the key of the last finished stage of a kind; None if no stage of this kind was finished."""
        journal = self.journal(kind)
        return journal[-1][0] if journal else None

    def keys(self, kind: str) -> list[str]:
        """Return the keys of all stages of a kind, finished or not, in the order in which they were begun."""
        found = [path.parent.name for path in (self.root / kind).glob(f"*/{FACTS}")]
        return sorted(found, key=lambda key: (self.facts(kind, key).get("made", ""), key))

    def sizes(self) -> dict[tuple[str, str], int]:
        """Return the size of every stage in bytes: (kind, key) -> size."""
        return {
            (kind, key): sum(file.stat().st_size for file in self.path(kind, key).rglob("*") if file.is_file())
            for kind in KINDS
            for key in self.keys(kind)
        }

    def set_aside(self, kind: str, key: str, name: str) -> None:
        """Rename a damaged file or folder of a stage, so that it can be computed again and is not lost."""
        set_aside(self.path(kind, key) / name)

    def remove(self, kind: str, key: str) -> None:
        """Delete a stage.

        The file with its facts is deleted first, so that a partly deleted stage no longer counts as a stage.
        """
        remove(self.path(kind, key) / FACTS)
        remove(self.path(kind, key))


def append_line(path: str | Path, text: str) -> None:
    """Append a line to a file in one write.

    If the last line has no end, because its writer was killed or the disk was full, it is ended first.
    """
    path = no_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size:
            os.lseek(handle, size - 1, os.SEEK_SET)
        whole = not size or os.read(handle, 1) == b"\n"
        data = ("" if whole else "\n").encode() + text.encode() + b"\n"
        written = os.write(handle, data)
        if written < len(data):
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)
            raise OSError(28, "No space left on device", str(path))
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(path: str | Path, start: int = 0) -> list[str]:
    """Return the complete lines of a text file from the byte `start` on; text after the last line end is ignored."""
    path = Path(path)
    if not path.is_file():
        return []
    with open(path, "rb") as handle:
        handle.seek(start)
        text = handle.read()
    return text[: text.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
