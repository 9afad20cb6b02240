"""Kill every stage at random moments, in one process and on a local cluster, and check that runs resume equally.

python benchmarks/kill.py                  # 30 kills; about six minutes
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr

STAGES = {
    "index": ["index", "../v.sgy", "-o", "job.outcrop", "--step", "15", "--every", "2"],
    "retrieve": ["retrieve", "job.outcrop", "--exemplar", "fault=110,380,400", "--exemplar", "other=120,355,200"],
    "label": ["label", "job.outcrop", "--mapping", "paper", "--lines", "100,104,108,112,116"],
    "evaluate": ["evaluate", "job.outcrop", "--truth", "../v.truth.sgy", "--lines", "104"],
    "export": ["export", "job.outcrop", "labels.sgy"],
}
STAGES["retrieve"] += ["--count", "40"]
ON_A_CLUSTER = ("index", "retrieve", "label")


def start(folder, words, cluster):
    words = [*words, *(["--workers", "2", "--memory", "3GB"] if cluster else [])]
    command = [sys.executable, "-m", "outcrop", *words]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finish(folder, words, cluster=False):
    process = start(folder, words, cluster)
    output = process.communicate()[1].decode()
    assert process.returncode == 0, output
    return output


def kill(folder, words, cluster, seconds):
    """Start a command and kill it with all its processes after some seconds; return whether it was still running."""
    process = start(folder, words, cluster)
    time.sleep(seconds)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


def contents(folder):
    found = {}
    for store in sorted(folder.rglob("*.zarr")):
        for name, array in zarr.open_group(store, mode="r").arrays():
            found[f"{store.relative_to(folder)}/{name}"] = array[...]
    for name in ("job.outcrop/retrieved.csv", "labels.sgy"):
        found[name] = np.frombuffer((folder / name).read_bytes(), np.uint8)
    return found


def difference(a, b):
    return lambda key: f"{key} off by {np.abs(a[key].astype(float) - b[key].astype(float)).max():.3g} at the most"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    rng, options = np.random.default_rng(0), parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        finish(folder, ["synth", "v.sgy", "--shape", "40,160,200"])
        folders = {name: folder / name for name in ("whole", "one process", "cluster")}
        for path in folders.values():
            path.mkdir()
        seconds = {}
        for stage, words in STAGES.items():
            begin = time.perf_counter()
            finish(folders["whole"], words)
            seconds[stage] = time.perf_counter() - begin
        done = 0
        for name, stages in (("one process", list(STAGES)), ("cluster", list(ON_A_CLUSTER))):
            for i, stage in enumerate(stages):
                share = options.kills // 2 // len(stages) + (i < options.kills // 2 % len(stages))
                hits = 0
                while hits < share:
                    moment = rng.uniform(0.2, 1.0) * seconds[stage] + (3 if name == "cluster" else 0) * rng.random()
                    hits += kill(folders[name], STAGES[stage], name == "cluster", moment)
                    if (folders[name] / "job.outcrop" / "job.toml").exists():
                        finish(folders[name], ["status", "job.outcrop"])
                    (folders[name] / "labels.sgy").unlink(missing_ok=True)
                finish(folders[name], STAGES[stage], name == "cluster")
                done += share
                print(f"{name}: {stage} killed {share} times, resumed", flush=True)
            for stage in STAGES.keys() - set(stages):
                finish(folders[name], STAGES[stage])
            whole, resumed = contents(folders["whole"]), contents(folders[name])
            assert whole.keys() == resumed.keys()
            odd = [key for key in whole if not np.array_equal(whole[key], resumed[key])]
            print(f"{name}: " + (", ".join(map(difference(whole, resumed), odd)) or "bit-equal"))
    print(f"{done} kills")


if __name__ == "__main__":
    main()
