"""Figures: sections with patch boxes, galleries of retrieved patches, similarity by rank.

Every function draws on the matplotlib axes or figure it is given, or makes one, and returns it.
"""

import numpy as np

from outcrop.geometry.crossings import fault_traces, horizon_traces
from outcrop.mapping.scores import UNCERTAIN, as_codes
from outcrop.volumes.summary import sample_unit

# Told apart with any of the three kinds of colour blindness: two of them differ by 26 or more in CIELAB, the first four
# by 34.
COLOURS = {
    "fault": "#99dd22", "salt dome": "#aa1133", "chaotic": "#5577ff", "other": "#55ffdd", "uncertain": "#8a8a8a",
}  # fmt: skip
STICK, HUMAN = "#ff3300", "#ffdd00"  # of picked sticks, and of an interpreter's
AXES = ("inline", "crossline", "time", "depth")
EXTRA = ("#661199", "#ffee99", "#880066", "#4400dd", "#dd1100", "#dd8866", "#aa66bb", "#ffaaff")


def colours(classes, chosen=None):
    """Colour of every class: the chosen one, the standard one by name, others in order of appearance.

    Parameters
    ----------
    classes : sequence of str
    chosen : dict, optional
        Class -> colour, as ``Job.palette`` has it.

    Examples
    --------
    >>> colours(["fault", "channel"], {"channel": "#123456"})
    {'fault': '#99dd22', 'channel': '#123456'}
    """
    known = COLOURS | (chosen if isinstance(chosen, dict) else {})
    spare = iter(EXTRA * (1 + len(classes) // len(EXTRA)))
    return {name: known[name] if name in known else next(spare) for name in classes}


def section(line, *, weak=None, size=None, gain=1.0, palette=None, ax=None):
    """Draw one inline or crossline in grey, time downwards, with the boxes of retrieved patches that lie on it.

    A time or depth slice is drawn as a map, inlines upwards.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)`` or ``volume.sel(time=1200)``.
    weak : WeakLabels, optional
        Draw the boxes of those that lie on this line; needs `size`.
    size : (int, int), optional
        Height and width of the patches, in samples.
    gain : float
        Contrast; 2 shows amplitudes half as large in full black and white.
    palette : dict, optional
        Class -> colour.
    """
    ax = ax or new_axes(figsize=(12, 5))
    line = _oriented(line)
    traces = line.dims[0]
    values = line.values.T
    if line.attrs.get("scaled"):
        values = 2 * values - 1
    limit = np.nanpercentile(np.abs(values), 99) / gain or 1.0
    ax.imshow(values, cmap="gray", vmin=-limit, vmax=limit, interpolation="bilinear", **frame(line))
    ax.set(xlabel=traces, ylabel=_time_label(line))
    fixed = next((n for n in AXES if n in line.coords and n not in line.dims), None)
    if fixed:
        unit = {"time": "ms", "depth": "m"}.get(fixed, "") if line.attrs.get("unit") != "" else ""
        ax.set_title(f"{fixed} {line[fixed].item():g} {unit}".rstrip(), loc="left")
    if weak is not None:
        _boxes(ax, line, weak, size, fixed, palette)
    return ax


def labelled_section(line, labels, *, truth=None, sticks=None, surfaces=(), opacity=0.5):
    """Draw a section with its labels in the standard colours, and its confidence below.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)``.
    labels : Dataset
        ``label`` and ``confidence`` of the same line, as `label_volume` gives them; ``attrs["colours"]`` may give
        classes their colours, and ``attrs["min_confidence"]`` is said in the title.
    truth : DataArray, optional
        Expert labels of the line, drawn above; same codes and names as ``attrs["classes"]`` says.
    sticks, surfaces : optional
        Fault sticks, tops and bases to draw over the labels; see `sticks`.
    opacity : float
        Of the colours over the amplitudes.
    """
    rows, palette = 2 + (truth is not None), labels.attrs.get("colours")
    figure = new_figure(figsize=(12, 4 * rows), layout="constrained")
    *above, middle, below = figure.subplots(rows, 1, sharex=True)
    if truth is not None:
        overlay(line, truth, truth.attrs["classes"], palette=palette, opacity=opacity, ax=above[0]).set_title("truth")
    limit = float(labels.attrs.get("min_confidence") or 0)
    title = f"labels, uncertain below {100 * limit:.0f} % confidence" if limit else "labels"
    overlay(line, labels["label"], labels.attrs["classes"], palette=palette, opacity=opacity, ax=middle).set_title(
        title
    )
    _draw_geology(middle, line, sticks, surfaces, palette)
    image = below.imshow(labels["confidence"].values.T / 255, cmap="viridis", vmin=0, vmax=1, **frame(line))
    figure.colorbar(image, ax=below, label="confidence", pad=0.01)
    below.set(xlabel=line.dims[0], ylabel=_time_label(line))
    return figure


def overlay(line, codes, classes, *, palette=None, opacity=0.5, ax=None):
    """Draw the codes of a label volume over a section: uncertain ones grey, samples without a label transparent."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    ax = section(line, ax=ax)
    line, values = _oriented(line), as_codes(_oriented(codes).values)
    shades = dict(enumerate(colours(list(classes), palette).items(), 1))
    shades[UNCERTAIN] = ("uncertain", COLOURS["uncertain"])
    table = np.zeros((256, 4))
    for code, (_, colour) in shades.items():
        table[code] = to_rgba(colour, opacity)
    ax.imshow(table[values.T], interpolation="nearest", **frame(line))
    present = np.unique(values)
    handles = [Patch(color=colour, label=name) for code, (name, colour) in shades.items() if code in present]
    _legend(ax, handles)
    return ax


def horizons(line, surfaces, *, palette=None, ax=None):
    """Draw a section with tops (solid) and bases (dashed) of bodies in the colours of their classes.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)``.
    surfaces : sequence of DataArray
        As `outcrop.surface` gives them; those that the section does not cross are left out.
    palette : dict, optional
        Class -> colour.
    """
    ax = section(line, ax=ax)
    handles = _draw_horizons(ax, line, surfaces, palette)
    if handles:
        _legend(ax, handles, length=2.2)
    return ax


def _draw_horizons(ax, line, surfaces, palette):
    """Draw tops and bases over a section; handles for its legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import Normal, Stroke

    direction, label = _section_of(line)
    interval = abs(_spacing(line[line.dims[1]].values)) if direction < 2 else np.inf
    shades = colours(list(dict.fromkeys(str(surface.attrs["class"]) for surface in surfaces)), palette)
    limits, handles = (ax.get_xlim(), ax.get_ylim()), {}
    for surface in surfaces:
        name, side = str(surface.attrs["class"]), surface.attrs["side"]
        style = {"color": shades[name], "ls": "-" if side == "top" else (0, (4, 2)), "lw": 2}
        pieces = horizon_traces(surface, direction, label, interval=interval)
        if pieces:  # one line with gaps
            across, down = (np.concatenate([(*piece[i], np.nan) for piece in pieces])[:-1] for i in range(2))
            outlined = [Stroke(linewidth=3.4, foreground="black"), Normal()]
            ax.plot(across, down, path_effects=outlined, **style)
            handles[name, side] = Line2D([], [], label=f"{side} of {name}", **style)
    ax.set(xlim=limits[0], ylim=limits[1])
    return list(handles.values())


def horizon_map(surface, *, ax=None):
    """Draw a top or base of a body as a map with contours, shallow parts light."""
    ax = ax or new_axes(figsize=(7, 5))
    surface = surface.transpose("inline", "crossline")
    x, y = surface["crossline"].values, surface["inline"].values
    dx, dy = _spacing(x), _spacing(y)
    extent = (x[0] - dx / 2, x[-1] + dx / 2, y[0] - dy / 2, y[-1] + dy / 2)
    image = ax.imshow(surface.values, cmap="viridis_r", extent=extent, origin="lower", aspect="auto")
    if min(surface.shape) > 1 and np.ptp(surface.values[np.isfinite(surface.values)]) > 0:
        ax.contour(x, y, surface.values, levels=8, colors="black", linewidths=0.6)
    unit = surface.attrs.get("unit", "ms" if surface.name == "time" else "m") or "no unit"
    bar = ax.figure.colorbar(image, ax=ax, label=f"{surface.name} ({unit})", pad=0.02)
    bar.ax.invert_yaxis()
    ax.set(xlabel="crossline", ylabel="inline")
    ax.set_title("{side} of {class}, body {body}".format(**surface.attrs), loc="left")
    return ax


def sticks(line, table, *, truth=None, labels=None, surfaces=(), palette=None, ax=None):
    """Draw fault sticks over a section, wider and brighter the likelier they are; accepted ones outlined.

    Where sticks of other sections cross this one, their surfaces are drawn as thin lines: on slices all of them.

    Parameters
    ----------
    line : DataArray, two dimensions
        For instance ``volume.sel(inline=310)`` or ``volume.sel(time=1200)``.
    table : DataFrame
        Sticks as `outcrop.fault_sticks` gives them.
    truth : DataFrame, optional
        An interpreter's sticks, drawn dashed.
    labels : Dataset, optional
        Labels of the section, drawn below the sticks.
    surfaces : sequence of DataArray
        Tops and bases to draw too, as `outcrop.surface` gives them.
    palette : dict, optional
        Class -> colour.
    """
    if labels is None:
        ax = section(line, ax=ax)
    else:
        names, palette = labels.attrs["classes"], palette or labels.attrs.get("colours")
        ax = overlay(line, labels["label"], names, palette=palette, opacity=0.25, ax=ax)
    if truth is not None:
        _draw_sticks(ax, line, truth, color=HUMAN, ls="--", lw=1.4)
    _draw_geology(ax, line, table, surfaces, palette)
    return ax


def _draw_geology(ax, line, table, surfaces, palette):
    """Draw sticks, tops and bases over a section, and name the latter in its legend."""
    if table is not None:
        _draw_sticks(ax, line, table)
    if len(surfaces):
        before = ax.get_legend()
        handles = [] if before is None else list(before.legend_handles)
        handles += _draw_horizons(ax, line, surfaces, palette)
        if handles:
            _legend(ax, handles, length=1.6)


def _draw_sticks(ax, line, table, **look):
    """Draw the lines along which faults cross a section."""
    from matplotlib.patheffects import Normal, Stroke

    direction, label = _section_of(line)
    limits = ax.get_xlim(), ax.get_ylim()
    volume = line.expand_dims(next(name for name in line.coords if name not in line.dims and name in AXES))
    volume = volume.transpose("inline", "crossline", ...)
    for trace in fault_traces(table, volume, direction, label):
        sure = trace.likelihood
        style: dict = {"color": STICK, "lw": 0.8 + 1.4 * sure, "alpha": 0.5 + 0.5 * sure}
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


def _legend(ax, handles, *, length=1.0):
    """Names of the classes above the section: it must not hide the deepest part of it."""
    place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2, "frameon": False}
    tight = {"handlelength": length, "handletextpad": 0.4, "columnspacing": 1, "fontsize": "small"}
    ax.legend(handles=handles, ncols=len(handles), **place, **tight)


