"""Where an interpreter looks, kept in the job folder; it is no decision, and nothing is made from it."""

import contextlib
import json
import threading
from pathlib import Path

from outcrop.workspace import whole_file

NAME = "view.json"


class View:
    """The section in view, remembered until the page is opened again.

    Parameters
    ----------
    path : path
        The job folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> View(folder).keep(direction=0, position=12)
    >>> View(folder).place
    {'direction': 0, 'position': 12}
    """

    def __init__(self, path):
        self.path = Path(path) / NAME
        self._lock = threading.Lock()
        self.place: dict = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.path.read_text(encoding="utf-8"))
            self.place = {name: int(found[name]) for name in ("direction", "position") if name in dict(found)}

    def keep(self, *, direction, position):
        """Remember a section; a disk that is full or read-only is no reason to stop looking."""
        with self._lock, contextlib.suppress(OSError):
            self.place = {"direction": int(direction), "position": int(position)}
            with whole_file(self.path) as aside:
                aside.write_text(json.dumps(self.place), encoding="utf-8")
