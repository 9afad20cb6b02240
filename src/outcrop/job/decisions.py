"""What interpreters decided: one append-only file per writer, merged by time; nothing in it is ever removed.

An entry is one line of JSON: ``id``, ``time``, ``who`` (user@host-number), ``from`` (shell, page or python), ``group``
(the id of the first entry of one act, so that it is undone as one) and ``what``, one of

================  =====================================================================================================
class             ``class``, ``colour``: a class appears, or gets another colour
rename            ``class``, ``name``: a class is called by another name; other entries keep its first name
remove class      ``class``
exemplar          ``class``, and ``place`` (inline, crossline, time of the centre) or ``picture``
move              ``of`` (id of an exemplar), ``place``
remove            ``of`` (id of an exemplar)
accept, reject    ``class``, ``place``, ``along``: yes and no to a retrieved patch
forget            ``place`` and ``along`` of a verdict to drop; without them all verdicts
stroke            ``class`` or ``erase``, ``along``, and ``points`` with ``radius`` or ``runs`` on one ``line``;
                  ``filled``: all that the closed line through the points encloses, too; ``stick``: the line is a
                  fault stick of the class
exclude           as a stroke: samples that are not of ``class``
audit             ``class``, ``place``, ``along`` of a random patch or sample, ``answer`` (yes, no, unknown),
                  ``subject`` (patches, samples), ``of`` (key of what was audited), ``stratum`` it was drawn from; of
                  samples also ``confidence``, and ``really``, the class of one that is not what its label says
set               ``name``, ``value``: an option of a stage
undo, redo        ``of``: ids; ``withdrawn``: the act failed half-way, and there is nothing to do again
import            ``name``: the decisions of a file count from here on, those of them alone; see `outcrop.job.imports`
================  =====================================================================================================
"""

import contextlib
import datetime
import getpass
import hashlib
import json
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from outcrop.job.entries import STROKES, parse
from outcrop.job.imports import arrange, holding, scope
from outcrop.job.state import State, acts, fold
from outcrop.storage.stages import append_line, read_lines
from outcrop.storage.workspace import refuse_volume_name, whole_file

FOLDER = "decisions"


