"""Nets of the experiment `training`; the module needs only NumPy, torch and monai, for GPU machines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZE = 99
PATCHES, EPOCHS = 2000, 6  # every net sees 12,000 patches, as in `outcrop train`


class Examples(NamedTuple):
    """Training patches of a net, as windows of sections.

    ``codes`` and ``weights`` have the shape of the sections, (n_lines, n_traces, n_samples). The amplitudes of the
    sections are kept elsewhere under the name ``source``; they are 8-bit, as `export_training_set` writes them.
    """

    source: str  # name of the amplitudes: "patches" or "sections"
    codes: np.ndarray  # class of every pixel, 0 if it has no label
    weights: np.ndarray | None  # confidence, 255 = certain; None if all labels count alike
    starts: np.ndarray  # line, first trace and first sample of every patch, shape (n_patches, 3)


def windows(values: np.ndarray, starts: np.ndarray, size: int = SIZE) -> np.ndarray:
    """Cut square windows from sections; return an array of shape (n_patches, size, size) with time down the rows."""
    return np.stack([values[line, trace : trace + size, top : top + size].T for line, trace, top in starts])


def equal_number(starts: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return `count` rows of `starts` in random order; rows are repeated if `starts` has fewer rows."""
    return starts[np.resize(np.random.default_rng(seed).permutation(len(starts)), count)]


def labels_of_net(
    values: np.ndarray, examples: Examples, section: np.ndarray, classes: Sequence[str], **options: Any
) -> np.ndarray:
    """Train a net on the examples and return the codes that it predicts on a section.

    `values` are the amplitudes from which the examples are cut, and `section` those of the section, both 8-bit. The
    section and the codes have shape (n_traces, n_samples). Options are those of `outcrop.train.train_on_arrays`, and
    ``patches``, the number of patches in an epoch.
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
    """Return a dict: (kind of labels, scored line, seed) -> codes that a net predicted on the scored line.

    ``benchmarks/training.py`` saved the codes. The dict is empty if the file is missing or was not made with the
    settings in `made`.
    """
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        if not made.items() <= about["made"].items():
            return {}
        return {tuple(key): file[str(i)] for i, key in enumerate(about["nets"])}
