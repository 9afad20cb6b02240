"""The web page of a job: the section viewer, and panels for the five steps from exemplars to geology."""

import json
import threading
from typing import Any

import panel as pn
from bokeh.models import Button, CustomJS, Div

from outcrop.app.audit_panel import AuditPanel
from outcrop.app.components import (
    BOTH,
    UNSEEN,
    WIDE,
    Ask,
    Connection,
    Keys,
    Message,
    Part,
    Splitter,
    escape,
    guarded,
    note,
    script,
    title,
)
from outcrop.app.exemplar_panel import ExemplarPanel
from outcrop.app.geology_panel import GeologyPanel
from outcrop.app.guide import next_step
from outcrop.app.label_panel import LabelPanel
from outcrop.app.layer_bar import LayerBar
from outcrop.app.line_strip import LineStrip
from outcrop.app.linked import LinkedViews
from outcrop.app.plot import SIDE_BY_SIDE
from outcrop.app.result_panel import ResultPanel
from outcrop.app.retrieved_panel import RetrievedPanel
from outcrop.app.session import Session
from outcrop.app.unseen_panel import UnseenPanel
from outcrop.app.viewer import LASSO, LOOK, PAINTING, PLACE, Viewer

EXEMPLARS, RETRIEVED, LABELS, RESULTS, GEOLOGY = range(5)  # numbers of the steps
STEP_OF = {PLACE: EXEMPLARS, LASSO: GEOLOGY} | dict.fromkeys(PAINTING, LABELS)  # tool -> step that it belongs to
MOST_STORED = 100  # number of ids of stored strokes that are sent to the browser
NARROW = 1200  # pixels: narrower windows show the expert section or the linked views, not both
TABS = ".bk-tab { padding: 4px 5px; font-size: 12.5px; } @media (max-width: 1240px) { .bk-tab { font-size: 11.5px; } }"
TIPS = {  # widget -> tooltip with the key; a list has one tooltip per button
    "tool": [
        "Pan and navigate (L)", "Click to place an exemplar (P)", "Paint (B)", "Paint a straight line (T)",
        "Paint the inside of an outline (U)",
    ],
    "number": "Line number or time of the section in view; arrow keys, PgUp and PgDn change it",
    "linked": "Show an inline, a crossline and a time slice through one point (V)",
    "exaggeration": "Vertical exaggeration: height of a sample to width of a trace on the screen",
    "fit": "Fit the section into the window (F)", "undo": "Undo your last decision (Ctrl+Z)",
    "redo": "Redo (Ctrl+Y)", "history": "List the last decision of each kind and person, and undo one of them (H)",
    "keys": "List of keyboard shortcuts (?)", "start": "Open another job or volume of this folder",
    "find": "Rank all patches by their similarity to the exemplars",
    "accept-all": "Accept all patches shown in the gallery; key A accepts only the chosen patches",
    "reject-all": "Reject all patches shown in the gallery; key R rejects only the chosen patches",
}  # fmt: skip
GUIDE = {"font-size": "13px", "padding": "2px 6px", "background": "#fff8dd", "border-bottom": "1px solid #e8dca8"}
BEAT = 2000  # milliseconds between two messages that the server is running; see connection.js


