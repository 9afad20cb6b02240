"""An index of descriptors on disk, exact search in it, and the patches that look like an interpreter's exemplars."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
import zarr
from scipy.ndimage import zoom
from zarr.codecs import Crc32cCodec, ZstdCodec

from outcrop.arrays import device_list, to_numpy
from outcrop.measures.core import indexed_measure
from outcrop.parallel import map_blocks, memory_budget, spans
from outcrop.patches import PatchGrid, by_rms, quiet
from outcrop.retrieval.feedback import SAMPLE, learn, rooted
from outcrop.storage.chunks import clear_leftovers, confirm_chunks, write_chunks
from outcrop.storage.stages import Stages
from outcrop.storage.workspace import Damaged, DoneLog, Workspace, damage, whole_file
from outcrop.volumes.identity import LineLog, check_lines, checked_volume, line_digest, lines_path, reopen, untouched

BLOCK = 1024  # patches described, written and resumed as one
USED, MISSING, QUIET = range(3)  # why a row has no descriptor: NaN inside, or nothing to see
CODE = 1  # raised when the same inputs would give other descriptors
GRID_OPTIONS = ("size", "step", "along", "every", "area", "between", "sample", "gain", "clip", "seed")
NEAREST, MOST = 9, 100  # the knee is looked for in the nearest ninth of the index; no more than a mapper learns from
REFERENCES, NEIGHBOURS = 500, 20  # retrieved patches of a class to compare with, and how many of them are near
RANKING = 45  # bytes a patch and class that ranking takes, measured
KEPT = 4  # more than any relevance, so that accepted patches come first
UNKNOWN = 255  # status of a row that was not looked at yet
REMEDY = "run the same command again and it is described anew"
LEARNT = 0.5  # share of what was learnt from yes and no in the relevance of a patch
RESIDENT = 0.25  # share of the memory of a search that descriptors may take to stay there
AHEAD = 4  # times as many rows as are asked for are sorted at first
COLUMNS = 256  # similarities to so many queries are kept while an index is open
NEAR_LINES = 10  # lines within which a patch at the same place is a near-copy


class Index:
    """Descriptors of all patches of a grid, in a job folder.

    Attributes
    ----------
    key : str
        Under which it lies among the stages of the job.
    grid : PatchGrid
        Where the patches lie.
    volume : DataArray
        The volume they were cut from.
    features : zarr.Array, shape (n, n_values)
        Their descriptors, zero where `status` is not 0.
    status : array, shape (n,)
        0 described, 1 touches a missing sample, 2 muted, water or constant.
    client : distributed.Client or None
        A Dask cluster to search on, shard by shard; its workers read the job folder.
    memory : int or None
        Bytes that a search may use; None for a quarter of the machine.
    """

    client: Any = None
    memory: int | None = None

    def __init__(self, path, key, volume, grid, measure):
        self.workspace, self.key = Workspace(path), key
        self.volume, self.grid, self.measure = volume, grid, measure
        self.edges = np.cumsum([0, *measure.blocks(grid.size)])
        self._held: Any = None
        self._columns: dict = {}
        length = int(self.edges[-1])
        store = Stages(path).path("index", key) / "features.zarr"
        with damage(store, REMEDY):
            group = open_features(store, len(grid), length)
            self.features, self.status = group["features"], group["status"][:]
            if (self.status > QUIET).any():
                raise ValueError("rows are missing")

    def __len__(self):
        return len(self.status)

    def descriptors(self, rows):
        """Descriptors of a slice or of some rows; from memory once all of them were read and fit there."""
        with damage(self.features.store, REMEDY):
            if self._held is None and self.features.nbytes <= RESIDENT * (self.memory or memory_budget()):
                self._held = self.features[:]
            if self._held is not None:
                return self._held[rows]
            return self.features[rows] if isinstance(rows, slice) else self.features.oindex[rows]

    @property
    def table(self) -> pd.DataFrame:
        """Centres of the patches in survey labels."""
        return self.grid.table


def build_index(
    volume: xr.DataArray,
    grid: PatchGrid,
    path: str | Path,
    *,
    measure: str = "curvelet-svd",
    truncate: bool = True,
    finest: bool = True,
    workers: int | None = None,
    client: Any = None,
    memory: int | None = None,
    device: str | None = None,
    progress: Callable | None = None,
    known: dict | None = None,
) -> "Index":
    """Describe every patch of a grid and keep the descriptors in a job folder.

    A run that was interrupted goes on where it was, and one whose volume and parameters are unchanged reads nothing. An
    index of another volume or with other parameters is kept under a key of its own; none replaces another.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it.
    grid : PatchGrid
        The patches.
    path : path
        The job folder, by convention ``NAME.outcrop``.
    measure : str
        How patches are compared: a name from `outcrop.measures.core.INDEXED`.
    truncate, finest : bool
        Of ``curvelet-svd``, see `CurveletSVD`.
    workers : int, optional
        Threads; all cores by default.
    client : distributed.Client, optional
        A Dask cluster to describe on instead; its workers write what they describe into the job folder.
    memory : int, optional
        Bytes to use, a quarter of the machine by default; it bounds the patches held at once and the threads.
    device : str, optional
        A torch device such as ``cuda`` (all GPUs that are visible), or several, ``cuda:0,cuda:1``, that describe what
        threads cut; not with a cluster.
    progress : callable, optional
        Called with the number of patches done so far.
    known : dict, optional
        What `take_volume` gave for this volume before; by default the volume is recorded as that of the job.

    Returns
    -------
    Index

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> len(index.grid), index.features.shape
    (24, (24, 53))
    """
    options = grid_options(grid) | {"measure": measure, "truncate": truncate, "finest": finest}
    chosen = indexed_measure(options)
    length = sum(chosen.blocks(grid.size))
    known, stages = known or checked_volume(path, volume), Stages(path)
    key = stages.begin("index", index_inputs(known["digest"], options))
    workspace, memory = Workspace(path), memory or memory_budget()
    group = _prepare(stages, key, grid, length)
    log = DoneLog(stages.path("index", key) / "features.done")
    done = _sound_blocks(log, group["status"][:])
    blocks = [span for span in spans(len(grid), BLOCK) if span.start // BLOCK not in done]
    finished = len(grid) - sum(span.stop - span.start for span in blocks)
    begin = time.monotonic()
    patch = 4 * grid.size[0] * grid.size[1]
    at_once = int(np.clip(memory // (16 * patch) // 32 * 32, 32, BLOCK))
    devices = [] if client else device_list(device)
    describe = partial(_describe, volume, grid, chosen, length, at_once, untouched(volume), devices)
    cost = 2 * at_once * patch + 8 * BLOCK * length
    numbered = [(span.start // BLOCK, span) for span in blocks]
    clear_leftovers(group["features"], 0, [number for number, _ in numbered])
    where: Any = {"workers": workers, "client": client, "memory": memory, "cost": cost}
    written = map_blocks(partial(_describe_into, group, describe), numbered, **where)
    lines = LineLog(lines_path(path, known["digest"]))
    with contextlib.closing(written):  # an error here ends the threads before it goes on
        for (number, span), (seals, digests) in zip(numbered, written, strict=True):
            check_lines(path, lines, digests)
            for name, seal in seals.items():
                confirm_chunks(group[name], 0, number, seal)
            log.add(number)
            finished += span.stop - span.start
            if progress:
                progress(finished)
    stages.note("index", key, -(-len(grid) // BLOCK))
    if blocks:
        workspace.log("index", key=key, patches=len(grid), seconds=round(time.monotonic() - begin, 3))
    return Index(path, key, volume, grid, chosen)


def _sound_blocks(log, status):
    """Numbers of the blocks that are described; one whose rows are gone is taken out of the log."""
    done = log.read()
    for block in sorted(done):
        if (status[block * BLOCK : (block + 1) * BLOCK] > QUIET).any():
            log.drop(block)
    return log.read()


def finished_index(stages, key):
    """Whether all blocks of an index are described, and none of them was found damaged since."""
    counts = [int(words[1]) for words in stages.journal("index") if words[0] == key and len(words) == 2]
    done = DoneLog(stages.path("index", key) / "features.done").read()
    return bool(counts) and done >= set(range(counts[-1]))


def index_inputs(volume_digest, options):
    """Everything that descriptors are made from.

    Parameters
    ----------
    volume_digest : str
        Of `take_volume`.
    options : dict
        Of `PatchGrid` and of the measure.
    """
    measure = options.get("measure") or "curvelet-svd"
    plain = {name: options.get(name) for name in (*GRID_OPTIONS, "truncate", "finest", "part")}
    if options.get("between"):
        files = (Path(path).read_bytes() for path in options["between"])
        plain["between"] = [hashlib.sha256(text).hexdigest() for text in files]
    inputs = {"volume": volume_digest, "measure": measure, "code": CODE, **plain}
    return inputs | indexed_measure(options).inputs()


def grid_options(grid):
    """Options of a grid as they were given, in plain values."""
    options = grid.parameters | {"clip": grid.given_clip, "size": list(grid.size), "step": list(grid.step)}
    if grid._drawn is not None and not grid.sample:
        options["part"] = _plan(grid)
    return options


def open_index(path: str | Path, *, volume: xr.DataArray | None = None) -> "Index":
    """Open the index of a job folder that was built last.

    Parameters
    ----------
    path : path
        The job folder.
    volume : DataArray, optional
        The volume, where it is not a file or has moved; by default it is opened from where it was.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> path = f"{tempfile.mkdtemp()}/survey.outcrop"
    >>> built = oc.build_index(volume, oc.PatchGrid(volume, size=32, step=16), path)
    >>> open_index(path, volume=volume).key == built.key
    True
    """
    workspace, stages = Workspace(path), Stages(path)
    workspace.read()
    key = stages.last("index")
    if key is None or not finished_index(stages, key):
        raise ValueError(f"The index of {path} is not finished; run the same 'outcrop index' again and it goes on.")
    volume = reopen(path) if volume is None else volume
    known = checked_volume(path, volume)
    inputs = stages.facts("index", key)["inputs"]
    if inputs["volume"] != known["digest"]:
        raise ValueError(f"The volume of job {path} changed since it was indexed; index it again.")
    if inputs["part"] or inputs["between"]:
        raise ValueError(f"The index of {path} is of a part of a plan; open it with build_index and the same grid.")
    grid = PatchGrid(volume, **{name: inputs[name] for name in GRID_OPTIONS})
    return Index(path, key, volume, grid, indexed_measure(inputs))


def _plan(grid):
    digest = hashlib.sha256()
    for *_, rows in grid.lines():
        digest.update(grid.places(rows).tobytes())
    return digest.hexdigest()[:16]


def _prepare(stages, key, grid, length):
    """Group of the index arrays: the one that is there, a fresh one where there is none or it cannot be opened."""
    store, n = stages.path("index", key) / "features.zarr", len(grid)
    if store.is_dir():
        try:
            with damage(store, "it is described anew"):
                group = open_features(store, n, length, mode="r+")
                group["status"][:]
                return group
        except ValueError:  # damaged; what the disk refuses is an OSError and goes on to the user
            for name in ("features.done", "features.zarr"):
                stages.set_aside("index", key, name)
    with whole_file(store) as aside:
        group = zarr.open_group(aside, mode="w")
        rows = min(BLOCK, n)
        checked: Any = {"compressors": [ZstdCodec(), Crc32cCodec()]}
        group.create_array("features", shape=(n, length), chunks=(rows, length), dtype="float32", **checked)
        group.create_array("status", shape=(n,), chunks=(rows,), dtype="uint8", fill_value=UNKNOWN, **checked)
    return open_features(store, n, length, mode="r+")


def open_features(store, n, length, *, mode="r"):
    """Zarr group of an index of `n` rows of `length` values; refused where its arrays are not those."""
    group: Any = zarr.open_group(store, mode=mode)
    rows = min(BLOCK, n)
    for name, shape, dtype in (("features", (length,), "float32"), ("status", (), "uint8")):
        array = group[name]
        if (array.shape, array.chunks, array.dtype) != ((n, *shape), (rows, *shape), dtype):
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape} in chunks of {array.chunks}")
    return group


def drop_damaged(path, index):
    """Note which blocks of an index cannot be read, so that the next `build_index` describes them again."""
    log = DoneLog(Stages(path).path("index", index.key) / "features.done")
    for span in spans(len(index), BLOCK):
        try:
            with damage(index.features.store, REMEDY):
                sound = index.features[span][index.status[span] == USED].any(axis=1).all()
        except ValueError:
            sound = False
        if not sound:
            log.drop(span.start // BLOCK)


def _describe_into(group, describe, block):
    """Describe a block and write it where this runs; seals of its chunks, and digests of its lines."""
    number, span = block
    features, status, digests = describe(span)
    seals = {name: write_chunks(group[name], 0, number, values)
             for name, values in (("features", features), ("status", status))}  # fmt: skip
    return seals, digests


def _describe(volume, grid, measure, length, at_once, check, devices, span):
    """Features and status of one block of patches, some of them at once, and digests of the lines they lie on."""
    features = np.zeros((span.stop - span.start, length), np.float32)
    status = np.zeros(span.stop - span.start, np.uint8)
    device = devices[span.start // BLOCK % len(devices)] if devices else None
    for part in spans(len(status), at_once):
        patches = grid.extract(volume, slice(span.start + part.start, span.start + part.stop))
        used = np.where(np.isfinite(patches).all(axis=(1, 2)), USED, MISSING)
        used[(used == USED) & quiet(patches)] = QUIET
        features[part][used == USED] = _described(measure, patches[used == USED], device)
        status[part] = used
    lines = np.unique(grid.places(span)[:, :2], axis=0) if check else ()
    return features, status, {(d, i): line_digest(volume[(slice(None),) * d + (i,)].values) for d, i in lines}


def _described(measure, patches, device):
    """Descriptors of patches, on a torch device where one is given."""
    if device is None:
        return measure.describe(patches, workers=1)
    import torch

    return to_numpy(measure.describe(torch.from_numpy(np.ascontiguousarray(patches)).to(device)))


@dataclass
class WeakLabels:
    """Patches that were retrieved, with the class of the exemplar they look like.

    Attributes
    ----------
    rows : array of int
        Rows of the grid, class by class, the most similar first; with feedback the accepted, then the most relevant.
    classes : array of str
        Class of every row.
    similarity : array of float
        To the exemplar it resembles most.
    exemplar : array of int
        Which of its class's exemplars that is; accepted patches count on after the exemplars.
    positions : DataFrame
        Centres in survey labels.
    lost : dict
        Per class, how many patches it wanted went to a class they resemble more.
    curves : dict
        Per class, the similarity (with feedback the relevance) of the first patches in falling order, ten times as many
        as asked for.
    suggested : dict
        Per class, how many patches `auto_count` would take.
    weights : array of float
        How likely each patch is right, in (0, 1]; an estimate without truth, good for weighting one against the other.
    accepted, rejected : dict
        Per class, the rows an interpreter said yes and no to; see `refine`.
    request : dict
        What was asked for, so that `refine` can ask again; empty where the labels were read from a file.

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
    positions: pd.DataFrame
    lost: dict = field(default_factory=dict)
    curves: dict = field(default_factory=dict)
    suggested: dict = field(default_factory=dict)
    weights: Any = None
    accepted: dict = field(default_factory=dict)
    rejected: dict = field(default_factory=dict)
    request: dict = field(default_factory=dict, repr=False)

    def __post_init__(self):
        self.weights = np.ones(len(self.rows)) if self.weights is None else self.weights

    def __len__(self):
        return len(self.rows)

    @property
    def wrong(self) -> dict[str, float]:
        """Estimated share of wrong patches, by class."""
        return {str(name): float(1 - self.weights[self.classes == name].mean()) for name in dict.fromkeys(self.classes)}

    @property
    def table(self) -> pd.DataFrame:
        """Everything as a DataFrame: class, rank, similarity, position, exemplar, row and weight."""
        rank = pd.Series(self.classes).groupby(self.classes, sort=False).cumcount() + 1
        own = {"class": self.classes, "rank": rank.to_numpy(), "similarity": np.round(self.similarity, 6)}
        last = {"exemplar": self.exemplar, "row": self.rows, "weight": np.round(self.weights, 4)}
        return pd.DataFrame({**own, **dict(self.positions.items()), **last})

    def take(self, chosen: npt.ArrayLike) -> "WeakLabels":
        """Some of the patches alone."""
        chosen = np.flatnonzero(chosen) if np.asarray(chosen).dtype == bool else np.asarray(chosen)
        names = ("rows", "classes", "similarity", "exemplar", "weights")
        arrays = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, positions=self.positions.iloc[chosen].reset_index(drop=True), **arrays)

    def picks(self, n: int) -> np.ndarray:
        """Positions of about `n` patches per class, evenly spaced over the ranks, the first and the last among them."""
        own = [np.flatnonzero(self.classes == name) for name in dict.fromkeys(self.classes)]
        return np.concatenate([rows[np.unique(np.linspace(0, len(rows) - 1, n).round().astype(int))] for rows in own])

    def save(self, path: str | Path) -> None:
        """Write the table as CSV, whole or not at all."""
        with whole_file(path) as aside:
            self.table.to_csv(aside, index=False)


