"""Number of patches of a class: a given number, or the rank at the knee of the class's similarity curve."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Count = int | str | Mapping[str, int | str]  # number of patches or "auto", for all classes or by class

NEAREST, MOST = 9, 100  # the knee is searched in the nearest 1/9 of the index; largest automatic number


def highest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` highest values in descending order; all values if there are fewer.

    Examples
    --------
    >>> highest(np.array([3, 9, 5]), 2)
    array([9, 5])
    """
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]


def auto_count(curve: np.ndarray, usable: int) -> int:
    """Return a number of patches for a class: the rank at the knee of its similarity curve, at most 100.

    Parameters
    ----------
    curve : array
        Similarities of patches to the class in descending order; only the nearest ninth of the index is used.
    usable : int
        Number of patches in the index that have a descriptor.

    Examples
    --------
    >>> auto_count(np.array([0.9, 0.89, 0.88, 0.6, 0.55, 0.5] + [0.1] * 48), usable=54)
    3
    """
    return max(1, min(knee(curve[: max(3, usable // NEAREST)]), MOST))


def counts_of(
    count: Count, suggested: Mapping[str, int], accepted: Mapping[str, Sequence[int]], *, usable: int
) -> dict[str, int]:
    """Return the number of patches to retrieve for each class, at least the number of its accepted patches.

    `suggested` holds, for each class, the number that replaces ``auto``. `accepted` holds the rows of the accepted
    patches of each class. `usable` is the number of patches with a descriptor.
    """
    counts: dict[str, int] = {}
    for name, auto in suggested.items():
        asked = count.get(name, "auto") if isinstance(count, Mapping) else count
        n = auto if asked == "auto" else int(asked)
        if not 1 <= n <= usable:
            raise ValueError(f"Count for {name!r} is {n}; choose 1 to {usable}, the number of usable patches.")
        counts[name] = max(n, len(accepted[name]))
    return counts


def knee(similarity: npt.ArrayLike) -> int:
    """Return the rank at the knee of a descending similarity curve: the point farthest from the line between its ends.

    Examples
    --------
    >>> knee(np.array([1.0, 0.99, 0.98, 0.6, 0.55, 0.5]))
    3
    """
    similarity = np.asarray(similarity, float)
    if len(similarity) < 3:
        return len(similarity)
    line = np.linspace(similarity[0], similarity[-1], len(similarity))
    return int(np.argmax(np.abs(similarity - line))) + 1
