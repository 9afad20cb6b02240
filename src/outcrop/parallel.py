"""Run blocks of work in threads or on a Dask cluster, and yield their results in order.

Only a few blocks are in progress at a time, and an error states its block. In threads, blocks run in parallel, and
inside a block BLAS, OpenMP (torch, scikit-learn) and onnxruntime use one thread each. Nested blocks share the cores of
their outer block, so there are never more threads than cores. The numba kernels of this package are sequential.
"""

import contextlib
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypedDict

from threadpoolctl import OpenBLASController, ThreadpoolController

Work = Callable[[Any], Any]  # function of a block
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # version 2 and 1
DASK = {
    # blocks of patches are sent with their first task, which is no reason for a warning
    "distributed.admin.large-graph-warning-threshold": "1TB",
    # the default of 20 ms costs the gathering process 4 % of a core
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
    # no MALLOC_TRIM_THRESHOLD_: with it, workers return every array to the system and labels take twice as long
    "distributed.nanny.pre-spawn-environ": {f"{name}_NUM_THREADS": 1 for name in ("OMP", "MKL", "OPENBLAS")},
}
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


Progress = Callable[[str, int, int], object]  # ``progress(what, done, total)``; an exception from it ends the work


class Where(TypedDict, total=False):
    """Keyword arguments for computing resources and progress that many functions take.

    ``device`` is a torch device such as ``cuda``; ``client`` a Dask cluster, by default the threads of this process;
    ``workers`` the number of threads, by default one per core; ``memory`` the bytes to use, by default a quarter of the
    machine; ``progress`` is called as ``progress(what, done, total)``.
    """

    device: str | None
    client: Any
    workers: int | None
    memory: int | None
    progress: Progress | None


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spans(n: int, size: int) -> list[slice]:
    """Return consecutive slices, each of at most `size` elements, that cover `range(n)`.

    Examples
    --------
    >>> spans(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def memory_budget(text: str | int | None = None) -> int:
    """Convert a memory size such as 2GB to bytes; the default is a quarter of the memory of the machine or container.

    Examples
    --------
    >>> memory_budget("2GB"), memory_budget("1.5 GiB"), memory_budget(300_000_000)
    (2000000000, 1610612736, 300000000)
    """
    if text is None:
        import psutil

        return int(min([psutil.virtual_memory().total, *_cgroup_limits()]) // 4)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", str(text).strip().upper())
    size = float(match[1]) * (UNITS[match[2]] if not match[3] else 1024 ** list(UNITS).index(match[2])) if match else 0
    if not 10**8 <= size <= 10**15:
        raise ValueError(f"Memory is {text!r}; write a size of at least 100MB, for instance 2GB.")
    return int(size)


def _cgroup_limits() -> list[int]:
    """Return the memory limits in bytes of the container of this process; an empty list if it has no limit."""
    texts = [Path(path).read_text().strip() for path in CGROUP_LIMITS if os.path.isfile(path)]
    return [int(text) for text in texts if text.isdecimal()]


class _Limit:
    """State of `one_blas_thread`: the limit on BLAS threads, how many threads need it, and a lock for both."""

    lock = threading.RLock()  # reentrant: a generator of `map_blocks` may be closed while this thread holds it
    holders = 0
    blas: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread inside this context.

    BLAS has one limit for the whole process: if several threads are inside the context, the last one that leaves it
    restores the old limit. OpenMP has a limit for each thread.
    """
    with _Limit.lock:
        if not _Limit.holders:
            _any_thread_may_limit()
            _Limit.blas = _one_thread("blas")
        _Limit.holders += 1
    try:
        with _one_thread("openmp"):
            yield
    finally:
        with _Limit.lock:
            _Limit.holders -= 1
            if not _Limit.holders:
                _any_thread_may_limit()
                _Limit.blas.restore_original_limits()
                _any_thread_may_limit()


def _one_thread(kind: str) -> Any:
    """Limit the libraries of one kind, ``blas`` or ``openmp``, to one thread.

    The returned object restores the old limits.

    `threadpool_limits` is not used, because it would also restore the limits of other kinds.
    """
    return _libraries(len(sys.modules)).select(user_api=kind).limit(limits=1)


@lru_cache(maxsize=1)
def _libraries(_n_modules: int) -> ThreadpoolController:
    """Return the loaded libraries that use threads; the search (3 ms) is repeated if more Python modules are loaded.

    The argument, the number of loaded modules, is only the key under which the result is remembered.
    """
    return ThreadpoolController()


def _any_thread_may_limit() -> None:
    """Allow any thread to limit OpenBLAS; else, newer versions of threadpoolctl allow only the first such thread."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@contextlib.contextmanager
def cluster(*, workers: int | None = None, scheduler: str | None = None, memory: int | None = None) -> Iterator[Any]:
    """Yield a Dask client; yield None, to use threads of this process, if neither workers nor a scheduler are given.

    Parameters
    ----------
    workers : int, optional
        Number of processes to start on this machine, each with one thread; a process that ends is replaced.
    scheduler : str, optional
        Address of the scheduler of a running cluster, for instance ``tcp://node1:8786``. Its workers need this package,
        and the volume under the same path or address.
    memory : int, optional
        Bytes that all processes on this machine may use together.
    """
    if workers is None and scheduler is None:
        yield None
        return
    if workers is not None and (scheduler is not None or workers < 1):
        raise ValueError(f"--workers is {workers}; give 1 or more, or --scheduler, not both.")
    if scheduler is not None and not re.fullmatch(r"((tcp|tls|ucx|wss?)://)?[^\s:/]+:\d+", scheduler):
        raise ValueError(f"--scheduler is {scheduler!r}; write an address such as tcp://node1:8786.")
    try:
        import dask
        import distributed
    except ImportError:
        raise ImportError("A cluster needs Dask; install it with: pip install 'outcrop[dask]'.") from None
    start: Any = distributed.LocalCluster
    connect: Any = distributed.Client
    with dask.config.set(DASK), contextlib.ExitStack() as stack:
        if scheduler is None:
            options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": "CRITICAL"}
            share = (memory or memory_budget()) // (workers or 1)
            scheduler = stack.enter_context(start(n_workers=workers, memory_limit=share, **options))
        try:
            client = stack.enter_context(connect(scheduler, timeout="10s", set_as_default=False))
        except (OSError, ValueError) as error:
            raise ValueError(f"No Dask scheduler answers at {scheduler!r} ({error}); check --scheduler.") from None
        yield client


def inference_options() -> Any:
    """Return options of an onnxruntime session with one thread, because `map_blocks` distributes work over threads.

    Examples
    --------
    >>> inference_options().intra_op_num_threads
    1
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


