"""Features and predictions of a small net that was pretrained on synthetic sections alone; see docs/encoder.md.

The weights are part of the package. A constant gain has no effect, because amplitudes are balanced before they enter
the net. Polarity has no effect, because the first layer keeps only magnitudes and products of filter responses.
Reversing the order of traces has no effect if the number of traces is a multiple of 4, and little effect otherwise,
because results are averaged over the section and its mirror image.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter

from outcrop.arrays import Array, array_namespace
from outcrop.features.energies import halved, stretched
from outcrop.features.torch_encoder import torch_net
from outcrop.parallel import inference_options

WEIGHTS = Path(__file__).with_name("encoder.onnx")
STRIDE = 4  # pixels between grid points
WINDOW = 65  # samples and traces over which amplitudes are balanced, twice
MULTIPLE = 16  # height and width of the net's input must be multiples of this number
REACH = 160  # pixels on each side on which the prediction of a pixel depends, rounded up to a multiple of 16
TILE = 1024  # pixels: largest height and width that the net processes at once
STEEPEST = 5.0  # samples per trace: largest dip that is returned
CLASSES = ("fault", "zone", "salt", "chaos", "edge", "unconformity")
ANSWERS = (*CLASSES, "dip")


class Encoder:
    """Pretrained net that computes features of sections and predicts their structures.

    Parameters
    ----------
    path : path, optional
        File of weights (ONNX) that `pretraining.export` wrote; by default the weights of the package.
    device : str, optional
        A torch device such as ``cuda`` on which the net runs; by default onnxruntime runs it.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((1, 80, 96), seed=0)
    >>> sections = 0.5 + volume.values.swapaxes(1, 2) / 20_000  # (n, samples, traces) around 0.5
    >>> found = Encoder().answers(sections)
    >>> sorted(found), found["fault"].shape
    (['chaos', 'dip', 'edge', 'fault', 'salt', 'unconformity', 'zone'], (1, 96, 80))
    """

    def __init__(self, path: str | Path | None = None, *, device: str | None = None) -> None:
        self.path, self.device = Path(path or WEIGHTS), device

    def describe(self, sections: npt.ArrayLike) -> np.ndarray:
        """Return features at the grid points of sections.

        Parameters
        ----------
        sections : array, shape (n, height, width)
            Amplitudes of any gain, with zero at 0.5 as in patches; missing samples (NaN) are taken as zero.

        Returns
        -------
        array, shape (n, ceil(height / 4), ceil(width / 4), n_features)
            First the predictions (logits of the structures, then the cosine of twice the dip angle), then features
            from the decoder of the net.
        """
        answers, quarter, half = self._maps(sections)
        rows, columns = (-(-side // STRIDE) for side in np.shape(sections)[1:])
        at_nodes = np.concatenate([halved(answers), quarter, halved(half)], axis=1)[:, :, :rows, :columns]
        return np.moveaxis(at_nodes, 1, -1).copy()

    def answers(self, sections: npt.ArrayLike) -> dict[str, np.ndarray]:
        """Predict structures and dip at every pixel of sections.

        Returns
        -------
        dict of arrays, shape (n, height, width)
            Probabilities of ``fault`` (the plane), ``zone`` (around a fault plane), ``salt``, ``chaos``, ``edge`` (of
            salt) and ``unconformity``; ``dip`` in samples per trace.
        """
        maps = self._maps(sections, both=True)[0]
        height, width = np.shape(sections)[1:]
        for axis in (2, 3):
            maps = stretched(maps, (np.arange(2 * maps.shape[axis]) - 0.5) / 2, axis)
        maps = maps[..., :height, :width]
        n = len(CLASSES)
        found = {name: 1 / (1 + np.exp(-maps[:, k])) for k, name in enumerate(CLASSES)}
        dip = np.arctan2(maps[:, n], maps[:, n + 1]) / 2
        return found | {"dip": np.tan(np.clip(dip, -np.arctan(STEEPEST), np.arctan(STEEPEST)))}

    def _maps(self, sections: npt.ArrayLike, *, both: bool = False) -> list[np.ndarray]:
        """Return three maps: predictions at every second pixel, and features at every fourth and every second pixel.

        Results are averaged over sections and their mirror images. The predictions contain the cosine of twice the dip
        angle and, if `both` is True, also the sine, which changes its sign in the mirror image.
        """
        x = np.asarray(sections, np.float32) - np.float32(0.5)
        if x.ndim != 3 or not x.size:
            raise ValueError(f"Sections have the shape {x.shape}; give an array of shape (n, height, width).")
        x = _padded(balanced(np.where(np.isfinite(x), x, np.float32(0))), STRIDE)
        seen, mirrored = (by_tiles(self._run, _padded(side, MULTIPLE)[:, None]) for side in (x, x[..., ::-1]))
        mirrored[0][:, len(CLASSES)] *= -1
        maps = []
        for a, b in zip(seen, mirrored, strict=True):
            width = a.shape[-1] * x.shape[2] // (-(-x.shape[2] // MULTIPLE) * MULTIPLE)  # without padding
            maps.append((a[..., :width] + b[..., :width][..., ::-1]) / 2)
        if not both:
            maps[0] = np.delete(maps[0], len(CLASSES), axis=1)
        return maps

    def _run(self, x: np.ndarray) -> Any:
        x, path = np.ascontiguousarray(x), str(self.path)
        if self.device:
            return torch_net(path, self.device).run(x)
        return session(path).run(None, {"sections": x})


@lru_cache(maxsize=2)
def weights_digest(path: Path = WEIGHTS) -> str:
    """Return the SHA-256 of the weights of a net; mappers fitted to its features are valid for these weights only."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(maxsize=4)
