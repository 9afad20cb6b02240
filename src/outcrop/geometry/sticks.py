"""Read and write fault sticks as csv, OpendTect ASCII, Charisma or IRAP classic lines; score them against true sticks.

Each row of a file is one point. OpendTect: ``X Y Z stick node surface``; its import asks for the numbers of these
columns. Charisma: ``INLINE- inline crossline X Y Z fault stick``. IRAP classic: ``X Y Z``, with a row ``999 999 999``
after every stick; the file holds no fault surfaces. Z is in ms, or in m if the volume is in depth.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import binary_dilation
from xarray import DataArray

from outcrop.geometry.coordinates import map_grid, positions_on
from outcrop.geometry.surfaces import direction_of
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.workspace import whole_file
from outcrop.volumes.axes import nearest_label, nearest_position

Point = dict[str, float | str]

FORMATS = {
    "csv": (".csv",),
    "opendtect": (".dat", ".txt", ".asc"),
    "charisma": (".charisma", ".chr"),
    "irap": (".pol",),
}
END = "999.00 999.00 999.00"  # row after each stick of an IRAP file
NAME = "Fault_"
SAME = 2.0  # traces; sticks of two tables count as the same below this mean distance


def format_of(path: str | Path, given: str | None = None) -> str:
    """Return the format of a file: `given`, or if this is None, the format to which the suffix of the file belongs.

    Examples
    --------
    >>> format_of("sticks.dat"), format_of("sticks.dat", "charisma")
    ('opendtect', 'charisma')
    """
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"Format {given!r} is unknown; choose one of {', '.join(FORMATS)}.")
        return given
    suffix = Path(path).suffix.lower()
    for name, suffixes in FORMATS.items():
        if suffix in suffixes:
            return name
    known = ", ".join(f"{suffix} ({name})" for name, suffixes in FORMATS.items() for suffix in suffixes)
    raise ValueError(f"The format of {path} is unknown; end its name with one of {known}, or name a format.")


def write_sticks(sticks: pd.DataFrame, path: str | Path, volume: DataArray, *, format: str | None = None) -> None:
    """Write fault sticks to a file.

    Parameters
    ----------
    sticks : DataFrame
        As `fault_sticks` returns them.
    path : path
        File to write.
    volume : DataArray
        The volume of the sticks, which gives X and Y; see `map_grid`. If its coordinates are unknown, a csv has no X
        and Y, and the other formats hold crossline and inline numbers in place of X and Y, with a warning.
    format : {"csv", "opendtect", "charisma", "irap"}, optional
        By default the suffix decides: .csv; .dat, .txt or .asc (OpendTect); .charisma or .chr; .pol (IRAP).
    """
    kind, vertical = format_of(path, format), str(volume.dims[2])
    grid = map_grid(volume)
    if not grid.in_metres and kind != "csv":
        warnings.warn(
            f"{path} has crossline and inline numbers in place of X and Y, because the volume has no usable "
            "coordinates; write a csv file for other programs.",
            stacklevel=2,
        )
    x, y = grid.to_map(sticks["inline"], sticks["crossline"])
    table = sticks.assign(x=x, y=y) if grid.in_metres or kind != "csv" else sticks
    with whole_file(path) as aside, open(aside, "w", encoding="utf-8", newline="\n") as file:
        if kind == "csv":
            table.round({"inline": 3, "crossline": 3, vertical: 3, "likelihood": 3, "x": 2, "y": 2}).to_csv(
                file, index=False
            )
            return
        node = table.groupby("stick").cumcount()
        last = ~table["stick"].duplicated(keep="last")
        for point, number, ends in zip(table.to_dict("records"), node, last, strict=True):
            xyz = f"{point['x']:.2f} {point['y']:.2f} {point[vertical]:.3f}"
            if kind == "irap":
                print(xyz, *([END] if ends else []), sep="\n", file=file)
            elif kind == "opendtect":
                print(xyz, point["stick"], number, point["surface"], file=file)
            else:
                lines = f"INLINE- {point['inline']:.3f} {point['crossline']:.3f}"
                print(lines, xyz, f"{NAME}{point['surface']:04d}", point["stick"], file=file)


def read_sticks(path: str | Path, volume: DataArray, *, format: str | None = None) -> pd.DataFrame:
    """Read fault sticks that `write_sticks` or another program wrote.

    Parameters
    ----------
    path, format
        As in `write_sticks`. A csv needs the columns stick, inline, crossline and time (or depth); surface and
        likelihood are optional; section is needed if stick numbers start again on every section. OpendTect files need
        X, Y, Z and the stick number.
    volume : DataArray
        The volume of the sticks, which gives the map (see `map_grid`) and the name of the vertical axis.

    Returns
    -------
    DataFrame
        surface, stick, inline, crossline, time (or depth), likelihood (1 if the file has none), and along if the file
        has it. Stick numbers of the file are kept if each belongs to one stick; else sticks are numbered in the order
        of the file.
    """
    kind, vertical = format_of(path, format), str(volume.dims[2])
    try:
        table = _from_csv(path, vertical) if kind == "csv" else _from_lines(path, kind)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text ({error.reason}); give a file of fault sticks in {kind}.") from None
    if not len(table):
        raise ValueError(f"{path} holds no points; give a file of fault sticks in {kind}.")
    if kind in ("opendtect", "irap"):
        table["inline"], table["crossline"] = map_grid(volume).to_lines(table["x"], table["y"])
    table = table.rename(columns={"z": vertical})
    numeric = table[list(volume.dims)].to_numpy(float)
    if not np.isfinite(numeric).all():
        raise ValueError(f"{path} has a point without inline, crossline or {vertical}; give all three for every point.")
    _snap(table, volume)
    table["stick"] = _numbers(table)
    table["surface"] = pd.factorize(table["surface"])[0]
    if "likelihood" not in table:
        table["likelihood"] = 1.0
    return table[["surface", "stick", *volume.dims, "likelihood", *table.columns.intersection(["along"])]]


def _numbers(table: pd.DataFrame) -> Any:
    """Return the stick number of every point.

    The numbers of the file are kept if they are integers from 0 and each belongs to one stick; else sticks are numbered
    in the order of the file.
    """
    numbers = pd.to_numeric(table["stick"], errors="coerce")
    counted = pd.factorize(pd.MultiIndex.from_frame(table[["surface", "stick"]]))[0]
    unique = pd.Series(counted, table.index).groupby(numbers).nunique().eq(1).all()
    are_integers = numbers.notna().all() and (numbers >= 0).all() and (numbers % 1 == 0).all()
    return numbers.astype(int) if are_integers and unique else counted


def _snap(table: pd.DataFrame, volume: DataArray) -> None:
    """Move sticks, in place, to the nearest line of the volume if their line numbers differ only by rounding."""
    for _, points in table.groupby(["surface", "stick"]):
        name = DIRECTIONS[direction_of(points)]
        axis = volume[name].values
        nearest = nearest_label(axis, points[name].mean())
        if np.abs(points[name] - nearest).max() < 0.05:
            table.loc[points.index, name] = nearest


def _from_csv(path: str | Path, vertical: str) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path} is not csv ({str(error).splitlines()[0]}); give a table of fault sticks.") from None
    for name in ("stick", "inline", "crossline", vertical):
        if name not in table:
            raise ValueError(f"{path} has no column {name}, only {', '.join(map(str, table.columns))}; add the column.")
    for name in ("inline", "crossline", vertical):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    if "section" in table:
        table["stick"] = table["section"].astype(str) + " " + table["stick"].astype(str)
    if "along" in table and not table["along"].isin(DIRECTIONS).all():
        table = table.drop(columns="along")
    return table if "surface" in table else table.assign(surface=0)


def _from_lines(path: str | Path, kind: str) -> pd.DataFrame:
    """Read a file with one point in each row, in the format `kind`, and return a table of the points."""
    parse, layout = PARSERS[kind]
    points = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        row = line.split()
        if row and not row[0].startswith(("#", "!")):
            try:
                points.append(parse(row))
            except (ValueError, IndexError):
                text = " ".join(row)[:60]
                raise ValueError(f"Row {number} of {path} is {text!r}; write each point as {layout}.") from None
    table = pd.DataFrame(points)
    if kind == "irap" and len(table):
        ends = (table[["x", "y", "z"]] == float(END.split()[0])).all(axis=1)
        table = table.assign(stick=ends.cumsum(), surface="0")[~ends]
    return table


def _opendtect_point(row: list[str]) -> Point:
    x, y, z = map(float, row[:3])
    return {"x": x, "y": y, "z": z, "stick": int(float(row[3])), "surface": row[5] if len(row) > 5 else "0"}


def _charisma_point(row: list[str]) -> Point:
    if not row[0].upper().startswith(("INLINE-", "CROSSLINE-", "XLINE-")):
        raise ValueError
    label = row[0].split("-", 1)[1]
    fields = [label, *row[1:]] if label else row[1:]
    inline, crossline, _, _, z = map(float, fields[:5])
    return {"inline": inline, "crossline": crossline, "z": z, "surface": " ".join(fields[5:-1]), "stick": fields[-1]}


def _irap_point(row: list[str]) -> Point:
    x, y, z = map(float, row)
    return {"x": x, "y": y, "z": z}


PARSERS: dict[str, tuple[Callable[[list[str]], Point], str]] = {
    "opendtect": (_opendtect_point, "X Y Z stick"),
    "charisma": (_charisma_point, "INLINE- inline crossline X Y Z fault stick"),
    "irap": (_irap_point, "X Y Z"),
}


def numbered_as(sticks: pd.DataFrame, before: pd.DataFrame, volume: DataArray) -> pd.DataFrame:
    """Return sticks, each with the number of the same stick in an earlier table; all other sticks get new numbers.

    Two sticks are the same if they lie on one section, overlap in depth, and have a mean distance below two traces.

    Parameters
    ----------
    sticks, before : DataFrame
        The new and the earlier sticks, as `fault_sticks` and `read_sticks` return them.
    volume : DataArray
        The volume of the sticks.
    """
    old = dict(list(before.groupby("stick")))
    numbers: dict[Any, int] = {}
    unused = max(old, default=-1) + 1
    for number, points in sticks.groupby("stick"):
        distances = {other: _mean_distance(points, other_points, volume) for other, other_points in old.items()}
        nearest = min(distances, key=distances.__getitem__, default=None)
        if nearest is not None and distances[nearest] < SAME:
            numbers[number] = nearest
            del old[nearest]
        else:
            numbers[number], unused = unused, unused + 1
    return sticks.assign(stick=sticks["stick"].map(numbers))


def _mean_distance(one: pd.DataFrame, other: pd.DataFrame, volume: DataArray) -> float:
    """Return the mean distance of two sticks in traces over their common times or depths.

    The distance is infinite if the sticks lie on different sections or have no common times or depths.
    """
    direction, vertical = direction_of(one), volume.dims[2]
    name, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    if direction_of(other) != direction or one[name].iloc[0] != other[name].iloc[0]:
        return np.inf
    first, last = max(one[vertical].min(), other[vertical].min()), min(one[vertical].max(), other[vertical].max())
    if first >= last:
        return np.inf
    at = np.linspace(first, last, 9)
    both = (np.interp(at, *part.sort_values(vertical)[[vertical, across]].to_numpy(float).T) for part in (one, other))
    step = np.abs(np.diff(volume[across].values[:2])).max(initial=1)
    return float(np.abs(next(both) - next(both)).mean() / step)


def stick_scores(
    found: pd.DataFrame, truth: pd.DataFrame, volume: DataArray, *, tolerance: int = 3
) -> dict[str, float]:
    """Return precision and recall of sticks against an interpreter's sticks, over the sections with a true stick.

    Sticks are drawn as lines on their sections. A pixel of a stick is right if a stick of the other table has a pixel
    within `tolerance` pixels.

    Parameters
    ----------
    found, truth : DataFrame
        The sticks to score and the interpreter's sticks, as `fault_sticks` and `read_sticks` return them.
    volume : DataArray
        The volume of the sticks.
    tolerance : int
        Distance in samples and traces.

    Returns
    -------
    dict
        ``sections`` (their number), ``precision``, ``recall`` and ``F1``.
    """
    rows, columns = np.ogrid[-tolerance : tolerance + 1, -tolerance : tolerance + 1]
    disc = rows**2 + columns**2 <= tolerance**2
    truth = _inside(truth, volume)
    drawn, wanted = drawn_sections(found, volume), drawn_sections(truth, volume)
    hits, counts = np.zeros(2), np.zeros(2)  # pixels of the found sticks, and of the true sticks
    for section, real in wanted.items():
        picked = drawn.get(section, np.zeros_like(real))
        hits += (picked & binary_dilation(real, disc)).sum(), (real & binary_dilation(picked, disc)).sum()
        counts += picked.sum(), real.sum()
    precision, recall = (hits / np.maximum(counts, 1)).tolist()
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"sections": len(wanted), "precision": precision, "recall": recall, "F1": f1}


def _inside(sticks: pd.DataFrame, volume: DataArray) -> pd.DataFrame:
    """Return the sticks that lie at least partly in a volume."""
    inside = pd.Series(True, sticks.index)
    for name in volume.dims:
        axis = volume[name].values
        inside &= sticks[name].between(axis.min() - 0.5, axis.max() + 0.5)
    kept = sticks[sticks["stick"].isin(sticks.loc[inside, "stick"])]
    if len(sticks) and not len(kept):
        ranges = ", ".join(f"{name} {sticks[name].min():g} to {sticks[name].max():g}" for name in volume.dims)
        axes = ", ".join(f"{volume[name].values.min():g} to {volume[name].values.max():g}" for name in volume.dims)
        raise ValueError(
            f"No true stick lies in the volume: the sticks have {ranges}; the volume has {axes}. Give sticks of this "
            "volume."
        )
    return kept


def drawn_sections(sticks: pd.DataFrame, volume: DataArray) -> dict[tuple[int, int], np.ndarray]:
    """Return a dict: (direction, index of a line) -> mask of this section, with its sticks drawn as lines.

    The direction is 0 for inlines and 1 for crosslines. The lines are one pixel wide, and a mask has the shape
    (n_samples, n_traces). Sections without sticks are left out.
    """
    masks: dict[tuple[int, int], np.ndarray] = {}
    axes = {str(name): volume[name].values for name in volume.dims}
    for _, points in sticks.groupby("stick"):
        direction, down = direction_of(points), str(volume.dims[2])
        along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
        line = nearest_position(axes[along], points[along].iloc[0])
        mask = masks.setdefault((direction, line), np.zeros((len(axes[down]), len(axes[across])), bool))
        trace, sample = (positions_on(axes[name], points[name]) for name in (across, down))
        steps = (2 * np.maximum(np.abs(np.diff(trace)), np.abs(np.diff(sample)))).astype(int) + 2
        at = np.concatenate([np.zeros(0), *(np.linspace(k, k + 1, n) for k, n in enumerate(steps))])
        i, j = (np.rint(np.interp(at, np.arange(len(points)), part)).astype(int) for part in (sample, trace))
        inside = (i >= 0) & (i < mask.shape[0]) & (j >= 0) & (j < mask.shape[1])
        mask[i[inside], j[inside]] = True
    return masks
