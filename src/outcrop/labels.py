"""Labels and confidence for whole sections and volumes: overlapping patches vote, line by line."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from scipy.special import expit, logit
from xarray.core import indexing
from zarr.codecs import Crc32cCodec, ZstdCodec

import outcrop
from outcrop.arrays import device_list, to_numpy
from outcrop.mapping.confidence import UNCERTAIN, confidence, labelled, winner
from outcrop.mapping.encoder_mapping import EncoderMapper
from outcrop.mapping.factorisation import VARIANTS
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.saved import digest, read_mapper
from outcrop.mapping.texture import TextureMapper
from outcrop.parallel import map_blocks, map_groups, memory_budget, spans
from outcrop.patches.grid import PatchGrid
from outcrop.patches.windows import add_windows
from outcrop.storage.chunks import confirm_chunks, write_chunks
from outcrop.storage.workspace import DoneLog, Workspace, damage, whole_file
from outcrop.volumes.lazy import LazyVolume, take_block
from outcrop.volumes.opening import MOST_LINES

MAPPERS: dict[str, Any] = {
    "encoder": EncoderMapper,
    "texture": TextureMapper,
    **{name: partial(LabelMapper, variant=name) for name in VARIANTS},
}
"""Mappings by name, as `--mapping` takes them; each value makes one that is not fitted yet.

Examples
--------
>>> import outcrop as oc
>>> list(oc.MAPPERS)
['encoder', 'texture', 'paper', 'published', 'exact']
>>> oc.MAPPERS["paper"]().variant
'paper'
"""
DEFAULT_MAPPING = "encoder"
KINDS = {kind.__name__: kind for kind in (EncoderMapper, TextureMapper, LabelMapper)}  # of saved mappers
BLOCK = 256  # patches whose scores are held at once
TRACES = 32  # of a chunk of labels
ON_DEVICE = 8 << 20  # samples of the lines that a torch device labels at once
COST = 250, 50  # bytes a sample of a line takes while it is labelled, and more per class


def load_mapper(path: str | Path) -> Any:
    """Open a mapper that ``mapper.save(path)`` wrote; its scores are those of the saved one to the bit.

    Parameters
    ----------
    path : path
        The folder. A damaged one, or one that something else wrote, is refused with a ValueError.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> patches = np.random.default_rng(0).random((8, 32, 32))
    >>> mapper = oc.LabelMapper(2, iterations=5).fit(patches, ["fault"] * 4 + ["other"] * 4)
    >>> path = f"{tempfile.mkdtemp()}/mapper"
    >>> mapper.save(path)
    >>> np.array_equal(load_mapper(path).scores(patches), mapper.scores(patches))
    True
    """
    about, arrays = read_mapper(path)
    kind = about.get("kind")
    if kind not in KINDS:
        raise ValueError(f"{path} holds a mapper of kind {kind!r}; this program knows {', '.join(KINDS)}.")
    with damage(path, "fit the mapper again and save it"):
        try:
            return KINDS[kind].restored(about, arrays)
        except ImportError as error:
            missing = error
    raise missing


def make_mapper(mapping, *, seed=0, device=None, background=None):
    """The unfitted mapper of a name in `MAPPERS`, set up for a seed, a torch device and a background.

    Parameters
    ----------
    mapping : str
        A name of `MAPPERS`.
    seed : int
    device : str, optional
        A torch device such as ``cpu`` or ``cuda`` for the factorisations, which work where their patches lie.
    background : str, optional
        The class that may appear in any patch; by default the mapper's.

    Returns
    -------
    mapper
        Its attribute ``torch_device`` is the device that patches are to be moved to for ``fit`` and ``scores`` (the
        factorisations where a device is given), None where they stay NumPy.
    """
    if mapping not in MAPPERS:
        raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join(MAPPERS)}.")
    mapper = MAPPERS[mapping]()
    wanted = {"random_state": seed, "device": device, "background": background}
    known = mapper.get_params()
    mapper.set_params(**{name: value for name, value in wanted.items() if name in known and value is not None})
    mapper.torch_device = device if isinstance(mapper, LabelMapper) else None
    return mapper


def mapper_digest(mapper):
    """Sha256 of what a mapper's answers depend on: its saved arrays and parameters, as far as it tells them."""
    if hasattr(mapper, "saved"):
        return digest(*mapper.saved())
    if hasattr(mapper, "save"):
        return _folder_digest(mapper)
    known = mapper.get_params() if hasattr(mapper, "get_params") else {}
    return hashlib.sha256(repr((sorted(known.items()), [str(name) for name in mapper.classes_])).encode()).hexdigest()


