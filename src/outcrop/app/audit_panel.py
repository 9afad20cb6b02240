"""The audit on the page: the interpreter judges random patches or labels, to estimate the share that is right."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
from bokeh.models import RadioButtonGroup

from outcrop.app.audit import QUESTIONS
from outcrop.app.components import SMALL, WIDE, Message, Question, escape, guarded, heading, hint, note, thumbnail
from outcrop.app.viewer import Panel, Viewer
from outcrop.app.work import Last
from outcrop.job.auditing import Audit

SUBJECTS = {"the patches": "patches", "the labels": "samples"}  # text on the page -> argument of `Audit`
TABLE = "width:100%; border-collapse:collapse; font-size:12px; font-variant-numeric:tabular-nums"


class AuditPanel(Panel):
    """The panel of an audit: one question at a time, and a table with the estimated share of right patches or labels.

    Parameters
    ----------
    viewer : Viewer
    """

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self.audits = self.session.audits
        self.number: int | None = None  # number of an earlier question to show; None for the first without an answer
        self._drawn, self._shown = Last(), Last()
        self.subject = self.view.follow(RadioButtonGroup(labels=list(SUBJECTS), active=0, name="audit-of"))
        ask = self.button(f"Ask {QUESTIONS} questions", self._on_ask, "audit-ask", button_type="primary")
        self.more = self.button(f"{QUESTIONS} more", self._on_more, "audit-more")
        self.close = self.button("Close", self.audits.close, "audit-close")
        self.actions = [ask, self.more]
        self.what = hint("Judge random retrieved patches or labelled samples, to estimate the share that is right.")
        self.question = Question(self._on_question, **WIDE)
        self.note, self.table = note("audit-note", **SMALL), note("audit-table")

    def layout(self) -> Any:
        """Return the widgets of the panel, arranged in a column."""
        chosen = pn.FlexBox(self.subject, *self.actions, self.close)
        column = [heading("How good is it?"), self.what, chosen, self.question, self.note, self.table]
        return pn.Column(*column, **WIDE)

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_ask(self) -> None:
        self.number = None
        self.audits.start(SUBJECTS[self.subject.labels[self.subject.active]])

    def _on_more(self) -> None:
        self.number = None
        self.audits.more()

    @guarded
    def _on_question(self, message: Message) -> None:
        shown, number = self.question.item, int(message["number"])
        if self.audits.audit is None or number != shown.get("number"):
            return  # a second click, before the next question appeared
        if message["verb"] == "go":
            self.viewer.jump(shown["place"])
        elif message["verb"] == "back":
            self.number = number - 1
            self.show()
        else:
            self.number = None
            self.session.decide(self.audits.answer, number, message["answer"], message["really"] or None)

    # ---- showing ----------------------------------------------------------------------------------------------------

    @guarded
    def show(self) -> None:
        """Update the question shown, the number of answers, and the table of estimates."""
        self._shown.get((self.audits.audit, self.job.plan, self.number), self._show)

    def _show(self) -> None:
        audit = self.audits.audit
        self.more.visible, self.what.visible = False, audit is None
        for part in (self.close, self.question, self.note, self.table):
            part.visible = audit is not None
        if audit is None:
            self.question.item = {}
            return
        questions, current = audit.questions, self.audits.is_current(audit)
        waiting = questions.index[questions["answer"] == ""]
        number = self.number or (int(waiting[0]) if len(waiting) else None)
        self.question.item = self._item(audit, questions, number, current)
        answered, total = len(questions) - len(waiting), len(questions)
        self.more.visible = answered == total == self.audits.clicks
        self.note.text = "; ".join(notes(audit, answered, total, current=current))
        self.table.text = table_text(audit.estimates, samples=audit.of == "samples", palette=self.job.palette)

    def _item(self, audit: Audit, questions: pd.DataFrame, number: int | None, current: bool) -> dict[str, Any]:
        """Return a dict with the values that the component `Question` shows.

        `number` is the number of the question, or None if all questions are answered; then no picture is shown.
        """
        if number is None:
            return {"number": len(questions) + 1}
        row, palette = questions.loc[number], self.job.palette
        name, place = row["class"], [float(row[dim]) for dim in self.survey.volume.dims]
        others = [{"name": other, "colour": colour} for other, colour in palette.items() if other != name]
        return {
            "number": number, "name": name, "colour": palette.get(name, "#888888"), "place": place,
            "where": f"{number} of {len(questions)} · " + ", ".join(f"{value:g}" for value in place),
            "answer": row["answer"], "classes": others if audit.of == "samples" else [], "current": current,
            **self._drawn.get((audit, number), lambda: drawn(audit, number)),
        }  # fmt: skip


def drawn(audit: Audit, number: int) -> dict[str, Any]:
    """Return a dict with the picture of an audit question, and the box around its patch or sample in the picture.

    The keys are ``src`` (data URL of the picture), ``width`` and ``height`` in pixels, and ``box``: [top, left, height,
    width] in pixels. One pixel is one sample of one trace.
    """
    amplitudes, box = audit.picture(number)
    codes = np.round(255 * np.clip(np.nan_to_num(amplitudes, nan=0.5), 0, 1)).astype(np.uint8)
    height, width = codes.shape
    return {"src": thumbnail(codes), "width": width, "height": height, "box": [int(part) for part in box]}


def notes(audit: Audit, answered: int, total: int, *, current: bool) -> Iterator[str]:
    """Yield notes about an audit as HTML: the number of answers, and whether questions or answers are out of date.

    `current` is False if the patches or labels changed after the questions were drawn.
    """
    yield f"<b>{answered} of {total} answered</b>"
    things = "patches" if audit.of == "patches" else "labels"
    if not current:
        yield f"<b style='color:#b01818'>the {things} changed since: draw the questions again</b>"
    if audit.older:
        yield f"{audit.older} older answer{'s' * (audit.older != 1)} not counted: the {things} changed"


def table_text(estimates: pd.DataFrame, *, samples: bool, palette: dict[str, str]) -> str:
    """Return an HTML table with the estimated share of right patches or labels, and its 95 % interval.

    The table has one row for each class, and one row for all classes together.

    Parameters
    ----------
    estimates : DataFrame
        Estimates from `Audit.estimates`.
    samples : bool
        True if labelled samples were judged, False if retrieved patches were judged.
    palette : dict
        Class -> colour.
    """
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
    what = f"Estimated share of right {'labels' if samples else 'patches'}, with a 95 % interval."
    if samples and not iou:
        what += " IoU needs the true class of every wrong sample."
    head = f"<tr style='color:#667'>{table_cells(heads, 'th')}</tr>"
    return f"<table style='{TABLE}'>{head}{body}</table><div style='color:#667; font-size:11.5px'>{what}</div>"


def table_cells(cells: Sequence[str], tag: str) -> str:
    """Return the HTML cells of a table row; `tag` is "td" or "th". The first cell is aligned left, the others right."""
    sides = ["left", *["right"] * (len(cells) - 1)]
    style = "padding:2px 4px; font-weight:inherit; text-align"
    return "".join(f"<{tag} style='{style}:{side}'>{cell}</{tag}>" for cell, side in zip(cells, sides, strict=True))


def interval_text(share: float, low: float, high: float) -> str:
    """Return a text with a share (0 to 1) and its interval in percent; a hyphen if the share is unknown (NaN).

    Examples
    --------
    >>> interval_text(0.83, 0.662, 0.93), interval_text(float("nan"), 0, 1)
    ('83 % (66 to 93)', '-')
    """
    return "-" if not np.isfinite(share) else f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
