"""Audit on the page: random patches or labelled samples to say yes or no to, and how good the result is by that."""

import numpy as np
import panel as pn
from bokeh.models import Div, RadioButtonGroup

from outcrop.app.audit import QUESTIONS
from outcrop.app.components import Question, button, escape, guarded, heading, hint, thumbnail

SUBJECTS = {"the patches": "patches", "the labels": "samples"}  # on the page -> as `Audit` has it
TABLE = "width:100%; border-collapse:collapse; font-size:12px; font-variant-numeric:tabular-nums"


class AuditPanel:
    """Questions one by one, and a table of what the answers say.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer):
        self.viewer, self.session, self.say = viewer, viewer.session, viewer.say
        self.audits = self.session.audits
        self.number: int | None = None  # of a question that was gone back to; None: the first without an answer
        self._picture: tuple = (None, {})
        self._shown: tuple = ("", "", "")  # audit, decisions and number that are shown
        self.subject = self.session.view.follow(RadioButtonGroup(labels=list(SUBJECTS), active=0, name="audit-of"))
        ask = button(f"Ask {QUESTIONS} questions", self._on_ask, name="audit-ask", button_type="primary")
        self.more = button(f"{QUESTIONS} more", self._on_more, name="audit-more")
        self.close = button("Close", self._on_close, name="audit-close")
        self.actions = [ask, self.more]
        self.what = hint("Say yes or no to random patches, or to random samples of the labels.")
        self.question = Question(self._on_question, sizing_mode="stretch_width")
        self.note = Div(text="", name="audit-note", sizing_mode="stretch_width", styles={"font-size": "12px"})
        self.table = Div(text="", name="audit-table", sizing_mode="stretch_width")

    def layout(self):
        """Everything, arranged."""
        chosen = pn.FlexBox(self.subject, *self.actions, self.close)
        column = [heading("How good is it?"), self.what, chosen, self.question, self.note, self.table]
        return pn.Column(*column, sizing_mode="stretch_width")

    # ---- doing ------------------------------------------------------------------------------------------------------

    @guarded
    def _on_ask(self):
        self.number = None
        self.audits.start(SUBJECTS[self.subject.labels[self.subject.active]])

    @guarded
    def _on_more(self):
        self.number = None
        self.audits.more()

    def _on_close(self):
        self.audits.close()

    @guarded
    def _on_question(self, message):
        shown = self.question.item
        if self.audits.audit is None or int(message["number"]) != shown.get("number"):
            return  # a second click, before the next question was shown
        if message["verb"] == "go":
            self.viewer.jump(shown["place"])
        elif message["verb"] == "back":
            self.number = int(message["number"]) - 1
            self.show()
        else:
            self.number = None
            self.session.answer(int(message["number"]), message["answer"], message["really"] or None)

    # ---- showing ----------------------------------------------------------------------------------------------------

    @guarded
    def show(self):
        """Bring it up to the answers."""
        audit = self.audits.audit
        now = (audit, self.session.job.state, self.number)
        if all(one is before for one, before in zip(now, self._shown, strict=True)):
            return
        self._shown = now
        self.more.visible, self.what.visible = False, audit is None
        for part in (self.close, self.question, self.note, self.table):
            part.visible = audit is not None
        if audit is None:
            self.question.item = {}
            return
        questions = audit.questions
        number = self.number or self.audits.open_question()
        self.question.item = self._item(audit, questions, number)
        answered = int((questions["answer"] != "").sum())
        self.more.visible = answered == len(questions) == self.audits.clicks
        self.note.text = "; ".join(notes(audit, answered, len(questions), current=self.audits.current))
        self.table.text = table_text(audit.estimates, samples=audit.of == "samples", palette=self.session.job.palette)

    def _item(self, audit, questions, number):
        """What is shown of a question; no picture where all are answered."""
        if number is None:
            return {"number": len(questions) + 1}
        row, palette, dims = questions.loc[number], self.session.job.palette, self.session.job.volume.dims
        name, place = row["class"], [float(row[dim]) for dim in dims]
        others = [{"name": other, "colour": colour} for other, colour in palette.items() if other != name]
        return {
            "number": number, "name": name, "colour": palette.get(name, "#888888"), "place": place,
            "where": f"{number} of {len(questions)} · " + ", ".join(f"{value:g}" for value in place),
            "answer": row["answer"], "classes": others if audit.of == "samples" else [],
            "current": self.audits.current, **self._drawn(audit, number),
        }  # fmt: skip

    def _drawn(self, audit, number):
        """The picture of a question, and where in it the patch or sample lies."""
        if self._picture[0] != (audit, number):
            amplitudes, box = audit.picture(number)
            codes = np.round(255 * np.clip(np.nan_to_num(amplitudes, nan=0.5), 0, 1)).astype(np.uint8)
            height, width = codes.shape
            drawn = {"src": thumbnail(codes), "width": width, "height": height, "box": [int(part) for part in box]}
            self._picture = ((audit, number), drawn)
        return self._picture[1]


def notes(audit, answered, total, *, current):
    """How many questions are answered, and what no longer counts."""
    yield f"<b>{answered} of {total} answered</b>"
    things = "patches" if audit.of == "patches" else "labels"
    if not current:
        yield f"<b style='color:#b01818'>the {things} changed since: draw the questions again</b>"
    if audit.older:
        yield f"{audit.older} older answer{'s' * (audit.older != 1)} no longer count: the {things} changed"


def table_text(estimates, *, samples, palette):
    """Shares that are right by class with their intervals, as a table."""
    iou = samples and "IoU" in estimates
    heads = ["class", "right" if samples else "purity", *(["IoU"] if iou else []), "yes", "no", "?"]
    rows = []
    for _, row in estimates.iterrows():
        name, all_of_them = row["class"], row["class"] not in palette
        swatch = "" if all_of_them else f"<span style='color:{escape(palette[name])}'>■</span>&nbsp;"
        values = [interval_text(row["right"], row["low"], row["high"])]
        values += [interval_text(row["IoU"], row["IoU_low"], row["IoU_high"])] if iou else []
        cells = [swatch + escape(name), *values, *(str(row[answer]) for answer in ("yes", "no", "unknown"))]
        rows.append((cells, "font-weight:600; border-top:1px solid #cfd8e3" if all_of_them else ""))
    body = "".join(f"<tr style='{style}'>{table_cells(cells, 'td')}</tr>" for cells, style in rows)
    what = "Share that is right, with its interval of 95 %."
    if samples and not iou:
        what += " IoU needs the class of every wrong sample."
    head = f"<tr style='color:#667'>{table_cells(heads, 'th')}</tr>"
    return f"<table style='{TABLE}'>{head}{body}</table><div style='color:#667; font-size:11.5px'>{what}</div>"


def table_cells(cells, tag):
    """Cells of a row: the first to the left, the others to the right."""
    sides = ["left", *["right"] * (len(cells) - 1)]
    styled = zip(cells, sides, strict=True)
    return "".join(f"<{tag} style='text-align:{side}; padding:2px 4px; font-weight:inherit'>{cell}</{tag}>"
                   for cell, side in styled)  # fmt: skip


def interval_text(share, low, high):
    """A share with its interval in percent.

    Examples
    --------
    >>> interval_text(0.83, 0.662, 0.93), interval_text(float("nan"), 0, 1)
    ('83 % (66 to 93)', '-')
    """
    return "-" if not np.isfinite(share) else f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
