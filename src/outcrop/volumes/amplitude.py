"""Amplitudes: what a volume holds of them, and how they are scaled to [0, 1]."""

import numpy as np


def sample_lines(volume, lines):
    """Positions of evenly spaced inlines and their amplitudes, shape (n_lines, n_crossline, n_sample), thinned out."""
    rows = np.unique(np.linspace(0, volume.shape[0] - 1, lines).round().astype(int))
    # A quarter of a million samples of a line tell its amplitudes: cost does not grow with the survey.
    every = -(-volume.shape[1] * volume.shape[2] // (1 << 18))
    return rows, np.stack([volume[row, ::every].values for row in rows])


def amplitude_clip(volume, *, percentile=99.5, lines=16):
    """Amplitude that maps to the ends of [0, 1]: a percentile of the absolute amplitude over evenly spaced inlines.

    Zeros, of which mutes and padding consist, do not count, nor do NaN and Inf.

    Parameters
    ----------
    volume : xarray.DataArray
    percentile : float
        Share in percent of the samples that lie within the clip.
    lines : int
        Number of inlines to look at.

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
    sample = np.abs(sample_lines(volume, lines)[1])
    sample = sample[np.isfinite(sample) & (sample > 0)]
    if not sample.size:
        raise ValueError(f"{volume_name(volume)} holds only zeros or NaN; give one with amplitudes.")
    return float(np.percentile(sample, percentile))


def volume_name(volume):
    """What an error calls a volume: its file, but the array where it lies in memory, whatever it was read from."""
    in_memory = isinstance(volume.variable._data, np.ndarray)
    return "The array" if in_memory else str(volume.attrs.get("source") or "The volume")


def scale(amplitudes, clip):
    """Amplitudes from [-clip, clip] to [0, 1]; what lies outside goes to the ends, NaN stays.

    Examples
    --------
    >>> scale(np.array([-9.0, -1.0, 0.0, 4.0]), clip=2.0)
    array([0.  , 0.25, 0.5 , 1.  ])
    """
    if not 0 < clip < np.inf:
        raise ValueError(f"clip is {clip}; choose a positive amplitude.")
    amplitudes = np.asarray(amplitudes)
    kind = np.float64 if amplitudes.dtype == np.float64 else np.float32
    return np.clip(amplitudes.astype(kind, copy=False), -clip, clip) / kind(2 * clip) + kind(0.5)
