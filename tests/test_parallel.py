"""Results of blocks come in order, errors name their block, and few blocks are in flight."""

import threading
import time

import numpy as np
import psutil
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from outcrop.parallel import cluster, map_blocks, memory_budget, one_blas_thread, spans


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_keeps_order(workers):
    """Slow early blocks do not change the order."""

    def work(i):
        time.sleep(0.01 if i == 0 else 0)
        return i * i

    assert list(map_blocks(work, range(20), workers=workers)) == [i * i for i in range(20)]


def test_error_carries_its_block():
    """The exception of the function is raised with a note that names the block."""

    def work(i):
        if i == 3:
            raise ValueError("bad trace")
        return i

    with pytest.raises(ValueError, match="bad trace") as caught:
        list(map_blocks(work, range(8), workers=2))
    assert caught.value.__notes__ == ["while working on block 3"]


def test_few_blocks_in_flight():
    """If results are no longer consumed, work stops, for any number of blocks."""
    begun, lock = [], threading.Lock()

    def work(i):
        with lock:
            begun.append(i)
        return i

    results = map_blocks(work, iter(range(10_000)), workers=2)
    assert next(results) == 0
    time.sleep(0.05)
    results.close()
    assert len(begun) <= 8


def blas_threads():
    """Return the numbers of threads of all loaded BLAS libraries; NumPy loads one."""
    np.eye(2) @ np.eye(2)
    return [pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()]


def test_overlapping_limits_end_with_all_threads():
    """BLAS has one thread until the last holder leaves, in any order; then the earlier number is restored."""
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    inside = []

    def first():
        with one_blas_thread():
            first_in.set()
            second_in.wait(10)
        inside.append(blas_threads())
        first_out.set()

    def second():
        first_in.wait(10)
        with one_blas_thread():
            second_in.set()
            first_out.wait(10)
            inside.append(blas_threads())

    with threadpool_limits(3, "blas"):
        before = blas_threads()
        threads = [threading.Thread(target=work) for work in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert inside == [[1] * len(before)] * 2
        assert blas_threads() == before != [1] * len(before)
        results = map_blocks(lambda i: i, range(9), workers=2)
        assert next(results) == 0 and set(blas_threads()) == {1}
        results.close()
        assert blas_threads() == before


def openmp_threads():
    """Return the number of OpenMP threads for work in this thread; scikit-learn loads an OpenMP library."""
    import sklearn.cluster  # noqa: F401

    return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="openmp").info()}


@pytest.mark.parametrize("workers", [1, 3])
def test_one_thread_inside_a_block(workers):
    """BLAS and OpenMP have one thread inside every block, in every thread; outside their numbers are unchanged."""
    with threadpool_limits(3):
        inside = list(map_blocks(lambda _: (set(blas_threads()), openmp_threads()), range(6), workers=workers))
        assert inside == [({1}, {1})] * 6
        assert openmp_threads() == {3}


def test_torch_has_one_thread_inside_a_block():
    """Torch uses the threads of OpenMP, whose number is set for each thread of a pool."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    assert set(map_blocks(lambda _: torch.get_num_threads(), range(4), workers=2)) == {1}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("blocks", "most"), [(1, 4), (2, 4), (4, 4), (9, 4)])
def test_blocks_of_blocks_share_the_cores(monkeypatch, blocks, most):
    """With nested blocks, no more threads work at once than there are cores."""
    monkeypatch.setattr("outcrop.parallel.n_cores", lambda: most)
    running, peak, lock = [0], [0], threading.Lock()

    def work(_):
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    def divided(_):
        list(map_blocks(work, range(6)))

    list(map_blocks(divided, range(blocks)))
    assert 2 <= peak[0] <= most


def test_nets_have_one_thread():
    """Sessions of onnxruntime use the options of `parallel`, so they start no further threads."""
    from outcrop.features import encoder, patch_encoder

    for weights in (encoder.WEIGHTS, patch_encoder.WEIGHTS):
        options = encoder.session(str(weights)).get_session_options()
        assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_spans_cover_every_position_once():
    """Every position lies in exactly one span."""
    assert [i for span in spans(17, 5) for i in range(17)[span]] == list(range(17))
    assert spans(0, 5) == []


def test_memory_limits_the_number_of_threads():
    """The number of blocks at once is limited by the memory budget, but at least one."""
    taken = psutil.Process().memory_info().rss
    for memory, most in ((1, 1), (taken + 25 * 10**8, 2), (taken + 10**11, 4)):
        running, peak, lock = [0], [0], threading.Lock()

        def work(i, running=running, peak=peak, lock=lock):
            with lock:
                running[0] += 1
                peak[0] = max(peak[0], running[0])
            time.sleep(0.01)
            with lock:
                running[0] -= 1

        list(map_blocks(work, range(12), workers=4, memory=memory, cost=10**9))
        assert peak[0] <= most


def test_memory_budget_reads_sizes():
    """Decimal and binary units are read; the default is a quarter of the machine; tiny sizes are refused."""
    assert memory_budget("500 MB") == 5 * 10**8
    assert memory_budget("2gib") == 2 << 30
    assert 10**8 < memory_budget() < 1 << 50
    for text in ("much", "-2GB", "1KB", "nan", "1e99GB", ""):
        with pytest.raises(ValueError, match="for instance 2GB"):
            memory_budget(text)


def test_refuses_wrong_cluster_options():
    """Without options there is no cluster; zero workers, both options at once and nonsense addresses are refused."""
    with cluster() as client:
        assert client is None
    for options in ({"workers": 0}, {"workers": 2, "scheduler": "tcp://a:1"}, {"scheduler": "nonsense"}):
        with pytest.raises(ValueError, match=r"--workers|--scheduler"), cluster(**options):
            pass
