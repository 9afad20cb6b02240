"""Linked views: the two other sections through one place beside the section in view, and a crosshair in all three."""

import panel as pn
from bokeh import events
from bokeh.models import ColumnDataSource, CustomJS, PanTool, Range1d, ResetTool, Toggle, WheelZoomTool

from outcrop.app.components import guarded, script
from outcrop.app.pictures import FRAMES, crop
from outcrop.app.plot import HATCH, NOTHING, axis_tag, columns, frame, name_axes, show_whole
from outcrop.volumes.summary import sample_unit

MOST_PIXELS = (500, 400)  # across and down, of a small view
MOST_TRACES = 200_000  # of a time slice that is read as fine as the screen; larger ones stay coarse in a small view
CROSSHAIR = "#ffe600"
EDGES = ("left", "right", "top", "bottom")


class Pane:
    """A small section of a direction beside the large one.

    Parameters
    ----------
    number : int
        1 or 2.
    plot : SectionPlot
        The large one, whose colours it has.

    Attributes
    ----------
    direction, position : int or None
        Of the section that is drawn.
    """

    def __init__(self, number, plot):
        self.direction: int | None = None
        self.position: int | None = None
        self.labels_of: object = None  # what the labels that are drawn come from
        self.figure = frame(Range1d(0, 1), Range1d(1, 0), name=f"linked-{number}")
        self.figure.update(min_height=120, min_width=120, min_border_left=40, min_border_bottom=24)
        self.figure.axis.major_label_text_font_size = "9px"
        self.figure.axis.axis_label_text_font_size = "10px"
        self.figure.title.text_font_size = "11px"
        self.image, self.overlay = (ColumnDataSource(data=dict(NOTHING)) for _ in range(2))
        self.figure.image(source=self.image, color_mapper=plot.amplitudes, name=f"linked-amplitudes-{number}")
        alpha = plot.labels.glyph.global_alpha
        labels = self.figure.image(
            source=self.overlay, color_mapper=plot.codes, global_alpha=alpha, name=f"linked-labels-{number}"
        )
        plot.labels.js_link("visible", labels, "visible")
        plot.labels.glyph.js_link("global_alpha", labels.glyph, "global_alpha")
        self.stale = ColumnDataSource(data={name: [] for name in EDGES})
        hatch = self.figure.quad(
            *EDGES,
            source=self.stale,
            name=f"linked-stale-{number}",
            visible=plot.hatch.visible,
            hatch_scale=18,
            **HATCH,
        )
        plot.hatch.js_link("visible", hatch, "visible")
        pan, wheel = PanTool(), WheelZoomTool()
        self.figure.add_tools(pan, wheel, ResetTool())
        self.figure.toolbar.active_drag, self.figure.toolbar.active_scroll = pan, wheel


