"""Everything the interpreter's page does, without a page: decisions, search, labels, exports, all in a job folder.

A session holds one job. Decisions (`State`) are written at every change. A volume that was never indexed is searched in
the neighbourhood of the current line first, in the folder ``near.outcrop`` inside the job, while the whole survey is
indexed behind; the next search after that covers the survey.
"""

import contextlib
import fcntl
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from threadpoolctl import threadpool_limits

import outcrop as oc
from outcrop import job as stages
from outcrop.app.pictures import Sections, crop
from outcrop.app.state import State, read_state
from outcrop.labels import decide, open_labels, section_votes
from outcrop.painted import painted_codes, painted_patches, supervision, write_painted
from outcrop.patches import DIRECTIONS, patch_starts
from outcrop.retrieval import identify, read_retrieved
from outcrop.volume import parse_size
from outcrop.workspace import DoneLog, Workspace, remove

NEAR_PATCHES = 4000  # of the neighbourhood that is searched first: seconds, not minutes
DRAFT_PATCHES = 20  # per class, for labels to look at while the full fit runs
MOST_LINES = 100  # of labels that are read for a section across them
SURVEY_PATCHES = 100_000  # of the whole survey; lines are skipped where it has more
COLOURS = {"fault": "#32cd32", "salt dome": "#ff3030", "chaotic": "#4169e1", "other": "#00c8c8"}
SPARE = ("#ffa500", "#ff5cff", "#ffd700", "#c08050", "#a070ff", "#ff9eb0", "#a0a000", "#20b090")


class Cancelled(Exception):
    """The interpreter stopped the work."""


