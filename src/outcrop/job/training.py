"""A U-Net trained on the labels of a job, and the volume labelled by it."""

from typing import Any

import numpy as np

from outcrop.export.training_set import export_training_set
from outcrop.job.labelling import vote_keys
from outcrop.job.scoring import labelled_lines, score_labels
from outcrop.job.sections import labelling_grid
from outcrop.labels.stability import unchanged
from outcrop.labels.store import open_labels
from outcrop.labels.volume import label_volume
from outcrop.patches.grid import PatchGrid
from outcrop.storage.stages import digest
from outcrop.storage.workspace import DoneLog
from outcrop.train import train

PATCHES = 3000  # at most, drawn from all labelled lines; neighbouring lines are near-copies
CODE = 1


def net_inputs(job, *, epochs, seed):
    """What a net is made from: the votes of every line, what is painted, the limits, and how it is trained."""
    plan = job.plan
    lines = vote_keys(job, plan)
    if not lines:
        raise ValueError(f"{job.path} has no labels yet; run 'outcrop label {job.path}' first.")
    limits = plan.state.options.get("limits", {})
    strokes = [{k: v for k, v in stroke.items() if k not in ("time", "who", "id")} for stroke in plan.state.strokes]
    return {"lines": lines, "limits": limits, "strokes": strokes, "epochs": epochs or 0, "seed": seed, "code": CODE}


def train_net(job, *, epochs=None, seed=0, device=None, progress=None):
    """Train a U-Net on the labels of a job; goes on where it was stopped. The key of the stage, and the net."""
    lines = job.labelled
    stale = sum(lines.values())
    if stale:
        raise ValueError(
            f"{stale} of {len(lines)} labelled lines are of older decisions; run 'outcrop label {job.path}' before a "
            "net learns from them."
        )
    key = job.stages.begin("net", net_inputs(job, epochs=epochs, seed=seed))
    folder = job.stages.path("net", key)
    if not (folder / "training").is_dir():
        _training_set(job, folder / "training", seed)
    net = train(folder / "training", folder / "net.npz", epochs=epochs, seed=seed, device=device, progress=progress)
    return key, net


def _training_set(job, folder, seed):
    """Patches of all labelled lines with their labels."""
    labels, dense, done = job.labels, labelling_grid(job, job.plan), set(job.labelled)
    grid = PatchGrid(job.volume, **dense.parameters | {"step": tuple(max(1, n // 2) for n in dense.size)})
    spans = [np.arange(rows.start, rows.stop) for _, line, rows in grid.lines() if line in done]
    rows = np.random.default_rng(seed).permutation(np.concatenate([*spans, []]).astype(int))[:PATCHES]
    export_training_set(labels, folder, volume=job.volume, grid=grid.take(np.sort(rows)), seed=seed)


def label_with_net(job, key, net, *, lines=None, progress=None):
    """Label lines with a net; goes on where it was stopped."""
    folder = job.stages.path("net", key)
    labels = label_volume(
        job.volume, labelling_grid(job, job.plan), net, lines=lines, path=folder / "net.zarr", progress=progress
    )
    job.stages.note("net", key)
    return labels


def net_labels(job):
    """Labels that the last net of a job gave; refused where the labels it was trained on have changed."""
    key = job.stages.last("net")
    facts = {} if key is None else job.stages.facts("net", key).get("inputs", {})
    made = {"epochs": facts.get("epochs"), "seed": facts.get("seed", 0)}
    if not facts or digest("net", net_inputs(job, **made)) != key:
        raise ValueError(f"The labels of {job.path} are not those a net was trained on; run 'outcrop train'.")
    return open_labels(job.stages.path("net", key) / "net.zarr")


def net_lines(job, key):
    """Positions of the lines that a net has labelled."""
    return DoneLog(job.stages.path("net", key) / "net.done").read()


def net_gain(job, *, truth=None):
    """What the net changed: agreement with the labels it was trained on and, with a truth, the scores of both.

    Returns
    -------
    dict
        ``inlines`` that both label; ``agreement``, by class of the labels and in ``all``; with a truth also ``rows``:
        the scores of the labels and of the net.
    """
    old, new = job.labels, net_labels(job)
    lines = np.intersect1d(labelled_lines(old), labelled_lines(new)).tolist()
    if not lines:
        raise ValueError(
            "The net and the labels it was trained on have no line in common; label one of each with --lines."
        )
    names = list(old.attrs["classes"])
    codes = np.zeros(256, np.uint8)
    for code, name in enumerate(new.attrs["classes"], 1):
        codes[code] = names.index(name) + 1
    before, after = (labels["label"].sel(inline=lines).values for labels in (old, new))
    gain: dict[str, Any] = {"inlines": lines, "agreement": unchanged(before, codes[after], names)}
    if truth:
        both = (("labels", old), ("net", new))
        scores = {name: score_labels(job, truth, lines=lines, labels=labels) for name, labels in both}
        keys = ("MIU", "MIU_without_boundary", "PA", "FWIU", "coverage")
        gain["rows"] = [
            {"what": w} | {k: s[k] for k in keys} | {f"IU {n}": v for n, v in s["IU"].items()}
            for w, s in scores.items()
        ]
    return gain
