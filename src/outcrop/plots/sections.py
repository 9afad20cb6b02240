"""Figures of sections, with labels or retrieved patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xarray import DataArray, Dataset

from outcrop.mapping.confidence import UNCERTAIN, as_codes
from outcrop.plots.colours import COLOURS, colours
from outcrop.plots.figure import AXES, frame, legend, new_axes, new_figure, oriented, spacing, time_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from outcrop.plots.figure import Canvas, Palette
    from outcrop.retrieval.weak import WeakLabels


def section(
    line: DataArray,
    *,
    weak: WeakLabels | None = None,
    size: tuple[int, int] | None = None,
    gain: float = 1.0,
    palette: Palette = None,
    ax: Canvas = None,
) -> Axes:
    """Draw one inline or crossline in grey, time downwards; optionally outline retrieved patches.

    A time or depth slice is drawn as a map, with inline numbers rising upwards.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)`` or ``volume.sel(time=1200)``.
    weak : WeakLabels, optional
        Retrieved patches; those on this line are outlined. Requires `size`.
    size : (int, int), optional
        Height in samples and width in traces of the patches.
    gain : float
        Contrast: amplitudes beyond the 99th percentile divided by `gain` are drawn black or white.
    palette : dict, optional
        Class -> colour.
    """
    ax = ax or new_axes(figsize=(12, 5))
    line = oriented(line)
    traces = line.dims[0]
    values = line.values.T
    if line.attrs.get("scaled"):
        values = 2 * values - 1
    limit = np.nanpercentile(np.abs(values), 99) / gain or 1.0
    ax.imshow(values, cmap="gray", vmin=-limit, vmax=limit, interpolation="bilinear", **frame(line))
    ax.set(xlabel=traces, ylabel=time_label(line))
    fixed = next((n for n in AXES if n in line.coords and n not in line.dims), None)
    if fixed:
        unit = {"time": "ms", "depth": "m"}.get(fixed, "") if line.attrs.get("unit") != "" else ""
        ax.set_title(f"{fixed} {line[fixed].item():g} {unit}".rstrip(), loc="left")
    if weak is not None and size and fixed:
        draw_boxes(ax, line, weak, size, fixed, palette)
    return ax


def labelled_section(line: DataArray, labels: Dataset, *, truth: DataArray | None = None) -> Figure:
    """Draw a section with its labels, and its confidence below.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)``.
    labels : Dataset
        ``label`` and ``confidence`` of the same line, as `label_volume` returns them. ``attrs["colours"]`` (class ->
        colour) replaces the standard colours; the title states ``attrs["min_confidence"]``, the limit below which
        labels are uncertain.
    truth : DataArray, optional
        Expert labels of the line, drawn above; ``attrs["classes"]`` names their codes.
    """
    rows, palette = 2 + (truth is not None), labels.attrs.get("colours")
    figure = new_figure(figsize=(12, 4 * rows), layout="constrained")
    *above, middle, below = figure.subplots(rows, 1, sharex=True)
    if truth is not None:
        overlay(line, truth, truth.attrs["classes"], palette=palette, ax=above[0]).set_title("truth")
    limit = float(labels.attrs.get("min_confidence") or 0)
    title = f"labels, uncertain below {100 * limit:.0f} % confidence" if limit else "labels"
    overlay(line, labels["label"], labels.attrs["classes"], palette=palette, ax=middle).set_title(title)
    image = below.imshow(labels["confidence"].values.T / 255, cmap="viridis", vmin=0, vmax=1, **frame(line))
    figure.colorbar(image, ax=below, label="confidence", pad=0.01)
    below.set(xlabel=line.dims[0], ylabel=time_label(line))
    return figure


def overlay(
    line: DataArray,
    codes: DataArray,
    classes: Sequence[str],
    *,
    palette: Palette = None,
    opacity: float = 0.5,
    ax: Canvas = None,
) -> Axes:
    """Draw labels over a section: classes in their colours, uncertain samples grey, unlabelled samples transparent.

    `codes` holds the label codes of the section, and `classes` the names of the codes 1, 2, ...
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    ax = section(line, ax=ax)
    line, values = oriented(line), as_codes(oriented(codes).values)
    shades = dict(enumerate(colours(list(classes), palette).items(), 1))
    shades[UNCERTAIN] = ("uncertain", COLOURS["uncertain"])
    table = np.zeros((256, 4))
    for code, (_, colour) in shades.items():
        table[code] = to_rgba(colour, opacity)
    ax.imshow(table[values.T], interpolation="nearest", **frame(line))
    present = np.unique(values)
    handles = [Patch(color=colour, label=name) for code, (name, colour) in shades.items() if code in present]
    legend(ax, handles)
    return ax


def draw_boxes(
    ax: Axes, line: DataArray, weak: WeakLabels, size: tuple[int, int], fixed: str, palette: Palette
) -> None:
    """Outline the retrieved patches of a line on its section, and add a legend of their classes.

    `size` is the height and width of a patch in samples and traces; `fixed` is ``inline`` or ``crossline``.
    """
    from matplotlib.patches import Rectangle

    traces, time = line.dims
    table = weak.table
    of_line = table[(table["along"] == fixed) & (table[fixed] == line[fixed].item())]
    palette = colours(list(dict.fromkeys(weak.classes)), palette)
    height, width = size[0] * spacing(line[time].values), size[1] * spacing(line[traces].values)
    for _, row in of_line[::-1].iterrows():
        corner = (row[traces] - width / 2, row[time] - height / 2)
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=1.5, ec=palette[row["class"]]))
    handles = [Rectangle((0, 0), 1, 1, fill=False, lw=2, ec=palette[name], label=name) for name in palette]
    legend(ax, handles)
