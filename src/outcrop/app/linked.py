"""Linked views: an inline, a crossline and a time slice through one place, which a crosshair marks in each."""

import functools
from typing import Any

import panel as pn
from bokeh import events
from bokeh.models import CustomJS, Toggle

from outcrop.app.components import BOTH, Part, script
from outcrop.app.pictures import FRAMES, crop
from outcrop.app.plot import NOTHING, Columns, Frame, SectionPlot, add_tools, columns, name_axes, source
from outcrop.app.survey import Place
from outcrop.app.viewer import LOOK, MOUSE, Viewer

MOST_PIXELS = (500, 400)  # of a small view, across and down
MOST_TRACES = 200_000  # of a time slice that is read at full resolution; larger slices stay coarse in a small view
SETTLE = 1500  # milliseconds after which the layout of an opened page is final, and the vertical exaggeration is locked
CROSSHAIR = "#ffe600"


class Pane(Frame):
    """A small view of a section, next to the large section.

    Parameters
    ----------
    number : int
        Number of the view, 1 or 2; it is part of the name of the figure.
    plot : SectionPlot
        The large section, whose colours are used.

    Attributes
    ----------
    direction, position : int
        Direction and position of the section that is drawn; -1 before a section is drawn.
    """

    def __init__(self, number: int, plot: SectionPlot) -> None:
        colours = (plot.amplitudes, plot.codes)
        super().__init__(plot.survey, f"linked-{number}", *colours, ending=f"linked-{{}}-{number}", scale=18)
        self.direction = self.position = -1
        self.labels_of: object = None  # source of the labels that are drawn
        self.figure.update(min_height=120, min_width=120, min_border_left=40, min_border_bottom=24)
        self.figure.axis.major_label_text_font_size = "9px"
        self.figure.axis.axis_label_text_font_size = "10px"
        self.figure.title.text_font_size = "11px"
        for large, small in ((plot.labels, self.labels), (plot.hatch, self.hatch)):
            small.visible = large.visible
            large.js_link("visible", small, "visible")
        plot.labels.glyph.js_link("global_alpha", self.labels.glyph, "global_alpha")
        self.labels.glyph.global_alpha = plot.labels.glyph.global_alpha
        add_tools(self.figure)

    def show(self, direction: int, position: int) -> None:
        """Show the amplitudes of a section, given by its direction and its position on the axis."""
        sections, axes = self.survey.sections, self.survey.sections.frame(direction)
        if direction != self.direction:
            self.set_frame(direction)
            name_axes(self.figure, self.names(direction), axes)
        if direction == 2 and len(axes[0]) * len(axes[1]) <= MOST_TRACES:
            sections.picture(direction, position)  # starts a finer read of a coarse slice; see `refine`
        picture = crop(sections.codes(direction, position), axes, most=MOST_PIXELS)
        self.show_amplitudes(picture, direction, position)
        self.direction, self.position = direction, position


