"""Fit the mapper of a job to points and a survey subset, or to retrieved patches, or borrow it from another job."""

import copy
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from outcrop.arrays import device_list
from outcrop.job import retrieved
from outcrop.job.confirmed import confirmed_evidence, job_confirmed
from outcrop.job.hints import Advice, added_background
from outcrop.job.plan import Plan
from outcrop.job.sections import filled_section, labelling_grid, position_in
from outcrop.job.strokes import excluded_sections, painted_nodes, painted_patches, painted_sections
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.landmarks import landmark_graphs
from outcrop.mapping.points import FIRST, STRIDE, ConfirmedSamples, Point, PointMapper
from outcrop.mapping.registry import POINTS, load_mapper, make_mapper
from outcrop.mapping.survey_sample import SurveySample, load_sample, sample_survey, save_sample
from outcrop.parallel import Progress, memory_budget, one_blas_thread
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.neighbours import line_distances

if TYPE_CHECKING:
    from outcrop.job.core import Job

SAMPLED = 12  # number of lines from which the mapping by points draws its subset of the survey
CROSSED = 8  # maximum number of lines on which a stroke across the lines gives points
BACKGROUND = "other"  # class that is added if much of the survey looks like no class
# Minimum share of the survey for adding the background: .34 to .71 was found without a background class, .2 to .28 if
# the classes are stratigraphic units.
UNLIKE = 0.3
SURE = 1e3  # weight of a painted patch, so that mappers which draw patches by weight draw it


def named_mapper(job: "Job", plan: Plan, **where: Any) -> Any:
    """Return the mapper of a plan, with the present names of its classes; see `job_mapper`."""
    mapper = copy.copy(job_mapper(job, plan, **where))
    mapper.classes_ = np.array([plan.names.get(str(name), str(name)) for name in mapper.classes_])
    return mapper


