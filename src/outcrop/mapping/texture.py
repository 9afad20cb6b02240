"""Label mapping by texture: class models of local oriented energies, learned under the weak constraint.

A pixel of a patch labelled c is c or the background. Every node of a coarse lattice is described by the energy
of the section around it in four wavelengths and eight directions at two scales; random ReLU features of these feed a
ridge regression per class. Rounds of expectation-maximisation start with every node of its patch's class and move those
that look more like the background over to it; how far that goes is decided by how well the split is explained by the
texture, so the share of a class inside its patches is estimated and not asked for. What the nodes of a section say is
averaged along its reflectors; where the texture is unlike anything learnt it is rather background, and less sure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from outcrop.arrays import Array, array_namespace, to_numpy
from outcrop.features.energies import KEPT, describe, kept_nodes, mirrored, n_energies
from outcrop.mapping.confidence import confidence, fitted_background, label, majority_filter
from outcrop.mapping.constraint import (
    RandomFeatures,
    Ridge,
    Step,
    balance,
    feature_rows,
    maximise,
    random_gains,
    stacked_nodes,
)
from outcrop.mapping.familiarity import Familiarity
from outcrop.mapping.inputs import check_patches, class_codes
from outcrop.mapping.pixels import POWER, at_pixels, fitted_power, node_masks
from outcrop.mapping.regression import NormalEquations
from outcrop.mapping.saved import Saved, part, prefixed
from outcrop.parallel import Progress, map_blocks, one_blas_thread, spans
from outcrop.storage.kept import content

BLOCK = 25  # patches described at once
NODES = 512  # nodes whose features are held at once: they stay in the cache
PAINTED = 4  # weight of a node that was painted by hand
AVERAGED = 1.7  # times the power that is found: votes of sections are means along reflectors and of all members

Model = tuple[
    RandomFeatures, Array, list[Familiarity]
]  # features, weights of the regression, familiarities of a member
Further = Callable[[np.ndarray, np.ndarray], list[np.ndarray]]  # (behind, offset) -> more descriptors, by sizes
More = Callable[[np.ndarray, Step], Further]  # (rows, step) -> these for some patches
UNSEEN = 100  # patches of a member that the others have not seen, at most, on which it is looked for


@dataclass(kw_only=True, eq=False, repr=False)
class TextureMapper(Saved, BaseEstimator):
    """Map the classes of whole patches to their pixels by texture.

    Works on sections of any size and needs one pass over them; NumPy and SciPy only.

    Parameters
    ----------
    members : int
        Models fitted on different draws of the patches and averaged.
    patches_per_class : int
        Patches that one member sees of each class.
    n_features : int
        Random features of the descriptors.
    rounds : int
        Of expectation-maximisation.
    min_confidence : float, optional
        Pixels whose `confidence` is lower become `uncertain`.
    background : str
        The class that may appear in any patch. Where it is not among the classes, one with a common name is taken
        (`outcrop.mapping.confidence.BACKGROUNDS`); without one none is assumed, with a warning.
    random_state : int
        Seed of the draws.

    Attributes
    ----------
    classes_ : array of str, shape (n_classes,)
        In the order in which `fit` first met them; label ``i + 1`` is ``classes_[i]``, 0 is `uncertain`.
    shares_ : dict
        Per class, the estimated share of its patches that is really of the class, mean over the members.
    background_ : str or None
        The class that was taken as background.
    power_ : float
        Of the votes, from cross-fitting: with it the members are as sure of patches that they have not seen as they
        agree there with the member that has.

    Examples
    --------
    >>> patches = np.random.default_rng(0).random((12, 32, 32), dtype=np.float32)
    >>> patches[6:] = (patches[6:] + np.roll(patches[6:], 1, axis=2)) / 2  # smooth along the traces
    >>> classes = ["rough"] * 6 + ["other"] * 6
    >>> mapper = TextureMapper(members=1, n_features=50, rounds=3).fit(patches, classes)
    >>> mapper.predict(patches[:2]).shape, mapper.classes_.tolist()
    ((2, 32, 32), ['rough', 'other'])
    """

    any_size = True  # sections as well as patches

    members: int = 3
    patches_per_class: int = 100
    n_features: int = 1000
    rounds: int = 30
    min_confidence: float | None = None
    background: str = "other"
    random_state: int = 0

    def fit(
        self,
        patches: Array,
        classes: npt.ArrayLike,
        masks: Array | None = None,
        weights: npt.ArrayLike | None = None,
        *,
        places: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn the texture of every class from patches with one class each.

        Parameters
        ----------
        patches : array, shape (n_patches, height, width), or list of such arrays
            Values in [0, 1]. A list holds patches of several sizes: large ones for salt, small ones for faults.
        classes : sequence of str, length n_patches
            Of the patches of all sizes, one after the other.
        masks : int array, shape (n_patches, height, width), or list of such arrays, optional
            Pixels painted by hand: ``i + 1`` for ``classes_[i]``, 0 elsewhere. They keep their class.
        weights : array, shape (n_patches,), optional
            How likely each patch is of its class; the likelier ones are drawn first.
        places : Places or list of Places, optional
            Where the patches lie, of one size or of each, for mappings that look around them.
        progress : callable, optional
            Called as ``progress(what, done, total)`` between steps; what it raises ends the fit.
        """
        several = isinstance(patches, list) and np.ndim(patches[0]) == 3
        stacks = [to_numpy(check_patches(stack)[0]) for stack in (patches if several else [patches])]
        self.classes_, codes = class_codes(classes, n_patches=sum(map(len, stacks)))
        self.background_ = fitted_background(self.classes_, self.background)
        given = [np.zeros((len(stack), 1, 1)) for stack in stacks] if masks is None else masks
        painted = [np.asarray(mask, np.uint8) for mask in (given if several or masks is None else [given])]
        first = np.cumsum([0, *map(len, stacks)])
        more = self._more(stacks, [None] * len(stacks) if places is None else places if several else [places])
        seen: list[np.ndarray] = []
        rounds = [0] * self.members  # that are done

        def step(member: int, round: int) -> None:
            rounds[member] = round
            if progress:
                progress("fitting the mapping", sum(rounds), self.members * (self.rounds + 1))

        drawn: list[Any] = []
        for member in range(self.members):
            rng = np.random.default_rng((self.random_state or 0, member))
            # the largest of u ** (1 / weight) are a draw without replacement in proportion to the weights
            lots = rng.random(len(codes)) ** (1 / np.asarray(1.0 if weights is None else weights))
            order = np.argsort(-lots, kind="stable")
            of_class = [order[codes[order] == c][: self.patches_per_class] for c in range(len(self.classes_))]
            rows = np.sort(np.concatenate(of_class))
            rows_of_stack = [rows[(rows >= a) & (rows < b)] - a for a, b in pairwise(first)]
            chosen = [
                (x[some], mask[some]) for x, mask, some in zip(stacks, painted, rows_of_stack, strict=True) if len(some)
            ]
            begun = partial(step, member, 0)
            begun()
            nodes = _drawn_nodes(chosen, rng, begun, more and more(rows, begun))
            drawn.append((codes[rows], *nodes, rng, partial(step, member)))
            seen.append(rows)
        # side by side with one BLAS thread each: two of them make a fit slower, see benchmarks/labelling.py --fits
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a mixture that did not converge is good enough
            members = list(map_blocks(lambda member: self._fit_member(*drawn[member]), range(self.members)))
        models, shares, equations, learnt = zip(*members, strict=True)
        self.models_, self.equations_ = list(models), list(equations)
        self.shares_ = {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}
        with one_blas_thread():
            self.power_ = self._cross_fitted(learnt, seen)
        return self

    def _more(self, stacks: list[np.ndarray], places: list[Any]) -> More | None:
        """Further descriptors of the nodes of patches, besides their energies; none here."""
        return None

    def _cross_fitted(self, learnt: Sequence[tuple[Array, Array]], seen: list[np.ndarray]) -> float:
        """Power of the votes that makes what members say of patches they have not seen as likely as can be.

        `learnt` holds the nodes of the patches of every member and their labels, `seen` the numbers of the patches.
        """
        unseen: list[tuple[Array, Array, Array]] = []  # votes, familiarity and labels
        for member, ((nodes, found), rows) in enumerate(zip(learnt, seen, strict=True)):
            rest = [model for other, model in enumerate(self.models_) if other != member]
            elsewhere = [other for number, other in enumerate(seen) if number != member]
            new = np.flatnonzero(~np.isin(rows, np.concatenate([[], *elsewhere])))
            for row in new[:: max(1, len(new) // UNSEEN)] if rest else ():
                valid = np.isfinite(nodes[row, :, 0])
                of_patch = nodes[row][valid]
                unseen.append((node_votes(rest, of_patch), node_familiarity(rest, of_patch), found[row][valid]))
        if not unseen:
            return POWER
        evidence, known, codes = map(np.concatenate, zip(*unseen, strict=True))
        return AVERAGED * fitted_power(evidence, known, codes, self._is_background())

    def updated(self, nodes: Array, targets: Array, weights: Array, classes: Sequence[str] = ()) -> Self:
        """The mapper that has learnt nodes of a known class too; what it knew before stays in its regressions.

        Parameters
        ----------
        nodes : array, shape (n, n_descriptors)
            As `describe` gives them.
        targets : array, shape (n, n_classes)
            Share of every class, in the order of ``classes_`` and then `classes`.
        weights : array, shape (n,)
            1 counts as much as a node of a patch; together they count no more than all patches.
        classes : sequence of str
            Classes that are new.

        Returns
        -------
        TextureMapper
            With its weights alone: it is not updated again, but the mapper that this one was made from.
        """
        check_is_fitted(self, "equations_")
        mapper: Self = clone(self)
        mapper.classes_, mapper.background_ = np.array([*map(str, self.classes_), *classes]), self.background_
        mapper.shares_, mapper.power_, mapper.models_ = self.shares_, self.power_, []
        both = np.concatenate([nodes, mirrored(nodes)])
        targets, weights = np.concatenate([targets, targets]), np.concatenate([weights, weights]) / 2
        for (features, _, familiar), equations in zip(self.models_, self.equations_, strict=True):
            patches = float(equations.gram[-1, -1])  # the last feature is constant, so this is the sum of all weights
            share = min(1, patches / max(weights.sum(), 1e-9))
            solved = equations.plus(features(both), targets, share * weights).solve()
            mapper.models_.append((features, solved, familiar))
        return mapper

    def _fit_member(
        self, codes: Array, plain: Array, known: Array, gain: Array, rng: np.random.Generator, step: Step
    ) -> tuple[Model, dict[str, float], NormalEquations, tuple[Array, Array]]:
        """One member: its features and weights, the share of each structure in its patches, their nodes and labels."""
        nodes = plain.copy()
        nodes[:, :, : n_energies()] += gain[:, None]
        valid = np.isfinite(nodes[..., 0])  # a small patch has fewer nodes
        features = RandomFeatures.drawn(nodes[valid], self.n_features, rng, self.emphasis(nodes.shape[-1]))
        ridge = Ridge(feature_rows(features, nodes, valid), np.where(known > 0, PAINTED, 1) * balance(codes)[:, None])
        n, background = len(self.classes_), np.flatnonzero(self._is_background())
        labels, found = maximise(
            ridge, codes, known, valid, n_classes=n, background=background, rounds=self.rounds, step=step
        )
        seed = int(rng.integers(2**31))
        familiar = [kind.learnt(nodes[valid], seed) for kind in self.familiarities]
        shares = {str(self.classes_[c]): share for c, share in found.items()}
        return (features, ridge.fit(labels, n), familiar), shares, ridge.equations(labels, n), (plain, labels)

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the mapper consists of: a dict for JSON, and arrays."""
        check_is_fitted(self)
        arrays: dict[str, np.ndarray] = {}
        for number, (features, weights, familiar) in enumerate(self.models_):
            arrays |= prefixed(f"{number}/features", vars(features)) | {f"{number}/weights": weights}
            for kind, one in enumerate(familiar):
                arrays |= prefixed(f"{number}/familiar/{kind}", vars(one))
        for number, equations in enumerate(getattr(self, "equations_", [])):
            arrays |= prefixed(f"{number}/equations", equations.packed())
        about = {"kind": type(self).__name__, "parameters": self.get_params(), "classes": self.classes_.tolist()}
        return about | {"shares": self.shares_, "background": self.background_, "power": self.power_}, arrays

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The mapper that `saved` took apart."""
        mapper = cls(**about["parameters"])
        mapper.classes_, mapper.shares_ = np.array(about["classes"]), about["shares"]
        mapper.background_, mapper.power_ = about["background"], about["power"]
        mapper.models_ = []
        for number in range(mapper.members):
            one = part(str(number), arrays)
            familiar = [kind(**part(f"familiar/{k}", one)) for k, kind in enumerate(mapper.familiarities)]
            mapper.models_.append((RandomFeatures(**part("features", one)), one["weights"], familiar))
            if "equations/gram" in one:
                equations = NormalEquations.unpacked(**part("equations", one))
                mapper.equations_ = [*getattr(mapper, "equations_", []), equations]
        return mapper

    def scores(self, patches: Array) -> Array:
        """Evidence for every class at every pixel, between 0 and 1, for patches or sections of any size.

        Returns
        -------
        scores : array, shape (n_patches, height, width, n_classes)
        """
        check_is_fitted(self)
        patches = to_numpy(check_patches(patches)[0])
        blocks = spans(len(patches), max(1, BLOCK * 99 * 99 // (patches.shape[1] * patches.shape[2])))
        out = np.empty((*patches.shape, len(self.classes_)), np.float32)

        def block_scores(span: slice) -> Array:
            votes, familiar = self.votes(patches[span])
            return at_pixels(votes, familiar, self._is_background(), patches[span], self.power_)

        for span, block in zip(blocks, map_blocks(block_scores, blocks), strict=True):
            out[span] = block
        return out

    def _is_background(self) -> np.ndarray:
        """Whether each class is the background."""
        return np.array([name == self.background_ for name in self.classes_])

    def confidence(self, patches: Array) -> Array:
        """Share of the winning class in the evidence at every pixel, between 0 and 1."""
        return confidence(self.scores(patches))

    def predict(self, patches: Array) -> Array:
        """Label every pixel.

        Returns
        -------
        labels : uint8 array, shape (n_patches, height, width)
        """
        scores = self.scores(patches)
        confident = None if self.min_confidence is None else confidence(scores) >= self.min_confidence
        return label(scores, confident=confident, smooth=majority_filter)

    def fit_predict(
        self, patches: Array, classes: npt.ArrayLike, masks: Array | None = None, weights: npt.ArrayLike | None = None
    ) -> Array:
        """Label the pixels of the patches it is fitted on; painted pixels keep their label."""
        labels = self.fit(patches, classes, masks, weights).predict(patches)
        return labels if masks is None else np.where(np.asarray(masks) > 0, np.asarray(masks), labels).astype(np.uint8)

    def votes(self, patches: Array) -> tuple[np.ndarray, np.ndarray]:
        """Evidence for every class at the nodes of `describe`, and how familiar they are, between 0 and 1.

        Means of all members over the nodes and their mirror images. The familiarity of the texture is first, then the
        lowest of all that describes a node.
        """
        nodes = self.nodes(patches)
        flat = nodes.reshape(-1, nodes.shape[-1])
        parts = spans(len(flat), NODES)  # features of all nodes of a large section would take a kilobyte a sample
        votes = np.concatenate(list(map_blocks(lambda span: self.node_votes(flat[span]), parts)))
        learnt = [array for *_, familiar in self.models_ for one in familiar for array in vars(one).values()]

        def familiarity() -> Array:
            return np.concatenate(list(map_blocks(lambda span: node_familiarity(self.models_, flat[span]), parts)))

        familiar = KEPT.get(("familiarity", content(nodes, *learnt)), familiarity)
        return votes.reshape(*nodes.shape[:3], -1), familiar.reshape(*nodes.shape[:3], -1)

    @property
    def familiarities(self) -> list[type[Familiarity]]:
        """Kinds of familiarity of a node, that of its texture first."""
        return [Familiarity]

    def emphasis(self, n_descriptors: int) -> np.ndarray:
        """How much each descriptor counts in the random features."""
        return np.ones(n_descriptors, np.float32)

    def nodes(self, sections: np.ndarray) -> Array:
        """Features at the nodes of sections: see `describe`."""
        return kept_nodes(sections)

    def node_votes(self, nodes: np.ndarray) -> Array:
        """Evidence for every class at nodes, shape (n, n_classes)."""
        return node_votes(self.models_, nodes)


def node_votes(models: Sequence[Model], nodes: np.ndarray) -> Array:
    """Mean evidence of models for every class at nodes and at what a mirror shows of them, shape (n, n_classes)."""
    both = nodes, mirrored(nodes)
    votes = sum(features.times(side, weights) for features, weights, _ in models for side in both)
    return np.clip(votes / (2 * len(models)), 1e-3, None)


def node_familiarity(models: Sequence[tuple[Any, Array, list[Familiarity]]], nodes: Array) -> Array:
    """How familiar nodes are to models, shape (n, 2): by texture, and by the strangest of all; NumPy or torch."""
    xp = array_namespace(nodes)
    mean = xp.mean(xp.stack([xp.stack([familiar(nodes) for familiar in kinds]) for *_, kinds in models]), axis=0)
    return xp.stack([mean[0], xp.min(mean, axis=0)], axis=-1)


def _drawn_nodes(
    stacks: list[tuple[Array, Array]], rng: np.random.Generator, step: Step, further: Further | None = None
) -> tuple[Array, Array, Array]:
    """Descriptors of nodes of patches, some of them seen from behind; codes painted there; a gain for each patch.

    ``further(behind, offset)`` gives more descriptors of the nodes of the patches, a list by sizes.
    """
    behind = rng.random(sum(len(patches) for patches, _ in stacks)) < 0.5
    offset = rng.integers(2, size=2)  # every second node is enough to learn from
    gain = random_gains(len(behind), rng)
    described, done = [], 0
    for patches, masks in stacks:
        part = slice(done, done := done + len(patches))
        described.append(_lattice(patches, masks, behind[part], offset, step))
    if further:
        each = further(behind, offset)
        described = [(np.concatenate([a, b], axis=-1), mask) for (a, mask), b in zip(described, each, strict=True)]
    nodes, known = (stacked_nodes(arrays) for arrays in zip(*described, strict=True))
    return nodes, known, gain


def _lattice(patches: Array, masks: Array, behind: Array, offset: Array, step: Step) -> tuple[Array, Array]:
    """Descriptors and painted codes at every second node of patches, some of them mirrored."""
    patches, masks = (np.where(behind[:, None, None], array[:, :, ::-1], array) for array in (patches, masks))
    blocks: list[np.ndarray] = []
    for block in map_blocks(lambda span: describe(patches[span]), spans(len(patches), BLOCK)):
        blocks.append(block[:, offset[0] :: 2, offset[1] :: 2])
        step()
    known = node_masks(masks, patches.shape[1:])[:, offset[0] :: 2, offset[1] :: 2]
    nodes = np.concatenate(blocks)
    return nodes.reshape(len(nodes), -1, nodes.shape[-1]), known.reshape(len(nodes), -1)
