"""Step 4 of the page: exports, and the commands that repeat the work in a terminal."""

import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import panel as pn
from bokeh.models import CheckboxGroup, Div

from outcrop.app.components import escape, heading, hint, note, scrolled
from outcrop.app.downloads import downloads_of
from outcrop.app.results import shown_path
from outcrop.app.viewer import Panel, Viewer

TEXTS = {
    "segy": "SEG-Y labels", "confidence": "SEG-Y confidence", "zarr": "Zarr", "training": "Training set",
    "figure": "Figure of this line",
}  # fmt: skip


class ExportPanel(Panel):
    """A panel that exports files, with a checkbox to include stale lines and a list of the written files.

    Parameters
    ----------
    viewer : Viewer
    stale, written : str
        Names of two widgets: the checkbox to include stale lines, and the list of written files.
    geology : bool
        Whether to list only exports of fault sticks and geobodies.
    """

    def __init__(self, viewer: Viewer, stale: str, written: str, *, geology: bool = False) -> None:
        super().__init__(viewer)
        self.results, self._geology = self.session.results, geology
        self.stale = CheckboxGroup(labels=["include stale lines"], active=[], name=stale)
        self.written, self.downloads = note(written), note(f"{written}-downloads")

    @property
    def wants_stale(self) -> bool:
        """Whether the checkbox *include stale lines* is ticked."""
        return bool(self.stale.active)

    def show_written(self) -> None:
        """List the files exported in this session, and links to download the files of the job."""
        listed = [one for one in self.results.written if one.geology or not self._geology]
        texts = [one.text.replace(str(one.path), shown_path(one.path), 1) for one in listed]
        self.written.text = "".join(f"<div>{escape(text)}</div>" for text in texts)
        self.downloads.text = ", ".join(map(self._link, downloads_of(self.session.path)))

    def _link(self, name: str) -> str:
        """Return an HTML link that downloads the file `name` of the job."""
        way = f"download/{quote(self.session.path.name)}/{quote(name)}"
        return f"<a href='{escape(way)}' download='{escape(name)}'>{escape(name)}</a>"


class ResultPanel(ExportPanel):
    """The panel of step 4: exports of labels, and the commands that repeat the work in a terminal.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer, "include-stale", "exported")
        self.visible: Callable[[], bool] = lambda: True
        self.actions = [
            self.button(text, functools.partial(self._on_export, kind), f"export-{kind}")
            for kind, text in TEXTS.items()
        ]
        self.lines = note("lines")
        wrapped = {"white-space": "pre-wrap", "overflow-wrap": "anywhere", "font": "12px monospace"}
        self.commands = Div(text="", name="commands", sizing_mode="stretch_width", styles=wrapped)

    def layout(self, *above: Any) -> Any:
        """Return the layout of the panel; the parts in `above` come first."""
        exports = [heading("Export into the job folder"), self.lines, self.stale, pn.FlexBox(*self.actions)]
        what = hint(
            "These commands repeat the work in a new job folder. The file decisions.jsonl transfers the decisions that "
            "no option expresses: verdicts, strokes, colours, and exemplars given as pictures."
        )
        files = [self.written, heading("Download"), self.downloads]
        return scrolled(*above, *exports, *files, heading("Repeat the work in a terminal"), what, self.commands)

    def _on_export(self, kind: str) -> None:
        self.results.start(kind, line=self.viewer.line, stale=self.wants_stale)

    def show(self) -> None:
        """Update the panel after a change of exports or labels, if the panel is visible."""
        if not self.visible():
            return
        names = (
            f"<span style='color:{colour}'>■</span>&nbsp;{escape(name)} {colour}"
            for name, colour in self.job.palette.items()
        )
        self.lines.text = f"{escape(self.results.summary())}<br>colours: {', '.join(names)}"
        self.stale.visible = "stale" in self.lines.text
        lines = (command.replace(" --", " \\\n    --") for command in self.results.commands())
        self.commands.text = escape("\n\n".join(lines))
