"""The paper's six exemplars, and the patches that they retrieve.

The classes `chaotic` and `fault` have one exemplar each, `other` and `salt dome` have two each.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import spearmanr

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.drawing import show_patch
from outcrop.experiments.f3 import eye_exemplars

# in the paper's order: class, and numbers of the patches that its exemplar retrieved, counted from 0
RUNS = {
    "chaotic": ("chaotic", range(0, 500)),
    "fault": ("fault", range(1000, 1500)),
    "other 1": ("other", range(500, 750)),
    "other 2": ("other", range(750, 1000)),
    "salt dome 1": ("salt dome", range(1500, 1750)),
    "salt dome 2": ("salt dome", range(1750, 2000)),
}
LABELS = np.array([label for label, _ in RUNS.values()])


def run(data: Data, *, quick: bool = False) -> Result:
    """Choose six exemplars in three ways, and measure the share of each class that they retrieve among 2000 patches."""
    images, classes, runs = published(data, quick)
    measure = oc.CurveletSVD()
    features = measure.describe(images)
    kinds = {
        "first retrieved": images[[members[0] for members in runs.values()]],
        "most similar to the others": images[centres(measure.compare(features, features), runs)],
        "chosen by eye": chosen_by_eye(data),
    }
    rows = []
    for kind, shown in kinds.items():
        similar = measure.compare(measure.describe(shown), features)
        for (name, members), similarity, label in zip(runs.items(), similar, LABELS, strict=True):
            found = accuracy(similar[label == LABELS].max(0), classes == label)
            order = spearmanr(similarity[members], -members).statistic
            rows.append((kind, name, similarity[members].mean(), found, order))
    columns = ["kind", "exemplar", "similarity to its run", "RA of its class", "rank correlation with file order"]
    return Result(pd.DataFrame(rows, columns=columns), figure(kinds))


def published(data: Data, quick: bool) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return (images, classes, runs) of the patches that the authors published.

    `runs` is a dict: name of an exemplar -> rows of the patches that it retrieved. If `quick` is True, only every 20th
    patch is returned.
    """
    patches = oc.datasets.seg2017_patches(data)
    numbers = patches["patch"].values - 1
    rows = np.flatnonzero(numbers % (20 if quick else 1) == 0)
    runs = {name: np.flatnonzero(np.isin(numbers[rows], places)) for name, (_, places) in RUNS.items()}
    for name, members in runs.items():
        if len(members) < 2:
            raise ValueError(
                f"The SEG 2017 folder has {len(members)} patches of {name!r}; at least 2 are needed. Add patches."
            )
    return patches["image"].values[rows], patches["weak"].values[rows], runs


def centres(S: np.ndarray, runs: dict[str, np.ndarray]) -> list[int]:
    """Return, for each run, the row of the patch that is most similar to the other patches of the run.

    A run holds the patches that one exemplar retrieved. `S` holds the similarities of all pairs of patches.
    """
    return [members[S[np.ix_(members, members)].sum(1).argmax()] for members in runs.values()]


def accuracy(similarity: np.ndarray, same: np.ndarray) -> float:
    """Return retrieval accuracy: the share of right patches among the first n, for a class of n patches.

    `similarity` is the similarity of each patch to the exemplars; `same` is True for patches of the class.
    """
    return float(same[np.argsort(-similarity, kind="stable")[: same.sum()]].mean())


def chosen_by_eye(data: Data) -> np.ndarray:
    """Return the patches of the F3 sections at the positions in ``exemplars.toml``, in the order of `RUNS`."""
    sections, _ = oc.datasets.f3_sections(data)
    first, second = eye_exemplars(310), eye_exemplars(330)
    places = [*first["chaotic"], *first["fault"], *first["other"], *first["salt dome"], *second["salt dome"]]
    return np.stack([cut(sections, place) for place in places])


def cut(sections: xr.DataArray, place: tuple[float, float, float], size: int = 99) -> np.ndarray:
    """Return the patch around a position (inline, crossline, time), with time down the rows."""
    line = sections.sel(inline=place[0])
    places = zip(line.dims, place[1:], strict=True)
    trace, sample = (int(np.abs(line[dim].values - x).argmin()) - size // 2 for dim, x in places)
    return line.values[trace : trace + size, sample : sample + size].T


def figure(kinds: dict[str, np.ndarray]) -> Any:
    """Draw a row of six exemplars for each way of choosing them, framed in the colours of their classes."""
    drawing = oc.plots.new_figure(figsize=(11.5, 6), layout="constrained")
    axes = drawing.subplots(len(kinds), len(RUNS))
    for row, (kind, patches) in zip(axes, kinds.items(), strict=True):
        for ax, patch, label in zip(row, patches, LABELS, strict=True):
            show_patch(ax, patch, oc.plots.COLOURS[label])
        row[0].set_ylabel(kind)
    for ax, name in zip(axes[0], RUNS, strict=True):
        ax.set_title(name)
    return drawing
