"""Votes of the lines of a survey, kept so that limits, painted samples and class names are applied on reading."""

import contextlib
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
import zarr
from xarray.core import indexing
from zarr.codecs import Crc32cCodec, ZstdCodec

from outcrop.job.corrections import Corrections
from outcrop.job.options import LabelOptions
from outcrop.labels.decision import confidence_limit, decide
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.parallel import spans
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.chunks import confirm_chunks, read_chunk, write_file
from outcrop.storage.workspace import Damaged, DoneLog, damage, whole_file
from outcrop.volumes.identity import line_digest
from outcrop.volumes.lazy import LazyVolume, as_slice

TRACES = 32  # of a chunk: a section across the lines reads one chunk of each
AT_ONCE = 1 << 25  # bytes of votes that are read at once
REMEDY = "run 'outcrop label' again and it is made anew"


class VoteStore:
    """Votes of lines under one key: uint8, 255 = all of the vote.

    A line is one file, in chunks of some traces. Of the traces of a chunk the differences from one to the next are
    kept, modulo 256, which take two thirds of the space; nothing is lost.

    Parameters
    ----------
    folder : Path
        Of the stage.
    """

    def __init__(self, folder):
        self.folder = folder
        self.done = DoneLog(folder / "votes.done")
        with damage(folder / "votes.zarr", REMEDY):
            group: Any = zarr.open_group(folder / "votes.zarr", mode="r+")
            self.votes, self.counts = group["votes"], group["counts"]
            self.classes = [str(name) for name in group.attrs["classes"]]
            self.width = self.votes.chunks[2]
            if self.votes.ndim != 4 or self.votes.shape[1] != len(self.classes) or self.votes.dtype != "uint8":
                raise ValueError(f"votes are {self.votes.dtype} of shape {self.votes.shape}")
            if self.votes.shards is None:
                raise ValueError("votes are those of an earlier version")

    @classmethod
    def make(cls, folder, shape, classes):
        """Store of ``shape`` (lines, traces, samples) and classes, made where it is not there."""
        if not (folder / "votes.zarr").is_dir():
            with whole_file(folder / "votes.zarr") as aside:
                about: Any = {"classes": list(classes)}
                group = zarr.open_group(aside, mode="w", attributes=about)
                lines, traces, samples = shape
                checked: Any = {"dtype": "uint8", "compressors": [ZstdCodec(), Crc32cCodec()], "fill_value": 0}
                layout: Any = {"chunks": (1, len(classes), TRACES, samples)}
                layout["shards"] = (1, len(classes), -(-traces // TRACES) * TRACES, samples)
                group.create_array("votes", shape=(lines, len(classes), traces, samples), **layout, **checked)
                group.create_array("counts", shape=(lines, 256), chunks=(1, 256), **checked | {"dtype": "uint32"})
        return cls(folder)

    def write(self, line, votes):
        """Keep the votes of a line, shape (n_classes, n_traces, n_samples), and how often each confidence occurs.

        Returns
        -------
        dict
            Seals of the chunks, for `confirm`.
        """
        counts = np.bincount(decide(votes)[1].ravel(), minlength=256).astype(np.uint32)
        votes = self._packed(votes)
        return {"votes": write_file(self.votes, line, votes), "counts": write_file(self.counts, line, counts)}

    def confirm(self, line, seals):
        """Count a line as done whose chunks are seen here as they were written, by whichever process."""
        confirm_chunks(self.votes, 0, line, seals["votes"])
        confirm_chunks(self.counts, 0, line, seals["counts"])
        self.done.add(line)

    def read(self, line, traces=slice(None), samples=slice(None)):
        """Votes of a line, or of a part of it."""
        try:
            with damage(self.folder / "votes.zarr", REMEDY):
                return self._read([line], traces, samples)[:, 0]
        except Damaged:
            with contextlib.suppress(OSError):
                self.done.drop(line)
            raise

    def read_lines(self, lines, traces=slice(None), samples=slice(None)):
        """Votes of several lines, or of a part of them, shape (n_classes, n_lines, n_traces, n_samples)."""
        try:
            with damage(self.folder / "votes.zarr", REMEDY):
                return self._read(lines, traces, samples)
        except Damaged:  # one after the other, so that the damaged one is noted
            return np.stack([self.read(line, traces, samples) for line in lines], axis=1)

    def _packed(self, votes):
        """Votes as they are kept: of a chunk the first trace, then differences."""
        packed = votes.copy()
        packed[:, 1:] -= votes[:, :-1]
        packed[:, :: self.width] = votes[:, :: self.width]
        return packed

    def _read(self, lines, traces, samples):
        wanted = np.arange(self.votes.shape[2])[traces]
        samples = as_slice(np.arange(self.votes.shape[3])[samples])
        if len(lines) > 1 and len(wanted) and np.ptp(wanted // self.width) == 0:
            return self._across(lines, wanted, samples)
        every = np.unique(wanted // self.width)[:, None] * self.width + np.arange(self.width)
        columns = every[every < self.votes.shape[2]]
        # slices, for with arrays Zarr is ten times as slow
        found = self.votes.oindex[as_slice(np.asarray(lines)), slice(None), as_slice(columns), samples]
        found = np.moveaxis(found, 0, 1)
        for start in range(0, len(columns), self.width):
            part = found[:, :, start : start + self.width]
            np.add.accumulate(part, axis=2, out=part)
        return found if len(columns) == len(wanted) else found[:, :, np.searchsorted(columns, wanted)]

    def _across(self, lines, wanted, samples):
        """Votes of some traces of one chunk on many lines, as a section across the lines reads them."""
        number, inside = int(wanted[0]) // self.width, wanted % self.width
        found = []
        for line in lines:
            chunk = read_chunk(self.votes, int(line), number)[0][:, : inside.max() + 1, samples]
            if len(inside) == 1:
                found.append(np.add.reduce(chunk, axis=1, dtype=np.uint8)[:, None])
            else:
                found.append(np.add.accumulate(chunk, axis=1, dtype=np.uint8)[:, inside])
        return np.stack(found, axis=1)


class LineWriter:
    """Keeps the votes of a line where they were made, and tells the digests of the lines that vote on it.

    Parameters
    ----------
    store : VoteStore
    volume : DataArray or None
        None where no digests are wanted.
    along, across : int
        Direction of the lines, and how many on either side vote.
    """

    def __init__(self, store, volume, along, across):
        self.store, self.volume, self.along, self.across = store, volume, along, across
        self.digests: dict = {}  # of the lines around the last one

    def __call__(self, line, votes):
        """Seals of what was written, and (direction, position) -> digest."""
        seals = self.store.write(line, votes)
        if self.volume is None:
            return seals, {}
        near = range(max(0, line - self.across), min(line + self.across + 1, self.volume.shape[self.along]))
        before = self.digests
        found = {(self.along, one): before.get((self.along, one)) or self._digest(one) for one in near}
        self.digests = found
        return seals, found

    def _digest(self, line):
        return line_digest(self.volume[(slice(None),) * self.along + (line,)].values)


class Labels(NamedTuple):
    """What is needed to read labels: which store holds each line, and what is applied to its votes.

    ``codes`` gives the code of a class by its first name, ``corrections`` the votes where something is painted.
    """

    stores: dict  # position of a line -> VoteStore
    codes: dict
    corrections: Corrections
    limit: float
    along: int
    shape: tuple

    def block(self, what, key):
        """Part of the label or confidence volume, for a key of three slices or arrays of positions."""
        wanted = [np.arange(n)[k] for n, k in zip(self.shape, key, strict=True)]
        lines, traces, samples = wanted[self.along], wanted[1 - self.along], wanted[2]
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        which = 0 if what == "label" else 1
        plain: dict = {}
        for i, line in enumerate(lines.tolist()):
            if line in self.stores and self.corrections.near(line):
                out[i] = self.section(line, traces, samples)[which]
            elif line in self.stores:
                plain.setdefault(self.stores[line], []).append(i)
        for store, rows in plain.items():
            size = max(1, len(store.classes) * len(traces) * len(samples))
            for span in spans(len(rows), max(1, AT_ONCE // size)):
                part = rows[span]
                votes = store.read_lines(lines[part], traces, samples)
                out[part] = self._decided(store.classes, votes)[which]
        return out if self.along == 0 else out.swapaxes(0, 1)

    def score_block(self, name, key):
        """Part of the volume of the share of a class, for a key as in `block`."""
        wanted = [np.arange(n)[k] for n, k in zip(self.shape, key, strict=True)]
        lines, traces, samples = wanted[self.along], wanted[1 - self.along], wanted[2]
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        for i, line in enumerate(lines.tolist()):
            if line in self.stores:
                classes, votes = self.votes(line, traces, samples)
                if name in classes:
                    out[i] = votes[classes.index(name)]
        return out if self.along == 0 else out.swapaxes(0, 1)

    def votes(self, line, traces=slice(None), samples=slice(None)):
        """Classes and votes of a line, or of a part of it, with what is painted on it and near it."""
        store = self.stores[line]
        corrected = self.corrections.votes(line, store)
        if corrected is None:
            return store.classes, store.read(line, traces, samples)
        classes, votes = corrected
        return classes, votes[:, traces][:, :, samples]

    def section(self, line, traces=slice(None), samples=slice(None), *, painted=True):
        """Label and confidence of a line, or of a part of it; as if nothing were painted on it or near it, if asked."""
        store = self.stores[line]
        classes, votes = (
            self.votes(line, traces, samples) if painted else (store.classes, store.read(line, traces, samples))
        )
        return self._decided(classes, votes)

    def _decided(self, classes, votes):
        """Label and confidence from the votes of some classes."""
        label, sure = decide(votes, self.limit)
        table = np.zeros(256, np.uint8)
        table[UNCERTAIN] = UNCERTAIN
        table[1 : 1 + len(classes)] = [self.codes.get(name, 0) for name in classes]
        return table[label], sure


def read_labels(labels, coords, stale, attrs):
    """Labels as a lazy Dataset: ``label``, ``confidence``, and ``stale`` of every line.

    Parameters
    ----------
    labels : Labels
    coords : dict
        Dimension -> labels of the axis.
    stale : set
        Positions of the lines whose votes are of an older key.
    attrs : dict
    """
    dims = tuple(coords)
    data: dict = {}
    for what in ("label", "confidence"):
        lazy = LazyVolume(partial(labels.block, what), labels.shape, np.uint8)
        data[what] = (dims, indexing.LazilyIndexedArray(lazy))
    lines = np.isin(np.arange(labels.shape[labels.along]), sorted(stale))
    data["stale"] = ((DIRECTIONS[labels.along],), lines)
    return xr.Dataset(data, coords, attrs)


def survey_limit(stores: dict[int, VoteStore], options: LabelOptions, shift: float = 0.0) -> float:
    """Return the confidence below which a label is uncertain, from a limit of confidence or of error.

    Parameters
    ----------
    stores : dict
        Position of a line -> VoteStore; a limit of error is estimated on all of these lines.
    options : LabelOptions
    shift : float
        What audits add to the logit of a confidence, where the limit is one of error.
    """
    if options.max_error is None or not stores:
        return options.min_confidence or 0.0
    counts = sum(store.counts[line].astype(np.int64) for line, store in stores.items())
    return confidence_limit(counts, options.max_error, shift)
