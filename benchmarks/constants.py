"""Effect of each constant and part of the mapping from points on labels from one random click for each class.

OUTCROP_DATA=FOLDER python benchmarks/constants.py          # every constant at half and at double
OUTCROP_DATA=FOLDER python benchmarks/constants.py --parts  # without graph, position, encoder, energies; graph sizes

Clicks and scores are those of `benchmarks/clicks.py`: mean IoU of 16 sets on F3, the same without a click for the
background, 5 on Penobscot and 9 on synthetic volumes. Differences below .01 are not significant.
"""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from clicks import Array, Survey, clicks, experiments, scored, surveys

from outcrop.mapping import landmarks, layers, pixels, points, survey_sample
from outcrop.mapping.landmarks import LandmarkGraph, landmark_graphs
from outcrop.mapping.survey_sample import N_ENERGIES, SurveySample, sample_survey


class Constant(NamedTuple):
    """A constant of the mapping."""

    module: Any
    name: str
    unit: str
    in_sample: bool = False  # whether the survey is sampled again when it changes


CONSTANTS = (
    Constant(survey_sample, "N_LANDMARKS", "grid points", in_sample=True),
    Constant(survey_sample, "SMOOTH", "grid points", in_sample=True),
    Constant(survey_sample, "NEIGHBOUR", "grid points", in_sample=True),
    Constant(survey_sample, "DIP_SMOOTHING", "grid points", in_sample=True),
    Constant(landmarks, "GRAPH_SIZE", "landmarks"),
    Constant(landmarks, "N_NEIGHBOURS", "landmarks"),
    Constant(landmarks, "N_NEAREST", "landmarks"),
    Constant(landmarks, "ALPHA", "chance to go on"),
    Constant(landmarks, "FINE_VARIANCE", "variance of all energies"),
    Constant(landmarks, "SHARE_PRIOR", "exponent"),
    Constant(layers, "LAYERED", "share of variance"),
    Constant(points, "NEAR", "samples, traces"),
    Constant(points, "OPPOSED", "mean reach"),
    Constant(points, "POWER", "exponent"),
    Constant(pixels, "REACH", "samples, traces"),
    Constant(pixels, "EDGE", "distance between landmarks"),
)
HOMES = (survey_sample, landmarks, layers, points, pixels)
BLOCK_SCALE = landmarks._block_scale
Samples = dict[str, SurveySample]


@contextlib.contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    """Temporarily give a name another value in every module of the mapping that has it."""
    before = {home: getattr(home, name) for home in HOMES if hasattr(home, name)}
    for home in before:
        setattr(home, name, value)
    survey_sample.KEPT.clear()  # features in memory are of the value before
    try:
        yield
    finally:
        for home, value in before.items():
            setattr(home, name, value)
        survey_sample.KEPT.clear()


def scaled(constant: Constant, factor: float) -> Any:
    """Return a constant times a factor; of a chance to go on, the number of steps is multiplied."""
    value = getattr(constant.module, constant.name)
    if constant.name == "ALPHA":
        return 1 - (1 - value) / factor
    if isinstance(value, tuple):
        return tuple(part * factor for part in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def density(graph: LandmarkGraph, seeds: Array) -> Array:
    """Return the kernel density of seeds at every landmark, with mean 1: the reach without a graph."""
    squares = ((graph.points[:, None] - graph.points[seeds.any(axis=1)]) ** 2).sum(axis=-1)
    found = np.exp(-squares / graph.width**2) @ seeds[seeds.any(axis=1)] + 1e-9
    relative: Array = (found / found.mean(axis=0)).astype(np.float32)
    return relative


def without_energies(features: Array) -> Array:
    """Return the scale of features with which energies count for nothing."""
    scale = BLOCK_SCALE(features)
    scale[:N_ENERGIES] = 0
    return scale


def sampled(every: Sequence[Survey]) -> Samples:
    return {one.name: sample_survey(one.sections.items(), n_landmarks=survey_sample.N_LANDMARKS) for one in every}


def scores(every: Sequence[Survey], samples: Samples) -> list[float]:
    """Return the mean IoU on F3, on F3 without a click for the background, on Penobscot and on synthetic volumes."""
    found: dict[str, list[float]] = {}
    for survey in every:
        graphs = landmark_graphs(samples[survey.name])
        for line, seed, kind in experiments(survey, 0):
            shown = clicks(survey.truth[line], line, survey.classes, seed, kind)
            for name, without in (("", False), (" without background", True)):
                if without and survey.name != "f3":
                    continue
                some = [point for point in shown if not without or point.name != survey.background]
                score = scored(survey, samples[survey.name], graphs, some, kind).score
                found.setdefault(survey.name.split()[0] + name, []).append(score)
    return [float(np.mean(part)) for part in found.values()]


def parts() -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return the name of each part that is left out, and the names and values that leave it out."""
    return [
        ("graph of one landmark in four", [("N_LANDMARKS", 2000)]),
        ("no graph: kernel density", [("LandmarkGraph", type("Density", (LandmarkGraph,), {"reach": density}))]),
        ("no position: no layers", [("LAYERED", 2.0)]),
        ("no encoder", [("FINE_VARIANCE", 0.0)]),
        ("no energies", [("_block_scale", without_energies)]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true", help="leave out parts; without it, change constants")
    parser.add_argument("--only", help="name of one constant")
    options = parser.parse_args()
    every = surveys(["f3", "penobscot", "synthetic"])
    samples = sampled(every)
    print(f"{'':44} {'f3':>6} {'no bg':>6} {'penob':>6} {'synth':>6}")

    def show(what: str, samples: Samples) -> None:
        print(f"{what:44}", *(f"{score:6.3f}" for score in scores(every, samples)), flush=True)

    show("unchanged", samples)
    if options.parts:
        for what, changes in parts():
            with contextlib.ExitStack() as stack:
                for name, value in changes:
                    stack.enter_context(changed(name, value))
                show(what, sampled(every) if what.startswith("graph") else samples)
        return
    for constant in CONSTANTS:
        if options.only in (None, constant.name):
            for factor in (0.5, 2):
                value = scaled(constant, factor)
                with changed(constant.name, value):
                    show(f"{constant.name} {value} {constant.unit}", sampled(every) if constant.in_sample else samples)


if __name__ == "__main__":
    main()
