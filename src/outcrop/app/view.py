"""The view of the page: section, tools and layers. It is stored in the job folder and does not affect results."""

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
    """The section in view and the settings of the page, stored for the next time that the page is opened.

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
        self._shared: View | None = None  # view of all tabs, if this is the view of one tab
        self._latest = Latest(self._write)
        with contextlib.suppress(OSError, ValueError):
            self._chosen = dict(json.loads(self.path.read_text(encoding="utf-8")))

    def of_tab(self) -> "View":
        """Return a view for one browser tab.

        Choices in other tabs do not change this view; the file stores the last choice made in any tab.
        """
        one = copy.copy(self)
        one._shared = self
        return one

    def get(self, name: str, default: Value) -> Value:
        """Return the choice stored under a name; `default` if no choice is stored, or if it has another type."""
        value = self._chosen.get(name, default)
        same = isinstance(value, (int, float)) if type(default) in (int, float) else isinstance(value, type(default))
        return value if same else default

    def keep(self, **chosen: Any) -> None:
        """Store choices under their names, for instance ``keep(position=12)``."""
        self._chosen = self._chosen | chosen
        if self._shared is None:
            self._latest.request()
        else:
            self._shared.keep(**chosen)

    def follow(self, widget: Any) -> Any:
        """Set a widget to the value stored under its name, and store its later values; return the widget."""
        name = value_of(widget)
        now = getattr(widget, name)
        value = self.get(widget.name, now)
        ends = (widget.start, widget.end) if hasattr(widget, "start") else (0, len(getattr(widget, "labels", "01")) - 1)
        if isinstance(value, (list, str)) or ends[0] <= value <= ends[1]:
            widget.update(**{name: value})
        widget.on_change(name, lambda _attr, _old, new: self.keep(**{widget.name: new}))
        return widget

    def close(self) -> None:
        """Wait until the file of the view is written."""
        self._latest.wait()

    def _write(self) -> None:
        """Write the file of the view; if this fails, for instance on a full disk, do nothing."""
        with contextlib.suppress(OSError), whole_file(self.path) as aside:
            aside.write_text(json.dumps(self._chosen), encoding="utf-8")


def value_of(widget: Any) -> str:
    """Return the name of the property that holds the value of a Bokeh widget: "active" or "value"."""
    return "active" if hasattr(widget, "active") else "value"
