"""The command index."""

import json
from pathlib import Path
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import duration, say, work_bars
from outcrop.cli.options import (
    DEVICES,
    HEADER_BYTES,
    MEMORY,
    SCHEDULER,
    WORKERS,
    numbers,
    open_volume,
    say_notes,
)
from outcrop.cli.program import app
from outcrop.parallel import cluster, memory_budget


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
    gain: Annotated[
        str | None, typer.Option(help="Amplitudes to [0, 1] by: volume (one clip, default), agc:MS, or patch.")
    ] = None,
    clip: Annotated[
        str | None, typer.Option(help="Amplitude that becomes 0 and 1; auto (default): a robust percentile.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="How patches are compared: encoder (default) or curvelet-svd (paper's).")
    ] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    device: DEVICES = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say patches, time and disk, and stop.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --dry-run: in JSON on standard output.")] = False,
    header_bytes: HEADER_BYTES = None,
) -> None:
    """Describe every patch of a VOLUME into a job folder; goes on where an interrupted run stopped.

    Exemplars, verdicts and strokes of the job stay, whatever step, size or path is given. Options that are not given
    stay as they were chosen for the job before; 'auto' for size, step, area or clip gives the default again.
    """
    from outcrop.volumes.lengths import parse_size

    budget = memory_budget(memory)
    data = open_volume(volume, header_bytes)
    before = status_before(output)
    before_options = chosen_before(output)
    chosen = before_options.updated(
        size=parsed(size, lambda text: parse_size(text, data)),
        step=parsed(step, lambda text: numbers(text, 2 if "," in text else 1, "--step")),
        between=parsed(between, lambda text: tuple(text.split(","))),
        clip=parsed(clip, lambda text: numbers(text, 1, "--clip", float)[0]),
        area=chosen_area(before_options.area, zip(data.dims, (inlines, crosslines, times), strict=True)),
        along=along,
        every=every,
        gain=gain,
        measure=measure,
    )
    fitted = chosen.fitted(data.shape)
    grid = fitted.grid(data)
    cost = announce(data, grid, fitted, by_size=chosen.step is None, workers=workers)
    if dry_run:
        print(json.dumps(cost._asdict())) if json_ else None
        return
    with (
        oc.Job(output, volume=data, origin="shell") as job,
        cluster(workers=workers, scheduler=scheduler, memory=budget) as client,
        work_bars() as progress,
    ):
        job.choose(index=chosen)
        built = job.index(client=client, memory=budget, device=device, progress=progress)
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
    """Return the options that were chosen for the index of a job, the defaults where there is none."""
    from outcrop.job.options import IndexOptions

    if not (path / "job.toml").is_file():
        return IndexOptions()
    try:
        return oc.Job(path).options.index
    except ValueError:  # unreadable, and about to be given its volume again
        return IndexOptions()


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


def parsed(text, parse):
    """Return the value of an option; None where it was not given, ``auto`` as it is."""
    return text if text in (None, "auto") else parse(text)


def chosen_area(before, given):
    """Return the area of an index: the earlier one with the axes that are given now, ``auto`` for the whole survey."""
    area = dict(before or {})
    for name, text in given:
        if text == "auto":
            area.pop(name, None)
        elif text is not None:
            area[name] = numbers(text, 2, f"--{name}s", float)
    return area or "auto"


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


def announce(volume, grid, options, *, by_size=False, workers=None):
    """Say what indexing will cost, measured on a few patches, and warn where amplitudes drift; the cost."""
    from outcrop.job.costs import index_cost
    from outcrop.volumes.summary import describe

    cost = index_cost(volume, grid, options, workers=workers)
    left = f", {grid.left_out} left out at missing traces or outside the area" if grid.left_out else ""
    clip = "none" if grid.clip is None else f"{grid.clip:.4g}"
    step = f"step {grid.step[0]}" if grid.step[0] == grid.step[1] else "step {} down, {} across".format(*grid.step)
    step += " by the size of the survey (--step chooses another)" if by_size else ""
    say(
        f"{len(grid)} patches of {grid.size[0]} x {grid.size[1]}, {step}{left}; about {duration(cost.seconds)} and "
        f"{cost.bytes / 1e6:.1f} MB; clip {clip}"
    )
    rms = describe(volume)["rms"]
    drifts = {"lines": rms["drift_lines"], "time": rms["drift_time"]}
    across = " and ".join(f"{value:.1f} dB over {name}" for name, value in drifts.items() if value and value > 3)
    if grid.gain == "volume" and across and options.measure == "curvelet-svd":
        say(
            f"Warning: RMS amplitude drifts by {across}, and the measure follows amplitude; "
            "consider --gain agc:500 or --gain patch.",
            style="yellow",
        )
    return cost
