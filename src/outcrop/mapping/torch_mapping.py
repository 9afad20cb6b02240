"""Scores of a fitted mapper for sections on a torch device: what `mapping.texture` does, several sections at once.

Every filter, step and stretch along an axis is linear, so it is one matrix, made by giving the function that NumPy uses
the identity; sections are multiplied by these from both sides.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from scipy.ndimage import gaussian_filter1d, uniform_filter1d

from outcrop.features import encoder, energies
from outcrop.features.torch_encoder import torch_net
from outcrop.mapping import encoder_mapping, familiarity, pixels

NODES = 1 << 18  # nodes whose random features are held at once


class TorchScores:
    """Scores of a mapper for sections on a torch device; they differ from the mapper's by rounding alone.

    Parameters
    ----------
    mapper : TextureMapper or EncoderMapper
        Fitted.
    device : str
        For instance ``cuda``.
    half : bool
        Let the encoder's net compute in bfloat16; labels then differ where two classes are nearly equal.

    Examples
    --------
    >>> from outcrop.mapping import texture
    >>> patches = np.random.default_rng(0).random((12, 32, 32), dtype=np.float32)
    >>> classes = ["fault"] * 6 + ["other"] * 6
    >>> mapper = texture.TextureMapper(members=1, n_features=50, rounds=3).fit(patches, classes)
    >>> found = TorchScores(mapper, "cpu")(patches[:2])
    >>> bool(np.allclose(found, mapper.scores(patches[:2]), atol=1e-4))
    True
    """

    def __init__(self, mapper, device, *, half=False):
        import torch

        self.torch: Any = torch
        self.mapper, self.device, self.half = mapper, device, half
        self.encodes = isinstance(mapper, encoder_mapping.EncoderMapper)
        self.background = self._array(mapper._is_background())
        self.models = [
            ({name: self._array(value) for name, value in vars(features).items()}, self._array(weights), familiar)
            for features, weights, familiar in mapper.models_
        ]
        self.mixtures = [[_Mixture(one, self._array, torch) for one in familiar] for *_, familiar in self.models]
        n = energies.n_energies()
        self.behind = torch.arange(self.models[0][0]["mean"].shape[0], device=device)  # as `energies.mirrored` has them
        self.behind[:n] = (
            self.behind[:n]
            .reshape(-1, energies.N_DIRECTIONS)[:, -torch.arange(energies.N_DIRECTIONS) % energies.N_DIRECTIONS]
            .reshape(-1)
        )

    def __call__(self, sections):
        """Scores, as a tensor of shape (n, height, width, n_classes), of sections of one shape, values in [0, 1]."""
        with self.torch.inference_mode():
            x = self._array(sections)
            nodes = self._energies(x)
            if self.encodes:
                nodes = self.torch.cat([nodes, self._answers(x)], dim=-1)
            flat = nodes.reshape(-1, nodes.shape[-1])
            found = [self._node_values(flat[part : part + NODES]) for part in range(0, len(flat), NODES)]
            values = self.torch.cat(found).reshape(*nodes.shape[:3], -1)
            values = self._along_reflectors(values, self._dips(x))
            votes, familiar = values[..., :-2], values[..., -2:]
            shares = pixels.class_shares(votes, familiar, self.background, self.mapper.power_)
            return self._applied(shares, *(_matrix(_stretched, size) for size in sections.shape[1:]), first=1)

    def packed(self, sections, voted):
        """Votes as bytes, shape (n, n_classes, n_traces, n_samples), 0 where nobody votes.

        Parameters
        ----------
        sections : array, shape (n, n_samples, n_traces)
        voted : bool array, shape (n, n_traces, n_samples)
        """
        scores = self(sections).permute(0, 3, 2, 1)
        votes = (255 * scores / scores.sum(1, keepdim=True)).round().to(self.torch.uint8)
        return (votes * self.torch.as_tensor(voted, device=self.device)[:, None]).cpu().numpy()

    def _array(self, values):
        values = np.array(values, np.float32) if not isinstance(values, self.torch.Tensor) else values
        return self.torch.as_tensor(values, dtype=self.torch.float32, device=self.device)

    def _applied(self, x, rows, columns, *, first=-2):
        """Two neighbouring axes of an array, each multiplied by a matrix."""
        rows, columns = self._array(rows), self._array(columns)
        if first == -2:
            return rows @ x @ columns.T
        return self.torch.einsum("ij,njlc,kl->nikc", rows, x, columns)

    def _energies(self, x):
        """See `energies.describe`."""
        fft, margin = self.torch.fft, energies.MARGIN
        shape = tuple(scipy.fft.next_fast_len(size + 2 * margin) for size in x.shape[1:])
        padded = x - 0.5
        for axis, (size, full) in enumerate(zip(x.shape[1:], shape, strict=True), 1):
            place = np.pad(np.arange(size), (margin, full - size - margin), mode="symmetric")
            padded = padded.index_select(axis, self.torch.as_tensor(place, device=self.device))
        spectrum = fft.fft2(padded)
        out: list[list] = [[] for _ in energies.SMOOTHING]
        inside = slice(margin, margin + x.shape[1]), slice(margin, margin + x.shape[2])
        for window in self._windows(shape):
            envelope = fft.ifft2(spectrum * window).abs()[:, *inside]
            for smoothed, sigma in zip(out, energies.SMOOTHING, strict=True):
                both = (_matrix(_smoothed_nodes, size, sigma / 2, 3.0) for size in x.shape[1:])
                smoothed.append(self.torch.log(self._applied(envelope, *both) + 1e-3))
        return self.torch.stack([energy for smoothed in out for energy in smoothed], dim=-1)

    @lru_cache(maxsize=32)  # noqa: B019 one object a device and run
    def _windows(self, shape):
        return [self._array(window) for window in energies._log_gabor(shape)]

    def _answers(self, x):
        """See `encoder_mapping.encoded`."""
        torch, multiple = self.torch, encoder.MULTIPLE
        centred = x - 0.5
        square, weight = centred**2, torch.ones_like(centred[:1])
        around = [_matrix(_window_means, size) for size in x.shape[1:]]
        for _ in range(2):
            square, weight = self._applied(square, *around), self._applied(weight, *around)
            square, weight = square / weight, torch.ones_like(weight)
        centred = centred / (square.clamp(min=0).sqrt() + 1e-6)
        sides = [self._padded(centred, encoder.STRIDE)]
        width = sides[0].shape[2]
        sides = [self._padded(side, multiple) for side in (sides[0], sides[0].flip(2))]
        seen, behind = (self._net(side) for side in sides)
        logits = (seen[..., : width // 2] + behind[..., : width // 2].flip(3)) / 2
        n = len(encoder.CLASSES)
        logits = torch.cat([logits[:, :n], logits[:, n + 1 :]], 1)  # without the sine of the dip
        answers = torch.nn.functional.avg_pool2d(logits, 2)
        shape = [-(-size // encoder.STRIDE) for size in x.shape[1:]]
        answers = answers[:, :, : shape[0], : shape[1]]
        limit = encoder_mapping.LARGEST
        answers = torch.cat([answers[:, :n].clamp(-limit, limit), answers[:, n:]], 1)
        smooth = self._applied(answers, *(_matrix(_smoothed_answers, size) for size in shape))
        return torch.cat([answers, smooth], 1).permute(0, 2, 3, 1)

    def _net(self, x):
        """Answers at every second pixel, by tiles where sections are large."""
        x = x[:, None]
        net = torch_net(str(encoder.WEIGHTS), self.device)
        x = x.bfloat16() if self.half else x
        out: list = []
        for top in range(0, x.shape[2], encoder.TILE):
            row = []
            for left in range(0, x.shape[3], encoder.TILE):
                corner = [max(0, at - encoder.REACH) for at in (top, left)]
                ends = [at + encoder.TILE + encoder.REACH for at in (top, left)]
                answers = net(x[:, :, corner[0] : ends[0], corner[1] : ends[1]])[0]
                inside = [slice((at - begin) // 2, (at - begin + encoder.TILE) // 2)
                          for at, begin in zip((top, left), corner, strict=True)]  # fmt: skip
                row.append(answers[:, :, inside[0], inside[1]])
            out.append(self.torch.cat(row, 3))
        return self.torch.cat(out, 2).float()

    def _padded(self, x, multiple):
        """See `encoder._padded`."""
        for axis in (1, 2):
            place = np.pad(np.arange(x.shape[axis]), (0, -x.shape[axis] % multiple), mode="symmetric")
            x = x.index_select(axis, self.torch.as_tensor(place, device=self.device))
        return x

    def _node_values(self, nodes):
        """Votes, which sum to 1, and familiarity; see `texture.node_votes` and `texture.node_familiarity`."""
        torch = self.torch
        sides = nodes, nodes[:, self.behind]
        votes: Any = 0
        for features, weights, _ in self.models:
            for side in sides:
                standard = ((side - features["mean"]) / features["spread"]).clamp(-4, 4)
                drawn = torch.addmm(features["offsets"], standard, features["weights"]).relu_()
                votes = votes + drawn @ weights[:-1] + weights[-1]
        votes = (votes / (2 * len(self.models))).clamp(min=1e-3)
        kinds = [torch.stack([one(sides) for one in each]).mean(0)
                 for each in zip(*self.mixtures, strict=True)]  # fmt: skip
        familiar = torch.stack([kinds[0], torch.stack(kinds).amin(0)], dim=-1)
        return torch.cat([votes / votes.sum(-1, keepdim=True), familiar], dim=-1)

    def _dips(self, x):
        """See `pixels.dips`."""
        torch = self.torch
        plain, slope = ([_matrix(_gaussian, size, order) for size in x.shape[1:]] for order in (0, 1))
        down, across = self._applied(x, slope[0], plain[1]), self._applied(x, plain[0], slope[1])
        nodes = [_matrix(_smoothed_nodes, size, 3.0, 4.0) for size in x.shape[1:]]
        zz, xx, zx = (self._applied(product, *nodes) for product in (down * down, across * across, down * across))
        steepest = float(np.arctan(pixels.STEEPEST))
        return -torch.tan((torch.atan2(2 * zx, zz - xx) / 2).clamp(-steepest, steepest))

    def _along_reflectors(self, values, dips):
        """See `pixels.along_reflectors`; both ways are swept at once."""
        torch, n = self.torch, len(values)
        keep = float(np.exp(-energies.STRIDE / pixels.REACH))
        values = torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)
        swept = torch.cat([values, values.flip(2)]).permute(2, 0, 1, 3).contiguous()  # columns first
        dip = torch.cat([dips, -dips.flip(2)]).permute(2, 0, 1)
        last = values.shape[1] - 1
        place = (torch.arange(last + 1, device=self.device) - dip).clamp(0, last)[..., None]
        below = place.long().clamp(max=max(last - 1, 0))
        share = place - below
        below = below.expand(swept.shape)
        above = (below + 1).clamp(max=last)
        for column in range(1, len(swept)):
            upper, lower = (swept[column - 1].gather(1, rows[column]) for rows in (below, above))
            swept[column] += keep * torch.lerp(upper, lower, share[column])
        swept = swept.permute(1, 2, 0, 3)
        total = (pixels.NODE_WEIGHT - 2) * values + swept[:n] + swept[n:].flip(2)
        return total[..., :-1] / total[..., -1:]


class _Mixture:
    """A `Familiarity` on a device."""

    def __init__(self, familiar, array, torch):
        self.torch: Any = torch
        self.familiar = familiar
        self.axes, self.centre, self.scale = (array(vars(familiar)[name]) for name in ("axes", "centre", "scale"))
        self.factors, self.shifts, self.heights = map(array, familiar.side_by_side())
        self.n_sides = len(familiar.sides(np.zeros((1, energies.n_energies()), np.float32)))
        self.limits, self.ranks = array(familiar.limits), array(familiarity.RANKS)

    def __call__(self, sides):
        """Between 0 and 1 for every node, given as it is and from behind."""
        sides = sides[: self.n_sides]
        return sum(self._rank(self._log_likelihood(side)) for side in sides) / len(sides)

    def _log_likelihood(self, nodes):
        x = (self.familiar.seen(nodes) @ self.axes.T - self.centre) / self.scale
        off = (x @ self.factors - self.shifts).reshape(len(x), len(self.heights), -1)
        return (self.heights - off.square().sum(-1) / 2).logsumexp(-1)

    def _rank(self, found):
        """Linear in between the limits, as `numpy.interp`."""
        above = self.torch.searchsorted(self.limits, found.contiguous()).clamp(1, len(self.limits) - 1)
        low, high = self.limits[above - 1], self.limits[above]
        share = ((found - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
        return self.ranks[above - 1].lerp(self.ranks[above], share)


@lru_cache(maxsize=64)
def _matrix(function, size, *options):
    """Matrix of a linear function of an axis of a size, float32."""
    return function(np.eye(size), *options).astype(np.float32)


def _smoothed_nodes(x, sigma, truncate):
    """Halved, smoothed, and at every second place, as in `energies.describe`."""
    half = _halved(x)
    smooth = gaussian_filter1d(half, sigma, axis=0, mode="reflect", truncate=truncate)
    return np.pad(smooth, [(0, len(smooth) % 2), (0, 0)], mode="edge")[1::2]


def _halved(x):
    x = np.pad(x, [(0, len(x) % 2), (0, 0)], mode="edge")
    return (x[::2] + x[1::2]) / 2


def _gaussian(x, order):
    return gaussian_filter1d(x, 1.5, axis=0, order=order)


def _window_means(x):
    return uniform_filter1d(x, encoder.WINDOW, axis=0, mode="constant")


def _smoothed_answers(x):
    return gaussian_filter1d(x, encoder_mapping.SMOOTH, axis=0, mode="nearest", truncate=3)


def _stretched(x):
    """See `pixels.upsample`; the matrix of an axis with as many pixels as `x` has rows."""
    nodes = np.eye(-(-len(x) // energies.STRIDE))
    return pixels.upsample(nodes[None, :, None, :], (len(x), 1))[0, :, 0]
