"""Compute digests of features, retrieved rows, scores and labels, to find changes of results.

``python tools/digests.py`` prints them, ``--check`` compares them with `tools/digests.txt`.

The synthetic volume is always used, F3 sections 310 and 330 if OUTCROP_DATA names their folder. Values are rounded,
because the last digits depend on the order of a sum. The committed digests are of one x86-64 machine with
OMP_NUM_THREADS=1; another processor may round a value differently.
"""

import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import outcrop as oc
from outcrop.retrieval.assignment import assign
from outcrop.retrieval.search import similarity_to

KEPT = Path(__file__).with_name("digests.txt")
SIZE, STEP = 48, 24
COUNT = 12  # patches per class
MAPPERS = {
    "paper": lambda: oc.LabelMapper(8, 0.4, variant="paper", iterations=12, random_state=0),
}


def digest(values, decimals=None):
    """Return the first 16 digits of the SHA-256 of an array; floating-point values are rounded first."""
    values = np.asarray(values)
    if decimals is not None:
        values = np.round(values.astype(np.float64), decimals) + 0.0  # turns -0.0 into 0.0
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def digests(name, volume, places):
    """Yield (name of a result, digest) for one volume and exemplars of each class."""
    grid = oc.PatchGrid(volume, size=SIZE, step=STEP, along="inline", every=1, gain="volume")
    with tempfile.TemporaryDirectory() as folder:
        for measure in ("curvelet-svd", "encoder"):
            index = oc.build_index(volume, grid, f"{folder}/job.outcrop", measure=measure, truncate=True, finest=True)
            yield f"{name} features {measure}", digest(index.features[:], 3)
            if measure == "curvelet-svd":
                similarity = np.stack([similarity_to(index, some) for some in places.values()]).T
                rows = assign(similarity, [COUNT] * len(places))
                yield f"{name} rows {measure}", digest(np.concatenate(rows).astype(np.int64))
    section = volume[0].values.T[None]
    yield f"{name} features of a section", digest(oc.Encoder().describe(section), 2)
    patches = grid.extract(volume, np.concatenate(rows))
    classes = np.repeat(list(places), [len(some) for some in rows])
    for mapping, make in MAPPERS.items():
        mapper = make().fit(patches, classes)
        yield f"{name} scores {mapping}", digest(mapper.scores(patches[::3]), 2)
        yield f"{name} labels {mapping}", digest(mapper.predict(patches[::3]).astype(np.uint8))


def volumes():
    """Yield name, volume and exemplars of each test volume."""
    volume, truth = oc.datasets.synthetic((16, 160, 200), seed=0)
    yield "synthetic", volume, oc.datasets.exemplars(truth, SIZE, count=1, min_share=0.5, seed=0)
    if os.environ.get("OUTCROP_DATA"):
        sections, truth = oc.datasets.f3_sections()
        lines = {"inline": [310, 330], "time": slice(900, None)}
        sections, truth = sections.sel(lines), truth.sel(lines)
        yield "F3", sections, oc.datasets.exemplars(truth, SIZE, count=1, min_share=0.3, seed=0)


def main():
    """Print the digests, or list digests that differ from those of the file."""
    warnings.simplefilter("ignore")
    found = [f"{name}: {value}" for volume in volumes() for name, value in digests(*volume)]
    if sys.argv[1:] != ["--check"]:
        print("\n".join(found))
        return
    others = set(found) - set(KEPT.read_text().splitlines())
    sys.exit("Changed: " + "; ".join(sorted(others)) if others else None)


if __name__ == "__main__":
    main()
