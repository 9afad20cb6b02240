"""Labels of a job from both directions: the lines across are labelled by the same mapper, and all votes count."""

from functools import partial

import numpy as np

from outcrop.geometry.fusion import decided, lazy_labels
from outcrop.job.labelling import Labelling
from outcrop.job.votes import TRACES
from outcrop.parallel import spans
from outcrop.patches import DIRECTIONS
from outcrop.volume import as_slice


class CrossLabelling(Labelling):
    """Labels of the lines of the other direction of a job, by the mapper that its decisions lead to."""

    def __init__(self, job, state=None):
        super().__init__(job, state)
        self.along = 1 - self.along

    def _votes_inputs(self, mapper):
        inputs = super()._votes_inputs(mapper)
        return inputs | {"grid": inputs["grid"] | {"along": DIRECTIONS[self.along]}}


def fused_labels(job, *, device=None, client=None, memory=None, progress=None):
    """Labels of a job by the votes of its lines and of the lines across; see `Job.fused_labels`."""
    work, cross = Labelling(job), CrossLabelling(job)
    if not can_fuse(job):
        raise ValueError(
            f"The {DIRECTIONS[cross.along]}s have {job.volume.shape[job.along]} traces, fewer than a patch; the two "
            "directions cannot be fused, take the labels as they are."
        )
    if not work.lines():
        raise ValueError(f"{job.path} has no labels yet; run 'outcrop label {job.path}' first.")
    cross.label(device=device, client=client, memory=memory, progress=progress)
    return voted_labels(job, [work, cross])


def can_fuse(job):
    """Whether the lines of the other direction are as wide as a patch."""
    return job.volume.shape[job.along] >= job.index_options()["size"][1]


def voted_labels(job, works):
    """Lazy labels by the sum of the votes of some directions, on the lines that the first of them has labelled."""
    views = [work.labels()[0] for work in works]
    dataset = works[0].dataset()
    coords = {name: dataset[name].values for name in dataset["label"].dims}
    keys = sorted({store.folder.name for view in views for store in view.stores.values()})
    attrs = {**dataset.attrs, "fused": len(works) > 1, "colours": job.palette}
    attrs["provenance"] = attrs["provenance"] | {"votes": keys}
    if "bin_size" in job.volume.attrs:
        attrs["bin_size"] = job.volume.attrs["bin_size"]
    return lazy_labels(partial(_decided, views), coords, attrs)


def _decided(views, key):
    """Label, confidence and margin of a block by all votes, in tiles that the chunks of the votes are made for."""
    rows, columns, samples = (np.arange(n)[part] for n, part in zip(views[0].shape, key, strict=True))
    found = np.zeros((3, len(rows), len(columns), len(samples)), np.uint8)
    for tile in spans(len(columns), TRACES):
        total = _votes(views, rows, columns[tile], samples)
        for i in range(len(rows)):  # a line at a time: as numbers with a fraction the votes take twice the room
            found[:, i, tile] = decided(total[:, i], views[0].limit)
    return found


def _votes(views, rows, columns, samples):
    """Sum of the votes of a block by code, shape (n_codes, n_rows, n_columns, n_samples)."""
    total = np.zeros((max(views[0].codes.values()), len(rows), len(columns), len(samples)), np.uint16)
    valid = np.zeros((len(rows), len(columns)), bool)
    for number, view in enumerate(views):
        lines, traces = (rows, columns) if view.along == 0 else (columns, rows)
        for i, line in enumerate(lines.tolist()):
            if line not in view.stores:
                continue
            at = (slice(None), i) if view.along == 0 else (slice(None), slice(None), i)
            classes, votes = view.votes(line, as_slice(traces), as_slice(samples))
            for name, own in zip(classes, votes, strict=True):
                if name in view.codes:
                    total[(view.codes[name] - 1, *at[1:])] += own
            if number == 0:
                valid[at[1:]] = True
    total[:, ~valid] = 0
    return total
