"""Convert labels to one form: a Dataset with class names, and with times in ms or depths in m."""

import xarray as xr

from outcrop.mapping.confidence import UNCERTAIN
from outcrop.volumes.axes import standard_axes


def named_labels(labels: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Return labels as a Dataset with class names and the axes inline, crossline and time in ms or depth in m.

    Parameters
    ----------
    labels : Dataset or DataArray
        A Dataset with ``label`` and further variables, or the codes of the labels alone. ``attrs["classes"]`` names the
        codes 1, 2, ... If there is an axis ``class``, it comes first in the result.

    Examples
    --------
    >>> import numpy as np
    >>> axes = {"inline": [7], "crossline": [1, 2], "time": [0.0, 0.004]}
    >>> codes = xr.DataArray(np.ones((1, 2, 2), np.uint8), axes, attrs={"classes": ["other"]})
    >>> named_labels(codes)["time"].values
    array([0., 4.])
    """
    if isinstance(labels, xr.DataArray):
        labels = labels.to_dataset(name="label").assign_attrs(labels.attrs)
    codes = labels["label"]
    known = {
        name: codes.attrs[name] for name in ("classes", "bin_size", "line_step") if name in codes.attrs
    } | labels.attrs
    classes = known.get("classes")
    if classes is None or not 0 < len(classes) < UNCERTAIN:
        raise ValueError(
            "The labels have no class names; set attrs['classes'] to the names of codes 1, 2, ... (at most 254 names)."
        )
    if codes.ndim != 3 or not {"inline", "crossline"} < set(codes.dims):
        raise ValueError(f"The labels have axes {codes.dims}; give inline, crossline and time or depth.")
    labels = labels.transpose("class", "inline", "crossline", ..., missing_dims="ignore")
    labels = labels.assign_attrs(known | {"classes": [str(name) for name in classes]})
    return standard_axes(labels)