def confusion(matrix, classes, *, ax=None):
    """Draw a confusion matrix: of the samples of each true class (row), the share that got each label (column)."""
    ax = ax or new_axes(figsize=(1.2 * len(classes) + 2.5, len(classes) + 1.5))
    matrix = np.asarray(matrix, float)
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    names = list(classes) if matrix.shape[1] == len(classes) else ["no label", *classes]
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(share):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.6 else "black")
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(classes)), classes)
    ax.set(xlabel="label", ylabel="truth")
    return ax


def atoms(mapper, *, per_class=8):
    """Draw some atoms of every class of a fitted `LabelMapper`."""
    classes = [str(name) for name in mapper.classes_]
    figure = new_figure(figsize=(1.25 * per_class + 0.4, 1.4 * len(classes)), layout="constrained")
    palette = colours(classes)
    for i, (own, name) in enumerate(zip(figure.subplots(len(classes), per_class, squeeze=False), classes, strict=True)):
        rows = np.flatnonzero(mapper.atom_classes_ == i)
        for ax, row in zip(own, rows[np.linspace(0, len(rows) - 1, per_class).astype(int)], strict=True):
            ax.imshow(np.asarray(mapper.atoms_[int(row)]), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=palette[name], linewidth=2)
        own[0].set_ylabel(name)
    return figure


