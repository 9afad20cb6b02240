"""Score pixel labels and weak labels against true labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from outcrop.arrays import Array, to_numpy
from outcrop.mapping.confidence import UNCERTAIN, find_background, labelled
from outcrop.patches.grid import DIRECTIONS

if TYPE_CHECKING:
    import xarray as xr

    from outcrop.patches.grid import PatchGrid
    from outcrop.retrieval.weak import WeakLabels

Classes = Sequence[str] | Mapping[int, str] | None  # names of the codes 1, 2, ..., or code -> name

SHOWN = 0.2  # smallest share of a patch that a structure must fill for the patch to show it
UNLABELLED = (0, UNCERTAIN, -1)  # codes that name no class; -1 is uncertain in SEG-Y files of signed bytes


def weak_label_scores(weak: WeakLabels, grid: PatchGrid, truth: xr.DataArray) -> dict[str, np.ndarray]:
    """Return whether each retrieved patch shows its class, according to the true labels of its pixels.

    Parameters
    ----------
    weak : WeakLabels
        Retrieved patches.
    grid : PatchGrid
        All patches of the volume, from which these were retrieved.
    truth : DataArray
        True codes on the axes of the volume (a few lines are enough), with ``attrs["classes"]``; 0 and 255 are unknown.

    Returns
    -------
    dict
        Class -> array by rank: 1 if the patch shows the class, 0 if not, NaN if the truth is unknown on half of the
        patch or more. A patch shows a structure if this fills at least a fifth of its known samples, and the background
        (see `find_background`) if this fills at least four fifths.
    """
    names = list(truth.attrs["classes"])
    background = find_background(names)
    shown = np.full(len(weak), np.nan)
    for direction, line in np.unique(weak.starts[:, :2], axis=0):
        along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
        label = grid.axes[direction][line]
        if label not in truth[along].values:
            continue
        axes = {across: grid.axes[1 - direction], truth.dims[2]: grid.axes[2]}
        section = truth.sel({along: label}).reindex(axes, fill_value=0).transpose(*axes).values
        for i in np.flatnonzero((weak.starts[:, :2] == (direction, line)).all(axis=1)):
            _, _, trace, top = weak.starts[i]
            patch = section[trace : trace + grid.size[1], top : top + grid.size[0]]
            if labelled(patch).mean() > 0.5:
                share_of_class = (patch == names.index(weak.classes[i]) + 1).sum() / labelled(patch).sum()
                shown[i] = share_of_class >= (1 - SHOWN if weak.classes[i] == background else SHOWN)
    return {str(name): shown[weak.classes == name] for name in dict.fromkeys(weak.classes)}


def pixel_scores(labels: Any, truth: Any, classes: Classes = None, *, band: int = 0) -> dict[str, Any]:
    """Score pixel labels against expert labels, class by class.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, same shape
        Class codes; 0 (not labelled), 255 and -1 (uncertain) name no class, in labels and truth. Classes of arrays with
        ``attrs["classes"]`` are matched by name; arrays with coordinates are compared on their common samples.
    classes : sequence of str or mapping of int to str, optional
        Names of the codes 1, 2, ... (or code -> name), for arrays without ``attrs["classes"]``; by default the codes
        are the names.
    band : int
        Pixels within this number of rows and columns of another true class are left out.

    Returns
    -------
    dict
        - ``PA``: pixel accuracy.
        - ``MA``: mean recall of the classes.
        - ``IU``: class name -> intersection over union.
        - ``MIU``, ``FWIU``: mean of ``IU``, and its mean weighted by the frequency of the classes.
        - ``coverage``: share of pixels with a label.
        - ``confusion``: counts of pixels by true class (rows) and label (columns; the first is "no label"), shape
          (n_classes, 1 + n_classes).
        - ``classes``: names of the rows of ``confusion``.

    Notes
    -----
    A pixel without a label counts as wrong. Means run over the classes present in the truth.

    Examples
    --------
    >>> scores = pixel_scores([[1, 1, 2, 0]], [[1, 2, 2, 2]], ["other", "fault"])
    >>> scores["PA"], scores["IU"], scores["coverage"]
    (0.5, {'other': 0.5, 'fault': 0.3333333333333333}, 0.75)
    """
    sections, names = shared_sections(labels, truth, classes)
    n = 1 + len(names)
    confusion = np.zeros((n, n), np.int64)
    for found, true in sections:
        if band:
            true = np.where(near_boundary(true, band), 0, true)
        confusion += np.bincount((n * true + found).ravel(), minlength=n * n).reshape(n, n)
    confusion = confusion[1:]
    if not confusion.any():
        raise ValueError("The truth names no class at these pixels (every code is 0); pass a truth with codes above 0.")
    right, true = np.diag(confusion[:, 1:]), confusion.sum(1)
    present = true > 0
    union = (true + confusion[:, 1:].sum(0) - right)[present]
    iu = right[present] / union
    return {
        "PA": float(right.sum() / true.sum()),
        "MA": float((right[present] / true[present]).mean()),
        "MIU": float(iu.mean()),
        "FWIU": float(iu @ true[present] / true.sum()),
        "IU": {name: float(value) for name, value in zip(np.array(names, object)[present], iu, strict=True)},
        "coverage": float(confusion[:, 1:].sum() / true.sum()),
        "confusion": confusion,
        "classes": names,
    }


def shared_sections(
    labels: Any, truth: Any, classes: Classes
) -> tuple[Iterator[tuple[np.ndarray, np.ndarray]], list[Any]]:
    """Return (pairs, names): an iterator over pairs of sections (labels, truth), and the class names of their codes.

    In both sections of a pair, code i + 1 means the class ``names[i]``, and code 0 a pixel without a class.
    """
    if hasattr(labels, "coords") and hasattr(truth, "coords"):
        labels, truth = _shared_samples(labels, truth)
    pair = [x if hasattr(x, "coords") else to_numpy(x) for x in (labels, truth)]
    if pair[0].shape != pair[1].shape:
        raise ValueError(
            f"Labels have shape {pair[0].shape}, the truth {pair[1].shape}; pass arrays of the same samples."
        )
    tables = [_table(getattr(x, "attrs", {}).get("classes", classes)) for x in pair]
    if not any(tables):
        tables[0] = {code: code for code in np.union1d(*pair).tolist() if code not in UNLABELLED}
    found, true = tables[0] or tables[1], tables[1] or tables[0]
    names = list(dict.fromkeys([*true.values(), *found.values()]))
    sections = (
        (_recode(pair[0][i], found, names, "labels"), _recode(pair[1][i], true, names, "truth"))
        for i in np.ndindex(pair[0].shape[:-2])
    )
    return sections, names


def _shared_samples(labels: xr.DataArray, truth: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return labels and truth at their common coordinates, on the axes of the truth."""
    labels = labels.transpose(*truth.dims)
    shared = {d: np.intersect1d(labels[d], truth[d]) for d in truth.dims if d in labels.coords and d in truth.coords}
    if any(len(values) == 0 for values in shared.values()):
        empty = [d for d, values in shared.items() if len(values) == 0]
        raise ValueError(f"Labels and truth share no {empty[0]}; pass a truth that lies on the labelled lines.")
    return labels.sel(shared), truth.sel(shared)


