"""Peak memory and rate of a whole job on surveys of growing size; each command runs in a separate process.

python benchmarks/memory.py                          # 0.2 and 2 GB of SEG-Y
python benchmarks/memory.py --gigabytes 2 20         # 20 GB take 35 GB of disk and half an hour on two cores
python benchmarks/memory.py --gigabytes 2 --workers 2
python benchmarks/memory.py --vast                   # geometry and plan of 500 GB, from synthetic headers
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import xarray as xr
from xarray.core.indexing import LazilyIndexedArray

import outcrop as oc
from outcrop.datasets.survey import write_synthetic
from outcrop.volumes.lazy import LazyVolume
from outcrop.volumes.traces import find_runs, make_grid

TRACES, SAMPLES = 800, 1000  # of a line: 3.4 MB


def measured(words, folder):
    """Return seconds and peak memory in MB of a command and its processes; shared pages count for each process."""
    begin, peak = time.perf_counter(), [0]
    process = subprocess.Popen(
        [sys.executable, "-m", "outcrop", *map(str, words)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def watch():
        while process.poll() is None:
            try:
                tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
                peak[0] = max(peak[0], sum(one.memory_info().rss for one in tree))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, output = process.communicate()
    watcher.join()
    assert process.returncode == 0, output
    return time.perf_counter() - begin, peak[0] / 1e6


def rate(folder):
    """Return the CPU milliseconds per descriptor, streamed from a file and from an array in memory."""
    write_synthetic(Path(folder) / "small.sgy", (40, 300, 400))
    streamed = oc.open_volume(Path(folder) / "small.sgy")
    held = streamed.copy(data=streamed.values)
    seconds: dict = {"in memory": [], "streamed": []}
    for turn in range(3):
        for (name, found), volume in zip(seconds.items(), (held, streamed), strict=True):
            grid = oc.PatchGrid(volume, step=66)
            begin = time.process_time()
            oc.build_index(volume, grid, Path(folder) / f"{name} {turn}", workers=1)
            found.append(1000 * (time.process_time() - begin) / len(grid))
    return {name: min(found) for name, found in seconds.items()}


def vast(n_lines=29_500, n_traces=4000, window=15_827):
    """Print time and memory of geometry and plan of 118 million traces; headers come in windows as in a scan."""
    process, total, moments = psutil.Process(), n_lines * n_traces, [time.perf_counter()]
    before = process.memory_info().rss
    runs = [
        find_runs(*divmod(np.arange(first, min(first + window, total)), n_traces), first=first)
        for first in range(0, total, window)
    ]
    grid = make_grid(np.concatenate(runs), np.empty(0, int))
    moments.append(time.perf_counter())
    lazy = LazyVolume(None, (n_lines, n_traces, SAMPLES))
    coords = {"inline": grid["inlines"], "crossline": grid["crosslines"], "time": 4.0 * np.arange(SAMPLES)}
    plan = oc.PatchGrid(xr.DataArray(LazilyIndexedArray(lazy), coords, list(coords), attrs={"scaled": True}))
    moments.append(time.perf_counter())
    held, peak = process.memory_info().rss - before, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{total} traces in {len(grid['traces'].runs)} runs, {len(plan)} patches: ", end="")
    print("placed in {:.0f} s, planned in {:.0f} s, ".format(*np.diff(moments)), end="")
    print(f"{held / 1e6:.0f} MB held, {peak / 1e6:.0f} MB at the peak")


def commands(lines, options):
    where = ["--memory", options.memory, *(["--workers", options.workers] if options.workers else [])]
    last = 100 + lines - 1
    place = f"{100 + lines // 40 * 20},{300 + TRACES // 2},{2 * SAMPLES}"
    other = f"{100 + lines // 40 * 20},{300 + TRACES // 4},{SAMPLES}"
    chosen = range(100, last, max(1, (lines - 1) // options.lines))
    yield ["synth", "v.sgy", "--shape", f"{lines},{TRACES},{SAMPLES}"]
    yield ["index", "v.sgy", "-o", "v.outcrop", "--every", 20, "--step", options.step, *where]
    yield [
        "retrieve",
        "v.outcrop",
        "--exemplar",
        f"salt={place}",
        "--exemplar",
        f"other={other}",
        "--count",
        100,
        *where,
    ]
    picked = ",".join(map(str, list(chosen)[: options.lines]))
    yield ["label", "v.outcrop", "--lines", picked, "--mapping", options.mapping, *where]
    yield ["export", "v.outcrop", "labels.sgy", "--format", 8, "--memory", options.memory]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.2, 2])
    parser.add_argument("--vast", action="store_true")
    parser.add_argument("--step", type=int, default=33)
    parser.add_argument("--lines", type=int, default=50, help="lines to label")
    parser.add_argument("--mapping", default="points")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--folder", help="folder for the volumes, on a disk that is large enough")
    options = parser.parse_args()
    if options.vast:
        return vast()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, milliseconds in rate(folder).items():
            print(f"descriptors {name}: {milliseconds:.2f} ms of CPU time each", flush=True)
    for gigabytes in options.gigabytes:
        lines = max(21, round(gigabytes * 1e9 / (TRACES * (240 + 4 * SAMPLES))))
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for words in commands(lines, options):
                seconds, peak = measured(words, folder)
                size = os.path.getsize(Path(folder) / "v.sgy") / 1e9
                print(f"{words[0]:<9} {size:5.1f} GB of SEG-Y: peak {peak:5.0f} MB, {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
