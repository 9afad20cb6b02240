"""The section viewer: which section is shown, how it looks, and what the mouse does on it."""

from typing import Any

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import Button, CustomJS, Div, RadioButtonGroup, Slider, TextInput, Toggle
from bokeh.palettes import Greys256

from outcrop.app.components import Legend, guarded, script
from outcrop.app.pictures import MOST_PIXELS
from outcrop.app.plot import BRUSH as BRUSH_COLOUR
from outcrop.app.plot import FOLLOWS, MISSING, SOME_STALE, STALE, SectionPlot
from outcrop.app.shown_labels import class_shares
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.patches.grid import DIRECTIONS
from outcrop.plots.colours import COLOURS

TOOLS = ("Look", "Place", "Brush", "Line", "Outline")
LOOK, PLACE, BRUSH, LINE, OUTLINE = range(5)
PAINTING = (BRUSH, LINE, OUTLINE)
MARKS = ("right", "wrong", "erase")  # what the brush says about labels, whatever their class
RADIUS = {BRUSH: ("radius", 4), LINE: ("line-radius", 1)}  # tool -> what it is called in the view, default radius


class Viewer:
    """The section in view.

    Parameters
    ----------
    session : Session
    say : callable
        Shows a line of text to the interpreter.

    Attributes
    ----------
    direction, position : int
        The section: 0 inline, 1 crossline, 2 time, and where along it.

    Notes
    -----
    Classes that are chosen are kept by their first names, which stay when a class is renamed, here or elsewhere.
    """

    def __init__(self, session, say):
        self.session, self.survey, self.say = session, session.survey, say
        self.view = session.view
        self.direction = min(max(int(self.view.get("direction", self.survey.along)), 0), 2)
        self.position = int(self.view.get("position", len(self._axis()) // 2))
        self.position = min(max(self.position, 0), len(self._axis()) - 1)
        self._chosen, self._outlined = self.view.get("class", ""), self.view.get("outlined", "")
        self._says, self._hidden = self.view.get("brush-class", ""), set(self.view.get("hidden", []))
        self.window: Any = None  # left, right, top, bottom of what is in view
        self.after_draw: Any = lambda: None
        self.after_take: Any = lambda tool: None
        self.after_choose: Any = lambda: None
        self._grabbed: Any = None
        self._tapped: Any = None
        self._boxes: list = []  # ids and places of the exemplars whose boxes are drawn
        self._labels_of: Any = None  # what the labels in view come from
        self._quiet = False
        self.seen: dict = {}  # direction -> position that was looked at last
        self._moved = False
        self.on_ready: list = []  # scripts for what was chosen before the page was opened
        self.plot = SectionPlot(self.survey)
        self._make_controls()
        self._make_looks()
        self._make_readout()
        self._listen()

    def _axis(self):
        """Axis along which the sections lie."""
        return self.survey.axes[self.direction]

    @property
    def line(self):
        """Number of the line in view, None where lines of another direction are searched and labelled."""
        return self._axis().labels[self.position].item() if self.direction == self.survey.along else None

    @property
    def looks_only(self):
        """Whether a click changes nothing."""
        return self.tool_buttons.active == LOOK

    # ---- classes ----------------------------------------------------------------------------------------------------

    def first_name(self, name):
        """First name of the class that is called so now; anything else as it is."""
        return self.session.job.state.first_name(name) or name

    def _name(self, first):
        """Present name of a class, "" where it is gone."""
        return self.session.job.state.classes.get(first, {"name": ""})["name"]

    @property
    def chosen(self):
        """Class of which a click places an exemplar."""
        return self._name(self._chosen) or next(iter(self.session.job.palette), "")

    @property
    def says(self):
        """What the brush says: one of `MARKS`, or the first name of a class, by default of the one that is chosen."""
        return self._says or self.first_name(self.chosen)

    @property
    def outlined(self):
        """Class whose retrieved patches are outlined."""
        return self._name(self._outlined)

    @outlined.setter
    def outlined(self, name):
        self._outlined = self.first_name(name)
        self.view.keep(outlined=self._outlined)

    @property
    def hidden(self):
        """Classes whose labels are not shown."""
        return {self._name(first) for first in self._hidden} - {""}

    @hidden.setter
    def hidden(self, names):
        self._hidden = {self.first_name(name) for name in names}
        self.view.keep(hidden=sorted(self._hidden))

    def brush_options(self):
        """What the brush can say, with its text for the interpreter."""
        classes = [(first, facts["name"]) for first, facts in self.session.job.state.classes.items()]
        right, wrong, erase = ((mark, mark) for mark in MARKS)
        return [right, wrong, *classes, erase]

    # ---- widgets ----------------------------------------------------------------------------------------------------

    def _make_controls(self):
        self.direction_buttons = RadioButtonGroup(
            labels=list(self.survey.volume.dims), active=self.direction, name="direction"
        )
        self.direction_buttons.on_change("active", self._on_direction)
        self.slider = Slider(
            start=0, end=max(1, len(self._axis()) - 1), value=self.position, step=1, show_value=False, title="",
            sizing_mode="stretch_width", name="line", margin=(5, 20, 5, 5),
        )  # fmt: skip
        self.slider.on_change("value", self._on_slider)
        self.number = TextInput(value="", width=80, name="number")
        self.number.on_change("value", self._on_number)
        self.tool_buttons = RadioButtonGroup(labels=list(TOOLS), active=LOOK, name="tool")
        self.view.follow(self.tool_buttons).on_change("active", self._on_tool)
        self.radius = Slider(
            start=1, end=20, step=1, value=self.view.get(*RADIUS[BRUSH]), title="brush radius ( [ and ] )", width=150,
            name="radius",
        )  # fmt: skip
        self.radius.on_change("value", self._on_radius)
        self._show_radius()

    def _make_looks(self):
        """What changes in the browser alone."""
        scheme = RadioButtonGroup(labels=["grey", "seismic"], active=0, name="scheme")
        gain = Slider(start=0.25, end=4, value=1, step=0.05, title="gain", width=90, name="gain")
        polarity = Toggle(label="reversed", name="polarity")
        bases = {"grey": list(Greys256), "seismic": seismic_palette()}
        repaint = script(
            "palette", bases=bases, scheme=scheme, polarity=polarity, gain=gain, mapper=self.plot.amplitudes,
            missing=MISSING,
        )  # fmt: skip
        for one in (scheme, gain, polarity):
            one.js_on_change("value" if one is gain else "active", repaint)
            self.view.follow(one)
        self.on_ready.append(repaint)
        fit = Button(label="Fit", name="fit")
        fit.js_on_click(CustomJS(args={"plot": self.plot.figure}, code="plot.reset.emit()"))
        self.looks = [fit, scheme, gain, polarity]

    def _make_readout(self):
        plot = self.plot
        self.readout = Div(text="", name="readout", styles={"font-size": "12px", "white-space": "pre", "color": "#334"})
        self.legend = Legend(self._on_legend)
        figure = plot.figure
        self.read = script("readout", source=plot.image, overlay=plot.overlay, readout=self.readout, frame=figure)
        for event in (events.MouseMove, events.MouseLeave):
            figure.js_on_event(event, self.read)
        figure.title.js_on_change("text", self.read)  # the section changes under the cursor

    def _listen(self):
        figure, plot = self.plot.figure, self.plot
        drag = CustomJS(args={"pan": plot.pan, "tool": self.tool_buttons}, code="pan.active = tool.active === 0")
        self.tool_buttons.js_on_change("active", drag)
        brush = script(
            "brush", plot=figure, tool=self.tool_buttons, slider=self.radius, cursor=plot.cursor, preview=plot.preview,
        )  # fmt: skip
        for event in (
            events.MouseMove, events.MouseLeave, events.PanStart, events.Pan, events.PanEnd, events.Tap,
            events.DoubleTap,
        ):  # fmt: skip
            figure.js_on_event(event, brush)
        self.on_ready += [drag, brush]
        redraw = CustomJS(args={"plot": figure}, code="plot.redraw_stroke?.()")
        figure.title.js_on_change("text", redraw)  # corners are drawn on the section they belong to
        figure.on_event(events.Tap, self._on_tap)
        figure.on_event(events.DoubleTap, self._on_tap)
        figure.on_event(events.PanStart, self._on_grab)
        figure.on_event(events.PanEnd, self._on_drop)
        figure.on_event(events.RangesUpdate, self._on_zoom)
        figure.on_change("inner_width", self._on_resize)

    def layout(self, *, looks=(), others=()):
        """Everything, arranged, with more controls above and more views right of the section."""
        wide = {"sizing_mode": "stretch_width"}
        lines = pn.Row(self.direction_buttons, self.number, self.slider, **wide)
        looks = pn.FlexBox(self.tool_buttons, *self.looks, *looks, **wide)
        sections = pn.Row(self.plot.figure, self.plot.expert, *others, sizing_mode="stretch_both")
        below = pn.Row(self.readout, min_height=22, **wide)
        return pn.Column(lines, looks, sections, self.legend, below, sizing_mode="stretch_both")

    # ---- moving -----------------------------------------------------------------------------------------------------

    def go(self, direction, position, *, ahead=0):
        """Show another section."""
        new_frame = direction != self.direction
        self.seen[self.direction] = self.position
        self._moved, self.direction = True, direction
        last = len(self._axis()) - 1
        self.position = int(np.clip(position, 0, last))
        self._quiet = True  # the widgets follow the section, not the other way round
        self.slider.update(end=max(1, last), value=self.position)
        self.direction_buttons.active = direction
        self._quiet = False
        with self.session.job.log.held():
            self.draw(new_frame=new_frame, ahead=ahead)
        self._expect_strokes()
        self.view.keep(direction=self.direction, position=self.position)

    def step(self, by):
        """Go some sections on."""
        self.go(self.direction, self.position + by, ahead=int(np.sign(by)))

    def jump(self, place):
        """Show the line of a place, and mark the place."""
        along = self.survey.along
        self.go(along, self.survey.positions(place)[along])
        self.plot.marked.data = self.plot.boxes(along, [(place, "#ffe600", "")])

    def _on_direction(self, _attr, _old, new):
        if not self._quiet and new != self.direction:
            self.go(new, self.seen.get(new, self.survey.volume.shape[new] // 2))

    def _on_slider(self, _attr, _old, new):
        if not self._quiet and new != self.position:
            self.go(self.direction, int(new), ahead=1 if new > self.position else -1)

    def _on_number(self, _attr, _old, new):
        labels = self._axis().labels
        if not self._quiet and new != f"{labels[self.position]:g}":
            try:
                self.go(self.direction, int(np.argmin(np.abs(labels - float(new)))))
            except ValueError:
                self.number.value = f"{labels[self.position]:g}"

    def _on_resize(self, _attr, _old, _new):
        if self.direction == 2:
            self.plot.set_frame(2)
            if self._moved:
                return
            self._zoom_back()  # the page was just opened

    @guarded
    def _on_zoom(self, event):
        """Fetch a finer picture of what is in view, where the screen has fewer pixels than the section."""
        self.view.keep(ranges=[self.direction, event.x0, event.x1, event.y0, event.y1])
        window = self._window(event.x0, event.x1, event.y0, event.y1)
        if window != self.window:
            self.window = window
            self.draw()

    def _window(self, x0, x1, y0, y1):
        """Part of the section in view, None where all of it fits on a screen."""
        across, down = self.survey.sections.frame(self.direction)
        fits = len(across) <= MOST_PIXELS[0] and len(down) <= MOST_PIXELS[1]
        return None if fits else (x0, x1, *sorted((y0, y1)))

    # ---- drawing ----------------------------------------------------------------------------------------------------

    @guarded
    def draw(self, *, new_frame=False, ahead=0):
        """Show the section at hand."""
        if new_frame:
            self.window = None
            self.plot.set_frame(self.direction)
            self._zoom_back()
        picture = self.survey.sections.picture(self.direction, self.position, self.window, ahead=ahead)
        self.plot.show_section(picture, self.direction, self.position)
        self.number.value = f"{self._axis().labels[self.position]:g}"
        self.show_labels()
        self.show_boxes()
        self.show_painted()
        self.after_draw()

    def _zoom_back(self):
        """Show the part that was in view when the page was left."""
        direction, *ends = self.view.get("ranges", [None])
        if direction == self.direction and len(ends) == 4 and all(isinstance(end, (int, float)) for end in ends):
            self.plot.figure.x_range.update(start=ends[0], end=ends[1])
            self.plot.figure.y_range.update(start=ends[2], end=ends[3])
            self.window = self._window(*ends)

    def show_labels(self):
        """Lay labels over the section, and show the expert's."""
        section = (self.direction, self.position, self.window)
        labelling, colours = self.session.labelling, self.session.job.palette
        shown = colours | dict.fromkeys(self.hidden, "#00000000")
        source = (section, labelling.source(self.direction, self.position), shown)
        if source != self._labels_of:  # while the survey is labelled most lines are not the one in view
            self._labels_of = source
            self.plot.show_labels(labelling.pictures(*section), labelling.before(*section), shown)
            parts = labelling.stale_parts(self.direction, self.position)
            whole = self.direction == self.survey.along
            follows = whole and self.position in labelling.following()
            self.plot.show_stale(parts, FOLLOWS if follows else STALE if whole else SOME_STALE)
        if self.plot.expert.visible or self.plot.over.visible:
            self.plot.show_truth(labelling.truth_picture(*section), shown)

    def show_painted(self):
        """Lay over the section what was painted by hand."""
        picture = self.session.painted_picture(self.direction, self.position, self.window)
        colours = self.session.job.palette | dict.fromkeys(self.hidden, "#00000000")
        self.plot.show_painted(picture, self.session.job.classes, colours)

    def show_boxes(self):
        """Outline the exemplars that lie on this section or cross it, and the retrieved patches that lie on it."""
        palette, search, line = self.session.job.palette, self.session.search, self.line
        here, self._boxes, found = [], [], []
        for one in self.session.exemplars():
            if one.place is not None and self.survey.crosses(one.place, self.direction, self.position):
                here.append((one.place, palette[one.name], one.name))
                self._boxes.append((one.id, one.place))
        if search.weak is not None and line is not None:
            places = search.places()
            chosen = (places[:, self.direction] == line) & (search.weak.classes == self.outlined)
            found = [(place, palette.get(self.outlined, "#888888"), "") for place in places[chosen]]
        self.plot.exemplars.data = self.plot.boxes(self.direction, here)
        self.plot.retrieved.data = self.plot.boxes(self.direction, found)
        self.plot.marked.data = self.plot.boxes(self.direction, [])

    def show_classes(self):
        """Show the legend, and give the brush its colours, in the order of what it can say."""
        palette = self.session.job.palette
        labelling = self.session.labelling
        shares = self._shares_in_view() if self.line is None else labelling.shares(self.line)
        lost = labelling.vanished if self.line is not None and labelling.corrected(self.position) else ()
        before = {name: f"was {100 * share:.1f} %" for name, share, _ in lost}
        items = [
            {
                "name": name,
                "colour": colour,
                "share": f"{100 * shares[name]:.1f} %" if name in shares else "",
                "warning": before.get(name, ""),
                "hidden": name in self.hidden,
                "key": str(i) if i < 10 else "",
            }
            for i, (name, colour) in enumerate(palette.items(), 1)
        ]
        unsure = 1 - sum(shares.values()) if shares else 0
        if unsure > 0.0005:  # no class: it is not hidden, and has no number
            uncertain = {"name": "uncertain", "colour": COLOURS["uncertain"], "share": f"{100 * unsure:.1f} %"}
            items.append(uncertain | {"fixed": True})
        self.legend.items = items
        colours = [palette.get(text, BRUSH_COLOUR) for _, text in self.brush_options()]
        self.plot.ink.update(palette=["#00000000", *colours], high=len(colours))

    def _shares_in_view(self):
        """Share of every class in the labels of a section across the lines, as they are drawn."""
        data, names = self.plot.overlay.data, self.plot.figure.tags[0]["classes"]
        if not data["image"]:
            return {}
        sure = data["confidence"][0] >= round(255 * self.session.labelling.limit)
        codes = np.where(sure | (data["image"][0] == 0), data["image"][0], UNCERTAIN)
        return class_shares(codes, names) if codes.any() else {}

    def _on_legend(self, message):
        """Hide the labels of a class, or show them again."""
        self.hidden ^= {message["name"]}
        self.show_classes()
        self.show_labels()
        self.show_painted()

    # ---- the mouse --------------------------------------------------------------------------------------------------

    def take(self, tool):
        """Take a tool, a number in `TOOLS`."""
        self.tool_buttons.active = tool

    def choose(self, name):
        """Place exemplars of a class from now on."""
        self._chosen = self.first_name(name)
        self.view.keep(**{"class": self._chosen})
        self.after_choose()

    def say_with_brush(self, what):
        """Paint a class, by its first name, or one of `MARKS` from now on."""
        self._says = what
        self.view.keep(**{"brush-class": what})

    def _on_tool(self, _attr, _old, new):
        self._show_radius()
        self._expect_strokes()
        self.after_take(new)

    def _show_radius(self):
        """Radius of the tool in hand."""
        tool = self.tool_buttons.active
        if tool in RADIUS:
            self.radius.value = self.view.get(*RADIUS[tool])
            self.radius.title = f"{TOOLS[tool].lower()} radius ( [ and ] )"
        self.radius.disabled = tool == OUTLINE

    def _expect_strokes(self):
        """Get ready for strokes on the line in view, where something that paints is in hand."""
        if self.tool_buttons.active in PAINTING and self.line is not None:
            self.session.labelling.expect(self.position)

    def _on_radius(self, _attr, _old, new):
        name, _ = RADIUS.get(self.tool_buttons.active, RADIUS[BRUSH])
        self.view.keep(**{name: new})

    @guarded
    def _on_tap(self, event):
        if self.tool_buttons.active == PLACE:
            if not self.chosen:
                raise ValueError("Add a class first, for instance fault; then click where it shows.")
            place = self.survey.place(self.direction, self.position, event.x, event.y)
            if self.direction != self.survey.along:
                self._refuse_across(place)
                return
            if event.event_name == "doubletap" and self._tapped == place:
                return  # two fast clicks at two places are two exemplars, a double click is one
            self._tapped = place
            placed = self.session.add_exemplar(self.chosen, place)
            if list(placed) != list(place):
                size = " x ".join(map(str, self.survey.size))
                moved = ", ".join(f"{part:g}" for part in placed)
                self.session.work.say(f"A patch of {size} does not fit there: its centre was moved to {moved}.")

    def _refuse_across(self, place):
        """A patch is cut on a line, so that a click on another section shows the line through it, not an exemplar."""
        here, line = self.plot.figure.title.text, DIRECTIONS[self.survey.along]
        place = self.survey.snap(place)
        self.jump(place)
        self.session.work.say(
            f"Exemplars are cut on {line}s, not on {here}: this is {line} {place[self.survey.along]:g} through the "
            "place you clicked. Click to place the exemplar here."
        )

    def _on_grab(self, event):
        """Take hold of the exemplar under the cursor."""
        self._grabbed = None
        if self.tool_buttons.active == PLACE:
            data = self.plot.exemplars.data
            for i, (id, place) in enumerate(self._boxes):
                inside = abs(event.x - data["x"][i]) * 2 < data["width"][i]
                if inside and abs(event.y - data["y"][i]) * 2 < data["height"][i]:
                    self._grabbed = (id, place, event.x, event.y)

    @guarded
    def _on_drop(self, event):
        if self._grabbed:
            id, place, x, y = self._grabbed
            self._grabbed = None
            place = self.survey.moved(place, self.direction, event.x - x, event.y - y)
            self.session.move_exemplar(id, place)

    def paint(self, stroke):
        """Paint a stroke as brush.js sends it: on the section where it was begun, whatever is in view by now."""
        says, points = stroke["says"], list(zip(stroke["xs"], stroke["ys"], strict=True))
        name = says if says in MARKS else self._name(says)
        section, how = (int(stroke["direction"]), int(stroke["position"])), {"filled": bool(stroke["filled"])}
        try:
            if not name:
                gone = f"its class {says!r} was removed" if says else "there is no class yet"
                raise ValueError(
                    f"The stroke was not stored, for {gone}; choose what the brush says and paint it again."
                )
            self.session.paint(name, *section, points, float(stroke["radius"]), id=stroke["id"], **how)
        finally:
            self.show_painted()


def seismic_palette():
    """Blue for negative, white, red for positive amplitudes."""
    shades = []
    for value in np.linspace(-1, 1, 256):
        fade = round(255 * (1 - abs(value)))
        red, blue = (255, fade) if value > 0 else (fade, 255)
        shades.append(f"#{red:02x}{fade:02x}{blue:02x}")
    return shades
