"""Compute the 162 factorisations of the two robustness figures with NumPy, SciPy, scikit-learn and torch only.

PYTHONPATH=src python benchmarks/robustness.py DATA/seg2017_patches.npz OUT/robustness.json --device cuda

`outcrop reproduce robustness-k` and `robustness-sparsity` read the file from their output folder.
"""

import argparse
import json
import runpy
import time
from pathlib import Path

import numpy as np
import torch

from outcrop.mapping.label_mapper import LabelMapper

# Loaded by its path, because the package of experiments imports pandas and other packages.
ROBUSTNESS = Path(__file__).parents[1] / "src" / "outcrop" / "experiments" / "robustness.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patches", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=3, help="seeds at the same time")
    parser.add_argument("--every", type=int, default=1, help="take every Nth patch only, to try it out")
    options = parser.parse_args()
    experiment = runpy.run_path(str(ROBUSTNESS))
    with np.load(options.patches) as file:
        images = file["images"][:: options.every] * np.float32(file["scale"])
        classes = file["classes"][:: options.every]
    patches = torch.from_numpy(images).to(options.device)
    for sweep in experiment["SWEEPS"].values():
        for atoms, sparsity in sweep:
            begin = time.perf_counter()
            sizes = {"sweep": [(max(2, atoms // options.every), sparsity)], "workers": options.workers}
            found = experiment["measure"](patches, classes, options.output, device=options.device, **sizes)
            curve = np.mean(list(found["curves"].values())[-1]["performance"], axis=0)
            print(f"k {atoms}, sparsity {sparsity}: {curve.round(3)}, {time.perf_counter() - begin:.1f} s", flush=True)
    found["fit seconds"] = alone(patches, classes, 250 // options.every)
    print(f"one fit alone, k 250: {found['fit seconds']:.2f} s")
    options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


def alone(patches, classes, atoms):
    """Return the seconds of the second of two fits, with k-means and labels."""
    for _ in range(2):
        begin = time.perf_counter()
        LabelMapper(max(2, atoms)).fit(patches, classes).labels_.cpu()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