def retrieve(
    index: "Index",
    exemplars: Mapping[str, Sequence[Sequence[float]]],
    count: int | str | Mapping[str, int | str] = "auto",
    *,
    per_exemplar: bool = False,
    diverse: bool = False,
    device: str | None = None,
    accepted: Mapping[str, Sequence[int]] | None = None,
    rejected: Mapping[str, Sequence[int]] | None = None,
) -> "WeakLabels":
    """Patches that look most like the exemplars of each class.

    Parameters
    ----------
    index : Index
        Of the volume.
    exemplars : dict
        Class name -> list of exemplars: positions (inline, crossline, time) of their centres, cut exactly there, or
        arrays of the patch size with values in [0, 1]. A 2-D DataArray with ``attrs["sample_interval"]`` (ms or m) and
        ``attrs["trace_spacing"]`` (m) is resampled to the sampling of the volume.
    count : int, dict or "auto"
        Patches for every class, or class name -> patches or ``auto``: as many as `auto_count` says.
    per_exemplar : bool
        Share the count evenly among the exemplars of a class; otherwise the best match counts.
    diverse : bool
        Skip near-copies: patches that overlap a better one by more than half within ten lines.
    device : str, optional
        A torch device to search on, for instance ``cuda``; by default NumPy on all cores.
    accepted, rejected : dict, optional
        Class name -> places (inline, crossline, time, direction) of patches an interpreter said yes and no to. They
        hold for the patch of the index that all but covers them (see `rows_near`); one that lies elsewhere serves as a
        further exemplar, or as something that the patches should not look like.

    Returns
    -------
    WeakLabels

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = oc.build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> weak = retrieve(index, {"fault": [(100, 330, 100)], "other": [(101, 330, 200)]}, count=3)
    >>> weak.classes.tolist()
    ['fault', 'fault', 'fault', 'other', 'other', 'other']
    """
    if not exemplars or not all(len(places) for places in exemplars.values()):
        raise ValueError(
            "Every class needs at least one exemplar; give some as {'fault': [(inline, crossline, time)]}."
        )
    patches = {name: np.stack([exemplar_patch(index, place) for place in some]) for name, some in exemplars.items()}
    queries = {name: index.measure.describe(some) for name, some in patches.items()}
    yes, wanted = _verdict_rows(index, accepted or {}, exemplars)
    no, unwanted = _verdict_rows(index, rejected or {}, exemplars)
    queries = {name: np.concatenate([some, wanted[name]]) for name, some in queries.items()}
    options = {"per_exemplar": per_exemplar, "diverse": diverse, "device": device, "unwanted": unwanted}
    return _ask(index, queries, count, **options, accepted=yes, rejected=no)


