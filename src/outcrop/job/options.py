"""Options of the stages of a job, with defaults, units and checks.

Command line, page and Python build these objects; decisions hold only values that differ from the defaults.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from outcrop.mapping.registry import DEFAULT_MAPPING
from outcrop.measures.registry import DEFAULT, indexed_measure
from outcrop.patches.area import area_positions
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.patches.windows import patch_starts
from outcrop.retrieval.index import GRID_OPTIONS, index_inputs
from outcrop.storage.stages import as_json

SIZE = 99  # samples and traces of a patch, as in the paper
PATCHES = 40_000  # maximum number if the step is not given: half a minute on two cores
PARTS = (9, 6, 4, 3)  # size divided by the automatic step, the densest first
AUTO = "auto"  # resets an option to its default
Count = int | str | dict[str, int | str]


@dataclass(frozen=True)
class Options:
    """Options of one stage of the computation, such as the index; base class of the options of each stage."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Build options from the values of a decision; refuse unknown names and invalid values."""
        known = {one.name for one in fields(cls)}
        for name in values.keys() - known:
            raise ValueError(f"Option {name!r} is unknown; choose from {', '.join(sorted(known))}.")
        return cls(**values)

    def updated(self, **given: Any) -> Self:
        """Return options with the given values; None keeps a value, ``auto`` resets it to its default."""
        known = {one.name for one in fields(self)}
        for name in given.keys() - known:
            raise ValueError(f"Option {name!r} is unknown; choose from {', '.join(sorted(known))}.")
        defaults = asdict(type(self)())
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(self, **{name: defaults[name] if _is_auto(value) else value for name, value in chosen.items()})

    def changed(self) -> dict[str, Any]:
        """Return a dict: option -> value, for all values that differ from the defaults; the values have JSON types."""
        defaults = as_json(asdict(type(self)()))
        return {name: value for name, value in as_json(asdict(self)).items() if value != defaults[name]}


