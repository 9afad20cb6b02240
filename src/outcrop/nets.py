"""Label mapping by small convolutional nets, trained on image labels under the weak constraint (extra `torch`).

The texture mapper says how much each pixel of a patch looks like its class and how much like the background. Nets learn
just that from the pixels themselves, seen mirrored, reversed, louder and quieter; a pixel of a patch labelled c is only
ever taught to be c or the background. Patches of the survey that nobody labelled are taught as the texture mapper sees
them. What is asked in the end is the mean of the nets and of the textures.
"""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outcrop.arrays import to_numpy
from outcrop.mapping import check_patches
from outcrop.saved import part, prefixed
from outcrop.texture import STRIDE, SectionMapper, TextureMapper, at_pixels

BATCH = 32  # patches of a training step


class NetMapper(SectionMapper):
    """Map the classes of whole patches to their pixels by convolutional nets that learn from the texture mapper.

    Works on sections of any size. Trains on a GPU where torch finds one.

    Parameters
    ----------
    members : int
        Nets trained from different starts and averaged.
    steps : int
        Training steps of each net, of 32 patches.
    width : int
        Channels of the first layer; the deeper ones have two and four times as many.
    min_confidence : float, optional
        Pixels whose `confidence` is lower become `uncertain`.
    background : str
        The class that may appear in any patch, as for `TextureMapper`.
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
    background_ : str or None
        The class that was taken as background.
    """

    def __init__(
        self, *, members=2, steps=300, width=24, min_confidence=None, background="other", random_state=0, device=None
    ):
        self.members = members
        self.steps = steps
        self.width = width
        self.min_confidence = min_confidence
        self.background = background
        self.random_state = random_state
        self.device = device

    def fit(self, patches, classes, masks=None, weights=None, unlabelled=None, *, progress=None):
        """Learn every class from patches with one class each; see `TextureMapper.fit`.

        Parameters
        ----------
        patches, classes, masks, weights
            As `TextureMapper.fit` takes them.
        unlabelled : array, shape (n, height, width), optional
            Patches from anywhere in the survey, so that the nets see more of it than what was retrieved.
        progress : callable, optional
            Called as ``progress(done, total)`` between steps; what it raises ends the fit.
        """
        torch = _torch()
        patches = to_numpy(check_patches(patches)[0])
        self.textures_ = TextureMapper(background=self.background, random_state=self.random_state).fit(
            patches, classes, masks, weights, progress=progress
        )
        self.classes_, self.shares_ = self.textures_.classes_, self.textures_.shares_
        self.background_ = self.textures_.background_
        codes = np.array([list(self.classes_).index(name) for name in classes])
        targets = self._targets(patches, codes, masks)
        if unlabelled is not None:
            patches = np.concatenate([patches, unlabelled])
            targets = np.concatenate([targets, self.textures_.scores(unlabelled)])
            codes = np.append(codes, np.full(len(unlabelled), -1))  # one more kind in every batch
        target = torch.from_numpy(targets).to(self._device())
        x = torch.from_numpy(patches.astype(np.float32)).to(self._device())
        generator = torch.Generator().manual_seed(self.random_state or 0)
        nets = [self._net(generator).to(self._device()) for _ in range(self.members)]
        options = {"steps": self.steps, "generator": generator, "progress": progress}
        self.nets_: list = [train(net, x, target, codes, **options) for net in nets]
        return self

    def saved(self):
        """What the mapper consists of: a dict for JSON, and arrays; the device, which is the machine's, is left out."""
        check_is_fitted(self)
        about, textures = self.textures_.saved()
        arrays = prefixed("textures", textures)
        for number, net in enumerate(self.nets_):
            states = {name: value.cpu().numpy() for name, value in net.state_dict().items()}
            arrays |= prefixed(f"nets/{number}", states)
        parameters = {name: value for name, value in self.get_params().items() if name != "device"}
        return about | {"kind": type(self).__name__, "parameters": parameters, "textures": about}, arrays

    @classmethod
    def restored(cls, about, arrays):
        """The mapper that `saved` took apart."""
        torch = _torch()
        mapper = cls(**about["parameters"])
        mapper.textures_ = TextureMapper.restored(about["textures"], part("textures", arrays))
        mapper.classes_, mapper.shares_ = mapper.textures_.classes_, mapper.textures_.shares_
        mapper.background_ = mapper.textures_.background_
        mapper.nets_ = []
        for number in range(mapper.members):
            net = build_net(mapper.width, len(mapper.classes_))
            states = part(f"nets/{number}", arrays)
            net.load_state_dict({name: torch.from_numpy(np.asarray(value)) for name, value in states.items()})
            mapper.nets_.append(net.to(mapper._device()).eval())
        return mapper

    def _device(self):
        return self.device or ("cuda" if _torch().cuda.is_available() else "cpu")

    def _net(self, generator):
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
            return build_net(self.width, len(self.classes_))

    def _targets(self, patches, codes, masks):
        """Probability of every class at every pixel of the patches: their own and the background alone can have any."""
        allowed = np.eye(len(self.classes_), dtype=bool)[codes]
        background = self._is_background()
        allowed |= background
        allowed[background[codes]] = background
        target = self.textures_.scores(patches) * allowed[:, None, None]
        if masks is not None:
            said = np.asarray(masks) > 0
            target[said] = np.eye(len(self.classes_), dtype=np.float32)[np.asarray(masks)[said] - 1]
        return target / target.sum(axis=-1, keepdims=True)

    def _block_scores(self, patches):
        votes, usual = self.textures_.votes(patches)
        return at_pixels([votes, self.net_votes(patches)], usual, self._is_background(), patches)

    def net_votes(self, patches):
        """Mean of what the nets alone say, at the nodes of `describe`."""
        torch = _torch()
        with torch.no_grad():
            x = torch.from_numpy(patches.astype(np.float32)).to(self._device())
            votes = sum(torch.softmax(net(x), dim=1) for net in self.nets_) / len(self.nets_)
            return at_nodes(votes).permute(0, 2, 3, 1).cpu().numpy()


def at_nodes(votes):
    """Votes at pixels, shape (n, n_classes, height, width), as votes at the nodes of `texture.describe`.

    Node k lies at pixel 4 k + 2.5: between the two pixels that are averaged in each direction.
    """
    functional = _torch().nn.functional
    height, width = votes.shape[2:]
    votes = functional.pad(votes, (0, -width % STRIDE, 0, -height % STRIDE), mode="replicate")
    return functional.avg_pool2d(votes, 2)[:, :, 1::2, 1::2]


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


def train(net, x, target, codes, *, steps, generator, progress=None):
    """Train a net on patches and the probabilities of their pixels, with as many patches of every class."""
    import torch

    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    rows = [torch.from_numpy(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    net.train()
    for number in range(steps):
        if progress:
            progress(number, steps)
        each = [own[torch.randint(len(own), (-(-BATCH // len(rows)),), generator=generator)] for own in rows]
        chosen = torch.cat(each).to(x.device)
        batch, wanted = x[chosen], target[chosen]
        if torch.rand(1, generator=generator) < 0.5:
            batch, wanted = batch.flip(2), wanted.flip(2)
        gain = 10 ** ((torch.rand(len(batch), generator=generator) - 0.5) * 0.4)
        gain = gain * torch.where(torch.rand(len(batch), generator=generator) < 0.5, -1.0, 1.0)
        batch = ((batch - 0.5) * gain.to(x.device)[:, None, None]).clamp(-0.5, 0.5) + 0.5
        loss = torch.nn.functional.cross_entropy(net(batch), wanted.permute(0, 3, 1, 2))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.eval()
