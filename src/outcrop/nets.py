"""Label mapping by small convolutional nets, trained on image labels under the weak constraint (extra `torch`).

The texture mapper says first which pixels of a patch look like its class. Nets learn that from the pixels themselves;
after every round each patch is labelled again by the nets, with as large a share of its class as the textures said, so
that neither the class nor the background can take over. What is asked is the mean of the nets and of the textures.
"""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outcrop.arrays import to_numpy
from outcrop.mapping import check_patches
from outcrop.scores import confidence, label, majority_filter
from outcrop.texture import TextureMapper

BATCH = 32  # patches of a training step
LEAST = 0.1  # share of every patch that keeps its class


class NetMapper(BaseEstimator):
    """Map the classes of whole patches to their pixels by convolutional nets that learn from the texture mapper.

    Works on sections of any size. Trains on a GPU where torch finds one.

    Parameters
    ----------
    members : int
        Nets trained from different starts and averaged.
    rounds : int
        How often the patches are labelled anew and the nets trained further.
    steps : int
        Training steps of one round, of 32 patches each.
    width : int
        Channels of the first layer; the deeper ones have two and four times as many.
    min_confidence : float, optional
        Pixels whose `confidence` is lower become `uncertain`.
    random_state : int
        Seed.
    device : str, optional
        Torch device; by default ``cuda`` where there is one.

    Attributes
    ----------
    classes_ : array of str, shape (n_classes,)
        In the order in which `fit` first met them; label ``i + 1`` is ``classes_[i]``, 0 is `uncertain`.
    shares_ : dict
        Per class, the estimated share of its patches that is really of the class.
    """

    any_size = True

    def __init__(self, *, members=3, rounds=3, steps=300, width=24, min_confidence=None, random_state=0, device=None):
        self.members = members
        self.rounds = rounds
        self.steps = steps
        self.width = width
        self.min_confidence = min_confidence
        self.random_state = random_state
        self.device = device

    def fit(self, patches, classes, masks=None, weights=None):
        """Learn every class from patches with one class each; see `TextureMapper.fit`."""
        torch = _torch()
        patches = to_numpy(check_patches(patches)[0])
        self.textures_ = TextureMapper(random_state=self.random_state).fit(patches, classes, masks, weights)
        self.classes_, self.shares_ = self.textures_.classes_, self.textures_.shares_
        codes = np.array([list(self.classes_).index(name) for name in classes])
        device = self._device()
        x = torch.from_numpy(patches.astype(np.float32)).to(device)
        evidence, self.nets_ = self.textures_.scores(patches), []
        generator = torch.Generator().manual_seed(self.random_state or 0)
        for _ in range(self.rounds):
            target = torch.from_numpy(self._targets(evidence, codes, masks)).to(device)
            nets = self.nets_ or [self._net(generator).to(device) for _ in range(self.members)]
            self.nets_ = [train(net, x, target, codes, steps=self.steps, generator=generator) for net in nets]
            evidence = self.scores(patches)
        return self

    def _device(self):
        return self.device or ("cuda" if _torch().cuda.is_available() else "cpu")

    def _net(self, generator):
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            return build_net(self.width, len(self.classes_))

    def _targets(self, evidence, codes, masks):
        """Class of every pixel of the patches: their own where it is most evident, the background elsewhere."""
        background = list(self.classes_).index("other") if "other" in self.classes_ else None
        labels = np.repeat(codes.astype(np.uint8), evidence[0, ..., 0].size).reshape(evidence.shape[:-1])
        for c, name in enumerate(self.classes_):
            if background is not None and c != background:
                own = codes == c
                margin = np.log(evidence[own, ..., c] / evidence[own, ..., background]).reshape(own.sum(), -1)
                limit = np.minimum(
                    np.quantile(margin, 1 - self.shares_[str(name)]), np.quantile(margin, 1 - LEAST, axis=1)
                )
                labels[own] = np.where(margin >= limit[:, None], c, background).reshape(-1, *labels.shape[1:])
        return labels if masks is None else np.where(np.asarray(masks) > 0, np.asarray(masks) - 1, labels)

    def scores(self, patches):
        """Evidence for every class at every pixel, between 0 and 1, for patches or sections of any size.

        Returns
        -------
        scores : array, shape (n_patches, height, width, n_classes)
        """
        check_is_fitted(self)
        patches = to_numpy(check_patches(patches)[0])
        return (self.net_scores(patches) + self.textures_.scores(patches)) / 2

    def net_scores(self, patches):
        """Mean of what the nets alone say."""
        torch = _torch()
        out = np.empty((*patches.shape, len(self.classes_)), np.float32)
        size = max(1, BATCH * 99 * 99 // patches[0].size)
        with torch.no_grad():
            for i in range(0, len(patches), size):
                x = torch.from_numpy(patches[i : i + size].astype(np.float32)).to(self._device())
                votes = sum(torch.softmax(net(x), dim=1) for net in self.nets_) / len(self.nets_)
                out[i : i + size] = votes.permute(0, 2, 3, 1).cpu().numpy()
        return out

    def confidence(self, patches):
        """Share of the winning class in the evidence at every pixel, between 0 and 1."""
        return confidence(self.scores(patches))

    def predict(self, patches):
        """Label every pixel.

        Returns
        -------
        labels : uint8 array, shape (n_patches, height, width)
        """
        scores = self.scores(patches)
        confident = None if self.min_confidence is None else confidence(scores) >= self.min_confidence
        return label(scores, confident=confident, smooth=majority_filter)

    def fit_predict(self, patches, classes, masks=None, weights=None):
        """Label the pixels of the patches it is fitted on; painted pixels keep their label."""
        labels = self.fit(patches, classes, masks, weights).predict(patches)
        return labels if masks is None else np.where(np.asarray(masks) > 0, masks, labels).astype(np.uint8)


def _torch():
    try:
        import torch
    except ImportError:
        raise ImportError("This mapping needs torch; install it with pip install 'outcrop[torch]'.") from None
    return torch


def build_net(width, n_classes):
    """A fully convolutional net that sees about 70 pixels around each and answers at every fourth, then in between."""
    from torch import nn

    def layer(n_in, n_out, dilation=1):
        same = {"padding": dilation, "padding_mode": "replicate", "bias": False}
        return [nn.Conv2d(n_in, n_out, 3, dilation=dilation, **same), nn.BatchNorm2d(n_out), nn.ReLU()]

    class Net(nn.Sequential):
        """Takes (n, height, width) in [0, 1], gives (n, classes, height, width)."""

        def forward(self, x):
            """Logits."""
            logits = super().forward(4 * (x[:, None] - 0.5))
            return nn.functional.interpolate(logits, size=x.shape[1:], mode="bilinear", align_corners=False)

    return Net(
        *layer(1, width), *layer(width, width), nn.AvgPool2d(2, ceil_mode=True),
        *layer(width, 2 * width), *layer(2 * width, 2 * width), nn.AvgPool2d(2, ceil_mode=True),
        *layer(2 * width, 4 * width), *layer(4 * width, 4 * width, 2), *layer(4 * width, 4 * width, 4),
        nn.Conv2d(4 * width, n_classes, 1),
    )  # fmt: skip


def train(net, x, target, codes, *, steps, generator):
    """Train a net on patches and pixel labels, every class alike, seen mirrored, reversed, louder and quieter."""
    import torch

    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    rows = [torch.from_numpy(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    counts = torch.bincount(target.reshape(-1).long(), minlength=len(rows)).float()
    weight = (counts.sum() / counts.clamp(min=1)).sqrt()
    net.train()
    for _ in range(steps):
        each = [own[torch.randint(len(own), (-(-BATCH // len(rows)),), generator=generator)] for own in rows]
        chosen = torch.cat(each).to(x.device)
        batch, wanted = x[chosen], target[chosen].long()
        if torch.rand(1, generator=generator) < 0.5:
            batch, wanted = batch.flip(-1), wanted.flip(-1)
        gain = 10 ** ((torch.rand(len(batch), generator=generator) - 0.5) * 0.4)
        gain = gain * torch.where(torch.rand(len(batch), generator=generator) < 0.5, -1.0, 1.0)
        batch = ((batch - 0.5) * gain.to(x.device)[:, None, None]).clamp(-0.5, 0.5) + 0.5
        loss = torch.nn.functional.cross_entropy(net(batch), wanted, weight=weight / weight.mean())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.eval()
