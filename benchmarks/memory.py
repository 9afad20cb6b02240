"""Peak memory of indexing and labelling volumes of growing size, each in a process of its own.

python benchmarks/memory.py            # 60 MB, 490 MB and 2 GB of SEG-Y, 50 lines indexed and 10 labelled of each
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from outcrop.datasets import write_synthetic

STAGES = {
    "index": """
grid = oc.PatchGrid(volume, size=64, step=64, every=max(1, len(volume) // 50))
oc.build_index(volume, grid, sys.argv[2])
""",
    "label": """
import numpy as np
grid = oc.PatchGrid(volume, size=64, step=32, clip=5000.0)
patches = np.random.default_rng(0).random((40, 64, 64)).astype("f4")
mapper = oc.TextureMapper(members=1, n_features=300, rounds=3).fit(patches, np.repeat(["a", "other"], 20))
lines = volume.inline.values[:: max(1, len(volume) // 10)].tolist()
oc.label_volume(volume, grid, mapper, lines=lines, path=sys.argv[2] + "/labels.zarr")
""",
}
OPENING = "import resource, sys\nimport outcrop as oc\nvolume = oc.open_volume(sys.argv[1])\n"
CLOSING = "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[50, 400, 1600])
    with tempfile.TemporaryDirectory() as folder:
        for lines in parser.parse_args().lines:
            path = Path(folder) / "volume.sgy"
            write_synthetic(path, (lines, 600, 512))
            for stage, code in STAGES.items():
                command = [sys.executable, "-c", OPENING + code + CLOSING, path, f"{folder}/{lines}.outcrop"]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                size = path.stat().st_size / 1e6
                print(f"{stage:<6} {size:6.0f} MB of SEG-Y: peak {float(done.stdout):5.0f} MB", flush=True)


if __name__ == "__main__":
    main()
