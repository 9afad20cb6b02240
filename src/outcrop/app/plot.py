"""The plot of a section and of what lies on it: labels, painted samples, boxes, the expert's labels."""

from bokeh.core.property.descriptors import UnsetValueError
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    Label,
    LinearColorMapper,
    NoOverlap,
    PanTool,
    Range1d,
    ResetTool,
    Span,
    WheelZoomTool,
)
from bokeh.palettes import Greys256, Viridis256
from bokeh.plotting import figure

from outcrop.app.pictures import FRAMES
from outcrop.patches.grid import DIRECTIONS
from outcrop.plots.colours import COLOURS
from outcrop.volumes.summary import sample_unit

MISSING = "#cfd8e3"  # colour of samples that are not there
NOTHING: dict = {"image": [], "x": [], "y": [], "dw": [], "dh": []}
BOX = ("x", "y", "width", "height", "left", "top", "colour", "name", "ink")
ALONE, SIDE_BY_SIDE, SWIPE = "alone", "expert beside", "swipe"  # ways to compare
OPACITY = 0.35  # of labels
BRUSH = "#ff7a00"  # of a brush that names no class
UNSURE = COLOURS["uncertain"]  # of code 255
STALE = "Older labels: label again"  # short, for sections that are narrow
FOLLOWS = "Older labels: new ones follow"
SOME_STALE = "Hatched: older labels"
HATCH = {
    "fill_alpha": 0, "line_color": None, "hatch_pattern": "right_diagonal_line", "hatch_color": "#1c2733",
    "hatch_alpha": 0.45, "hatch_weight": 1,
}  # fmt: skip
LEAST_FILLED = 0.15  # part of the window that a map of true scale fills at least, across and down; else it is stretched


