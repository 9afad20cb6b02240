"""Audits of a session: questions about the result that are drawn in a thread, and answers that are decisions."""

from typing import Any

from outcrop.job.auditing import ANSWERS, Audit
from outcrop.job.labelling import Labelling

QUESTIONS = 30  # of an audit, and as many more as somebody asks for


class Audits:
    """The audit of a session; it outlives the tab that began it.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    audit : Audit or None
        The questions that are asked.
    clicks : int
        How many were asked for.
    """

    def __init__(self, session):
        self.session, self.job = session, session.job
        self.audit: Any = None
        self.clicks = QUESTIONS
        self._classes: dict = {}  # names of the classes asked about -> their first names
        self._current: tuple = (None, False)

    def start(self, of, clicks=QUESTIONS):
        """Draw questions about the "patches" or the "samples" of the labels, in a thread."""
        if of == "patches" and not (self.job.retrievable() and self.job.indexed()):
            raise ValueError("There are no retrieved patches to ask about yet; find similar patches first (step 1).")
        if of == "samples" and all(self.job.labelled().values()):
            raise ValueError(
                "There are no labels of the present decisions to ask about yet; label a line first (step 3)."
            )

        def draw(_):
            audit = Audit(self.job, clicks, of=of)
            self._classes = self._first_names(audit)
            self._current = (None, False)
            self.audit, self.clicks = audit, clicks
            self.session.tell("audit")
            self.session.search.refresh(mine=False)  # patches of the present decisions may have been retrieved

        return self.session.work.start("drawing questions", draw)

    def more(self):
        """Go on with as many questions again; answers stay."""
        return self.start(self.audit.of, self.clicks + QUESTIONS)

    def close(self):
        """Ask no more; answers stay, and the same questions go on where they ended."""
        self.audit = None
        self.session.tell("audit")

    @property
    def current(self):
        """Whether the questions are about the patches or labels of the present decisions."""
        state = self.job.state
        if self._current[0] is not state:
            key = self.job.retrieved_key(state) if self.audit.of == "patches" else Labelling(self.job).votes_key()
            same = key == self.audit.population.key and self._classes == self._first_names(self.audit)
            self._current = (state, same)
        return self._current[1]

    def _first_names(self, audit):
        return {name: self.job.state.first_name(name) for name in audit.population.classes}

    def open_question(self):
        """Number of the first question without an answer, None where all have one."""
        return next((number for number, answer in self.audit.questions["answer"].items() if not answer), None)

    def answer(self, number, answer, really=None):
        """Answer a question with "yes", "no" or "unknown"; of a sample, with what it `really` is."""
        if answer not in ANSWERS:
            raise ValueError(f"{answer!r} is no answer; choose {', '.join(ANSWERS)}.")
        if not self.current:
            raise ValueError("The result changed since these questions were drawn; draw them again.")
        if really:
            self.audit.answer(really={number: really})
        else:
            self.audit.answer(**{answer: [number]})
