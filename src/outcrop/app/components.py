"""Building blocks of the page: parts with scripts of their own, buttons, texts, thumbnails."""

import base64
import functools
import html
import io
from pathlib import Path
from typing import ClassVar

import numpy as np
import panel as pn
import param
from bokeh.models import Button, CustomJS, Div
from panel.custom import JSComponent

HERE = Path(__file__).parent
CSS = (HERE / "page.css").read_text(encoding="utf-8")


class Talking:
    """A part of the page that hands on what its script says."""

    def __init__(self, handle, **options):
        self._handle = handle
        super().__init__(**options)

    def _handle_msg(self, message):
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


class Question(Talking, JSComponent):
    """A question of an audit with its picture, and the buttons and keys that answer it."""

    item = param.Dict(default={}, doc="number, name, colour, where, answer, classes, picture and what lies in it")
    _esm = HERE / "question.js"
    _stylesheets: ClassVar = [CSS]


class Connection(Talking, JSComponent):
    """Strokes on their way to the server, and the banner where it is gone."""

    beat = param.Integer(default=0, doc="counts on while the server lives")
    stored = param.List(doc="ids of the last strokes that need not be sent again")
    _esm = HERE / "connection.js"


class Keys(Talking, JSComponent):
    """Keys that work anywhere on the page."""

    help = param.Integer(default=0, doc="counts how often the list of keys was asked for")
    _esm = HERE / "keys.js"


def script(name, **arguments):
    """Client code of a file beside this one."""
    return CustomJS(args=arguments, code=(HERE / f"{name}.js").read_text(encoding="utf-8"))


def guarded(method):
    """Show what went wrong instead of dying of it."""

    @functools.wraps(method)
    def safe(self, *arguments, **options):
        try:
            return method(self, *arguments, **options)
        except (ValueError, OSError, KeyError, IndexError, TypeError, ImportError) as error:
            self.say(str(error) or type(error).__name__, wrong=True)
            return None

    return safe


def button(label, action, **options):
    """A button that does something."""
    one = Button(label=label, **options)
    one.on_click(action)
    return one


def hint(text):
    """A line that says what to do."""
    return Div(text=escape(text), styles={"color": "#667", "font-size": "12px"}, sizing_mode="stretch_width")


def heading(text):
    """A small heading."""
    return Div(text=f"<b>{escape(text)}</b>", styles={"font-size": "13px", "margin-top": "6px"})


def title(text):
    """The name of what is open."""
    return Div(text=f"<b>Outcrop</b> &nbsp; {escape(text)}", styles={"font-size": "15px"}, align="center")


def escape(text):
    """Text that is safe inside HTML."""
    return html.escape(str(text))


def thumbnail(codes):
    """8-bit picture as an address that holds it."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(codes)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
