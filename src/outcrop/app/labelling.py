"""The labels of a session: a quick draft, the real thing in the job folder, and what is shown of them."""

from typing import Any, NamedTuple

import numpy as np
import zarr
from scipy.ndimage import uniform_filter

import outcrop as oc
from outcrop import job as stages
from outcrop.app import brush
from outcrop.app.pictures import crop
from outcrop.labels import decide, open_labels, section_votes
from outcrop.painted import supervision, write_painted
from outcrop.parallel import one_blas_thread
from outcrop.patches import DIRECTIONS
from outcrop.workspace import DoneLog

DRAFT_PATCHES = 20  # per class, for labels to look at while the full fit runs
MOST_LINES = 100  # of labels that are read for a section across them


class Draft(NamedTuple):
    """Labels of one line that are on their way."""

    line: float
    label: np.ndarray
    confidence: np.ndarray
    classes: list


class Labelling:
    """Labels of the survey, made from what a search found.

    Parameters
    ----------
    search : Search
    truth : DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    changed : float or None
        Share of the line that the last fit gave another label.
    draft : Draft or None
        Shown until the labels are there.
    """

    def __init__(self, search, truth=None):
        self.search, self.truth = search, truth
        self.survey, self.state, self.work = search.survey, search.state, search.work
        self.changed: float | None = None
        self.draft: Draft | None = None
        self._mappers: dict = {}
        self._opened: tuple = (None, None)

    # ---- making -----------------------------------------------------------------------------------------------------

    def label(self, lines=None):
        """Label some lines, by their numbers, or the whole survey."""
        if self.search.weak is None:
            raise ValueError("Nothing is retrieved yet; find similar patches first.")
        if len(set(self.search.weak.classes)) < 2:
            raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")
        return self.work.start("labelling", self._label, lines)

    def _label(self, task, lines):
        task.stage("fitting the mapping")
        before = None if lines is None else self.codes(lines[0])
        try:
            if lines is not None and self._mapper_key() not in self._mappers:
                self._make_draft(lines[0], task.progress)
                task.progress(0)
            mapper = self.mapper(task.progress)
            grid, index = self._grid(None), self.search.index
            task.stage("labelling", len(lines or list(grid.lines())))
            with self.search.writing(), one_blas_thread():
                record = stages.record_labelling(
                    index, mapping=self.state.data["mapping"], step=grid.step, seed=0, min_confidence=None, lines=lines
                )
                stages.label_lines(index, grid, mapper, lines=lines, progress=task.progress)
                index.workspace.log("label", lines=lines or "all", **record)
            if before is not None:
                self.changed = float((before != self.codes(lines[0])).mean())
        finally:
            self.draft = None
            self.work.tell("labels")

    def _make_draft(self, line, progress):
        """Labels of a line by a mapper fitted on few patches: seconds instead of a minute, and never stored."""
        with one_blas_thread():
            mapper = stages.fit_mapper(
                self.search.index, self.state.data["mapping"], draft=DRAFT_PATCHES, progress=progress
            )
            label, sure = decide(section_votes(self.survey.volume, self._grid([line]), mapper, slice(None)))
        names = [str(name) for name in mapper.classes_]
        own = {"direction": self.survey.along, "position": self._position(line)}
        said = brush.codes(self.survey, self.state.data["painted"], names, **own)
        self.draft = Draft(line, np.where(said > 0, said, label), np.where(said > 0, np.uint8(255), sure), names)
        self.work.tell("labels")

    def _grid(self, lines):
        """Dense grid of some lines, or of all."""
        name = DIRECTIONS[self.survey.along]
        area = dict(self.survey.options.get("area") or {})
        if lines is not None:
            area[name] = (min(lines), max(lines))
        third = tuple(max(1, n // 3) for n in self.survey.size)
        options = {"every": 1, "between": None, "sample": None, "step": third, "along": name, "area": area or None}
        return self.survey.grid(**options, clip=self.search.index.grid.clip)

    def mapper(self, progress=None):
        """Mapper fitted on the patches in use and the painted pixels; the last one is kept."""
        key, index = self._mapper_key(), self.search.index
        if key not in self._mappers:
            with one_blas_thread():  # two BLAS threads are slower than one where something else runs
                self._mappers = {key: stages.fit_mapper(index, self.state.data["mapping"], progress=progress)}
        return self._mappers[key]

    def _mapper_key(self):
        self.keep_painted()
        return self.state.data["mapping"], supervision(self.search.index.workspace)

    def keep_painted(self):
        """Keep the painted pixels where the command line finds them."""
        if self.search.index is not None:
            write_painted(self.search.index, self.state.data["painted"])

    def rename_class(self, old, new):
        """Give a class of the labels another name."""
        labels = self.dataset()
        if labels is not None:
            group = zarr.open_group(self.search.index.workspace / "labels.zarr", mode="r+")
            group.attrs["classes"] = [new if name == old else name for name in labels.attrs["classes"]]
            self._opened = (None, None)

    # ---- showing ----------------------------------------------------------------------------------------------------

    def dataset(self):
        """Labels of the search in use as a lazy Dataset, None where there are none."""
        path = None if self.search.index is None else self.search.index.workspace / "labels.zarr"
        if path is None or not path.is_dir():
            return None
        key = (path, path.stat().st_ino)  # labels that are made anew get a new folder
        if self._opened[0] != key:
            self._opened = (key, open_labels(path))
        return self._opened[1]

    def done(self):
        """Positions of the labelled lines."""
        index = self.search.index
        return set() if index is None else DoneLog(index.workspace / "labels.done").read()

    def codes(self, line):
        """Label codes of a line, None where it is not labelled."""
        labels = self.dataset()
        if labels is None or self._position(line) not in self.done():
            return None
        return labels["label"].sel({DIRECTIONS[self.survey.along]: line}).values

    def _position(self, line):
        return int(np.flatnonzero(self.survey.lines == line)[0])

    def record(self):
        """With what the labels were made, as ``job.toml`` keeps it."""
        return {} if self.search.index is None else self.search.index.workspace.read().get("label", {})

    def stale(self):
        """Whether the labels were made from other patches or painted pixels than those of now."""
        record = self.record()
        return bool(record) and record.get("weak") != supervision(self.search.index.workspace)

    def has(self, direction, position):
        """Whether a section shows labels."""
        done = self.done()
        return position in done if direction == self.survey.along else bool(done)

    def pictures(self, direction, position, window=None):
        """Pictures of label codes and of confidence, and the names of the codes; None where nothing is labelled."""
        labels, frame = self.dataset(), self.survey.sections.frame(direction)
        if self.draft and direction == self.survey.along and self.survey.lines[position] == self.draft.line:
            both = (self.draft.label, self.draft.confidence)
            return (*(crop(codes.T, frame, window, mean=False) for codes in both), self.draft.classes)
        if labels is None or not self.has(direction, position):
            return None
        pictures = []
        for name in ("label", "confidence"):
            values = self._section(labels[name], direction, position)
            pictures.append(crop(values if direction == 2 else values.T, frame, window, mean=False))
        return (*pictures, [str(name) for name in labels.attrs["classes"]])

    def _section(self, array, direction, position):
        """Section of labels; across the labelled lines no more than some of them are read, and stand for the others."""
        along = self.survey.along
        if direction == along:
            return array.isel({array.dims[direction]: position}).values
        done = np.array(sorted(self.done()))
        few = done[:: -(-len(done) // MOST_LINES)]
        read = array.isel({array.dims[direction]: position, array.dims[along]: few})
        axis = read.dims.index(array.dims[along])
        nearest = few[np.clip(np.searchsorted(few, done, side="right") - 1, 0, None)]
        values = np.zeros([n for i, n in enumerate(array.shape) if i != direction], np.uint8)
        lines = np.moveaxis(values, axis, 0)
        lines[done] = np.moveaxis(read.values, axis, 0)[np.searchsorted(few, nearest)]
        return values

    def truth_picture(self, direction, position, window=None):
        """Picture of the expert's codes and their names, None where there is no truth for this section."""
        if self.truth is None:
            return None
        name, label = self.survey.volume.dims[direction], self.survey.axes[direction].labels[position]
        if label not in self.truth[name].values:
            return None
        codes = self.truth.sel({name: label}).values.astype(np.uint8)
        codes = codes if direction == 2 else codes.T
        return crop(codes, self.survey.sections.frame(direction), window, mean=False), list(self.truth.attrs["classes"])

    def scores(self, line):
        """Pixel scores of a labelled line against the truth, None where one of them is missing."""
        labels, name = self.dataset(), DIRECTIONS[self.survey.along]
        if self.truth is None or labels is None or self.codes(line) is None or line not in self.truth[name].values:
            return None
        coded = labels["label"].sel({name: [line]}).assign_attrs(classes=list(labels.attrs["classes"]))
        return oc.pixel_scores(coded, self.truth.sel({name: [line]}).astype("uint8"))

    def uncertain(self, count=6, most_lines=40):
        """Places of the labelled lines where the labels are least sure, the least sure first.

        Returns
        -------
        list of dict
            ``place`` (inline, crossline, time) and ``confidence``, 0 to 1, the mean over a patch around it.
        """
        labels: Any = self.dataset()
        done, along = sorted(self.done()), self.survey.along
        found: list = []
        for line in done[:: max(1, len(done) // most_lines)]:
            sure = labels["confidence"].isel({labels["label"].dims[along]: line}).values
            found += [(value, line, *at) for value, *at in least(sure, self.survey.size[::-1], count)]
        places = []
        for sure, line, trace, sample in sorted(found)[:count]:
            at = (line, trace, sample) if along == 0 else (trace, line, sample)
            place = [axis.labels[i].item() for axis, i in zip(self.survey.axes, at, strict=True)]
            places.append({"place": place, "confidence": sure / 255})
        return places


def least(sure, size, count):
    """Mean and centre of the windows of that size with the lowest means, which do not overlap; 0 is no value.

    Examples
    --------
    >>> sure = np.full((9, 9), 200); sure[2:5, 4:7] = 20
    >>> least(sure, (3, 3), count=1)
    [(20.0, 3, 5)]
    """
    mean = uniform_filter(np.where(sure > 0, sure, 255).astype(np.float32), size)
    width, height = size
    mean[: width // 2], mean[-(width // 2) :] = 255, 255
    mean[:, : height // 2], mean[:, -(height // 2) :] = 255, 255
    found = []
    for _ in range(count):
        trace, sample = (int(i) for i in np.unravel_index(mean.argmin(), mean.shape))
        if mean[trace, sample] >= 255:
            break
        found.append((float(mean[trace, sample]), trace, sample))
        mean[max(0, trace - width) : trace + width, max(0, sample - height) : sample + height] = 255
    return found
