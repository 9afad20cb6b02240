"""Time and memory of a mapping at the paper's size: fitted on its 2000 patches, then whole sections of F3 labelled.

python benchmarks/labelling.py                  # encoder, the default
python benchmarks/labelling.py --mapping texture
python benchmarks/labelling.py --fits           # the fit with one BLAS thread, as a job does it, and with all of them

Reads the real data from OUTCROP_DATA.
"""

import argparse
import resource
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop import datasets
from outcrop.parallel import n_cores, one_blas_thread

F3 = 286e6  # samples of the whole survey


def time_fits(mapping, dataset, rounds=3):
    """Least seconds of a fit on 400 patches, with one BLAS thread and with one for each core, in turn."""
    few = np.arange(0, len(dataset["image"]), 5)
    patches, classes = dataset["image"].values[few], dataset["weak"].values[few]
    seconds: dict = {"one BLAS thread": [], f"{n_cores()} BLAS threads": []}
    for _ in range(rounds):
        for name, taken in seconds.items():
            begin = time.perf_counter()
            limit = one_blas_thread if name.startswith("one") else nullcontext
            with mock.patch("outcrop.texture.one_blas_thread", limit):
                oc.MAPPERS[mapping]().fit(patches, classes)
            taken.append(time.perf_counter() - begin)
    for name, taken in seconds.items():
        print(f"{mapping}, {len(few)} patches, {name}: {min(taken):.1f} s (of {', '.join(f'{s:.1f}' for s in taken)})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mapping", default="encoder", choices=["encoder", "texture"])
    parser.add_argument("--lines", type=int, default=16, help="sections to label")
    parser.add_argument("--fits", action="store_true", help="only time the fit, with and without BLAS threads")
    options = parser.parse_args()
    dataset = datasets.seg2017_patches(None)
    if options.fits:
        time_fits(options.mapping, dataset)
        return
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
