"""Describe a volume: axes, geometry, amplitudes, and how their level varies over the survey and with time."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from outcrop.volumes.amplitude import LOUD, centre, clip_of, loud_traces, sample_lines, volume_name
from outcrop.volumes.lazy import live_traces
from outcrop.words import counted

Array = npt.NDArray[Any]


def describe(volume: xr.DataArray, *, lines: int = 16) -> dict[str, Any]:
    """Return a description of a volume as plain numbers, text, lists and dicts.

    Amplitudes are read on `lines` evenly spaced inlines. ``drift_lines`` is the difference in RMS amplitude, in dB,
    between the loudest and the quietest eighth of these inlines; ``drift_time`` is the same difference between eighths
    of the time or depth axis. Dead traces are traces marked dead in the file, and traces with the same value at all
    samples, whose number is estimated from the inlines that were read.
    """
    attrs, live = volume.attrs, live_traces(volume)
    rows, sample = sample_lines(volume, lines)
    finite = np.isfinite(sample)
    if not finite.any():
        raise ValueError(f"{volume_name(volume)} holds no finite amplitude; give a volume with data.")
    axes = {str(name): describe_axis(volume[name].values) for name in volume.dims}
    marked, held = attrs.get("dead", 0), finite.any(-1)
    silent = held & (sample.min(-1) == sample.max(-1)) & (volume.shape[2] > 1)
    dead = marked + round(float(live.sum() * silent.sum() / held.sum()))
    zero = centre(volume)
    centred = np.where(finite, sample, np.float32(np.nan)) - np.float32(zero)
    clip = None if attrs.get("scaled") else clip_of(centred)
    notes, loud = list(attrs.get("notes", ())), int(loud_traces(centred).sum())
    if loud:
        traces = f"{counted(loud, 'traces')} of {silent.size} sampled traces"
        notes.append(f"{traces}, over {LOUD:g} times louder than the others, left out of the amplitude scale")
    return {
        "source": attrs.get("source"),
        "format": attrs.get("format"),
        "axes": axes,
        "domain": volume.dims[2],
        "unit": sample_unit(volume),
        **{name: attrs.get(name) for name in ("sample_interval", "delay", "bin_size", "header_bytes", "classes")},
        "geometry": {
            "regular": bool(live.all()) and all(axis["step"] is not None for axis in axes.values()),
            "sorting": attrs.get("sorting"),
            "missing_traces": int(np.sum(~live)) - marked,
            "dead_traces": dead,
            "duplicate_traces": attrs.get("duplicates", 0),
        },
        "notes": notes,
        "text": attrs.get("text", "").splitlines(),
        "scaled": bool(attrs.get("scaled", False)),
        "amplitude": describe_amplitude(sample, finite, zero, clip) | {"loud_traces": loud},
        "rms": describe_rms(centred, finite, volume["inline"].values[rows], volume[volume.dims[2]].values),
    }


def sample_unit(volume: xr.DataArray | xr.Dataset) -> str | None:
    """Return the unit of the last axis of a volume or a section, ms or m; None if it counts samples or has no unit.

    Examples
    --------
    >>> import outcrop as oc
    >>> sample_unit(oc.open_volume(np.zeros((2, 3, 4)))) is None
    True
    """
    labels = volume[volume.dims[-1]].values
    counts = np.array_equal(labels, np.arange(len(labels)))
    if "sample_interval" not in volume.attrs and (counts or volume.attrs.get("unit") == ""):
        return None
    return "m" if volume.dims[-1] == "depth" else "ms"


def describe_axis(labels: Array) -> dict[str, Any]:
    """Return a dict for an axis: its first and last value, its step (None if it varies), and its number of values."""
    steps = np.diff(labels)
    even = len(steps) > 0 and np.allclose(steps, steps[0])
    step = steps[0].item() if even else 1 if not len(steps) else None
    return {"first": labels[0].item(), "last": labels[-1].item(), "step": step, "count": len(labels)}


def describe_amplitude(sample: Array, finite: Array, zero: float, clip: float | None) -> dict[str, Any]:
    """Return a dict with range, percentiles, clip and histogram of amplitudes, and some counts.

    The counts are numbers of traces, of traces of zeros, and of amplitudes that are NaN or infinite. `sample` has the
    amplitudes of some traces, `finite` is the mask of the valid ones, and `zero` is the value of zero amplitude. `clip`
    is None if the amplitudes are already scaled to [0, 1].
    """
    values = sample[finite].astype(np.float64)
    reach = 0.5 if clip is None else clip or 1.0
    counts, edges = np.histogram(values, bins=64, range=(zero - reach, zero + reach))
    return {
        "minimum": values.min().item(),
        "maximum": values.max().item(),
        "percentiles": {str(q): np.percentile(values, q).item() for q in (0.5, 1, 5, 25, 50, 75, 95, 99, 99.5)},
        "clip": clip,
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "sampled_traces": int(sample[..., 0].size),
        "zero_traces": int(np.sum((sample == 0).all(-1))),
        "nan": int(np.isnan(sample).sum()),
        "infinite": int(np.isinf(sample).sum()),
    }


def describe_rms(sample: Array, finite: Array, inlines: Array, times: Array) -> dict[str, Any]:
    """Return a dict with the RMS amplitude of each inline and of each time, and the `drift` of this RMS on both axes.

    `sample` has the amplitudes of some inlines, zero amplitude at 0, and `finite` is the mask of the valid ones.
    `inlines` has the numbers of these inlines, `times` the times or depths of the samples.
    """
    power = np.where(finite, sample, 0).astype(np.float64) ** 2
    with np.errstate(invalid="ignore"):
        by_line = np.sqrt(power.sum((1, 2)) / finite.sum((1, 2)))
        by_time = np.sqrt(power.sum((0, 1)) / finite.sum((0, 1)))
    return {
        "inline": inlines.tolist(),
        "by_line": [None if np.isnan(rms) else rms for rms in by_line.tolist()],
        "time": times.tolist(),
        "by_time": [None if np.isnan(rms) else rms for rms in by_time.tolist()],
        "drift_lines": drift(by_line),
        "drift_time": drift(by_time),
    }


def drift(rms: Array) -> float:
    """Return the difference in dB of RMS amplitude between the loudest and the quietest eighth of an axis.

    `rms` has the RMS amplitude at each position on the axis; zeros are left out.

    Examples
    --------
    >>> round(drift(np.repeat([1.0, 2.0, 0.0], 8)), 2)
    6.02
    """
    parts = [part[part > 0] for part in np.array_split(rms, min(8, len(rms)))]
    levels = [np.sqrt(np.mean(part**2)) for part in parts if part.size]
    return float(20 * np.log10(max(levels) / min(levels))) if levels else 0.0
