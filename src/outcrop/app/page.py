"""The page itself: a section viewer and five steps around one `Session`."""

import functools
import json
import threading
from typing import Any

import panel as pn
from bokeh.models import Button, CheckboxGroup, CustomJS, Div

from outcrop.app.audit_panel import AuditPanel
from outcrop.app.components import Connection, Keys, button, escape, guarded, heading, hint, title
from outcrop.app.exemplar_panel import ExemplarPanel
from outcrop.app.geology_panel import GeologyPanel
from outcrop.app.label_panel import LabelPanel
from outcrop.app.linked import LinkedViews
from outcrop.app.plot import SIDE_BY_SIDE
from outcrop.app.results import shown_path
from outcrop.app.retrieved_panel import RetrievedPanel
from outcrop.app.unseen_panel import UnseenPanel
from outcrop.app.viewer import LOOK, PAINTING, PLACE, Viewer

EXEMPLARS, RETRIEVED, LABELS, RESULTS, GEOLOGY = range(5)  # numbers of the steps
STEP_OF = {PLACE: EXEMPLARS} | dict.fromkeys(PAINTING, LABELS)  # where a tool belongs
MOST_STORED = 100  # ids that the browser is sent at once
NARROW = 1200  # pixels of a window that holds a section with the expert's or with linked views, not with both
TABS = ".bk-tab { padding: 4px 5px; font-size: 12.5px; } @media (max-width: 1240px) { .bk-tab { font-size: 11.5px; } }"
BEAT = 2000  # milliseconds between two signs of life; see connection.js


