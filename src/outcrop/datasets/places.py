"""Places that show a class well, drawn from a truth."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

OTHER = 0.9  # share of other, which is everywhere, in a patch that shows it


def exemplars(
    truth: xr.DataArray,
    size: int | tuple[int, int] = 99,
    *,
    count: int = 1,
    min_share: float = 0.6,
    seed: int = 0,
) -> dict[str, list[tuple[Any, Any, Any]]]:
    """Draw exemplars from a truth volume, for every class of its table: points of the class whose patch shows it well.

    Parameters
    ----------
    truth : xarray.DataArray, shape (n_inline, n_crossline, n_sample)
        Labels, with the names of codes 1, 2, ... in `attrs["classes"]`.
    size : int or (int, int)
        Height and width of the patch around each point, in samples and traces of an inline.
    count : int
        Points of each class, on different inlines as far as possible.
    min_share : float
        Least share of the patch that is of the class; of `other`, the background, nine tenths.

    Returns
    -------
    dict of str to list of (inline, crossline, time)

    Examples
    --------
    >>> import xarray as xr
    >>> truth = xr.DataArray(np.ones((1, 9, 9)), {"inline": [7], "crossline": range(9), "time": range(0, 36, 4)},
    ...                      attrs={"classes": ["salt dome"]})
    >>> exemplars(truth, 9)
    {'salt dome': [(7, 4, 16)]}
    """
    if count < 1:
        raise ValueError(f"count is {count}; choose 1 patch of a class or more.")
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
        f"{count} patches of {height} x {width} per class are asked for, but only {short} have a share of {min_share} "
        f"({OTHER} of other); lower size or count, or min_share of a class but other."
    )


def _patch_means(mask: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
    """Mean of every patch of a section that lies wholly inside, by its first corner."""
    total = np.pad(np.cumsum(np.cumsum(mask, 0), 1), ((1, 0), (1, 0)))
    a, b = size
    return np.asarray((total[a:, b:] - total[:-a, b:] - total[a:, :-b] + total[:-a, :-b]) / (a * b))
