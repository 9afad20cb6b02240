"""The pretrained patch encoder on a torch device, with the weights of the ONNX file that onnxruntime also reads."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from outcrop.arrays import Array, array_namespace, constant
from outcrop.features.encoder import WINDOW
from outcrop.features.torch_encoder import initialisers

HALVED = (1, 3)  # layers before which the resolution is halved


class TorchPatchNet:
    """The patch encoder of `pretraining.patches` in torch; it also balances the amplitudes of the patches.

    Batch normalisation is included in the weights of the convolutions.

    Parameters
    ----------
    path : path
        Weights, exported by `pretraining.patches`.
    device : str
        A torch device.
    """

    def __init__(self, path: str | Path, device: str) -> None:
        import torch

        arrays = [a for a in initialisers(path).values() if a.ndim and len(a) > 1]
        weights = [torch.from_numpy(a.astype(np.float32)).to(device) for a in arrays]
        self.torch: Any = torch
        self.stem, self.last = weights[0], weights[-2:]
        self.layers = list(zip(weights[1:-2:2], weights[2:-2:2], strict=True))

    def __call__(self, patches: Any) -> Any:
        """Return descriptors of a torch tensor of patches with values in [0, 1], shape (n, height, width)."""
        functional, concatenate = self.torch.nn.functional, self.torch.cat
        # without TF32, an index is the same on every GPU
        exact = self.torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
        with self.torch.inference_mode(), exact:
            x = balanced(patches - 0.5)[:, None]
            first, second = functional.conv2d(x, self.stem, stride=2, padding=2).chunk(2, dim=1)
            sizes = first.abs(), second.abs()
            x = concatenate([*sizes, 2 * first * second / (sizes[0] + sizes[1] + 1e-3)], 1)
            for number, (weight, bias) in enumerate(self.layers):
                x = functional.avg_pool2d(x, 2) if number in HALVED else x
                x = functional.relu_(functional.conv2d(x, weight, bias, padding=1))
            mean = x.mean((2, 3))
            spread = (((x - mean[:, :, None, None]) ** 2).mean((2, 3)) + 1e-4).sqrt()
            found = functional.relu(concatenate([mean, spread], 1) @ self.last[0] + self.last[1])
            return found / (found.sum(1, keepdim=True) + 1e-3)


def balanced(sections: Array) -> Array:
    """Balance amplitudes in torch as `encoder.balanced` does; window means are computed as matrix products."""
    xp, square = array_namespace(sections), sections**2
    sums = [uniform_filter1d(np.eye(n), WINDOW, axis=0, mode="constant") for n in sections.shape[1:]]
    means = [constant(xp, x / x.sum(axis=1, keepdims=True), like=sections, dtype=sections.dtype) for x in sums]
    for _ in range(2):
        square = means[0] @ square @ means[1].T
    return sections / (square.clamp(min=0).sqrt() + 1e-6)


@lru_cache(maxsize=32)
def torch_patch_net(path: str, device: str) -> TorchPatchNet:
    """Load the patch encoder of an ONNX file onto a torch device; a loaded net is reused."""
    return TorchPatchNet(path, device)
