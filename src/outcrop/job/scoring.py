"""How good the labels of a job are: against an expert, against changes that should not matter, against a colleague."""

from dataclasses import replace

import numpy as np
import pandas as pd

from outcrop import plots
from outcrop.evaluate.pixels import pixel_scores
from outcrop.evaluate.zones import boundary_distance, zone_scores
from outcrop.job import fitting
from outcrop.job.pictures import draw_labels, save
from outcrop.job.sections import labelling_grid
from outcrop.labels.stability import stability
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.opening import open_volume
from outcrop.volumes.summary import sample_unit


def labelled_lines(labels, along="inline"):
    """Numbers of the lines of one direction on which something is labelled."""
    return [line.item() for line in labels[along].values if labels["confidence"].sel({along: line}).values.any()]


def score_labels(job, truth_path, *, lines=None, labels=None):
    """Scores of a job's labels against expert labels, on the lines that both have; pictures go into the job.

    Other labels than the job's, for instance of a net, are scored where given.

    Returns
    -------
    dict
        As `pixel_scores`, with ``MIU_without_boundary`` (5 pixels around the truth's boundaries left out), ``inlines``
        (``crosslines`` where those are labelled), and ``bodies``: per structure its boundary distance, in the two
        ``units``, and its hits and false alarms per connected zone.
    """
    labels = job.labels if labels is None else labels
    truth = open_volume(truth_path)
    if not truth.attrs.get("classes"):
        raise ValueError(f"{truth_path} does not name its codes; write a table {truth_path}.classes.toml beside it.")
    direction = job.plan.along
    along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    common = np.intersect1d(lines or labelled_lines(labels, along), truth[along].values)
    if not len(common):
        raise ValueError(f"{truth_path} has none of the labelled {along}s; label some of its lines with --lines.")
    coded = labels["label"].sel({along: common}).assign_attrs(classes=list(labels.attrs["classes"]))
    truth = truth.sel({along: common}).astype("uint8")
    scores = pixel_scores(coded, truth)
    scores["MIU_without_boundary"] = pixel_scores(coded, truth, band=5)["MIU"]
    scores[f"{along}s"] = common.tolist()
    spacing, scores["units"] = _spacing(job)
    found, true = (codes.transpose(along, codes.dims[2], across) for codes in (coded, truth))
    scores["bodies"] = [
        {"class": name, **boundary_distance(found, true, name, spacing=spacing), **zone_scores(found, true, name)}
        for name in scores["IU"]
        if name != job.background
    ]
    middle = common[len(common) // 2]
    draw_labels(job, middle, truth=truth.sel({along: middle}), name="evaluation.png", labels=labels)
    save(plots.confusion(scores["confusion"], scores["classes"]).figure, job.path / "confusion.png")
    return scores


def _spacing(job):
    """Steps down and across the sections of a job, and their units: samples and traces where the volume tells none."""
    samples = job.volume[job.volume.dims[2]].values
    unit, bins = sample_unit(job.volume), job.volume.attrs.get("bin_size")
    down = abs(float(samples[1] - samples[0])) if unit and len(samples) > 1 else 1.0
    across = 1.0 if bins is None else float(bins[1 - job.plan.along])
    return (down, across), (unit or "samples", "traces" if bins is None else "m")


def probe_labels(job, lines, *, progress=None):
    """Share of a job's labels that stay the same under changes that should not matter; see `stability`."""
    plan = job.plan

    def fit(change):
        if not change:
            return job.mapper()
        label = plan.label.updated(seed=plan.label.seed + change)
        return fitting.fit(job, replace(plan, label=label))

    volume = job.volume
    if plan.along:  # the lines that are labelled take the place of the inlines
        volume = volume.transpose("crossline", "inline", ...).rename(inline="crossline", crossline="inline")
    return stability(volume, labelling_grid(job, plan), fit, lines=lines, progress=progress)


def compare_jobs(job, other, *, lines=None):
    """Where the labels of two jobs on one survey differ, how much, and whose decisions they come from.

    Classes whose names differ in capitals alone are one. With `lines`, survey labels, only those are compared.

    Returns
    -------
    dict
        ``lines`` that both have labelled; ``agreement``, the share of the samples labelled in both that have the same
        class; ``rows``, by class its share of the samples in either job and the intersection over union of the two
        (``IU``); ``differ``, lines by the share that differs, the most first; ``decisions``, by job and writer how many
        of each kind.
    """
    along = DIRECTIONS[job.plan.along]
    ours, theirs = job.labels, other.labels
    for name in ours["label"].dims:
        if not np.array_equal(ours[name].values, theirs[name].values):
            raise ValueError(f"{other.path} is on another survey than {job.path}: their axes {name} differ.")
    if other.plan.along != job.plan.along:
        raise ValueError(f"{other.path} is labelled along the other direction than {job.path}; compare jobs of one.")
    common = sorted(job.labelled.keys() & other.labelled.keys())
    if lines is not None:
        common = [line for line in common if ours[along].values[line] in lines]
    if not common:
        raise ValueError(f"{job.path} and {other.path} have no labelled line in common; label the same lines in both.")
    known_names: dict = {}
    for name in [*ours.attrs["classes"], *theirs.attrs["classes"]]:
        known_names.setdefault(name.casefold(), name)
    names = list(known_names.values())
    counts = np.zeros((len(names), len(names)), np.int64)
    compared = []
    for line in common:
        pair = [_codes(labels, along, line, names) for labels in (ours, theirs)]
        known = (pair[0] >= 0) & (pair[1] >= 0)
        table = np.zeros_like(counts)
        np.add.at(table, (pair[0][known], pair[1][known]), 1)
        counts += table
        total = max(int(known.sum()), 1)
        compared.append({along: ours[along].values[line].item(), "differs": 1 - np.trace(table) / total})
    total = max(counts.sum(), 1)
    rows = [
        {
            "class": name,
            "share here": counts[i].sum() / total,
            "share there": counts[:, i].sum() / total,
            "IU": counts[i, i] / max(counts[i].sum() + counts[:, i].sum() - counts[i, i], 1),
        }
        for i, name in enumerate(names)
    ]
    writers = [_by_writer(one) for one in (job, other)]
    return {
        "lines": [ours[along].values[line].item() for line in common],
        "agreement": float(np.trace(counts) / total),
        "rows": pd.DataFrame(rows),
        "differ": pd.DataFrame(compared).sort_values("differs", ascending=False).reset_index(drop=True),
        "decisions": pd.concat(writers, ignore_index=True),
        "confusion": counts,
        "classes": names,
    }


def _codes(labels, along, line, names):
    """Position of the class of every sample of a line among some names, -1 where it has none."""
    table, folded = np.full(256, -1), [name.casefold() for name in names]
    for code, name in enumerate(labels.attrs["classes"], 1):
        table[code] = folded.index(name.casefold())
    table[UNCERTAIN] = -1
    return table[labels["label"].isel({along: line}).values]


def _by_writer(job):
    """How many decisions of each kind hold, by writer."""
    table = job.decisions
    table = table[~table["undone"] & ~table["what"].isin(["undo", "redo", "set", "class"])]
    counts = table.groupby(["who", "what"], sort=False).size().reset_index(name="count")
    return counts.assign(job=job.path.name)[["job", "who", "what", "count"]]
