"""Random numbers and random fields for a batch of sections, all from one seed."""

import math

import torch

SIZE = 224  # pixels of a section on each side, before it is cropped


class Draws:
    """Draws for `n` sections at once; each has the shape (n, 1, 1) unless a field is asked for.

    Parameters
    ----------
    n : int
        Sections.
    seed : int
    device : str
    """

    def __init__(self, n, seed, device):
        self.n, self.device = n, device
        self.generator = torch.Generator(device).manual_seed(seed)
        down, across = torch.fft.fftfreq(SIZE, device=device), torch.fft.rfftfreq(SIZE, device=device)
        self.k2 = (down**2)[None, :, None], (across**2)[None, None]

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
        spectrum = torch.fft.rfft2(self.normal(SIZE, SIZE))
        spectrum[:, 0, 0] = 0  # a long correlation would leave nothing but the mean
        spectrum *= torch.exp(-2 * math.pi**2 * (self.k2[0] * down**2 + self.k2[1] * across**2))
        values = torch.fft.irfft2(spectrum, s=(SIZE, SIZE))
        return (values / (values.std((1, 2), keepdim=True) + 1e-6)).clamp(-4, 4)

    def curve(self, across):
        """Smooth random curves over the traces, shape (n, 1, SIZE)."""
        spectrum = torch.fft.rfft(self.normal(1, 2 * SIZE))
        spectrum[..., 0] = 0
        spectrum *= torch.exp(-2 * math.pi**2 * torch.fft.rfftfreq(2 * SIZE, device=self.device) ** 2 * across**2)
        values = torch.fft.irfft(spectrum, n=2 * SIZE)
        return (values / (values.std(2, keepdim=True) + 1e-6)).clamp(-4, 4)[..., :SIZE]