class LinkedViews:
    """A crosshair in the section in view and in the two other sections through it.

    A click with the tool *Look*, or on a small view, moves the crosshair: the other sections follow. What is under the
    mouse in one view is shown in the others.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer):
        self.viewer, self.survey, self.say = viewer, viewer.survey, viewer.say
        kept = viewer.view.get("crosshair", [])
        shape = self.survey.volume.shape
        self.at = [n // 2 for n in shape]  # positions of the crosshair along the three axes
        if len(kept) == 3 and all(isinstance(i, int) and 0 <= i < n for i, n in zip(kept, shape, strict=True)):
            self.at = list(kept)
        self.toggle = Toggle(label="linked ( V )", name="linked")
        viewer.view.follow(self.toggle)
        self.panes = [Pane(number, viewer.plot) for number in (1, 2)]
        self._figures = [viewer.plot.figure, *(pane.figure for pane in self.panes)]
        self._crosses = [self._crosshair(figure) for figure in self._figures]
        self.column = pn.Column(
            *self._figures[1:], visible=self.toggle.active, sizing_mode="stretch_both", styles={"max-width": "38%"}
        )
        self.toggle.on_change("active", self._on_toggle)
        self._listen()

    def _crosshair(self, figure):
        source = ColumnDataSource(data={"x": [], "y": []}, tags=[0, 0], name=f"cross-{figure.name}")
        line = {"line_color": CROSSHAIR, "line_width": 1.2, "line_dash": "dashed"}
        figure.vspan(x="x", source=source, **line)
        figure.hspan(y="y", source=source, **line)
        return source

    def _listen(self):
        for number, figure in enumerate(self._figures):
            hover = script("linked", number=number, figures=self._figures, crosses=self._crosses, toggle=self.toggle)
            figure.js_on_event(events.MouseMove, hover)
            figure.js_on_event(events.MouseLeave, hover)
        self._figures[0].on_event(events.Tap, self._on_tap)
        for pane in self.panes:
            pane.figure.on_event(events.Tap, lambda event, pane=pane: self._on_pane(pane, event))
            for name in ("inner_width", "inner_height"):
                pane.figure.on_change(name, lambda _attr, _old, _new, pane=pane: self._on_resize(pane))
        fit = CustomJS(args={"panes": self._figures[1:]}, code="for (const one of panes) one.reset.emit()")
        self._figures[0].js_on_event(events.Reset, fit)

    @guarded
    def _on_toggle(self, _attr, _old, new):
        self.column.visible = new
        self.follow()

    @guarded
    def _on_tap(self, event):
        if self.toggle.active and self.viewer.looks_only:
            self.move(self.survey.place(self.viewer.direction, self.viewer.position, event.x, event.y))

    @guarded
    def _on_pane(self, pane, event):
        self.move(self.survey.place(pane.direction, pane.position, event.x, event.y))

    def move(self, place):
        """Move the crosshair to (inline, crossline, time); every view shows its section through it."""
        self.at = self.survey.positions(place)
        self.viewer.view.keep(crosshair=self.at)
        direction = self.viewer.direction
        if self.at[direction] != self.viewer.position:
            self.viewer.go(direction, self.at[direction])  # which comes back to `follow`
        else:
            self.follow()

    def follow(self):
        """Bring crosshairs and small views up to the section in view."""
        viewer = self.viewer
        self.at[viewer.direction] = viewer.position
        if not self.toggle.active:
            for cross in self._crosses:
                cross.data = {"x": [], "y": []}
            return
        others = [direction for direction in range(3) if direction != viewer.direction]
        for pane, direction in zip(self.panes, others, strict=True):
            viewer.seen[direction] = self.at[direction]  # where its button leads
            if (pane.direction, pane.position) != (direction, self.at[direction]):
                self._draw(pane, direction, self.at[direction])
        self._show_crosshairs()
        self.show_labels()

    def _show_crosshairs(self):
        directions = [self.viewer.direction, *(pane.direction for pane in self.panes)]
        for cross, direction in zip(self._crosses, directions, strict=True):
            axes = FRAMES[direction]
            x, y = (self.survey.axes[i].coordinate(self.survey.axes[i].labels[self.at[i]]) for i in axes)
            cross.update(tags=[x, y], data={"x": [x], "y": [y]})

    def _draw(self, pane, direction, position):
        """Show the amplitudes of a section in a small view."""
        sections, dims = self.survey.sections, self.survey.volume.dims
        axes = sections.frame(direction)
        if direction != pane.direction:
            self._set_frame(pane.figure, direction, axes)
        if direction == 2 and len(axes[0]) * len(axes[1]) <= MOST_TRACES:
            sections.picture(direction, position)  # a coarse one is read finer behind; see `refine`
        pane.image.data = columns(crop(sections.codes(direction, position), axes, most=MOST_PIXELS))
        name, label = dims[direction], self.survey.axes[direction].labels[position]
        unit = sample_unit(self.survey.volume) if direction == 2 else None
        pane.figure.title.text = f"{name} {label:g} {unit or ''}".rstrip()
        pane.direction, pane.position = direction, position

    def _set_frame(self, figure, direction, axes):
        names = [self.survey.volume.dims[i] for i in FRAMES[direction]]
        figure.tags = [{"axes": [axis_tag(name, axis) for name, axis in zip(names, axes, strict=True)]}]
        name_axes(figure, names, axes)
        show_whole(figure, self.survey, direction)

    def _on_resize(self, pane):
        """Keep the scale of a time slice true."""
        if pane.direction == 2:
            show_whole(pane.figure, self.survey, 2)

    def refine(self):
        """Draw a small time slice again that was read finer meanwhile."""
        for pane in self.panes:
            if self.toggle.active and pane.direction == 2:
                self._draw(pane, pane.direction, pane.position)

    def show_labels(self):
        """Lay labels over the small views, where those that are read have changed."""
        labelling = self.viewer.session.labelling
        if not self.toggle.active or labelling.correcting is not None:  # strokes first: it is called again behind them
            return
        for pane in self.panes:
            source = (pane.direction, pane.position, labelling.source(pane.direction, pane.position), labelling.limit)
            if source != pane.labels_of:
                pane.labels_of = source
                pane.overlay.data = self._overlay(pane)
                parts = labelling.stale_parts(pane.direction, pane.position)
                pane.stale.data = {name: [part[i] for part in parts] for i, name in enumerate(EDGES)}

    def _overlay(self, pane):
        """Labels of a small view that are sure enough, as the columns of an image glyph."""
        labelling = self.viewer.session.labelling
        found = labelling.pictures(pane.direction, pane.position, most=MOST_PIXELS)
        if found is None:
            return dict(NOTHING)
        label, sure, _ = found
        return columns(label._replace(codes=label.codes * (sure.codes >= round(255 * labelling.limit))))
