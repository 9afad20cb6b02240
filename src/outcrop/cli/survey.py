"""Commands on a volume alone: info, synth."""

import json
from pathlib import Path
from typing import Annotated

import typer

import outcrop as oc
from outcrop.cli.console import plain, progress_bar, say, show_facts
from outcrop.cli.options import AS_JSON, DOMAIN, HEADER_BYTES, numbers, open_volume
from outcrop.cli.program import app
from outcrop.storage.workspace import spare_survey


@app.command()
def info(
    volume: str,
    json_: AS_JSON = False,
    header_bytes: HEADER_BYTES = None,
    domain: DOMAIN = None,
    size: Annotated[str, typer.Option(help="Patch size whose extent in ms and m is shown.")] = "99",
    picture: Annotated[str | None, typer.Option(help="Draw the middle inline to this file, e.g. line.png.")] = None,
) -> None:
    """Show axes, geometry, format and amplitudes of a VOLUME; writes nothing unless --picture names a file."""
    from outcrop.volumes.lengths import parse_size
    from outcrop.volumes.summary import describe

    data = open_volume(volume, header_bytes, domain)
    facts = describe(data)
    facts["patch"] = patch_extent(data, parse_size(size, data))
    if picture:
        figure = oc.plots.new_figure(figsize=(12, 5), layout="constrained")
        oc.plots.section(data[len(data) // 2], ax=figure.add_subplot())
        figure.savefig(picture, dpi=150)
    if json_:
        print(json.dumps(facts, default=plain))
    else:
        show_facts(volume, facts)


def patch_extent(volume, size):
    """Patch size in samples and traces, and in ms (or m) and metres where the volume tells."""
    from outcrop.volumes.summary import sample_unit

    axis, unit = volume[volume.dims[2]].values, sample_unit(volume)
    extent = {"samples": size[0], "traces": size[1]}
    if unit and len(axis) > 1:
        extent[f"height_{unit}"] = size[0] * abs(float(axis[1] - axis[0]))
    if "bin_size" in volume.attrs:
        extent["width_m"] = size[1] * float(volume.attrs["bin_size"][1])
    return extent


@app.command()
def synth(
    out: Path,
    shape: Annotated[str, typer.Option(help="Inlines, crosslines, samples.")] = "120,200,256",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same volume.")] = 0,
) -> None:
    """Write a synthetic volume OUT.sgy with faults, salt domes and chaotic bands, and its truth OUT.truth.sgy."""
    from outcrop.datasets.survey import write_synthetic

    if out.suffix.lower() not in (".sgy", ".segy"):
        raise ValueError(f"synth writes SEG-Y, and {out} does not end in .sgy; write {out.with_suffix('.sgy')}.")
    lines, traces, samples = numbers(shape, 3, "--shape")
    spare_survey(out, synthetic=True)
    with progress_bar("writing", lines) as update:
        write_synthetic(out, (lines, traces, samples), seed=seed, progress=update)
    say(f"{out} and its truth: {lines} inlines, {traces} crosslines, {samples} samples")
