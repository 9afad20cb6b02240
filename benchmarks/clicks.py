"""One random click for each class: labels of `PointMapper` from arrays, without jobs, against experts' labels.

OUTCROP_DATA=FOLDER python benchmarks/clicks.py               # F3, Penobscot and synthetic volumes
OUTCROP_DATA=FOLDER python benchmarks/clicks.py f3 --without-background
OUTCROP_DATA=FOLDER python benchmarks/clicks.py f3 --seed 100  # other clicks
OUTCROP_DATA=FOLDER python benchmarks/clicks.py f3 --by-eye    # five exemplars chosen by eye, and the top of the salt

On F3 and synthetic volumes half of the sets have clicks well inside the structures, a quarter anywhere inside, also
near the edge of the volume, and a quarter within 4 pixels of a boundary; on Penobscot all are well inside each unit.
Scores are of the lines without clicks.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

import outcrop as oc
from outcrop.labels.decision import confidence_for
from outcrop.mapping.landmarks import LandmarkGraph, landmark_graphs
from outcrop.mapping.points import Point, PointMapper
from outcrop.mapping.survey_sample import N_LANDMARKS, SurveySample, sample_survey
from outcrop.patches.grid import PatchGrid

Array = npt.NDArray[Any]
KINDS = ("inside", "inside", "anywhere", "edge")
MAX_ERROR, MOST_WRONG = 0.05, 0.07
BY_EYE = {"chaotic": [(420, 1272)], "fault": [(545, 1620)], "other": [(600, 752), (1050, 500)]}  # crossline, time


class Survey(NamedTuple):
    """A survey of sections, some with expert labels."""

    name: str
    sections: dict[int, Array]  # line -> (n_samples, n_traces), in [0, 1]
    truth: dict[int, Array]  # line -> (n_samples, n_traces), 0 not labelled
    classes: list[str]
    background: str | None


class Result(NamedTuple):
    """The scores of one set of clicks."""

    survey: str
    kind: str
    score: float
    by_class: Array
    confidence: float
    accuracy: float
    kept: float  # share of clicks near which at least half of the samples of their class carry it
    labelled: float  # share of the samples that a maximum error of 5 % leaves labelled
    wrong: float  # share of wrong labels among them
    salt_top: float  # median distance to the top of the salt dome, samples
    nearest: float  # score of the class of the click nearest in time


def surveys(names: list[str]) -> list[Survey]:
    found = []
    if "f3" in names:
        volume, truth = (part.sel(time=slice(212, None)) for part in oc.datasets.f3_sections())
        lines = {int(line): volume.sel(inline=line).values.T for line in volume["inline"].values}
        labels = {int(line): truth.sel(inline=line).values.T for line in truth["inline"].values}
        found.append(Survey("f3", lines, labels, list(truth.attrs["classes"]), "other"))
    if "penobscot" in names:
        file = np.load(Path(os.environ["OUTCROP_DATA"]) / "penobscot" / "lines.npz")
        lines = dict(zip(file["inline"].tolist(), file["image"].swapaxes(1, 2) / np.float32(255), strict=True))
        labels = dict(zip(lines, file["unit"].swapaxes(1, 2), strict=True))
        found.append(Survey("penobscot", lines, labels, [f"unit {k}" for k in range(1, 9)], None))
    if "synthetic" in names:
        for seed in (0, 1, 2):
            volume, truth = oc.datasets.synthetic((24, 200, 256), seed=seed)
            grid = PatchGrid(volume, size=99, step=33)
            rows = range(0, 24, 2)
            lines = {int(volume["inline"][row]): grid.section(volume, 0, row)[0].T for row in rows}
            labels = {int(volume["inline"][row]): truth.values[row].T for row in rows[::2]}
            found.append(Survey(f"synthetic {seed}", lines, labels, list(truth.attrs["classes"]), "other"))
    return found


def clicks(truth: Array, line: int, names: list[str], seed: int, kind: str) -> list[Point]:
    """Return one random point for each class."""
    truth, points = truth.T, []
    rng = np.random.default_rng(seed)
    for code, name in enumerate(names, 1):
        far = distance_transform_edt(np.pad(truth == code, 1, mode="edge"))[1:-1, 1:-1]
        if not far.any():
            continue
        inside, near = far >= min(8, 0.6 * far.max()), np.zeros(truth.shape, bool)
        near[50:-50, 50:-50] = True
        wanted = {"inside": inside & near, "anywhere": inside, "edge": (far >= 1) & (far <= 4) & near}[kind]
        places = np.argwhere(wanted if wanted.any() else inside)
        trace, sample = places[rng.integers(len(places))].tolist()
        points.append(Point(line, trace, sample, name))
    return points


def by_eye(line: int) -> list[Point]:
    """Return the exemplars of F3 that were chosen by eye, on inline 310 or 330."""
    places = BY_EYE | {"salt dome": [(885 if line == 310 else 870, 1600)]}
    return [Point(line, x - 300, (t - 212) / 4, name) for name, some in places.items() for x, t in some]


def experiments(survey: Survey, seed: int) -> list[tuple[int, int, str]]:
    """Return line, seed and kind of every set of clicks."""
    if survey.name == "f3":
        return [(310 + 20 * (k % 2), seed + k, KINDS[k // 2 % 4]) for k in range(16)]
    if survey.name == "penobscot":
        return [(1075, seed + k, "inside") for k in range(5)]
    return [(list(survey.truth)[2], seed + k, KINDS[k + 1]) for k in range(3)]


def class_scores(labels: Array, truth: Array, n_classes: int) -> Array:
    """Return the intersection over union of every class; NaN for a class that the truth lacks."""
    known, codes = truth > 0, np.arange(1, n_classes + 1)
    both = [((labels == code) & (truth == code)).sum() for code in codes]
    either = [(((labels == code) | (truth == code)) & known).sum() for code in codes]
    present = [(truth == code).any() for code in codes]
    return np.where(present, np.array(both) / np.maximum(either, 1), np.nan)


def nearest_in_time(points: list[Point], classes: list[str], shape: tuple[int, ...]) -> Array:
    """Return, for every sample, the class of the click nearest in time."""
    codes = np.array([classes.index(point.name) + 1 for point in points])
    distance = np.abs(np.arange(shape[0])[:, None] - [point.sample for point in points])
    return np.repeat(codes[distance.argmin(axis=1)][:, None], shape[1], axis=1)


def scored(
    survey: Survey,
    sample: SurveySample,
    graphs: list[LandmarkGraph],
    points: list[Point],
    kind: str,
    pictures: str | None = None,
) -> Result:
    n, line = len(survey.classes), points[0].line
    mapper = PointMapper(survey.background).fit(sample, points, survey.sections.__getitem__, graphs=graphs)
    codes = np.array([survey.classes.index(name) + 1 for name in mapper.classes_])
    scores, rules, sure, right, limited, tops = [], [], [], [], [], []
    for number, truth in survey.truth.items():
        if pictures:
            name = f"{survey.name} {line:g} to {number} {kind} {points[0].trace:g}.png".replace(" ", "-")
            draw(survey, mapper, points, number, Path(pictures) / name)
        votes = mapper.votes(survey.sections[number], number).swapaxes(0, 1)
        labels = codes[votes.argmax(axis=-1)]
        if number == line:
            kept = np.mean([_is_kept(labels, truth, point, survey.classes.index(point.name) + 1) for point in points])
            continue
        known = truth > 0
        scores.append(class_scores(labels, truth, n))
        confidence = np.round(255 * votes.max(axis=-1))[known].astype(np.uint8)
        confident = confidence >= np.ceil(255 * confidence_for(confidence, MAX_ERROR) - 1e-6)
        limited.append((confident.mean(), (labels != truth)[known][confident].mean() if confident.any() else 0))
        tops.append(salt_top(labels, truth, survey.classes))
        rules.append(np.nanmean(class_scores(nearest_in_time(points, survey.classes, truth.shape), truth, n)))
        sure.append(votes.max(axis=-1)[known].mean())
        right.append((labels == truth)[known].mean())
    score = float(np.mean([np.nanmean(one) for one in scores]))
    left, wrong = np.mean(limited, axis=0).tolist()
    confidence, accuracy, held, rule = (float(np.mean(part)) for part in (sure, right, kept, rules))
    of_class = np.nanmean(scores, axis=0)
    name = survey.name.split()[0]
    return Result(name, kind, score, of_class, confidence, accuracy, held, left, wrong, float(np.mean(tops)), rule)


def salt_top(labels: Array, truth: Array, classes: list[str]) -> float:
    """Return the median distance in samples from the top of salt to the expert's, over traces; NaN without salt."""
    if "salt dome" not in classes:
        return float("nan")
    salt = [(one == classes.index("salt dome") + 1) for one in (labels, truth)]
    both = salt[0].any(axis=0) & salt[1].any(axis=0)
    return float(np.median(np.abs(np.subtract(*(one.argmax(axis=0) for one in salt)))[both])) if both.any() else np.nan


