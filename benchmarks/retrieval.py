"""Time of descriptors, search and indexing, as ratios to another package or a lower bound measured in the same run.

python benchmarks/retrieval.py                 # descriptors and search on this machine's cores
python benchmarks/retrieval.py --feedback      # first search and a round of verdicts in a million patches
python benchmarks/retrieval.py --growth        # cost per patch from 1,000 to 100,000 patches
python benchmarks/retrieval.py --device cuda   # descriptors, search and whole indexes on a GPU
"""

import argparse
import functools
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))


def best(function, repeats=3):
    """Return the shortest time of a few calls in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def textures(n, size=99, seed=0):
    """Return patches like seismic data: smoothed, layered noise."""
    from scipy.ndimage import gaussian_filter

    noise = np.random.default_rng(seed).normal(size=(n, size, size)).astype("f4")
    smooth = gaussian_filter(noise, (0, 1.5, 6))
    return np.clip(0.5 + smooth / (6 * smooth.std()), 0, 1)


def descriptors():
    import reference
    from threadpoolctl import threadpool_limits

    from outcrop import Curvelet, CurveletSVD
    from outcrop.parallel import map_blocks, n_cores, spans

    patches, measure = textures(512), CurveletSVD()
    scales = Curvelet((99, 99)).forward(patches)
    matrices = [array for scale in scales for array in scale[: max(1, len(scale) // 2)]]
    measure.describe(patches[:64])

    def bare(span):
        for array in matrices:
            np.linalg.svd(array[span], compute_uv=False)

    ours = best(lambda: measure.describe(patches)) / len(patches)
    lapack = best(lambda: list(map_blocks(bare, spans(len(patches), 32)))) / len(patches)
    reference.curvelet_svd(patches[0].astype(float))
    with threadpool_limits(1):
        twin = best(lambda: [reference.curvelet_svd(p) for p in patches[:32].astype(float)], 2) / 32
    row("descriptors per second", f"{1 / ours:.0f}", f"{n_cores()} cores, 99 x 99, float32")
    row("time against bare LAPACK singular values", f"{ours / lapack:.2f}", "aim at most 1.4")
    row("speed against the loop of the slow twin", f"{twin / ours:.1f}", "aim at least 3.5")


def search_speed(n=200_000, length=500, n_queries=8):
    from scipy.spatial.distance import cdist

    from outcrop.parallel import map_blocks, spans
    from outcrop.retrieval.search import search

    rng = np.random.default_rng(0)
    features = rng.random((n, length), dtype="f4")
    queries = features[:n_queries].copy()
    blocks = spans(n, 8192)
    search(features[:10], queries)
    ours = best(lambda: list(map_blocks(lambda s: search(features[s], queries), blocks)))
    floor = best(lambda: list(map_blocks(lambda s: features[s].sum(), blocks)))
    scipy = best(lambda: cdist(features[: n // 10], queries, "braycurtis"), 1) * 10
    row("search of 8 queries in 200,000 x 500", f"{ours * 1e3:.0f} ms", f"read once: {floor * 1e3:.0f} ms")
    row("search against reading the memory once", f"{ours / floor:.2f}", "aim at most 2.5")
    row("scipy against ours", f"{scipy / ours:.1f}", "cdist braycurtis, one thread")
    try:
        import faiss
    except ImportError:
        row("faiss against ours", "-", "pip install faiss-cpu")
        return
    flat = faiss.IndexFlat(length, faiss.METRIC_BrayCurtis)
    flat.add(features)
    row(
        "faiss flat against ours",
        f"{best(lambda: flat.search(queries, 500), 2) / ours:.1f}",
        "IndexFlat, Bray-Curtis, top 500",
    )


def growth():
    from outcrop import PatchGrid, build_index
    from outcrop.volumes.opening import open_volume

    tile = textures(1, 700).squeeze()
    for n in (1_000, 10_000, 100_000):
        lines = max(1, n // 1000)
        data = np.broadcast_to(tile, (lines, 700, 700))
        volume = open_volume(data).assign_attrs(scaled=True)
        grid = PatchGrid(volume, size=99, step=19)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/j.outcrop"
            seconds = best(functools.partial(build_index, volume, grid, path, measure="curvelet-svd"), 1)
        row(f"indexing {len(grid)} patches", f"{seconds / len(grid) * 1e3:.3f} ms a patch", "aim: flat")


def feedback(n=1_000_000):
    """Time a first search and rounds of feedback in an index in memory with random descriptors."""
    import zarr

    import outcrop as oc
    from outcrop.features.patch_encoder import LENGTH
    from outcrop.retrieval.index import Index

    lines = n // 1000
    volume = oc.open_volume(np.broadcast_to(textures(1, 700).squeeze(), (lines, 700, 700))).assign_attrs(scaled=True)
    rng = np.random.default_rng(0)
    index = Index.__new__(Index)
    index.volume, index.grid = volume, oc.PatchGrid(volume, size=99, step=19)
    index.measure, index.edges = oc.MEASURES["encoder"](), np.array([0, LENGTH])
    size = len(index.grid)
    index._held = rng.random((40, LENGTH), dtype="f4")[rng.integers(40, size=size)]  # forty textures
    index._held += 0.5 * rng.random((size, LENGTH), dtype="f4")
    index.features = zarr.create_array({}, shape=index._held.shape, dtype="f4")  # empty: all is held in memory
    index.status = np.zeros(size, np.uint8)
    index._columns, index._graph = {}, ()
    begin = time.perf_counter()
    exemplars = {f"class {k}": [(k, 300, 300)] for k in range(4)}
    weak = oc.retrieve(index, exemplars, 500)
    row(f"first search in {size} patches", f"{time.perf_counter() - begin:.2f} s", "4 classes, 500 patches each")
    for clicks in (5, 20):
        picks = weak.picks(clicks)
        judged = {"accepted": weak.places(picks[::2]), "rejected": weak.places(picks[1::2])}
        seconds = best(lambda judged=judged: oc.retrieve(index, exemplars, 500, **judged))
        row(f"round of feedback, {clicks} clicks a class", f"{seconds:.2f} s", "aim under 1 s")


def on_device(device):
    import torch

    from outcrop import CurveletSVD

    patches = torch.from_numpy(textures(16384)).to(device)
    measure = CurveletSVD()

    def timed(function):
        def run():
            function()
            torch.cuda.synchronize()

        run()
        return best(run)

    seconds = timed(lambda: measure.describe(patches))
    few = measure.describe(patches[:64])
    check = CurveletSVD().describe(patches[:64].cpu().numpy())
    row("descriptors per second", f"{len(patches) / seconds:.0f}", f"{torch.cuda.get_device_name()}, float32")
    alone = timed(lambda: eigenvalues_alone(patches, CurveletSVD()))
    row("time against the eigenvalues alone", f"{seconds / alone:.2f}", f"{len(patches) / alone:.0f} per second; aim 3")
    row(
        "largest difference from NumPy",
        f"{abs(few.cpu().numpy() - check).max() / check.max():.1e}",
        "relative to the largest value",
    )
    features = torch.rand(200_000, 500, device=device)
    row(
        "search of 8 queries in 200,000 x 500",
        f"{timed(lambda: measure.compare(features, features[:8])) * 1e3:.2f} ms",
        "",
    )


def indexes(device, queries=8, first=500):
    """Time whole indexes on a device, with reading and writing, and compare their search results with the CPU's."""
    import outcrop as oc
    from outcrop.retrieval.search import search

    volume, _ = oc.datasets.synthetic((200, 400, 256), seed=0)
    for measure in ("encoder", "curvelet-svd"):
        grids = {every: oc.PatchGrid(volume, size=99, step=12, every=every) for every in (20, 2)}
        found = {}
        for name, where, every in (("warm", device, 20), ("device", device, 2), ("few", device, 20), ("cpu", None, 20)):
            with tempfile.TemporaryDirectory() as folder:
                begin = time.perf_counter()
                index = oc.build_index(volume, grids[every], f"{folder}/j.outcrop", measure=measure, device=where)
                found[name] = len(grids[every]) / (time.perf_counter() - begin), index.features[:]
        row(f"index of {len(grids[2])} patches, {measure}", f"{found['device'][0]:.0f} per second", "with its files")
        ranks = [
            np.argsort(-search(features, features[:queries]), axis=0, kind="stable")[:first].T
            for features in (found["few"][1], found["cpu"][1])
        ]
        same = np.mean([len(set(a) & set(b)) / first for a, b in zip(*ranks, strict=True)])
        row(f"first {first} of {queries} queries, as on the CPU", f"{same:.4f}", f"of {len(grids[20])} patches")


def eigenvalues_alone(patches, measure):
    """Compute as many eigenvalue problems of the same size as the descriptors need, for 4096 patches at a time."""
    import torch

    from outcrop import Curvelet
    from outcrop.arrays import array_namespace
    from outcrop.measures.eigenvalues import symmetric_eigenvalues

    sizes, counts = np.unique(measure.lengths(Curvelet((99, 99))), return_counts=True)
    n = min(4096, len(patches))
    if not GRAMS:
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            half = torch.randn(n * count, size, size, device=patches.device, dtype=torch.float64)
            GRAMS.append(half @ half.mT)
    for _ in range(len(patches) // n):
        for gram in GRAMS:
            symmetric_eigenvalues(gram, array_namespace(gram))


GRAMS: list = []


def row(name, value, note):
    print(f"{name:<45} {value:>18}   {note}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--feedback", action="store_true")
    parser.add_argument("--device")
    chosen = parser.parse_args()
    if chosen.device:
        on_device(chosen.device)
        indexes(chosen.device)
    elif chosen.growth:
        growth()
    elif chosen.feedback:
        feedback()
    else:
        descriptors()
        search_speed()
