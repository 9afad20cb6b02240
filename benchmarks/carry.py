"""Labels carried from confirmed lines against true labels, from arrays without jobs.

OUTCROP_DATA=FOLDER python benchmarks/carry.py                 # synthetic volumes, Penobscot, F3 and times
OUTCROP_DATA=FOLDER python benchmarks/carry.py f3 penobscot
python benchmarks/carry.py synthetic --confirmed 3             # three lines of 24

Prints the mean IoU of `PointMapper` without clicks; of copying the nearest confirmed line; of boundaries interpolated
linearly between two lines (signed distances to the classes); and of the same mapper without carrying (trees only).
"""

import argparse
import os
import time
from collections.abc import Iterator
from unittest import mock

import numpy as np
import numpy.typing as npt
from clicks import Survey, class_scores, surveys
from scipy.ndimage import distance_transform_edt, gaussian_filter

import outcrop as oc
from outcrop.mapping.landmarks import landmark_graphs
from outcrop.mapping.points import ConfirmedSamples, PointMapper
from outcrop.mapping.survey_sample import sample_survey
from outcrop.patches.grid import PatchGrid

Codes = npt.NDArray[np.uint8]
DISTANCES = (1, 2, 4, 8, 12)
CONFIRMED = {1: [(6,), (12,), (18,)], 2: [(0, 23), (5, 18)], 3: [(0, 12, 23), (2, 10, 20)]}


def mean_score(labels: Codes, truth: Codes, survey: Survey) -> float:
    return float(np.nanmean(class_scores(labels, truth, len(survey.classes))))


