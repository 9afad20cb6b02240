"""Build and open an index, which holds the descriptors of all patches of a grid on disk."""

import contextlib
import hashlib
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, TransposeCodec, ZstdCodec

from outcrop.arrays import device_list, to_numpy
from outcrop.measures.registry import DEFAULT, indexed_measure
from outcrop.parallel import Progress, map_blocks, memory_budget, spans
from outcrop.patches.gain import quiet
from outcrop.patches.grid import PatchGrid
from outcrop.storage.chunks import clear_leftovers, confirm_chunks, write_chunks
from outcrop.storage.stages import Stages
from outcrop.storage.workspace import DoneLog, Workspace, damage, whole_file
from outcrop.volumes.identity import LineLog, check_lines, checked_volume, line_digest, lines_path, reopen, untouched

Block = tuple[int, slice]  # number of the block, and its rows
Digests = dict[tuple[int, int], str]  # direction and position of a line -> digest of its samples

BLOCK = 1024  # patches that are described and written together
USED, MISSING, QUIET = range(3)  # status of a row: has a descriptor, has missing samples, is empty
CODE = 1  # version of the descriptors; raised when the same inputs give other descriptors
GRID_OPTIONS = ("size", "step", "along", "every", "area", "between", "sample", "gain", "clip", "seed")
UNKNOWN = 255  # status of a row that is not computed yet
REMEDY = "run the same command again to compute it again"
RESIDENT = 0.25  # share of the memory budget that descriptors may occupy permanently


