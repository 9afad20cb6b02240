"""How an interpreter looks at a job, kept in its folder; it is no decision, and nothing is made from it."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any, TypeVar

from outcrop.app.work import Latest
from outcrop.storage.workspace import whole_file

Value = TypeVar("Value")
NAME = "view.json"


class View:
    """The section in view and what is chosen around it, remembered until the page is opened again.

    Parameters
    ----------
    path : path
        The job folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> view = View(folder); view.keep(direction=0, position=12); view.close()
    >>> View(folder).get("position", 3), View(folder).get("opacity", 0.35)
    (12, 0.35)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path) / NAME
        self._chosen: dict[str, Any] = {}
        self._shared: View | None = None  # of all tabs, where this is the view of one
        self._latest = Latest(self._write)
        with contextlib.suppress(OSError, ValueError):
            self._chosen = dict(json.loads(self.path.read_text(encoding="utf-8")))

    def of_tab(self) -> "View":
        """The same for one tab of the browser, which does not follow the others; the last choice is remembered."""
        one = copy.copy(self)
        one._shared = self
        return one

    def get(self, name: str, default: Value) -> Value:
        """What was chosen, or a default, whose type it must have."""
        value = self._chosen.get(name, default)
        same = isinstance(value, (int, float)) if type(default) in (int, float) else isinstance(value, type(default))
        return value if same else default

    def keep(self, **chosen: Any) -> None:
        """Remember something."""
        self._chosen = self._chosen | chosen
        if self._shared is None:
            self._latest.request()
        else:
            self._shared.keep(**chosen)

    def follow(self, widget: Any) -> Any:
        """Give a widget what was chosen in it last, and remember what is chosen from now on."""
        name = value_of(widget)
        now = getattr(widget, name)
        value = self.get(widget.name, now)
        ends = (widget.start, widget.end) if hasattr(widget, "start") else (0, len(getattr(widget, "labels", "01")) - 1)
        if isinstance(value, (list, str)) or ends[0] <= value <= ends[1]:
            widget.update(**{name: value})
        widget.on_change(name, lambda _attr, _old, new: self.keep(**{widget.name: new}))
        return widget

    def close(self) -> None:
        """Wait until it is written."""
        self._latest.wait()

    def _write(self) -> None:
        """A disk that is full or read-only is no reason to stop looking."""
        with contextlib.suppress(OSError), whole_file(self.path) as aside:
            aside.write_text(json.dumps(self._chosen), encoding="utf-8")


def value_of(widget: Any) -> str:
    """Name of the property that holds what is chosen in a widget."""
    return "active" if hasattr(widget, "active") else "value"
