"""Commands that do a whole job: app, demo, reproduce."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from outcrop.cli.console import duration, plain, say, show_frame, show_scores, work_bars
from outcrop.cli.options import DEVICE, plain_rows
from outcrop.cli.program import app


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
) -> None:
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
) -> None:
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
    device: DEVICE = None,
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
) -> None:
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
