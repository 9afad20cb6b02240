"""Figures: sections with patch boxes, galleries of retrieved patches, similarity by rank.

Every function draws on the matplotlib axes or figure it is given, or makes one, and returns it.
"""

import numpy as np

from outcrop.retrieval import knee

COLOURS = {"chaotic": "blue", "other": "cyan", "fault": "limegreen", "salt dome": "red", "uncertain": "grey"}
EXTRA = ("orange", "magenta", "gold", "brown", "purple", "pink", "olive", "teal")


def colours(classes):
    """Colour of every class: the standard ones by name, others in order of appearance.

    Examples
    --------
    >>> colours(["fault", "channel"])
    {'fault': 'limegreen', 'channel': 'orange'}
    """
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: COLOURS[name] if name in COLOURS else next(spare) for name in classes}


def section(line, *, weak=None, size=None, gain=1.0, ax=None):
    """Draw one inline or crossline in grey, time downwards, with the boxes of retrieved patches that lie on it.

    Parameters
    ----------
    line : DataArray, two dimensions, the last one time or depth
        For instance ``volume.sel(inline=310)``.
    weak : WeakLabels, optional
        Draw the boxes of those that lie on this line; needs `size`.
    size : (int, int), optional
        Height and width of the patches, in samples.
    gain : float
        Contrast; 2 shows amplitudes half as large in full black and white.
    """
    ax = ax or new_axes(figsize=(12, 5))
    traces, time = line.dims
    x, t = line[traces].values, line[time].values
    values = line.values.T
    if line.attrs.get("scaled"):
        values = 2 * values - 1
    limit = np.nanpercentile(np.abs(values), 99) / gain or 1.0
    dx, dt = _spacing(x), _spacing(t)
    extent = (x[0] - dx / 2, x[-1] + dx / 2, t[-1] + dt / 2, t[0] - dt / 2)
    ax.imshow(values, cmap="gray", vmin=-limit, vmax=limit, extent=extent, aspect="auto", interpolation="bilinear")
    ax.set(xlabel=traces, ylabel=f"{time} ({'ms' if time == 'time' else 'm'})")
    fixed = next((n for n in ("inline", "crossline") if n in line.coords and n != traces), None)
    if fixed:
        ax.set_title(f"{fixed} {line[fixed].item():g}", loc="left")
    if weak is not None:
        _boxes(ax, line, weak, size, fixed, (dx, dt))
    return ax


def _boxes(ax, line, weak, size, fixed, spacing):
    """Outline the retrieved patches of this line and name their classes."""
    from matplotlib.patches import Rectangle

    traces, time = line.dims
    here = weak.table
    here = here[(here["along"] == fixed) & (here[fixed] == line[fixed].item())]
    palette = colours(list(dict.fromkeys(weak.classes)))
    height, width = size[0] * spacing[1], size[1] * spacing[0]
    for _, row in here[::-1].iterrows():
        corner = (row[traces] - width / 2, row[time] - height / 2)
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=1.5, ec=palette[row["class"]]))
    handles = [Rectangle((0, 0), 1, 1, fill=False, lw=2, ec=palette[name], label=name) for name in palette]
    ax.legend(handles=handles, loc="lower right", ncols=len(handles), framealpha=0.9, fontsize="small")


def gallery(patches, table, *, figure=None):
    """Draw patches class by class with their rank and similarity.

    Parameters
    ----------
    patches : array, shape (n, height, width)
        For instance those of ``picks = weak.picks(10)``.
    table : DataFrame
        Class, rank and similarity of each patch, for instance ``weak.table.iloc[picks]``.
    """
    classes = list(dict.fromkeys(table["class"]))
    columns = int(table["class"].value_counts().max())
    figure = figure or new_figure(figsize=(1.25 * columns + 0.4, 1.6 * len(classes)), layout="constrained")
    axes = figure.subplots(len(classes), columns, squeeze=False)
    palette = colours(classes)
    for own, name in zip(axes, classes, strict=True):
        here = np.flatnonzero(table["class"] == name)
        for ax, i in zip(own, here, strict=False):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1, aspect="auto")
            ax.set_title(f"#{table['rank'].iloc[i]}  {table['similarity'].iloc[i]:.3f}", fontsize=8, pad=3)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=palette[name], linewidth=2.5)
        for ax in own[len(here) :]:
            ax.axis("off")
        own[0].set_ylabel(name, fontsize=11)
    return figure


def similarity_curves(weak, *, ax=None):
    """Draw similarity by rank for every class; a dot marks the knee, a line how many were taken."""
    ax = ax or new_axes(figsize=(7, 4))
    palette = colours(list(weak.curves))
    for name, curve in weak.curves.items():
        ranks, bend, taken = np.arange(1, len(curve) + 1), knee(curve), int((weak.classes == name).sum())
        ax.plot(ranks, curve, color=palette[name], label=f"{name}: knee at {bend}, {taken} taken")
        ax.plot(bend, curve[bend - 1], "o", color=palette[name], mec="black", zorder=3)
        ax.axvline(taken, color=palette[name], lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="rank", ylabel="similarity to the nearest exemplar")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def purity_curves(curves, *, ax=None):
    """Draw, class by class, the share of the retrieved patches up to each rank that are right."""
    ax = ax or new_axes(figsize=(7, 4))
    palette = colours(list(curves))
    for name, right in curves.items():
        share = np.cumsum(right) / np.arange(1, len(right) + 1)
        ax.plot(
            np.arange(1, len(right) + 1), share, color=palette[name], label=f"{name}: {share[-1]:.2f} of {len(right)}"
        )
    ax.set(xlabel="rank", ylabel="share of patches that show the class", ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", loc="lower left")
    return ax


def _spacing(axis):
    return float(axis[1] - axis[0]) if len(axis) > 1 else 1.0


def new_figure(**options):
    """A figure without a window."""
    from matplotlib.figure import Figure  # not pyplot: no window, no global state, safe in threads

    return Figure(**options)


def new_axes(**options):
    """Axes of a new figure that belongs to nobody."""
    return new_figure(layout="constrained", **options).add_subplot()
