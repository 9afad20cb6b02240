"""Labels and confidence depend on the scores of each patch alone, and filters equal their definitions."""

import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import ndimage

from outcrop.mapping.confidence import confidence, label, majority_filter, median_filter, winner

STACKS = arrays("uint8", array_shapes(min_dims=3, max_dims=3, max_side=7), elements=st.integers(0, 4))
SCORES = np.random.default_rng(0).random((5, 8, 9, 4))


def test_winner_is_the_argmax():
    """Codes are argmax + 1, the first of equal scores, and are returned with the largest score."""
    tied = np.concatenate((SCORES, SCORES[..., ::-1].round(1)))
    codes, best = winner(tied)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, tied.argmax(-1) + 1)
    np.testing.assert_array_equal(best, tied.max(-1))


def test_confidence_is_the_share_of_the_winner():
    """Probabilities are unchanged, gain has no effect, equal classes give 1 / n and no evidence gives 0."""
    probabilities = SCORES / SCORES.sum(-1, keepdims=True)
    np.testing.assert_allclose(confidence(probabilities), probabilities.max(-1))
    np.testing.assert_allclose(confidence(SCORES * 1e-3), confidence(SCORES))
    assert confidence(np.array([0.2, 0.2, 0.2, 0.2])) == pytest.approx(0.25)
    assert confidence(np.zeros(4)) == 0


@given(STACKS)
def test_median_equals_scipy(labels):
    """The median by counting equals that of SciPy with repeated edges."""
    np.testing.assert_array_equal(median_filter(labels), ndimage.median_filter(labels, (1, 3, 3), mode="nearest"))


@given(STACKS)
def test_majority_equals_the_slow_twin(labels):
    """The filter returns the most frequent label, and on a tie the label of the pixel."""
    np.testing.assert_array_equal(majority_filter(labels), [reference.majority(patch) for patch in labels])


@given(STACKS, st.permutations(range(5)))
def test_majority_does_not_depend_on_the_codes(labels, codes):
    """Renumbering the classes renumbers the result."""
    codes = np.array(codes, "uint8")
    np.testing.assert_array_equal(majority_filter(codes[labels]), codes[majority_filter(labels)])


def test_order_of_threshold_and_filter():
    """In the paper's order a lone unsure pixel is filled by its neighbours; in the published order it stays."""
    scores = np.tile([1.0, 2.0], (1, 5, 5, 1))
    confident = np.ones((1, 5, 5), bool)
    confident[0, 2, 2] = False
    assert (label(scores, confident=confident, smooth=median_filter) == 2).all()
    published = label(scores, confident=confident, smooth=median_filter, order="published")
    np.testing.assert_array_equal(published == 0, ~confident)


def test_blocks_and_torch_agree():
    """Patches are labelled independently, and NumPy and torch give equal results in arrays of their own kind."""
    sure = confidence(SCORES) > 0.4
    whole = label(SCORES, confident=sure, smooth=majority_filter)
    parts = [label(SCORES[i : i + 2], confident=sure[i : i + 2], smooth=majority_filter) for i in (0, 2, 4)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    for smooth in (median_filter, majority_filter):
        other = label(torch.asarray(SCORES), confident=torch.asarray(sure), smooth=smooth)
        np.testing.assert_array_equal(other.numpy(), label(SCORES, confident=sure, smooth=smooth))


def test_refuses_an_unknown_order():
    """The error names the two orders."""
    with pytest.raises(ValueError, match="order is 'median'; choose 'paper' or 'published'"):
        label(SCORES, order="median")


def test_the_background_is_the_class_named_or_one_with_a_common_name():
    """A given name must exist; by default `other` is preferred to names that may be a geological class."""
    from outcrop.mapping.confidence import find_background

    assert find_background(["Layers", "salt", "other"]) == "other"
    assert find_background(["Country Rock", "salt"]) == "Country Rock"
    assert find_background(["other", "salt"], "salt") == "salt"
    with pytest.raises(ValueError, match="choose one of fault, salt"):
        find_background(["fault", "salt"], "other")
