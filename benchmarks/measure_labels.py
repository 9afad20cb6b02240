"""Scores of labels on F3 from random exemplars, for each measure of an index.

python benchmarks/measure_labels.py --draws 3

Two random exemplars per class on inline 310 or 330, default options except the measure; the other inline is labelled
and scored against the expert. Needs OUTCROP_DATA.
"""

import argparse
import tempfile
from pathlib import Path

import outcrop as oc
from outcrop.measures.registry import INDEXED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    sections, truth = oc.datasets.f3_sections()
    volume = sections.sel(time=slice(212, None))  # the pictures contain a caption above
    truth = truth.sel(time=volume["time"])
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.draws):
            line = 310 + 20 * (seed % 2)
            drawn = oc.datasets.exemplars(truth.sel(inline=[line]), 99, count=2, min_share=0.2, seed=100 + seed)
            for measure in INDEXED:
                with oc.Job(Path(folder) / f"{measure}.outcrop", volume=volume) as job:
                    score = scored(job, measure, drawn, truth.sel(inline=[640 - line]))
                found = ", ".join(f"{name} {value:.2f}" for name, value in score["IU"].items())
                print(f"draw {seed}, {measure}: {line} -> {640 - line}: MIU {score['MIU']:.3f}; {found}", flush=True)


def scored(job, measure, places, truth):
    """Return the scores of the labels from some exemplars on the line of the truth."""
    job.index(measure=measure)
    for one in job.plan.state.exemplars:
        job.remove_exemplar(one.id)
    for name, some in places.items():
        for place in some:
            job.add_exemplar(name, place)
    job.retrieve()
    return oc.pixel_scores(job.label(truth["inline"].values)["label"].assign_attrs(classes=list(job.classes)), truth)


if __name__ == "__main__":
    main()
