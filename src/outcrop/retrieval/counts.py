"""How many patches of a class are taken: as many as asked for, or up to the knee of the curve."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Count = int | str | Mapping[str, int | str]  # patches of a class, or auto; for all classes or for each

NEAREST, MOST = 9, 100  # the knee is looked for in the nearest ninth of the index; no more than a mapper learns from


def highest(values: np.ndarray, count: int) -> np.ndarray:
    """The highest values in falling order, `count` of them or all.

    Examples
    --------
    >>> highest(np.array([3, 9, 5]), 2)
    array([9, 5])
    """
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]


def auto_count(curve: np.ndarray, usable: int) -> int:
    """How many patches of a class to take: the knee of the similarity of the nearest ninth of the index, at most 100.

    Parameters
    ----------
    curve : array
        Similarity of the patches to the class, in falling order; no more than the nearest ninth is looked at.
    usable : int
        Patches in the index.

    Examples
    --------
    >>> auto_count(np.array([0.9, 0.89, 0.88, 0.6, 0.55, 0.5] + [0.1] * 48), usable=54)
    3
    """
    return max(1, min(knee(curve[: max(3, usable // NEAREST)]), MOST))


def counts_of(
    count: Count, suggested: Mapping[str, int], accepted: Mapping[str, Sequence[int]], *, usable: int
) -> dict[str, int]:
    """How many patches each class asks for: no fewer than were accepted."""
    counts: dict[str, int] = {}
    for name, auto in suggested.items():
        asked = count.get(name, "auto") if isinstance(count, Mapping) else count
        n = auto if asked == "auto" else int(asked)
        if not 1 <= n <= usable:
            raise ValueError(f"Count for {name!r} is {n}; choose 1 to {usable}, the patches in the index.")
        counts[name] = max(n, len(accepted[name]))
    return counts


def knee(similarity: npt.ArrayLike) -> int:
    """Rank after which a falling similarity curve bends: the point farthest below the line between its ends.

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