def _verdict_rows(index, verdicts, classes):
    """Rows that a yes or no holds for, and descriptors of the patches that are no row of the index; by class."""
    rows: dict = {name: [] for name in classes}
    others = {name: np.empty((0, index.features.shape[1]), "f4") for name in classes}
    for name in classes:
        places = verdicts.get(name, [])
        starts = [start for place in places if (start := _start(index.grid, place)) is not None]
        near = rows_near(index.grid, np.array(starts).reshape(-1, 4))
        on = (near >= 0) & (index.status[near] == USED)
        rows[name] = sorted(set(near[on].tolist()))
        if not on.all():
            patches = index.grid.cut(index.volume, np.array(starts)[~on])
            patches = patches[np.isfinite(patches).all(axis=(1, 2))]
            others[name] = index.measure.describe(patches) if len(patches) else others[name]
    return rows, others


def _start(grid, place):
    """Start of the patch around a place and direction, None where it does not fit into the volume."""
    try:
        return grid.start_at(place[:3], along=place[3])
    except ValueError:
        return None


def rows_near(grid, starts):
    """Row of the patch that covers at least three quarters of each of some patches, -1 where none does.

    Parameters
    ----------
    grid : PatchGrid
    starts : array, shape (n, 4)
    """
    lines = {head: number for number, head in enumerate(map(tuple, grid._heads.tolist()))}
    first = np.concatenate([[0], grid._ends[:-1]])
    found = np.full(len(starts), -1)
    for i, (direction, line, *corner) in enumerate(starts.tolist()):
        number = lines.get((direction, line))
        if number is not None:
            off = np.abs(grid._on_line(number)[:, 2:] - corner) / (grid.size[1], grid.size[0])
            nearest = int(off.sum(axis=1).argmin())
            if (1 - off[nearest]).clip(0).prod() >= 0.75:
                found[i] = first[number] + nearest
    return found


