"""Effect of accepted and rejected patches on purity, and accuracy of the estimates made without truth.

python benchmarks/feedback.py                   # synthetic volumes: purity by clicks, share of wrong patches
python benchmarks/feedback.py --data DIR        # also F3 sections with expert labels, and the 2000 patches of SEG 2017

One exemplar per class is drawn at random. A click accepts or rejects one patch with known truth; judged patches are
evenly spaced in rank. The truth of the SEG 2017 patches is the class for which the paper retrieved them.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import outcrop as oc
from outcrop.evaluate.pixels import weak_label_scores

CLICKS = (0, 5, 10, 20)  # per class


def synthetic_jobs(folder, seeds):
    """Yield index, exemplars and judge of synthetic volumes."""
    for seed in seeds:
        source = folder / f"{seed}.sgy"
        oc.datasets.write_synthetic(source, (120, 200, 256), seed=seed)
        volume, truth = oc.open_volume(source), oc.open_volume(folder / f"{seed}.truth.sgy").astype("uint8")
        index = oc.build_index(volume, oc.PatchGrid(volume, size=64, step=16, every=4), folder / f"{seed}.outcrop")

        def judge(weak, index=index, truth=truth):
            return np.concatenate(list(weak_label_scores(weak, index.grid, truth).values()))

        for draw in (0, 1):
            yield f"synthetic {seed}", index, oc.datasets.exemplars(truth, 64, seed=draw), judge


def f3_jobs(folder, data, draws=4):
    """Yield index, exemplars and judge of the F3 sections; exemplars are drawn from the expert labels."""
    sections, truth = oc.datasets.f3_sections(data)
    volume = sections.sel(time=slice(212, None))  # the pictures contain a caption above
    truth = truth.sel(time=volume["time"]).astype("uint8")
    index = oc.build_index(volume, oc.PatchGrid(volume, size=99, step=22), folder / "f3.outcrop")

    def judge(weak):
        return np.concatenate(list(weak_label_scores(weak, index.grid, truth).values()))

    for draw in range(draws):
        yield "F3 sections", index, oc.datasets.exemplars(truth, 99, min_share=0.2, seed=draw), judge


def patch_jobs(folder, data, draws=4):
    """Yield index, exemplars and judge of the 2000 patches, as a volume with one patch per line."""
    patches = oc.datasets.seg2017_patches(data)
    classes = patches["weak"].values.astype(str)
    volume = xr.DataArray(patches["image"].values.swapaxes(1, 2), dims=("inline", "crossline", "time"))
    volume = volume.assign_coords({name: np.arange(n) for name, n in volume.sizes.items()}).assign_attrs(scaled=True)
    index = oc.build_index(volume, oc.PatchGrid(volume, size=99, step=99), folder / "real.outcrop")
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        rows = {name: rng.choice(np.flatnonzero(classes == name)) for name in np.unique(classes)}
        places = {str(name): [(int(row), 49, 49)] for name, row in rows.items()}
        yield "SEG 2017", index, places, lambda weak: 1.0 * (classes[weak.rows] == weak.classes)


def purity_by_clicks(index, places, judge, count):
    """Return the purity after each number of clicks, and the seconds of the last search with verdicts."""
    weak, found, seconds = oc.retrieve(index, places, count), {}, 0.0
    judged = {"accepted": {name: [] for name in places}, "rejected": {name: [] for name in places}}
    for clicks in range(0, CLICKS[-1] + 1, 5):
        if clicks:
            for verdicts, chosen in zip(judged.values(), answers(weak, judge(weak)), strict=True):
                for name, where in weak.places(chosen).items():
                    verdicts[name] += where
            begin = time.perf_counter()
            weak = oc.retrieve(index, places, count, **judged)
            seconds = time.perf_counter() - begin
        if clicks in CLICKS:
            found[clicks] = np.nanmean(judge(weak))
    return found, seconds


def answers(weak, right):
    """Return the positions of unjudged patches that five clicks per class accept and reject."""
    judged = [row for given in (weak.accepted, weak.rejected) for rows in given.values() for row in rows]
    open_ = np.isfinite(right) & ~np.isin(weak.rows, judged)
    by_class = [np.flatnonzero(open_ & (weak.classes == name)) for name in weak.accepted]
    clicks = np.concatenate(
        [rows[np.unique(np.linspace(0, len(rows) - 1, 5).astype(int))] for rows in by_class if len(rows)]
    )
    return clicks[right[clicks] == 1], clicks[right[clicks] == 0]


def estimates(weak, right):
    """Return the estimated and the true share of wrong patches by class, and the purity with and without weights."""
    for name in dict.fromkeys(weak.classes):
        judged = (weak.classes == name) & np.isfinite(right)
        weighted = np.average(right[judged], weights=weak.weights[judged])
        yield {"class": str(name), "judged": int(judged.sum()), "suggested": weak.suggested[name]} | {
            "estimated wrong": weak.wrong[name], "wrong": 1 - right[judged].mean(), "weighted wrong": 1 - weighted,
        }  # fmt: skip


def main():
    options = parse()
    clicks, wrong, counts = [], [], {"F3 sections": 200, "SEG 2017": 500}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = [*f3_jobs(folder, options.data), *patch_jobs(folder, options.data)] if options.data else []
        jobs = [*synthetic_jobs(folder, range(options.seeds)), *real]
        for data, index, places, judge in jobs:
            count = counts.get(data, 100)
            found, seconds = purity_by_clicks(index, places, judge, count)
            clicks.append({"data": data, **{f"{n} clicks": p for n, p in found.items()}, "seconds": seconds})
            kinds = {str(count): oc.retrieve(index, places, count), "auto": oc.retrieve(index, places, "auto")}
            for kind, weak in kinds.items():
                wrong += [{"data": data, "count": kind, **row} for row in estimates(weak, judge(weak))]
    pd.options.display.width = 160
    print("purity of the retrieved patches, by clicks per class")
    print(pd.DataFrame(clicks).groupby("data").mean().round(3).to_string())
    table = pd.DataFrame(wrong)
    print("\nshare of wrong patches: estimated without truth, true, and true with weights")
    print(table.groupby(["data", "count", "class"]).mean().round(2).to_string())
    for what, rows in (("all classes", table), ("without other", table[table["class"] != "other"])):
        error = (rows["estimated wrong"] - rows["wrong"]).abs().mean()
        print(f"\n{what}: mean error of the estimate {error:.3f}, ", end="")
        print(f"correlation {rows['estimated wrong'].corr(rows['wrong']):.2f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the real data")
    parser.add_argument("--seeds", type=int, default=3, help="number of synthetic volumes; two draws of exemplars each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
