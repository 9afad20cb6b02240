"""Image labels as they come: two classes, few patches, loud and quiet patches, small and large ones."""

import numpy as np
import pytest

import outcrop as oc

OPTIONS = {"members": 1, "patches_per_class": 16, "n_features": 200, "rounds": 12}


@pytest.fixture(scope="module")
def survey():
    """A synthetic volume and where its salt is."""
    volume, truth = oc.datasets.synthetic((6, 260, 200), seed=5)[:2]
    return volume, truth.values == truth.attrs["classes"].index("salt dome") + 1


def image_labels(survey, size, count, loud=False):
    """Patches that hold some salt and patches that hold none, their classes, and which of their pixels are salt."""
    volume, salt = survey
    grid = oc.PatchGrid(volume, size=size, step=size // 6)
    starts = grid.places(np.arange(len(grid)))
    inside = np.stack([salt[line, i : i + size, j : j + size].T for _, line, i, j in starts])
    share, rng = inside.mean(axis=(1, 2)), np.random.default_rng(0)
    kinds = (share > 0.2) & (share < 0.8), share == 0
    with_salt, without = (rng.permutation(np.flatnonzero(kind))[:count] for kind in kinds)
    rows = np.concatenate([with_salt, without])
    patches = grid.extract(volume, rows)
    if loud:
        patches = 0.5 + (patches - 0.5) * rng.uniform(0.25, 1, (len(rows), 1, 1)).astype("f4")
    return patches.astype("f4"), np.repeat(["salt dome", "other"], [len(with_salt), len(without)]), inside[rows]


@pytest.mark.parametrize(
    ("size", "count", "loud"),
    [(96, 16, False), (96, 6, False), (96, 16, True), (64, 16, False), (128, 12, False)],
    ids=["two classes", "few patches", "loud and quiet", "64 pixels", "128 pixels"],
)
def test_shares_of_fit_and_labels_agree(survey, size, count, loud):
    """What the fit estimates is what the labels hold, and these are better than patches painted whole."""
    patches, classes, inside = image_labels(survey, size, count, loud)
    mapper = oc.EncoderMapper(**OPTIONS).fit(patches, classes)
    structure = classes == "salt dome"
    found = mapper.predict(patches[structure]) == 1
    truth = inside[structure]
    overlap = (found & truth).sum() / (found | truth).sum()
    assert abs(mapper.shares_["salt dome"] - found.mean()) < 0.05
    assert overlap > truth.mean()  # which is the overlap of patches that are painted whole
