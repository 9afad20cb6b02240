"""What to do next on the page, and why, in a line."""

from outcrop.app.advice import taught_classes
from outcrop.app.session import Session
from outcrop.words import counted


def next_step(session: Session, line: float | None) -> str:
    """Return what to do next, and why.

    Parameters
    ----------
    session : Session
    line : float or None
        Number of the line in view, None on a section across the lines.
    """
    job, name = session.job, session.survey.line_name
    plan = job.plan
    classes, taught = job.classes, taught_classes(session)
    if not classes:
        return (
            "Add a class in step 1, for instance salt dome, and click where it shows: labels are learnt from such "
            "places. Fault sticks need none."
        )
    bare = [one for one in classes if one not in taught and one != job.background]  # which needs no exemplar
    if bare and not plan.label.mapper:
        return f"Click where {bare[0]!r} shows best (P): without an exemplar nothing gets its label."
    background = session.advice.background()
    if background:
        return background[0]
    total, labelled, stale = session.labelling.counts()
    if line is None:
        return f"Go to one of the {name}s to place exemplars and to label: on other sections you see the result only."
    position = session.survey.line_at(line)
    if position not in session.labelling.done():
        return (
            f"Label this line (step 3): {counted(len(classes), 'classes', 'are')} marked, and labels show the effect."
        )
    if session.labelling.is_stale(position):
        return "Label this line again (step 3): its labels do not show what was decided since."
    if labelled < total or stale:
        return (
            f"Paint where labels are wrong (B), then label the survey (step 3): {labelled - stale} of {total} lines "
            "are up to date."
        )
    return "All lines are labelled: correct the least certain places (N), or audit and export the labels (step 4)."
