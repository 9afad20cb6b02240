"""Fault sticks as files: csv, OpendTect ASCII, Charisma and IRAP classic lines; and their score against others.

OpendTect: a line a point, ``X Y Z stick node``, then the surface; its import asks for the numbers of these columns.
Charisma: ``INLINE- inline crossline X Y Z fault stick``. IRAP classic: ``X Y Z``, and ``999 999 999`` after every
stick; it knows no surfaces. Z is in ms, or in m where the volume is in depth.
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
END = "999.00 999.00 999.00"  # of a stick in an IRAP file
NAME = "Fault_"
SAME = 2.0  # traces between sticks of two tables up to which they are the same


def format_of(path: str | Path, given: str | None = None) -> str:
    """Format of a file: the given one, else by the end of its name.

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
    raise ValueError(f"{path} does not say its format; end its name with one of {known}, or name a format.")


def write_sticks(sticks: pd.DataFrame, path: str | Path, volume: DataArray, *, format: str | None = None) -> None:
    """Write fault sticks.

    Parameters
    ----------
    sticks : DataFrame
        As `fault_sticks` gives them.
    path : path
    volume : DataArray
        Gives X and Y of the points; see `map_grid`. Where they are not known a csv has none, and the other formats have
        the numbers of crosslines and inlines in their place, with a warning.
    format : {"csv", "opendtect", "charisma", "irap"}, optional
        By the end of the name by default: .csv, .dat (also .txt, .asc), .charisma (also .chr), .pol.
    """
    kind, vertical = format_of(path, format), str(volume.dims[2])
    grid = map_grid(volume)
    if not grid.in_metres and kind != "csv":
        warnings.warn(
            f"{path} has crossline and inline numbers in place of X and Y, for the volume has no usable coordinates; "
            "write csv for other programs.",
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
        likelihood where they are known; section if the numbers of sticks start again on every section. OpendTect files need
        X, Y, Z and the number of the stick.
    volume : DataArray
        Gives inline and crossline of X and Y, and the name of the vertical axis.

    Returns
    -------
    DataFrame
        surface, stick, inline, crossline, time (or depth), likelihood (1 where the file has none), and along where the
        file has it. Sticks keep their numbers where the file counts them through; otherwise they are counted in its
        order.
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
        raise ValueError(f"{path} has a point without inline, crossline or {vertical}; give all three of every point.")
    _snap(table, volume)
    table["stick"] = _numbers(table)
    table["surface"] = pd.factorize(table["surface"])[0]
    if "likelihood" not in table:
        table["likelihood"] = 1.0
    return table[["surface", "stick", *volume.dims, "likelihood", *table.columns.intersection(["along"])]]


def _numbers(table: pd.DataFrame) -> Any:
    """Number of the stick of every point: those of the file where each stands for one stick."""
    numbers = pd.to_numeric(table["stick"], errors="coerce")
    counted = pd.factorize(pd.MultiIndex.from_frame(table[["surface", "stick"]]))[0]
    through = pd.Series(counted, table.index).groupby(numbers).nunique().eq(1).all()
    whole = numbers.notna().all() and (numbers >= 0).all() and (numbers % 1 == 0).all()
    return numbers.astype(int) if whole and through else counted


def _snap(table: pd.DataFrame, volume: DataArray) -> None:
    """Put sticks that lie on a line but for rounding exactly on it, in place."""
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
        raise ValueError(f"{path} is no csv ({str(error).splitlines()[0]}); give a table of fault sticks.") from None
    for name in ("stick", "inline", "crossline", vertical):
        if name not in table:
            raise ValueError(f"{path} has no column {name}; it has {', '.join(map(str, table.columns))}.")
    for name in ("inline", "crossline", vertical):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    if "section" in table:
        table["stick"] = table["section"].astype(str) + " " + table["stick"].astype(str)
    if "along" in table and not table["along"].isin(DIRECTIONS).all():
        table = table.drop(columns="along")
    return table if "surface" in table else table.assign(surface=0)


def _from_lines(path: str | Path, kind: str) -> pd.DataFrame:
    """Points of a file that has one in each line."""
    parse, layout = PARSERS[kind]
    points = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        row = line.split()
        if row and not row[0].startswith(("#", "!")):
            try:
                points.append(parse(row))
            except (ValueError, IndexError):
                text = " ".join(row)[:60]
                raise ValueError(f"Line {number} of {path} is {text!r}; a point is written as {layout}.") from None
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
    rest = [label, *row[1:]] if label else row[1:]
    inline, crossline, _, _, z = map(float, rest[:5])
    return {"inline": inline, "crossline": crossline, "z": z, "surface": " ".join(rest[5:-1]), "stick": rest[-1]}


def _irap_point(row: list[str]) -> Point:
    x, y, z = map(float, row)
    return {"x": x, "y": y, "z": z}


PARSERS: dict[str, tuple[Callable[[list[str]], Point], str]] = {
    "opendtect": (_opendtect_point, "X Y Z stick"),
    "charisma": (_charisma_point, "INLINE- inline crossline X Y Z fault stick"),
    "irap": (_irap_point, "X Y Z"),
}


def numbered_as(sticks: pd.DataFrame, before: pd.DataFrame, volume: DataArray) -> pd.DataFrame:
    """Sticks with the numbers that the same ones had before; new ones are counted on.

    Two sticks are the same where they lie on one section, overlap, and are less than two traces apart on average.

    Parameters
    ----------
    sticks, before : DataFrame
        As `fault_sticks` and `read_sticks` give them.
    volume : DataArray
    """
    old = dict(list(before.groupby("stick")))
    numbers: dict[Any, int] = {}
    later = max(old, default=-1) + 1
    for number, points in sticks.groupby("stick"):
        apart = {other: _apart(points, course, volume) for other, course in old.items()}
        nearest = min(apart, key=apart.__getitem__, default=None)
        if nearest is not None and apart[nearest] < SAME:
            numbers[number] = nearest
            del old[nearest]
        else:
            numbers[number], later = later, later + 1
    return sticks.assign(stick=sticks["stick"].map(numbers))


def _apart(one: pd.DataFrame, other: pd.DataFrame, volume: DataArray) -> float:
    """Mean distance of two sticks in traces where they overlap; infinite on different sections."""
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
    """Precision and recall of sticks against an interpreter's, over the sections on which the truth has any.

    Sticks are drawn as lines on their sections; a pixel is right where the other set has one within `tolerance` pixels.

    Returns
    -------
    dict
        sections, precision, recall, F1.
    """
    rows, columns = np.ogrid[-tolerance : tolerance + 1, -tolerance : tolerance + 1]
    disc = rows**2 + columns**2 <= tolerance**2
    truth = _inside(truth, volume)
    drawn, wanted = drawn_sections(found, volume), drawn_sections(truth, volume)
    hits, counts = np.zeros(2), np.zeros(2)  # of what was found, of the truth
    for section, real in wanted.items():
        picked = drawn.get(section, np.zeros_like(real))
        hits += (picked & binary_dilation(real, disc)).sum(), (real & binary_dilation(picked, disc)).sum()
        counts += picked.sum(), real.sum()
    precision, recall = (hits / np.maximum(counts, 1)).tolist()
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"sections": len(wanted), "precision": precision, "recall": recall, "F1": f1}


def _inside(sticks: pd.DataFrame, volume: DataArray) -> pd.DataFrame:
    """Sticks that lie in a volume, at least in part."""
    inside = pd.Series(True, sticks.index)
    for name in volume.dims:
        axis = volume[name].values
        inside &= sticks[name].between(axis.min() - 0.5, axis.max() + 0.5)
    kept = sticks[sticks["stick"].isin(sticks.loc[inside, "stick"])]
    if len(sticks) and not len(kept):
        ranges = ", ".join(f"{name} {sticks[name].min():g} to {sticks[name].max():g}" for name in volume.dims)
        axes = ", ".join(f"{volume[name].values.min():g} to {volume[name].values.max():g}" for name in volume.dims)
        raise ValueError(f"No stick of the truth lies in the volume: it has {ranges}; the volume {axes}.")
    return kept


def drawn_sections(sticks: pd.DataFrame, volume: DataArray) -> dict[tuple[int, int], np.ndarray]:
    """Sticks as lines one pixel wide: (direction, position) -> mask, shape (n_samples, n_traces)."""
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
