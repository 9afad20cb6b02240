"""Scores of a fitted mapper for sections on a torch device: what `mapping.texture` does, several sections at once.

Every filter, step and stretch along an axis is linear, so it is one matrix, made by giving the function that NumPy uses
the identity; sections are multiplied by these from both sides.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from scipy.ndimage import gaussian_filter1d

from outcrop.arrays import Array
from outcrop.features import encoder, energies
from outcrop.features.torch_encoder import torch_net
from outcrop.features.torch_patch_encoder import balanced
from outcrop.mapping import pixels
from outcrop.mapping.encoder_mapping import LARGEST, SMOOTH, EncoderMapper
from outcrop.mapping.texture import TextureMapper, node_familiarity

NODES = 1 << 18  # nodes whose random features are held at once


class TorchScores:
    """Scores of a mapper for sections on a torch device; they differ from the mapper's by rounding alone.

    Parameters
    ----------
    mapper : TextureMapper or EncoderMapper
        Fitted.
    device : str
        For instance ``cuda``.

    Examples
    --------
    >>> from outcrop.mapping import texture
    >>> patches = np.random.default_rng(0).random((12, 32, 32), dtype=np.float32)
    >>> classes = ["fault"] * 6 + ["other"] * 6
    >>> mapper = texture.TextureMapper(members=1, n_features=50, rounds=3).fit(patches, classes)
    >>> found = TorchScores(mapper, "cpu")(patches[:2])
    >>> bool(np.allclose(found, mapper.scores(patches[:2]), atol=1e-4))
    True
    """

    def __init__(self, mapper: TextureMapper, device: str) -> None:
        import torch

        self.torch: Any = torch
        self.mapper, self.device = mapper, device
        self.encodes = isinstance(mapper, EncoderMapper)
        self.background = self._array(mapper._is_background())
        self.models = [
            (self._arrays(features), self._array(weights), [type(one)(**self._arrays(one)) for one in familiar])
            for features, weights, familiar in mapper.models_
        ]

    def __call__(self, sections: np.ndarray) -> Array:
        """Scores, as a tensor of shape (n, height, width, n_classes), of sections of one shape, values in [0, 1]."""
        with self.torch.inference_mode():
            x = self._array(sections)
            nodes = self._energies(x)
            if self.encodes:
                nodes = self.torch.cat([nodes, self._answers(x)], dim=-1)
            flat = nodes.reshape(-1, nodes.shape[-1])
            found = [self._node_values(flat[part : part + NODES]) for part in range(0, len(flat), NODES)]
            values = self.torch.cat(found).reshape(*nodes.shape[:3], -1)
            values = pixels.along_reflectors(values, self._dips(x))
            votes, familiar = values[..., :-2], values[..., -2:]
            shares = pixels.class_shares(votes, familiar, self.background, self.mapper.power_)
            return pixels.upsample(shares, sections.shape[1:])

    def packed(self, sections: np.ndarray, voted: np.ndarray) -> Array:
        """Votes as bytes, shape (n, n_classes, n_traces, n_samples), 0 where nobody votes.

        Parameters
        ----------
        sections : array, shape (n, n_samples, n_traces)
        voted : bool array, shape (n, n_traces, n_samples)
        """
        scores = self(sections).permute(0, 3, 2, 1)
        votes = (255 * scores / scores.sum(1, keepdim=True)).round().to(self.torch.uint8)
        return (votes * self.torch.as_tensor(voted, device=self.device)[:, None]).cpu().numpy()

    def _array(self, values: Any) -> Array:
        values = values if isinstance(values, self.torch.Tensor) else np.array(values, np.float32)
        return self.torch.as_tensor(values, dtype=self.torch.float32, device=self.device)

    def _arrays(self, model: Any) -> dict[str, Array]:
        """Attributes of a part of the mapper, which are arrays, on the device."""
        return {name: self._array(value) for name, value in vars(model).items()}

    def _applied(self, x: Array, function: Callable[..., np.ndarray], **options: Any) -> Array:
        """The last two axes of an array after a linear function of each."""
        rows, columns = (self._array(_matrix(function, n, **options)) for n in x.shape[-2:])
        return rows @ x @ columns.T

    def _energies(self, x: Array) -> Array:
        """See `energies.describe`."""
        fft, margin = self.torch.fft, energies.MARGIN
        shape = tuple(scipy.fft.next_fast_len(size + 2 * margin) for size in x.shape[1:])
        padded = x - 0.5
        for axis, (size, full) in enumerate(zip(x.shape[1:], shape, strict=True), 1):
            place = np.pad(np.arange(size), (margin, full - size - margin), mode="symmetric")
            padded = padded.index_select(axis, self.torch.as_tensor(place, device=self.device))
        spectrum = fft.fft2(padded)
        out: list[list[Array]] = [[] for _ in energies.SMOOTHING]
        inside = slice(margin, margin + x.shape[1]), slice(margin, margin + x.shape[2])
        for window in self._windows(shape):
            envelope = fft.ifft2(spectrum * window).abs()[:, *inside]
            for smoothed, sigma in zip(out, energies.SMOOTHING, strict=True):
                smoothed.append(self.torch.log(self._applied(envelope, _smoothed_nodes, sigma=sigma / 2) + 1e-3))
        return self.torch.stack([energy for smoothed in out for energy in smoothed], dim=-1)

    @lru_cache(maxsize=32)  # noqa: B019 one object a device and run
    def _windows(self, shape: tuple[int, ...]) -> list[Array]:
        return [self._array(window) for window in energies._log_gabor(shape)]

    def _answers(self, x: Array) -> Array:
        """See `encoder_mapping.encoded`."""
        torch, multiple = self.torch, encoder.MULTIPLE
        sides = [self._padded(balanced(x - 0.5), encoder.STRIDE)]
        width = sides[0].shape[2]
        sides = [self._padded(side, multiple) for side in (sides[0], sides[0].flip(2))]
        net = torch_net(str(encoder.WEIGHTS), self.device)
        seen, behind = (encoder.by_tiles(lambda x: net(x)[:1], side[:, None])[0] for side in sides)
        logits = (seen[..., : width // 2] + behind[..., : width // 2].flip(3)) / 2
        n = len(encoder.CLASSES)
        logits = torch.cat([logits[:, :n], logits[:, n + 1 :]], 1)  # without the sine of the dip
        answers = torch.nn.functional.avg_pool2d(logits, 2)
        shape = [-(-size // encoder.STRIDE) for size in x.shape[1:]]
        answers = answers[:, :, : shape[0], : shape[1]]
        answers = torch.cat([answers[:, :n].clamp(-LARGEST, LARGEST), answers[:, n:]], 1)
        smooth = self._applied(answers, gaussian_filter1d, sigma=SMOOTH, mode="nearest", truncate=3)
        return torch.cat([answers, smooth], 1).permute(0, 2, 3, 1)

    def _padded(self, x: Array, multiple: int) -> Array:
        """See `encoder._padded`."""
        for axis in (1, 2):
            place = np.pad(np.arange(x.shape[axis]), (0, -x.shape[axis] % multiple), mode="symmetric")
            x = x.index_select(axis, self.torch.as_tensor(place, device=self.device))
        return x

    def _node_values(self, nodes: Array) -> Array:
        """Votes, which sum to 1, and familiarity; see `texture.node_votes` and `texture.node_familiarity`."""
        torch = self.torch
        sides = nodes, energies.mirrored(nodes)
        votes: Any = 0
        for features, weights, _ in self.models:
            for side in sides:
                standard = ((side - features["mean"]) / features["spread"]).clamp(-4, 4)
                drawn = torch.addmm(features["offsets"], standard, features["weights"]).relu_()
                votes = votes + drawn @ weights[:-1] + weights[-1]
        votes = (votes / (2 * len(self.models))).clamp(min=1e-3)
        return torch.cat([votes / votes.sum(-1, keepdim=True), node_familiarity(self.models, nodes)], dim=-1)

    def _dips(self, x: Array) -> Array:
        """See `pixels.dips`."""
        torch = self.torch
        plain, slope = (
            [self._array(_matrix(gaussian_filter1d, n, sigma=1.5, order=order)) for n in x.shape[1:]]
            for order in (0, 1)
        )
        down, across = slope[0] @ x @ plain[1].T, plain[0] @ x @ slope[1].T
        products = down * down, across * across, down * across
        zz, xx, zx = (self._applied(product, _smoothed_nodes, sigma=3.0, truncate=4.0) for product in products)
        steepest = float(np.arctan(pixels.STEEPEST))
        return -torch.tan((torch.atan2(2 * zx, zz - xx) / 2).clamp(-steepest, steepest))


@lru_cache(maxsize=64)
def _matrix(function: Callable[..., np.ndarray], n: int, /, **options: Any) -> np.ndarray:
    """Matrix of a linear function of an axis of `n` places, float32."""
    return np.asarray(function(np.eye(n), axis=0, **options), np.float32)


def _smoothed_nodes(x: np.ndarray, *, axis: int, sigma: float, truncate: float = 3.0) -> np.ndarray:
    """Halved, smoothed, and at every second place, as in `energies.describe`."""
    x = np.pad(x, [(0, len(x) % 2), (0, 0)], mode="edge")
    smooth = gaussian_filter1d((x[::2] + x[1::2]) / 2, sigma, axis=axis, mode="reflect", truncate=truncate)
    return np.pad(smooth, [(0, len(smooth) % 2), (0, 0)], mode="edge")[1::2]
