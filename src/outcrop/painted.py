"""Pixels painted by hand: kept in a job, and handed to a mapper as patches that are labelled in part."""

import hashlib
from typing import Any

import numpy as np
import pandas as pd
import zarr

from outcrop.patches import DIRECTIONS
from outcrop.workspace import remove, whole_file

PAINTED = ["class", "along", "line", "trace", "first", "last"]  # columns of painted.csv, in survey labels


def write_painted(index, painted):
    """Keep pixels that were painted by hand in ``painted.csv`` of a job.

    Parameters
    ----------
    index : Index
        Of the job.
    painted : list of dict
        Strokes in their order: ``class`` (or ``erase``), ``along``, ``line``, ``runs`` of [trace, first, last].
    """
    path = index.workspace / "painted.csv"
    rows = [(one["class"], one["along"], one["line"], *run) for one in painted for run in one["runs"]]
    if not rows:
        return remove(path)
    with whole_file(path) as aside:
        pd.DataFrame(rows, columns=PAINTED).to_csv(aside, index=False)


def painted_patches(index, starts, classes):
    """Retrieved patches with the pixels painted in them, and a patch around what was painted elsewhere.

    Returns
    -------
    starts : array, shape (n, 4)
    classes : array of str, shape (n,)
        A painted patch has the structure that was painted most in it, else that of the retrieved patch it overlaps.
    masks : uint8 array, shape (n, height, width), or None where nothing is painted
        ``i + 1`` for the i-th class in the order in which `classes` names them.
    """
    path = index.workspace / "painted.csv"
    if not path.is_file():
        return starts, classes, None
    table = pd.read_csv(path)
    names = list(dict.fromkeys(map(str, classes)))
    grid, sections = index.grid, {}
    for (along, label), own in table.groupby(["along", "line"], sort=False):
        direction = DIRECTIONS.index(along)
        line = int(np.flatnonzero(grid.axes[direction] == label)[0])
        codes = painted_codes(own.to_dict("records"), names, grid.axes[1 - direction], grid.axes[2])
        if codes.any():
            sections[direction, line] = codes
    extra = [
        (start, name) for key, codes in sections.items() for start, name in _around(key, codes, grid, starts, classes)
    ]
    if extra:
        starts = np.concatenate([starts, [start for start, _ in extra]])
        classes = np.concatenate([classes, [name for _, name in extra]])
    masks = np.zeros((len(starts), *grid.size), np.uint8)
    for i, (direction, line, trace, sample) in enumerate(starts):
        if (direction, line) in sections:
            codes = sections[direction, line]
            masks[i] = codes[trace : trace + grid.size[1], sample : sample + grid.size[0]].T
    return starts, classes, masks


def painted_codes(rows, names, traces, samples):
    """Codes of painted samples, shape (n_traces, n_samples): i + 1 for ``names[i]``, 0 unsaid; later rows win.

    Examples
    --------
    >>> rows = [{"class": "fault", "trace": 301, "first": 4, "last": 8}]
    >>> painted_codes(rows, ["other", "fault"], np.array([300, 301]), np.array([0, 4, 8]))
    array([[0, 0, 0],
           [0, 2, 2]], dtype=uint8)
    """
    codes = np.zeros((len(traces), len(samples)), np.uint8)
    place = {label: i for i, label in enumerate(traces.tolist())}
    order = {name: i + 1 for i, name in enumerate(names)} | {"erase": 0}
    for row in rows:
        for trace, first, last in row.get("runs") or [(row["trace"], row["first"], row["last"])]:
            if row["class"] in order and trace in place:
                a, b = (int(np.argmin(np.abs(samples - label))) for label in (first, last))
                codes[place[trace], a : b + 1] = order[row["class"]]
    return codes


def _around(key, codes, grid, starts, classes):
    """Start and class of patches that cover what is painted on one line."""
    names = list(dict.fromkeys(map(str, classes)))
    height, width = grid.size
    beside = [i for i, start in enumerate(starts) if tuple(start[:2]) == key]
    left = codes > 0
    while left.any():
        middle = np.argwhere(left)[np.count_nonzero(left) // 2]
        trace, sample = (
            int(np.clip(at - size // 2, 0, n - size))
            for at, size, n in zip(middle, (width, height), codes.shape, strict=True)
        )
        window = codes[trace : trace + width, sample : sample + height]
        left[trace : trace + width, sample : sample + height] = False
        left[tuple(middle)] = False
        said = np.bincount(window[window > 0], minlength=len(names) + 1)
        structures = [code for code, name in enumerate(names, 1) if name != "other" and said[code]]
        near = [i for i in beside if abs(starts[i][2] - trace) < width and abs(starts[i][3] - sample) < height]
        if structures:
            name = names[max(structures, key=said.__getitem__) - 1]
        else:
            name = str(classes[near[0]]) if near else names[int(said.argmax()) - 1]
        yield (*key, trace, sample), name


def supervision(workspace):
    """Digest of what a mapper learns from: the retrieved patches and the painted pixels."""
    digest = hashlib.sha256()
    for name in ("retrieved.csv", "painted.csv"):
        if (workspace / name).is_file():
            digest.update((workspace / name).read_bytes())
    return digest.hexdigest()[:16] if (workspace / "retrieved.csv").is_file() else ""


def keep_painted(index, path):
    """Set painted samples of the labelled lines of a job to what was painted, with full confidence."""
    table = index.workspace / "painted.csv"
    if not table.is_file():
        return
    group: Any = zarr.open_group(path, mode="r+")
    axes = index.grid.axes
    for (along, label), own in pd.read_csv(table).groupby(["along", "line"], sort=False):
        direction = DIRECTIONS.index(along)
        line = int(np.flatnonzero(axes[direction] == label)[0])
        key = (line,) if direction == 0 else (slice(None), line)
        codes = painted_codes(own.to_dict("records"), list(group.attrs["classes"]), axes[1 - direction], axes[2])
        said = (codes > 0) & (group["confidence"][key] > 0)
        if said.any():
            group["label"][key] = np.where(said, codes, group["label"][key])
            group["confidence"][key] = np.where(said, np.uint8(255), group["confidence"][key])
