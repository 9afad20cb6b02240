"""The command retrieve."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import outcrop as oc
from outcrop.cli.console import say, show_summary, work_bars
from outcrop.cli.options import AS_JSON, BACKGROUND, DEVICE, MEMORY, SCHEDULER, WORKERS, number_list
from outcrop.cli.program import app
from outcrop.parallel import cluster, memory_budget


@app.command()
def retrieve(
    job: Path,
    exemplar: Annotated[
        list[str] | None,
        typer.Option(
            help="CLASS=INLINE,CROSSLINE,TIME of the centre, or CLASS=PICTURE of the patch size. Repeat it. "
            "Those given before stay."
        ),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="CLASS=INLINE,CROSSLINE,TIME of an exemplar to take out. Repeat it.")
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            help="Patches per class: auto (default: up to the knee of the similarity curve), 500, or "
            "fault=500,salt-dome=200. Kept for the next time."
        ),
    ] = None,
    per_exemplar: Annotated[bool | None, typer.Option(help="Share a class's count evenly among its exemplars.")] = None,
    diverse: Annotated[bool, typer.Option("--diverse", hidden=True)] = False,
    background: BACKGROUND = None,
    device: DEVICE = None,
    accept: Annotated[
        str | None, typer.Option(help="Patches that show their class: numbers of column row in retrieved.csv.")
    ] = None,
    reject: Annotated[str | None, typer.Option(help="Patches that do not; they never come back.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Drop what was accepted and rejected before.")] = False,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    json_: AS_JSON = False,
) -> None:
    """Find the patches that look like the exemplars; writes retrieved.csv and pictures into the JOB folder.

    Say yes and no to what was found with --accept and --reject: the patches are ranked again, and the job remembers.
    A row taken out of retrieved.csv by hand counts as a no, a row added as a yes.
    """
    from outcrop.job.pictures import draw_retrieval
    from outcrop.job.table_file import summarise

    yes, no = number_list(accept, "--accept"), number_list(reject, "--reject")
    places, gone = parse_exemplars(exemplar or []), parse_exemplars(remove or [], "--remove")
    budget = memory_budget(memory)
    with (
        oc.Job(job, origin="shell") as opened,
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        work_bars() as progress,
    ):
        with opened.act():
            for name, place in gone:
                opened.remove_exemplar(exemplar_at(opened, name, place))
            for name, place in places:
                opened.add_exemplar(name, place)
            check_counts(opened, count)
            opened.choose_counts(parse_count(count), per_exemplar)
            if background:
                opened.set_background(background)
            if forget:
                opened.forget()
        where = {"client": client, "memory": budget, "progress": progress, "device": device}
        if yes or no:
            if set(yes) & set(no):
                raise ValueError(f"Row {min(set(yes) & set(no))} is both accepted and rejected; say one of them.")
            with opened.act():
                opened.accept(yes) if yes else None
                opened.reject(no) if no else None
        weak = opened.retrieve(**where)
        draw_retrieval(opened, weak)
        notes = [*opened.notes, *retrieval_warnings(opened, weak)]
        status = opened.status()
    if json_:
        print(json.dumps({"classes": summarise(weak), "file": str(job / "retrieved.csv")}))
    else:
        show_summary(weak, job, status["decisions"])
    for note in notes:
        say(note, style="yellow")


def parse_exemplars(texts, option="--exemplar"):
    """Class and position, or picture, of --exemplar options."""
    found = []
    for text in texts:
        name, equals, place = text.partition("=")
        if not equals or not place:
            raise ValueError(f"{option} is {text!r}; write CLASS=INLINE,CROSSLINE,TIME or CLASS=PICTURE.")
        try:
            position: Any = [float(part) for part in place.split(",")]
        except ValueError:
            position = oc.open_volume(place)[0].transpose().values
        found.append((name, position))
    return found


def exemplar_at(job, name, place):
    """Id of the exemplar of a class at a place."""
    from outcrop.job.inputs import class_name

    for one in job.plan.state.exemplars:
        if job.plan.names[one.name] == class_name(name) and one.place and list(one.place) == list(place):
            return one.id
    raise ValueError(
        f"There is no exemplar {name}={','.join(f'{x:g}' for x in place)}; 'outcrop decisions' lists them."
    )


def parse_count(text):
    """Patches per class of a --count option."""
    from outcrop.job.inputs import class_name

    if text is None or text == "auto":
        return text
    if text.isdigit():
        return int(text)
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(number.isdigit() or number == "auto" for *_, number in pairs):
        raise ValueError(f"--count is {text!r}; write 500, auto, or fault=500,salt-dome=200.")
    return {class_name(name): number if number == "auto" else int(number) for name, _, number in pairs}


def check_counts(job, text):
    """Refuse a --count of more patches than there are, or of a class that is none."""
    count = parse_count(text)
    most = job.plan.index.patch_count(job.plan.volume["shape"])
    for name, number in (count if isinstance(count, dict) else {"every class": count}).items():
        if isinstance(count, dict) and name not in job.plan.firsts:
            raise ValueError(f"--count names {name!r}, which has no exemplar; give one with --exemplar.")
        if isinstance(number, int) and not 1 <= number <= most:
            raise ValueError(f"--count for {name} is {number}; choose 1 to {most}, the patches in the index.")


def retrieval_warnings(job, weak):
    """What an interpreter should know of what was retrieved."""
    from outcrop.job.retrieved import warnings

    found = warnings(weak, int((job.index().status == 0).sum()))
    outside = exemplars_outside(job)
    if outside:
        found.append(
            f"{outside} of {len(job.plan.state.exemplars)} exemplars do not lie inside this volume with the whole of "
            "their patch and are not used."
        )
    if job.background is None and len(job.classes) > 1:
        found.append(
            "No class is the background that may appear in any patch; name one 'other', or say which it is with "
            "--background NAME: labels are much better with it."
        )
    return [f"Warning: {text}" for text in found]


def exemplars_outside(job):
    """How many exemplars have no room for their patch in the volume."""
    from outcrop.job.retrieved import fits

    grid = job.index().grid
    return sum(not fits(grid, one) for one in job.plan.state.exemplars)
