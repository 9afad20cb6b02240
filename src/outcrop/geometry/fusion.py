"""Combine the votes of inlines and crosslines into label, confidence and margin, computed when the labels are read."""

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
    """Return label, confidence and margin of every sample from its votes for each class.

    Confidence is the share of the winning class in the votes; margin is this share minus the share of the second class
    (both uint8, 255 = 1).

    Parameters
    ----------
    votes : array, shape (n_classes, ...)
        Votes on any scale; a sample without votes gets label 0.
    min_confidence : float
        Labels with a confidence below this value, from 0 to 1, become 255 (uncertain).

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
    """Return a Dataset of ``label``, ``confidence`` and ``margin``, which calls `read` when its values are needed.

    The margin is the winning class's share of the votes minus the second class's share (uint8, 255 = 1). Between
    two samples of different classes, the margins give the position of the surface; see `outcrop.geometry.bodies`.

    Parameters
    ----------
    read : callable
        ``read(key)`` returns label, confidence and margin of a block; ``key`` holds a slice or an array of positions
        for each of the three axes. A block requested several times in a row, for instance first as label and then as
        confidence, is read once.
    coords : dict
        Axis name -> values on that axis.
    attrs : dict
        Attributes of the Dataset.
    """
    shape = tuple(map(len, coords.values()))
    last = threading.local()  # the last block of each thread, with its key

    def block(number: int, key: tuple[Any, ...]) -> Any:
        comparable = tuple(str(part) if isinstance(part, slice) else part.tobytes() for part in key)
        if getattr(last, "key", None) != comparable:
            last.found, last.key = read(key), comparable
        return last.found[number]

    data = {
        name: (tuple(coords), indexing.LazilyIndexedArray(LazyVolume(partial(block, number), shape, np.uint8)))
        for number, name in enumerate(("label", "confidence", "margin"))
    }
    return xr.Dataset(data, coords, attrs)
