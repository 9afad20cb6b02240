"""Geobodies against the truth of synthetic volumes, stripes before and after fusing both directions, speed and memory.

python benchmarks/bodies.py truth               # volume and top from true labels, seeds 0 to 4
python benchmarks/bodies.py job                 # from the labels of a job with one exemplar per class; a few minutes
python benchmarks/bodies.py speed               # samples per second and peak memory on label volumes of growing length
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from xarray.core.indexing import LazilyIndexedArray

import outcrop as oc
from outcrop.datasets.places import exemplars
from outcrop.datasets.survey import synthetic, synthetic_top
from outcrop.geometry.bodies import find_bodies
from outcrop.job.fusion import voted_labels
from outcrop.mapping.confidence import as_codes
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lazy import LazyVolume

SHAPE, SIZE, EVERY = (120, 200, 256), 64, 4
STEP, BINS = 4.0, (25.0, 25.0)
SALT = "salt dome"


def stripes(labels, name):
    """Return how often the labels of a class differ on single lines, by direction.

    Parameters
    ----------
    labels : DataArray
        Codes on inline, crossline and time or depth, in memory; ``attrs["classes"]`` names them.
    name : str
        The class.

    Returns
    -------
    dict
        ``inline`` and ``crossline``: number of samples, per 1000 samples of the class, that have the class while both
        neighbours in that direction do not, or lack it while both have it. Labels of bodies that are larger than a line
        and equally smooth in both directions have small and equal numbers.

    Examples
    --------
    >>> codes = np.ones((5, 6, 7), np.uint8)
    >>> codes[2] = 2
    >>> labels = xr.DataArray(codes, dims=("inline", "crossline", "time"), attrs={"classes": ["other", "salt dome"]})
    >>> stripes(labels, "salt dome")
    {'inline': 1000.0, 'crossline': 0.0}
    """
    inside = as_codes(labels.values) == 1 + list(labels.attrs["classes"]).index(name)
    found = {}
    for axis, direction in enumerate(DIRECTIONS):
        turned = np.moveaxis(inside, axis, 0)
        single = (turned[1:-1] != turned[:-2]) & (turned[1:-1] != turned[2:])
        found[direction] = 1000 * float(single.sum() / max(inside.sum(), 1))
    return found


def against(labels, seed):
    """Compare volume and top of the largest salt body with the exact surface of the synthetic volume."""
    found, top = find_bodies(labels, SALT, bin_size=BINS), synthetic_top(SHAPE, seed=seed)
    true = float(np.maximum(STEP * (SHAPE[2] - 0.5) - top, 0).sum()) * np.prod(BINS)
    if not len(found.table):
        return {"bodies": 0}
    error = (found.surface(SALT).reindex_like(top) - top).values / STEP
    known = error[np.isfinite(error)]
    return {
        "bodies": len(found.table),
        "volume %": 100 * (found.table["volume"].iloc[0] / true - 1),
        "top mean": known.mean(),
        "top median |error|": np.median(np.abs(known)),
        "top RMS": np.sqrt(np.mean(known**2)),
        "top found %": 100 * len(known) / int(np.isfinite(top).sum()),
        "confidence": found.table["confidence"].iloc[0],
    }


def show(rows):
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.float_format", "{:.3f}".format):
        print(pd.DataFrame(rows).to_string(index=False), flush=True)


def truth(options):
    print("True labels; errors of the top in samples of 4 ms (sampling alone gives an RMS of 0.289)")
    rows = []
    for seed in options.seeds or range(5):
        _, labels = synthetic(SHAPE, seed=seed)
        rows.append({"seed": seed, **against(labels, seed)})
    show(rows)


def job(options):
    print(
        "Labels of a job, one exemplar per class; stripes: samples that differ on single lines, per 1000 of the class"
    )
    rows = []
    for seed in options.seeds or (0,):
        with tempfile.TemporaryDirectory() as folder:
            volume, true = synthetic(SHAPE, seed=seed)
            made = oc.Job(Path(folder) / "job.outcrop", volume=volume)
            made.index(SIZE, every=EVERY)
            for name, places in exemplars(true, SIZE, seed=seed).items():
                made.add_exemplar(name, places[0])
            made.label(mapping=options.mapping)
            fused = made.fused_labels()
            views = {
                "inlines": made.labels,
                "crosslines": voted_labels(made, [replace(made.plan, across=True)]),
                "fused": fused,
            }
            for direction, labels in views.items():
                labels = labels.load()
                row = {"seed": seed, "labels": direction, **against(labels, seed)}
                scores = oc.pixel_scores(labels["label"].assign_attrs(classes=labels.attrs["classes"]), true)
                row |= {"IU salt": scores["IU"][SALT], "MIU": scores["MIU"]}
                for name in (SALT, "fault", "chaotic"):
                    codes = labels["label"].assign_attrs(classes=labels.attrs["classes"])
                    row |= {f"{name} {axis}": n for axis, n in stripes(codes, name).items()}
                rows.append(row)
    show(rows)


def made_up(n_lines, n_traces, n_samples):
    """Return labels and confidence that are computed when they are read: a dome, a layer and noise."""
    traces, samples = np.arange(n_traces)[:, None], np.arange(n_samples)

    def block(what, key):
        lines = np.arange(n_lines)[key[0]]
        out = np.empty((len(lines), n_traces, n_samples), np.uint8)
        for i, line in enumerate(lines.tolist()):
            rng = np.random.default_rng(line)
            if what == "confidence":
                out[i] = 200
                continue
            out[i] = 1
            out[i][np.abs(samples - n_samples / 4 - 10 * np.sin(traces / 40 + line / 30)) < 15] = 2
            centre = ((line % 400 - 200) / 150) ** 2 + ((traces - n_traces / 2) / (n_traces / 4)) ** 2
            out[i][(samples > n_samples * (0.4 + 0.5 * centre)) & (samples < 0.95 * n_samples)] = 3
            out[i].ravel()[rng.integers(0, out[i].size, out[i].size // 2000)] = 3
        return out

    shape = (n_lines, n_traces, n_samples)
    axes = {"inline": np.arange(n_lines), "crossline": np.arange(n_traces), "time": STEP * np.arange(n_samples)}
    data = {
        what: (list(axes), LazilyIndexedArray(LazyVolume(partial(block, what), shape, "u1")))
        for what in ("label", "confidence")
    }
    return xr.Dataset(data, axes, {"classes": ["other", "chaotic", SALT], "bin_size": BINS})


def speed(options):
    """Measure each length in a separate process, so that each has its own peak memory."""
    for n_lines in options.lines:
        words = [sys.executable, __file__, "one", "--lines", str(n_lines), "--memory", str(options.memory)]
        subprocess.run(words, check=True)


def one(options):
    shape = (options.lines[0], 800, 1000)
    labels = made_up(*shape)
    begin = time.perf_counter()
    for start in range(0, shape[0], 16):
        labels.isel(inline=slice(start, start + 16)).load()
    making = time.perf_counter() - begin
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.perf_counter()
    found = find_bodies(labels, memory=int(options.memory * 1e9))
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    points = sum(len(outline.line) for outline in found.outlines.values())
    size = np.prod(shape) / 1e6
    print(
        f"{size:6.0f} M samples, 2 classes, {len(found.table)} bodies, outlines of {points} points: {seconds:5.1f} s "
        f"({making:.1f} s of it to make up the labels), {size / seconds:.1f} M samples a second; "
        f"peak memory {peak:.0f} MB, {before:.0f} MB before; the labels would take {2 * size:.0f} MB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["truth", "job", "speed", "one"])
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--mapping", default="points")
    parser.add_argument("--lines", type=int, nargs="+", default=[100, 400, 1600])
    parser.add_argument("--memory", type=float, default=1.0, help="GB")
    options = parser.parse_args()
    {"truth": truth, "job": job, "speed": speed, "one": one}[options.part](options)


if __name__ == "__main__":
    main()
