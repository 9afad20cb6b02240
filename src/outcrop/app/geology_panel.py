"""Step 5 of the page: fault sticks, tops and bases over the section, and what to do with them."""

from typing import Any, NamedTuple

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import CheckboxGroup, ColumnDataSource, Div, Label, Select

from outcrop.app.components import button, escape, guarded, heading, hint
from outcrop.app.geology import Geology
from outcrop.app.results import shown_path
from outcrop.app.viewer import LOOK
from outcrop.geometry.crossings import FaultTrace
from outcrop.plots.geology_lines import STICK

SHOWN = ("fault sticks", "tops and bases")
STICKS, HORIZONS = range(2)
CHOSEN = "#00e5ff"
SCREEN = (900, 650)  # pixels of a section, about
NEAR = 12  # pixels from a click to the stick that is meant
LINES: dict = {"xs": [], "ys": [], "colour": [], "width": [], "alpha": []}
OLD = "Tops of older labels: find bodies again"


class Chosen(NamedTuple):
    """A stick as it was clicked, whatever is picked later."""

    of: str  # class that was shown
    trace: FaultTrace
    points: Any  # DataFrame


class GeologyPanel:
    """Everything about sticks and bodies.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.geology: Geology = self.session.geology
        self.chosen: Chosen | None = None
        self._section: tuple = ()  # that is shown
        self._sticks: Any = None  # of the traces
        self._traces: list = []
        wide = {"sizing_mode": "stretch_width"}
        self.shown = self.session.view.follow(CheckboxGroup(labels=list(SHOWN), active=[], name="geology-shown"))
        self.shown.on_change("active", lambda _attr, _old, _new: self.show())
        self.of = Select(title="sticks of", options=[], width=150, name="sticks-class")
        self.of.on_change("value", self._on_class)
        self.note = Div(text="", name="sticks-note", **wide)
        self.about = Div(text="", name="stick-about", **wide)
        self.bodies = Div(text="", name="bodies-note", **wide)
        verdicts = {"accept": "✓ Accept", "reject": "✕ Reject", "forget": "Forget"}
        self.verdicts = [
            button(text, lambda what=what: self._on_verdict(what), name=f"stick-{what}")
            for what, text in verdicts.items()
        ]
        self.extend = CheckboxGroup(labels=["the next click extends it"], active=[], name="stick-extend")
        self.actions = [
            button("Pick the survey", self._on_pick, name="pick-all"),
            button("Find bodies", self._on_bodies, name="find-bodies"),
            button("Sticks as csv", self._on_export, name="export-sticks"),
            button("Bodies, tops and bases", self._on_export_bodies, name="export-bodies"),
        ]
        self.stale = CheckboxGroup(labels=["include stale lines"], active=[], name="geology-stale")
        self.written = Div(text="", name="geology-exported", **wide)
        self._make_lines()
        viewer.plot.figure.on_event(events.Tap, self._on_tap)

    def _make_lines(self):
        """Glyphs over the section: outlines below, lines above."""
        names = ("top-outlines", "tops", "base-outlines", "bases", "stick-outlines", "sticks", "chosen-stick")
        self.lines = {name: ColumnDataSource(data=dict(LINES)) for name in names}
        for name, source in self.lines.items():
            dashed = name.startswith("base")  # with round caps there would be no gaps
            self.viewer.plot.figure.multi_line(
                "xs", "ys", source=source, line_color="colour", line_width="width", line_alpha="alpha", name=name,
                line_dash=[9, 6] if dashed else "solid", line_cap="butt" if dashed else "round",
            )  # fmt: skip
        self.points = ColumnDataSource(data={"x": [], "y": []})
        self.viewer.plot.figure.scatter("x", "y", source=self.points, size=5, color=STICK, name="stick-points")
        self.old = Label(
            x=8, y=36, x_units="screen", y_units="screen", text=OLD, visible=False, text_font_size="12px",
            text_color="white", background_fill_color="#56606c", background_fill_alpha=0.92, padding=4,
            name="old-horizons",
        )  # fmt: skip
        self.viewer.plot.figure.add_layout(self.old)

    def layout(self):
        """Everything, arranged."""
        return pn.Column(
            self.shown,
            heading("Faults"),
            pn.Row(self.of, pn.Column(self.actions[0], margin=(14, 0))),
            self.note,
            hint("Click on a stick with the tool Look to choose it. Yes and no are decisions; labels learn from them."),
            self.about,
            pn.Row(*self.verdicts),
            self.extend,
            heading("Bodies"),
            hint("Tops are drawn solid, bases dashed, in the colours of their classes; on slices as contours."),
            pn.Row(self.actions[1]),
            self.bodies,
            heading("Export into the job folder"),
            self.stale,
            pn.FlexBox(*self.actions[2:]),
            self.written,
            scroll="y-auto",
            sizing_mode="stretch_both",
        )  # fmt: skip

    # ---- showing ----------------------------------------------------------------------------------------------------

    @guarded
    def show(self):
        """Bring it up to the section in view."""
        section = self.viewer.direction, self.viewer.position
        choices, of = self.geology.choices(), self.geology.of
        self.of.update(options=choices, value=of)
        self._traces, self._sticks, self.note.text = [], None, ""
        if STICKS in self.shown.active:
            self._sticks, self._traces, note = self.geology.shown(*section)
            self.note.text = escape(note)
        if self._sticks is None or section != self._section or (self.chosen and self.chosen.of != of):
            self.chosen = None
        self._section = section
        self._show_sticks()
        self._show_horizons(self.geology.horizons(*section) if HORIZONS in self.shown.active else [])
        self.bodies.text = escape(self.geology.bodies_note())
        self.stale.visible = self.session.labelling.counts()[2] > 0

    def show_written(self):
        """Say what was exported so far."""
        texts = [one.text.replace(str(one.path), shown_path(one.path), 1) for one in self.geology.written]
        self.written.text = "".join(f"<div>{escape(text)}</div>" for text in texts)

    def _show_sticks(self):
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
        self.about.text = "" if off else self._about(chosen[0])

    def _about(self, trace):
        """The chosen stick in words."""
        axis = self.session.survey.volume.dims[2]
        state = "accepted" if trace.accepted else f"likelihood {trace.likelihood:.2f}"
        return f"chosen stick: {axis} {trace.down[0]:g} to {trace.down[-1]:g}, {state}"

    def _show_horizons(self, horizons):
        colours, old = self.session.job.palette, self.geology.bodies_old()
        alpha = 0.45 if old else 1.0
        sides: dict = {"top": [], "base": []}
        for name, side, (across, down) in horizons:
            if name not in self.viewer.hidden:
                sides[side].append((*self._placed(across, down), colours.get(name, "#888888"), 2.0, alpha))
        for side, rows in sides.items():
            self.lines[f"{side}s"].data = as_columns(rows)
            outlines = [(xs, ys, "black", 3.6, 0.8 * alpha) for xs, ys, *_ in rows]
            self.lines[f"{side}-outlines"].data = as_columns(outlines)
        self.old.visible = old and any(sides.values())

    def _lines(self, looks):
        return as_columns([(*self._placed(one.across, one.down), *look) for one, *look in looks])

    def _placed(self, across, down):
        """Survey labels as coordinates of the plot."""
        axes = self.session.survey.sections.frame(self.viewer.direction)
        return [_coordinates(axis, values).tolist() for axis, values in zip(axes, (across, down), strict=True)]

    # ---- doing ------------------------------------------------------------------------------------------------------

    @guarded
    def _on_class(self, _attr, _old, new):
        if new and new != self.geology.of:
            self.geology.choose(new)

    @guarded
    def _on_tap(self, event):
        """Choose the stick under the cursor, or extend the chosen one to it."""
        if self.viewer.tool_buttons.active != LOOK or STICKS not in self.shown.active or self.viewer.line is None:
            return
        if self.extend.active and self.chosen is not None:
            place = self.session.survey.place(self.viewer.direction, self.viewer.position, event.x, event.y)
            self.extend.active = []
            self.geology.extend(self._stick(), place, self.viewer.position)
            self._let_go()
            return
        spans = [abs(one.end - one.start) for one in (self.viewer.plot.figure.x_range, self.viewer.plot.figure.y_range)]
        found = []
        for one in self._traces:
            if one.stick >= 0:
                x, y = (np.array(values) for values in self._placed(one.across, one.down))
                off = distance((event.x, event.y), x, y, np.array(SCREEN) / spans)
                found.append((off, one))
        self.chosen = None
        off, nearest = min(found, key=lambda one: one[0], default=(np.inf, None))
        if nearest is not None and off <= NEAR:
            self.chosen = Chosen(self.geology.of, nearest, self._sticks[self._sticks["stick"] == nearest.stick])
        self._show_sticks()

    @guarded
    def _on_verdict(self, what):
        self.geology.judge(self._stick(), what, self.viewer.position)
        self._let_go()

    def _stick(self):
        """Points of the chosen stick, as it was clicked."""
        if self.chosen is None:
            raise ValueError("No stick is chosen; click on one with the tool Look.")
        return self.chosen.points

    def _let_go(self):
        """A decision was made: nothing is chosen until the next click."""
        self.chosen = None
        self._show_sticks()

    @guarded
    def _on_pick(self):
        self.geology.pick_all()

    @guarded
    def _on_bodies(self):
        self.shown.active = sorted({*self.shown.active, HORIZONS})
        self.geology.find_bodies()

    @guarded
    def _on_export(self):
        self.geology.export_sticks(stale=bool(self.stale.active))

    @guarded
    def _on_export_bodies(self):
        self.geology.export_bodies(stale=bool(self.stale.active))


def as_columns(rows):
    """Rows of xs, ys, colour, width and alpha as the columns of a glyph."""
    return {name: [row[i] for row in rows] for i, name in enumerate(LINES)}


def distance(point, x, y, scale):
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


def _coordinates(axis, labels):
    """Coordinates of labels on an axis of a picture, between its places too."""
    places = axis.start + axis.step * np.arange(len(axis))
    order = np.argsort(axis.labels)
    return np.interp(np.asarray(labels, float), axis.labels[order], places[order])
