"""The command line: one thin function per command."""

import json
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import outcrop as oc
from outcrop import job as stages
from outcrop.console import (
    duration,
    explain,
    fail,
    plain,
    progress_bar,
    say,
    show_facts,
    show_frame,
    show_gain,
    show_scores,
    show_status,
    show_summary,
)
from outcrop.parallel import cluster, memory_budget

app = typer.Typer(
    help="From a few exemplar patches of seismic to thousands of retrieved patches and pixel labels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
AS_JSON = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
NET = Annotated[bool, typer.Option("--net", help="The labels that 'outcrop train' made, not those of the mapping.")]
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
        code = app(standalone_mode=False)
    except USAGE_ERROR as error:
        fail(error.format_message())
    except (ValueError, ImportError) as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        fail("Interrupted; run the same command again and it goes on.", code=130)
    except MemoryError:
        fail("Not enough memory for this request; choose a smaller area or size.")
    except OSError as error:
        fail(explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def open_volume(path, header_bytes=None):
    """Open a volume with header bytes given as text."""
    if header_bytes is None:
        return oc.open_volume(path)
    return oc.open_volume(path, header_bytes=numbers(header_bytes, 2, "--header-bytes"))


def numbers(text, count, option, kind=int):
    """Comma-separated numbers of an option."""
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != count:
        raise ValueError(f"{option} is {text!r}; give {count} numbers separated by commas.")
    return values


@app.command()
def info(
    volume: str, json_: AS_JSON = False, header_bytes: HEADER_BYTES = None, size: str = "99", picture: str | None = None
):
    """Show axes, geometry, format and amplitudes of a VOLUME; writes nothing unless --picture names a file."""
    from outcrop.volume import describe, parse_size

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
    axis = volume[volume.dims[2]].values
    unit = "ms" if volume.dims[2] == "time" else "m"
    step = abs(float(axis[1] - axis[0])) if len(axis) > 1 else float("nan")
    extent = {"samples": size[0], "traces": size[1], f"height_{unit}": size[0] * step}
    if "bin_size" in volume.attrs:
        extent["width_m"] = size[1] * float(volume.attrs["bin_size"][1])
    return extent


@app.command()
def synth(
    out: Path,
    shape: Annotated[str, typer.Option(help="Inlines, crosslines, samples.")] = "120,200,256",
    seed: Annotated[int, typer.Option(help="Same seed, same volume.")] = 0,
):
    """Write a synthetic volume OUT.sgy with faults, salt domes and chaotic bands, and its truth OUT.truth.sgy."""
    from outcrop.datasets import write_synthetic

    lines, traces, samples = numbers(shape, 3, "--shape")
    with progress_bar("writing", lines) as update:
        write_synthetic(out, (lines, traces, samples), seed=seed, progress=update)
    say(f"{out} and its truth: {lines} inlines, {traces} crosslines, {samples} samples")


@app.command()
def index(
    volume: str,
    output: Annotated[Path, typer.Option("--output", "-o", help="Job folder, by convention NAME.outcrop.")],
    size: Annotated[str, typer.Option(help="Patch size: 99, or height,width, or 400ms,2500m.")] = "99",
    step: Annotated[str, typer.Option(help="Samples and traces from patch to patch: 33, or down,across.")] = "33",
    along: Annotated[str, typer.Option(help="Sections to use: inline, crossline or both.")] = "inline",
    every: Annotated[int, typer.Option(help="Use every Nth line; neighbouring lines are near-copies.")] = 1,
    inlines: Annotated[str | None, typer.Option(help="Only inlines FIRST,LAST.")] = None,
    crosslines: Annotated[str | None, typer.Option(help="Only crosslines FIRST,LAST.")] = None,
    times: Annotated[str | None, typer.Option(help="Only times (or depths) FIRST,LAST.")] = None,
    between: Annotated[str | None, typer.Option(help="Centres between two horizon files: TOP.txt,BASE.txt.")] = None,
    sample: Annotated[str | None, typer.Option(help="random:N takes N patches at random places.")] = None,
    gain: Annotated[str, typer.Option(help="Amplitudes to [0, 1] by: volume (one clip), agc:MS, or patch.")] = "volume",
    clip: Annotated[
        float | None, typer.Option(help="Amplitude that becomes 0 and 1; a robust percentile by default.")
    ] = None,
    finest: Annotated[bool, typer.Option(help="Use the finest curvelet scale, as the paper does.")] = True,
    truncate: Annotated[
        bool, typer.Option(help="Cut singular values at the effective rank, as the paper does.")
    ] = True,
    seed: Annotated[int, typer.Option(help="For --sample.")] = 0,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say patches, time and disk, and stop.")] = False,
    header_bytes: HEADER_BYTES = None,
):
    """Describe every patch of a VOLUME into a job folder; goes on where an interrupted run stopped."""
    from outcrop.volume import parse_size

    budget = memory_budget(memory)
    data = open_volume(volume, header_bytes)
    named = zip(data.dims, (inlines, crosslines, times), strict=True)
    area = {name: numbers(text, 2, f"--{name}s", float) for name, text in named if text}
    grid = oc.PatchGrid(
        data,
        size=parse_size(size, data),
        step=numbers(step, 2, "--step") if "," in step else numbers(step, 1, "--step")[0],
        along=along,
        every=every,
        area=area or None,
        between=tuple(between.split(",")) if between else None,
        sample=random_count(sample),
        gain=gain,
        clip=clip,
        seed=seed,
    )
    announce(data, grid, finest)
    if dry_run:
        return
    options = {"truncate": truncate, "finest": finest, "memory": budget}
    with (
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        progress_bar("describing", len(grid)) as update,
    ):
        built = oc.build_index(data, grid, output, client=client, progress=update, **options)
    skipped = {
        "touch missing samples": (built.status == 1).sum(),
        "muted, water or constant": (built.status == 2).sum(),
    }
    counted = ", ".join(f"{n} {why}" for why, n in skipped.items() if n)
    say(f"{output}: {(built.status == 0).sum()} patches described" + (f"; skipped {counted}" if counted else ""))


def random_count(text):
    """Number of random patches that --sample asks for."""
    if text is None:
        return None
    match = re.fullmatch(r"random:(\d+)", text)
    if not match or not int(match[1]):
        raise ValueError(f"--sample is {text!r}; write random:N, for instance random:20000.")
    return int(match[1])


def announce(volume, grid, finest):
    """Say what indexing will cost, measured on a few patches, and warn where amplitudes drift."""
    from outcrop.measures import CurveletSVD
    from outcrop.parallel import n_cores
    from outcrop.volume import describe

    rows = np.unique(np.linspace(0, len(grid) - 1, 16).astype(int))
    patches = np.nan_to_num(grid.extract(volume, rows))
    measure = CurveletSVD(finest=finest)
    measure.describe(patches[:2], workers=1)
    begin = time.perf_counter()
    length = measure.describe(patches, workers=1).shape[1]
    seconds = (time.perf_counter() - begin) / len(rows) * len(grid) / n_cores()
    left = f", {grid.left_out} left out at missing traces or outside the area" if grid.left_out else ""
    clip = "none" if grid.clip is None else f"{grid.clip:.4g}"
    say(
        f"{len(grid)} patches of {grid.size[0]} x {grid.size[1]}{left}; about {duration(seconds)} and "
        f"{len(grid) * length * 4 / 1e6:.0f} MB at most; clip {clip}"
    )
    rms = describe(volume)["rms"]
    drifts = {"lines": rms["drift_lines"], "time": rms["drift_time"]}
    across = " and ".join(f"{value:.1f} dB over {name}" for name, value in drifts.items() if value and value > 3)
    if grid.gain == "volume" and across:
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
            "By default those of the last time."
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            help="Patches per class: 500 (default, or all there are), fault=500,salt-dome=200, or auto: those before "
            "the first that is more like another class."
        ),
    ] = None,
    per_exemplar: Annotated[bool | None, typer.Option(help="Share a class's count evenly among its exemplars.")] = None,
    diverse: Annotated[bool | None, typer.Option(help="Skip near-copies on neighbouring lines.")] = None,
    device: Annotated[str | None, typer.Option(help="Search on a torch device, e.g. cuda.")] = None,
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
    """
    opened = oc.open_index(job)
    asked = opened.workspace.read().get("retrieve", {})
    verdicts = {} if forget else {key: asked[key] for key in ("accepted", "rejected") if key in asked}
    if exemplar:
        asked = {"exemplars": exemplar, "count": "", "per_exemplar": False, "diverse": False}
    elif not asked.get("exemplars"):
        raise ValueError(f"{job} has no exemplars yet; give some with --exemplar CLASS=INLINE,CROSSLINE,TIME.")
    given = {"count": count, "per_exemplar": per_exemplar, "diverse": diverse}
    asked |= {key: value for key, value in given.items() if value is not None}
    asked |= {"accepted": {}, "rejected": {}} | verdicts
    opened.memory = memory_budget(memory)
    with cluster(workers=workers, scheduler=scheduler, memory=opened.memory) as opened.client:
        weak = stages.ask(opened, asked, device=device)
        if accept or reject:
            yes, no = number_list(accept, "--accept"), number_list(reject, "--reject")
            weak = oc.refine(opened, weak, accept=yes, reject=no)
    stages.record_retrieval(opened, weak, asked)
    if json_:
        print(json.dumps({"classes": stages.summarise(weak), "file": str(job / "retrieved.csv")}))
    else:
        show_summary(weak, job)


@app.command()
def label(
    job: Path,
    mapping: Annotated[
        str, typer.Option(help="How image labels become pixel labels: a name of oc.MAPPERS.")
    ] = "texture",
    lines: Annotated[str | None, typer.Option(help="Only these lines, e.g. 310,330: look before the long run.")] = None,
    step: Annotated[int | None, typer.Option(help="Samples and traces between patches; a third of the size.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Below it a sample is uncertain, 0 to 1; by default what the mapping says.")
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(help="Share of wrong labels to put up with, e.g. 0.05: chooses --min-confidence by itself."),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Keep the score of every class, to export it.")] = False,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A job with patches of another size, e.g. small ones for faults. Repeat it."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same labels.")] = 0,
    device: Annotated[str | None, typer.Option(help="Compute on a torch device, e.g. cuda.")] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
):
    """Map the classes of the retrieved patches to pixels and label the volume; goes on where it was stopped."""
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise ValueError(f"--min-confidence is {min_confidence}; choose a value between 0 and 1.")
    if max_error is not None and (not 0 < max_error < 1 or min_confidence is not None):
        raise ValueError(
            f"--max-error is {max_error}; choose a value between 0 and 1, and no --min-confidence with it."
        )
    index = oc.open_index(job)
    wanted, budget = line_list(lines), memory_budget(memory)
    grid = stages.labelling_grid(index, step)
    with cluster(workers=workers, scheduler=scheduler, memory=budget) as client, index.workspace.lock():
        others = stages.open_beside(index, beside or [])
        mapper = fitted(index, mapping, beside=others, seed=seed, device=device, client=client, memory=budget)
        every = grid.axes[int(grid.along == "crossline")][[line for _, line, _ in grid.lines()]].tolist()
        if max_error is not None:
            min_confidence = stages.limit_for(index, grid, mapper, max_error, device=device)
            say(f"For {max_error:.0%} wrong labels a sample needs a confidence of {min_confidence:.2f}")
        made = {"mapping": mapping, "step": grid.step, "seed": seed, "min_confidence": min_confidence}
        made |= {"scores": scores, "beside": others}
        record = stages.record_labelling(index, lines=wanted or every, **made)
        count = len(wanted or every)
        announce_labelling(index, grid, mapper, count, device)
        with progress_bar("labelling", count) as update:
            where = {"device": device, "client": client, "memory": budget, "progress": update}
            stages.label_lines(index, grid, mapper, lines=wanted, min_confidence=min_confidence, scores=scores, **where)
        index.workspace.log("label", lines=wanted or "all", **record)
        middle = wanted[0] if wanted else every[len(every) // 2]
        stages.draw_labels(index, middle)
    say(f"{job}: labels.zarr, and labels.png of {grid.along} {middle}")


def number_list(text, option):
    """Numbers of an option, none where it was not given."""
    return [] if text is None else list(numbers(text, text.count(",") + 1, option))


def line_list(text):
    """Line numbers of a --lines option."""
    return number_list(text, "--lines") or None


def fitted(index, mapping, **options):
    """Fit a mapper and say what it was fitted on, how long it took, and what it warns of."""
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        mapper = stages.fit_mapper(index, mapping, **options)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Warning: {text}", style="yellow")
    say(f"Mapping {mapping!r} of {', '.join(mapper.classes_)} fitted in {duration(time.perf_counter() - begin)}")
    return mapper


def announce_labelling(index, grid, mapper, count, device):
    """Say what labelling will cost, measured on one line."""
    from outcrop.labels import section_votes

    rows = next(rows for _, _, rows in grid.lines())
    begin = time.perf_counter()
    section_votes(index.volume, grid, mapper, rows, device=device)
    seconds = (time.perf_counter() - begin) * count
    samples = np.prod(index.volume.shape[1:]) * count / 1e6
    say(f"{count} lines, {samples:.1f} million samples: about {duration(seconds)}")


@app.command()
def evaluate(
    job: Path,
    truth: Annotated[str | None, typer.Option(help="Expert labels: SEG-Y with FILE.classes.toml, or Zarr.")] = None,
    lines: Annotated[str | None, typer.Option(help="Only these inlines.")] = None,
    net: NET = False,
    json_: AS_JSON = False,
):
    """Score the labels of a JOB against expert labels; without them, say how stable the labels are."""
    from outcrop.labels import open_labels

    index, wanted = oc.open_index(job), line_list(lines)
    if net and not truth:
        raise ValueError("Labels of a net can only be scored; name expert labels with --truth.")
    if truth:
        result = stages.score_labels(index, truth, lines=wanted, labels=stages.net_labels(index) if net else None)
        if not json_:
            show_scores(result)
            say(f"{job}: evaluation.png, confusion.png")
    else:
        done = stages.labelled_inlines(open_labels(job / "labels.zarr"))
        chosen = wanted or done[:: max(1, len(done) // 2)][:2]
        with progress_bar("labelling under changes", 6) as update:
            table = stages.probe_labels(index, chosen, progress=update)
        result = table.to_dict("records")
        if not json_:
            show_frame(table, f"share of labels unchanged on inlines {', '.join(map(str, chosen))}")
    if json_:
        print(json.dumps(result, default=plain))


@app.command()
def export(
    job: Path,
    out: Path,
    what: Annotated[
        str, typer.Option(help="For SEG-Y: label, confidence, or score:CLASS of labels made with --scores.")
    ] = "label",
    format_: Annotated[int, typer.Option("--format", help="SEG-Y sample format: 5 IEEE, 1 IBM, 8 one byte.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the split of a training set.")] = 0,
    net: NET = False,
    memory: MEMORY = None,
):
    """Write labels to OUT.sgy (headers of the source), OUT.zarr, or a training set into the folder OUT."""
    from outcrop.labels import open_labels
    from outcrop.retrieval import read_retrieved

    opened = oc.open_index(job)
    labels = stages.net_labels(opened) if net else open_labels(job / "labels.zarr")
    if out.suffix.lower() in (".sgy", ".segy"):
        oc.export_segy(labels, out, like=opened.volume, what=what, format=format_, memory=memory_budget(memory))
    elif out.suffix.lower() == ".zarr":
        oc.export_zarr(labels, out, memory=memory_budget(memory))
    else:
        weak = read_retrieved(opened)[0]
        manifest = oc.export_training_set(labels, out, volume=opened.volume, grid=opened.grid, weak=weak, seed=seed)
        say(f"{len(manifest)} patches: {manifest['split'].value_counts().to_dict()}")
    say(f"{out} written")


@app.command()
def train(
    job: Path,
    epochs: Annotated[
        int | None, typer.Option(help="Times that every patch is seen; by default 12,000 in all.")
    ] = None,
    lines: Annotated[str | None, typer.Option(help="Label only these lines with the net, e.g. 310,330.")] = None,
    truth: Annotated[str | None, typer.Option(help="Expert labels, to score the labels and the net.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same net.")] = 0,
    device: Annotated[str | None, typer.Option(help="A torch device; cuda by default where there is one.")] = None,
    json_: AS_JSON = False,
):
    """Train a U-Net on the labels of a JOB and label the volume with it; goes on where it was stopped.

    The net learns from patches of all labelled lines, by the confidence of their labels; uncertain pixels are left
    out. Use its labels with --net in 'outcrop evaluate' and 'outcrop export'.
    """
    index, wanted = oc.open_index(job), line_list(lines)
    grid = stages.labelling_grid(index)
    begin = time.perf_counter()
    with index.workspace.lock():
        with progress_bar("training, percent", 100) as update:
            told = {"progress": lambda done, total, loss: update(round(100 * done / total))}
            net = stages.train_net(index, epochs=epochs, seed=seed, device=device, **told)
        say(f"U-Net of {', '.join(net.classes_)} trained in {duration(time.perf_counter() - begin)}")
        every = grid.axes[int(grid.along == "crossline")][[line for _, line, _ in grid.lines()]].tolist()
        with progress_bar("labelling", len(wanted or every)) as update:
            labels = stages.label_lines(index, grid, net, store="net.zarr", lines=wanted, progress=update)
        index.workspace.log("train", epochs=epochs, seed=seed, lines=wanted or "all")
        middle = wanted[0] if wanted else every[len(every) // 2]
        stages.draw_labels(index, middle, name="net.png", labels=labels)
    say(f"{job}: net.npz, net.zarr, and net.png of {grid.along} {middle}")
    gain = stages.net_gain(index, truth=truth)
    if json_:
        print(json.dumps(gain, default=plain))
    else:
        show_gain(gain)


@app.command()
def status(job: Path, json_: AS_JSON = False):
    """Say what is done in a JOB folder, with what parameters, and what would run next."""
    report = stages.status(job)
    if json_:
        print(json.dumps(report, default=plain))
    else:
        show_status(job, report)


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
    ] = "texture",
    seed: Annotated[int, typer.Option(help="Of the volume, its exemplars and the mapping.")] = 0,
):
    """Run the whole job on a synthetic volume with truth: retrieve, label, score, export, and a report to look at."""
    from outcrop.demo import run

    scores, retrieved, seconds = run(output, seed=seed, mapping=mapping, stage=progress_bar)
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
    device: Annotated[str | None, typer.Option(help="A torch device for what can use one, e.g. cuda.")] = None,
    mapping: Annotated[list[str] | None, typer.Option(help="expert: only these mappers. Repeat it.")] = None,
    supervision: Annotated[str | None, typer.Option(help="expert: patches or exemplars; both by default.")] = None,
    seeds: Annotated[int | None, typer.Option(help="expert, training: mean over so many seeds.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="expert: print nothing but a list of rows.")] = False,
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
        own = options if one == "expert" else {"seeds": options["seeds"]} if one == "training" else {}
        result, deviations = experiments.run(one, data, output, quick=quick, device=device, **own)
        show_frame(result.table, f"{one} ({duration(time.perf_counter() - begin)})")
        say(result.remark)
        failed += deviations
    say(f"Figures, tables and {output / 'index.html'}")
    if failed:
        raise ValueError("; ".join(failed) + ".")
