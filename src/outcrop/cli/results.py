"""Commands on labels: evaluate, export, bodies, train."""

import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import outcrop as oc
from outcrop.cli.console import answer, duration, say, show_frame, warn, work_bars
from outcrop.cli.opening import open_job
from outcrop.cli.options import AS_JSON, DEVICE, JOB, LINES, MEMORY, NET, STALE
from outcrop.cli.program import app
from outcrop.cli.tables import show_comparison, show_gain, show_scores
from outcrop.cli.texts import OnePath, Text, Texts, line_list, named_value
from outcrop.parallel import memory_budget
from outcrop.storage.workspace import spare_survey
from outcrop.words import counted


@app.command()
def evaluate(
    job: JOB,
    truth: Annotated[
        Text,
        Option(
            help="File to score the labels with: expert labels (with FILE.classes.toml), fault sticks or a horizon."
        ),
    ] = None,
    class_: Annotated[
        Text,
        Option(
            "--class",
            help="Class of the fault sticks in --truth (default: fault), or class whose top is the horizon in --truth.",
        ),
    ] = None,
    against: Annotated[
        OnePath, Option(help="Compare the labels with the labels of this other job on the same survey.")
    ] = None,
    lines: LINES = None,
    net: NET = False,
    json_: AS_JSON = False,
) -> None:
    """Score the labels of a JOB against expert labels or another job; without either, measure their stability.

    Expert labels are a Zarr folder, or a SEG-Y file, .npy file or picture with a table of classes, FILE.classes.toml.
    Labels can also be scored against fault sticks and horizons of other programs. Stability is the share of labels
    that do not change when the line is mirrored, multiplied by a gain, reversed in polarity or labelled with another
    random seed.
    """
    from outcrop.job.interpretations import is_interpretation, score_interpretation
    from outcrop.job.scoring import compare_jobs, probe_labels, score_labels
    from outcrop.job.training import net_labels
    from outcrop.patches.grid import DIRECTIONS

    wanted = line_list(lines)
    if against is not None and (truth or net):
        raise ValueError("--against compares two jobs; give --truth or --net in a separate command.")
    if net and not truth:
        raise ValueError("The labels of a net need expert labels to be scored; give them with --truth.")
    with open_job(job) as opened:
        other = None if against is None else oc.Job(against, origin="shell")
        with work_bars() as progress:
            opened._check_volume(progress=progress)
        along, axis, labelled = DIRECTIONS[opened.plan.along], opened.axes[opened.plan.along], opened.labelled
        if not labelled:
            raise ValueError(f"{job} has no labels yet; run 'outcrop label {job}' first.")
        for one in (opened, other):
            old = 0 if one is None else sum(one.labelled.values())
            if one is not None and old:
                warn(f"{one.path}: {counted(old, 'labelled lines', 'are')} stale (labelled from older decisions).")
        for line in wanted or []:
            if line not in axis:
                raise ValueError(f"--lines names {along} {line}, which {job} does not have; choose another.")
        if other is not None:
            found = compare_jobs(opened, other, lines=wanted)
            answer(json_, found, show_comparison, found, job, against)
        elif truth and is_interpretation(truth):
            found = score_interpretation(opened, truth, class_, lines=wanted)
            words = [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in found.items()]
            answer(json_, found, say, "; ".join(words))
        elif truth:
            found = score_labels(opened, truth, lines=wanted, labels=net_labels(opened) if net else None)
            answer(json_, found, show_scores, found)
            say(f"Pictures in {job}: evaluation.png, confusion.png")
        else:
            done = axis[list(labelled)].tolist()
            chosen = wanted or done[:: max(1, len(done) // 2)][:2]
            with work_bars() as progress:
                table = probe_labels(opened, chosen, progress=progress)
            named = along if len(chosen) == 1 else f"{along}s"
            title = f"share of labels unchanged on {named} {', '.join(map(str, chosen))}"
            answer(json_, table, show_frame, table, title)


@app.command()
def export(
    job: JOB,
    out: Annotated[
        Path,
        Argument(metavar="OUT", help="Output: OUT.sgy, OUT.zarr, OUT.npy, OUT.png, or a folder for a training set."),
    ],
    what: Annotated[
        str,
        Option(
            help="Values to write: label, confidence, score:CLASS (votes for CLASS), or class:CLASS (1 where CLASS is "
            "the label, else 0)."
        ),
    ] = "label",
    format_: Annotated[int, Option("--format", help="SEG-Y sample format: 5 IEEE float, 1 IBM float, 8 one byte.")] = 5,
    stale: STALE = False,
    seed: Annotated[int, Option(help="Random seed for dividing a training set into train, val and test.")] = 0,
    net: NET = False,
    memory: MEMORY = None,
) -> None:
    """Write the labels of a JOB as SEG-Y with the volume's trace headers, Zarr, .npy or .png, or as a training set."""
    from outcrop.job.exports import export as write
    from outcrop.job.training import net_labels

    budget = memory_budget(memory)
    if out.suffix.lower() in (".sgy", ".segy"):
        spare_survey(out)
    with open_job(job) as opened:
        labels = net_labels(opened) if net else None
        say(write(opened, out, what=what, format=format_, stale=stale, seed=seed, memory=budget, labels=labels))


@app.command()
def bodies(
    job: JOB,
    output: Annotated[
        Path,
        Option(
            "--output", "-o", help="Folder to write the table of geobodies, their tops and bases, and the report to."
        ),
    ],
    classes: Annotated[
        Texts,
        Option(
            "--class",
            help="Find geobodies only of this class; default: all classes but the background. May be repeated.",
        ),
    ] = None,
    min_samples: Annotated[int, Option(help="Leave out geobodies with fewer samples than this number.")] = 1000,
    velocity: Annotated[
        float | None,
        Option(help="Interval velocity in m/s, to convert sizes of geobodies to m3 if the survey is in time."),
    ] = None,
    fuse: Annotated[
        bool | None,
        Option(
            "--fuse/--no-fuse",
            help="Label inlines and crosslines, and sum the votes of both; default: only if all lines of the survey "
            "are labelled already.",
        ),
    ] = None,
    top: Annotated[
        Texts,
        Option(help="Compare the top of the largest geobody of a class with a horizon: CLASS=FILE. May be repeated."),
    ] = None,
    stale: STALE = False,
    memory: MEMORY = None,
    json_: AS_JSON = False,
) -> None:
    """Find the geobodies of a JOB, and write a table, their tops and bases as horizons (csv, IRAP), and a report.

    A geobody is a set of connected samples of one class. Labels that are computed line by line vary from line to line,
    so their geobodies have stripes. To avoid this, --fuse labels the lines of the other direction too and sums the
    votes of both directions. --fuse is the default if all lines of the survey are labelled already.
    """
    from outcrop.job.bodies import read_tops, top_misfits, write_bodies
    from outcrop.job.inputs import class_name

    files = dict(named_value(text, "--top", "CLASS=FILE, e.g. salt-dome=top.csv") for text in top or [])
    options: dict[str, Any] = {"min_samples": min_samples, "velocity": velocity, "fuse": fuse, "stale": stale}
    options |= {"classes": [class_name(name) for name in classes or []] or None, "memory": memory_budget(memory)}
    with open_job(job) as opened, work_bars() as progress:
        tops = read_tops(opened, {class_name(name): path for name, path in files.items()})
        found, notes = write_bodies(opened, output, progress=progress, **options)
    misfits = top_misfits(found, tops)
    answer(json_, {"bodies": found.table, "notes": notes, "tops": misfits})
    if json_:
        return
    show_frame(found.table, counted(len(found.table), "bodies"))
    if len(misfits):
        show_frame(misfits, "tops against horizons")
    for note in notes:
        say(note[0].upper() + note[1:], style="yellow")
    say(f"Written to {output}: bodies.csv, tops and bases, report.html")


@app.command()
def train(
    job: JOB,
    epochs: Annotated[
        int | None,
        Option(help="Number of training passes over all patches; default: enough to train on 12,000 patches in total."),
    ] = None,
    lines: Annotated[Text, Option(help="Label only these lines with the net, e.g. 310,330 or 300-340.")] = None,
    truth: Annotated[
        Text, Option(help="Expert labels with which the labels of the mapping and of the net are scored.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the initial weights and the training.")] = 0,
    device: DEVICE = None,
    json_: AS_JSON = False,
) -> None:
    """Train a U-Net on the labels of a JOB and label the volume with it; resumes a stopped run.

    The net is trained on patches of all labelled lines; the confidence of each label is its weight, and uncertain
    samples are ignored. To score or export the labels of the net, give --net to 'outcrop evaluate' or 'outcrop export'.
    """
    from outcrop.job.pictures import draw_labels
    from outcrop.job.training import label_with_net, net_gain, train_net

    begin, wanted = time.perf_counter(), line_list(lines)
    with open_job(job) as opened:
        with work_bars() as progress:
            key, net = train_net(opened, epochs=epochs, seed=seed, device=device, progress=progress)
        say(f"U-Net for the classes {', '.join(net.classes_)} trained in {duration(time.perf_counter() - begin)}")
        every = wanted or opened.axes[opened.plan.along].tolist()
        with work_bars() as progress:
            labels = label_with_net(opened, key, net, lines=wanted, progress=progress)
        middle = wanted[0] if wanted else every[len(every) // 2]
        draw_labels(opened, middle, name="net.png", labels=labels)
        say(f"{job}: labels of net {key} are stored; net.png shows line {middle}")
        gain = net_gain(opened, truth=truth)
    answer(json_, gain, show_gain, gain)
