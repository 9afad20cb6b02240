"""Sparse, orthogonal non-negative factorisation: the numerical core of the label mapping.

Follows Alaudah, Alfarraj and AlRegib, GEOPHYSICS 84(1), 2019, in the paper's symbols.

=====  ==============================  ================================================================
X      (n_pixels, n_patches)           one vectorised patch per column
W      (n_pixels, n_atoms)             one atom per column; atoms of a class stand side by side
H      (n_atoms, n_patches)            coefficients
A      W^T X;  S = W^T W;  G = H H^T   products used by the updates and by the objective
=====  ==============================  ================================================================

The objective, with gamma the orthogonality, lambda1 the atom penalty and lambda2 the coefficient penalty, is::

    F(W, H) = ||X - W H||^2 + gamma ||H H^T - I||^2 + lambda1 ||W||^2 + lambda2 ||H||^2,    W, H >= 0

If pixels were painted by hand, F has a further term: ``paint`` times the squared evidence of the wrong classes on these
pixels. On a pixel, all classes except the painted one are wrong.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from outcrop.arrays import Array, array_namespace, constant, on_cpu

EPSILON = 1e-9  # keeps 0 / 0 out of the update rules, as in the paper's eq. A-7


class Penalties(NamedTuple):
    """Weights of the terms of the objective; the misfit ||X - W H||^2 has weight 1."""

    orthogonality: float = 5.0
    atoms: float = 0.1
    coefficients: float = 0.5
    paint: float = 10.0


PENALTIES = Penalties()


class Variant(NamedTuple):
    """Constants in which the update rules of the paper, of the released code and of the exact gradient differ."""

    pull: int  # multiple of gamma H in the numerator of the H update
    push: int  # multiple of gamma H H^T H in the denominator of the H update
    root: bool  # cubic-root rule, which never raises F, instead of the ratio rule
    normalise: bool  # unit rows of H and columns of W after every iteration, smoothed class scores
    iterations: int
    threshold: float  # lower limit of the confidence, as the variant defines confidence
    order: str  # which comes first, the threshold or the median filter: see `confidence.label`


VARIANTS = {
    "paper": Variant(pull=1, push=1, root=False, normalise=False, iterations=200, threshold=1e-3, order="paper"),
    "published": Variant(
        pull=2, push=1, root=False, normalise=True, iterations=400, threshold=15e-4, order="published"
    ),
    "exact": Variant(pull=2, push=2, root=True, normalise=False, iterations=200, threshold=1e-3, order="paper"),
}


class Paint(NamedTuple):
    """Pixels labelled by hand; for each class, a mask marks the pixels that were painted as another class."""

    columns: Array  # positions of the patches with painted pixels
    wrong: list[Array]  # per class, (n_pixels, n_painted): 1 where a pixel was painted as another class, else 0
    groups: list[slice]  # one slice of atoms per class


class _Factors(NamedTuple):
    """The factors W and H with the products A = W^T X, S = W^T W and G = H H^T."""

    W: Array
    H: Array
    A: Array
    S: Array
    G: Array


def objective(X: Array, W: Array, H: Array, *, penalties: Penalties = PENALTIES, paint: Paint | None = None) -> Array:
    """Return three numbers: the objective F, the sum of its terms with W, and the sum of its terms with H.

    Returns
    -------
    terms : float64 array, shape (3,)

    Notes
    -----
    The misfit comes from the products of the updates, ``||X - W H||^2 = ||X||^2 - 2 <H, W^T X> + <W^T W, H H^T>``, so
    that computing F in every iteration costs no further matrix product.
    """
    factors = _Factors(W, H, W.T @ X, W.T @ W, H @ H.T)
    return _evaluator(X, W.shape[1], penalties, paint)(factors, _painted_misfit(W, H, paint))


def _evaluator(
    X: Array, n_atoms: int, penalties: Penalties, paint: Paint | None
) -> Callable[[_Factors, list[Array]], Array]:
    """Return a function of the factors and the result of `_painted_misfit`; it computes the numbers of `objective`."""
    xp = array_namespace(X)
    gamma, lambda1, lambda2, charge = penalties
    charges = [] if paint is None else [charge] * len(paint.groups)
    weights = [
        [-2, 1, lambda1, lambda2 - 2 * gamma, gamma, *charges],
        [-2, 1, lambda1, 0, 0, *charges],
        [-2, 1, 0, lambda2 - 2 * gamma, gamma, *charges],
    ]
    weights = constant(xp, np.array(weights, float), like=X)

    # NumPy and torch share the method `sum`; the function of the array standard would first copy to float64.
    def dot(x: Array, y: Array) -> Array:
        return (x * y).sum(dtype=xp.float64)

    def trace(x: Array) -> Array:
        return x.diagonal().sum(dtype=xp.float64)

    offset = dot(X, X) + constant(xp, np.array([1.0, 0.0, 1.0]) * gamma * n_atoms, like=X)

    def evaluate(factors: _Factors, painted_misfit: list[Array]) -> Array:
        _, H, A, S, G = factors
        products = [dot(H, A), dot(S, G), trace(S), trace(G), dot(G, G), *(dot(w, w) for w in painted_misfit)]
        return offset + weights @ xp.stack(products)

    return evaluate


def _painted_misfit(W: Array, H: Array, paint: Paint | None, rows: slice = slice(None)) -> list[Array]:
    """Return, for each class, the evidence for this class on pixels that were painted as another class.

    Each array has the shape (n_rows, n_painted): the pixels `rows` of the patches with painted pixels.
    """
    if paint is None:
        return []
    return [
        wrong[rows, :] * (W[rows, atoms] @ H[atoms, :][:, paint.columns])
        for wrong, atoms in zip(paint.wrong, paint.groups, strict=True)
    ]


def _row_blocks(x: Array) -> list[slice]:
    """Split the rows of a matrix into slices that fit the cache of a CPU; on a GPU, one slice holds all rows."""
    n_rows, n_columns = x.shape
    size = max(256, 2**20 // n_columns) if on_cpu(x) else n_rows
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def update_atoms(X: Array, W: Array, H: Array, G: Array, *, penalties: Penalties, paint: Paint | None = None) -> Array:
    """Apply one multiplicative update to W in place (the paper's eq. WMUR) and return W; G is H H^T + lambda1 I."""
    xp = array_namespace(W)
    for rows in _row_blocks(W):
        target = X[rows, :] @ H.T
        target += EPSILON
        model = W[rows, :] @ G
        model += EPSILON
        if paint is not None:
            pairs = zip(_painted_misfit(W, H, paint, rows), paint.groups, strict=True)
            charges = [wrong @ H[atoms, :][:, paint.columns].T for wrong, atoms in pairs]
            model += penalties.paint * xp.concat(charges, axis=1)
        target /= model
        W[rows, :] *= target
    return W


def update_coefficients(
    A: Array, S: Array, H: Array, G: Array, *, variant: Variant, penalties: Penalties, painted_misfit: Array = None
) -> Array:
    """Return H after one multiplicative update (the paper's eq. HMUR, or the cubic-root rule).

    A is W^T X, S is W^T W + lambda2 I, G is H H^T. `painted_misfit` is the result of `_pull`: W^T times the evidence of
    wrong classes on painted pixels. It has the shape of H.

    Notes
    -----
    The root rule multiplies by the positive root r of ``c r^3 + b r = a`` with ``a = A + 2 gamma H``, ``b = S H`` and
    ``c = 2 gamma G H``. It minimises an upper bound of F that equals F at r = 1, so F never rises. The ratio rule
    ``a / (b + c)`` has the same fixed points but may raise F.
    """
    xp = array_namespace(H)
    pull, push = variant.pull * penalties.orthogonality, variant.push * penalties.orthogonality
    # The ratio rule needs only b + c, one product instead of two.
    gram = S if variant.root else S + push * G
    updated = []
    for rows in _row_blocks(H):
        a = pull * H[rows, :]
        a += A[rows, :]
        a += EPSILON
        b = gram[rows, :] @ H
        b += EPSILON
        if painted_misfit is not None:
            b += penalties.paint * painted_misfit[rows, :]
        ratio = _cubic_root(a, b, push * (G[rows, :] @ H)) if variant.root and push else a / b
        ratio *= H[rows, :]
        updated.append(ratio)
    return updated[0] if len(updated) == 1 else xp.concat(updated, axis=0)


def _cubic_root(a: Array, b: Array, c: Array) -> Array:
    """Return the positive root r of c r^3 + b r = a, by Newton's method.

    The iteration starts above the root and decreases monotonically.
    """
    xp = array_namespace(a)
    r = xp.minimum(a / b, (a / (c + EPSILON)) ** (1 / 3))
    # The start is at most 1.5 times the root, so these steps reach the precision of the type.
    for _ in range(5 if a.dtype == xp.float64 else 3):
        square = c * r * r
        r = (2 * square * r + a) / (3 * square + b)
    return r


def factorise(
    X: Array,
    W: Array,
    H: Array,
    *,
    variant: str = "paper",
    penalties: Penalties = PENALTIES,
    paint: Paint | None = None,
    accelerate: bool = False,
) -> Iterator[tuple[Array, Array, Array]]:
    """Factorise X into W H iteratively, without end; yield the result at the start and after every iteration.

    A result is (W, H, the three numbers of `objective`).

    Parameters
    ----------
    X : array, shape (n_pixels, n_patches)
        One vectorised patch per column.
    W : array, shape (n_pixels, n_atoms)
        Changed in place; zeros stay zero.
    H : array, shape (n_atoms, n_patches)
    variant : {"paper", "published", "exact"}
    penalties : Penalties
    paint : Paint, optional
    accelerate : bool
        If True, reach the same fixed points in far fewer iterations, see `_accelerated`. Not allowed for `published`,
        whose fixed points depend on the scaling between the steps.
    """
    rule = VARIANTS[variant]
    if accelerate and rule.normalise:
        raise ValueError(f"accelerate is True, which would change what {variant!r} converges to; leave it False.")
    evaluate = _evaluator(X, W.shape[1], penalties, paint)
    factors = _Factors(W, H, W.T @ X, W.T @ W, H @ H.T)
    for factors in (_accelerated if accelerate else _plain)(X, factors, rule, penalties, paint):  # noqa: B020
        yield factors.W, factors.H, evaluate(factors, _painted_misfit(factors.W, factors.H, paint))


def _plain(X: Array, factors: _Factors, rule: Variant, penalties: Penalties, paint: Paint | None) -> Iterator[_Factors]:
    """Yield the factors at the start and after every iteration: one update of W and one of H, without extrapolation."""
    while True:
        yield factors
        factors = _iterate(X, factors, rule, penalties, paint)
        if rule.normalise:
            W, H, A, S, G = factors
            atoms, coefficients = _inverse_norms(S), _inverse_norms(G)
            W *= atoms
            A, S, G = A * atoms[:, None], S * atoms * atoms[:, None], G * coefficients * coefficients[:, None]
            factors = _Factors(W, H * coefficients[:, None], A, S, G)


def _accelerated(
    X: Array, factors: _Factors, rule: Variant, penalties: Penalties, paint: Paint | None
) -> Iterator[_Factors]:
    """Yield the factors of each iteration, which starts from factors extrapolated in the direction of their change.

    H is updated several times in each iteration, because these updates share the costly products W^T X and W^T W. They
    use the cubic-root rule, which has the fixed points of the ratio rule but does not oscillate. If an iteration raises
    the objective of the rule (F with gamma * push / 2 in place of gamma), it is repeated from the last factors without
    extrapolation.
    Before the first update of W, H is updated ten times, because a random H would spoil the atoms.
    """
    xp = array_namespace(X)
    rule = rule._replace(root=True)
    lowered = penalties._replace(orthogonality=penalties.orthogonality * rule.push / 2)
    evaluate = _evaluator(X, factors.W.shape[1], lowered, paint)

    def merit(factors: _Factors) -> float:
        return float(evaluate(factors, _painted_misfit(factors.W, factors.H, paint))[0])

    def ahead(now: Array, before: Array) -> Array:
        return xp.maximum(now + 0.8 * (now - before), 0.1 * now)

    yield factors
    before = now = _settle(factors, 10, rule, penalties, paint)
    least = merit(now)
    while True:
        W, H = ahead(now.W, before.W), ahead(now.H, before.H)
        new = _iterate(X, now._replace(W=W, H=H, G=H @ H.T), rule, penalties, paint, steps=4)
        if merit(new) > least:
            new = _iterate(X, now._replace(W=now.W + 0), rule, penalties, paint, steps=4)
        before, now, least = now, new, merit(new)
        yield now


def _iterate(
    X: Array, factors: _Factors, rule: Variant, penalties: Penalties, paint: Paint | None, *, steps: int = 1
) -> _Factors:
    """Update W once, in place, and H `steps` times; return the factors."""
    W, H, _, _, G = factors
    W = update_atoms(X, W, H, _with_ridge(G, penalties.atoms), penalties=penalties, paint=paint)
    return _settle(_Factors(W, H, W.T @ X, W.T @ W, G), steps, rule, penalties, paint)


def _settle(factors: _Factors, steps: int, rule: Variant, penalties: Penalties, paint: Paint | None) -> _Factors:
    """Return the factors after `steps` updates of H; W stays unchanged."""
    W, H, A, S, G = factors
    gram = _with_ridge(S, penalties.coefficients)
    for _ in range(steps):
        pull = _pull(W, H, paint)
        H = update_coefficients(A, gram, H, G, variant=rule, penalties=penalties, painted_misfit=pull)
        G = H @ H.T
    return _Factors(W, H, A, S, G)


def _with_ridge(gram: Array, weight: Any) -> Array:
    xp = array_namespace(gram)
    return gram + _scaled_eye(xp, gram.shape[0], gram.dtype, array_api_compat.device(gram), float(weight))


@lru_cache(maxsize=4)
def _scaled_eye(xp: Any, n: int, dtype: Any, device: Any, scale: float) -> Array:
    return scale * xp.eye(n, dtype=dtype, device=device)


def _inverse_norms(gram: Array) -> Array:
    """Return 1 / norm, where the squares of the norms are the diagonal of `gram`; 1 where a norm is 0."""
    xp = array_namespace(gram)
    squares = xp.linalg.diagonal(gram)
    return 1 / xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))


