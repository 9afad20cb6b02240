"""Decisions of interpreters: one append-only file per writer, merged by time; no entry is ever removed.

An entry is one line of JSON: ``id``, ``time``, ``who`` (user@host-number), ``from`` (shell, page or python), ``group``
(the id of the first entry of the act, whose entries are undone together) and ``what``, one of the kinds in the table.
There, ``along`` is the direction of a section (inline or crossline); ``runs`` are vertical pieces of a painted area,
each as [number of the crossing line, first time, last time]; ``picture`` is the image of an exemplar, stored as text.

================  =====================================================================================================
class             ``class``, ``colour``: add a class, or change its colour
rename            ``class``, ``name``: rename a class; other entries keep its first name
remove class      ``class``
exemplar          ``class``, and ``place`` (inline, crossline, time of the centre) or ``picture``
move              ``of`` (id of an exemplar), ``place``
remove            ``of`` (id of an exemplar)
accept, reject    ``class``, ``place``, ``along``: the verdict on a retrieved patch
forget            ``place`` and ``along`` of a verdict to clear; without them all verdicts are cleared
stroke            ``class`` or ``erase``; ``along``; either ``points`` and ``radius``, or ``runs`` on one ``line``;
                  ``filled``: the samples inside the closed outline are painted too; ``stick``: the points are a
                  fault stick of the class
exclude           the same fields as a stroke; the painted samples do not belong to ``class``
confirm           ``along``, ``line``, ``file`` of its labels in ``decisions/confirmed``, and the ``classes`` in it
unconfirm         ``along``, ``line``: this line is no longer confirmed
audit             ``class``, ``place``, ``along`` of a random patch or sample, ``answer`` (yes, no, unknown),
                  ``subject`` (patches, samples), ``of`` (cache key of the audited result), ``stratum`` (group from
                  which it was drawn); for a sample also ``confidence``; if the answer is no, also ``really``: the
                  true class
set               ``name``, ``value``: an option of a stage
undo, redo        ``of``: ids of entries; ``withdrawn``: the act failed before its end and cannot be redone
import            ``name``: the decisions of this imported file count from now on; see `outcrop.job.imports`
================  =====================================================================================================
"""

import base64
import contextlib
import datetime
import getpass
import hashlib
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from outcrop.job.entries import STROKES, parse
from outcrop.job.imports import Entry, arrange, entries_in_force, scope
from outcrop.job.line_files import LineFiles
from outcrop.job.state import State, acts, fold
from outcrop.storage.stages import append_line, read_lines
from outcrop.storage.workspace import refuse_volume_name, whole_file

FOLDER = "decisions"
LINES = "confirmed"  # folder of the labels of confirmed lines, in the folder of the decisions


