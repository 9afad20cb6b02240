"""The command line: one thin function per command."""

import contextlib
import errno
import hashlib
import json
import re
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import outcrop as oc

app = typer.Typer(
    help="From a few exemplar patches of seismic to thousands of retrieved patches and pixel labels.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
screen = Console(stderr=True)
AS_JSON = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # typer may carry its own copy of click
HEADER_BYTES = Annotated[
    str | None,
    typer.Option(
        help="First bytes of inline and crossline in the SEG-Y trace headers, e.g. 189,193; found by default."
    ),
]


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


def fail(message, *, code=2):
    """Say one line on standard error and stop."""
    print("Error: " + " ".join(str(message).split()), file=sys.stderr)
    sys.exit(code)


def say(text, *, style=None):
    """Tell the user something on standard error, in one line that is not broken."""
    screen.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def explain(error):
    """An operating-system error as problem, place and remedy."""
    where = f" ({error.filename})" if error.filename else ""
    remedies = {
        errno.ENOSPC: "The disk is full; free some space and run the same command again, it goes on where it was",
        errno.EDQUOT: "The disk quota is used up; free some space and run the same command again",
        errno.EACCES: "No permission to read or write here; choose another folder",
        errno.EROFS: "This folder cannot be written; choose another one",
        errno.ENOENT: "No such file or folder",
    }
    return (remedies.get(error.errno) or error.strerror or str(error)) + where + "."


@contextlib.contextmanager
def progress_bar(title, total):
    """Show a bar with rate and time left on a terminal, nothing elsewhere; gives a function of the work done so far."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task(title, total=total, rate="")

        def update(done, *_):
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, rate=f"{speed:.0f}/s" if speed else "")

        yield update


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


def plain(value):
    """NumPy values as JSON knows them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def patch_extent(volume, size):
    """Patch size in samples and traces, and in ms (or m) and metres where the volume tells."""
    axis = volume[volume.dims[2]].values
    unit = "ms" if volume.dims[2] == "time" else "m"
    step = abs(float(axis[1] - axis[0])) if len(axis) > 1 else float("nan")
    extent = {"samples": size[0], "traces": size[1], f"height_{unit}": size[0] * step}
    if "bin_size" in volume.attrs:
        extent["width_m"] = size[1] * float(volume.attrs["bin_size"][1])
    return extent


def show_facts(name, facts):
    """Print what `describe` found as a table a person reads."""
    amplitude, rms, patch, geometry, unit = (facts[key] for key in ("amplitude", "rms", "patch", "geometry", "unit"))
    flaws = [f"{n} {key.replace('_', ' ')}" for key, n in geometry.items() if key.endswith("traces") and n]
    across = f" x {patch['width_m']:g} m" if "width_m" in patch else ""
    rows = {"format": facts["format"]}
    for axis, a in facts["axes"].items():
        step = "uneven steps" if a["step"] is None else f"step {a['step']:g}"
        rows[axis] = f"{a['first']:g} to {a['last']:g}, {step} ({a['count']})"
    rows |= {
        "geometry": ", ".join(["regular" if geometry["regular"] else "irregular", *flaws]),
        "header bytes": facts["header_bytes"] and "inline {}, crossline {}".format(*facts["header_bytes"]),
        "bin size": facts["bin_size"]
        and "{:g} m between inlines, {:g} m between crosslines".format(*facts["bin_size"]),
        "patch": f"{patch['samples']} x {patch['traces']} = {patch['height_' + unit]:g} {unit}{across}",
        "amplitude": ", ".join(f"{p} %: {value:g}" for p, value in amplitude["percentiles"].items()),
        "range": f"{amplitude['minimum']:g} to {amplitude['maximum']:g}; clip to [0, 1] at {amplitude['clip']:g}",
        "histogram": sparkline(amplitude["histogram"]["counts"]),
        "RMS by line": sparkline(rms["by_line"]) + f", drift {rms['drift_lines'] or 0:.1f} dB",
        "RMS by " + facts["domain"]: sparkline(rms["by_time"]) + f", drift {rms['drift_time'] or 0:.1f} dB",
        "not finite": amplitude["nan"] + amplitude["infinite"]
        and f"{amplitude['nan']} NaN, {amplitude['infinite']} Inf",
        "classes": facts["classes"] and ", ".join(f"{i} {name}" for i, name in enumerate(facts["classes"], 1)),
        "notes": "\n".join(facts["notes"]),
        "text": "\n".join(line.rstrip() for line in facts["text"] if line.strip(" C0123456789")),
    }
    table = Table(title=str(name), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in rows.items():
        if value:
            table.add_row(key, str(value))
    Console().print(table)


def sparkline(values, width=48):
    """Numbers as a row of bars, None left blank.

    Examples
    --------
    >>> sparkline([0, 1, 2, 3, None, 7])
    '▁▂▃▄ █ (0 to 7)'
    """
    parts = np.array_split(np.array([np.nan if v is None else v for v in values], float), min(width, len(values)))
    means = [part[np.isfinite(part)].mean() if np.isfinite(part).any() else None for part in parts]
    known = [mean for mean in means if mean is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    bars = [" " if m is None else "▁▂▃▄▅▆▇█"[int((m - low) / ((high - low) or 1) * 7.999)] for m in means]
    return "".join(bars) + f" ({low:.4g} to {high:.4g})"


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
    workers: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say patches, time and disk, and stop.")] = False,
    header_bytes: HEADER_BYTES = None,
):
    """Describe every patch of a VOLUME into a job folder; goes on where an interrupted run stopped."""
    from outcrop.volume import parse_size

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
    with progress_bar("describing", len(grid)) as update:
        built = oc.build_index(data, grid, output, truncate=truncate, finest=finest, workers=workers, progress=update)
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


def duration(seconds):
    """Seconds in words.

    Examples
    --------
    >>> duration(75)
    '1.2 min'
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(seconds, 1):.0f} s"


@app.command()
def retrieve(
    job: Path,
    exemplar: Annotated[
        list[str],
        typer.Option(help="CLASS=INLINE,CROSSLINE,TIME of the centre, or CLASS=PICTURE of the patch size. Repeat it."),
    ],
    count: Annotated[
        str | None, typer.Option(help="Patches per class: 500 (default, or all there are), or fault=500,salt-dome=200.")
    ] = None,
    per_exemplar: Annotated[bool, typer.Option(help="Share a class's count evenly among its exemplars.")] = False,
    diverse: Annotated[bool, typer.Option(help="Skip near-copies on neighbouring lines.")] = False,
    device: Annotated[str | None, typer.Option(help="Search on a torch device, e.g. cuda.")] = None,
    json_: AS_JSON = False,
):
    """Find the patches that look like the exemplars; writes retrieved.csv and pictures into the JOB folder."""
    opened = oc.open_index(job)
    exemplars = parse_exemplars(exemplar)
    weak = oc.retrieve(
        opened, exemplars, parse_count(count, exemplars), per_exemplar=per_exemplar, diverse=diverse, device=device
    )
    with opened.workspace.lock():
        weak.save(job / "retrieved.csv")
        recorded = {"exemplars": exemplar, "count": count or "", "per_exemplar": per_exemplar, "diverse": diverse}
        opened.workspace.write(opened.workspace.read() | {"retrieve": recorded})
        opened.workspace.log("retrieve", patches=len(weak), lost=weak.lost)
        save_retrieval_pictures(opened, weak, job)
    if json_:
        print(json.dumps({"classes": summary(weak), "file": str(job / "retrieved.csv")}))
    else:
        show_summary(weak, job)


def class_name(text):
    """Class name as the project writes it: hyphens and underscores are spaces.

    Examples
    --------
    >>> class_name("salt-dome")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", text).strip()
    if not name or "," in name or name == "uncertain":
        raise ValueError(f"{text!r} is not a class name; use a word such as fault or salt-dome ('uncertain' is taken).")
    return name


def parse_exemplars(texts):
    """Exemplars of --exemplar options: class -> positions and pictures."""
    found: dict = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not equals or not place:
            raise ValueError(f"--exemplar is {text!r}; write CLASS=INLINE,CROSSLINE,TIME or CLASS=PICTURE.")
        try:
            position = tuple(float(part) for part in place.split(","))
        except ValueError:
            position = oc.open_volume(place)[0].transpose().values
        found.setdefault(class_name(name), []).append(position)
    return found


def parse_count(text, exemplars):
    """Patches per class of a --count option."""
    if text is None or text.isdigit():
        return text and int(text)
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(number.isdigit() for *_, number in pairs):
        raise ValueError(f"--count is {text!r}; write 500, or fault=500,salt-dome=200.")
    counts = {class_name(name): int(number) for name, _, number in pairs}
    unknown = [name for name in counts if name not in exemplars] + [name for name in exemplars if name not in counts]
    if unknown:
        raise ValueError(
            f"--count and --exemplar do not name the same classes ({', '.join(unknown)}); give both for each class."
        )
    return counts


def summary(weak):
    """Per class: how many, how similar, how many lost to a nearer class, and where the similarity curve bends."""
    from outcrop.retrieval import knee

    rows = {}
    for name in dict.fromkeys(weak.classes):
        own = weak.similarity[weak.classes == name]
        rows[str(name)] = {
            "patches": len(own), "best": round(float(own[0]), 4), "last": round(float(own[-1]), 4),
            "lost": weak.lost[name], "knee": knee(weak.curves[name]),
        }  # fmt: skip
    return rows


def show_summary(weak, job):
    """Print the summary as a table."""
    table = Table("class", "patches", "best", "last", "lost to a nearer class", "knee of the curve at")
    for name, row in summary(weak).items():
        table.add_row(name, *(str(value) for value in row.values()))
    Console().print(table)
    say(f"{job / 'retrieved.csv'}; pictures: gallery.png, similarity.png, section.png")


def save_retrieval_pictures(opened, weak, folder):
    """Draw gallery, similarity curves and the section with most boxes."""
    picks = weak.picks(10)
    patches = opened.grid.extract(opened.volume, weak.rows[picks])
    oc.plots.gallery(patches, weak.table.iloc[picks]).savefig(folder / "gallery.png", dpi=110)
    oc.plots.similarity_curves(weak).figure.savefig(folder / "similarity.png", dpi=110)
    along = weak.table["along"].mode()[0]
    section = opened.volume.sel({along: weak.table.loc[weak.table["along"] == along, along].mode()[0]})
    oc.plots.section(section, weak=weak, size=opened.grid.size).figure.savefig(folder / "section.png", dpi=110)


@app.command()
def label(
    job: Path,
    mapping: Annotated[str, typer.Option(help="How image labels become pixel labels: a name of oc.MAPPERS.")] = "paper",
    lines: Annotated[
        str | None, typer.Option(help="Only these lines, e.g. 310,330, to look before the long run.")
    ] = None,
    step: Annotated[int | None, typer.Option(help="Samples and traces between patches; a third of the size.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Below it a sample is uncertain, 0 to 1; by default what the mapping says.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same labels.")] = 0,
    device: Annotated[str | None, typer.Option(help="Compute on a torch device, e.g. cuda.")] = None,
):
    """Map the classes of the retrieved patches to pixels and label the volume; goes on where it was stopped."""
    opened = oc.open_index(job)
    if mapping not in oc.MAPPERS:
        raise ValueError(f"--mapping is {mapping!r}; choose one of {', '.join(oc.MAPPERS)}.")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise ValueError(f"--min-confidence is {min_confidence}; choose a value between 0 and 1.")
    grid = labelling_grid(opened, step)
    wanted = [int(n) for n in numbers(lines, lines.count(",") + 1, "--lines")] if lines else None
    with opened.workspace.lock():
        record = {"mapping": mapping, "step": list(grid.step), "seed": seed, "weak": digest(job / "retrieved.csv")}
        record |= {} if min_confidence is None else {"min_confidence": min_confidence}
        forget_labels_unless(opened.workspace, record)
        mapper = fit_mapper(opened, mapping, seed=seed, device=device)
        run_labelling(opened, grid, mapper, wanted, min_confidence, device)
        opened.workspace.log("label", lines=wanted or "all", **record)
    save_label_pictures(opened, wanted)


def digest(path):
    """Short sha256 of a small file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def labelling_grid(opened, step=None):
    """Grid of a job made dense: every line, overlapping patches."""
    grid = opened.grid
    options = grid.parameters | {"sample": None, "every": 1, "between": None}
    options["step"] = step or tuple(max(1, n // 3) for n in grid.size)
    options["along"] = "crossline" if grid.along == "crossline" else "inline"
    return oc.PatchGrid(opened.volume, **options)


def forget_labels_unless(workspace, record):
    """Drop labels that were made with other parameters, and note the new ones."""
    job = workspace.read()
    if job.get("label") != record:
        shutil.rmtree(workspace / "labels.zarr", ignore_errors=True)
        (workspace / "labels.done").unlink(missing_ok=True)
        workspace.write(job | {"label": record})


def fit_mapper(opened, mapping, *, seed=0, device=None):
    """Fit a mapper on the retrieved patches of a job."""
    from outcrop.retrieval import read_retrieved

    table, starts = read_retrieved(opened)
    patches = opened.grid.cut(opened.volume, starts)
    if device:
        import torch

        patches = torch.from_numpy(patches).to(device)
    mapper = oc.MAPPERS[mapping]()
    mapper.set_params(random_state=seed)
    say(f"Fitting {mapping!r} on {len(table)} patches: {table['class'].value_counts(sort=False).to_dict()}")
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        mapper.fit(patches, table["class"].to_numpy(str))
    for warning in caught:
        say(f"Warning: {warning.message}", style="yellow")
    say(f"Fitted in {duration(time.perf_counter() - begin)}")
    return mapper


def run_labelling(opened, grid, mapper, lines, min_confidence, device):
    """Label lines into the job, the cost said first."""
    from outcrop.labels import section_votes

    spans = [rows for _, _, rows in grid.lines()]
    begin = time.perf_counter()
    section_votes(opened.volume, grid, mapper, spans[len(spans) // 2], device=device)
    each, count = time.perf_counter() - begin, len(lines or spans)
    samples = np.prod(opened.volume.shape[1:]) * count
    say(f"{count} lines to label: about {duration(each * count)} for {samples / 1e6:.1f} million samples")
    with progress_bar("labelling", count) as update:
        oc.label_volume(
            opened.volume, grid, mapper, lines=lines, min_confidence=min_confidence,
            path=opened.workspace / "labels.zarr", device=device, progress=update,
        )  # fmt: skip


def save_label_pictures(opened, lines):
    """Draw labels and confidence of the first line that was labelled, or of the middle one."""
    from outcrop.labels import open_labels

    labels = open_labels(opened.workspace / "labels.zarr")
    along = "crossline" if opened.grid.along == "crossline" else "inline"
    line = lines[0] if lines else labels[along].values[labels.sizes[along] // 2]
    place = {along: line}
    figure = oc.plots.labelled_section(opened.volume.sel(place), labels.sel(place))
    figure.savefig(opened.workspace / "labels.png", dpi=110)
    say(f"{opened.workspace.path}: labels.zarr, labels.png ({along} {line})")


@app.command()
def evaluate(
    job: Path,
    truth: Annotated[str | None, typer.Option(help="Expert labels: SEG-Y with FILE.classes.toml, or Zarr.")] = None,
    lines: Annotated[str | None, typer.Option(help="Only these inlines.")] = None,
    json_: AS_JSON = False,
):
    """Score the labels of a JOB against expert labels; without them, say how stable the labels are."""
    from outcrop.labels import open_labels

    opened = oc.open_index(job)
    labels = open_labels(job / "labels.zarr")
    done = [line for line in labels["inline"].values if (labels["confidence"].sel(inline=line) > 0).any()]
    chosen = [int(n) for n in numbers(lines, lines.count(",") + 1, "--lines")] if lines else done
    if truth:
        result = score(opened, labels.sel(inline=chosen), truth, job)
    else:
        result = probe(opened, chosen[:: max(1, len(chosen) // 2)][:2], json_)
    if json_:
        print(json.dumps(result, default=plain))


def score(opened, labels, truth_path, job):
    """Scores against truth, shown and drawn."""
    from outcrop.evaluate import boundary_distance, zone_scores

    truth = oc.open_volume(truth_path)
    if not truth.attrs.get("classes"):
        raise ValueError(f"{truth_path} does not name its codes; write a table {truth_path}.classes.toml beside it.")
    names = list(labels.attrs["classes"])
    common = np.intersect1d(labels["inline"].values, truth["inline"].values)
    if not len(common):
        raise ValueError(f"{truth_path} has none of the labelled inlines; label some of its lines with --lines.")
    coded = labels["label"].sel(inline=common).assign_attrs(classes=names)
    truth = truth.sel(inline=common).astype("uint8")
    scores = oc.pixel_scores(coded, truth)
    scores["MIU_without_boundary"] = oc.pixel_scores(coded, truth, band=5)["MIU"]
    time_step = abs(float(np.diff(opened.volume[opened.volume.dims[2]].values[:2])[0]))
    trace_step = float(opened.volume.attrs.get("bin_size", (1.0, 1.0))[1])
    rows = []
    for name in (name for name in scores["IU"] if name != "other"):
        edges = boundary_distance(coded, truth, name, spacing=(trace_step, time_step))
        rows.append({"class": name, "IU": scores["IU"][name], **flat(edges), **zone_scores(coded, truth, name)})
    scores["bodies"] = rows
    line = {"inline": common[len(common) // 2]}
    figure = oc.plots.labelled_section(opened.volume.sel(line), labels.sel(line), truth=truth.sel(line))
    figure.savefig(job / "evaluation.png", dpi=110)
    oc.plots.confusion(scores["confusion"], list(scores["IU"])).figure.savefig(job / "confusion.png", dpi=110)
    show_scores(scores)
    return scores


def flat(nested):
    """A nested dict with its keys joined."""
    out: dict = {}
    for key, value in nested.items():
        out |= {f"{key} {k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return out


def show_scores(scores):
    """Print pixel scores, MIU first."""
    table = Table("MIU", "MIU without 5 px", "PA", "MA", "FWIU", "coverage", *(f"IU {name}" for name in scores["IU"]))
    numbers_ = [scores[key] for key in ("MIU", "MIU_without_boundary", "PA", "MA", "FWIU", "coverage")]
    table.add_row(*(f"{value:.3f}" for value in (*numbers_, *scores["IU"].values())))
    Console(stderr=True).print(table)


def probe(opened, lines, quiet):
    """Stability of the labels without truth."""
    from outcrop.labels import stability

    record = opened.workspace.read().get("label")
    if not record:
        raise ValueError(f"{opened.workspace.path} has no labels yet; run 'outcrop label' first.")
    grid = labelling_grid(opened, tuple(record["step"]))
    with progress_bar("labelling under changes", 6) as update:
        table = stability(
            opened.volume, grid, lambda seed: fit_mapper(opened, record["mapping"], seed=record["seed"] + seed),
            lines=lines, progress=update,
        )  # fmt: skip
    if not quiet:
        show_frame(table, f"share of labels unchanged on inlines {', '.join(map(str, lines))}")
    return table.to_dict("records")


@app.command()
def export(
    job: Path,
    out: Path,
    what: Annotated[str, typer.Option(help="For SEG-Y: label or confidence.")] = "label",
    format_: Annotated[int, typer.Option("--format", help="SEG-Y sample format: 5 IEEE, 1 IBM, 8 one byte.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the split of a training set.")] = 0,
):
    """Write labels to OUT.sgy (headers of the source), OUT.zarr, or a training set into the folder OUT."""
    from outcrop.labels import open_labels
    from outcrop.retrieval import read_retrieved

    opened = oc.open_index(job)
    labels = open_labels(job / "labels.zarr")
    if out.suffix.lower() in (".sgy", ".segy"):
        source = opened.volume.attrs.get("source", "")
        like = source if str(opened.volume.attrs.get("format", "")).startswith("SEG-Y") else None
        oc.export_segy(labels, out, like=like, what=what, format=format_)
    elif out.suffix.lower() == ".zarr":
        oc.export_zarr(labels, out)
    else:
        oc.export_training_set(
            labels, out, volume=opened.volume, grid=opened.grid, weak=read_retrieved(opened), seed=seed
        )
    say(f"{out} written")


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the volume, the job and the pictures.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Of the synthetic volume and its exemplars.")] = 0,
):
    """Run the whole job on a synthetic volume: make it, index it, retrieve from one exemplar a class, score."""
    from outcrop.datasets import exemplars, write_synthetic
    from outcrop.evaluate import weak_label_scores

    output.mkdir(parents=True, exist_ok=True)
    source, job = output / "synthetic.sgy", output / "synthetic.outcrop"
    if not source.exists():
        with progress_bar("making a volume", 120) as update:
            write_synthetic(source, (120, 200, 256), seed=seed, progress=update)
    volume, truth = oc.open_volume(source), oc.open_volume(source.with_suffix(".truth.sgy"))
    grid = oc.PatchGrid(volume, size=64, step=16, every=4)
    announce(volume, grid, finest=True)
    with progress_bar("describing", len(grid)) as update:
        built = oc.build_index(volume, grid, job, progress=update)
    places = exemplars(truth.astype("uint8"), 64, seed=seed)
    weak = oc.retrieve(built, places, 60, diverse=False)
    weak.save(job / "retrieved.csv")
    save_retrieval_pictures(built, weak, output)
    shown = weak_label_scores(weak, grid, truth.astype("uint8"))
    oc.plots.purity_curves(shown).figure.savefig(output / "purity.png", dpi=110)
    show_summary(weak, job)
    table = Table("class", "exemplar at inline, crossline, time", "patches", "of these show the class")
    for name, own in shown.items():
        table.add_row(name, ", ".join(f"{p:g}" for p in places[name][0]), str(len(own)), f"{np.nanmean(own):.0%}")
    Console().print(table)
    say(f"Pictures in {output}: gallery.png, similarity.png, section.png, purity.png")


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the real data; default: OUTCROP_DATA.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and tables.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see that everything runs.")] = False,
):
    """Make a table and figure of the paper again: figure, CSV, and a check against the expected values."""
    from outcrop import experiments

    failed = []
    for one in experiments.EXPERIMENTS if name == "all" else [name]:
        begin = time.perf_counter()
        result, deviations = experiments.run(one, data, output, quick=quick)
        show_frame(result.table, f"{one} ({duration(time.perf_counter() - begin)})")
        say(result.remark)
        failed += deviations
    if failed:
        raise ValueError("; ".join(failed) + ".")


def show_frame(frame, title):
    """Print a DataFrame as a table."""
    table = Table(*map(str, frame.columns), title=title, title_justify="left")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row))
    Console().print(table)
