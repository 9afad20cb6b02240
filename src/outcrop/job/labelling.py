"""From decisions to labels: the mapper they lead to, the votes of every line, and what is read from them."""

import copy
from functools import cached_property

import numpy as np

import outcrop
from outcrop.arrays import device_list
from outcrop.features.encoder import weights_digest
from outcrop.features.energies import kept_nodes
from outcrop.job.corrections import Corrections, painted_nodes, targets_of
from outcrop.job.fitting import joined_jobs, joined_patches, renamed_strokes, weak_patches
from outcrop.job.options import LABEL, whole_survey
from outcrop.job.state import background_of
from outcrop.job.strokes import excluded_sections, painted_sections
from outcrop.job.votes import Labels, LineWriter, VoteStore, confidence_limit, read_labels
from outcrop.labels.votes import lines_of, written_votes
from outcrop.mapping.encoder_mapping import EncoderMapper, Places
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.registry import MAPPERS, load_mapper, make_mapper
from outcrop.mapping.saved import saved_digest
from outcrop.mapping.texture import TextureMapper
from outcrop.parallel import memory_budget, one_blas_thread
from outcrop.patches.grid import DIRECTIONS, PatchGrid
from outcrop.retrieval.audit import confidence_shift
from outcrop.storage.chunks import clear_leftovers
from outcrop.storage.kept import Kept, content
from outcrop.storage.stages import digest
from outcrop.storage.workspace import Damaged, DoneLog
from outcrop.volumes.identity import LineLog, check_lines, lines_path, untouched

ACROSS = 1  # lines on either side that vote too
MAPPER_CODE, UPDATE_CODE, VOTES_CODE = 3, 1, 2  # raised when the same inputs would give another mapper, or other votes
STROKE = ("what", "class", "along", "line", "runs", "points", "radius", "filled")  # what a mapper learns of a stroke