def draw(survey: Survey, mapper: PointMapper, points: list[Point], line: int, path: Path) -> None:
    """Draw the clicks, labels, the expert's labels and the confidence of a line."""
    import matplotlib.pyplot as plt

    codes = np.array([survey.classes.index(name) + 1 for name in mapper.classes_])
    section, truth = survey.sections[line], np.ma.masked_equal(survey.truth[line], 0)
    votes = mapper.votes(section, line).swapaxes(0, 1)
    labels = {"labels": codes[votes.argmax(axis=-1)], "expert": truth}
    figure, axes = plt.subplots(2, 2, figsize=(16, 10), sharex=True, sharey=True, layout="constrained")
    colours = plt.get_cmap("tab10", len(survey.classes))
    for axis in axes.flat[:3]:
        axis.imshow(section, cmap="gray", aspect="auto")
    for axis, (name, values) in zip(axes.flat[1:3], labels.items(), strict=True):
        axis.imshow(
            values,
            cmap=colours,
            vmin=0.5,
            vmax=len(survey.classes) + 0.5,
            alpha=0.5,
            aspect="auto",
            interpolation="none",
        )
        axis.set_title(f"{name}, line {line}")
    for point in points:
        colour = colours(survey.classes.index(point.name))
        axes[0, 0].plot(point.trace, point.sample, "o", ms=12, color=colour, mec="white", label=point.name)
    axes[0, 0].set_title(f"{survey.name}: clicks on line {points[0].line:g}")
    axes[0, 0].legend(loc="lower right")
    figure.colorbar(axes[1, 1].imshow(votes.max(axis=-1), vmin=0, vmax=1, aspect="auto"), ax=axes[1, 1])
    axes[1, 1].set_title("confidence")
    figure.savefig(path, dpi=60)
    plt.close(figure)


