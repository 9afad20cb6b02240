"""Map blocks of work over threads: order kept, few blocks in flight, errors carry their block."""

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_limits


def n_cores():
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spans(n, size):
    """Consecutive slices of at most `size` that cover `range(n)`.

    Examples
    --------
    >>> spans(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def map_blocks(function, blocks, *, workers=None):
    """Yield `function(block)` for every block, in order, from a pool of threads.

    Each worker gets one BLAS thread: more of them slow stacks of small matrices down by up to 90 times. At most two
    blocks per worker are in flight, so memory does not grow with the number of blocks.

    Parameters
    ----------
    function : callable
        Called with one block; should spend its time in code that releases the interpreter lock.
    blocks : iterable
        The units of work.
    workers : int, optional
        Number of threads; all cores by default. With one, the calling thread does the work.

    Examples
    --------
    >>> list(map_blocks(lambda block: block**2, range(4), workers=2))
    [0, 1, 4, 9]
    """
    workers = workers or n_cores()
    if workers == 1:
        with threadpool_limits(1):
            for block in blocks:
                yield function(block)
        return
    pending: deque = deque()
    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        try:
            for block in blocks:
                pending.append((block, pool.submit(function, block)))
                if len(pending) >= 2 * workers:
                    yield _result(*pending.popleft())
            while pending:
                yield _result(*pending.popleft())
        finally:
            for _, future in pending:
                future.cancel()


def _result(block, future):
    try:
        return future.result()
    except Exception as error:
        error.add_note(f"while working on block {block!r}")
        raise
