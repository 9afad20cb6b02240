"""Run all steps on a synthetic volume with true labels, from one exemplar per class to labels and a report."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.datasets.survey import synthetic_seed, write_synthetic
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.job.pictures import draw_retrieval
from outcrop.job.scoring import score_labels
from outcrop.mapping.registry import DEFAULT_MAPPING, POINTS
from outcrop.report import write_report

SHAPE = (120, 200, 256)
SIZE, EVERY = 64, 4  # patch size; every 4th line is indexed
Shape = tuple[int, int, int]
Progress = Callable[[str, int, int], object]
Seconds = dict[str, float]  # stage -> duration


def run(
    folder: str | Path, *, shape: Shape = SHAPE, seed: int = 0, mapping: str = DEFAULT_MAPPING, progress: Progress
) -> tuple[dict[str, Any], pd.DataFrame, Seconds]:
    """Run all steps on a synthetic volume: index, retrieve with one exemplar per class, label, export, score, report.

    Parameters
    ----------
    folder : path
        Folder for all results; an existing synthetic volume of the same seed is reused.
    shape : (int, int, int)
        Inlines, crosslines and samples of the volume.
    seed : int
        Seed of the volume, its exemplars and the mapping.
    mapping : str
        Mapping that computes the labels: ``points``, or a key of `MAPPERS`.
    progress : callable
        Called as ``progress(what, done, total)``: the name of the step, and the numbers of finished and of all parts.

    Returns
    -------
    scores : dict
        Scores of the labels, as `score_labels` returns them.
    retrieved : DataFrame
        For each class, its exemplar and the share of retrieved patches that show the class.
    seconds : dict
        Stage -> duration in seconds.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"synthetic-{seed}" if seed else "synthetic"
    source, truth_path = folder / f"{name}.sgy", folder / f"{name}.truth.sgy"
    begin, seconds = time.perf_counter(), Seconds()

    def lap(stage: str) -> None:
        seconds[stage] = round(time.perf_counter() - begin - sum(seconds.values()), 1)

    if synthetic_seed(source) != seed or not truth_path.exists():
        write_synthetic(source, shape, seed=seed, progress=progress)
    volume, truth = oc.open_volume(source), oc.open_volume(truth_path).astype("uint8")
    lap("volume")
    places = oc.datasets.exemplars(truth, SIZE, seed=seed)
    with oc.Job(folder / f"{name}.outcrop", volume=volume, origin="shell") as job:
        job.index(SIZE, every=EVERY, progress=progress)
        lap("index")
        for kind, some in places.items():
            job.add_exemplar(kind, some[0])
        weak = job.retrieve()
        draw_retrieval(job, weak, folder)
        lap("retrieve")
        shown = weak_label_scores(weak, weak.grid, truth)
        job.label(mapping=mapping, seed=seed, progress=progress)
        lap("label")
        job.export(folder / "labels.sgy")
        scores = score_labels(job, truth_path)
        lap("export and score")
        rows = [(kind, places[kind][0], len(right), right.mean()) for kind, right in shown.items()]
        retrieved = pd.DataFrame(rows, columns=["class", "inline, crossline, time", "patches", "show the class"])
        report(folder, job, scores, retrieved, shown, seconds)
    return scores, retrieved, seconds


def report(
    folder: Path, job: oc.Job, scores: Any, retrieved: pd.DataFrame, shown: dict[str, np.ndarray], seconds: Seconds
) -> None:
    """Write report.html of the demo into a folder.

    `shown` maps each class to an array by rank: 1 if the retrieved patch shows the class, 0 if not, NaN if unknown.
    `scores`, `retrieved` and `seconds` are the results of `run`.
    """
    pixels = pd.DataFrame([{key: scores[key] for key in ("MIU", "MIU_without_boundary", "PA", "FWIU", "coverage")}])
    by_class = pd.DataFrame(scores["IU"].items(), columns=["class", "IU"])
    sections = {
        "Retrieved patches": [
            "One exemplar per class was placed in the synthetic volume; these patches are most similar to it.",
            retrieved,
            (folder / "gallery.png", "Retrieved patches by rank, with their similarity to the exemplar."),
            (oc.plots.purity_curves(shown), "Share of the retrieved patches that show their class."),
            (folder / "similarity.png", "Similarity by rank; dots mark the suggested number of patches."),
            (folder / "section.png", "The inline with most retrieved patches."),
        ],
        "Labels against the truth": [
            "Mean intersection over union (MIU) over all inlines; the mapping did not use the true labels.",
            pixels,
            by_class,
            (job.path / "evaluation.png", "Truth, labels and confidence of the middle inline."),
            (job.path / "confusion.png", "Share of each label among the samples of each true class."),
        ],
        "How it was made": [
            {"job": job.status()},
            {"estimated share of a class in the survey": getattr(job.mapper(), "shares_", {})},
            {"seconds": seconds, "available mappings": [POINTS, *oc.MAPPERS]},
        ],
    }
    write_report(folder / "report.html", title="Outcrop demo: labels of a synthetic volume", sections=sections)