def _is_kept(labels: Array, truth: Array, point: Point, code: int) -> bool:
    rows, columns = np.indices(truth.shape, sparse=True)
    near = np.hypot(rows - point.sample, columns - point.trace) <= 4
    return bool((labels == code)[near & (truth == code)].mean() >= 0.5)


def report(results: list[Result]) -> None:
    for survey in dict.fromkeys(result.survey for result in results):
        of = [result for result in results if result.survey == survey]
        scores = np.array([result.score for result in of])
        kinds = {k: round(float(np.mean([r.score for r in of if r.kind == k])), 3) for k in {r.kind: 0 for r in of}}
        gap = np.abs([result.confidence - result.accuracy for result in of])
        print(f"{survey}: mean IoU of {len(of)} sets {scores.mean():.3f}, worst four {np.sort(scores)[:4].mean():.3f}")
        for kind in kinds:
            classes = np.mean([result.by_class for result in of if result.kind == kind], axis=0)
            print(f"  {kind}: by class {classes.round(2)}")
        print("  by kind", kinds, "by class", np.mean([result.by_class for result in of], axis=0).round(2))
        print(f"  confidence minus accuracy: mean {gap.mean():.3f}, worst {gap.max():.3f}")
        print(f"  share of clicks with their class around them {np.mean([result.kept for result in of]):.3f}")
        half = [result for result in of if result.labelled >= 0.5]
        right = sum(result.wrong <= MOST_WRONG for result in half)
        print(f"  at a maximum error of {MAX_ERROR:.0%}: {np.mean([r.labelled for r in of]):.2f} labelled,", end=" ")
        print(f"{np.mean([r.wrong for r in of]):.3f} wrong, worst {np.max([r.wrong for r in of]):.3f};", end=" ")
        print(f"{right} of the {len(half)} sets with half of the samples labelled have at most {MOST_WRONG:.0%} wrong")
        tops = [result.salt_top for result in of if np.isfinite(result.salt_top)]
        if tops:
            print(f"  median distance to the top of the salt {np.mean(tops):.1f} samples")
        above = sum(result.score > result.nearest for result in of)
        print(f"  nearest click in time {np.mean([result.nearest for result in of]):.3f}, exceeded by {above} sets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["f3", "penobscot", "synthetic"])
    parser.add_argument("--seed", type=int, default=0, help="seed of the first set of clicks")
    parser.add_argument("--landmarks-seed", type=int, default=0)
    parser.add_argument("--landmarks", type=int, default=N_LANDMARKS)
    parser.add_argument("--without-background", action="store_true", help="place no click for the background")
    parser.add_argument("--by-eye", action="store_true", help="use exemplars chosen by eye, on F3")
    parser.add_argument("--pictures", help="folder for a figure of every scored line")
    parser.add_argument("--each", action="store_true", help="print every set")
    options = parser.parse_args()
    results = []
    for survey in surveys(options.names):
        begin = time.perf_counter()
        sample = sample_survey(
            survey.sections.items(), n_landmarks=options.landmarks, random_state=options.landmarks_seed
        )
        graphs = landmark_graphs(sample)
        print(f"{survey.name}: sample and graph {time.perf_counter() - begin:.1f} s", flush=True)
        sets = [(line, 0, "by eye") for line in (310, 330)] if options.by_eye else experiments(survey, options.seed)
        for line, seed, kind in sets:
            points = by_eye(line) if options.by_eye else clicks(survey.truth[line], line, survey.classes, seed, kind)
            if options.without_background:
                points = [point for point in points if point.name != survey.background]
            results.append(scored(survey, sample, graphs, points, kind, options.pictures))
            if options.each:
                one = results[-1]
                limited = f"limited {one.labelled:.2f} {one.wrong:.3f}"
                print(survey.name, line, seed, kind, f"{one.score:.3f}", one.by_class.round(2), limited, flush=True)
    report(results)


if __name__ == "__main__":
    main()
