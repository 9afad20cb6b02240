"""A graph of similar patches: its links, the evidence that spreads over them, and the choice of patches."""

import numpy as np
import pytest

from outcrop.retrieval import graph
from outcrop.retrieval.assignment import choose
from outcrop.retrieval.search import search


@pytest.fixture
def features():
    """Return descriptors of three groups of 60 patches, each unlike the others."""
    rng = np.random.default_rng(0)
    groups = np.kron(np.eye(3), np.ones((60, 8))) * 4
    return (groups + rng.random(groups.shape)).astype("f4")


def test_the_nearest_are_the_most_similar(features):
    """Equal to comparing all pairs if the preselection keeps all patches, and nearly equal otherwise."""
    edges = np.array([0, 10, 24])
    everything = search(features, features, edges)
    np.fill_diagonal(everything, -1)
    for count, share in ((45, 1), (12, 0.95)):
        rows, similarity = graph.nearest(features, edges, count=count)
        np.testing.assert_allclose(np.take_along_axis(everything, rows, axis=1), similarity, atol=1e-6)
        least = np.sort(everything)[:, -count, None]
        assert (similarity >= least - 1e-6).mean() >= share


def test_links_are_symmetric_and_damp(features):
    """The matrix is symmetric with largest eigenvalue 1, so that evidence is damped at each link."""
    matrix = graph.link_matrix(*graph.nearest(features, np.array([0, 24]), count=6)).toarray()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    assert np.abs(np.linalg.eigvalsh(matrix)).max() == pytest.approx(1, abs=1e-5)


def test_spread_evidence_solves_its_equation(features):
    """F = a W f + y holds up to the truncation error."""
    matrix = graph.link_matrix(*graph.nearest(features, np.array([0, 24]), count=6))
    sources = np.random.default_rng(1).random((len(features), 2))
    found = graph.spread(matrix, sources)
    exact = np.linalg.solve(np.eye(len(features)) - graph.DAMPING * matrix.toarray(), sources)
    np.testing.assert_allclose(found, exact, rtol=2e-3)


def test_patches_without_evidence_belong_to_no_class(features):
    """With exemplars in two of three groups, the third group has no share and the others have their class."""
    matrix = graph.link_matrix(*graph.nearest(features, np.array([0, 24]), count=6))
    exemplars = np.zeros((180, 2))
    exemplars[[3, 63], [0, 1]] = 1
    none = np.zeros((180, 2))
    shares = graph.shares(matrix, exemplars, none, none)
    assert shares[:60, 0].min() > 0.9 and shares[60:120, 1].min() > 0.9
    assert shares[120:].max() < 0.1
    rejected = none.copy()
    rejected[3:6, 0] = 1
    assert (graph.shares(matrix, exemplars, none, rejected)[:60, 0] < shares[:60, 0]).all()


def test_every_patch_is_chosen_for_one_class(features):
    """Rows are chosen once, in the requested number and only if allowed; without penalty the highest come first."""
    rng = np.random.default_rng(2)
    values = rng.random((180, 3))
    values[::7] = -1
    near = rng.random((180, 180))
    chosen = choose(values, [40, 50, 60], near.__getitem__, penalties=[0.3, 0.3, 1])
    rows = np.concatenate(chosen)
    assert [len(part) for part in chosen] == [40, 50, 60] and len(np.unique(rows)) == 150
    assert (rows % 7 > 0).all()
    plain = choose(values, [10, 10, 10], near.__getitem__, penalties=[0, 0, 0])
    best = [row for row in np.argsort(-values[:, 1]) if values[row].argmax() == 1][:10]
    assert plain[1].tolist() == best


def test_chosen_patches_are_spread_out():
    """Of two equal patches at one position, the second is chosen after a slightly weaker patch elsewhere."""
    values = np.array([[0.9], [0.89], [0.8]])
    same = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], float)
    assert choose(values, [2], same.__getitem__, penalties=[0.3])[0].tolist() == [0, 2]
