"""What an interpreter has decided, as plain data in the job folder: written at every change, undone and redone."""

import contextlib
import copy
import itertools
import json
import threading
from pathlib import Path

from outcrop.workspace import whole_file

NAME = "page.json"
FORMAT = 1
STEPS = 200  # that can be undone


def fresh():
    """Decisions before the first one."""
    return {
        "classes": [],  # name, colour
        "exemplars": [],  # class, place (inline, crossline, time of the centre)
        "judged": [],  # class, place, along, accept
        "counts": {},  # class -> patches
        "retrieved": False,  # whether the search was asked for
        "mapping": "texture",
        "painted": [],  # class, along, line, runs of [trace, first sample, last sample] in survey labels
    }


class State:
    """Decisions that are saved whole at every change and can be undone, also after a restart.

    Parameters
    ----------
    path : path
        The job folder.
    about : dict
        What the decisions are about: the volume and the patch size; kept beside them.
    tell : callable, optional
        Called with "state" after every change.

    Examples
    --------
    >>> import tempfile
    >>> state = State(tempfile.mkdtemp())
    >>> with state.change() as data:
    ...     data["mapping"] = "paper"
    >>> again = State(state.path.parent)
    >>> again.data["mapping"], again.undo(), again.data["mapping"]
    ('paper', True, 'texture')
    """

    def __init__(self, path, about=None, *, tell=lambda what: None):
        self.path, self.tell = Path(path) / NAME, tell
        self.data, self.view, self.about = fresh(), {}, about or {}
        self._past: list = []  # what leads back from each state to the one before it
        self._future: list = []
        self._lock = threading.RLock()
        stored = read_state(path)
        if stored:
            self.data |= stored["decisions"]
            self.view = stored["view"]
            self._past, self._future = stored.get("past", []), stored.get("future", [])

    @property
    def palette(self):
        """Class name -> colour."""
        return {one["name"]: one["colour"] for one in self.data["classes"]}

    def exemplars(self):
        """Class -> places, as `retrieve` takes them."""
        found: dict = {}
        for one in self.data["exemplars"]:
            found.setdefault(one["class"], []).append(tuple(one["place"]))
        return {name: found[name] for name in self.palette if name in found}

    @contextlib.contextmanager
    def change(self):
        """Change the decisions; an error inside leaves them as they were."""
        with self._lock:
            before = copy.deepcopy(self.data)
            try:
                yield self.data
            except BaseException:
                self.data = before
                raise
            back = difference(self.data, before)
            if back:
                self._past = [*self._past, back][-STEPS:]
                self._future = []
                self.save()
        self.tell("state")

    def undo(self):
        """Take the last change back; whether there was one."""
        return self._step(self._past, self._future)

    def redo(self):
        """Do again what was undone; whether there was anything."""
        return self._step(self._future, self._past)

    def _step(self, source, target):
        with self._lock:
            if not source:
                return False
            before, self.data = self.data, changed(self.data, source.pop())
            target.append(difference(self.data, before))
            self.save()
        self.tell("state")
        return True

    def look(self, **view):
        """Remember where the interpreter looks; this is not undone."""
        with self._lock:
            self.view = self.view | view
            self.save()

    def save(self):
        """Write everything, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "about": self.about, "view": self.view, "decisions": self.data}
        content |= {"past": self._past, "future": self._future}
        with whole_file(self.path) as aside:
            aside.write_text(json.dumps(content), encoding="utf-8")


def difference(old, new):
    """What leads from some decisions to others: of every list that differs, how many items stay and what follows them.

    Examples
    --------
    >>> difference({"mapping": "paper", "painted": [1, 2, 3]}, {"mapping": "paper", "painted": [1, 2, 4, 5]})
    {'painted': [2, [4, 5]]}
    """
    found: dict = {}
    for key, value in new.items():
        if value != old[key]:
            pairs = zip(old[key], value, strict=False) if isinstance(value, list) else ()
            same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
            found[key] = [same, value[same:] if isinstance(value, list) else value]
    return found


def changed(data, difference):
    """Decisions after a `difference`.

    Examples
    --------
    >>> changed({"mapping": "paper", "painted": [1, 2, 3]}, {"painted": [2, [4, 5]]})
    {'mapping': 'paper', 'painted': [1, 2, 4, 5]}
    """
    new = {key: data[key][:same] + rest if isinstance(rest, list) else rest for key, (same, rest) in difference.items()}
    return data | new


def read_state(path):
    """Stored state of a job folder, or None."""
    file = Path(path) / NAME
    if not file.is_file():
        return None
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT or not {"about", "view", "decisions"} <= stored.keys():
            raise ValueError(f"format {stored['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} cannot be read ({error}); mend it or move it away.") from None
    return stored
