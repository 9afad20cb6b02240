"""Labels of inlines and of crosslines as one, so that no body is striped along the direction it was labelled in."""

import threading
from functools import partial

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.labels.decision import decide
from outcrop.mapping.confidence import as_codes
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lazy import LazyVolume


def fuse(first, second, *, min_confidence=0.0):
    """Labels by the votes of two directions together; lazy.

    Parameters
    ----------
    first, second : Dataset
        ``score`` of every class, as ``label_volume(..., scores=True)`` gives it on inlines and on crosslines; on the
        same axes and with the same classes.
    min_confidence : float
        Below it a label is uncertain.

    Returns
    -------
    Dataset
        ``label``, ``confidence``, the share of the winning class in all votes, and ``margin``, see `lazy_labels`. A
        sample without votes in one of the two directions has the label of the other.
    """
    for labels in (first, second):
        if "score" not in labels:
            raise ValueError("Labels without scores cannot be fused; label again with scores=True.")
    names = [list(map(str, labels.attrs["classes"])) for labels in (first, second)]
    if names[0] != names[1]:
        raise ValueError(f"Classes are {', '.join(names[0])} and {', '.join(names[1])}; fuse labels of the same ones.")
    dims = first["label"].dims
    for name in dims:
        if not np.array_equal(first[name].values, second[name].values):
            raise ValueError(f"The labels lie on other axes: their {name} differs; label the same volume.")

    def votes(key):
        places = dict(zip(dims, key, strict=True))
        total = sum(labels["score"].isel(places).values.astype(np.uint16) for labels in (first, second))
        return decided(total, min_confidence)

    attrs = {**first.attrs, "fused": True, "min_confidence": float(min_confidence)}
    return lazy_labels(votes, {name: first[name].values for name in dims}, attrs)


def decided(votes, min_confidence=0.0):
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
    return *decide(np.moveaxis(votes, 0, -1), min_confidence), np.round(255 * margin).astype(np.uint8)


def lazy_labels(read, coords, attrs):
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

    def block(which, key):
        asked = tuple(str(part) if isinstance(part, slice) else part.tobytes() for part in key)
        if getattr(last, "key", None) != asked:
            last.found, last.key = read(key), asked
        return last.found[which]

    data = {
        name: (tuple(coords), indexing.LazilyIndexedArray(LazyVolume(partial(block, which), shape, np.uint8)))
        for which, name in enumerate(("label", "confidence", "margin"))
    }
    return xr.Dataset(data, coords, attrs)


def stripes(labels, name):
    """How often the labels of a class differ on single lines, by direction.

    Parameters
    ----------
    labels : DataArray
        Codes on inline, crossline and time or depth, in memory; ``attrs["classes"]`` names them.
    name : str
        The class.

    Returns
    -------
    dict
        ``inline`` and ``crossline``: single lines that differ, as samples whose neighbours in that direction both say
        something else about the class, per 1000 samples of it. Labels of bodies that are larger than a line and as
        smooth in one direction as in the other have small and equal numbers.

    Examples
    --------
    >>> codes = np.ones((5, 6, 7), np.uint8)
    >>> codes[2] = 2
    >>> labels = xr.DataArray(codes, dims=("inline", "crossline", "time"), attrs={"classes": ["other", "salt dome"]})
    >>> stripes(labels, "salt dome")
    {'inline': 1000.0, 'crossline': 0.0}
    """
    inside = as_codes(labels.values) == 1 + list(labels.attrs["classes"]).index(name)
    found = {}
    for axis, direction in enumerate(DIRECTIONS):
        turned = np.moveaxis(inside, axis, 0)
        single = (turned[1:-1] != turned[:-2]) & (turned[1:-1] != turned[2:])
        found[direction] = 1000 * float(single.sum() / max(inside.sum(), 1))
    return found
