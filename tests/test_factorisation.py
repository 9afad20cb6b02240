"""The factorisation follows its objective and keeps its constraints."""

import numpy as np
import pytest
import reference
from scipy.optimize import nnls

from outcrop.mapping.factorisation import (
    VARIANTS,
    Paint,
    Penalties,
    factorise,
    objective,
    prepare_solver,
    solve_coefficients,
    update_atoms,
    update_coefficients,
)
from outcrop.mapping.label_mapper import class_scores

PENALTIES = Penalties(orthogonality=2.0, atoms=0.1, coefficients=0.5)


def problem(seed=0, n_pixels=30, n_patches=20, n_atoms=6, scale=1.0):
    """Return a random X, sparse W and H."""
    rng = np.random.default_rng(seed)
    W = rng.random((n_pixels, n_atoms)) * (rng.random((n_pixels, n_atoms)) > 0.4)
    return rng.random((n_pixels, n_patches)) * scale, W, rng.random((n_atoms, n_patches))


def painted(X, n_atoms, seed=0):
    """Return painted pixels of two classes on three patches."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (X.shape[0], 3))
    half = n_atoms // 2
    wrong = [(codes == 2).astype(float), (codes == 1).astype(float)]
    return Paint(np.array([1, 4, 5]), wrong, [slice(0, half), slice(half, n_atoms)])


def last(X, W, H, n, **options):
    """Return W, H and F after n iterations."""
    steps = factorise(X, W.copy(), H, **options)
    for _ in range(n):
        next(steps)
    return next(steps)


def test_objective_equals_its_definition():
    """The objective from matrix products equals the sum of the norms, in total and in parts."""
    X, W, H = problem()
    slow = reference.factorisation_objective(X, W, H, *PENALTIES[:3])
    np.testing.assert_allclose(objective(X, W, H, penalties=PENALTIES), slow, rtol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_iterations_equal_the_slow_twin(variant):
    """Five iterations equal the printed formulas, and every yielded objective is that of W and H."""
    X, W, H = problem()
    steps = factorise(X, W.copy(), H, variant=variant, penalties=PENALTIES)
    for _ in range(6):
        fast_W, fast_H, terms = next(steps)
        np.testing.assert_allclose(fast_W, W, atol=1e-6)
        np.testing.assert_allclose(fast_H, H, atol=1e-6)
        np.testing.assert_allclose(terms, objective(X, fast_W, fast_H, penalties=PENALTIES), rtol=1e-10)
        W, H = reference.factorisation_step(X, W, H, variant, *PENALTIES[:3])


@pytest.mark.parametrize("variant", ["paper", "exact"])
@pytest.mark.parametrize("paint", [False, True])
def test_updates_follow_the_gradient_of_the_objective(variant, paint):
    """Update ratios agree with central differences of F: `exact` with F, `paper` with F at half gamma."""
    X, W, H = problem()
    W += 0.1
    paint = painted(X, W.shape[1]) if paint else None
    rule, gamma = VARIANTS[variant], PENALTIES.orthogonality
    of = PENALTIES if variant == "exact" else PENALTIES._replace(orthogonality=gamma / 2)

    def gradient(function, at, step=1e-5):
        out = np.zeros_like(at)
        for index in np.ndindex(at.shape):
            shift = np.zeros_like(at)
            shift[index] = step
            out[index] = (function(at + shift) - function(at - shift)) / (2 * step)
        return out

    G, A, S = H @ H.T, W.T @ X, W.T @ W + of.coefficients * np.eye(6)
    cross_W, cross_H = np.zeros_like(W), np.zeros_like(H)
    if paint:
        for wrong, atoms in zip(paint.wrong, paint.groups, strict=True):
            evidence = wrong * (W[:, atoms] @ H[atoms][:, paint.columns])
            cross_W[:, atoms] = of.paint * evidence @ H[atoms][:, paint.columns].T
            cross_H[atoms, paint.columns] = W[:, atoms].T @ evidence
    ratio = update_atoms(X, W.copy(), H, G + of.atoms * np.eye(6), penalties=of, paint=paint) / W
    model = W @ G + of.atoms * W + cross_W
    numeric = gradient(lambda w: objective(X, w, H, penalties=of, paint=paint)[1], W)
    np.testing.assert_allclose(numeric, 2 * model * (1 - ratio), atol=2e-5)

    ratio = update_coefficients(A, S, H, G, variant=rule, penalties=PENALTIES, painted_misfit=cross_H) / H
    numeric = gradient(lambda h: objective(X, W, h, penalties=of, paint=paint)[2], H)
    b, c = S @ H + of.paint * cross_H, rule.push * gamma * G @ H
    predicted = b * (1 - ratio) + c * (1 - ratio**3) if rule.root else (b + c) * (1 - ratio)
    np.testing.assert_allclose(numeric, 2 * predicted, atol=2e-5)


@pytest.mark.parametrize("scale", [1, 0.1, 0.01])
@pytest.mark.parametrize("paint", [False, True])
def test_exact_never_raises_the_objective(scale, paint):
    """No half step of 40 random problems raises F, for gamma from 0 to 50, with and without painted pixels."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, W, H = problem(seed, n_pixels=rng.integers(2, 20), n_patches=rng.integers(6, 15), n_atoms=4, scale=scale)
        penalties = Penalties(rng.choice([0, 0.1, 1, 5, 50]), rng.choice([0, 0.1]), rng.choice([0, 0.5]))
        marks = painted(X, 4, seed) if paint else None
        now = objective(X, W, H, penalties=penalties, paint=marks)[0]
        for _ in range(15):
            W = update_atoms(X, W, H, H @ H.T + penalties.atoms * np.eye(4), penalties=penalties, paint=marks)
            half = objective(X, W, H, penalties=penalties, paint=marks)[0]
            pull = np.zeros_like(H)
            for wrong, atoms in zip(marks.wrong, marks.groups, strict=True) if paint else ():
                evidence = wrong * (W[:, atoms] @ H[atoms][:, marks.columns])
                pull[atoms, marks.columns] = W[:, atoms].T @ evidence
            S = W.T @ W + penalties.coefficients * np.eye(4)
            H = update_coefficients(
                W.T @ X, S, H, H @ H.T, variant=VARIANTS["exact"], penalties=penalties, painted_misfit=pull
            )
            whole = objective(X, W, H, penalties=penalties, paint=marks)[0]
            slack = 1e-12 * (1 + now)
            assert half <= now + slack and whole <= half + slack
            assert (W >= 0).all() and (H >= 0).all()
            now = whole


