"""The paper's exemplars: one of chaotic and of fault, two of other and of salt dome, and what such patches retrieve."""

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from outcrop import datasets, plots
from outcrop.experiments import Result
from outcrop.experiments.retrieval import eye_exemplars
from outcrop.measures.curvelet_svd import CurveletSVD

# in the paper's order: class, and which patches its exemplar retrieved, counted from 0
RUNS = {
    "chaotic": ("chaotic", range(0, 500)),
    "fault": ("fault", range(1000, 1500)),
    "other 1": ("other", range(500, 750)),
    "other 2": ("other", range(750, 1000)),
    "salt dome 1": ("salt dome", range(1500, 1750)),
    "salt dome 2": ("salt dome", range(1750, 2000)),
}
LABELS = np.array([label for label, _ in RUNS.values()])
REMARK = (
    "Where the paper's own exemplars lie is not published: shown are the first patch of each run of the published "
    "files (the most similar one, if they are in the order of retrieval), the one most similar to the rest of its run, "
    "and those that we chose by eye on the F3 sections; which six are taken moves the share retrieved."
)


def run(data, *, quick=False):
    """Six exemplars of three kinds, and the share of its class that each set of them finds among the 2000 patches."""
    images, classes, runs = published(data, quick)
    measure = CurveletSVD()
    features = measure.describe(images)
    kinds = {
        "first retrieved": images[[members[0] for members in runs.values()]],
        "most similar to the others": images[centres(measure.compare(features, features), runs)],
        "chosen by eye": chosen_by_eye(data),
    }
    found = []
    for kind, shown in kinds.items():
        similar = measure.compare(measure.describe(shown), features)
        for name, similarity, members in zip(RUNS, similar, runs.values(), strict=True):
            same = RUNS[name][0] == LABELS
            found.append(
                {
                    "kind": kind,
                    "exemplar": name,
                    "similarity to its run": similarity[members].mean(),
                    "RA of its class": accuracy(similar[same].max(0), classes == RUNS[name][0]),
                    "rank correlation with file order": spearmanr(similarity[members], -members).statistic,
                }
            )
    return Result(pd.DataFrame(found), figure(kinds), REMARK)


def published(data, quick):
    """The published patches, their classes, and by exemplar the rows of those that it retrieved."""
    patches = datasets.seg2017_patches(data)
    numbers = patches["patch"].values - 1
    rows = np.flatnonzero(numbers % (20 if quick else 1) == 0)
    runs = {name: np.flatnonzero(np.isin(numbers[rows], places)) for name, (_, places) in RUNS.items()}
    short = [name for name, members in runs.items() if len(members) < 2]
    if short:
        raise ValueError(f"The SEG 2017 patches at hand show {short[0]!r} fewer than two times; give more of them.")
    return patches["image"].values[rows], patches["weak"].values[rows], runs


def centres(S, runs):
    """The row of each run that is most similar to the others of it."""
    return [members[S[np.ix_(members, members)].sum(1).argmax()] for members in runs.values()]


def accuracy(similarity, same):
    """Share of right patches among as many as the class has."""
    return same[np.argsort(-similarity, kind="stable")[: same.sum()]].mean()


def chosen_by_eye(data):
    """Patches cut from the F3 sections at the places of ``exemplars.toml``, in the order of `RUNS`."""
    sections, _ = datasets.f3_sections(data)
    first, second = eye_exemplars(310), eye_exemplars(330)
    places = [*first["chaotic"], *first["fault"], *first["other"], *first["salt dome"], *second["salt dome"]]
    return np.stack([cut(sections, place) for place in places])


def cut(sections, place, size=99):
    """Patch around a place (inline, crossline, time), time downwards."""
    line = sections.sel(inline=place[0])
    places = zip(line.dims, place[1:], strict=True)
    trace, sample = (int(np.abs(line[dim].values - x).argmin()) - size // 2 for dim, x in places)
    return line.values[trace : trace + size, sample : sample + size].T


def figure(kinds):
    """One row of six patches per kind, framed in the colour of the class."""
    drawing = plots.new_figure(figsize=(11.5, 6), layout="constrained")
    for axes, (kind, patches) in zip(drawing.subplots(len(kinds), len(RUNS)), kinds.items(), strict=True):
        for ax, patch, (name, (label, _)) in zip(axes, patches, RUNS.items(), strict=True):
            ax.imshow(patch, cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(color=plots.COLOURS[label], linewidth=3)
            if patches is kinds["first retrieved"]:
                ax.set_title(name)
        axes[0].set_ylabel(kind)
    return drawing
