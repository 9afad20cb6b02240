"""Random exemplars from true labels."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.words import counted

OTHER = 0.9  # smallest share of the background class `other` in a patch that shows this class


def exemplars(
    truth: xr.DataArray,
    size: int | tuple[int, int] = 99,
    *,
    count: int = 1,
    min_share: float = 0.6,
    seed: int = 0,
) -> dict[str, list[tuple[Any, Any, Any]]]:
    """Draw random exemplars of every class from true labels: positions whose patch shows the class well.

    Parameters
    ----------
    truth : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        True labels, with the names of codes 1, 2, ... in `attrs["classes"]`.
    size : int or (int, int)
        Height and width, in samples and traces, of the patch around each position on an inline.
    count : int
        Number of positions for each class, on different inlines if possible.
    min_share : float
        Smallest share of the samples of a patch that have the class; for the background `other`, 0.9 is used instead.

    Returns
    -------
    dict of str to list of (inline, crossline, time)
        Positions by class name.

    Examples
    --------
    >>> import xarray as xr
    >>> truth = xr.DataArray(np.ones((1, 9, 9)), {"inline": [7], "crossline": range(9), "time": range(0, 36, 4)},
    ...                      attrs={"classes": ["salt dome"]})
    >>> exemplars(truth, 9)
    {'salt dome': [(7, 4, 16)]}
    """
    if count < 1:
        raise ValueError(f"count is {count}; choose 1 or more.")
    height, width = np.broadcast_to(size, 2).tolist()
    rng = np.random.default_rng(seed)
    found: dict[str, list[tuple[Any, Any, Any]]] = {name: [] for name in truth.attrs["classes"]}
    axes = [truth[dim].values.tolist() for dim in truth.dims]
    for row in np.concatenate([rng.permutation(truth.sizes["inline"]) for _ in range(count)]):
        section = truth[row].values
        for code, (name, places) in enumerate(found.items(), 1):
            least = OTHER if name == "other" else min_share
            shows = _patch_means(section == code, (width, height)) >= least
            centres = (section == code)[width // 2 :, height // 2 :][: shows.shape[0], : shows.shape[1]]
            starts = np.argwhere(shows & centres)
            if len(places) < count and len(starts):
                trace, sample = rng.choice(starts) + (width // 2, height // 2)
                places.append((axes[0][row], axes[1][trace], axes[2][sample]))
        if all(len(places) == count for places in found.values()):
            return found
    short = ", ".join(f"{len(places)} of {name}" for name, places in found.items() if len(places) < count)
    raise ValueError(
        f"Found only {short}; each class needs {counted(count, 'patches')} of {height} x {width}, with a share of "
        f"{min_share} of the class ({OTHER} of 'other'). Lower size or count, or min_share (no effect on 'other')."
    )


def _patch_means(mask: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
    """Return the mean of a mask over each patch that fits in a section, indexed by the patch's first row and column."""
    total = np.pad(np.cumsum(np.cumsum(mask, 0), 1), ((1, 0), (1, 0)))
    a, b = size
    return np.asarray((total[a:, b:] - total[:-a, b:] - total[a:, :-b] + total[:-a, :-b]) / (a * b))