def fitted(survey: Survey, confirmed: dict[int, Codes]) -> PointMapper:
    """Fit a mapper to confirmed lines only."""
    lines = list(survey.sections.items())
    sample = sample_survey(lines[:: max(1, len(lines) // 8)])
    graphs = landmark_graphs(sample)
    taught = ConfirmedSamples(survey.classes, confirmed)
    mapper = PointMapper(survey.background)
    return mapper.fit(sample, [], survey.sections.__getitem__, graphs=graphs, confirmed=taught)


def labelled(mapper: PointMapper, survey: Survey, line: int) -> tuple[Codes, float]:
    """Return codes of a line, and its overconfidence: mean confidence minus share of correct labels."""
    votes = mapper.votes(survey.sections[line], line).swapaxes(0, 1)
    codes = np.array([survey.classes.index(name) + 1 for name in mapper.classes_], np.uint8)
    labels = codes[votes.argmax(axis=-1)]
    known = survey.truth[line] > 0
    return labels, float(votes.max(axis=-1)[known].mean() - (labels == survey.truth[line])[known].mean())


def copied(confirmed: dict[int, Codes], line: int) -> Codes:
    return confirmed[min(confirmed, key=lambda other: abs(other - line))]


def interpolated(confirmed: dict[int, Codes], line: int, n_classes: int) -> Codes:
    """Interpolate boundaries linearly between the nearest lines; beyond the last line, copy its labels."""
    before, after = [at for at in confirmed if at <= line], [at for at in confirmed if at >= line]
    if not before or not after:
        return copied(confirmed, line)
    first, last = max(before), min(after)
    share = (line - first) / max(last - first, 1)
    ends = [np.stack([signed_distance(confirmed[at] == c) for c in range(1, n_classes + 1)]) for at in (first, last)]
    return ((1 - share) * ends[0] + share * ends[1]).argmax(axis=0).astype(np.uint8) + 1


def signed_distance(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the distance in pixels to the boundary of a class, positive inside."""
    if mask.all() or not mask.any():
        return np.full(mask.shape, 64.0 if mask.all() else -64.0)
    return np.where(mask, distance_transform_edt(mask) - 0.5, 0.5 - distance_transform_edt(~mask))


def trees_alone(mapper: PointMapper, survey: Survey, line: int) -> Codes:
    with mock.patch.object(mapper, "confirmed_", {}):
        return labelled(mapper, survey, line)[0]


def synthetic_survey(seed: int) -> Survey:
    volume, truth = oc.datasets.synthetic((24, 200, 256), seed=seed)
    grid = PatchGrid(volume, size=99, step=33)
    lines = {row: grid.section(volume, 0, row)[0].T for row in range(24)}
    labels = {row: truth.values[row].T for row in range(24)}
    return Survey(f"synthetic {seed}", lines, labels, list(truth.attrs["classes"]), "other")


def synthetic(n_confirmed: int) -> None:
    """Print scores by distance to the nearest confirmed line, for three volumes."""
    found: dict[int, list[list[float]]] = {distance: [] for distance in DISTANCES}
    for seed in (0, 1, 2):
        survey = synthetic_survey(seed)
        for lines in CONFIRMED[n_confirmed]:
            confirmed = {line: survey.truth[line] for line in lines}
            mapper = fitted(survey, confirmed)
            for line, truth in survey.truth.items():
                distance = min(abs(line - other) for other in confirmed)
                if distance not in found:
                    continue
                labels, over = labelled(mapper, survey, line)
                others = [
                    copied(confirmed, line),
                    interpolated(confirmed, line, 4),
                    trees_alone(mapper, survey, line),
                ]
                found[distance].append([mean_score(one, truth, survey) for one in (labels, *others)] + [over])
    print(
        f"synthetic, {n_confirmed} of 24 lines confirmed: carried, copied, interpolated, trees; worst against copying"
    )
    for distance, rows in found.items():
        if rows:
            mean, table = np.mean(rows, axis=0), np.array(rows)
            worst = (table[:, 0] - table[:, 1:3].max(axis=1)).min()
            scores = " ".join(f"{score:.4f}" for score in mean[:4])
            print(f"  {distance:2d} lines away ({len(rows)}): {scores}; worst {worst:+.4f}; sureness {mean[4]:+.3f}")


def noisy(truth: Codes, seed: int = 0) -> Codes:
    """Return careless labels: boundaries with smooth errors of a few pixels, and ten unlabelled patches."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(truth.shape)
    down, across = (gaussian_filter(rng.normal(size=truth.shape), 12) for _ in range(2))
    rows = np.clip(np.rint(rows + 4 * down / down.std()), 0, len(truth) - 1).astype(int)
    columns = np.clip(np.rint(columns + 4 * across / across.std()), 0, truth.shape[1] - 1).astype(int)
    labels = truth[rows, columns]
    for _ in range(10):
        row, column = (int(rng.integers(n - 30)) for n in truth.shape)
        labels[row : row + 30, column : column + 30] = 0
    return labels


def print_survey(name: str) -> None:
    (survey,) = surveys([name])
    experts = list(survey.truth)
    for line in experts if name == "f3" else experts[:1] + experts[-1:]:
        for kind, labels in (("expert", survey.truth[line]), ("noisy", noisy(survey.truth[line]))):
            confirmed = {line: labels}
            mapper = fitted(survey, confirmed)
            for other in experts:
                if other == line:
                    continue
                truth = survey.truth[other]
                found, over = labelled(mapper, survey, other)
                values = [
                    mean_score(one, truth, survey)
                    for one in (found, copied(confirmed, other), trees_alone(mapper, survey, other))
                ]
                by_class = class_scores(found, truth, len(survey.classes)).round(2)
                print(
                    f"{name}, {kind} labels of {line} confirmed, line {other}: carried {values[0]:.3f}, "
                    f"copied {values[1]:.3f}, trees {values[2]:.3f}; sureness {over:+.3f}; by class {by_class}",
                    flush=True,
                )


def times() -> None:
    """Measure the time from confirming a line to the labels of the next, and of a section of 951 x 462 samples."""
    (survey,) = surveys(["f3"])
    taller = {line: np.pad(section, [(52, 0), (0, 0)], mode="reflect") for line, section in survey.sections.items()}
    truth = {line: np.pad(labels, [(52, 0), (0, 0)]) for line, labels in survey.truth.items()}
    survey = survey._replace(sections=taller, truth=truth)
    sample = sample_survey(survey.sections.items())
    graphs = landmark_graphs(sample)
    taught = ConfirmedSamples(survey.classes, {330: truth[330]})

    def fit() -> PointMapper:
        return PointMapper("other").fit(sample, [], survey.sections.__getitem__, graphs=graphs, confirmed=taught)

    def sections(first: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        for number in range(5):
            yield 331 + number, np.roll(survey.sections[310], 7 * (first + number), axis=1)

    fit().votes(survey.sections[310], 310)  # kernels are compiled
    begin = time.perf_counter()
    mapper = fit()
    grown = time.perf_counter() - begin
    mapper.votes(np.roll(survey.sections[330], 3, axis=1), 331)
    print(f"from confirming to the labels of the next line {time.perf_counter() - begin:.2f} s, fit {grown:.2f} s")
    for name, lines, first in (("carried", mapper.confirmed_, 1), ("trees alone", {}, 6)):
        mapper.confirmed_ = lines
        begin, work = time.perf_counter(), time.process_time()
        for line, section in sections(first):
            mapper.votes(section, line)
        seconds, work = (time.perf_counter() - begin) / 5, (time.process_time() - work) / 5
        print(f"section of 951 x 462, {name}: {seconds:.2f} s one after another, {work:.2f} s of one core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["synthetic", "penobscot", "f3", "times"])
    parser.add_argument("--confirmed", type=int, nargs="*", default=[1, 2, 3], help="lines of a synthetic volume")
    options = parser.parse_args()
    if "synthetic" in options.names:
        for n_confirmed in options.confirmed:
            synthetic(n_confirmed)
    for name in ("penobscot", "f3"):
        if name in options.names and os.environ.get("OUTCROP_DATA"):
            print_survey(name)
    if "times" in options.names:
        times()


if __name__ == "__main__":
    main()
