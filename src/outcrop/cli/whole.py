"""Commands that do a whole job: app, demo, reproduce."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from outcrop.cli.console import answer, duration, say, show_frame, warn, work_bars
from outcrop.cli.options import AS_JSON, DEVICE
from outcrop.cli.program import app
from outcrop.cli.tables import show_scores
from outcrop.cli.texts import OnePath, Text, Texts


@app.command("app")
def page(
    source: Annotated[Text, Argument(metavar="[VOLUME | JOB]", help="By default chosen on the page.")] = None,
    job: Annotated[OnePath, Option("--output", "-o", help="Job folder; NAME.outcrop by default.")] = None,
    size: Annotated[Text, Option(help="Patch size of a new job: 99, or height,width, or 400ms,2500m.")] = None,
    truth: Annotated[Text, Option(help="Expert labels to compare with.")] = None,
    port: Annotated[int, Option(help="0 takes a free one.")] = 0,
    host: Annotated[str, Option(help="Address to listen on; any other opens the page to the network.")] = "127.0.0.1",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the interpreter's page: pick exemplars, correct what is retrieved, label, export, all by looking."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port is {port}; choose 1 to 65535, or 0 for a free one.")
    from outcrop.app.server import LOOPBACK, serve

    if host not in LOOPBACK:
        warn(f"{host} opens the page to the network; everyone who has the address can change the job.")
    say_address = partial(print, flush=True)
    serve(source, job=job, size=size, truth=truth, port=port, host=host, browser=browser, ready=say_address)


@app.command()
def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for all that is made.")] = Path("demo"),
    mapping: Annotated[str, Option(help="How labels are made: points, or a name of oc.MAPPERS.")] = "points",
    seed: Annotated[int, Option(help="Of the volume, its exemplars and the mapping.")] = 0,
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
    name: Annotated[str, Argument(help="An experiment, or all.")],
    data: Annotated[OnePath, Option(help="Folder of the real data; default: OUTCROP_DATA.")] = None,
    output: Annotated[Path, Option("--output", "-o", help="Folder for figures, tables and the page.")] = Path("out"),
    quick: Annotated[bool, Option("--quick", help="Small sizes, to see that everything runs.")] = False,
    device: DEVICE = None,
    mapping: Annotated[Texts, Option(help="expert: only these mappers. Repeat it.")] = None,
    supervision: Annotated[Text, Option(help="expert: patches or exemplars; both by default.")] = None,
    seeds: Annotated[int | None, Option(help="expert, training, interpreter: mean over so many seeds.")] = None,
    only: Annotated[Texts, Option(help="interpreter: only these lines, e.g. 'F3 330'.")] = None,
    method: Annotated[Texts, Option(help="interpreter: only these methods, e.g. both.")] = None,
    json_: AS_JSON = False,
) -> None:
    """Make a table and figure of the paper again: figure, CSV, page, and a check against the expected values."""
    from outcrop import experiments

    kinds: dict[str, dict[str, Any]] = {
        "expert": {"mappings": mapping, "supervision": supervision, "seeds": seeds},
        "training": {"seeds": seeds},
        "interpreter": {"seeds": seeds, "only": only, "methods": method},
    }
    if name == "expert" and json_:
        from outcrop.experiments.expert import rows

        given = {key: value for key, value in kinds[name].items() if value is not None}
        answer(json_, rows(data, quick=quick, device=device, **given))
        return
    failed: list[str] = []
    for one in experiments.EXPERIMENTS if name == "all" else [name]:
        begin = time.perf_counter()
        result, deviations = experiments.run(one, data, output, quick=quick, device=device, **kinds.get(one, {}))
        title = f"{one} ({duration(time.perf_counter() - begin)})"
        answer(json_, {one: result.table}, show_frame, result.table, title)
        say(result.remark)
        failed += deviations
    say(f"Figures, tables and {output / 'index.html'}")
    if failed:
        raise ValueError("; ".join(failed) + ".")