class Decisions:
    """All decisions of a job folder, and the file that this process writes.

    Parameters
    ----------
    job : path
        The job folder.
    origin : str
        Where this writer sits: shell, page or python.

    Examples
    --------
    >>> import tempfile
    >>> one = Decisions(tempfile.mkdtemp(), origin="shell")
    >>> _ = one.add({"what": "exemplar", "class": "fault", "place": [310, 547, 1600]})
    >>> other = Decisions(one.folder.parent, origin="page")
    >>> other.state().exemplars[0].place
    (310, 547, 1600)
    >>> one.undo(), other.state().exemplars
    (True, [])
    """

    def __init__(self, job, *, origin="python"):
        self.folder, self.origin = Path(job) / FOLDER, origin
        self.damaged: dict = {}  # file name -> lines that cannot be read
        self._lock = threading.RLock()
        self._files: dict = {}  # file name -> (size, entries)
        self._entries: list = []
        self._state: State | None = None
        self._hold: Any = None
        self._who = ""
        self._act: str | None = None  # id of the first entry of an act under way

    # ---- reading ----------------------------------------------------------------------------------------------------

    def refresh(self):
        """Read what was written since; whether anything was."""
        with self._lock:
            sizes = {path.name: path.stat().st_size for path in self.folder.glob("*.jsonl")}
            if sizes == {name: size for name, (size, _) in self._files.items()}:
                return False
            for name, size in sizes.items():
                if self._files.get(name, (None,))[0] != size:
                    self._files[name] = (size, self._read(name))
            self._files = {name: self._files[name] for name in sizes}
            found = [
                (entry["time"], name, number, entry)
                for name, (_, entries) in self._files.items()
                for number, entry in enumerate(entries)
            ]
            self._entries = arrange([entry for *_, entry in sorted(found, key=lambda item: item[:3])])
            self._state = None
            return True

    def _read(self, name):
        """Entries of one file."""
        entries, bad = [], 0
        for line in (self.folder / name).read_bytes().decode("utf-8", "replace").split("\n"):
            entry = parse(line)
            if entry is not None:
                entries.append(entry)
            elif line.strip():
                bad += 1
        self.damaged.pop(name, None)
        if bad:
            self.damaged[name] = bad
        return entries

    @property
    def entries(self):
        """All entries, the oldest first."""
        with self._lock:
            self.refresh()
            return list(self._entries)

    def state(self):
        """What holds now."""
        with self._lock:
            self.refresh()
            if self._state is None:
                self._state = fold(self._entries)
            return self._state

    # ---- writing ----------------------------------------------------------------------------------------------------

    @property
    def who(self):
        """Name of this writer; a file that no living writer holds is taken."""
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

    def add(self, *entries):
        """Write entries as one act; they are on disk when this returns.

        Returns
        -------
        list of dict
            The entries as written.
        """
        with self._lock:
            self.refresh()
            who, last = self.who, max((entry["time"] for entry in self._entries if not scope(entry)), default="")
            written: list = []
            for entry in entries:
                about = {
                    "id": entry.get("id") or uuid.uuid4().hex[:12],
                    "time": _after(last),
                    "who": who,
                    "from": self.origin,
                }
                about["group"] = self._act or (written[0]["id"] if written else about["id"])
                self._act = None if self._act is None else about["group"]
                written.append(about | entry)
                last = about["time"]
            lines = [json.dumps(entry) for entry in written]
            if not all(parse(line) for line in lines):
                raise ValueError(f"A decision cannot be kept: {lines[0][:200]}.")
            append_line(self.folder / f"{who}.jsonl", "\n".join(lines))
            self.refresh()
            return written

    @contextlib.contextmanager
    def act(self):
        """What is written inside is one act, which is undone as one; an error inside undoes it at once."""
        with self._lock:
            self._act = ""
            try:
                yield
            except BaseException:
                written = [entry["id"] for entry in self._entries if self._act and entry.get("group") == self._act]
                self._act = None
                if written:
                    self.add({"what": "undo", "of": written, "withdrawn": True})
                raise
            finally:
                self._act = None

    def undo(self):
        """Take back the last act of this writer, or of one of the same person that has ended; whether there was one."""
        return self._step("undo")

    def redo(self):
        """Do again what this writer took back last; whether there was anything."""
        return self._step("redo")

    def _step(self, what):
        with self._lock:
            self.refresh()
            mine = self._mine()
            past, future = acts([entry for entry in self._entries if entry["who"] in mine and not scope(entry)])
            stack = past if what == "undo" else future
            if not stack:
                return False
            self.add({"what": what, "of": stack[-1]})
            return True

    def _mine(self):
        """Names of this writer and of all of the same person on this machine that have ended."""
        person = self.who.rpartition("-")[0]
        names = {entry["who"] for entry in self._entries if entry["who"].rpartition("-")[0] == person}
        return {name for name in names if name == self.who or _ended(self.folder / f".{name}.lock")}

    def close(self):
        """Let go of the file of this writer."""
        with self._lock:
            if self._hold is not None:
                self._hold.release()
            self._hold, self._who = None, ""

    # ---- travelling -------------------------------------------------------------------------------------------------

    def give(self, path):
        """Write all entries to one file, for a colleague or another survey; how many there were."""
        entries = self.entries
        refuse_volume_name(path)
        with whole_file(path) as aside:
            aside.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        return len(entries)

    def take(self, path):
        """Take over the entries of an exported file or of a colleague's file, as one act; how many there were.

        They act on each other, and on nothing that was decided in this job: see `outcrop.job.imports`.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"There is no file {path}; give one that 'outcrop decisions --export' wrote.")
        lines = [line for line in read_lines(path) if line.strip()]
        for number, line in enumerate(lines, 1):
            if parse(line) is None:
                raise ValueError(f"{path}, line {number} is not a decision; give a file of decisions.")
        if not lines:
            raise ValueError(f"{path} holds no decisions; give a file that 'outcrop decisions --export' wrote.")
        if not path.read_bytes().endswith(b"\n"):
            raise ValueError(f"{path} ends in the middle of a line; export it again.")
        name = import_name(path)
        entries = [json.loads(line) for line in lines]
        text = "\n".join(json.dumps(entry | {"import": [name, *scope(entry)]}) for entry in entries)
        with self._lock:
            if not (self.folder / f"{name}.jsonl").exists():
                append_line(self.folder / f"{name}.jsonl", text)
            mine = [entry for entry in self.entries if entry["what"] == "import" and entry["name"] == name]
            holds = holding(self._entries)
            if not any((scope(entry), entry["id"]) in holds for entry in mine if not scope(entry)):
                self.add({"what": "import", "name": name})
        return len(lines)


def import_name(path):
    """Name under which a file of decisions is kept in a job."""
    text = "\n".join(line for line in read_lines(path) if line.strip())
    return f"import-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _ended(path):
    """Whether nobody holds the lock of a writer."""
    with contextlib.suppress(Timeout), FileLock(path, thread_local=False).acquire(timeout=0):
        return True
    return False


def _user():
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "someone"


def _after(last):
    """Time of now, and after the last entry seen even where the clocks of two machines differ."""
    now = datetime.datetime.now(datetime.UTC)
    with contextlib.suppress(ValueError):
        now = max(now, datetime.datetime.fromisoformat(last) + datetime.timedelta(microseconds=1))
    return now.isoformat(timespec="microseconds")


def decisions_table(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Return decisions for people to read: when, who, from where, what, class, where, and whether it was undone."""
    holds = holding(entries)
    exemplars: dict[str, dict[str, Any]] = {}  # id -> entry, at its present place
    rows = []
    for entry in entries:
        undone, about = (scope(entry), entry["id"]) not in holds, entry
        if entry["what"] in ("move", "remove") and entry["of"] in exemplars:
            about = exemplars[entry["of"]] | {key: entry[key] for key in ("place",) if key in entry}
        if entry["what"] in ("exemplar", "move") and not undone:
            exemplars[entry.get("of", entry["id"])] = about
        row = {"when": pd.Timestamp(entry["time"]), "who": entry["who"], "from": entry.get("from", "")}
        row |= {"what": entry["what"], "class": about.get("class", ""), "where": _where(about)}
        rows.append(row | {"undone": undone, "id": entry["id"]})
    return pd.DataFrame(rows, columns=["when", "who", "from", "what", "class", "where", "undone", "id"])


def _where(entry: dict[str, Any]) -> str:
    """Return the place, section or value of a decision in words."""
    if entry["what"] in STROKES:
        line = entry["line"] if "runs" in entry else entry["points"][0][0 if entry["along"] == "inline" else 1]
        return f"{entry['along']} {line:g}"
    if "place" in entry:
        place = ", ".join(f"{part:g}" for part in entry["place"])
        return f"{place}: {entry['answer']}" if entry["what"] == "audit" else place
    if entry["what"] == "set":
        return f"{entry['name']} = {json.dumps(entry['value'])}"
    return str(entry.get("name") or entry.get("colour") or ("picture" if "picture" in entry else ""))
