"""Labels of a survey from a few confirmed lines.

python benchmarks/confirm.py --lines 104,112,119 --picture docs/confirm.png
OUTCROP_DATA=FOLDER python benchmarks/confirm.py --f3   # one line of F3, confirmed after 20 strokes

On a synthetic survey without exemplars the true labels of some lines are confirmed, one after the other, and all lines
are labelled. Prints the mean IU of the other lines by their distance to the nearest confirmed line, and the mean IU of
copying the labels of that line. With --f3 a simulated interpreter corrects a line of F3 by 20 strokes, starting from
the exemplars chosen by eye on that line, and confirms it; the other expert line is scored.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import outcrop as oc
from outcrop.experiments import interpreter
from outcrop.experiments.f3 import eye_exemplars
from outcrop.job.choosing import choose_labels

STROKES = 20  # with --f3


def mean_iu(found, true):
    """Return the mean IU of two sections over the classes of the second."""
    classes = np.unique(true[true > 0])
    return float(np.mean([((found == c) & (true == c)).sum() / ((found == c) | (true == c)).sum() for c in classes]))


def confirm_f3():
    """Print the mean IoU of each expert line of F3 before and after the other one is corrected and confirmed."""
    for setting in interpreter.settings(None, quick=False, only=["F3 330", "F3 310"]):
        setting = setting._replace(places=eye_exemplars(setting.line))
        with interpreter.opened(setting, seed=0, quick=False) as start:
            names = {code: name for name, code in start.job.classes.items()}
            painted = np.zeros(start.truth.shape, bool)
            before, labels = interpreter.learnt(start, None), interpreter.learnt(start, painted)
            for _ in range(STROKES):
                region, code = interpreter.largest_error(labels, start.truth, painted)
                if region is None:
                    break
                stroke = interpreter.disc(region, code)
                painted |= interpreter.covered(painted.shape, stroke.spots, stroke.radius)
                places = interpreter.places_on(start.job, setting.line, stroke.spots)
                start.job.paint(names[code], places, radius=stroke.radius)
                labels = interpreter.learnt(start, painted)
            start.job.confirm([setting.line])
            after, truth = interpreter.learnt(start, None), start.other_truth
            known = truth > 0
            scores = [mean_iu(some[known], truth[known]) for some in (before, after, labels)]
            corrected = mean_iu(labels[start.truth > 0], start.truth[start.truth > 0])
            print(f"inline {setting.line} corrected by {STROKES} strokes to {corrected:.3f} and confirmed:", end=" ")
            print(f"inline {setting.other} from {scores[0]:.3f} to {scores[1]:.3f}; copied {scores[2]:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--f3", action="store_true", help="one line of F3, confirmed after 20 strokes")
    parser.add_argument("--shape", default="24,200,256")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", default="104,112,119")
    parser.add_argument("--picture", help="Where to write sections of the line farthest from all confirmed ones.")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.f3:
        confirm_f3()
        return
    volume, truth = oc.datasets.synthetic(tuple(map(int, options.shape.split(","))), seed=options.seed)
    names, numbers = list(truth.attrs["classes"]), volume["inline"].values.tolist()
    confirmed: list[int] = []
    with tempfile.TemporaryDirectory() as folder, oc.Job(Path(folder) / "s.outcrop", volume=volume) as job:
        choose_labels(job, mapping="points")
        for line in map(int, options.lines.split(",")):
            begin = time.perf_counter()
            job.confirm([line], labels=truth)
            confirmed.append(line)
            nearest = {one: min(confirmed, key=lambda other: abs(other - one)) for one in numbers}
            job.label([next(one for one in numbers if one not in confirmed)])
            first = time.perf_counter() - begin
            labels = job.label().load()
            codes = np.array([0, *(names.index(name) + 1 for name in labels.attrs["classes"])] + [0] * 255)
            found = {one: codes[labels["label"].sel(inline=one).values] for one in numbers}
            true = {one: truth.sel(inline=one).values.astype(int) for one in numbers}
            print(f"lines {confirmed} confirmed: the next line after {first:.1f} s", end=", ")
            print(f"all {len(numbers)} after {time.perf_counter() - begin:.1f} s")
            for far in (1, 2, 4, 8, 12):
                some = [one for one in numbers if abs(one - nearest[one]) == far]
                if not some:
                    continue
                taught = np.mean([mean_iu(found[one], true[one]) for one in some])
                copied = np.mean([mean_iu(true[nearest[one]], true[one]) for one in some])
                print(f"  {far:2} lines away ({len(some)}): {taught:.3f}; copying the nearest {copied:.3f}")
        if options.picture:
            one = max(numbers, key=lambda number: abs(number - nearest[number]))
            picture = oc.plots.labelled_section(volume.sel(inline=one), labels.sel(inline=one))
            picture.figure.savefig(options.picture, dpi=110, bbox_inches="tight")
            print(f"{options.picture}: inline {one}")


if __name__ == "__main__":
    main()
