"""Random numbers and random fields for a batch of sections, all from one seed."""

import math

import torch
from torch.nn.functional import interpolate

SIZE = 224  # pixels of a section on each side, before it is cropped
COARSE = 4  # pixels between the points at which smooth fields are drawn


class Draws:
    """Draws for `n` sections at once; each has the shape (n, 1, 1) unless a field is asked for.

    Parameters
    ----------
    n : int
        Sections.
    generator : torch.Generator
        Its device is where everything is drawn.
    """

    def __init__(self, n, generator):
        self.n, self.generator, self.device = n, generator, generator.device

    def uniform(self, low=0.0, high=1.0, shape=(1, 1)):
        """Numbers between two limits."""
        return torch.rand(self.n, *shape, generator=self.generator, device=self.device) * (high - low) + low

    def log_uniform(self, low, high):
        """Numbers whose logarithm is even between two limits."""
        return torch.exp(self.uniform(math.log(low), math.log(high)))

    def normal(self, *shape):
        """Normal numbers."""
        return torch.randn(self.n, *shape, generator=self.generator, device=self.device)

    def chance(self, share):
        """True for about a share of the sections."""
        return self.uniform() < share

    def sign(self, share=0.5):
        """1 for a share of the sections, -1 for the others."""
        return torch.where(self.chance(share), 1.0, -1.0)

    def field(self, down, across):
        """Gaussian fields of unit variance and mean 0, with correlation lengths in samples and traces."""
        return _field(self.normal(SIZE, SIZE), down, across)

    def smooth(self, down, across):
        """The same for lengths of 10 pixels and more, drawn at a quarter of the resolution."""
        coarse = _field(self.normal(SIZE // COARSE, SIZE // COARSE), down / COARSE, across / COARSE)
        return interpolate(coarse[:, None], (SIZE, SIZE), mode="bicubic")[:, 0]

    def curve(self, across):
        """Smooth random curves over the traces, shape (n, 1, SIZE)."""
        spectrum = torch.fft.rfft(self.normal(1, 2 * SIZE))
        spectrum[..., 0] = 0
        spectrum *= torch.exp(-2 * math.pi**2 * torch.fft.rfftfreq(2 * SIZE, device=self.device) ** 2 * across**2)
        values = torch.fft.irfft(spectrum, n=2 * SIZE)
        return (values / (values.std(2, keepdim=True) + 1e-6)).clamp(-4, 4)[..., :SIZE]


def _field(noise, down, across):
    """White noise smoothed by Gaussians of so many pixels."""
    size = noise.shape[-1]
    spectrum = torch.fft.rfft2(noise)
    spectrum[:, 0, 0] = 0  # a long correlation would leave nothing but the mean
    k1, k2 = torch.fft.fftfreq(size, device=noise.device), torch.fft.rfftfreq(size, device=noise.device)
    both = torch.exp(-2 * (math.pi * k1[:, None] * down) ** 2) * torch.exp(-2 * (math.pi * k2 * across) ** 2)
    values = torch.fft.irfft2(spectrum * both, s=(size, size))
    return (values / (values.std((1, 2), keepdim=True) + 1e-6)).clamp(-4, 4)
