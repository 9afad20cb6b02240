"""Parts of figures that several experiments use."""

from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc


def bars(table: pd.DataFrame, label: str, *, figsize: tuple[float, float], **options: Any) -> Any:
    """Return a figure with a group of horizontal bars for each row of a table; each group has one bar per column.

    `label` is the text below the horizontal axis; `options` are passed to ``barh``.
    """
    ax = oc.plots.new_axes(figsize=figsize)
    height = 0.8 / table.shape[1]
    for i, column in enumerate(table):
        places = np.arange(len(table)) + (i - (table.shape[1] - 1) / 2) * height
        drawn = ax.barh(places, table[column], height=0.95 * height, label=column, **options)
        ax.bar_label(drawn, fmt="%.3f", padding=3, fontsize=8)
    ax.set_yticks(np.arange(len(table)), table.index, fontsize=9)
    ax.invert_yaxis()
    ax.margins(y=0.01)
    ax.set(xlim=(0, 1.08), xlabel=label)
    if table.shape[1] > 1:
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    return ax.figure


def show_patch(ax: Any, patch: np.ndarray, colour: Any = "black", *, over: np.ndarray | None = None) -> None:
    """Draw a patch in grey with a coloured frame, and optionally an RGBA picture over it."""
    ax.imshow(patch, cmap="gray", vmin=0, vmax=1)
    if over is not None:
        ax.imshow(over)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color=colour, linewidth=2.5)


def tinted(codes: np.ndarray, names: list[str]) -> np.ndarray:
    """Return an RGBA picture of codes in half-transparent class colours; code i has the colour of ``names[i]``."""
    from matplotlib.colors import to_rgba

    return np.asarray([to_rgba(oc.plots.COLOURS[name], 0.5) for name in names]).take(codes, axis=0)
