"""Label mapping by texture and by a pretrained encoder, two regressions that learn from each other.

One regression sees the energies of `texture`, the other the features of `encoder`. In every round of
expectation-maximisation the mean of both decides which nodes of a patch are of its class: features as rich as the
encoder's would otherwise tell the few retrieved patches of the background from everything else, and keep too much. When
the rounds are over, nodes from anywhere in the survey are learnt as both together see them.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from outcrop.encoder import CLASSES, STRIDE, Encoder, weights_digest
from outcrop.kept import content
from outcrop.parallel import map_blocks, spans
from outcrop.texture import KEPT, TextureMapper, describe, n_energies

SURROUND = 48  # pixels around a patch that the encoder sees too, where they are at hand
SMOOTH = 3  # nodes: each feature is also averaged over so many around its node
LARGEST = 8.0  # of a logit
BLOCK = 16  # windows that a thread encodes at once


class Further(NamedTuple):
    """Descriptors by the encoder: of the patches that a member draws, by sizes, and of nodes that nobody labelled."""

    patches: list
    unlabelled: np.ndarray | None

    def of_patches(self, behind, offset):
        """At every second node of the patches, from the other side where a patch is seen from behind."""
        found, done = [], 0
        for part in self.patches:
            turned = behind[done : (done := done + len(part)), None, None, None]
            nodes = np.where(turned, part[:, :, ::-1], part)[:, offset[0] :: 2, offset[1] :: 2]
            found.append(nodes.reshape(len(part), -1, part.shape[-1]).astype(np.float32))
        return found


class EncoderMapper(TextureMapper):
    """Map the classes of whole patches to their pixels by texture and by features of a pretrained encoder.

    Works on sections of any size. Needs no torch: the encoder runs on onnxruntime.

    Parameters
    ----------
    members, patches_per_class, rounds, min_confidence, background, random_state
        As for `TextureMapper`.
    n_features : int
        Random features of the energies, and as many of the encoder's features.
    """

    n_views = 2

    def __init__(
        self, *, members=3, patches_per_class=100, n_features=400, rounds=30, min_confidence=None, background="other",
        random_state=0,
    ):  # fmt: skip
        super().__init__(
            members=members, patches_per_class=patches_per_class, n_features=n_features, rounds=rounds,
            min_confidence=min_confidence, background=background, random_state=random_state,
        )  # fmt: skip

    def fit(self, patches, classes, masks=None, weights=None, *, windows=None, unlabelled=None, progress=None):
        """Learn every class from patches with one class each; see `TextureMapper.fit`.

        Parameters
        ----------
        patches, classes, masks, weights, progress
            As `TextureMapper.fit` takes them.
        windows : callable or list of callables, optional
            ``windows(rows)`` gives patches with the `SURROUND` pixels around them, of one size or of each; the encoder
            sees more than a patch, and what it says at the rim of one is not what it says inside a section.
        unlabelled : array, shape (n, height, width), optional
            Such windows from anywhere in the survey.
        """
        several = isinstance(patches, list) and np.ndim(patches[0]) == 3
        stacks = patches if several else [patches]
        cuts = [None] * len(stacks) if windows is None else windows if several else [windows]
        kept: dict = {}
        anywhere = None if unlabelled is None else _anywhere(np.asarray(unlabelled, np.float32))

        def more(drawn, member, step):
            first = np.cumsum([0, *map(len, stacks)])
            new = [row for row in drawn.tolist() if row not in kept]
            for number, (stack, cut) in enumerate(zip(stacks, cuts, strict=True)):
                rows = np.array([row for row in new if first[number] <= row < first[number + 1]], int)
                parts = [rows[span] for span in spans(len(rows), BLOCK)]
                encode = _encoder(stack, cut, first[number])
                for some, found in zip(parts, map_blocks(encode, parts), strict=True):
                    kept.update(zip(some.tolist(), found, strict=True))
                    step(0)
            groups = [[row for row in drawn.tolist() if a <= row < b] for a, b in pairwise(first)]
            return Further([np.stack([kept[row] for row in rows]) for rows in groups if rows], anywhere)

        return self._fit(patches, classes, masks, weights, progress=progress, more=more)

    def views(self, nodes):
        """Energies, and features of the encoder."""
        return [nodes[..., : n_energies()], nodes[..., n_energies() :]]

    def saved(self):
        """What the mapper consists of, and which weights of the encoder it was fitted with."""
        about, arrays = super().saved()
        return about | {"encoder": weights_digest()}, arrays

    @classmethod
    def restored(cls, about, arrays):
        """The mapper that `saved` took apart; refused where the encoder has other weights now."""
        if about["encoder"] != weights_digest():
            raise ValueError("The mapper was fitted with other weights of the encoder; fit it again.")
        return super().restored(about, arrays)

    def nodes(self, sections):
        """Energies and features at the nodes of sections."""
        if len(sections) > 1:
            return _both(sections)
        return KEPT.get(("encoded", content(sections)), lambda: _both(sections))


def _encoder(stack, cut, first):
    """What encodes rows of a stack of patches, from their windows where these are at hand."""
    rows, columns = (-(-side // STRIDE) for side in stack.shape[1:])

    def encode(some):
        if cut is None:
            return encoded(stack[some - first]).astype(np.float16)
        margin = SURROUND // STRIDE
        inside = encoded(cut(some - first))[:, margin : margin + rows, margin : margin + columns]
        return inside.astype(np.float16)

    return encode


def encoded(sections):
    """Features of the encoder at the nodes of sections, and their means around each node."""
    features = Encoder().describe(sections)
    np.clip(features[..., : len(CLASSES)], -LARGEST, LARGEST, out=features[..., : len(CLASSES)])
    smooth = gaussian_filter(features, (0, SMOOTH, SMOOTH, 0), mode="nearest", truncate=3)
    return np.concatenate([features, smooth], axis=-1)


def _both(sections):
    return np.concatenate([describe(sections), encoded(sections)], axis=-1)


def _anywhere(windows):
    """Descriptors of every second node of the middle of windows, shape (n, n_nodes, n_descriptors)."""
    inside = slice(SURROUND, -SURROUND)
    parts = spans(len(windows), BLOCK)

    def both(span):
        energies = describe(windows[span, inside, inside])
        margin, (rows, columns) = SURROUND // STRIDE, energies.shape[1:3]
        features = encoded(windows[span])[:, margin : margin + rows, margin : margin + columns]
        return np.concatenate([energies, features], axis=-1)[:, ::2, ::2]

    nodes = np.concatenate(list(map_blocks(both, parts)))
    return nodes.reshape(len(nodes), -1, nodes.shape[-1])
