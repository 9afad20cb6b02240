"""The paper's block diagram, drawn with real patches: exemplars, retrieved patches and pixel labels."""

from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.drawing import show_patch, tinted
from outcrop.experiments.exemplars import LABELS, centres, published
from outcrop.measures.curvelet_svd import effective

SHOWN = 4  # patches per class in the figure


def run(data: Data, *, quick: bool = False) -> Result:
    """Retrieve with six exemplars, map the classes of the retrieved patches to pixels, and draw every step."""
    pool, _, runs = published(data, quick)
    begin = perf_counter()
    measure = oc.CurveletSVD()
    features = measure.describe(pool)
    S = measure.compare(features, features)
    marked, count = centres(S, runs), 5 if quick else 100
    best = {label: np.argsort(-S[marked][label == LABELS].max(0))[:count] for label in oc.datasets.CLASSES}
    retrieved = perf_counter()
    patches = np.concatenate([pool[rows] for rows in best.values()])
    mapper = oc.LabelMapper(count // 3, iterations=20 if quick else 100)
    labels = mapper.fit_predict(patches, np.repeat(list(best), count))
    steps = [
        ("exemplars", len(marked), "patches of 99 x 99", 0.0),
        ("retrieval", len(patches), f"of {len(pool)} patches, each with one class", retrieved - begin),
        ("mapping", labels.size, f"pixels by {len(mapper.atoms_)} atoms", perf_counter() - retrieved),
    ]
    table = pd.DataFrame(steps, columns=["step", "number", "of what", "seconds"])
    chosen = [i * count + np.linspace(0, count - 1, SHOWN).astype(int) for i in range(len(best))]
    return Result(table, figure(pool[marked], patches, mapper, labels, np.stack(chosen)))


def figure(
    exemplars: np.ndarray, patches: np.ndarray, mapper: oc.LabelMapper, labels: np.ndarray, chosen: np.ndarray
) -> Any:
    """Draw the workflow in the upper half, and details of retrieval and mapping in the lower half."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

    drawing = oc.plots.new_figure(figsize=(14, 8.4))
    classes = [str(name) for name in mapper.classes_]
    frames = np.reshape([oc.plots.COLOURS[label] for label in LABELS], (2, 3))
    gallery(drawing, exemplars.reshape(2, 3, *exemplars.shape[1:]), frames, (0.02, 0.25, 0.59, 0.88))
    frames = np.repeat([oc.plots.COLOURS[name] for name in classes], SHOWN).reshape(-1, SHOWN)
    gallery(drawing, patches[chosen], frames, (0.36, 0.62, 0.51, 0.945))
    gallery(
        drawing, patches[chosen], frames, (0.73, 0.99, 0.51, 0.945), tinted(labels[chosen], ["uncertain", *classes])
    )
    titles = {0.135: "few exemplars per class", 0.49: "retrieved: a class per patch", 0.86: "a class for every pixel"}
    for x, title in titles.items():
        drawing.text(x, 0.96, title, ha="center", fontsize=13, weight="bold")
    handles = [Patch(color=oc.plots.COLOURS[name], label=name) for name in classes]
    drawing.legend(handles=handles, loc="center", bbox_to_anchor=(0.135, 0.54), ncols=2, frameon=False)
    retrieval, mapping = "similarity-\nbased\nretrieval", "weakly\nsupervised\nmapping"
    box: dict[str, Any] = {"boxstyle": "round,pad=0.01", "fc": "#f3f3f3", "ec": "grey", "zorder": -1}
    arrow: dict[str, Any] = {"mutation_scale": 25, "color": "dimgrey"}
    for x, left, words in ((0.305, 0.02, retrieval), (0.675, 0.515, mapping)):
        drawing.add_artist(FancyBboxPatch((left, 0.03), 0.465, 0.405, **box))
        drawing.text(x, 0.77, words, ha="center", va="bottom", fontsize=11)
        drawing.add_artist(FancyArrowPatch((x - 0.045, 0.735), (x + 0.045, 0.735), arrowstyle="-|>", lw=3, **arrow))
        drawing.add_artist(FancyArrowPatch((x, 0.72), (x, 0.44), arrowstyle="-", lw=1, **arrow))
    draw_measure(drawing, patches[chosen[2, 0]])
    draw_mapping(drawing, patches[chosen[2]], mapper)
    return drawing


def gallery(drawing: Any, patches: np.ndarray, frames: np.ndarray, place: tuple[float, ...], over: Any = None) -> None:
    """Draw rows of framed patches in a part of the figure.

    `place` is (left, right, bottom, top) as fractions of the figure, and `frames` are the colours of the frames. `over`
    holds RGBA pictures that are drawn over the patches, or is None.
    """
    edges = dict(zip(("left", "right", "bottom", "top"), place, strict=True))
    grid = drawing.add_gridspec(*patches.shape[:2], **edges, wspace=0.06, hspace=0.06)
    for at in np.ndindex(patches.shape[:2]):
        show_patch(drawing.add_subplot(grid[at]), patches[at], frames[at], over=None if over is None else over[at])


def draw_measure(drawing: Any, patch: np.ndarray) -> None:
    """Draw how a patch becomes a feature vector: curvelet coefficients, and the singular values that are kept."""
    grid = drawing.add_gridspec(1, 3, left=0.035, right=0.465, bottom=0.12, top=0.37, wspace=0.2)
    coefficients = oc.Curvelet(patch.shape).forward(patch)[1][2]
    values = np.linalg.svd(coefficients, compute_uv=False)
    kept = effective(values[None], [len(values)])[0] > 0
    image, array, curve = (drawing.add_subplot(cell) for cell in grid)
    image.imshow(patch, cmap="gray", vmin=0, vmax=1, aspect="auto")
    array.imshow(coefficients, cmap="RdBu", aspect="auto")
    curve.bar(np.arange(len(values)), values, color=np.where(kept, "tab:blue", "lightgrey"))
    titles = "patch", "curvelet coefficients\nof one wedge", "singular values, cut\nat the effective rank"
    for ax, title in zip((image, array, curve), titles, strict=True):
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=10)
    formula = r"similarity of two vectors of 500 such values:  $1 - \|v_1 - v_2\|_1\,/\,\|v_1 + v_2\|_1$"
    drawing.text(0.25, 0.06, formula, ha="center", fontsize=11)


def draw_mapping(drawing: Any, patches: np.ndarray, mapper: oc.LabelMapper) -> None:
    """Draw how patches X become labels: X is about atoms W times coefficients H, and every atom has a class."""
    first_atoms = np.array([np.flatnonzero(mapper.atom_classes_ == c)[0] for c in range(len(mapper.classes_))])
    atoms = mapper.atoms_[first_atoms] / mapper.atoms_[first_atoms].max((1, 2), keepdims=True)
    colours = np.array([oc.plots.COLOURS[name] for name in mapper.classes_])
    gallery(drawing, patches[:, None], np.full((len(patches), 1), "black"), (0.53, 0.60, 0.10, 0.38))
    gallery(drawing, atoms[:, None], colours[:, None], (0.65, 0.72, 0.10, 0.38))
    ax = drawing.add_axes((0.785, 0.12, 0.185, 0.26))
    H = mapper.coefficients_.T
    ax.imshow(H, cmap="Greys", vmax=np.quantile(H, 0.99), aspect="auto", interpolation="nearest")
    ax.set(xticks=[], yticks=[], xlabel="patches", ylabel="atoms")
    headings = {0.565: "patches $X$", 0.685: "sparse atoms $W$", 0.8775: "orthogonal coefficients $H$"}
    for x, text in headings.items():
        drawing.text(x, 0.395, text, ha="center", fontsize=10)
    for x, text in ((0.625, r"$\approx$"), (0.7475, r"$\times$")):
        drawing.text(x, 0.24, text, ha="center", fontsize=18)
    formula = r"evidence for the classes at each pixel: $L_n = W\,(Q \odot h_n 1^T)$; the largest wins"
    drawing.text(0.745, 0.05, formula, ha="center", fontsize=11)
