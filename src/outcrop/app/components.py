"""Building blocks of the page: parts with scripts of their own, buttons, texts, thumbnails."""

import base64
import functools
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import panel as pn
import param
from bokeh.models import Button, CustomJS, Div
from panel.custom import JSComponent

from outcrop.app.pictures import Codes
from outcrop.app.session import Session
from outcrop.app.view import value_of

HERE = Path(__file__).parent
CSS = (HERE / "page.css").read_text(encoding="utf-8")
PRIMARY = ".bk-btn-primary { background: #1769c4; border-color: #1769c4; }"  # white on it is read by all
REFUSED = (ValueError, OSError, KeyError, IndexError, TypeError, ImportError)
WIDE = {"sizing_mode": "stretch_width"}
BOTH = {"sizing_mode": "stretch_both"}
UNSEEN = {"width": 0, "height": 0, "margin": 0}
SMALL = {"styles": {"font-size": "12px"}}
Message = dict[str, Any]  # of a script
Method = TypeVar("Method", bound=Callable[..., Any])
Widget = TypeVar("Widget")


class Part:
    """A part of the page; what goes wrong in what the interpreter does in it is said, and ends nothing.

    Parameters
    ----------
    session : Session
    say : callable
        Shows a line of text to the interpreter.
    """

    def __init__(self, session: Session, say: Callable[..., None]) -> None:
        self.session, self.say = session, say
        self.job, self.survey, self.labelling = session.job, session.survey, session.labelling
        self.actions: list[Any] = []  # buttons that rest while the interpreter waits for something

    def attempt(self, action: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Do something, and say what went wrong."""
        try:
            return action(*arguments, **options)
        except REFUSED as error:
            self.say(str(error) or type(error).__name__, wrong=True)

    def button(self, label: str, action: Callable[[], object], name: str, **options: Any) -> Any:
        """A button that does something."""
        if options.get("button_type") == "primary":
            options["stylesheets"] = [PRIMARY]
        one = Button(label=label, name=name, **options)
        one.on_click(lambda: self.attempt(action))
        return one

    def react(self, widget: Widget, action: Callable[[Any], object]) -> Widget:
        """Call ``action(new)`` whenever something else is chosen in a widget, which is returned."""
        widget.on_change(value_of(widget), lambda _attr, _old, new: self.attempt(action, new))  # type: ignore[attr-defined]
        return widget


def guarded(method: Method) -> Method:
    """Do the same as a method of a `Part`, but say what went wrong instead of dying of it."""

    @functools.wraps(method)
    def safe(self: Part, *arguments: Any, **options: Any) -> Any:
        return self.attempt(method, self, *arguments, **options)

    return safe  # type: ignore[return-value]


class Talking:
    """A part of the page that hands on what its script says."""

    def __init__(self, handle: Callable[[Message], object], **options: Any) -> None:
        self._handle = handle
        super().__init__(**options)

    def _handle_msg(self, message: Message) -> None:
        document = pn.state.curdoc
        if document is None or document.session_context is None:
            self._handle(message)
        else:  # Panel may call this without the lock of the document; a callback has it
            document.add_next_tick_callback(functools.partial(self._handle, message))


class Cards(Talking, JSComponent):
    """Thumbnails with buttons and keys."""

    items = param.List(doc="key, src, title, note, colour, state, hint of every card")
    actions = param.List(doc="verb, sign and hint of every button")
    keys = param.Dict(default={}, doc="key of the keyboard -> verb")
    several = param.Boolean(default=False, doc="whether Shift chooses several, on which a button or a key acts")
    _esm = HERE / "cards.js"
    _stylesheets: ClassVar = [CSS]


class Classes(Talking, JSComponent):
    """The list of classes."""

    items = param.List(doc="name, colour and note of every class")
    selected = param.String()
    added = param.Integer(default=0, doc="counts the classes that were added here")
    renamed = param.Integer(default=0, doc="counts the new names that were taken here")
    _esm = HERE / "classes.js"
    _stylesheets: ClassVar = [CSS]


class Legend(Talking, JSComponent):
    """The classes of a section, and which of them are hidden."""

    items = param.List(doc="name, colour, share, key and hidden of every class")
    _esm = HERE / "legend.js"
    _stylesheets: ClassVar = [CSS]


class Layers(Talking, JSComponent):
    """The layers over the section."""

    items = param.List(doc="name, renderers, shown, opacity and key of every layer; of fault sticks the likelihood")
    likelihoods = param.List(doc="smallest and largest likelihood of a stick")
    _esm = HERE / "layer_bar.js"
    _stylesheets: ClassVar = [CSS]


class Question(Talking, JSComponent):
    """A question of an audit with its picture, and the buttons and keys that answer it."""

    item = param.Dict(default={}, doc="number, name, colour, where, answer, classes, picture and what lies in it")
    _esm = HERE / "question.js"
    _stylesheets: ClassVar = [CSS]


class Ask(Talking, JSComponent):
    """A dialog that asks the interpreter to choose."""

    title = param.String()
    text = param.String()
    choices = param.List(doc="key and text of every choice")
    refusal = param.String(default="Cancel", doc="text of the button that chooses nothing")
    asked = param.Integer(default=0, doc="counts how often it was asked")
    _esm = HERE / "ask.js"
    _stylesheets: ClassVar = [CSS]

    def ask(self, title: str, text: str, choices: list[tuple[str, str]], refusal: str = "Cancel") -> None:
        """Open the dialog; the handler gets the key of the choice."""
        self.param.update(title=title, text=text, choices=choices, refusal=refusal)
        self.asked += 1


class Connection(Talking, JSComponent):
    """Strokes on their way to the server, and the banner where it is gone."""

    beat = param.Integer(default=0, doc="counts on while the server lives")
    stored = param.List(doc="ids of the last strokes that need not be sent again")
    _esm = HERE / "connection.js"


class Splitter(JSComponent):
    """The border between the section and the panel, which resizes and folds the panel."""

    panel = param.Integer(default=0, doc="width of the panel in pixels, 0 for the default")
    folded = param.Boolean(default=False)
    _esm = HERE / "splitter.js"
    _stylesheets: ClassVar = [CSS]


class Keys(Talking, JSComponent):
    """Keys that work anywhere on the page."""

    help = param.Integer(default=0, doc="counts how often the list of keys was asked for")
    _esm = HERE / "keys.js"


def script(name: str, **arguments: Any) -> Any:
    """Client code of a file beside this one."""
    return CustomJS(args=arguments, code=(HERE / f"{name}.js").read_text(encoding="utf-8"))


def card(key: object, picture: str, title: str, colour: str, **more: str) -> dict[str, str]:
    """One of `Cards`; `more` are its note, its state (accepted, rejected) and its hint."""
    return {"key": str(key), "src": picture, "title": title, "colour": colour, **more}


def note(name: str, **options: Any) -> Any:
    """An empty text, to be filled."""
    return Div(text="", name=name, **WIDE, **options)


def warnings(name: str) -> Any:
    """A place for warnings, to be filled by `warn`."""
    return Div(text="", name=name, visible=False, styles={"font-size": "12.5px"}, **WIDE)


def warn(place: Any, texts: Sequence[str]) -> None:
    """Show warnings in their place, nothing where there are none."""
    rows = "".join(f"<li>{escape(text)}</li>" for text in texts)
    style = "margin:2px 0; padding:4px 8px 4px 24px; background:#fff3e0; border-left:3px solid #b35900; color:#5c2e00"
    place.update(text=f"<ul role='status' style='{style}'>{rows}</ul>" if texts else "", visible=bool(texts))


def scrolled(*parts: Any) -> Any:
    """Parts of a step, one below the other."""
    return pn.Column(*parts, scroll="y-auto", **BOTH)


def hint(text: str) -> Any:
    """A line that says what to do."""
    return Div(text=escape(text), styles={"color": "#667", "font-size": "12px"}, **WIDE)


def heading(text: str) -> Any:
    """A small heading."""
    return Div(text=f"<b>{escape(text)}</b>", styles={"font-size": "13px", "margin-top": "6px"})


def title(text: object) -> Any:
    """The name of what is open."""
    return Div(text=f"<b>Outcrop</b> &nbsp; {escape(text)}", styles={"font-size": "15px"}, align="center")


def escape(text: object) -> str:
    """Text that is safe inside HTML."""
    return html.escape(str(text))


def thumbnail(codes: Codes) -> str:
    """8-bit picture as an address that holds it."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(codes)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