class SectionPlot:
    """Bokeh figures of a section, the expert's beside ours, and the sources of all that is drawn.

    Parameters
    ----------
    survey : Survey
    """

    def __init__(self, survey):
        self.survey = survey
        self.figure = frame(Range1d(0, 1), Range1d(1, 0), name="section")
        self.expert = frame(self.figure.x_range, self.figure.y_range, name="expert-section", visible=False)
        self.expert.title.text = "expert"
        self._make_pictures()
        self._make_boxes()
        self._make_notice()
        self._make_swipe()
        self._make_tools()

    @property
    def unit(self):
        """Unit of the sample axis, None where it is not known."""
        return sample_unit(self.survey.volume)

    def _make_pictures(self):
        plot, nobody = self.figure, {"palette": ["#00000000"], "low": -0.5, "high": 0.5}
        self.image = ColumnDataSource(data=dict(NOTHING))
        self.overlay = ColumnDataSource(data=NOTHING | {"confidence": [], "before": []})
        self.painted, self.truth = (ColumnDataSource(data=dict(NOTHING)) for _ in range(2))
        self.amplitudes = LinearColorMapper(palette=[MISSING, *Greys256[1:]], low=0, high=255)
        self.codes, self.marks, self.truth_codes = (LinearColorMapper(**nobody) for _ in range(3))
        plot.image(source=self.image, color_mapper=self.amplitudes, name="amplitudes")
        self.labels = plot.image(source=self.overlay, color_mapper=self.codes, global_alpha=OPACITY, name="labels")
        shades = LinearColorMapper(palette=["#00000000", *Viridis256[1:]], low=0, high=255)
        self.confidence = plot.image(
            "confidence", "x", "y", "dw", "dh", source=self.overlay, visible=False, global_alpha=0.8,
            color_mapper=shades,
        )  # fmt: skip
        percent = LinearColorMapper(palette=Viridis256, low=0, high=100)
        self.bar = ColorBar(color_mapper=percent, title="confidence (%)", visible=False, width=12, name="colour-bar")
        plot.add_layout(self.bar, "right")
        self.stale = ColumnDataSource(data={"left": [], "right": [], "top": [], "bottom": []})
        self.hatch = plot.quad(
            "left", "right", "top", "bottom", source=self.stale, name="stale", hatch_scale=28, **HATCH
        )
        self.strokes_shown = plot.image(source=self.painted, color_mapper=self.marks, global_alpha=0.75, name="painted")
        self.expert.image(source=self.image, color_mapper=self.amplitudes)
        truth = {"source": self.truth, "color_mapper": self.truth_codes, "global_alpha": OPACITY}
        self.expert_image, self.over = self.expert.image(**truth), plot.image(visible=False, name="truth", **truth)

    def _make_notice(self):
        """Words over the section where its labels are stale."""
        self.notice = Label(
            x=8, y=8, x_units="screen", y_units="screen", text=STALE, visible=False, text_font_size="13px",
            text_color="white", background_fill_color="#9c4a00", background_fill_alpha=0.92, padding=5,
            text_font_style="bold", name="stale-notice",
        )  # fmt: skip
        self.figure.add_layout(self.notice)

    def _make_boxes(self):
        empty: dict = {name: [] for name in BOX}
        self.exemplars, self.retrieved, self.marked = (ColumnDataSource(data=dict(empty)) for _ in range(3))
        rect = {"x": "x", "y": "y", "width": "width", "height": "height", "fill_alpha": 0, "line_color": "colour"}
        self.outlines = self.figure.rect(
            source=self.retrieved, line_width=1.2, line_dash="dotted", visible=False, **rect
        )
        self.figure.rect(source=self.exemplars, line_width=3, name="exemplar-boxes", **rect)
        self.figure.rect(source=self.marked, line_width=3, line_dash="dashed", name="marked", **rect)
        self.figure.text(
            x="left", y="top", text="name", source=self.exemplars, text_color="ink", text_font_size="12px",
            background_fill_color="colour", padding=3, text_baseline="top", text_font_style="bold",
        )  # fmt: skip

    def _make_swipe(self):
        """A line to drag: ours to the left, the expert's labels, or the bare section, to the right."""
        self.cut = Span(
            dimension="height", location=0, editable=True, visible=False, line_color="#ffe600", line_width=3,
            hover_line_color="#ff7a00", name="cut",
        )  # fmt: skip
        self.figure.add_layout(self.cut)
        self.sides = []
        for text, align, offset in (("◂ labels", "right", -6), ("expert ▸", "left", 6)):
            side = Label(
                x=0, y=4, y_units="screen", text=text, text_align=align, x_offset=offset, visible=False,
                text_font_size="12px", background_fill_color="white", background_fill_alpha=0.8, padding=2,
            )  # fmt: skip
            self.cut.js_link("location", side, "x")
            self.figure.add_layout(side)
            self.sides.append(side)

    def compare(self, way, *, other):
        """Show labels `ALONE`, with the expert's `SIDE_BY_SIDE`, or `SWIPE` to what the other side is called."""
        self.expert.visible = way == SIDE_BY_SIDE
        for one in (self.cut, self.over, *self.sides):
            one.visible = way == SWIPE
        self.sides[1].text = f"{other} ▸"
        self._centre_cut()

    def _centre_cut(self):
        x = self.figure.x_range
        if not x.start < self.cut.location < x.end:
            for one, name in ((self.cut, "location"), *((side, "x") for side in self.sides)):
                setattr(one, name, (x.start + x.end) / 2)

    def _make_tools(self):
        self.preview = ColumnDataSource(data=dict(NOTHING))
        self.cursor = ColumnDataSource(data={"x": [], "y": [], "width": [], "height": []})
        self.ink = LinearColorMapper(palette=["#00000000", BRUSH], low=0, high=1)
        self.figure.image(source=self.preview, color_mapper=self.ink, global_alpha=0.75, name="preview")
        for name, colour, width in (("shadow", "black", 3), ("cursor", "white", 1.2)):  # seen on any ground
            self.figure.ellipse(
                "x", "y", "width", "height", source=self.cursor, fill_alpha=0, line_color=colour, line_width=width,
                name=name,
            )  # fmt: skip
        pan, wheel = PanTool(name="pan"), WheelZoomTool()
        self.figure.add_tools(pan, wheel, ResetTool())
        self.expert.add_tools(pan, wheel)
        for plot in (self.figure, self.expert):
            plot.toolbar.active_scroll, plot.toolbar.active_drag = wheel, pan
        self.pan = pan

    def set_frame(self, direction):
        """Take the ranges and the names of the axes of a direction."""
        across, down = self.survey.sections.frame(direction)
        names = [self.survey.volume.dims[i] for i in FRAMES[direction]]
        plot = self.figure
        shown = [
            f"{name} ({self.unit})" if self.unit and name == self.survey.volume.dims[2] else name for name in names
        ]
        name_axes(plot, shown, (across, down))
        name_axes(self.expert, shown, (across, down))
        self.expert.axis.axis_label = None  # they stand left of it and below the other one
        axes = [axis_tag(name, axis) for name, axis in zip(names, (across, down), strict=True)]
        plot.tags = [{"clip": self.survey.sections.clip, "axes": axes, "classes": [], "section": [direction, 0]}]
        show_whole(plot, self.survey, direction)
        self._centre_cut()

    def show_section(self, picture, direction, position):
        """Show the amplitudes of a section."""
        self.figure.tags = [self.figure.tags[0] | {"section": [direction, position]}]  # what is painted belongs to it
        self.image.data = columns(picture)
        name, label = self.survey.volume.dims[direction], self.survey.axes[direction].labels[position]
        self.figure.title.text = (
            f"{name} {label:g} {self.unit}" if direction == 2 and self.unit else f"{name} {label:g}"
        )

    def show_labels(self, found, before, colours):
        """Show labels and confidence as `Labelling.pictures` gives them, and keep the labels of before at hand."""
        if found is None:
            self.overlay.data = NOTHING | {"confidence": [], "before": []}
            return
        label, sure, names = found
        self.codes.update(**palette(names, colours))
        self.overlay.data = columns(label) | {"confidence": [sure.codes], "before": [before]}
        if self.figure.tags[0]["classes"] != names:
            self.figure.tags = [self.figure.tags[0] | {"classes": names}]

    def show_truth(self, found, colours):
        """Show the expert's labels as `Labelling.truth_picture` gives them."""
        if found is not None:
            self.truth_codes.update(**palette(found[1], colours))
        self.truth.data = dict(NOTHING) if found is None else columns(found[0])

    def show_stale(self, parts, text):
        """Hatch parts whose labels are of older decisions, left, right, top, bottom of each, and say so."""
        names = ("left", "right", "top", "bottom")
        self.stale.data = {name: [part[i] for part in parts] for i, name in enumerate(names)}
        self.notice.visible = bool(parts)
        self.notice.text = text

    def show_painted(self, picture, codes, colours):
        """Show what was painted by hand, in the codes of the classes."""
        names = {code: name for name, code in codes.items()}
        self.marks.update(**palette([names.get(i + 1, "") for i in range(max(names, default=0))], colours))
        self.painted.data = dict(NOTHING) if picture is None else columns(picture)

    def boxes(self, direction, places):
        """What patches around places, with a colour and a name, cover of a section of a direction."""
        frame, (before, size) = self.survey.sections.frame(direction), self.survey.reach()
        data: dict = {name: [] for name in BOX}
        for place, colour, name in places:
            for key, length, edge, axis, i in zip(
                ("x", "y"), ("width", "height"), ("left", "top"), frame, FRAMES[direction], strict=True
            ):
                middle = axis.coordinate(place[i]) + (size[i] / 2 - 0.5 - before[i]) * axis.step
                data[key].append(middle)
                data[length].append(size[i] * abs(axis.step))
                data[edge].append(middle - size[i] * abs(axis.step) / 2)
            data["colour"].append(colour)
            data["name"].append(name)
            data["ink"].append(ink(colour))
        return data


