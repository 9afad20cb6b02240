"""Label mapping by factorisation: find the pixels of a patch that carry the weak label of the patch.

Patches are written as non-negative sums of sparse atoms, and every atom belongs to one class, so the atoms used at a
pixel vote for its label (Alaudah, Alfarraj and AlRegib, GEOPHYSICS 84(1), 2019). `mapping.factorisation` has the
numerical core in the paper's symbols W and H. Here their transposes are called atoms and coefficients.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any

import array_api_compat
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outcrop.arrays import Array, array_namespace, constant, on_cpu, to_numpy
from outcrop.mapping.confidence import confidence, label, majority_filter, median_filter, neighbourhood_sum, winner
from outcrop.mapping.factorisation import (
    VARIANTS,
    Paint,
    Penalties,
    factorise,
    prepare_solver,
    solve_coefficients,
)
from outcrop.mapping.inputs import check_masks, check_patches, class_codes
from outcrop.mapping.saved import Saved, known_parameters
from outcrop.mapping.sparsity import cluster_means, project_sparsity
from outcrop.parallel import Progress

BLOCK = 128  # patches whose scores are held at a time
LEARNT = ("atoms", "atom_classes", "coefficients", "objective", "objective_parts")  # names of the saved arrays
SMOOTHERS = {"median": median_filter, "majority": majority_filter, None: None}


@dataclass(eq=False, repr=False)
class LabelMapper(Saved, BaseEstimator):
    """Map the classes of whole patches to their pixels by sparse, orthogonal non-negative factorisation.

    Parameters
    ----------
    atoms_per_class : int
        Number of atoms; a class with fewer patches gets one atom per patch.
    sparsity : float or None
        Hoyer sparsity of the initial atoms, between 0 and 1. If None, the k-means centres of the patches are used
        unchanged.
    variant : {"paper", "published", "exact"}
        Update rules as printed in the paper, as in the authors' released code, or such that the objective never rises.
    orthogonality, atom_penalty, coefficient_penalty : float
        Weights of the terms of the objective. If all are 0 and `sparsity` is None, the factorisation is unconstrained
        except that W, H >= 0.
    iterations : int, optional
        By default 200; 400 for variant `published`; 40 with `accelerate`.
    min_confidence : float, optional
        Pixels whose `confidence` is lower become `uncertain`. The confidence is a share of the evidence, so limits up
        to 1 / n_classes have no effect. By default the threshold of the variant is used, which has almost no effect.
        The threshold of `paper` makes every pixel uncertain at the first iteration and no pixel from about the tenth
        iteration on; the threshold of `published` makes no pixel uncertain.
    smoothing : {"median", "majority", None}
        3x3 filter of the labels. The median, as in the paper, depends on the order of the class codes; the majority
        does not.
    accelerate : bool
        Take longer steps towards the same fixed points: about 20 iterations, each 1.5 times as long, lower the
        objective as much as 200 plain iterations. Not for variant `published`.
    tf32 : bool
        Allow TF32, with 10-bit mantissas, in matrix products on CUDA; this is about three times as fast.
    random_state : int, optional
        Seed of k-means and of the initial coefficients.

    Attributes
    ----------
    classes_ : array of str, shape (n_classes,)
        In order of first appearance in `fit`; label ``i + 1`` is ``classes_[i]``, 0 is `uncertain`.
    atoms_ : array, shape (n_atoms, height, width)
    atom_classes_ : int array, shape (n_atoms,)
        Position in `classes_` of each atom's class.
    coefficients_ : array, shape (n_patches, n_atoms)
    objective_ : float64 array, shape (n_iterations + 1,)
        The objective at the start and after every iteration.
    objective_parts_ : float64 array, shape (n_iterations + 1, 2)
        The part of the objective that updates of atoms lower, and the part that updates of coefficients lower.
    labels_ : uint8 array, shape (n_patches, height, width)
    confidence_ : array, shape (n_patches, height, width)

    Examples
    --------
    >>> patches = np.zeros((8, 6, 6)); patches[:4, :3] = 1; patches[4:, 3:] = 1
    >>> mapper = LabelMapper(atoms_per_class=2)
    >>> labels = mapper.fit_predict(patches, ["salt dome"] * 4 + ["other"] * 4)
    >>> mapper.classes_.tolist(), labels[0, 0, 0], labels[7, 5, 5]
    (['salt dome', 'other'], np.uint8(1), np.uint8(2))
    """

    atoms_per_class: int = 250
    sparsity: float | None = 0.4
    _: KW_ONLY
    variant: str = "paper"
    orthogonality: float = 5.0
    atom_penalty: float = 0.1
    coefficient_penalty: float = 0.5
    iterations: int | None = None
    min_confidence: float | None = None
    smoothing: str | None = "median"
    accelerate: bool = False
    tf32: bool = False
    random_state: int | None = 0

    def fit(
        self, patches: Array, classes: npt.ArrayLike, masks: Array | None = None, *, progress: Progress | None = None
    ) -> LabelMapper:
        """Learn atoms and coefficients from patches and their weak labels, one class per patch.

        Parameters
        ----------
        patches : array, shape (n_patches, height, width)
            Values >= 0, usually in [0, 1]. NumPy or torch; float64 patches are computed in float64, others in float32.
        classes : sequence of str, length n_patches
            Class of each patch.
        masks : int array, shape (n_patches, height, width), optional
            Pixels painted by hand: ``i + 1`` for ``classes_[i]``, 0 elsewhere. The factorisation penalises the
            evidence of other classes on a painted pixel, and the fitted labels keep the painted classes.
        progress : callable, optional
            Called as ``progress(what, done, total)`` before every iteration; an exception from it ends the fit.
        """
        self._check_parameters()
        patches, xp = check_patches(patches)
        self.classes_, codes = class_codes(classes, n_patches=patches.shape[0])
        masks = check_masks(masks, patches, n_classes=len(self.classes_))
        flat = xp.reshape(patches, (patches.shape[0], -1))
        # A GPU multiplies rows of odd length at half speed, so X is transposed by a copy; a CPU needs no copy.
        X = flat.T if on_cpu(flat) else _transposed(flat)
        rng = np.random.default_rng(self.random_state)
        with _float32_products(X, tf32=self.tf32):
            atoms, self.atom_classes_ = self._initial_atoms(flat, codes, seed=int(rng.integers(2**31)))
            H = constant(xp, rng.random((atoms.shape[0], X.shape[1]), dtype="f4"), like=X, dtype=X.dtype)
            W, H = self._iterate(X, _transposed(atoms), H, masks, progress)
            self.atoms_ = xp.reshape(_transposed(W), (-1, *patches.shape[1:]))
            self.coefficients_ = _transposed(H)
            self.labels_, self.confidence_ = self._label_fitted(masks)
        return self

    def fit_predict(self, patches: Array, classes: npt.ArrayLike, masks: Array | None = None) -> Array:
        """Fit on patches and return the labels of their pixels, computed from the coefficients of the fit.

        Returns
        -------
        labels : uint8 array, shape (n_patches, height, width)
        """
        return self.fit(patches, classes, masks).labels_

    def predict(self, patches: Array) -> Array:
        """Label the pixels of new patches.

        The coefficients of the patches are computed for the fitted atoms, without the penalty on orthogonality.

        Returns
        -------
        labels : uint8 array, shape (n_patches, height, width)
        """
        return self._by_blocks(self._label, patches)

    def confidence(self, patches: Array) -> Array:
        """Return the evidence for the label of every pixel as a share of the evidence for all classes, between 0 and 1.

        Returns
        -------
        confidence : array, shape (n_patches, height, width)
        """
        return self._by_blocks(confidence, patches)

    def scores(self, patches: Array) -> Array:
        """Return the evidence for every class at every pixel: the contribution of the atoms of the class.

        Returns
        -------
        scores : array, shape (n_patches, height, width, n_classes)
        """
        return self._by_blocks(lambda scores: scores, patches)

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the data of the fitted mapper to save: a dict for JSON and a dict of arrays.

        `labels_` and `confidence_` are not saved.
        """
        check_is_fitted(self, "atoms_")
        about = {"kind": type(self).__name__, "parameters": self.get_params(), "classes": self.classes_.tolist()}
        return about, {name: to_numpy(getattr(self, f"{name}_")) for name in LEARNT}

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> LabelMapper:
        """Rebuild the mapper, with NumPy arrays, from the dict and the arrays that `saved` returned."""
        mapper = cls(**known_parameters(cls, about))
        mapper.classes_ = np.array(about["classes"])
        for name in LEARNT:
            setattr(mapper, f"{name}_", arrays[name])
        return mapper

    def _check_parameters(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is {self.variant!r}; choose one of {', '.join(VARIANTS)}.")
        if self.smoothing not in SMOOTHERS:
            raise ValueError(f"smoothing is {self.smoothing!r}; choose 'median', 'majority' or None.")
        if self.atoms_per_class < 1:
            raise ValueError(f"atoms_per_class is {self.atoms_per_class}; choose 1 or more.")
        if self.sparsity is not None and not 0 < self.sparsity < 1:
            raise ValueError(f"sparsity is {self.sparsity}; choose a value between 0 and 1, or None to skip it.")
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise ValueError(f"min_confidence is {self.min_confidence}; choose a value between 0 and 1.")
        for name in ("orthogonality", "atom_penalty", "coefficient_penalty"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; choose 0 or more.")

    def _initial_atoms(self, patches: Array, codes: np.ndarray, *, seed: int) -> tuple[Array, np.ndarray]:
        """Return the initial atoms, which are sparse k-means centres of each class, and the class of each atom."""
        xp = array_namespace(patches)
        groups = []
        for i, name in enumerate(self.classes_):
            rows = constant(xp, np.flatnonzero(codes == i), like=patches)
            if rows.shape[0] < self.atoms_per_class:
                warnings.warn(
                    f"Class {str(name)!r} has {rows.shape[0]} patches, fewer than atoms_per_class "
                    f"{self.atoms_per_class}; it gets one atom per patch.",
                    stacklevel=4,
                )
            groups.append(cluster_means(patches[rows, :], self.atoms_per_class, random_state=seed))
        atoms = xp.concat(groups, axis=0)
        if self.sparsity is not None:
            atoms = xp.astype(project_sparsity(atoms, self.sparsity), atoms.dtype)
        return atoms, np.repeat(np.arange(len(groups)), [group.shape[0] for group in groups])

    def _iterate(
        self, X: Array, W: Array, H: Array, masks: Array | None, progress: Progress | None
    ) -> tuple[Array, Array]:
        """Run the iterations, record the objective and return the last W and H."""
        xp = array_namespace(X)
        default = 40 if self.accelerate else VARIANTS[self.variant].iterations
        iterations = default if self.iterations is None else self.iterations
        penalties = Penalties(self.orthogonality, self.atom_penalty, self.coefficient_penalty)
        paint = _paint(masks, self.atom_classes_, like=X)
        steps = factorise(X, W, H, variant=self.variant, penalties=penalties, paint=paint, accelerate=self.accelerate)
        history: list[Array] = []
        for step in islice(steps, 1 + iterations):
            if progress:
                progress("fitting the mapping", len(history), iterations)
            history.append(step[2])
        course = to_numpy(xp.stack(history))
        self.objective_, self.objective_parts_ = course[:, 0], course[:, 1:]
        return step[:2]

    def _label_fitted(self, masks: Array | None) -> tuple[Array, Array]:
        """Return labels and confidence of the patches to which the mapper was fitted.

        Painted pixels get the painted class with confidence 1.
        """
        labels, sure = (self._by_blocks(function) for function in (self._label, confidence))
        if masks is None:
            return labels, sure
        xp = array_namespace(labels)
        return xp.where(masks > 0, masks, labels), xp.where(masks > 0, xp.ones_like(sure), sure)

    def _by_blocks(self, function: Callable[[Array], Array], patches: Array | None = None) -> Array:
        """Apply `function` to the class scores of patches, block by block, and join the results.

        If `patches` is None, use the patches to which the mapper was fitted.
        """
        check_is_fitted(self, "atoms_")
        coefficients = self.coefficients_ if patches is None else self._solve(patches)
        xp = array_namespace(coefficients)
        atoms = _moved(self.atoms_, like=coefficients)
        smooth = VARIANTS[self.variant].normalise
        blocks = [coefficients[start : start + BLOCK, :] for start in range(0, coefficients.shape[0], BLOCK)]
        with _float32_products(atoms, tf32=self.tf32):
            scores = (class_scores(atoms, block, self.atom_classes_, smooth=smooth) for block in blocks)
            return xp.concat([function(some) for some in scores])

    def _solve(self, patches: Array) -> Array:
        """Return the coefficients of the given patches for the fitted atoms."""
        patches, xp = check_patches(patches)
        sizes = [" x ".join(map(str, x.shape[1:])) for x in (patches, self.atoms_)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"Patches have {sizes[0]} pixels, atoms {sizes[1]}; give patches of the size used in the fit."
            )
        X = xp.reshape(patches, (patches.shape[0], -1)).T
        atoms = xp.reshape(_moved(self.atoms_, like=X), (-1, X.shape[0]))
        with _float32_products(X, tf32=self.tf32):
            # Kept between calls, because preparing the solver takes as long as solving a block.
            key = f"{xp.__name__} {X.dtype} {array_api_compat.device(X)} {self.coefficient_penalty}"
            kept: Any = getattr(self, "_kept", (None, "", None))
            if kept[0] is not self.atoms_ or kept[1] != key:
                kept = self.atoms_, key, prepare_solver(atoms @ atoms.T, penalty=self.coefficient_penalty)
                self._kept = kept
            return solve_coefficients(atoms @ X, kept[2]).T

    def _label(self, scores: Array) -> Array:
        rule = VARIANTS[self.variant]
        if self.min_confidence is not None:
            confident = confidence(scores) >= self.min_confidence
        else:
            evidence = winner(scores)[1]
            if rule.normalise:
                evidence = evidence / (array_namespace(scores).sum(scores, axis=-1) + 1e-6)
            confident = evidence >= rule.threshold
        return label(scores, confident=confident, smooth=SMOOTHERS[self.smoothing], order=rule.order)


def class_scores(atoms: Array, coefficients: Array, atom_classes: np.ndarray, *, smooth: bool = False) -> Array:
    """Return the evidence for every class at every pixel: coefficients times atoms of the class (the paper's eq. 7).

    Parameters
    ----------
    atoms : array, shape (n_atoms, height, width)
    coefficients : array, shape (n_patches, n_atoms)
    atom_classes : int array, shape (n_atoms,)
        Class of each atom; atoms of a class stand side by side.
    smooth : bool
        Use the mean over the atoms of a class instead of the sum, and smooth with a Gaussian of 0.5 pixels, as the
        authors' released code does.

    Returns
    -------
    scores : array, shape (n_patches, height, width, n_classes)
    """
    xp = array_namespace(atoms)
    scores = []
    for group in _groups(atom_classes):
        part = xp.reshape(atoms[group, ...], (group.stop - group.start, -1))
        evidence = xp.reshape(coefficients[:, group] @ part, (-1, *atoms.shape[1:]))
        if smooth:
            side = float(np.exp(-2.0))  # exp(-d^2 / (2 sigma^2)) at d = 1, sigma = 0.5
            evidence = neighbourhood_sum(evidence, side) / (part.shape[0] * (1 + 2 * side) ** 2)
        scores.append(evidence)
    return xp.stack(scores, axis=-1)


def _paint(masks: Array | None, atom_classes: np.ndarray, *, like: Array) -> Paint | None:
    """Convert masks of painted pixels to a `Paint` for the factorisation; return None if `masks` is None."""
    if masks is None:
        return None
    xp = array_namespace(like)
    columns = xp.nonzero(xp.any(xp.reshape(masks > 0, (masks.shape[0], -1)), axis=1))[0]
    painted = xp.reshape(masks[columns, ...], (columns.shape[0], -1)).T
    groups = _groups(atom_classes)
    wrong = [xp.astype((painted > 0) & (painted != i + 1), like.dtype) for i in range(len(groups))]
    return Paint(columns, wrong, groups)


def _groups(atom_classes: np.ndarray) -> list[slice]:
    """Return, for every class, the slice of its atoms in the stack of all atoms."""
    ends = np.cumsum(np.bincount(atom_classes)).tolist()
    return [slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False)]


def _moved(x: Array, *, like: Array) -> Array:
    """Convert a NumPy or torch array `x` to the library, type and device of the array `like`."""
    xp = array_namespace(like)
    return constant(xp, to_numpy(x) if array_namespace(x) is not xp else x, like=like, dtype=like.dtype)


def _transposed(x: Array) -> Array:
    """Return the transpose of a matrix as a copy with contiguous rows."""
    xp = array_namespace(x)
    return xp.reshape(xp.reshape(x.T, (-1,)), (x.shape[1], x.shape[0]))


@contextlib.contextmanager
def _float32_products(x: Array, *, tf32: bool) -> Iterator[None]:
    """Let torch compute matrix products in full float32 within this context, or in TF32 if `tf32` is True."""
    if not array_api_compat.is_torch_array(x):
        yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
