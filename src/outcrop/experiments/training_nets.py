"""Nets of the experiment `training`; needs NumPy, torch and monai alone, so that a bare GPU machine can train them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZE = 99
PATCHES, EPOCHS = 2000, 6  # of every net: 12,000 patches seen, as `outcrop train` does


class Examples(NamedTuple):
    """Patches to train a net on, as windows of sections, all arrays of shape (n_lines, n_traces, n_samples).

    Amplitudes are 8-bit, as `export_training_set` writes them.
    """

    source: str  # name of the amplitudes: "patches" or "sections"
    codes: np.ndarray  # class of every pixel, 0 where there is no label
    weights: np.ndarray | None  # confidence, 255 = sure; None where all labels count alike
    starts: np.ndarray  # line, first trace and first sample of every patch, shape (n_patches, 3)


def windows(values: np.ndarray, starts: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Square windows of sections, rows downwards in time."""
    return np.stack([values[line, trace : trace + size, top : top + size].T for line, trace, top in starts])


def equal_number(starts: np.ndarray, count: int, seed: int) -> np.ndarray:
    """So many of the patches: a draw without replacement where there are more, all and some again where fewer."""
    return starts[np.resize(np.random.default_rng(seed).permutation(len(starts)), count)]


def labels_of_net(
    values: np.ndarray, examples: Examples, section: np.ndarray, classes: Sequence[str], **options: Any
) -> np.ndarray:
    """Codes of a section (n_traces, n_samples) by a net trained on some examples; amplitudes are 8-bit.

    Options are those of `outcrop.train.train_on_arrays`, and how many ``patches`` the net sees in an epoch.
    """
    from outcrop.train import train_on_arrays

    starts = equal_number(examples.starts, options.pop("patches", PATCHES), options.get("seed", 0))
    images = windows(values, starts) / np.float32(255)
    masks = windows(examples.codes, starts)
    weights = None if examples.weights is None else windows(examples.weights, starts) / np.float32(255)
    net = train_on_arrays(images, masks, classes, weights=weights, **{"epochs": EPOCHS, **options})
    scores = net.scores(section.T[None] / np.float32(255))[0]
    return np.asarray(1 + scores.argmax(axis=-1), np.uint8).T


def read_nets(path: Path, made: dict[str, Any]) -> dict[tuple[str, int, int], np.ndarray]:
    """Return the codes that ``benchmarks/training.py`` saved, by labels, scored line and seed.

    The result is empty if the file is missing or was made with other settings.
    """
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        if not made.items() <= about["made"].items():
            return {}
        return {tuple(key): file[str(i)] for i, key in enumerate(about["nets"])}