@dataclass(frozen=True)
class IndexOptions(Options):
    """Options of the index: its patches, and the measure that compares them.

    Parameters
    ----------
    size : int or (int, int), optional
        Height in samples and width in traces of a patch; by default 99, or less if the volume is smaller.
    step : int or (int, int), optional
        Samples and traces from one patch to the next; by default chosen by the size of the survey.
    every, along, area, between, sample, gain, clip, seed
        As in `PatchGrid`.
    measure : str
        ``encoder``, or ``curvelet-svd`` as in the paper.
    truncate, finest : bool
        Only for ``curvelet-svd``; see `outcrop.MEASURES`.

    Examples
    --------
    >>> IndexOptions(size=64).updated(every=2).changed()
    {'size': 64, 'every': 2}
    >>> IndexOptions(size=64, every=2).updated(size="auto").changed()
    {'every': 2}
    """

    size: int | tuple[int, int] | None = None
    step: int | tuple[int, int] | None = None
    every: int = 1
    along: str = "inline"
    gain: str = "volume"
    clip: float | None = None
    area: dict[str, tuple[float, float]] | None = None
    between: tuple[str, str] | None = None
    sample: int | None = None
    seed: int = 0
    measure: str = DEFAULT
    truncate: bool = True
    finest: bool = True

    def __post_init__(self) -> None:
        for name in ("size", "step"):
            value = getattr(self, name)
            parts = [value] if np.ndim(value) == 0 else list(value)
            if value is not None and not (len(parts) in (1, 2) and all(_whole(part) for part in parts)):
                raise ValueError(f"{name} is {value!r}; give one or two whole numbers of 1 or more.")
        if not _whole(self.every):
            raise ValueError(f"Option every is {self.every!r}; choose 1 (every line), 2 (every second line) or more.")
        if self.along not in (*DIRECTIONS, "both"):
            raise ValueError(f"Direction {self.along!r} is unknown; choose inline, crossline or both.")
        if self.clip is not None and not (_number(self.clip) and self.clip > 0):
            raise ValueError(f"clip is {self.clip!r}; choose a positive amplitude.")
        if not (self.sample is None or _whole(self.sample)) or not _whole(self.seed, 0, 2**63):
            raise ValueError(f"sample is {self.sample!r} and seed {self.seed!r}; give whole numbers.")
        if not (isinstance(self.gain, str) and isinstance(self.measure, str)):
            raise ValueError(f"gain is {self.gain!r} and measure {self.measure!r}; give their names.")
        if not (isinstance(self.truncate, bool) and isinstance(self.finest, bool)):
            raise ValueError(f"truncate is {self.truncate!r} and finest {self.finest!r}; choose True or False.")
        if self.area is not None and not (isinstance(self.area, dict) and all(map(_span, self.area.values()))):
            raise ValueError(f"area is {self.area!r}; give the first and the last value on each axis.")
        paths = () if self.between is None else tuple(self.between)
        if paths and not (len(paths) == 2 and all(isinstance(path, str | Path) for path in paths)):
            raise ValueError(f"between is {self.between!r}; give the files of two horizons.")
        if paths:
            object.__setattr__(self, "between", tuple(str(Path(path).resolve()) for path in paths))

    def fitted(self, shape: tuple[int, int, int]) -> Self:
        """Return these options with size and step filled in for a survey of the given shape.

        Examples
        --------
        >>> IndexOptions().fitted((4, 951, 409)).step, IndexOptions().fitted((600, 951, 462)).step
        ((11, 11), (33, 33))
        """
        across = shape[0 if self.along == "crossline" else 1]
        size = (min(SIZE, shape[2]), min(SIZE, across)) if self.size is None else _pair(self.size)
        found = replace(self, size=size)
        if self.step is None:
            steps = [(max(1, size[0] // part), max(1, size[1] // part)) for part in PARTS]
            step = next((step for step in steps if found.patch_count(shape, step) <= PATCHES), steps[-1])
        else:
            step = _pair(self.step)
        return replace(found, step=step)

    def patch_count(self, shape: tuple[int, int, int], step: tuple[int, int] | None = None) -> int:
        """Return the number of patches of an index on a survey of the given shape, as if all traces were present.

        The area of interest is ignored. `step` replaces the step of these options.
        """
        (height, width), step = _pair(self.size), step or _pair(self.step)
        total = 0
        for direction in (0, 1) if self.along == "both" else (int(self.along == "crossline"),):
            across = shape[1 - direction]
            if shape[2] >= height and across >= width:
                lines = -(-shape[direction] // self.every)
                total += (
                    lines * len(patch_starts(shape[2], height, step[0])) * len(patch_starts(across, width, step[1]))
                )
        return total

    def grid(self, volume: xr.DataArray) -> PatchGrid:
        """Return the grid of the patches in a volume; raise ValueError if the patches do not fit into it."""
        lines, traces, samples = map(len, area_positions(volume, self.area or {}))
        across = {"inline": traces, "crossline": lines}.get(self.along, min(lines, traces))
        height, width = _pair(self.size)
        measure = indexed_measure(asdict(self))
        try:
            measure.blocks((samples, across))
        except ValueError as error:
            raise ValueError(
                f"Patches of {height} x {width} do not fit: sections of {samples} samples and {across} traces are too "
                f"small for any patch. {error} Only searching needs patches: label from exemplars."
            ) from None
        if height > samples and width > across:
            raise ValueError(
                f"Patch size {height} x {width} exceeds the sections of {samples} samples and {across} traces; choose "
                f"{samples} x {across} or less."
            )
        measure.blocks((min(height, samples), min(width, across)))
        return PatchGrid(volume, **{name: getattr(self, name) for name in GRID_OPTIONS})

    def inputs(self, volume_digest: str) -> dict[str, Any]:
        """Return all inputs that determine the descriptors; the cache key of an index is made from them."""
        return index_inputs(volume_digest, as_json(asdict(self)))


@dataclass(frozen=True)
class RetrievalOptions(Options):
    """Options of retrieval: how many patches are retrieved for each class.

    Parameters
    ----------
    count : int, "auto" or dict
        Number of patches of every class, or class -> number; for ``auto`` see `auto_count`.
    per_exemplar : bool
        Divide the number of patches of a class evenly among its exemplars.
    """

    count: Count = AUTO
    per_exemplar: bool = False

    def __post_init__(self) -> None:
        for count in self.count.values() if isinstance(self.count, dict) else [self.count]:
            if count != AUTO and not _whole(count):
                raise ValueError(f"Count is {count}; choose a number of patches of 1 or more, or auto.")
        if not isinstance(self.per_exemplar, bool):
            raise ValueError(f"per_exemplar is {self.per_exemplar!r}; choose True or False.")


@dataclass(frozen=True)
class LabelOptions(Options):
    """Options of labels: the mapping, and which labels are uncertain.

    Parameters
    ----------
    mapping : str
        ``points``, or a name of `outcrop.MAPPERS`.
    seed : int
        Seed of all random numbers of the mapping.
    step : int, optional
        Samples and traces from one patch to the next, for mappings that need patches of one size; by default a third of
        the patch.
    with_jobs : tuple of str
        Folders of jobs on the same volume from which the mapper learns too.
    mapper : str, optional
        Cache key of a mapper that was borrowed from another job.
    min_confidence, max_error : float, optional
        Minimum confidence of a label, or maximum expected share of wrong labels; all other samples are uncertain.
    """

    mapping: str = DEFAULT_MAPPING
    seed: int = 0
    step: int | None = None
    with_jobs: tuple[str, ...] = field(default_factory=tuple)
    mapper: str | None = None
    min_confidence: float | None = None
    max_error: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mapping, str) or not (self.mapper is None or isinstance(self.mapper, str)):
            raise ValueError(f"mapping is {self.mapping!r} and mapper {self.mapper!r}; give their names.")
        if not _whole(self.seed, 0, 2**63):
            raise ValueError(f"seed is {self.seed}; choose a whole number of 0 or more.")
        if self.step is not None and not _whole(self.step):
            raise ValueError(f"step is {self.step}; choose a whole number of 1 or more, or auto.")
        for name in ("min_confidence", "max_error"):
            value = getattr(self, name)
            if value is not None and not (_number(value) and 0 <= value <= 1):
                raise ValueError(f"{name} is {value}; choose a value between 0 and 1.")
        if self.max_error is not None and (self.min_confidence is not None or not 0 < self.max_error < 1):
            raise ValueError(
                f"max_error is {self.max_error}; choose a value above 0 and below 1, and do not give min_confidence too"
                "; to remove both limits, give only min_confidence 0."
            )
        object.__setattr__(self, "with_jobs", tuple(map(str, self.with_jobs)))


def _pair(value: Any) -> tuple[int, int]:
    height, width = np.broadcast_to(value, 2).tolist()
    return int(height), int(width)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _whole(value: Any, least: int = 1, most: int = 10**9) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value < most)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(math.isfinite(value))


def _span(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_number, value))
