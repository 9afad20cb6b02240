"""The command faults."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import plain, say, work_bars
from outcrop.cli.options import (
    AS_JSON,
    DEVICES,
    HEADER_BYTES,
    LINES,
    line_list,
    number_list,
    numbers,
    open_volume,
)
from outcrop.cli.program import app
from outcrop.storage.workspace import refuse_volume_name


@app.command()
def faults(
    source: Annotated[str, typer.Argument(metavar="VOLUME | JOB", help="A volume: all faults; a job: those it shows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="FILE.csv, .dat (OpendTect), .charisma, .pol (IRAP).")],
    format_: Annotated[str | None, typer.Option("--format", help="csv, opendtect, charisma or irap.")] = None,
    along: Annotated[
        str | None, typer.Option(help="Of a volume: sections to pick on, inline (by default), crossline or both.")
    ] = None,
    lines: LINES = None,
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
    device: DEVICES = None,
    header_bytes: HEADER_BYTES = None,
    json_: AS_JSON = False,
) -> None:
    """Pick faults of a VOLUME, or those that a JOB shows: sticks to FILE, strike, dip and area to FILE.surfaces.csv.

    With --accept, --reject and --extend, numbers of sticks as FILE has them from the last time, a job learns which are
    meant; 'outcrop decisions --undo' takes such a decision back.
    """
    from outcrop.geometry.sticks import format_of, numbered_as, read_sticks, stick_scores, write_sticks
    from outcrop.geometry.surfaces import surface_table
    from outcrop.job.fault_report import write_fault_report
    from outcrop.job.faults import sticks_of_class
    from outcrop.patches.grid import DIRECTIONS

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
                volume, along, labels = job.volume, DIRECTIONS[job.plan.along], job.labels
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
