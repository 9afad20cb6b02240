"""Label mapping by texture and by what a pretrained encoder sees: one regression of energies and answers.

The energies of `texture` tell textures apart but see no broken reflector and no edge of a body. The answers of the
encoder (fault, zone, salt, chaos, edge, unconformity, dip) see just these, in any survey, though not as this survey's
interpreter means them. Both describe the nodes that the rounds of expectation-maximisation sort.
"""

from functools import partial
from itertools import pairwise

import numpy as np
from scipy.ndimage import gaussian_filter

from outcrop.encoder import ANSWERS, CLASSES, STRIDE, Encoder, weights_digest
from outcrop.kept import content
from outcrop.parallel import map_blocks, spans
from outcrop.texture import KEPT, TextureMapper, describe, n_energies

SURROUND = 48  # pixels around a patch that the encoder sees too, where they are at hand
SMOOTH = 3  # nodes: each answer is also averaged over so many around its node
LARGEST = 8.0  # of a logit
EMPHASIS = 0.7  # of an answer in the random features, where an energy has 1
BLOCK = 16  # windows that a thread encodes at once


class EncoderMapper(TextureMapper):
    """Map the classes of whole patches to their pixels by texture and by the answers of a pretrained encoder.

    Works on sections of any size. Needs no torch: the encoder runs on onnxruntime.

    Parameters
    ----------
    members, patches_per_class, n_features, rounds, min_confidence, background, random_state
        As for `TextureMapper`.
    """

    def fit(self, patches, classes, masks=None, weights=None, *, windows=None, progress=None):
        """Learn every class from patches with one class each; see `TextureMapper.fit`.

        Parameters
        ----------
        patches, classes, masks, weights, progress
            As `TextureMapper.fit` takes them.
        windows : callable or list of callables, optional
            ``windows(rows)`` gives patches with the `SURROUND` pixels around them, of one size or of each; the encoder
            sees more than a patch, and what it says at the rim of one is not what it says inside a section.
        """
        several = isinstance(patches, list) and np.ndim(patches[0]) == 3
        stacks = patches if several else [patches]
        cuts = [None] * len(stacks) if windows is None else windows if several else [windows]
        kept: dict = {}

        def more(drawn, step):
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
            parts = [np.stack([kept[row] for row in rows]) for rows in groups if rows]
            return partial(_every_second, parts)

        return self._fit(patches, classes, masks, weights, progress=progress, more=more)

    def emphasis(self, n_descriptors):
        """How much each descriptor counts in the random features: answers less than energies."""
        return np.where(np.arange(n_descriptors) < n_energies(), 1, EMPHASIS).astype(np.float32)

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
        """Energies and answers at the nodes of sections."""
        if len(sections) > 1:
            return _both(sections)
        return KEPT.get(("encoded", content(sections)), lambda: _both(sections))


def _encoder(stack, cut, first):
    """What encodes rows of a stack of patches, from their windows where these are at hand."""
    rows, columns = (-(-side // STRIDE) for side in stack.shape[1:])

    def encode(some):
        around = _mirrored_rims(stack[some - first]) if cut is None else cut(some - first)
        margin = SURROUND // STRIDE
        return encoded(around)[:, margin : margin + rows, margin : margin + columns].astype(np.float16)

    return encode


def _mirrored_rims(patches):
    return np.pad(patches, [(0, 0), (SURROUND, SURROUND), (SURROUND, SURROUND)], mode="symmetric")


def _every_second(parts, behind, offset):
    """Descriptors at every second node of patches, from the other side where a patch is seen from behind."""
    found, done = [], 0
    for part in parts:
        turned = behind[done : (done := done + len(part)), None, None, None]
        nodes = np.where(turned, part[:, :, ::-1], part)[:, offset[0] :: 2, offset[1] :: 2]
        found.append(nodes.reshape(len(part), -1, part.shape[-1]).astype(np.float32))
    return found


def encoded(sections):
    """Answers of the encoder at the nodes of sections, and their means around each node."""
    answers = Encoder().describe(sections)[..., : len(ANSWERS)]
    np.clip(answers[..., : len(CLASSES)], -LARGEST, LARGEST, out=answers[..., : len(CLASSES)])
    smooth = gaussian_filter(answers, (0, SMOOTH, SMOOTH, 0), mode="nearest", truncate=3)
    return np.concatenate([answers, smooth], axis=-1)


def _both(sections):
    return np.concatenate([describe(sections), encoded(sections)], axis=-1)
