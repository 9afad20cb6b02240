"""Time and memory of a mapping at the paper's size: fitted on its 2000 patches, then whole sections of F3 labelled.

python benchmarks/labelling.py                  # encoder, the default
python benchmarks/labelling.py --mapping texture
python benchmarks/labelling.py --fits           # the fit with one BLAS thread, as a job does it, and with all of them
python benchmarks/labelling.py --device cuda    # labels on a torch device, and how many differ from those of the CPU

Every line is another one (the four sections at hand, each rolled by some traces), so nothing is kept from the last.
The floor is the time that matrix products with as many multiplications take: those of the encoder's convolutions, for
every section and its mirror image, and of the random features.

Reads the real data from OUTCROP_DATA.
"""

import argparse
import os
import resource
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np
import xarray as xr

import outcrop as oc
from outcrop import datasets
from outcrop.features.encoder import STRIDE, WEIGHTS
from outcrop.features.torch_encoder import initialisers
from outcrop.labels.votes import line_votes
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
            with mock.patch("outcrop.mapping.texture.one_blas_thread", limit):
                oc.MAPPERS[mapping]().fit(patches, classes)
            taken.append(time.perf_counter() - begin)
    for name, taken in seconds.items():
        print(f"{mapping}, {len(few)} patches, {name}: {min(taken):.1f} s (of {', '.join(f'{s:.1f}' for s in taken)})")


def multiplications(mapper):
    """Multiplications a sample: convolutions of the encoder at their resolutions, and random features at the nodes."""
    features, weights, _ = mapper.models_[0]
    nodes = features.weights.size + weights.size
    total = nodes * len(mapper.models_) * 2 / STRIDE**2
    if isinstance(mapper, oc.EncoderMapper):
        kernels = [array for array in initialisers(WEIGHTS).values() if array.ndim == 4]
        strides = [2, 2, 2, 4, 4, 8, 8, 16, 16, 8, 8, 4, 4, 2, 2, 2]
        total += 2 * sum(kernel.size / stride**2 for kernel, stride in zip(kernels, strides, strict=True))
    return total


def products_a_second(device=None, n=2048, rounds=5):
    """Multiplications a second in products of matrices, the best of some rounds."""
    if device is None:
        a = np.random.default_rng(0).random((n, n), np.float32)
        multiply, wait = (lambda: a @ a), (lambda: None)
    else:
        import torch

        n = 4 * n
        b = torch.rand(n, n, device=device)
        multiply, wait = (lambda: b @ b), (torch.cuda.synchronize if "cuda" in device else lambda: None)
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        multiply()
        wait()
        seconds.append(time.perf_counter() - begin)
    return n**3 / min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mapping", default="encoder", choices=["encoder", "texture"])
    parser.add_argument("--lines", type=int, default=16, help="sections to label")
    parser.add_argument("--device", help="a torch device, for instance cuda")
    parser.add_argument("--saved", help="folder of a fitted mapper, written by the first run and read by the next")
    parser.add_argument("--fits", action="store_true", help="only time the fit, with and without BLAS threads")
    options = parser.parse_args()
    if options.fits:
        time_fits(options.mapping, datasets.seg2017_patches(None))
        return
    sections, _ = datasets.f3_sections(None)
    mapper = fitted(options.mapping, options.saved)
    volume = several(sections, options.lines)
    grid = oc.PatchGrid(volume, size=99, step=33)
    oc.label_volume(volume, grid, mapper, lines=[0], device=options.device)  # windows and nets are warm
    begin = time.perf_counter()
    labels = oc.label_volume(volume, grid, mapper, device=options.device)
    rate = volume.size / (time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in line_votes(several(sections, options.lines, first=18), grid, mapper, device=options.device):
        pass
    votes = volume.size / (time.perf_counter() - begin)
    floor = products_a_second(options.device) / multiplications(mapper)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    where = options.device or f"{n_cores()} cores"
    print(f"{options.mapping} on {where}: labels {rate / 1e6:.2f} million samples a second, peak {peak:.0f} MB;")
    print(f"F3 in {F3 / rate / 60:.1f} minutes")
    print(f"votes alone {votes / 1e6:.2f} million; their products alone {floor / 1e6:.2f}, {floor / votes:.1f} times")
    if options.device:
        few = volume.isel(inline=slice(4))
        alone = oc.label_volume(few, oc.PatchGrid(few, size=99, step=33), mapper)
        other = (labels["label"].values[:4] != alone["label"].values).mean()
        print(f"labels that differ from those of the CPU: {other:.1e}")


def fitted(mapping, folder):
    """A mapper fitted on the paper's patches, or the saved one."""
    if folder and os.path.isdir(folder):
        return oc.load_mapper(folder)
    dataset = datasets.seg2017_patches(None)
    begin = time.perf_counter()
    mapper = oc.MAPPERS[mapping]().fit(dataset["image"].values, dataset["weak"].values)
    seconds = time.perf_counter() - begin
    print(f"{mapping} on {n_cores()} cores: fitted on {len(dataset['image'])} patches in {seconds:.0f} s", flush=True)
    if folder:
        mapper.save(folder)
    return mapper


def several(sections, n, first=0):
    """Many different lines: the sections over and over, rolled by some traces each time."""
    rolls = [(k % len(sections), first + 37 * (k // len(sections))) for k in range(n)]
    values = [np.roll(sections.values[line], traces, axis=0) for line, traces in rolls]
    coords = {"inline": np.arange(n), **{name: sections[name].values for name in sections.dims[1:]}}
    return xr.DataArray(np.stack(values), coords, sections.dims, attrs=sections.attrs)


if __name__ == "__main__":
    main()