def _folder_digest(mapper):
    """Sha256 of all that a mapper saves."""
    total = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        mapper.save(Path(folder) / "mapper")
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            total.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return total.hexdigest()


def label_volume(
    volume: xr.DataArray,
    grid: PatchGrid,
    mapper: Any,
    *,
    lines: Sequence[int] | None = None,
    across: int = 0,
    min_confidence: float | None = None,
    scores: bool = False,
    path: str | Path | None = None,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    progress: Callable | None = None,
) -> xr.Dataset:
    """Label every sample of the lines of a grid by the weighted vote of the patches that cover it.

    Parameters
    ----------
    volume : DataArray
        As `open_volume` gives it.
    grid : PatchGrid
        Overlapping patches on inlines or on crosslines, of the size the mapper was fitted on.
    mapper : LabelMapper or any object with ``classes_`` and ``scores(patches)``
        Already fitted.
    lines : sequence of int, optional
        Survey labels of the lines to do; by default all lines of the grid.
    across : int
        Neighbouring lines on either side whose votes count as much as those of a line itself; they are read for it even
        where they are not to be labelled. Lines of an irregular axis have no neighbours.
    min_confidence : float, optional
        Samples whose share of the vote is lower become `uncertain`; by default the mapper's own value, or none.
    scores : bool
        Keep the share of every class too; as large as one label volume a class.
    path : path, optional
        A Zarr folder to stream to; an interrupted run goes on there, one with another mapper, grid or limit is
        refused. Without it the result is held in memory.
    device : str, optional
        A torch device for the mapper, for instance ``cuda`` (all GPUs that are visible), or several that share the
        lines, ``cuda:0,cuda:1``.
    client : distributed.Client, optional
        A Dask cluster to label on, line by line; its workers write to `path`. By default the threads of this process.
    memory : int, optional
        Bytes to use, a quarter of the machine by default; it bounds the patches held at once and the threads.
    progress : callable, optional
        Called with the number of lines done so far.

    Returns
    -------
    Dataset
        ``label`` (uint8: 0 not labelled, 255 uncertain, i + 1 = ``attrs["classes"][i]``) and ``confidence`` (uint8,
        255 = sure) on the axes of the volume. Missing traces, samples that no patch covers and lines that were not
        asked for are not labelled and have confidence 0. With `scores` also ``score`` (uint8, 255 = all of the vote),
        with an axis ``class`` before the others.

    Examples
    --------
    >>> import outcrop as oc
    >>> volume, truth = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> grid = oc.PatchGrid(volume, size=32, step=16)
    >>> patches = grid.extract(volume, range(len(grid)))
    >>> classes = ["chaotic" if row["time"] < 160 else "other" for _, row in grid.table.iterrows()]
    >>> mapper = oc.LabelMapper(4, iterations=5).fit(patches, classes)
    >>> labels = label_volume(volume, grid, mapper, lines=[101])
    >>> labels["label"].shape, labels.attrs["classes"]
    ((2, 64, 80), ['chaotic', 'other'])
    """
    if grid.along == "both":
        raise ValueError("Patches on inlines and crosslines at once cannot vote; make a grid along one of them.")
    if min_confidence is None:
        min_confidence = getattr(mapper, "min_confidence", None) or 0.0
    chosen = _chosen_lines(grid, lines_of(grid, mapper), lines)
    names = [str(name) for name in mapper.classes_]
    attrs = {"classes": names, "mapping": type(mapper).__name__}
    if path:
        options = grid.parameters | {"across": across, "min_confidence": min_confidence}
        attrs["digest"] = _made_from(mapper_digest(mapper), options)
    out = _Store(volume, grid, path, attrs, scores=scores)
    finished = out.done.read() if out.done else set()
    left = [line for line in sorted(chosen) if line not in finished]
    labels = out.coords[grid.along][left]
    where: dict = {"across": across, "device": device, "client": client, "memory": memory}
    if client is not None and path:
        written = written_votes(volume, grid, mapper, partial(_write_section, out, min_confidence), labels, **where)
        for count, (line, seals) in enumerate(written, len(chosen) - len(left) + 1):
            out.confirm(line, seals)
            if progress:
                progress(count)
        return out.dataset()
    votes = line_votes(volume, grid, mapper, labels, **where)
    # Here threads would only compete with those that vote; where a cluster or a device votes, one could not keep up.
    options = {
        "workers": None if client or device else 1,
        "memory": memory or memory_budget(),
        "cost": _cost(volume, grid, names),
    }
    sections = map_blocks(partial(_decided, min_confidence, scores), (own for _, own in votes), **options)
    for count, (line, section) in enumerate(zip(left, sections, strict=True), len(chosen) - len(left) + 1):
        out.confirm(line, out.write(line, section))
        if progress:
            progress(count)
    return out.dataset()


