"""The paper's first figure: full supervision and three weaker kinds, on one patch that an expert labelled."""

import numpy as np
import pandas as pd

from outcrop import datasets, plots
from outcrop.experiments import Result
from outcrop.experiments.exemplars import cut

PLACE = (310, 900, 1480)  # salt and layers in one patch
SIZE = 149
REMARK = (
    "The paper draws its figure on a patch of its own; this one is cut from inline 310 with the expert's labels, so "
    "that what each kind of label gets right can be counted."
)


def run(data, *, quick=False):
    """One salt patch with pixel labels, partial labels, a bounding box and an image label, and what each says."""
    sections, labels = datasets.f3_sections(data)
    if PLACE[0] not in labels["inline"]:
        raise ValueError("No expert labels of inline 310 are at hand; put GT211.mat beside the F3 pictures.")
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
    return Result(table, figure(patch, salt, kinds), REMARK)


def strokes(salt):
    """A few pen strokes over the patch: where an interpreter in a hurry is sure."""
    rows, columns = np.indices(salt.shape)
    pen = np.zeros_like(salt)
    for top, slope in ((0.1, 0.1), (0.86, -0.15)):
        pen |= np.abs(rows - len(salt) * top - slope * columns - 3 * np.sin(columns / 9)) < 2.5
    return pen & (np.abs(columns - len(salt) / 2) < 0.42 * len(salt))


def box(mask):
    """Smallest upright rectangle that holds a mask."""
    filled = np.zeros_like(mask)
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    filled[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    return filled


def figure(patch, salt, kinds):
    """Patch and desired labels above, the four kinds of labels below; salt red, everything else cyan."""
    from matplotlib.patches import Rectangle

    drawing = plots.new_figure(figsize=(11, 6), layout="constrained")
    grid = drawing.add_gridspec(2, 4)
    image, wanted = drawing.add_subplot(grid[0, 1]), drawing.add_subplot(grid[0, 2])
    everywhere = np.ones_like(salt)
    show(image, patch, salt, ~everywhere, "input")
    show(wanted, patch, salt, everywhere, "desired output")
    for i, (name, (label, labelled)) in enumerate(kinds.items()):
        ax = drawing.add_subplot(grid[1, i])
        drawn = name in ("pixel labels", "partial labels")
        show(ax, patch, label, labelled if drawn else ~everywhere, ("full: " if i == 0 else "weak: ") + name)
        if name == "bounding box":
            rows, columns = (np.flatnonzero(label.any(axis)) for axis in (1, 0))
            width, height = float(np.ptp(columns)) - 2, float(np.ptp(rows)) - 2
            ax.add_patch(Rectangle((columns[0] + 1, rows[0] + 1), width, height, fill=False, ec="red", lw=4))
        if name == "image label":
            ax.annotate("salt dome", (0.5, 0.5), xycoords="axes fraction", ha="center", color="w", backgroundcolor="r")
    return drawing


def show(ax, patch, salt, labelled, title):
    """A patch with its labels where it has some."""
    from matplotlib.colors import to_rgba

    ax.imshow(patch, cmap="gray", vmin=0, vmax=1)
    colours = np.array([to_rgba(plots.COLOURS[name], 0.5) for name in ("other", "salt dome")])
    ax.imshow(np.where(labelled[..., None], colours[salt.astype(int)], 0))
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=11)
