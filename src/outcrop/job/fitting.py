"""The stage of the mapper: fitted on the retrieved patches, then updated by strokes, or borrowed from another job."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outcrop.arrays import device_list
from outcrop.job import retrieved
from outcrop.job.confirmed import confirmed_evidence, job_confirmed
from outcrop.job.corrections import COUNT, painted_nodes, targets_of
from outcrop.job.plan import Plan
from outcrop.job.sections import filled_section, labelling_grid, marked_sections
from outcrop.job.strokes import excluded_sections, painted_patches, painted_sections
from outcrop.mapping.encoder_mapping import EncoderMapper, Places
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.landmarks import landmark_graphs
from outcrop.mapping.points import FIRST, STRIDE, ConfirmedSamples, Point, PointMapper
from outcrop.mapping.registry import load_mapper, make_mapper
from outcrop.mapping.survey_sample import SurveySample, load_sample, sample_survey, save_sample
from outcrop.mapping.texture import TextureMapper
from outcrop.parallel import Progress, memory_budget, one_blas_thread
from outcrop.storage.kept import content
from outcrop.volumes.axes import nearest_position

if TYPE_CHECKING:
    from outcrop.job.core import Job

SAMPLED = 12  # lines of the survey that a mapping by points samples
SURE = 1e3  # weight of a painted patch, so that a mapper which draws some patches draws it


def named_mapper(job: "Job", plan: Plan, **where: Any) -> Any:
    """Return the mapper of a plan with classes by their present names; see `job_mapper`."""
    mapper = copy.copy(job_mapper(job, plan, **where))
    mapper.classes_ = np.array([plan.names.get(str(name), str(name)) for name in mapper.classes_])
    return mapper


def job_mapper(job: "Job", plan: Plan, **where: Any) -> Any:
    """Return the mapper of a plan with classes by their first names: loaded where it was fitted before.

    Parameters
    ----------
    job : Job
    plan : Plan
    **where
        ``device``, ``client``, ``memory`` and ``progress`` of `fit`.
    """
    if plan.label.mapper:
        folder = job.stages.path("mapper", plan.label.mapper) / "mapper"
        if not folder.is_dir():
            raise ValueError(f"Mapper {plan.label.mapper} of {job.path} is missing; label with --mapper JOB again.")
        return load_mapper(folder)
    if plan.mapper_stage is None:
        raise ValueError(f"{job.path} has no exemplars yet; add some before labelling.")
    if plan.mapper_stage == plan.base_stage:
        return base_mapper(job, plan, **where)
    return job.stages.get(plan.mapper_stage, "mapper", lambda: updated(job, plan, **where), load_mapper)


def base_mapper(job: "Job", plan: Plan, **where: Any) -> Any:
    """Return the mapper before strokes update it; the last one is held in memory."""
    stage = plan.base_stage
    assert stage is not None

    def fitted() -> Any:
        return job.stages.get(stage, "mapper", lambda: fit(job, plan, **where), load_mapper)

    return job._held("base mapper", stage.key, fitted)


def is_fitted(job: "Job", plan: Plan) -> bool:
    """Return whether the base mapper is stored, so that labelling starts at once."""
    key = plan.label.mapper or (plan.base_stage and plan.base_stage.key)
    return key is not None and (job.stages.path("mapper", key) / "mapper").is_dir()


def updated(job: "Job", plan: Plan, **where: Any) -> Any:
    """Update the base mapper by the grid points that strokes cover."""
    base = base_mapper(job, plan, **where)
    names = list(dict.fromkeys([*map(str, base.classes_), *(stroke["class"] for stroke in plan.strokes)]))
    names = [name for name in names if name != "erase"]
    painted, excluded = (which(plan.strokes, names, job.axes) for which in (painted_sections, excluded_sections))
    held = job._held("painted nodes", plan.base_stage and plan.base_stage.key, dict)
    parts = {}
    for place in sorted(painted.keys() | excluded.keys()):
        shape = len(job.axes[1 - place[0]]), len(job.axes[2])
        codes = painted.get(place, np.zeros(shape, np.uint8))
        excluded_here = excluded.get(place, np.zeros((len(names), *shape), bool))
        key = place, content(codes, excluded_here)
        if key not in held:  # only sections with new strokes are described
            rows, *learnt = painted_nodes(codes, excluded_here)
            held[key] = base.nodes(filled_section(job, plan, *place))[0][rows[:, 1], rows[:, 0]], *learnt
        parts[key] = held[key]
    for key in held.keys() - parts.keys():
        del held[key]
    if not parts:
        return base
    nodes, known_nodes, excluded_nodes, weights = map(np.concatenate, zip(*parts.values(), strict=True))
    with one_blas_thread():
        votes = base.node_votes(nodes)
        votes = np.pad(votes, [(0, 0), (0, len(names) - votes.shape[1])])
        return base.updated(nodes, targets_of(known_nodes, excluded_nodes, votes), weights, names[len(base.classes_) :])


def fit(
    job: "Job",
    plan: Plan,
    *,
    draft: int | None = None,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    progress: Any = None,
) -> Any:
    """Fit a mapper on the retrieved patches; mappings that cannot be updated learn the strokes here.

    Parameters
    ----------
    draft : int, optional
        Fit one member only, on that many patches of a class.
    """
    if plan.by_points:
        return fit_points(job, plan, progress)
    memory = memory or memory_budget()
    for path, other in plan.joined:
        if other is None:
            raise ValueError(f"Job {path}, named with --with, does not exist; label without it, or put it back.")
        if other.volume["digest"] != plan.volume["digest"]:
            raise ValueError(f"Job {path} is of another volume; index the same one with another --size.")
    first_device = next(iter(device_list(device)), None)
    mapping = plan.label.mapping
    mapper = make_mapper(mapping, seed=plan.label.seed, device=first_device, background=plan.background)
    if plan.joined and not isinstance(mapper, TextureMapper):
        raise ValueError(
            f"Mapping {mapping!r} takes patches of one size; use encoder or texture for jobs of several sizes."
        )
    if draft and hasattr(mapper, "members"):
        mapper.set_params(members=1)
    job._index(plan, client=client, memory=memory, progress=progress)
    jobs = [(job, plan), *((job._joined_job(path), other) for path, other in plan.joined if other is not None)]
    parts = [weak_patches(one, its_plan, plan, draft=draft, memory=memory) for one, its_plan in jobs]
    with one_blas_thread():
        context: dict[str, Any] = {}
        if isinstance(mapper, EncoderMapper):
            context["places"] = [Places(index.grid, index.volume, starts) for *_, (index, starts) in parts]
        parts = [part[:-1] for part in parts]
        if plan.joined:
            return mapper.fit(*joined_patches(parts), **context, progress=progress)
        patches, classes, masks, weights = parts[0]
        context = {name: each[0] for name, each in context.items()}
        if len(set(classes)) < 2:
            raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")
        if getattr(mapper, "torch_device", None):
            import torch

            patches = torch.from_numpy(patches).to(mapper.torch_device)
        if not isinstance(mapper, LabelMapper):
            context["weights"] = weights
        return mapper.fit(patches, classes, masks=masks, progress=progress, **context)


def fit_points(job: "Job", plan: Plan, progress: Progress | None = None) -> PointMapper:
    """Fit the mapping that learns from clicks, verdicts and strokes, and from a sample of the survey."""

    def read(line: float) -> np.ndarray:
        section: np.ndarray = filled_section(job, plan, plan.along, int(line))[0]
        return section

    lines = labelling_grid(job, plan).live_lines()
    some = lines[np.unique(np.linspace(0, len(lines) - 1, SAMPLED).round().astype(int))].tolist()

    def drawn() -> SurveySample:
        sections = []
        for done, line in enumerate(some):
            if progress:
                progress("sampling the survey", done, len(some))
            sections.append((line, read(line)))
        return sample_survey(sections)

    stage = plan.survey_stage
    sample = job.stages.get(stage, "sample.npz", drawn, load_sample, save_sample)
    graphs = job._held("graphs", stage.key, lambda: landmark_graphs(sample))
    background = None if plan.background is None else str(plan.background)
    confirmed = job_confirmed(job, plan)
    taught = ConfirmedSamples(list(confirmed.names), confirmed_evidence(confirmed, some))
    return PointMapper(background).fit(sample, evidence(job, plan), read, graphs=graphs, confirmed=taught)


def evidence(job: "Job", plan: Plan) -> list[Point]:
    """Return what a person said of the samples of a job as points: clicks, verdicts, and the grid points of strokes."""
    points = []
    for name, place, kind in plan.clicks:
        positions = [nearest_position(axis, label) for axis, label in zip(job.axes, place, strict=True)]
        line, trace = positions[plan.along], positions[1 - plan.along]
        kind, excluded = ("click", False) if kind == "click" else ("verdict", kind == "reject")
        points.append(Point(line, trace, positions[2], name, excluded=excluded, kind=kind))
    painted, not_these = marked_sections(job, plan)
    names = sorted(plan.codes, key=plan.codes.__getitem__)
    for direction, line in sorted(painted.keys() | not_these.keys()):
        if direction != plan.along:  # strokes across the lines count where labels are read
            continue
        shape = len(job.axes[1 - direction]), len(job.axes[2])
        codes = painted.get((direction, line), np.zeros(shape, np.uint8))
        gone = not_these.get((direction, line), np.zeros((len(names), *shape), bool))
        rows, known, out, weights = painted_nodes(codes, gone)
        for (trace, sample), yes, no, weight in zip(rows.tolist(), known, out, (weights / COUNT).tolist(), strict=True):
            for code in np.flatnonzero(yes | no).tolist():
                at = FIRST + STRIDE * trace, FIRST + STRIDE * sample
                points.append(Point(line, *at, names[code], weight, bool(no[code]), "stroke"))
    return points


def weak_patches(job: "Job", plan: Plan, main: Plan, *, draft: int | None, memory: int) -> tuple[Any, ...]:
    """Return the retrieved patches of a job with classes, painted pixels and weights; classes as `main` names them."""
    index = job._index(plan)
    weak = retrieved.weak_labels(job, plan)
    classes = np.array([main.firsts.get(name, name) for name in weak.classes], str)
    rows = np.arange(len(weak)) if draft is None else weak.picks(draft)
    need = 12 * len(rows) * int(np.prod(index.grid.size))
    if need > memory:
        raise ValueError(
            f"{len(rows)} retrieved patches need about {need / 1e9:.1f} GB and {memory / 1e9:.1f} GB may be used; "
            "retrieve fewer of them (--count) or raise --memory."
        )
    strokes = [] if main.updates else plan.strokes_for(main)
    names = list(dict.fromkeys([*classes[rows], *(stroke["class"] for stroke in strokes)]))
    names = [str(name) for name in names if name != "erase"]
    sections = painted_sections(strokes, names, job.axes)
    starts, classes, masks = painted_patches(
        index.grid, sections, weak.starts[rows], classes[rows], names, background=main.background
    )
    weights = np.append(weak.weights[rows], np.full(len(starts) - len(rows), SURE))
    return index.grid.cut(index.volume, starts), classes, masks, weights, (index, starts)


def joined_patches(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Join the patches of several jobs; painted pixels get the codes of all classes together."""
    patches, classes, masks, weights = map(list, zip(*parts, strict=True))
    names = list(dict.fromkeys(name for some in classes for name in some))
    for i, (some, mask) in enumerate(zip(classes, masks, strict=True)):
        codes = np.array([0, *(names.index(name) + 1 for name in dict.fromkeys(some))], np.uint8)
        masks[i] = np.zeros((len(some), 1, 1), np.uint8) if mask is None else codes[mask]
    return patches, np.concatenate(classes), masks, np.concatenate(weights)


def borrow(job: "Job", source: "Job", progress: Any = None) -> Mapping[str, Any]:
    """Copy the mapper of another job into this one; its key, classes and options of the index it was made with."""
    plan = source.plan
    mapper = named_mapper(source, plan, progress=progress)
    if isinstance(mapper, PointMapper):
        mapper.forget_places()
    classes = [str(name) for name in mapper.classes_]
    key = job.stages.begin("mapper", {"borrowed": plan.mapper_key, "classes": classes})
    folder = job.stages.path("mapper", key) / "mapper"
    if not folder.is_dir():
        mapper.save(folder)
    index = {name: getattr(plan.index, name) for name in ("size", "gain", "along")}
    return {"mapper": key, "classes": classes, "index": index}
