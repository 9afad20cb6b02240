"""What a user wants to know of a volume before working on it."""

import numpy as np

from outcrop.volumes.amplitude import sample_lines, volume_name
from outcrop.volumes.lazy import live_traces


def describe(volume, *, lines=16):
    """What a user wants to know of a volume before working on it, as plain numbers, text, lists and dicts.

    Amplitudes are those of `lines` evenly spaced inlines. ``drift`` says by how many dB the RMS amplitude differs
    between eighths of the survey and between eighths of the time axis, the loudest against the quietest.
    """
    attrs, live = volume.attrs, live_traces(volume)
    rows, sample = sample_lines(volume, lines)
    finite = np.isfinite(sample)
    if not finite.any():
        raise ValueError(f"{volume_name(volume)} holds no finite amplitude; give one with data.")
    axes = {name: describe_axis(volume[name].values) for name in volume.dims}
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
            "missing_traces": int(np.sum(~live)) - attrs.get("dead", 0),
            "dead_traces": attrs.get("dead", 0),
            "duplicate_traces": attrs.get("duplicates", 0),
        },
        "notes": list(attrs.get("notes", ())),
        "text": attrs.get("text", "").splitlines(),
        "scaled": bool(attrs.get("scaled", False)),
        "amplitude": describe_amplitude(sample, finite),
        "rms": describe_rms(sample, finite, volume["inline"].values[rows], volume[volume.dims[2]].values),
    }


def sample_unit(volume):
    """Unit of the last axis of a volume or a section, ms or m; None where it only counts samples or tells no unit.

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


def describe_axis(labels):
    """First, last, step (None where it varies) and count of the labels of an axis."""
    steps = np.diff(labels)
    even = len(steps) > 0 and np.allclose(steps, steps[0])
    step = steps[0].item() if even else 1 if not len(steps) else None
    return {"first": labels[0].item(), "last": labels[-1].item(), "step": step, "count": len(labels)}


def describe_amplitude(sample, finite):
    """Range, percentiles, clip and histogram of a sample of amplitudes, and how many are not numbers or all zero."""
    values = sample[finite].astype(np.float64)
    sizes = np.abs(values[values != 0])
    clip = float(np.percentile(sizes, 99.5)) if sizes.size else 0.0
    counts, edges = np.histogram(values, bins=64, range=(-(clip or 1), clip or 1))
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


def describe_rms(sample, finite, inlines, times):
    """RMS amplitude of each sampled line and of each sample time, and how far it drifts along both."""
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


def drift(rms):
    """Decibels between the loudest and the quietest eighth of an axis, of those that hold anything.

    Examples
    --------
    >>> round(drift(np.repeat([1.0, 2.0, 0.0], 8)), 2)
    6.02
    """
    parts = [part[part > 0] for part in np.array_split(rms, min(8, len(rms)))]
    levels = [np.sqrt(np.mean(part**2)) for part in parts if part.size]
    return float(20 * np.log10(max(levels) / min(levels))) if levels else 0.0
