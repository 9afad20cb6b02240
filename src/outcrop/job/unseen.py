"""Patches unlike all exemplars, in a few groups of similar patches."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from outcrop.job import retrieved
from outcrop.job.pictures import image_axes, save
from outcrop.parallel import one_blas_thread
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.assignment import Overlap
from outcrop.retrieval.graph import square_roots
from outcrop.retrieval.index import USED
from outcrop.retrieval.search import similarity_to

if TYPE_CHECKING:
    from outcrop.job.core import Job

SHARE = 0.2  # share of the survey that counts as unlike the exemplars
MOST = 20_000  # patches that are grouped, drawn at random from more
MOST_GROUPS = 50
SHOWN = 8  # patches listed for each group, without overlap


def unseen_groups(job: "Job", n: int = 5, *, seed: int = 0) -> pd.DataFrame:
    """Return groups of patches unlike all exemplars.

    Parameters
    ----------
    job : Job
        A job with at least one exemplar.
    n : int
        Number of groups.
    seed : int
        Seed of the grouping.

    Returns
    -------
    DataFrame
        Up to eight patches of each group, the most typical first. Columns: ``group`` (1 is the largest), ``share`` of
        all patches of the survey that are in the group, ``similarity`` of the patch to the most similar exemplar,
        place, direction, and ``row`` in the index.
    """
    if not 1 <= n <= MOST_GROUPS:
        raise ValueError(f"groups is {n}; choose 1 to {MOST_GROUPS}.")
    plan = job.plan
    if not plan.queries:
        raise ValueError(f"{job.path} has no exemplars yet; add some first.")
    index = job._index(plan)
    marked = retrieved.fitting_exemplars(index.grid, plan)
    near = similarity_to(index, [one for some in marked.values() for one in some])
    usable = np.flatnonzero(index.status == USED)
    count = max(n, int(SHARE * len(usable)))
    unlike = usable[np.argsort(near[usable], kind="stable")[:count]]
    some = np.sort(np.random.default_rng(seed).permutation(unlike)[:MOST])
    points = square_roots(index.descriptors(some))
    with one_blas_thread():
        found = KMeans(min(n, len(some)), n_init=4, random_state=seed).fit(points)
    parts = []
    order = np.argsort(-np.bincount(found.labels_), kind="stable")
    for number, group in enumerate(order, 1):
        members = np.flatnonzero(found.labels_ == group)
        off = ((points[members] - found.cluster_centers_[group]) ** 2).sum(axis=1)
        typical = apart(index.grid, some[members[np.argsort(off, kind="stable")]])
        share = len(members) / len(some) * len(unlike) / len(usable)
        facts = {"group": number, "share": share, "similarity": near[typical], "row": typical}
        parts.append(pd.DataFrame(facts).join(index.grid.centres(typical)))
    return pd.concat(parts, ignore_index=True)


def apart(grid: PatchGrid, rows: np.ndarray) -> np.ndarray:
    """Return up to eight of the given rows, earlier rows first, whose patches do not overlap each other.

    `rows` are numbers of patches in the grid. Patches on nearby lines can overlap too.
    """
    chosen: list[int] = []
    overlap, covered = Overlap(grid, rows), np.zeros(len(rows), bool)
    while len(chosen) < SHOWN and not covered.all():
        chosen.append(int(covered.argmin()))
        covered |= overlap(chosen[-1]) > 0
    return rows[chosen]


def draw_unseen(job: "Job", table: pd.DataFrame) -> Path:
    """Save a picture of the patches of `unseen_groups`, with one row for each group; return the path of the picture."""
    patches = job._grid(job.plan).extract(job.volume, table["row"].to_numpy())
    cells = list(zip(table["group"] - 1, table.groupby("group").cumcount(), strict=True))
    figure, axes = image_axes(dict(zip(cells, patches, strict=True)), columns=SHOWN, size=(1.5, 1.85))
    for ax, (_, column), (_, row) in zip(axes, cells, table.iterrows(), strict=True):
        ax.set_title(", ".join(f"{row[name]:g}" for name in job.volume.dims), fontsize=7, pad=2)
        if column == 0:
            ax.set_ylabel(f"group {row['group']:.0f}\n{100 * row['share']:.1f} %", fontsize=10)
    save(figure, job.path / "unseen.png")
    return job.path / "unseen.png"
