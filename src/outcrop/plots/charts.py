"""Charts of retrieved patches, of a mapper's fit, and of scores."""

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
    """Draw a confusion matrix: of the samples of each true class (row), the share with each label (column)."""
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
    """Draw the objective of a fitted `LabelMapper` by iteration: overall, and its parts for atoms and coefficients."""
    ax = ax or new_axes(figsize=(7, 4))
    curves = mapper.objective_, *mapper.objective_parts_.T
    for name, curve in zip(("overall", "atoms", "coefficients"), curves, strict=True):
        ax.plot(np.arange(len(curve)), curve, label=name)
    ax.set(xlabel="iteration", ylabel="objective", yscale="log")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def evolution(patches: np.ndarray, labels: npt.ArrayLike, classes: Iterable[str], titles: Sequence[str]) -> Figure:
    """Draw patches (rows) with their labels at several stages of the mapping (columns).

    Parameters
    ----------
    patches : array, shape (n, height, width)
        Patches in [0, 1].
    labels : array of int, shape (n_stages, n, height, width)
        Codes of the labels, 0 for uncertain.
    classes : sequence of str
        Names of the codes 1, 2, ...
    titles : sequence of str
        One title for each stage.
    """
    from matplotlib.colors import to_rgba

    palette = {"uncertain": COLOURS["uncertain"], **colours(list(classes))}
    table = np.array([to_rgba(colour, 0.5) for colour in palette.values()])
    figure = new_figure(figsize=(1.6 * len(titles), 1.7 * len(patches)), layout="constrained")
    axes = figure.subplots(len(patches), len(titles), squeeze=False)
    for i, axes_of_row in enumerate(axes):
        for ax, codes, title in zip(axes_of_row, np.asarray(labels, int), titles, strict=True):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1)
            ax.imshow(table[codes[i]], interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(title, fontsize=9)
    return figure


def gallery(
    patches: np.ndarray, table: pd.DataFrame, *, palette: Palette = None, figure: Figure | None = None
) -> Figure:
    """Draw patches class by class, each with its weight and its row number, which names the patch in a verdict.

    The weight is the estimated probability that a patch shows its class. If all weights are 1, because no probability
    was estimated, the similarity is written instead.

    Parameters
    ----------
    patches : array, shape (n, height, width)
        For instance the patches of ``picks = weak.picks(10)``.
    table : DataFrame
        Class, similarity, row (or rank) and weight of each patch, for instance ``weak.table.iloc[picks]``.
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
    values = table["weight"].map("{:.0%}".format) if estimated else table["similarity"].map("{:.3f}".format)
    for axes_of_class, name in zip(axes, classes, strict=True):
        of_class = np.flatnonzero(table["class"] == name)
        for ax, i in zip(axes_of_class, of_class, strict=False):
            ax.imshow(patches[i], cmap="gray", vmin=0, vmax=1, aspect="auto")
            ax.set_title(f"{word}{table[number].iloc[i]}\n{values.iloc[i]}", fontsize=8, pad=3)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=shades[name], linewidth=2.5)
        for ax in axes_of_class[len(of_class) :]:
            ax.axis("off")
        axes_of_class[0].set_ylabel(name, fontsize=11)
    return figure


def similarity_curves(weak: WeakLabels, *, palette: Palette = None, ax: Canvas = None) -> Axes:
    """Draw similarity by rank for every class; a dot marks the suggested number of patches, a line the number used."""
    ax = ax or new_axes(figsize=(7, 4))
    shades = colours(list(weak.curves), palette)
    for name, curve in weak.curves.items():
        suggested, used = weak.suggested[name], int((weak.classes == name).sum())
        text = f"{name}: {suggested} suggested, {used} used"
        ax.plot(np.arange(1, len(curve) + 1), curve, color=shades[name], label=text)
        if suggested <= len(curve):
            ax.plot(suggested, curve[suggested - 1], "o", color=shades[name], mec="black", zorder=3)
        ax.axvline(used, color=shades[name], lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="rank", ylabel="similarity to the nearest exemplar")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def purity_curves(curves: Mapping[str, np.ndarray], *, ax: Canvas = None) -> Axes:
    """Draw the purity of every class by rank: the share of patches up to this rank that show the class.

    Parameters
    ----------
    curves : dict
        Class -> array by rank: 1 where the patch shows the class, else 0.
    """
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
