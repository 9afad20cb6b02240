"""Building blocks of the page: components with JavaScript, buttons, texts and thumbnails."""

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
PRIMARY = ".bk-btn-primary { background: #1769c4; border-color: #1769c4; }"  # white text on it has enough contrast
REFUSED = (ValueError, OSError, KeyError, IndexError, TypeError, ImportError)
WIDE = {"sizing_mode": "stretch_width"}
BOTH = {"sizing_mode": "stretch_both"}
UNSEEN = {"width": 0, "height": 0, "margin": 0}
SMALL = {"styles": {"font-size": "12px"}}
Message = dict[str, Any]  # from a script in the browser
Method = TypeVar("Method", bound=Callable[..., Any])
Widget = TypeVar("Widget")


class Part:
    """Base class of the panels and views of the page; if an action fails, the page shows the error and stays usable.

    Parameters
    ----------
    session : Session
        The open job with its tasks.
    say : callable
        Called as ``say(text, wrong=False)``; shows a line of text to the interpreter, as an error if `wrong` is true.
    """

    def __init__(self, session: Session, say: Callable[..., None]) -> None:
        self.session, self.say = session, say
        self.job, self.survey, self.labelling = session.job, session.survey, session.labelling
        self.actions: list[Any] = []  # buttons that are disabled while a task runs

    def attempt(self, action: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call an action and return its result; if it raises an error, show the error and return None."""
        try:
            return action(*arguments, **options)
        except REFUSED as error:
            self.say(str(error) or type(error).__name__, wrong=True)

    def button(self, label: str, action: Callable[[], object], name: str, **options: Any) -> Any:
        """Return a button that calls an action when it is clicked; scripts in the browser find it by its name."""
        if options.get("button_type") == "primary":
            options["stylesheets"] = [PRIMARY]
        one = Button(label=label, name=name, **options)
        one.on_click(lambda: self.attempt(action))
        return one

    def react(self, widget: Widget, action: Callable[[Any], object]) -> Widget:
        """Call ``action(new)`` when the value of a widget changes; return the widget."""
        widget.on_change(value_of(widget), lambda _attr, _old, new: self.attempt(action, new))  # type: ignore[attr-defined]
        return widget


def guarded(method: Method) -> Method:
    """Wrap a method of a `Part`, so that an error raised by the method is shown on the page."""

    @functools.wraps(method)
    def safe(self: Part, *arguments: Any, **options: Any) -> Any:
        return self.attempt(method, self, *arguments, **options)

    return safe  # type: ignore[return-value]


class Talking:
    """Base class of components whose script in the browser sends messages to a handler in Python."""

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
    """A grid of thumbnails with buttons and shortcut keys."""

    items = param.List(doc="a dict for every card, as made by `card`")
    actions = param.List(doc="(verb sent to the handler, text, tooltip) of every button")
    keys = param.Dict(default={}, doc="key on the keyboard -> verb")
    several = param.Boolean(default=False, doc="whether Shift chooses several cards, for one button or key")
    _esm = HERE / "cards.js"
    _stylesheets: ClassVar = [CSS]


class Classes(Talking, JSComponent):
    """The list of classes, in which the interpreter adds, chooses, renames, recolours and removes classes."""

    items = param.List(doc="name, colour and note of every class")
    selected = param.String()
    added = param.Integer(default=0, doc="number of classes that were added here")
    renamed = param.Integer(default=0, doc="number of new names that were accepted here")
    _esm = HERE / "classes.js"
    _stylesheets: ClassVar = [CSS]


class Legend(Talking, JSComponent):
    """The legend of a section: a button for each class hides or shows the labels of the class."""

    items = param.List(doc="name, colour, share, key (on the keyboard) and hidden of every class")
    _esm = HERE / "legend.js"
    _stylesheets: ClassVar = [CSS]


class Layers(Talking, JSComponent):
    """The controls of the layers over the section, such as labels and fault sticks: visibility and opacity."""

    items = param.List(doc="name, renderers, shown, opacity, key (on the keyboard) of every layer; sticks: likelihood")
    likelihoods = param.List(doc="ends of the slider for the minimum likelihood of sticks")
    _esm = HERE / "layer_bar.js"
    _stylesheets: ClassVar = [CSS]


class Question(Talking, JSComponent):
    """A question of an audit with its picture, and buttons and keys for the answer."""

    item = param.Dict(default={}, doc="number, name, colour, where, answer, classes, picture and its box")
    _esm = HERE / "question.js"
    _stylesheets: ClassVar = [CSS]


class Ask(Talking, JSComponent):
    """A dialog in which the interpreter chooses one of several answers."""

    title = param.String()
    text = param.String()
    choices = param.List(doc="key (id) and text of every choice")
    refusal = param.String(default="Cancel", doc="text of the button that chooses nothing")
    asked = param.Integer(default=0, doc="number of times the dialog was opened")
    _esm = HERE / "ask.js"
    _stylesheets: ClassVar = [CSS]

    def ask(self, title: str, text: str, choices: list[tuple[str, str]], refusal: str = "Cancel") -> None:
        """Open the dialog; `choices` are pairs (key, text), and the handler receives the key of the chosen pair."""
        self.param.update(title=title, text=text, choices=choices, refusal=refusal)
        self.asked += 1


class Connection(Talking, JSComponent):
    """A component that sends strokes to the server, and shows a banner when the server does not answer."""

    beat = param.Integer(default=0, doc="increases while the server runs")
    stored = param.List(doc="ids of the last strokes that the server stored")
    _esm = HERE / "connection.js"


class Splitter(JSComponent):
    """The movable border between the section and the panel; it resizes or folds the panel."""

    panel = param.Integer(default=0, doc="width of the panel in pixels, 0 for the default")
    folded = param.Boolean(default=False)
    _esm = HERE / "splitter.js"
    _stylesheets: ClassVar = [CSS]


class Keys(Talking, JSComponent):
    """Shortcut keys that work anywhere on the page."""

    help = param.Integer(default=0, doc="number of times the list of keys was requested")
    _esm = HERE / "keys.js"


def script(name: str, **arguments: Any) -> Any:
    """Return a Bokeh callback that runs the script ``NAME.js`` of this folder; `arguments` are its variables."""
    return CustomJS(args=arguments, code=(HERE / f"{name}.js").read_text(encoding="utf-8"))


def card(key: object, picture: str, title: str, colour: str, **more: str) -> dict[str, str]:
    """Return a dict that describes one card of `Cards`.

    Parameters
    ----------
    key : object
        Identifier of the card, which messages to the handler contain.
    picture : str
        Data URL of the thumbnail.
    title, colour : str
        Text under the thumbnail, and colour of the frame.
    more : str
        Optional entries: ``note`` (second line), ``state`` ("accepted" or "rejected") and ``hint`` (tooltip).
    """
    return {"key": str(key), "src": picture, "title": title, "colour": colour, **more}


def note(name: str, **options: Any) -> Any:
    """Return an empty text widget as wide as its column; scripts in the browser find it by its name."""
    return Div(text="", name=name, **WIDE, **options)


def warnings(name: str) -> Any:
    """Return a hidden, empty text widget, in which `warn` shows warnings."""
    return Div(text="", name=name, visible=False, styles={"font-size": "12.5px"}, **WIDE)


def warn(place: Any, texts: Sequence[str]) -> None:
    """Show warnings in a text widget made by `warnings`; hide the widget if there are no warnings."""
    rows = "".join(f"<li>{escape(text)}</li>" for text in texts)
    style = "margin:2px 0; padding:4px 8px 4px 24px; background:#fff3e0; border-left:3px solid #b35900; color:#5c2e00"
    place.update(text=f"<ul role='status' style='{style}'>{rows}</ul>" if texts else "", visible=bool(texts))


def scrolled(*parts: Any) -> Any:
    """Return a column with a scroll bar that contains the given widgets."""
    return pn.Column(*parts, scroll="y-auto", **BOTH)


def hint(text: str) -> Any:
    """Return a text widget with instructions for the interpreter, in small grey letters."""
    return Div(text=escape(text), styles={"color": "#667", "font-size": "12px"}, **WIDE)


def heading(text: str) -> Any:
    """Return a text widget with a small bold heading."""
    return Div(text=f"<b>{escape(text)}</b>", styles={"font-size": "13px", "margin-top": "6px"})


def title(text: object) -> Any:
    """Return the title of the page: "Outcrop" and the name of the job or folder."""
    return Div(text=f"<b>Outcrop</b> &nbsp; {escape(text)}", styles={"font-size": "15px"}, align="center")


def escape(text: object) -> str:
    """Return a text with the special characters of HTML escaped."""
    return html.escape(str(text))


def thumbnail(codes: Codes) -> str:
    """Return an 8-bit grey picture as a data URL of a PNG image."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(codes)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