def convergence(mapper, *, ax=None):
    """Draw the objective of a fitted `LabelMapper` and the parts that its two updates lower, by iteration."""
    ax = ax or new_axes(figsize=(7, 4))
    parts = {
        "overall": mapper.objective_,
        "atoms": mapper.objective_parts_[:, 0],
        "coefficients": mapper.objective_parts_[:, 1],
    }
    for name, course in parts.items():
        ax.plot(np.arange(len(course)), course, label=name)
    ax.set(xlabel="iteration", ylabel="objective", yscale="log")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def evolution(patches, labels, classes, titles):
    """Draw patches (rows) with their labels at several moments (columns).

    Parameters
    ----------
    patches : array, shape (n, height, width)
    labels : array of int, shape (n_moments, n, height, width)
    classes : sequence of str
    titles : sequence of str
        One per moment.
    """
    from matplotlib.colors import to_rgba

    palette = {"uncertain": COLOURS["uncertain"], **colours(list(classes))}
    table = np.array([to_rgba(colour, 0.5) for colour in palette.values()])
    figure = new_figure(figsize=(1.6 * len(titles), 1.7 * len(patches)), layout="constrained")
    axes = figure.subplots(len(patches), len(titles), squeeze=False)
    for i, own in enumerate(axes):
        for ax, moment, title in zip(own, labels, titles, strict=True):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1)
            ax.imshow(table[moment[i].astype(int)], interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(title, fontsize=9)
    return figure


def frame(line):
    """Extent of a section in survey labels, time downwards; of a slice as a map, inlines upwards."""
    x, t = (line[name].values for name in line.dims)
    dx, dt = _spacing(x), _spacing(t)
    ends = t[-1] + dt / 2, t[0] - dt / 2
    down = line.dims[1] in AXES[2:]
    extent = (x[0] - dx / 2, x[-1] + dx / 2, *(ends if down else ends[::-1]))
    return {"extent": extent, "aspect": "auto", "origin": "upper" if down else "lower"}


def _oriented(line):
    """A section as it is drawn, the axis across first: of a slice the crosslines."""
    return line.transpose("crossline", "inline") if set(line.dims) == {"inline", "crossline"} else line


def _section_of(line):
    """Direction of a section, 0 inline, 1 crossline, 2 time or depth, and its label."""
    fixed = next(name for name in AXES if name in line.coords and name not in line.dims)
    return min(AXES.index(fixed), 2), line[fixed].item()


def _time_label(line):
    name = line.dims[1]
    if name not in AXES[2:]:
        return name
    labels = line[name].values
    counted = np.array_equal(labels, np.arange(len(labels)))
    return f"{name} ({sample_unit(line) or ('samples' if counted else 'no unit')})"


def _boxes(ax, line, weak, size, fixed, palette):
    """Outline the retrieved patches of this line and name their classes."""
    from matplotlib.patches import Rectangle

    traces, time = line.dims
    here = weak.table
    here = here[(here["along"] == fixed) & (here[fixed] == line[fixed].item())]
    palette = colours(list(dict.fromkeys(weak.classes)), palette)
    height, width = size[0] * _spacing(line[time].values), size[1] * _spacing(line[traces].values)
    for _, row in here[::-1].iterrows():
        corner = (row[traces] - width / 2, row[time] - height / 2)
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=1.5, ec=palette[row["class"]]))
    handles = [Rectangle((0, 0), 1, 1, fill=False, lw=2, ec=palette[name], label=name) for name in palette]
    _legend(ax, handles)


