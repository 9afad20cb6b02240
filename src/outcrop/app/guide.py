"""The sentence at the top of the page that states the next step and its reason."""

from outcrop.app.advice import taught_classes
from outcrop.app.session import Session
from outcrop.words import counted


def next_step(session: Session, line: float | None) -> str:
    """Return a sentence that states the next step of the interpreter and its reason.

    Parameters
    ----------
    session : Session
        The open job with its tasks.
    line : float or None
        Number of the line in view; None if the section in view is a time slice or runs across the lines.
    """
    job, name = session.job, session.survey.line_name
    plan = job.plan
    classes, taught = job.classes, taught_classes(session)
    if not classes:
        return (
            "Add a class in step 1, for instance salt dome, and click on places that show it: labels are learnt from "
            "these exemplars. Fault sticks need no class."
        )
    bare = [one for one in classes if one not in taught and one != plan.background_name]  # it needs no exemplar
    if bare and not plan.label.mapper:
        return f"Click on a place that shows {bare[0]!r} clearly (P): a class without an exemplar gets no labels."
    background = session.advice.background()
    if background:
        return background[0]
    total, labelled, stale = session.labelling.counts()
    if line is None:
        return f"Show one of the {name}s to place exemplars and to label; other sections are for viewing only."
    position = session.survey.line_at(line)
    if position not in session.labelling.done():
        return (
            f"Label this line (step 3): {counted(len(classes), 'classes', 'are')} marked, and the labels show whether "
            "the marks are enough."
        )
    if session.labelling.is_stale(position):
        return "Label this line again (step 3): its labels are older than your last decisions."
    if labelled < total or stale:
        return (
            f"Paint where labels are wrong (B), then label the survey (step 3): {labelled - stale} of {total} lines "
            "are up to date."
        )
    return "All lines are labelled: correct the least certain places (N), or audit and export the labels (step 4)."
