"""Exact search: the similarity of every patch of an index to given descriptors."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numba
import numpy as np

from outcrop.arrays import to_numpy
from outcrop.parallel import map_blocks, memory_budget, spans
from outcrop.retrieval.exemplars import exemplar_patch
from outcrop.retrieval.index import BLOCK, REMEDY, RESIDENT, USED, Index
from outcrop.storage.workspace import Damaged, damage

COLUMNS = 256  # queries whose similarities are kept in memory while an index is open


def similarity_to(index: Index, exemplars: Iterable[Any]) -> np.ndarray:
    """Return the similarity of each patch to its most similar exemplar; -1 for patches without a descriptor."""
    patches = np.stack([exemplar_patch(index, exemplar) for exemplar in exemplars])
    similarity: np.ndarray = search_index(index, index.measure.describe(patches)).max(axis=1)
    return similarity


def search_index(index: Index, queries: np.ndarray, *, device: str | None = None) -> np.ndarray:
    """Return the similarity of every patch of an index to every query; -1 for patches without a descriptor.

    Queries are descriptors. The result has the shape (n_patches, n_queries). Similarities to recent queries stay in
    memory.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    names = [(device, query.tobytes()) for query in queries]
    new = [i for i, name in enumerate(names) if name not in index._columns]
    found = np.empty((len(new), len(index)), np.float32).T  # the similarities to one query are contiguous
    if new:
        source = index.descriptors if index.client is None else partial(_read_features, index.features)
        score = partial(search, queries=queries[new], edges=index.edges)
        if device is not None:
            score = partial(_search_on, device, index.measure, queries[new])
        compare = partial(_compare, source, index.status, score)
        memory, workers = index.memory or memory_budget(), 1 if device else None
        where: dict[str, Any] = {"workers": workers, "client": index.client, "memory": memory}
        shards = spans(len(index), 8 * BLOCK)
        scored = map_blocks(compare, shards, cost=8 * 8 * BLOCK * queries.shape[1], **where)
        for span, scores in zip(shards, scored, strict=True):
            found[span] = scores
    columns = index._columns | {names[i]: found[:, k] for k, i in enumerate(new)}
    fit = int(RESIDENT * (index.memory or memory_budget()) // max(4 * len(index), 1))
    most_recent = [name for name in columns if name not in names] + list(dict.fromkeys(names))
    index._columns = {name: columns[name] for name in most_recent[-min(COLUMNS, fit) :]} if fit else {}
    return np.stack([columns[name] for name in names]).T


def _read_features(features: Any, span: slice) -> np.ndarray:
    """Read the descriptors of a slice of rows, in a worker of a cluster."""
    with damage(features.store, REMEDY):
        return np.asarray(features[span])


def _compare(
    source: Callable[[slice], np.ndarray], status: np.ndarray, score: Callable[[np.ndarray], np.ndarray], span: slice
) -> np.ndarray:
    """Return the similarity of the patches in a slice of rows to every query; -1 for patches without a descriptor."""
    used = status[span] == USED
    shard = source(span)
    if not shard[used].any(axis=1).all():
        raise Damaged(f"The index is damaged (descriptors are missing); {REMEDY}.")
    return np.where(used[:, None], score(shard), np.float32(-1))


def _search_on(device: str, measure: Any, queries: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the same similarities as `search`, computed on a torch device."""
    import torch

    similarity = measure.compare(*(torch.from_numpy(x).to(device) for x in (features, queries)))
    return np.asarray(to_numpy(similarity))


def search(features: np.ndarray, queries: np.ndarray, edges: np.ndarray | None = None) -> np.ndarray:
    """Return the exact similarity of every row of `features` to every query, in one pass over the rows.

    Parameters
    ----------
    features, queries : float32 arrays, shape (n, n_values) and (n_queries, n_values)
    edges : array of int, optional
        Edges between blocks of columns: the first column of each block, then the number of columns. The similarity is
        the mean of the Bray-Curtis similarities of the blocks. By default all columns form one block.

    Examples
    --------
    >>> search(np.array([[1, 2], [0, 2]], "float32"), np.array([[1, 2]], "float32"))
    array([[1. ],
           [0.8]], dtype=float32)
    """
    return _search_blocks(features, queries, np.array([0, features.shape[1]]) if edges is None else edges)


@numba.njit(nogil=True, fastmath=True, cache=True)
def _search_blocks(features: np.ndarray, queries: np.ndarray, edges: np.ndarray) -> np.ndarray:
    n, n_queries, n_blocks = len(features), len(queries), len(edges) - 1
    last = n_queries - 1
    out = np.zeros((n, n_queries), np.float32)
    sums = np.empty((n_blocks, n_queries), np.float32)
    for block in range(n_blocks):
        for q in range(n_queries):
            sums[block, q] = queries[q, edges[block] : edges[block + 1]].sum()
    for i in range(n):
        row = features[i]
        for block in range(n_blocks):
            start, stop = edges[block], edges[block + 1]
            total = np.float32(0)
            for k in range(start, stop):
                total += row[k]
            for q in range(0, n_queries, 4):  # four queries per pass, so that a value is loaded once for all four
                a, b, c, d = queries[q], queries[min(q + 1, last)], queries[min(q + 2, last)], queries[min(q + 3, last)]
                far = np.zeros(4, np.float32)
                e, f, g, h = far
                for k in range(start, stop):
                    value = row[k]
                    e += abs(value - a[k])
                    f += abs(value - b[k])
                    g += abs(value - c[k])
                    h += abs(value - d[k])
                far[:] = e, f, g, h
                for j in range(min(4, n_queries - q)):
                    both = total + sums[block, q + j]
                    alike = np.float32(1) - far[j] / both if both > 0 else np.float32(1)
                    out[i, q + j] += alike / np.float32(n_blocks)
    return out
