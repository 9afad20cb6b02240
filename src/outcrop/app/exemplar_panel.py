"""Step 1 of the page: classes and their exemplars."""

import numpy as np
import panel as pn
from bokeh.models import Div, TextInput

from outcrop.app.components import Cards, Classes, button, guarded, hint, thumbnail
from outcrop.app.viewer import PLACE
from outcrop.volumes.summary import sample_unit


class ExemplarPanel:
    """The list of classes, and thumbnails of the exemplars.

    Parameters
    ----------
    viewer : Viewer
    find : callable
        Begins a search.
    """

    def __init__(self, viewer, find):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.classes = Classes(self._on_class, sizing_mode="stretch_width")
        self.cards = Cards(
            self._on_card, actions=[["remove", "✕", "Delete"]], keys={"Enter": "go", "Delete": "remove"},
            sizing_mode="stretch_width",
        )  # fmt: skip
        self._pictures: dict = {}  # thumbnails by place and size
        self.size = TextInput(title="patch size: height, width", width=170, name="size")
        self.size.on_change("value", self._on_size)
        self.size_note = Div(text="", name="size-note", sizing_mode="stretch_width", styles={"font-size": "12px"})
        find_button = button("Find similar patches", find, name="find", button_type="primary")
        self.actions = [find_button]

    def layout(self, *below):
        """Everything, arranged, above other panels."""
        what = hint(
            "Choose or add a class, then click on the section to place a box; drag a box to move it. A double click on "
            "a name renames the class. "
            "Arrow keys and PgUp, PgDn go through the lines, the wheel zooms."
        )
        size = pn.Row(self.size, pn.Column(*self.actions, margin=(14, 0)))
        column = [what, self.classes, size, self.size_note, self.cards, *below]
        return pn.Column(*column, scroll="y-auto", sizing_mode="stretch_both")

    @guarded
    def _on_class(self, message):
        session, verb, name, value = self.session, message["verb"], message.get("name"), message.get("value")
        if verb == "select" and name in session.job.palette:
            self.choose(name)
        elif verb == "add":
            self.choose(session.add_class(value))
            self.classes.added += 1
        elif verb == "rename":
            session.rename_class(name, value)
            self.classes.renamed += 1
        elif verb == "recolour":
            session.recolour_class(name, value)
        elif verb == "remove":
            session.remove_class(name)

    def choose(self, name):
        """Take a class, to place exemplars of it."""
        self.viewer.choose(name)
        self.viewer.take(PLACE)
        self.show()

    @guarded
    def _on_size(self, _attr, _old, new):
        if new != self._size_text():
            try:
                self.session.set_size(new, self.viewer.line)
                self.session.work.say("")  # a message about another size
            finally:
                self.size.value = self._size_text()

    def _size_text(self):
        return ",".join(map(str, self.session.survey.size))

    def _show_size(self):
        """Say how large a patch is, and which exemplars it does not fit around."""
        survey = self.session.survey
        height, width = survey.size
        down = height * abs(survey.axes[2].step)
        unit = sample_unit(survey.volume)
        extent = f" ({down:g} {unit})" if unit else ""
        words = [f"A patch is {height} samples{extent} by {width} traces"]
        places = [one.place for one in self.session.exemplars() if one.place is not None]
        outside = sum(survey.snap(place) != list(place) for place in places)
        words += [f"<b>{outside} exemplars lie too near the rim for it and are left out</b>"] if outside else []
        self.size.value, self.size_note.text = self._size_text(), "; ".join(words)

    @guarded
    def _on_card(self, message):
        if message["verb"] == "remove":
            self.session.remove_exemplar(message["key"])
            return
        places = {one.id: one.place for one in self.session.exemplars()}
        if places.get(message["key"]) is not None:
            self.viewer.jump(places[message["key"]])

    def show(self):
        """Bring it up to the decisions."""
        self._show_size()
        palette, exemplars = self.session.job.palette, self.session.exemplars()
        counts = {name: sum(one.name == name for one in exemplars) for name in palette}
        classes = [
            {"name": name, "colour": colour, "note": f"{counts[name]} exemplar{'s' * (counts[name] != 1)}"}
            for name, colour in palette.items()
        ]
        self.classes.param.update(items=classes, selected=self.viewer.chosen)
        self.cards.items = [
            {
                "key": one.id,
                "src": self._picture(one),
                "title": one.name,
                "note": "a picture" if one.place is None else ", ".join(f"{value:g}" for value in one.place),
                "colour": palette[one.name],
                "hint": "Show it in the section",
            }
            for one in exemplars
        ]

    def _picture(self, one):
        """Thumbnail of an exemplar; sections are not read again for one that was drawn before."""
        key = (one.id, one.place, self.session.survey.size)
        if key not in self._pictures:
            whole = one.place is None  # the exemplar is a picture
            codes = np.round(255 * one.patch).astype(np.uint8) if whole else self.session.survey.patch(one.place)
            self._pictures[key] = thumbnail(codes)
        return self._pictures[key]
