"""Step 2 of the page: the retrieved patches of a class in the order of their ranks, and how many of them are taken."""

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import ColumnDataSource, CustomJS, Div, RadioButtonGroup, Range1d, Span, Spinner, Toggle
from bokeh.plotting import figure

from outcrop.app.components import Cards, button, escape, guarded, hint, thumbnail

SHOWN = 24  # thumbnails at once


class RetrievedPanel:
    """Gallery and similarity curve.

    The gallery keeps its order while patches are accepted and rejected: they are marked where they stand, and sorted
    anew when the interpreter asks for it.

    Parameters
    ----------
    viewer : Viewer
    find : callable
        Begins a search.
    """

    def __init__(self, viewer, find):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.first = 0  # thumbnail
        self._patches: list = []  # that are listed, in the order of their ranks
        self._of: tuple = ()  # class, list and search that they are of
        self._key: str | None = None  # of the search whose order they have
        self._follows = False  # whether they take the order of the next search, until the next yes or no
        self.class_buttons = RadioButtonGroup(labels=[], name="gallery-class")
        self.class_buttons.on_change("active", self._on_class)
        self.gallery = Cards(
            self._on_card, actions=[["accept", "✓", "Accept (A)"], ["reject", "✕", "Reject (R)"]],
            keys={"a": "accept", "r": "reject", "Enter": "go"}, sizing_mode="stretch_width",
        )  # fmt: skip
        self.note = Div(text="", name="gallery-note", sizing_mode="stretch_width")
        self.rejected = Toggle(label="rejected", name="rejected")
        self.rejected.on_change("active", lambda attr, old, new: self._sort())
        self.telling = Toggle(label="most telling first", name="telling")
        self.telling.on_change("active", lambda attr, old, new: self._sort())
        self.sort = button("Sort anew", self._sort, name="sort")
        self.actions = [button("Search again", find, name="again")]
        self.turns = [
            button("◂ Back", lambda: self._turn(-SHOWN), name="nearer"),
            button("More ▸", lambda: self._turn(SHOWN), name="farther"),
            button("Last", lambda: self._turn(10**6), name="least"),
        ]
        self._make_count()
        self._make_curve()

    def _make_count(self):
        self.count = Spinner(low=1, step=1, value=1, width=80, title="patches taken", name="count")
        self.count.on_change("value", self._on_count)
        self.suggested = button("", self._on_suggested, name="suggested")
        self._quiet = False  # the number follows the search, not the other way round

    def _make_curve(self):
        curve = self.curve = figure(
            height=140, sizing_mode="stretch_width", tools="", toolbar_location=None, x_axis_label="rank",
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
            "Drag the line in the curve, or give a number: so many patches are used. Click a patch to see where it "
            "lies; A accepts, R rejects, the same again takes it back, arrow keys choose. The percentage is an "
            "estimate of how likely a patch is of the class. Most telling first: a yes or no to these changes most."
        )
        taken = pn.Row(self.count, pn.Column(self.suggested, margin=(14, 0)))
        listed = pn.FlexBox(self.telling, self.rejected, self.sort, *self.actions)
        column = [self.class_buttons, what, self.curve, taken, self.note, listed, self.gallery, pn.Row(*self.turns)]
        return pn.Column(*column, scroll="y-auto", sizing_mode="stretch_both")

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_class(self, _attr, _old, new):
        if new is not None and new < len(self.class_buttons.labels):
            self.viewer.outlined, self.first = self.class_buttons.labels[new], 0
            self.show()
            self.viewer.show_boxes()

    def _turn(self, by):
        self.first += by
        self._show_gallery()

    def forget_order(self):
        """List the patches anew when the next search is done."""
        self.first, self._of = 0, ()

    def _sort(self):
        """List the patches in the order of the present search, and of the one that may still be under way."""
        self.forget_order()
        self._follows = True
        self._show_gallery()

    @guarded
    def _on_cut(self, similarity):
        if self.session.search.weak is not None and self.cut.visible:
            self.session.cut_at(self.viewer.outlined, float(similarity))

    @guarded
    def _on_count(self, _attr, _old, new):
        if not self._quiet and new:
            self.session.set_count(self.viewer.outlined, int(new))

    @guarded
    def _on_suggested(self):
        self.session.set_count(self.viewer.outlined, None)

    @guarded
    def _on_card(self, message):
        patch = self._patches[int(message["key"])]
        if message["verb"] == "go":
            self.viewer.jump(patch["place"])
            return
        accept = message["verb"] == "accept"
        verdict = None if self._verdicts().get(key_of(patch)) is accept else accept  # a second click takes it back
        self._follows = False
        self.session.judge(self.viewer.outlined, patch["place"], along=patch["along"], accept=verdict)

    # ---- showing ----------------------------------------------------------------------------------------------------

    def show_classes(self):
        """Offer the classes."""
        names = list(self.session.job.palette)
        if self.viewer.outlined not in names:
            self.viewer.outlined = names[0] if names else ""
        self.class_buttons.labels = names
        self.class_buttons.active = names.index(self.viewer.outlined) if names else None

    def show(self):
        """Bring it up to the search and the verdicts."""
        self.show_marks()
        self._show_curve()

    def show_marks(self):
        """Bring it up to the verdicts and counts alone."""
        self._show_gallery()
        self._show_count()

    def _verdicts(self):
        """Yes (True) and no (False) to patches of this class."""
        state = self.session.job.state
        first = state.first_name(self.viewer.outlined)
        return {(one.place, one.along): one.accept for one in state.verdicts if one.name == first}

    def _show_gallery(self):
        search, name = self.session.search, self.viewer.outlined
        of = (name, self.rejected.active, self.telling.active, search.basis)
        if of != self._of or (self._follows and search.key != self._key):
            self._of, self._key = of, search.key
            self._patches = self._listed()
        self.first = int(np.clip(self.first, 0, max(0, (len(self._patches) - 1) // SHOWN * SHOWN)))
        verdicts, colour = self._verdicts(), self.session.job.palette.get(name, "#888888")
        self.gallery.items = [
            self._card(i, verdicts, colour)
            for i in range(self.first, min(self.first + SHOWN, len(self._patches)))
        ]  # fmt: skip
        self.show_note()

    def _listed(self):
        """Patches to list: those that were rejected, or those that the search found."""
        search, name = self.session.search, self.viewer.outlined
        if self.rejected.active:
            found = [(place, along) for (place, along), accept in self._verdicts().items() if not accept]
            return [
                {"place": list(place), "along": along, "title": "rejected", "note": ", ".join(f"{p:g}" for p in place)}
                for place, along in found
            ]
        if search.weak is None or not name:
            return []
        weak, places, ranks = search.weak, search.places(), search.weak.table["rank"].to_numpy()
        return [
            {
                "place": places[i].tolist(),
                "along": str(weak.positions["along"].iloc[i]),
                "title": f"{weak.weights[i]:.0%}",
                "note": f"{ranks[i]}.  row {weak.rows[i]}",
                "similarity": float(weak.similarity[i]),
            }
            for i in self._order(weak, np.flatnonzero(weak.classes == name))
        ]

    def _order(self, weak, members):
        """Members of a class by rank, or the most telling first where that is asked for."""
        if not self.telling.active:
            return members
        return members[np.argsort(np.where(weak.judge[members] > 0, weak.judge[members], len(weak)), kind="stable")]

    def _card(self, i, verdicts, colour):
        patch = self._patches[i]
        if "picture" not in patch:
            patch["picture"] = thumbnail(self.session.search.thumbnail(patch["place"], patch["along"]))
        states = {True: "accepted", False: "rejected", None: ""}
        return {
            "key": str(i),
            "src": patch["picture"],
            "title": patch["title"],
            "note": patch["note"],
            "colour": colour,
            "state": states[verdicts.get(key_of(patch))],
            "hint": "Show " + ", ".join(f"{value:g}" for value in patch["place"]) + resembles(patch),
        }

    def show_note(self):
        """Say how many patches there are, where they were looked for, and whether they are of the decisions of now."""
        search, name, total = self.session.search, self.viewer.outlined, len(self._patches)
        which = f"{self.first + 1} to {min(total, self.first + SHOWN)} of {total}" if total else "none yet"
        words = [f"<b>{escape(name)}</b>: {which}" + (f", in the {search.scope}" if search.scope else "")]
        rejected = sum(not accept for accept in self._verdicts().values())
        words += [f"{rejected} rejected"] if rejected else []
        self.rejected.label = f"rejected ({rejected})"
        self.rejected.visible = bool(rejected or self.rejected.active)
        moved = search.key != self._key and search.weak is not None and not self.rejected.active
        self.sort.visible = moved
        if search.searching:
            words.append("searching ...")
        elif search.stale:
            words.append("<b>these are of older decisions: search again</b>")
        elif search.survey_waits():
            words.append("the survey is indexed: search again to cover it")
        if moved and not search.searching and not search.stale:
            taken = int(np.count_nonzero(search.weak.classes == name))
            words += [f"<b>your yes and no made it {taken} patches instead of {total}</b>"] if taken != total else []
            words.append("sort anew to see the order after your yes and no")
        if name and search.weak is not None and search.asked(name) is None:
            words.append("no exemplar of it was searched for: place one in step 1")
        self.note.text = "; ".join(words) if name else "Add a class and place an exemplar first."

    def _show_count(self):
        asked = self.session.search.asked(self.viewer.outlined)
        self.count.visible = self.suggested.visible = asked is not None
        if asked is not None:
            self._quiet = True
            self.count.value = asked[0]
            self._quiet = False
            self.suggested.label = f"{asked[1]} suggested"
            self.suggested.disabled = asked[0] == asked[1]

    def _show_curve(self):
        """The curve of all patches, and a line above which they are taken, where it is that simple."""
        search, name = self.session.search, self.viewer.outlined
        curve = np.array([] if search.weak is None else search.weak.curves.get(name, []))
        self.curve.visible = len(curve) > 0
        if not len(curve):
            return
        ranks = np.unique(np.linspace(0, len(curve) - 1, 400).astype(int))
        self.ranks.data = {"rank": ranks + 1, "similarity": curve[ranks]}
        self.curve.x_range.update(start=0, end=len(curve) + 1)
        span = float(curve[0] - curve[-1]) or 0.1
        self.curve.y_range.update(start=float(curve[-1]) - 0.05 * span, end=float(curve[0]) + 0.05 * span)
        # patches beside others are passed over: no similarity divides those taken from the rest
        self.cut.visible = not self.session.job.state.options.get("diverse")
        taken = int(np.clip(search.asked(name)[0], 1, len(curve)))
        self.cut.location = float(curve[taken - 1])


def resembles(patch):
    """How similar a patch is to its exemplar, in words; nothing where it was not retrieved."""
    return f"; similarity {patch['similarity']:.3f}" if "similarity" in patch else ""


def key_of(patch):
    """What a verdict on a patch goes by."""
    return tuple(patch["place"]), patch["along"]
