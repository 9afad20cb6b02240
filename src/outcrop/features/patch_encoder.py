"""Descriptors of whole patches by a small net that was pretrained on synthetic sections alone; see docs/retrieval.md.

The weights are part of the package. Gain has no effect, because amplitudes are balanced first. Polarity has no effect,
because the first layer keeps only magnitudes and products of filter responses. Mirroring, noise, phase and sampling
have little effect, because the net was trained to give changed copies of a patch similar descriptors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outcrop.features.encoder import balanced, session
from outcrop.parallel import map_blocks, spans

WEIGHTS = Path(__file__).with_name("patches.onnx")
LENGTH = 128  # numbers in a descriptor
SMALLEST = 32  # samples and traces: smallest height and width of a patch
ON_DEVICE = 1024  # patches that a torch device describes at once
BLOCK = 32  # patches that a thread describes at a time


def describe(patches: np.ndarray, *, workers: int | None = None) -> np.ndarray:
    """Return the descriptors of a stack of patches.

    Parameters
    ----------
    patches : array, shape (n, height, width)
        Values in [0, 1]; 32 x 32 or larger.
    workers : int, optional
        Number of threads; by default one per core.

    Returns
    -------
    float32 array, shape (n, 128)
        Non-negative; each descriptor sums to 1.
    """
    check_size(patches.shape[1:])
    values = np.asarray(patches, np.float32)
    blocks = map_blocks(lambda span: _describe(values[span]), spans(len(values), BLOCK), workers=workers)
    return np.concatenate([np.empty((0, LENGTH), np.float32), *blocks])


def describe_on_device(patches: Any) -> Any:
    """Return the descriptors of a torch tensor of patches, computed on its device."""
    import torch

    from outcrop.features.torch_patch_encoder import torch_patch_net

    check_size(patches.shape[1:])
    net = torch_patch_net(str(WEIGHTS), str(patches.device))
    blocks = [net(patches[span].float()) for span in spans(len(patches), ON_DEVICE)]
    return torch.cat(blocks).to(patches.dtype) if blocks else patches.new_empty((0, LENGTH))


def check_size(size: Sequence[int]) -> None:
    """Raise a ValueError if patches of this height and width are too small for the net."""
    if min(size) < SMALLEST:
        raise ValueError(
            f"Patches are {size[0]} x {size[1]}, but the encoder needs {SMALLEST} x {SMALLEST} or more; choose larger "
            "patches."
        )


def _describe(patches: np.ndarray) -> np.ndarray:
    """Return descriptors of patches; they are computed one by one, so that each depends on its patch only."""
    net = session(str(WEIGHTS))
    x = balanced(patches - np.float32(0.5))[:, None]
    return np.concatenate([net.run(None, {"patches": x[i : i + 1]})[0] for i in range(len(x))])
