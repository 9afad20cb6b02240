"""Commands on a job: status, decisions, audit, unseen, clean."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import picture, plain, say, show, show_frame, show_stages, show_status
from outcrop.cli.options import AS_JSON, number_list, plain_rows, say_notes
from outcrop.cli.program import app
from outcrop.cli.retrieving import exemplars_outside
from outcrop.parallel import memory_budget


@app.command()
def status(job: Path, json_: AS_JSON = False) -> None:
    """Say what is decided and done in a JOB folder, with what parameters, and what would run next."""
    opened = oc.Job(job, origin="shell")
    report = opened.status()
    say_notes(opened)
    if json_:
        print(json.dumps(report, default=plain))
    else:
        show_status(job, report)


@app.command()
def decisions(
    job: Path,
    export_to: Annotated[Path | None, typer.Option("--export", help="Write all decisions to FILE.")] = None,
    import_from: Annotated[
        Path | None,
        typer.Option(
            "--import", help="Take over FILE: decisions of a colleague or another survey, or sticks or a horizon."
        ),
    ] = None,
    class_: Annotated[str | None, typer.Option("--class", help="Of sticks or a horizon: the class.")] = None,
    as_: Annotated[str, typer.Option("--as", help="Sticks or a horizon become strokes or exemplars.")] = "strokes",
    undo: Annotated[bool, typer.Option("--undo", help="Take back your last decision here.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Do again what was undone.")] = False,
    json_: AS_JSON = False,
) -> None:
    """Say what was decided in a JOB, by whom, when and from where; nothing in it is ever removed.

    Positions are survey coordinates, so that decisions travel to another folder or to another version of the survey;
    those that lie outside another volume are kept and not used. What is imported is added: what a colleague removed or
    chose as options leaves yours alone, and one --undo takes the whole import back.
    """
    choices = {"--export": export_to, "--import": import_from, "--undo": undo, "--redo": redo}
    asked = [name for name, value in choices.items() if value]
    if len(asked) > 1:
        raise ValueError(f"{' and '.join(asked)} are several things to do; give one of them a command.")
    with oc.Job(job, origin="shell") as opened:
        if import_from is not None:
            take_interpretation(opened, import_from, class_, as_) or take_decisions(opened, import_from)
            outside = exemplars_outside(opened)
            if outside:
                say(
                    f"Warning: {outside} exemplars do not lie inside this volume with the whole of their patch; "
                    "they are not used.",
                    style="yellow",
                )
        if undo or redo:
            step(opened, "undo" if undo else "redo")
            return
        if export_to is not None:
            say(f"{opened.log.give(export_to)} decisions written to {export_to}")
            return
        table = opened.decisions
    if json_:
        print(json.dumps(table.to_dict("records"), default=str))
    else:
        show_frame(table.drop(columns="id").assign(when=table["when"].astype(str).str[:19]), f"{len(table)} decisions")


def take_interpretation(job, path, name, what):
    """Import sticks or a horizon as strokes or exemplars, and say what that gave; whether the file is one."""
    from outcrop.job.interpretations import import_exemplars, import_strokes, is_interpretation

    if not is_interpretation(path):
        return False
    if name is None:
        raise ValueError(f"{path} does not say its class; name it with --class.")
    if what not in ("strokes", "exemplars"):
        raise ValueError(f"--as is {what!r}; choose strokes or exemplars.")
    taken = import_strokes(job, path, name) if what == "strokes" else len(import_exemplars(job, path, name))
    say(f"{taken} {what} of {name} taken over from {path}; --undo takes them back")
    return True


def take_decisions(job, path):
    """Import decisions, and say what that changed."""
    from outcrop.job.decisions import import_name
    from outcrop.job.imports import import_words

    before = job.plan.state
    say(f"{job.log.take(path)} decisions taken over from {path}")
    for text in import_words(job.log.entries, import_name(path), before, job.plan.state):
        say(text.replace("JOB", str(job.path)))


def step(job, what):
    """Undo or redo, and say what was."""
    if not (job.undo() if what == "undo" else job.redo()):
        say(f"There is nothing of {job.log.who} to {what} here.{last_words(job)}")
        return
    table = job.decisions
    changed = table[table["id"].isin(job.log.entries[-1]["of"])]
    show_frame(
        changed.drop(columns=["id", "undone"]).assign(when=changed["when"].astype(str).str[:19]), f"{what}: done"
    )


def last_words(job):
    """Who decided last, where that was somebody else: each writer takes back his decisions alone."""
    table = job.decisions
    table = table[~table["undone"] & ~table["what"].isin(["undo", "redo"]) & (table["who"] != job.log.who)]
    if table.empty:
        return ""
    last = table.iloc[-1]
    what = " ".join(str(last[name]) for name in ("what", "class", "where") if last[name])
    return (
        f" The last decision is of {last['who']}, from {last['from'] or 'elsewhere'}: {what}. Each writer takes back "
        "his own decisions; undo it there, or here once that program is closed."
    )


@app.command()
def audit(
    job: Path,
    clicks: Annotated[int, typer.Option(help="How many patches or samples to look at.")] = 30,
    of: Annotated[str, typer.Option(help="patches: the retrieved ones; samples: of the labels.")] = "patches",
    yes: Annotated[str | None, typer.Option(help="Questions whose class is right: their numbers.")] = None,
    no: Annotated[str | None, typer.Option(help="Questions whose class is wrong.")] = None,
    unknown: Annotated[str | None, typer.Option(help="Questions that cannot be answered.")] = None,
    really: Annotated[
        list[str] | None, typer.Option("--is", help="Of samples: NUMBER=CLASS, what a wrong one really is; gives IoU.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed asks about others.")] = 0,
    json_: AS_JSON = False,
) -> None:
    """Look at a few random patches or samples of a JOB: how many are right, by class, with intervals of 95 %.

    Without answers the questions are drawn into one numbered picture in the JOB folder, and asked one by one on a
    terminal. Answers are decisions: they are kept, and can be undone.
    """
    answers = {name: number_list(text, f"--{name}") for name, text in (("yes", yes), ("no", no), ("unknown", unknown))}
    if really:
        answers["really"] = dict(parse_truth(text) for text in really)
    with oc.Job(job, origin="shell") as opened:
        found = opened.audit(clicks, of=of, seed=seed)
        if any(answers.values()):
            found.answer(**answers)
        path = found.draw()
        if not any(answers.values()) and not json_:
            prompt_audit(found, opened.palette)
        questions, estimates, older = found.questions, found.estimates, found.older
    if json_:
        table = questions.reset_index().to_dict("records")
        print(json.dumps({"estimates": plain_rows(estimates), "questions": table, "picture": str(path)}, default=plain))
        return
    still = [str(number) for number, answer in questions["answer"].items() if not answer]
    if len(still) < len(questions):
        show_frame(estimates, f"{of} that are right, with intervals of 95 %")
    if still:
        more = f"--of {of} " * (of != "patches") + f"--clicks {clicks} " * (clicks != 30)
        more += f"--seed {seed} " * (seed > 0)
        say(f"{len(still)} of {len(questions)} questions are open; look at {path} and answer with")
        say(f"  outcrop audit {job} {more}--yes {','.join(still[:3])} --no ... --unknown ...")
    if older:
        say(f"{older} answers are of other patches or labels and are not counted here.")


def parse_truth(text):
    """Number and class of ``3=fault``."""
    number, _, name = text.partition("=")
    if not number.strip().isdigit() or not name.strip():
        raise ValueError(f"--is is {text!r}; write the number of a question and a class, for instance 3=fault.")
    return int(number), name.strip()


def prompt_audit(found, palette):
    """Ask the open questions of an audit one by one on a terminal; nothing elsewhere."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    words = {"y": "yes", "n": "no", "c": "unknown"}
    for number, row in found.questions.iterrows():
        if row["answer"]:
            continue
        amplitudes, box = found.picture(number)
        show(picture(amplitudes, box, palette[row["class"]]))
        what = "Does this patch show" if found.of == "patches" else "Is the sample at the cross"
        reply = typer.prompt(f"{number}. {what} {row['class']}? y(es), n(o), c(annot tell), q(uit)", default="q")
        if reply[:1].lower() not in words:
            return
        answer = words[reply[0].lower()]
        if answer == "no" and found.of == "samples":
            name = typer.prompt(f"   What is it? {', '.join(palette)}; Enter for none of them", default="")
            if name in palette and name != row["class"]:
                found.answer(really={number: name})
                continue
        found.answer(**{answer: [number]})