class LinkedViews(Part):
    """A crosshair in the section in view, and two small views of the other sections through the place it marks.

    A click with the tool *Navigate*, or on a small view, moves the crosshair, and the other sections follow. The
    position of the mouse in one view is shown in the other views.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer.session, viewer.say)
        self.viewer = viewer
        kept: list[int] = viewer.view.get("crosshair", [])
        shape = self.survey.volume.shape
        inside = len(kept) == 3 and all(isinstance(i, int) and 0 <= i < n for i, n in zip(kept, shape, strict=True))
        self.at = list(kept) if inside else [n // 2 for n in shape]  # positions of the crosshair along the three axes
        self.toggle = self.react(viewer.view.follow(Toggle(label="Linked views ( V )", name="linked")), self._on_toggle)
        self.panes = [Pane(number, viewer.plot) for number in (1, 2)]
        self._views: list[Viewer | Pane] = [viewer, *self.panes]
        self._figures = [viewer.plot.figure, *(pane.figure for pane in self.panes)]
        self._crosses = [self._crosshair(figure) for figure in self._figures]
        wide = {"visible": self.toggle.active, "styles": {"max-width": "38%"}}
        self.column = pn.Column(*self._figures[1:], **wide, **BOTH)
        self._listen()

    def _crosshair(self, figure: Any) -> Any:
        cross = source(("x", "y"))
        cross.update(tags=[0, 0], name=f"cross-{figure.name}")
        line = {"line_color": CROSSHAIR, "line_width": 1.2, "line_dash": "dashed"}
        figure.vspan(x="x", source=cross, **line)
        figure.hspan(y="y", source=cross, **line)
        return cross

    def _listen(self) -> None:
        for number, figure in enumerate(self._figures):
            hover = script("linked", number=number, figures=self._figures, crosses=self._crosses, toggle=self.toggle)
            for event in MOUSE:
                figure.js_on_event(event, hover)
            figure.on_event(events.Tap, functools.partial(self._on_tap, self._views[number]))
        keep = script("aspect", figures=self._figures, select=self.viewer.exaggeration)
        lock = f"setTimeout(() => {{ select.settled = true; }}, {SETTLE})"
        self.on_ready = [keep, CustomJS(args={"select": self.viewer.exaggeration}, code=lock)]
        self.viewer.exaggeration.js_on_change("value", keep)
        for figure in self._figures:
            for name in ("inner_width", "inner_height", "tags"):
                figure.js_on_change(name, keep)
            figure.js_on_event(events.Reset, keep)
        fit = CustomJS(args={"panes": self._figures[1:]}, code="for (const one of panes) one.reset.emit()")
        self._figures[0].js_on_event(events.Reset, fit)

    def _on_toggle(self, new: bool) -> None:
        self.column.visible = new
        self.follow()

    def _on_tap(self, view: Viewer | Pane, event: Any) -> None:
        if view is not self.viewer or (self.toggle.active and self.viewer.tool_buttons.active == LOOK):
            self.attempt(self.move, self.survey.place(view.direction, view.position, event.x, event.y))

    def move(self, place: Place) -> None:
        """Move the crosshair to a place (inline, crossline, time), and show the sections through this place."""
        self.at = self.survey.positions(place)
        self.viewer.view.keep(crosshair=self.at)
        direction = self.viewer.direction
        if self.at[direction] != self.viewer.position:
            self.viewer.go(direction, self.at[direction])  # calls `follow`
        else:
            self.follow()

    def follow(self) -> None:
        """Update crosshairs and small views after a change of the section in view."""
        viewer = self.viewer
        self.at[viewer.direction] = viewer.position
        if not self.toggle.active:
            for cross in self._crosses:
                cross.data = {"x": [], "y": []}
            return
        others = [direction for direction in range(3) if direction != viewer.direction]
        for pane, direction in zip(self.panes, others, strict=True):
            viewer.seen[direction] = self.at[direction]  # the button of this direction shows this position
            if (pane.direction, pane.position) != (direction, self.at[direction]):
                pane.show(direction, self.at[direction])
        self._show_crosshairs()
        self.show_labels()

    def _show_crosshairs(self) -> None:
        for cross, view in zip(self._crosses, self._views, strict=True):
            axes = [self.survey.axes[i] for i in FRAMES[view.direction]]
            x, y = (axis.start + axis.step * self.at[i] for axis, i in zip(axes, FRAMES[view.direction], strict=True))
            cross.update(tags=[x, y], data={"x": [x], "y": [y]})

    def refine(self) -> None:
        """Draw the time slice in a small view again, after it was read at finer resolution."""
        for pane in self.panes:
            if self.toggle.active and pane.direction == 2:
                pane.show(pane.direction, pane.position)

    def show_labels(self) -> None:
        """Draw the labels over the small views if the labels changed."""
        labelling = self.labelling
        if not self.toggle.active or labelling.correcting is not None:  # called again after the correction
            return
        for pane in self.panes:
            source = (pane.direction, pane.position, labelling.source(pane.direction, pane.position), labelling.limit)
            if source != pane.labels_of:
                pane.labels_of = source
                pane.overlay.data = self._overlay(pane)
                pane.hatch_parts(labelling.stale_parts(pane.direction, pane.position))

    def _overlay(self, pane: Pane) -> Columns:
        """Return the labels of a small view as columns of an image glyph; labels of too low confidence are left out."""
        found = self.labelling.pictures(pane.direction, pane.position, most=MOST_PIXELS)
        if found is None:
            return dict(NOTHING)
        label, sure, _ = found
        return columns(label._replace(codes=label.codes * (sure.codes >= round(255 * self.labelling.limit))))
