"""Index, labels and search on local Dask workers of one thread each, against one thread.

python benchmarks/cluster.py               # about eight minutes on two idle cores
python benchmarks/cluster.py --short       # index and labels on 1 and 2 workers: speed-up, share of the main process

The main process gathers the results. Its share is its CPU time, with the scheduler inside it, over the CPU time of all
processes. On a machine with other load the speed-up by wall clock says little; the speed-up by CPU time is the CPU time
of one worker alone over that of the busier of two workers.
"""

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from labelling import fitted

import outcrop as oc
from outcrop.datasets.survey import write_synthetic
from outcrop.parallel import cluster, map_blocks, n_cores

BLOCKS = 32  # of descriptors, 1024 patches each
LINES, SHAPE = 24, (951, 462)  # that are labelled, each as large as one of F3


def timed(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def processor_seconds(process=None):
    return sum((process or psutil.Process()).cpu_times()[:2])


class Spent:
    """Measure wall-clock and CPU seconds of this process and of each worker while a block runs."""

    def __init__(self, client):
        self.workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()] if client else []

    def __enter__(self):
        self.begin = time.perf_counter()
        self.before = processor_seconds(), [processor_seconds(worker) for worker in self.workers]
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.begin
        self.gathering = processor_seconds() - self.before[0]
        pairs = zip(self.workers, self.before[1], strict=True)
        self.each = [processor_seconds(worker) - before for worker, before in pairs]

    @property
    def share(self):
        """Return the share of the CPU time that the main process took."""
        return self.gathering / (self.gathering + sum(self.each))


def warm_up(client):
    """Load the package and its kernels on all workers."""
    describe = oc.CurveletSVD().describe
    x = np.random.default_rng(0).random((4, 99, 99), "f4")
    list(map_blocks(lambda _: (describe(x), time.sleep(0.5)), range(2 * len(client.nthreads())), client=client))


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def describe(volume, grid, folder, name, client):
    with Spent(client) as spent:
        path = folder / f"{name}.outcrop"
        index = oc.build_index(volume, grid, path, measure="curvelet-svd", workers=1, client=client)
    report(name, "index", len(grid) / spent.wall, "descriptors/s", spent)
    return index, spent


def label(volume, grid, mapper, folder, name, client):
    with Spent(client) as spent:
        path = folder / f"{name}.zarr"
        labels = oc.label_volume(volume, grid, mapper, client=client, path=path, memory=None if client else 1)
    report(name, "label", len(volume) / spent.wall, "lines/s", spent)
    return labels, spent


def report(name, what, rate, unit, spent):
    share = f", {spent.share:.1%} of it in the main process" if spent.each else ""
    total = spent.gathering + sum(spent.each)
    print(f"{name:<15} {what} {rate:6.1f} {unit}, {total:.1f} s of CPU time{share}", flush=True)


def speed_up(what, one, two):
    print(
        f"{what}: two workers against one {one.wall / two.wall:.2f} by the clock, "
        f"{one.each[0] / max(two.each):.2f} by CPU time; main process {two.share:.1%} of the CPU time"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="index and labels on 1 and 2 workers only")
    options = parser.parse_args()
    print(f"{n_cores()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_synthetic(folder / "v.sgy", (LINES, *SHAPE))
        volume = oc.open_volume(folder / "v.sgy")
        grid = oc.PatchGrid(volume, sample=BLOCKS * 1024)
        dense = oc.PatchGrid(volume, clip=grid.clip)
        mapper, _ = fitted(volume, oc.open_volume(folder / "v.truth.sgy"))
        name = "one thread"
        whole, _ = describe(volume, grid, folder, name, None)
        labels, _ = label(volume, dense, mapper, folder, name, None)
        found: dict = {}
        for workers in (1, 2) if options.short else (1, 2, 4):
            with cluster(workers=workers, memory=8 * 10**9) as client:
                warm_up(client)
                name = f"{workers} workers"
                index, describing = describe(volume, grid, folder, name, client)
                again, labelling = label(volume, dense, mapper, folder, name, client)
                found[workers] = describing, labelling
                assert np.array_equal(index.features[:], whole.features[:])
                assert np.array_equal(again["label"].values, labels["label"].values)
                if not options.short:
                    rest(volume, index, client)
        for what, one, two in zip(("index", "label"), found[1], found[2], strict=True):
            speed_up(what, one, two)
        if options.short:
            return
        with cluster(workers=2, memory=4 * 10**9) as client:
            warm_up(client)
            threading.Timer(3, kill_one, [client]).start()
            index = oc.build_index(volume, grid, folder / "killed.outcrop", measure="curvelet-svd", client=client)
            same = np.array_equal(index.features[:], whole.features[:])
            print("one of 2 killed: equal" if same else "one of 2 killed: DIFFERENT")


def rest(volume, index, client):
    """Print the time of a search and the overhead of a block on a cluster."""
    place = volume.inline.values[3], volume.crossline.values[150], 800.0
    index.client = client
    _, searching = timed(lambda: oc.retrieve(index, {"a": [place]}, 100))
    print(f"{'':<15} search {1000 * searching:4.0f} ms", end="")
    _, seconds = timed(lambda: list(map_blocks(abs, range(500), client=client)))
    print(f"; overhead {seconds / 500 * 1000:.2f} ms a block")


if __name__ == "__main__":
    main()
