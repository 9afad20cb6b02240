"""Audits on the page: a thread draws random questions, and the answers are stored as decisions of the job."""

from typing import TYPE_CHECKING, Any

from outcrop.app.work import Last, Task
from outcrop.job.auditing import Audit
from outcrop.job.entries import AUDIT_ANSWERS as ANSWERS

if TYPE_CHECKING:
    from outcrop.app.session import Session

QUESTIONS = 30  # number of questions of an audit, and of every extension


class Audits:
    """The audit of a session; it continues if the browser tab that started it is closed.

    Parameters
    ----------
    session : Session
        The open job with its tasks.

    Attributes
    ----------
    audit : Audit or None
        The audit in progress; None if no audit is open.
    clicks : int
        Number of questions that the interpreter requested.
    """

    def __init__(self, session: "Session") -> None:
        self.session, self.job = session, session.job
        self.audit: Audit | None = None
        self.clicks = QUESTIONS
        self._classes: dict[str, str | None] = {}  # name of an audited class -> the name with which it was added
        self._current = Last()

    def start(self, of: str, clicks: int = QUESTIONS) -> Task:
        """Start an audit: draw random questions in a thread.

        Parameters
        ----------
        of : {"patches", "samples"}
            Whether the questions are about retrieved patches or about labelled samples.
        clicks : int
            Number of questions.
        """
        if of == "patches" and not (self.job.plan.queries and self.job.indexed):
            raise ValueError("No patches are retrieved yet; find similar patches first (step 1).")
        if of == "samples" and all(self.job.labelled.values()):
            raise ValueError("No line has up-to-date labels; label a line first (step 3).")

        def draw(_: Task) -> None:
            audit = Audit(self.job, clicks, of=of)
            self._classes = self._first_names(audit)
            self.audit, self.clicks = audit, clicks
            self.session.tell("audit")
            self.session.search.refresh(mine=False)  # patches of the present decisions may have been retrieved

        return self.session.work.start("drawing questions", draw)

    def more(self) -> None:
        """Extend the audit by `QUESTIONS` questions; the answers given so far are kept."""
        if self.audit is not None:
            self.start(self.audit.of, self.clicks + QUESTIONS)

    def close(self) -> None:
        """Close the audit; answers are kept, and a later audit continues with the same questions."""
        self.audit = None
        self.session.tell("audit")

    def is_current(self, audit: Audit) -> bool:
        """Return whether the patches or labels that `audit` asks about were made from the present decisions."""

        def compare() -> bool:
            key = self.job.plan.keys["retrieved" if audit.of == "patches" else "votes"]
            return key == audit.population.key and self._classes == self._first_names(audit)

        return self._current.get((audit, self.job.plan), compare)

    def _first_names(self, audit: Audit) -> dict[str, str | None]:
        return {name: self.job.plan.firsts.get(name) for name in audit.population.classes}

    def answer(self, number: int, answer: str, really: str | None = None) -> None:
        """Record the answer to a question: "yes", "no" or "unknown".

        `number` is the number of the question. For a wrong sample, `really` can name its true class; the answer then
        counts as "no".
        """
        if answer not in ANSWERS:
            raise ValueError(f"{answer!r} is not an answer; choose {', '.join(ANSWERS)}.")
        if self.audit is None:
            raise ValueError("No question is open; draw questions first.")
        if not self.is_current(self.audit):
            raise ValueError(
                "The patches or labels changed since these questions were drawn; draw the questions again."
            )
        given: dict[str, Any] = {"really": {number: really}} if really else {answer: [number]}
        self.audit.answer(**given)
