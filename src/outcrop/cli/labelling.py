"""The command label."""

import json
import time
import warnings
from pathlib import Path
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import duration, say, work_bars
from outcrop.cli.options import (
    BACKGROUND,
    DEVICES,
    HEADER_BYTES,
    LINES,
    MEMORY,
    SCHEDULER,
    WORKERS,
    line_list,
    numbers,
    open_volume,
    say_notes,
)
from outcrop.cli.program import app
from outcrop.parallel import cluster, memory_budget


@app.command()
def label(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job folder; with --mapper a volume.")],
    mapping: Annotated[
        str | None,
        typer.Option(help="How image labels become pixel labels: a name of oc.MAPPERS; encoder, or the last one used."),
    ] = None,
    lines: LINES = None,
    step: Annotated[
        str | None,
        typer.Option(help="Samples and traces between patches; a third of the size, which 'auto' gives again."),
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Below it a sample is uncertain, 0 to 1; none by default.")
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(help="Share of wrong labels to put up with, e.g. 0.05: chooses --min-confidence by itself."),
    ] = None,
    with_jobs: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="A job with patches of another size, e.g. small ones for faults. Repeat it; 'none' lifts them.",
        ),
    ] = None,
    background: BACKGROUND = None,
    mapper: Annotated[
        Path | None,
        typer.Option(
            help="Label another volume with the mapper of this job: label OTHER.sgy -o OTHER.outcrop --mapper JOB."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Job folder, with --mapper.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same labels; by default the one of the last time, 0 at first.")
    ] = None,
    device: DEVICES = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say lines, time and disk, and stop; the mapper is fitted and kept.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --dry-run: in JSON on standard output.")] = False,
    header_bytes: HEADER_BYTES = None,
) -> None:
    """Map the classes of the retrieved patches to pixels and label the volume; goes on where it was stopped.

    Votes are kept: the same command again computes nothing, another limit is applied on reading, and lines of other
    decisions stay until they are labelled again, marked as stale. Options that are not given stay as they were chosen
    for the job before.
    """
    from outcrop.job.pictures import draw_labels
    from outcrop.patches.grid import DIRECTIONS

    for option, value in (("--min-confidence", min_confidence), ("--max-error", max_error)):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{option} is {value}; choose a value between 0 and 1.")
    wanted, budget = line_list(lines), memory_budget(memory)
    chosen: dict = {"mapping": mapping, "seed": seed, "with_jobs": with_jobs}
    chosen["step"] = step if step in (None, "auto") else numbers(step, 1, "--step")[0]
    if with_jobs and Path("none") in with_jobs:
        chosen["with_jobs"] = [path for path in with_jobs if path != Path("none")]
    chosen |= {"min_confidence": min_confidence, "max_error": max_error}
    with (
        labelled_job(job, mapper, output, header_bytes) as opened,
        cluster(workers=None if dry_run else workers, scheduler=scheduler, memory=budget) as client,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        if background and not dry_run:
            opened.set_background(background)
        begin = time.perf_counter()
        if opened.plan.label.mapper is None and not opened.plan.queries:
            raise ValueError(f"{opened.path} has no exemplars yet; give some with 'outcrop retrieve {opened.path}'.")
        if dry_run:
            given = {name: chosen[name] for name in ("mapping", "seed") if chosen[name] is not None}
            announce_labels(opened, wanted, given, {"workers": workers, "device": device, "memory": budget}, json_)
            return
        with work_bars() as progress:
            opened.retrieve(client=client, memory=budget, progress=progress) if opened.plan.queries else None
            labels = opened.label(wanted, **chosen, device=device, client=client, memory=budget, progress=progress)
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            say(f"Warning: {text}", style="yellow")
        say_notes(opened)
        along = DIRECTIONS[opened.plan.along]
        done = labels[along].values
        middle = done[0].item() if wanted else done[len(done) // 2].item()
        draw_labels(opened, middle)
        status = opened.status()
    limit = opened.labels.attrs["min_confidence"]
    if max_error is not None:
        words = "as far as the confidence can be trusted: 'outcrop audit JOB --of samples' tells, and corrects it"
        say(
            f"For {max_error:.0%} wrong labels a sample needs a confidence of {limit:.2f}, {words}".replace(
                "JOB", str(job)
            )
        )
    elif limit > 0:
        say(f"Samples below a confidence of {limit:.2f} are uncertain; --min-confidence 0 lifts the limit")
    if status["label"]["mapper"]:
        say("Labelled by a mapper of another job; --mapping encoder learns from the exemplars of this one")
    counts = status["lines"]
    stale = f", {counts['stale']} of them of other decisions or options (stale)" if counts["stale"] else ""
    say(
        f"{opened.path}: {counts['labelled']} of {counts['total']} lines labelled{stale}; "
        f"labels.png of {along} {middle}; {duration(time.perf_counter() - begin)}"
    )


def announce_labels(job, lines, options, where, json_):
    """Say what labelling will cost, measured on a few lines."""
    from outcrop.job.costs import label_cost

    with work_bars() as progress:
        cost = label_cost(job, lines, options, **where, progress=progress)
    if json_:
        print(json.dumps(cost._asdict()))
    say(f"{cost.units} lines to label; about {duration(cost.seconds)} and {cost.bytes / 1e6:.1f} MB")


def labelled_job(job, mapper, output, header_bytes):
    """The job to label: a folder, or a new one on another volume with the mapper of a job."""
    if mapper is None:
        if output is not None:
            raise ValueError("--output goes with --mapper; without it the labels stay in the JOB folder.")
        return oc.Job(job, origin="shell")
    if output is None:
        raise ValueError("--mapper needs --output: the job folder of the other volume, e.g. -o OTHER.outcrop.")
    if output.resolve() == mapper.resolve():
        raise ValueError(f"--mapper and --output are both {output}; give the other volume a folder of its own.")
    volume = open_volume(str(job), header_bytes)
    refuse_other_volume(output, volume)
    with oc.Job(mapper, origin="shell") as source, work_bars() as progress:
        opened = oc.Job(output, volume=volume, origin="shell")
        opened.borrow_mapper(source, progress=progress)
    return opened


def refuse_other_volume(path, volume):
    """Refuse a job folder that holds the work on another volume."""
    from outcrop.volumes.identity import identify, known_volume

    known, found = known_volume(path), identify(volume)
    if known and known["samples"] != found["digest"] and known["source"] != found["source"]:
        raise ValueError(
            f"{path} holds the work on {known['source'] or 'an array'}, not on {found['source']}; choose another "
            f"folder with -o, or say that it changes its volume with 'outcrop index {found['source']} -o {path}'."
        )
