"""Neighbouring lines: the same ones in every part of the package, by metres and in both directions."""

import numpy as np
import pytest

import outcrop as oc
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.retrieval.weak import WeakLabels

AXES = {"inline": "crossline", "crossline": "inline"}


@pytest.fixture(scope="module")
def survey():
    """A synthetic volume and its truth; lines are 25 m apart."""
    return oc.datasets.synthetic((26, 40, 64), seed=3)


def test_patches_on_crosslines_are_scored(survey):
    """The same survey with its directions exchanged has the same scores."""
    volume, truth = survey
    found = []
    for along, (one, codes) in {
        "inline": (volume, truth),
        "crossline": tuple(x.rename(AXES).transpose("inline", "crossline", ...) for x in (volume, truth)),
    }.items():
        grid = oc.PatchGrid(one, size=32, step=16, along=along)
        order = grid.table.sort_values([along, AXES[along], "time"], kind="stable").index.to_numpy()
        names = np.array(truth.attrs["classes"])[np.arange(len(grid)) % len(truth.attrs["classes"])]
        weak = WeakLabels(order, names, *np.ones((2, len(grid))), grid.places(order), grid)
        found.append(weak_label_scores(weak, grid, codes.assign_attrs(truth.attrs)))
    assert found[0].keys() == found[1].keys() and any((shown == 1).any() for shown in found[0].values())
    for name, shown in found[0].items():
        np.testing.assert_array_equal(shown, found[1][name])
