"""Draw fault sticks and horizons as lines over a section that was drawn before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from xarray import DataArray

from outcrop.geometry.crossings import fault_traces, horizon_traces
from outcrop.plots.colours import colours
from outcrop.plots.figure import AXES, legend, section_of, spacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from outcrop.plots.figure import Palette

STICK, HUMAN = "#ff3300", "#ffdd00"  # colours of picked sticks and of an interpreter's sticks


def draw_horizons(ax: Axes, line: DataArray, surfaces: Sequence[DataArray], palette: Palette) -> list[Line2D]:
    """Draw the tops and bases of geobodies that cross a section; return their handles for the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import Normal, Stroke

    direction, label = section_of(line)
    interval = abs(spacing(line[line.dims[1]].values)) if direction < 2 else np.inf
    shades = colours(list(dict.fromkeys(str(surface.attrs["class"]) for surface in surfaces)), palette)
    limits, handles = (ax.get_xlim(), ax.get_ylim()), {}
    for surface in surfaces:
        name, side = str(surface.attrs["class"]), surface.attrs["side"]
        style: dict[str, Any] = {"color": shades[name], "ls": "-" if side == "top" else (0, (4, 2)), "lw": 2}
        pieces = horizon_traces(surface, direction, label, interval=interval)
        if pieces:  # one line with gaps
            across, down = (np.concatenate([(*piece[i], np.nan) for piece in pieces])[:-1] for i in range(2))
            outlined = [Stroke(linewidth=3.4, foreground="black"), Normal()]
            ax.plot(across, down, path_effects=outlined, **style)
            handles[name, side] = Line2D([], [], label=f"{side} of {name}", **style)
    ax.set(xlim=limits[0], ylim=limits[1])
    return list(handles.values())


def draw_geology(
    ax: Axes, line: DataArray, table: pd.DataFrame | None, surfaces: Sequence[DataArray], palette: Palette
) -> None:
    """Draw fault sticks, and tops and bases of geobodies, over a section; add the tops and bases to its legend."""
    if table is not None:
        draw_sticks(ax, line, table)
    if len(surfaces):
        before = ax.get_legend()
        handles: list[Any] = [] if before is None else list(before.legend_handles)
        handles += draw_horizons(ax, line, surfaces, palette)
        if handles:
            legend(ax, handles, length=1.6)


def draw_sticks(ax: Axes, line: DataArray, table: pd.DataFrame, **look: Any) -> None:
    """Draw the lines along which faults cross a section, with the numbers of their sticks.

    `table` holds the fault sticks. Options of ``plot`` in `look` replace the usual style; numbers are then left out.
    """
    from matplotlib.patheffects import Normal, Stroke

    direction, label = section_of(line)
    limits = ax.get_xlim(), ax.get_ylim()
    volume = line.expand_dims(next(name for name in line.coords if name not in line.dims and name in AXES))
    volume = volume.transpose("inline", "crossline", ...)
    for trace in fault_traces(table, volume, direction, label):
        width, opacity = 0.8 + 1.4 * trace.likelihood, 0.5 + 0.5 * trace.likelihood
        style: dict[str, Any] = {"color": STICK, "lw": width, "alpha": opacity}
        if trace.stick < 0:
            style["lw"] = 1.2
        if trace.accepted:
            style |= {"lw": 2.0, "path_effects": [Stroke(linewidth=4.0, foreground="white"), Normal()]}
        style |= {"marker": "o", "ms": 2.5} if len(trace.across) == 1 else {}
        ax.plot(trace.across, trace.down, **(style | look))
        if trace.stick >= 0 and not look:
            outline = [Stroke(linewidth=2.0, foreground="white"), Normal()]
            ax.annotate(
                str(trace.stick), (trace.across[0], trace.down[0]), xytext=(0, 2), textcoords="offset points",
                color=STICK, fontsize=7, ha="center", va="bottom", path_effects=outline, annotation_clip=True,
            )  # fmt: skip
    ax.set(xlim=limits[0], ylim=limits[1])
