"""Commands on a job: status, decisions, paint, confirm, audit, unseen, clean."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Option

from outcrop.cli.console import answer, say, show_frame, warn
from outcrop.cli.opening import open_job
from outcrop.cli.options import AS_JSON, JOB
from outcrop.cli.program import app
from outcrop.cli.tables import picture, show_decisions, show_stages, show_status
from outcrop.cli.texts import OnePath, Text, Texts, line_list, named_value, number_list, stroke_points
from outcrop.parallel import memory_budget
from outcrop.words import counted

if TYPE_CHECKING:
    import outcrop as oc
    from outcrop.job.auditing import Audit

REPLIES = {"y": "yes", "n": "no", "c": "unknown"}


@app.command()
def status(job: JOB, json_: AS_JSON = False) -> None:
    """Show the decisions, options and results of a JOB, and the next command to run."""
    with open_job(job) as opened:
        report = opened.status()
    answer(json_, report, show_status, job, report)


@app.command()
def decisions(
    job: JOB,
    export_to: Annotated[OnePath, Option("--export", help="Write all decisions of the job to this file.")] = None,
    import_from: Annotated[
        OnePath,
        Option(
            "--import", help="Add the contents of this file to the job: exported decisions, fault sticks or a horizon."
        ),
    ] = None,
    class_: Annotated[
        Text, Option("--class", help="With --import: class of the fault sticks or the horizon in the file.")
    ] = None,
    as_: Annotated[
        str, Option("--as", help="With --import: add fault sticks or a horizon as 'strokes' or as 'exemplars'.")
    ] = "strokes",
    undo: Annotated[bool, Option("--undo", help="Undo your last act: all decisions of one command or click.")] = False,
    redo: Annotated[
        bool, Option("--redo", help="Redo your last undone act: all decisions of one command or click.")
    ] = False,
    json_: AS_JSON = False,
) -> None:
    """List, export, import, undo or redo the decisions in a JOB: exemplars, verdicts, strokes, options and others.

    The list states who decided what, when and from which program; undone decisions stay in the list. Positions are
    inline and crossline numbers and times, so decisions can be imported into another job, also on another version of
    the survey; decisions outside its volume are kept but not used. An import only adds decisions: your exemplars and
    options stay unchanged. One --undo undoes the whole import.
    """
    choices = {"--export": export_to, "--import": import_from, "--undo": undo, "--redo": redo}
    asked = [name for name, value in choices.items() if value]
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} cannot be combined; give one option in each command.")
    with open_job(job) as opened:
        if export_to is not None:
            say(f"{counted(opened.log.give(export_to), 'decisions')} written to {export_to}")
            return
        if undo or redo:
            undo_or_redo(opened, "undo" if undo else "redo")
            return
        if import_from is not None:
            from outcrop.job.retrieved import exemplars_outside

            import_file(opened, import_from, class_, as_)
            for text in exemplars_outside(opened):
                warn(text)
        table = opened.decisions
    answer(json_, table, show_decisions, table, counted(len(table), "decisions"))


def import_file(job: "oc.Job", path: Path, name: Text, what: str) -> None:
    """Import a file of decisions, fault sticks or a horizon into a job, and print what changed.

    Fault sticks and horizons are added as strokes or exemplars (`what`) of the class `name`.
    """
    from outcrop.job.decisions import import_name
    from outcrop.job.imports import import_words
    from outcrop.job.interpretations import import_exemplars, import_strokes, is_interpretation

    if not is_interpretation(path):
        before = job.plan.state
        say(f"{counted(job.log.take(path), 'decisions')} imported from {path}")
        for text in import_words(job.log.entries, import_name(path), before, job.plan.state):
            say(text.replace("JOB", str(job.path)))
        return
    if name is None:
        raise ValueError(f"{path} contains no class name; give the class with --class.")
    if what not in ("strokes", "exemplars"):
        raise ValueError(f"--as is {what!r}; choose strokes or exemplars.")
    taken = import_strokes(job, path, name) if what == "strokes" else len(import_exemplars(job, path, name))
    say(f"{counted(taken, what)} of {name} imported from {path}; --undo undoes the import")


def undo_or_redo(job: "oc.Job", what: str) -> None:
    """Undo or redo (`what`) the last act of this user, and print the decisions that changed.

    If the user has nothing to undo or redo, print who made the last decision and who can undo it.
    """
    done = job.undo() if what == "undo" else job.redo()
    table = job.decisions
    if done:
        show_decisions(table[table["id"].isin(job.log.entries[-1]["of"])].drop(columns="undone"), f"{what}: done")
        return
    text = f"{job.log.who} has no decision to {what} in {job.path}."
    others = table[~table["undone"] & ~table["what"].isin(["undo", "redo"]) & (table["who"] != job.log.who)]
    if len(others):
        last = others.iloc[-1]
        decision = " ".join(str(last[name]) for name in ("what", "class", "where") if last[name])
        origin = last["from"] or "an unknown program"
        same_person = last["who"].rpartition("-")[0] == job.log.who.rpartition("-")[0]  # in another program
        remedy = "undo it there, or here after that program is closed" if same_person else "that person can undo it"
        text += f" The last decision was made by {last['who']}, in {origin}: {decision}; {remedy}."
    say(text)


@app.command()
def paint(
    job: JOB,
    stroke: Annotated[
        list[str], Option(help="Stroke through points of one section: LINE,TRACE,TIME:TRACE,TIME... May be repeated.")
    ],
    class_: Annotated[
        str,
        Option(
            "--class",
            help="Class of the painted samples; or 'right' or 'wrong' to judge their labels; or 'erase' to remove "
            "earlier strokes.",
        ),
    ],
    radius: Annotated[
        float | None, Option(help="Radius of the stroke in samples and traces; default: 4, or 0.5 with --filled.")
    ] = None,
    along: Annotated[str, Option(help="Direction of the painted sections: inline or crossline.")] = "inline",
    filled: Annotated[
        bool, Option("--filled", help="Join the last point of the stroke to the first, and paint the enclosed area.")
    ] = False,
) -> None:
    """Paint a class on sections of a JOB; 'outcrop label' learns from the painted samples.

    LINE and TRACE are line numbers: '--stroke 330,540,1500:560,1640' paints inline 330 from crossline 540 at 1500 ms
    to crossline 560 at 1640 ms.
    'outcrop decisions JOB --undo' undoes all strokes of one command.
    """
    with open_job(job) as opened, opened.log.act():
        for text in stroke:
            opened.paint(class_, stroke_points(text, along), radius, along, filled=filled)
    say(f"{counted(len(stroke), 'strokes')} of {class_} painted; 'outcrop label {job}' learns from it")


@app.command()
def confirm(
    job: JOB,
    lines: Annotated[
        Text, Option(help="Numbers of the lines to confirm, e.g. 310,330; default with --from: all lines of the file.")
    ] = None,
    along: Annotated[str, Option(help="Direction of the lines: inline or crossline.")] = "inline",
    from_: Annotated[
        Text,
        Option(
            "--from",
            help="Confirm the labels, the horizon or the fault sticks in this file, not the labels of the job.",
        ),
    ] = None,
    above: Annotated[Text, Option(help="If --from is a horizon: class of the samples above it.")] = None,
    below: Annotated[Text, Option(help="If --from is a horizon: class of the samples at and below it.")] = None,
    remove: Annotated[bool, Option("--remove", help="Withdraw the confirmation of the lines in --lines.")] = False,
    json_: AS_JSON = False,
) -> None:
    """Confirm the labels of lines of a JOB: they are fixed as shown, and 'outcrop label' learns from them.

    Uncertain samples are not confirmed. Only later strokes and exemplars change confirmed labels; a new run of
    'outcrop label' never does. With --from, labels made elsewhere are confirmed: a SEG-Y or Zarr label volume with a
    table of classes, a horizon with the classes above and below it, or fault sticks; samples near a stick become
    faults. 'outcrop decisions JOB --undo' undoes the whole command.
    """
    wanted = line_list(lines)
    if remove and (from_ or above or below):
        raise ValueError("--remove withdraws confirmation; leave out --from, --above and --below.")
    if wanted is None and (remove or from_ is None):
        raise ValueError("No lines are named; give some with --lines, for instance --lines 310,330.")
    with open_job(job) as opened:
        if remove:
            opened.unconfirm(wanted or [], along)
            done = [float(line) for line in wanted or []]
        else:
            done = opened.confirm(wanted, along, from_, above=above, below=below)
        counts = opened.status()["decisions"]
    answer(json_, {"lines": done, "along": along, "confirmed": counts["confirmed"]})
    named = f"{along} {', '.join(f'{line:g}' for line in done)}"
    if remove:
        say(f"{named}: no longer confirmed; {counted(counts['confirmed'], 'lines', 'are')} still confirmed")
    else:
        say(f"{named}: confirmed, {counted(counts['confirmed'], 'lines')} in all; 'outcrop label {job}' learns from it")


@app.command()
def audit(
    job: JOB,
    clicks: Annotated[int, Option(help="Number of patches or samples to judge.")] = 30,
    of: Annotated[
        str, Option(help="What you judge: 'patches' (retrieved patches) or 'samples' (labelled samples).")
    ] = "patches",
    yes: Annotated[
        Text, Option(help="Questions to answer with yes (the class is right): numbers in the picture, e.g. 1,4-9.")
    ] = None,
    no: Annotated[
        Text, Option(help="Questions to answer with no (the class is wrong): numbers in the picture.")
    ] = None,
    unknown: Annotated[
        Text, Option(help="Numbers, as shown in the picture, of the questions that you cannot answer, e.g. 3,7.")
    ] = None,
    really: Annotated[
        Texts,
        Option(
            "--is",
            help="With --of samples: true class of a wrong sample: QUESTION=CLASS, e.g. 3=fault. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Random seed; another seed draws other patches or samples.")] = 0,
    json_: AS_JSON = False,
) -> None:
    """Estimate how many retrieved patches or labelled samples of a JOB are right, from your answers about a few.

    The patches or samples are drawn at random, and each is a question: does it show its class? A numbered picture of
    all questions is written into the job folder. Answer them with --yes, --no and --unknown; on a terminal they are
    also asked one by one. The command prints the share of right answers for each class with 95 % intervals. Answers are
    decisions: the job keeps them, and 'outcrop decisions JOB --undo' undoes them.
    """
    given = {"yes": yes, "no": no, "unknown": unknown}
    answers: dict[str, Any] = {name: number_list(text, f"--{name}") for name, text in given.items() if text}
    if really:
        form = "the number of a question and a class, for instance 3=fault"
        named = [named_value(text, "--is", form) for text in really]
        answers["really"] = {number_list(number, "--is")[0]: name for number, name in named}
    with open_job(job) as opened:
        found = opened.audit(clicks, of=of, seed=seed)
        if answers:
            found.answer(**answers)
        path = found.draw()
        if not answers and not json_:
            prompt_audit(found, opened.palette)
        questions, estimates, older = found.questions, found.estimates, found.older
    result = {"estimates": estimates, "questions": questions.reset_index(), "picture": str(path)}
    answer(json_, result)
    if json_:
        return
    unanswered = [str(number) for number, reply in questions["answer"].items() if not reply]
    if len(unanswered) < len(questions):
        show_frame(estimates, f"share of right {of}, with 95 % intervals")
    if unanswered:
        options = f"--of {of} " * (of != "patches") + f"--clicks {clicks} " * (clicks != 30)
        options += f"--seed {seed} " * (seed > 0)
        say(f"{len(unanswered)} of {counted(len(questions), 'questions', 'are')} open; look at {path} and answer with")
        say(f"  outcrop audit {job} {options}--yes {','.join(unanswered[:3])} --no ... --unknown ...")
    if older:
        say(f"{counted(older, 'answers', 'are')} not counted, because the patches or labels changed after them.")


def prompt_audit(found: "Audit", palette: dict[str, str]) -> None:
    """Ask the open questions of an audit one by one on a terminal; do nothing in a pipe or script."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    what = "Does this patch show" if found.of == "patches" else "Is the sample at the cross"
    for number, row in found.questions[found.questions["answer"] == ""].iterrows():
        amplitudes, box = found.picture(number)
        Console().print(picture(amplitudes, box, palette[row["class"]]))
        reply = typer.prompt(f"{number}. {what} {row['class']}? y(es), n(o), c(annot decide), q(uit)", default="q")
        kind = REPLIES.get(reply[:1].lower())
        if kind is None:
            return
        name = ""
        if kind == "no" and found.of == "samples":
            name = typer.prompt(f"   What is it? {', '.join(palette)}; Enter if none of them", default="")
        if name in palette and name != row["class"]:
            found.answer(really={number: name})
        else:
            answers: dict[str, Any] = {kind: [number]}
            found.answer(**answers)