def line_votes(volume, grid, mapper, lines=None, *, across=0, device=None, client=None, memory=None, workers=None):
    """Votes on the lines of a grid, one after the other in rising order; a few lines are held at a time.

    Parameters
    ----------
    volume, grid, mapper, lines, across, device, client, memory
        As for `label_volume`.
    workers : int, optional
        Number of threads, all cores by default.

    Yields
    ------
    line : int
        Position on the axis of the lines.
    votes : uint8 array, shape (n_classes, n_traces, n_samples)
        Mean of the line and its neighbours, 255 = all of the vote; 0 for all classes where nobody votes. `decide` makes
        labels of them.
    """
    wanted, rows = _wanted(grid, mapper, lines, across)
    needed = sorted({line for lines in wanted.values() for line in lines})
    memory = memory or memory_budget()
    options = {"client": client, "memory": memory, "cost": _cost(volume, grid, mapper.classes_)}
    devices = device_list(device)
    if devices and not client and _takes_sections(grid, mapper):
        votes = _device_votes(volume, grid, mapper, devices, needed, **options)
    else:
        work = partial(_packed_votes, volume, grid, mapper, devices, _at_once(grid, mapper, memory))
        blocks = [(line, rows[line]) for line in needed]
        votes = map_blocks(work, blocks, workers=len(devices) or workers, **options)
    yield from _together(wanted, zip(needed, votes, strict=True))


def written_votes(
    volume, grid, mapper, write, lines=None, *, across=0, device=None, client=None, memory=None, workers=None
):
    """Votes on the lines of a grid, each given to `write` where it was made: on a cluster by the worker that made it.

    Parameters
    ----------
    write : callable
        Called with the position of a line and its votes; what it returns should be small.
    volume, grid, mapper, lines, across, device, client, memory, workers
        As for `line_votes`.

    Yields
    ------
    line : int
        Position on the axis of the lines, in rising order.
    written
        What `write` returned.
    """
    if client is None:
        options: dict = {"across": across, "device": device, "memory": memory, "workers": workers}
        votes = line_votes(volume, grid, mapper, lines, **options)
        # threads would only compete with those that vote; a device does not wait while its last lines are written
        yield from map_blocks(lambda own: (own[0], write(*own)), votes, workers=None if device else 1)
        return
    wanted, rows = _wanted(grid, mapper, lines, across)
    at_once = _at_once(grid, mapper, memory or memory_budget())
    work = partial(_packed_votes, volume, grid, mapper, device_list(device), at_once)
    groups = ((line, {one: (one, rows[one]) for one in near}) for line, near in wanted.items())
    yield from zip(wanted, map_groups(client, work, partial(_write_mean, write), groups), strict=True)


def _write_mean(write, line, votes):
    return write(line, _mean_votes(line, votes))


def _wanted(grid, mapper, lines, across):
    """Position of every line asked for -> positions of those that vote on it, rising; and rows of the patches."""
    rows = lines_of(grid, mapper)
    near = _neighbours(grid, rows, across)
    return {line: near(line) for line in sorted(_chosen_lines(grid, rows, lines))}, rows


