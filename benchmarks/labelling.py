"""Time and memory of a mapping at the paper's size: fitted on its 2000 patches, then whole sections of F3 labelled.

python benchmarks/labelling.py                  # texture, the default
python benchmarks/labelling.py --mapping net    # on a GPU where torch finds one

Reads the real data from OUTCROP_DATA.
"""

import argparse
import resource
import time

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop import datasets
from outcrop.parallel import n_cores

F3 = 286e6  # samples of the whole survey


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mapping", default="texture", choices=["texture", "net"])
    parser.add_argument("--lines", type=int, default=16, help="sections to label")
    options = parser.parse_args()
    dataset = datasets.seg2017_patches(None)
    sections, _ = datasets.f3_sections(None)
    begin = time.perf_counter()
    mapper = oc.MAPPERS[options.mapping]().fit(dataset["image"].values, dataset["weak"].values)
    fitted = time.perf_counter() - begin
    few = sections.isel(inline=np.arange(options.lines) % sections.sizes["inline"])
    volume = xr.DataArray(few.values, few.coords, few.dims, attrs=few.attrs).assign_coords(
        inline=np.arange(options.lines)
    )
    grid = oc.PatchGrid(volume, size=99, step=33)
    oc.label_volume(volume, grid, mapper, lines=[0])  # windows and nets are warm
    begin = time.perf_counter()
    oc.label_volume(volume, grid, mapper)
    rate = volume.size / (time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.mapping} on {n_cores()} cores: fitted on {len(dataset['image'])} patches in {fitted:.0f} s")
    print(f"labels {rate / 1e6:.2f} million samples a second, F3 in {F3 / rate / 60:.0f} minutes; peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
