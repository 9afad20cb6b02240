"""Weak labels: retrieved patches with their classes, as arrays and as a table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from outcrop.patches.grid import PatchGrid
from outcrop.storage.workspace import damage, whole_file

if TYPE_CHECKING:
    from outcrop.retrieval.index import Index

ARRAYS = ("rows", "classes", "similarity", "exemplar", "starts", "weights", "judge")  # values per patch
FACTS = ("suggested", "accepted", "rejected")  # values per class


@dataclass
class WeakLabels:
    """Retrieved patches with their classes: weak labels.

    Attributes
    ----------
    rows : array of int
        Rows of the patches in the grid, sorted by class; in a class accepted patches come first, then the others by
        rank.
    classes : array of str
        Class of every row.
    similarity : array of float
        Similarity of each patch to the nearest exemplar of its class.
    exemplar : array of int
        Position of this nearest exemplar in the list of exemplars of the class.
    starts : int array, shape (n, 4)
        Start positions of the patches, as in `PatchGrid.starts`. Patches that are not on the grid have row -1.
    grid : PatchGrid
        Grid of the patches.
    curves : dict
        Class -> similarities of the patches nearest to it, in descending order; ten times as many as requested.
    suggested : dict
        Class -> number of patches that `auto_count` suggests.
    weights : array of float
        Estimated probability, in (0, 1], that a patch shows its class. It is not calibrated: use it as a relative
        weight.
    judge : array of int
        Order, from 1 to 20, in which patches of a class should be judged, the most informative first; 0 for other
        patches.
    accepted, rejected : dict
        Class -> rows that an interpreter accepted or rejected; see `outcrop.retrieve`.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = oc.build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> weak = oc.retrieve(index, {"other": [(100, 330, 100)]}, count=2)
    >>> weak.table[["class", "rank"]].values.tolist()
    [['other', 1], ['other', 2]]
    """

    rows: np.ndarray
    classes: np.ndarray
    similarity: np.ndarray
    exemplar: np.ndarray
    starts: np.ndarray
    grid: PatchGrid
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    suggested: dict[str, int] = field(default_factory=dict)
    weights: Any = None
    judge: Any = None
    accepted: dict[str, list[int]] = field(default_factory=dict)
    rejected: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = np.ones(len(self.rows)) if self.weights is None else self.weights
        self.judge = np.zeros(len(self.rows), int) if self.judge is None else self.judge

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def positions(self) -> pd.DataFrame:
        """Table of the centres of the patches: inline, crossline, time or depth, and direction of the section."""
        return self.grid.centres_at(self.starts)

    @property
    def wrong(self) -> dict[str, float]:
        """Estimated share of wrong patches of each class."""
        return {str(name): float(1 - self.weights[self.classes == name].mean()) for name in dict.fromkeys(self.classes)}

    @property
    def table(self) -> pd.DataFrame:
        """Table of the patches: class, rank, similarity, position, exemplar, row, judge and weight."""
        rank = pd.Series(self.classes).groupby(self.classes, sort=False).cumcount() + 1
        similarity = np.round(self.similarity.astype(float), 6)
        first = {"class": self.classes, "rank": rank.to_numpy(), "similarity": similarity}
        last = {"exemplar": self.exemplar, "row": self.rows, "judge": self.judge, "weight": np.round(self.weights, 4)}
        return pd.DataFrame({**first, **dict(self.positions.items()), **last})

    def take(self, chosen: npt.ArrayLike | slice) -> WeakLabels:
        """Return weak labels with the chosen patches only; `chosen` is an array of positions, a mask or a slice."""
        if not isinstance(chosen, slice):
            chosen = np.asarray(chosen)
            chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(int)
        return replace(self, **{name: getattr(self, name)[chosen] for name in ARRAYS})

    def places(self, chosen: npt.ArrayLike | slice) -> dict[str, list[list[Any]]]:
        """Return a dict: class -> positions of the chosen patches, which `outcrop.retrieve` takes as `accepted`."""
        some = self.take(chosen)
        places = some.positions.astype(object).to_numpy()
        return {str(name): places[some.classes == name].tolist() for name in dict.fromkeys(some.classes)}

    def picks(self, n: int) -> np.ndarray:
        """Return up to `n` patches of each class, evenly spaced over the ranks, as positions in `rows`."""
        rows_by_class = [np.flatnonzero(self.classes == name) for name in dict.fromkeys(self.classes)]
        return np.concatenate(
            [rows[np.unique(np.linspace(0, len(rows) - 1, n).round().astype(int))] for rows in rows_by_class]
        )

    def save(self, path: str | Path) -> None:
        """Write the property `table` atomically to a CSV file."""
        with whole_file(path) as aside:
            self.table.to_csv(aside, index=False)

    def save_arrays(self, path: str | Path) -> None:
        """Write all data except the grid atomically into one ``.npz`` file, without rounding."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        arrays |= {f"curve {number}": curve for number, curve in enumerate(self.curves.values())}
        facts = {"curves": list(self.curves)} | {name: getattr(self, name) for name in FACTS}
        with whole_file(path) as aside, open(aside, "wb") as handle:
            np.savez(handle, **arrays, facts=np.array(json.dumps(facts, default=int)))

    @classmethod
    def load_arrays(cls, path: str | Path, grid: PatchGrid) -> WeakLabels:
        """Read a file that `save_arrays` wrote; `grid` is the grid of the patches.

        Raise `ValueError` if the file is damaged.
        """
        with damage(path, "retrieve again"), open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            curves = {name: file[f"curve {number}"] for number, name in enumerate(facts.pop("curves"))}
            return cls(grid=grid, curves=curves, **{name: file[name] for name in ARRAYS}, **facts)


def read_table(path: str | Path, index: Index) -> WeakLabels:
    """Read a table of retrieved patches that `WeakLabels.save` wrote and an interpreter may have edited.

    Patches that are not on the grid of the index have row -1.
    """
    time, grid = index.volume.dims[2], index.grid
    try:
        with open(path, encoding="utf-8-sig") as handle:
            german = handle.readline().count(";") > 2  # as some spreadsheets save it
        spelling: dict[str, Any] = {"sep": ";", "decimal": ","} if german else {}
        table = pd.read_csv(path, dtype={"class": str}, keep_default_na=False, na_values=[""], **spelling)
        places = table[["inline", "crossline", time]].astype(float)
        optional = {"similarity": np.nan, "exemplar": 0, "along": grid.along, "weight": 1.0, "judge": 0}
        table = table.assign(**{name: value for name, value in optional.items() if name not in table})
        empty = {name: value for name, value in optional.items() if name != "similarity"}  # cells of added rows
        table = table.fillna(empty)
        classes, weights = table["class"].astype(str).to_numpy(str), table["weight"].to_numpy(float)
    except (KeyError, ValueError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a table of retrieved patches ({error}); correct it or remove it.") from None
    starts = np.empty((len(table), 4), np.int32)
    for i, (place, along, weight) in enumerate(zip(places.to_numpy(), table["along"], weights, strict=True)):
        if not 0 < weight <= 1:
            raise ValueError(f"{path}, line {i + 2}: weight {weight:g} must be above 0 and at most 1; correct it.")
        try:
            starts[i] = grid.start_at(place, along=along)
        except ValueError as error:
            raise ValueError(f"{path}, line {i + 2}: {error}") from None
    similarity, exemplar = table["similarity"].to_numpy(float), table["exemplar"].to_numpy()
    judge = table["judge"].to_numpy(int)
    return WeakLabels(grid.rows_at(starts), classes, similarity, exemplar, starts, grid, weights=weights, judge=judge)
