"""Labels, confidence and margin from votes, lazily: for labels to which inlines and crosslines contribute."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.labels.decision import decide
from outcrop.volumes.lazy import LazyVolume


def decided(votes: np.ndarray, min_confidence: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Label, confidence and margin from votes of shape (n_classes, ...), which need not sum to anything.

    Examples
    --------
    >>> decided(np.array([[0, 50], [0, 150]]))
    (array([0, 2], dtype=uint8), array([  0, 191], dtype=uint8), array([  0, 128], dtype=uint8))
    """
    votes = votes.astype(np.float32)
    best, second = votes[0], np.zeros_like(votes[0])
    for vote in votes[1:]:
        second = np.maximum(second, np.minimum(best, vote))
        best = np.maximum(best, vote)
    margin = (best - second) / np.maximum(votes.sum(axis=0), np.finfo(np.float32).tiny)
    label, confidence = decide(np.moveaxis(votes, 0, -1), min_confidence)
    return label, confidence, np.round(255 * margin).astype(np.uint8)


def lazy_labels(
    read: Callable[[tuple[Any, ...]], Any], coords: Mapping[Any, np.ndarray], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """Lazy Dataset of ``label``, ``confidence`` and ``margin`` on the axes `coords`.

    The margin is the share of the winning class less that of the next one (uint8, 255 = 1): where two classes meet, it
    tells how near to a sample the surface between them lies.

    Parameters
    ----------
    read : callable
        ``read(key)`` gives all three for a block, for a key of three slices or arrays of positions. For a block that is
        asked for several times in a row, as label and as confidence, it is called once.
    coords : dict
        Name -> labels of each axis.
    attrs : dict
    """
    shape = tuple(map(len, coords.values()))
    last = threading.local()  # of each thread: the last block, by its key

    def block(which: int, key: tuple[Any, ...]) -> Any:
        asked = tuple(str(part) if isinstance(part, slice) else part.tobytes() for part in key)
        if getattr(last, "key", None) != asked:
            last.found, last.key = read(key), asked
        return last.found[which]

    data = {
        name: (tuple(coords), indexing.LazilyIndexedArray(LazyVolume(partial(block, which), shape, np.uint8)))
        for which, name in enumerate(("label", "confidence", "margin"))
    }
    return xr.Dataset(data, coords, attrs)
