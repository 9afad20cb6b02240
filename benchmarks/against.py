"""Fit and labels of the demo by this tree against an older commit, both in one run.

python benchmarks/against.py                        # texture, against the commit before there was an encoder
python benchmarks/against.py --commit v0.1.0 --mapping paper

Both trees do the same in turn, each in a process of its own: a synthetic volume is indexed, patches are retrieved from
one exemplar a class, and the last part is timed, the fit and the labels of all lines. The wall clock and the time on
all cores are compared; where other programs load the machine, only the second says something. Needs git.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BEFORE = "3394678"  # the last commit without an encoder

WORK = """
import json, sys, time
import outcrop as oc
from outcrop.datasets import exemplars
path, source, truth, mapping = sys.argv[1:5]
volume = oc.open_volume(source)
places = exemplars(oc.open_volume(truth).astype("uint8"), 64, seed=0)
job = oc.Job(path, volume=volume)
job.index(64, every=4)
for name, some in places.items():
    job.add_exemplar(name, some[0])
job.retrieve(count=100)
wall, cores = time.perf_counter(), time.process_time()
job.label(mapping=mapping, seed=0)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cores]))
"""


def seconds(tree, folder, name, mapping):
    """Wall seconds and core seconds of fit and labels by the package of a tree."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    words = [folder / f"{name}.outcrop", folder / "v.sgy", folder / "v.truth.sgy", mapping]
    ran = subprocess.run(
        [sys.executable, "-c", WORK, *map(str, words)], env=environment, capture_output=True, text=True
    )
    if ran.returncode:
        sys.exit(f"{tree}: {ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=BEFORE)
    parser.add_argument("--mapping", default="texture")
    parser.add_argument("--shape", default="120,200,256")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as temporary:
        folder, then = Path(temporary), Path(temporary) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", then, options.commit], cwd=here, check=True)
        try:
            words = ["synth", folder / "v.sgy", "--shape", options.shape]
            subprocess.run([sys.executable, "-m", "outcrop", *map(str, words)], check=True, capture_output=True)
            taken: dict = {"now": [], "then": []}
            for number in range(options.rounds):
                for name, tree in (("now", here), ("then", then)):
                    taken[name].append(seconds(tree, folder, f"{name}-{number}", options.mapping))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", then], cwd=here, check=True)
    for k, what in enumerate(("wall clock", "on all cores")):
        now, before = (min(one[k] for one in taken[name]) for name in ("now", "then"))
        print(
            f"{options.mapping}, fit and labels of {options.shape}, {what}: {now:.1f} s now, {before:.1f} s at "
            f"{options.commit}, {now / before:.2f} times"
        )


if __name__ == "__main__":
    main()