def _at_once(grid, mapper, memory):
    """Patches whose scores are held at once."""
    return int(np.clip(memory // (64 * grid.size[0] * grid.size[1] * (1 + len(mapper.classes_))), 8, BLOCK))


def lines_of(grid, mapper):
    """Position -> rows of the patches, for every line that a mapper can label.

    Mappers that take whole sections need no patches, only the lines.
    """
    rows = {int(line): rows for _, line, rows in grid.lines()}
    if not _takes_sections(grid, mapper):
        return rows
    return {int(line): rows.get(int(line), slice(0, 0)) for line in grid.live_lines()}


def _cost(volume, grid, classes):
    """Bytes that one line takes while it is labelled."""
    return volume.size // volume.shape[_axis(grid)] * (COST[0] + COST[1] * len(classes))


def _axis(grid):
    return int(grid.along == "crossline")


def _made_from(mapper, options):
    """Digest of all that the labels of a store depend on besides the volume."""
    return hashlib.sha256(json.dumps([mapper, options], sort_keys=True, default=str).encode()).hexdigest()


def _neighbours(grid, rows, across):
    """Lines whose votes count for a line, by position: those of the grid beside it where lines are evenly spaced."""
    even = len(np.unique(np.diff(grid.axes[_axis(grid)]))) < 2
    reach = across if even else 0
    return lambda line: [other for other in range(line - reach, line + reach + 1) if other in rows]


def _packed_votes(volume, grid, mapper, devices, at_once, block):
    """Votes on one line, as bytes, class by class: what travels and what is held of the neighbours."""
    line, rows = block
    if _takes_sections(grid, mapper):
        votes = _whole_section(volume, grid, mapper, (_axis(grid), line))
    else:
        device = devices[line % len(devices)] if devices else None
        votes = section_votes(volume, grid, mapper, rows, device=device, at_once=at_once)
    return np.ascontiguousarray(np.moveaxis(np.round(255 * votes).astype(np.uint8), -1, 0))


def _device_votes(volume, grid, mapper, devices, lines, **options):
    """Votes on lines as `_packed_votes` gives them, several lines at once on each torch device; threads read ahead."""
    from outcrop.mapping.torch_mapping import TorchScores

    scores = [TorchScores(mapper, device) for device in devices]
    sections = map_blocks(lambda line: _filled_section(volume, grid, (_axis(grid), line)), lines, **options)
    at_once = max(1, ON_DEVICE // (volume.size // volume.shape[_axis(grid)]))
    at_once = max(1, min(at_once, -(-len(lines) // len(devices))))
    blocks = enumerate(iter(lambda: list(islice(sections, at_once)), []))

    def vote(block):
        number, some = block
        return scores[number % len(scores)].packed(*map(np.stack, zip(*some, strict=True)))

    for votes in map_blocks(vote, blocks, workers=len(devices)):
        yield from votes


def _together(near, votes):
    """Mean votes of each line and its neighbours where the line itself has any, in order, from the votes of each."""
    held: dict = {}
    for line, lines in near.items():
        while lines[-1] not in held:
            other, own = next(votes)
            held[other] = own
        held = {other: own for other, own in held.items() if other >= lines[0]}
        yield line, _mean_votes(line, {other: held[other] for other in lines})


def _mean_votes(line, votes):
    """Mean votes of a line and its neighbours, by position, where the line itself has any."""
    if len(votes) == 1:
        return votes[line]
    total = np.where(votes[line].any(axis=0), sum(one.astype(np.uint16) for one in votes.values()), 0)
    return _rounded(total, len(votes))


def _rounded(total, n):
    """Sums of n bytes, class by class, as their means in bytes; the class that wins by a fraction still wins."""
    mean = ((total + n // 2) // n).astype(np.uint8)
    best, seen = total.argmax(axis=0), mean.argmax(axis=0)
    for code in range(1, len(mean)):  # only a class before the winner can take its place
        mean[code] += (best == code) & (seen < code)
    return mean


def _write_section(out, min_confidence, line, votes):
    return out.write(line, _decided(min_confidence, "score" in out.shapes, votes))


def _decided(min_confidence, scores, votes):
    """Label and confidence of a line, and the share of every class where it is asked for."""
    found = dict(zip(("label", "confidence"), decide(votes, min_confidence), strict=True))
    return found | ({"score": votes} if scores else {})


def section_votes(volume, grid, mapper, rows, *, device=None, at_once=BLOCK):
    """Share of the vote of every class on one line, shape (n_traces, n_samples, n_classes); 0 where nobody votes."""
    starts = grid.places(rows)
    if _takes_sections(grid, mapper):
        return _whole_section(volume, grid, mapper, starts[0, :2])
    shape = (len(grid.axes[1 - starts[0, 0]]), len(grid.axes[2]))
    total = np.zeros((*shape, len(mapper.classes_)), np.float32)
    weight = np.zeros(shape, np.float32)
    for span in spans(len(starts), at_once):
        patches = grid.cut(volume, starts[span])
        whole = np.isfinite(patches).all(axis=(1, 2))
        if not whole.any():
            continue
        scores = _scores(mapper, patches[whole], device)
        share = scores / np.maximum(scores.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        add_windows(total, weight, share.swapaxes(1, 2), starts[span][whole, 2:])
    return total / np.where(weight > 0, weight, 1)[..., None]


def _takes_sections(grid, mapper):
    return getattr(mapper, "any_size", False) and grid.gain != "patch"


def _whole_section(volume, grid, mapper, place):
    """Votes of a mapper that takes sections of any size; missing traces count as silence and get no vote."""
    section, votes = _filled_section(volume, grid, place)
    scores = to_numpy(mapper.scores(section[None]))[0].swapaxes(0, 1)
    return scores / scores.sum(axis=-1, keepdims=True) * votes[..., None]


def _filled_section(volume, grid, place):
    """A section, shape (n_samples, n_traces), silent where it is missing; and where it gets a vote, transposed."""
    section, live = grid.section(volume, *place)
    known = np.isfinite(section)
    return np.where(known, section, np.float32(0.5)).T, known & live[:, None]


def _scores(mapper, patches, device):
    if device is None:
        return to_numpy(mapper.scores(patches))
    import torch

    return to_numpy(mapper.scores(torch.from_numpy(patches).to(device)))


def decide(votes, min_confidence=0.0):
    """Label and confidence from votes.

    Parameters
    ----------
    votes : uint8 array, shape (n_classes, ...), or float array, shape (..., n_classes)
        As `line_votes` or `section_votes` give them.
    min_confidence : float
        Below it a label is uncertain.

    Returns
    -------
    labels, confidence : uint8 array
        0 not labelled, where nobody votes; 255 uncertain; i + 1 class i. Confidence 255 is sure.

    Examples
    --------
    >>> decide(np.array([[0, 51, 102], [0, 204, 153]], np.uint8), 0.7)
    (array([  0,   2, 255], dtype=uint8), array([  0, 204, 153], dtype=uint8))
    """
    if votes.dtype == np.uint8:
        votes = np.moveaxis(votes, 0, -1) * np.float32(1 / 255)
    labels, best = winner(votes)
    sure = confidence(votes)
    labels = np.where(sure >= min_confidence, labels, np.uint8(UNCERTAIN))
    return np.where(best > 0, labels, np.uint8(0)), np.round(255 * sure).astype(np.uint8)


def confidence_for(confidence, max_error):
    """Lowest limit of confidence at which the labels above it should hold no more than a share of errors.

    Parameters
    ----------
    confidence : uint8 array
        255 = sure, as `label_volume` gives it; 0 where there is no label.
    max_error : float
        Share of wrong labels to put up with. A confidence near p is taken to be right in a share p of the cases.

    Returns
    -------
    float
        Between 0 and 1; 1 where no limit is high enough.

    Examples
    --------
    >>> confidence_for(np.array([255, 255, 230, 128], np.uint8), 0.05)
    0.9019607843137255
    """
    return confidence_limit(np.bincount(np.ravel(confidence), minlength=256), max_error)


def confidence_limit(counts, max_error, shift=0.0):
    """As `confidence_for`, from how often each of the 256 levels of confidence occurs.

    Parameters
    ----------
    counts : array, shape (256,)
    max_error : float
    shift : float
        What answers to audits add to the logit of a confidence; see `outcrop.retrieval.audit.confidence_shift`.
    """
    levels = np.arange(255, 0, -1)
    counts = counts[levels]
    error = expit(-(logit(levels / 255) + shift))
    wrong = np.cumsum(counts * error) / np.maximum(np.cumsum(counts), 1)
    low = levels[(wrong <= max_error) & (counts > 0)]
    return float(low.min() / 255) if len(low) else 1.0


def _chosen_lines(grid, rows, lines):
    """Positions of the lines asked for by their survey labels, all of `rows` by default."""
    if lines is None:
        return list(rows)
    axis = grid.axes[_axis(grid)]
    have = axis[sorted(rows)]
    missing = [label for label in lines if label not in have]
    if missing:
        raise ValueError(
            f"{grid.along} {missing[0]} is not among the lines to label, {have[0]} to {have[-1]}; choose another."
        )
    return [int(np.flatnonzero(axis == label)[0]) for label in lines]


class _Store:
    """Where label sections go: a Zarr folder with a log of finished lines, or memory."""

    def __init__(self, volume, grid, path, attrs, *, scores=False):
        self.shapes = {"label": volume.shape, "confidence": volume.shape}
        if scores:
            self.shapes["score"] = (len(attrs["classes"]), *volume.shape)
        self.axis = _axis(grid)
        self.coords = {name: volume[name].values for name in volume.dims}
        self.attrs = attrs | {"source": str(volume.attrs.get("source", "")), "version": outcrop.__version__}
        self.attrs |= {"bin_size": list(volume.attrs["bin_size"])} if "bin_size" in volume.attrs else {}
        self.path, self.done = path and Path(path), path and DoneLog(Path(path).with_suffix(".done"))
        if self.path is None:
            self.arrays: Any = {name: np.zeros(shape, np.uint8) for name, shape in self.shapes.items()}
        else:
            for own in (self.path, self.done.path):
                Workspace(own.parent).own(own.name)
            if not self.path.is_dir():
                self._create(volume)
            self.arrays, coords, found = _open_arrays(self.path, mode="r+")
            if not all(np.array_equal(coords.get(name), own) for name, own in self.coords.items()):
                raise ValueError(f"{self.path} holds labels of another volume; remove it and label again.")
            if self.arrays.keys() != self.shapes.keys():
                raise ValueError(
                    f"{self.path} was made {'without' if scores else 'with'} scores; remove it, or ask alike."
                )
            if found.get("digest") != attrs["digest"]:
                raise ValueError(
                    f"{self.path} holds labels of another mapper, grid or limit of confidence; give another path."
                )

    def _create(self, volume):
        # a line is a file, in chunks of some traces, so that a section across the lines reads little of each
        chunks = [min(TRACES, max(1, n)) for n in volume.shape[:2]] + [max(1, volume.shape[2])]
        chunks[self.axis] = 1
        shards = [-(-max(1, n) // size) * size for n, size in zip(volume.shape, chunks, strict=True)]
        shards[self.axis] = 1
        self.done.path.unlink(missing_ok=True)
        with whole_file(self.path) as aside:
            group = zarr.open_group(aside, mode="w", attributes=self.attrs)
            for name, values in self.coords.items():
                group.create_array(name, data=values, dimension_names=(name,))
            for name, shape in self.shapes.items():
                each = (1,) * (len(shape) - 3)  # one class a file
                options: Any = {"shape": shape, "chunks": (*each, *chunks), "shards": (*each, *shards)}
                options |= {"dtype": "uint8", "fill_value": 0, "compressors": [ZstdCodec(), Crc32cCodec()]}
                group.create_array(name, dimension_names=_dims(volume.dims, shape), **options)

    def write(self, line, section):
        """Keep the section of a line; seals of its chunks where they lie in a folder."""
        seals = {}
        for name, values in section.items():
            axis = values.ndim - 2 + self.axis  # one more where values are of several classes
            if self.path is None:
                self.arrays[name][(slice(None),) * axis + (line,)] = values
            else:
                seals[name] = write_chunks(self.arrays[name], axis, line, np.expand_dims(values, axis))
        return seals

    def confirm(self, line, seals):
        """Count a line as done whose chunks are seen here as they were written."""
        for name, seal in seals.items():
            confirm_chunks(self.arrays[name], self.arrays[name].ndim - 3 + self.axis, line, seal)
        if self.done:
            self.done.add(line)

    def dataset(self):
        if self.path is not None:
            return open_labels(self.path)
        data = {name: (_dims(self.coords, array.shape), array) for name, array in self.arrays.items()}
        return xr.Dataset(data, coords=self.coords, attrs=self.attrs)


def _dims(dims, shape):
    """Names of the axes of an array on a volume, perhaps with one more for the classes before them."""
    return ("class",) * (len(shape) - 3) + tuple(dims)


def open_labels(path):
    """Labels of a job as a lazy Dataset."""
    if not Path(path).is_dir():
        raise ValueError(f"{path} holds no labels yet; run 'outcrop label' first.")
    arrays, coords, attrs = _open_arrays(path)
    data = {
        name: (
            _dims(coords, array.shape),
            indexing.LazilyIndexedArray(
                LazyVolume(partial(take_block, array, tuple(range(array.ndim))), array.shape, "u1")
            ),
        )
        for name, array in arrays.items()
    }
    return xr.Dataset(data, coords, attrs)


def _open_arrays(path, *, mode="r"):
    """Label, confidence and scores of a store, its axes and attributes; no number in it may ask for much memory."""
    with damage(path, "remove it and label again"):
        group: Any = zarr.open_group(path, mode=mode)
        arrays = {name: group[name] for name in ("label", "confidence", *(["score"] if "score" in group else []))}
        dims = arrays["label"].metadata.dimension_names
        axes = [group[name] for name in dims]
        shape = tuple(axis.shape[0] for axis in axes)
        sound = len(shape) == 3 and max(shape) <= MOST_LINES and isinstance(group.attrs["classes"], list)
        each = {"score": (len(group.attrs["classes"]), *shape)} if sound else {}
        sound &= all(a.dtype == "uint8" and a.shape == each.get(name, shape) for name, a in arrays.items())
        sound &= all(
            c <= n for array in (*axes, *arrays.values()) for c, n in zip(array.chunks, array.shape, strict=True)
        )
        coords = {name: axis[:] for name, axis in zip(dims, axes, strict=True)} if sound else {}
        if not (sound and all(len(np.unique(labels)) == len(labels) for labels in coords.values())):
            raise ValueError("it is not what was written")
        return arrays, coords, dict(group.attrs)


def stability(volume, grid, fit, *, lines, progress=None):
    """Share of labels that stay the same, class by class, under changes that should not matter.

    Parameters
    ----------
    volume : DataArray
        The volume.
    grid : PatchGrid
        How it is labelled.
    fit : callable
        ``fit(seed)`` gives a fitted mapper.
    lines : sequence of int
        Survey labels of the inlines to try it on.
    progress : callable, optional
        Called with the number of changes done so far.

    Returns
    -------
    DataFrame
        One row per change, one column per class, and ``all``.
    """
    mapper, options = fit(0), grid.parameters | {"area": None, "between": None, "sample": None, "every": 1}
    few = volume.sel(inline=list(lines)).load()
    step = [half // 2 for half in grid.step]

    def labels(data, model=mapper, *, shift=(0, 0)):
        axes = [data[name].values for name in data.dims]
        area = {data.dims[1]: (axes[1][shift[1]], axes[1][-1]), data.dims[2]: (axes[2][shift[0]], axes[2][-1])}
        with_area = options | {"area": area, "along": "inline"}
        return label_volume(data, PatchGrid(data, **with_area), model)["label"].values

    scaled = few.attrs.get("scaled")
    middle = 0.5 if scaled else 0.0
    inlines = volume["inline"].values
    beside = [inlines[min(int(np.flatnonzero(inlines == line)[0]) + 1, len(inlines) - 1)] for line in lines]
    changes = {
        "mirrored": lambda: labels(few.copy(data=few.values[:, ::-1]))[:, ::-1],
        "grid shifted by half a step": lambda: labels(few, shift=step),
        "3 dB louder": lambda: labels(few.copy(data=_clipped((few.values - middle) * 10**0.15 + middle, scaled))),
        "polarity reversed": lambda: labels(few.copy(data=2 * middle - few.values)),
        "neighbouring line": lambda: labels(volume.sel(inline=beside).load()),
        "another seed": lambda: labels(few, fit(1)),
    }
    base, rows = labels(few), []
    for count, (name, change) in enumerate(changes.items(), 1):
        rows.append({"change": name, **unchanged(base, change(), mapper.classes_)})
        if progress:
            progress(count)
    return pd.DataFrame(rows)


def _clipped(values, scaled):
    return np.clip(values, 0, 1) if scaled else values


def unchanged(before, after, classes):
    """Share of the samples labelled in both that keep their label, by class and in all."""
    both = labelled(before) & labelled(after)
    same = before == after
    shares = {str(name): before == code for code, name in enumerate(classes, 1)}
    means = {name: same[own & both].mean() if (own & both).any() else np.nan for name, own in shares.items()}
    return {**means, "all": same[both].mean() if both.any() else np.nan}
