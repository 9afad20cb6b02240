"""Compare the predictions of --dry-run with measured costs, and compute costs of 500 GB on machines and GPUs.

python benchmarks/costs.py                           # .2 GB: threads, 1 and 2 workers; six minutes on two cores
python benchmarks/costs.py --gigabytes 2             # 2 GB
python benchmarks/costs.py --gigabytes 20            # 20 GB; needs as much disk
python benchmarks/costs.py --paper                   # the table for 500 GB, from rates measured here in a minute

Times are those of whole commands, from start to end. Index and labels are computed for a part that takes about a minute
(every Nth line; some lines), and the dry run predicts the same part. The lines of a large volume repeat those of a
small one, forwards and backwards, so that making it is limited by the disk.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from labelling import fitted

import outcrop as oc
from outcrop.datasets.survey import synthetic_lines
from outcrop.job import costs
from outcrop.job.options import IndexOptions
from outcrop.parallel import n_cores, one_blas_thread
from outcrop.volumes.segy_write import create

SHAPE = 800, 1000  # traces and samples of a line: 3.2 MB
MADE = 60  # different lines
CORES = 16  # cores of a machine in the table
DISK = 1e9  # bytes per second that a machine reads
SURVEY = 125e9  # samples of a survey of 500 GB
LINE = 4000, 1060  # traces and samples of a line of this survey
H200 = {"descriptors": 21_019, "samples": 38.2e6}  # per second, with reading and writing; see docs/numbers.md


def command(*words):
    """Run a command; return its seconds and its output."""
    begin = time.perf_counter()
    ran = subprocess.run([sys.executable, "-m", "outcrop", *map(str, words)], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"outcrop {' '.join(map(str, words))}: {ran.stderr}")
    return time.perf_counter() - begin, ran.stdout, ran.stderr


def described_bytes(path, name):
    """Return the bytes of the files of an array of a job."""
    return sum(file.stat().st_size for file in path.rglob(f"{name}/c/**/*") if file.is_file())


def compare(what, words, array, folder, scale):
    """Print one line: predicted and measured costs."""
    _, printed, _ = command(*words, "--dry-run", "--json")
    predicted = json.loads(printed)
    before = described_bytes(folder, array) if folder.exists() else 0
    seconds, *_ = command(*words)
    size = described_bytes(folder, array) - before
    time_words, size_words = (
        f"{a:6.1f} {unit} predicted, {b:6.1f} measured, {a / b:.2f}"
        for a, b, unit in ((predicted["seconds"], seconds, "s"), (predicted["bytes"] / 1e6, size / 1e6, "MB"))
    )
    print(f"{what:<24} {predicted['units']:>7} {scale}: {time_words}; {size_words}", flush=True)


def write_volume(path, n_lines):
    """Write a SEG-Y file with a number of lines."""
    made = [section for section, _ in synthetic_lines((min(n_lines, MADE), *SHAPE))]
    back_and_forth = made + made[-2:0:-1]
    axes = 100 + np.arange(n_lines), 300 + np.arange(SHAPE[0]), 4.0 * np.arange(SHAPE[1])
    with create(path, *axes) as write:
        for row in range(n_lines):
            write(row, back_and_forth[row % len(back_and_forth)])


def checked(gigabytes, patches, n_labelled):
    """Compare predicted and measured costs on a synthetic volume, for threads and for 1 and 2 workers."""
    lines = max(8, round(gigabytes * 1e9 / (4 * SHAPE[0] * SHAPE[1] + 240 * SHAPE[0])))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_volume(folder / "v.sgy", lines)
        print(f"{(folder / 'v.sgy').stat().st_size / 1e9:.2f} GB, {lines} lines, {n_cores()} cores", flush=True)
        every = max(1, lines * 23 * 30 // patches)
        for workers in (None, 1, 2):
            name = f"{workers} workers" if workers else f"{n_cores()} threads"
            job = folder / f"{workers}.outcrop"
            where = ["--workers", workers] if workers else []
            index = ["index", folder / "v.sgy", "-o", job, "--step", 33, "--every", every, *where]
            compare(f"index, {name}", index, "features", job, "patches")
            exemplars = ["--exemplar", "fault=104,500,1000", "--exemplar", "other=106,700,2000"]
            command("retrieve", job, *exemplars, "--count", 60)
            first = 100 + lines // 2
            wanted = ",".join(str(first + k) for k in range(min(n_labelled, lines // 2)))
            compare(f"label, {name}", ["label", job, "--lines", wanted, *where], "votes", job, "lines  ")


def paper():
    """Print the table for 500 GB, from rates of one core measured now and recorded rates of an H200."""
    volume, truth = oc.datasets.synthetic((6, 400, 400), seed=0)
    options = IndexOptions(size=99, step=33).fitted(volume.shape)
    grid = oc.PatchGrid(volume, size=99, step=33)
    rows = np.arange(min(256, len(grid)))
    measure = costs.indexed_measure(options)
    measure.describe(grid.extract(volume, rows[:2]), workers=1)
    begin = time.process_time()
    with one_blas_thread():
        found = measure.describe(grid.extract(volume, rows), workers=1)
    a_patch = (time.process_time() - begin) / len(rows)
    patch_bytes = costs._stored(found) / len(found)
    mapper, _ = fitted(volume, truth)
    list(costs.line_votes(volume, grid, mapper, volume.inline.values[:1], workers=1))
    begin = time.process_time()
    votes = [one for _, one in costs.line_votes(volume, grid, mapper, volume.inline.values[:4], workers=1)]
    a_sample = (time.process_time() - begin) / (4 * volume[0].size)
    begin = time.process_time()
    _, line_bytes = costs._written(votes, [str(name) for name in mapper.classes_])
    writing = (time.process_time() - begin) / (len(votes) * volume[0].size)
    print(f"one core: {1000 * a_patch:.2f} ms a patch, {1e6 * (a_sample + writing):.2f} s a million samples labelled")
    sample_bytes = line_bytes / volume[0].size
    print(f"disk: {patch_bytes:.0f} bytes a patch, {sample_bytes:.2f} a sample of {len(votes[0])} classes\n")
    lines = SURVEY / (LINE[0] * LINE[1])
    a_line = (-(-(LINE[0] - 99) // 33) + 1) * (-(-(LINE[1] - 99) // 33) + 1)
    columns = ["1 machine", "8 machines", "64 machines", "1 GPU", "8 GPUs"]
    print(f"500 GB: {lines:.0f} lines of {LINE[0]} traces, {LINE[1]} samples; hours, machines of {CORES} cores\n")
    print(f"| | {' | '.join(columns)} | disk |\n|---|{'---|' * (len(columns) + 1)}")
    for what, n_lines in (("index, every 20th line", lines / 20), ("index, every line", lines)):
        n_patches = n_lines * a_line
        reading = 4 * n_lines * LINE[0] * LINE[1] / DISK
        times = [max(n_patches * a_patch / CORES, reading) / n for n in (1, 8, 64)]
        times += [max(n_patches / H200["descriptors"] / n, reading) for n in (1, 8)]
        print(row(what, times, n_patches * patch_bytes))
    times = [max(SURVEY * (a_sample + writing) / CORES, 4 * SURVEY / DISK) / n for n in (1, 8, 64)]
    times += [max(SURVEY / H200["samples"] / n, 4 * SURVEY / DISK, SURVEY * writing / CORES) for n in (1, 8)]
    print(row("label every line", times, SURVEY * sample_bytes))


def row(what, seconds, size):
    return f"| {what} | {' | '.join(f'{one / 3600:.2f}' for one in seconds)} | {size / 1e9:.0f} GB |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--patches", type=int, default=24_000, help="approximate number of indexed patches")
    parser.add_argument("--lines", type=int, default=12, help="number of labelled lines")
    parser.add_argument("--paper", action="store_true", help="print only the table for 500 GB")
    options = parser.parse_args()
    if options.paper:
        paper()
    else:
        checked(options.gigabytes, options.patches, options.lines)


if __name__ == "__main__":
    main()
