"""Step 1 of the page: classes and their exemplars."""

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.models import TextInput

from outcrop.app.components import (
    SMALL,
    UNSEEN,
    WIDE,
    Ask,
    Cards,
    Classes,
    Message,
    card,
    guarded,
    hint,
    note,
    scrolled,
    thumbnail,
    warn,
    warnings,
)  # fmt: skip
from outcrop.app.viewer import PLACE, Panel, Viewer
from outcrop.volumes.summary import sample_unit


class ExemplarPanel(Panel):
    """The list of classes, and thumbnails of their exemplars.

    Parameters
    ----------
    viewer : Viewer
    find : callable
        Called without arguments to start a search.
    """

    def __init__(self, viewer: Viewer, find: Callable[[], object]) -> None:
        super().__init__(viewer)
        self.classes = Classes(self._on_class, **WIDE)
        remove = [["remove", "✕", "Delete"]]
        self.cards = Cards(self._on_card, actions=remove, keys={"Enter": "go", "Delete": "remove"}, **WIDE)
        self.ask = Ask(self._on_remove, **UNSEEN)
        self._pictures: dict[Any, str] = {}  # thumbnails by place and size
        size = TextInput(title="patch size: height, width", width=170, name="size")
        self.warnings = warnings("class-warnings")
        self.size, self.size_note = self.react(size, self._on_size), note("size-note", **SMALL)
        self.actions = [self.button("Find similar patches", find, "find", button_type="primary")]

    def layout(self, *below: Any) -> Any:
        """Return the widgets of the panel in a column, above the widgets `below`."""
        what = hint(
            "Choose or add a class, then click on the section to place an exemplar (a box); drag the box to move it. A "
            "double click on a name renames the class. "
            "Arrow keys, PgUp and PgDn change the line; the mouse wheel zooms."
        )
        size = pn.Row(self.size, pn.Column(*self.actions, margin=(14, 0)))
        return scrolled(what, self.ask, self.classes, self.warnings, size, self.size_note, self.cards, *below)

    @guarded
    def _on_class(self, message: Message) -> None:
        session, job, verb = self.session, self.job, message["verb"]
        name, value = message.get("name", ""), message.get("value", "")
        if verb == "select" and name in job.palette:
            self.choose(name)
        elif verb == "add":
            self.choose(session.decide(job.add_class, value))
            self.classes.added += 1
        elif verb == "rename":
            session.decide(job.rename_class, name, value)
            self.classes.renamed += 1
        elif verb == "recolour":
            session.decide(job.recolour_class, name, value)
        elif verb == "remove":
            self._remove(name)

    def _remove(self, name: str) -> None:
        """Remove a class; ask first if the job has decisions about it."""
        things = self.session.belongings(name)
        if not things:
            self.session.decide(self.job.remove_class, name)
            return
        text = f"This also removes {things}. Undo restores them."
        self.ask.ask(f"Remove class {name}?", text, [(self.job.first_name(name), f"Remove {name}")], f"Keep {name}")

    @guarded
    def _on_remove(self, message: Message) -> None:
        self.session.decide(self.job.remove_class, self.job.plan.names[message["key"]])

    def choose(self, name: str) -> None:
        """Choose the class of the next exemplars, and select the tool that places exemplars."""
        self.viewer.choose(name)
        self.viewer.take(PLACE)
        self.show()

    def _on_size(self, new: str) -> None:
        if new != self._size_text():
            try:
                self.session.set_size(new, self.viewer.line)
                self.session.work.say("")  # clears a message about another size
            finally:
                self.size.value = self._size_text()

    def _size_text(self) -> str:
        return ",".join(map(str, self.survey.size))

    def _show_size(self) -> None:
        """Show the patch size in the text field; below it, show a sentence with the size and the height in ms or m."""
        survey, unit = self.survey, sample_unit(self.survey.volume)
        height, width = survey.size
        extent = f" ({height * abs(survey.axes[2].step):g} {unit})" if unit else ""
        words = f"A patch is {height} samples{extent} by {width} traces"
        self.size.value, self.size_note.text = self._size_text(), words

    @guarded
    def _on_card(self, message: Message) -> None:
        if message["verb"] == "remove":
            self.session.decide(self.job.remove_exemplar, message["key"])
            return
        places = {one.id: one.place for one in self.job.exemplars}
        if places.get(message["key"]) is not None:
            self.viewer.jump(places[message["key"]])

    def show(self) -> None:
        """Update the classes, the exemplars, the patch size and the warnings after a decision."""
        self._show_size()
        self.show_warnings()
        palette, exemplars = self.job.palette, self.job.exemplars
        counts = {name: sum(one.name == name for one in exemplars) for name in palette}
        classes = [
            {"name": name, "colour": colour, "note": f"{counts[name]} exemplar{'s' * (counts[name] != 1)}"}
            for name, colour in palette.items()
        ]
        self.classes.param.update(items=classes, selected=self.viewer.chosen)
        items = []
        for one in exemplars:
            where = "a picture" if one.place is None else ", ".join(f"{value:g}" for value in one.place)
            hint = "Show it in the section"
            items.append(card(one.id, self._picture(one), one.name, palette[one.name], note=where, hint=hint))
        self.cards.items = items

    def show_warnings(self) -> None:
        """Show the warnings about the classes and the last decision."""
        advice = self.session.advice
        warn(self.warnings, [*advice.notes(), *advice.classes()])

    def _picture(self, one: Any) -> str:
        """Return the thumbnail of an exemplar, from memory if it was drawn before."""
        key = (one.id, one.place, self.survey.size)
        if key not in self._pictures:
            whole = one.place is None  # the exemplar is a picture
            codes = np.round(255 * one.patch).astype(np.uint8) if whole else self.survey.patch(one.place)
            self._pictures[key] = thumbnail(codes)
        return self._pictures[key]
