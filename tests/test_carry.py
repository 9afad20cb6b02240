"""Labels carried from confirmed lines to other lines: laws of shifts, moves, uncertainty and blending."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, shift

from outcrop.mapping.carry import (
    BEND,
    FAR,
    JUMP,
    _cheapest,
    _sideways_costs,
    _vertical_costs,
    balanced,
    carry,
    class_distances,
    confirmed_line,
    matching,
    sampled,
    vertical_shift,
)
from outcrop.mapping.points import ConfirmedSamples, PointMapper
from outcrop.mapping.survey_sample import nodes_of, sample_survey

ROWS, COLUMNS = np.indices((160, 120))


def layered(seed=0):
    """Section of smooth random layers, in [0, 1]."""
    noise = gaussian_filter(np.random.default_rng(seed).normal(size=(160, 120)), (1.5, 25))
    return (0.5 + 0.15 * noise / noise.std()).clip(0, 1).astype(np.float32)


def kept(section, codes):
    """Confirmed line of a section."""
    return confirmed_line(section, nodes_of(section), codes)


def labels(confirmed, section, place, n_classes=3):
    """Codes carried to a section."""
    found = carry(confirmed, section, nodes_of(section), place, n_classes)
    return found.distance.argmin(axis=-1) + 1


CODES = (1 + (ROWS >= 60) + (ROWS >= 100)).astype(np.uint8)


def test_a_line_carried_to_the_same_section_keeps_its_labels():
    """Another line with the same amplitudes gets the same labels: in a flat volume, labels are copied."""
    section = layered()
    np.testing.assert_array_equal(labels({0.0: kept(section, CODES)}, section, 300.0), CODES)


@pytest.mark.parametrize("by", [-7, 4])
def test_labels_follow_a_line_that_is_shifted_as_a_whole(by):
    """If a line is shifted down by some samples, so are its labels, at every sample off the rim."""
    section = layered()
    lower = shift(section, (by, 0), mode="nearest", order=1)
    found = labels({0.0: kept(section, CODES)}, lower, 200.0)
    np.testing.assert_array_equal(found[10:-10], np.roll(CODES, by, axis=0)[10:-10])


def test_labels_follow_a_shift_that_changes_along_the_line():
    """A tilt of four samples between two lines is followed within one sample."""
    section = layered()
    tilt = 4 * (COLUMNS - 60) / 120
    tilted = sampled(section[..., None], (ROWS - tilt).astype(np.float32), COLUMNS.astype(np.float32))[..., 0]
    found, spread = vertical_shift(balanced(section), balanced(tilted), 200.0)
    assert np.abs(found - tilt)[15:-15].max() < 1
    assert np.abs(found - tilt)[15:-15].mean() < 0.25
    assert spread[15:-15].mean() < 0.5


def test_a_fault_zone_moves_sideways_while_layers_stay():
    """A zone that cuts reflectors is found at its position on the other line; flat boundaries do not move."""

    def line(at):
        dropped = 9 * (at < COLUMNS)
        near = np.abs(COLUMNS - at) <= 6
        section = sampled(
            layered()[..., None], (ROWS - dropped).astype(np.float32), np.zeros((160, 120), np.float32) + 60
        )[..., 0]
        noise = gaussian_filter(np.random.default_rng(1).normal(size=section.shape), 1.5)
        section = np.where(near, 0.5 + 0.3 * (section - 0.5) + 0.15 * noise / noise.std(), section)
        codes = np.where(near, 2, np.where(ROWS - dropped >= 60, 3, 1)).astype(np.uint8)
        return section.clip(0, 1).astype(np.float32), codes

    (section, codes), (other, truth) = line(52), line(64)
    found = labels({0.0: kept(section, codes)}, other, 500.0)
    assert ((codes == 2) & (truth == 2)).sum() / ((codes == 2) | (truth == 2)).sum() < 0.05
    assert ((found == 2) & (truth == 2)).sum() / ((found == 2) | (truth == 2)).sum() > 0.6
    away = np.abs(COLUMNS - 58) > 25
    assert (found == truth)[away].mean() > 0.97


def test_uncertainty_grows_with_distance_and_mismatch():
    """Boundaries are more uncertain if the confirmed line is farther away or matches worse."""
    section, noise = layered(), layered(1)
    line = kept(section, CODES)
    blurs = [carry({0.0: line}, section, nodes_of(section), metres, 3).blur.mean() for metres in (25.0, 100.0, 500.0)]
    assert blurs[0] < blurs[1] < blurs[2]
    assert carry({0.0: line}, noise, nodes_of(noise), 100.0, 3).blur.mean() > 2 * blurs[1]
    assert carry({0.0: line}, section, nodes_of(section), FAR + 1, 3) is None


def test_the_learner_decides_far_away():
    """The same shares of a learner decide labels far from the confirmed line and not next to it."""
    section, noise = layered(), layered(1)
    line, shares = kept(section, CODES), np.eye(3, dtype=np.float32)[3 - CODES]
    near = carry({0.0: line}, section, nodes_of(section), 25.0, 3).pooled(shares).argmax(axis=-1)
    far = carry({0.0: line}, noise, nodes_of(noise), FAR, 3).pooled(shares).argmax(axis=-1)
    np.testing.assert_array_equal(near + 1, CODES)
    assert (far == 3 - CODES).mean() > 0.9


def test_the_learner_has_more_weight_for_structures_than_for_layers():
    """At half a kilometre, labels of a layered survey are carried; those of structures come from the learner."""
    section = layered()
    line, nodes = kept(section, CODES), nodes_of(section)
    learner = np.full((*CODES.shape, 3), [0.2, 0.2, 0.6], np.float32)
    shares = [carry({0.0: line}, section, nodes, 500.0, 3, layered=kind).pooled(learner) for kind in (True, False)]
    assert (shares[0].argmax(axis=-1) + 1 == CODES).mean() > 0.95
    np.testing.assert_allclose(shares[1], learner, atol=0.05)
    near = [carry({0.0: line}, section, nodes, 25.0, 3, layered=kind).pooled(learner) for kind in (True, False)]
    np.testing.assert_allclose(near[0], near[1], atol=0.01)


def test_boundaries_are_interpolated_between_two_lines():
    """Midway between two lines with equal amplitudes, a boundary lies midway between theirs."""
    section = layered()
    upper, lower = (kept(section, np.where(at > ROWS, 1, 2)) for at in (60, 80))
    found = labels({0.0: upper, 200.0: lower}, section, 100.0, 2)
    np.testing.assert_array_equal(found, np.where(ROWS < 70, 1, 2))
    found = labels({0.0: upper, 200.0: lower}, section, 50.0, 2)
    np.testing.assert_array_equal(found, np.where(ROWS < 65, 1, 2))


def test_unconfirmed_samples_are_not_carried():
    """At samples without a confirmed label, the shares of the learner are unchanged."""
    section, codes = layered(), CODES.copy()
    codes[:, :60] = 0
    found = carry({0.0: kept(section, codes)}, section, nodes_of(section), 25.0, 3)
    shares = np.full((160, 120, 3), 1 / 3, np.float32)
    pooled = found.pooled(shares)
    np.testing.assert_array_equal(pooled[:, :59], shares[:, :59])
    np.testing.assert_array_equal(pooled[:, 61:].argmax(axis=-1) + 1, CODES[:, 61:])


def test_wrong_codes_are_refused():
    """The error for codes of another shape than the section names both shapes."""
    section = layered()
    with pytest.raises(ValueError, match=r"\(10, 10\).*\(160, 120\)"):
        confirmed_line(section, nodes_of(section), np.ones((10, 10)))


def slow_cheapest(costs, bend, jump):
    """Slow twin: sums along paths from four sides, row by row, with NumPy."""
    total = np.zeros(costs.shape)
    for axis in (0, 1):
        for flip in (False, True):
            part = np.moveaxis(costs, axis, 0)[:: -1 if flip else 1].astype(float)
            sums = part.copy()
            for step in range(1, len(part)):
                before = sums[step - 1]
                least = before.min(axis=-1, keepdims=True)
                padded = np.pad(before, [(0, 0), (1, 1)], constant_values=np.inf)
                paths = [before, least + jump, padded[:, :-2] + bend, padded[:, 2:] + bend]
                sums[step] += np.min(np.broadcast_arrays(*paths), axis=0) - least
            total += np.moveaxis(sums[:: -1 if flip else 1], 0, axis)
    return total.argmin(axis=-1) - costs.shape[-1] // 2


def test_cheapest_shifts_are_those_of_a_slow_twin():
    """The kernel finds the same steps as NumPy; the parabola adds half a step at most."""
    costs = gaussian_filter(np.random.default_rng(0).random((30, 25, 9)), (1, 1, 0)).astype(np.float32)
    found = _cheapest(costs, 0.1 * BEND, 0.05 * JUMP)
    assert np.abs(found - slow_cheapest(costs, 0.1 * BEND, 0.05 * JUMP)).max() <= 0.51


def test_costs_are_squared_differences_at_each_shift():
    """At shift s, a sample is compared with the one s samples higher; at move s, with the one s grid points left."""
    rng = np.random.default_rng(0)
    there, here = rng.random((2, 20, 15)).astype(np.float32)
    costs = _vertical_costs(there, here, 3)
    np.testing.assert_allclose(costs[8, 4], [(there[8 - s, 4] - here[8, 4]) ** 2 for s in range(-3, 4)], rtol=1e-5)
    features = rng.random((2, 10, 12, 4)).astype(np.float32)
    costs = _sideways_costs(*features, np.zeros((10, 12), np.float32), 2)
    expected = [((features[0, 5, 6 - s] - features[1, 5, 6]) ** 2).sum() for s in range(-2, 3)]
    np.testing.assert_allclose(costs[5, 6], expected, rtol=1e-5)


def test_interpolation_is_linear():
    """Half rows and columns give means; positions outside the section give values of the rim."""
    values = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
    found = sampled(values, np.array([[0.5, -2.0]], np.float32), np.array([[1.5, 9.0]], np.float32))
    np.testing.assert_allclose(found[0, :, 0], [3.5, 3.0])


def test_distances_to_a_class_that_is_missing_are_the_largest():
    """The distance to a class without samples is the maximum."""
    distance = class_distances(CODES, 4)
    assert (distance[..., 3] == 64).all()
    assert (distance.argmin(axis=-1) + 1 == CODES).all()


def test_matching_lies_between_zero_and_one():
    """A section matches itself with 1 and its negative with 0."""
    section = balanced(layered())
    np.testing.assert_allclose(matching(section, section, (8, 8)), 1, atol=1e-3)
    assert matching(section, -section, (8, 8)).max() == 0


def test_a_confirmed_line_keeps_its_labels_and_labels_other_lines():
    """Votes of a confirmed line equal its labels; other lines get carried labels, also from a saved mapper."""
    sections = {line: np.roll(layered(), line // 2, axis=0) for line in range(0, 13, 2)}
    codes = CODES.copy()
    codes[20:40, 30:50] = 0
    sample = sample_survey(sections.items(), n_landmarks=300)
    confirmed = ConfirmedSamples(["upper", "middle", "lower"], {4: codes})
    mapper = PointMapper().fit(sample, [], sections.__getitem__, confirmed=confirmed)
    votes = mapper.votes(sections[4], 4).swapaxes(0, 1)
    assert mapper.classes_.tolist() == ["upper", "middle", "lower"]
    np.testing.assert_array_equal(votes[codes > 0], np.eye(3)[codes[codes > 0] - 1])
    np.testing.assert_allclose(votes.sum(axis=-1), 1, atol=1e-5)
    found = mapper.votes(sections[8], 8)
    right = np.roll(CODES, 2, axis=0) == found.argmax(axis=-1).T + 1
    assert right[10:-10].mean() > 0.99
    again = PointMapper.restored(*mapper.saved())
    np.testing.assert_array_equal(again.votes(sections[8], 8), found)
    mapper.forget_places()
    assert (mapper.votes(sections[4], 4).max(axis=-1) < 1).any()


def test_distances_are_in_metres():
    """Known positions of lines decide: nothing is carried between two distant lines."""
    sections = {0: layered(), 1: layered(1)}
    sample = sample_survey(sections.items(), n_landmarks=300)
    taught = {"confirmed": ConfirmedSamples(["upper", "middle", "lower"], {0: CODES})}
    fits = [
        PointMapper().fit(sample, [], sections.__getitem__, **taught, metres=metres)
        for metres in (None, [0.0, 25.0], [0.0, 2 * FAR])
    ]
    usual, near, far = (mapper.votes(sections[1], 1) for mapper in fits)
    np.testing.assert_array_equal(usual, near)
    fits[0].confirmed_ = {}
    np.testing.assert_array_equal(far, fits[0].votes(sections[1], 1))
    assert (near != far).any()
