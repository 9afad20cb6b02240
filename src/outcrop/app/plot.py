"""The plot of a section with labels, painted samples, boxes around patches, and expert labels."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bokeh import models
from bokeh.models import ColumnDataSource, Label, LinearColorMapper, Range1d
from bokeh.palettes import Greys256, Viridis256
from bokeh.plotting import figure

from outcrop.app.pictures import FRAMES, Axis, Codes, Picture
from outcrop.app.survey import Place, Survey
from outcrop.patches.grid import DIRECTIONS
from outcrop.plots.colours import COLOURS
from outcrop.volumes.summary import sample_unit

MISSING = "#cfd8e3"  # colour of missing samples
NOTHING: dict[str, list[Any]] = {"image": [], "x": [], "y": [], "dw": [], "dh": []}
EDGES = ("left", "right", "top", "bottom")
Columns = dict[str, list[Any]]  # columns of the data of a glyph
BOX = ("x", "y", "width", "height", "left", "top", "colour", "name", "ink")
ALONE, SIDE_BY_SIDE, SWIPE = "Mine", "Side by side", "Swipe"  # ways to compare labels
OPACITY = 0.5  # opacity of labels
ALPHAS = ("global_alpha", "line_alpha", "text_alpha", "background_fill_alpha")  # set by an opacity
BRUSH = "#ff7a00"  # colour of a brush without a class
UNSURE = COLOURS["uncertain"]  # colour of code 255
STALE = "Labels from older decisions: label again"  # short, because sections can be narrow
FOLLOWS = "Older labels: new ones follow"
SOME_STALE = "Hatched: older labels"
CONFIRMED_COLOUR = "#0067c5"  # colour of the frame around confirmed labels
ZOOM = 1 / 1000  # zoom per pixel that the mouse wheel reports, as a part of the range: one notch zooms by a tenth
HATCH = {
    "fill_alpha": 0, "line_color": None, "hatch_pattern": "right_diagonal_line", "hatch_color": "#1c2733",
    "hatch_alpha": 0.45, "hatch_weight": 1,
}  # fmt: skip


class Frame:
    """A figure of one section: amplitudes, labels over the amplitudes, and hatching over stale labels.

    Parameters
    ----------
    survey : Survey
    name : str
        Name of the figure.
    amplitudes, codes : LinearColorMapper
        Bokeh colour mappers of the amplitudes and of the label codes.
    ending : str
        Pattern of the names of the Bokeh renderers, such as ``linked-{}-1``; {} stands for amplitudes, labels or stale.
    scale : int
        Distance between the lines of the hatching, in pixels.
    """

    def __init__(self, survey: Survey, name: str, amplitudes: Any, codes: Any, *, ending: str, scale: int) -> None:
        self.survey = survey
        self.figure = empty_figure(Range1d(0, 1), Range1d(1, 0), name=name)
        self.image, self.overlay, self.stale = source(NOTHING), source(NOTHING), source(EDGES)
        self.figure.image(source=self.image, color_mapper=amplitudes, name=ending.format("amplitudes"))
        self.labels = self.figure.image(
            source=self.overlay, color_mapper=codes, global_alpha=OPACITY, name=ending.format("labels")
        )
        self.hatch = self.figure.quad(
            *EDGES, source=self.stale, name=ending.format("stale"), hatch_scale=scale, **HATCH
        )

    @property
    def unit(self) -> str | None:
        """Unit of the time or depth axis, such as ms or m; None if unknown."""
        unit: str | None = sample_unit(self.survey.volume)
        return unit

    def names(self, direction: int) -> list[str]:
        """Return the names of the horizontal and vertical axis of inlines (0), crosslines (1) or time slices (2)."""
        return [str(self.survey.volume.dims[i]) for i in FRAMES[direction]]

    def set_frame(self, direction: int) -> None:
        """Set the axis ranges of the figure to a whole section of a direction: 0 inline, 1 crossline, 2 time."""
        frame = self.survey.sections.frame(direction)
        axes = zip(self.names(direction), frame, strict=True)
        whole = show_whole(self.figure, *frame)
        ratio = bin_ratio(self.survey, frame) if direction == 2 else None
        self.figure.tags = [{"axes": [axis_tag(name, axis) for name, axis in axes], "whole": whole, "ratio": ratio}]

    def show_amplitudes(self, picture: Picture, direction: int, position: int) -> None:
        """Show the amplitudes of a section, with the name of the section as title."""
        self.image.data = columns(picture)
        name, label = self.survey.volume.dims[direction], self.survey.axes[direction].labels[position]
        self.figure.title.text = f"{name} {label:g} {(direction == 2 and self.unit) or ''}".rstrip()

    def hatch_parts(self, parts: Sequence[Sequence[float]]) -> None:
        """Hatch the given parts, whose labels are stale; a part is (left, right, top, bottom) in coordinates."""
        self.stale.data = {name: [part[i] for part in parts] for i, name in enumerate(EDGES)}


class SectionPlot(Frame):
    """Two Bokeh figures of the section in view: one with the labels, one with the expert labels.

    Parameters
    ----------
    survey : Survey
    """

    def __init__(self, survey: Survey) -> None:
        invisible = {"palette": ["#00000000"], "low": -0.5, "high": 0.5}
        self.amplitudes = LinearColorMapper(palette=[MISSING, *Greys256[1:]], low=0, high=255)
        self.codes, self.marks, self.truth_codes = (LinearColorMapper(**invisible) for _ in range(3))
        super().__init__(survey, "section", self.amplitudes, self.codes, ending="{}", scale=28)
        self.expert = empty_figure(self.figure.x_range, self.figure.y_range, name="expert-section", visible=False)
        self.expert.title.text = "expert"
        self._make_pictures()
        self._make_boxes()
        self.notice = self.words(8, 8, STALE, "#9c4a00", padding=5, text_font_style="bold", name="stale-notice")
        self.notice.text_font_size = "13px"
        self.confirmed_notice = self.words(8, 8, "", CONFIRMED_COLOUR, padding=5, name="confirmed-notice")
        self.confirmed = source(EDGES)
        self.figure.quad(
            *EDGES, source=self.confirmed, name="confirmed", fill_alpha=0, line_color=CONFIRMED_COLOUR, line_width=3
        )
        self._make_swipe()
        self._make_tools()

    def words(self, x: float, y: float, text: str, colour: str, **options: Any) -> Any:
        """Add a text over the section at (x, y) in pixels, hidden at first; return its Bokeh label."""
        one = Label(
            x=x, y=y, x_units="screen", y_units="screen", text=text, visible=False, text_font_size="12px",
            text_color="white", background_fill_color=colour, background_fill_alpha=0.92, **options,
        )  # fmt: skip
        self.figure.add_layout(one)
        return one

    def _make_pictures(self) -> None:
        plot = self.figure
        self.overlay.data = NOTHING | {"confidence": [], "before": []}
        self.painted, self.truth = source(NOTHING), source(NOTHING)
        shades = LinearColorMapper(palette=["#00000000", *Viridis256[1:]], low=0, high=255)
        self.confidence = plot.image(
            "confidence", "x", "y", "dw", "dh", source=self.overlay, visible=False, color_mapper=shades,
            name="confidence-picture",
        )  # fmt: skip
        percent = LinearColorMapper(palette=Viridis256, low=0, high=100)
        self.bar = models.ColorBar(color_mapper=percent, title="confidence (%)", visible=False, width=12)
        self.bar.name = "colour-bar"
        plot.add_layout(self.bar, "right")
        self.confidence.js_link("visible", self.bar, "visible")
        self.labels.js_link("visible", self.hatch, "visible")
        plot.image(source=self.painted, color_mapper=self.marks, name="painted")
        self.expert.image(source=self.image, color_mapper=self.amplitudes)
        truth = {"source": self.truth, "color_mapper": self.truth_codes, "global_alpha": OPACITY}
        self.expert_image, self.over = self.expert.image(**truth), plot.image(visible=False, name="truth", **truth)
        for one in (self.expert_image, self.over):
            self.labels.glyph.js_link("global_alpha", one.glyph, "global_alpha")

    def _make_boxes(self) -> None:
        self.exemplars, self.retrieved, self.marked = source(BOX), source(BOX), source(BOX)
        rect = {"x": "x", "y": "y", "width": "width", "height": "height", "fill_alpha": 0, "line_color": "colour"}
        dotted = {"line_width": 1.2, "line_dash": "dotted"}
        self.outlines = self.figure.rect(source=self.retrieved, visible=False, **dotted, **rect)
        self.figure.rect(source=self.exemplars, line_width=3, name="exemplar-boxes", **rect)
        self.figure.rect(source=self.marked, line_width=3, line_dash="dashed", name="marked", **rect)
        self.figure.text(
            x="left", y="top", text="name", source=self.exemplars, text_color="ink", text_font_size="12px",
            background_fill_color="colour", padding=3, text_baseline="top", text_font_style="bold",
            name="exemplar-names",
        )  # fmt: skip

    def _make_swipe(self) -> None:
        """Add the swipe line: labels to its left, and the expert labels or no labels to its right."""
        self.cut = models.Span(
            dimension="height", location=0, editable=True, visible=False, line_color="#ffe600", line_width=3,
            hover_line_color="#ff7a00", name="cut",
        )  # fmt: skip
        self.figure.add_layout(self.cut)
        self.sides = []
        for text, align, offset in (("◂ labels", "right", -6), ("expert ▸", "left", 6)):
            side = self.words(0, 4, text, "white", text_align=align, x_offset=offset, padding=2)
            side.update(x_units="data", text_color="black", background_fill_alpha=0.8)
            self.cut.js_link("location", side, "x")
            self.sides.append(side)

    def compare(self, way: str, *, other: str) -> None:
        """Choose how labels are compared with expert labels.

        Parameters
        ----------
        way : {"Mine", "Side by side", "Swipe"}
            Show the labels alone, the expert labels next to the labels, or both on the two sides of a swipe line.
        other : str
            Text to the right of the swipe line: ``expert``, or ``section`` if there are no expert labels.
        """
        self.expert.visible = way == SIDE_BY_SIDE
        for one in (self.cut, self.over, *self.sides):
            one.visible = way == SWIPE
        self.sides[1].text = f"{other} ▸"
        self._centre_cut()

    def _centre_cut(self) -> None:
        x = self.figure.x_range
        if not x.start < self.cut.location < x.end:
            self.cut.location = self.sides[0].x = self.sides[1].x = (x.start + x.end) / 2

    def _make_tools(self) -> None:
        self.preview, self.cursor = source(NOTHING), source(BOX[:4])
        self.ink = LinearColorMapper(palette=["#00000000", BRUSH], low=0, high=1)
        self.figure.image(source=self.preview, color_mapper=self.ink, global_alpha=0.75, name="preview")
        shape = {"x": "x", "y": "y", "width": "width", "height": "height", "source": self.cursor, "fill_alpha": 0}
        self.corners = source(("x", "y", "size"))  # of an unfinished line or outline
        self.figure.scatter(
            "x", "y", size="size", source=self.corners, marker="square", fill_color="white", line_color="black",
            name="corners",
        )  # fmt: skip
        for name, colour, width in (("shadow", "black", 3), ("cursor", "white", 1.2)):  # visible on any background
            self.figure.ellipse(line_color=colour, line_width=width, name=name, **shape)
        self.pan, _ = add_tools(self.figure, self.expert)
        self.pan.name = "pan"
        self.lasso = models.LassoSelectTool(renderers=[], name="lasso")  # the server finds the sticks inside
        self.figure.add_tools(self.lasso)

    def set_frame(self, direction: int) -> None:
        """Set the ranges and the names of the axes for sections of a direction: 0 inline, 1 crossline, 2 time."""
        super().set_frame(direction)
        axes, sample = self.survey.sections.frame(direction), self.survey.volume.dims[2]
        names = [f"{name} ({self.unit})" if self.unit and name == sample else name for name in self.names(direction)]
        name_axes(self.figure, names, axes)
        name_axes(self.expert, names, axes)
        self.expert.axis.axis_label = None  # the other figure shows the names
        more = {"clip": self.survey.sections.clip, "map": self.survey.map, "classes": [], "section": [direction, 0]}
        self.figure.tags = [self.figure.tags[0] | more]
        self._centre_cut()

    def show_section(self, picture: Picture, direction: int, position: int) -> None:
        """Show the amplitudes of a section, and store its direction and position for new strokes."""
        here = {"section": [direction, position], "label": self.survey.axes[direction].labels[position].item()}
        self.figure.tags = [self.figure.tags[0] | here]  # strokes belong to this section
        self.show_amplitudes(picture, direction, position)

    def show_labels(
        self, found: tuple[Picture, Picture, list[str]] | None, before: Codes, colours: Mapping[str, str]
    ) -> None:
        """Show the labels of a section.

        Parameters
        ----------
        found : (Picture, Picture, list of str) or None
            Labels, confidence and class names from `ShownLabels.pictures`; None shows no labels.
        before : uint8 array
            Label codes before the last correction, with which the browser shows the changes.
        colours : dict
            Class -> colour.
        """
        if found is None:
            self.overlay.data = NOTHING | {"confidence": [], "before": []}
            return
        label, sure, names = found
        self.codes.update(**palette(names, colours))
        self.overlay.data = columns(label) | {"confidence": [sure.codes], "before": [before]}
        if self.figure.tags[0]["classes"] != names:
            self.figure.tags = [self.figure.tags[0] | {"classes": names}]

    def show_truth(self, found: tuple[Picture, list[str]] | None, colours: Mapping[str, str]) -> None:
        """Show the expert labels from `ShownLabels.truth_picture`; None shows no expert labels."""
        if found is not None:
            self.truth_codes.update(**palette(found[1], colours))
        self.truth.data = dict(NOTHING) if found is None else columns(found[0])

    def show_stale(self, parts: Sequence[Sequence[float]], text: str) -> None:
        """Hatch the given parts, whose labels are stale; if there are any, show the notice `text`.

        A part is (left, right, top, bottom) in coordinates.
        """
        self.hatch_parts(parts)
        self.notice.update(visible=bool(parts), text=text)

    def show_confirmed(self, parts: Sequence[Sequence[float]], text: str) -> None:
        """Draw a frame around each confirmed part (left, right, top, bottom); show the notice `text` if not empty."""
        self.confirmed.data = {name: [part[i] for part in parts] for i, name in enumerate(EDGES)}
        self.confirmed_notice.update(visible=bool(text), text=text, y=64 if self.notice.visible else 8)

    def show_painted(self, picture: Picture | None, codes: Mapping[str, int], colours: Mapping[str, str]) -> None:
        """Show the painted samples in the colours of their classes.

        `picture` holds class codes; None shows nothing. `codes` is a dict: class -> code.
        """
        names = {code: name for name, code in codes.items()}
        self.marks.update(**palette([names.get(i + 1, "") for i in range(max(names, default=0))], colours))
        self.painted.data = dict(NOTHING) if picture is None else columns(picture)

    def boxes(self, direction: int, places: Iterable[tuple[Place, str, str]]) -> Columns:
        """Return the boxes around patches on a section of a direction, as columns of a Bokeh data source.

        `places` yields (place, colour, name): the centre of a patch, and the colour and the name of its box.
        """
        (before, size), axes = self.survey.reach(), self.survey.axes
        rows = []
        for place, colour, name in places:
            spans = [(axes[i].coordinate(place[i]), size[i], before[i], axes[i].step) for i in FRAMES[direction]]
            x, y = (at + (length / 2 - 0.5 - first) * step for at, length, first, step in spans)
            width, height = (length * abs(step) for _, length, _, step in spans)
            rows.append((x, y, width, height, x - width / 2, y - height / 2, colour, name, ink(colour)))
        return {name: [row[i] for row in rows] for i, name in enumerate(BOX)}


def source(names: Iterable[str]) -> Any:
    """Return a Bokeh data source with empty columns of the given names."""
    return ColumnDataSource(data={name: [] for name in names})


def empty_figure(x_range: Any, y_range: Any, **options: Any) -> Any:
    """Return an empty Bokeh figure that fills the available space."""
    one = figure(
        x_range=x_range, y_range=y_range, tools="", sizing_mode="stretch_both", min_height=300, toolbar_location=None,
        active_scroll=None, output_backend="canvas", **options,
    )  # fmt: skip
    one.grid.visible = False
    one.axis.major_label_policy = models.NoOverlap(min_distance=5)
    return one


def add_tools(plot: Any, *others: Any) -> tuple[Any, Any]:
    """Add shared pan and zoom tools to all figures and a reset tool to the first; return the pan and zoom tools."""
    pan, wheel = models.PanTool(), models.WheelZoomTool(speed=ZOOM, zoom_on_axis=False)
    for one in (plot, *others):
        one.add_tools(pan, wheel, *([models.ResetTool()] if one is plot else []))
        one.toolbar.active_scroll, one.toolbar.active_drag = wheel, pan
    return pan, wheel


def name_axes(plot: Any, names: Sequence[str], axes: Sequence[Axis]) -> None:
    """Set the names of the horizontal and the vertical axis of a figure, and the numbers at their ticks."""
    for drawn, name, axis in zip((plot.xaxis[0], plot.yaxis[0]), names, axes, strict=True):
        if axis.even:
            drawn.ticker = models.BasicTicker(
                min_interval=abs(axis.step) if name in DIRECTIONS else 0
            )  # ticks on lines only
            drawn.formatter = models.BasicTickFormatter(use_scientific=False)
        else:
            numbers = {"labels": axis.labels.tolist(), "start": axis.start}
            drawn.ticker = models.BasicTicker(min_interval=1, num_minor_ticks=0)
            drawn.formatter = models.CustomJSTickFormatter(args=numbers, code="return `${labels[tick - start] ?? ''}`")
        drawn.axis_label = name


def show_whole(plot: Any, across: Axis, down: Axis) -> list[float]:
    """Set the axis ranges so that a whole section is shown; return its left, right, bottom and top coordinate."""
    plot.x_range.update(start=across.low, end=across.high, reset_start=across.low, reset_end=across.high)
    plot.y_range.update(start=down.high, end=down.low, reset_start=down.high, reset_end=down.low)
    return [across.low, across.high, down.high, down.low]


def bin_ratio(survey: Survey, frame: Sequence[Axis]) -> float:
    """Return the true height of a pixel of a time slice divided by its true width.

    The height is the distance between neighbouring inlines, and the width is the distance between neighbouring
    crosslines. If the bin size is unknown, the ratio is 1. If the lines are unevenly spaced, the slice has no scale and
    the ratio is 0.
    """
    inline, crossline = survey.volume.attrs.get("bin_size") or (1.0, 1.0)
    return float(inline / crossline) if all(axis.even for axis in frame) else 0.0


def ink(colour: str) -> str:
    """Return the text colour, black or white, that has the higher contrast to a background colour.

    Examples
    --------
    >>> ink("#33ffff"), ink("#990066")
    ('black', 'white')
    """
    red, green, blue = bytes.fromhex(colour[1:7])
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def axis_tag(name: str, axis: Axis) -> dict[str, Any]:
    """Return a dict that describes an axis to scripts in the browser; ``labels`` lists unevenly spaced values."""
    labels = [] if axis.even else axis.labels.tolist()
    return {"name": name, "start": axis.start, "step": axis.step, "count": len(axis), "labels": labels}


def columns(picture: Picture) -> Columns:
    """Return the data columns with which a Bokeh image draws a picture."""
    width, height = picture.right - picture.left, picture.bottom - picture.top
    return {"image": [picture.codes], "x": [picture.left], "y": [picture.top], "dw": [width], "dh": [height]}


def palette(names: Sequence[str], colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties of a Bokeh colour mapper of label codes.

    Code 0 (not labelled) is transparent, codes 1, 2, ... have the colours of the classes, and code 255 (uncertain) is
    grey.
    """
    shades = ["#00000000", *(colours.get(name, UNSURE) for name in names)]
    return {"palette": shades, "low": -0.5, "high": len(names) + 0.5, "high_color": UNSURE}
