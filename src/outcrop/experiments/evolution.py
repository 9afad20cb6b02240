"""How the labels of the paper's own patches come about, from the random start to the 200th iteration."""

import numpy as np
import pandas as pd

from outcrop import datasets, plots
from outcrop.arrays import to_numpy
from outcrop.experiments import Result
from outcrop.mapping.label_mapper import LabelMapper

MOMENTS = (0, 1, 10, 20, 50, 200)
SHOWN = (1, 104, 360, 520, 527, 994, 1026, 1129, 1436, 1539, 1638, 1897)  # in the paper's last figure, counted from 1


def run(data, *, quick=False, device=None):
    """Label with 0, 1, 10, 20, 50 and 200 iterations from one start."""
    dataset, patches = training_set(data, per_class=10 if quick else None, device=device)
    classes = dataset["weak"].values
    labels, rows = [], []
    for moment in MOMENTS:
        mapper = LabelMapper(4 if quick else 250, iterations=moment)
        labels.append(to_numpy(mapper.fit_predict(patches, classes)))
        parts = shares(labels[-1], classes, mapper.classes_).drop(columns="speckle")
        rows.append(parts.assign(iteration=moment, confidence=float(mapper.confidence_.mean())))
    table = pd.concat(rows)[["iteration", *rows[0].columns.drop("iteration")]]
    here = shown(dataset)[:: 3 if quick else 1]
    titles = ["start" if moment == 0 else f"iteration {moment}" for moment in MOMENTS]
    figure = plots.evolution(dataset["image"].values[here], np.stack(labels)[:, here], mapper.classes_, titles)
    name_rows(figure, dataset.isel(patch=here))
    unsure = table.groupby("iteration")["uncertain"].mean()
    remark = (
        f"At the start {unsure[0]:.0%}, after one iteration {unsure[1]:.0%} and from the tenth on at most "
        f"{unsure[unsure.index >= 10].max():.0%} of the pixels are uncertain, in the paper very few, all, and ever "
        "fewer; the seed of the authors' k-means is unknown, so single patches differ."
    )
    return Result(table, figure, remark)


def training_set(data, *, per_class=None, device=None):
    """The SEG 2017 data set and its patches as an array on a device.

    Parameters
    ----------
    data : path or None
        As in `datasets.seg2017_patches`.
    per_class : int, optional
        Keep only so many patches of every class, those that the paper shows first.
    device : str, optional
        A torch device, for instance ``cuda``; NumPy by default.
    """
    dataset = datasets.seg2017_patches(data)
    if per_class is not None:
        weak, late = dataset["weak"].values, ~np.isin(dataset["patch"].values, SHOWN)
        members = [np.flatnonzero(weak == name) for name in dict.fromkeys(weak)]
        chosen = [rows[np.argsort(late[rows], kind="stable")][:per_class] for rows in members]
        dataset = dataset.isel(patch=np.sort(np.concatenate(chosen)))
    patches = dataset["image"].values
    if device is not None:
        import torch

        patches = torch.from_numpy(patches).to(device)
    return dataset, patches


def shown(dataset):
    """Rows of the patches that the paper shows."""
    missing = sorted(set(SHOWN) - set(dataset["patch"].values.tolist()))
    if missing:
        raise ValueError(f"The data lack patch {missing[0]}, which the paper shows; name a folder with all 2000.")
    return np.flatnonzero(np.isin(dataset["patch"].values, SHOWN))


def name_rows(figure, dataset):
    """Write class and number of every patch beside its row, in the colour of its labels."""
    weak, palette = dataset["weak"].values, plots.colours(list(dataset.attrs["classes"]))
    first = [ax for ax in figure.axes if ax.get_subplotspec().is_first_col()]
    for ax, name, number in zip(first, weak, dataset["patch"].values, strict=True):
        ax.set_ylabel(f"{name} {number}", color=palette[name], fontsize=9)


def shares(labels, classes, names):
    """What the patches of every class are labelled as: their class, another one, `uncertain`, and how speckled.

    Parameters
    ----------
    labels : int array, shape (n_patches, height, width)
    classes : sequence of str, length n_patches
    names : sequence of str
        Name of label 1, 2, ...

    Returns
    -------
    DataFrame
        By class the share of its pixels that got `its class`, `other`, a `foreign` class (neither of the two, so
        certainly wrong) and `uncertain`; `speckle`, the share of neighbours down the trace whose labels differ.

    Examples
    --------
    >>> found = shares(np.array([[[1, 2], [0, 3]]]), ["salt"], ["salt", "other", "fault"])
    >>> found.drop(columns="class").to_numpy().tolist()
    [[0.25, 0.25, 0.25, 0.25, 1.0]]
    """
    rows = []
    for name in dict.fromkeys(classes):
        labels_of_class = labels[np.asarray(classes) == name]
        count = np.bincount(labels_of_class.ravel(), minlength=len(names) + 1) / labels_of_class.size
        found = dict(zip(["uncertain", *names], count.tolist(), strict=True))
        kept = {"its class": found[name], "other": 0.0 if name == "other" else found.get("other", 0.0)}
        foreign = 1 - sum(kept.values()) - found["uncertain"]
        speckle = float((labels_of_class[:, 1:] != labels_of_class[:, :-1]).mean())
        rows.append({"class": name, **kept, "foreign": foreign, "uncertain": found["uncertain"], "speckle": speckle})
    return pd.DataFrame(rows)
