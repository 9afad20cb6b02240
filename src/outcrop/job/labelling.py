"""Votes for each class on the lines of a job, and the labels that are decided from these votes."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import outcrop
from outcrop.job.confirmed import Confirmed, NoVotes, is_open, job_confirmed
from outcrop.job.corrections import Corrections
from outcrop.job.fitting import job_mapper
from outcrop.job.plan import Plan
from outcrop.job.sections import clicked_samples, labelling_grid, marked_sections, rejected_samples
from outcrop.job.votes import Labels, read_labels, survey_limit
from outcrop.labels.vote_store import LineWriter, VoteStore
from outcrop.labels.votes import lines_of, written_votes
from outcrop.mapping.saved import saved_digest
from outcrop.patches.grid import DIRECTIONS
from outcrop.retrieval.audit import confidence_shift
from outcrop.storage.chunks import clear_leftovers
from outcrop.storage.workspace import Damaged, DoneLog
from outcrop.volumes.axes import positions_of
from outcrop.volumes.identity import LineLog, check_lines, lines_path, untouched
from outcrop.volumes.neighbours import spacing_attrs
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job


def label_lines(
    job: "Job", plan: Plan, lines: Sequence[int] | None = None, *, workers: int | None = None, **where: Any
) -> list[int]:
    """Compute and store the votes of lines that have no votes of `plan`; return the positions of all requested lines.

    Parameters
    ----------
    lines : sequence of int, optional
        Line numbers; all lines that can be labelled by default.
    workers : int, optional
        Number of threads.
    **where
        ``device``, ``client``, ``memory`` and ``progress(what, done, total)``.
    """
    mapper = job_mapper(job, plan, **where)
    report = where.pop("progress", None) or (lambda *_: None)
    grid = labelling_grid(job, plan)
    wanted = line_positions(job, plan, lines, lines_of(grid, mapper))
    stage = plan.votes_stage
    assert stage is not None
    key = job.stages.begin(stage.kind, stage.inputs)
    store = vote_store(job, plan, key, mapper)
    finished = store.done.read()
    left = [line for line in wanted if line not in finished]
    done = len(wanted) - len(left)
    report("labelling", done, len(wanted))
    lines_log = LineLog(lines_path(job.path, plan.volume["digest"]))
    clear_leftovers(store.votes, 0, left)
    writer = LineWriter(store, job.volume if untouched(job.volume) else None, plan.along)
    labels = job.axes[plan.along][left]
    written = written_votes(job.volume, grid, mapper, writer, labels, workers=workers, **where)
    for line, (seals, digests) in written:
        check_lines(job.path, lines_log, digests)
        job.stages.note("votes", key, line)
        store.confirm(line, seals)  # last, as this marks the line as complete
        done += 1
        report("labelling", done, len(wanted))
    return wanted


def line_positions(job: "Job", plan: Plan, lines: Any, able: Iterable[int]) -> list[int]:
    """Return the positions of lines given by their numbers; by default all lines that can be labelled.

    `able` are the positions of the lines that can be labelled; ValueError is raised for any other line.
    """
    axis, name, able = job.axes[plan.along], DIRECTIONS[plan.along], sorted(able)
    if lines is None:
        return able
    found = []
    for label in line_numbers(lines, name):
        at = int(positions_of(axis, label))
        if at not in able:
            have = axis[able]
            where = " in the area of interest" if plan.index.area else ""
            why = f"has no traces to label{where}" if at >= 0 else "is not in the volume"
            many = counted(len(able), f"{name}s")
            raise ValueError(f"{name} {label} {why}; choose one of {many} from {have[0]} to {have[-1]}.")
        found.append(at)
    return sorted(set(found))


def line_numbers(lines: Any, along: str) -> list[Any]:
    """Return line numbers as a list; raise ValueError if `lines` are not numbers."""
    try:
        found = [lines] if np.isscalar(lines) else list(lines)
    except TypeError:
        found = ["none"]
    if not all(isinstance(one, int | float | np.number) for one in found):
        raise ValueError(f"Lines are {str(lines)[:80]}; give numbers of {along}s, for instance [310, 330].")
    return found


def vote_store(job: "Job", plan: Plan, key: str, mapper: Any) -> VoteStore:
    """Return the store of votes under a cache key; a missing store is made, a damaged one is renamed and replaced."""
    folder = job.stages.path("votes", key)
    lines, traces, samples = (plan.volume["shape"][axis] for axis in (plan.along, 1 - plan.along, 2))
    classes = [str(name) for name in mapper.classes_]
    try:
        return VoteStore.make(folder, (lines, traces, samples), classes)
    except Damaged:
        for name in ("votes.done", "votes.zarr"):
            job.stages.set_aside("votes", key, name)
        return VoteStore.make(folder, (lines, traces, samples), classes)


def vote_keys(job: "Job", plan: Plan) -> dict[int, str]:
    """Return a dict: line position -> cache key of the votes on the line.

    These are the votes of `plan` if they are stored, else the newest votes of earlier decisions or options.
    """
    stages, current = job.stages, plan.keys["votes"]
    written = [words for words in stages.journal("votes") if len(words) == 2 and words[1].isdigit()]
    keys = {key for key, _ in written if _same_lines(job, plan, key)}
    done = {key: DoneLog(stages.path("votes", key) / "votes.done").read() for key in keys}
    found = {int(line): key for key, line in written if int(line) in done.get(key, ())}
    if current is not None:
        found |= dict.fromkeys(done.get(current, ()), current)
    return {line: found[line] for line in sorted(found) if line < plan.volume["shape"][plan.along]}


def _same_lines(job: "Job", plan: Plan, key: str) -> bool:
    """Return whether the votes under a cache key belong to lines in the direction of a plan."""
    inputs = job.stages.facts("votes", key).get("inputs", {})
    return int(inputs.get("grid", {}).get("along") == "crossline") == plan.along


def labelled_lines(job: "Job", plan: Plan) -> dict[int, bool]:
    """Return a dict: position of each labelled line -> whether the line is stale.

    A line is stale if its votes are stored under another cache key than the votes of `plan`. A confirmed line counts as
    labelled; it is stale only if it has stale votes at samples that are not confirmed.
    """
    confirmed = None
    with contextlib.suppress(ValueError, OSError):  # the volume is missing
        confirmed = job_confirmed(job, plan)
    return _stale_lines(job, plan, vote_keys(job, plan), confirmed)


def _stale_lines(job: "Job", plan: Plan, sources: dict[int, str], confirmed: Confirmed | None) -> dict[int, bool]:
    """Return a dict: position of each labelled or confirmed line -> whether the line is stale; see `labelled_lines`.

    `sources` maps the position of a line to the cache key of its votes.
    """
    current = plan.keys["votes"]
    stale = {line: key != current for line, key in sources.items()}
    held: dict[Any, VoteStore] = job._held("stores", None, dict)
    for line in confirmed.own if confirmed else ():
        assert confirmed is not None
        store = _opened(job.stages.path("votes", sources[line]), held)[0] if line in sources else None
        stale[line] = stale.get(line, True) and is_open(job, line, confirmed.codes(line), store)
    return dict(sorted(stale.items()))


def label_view(job: "Job", plan: Plan) -> tuple[Labels, set[int]]:
    """Return the `Labels` of a plan, from which labels are read, and the positions of the stale lines."""
    sources = vote_keys(job, plan)
    held: dict[Any, VoteStore] = job._held("stores", None, dict)
    opened = {key: _opened(job.stages.path("votes", key), held) for key in set(sources.values())}
    stores: dict[int, VoteStore | NoVotes] = {}
    for line, key in sources.items():
        store, finished = opened[key]
        if store is not None and line in finished:
            stores[line] = store
    confirmed = job_confirmed(job, plan)
    for line in confirmed.own - stores.keys():
        stores[line] = NoVotes(job.volume.shape, plan.along)
    limit = survey_limit(stores, plan.label, judged_shift(plan))
    shape = tuple(job.volume.shape)
    view = Labels(stores, dict(plan.codes), corrections(job, plan), limit, plan.along, shape, confirmed)
    stale = _stale_lines(job, plan, sources, confirmed)
    return view, {line for line in stores if stale[line]}


def _opened(folder: Any, held: dict[Any, VoteStore]) -> tuple[VoteStore | None, set[int]]:
    """Return a store of votes and the positions of its finished lines; (None, empty set) if damaged or missing.

    `held` keeps stores that were opened before.
    """
    try:
        if not (folder / "votes.zarr").is_dir():
            return None, set()
        store = held[folder] = held.get(folder) or VoteStore(folder)
        return store, store.done.read()
    except (ValueError, OSError):
        return None, set()


def corrections(job: "Job", plan: Plan) -> Corrections:
    """Return the corrections of votes by the strokes, rejected patches and exemplars of a plan."""
    return Corrections(
        *marked_sections(job, plan),
        names=sorted(plan.codes, key=plan.codes.__getitem__),
        background=plan.background,
        along=plan.along,
        shape=tuple(job.volume.shape),
        rejected=rejected_samples(job, plan),
        clicked=clicked_samples(job, plan),
    )


def judged_shift(plan: Plan) -> float:
    """Return the number to add to the logit of confidence so that it fits the answers to audits of samples."""
    judged = [one for one in plan.state.audits if "confidence" in one and one["answer"] != "unknown"]
    return confidence_shift([one["confidence"] for one in judged], [one["answer"] == "yes" for one in judged])


def label_dataset(job: "Job", plan: Plan) -> xr.Dataset:
    """Return the labels of the survey as a Dataset that is read lazily: ``label``, ``confidence`` and ``stale``."""
    view, stale = label_view(job, plan)
    volume = job.volume
    attrs = {
        "classes": class_names(plan, view),
        "mapping": plan.label.mapping,
        "source": plan.volume["source"],
        "version": outcrop.__version__,
        "background": "" if plan.background is None else plan.names[plan.background],
        "min_confidence": float(view.limit),
        "provenance": provenance(job, plan, view, stale),
    }
    attrs |= spacing_attrs(volume) | {name: volume.attrs[name] for name in ("unit", "map") if name in volume.attrs}
    return read_labels(view, {name: volume[name].values for name in volume.dims}, stale, attrs)


def class_names(plan: Plan, view: Labels) -> list[str]:
    """Return the class names in the order of their codes: code i + 1 belongs to the i-th name (from 0).

    A code that belongs to no class of the job or of the labels gets the name ``class CODE``.
    """
    shown = {name for store in set(view.stores.values()) for name in store.classes}
    last = max((code for name, code in plan.codes.items() if name in plan.names or name in shown), default=0)
    used = {name for name in plan.codes if name in plan.names or name in shown}
    names = {plan.codes[name]: plan.names.get(name, name) for name in used}
    return [names.get(code, f"class {code}") for code in range(1, last + 1)]


def vote_folders(*views: Labels) -> list[str]:
    """Return the cache keys, sorted, of all stored votes from which the given labels are decided."""
    stores = [store for view in views for store in view.stores.values()]
    return sorted({store.folder.name for store in stores if isinstance(store, VoteStore)})


def provenance(job: "Job", plan: Plan, view: Labels, stale: set[int]) -> dict[str, Any]:
    """Return the provenance of labels as a dict: version, cache keys, files of confirmed lines, and stale lines."""
    mapper = plan.mapper_key
    return {
        "version": outcrop.__version__,
        "volume": plan.volume["digest"],
        "mapper": mapper or "",
        "weights": "" if mapper is None else saved_digest(job.stages.path("mapper", mapper) / "mapper"),
        "votes": vote_folders(view),
        "confirmed": sorted({one["file"] for one in plan.state.confirmed}),
        "lines": {"labelled": len(view.stores), "stale": len(stale), "total": plan.volume["shape"][plan.along]},
        "stale_lines": job.axes[plan.along][sorted(stale)].tolist(),
    }
