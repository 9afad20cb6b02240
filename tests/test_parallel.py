"""Blocks come back in order, errors name their block, and few blocks are in flight."""

import threading
import time

import pytest

from outcrop.parallel import map_blocks, spans


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_keeps_order(workers):
    """Slow early blocks do not change the order."""

    def work(i):
        time.sleep(0.01 if i == 0 else 0)
        return i * i

    assert list(map_blocks(work, range(20), workers=workers)) == [i * i for i in range(20)]


def test_error_carries_its_block():
    """The exception is the function's own, with a note that names the block."""

    def work(i):
        if i == 3:
            raise ValueError("bad trace")
        return i

    with pytest.raises(ValueError, match="bad trace") as caught:
        list(map_blocks(work, range(8), workers=2))
    assert caught.value.__notes__ == ["while working on block 3"]


def test_few_blocks_in_flight():
    """A consumer that stops asking stops the work, whatever the number of blocks."""
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


def test_spans_cover():
    """Every position lies in exactly one span."""
    assert [i for span in spans(17, 5) for i in range(17)[span]] == list(range(17))
    assert spans(0, 5) == []
