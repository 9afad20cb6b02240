"""Charts of retrieval, mapping and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from outcrop.plots.colours import COLOURS, colours
from outcrop.plots.figure import new_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from outcrop.plots.figure import Canvas, Palette
    from outcrop.retrieval.weak import WeakLabels


def confusion(matrix: npt.ArrayLike, classes: Sequence[str], *, ax: Canvas = None) -> Axes:
    """Draw a confusion matrix: of the samples of each true class (row), the share that got each label (column)."""
    ax = ax or new_axes(figsize=(1.2 * len(classes) + 2.5, len(classes) + 1.5))
    counts = np.asarray(matrix, float)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = list(classes) if counts.shape[1] == len(classes) else ["no label", *classes]
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(share):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.6 else "black")
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(classes)), classes)
    ax.set(xlabel="label", ylabel="truth")
    return ax


def convergence(mapper: Any, *, ax: Canvas = None) -> Axes:
    """Draw the objective of a fitted `LabelMapper` and the parts that its two updates lower, by iteration."""
    ax = ax or new_axes(figsize=(7, 4))
    courses = mapper.objective_, *mapper.objective_parts_.T
    for name, course in zip(("overall", "atoms", "coefficients"), courses, strict=True):
        ax.plot(np.arange(len(course)), course, label=name)
    ax.set(xlabel="iteration", ylabel="objective", yscale="log")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def evolution(patches: np.ndarray, labels: npt.ArrayLike, classes: Iterable[str], titles: Sequence[str]) -> Figure:
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
        for ax, moment, title in zip(axes_of_row, np.asarray(labels, int), titles, strict=True):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1)
            ax.imshow(table[moment[i]], interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(title, fontsize=9)
    return figure


def gallery(
    patches: np.ndarray, table: pd.DataFrame, *, palette: Palette = None, figure: Figure | None = None
) -> Figure:
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
    shades = colours(classes, palette)
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
                spine.set(color=shades[name], linewidth=2.5)
        for ax in axes_of_class[len(here) :]:
            ax.axis("off")
        axes_of_class[0].set_ylabel(name, fontsize=11)
    return figure


def similarity_curves(weak: WeakLabels, *, palette: Palette = None, ax: Canvas = None) -> Axes:
    """Draw similarity by rank for every class; a dot marks how many are suggested, a line how many were taken."""
    ax = ax or new_axes(figsize=(7, 4))
    shades = colours(list(weak.curves), palette)
    for name, curve in weak.curves.items():
        good, taken = weak.suggested[name], int((weak.classes == name).sum())
        text = f"{name}: {good} suggested, {taken} taken"
        ax.plot(np.arange(1, len(curve) + 1), curve, color=shades[name], label=text)
        if good <= len(curve):
            ax.plot(good, curve[good - 1], "o", color=shades[name], mec="black", zorder=3)
        ax.axvline(taken, color=shades[name], lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="rank", ylabel="similarity to the nearest exemplar")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def purity_curves(curves: Mapping[str, np.ndarray], *, ax: Canvas = None) -> Axes:
    """Draw, class by class, the share of the retrieved patches up to each rank that are right."""
    ax = ax or new_axes(figsize=(7, 4))
    palette = colours(list(curves))
    for name, right in curves.items():
        ranks = np.arange(1, len(right) + 1)
        share = np.cumsum(right) / ranks
        ax.plot(ranks, share, color=palette[name], label=f"{name}: {share[-1]:.2f} of {len(right)}")
    ax.set(xlabel="rank", ylabel="share of patches that show the class", ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", loc="lower left")
    return ax
