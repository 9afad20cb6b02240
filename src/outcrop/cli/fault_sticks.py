"""Command faults: pick fault sticks and join them to fault surfaces."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import outcrop as oc
from outcrop.cli.console import answer, say, work_bars
from outcrop.cli.opening import open_job, open_volume
from outcrop.cli.options import AS_JSON, DEVICES, DOMAIN, HEADER_BYTES, LINES
from outcrop.cli.program import app
from outcrop.cli.texts import OnePath, Text, Texts, line_list, named_value, number_list, numbers
from outcrop.storage.workspace import refuse_volume_name
from outcrop.words import counted

if TYPE_CHECKING:
    import pandas as pd


@app.command()
def faults(
    source: Annotated[
        str,
        Argument(
            metavar="VOLUME | JOB",
            help="Volume, to pick all its faults; or job folder, to pick the faults of one class.",
        ),
    ],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            help="FILE to write the fault sticks to: .csv, .dat (OpendTect), .charisma or .pol (IRAP).",
        ),
    ],
    format_: Annotated[
        Text,
        Option("--format", help="Format of the output file: csv, opendtect, charisma or irap; default: by its ending."),
    ] = None,
    along: Annotated[
        Text, Option(help="With a volume: direction of the sections to pick on: inline (default), crossline or both.")
    ] = None,
    lines: LINES = None,
    threshold: Annotated[
        float, Option(help="Fault likelihood, 0 to 1, that a stick must exceed at one or more samples.")
    ] = 0.4,
    class_: Annotated[
        Text,
        Option(
            "--class",
            help="With a job: class of the faults to pick; default: class of the last verdict on a stick, else fault.",
        ),
    ] = None,
    accept: Annotated[
        Text,
        Option(help="With a job: accept sticks, by their numbers in the output file of the previous run, e.g. 3,12."),
    ] = None,
    reject: Annotated[
        Text, Option(help="With a job: reject sticks, by their numbers in the output file of the previous run.")
    ] = None,
    forget: Annotated[
        Text,
        Option(
            help="With a job: clear the verdicts on sticks, by their numbers in the output file of the previous run."
        ),
    ] = None,
    extend: Annotated[
        Texts,
        Option(help="With a job: extend stick number STICK to a point: STICK=INLINE,CROSSLINE,TIME. May be repeated."),
    ] = None,
    import_from: Annotated[
        OnePath,
        Option("--import", help="With a job: file of fault sticks that are added to the job as accepted sticks."),
    ] = None,
    truth: Annotated[
        OnePath, Option(help="File of an interpreter's fault sticks, with which the picked sticks are scored.")
    ] = None,
    velocity: Annotated[
        float, Option(help="Velocity in m/s that converts time to depth, to compute dip and area of fault surfaces.")
    ] = 2500.0,
    report: Annotated[
        OnePath, Option(help="HTML file to write: a report with the sticks on sections and a time slice.")
    ] = None,
    device: DEVICES = None,
    header_bytes: HEADER_BYTES = None,
    domain: DOMAIN = None,
    json_: AS_JSON = False,
) -> None:
    """Pick fault sticks of a VOLUME, or of one class of a JOB, and join them to surfaces with strike, dip and area.

    The sticks are written to FILE (--output), the surfaces to FILE.surfaces.csv. In a volume, all faults are picked. In
    a job, only sticks along which the labels show the class are picked. Give verdicts on the sticks of a job with
    --accept, --reject and --extend, by the stick numbers in the FILE of the previous run: the job keeps the verdicts
    and learns from them. 'outcrop decisions JOB --undo' undoes them.
    """
    from outcrop.geometry.sticks import format_of, numbered_as, read_sticks, stick_scores, write_sticks
    from outcrop.geometry.surfaces import surface_table
    from outcrop.job.fault_report import write_fault_report
    from outcrop.job.faults import import_sticks, sticks_of_class
    from outcrop.patches.grid import DIRECTIONS

    kind, wanted = format_of(output, format_), line_list(lines)
    given = {"accept": accept, "reject": reject, "forget": forget}
    judged = {what: number_list(text, f"--{what}") for what, text in given.items() if text}
    extended = dict(parse_extension(text) for text in extend or [])
    named = [number for some in judged.values() for number in some]
    twice = [number for number, n in Counter(named).items() if n > 1]
    if twice or len(extended) < len(extend or []):
        raise ValueError(
            f"A stick is named twice ({', '.join(map(str, twice)) or '--extend'}); give one verdict on each stick."
        )
    check_files([path for path in (output, report) if path], [path for path in (truth, import_from) if path])
    is_job = (Path(source) / "job.toml").is_file()
    if not is_job and (class_ or judged or extended or import_from):
        options = "--class, --accept, --reject, --forget, --extend and --import"
        raise ValueError(f"{source} is not a job folder; {options} need one.")
    if is_job and (along or header_bytes or domain or device):
        raise ValueError(f"{source} is a job; --along, --header-bytes, --domain and --device need a volume.")
    before = labels = None
    if is_job:
        with open_job(source) as job, work_bars() as progress:
            volume, along, labels = job.volume, DIRECTIONS[job.plan.along], job.labels
            real = read_sticks(truth, volume) if truth else None
            before = read_sticks(output, volume, format=kind) if output.is_file() else None
            chosen = [(what, chosen_sticks(before, some, output)) for what, some in judged.items()]
            longer = [(place, chosen_sticks(before, [number], output)) for number, place in extended.items()]
            if import_from:
                taken = import_sticks(job, import_from, class_ or "fault")
                say(f"{counted(taken, 'sticks')} imported from {import_from}")
            decide_sticks(job, class_, chosen, longer)
            sticks = sticks_of_class(job, class_, lines=wanted, threshold=threshold, progress=progress)
        if before is not None:
            sticks = numbered_as(sticks, before, volume)
            lost = sorted(set(before["stick"]) - set(sticks["stick"]) - set(named))
            if lost and named:
                say(f"Verdicts also apply to nearby lines; these sticks were removed too: {', '.join(map(str, lost))}")
    else:
        volume, along = open_volume(source, header_bytes, domain), along or "inline"
        real = read_sticks(truth, volume) if truth else None
        with work_bars() as progress:
            where: dict[str, Any] = {"device": device, "progress": progress}
            sticks = oc.fault_sticks(volume, along=along, lines=wanted, threshold=threshold, **where)
    write_sticks(sticks, output, volume, format=kind)
    table = surface_table(sticks, volume, velocity=velocity)
    table.round(3).to_csv(output.with_name(output.name + ".surfaces.csv"), index=False)
    scores = {}
    if real is not None:
        name = "crossline" if along == "crossline" else "inline"
        scores = stick_scores(sticks, real[real[name].isin(wanted)] if wanted else real, volume)
        if not scores["sections"]:
            raise ValueError(
                f"{truth} has no stick on the picked lines; choose lines that have sticks in this file with --lines."
            )
    if report:
        facts = {"source": source, "threshold": threshold, "along": along, "file": str(output)}
        write_fault_report(report, volume, sticks, table, truth=real, scores=scores, labels=labels, facts=facts)
    n_sticks = int(sticks["stick"].nunique())
    words = f"{output}: {counted(n_sticks, 'sticks')}, {counted(len(table), 'surfaces')}"
    if real is not None:
        words += "\nprecision {precision:.3f}, recall {recall:.3f}, F1 {F1:.3f} on {sections} sections".format(**scores)
    answer(json_, {"sticks": n_sticks, "surfaces": len(table), "file": str(output)} | scores, say, words)


def decide_sticks(job: "oc.Job", name: Text, judged: list[Any], extended: list[Any]) -> None:
    """Record verdicts on fault sticks of the class `name`, and extensions of sticks, as one act.

    `judged` holds pairs (verdict, sticks), and `extended` holds pairs (point, stick); sticks are rows of a table of
    fault sticks. If a verdict or an extension is invalid, nothing is recorded.
    """
    from outcrop.job.faults import extend_stick, extended_stick, judge_sticks

    for place, stick in extended:
        extended_stick(job, stick, place)  # checked before anything is decided
    with job.log.act():  # one undo cancels all of them
        for what, some in judged:
            judge_sticks(job, some, what, name)
        for place, stick in extended:
            extend_stick(job, stick, place, name)


def check_files(written: list[Path], read: list[Path]) -> None:
    """Raise ValueError if an output file would replace a volume, an input file or another output file."""
    for path in written:
        refuse_volume_name(path)
        if not path.parent.is_dir():
            raise ValueError(f"The folder {path.parent} does not exist; make it, or choose another.")
        if path.resolve() in [one.resolve() for one in read]:
            raise ValueError(f"{path} is an input and would be replaced; choose another name for the output.")
    if len({path.resolve() for path in written}) < len(written):
        raise ValueError(f"{written[0]} would be written twice; give --report another name.")


def parse_extension(text: str) -> tuple[int, tuple[float, ...]]:
    """Return the number of a stick and the point (inline, crossline, time) from the text of an --extend option."""
    form = "STICK=INLINE,CROSSLINE,TIME"
    number, place = named_value(text, "--extend", form)
    if not number.isdecimal() or place.count(",") != 2:
        raise ValueError(f"--extend is {text!r}; write {form}.")
    return int(number), numbers(place, 3, "--extend", float)


def chosen_sticks(before: "pd.DataFrame | None", wanted: list[int], output: Path) -> "pd.DataFrame":
    """Return the rows of `before`, the sticks of the previous run, whose stick numbers are in `wanted`.

    `before` is None if no previous run wrote the file `output`; then ValueError is raised.
    """
    if before is None:
        raise ValueError(f"{output} does not exist yet; pick without --accept, --reject and --extend first.")
    missing = sorted(set(wanted) - set(before["stick"]))
    if missing:
        raise ValueError(f"{output} has no stick {missing[0]}; choose 0 to {before['stick'].max()}.")
    return before[before["stick"].isin(wanted)]
