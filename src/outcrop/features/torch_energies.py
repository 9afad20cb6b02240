"""Energies of sections on a torch device, equal to the results of `energies.describe` up to rounding errors."""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

from outcrop.features import energies


def describe(sections: npt.ArrayLike, device: str) -> np.ndarray:
    """Return the log energies of `energies.describe`, computed on a torch device.

    Parameters
    ----------
    sections : array, shape (n, height, width)
        Values in [0, 1].
    device : str
        For instance ``cuda``.

    Returns
    -------
    array, shape (n, ceil(height / 4), ceil(width / 4), 64)
    """
    import torch

    x, inside = energies.padded(sections)
    sizes = [part.stop - part.start for part in inside]
    found = []
    with torch.inference_mode():
        spectrum = torch.fft.fft2(torch.from_numpy(x).to(device))
        for window in _windows(x.shape[1:], device):
            envelope = torch.fft.ifft2(spectrum * window)[:, *inside].abs()
            for sigma in energies.SMOOTHING:
                down, across = (_smoothing(size, sigma / 2, device) for size in sizes)
                found.append(torch.log(down @ envelope @ across.T + 1e-3))
        scales = [torch.stack(found[scale :: len(energies.SMOOTHING)]) for scale in range(len(energies.SMOOTHING))]
        result: np.ndarray = torch.cat(scales).movedim(0, -1).cpu().numpy()
    return result


@lru_cache(maxsize=8)
def _windows(shape: tuple[int, int], device: str) -> list[Any]:
    import torch

    return [torch.from_numpy(window).to(device) for window in energies._log_gabor(shape)]


@lru_cache(maxsize=64)
def _smoothing(n: int, sigma: float, device: str) -> Any:
    """Return the matrix that averages `n` values in pairs, smooths the means and selects every second mean."""
    import torch

    even = np.pad(np.eye(n, dtype=np.float32), [(0, n % 2), (0, 0)], mode="edge")
    half = gaussian_filter1d((even[::2] + even[1::2]) / 2, sigma, axis=0, mode="reflect", truncate=3)
    return torch.from_numpy(np.pad(half, [(0, len(half) % 2), (0, 0)], mode="edge")[1::2].copy()).to(device)
