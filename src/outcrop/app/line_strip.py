"""A strip that shows the state of every line and the line to correct next, with buttons that confirm a line."""

from typing import Any

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import CustomJSHover, HoverTool, LinearColorMapper, Range1d
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from outcrop.app.components import SMALL, WIDE, escape, note
from outcrop.app.lines import STATES, UNKNOWN
from outcrop.app.plot import CONFIRMED_COLOUR, source
from outcrop.app.viewer import Panel, Viewer
from outcrop.words import counted

COLOURS = ("#e3e8ee", "#8a96a3", "#d97700", CONFIRMED_COLOUR)  # of `STATES`
HEIGHT = 20  # pixels


class LineStrip(Panel):
    """The strip of lines, coloured by state and mean confidence, and its buttons.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self.lines = self.session.lines
        self.right = self.button("✓ Line is right", self.confirm, "confirm", html_attributes={"title": "Shift+C"})
        self.wrong = self.button(
            "Clear confirmation", self.unconfirm, "unconfirm", visible=False, html_attributes={"title": "Shift+W"}
        )
        self.next = self.button("Correct next", self.go_next, "next-line", html_attributes={"title": "Shift+N"})
        self.words = note("lines-in-words", **SMALL)
        self._make_strip()

    def _make_strip(self) -> None:
        count = len(self.survey.lines)
        self.figure = figure(
            x_range=Range1d(-0.5, count - 0.5), y_range=Range1d(0, 2), tools="", toolbar_location=None, height=HEIGHT,
            min_width=80, sizing_mode="stretch_width", output_backend="canvas", name="line-strip", min_border=0,
            outline_line_color="#aab6c4", margin=(0, 20, 0, 5),
        )  # fmt: skip
        self.figure.axis.visible = self.figure.grid.visible = False
        self.shown, self.here = source(("image", "sure")), source(("x", "y", "marker", "colour"))
        wide = {"x": -0.5, "dw": count, "dh": 1, "source": self.shown}
        states = LinearColorMapper(palette=list(COLOURS), low=-0.5, high=len(COLOURS) - 0.5)
        sure = LinearColorMapper(palette=Viridis256, low=0, high=100, high_color="#00000000")
        rows = [
            self.figure.image("image", y=1, color_mapper=states, name="line-states", **wide),
            self.figure.image("sure", y=0, color_mapper=sure, name="line-sure", **wide),
        ]
        self.figure.scatter(
            "x", "y", marker="marker", size=10, fill_color="colour", line_color="white", source=self.here,
            name="line-marks",
        )  # fmt: skip
        numbers = CustomJSHover(
            args={"numbers": self.survey.lines.tolist()},
            code="return numbers[Math.max(0, Math.min(numbers.length - 1, Math.round(value)))]",
        )
        state = CustomJSHover(args={"states": list(STATES)}, code="return states[value]")
        percent = CustomJSHover(code=f"return value === {UNKNOWN} ? '' : `, ${{value}} % sure`")
        self.figure.add_tools(
            HoverTool(
                renderers=rows, attachment="below", point_policy="follow_mouse",
                tooltips=f"{self.survey.line_name} $x{{custom}}: @image{{custom}}@sure{{custom}}",
                formatters={"$x": numbers, "@image": state, "@sure": percent},
            )
        )  # fmt: skip
        self.figure.on_event(events.Tap, self._on_tap)

    def layout(self) -> Any:
        """Return the buttons and a text that describes the strip; the strip itself is not included."""
        return pn.Column(pn.Row(self.right, self.wrong, self.next), self.words, **WIDE)

    # ---- showing ----------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Update the strip after a change of the labels or of the section in view."""
        viewer, states = self.viewer, self.lines.states()
        self.lines.look()
        rows = {"image": [states[None]], "sure": [self.lines.percent_sure()[None]]}
        if not all(np.array_equal(rows[name], self.shown.data[name]) for name in rows):
            self.shown.data = rows
        self._show_marks()
        along, across = viewer.direction, viewer.direction == 2
        number = None if across else self.survey.axes[along].labels[viewer.position].item()
        self.wrong.visible = number in self.labelling.confirmed_numbers(along)
        self.right.visible = number not in self.labelling.confirmed_numbers(along, whole=True)
        self.right.disabled = across
        self.figure.html_attributes = {"role": "img", "aria-label": self.in_words()}
        key = (
            f"<span style='color:{colour}'>■</span>&nbsp;{name}" for colour, name in zip(COLOURS, STATES, strict=True)
        )
        self.words.text = f"{escape(self.in_words())}.<br>Strip: {', '.join(key)}; below it, mean confidence."

    def _show_marks(self) -> None:
        """Mark the line in view with a triangle, and the line to correct next with a star."""
        viewer, advice = self.viewer, self.lines.next
        marks = [(viewer.position, "inverted_triangle", "#111820")] if viewer.line is not None else []
        self.next.disabled, self.next.label = advice is None, "Correct next"
        if advice is not None:
            marks.append((self.survey.line_at(advice["line"]), "star", "#d00074"))
            self.next.label = f"Correct next: {advice['line']:g}"
        x, markers, colours = ([one[i] for one in marks] for i in range(3))
        data = {"x": x, "y": [1.4] * len(x), "marker": markers, "colour": colours}
        if data != dict(self.here.data):
            self.here.data = data

    def in_words(self) -> str:
        """Return a text with the number of lines in each state, and the line to correct next if it is known."""
        counts = np.bincount(self.lines.states(), minlength=len(STATES))
        parts = [f"{n} {state}" for n, state in zip(counts.tolist(), STATES, strict=True) if n]
        text = f"{counted(len(self.survey.lines), f'{self.survey.line_name}s')}: {', '.join(parts)}"
        advice = self.lines.next
        if advice is None:
            return text
        across = 1 - self.survey.along
        name, place = self.survey.volume.dims[across], advice["place"]
        where = f"{name} {place[across]:g}, {self.survey.volume.dims[2]} {place[2]:g}"
        return f"{text}. Correct next: {self.survey.line_name} {advice['line']:g}, at {where}"

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_tap(self, event: Any) -> None:
        last = len(self.survey.lines) - 1
        self.attempt(self.viewer.go, self.survey.along, int(np.clip(round(event.x), 0, last)))

    def go_next(self) -> None:
        """Show the line to correct next, and mark its least certain place."""
        if self.lines.next is None:
            raise ValueError("No line to correct is known yet; label some lines first.")
        self.viewer.jump(self.lines.next["place"])

    def confirm(self) -> None:
        """Confirm the labels of the section in view."""
        self.session.confirm(self.viewer.direction, self.viewer.position)

    def unconfirm(self) -> None:
        """Clear the confirmation of the section in view."""
        self.session.unconfirm(self.viewer.direction, self.viewer.position)
