"""How a section is recorded and processed: wavelet, multiples, smiles, noise, footprint, mutes, gain, clipping."""

import math

import torch
from torch.nn.functional import pad

from pretraining.draws import SIZE

HALF = 32  # samples on either side of the middle of a wavelet


def record(draws, earth):
    """Amplitudes of a batch of earths, and where there is a recording at all.

    Returns
    -------
    sections : tensor, shape (n, SIZE, SIZE)
        Between -1 and 1, of any polarity and gain; 0 where nothing is recorded.
    live : bool tensor, shape (n, SIZE, SIZE)
    """
    period = earth.scale.period
    reflectivity = torch.diff(pad(earth.impedance, (0, 0, 1, 0), mode="replicate"), dim=1)
    phase = draws.uniform(-math.pi, math.pi)
    section = _filtered(reflectivity, _wavelet(period, phase))
    deep = _filtered(reflectivity, _wavelet(period * draws.uniform(1, 1.6), phase))
    down = torch.linspace(0, 1, SIZE, device=draws.device)[None, :, None]
    section = _unit(section + down * (deep - section))  # high frequencies are lost on the way
    section = section + _multiple(draws, section)
    section = _across(section, draws.uniform(0, 1.6))
    section = section + _smiles(draws, period)
    section = _unit(section) + _noise(draws, period)
    section = section * torch.exp(0.5 * draws.uniform() * draws.smooth(draws.uniform(30, 90), draws.uniform(50, 120)))
    section = section * _footprint(draws)
    section = _shifted(draws, _unit(section))
    live = _live(draws)
    section = _finished(draws, section) * live
    return section * draws.sign(), live


def _unit(section):
    return section / (section.std((1, 2), keepdim=True) + 1e-6)


def _wavelet(period, phase):
    """Ricker wavelets turned in phase, shape (n, 1, taps)."""
    t = torch.arange(-HALF, HALF + 1, device=period.device, dtype=torch.float32)[None, None] / period
    envelope = torch.exp(-((math.pi * t) ** 2))
    even, odd = (1 - 2 * (math.pi * t) ** 2) * envelope, 2.5 * math.pi * t * envelope
    return even * torch.cos(phase) + odd * torch.sin(phase)


def _filtered(sections, wavelets):
    """Every trace of a section by the wavelet of the section."""
    n = SIZE + 2 * HALF
    spectrum = torch.fft.rfft(sections, n=n, dim=1) * torch.fft.rfft(wavelets[:, 0], n=n)[..., None]
    return torch.fft.irfft(spectrum, n=n, dim=1)[:, HALF : HALF + SIZE]


def _across(sections, sigma):
    """Smoothed over neighbouring traces, as migration leaves them: a Gaussian of so many traces."""
    k = torch.fft.rfftfreq(SIZE, device=sections.device)[None, None]
    return torch.fft.irfft(torch.fft.rfft(sections) * torch.exp(-2 * (math.pi * k * sigma) ** 2), n=SIZE)


def _multiple(draws, section):
    """Echo of the section by a layer above it, later and weaker."""
    delay = draws.uniform(15, 90).long()
    rows = torch.arange(SIZE, device=draws.device)[None, :, None] - delay
    late = section.gather(1, rows.clamp(min=0).expand_as(section)) * (rows >= 0)
    return torch.where(draws.chance(0.3), -draws.uniform(0.1, 0.5), torch.zeros_like(section[:, :1, :1])) * late


def _smiles(draws, period):
    """Arcs that migration leaves, and diffractions that it does not collapse."""
    x = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, None]
    z = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, :, None]
    total, on = 0.0, draws.chance(0.25)
    for _ in range(3):
        centre, radius = draws.uniform(0, SIZE), draws.uniform(20, 160)
        across = (x - centre) * draws.uniform(0.2, 1)
        arc = draws.uniform(0, SIZE) - draws.sign() * (torch.sqrt(radius**2 + across**2) - radius)
        t = (z - arc) / period
        wave = (1 - 2 * (math.pi * t) ** 2) * torch.exp(-((math.pi * t) ** 2))
        total = total + draws.uniform(0, 1.2) * wave * torch.exp(-((across / draws.uniform(15, 60)) ** 2))
    return torch.where(on, total, 0.0)


def _noise(draws, period):
    """Noise of any colour, in the band of the signal, and along straight lines."""
    white = draws.field(draws.uniform(0.3, 3), draws.uniform(0.3, 3)) * draws.uniform(0, 0.6) ** 1.5
    band = _unit(_filtered(draws.normal(SIZE, SIZE), _wavelet(period, draws.uniform(0, 3))))
    band = _unit(_across(band, draws.uniform(0, 3))) * draws.uniform(0, 0.6) * draws.chance(0.6)
    x = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, None]
    z = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, :, None]
    wave = torch.sin(
        2 * math.pi * ((z + x * draws.uniform(-2.5, 2.5)) / (period * draws.uniform(0.7, 2)) + draws.uniform())
    )
    wave = wave * (draws.smooth(draws.uniform(20, 60), draws.uniform(20, 60)) > 0.3)
    return white + band + wave * draws.uniform(0, 0.5) * draws.chance(0.2)


def _footprint(draws):
    """Gain from trace to trace: periodic with the acquisition, or random."""
    x = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, None]
    regular = 1 + draws.uniform(0, 0.4) * torch.sin(2 * math.pi * (x / draws.uniform(3, 16) + draws.uniform()))
    random = torch.exp(draws.uniform(0, 0.25) * draws.normal(1, SIZE))
    return torch.where(draws.chance(0.15), regular, torch.where(draws.chance(0.2), random, 1.0))


def _shifted(draws, section):
    """Traces a fraction of a sample to a few samples off, as residual statics leave them."""
    shift = draws.normal(1, SIZE) * draws.uniform(0, 0.8) * draws.chance(0.2)
    k = torch.fft.rfftfreq(SIZE, device=draws.device)[None, :, None]
    return torch.fft.irfft(torch.fft.rfft(section, dim=1) * torch.exp(-2j * math.pi * k * shift), n=SIZE, dim=1)


def _live(draws):
    """False above a mute, below the end of the data, and on missing traces."""
    x = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, None]
    z = torch.arange(SIZE, device=draws.device, dtype=torch.float32)[None, :, None]
    mute = (z < draws.uniform(-40, 50) + (x - draws.uniform(0, SIZE)).abs() * draws.uniform(0, 0.6)) & draws.chance(
        0.06
    )
    missing = (draws.uniform(shape=(1, SIZE)) < draws.uniform(0, 0.05)) & draws.chance(0.1)
    return ~(mute | missing)


def _finished(draws, section):
    """Gain control here and there, clipping, and eight bits."""
    square = (section**2)[:, None]
    for kernel in ((41, 1), (1, 41)):
        square = torch.nn.functional.avg_pool2d(
            square, kernel, 1, (kernel[0] // 2, kernel[1] // 2), count_include_pad=False
        )
    section = torch.where(draws.chance(0.2), section / (square[:, 0].sqrt() + 0.2), section)
    section = (_unit(section) * draws.uniform(0.12, 0.45)).clamp(-1, 1)
    return torch.where(draws.chance(0.3), (section * 127).round() / 127, section)