def frame(x_range, y_range, **options):
    """An empty figure as large as it can be."""
    one = figure(
        x_range=x_range, y_range=y_range, tools="", sizing_mode="stretch_both", min_height=300, toolbar_location=None,
        active_scroll=None, output_backend="canvas", **options,
    )  # fmt: skip
    one.grid.visible = False
    one.axis.major_label_policy = NoOverlap(min_distance=5)
    return one


def name_axes(plot, names, axes):
    """Name the axes across and down; uneven lines lie side by side, and their ticks show their numbers."""
    for drawn, name, axis in zip((plot.xaxis[0], plot.yaxis[0]), names, axes, strict=True):
        drawn.axis_label = name
        if axis.even:
            least = abs(axis.step) if name in DIRECTIONS else 0  # there are no half lines
            drawn.update(ticker=BasicTicker(min_interval=least), formatter=BasicTickFormatter(use_scientific=False))
        else:
            numbers = CustomJSTickFormatter(
                args={"labels": axis.labels.tolist(), "start": axis.start},
                code="return `${labels[tick - start] ?? ''}`",
            )
            drawn.update(ticker=BasicTicker(min_interval=1, num_minor_ticks=0), formatter=numbers)


def show_whole(plot, survey, direction):
    """Take the ranges of all of a section; of a time slice such that a metre is as long across as down."""
    across, down = survey.sections.frame(direction)
    left, right, top, bottom = across.low, across.high, down.low, down.high
    if direction == 2 and across.even and down.even:
        left, right, top, bottom = true_scale(plot, survey, left, right, top, bottom)
    plot.x_range.update(start=left, end=right, reset_start=left, reset_end=right)
    plot.y_range.update(start=bottom, end=top, reset_start=bottom, reset_end=top)