class Labelling:
    """Labels of a job at one moment: what its decisions led to when this was made.

    Parameters
    ----------
    job : Job
    state : State, optional
        Decisions to go by, instead of the present ones.
    """

    def __init__(self, job, state=None):
        self.job, self.state, self.known = job, state or job.state, job.known
        self.options = LABEL | self.state.options.get("label", {})
        self.along = int(job.index_options(self.state)["along"] == "crossline")
        self.background = background_of(self.state)
        self.others, self.missing = joined_jobs(self.options["with"])

    # ---- keys -------------------------------------------------------------------------------------------------------

    def mapper_key(self):
        """Key of the mapper, None where nothing can be learnt yet."""
        base, strokes = self.base_key(), self._strokes()
        if base is None or self.options["mapper"] or not self.updates or not strokes:
            return base
        return digest("mapper", self._update_inputs())

    def base_key(self):
        """Key of the mapper that has not seen the strokes yet where strokes update it, of the mapper otherwise."""
        if self.options["mapper"]:
            return self.options["mapper"]
        retrieved = self.job.retrieved_key(self.state)
        return None if retrieved is None else digest("mapper", self._mapper_inputs(retrieved))

    @cached_property
    def updates(self):
        """Whether a fitted mapper takes strokes without being fitted again."""
        mapping = self.options["mapping"]  # one that another program added is unknown here
        return mapping in MAPPERS and hasattr(make_mapper(mapping), "updated")

    def _strokes(self):
        """Strokes of all jobs that are learnt from, under the first names of classes in this one."""
        first = {facts["name"]: name for name, facts in self.state.classes.items()}
        jobs = [self.state, *(state for _, state in self.others)]
        return [stroke for state in jobs for stroke in renamed_strokes(state, first)]

    def _mapper_inputs(self, retrieved):
        strokes = [] if self.updates else [_plain_stroke(stroke) for stroke in self.state.strokes]
        others = [(other.retrieved_key(state), [] if self.updates else state.strokes) for other, state in self.others]
        return {
            "retrieved": retrieved,
            "strokes": strokes,
            "mapping": self.options["mapping"],
            "seed": self.options["seed"],
            "background": self.background,
            "with": others + self.missing,
            "code": MAPPER_CODE,
        } | ({"encoder": weights_digest()} if self.options["mapping"] == "encoder" else {})

    def _base_inputs(self):
        return self._mapper_inputs(self.job.retrieved_key(self.state))

    def _update_inputs(self):
        strokes = [_plain_stroke(stroke) for stroke in self._strokes()]
        return {"base": self.base_key(), "strokes": strokes, "code": UPDATE_CODE}

    def votes_key(self):
        """Key of the votes, None where nothing can be learnt yet."""
        mapper = self.mapper_key()
        return None if mapper is None else digest("votes", self._votes_inputs(mapper))

    def _votes_inputs(self, mapper):
        found = self.job.index_options(self.state)
        grid = {name: found[name] for name in ("size", "along", "gain", "clip")} | {"area": self._area(found)}
        plain = {"grid": grid, "step": self.options["step"], "across": ACROSS, "code": VOTES_CODE}
        return {"mapper": mapper, "volume": self.known["digest"], **plain}

    # ---- the mapper -------------------------------------------------------------------------------------------------

    def mapper(self, *, device=None, client=None, memory=None, progress=None):
        """The mapper under its key: loaded where it is there, fitted and kept otherwise; classes by present names."""
        mapper = copy.copy(self.first_mapper(device=device, client=client, memory=memory, progress=progress))
        names = [self.state.classes.get(str(name), {"name": str(name)})["name"] for name in mapper.classes_]
        mapper.classes_ = np.array(names)
        return mapper

    def first_mapper(self, *, device=None, client=None, memory=None, progress=None):
        """The mapper, with classes by first names."""
        base = self.base_key()
        if base is None:
            raise ValueError(f"{self.job.path} has no exemplars yet; add some before labelling.")
        where = {"device": device, "client": client, "memory": memory, "progress": progress}
        key = self.mapper_key()
        if key == base:
            return self._kept_mapper(base, self._base_inputs, lambda: self.fit(**where))
        return self._kept_mapper(key, self._update_inputs, lambda: self.updated(**where))

    def fitted(self):
        """Whether the mapper is there, or only strokes are left to learn, so that nothing takes long."""
        base = self.base_key()
        return base is not None and (self.job.stages.path("mapper", base) / "mapper").is_dir()

    def base_mapper(self, **where):
        """The mapper that has not seen the strokes; the one used last is held."""
        key, held = self.base_key(), self.job._opened.get("base mapper", (None, None))
        if held[0] != key:
            held = key, self._kept_mapper(key, self._base_inputs, lambda: self.fit(**where))
            self.job._opened["base mapper"] = held
        return held[1]

    def _kept_mapper(self, key, inputs, make):
        """The mapper of a key, made and kept where it is not there."""
        folder = self.job.stages.path("mapper", key) / "mapper"
        if folder.is_dir():
            try:
                return load_mapper(folder)
            except ValueError:
                if self.options["mapper"]:
                    raise
                self.job.stages.set_aside("mapper", key, "mapper")
        elif self.options["mapper"]:
            raise ValueError(f"The mapper {key} of {self.job.path} is gone; label with --mapper JOB again.")
        self.job.stages.begin("mapper", inputs())
        mapper = make()
        if not folder.is_dir():  # another process may have fitted the same meanwhile
            mapper.save(folder)
        self.job.stages.note("mapper", key)
        return mapper

    def updated(self, **where):
        """The mapper that has seen no stroke, updated by the nodes that all strokes cover."""
        base = self.base_mapper(**where)
        strokes = self._strokes()
        names = list(dict.fromkeys([*map(str, base.classes_), *(stroke["class"] for stroke in strokes)]))
        names = [name for name in names if name != "erase"]
        painted, excluded = (which(strokes, names, self.job.axes) for which in (painted_sections, excluded_sections))
        held = self.job._opened.get("painted nodes", {})  # so that only sections with new strokes are described
        parts = {}
        for place in sorted(painted.keys() | excluded.keys()):
            shape = len(self.job.axes[1 - place[0]]), len(self.job.axes[2])
            codes = painted.get(place, np.zeros(shape, np.uint8))
            excluded_here = excluded.get(place, np.zeros((len(names), *shape), bool))
            key = self.base_key(), place, content(codes, excluded_here)
            parts[key] = held[key] if key in held else self._painted_nodes(base, place, codes, excluded_here)
        self.job._opened["painted nodes"] = parts
        if not parts:
            return base
        nodes, known, excluded_here, weights = (np.concatenate(some) for some in zip(*parts.values(), strict=True))
        with one_blas_thread():
            votes = base.node_votes(nodes)
            votes = np.pad(votes, [(0, 0), (0, len(names) - votes.shape[1])])
            return base.updated(nodes, targets_of(known, excluded_here, votes), weights, names[len(base.classes_) :])

    def _painted_nodes(self, mapper, place, codes, excluded):
        """Features of the nodes painted on a section, and what is known of them; see `painted_nodes`."""
        rows, *known = painted_nodes(codes, excluded)
        return mapper.nodes(self.section(*place))[0][rows[:, 1], rows[:, 0]], *known

    def section(self, direction, line):
        """A section as mappers take it, shape (1, n_samples, n_traces); missing traces are silent."""
        section, _ = self.kept_grid().section(self.job.volume, direction, line)
        return np.where(np.isfinite(section), section, np.float32(0.5)).T[None]

    def fit(self, *, draft=None, device=None, client=None, memory=None, progress=None):
        """Fit a mapper on the retrieved patches; in a hurry with a few patches of a class, `draft`.

        Mappings that cannot be updated learn what is painted here.
        """
        mapping, memory = self.options["mapping"], memory or memory_budget()
        for path in self.missing:
            raise ValueError(f"Job {path}, named with --with, is no longer there; label without it, or put it back.")
        for other, _ in self.others:
            if other.known["digest"] != self.known["digest"]:
                raise ValueError(f"Job {other.path} is of another volume; index the same one with another --size.")
        first_device = next(iter(device_list(device)), None)
        mapper = make_mapper(mapping, seed=self.options["seed"], device=first_device, background=self.background)
        if self.others and not isinstance(mapper, TextureMapper):
            raise ValueError(
                f"Mapping {mapping!r} takes patches of one size; use encoder or texture for jobs of several sizes."
            )
        if draft and hasattr(mapper, "members"):
            mapper.set_params(members=1)
        self.job.open_index(self.state, client=client, memory=memory, progress=progress)
        jobs = [(self.job, self.state), *self.others]
        first = {facts["name"]: name for name, facts in self.state.classes.items()}
        options = {"draft": draft, "memory": memory, "background": self.background, "painted": not self.updates}
        parts = [weak_patches(job, state, first, **options) for job, state in jobs]
        report = progress and (lambda done, total: progress("fitting the mapping", done, total))
        with one_blas_thread():
            context: dict = {}
            if isinstance(mapper, EncoderMapper):
                context["places"] = [Places(index.grid, index.volume, starts) for *_, (index, starts) in parts]
            parts = [part[:-1] for part in parts]
            if self.others:
                return mapper.fit(*joined_patches(parts), **context, progress=report)
            patches, classes, masks, weights = parts[0]
            context = {name: each[0] for name, each in context.items()}
            if len(set(classes)) < 2:
                raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")
            if getattr(mapper, "torch_device", None):
                import torch

                patches = torch.from_numpy(patches).to(mapper.torch_device)
            more: dict = {} if isinstance(mapper, LabelMapper) else {"weights": weights}
            return mapper.fit(patches, classes, masks=masks, progress=report, **more, **context)

    # ---- votes ------------------------------------------------------------------------------------------------------

    def grid(self):
        """Plan of the labelling: every line, patches that overlap by two thirds."""
        found = self.job.index_options(self.state)
        step = self.options["step"] or tuple(max(1, n // 3) for n in found["size"])
        given = {name: found[name] for name in ("size", "gain", "clip")} | {"area": self._area(found)}
        return PatchGrid(self.job.volume, step=step, along=DIRECTIONS[self.along], **given)

    def kept_grid(self):
        """The same plan, held between calls: to make it reads some lines."""
        key = digest(self._votes_inputs(""))
        held = self.job._opened.get("plan", (None, None))
        if held[0] != key:
            held = self.job._opened["plan"] = key, self.grid()
        return held[1]

    def _area(self, found):
        """Area of interest; where patches are looked for around one line only, that of the whole survey."""
        whole = whole_survey(self.state.options)
        return found["area"] if whole is None else whole.get("area")

    def label(self, lines=None, *, device=None, client=None, memory=None, workers=None, progress=None):
        """Compute the votes of lines that are not there yet.

        Returns
        -------
        list of int
            Positions of the lines asked for.
        """
        mapper = self.first_mapper(device=device, client=client, memory=memory, progress=progress)
        grid = self.kept_grid()
        every = lines_of(grid, mapper)
        wanted = self._positions(lines, every)
        key = self.job.stages.begin("votes", self._votes_inputs(self.mapper_key()))
        store = self.store(key, mapper)
        left = [line for line in wanted if line not in store.done.read()]
        report = progress or (lambda *_: None)
        done = len(wanted) - len(left)
        report("labelling", done, len(wanted))
        lines_log = LineLog(lines_path(self.job.path, self.known["digest"]))
        check = untouched(self.job.volume)
        options = {
            "device": device,
            "client": client,
            "memory": memory,
            "workers": workers,
        }
        across = ACROSS if getattr(mapper, "any_size", False) else 0
        labels = self.job.axes[self.along][left]
        clear_leftovers(store.votes, 0, left)
        writer = LineWriter(store, self.job.volume if check else None, self.along, across)
        written = written_votes(self.job.volume, grid, mapper, writer, labels, across=across, **options)
        for line, (seals, digests) in written:
            check_lines(self.job.path, lines_log, digests)
            self.job.stages.note("votes", key, line)
            store.confirm(line, seals)  # last: a line counts under this key once all of it is there
            done += 1
            report("labelling", done, len(wanted))
        return wanted

    def _positions(self, lines, every):
        """Positions of lines given by survey labels; all that can be labelled by default."""
        axis = self.job.axes[self.along]
        if lines is None:
            return sorted(every)
        able = set(every)
        found = []
        for label in _line_numbers(lines, DIRECTIONS[self.along]):
            at = np.flatnonzero(axis == label)
            if not len(at) or int(at[0]) not in able:
                have = axis[sorted(able)]
                raise ValueError(
                    f"{DIRECTIONS[self.along]} {label} is not among the lines to label, {have[0]} to {have[-1]}; "
                    "choose another."
                )
            found.append(int(at[0]))
        return sorted(set(found))

    def store(self, key, mapper):
        """Where votes of a key are kept; a damaged one is set aside."""
        folder = self.job.stages.path("votes", key)
        shape = self.job.volume.shape
        shape = shape if self.along == 0 else (shape[1], shape[0], shape[2])
        classes = [str(name) for name in mapper.classes_]
        try:
            return VoteStore.make(folder, shape, classes)
        except Damaged:
            for name in ("votes.done", "votes.zarr"):
                self.job.stages.set_aside("votes", key, name)
            return VoteStore.make(folder, shape, classes)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def sources(self):
        """Position of every labelled line -> key of its votes: of the present decisions, else the last ones made."""
        stages, current = self.job.stages, self.votes_key()
        written = [words for words in stages.journal("votes") if len(words) == 2 and words[1].isdigit()]
        keys = {key for key, _ in written if self._fits(key)}
        done = {key: DoneLog(stages.path("votes", key) / "votes.done").read() for key in keys}
        found = {int(line): key for key, line in written if int(line) in done.get(key, ())}
        found |= dict.fromkeys(done.get(current, ()), current)
        size = self.known["shape"][self.along]
        return {line: found[line] for line in sorted(found) if line < size}

    def _fits(self, key):
        """Whether votes of an older key lie on the same lines."""
        inputs = self.job.stages.facts("votes", key).get("inputs", {})
        return int(inputs.get("grid", {}).get("along") == "crossline") == self.along

    def lines(self):
        """Position of every labelled line -> whether its votes are stale."""
        current = self.votes_key()
        return {line: key != current for line, key in self.sources().items()}

    def labels(self):
        """How the labels are read, and the positions of the stale lines."""
        sources, current = self.sources(), self.votes_key()
        opened: dict = {}
        stores: dict = {}
        for line, key in sources.items():
            if key not in opened:
                opened[key] = _opened(self.job.stages.path("votes", key), self.job._opened.setdefault("stores", {}))
            if opened[key] is not None and line in opened[key][1]:
                stores[line] = opened[key][0]
        limits = self.state.options.get("limits", {})
        codes = self.job._codes()
        limit = confidence_limit(stores, **limits, shift=judged_shift(self.state))
        found = Labels(stores, codes, self._corrections(codes), limit, self.along, tuple(self.job.volume.shape))
        return found, {line for line in stores if sources[line] != current}

    def _corrections(self, codes):
        """What is painted, ready to be spread over the votes of lines."""
        strokes = [stroke for stroke in self.state.strokes if stroke["class"] in (*self.state.classes, "erase")]
        names = sorted(codes, key=codes.__getitem__)
        strokes_by_kind = [which(strokes, names, self.job.axes) for which in (painted_sections, excluded_sections)]
        return Corrections(
            *strokes_by_kind, nodes=lambda line: kept_nodes(self.section(self.along, line)), names=names,
            background=self.background, along=self.along,
            shape=tuple(self.job.volume.shape), even=len(np.unique(np.diff(self.job.axes[self.along]))) < 2,
            kept=self.job._opened.setdefault("corrected", Kept()),
        )  # fmt: skip

    def dataset(self):
        """Labels of the survey as a lazy Dataset."""
        labels, stale = self.labels()
        coords = {name: self.job.volume[name].values for name in self.job.volume.dims}
        attrs = {
            "classes": self.class_names(labels),
            "mapping": self.options["mapping"],
            "source": self.known["source"],
            "version": outcrop.__version__,
            "background": "" if self.background is None else self.state.classes[self.background]["name"],
            "min_confidence": float(labels.limit),
            "provenance": self.provenance(labels, stale),
        }
        if "bin_size" in self.job.volume.attrs:
            attrs["bin_size"] = list(self.job.volume.attrs["bin_size"])
        attrs |= {name: self.job.volume.attrs[name] for name in ("unit", "map") if name in self.job.volume.attrs}
        return read_labels(labels, coords, stale, attrs)

    def class_names(self, labels):
        """Names by code, the first one that of code 1, up to the last that is in use or shown."""
        codes = self.job._codes()
        shown = {name for store in set(labels.stores.values()) for name in store.classes}
        last = max((code for name, code in codes.items() if name in self.state.classes or name in shown), default=0)
        names = {code: self.state.classes.get(name, {"name": name})["name"] for name, code in codes.items()}
        return [names.get(code, f"class {code}") for code in range(1, last + 1)]

    def provenance(self, labels, stale):
        """What labels were made from, as exports carry it."""
        mapper = self.mapper_key()
        return {
            "version": outcrop.__version__,
            "volume": self.known["digest"],
            "mapper": mapper or "",
            "weights": "" if mapper is None else saved_digest(self.job.stages.path("mapper", mapper) / "mapper"),
            "votes": sorted({store.folder.name for store in labels.stores.values()}),
            "lines": {"labelled": len(labels.stores), "stale": len(stale), "total": self.known["shape"][self.along]},
            "stale_lines": self.job.axes[self.along][sorted(stale)].tolist(),
        }


def _line_numbers(lines, along):
    """Numbers of lines as a list; one alone is a list of one."""
    try:
        found = [lines] if np.isscalar(lines) else list(lines)
    except TypeError:
        found = ["none"]
    if not all(isinstance(one, int | float | np.number) for one in found):
        raise ValueError(f"Lines are {str(lines)[:80]}; give numbers of {along}s, for instance [310, 330].")
    return found


def _opened(folder, stores):
    """Store of votes and its finished lines, None where it is damaged or not there; those open already are kept."""
    try:
        if not (folder / "votes.zarr").is_dir():
            return None
        store = stores.get(folder) or VoteStore(folder)
        stores[folder] = store
        return store, store.done.read()
    except (ValueError, OSError):
        return None


def judged_shift(state):
    """What the answers to audits of samples add to the logit of a confidence."""
    judged = [one for one in state.audits if "confidence" in one and one["answer"] != "unknown"]
    return confidence_shift([one["confidence"] for one in judged], [one["answer"] == "yes" for one in judged])


def _plain_stroke(stroke):
    """What a mapper learns of a stroke."""
    return {name: stroke[name] for name in STROKE if name in stroke}
