"""Label mapping by texture: class models of local oriented energies, learned under the weak constraint.

A pixel of a patch labelled c is c or the background. Every node of a coarse lattice is described by the energy
of the section around it in four wavelengths and eight directions at two scales; random ReLU features of these feed a
ridge regression per class. Rounds of expectation-maximisation start with every node of its patch's class and move those
that look more like the background over to it; how far that goes is decided by how well the split can be told from the
texture, so the share of a class inside its patches is estimated and not asked for. What the nodes of a section say is
averaged along its reflectors; where the texture is unlike anything learnt it is rather background, and less sure.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy.linalg import cho_factor, cho_solve
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted

from outcrop.arrays import Array, to_numpy
from outcrop.mapping.label_mapper import check_patches, class_codes
from outcrop.mapping.saved import Saved, part, prefixed
from outcrop.mapping.scores import confidence, fitted_background, label, majority_filter
from outcrop.parallel import map_blocks, one_blas_thread, spans
from outcrop.regression import PENALTY, NormalEquations
from outcrop.storage.kept import Kept, content

WAVELENGTHS = (4, 7, 12, 20)  # pixels
N_DIRECTIONS = 8
SMOOTHING = (5, 14)  # pixels: how far around a node its energies are averaged
STRIDE = 4  # pixels between nodes, the first at 2
MARGIN = 24  # pixels mirrored around a section so that its rim is not a reflector
BLOCK = 25  # patches described at once
NODES = 512  # nodes whose features are held at once: they stay in the cache
MIN_MARGIN = 0.05  # by which a node must be more like its patch's class than like the background to keep it
WELL_EXPLAINED = 0.65  # share of a split's variance that the texture should tell
GAIN = 2.0  # of the log energies: patches are learnt up to 17 dB louder and quieter, for amplitudes drift
COLOUR = 0.1  # the same for each wavelength alone: up to 1 dB, for spectra drift with depth
PAINTED = 4  # weight of a node that was painted by hand
REACH = 60  # pixels along a reflector at which a vote has fallen to 1 / e
OWN = 10  # votes of its neighbours that the vote of a node itself counts, so that small bodies stay
POWER = 4.0  # of the votes, where too few patches are unseen by a member to find it by cross-fitting
AVERAGED = 1.7  # times the power that is found: votes of sections are means along reflectors and of all members
POWERS = (1.0, 6.0)  # between which it is looked for
UNSEEN = 100  # patches of a member that the others have not seen, at most, on which it is looked for
STRANGE = 0.1  # what is as rare as the rarest 10 % of the textures learnt is strange
DOUBT = 0.52  # share of the votes on a texture rarer than all learnt that goes to the background, which then wins
UNSURE = 0.4  # share of the votes on what is rarer than all learnt that then goes to all classes alike
STEEPEST = 2  # samples a trace: the dip up to which votes follow a reflector
RANKS = np.linspace(0, 1, 21)  # at which the likelihoods of what was learnt are kept
KEPT = Kept()  # features of the sections looked at last
STEP = 0.03  # share of a class moved over to the background where the rounds come to rest too early


class SectionMapper(Saved, BaseEstimator):
    """Labels and confidence of mappers whose ``scores`` take patches and sections of any size."""

    any_size = True

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
        for span, block in zip(blocks, map_blocks(lambda span: self._block_scores(patches[span]), blocks), strict=True):
            out[span] = block
        return out

    def _is_background(self):
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
        return labels if masks is None else np.where(np.asarray(masks) > 0, masks, labels).astype(np.uint8)


class TextureMapper(SectionMapper):
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
        (`outcrop.mapping.scores.BACKGROUNDS`); without one none is assumed, with a warning.
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

    def __init__(
        self,
        *,
        members: int = 3,
        patches_per_class: int = 100,
        n_features: int = 1000,
        rounds: int = 30,
        min_confidence: float | None = None,
        background: str = "other",
        random_state: int = 0,
    ):
        self.members = members
        self.patches_per_class = patches_per_class
        self.n_features = n_features
        self.rounds = rounds
        self.min_confidence = min_confidence
        self.background = background
        self.random_state = random_state

    def fit(
        self,
        patches: Array,
        classes: npt.ArrayLike,
        masks: Array | None = None,
        weights: npt.ArrayLike | None = None,
        *,
        progress: Callable | None = None,
    ) -> "TextureMapper":
        """Learn the texture of every class from patches with one class each.

        Parameters
        ----------
        patches : array, shape (n_patches, height, width), or list of such arrays
            Values in [0, 1]. A list holds patches of several sizes: large ones for salt, small ones for faults.
        classes : sequence of str, length n_patches
            Of the patches of all sizes, one after the other.
        masks : int array, shape (n_patches, height, width), or list of such arrays, optional
            Pixels painted by hand: ``i + 1`` for ``classes_[i]``, 0 where nothing is said. They keep their class.
        weights : array, shape (n_patches,), optional
            How likely each patch is of its class; the likelier ones are drawn first.
        progress : callable, optional
            Called as ``progress(done, total)`` between steps; what it raises ends the fit.
        """
        return self._fit(patches, classes, masks, weights, progress=progress)

    def _fit(self, patches, classes, masks, weights, *, progress, more=None):
        """Fit; `more` gives further descriptors of the nodes of some patches."""
        several = isinstance(patches, list) and np.ndim(patches[0]) == 3
        stacks = [to_numpy(check_patches(own)[0]) for own in (patches if several else [patches])]
        self.classes_, codes = class_codes(classes, n_patches=sum(map(len, stacks)))
        self.background_ = fitted_background(self.classes_, self.background)
        said = [np.zeros((len(own), 1, 1)) for own in stacks] if masks is None else masks
        painted = [np.asarray(own, np.uint8) for own in (said if several or masks is None else [said])]
        members: list = []
        seen: list = []

        def step(round):
            if progress:
                progress(len(members) * (self.rounds + 1) + round, self.members * (self.rounds + 1))

        for member in range(self.members):
            rng = np.random.default_rng((self.random_state or 0, member))
            # the largest of u ** (1 / weight) are a draw without replacement in proportion to the weights
            lots = rng.random(len(codes)) ** (1 / np.asarray(1.0 if weights is None else weights))
            order = np.argsort(-lots, kind="stable")
            rows = [order[codes[order] == c][: self.patches_per_class] for c in range(len(self.classes_))]
            drawn = np.sort(np.concatenate(rows))
            first = np.cumsum([0, *map(len, stacks)])
            own = [drawn[(drawn >= a) & (drawn < b)] - a for a, b in pairwise(first)]
            chosen = [(x[rows], mask[rows]) for x, mask, rows in zip(stacks, painted, own, strict=True) if len(rows)]
            with one_blas_thread():  # two of them make the fit slower: benchmarks/labelling.py --fits
                step(0)
                further = more and more(drawn, step)
                members.append(self._fit_member(chosen, codes[drawn], rng, step, further))
                seen.append(drawn)
        models, shares, equations, learnt = zip(*members, strict=True)
        self.models_, self.equations_ = list(models), list(equations)
        self.shares_ = {name: float(np.mean([share[name] for share in shares])) for name in shares[0]}
        with one_blas_thread():
            self.power_ = self._cross_fitted(learnt, seen)
        return self

    def _cross_fitted(self, learnt, seen):
        """Power of the votes that makes what members say of patches they have not seen as likely as can be.

        `learnt` holds the nodes of the patches of every member and their labels, `seen` the numbers of the patches.
        """
        votes: list = []
        usual: list = []
        labels: list = []
        for member, ((nodes, found), rows) in enumerate(zip(learnt, seen, strict=True)):
            rest = [model for other, model in enumerate(self.models_) if other != member]
            elsewhere = [other for number, other in enumerate(seen) if number != member]
            unseen = np.flatnonzero(~np.isin(rows, np.concatenate([[], *elsewhere])))
            for row in unseen[:: max(1, len(unseen) // UNSEEN)] if rest else ():
                there = np.isfinite(nodes[row, :, 0])
                votes.append(node_votes(rest, nodes[row][there]))
                usual.append(node_usual(rest, nodes[row][there]))
                labels.append(found[row][there])
        if not labels:
            return POWER
        evidence, known, codes = map(np.concatenate, (votes, usual, labels))
        return AVERAGED * fitted_power(evidence, known, codes, self._is_background())

    def updated(
        self, nodes: np.ndarray, targets: np.ndarray, weights: np.ndarray, classes: Sequence[str] = ()
    ) -> "TextureMapper":
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
        mapper = clone(self)
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

    def _fit_member(self, stacks, codes, rng, step, further=None):
        """One member: its features and weights, the share of each structure in its patches, their nodes and labels.

        ``further(behind, offset)`` gives more descriptors of the nodes of the patches, a list by sizes.
        """
        behind = rng.random(len(codes)) < 0.5  # patches seen from behind
        offset = rng.integers(2, size=2)  # every second node is enough to learn from
        gain = _gains(len(codes), rng)
        described, done = [], 0
        for patches, masks in stacks:
            part = slice(done, done := done + len(patches))
            described.append(_lattice(patches, masks, behind[part], offset, step))
        if further:
            each = further(behind, offset)
            described = [(np.concatenate([a, b], axis=-1), mask) for (a, mask), b in zip(described, each, strict=True)]
        plain, known = (_stacked(own) for own in zip(*described, strict=True))
        nodes = plain.copy()
        nodes[..., : n_energies()] += gain[:, None]
        there = np.isfinite(nodes[..., 0])  # a small patch has fewer nodes
        features = RandomFeatures.drawn(nodes[there], self.n_features, rng, self.emphasis(nodes.shape[-1]))
        ridge = Ridge(_rows(features, nodes, there), np.where(known > 0, PAINTED, 1) * balance(codes)[:, None])
        n, background = len(self.classes_), np.flatnonzero(self._is_background())
        options = {"background": background, "rounds": self.rounds, "step": step}
        labels, shares = maximise(ridge, codes, known, there, n_classes=n, **options)
        seed = int(rng.integers(2**31))
        familiar = [kind.learnt(nodes[there], seed) for kind in self.familiarities]
        shares = {str(self.classes_[c]): share for c, share in shares.items()}
        return (features, ridge.fit(labels, n), familiar), shares, ridge.equations(labels, n), (plain, labels)

    def saved(self) -> tuple[dict, dict]:
        """What the mapper consists of: a dict for JSON, and arrays."""
        check_is_fitted(self)
        arrays: dict = {}
        for number, (features, weights, familiar) in enumerate(self.models_):
            arrays |= prefixed(f"{number}/features", vars(features)) | {f"{number}/weights": weights}
            for kind, one in enumerate(familiar):
                arrays |= prefixed(f"{number}/familiar/{kind}", vars(one))
        for number, equations in enumerate(getattr(self, "equations_", [])):
            arrays |= prefixed(f"{number}/equations", equations.packed())
        about = {"kind": type(self).__name__, "parameters": self.get_params(), "classes": self.classes_.tolist()}
        return about | {"shares": self.shares_, "background": self.background_, "power": self.power_}, arrays

    @classmethod
    def restored(cls, about: dict, arrays: dict) -> "TextureMapper":
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

    def _block_scores(self, patches):
        votes, usual = self.votes(patches)
        return at_pixels(votes, usual, self._is_background(), patches, self.power_)

    def votes(self, patches: Array) -> tuple[np.ndarray, np.ndarray]:
        """Evidence for every class at the nodes of `describe`, and how usual they are, between 0 and 1.

        Means of all members, each asked about the nodes and about what a mirror shows of them. Usual are first the
        texture, then whatever describes a node.
        """
        nodes = self.nodes(patches)
        flat = nodes.reshape(-1, nodes.shape[-1])
        parts = spans(len(flat), NODES)  # features of all nodes of a large section would take a kilobyte a sample
        votes = np.concatenate(list(map_blocks(lambda span: self.node_votes(flat[span]), parts)))
        learnt = [array for *_, familiar in self.models_ for one in familiar for array in vars(one).values()]
        usual = KEPT.get(("usual", content(nodes, *learnt)), lambda: self._usual(flat, parts))
        return votes.reshape(*nodes.shape[:3], -1), usual.reshape(*nodes.shape[:3], -1)

    @property
    def familiarities(self) -> "list[type[Familiarity]]":
        """What tells usual nodes from strange ones, the texture first."""
        return [Familiarity]

    def emphasis(self, n_descriptors: int) -> np.ndarray:
        """How much each descriptor counts in the random features."""
        return np.ones(n_descriptors, np.float32)

    def nodes(self, sections: np.ndarray) -> np.ndarray:
        """Features at the nodes of sections: see `describe`."""
        return kept_nodes(sections)

    def node_votes(self, nodes: np.ndarray) -> np.ndarray:
        """Evidence for every class at nodes, shape (n, n_classes)."""
        return node_votes(self.models_, nodes)

    def _usual(self, nodes, parts):
        """How usual nodes are."""
        return np.concatenate(list(map_blocks(lambda span: node_usual(self.models_, nodes[span]), parts)))


def node_votes(models, nodes):
    """Mean evidence of models for every class at nodes and at what a mirror shows of them, shape (n, n_classes)."""
    both = nodes, mirrored(nodes)
    votes = sum(features.times(side, weights) for features, weights, _ in models for side in both)
    return np.clip(votes / (2 * len(models)), 1e-3, None)


def node_usual(models, nodes):
    """How usual nodes are to models, shape (n, 2): their texture, and the strangest that describes them."""
    each = [[familiar(nodes) for familiar in kinds] for *_, kinds in models]
    mean = np.mean(each, axis=0)
    return np.stack([mean[0], mean.min(axis=0)], axis=-1)


def _lattice(patches, masks, behind, offset, step):
    """Descriptors and painted codes at every second node of patches, some of them mirrored."""
    patches, masks = (np.where(behind[:, None, None], own[:, :, ::-1], own) for own in (patches, masks))
    blocks: list = []
    for block in map_blocks(lambda span: describe(patches[span]), spans(len(patches), BLOCK)):
        blocks.append(block[:, offset[0] :: 2, offset[1] :: 2])
        step(0)
    known = node_masks(masks, patches.shape[1:])[:, offset[0] :: 2, offset[1] :: 2]
    nodes = np.concatenate(blocks)
    return nodes.reshape(len(nodes), -1, nodes.shape[-1]), known.reshape(len(nodes), -1)


def _stacked(arrays):
    """Arrays with different numbers of nodes as one: NaN, or nothing said, where a node is missing."""
    most = max(own.shape[1] for own in arrays)
    fill = np.nan if arrays[0].dtype.kind == "f" else 0
    wide = [((0, 0), (0, most - own.shape[1]), *[(0, 0)] * (own.ndim - 2)) for own in arrays]
    return np.concatenate([np.pad(own, pad, constant_values=fill) for own, pad in zip(arrays, wide, strict=True)])


def balance(codes):
    """Weights of patches with which every class counts as much as the most frequent one.

    Examples
    --------
    >>> balance(np.array([0, 0, 1]))
    array([1., 1., 2.])
    """
    counts = np.bincount(codes)
    return counts.max() / counts[codes]


def _gains(n, rng):
    """What patches are made louder or quieter by, shape (n, n_energies)."""
    gain = rng.uniform(-GAIN, GAIN, (n, 1)) + rng.uniform(-COLOUR, COLOUR, (n, len(WAVELENGTHS)))
    return np.tile(np.repeat(gain.astype(np.float32), N_DIRECTIONS, axis=1), len(SMOOTHING))


def _rows(features, nodes, there):
    """Random features of the nodes of patches, 0 for those that a small patch lacks."""
    rows = np.zeros((*there.shape, len(features.offsets) + 1), np.float32)
    for row, own, real in zip(rows, nodes, there, strict=True):
        row[real] = features(own[real])
    return rows


def maximise(ridge, codes, known, there, *, n_classes, background, rounds, step=lambda round: None):
    """Class of every node under the weak constraint, by expectation-maximisation.

    Parameters
    ----------
    ridge : Ridge
        Of the features of the nodes, shape (n_patches, n_nodes, n_features).
    codes : int array, shape (n_patches,)
        Class of each patch.
    known : int array, shape (n_patches, n_nodes)
        Painted nodes: class + 1, or 0.
    there : bool array, shape (n_patches, n_nodes)
        False for the nodes that a small patch lacks; their features are 0.
    n_classes : int
    background : int array
        The class that may appear in any patch, or empty.
    rounds : int
    step : callable
        Called with the number of every round.

    Returns
    -------
    labels : int array, shape (n_patches, n_nodes)
    shares : dict
        Structure -> share of the nodes of its patches that are labelled with it.

    Notes
    -----
    How well a split into structure and background is explained by the texture is the :math:`R^2` of the margin between
    the two regressions against the split. Where the rounds come to rest with a split that is explained badly, the few
    patches of the background do not look like what surrounds the structure: then the least evident nodes are moved
    over, a few at a time, until the texture tells them. Each structure takes the labels of its best explained round.
    """
    labels = np.repeat(codes[:, None], known.shape[1], axis=1)
    labels = np.where(known > 0, known.astype(int) - 1, labels)
    structures = [c for c in range(n_classes) if c not in background] if len(background) else []
    best = {c: (-np.inf, labels[codes == c]) for c in structures}
    for number in range(rounds + 1 if structures else 0):
        step(number)
        fitted = ridge.rows @ ridge.fit(labels, n_classes)
        for c in structures:
            own, real = codes == c, there[codes == c]
            margin = np.where(real, fitted[own, :, c] - fitted[own, :, background[0]], np.nan)
            kept = labels[own] == c
            explained = 1 - np.nanmean((margin - (2 * kept - 1)) ** 2) / (4 * kept[real].var() + 1e-3)
            if number and explained > best[c][0]:
                best[c] = (explained, labels[own].copy())
            # at least a tenth of every patch keeps its class, so that no patch loses what it was retrieved for
            least = np.nanquantile(margin, 0.9, axis=1)[:, None]
            stay = margin >= np.minimum(MIN_MARGIN, least)
            if number and explained < WELL_EXPLAINED and np.mean((stay != kept)[real]) < 0.01:
                moved = np.nanquantile(margin, min(1 - kept[real].mean() + STEP, 0.9))
                stay = margin >= np.minimum(moved, least)
            labels[own] = np.where(known[own] > 0, known[own].astype(int) - 1, np.where(stay, c, background[0]))
    for c in structures:
        labels[codes == c] = best[c][1]
    shares = {c: (labels == c)[codes == c][there[codes == c]] for c in structures}
    return labels, {c: float(own.mean()) for c, own in shares.items()}


class Ridge:
    """Ridge regression of class indicators on features of weighted nodes, factorised once for all rounds."""

    def __init__(self, rows, weights, penalty=PENALTY):
        self.rows, self.weights, self.penalty = rows, weights.astype(np.float32), penalty
        flat = rows.reshape(-1, rows.shape[-1])
        self.gram = self._weighted(flat).T @ flat
        gram = self.gram.astype(np.float64)
        gram[np.diag_indices_from(gram)] += penalty * np.trace(gram) / len(gram)
        self.factor = cho_factor(gram)

    def fit(self, labels, n_classes):
        """Weights of the features, shape (n_features, n_classes)."""
        products = self.products(labels, n_classes)
        return cho_solve(self.factor, products.astype(np.float64)).astype(np.float32)

    def products(self, labels, n_classes):
        """Sum of the weighted products of features and indicators, shape (n_features, n_classes)."""
        target = self._weighted(np.eye(n_classes, dtype=np.float32)[labels.ravel()])
        return self.rows.reshape(len(target), -1).T @ target

    def equations(self, labels, n_classes):
        """What is kept of the regression, so that more nodes can be added to it."""
        return NormalEquations(self.gram, self.products(labels, n_classes), self.penalty)

    def _weighted(self, values):
        return values if (self.weights == 1).all() else values * self.weights.reshape(-1, 1)


class RandomFeatures:
    """Random ReLU features of standardised descriptors: a regression on them approximates a kernel machine.

    Parameters
    ----------
    mean, spread : array, shape (n_descriptors,)
    weights : array, shape (n_descriptors, n_features)
    offsets : array, shape (n_features,)
    """

    def __init__(self, mean, spread, weights, offsets):
        self.mean, self.spread, self.weights, self.offsets = mean, spread, weights, offsets

    @classmethod
    def drawn(cls, descriptors, n_features, rng, emphasis, scale=2.0):
        """Features for descriptors like the given ones, which count as much as their emphasis."""
        scale = scale * emphasis / np.linalg.norm(emphasis)
        weights = (rng.standard_normal((len(emphasis), n_features)) * scale[:, None]).astype(np.float32)
        offsets = (rng.standard_normal(n_features) / 2).astype(np.float32)
        return cls(descriptors.mean(axis=0), descriptors.std(axis=0) + 1e-6, weights, offsets)

    def __call__(self, descriptors):
        """Features, the last one constant."""
        out = np.ones((len(descriptors), len(self.offsets) + 1), np.float32)
        out[:, :-1] = self._drawn(descriptors)
        return out

    def times(self, descriptors, weights):
        """Features times the weights of a regression, without a copy of the features."""
        return self._drawn(descriptors) @ weights[:-1] + weights[-1]

    def _drawn(self, descriptors):
        standard = np.ones((len(descriptors), len(self.mean) + 1), np.float32)
        np.clip((descriptors - self.mean) / self.spread, -4, 4, out=standard[:, :-1])
        drawn = standard @ np.concatenate([self.weights, self.offsets[None]])
        return np.maximum(drawn, 0, out=drawn)


class Familiarity:
    """How usual a texture is among those learnt, whatever its amplitude: 0 rarer than all of them, 1 not strange.

    A mixture of Gaussians on the whitened principal axes tells how often the energies have such proportions.

    Parameters
    ----------
    centre : array, shape (n_axes,)
        Mean of the proportions, on the axes.
    axes : array, shape (n_axes, n_descriptors)
        Principal axes.
    scale : array, shape (n_axes,)
        Spread along each.
    means : array, shape (n_components, n_axes)
    precisions : array, shape (n_components, n_axes, n_axes)
        Cholesky factors of the inverse covariances.
    weights : array, shape (n_components,)
    limits : array, shape (21,)
        Log likelihoods that are 0, 0.05 ... 1 familiar.
    """

    strange = STRANGE

    def __init__(self, centre, axes, scale, means, precisions, weights, limits):
        self.centre, self.axes, self.scale = centre, axes, scale
        self.means, self.precisions, self.weights, self.limits = means, precisions, weights, limits

    @classmethod
    def learnt(cls, descriptors, seed, most=6000):
        """Familiarity of textures like the given ones."""
        few = descriptors[np.random.default_rng(seed).permutation(len(descriptors))[:most]]
        both = np.concatenate([cls.seen(side) for side in cls.sides(few)])
        pca = PCA(cls.n_axes(both), whiten=True, random_state=seed).fit(both)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # rough is enough
            mixture = GaussianMixture(min(8, len(few)), reg_covar=1e-2, max_iter=30, random_state=seed)
            mixture.fit(pca.transform(both))
        spread = np.sqrt(pca.explained_variance_)
        scale = np.maximum(spread, np.finfo(spread.dtype).eps)  # patches all alike have no spread
        centre = pca.mean_.reshape(1, -1) @ pca.components_.T
        learnt = cls(
            centre[0], pca.components_, scale, mixture.means_, mixture.precisions_cholesky_, mixture.weights_, None
        )
        learnt.limits = np.quantile(learnt.log_likelihood(few), cls.strange * RANKS)
        return learnt

    @staticmethod
    def seen(nodes):
        """What is told usual from strange: the proportions of the energies."""
        energies = nodes[..., : n_energies()]
        return energies - energies.mean(axis=-1, keepdims=True)

    @staticmethod
    def sides(nodes):
        """Nodes and what a mirror shows of them."""
        return nodes, mirrored(nodes)

    @staticmethod
    def n_axes(descriptors):
        """Number of principal axes."""
        return min(descriptors.shape) // 2

    def __call__(self, nodes):
        """Between 0 and 1 for every node, mean of both sides."""
        sides = [np.interp(self.log_likelihood(side), self.limits, RANKS) for side in self.sides(nodes)]
        return (sum(sides) / len(sides)).astype(np.float32)

    def log_likelihood(self, nodes):
        """Logarithm of the density of the mixture at every node."""
        x = ((self.seen(nodes) @ self.axes.T - self.centre) / self.scale).astype(np.float32)
        factors, shifts, heights = self.side_by_side()
        off = (x @ factors - shifts).reshape(len(x), len(heights), -1)
        each = heights - np.einsum("nka,nka->nk", off, off) / 2
        most = each.max(axis=1, keepdims=True)
        return most[:, 0] + np.log(np.exp(each - most).sum(axis=1))

    def side_by_side(self):
        """Factors of all components as one matrix, what is taken from products with it, and logarithms of the peaks."""
        factors, shifts = (
            np.concatenate(list(self.precisions), axis=1),
            np.einsum("ki,kij->kj", self.means, self.precisions),
        )
        sizes = np.log(np.diagonal(self.precisions, axis1=1, axis2=2)).sum(axis=1)
        heights = sizes + np.log(self.weights) - self.means.shape[1] * np.log(2 * np.pi) / 2
        return tuple(part.astype(np.float32) for part in (factors, shifts.ravel(), heights))


def n_energies():
    """Number of energies that describe a node; whatever follows them is the same in a mirror."""
    return len(WAVELENGTHS) * N_DIRECTIONS * len(SMOOTHING)


def describe(sections):
    """Log energies around the nodes of a lattice, in four wavelengths, eight directions and two scales.

    Parameters
    ----------
    sections : array, shape (n, height, width)
        Values in [0, 1].

    Returns
    -------
    array, shape (n, ceil(height / 4), ceil(width / 4), 64)
        The first node lies at pixel 2.
    """
    x = np.asarray(sections, np.float32) - np.float32(0.5)
    height, width = x.shape[1:]
    shape = tuple(scipy.fft.next_fast_len(size + 2 * MARGIN) for size in (height, width))
    pads = [(0, 0), *((MARGIN, full - size - MARGIN) for full, size in zip(shape, (height, width), strict=True))]
    spectrum = scipy.fft.fft2(np.pad(x, pads, mode="symmetric"))
    out: list[list] = [[] for _ in SMOOTHING]
    for window in _log_gabor(shape):
        envelope = np.abs(scipy.fft.ifft2(spectrum * window))[:, MARGIN : MARGIN + height, MARGIN : MARGIN + width]
        half = _halved(envelope)
        for energies, sigma in zip(out, SMOOTHING, strict=True):
            smooth = gaussian_filter(half, (0, sigma / 2, sigma / 2), mode="reflect", truncate=3)
            energies.append(np.log(_every_second(smooth) + 1e-3))
    return np.stack([energy for energies in out for energy in energies], axis=-1)


def kept_nodes(sections):
    """What `describe` gives, kept in memory for a while where it is of one section."""
    if len(sections) > 1:
        return describe(sections)
    return KEPT.get((WAVELENGTHS, N_DIRECTIONS, SMOOTHING, content(sections)), lambda: describe(sections))


def mirrored(descriptors):
    """Descriptors of the same places in a section that is seen from behind: directions run the other way round."""
    directions = -np.arange(N_DIRECTIONS) % N_DIRECTIONS
    apart = descriptors[..., : n_energies()].reshape(*descriptors.shape[:-1], -1, N_DIRECTIONS)
    energies = apart[..., directions].reshape(*descriptors.shape[:-1], n_energies())
    return np.concatenate(
        [energies, descriptors[..., n_energies() :]], axis=-1
    )  # what follows does not see the direction


@lru_cache(maxsize=8)
def _log_gabor(shape):
    """Log-Gabor windows on one half plane each, so that the modulus of the answer is the envelope."""
    k1, k2 = scipy.fft.fftfreq(shape[0])[:, None], scipy.fft.fftfreq(shape[1])[None]
    radius, angle = np.hypot(k1, k2), np.arctan2(k1, k2)
    radius[0, 0] = 1
    windows = []
    for wavelength in WAVELENGTHS:
        radial = np.exp(-(np.log(radius * wavelength) ** 2) / (2 * np.log(1 / 0.6) ** 2))
        radial[0, 0] = 0
        for direction in range(N_DIRECTIONS):
            off = np.angle(np.exp(1j * (angle - np.pi * direction / N_DIRECTIONS)))
            angular = np.exp(-(off**2) / (2 * (0.6 * np.pi / N_DIRECTIONS) ** 2))
            windows.append((2 * radial * angular).astype(np.float32))
    return windows


def _halved(x):
    """Means of 2 x 2 pixels, the last row and column repeated where the size is odd."""
    x = np.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2)], mode="edge")
    return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4


def _every_second(x):
    x = np.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2)], mode="edge")
    return x[:, 1::2, 1::2]


def fitted_power(votes, usual, labels, background):
    """Power of votes with which labels are likeliest; see `class_shares`."""

    def surprise(power):
        share = class_shares(votes, usual, background, power)
        return -np.log(share[np.arange(len(labels)), labels]).mean()

    return float(minimize_scalar(surprise, bounds=POWERS, method="bounded").x)


def at_pixels(votes, usual, background, sections, power=POWER):
    """Votes at the nodes of sections as scores at every pixel that sum to 1.

    Parameters
    ----------
    votes : array, shape (n, rows, columns, n_classes)
        They are averaged along the reflectors.
    usual : array, shape (n, rows, columns, 2)
        See `class_shares`.
    background : bool array, shape (n_classes,)
        True for the background, if there is one.
    sections : array, shape (n, height, width)
    power : float
        Of the averaged votes.
    """
    values = np.concatenate([votes / votes.sum(axis=-1, keepdims=True), usual], axis=-1)
    votes, usual = np.split(along_reflectors(values, dips(sections)), [votes.shape[-1]], axis=-1)
    return upsample(class_shares(votes, usual, background, power), sections.shape[1:])


def class_shares(votes, usual, background, power):
    """Shares of the classes, which sum to 1, from votes and from how usual what they are on is.

    Parameters
    ----------
    votes : array, shape (..., n_classes)
    usual : array, shape (..., 2)
        Of the texture: where it is low the votes go to the background, which is rather what nobody showed. Of all that
        describes a node: where it is low nothing is sure.
    background : bool array, shape (n_classes,)
    power : float
        Of the votes.

    Examples
    --------
    >>> votes, none = np.array([0.9, 0.3]), np.zeros(2, bool)
    >>> [class_shares(votes, usual, none, 1.0).round(2).tolist() for usual in (np.ones(2), np.zeros(2))]
    [[0.75, 0.25], [0.65, 0.35]]
    """
    share = votes**power
    share /= share.sum(axis=-1, keepdims=True)
    if background.any():
        share += DOUBT * (1 - usual[..., :1]) * (background - share)
    return share + UNSURE * (1 - usual[..., 1:]) * (1 / share.shape[-1] - share)


def dips(sections):
    """Dip of the reflectors at the nodes of `describe`, in samples a trace, by the structure tensor.

    Examples
    --------
    >>> rows, columns = np.indices((60, 80))
    >>> dips(0.5 + 0.5 * np.sin((rows - 0.5 * columns) / 2)[None])[0, 7, 10].round(1)
    np.float32(0.5)
    """
    x = np.asarray(sections, np.float32)
    down, across = (gaussian_filter(x, (0, 1.5, 1.5), order=order) for order in ((0, 1, 0), (0, 0, 1)))
    products = down * down, across * across, down * across
    zz, xx, zx = (_every_second(gaussian_filter(_halved(product), (0, 3, 3))) for product in products)
    steepest = float(np.arctan(STEEPEST))
    return -np.tan(np.clip(np.arctan2(2 * zx, zz - xx) / 2, -steepest, steepest))


def along_reflectors(values, dips):
    """Mean of values along the reflectors, with weights that fall off exponentially on either side of a node.

    Parameters
    ----------
    values : array, shape (n, rows, columns, n_values)
        At the nodes of a lattice.
    dips : array, shape (n, rows, columns)
        Rows a column.
    """
    keep = np.float32(np.exp(-STRIDE / REACH))
    values = np.concatenate([values, np.ones_like(values[..., :1])], axis=-1)  # the last one sums the weights
    total, rows = (OWN - 2) * values, np.arange(values.shape[1])  # each sweep holds the node itself once
    for way in (1, -1):
        swept, dip = values[:, :, ::way].copy(), way * dips[:, :, ::way]
        for column in range(1, swept.shape[2]):
            place = np.clip(rows - dip[:, :, column], 0, rows[-1])[..., None]
            below = np.minimum(place.astype(int), max(rows[-1] - 1, 0))
            before, share = swept[:, :, column - 1], (place - below).astype(values.dtype)
            upper = np.take_along_axis(before, below, axis=1)
            lower = np.take_along_axis(before, np.minimum(below + 1, rows[-1]), axis=1)
            swept[:, :, column] += keep * (upper + share * (lower - upper))
        total += swept[:, :, ::way]
    return total[..., :-1] / total[..., -1:]


def node_masks(masks, shape):
    """Largest code painted in the 4 x 4 pixels of every node."""
    masks = np.broadcast_to(masks, (len(masks), *shape))
    rows, columns = (-(-size // STRIDE) for size in shape)
    padded = np.pad(masks, [(0, 0), (0, rows * STRIDE - shape[0]), (0, columns * STRIDE - shape[1])])
    return padded.reshape(len(masks), rows, STRIDE, columns, STRIDE).max(axis=(2, 4))


def upsample(nodes, shape):
    """Values at the nodes as values at the pixels, linearly in between.

    Examples
    --------
    >>> upsample(np.array([[[[0.0], [4.0]]]]), (1, 8))[0, 0, :, 0]
    array([0. , 0. , 0. , 0.5, 1.5, 2.5, 3.5, 4. ])
    """
    for axis, size in ((1, shape[0]), (2, shape[1])):
        last = nodes.shape[axis] - 1
        place = np.clip((np.arange(size) - 2.5) / STRIDE, 0, last)
        below = np.minimum(place.astype(int), max(last - 1, 0))
        share = (place - below).astype(nodes.dtype).reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        nodes = nodes.take(below, axis) * (1 - share) + nodes.take(np.minimum(below + 1, last), axis) * share
    return nodes
