"""How the paper's measure follows gain, polarity and sampling, and what per-patch normalisation makes of it."""

import numpy as np
import pandas as pd
from scipy.ndimage import zoom

from outcrop import datasets, plots
from outcrop.evaluate.retrieval import retrieval_scores
from outcrop.experiments import Result
from outcrop.measures.registry import similarity
from outcrop.patches.gain import by_rms


def run(data, *, quick=False):
    """Retrieval accuracy with every second patch changed, with and without normalisation by the patch's RMS."""
    dataset = datasets.seg2017_patches(data)
    rng = np.random.default_rng(0)
    per_class = 20 if quick else 100
    rows = np.concatenate([c * 500 + rng.choice(500, per_class, replace=False) for c in range(4)])
    patches = dataset["image"].values[rows].astype(np.float64)
    classes = dataset["weak"].values[rows]
    gains = 2 ** rng.uniform(-1, 1, len(rows))[:, None, None]
    odd = (np.arange(len(rows)) % 2 == 1)[:, None, None]
    changes = {
        "as it is": patches,
        "random gain of 0.5 to 2 per patch": np.clip(0.5 + gains * (patches - 0.5), 0, 1),
        "polarity of every second patch reversed": np.where(odd, 1 - patches, patches),
        "every second patch sampled twice as finely": np.where(odd, finer(patches), patches),
    }
    table = pd.DataFrame(
        [
            {
                "change": name,
                **{f"RA, gain {gain}": accuracy(normalised, classes) for gain, normalised in both(changed)},
            }
            for name, changed in changes.items()
        ]
    )
    return Result(
        table, bars(table), "The paper does not test this; its data have one gain, one polarity and one sampling."
    )


def both(patches):
    """Patches as they are, and normalised each by its own RMS."""
    return ("volume", patches), ("patch", by_rms(2 * patches - 1))


def accuracy(patches, classes):
    """Retrieval accuracy of the paper's measure."""
    return retrieval_scores(similarity(patches, patches), classes)["RA"]


def finer(patches):
    """Middle of every patch at twice the sampling in both directions."""
    n = patches.shape[-1]
    middle = patches[:, n // 4 : n // 4 + n // 2 + 1, n // 4 : n // 4 + n // 2 + 1]
    return np.stack([zoom(patch, n / len(patch), order=1) for patch in middle])


def bars(table):
    """Bar chart of the table."""
    ax = plots.new_axes(figsize=(8, 3.5))
    positions = np.arange(len(table))
    for i, column in enumerate(table.columns[1:]):
        drawn = ax.barh(positions + 0.4 * i, table[column], height=0.38, label=column)
        ax.bar_label(drawn, fmt="%.2f", padding=3)
    ax.set_yticks(positions + 0.2, table["change"])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.08), xlabel="retrieval accuracy of the curvelet-SVD measure")
    ax.legend(loc="lower right", fontsize="small")
    return ax.figure