class _Here(threading.local):
    """Settings of the blocks of work that run in the current thread."""

    check: Any = None  # called before every block
    cores: int | None = None  # that the current block may use; None outside of blocks


_here = _Here()


@contextlib.contextmanager
def checked(check: Callable[[], object] | None) -> Iterator[None]:
    """Call `check` before every block of `map_blocks` inside this context; an exception from it ends the work.

    Examples
    --------
    >>> begun = []
    >>> with checked(lambda: begun.append(1)):
    ...     list(map_blocks(lambda block: block**2, range(4), workers=2))
    [0, 1, 4, 9]
    >>> len(begun)
    4
    """
    before, _here.check = _here.check, check
    try:
        yield
    finally:
        _here.check = before


def _in_block(function: Work, check: Callable[[], object] | None, cores: int, block: Any) -> Any:
    """Call `check`, and return `function(block)`; blocks nested in this block share `cores` cores."""
    before, _here.cores = _here.cores, cores
    try:
        with checked(check):
            if check is not None:
                check()
            return function(block)
    finally:
        _here.cores = before


def map_blocks(
    function: Work,
    blocks: Iterable[Any],
    *,
    workers: int | None = None,
    client: Any = None,
    memory: int | None = None,
    cost: int = 0,
) -> Generator[Any, None, None]:
    """Yield `function(block)` for every block, in order, computed by threads or a Dask cluster.

    Each worker gets one BLAS thread, because more make stacks of small matrices up to 90 times slower. At most two
    blocks per worker are in progress, so memory does not grow with the number of blocks. A call of `map_blocks` inside
    a block uses at most that block's share of the cores.

    Parameters
    ----------
    function : callable
        Called with one block. For threads, it should spend its time in code that releases the interpreter lock. To a
        cluster, it is sent once for each worker.
    blocks : iterable
        Arguments of `function`.
    workers : int, optional
        Number of threads: by default one per core, at most the number of blocks. One worker is the calling thread.
    client : distributed.Client, optional
        A Dask cluster to use instead of threads. Blocks of a lost worker are computed by another.
    memory, cost : int, optional
        Bytes that this process may use, and bytes that one block needs; they limit the number of threads.

    Examples
    --------
    >>> list(map_blocks(lambda block: block**2, range(4), workers=2))
    [0, 1, 4, 9]
    """
    if client is not None:
        yield from _map_on(client, function, blocks)
        return
    nested = _here.cores is not None
    most = min(workers or n_cores(), _here.cores or workers or n_cores())
    workers = max(1, min(most, len(blocks))) if isinstance(blocks, Sized) else most
    function = partial(_in_block, function, _here.check, max(1, most // workers))
    if memory and cost:
        import psutil

        taken = psutil.Process().memory_info().rss
        workers = max(1, min(workers, (memory - taken) // cost))
    with contextlib.nullcontext() if nested else one_blas_thread():
        if workers == 1:
            for block in blocks:
                yield _result(block, function, block)
            return
        with ThreadPoolExecutor(workers, initializer=_one_thread, initargs=("openmp",)) as pool:
            yield from _in_order(lambda block: pool.submit(function, block), blocks, 2 * workers)


def _map_on(client: Any, function: Work, blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield `function(block)` for every block, in order, computed by the workers of a Dask cluster."""
    n_workers = max(1, sum(client.nthreads().values()))
    # As the result of a task, the function is sent once to each worker, and sent again after a worker was lost.
    work = client.submit(lambda: function, pure=False)
    yield from _in_order(lambda block: client.submit(_call, work, block, pure=False), blocks, 2 * n_workers)


def _call(function: Work, block: Any) -> Any:
    """Return `function(block)` on a worker of a cluster; it may use one core, because each core has a worker."""
    with one_blas_thread():
        return _in_block(function, None, 1, block)


def _in_order(submit: Work, blocks: Iterable[Any], most: int) -> Iterator[Any]:
    """Submit blocks, at most `most` at a time, and yield their results in order; an error states its block.

    `submit` starts the work on a block and returns a future.
    """
    pending: deque[tuple[Any, Any]] = deque()
    blocks = iter(blocks)
    try:
        for block in blocks:
            pending.append((block, submit(block)))
            if len(pending) >= most:
                yield _take(pending)
        while pending:
            yield _take(pending)
    finally:
        for _, future in pending:
            future.cancel()


def _take(pending: deque[tuple[Any, Any]]) -> Any:
    block, future = pending.popleft()
    return _result(block, future.result)


def _result(block: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        if isinstance(error, CancelledError) or type(error).__name__ in ("KilledWorker", "FutureCancelledError"):
            raise OSError(
                f"The cluster gave up on block {block!r} after its workers were lost ({type(error).__name__}); "
                "give them more --memory, or use fewer --workers, and run the same command again."
            ) from None
        error.add_note(f"while working on block {block!r}")
        raise
