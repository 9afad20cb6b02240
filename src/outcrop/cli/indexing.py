"""Command index: compute the descriptors of all patches of a volume."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from outcrop.cli.console import answer, duration, listed, say, warn
from outcrop.cli.opening import open_job, open_volume, resources
from outcrop.cli.options import DEVICES, DOMAIN, DRY_RUN_AS_JSON, HEADER_BYTES, MEMORY, SCHEDULER, VOLUME, WORKERS
from outcrop.cli.program import app
from outcrop.cli.texts import Text, numbers
from outcrop.words import counted

if TYPE_CHECKING:
    import xarray as xr

    from outcrop.job.costs import Cost
    from outcrop.job.options import IndexOptions
    from outcrop.patches.grid import PatchGrid


@app.command()
def index(
    volume: VOLUME,
    output: Annotated[Path, Option("--output", "-o", help="Job folder to write to, by convention NAME.outcrop.")],
    size: Annotated[
        Text,
        Option(help="Patch size, at least 32: 99 (default), HEIGHT,WIDTH in samples and traces, or e.g. 400ms,2500m."),
    ] = None,
    step: Annotated[
        Text,
        Option(
            help="Samples and traces from patch to patch: one number or DOWN,ACROSS; auto (default): by survey size."
        ),
    ] = None,
    along: Annotated[
        Text, Option(help="Direction of the sections to index: inline (default), crossline or both.")
    ] = None,
    every: Annotated[
        int | None,
        Option(help="Index only every Nth line (default 1: all lines); neighbouring lines are nearly equal."),
    ] = None,
    inlines: Annotated[
        Text, Option(help="Index only these inlines: FIRST,LAST, e.g. 300,400; auto (default): all inlines.")
    ] = None,
    crosslines: Annotated[
        Text, Option(help="Index only these crosslines: FIRST,LAST, e.g. 300,400; auto (default): all crosslines.")
    ] = None,
    times: Annotated[
        Text,
        Option(help="Index only these times in ms (or depths in m): FIRST,LAST, e.g. 800,1600; auto (default): all."),
    ] = None,
    between: Annotated[
        Text,
        Option(
            help="Index only patches with centres between two horizons: TOP.txt,BASE.txt; auto (default): all patches."
        ),
    ] = None,
    gain: Annotated[
        Text,
        Option(
            help="Scaling of amplitudes to [0, 1]: volume (default: one clip for all), agc:MS (by RMS in windows of MS "
            "milliseconds) or patch (by RMS of each patch)."
        ),
    ] = None,
    clip: Annotated[
        Text,
        Option(
            help="Amplitude that is scaled to 1, and its negative to 0; auto (default): 99.5th percentile of absolute "
            "amplitudes."
        ),
    ] = None,
    measure: Annotated[
        Text, Option(help="Measure of similarity of patches: encoder (default) or curvelet-svd (as in the paper).")
    ] = None,
    workers: WORKERS = None,
    scheduler: SCHEDULER = None,
    memory: MEMORY = None,
    device: DEVICES = None,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Print the number of patches, and the time and disk space needed; compute nothing."),
    ] = False,
    json_: DRY_RUN_AS_JSON = False,
    header_bytes: HEADER_BYTES = None,
    domain: DOMAIN = None,
) -> None:
    """Compute the descriptor of every patch of a VOLUME, for 'outcrop retrieve'; resumes an interrupted run.

    Exemplars, verdicts and strokes of the job are kept when size, step or the path of the volume changes. An option
    that you leave out keeps the value of the last run. The value 'auto' restores the default of --size, --step,
    --clip, --between, --inlines, --crosslines or --times. The default step is larger for larger surveys.
    """
    from outcrop.job.choosing import choose_options
    from outcrop.job.costs import check_disk
    from outcrop.job.decisions import Decisions
    from outcrop.job.options import IndexOptions
    from outcrop.volumes.identity import known_volume, refuse_other_folder
    from outcrop.volumes.lengths import parse_size

    refuse_other_folder(output)
    known: dict[str, Any] = {}
    with contextlib.suppress(ValueError):  # an unreadable job.toml: the volume is given here
        known = known_volume(output)
    if known.get("source") == os.path.abspath(volume):
        domain = domain or known["options"].get("domain")
    data = open_volume(volume, header_bytes, domain)
    for note in data.attrs.get("notes", ()):
        say(note, style="yellow")
    before = IndexOptions.read(Decisions(output).state().options.get("index", {}))
    across = "crossline" if (along or before.along) == "crossline" else "inline"
    chosen = before.updated(
        size=parsed(size, lambda text: parse_size(text, data, along=across)),
        step=parsed(step, lambda text: numbers(text, 2 if "," in text else 1, "--step")),
        between=parsed(between, lambda text: tuple(text.split(","))),
        clip=parsed(clip, lambda text: numbers(text, 1, "--clip", float)[0]),
        area=chosen_area(before.area, dict(zip(data.dims, (inlines, crosslines, times), strict=True))),
        along=along,
        every=every,
        gain=gain,
        measure=measure,
    )
    fitted = chosen.fitted((data.shape[0], data.shape[1], data.shape[2]))
    grid = fitted.grid(data)
    cost = announce(data, grid, fitted, by_size=chosen.step is None, workers=workers)
    if dry_run:
        answer(json_, cost._asdict())
        return
    check_disk(output, cost.bytes)
    with resources(workers, scheduler, memory) as where, open_job(output, data) as job:
        job._held("grid", (job._known["digest"], fitted), lambda: grid)  # checked before the folder is written
        choose_options(job, index=chosen)
        status = job.index(**where, device=device).status
        report = job.status()
    skipped = {"touch missing samples": (status == 1).sum(), "muted, water or constant": (status == 2).sum()}
    reasons = ", ".join(f"{n} {why}" for why, n in skipped.items() if n)
    if not (status == 0).any():
        raise ValueError(f"No patch of {volume} can be described: {reasons}; check its amplitudes with 'outcrop info'.")
    say(f"{output}: {counted((status == 0).sum(), 'patches')} described" + (f"; skipped: {reasons}" if reasons else ""))
    say_kept(known, report, changed=chosen != before)


def parsed(text: Text, parse: Callable[[str], Any]) -> Any:
    """Return the parsed value of an option; None (not given) and ``auto`` are returned unchanged."""
    return text if text is None or text == "auto" else parse(text)


def chosen_area(before: Mapping[str, tuple[float, float]] | None, given: Mapping[Any, Text]) -> Any:
    """Return the area to index as a dict: axis -> (first, last); or ``auto`` for the whole survey.

    `before` is the area of the last run, None for the whole survey. `given` is a dict: axis -> text of its option, such
    as ``300,400``. If the text is None, the range of the last run is kept; if it is ``auto``, the range is removed.
    """
    area: dict[str, Any] = dict(before or {})
    for name, text in given.items():
        if text == "auto":
            area.pop(name, None)
        elif text is not None:
            area[name] = numbers(text, 2, f"--{name}s", float)
    return area or "auto"


def say_kept(known: Mapping[str, Any], report: Mapping[str, Any], *, changed: bool) -> None:
    """Print the number of decisions that an existing job keeps, and how many of its labelled lines became stale.

    Parameters
    ----------
    known : dict
        Facts about the volume that the job had before this command; empty for a new job.
    report : dict
        Status of the job after this command, as `Job.status` returns it.
    changed : bool
        Whether this command changed the options of the index.
    """
    decided, stale = listed(report["decisions"]), report["lines"]["stale"]
    lines = counted(stale, "labelled lines", "are")
    if decided:
        say(f"Decisions kept: {decided}")
    if known and known["digest"] != report["keys"]["volume"]:
        older = f"; {lines} stale" if stale else ""
        if known["source"] == report["volume"]:
            warn(f"The samples of {known['source']} changed{older}.")
        else:
            source = known["source"] or "array"
            warn(
                f"{report['volume']} has other samples than {source}, the earlier volume of this job{older}. "
                f"To return to it, index {source} again."
            )
    elif known and stale and changed:
        say(f"{lines} stale: made with another index; 'outcrop label' labels them again")


def announce(
    volume: "xr.DataArray", grid: "PatchGrid", options: "IndexOptions", *, by_size: bool, workers: int | None
) -> "Cost":
    """Print and return the time and disk space that an index needs; warn if amplitudes change across the survey.

    The time is measured on a few patches. `by_size` states whether the size of the survey determined the step.
    """
    from outcrop.job.costs import index_cost
    from outcrop.volumes.summary import describe

    cost: Cost = index_cost(volume, grid, options, workers=workers)
    left = f", {grid.left_out} left out at missing traces or outside the area" if grid.left_out else ""
    clip = "none" if grid.clip is None else f"{grid.clip:.4g}"
    step = f"step {grid.step[0]}" if grid.step[0] == grid.step[1] else "step {} down, {} across".format(*grid.step)
    step += " chosen for the size of the survey (--step changes it)" if by_size else ""
    say(
        f"{counted(len(grid), 'patches')} of {grid.size[0]} x {grid.size[1]}, {step}{left}; about "
        f"{duration(cost.seconds)} and {cost.bytes / 1e6:.1f} MB; clip {clip}"
    )
    if grid.gain == "volume" and options.measure == "curvelet-svd":
        rms = describe(volume)["rms"]
        drifts = {"lines": rms["drift_lines"], "time": rms["drift_time"]}
        strong = " and ".join(f"{value:.1f} dB over {name}" for name, value in drifts.items() if value and value > 3)
        if strong:
            warn(
                f"RMS amplitude changes by {strong}, which affects similarity; consider --gain agc:500 or --gain patch."
            )
    return cost
