"""Read amplitudes of a volume, find the value of zero amplitude and the clip, and scale amplitudes to [0, 1].

The clip is the absolute amplitude that scaling maps to 0 (if negative) and 1 (if positive).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

Array = npt.NDArray[Any]
LOUD = 30.0  # times the 75th percentile of the RMS of traces; a louder trace is an error of recording or export


def sample_lines(volume: xr.DataArray, lines: int) -> tuple[Array, Array]:
    """Read at most `lines` evenly spaced inlines, and return their positions and amplitudes.

    The amplitudes have shape (n_lines, n_traces, n_samples). On long lines, only every Nth trace is read.
    """
    rows = np.unique(np.linspace(0, volume.shape[0] - 1, lines).round().astype(int))
    # About 2**18 samples of a line suffice, so the cost does not grow with the survey.
    every = -(-volume.shape[1] * volume.shape[2] // (1 << 18))
    return rows, np.stack([volume[row, ::every].values for row in rows])


def find_offset(volume: xr.DataArray) -> float:
    """Find the value that stands for zero amplitude in a volume without negative values; 0 for any other volume.

    This value, the offset, is the median of the positive values. If all values are whole numbers and the median is
    close to the middle of their range, the offset is this middle, for instance 128 for 0 to 255. A few traces are read
    first, and sixteen lines only if these traces have no negative value. The offset of class codes, and of data scaled
    to [0, 1], is 0.
    """
    if volume.attrs.get("scaled") or volume.attrs.get("classes"):
        return 0.0
    for count in (1, 3):
        rows, columns = (np.unique(np.linspace(0, n - 1, count + 2).astype(int)[1:-1]) for n in volume.shape[:2])
        if np.nanmin(volume[rows, columns].values, initial=np.inf) < 0:
            return 0.0
    sample = sample_lines(volume, 16)[1]
    positive = sample[np.isfinite(sample) & (sample > 0)]
    if not positive.size or np.nanmin(sample) < 0:
        return 0.0
    offset, middle = float(np.median(positive)), 2.0 ** np.floor(np.log2(positive.max()))
    whole = np.array_equal(positive, np.rint(positive))
    medians = offset, np.nanmedian(sample)  # zeros are padding, or amplitudes clipped at the lower end
    return middle if whole and min(abs(one - middle) for one in medians) < middle / 16 else offset


def centre(volume: xr.DataArray) -> float:
    """Return the value of zero amplitude: 0.5 in data scaled to [0, 1], else the offset that `open_volume` found."""
    return 0.5 if volume.attrs.get("scaled") else float(volume.attrs.get("offset", 0.0))


def loud_traces(sample: Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the traces that are too loud to be used for the amplitude scale.

    A trace is too loud if its RMS exceeds `LOUD` times the 75th percentile of the RMS of the traces; for this
    percentile, traces of zeros are left out. The samples of a trace lie along the last axis of `sample`.
    """
    rms = np.sqrt(np.mean(np.square(np.where(np.isfinite(sample), sample, 0), dtype=np.float64), axis=-1))
    return rms > LOUD * np.percentile(rms[rms > 0], 75) if rms.any() else np.zeros(rms.shape, bool)


def amplitude_clip(volume: xr.DataArray, *, percentile: float = 99.5, lines: int = 16) -> float:
    """Return the clip of a volume: a percentile of the absolute amplitudes on some lines. Scaling maps it to 1.

    Zeros (mutes and padding), NaN, Inf and single traces that are far too loud are left out.

    Parameters
    ----------
    volume : xarray.DataArray
    percentile : float
        Percentage of the absolute amplitudes that do not exceed the clip.
    lines : int
        Number of evenly spaced inlines from which amplitudes are read.

    Returns
    -------
    clip : float

    Examples
    --------
    >>> import outcrop as oc
    >>> amplitude_clip(oc.open_volume(np.linspace(-200, 200, 401).reshape(1, 1, -1)), percentile=50)
    100.5
    """
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile is {percentile}; choose a value above 0 and up to 100.")
    clip = clip_of(sample_lines(volume, lines)[1] - np.float32(volume.attrs.get("offset", 0)), percentile)
    if not clip:
        raise ValueError(f"{volume_name(volume)} holds only zeros or NaN; give a volume with amplitudes.")
    return clip


def clip_of(sample: Array, percentile: float = 99.5) -> float:
    """Return the clip of an array of traces, shape (..., n_samples), computed as in `amplitude_clip`.

    It is 0 if all amplitudes are zero, NaN or infinite.
    """
    sizes = np.abs(sample[~loud_traces(sample)])
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.percentile(sizes, percentile)) if sizes.size else 0.0


def volume_name(volume: xr.DataArray) -> str:
    """Return the name of a volume for messages: its file, or 'The array' if the samples are in memory."""
    in_memory = isinstance(volume.variable._data, np.ndarray)
    return "The array" if in_memory else str(volume.attrs.get("source") or "The volume")


def scale(amplitudes: npt.ArrayLike, clip: float) -> Array:
    """Scale amplitudes from [-clip, clip] to [0, 1]; amplitudes beyond the clip become 0 or 1, NaN stays NaN.

    Examples
    --------
    >>> scale(np.array([-9.0, -1.0, 0.0, 4.0]), clip=2.0)
    array([0.  , 0.25, 0.5 , 1.  ])
    """
    if not 0 < clip < np.inf:
        raise ValueError(f"clip is {clip}; choose a positive amplitude.")
    amplitudes = np.asarray(amplitudes)
    kind = np.float64 if amplitudes.dtype == np.float64 else np.float32
    return np.asarray(np.clip(amplitudes.astype(kind, copy=False), -clip, clip) / kind(2 * clip) + kind(0.5))
