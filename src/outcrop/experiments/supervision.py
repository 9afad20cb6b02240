"""The paper's first figure: full supervision and three kinds of weak supervision, on an expert-labelled patch."""

from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.drawing import show_patch, tinted
from outcrop.experiments.exemplars import cut

PLACE = (310, 900, 1480)  # salt and layers in one patch
SIZE = 149


def run(data: Data, *, quick: bool = False) -> Result:
    """Label a salt patch in four ways, and measure the share of right pixels.

    The ways are labels of all pixels, strokes, a bounding box, and one class for the whole patch.
    """
    sections, labels = oc.datasets.f3_sections(data)
    if PLACE[0] not in labels["inline"]:
        raise ValueError("The F3 folder has no expert labels of inline 310; add GT211.mat to this folder.")
    patch = cut(sections, PLACE, SIZE)
    salt = cut(labels, PLACE, SIZE) == 1 + labels.attrs["classes"].index("salt dome")
    kinds = {
        "pixel labels": (salt, np.ones_like(salt)),
        "partial labels": (salt, strokes(salt)),
        "bounding box": (box(salt), np.ones_like(salt)),
        "image label": (np.ones_like(salt), np.ones_like(salt)),
    }
    table = pd.DataFrame(
        {"labels": name, "pixels labelled": labelled.mean(), "of these right": (label == salt)[labelled].mean()}
        for name, (label, labelled) in kinds.items()
    )
    return Result(table, figure(patch, salt, kinds))


def strokes(salt: np.ndarray) -> np.ndarray:
    """Return a mask of a few pen strokes over the patch, which imitate the partial labels of an interpreter."""
    rows, columns = np.indices(salt.shape)
    pen = np.zeros_like(salt)
    for top, slope in ((0.1, 0.1), (0.86, -0.15)):
        pen |= np.abs(rows - len(salt) * top - slope * columns - 3 * np.sin(columns / 9)) < 2.5
    return np.asarray(pen & (np.abs(columns - len(salt) / 2) < 0.42 * len(salt)))


def box(mask: np.ndarray) -> np.ndarray:
    """Return a mask of the smallest upright rectangle that contains all True pixels of a mask."""
    filled = np.zeros_like(mask)
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    filled[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    return filled


def figure(patch: np.ndarray, salt: np.ndarray, kinds: dict[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Draw patch and desired labels above, the four kinds of labels below; salt is red, all other pixels cyan."""
    from matplotlib.patches import Rectangle

    drawing = oc.plots.new_figure(figsize=(11, 6), layout="constrained")
    grid = drawing.add_gridspec(2, 4)
    panels = {"input": (grid[0, 1], None), "desired output": (grid[0, 2], (salt, np.ones_like(salt)))}
    for i, (name, kind) in enumerate(kinds.items()):
        drawn = kind if name in ("pixel labels", "partial labels") else None
        panels[("full: " if i == 0 else "weak: ") + name] = grid[1, i], drawn
    for title, (cell, drawn) in panels.items():
        ax = drawing.add_subplot(cell)
        over = None if drawn is None else tinted(drawn[0].astype(int), ["other", "salt dome"]) * drawn[1][..., None]
        show_patch(ax, patch, over=over)
        ax.set_title(title, fontsize=11)
        if title == "weak: bounding box":
            rows, columns = np.nonzero(kinds["bounding box"][0])
            size = float(np.ptp(columns)) - 2, float(np.ptp(rows)) - 2
            ax.add_patch(Rectangle((columns.min() + 1, rows.min() + 1), *size, fill=False, ec="red", lw=4))
        if title == "weak: image label":
            ax.annotate("salt dome", (0.5, 0.5), xycoords="axes fraction", ha="center", color="w", backgroundcolor="r")
    return drawing