def _table(classes: Classes) -> dict[int, Any]:
    """Return a dict of code -> class name from either form of `classes`; it is empty if `classes` is None."""
    if classes is None:
        return {}
    pairs = classes.items() if isinstance(classes, Mapping) else enumerate(classes, 1)
    return {int(code): name for code, name in pairs if int(code)}


def _recode(section: np.ndarray, table: dict[int, Any], names: list[Any], what: str) -> np.ndarray:
    """Return a section with new codes: 1 + position of the class in `names`, 0 for pixels without a class.

    `table` gives the class of each old code; `what` is ``labels`` or ``truth``, for the error message.
    """
    section = np.atleast_2d(section)
    out = np.where(np.isin(section, UNLABELLED), 0, -1)
    for code, name in table.items():
        out[section == code] = 1 + names.index(name)
    if out.min(initial=0) < 0:
        unknown = section[out < 0][0]
        raise ValueError(
            f"No name is given for code {unknown} in the {what}, only for {sorted(table)}; name all codes."
        )
    return out


def code_of(name: Any, names: list[Any]) -> int:
    """Return the code of a class: 1 + its position in `names`."""
    if name not in names:
        raise ValueError(f"No class is called {name!r}; choose one of {names}.")
    return 1 + names.index(name)


def near_boundary(truth: np.ndarray, band: int) -> Array:
    """Return a mask of the pixels that have another true class within `band` rows and columns.

    Pixels with code 0 have no class, so they make no boundary.
    """
    size = 2 * band + 1
    lowest = ndimage.minimum_filter(np.where(truth == 0, truth.max(), truth), size, mode="nearest")
    return lowest != ndimage.maximum_filter(truth, size, mode="nearest")


def _edge(body: np.ndarray, known: np.ndarray) -> Array:
    """Return a mask of the pixels of a geobody, `body`, that touch a pixel outside it.

    Only pixels in the mask `known` count, both inside and outside the geobody.
    """
    return body & known & ndimage.binary_dilation(known & ~body)
