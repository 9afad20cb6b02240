"""Report page on fault sticks: sections and a slice with sticks, and the table of fault surfaces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import plots
from outcrop.geometry.surfaces import direction_of
from outcrop.patches.grid import DIRECTIONS
from outcrop.report import write_report
from outcrop.volumes.axes import nearest_label
from outcrop.words import counted

SECTIONS = 3  # number of lines with sticks that are drawn
LARGEST = 20  # number of surfaces in the table
TRACES = 40_000  # maximum number in a slice; in a larger survey only every second, third, ... line is read


def write_fault_report(
    path: str | Path,
    volume: xr.DataArray,
    sticks: pd.DataFrame,
    surfaces: pd.DataFrame,
    *,
    truth: pd.DataFrame | None = None,
    scores: Mapping[str, Any] | None = None,
    labels: xr.Dataset | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write one HTML page about fault sticks.

    Parameters
    ----------
    path : path
    volume : DataArray
    sticks : DataFrame
        As `outcrop.fault_sticks` gives them.
    surfaces : DataFrame
        As `surface_table` gives it for these sticks.
    truth : DataFrame, optional
        An interpreter's sticks, drawn dashed.
    scores : dict, optional
        As `stick_scores` gives it.
    labels : Dataset, optional
        Labels to draw below the sticks, on labelled sections.
    facts : dict, optional
        Facts about how the sticks were made, such as the options; they are printed at the end of the page.
    """
    count = f"{counted(sticks['stick'].nunique(), 'sticks')} in {counted(len(surfaces), 'surfaces')}"
    table = [f"{count}; the largest:", surfaces.head(LARGEST).round(2)] if len(surfaces) else "No fault was found."
    along, places = drawn_places(volume, sticks)
    figures = []
    for name, label in places:
        shown = labels.sel({name: label}) if labels is not None and name == along else None
        shown = shown if shown is not None and shown["label"].values.any() else None
        ax = plots.sticks(section_at(volume, name, label), sticks, truth=truth, labels=shown)
        words = "Sticks" if name == along else f"Fault surfaces of {along} sticks"
        figures.append((ax, f"{words}, {name} {label:g}."))
    sections: dict[str, Any] = {
        "Surfaces": table,
        "Sections": figures or "There are no sticks to draw.",
        "How it was made": [facts or {}, {"volume": str(volume.attrs.get("source") or "an array")}],
    }
    if scores:
        sections["Scores against the interpreter's sticks, within 3 pixels"] = [scores]
    write_report(path, title="Fault sticks", sections=sections)


def drawn_places(volume: xr.DataArray, sticks: pd.DataFrame) -> tuple[str, list[tuple[str, float]]]:
    """Return the direction of most sticks, and the sections to draw as pairs (axis, number on this axis).

    The sections are up to three lines of this direction and, if more than two lines have sticks, one line across them
    and a slice. Without sticks, the direction is empty and there are no sections.
    """
    if not len(sticks):
        return "", []
    direction_of_stick = {number: DIRECTIONS[direction_of(points)] for number, points in sticks.groupby("stick")}
    directions = sticks["stick"].map(direction_of_stick)
    along = directions.mode()[0]
    lines = np.unique(sticks.loc[directions == along, along])
    chosen = lines[np.unique(np.linspace(0, len(lines) - 1, SECTIONS + 2).round().astype(int)[1:-1])]
    places = [(along, line) for line in chosen]
    if len(lines) > 2:
        others = DIRECTIONS[1 - DIRECTIONS.index(along)], str(volume.dims[2])
        places += [(name, nearest_label(volume[name].values, sticks[name].median())) for name in others]
    return along, places


def section_at(volume: xr.DataArray, name: str, label: float) -> xr.DataArray:
    """Return the section or time slice of a volume at the number or time `label` of the axis `name`.

    Of a large time slice only every second, third, ... line is read.
    """
    if name not in DIRECTIONS:
        step = int(np.ceil(np.sqrt(volume.shape[0] * volume.shape[1] / TRACES)))
        volume = volume.isel(inline=slice(None, None, step), crossline=slice(None, None, step))
    return volume.sel({name: label})
