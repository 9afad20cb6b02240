"""Labels that are decided when they are read, from votes, corrections, confirmed lines and limits."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from xarray.core import indexing

from outcrop.job.confirmed import Confirmed, NoVotes
from outcrop.job.corrections import Corrections
from outcrop.job.options import LabelOptions
from outcrop.labels.decision import confidence_limit, decide
from outcrop.labels.vote_store import EVERY, Part, VoteStore
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.parallel import spans
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lazy import LazyVolume

AT_ONCE = 1 << 25  # bytes of votes that are read at once


class Labels(NamedTuple):
    """Labels that are decided when they are read, from the stored votes of each line.

    ``codes`` has the code of each class by the name under which it was first added. ``corrections`` change the votes of
    lines with strokes. ``confirmed`` labels replace both. Samples with a confidence below ``limit`` are uncertain.
    """

    stores: dict[int, VoteStore | NoVotes]  # by position of a line
    codes: dict[str, int]
    corrections: Corrections
    limit: float
    along: int
    shape: tuple[int, ...]
    confirmed: Confirmed

    def block(self, what: str, key: Any) -> np.ndarray:
        """Return labels or confidences (`what`) of a block of the volume, uint8.

        `key` selects inlines, crosslines and samples by three slices or arrays of positions.
        """
        lines, traces, samples = self._wanted(key)
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        which = 0 if what == "label" else 1
        plain: dict[VoteStore, list[int]] = {}
        for i, line in enumerate(lines.tolist()):
            store = self.stores.get(line)
            if store is None:  # only confirmed sections across it have labels
                codes = self.confirmed.block(lines[i : i + 1], traces, samples)[0]
                out[i] = codes if which == 0 else np.where(codes > 0, 255, 0)
            elif isinstance(store, NoVotes) or line in self.confirmed.lines or line in self.corrections.lines:
                out[i] = self.section(line, traces, samples)[which]
            else:
                plain.setdefault(store, []).append(i)
        for store, rows in plain.items():
            size = max(1, len(store.classes) * len(traces) * len(samples))
            for span in spans(len(rows), max(1, AT_ONCE // size)):
                part = rows[span]
                votes = store.read_lines(lines[part].tolist(), traces, samples)
                out[part] = self.decided(store.classes, votes)[which]
        return out if self.along == 0 else out.swapaxes(0, 1)

    def score_block(self, name: str, key: Any) -> np.ndarray:
        """Return the scores (votes) of the class `name` in a block of the volume, uint8; `key` is as in `block`."""
        lines, traces, samples = self._wanted(key)
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        for i, line in enumerate(lines.tolist()):
            if line in self.stores:
                classes, votes = self.votes(line, traces, samples)
                if name in classes:
                    out[i] = votes[classes.index(name)]
        return out if self.along == 0 else out.swapaxes(0, 1)

    def _wanted(self, key: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the positions of lines, traces and samples that `key`, as in `block`, selects."""
        wanted = [np.arange(n)[part] for n, part in zip(self.shape, key, strict=True)]
        return wanted[self.along], wanted[1 - self.along], wanted[2]

    def votes(self, line: int, traces: Part = EVERY, samples: Part = EVERY) -> tuple[list[str], np.ndarray]:
        """Return classes and votes of a line, or of a part of it, with corrections and confirmed samples applied."""
        store = self.stores[line]
        corrected = None if isinstance(store, NoVotes) else self.corrections.votes(line, store)
        if corrected is None:
            return self.confirmed.over(line, store.classes, store.read(line, traces, samples), traces, samples)
        classes, votes = corrected
        return self.confirmed.over(line, classes, votes[:, traces][:, :, samples], traces, samples)

    def section(
        self, line: int, traces: Part = EVERY, samples: Part = EVERY, *, painted: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and confidences of a line, or of a part of it, each of shape (n_traces, n_samples).

        If `painted` is False, corrections and confirmed labels are not applied.
        """
        if painted:
            label, sure = self.decided(*self.votes(line, traces, samples))
            if line not in self.confirmed.lines:
                return label, sure
            codes = self.confirmed.codes(line)[traces][:, samples]  # votes for a single class would be uncertain
            return np.where(codes > 0, codes, label), np.where(codes > 0, np.uint8(255), sure)
        store = self.stores[line]
        return self.decided(store.classes, store.read(line, traces, samples))

    def decided(self, classes: list[str], votes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the label (a code of the job) and the confidence of each sample, from its votes for `classes`."""
        if not classes:
            return np.zeros(votes.shape[1:], np.uint8), np.zeros(votes.shape[1:], np.uint8)
        label, sure = decide(votes, self.limit)
        table = np.zeros(256, np.uint8)
        table[UNCERTAIN] = UNCERTAIN
        table[1 : 1 + len(classes)] = [self.codes.get(name, 0) for name in classes]
        return table[label], sure


def read_labels(labels: Labels, coords: dict[Any, np.ndarray], stale: set[int], attrs: dict[str, Any]) -> xr.Dataset:
    """Return labels as a Dataset that is read lazily: ``label`` and ``confidence``, and ``stale`` for every line.

    Parameters
    ----------
    labels : Labels
    coords : dict
        Dimension -> coordinates along it.
    stale : set
        Positions of the lines whose votes were computed before the latest decisions.
    attrs : dict
        Attributes of the Dataset.
    """
    data: dict[str, Any] = {}
    for what in ("label", "confidence"):
        lazy = LazyVolume(partial(labels.block, what), labels.shape, np.uint8)
        data[what] = (tuple(coords), indexing.LazilyIndexedArray(lazy))
    lines = np.isin(np.arange(labels.shape[labels.along]), sorted(stale))
    data["stale"] = ((DIRECTIONS[labels.along],), lines)
    return xr.Dataset(data, coords, attrs)


def survey_limit(stores: Mapping[int, VoteStore | NoVotes], options: LabelOptions, shift: float = 0.0) -> float:
    """Return the confidence below which a label is uncertain: the chosen minimum, or an estimate.

    The estimate is the lowest limit that keeps the expected share of wrong labels at or below the chosen maximum error.

    Parameters
    ----------
    stores : dict
        Position of a line -> its VoteStore. If a maximum error is chosen, the limit is estimated from all these lines.
    options : LabelOptions
    shift : float
        Correction that is added to the logit of confidence, estimated from audits; used only for a maximum error.
    """
    if options.max_error is None or not stores:
        return options.min_confidence or 0.0
    counts = sum(store.counts[line].astype(np.int64) for line, store in stores.items())
    return confidence_limit(counts, options.max_error, shift)
