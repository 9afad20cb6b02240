"""Nets of the experiment `training`; needs NumPy, torch and monai alone, so that a bare GPU machine can train them."""

import json
from typing import NamedTuple

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


def windows(values, starts, size=SIZE):
    """Square windows of sections, rows downwards in time."""
    return np.stack([values[line, trace : trace + size, top : top + size].T for line, trace, top in starts])


def equal_number(starts, count, seed):
    """So many of the patches: a draw without replacement where there are more, all and some again where fewer."""
    return starts[np.resize(np.random.default_rng(seed).permutation(len(starts)), count)]


def labels_of_net(values, examples, section, classes, *, patches=PATCHES, epochs=EPOCHS, seed=0, device=None):
    """Codes of a section (n_traces, n_samples) by a net trained on some examples; amplitudes are 8-bit."""
    from outcrop.train import train_on_arrays

    starts = equal_number(examples.starts, patches, seed)
    images = windows(values, starts) / np.float32(255)
    masks = windows(examples.codes, starts)
    weights = None if examples.weights is None else windows(examples.weights, starts) / np.float32(255)
    net = train_on_arrays(images, masks, classes, weights=weights, epochs=epochs, seed=seed, device=device)
    scores = net.scores(section.T[None] / np.float32(255))[0]
    return (1 + scores.argmax(axis=-1)).astype(np.uint8).T


def write_examples(path, sources, lines, tasks, classes):
    """Keep what all nets need in one file; `tasks` maps (labels, scored line, seed) to examples."""
    arrays = {f"values/{name}": values for name, values in sources.items()}
    about: dict = {"lines": [int(line) for line in lines], "classes": list(classes), "tasks": []}
    for number, ((labels, line, seed), examples) in enumerate(tasks.items()):
        about["tasks"].append([labels, line, seed, examples.source])
        arrays[f"{number}/codes"], arrays[f"{number}/starts"] = examples.codes, examples.starts.astype(np.int16)
        if examples.weights is not None:
            arrays[f"{number}/weights"] = examples.weights
    np.savez_compressed(path, about=json.dumps(about), **arrays)


def read_examples(path):
    """What `write_examples` kept: sources, lines, tasks and classes."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays["about"]))
    tasks = {}
    for number, (labels, line, seed, source) in enumerate(about["tasks"]):
        codes, starts = arrays[f"{number}/codes"], arrays[f"{number}/starts"]
        tasks[labels, line, seed] = Examples(source, codes, arrays.get(f"{number}/weights"), starts)
    sources = {name: arrays[f"values/{name}"] for name in ("patches", "sections")}
    return sources, about["lines"], tasks, about["classes"]


def write_nets(path, found, made):
    """Keep the codes of nets, (labels, scored line, seed) -> section, with what they were made by."""
    about = {"made": made, "nets": [list(key) for key in found]}
    np.savez_compressed(path, about=json.dumps(about), **{str(i): codes for i, codes in enumerate(found.values())})


def read_nets(path, made):
    """Codes that `write_nets` kept; none where there is no file, or it was made otherwise than asked for."""
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        if not made.items() <= about["made"].items():
            return {}
        return {tuple(key): file[str(i)] for i, key in enumerate(about["nets"])}