def refine(
    index: "Index",
    weak: "WeakLabels",
    *,
    accept: Sequence[int] = (),
    reject: Sequence[int] = (),
    count: int | str | Mapping[str, int | str] | None = None,
) -> "WeakLabels":
    """Rank the patches again by an interpreter's yes and no to some of those that were retrieved.

    Parameters
    ----------
    index : Index
        Of the volume.
    weak : WeakLabels
        As `retrieve` or this function gave it.
    accept, reject : sequence of int, or dict
        Rows of `weak` that show the class they were retrieved for, and rows that do not; or class name -> rows of the
        grid. They add to the yes and no that `weak` has already; the last word on a row counts.
    count : int, dict or "auto", optional
        As in `retrieve`; by default what was asked before.

    Returns
    -------
    WeakLabels
        Accepted patches stay, first in their class, and are further exemplars of it. Rejected ones never come back.

    Notes
    -----
    With y the similarity of a patch to the nearest exemplar or accepted patch of a class and n that to the nearest
    rejected one, a patch has the relevance y where nobody judged patches of the class. Otherwise it is the mean of
    y + (y - n), or of y where nothing was rejected, and of what a ridge regression learns from yes, no and the survey
    as background; see `feedback.learn`.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> index = oc.build_index(volume, grid, f"{tempfile.mkdtemp()}/survey.outcrop")
    >>> weak = oc.retrieve(index, {"other": [(100, 330, 100)]}, count=4)
    >>> better = refine(index, weak, accept=[weak.rows[1]], reject=[weak.rows[3]])
    >>> bool(better.rows[0] == weak.rows[1]), weak.rows[3] in better.rows
    (True, False)
    """
    if not weak.request:
        raise ValueError("These weak labels were read from a file, without their exemplars; retrieve them again.")
    yes, no = _verdicts(index, weak, accept), _verdicts(index, weak, reject)
    for row in yes.keys() & no.keys():
        raise ValueError(f"Row {row} is both accepted and rejected; say one of them.")
    kept, dropped = _by_row(weak.accepted) | yes, _by_row(weak.rejected) | no
    accepted, rejected = (
        {name: sorted(row for row, own in rows.items() if own == name and row not in revoked) for name in weak.accepted}
        for rows, revoked in ((kept, no), (dropped, yes))
    )
    asked = weak.request | ({} if count is None else {"count": count})
    return _ask(index, **asked, accepted=accepted, rejected=rejected)


