"""Create matplotlib figures without a window, and set up the axes and legends of sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray import DataArray

from outcrop.volumes.summary import sample_unit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Canvas = Axes | None  # where to draw; None makes new axes
    Palette = Mapping[str, str] | None  # class -> colour

IN_A_ROW = 6  # largest number of classes in a legend above a section
AXES = ("inline", "crossline", "time", "depth")


def frame(line: DataArray) -> dict[str, Any]:
    """Return options of ``imshow`` with which a section is drawn with time downwards, or a slice as a map."""
    x, t = (line[name].values for name in line.dims)
    dx, dt = spacing(x), spacing(t)
    ends = t[-1] + dt / 2, t[0] - dt / 2
    down = line.dims[1] in AXES[2:]
    extent = (x[0] - dx / 2, x[-1] + dx / 2, *(ends if down else ends[::-1]))
    return {"extent": extent, "aspect": "auto", "origin": "upper" if down else "lower"}


def oriented(line: DataArray) -> DataArray:
    """Return a section with its horizontal axis first, which is the crossline axis for a time or depth slice."""
    return line.transpose("crossline", "inline") if set(line.dims) == {"inline", "crossline"} else line


def section_of(line: DataArray) -> tuple[int, float]:
    """Return the direction of a section (0 inline, 1 crossline, 2 slice), and its line number, time or depth."""
    fixed = next(name for name in AXES if name in line.coords and name not in line.dims)
    return min(AXES.index(fixed), 2), line[fixed].item()


def time_label(line: DataArray) -> str:
    """Return the label of the vertical axis of a section: its name and its unit, such as ``time (ms)``."""
    name = str(line.dims[1])
    if name not in AXES[2:]:
        return name
    labels = line[name].values
    counted = np.array_equal(labels, np.arange(len(labels)))
    return f"{name} ({sample_unit(line) or ('samples' if counted else 'no unit')})"


def spacing(axis: np.ndarray) -> float:
    """Return the step between the first two values on an axis; 1 for a single value."""
    return float(axis[1] - axis[0]) if len(axis) > 1 else 1.0


def new_figure(**options: Any) -> Figure:
    """Return a new matplotlib figure without a window; `options` are arguments of ``Figure``."""
    from matplotlib.figure import Figure  # not pyplot: no window, no global state, safe in threads

    return Figure(**options)


def new_axes(**options: Any) -> Axes:
    """Return the axes of a new figure without a window; `options` are arguments of ``Figure``."""
    return new_figure(layout="constrained", **options).add_subplot()


def legend(ax: Axes, handles: Sequence[Artist], *, length: float = 1.0) -> None:
    """Add a legend above a section, or to the right of it if it has more than six entries.

    `length` is the length of the drawn handles in units of the font size.
    """
    above = len(handles) <= IN_A_ROW
    place: dict[str, Any] = {"loc": "lower right" if above else "upper left", "bbox_to_anchor": (1, 1)}
    tight: dict[str, Any] = {"borderaxespad": 0.2, "handletextpad": 0.4, "columnspacing": 1, "fontsize": "small"}
    ax.legend(handles=handles, ncols=len(handles) if above else 1, frameon=False, handlelength=length, **place, **tight)
