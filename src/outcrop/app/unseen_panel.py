"""The panel of patches unlike all exemplars, in groups; any of these patches can become an exemplar."""

import functools
from typing import Any

import panel as pn
from bokeh.models import Div, Select, TextInput

from outcrop.app.components import SMALL, WIDE, Cards, Message, card, escape, guarded, heading, hint, note, thumbnail
from outcrop.app.unseen import GROUPS
from outcrop.app.viewer import Panel, Viewer
from outcrop.app.work import Last

NEW = ""  # value of the choice that adds a new class


class UnseenPanel(Panel):
    """The panel that shows groups of patches that resemble no exemplar.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self.unseen = self.session.unseen
        self._made: dict[str, str] = {}  # places of a group -> first name of the class of its exemplars
        self._pictures = Last()  # thumbnails of the groups, as data URLs
        self.actions = [self.button("Find patches unlike anything marked", self.unseen.look, "unseen")]
        self.note = note("unseen-note", **SMALL)
        of = Select(title="+ makes an exemplar of", width=170, name="unseen-class")
        self.of = self.react(of, lambda _: self.show_classes())
        self.name = TextInput(title="its name", width=170, placeholder="unnamed", name="unseen-name")
        self.chosen = pn.Row(self.of, self.name)
        self.titles = [Div(text="", name=f"unseen-{i}", **SMALL) for i in range(GROUPS)]
        parts = {"actions": [["exemplar", "+", "Make it an exemplar (+)"]], "keys": {"Enter": "go", "+": "exemplar"}}
        self.cards = [Cards(functools.partial(self._on_card, i), **parts, **WIDE) for i in range(GROUPS)]

    def layout(self) -> Any:
        """Return the layout of the panel."""
        what = hint("Groups of patches that differ from everything you marked.")
        groups = [part for pair in zip(self.titles, self.cards, strict=True) for part in pair]
        return pn.Column(
            heading("Patches unlike all exemplars"), what, *self.actions, self.note, self.chosen, *groups, **WIDE
        )

    @guarded
    def _on_card(self, number: int, message: Message) -> None:
        place = self.unseen.groups[number].places[int(message["key"])]
        if message["verb"] == "go":
            self.viewer.jump(place)
            return
        group = str(self.unseen.groups[number].places)  # the places identify the group
        names = self.job.plan.names
        before = names.get(self._made.get(group, ""))
        name = names.get(self.of.value) or self.name.value.strip() or before or self.unseen.free_name()
        self.name.value = ""
        self.session.add_exemplar(name, place, new=True)
        self._made[group] = self.job.first_name(name)
        self.show()
        self.session.work.say(f"An exemplar of {name} was placed.")

    def show_classes(self) -> None:
        """Update the list of classes to choose from; show the field for a new name only if a new class is chosen."""
        names = self.job.plan.names
        self.of.options = [(NEW, "a new class"), *names.items()]
        if self.of.value not in names:
            self.of.value = NEW
        self.name.visible = self.of.value == NEW

    def show(self) -> None:
        """Update the panel after a change of the groups or the exemplars."""
        groups, near = self.unseen.groups, self.session.search.scope == "neighbourhood"
        scope = "lines near this one" if near else "survey"
        self.chosen.visible = bool(groups)
        total = sum(one.share for one in groups)
        least = f"the {100 * total:.0f} % of the {scope} that are least like your exemplars"
        words = [f"<b>Unlike everything you marked</b>: {least}"] if groups else []
        words += ["<b>exemplars changed since: find the groups again</b>"] if self.unseen.old else []
        self.note.text = "; ".join(words)
        key = [one.places for one in groups]
        pictures = self._pictures.get(key, lambda: [list(map(thumbnail, one.pictures)) for one in groups])
        marked = {one.place: one.name for one in self.job.exemplars if one.place is not None}
        for i, (title, cards) in enumerate(zip(self.titles, self.cards, strict=True)):
            title.visible = cards.visible = i < len(groups)
            share = f"{100 * groups[i].share:.1f} %" if title.visible else ""
            title.text = f"<b>Group {i + 1}</b>: {share} of the {escape(scope)}" if share else ""
            places = enumerate(groups[i].places) if share else ()
            cards.items = [self._card(k, place, pictures[i][k], marked.get(tuple(place))) for k, place in places]

    def _card(self, number: int, place: list[float], picture: str, name: str | None) -> dict[str, str]:
        title = name or f"{self.survey.line_name} {place[self.survey.along]:g}"
        hint = "Show " + ", ".join(f"{value:g}" for value in place)
        colour = self.job.palette.get(name or "", "#99a3ae")
        return card(number, picture, title, colour, state="accepted" if name else "", hint=hint)
