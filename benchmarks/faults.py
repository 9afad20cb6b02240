"""Fault sticks against interpreters' sticks and known planes, their speed and memory.

python -m benchmarks.faults --gsb DATA/gsb        # against an interpreter's sticks: precision and recall by threshold
python -m benchmarks.faults --planes   # synthetic volumes with known planes, seeds 0 to 4, without and with noise
python -m benchmarks.faults --f3 DATA --exemplars --figures OUT   # drawn over F3; inside and outside expert zones
python -m benchmarks.faults --speed               # samples per second, memory by the number of lines
python -m benchmarks.faults --speed --device cuda # the same with the encoder on a torch device
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import binary_dilation
from scipy.stats import norm

import outcrop as oc
from benchmarks.fault_planes import summed, surface_scores, volume_with_planes
from outcrop.geometry import faults, likelihood, tracing
from outcrop.geometry.sticks import drawn_sections
from outcrop.geometry.surfaces import surface_table

METHODS = {"encoder alone": 0.0, "discontinuity alone": 1.0, "both": likelihood.WEIGHT}
THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7)
ROWS, COLUMNS = np.ogrid[-3:4, -3:4]
DISC = ROWS**2 + COLUMNS**2 <= 9


def gsb_sections(folder):
    """Yield name, volume, interpreter's sticks and direction of every section; the folder's README defines the axes."""
    table = pd.read_csv(Path(folder) / "sticks.csv")
    for name, sticks in table.groupby("section"):
        amplitudes, number, inline = np.load(Path(folder) / f"{name}.npy"), int(name[4:]), name.startswith("inl")
        traces = (2568 if inline else 1565) + 2 * np.arange(amplitudes.shape[1])
        times = 1000 + 4.0 * np.arange(len(amplitudes))
        axes = {"inline": [number] if inline else traces, "crossline": traces if inline else [number], "time": times}
        volume = xr.DataArray(amplitudes.T[None] if inline else amplitudes.T[:, None], axes)
        yield name, volume, sticks.drop(columns="section"), "inline" if inline else "crossline"


def likelihoods(volume, along, weight):
    """Return the fault likelihood of the only line of a volume by one method."""
    direction = 0 if along == "inline" else 1
    section, _ = likelihood.section_of_line(volume, direction, 0)
    found = likelihood.fault_likelihood(section, weight=weight)
    found[:, : likelihood.EDGE] = found[:, -likelihood.EDGE :] = 0
    return found


def masks(volume, along, likelihood, threshold):
    """Return the sticks of a likelihood as a mask, drawn in the same way as the interpreter's sticks."""
    direction = 0 if along == "inline" else 1
    sticks = faults._table(volume, direction, 0, tracing.sticks_of(likelihood, threshold))
    drawn = drawn_sections(sticks, volume) if len(sticks) else {}
    return drawn.get((direction, 0), np.zeros(likelihood.shape, bool))


def counts(found, real):
    return np.array(
        [
            (found & binary_dilation(real, DISC)).sum(),
            found.sum(),
            (real & binary_dilation(found, DISC)).sum(),
            real.sum(),
        ],
        float,
    )


