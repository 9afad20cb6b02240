"""Random damage to SEG-Y files and job folders; counts results, errors of one line and any other outcome.

python benchmarks/fuzz.py DATA/segy            # 1500 SEG-Y files and 700 jobs, seeds 0 to 2199; about ten minutes
python benchmarks/fuzz.py DATA/segy --segy 0 --jobs 50 --first 1000
"""

import argparse
import collections
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import numpy as np
from mutations import COMMANDS, command, context, fuzz_job, limits, look_at, mutate_segy

from outcrop import datasets

MEMORY = 6 << 30  # bytes of address space
BATCH = 25  # cases per process


def segy_case(seed, folder, sources):
    kind, raw = mutate_segy(sources[seed % len(sources)].read_bytes(), np.random.default_rng(seed))
    (folder / "m.sgy").write_bytes(raw)
    return [(f"SEG-Y, {kind}", "open and read", look_at(folder / "m.sgy"))]


def job_case(seed, folder, _):
    return [(f"job, {kind}", *rest) for kind, *rest in fuzz_job(folder, np.random.default_rng(seed))]


def batch(case, seeds, folder, sources):
    limits(MEMORY)
    with open(folder / "written", "a") as written:
        for seed in seeds:
            print(json.dumps([seed]), file=written, flush=True)
            for outcome in case(seed, folder, sources):
                print(json.dumps([seed, *outcome]), file=written, flush=True)


def run(case, seeds, folder, sources):
    """Return the outcomes of the cases; each batch runs in a process, and a crash is the outcome of its last case."""
    outcomes = []
    seeds = list(seeds)
    while seeds:
        (folder / "written").write_text("")
        process = context.Process(target=batch, args=(case, seeds[:BATCH], folder, sources))
        process.start()
        process.join()
        written = [json.loads(line) for line in (folder / "written").read_text().splitlines()]
        outcomes += [line for line in written if len(line) > 1]
        last = written[-1][0]
        if process.exitcode:
            outcomes.append([last, case.__name__, "?", f"DIED with {process.exitcode}"])
        seeds = [seed for seed in seeds if seed > last]
    return outcomes


def sound_job(folder):
    datasets.write_synthetic(folder / "v.sgy", (8, 90, 96), seed=3)
    os.chdir(folder)
    for number in (7, 1, 2):
        assert command([word.replace("job.outcrop", "sound.outcrop") for word in COMMANDS[number]]) == "answered"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of SEG-Y files")
    parser.add_argument("--segy", type=int, default=1500)
    parser.add_argument("--jobs", type=int, default=700)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    sources = sorted(options.data.resolve().glob("*.sgy"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sound_job(folder)
        middle = options.first + options.segy
        outcomes = run(segy_case, range(options.first, middle), folder, sources)
        outcomes += run(job_case, range(middle, middle + options.jobs), folder, sources)
        os.chdir("/")
    table = collections.Counter()
    for seed, kind, words, outcome in outcomes:
        known = outcome in ("answered", "refused")
        table[
            (
                kind if kind.startswith("SEG-Y") else f"{kind.split()[0]} {kind.split()[-1]}: {words}",
                outcome if known else "BROKE",
            )
        ] += 1
        if not known:
            print(f"seed {seed}, {kind}, {words}: {outcome}")
    for row in sorted({row for row, _ in table}):
        print(f"{row:<40}" + "".join(f"{name} {table[row, name]:5d}   " for name in ("answered", "refused", "BROKE")))
    results = ("answered", "refused", "BROKE")
    totals = {name: sum(n for (_, result), n in table.items() if result == name) for name in results}
    print(f"{options.segy + options.jobs} mutations, {sum(totals.values())} commands: {totals}")
    sys.exit(bool(totals["BROKE"]))


if __name__ == "__main__":
    main()
