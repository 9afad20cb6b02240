"""Step 2 of the page: the retrieved patches of a class by rank, and the number of patches that are used."""

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh import events
from bokeh.models import ColumnDataSource, CustomJS, RadioButtonGroup, Range1d, Span, Spinner, Toggle
from bokeh.plotting import figure

from outcrop.app.components import (
    WIDE,
    Cards,
    Message,
    card,
    escape,
    guarded,
    hint,
    note,
    scrolled,
    thumbnail,
    warn,
    warnings,
)  # fmt: skip
from outcrop.app.viewer import Panel, Viewer

SHOWN = 24  # thumbnails per page
WHERE = {"survey": "in the survey", "neighbourhood": "on lines near this one"}  # scope of a search -> text
STATES = {True: "accepted", False: "rejected", None: ""}
Patch = dict[str, Any]  # in the gallery: place, along, title, note, hint, and the picture after it was drawn


class RetrievedPanel(Panel):
    """The gallery of retrieved patches, and the curve of their similarity.

    After a verdict the gallery marks the patch and keeps its order, until the button *Re-rank* sorts the patches again.

    Parameters
    ----------
    viewer : Viewer
    find : callable
        Called without arguments to start a search.
    """

    def __init__(self, viewer: Viewer, find: Callable[[], object]) -> None:
        super().__init__(viewer)
        self.search = self.session.search
        self.first = 0  # number of the first thumbnail
        self._patches: list[Patch] = []  # listed patches, in the order of the gallery
        self._of: tuple[Any, ...] = ()  # class, list and search of the listed patches
        self._key: str | None = None  # key of the search that determined the order
        self._follows = False  # whether the next search changes the order; a verdict resets it
        self.class_buttons = self.react(RadioButtonGroup(labels=[], name="gallery-class"), self._on_class)
        self.gallery = Cards(
            self._on_card, actions=[["accept", "✓", "Accept (A)"], ["reject", "✕", "Reject (R)"]],
            keys={"a": "accept", "r": "reject", "Enter": "go"}, several=True, **WIDE,
        )  # fmt: skip
        self.note = note("gallery-note")
        self.rejected = self.react(Toggle(label="rejected", name="rejected"), self._sort)
        self.informative = self.react(Toggle(label="Most informative first", name="informative"), self._sort)
        self.sort = self.button("Re-rank", self._sort, "sort")
        self.actions = [self.button("Search again", find, "again")]
        self.turns = [
            self.button("◂ Back", lambda: self._turn(-SHOWN), "nearer"),
            self.button("More ▸", lambda: self._turn(SHOWN), "farther"),
            self.button("Last", lambda: self._turn(10**6), "least"),
        ]
        count = Spinner(low=1, step=1, value=1, width=80, title="Patches used", name="count")
        self.count = self.react(count, self._on_count)
        self.suggested = self.button("", lambda: self.session.set_count(viewer.outlined, None), "suggested")
        self.judge_all = [
            self.button("Accept all shown", lambda: self._on_all(True), "accept-all"),
            self.button("Reject all shown", lambda: self._on_all(False), "reject-all"),
        ]
        self.warnings = warnings("retrieved-warnings")
        self._make_curve()

    def _make_curve(self) -> None:
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

    def layout(self) -> Any:
        """Return the layout of the panel."""
        what = hint(
            "Drag the line in the curve, or enter a number, to choose how many patches are used. Click a patch to show "
            "it in the section. Key A accepts a patch, key R rejects it; the same key again clears the verdict. To "
            "choose several patches, hold Shift and click, or hold Shift and press an arrow key. The percentage is the "
            "estimated probability that a patch shows the class."
        )
        taken = pn.Row(self.count, pn.Column(self.suggested, margin=(14, 0)))
        listed = pn.FlexBox(self.informative, self.rejected, self.sort, *self.actions, *self.judge_all)
        gallery = [self.warnings, self.note, listed, self.gallery, pn.Row(*self.turns)]
        return scrolled(self.class_buttons, what, self.curve, taken, *gallery)

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_class(self, new: int | None) -> None:
        if new is not None and new < len(self.class_buttons.labels):
            self.viewer.outlined, self.first = self.class_buttons.labels[new], 0
            self.show()
            self.viewer.show_boxes()

    def _turn(self, by: int) -> None:
        self.first += by
        self._show_gallery()

    def forget_order(self) -> None:
        """Discard the order of the gallery and go to its beginning; the next search determines a new order."""
        self.first, self._of = 0, ()

    def _sort(self, _: object = None) -> None:
        """Sort the gallery by the present ranks; if a search is running, sort it again when the search ends."""
        self.forget_order()
        self._follows = True
        self._show_gallery()

    @guarded
    def _on_cut(self, similarity: float) -> None:
        if self.search.weak is not None:
            self.session.cut_at(self.viewer.outlined, float(similarity))

    def _on_count(self, new: int | None) -> None:
        if new and new != self._asked()[0]:
            self.session.set_count(self.viewer.outlined, int(new))

    @guarded
    def _on_card(self, message: Message) -> None:
        if message["verb"] == "go":
            self.viewer.jump(self._patches[int(message["key"])]["place"])
            return
        accept = message["verb"] == "accept"
        self._judge([self._patches[int(key)] for key in message.get("keys", [message["key"]])], accept)

    def _judge(self, patches: list[Patch], accept: bool) -> None:
        """Accept or reject patches as one act; if all patches have this verdict already, clear their verdicts."""
        verdicts = self._verdicts()
        left = [one for one in patches if verdicts.get(key_of(one)) is not accept]
        self._follows = False
        self.session.judge_all(self.viewer.outlined, map(key_of, left or patches), accept=accept if left else None)

    def _on_all(self, accept: bool) -> None:
        shown = self._patches[self.first : self.first + SHOWN]
        if not shown:
            raise ValueError("The gallery is empty; find similar patches first.")
        self._judge(shown, accept)

    # ---- showing ----------------------------------------------------------------------------------------------------

    def show_classes(self) -> None:
        """Update the buttons that choose the class of the gallery."""
        names = list(self.job.palette)
        if self.viewer.outlined not in names:
            self.viewer.outlined = names[0] if names else ""
        self.class_buttons.labels = names
        self.class_buttons.active = names.index(self.viewer.outlined) if names else None

    def show(self) -> None:
        """Update the panel after a search or verdicts."""
        self.show_marks()
        self.show_warnings()
        self._show_curve()

    def show_marks(self) -> None:
        """Update the verdicts in the gallery, and the requested and suggested number of patches."""
        self._show_gallery()
        taken, suggested = self._asked()
        self.count.visible = self.suggested.visible = taken > 0
        if taken:
            self.count.value = taken
            self.suggested.update(label=f"{suggested} suggested", disabled=taken == suggested)

    def _asked(self) -> tuple[int, int]:
        """Return the requested and suggested number of patches of the gallery's class; (0, 0) before a search."""
        return self.search.asked(self.viewer.outlined) or (0, 0)

    def _verdicts(self) -> dict[tuple[Any, str], bool]:
        """Return the verdicts on patches of the gallery's class; see `PageJob.verdicts`."""
        return self.job.verdicts(self.viewer.outlined)

    def _show_gallery(self) -> None:
        search, name = self.search, self.viewer.outlined
        of = (name, self.rejected.active, self.informative.active, search.basis)
        if of != self._of or (self._follows and search.key != self._key):
            self._of, self._key = of, search.key
            self._patches = self._rejected() if self.rejected.active else self._found()
        self.first = int(np.clip(self.first, 0, max(0, (len(self._patches) - 1) // SHOWN * SHOWN)))
        verdicts, colour = self._verdicts(), self.job.palette.get(name, "#888888")
        items = []
        for i, patch in enumerate(self._patches[self.first : self.first + SHOWN], self.first):
            if "picture" not in patch:
                patch["picture"] = thumbnail(search.thumbnail(patch["place"], patch["along"]))
            about = {"note": patch["note"], "state": STATES[verdicts.get(key_of(patch))], "hint": patch["hint"]}
            items.append(card(i, patch["picture"], patch["title"], colour, **about))
        self.gallery.items = items
        self.show_note()

    def _rejected(self) -> list[Patch]:
        """Return the rejected patches of the class that the gallery shows."""
        found = []
        for (place, along), accept in self._verdicts().items():
            where = ", ".join(f"{part:g}" for part in place)
            about = {"title": "rejected", "note": where, "hint": f"Show {where}"}
            found += [] if accept else [{"place": list(place), "along": along} | about]
        return found

    def _found(self) -> list[Patch]:
        """Return the retrieved patches of the gallery's class.

        They are sorted by rank or, if the toggle *Most informative first* is on, with the most informative first.
        """
        weak = self.search.weak
        if weak is None:
            return []
        found, ranks, members = [], weak.table["rank"], np.flatnonzero(weak.classes == self.viewer.outlined)
        if self.informative.active:
            judge = weak.judge[members]
            members = members[np.argsort(np.where(judge > 0, judge, len(weak)), kind="stable")]
        for i, place in zip(members, self.search.places()[members].tolist(), strict=True):
            where = ", ".join(f"{part:g}" for part in place)
            about = {"title": f"{ranks.iloc[i]}. {weak.weights[i]:.0%}", "note": where}
            about["hint"] = f"Show {where}; similarity {weak.similarity[i]:.3f}, row {weak.rows[i]}"
            found.append({"place": place, "along": str(weak.positions["along"].iloc[i])} | about)
        return found

    def show_note(self) -> None:
        """Show the number of patches, the scope of the search, and whether the patches are stale."""
        search, name, total = self.search, self.viewer.outlined, len(self._patches)
        which = f"{self.first + 1} to {min(total, self.first + SHOWN)} of {total}" if total else "none yet"
        words = [f"<b>{escape(name)}</b>: {which}" + (f", {WHERE[search.scope]}" if search.scope else "")]
        rejected = sum(not accept for accept in self._verdicts().values())
        words += [f"{rejected} rejected"] if rejected else []
        self.rejected.update(label=f"rejected ({rejected})", visible=bool(rejected or self.rejected.active))
        moved = search.key != self._key and search.weak is not None and not self.rejected.active
        self.sort.visible = moved
        if search.searching:
            words.append("searching ...")
        elif search.stale:
            words.append("<b>patches from older decisions: search again</b>")
        elif search.survey_waits():
            words.append("the whole survey is indexed: search again to find patches in all of it")
        if moved and not search.searching and not search.stale:
            taken = int(np.count_nonzero(search.weak.classes == name))
            words += [f"<b>after your verdicts, {taken} patches instead of {total}</b>"] if taken != total else []
            words.append("re-rank to see the order after your verdicts")
        if name and search.weak is not None and search.asked(name) is None:
            words.append("this class has no exemplar: place one in step 1")
        self.note.text = "; ".join(words) if name else "Add a class and place an exemplar first."

    def show_warnings(self) -> None:
        """Show the warnings about the retrieved patches."""
        warn(self.warnings, self.session.advice.retrieved())

    def _show_curve(self) -> None:
        """Draw the curve of similarity over rank, and the line above which patches are used."""
        curve = np.array(self.search.weak.curves.get(self.viewer.outlined, []) if self.search.weak else [])
        self.curve.visible = len(curve) > 0
        if not len(curve):
            return
        ranks = np.unique(np.linspace(0, len(curve) - 1, 400).astype(int))
        self.ranks.data = {"rank": ranks + 1, "similarity": curve[ranks]}
        self.curve.x_range.update(start=0, end=len(curve) + 1)
        span = float(curve[0] - curve[-1]) or 0.1
        self.curve.y_range.update(start=float(curve[-1]) - 0.05 * span, end=float(curve[0]) + 0.05 * span)
        self.cut.location = float(curve[int(np.clip(self._asked()[0], 1, len(curve))) - 1])


def key_of(patch: Patch) -> tuple[tuple[float, ...], str]:
    """Return (place, direction) of a patch, by which verdicts identify it."""
    return tuple(patch["place"]), patch["along"]
