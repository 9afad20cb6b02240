"""A hundred synthetic sections on one picture, with crops of real ones among them where the data are at hand.

python -m pretraining.gallery out/gallery.png            # sections alone: would an interpreter be fooled?
python -m pretraining.gallery out/truth.png --truth      # fewer, with what the net is taught
"""

import argparse
import os
from pathlib import Path

import matplotlib
import numpy as np

from pretraining.sections import CLASSES, Sections

COLOURS = {
    "zone": "#e7c94a",
    "salt": "#c44e9c",
    "chaos": "#3f7fbf",
    "fault": "#d1361f",
    "edge": "#5b1a49",
    "unconformity": "#1a9e5c",
}


def real_crops(folder, side, count, rng):
    """Crops of F3 and of the Great South Basin, scaled alike."""
    sections = [np.load(path).astype(float) for path in sorted(folder.glob("gsb/*.npy"))]
    sections = [section for section in sections if min(section.shape) >= side // 2]
    for path in sorted(folder.glob("f3_sections/*.bmp")):
        picture = matplotlib.image.imread(path).astype(float)
        sections.append(picture[60:, :, 0] if picture.ndim == 3 else picture[60:])
    crops = []
    for _ in range(count if sections else 0):
        section = sections[rng.integers(len(sections))]
        height = min(side, len(section))
        top, left = rng.integers(len(section) - height + 1), rng.integers(section.shape[1] - side + 1)
        crop = section[top : top + height, left : left + side]
        crops.append((crop - crop.mean()) / crop.std())
    return crops


def main():
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=160)
    options = parser.parse_args()
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    rows, columns = (4, 6) if options.truth else (10, 11)
    rng = np.random.default_rng(options.seed)
    batch = Sections(rows * columns).batch(options.seed, crop=options.side)
    sections = [section / (section.std() + 1e-6) for section in batch.sections.numpy()]
    data = os.environ.get("OUTCROP_DATA")
    places = rng.permutation(len(sections))[: len(sections) // 10]
    if data and not options.truth:
        for place, crop in zip(places, real_crops(Path(data), options.side, len(places), rng), strict=False):
            sections[place] = crop
        print("real ones, counted from the top left:", sorted(int(place) + 1 for place in places))
    figure, axes = plt.subplots(rows, columns, figsize=(2 * columns, 2 * rows), layout="constrained")
    for number, (axis, section) in enumerate(zip(axes.flat, sections, strict=True)):
        axis.imshow(section, cmap="gray", vmin=-2.5, vmax=2.5, interpolation="bilinear")
        axis.set_axis_off()
        for name, colour in COLOURS.items() if options.truth else ():
            mask = batch.truth[number, CLASSES.index(name)].numpy()
            axis.imshow(np.ma.masked_equal(mask, 0), cmap=matplotlib.colors.ListedColormap([colour]), alpha=0.45)
    options.path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.path, dpi=100 if options.truth else 80)


if __name__ == "__main__":
    main()
