"""The paper's table of seven similarity measures: scores of retrieval and clustering, time and memory."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.arrays import to_numpy
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.evolution import on_device
from outcrop.measures.registry import PAPER as NAMES

# RA, MAP, AUC and Rand index as printed, on LANDMASS-2
PAPER = {
    "euclidean": (0.345, 0.394, 0.515, 0.394),
    "cw-ssim": (0.721, 0.806, 0.858, 0.870),
    "stsim-1": (0.867, 0.926, 0.966, 0.895),
    "stsim-2": (0.855, 0.910, 0.964, 0.877),
    "seisim": (0.819, 0.886, 0.945, 0.888),
    "curvelet-histogram": (0.896, 0.949, 0.978, 0.905),
    "curvelet-svd": (0.911, 0.954, 0.983, 0.970),
}
# alternatives to the defaults, where the publications leave a choice open
ALTERNATIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "cw-ssim, 8 directions": ("cw-ssim", {"orientations": 8}),
    "cw-ssim, 3 levels": ("cw-ssim", {"levels": 3}),
    "cw-ssim, 3 levels, 8 directions": ("cw-ssim", {"levels": 3, "orientations": 8}),
    "stsim-1, local windows": ("stsim-1", {"window": "local"}),
    "stsim-2, local windows": ("stsim-2", {"window": "local"}),
    "seisim, local windows": ("seisim", {"window": "local"}),
    "curvelet-histogram, not standardized": ("curvelet-histogram", {"standardize": False}),
    "curvelet-histogram, with finest scale": ("curvelet-histogram", {"finest": True}),
    "curvelet-histogram, not standardized, with finest scale": (
        "curvelet-histogram",
        {"standardize": False, "finest": True},
    ),
    "curvelet-svd, not truncated": ("curvelet-svd", {"truncate": False}),
    "curvelet-svd, no finest scale": ("curvelet-svd", {"finest": False}),
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in NAMES} | ALTERNATIVES
SCORES = {
    "RA": "retrieval accuracy",
    "MAP": "mean average precision",
    "AUC row": "AUC, rows normalised",
    "RI": "Rand index",
}
CLASS_NAMES = {"saltdome": "salt dome"}
FEWEST, ENOUGH, MOST = 10, 100, 1000  # images per class: fewest allowed; in the SEG 2017 subset; most, as in the paper
QUICK = 10


class Patches(NamedTuple):
    """A data set of patches with one class each."""

    images: np.ndarray
    classes: np.ndarray
    modes: np.ndarray  # classes, but `other`, which two exemplars retrieved, is divided into two


class Matrix(NamedTuple):
    """Similarities of all pairs of patches of a data set by one measure, with computing time and memory."""

    raw: np.ndarray  # higher is more similar: distances have a negative sign
    similarity: np.ndarray  # as the paper defines it; for distances, 1 - distance / largest distance in the row
    seconds: float
    megabytes: float  # descriptors and the matrix


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Score every measure with its default options on every data set.

    Other options are scored only on a small data set or with a device, because they take hours on thousands of patches.
    """
    sets, left_out = patch_sets(data, quick)
    rows = []
    for name, patches in sets.items():
        n = len(patches.images)
        all_variants = device or (name == next(iter(sets)) and n <= 4 * ENOUGH)  # hours on thousands of patches
        for variant in VARIANTS:
            if variant in NAMES or (all_variants and not (quick and "local" in variant)):
                rows.append({"data": name, "images": n, **score(data, name, variant, quick, device)})
    table = pd.DataFrame(rows)
    reference = table[table["measure"] == "curvelet-svd"].set_index("data")["seconds"]
    table["cost"] = table["seconds"] / table["data"].map(reference)
    return Result(table, figure(table), " ".join(left_out))


