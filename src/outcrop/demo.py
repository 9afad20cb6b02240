"""The whole job on an embedded synthetic volume with truth: one exemplar a class in, labels and a report out."""

import time
from pathlib import Path

import pandas as pd

from outcrop import job, plots
from outcrop.datasets import exemplars, write_synthetic
from outcrop.evaluate import weak_label_scores
from outcrop.export import export_segy
from outcrop.labels import MAPPERS, open_labels
from outcrop.patches import PatchGrid
from outcrop.report import write_report
from outcrop.retrieval import build_index, retrieve
from outcrop.volume import open_volume

SHAPE = (120, 200, 256)


def run(folder, *, seed=0, mapping="texture", stage):
    """Make a volume, index it, retrieve from one exemplar a class, label, score against the truth, export and report.

    Parameters
    ----------
    folder : path
        For everything that is made; what is there already is used again.
    seed : int
        Of the volume, its exemplars and the mapping.
    mapping : str
        A name of `MAPPERS`.
    stage : callable
        ``stage(title, total)`` gives a context whose value takes the work done so far, for progress.

    Returns
    -------
    scores : dict
        As `job.score_labels`.
    retrieved : DataFrame
        Per class its exemplar and the share of what was retrieved that shows the class.
    seconds : dict
        Per stage.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source, truth_path = folder / "synthetic.sgy", folder / "synthetic.truth.sgy"
    clock = Clock()
    if not (source.exists() and truth_path.exists()):
        with stage("making a volume", SHAPE[0]) as update:
            write_synthetic(source, SHAPE, seed=seed, progress=update)
    volume, truth = open_volume(source), open_volume(truth_path).astype("uint8")
    clock.lap("volume")
    grid = PatchGrid(volume, size=64, step=16, every=4)
    with stage("describing patches", len(grid)) as update:
        index = build_index(volume, grid, folder / "synthetic.outcrop", progress=update)
    clock.lap("index")
    places = exemplars(truth, 64, seed=seed)
    weak = retrieve(index, places, 100)
    weak.save(index.workspace / "retrieved.csv")
    job.draw_retrieval(index, weak, folder)
    clock.lap("retrieve")
    shown = weak_label_scores(weak, grid, truth)
    dense = job.labelling_grid(index)
    job.record_labelling(index, mapping=mapping, step=dense.step, seed=seed, min_confidence=None)
    with stage("labelling", SHAPE[0] + 1) as update:
        mapper = job.fit_mapper(index, mapping, seed=seed)
        update(1)
        job.label_lines(index, dense, mapper, progress=lambda done: update(done + 1))
    clock.lap("label")
    export_segy(open_labels(index.workspace / "labels.zarr"), folder / "labels.sgy", like=source)
    scores = job.score_labels(index, truth_path)
    clock.lap("export and score")
    retrieved = pd.DataFrame(
        [
            {
                "class": name,
                "inline, crossline, time": places[name][0],
                "patches": len(own),
                "show the class": own.mean(),
            }
            for name, own in shown.items()
        ]
    )
    report(folder, index, mapper, scores, retrieved, shown, clock.seconds)
    return scores, retrieved, clock.seconds


def report(folder, index, mapper, scores, retrieved, shown, seconds):
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
            (index.workspace / "evaluation.png", "Truth, labels and confidence of the middle inline."),
            (index.workspace / "confusion.png", "Of the samples of each true class, the share that got each label."),
        ],
        "How it was made": [
            {"job": index.workspace.read()},
            {"estimated share of a class in its patches": getattr(mapper, "shares_", {})},
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
