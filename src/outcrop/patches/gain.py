"""Scale amplitudes by the RMS of a patch or of a sliding window; recognise empty patches."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.volumes.amplitude import scale
from outcrop.volumes.axes import standard_axes

Array = npt.NDArray[Any]
HEADROOM = 3.0  # amplitude, in multiples of the RMS, that gains "agc" and "patch" map to 0 and 1


def sliding_rms(section: Array, window: int) -> Array:
    """Return the RMS around every sample of a section, in a window of `window` samples along its trace.

    It is never zero, so that amplitudes can be divided by it. It is NaN on a trace that contains NaN.

    Examples
    --------
    >>> sliding_rms(np.array([[3.0, -3.0, 3.0, -3.0]]), 3)
    array([[3., 3., 3., 3.]], dtype=float32)
    """
    n = section.shape[-1]
    energy = np.cumsum(np.square(section, dtype=np.float64), -1)
    energy = np.concatenate([np.zeros_like(energy[..., :1]), energy], -1)
    low, high = np.clip(np.arange(n) - window // 2, 0, n), np.clip(np.arange(n) - window // 2 + window, 0, n)
    rms = np.sqrt(np.maximum(energy[..., high] - energy[..., low], 0) / (high - low))
    floor = 1e-3 * np.sqrt(np.maximum(energy[..., -1:] / n, 1e-30))  # keeps zero amplitudes at zero
    return np.asarray(np.maximum(rms, floor), np.float32)


def by_rms(patches: Array) -> Array:
    """Scale each patch to [0, 1]; zero amplitude becomes 0.5, and `HEADROOM` times the RMS of the patch becomes 1.

    The patches have shape (n, height, width) and amplitudes around zero.
    """
    rms = np.sqrt(np.mean(np.square(patches, dtype=np.float64), axis=(1, 2), keepdims=True))
    return scale(patches / np.where(rms > 0, rms, 1).astype(patches.dtype), HEADROOM)


def quiet(patches: npt.ArrayLike) -> Array:
    """Return a mask that is True for empty patches; the patches are scaled to [0, 1].

    A patch is empty if it is constant, or if more than half of its samples have zero amplitude, which is 0.5.

    Examples
    --------
    >>> quiet(np.stack([np.full((32, 32), 0.5), np.random.default_rng(0).random((32, 32))]))
    array([ True, False])
    """
    patches = np.asarray(patches)
    silent = np.abs(patches - 0.5) < 1e-3
    return np.asarray((silent.mean(axis=(1, 2)) > 0.5) | (patches.std(axis=(1, 2)) < 1e-3))


def agc_window(gain: str, volume: xr.DataArray) -> int | None:
    """Return the length, in samples, of the sliding window of gain ``agc:MS``; None for ``volume`` and ``patch``."""
    if gain in ("volume", "patch"):
        return None
    kind, _, length = str(gain).partition(":")
    samples = standard_axes(volume)[volume.dims[2]].values
    try:
        window = round(float(length) / abs(float(samples[1] - samples[0])))
    except (ValueError, IndexError):
        window = 0
    if kind != "agc" or window < 3:
        raise ValueError(
            f"Gain {gain!r} cannot be used; choose 'volume', 'patch', or 'agc:MS', where MS is the length in ms of a "
            "window of at least 3 samples."
        )
    return window
