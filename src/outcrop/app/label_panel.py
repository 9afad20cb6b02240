"""Step 3 of the page: labels, their confidence, the brush, and where to look next."""

import panel as pn
from bokeh.models import CheckboxGroup, CustomJS, Div, RadioButtonGroup, Select, Slider

import outcrop as oc
from outcrop.app.components import Cards, button, escape, guarded, heading, hint, script, thumbnail
from outcrop.app.plot import ALONE, OPACITY, SIDE_BY_SIDE, SWIPE
from outcrop.app.viewer import BRUSH, PAINTING
from outcrop.patches.grid import DIRECTIONS


class LabelPanel:
    """Everything about labels.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.labelling = self.session.labelling
        self._places: list = []  # to look at next
        self._quiet = False  # the widget follows the brush, not the other way round
        self._shown = 0  # what lay over the section before it was hidden
        wide = {"sizing_mode": "stretch_width"}
        self.scores = Div(text="", name="scores", **wide)
        self.changed = Div(text="", name="changed", **wide)
        self.next_cards = Cards(self._on_next, keys={"Enter": "go"}, **wide)
        self._make_work()
        self._make_overlay()
        self._make_brush()

    def _make_work(self):
        chosen = self.session.mapping
        self.mapping = Select(title="mapping", options=list(oc.MAPPERS), value=chosen, width=130, name="mapping")
        self.mapping.on_change("value", self._on_mapping)
        self.actions = [
            button("Label this line", self._on_label, name="label", button_type="primary"),
            button("Label the survey", self._on_label_all, name="label-all"),
        ]

    def _make_overlay(self):
        """What changes in the browser alone, but for the expert's labels."""
        plot = self.viewer.plot
        self.what = RadioButtonGroup(labels=["labels", "confidence", "changes", "nothing"], active=0, name="overlay")
        self.opacity = Slider(start=0, end=1, step=0.05, value=OPACITY, title="opacity", name="opacity", width=150)
        self.limit = Slider(
            start=0, end=100, step=1, value=0, title="least confidence (%)", name="confidence", width=190
        )
        self.limit.on_change("value_throttled", self._on_limit)
        self.share = Div(text="", name="share")
        hide = script(
            "overlay", source=plot.overlay, truth=plot.truth, cut=plot.cut, slider=self.limit, share=self.share,
            what=self.what,
        )  # fmt: skip
        for one, name in (
            (self.limit, "value"), (plot.overlay, "data"), (plot.truth, "data"), (plot.cut, "location"),
            (plot.cut, "visible"), (self.what, "active"),
        ):  # fmt: skip
            one.js_on_change(name, hide)
        plot.overlay.js_on_change("data", self.viewer.read)  # after what it reads
        outline = script("strokes", source=plot.painted, cut=plot.cut, what=self.what)
        for one, name in ((plot.painted, "data"), (plot.cut, "location"), (plot.cut, "visible"), (self.what, "active")):
            one.js_on_change(name, outline)
        parts = {"labels": plot.labels, "sure": plot.confidence, "bar": plot.bar, "hatch": plot.hatch}
        labels = CustomJS(
            args={"what": self.what, "opacity": self.opacity, "expert": [plot.over, plot.expert_image]} | parts,
            code="""const [codes, confidence, changes, nothing] = [0, 1, 2, 3].map((i) => what.active === i);
                labels.visible = codes || changes; sure.visible = bar.visible = confidence;
                hatch.visible = codes || confidence;
                labels.glyph.global_alpha = changes ? Math.max(0.7, opacity.value) : opacity.value;
                for (const one of expert) one.glyph.global_alpha = opacity.value""",
        )
        self.what.js_on_change("active", labels)
        self.opacity.js_on_change("value", labels)
        self.on_ready = [labels, hide, outline]
        ways = [ALONE, SWIPE] if self.labelling.truth is None else [ALONE, SIDE_BY_SIDE, SWIPE]
        self.compare = RadioButtonGroup(labels=ways, active=0, name="compare")
        self.compare.on_change("active", self._on_compare)

    def _make_brush(self):
        self.says = Select(title="brush says", width=120, name="brush-class")  # of classes their first names
        self.says.on_change("value", self._on_says)
        self.strokes = CheckboxGroup(labels=["show strokes ( S )"], active=[0], name="strokes")
        self.strokes.js_on_change("active", CustomJS(
            args={"painted": self.viewer.plot.strokes_shown}, code="painted.visible = cb_obj.active.length > 0"
        ))  # fmt: skip
        for one in (self.opacity, self.what, self.strokes):
            self.session.view.follow(one)
        self.viewer.plot.strokes_shown.visible = bool(self.strokes.active)

    def layout(self):
        """Everything, arranged."""
        return pn.Column(
            pn.Row(self.mapping, pn.Column(*self.actions)),
            self.what,
            self.compare,
            pn.Row(self.opacity, self.limit),
            self.share,
            self.scores,
            heading("Correct: brush, line or outline"),
            hint(
                "Paint the class that it is, or over labels that are right or wrong (striped). The line follows at "
                "once; the mapping learns from it a moment later."
            ),
            pn.Row(self.says, self.viewer.radius),
            self.strokes,
            self.changed,
            heading("Look here next ( N )"),
            hint("Uncertain, large, and unlike what you looked at before."),
            self.next_cards,
            scroll="y-auto",
            sizing_mode="stretch_both",
        )

    @guarded
    def _on_mapping(self, _attr, _old, new):
        self.session.set_mapping(new)

    @guarded
    def _on_label(self):
        if self.viewer.line is None:
            raise ValueError(f"Labels are made on {DIRECTIONS[self.session.survey.along]}s; show one, then label it.")
        self.labelling.label([self.viewer.line])

    @guarded
    def _on_label_all(self):
        self.labelling.label()

    @guarded
    def _on_limit(self, _attr, _old, new):
        """A limit that is let go of is a decision: exports and the command line have it too."""
        self.session.set_limit(new / 100)

    def _on_compare(self, _attr, _old, new):
        other = "section" if self.labelling.truth is None else "expert"
        self.viewer.plot.compare(self.compare.labels[new], other=other)
        self.viewer.show_labels()

    def _on_says(self, _attr, _old, new):
        if not self._quiet:
            self.viewer.say_with_brush(new)
            self._take_brush()

    def brush_with(self, what):
        """Paint a class from now on, what is right or wrong, or what erases."""
        self.says.value = self.viewer.first_name(what)
        self._take_brush()

    def _take_brush(self):
        """Take the brush, unless something that paints is in hand."""
        if self.viewer.tool_buttons.active not in PAINTING:
            self.viewer.take(BRUSH)

    def toggle(self):
        """Hide what lies over the section, or show it again."""
        nothing = len(self.what.labels) - 1
        self._shown, self.what.active = self.what.active, self._shown if self.what.active == nothing else nothing

    @guarded
    def _on_next(self, message):
        self._visit(int(message["key"]))

    def go_next(self):
        """Go to the place where a correction would teach most, of those that were not looked at yet."""
        left = [number for number, one in enumerate(self._places) if one["place"] not in self.labelling.visited]
        if not left:
            raise ValueError("There is no other place to look at; label more lines, and new ones are found.")
        self._visit(left[0])

    def _visit(self, number):
        place = self._places[number]["place"]
        self.viewer.jump(place)
        self.labelling.visit(place)
        self.show_next()

    def show_classes(self):
        """Offer the classes to the brush, and show the mapping that is chosen."""
        self.says.options = self.viewer.brush_options()
        if self.says.value != self.viewer.says:
            self._quiet = True
            self.says.value = self.viewer.says
            self._quiet = False
        self.mapping.value = self.session.mapping
        if round(100 * self.labelling.limit) != round(self.limit.value):
            self.limit.value = round(100 * self.labelling.limit)

    def show(self):
        """Bring it up to the labels and the section in view."""
        line = self.viewer.line
        scores = self.labelling.scores(line) if line is not None else None
        self.scores.text = scores_text(scores) if scores else ""
        self.changed.text = "; ".join(self._news())

    def _news(self):
        """What there is to say about the labels."""
        labelling, line = self.labelling, self.viewer.line
        corrected = line is not None and labelling.correcting is None and labelling.corrected(self.viewer.position)
        total, labelled, stale = labelling.counts()
        following = labelling.following()
        if labelled:
            lines = [f"{labelled} of {total} lines labelled"]
            lines += [f"{len(following)} of them follow the stroke"] if following else []
            lines += [f"{stale - len(following)} of them stale"] if stale > len(following) else []
            yield ", ".join(lines)
        if labelling.correcting is not None:
            yield "learning from the stroke ..."
        stale_here = line is not None and labelling.is_stale(self.viewer.position)
        if stale_here and not labelling.draft and self.viewer.position not in following:
            yield "<b>labels of this line are stale: label again</b>"
            if labelling.waits(self.viewer.position):
                yield "<b>strokes change it only near themselves; the mapping learns from them when you label again</b>"
        if labelling.draft:
            yield "a quick draft is shown while the full fit runs"
        elif labelling.changed is not None and corrected:
            yield f"the last correction changed {100 * labelling.changed:.1f} % of the line"
        gone = [("", *one) for one in labelling.vanished]
        gone += [(f" on line {line}", *one) for line, *one in labelling.vanished_near]
        for where, name, before, after in gone if corrected else ():
            words = f"{escape(name)} nearly vanished{where}: {100 * before:.1f} % before, {100 * after:.1f} % now"
            yield f"<b style='color:#b01818'>{words}; undo takes the stroke back</b>"
        for name, part, share in labelling.taken if corrected else ():
            words = f"{100 * part:.0f} % of {escape(name)} ({100 * share:.1f} % of the line)"
            yield f"<b style='color:#8a4b00'>it took {words} where nothing is painted: <i>changes</i> shows where</b>"
        strokes = len(self.session.job.state.strokes)
        if strokes:
            yield f"strokes painted: {strokes}"

    def show_next(self):
        """Offer the places where a correction would teach most."""
        survey = self.session.survey
        self._places = list(self.labelling.least_sure)
        self.next_cards.items = [
            {
                "key": str(number),
                "src": thumbnail(survey.patch(one["place"])),
                "title": f"{100 * one['confidence']:.0f} % sure",
                "note": f"{DIRECTIONS[survey.along]} {one['place'][survey.along]:g}"
                + (", seen" if one["place"] in self.labelling.visited else ""),
                "colour": "#b0a000",
                "hint": "Look here",
            }
            for number, one in enumerate(self._places)
        ]


def scores_text(scores):
    """Scores against the expert in a line."""
    classes = ", ".join(f"{escape(name)} {value:.2f}" for name, value in scores["IU"].items())
    return f"against the expert: <b>mean IU {scores['MIU']:.3f}</b>, pixels {scores['PA']:.3f}; {classes}"
