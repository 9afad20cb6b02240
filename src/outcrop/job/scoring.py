"""Scores of labels: against expert labels, against another job, and under changes such as mirroring."""

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import plots
from outcrop.evaluate.pixels import pixel_scores
from outcrop.evaluate.zones import boundary_distance, zone_scores
from outcrop.job import fitting
from outcrop.job.confirmed import job_confirmed
from outcrop.job.pictures import draw_labels, save
from outcrop.job.sections import labelling_grid
from outcrop.labels.stability import stability
from outcrop.mapping.points import PointMapper
from outcrop.parallel import Progress
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.axes import position_of
from outcrop.volumes.neighbours import line_spacing
from outcrop.volumes.opening import open_volume
from outcrop.volumes.summary import sample_unit

if TYPE_CHECKING:
    from outcrop.job.core import Job


def lines_with_labels(labels: xr.Dataset, along: str) -> list[int]:
    """Return the numbers of the lines of one direction that have labelled samples."""
    return [line.item() for line in labels[along].values if labels["confidence"].sel({along: line}).values.any()]


def score_labels(
    job: "Job", truth_path: str | Path, *, lines: Sequence[int] | None = None, labels: xr.Dataset | None = None
) -> dict[str, Any]:
    """Score the labels of a job against expert labels, on the lines that both have; save pictures in the job folder.

    If `labels` are given, for instance of a net, they are scored instead of the labels of the job.

    Returns
    -------
    dict
        Scores of `pixel_scores`, and these keys. ``MIU_without_boundary``: MIU without the samples within 5 rows and
        columns of a true boundary. ``inlines`` or ``crosslines``: numbers of the scored lines. ``confirmed``: numbers
        of the confirmed lines among them. ``bodies``: one dict for each class but the background, with its boundary
        distance and its hits and false alarms by connected zone. ``units``: units of the boundary distance in time (or
        depth) and along the line.
    """
    labels = job.labels if labels is None else labels
    truth = expert_labels(truth_path, str(job.volume.dims[2]))
    direction = job.plan.along
    along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    common = np.intersect1d(lines or lines_with_labels(labels, along), truth[along].values)
    if not len(common):
        raise ValueError(f"{truth_path} has none of the labelled {along}s; label some of its lines.")
    coded = labels["label"].sel({along: common}).assign_attrs(classes=list(labels.attrs["classes"]))
    truth = truth.sel({along: common}).astype("uint8")
    names = named_alike(job, truth.attrs["classes"], coded.attrs["classes"], str(truth_path))
    truth = truth.assign_attrs(classes=names)
    scores = pixel_scores(coded, truth)
    for text in unmatched_classes(scores["IU"], names, coded.attrs["classes"], str(truth_path)):
        job._note(text)
    scores["MIU_without_boundary"] = pixel_scores(coded, truth, band=5)["MIU"]
    scores[f"{along}s"] = common.tolist()
    confirmed = job_confirmed(job, job.plan).whole
    scores["confirmed"] = [line for line in common.tolist() if position_of(job.axes[direction], line) in confirmed]
    spacing, scores["units"] = _spacing(job)
    found, true = (codes.transpose(along, codes.dims[2], across) for codes in (coded, truth))
    scores["bodies"] = [
        {"class": name, **boundary_distance(found, true, name, spacing=spacing), **zone_scores(found, true, name)}
        for name in scores["IU"]
        if name != job.plan.background_name
    ]
    middle = common[len(common) // 2]
    draw_labels(job, middle, truth=truth.sel({along: middle}), name="evaluation.png", labels=labels)
    save(plots.confusion(scores["confusion"], scores["classes"]).figure, job.path / "confusion.png")
    return scores


def _spacing(job: "Job") -> tuple[tuple[float, float], tuple[str, str]]:
    """Return the spacing of (samples, traces), and the units of these two spacings.

    Where the volume has no unit, the spacing is 1 and its unit ``samples`` or ``traces``.
    """
    samples = job.volume[job.volume.dims[2]].values
    unit, bins = sample_unit(job.volume), line_spacing(job.volume)
    down = abs(float(samples[1] - samples[0])) if unit and len(samples) > 1 else 1.0
    across = 1.0 if bins is None else float(bins[1 - job.plan.along])
    return (down, across), (unit or "samples", "traces" if bins is None else "m")


def probe_labels(job: "Job", lines: Sequence[int], *, progress: Progress | None = None) -> pd.DataFrame:
    """Return the share of labels that stay the same under changes such as mirroring; see `stability`.

    A borrowed mapper is not fitted again with another seed, because its evidence lies in another job. The mapping by
    points is tested without the positions of its points, because a changed line has other positions.
    """
    plan = job.plan

    def fit(change: int) -> Any:
        if not change:
            return by_look(job.mapper())
        if plan.label.mapper:
            return None
        return by_look(fitting.fit(job, replace(plan, label=plan.label.updated(seed=plan.label.seed + change))))

    volume = job.volume
    if plan.along:  # `stability` works on inlines
        volume = volume.transpose("crossline", "inline", ...).rename(inline="crossline", crossline="inline")
    return stability(volume, labelling_grid(job, plan), fit, lines=lines, progress=progress)


def by_look(mapper: Any) -> Any:
    """Return a copy of a `PointMapper` that ignores positions, so that only the look of a sample counts.

    The copy treats the survey as layered if the original mapper does. Other mappers are returned unchanged.
    """
    if not isinstance(mapper, PointMapper):
        return mapper
    plain = copy.copy(mapper)
    plain.forget_places()
    plain.layered_ = mapper.layered_
    return plain


def expert_labels(path: str | Path, domain: str) -> xr.DataArray:
    """Open expert labels; raise ValueError if they have no table of classes.

    `domain`, time or depth, is the vertical axis of a SEG-Y file.
    """
    is_segy = Path(path).suffix.lower() in (".sgy", ".segy")
    labels = open_volume(path, domain=domain if is_segy else None)
    if not labels.attrs.get("classes"):
        raise ValueError(f"{path} does not name its codes; write a table {path}.classes.toml beside it.")
    return labels


def named_alike(job: "Job", names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Return expert class names, replaced by names in `known` where the match is obvious; see `matched_names`.

    A note is added to the job for each match of names that differ in more than capitals.
    """
    matched, notes = matched_names(names, known, what)
    for text in notes:
        job._note(text)
    return matched


def matched_names(names: Sequence[str], known: Sequence[str], what: str) -> tuple[list[str], list[str]]:
    """Return expert class names, replaced by names in `known` where the match is obvious, and notes on the matches.

    `what` is the name of the expert labels in the notes.

    Examples
    --------
    >>> matched_names(["Salt", "gas"], ["salt dome", "gas"], "The truth")
    (['salt dome', 'gas'], ["The truth calls salt dome 'Salt': taken as one class."])
    """
    meant = obvious_names(names, known)
    notes = [
        f"{what} calls {other} {name!r}: taken as one class."
        for name, other in meant.items()
        if name.casefold() != other.casefold()
    ]
    return [meant.get(name, name) for name in names], notes


def unmatched_classes(scored: Iterable[str], names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Return a list with a warning if expert classes have no labels and the labels have classes unknown to the expert.

    Otherwise the list is empty.

    Parameters
    ----------
    scored : iterable of str
        Classes with a score: the expert classes on the scored lines.
    names, known : sequence of str
        All classes of the expert, and of the labels.
    what : str
        Name of the expert labels in the warning.

    Examples
    --------
    >>> [len(unmatched_classes(["gas"], ["gas"], [name], "truth")) for name in ("salt", "gas")]
    [1, 0]
    """
    missing = [repr(name) for name in scored if name not in known]
    unused = [repr(name) for name in known if name not in names]
    if not (missing and unused):
        return []
    return [
        f"No label is called {', '.join(missing)}, as in {what}: the score is 0. Only the labels have "
        f"{', '.join(unused)}; if two of these names mean one class, give both the same name."
    ]


def obvious_names(names: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return a dict: expert class -> the class in `known` that obviously means the same, where the two names differ.

    `names` are the expert classes, `known` the classes of the job. Two names match if they differ only in capitals,
    hyphens or plurals. Of the remaining names, two match if all words of one occur in the other. A match counts only
    if neither of its names matches another name in the same way.

    Examples
    --------
    >>> obvious_names(["Salt", "faults", "gas"], ["salt dome", "fault", "other"])
    {'faults': 'fault', 'Salt': 'salt dome'}
    >>> obvious_names(["salt"], ["salt dome", "salt wall"])
    {}
    """

    def words(name: str) -> set[str]:
        return {word.removesuffix("s") for word in re.findall(r"\w+", name.casefold().replace("_", " "))}

    found: dict[str, str] = {}
    for alike in (set.__eq__, lambda a, b: a <= b or b <= a):
        ours = [name for name in known if name not in names and name not in found.values()]
        theirs = [name for name in names if name not in known and name not in found]
        pairs = [(name, other) for name in theirs for other in ours if words(name) and alike(words(name), words(other))]
        for name, other in pairs:
            if sum(name == a or other == b for a, b in pairs) == 1:
                found[name] = other
    return found


def recode_table(classes: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Return a lookup table from the codes of `classes` to the codes of the same class names in `names`.

    Capitals do not matter. Codes of no class (0, 255) become 0.

    Examples
    --------
    >>> recode_table(["salt", "fault"], ["Fault", "other", "Salt"])[[0, 1, 2, 255]]
    array([0, 3, 1, 0], dtype=uint8)
    """
    table, folded = np.zeros(256, np.uint8), [name.casefold() for name in names]
    table[1 : 1 + len(classes)] = [1 + folded.index(name.casefold()) for name in classes]
    return table


def compare_jobs(job: "Job", other: "Job", *, lines: Sequence[int] | None = None) -> dict[str, Any]:
    """Compare the labels of two jobs on one survey by line and class, and count the decisions of each writer.

    Classes whose names differ only in capitals are one class. `lines` are line numbers; all common lines by default.

    Returns
    -------
    dict
        ``lines``: numbers of the lines labelled in both jobs. ``agreement``: share of samples with the same class,
        among the samples with a class in both jobs. ``rows``: table of the classes, with the share of samples in this
        job and in the other job, and the intersection over union of the two jobs (``IU``). ``differ``: table of the
        lines, with the share of samples whose classes differ, largest first. ``decisions``: table of the number of
        decisions by job, writer and kind. ``confusion``: number of samples by class in this job (rows) and in the
        other job (columns). ``classes``: names of the rows and columns of ``confusion``.
    """
    along = DIRECTIONS[job.plan.along]
    pair = job.labels, other.labels
    for name in pair[0]["label"].dims:
        if not np.array_equal(pair[0][name].values, pair[1][name].values):
            raise ValueError(f"{other.path} is on another survey than {job.path}: their axes {name} differ.")
    if other.plan.along != job.plan.along:
        raise ValueError(
            f"{other.path} is labelled in another direction than {job.path}; choose jobs with the same direction."
        )
    numbers = pair[0][along].values
    common = sorted(job.labelled.keys() & other.labelled.keys())
    common = [line for line in common if lines is None or numbers[line] in lines]
    if not common:
        raise ValueError(f"{job.path} and {other.path} have no labelled line in common; label the same lines in both.")
    by_folded: dict[str, str] = {}
    for name in [*pair[0].attrs["classes"], *pair[1].attrs["classes"]]:
        by_folded.setdefault(name.casefold(), name)
    names = list(by_folded.values())
    tables = [recode_table(labels.attrs["classes"], names) for labels in pair]
    n = 1 + len(names)
    by_line = np.zeros((len(common), len(names), len(names)), np.int64)
    for i, line in enumerate(common):
        here, there = (
            table[labels["label"].isel({along: line}).values].astype(int)
            for table, labels in zip(tables, pair, strict=True)
        )
        by_line[i] = np.bincount((n * here + there).ravel(), minlength=n * n).reshape(n, n)[1:, 1:]
    counts, samples = by_line.sum(axis=0), by_line.sum(axis=(1, 2))
    differs = 1 - np.trace(by_line, axis1=1, axis2=2) / np.maximum(samples, 1)
    same, total = np.diag(counts), max(counts.sum(), 1)
    shares = {"share here": counts.sum(axis=1) / total, "share there": counts.sum(axis=0) / total}
    union = np.maximum(counts.sum(axis=1) + counts.sum(axis=0) - same, 1)
    differ = pd.DataFrame({along: numbers[common], "differs": differs})
    return {
        "lines": numbers[common].tolist(),
        "agreement": float(same.sum() / total),
        "rows": pd.DataFrame({"class": names, **shares, "IU": same / union}),
        "differ": differ.sort_values("differs", ascending=False).reset_index(drop=True),
        "decisions": pd.concat([_by_writer(one) for one in (job, other)], ignore_index=True),
        "confusion": counts,
        "classes": names,
    }


def _by_writer(job: "Job") -> pd.DataFrame:
    """Return a table of the number of decisions in force, by writer and kind."""
    table = job.decisions
    table = table[~table["undone"] & ~table["what"].isin(["undo", "redo", "set", "class"])]
    counts = table.groupby(["who", "what"], sort=False).size().reset_index(name="count")
    return counts.assign(job=job.path.name)[["job", "who", "what", "count"]]
