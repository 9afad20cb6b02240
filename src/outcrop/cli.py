"""The command line: one thin function per command."""

import json
import re
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import outcrop as oc
from outcrop.console import (
    duration,
    explain,
    fail,
    picture,
    plain,
    progress_bar,
    say,
    show,
    show_comparison,
    show_facts,
    show_frame,
    show_gain,
    show_scores,
    show_stages,
    show_status,
    show_summary,
    work_bars,
)
from outcrop.parallel import cluster, memory_budget
from outcrop.storage.workspace import refuse_volume_name, spare_survey

app = typer.Typer(
    help="From a few exemplar patches of seismic to thousands of retrieved patches and pixel labels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
AS_JSON = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
NET = Annotated[bool, typer.Option("--net", help="The labels that 'outcrop train' made, not those of the mapping.")]
INTERRUPTED = 130  # exit code of a command that was stopped by Ctrl-C
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # typer may carry its own copy of click
HEADER_BYTES = Annotated[
    str | None,
    typer.Option(
        help="First bytes of inline and crossline in the SEG-Y trace headers, e.g. 189,193; found by default."
    ),
]

WORKERS = Annotated[int | None, typer.Option(help="Processes of a local Dask cluster; by default threads, all cores.")]
SCHEDULER = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://node1:8786.")]
MEMORY = Annotated[str | None, typer.Option(help="Memory to use, e.g. 2GB; a quarter of the machine by default.")]


def main():
    """Run a command: wrong input gives one line on standard error and exit code 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer turns it into a code
            raise KeyboardInterrupt
    except USAGE_ERROR as error:
        fail(error.format_message())
    except (ValueError, ImportError) as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        fail("Interrupted; run the same command again and it goes on.", code=INTERRUPTED)
    except MemoryError:
        fail("Not enough memory for this request; choose a smaller area or size.")
    except OSError as error:
        fail(explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def show_version(asked):
    """Print the version and stop, where it is asked for."""
    if asked:
        print(f"outcrop {oc.__version__}")
        raise typer.Exit


def show_warning(message, *_, **__):
    """Say a warning in one line, without the place in the code it comes from."""
    say(f"Warning: {message}", style="yellow")


def open_volume(path, header_bytes=None):
    """Open a volume with header bytes given as text."""
    if header_bytes is None:
        return oc.open_volume(path)
    return oc.open_volume(path, header_bytes=numbers(header_bytes, 2, "--header-bytes"))


def check_device(name: str | None) -> str | None:
    """A torch device that is there, or none."""
    if name is None:
        return None
    from outcrop.arrays import check_device as check

    return check(name)


def check_devices(names: str | None) -> str | None:
    """Torch devices that are there, separated by commas, or none."""
    for name in (names or "").split(","):
        check_device(name.strip() or None)
    return names


def numbers(text, count, option, kind=int):
    """Comma-separated numbers of an option."""
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ValueError(f"{option} is {text!r}; give {count} numbers separated by commas.")
    return values


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Which it is.")
    ] = False,
):
    """From a few exemplar patches of seismic to thousands of retrieved patches and pixel labels."""


@app.command()
def info(
    volume: str,
    json_: AS_JSON = False,
    header_bytes: HEADER_BYTES = None,
    size: Annotated[str, typer.Option(help="Patch size whose extent in ms and m is told.")] = "99",
    picture: Annotated[str | None, typer.Option(help="Draw the middle inline to this file, e.g. line.png.")] = None,
):
    """Show axes, geometry, format and amplitudes of a VOLUME; writes nothing unless --picture names a file."""
    from outcrop.volumes.opening import describe, parse_size

    data = open_volume(volume, header_bytes)
    facts = describe(data)
    facts["patch"] = patch_extent(data, parse_size(size, data))
    if picture:
        oc.plots.section(data[len(data) // 2]).figure.savefig(picture, dpi=150)
    if json_:
        print(json.dumps(facts, default=plain))
    else:
        show_facts(volume, facts)


def patch_extent(volume, size):
    """Patch size in samples and traces, and in ms (or m) and metres where the volume tells."""
    from outcrop.volumes.opening import sample_unit

    axis, unit = volume[volume.dims[2]].values, sample_unit(volume)
    extent = {"samples": size[0], "traces": size[1]}
    if unit and len(axis) > 1:
        extent[f"height_{unit}"] = size[0] * abs(float(axis[1] - axis[0]))
    if "bin_size" in volume.attrs:
        extent["width_m"] = size[1] * float(volume.attrs["bin_size"][1])
    return extent


@app.command()
def synth(
    out: Path,
    shape: Annotated[str, typer.Option(help="Inlines, crosslines, samples.")] = "120,200,256",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same volume.")] = 0,
):
    """Write a synthetic volume OUT.sgy with faults, salt domes and chaotic bands, and its truth OUT.truth.sgy."""
    from outcrop.datasets import write_synthetic

    if out.suffix.lower() not in (".sgy", ".segy"):
        raise ValueError(f"synth writes SEG-Y, and {out} does not end in .sgy; write {out.with_suffix('.sgy')}.")
    lines, traces, samples = numbers(shape, 3, "--shape")
    spare_survey(out)
    with progress_bar("writing", lines) as update:
        write_synthetic(out, (lines, traces, samples), seed=seed, progress=update)
    say(f"{out} and its truth: {lines} inlines, {traces} crosslines, {samples} samples")


@app.command()
def index(
    volume: str,
    output: Annotated[Path, typer.Option("--output", "-o", help="Job folder, by convention NAME.outcrop.")],
    size: Annotated[
        str | None, typer.Option(help="Patch size, at least 32: 99 (default), or height,width, or 400ms,2500m.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            help="Samples and traces from patch to patch: 11, or down,across; by default as dense as the size of the "
            "survey allows."
        ),
    ] = None,
    along: Annotated[str | None, typer.Option(help="Sections to use: inline (default), crossline or both.")] = None,
    every: Annotated[
        int | None, typer.Option(help="Use every Nth line (default 1); neighbours are near-copies.")
    ] = None,
    inlines: Annotated[str | None, typer.Option(help="Only inlines FIRST,LAST; auto: all.")] = None,
    crosslines: Annotated[str | None, typer.Option(help="Only crosslines FIRST,LAST; auto: all.")] = None,
    times: Annotated[str | None, typer.Option(help="Only times (or depths) FIRST,LAST; auto: all.")] = None,
    between: Annotated[
        str | None, typer.Option(help="Centres between two horizon files: TOP.txt,BASE.txt; auto: anywhere.")
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="random:N takes N patches at random places; auto: one a step again.")
    ] = None,
    gain: Annotated[
        str | None, typer.Option(help="Amplitudes to [0, 1] by: volume (one clip, default), agc:MS, or patch.")
    ] = None,
    clip: Annotated[
        str | None, typer.Option(help="Amplitude that becomes 0 and 1; auto (default): a robust percentile.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="How patches are compared: curvelet-svd (the paper's) or encoder.")
    ] = None,
    finest: Annotated[bool | None, typer.Option(help="Use the finest curvelet scale, as the paper does.")] = None,
    truncate: Annotated[
        bool | None, typer.Option(help="Cut singular values at the effective rank, as the paper does.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For --sample.")] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    device: Annotated[
        str | None, typer.Option(callback=check_devices, help="Describe on devices: cuda (all), or cuda:0,cuda:1.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say patches, time and disk, and stop.")] = False,
    header_bytes: HEADER_BYTES = None,
):
    """Describe every patch of a VOLUME into a job folder; goes on where an interrupted run stopped.

    Exemplars, verdicts and strokes of the job stay, whatever step, size or path is given. Options that are not given
    stay as they were chosen for the job before; 'auto' for size, step, area, sample or clip gives the default again.
    """
    from outcrop.job.options import GRID_OPTIONS, index_options
    from outcrop.volumes.opening import parse_size

    budget = memory_budget(memory)
    data = open_volume(volume, header_bytes)
    before = status_before(output)
    given = chosen_before(output)
    given |= {
        "area": chosen_area(given.get("area"), zip(data.dims, (inlines, crosslines, times), strict=True)),
        **option("size", size, lambda text: parse_size(text, data)),
        **option("step", step, lambda text: numbers(text, 2 if "," in text else 1, "--step")),
        **option("between", between, lambda text: tuple(text.split(","))),
        **option("sample", sample, random_count),
        **option("clip", clip, lambda text: numbers(text, 1, "--clip", float)[0]),
    }
    for name, value in (("along", along), ("every", every), ("gain", gain), ("seed", seed), ("measure", measure)):
        given |= {} if value is None else {name: value}
    given |= {name: value for name, value in (("finest", finest), ("truncate", truncate)) if value is not None}
    given = {name: value for name, value in given.items() if value is not None}
    chosen = index_options(given, data.shape)
    grid = oc.PatchGrid(data, **{name: chosen[name] for name in GRID_OPTIONS})
    announce(data, grid, chosen, by_size="step" not in given)
    if dry_run:
        return
    with (
        oc.Job(output, volume=data, origin="shell") as job,
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        work_bars() as progress,
    ):
        job.check_volume(progress=progress)
        job.choose_index(**given)
        built = job.open_index(client=client, memory=budget, device=device, progress=progress)
        after = job.status()
    skipped = {
        "touch missing samples": (built.status == 1).sum(),
        "muted, water or constant": (built.status == 2).sum(),
    }
    counted = ", ".join(f"{n} {why}" for why, n in skipped.items() if n)
    if not (built.status == 0).any():
        raise ValueError(f"No patch of {volume} can be described: {counted}; check its amplitudes with 'outcrop info'.")
    say(f"{output}: {(built.status == 0).sum()} patches described" + (f"; skipped {counted}" if counted else ""))
    say_notes(job)
    for text, style in kept_words(before, after):
        say(text, style=style)


def chosen_before(path):
    """Options of the index of a job that is there, empty otherwise."""
    if not (path / "job.toml").is_file():
        return {}
    try:
        return dict(oc.Job(path).state.options.get("index", {}))
    except ValueError:  # unreadable, and about to be given its volume again
        return {}


def status_before(path):
    """Status of a job that is there, before anything changes in it; None where there is none."""
    if not (path / "job.toml").is_file():
        return None
    try:
        job = oc.Job(path, origin="shell")
        report = job.status()
    except ValueError:  # unreadable, and about to be given its volume again
        return None
    say_notes(job)
    return report


def option(name, text, parse):
    """An option of the index by its text: nothing where it was not given, None where the default is wanted again."""
    return {} if text is None else {name: None if text == "auto" else parse(text)}


def chosen_area(before, given):
    """Area of an index: that of before, with the axes that are given now; None where it is the whole survey."""
    area = dict(before or {})
    for name, text in given:
        if text == "auto":
            area.pop(name, None)
        elif text is not None:
            area[name] = numbers(text, 2, f"--{name}s", float)
    return area or None


def kept_words(before, after):
    """What a job that was there keeps, and what of it is of an older volume or index now: sentences with a style."""
    counts = [f"{n} {name}" for name, n in after["decisions"].items() if n]
    words: list = [(f"kept: {', '.join(counts)}", None)] if counts else []
    stale = after["lines"]["stale"]
    if before is not None and before["keys"]["volume"] != after["keys"]["volume"]:
        lines = f"; {stale} labelled lines are of the samples before (stale)" if stale else ""
        words.append(
            (
                f"Warning: {after['volume']} has other samples than {before['volume']}, the volume of this job so "
                f"far{lines}. To go back, index {before['volume']} again.",
                "yellow",
            )
        )
    elif stale and before is not None and before["keys"] != after["keys"]:
        words.append((f"{stale} labelled lines are of the index before; 'outcrop label' renews them", None))
    return words


def random_count(text):
    """Number of random patches that --sample asks for."""
    match = re.fullmatch(r"random:(\d+)", text)
    if not match or not int(match[1]):
        raise ValueError(f"--sample is {text!r}; write random:N, for instance random:20000.")
    return int(match[1])


def announce(volume, grid, options, *, by_size=False):
    """Say what indexing will cost, measured on a few patches, and warn where amplitudes drift."""
    from outcrop.measures.core import indexed_measure
    from outcrop.parallel import n_cores
    from outcrop.volumes.opening import describe

    rows = np.unique(np.linspace(0, len(grid) - 1, 16).astype(int))
    patches = np.nan_to_num(grid.extract(volume, rows))
    measure = indexed_measure(options)
    measure.describe(patches[:2], workers=1)
    begin = time.perf_counter()
    length = measure.describe(patches, workers=1).shape[1]
    seconds = (time.perf_counter() - begin) / len(rows) * len(grid) / n_cores()
    left = f", {grid.left_out} left out at missing traces or outside the area" if grid.left_out else ""
    clip = "none" if grid.clip is None else f"{grid.clip:.4g}"
    step = f"step {grid.step[0]}" if grid.step[0] == grid.step[1] else "step {} down, {} across".format(*grid.step)
    step += " by the size of the survey (--step chooses another)" if by_size else ""
    say(
        f"{len(grid)} patches of {grid.size[0]} x {grid.size[1]}, {step}{left}; about {duration(seconds)} and "
        f"{len(grid) * length * 4 / 1e6:.0f} MB at most; clip {clip}"
    )
    rms = describe(volume)["rms"]
    drifts = {"lines": rms["drift_lines"], "time": rms["drift_time"]}
    across = " and ".join(f"{value:.1f} dB over {name}" for name, value in drifts.items() if value and value > 3)
    if grid.gain == "volume" and across and options["measure"] == "curvelet-svd":
        say(
            f"Warning: RMS amplitude drifts by {across}, and the measure follows amplitude; "
            "consider --gain agc:500 or --gain patch.",
            style="yellow",
        )


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
    diverse: Annotated[bool | None, typer.Option(help="Skip near-copies on neighbouring lines.")] = None,
    background: Annotated[
        str | None, typer.Option(help="The class that may appear in any patch; found by its usual names by default.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(callback=check_device, help="Search on a torch device, e.g. cuda.")
    ] = None,
    accept: Annotated[
        str | None, typer.Option(help="Patches that show their class: numbers of column row in retrieved.csv.")
    ] = None,
    reject: Annotated[str | None, typer.Option(help="Patches that do not; they never come back.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Drop what was accepted and rejected before.")] = False,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    json_: AS_JSON = False,
):
    """Find the patches that look like the exemplars; writes retrieved.csv and pictures into the JOB folder.

    Say yes and no to what was found with --accept and --reject: the patches are ranked again, and the job remembers.
    A row taken out of retrieved.csv by hand counts as a no, a row added as a yes.
    """
    from outcrop.job.pictures import draw_retrieval
    from outcrop.job.tables import summarise

    yes, no = number_list(accept, "--accept"), number_list(reject, "--reject")
    places, gone = parse_exemplars(exemplar or []), parse_exemplars(remove or [], "--remove")
    budget = memory_budget(memory)
    with (
        oc.Job(job, origin="shell") as opened,
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        work_bars() as progress,
    ):
        with opened.log.act():
            for name, place in gone:
                opened.remove_exemplar(exemplar_at(opened, name, place))
            for name, place in places:
                opened.add_exemplar(name, place)
            check_counts(opened, count)
            opened.choose_retrieval(count=parse_count(count), per_exemplar=per_exemplar, diverse=diverse)
            if background:
                opened.set_background(background)
            if forget:
                opened.forget()
        where = {"client": client, "memory": budget, "progress": progress, "device": device}
        if yes or no:
            if set(yes) & set(no):
                raise ValueError(f"Row {min(set(yes) & set(no))} is both accepted and rejected; say one of them.")
            with opened.log.act():
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
    from outcrop.job.core import class_name

    for one in job.state.exemplars:
        if job.state.classes[one.name]["name"] == class_name(name) and one.place and list(one.place) == list(place):
            return one.id
    raise ValueError(
        f"There is no exemplar {name}={','.join(f'{x:g}' for x in place)}; 'outcrop decisions' lists them."
    )


def parse_count(text):
    """Patches per class of a --count option."""
    from outcrop.job.core import class_name

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
    most = len(job.grid())
    for name, number in (count if isinstance(count, dict) else {"every class": count}).items():
        if isinstance(count, dict) and job.state.first_name(name) is None:
            raise ValueError(f"--count names {name!r}, which has no exemplar; give one with --exemplar.")
        if isinstance(number, int) and not 1 <= number <= most:
            raise ValueError(f"--count for {name} is {number}; choose 1 to {most}, the patches in the index.")


def retrieval_warnings(job, weak):
    """What an interpreter should know of what was retrieved."""
    from outcrop.job.tables import warnings

    found = warnings(weak, int((job.open_index().status == 0).sum()))
    outside = exemplars_outside(job)
    if outside:
        found.append(
            f"{outside} of {len(job.state.exemplars)} exemplars do not lie inside this volume and are not used."
        )
    if job.background is None and len(job.classes) > 1:
        found.append(
            "No class is the background that may appear in any patch; name one 'other', or say which it is with "
            "--background NAME: labels are much better with it."
        )
    return [f"Warning: {text}" for text in found]


def exemplars_outside(job):
    """How many exemplars have no room for their patch in the volume."""
    grid, count = job.grid(), 0
    for one in job.state.exemplars:
        try:
            grid.start_at(one.place) if one.place else None
        except ValueError:
            count += 1
    return count


@app.command()
def label(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job folder; with --mapper a volume.")],
    mapping: Annotated[
        str | None,
        typer.Option(help="How image labels become pixel labels: a name of oc.MAPPERS; encoder, or the last one used."),
    ] = None,
    lines: Annotated[str | None, typer.Option(help="Only these lines, e.g. 310,330: look before the long run.")] = None,
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
    background: Annotated[
        str | None, typer.Option(help="The class that may appear in any patch; found by its usual names by default.")
    ] = None,
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
    device: Annotated[
        str | None, typer.Option(callback=check_devices, help="Compute on torch devices: cuda (all), or cuda:0,cuda:1.")
    ] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    header_bytes: HEADER_BYTES = None,
):
    """Map the classes of the retrieved patches to pixels and label the volume; goes on where it was stopped.

    Votes are kept: the same command again computes nothing, another limit is applied on reading, and lines of other
    decisions stay until they are labelled again, marked as stale. Options that are not given stay as they were chosen
    for the job before.
    """
    from outcrop.job.pictures import draw_labels

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
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        if background:
            opened.set_background(background)
        begin = time.perf_counter()
        if not opened.state.options.get("label", {}).get("mapper") and not opened.retrievable():
            raise ValueError(f"{opened.path} has no exemplars yet; give some with 'outcrop retrieve {opened.path}'.")
        with work_bars() as progress:
            opened.retrieve(client=client, memory=budget, progress=progress) if opened.retrievable() else None
            labels = opened.label(wanted, **chosen, device=device, client=client, memory=budget, progress=progress)
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            say(f"Warning: {text}", style="yellow")
        say_notes(opened)
        along = oc.patches.DIRECTIONS[opened.along]
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


def say_notes(job):
    """Say what was noticed on the way."""
    for note in dict.fromkeys(job.notes):
        say(note, style="yellow")


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


def number_list(text, option):
    """Numbers of an option such as ``1,2,5-9``, none where it was not given."""
    found: list = []
    for part in [] if text is None else text.split(","):
        ends = re.fullmatch(r"\s*(-?\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not ends:
            raise ValueError(f"{option} is {text!r}; give whole numbers separated by commas, or ranges such as 5-9.")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def line_list(text):
    """Line numbers of a --lines option."""
    return number_list(text, "--lines") or None


@app.command()
def evaluate(
    job: Path,
    truth: Annotated[
        str | None,
        typer.Option(
            help="Expert labels: SEG-Y, .npy or picture with FILE.classes.toml, or Zarr; or fault sticks, or a horizon."
        ),
    ] = None,
    class_: Annotated[
        str | None, typer.Option("--class", help="Of sticks (by default that named fault) or of a top: the class.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another job on the same survey: where the labels of two colleagues differ.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option(help="Only these lines (crosslines where the job labels crosslines).")
    ] = None,
    net: NET = False,
    json_: AS_JSON = False,
):
    """Score the labels of a JOB against expert labels or another job; without them, say how stable the labels are."""
    from outcrop.job.interpretations import is_interpretation, score_interpretation
    from outcrop.job.scoring import compare_jobs, probe_labels, score_labels
    from outcrop.job.training import net_labels

    opened, wanted = oc.Job(job, origin="shell"), line_list(lines)
    other = None if against is None else oc.Job(against, origin="shell")
    along = oc.patches.DIRECTIONS[opened.along]
    if against is not None and (truth or net):
        raise ValueError("--against compares two jobs; give --truth or --net in a command of its own.")
    if net and not truth:
        raise ValueError("Labels of a net can only be scored; name expert labels with --truth.")
    with work_bars() as progress:
        opened.check_volume(progress=progress)
    say_notes(opened)
    if not opened.labelled():
        raise ValueError(f"{job} has no labels yet; run 'outcrop label {job}' first.")
    for one in [opened, *([] if other is None else [other])]:
        old = sum(one.labelled().values())
        if old:
            say(f"Warning: {old} labelled lines of {one.path} are of older decisions (stale).", style="yellow")
    for line in wanted or []:
        if line not in opened.lines:
            raise ValueError(f"--lines names {along} {line}, which {job} does not have; choose another.")
    result: Any
    if against is not None:
        result = compare_jobs(opened, other, lines=wanted)
        if not json_:
            show_comparison(result, job, against)
        result = {
            key: value.to_dict("records") if hasattr(value, "to_dict") else value for key, value in result.items()
        }
    elif truth and is_interpretation(truth):
        result = score_interpretation(opened, truth, class_, lines=wanted)
        if not json_:
            say(
                "; ".join(
                    f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in result.items()
                )
            )
    elif truth:
        result = score_labels(opened, truth, lines=wanted, labels=net_labels(opened) if net else None)
        if not json_:
            show_scores(result)
            say(f"{job}: evaluation.png, confusion.png")
    else:
        done = opened.lines[list(opened.labelled())].tolist()
        chosen = wanted or done[:: max(1, len(done) // 2)][:2]
        with progress_bar("labelling under changes", 6) as update:
            table = probe_labels(opened, chosen, progress=update)
        result = table.to_dict("records")
        if not json_:
            show_frame(table, f"share of labels unchanged on {along}s {', '.join(map(str, chosen))}")
    if json_:
        print(json.dumps(result, default=plain))


@app.command()
def export(
    job: Path,
    out: Path,
    what: Annotated[str, typer.Option(help="For SEG-Y: label, confidence, or score:CLASS.")] = "label",
    format_: Annotated[int, typer.Option("--format", help="SEG-Y sample format: 5 IEEE, 1 IBM, 8 one byte.")] = 5,
    stale: Annotated[bool, typer.Option("--stale", help="Write lines of older decisions too.")] = False,
    seed: Annotated[int, typer.Option(help="Of the split of a training set.")] = 0,
    net: NET = False,
    memory: MEMORY = None,
):
    """Write labels to OUT.sgy (headers of the source), OUT.zarr, or a training set into the folder OUT."""
    from outcrop.job.exports import export as write
    from outcrop.job.training import net_labels

    if out.suffix.lower() in (".sgy", ".segy"):
        spare_survey(out)
    with oc.Job(job, origin="shell") as opened:
        labels = net_labels(opened) if net else None
        options = {"what": what, "format": format_, "stale": stale, "seed": seed, "memory": memory_budget(memory)}
        try:
            say(write(opened, out, labels=labels, **options))
        finally:
            say_notes(opened)


@app.command()
def bodies(
    job: Path,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the table, tops, bases and pictures.")],
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", help="Only this class; may be repeated. By default all but the background."),
    ] = None,
    min_samples: Annotated[int, typer.Option(help="Smaller bodies are left out.")] = 1000,
    velocity: Annotated[
        float | None, typer.Option(help="Mean velocity in m/s, for volumes in m3 where the survey is in time.")
    ] = None,
    fuse: Annotated[
        bool | None,
        typer.Option(
            "--fuse/--no-fuse",
            help="Label the lines across too, so that bodies are not striped; by default where every line is labelled.",
        ),
    ] = None,
    top: Annotated[
        list[str] | None, typer.Option(help="CLASS=FILE: compare the top of its largest body with a horizon.")
    ] = None,
    stale: Annotated[bool, typer.Option("--stale", help="Take lines of older decisions too.")] = False,
    memory: MEMORY = None,
    json_: AS_JSON = False,
):
    """Find the connected bodies of every class of a JOB: a table, tops and bases as horizons (csv, IRAP), pictures."""
    from outcrop.job.bodies import read_tops, top_misfits, write_bodies
    from outcrop.job.core import class_name

    files = dict(parse_horizon(text) for text in top or [])
    with oc.Job(job, origin="shell") as opened, work_bars() as progress:
        tops = read_tops(opened, files)
        options = {"min_samples": min_samples, "velocity": velocity, "fuse": fuse, "stale": stale}
        names = [class_name(name) for name in classes] if classes else None
        found, notes = write_bodies(
            opened, output, classes=names, memory=memory_budget(memory), progress=progress, **options
        )
    misfits = top_misfits(found, tops)
    if json_:
        print(
            json.dumps(
                {"bodies": found.table.to_dict("records"), "notes": notes, "tops": misfits.to_dict("records")},
                default=plain,
            )
        )
        return
    show_frame(found.table, f"{len(found.table)} bodies")
    if len(misfits):
        show_frame(misfits, "tops against horizons")
    for note in notes:
        say(note[0].upper() + note[1:], style="yellow")
    say(f"{output}: bodies.csv, tops and bases, report.html")


def parse_horizon(text):
    """Class and file of a --top option."""
    from outcrop.job.core import class_name

    name, _, path = text.partition("=")
    if not path:
        raise ValueError(f"--top is {text!r}; write CLASS=FILE, e.g. salt-dome=top.csv.")
    return class_name(name), path


@app.command()
def train(
    job: Path,
    epochs: Annotated[
        int | None, typer.Option(help="Times that every patch is seen; by default 12,000 in all.")
    ] = None,
    lines: Annotated[str | None, typer.Option(help="Label only these lines with the net, e.g. 310,330.")] = None,
    truth: Annotated[str | None, typer.Option(help="Expert labels, to score the labels and the net.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same net.")] = 0,
    device: Annotated[
        str | None, typer.Option(callback=check_device, help="A torch device; cuda by default where there is one.")
    ] = None,
    json_: AS_JSON = False,
):
    """Train a U-Net on the labels of a JOB and label the volume with it; goes on where it was stopped.

    The net learns from patches of all labelled lines, by the confidence of their labels; uncertain pixels are left
    out. Use its labels with --net in 'outcrop evaluate' and 'outcrop export'.
    """
    from outcrop.job.pictures import draw_labels
    from outcrop.job.training import label_with_net, net_gain, train_net

    opened, wanted = oc.Job(job, origin="shell"), line_list(lines)
    begin = time.perf_counter()
    with progress_bar("training, percent", 100) as update:
        step = {"progress": lambda done, total, loss: update(round(100 * done / total))}
        key, net = train_net(opened, epochs=epochs, seed=seed, device=device, **step)
    say(f"U-Net of {', '.join(net.classes_)} trained in {duration(time.perf_counter() - begin)}")
    every = wanted or opened.lines.tolist()
    with progress_bar("labelling", len(every)) as update:
        labels = label_with_net(opened, key, net, lines=wanted, progress=update)
    middle = wanted[0] if wanted else every[len(every) // 2]
    draw_labels(opened, middle, name="net.png", labels=labels)
    say(f"{job}: the net {key}, and net.png of line {middle}")
    gain = net_gain(opened, truth=truth)
    if json_:
        print(json.dumps(gain, default=plain))
    else:
        show_gain(gain)


@app.command()
def status(job: Path, json_: AS_JSON = False):
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
):
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
                say(f"Warning: {outside} exemplars do not lie inside this volume and are not used.", style="yellow")
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

    before = job.state
    say(f"{job.log.take(path)} decisions taken over from {path}")
    for text in import_words(job.log.entries, import_name(path), before, job.state):
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
    """Who decided last, where that was somebody else: each writer takes back what is his own."""
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
    unknown: Annotated[str | None, typer.Option(help="Questions that cannot be told.")] = None,
    really: Annotated[
        list[str] | None, typer.Option("--is", help="Of samples: NUMBER=CLASS, what a wrong one really is; gives IoU.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed asks about others.")] = 0,
    json_: AS_JSON = False,
):
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
            ask_audit(found, opened.palette)
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


def ask_audit(found, palette):
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
        said = typer.prompt(f"{number}. {what} {row['class']}? y(es), n(o), c(annot tell), q(uit)", default="q")
        if said[:1].lower() not in words:
            return
        answer = words[said[0].lower()]
        if answer == "no" and found.of == "samples":
            name = typer.prompt(f"   What is it? {', '.join(palette)}; Enter for none of them", default="")
            if name in palette and name != row["class"]:
                found.answer(really={number: name})
                continue
        found.answer(**{answer: [number]})


def plain_rows(frame):
    """Rows of a frame as JSON knows them, None where there is no number."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


@app.command()
def unseen(
    job: Path,
    groups: Annotated[int, typer.Option(help="How many groups.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the groups.")] = 0,
    json_: AS_JSON = False,
):
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
):
    """Say what older decisions and options of a JOB left behind, with sizes; --remove frees the space.

    Decisions, what they lead to now, and labels that are shown are never removed.
    """
    with oc.Job(job, origin="shell") as opened:
        rows = opened.clean(keep=memory_budget(keep) if keep else None, dry_run=not remove)
    if json_:
        print(json.dumps(rows))
    else:
        show_stages(rows)


