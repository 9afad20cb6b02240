"""Store the votes of lines on disk; labels are computed from the votes when they are read."""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from outcrop.labels.decision import decide
from outcrop.labels.line_store import LineStore, Seals, create_group
from outcrop.storage.chunks import read_chunk, write_file
from outcrop.storage.workspace import Damaged, damage
from outcrop.volumes.identity import line_digest
from outcrop.volumes.lazy import as_slice

REMEDY = "run 'outcrop label' again to make it again"
Part = slice | np.ndarray  # positions on an axis
EVERY = slice(None)


class VoteStore(LineStore):
    """Store of the votes for each class at every sample, written line by line as uint8.

    The value 255 means that all votes at a sample are for the class. All lines in a store were computed from the same
    decisions and options. A chunk holds the differences between neighbouring traces, modulo 256. This is lossless and
    takes two thirds of the space.

    Parameters
    ----------
    folder : Path
        Folder of one result of stage ``votes`` in the job folder.
    """

    axes = {"votes": 0, "counts": 0}  # noqa: RUF012

    def __init__(self, folder: Path):
        super().__init__(folder / "votes.zarr")
        self.folder = folder
        with damage(self.path, REMEDY):
            group: Any = zarr.open_group(self.path, mode="r+")
            self.arrays = {name: group[name] for name in self.axes}
            self.votes, self.counts = self.arrays["votes"], self.arrays["counts"]
            self.classes = [str(name) for name in group.attrs["classes"]]
            self.width = self.votes.chunks[2]
            if self.votes.ndim != 4 or self.votes.shape[1] != len(self.classes) or self.votes.dtype != "uint8":
                raise ValueError(f"the stored votes have the wrong type {self.votes.dtype} or shape {self.votes.shape}")
            if self.votes.shards is None:
                raise ValueError("the votes have the format of an earlier version of the program")

    @classmethod
    def make(cls, folder: Path, shape: Sequence[int], classes: Iterable[str]) -> "VoteStore":
        """Open the store in a folder; if it is missing, create it for the given shape and classes.

        `shape` is (n_lines, n_traces, n_samples).
        """
        names = list(classes)
        if not (folder / "votes.zarr").is_dir():
            lines, traces, samples = shape
            arrays = {"votes": ((lines, len(names), traces, samples), "uint8"), "counts": ((lines, 256), "uint32")}
            create_group(folder / "votes.zarr", arrays, cls.axes, attrs={"classes": names})
        return cls(folder)

    def write(self, line: int, votes: np.ndarray) -> Seals:
        """Store the votes of a line, shape (n_classes, n_traces, n_samples), and how often each confidence occurs.

        Returns
        -------
        dict
            Checksums of the chunks, for `confirm`.
        """
        counts = np.bincount(decide(votes)[1].ravel(), minlength=256).astype(np.uint32)
        packed = votes.copy()  # the first trace of each chunk, then differences
        packed[:, 1:] -= votes[:, :-1]
        packed[:, :: self.width] = votes[:, :: self.width]
        return {"votes": write_file(self.votes, line, packed), "counts": write_file(self.counts, line, counts)}

    def read(self, line: int, traces: Part = EVERY, samples: Part = EVERY) -> np.ndarray:
        """Return the votes of a line, by default of all traces and samples; shape (n_classes, n_traces, n_samples).

        A damaged line raises an error and is removed from the log of finished lines.
        """
        try:
            with damage(self.path, REMEDY):
                return self._read([line], traces, samples)[:, 0]
        except Damaged:
            with contextlib.suppress(OSError):
                self.done.drop(line)
            raise

    def read_lines(self, lines: Sequence[int], traces: Part = EVERY, samples: Part = EVERY) -> np.ndarray:
        """Return the votes of several lines, by default of all traces and samples.

        Returns
        -------
        array, shape (n_classes, n_lines, n_traces, n_samples)
        """
        try:
            with damage(self.path, REMEDY):
                return self._read(lines, traces, samples)
        except Damaged:  # read line by line, so that the damaged line is removed from the log
            return np.stack([self.read(line, traces, samples) for line in lines], axis=1)

    def _read(self, lines: Sequence[int], traces: Part, samples: Part) -> np.ndarray:
        wanted = np.arange(self.votes.shape[2])[traces]
        samples = as_slice(np.arange(self.votes.shape[3])[samples])
        if len(lines) > 1 and len(wanted) and np.ptp(wanted // self.width) == 0:
            return self._across(lines, wanted, samples)
        every = np.unique(wanted // self.width)[:, None] * self.width + np.arange(self.width)
        columns = every[every < self.votes.shape[2]]
        # slices, because Zarr is ten times slower with arrays
        found: np.ndarray = self.votes.oindex[as_slice(np.asarray(lines)), slice(None), as_slice(columns), samples]
        found = np.moveaxis(found, 0, 1)
        for start in range(0, len(columns), self.width):
            part = found[:, :, start : start + self.width]
            np.add.accumulate(part, axis=2, out=part)
        return found if len(columns) == len(wanted) else found[:, :, np.searchsorted(columns, wanted)]

    def _across(self, lines: Sequence[int], wanted: np.ndarray, samples: Part) -> np.ndarray:
        """Return the votes of the same traces on many lines, for a section across the lines.

        Only one chunk of each line is read, which must contain the traces.
        """
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
    """Write the votes of a line in the process that computed them, and compute the digest of the line's amplitudes.

    Parameters
    ----------
    store : VoteStore
        Store that receives the votes.
    volume : DataArray or None
        The labelled volume; None to compute no digests.
    along : int
        Direction of the lines: 0 for inlines, 1 for crosslines.
    """

    def __init__(self, store: VoteStore, volume: xr.DataArray | None, along: int):
        self.store, self.volume, self.along = store, volume, along

    def __call__(self, line: int, votes: np.ndarray) -> tuple[Seals, dict[tuple[int, int], str]]:
        """Write the votes of a line.

        Returns
        -------
        seals : dict
            Checksums of the written chunks.
        digests : dict
            (direction, position of the line) -> digest of its amplitudes.
        """
        seals = self.store.write(line, votes)
        if self.volume is None:
            return seals, {}
        section = self.volume.isel({self.volume.dims[self.along]: line})
        return seals, {(self.along, line): line_digest(section)}