class Session:
    """One job as the page sees it.

    Parameters
    ----------
    source : path or DataArray
        A volume, or a job folder.
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a new job, as `parse_size` takes it; 99, or less where the volume is smaller.
    truth : path or DataArray, optional
        Expert labels to compare with.
    """

    def __init__(self, source, job=None, *, size=None, truth=None):
        self.path, self.volume = open_job(source, job)
        identity, stored = identify(self.volume), read_state(self.path)
        if stored and stored["about"].get("sha256") not in (None, identity["sha256"]):
            raise ValueError(f"{self.path} holds the work on another volume; choose another job folder.")
        known = stored["about"].get("size") if stored else None
        self.options = grid_options(self.volume, self.path, size or known)
        about = {"source": identity["source"], "sha256": identity["sha256"], "size": list(self.options["size"])}
        self.truth: Any = None if truth is None else truth if hasattr(truth, "dims") else oc.open_volume(truth)
        self.truth_path = None if truth is None or hasattr(truth, "dims") else str(truth)
        self._hold = hold(self.path)
        self.state = State(self.path, about)
        self.sections = Sections(self.volume)
        self.index: Any = None
        self.weak: Any = None
        self.task: Task | None = None
        self.behind: Task | None = None
        self.message = ""
        self.exports: list = []  # paths of what was written
        self.changed: float | None = None  # share of the line that the last fit gave another label
        self.draft: Any = None  # line, label codes, confidence codes and names of labels that are on their way
        self._mappers: dict = {}
        self._opened: tuple = (None, None)
        self._lock = threading.RLock()
        self._listeners: list = []
        self._import_exemplars()
        self.state.save()
        self._open_index()

    # ---- telling the pages ------------------------------------------------------------------------------------------

    def listen(self, function):
        """Call a function with what changed ("state", "work", "weak", "labels") whenever something does."""
        self._listeners.append(function)
        return lambda: self._listeners.remove(function) if function in self._listeners else None

    def tell(self, what):
        """Tell every page that something changed."""
        for function in list(self._listeners):
            function(what)

    # ---- decisions --------------------------------------------------------------------------------------------------

    @property
    def decisions(self):
        """What was decided so far; change it only through the methods below."""
        return self.state.data

    @property
    def palette(self):
        """Class name -> colour."""
        return {one["name"]: one["colour"] for one in self.decisions["classes"]}

    @property
    def size(self):
        """Height and width of a patch."""
        return self.options["size"]

    def add_class(self, name, colour=None):
        """Add a class with the standard colour of its name or the next spare one."""
        name = clean_name(name)
        if name in self.palette:
            raise ValueError(f"Class {name!r} is there already; choose another name.")
        spare = [one for one in SPARE if one not in self.palette.values()] or SPARE
        with self._change() as data:
            data["classes"].append({"name": name, "colour": check_colour(colour or COLOURS.get(name, spare[0]))})
        return name

    def rename_class(self, old, new):
        """Give a class another name, everywhere."""
        new = clean_name(new)
        self._check_class(old)
        if new == old:
            return
        if new in self.palette:
            raise ValueError(f"Class {new!r} is there already; choose another name.")
        with self._change() as data:
            for one in data["classes"]:
                one["name"] = new if one["name"] == old else one["name"]
            for kind in ("exemplars", "judged", "painted"):
                for one in data[kind]:
                    one["class"] = new if one["class"] == old else one["class"]
            data["counts"] = {new if name == old else name: value for name, value in data["counts"].items()}
        if self.labels() is not None:
            group = zarr.open_group(self.index.workspace / "labels.zarr", mode="r+")
            group.attrs["classes"] = [new if name == old else name for name in self.labels().attrs["classes"]]
            self._opened = (None, None)
        self._refresh()

    def recolour_class(self, name, colour):
        """Give a class another colour."""
        self._check_class(name)
        with self._change() as data:
            next(one for one in data["classes"] if one["name"] == name)["colour"] = check_colour(colour)

    def remove_class(self, name):
        """Remove a class with its exemplars and all that was said about it."""
        self._check_class(name)
        with self._change() as data:
            data["classes"] = [one for one in data["classes"] if one["name"] != name]
            for kind in ("exemplars", "judged", "painted"):
                data[kind] = [one for one in data[kind] if one["class"] != name]
            data["counts"].pop(name, None)
        self._refresh()

    def add_exemplar(self, name, place):
        """Place an exemplar of a class with its centre at (inline, crossline, time); where it came to lie."""
        self._check_class(name)
        place = self._snap(place)
        with self._change() as data:
            data["exemplars"].append({"class": name, "place": place})
        return place

    def move_exemplar(self, number, place):
        """Move an exemplar."""
        place = self._snap(place)
        with self._change() as data:
            data["exemplars"][number]["place"] = place
        return place

    def remove_exemplar(self, number):
        """Remove an exemplar."""
        with self._change() as data:
            del data["exemplars"][number]

    def judge(self, name, place, *, along="inline", accept=None):
        """Accept (True) or reject (False) a retrieved patch, or take the judgement back (None); the rest re-ranks."""
        self._check_class(name)
        place = [float(value) for value in place]
        with self._change() as data:
            same = {"class": name, "place": place, "along": along}
            data["judged"] = [one for one in data["judged"] if {**one, **same} != one]
            if accept is not None:
                data["judged"].append({**same, "accept": bool(accept)})
        self._refresh()

    def set_count(self, name, count):
        """Take that many patches of a class; None leaves it to the size of the index."""
        self._check_class(name)
        with self._change() as data:
            data["counts"].pop(name, None)
            if count is not None:
                data["counts"][name] = max(1, int(count))
        self._refresh()

    def cut_at(self, name, similarity):
        """Take the patches of a class that are at least so similar, as the similarity curve has them."""
        self.set_count(name, max(1, int(np.count_nonzero(self.weak.curves[name] >= similarity))))

    def set_mapping(self, name):
        """Choose the mapper by its name in `MAPPERS`."""
        if name not in oc.MAPPERS:
            raise ValueError(f"Mapping {name!r} is unknown; choose one of {', '.join(oc.MAPPERS)}.")
        with self._change() as data:
            data["mapping"] = name

    def undo(self):
        """Take the last decision back."""
        if self.state.undo():
            self._refresh()
            self._refresh_painted()
            self.tell("state")

    def redo(self):
        """Do again what was undone."""
        if self.state.redo():
            self._refresh()
            self._refresh_painted()
            self.tell("state")

    @contextlib.contextmanager
    def _change(self):
        with self.state.change() as data:
            yield data
        self.tell("state")

    def _check_class(self, name):
        if name not in self.palette:
            raise ValueError(f"Class {name!r} is unknown; choose one of {', '.join(self.palette) or 'none yet'}.")

    def _snap(self, place):
        """Nearest place of the survey where a whole patch fits, in survey labels."""
        if len(place) != 3 or not np.isfinite(place).all():
            raise ValueError(f"Place {place} is not inline, crossline and {self.volume.dims[2]}; give three numbers.")
        limits = [(0, n - 1) for n in self.volume.shape]
        across = int(self.options["along"] != "crossline")
        for axis, length in ((across, self.size[1]), (2, self.size[0])):
            limits[axis] = (length // 2, self.volume.shape[axis] - length + length // 2)
        axes = [self.volume[name].values for name in self.volume.dims]
        at = [int(np.argmin(np.abs(axis - value))) for axis, value in zip(axes, place, strict=True)]
        return [axis[min(max(i, low), high)].item() for axis, i, (low, high) in zip(axes, at, limits, strict=True)]

    def _import_exemplars(self):
        """Take over the exemplars of a job that the command line made."""
        if self.decisions["classes"] or not Workspace(self.path).exists():
            return
        for text in Workspace(self.path).read().get("retrieve", {}).get("exemplars", []):
            name, _, place = text.partition("=")
            with contextlib.suppress(ValueError):
                name, place = clean_name(name), [float(part) for part in place.split(",")]
                if name not in self.palette:
                    self.add_class(name)
                self.add_exemplar(name, place)
                self.decisions["retrieved"] = True

    # ---- work in threads --------------------------------------------------------------------------------------------

    def start(self, title, function, *arguments):
        """Run ``function(task, *arguments)`` in a thread; one at a time."""
        with self._lock:
            if self.task and self.task.alive:
                raise ValueError(f"Still {self.task.title}; wait for it or cancel it.")
            self.task = Task(title, self)
        self.task.run(function, *arguments)
        return self.task

    def cancel(self):
        """Stop the work in hand; what it has finished stays."""
        for task in (self.task, self.behind):
            if task and task.alive:
                task.cancelled = True
                return

    def wait(self, timeout=None):
        """Wait for the work in hand, and raise what went wrong in it."""
        if self.task:
            self.task.thread.join(timeout)
            if self.task.error:
                raise self.task.error

    def close(self):
        """Stop all work and let go of the job folder."""
        for task in (self.task, self.behind):
            if task and task.alive:
                task.cancelled = True
                task.thread.join()
        self.sections.close()
        self._hold.close()

    # ---- search -----------------------------------------------------------------------------------------------------

    @property
    def near(self):
        """Folder of the index of the neighbourhood."""
        return self.path / "near.outcrop"

    @property
    def scope(self):
        """What a search covers now: "neighbourhood", "survey", or "" before the first one."""
        return "" if self.index is None else "survey" if self.index.workspace.path == self.path else "neighbourhood"

    def retrieve(self, line=None):
        """Find patches like the exemplars: in the survey where it is indexed, around a line otherwise."""
        if not self.decisions["exemplars"]:
            raise ValueError("There is no exemplar yet; choose a class and click on the section.")
        return self.start("searching", self._retrieve, line)

    def _retrieve(self, task, line):
        survey = self._survey_index()
        if survey is not None:
            if self.near.exists():
                remove(self.near)
            self.index = survey
        elif self.index is None or (line is not None and not self._covers(line)):
            self.index = self._first_index(task, line)
            survey = self.index if self.scope == "survey" else None
        self._search()
        with self._change() as data:
            data["retrieved"] = True
        if survey is None:
            self.index_behind()

    def _covers(self, line):
        """Whether the neighbourhood that is indexed holds a line."""
        axis = int(self.options["along"] == "crossline")
        lines = self.index.grid.axes[axis][np.unique(self.index.grid.starts[:, 1])]
        return lines[0] <= line <= lines[-1]

    def _first_index(self, task, line):
        """Index of the survey where it is small, otherwise of the lines around one."""
        task.title = "indexing the neighbourhood"
        name, axis = self._line_axis()
        at = len(axis) // 2 if line is None else int(np.argmin(np.abs(axis - line)))
        count = max(1, NEAR_PATCHES // patches_per_line(self.volume, self.options))
        if count >= len(axis) // self.options["every"]:
            grid = oc.PatchGrid(self.volume, **self.options)
            task.total = len(grid)
            return in_memory(oc.build_index(self.volume, grid, self.path, progress=task.progress))
        every = max(1, min(3, len(axis) // count))
        first = at - every * min(at // every, count // 2)
        last = min(first + every * (count - 1), len(axis) - 1)
        ends = (float(axis[first]), float(axis[last]))
        area = dict(self.options.get("area") or {}) | {name: (min(ends), max(ends))}
        grid = oc.PatchGrid(self.volume, **(self.options | {"every": every, "area": area, "sample": None}))
        task.total = len(grid)
        return in_memory(oc.build_index(self.volume, grid, self.near, progress=task.progress))

    def _line_axis(self):
        name = "crossline" if self.options["along"] == "crossline" else "inline"
        return name, self.volume[name].values

    def index_behind(self):
        """Go on indexing the whole survey behind the interpreter's work."""
        with self._lock:
            if self.behind and self.behind.alive:
                return
            self.behind = Task("indexing the survey", self)

        def build(task):
            def progress(done):
                while self.task and self.task.alive and not task.cancelled:
                    time.sleep(0.05)  # what the interpreter waits for goes first
                task.progress(done)

            grid = oc.PatchGrid(self.volume, **self.options)
            task.total = len(grid)
            oc.build_index(self.volume, grid, self.path, progress=progress)
            self.message = "The whole survey is indexed: the next search covers it."

        self.behind.run(build)

    def _survey_index(self):
        """Index of the whole survey, None while it is not finished."""
        if self.index is not None and self.scope == "survey":
            return self.index
        with contextlib.suppress(ValueError):
            return in_memory(oc.open_index(self.path, volume=self.volume))
        return None

    def _open_index(self):
        """Go on with the index of the last search, and with that search."""
        with contextlib.suppress(ValueError):
            self.index = in_memory(oc.open_index(self.near, volume=self.volume))
        if self.index is None:
            self.index = self._survey_index()
        elif self._survey_index() is None:
            self.index_behind()
        self._refresh()

    def _refresh(self):
        """Bring the retrieved patches up to the decisions."""
        if self.index is None or not self.decisions["retrieved"] or not self.exemplars():
            self.weak = None
            self.tell("weak")
        else:
            self._search()

    def exemplars(self):
        """Class -> places, as `retrieve` takes them."""
        found: dict = {}
        for one in self.decisions["exemplars"]:
            found.setdefault(one["class"], []).append(tuple(one["place"]))
        return {name: found[name] for name in self.palette if name in found}

    def counts(self):
        """Class -> patches that are looked for."""
        usable, names = int((self.index.status == 0).sum()), list(self.exemplars())
        standard = min(500, max(20, usable // (4 * len(names))))
        return {name: min(self.decisions["counts"].get(name, standard), usable) for name in names}

    def request(self):
        """What is asked of the index, as ``job.toml`` keeps it."""
        exemplars = list(self.decisions["exemplars"])
        rows: dict = {"accepted": {}, "rejected": {}}
        table = self.index.grid.starts
        for one in self.decisions["judged"]:
            if one["class"] not in self.exemplars():
                continue
            start = self.index.grid.start_at(one["place"], along=one["along"])
            row = np.flatnonzero((table == start).all(axis=1))
            if len(row):
                rows["accepted" if one["accept"] else "rejected"].setdefault(one["class"], []).append(int(row[0]))
            elif one["accept"]:
                exemplars.append(one)  # no patch of this index lies there: it serves as an exemplar
        texts = [exemplar_text(one) for one in exemplars]
        return {"exemplars": texts, "count": count_text(self.counts()), "per_exemplar": False, "diverse": False} | rows

    def _search(self):
        """Find patches and keep them in the job as the command line does."""
        asked, workspace = self.request(), self.index.workspace
        weak = stages.ask(self.index, asked)
        with self._writing():
            weak.save(workspace / "retrieved.csv")
            workspace.write(workspace.read() | {"retrieve": asked})
            workspace.log("retrieve", patches=len(weak), lost=weak.lost)
        self.weak = weak
        self.tell("weak")

    def accepted(self):
        """Which retrieved patches were accepted by hand."""
        rows = self.weak.accepted
        pairs = zip(self.weak.rows.tolist(), self.weak.classes.tolist(), strict=True)
        return np.array([row in rows.get(name, ()) for row, name in pairs], bool)

    @contextlib.contextmanager
    def _writing(self):
        """Hold the folder of the index in use; pages of one server take turns."""
        with self._lock, self.index.workspace.lock():
            yield

    def thumbnails(self, rows):
        """8-bit patches of rows of the index."""
        return np.round(255 * np.nan_to_num(self.index.grid.extract(self.volume, rows))).astype(np.uint8)

    def exemplar_thumbnail(self, number):
        """8-bit patch of an exemplar."""
        return self.patch(self.decisions["exemplars"][number]["place"])

    def patch(self, place):
        """8-bit patch of the section around a place."""
        direction = int(self.options["along"] == "crossline")
        axes = [axis.labels for axis in self.sections.axes]
        at = [int(np.argmin(np.abs(labels - value))) for labels, value in zip(axes, place, strict=True)]
        height, width = self.size
        top, left = at[2] - height // 2, at[1 - direction] - width // 2
        return self.sections.codes(direction, at[direction])[top : top + height, left : left + width]

    # ---- labels -----------------------------------------------------------------------------------------------------

    def label(self, lines=None):
        """Label some lines, by their numbers, or the whole survey."""
        if self.weak is None:
            raise ValueError("Nothing is retrieved yet; find similar patches first.")
        if len(set(self.weak.classes)) < 2:
            raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")
        return self.start("labelling", self._label, lines)

    def _label(self, task, lines):
        task.title = "fitting the mapping"
        before = None if lines is None else self.labels_of(lines[0])
        if lines is not None and self._mapper_key() not in self._mappers:
            self._show_draft(lines[0])
        mapper = self.mapper()
        task.progress(0)
        task.title = "labelling"
        grid = self._label_grid(lines)
        task.total = len(list(grid.lines()))
        with self._writing(), threadpool_limits(1):
            record = stages.record_labelling(
                self.index, mapping=self.decisions["mapping"], step=grid.step, seed=0, min_confidence=None, lines=lines
            )
            stages.label_lines(self.index, grid, mapper, progress=task.progress)
            self.index.workspace.log("label", lines=lines or "all", **record)
        if before is not None:
            self.changed = float((before != self.labels_of(lines[0])).mean())
        self.draft = None
        self.tell("labels")

    def _show_draft(self, line):
        """Labels of a line by a mapper fitted on few patches: seconds instead of a minute, and never stored."""
        weak, starts = read_retrieved(self.index)
        few = weak.picks(DRAFT_PATCHES)
        starts, classes, masks = painted_patches(self.index, starts[few], weak.classes[few])
        mapper = oc.MAPPERS[self.decisions["mapping"]]()
        mapper.set_params(**({"members": 1} if "members" in mapper.get_params() else {}))
        grid = self._label_grid([line])
        with threadpool_limits(1):
            mapper.fit(self.index.grid.cut(self.volume, starts), classes, **({} if masks is None else {"masks": masks}))
            votes = section_votes(self.volume, grid, mapper, slice(None))
        label, sure = decide(votes)
        names = [str(name) for name in mapper.classes_]
        said = self._painted_codes(int(self.options["along"] == "crossline"), line, names)
        label, sure = np.where(said > 0, said, label), np.where(said > 0, np.uint8(255), sure)
        self.draft = (line, label, sure, names)
        self.tell("labels")

    def _label_grid(self, lines):
        """Dense grid of some lines, or of all."""
        name, _ = self._line_axis()
        third = tuple(max(1, n // 3) for n in self.size)
        area = dict(self.options.get("area") or {})
        if lines is not None:
            area[name] = (min(lines), max(lines))
        options = {"every": 1, "between": None, "sample": None, "step": third, "along": name, "area": area or None}
        return oc.PatchGrid(self.volume, **(self.options | options | {"clip": self.index.grid.clip}))

    def mapper(self):
        """Mapper fitted on the patches in use and the painted pixels; the last one is kept."""
        key = self._mapper_key()
        if key not in self._mappers:
            with threadpool_limits(1):  # two BLAS threads are slower than one where something else runs
                self._mappers = {key: stages.fit_mapper(self.index, self.decisions["mapping"])}
        return self._mappers[key]

    def _mapper_key(self):
        write_painted(self.index, self.decisions["painted"])
        return self.decisions["mapping"], supervision(self.index.workspace)

    def labels(self):
        """Labels of the search in use as a lazy Dataset, None where there are none."""
        path = None if self.index is None else self.index.workspace / "labels.zarr"
        if path is None or not path.is_dir():
            return None
        key = (path, path.stat().st_ino)  # labels that are made anew get a new folder
        if self._opened[0] != key:
            self._opened = (key, open_labels(path))
        return self._opened[1]

    def labels_of(self, line):
        """Label codes of a line, None where it is not labelled."""
        labels, (name, axis) = self.labels(), self._line_axis()
        if labels is None or int(np.flatnonzero(axis == line)[0]) not in self.labelled():
            return None
        return labels["label"].sel({name: line}).values

    def labelled(self):
        """Positions of the labelled lines."""
        return set() if self.index is None else DoneLog(self.index.workspace / "labels.done").read()

    def stale(self):
        """Whether the labels were made from other patches or painted pixels than those of now."""
        record = self.index.workspace.read().get("label", {}) if self.index is not None else {}
        return bool(record) and record.get("weak") != supervision(self.index.workspace)

    def label_pictures(self, direction, position, window=None):
        """Pictures of label codes and of confidence, and the names of the codes; None where nothing is labelled."""
        labels, frame = self.labels(), self.sections.frame(direction)
        own = int(self.options["along"] == "crossline")
        if self.draft and direction == own and self.sections.axes[own].labels[position] == self.draft[0]:
            _, label, sure, names = self.draft
            return (*(crop(codes.T, frame, window, mean=False) for codes in (label, sure)), names)
        if labels is None or not self._any_label(direction, position):
            return None
        pictures = []
        for name in ("label", "confidence"):
            values = self._label_section(labels[name], direction, position)
            pictures.append(crop(values if direction == 2 else values.T, frame, window, mean=False))
        return (*pictures, [str(name) for name in labels.attrs["classes"]])

    def _label_section(self, array, direction, position):
        """Section of labels; across the labelled lines no more than some of them are read, and stand for the others."""
        own = int(self.options["along"] == "crossline")
        if direction == own:
            return array.isel({array.dims[direction]: position}).values
        done = np.array(sorted(self.labelled()))
        few = done[:: -(-len(done) // MOST_LINES)]
        read = array.isel({array.dims[direction]: position, array.dims[own]: few})
        axis = read.dims.index(array.dims[own])
        nearest = few[np.clip(np.searchsorted(few, done, side="right") - 1, 0, None)]
        values = np.zeros([n for i, n in enumerate(array.shape) if i != direction], np.uint8)
        lines = np.moveaxis(values, axis, 0)
        lines[done] = np.moveaxis(read.values, axis, 0)[np.searchsorted(few, nearest)]
        return values

    def _any_label(self, direction, position):
        done = self.labelled()
        own = int(self.options["along"] == "crossline")
        return position in done if direction == own else bool(done)

    def truth_picture(self, direction, position, window=None):
        """Picture of the expert's codes and their names, None where there is no truth for this section."""
        if self.truth is None:
            return None
        name = self.volume.dims[direction]
        label = self.volume[name].values[position]
        if label not in self.truth[name].values:
            return None
        codes = self.truth.sel({name: label}).values.astype(np.uint8)
        codes = codes if direction == 2 else codes.T
        return crop(codes, self.sections.frame(direction), window, mean=False), list(self.truth.attrs["classes"])

    def scores(self, line):
        """Pixel scores of a labelled line against the truth, None where one of them is missing."""
        labels, (name, _) = self.labels(), self._line_axis()
        if self.truth is None or labels is None or self.labels_of(line) is None or line not in self.truth[name].values:
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
        from scipy.ndimage import uniform_filter

        labels, done = self.labels(), sorted(self.labelled())
        axis = int(self.options["along"] == "crossline")
        found: list = []
        height, width = self.size
        for line in done[:: max(1, len(done) // most_lines)]:
            sure = labels["confidence"].isel({labels["label"].dims[axis]: line}).values.astype(np.float32)
            mean = uniform_filter(np.where(sure > 0, sure, 255), (width, height))
            mean[: width // 2], mean[-(width // 2) :] = 255, 255
            mean[:, : height // 2], mean[:, -(height // 2) :] = 255, 255
            for _ in range(count):
                trace, sample = np.unravel_index(mean.argmin(), mean.shape)
                if mean[trace, sample] >= 255:
                    break
                found.append((float(mean[trace, sample]), line, int(trace), int(sample)))
                mean[max(0, trace - width) : trace + width, max(0, sample - height) : sample + height] = 255
        places = []
        for sure, line, trace, sample in sorted(found)[:count]:
            at = (line, trace, sample) if axis == 0 else (trace, line, sample)
            labels_at = [a.labels[i].item() for a, i in zip(self.sections.axes, at, strict=True)]
            places.append({"place": labels_at, "confidence": sure / 255})
        return places

    # ---- brush ------------------------------------------------------------------------------------------------------

    def paint(self, name, direction, position, points, radius=4):
        """Say what the pixels under a brush stroke are.

        Parameters
        ----------
        name : str
            A class; ``right`` (they are what the labels say), ``wrong`` (they are background) or ``erase`` (unsaid).
        direction, position : int
            The section, 0 inline or 1 crossline.
        points : sequence of (float, float)
            The stroke, across and down, in coordinates.
        radius : float
            Of the brush, in samples and traces.
        """
        if direction not in (0, 1):
            raise ValueError("Paint on an inline or a crossline; time slices cannot be painted.")
        across, down = self.sections.frame(direction)
        spots = [(across.position(x), down.position(y)) for x, y in points[:5000]]
        mask = stroke((len(across), len(down)), spots, float(np.clip(radius, 1, 100)))
        line = self.sections.axes[direction].labels[position].item()
        new = [
            {"class": own, "along": DIRECTIONS[direction], "line": line, "runs": runs(part, across.labels, down.labels)}
            for own, part in self._meant(name, direction, position, mask)
            if part.any()
        ]
        if new:
            with self._change() as data:
                data["painted"] += new
            self._refresh_painted()

    def _refresh_painted(self):
        """Keep the painted pixels where the command line finds them."""
        if self.index is not None:
            write_painted(self.index, self.decisions["painted"])
            self.tell("labels")

    def _meant(self, name, direction, position, mask):
        """Classes and masks that a brush of that name stands for."""
        if name == "wrong":
            name = "other"
            if name not in self.palette:
                raise ValueError("There is no class 'other' that wrong pixels could be; paint with the right class.")
        if name != "right":
            if name != "erase":
                self._check_class(name)
            return [(name, mask)]
        labels = self.labels()
        if labels is None or not self._any_label(direction, position):
            raise ValueError("This section has no labels that could be right; label it first.")
        codes = labels["label"].isel({labels["label"].dims[direction]: position}).values
        return [(str(own), mask & (codes == code)) for code, own in enumerate(labels.attrs["classes"], 1)]

    def painted_picture(self, direction, position, window=None):
        """Picture of painted codes of a section in the order of the classes, None where nothing is painted."""
        if direction > 1:
            return None
        line = self.sections.axes[direction].labels[position].item()
        codes = self._painted_codes(direction, line, list(self.palette))
        return crop(codes.T, self.sections.frame(direction), window, mean=False) if codes.any() else None

    def _painted_codes(self, direction, line, names):
        """Codes of what is painted on a section, shape (n_across, n_down)."""
        section = (DIRECTIONS[direction], line)
        own = [one for one in self.decisions["painted"] if (one["along"], one["line"]) == section]
        across, down = self.sections.frame(direction)
        return painted_codes(own, names, across.labels, down.labels)

    # ---- results ----------------------------------------------------------------------------------------------------

    def export(self, kind, name=None, *, line=None):
        """Write a result into the folder ``export`` of the job; its path.

        Parameters
        ----------
        kind : {"segy", "confidence", "zarr", "training", "figure"}
        name : str, optional
            Of the file or folder; never a path that leads out of the export folder.
        line : int, optional
            For the figure.
        """
        labels = self.labels()
        if labels is None:
            raise ValueError("There are no labels to export yet; label a line or the survey first.")
        out = self._free_name(name or EXPORTS[kind])
        if kind in ("segy", "confidence"):
            oc.export_segy(labels, out, like=self.volume, what="label" if kind == "segy" else "confidence")
        elif kind == "zarr":
            oc.export_zarr(labels, out)
        elif kind == "training":
            oc.export_training_set(labels, out, volume=self.volume, grid=self.index.grid, weak=self.weak)
        else:
            place = {self._line_axis()[0]: line}
            truth = self.truth.sel(place) if self.scores(line) else None
            oc.plots.labelled_section(self.volume.sel(place), labels.sel(place), truth=truth).savefig(out, dpi=150)
        return out

    def begin_export(self, kind, *, line=None):
        """Write a result in a thread; its path is added to `exports`."""

        def write(_):
            self.exports.append(self.export(kind, line=line))
            self.tell("exports")

        return self.start(f"writing {EXPORTS[kind]}", write)

    def _free_name(self, name):
        """Path of that name in the export folder, numbered where it is taken."""
        folder = (self.path / "export").resolve()
        out = (folder / name).resolve()
        if out.parent != folder or not re.fullmatch(r"[\w][\w .()-]{0,100}", name):
            raise ValueError(f"{name!r} is not a plain file name; use letters, digits, dots and hyphens.")
        folder.mkdir(parents=True, exist_ok=True)
        stem, dot, suffix = name.partition(".")
        number = 1
        while out.exists():
            number += 1
            out = folder / f"{stem}-{number}{dot}{suffix}"
        return out

    def commands(self):
        """Command lines that repeat the work."""
        return commands(self)


EXPORTS = {
    "segy": "labels.sgy",
    "confidence": "confidence.sgy",
    "zarr": "labels.zarr",
    "training": "training",
    "figure": "figure.png",
}


class Task:
    """Work in a thread that tells how far it is and can be cancelled."""

    def __init__(self, title, session):
        self.title, self._session = title, session
        self.done, self.total, self.cancelled, self.error = 0, 0, False, None
        self._told = 0.0
        self.thread = threading.Thread(target=lambda: None)

    @property
    def alive(self):
        """Whether it is running."""
        return self.thread.is_alive()

    def run(self, function, *arguments):
        """Begin."""

        def body():
            try:
                function(self, *arguments)
            except Cancelled:
                self._session.message = f"Cancelled {self.title}."
            except Exception as error:
                self.error = error
                self._session.message = str(error)
            self.thread = threading.Thread(target=lambda: None)  # no longer alive when the pages look
            self._session.tell("work")

        self._session.message = ""
        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def progress(self, done, *_):
        """Tell how much is done; stops the work where it was cancelled."""
        self.done = done
        if self.cancelled:
            raise Cancelled
        if time.monotonic() - self._told > 0.2:
            self._told = time.monotonic()
            self._session.tell("work")


def open_job(source, job):
    """Job folder and volume of what the interpreter names: a volume, or a job folder."""
    if hasattr(source, "dims"):
        stem = Path(str(source.attrs.get("source") or "volume")).stem
        return Path(job or f"{stem}.outcrop"), source
    path = Path(source)
    stored = read_state(path) if path.is_dir() else None
    if stored or Workspace(path).exists():
        known = Workspace(path).read()["volume"] if Workspace(path).exists() else (stored or {})["about"]
        if not known.get("source"):
            raise ValueError(f"Job {path} was made from an array; open it with outcrop.explore(volume, job=...).")
        return path, oc.open_volume(known["source"], **known.get("options", {}))
    if path.suffix == ".outcrop":
        raise ValueError(f"{path} is not a job folder; give a volume, or a folder made by 'outcrop index'.")
    return Path(job or f"{path.stem}.outcrop"), oc.open_volume(source)


def hold(path):
    """Take a job folder for this page; a server that dies lets go of it by itself."""
    path.mkdir(parents=True, exist_ok=True)
    handle = open(path / ".page.lock", "a")  # noqa: SIM115 - held as long as the page
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise ValueError(f"{path} is open in another page; close that one, or use its address.") from None
    return handle


def grid_options(volume, path, size):
    """Parameters of the patch grid: those of the job where it is indexed, sensible ones otherwise."""
    if Workspace(path).exists():
        job = Workspace(path).read()
        if job.get("volume", {}).get("sha256") != identify(volume)["sha256"]:
            raise ValueError(f"{path} holds a job on another volume; choose another job folder.")
        options = {key: value for key, value in job["index"].items() if key not in ("plan", "truncate", "finest")}
        return options | {"size": tuple(options["size"]), "step": tuple(options["step"])}
    size = parse_size(size, volume) if isinstance(size, str) else size or 99
    size = tuple(int(n) for n in np.broadcast_to(size, 2))
    size = min(size[0], volume.shape[2]), min(size[1], volume.shape[1])
    options = {"size": size, "step": tuple(max(1, n // 3) for n in size), "along": "inline"}
    every = max(1, round(volume.shape[0] * patches_per_line(volume, options) / SURVEY_PATCHES))
    return options | {"every": every}


def patches_per_line(volume, options):
    """Number of patches on one line."""
    across = volume.shape[0 if options["along"] == "crossline" else 1]
    triples = zip((volume.shape[2], across), options["size"], options["step"], strict=True)
    return int(np.prod([len(patch_starts(*triple)) for triple in triples]))


def in_memory(index, most=1 << 30):
    """Index whose descriptors are in memory where they are not too many: a search is then a matter of milliseconds."""
    if index.features.nbytes <= most:
        index.features = zarr.create_array({}, data=index.features[:], compressors=None)
    return index


def clean_name(text):
    """Class name as the project writes it.

    Examples
    --------
    >>> clean_name(" salt-dome ")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", str(text)).strip()
    if not re.fullmatch(r"\w[\w .()]{0,39}", name) or name in ("uncertain", "right", "wrong", "erase"):
        raise ValueError(f"{str(text)[:50]!r} is not a class name; use a word such as fault or salt dome.")
    return name


def check_colour(text):
    """Colour as #rrggbb."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", str(text)):
        raise ValueError(f"Colour {str(text)[:20]!r} is not understood; write it as #rrggbb.")
    return str(text).lower()


def stroke(shape, spots, radius):
    """Pixels under a brush that moves along spots.

    Examples
    --------
    >>> stroke((3, 5), [(1, 1), (1, 3)], 0.5).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    from PIL import Image, ImageDraw

    image = Image.new("1", (shape[1], shape[0]))
    draw = ImageDraw.Draw(image)
    flipped = [(down, across) for across, down in spots]
    if len(flipped) > 1:
        draw.line(flipped, fill=1, width=max(1, round(2 * radius)))
    if radius >= 1:
        for down, across in flipped:
            draw.ellipse((down - radius, across - radius, down + radius, across + radius), fill=1)
    return np.array(image, bool)


def runs(mask, traces, samples):
    """Painted samples as [trace, first, last] in survey labels, shape of mask (n_traces, n_samples).

    Examples
    --------
    >>> runs(np.array([[0, 1, 1], [0, 0, 0]], bool), np.array([300, 301]), np.array([0.0, 4.0, 8.0]))
    [[300, 4.0, 8.0]]
    """
    found = []
    for trace in np.flatnonzero(mask.any(axis=1)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask[trace].astype(np.int8), [0]])))
        for first, last in edges.reshape(-1, 2):
            found.append([traces[trace].item(), samples[first].item(), samples[last - 1].item()])
    return found


def exemplar_text(one):
    """An exemplar as the command line takes it."""
    return f"{one['class'].replace(' ', '-')}=" + ",".join(f"{value:.10g}" for value in one["place"])


def count_text(counts):
    """Patches per class as the command line takes them."""
    return ",".join(f"{name.replace(' ', '-')}={count}" for name, count in counts.items())


def commands(session):
    """Command lines that repeat the work of a session."""
    import shlex

    if session.index is None:
        return []
    grid, workspace = session.index.grid, session.index.workspace
    job = shown_path(workspace.path)
    source = shown_path(session.volume.attrs.get("source") or "VOLUME")
    index = ["outcrop", "index", source, "-o", job, "--size", pair(grid.size), "--step", pair(grid.step)]
    index += ["--along", grid.along, "--every", str(grid.every)]
    for name, ends in (grid.parameters["area"] or {}).items():
        index += [f"--{name}s", ",".join(f"{end:g}" for end in ends)]
    lines = [index]
    if session.weak is not None:
        asked = session.request()
        retrieve = ["outcrop", "retrieve", job]
        for text in asked["exemplars"]:
            retrieve += ["--exemplar", text]
        retrieve += ["--count", asked["count"]]
        lines.append(retrieve)
        judged = {"--accept": asked["accepted"], "--reject": asked["rejected"]}
        words = [(option, pair(row for own in rows.values() for row in own)) for option, rows in judged.items() if rows]
        if words:
            lines.append(["outcrop", "retrieve", job, *(word for both in words for word in both)])
    if session.labels() is not None:
        done = session.labelled()
        name, axis = session._line_axis()
        some = [] if len(done) == len(axis) else ["--lines", ",".join(f"{axis[i]:g}" for i in sorted(done))]
        lines.append(["outcrop", "label", job, "--mapping", session.decisions["mapping"], *some])
        if session.truth_path:
            lines.append(["outcrop", "evaluate", job, "--truth", shown_path(session.truth_path)])
        lines.append(["outcrop", "export", job, "labels.sgy"])
    return [shlex.join(line) for line in lines]


def shown_path(path):
    """Path from the current folder where it lies inside, whole otherwise."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def pair(values):
    """Two numbers as an option takes them."""
    return ",".join(str(value) for value in values)