@app.command()
def faults(
    source: Annotated[str, typer.Argument(metavar="VOLUME | JOB", help="A volume: all faults; a job: those it shows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="FILE.csv, .dat (OpendTect), .charisma, .pol (IRAP).")],
    format_: Annotated[str | None, typer.Option("--format", help="csv, opendtect, charisma or irap.")] = None,
    along: Annotated[
        str | None, typer.Option(help="Of a volume: sections to pick on, inline (by default), crossline or both.")
    ] = None,
    lines: Annotated[str | None, typer.Option(help="Only these lines, e.g. 310,330.")] = None,
    threshold: Annotated[float, typer.Option(help="Likelihood that a stick must reach somewhere.")] = 0.4,
    class_: Annotated[str | None, typer.Option("--class", help="Of a job: the class; by default that named fault.")] = (
        None
    ),
    accept: Annotated[str | None, typer.Option(help="Of a job: sticks of FILE to say yes to, by their number.")] = None,
    reject: Annotated[str | None, typer.Option(help="Of a job: sticks of FILE to say no to.")] = None,
    forget: Annotated[str | None, typer.Option(help="Of a job: sticks of FILE whose yes or no is taken back.")] = None,
    extend: Annotated[
        list[str] | None,
        typer.Option(help="Of a job: STICK=INLINE,CROSSLINE,TIME, a stick of FILE and a place to extend it to."),
    ] = None,
    import_from: Annotated[
        Path | None, typer.Option("--import", help="Of a job: sticks of a file, taken over as accepted ones.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="An interpreter's sticks, to score those found.")] = None,
    velocity: Annotated[float, typer.Option(help="m/s that turns time into depth where a dip is stated.")] = 2500.0,
    report: Annotated[Path | None, typer.Option(help="FILE.html: sticks drawn over sections and a slice.")] = None,
    device: Annotated[
        str | None, typer.Option(callback=check_devices, help="Of a volume: torch devices for the encoder, e.g. cuda.")
    ] = None,
    header_bytes: HEADER_BYTES = None,
    json_: AS_JSON = False,
):
    """Pick faults of a VOLUME, or those that a JOB shows: sticks to FILE, strike, dip and area to FILE.surfaces.csv.

    With --accept, --reject and --extend, numbers of sticks as FILE has them from the last time, a job learns which are
    meant; 'outcrop decisions --undo' takes such a decision back.
    """
    from outcrop.geometry.sticks import format_of, numbered_as, read_sticks, stick_scores, write_sticks
    from outcrop.geometry.surfaces import surface_table
    from outcrop.job.fault_report import write_fault_report
    from outcrop.job.faults import sticks_of_class
    from outcrop.patches import DIRECTIONS

    kind, wanted = format_of(output, format_), line_list(lines)
    given = {"accept": accept, "reject": reject, "forget": forget}
    judged = {what: number_list(text, f"--{what}") for what, text in given.items() if text}
    extended = dict(parse_extension(text) for text in extend or [])
    twice = [number for number, n in Counter(number for some in judged.values() for number in some).items() if n > 1]
    if twice or len(extended) < len(extend or []):
        raise ValueError(f"A stick is named twice ({', '.join(map(str, twice)) or '--extend'}); say one thing of each.")
    check_files(output, report, truth, import_from)
    is_job = (Path(source) / "job.toml").is_file()
    if not is_job and (class_ or judged or extended or import_from):
        words = "--class, --accept, --reject, --forget, --extend and --import belong to one"
        raise ValueError(f"{source} is no job; {words}.")
    if is_job and (along or header_bytes or device):
        raise ValueError(f"{source} is a job; --along, --header-bytes and --device belong to a volume.")
    with work_bars() as progress:
        if is_job:
            with oc.Job(source, origin="shell") as job:
                volume, along, labels = job.volume, DIRECTIONS[job.along], job.labels
                real = read_sticks(truth, volume) if truth else None
                before = read_sticks(output, volume, format=kind) if output.is_file() else None
                decide_sticks(job, class_, output, before, judged, extended, import_from)
                sticks = sticks_of_class(job, class_, lines=wanted, threshold=threshold, progress=progress)
                if before is not None:
                    sticks = numbered_as(sticks, before, volume)
                    say_lost(before, sticks, [number for some in judged.values() for number in some])
        else:
            volume, labels, along = open_volume(source, header_bytes), None, along or "inline"
            real = read_sticks(truth, volume) if truth else None
            where: dict = {"device": device, "progress": partial(progress, "picking faults")}
            sticks = oc.fault_sticks(volume, along=along, lines=wanted, threshold=threshold, **where)
    write_sticks(sticks, output, volume, format=kind)
    table = surface_table(sticks, volume, velocity=velocity)
    table.round(3).to_csv(output.with_name(output.name + ".surfaces.csv"), index=False)
    scores = {}
    if real is not None:
        name = "crossline" if along == "crossline" else "inline"
        scores = stick_scores(sticks, real[real[name].isin(wanted)] if wanted else real, volume)
        if not scores["sections"]:
            raise ValueError(f"{truth} has no stick on a line that was picked; name its lines with --lines.")
    if report:
        facts = {"source": source, "threshold": threshold, "along": along, "file": str(output)}
        write_fault_report(report, volume, sticks, table, truth=real, scores=scores, labels=labels, facts=facts)
    counts = {"sticks": int(sticks["stick"].nunique()), "surfaces": len(table), "file": str(output)}
    if json_:
        print(json.dumps(counts | scores, default=plain))
        return
    say(f"{output}: {counts['sticks']} sticks, {counts['surfaces']} surfaces")
    if truth:
        say("precision {precision:.3f}, recall {recall:.3f}, F1 {F1:.3f} on {sections} sections".format(**scores))


def say_lost(before, sticks, judged):
    """Say which sticks are gone that nobody named: decisions on one count on the lines near it too."""
    lost = sorted(set(before["stick"]) - set(sticks["stick"]) - set(judged))
    if lost and judged:
        say(f"gone with them, for a decision counts on lines nearby too: sticks {', '.join(map(str, lost))}")


def decide_sticks(job, class_, output, before, judged, extended, import_from):
    """Take over sticks of a file, and what is decided on those that were picked last; all of it or nothing."""
    from outcrop.job.faults import extend_stick, extended_stick, import_sticks, judge_sticks

    if import_from:
        say(f"{import_sticks(job, import_from, class_ or 'fault')} sticks taken over from {import_from}")
    if not judged and not extended:
        return
    if before is None:
        raise ValueError(f"{output} is not there yet; pick without --accept, --reject and --extend first.")
    chosen = {what: chosen_sticks(before, numbers) for what, numbers in judged.items()}
    longer = [(chosen_sticks(before, [number]), place) for number, place in extended.items()]
    for stick, place in longer:
        extended_stick(job, stick, place)  # refused before anything is decided
    for what, some in chosen.items():
        judge_sticks(job, some, what, class_)
    for stick, place in longer:
        extend_stick(job, stick, place, class_)


def check_files(output, report, *read):
    """Refuse outputs that would replace each other, a volume, or what is read."""
    written = [Path(path) for path in (output, report) if path]
    for path in written:
        refuse_volume_name(path)
        if not path.parent.is_dir():
            raise ValueError(f"The folder {path.parent} is not there; make it, or choose another.")
    if len({path.resolve() for path in written}) < len(written):
        raise ValueError(f"{output} would be written twice; give --report another name.")
    for path in written:
        if any(one and Path(one).resolve() == path.resolve() for one in read):
            raise ValueError(f"{path} is read and would be replaced; choose another name for the output.")


def parse_extension(text):
    """Number of a stick and a place, of an --extend option."""
    number, _, place = text.partition("=")
    if not number.isdigit() or place.count(",") != 2:
        raise ValueError(f"--extend is {text!r}; write STICK=INLINE,CROSSLINE,TIME.")
    return int(number), numbers(place, 3, "--extend", float)


def chosen_sticks(sticks, numbers_):
    """Sticks by their numbers."""
    missing = sorted(set(numbers_) - set(sticks["stick"]))
    if missing:
        raise ValueError(f"There is no stick {missing[0]}; the file has 0 to {sticks['stick'].max()}.")
    return sticks[sticks["stick"].isin(numbers_)]


@app.command("app")
def page(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[VOLUME | JOB]", help="A volume or a job folder; by default choose on the page."),
    ] = None,
    job: Annotated[
        Path | None, typer.Option("--output", "-o", help="Job folder of a volume; NAME.outcrop here by default.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Patch size of a new job: 99, or height,width, or 400ms,2500m.")
    ] = None,
    truth: Annotated[str | None, typer.Option(help="Expert labels to compare with.")] = None,
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on; others than 127.0.0.1 open it to the network.")] = (
        "127.0.0.1"
    ),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
):
    """Open the interpreter's page: pick exemplars, correct what is retrieved, label, export, all by looking."""
    from outcrop.app.server import LOOPBACK, serve

    if not 0 <= port <= 65535:
        raise ValueError(f"--port is {port}; choose 1 to 65535, or 0 for a free one.")
    if host not in LOOPBACK:
        say(
            f"Warning: {host} opens the page to the network; whoever has the address can change the job.",
            style="yellow",
        )
    serve(source, job=job, size=size, truth=truth, port=port, host=host, browser=browser, ready=announce_page)


def announce_page(address):
    """Print the address on a line of its own."""
    print(address, flush=True)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all that is made.")] = Path("demo"),
    mapping: Annotated[
        str, typer.Option(help="How image labels become pixel labels: a name of oc.MAPPERS.")
    ] = "encoder",
    seed: Annotated[int, typer.Option(help="Of the volume, its exemplars and the mapping.")] = 0,
):
    """Run the whole job on a synthetic volume with truth: retrieve, label, score, export, and a report to look at."""
    from outcrop.demo import run

    with work_bars() as progress:
        scores, retrieved, seconds = run(output, seed=seed, mapping=mapping, progress=progress)
    show_frame(retrieved, "retrieved from one exemplar a class")
    show_scores(scores | {"inlines": [f"{scores['inlines'][0]} to {scores['inlines'][-1]}"]})
    say("; ".join(f"{name} {duration(value)}" for name, value in seconds.items()))
    say(f"Look at {output / 'report.html'}; the labels are in {output / 'labels.sgy'}")


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the real data; default: OUTCROP_DATA.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures, tables and the page.")] = Path(
        "out"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see that everything runs.")] = False,
    device: Annotated[
        str | None, typer.Option(callback=check_device, help="A torch device for what can use one, e.g. cuda.")
    ] = None,
    mapping: Annotated[list[str] | None, typer.Option(help="expert: only these mappers. Repeat it.")] = None,
    supervision: Annotated[str | None, typer.Option(help="expert: patches or exemplars; both by default.")] = None,
    seeds: Annotated[int | None, typer.Option(help="expert, training, interpreter: mean over so many seeds.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="interpreter: only these lines, e.g. 'F3 330'; sensitivity: only these parts, e.g. 'left out'."
        ),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="interpreter: only these methods, e.g. both.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print rows as JSON on the standard output.")] = False,
):
    """Make a table and figure of the paper again: figure, CSV, page, and a check against the expected values."""
    from outcrop import experiments

    options = {"mappings": mapping, "supervision": supervision, "seeds": seeds}
    if name == "expert" and json_:
        from outcrop.experiments.expert import rows

        given = {key: value for key, value in options.items() if value is not None}
        print(json.dumps(rows(data, quick=quick, device=device, **given), default=plain))
        return
    failed = []
    for one in experiments.EXPERIMENTS if name == "all" else [name]:
        begin = time.perf_counter()
        kinds: dict[str, dict] = {
            "expert": options,
            "training": {"seeds": seeds},
            "interpreter": {"seeds": seeds, "only": only, "methods": method},
            "sensitivity": {"only": only},
        }
        chosen = kinds.get(one, {})
        result, deviations = experiments.run(one, data, output, quick=quick, device=device, **chosen)
        if json_:
            print(json.dumps({one: plain_rows(result.table)}, default=plain))
        else:
            show_frame(result.table, f"{one} ({duration(time.perf_counter() - begin)})")
        say(result.remark)
        failed += deviations
    say(f"Figures, tables and {output / 'index.html'}")
    if failed:
        raise ValueError("; ".join(failed) + ".")
