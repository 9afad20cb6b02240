"""Write ZGY files for tests and benchmarks with OpenZGY."""

import numpy as np

from outcrop.volumes.zgy import openzgy


def write_zgy(
    path,
    values,
    *,
    first=(100, 300),
    step=(1, 1),
    start=0.0,
    interval=4.0,
    kind="float",
    unit="ms",
    corners=None,
    **more,
):
    """Write a volume of shape (n_inline, n_crossline, n_sample) as ZGY.

    Parameters
    ----------
    first, step : (int, int)
        Number of the first inline and crossline, and their steps.
    start, interval : float
        First sample and interval, in `unit`.
    kind : {"float", "int16", "int8"}
    unit : {"ms", "s", "m", "ft", ""}
        Unit of the sample axis; with "" the file does not state it.
    corners : list of (X, Y), optional
        Corners: first and last inline on the first crossline, then on the last; by default bins of 25 m x 12.5 m.
    **more
        Options of ``ZgyWriter``, for instance ``bricksize``.
    """
    api = openzgy()
    values = np.asarray(values, np.float32)
    factor = {"ms": 0.001, "s": 1.0, "m": 1.0, "ft": 0.3048, "": 1.0}[unit]
    measure = {"ms": "time", "s": "time", "m": "length", "ft": "length", "": "unknown"}[unit]
    high, wide = 25.0 * (len(values) - 1), 12.5 * (values.shape[1] - 1)
    options = {
        "size": values.shape,
        "datatype": api.SampleDataType[kind],
        "zunitdim": api.UnitDimension[measure],
        "zunitname": unit,
        "zunitfactor": factor,
        "hunitdim": api.UnitDimension.length,
        "hunitname": "m",
        "hunitfactor": 1.0,
        "zstart": start,
        "zinc": interval,
        "annotstart": first,
        "annotinc": step,
        "corners": corners or [(0.0, 0.0), (0.0, high), (wide, 0.0), (wide, high)],
    }
    if kind != "float":
        options["datarange"] = (float(values.min()), float(values.max()))
    with api.ZgyWriter(str(path), **options, **more) as writer:
        writer.write((0, 0, 0), values)
    return path


def header_size(path):
    """Return the number of bytes of all headers of a ZGY file, including its tables of bricks."""
    with openzgy().ZgyReader(str(path)) as reader:
        return int(reader._meta._oh._bricklupoff + reader._meta._oh._bricklupsize)