def gallery(patches, table, *, palette=None, figure=None):
    """Draw patches class by class with their similarity and their row, the number that accept and reject take.

    Parameters
    ----------
    patches : array, shape (n, height, width)
        For instance those of ``picks = weak.picks(10)``.
    table : DataFrame
        Class, similarity and row (else rank) of each patch, for instance ``weak.table.iloc[picks]``.
    palette : dict, optional
        Class -> colour.
    """
    classes = list(dict.fromkeys(table["class"]))
    columns = int(table["class"].value_counts().max())
    figure = figure or new_figure(figsize=(1.25 * columns + 0.4, 1.75 * len(classes)), layout="constrained")
    axes = figure.subplots(len(classes), columns, squeeze=False)
    palette = colours(classes, palette)
    number, word = ("row", "row ") if "row" in table else ("rank", "#")
    for own, name in zip(axes, classes, strict=True):
        here = np.flatnonzero(table["class"] == name)
        for ax, i in zip(own, here, strict=False):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1, aspect="auto")
            ax.set_title(f"{word}{table[number].iloc[i]}\n{table['similarity'].iloc[i]:.3f}", fontsize=8, pad=3)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=palette[name], linewidth=2.5)
        for ax in own[len(here) :]:
            ax.axis("off")
        own[0].set_ylabel(name, fontsize=11)
    return figure


def similarity_curves(weak, *, palette=None, ax=None):
    """Draw similarity by rank for every class; a dot marks how many are suggested, a line how many were taken."""
    ax = ax or new_axes(figsize=(7, 4))
    palette = colours(list(weak.curves), palette)
    for name, curve in weak.curves.items():
        good, taken = weak.suggested[name], int((weak.classes == name).sum())
        text = f"{name}: {good} suggested, {taken} taken"
        ax.plot(np.arange(1, len(curve) + 1), curve, color=palette[name], label=text)
        if good <= len(curve):
            ax.plot(good, curve[good - 1], "o", color=palette[name], mec="black", zorder=3)
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
