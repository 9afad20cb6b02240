"""Labels of the paper's own patches from the random start to iteration 200."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop.arrays import Array, to_numpy
from outcrop.experiments import Data, Device, Result

MOMENTS = (0, 1, 10, 20, 50, 200)
SHOWN = (1, 104, 360, 520, 527, 994, 1026, 1129, 1436, 1539, 1638, 1897)  # in the paper's last figure, counted from 1


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Label the paper's patches after 0, 1, 10, 20, 50 and 200 iterations from the same start."""
    dataset, patches = training_set(data, per_class=10 if quick else None, device=device)
    classes = dataset["weak"].values
    labels, rows = {}, []
    for moment in MOMENTS:
        mapper = oc.LabelMapper(4 if quick else 250, iterations=moment)
        found = labels[f"iteration {moment}" if moment else "start"] = to_numpy(mapper.fit_predict(patches, classes))
        parts = shares(found, classes, mapper.classes_).drop(columns="speckle")
        rows.append(parts.assign(iteration=moment, confidence=float(mapper.confidence_.mean())))
    table = pd.concat(rows)[["iteration", *rows[0].columns.drop("iteration")]]
    unsure = table.groupby("iteration")["uncertain"].mean()
    remark = (
        f"At the start {unsure[0]:.0%}, after one iteration {unsure[1]:.0%} and from the tenth iteration on at most "
        f"{unsure[unsure.index >= 10].max():.0%} of the pixels are uncertain. In the paper very few are uncertain at "
        "the start, all after one iteration, and then ever fewer. The seed of the authors' k-means is unknown, so "
        "single patches differ."
    )
    return Result(table, draw(dataset, labels, mapper.classes_, every=3 if quick else 1), remark)


def training_set(data: Data, *, per_class: int | None = None, device: Device = None) -> tuple[xr.Dataset, Array]:
    """Return the SEG 2017 data set, and its patches as an array on a device.

    Parameters
    ----------
    data : path or None
        As in `datasets.seg2017_patches`.
    per_class : int, optional
        Number of patches of every class to return; patches shown in the paper's last figure are preferred. By default
        all patches are returned.
    device : str, optional
        A torch device, for instance ``cuda``, on which the patches are returned; by default they are a NumPy array.
    """
    dataset = oc.datasets.seg2017_patches(data)
    if per_class is not None:
        weak, late = dataset["weak"].values, ~np.isin(dataset["patch"].values, SHOWN)
        members = [np.flatnonzero(weak == name) for name in dict.fromkeys(weak)]
        chosen = [rows[np.argsort(late[rows], kind="stable")][:per_class] for rows in members]
        dataset = dataset.isel(patch=np.sort(np.concatenate(chosen)))
    return dataset, on_device(dataset["image"].values, device)


def on_device(patches: np.ndarray, device: Device) -> Array:
    """Return patches as a torch tensor on a device, or unchanged if `device` is None."""
    if device is None:
        return patches
    import torch

    return torch.from_numpy(patches).to(device)


def draw(dataset: xr.Dataset, labels: dict[str, np.ndarray], classes: Any, *, every: int) -> Any:
    """Draw labels over the patches that the paper shows; if `every` is n, over every n-th of these patches.

    `labels` is a dict: title of a column -> labels of all patches. `classes` are the names of the codes.
    """
    missing = sorted(set(SHOWN) - set(dataset["patch"].values.tolist()))
    if missing:
        raise ValueError(f"The data lack patch {missing[0]}, which the figure shows; give all 2000 patches.")
    rows = np.flatnonzero(np.isin(dataset["patch"].values, SHOWN))[::every]
    shown = np.stack([found[rows] for found in labels.values()])
    figure = oc.plots.evolution(dataset["image"].values[rows], shown, classes, list(labels))
    palette = oc.plots.colours(list(dataset.attrs["classes"]))
    for ax, row in zip(figure.axes[:: len(labels)], rows, strict=True):
        name, number = dataset["weak"].values[row], dataset["patch"].values[row]
        ax.set_ylabel(f"{name} {number}", color=palette[name], fontsize=9)
    return figure


def shares(labels: np.ndarray, classes: npt.ArrayLike, names: npt.ArrayLike) -> pd.DataFrame:
    """Return a table of how the pixels in the patches of each class are labelled.

    Parameters
    ----------
    labels : int array, shape (n_patches, height, width)
    classes : sequence of str, length n_patches
        Class of each patch.
    names : sequence of str
        Class names of the codes 1, 2, ...

    Returns
    -------
    DataFrame
        A row for each class. Four columns are shares of pixels: labelled as `its class`, as `other`, as a `foreign`
        class (neither of the two, so certainly wrong), and `uncertain`. `speckle` is the share of vertically
        neighbouring pixels whose labels differ.

    Examples
    --------
    >>> found = shares(np.array([[[1, 2], [0, 3]]]), ["salt"], ["salt", "other", "fault"])
    >>> found.drop(columns="class").to_numpy().tolist()
    [[0.25, 0.25, 0.25, 0.25, 1.0]]
    """
    rows = []
    classes, listed = np.asarray(classes), np.asarray(names).tolist()
    for name in dict.fromkeys(classes.tolist()):
        labels_of_class = labels[classes == name]
        count = np.bincount(labels_of_class.ravel(), minlength=len(listed) + 1) / labels_of_class.size
        found = dict(zip(["uncertain", *listed], count.tolist(), strict=True))
        kept = {"its class": found[name], "other": 0.0 if name == "other" else found.get("other", 0.0)}
        foreign = 1 - sum(kept.values()) - found["uncertain"]
        speckle = float((labels_of_class[:, 1:] != labels_of_class[:, :-1]).mean())
        rows.append({"class": name, **kept, "foreign": foreign, "uncertain": found["uncertain"], "speckle": speckle})
    return pd.DataFrame(rows)
