"""Mapping from points: effects of clicks, strokes, exclusions and ordered layers."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt, gaussian_filter
from sklearn.ensemble import ExtraTreesClassifier

import outcrop as oc
from outcrop.mapping.correction import ALIKE_NEARBY, NEARBY, NOISE, fit_correction, with_places
from outcrop.mapping.forest import N_TREES, grow_forest
from outcrop.mapping.landmarks import interpolated, landmark_graphs
from outcrop.mapping.layers import layered_share, ordered_layers, profile_of
from outcrop.mapping.points import ConfirmedSamples, Point, PointMapper
from outcrop.mapping.survey_sample import nodes_of, relative_time, sample_survey
from outcrop.patches.grid import PatchGrid


@pytest.fixture(scope="module")
def survey():
    """Return sections in [0, 1], truth, class names, sample and graphs of a small synthetic volume."""
    volume, truth = oc.datasets.synthetic((8, 200, 256), seed=0)
    grid = PatchGrid(volume, size=99, step=33)
    sections = {row: grid.section(volume, 0, row)[0].T for row in (0, 4, 7)}
    sample = sample_survey(sections.items(), n_landmarks=1000)
    return (
        sections,
        {row: truth.values[row].T for row in sections},
        truth.attrs["classes"],
        sample,
        landmark_graphs(sample),
    )


def innermost(truth, line, names):
    """Return one click for each class at the sample farthest from its boundaries."""
    points = []
    for code, name in enumerate(names, 1):
        far = distance_transform_edt(truth == code)
        sample, trace = np.unravel_index(far.argmax(), far.shape)
        points.append(Point(line, int(trace), int(sample), name))
    return points


@pytest.fixture(scope="module")
def fitted(survey):
    """Return a mapper fitted to one click for each class on line 0, and the clicks."""
    sections, truth, names, sample, graphs = survey
    points = innermost(truth[0], 0, names)
    return PointMapper("other").fit(sample, points, sections.__getitem__, graphs=graphs), points


def accuracy(mapper, survey, line):
    """Return the share of the samples of a line with the right label."""
    sections, truth, names, *_ = survey
    codes = np.array([names.index(name) + 1 for name in mapper.classes_])
    labels = codes[mapper.votes(sections[line], line).argmax(axis=-1)].T
    return (labels == truth[line]).mean()


def test_clicks_label_a_line_without_clicks(survey, fitted):
    """With one click for each of four classes, three quarters of another synthetic line have the right label."""
    assert accuracy(fitted[0], survey, 7) > 0.75


def test_votes_are_shares(survey, fitted):
    """Votes of a section have its shape, are non-negative and sum to 1."""
    votes = fitted[0].votes(survey[0][4], 4)
    assert votes.shape == (200, 256, 4)
    assert votes.min() >= 0
    np.testing.assert_allclose(votes.sum(axis=-1), 1, atol=1e-5)


def test_a_clicked_sample_has_its_class(survey):
    """Every clicked sample and those around it have the class of the click, even if clicks are wrong."""
    sections, _, names, sample, graphs = survey
    rng = np.random.default_rng(0)
    for _ in range(5):
        points = [Point(4, int(rng.integers(200)), int(rng.integers(256)), name) for name in names]
        if min(np.hypot(a.trace - b.trace, a.sample - b.sample) for a, b in combinations(points, 2)) < 10:
            continue  # clicks within two grid points may share them
        mapper = PointMapper("other").fit(sample, points, sections.__getitem__, graphs=graphs)
        labels = mapper.classes_[mapper.votes(sections[4], 4).argmax(axis=-1)]
        assert [labels[point.trace, point.sample] for point in points] == [point.name for point in points]


def test_background_needs_no_click(survey):
    """The background takes samples that no other class reaches, even without a click."""
    sections, truth, names, sample, graphs = survey
    points = [point for point in innermost(truth[0], 0, names) if point.name != "other"]
    mapper = PointMapper("other").fit(sample, points, sections.__getitem__, graphs=graphs)
    assert mapper.classes_[-1] == "other"
    assert 0.2 < mapper.shares_["other"] < 0.8
    assert accuracy(mapper, survey, 7) > 0.7


def test_an_excluded_point_lowers_its_class(survey, fitted):
    """A rejected point lowers the votes of its class at similar samples, without favouring another class."""
    sections, _, _, sample, graphs = survey
    mapper, points = fitted
    before = mapper.votes(sections[7], 7)[..., mapper.classes_ == "fault"]
    trace, row = np.unravel_index(before[..., 0].argmax(), before.shape[:2])
    rejected = Point(7, int(trace), int(row), "fault", excluded=True, kind="verdict")
    again = PointMapper("other").fit(sample, [*points, rejected], sections.__getitem__, graphs=graphs)
    after = again.votes(sections[7], 7)[..., again.classes_ == "fault"]
    assert after[trace, row] < 0.7 * before[trace, row]
    assert after.mean() < before.mean()


def test_a_confirmed_line_improves_other_lines(survey, fitted):
    """With a confirmed line, labels of another line are much better than with clicks, also from a saved mapper."""
    sections, truth, names, sample, graphs = survey
    confirmed = ConfirmedSamples(names, {4: truth[4]})
    mapper = PointMapper("other").fit(sample, fitted[1], sections.__getitem__, graphs=graphs, confirmed=confirmed)
    assert accuracy(mapper, survey, 7) > 0.96
    assert accuracy(mapper, survey, 4) == 1
    again = PointMapper.restored(*mapper.saved())
    np.testing.assert_array_equal(again.votes(sections[7], 7), mapper.votes(sections[7], 7))


def test_a_forest_equals_that_of_scikit_learn():
    """Trees as arrays give the same shares as the trees of scikit-learn."""
    rng = np.random.default_rng(0)
    features, labels = rng.random((300, 4), dtype=np.float32), rng.integers(0, 3, 300)
    options = {"min_samples_leaf": 4, "max_features": 0.2, "class_weight": "balanced", "random_state": 0}
    twin = ExtraTreesClassifier(N_TREES, **options).fit(features, labels)
    found = grow_forest(features, labels, 4).shares(features)
    np.testing.assert_allclose(found[:, :3], twin.predict_proba(features), atol=1e-5)
    assert not found[:, 3].any()


def test_one_class_without_background_has_scores(survey, fitted):
    """A single class gives its probability, which is not 1 everywhere."""
    sections, _, _, sample, graphs = survey
    mapper = PointMapper().fit(sample, fitted[1][:1], sections.__getitem__, graphs=graphs)
    scores = mapper.votes(sections[7], 7)
    assert scores.shape == (200, 256, 1)
    assert 0 <= scores.min() < 0.1 < 0.8 < scores.max() <= 1.00001


def test_positions_have_no_effect_in_other_surveys(survey, fitted):
    """Without a line number, the positions of points have no effect."""
    sections, mapper = survey[0], fitted[0]
    near, far = mapper.votes(sections[0], 0), mapper.votes(sections[0])
    assert np.abs(near - far).max() > 0.01
    np.testing.assert_array_equal(mapper.votes(sections[7], 7), mapper.votes(sections[7]))


def test_same_input_same_votes(survey, fitted):
    """The same survey and points give the same votes."""
    sections, _, _, _, _ = survey
    sample = sample_survey(sections.items(), n_landmarks=1000)
    again = PointMapper("other").fit(sample, fitted[1], sections.__getitem__)
    np.testing.assert_array_equal(again.votes(sections[7], 7), fitted[0].votes(sections[7], 7))


def test_a_mapper_is_restored_from_its_arrays(survey, fitted):
    """A restored mapper has the same votes; one with other encoder weights is refused."""
    about, arrays = fitted[0].saved()
    again = PointMapper.restored(about, dict(arrays))
    np.testing.assert_array_equal(again.votes(survey[0][0], 0), fitted[0].votes(survey[0][0], 0))
    with pytest.raises(ValueError, match="another version of the encoder"):
        PointMapper.restored(about | {"encoder": ""}, dict(arrays))


def test_exclusions_alone_are_refused(survey):
    """Exclusions without any other point are refused."""
    sections, _, _, sample, graphs = survey
    with pytest.raises(ValueError, match="at least one"):
        PointMapper("other").fit(sample, [Point(0, 5, 5, "fault", excluded=True)], sections.__getitem__, graphs=graphs)


def test_reach_solves_the_walk(survey):
    """Reach is the density of a walk that continues with probability alpha: it solves a linear system."""
    graph = survey[4][0]
    seeds = np.zeros((1000, 1), np.float32)
    seeds[3] = 1
    reach = graph.reach(seeds)[:, 0]
    assert reach.argmax() == 3
    assert reach.mean() == pytest.approx(1, abs=1e-3)


def test_membership_grows_with_reach(survey):
    """Membership does not decrease with reach, and is 1 for the landmark of largest reach."""
    reach = np.random.default_rng(0).lognormal(size=1000).astype(np.float32)
    member = survey[4][0].membership(reach)
    assert (np.diff(member[np.argsort(reach)]) >= -1e-6).all()
    assert member.min() >= 0
    assert member[reach.argmax()] == 1


def test_interpolation_keeps_constants(survey):
    """Weights of the nearest landmarks sum to 1."""
    graph = survey[4][0]
    nearest, weight = graph.weights(graph.points[:50] + 0.1)
    np.testing.assert_allclose(interpolated(np.ones(1000, np.float32), nearest, weight), 1, atol=1e-6)


def test_every_grid_point_is_drawn_with_the_same_probability():
    """The probability of a grid point does not depend on its line."""
    lines = np.random.default_rng(0).random((6, 64, 64), dtype=np.float32)
    sample = sample_survey(enumerate(lines), n_landmarks=900)
    counts = np.bincount(sample.place[:, 0].astype(int), minlength=6)
    assert counts.sum() == 900
    assert (np.abs(counts - 150) < 5 * np.sqrt(150)).all()


def test_encoder_features_lie_at_the_grid_points_of_the_energies():
    """Energies and encoder features show a narrow disturbance at the same position."""
    rows = np.indices((160, 160))[0]
    section = (0.5 + 0.2 * np.sin(rows / 3)).astype(np.float32)
    disturbed = section.copy()
    disturbed[:, 79:82] = 0.5 - 0.2 * np.sin(rows[:, 79:82] / 3)  # centre 80, that is grid point 19.4
    change = np.abs(nodes_of(disturbed).features - nodes_of(section).features)[20]
    centres = [
        (change[:, part].mean(axis=1) ** 2 * np.arange(40)).sum() / (change[:, part].mean(axis=1) ** 2).sum()
        for part in (slice(0, 32), slice(64, None))
    ]
    np.testing.assert_allclose(centres, (80 - 2.5) / 4, atol=0.3)


def test_relative_time_follows_the_dip():
    """Along a reflector of constant dip the relative time stays the same."""
    dip = np.full((40, 30), 0.25, np.float32)
    time = relative_time(dip)
    for row, column in ((20, 3), (25, 20)):
        assert time[row, column] == pytest.approx(row - 0.25 * (column - 15), abs=0.01)


def slow_ordered_layers(profile, rows, labels):
    """Return the layers with the best of all possible boundaries, by trying each."""
    best = np.inf, None
    gaps = [range(a + 1, b + 1) for a, b in pairwise(rows)]
    for ends in np.stack(np.meshgrid(*gaps), axis=-1).reshape(-1, len(gaps)):
        parts = np.split(profile, ends)
        cost = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
        if cost < best[0]:
            best = cost, np.repeat(labels, [len(part) for part in parts])
    return best[1]


@pytest.mark.parametrize("seed", range(4))
def test_ordered_layers_are_optimal(seed):
    """Dynamic programming finds the same boundaries as an exhaustive search."""
    rng = np.random.default_rng(seed)
    profile = rng.normal(size=(24, 3)) + np.repeat(rng.normal(size=(4, 3)), 6, axis=0)
    rows, labels = np.sort(rng.choice(24, 4, replace=False)), np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(
        ordered_layers(profile, rows[::-1], labels[::-1]), slow_ordered_layers(profile, rows, labels)
    )


def test_clicks_at_the_same_time_give_layers_of_at_most_one_row():
    """Clicks of several classes at one relative time do not fail, even at the rim of the survey."""
    layers = ordered_layers(np.random.default_rng(0).normal(size=(10, 2)), [9, 9, 9, 0], [1, 2, 3, 0])
    assert len(layers) == 10
    assert layers[0] == 0


def test_layers_end_at_changes_of_facies():
    """In a layered survey without background, classes end where layers change, not midway between the clicks."""
    rng = np.random.default_rng(0)
    rows = np.arange(192)
    rough = gaussian_filter(rng.normal(size=(3, 192, 120)), (0, 1.5, 2))
    beds = np.where(rows < 40, np.sin(rows / 1.2), np.sin(rows / 3))[:, None]
    lines = 0.5 + np.where(rows[:, None] < 150, 0.3 * beds, 0.2 * rough / rough.std())
    sample = sample_survey(enumerate(lines), n_landmarks=300)
    assert layered_share(sample) > 0.65
    assert np.isfinite(profile_of(sample)).all()
    points = [Point(0, 20, 20, "upper"), Point(0, 60, 60, "middle"), Point(0, 90, 180, "lower")]
    mapper = PointMapper().fit(sample, points, lines.__getitem__)
    assert mapper.layered_
    labels = mapper.classes_[mapper.votes(lines[2], 2).argmax(axis=-1)]
    truth = np.where(rows < 40, "upper", np.where(rows < 150, "middle", "lower"))
    assert (labels == truth).mean() > 0.86  # the class of the click nearest in time has 0.84


def test_a_section_smaller_than_the_windows_is_labelled(survey, fitted):
    """Sections of few samples and traces, and with missing samples, have votes."""
    section = survey[0][7][:21, :18].copy()
    section[:5, :5] = np.nan
    assert np.isfinite(fitted[0].votes(section)).all()


def test_strokes_change_similar_samples_only(survey, fitted):
    """Painted classes win under the stroke, similar samples of other lines follow, other samples keep their votes."""
    sections, truth, names, sample, graphs = survey
    mapper, clicks = fitted
    code = names.index("salt dome") + 1
    rows = np.argwhere(truth[0] == code)[::97]
    strokes = [Point(0, trace, depth, "salt dome", kind="stroke") for depth, trace in rows.tolist()]
    painted = PointMapper("other").fit(sample, [*clicks, *strokes], sections.__getitem__, graphs=graphs)
    salt = list(painted.classes_).index("salt dome")
    before, after = (one.votes(sections[7], 7)[..., salt].T for one in (mapper, painted))
    assert after[truth[7] == code].mean() > before[truth[7] == code].mean()
    unlike = painted.correction_.painted + 100  # features and lines
    np.testing.assert_allclose(painted.correction_.at(unlike), 0, atol=1e-6)


def test_a_correction_is_a_gaussian_process(survey):
    """It is the posterior mean: of features on other lines, of features and positions on a painted line."""
    rng = np.random.default_rng(0)
    features, others = (rng.random((n, 5), dtype=np.float32) for n in (30, 4))
    residuals, rows = rng.random((30, 2), dtype=np.float32), rng.integers(0, 90, (2, 30))
    found = fit_correction(with_places(features, 3, *rows), residuals)

    def by_formula(line):
        def covariance(one, its_rows, other, other_rows):
            unlike = np.square(one[:, None] - other).sum(axis=-1)
            apart = np.square(its_rows[:, :, None] - other_rows[:, None]).sum(axis=0)
            near = np.exp(-0.5 * (unlike / ALIKE_NEARBY**2 + apart / NEARBY**2))
            return np.exp(-0.5 * unlike) + near * (line == 3)

        gram = covariance(features, rows, features, rows) + NOISE * np.eye(30)
        return covariance(others, rows[:, :4], features, rows) @ np.linalg.solve(gram, residuals)

    for line in (3, 4):
        query = with_places(others, line, *rows[:, :4])
        np.testing.assert_allclose(found.at(query), by_formula(line), rtol=1e-3)
    nowhere = with_places(others, None, *rows[:, :4])
    np.testing.assert_allclose(found.without_places().at(nowhere), by_formula(4), rtol=1e-3)