def test_accelerated_exact_never_raises_the_objective():
    """No repeated half step of the acceleration raises F, also with painted patches."""
    for seed in range(20):
        X, W, H = problem(seed)
        steps = factorise(X, W, H, variant="exact", paint=painted(X, 6, seed), accelerate=True)
        course = np.array([next(steps)[2][0] for _ in range(20)])
        assert (np.diff(course) <= 1e-12 * course[:-1]).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_factors_stay_non_negative_and_zeros_of_the_atoms_stay(variant):
    """Multiplicative updates keep factors non-negative and the zeros of W0."""
    X, W0, H0 = problem()
    W, H, _ = last(X, W0, H0, 30, variant=variant)
    assert (W >= 0).all() and (H >= 0).all() and (W[W0 == 0] == 0).all()
    assert np.isfinite(W).all() and np.isfinite(H).all()


@pytest.mark.parametrize("variant", ["paper", "exact"])
def test_acceleration_keeps_the_fixed_points(variant):
    """Accelerated iterations stay at a fixed point of plain ones, and reach a lower objective sooner."""
    X, W0, H0 = problem(n_pixels=10, n_patches=8, n_atoms=3)
    W, H, terms = last(X, W0, H0, 5000, variant=variant, penalties=PENALTIES)
    _, _, kept = last(X, W, H, 100, variant=variant, penalties=PENALTIES, accelerate=True)
    assert kept[0] == pytest.approx(terms[0], rel=1e-6)
    plain = last(X, W0, H0, 30, variant="exact", penalties=PENALTIES)[2][0]
    assert last(X, W0, H0, 15, variant="exact", penalties=PENALTIES, accelerate=True)[2][0] < plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_permuting_the_classes_permutes_the_scores(variant):
    """Permuting W0 and H0 in the same way permutes the scores."""
    X, W, H = problem(n_atoms=6)
    order = np.array([2, 3, 4, 5, 0, 1])
    W1, H1, _ = last(X, W, H, 20, variant=variant)
    W2, H2, _ = last(X, W[:, order], H[order], 20, variant=variant)
    codes = np.repeat([0, 1, 2], 2)
    one = class_scores(W1.T.reshape(6, 5, 6), H1.T, codes)
    two = class_scores(W2.T.reshape(6, 5, 6), H2.T, codes)
    np.testing.assert_allclose(two, one[..., [1, 2, 0]], rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_coefficients_are_the_non_negative_least_squares(penalty):
    """Solved coefficients equal SciPy's active-set solution, column by column."""
    X, W, _ = problem()
    stacked = np.vstack((W, np.sqrt(penalty) * np.eye(6)))
    slow = np.transpose([nnls(stacked, np.append(x, np.zeros(6)))[0] for x in X.T])
    np.testing.assert_allclose(solve_coefficients(W.T @ X, prepare_solver(W.T @ W, penalty=penalty)), slow, atol=1e-5)
