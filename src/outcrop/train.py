"""Train a U-Net on a training set: labels are weighted by confidence, uncertain pixels are ignored."""

import hashlib
import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outcrop.mapping.confidence import UNCERTAIN
from outcrop.parallel import Progress

if TYPE_CHECKING:
    import torch

CHANNELS = (16, 32, 64, 128)
SEEN = 12_000  # default number of patches in all epochs; two minutes on two cores for patches of 64 x 64
BATCH, RATE = 16, 3e-3  # patches per step; initial learning rate, which falls to zero along a cosine
HALVED = 2 ** (len(CHANNELS) - 1)  # height and width of the net's input must be multiples of this number


class Net:
    """A trained U-Net that scores patches or whole sections, for `label_volume`.

    Parameters
    ----------
    module : torch.nn.Module
        Net with one input channel and one output channel per class.
    classes : sequence of str
        Names of the classes.
    """

    def __init__(self, module: "torch.nn.Module", classes: Sequence[str]):
        self.module, self.classes_ = module, list(classes)

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return (metadata of the net, dict of its weights: name -> array); its digest is computed from both."""
        arrays = {name: value.cpu().numpy() for name, value in self.module.state_dict().items()}
        return {"kind": type(self).__name__, "classes": self.classes_}, arrays

    def scores(self, patches: npt.ArrayLike) -> np.ndarray:
        """Return the probability of every class, shape (n, height, width, n_classes), for patches in [0, 1]."""
        import torch

        device = next(self.module.parameters()).device
        self.module.eval()
        with torch.no_grad():
            images = torch.as_tensor(np.asarray(patches, np.float32))[:, None].to(device)
            return np.asarray(_forward(self.module, images).softmax(1).movedim(1, -1).cpu())

    def votes(self, section: npt.ArrayLike, line: float | None = None) -> np.ndarray:
        """Return the class probabilities of all samples of a section, shape (n_traces, n_samples, n_classes).

        `section` has the shape (n_samples, n_traces) and amplitudes in [0, 1]. The line number `line` is not used.
        """
        probabilities: np.ndarray = self.scores(np.asarray(section)[None])[0]
        return probabilities.swapaxes(0, 1)


def train(
    folder: str | Path,
    path: str | Path,
    *,
    epochs: int | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Net:
    """Train a small U-Net on a training set; an interrupted run is resumed from its file of weights.

    Parameters
    ----------
    folder : path
        Folder of `export_training_set`; its split ``train`` is used.
    path : path
        File of weights, an ``.npz`` that is written atomically after every epoch.
    epochs : int, optional
        Number of passes over all patches; by default enough for 12,000 patches in total.
    seed : int
        Random seed of the initial weights, and of the order and the random changes of patches.
    device : str, optional
        A torch device; by default ``cuda`` if available.
    progress : callable, optional
        Called as ``progress(what, done, total)`` after every epoch; the loss is in `what`.

    Returns
    -------
    Net
    """
    from outcrop.export.training_set import TrainingSet  # imported here: `train_on_arrays` needs no pandas

    _torch()
    data = TrainingSet(folder, "train")
    epochs = math.ceil(SEEN / len(data)) if epochs is None else epochs
    if epochs < 1:
        raise ValueError(f"epochs is {epochs}; choose 1 or more.")
    module, optimizer = _begin(len(data.classes), seed, device)
    about = {"classes": data.classes, "epochs": epochs, "batch": BATCH, "rate": RATE, "seed": seed}
    about["patches"] = hashlib.sha256((Path(folder) / "manifest.csv").read_bytes()).hexdigest()
    for epoch in range(_resume(path, about, module, optimizer), epochs):
        loss = _epoch(module, optimizer, data, seed, epoch, epochs)
        _save(path, about, module, optimizer, epoch + 1)
        if progress:
            progress(f"training, loss {loss:.3f}", epoch + 1, epochs)
    return Net(module, data.classes)


def train_on_arrays(
    images: npt.ArrayLike,
    masks: npt.ArrayLike,
    classes: Sequence[str],
    *,
    weights: npt.ArrayLike | None = None,
    epochs: int = 1,
    seed: int = 0,
    device: str | None = None,
) -> Net:
    """Train the same U-Net as `train` on patches in memory, without writing a file.

    Parameters
    ----------
    images : array, shape (n, height, width)
        Values in [0, 1].
    masks : int array, shape (n, height, width)
        Label of every pixel: ``i + 1`` for ``classes[i]``; pixels with 0 are ignored.
    classes : sequence of str
        Names of the classes.
    weights : array, shape (n, height, width), optional
        Weight of every pixel, between 0 and 1; 1 by default.
    epochs, seed, device
        As in `train`.

    Returns
    -------
    Net
    """
    torch = _torch()
    if epochs < 1:
        raise ValueError(f"epochs is {epochs}; choose 1 or more.")
    module, optimizer = _begin(len(classes), seed, device)
    labels = torch.as_tensor(np.asarray(masks, np.int64))
    counts = torch.ones(labels.shape) if weights is None else torch.as_tensor(np.asarray(weights, np.float32))
    parts = torch.as_tensor(np.asarray(images, np.float32))[:, None], labels, torch.where(labels > 0, counts, 0)
    target = next(module.parameters()).device
    data = torch.utils.data.TensorDataset(*(part.to(target) for part in parts))
    for epoch in range(epochs):
        _epoch(module, optimizer, data, seed, epoch, epochs)
    return Net(module, classes)


def open_net(path: str | Path, *, device: str = "cpu") -> Net:
    """Open a trained net from the file of weights that `train` wrote."""
    _torch()
    about = _about(path)
    if about is None:
        raise ValueError(f"{path} is not a file with a net; train one with 'outcrop train'.")
    module = _to(_unet(len(about["classes"])), device)
    _resume(path, about, module)
    return Net(module, about["classes"])


def _torch() -> Any:
    """Return the module torch; raise ImportError with the install command if torch or monai is missing."""
    try:
        import monai  # noqa: F401
        import torch
    except ImportError as error:
        raise ImportError(f"Training a U-Net needs {error.name}; install it: pip install 'outcrop[train]'.") from None
    return torch


def _begin(n_classes: int, seed: int, device: str | None) -> "tuple[torch.nn.Module, torch.optim.Optimizer]":
    """Return a U-Net whose random initial weights depend on `seed`, and its optimiser."""
    import torch

    torch.manual_seed(seed)
    module = _to(_unet(n_classes), device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return module, torch.optim.AdamW(module.parameters(), lr=RATE)


def _unet(n_classes: int) -> "torch.nn.Module":
    """Return an untrained U-Net with four scales.

    It has batch normalisation, so that a trained net treats patches and whole sections equally.
    """
    from monai.networks.nets.unet import UNet

    strides = (2,) * (len(CHANNELS) - 1)
    return UNet(2, 1, n_classes, channels=CHANNELS, strides=strides, num_res_units=1, norm="batch")


def _to(module: "torch.nn.Module", device: str) -> "torch.nn.Module":
    """Move a net to a torch device and return it; raise ValueError if the device cannot be used."""
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"Device {device!r} cannot be used ({str(error).splitlines()[0]}); choose cpu.") from None


def _forward(module: "torch.nn.Module", images: "torch.Tensor") -> "torch.Tensor":
    """Return the scores of images before softmax, shape (n, n_classes, height, width).

    Images are padded for the net, which halves height and width repeatedly; scores of the padding are removed.
    """
    from torch.nn.functional import pad

    height, width = images.shape[-2:]
    padded = pad(images, (0, -width % HALVED, 0, -height % HALVED), mode="replicate")
    scores: torch.Tensor = module(padded)[..., :height, :width]
    return scores


def _epoch(
    module: "torch.nn.Module", optimizer: "torch.optim.Optimizer", data: Any, seed: int, epoch: int, epochs: int
) -> float:
    """Train on every patch once, with random mirroring, polarity and gain; return the weighted mean loss."""
    import torch
    from torch.nn.functional import cross_entropy

    for group in optimizer.param_groups:
        group["lr"] = RATE * (1 + math.cos(math.pi * epoch / epochs)) / 2
    rng, device = np.random.default_rng(np.random.SeedSequence((seed, epoch))), next(module.parameters()).device
    order, total, weight = rng.permutation(len(data)), 0.0, 0.0
    module.train()
    for rows in np.array_split(order, math.ceil(len(order) / BATCH)):
        items = [data[int(row)] for row in rows]
        images, masks, weights = (torch.stack(part).to(device) for part in zip(*items, strict=True))
        if rng.random() < 0.5:
            images, masks, weights = images.flip(-1), masks.flip(-1), weights.flip(-1)
        gain = rng.choice([-1, 1], (len(rows), 1, 1, 1)) * 2 ** rng.uniform(-0.5, 0.5, (len(rows), 1, 1, 1))
        images = (0.5 + (images - 0.5) * torch.as_tensor(gain, dtype=torch.float32, device=device)).clamp(0, 1)
        known = (masks > 0) & (masks != UNCERTAIN)
        masks = torch.where(known, masks - 1, -1)  # -1 is ignored
        loss = cross_entropy(_forward(module, images), masks, ignore_index=-1, reduction="none")
        total, weight = total + float((loss.detach() * weights).sum()), weight + float(weights.sum())
        optimizer.zero_grad()
        mean: Any = (loss * weights).sum() / weights.sum().clamp(min=1e-6)
        mean.backward()
        optimizer.step()
    return total / max(weight, 1e-6)


def _save(
    path: str | Path, about: Any, module: "torch.nn.Module", optimizer: "torch.optim.Optimizer", epochs: int
) -> None:
    """Write an .npz file: weights, state of the optimiser, training options `about`, and number of finished epochs."""
    from outcrop.storage.workspace import whole_file

    arrays = {f"net/{name}": value.cpu().numpy() for name, value in module.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer/{number}/{name}": value.cpu().numpy() for name, value in state.items()}
    with whole_file(path) as aside, open(aside, "wb") as file:
        np.savez(file, about=json.dumps(about), done=epochs, **arrays)


def _about(path: str | Path) -> Any:
    """Return the training options of the net in a file; None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return json.loads(str(file["about"]))
    except (FileNotFoundError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def _resume(
    path: str | Path, about: Any, module: "torch.nn.Module", optimizer: "torch.optim.Optimizer | None" = None
) -> int:
    """Load weights, and the state of the optimiser, from a file; return the number of finished epochs.

    If the file is missing or has other training options than `about`, nothing is loaded and 0 is returned.
    """
    import torch

    if _about(path) != json.loads(json.dumps(about)):
        return 0
    with np.load(path, allow_pickle=False) as file:
        arrays = {tuple(name.split("/")): torch.as_tensor(file[name]) for name in file.files if "/" in name}
        done = int(file["done"])
    module.load_state_dict({name[1]: value for name, value in arrays.items() if name[0] == "net"})
    if optimizer:
        state: dict[int, Any] = {}
        for _, number, name in (name for name in arrays if name[0] == "optimizer"):
            state.setdefault(int(number), {})[name] = arrays["optimizer", number, name]
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return done
