"""The paper's plane of patches: classical scaling of their dissimilarities, and the k-means clusters found there."""

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from outcrop import plots
from outcrop.evaluate.retrieval import cluster_scores
from outcrop.experiments import Result
from outcrop.experiments.table1 import PAPER, matrix, shown_sets

REMARK = (
    "The paper's plane, of LANDMASS-2, has one cluster a class; on the SEG 2017 patches the two kinds of `other` take "
    "a cluster each and two classes share one, with the finest scale and without it: a Rand index in a plane says "
    "little about a measure."
)


def run(data, *, quick=False, device=None):
    """Embed by the paper's measure, as it is and without its finest scale: a small change that moves the clusters."""
    sets = shown_sets(data, quick)
    figure = plots.new_figure(figsize=(13, 5.4 * len(sets)), layout="constrained")
    rows = []
    for axes, (name, patches) in zip(figure.subplots(len(sets), 2, squeeze=False), sets.items(), strict=True):
        for ax, variant in zip(axes, ("curvelet-svd", "curvelet-svd, no finest scale"), strict=True):
            S = matrix(data, name, variant, quick, device).similarity
            scores = cluster_scores(S, patches.classes, seeds=2 if quick else 10)
            wrong = draw(ax, scores["embedding"], patches.classes)
            ax.set_title(f"{name}, {variant}: Rand index {scores['rand_index']:.3f}", loc="left", fontsize=11)
            rows.append(
                {
                    "data": name,
                    "measure": variant,
                    "RI": scores["rand_index"],
                    "RI sd": scores["rand_index_sd"],
                    "RI least": min(scores["rand_indices"]),
                    "RI most": max(scores["rand_indices"]),
                    "in a cluster of another class": wrong.mean(),
                    "paper RI": PAPER["curvelet-svd"][3] if variant == "curvelet-svd" else np.nan,
                }
            )
    return Result(pd.DataFrame(rows), figure, REMARK)


def draw(ax, plane, classes):
    """Patches in the plane by class, over the k-means regions; returns which lie in a cluster of another class."""
    names = sorted(set(classes))
    palette = plots.colours(names) | {"horizon": plots.COLOURS["other"]}
    clusters = KMeans(len(names), n_init=20, random_state=0).fit(plane)
    owner = [pd.Series(classes[clusters.labels_ == c]).mode()[0] for c in range(len(names))]
    wrong = np.array(owner)[clusters.labels_] != classes
    for name in names:
        right = (classes == name) & ~wrong
        ax.scatter(*plane[right].T, 16, palette[name], edgecolors="black", linewidths=0.15, label=name)
        ax.scatter(*plane[(classes == name) & wrong].T, 22, palette[name], marker="X", ec="black", lw=0.4)
    ax.scatter([], [], 22, "white", marker="X", edgecolors="black", label="cluster of another class")
    regions(ax, clusters, plane.dtype)
    ax.set(xticks=[], yticks=[])
    ax.legend(loc="best", fontsize="small")
    return wrong


def regions(ax, clusters, dtype):
    """Outline the part of the plane that belongs to each cluster."""
    x, y = (np.linspace(low, high, 400) for low, high in (ax.get_xlim(), ax.get_ylim()))
    nearest = clusters.predict(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(dtype)).reshape(400, 400)
    for c in range(clusters.n_clusters):
        ax.contour(x, y, nearest == c, [0.5], colors="grey", linewidths=1)