class Page:
    """One tab of the browser.

    Parameters
    ----------
    session : Session
        Shared by all tabs.
    document : bokeh.document.Document
        Of this tab.
    """

    def __init__(self, session, document):
        self.session, self.document = session, document
        self._pending: set = set()
        self._lock = threading.Lock()
        self.status = Div(text="", name="status", sizing_mode="stretch_width", align="center")
        self.viewer = Viewer(session, self.say)
        self.linked = LinkedViews(self.viewer)
        self.exemplars = ExemplarPanel(self.viewer, self._on_find)
        self.retrieved = RetrievedPanel(self.viewer, self._on_find)
        self.labels = LabelPanel(self.viewer)
        self.results = ResultPanel(self.viewer)
        self.geology = GeologyPanel(self.viewer)
        self.audit = AuditPanel(self.viewer)
        self.unseen = UnseenPanel(self.viewer)
        self.viewer.after_draw = self._after_draw
        self._section = (self.viewer.direction, self.viewer.position)  # that messages are about
        self.viewer.after_take = self._on_tool
        self.viewer.after_choose = self.labels.show_classes  # a brush that says nothing else yet paints that class
        self.undo_button = Button(label="↶ Undo", name="undo")
        self.undo_button.js_on_click(CustomJS(code="window.dispatchEvent(new Event('outcrop-undo'))"))  # see keys.js
        self.redo_button = button("↷ Redo", self._on_redo, name="redo")
        self.cancel_button = button("Cancel", session.work.cancel, name="cancel", visible=False)
        self.keys = Keys(self._on_key, width=0, height=0, margin=0)
        self.connection = Connection(self._on_connection, width=0, height=0, margin=0)
        self.help_button = button("Keys ( ? )", self._on_help, name="keys")
        self._leave_room()
        for one in (*self.viewer.on_ready, *self.labels.on_ready):
            document.js_on_event("document_ready", one)
        document.add_periodic_callback(self._beat, BEAT)
        document.config.notify_connection_status = False  # connection.js says it in words
        document.config.reconnect_session = False  # and reloads, for a new server has another document
        self.stop_listening = session.listen(self._on_change)
        self.viewer.draw(new_frame=True)
        for what in ("state", "weak", "labels", "places"):
            self._update(what)

    def _leave_room(self):
        """In a narrow window the expert's section closes the linked views, and they close the expert's section."""
        compare, toggle = self.labels.compare, self.linked.toggle
        if SIDE_BY_SIDE not in compare.labels:
            return
        parts = {"compare": compare, "toggle": toggle, "beside": compare.labels.index(SIDE_BY_SIDE)}
        both = f"if (window.innerWidth < {NARROW} && compare.active === beside && toggle.active)"
        compare.js_on_change("active", CustomJS(args=parts, code=f"{both} toggle.active = false"))
        toggle.js_on_change("active", CustomJS(args=parts, code=f"{both} compare.active = 0"))

    def close(self):
        """Stop listening to the session."""
        self.stop_listening()

    def _beat(self):
        self.connection.beat += 1

    def layout(self):
        """Everything, arranged."""
        both, wide = {"sizing_mode": "stretch_both"}, {"sizing_mode": "stretch_width"}
        bar = {"background": "#eef2f6", "border-bottom": "1px solid #cfd8e3"}
        actions = (self.undo_button, self.redo_button, self.help_button, self.status, self.cancel_button)
        top = pn.Row(
            title(self.session.path.name), pn.Spacer(width=20), *actions, self.keys, self.connection, styles=bar, **wide
        )
        self.steps = pn.Tabs(
            ("1 Exemplars", self.exemplars.layout(self.unseen.layout())),
            ("2 Retrieved", self.retrieved.layout()),
            ("3 Labels", self.labels.layout()),
            ("4 Results", self.results.layout(self.audit.layout())),
            ("5 Geology", self.geology.layout()),
            active=min(max(int(self.session.view.get("step", EXEMPLARS)), EXEMPLARS), GEOLOGY),
            dynamic=False,
            width=430,
            sizing_mode="stretch_height",
            styles={"max-width": "max(370px, 30vw)"},  # more of a small screen for the section
            stylesheets=[TABS],
        )
        viewer = self.viewer.layout(looks=[self.linked.toggle], others=[self.linked.column])
        if STEP_OF.get(self.viewer.tool_buttons.active, self.steps.active) != self.steps.active:
            self.viewer.take(LOOK)
        self._show_step()
        self.steps.param.watch(self._on_step, "active")
        # later in the browser, for a key pressed right after would be undone by an answer of the server
        away = f"const step = {json.dumps(STEP_OF)}[tool.active]; "
        away += f"if (step !== undefined && step !== cb_obj.active) tool.active = {LOOK}"
        self.steps.jscallback(active=away, args={"tool": self.viewer.tool_buttons})
        self.results.visible = lambda: self.steps.active == RESULTS
        return pn.Column(top, pn.Row(viewer, self.steps, **both), **both)

    # ---- telling ----------------------------------------------------------------------------------------------------

    def _on_change(self, what):
        """Called by the session from any thread."""
        with self._lock:
            first = not self._pending
            self._pending.add(what)
        if first:
            self.document.add_next_tick_callback(self._catch_up)

    def _catch_up(self):
        with self._lock:
            pending, self._pending = self._pending, set()
        with self.session.job.log.held():
            for what in sorted(pending):
                self._update(what)

    @guarded
    def _update(self, what):
        if what == "state":
            for part in (self.viewer, self.retrieved, self.labels, self.unseen):
                part.show_classes()
            self.exemplars.show()
            self.viewer.show_boxes()
            self.viewer.show_painted()
            self.viewer.show_labels()
            self.linked.show_labels()
            self.labels.show()
            self.retrieved.show_marks()
        elif what == "strokes":
            self.viewer.show_painted()
            self.labels.show()
        elif what == "weak":
            self.retrieved.show()
            self.viewer.show_boxes()
        elif what == "section":
            self.viewer.draw()
            self.linked.refine()
        elif what == "labels":
            self.viewer.show_labels()
            self.linked.show_labels()
            self.viewer.show_classes()
            self.labels.show()
        elif what == "places":
            self.labels.show_next()
        if what in ("state", "strokes", "audit"):
            self.audit.show()
        if what in ("state", "unseen"):
            self.unseen.show()
        if what in ("state", "strokes", "labels", "geology"):
            self.geology.show()
        if what not in ("work", "places", "section", "geology", "audit", "unseen"):
            self.results.show()
        self._show_work()

    def say(self, text, *, wrong=False):
        """One line at the top of the page."""
        self.status.text = escape(text)
        self.status.styles = {"color": "#b01818" if wrong else "#334", "font-size": "13px"}

    def _show_work(self):
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
        for part in panels:
            for one in part.actions:
                one.disabled = work.busy

    # ---- doing ------------------------------------------------------------------------------------------------------

    @guarded
    def _on_find(self):
        self.steps.active = RETRIEVED
        self.retrieved.forget_order()
        self.session.search.retrieve(self.viewer.line)

    def _on_step(self, _event):
        self.document.add_next_tick_callback(self._show_step)  # Panel calls this without the document's lock

    def _show_step(self):
        """Outline the retrieved patches only while they are looked at."""
        step = self.steps.active
        self.viewer.plot.outlines.visible = step == RETRIEVED
        self.session.view.keep(step=step)
        self.results.show()

    def _on_tool(self, tool):
        """Show the step of a tool."""
        self.steps.active = STEP_OF.get(tool, self.steps.active)

    def _after_draw(self):
        section = (self.viewer.direction, self.viewer.position)
        if section != self._section and not self.session.work.wrong:
            self.session.work.forget()
            self._show_work()
        self._section = section
        self.linked.follow()
        self.labels.show()
        self.viewer.show_classes()
        self.geology.show()

    def _on_help(self):
        self.keys.help += 1

    @guarded
    def _on_connection(self, message):
        """Store a stroke and tell the browser, or show the section that was in view before the connection broke."""
        if message["verb"] == "section":
            self.viewer.go(*(int(part) for part in message["section"]))
            return
        try:
            self.viewer.paint(message)
        except OSError as error:  # the browser keeps it
            raise OSError(f"{error}; this tab keeps the stroke: reload the page to store it.") from error
        except Exception:
            self._let_go(message["id"])  # it is refused, now and later
            raise
        self._let_go(message["id"])

    def _let_go(self, id):
        """Tell the browser that a stroke need not be kept."""
        self.connection.stored = [*self.connection.stored, id][-MOST_STORED:]

    @guarded
    def _on_key(self, message):
        verb, viewer = message.get("verb"), self.viewer
        if verb == "step":
            viewer.step(int(message.get("by", 0)))
        elif verb in ("undo", "redo"):
            (self._on_undo if verb == "undo" else self._on_redo)()
        elif verb == "linked":
            self.linked.toggle.active = not self.linked.toggle.active
        elif verb == "next":
            self.labels.go_next()
        elif verb == "says":
            self.labels.brush_with(message["what"])
        elif verb == "radius":
            radius = viewer.radius
            radius.value = min(max(radius.value + int(message["by"]), radius.start), radius.end)
        elif verb == "strokes":
            self.labels.strokes.active = [] if self.labels.strokes.active else [0]
        elif verb == "overlay":
            self.labels.toggle()
        elif verb == "class":
            self._choose_class(int(message["number"]))

    def _choose_class(self, number):
        """Take a class by its number: for the brush where labels are looked at, for exemplars otherwise."""
        names = list(self.session.job.palette)
        if not 1 <= number <= len(names):
            raise ValueError(f"There is no class {number}; there are {len(names)}.")
        if self.steps.active == LABELS:
            self.labels.brush_with(names[number - 1])
        elif self.steps.active == RETRIEVED:
            self.retrieved.class_buttons.active = number - 1
        else:
            self.exemplars.choose(names[number - 1])

    @guarded
    def _on_undo(self):
        self.session.undo()

    @guarded
    def _on_redo(self):
        self.session.redo()


