"""Time and memory of the default mapping: sampling the survey, fitting three clicks, labelling whole sections.

python benchmarks/labelling.py                  # F3 sections if OUTCROP_DATA has them, else synthetic sections
python benchmarks/labelling.py --lines 48
python benchmarks/labelling.py --lines 256 --device cuda   # energies and encoder on a GPU

All lines differ (sections rolled by some traces), so that caches have no effect.
"""

import argparse
import time

import numpy as np
import psutil
import xarray as xr

import outcrop as oc
from outcrop.labels.votes import line_votes
from outcrop.mapping.landmarks import landmark_graphs
from outcrop.mapping.points import Point, PointMapper
from outcrop.mapping.survey_sample import sample_survey
from outcrop.parallel import n_cores

F3 = 286e6  # samples of the whole survey
SAMPLED = 12  # lines of the survey that are sampled


def sections():
    """Return sections to label, and expert or true labels of some of them."""
    try:
        return oc.datasets.f3_sections()
    except (ValueError, OSError):
        return oc.datasets.synthetic((4, 400, 400), seed=0)


def several(volume, n, first=0):
    """Return many different lines: the lines of a volume repeated, each time rolled by some traces."""
    rolls = [(k % len(volume), first + 37 * (k // len(volume))) for k in range(n)]
    values = [np.roll(volume.values[line], traces, axis=0) for line, traces in rolls]
    coords = {"inline": np.arange(n), **{name: volume[name].values for name in volume.dims[1:]}}
    return xr.DataArray(np.stack(values), coords, volume.dims, attrs=volume.attrs)


def fitted(volume, truth):
    """Return a `PointMapper` fitted to one point for each class, and the seconds of sample, graphs and fit."""
    grid = oc.PatchGrid(volume, size=64, step=64)

    def read(line):
        return grid.section(volume, 0, int(line))[0].T

    line = int(np.flatnonzero(volume["inline"].values == truth["inline"].values[0])[0])
    points = []
    for code, name in enumerate(truth.attrs["classes"], 1):
        places = np.argwhere(truth.values[0] == code)
        if len(places):
            points.append(Point(line, *places[len(places) // 2].tolist(), name))
    seconds = [time.perf_counter()]
    sample = sample_survey((line, read(line)) for line in range(min(SAMPLED, len(volume))))
    seconds.append(time.perf_counter())
    graphs = landmark_graphs(sample)
    seconds.append(time.perf_counter())
    mapper = PointMapper("other").fit(sample, points, read, graphs=graphs)
    seconds.append(time.perf_counter())
    return mapper, np.diff(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=16, help="sections to label")
    parser.add_argument("--device", help="torch device that computes features, for instance cuda")
    options = parser.parse_args()
    volume, truth = sections()
    mapper, seconds = fitted(volume, truth)
    names = ("sample", "graphs", "fit")
    parts = ", ".join(f"{name} {one:.1f} s" for name, one in zip(names, seconds, strict=True))
    print(f"{min(SAMPLED, len(volume))} lines of {volume.shape[1]} x {volume.shape[2]} on {n_cores()} cores: {parts}")
    many = several(volume, options.lines)
    grid = oc.PatchGrid(many, size=64, step=64)
    list(line_votes(many, grid, mapper, [0], device=options.device))  # windows and nets are warm
    begin = time.perf_counter()
    for _ in line_votes(many, grid, mapper, device=options.device):
        pass
    rate = many.size / (time.perf_counter() - begin)
    peak = psutil.Process().memory_info().rss / 1e6
    print(f"votes {rate / 1e6:.2f} million samples a second (F3 in {F3 / rate / 60:.0f} minutes), memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
