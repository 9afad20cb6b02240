"""What was not shown yet, on the page: groups of patches that nothing marked looks like, to make exemplars of."""

import functools

import panel as pn
from bokeh.models import Div, Select, TextInput

from outcrop.app.components import Cards, button, escape, guarded, heading, hint, thumbnail
from outcrop.app.unseen import GROUPS
from outcrop.patches.grid import DIRECTIONS

NEW = ""  # a class that is not there yet


class UnseenPanel:
    """Groups of patches that resemble no exemplar.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.unseen = self.session.unseen
        self._made: dict = {}  # places of a group -> first name of the class that was made from it
        self._pictures: tuple = ([], [])  # groups, and addresses that hold their pictures
        self.actions = [button("What was not shown", self._on_look, name="unseen")]
        self.note = Div(text="", name="unseen-note", sizing_mode="stretch_width", styles={"font-size": "12px"})
        self.of = Select(title="+ makes an exemplar of", width=170, name="unseen-class")
        self.name = TextInput(title="its name", width=170, placeholder="unnamed", name="unseen-name")
        self.of.on_change("value", self._on_of)
        self.chosen = pn.Row(self.of, self.name)
        self.titles = [Div(text="", name=f"unseen-{i}", styles={"font-size": "12px"}) for i in range(GROUPS)]
        self.cards = [
            Cards(
                functools.partial(self._on_card, i), actions=[["exemplar", "+", "Make it an exemplar (+)"]],
                keys={"Enter": "go", "+": "exemplar"}, sizing_mode="stretch_width",
            )
            for i in range(GROUPS)
        ]  # fmt: skip

    def layout(self):
        """Everything, arranged."""
        what = hint("Patches that nothing you marked looks like, in groups.")
        groups = [part for pair in zip(self.titles, self.cards, strict=True) for part in pair]
        column = [heading("Not shown yet"), what, *self.actions, self.note, self.chosen, *groups]
        return pn.Column(*column, sizing_mode="stretch_width")

    @guarded
    def _on_look(self):
        self.unseen.look()

    def _on_of(self, _attr, _old, new):
        self.name.visible = new == NEW

    @guarded
    def _on_card(self, number, message):
        place = self.unseen.groups[number].places[int(message["key"])]
        if message["verb"] == "go":
            self.viewer.jump(place)
            return
        name = self._class_for(number)
        self.name.value = ""
        self.session.add_exemplar(name, place, new=True)
        self._made[self._key(number)] = self.viewer.first_name(name)
        self.show()
        self.session.work.say(f"An exemplar of {name} was placed.")

    def _key(self, number):
        """What tells a group from others."""
        return str(self.unseen.groups[number].places)

    def _class_for(self, number):
        """Class of the next exemplar of a group: the one that is chosen or named, else one class for each group."""
        classes = self.session.job.state.classes
        if self.of.value in classes:
            return classes[self.of.value]["name"]
        before = classes.get(self._made.get(self._key(number)), {"name": ""})["name"]
        return self.name.value.strip() or before or self.unseen.free_name()

    def show_classes(self):
        """Offer the classes."""
        classes = self.session.job.state.classes
        self.of.options = [(NEW, "a new class"), *((first, facts["name"]) for first, facts in classes.items())]
        if self.of.value not in classes:
            self.of.value = NEW
        self.name.visible = self.of.value == NEW

    def show(self):
        """Bring it up to the groups, and to what was made of them."""
        groups, scope = self.unseen.groups, self.session.search.scope or "survey"
        self.chosen.visible = bool(groups)
        total = sum(one.share for one in groups)
        least = f"the {100 * total:.0f} % of the {scope} that are least like your exemplars"
        words = [f"<b>Nothing you marked looks like these</b>: {least}"] if groups else []
        words += ["<b>exemplars changed since: look again</b>"] if self.unseen.old else []
        self.note.text = "; ".join(words)
        if self._pictures[0] is not groups:
            self._pictures = (groups, [[thumbnail(codes) for codes in one.pictures] for one in groups])
        marked = {one.place: one.name for one in self.session.exemplars() if one.place is not None}
        for i, (title, cards) in enumerate(zip(self.titles, self.cards, strict=True)):
            title.visible = cards.visible = i < len(groups)
            title.text = (
                f"<b>Group {i + 1}</b>: {100 * groups[i].share:.1f} % of the {escape(scope)}" if title.visible else ""
            )
            cards.items = [self._card(i, k, marked) for k in range(len(groups[i].places))] if cards.visible else []

    def _card(self, group, number, marked):
        place, along = self.unseen.groups[group].places[number], self.session.survey.along
        name = marked.get(tuple(place))
        return {
            "key": str(number),
            "src": self._pictures[1][group][number],
            "title": name or f"{DIRECTIONS[along]} {place[along]:g}",
            "colour": self.session.job.palette.get(name, "#99a3ae"),
            "state": "accepted" if name else "",
            "hint": "Show " + ", ".join(f"{value:g}" for value in place),
        }
