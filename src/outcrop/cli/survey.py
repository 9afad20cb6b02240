"""Commands on a volume without a job: info, synth."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from outcrop.cli.console import answer, say, work_bars
from outcrop.cli.opening import open_volume
from outcrop.cli.options import AS_JSON, DOMAIN, HEADER_BYTES, VOLUME
from outcrop.cli.program import app
from outcrop.cli.tables import show_facts
from outcrop.cli.texts import Text, numbers
from outcrop.storage.workspace import spare_survey
from outcrop.words import counted


@app.command()
def info(
    volume: VOLUME,
    json_: AS_JSON = False,
    header_bytes: HEADER_BYTES = None,
    domain: DOMAIN = None,
    size: Annotated[
        str,
        Option(
            help="Patch size to show in ms and m: one number, HEIGHT,WIDTH in samples and traces, or e.g. 400ms,2500m."
        ),
    ] = "99",
    picture: Annotated[Text, Option(help="Draw the middle inline into this file, e.g. line.png.")] = None,
) -> None:
    """Show axes, geometry, format and amplitudes of a VOLUME; writes a file only with --picture."""
    from outcrop.volumes.lengths import parse_size
    from outcrop.volumes.summary import describe, sample_unit

    data = open_volume(volume, header_bytes, domain)
    facts = describe(data)
    height, width = parse_size(size, data)
    facts["patch"] = {"samples": height, "traces": width}
    axis, unit = data[data.dims[2]].values, sample_unit(data)
    if unit and len(axis) > 1:
        facts["patch"][f"height_{unit}"] = height * abs(float(axis[1] - axis[0]))
    if "bin_size" in data.attrs:
        facts["patch"]["width_m"] = width * float(data.attrs["bin_size"][1])
    if picture:
        from outcrop.plots.figure import new_figure
        from outcrop.plots.sections import section

        figure = new_figure(figsize=(12, 5), layout="constrained")
        section(data[len(data) // 2], ax=figure.add_subplot())
        figure.savefig(picture, dpi=150)
    answer(json_, facts, show_facts, volume, facts)


@app.command()
def synth(
    out: Annotated[Path, Argument(metavar="OUT", help="SEG-Y file to write, ending in .sgy.")],
    shape: Annotated[str, Option(help="Numbers of inlines, crosslines and samples of the volume.")] = "120,200,256",
    seed: Annotated[int, Option(min=0, help="Random seed; the same seed gives the same volume.")] = 0,
) -> None:
    """Write a synthetic volume OUT.sgy with faults, salt domes and chaotic bands, and its true labels OUT.truth.sgy."""
    from outcrop.datasets.survey import write_synthetic

    if out.suffix.lower() not in (".sgy", ".segy"):
        raise ValueError(f"{out} does not end in .sgy, but synth writes SEG-Y; choose {out.with_suffix('.sgy')}.")
    lines, traces, samples = numbers(shape, 3, "--shape")
    spare_survey(out, synthetic=True)
    with work_bars() as progress:
        write_synthetic(out, (lines, traces, samples), seed=seed, progress=progress)
    say(f"{out} and its true labels: {counted(lines, 'inlines')}, {counted(traces, 'crosslines')}, {samples} samples")