def score(data: Data, name: str, variant: str, quick: bool, device: Device) -> dict[str, Any]:
    """Return a row of the table: scores of a measure on a data set, the scores in the paper, time and memory.

    `name` is the data set, and `variant` the measure with its options, a key of `VARIANTS`.
    """
    classes = patch_sets(data, quick)[0][name].classes
    found = matrix(data, name, variant, quick, device)
    retrieval = oc.retrieval_scores(found.raw, classes)
    clusters = oc.cluster_scores(found.similarity, classes, seeds=2 if quick else 10)
    paper = PAPER[VARIANTS[variant][0]]
    row: dict[str, Any] = {"measure": variant, "RA": retrieval["RA"], "paper RA": paper[0]}
    row |= {"MAP": retrieval["MAP"], "paper MAP": paper[1]}
    row |= {"AUC raw": retrieval["AUC"], "AUC row": retrieval["AUC_row"], "paper AUC": paper[2]}
    row |= {"RI": clusters["rand_index"], "RI sd": clusters["rand_index_sd"], "paper RI": paper[3]}
    return row | {"seconds": found.seconds, "MB": found.megabytes}


@functools.cache
def matrix(data: Data, name: str, variant: str, quick: bool, device: Device) -> Matrix:
    """Return the similarities of all pairs of patches of the data set `name` by the measure `variant`.

    `variant` is a key of `VARIANTS`. The result is cached for other experiments of the run.
    """
    images = on_device(patch_sets(data, quick)[0][name].images, device)
    measure, parameters = VARIANTS[variant]
    chosen = oc.MEASURES[measure](**parameters)
    chosen.compare(*[chosen.describe(images[:2])] * 2)  # not timed: makes windows, compiles loops
    begin = perf_counter()
    described = chosen.describe(images)
    values = to_numpy(chosen.compare(described, described))
    seconds = perf_counter() - begin
    held = values.nbytes + sum(x.nbytes for x in (described if isinstance(described, list) else [described]))
    if not chosen.distance:
        return Matrix(values, values, seconds, held / 1e6)
    return Matrix(-values, 1 - values / values.max(1, keepdims=True), seconds, held / 1e6)


@functools.cache
def patch_sets(data: Data, quick: bool) -> tuple[dict[str, Patches], list[str]]:
    """Return the data sets in a folder, the smallest first, and the reasons why other data sets are left out.

    Parameters
    ----------
    data : path or None
        Folder with the SEG 2017 patches or with a sub-folder ``landmass1`` or ``landmass2``, or the folder of a
        LANDMASS data set; None for the environment variable OUTCROP_DATA.
    quick : bool
        Use few patches.

    Returns
    -------
    sets : dict
        Name -> `Patches`.
    left_out : list of str
        A sentence for each data set that is left out.
    """
    folder = Path(data or os.environ.get("OUTCROP_DATA", ""))
    sets: dict[str, Patches] = {}
    left_out = []
    roots = [folder / name for name in ("landmass1", "landmass2") if (folder / name).is_dir()]
    try:
        sets |= seg2017(data, quick)
    except FileNotFoundError as error:
        if not roots and len({file.parent for file in folder.glob("*/*.mat")}) < 2:
            raise ValueError(f"{error} Or name a folder that contains the class folders of LANDMASS.") from error
        roots = roots or [folder]
    for root in roots:
        try:
            sets |= landmass(root, quick)
        except ValueError as error:
            if not sets and root is roots[-1]:
                raise
            left_out.append(str(error))
    return sets, left_out