def _by_row(rows):
    """Class of every row, from the rows of every class."""
    return {int(row): str(name) for name, own in rows.items() for row in own}


def _verdicts(index, weak, rows):
    """Class of every row that a yes or no names."""
    classes = _by_row(rows) if isinstance(rows, dict) else dict.fromkeys(map(int, rows), "")
    found = dict(zip(weak.rows.tolist(), weak.classes.tolist(), strict=True))
    for row, name in classes.items():
        if not name and row not in found:
            raise ValueError(f"Row {row} is not among the retrieved patches; give numbers of their column 'row'.")
        if name and name not in weak.accepted:
            raise ValueError(f"Class {name!r} of row {row} has no exemplar; choose {', '.join(weak.accepted)}.")
        if not (0 <= row < len(index) and index.status[row] == USED):
            raise ValueError(f"Row {row} is not a patch that the index describes; check the number.")
    return {row: name or found[row] for row, name in classes.items()}


def _ask(index, queries, count, *, per_exemplar, diverse, device, unwanted, accepted=None, rejected=None):
    """Weak labels of the classes whose exemplars have these descriptors, with what was accepted and rejected so far."""
    need = len(index) * (4 * sum(map(len, queries.values())) + RANKING * len(queries))
    if need > (index.memory or memory_budget()):
        raise ValueError(
            f"Ranking {len(index)} patches for {len(queries)} classes needs about {need / 1e9:.1f} GB, more than "
            "may be used; raise --memory, or index fewer lines (--every)."
        )
    accepted, rejected = (given or {name: [] for name in queries} for given in (accepted, rejected))
    near, far = _evidence(index, queries, accepted, rejected, unwanted, device=device)
    learnt = _learnt(index, queries, accepted, rejected, unwanted)
    relevance = {name: _relevance(near[name], far[name], name, accepted, rejected, learnt) for name in queries}
    usable = int((index.status == USED).sum())
    # relevance stays below KEPT, so the remainder is that of accepted rows too
    falling = {name: r[r >= 0] % KEPT for name, r in relevance.items()}
    ninth = max(3, usable // NEAREST)
    suggested = {name: auto_count(highest(values, ninth), usable) for name, values in falling.items()}
    counts = _counts(count, suggested, accepted, usable=usable)
    wants = _wants(near, counts, per_exemplar)
    if per_exemplar:
        each = [_relevance(near[name][:, own], far[name], name, accepted, rejected, learnt) for name, own, _ in wants]
    else:
        each = list(relevance.values())
    best = np.stack(each).T
    chosen, lost = assign(best, [n for *_, n in wants], near=_near_copies(index.grid, accepted) if diverse else None)
    weak = _collect(index, wants, near, best, chosen, lost)
    for name in set(near) - set(weak.classes):
        raise ValueError(f"No patch is more like {name!r} than like another class; choose another exemplar or count.")
    weak.weights = _weights(index, weak, near, far)
    weak.weights[np.isin(weak.rows, [row for rows in accepted.values() for row in rows])] = 1
    weak.curves = {name: highest(values, 10 * counts[name]) for name, values in falling.items()}
    weak.suggested, weak.accepted, weak.rejected = suggested, accepted, rejected
    weak.request = {"queries": queries, "count": count, "device": device}
    weak.request |= {"per_exemplar": per_exemplar, "diverse": diverse, "unwanted": unwanted}
    return weak


def _evidence(index, queries, accepted, rejected, unwanted, *, device):
    """Similarity of every patch to each exemplar or accepted patch of a class, and to each rejected one; by class."""
    yes = {name: np.concatenate([own, _features(index, accepted[name])]) for name, own in queries.items()}
    no = {name: np.concatenate([unwanted[name], _features(index, rejected[name])]) for name in queries}
    groups = [*yes.values(), *no.values()]
    scores = _search(index, np.concatenate(groups), device=device)
    parts = np.split(scores, np.cumsum([len(own) for own in groups])[:-1], axis=1)
    return dict(zip(yes, parts, strict=False)), dict(zip(no, parts[len(yes) :], strict=True))


def _features(index, rows):
    if not len(rows):
        return np.empty((0, index.features.shape[1]), "f4")
    return index.descriptors(np.array(rows, int))


def _learnt(index, queries, accepted, rejected, unwanted):
    """What yes and no say about every patch, for the classes of which some patch was judged, from 0 to 2."""
    judged = [name for name in queries if len(accepted[name]) + len(rejected[name]) + len(unwanted[name])]
    if not judged:
        return {}
    usable = np.flatnonzero(index.status == USED)
    anywhere = np.random.default_rng(0).choice(usable, min(SAMPLE, len(usable)), replace=False)
    survey = _features(index, np.sort(anywhere))
    yes = {name: np.concatenate([own, _features(index, accepted[name])]) for name, own in queries.items()}
    weights = []
    for name in judged:
        no = [unwanted[name], _features(index, rejected[name]), *(own for other, own in yes.items() if other != name)]
        weights.append(learn(yes[name], np.concatenate(no), survey))
    table = np.stack(weights, axis=1)
    parts = map_blocks(lambda span: rooted(index.descriptors(span)) @ table, spans(len(index), 8 * BLOCK))
    scores = np.concatenate(list(parts))
    return {name: 1 + np.clip(scores[:, k], -1, 1) for k, name in enumerate(judged)}


def _relevance(near, far, name, accepted, rejected, learnt):
    """Relevance of every patch to a class; its accepted patches come first, other classes' and rejected ones last."""
    yes = near.max(axis=1)
    relevance = 2 * yes - far.max(axis=1) if far.shape[1] else yes.copy()
    if name in learnt:
        relevance = np.where(yes < 0, yes, (1 - LEARNT) * np.clip(relevance, 0, 2) + LEARNT * learnt[name])
    for own, rows in accepted.items():
        relevance[rows] = relevance[rows] + KEPT if own == name else -1
    for rows in rejected.values():
        relevance[rows] = -1
    return relevance


def highest(values, count):
    """The highest values in falling order, `count` of them or all.

    Examples
    --------
    >>> highest(np.array([3, 9, 5]), 2)
    array([9, 5])
    """
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]