def session(path: str) -> Any:
    """Load the net of an ONNX file and return its onnxruntime session; a loaded net is reused."""
    import onnxruntime

    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    known = [name for name in wanted if name in onnxruntime.get_available_providers()]
    return onnxruntime.InferenceSession(path, inference_options(), providers=known)


def balanced(sections: np.ndarray) -> Array:
    """Divide sections by the root mean square amplitude within about 100 pixels, so that gain has no effect.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((1, 80, 90)).astype("f4")
    >>> np.allclose(balanced(x), balanced(7 * x), atol=1e-5)
    True
    """
    square, weight = np.square(sections), np.ones((1, *sections.shape[1:]), np.float32)
    for _ in range(2):
        square, weight = (uniform_filter(part, (0, WINDOW, WINDOW), mode="constant") for part in (square, weight))
        square, weight = square / weight, np.ones_like(weight)
    return sections / (np.sqrt(np.maximum(square, 0)) + np.float32(1e-6))


def _padded(sections: np.ndarray, multiple: int) -> np.ndarray:
    """Extend sections by mirroring at their ends until height and width are multiples of `multiple`."""
    sides = [(0, -side % multiple) for side in sections.shape[1:]]
    return np.pad(sections, [(0, 0), *sides], mode="symmetric")


def by_tiles(net: Callable[[Array], Sequence[Array]], x: Array) -> list[Array]:
    """Apply a net to sections of shape (n, 1, height, width) tile by tile, and join the results.

    Each tile has margins of 160 pixels; no pixel affects a result at a larger distance.
    """
    xp, rows = array_namespace(x), []
    for top in range(0, x.shape[2], TILE):
        tiles = []
        for left in range(0, x.shape[3], TILE):
            first = [max(0, at - REACH) for at in (top, left)]
            seen = x[:, :, first[0] : top + TILE + REACH, first[1] : left + TILE + REACH]
            inside = []
            for part in net(seen):
                stride = seen.shape[2] // part.shape[2]
                down, across = (top - first[0]) // stride, (left - first[1]) // stride
                size = TILE // stride
                inside.append(part[:, :, down : down + size, across : across + size])
            tiles.append(inside)
        rows.append([xp.concat(parts, axis=3) for parts in zip(*tiles, strict=True)])
    return [xp.concat(parts, axis=2) for parts in zip(*rows, strict=True)]
