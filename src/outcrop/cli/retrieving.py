"""Command retrieve: find patches that resemble the exemplars of a job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import outcrop as oc
from outcrop.cli.console import answer, warn
from outcrop.cli.opening import open_job, resources
from outcrop.cli.options import AS_JSON, BACKGROUND, DEVICE, JOB, MEMORY, SCHEDULER, WORKERS
from outcrop.cli.program import app
from outcrop.cli.tables import show_summary
from outcrop.cli.texts import Text, Texts, named_value, number_list

if TYPE_CHECKING:
    from outcrop.retrieval.weak import WeakLabels


@app.command()
def retrieve(
    job: JOB,
    exemplar: Annotated[
        Texts,
        Option(help="Add an exemplar: CLASS=INLINE,CROSSLINE,TIME, or CLASS=FILE with a picture. May be repeated."),
    ] = None,
    remove: Annotated[
        Texts, Option(help="Remove the exemplar at a position: CLASS=INLINE,CROSSLINE,TIME. May be repeated.")
    ] = None,
    count: Annotated[
        Text,
        Option(help="Number of patches to retrieve for each class: auto (default), 500, or fault=500,salt-dome=200."),
    ] = None,
    per_exemplar: Annotated[
        bool | None, Option(help="Retrieve an equal share of the patches of a class for each of its exemplars.")
    ] = None,
    diverse: Annotated[
        bool, Option("--diverse", hidden=True, help="No longer has an effect; accepted so that old commands still run.")
    ] = False,
    background: BACKGROUND = None,
    device: DEVICE = None,
    accept: Annotated[
        Text,
        Option(
            help="Accept patches (they show their class): numbers in the column 'row' of retrieved.csv, e.g. 12,88."
        ),
    ] = None,
    reject: Annotated[
        Text,
        Option(help="Reject patches (they do not show their class): numbers in the column 'row' of retrieved.csv."),
    ] = None,
    forget: Annotated[bool, Option("--forget", help="Clear all earlier verdicts on patches.")] = False,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    json_: AS_JSON = False,
) -> None:
    """Find patches that resemble the exemplars of a JOB; writes retrieved.csv and pictures into the job folder.

    An exemplar is the patch around a position, or a picture of the size of a patch; it is added to the exemplars of the
    job. Give verdicts on retrieved patches with --accept and --reject: the job keeps them, and all patches are ranked
    again. You may also edit retrieved.csv: a row that you delete counts as rejected, a row that you add as accepted.
    The job keeps --count for later runs; with 'auto', the number is the rank at the knee of the similarity curve,
    at most 100.
    """
    from outcrop.job.choices import judge
    from outcrop.job.choosing import choose_counts
    from outcrop.job.pictures import draw_retrieval
    from outcrop.job.table_file import summarise

    yes, no = number_list(accept, "--accept"), number_list(reject, "--reject")
    both = set(yes) & set(no)
    if both:
        raise ValueError(f"Row {min(both)} is both accepted and rejected; give one verdict on it.")
    added = [parse_exemplar(text, "--exemplar") for text in exemplar or []]
    gone = [parse_exemplar(text, "--remove") for text in remove or []]
    if diverse:
        warn("--diverse no longer has an effect; leave it out.")
    with resources(workers, scheduler, memory) as where, open_job(job) as opened:
        verdicts = [(opened._patches_at(rows), what) for rows, what in ((yes, "accept"), (no, "reject")) if rows]
        with opened.log.act():
            if forget:
                opened.forget()
            for patches, what in verdicts:
                judge(opened, patches, what)
            for name, place in gone:
                opened.remove_exemplar(exemplar_at(opened, name, place))
            for name, place in added:
                opened.add_exemplar(name, place)
            choose_counts(opened, parse_count(opened, count), per_exemplar)
            if background:
                opened.set_background(background)
        weak = opened.retrieve(**where, device=device)
        draw_retrieval(opened, weak)
        warnings, decided = retrieval_warnings(opened, weak), opened.status()["decisions"]
    summary = summarise(weak)
    answer(json_, {"classes": summary, "file": str(job / "retrieved.csv")}, show_summary, summary, job, decided)
    for text in warnings:
        warn(text)


def parse_exemplar(text: str, option: str) -> tuple[str, Any]:
    """Parse the text of an option that names an exemplar; return (class, position) or (class, amplitudes of a picture).

    `option` is the name of the option, for error messages.
    """
    form = "CLASS=INLINE,CROSSLINE,TIME or CLASS=FILE"
    name, place = named_value(text, option, form)
    try:
        return name, [float(part) for part in place.split(",")]
    except ValueError:
        if not Path(place).exists():
            raise ValueError(f"{option} is {text!r}: neither three numbers nor a file; write {form}.") from None
        return name, oc.open_volume(place)[0].transpose().values


def exemplar_at(job: "oc.Job", name: str, place: list[float]) -> str:
    """Return the id of the exemplar of a class at a position; raise ValueError if the job has no such exemplar."""
    from outcrop.job.inputs import class_name

    state = job.log.state()
    first = state.first_name(class_name(name))
    for one in state.exemplars:
        if one.name == first and one.place and list(one.place) == list(place):
            return str(one.id)
    raise ValueError(
        f"{job.path} has no exemplar {name}={','.join(f'{x:g}' for x in place)}; 'outcrop decisions' lists them."
    )


def parse_count(job: "oc.Job", text: Text) -> Any:
    """Return the value of a --count option: None, ``auto``, a number, or a dict: class -> number or ``auto``.

    A number that is larger than the number of patches in the index raises ValueError.
    """
    form = "500, auto, or fault=500,salt-dome=200"
    if text is None or text == "auto":
        return text
    pairs = [named_value(part, "--count", form) for part in text.split(",")] if "=" in text else [("", text)]
    if not all(n == "auto" or n.isdecimal() for _, n in pairs):
        raise ValueError(f"--count is {text!r}; write {form}.")
    counts = {name: n if n == "auto" else int(n) for name, n in pairs}
    most = job.plan.index.patch_count(job.plan.volume["shape"])
    for name, n in counts.items():
        if isinstance(n, int) and not 1 <= n <= most:
            of = name or "every class"
            raise ValueError(f"--count for {of} is {n}; choose 1 to {most}, the patches in the index.")
    return counts.get("", counts)


def retrieval_warnings(job: "oc.Job", weak: "WeakLabels") -> list[str]:
    """Return warnings about retrieved patches, exemplars outside the volume, and a missing background class."""
    from outcrop.job.retrieved import exemplars_outside, warnings

    found = [*warnings(weak, int((job.index().status == 0).sum())), *exemplars_outside(job)]
    if job.plan.background_name is None and len(job.classes) > 1:
        found.append(
            "No class is the background, which may appear in any patch; name one 'other', or choose one with "
            "--background NAME: labels are much better with a background."
        )
    return found
