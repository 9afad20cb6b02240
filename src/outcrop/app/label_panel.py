"""Step 3 of the page: labels, their confidence, the brush, and places to check next."""

from collections.abc import Iterator
from typing import Any

import panel as pn
from bokeh.models import Div, RadioButtonGroup, Select, Slider

import outcrop as oc
from outcrop.app.components import (
    WIDE,
    Cards,
    Message,
    card,
    escape,
    heading,
    hint,
    note,
    script,
    scrolled,
    thumbnail,
    warn,
    warnings,
)
from outcrop.app.places import Unsure
from outcrop.app.plot import ALONE, SIDE_BY_SIDE, SWIPE
from outcrop.app.viewer import BRUSH, PAINTING, Panel, Viewer
from outcrop.mapping.registry import POINTS


class LabelPanel(Panel):
    """The panel of step 3, with the controls of labelling and of corrections.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self._places: list[Unsure] = []  # places to check next
        self.scores, self.changed = note("scores"), note("changed")
        self.warnings = warnings("expert-warnings")
        self.next_cards = Cards(self._on_next, keys={"Enter": "go"}, **WIDE)
        mapping = Select(title="Method", options=[POINTS, *oc.MAPPERS], width=130, name="mapping")
        mapping.value = self.job.plan.label.mapping
        self.mapping = self.react(mapping, self.session.set_mapping)
        self.actions = [
            self.button("Label this line", self._on_label, "label", button_type="primary"),
            self.button("Label the survey", self.labelling.label, "label-all"),
        ]
        self._make_overlay()
        self._make_brush()

    def _make_overlay(self) -> None:
        """Make the controls of the labels over the section: all labels or changes, minimum confidence, comparison.

        The controls act in the browser; only the comparison with expert labels needs the server.
        """
        plot = self.viewer.plot
        self.what = self.view.follow(RadioButtonGroup(labels=["all labels", "changes"], active=0, name="overlay"))
        self.limit = Slider(
            start=0, end=100, step=1, value=0, title="Minimum confidence (%)", name="confidence", width=190
        )
        # releasing the slider logs a decision, because exports and the command line use the minimum confidence too
        self.limit.on_change(
            "value_throttled", lambda _attr, _old, new: self.attempt(self.session.set_limit, new / 100)
        )
        self.share = Div(text="", name="share")
        parts: dict[str, Any] = {"cut": plot.cut, "what": self.what}
        hide = script("overlay", source=plot.overlay, truth=plot.truth, slider=self.limit, share=self.share, **parts)
        outline = script("strokes", source=plot.painted, sure=plot.confidence, **parts)
        for one, name, *scripts in (
            (self.limit, "value", hide), (plot.overlay, "data", hide, self.viewer.read), (plot.truth, "data", hide),
            (plot.painted, "data", outline), (plot.cut, "location", hide, outline),
            (plot.cut, "visible", hide, outline), (self.what, "active", hide, outline),
            (plot.confidence, "visible", outline),
        ):  # fmt: skip
            one.js_on_change(name, *scripts)
        self.on_ready = [hide, outline]
        ways = [ALONE, SWIPE] if self.labelling.truth is None else [ALONE, SIDE_BY_SIDE, SWIPE]
        self.compare = self.react(RadioButtonGroup(labels=ways, active=0, name="compare"), self._on_compare)

    def _make_brush(self) -> None:
        # the value of a class is the name with which it was added; it stays the same after a renaming
        self.says = self.react(Select(title="Paint as", width=120, name="brush-class"), self._on_says)

    def layout(self) -> Any:
        """Return the widgets of the panel, arranged in a column."""
        correct = hint(
            "Paint the correct class, or mark labels as right or as wrong (striped). The labels of the line change at "
            "once; the mapping learns from the stroke a moment later."
        )
        unlike = hint("Places in large uncertain areas, unlike the places that you checked before.")
        shown = [self.what, self.compare, self.limit, self.share, self.scores, self.warnings]
        brush = [pn.Row(self.says, self.viewer.radius), self.changed]
        return scrolled(
            pn.Row(self.mapping, pn.Column(*self.actions)), *shown,
            heading("Correct: brush, line or outline"), correct, *brush,
            heading("Look here next ( N )"), unlike, self.next_cards,
        )  # fmt: skip

    def _on_label(self) -> None:
        if self.viewer.line is None:
            raise ValueError(f"Only {self.survey.line_name}s can be labelled; show one, then label it.")
        self.labelling.label([self.viewer.line])

    def _on_compare(self, new: int) -> None:
        other = "section" if self.labelling.truth is None else "expert"
        self.viewer.plot.compare(self.compare.labels[new], other=other)
        self.viewer.show_labels()

    def _on_says(self, new: str) -> None:
        if new != self.viewer.says:
            self.viewer.says = new
            self._take_brush()

    def brush_with(self, what: str) -> None:
        """Set what the brush paints: a class, or "right", "wrong" or "erase"."""
        self.says.value = self.job.first_name(what)
        self._take_brush()

    def _take_brush(self) -> None:
        """Select the brush tool, unless a painting tool is already selected."""
        if self.viewer.tool_buttons.active not in PAINTING:
            self.viewer.take(BRUSH)

    def _on_next(self, message: Message) -> None:
        self.attempt(self._visit, self._places[int(message["key"])].place)

    def go_next(self) -> None:
        """Show the most informative of the suggested places that were not visited yet."""
        left = [one.place for one in self._places if one.place not in self.labelling.visited]
        if not left:
            raise ValueError("No further place to check is known; label more lines to find new places.")
        self._visit(left[0])

    def _visit(self, place: list[float]) -> None:
        self.viewer.jump(place)
        self.labelling.visit(place)
        self.show_next()

    def show_classes(self) -> None:
        """Update three controls after a decision: the choice of the brush, the mapping, and the minimum confidence."""
        keys = self.session.class_keys()
        self.says.tags = [{str(keys[name]): first for first, name in self.job.plan.names.items()}]  # see keys.js
        self.says.options = self.viewer.brush_options()
        self.says.value = self.viewer.says
        self.mapping.value = self.job.plan.label.mapping
        if round(100 * self.labelling.limit) != round(self.limit.value):
            self.limit.value = round(100 * self.labelling.limit)

    def show(self) -> None:
        """Update the panel after a change of the labels or of the section in view."""
        line = self.viewer.line
        scores = self.labelling.scores(line) if line is not None else None
        self.scores.text = scores_text(scores) if scores else ""
        warn(self.warnings, self.session.advice.expert(scores and scores["IU"]))
        self.changed.text = "; ".join(self._news())

    def _news(self) -> Iterator[str]:
        """Yield texts about the labels: how many lines are labelled or stale, and what the last correction changed."""
        labelling, line, position = self.labelling, self.viewer.line, self.viewer.position
        corrected = line is not None and labelling.correcting is None and labelling.corrected(position)
        total, labelled, stale = labelling.counts()
        following = labelling.following()
        if labelled:
            lines = [f"{labelled} of {total} lines labelled"]
            lines += [f"{len(following)} of them will be labelled again after the stroke"] if following else []
            lines += [f"{stale - len(following)} of them stale"] if stale > len(following) else []
            yield ", ".join(lines)
        if labelling.correcting is not None:
            yield "learning from the stroke ..."
        stale_here = line is not None and labelling.is_stale(position)
        if stale_here and position not in following:
            yield "<b>labels of this line are stale: label the line again</b>"
            if labelling.waits(position):
                yield "<b>a stroke changes only the labels near it; the mapping learns from it when you label again</b>"
        if labelling.changed is not None and corrected:
            yield f"the last correction changed {100 * labelling.changed:.1f} % of the line"
        gone = [("", *one) for one in labelling.vanished]
        gone += [(f" on line {number}", name, before, after) for number, name, before, after in labelling.vanished_near]
        for where, name, before, after in gone if corrected else ():
            words = f"{escape(name)} nearly vanished{where}: {100 * before:.1f} % before, {100 * after:.1f} % now"
            yield f"<b style='color:#b01818'>{words}; undo removes the stroke</b>"
        for name, part, share in labelling.taken if corrected else ():
            words = f"{100 * part:.0f} % of {escape(name)} ({100 * share:.1f} % of the line)"
            yield f"<b style='color:#8a4b00'>{words} removed outside your strokes: <i>changes</i> shows where</b>"
        if self.job.strokes:
            yield f"strokes painted: {len(self.job.strokes)}"

    def show_next(self) -> None:
        """Show thumbnails of the places where a correction is most informative."""
        survey = self.survey
        self._places = list(self.labelling.least_sure)
        items = []
        for number, (place, confidence) in enumerate(self._places):
            where = f"{survey.line_name} {place[survey.along]:g}"
            where += ", seen" if place in self.labelling.visited else ""
            picture, title = thumbnail(survey.patch(place)), f"{100 * confidence:.0f} % sure"
            items.append(card(number, picture, title, "#b0a000", note=where, hint="Look here"))
        self.next_cards.items = items


def scores_text(scores: dict[str, Any]) -> str:
    """Return one line of HTML with the mean IoU, the accuracy and the IoU of each class from `scores`.

    The scores compare the labels of a line with the expert labels.
    """
    classes = ", ".join(f"{escape(name)} {value:.2f}" for name, value in scores["IU"].items())
    return f"against the expert labels: <b>mean IoU {scores['MIU']:.3f}</b>, accuracy {scores['PA']:.3f}; {classes}"