class ResultPanel:
    """Step 4: exports, and the command lines that repeat the work."""

    def __init__(self, viewer):
        self.viewer, self.results, self.say = viewer, viewer.session.results, viewer.say
        self.visible: Any = lambda: True
        self.actions = [
            button(text, functools.partial(self._on_export, kind), name=f"export-{kind}")
            for kind, text in {
                "segy": "SEG-Y labels",
                "confidence": "SEG-Y confidence",
                "zarr": "Zarr",
                "training": "Training set",
                "figure": "Figure of this line",
            }.items()
        ]
        self.stale = CheckboxGroup(labels=["include stale lines"], active=[], name="include-stale")
        self.lines = Div(text="", name="lines", sizing_mode="stretch_width")
        self.written = Div(text="", name="exported", sizing_mode="stretch_width")
        wrapped = {"white-space": "pre-wrap", "overflow-wrap": "anywhere", "font": "12px monospace"}
        self.commands = Div(text="", name="commands", sizing_mode="stretch_width", styles=wrapped)

    def layout(self, *above):
        """Everything, arranged, below other panels."""
        exports = [
            heading("Export into the job folder"),
            self.lines,
            self.stale,
            pn.FlexBox(*self.actions),
            self.written,
        ]
        what = hint(
            "Yes and no to patches and brush strokes travel in a file of decisions to another job on the survey."
        )
        repeat = [heading("The same from a terminal"), what, self.commands]
        return pn.Column(*above, *exports, *repeat, scroll="y-auto", sizing_mode="stretch_both")

    @guarded
    def _on_export(self, kind):
        self.results.start(kind, line=self.viewer.line, stale=bool(self.stale.active))

    def show(self):
        """Bring it up to what was written and done, where anybody looks."""
        if not self.visible():
            return
        names = (
            f"<span style='color:{colour}'>■</span>&nbsp;{escape(name)} {colour}"
            for name, colour in self.results.colours().items()
        )
        self.lines.text = f"{escape(self.results.summary())}<br>colours: {', '.join(names)}"
        self.stale.visible = "stale" in self.lines.text
        lines = (command.replace(" --", " \\\n    --") for command in self.results.commands())
        self.commands.text = escape("\n\n".join(lines))

    def show_written(self):
        """Say what was exported so far."""
        texts = [one.text.replace(str(one.path), shown_path(one.path), 1) for one in self.results.written]
        self.written.text = "".join(f"<div>{escape(text)}</div>" for text in texts)


def chooser(desk):
    """Page that lets choose one of the volumes and jobs of a folder."""
    status = Div(text="", name="status", styles={"color": "#b01818"})
    done = Div(text="", visible=False)
    done.js_on_change("text", CustomJS(code="window.location.reload()"))

    def open_one(name):
        try:
            desk.open(name)
            done.text = name
        except (ValueError, OSError) as error:
            status.text = escape(error)

    buttons = [button(name, functools.partial(open_one, name), width=320) for name in desk.choices()]
    nothing = [] if buttons else [hint("No volume (.sgy, .zarr, .npy) and no job (.outcrop) lies in this folder.")]
    return pn.Column(title(desk.folder), hint("Open a volume, or go on with a job:"), *buttons, *nothing, status, done)
