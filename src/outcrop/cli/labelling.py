"""Command label: label the volume of a job, or another volume."""

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import outcrop as oc
from outcrop.cli.console import answer, duration, say, warn
from outcrop.cli.opening import open_job, open_volume, resources
from outcrop.cli.options import (
    BACKGROUND,
    DOMAIN,
    DRY_RUN_AS_JSON,
    HEADER_BYTES,
    LINES,
    MEMORY,
    SCHEDULER,
    WORKERS,
    check_devices,
)
from outcrop.cli.program import app
from outcrop.cli.retrieving import parse_exemplar
from outcrop.cli.texts import OnePath, Text, Texts, line_list, numbers
from outcrop.words import counted

if TYPE_CHECKING:
    import xarray as xr


@app.command()
def label(
    job: Annotated[
        Path, Argument(metavar="JOB", help="Job folder; if --output is given, the volume to label instead.")
    ],
    exemplar: Annotated[
        Texts, Option(help="Add an exemplar at a position: CLASS=INLINE,CROSSLINE,TIME. May be repeated.")
    ] = None,
    mapping: Annotated[
        Text,
        Option(
            help="Method: 'points' (default) learns from what you mark; 'paper', 'published' and 'exact', variants of "
            "the paper's method, learn from retrieved patches."
        ),
    ] = None,
    lines: LINES = None,
    step: Annotated[
        Text,
        Option(
            help="For the mappings paper, published and exact: samples and traces from one patch to the next; auto "
            "(default): a third of the patch size."
        ),
    ] = None,
    min_confidence: Annotated[
        float | None, Option(help="Confidence, 0 to 1, below which samples are uncertain; 0 removes the limit.")
    ] = None,
    max_error: Annotated[
        float | None,
        Option(help="Largest expected share of wrong labels, e.g. 0.05; use it in place of --min-confidence."),
    ] = None,
    with_jobs: Annotated[
        Texts,
        Option(
            "--with", help="Also learn from this other job on the same volume. May be repeated; 'none' clears the list."
        ),
    ] = None,
    background: BACKGROUND = None,
    mapper: Annotated[
        OnePath,
        Option(help="Label the volume with the fitted mapper of this other job, without exemplars; needs --output."),
    ] = None,
    output: Annotated[
        OnePath,
        Option("--output", "-o", help="Job folder to write to; needed if the argument is a volume and not a job."),
    ] = None,
    seed: Annotated[
        int | None, Option(help="Random seed of the mapping; default: the seed of the last run, or 0.")
    ] = None,
    device: Annotated[
        Text,
        Option(
            callback=check_devices, help="Torch devices to compute on: cuda (all GPUs), or a list, e.g. cuda:0,cuda:1."
        ),
    ] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Fit the mapper, and print the number of lines and the time and disk space needed; label nothing.",
        ),
    ] = False,
    json_: DRY_RUN_AS_JSON = False,
    header_bytes: HEADER_BYTES = None,
    domain: DOMAIN = None,
) -> None:
    """Label the volume of a JOB, learning from exemplars, verdicts, strokes and confirmed lines; resumes a stopped run.

    The first labels of a volume need no index:
    'outcrop label VOLUME -o JOB --exemplar fault=310,547,1600 --exemplar other=330,700,900'.
    To label another volume with the mapper of a job: 'outcrop label OTHER.sgy -o OTHER.outcrop --mapper JOB'.

    An option that you leave out keeps the value of the last run. To stop using the mapper of another job, give
    '--mapping points'. Labels are made from votes, the evidence for each class, which the job stores: the same command
    again computes nothing, and another limit of confidence needs no new votes. Lines that were labelled from older
    decisions are marked as stale until you label them again.
    """
    from outcrop.job.choosing import choose_labels
    from outcrop.job.costs import label_cost
    from outcrop.job.labelling import line_positions
    from outcrop.job.options import LabelOptions
    from outcrop.job.pictures import draw_labels
    from outcrop.patches.grid import DIRECTIONS

    begin, wanted = time.perf_counter(), line_list(lines)
    LabelOptions(min_confidence=min_confidence, max_error=max_error)  # checked before anything is decided
    source = None if mapper is None else oc.Job(mapper, origin="shell")
    folder, volume = job, None
    if mapper is not None or output is not None:
        folder, volume = volume_to_label(str(job), mapper, output, header_bytes, domain)
    places = [parse_exemplar(text, "--exemplar") for text in exemplar or []]
    if dry_run and places:
        raise ValueError("--dry-run records no decision; leave out --exemplar or --dry-run.")
    chosen: dict[str, Any] = {"mapping": mapping, "seed": seed}
    limits: dict[str, Any] = {"min_confidence": min_confidence, "max_error": max_error}
    patches = step if step in (None, "auto") else numbers(str(step), 1, "--step")[0]
    joined = None if with_jobs is None else [path for path in with_jobs if path != "none"]
    with (
        resources(None if dry_run else workers, scheduler, memory) as where,
        open_job(folder, volume) as opened,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        with opened.log.act():
            if source is not None:
                opened.borrow_mapper(source, progress=where["progress"])
            for name, place in places:
                opened.add_exemplar(name, place)
            if not dry_run:
                if background:
                    opened.set_background(background)
                choose_labels(opened, **chosen, **limits, step=patches, with_jobs=joined)
            if opened.plan.mapper_key is None:
                raise ValueError(f"{opened.path} has no exemplars yet; add --exemplar CLASS=INLINE,CROSSLINE,TIME.")
            line_positions(opened, opened.plan, wanted, range(len(opened.axes[opened.plan.along])))
        if dry_run:
            given = {name: value for name, value in chosen.items() if value is not None}
            del where["client"]
            cost = label_cost(opened, wanted, given, workers=workers, device=device, **where)
            answer(json_, cost._asdict())
            lines_left, seconds = counted(cost.units, "lines"), duration(cost.seconds)
            say(f"{lines_left} to label; about {seconds} and {cost.bytes / 1e6:.1f} MB")
            return
        if opened.plan.queries and not opened.plan.by_points:
            opened.retrieve(**where)
        labels = opened.label(wanted, device=device, **where)
        along = DIRECTIONS[opened.plan.along]
        done = labels[along].values
        middle = done[0 if wanted else len(done) // 2].item()
        draw_labels(opened, middle)
        status = opened.status()
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        warn(text)
    limit = labels.attrs["min_confidence"]
    if max_error is not None:
        say(
            f"Samples below a confidence of {limit:.2f} are uncertain; at most {max_error:.0%} of the other labels are "
            f"wrong if the confidence is right; 'outcrop audit {job} --of samples' checks and corrects the confidence"
        )
    elif limit > 0:
        say(f"Samples below a confidence of {limit:.2f} are uncertain; --min-confidence 0 removes the limit")
    if status["label"]["mapper"]:
        say("Labelled by the mapper of another job; --mapping points learns from the exemplars of this job")
    counts = status["lines"]
    stale = f", {counts['stale']} of them stale (older decisions or options)" if counts["stale"] else ""
    say(
        f"{folder}: {counts['labelled']} of {counted(counts['total'], 'lines')} labelled{stale}; "
        f"labels.png shows {along} {middle}; {duration(time.perf_counter() - begin)}"
    )


def volume_to_label(
    path: str, mapper: OnePath, output: OnePath, header_bytes: Text, domain: Text
) -> "tuple[Path, xr.DataArray]":
    """Return the job folder `output` and the opened volume `path`, for a command that labels a volume, not a job.

    `mapper` is the job whose mapper labels the volume, or None. `output` must be a new folder or a job on this volume.
    """
    from outcrop.volumes.identity import identify, known_volume

    if output is None:
        raise ValueError("--mapper needs --output: the job folder of the other volume, e.g. -o OTHER.outcrop.")
    if mapper is not None and output.resolve() == mapper.resolve():
        raise ValueError(f"--mapper and --output are both {output}; choose a new folder for the other volume.")
    volume = open_volume(path, header_bytes, domain)
    known, found = known_volume(output), identify(volume)
    if known and known["samples"] != found["digest"] and known["source"] != found["source"]:
        raise ValueError(
            f"{output} holds the work on {known['source'] or 'an array'}, not on {found['source']}; choose another "
            f"folder with -o, or move the job to this volume with 'outcrop index {found['source']} -o {output}'."
        )
    return output, volume
