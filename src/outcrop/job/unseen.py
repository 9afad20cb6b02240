"""What no exemplar resembles: patches unlike everything an interpreter marked, gathered into a few groups."""

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from outcrop import plots
from outcrop.job import retrieved
from outcrop.job.pictures import save
from outcrop.parallel import one_blas_thread
from outcrop.retrieval.graph import rooted
from outcrop.retrieval.index import NEAR_LINES, USED
from outcrop.retrieval.search import similarity_to

SHARE = 0.2  # of the survey that counts as least like the exemplars
MOST = 20_000  # patches that are grouped, drawn at random where there are more
MOST_GROUPS = 50  # that somebody would look at
SHOWN = 8  # patches of a group that are listed, each from another place


def unseen_groups(job, n=5, *, seed=0):
    """Groups of patches that look like nothing that was marked.

    Parameters
    ----------
    job : Job
        With at least one exemplar.
    n : int
        Groups.
    seed : int

    Returns
    -------
    DataFrame
        ``group`` (1 the largest), ``share`` of the survey in it, ``similarity`` to the nearest exemplar, place,
        direction and ``row`` of up to eight patches of each group, the most typical first.
    """
    if not 1 <= n <= MOST_GROUPS:
        raise ValueError(f"groups is {n}; choose 1 to {MOST_GROUPS}.")
    plan = job.plan
    if not plan.queries:
        raise ValueError(f"{job.path} has no exemplars yet; add some, then ask what they do not show.")
    index = job._index(plan)
    near = similarity_to(
        index, [place for some in retrieved.fitting_exemplars(index.grid, plan).values() for place in some]
    )
    usable = np.flatnonzero(index.status == USED)
    count = max(n, int(SHARE * len(usable)))
    strange = usable[np.argsort(near[usable], kind="stable")[:count]]
    some = np.sort(np.random.default_rng(seed).permutation(strange)[:MOST])
    points = rooted(index.descriptors(some))
    with one_blas_thread():
        found = KMeans(min(n, len(some)), n_init=4, random_state=seed).fit(points)
    parts = []
    order = np.argsort(-np.bincount(found.labels_), kind="stable")
    for number, group in enumerate(order, 1):
        members = np.flatnonzero(found.labels_ == group)
        off = ((points[members] - found.cluster_centers_[group]) ** 2).sum(axis=1)
        typical = apart(index.grid, some[members[np.argsort(off, kind="stable")]])
        share = len(members) / len(some) * len(strange) / len(usable)
        facts = {"group": number, "share": share, "similarity": near[typical], "row": typical}
        parts.append(pd.DataFrame(facts).join(index.grid.centres(typical)))
    return pd.concat(parts, ignore_index=True)


def apart(grid, rows):
    """The first rows that do not overlap one before them within ten lines."""
    chosen: list = []
    limit = np.array([1, NEAR_LINES + 1, grid.size[1], grid.size[0]])
    starts = grid.places(rows)
    for i in range(len(rows)):
        if all((np.abs(starts[i] - starts[k]) >= limit).any() for k in chosen):
            chosen.append(i)
        if len(chosen) == SHOWN:
            break
    return rows[chosen]


def draw_unseen(job, table, path=None):
    """Save a picture of the groups, a row each; where it is."""
    path = path or job.path / "unseen.png"
    patches = job._grid(job.plan).extract(job.volume, table["row"].to_numpy())
    figure = plots.new_figure(figsize=(1.5 * SHOWN, 1.85 * table["group"].max()), layout="constrained")
    axes = figure.subplots(int(table["group"].max()), SHOWN, squeeze=False)
    for ax in axes.ravel():
        ax.axis("off")
    for position, (_, row) in enumerate(table.iterrows()):
        before = (table["group"][:position] == row["group"]).sum()
        ax = axes[int(row["group"]) - 1, before]
        ax.axis("on")
        ax.imshow(patches[position], cmap="gray", vmin=0, vmax=1, aspect="auto")
        ax.set(xticks=[], yticks=[])
        ax.set_title(", ".join(f"{row[name]:g}" for name in job.volume.dims), fontsize=7, pad=2)
        if before == 0:
            ax.set_ylabel(f"group {row['group']:.0f}\n{100 * row['share']:.1f} %", fontsize=10)
    save(figure, path)
    return path
