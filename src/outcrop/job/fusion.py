"""Labels from the votes of inlines and crosslines: one mapper labels both, and the votes of both are summed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import xarray as xr

from outcrop.geometry.fusion import decided, lazy_labels
from outcrop.job.labelling import label_dataset, label_lines, label_view, labelled_lines, vote_folders
from outcrop.job.plan import Plan
from outcrop.job.status import checked_lines
from outcrop.job.votes import Labels
from outcrop.parallel import Where, spans
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lazy import as_slice
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

LINES = 32  # number of lines of each direction at whose crossings the agreement is measured
ROWS = 128  # lines whose votes are summed at once
AGREE = 0.3  # IoU of a class in the two directions below which only the first direction counts for it


def fused_labels(job: "Job", **where: Unpack[Where]) -> xr.Dataset:
    """Return labels from the votes of both directions; see `Job.fused_labels`."""
    plan = job.plan
    cross = replace(plan, across=True)
    if not can_fuse(job):
        raise ValueError(
            f"The {DIRECTIONS[cross.along]}s have {counted(job.volume.shape[plan.along], 'traces')}, fewer than a "
            "patch, so the two directions cannot be fused; use the labels without fusion."
        )
    checked_lines(job, stale=True)
    label_lines(job, cross, **where)
    shares = direction_agreement(job, plan, cross)
    one_sided = {name: share for name, share in shares.items() if share < AGREE and name != job.plan.background_name}
    return voted_labels(job, [plan, cross], one_sided)


def direction_agreement(job: "Job", plan: Plan, cross: Plan) -> dict[str, float]:
    """Return a dict: class -> IoU of inline and crossline labels at the crossings of evenly spaced lines.

    `plan` labels the lines of one direction, `cross` the lines of the other.
    """
    views = [voted_labels(job, [one]) for one in (plan, cross)]
    crossings = {}
    for one in (plan, cross):
        lines = np.array(sorted(labelled_lines(job, one)))
        crossings[DIRECTIONS[one.along]] = lines[np.unique(np.linspace(0, len(lines) - 1, LINES).astype(int))]
    codes = [view["label"].isel(crossings).values for view in views]
    shares = {}
    for code, name in enumerate(views[0].attrs["classes"], 1):
        one, other = (directed == code for directed in codes)
        if (one | other).any():
            shares[name] = float((one & other).sum() / (one | other).sum())
    return shares


def can_fuse(job: "Job") -> bool:
    """Return whether the lines of the other direction are at least as wide as a patch, so that they can be labelled."""
    return bool(job.volume.shape[job.plan.along] >= job.plan.size[1])


def voted_labels(job: "Job", plans: Sequence[Plan], one_sided: Mapping[str, float] | None = None) -> xr.Dataset:
    """Return labels, read lazily, from the votes of one plan, or of two plans with different line directions.

    Only lines that are labelled under the first plan have labels. For classes in `one_sided` (class -> agreement of the
    directions) only the votes of the first plan count; they replace the votes of the second plan.
    """
    views = [label_view(job, plan)[0] for plan in plans]
    dataset = label_dataset(job, plans[0])
    coords = {name: dataset[name].values for name in dataset["label"].dims}
    attrs = {**dataset.attrs, "fused": len(plans) > 1, "colours": job.palette, "one_sided": dict(one_sided or {})}
    attrs["provenance"] = attrs["provenance"] | {"votes": vote_folders(*views)}
    codes = [attrs["classes"].index(name) for name in one_sided or ()]
    fused: xr.Dataset = lazy_labels(partial(_decided, views, codes), coords, attrs)
    return fused


def _decided(views: Sequence[Labels], one_sided: Sequence[int], key: Any) -> np.ndarray:
    """Return label, confidence and margin of a block, uint8, shape (3, n_inlines, n_crosslines, n_samples).

    The margin is the difference of the two highest shares of votes. Each of `views` holds the labels of one direction.
    With two views, the votes of both are summed over each trace and the eight traces around it. A class without votes
    at a sample gets no votes from the traces around it, so that strokes keep their effect. For the classes in
    `one_sided` (given as code - 1) only the votes of the first view count. `key` selects the block.
    """
    rows, columns, samples = (np.arange(n)[part] for n, part in zip(views[0].shape, key, strict=True))
    reach = int(len(views) > 1)
    near_columns = _with_neighbours(columns, views[0].shape[1], reach)
    found = np.zeros((3, len(rows), len(columns), len(samples)), np.uint8)
    for part in spans(len(rows), ROWS):
        near_rows = _with_neighbours(rows[part], views[0].shape[0], reach)
        total = _votes(views, one_sided, near_rows, near_columns, samples)
        centre = total[:, np.searchsorted(near_rows, rows[part])][:, :, np.searchsorted(near_columns, columns)]
        if reach:
            total = _sum_around(total, 1, near_rows, rows[part])
            total = _sum_around(total, 2, near_columns, columns) * (centre > 0)
        for i in range(len(rows[part])):  # one line at a time, as floating-point votes need twice the memory
            found[:, part.start + i] = decided(total[:, i], views[0].limit)
    places = (rows, columns) if views[0].along == 0 else (columns, rows)
    confirmed = views[0].confirmed.block(*places, samples)
    confirmed = confirmed if views[0].along == 0 else confirmed.swapaxes(0, 1)
    found[0] = np.where(confirmed > 0, confirmed, found[0])
    found[1:, confirmed > 0] = 255
    return found


def _with_neighbours(places: np.ndarray, n: int, reach: int) -> np.ndarray:
    """Return all positions on an axis of length `n` that are at most `reach` steps from one of `places`, sorted."""
    near = places[:, None] + np.arange(-reach, reach + 1)
    return np.unique(near[(near >= 0) & (near < n)])


def _sum_around(total: np.ndarray, axis: int, near: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the sum of the array `total` over each position in `places` and its two neighbours along one axis.

    `near` holds the positions that `total` has along this axis.
    """
    out = np.take(total, np.searchsorted(near, places), axis)
    for step in (-1, 1):
        inside = np.isin(places + step, near)
        at = np.searchsorted(near, places[inside] + step)
        out[(slice(None),) * axis + (inside,)] += np.take(total, at, axis)
    return out


def _votes(
    views: Sequence[Labels], one_sided: Sequence[int], rows: np.ndarray, columns: np.ndarray, samples: np.ndarray
) -> np.ndarray:
    """Return the sum of the votes of all views in a block, by class: shape (n_codes, n_rows, n_columns, n_samples).

    For classes in `one_sided`, given as code - 1, only the votes of the first view count; at each sample they are
    multiplied by the number of views with votes there.
    """
    shape = len(rows), len(columns), len(samples)
    total = np.zeros((max(views[0].codes.values()), *shape), np.uint16)
    voters = np.zeros(shape, np.uint8)
    for number, view in enumerate(views):
        lines, traces = (rows, columns) if view.along == 0 else (columns, rows)
        for i, line in enumerate(lines.tolist()):
            if line not in view.stores:
                continue
            at = (i,) if view.along == 0 else (slice(None), i)
            classes, votes = view.votes(line, as_slice(traces), as_slice(samples))
            for name, vote in zip(classes, votes, strict=True):
                position = view.codes.get(name, 0) - 1
                if position >= 0 and (number == 0 or position not in one_sided):
                    total[(position, *at)] += vote
            voters[at] += votes.any(axis=0)
        if number == 0:
            labelled = np.isin(lines, list(view.stores))
            valid = labelled[:, None] if view.along == 0 else labelled[None]
    total[one_sided] *= voters
    return total * valid[..., None]
