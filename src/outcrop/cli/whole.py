"""Commands that run a whole workflow: app, demo, reproduce."""

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
    source: Annotated[
        Text, Argument(metavar="VOLUME | JOB", help="Volume or job folder; without it you choose one on the page.")
    ] = None,
    job: Annotated[
        OnePath, Option("--output", "-o", help="Job folder to write to; default: NAME.outcrop for a volume NAME.")
    ] = None,
    size: Annotated[
        Text,
        Option(help="Patch size of a new job: 99 (default), HEIGHT,WIDTH in samples and traces, or e.g. 400ms,2500m."),
    ] = None,
    truth: Annotated[Text, Option(help="File of expert labels to compare your labels with on the page.")] = None,
    port: Annotated[int, Option(help="Port of the page; 0 chooses a free port.")] = 0,
    host: Annotated[
        str,
        Option(
            help="Address to listen on; default: this machine only. Any other address opens the page to the network."
        ),
    ] = "127.0.0.1",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the page in a browser: mark exemplars, label, correct labels, and export."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port is {port}; choose 1 to 65535, or 0 for a free port.")
    from outcrop.app.server import LOOPBACK, serve

    if host not in LOOPBACK:
        warn(f"{host} opens the page to the network; everyone who has the address can change the job.")
    say_address = partial(print, flush=True)
    serve(source, job=job, size=size, truth=truth, port=port, host=host, browser=browser, ready=say_address)


@app.command()
def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder to write all files to.")] = Path("demo"),
    mapping: Annotated[
        str, Option(help="Method: 'points', or a variant of the paper's method: 'paper', 'published' or 'exact'.")
    ] = "points",
    seed: Annotated[int, Option(help="Random seed of volume, exemplars and mapping.")] = 0,
) -> None:
    """Run the whole workflow on a synthetic volume with known labels: retrieve, label, score, export, report."""
    from outcrop.demo import run

    with work_bars() as progress:
        scores, retrieved, seconds = run(output, seed=seed, mapping=mapping, progress=progress)
    show_frame(retrieved, "retrieved from one exemplar of each class")
    show_scores(scores | {"inlines": [f"{scores['inlines'][0]} to {scores['inlines'][-1]}"]})
    say("; ".join(f"{name} {duration(value)}" for name, value in seconds.items()))
    say(f"Report: {output / 'report.html'}; labels: {output / 'labels.sgy'}")


@app.command()
def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help="Name of an experiment, such as table1, or all.")],
    data: Annotated[
        OnePath, Option(help="Folder with the real data sets; default: the environment variable OUTCROP_DATA.")
    ] = None,
    output: Annotated[
        Path, Option("--output", "-o", help="Folder to write figures, tables and the page index.html to.")
    ] = Path("out"),
    quick: Annotated[
        bool, Option("--quick", help="Compute only small examples, to check that everything runs.")
    ] = False,
    device: DEVICE = None,
    mapping: Annotated[
        Texts, Option(help="For the experiment 'expert': test only this mapping. May be repeated.")
    ] = None,
    supervision: Annotated[
        Text,
        Option(help="For the experiment 'expert': learn from 'patches' or from 'exemplars'; default: both in turn."),
    ] = None,
    seeds: Annotated[
        int | None,
        Option(
            help="For the experiments 'expert', 'training' and 'interpreter': number of random seeds to average over."
        ),
    ] = None,
    only: Annotated[
        Texts, Option(help="For the experiment 'interpreter': only this line, e.g. 'F3 330'. May be repeated.")
    ] = None,
    method: Annotated[
        Texts, Option(help="For the experiment 'interpreter': only this method, e.g. strokes. May be repeated.")
    ] = None,
    json_: AS_JSON = False,
) -> None:
    """Compute a table or figure of the paper again and compare it with the expected values.

    The paper is Alaudah et al., Geophysics 84(1), 2019. Writes NAME.png, NAME.svg, NAME.csv and a page index.html. A
    value outside its expected range ends the command with an error.
    """
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
    say(f"Figures, tables and page: {output / 'index.html'}")
    if failed:
        raise ValueError("; ".join(failed) + ".")