class Index:
    """Descriptors of all patches of a grid, in a job folder.

    Attributes
    ----------
    key : str
        Key of the index in the job folder, a digest of everything that the index was made from.
    grid : PatchGrid
        Grid of the patches.
    volume : DataArray
        Volume of the patches.
    features : zarr.Array, shape (n, n_values)
        Descriptors of the patches; zeros in rows whose `status` is not 0.
    status : array, shape (n,)
        0 if the patch has a descriptor, 1 if it has missing samples, 2 if it is empty (mute, water, constant).
    client : distributed.Client or None
        A Dask cluster to search on, in slices of rows; its workers read the job folder.
    memory : int or None
        Bytes that a search may use; None for a quarter of the machine's memory.
    """

    client: Any = None
    memory: int | None = None

    def __init__(self, path: str | Path, key: str, volume: xr.DataArray, grid: PatchGrid, measure: Any) -> None:
        self.workspace, self.key = Workspace(path), key
        self.volume, self.grid, self.measure = volume, grid, measure
        self.edges = np.cumsum([0, *measure.blocks(grid.size)])
        self._held: Any = None
        self._columns: dict[tuple[str | None, bytes], np.ndarray] = {}
        self._graph: tuple[Any, ...] = ()
        length = int(self.edges[-1])
        store = Stages(path).path("index", key) / "features.zarr"
        with damage(store, REMEDY):
            group = open_features(store, len(grid), length)
            self.features, self.status = group["features"], group["status"][:]
            if (self.status > QUIET).any():
                raise ValueError("some rows of the index were never written")

    def __len__(self) -> int:
        return len(self.status)

    def descriptors(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the descriptors in given rows.

        If all descriptors of the index fit into a quarter of the memory budget, they are read once and kept in memory.
        """
        with damage(self.features.store, REMEDY):
            if self._held is None and self.features.nbytes <= RESIDENT * (self.memory or memory_budget()):
                self._held = self.features[:]
            if self._held is not None:
                return np.asarray(self._held[rows])
            return np.asarray(self.features[rows] if isinstance(rows, slice) else self.features.oindex[rows])


def build_index(
    volume: xr.DataArray,
    grid: PatchGrid,
    path: str | Path,
    *,
    measure: str = DEFAULT,
    truncate: bool = True,
    finest: bool = True,
    workers: int | None = None,
    client: Any = None,
    memory: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    known: dict[str, Any] | None = None,
) -> Index:
    """Compute the descriptors of all patches of a grid and store them in a job folder.

    An interrupted run is resumed, and a finished index with unchanged volume and parameters is opened without reading
    the volume. An index of another volume or with other parameters is stored in addition and replaces no earlier index.

    Parameters
    ----------
    volume : DataArray
        From `open_volume`.
    grid : PatchGrid
        The patches.
    path : path
        The job folder, by convention ``NAME.outcrop``.
    measure : str
        Similarity measure: ``encoder`` or, as in the paper, ``curvelet-svd``.
    truncate, finest : bool
        Parameters of ``curvelet-svd``, see `CurveletSVD`.
    workers : int, optional
        Number of threads; all cores by default.
    client : distributed.Client, optional
        A Dask cluster to use instead of threads; its workers write into the job folder.
    memory : int, optional
        Bytes to use, by default a quarter of the machine's memory; this limits the patches in memory and the number of
        threads.
    device : str, optional
        A torch device such as ``cuda`` (all visible GPUs), or several, ``cuda:0,cuda:1``, to compute the descriptors
        while threads cut the patches. Not allowed with a cluster.
    progress : callable, optional
        Called as ``progress(what, done, total)``.
    known : dict, optional
        Earlier result of `take_volume` for this volume; by default `take_volume` records the volume in the job.

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
    (24, (24, 128))
    """
    options = grid_options(grid) | {"measure": measure, "truncate": truncate, "finest": finest}
    chosen = indexed_measure(options)
    length = sum(chosen.blocks(grid.size))
    known, stages = known or checked_volume(path, volume), Stages(path)
    key = stages.begin("index", index_inputs(known["digest"], options))
    memory = memory or memory_budget()
    group = _prepare(stages, key, grid, length)
    arrays = {name: group[name] for name in ("features", "status")}
    log = DoneLog(stages.path("index", key) / "features.done")
    for number in log.read():  # a block with lost rows is computed again
        if (arrays["status"][number * BLOCK : (number + 1) * BLOCK] > QUIET).any():
            log.drop(number)
    done = log.read()
    blocks = [(number, span) for number, span in enumerate(spans(len(grid), BLOCK)) if number not in done]
    finished = len(grid) - sum(span.stop - span.start for _, span in blocks)
    begin = time.monotonic()
    patch = 4 * grid.size[0] * grid.size[1]
    at_once = int(np.clip(memory // (16 * patch) // 32 * 32, 32, BLOCK))
    devices = [] if client else device_list(device)
    describe = partial(_describe, arrays, volume, grid, chosen, at_once, devices)
    clear_leftovers(arrays["features"], 0, [number for number, _ in blocks])
    where: dict[str, Any] = {"workers": workers, "client": client, "memory": memory}
    cost = 2 * at_once * patch + 8 * BLOCK * length
    written = map_blocks(describe, blocks, cost=cost, **where)
    lines = LineLog(lines_path(path, known["digest"]))
    with contextlib.closing(written):  # ends the threads if an error occurs here
        for (number, span), (seals, digests) in zip(blocks, written, strict=True):
            check_lines(path, lines, digests)
            for name, seal in seals.items():
                confirm_chunks(arrays[name], 0, number, seal)
            log.add(number)
            finished += span.stop - span.start
            if progress:
                progress("computing features", finished, len(grid))
    stages.note("index", key, -(-len(grid) // BLOCK))
    if blocks:
        Workspace(path).log("index", key=key, patches=len(grid), seconds=round(time.monotonic() - begin, 3))
    return Index(path, key, volume, grid, chosen)


def finished_index(stages: Stages, key: str) -> bool:
    """Return whether all blocks of an index are computed and none was found damaged."""
    counts = [int(words[1]) for words in stages.journal("index") if words[0] == key and len(words) == 2]
    done = DoneLog(stages.path("index", key) / "features.done").read()
    return bool(counts) and done >= set(range(counts[-1]))


def index_inputs(volume_digest: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return everything on which the descriptors of an index depend; the key of the index is computed from it.

    Parameters
    ----------
    volume_digest : str
        From `take_volume`.
    options : dict
        Options of `PatchGrid` and of the measure.
    """
    measure = options.get("measure") or DEFAULT
    plain = {name: options.get(name) for name in (*GRID_OPTIONS, "truncate", "finest", "part")}
    if options.get("between"):
        files = (Path(path).read_bytes() for path in options["between"])
        plain["between"] = [hashlib.sha256(text).hexdigest() for text in files]
    inputs = {"volume": volume_digest, "measure": measure, "code": CODE, **plain}
    weights: dict[str, Any] = indexed_measure(options).inputs()
    return inputs | weights


def grid_options(grid: PatchGrid) -> dict[str, Any]:
    """Return the options with which a grid was made, as plain values."""
    options = grid.parameters | {"clip": grid.given_clip, "size": list(grid.size), "step": list(grid.step)}
    if grid._drawn is not None and not grid.sample:
        starts = hashlib.sha256()
        for *_, rows in grid.lines():
            starts.update(grid.places(rows).tobytes())
        options["part"] = starts.hexdigest()[:16]
    return options


def open_index(path: str | Path, *, volume: xr.DataArray | None = None) -> Index:
    """Open the most recent index of a job folder.

    Parameters
    ----------
    path : path
        The job folder.
    volume : DataArray, optional
        The volume, required if it is not a file or has moved; by default it is opened from its recorded path.

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
        raise ValueError(f"The index of {path} is not finished; run the same 'outcrop index' again to resume it.")
    volume = reopen(path) if volume is None else volume
    known = checked_volume(path, volume)
    inputs = stages.facts("index", key)["inputs"]
    if inputs["volume"] != known["digest"]:
        raise ValueError(f"The volume of job {path} changed since it was indexed; index it again.")
    if inputs["part"] or inputs["between"]:
        raise ValueError(f"The index of {path} covers part of a grid; call build_index with the same grid to open it.")
    grid = PatchGrid(volume, **{name: inputs[name] for name in GRID_OPTIONS})
    return Index(path, key, volume, grid, indexed_measure(inputs))


def _prepare(stages: Stages, key: str, grid: PatchGrid, length: int) -> Any:
    """Open the Zarr group of an index; create a new one if it does not exist or cannot be opened."""
    store, n = stages.path("index", key) / "features.zarr", len(grid)
    if store.is_dir():
        try:
            with damage(store, "it is computed again"):
                group = open_features(store, n, length, mode="r+")
                group["status"][:]
                return group
        except ValueError:  # damaged; an OSError, by contrast, is reported to the user
            for name in ("features.done", "features.zarr"):
                stages.set_aside("index", key, name)
    with whole_file(store) as aside:
        group = zarr.open_group(aside, mode="w")
        rows = min(BLOCK, n)
        checked: Any = {"compressors": [ZstdCodec(), Crc32cCodec()]}
        group.create_array("features", shape=(n, length), chunks=(rows, length), dtype="float32", **feature_codecs())
        group.create_array("status", shape=(n,), chunks=(rows,), dtype="uint8", fill_value=UNKNOWN, **checked)
    return open_features(store, n, length, mode="r+")


def feature_codecs() -> Any:
    """Return the codecs for descriptors; transposition and byte shuffle before compression save 14 % of the space."""
    compressors = [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"), Crc32cCodec()]
    return {"filters": [TransposeCodec(order=(1, 0))], "compressors": compressors}


def open_features(store: Path, n: int, length: int, *, mode: Literal["r", "r+"] = "r") -> Any:
    """Open the Zarr group of an index with `n` rows of `length` values.

    Raise a ValueError if its arrays have other shapes, chunks or types.
    """
    group: Any = zarr.open_group(store, mode=mode)
    shapes: dict[str, tuple[int, ...]] = {"features": (length,), "status": ()}
    for name, shape in shapes.items():
        array, dtype = group[name], "float32" if shape else "uint8"
        if (array.shape, array.chunks, array.dtype) != ((n, *shape), (min(BLOCK, n), *shape), dtype):
            raise ValueError(
                f"array {name!r} has the wrong type {array.dtype}, shape {array.shape} or chunks {array.chunks}"
            )
    return group


def drop_damaged(path: str | Path, index: Index) -> None:
    """Remove unreadable blocks of an index from its log, so that the next `build_index` computes them again."""
    log = DoneLog(Stages(path).path("index", index.key) / "features.done")
    for span in spans(len(index), BLOCK):
        try:
            with damage(index.features.store, REMEDY):
                sound = index.features[span][index.status[span] == USED].any(axis=1).all()
        except ValueError:
            sound = False
        if not sound:
            log.drop(span.start // BLOCK)


def _describe(
    arrays: Any, volume: xr.DataArray, grid: PatchGrid, measure: Any, at_once: int, devices: list[str], block: Block
) -> tuple[dict[str, Any], Digests]:
    """Compute and write a block of descriptors; return checksums of its chunks and digests of the lines read."""
    number, span = block
    features = np.zeros((span.stop - span.start, arrays["features"].shape[1]), np.float32)
    status = np.zeros(span.stop - span.start, np.uint8)
    for part in spans(len(status), at_once):
        patches = grid.extract(volume, slice(span.start + part.start, span.start + part.stop))
        used = np.where(np.isfinite(patches).all(axis=(1, 2)), USED, MISSING)
        used[(used == USED) & quiet(patches)] = QUIET
        device = devices[number % len(devices)] if devices else None
        features[part][used == USED] = _described(measure, patches[used == USED], device)
        status[part] = used
    described = {"features": features, "status": status}
    seals = {name: write_chunks(arrays[name], 0, number, values) for name, values in described.items()}
    lines = np.unique(grid.places(span)[:, :2], axis=0) if untouched(volume) else ()
    return seals, {(d, i): line_digest(volume[(slice(None),) * d + (i,)].values) for d, i in lines}


def _described(measure: Any, patches: Any, device: str | None) -> np.ndarray:
    """Return the descriptors of patches, computed on a torch device if one is given."""
    if device is not None:
        import torch

        patches = torch.from_numpy(patches).to(device)
    return np.asarray(to_numpy(measure.describe(patches, workers=1)))
