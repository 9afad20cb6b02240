"""Step 2 of the page: the retrieved patches of a class, the most similar first, and how many of them are taken."""

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import ColumnDataSource, CustomJS, Div, RadioButtonGroup, Range1d, Span
from bokeh.plotting import figure

from outcrop.app.components import Cards, button, escape, guarded, hint, thumbnail

SHOWN = 24  # thumbnails at once


class RetrievedPanel:
    """Gallery and similarity curve.

    Parameters
    ----------
    viewer : Viewer
    find : callable
        Begins a search.
    """

    def __init__(self, viewer, find):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.first = 0  # thumbnail
        self._shown = (0, 0)  # patches of the class, and thumbnails in view
        self.class_buttons = RadioButtonGroup(labels=[], name="gallery-class")
        self.class_buttons.on_change("active", self._on_class)
        self.gallery = Cards(
            self._on_card, actions=[["accept", "✓", "Accept (A)"], ["reject", "✕", "Reject (R)"]],
            keys={"a": "accept", "r": "reject", "Enter": "go"}, sizing_mode="stretch_width",
        )  # fmt: skip
        self.note = Div(text="", name="gallery-note", sizing_mode="stretch_width")
        again = button("Search again", find, name="again")
        self.actions = [again]
        self.turns = [
            button("◂ Nearer", lambda: self._turn(-SHOWN), name="nearer"),
            button("Farther ▸", lambda: self._turn(SHOWN), name="farther"),
            button("Least similar", lambda: self._turn(10**6), name="least"),
        ]
        self._make_curve()

    def _make_curve(self):
        curve = self.curve = figure(
            height=150, sizing_mode="stretch_width", tools="", toolbar_location=None, x_axis_label="rank",
            y_axis_label="similarity", name="curve", x_range=Range1d(0, 1), y_range=Range1d(0, 1),
        )  # fmt: skip
        self.ranks = ColumnDataSource(data={"rank": [], "similarity": []})
        curve.yaxis.minor_tick_line_color = curve.xaxis.minor_tick_line_color = None
        curve.line("rank", "similarity", source=self.ranks, line_width=2, color="#1769c4")
        self.cut = Span(dimension="width", line_color="#d04000", line_width=2, location=0)
        curve.add_layout(self.cut)
        follow = CustomJS(args={"cut": self.cut}, code="cut.location = cb_obj.y")
        for event in (events.Pan, events.PanStart):
            curve.js_on_event(event, follow)
        curve.on_event(events.PanEnd, lambda event: self._on_cut(event.y))
        curve.on_event(events.Tap, lambda event: self._on_cut(event.y))

    def layout(self):
        """Everything, arranged."""
        what = hint(
            "Drag the line in the curve: patches above it are used. Click a patch to see where it lies; "
            "A accepts, R rejects, arrow keys choose."
        )
        column = [self.class_buttons, what, self.curve, self.note, self.gallery, pn.Row(*self.turns, *self.actions)]
        return pn.Column(*column, scroll="y-auto", sizing_mode="stretch_both")

    def _on_class(self, _attr, _old, new):
        if new is not None and new < len(self.class_buttons.labels):
            self.viewer.outlined, self.first = self.class_buttons.labels[new], 0
            self.show()
            self.viewer.show_boxes()

    def _turn(self, by):
        self.first += by
        self._show_gallery()

    @guarded
    def _on_cut(self, similarity):
        if self.session.search.weak is not None:
            self.session.cut_at(self.viewer.outlined, float(similarity))

    @guarded
    def _on_card(self, message):
        search, name = self.session.search, self.viewer.outlined
        at = np.flatnonzero((search.weak.rows == int(message["key"])) & (search.weak.classes == name))
        if not len(at):
            return
        row = int(at[0])
        place = search.places()[row].tolist()
        if message["verb"] == "go":
            self.viewer.jump(place)
            return
        accept = message["verb"] == "accept"
        if accept and search.accepted()[row]:
            accept = None  # a second click takes it back
        self.session.judge(name, place, along=str(search.weak.positions["along"].iloc[row]), accept=accept)

    def show_classes(self):
        """Offer the classes."""
        names = list(self.session.job.palette)
        if self.viewer.outlined not in names:
            self.viewer.outlined = names[0] if names else ""
        self.class_buttons.labels = names
        self.class_buttons.active = names.index(self.viewer.outlined) if names else None

    def show(self):
        """Bring it up to the search."""
        self._show_gallery()
        self._show_curve()

    def _show_gallery(self):
        search, name = self.session.search, self.viewer.outlined
        found = np.flatnonzero(search.weak.classes == name) if search.weak is not None and name else np.empty(0, int)
        self.first = int(np.clip(self.first, 0, max(0, (len(found) - 1) // SHOWN * SHOWN)))
        here = found[self.first : self.first + SHOWN]
        self.gallery.items = self._cards(here) if len(here) else []
        self._shown = (len(found), len(here))
        self.show_note()

    def show_note(self):
        """Say how many patches there are, where they were looked for, and whether they are of the decisions of now."""
        search, name = self.session.search, self.viewer.outlined
        total, here = self._shown
        which = f"{self.first + 1} to {self.first + here} of {total}" if total else "none yet"
        words = [f"<b>{escape(name)}</b>: {which}" + (f", in the {search.scope}" if search.scope else "")]
        first = self.session.job.state.first_name(name)
        rejected = sum(one.name == first and not one.accept for one in self.session.job.state.verdicts)
        words += [f"{rejected} rejected"] if rejected else []
        if search.searching:
            words.append("searching ...")
        elif search.stale:
            words.append("<b>decisions changed since: search again</b>")
        elif search.survey_waits():
            words.append("the survey is indexed: search again to cover it")
        self.note.text = "; ".join(words) if name else "Add a class and place an exemplar first."

    def _cards(self, here):
        search = self.session.search
        weak, accepted, places = search.weak, search.accepted(), search.places()
        colour = self.session.job.palette.get(self.viewer.outlined, "#888888")
        ranks = weak.table["rank"].to_numpy()
        return [
            {
                "key": str(int(weak.rows[i])),
                "src": thumbnail(picture),
                "title": f"{weak.similarity[i]:.3f}",
                "note": f"{ranks[i]}.  row {weak.rows[i]}",
                "colour": colour,
                "state": "accepted" if accepted[i] else "",
                "hint": "Show " + ", ".join(f"{value:g}" for value in places[i]),
            }
            for i, picture in zip(here, search.thumbnails(here), strict=True)
        ]

    def _show_curve(self):
        search, name = self.session.search, self.viewer.outlined
        curve = search.weak.curves.get(name) if search.weak is not None else None
        if curve is None or not len(curve):
            self.ranks.data = {"rank": [], "similarity": []}
            return
        ranks = np.unique(np.linspace(0, len(curve) - 1, 400).astype(int))
        self.ranks.data = {"rank": ranks + 1, "similarity": curve[ranks]}
        self.curve.x_range.update(start=0, end=len(curve) + 1)
        span = float(curve[0] - curve[-1]) or 0.1
        self.curve.y_range.update(start=float(curve[-1]) - 0.05 * span, end=float(curve[0]) + 0.05 * span)
        taken = int(np.clip((search.weak.classes == name).sum(), 1, len(curve)))
        self.cut.location = float(curve[taken - 1])
