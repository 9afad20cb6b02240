"""The section viewer: the section in view, its display, and the mouse tools."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import Button, CustomJS, Div, RadioButtonGroup, Select, Slider, TextInput, Toggle
from bokeh.palettes import Greys256

from outcrop.app.components import BOTH, WIDE, Legend, Message, Part, guarded, script, warn, warnings
from outcrop.app.pictures import MOST_PIXELS, Axis, Window
from outcrop.app.plot import BRUSH as BRUSH_COLOUR
from outcrop.app.plot import FOLLOWS, MISSING, SOME_STALE, STALE, SectionPlot
from outcrop.app.session import MARKS, Session
from outcrop.app.shown_labels import class_shares
from outcrop.app.survey import Place
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.plots.colours import COLOURS

TOOLS = ("Navigate", "Place exemplar", "Brush", "Line", "Outline", "Lasso")
LOOK, PLACE, BRUSH, LINE, OUTLINE, LASSO = range(6)
PAINTING = (BRUSH, LINE, OUTLINE)
RADIUS = {BRUSH: ("radius", 4), LINE: ("line-radius", 1)}  # tool -> name under which its radius is stored, and default
EXAGGERATIONS = ("auto", "0.25", "0.5", "1", "2", "3", "5", "10")  # pixels per sample divided by pixels per trace
MOUSE = (events.MouseMove, events.MouseLeave)
DRAG = (events.PanStart, events.Pan, events.PanEnd, events.Tap, events.DoubleTap)


class Viewer(Part):
    """The section viewer: shows a section with its labels, and handles the mouse tools.

    Parameters
    ----------
    session : Session
    say : callable
        Called as ``say(text, wrong=False)``; shows a line of text to the interpreter.

    Attributes
    ----------
    direction, position : int
        The section in view: direction 0 inline, 1 crossline, 2 time; position along this axis.
    view : View
        The stored settings of this tab. Classes are stored under their first names, which a renaming does not change.
    """

    def __init__(self, session: Session, say: Callable[..., None]) -> None:
        super().__init__(session, say)
        self.view = session.view.of_tab()
        self.direction = min(max(int(self.view.get("direction", self.survey.along)), 0), 2)
        self.position = min(max(int(self.view.get("position", len(self._axis) // 2)), 0), len(self._axis) - 1)
        self.window: Window | None = None  # part of the section in view
        self.after_draw: Callable[[], object] = lambda: None
        self.after_take: Callable[[int], object] = lambda tool: None
        self.after_choose: Callable[[], object] = lambda: None
        self._grabbed: tuple[str, Place, float, float] | None = None  # id, place, mouse position
        self._tapped: Place | None = None
        self._boxes: list[tuple[str, Place]] = []  # ids and places of the exemplars whose boxes are drawn
        self._labels_of: Any = None  # source of the labels in view
        self.seen: dict[int, int] = {}  # direction -> last position in view
        self._moved = False
        self.plot = SectionPlot(self.survey)
        self._make_controls()
        self._make_looks()
        self._listen()

    @property
    def _axis(self) -> Axis:
        """Axis along which the sections of the direction in view are numbered."""
        return self.survey.axes[self.direction]

    @property
    def line(self) -> float | None:
        """Number of the line in view; None for a time slice or a line across the labelled lines."""
        return self._axis.labels[self.position].item() if self.direction == self.survey.along else None

    # ---- classes ----------------------------------------------------------------------------------------------------

    def _name(self, first: str) -> str:
        """Return the present name of a class from its first name; "" if the class was removed."""
        return self.job.plan.names.get(first, "")

    @property
    def chosen(self) -> str:
        """Present name of the class of which a click places an exemplar; "" if the job has no class."""
        return self._name(self.view.get("class", "")) or next(iter(self.job.palette), "")

    def choose(self, name: str) -> None:
        """Choose the class of which a click places an exemplar."""
        self.view.keep(**{"class": self.job.first_name(name)})
        self.after_choose()

    @property
    def says(self) -> str:
        """What the brush paints: right, wrong, erase, or the first name of a class (its name when it was added)."""
        return self.view.get("brush-class", "") or self.job.first_name(self.chosen)

    @says.setter
    def says(self, what: str) -> None:
        self.view.keep(**{"brush-class": what})

    @property
    def outlined(self) -> str:
        """Class whose retrieved patches are outlined in the section and listed in the gallery; "" for none."""
        return self._name(self.view.get("outlined", ""))

    @outlined.setter
    def outlined(self, name: str) -> None:
        self.view.keep(outlined=self.job.first_name(name))

    @property
    def hidden(self) -> set[str]:
        """Classes whose labels are not shown."""
        hidden: list[str] = self.view.get("hidden", [])
        return {self._name(first) for first in hidden} - {""}

    @hidden.setter
    def hidden(self, names: Iterable[str]) -> None:
        self.view.keep(hidden=sorted(map(self.job.first_name, names)))

    @property
    def unfilled(self) -> set[str]:
        """Classes whose labels are drawn without colour: hidden classes, and the background unless its colour is on."""
        background = self.job.plan.background_name
        return self.hidden | ({background} if background and not self.view.get("fill-background", False) else set())

    @property
    def colours(self) -> dict[str, str]:
        """Class -> colour of its strokes, transparent for hidden classes."""
        return self.job.palette | dict.fromkeys(self.hidden, "#00000000")

    @property
    def label_colours(self) -> dict[str, str]:
        """Class -> colour of its labels, transparent for hidden or unfilled classes."""
        return self.job.palette | dict.fromkeys(self.unfilled, "#00000000")

    def brush_options(self) -> list[tuple[str, str]]:
        """Return the choices of the brush as (value, text on the page): right, wrong, every class, erase."""
        right, wrong, erase = ((mark, mark) for mark in MARKS)
        return [right, wrong, *self.job.plan.names.items(), erase]

    # ---- widgets ----------------------------------------------------------------------------------------------------

    def _make_controls(self) -> None:
        directions = RadioButtonGroup(labels=list(self.survey.volume.dims), active=self.direction, name="direction")
        self.direction_buttons = self.react(directions, self._on_direction)
        slider = Slider(
            start=0, end=max(1, len(self._axis) - 1), value=self.position, step=1, show_value=False, title="",
            name="line", margin=(1, 20, 1, 5), **WIDE,
        )  # fmt: skip
        self.slider = self.react(slider, lambda new: self.step(int(new) - self.position))
        self.number = self.react(TextInput(value="", width=80, name="number"), self._on_number)
        tools = RadioButtonGroup(labels=list(TOOLS), active=LOOK, name="tool")
        self.tool_buttons = self.react(self.view.follow(tools), self._on_tool)
        title = "brush radius ( [ and ] )"
        radius = Slider(start=1, end=20, step=1, value=self.view.get(*RADIUS[BRUSH]), title=title, width=150)
        radius.name = "radius"
        self.radius = self.react(radius, self._on_radius)
        self._show_radius()
        self.readout = Div(text="", name="readout", styles={"font-size": "12px", "white-space": "pre", "color": "#334"})
        self.legend, self.warnings = Legend(self._on_legend), warnings("section-warnings")

    def _make_looks(self) -> None:
        """Make the controls of the display, which act in the browser only."""
        scheme = RadioButtonGroup(labels=["Grey", "Red-white-blue"], active=0, name="scheme")
        gain = Slider(start=0.25, end=4, value=1, step=0.05, title="gain", width=90, name="gain")
        polarity = Toggle(label="Reverse polarity", name="polarity")
        parts = {"scheme": scheme, "gain": gain, "polarity": polarity, "mapper": self.plot.amplitudes}
        self.scale = Div(text="", name="amplitude-bar", styles={"font-size": "11px"})
        parts |= {"bar": self.scale, "clip": self.survey.sections.clip}
        repaint = script(
            "palette", bases={"grey": list(Greys256), "seismic": seismic_palette()}, missing=MISSING, **parts
        )
        for one in (scheme, gain, polarity):
            one.js_on_change("value" if one is gain else "active", repaint)
            self.view.follow(one)
        self.fit = Button(label="Fit", name="fit")
        self.fit.js_on_click(CustomJS(args={"plot": self.plot.figure}, code="plot.reset.emit()"))
        self.looks = [scheme, gain, polarity]
        names = [(value, "↕ auto" if value == "auto" else f"↕ {value} : 1") for value in EXAGGERATIONS]
        self.exaggeration = self.view.follow(Select(options=names, value="auto", width=90, name="exaggeration"))
        self.on_ready = [repaint]  # scripts that apply stored choices to the opened page

    def _listen(self) -> None:
        figure, plot = self.plot.figure, self.plot
        self.read = script("readout", source=plot.image, overlay=plot.overlay, readout=self.readout, frame=figure)
        hold = f"pan.active = tool.active === {LOOK}; lasso.active = tool.active === {LASSO}"
        drag = CustomJS(args={"pan": plot.pan, "lasso": plot.lasso, "tool": self.tool_buttons}, code=hold)
        self.tool_buttons.js_on_change("active", drag)
        parts = {"plot": figure, "tool": self.tool_buttons, "slider": self.radius}
        brush = script("brush", cursor=plot.cursor, preview=plot.preview, corners=plot.corners, **parts)
        for event in MOUSE:
            figure.js_on_event(event, self.read, brush)
        for event in DRAG:
            figure.js_on_event(event, brush)
        self.on_ready += [drag, brush]
        redraw = CustomJS(args={"plot": figure}, code="plot.redraw_stroke?.()")
        # after a change of section, update the readout, and draw corners only on their own section
        figure.title.js_on_change("text", self.read, redraw)
        for event, react in (
            (events.Tap, self._on_tap), (events.DoubleTap, self._on_tap), (events.PanStart, self._on_grab),
            (events.PanEnd, self._on_drop), (events.RangesUpdate, self._on_zoom), (events.Reset, self._on_fit),
        ):  # fmt: skip
            figure.on_event(event, react)

    def layout(
        self, *, looks: Iterable[Any] = (), above: Iterable[Any] = (), others: Iterable[Any] = (),
        strip: Iterable[Any] = (),
    ) -> Any:  # fmt: skip
        """Return the layout of the viewer, together with parts of other panels.

        Parameters
        ----------
        looks, above, others, strip : iterable
            Parts of other panels: controls of the display, parts above the section, parts next to the section, and the
            strip of lines below the slider.
        """
        lines = pn.Row(self.direction_buttons, self.number, pn.Column(self.slider, *strip, **WIDE), **WIDE)
        controls = [self.tool_buttons, self.fit, self.exaggeration, *self.looks, *looks]
        for one in (*controls, self.direction_buttons, self.number):
            one.margin = (1, 5)
        tools = pn.FlexBox(*controls, **WIDE)
        sections = pn.Row(self.plot.figure, self.plot.expert, *others, **BOTH)
        below = pn.Row(self.readout, pn.HSpacer(), self.scale, min_height=22, **WIDE)
        return pn.Column(lines, tools, *above, sections, self.legend, self.warnings, below, **BOTH)

    # ---- moving -----------------------------------------------------------------------------------------------------

    def go(self, direction: int, position: int, *, ahead: int = 0) -> None:
        """Show the section of a direction at a position.

        If `ahead` is 1 or -1, a thread reads the next sections at higher or lower positions.
        """
        new_frame = direction != self.direction
        self.seen[self.direction] = self.position
        self._moved, self.direction = True, direction
        last = len(self._axis) - 1
        self.position = int(np.clip(position, 0, last))
        self.slider.update(end=max(1, last), value=self.position)
        self.direction_buttons.active = direction
        with self.job.log.held():
            self.draw(new_frame=new_frame, ahead=ahead)
        self._expect_strokes()
        self.view.keep(direction=self.direction, position=self.position)

    def step(self, by: int) -> None:
        """Go forward by a number of sections, or back by a negative number."""
        if by:
            self.go(self.direction, self.position + by, ahead=int(np.sign(by)))

    def jump(self, place: Place) -> None:
        """Show the line through a place, and draw a box around the patch at the place."""
        along = self.survey.along
        self.go(along, self.survey.positions(place)[along])
        self.plot.marked.data = self.plot.boxes(along, [(place, "#ffe600", "")])

    def _on_direction(self, new: int) -> None:
        if new != self.direction:
            self.go(new, self.seen.get(new, self.survey.volume.shape[new] // 2))

    def _on_number(self, new: str) -> None:
        shown = f"{self._axis.labels[self.position]:g}"
        if new != shown:
            try:
                self.go(self.direction, self._axis.nearest(float(new)))
            except ValueError:
                self.number.value = shown

    @guarded
    def _on_zoom(self, event: Any) -> None:
        """Draw the part in view at a finer resolution, if the section has more samples than the screen has pixels.

        The zoom is stored for the next time that the page is opened.
        """
        self.view.keep(ranges=[self.direction, event.x0, event.x1, event.y0, event.y1])
        window = self._window(event.x0, event.x1, event.y0, event.y1)
        if window != self.window:
            self.window = window
            self.draw()

    def _on_fit(self, _event: Any) -> None:
        """Delete the stored zoom, so that the page opens with the whole section in a window of any size."""
        self.view.keep(ranges=[None])

    def _window(self, x0: float, x1: float, y0: float, y1: float) -> Window | None:
        """Return the visible part of the section, (left, right, top, bottom); None if the section fits on a screen."""
        across, down = self.survey.sections.frame(self.direction)
        fits = len(across) <= MOST_PIXELS[0] and len(down) <= MOST_PIXELS[1]
        return None if fits else (x0, x1, min(y0, y1), max(y0, y1))

    # ---- drawing ----------------------------------------------------------------------------------------------------

    @guarded
    def draw(self, *, new_frame: bool = False, ahead: int = 0) -> None:
        """Draw the section in view; `new_frame` is True if its direction changed or if the page is new."""
        if new_frame:
            self.window = None
            self.plot.set_frame(self.direction)
            self._zoom_back()
        picture = self.survey.sections.picture(self.direction, self.position, self.window, ahead=ahead)
        self.plot.show_section(picture, self.direction, self.position)
        self.number.value = f"{self._axis.labels[self.position]:g}"
        self.show_labels()
        self.show_boxes()
        self.show_painted()
        self.after_draw()

    def _zoom_back(self) -> None:
        """Restore the stored zoom, if it belongs to the direction in view."""
        direction, *ends = self.view.get("ranges", [None])
        if direction == self.direction and len(ends) == 4 and all(isinstance(end, (int, float)) for end in ends):
            self.plot.figure.x_range.update(start=ends[0], end=ends[1])
            self.plot.figure.y_range.update(start=ends[2], end=ends[3])
            self.window = self._window(*ends)

    def show_labels(self) -> None:
        """Draw the labels and the expert labels over the section."""
        section = (self.direction, self.position, self.window)
        labelling, colours = self.labelling, self.label_colours
        source = (section, labelling.source(self.direction, self.position), colours)
        if source != self._labels_of:  # labelling of other lines changes nothing in view
            self._labels_of = source
            self.plot.show_labels(labelling.pictures(*section), labelling.before(*section), colours)
            whole = self.direction == self.survey.along
            follows = whole and self.position in labelling.following()
            parts = labelling.stale_parts(self.direction, self.position)
            self.plot.show_stale(parts, FOLLOWS if follows else STALE if whole else SOME_STALE)
            self.plot.show_confirmed(*labelling.confirmed_parts(self.direction, self.position))
        if self.plot.expert.visible or self.plot.over.visible:
            self.plot.show_truth(labelling.truth_picture(*section), colours)

    def show_painted(self) -> None:
        """Draw the painted strokes over the section."""
        picture = self.session.painted_picture(self.direction, self.position, self.window)
        self.plot.show_painted(picture, self.job.classes, self.colours)

    def show_boxes(self) -> None:
        """Draw boxes around patches that cross the section in view: exemplars, and retrieved patches of one class.

        This class is `outlined`.
        """
        palette, search, outlined, line = self.job.palette, self.session.search, self.outlined, self.line
        exemplars = [one for one in self.job.exemplars if one.place is not None]
        here = [one for one in exemplars if self.survey.crosses(one.place, self.direction, self.position)]
        self._boxes = [(one.id, one.place) for one in here]
        found = []
        if search.weak is not None and line is not None:
            places = search.places()
            chosen = (places[:, self.direction] == line) & (search.weak.classes == outlined)
            found = [(place, palette.get(outlined, "#888888"), "") for place in places[chosen]]
        boxes = functools.partial(self.plot.boxes, self.direction)
        self.plot.exemplars.data = boxes([(one.place, palette[one.name], one.name) for one in here])
        self.plot.retrieved.data, self.plot.marked.data = boxes(found), boxes([])

    def show_classes(self) -> None:
        """Update the colours of the brush, and the legend: the classes with their shares of the labels in view."""
        palette, labelling, hidden = self.job.palette, self.labelling, self.hidden
        shares = self._shares_in_view() if self.line is None else labelling.shares(self.line)
        lost = labelling.vanished if self.line is not None and labelling.corrected(self.position) else ()
        before = {name: f"was {100 * share:.1f} %" for name, share, _ in lost}
        percent = {name: f"{100 * share:.1f} %" for name, share in shares.items()}
        keys = self.session.class_keys()
        items: list[dict[str, Any]] = [
            {
                "name": name, "colour": colour, "share": percent.get(name, ""), "warning": before.get(name, ""),
                "hidden": name in hidden, "hollow": name in self.unfilled - hidden,
                "key": str(keys[name]) if keys[name] < 10 else "",
            }
            for name, colour in palette.items()
        ]  # fmt: skip
        unsure = 1 - sum(shares.values()) if shares else 0
        if unsure > 0.0005:  # not a class: it cannot be hidden and has no number
            share = f"{100 * unsure:.1f} %"
            items.append({"name": "uncertain", "colour": COLOURS["uncertain"], "share": share, "fixed": True})
        self.legend.items = items
        colours = [palette.get(text, BRUSH_COLOUR) for _, text in self.brush_options()]
        self.plot.ink.update(palette=["#00000000", *colours], high=len(colours))

    def show_warnings(self) -> None:
        """Show the warnings about the labels of the line in view."""
        warn(self.warnings, self.session.advice.section(self.line))

    def _shares_in_view(self) -> dict[str, float]:
        """Return a dict: class -> its share of the labels in view, on a section that crosses the labelled lines."""
        data, names = self.plot.overlay.data, self.plot.figure.tags[0]["classes"]
        if not data["image"]:
            return {}
        sure = data["confidence"][0] >= round(255 * self.labelling.limit)
        codes = np.where(sure | (data["image"][0] == 0), data["image"][0], UNCERTAIN)
        return class_shares(codes, names) if codes.any() else {}

    def _on_legend(self, message: Message) -> None:
        """Hide or show the labels of the class clicked in the legend; for the background, turn its colour on or off."""
        if message["name"] == self.job.plan.background_name:
            self.view.keep(**{"fill-background": not self.view.get("fill-background", False)})
        else:
            self.hidden ^= {message["name"]}
        self.show_classes()
        self.show_labels()
        self.show_painted()

    # ---- the mouse --------------------------------------------------------------------------------------------------

    def take(self, tool: int) -> None:
        """Select a tool by its position in `TOOLS`."""
        self.tool_buttons.active = tool

    def _on_tool(self, new: int) -> None:
        self._show_radius()
        self._expect_strokes()
        self.after_take(new)

    def _show_radius(self) -> None:
        """Show the radius of the selected tool in the slider; outline and lasso have no radius."""
        tool = self.tool_buttons.active
        if tool in RADIUS:
            self.radius.value = self.view.get(*RADIUS[tool])
            self.radius.title = f"{TOOLS[tool].lower()} radius ( [ and ] )"
        self.radius.disabled = tool in (OUTLINE, LASSO)

    def _expect_strokes(self) -> None:
        """If a painting tool is selected, compute the features of the line in view in a thread, for later strokes."""
        if self.tool_buttons.active in PAINTING and self.line is not None:
            self.labelling.expect(self.position)

    def _on_radius(self, new: float) -> None:
        name, _ = RADIUS.get(self.tool_buttons.active, RADIUS[BRUSH])
        self.view.keep(**{name: new})

    @guarded
    def _on_tap(self, event: Any) -> None:
        if self.tool_buttons.active != PLACE:
            return
        if not self.chosen:
            raise ValueError("Add a class first, for instance fault; then click on a place that shows it.")
        place = self.survey.place(self.direction, self.position, event.x, event.y)
        if event.event_name == "doubletap" and self._tapped == place:
            return  # a double click places one exemplar; two fast clicks at different places are two exemplars
        self._tapped = place
        self.session.add_exemplar(self.chosen, place)
        if self.direction != self.survey.along:
            line, number = self.survey.line_name, place[self.survey.along]
            self.session.work.say(
                f"The exemplar lies on {line} {number:g}; its patch for the search is cut on this line."
            )

    def _on_grab(self, event: Any) -> None:
        """Begin to drag the exemplar under the cursor."""
        self._grabbed, data = None, self.plot.exemplars.data
        for i, box in enumerate(self._boxes if self.tool_buttons.active == PLACE else ()):
            inside = abs(event.x - data["x"][i]) * 2 < data["width"][i]
            if inside and abs(event.y - data["y"][i]) * 2 < data["height"][i]:
                self._grabbed = (*box, event.x, event.y)

    @guarded
    def _on_drop(self, event: Any) -> None:
        if self._grabbed:
            (id, place, x, y), self._grabbed = self._grabbed, None
            self.session.move_exemplar(id, self.survey.moved(place, self.direction, event.x - x, event.y - y))

    def paint(self, stroke: Message) -> None:
        """Store a stroke sent by brush.js, on the section where it was painted, even if another section is in view."""
        says, points = stroke["says"], list(zip(stroke["xs"], stroke["ys"], strict=True))
        name = says if says in MARKS else self._name(says)
        section, how = (int(stroke["direction"]), int(stroke["position"])), {"filled": bool(stroke["filled"])}
        try:
            if not name:
                reason = f"its class {says!r} was removed" if says else "the job has no class yet"
                raise ValueError(f"The stroke was not stored, because {reason}; choose a class and paint it again.")
            self.session.paint(name, *section, points, float(stroke["radius"]), id=stroke["id"], **how)
            self._unhide(name)
        finally:
            self.show_painted()

    def _unhide(self, name: str) -> None:
        """Show a hidden class again after a stroke of this class, so that the stroke is visible."""
        if name in self.hidden:
            self.hidden -= {name}
            self.show_classes()
            self.show_labels()
            self.session.work.say(f"Class {name} was hidden; it is shown because you painted it.")


def seismic_palette() -> list[str]:
    """Return 256 colours from blue (negative) over white to red (positive amplitudes)."""
    shades = []
    for value in np.linspace(-1, 1, 256):
        fade = round(255 * (1 - abs(value)))
        red, blue = (255, fade) if value > 0 else (fade, 255)
        shades.append(f"#{red:02x}{fade:02x}{blue:02x}")
    return shades


class Panel(Part):
    """A panel of the page next to the section viewer; the base class of all panels.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer.session, viewer.say)
        self.viewer, self.view = viewer, viewer.view
