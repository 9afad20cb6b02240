"""Pictures of the first 40 fault patches of the worst draw on F3, ranked by similarity and by graph.

python benchmarks/gallery.py --data DIR out/gallery.png

The frame shows the expert's verdict: blue for a patch with a fault, orange for a patch without, no frame on a line
without labels. The worst of twenty draws is the one with the fewest right fault patches by similarity.
"""

import argparse
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import outcrop as oc
from outcrop.experiments.f3 import COUNT, SHOWN, SIZE, STEP, labelled_sections, shown_classes

FIRST, COLUMNS = 40, 10
FRAMES = {1.0: "#0072b2", 0.0: "#e69f00"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the real data; by default OUTCROP_DATA")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("out")
    options = parser.parse_args()
    volume, truth = labelled_sections(options.data)
    grid = oc.PatchGrid(volume, size=SIZE, step=STEP)
    right = shown_classes(grid, truth)[:, truth.attrs["classes"].index("fault")]
    with tempfile.TemporaryDirectory() as folder:
        index = oc.build_index(volume, grid, f"{folder}/f3.outcrop")
        draws = [oc.datasets.exemplars(truth, SIZE, min_share=SHOWN, seed=seed) for seed in range(options.draws)]
        found = [[faults(index, places, ranking) for ranking in ("similarity", "graph")] for places in draws]
        purity = np.array([[np.nanmean(right[rows]) for rows in pair] for pair in found])
        worst = int(purity[:, 0].argmin())
        draw_gallery(grid.extract(volume, np.concatenate(found[worst])[picked()]), found[worst], right, options.out)
    before, after = purity[worst]
    print(
        f"worst draw: seed {worst}; of {COUNT} fault patches {before:.2f} are right by similarity, {after:.2f} by graph"
    )
    print(f"mean of {len(draws)} draws: {purity[:, 0].mean():.2f} and {purity[:, 1].mean():.2f}")


def faults(index, places, ranking):
    """Return the rows of the fault patches that exemplars retrieve."""
    weak = oc.retrieve(index, places, COUNT, ranking=ranking)
    return weak.rows[weak.classes == "fault"]


def picked():
    """Return the positions of the first patches of both rankings in the union of both."""
    return np.concatenate([np.arange(FIRST), COUNT + np.arange(FIRST)])


def draw_gallery(patches, rows, right, path):
    """Save both galleries, one above the other."""
    figure = plt.figure(figsize=(COLUMNS * 1.3, 2 * (FIRST // COLUMNS * 1.3 + 0.5)))
    for part, name in zip(figure.subfigures(2, 1), ("by similarity", "by graph"), strict=True):
        chosen = rows[0][:FIRST] if name == "by similarity" else rows[1][:FIRST]
        known = right[chosen][np.isfinite(right[chosen])]
        part.suptitle(f"{name}: {int(known.sum())} of {len(known)} labelled patches show a fault", fontsize=12)
        axes = part.subplots(FIRST // COLUMNS, COLUMNS, gridspec_kw={"wspace": 0.08, "hspace": 0.08, "top": 0.9})
        shown = patches[:FIRST] if name == "by similarity" else patches[FIRST:]
        for ax, patch, row in zip(axes.flat, shown, chosen, strict=True):
            ax.imshow(patch, cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set(color=FRAMES.get(right[row], "white"), linewidth=4)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