def job_mapper(job: "Job", plan: Plan, **where: Any) -> Any:
    """Return the mapper of a plan; fit it if none is stored.

    Its classes have the names under which they were first added to the job.

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
    stage = plan.mapper_stage
    if stage is None:
        raise ValueError(f"{job.path} has no exemplars yet; add some before labelling.")

    def fitted() -> Any:
        return job.stages.get(stage, "mapper", lambda: fit(job, plan, **where), partial(load_mapper, places=True))

    return job._held("mapper", stage.key, fitted)


def add_background(job: "Job", plan: Plan, **where: Any) -> None:
    """Add a background class, with a note, if the job has none and much of the survey looks like no class.

    The new class is a decision and is added only once: if a person undoes it or removes the class, it is not added
    again. No class is added for a mapping that learns from patches, or for a borrowed mapper.
    """
    asked = plan.by_points and plan.mapper_stage is not None and plan.background is None
    if not asked or any(entry.get("class") == BACKGROUND for entry in job.log.entries):
        return
    share = float(job_mapper(job, plan, **where).unlike_)
    if share >= UNLIKE:
        job.add_class(BACKGROUND)
        job._note(added_background(BACKGROUND, share), Advice)


def learns_at_once(job: "Job", plan: Plan) -> bool:
    """Return whether the mapper learns from a new stroke within seconds.

    This is so for the mapping ``points`` if the random subset of the survey is stored and the mapper is not borrowed.
    """
    sampled = plan.by_points and (job.stages.path("survey", plan.survey_stage.key) / "sample.npz").is_file()
    return sampled and not plan.label.mapper


def fit(
    job: "Job",
    plan: Plan,
    *,
    device: str | None = None,
    client: Any = None,
    memory: int | None = None,
    progress: Any = None,
) -> Any:
    """Fit and return the mapper of a plan, which learns from points or from retrieved patches."""
    for path, other in plan.joined:
        if other is None:
            raise ValueError(f"Job {path}, given with --with, does not exist; restore it, or label with '--with none'.")
        if other.volume["digest"] != plan.volume["digest"]:
            raise ValueError(f"Job {path}, given with --with, is on another volume; choose jobs on the same volume.")
    if plan.by_points:
        with one_blas_thread():  # two threads round differently, so that shell and page would have different labels
            return fit_points(job, plan, progress)
    memory = memory or memory_budget()
    first_device = next(iter(device_list(device)), None)
    mapping = plan.label.mapping
    mapper = make_mapper(mapping, seed=plan.label.seed, device=first_device, background=plan.background)
    if plan.joined:
        raise ValueError(f"Mapping {mapping!r} learns from one job; choose {POINTS!r}, or label with '--with none'.")
    job._index(plan, client=client, memory=memory, progress=progress)
    patches, classes, masks, weights = weak_patches(job, plan, memory)
    with one_blas_thread():
        if len(set(classes)) < 2:
            raise ValueError("Labels need patches of two classes or more; add an exemplar of another class.")
        if getattr(mapper, "torch_device", None):
            import torch

            patches = torch.from_numpy(patches).to(mapper.torch_device)
        context = {} if isinstance(mapper, LabelMapper) else {"weights": weights}
        return mapper.fit(patches, classes, masks=masks, progress=progress, **context)


def fit_points(job: "Job", plan: Plan, progress: Progress | None = None) -> PointMapper:
    """Fit the mapping ``points`` to clicks, verdicts, strokes, confirmed lines and a random subset of the survey."""

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
        return sample_survey(sections, random_state=plan.label.seed)

    stage = plan.survey_stage
    sample = job.stages.get(stage, "sample.npz", drawn, load_sample, save_sample)
    graphs = job._held("graphs", stage.key, lambda: landmark_graphs(sample))
    background = None if plan.background is None else str(plan.background)
    confirmed = job_confirmed(job, plan)
    samples = ConfirmedSamples(list(confirmed.names), confirmed_evidence(confirmed, some))
    metres = line_distances(job.volume, DIRECTIONS[plan.along])
    points = evidence(job, plan)
    return PointMapper(background).fit(sample, points, read, graphs=graphs, confirmed=samples, metres=metres)


def evidence(job: "Job", plan: Plan) -> list[Point]:
    """Return the points that the mapping ``points`` learns from: clicks, verdicts, and grid points under strokes."""
    points = []
    for name, place, kind in plan.clicks:
        positions = position_in(job.axes, place)
        if positions is None:  # outside this volume, because it was decided on another one
            continue
        line, trace = positions[plan.along], positions[1 - plan.along]
        origin = "click" if kind == "click" else "verdict"
        points.append(Point(line, trace, positions[2], name, excluded=kind == "reject", kind=origin))
    names = sorted(plan.codes, key=plan.codes.__getitem__)
    strokes = [stroke for stroke in plan.strokes if stroke["class"] in (*plan.names, "erase")]
    painted, excluded = painted_sections(strokes, names, job.axes), excluded_sections(strokes, names, job.axes)
    for place in sorted(painted.keys() | excluded.keys()):
        points += _painted_points(job, plan, names, place, painted.get(place), excluded.get(place))
    return points


def _painted_points(
    job: "Job",
    plan: Plan,
    names: list[str],
    place: tuple[int, int],
    codes: np.ndarray | None,
    excluded: np.ndarray | None,
) -> list[Point]:
    """Return the grid points that strokes cover on one section, as points that a mapper learns from.

    A section across the lines gives points on at most eight lines.

    Parameters
    ----------
    names : list of str
        Class of each code, starting with code 1.
    place : (int, int)
        Direction and position of the section.
    codes, excluded : array or None
        As `painted_sections` and `excluded_sections` give them.
    """
    direction, position = place
    shape = len(job.axes[1 - direction]), len(job.axes[2])
    codes = np.zeros(shape, np.uint8) if codes is None else codes
    excluded = np.zeros((len(names), *shape), bool) if excluded is None else excluded
    rows, known, out, weights = painted_nodes(codes, excluded)
    columns = np.unique(rows[:, 0])
    if direction != plan.along and len(columns) > CROSSED:
        columns = columns[np.linspace(0, len(columns) - 1, CROSSED).round().astype(int)]
    points = []
    for row, yes, no, weight in zip(rows.tolist(), known, out, weights.tolist(), strict=True):
        if row[0] not in columns:
            continue
        column, sample = (FIRST + STRIDE * at for at in row)
        line, trace = (position, column) if direction == plan.along else (min(int(column), shape[0] - 1), position)
        for code in np.flatnonzero(yes | no).tolist():
            points.append(Point(line, trace, sample, names[code], weight, bool(no[code]), "stroke"))
    return points


def weak_patches(job: "Job", plan: Plan, memory: int) -> tuple[Any, ...]:
    """Return the amplitudes, classes, painted codes and weights of the retrieved and painted patches of a job.

    ValueError is raised if they need more than `memory` bytes.
    """
    index = job._index(plan)
    weak = retrieved.weak_labels(job, plan)
    classes = np.array(weak.classes, str)
    need = 12 * len(weak) * int(np.prod(index.grid.size))
    if need > memory:
        raise ValueError(
            f"{len(weak)} retrieved patches need about {need / 1e9:.1f} GB and {memory / 1e9:.1f} GB may be used; "
            "retrieve fewer of them (--count) or raise --memory."
        )
    strokes = plan.strokes_for(plan)
    names = list(dict.fromkeys([*classes, *(stroke["class"] for stroke in strokes)]))
    names = [str(name) for name in names if name != "erase"]
    sections = painted_sections(strokes, names, job.axes)
    starts, classes, masks = painted_patches(
        index.grid, sections, weak.starts, classes, names, background=plan.background
    )
    weights = np.append(weak.weights, np.full(len(starts) - len(weak), SURE))
    return index.grid.cut(index.volume, starts), classes, masks, weights


def borrow(job: "Job", source: "Job", progress: Any = None) -> Mapping[str, Any]:
    """Copy the mapper of the job `source` into this job.

    Return a dict: ``mapper``, the cache key of the copy; ``classes``, the names of its classes; ``index``, the options
    size, gain and along of the index of `source`.
    """
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