def auto_count(curve, usable):
    """How many patches of a class to take: the knee of the similarity of the nearest ninth of the index, at most 100.

    Parameters
    ----------
    curve : array
        Similarity of the patches to the class, in falling order; no more than the nearest ninth is looked at.
    usable : int
        Patches in the index.

    Examples
    --------
    >>> auto_count(np.array([0.9, 0.89, 0.88, 0.6, 0.55, 0.5] + [0.1] * 48), usable=54)
    3
    """
    return max(1, min(knee(curve[: max(3, usable // NEAREST)]), MOST))


def _counts(count, suggested, accepted, *, usable):
    """How many patches each class asks for: no fewer than were accepted."""
    if isinstance(count, dict):
        counts = {name: count.get(name, "auto") for name in suggested}
    else:
        counts = dict.fromkeys(suggested, "auto" if count is None else count)
    counts = {name: suggested[name] if n == "auto" else int(n) for name, n in counts.items()}
    for name, n in counts.items():
        if not 1 <= n <= usable:
            raise ValueError(f"Count for {name!r} is {n}; choose 1 to {usable}, the patches in the index.")
    return {name: max(n, len(accepted[name])) for name, n in counts.items()}


def _weights(index, weak, near, far):
    """How likely each retrieved patch is right: by its exemplars and by the retrieved patches around it.

    The odds of being wrong are the squared ratio of the distance to its own class and to the nearest other one, taken
    twice: with the exemplars (a rejected patch counts as another class), and with the nearest retrieved patches.
    """
    names = list(near)
    if len(names) == 1:
        return np.ones(len(weak))
    codes = np.array([names.index(name) for name in weak.classes])
    exemplars = np.stack([own[weak.rows].max(axis=1) for own in near.values()], axis=1)
    against = np.stack([own[weak.rows].max(axis=1, initial=-1) for own in far.values()], axis=1)
    references = weak.picks(REFERENCES)
    features = _features(index, weak.rows)

    def around(span):
        pairs = search(features[span], features[references], index.edges)
        own = (np.sort(pairs[:, codes[references] == code], axis=1)[:, -NEIGHBOURS:] for code in range(len(names)))
        return np.stack([near.mean(axis=1) for near in own], axis=1)

    neighbours = np.concatenate(list(map_blocks(around, spans(len(weak), BLOCK))))
    odds = _odds(exemplars, codes, against) * _odds(neighbours, codes, -1)
    return np.clip(1 / (1 + odds), 1e-3, 1)


def _odds(similarity, codes, against):
    """Squared ratio of the distance to the own class and to the nearest other."""
    every = np.arange(len(codes))
    other = np.where(np.arange(similarity.shape[1]) == codes[:, None], against, similarity).max(axis=1)
    return ((1 - similarity[every, codes]) / np.maximum(1 - other, 1e-6)) ** 2


def exemplar_patch(index, exemplar):
    """Patch of an exemplar given as a position or as a picture."""
    grid = index.grid
    if np.ndim(exemplar) == 1:
        patch = grid.cut(index.volume, grid.start_at([float(p) for p in exemplar]))[0]
        if not np.isfinite(patch).all():
            raise ValueError(f"The exemplar at {tuple(exemplar)} touches missing traces; move it.")
        return patch
    patch = exemplar_picture(index.volume, grid, exemplar)
    return by_rms(2 * patch[None] - 1)[0] if grid.gain == "patch" else patch


def similarity_to(index, exemplars):
    """Similarity of every patch of an index to the nearest of some exemplars, -1 where it has no descriptor."""
    patches = np.stack([exemplar_patch(index, exemplar) for exemplar in exemplars])
    return _search(index, index.measure.describe(patches)).max(axis=1)


def exemplar_picture(volume, grid, exemplar):
    """A picture as an exemplar: of the patch size, with values in [0, 1]; anything else is refused."""
    if isinstance(exemplar, xr.DataArray) and {"sample_interval", "trace_spacing"} <= exemplar.attrs.keys():
        exemplar = _resample(exemplar, volume, grid)
    patch = np.asarray(exemplar, np.float32)
    if patch.shape != grid.size:
        raise ValueError(
            f"An exemplar picture has {' x '.join(map(str, patch.shape))} samples, the patches "
            f"{grid.size[0]} x {grid.size[1]}; cut it to that size, or give it as a DataArray with sample_interval and "
            "trace_spacing to resample it."
        )
    if not (np.isfinite(patch).all() and patch.min() >= 0 and patch.max() <= 1):
        raise ValueError(
            f"An exemplar picture has values from {patch.min():g} to {patch.max():g}; scale it to 0 ... 1."
        )
    return patch


def _resample(picture, volume, grid):
    """Picture with the sample interval and trace spacing of the volume, its middle cut to the patch size."""
    spacing = volume.attrs.get("bin_size")
    if spacing is None:
        raise ValueError(
            "The volume does not say its bin size, so a picture of another sampling cannot be resampled to it."
        )
    across = spacing[1] if grid.along != "crossline" else spacing[0]
    axis = volume[volume.dims[2]].values
    factors = picture.attrs["sample_interval"] / abs(axis[1] - axis[0]), picture.attrs["trace_spacing"] / across
    fitted = zoom(np.asarray(picture, np.float32), factors, order=1)
    top, left = ((have - want) // 2 for have, want in zip(fitted.shape, grid.size, strict=True))
    return fitted[max(top, 0) : max(top, 0) + grid.size[0], max(left, 0) : max(left, 0) + grid.size[1]]


def _search(index, queries, *, device=None):
    """Similarity of every patch to every query, -1 for patches without a descriptor, shard by shard.

    Similarities to queries that were asked before are taken from memory.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    names = [(device, query.tobytes()) for query in queries]
    new = [i for i, name in enumerate(names) if name not in index._columns]
    found = _search_all(index, queries[new], device) if new else np.empty((len(index), 0), np.float32)
    columns = {names[i]: found[:, k] for k, i in enumerate(new)}
    columns = {name: index._columns[name] if name in index._columns else columns[name] for name in names}
    fit = int(RESIDENT * (index.memory or memory_budget()) // max(4 * len(index), 1))
    index._columns = dict(list((index._columns | columns).items())[-min(COLUMNS, fit) :]) if fit else {}
    return np.stack([columns[name] for name in names]).T  # a query's similarities lie side by side


def _search_all(index, queries, device):
    out = np.empty((len(queries), len(index)), np.float32).T
    shards = spans(len(index), 8 * BLOCK)
    source = index.descriptors if index.client is None else partial(_read_features, index.features)
    compare = partial(_compare, source, index.status, index.measure, index.edges, queries, device)
    cost = 8 * 8 * BLOCK * queries.shape[1]
    memory = index.memory or memory_budget()
    results = map_blocks(compare, shards, workers=1 if device else None, client=index.client, memory=memory, cost=cost)
    for span, scores in zip(shards, results, strict=True):
        out[span] = scores
    return out


def _read_features(features, span):
    """Descriptors of a slice, as a worker of a cluster reads them."""
    with damage(features.store, REMEDY):
        return features[span]


def _compare(source, status, measure, edges, queries, device, span):
    """Similarity of the patches of one shard to every query, -1 where a patch has no descriptor."""
    used = status[span] == USED
    shard = source(span)
    if not shard[used].any(axis=1).all():
        raise Damaged(f"The index is damaged (descriptors are missing); {REMEDY}.")
    scores = search(shard, queries, edges) if device is None else _search_on(device, measure, shard, queries)
    return np.where(used[:, None], scores, np.float32(-1))


def _search_on(device, measure, features, queries):
    import torch

    a, b = (torch.from_numpy(x).to(device) for x in (features, queries))
    return measure.compare(a, b).cpu().numpy()


def search(features, queries, edges=None):
    """Similarity of every row of `features` with every query, exactly and in one pass over the rows.

    Parameters
    ----------
    features, queries : float32 arrays, shape (n, n_values) and (n_queries, n_values)
    edges : array of int, optional
        Where blocks of values begin and end; the similarity is the mean of the Bray-Curtis similarities of the blocks.

    Examples
    --------
    >>> search(np.array([[1, 2], [0, 2]], "float32"), np.array([[1, 2]], "float32"))
    array([[1. ],
           [0.8]], dtype=float32)
    """
    return _search_blocks(features, queries, np.array([0, features.shape[1]]) if edges is None else edges)


@numba.njit(nogil=True, fastmath=True, cache=True)
def _search_blocks(features, queries, edges):
    n, n_queries, n_blocks = len(features), len(queries), len(edges) - 1
    last = n_queries - 1
    out = np.zeros((n, n_queries), np.float32)
    sums = np.empty((n_blocks, n_queries), np.float32)
    for block in range(n_blocks):
        for q in range(n_queries):
            sums[block, q] = queries[q, edges[block] : edges[block + 1]].sum()
    for i in range(n):
        row = features[i]
        for block in range(n_blocks):
            start, stop = edges[block], edges[block + 1]
            total = np.float32(0)
            for k in range(start, stop):
                total += row[k]
            for q in range(0, n_queries, 4):  # four at a time, so that a value is loaded once for all of them
                a, b, c, d = queries[q], queries[min(q + 1, last)], queries[min(q + 2, last)], queries[min(q + 3, last)]
                far = np.zeros(4, np.float32)
                e, f, g, h = far
                for k in range(start, stop):
                    value = row[k]
                    e += abs(value - a[k])
                    f += abs(value - b[k])
                    g += abs(value - c[k])
                    h += abs(value - d[k])
                far[:] = e, f, g, h
                for j in range(min(4, n_queries - q)):
                    both = total + sums[block, q + j]
                    alike = np.float32(1) - far[j] / both if both > 0 else np.float32(1)
                    out[i, q + j] += alike / np.float32(n_blocks)
    return out


def _wants(near, counts, per_exemplar):
    """What is to be found: (class, its queries, how many); one want per query where the count is shared."""
    queries = {name: np.arange(own.shape[1]) for name, own in near.items()}
    if not per_exemplar:
        return [(name, own, counts[name]) for name, own in queries.items()]
    shares = {name: [len(p) for p in np.array_split(range(counts[name]), len(own))] for name, own in queries.items()}
    return [(name, [q], n) for name, own in queries.items() for q, n in zip(own, shares[name], strict=True) if n]


def assign(similarity, counts, *, near=None, whole=False):
    """Best rows for every want, each row for one want only: the one it is most similar to.

    Parameters
    ----------
    similarity : array, shape (n, n_wants)
        Negative where a row cannot be taken.
    counts : list of int
        How many rows each want asks for.
    near : callable, optional
        ``near(row, accepted)`` tells whether a row is a near-copy of one already accepted.
    whole : bool
        Sort all rows at once; by default only the first, and all of them where those do not last.

    Returns
    -------
    chosen : list of arrays
        Rows per want, the most similar first, ties by row; fewer than asked where there are no more.
    lost : array of int
        Per want, rows among its best that went to another.

    Examples
    --------
    >>> assign(np.array([[0.9, 0.8], [0.7, 0.6], [0.1, 0.5]]), [1, 2])
    ([array([0]), array([1, 2])], array([0, 1]))
    """
    n, n_wants = similarity.shape
    most = [n if near is not None or whole else AHEAD * (count + 100) for count in counts]
    orders = [falling_rows(similarity[:, w], most[w]) for w in range(n_wants)]
    barred = np.zeros((n, n_wants), bool)
    while True:
        chosen = [_first(order[~barred[order, w]], counts[w], near) for w, order in enumerate(orders)]
        taken = np.full((n, n_wants), -np.inf, np.float32)
        for w, rows in enumerate(chosen):
            taken[rows, w] = similarity[rows, w]
        winner = taken.argmax(axis=1)
        losing = np.isfinite(taken) & (np.arange(n_wants) != winner[:, None])
        if not losing.any():
            break
        barred |= losing
    short = any(len(rows) < count and most[w] < n for w, (rows, count) in enumerate(zip(chosen, counts, strict=True)))
    if short:  # what was sorted did not last
        return assign(similarity, counts, near=near, whole=True)
    return chosen, barred.sum(axis=0)


def falling_rows(values, most):
    """Rows with values from 0 on, the highest first and ties by row; at least `most` of them where there are so many.

    Examples
    --------
    >>> falling_rows(np.array([0.2, 0.9, -1.0, 0.5, 0.9]), 2)
    array([1, 4])
    """
    least = 0 if most >= len(values) else max(0, np.partition(values, len(values) - most)[len(values) - most])
    rows = np.flatnonzero(values >= least)
    return rows[np.argsort(-values[rows], kind="stable")]


def _first(order, count, near):
    if near is None:
        return order[:count]
    accepted: list = []
    for row in order:
        if not near(row, accepted):
            accepted.append(row)
            if len(accepted) == count:
                break
    return np.array(accepted, dtype=order.dtype)


def _near_copies(grid, kept):
    """Test whether a row overlaps an accepted one by more than half within ten lines; rows in `kept` never count."""
    kept = {row for rows in kept.values() for row in rows}
    limit = np.array([1, NEAR_LINES + 1, grid.size[1] / 2, grid.size[0] / 2])

    def near(row, accepted):
        if int(row) in kept:
            return False
        return bool((np.abs(grid.starts[accepted] - grid.starts[row]) < limit).all(axis=1).any()) if accepted else False

    return near


def _collect(index, wants, near, best, chosen, lost):
    """Chosen rows of all wants as weak labels, class by class."""
    parts, losses = [], dict.fromkeys(near, 0)
    for w, ((name, queries, _), rows, missed) in enumerate(zip(wants, chosen, lost, strict=True)):
        own = near[name][rows][:, queries]
        which = np.asarray(queries)[own.argmax(axis=1)]
        found = {"row": rows, "class": name, "exemplar": which, "similarity": own.max(axis=1), "rank": best[rows, w]}
        parts.append(pd.DataFrame(found))
        losses[name] += int(missed)
    found = pd.concat(parts)
    found["order"] = found["class"].map(list(near).index)
    found = found.sort_values(["order", "rank", "row"], ascending=[True, False, True])
    rows = found["row"].to_numpy()
    return WeakLabels(
        rows, found["class"].to_numpy(str), found["similarity"].to_numpy(), found["exemplar"].to_numpy(),
        index.grid.centres(rows), losses,
    )  # fmt: skip


def read_table(path, index):
    """A table of retrieved patches, as `WeakLabels.save` writes it or an interpreter edited it.

    Returns
    -------
    weak : WeakLabels
        Rows that lie off the grid are -1.
    starts : array, shape (n, 4)
        Where the patches lie, for `PatchGrid.cut`.
    """
    time = index.volume.dims[2]
    try:
        with open(path, encoding="utf-8-sig") as handle:
            german = handle.readline().count(";") > 2  # as some spreadsheets save it
        spelling = {"sep": ";", "decimal": ","} if german else {}
        table = pd.read_csv(path, dtype={"class": str}, keep_default_na=False, na_values=[""], **spelling)
        places = table[["inline", "crossline", time]].astype(float)
        optional = {"similarity": np.nan, "exemplar": 0, "along": index.grid.along, "weight": 1.0}
        table = table.assign(**{name: value for name, value in optional.items() if name not in table})
        classes, weights = table["class"].astype(str).to_numpy(str), table["weight"].to_numpy(float)
    except (KeyError, ValueError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a table of retrieved patches ({error}); mend it or remove it.") from None
    for line in 2 + np.flatnonzero(~((weights > 0) & (weights <= 1))):
        raise ValueError(f"{path}, line {line}: weight {weights[line - 2]:g} is not above 0 and at most 1; mend it.")
    starts = np.empty((len(table), 4), np.int32)
    for i, (place, along) in enumerate(zip(places.to_numpy(), table["along"], strict=True)):
        try:
            starts[i] = index.grid.start_at(place, along=along)
        except ValueError as error:
            raise ValueError(f"{path}, line {i + 2}: {error}") from None
    rows = index.grid.rows_at(starts)
    similarity, exemplar = table["similarity"].to_numpy(float), table["exemplar"].to_numpy()
    places = places.assign(along=table["along"])
    return WeakLabels(rows, classes, similarity, exemplar, places, weights=weights), starts


def knee(similarity):
    """Rank after which a falling similarity curve bends: the point farthest below the line between its ends.

    Examples
    --------
    >>> knee(np.array([1.0, 0.99, 0.98, 0.6, 0.55, 0.5]))
    3
    """
    similarity = np.asarray(similarity, float)
    if len(similarity) < 3:
        return len(similarity)
    line = np.linspace(similarity[0], similarity[-1], len(similarity))
    return int(np.argmax(np.abs(similarity - line))) + 1
