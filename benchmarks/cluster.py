"""Descriptors, search, labels and the factorisation on 1, 2 and 4 local Dask workers of one thread each.

python benchmarks/cluster.py               # about four minutes on two cores
"""

import os
import signal
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import psutil

import outcrop as oc
from outcrop.datasets.survey import write_synthetic
from outcrop.mapping.factorisation import factorise, factorise_blocks
from outcrop.parallel import cluster, map_blocks, n_cores

BLOCKS = 8  # of descriptors, 1024 patches each


def timed(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def processor_seconds():
    """Seconds that this process and its workers have spent on a core: what counts on a busy machine."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True)))


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def factors(n_patches=400, n_atoms=100, n_pixels=9801):
    rng = np.random.default_rng(0)
    return (rng.random(shape, "f4") for shape in ((n_pixels, n_patches), (n_pixels, n_atoms), (n_atoms, n_patches)))


def main():
    print(f"{n_cores()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_synthetic(folder / "v.sgy", (40, 300, 400))
        volume = oc.open_volume(folder / "v.sgy")
        grid = oc.PatchGrid(volume, sample=BLOCKS * 1024)
        X, W, H = factors()
        patches = np.random.default_rng(0).random((60, 99, 99), "f4")
        mapper = oc.LabelMapper(atoms_per_class=20, iterations=5).fit(patches, np.repeat(["a", "other"], 30))
        dense = oc.PatchGrid(volume, clip=grid.clip)
        lines = volume.inline.values[::5].tolist()

        def work(name, client=None, progress=None):
            options = {"workers": 1, "client": client, "progress": progress}
            before = processor_seconds()
            index, describing = timed(lambda: oc.build_index(volume, grid, folder / name, **options))
            spent = 1000 * (processor_seconds() - before) / len(grid)
            index.client = client
            place = volume.inline.values[3], volume.crossline.values[150], 800.0
            _, searching = timed(lambda: oc.retrieve(index, {"a": [place]}, 100))
            _, labelling = timed(lambda: oc.label_volume(volume, dense, mapper, lines=lines, client=client, memory=1))
            print(
                f"{name:<15} {len(grid) / describing:5.0f} descriptors/s of {spent:.2f} ms on a core, "
                f"search {1000 * searching:4.0f} ms, {len(lines) / labelling:5.2f} lines labelled/s",
                end="", flush=True,
            )  # fmt: skip
            return index

        whole = work("one thread")
        whole_factors, alone = timed(lambda: list(islice(factorise(X, W.copy(), H), 31))[-1])
        print(f", factorisation {alone / 30 * 1000:5.0f} ms an iteration")
        for workers in (1, 2, 4):
            with cluster(workers=workers, memory=8 * 10**9) as client:
                list(map_blocks(time.sleep, [0] * workers, client=client))
                index = work(f"{workers} workers", client)
                found, seconds = timed(
                    lambda: factorise_blocks(X, W, H, blocks=workers, iterations=30, client=client)  # noqa: B023
                )
                off = np.linalg.norm(found[0] - whole_factors[0]) / np.linalg.norm(found[0])
                print(f", factorisation {seconds / 30 * 1000:5.0f} ms an iteration, off by {off:.1e}")
                assert np.array_equal(index.features[:], whole.features[:])
                _, seconds = timed(lambda: list(map_blocks(abs, range(500), client=client)))
                print(f"{'':<18} overhead {seconds / 500 * 1000:.2f} ms a block")
        with cluster(workers=2, memory=4 * 10**9) as client:
            threading.Timer(3, kill_one, [client]).start()
            index = work("one of 2 killed", client)
            print("; equal" if np.array_equal(index.features[:], whole.features[:]) else "; DIFFERENT")


if __name__ == "__main__":
    main()
