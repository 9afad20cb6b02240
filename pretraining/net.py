"""The encoder's net: a U-Net on sections whose amplitudes are balanced, that cannot tell their polarity."""

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, interpolate

from pretraining.sections import CLASSES

WIDTHS = (32, 64, 128, 192)  # channels at a half, a quarter, an eighth and a sixteenth of the resolution
STEM = 16  # pairs of first filters
WINDOW = 65  # samples and traces over which amplitudes are balanced, twice
MULTIPLE = 16  # of which the sides of a section must be a multiple


def balanced(sections):
    """Sections over the root mean square around every pixel: gain is gone, contrasts of 100 pixels stay.

    Parameters
    ----------
    sections : tensor, shape (n, height, width)
    """
    square = (sections**2)[:, None]
    half = WINDOW // 2
    for _ in range(2):
        square = avg_pool2d(square, (WINDOW, 1), 1, (half, 0), count_include_pad=False)
        square = avg_pool2d(square, (1, WINDOW), 1, (0, half), count_include_pad=False)
    return sections / (square[:, 0].sqrt() + 1e-6)


class Even(nn.Module):
    """Pairs of filters at every second pixel; sizes and products alone go on, so both polarities look the same."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Conv2d(1, 2 * STEM, 5, stride=2, padding=2, bias=False)

    def forward(self, x):
        """Sizes of both filters, and their product over the sum of the sizes."""
        first, second = self.filters(x).chunk(2, dim=1)
        sizes = first.abs(), second.abs()
        return torch.cat([*sizes, 2 * first * second / (sizes[0] + sizes[1] + 1e-3)], 1)


class Block(nn.Sequential):
    """Two convolutions."""

    def __init__(self, n_in, n_out):
        layers = []
        for n in (n_in, n_out):
            layers += [nn.Conv2d(n, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
        super().__init__(*layers)


class Net(nn.Module):
    """Answers at half the resolution, and the decoder's features at a quarter and a half of it.

    Takes balanced sections, shape (n, 1, height, width), sides a multiple of 16. Gives logits of `CLASSES` with sine
    and cosine of twice the dip, shape (n, 8, height / 2, width / 2), and features, (n, 64, height / 4, width / 4) and
    (n, 32, height / 2, width / 2).
    """

    def __init__(self):
        super().__init__()
        self.stem = Even()
        self.down = nn.ModuleList(Block(n_in, n_out) for n_in, n_out in zip((3 * STEM, *WIDTHS), WIDTHS, strict=False))
        pairs = list(zip(WIDTHS[::-1], WIDTHS[-2::-1], strict=False))
        self.up = nn.ModuleList(Block(deep + n, n) for deep, n in pairs)
        self.head = nn.Conv2d(WIDTHS[0], len(CLASSES) + 2, 1)

    def forward(self, x):
        """Logits and features."""
        x, levels = self.stem(x), []
        for number, block in enumerate(self.down):
            x = block(avg_pool2d(x, 2) if number else x)
            levels.append(x)
        features = []
        for block, level in zip(self.up, levels[-2::-1], strict=True):
            x = block(torch.cat([doubled(x), level], 1))
            features.append(x)
        return self.head(x), features[1], features[2]


def doubled(x):
    """Every pixel four times; the gradient is a plain sum, so that training can be repeated to the bit."""
    if torch.onnx.is_in_onnx_export():
        return interpolate(x, scale_factor=2.0, mode="nearest")
    n, channels, height, width = x.shape
    wide = x[:, :, :, None, :, None].expand(n, channels, height, 2, width, 2)
    return wide.reshape(n, channels, 2 * height, 2 * width)
