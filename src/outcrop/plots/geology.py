"""Figures of fault sticks and horizons, on sections and on maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from xarray import DataArray, Dataset

from outcrop.plots.figure import frame, legend, new_axes
from outcrop.plots.geology_lines import HUMAN, draw_geology, draw_horizons, draw_sticks
from outcrop.plots.sections import overlay, section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from outcrop.plots.figure import Canvas, Palette


def horizons(line: DataArray, surfaces: Sequence[DataArray], *, palette: Palette = None, ax: Canvas = None) -> Axes:
    """Draw a section with tops (solid) and bases (dashed) of geobodies, in the colours of their classes.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)``.
    surfaces : sequence of DataArray
        As `outcrop.surface` returns them; surfaces that the section does not cross are left out.
    palette : dict, optional
        Class -> colour.
    """
    ax = section(line, ax=ax)
    handles = draw_horizons(ax, line, surfaces, palette)
    if handles:
        legend(ax, handles, length=2.2)
    return ax


def horizon_map(surface: DataArray, *, ax: Canvas = None) -> Axes:
    """Draw the top or base of a geobody as a map with contours; shallow parts are light."""
    ax = ax or new_axes(figsize=(7, 5))
    surface = surface.transpose("inline", "crossline")
    x, y = surface["crossline"].values, surface["inline"].values
    image = ax.imshow(surface.values, cmap="viridis_r", **frame(surface.transpose()))
    if min(surface.shape) > 1 and np.ptp(surface.values[np.isfinite(surface.values)]) > 0:
        ax.contour(x, y, surface.values, levels=8, colors="black", linewidths=0.6)
    unit = surface.attrs.get("unit", "ms" if surface.name == "time" else "m") or "no unit"
    bar = ax.figure.colorbar(image, ax=ax, label=f"{surface.name} ({unit})", pad=0.02)
    bar.ax.invert_yaxis()
    ax.set(xlabel="crossline", ylabel="inline")
    ax.set_title("{side} of {class}, body {body}".format(**surface.attrs), loc="left")
    return ax


def sticks(
    line: DataArray,
    table: pd.DataFrame,
    *,
    truth: pd.DataFrame | None = None,
    labels: Dataset | None = None,
    surfaces: Sequence[DataArray] = (),
    palette: Palette = None,
    ax: Canvas = None,
) -> Axes:
    """Draw fault sticks over a section; likelier sticks are wider and more opaque, accepted sticks are outlined.

    Thin lines connect the points at which sticks picked on other sections cross this section or slice.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)`` or ``volume.sel(time=1200)``.
    table : DataFrame
        Sticks, as `outcrop.fault_sticks` returns them.
    truth : DataFrame, optional
        An interpreter's sticks, drawn dashed.
    labels : Dataset, optional
        Labels of the section, drawn below the sticks.
    surfaces : sequence of DataArray
        Tops and bases of geobodies to draw, as `outcrop.surface` returns them.
    palette : dict, optional
        Class -> colour.
    """
    if labels is None:
        ax = section(line, ax=ax)
    else:
        names, palette = labels.attrs["classes"], palette or labels.attrs.get("colours")
        ax = overlay(line, labels["label"], names, palette=palette, opacity=0.25, ax=ax)
    if truth is not None:
        draw_sticks(ax, line, truth, color=HUMAN, ls="--", lw=1.4)
    draw_geology(ax, line, table, surfaces, palette)
    return ax
