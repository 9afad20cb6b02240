"""Label mapping by texture and by what a pretrained encoder sees: one regression of energies and answers.

The energies of `texture` tell textures apart but see no broken reflector and no edge of a body. The answers of the
encoder (fault, zone, salt, chaos, edge, unconformity, dip) see just these, in any survey, though not as this survey's
interpreter means them. Both describe the nodes that the rounds of expectation-maximisation sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from outcrop.arrays import Array
from outcrop.features.encoder import ANSWERS, CLASSES, STRIDE, Encoder, weights_digest
from outcrop.features.energies import KEPT, describe, n_energies
from outcrop.mapping.constraint import Step
from outcrop.mapping.familiarity import Familiarity
from outcrop.mapping.texture import Further, More, TextureMapper
from outcrop.parallel import map_blocks, spans
from outcrop.storage.kept import content

if TYPE_CHECKING:
    import xarray as xr

    from outcrop.patches.grid import PatchGrid

Answers = Iterator[tuple[np.ndarray, np.ndarray]]  # rows of patches, and the answers at their nodes

SURROUND = 48  # pixels around a patch that the encoder sees too, where they are at hand
SMOOTH = 3  # nodes: each answer is also averaged over so many around its node
LARGEST = 8.0  # of a logit
EMPHASIS = 0.7  # of an answer in the random features, where an energy has 1
BLOCK = 16  # windows that a thread encodes at once
STRANGE = 0.05  # answers as rare as the rarest 5 % of those learnt are strange


class EncoderMapper(TextureMapper):
    """Map the classes of whole patches to their pixels by texture and by the answers of a pretrained encoder.

    Works on sections of any size. Needs no torch: the encoder runs on onnxruntime.

    Parameters
    ----------
    members, patches_per_class, n_features, rounds, min_confidence, background, random_state
        As for `TextureMapper`. `fit` with ``places`` lets the encoder see what surrounds the patches: what it answers
        at the rim of a patch is not what it answers inside a section.

    Examples
    --------
    >>> patches = np.random.default_rng(0).random((12, 64, 64), dtype=np.float32)
    >>> patches[6:] = (patches[6:] + np.roll(patches[6:], 1, axis=2)) / 2  # smooth along the traces
    >>> classes = ["rough"] * 6 + ["other"] * 6
    >>> mapper = EncoderMapper(members=1, n_features=50, rounds=3).fit(patches, classes)
    >>> mapper.confidence(patches[:1]).shape, mapper.background_
    ((1, 64, 64), 'other')
    """

    def _more(self, stacks: list[np.ndarray], places: list[Any]) -> More:
        """Answers of the encoder, which sees more than a patch where its place is known."""
        first = np.cumsum([0, *map(len, stacks)])
        kept: dict[int, np.ndarray] = {}

        def more(drawn: np.ndarray, step: Step) -> Further:
            parts = []
            for stack, place, begin, end in zip(stacks, places, first[:-1], first[1:], strict=True):
                members = [row for row in drawn.tolist() if begin <= row < end]
                new = np.array([row - begin for row in members if row not in kept], int)
                for rows, answers in (place or Patches(stack)).answers(new):
                    kept.update(zip((rows + begin).tolist(), answers.astype(np.float16), strict=True))
                    step()
                parts += [np.stack([kept[row] for row in members])] if members else []
            return partial(_every_second, parts)

        return more

    @property
    def familiarities(self) -> list[type[Familiarity]]:
        """Textures, and answers of the encoder: it sees faults and bodies that nobody showed."""
        return [Familiarity, FamiliarAnswers]

    def emphasis(self, n_descriptors: int) -> Array:
        """How much each descriptor counts in the random features: answers less than energies."""
        return np.where(np.arange(n_descriptors) < n_energies(), 1, EMPHASIS).astype(np.float32)

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the mapper consists of, and which weights of the encoder it was fitted with."""
        about, arrays = super().saved()
        return about | {"encoder": weights_digest()}, arrays

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The mapper that `saved` took apart; refused where the encoder has other weights now."""
        if about["encoder"] != weights_digest():
            raise ValueError("The mapper was fitted with other weights of the encoder; fit it again.")
        return super().restored(about, arrays)

    def nodes(self, sections: np.ndarray) -> Array:
        """Energies and answers at the nodes of sections."""
        if len(sections) > 1:
            return _both(sections)
        return KEPT.get(("encoded", weights_digest(), content(sections)), lambda: _both(sections))


class FamiliarAnswers(Familiarity):
    """How familiar the answers of the encoder at a node are among those learnt."""

    strange = STRANGE

    @staticmethod
    def seen(nodes: Array) -> Array:
        """The answers."""
        return nodes[..., n_energies() :]

    @staticmethod
    def sides(nodes: Array) -> tuple[Array, ...]:
        """A mirror shows the same answers."""
        return (nodes,)

    @staticmethod
    def n_axes(descriptors: np.ndarray) -> int:
        """All, where there are nodes enough."""
        return min(int(descriptors.shape[1]), max(1, len(descriptors) // 2))


class Places:
    """Where patches lie in a volume; gives what the encoder answers there, seeing what is around them.

    Parameters
    ----------
    grid : PatchGrid
    volume : DataArray
    starts : int array, shape (n, 4)
        Direction, line, trace and sample of the first corner of every patch.
    """

    def __init__(self, grid: PatchGrid, volume: xr.DataArray, starts: npt.ArrayLike) -> None:
        self.grid, self.volume, self.starts = grid, volume, np.asarray(starts)
        self.lines, self.line = np.unique(self.starts[:, :2], axis=0, return_inverse=True)
        window = np.prod([side + 2 * SURROUND for side in grid.size])
        length = [len(grid.axes[1 - direction]) * len(grid.axes[2]) for direction in self.lines[:, 0]]
        # a line that holds many patches is encoded once and whole
        self.whole = np.bincount(self.line.ravel(), minlength=len(self.lines)) * window >= length

    def answers(self, rows: np.ndarray) -> Answers:
        """Some of the rows and the answers at the nodes of their patches, until all are given."""
        on_line = self.line.ravel()[rows]
        whole = [rows[on_line == number] for number in np.unique(on_line) if self.whole[number]]
        single = rows[~self.whole[on_line]]
        blocks = [*whole, *(single[span] for span in spans(len(single), BLOCK))]
        return zip(blocks, map_blocks(self._block, blocks), strict=True)

    def _block(self, rows: np.ndarray) -> Array:
        shape = [-(-side // STRIDE) for side in self.grid.size]
        starts = self.starts[rows]
        if not self.whole[self.line.ravel()[rows[0]]]:
            return _inside(encoded(self.grid.around(self.volume, starts, SURROUND)), shape)
        section, _ = self.grid.section(self.volume, *starts[0, :2])
        nodes = encoded(np.where(np.isfinite(section), section, np.float32(0.5)).T[None])[0]
        down, across = (
            np.minimum(np.round(start / STRIDE).astype(int)[:, None] + np.arange(n), last - 1)
            for start, n, last in zip((starts[:, 3], starts[:, 2]), shape, nodes.shape, strict=False)
        )
        return nodes[down[:, :, None], across[:, None, :]]


class Patches:
    """Patches without a place: they are mirrored at their rims for the encoder."""

    def __init__(self, patches: np.ndarray) -> None:
        self.patches = patches

    def answers(self, rows: np.ndarray) -> Answers:
        """As `Places.answers`."""
        blocks = [rows[span] for span in spans(len(rows), BLOCK)]
        return zip(blocks, map_blocks(self._block, blocks), strict=True)

    def _block(self, rows: np.ndarray) -> Array:
        wide = np.pad(self.patches[rows], [(0, 0), (SURROUND, SURROUND), (SURROUND, SURROUND)], mode="symmetric")
        return _inside(encoded(wide), [-(-side // STRIDE) for side in self.patches.shape[1:]])


def _inside(nodes: np.ndarray, shape: Sequence[int]) -> Array:
    """Nodes of patches without those around them."""
    margin = SURROUND // STRIDE
    return nodes[:, margin : margin + shape[0], margin : margin + shape[1]]


def _every_second(parts: list[np.ndarray], behind: np.ndarray, offset: np.ndarray) -> list[np.ndarray]:
    """Descriptors at every second node of patches, from the other side where a patch is seen from behind."""
    found, done = [], 0
    for part in parts:
        turned = behind[done : (done := done + len(part)), None, None, None]
        nodes = np.where(turned, part[:, :, ::-1], part)[:, offset[0] :: 2, offset[1] :: 2]
        found.append(nodes.reshape(len(part), -1, part.shape[-1]).astype(np.float32))
    return found


def encoded(sections: np.ndarray) -> np.ndarray:
    """Answers of the encoder at the nodes of sections, and their means around each node."""
    answers = Encoder().describe(sections)[..., : len(ANSWERS)]
    np.clip(answers[..., : len(CLASSES)], -LARGEST, LARGEST, out=answers[..., : len(CLASSES)])
    smooth = gaussian_filter(answers, (0, SMOOTH, SMOOTH, 0), mode="nearest", truncate=3)
    return np.concatenate([answers, smooth], axis=-1)


def _both(sections: np.ndarray) -> np.ndarray:
    return np.concatenate([describe(sections), encoded(sections)], axis=-1)