@app.command()
def unseen(
    job: JOB,
    groups: Annotated[int, Option(help="Number of groups of similar patches.")] = 5,
    seed: Annotated[int, Option(help="Random seed of the grouping.")] = 0,
    json_: AS_JSON = False,
) -> None:
    """Find patches of a JOB that are unlike all its exemplars, and show them in a few groups of similar patches.

    Each row of unseen.png in the job folder shows a group, with the position of every patch. Add one of them as an
    exemplar of a new class: 'outcrop retrieve JOB --exemplar CLASS=INLINE,CROSSLINE,TIME'.
    """
    from outcrop.job.unseen import draw_unseen

    with open_job(job) as opened:
        table = opened.unseen(groups, seed=seed)
        path = draw_unseen(opened, table)
    typical = table.groupby("group").first().reset_index().drop(columns="row")
    answer(json_, {"patches": table, "picture": str(path)}, show_frame, typical, "the most typical patch of each group")
    if not json_:
        say(f"Patches unlike all exemplars: {path}")


@app.command()
def clean(
    job: JOB,
    remove: Annotated[
        bool, Option("--remove", help="Delete the listed results; without this option they are only listed.")
    ] = False,
    keep: Annotated[
        Text, Option(help="Keep the newest of the unused results, up to this total size, e.g. 2GB.")
    ] = None,
    json_: AS_JSON = False,
) -> None:
    """List the results in a JOB that its present decisions no longer use, with sizes; --remove deletes them.

    Decisions, results of the present decisions, and the latest labels of each line are never deleted.
    """
    with open_job(job) as opened:
        rows = opened.clean(keep=memory_budget(keep) if keep else None, dry_run=not remove)
    answer(json_, rows, show_stages, rows)