def _pull(W: Array, H: Array, paint: Paint | None) -> Array:
    """Return W^T times the evidence of wrong classes on painted pixels, with the shape of H; None if `paint` is None.

    On a painted pixel, all classes except the painted one are wrong.
    """
    if paint is None:
        return None
    xp = array_namespace(H)
    pull = xp.zeros_like(H)
    for wrong, atoms in zip(_painted_misfit(W, H, paint), paint.groups, strict=True):
        pull[atoms, paint.columns] = W[:, atoms].T @ wrong
    return pull


class Solver(NamedTuple):
    """Constants of `solve_coefficients` that depend on the atoms: the inverted matrix and the step length."""

    inverse: Array
    length: Array


def prepare_solver(S: Array, *, penalty: float) -> Solver:
    """Compute the constants of `solve_coefficients` from S = W^T W and the penalty on the coefficients."""
    xp = array_namespace(S)
    gram = xp.astype(S, xp.float64)
    gram = _with_ridge(gram, penalty + 1e-9 * xp.max(gram))
    length = xp.exp(xp.linalg.slogdet(gram).logabsdet / S.shape[0])
    return Solver(xp.astype(xp.linalg.inv(_with_ridge(gram, length)), S.dtype), xp.astype(length, S.dtype))


def solve_coefficients(A: Array, solver: Solver) -> Array:
    """Return the H >= 0 that minimises ``||X - W H||^2 + penalty ||H||^2`` for given atoms; A is W^T X.

    Notes
    -----
    The method is ADMM (alternating directions) with over-relaxation. Every step is one product with a fixed matrix, and
    patches are independent. With the geometric mean of the eigenvalues of W^T W as step length, 40 steps are enough;
    multiplicative updates take thousands.
    """
    xp = array_namespace(A)
    H, dual = xp.zeros_like(A), xp.zeros_like(A)
    for _ in range(40):
        dual += 1.6 * (solver.inverse @ (A + solver.length * (H - dual))) - 0.6 * H
        H = xp.maximum(dual, xp.zeros_like(dual))
        dual -= H
    return H
