"""The pretrained encoder on a torch device, with the weights of the ONNX file that onnxruntime also reads."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

GRAPH, INITIALISER = 7, 5  # fields of an ONNX model and of its graph
DIMS, TYPE, NAME, RAW = 1, 2, 8, 9  # fields of a tensor
DTYPES: dict[int, np.dtype] = {
    1: np.dtype("<f4"),
    7: np.dtype("<i8"),
    10: np.dtype("<f2"),
}  # type number -> NumPy type


class TorchNet:
    """The U-Net of `pretraining.net`, with batch normalisation included in the weights of the convolutions.

    Parameters
    ----------
    path : path
        Weights, written by `pretraining.export`.
    device : str
        A torch device.
    """

    def __init__(self, path: str | Path, device: str) -> None:
        import torch

        arrays = list(initialisers(path).values())
        weights = [torch.from_numpy(a.astype(np.float32)).to(device) for a in arrays if a.ndim in (1, 4) and len(a) > 4]
        self.torch: Any = torch
        self.device = device
        self.stem, self.layers = weights[0], list(zip(weights[1::2], weights[2::2], strict=True))

    def __call__(self, x: Any) -> tuple[Any, Any, Any]:
        """Apply the net to sections; return their predictions and two maps of features.

        The predictions have half the resolution of the sections, the features a quarter and half of it; see
        `pretraining.net.Net`.
        """
        functional, concatenate = self.torch.nn.functional, self.torch.cat
        layers = iter(self.layers)

        def block(x: Any) -> Any:
            for weight, bias in (next(layers), next(layers)):
                x = functional.relu_(functional.conv2d(x, weight.to(x.dtype), bias.to(x.dtype), padding=1))
            return x

        first, second = functional.conv2d(x, self.stem.to(x.dtype), stride=2, padding=2).chunk(2, dim=1)
        sizes = first.abs(), second.abs()
        x = concatenate([*sizes, 2 * first * second / (sizes[0] + sizes[1] + 1e-3)], 1)
        n_levels = (
            len(self.layers) // 4 + 1
        )  # two layers per level on the way down, two on the way up except at the deepest level
        levels = []
        for number in range(n_levels):
            x = block(functional.avg_pool2d(x, 2) if number else x)
            levels.append(x)
        found = []
        for level in levels[-2::-1]:
            x = block(concatenate([functional.interpolate(x, scale_factor=2.0, mode="nearest"), level], 1))
            found.append(x)
        weight, bias = self.layers[-1]
        return functional.conv2d(x, weight.to(x.dtype), bias.to(x.dtype)), found[-2], found[-1]

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        """Apply the net to a NumPy array and return NumPy arrays."""
        with self.torch.inference_mode():
            return [part.cpu().numpy() for part in self(self.torch.from_numpy(x).to(self.device))]


@lru_cache(maxsize=32)
def torch_net(path: str, device: str) -> TorchNet:
    """Load the net of an ONNX file onto a torch device; a loaded net is reused."""
    return TorchNet(path, device)


def initialisers(path: str | Path) -> dict[str, np.ndarray]:
    """Return the weight arrays of an ONNX file as a dict by name, in the order of the file.

    Examples
    --------
    >>> from outcrop.features.encoder import WEIGHTS
    >>> next(iter(initialisers(WEIGHTS).values())).shape
    (32, 1, 5, 5)
    """
    graph = _fields(memoryview(Path(path).read_bytes()))[GRAPH][0]
    found = {}
    for tensor in map(_fields, _fields(graph)[INITIALISER]):
        shape = [n for part in tensor.get(DIMS, []) for n in ([part] if isinstance(part, int) else _numbers(part))]
        kind = DTYPES[tensor[TYPE][0]]
        found[bytes(tensor[NAME][0]).decode()] = np.frombuffer(tensor[RAW][0], kind).reshape(shape)
    return found


def _fields(message: Any) -> dict[int, list[Any]]:
    """Parse a protobuf message; return a dict from field number to values (integers or bytes)."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        if tag & 7 == 0:
            value, at = _number(message, at)
        else:  # bytes with their length, or 8 or 4 bytes
            size, at = _number(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            value, at = message[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _number(message: Any, at: int) -> tuple[int, int]:
    """Read a variable-length integer, seven bits per byte; return the integer and the position behind it."""
    value = shift = 0
    while True:
        byte, at = message[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _numbers(message: Any) -> list[int]:
    found, at = [], 0
    while at < len(message):
        value, at = _number(message, at)
        found.append(value)
    return found
