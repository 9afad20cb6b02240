"""Scores of labels by the distance between boundaries, and by connected zones such as faults."""

from typing import Any

import numpy as np
from scipy import ndimage

from outcrop.arrays import Array
from outcrop.evaluate.pixels import Classes, _edge, code_of, shared_sections


def boundary_distance(
    labels: Any, truth: Any, name: Any, *, classes: Classes = None, spacing: tuple[float, float] = (1.0, 1.0)
) -> dict[str, Any]:
    """Return the vertical and horizontal distance between the labelled and the true boundary of a geobody.

    Every pixel of the labelled boundary is matched with the nearest pixel of the true boundary, and vice versa.
    Sections that lack one of the boundaries are left out; edges of a section and of the known truth are not boundaries.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, shape (..., rows, columns)
        Class codes, as in `pixel_scores`; rows are time or depth, columns traces.
    name : str or int
        Class of the geobody.
    classes : sequence or mapping, optional
        As in `pixel_scores`.
    spacing : (float, float)
        Step between rows and between columns, for example 4 (ms) and 25 (m).

    Returns
    -------
    dict
        - ``pixels``: straight distance in pixels.
        - ``vertical``, ``horizontal``: the components of this distance, times `spacing`.
        - ``sections``: number of sections with both boundaries.

        Each distance is a pair (median, 95 % quantile), NaN if no section has both boundaries.

    Examples
    --------
    >>> found, true = np.ones((2, 9, 9), int)
    >>> found[:5], true[:3] = 2, 2
    >>> boundary_distance(found, true, 2, spacing=(4.0, 25.0))["vertical"]
    (8.0, 8.0)
    """
    sections, names = shared_sections(labels, truth, classes)
    code, steps = code_of(name, names), []
    for found, true in sections:
        edges = [_edge(x == code, true > 0) for x in (found, true)]
        if edges[0].any() and edges[1].any():
            steps.append(np.hstack([_nearest_steps(*edges), _nearest_steps(*edges[::-1])]))
    down, across = np.hstack(steps) if steps else np.full((2, 1), np.nan)
    distances = {"pixels": np.hypot(down, across), "vertical": down * spacing[0], "horizontal": across * spacing[1]}
    return {k: tuple(np.quantile(d, [0.5, 0.95]).tolist()) for k, d in distances.items()} | {"sections": len(steps)}


def zone_scores(labels: Any, truth: Any, name: Any, *, classes: Classes = None, overlap: float = 0.5) -> dict[str, int]:
    """Count the true connected zones of a class that the labels hit, and the labelled zones that are false.

    Parameters
    ----------
    labels, truth : array or xarray.DataArray, shape (..., rows, columns)
        Class codes, as in `pixel_scores`; pixels of a zone touch within a section, at sides or corners.
    name : str or int
        Class of the zones.
    classes : sequence or mapping, optional
        As in `pixel_scores`.
    overlap : float
        A true zone is hit if the labels cover at least this share of its pixels; a labelled zone is a false alarm if
        less than this share of its pixels is true.

    Returns
    -------
    dict
        Counts: ``zones`` (true zones), ``hits`` (true zones that were hit), ``alarms`` (labelled zones), and
        ``false_alarms`` (labelled zones that are false).

    Examples
    --------
    >>> zone_scores([[2, 2, 1, 2, 1]], [[2, 2, 1, 1, 1]], 2)
    {'zones': 1, 'hits': 1, 'alarms': 2, 'false_alarms': 1}
    """
    sections, names = shared_sections(labels, truth, classes)
    code, counts = code_of(name, names), np.zeros(4, int)
    for found, true in sections:
        labelled, real = (found == code) & (true > 0), true == code
        hit, right = _zone_shares(real, labelled) >= overlap, _zone_shares(labelled, real) >= overlap
        counts += len(hit), hit.sum(), len(right), (~right).sum()
    return dict(zip(["zones", "hits", "alarms", "false_alarms"], counts.tolist(), strict=True))


def _nearest_steps(edge: np.ndarray, other: np.ndarray) -> Array:
    """Return distances in rows and columns, shape (2, n), from each pixel of `edge` to the nearest one of `other`."""
    nearest = ndimage.distance_transform_edt(~other, return_distances=False, return_indices=True)
    return np.abs(nearest[:, edge] - np.argwhere(edge).T)


def _zone_shares(zones: np.ndarray, cover: np.ndarray) -> np.ndarray:
    """Return, for each connected zone of the mask `zones`, the share of its pixels that lie in the mask `cover`."""
    zone, n = ndimage.label(zones, np.ones((3, 3)))
    return ndimage.mean(cover, zone, np.arange(1, n + 1)) if n else np.empty(0)
