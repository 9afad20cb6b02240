"""ZGY compared with SEG-Y: labels of the same volume, damaged headers, and the time to read a line.

python benchmarks/zgy.py                    # all three; about five minutes on two cores
python benchmarks/zgy.py --mutations 500 --only headers
"""

import argparse
import collections
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import numpy as np
from mutations import context, limits, look_at, mutate_zgy
from write_zgy import header_size, write_zgy

import outcrop as oc
from outcrop import datasets
from outcrop.volumes import segy_write

MEMORY = 6 << 30  # bytes of address space of a process that opens damaged files
BATCH = 25  # files to a process
SECONDS = 120  # after which a file counts as a hang
CLASSES = ("fault", "other", "salt dome")


def same_labels(folder, shape):
    """Label one synthetic volume, stored as SEG-Y and as ZGY, by the default mapping, and compare all samples."""
    datasets.write_synthetic(folder / "v.sgy", shape, seed=3)
    volume = oc.open_volume(folder / "v.sgy")
    truth = oc.open_volume(folder / "v.truth.sgy")
    first = (int(volume.inline[0]), int(volume.crossline[0]))
    write_zgy(folder / "v.zgy", volume.values, first=first, start=float(volume.time[0]), interval=4.0)
    middle = shape[0] // 2
    lines = [int(volume.inline[middle]), int(volume.inline[middle + 1])]
    found = []
    for name in ("v.sgy", "v.zgy"):
        job = oc.Job(folder / f"{name}.outcrop", volume=folder / name)
        job.index(size=32, step=16)
        for number, names in enumerate(truth.attrs["classes"], 1):
            if names in CLASSES:
                job.add_exemplar(names, centre(truth, number, middle))
        found.append(job.label(lines))
    equal = {name: bool((found[0][name].values == found[1][name].values).all()) for name in ("label", "confidence")}
    classes = np.unique(found[0]["label"].values)
    print(f"labels of inlines {lines[0]} and {lines[1]} of {shape}, codes {classes.tolist()}: SEG-Y and ZGY {equal}")
    return all(equal.values())


def centre(truth, code, row):
    """Return a place well inside a class on a line: its sample nearest to the mean of its samples."""
    inside = np.argwhere(truth[row].values == code)
    margin = np.array(truth.shape[1:])
    inside = inside[((inside >= 16) & (inside < margin - 16)).all(1)]
    trace, sample = inside[np.abs(inside - inside.mean(0)).sum(1).argmin()]
    return [float(one) for one in (truth.inline[row], truth.crossline[trace], truth.time[sample])]


def mutations(folder, count):
    """Damage the headers of ZGY files; print the outcomes and the time of the slowest."""
    rng = np.random.default_rng(0)
    sources = []
    for kind in ("float", "int16", "int8"):
        values = rng.normal(size=(21, 40, 70))
        path = write_zgy(folder / f"{kind}.zgy", values, kind=kind, bricksize=(16, 16, 16))
        sources.append((path.read_bytes(), header_size(path)))
    outcomes, seeds = [], list(range(count))
    while seeds:
        (folder / "written").write_text("")
        process = context.Process(target=look, args=(folder, sources, seeds[:BATCH]))
        process.start()
        process.join(SECONDS * BATCH)
        written = [json.loads(line) for line in (folder / "written").read_text().splitlines()]
        outcomes += [line for line in written if len(line) > 1]
        if process.exitcode != 0:
            process.kill()
            outcomes.append([written[-1][0], "?", f"died with {process.exitcode}", 0.0])
        seeds = [seed for seed in seeds if seed > written[-1][0]]
    table = collections.Counter()
    for seed, kind, outcome, seconds in outcomes:
        known = outcome in ("answered", "refused") and seconds < SECONDS
        table[kind, outcome if known else "BROKE"] += 1
        if not known:
            print(f"seed {seed}, {kind}: {outcome} after {seconds:.1f} s")
    for kind in sorted({kind for kind, _ in table}):
        print(f"{kind:<10}" + "".join(f"{name} {table[kind, name]:4d}   " for name in ("answered", "refused", "BROKE")))
    results = ("answered", "refused", "BROKE")
    totals = {name: sum(n for (_, result), n in table.items() if result == name) for name in results}
    print(f"{len(outcomes)} mutated ZGY headers: {totals}; slowest {max(row[3] for row in outcomes):.1f} s")
    return not totals["BROKE"] and len(outcomes) == count


def look(folder, sources, seeds):
    limits(MEMORY)
    with open(folder / "written", "a") as written:
        for seed in seeds:
            print(json.dumps([seed]), file=written, flush=True)
            kind, raw = mutate_zgy(sources[seed % 3][0], np.random.default_rng(seed), sources[seed % 3][1])
            (folder / "m.zgy").write_bytes(raw)
            begin = time.perf_counter()
            outcome = look_at(folder / "m.zgy")
            print(json.dumps([seed, kind, outcome, time.perf_counter() - begin]), file=written, flush=True)


def line_times(folder, shape):
    """Print the times to open a file and to read an inline, a crossline and a time slice, for ZGY and SEG-Y in turn."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape).astype(np.float32)
    with segy_write.create(
        folder / "t.sgy", 100 + np.arange(shape[0]), 300 + np.arange(shape[1]), 4.0 * np.arange(shape[2])
    ) as write:
        for row, section in enumerate(values):
            write(row, section)
    write_zgy(folder / "t.zgy", values)
    paths = [folder / "t.zgy", folder / "t.sgy"]
    volumes = [oc.open_volume(path) for path in paths]
    steps = {
        "open": [lambda path=path: oc.open_volume(path) for path in paths],
        "inline": [lambda volume=volume: volume[rng.integers(shape[0])].values for volume in volumes],
        "crossline": [lambda volume=volume: volume[:, rng.integers(shape[1])].values for volume in volumes],
        "time slice": [lambda volume=volume: volume[:, :, rng.integers(shape[2])].values for volume in volumes],
    }
    print(f"{shape} float32, files in the cache of the system, best of 41, ms:")
    for name, pair in steps.items():
        seconds = np.array([[clock(one) for one in pair] for _ in range(41)])
        ours, theirs = seconds.min(0)
        print(f"  {name:<10} ZGY {1e3 * ours:6.1f}   SEG-Y {1e3 * theirs:6.1f}   ratio {ours / theirs:.2f}")
    return bool((volumes[0][7].values == volumes[1][7].values).all())


def clock(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument("--only", choices=["labels", "headers", "lines"])
    options = parser.parse_args()
    parts = {
        "labels": lambda folder: same_labels(folder, (24, 160, 160)),
        "headers": lambda folder: mutations(folder, options.mutations),
        "lines": lambda folder: line_times(folder, (128, 951, 462)),
    }
    with tempfile.TemporaryDirectory() as temporary:
        held = [part(Path(temporary)) for name, part in parts.items() if options.only in (None, name)]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
