"""Train a U-Net on the labels of a job, and label the volume with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from outcrop.export.training_set import export_training_set
from outcrop.job.labelling import vote_keys
from outcrop.job.scoring import lines_with_labels, recode_table, score_labels
from outcrop.job.sections import patch_grid
from outcrop.job.status import checked_lines
from outcrop.labels.stability import unchanged
from outcrop.labels.store import open_labels
from outcrop.labels.volume import label_volume
from outcrop.parallel import Progress
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.storage.stages import digest
from outcrop.train import train

if TYPE_CHECKING:
    from outcrop.job.core import Job

PATCHES = 3000  # at most; drawn at random from all labelled lines, as neighbouring lines are similar
SCORES = ("MIU", "MIU_without_boundary", "PA", "FWIU", "coverage")
CODE = 1  # version of the training


def net_inputs(job: "Job", *, epochs: int | None, seed: int) -> dict[str, Any]:
    """Return all inputs that determine a trained net: votes by line, strokes, limits, confirmed lines and options."""
    plan = job.plan
    limits = plan.state.options.get("limits", {})
    strokes = [{k: v for k, v in stroke.items() if k not in ("time", "who", "id")} for stroke in plan.state.strokes]
    inputs = {"lines": vote_keys(job, plan), "limits": limits, "strokes": strokes}
    if plan.confirmed:
        inputs["confirmed"] = plan.confirmed
    return inputs | {"epochs": epochs or 0, "seed": seed, "code": CODE}


def train_net(
    job: "Job", *, epochs: int | None = None, seed: int = 0, device: str | None = None, progress: Progress | None = None
) -> tuple[str, Any]:
    """Train a U-Net on the labels of a job, or resume its training; return (cache key, net)."""
    lines = checked_lines(job, option=False)
    key = job.stages.begin("net", net_inputs(job, epochs=epochs, seed=seed))
    folder = job.stages.path("net", key)
    if not (folder / "training").is_dir():  # patches of all labelled lines
        dense = patch_grid(job, job.plan)
        grid = PatchGrid(job.volume, **dense.parameters | {"step": tuple(max(1, n // 2) for n in dense.size)})
        spans = [np.arange(rows.start, rows.stop) for _, line, rows in grid.lines() if line in lines]
        rows = np.random.default_rng(seed).permutation(np.concatenate([*spans, []]).astype(int))[:PATCHES]
        export_training_set(
            job.labels, folder / "training", volume=job.volume, grid=grid.take(np.sort(rows)), seed=seed
        )
    net = train(folder / "training", folder / "net.npz", epochs=epochs, seed=seed, device=device, progress=progress)
    return key, net


def label_with_net(
    job: "Job", key: str, net: Any, *, lines: Sequence[int] | None = None, progress: Progress | None = None
) -> xr.Dataset:
    """Label lines with a trained net and return the labels; an interrupted run is resumed.

    `key` is the cache key of the net. `lines` are line numbers; all lines by default.
    """
    path = job.stages.path("net", key) / "net.zarr"
    grid = patch_grid(job, job.plan)
    labels = label_volume(job.volume, grid, net, lines=lines, path=path, progress=progress)
    job.stages.note("net", key)
    return labels


def net_labels(job: "Job") -> xr.Dataset:
    """Return the labels that the last trained net of a job made.

    ValueError is raised if the labels that the net was trained on have changed.
    """
    key = job.stages.last("net")
    facts = {} if key is None else job.stages.facts("net", key).get("inputs", {})
    made = {"epochs": facts.get("epochs"), "seed": facts.get("seed", 0)}
    if key is None or not facts or digest("net", net_inputs(job, **made)) != key:
        raise ValueError(f"No net was trained on the present labels of {job.path}; run 'outcrop train {job.path}'.")
    return open_labels(job.stages.path("net", key) / "net.zarr")


def net_gain(job: "Job", *, truth: str | Path | None = None) -> dict[str, Any]:
    """Compare the labels of a net with the labels it was trained on; score both if a file of expert labels is given.

    Returns
    -------
    dict
        ``inlines`` or ``crosslines``: numbers of the lines that have labels of the job and of the net. ``agreement``:
        share of the labels of the job that the net reproduces, by class and for ``all``. ``rows``, only if `truth` is
        given: the scores of the labels of the job and of the net.
    """
    along = DIRECTIONS[job.plan.along]
    old, new = job.labels, net_labels(job)
    lines = np.intersect1d(lines_with_labels(old, along), lines_with_labels(new, along)).tolist()
    if not lines:
        raise ValueError(
            "The net and the labels it was trained on have no line in common; label the same line with both."
        )
    names = list(old.attrs["classes"])
    before, after = (labels["label"].sel({along: lines}).values for labels in (old, new))
    agreement = unchanged(before, recode_table(new.attrs["classes"], names)[after], names)
    gain: dict[str, Any] = {f"{along}s": lines, "agreement": agreement}
    if truth:
        gain["rows"] = []
        for what, labels in (("labels", old), ("net", new)):
            scores = score_labels(job, truth, lines=lines, labels=labels)
            by_class = {f"IU {name}": value for name, value in scores["IU"].items()}
            gain["rows"].append({"what": what} | {name: scores[name] for name in SCORES} | by_class)
    return gain
