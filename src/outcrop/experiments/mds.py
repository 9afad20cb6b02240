"""The paper's plane of patches: multidimensional scaling (MDS) of their dissimilarities, with k-means clusters."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import outcrop as oc
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.table1 import PAPER, matrix, shown_sets


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Embed patches in a plane by the paper's measure, with and without its finest scale, and score the clusters.

    The finest scale is a small part of the measure, but leaving it out moves the clusters.
    """
    sets = shown_sets(data, quick)
    figure = oc.plots.new_figure(figsize=(13, 5.4 * len(sets)), layout="constrained")
    rows = []
    for axes, (name, patches) in zip(figure.subplots(len(sets), 2, squeeze=False), sets.items(), strict=True):
        for ax, variant in zip(axes, ("curvelet-svd", "curvelet-svd, no finest scale"), strict=True):
            S = matrix(data, name, variant, quick, device).similarity
            scores = oc.cluster_scores(S, patches.classes, seeds=2 if quick else 10)
            wrong = draw(ax, scores["embedding"], patches.classes)
            ax.set_title(f"{name}, {variant}: Rand index {scores['rand_index']:.3f}", loc="left", fontsize=11)
            row = {"data": name, "measure": variant, "RI": scores["rand_index"], "RI sd": scores["rand_index_sd"]}
            row |= {"RI least": min(scores["rand_indices"]), "RI most": max(scores["rand_indices"])}
            row["in a cluster of another class"] = wrong.mean()
            row["paper RI"] = PAPER["curvelet-svd"][3] if variant == "curvelet-svd" else np.nan
            rows.append(row)
    return Result(pd.DataFrame(rows), figure)


def draw(ax: Any, plane: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Draw patches in the plane, coloured by class, and their k-means clusters; return a mask of wrong patches.

    A patch is wrong if the most frequent class of its cluster is another class.
    """
    names = sorted(set(classes))
    palette = oc.plots.colours(names) | {"horizon": oc.plots.COLOURS["other"]}
    clusters = KMeans(len(names), n_init=20, random_state=0).fit(plane)
    owner = [pd.Series(classes[clusters.labels_ == c]).mode()[0] for c in range(len(names))]
    wrong: np.ndarray = np.array(owner)[clusters.labels_] != classes
    for name in names:
        right = (classes == name) & ~wrong
        ax.scatter(*plane[right].T, 16, palette[name], edgecolors="black", linewidths=0.15, label=name)
        ax.scatter(*plane[(classes == name) & wrong].T, 22, palette[name], marker="X", ec="black", lw=0.4)
    ax.scatter([], [], 22, "white", marker="X", edgecolors="black", label="cluster of another class")
    regions(ax, clusters, plane.dtype)
    ax.set(xticks=[], yticks=[])
    ax.legend(loc="best", fontsize="small")
    return wrong


def regions(ax: Any, clusters: KMeans, dtype: np.dtype[Any]) -> None:
    """Outline the part of the plane that belongs to each cluster."""
    x, y = (np.linspace(low, high, 400) for low, high in (ax.get_xlim(), ax.get_ylim()))
    nearest = clusters.predict(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(dtype)).reshape(400, 400)
    for c in range(clusters.n_clusters):
        ax.contour(x, y, nearest == c, [0.5], colors="grey", linewidths=1)