def f1(total):
    precision, recall = total[0] / max(total[1], 1), total[2] / max(total[3], 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def moved(mask, traces):
    """Return a mask shifted by some traces."""
    out = np.zeros_like(mask)
    n = mask.shape[1]
    out[:, max(traces, 0) : n + min(traces, 0)] = mask[:, max(-traces, 0) : n - max(traces, 0)]
    return out


def compare_gsb(folder):
    sections = list(gsb_sections(folder))
    real = [drawn_sections(sticks, volume)[(0 if along == "inline" else 1, 0)] for _, volume, sticks, along in sections]
    maps = {
        method: [likelihoods(volume, along, weight) for _, volume, _, along in sections]
        for method, weight in METHODS.items()
    }
    best: dict = {}
    for method, found in maps.items():
        for threshold in THRESHOLDS:
            drawn = [
                masks(volume, along, part, threshold)
                for (_, volume, _, along), part in zip(sections, found, strict=True)
            ]
            total = sum(counts(a, b) for a, b in zip(drawn, real, strict=True))
            precision, recall, score = f1(total)
            best[method] = max(best.get(method, (0, 0, None)), (score, threshold, drawn), key=lambda one: one[0])
            print(
                f"{method:20} threshold {threshold:.2f}: precision {precision:.3f} recall {recall:.3f} F1 {score:.3f}"
            )
            if method == "both" and threshold == tracing.THRESHOLD:
                default = drawn
    for method, (score, threshold, _) in best.items():
        print(f"{method:20} best F1 {score:.3f} at {threshold:.2f}")
    print("\nDefault of the product, section by section, unchanged and moved across traces")
    for (name, *_), drawn, human in zip(sections, default, real, strict=True):
        scores = {shift: f1(counts(moved(drawn, shift), human))[2] for shift in range(-3, 6)}
        print(f"{name}: F1 {scores[0]:.3f}; moved by " + ", ".join(f"{k:+d}: {v:.3f}" for k, v in scores.items()))
    print()
    for name in ("encoder alone", "both"):
        bootstrap(sections, real, best[name][2], best["discontinuity alone"][2], name)
    bootstrap(sections, real, default, best["discontinuity alone"][2], "default threshold, both")


def bootstrap(sections, real, ours, theirs, name, *, draws=2000, reach=12):
    """Print the bootstrap interval of the difference in F1 to dip-steered semblance, over the interpreter's sticks.

    A bootstrap item is a stick of the interpreter with the detections within `reach` traces of it. Detections near no
    stick are part of every draw.
    """
    items, fixed = [], [np.zeros(4), np.zeros(4)]
    for (_, volume, sticks, along), human, *found in zip(sections, real, ours, theirs, strict=True):
        direction = 0 if along == "inline" else 1
        taken = np.zeros_like(human)
        near_human, near = binary_dilation(human, DISC), [binary_dilation(part, DISC) for part in found]
        wide = np.ones((7, 2 * reach + 1))
        for _, stick in sticks.groupby("stick"):
            mine = drawn_sections(stick, volume)[(direction, 0)]
            around = binary_dilation(mine, wide) & ~taken
            taken |= around
            items.append(
                [
                    [(part & around & near_human).sum(), (part & around).sum(), (mine & close).sum(), mine.sum()]
                    for part, close in zip(found, near, strict=True)
                ]
            )
        for k, part in enumerate(found):
            fixed[k] += [(part & ~taken & near_human).sum(), (part & ~taken).sum(), 0, 0]
    items = np.array(items, float)
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(draws):
        total = items[rng.integers(len(items), size=len(items))].sum(axis=0)
        differences.append(f1(total[0] + fixed[0])[2] - f1(total[1] + fixed[1])[2])
    low, high = np.quantile(differences, norm.cdf([-1.96, 1.96]))
    print(
        f"{name}: F1 minus best dip-steered semblance {np.mean(differences):+.3f}, 95 % over {len(items)} sticks "
        f"{low:+.3f} to {high:+.3f}; above 0 in {100 * np.mean(np.array(differences) > 0):.0f} % of {draws} draws"
    )


def compare_planes(seeds, shape, device=None):
    """Print the scores against known planes, by direction and use of neighbours, without and with noise."""
    plain = likelihood.likelihood_of_line
    for noise in (None, 6.0):
        scores: dict = {}
        for seed in seeds:
            volume, planes = volume_with_planes(shape, seed=seed, noise=noise)
            likelihood.likelihood_of_line = _Likelihood(plain)
            for along, neighbours in (("inline", 0), ("inline", 2), ("both", 2)):
                sticks = oc.fault_sticks(volume, along=along, neighbours=neighbours, device=device)
                score = surface_scores(sticks, surface_table(sticks, volume), planes, shape)
                scores.setdefault((along, "2.5-D" if neighbours else "2-D"), []).append(score)
        for (along, kind), of_seeds in scores.items():
            row = summed(of_seeds)
            words = ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            level = "no noise" if noise is None else f"{noise:g} dB"
            print(f"{level:8} {along:6} {kind:5}: {words}", flush=True)
    likelihood.likelihood_of_line = plain


class _Likelihood:
    """Cached fault likelihood of the lines of one volume."""

    def __init__(self, compute):
        self.compute, self.known = compute, {}

    def __call__(self, volume, direction, position, device=None):
        if (direction, position) not in self.known:
            self.known[direction, position] = self.compute(volume, direction, position, device)
        return self.known[direction, position]


def draw_f3(data, figures, exemplars):
    """Draw sticks over four F3 lines, and print how much of them lies in the expert's fault zones."""
    sections, truth = oc.datasets.f3_sections(data)
    sections = sections.sel(time=slice(212, None))  # below the captions
    found = {"all faults": oc.fault_sticks(sections, neighbours=0)}
    if exemplars:
        found["of the class, exemplars on 310"] = exemplar_sticks(sections)
    code = truth.attrs["classes"].index("fault") + 1
    for name, sticks in found.items():
        drawn = drawn_sections(sticks, sections)
        for position, inline in enumerate(sections["inline"].values):
            here = sticks[sticks["inline"] == inline]
            words = f"{name}, inline {inline}: {here['stick'].nunique()} sticks"
            if inline in truth["inline"].values and (0, position) in drawn:
                expert = truth.sel(inline=inline, time=sections["time"]).values.T
                samples = drawn[(0, position)] & (expert > 0)
                inside, zone = (samples & (expert == code)).sum(), (expert == code).sum() / (expert > 0).sum()
                words += f", {inside} samples inside the expert's fault zones, {samples.sum() - inside} outside"
                words += f" ({100 * inside / max(samples.sum(), 1):.0f} % inside; the zones are {100 * zone:.1f} %)"
            print(words, flush=True)
            if figures:
                Path(figures).mkdir(parents=True, exist_ok=True)
                file = f"f3_{inline}_{'class' if 'class' in name else 'all'}.png"
                oc.plots.sticks(sections[position], sticks).figure.savefig(Path(figures) / file, dpi=110)


def exemplar_sticks(sections):
    """Return the sticks of class fault of a job with default options and the exemplars by eye on inline 310."""
    import tempfile
    import tomllib

    from outcrop import experiments
    from outcrop.job.faults import sticks_of_class

    table = tomllib.loads((Path(experiments.__file__).parent / "exemplars.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, oc.Job(Path(folder) / "f3.outcrop", volume=sections) as job:
        for name, places in table["310"].items():
            for place in places:
                job.add_exemplar(name, place)
        job.label()
        return sticks_of_class(job, "fault")


def speed(device=None):
    """Print samples per second and peak memory for volumes with growing numbers of lines."""
    import psutil

    template = volume_with_planes((8, 300, 400), seed=0)[0].values
    for lines in (8, 24, 72):
        amplitudes = np.broadcast_to(template[None], (lines // 8, *template.shape)).reshape(-1, *template.shape[1:])
        volume = oc.open_volume(np.array(amplitudes))
        before, peak = psutil.Process().memory_info().rss, [0]
        begin, begin_core = time.perf_counter(), time.process_time()

        def watch(what, done, total, peak=peak):
            peak[0] = max(peak[0], psutil.Process().memory_info().rss)

        oc.fault_sticks(volume, device=device, progress=watch)
        taken, core = time.perf_counter() - begin, time.process_time() - begin_core
        print(
            f"{lines} lines of 300 x 400: {volume.size / taken / 1e3:.0f} thousand samples per second, "
            f"{volume.size / core / 1e3:.0f} thousand per second of one core, "
            f"{(peak[0] - before) / 1e6:.0f} MB more than before (volume {volume.nbytes / 1e6:.0f} MB)",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsb")
    parser.add_argument("--planes", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shape", type=int, nargs=3, default=(50, 160, 160))
    parser.add_argument("--f3")
    parser.add_argument("--figures")
    parser.add_argument("--exemplars", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--device", help="a torch device for the encoder, for instance cuda")
    chosen = parser.parse_args()
    if chosen.gsb:
        compare_gsb(chosen.gsb)
    if chosen.planes:
        compare_planes(range(chosen.seeds), tuple(chosen.shape), chosen.device)
    if chosen.f3:
        draw_f3(chosen.f3, chosen.figures, chosen.exemplars)
    if chosen.speed:
        speed(chosen.device)


if __name__ == "__main__":
    main()