def true_scale(plot, survey, left, right, top, bottom):
    """Ranges of a map on which a metre is as long across as down, unless few lines would be a hairline on it."""
    spacing = survey.volume.attrs.get("bin_size") or (1.0, 1.0)
    rows, columns = survey.axes[:2]
    metres = (right - left) / abs(columns.step) * spacing[1], (bottom - top) / abs(rows.step) * spacing[0]
    try:
        frame = (plot.inner_width or 900, plot.inner_height or 650)
    except UnsetValueError:  # not drawn yet
        frame = (900, 650)
    scale = max(metres[0] / frame[0], metres[1] / frame[1])  # metres to a pixel
    if min(m / (scale * n) for n, m in zip(frame, metres, strict=True)) < LEAST_FILLED:
        return left, right, top, bottom
    more = [(scale * n / m - 1) / 2 for n, m in zip(frame, metres, strict=True)]
    wide, high = more[0] * (right - left), more[1] * (bottom - top)
    return left - wide, right + wide, top - high, bottom + high


def ink(colour):
    """Black or white, whichever is read on a colour.

    Examples
    --------
    >>> ink("#55ffdd"), ink("#aa1133")
    ('black', 'white')
    """
    red, green, blue = bytes.fromhex(colour[1:7])
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def axis_tag(name, axis):
    """What the browser must know of an axis; labels only where they cannot be computed."""
    return {
        "name": name,
        "start": axis.start,
        "step": axis.step,
        "count": len(axis),
        "labels": [] if axis.even else axis.labels.tolist(),
    }


def columns(picture):
    """A picture as the columns of an image glyph."""
    width, height = picture.right - picture.left, picture.bottom - picture.top
    return {"image": [picture.codes], "x": [picture.left], "y": [picture.top], "dw": [width], "dh": [height]}


def palette(names, colours):
    """Properties of a colour mapper for codes 0 (not labelled), 1 ... of these classes, and 255 (uncertain)."""
    shades = ["#00000000", *(colours.get(name, UNSURE) for name in names)]
    return {"palette": shades, "low": -0.5, "high": len(names) + 0.5, "high_color": UNSURE}
