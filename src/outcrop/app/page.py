"""The page itself: a section viewer, exemplars, retrieved patches, labels and results around one `Session`."""

import base64
import functools
import html
import io
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from bokeh import events
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.models import (
    Button,
    ColumnDataSource,
    CustomJS,
    Div,
    FreehandDrawTool,
    LinearColorMapper,
    PanTool,
    RadioButtonGroup,
    Range1d,
    ResetTool,
    Select,
    Slider,
    Span,
    TextInput,
    Toggle,
    WheelZoomTool,
)
from bokeh.palettes import Greys256, Viridis256
from bokeh.plotting import figure
from panel.custom import JSComponent

import outcrop as oc
from outcrop.app.pictures import MOST_PIXELS
from outcrop.app.session import shown_path

HERE = Path(__file__).parent
CSS = (HERE / "page.css").read_text(encoding="utf-8")
MISSING = "#cfd8e3"  # colour of samples that are not there
SHOWN = 24  # thumbnails at once
NOTHING: dict = {"image": [], "x": [], "y": [], "dw": [], "dh": []}
BOX = ("x", "y", "width", "height", "left", "top", "colour", "name")
TOOLS = ("Look", "Place exemplar", "Brush")


def script(name, **arguments):
    """Client code of a file beside this one."""
    return CustomJS(args=arguments, code=(HERE / f"{name}.js").read_text(encoding="utf-8"))


class Talking:
    """A part of the page that hands on what its script says."""

    def __init__(self, handle, **options):
        self._handle = handle
        super().__init__(**options)

    def _handle_msg(self, message):
        self._handle(message)


class Cards(Talking, JSComponent):
    """Thumbnails with buttons and keys."""

    items = param.List(doc="key, src, title, note, colour, state, hint of every card")
    actions = param.List(doc="verb, sign and hint of every button")
    keys = param.Dict(default={}, doc="key of the keyboard -> verb")
    _esm = HERE / "cards.js"
    _stylesheets: ClassVar = [CSS]


class Classes(Talking, JSComponent):
    """The list of classes."""

    items = param.List(doc="name, colour and note of every class")
    selected = param.String()
    _esm = HERE / "classes.js"
    _stylesheets: ClassVar = [CSS]


class Keys(Talking, JSComponent):
    """Keys that work anywhere on the page."""

    _esm = HERE / "keys.js"


def guarded(method):
    """Show what went wrong instead of dying of it."""

    @functools.wraps(method)
    def safe(self, *arguments, **options):
        try:
            return method(self, *arguments, **options)
        except (ValueError, OSError, KeyError, IndexError, TypeError, ImportError) as error:
            self.say(str(error) or type(error).__name__, wrong=True)
            return None

    return safe