def seg2017(data: Data, quick: bool) -> dict[str, Patches]:
    """Return two data sets of the SEG 2017 patches: 100 patches per class, drawn with seed 0, and all patches.

    A quick run has only one data set, with 10 patches per class.
    """
    patches = oc.datasets.seg2017_patches(data)
    number = patches["patch"].values - 1
    classes = patches["weak"].values
    modes = np.where(classes == "other", np.char.add("other ", (1 + number % 500 // 250).astype(str)), classes)
    few = QUICK if quick else ENOUGH
    check_counts(classes, few, "The SEG 2017 folder")
    rows = draw_of_classes(classes, oc.datasets.CLASSES, few, np.random.default_rng(0))
    every = Patches(patches["image"].values, classes, modes)
    small = {f"SEG 2017, {few} a class": Patches(*(x[rows] for x in every))}
    return small if quick else small | {"SEG 2017, all": every}


def landmass(folder: Path, quick: bool) -> dict[str, Patches]:
    """Return a dict: name -> patches of a LANDMASS data set, for two ways of scaling amplitudes to [0, 1].

    At most 1000 images per class (10 in a quick run) are drawn with seed 0.
    """
    sets = {}
    for scaling, words in (("range", "as (x + 1) / 2"), ("image", "each image by its own range")):
        found = oc.datasets.landmass(folder, scaling=scaling)
        classes = np.array([CLASS_NAMES.get(name, name) for name in found["class"].values])
        check_counts(classes, FEWEST, folder)
        rows = draw_of_classes(classes, np.unique(classes), QUICK if quick else MOST, np.random.default_rng(0))
        name = "LANDMASS-1" if found["image"].shape[1:] == (99, 99) else "LANDMASS-2"
        sets[f"{name} {words}"] = Patches(found["image"].values[rows], classes[rows], classes[rows])
    return sets


def draw_of_classes(classes: np.ndarray, names: Iterable[str], count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `count` random rows of every named class, or all rows of a class that has fewer; return the rows."""
    members = [np.flatnonzero(classes == name) for name in names]
    return np.concatenate([rng.choice(rows, min(count, len(rows)), replace=False) for rows in members])


def check_counts(classes: np.ndarray, fewest: int, where: str | Path) -> None:
    """Raise a ValueError if a class has fewer than `fewest` images; `where` names the data in the message."""
    names, counts = np.unique(classes, return_counts=True)
    if counts.min() < fewest:
        raise ValueError(
            f"{where} has {counts.min()} images of class {str(names[counts.argmin()])!r}; each class needs {fewest}."
        )


def shown_sets(data: Data, quick: bool) -> dict[str, Patches]:
    """Return the data sets to show in figures: LANDMASS in one scaling, and the largest SEG 2017 set of the run."""
    sets, _ = patch_sets(data, quick)
    subset = f"SEG 2017, {ENOUGH} a class"
    return {name: patches for name, patches in sets.items() if "own range" not in name and name != subset}


def figure(table: pd.DataFrame) -> Any:
    """Draw every score of every measure with the paper's value; hollow markers show options other than the default."""
    drawing = oc.plots.new_figure(figsize=(13, 6.5), layout="constrained")
    axes = drawing.subplots(1, 4, sharey=True)
    palette = dict(zip(table["data"].unique(), ("tab:blue", "tab:orange", "tab:green", "tab:purple"), strict=False))
    lines = {name: -i for i, name in enumerate(PAPER)}
    height = table["measure"].map(lambda variant: lines[VARIANTS[variant][0]])
    height = height + 0.2 - 0.4 * table["data"].map(list(palette).index) / max(1, len(palette) - 1)
    default = table["measure"].isin(NAMES)
    for ax, (column, title) in zip(axes, SCORES.items(), strict=True):
        ax.plot(
            table[f"paper {column.split()[0]}"], [lines[VARIANTS[v][0]] for v in table["measure"]], "k|", ms=22, mew=2
        )
        for name, colour in palette.items():
            for chosen, face in ((default, colour), (~default, "none")):
                here = chosen & (table["data"] == name)
                ax.scatter(table[column][here], height[here], 45, face, edgecolors=colour, zorder=3)
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlim(0.2, 1.02)
        ax.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(list(lines.values()), list(lines))
    handles = [axes[0].plot([], [], "o", color=c, label=name)[0] for name, c in palette.items()]
    handles += axes[0].plot([], [], "o", mfc="none", color="grey", label="other choices left open")
    handles += axes[0].plot([], [], "k|", ms=14, mew=2, label="printed in the paper (LANDMASS-2)")
    drawing.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return drawing
