"""Charts of retrieval, mapping and scores."""

import numpy as np

from outcrop.plots.colours import COLOURS, colours
from outcrop.plots.figure import new_axes, new_figure


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
    for i, (axes, name) in enumerate(
        zip(figure.subplots(len(classes), per_class, squeeze=False), classes, strict=True)
    ):
        rows = np.flatnonzero(mapper.atom_classes_ == i)
        for ax, row in zip(axes, rows[np.linspace(0, len(rows) - 1, per_class).astype(int)], strict=True):
            ax.imshow(np.asarray(mapper.atoms_[int(row)]), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=palette[name], linewidth=2)
        axes[0].set_ylabel(name)
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
    for i, axes_of_row in enumerate(axes):
        for ax, moment, title in zip(axes_of_row, labels, titles, strict=True):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1)
            ax.imshow(table[moment[i].astype(int)], interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(title, fontsize=9)
    return figure


def gallery(patches, table, *, palette=None, figure=None):
    """Draw patches class by class with their row, the number that accept and reject take, and how likely each is right.

    Where nothing was estimated, all weights being 1, the similarity stands for it.

    Parameters
    ----------
    patches : array, shape (n, height, width)
        For instance those of ``picks = weak.picks(10)``.
    table : DataFrame
        Class, similarity, row (else rank) and weight of each patch, for instance ``weak.table.iloc[picks]``.
    palette : dict, optional
        Class -> colour.
    """
    classes = list(dict.fromkeys(table["class"]))
    columns = int(table["class"].value_counts().max())
    figure = figure or new_figure(figsize=(1.25 * columns + 0.4, 1.75 * len(classes)), layout="constrained")
    axes = figure.subplots(len(classes), columns, squeeze=False)
    palette = colours(classes, palette)
    number, word = ("row", "row ") if "row" in table else ("rank", "#")
    estimated = "weight" in table and (table["weight"] < 1).any()
    says = table["weight"].map("{:.0%}".format) if estimated else table["similarity"].map("{:.3f}".format)
    for axes_of_class, name in zip(axes, classes, strict=True):
        here = np.flatnonzero(table["class"] == name)
        for ax, i in zip(axes_of_class, here, strict=False):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1, aspect="auto")
            ax.set_title(f"{word}{table[number].iloc[i]}\n{says.iloc[i]}", fontsize=8, pad=3)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=palette[name], linewidth=2.5)
        for ax in axes_of_class[len(here) :]:
            ax.axis("off")
        axes_of_class[0].set_ylabel(name, fontsize=11)
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