class Page(Part):
    """The page of a job in one tab of the browser.

    Parameters
    ----------
    session : Session
        The session of the job, which all tabs of the job share.
    document : bokeh.document.Document
        The Bokeh document of this tab.
    start : bool
        Whether to show the button *Jobs*, which opens the start screen.
    """

    def __init__(self, session: Session, document: Any, *, start: bool = False) -> None:
        super().__init__(session, self._say)
        self.document = document
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self.status = note("status", align="center")
        self.guide = Div(text="", name="guide", styles=GUIDE, margin=0, **WIDE)
        self.viewer = Viewer(session, self.say)
        self.strip = LineStrip(self.viewer)
        self.layers = LayerBar(self.viewer)
        self.geology = GeologyPanel(self.viewer, self.layers)
        self.layers.apply()
        self.linked = LinkedViews(self.viewer)
        self.exemplars = ExemplarPanel(self.viewer, self._on_find)
        self.retrieved = RetrievedPanel(self.viewer, self._on_find)
        self.labels = LabelPanel(self.viewer)
        self.results = ResultPanel(self.viewer)
        self.audit = AuditPanel(self.viewer)
        self.unseen = UnseenPanel(self.viewer)
        self._section = (self.viewer.direction, self.viewer.position)  # section that messages are about
        self.viewer.after_draw = self._after_draw
        self.viewer.after_take = self._on_tool
        self.viewer.after_choose = self.labels.show_classes  # the brush follows the chosen class
        self._table_updates()
        undo = Button(label="↶ Undo", name="undo")
        undo.js_on_click(CustomJS(code="window.dispatchEvent(new Event('outcrop-undo'))"))  # see keys.js
        self.cancel_button = self.button("Cancel", session.work.cancel, "cancel", visible=False)
        back = Button(label="◂ Jobs", name="start", visible=start)
        back.js_on_click(CustomJS(code="window.location.search = '?start'"))
        self.bar = [
            back, undo, self.button("↷ Redo", session.redo, "redo"),
            self.button("History ( H )", self._on_history, "history"), self.button("Keys ( ? )", self._on_help, "keys"),
            self.status, self.cancel_button,
        ]  # fmt: skip
        self.history = Ask(self._on_undo_one, **UNSEEN)
        self.keys, self.connection = Keys(self._on_key, **UNSEEN), Connection(self._on_connection, **UNSEEN)
        view = self.viewer.view
        self.splitter = Splitter(
            panel=min(max(view.get("panel", 0), 0), 4000), folded=view.get("folded", False), width=10,
            sizing_mode="stretch_height", margin=0,
        )  # fmt: skip
        self.splitter.param.watch(lambda _: self._resize(), ["panel", "folded"])
        self._leave_room()
        ready = [*self.viewer.on_ready, *self.labels.on_ready, *self.linked.on_ready, script("names", tips=TIPS)]
        for one in ready:
            document.js_on_event("document_ready", one)
        document.add_periodic_callback(self._beat, BEAT)
        document.config.notify_connection_status = False  # connection.js shows the status instead
        document.config.reconnect_session = False  # connection.js reloads, because a new server has another document
        self.close = session.listen(self._on_change)
        self.viewer.draw(new_frame=True)
        for what in ("state", "weak", "labels", "places"):
            self._update(what)

    def _table_updates(self) -> None:
        """Set which methods update the page after each kind of change, and in which order."""
        viewer, linked, labels, retrieved = self.viewer, self.linked, self.labels, self.retrieved
        strip = self.strip.show
        results, geology, audit, unseen = self.results.show, self.geology.show, self.audit.show, self.unseen.show
        guide = self._show_guide
        classes = [part.show_classes for part in (viewer, retrieved, labels, self.unseen)]
        state = [*classes, self.exemplars.show, viewer.show_boxes, viewer.show_painted, viewer.show_labels]
        self._updates: dict[str, list[Any]] = {
            "state": [
                *state, linked.show_labels, labels.show, retrieved.show_marks, audit, unseen, geology, results, strip,
                guide,
            ],
            "strokes": [
                viewer.show_painted, labels.show, audit, geology, results, strip, self.exemplars.show_warnings, guide,
            ],
            "weak": [retrieved.show, viewer.show_boxes, results],
            "section": [viewer.draw, linked.refine],
            "labels": [
                viewer.show_labels, linked.show_labels, viewer.show_classes, labels.show, geology, results, strip,
                self.exemplars.show_warnings, viewer.show_warnings, guide,
            ],
            "places": [labels.show_next], "audit": [audit], "unseen": [unseen], "geology": [geology],
            "lines": [strip], "work": [],
            "advice": [self.exemplars.show_warnings, retrieved.show_warnings, guide],
        }  # fmt: skip

    def _leave_room(self) -> None:
        """Let a narrow window show the expert section or the linked views: opening one of them closes the other."""
        compare, toggle = self.labels.compare, self.linked.toggle
        if SIDE_BY_SIDE not in compare.labels:
            return
        parts = {"compare": compare, "toggle": toggle, "beside": compare.labels.index(SIDE_BY_SIDE)}
        both = f"if (window.innerWidth < {NARROW} && compare.active === beside && toggle.active)"
        compare.js_on_change("active", CustomJS(args=parts, code=f"{both} toggle.active = false"))
        toggle.js_on_change("active", CustomJS(args=parts, code=f"{both} compare.active = 0"))

    def _beat(self) -> None:
        self.connection.beat += 1

    def layout(self) -> Any:
        """Return the layout of the page: the top bar, the section viewer, and the five steps as tabs."""
        style = {"background": "#eef2f6", "border-bottom": "1px solid #cfd8e3"}
        name, space = title(self.session.path.name), pn.Spacer(width=20)
        top = pn.Row(name, space, *self.bar, self.history, self.keys, self.connection, styles=style, **WIDE)
        self.steps = pn.Tabs(
            ("1 Exemplars", self.exemplars.layout(self.unseen.layout())),
            ("2 Retrieved", self.retrieved.layout()),
            ("3 Labels", pn.Column(self.labels.layout(), self.strip.layout(), **BOTH)),
            ("4 Results", self.results.layout(self.audit.layout())),
            ("5 Geology", self.geology.layout()),
            active=min(max(int(self.viewer.view.get("step", EXEMPLARS)), EXEMPLARS), GEOLOGY),
            dynamic=False, width=430, sizing_mode="stretch_height", stylesheets=[TABS],
        )  # fmt: skip
        self._resize()
        viewer = self.viewer.layout(
            looks=[self.linked.toggle], above=[self.layers.bar], others=[self.linked.column],
            strip=[self.strip.figure],
        )  # fmt: skip
        if STEP_OF.get(self.viewer.tool_buttons.active, self.steps.active) != self.steps.active:
            self.viewer.take(LOOK)
        self._show_step()
        # Panel calls this without the document's lock
        self.steps.param.watch(lambda _: self.document.add_next_tick_callback(self._show_step), "active")
        # in the browser: a reply of the server could undo a key pressed right after the click
        away = f"const step = {json.dumps(STEP_OF)}[tool.active]; "
        away += f"if (step !== undefined && step !== cb_obj.active) tool.active = {LOOK}"
        self.steps.jscallback(active=away, args={"tool": self.viewer.tool_buttons})
        self.results.visible = lambda: self.steps.active == RESULTS
        return pn.Column(top, self.guide, pn.Row(viewer, self.splitter, self.steps, **BOTH), **BOTH)

    def _resize(self) -> None:
        """Give the panel with the five steps the width that was chosen with the splitter, or fold the panel."""
        panel, folded = self.splitter.panel, self.splitter.folded
        # by default the section takes more of a small screen
        styles = {"max-width": "calc(100vw - 380px)" if panel else "max(370px, 30vw)"}
        self.steps.param.update(visible=not folded, width=panel or 430, styles=styles)
        self.viewer.view.keep(panel=panel, folded=folded)

    # ---- changes ----------------------------------------------------------------------------------------------------

    def _on_change(self, what: str) -> None:
        """Schedule an update of the page; `what` is a kind of change from `Session.listen`.

        The session may call this method from any thread.
        """
        with self._lock:
            first = not self._pending
            self._pending.add(what)
        if first:
            self.document.add_next_tick_callback(self._catch_up)

    def _catch_up(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, set()
        with self.job.log.held():
            for what in sorted(pending):
                self._update(what)

    @guarded
    def _update(self, what: str) -> None:
        for show in self._updates[what]:
            show()
        self._show_work()

    def _say(self, text: str, *, wrong: bool = False) -> None:
        """Show a message at the top of the page; if `wrong` is True, show it in red as an error."""
        self.status.text = escape(text)
        self.status.styles = {"color": "#b01818" if wrong else "#334", "font-size": "13px"}

    def _show_work(self) -> None:
        work = self.session.work
        self.cancel_button.visible = bool(work.alive)
        words = [] if work.busy or not work.message else [work.message]
        for task in work.alive[:1]:
            share = f" {100 * task.done / task.total:.0f} %" if task.total else ""
            words.append(f"{task.title.capitalize()}{share} ...")
        if not words and self.session.search.searching:
            words.append("Searching ...")
        if not words and self.session.geology.picking:
            words.append("Picking faults of this section ...")
        self.say(" ".join(words) or "Ready.", wrong=work.wrong and not work.busy)
        self.retrieved.show_note()
        if not work.busy:
            self.results.show_written()
            self.geology.show_written()
        panels = (self.exemplars, self.unseen, self.retrieved, self.labels, self.audit, self.results, self.geology)
        for one in (action for part in panels for action in part.actions):
            one.disabled = work.busy

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_find(self) -> None:
        self.steps.active = RETRIEVED
        self.retrieved.forget_order()
        self.session.search.retrieve(self.viewer.line)

    def _show_step(self) -> None:
        """Update the page after a change of the step: outlines of retrieved patches are visible in step 2 only."""
        step = self.steps.active
        self.viewer.plot.outlines.visible = step == RETRIEVED
        self.viewer.view.keep(step=step)
        self.results.show()

    def _on_tool(self, tool: int) -> None:
        """Open the step to which the selected tool belongs, for instance step 3 for the brush."""
        self.steps.active = STEP_OF.get(tool, self.steps.active)

    def _after_draw(self) -> None:
        section = (self.viewer.direction, self.viewer.position)
        if section != self._section and not self.session.work.wrong:
            self.session.work.forget()
            self._show_work()
        self._section = section
        self.linked.follow()
        self.labels.show()
        self.viewer.show_classes()
        self.geology.show()
        self.strip.show()
        self.viewer.show_warnings()
        self._show_guide()

    def _show_guide(self) -> None:
        """Show a sentence above the section that says what to do next."""
        self.guide.text = f"<span role='status'><b>Next:</b> {escape(next_step(self.session, self.viewer.line))}</span>"

    def _on_history(self) -> None:
        acts = self.session.last_acts()
        text = "The last decision of each kind and person. Undo cancels the chosen one and keeps all later decisions."
        self.history.ask("Undo one decision", text if acts else "There is nothing to undo.", acts, "Close")

    @guarded
    def _on_undo_one(self, message: Message) -> None:
        self.session.undo(message["key"])

    def _on_help(self) -> None:
        self.keys.help += 1

    @guarded
    def _on_connection(self, message: Message) -> None:
        """Handle a message from connection.js.

        A message contains either a new stroke, which is stored and confirmed to the browser, or the section that was in
        view when the connection broke, which is shown again.
        """
        if message["verb"] == "section":
            self.viewer.go(*(int(part) for part in message["section"]))
            return
        stored = [*self.connection.stored, message["id"]][-MOST_STORED:]  # the browser drops these strokes
        try:
            self.viewer.paint(message)
        except OSError as error:  # the browser keeps the stroke
            raise OSError(f"{error}; the stroke is not stored, but this tab keeps it: reload the page.") from error
        except Exception:
            self.connection.stored = stored  # an invalid stroke stays invalid: the browser drops it
            raise
        self.connection.stored = stored

    @guarded
    def _on_key(self, message: Message) -> None:
        viewer, labels, toggle = self.viewer, self.labels, self.linked.toggle
        radius, by = viewer.radius, int(message.get("by", 0))
        verbs = {
            "step": lambda: viewer.step(by),
            "undo": self.session.undo,
            "history": self._on_history,
            "fold": lambda: self.splitter.param.update(folded=not self.splitter.folded),
            "redo": self.session.redo,
            "linked": lambda: toggle.update(active=not toggle.active),
            "next": labels.go_next,
            "confirm": self.strip.confirm,
            "unconfirm": self.strip.unconfirm,
            "next-line": self.strip.go_next,
            "stick": lambda: self.geology.on_key(message["what"]),
            "says": lambda: labels.brush_with(message["what"]),
            "radius": lambda: radius.update(value=min(max(radius.value + by, radius.start), radius.end)),
            "class": lambda: self._choose_class(int(message["number"])),
        }
        verb: Any = verbs.get(message.get("verb", ""), lambda: None)
        verb()

    def _choose_class(self, number: int) -> None:
        """Choose a class by its number key.

        In step 2 the class of the gallery changes, in step 3 that of the brush, in other steps that of new exemplars.
        """
        keys = self.session.class_keys()
        name = next((name for name, key in keys.items() if key == number), None)
        if name is None:
            numbers = ", ".join(map(str, sorted(keys.values())))
            remedy = f"choose one of {numbers}" if numbers else "add a class first"
            raise ValueError(f"No class has the key {number}; {remedy}.")
        if self.steps.active == LABELS:
            self.labels.brush_with(name)
        elif self.steps.active == RETRIEVED:
            self.retrieved.class_buttons.active = list(keys).index(name)
        else:
            self.exemplars.choose(name)
