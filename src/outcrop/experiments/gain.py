"""Effect of gain, polarity and sampling on the paper's measure, with and without gain control of each patch."""

import numpy as np
import pandas as pd
from scipy.ndimage import zoom

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.drawing import bars
from outcrop.experiments.table1 import draw_of_classes
from outcrop.patches.gain import by_rms


def run(data: Data, *, quick: bool = False) -> Result:
    """Measure retrieval accuracy on changed patches, with and without division of each patch by its RMS amplitude."""
    dataset = oc.datasets.seg2017_patches(data)
    rng = np.random.default_rng(0)
    classes = dataset["weak"].values
    rows = draw_of_classes(classes, dict.fromkeys(classes), 20 if quick else 100, rng)
    patches = dataset["image"].values[rows].astype(np.float64)
    gains = 2 ** rng.uniform(-1, 1, len(rows))[:, None, None]
    odd = (np.arange(len(rows)) % 2 == 1)[:, None, None]
    changes = {
        "unchanged": patches,
        "random gain of 0.5 to 2 per patch": np.clip(0.5 + gains * (patches - 0.5), 0, 1),
        "polarity of every second patch reversed": np.where(odd, 1 - patches, patches),
        "every second patch sampled twice as finely": np.where(odd, finer(patches), patches),
    }
    table = pd.DataFrame({"change": list(changes)})
    for gain in ("volume", "patch"):
        given = [patches if gain == "volume" else by_rms(2 * patches - 1) for patches in changes.values()]
        scores = [oc.retrieval_scores(oc.similarity(one, one), classes[rows]) for one in given]
        table[f"RA, gain {gain}"] = [found["RA"] for found in scores]
    drawing = bars(table.set_index("change"), "retrieval accuracy of the curvelet-SVD measure", figsize=(8, 3.5))
    return Result(table, drawing)


def finer(patches: np.ndarray) -> np.ndarray:
    """Return the middle of every patch, interpolated to twice as many samples and traces."""
    n = patches.shape[-1]
    middle = patches[:, n // 4 : n // 4 + n // 2 + 1, n // 4 : n // 4 + n // 2 + 1]
    return np.stack([zoom(patch, n / len(patch), order=1) for patch in middle])
