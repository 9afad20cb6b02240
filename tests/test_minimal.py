"""End to end: patches retrieved by one exemplar per class from a synthetic volume show the class."""

import numpy as np

import outcrop as oc
from outcrop.evaluate.pixels import weak_label_scores


def test_one_exemplar_per_class_retrieves_its_class(tmp_path):
    """At least nine of ten of the first 20 patches of every class are right; the prototype reached all of them."""
    volume, truth = oc.datasets.synthetic(seed=0)
    volume, truth = volume[30::10], truth[30::10]
    grid = oc.PatchGrid(volume, size=64, step=16)
    index = oc.build_index(volume, grid, tmp_path / "job.outcrop")
    weak = oc.retrieve(index, oc.datasets.exemplars(truth, 64), count=20)
    assert all(np.nanmean(shown) >= 0.9 for shown in weak_label_scores(weak, grid, truth).values())