class Decisions:
    """All decisions of a job folder; this process appends new decisions to a file of its own.

    Parameters
    ----------
    job : path
        The job folder.
    origin : str
        Origin of this writer: shell, page or python.

    Examples
    --------
    >>> import tempfile
    >>> one = Decisions(tempfile.mkdtemp(), origin="shell")
    >>> _ = one.add({"what": "exemplar", "class": "fault", "place": [310, 547, 1600]})
    >>> other = Decisions(one.folder.parent, origin="page")
    >>> other.state().exemplars[0].place
    (310, 547, 1600)
    >>> [entry["what"] for entry in one.undo()], other.state().exemplars
    (['exemplar'], [])
    """

    def __init__(self, job: str | Path, *, origin: str = "python"):
        self.folder, self.origin = Path(job) / FOLDER, origin
        self.damaged: dict[str, int] = {}  # file name -> number of unreadable lines
        self.line_files = LineFiles(self.folder / LINES)
        self._lock = threading.RLock()
        self._files: dict[str, tuple[int, list[Entry]]] = {}  # file name -> size and entries
        self._entries: list[Entry] = []
        self._state: State | None = None
        self._hold: FileLock | None = None
        self._who = ""
        self._pending: list[Entry] | None = None  # entries of an unfinished act, not written yet

    # ---- reading ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the files of decisions that changed since the last call."""
        with self._lock:
            sizes = {path.name: path.stat().st_size for path in self.folder.glob("*.jsonl")}
            if sizes == {name: size for name, (size, _) in self._files.items()}:
                return
            before = self._files
            self._files = {
                name: before[name] if name in before and before[name][0] == size else (size, self._read(name))
                for name, size in sizes.items()
            }
            self._merge()

    def _merge(self) -> None:
        """Merge the entries of all files and of an unfinished act by time."""
        found = [(entry["time"], name, entry) for name, (_, some) in self._files.items() for entry in some]
        found += [(entry["time"], f"{entry['who']}.jsonl", entry) for entry in self._pending or ()]
        self._entries = arrange([entry for *_, entry in sorted(found, key=lambda item: item[:2])])
        self._state = None

    def _read(self, name: str) -> list[Entry]:
        """Return the entries of the file `name`, and store the number of its unreadable lines in `damaged`."""
        lines = (self.folder / name).read_bytes().decode("utf-8", "replace").split("\n")
        entries = [parse(line) for line in lines if line.strip()]
        self.damaged.pop(name, None)
        if None in entries:
            self.damaged[name] = entries.count(None)
        return [entry for entry in entries if entry is not None]

    @property
    def entries(self) -> list[Entry]:
        """All log entries in the order in which they are replayed: the oldest first, imports at their import time."""
        with self._lock:
            self.refresh()
            return list(self._entries)

    def state(self) -> State:
        """Return the state of the job: what all decisions add up to after undo and redo."""
        with self._lock:
            self.refresh()
            if self._state is None:
                self._state = fold(self._entries)
            return self._state

    # ---- writing ----------------------------------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """Name of this writer and of its file, user@host-number; the name of a writer that has ended is used again."""
        if not self._who:
            self.folder.mkdir(parents=True, exist_ok=True)
            base, number = f"{_user()}@{socket.gethostname() or 'here'}", 0
            base = "".join(c if c.isalnum() or c in "@._-" else "_" for c in base)
            while not self._who:
                number += 1
                hold = FileLock(self.folder / f".{base}-{number}.lock", thread_local=False)
                with contextlib.suppress(Timeout):
                    hold.acquire(timeout=0)
                    self._hold, self._who = hold, f"{base}-{number}"
        return self._who

    def add(self, *entries: Entry) -> list[Entry]:
        """Write entries as one act, and return them with their id, time and writer added.

        In a ``with`` block of `act`, the entries are written at the end of the block.
        """
        with self._lock:
            self.refresh()
            who, last = self.who, max((entry["time"] for entry in self._entries if not scope(entry)), default="")
            written: list[Entry] = []
            for entry in entries:
                id, last = entry.get("id") or uuid.uuid4().hex[:12], _after(last)
                group = (self._pending or written or [{"id": id}])[0]["id"]
                written.append({"id": id, "time": last, "who": who, "from": self.origin, "group": group} | entry)
            lines = [json.dumps(entry) for entry in written]
            if bad := next((line for line in lines if not parse(line)), None):
                raise ValueError(f"A decision is not valid, and nothing was written: {bad[:200]}.")
            if self._pending is not None:
                self._pending += written
                self._merge()
            else:
                append_line(self.folder / f"{who}.jsonl", "\n".join(lines))
                self.refresh()
            return written

    @contextlib.contextmanager
    def act(self) -> Iterator[None]:
        """Collect all decisions made in the ``with`` block into one act; an error in the block discards them all.

        A block inside another block belongs to the act of the outer block.
        """
        with self._lock:
            if self._pending is not None:
                yield
                return
            self._pending = []
            try:
                yield
                if self._pending:
                    lines = "\n".join(map(json.dumps, self._pending))
                    append_line(self.folder / f"{self.who}.jsonl", lines)
            finally:
                self._pending = None
                self.refresh()
                self._merge()

    def undo(self, act: str | None = None) -> list[Entry]:
        """Undo the last act of this person and return its entries, or an empty list if there is no act to undo.

        A writer is a process that records decisions. Acts of this writer count, and acts of the same person by writers
        that have ended. Consecutive answers to one audit are undone together; on the page, one by one.

        Parameters
        ----------
        act : str, optional
            Id of the first entry of the act to undo. It may be any act that `undoable` lists, also of another person.
        """
        return self._step("undo") if act is None else self._undo_act(act)

    def undoable(self) -> list[list[Entry]]:
        """Return the entries of every act that can be undone, of all persons, the last act first."""
        with self._lock:
            self.refresh()
            entries = {entry["id"]: entry for entry in self._entries if not scope(entry)}
            past, _ = acts(entries.values())
            return [[entries[one] for one in ids] for ids in reversed(past)]

    def _undo_act(self, act: str) -> list[Entry]:
        """Undo the act whose first entry has the id `act`, and return the entries of the act."""
        with self._lock:
            found = [entries for entries in self.undoable() if entries[0]["id"] == act]
            if not found:
                raise ValueError(f"Decision {act!r} cannot be undone; it was undone before, or is not in this job.")
            self.add({"what": "undo", "of": [entry["id"] for entry in found[0]]})
            return found[0]

    def redo(self) -> list[Entry]:
        """Redo the act that this person undid last and return its entries, or an empty list if there is no such act."""
        return self._step("redo")

    def _step(self, what: str) -> list[Entry]:
        """Undo or redo the next act of this person and return its entries; `what` is ``undo`` or ``redo``."""
        with self._lock:
            self.refresh()
            mine = self._mine()
            own = {entry["id"]: entry for entry in self._entries if not scope(entry)}
            left = {path[0]["id"] for path in self.undoable()}
            past, future = acts(entry for entry in own.values() if entry["who"] in mine)
            stack = [ids for ids in (past if what == "undo" else future) if (ids[0] in left) == (what == "undo")]
            if not stack:
                return []
            ids = stack[-1]
            if what == "undo" and self.origin != "page" and own[ids[0]]["what"] == "audit":
                audit = _audit_of(own[ids[0]])
                answers = list(takewhile(lambda act: _audit_of(own[act[0]]) == audit, reversed(stack)))
                ids = [one for act in reversed(answers) for one in act]
            self.add({"what": what, "of": ids})
            return [own[one] for one in ids]

    def _mine(self) -> set[str]:
        """Return the names of this writer and of ended writers of the same person on this machine."""
        person = self.who.rpartition("-")[0]
        names = {entry["who"] for entry in self._entries if entry["who"].rpartition("-")[0] == person}
        return {name for name in names if name == self.who or _ended(self.folder / f".{name}.lock")}

    def close(self) -> None:
        """Release the file of this writer, so that another process can continue it."""
        with self._lock:
            if self._hold is not None:
                self._hold.release()
            self._hold, self._who = None, ""

    # ---- export and import ------------------------------------------------------------------------------------------

    def give(self, path: str | Path) -> int:
        """Write all entries to a file that another job can import, and return the number of entries.

        Entries that confirm a line contain its labels as text.
        """
        entries = [self._with_labels(entry) for entry in self.entries]
        refuse_volume_name(path)
        with whole_file(path) as aside:
            aside.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        return len(entries)

    def _with_labels(self, entry: Entry) -> Entry:
        """Return an entry, with the labels of the line added as text if the entry confirms a line."""
        data = self.line_files.get(entry["file"]) if entry["what"] == "confirm" else None
        return entry if data is None else entry | {"labels": base64.b64encode(data).decode()}

    def _take_labels(self, entry: Entry, path: Path) -> Entry:
        """Store the labels of the line that an entry confirms, and return the entry without labels.

        The labels are in the entry, or in a file of the folder ``confirmed`` beside `path`, the file of decisions that
        is imported. Other entries are returned unchanged.
        """
        if entry["what"] != "confirm":
            return entry
        entry = dict(entry)
        text = entry.pop("labels", None)
        try:
            data = LineFiles(path.parent / LINES).get(entry["file"]) if text is None else base64.b64decode(text)
        except ValueError:
            data = b""
        if data is not None and self.line_files.put(data) != entry["file"]:
            raise ValueError(
                f"{path} holds damaged labels of {entry['along']} {entry['line']:g}; export the decisions again."
            )
        return entry

    def take(self, path: str | Path) -> int:
        """Import the entries of a file of decisions as one act; return the number of entries.

        The file was exported from another job, or lies in the folder of another job.

        Imported entries may change each other, but no decision of this job: see `outcrop.job.imports`.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"There is no file {path}; give one that 'outcrop decisions --export' wrote.")
        lines = [line for line in read_lines(path) if line.strip()]
        for number, line in enumerate(lines, 1):
            if parse(line) is None:
                raise ValueError(f"Line {number} of {path} is not a decision; give a file of decisions.")
        if not lines:
            raise ValueError(f"{path} holds no decisions; give a file that 'outcrop decisions --export' wrote.")
        if not path.read_bytes().endswith(b"\n"):
            raise ValueError(f"{path} ends in the middle of a line; export the decisions again.")
        name = import_name(path)
        entries = [self._take_labels(json.loads(line), path) for line in lines]
        with self._lock:
            if not (self.folder / f"{name}.jsonl").exists():
                text = "\n".join(json.dumps(entry | {"import": [name, *scope(entry)]}) for entry in entries)
                append_line(self.folder / f"{name}.jsonl", text)
            mine = {
                ((), entry["id"]) for entry in self.entries if (entry["what"], entry.get("name")) == ("import", name)
            }
            if not mine & entries_in_force(self._entries):
                self.add({"what": "import", "name": name})
        return len(lines)


def import_name(path: str | Path) -> str:
    """Return the name of the copy that a job keeps of an imported file; it depends only on the content."""
    text = "\n".join(line for line in read_lines(path) if line.strip())
    return f"import-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _audit_of(entry: Entry) -> tuple[Any, ...]:
    """Return a tuple that is equal for all answers to one audit and differs for other entries."""
    return entry["what"], entry.get("subject"), entry.get("of") if entry["what"] == "audit" else None


def _ended(path: Path) -> bool:
    """Return whether a writer has ended: no process holds its lock file at `path`."""
    with contextlib.suppress(Timeout), FileLock(path, thread_local=False).acquire(timeout=0):
        return True
    return False


def _user() -> str:
    """Return the login name of the user, ``someone`` if it is unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "someone"


