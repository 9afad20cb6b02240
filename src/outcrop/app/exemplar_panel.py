"""Step 1 of the page: classes and their exemplars."""

import panel as pn

from outcrop.app.components import Cards, Classes, button, guarded, hint, thumbnail
from outcrop.app.viewer import PLACE


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
        find_button = button("Find similar patches", find, name="find", button_type="primary")
        self.actions = [find_button]

    def layout(self):
        """Everything, arranged."""
        what = hint(
            "Choose or add a class, then click on the section to place a box; drag a box to move it. "
            "Arrow keys and PgUp, PgDn go through the lines, the wheel zooms."
        )
        column = [what, self.classes, *self.actions, self.cards]
        return pn.Column(*column, scroll="y-auto", sizing_mode="stretch_both")

    @guarded
    def _on_class(self, message):
        session, verb, name, value = self.session, message["verb"], message.get("name"), message.get("value")
        if verb == "select" and name in session.state.palette:
            self.viewer.chosen = name
            self.viewer.take(PLACE)
            self.show()
        elif verb == "add":
            self.viewer.chosen = session.add_class(value)
            self.viewer.take(PLACE)
        elif verb == "rename":
            session.rename_class(name, value)
        elif verb == "recolour":
            session.recolour_class(name, value)
        elif verb == "remove":
            session.remove_class(name)

    @guarded
    def _on_card(self, message):
        number = int(message["key"])
        if message["verb"] == "remove":
            self.session.remove_exemplar(number)
        else:
            self.viewer.jump(self.session.state.data["exemplars"][number]["place"])

    def show(self):
        """Bring it up to the decisions."""
        state, survey = self.session.state, self.session.survey
        counts = {name: len(places) for name, places in state.exemplars().items()}
        classes = [
            {
                "name": name,
                "colour": colour,
                "note": f"{counts.get(name, 0)} exemplar{'s' * (counts.get(name, 0) != 1)}",
            }
            for name, colour in state.palette.items()
        ]
        self.classes.param.update(items=classes, selected=self.viewer.chosen)
        self.cards.items = [
            {
                "key": str(number),
                "src": thumbnail(survey.patch(one["place"])),
                "title": one["class"],
                "note": ", ".join(f"{value:g}" for value in one["place"]),
                "colour": state.palette[one["class"]],
                "hint": "Show it in the section",
            }
            for number, one in enumerate(state.data["exemplars"])
        ]
