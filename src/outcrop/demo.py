"""The whole job on an embedded synthetic volume with truth: one exemplar a class in, labels and a report out."""

import time
from pathlib import Path

import pandas as pd

from outcrop import plots
from outcrop.datasets.places import exemplars
from outcrop.datasets.survey import synthetic_seed, write_synthetic
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.job.core import Job
from outcrop.job.pictures import draw_retrieval
from outcrop.job.scoring import score_labels
from outcrop.mapping.registry import DEFAULT_MAPPING, MAPPERS
from outcrop.report import write_report
from outcrop.volumes.opening import open_volume

SHAPE = (120, 200, 256)
SIZE, EVERY = 64, 4  # of the patches, and of the lines that are searched


def run(folder, *, shape=SHAPE, seed=0, mapping=DEFAULT_MAPPING, progress):
    """Make a volume, index it, retrieve from one exemplar a class, label, score against the truth, export and report.

    Parameters
    ----------
    folder : path
        For everything that is made; what is there already is used again.
    shape : (int, int, int)
        Inlines, crosslines and samples of the volume.
    seed : int
        Of the volume, its exemplars and the mapping.
    mapping : str
        A name of `MAPPERS`.
    progress : callable
        Called as ``progress(what, done, total)``.

    Returns
    -------
    scores : dict
        As `score_labels`.
    retrieved : DataFrame
        Per class its exemplar and the share of what was retrieved that shows the class.
    seconds : dict
        Per stage.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"synthetic-{seed}" if seed else "synthetic"
    source, truth_path = folder / f"{name}.sgy", folder / f"{name}.truth.sgy"
    clock = Clock()
    if synthetic_seed(source) != seed or not truth_path.exists():
        made = {"progress": lambda done, *_: progress("making a volume", done, shape[0])}
        write_synthetic(source, shape, seed=seed, **made)
    volume, truth = open_volume(source), open_volume(truth_path).astype("uint8")
    clock.lap("volume")
    places = exemplars(truth, SIZE, seed=seed)
    with Job(folder / f"{name}.outcrop", volume=volume, origin="shell") as job:
        job.index(SIZE, every=EVERY, progress=progress)
        clock.lap("index")
        for kind, some in places.items():
            job.add_exemplar(kind, some[0])
        weak = job.retrieve()
        draw_retrieval(job, weak, folder)
        clock.lap("retrieve")
        shown = weak_label_scores(weak, weak.grid, truth)
        job.label(mapping=mapping, seed=seed, progress=progress)
        clock.lap("label")
        job.export(folder / "labels.sgy")
        scores = score_labels(job, truth_path)
        clock.lap("export and score")
        retrieved = pd.DataFrame(
            [
                {
                    "class": kind,
                    "inline, crossline, time": places[kind][0],
                    "patches": len(right),
                    "show the class": right.mean(),
                }
                for kind, right in shown.items()
            ]
        )
        report(folder, job, scores, retrieved, shown, clock.seconds)
    return scores, retrieved, clock.seconds


def report(folder, job, scores, retrieved, shown, seconds):
    """Write the page of the demo."""
    pixels = pd.DataFrame([{key: scores[key] for key in ("MIU", "MIU_without_boundary", "PA", "FWIU", "coverage")}])
    by_class = pd.DataFrame({"class": list(scores["IU"]), "IU": list(scores["IU"].values())})
    sections = {
        "What was retrieved": [
            "One exemplar a class was placed in the synthetic volume; these patches look most like them.",
            retrieved,
            (folder / "gallery.png", "Retrieved patches by rank, with their similarity to the exemplar."),
            (plots.purity_curves(shown), "Share of the retrieved patches that really show their class."),
            (folder / "similarity.png", "Similarity by rank; dots mark how many to take."),
            (folder / "section.png", "The inline on which most patches were found."),
        ],
        "Labels against the truth": [
            "Mean intersection over union (MIU) over all inlines; the mapping never saw the truth.",
            pixels,
            by_class,
            (job.path / "evaluation.png", "Truth, labels and confidence of the middle inline."),
            (job.path / "confusion.png", "Of the samples of each true class, the share that got each label."),
        ],
        "How it was made": [
            {"job": job.status()},
            {"estimated share of a class in its patches": getattr(job.mapper(), "shares_", {})},
            {"seconds": seconds, "mappings that can be chosen": list(MAPPERS)},
        ],
    }
    write_report(folder / "report.html", title="Outcrop demo: labels of a synthetic volume", sections=sections)


class Clock:
    """Seconds of the stages of a run."""

    def __init__(self):
        self.seconds, self._last = {}, time.perf_counter()

    def lap(self, name):
        """End a stage."""
        now = time.perf_counter()
        self.seconds[name], self._last = round(now - self._last, 1), now