def _after(last: str) -> str:
    """Return the present time as ISO 8601 text, or 1 µs after the time `last` if that is later than the present."""
    now = datetime.datetime.now(datetime.UTC)
    with contextlib.suppress(ValueError):
        now = max(now, datetime.datetime.fromisoformat(last) + datetime.timedelta(microseconds=1))
    return now.isoformat(timespec="microseconds")


def decisions_table(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Return a table with one row per entry: time, person, origin, kind, class, place, and whether it was undone."""
    in_force = entries_in_force(entries)
    exemplars: dict[str, dict[str, Any]] = {}  # id -> entry with the present place
    rows = []
    for entry in entries:
        undone, about = (scope(entry), entry["id"]) not in in_force, entry
        if entry["what"] in ("move", "remove") and entry["of"] in exemplars:
            about = exemplars[entry["of"]] | {key: entry[key] for key in ("place",) if key in entry}
        if entry["what"] in ("exemplar", "move") and not undone:
            exemplars[entry.get("of", entry["id"])] = about
        row = {"when": pd.Timestamp(entry["time"]), "who": entry["who"], "from": entry.get("from", "")}
        row |= {"what": entry["what"], "class": about.get("class", ""), "where": _where(about)}
        rows.append(row | {"undone": undone, "id": entry["id"]})
    return pd.DataFrame(rows, columns=["when", "who", "from", "what", "class", "where", "undone", "id"])


def _where(entry: dict[str, Any]) -> str:
    """Return a text that states the place, section or value of a decision, for the column ``where`` of the table."""
    if entry["what"] in ("confirm", "unconfirm"):
        return f"{entry['along']} {entry['line']:g}"
    if entry["what"] in STROKES:
        line = entry["line"] if "runs" in entry else entry["points"][0][0 if entry["along"] == "inline" else 1]
        return f"{entry['along']} {line:g}"
    if "place" in entry:
        place = ", ".join(f"{part:g}" for part in entry["place"])
        return f"{place}: {entry['answer']}" if entry["what"] == "audit" else place
    if entry["what"] == "set":
        return f"{entry['name']} = {json.dumps(entry['value'])}"
    return str(entry.get("name") or entry.get("colour") or ("picture" if "picture" in entry else ""))