@app.command()
def unseen(
    job: Path,
    groups: Annotated[int, typer.Option(help="How many groups.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the groups.")] = 0,
    json_: AS_JSON = False,
) -> None:
    """Show what nothing you marked looks like: patches unlike all exemplars of a JOB, in a few groups.

    The picture unseen.png in the JOB folder has a row for each group, with the place of every patch; give one to
    'outcrop retrieve --exemplar' as an exemplar of a new class.
    """
    from outcrop.job.unseen import draw_unseen

    with oc.Job(job, origin="shell") as opened:
        table = opened.unseen(groups, seed=seed)
        path = draw_unseen(opened, table)
    if json_:
        print(json.dumps({"patches": table.to_dict("records"), "picture": str(path)}, default=plain))
        return
    show_frame(table.groupby("group").first().reset_index().drop(columns="row"), "the most typical patch of each group")
    say(f"Nothing you marked looks like these: {path}")


@app.command()
def clean(
    job: Path,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it; without this it is only shown.")] = False,
    keep: Annotated[str | None, typer.Option(help="Older results that may stay, e.g. 2GB, the newest first.")] = None,
    json_: AS_JSON = False,
) -> None:
    """Say what older decisions and options of a JOB left behind, with sizes; --remove frees the space.

    Decisions, what they lead to now, and labels that are shown are never removed.
    """
    with oc.Job(job, origin="shell") as opened:
        rows = opened.clean(keep=memory_budget(keep) if keep else None, dry_run=not remove)
    if json_:
        print(json.dumps(rows))
    else:
        show_stages(rows)
