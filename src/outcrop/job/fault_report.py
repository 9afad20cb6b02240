"""A page about fault sticks: drawn over sections, a crossline and a slice, and the table of their surfaces."""

import numpy as np

from outcrop import plots
from outcrop.geometry.surfaces import direction_of
from outcrop.patches.grid import DIRECTIONS
from outcrop.report import write_report

SECTIONS = 3  # drawn of those with sticks
LARGEST = 20  # surfaces in the table
TRACES = 40_000  # of a slice that are read; of larger surveys every second, third, ... line


def write_fault_report(path, volume, sticks, surfaces, *, truth=None, scores=None, labels=None, facts=None):
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
        Labels to draw below sticks, where they show a section.
    facts : dict, optional
        How the sticks were made.
    """
    count = f"{sticks['stick'].nunique()} sticks in {len(surfaces)} surfaces"
    table = [f"{count}; the largest:", surfaces.head(LARGEST).round(2)] if len(surfaces) else ["No fault was found."]
    sections = {
        "Surfaces": table,
        "Sections": fault_figures(volume, sticks, truth=truth, labels=labels) or ["Nothing to draw."],
        "How it was made": [facts or {}, {"volume": str(volume.attrs.get("source") or "an array")}],
    }
    if scores:
        sections["Against the interpreter's sticks, within 3 pixels"] = [scores]
    write_report(path, title="Fault sticks", sections=sections)


def fault_figures(volume, sticks, *, truth=None, labels=None, surfaces=()):
    """Figures with captions of some sections, of one across them, and of a slice, with the faults that cross them.

    Parameters
    ----------
    volume, sticks, truth, labels
        As for `write_fault_report`.
    surfaces : sequence of DataArray
        Tops and bases to draw too, as `outcrop.surface` gives them.
    """
    if not len(sticks):
        return []
    on = {number: DIRECTIONS[direction_of(points)] for number, points in sticks.groupby("stick")}
    directions = sticks["stick"].map(on)
    along = directions.mode()[0]
    across, vertical = DIRECTIONS[1 - DIRECTIONS.index(along)], volume.dims[2]
    lines = np.unique(sticks.loc[directions == along, along])
    chosen = lines[np.unique(np.linspace(0, len(lines) - 1, SECTIONS + 2).round().astype(int)[1:-1])]
    places = [(along, line) for line in chosen]
    if len(lines) > 2:
        places += [(across, _nearest(volume[across].values, sticks[across].median()))]
        places += [(vertical, _nearest(volume[vertical].values, sticks[vertical].median()))]
    found = []
    for name, label in places:
        section = (thinned(volume) if name == vertical else volume).sel({name: label})
        shown = labels.sel({name: label}) if labels is not None and name == along else None
        shown = shown if shown is not None and shown["label"].values.any() else None
        ax = plots.sticks(section, sticks, truth=truth, labels=shown, surfaces=surfaces)
        words = "Sticks" if name == along else f"Where surfaces of {along} sticks cross"
        found.append((ax, f"{words}, {name} {label:g}."))
    return found


def thinned(volume):
    """Every n-th inline and crossline of a volume, so that a slice of it is read soon."""
    step = int(np.ceil(np.sqrt(volume.shape[0] * volume.shape[1] / TRACES)))
    return volume.isel(inline=slice(None, None, step), crossline=slice(None, None, step))


def _nearest(axis, value):
    return axis[np.argmin(np.abs(axis - value))]
