"""Commands on labels: evaluate, export, bodies, train."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import outcrop as oc
from outcrop.cli.console import (
    duration,
    plain,
    progress_bar,
    say,
    show_comparison,
    show_frame,
    show_gain,
    show_scores,
    work_bars,
)
from outcrop.cli.options import AS_JSON, DEVICE, LINES, MEMORY, NET, line_list, say_notes
from outcrop.cli.program import app
from outcrop.parallel import memory_budget
from outcrop.storage.workspace import spare_survey


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
    lines: LINES = None,
    net: NET = False,
    json_: AS_JSON = False,
) -> None:
    """Score the labels of a JOB against expert labels or another job; without them, say how stable the labels are."""
    from outcrop.job.interpretations import is_interpretation, score_interpretation
    from outcrop.job.scoring import compare_jobs, probe_labels, score_labels
    from outcrop.job.training import net_labels
    from outcrop.patches.grid import DIRECTIONS

    opened, wanted = oc.Job(job, origin="shell"), line_list(lines)
    other = None if against is None else oc.Job(against, origin="shell")
    along, numbers = DIRECTIONS[opened.plan.along], opened.axes[opened.plan.along]
    if against is not None and (truth or net):
        raise ValueError("--against compares two jobs; give --truth or --net in a command of its own.")
    if net and not truth:
        raise ValueError("Labels of a net can only be scored; name expert labels with --truth.")
    with work_bars() as progress:
        opened.check_volume(progress=progress)
    say_notes(opened)
    if not opened.labelled:
        raise ValueError(f"{job} has no labels yet; run 'outcrop label {job}' first.")
    for one in [opened, *([] if other is None else [other])]:
        old = sum(one.labelled.values())
        if old:
            say(f"Warning: {old} labelled lines of {one.path} are of older decisions (stale).", style="yellow")
    for line in wanted or []:
        if line not in numbers:
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
        done = numbers[list(opened.labelled)].tolist()
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
) -> None:
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
) -> None:
    """Find the connected bodies of every class of a JOB: a table, tops and bases as horizons (csv, IRAP), pictures."""
    from outcrop.job.bodies import read_tops, top_misfits, write_bodies
    from outcrop.job.inputs import class_name

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
    from outcrop.job.inputs import class_name

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
    lines: LINES = None,
    truth: Annotated[str | None, typer.Option(help="Expert labels, to score the labels and the net.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same net.")] = 0,
    device: DEVICE = None,
    json_: AS_JSON = False,
) -> None:
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
    every = wanted or opened.axes[opened.plan.along].tolist()
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
