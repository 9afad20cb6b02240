"""Step 5 of the page: fault sticks, tops and bases over the section, and what to do with them."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import panel as pn
from bokeh import events
from bokeh.models import CheckboxGroup, Select
from matplotlib.colors import to_hex, to_rgba

from outcrop.app.components import escape, guarded, heading, hint, note, scrolled
from outcrop.app.layer_bar import STICKS, TOPS, LayerBar
from outcrop.app.pictures import Axis
from outcrop.app.plot import Columns, source
from outcrop.app.result_panel import ExportPanel
from outcrop.app.viewer import LOOK, Viewer
from outcrop.geometry.bodies import SIDES
from outcrop.geometry.crossings import FaultTrace
from outcrop.plots.geology_lines import STICK

CHOSEN = "#00e5ff"
SCREEN = (900, 650)  # pixels of a section, about
NEAR = 12  # pixels from a click to the stick that is meant
LINES = ("xs", "ys", "colour", "width")
GLYPHS = ("top-outlines", "tops", "base-outlines", "bases", "stick-outlines", "sticks", "chosen-stick")  # from below
OLD = "Tops out of date: recompute"


class Chosen(NamedTuple):
    """A stick as it was clicked, whatever is picked later."""

    of: str  # class that was shown
    trace: FaultTrace
    points: pd.DataFrame


class GeologyPanel(ExportPanel):
    """Everything about sticks and bodies.

    Parameters
    ----------
    viewer : Viewer
    layers : LayerBar
    """

    def __init__(self, viewer: Viewer, layers: LayerBar) -> None:
        super().__init__(viewer, "geology-stale", "geology-exported", geology=True)
        self.geology, self.layers = self.session.geology, layers
        self.chosen: Chosen | None = None
        self._section: tuple[int, int] | None = None  # that is shown
        self._sticks: pd.DataFrame | None = None  # of the traces
        self._traces: list[FaultTrace] = []
        layers.after_change = lambda _: self.show()
        self.of = self.react(Select(title="sticks of", options=[], width=150, name="sticks-class"), self._on_class)
        self.note, self.about, self.bodies = note("sticks-note"), note("stick-about"), note("bodies-note")
        verdicts = {"accept": "✓ Accept", "reject": "✕ Reject", "forget": "Clear verdict"}
        self.verdicts = [
            self.button(text, functools.partial(self._on_verdict, what), f"stick-{what}")
            for what, text in verdicts.items()
        ]
        self.extend = CheckboxGroup(labels=["Extend to next click"], active=[], name="stick-extend")
        self.actions = [
            self.button("Pick the survey", self.geology.pick_all, "pick-all"),
            self.button("Find bodies", self._on_bodies, "find-bodies"),
            self.button("Sticks as csv", lambda: self.geology.export_sticks(stale=self.wants_stale), "export-sticks"),
            self.button(
                "Bodies, tops and bases", lambda: self.geology.export_bodies(stale=self.wants_stale), "export-bodies"
            ),
        ]
        self._make_lines()
        viewer.plot.figure.on_event(events.Tap, self._on_tap)

    def _make_lines(self) -> None:
        """Glyphs over the section: outlines below, lines above."""
        figure = self.viewer.plot.figure
        self.lines = {name: source(LINES) for name in GLYPHS}
        look = {"line_color": "colour", "line_width": "width"}
        dashed = {"line_dash": [9, 6], "line_cap": "butt"}  # with round caps there would be no gaps
        for name, lines in self.lines.items():
            style = dashed if name.startswith("base") else {"line_cap": "round"}
            figure.multi_line("xs", "ys", source=lines, name=name, **style, **look)
        self.points = source(("x", "y"))
        figure.scatter("x", "y", source=self.points, size=5, color=STICK, name="stick-points")
        self.old = self.viewer.plot.words(8, 36, OLD, "#56606c", padding=4, name="old-horizons")

    def layout(self) -> Any:
        """Everything, arranged."""
        look = hint(
            "Click on a stick with the tool Navigate to choose it. Yes and no are decisions; labels learn from them."
        )
        solid = hint("Tops are drawn solid, bases dashed, in the colours of their classes; on slices as contours.")
        pick, find, *exports = self.actions
        chosen = pn.Row(self.of, pn.Column(pick, margin=(14, 0)))
        faults = [heading("Faults"), chosen, self.note, look, self.about, pn.Row(*self.verdicts), self.extend]
        bodies = [heading("Bodies"), solid, pn.Row(find), self.bodies]
        files = [heading("Export into the job folder"), self.stale, pn.FlexBox(*exports), self.written, self.downloads]
        return scrolled(*faults, *bodies, *files)

    # ---- showing ----------------------------------------------------------------------------------------------------

    @guarded
    def show(self) -> None:
        """Bring it up to the section in view."""
        section = self.viewer.direction, self.viewer.position
        choices, of = self.geology.choices(), self.geology.of
        self.of.update(options=choices, value=of)
        self._traces, self._sticks, self.note.text = [], None, ""
        if self.layers.shown(STICKS):
            self._sticks, traces, note = self.geology.shown(*section)
            self._traces = [one for one in traces if one.accepted or one.likelihood >= self.layers.likelihood]
            hidden = len({one.stick for one in traces}) - len({one.stick for one in self._traces})
            self.note.text = escape(note) + (f"; {hidden} of them are less likely than the slider" if hidden else "")
        if self._sticks is None or section != self._section or (self.chosen and self.chosen.of != of):
            self.chosen = None
        self._section = section
        self._show_sticks()
        self._show_horizons(self.geology.horizons(*section) if self.layers.shown(TOPS) else [])
        self.bodies.text = escape(self.geology.bodies_note())
        self.stale.visible = self.labelling.counts()[2] > 0

    def _show_sticks(self) -> None:
        lines = [one for one in self._traces if len(one.across) > 1]
        self.lines["stick-outlines"].data = self._lines([(one, "white", 5.0, 1.0) for one in lines if one.accepted])
        self.lines["sticks"].data = self._lines(
            [(one, STICK, 1.2 + 1.8 * one.likelihood, 0.5 + 0.5 * one.likelihood) for one in lines]
        )
        chosen = [self.chosen.trace] if self.chosen else []
        self.lines["chosen-stick"].data = self._lines([(one, CHOSEN, 3.5, 1.0) for one in chosen])
        singles = [self._placed(one.across, one.down) for one in self._traces if len(one.across) == 1]
        self.points.data = {"x": [x[0] for x, _ in singles], "y": [y[0] for _, y in singles]}
        off = self.viewer.line is None or not chosen
        if off and self.extend.active:
            self.extend.active = []
        for one in (*self.verdicts, self.extend):
            one.disabled = off
        self.about.text = ""
        if not off:
            axis, one = self.survey.volume.dims[2], chosen[0]
            state = "accepted" if one.accepted else f"likelihood {one.likelihood:.2f}"
            self.about.text = f"chosen stick: {axis} {one.down[0]:g} to {one.down[-1]:g}, {state}"

    def _show_horizons(self, horizons: list[tuple[str, str, Any]]) -> None:
        colours, old = self.job.palette, self.geology.bodies_old()
        alpha = 0.45 if old else 1.0
        for side in SIDES:
            rows = [
                (*self._placed(*line), colours.get(name, "#888888"), 2.0, alpha)
                for name, which, line in horizons
                if which == side and name not in self.viewer.hidden
            ]
            self.lines[f"{side}s"].data = as_columns(rows)
            self.lines[f"{side}-outlines"].data = as_columns([(*row[:2], "black", 3.6, 0.8 * alpha) for row in rows])
        self.old.visible = old and any(self.lines[f"{side}s"].data["xs"] for side in SIDES)

    def _lines(self, looks: Sequence[tuple[FaultTrace, str, float, float]]) -> Columns:
        return as_columns([(*self._placed(one.across, one.down), *look) for one, *look in looks])

    def _placed(self, across: npt.ArrayLike, down: npt.ArrayLike) -> list[list[float]]:
        """Survey labels as coordinates of the plot."""
        axes = self.survey.sections.frame(self.viewer.direction)
        return [_coordinates(axis, values).tolist() for axis, values in zip(axes, (across, down), strict=True)]

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_class(self, new: str) -> None:
        if new and new != self.geology.of:
            self.geology.choose(new)

    @guarded
    def _on_tap(self, event: Any) -> None:
        """Choose the stick under the cursor, or extend the chosen one to it."""
        viewer, figure = self.viewer, self.viewer.plot.figure
        if viewer.tool_buttons.active != LOOK or not self.layers.shown(STICKS) or viewer.line is None:
            return
        if self.extend.active and self.chosen is not None:
            place = self.survey.place(viewer.direction, viewer.position, event.x, event.y)
            self.extend.active = []
            self.geology.extend(self.chosen.points, place, viewer.position)
            self._let_go()
            return
        scale = np.array(SCREEN) / [abs(one.end - one.start) for one in (figure.x_range, figure.y_range)]
        found = []
        for one in (trace for trace in self._traces if trace.stick >= 0):
            x, y = map(np.array, self._placed(one.across, one.down))
            found.append((distance((event.x, event.y), x, y, scale), one))
        off, nearest = min(found, key=lambda one: one[0], default=(np.inf, None))
        self._let_go()
        if nearest is not None and off <= NEAR and self._sticks is not None:
            self.chosen = Chosen(self.geology.of, nearest, self._sticks[self._sticks["stick"] == nearest.stick])
            self._show_sticks()

    @guarded
    def _on_verdict(self, what: str) -> None:
        if self.chosen is None:
            raise ValueError("No stick is chosen; click on one with the tool Navigate.")
        self.geology.judge(self.chosen.points, what, self.viewer.position)
        self._let_go()

    def _let_go(self) -> None:
        """Nothing is chosen until the next click."""
        self.chosen = None
        self._show_sticks()

    def _on_bodies(self) -> None:
        self.geology.find_bodies()


def as_columns(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Rows of xs, ys, colour, width and alpha as the columns of a glyph; the alpha goes into the colour."""
    rows = [(xs, ys, to_hex(to_rgba(colour, alpha), keep_alpha=True), width) for xs, ys, colour, width, alpha in rows]
    return {name: [row[i] for row in rows] for i, name in enumerate(LINES)}


def distance(point: tuple[float, float], x: npt.NDArray[Any], y: npt.NDArray[Any], scale: npt.NDArray[Any]) -> float:
    """Pixels from a point to a line through others.

    Examples
    --------
    >>> distance((3.0, 4.0), np.array([0.0, 0.0]), np.array([0.0, 10.0]), np.array([2.0, 1.0]))
    6.0
    """
    spots = np.stack([x - point[0], y - point[1]], axis=1) * scale
    steps = np.diff(spots, axis=0)
    share = np.clip(-np.sum(spots[:-1] * steps, axis=1) / np.maximum(np.sum(steps**2, axis=1), 1e-12), 0, 1)
    return float(np.sqrt(np.sum((spots[:-1] + share[:, None] * steps) ** 2, axis=1)).min())


def _coordinates(axis: Axis, labels: npt.ArrayLike) -> npt.NDArray[Any]:
    """Coordinates of labels on an axis of a picture, between its places too."""
    places = axis.start + axis.step * np.arange(len(axis))
    order = np.argsort(axis.labels)
    return np.asarray(np.interp(np.asarray(labels, float), axis.labels[order], places[order]))