class Page:
    """One tab of the browser.

    Parameters
    ----------
    session : Session
        Shared by all tabs.
    document : bokeh.document.Document
        Of this tab.
    """

    def __init__(self, session, document):
        self.session, self.document = session, document
        view = session.state.view
        self.direction = int(view.get("direction", int(session.options["along"] == "crossline")))
        self.position = min(int(view.get("position", session.volume.shape[self.direction] // 2)), self._last())
        self.chosen = next(iter(session.palette), "")
        self.gallery_class, self.shown_from = "", 0
        self._pending: set = set()
        self._lock = threading.Lock()
        self._grabbed: Any = None
        self._tapped: Any = None
        self._box_numbers: list = []
        self._next: list = []
        self._next_key: Any = None
        self._quiet = False
        self._seen: dict = {}  # direction -> position that was looked at last
        self.window: Any = None
        self._make_viewer()
        self._make_controls()
        self._make_exemplars()
        self._make_retrieval()
        self._make_labels()
        self._make_results()
        self.keys = Keys(self._on_key, width=0, height=0, margin=0)
        self.stop_listening = session.listen(self._told)
        self.draw(new_frame=True)
        for what in ("state", "weak", "labels", "work"):
            self._update(what)

    def _last(self):
        return self.session.volume.shape[self.direction] - 1

    # ---- telling ----------------------------------------------------------------------------------------------------

    def _told(self, what):
        """Called by the session from any thread."""
        with self._lock:
            first = not self._pending
            self._pending.add(what)
        if first:
            self.document.add_next_tick_callback(self._catch_up)

    def _catch_up(self):
        with self._lock:
            pending, self._pending = self._pending, set()
        for what in sorted(pending):
            self._update(what)

    @guarded
    def _update(self, what):
        if what == "state":
            self._show_classes()
            self._show_exemplars()
            self._show_boxes()
            self._show_painted()
            self._show_results()
        elif what == "weak":
            self._show_gallery()
            self._show_curve()
            self._show_boxes()
            self._show_results()
        elif what == "labels":
            self._show_labels()
            self._show_results()
        elif what == "exports":
            self._show_results()
        self._show_work()

    def say(self, text, *, wrong=False):
        """One line at the top of the page."""
        self.status.text = escape(text)
        self.status.styles = {"color": "#b01818" if wrong else "#334", "font-size": "13px"}

    def _show_work(self):
        session = self.session
        alive = [task for task in (session.task, session.behind) if task and task.alive]
        self.cancel_button.visible = bool(alive)
        if alive:
            task = alive[0]
            share = f" {100 * task.done / task.total:.0f} %" if task.total else ""
            self.say(f"{task.title.capitalize()}{share} ...")
        else:
            failed = session.task is not None and session.task.error is not None
            self.say(session.message or "Ready.", wrong=failed)
        busy = bool(session.task and session.task.alive)
        for one in (self.find_button, self.again_button, self.label_button, self.survey_button, *self.export_buttons):
            one.disabled = busy

    # ---- section viewer ---------------------------------------------------------------------------------------------

    def _make_viewer(self):
        self.image = ColumnDataSource(data=dict(NOTHING))
        self.overlay = ColumnDataSource(data=NOTHING | {"confidence": []})
        self.painted = ColumnDataSource(data=dict(NOTHING))
        boxes: dict = {name: [] for name in BOX}
        self.boxes, self.found = ColumnDataSource(data=dict(boxes)), ColumnDataSource(data=dict(boxes))
        self.next_box = ColumnDataSource(data=dict(boxes))
        self.strokes = ColumnDataSource(data={"xs": [], "ys": []})
        self.grey = LinearColorMapper(palette=[MISSING, *Greys256[1:]], low=0, high=255)
        self.codes = LinearColorMapper(palette=["#00000000"], low=-0.5, high=0.5)
        self.marks = LinearColorMapper(palette=["#00000000"], low=-0.5, high=0.5)
        plot = self.plot = figure(
            x_range=Range1d(0, 1), y_range=Range1d(1, 0), tools="", sizing_mode="stretch_both", min_height=300,
            toolbar_location=None, active_scroll=None, output_backend="canvas", name="section",
            stylesheets=[":host(:focus), .bk-Canvas:focus, *:focus { outline: none }"],
        )  # fmt: skip
        self.pan, self.wheel, self.reset = PanTool(), WheelZoomTool(), ResetTool()
        plot.image(source=self.image, color_mapper=self.grey)
        self.label_image = plot.image(source=self.overlay, color_mapper=self.codes, global_alpha=0.35)
        self.sure_image = plot.image(
            "confidence", "x", "y", "dw", "dh", source=self.overlay, visible=False, global_alpha=0.8,
            color_mapper=LinearColorMapper(palette=Viridis256, low=0, high=255),
        )  # fmt: skip
        plot.image(source=self.painted, color_mapper=self.marks, global_alpha=0.75)
        rect = {"x": "x", "y": "y", "width": "width", "height": "height", "fill_alpha": 0}
        self.found_boxes = plot.rect(
            source=self.found, line_color="colour", line_width=1.2, line_dash="dotted", visible=False, **rect
        )
        plot.rect(source=self.boxes, line_color="colour", line_width=3, **rect)
        plot.rect(source=self.next_box, line_color="colour", line_width=3, line_dash="dashed", **rect)
        plot.text(
            x="left", y="top", text="name", source=self.boxes, text_color="white", text_font_size="12px",
            background_fill_color="colour", padding=3, text_baseline="top", text_font_style="bold",
        )  # fmt: skip
        lines = plot.multi_line("xs", "ys", source=self.strokes, line_width=8, line_alpha=0.5, line_color="#ff7a00")
        self.brush = FreehandDrawTool(renderers=[lines])
        plot.add_tools(self.pan, self.wheel, self.reset, self.brush)
        plot.toolbar.active_scroll, plot.toolbar.active_drag = self.wheel, self.pan
        plot.grid.visible = False
        plot.on_event(events.Tap, self._on_tap)
        plot.on_event(events.DoubleTap, self._on_tap)
        plot.on_event(events.PanStart, self._on_grab)
        plot.on_event(events.PanEnd, self._on_drop)
        plot.on_event(events.RangesUpdate, self._on_zoom)
        plot.on_change("inner_width", self._on_resize)
        self.strokes.on_change("data", self._on_stroke)
        self.readout = Div(text="", name="readout", styles={"font-size": "12px", "white-space": "pre", "color": "#334"})
        self.legend = Div(text="", name="legend", styles={"font-size": "12px", "white-space": "nowrap"})
        self.expert = figure(
            x_range=plot.x_range, y_range=plot.y_range, tools="", sizing_mode="stretch_both", min_height=300,
            toolbar_location=None, visible=False, title="expert", name="expert-section",
        )  # fmt: skip
        self.truth = ColumnDataSource(data=dict(NOTHING))
        self.truth_codes = LinearColorMapper(palette=["#00000000"], low=-0.5, high=0.5)
        self.expert.image(source=self.image, color_mapper=self.grey)
        self.expert.image(source=self.truth, color_mapper=self.truth_codes, global_alpha=0.45)
        self.expert.add_tools(self.pan, self.wheel)
        self.expert.grid.visible = False

    def _make_controls(self):
        dims = list(self.session.volume.dims)
        self.direction_buttons = RadioButtonGroup(labels=dims, active=self.direction, name="direction")
        self.direction_buttons.on_change("active", self._on_direction)
        self.slider = Slider(start=0, end=max(1, self._last()), value=self.position, step=1, show_value=False, title="",
                             sizing_mode="stretch_width", name="line")  # fmt: skip
        self.slider.on_change("value", self._on_slider)
        self.number = TextInput(value="", width=80, name="number")
        self.number.on_change("value", self._on_number)
        self.tool_buttons = RadioButtonGroup(labels=list(TOOLS), active=0, name="tool")
        self.tool_buttons.on_change("active", self._on_tool)
        scheme = RadioButtonGroup(labels=["grey", "seismic"], active=0, name="scheme")
        gain = Slider(start=0.25, end=4, value=1, step=0.05, title="gain", width=130, name="gain")
        polarity = Toggle(label="reverse polarity", name="polarity")
        bases = {"grey": list(Greys256), "seismic": seismic_palette()}
        palette = script("palette", bases=bases, scheme=scheme, polarity=polarity, gain=gain, mapper=self.grey,
                         missing=MISSING)  # fmt: skip
        scheme.js_on_change("active", palette)
        gain.js_on_change("value", palette)
        polarity.js_on_change("active", palette)
        self.looks = [scheme, gain, polarity]
        self.fit_button = Button(label="Fit", name="fit")
        self.fit_button.js_on_click(CustomJS(args={"plot": self.plot}, code="plot.reset.emit()"))
        self.undo_button = button("↶ Undo", self._on_undo, name="undo")
        self.redo_button = button("↷ Redo", self._on_redo, name="redo")
        self.status = Div(text="", name="status")
        self.cancel_button = button("Cancel", lambda: self.session.cancel(), name="cancel", visible=False)
        self.plot.js_on_event(
            events.MouseMove,
            script("readout", source=self.image, overlay=self.overlay, readout=self.readout, frame=self.plot),
        )
        self.plot.js_on_event(events.MouseLeave, CustomJS(args={"readout": self.readout}, code="readout.text = ''"))

    @guarded
    def draw(self, *, new_frame=False, ahead=0):
        """Show the section at hand."""
        session, direction, position = self.session, self.direction, self.position
        across, down = session.sections.frame(direction)
        if new_frame:
            self.window = None
            self._frame(across, down)
        picture = session.sections.picture(direction, position, self.window, ahead=ahead)
        self.image.data = columns(picture)
        dims = session.volume.dims
        name, label = dims[direction], session.sections.axes[direction].labels[position]
        unit = {"time": " ms", "depth": " m"}.get(name, "")
        self.plot.title.text = f"{name} {label:g}{unit}"
        self.number.value = f"{label:g}"
        self._show_labels()
        self._show_boxes()
        self._show_painted()

    def _frame(self, across, down):
        """Ranges and names of the axes of a direction."""
        dims = self.session.volume.dims
        names = [dims[i] for i in ((1, 2), (0, 2), (1, 0))[self.direction]]
        unit = {"time": "time (ms)", "depth": "depth (m)"}
        left, right, top, bottom = across.low, across.high, down.low, down.high
        if self.direction == 2:
            left, right, top, bottom = self._true_aspect(left, right, top, bottom)
        self.plot.xaxis.axis_label, self.plot.yaxis.axis_label = (unit.get(name, name) for name in names)
        self.plot.tags = [
            {
                "clip": self.session.sections.clip,
                "axes": [  # labels are sent only where they cannot be computed
                    {
                        "name": name,
                        "start": axis.start,
                        "step": axis.step,
                        "labels": [] if axis.even else axis.labels.tolist(),
                    }
                    for name, axis in zip(names, (across, down), strict=True)
                ],
                "classes": [],
            }
        ]
        x, y = self.plot.x_range, self.plot.y_range
        x.update(start=left, end=right, reset_start=left, reset_end=right)
        y.update(start=bottom, end=top, reset_start=bottom, reset_end=top)

    def _on_resize(self, _attr, _old, _new):
        if self.direction == 2:
            self._frame(*self.session.sections.frame(2))

    def _true_aspect(self, left, right, top, bottom):
        """Ranges of a map on which a metre is as long across as down."""
        spacing = self.session.volume.attrs.get("bin_size") or (1.0, 1.0)
        rows, columns = self.session.sections.axes[0], self.session.sections.axes[1]
        metres = (right - left) / abs(columns.step) * spacing[1], (bottom - top) / abs(rows.step) * spacing[0]
        try:
            frame = (self.plot.inner_width, self.plot.inner_height)
        except UnsetValueError:  # not drawn yet
            frame = (900, 650)
        scale = max(metres[0] / frame[0], metres[1] / frame[1])  # metres to a pixel
        more = [(scale * n / m - 1) / 2 for n, m in zip(frame, metres, strict=True)]
        wide, high = more[0] * (right - left), more[1] * (bottom - top)
        return left - wide, right + wide, top - high, bottom + high

    def go(self, direction, position, *, ahead=0):
        """Show another section."""
        new_frame = direction != self.direction
        self._seen[self.direction] = self.position
        self.direction = direction
        self.position = int(np.clip(position, 0, self._last()))
        self._quiet = True  # the widgets follow the section, not the other way round
        self.slider.update(end=max(1, self._last()), value=self.position)
        self.direction_buttons.active = direction
        self._quiet = False
        self.draw(new_frame=new_frame, ahead=ahead)
        self.session.state.look(direction=self.direction, position=self.position)

    def _on_direction(self, _attr, _old, new):
        if not self._quiet and new != self.direction:
            self.go(new, self._seen.get(new, self.session.volume.shape[new] // 2))

    def _on_slider(self, _attr, _old, new):
        if not self._quiet and new != self.position:
            self.go(self.direction, int(new), ahead=1 if new > self.position else -1)

    @guarded
    def _on_number(self, _attr, _old, new):
        labels = self.session.sections.axes[self.direction].labels
        if not self._quiet and new != f"{labels[self.position]:g}":
            try:
                self.go(self.direction, int(np.argmin(np.abs(labels - float(new)))))
            except ValueError:
                self.number.value = f"{labels[self.position]:g}"

    def _on_key(self, message):
        if message.get("verb") == "step":
            self.go(self.direction, self.position + int(message.get("by", 0)), ahead=int(np.sign(message["by"])))
        elif message.get("verb") in ("undo", "redo"):
            getattr(self, f"_on_{message['verb']}")()

    @guarded
    def _on_undo(self):
        self.session.undo()

    @guarded
    def _on_redo(self):
        self.session.redo()

    def _on_tool(self, _attr, _old, new):
        """Drag pans, paints, or (placing) moves a box."""
        self.plot.toolbar.active_drag = (self.pan, None, self.brush)[new]

    @guarded
    def _on_zoom(self, event):
        """Fetch a finer picture of what is in view, where the screen has fewer pixels than the section."""
        across, down = self.session.sections.frame(self.direction)
        if len(across) <= MOST_PIXELS[0] and len(down) <= MOST_PIXELS[1]:
            return
        window = (event.x0, event.x1, *sorted((event.y0, event.y1)))
        if window != self.window:
            self.window = window
            self.draw()

    # ---- exemplars --------------------------------------------------------------------------------------------------

    def _make_exemplars(self):
        self.classes = Classes(self._on_class, sizing_mode="stretch_width")
        self.exemplar_cards = Cards(
            self._on_exemplar, actions=[["remove", "✕", "Delete"]], keys={"Enter": "go", "Delete": "remove"},
            sizing_mode="stretch_width",
        )  # fmt: skip
        self.find_button = button("Find similar patches", self._on_find, name="find", button_type="primary")

    @guarded
    def _on_class(self, message):
        session, verb, name, value = self.session, message["verb"], message.get("name"), message.get("value")
        if verb == "select" and name in session.palette:
            self.chosen = name
            self.tool_buttons.active = 1
            self._show_classes()
        elif verb == "add":
            self.chosen = session.add_class(value)
            self.tool_buttons.active = 1
        elif verb == "rename":
            session.rename_class(name, value)
        elif verb == "recolour":
            session.recolour_class(name, value)
        elif verb == "remove":
            session.remove_class(name)

    @guarded
    def _on_exemplar(self, message):
        number = int(message["key"])
        if message["verb"] == "remove":
            self.session.remove_exemplar(number)
        else:
            self._jump(self.session.decisions["exemplars"][number]["place"])

    def _jump(self, place):
        """Show the line of a place, and mark the place."""
        direction = int(self.session.options["along"] == "crossline")
        axis = self.session.sections.axes[direction]
        self.go(direction, int(np.argmin(np.abs(axis.labels - place[direction]))))
        self.next_box.data = self._rects([(place, "#ffe600", "")])

    def _place(self, x, y):
        """Inline, crossline and time of a point of the section."""
        across, down = self.session.sections.frame(self.direction)
        place = [None, None, None]
        place[self.direction] = self.session.sections.axes[self.direction].labels[self.position].item()
        first, second = ((1, 2), (0, 2), (1, 0))[self.direction]
        place[first], place[second] = across.labels[across.position(x)].item(), down.labels[down.position(y)].item()
        return place

    @guarded
    def _on_tap(self, event):
        if self.tool_buttons.active == 1:
            if not self.chosen:
                raise ValueError("Add a class first, for instance fault; then click where it shows.")
            place = self._place(event.x, event.y)
            if event.event_name == "doubletap" and self._tapped == place:
                return  # two fast clicks at two places are two exemplars, a double click is one
            self._tapped = place
            self.session.add_exemplar(self.chosen, place)

    def _on_grab(self, event):
        """Take hold of the exemplar under the cursor."""
        self._grabbed = None
        if self.tool_buttons.active == 1:
            data = self.boxes.data
            for i, number in enumerate(self._box_numbers):
                inside = abs(event.x - data["x"][i]) * 2 < data["width"][i]
                if inside and abs(event.y - data["y"][i]) * 2 < data["height"][i]:
                    self._grabbed = (number, event.x, event.y)

    @guarded
    def _on_drop(self, event):
        if self._grabbed:
            number, x, y = self._grabbed
            self._grabbed = None
            across, down = self.session.sections.frame(self.direction)
            place = list(self.session.decisions["exemplars"][number]["place"])
            first, second = ((1, 2), (0, 2), (1, 0))[self.direction]
            for axis, at, moved in ((across, first, event.x - x), (down, second, event.y - y)):
                place[at] = axis.labels[axis.position(axis.coordinate(place[at]) + moved)].item()
            self.session.move_exemplar(number, place)

    def _show_classes(self):
        session = self.session
        if self.chosen not in session.palette:
            self.chosen = next(iter(session.palette), "")
        counts = {name: len(places) for name, places in session.exemplars().items()}
        notes = {name: f"{counts.get(name, 0)} exemplar{'s' * (counts.get(name, 0) != 1)}" for name in session.palette}
        self.classes.param.update(
            items=[{"name": name, "colour": colour, "note": notes[name]} for name, colour in session.palette.items()],
            selected=self.chosen,
        )
        chips = (
            f'<span style="background:{colour};color:white;padding:1px 6px;border-radius:3px">{escape(name)}</span>'
            for name, colour in session.palette.items()
        )
        self.legend.text = " ".join(chips)
        names = list(session.palette)
        self.brush_class.options = ["right", "wrong", *names, "erase"]
        self.gallery_buttons.labels = names
        if self.gallery_class not in names:
            self.gallery_class = names[0] if names else ""
        self.gallery_buttons.active = names.index(self.gallery_class) if names else None

    def _show_exemplars(self):
        session, items = self.session, []
        for number, one in enumerate(session.decisions["exemplars"]):
            items.append(
                {
                    "key": str(number),
                    "src": thumbnail(session.exemplar_thumbnail(number)),
                    "title": one["class"],
                    "note": ", ".join(f"{value:g}" for value in one["place"]),
                    "colour": session.palette[one["class"]],
                    "hint": "Show it in the section",
                }
            )
        self.exemplar_cards.items = items

    def _show_boxes(self):
        """Outline the exemplars and the retrieved patches that lie on this section."""
        session, direction = self.session, self.direction
        axis = session.sections.axes[direction].labels
        label = axis[self.position].item()
        own = int(session.options["along"] == "crossline")
        here, self._box_numbers = [], []
        for number, one in enumerate(session.decisions["exemplars"]):
            if direction == own and one["place"][direction] == label:
                here.append((one["place"], session.palette[one["class"]], one["class"]))
                self._box_numbers.append(number)
        self.boxes.data = self._rects(here)
        found = []
        if session.weak is not None and direction == own:
            places = session.weak.positions[list(session.volume.dims)].to_numpy()
            own_class = session.weak.classes == self.gallery_class
            for row in np.flatnonzero((places[:, direction] == label) & own_class):
                found.append((places[row], session.palette.get(self.gallery_class, "#888888"), ""))
        self.found.data = self._rects(found)
        self.next_box.data = self._rects([])

    def _rects(self, places):
        """Boxes of the patch size around places, in coordinates of the section."""
        across, down = self.session.sections.frame(self.direction)
        first = ((1, 2), (0, 2), (1, 0))[self.direction][0]
        height, width = self.session.size
        data: dict = {name: [] for name in BOX}
        for place, colour, name in places:
            for key, axis, at, size in (("x", across, place[first], width), ("y", down, place[2], height)):
                data[key].append(axis.coordinate(at) + (size / 2 - 0.5 - size // 2) * axis.step)
            data["width"].append(width * abs(across.step))
            data["height"].append(height * abs(down.step))
            data["left"].append(data["x"][-1] - data["width"][-1] / 2)
            data["top"].append(data["y"][-1] - data["height"][-1] / 2)
            data["colour"].append(colour)
            data["name"].append(name)
        return data

    # ---- retrieval --------------------------------------------------------------------------------------------------

    def _make_retrieval(self):
        self.gallery_buttons = RadioButtonGroup(labels=[], name="gallery-class")
        self.gallery_buttons.on_change("active", self._on_gallery_class)
        self.gallery = Cards(
            self._on_judge, actions=[["accept", "✓", "Accept (A)"], ["reject", "✕", "Reject (R)"]],
            keys={"a": "accept", "r": "reject", "Enter": "go"}, sizing_mode="stretch_width",
        )  # fmt: skip
        self.gallery_note = Div(text="", name="gallery-note", sizing_mode="stretch_width")
        self.again_button = button("Search again", self._on_find, name="again")
        self.back_button = button("◂ Nearer", lambda: self._page(-SHOWN), name="nearer")
        self.more_button = button("Farther ▸", lambda: self._page(SHOWN), name="farther")
        self.last_button = button("Least similar", lambda: self._page(10**6), name="least")
        curve = self.curve = figure(
            height=150, sizing_mode="stretch_width", tools="", toolbar_location=None, x_axis_label="rank",
            y_axis_label="similarity", name="curve", x_range=Range1d(0, 1), y_range=Range1d(0, 1),
        )  # fmt: skip
        self.curve_line = ColumnDataSource(data={"rank": [], "similarity": []})
        curve.yaxis.minor_tick_line_color = curve.xaxis.minor_tick_line_color = None
        curve.line("rank", "similarity", source=self.curve_line, line_width=2, color="#1769c4")
        self.cut = Span(dimension="width", line_color="#d04000", line_width=2, location=0)
        curve.add_layout(self.cut)
        follow = CustomJS(args={"cut": self.cut}, code="cut.location = cb_obj.y")
        for event in (events.Pan, events.PanStart):
            curve.js_on_event(event, follow)
        curve.on_event(events.PanEnd, lambda event: self._on_cut(event.y))
        curve.on_event(events.Tap, lambda event: self._on_cut(event.y))

    def _on_step(self, event):
        """Outline the retrieved patches only while they are looked at."""
        self.found_boxes.visible = event.new == 1

    @guarded
    def _on_find(self):
        own = int(self.session.options["along"] == "crossline")
        line = self.session.sections.axes[own].labels[self.position].item() if self.direction == own else None
        self.tabs.active = 1
        self.session.retrieve(line)
        self._show_work()

    def _on_gallery_class(self, _attr, _old, new):
        if new is not None and new < len(self.gallery_buttons.labels):
            self.gallery_class, self.shown_from = self.gallery_buttons.labels[new], 0
            self._show_gallery()
            self._show_curve()
            self._show_boxes()

    def _page(self, by):
        self.shown_from += by
        self._show_gallery()

    @guarded
    def _on_cut(self, similarity):
        if self.session.weak is not None:
            self.session.cut_at(self.gallery_class, float(similarity))

    @guarded
    def _on_judge(self, message):
        session, weak = self.session, self.session.weak
        at = np.flatnonzero((weak.rows == int(message["key"])) & (weak.classes == self.gallery_class))
        if not len(at):
            return
        row = int(at[0])
        place = [weak.positions[name].iloc[row].item() for name in session.volume.dims]
        if message["verb"] == "go":
            self._jump(place)
            return
        accept = message["verb"] == "accept"
        if accept and session.accepted()[row]:
            accept = None  # a second click takes it back
        session.judge(self.gallery_class, place, along=str(weak.positions["along"].iloc[row]), accept=accept)

    def _show_gallery(self):
        session, weak, name = self.session, self.session.weak, self.gallery_class
        own = np.flatnonzero(weak.classes == name) if weak is not None and name else np.empty(0, int)
        self.shown_from = int(np.clip(self.shown_from, 0, max(0, (len(own) - 1) // SHOWN * SHOWN)))
        here = own[self.shown_from : self.shown_from + SHOWN]
        accepted = session.accepted() if len(own) else []
        pictures = session.thumbnails(weak.rows[here]) if len(here) else []
        self.gallery.items = [
            {
                "key": str(int(weak.rows[i])),
                "src": thumbnail(picture),
                "title": f"{weak.similarity[i]:.3f}",
                "colour": session.palette.get(name, "#888888"),
                "state": "accepted" if accepted[i] else "",
                "hint": "Show " + ", ".join(f"{weak.positions[dim].iloc[i]:g}" for dim in session.volume.dims),
            }
            for i, picture in zip(here, pictures, strict=True)
        ]
        rejected = sum(one["class"] == name and not one["accept"] for one in session.decisions["judged"])
        first = f"{self.shown_from + 1} to {self.shown_from + len(here)} of {len(own)}" if len(own) else "none yet"
        where = {"neighbourhood": ", in the neighbourhood", "survey": ", in the survey"}.get(session.scope, "")
        text = f"<b>{escape(name)}</b>: {first}{where}" + (f"; {rejected} rejected" if rejected else "")
        self.gallery_note.text = text if name else "Add a class and place an exemplar first."

    def _show_curve(self):
        weak, name = self.session.weak, self.gallery_class
        curve = weak.curves.get(name) if weak is not None else None
        if curve is None or not len(curve):
            self.curve_line.data = {"rank": [], "similarity": []}
            return
        ranks = np.unique(np.linspace(0, len(curve) - 1, 400).astype(int))
        self.curve_line.data = {"rank": ranks + 1, "similarity": curve[ranks]}
        self.curve.x_range.update(start=0, end=len(curve) + 1)
        span = float(curve[0] - curve[-1]) or 0.1
        self.curve.y_range.update(start=float(curve[-1]) - 0.05 * span, end=float(curve[0]) + 0.05 * span)
        taken = min(self.session.counts().get(name, 1), len(curve))
        self.cut.location = float(curve[taken - 1])

    # ---- labels -----------------------------------------------------------------------------------------------------

    def _make_labels(self):
        options = list(oc.MAPPERS)
        chosen = self.session.decisions["mapping"]
        self.mapping = Select(title="mapping", options=options, value=chosen, width=130, name="mapping")
        self.mapping.on_change("value", self._on_mapping)
        self.label_button = button("Label this line", self._on_label, name="label", button_type="primary")
        self.survey_button = button("Label the survey", self._on_label_all, name="label-all")
        opacity = Slider(start=0, end=1, step=0.05, value=0.35, title="opacity", name="opacity", width=150)
        opacity.js_link("value", self.label_image.glyph, "global_alpha")
        self.limit = Slider(
            start=0, end=100, step=1, value=0, title="least confidence (%)", name="confidence", width=190
        )
        self.share = Div(text="", name="share")
        callback = script("overlay", source=self.overlay, slider=self.limit, share=self.share)
        self.limit.js_on_change("value", callback)
        self.overlay.js_on_change("data", callback)
        self.what = RadioButtonGroup(labels=["labels", "confidence", "nothing"], active=0, name="overlay")
        self.what.js_on_change(
            "active",
            CustomJS(
                args={"labels": self.label_image, "sure": self.sure_image},
                code="labels.visible = cb_obj.active === 0; sure.visible = cb_obj.active === 1",
            ),
        )
        self.truth_toggle = Toggle(label="expert beside", name="expert", visible=self.session.truth is not None)
        self.truth_toggle.on_change("active", self._on_truth)
        self.opacity = opacity
        self.scores = Div(text="", name="scores", sizing_mode="stretch_width")
        self.changed = Div(text="", name="changed", sizing_mode="stretch_width")
        self.brush_class = Select(title="brush says", options=["right", "wrong", "erase"], value="right", width=120,
                                  name="brush-class")  # fmt: skip
        self.brush_class.on_change("value", self._on_brush_class)
        self.radius = Slider(start=1, end=20, step=1, value=4, title="brush radius", width=130, name="radius")
        self.next_cards = Cards(self._on_next, keys={"Enter": "go"}, sizing_mode="stretch_width")

    def _on_brush_class(self, _attr, _old, _new):
        self.tool_buttons.active = 2

    def _on_mapping(self, _attr, _old, new):
        self.session.set_mapping(new)

    @guarded
    def _on_label(self):
        own = int(self.session.options["along"] == "crossline")
        if self.direction != own:
            raise ValueError(f"Labels are made on {self.session.volume.dims[own]}s; show one, then label it.")
        self.session.label([self.session.sections.axes[own].labels[self.position].item()])
        self._show_work()

    @guarded
    def _on_label_all(self):
        self.session.label()
        self._show_work()

    def _on_truth(self, _attr, _old, new):
        self.expert.visible = bool(new)
        self._show_labels()

    @guarded
    def _on_stroke(self, _attr, _old, new):
        if not new["xs"]:
            return
        points = list(zip(new["xs"][-1], new["ys"][-1], strict=True))
        self.strokes.data = {"xs": [], "ys": []}
        self.session.paint(self.brush_class.value, self.direction, self.position, points, self.radius.value)

    @guarded
    def _on_next(self, message):
        places = self._next
        self._jump(places[int(message["key"])]["place"])

    def _show_labels(self):
        session = self.session
        found = session.label_pictures(self.direction, self.position, self.window)
        if found is None:
            self.overlay.data = NOTHING | {"confidence": []}
        else:
            label, sure, names = found
            self.codes.update(**palette(names, session.palette))
            self.overlay.data = columns(label) | {"confidence": [sure.codes]}
            if self.plot.tags[0]["classes"] != names:
                self.plot.tags = [self.plot.tags[0] | {"classes": names}]
        if self.expert.visible:
            truth = session.truth_picture(self.direction, self.position, self.window)
            self.truth.data = columns(truth[0]) if truth else dict(NOTHING)
            if truth:
                self.truth_codes.update(**palette(truth[1], session.palette))
        self._show_scores()

    def _show_scores(self):
        session = self.session
        own = int(session.options["along"] == "crossline")
        line = session.sections.axes[own].labels[self.position].item() if self.direction == own else None
        scores = session.scores(line) if line is not None else None
        if scores:
            classes = ", ".join(f"{escape(name)} {value:.2f}" for name, value in scores["IU"].items())
            self.scores.text = (
                f"against the expert: <b>mean IU {scores['MIU']:.3f}</b>, pixels {scores['PA']:.3f}; {classes}"
            )
        else:
            self.scores.text = ""
        done = len(session.labelled())
        lines = [f"{done} line{'s' * (done != 1)} labelled"] if done else []
        if session.labelled() and session.stale():
            lines.append("<b>the patches or the painting changed since: label again</b>")
        if session.draft:
            lines.append("a quick draft is shown while the full fit runs")
        elif session.changed is not None:
            lines.append(f"the last fit changed {100 * session.changed:.1f} % of the line")
        painted = sum(len(one["runs"]) for one in session.decisions["painted"])
        if painted:
            lines.append(f"strokes painted: {len(session.decisions['painted'])}")
        self.changed.text = "; ".join(lines)
        self._show_next()

    def _show_next(self):
        session = self.session
        key = (len(session.labelled()), session.index and session.index.workspace.read().get("label", {}).get("weak"))
        if key == self._next_key:
            return
        self._next_key = key
        self._next = session.uncertain() if session.labelled() else []
        own, items = int(session.options["along"] == "crossline"), []
        for number, one in enumerate(self._next):
            codes = session.patch(one["place"])
            items.append(
                {
                    "key": str(number),
                    "src": thumbnail(codes),
                    "title": f"{100 * one['confidence']:.0f} % sure",
                    "note": f"{session.volume.dims[own]} {one['place'][own]:g}",
                    "colour": "#b0a000",
                    "hint": "Look here",
                }
            )
        self.next_cards.items = items

    def _show_painted(self):
        session = self.session
        picture = session.painted_picture(self.direction, self.position, self.window)
        self.marks.update(**palette(list(session.palette), session.palette))
        self.painted.data = dict(NOTHING) if picture is None else columns(picture)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _make_results(self):
        self.export_buttons = [
            button(text, functools.partial(self._on_export, kind), name=f"export-{kind}")
            for kind, text in {
                "segy": "SEG-Y labels",
                "confidence": "SEG-Y confidence",
                "zarr": "Zarr",
                "training": "Training set",
                "figure": "Figure of this line",
            }.items()
        ]
        self.exported = Div(text="", name="exported", sizing_mode="stretch_width")
        wrapped = {"white-space": "pre-wrap", "overflow-wrap": "anywhere", "font": "12px monospace"}
        self.commands = Div(text="", name="commands", sizing_mode="stretch_width", styles=wrapped)

    @guarded
    def _on_export(self, kind):
        own = int(self.session.options["along"] == "crossline")
        line = self.session.sections.axes[own].labels[self.position].item() if self.direction == own else None
        self.session.begin_export(kind, line=line)
        self._show_work()

    def _show_results(self):
        paths = [f"<div>written: <code>{escape(shown_path(path))}</code></div>" for path in self.session.exports]
        self.exported.text = "".join(paths)
        self.commands.text = escape("\n\n".join(self.session.commands()))

    # ---- layout -----------------------------------------------------------------------------------------------------

    def layout(self):
        """Everything, arranged."""
        wide = {"sizing_mode": "stretch_width"}
        title = Div(text=f"<b>Outcrop</b> &nbsp; {escape(self.session.path.name)}", styles={"font-size": "15px"})
        bar = {"background": "#eef2f6", "border-bottom": "1px solid #cfd8e3"}
        actions = (self.undo_button, self.redo_button, self.status, self.cancel_button)
        top = pn.Row(title, pn.Spacer(width=20), *actions, self.keys, styles=bar, **wide)
        lines = pn.Row(self.direction_buttons, self.number, self.slider, **wide)
        looks = pn.Row(self.tool_buttons, self.fit_button, *self.looks, **wide)
        sections = pn.Row(self.plot, self.expert, sizing_mode="stretch_both")
        below = pn.Row(self.readout, pn.layout.HSpacer(), self.legend, min_height=28, **wide)
        left = pn.Column(lines, looks, sections, below, sizing_mode="stretch_both")
        scroll = {"scroll": "y-auto", "sizing_mode": "stretch_both"}
        self.tabs = pn.Tabs(
            (
                "1 Exemplars",
                pn.Column(
                    hint(
                        "Choose or add a class, then click on the section to place a box; drag a box to move it. "
                        "Arrow keys and PgUp, PgDn go through the lines, the wheel zooms."
                    ),
                    self.classes,
                    self.find_button,
                    self.exemplar_cards,
                    **scroll,
                ),
            ),
            (
                "2 Retrieved",
                pn.Column(
                    self.gallery_buttons,
                    hint(
                        "Drag the line in the curve: patches above it are used. Click a patch to see where it lies; "
                        "A accepts, R rejects, arrow keys choose."
                    ),
                    self.curve,
                    self.gallery_note,
                    self.gallery,
                    pn.Row(self.back_button, self.more_button, self.last_button, self.again_button),
                    **scroll,
                ),
            ),
            (
                "3 Labels",
                pn.Column(
                    pn.Row(self.mapping, pn.Column(self.label_button, self.survey_button)),
                    pn.Row(self.what, self.truth_toggle),
                    pn.Row(self.opacity, self.limit),
                    self.share,
                    self.scores,
                    heading("Correct with the brush"),
                    hint("Paint over labels that are right or wrong, or with the class that it is; then label again."),
                    pn.Row(self.brush_class, self.radius),
                    self.changed,
                    heading("Look here next: least sure"),
                    self.next_cards,
                    **scroll,
                ),
            ),
            (
                "4 Results",
                pn.Column(
                    heading("Export into the job folder"),
                    pn.FlexBox(*self.export_buttons),
                    self.exported,
                    heading("The same from a terminal"),
                    self.commands,
                    **scroll,
                ),
            ),
            dynamic=False,
            width=430,
            sizing_mode="stretch_height",
        )
        self.tabs.param.watch(self._on_step, "active")
        return pn.Column(top, pn.Row(left, self.tabs, sizing_mode="stretch_both"), sizing_mode="stretch_both")

    def close(self):
        """Stop listening to the session."""
        self.stop_listening()


def chooser(desk):
    """Page that lets choose one of the volumes and jobs of a folder."""
    status = Div(text="", name="status", styles={"color": "#b01818"})
    reload = CustomJS(code="window.location.reload()")

    def open_one(name):
        try:
            desk.open(name)
            done.text = name
        except (ValueError, OSError) as error:
            status.text = escape(error)

    done = Div(text="", visible=False)
    done.js_on_change("text", reload)
    buttons = [button(name, functools.partial(open_one, name), width=320) for name in desk.choices()]
    nothing = [] if buttons else [hint("No volume (.sgy, .zarr, .npy) and no job (.outcrop) lies in this folder.")]
    title = Div(text=f"<b>Outcrop</b> &nbsp; {escape(desk.folder)}", styles={"font-size": "15px"})
    return pn.Column(title, hint("Open a volume, or go on with a job:"), *buttons, *nothing, status, done)


def button(label, action, **options):
    """A button that does something."""
    one = Button(label=label, **options)
    one.on_click(action)
    return one


def hint(text):
    """A line that says what to do."""
    return Div(text=escape(text), styles={"color": "#667", "font-size": "12px"}, sizing_mode="stretch_width")


def heading(text):
    """A small heading."""
    return Div(text=f"<b>{escape(text)}</b>", styles={"font-size": "13px", "margin-top": "6px"})


def escape(text):
    """Text that is safe inside HTML."""
    return html.escape(str(text))


def columns(picture):
    """A picture as the columns of an image glyph."""
    width, height = picture.right - picture.left, picture.bottom - picture.top
    return {"image": [picture.codes], "x": [picture.left], "y": [picture.top], "dw": [width], "dh": [height]}


def palette(names, colours):
    """Properties of a colour mapper for codes 0 (nothing), 1 ... of these classes."""
    shades = ["#00000000", *(colours.get(name, "#888888") for name in names)]
    return {"palette": shades, "low": -0.5, "high": len(names) + 0.5}


def seismic_palette():
    """Blue for negative, white, red for positive amplitudes."""
    shades = []
    for value in np.linspace(-1, 1, 256):
        fade = round(255 * (1 - abs(value)))
        red, blue = (255, fade) if value > 0 else (fade, 255)
        shades.append(f"#{red:02x}{fade:02x}{blue:02x}")
    return shades


def thumbnail(codes):
    """8-bit picture as an address that holds it."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(codes)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
