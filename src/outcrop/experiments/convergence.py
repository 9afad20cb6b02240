"""The objective of the factorisation over 200 iterations, and its two parts.

Updates of the atoms lower one part, and updates of the coefficients lower the other.
"""

import time

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.evolution import training_set
from outcrop.mapping.factorisation import VARIANTS

MOMENTS = (0, 1, 10, 20, 50, 100, 200)


def run(data: Data, *, quick: bool = False, device: Device = None) -> Result:
    """Record the objective F and its two parts for each update rule.

    The rules are those printed in the paper, those of the authors' code, and an exact rule that never raises F.
    """
    dataset, patches = training_set(data, per_class=10 if quick else None, device=device)
    rows, later = [], []
    figure = oc.plots.new_figure(figsize=(13, 4), layout="constrained")
    for ax, variant in zip(figure.subplots(1, len(VARIANTS), sharey=True), VARIANTS, strict=True):
        mapper = oc.LabelMapper(4 if quick else 250, variant=variant, iterations=200)
        begin = time.perf_counter()
        mapper.fit(patches, dataset["weak"].values)
        seconds = time.perf_counter() - begin
        oc.plots.convergence(mapper, ax=ax).set_title(variant, loc="left")
        course = np.column_stack([mapper.objective_, mapper.objective_parts_])
        # Float32 rounds F in its seventh digit.
        rises = (np.diff(course[:, 0]) > 1e-6 * course[:-1, 0]).sum()
        later.append(course[1:])
        for moment in MOMENTS:
            values = dict(zip(["overall", "atoms", "coefficients"], course[moment].tolist(), strict=True))
            run_as = {"rises": int(rises), "seconds": seconds, "device": device or "cpu"}
            rows.append({"variant": variant, "iteration": moment, **values, **run_as})
        ax.set_xlabel("iteration (the random start is off the scale)")
    ax.set_ylim(0.8 * np.min(later), 1.3 * np.max(later))
    return Result(pd.DataFrame(rows), figure)
