"""Distances and similarities of all pairs of items of two stacks, computed block by block."""

from collections.abc import Callable
from functools import lru_cache, partial
from math import isqrt
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.spatial.distance import cdist

from outcrop.arrays import Array, array_namespace, is_numpy
from outcrop.parallel import map_blocks, spans


def bray_curtis(a: Array, b: Array) -> Array:
    """Return the Bray-Curtis similarity, 1 - sum(|a - b|) / sum(a + b), of each row of `a` to each row of `b`.

    All values are 0 or positive. The result has the shape (n_a, n_b).
    """
    xp = array_namespace(a)
    total = xp.sum(a, axis=-1)[:, None] + xp.sum(b, axis=-1)[None, :]
    difference = all_pairs(city_block, [a], [b], side=256 if is_numpy(xp) else 4096)
    # two all-zero patches are equal
    return 1 - difference / xp.where(total > 0, total, xp.ones_like(total))


def describe_blocks(
    function: Callable[[Array], list[Array]], patches: Array, size: int, *, workers: int | None = None
) -> list[Array]:
    """Apply `function` to a stack of patches in blocks, and join the results.

    NumPy patches are processed in threads, `size` patches at a time; torch patches in one thread, 8 * `size` at a time.
    """
    xp, n = array_namespace(patches), patches.shape[0]
    blocks = spans(n, size if is_numpy(xp) else 8 * size)
    mapped = partial(map_blocks, workers=workers) if is_numpy(xp) else map
    described = mapped(lambda span: function(patches[span, ...]), blocks)
    # gives shapes and types of the parts, for an empty stack too
    like = function(xp.zeros((1, *patches.shape[1:]), dtype=patches.dtype, device=device(patches)))
    out = [xp.empty((n, *part.shape[1:]), dtype=part.dtype, device=device(part)) for part in like]
    for span, parts in zip(blocks, described, strict=True):
        for whole, part in zip(out, parts, strict=True):
            whole[span, ...] = part
    return out


def all_pairs(
    function: Callable[[list[Array], list[Array]], Array], a: list[Array], b: list[Array], *, side: int
) -> Array:
    """Compute a symmetric function for each pair of an item of `a` and an item of `b`, in blocks of pairs.

    `a` and `b` are lists of arrays; the first axis of each array numbers the items. A block has `side` x `side` pairs.
    If `a` and `b` hold the same arrays, only half of the blocks are computed. The result has the shape (n_a, n_b).
    """
    xp = array_namespace(a[0])
    same = all(x is y for x, y in zip(a, b, strict=True))
    rows, columns = spans(a[0].shape[0], side), spans(b[0].shape[0], side)
    blocks = [(r, c) for r in rows for c in columns if not same or r.start <= c.start]
    mapped = map_blocks if is_numpy(xp) else map
    values = mapped(lambda at: function([x[at[0], ...] for x in a], [x[at[1], ...] for x in b]), blocks)
    shape, dtype = (a[0].shape[0], b[0].shape[0]), xp.real(a[0][:0, ...]).dtype
    out = xp.empty(shape, dtype=dtype, device=device(a[0]))
    for (r, c), value in zip(blocks, values, strict=True):
        out[r, c] = value
        if same:
            out[c, r] = value.T
    return out


@lru_cache
def compiled_pairs(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray] | None:
    """Compile a function that loops over NumPy arrays; return None if numba is not installed.

    The compiled loops are five to ten times faster than NumPy.
    """
    try:
        import numba
    except ImportError:
        return None
    # sums may be reordered, but NaN stays NaN; checks for division by zero would prevent vectorised loops
    return numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "nsz"})(function)


def block_side(xp: Any, numbers: int, *, budget: int = 2**17) -> int:
    """Return the number of items on each side of a block of pairs.

    Blocks are chosen to fit the cache of a CPU core, or to keep a GPU busy. A pair needs arrays of `numbers` values; on
    a CPU, a block may have `budget` values.
    """
    return max(1, isqrt((budget if is_numpy(xp) else 2**24) // numbers))


def euclidean(a: Array, b: Array) -> Array:
    """Return the Euclidean distance of each row of `a[0]` from each row of `b[0]`; each list holds one array."""
    (a,), (b,) = a, b
    xp, dtype = array_namespace(a), a.dtype
    centre = xp.mean(xp.astype(b, xp.float64), axis=0)  # shorter vectors, less rounding
    x, y = (xp.astype(z, xp.float64) - centre for z in (a, b))
    energy = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :]
    squared = energy - 2 * x @ y.T
    # a non-zero difference of equal patches is rounding
    return xp.astype(xp.where(squared > 1e-12 * energy, squared, xp.zeros_like(squared)) ** 0.5, dtype)


def city_block(a: Array, b: Array) -> Array:
    """Return the sum of absolute differences of each item of `a[0]` from each item of `b[0]`.

    Each list holds one array; the first axis of the array numbers the items.
    """
    xp = array_namespace(a[0])
    a, b = (xp.reshape(x[0], (x[0].shape[0], -1)) for x in (a, b))
    if is_numpy(xp):
        # a few thousand columns of a block stay in the cache
        return sum(cdist(a[:, part], b[:, part], "cityblock") for part in spans(a.shape[1], 4096))
    import torch

    return torch.cdist(a, b, p=1)
