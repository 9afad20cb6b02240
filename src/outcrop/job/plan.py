"""A plan: options, classes, evidence and stage keys that follow from a volume and decisions, before any computation.

`resolve` is called once per command. A `Plan` is an immutable value that stages read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

from outcrop.features.encoder import weights_digest
from outcrop.job.imports import scope
from outcrop.job.options import IndexOptions, LabelOptions, RetrievalOptions
from outcrop.job.state import Exemplar, State, background_of, wins_over_line
from outcrop.mapping.registry import DEFAULT_MAPPING, POINTS, REMOVED
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.stages import digest

# Versions of the code of a stage, raised when the same inputs give another result.
TABLE_CODE, MAPPER_CODE, VOTES_CODE, SURVEY_CODE, POINTS_CODE = 4, 3, 2, 2, 5
LEARNT = ("what", "class", "along", "line", "runs", "points", "radius", "filled")  # fields for mappers
NEIGHBOURHOOD = "neighbourhood"  # option of a job whose index covers only lines around one line


class Stage(NamedTuple):
    """A result to compute: its kind, such as votes, and all inputs that determine it."""

    kind: str
    inputs: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Cache key, under which the result is stored: the digest of its kind and inputs."""
        return digest(self.kind, self.inputs)


class Joined(NamedTuple):
    """Another job from which the mapper learns too: its folder, and its plan (None if the folder is missing)."""

    path: str
    plan: "Plan | None"


@dataclass(frozen=True)
class Plan:
    """Options with all automatic values filled in, classes, evidence, and the cache key of every stage.

    Attributes
    ----------
    volume : dict
        From `known_volume`: digest, shape, names of the axes (``dims``), source and others.
    state : State
        Classes, exemplars, verdicts, strokes and audits in force: the evidence.
    codes : dict
        First name of a class (the name under which it was added) -> its code; removed classes are included.
    index : IndexOptions
        Options of the index, with the size and the step fitted to the survey.
    survey : IndexOptions or None
        Options of the index of the whole survey if `index` covers only lines around one line.
    retrieval : RetrievalOptions
    label : LabelOptions
    joined : tuple of Joined
        Other jobs from which the mapper learns too.
    across : bool
        If True, the lines that cross the lines of the index are labelled.
    """

    volume: Mapping[str, Any]
    state: State
    codes: Mapping[str, int]
    index: IndexOptions
    survey: IndexOptions | None
    retrieval: RetrievalOptions
    label: LabelOptions
    joined: tuple[Joined, ...] = ()
    across: bool = False

    # ---- classes ----------------------------------------------------------------------------------------------------

    @cached_property
    def background(self) -> str | None:
        """First name of the background, the class that may appear in any patch; None without a background.

        The first name of a class is the name under which it was added.
        """
        return background_of(self.state)

    @property
    def background_name(self) -> str | None:
        """Present name of the background, the class that may appear in any patch; None without a background."""
        return None if self.background is None else self.names[self.background]

    @cached_property
    def names(self) -> dict[str, str]:
        """First name (under which a class was added) -> present name, for all classes in use."""
        return {first: facts["name"] for first, facts in self.state.classes.items()}

    @cached_property
    def firsts(self) -> dict[str, str]:
        """Present name -> first name (under which a class was added), for all classes in use."""
        return {name: first for first, name in self.names.items()}

    @cached_property
    def classes(self) -> dict[str, int]:
        """Present name -> code, for all classes in use."""
        return {name: self.codes[first] for first, name in self.names.items()}

    # ---- evidence ---------------------------------------------------------------------------------------------------

    @cached_property
    def queries(self) -> dict[str, list[Exemplar]]:
        """First name of a class -> patches for which the index is searched.

        These are the exemplars of the class, or its accepted patches if it has no exemplar.
        """
        return self.state.queries()

    @cached_property
    def verdicts(self) -> dict[str, dict[str, list[list[Any]]]]:
        """``accepted`` or ``rejected`` -> class -> patches as lists [inline, crossline, time, direction]."""
        found: dict[str, dict[str, list[list[Any]]]] = {"accepted": {}, "rejected": {}}
        for one in sorted(self.state.verdicts, key=lambda one: (one.place, one.along)):
            if one.name in self.queries:
                kind = "accepted" if one.accept else "rejected"
                found[kind].setdefault(one.name, []).append([*one.place, one.along])
        return found

    @cached_property
    def strokes(self) -> list[dict[str, Any]]:
        """Strokes of this job and of all joined jobs, with the first names of the classes of this job."""
        return [stroke for plan in self._together for stroke in plan.strokes_for(self)]

    @property
    def _together(self) -> "list[Plan]":
        """The plans of this job and of all joined jobs that exist."""
        return [self, *(plan for _, plan in self.joined if plan is not None)]

    def strokes_for(self, other: "Plan") -> list[dict[str, Any]]:
        """Return the strokes of this job with the first names of the classes of another job."""
        present = self.names | {"erase": "erase"}
        return [
            stroke | {"class": other.firsts.get(present[stroke["class"]], stroke["class"])}
            for stroke in self.state.strokes
            if stroke["class"] in present
        ]

    @property
    def size(self) -> tuple[int, int]:
        """Height in samples and width in traces of a patch."""
        height, width = cast(tuple[int, int], self.index.size)
        return height, width

    @cached_property
    def confirmed(self) -> list[Any]:
        """One list for each confirmed line, from which cache keys are made.

        Each list has the direction, the number and the file of the line, the classes that were removed later, and the
        strokes and exemplars that change the labels of the line.
        """
        exemplars = [(one.id, one.scope, [one.name, one.place]) for one in self.state.exemplars if one.place]
        strokes = [(one["id"], scope(one), [one.get("what"), learnt(one)]) for one in self.state.strokes]
        return [
            [
                *(one[name] for name in ("along", "line", "file", "without")),
                [what for mark, path, what in [*exemplars, *strokes] if wins_over_line(mark, path, one)],
            ]
            for one in self.state.confirmed
        ]

    # ---- stages -----------------------------------------------------------------------------------------------------

    @property
    def along(self) -> int:
        """Direction of the lines that are labelled: 0 inline, 1 crossline."""
        return int((self.index.along == "crossline") != self.across)

    @cached_property
    def index_stage(self) -> Stage:
        """Stage of the index: the descriptors of its patches."""
        return Stage("index", self.index.inputs(self.volume["digest"]))

    @cached_property
    def retrieved_stage(self) -> Stage | None:
        """Stage of the retrieved patches; None if no class has an exemplar or an accepted patch."""
        if not self.queries:
            return None
        exemplars = {name: [one.packed or list(one.place or ()) for one in some] for name, some in self.queries.items()}
        code = TABLE_CODE + bool(self.verdicts["rejected"])  # from 5 on, only its own class rejects a patch
        made_from = {"index": self.index_stage.key, "code": code, "classes": list(exemplars)}
        made_from |= {"exemplars": exemplars, "diverse": False, **self.verdicts}  # `diverse` was an option
        turned = {name: [one.along for one in some] for name, some in self.queries.items()}
        if any(along not in (None, "inline") for some in turned.values() for along in some):
            made_from["along"] = turned
        made_from |= {"count": self.retrieval.count, "per_exemplar": self.retrieval.per_exemplar}
        if "near" in self.volume:
            made_from["near"] = self.volume["near"]
        if self.background not in (None, "other"):  # keys of earlier versions lack the background
            made_from["background"] = self.background
        return Stage("retrieved", made_from)

    @property
    def by_points(self) -> bool:
        """Whether the mapping is ``points``, which learns from points and the survey, without retrieved patches."""
        return bool(self.label.mapping == POINTS)

    @cached_property
    def clicks(self) -> list[tuple[str, tuple[float, ...], str]]:
        """Class, place and kind (click, accept or reject) of every exemplar and verdict, including joined jobs."""
        found = []
        for plan in self._together:
            shown = [(one.name, one.place, "click") for one in plan.state.exemplars if one.place]
            judged = [(one.name, one.place, "accept" if one.accept else "reject") for one in plan.state.verdicts]
            for name, place, kind in [*shown, *judged]:
                if name in plan.names:
                    found.append((self.firsts.get(plan.names[name], name), tuple(map(float, place)), kind))
        return found

    @cached_property
    def survey_stage(self) -> Stage:
        """Stage of the random subset of the survey that the mapping ``points`` learns from."""
        scaling = {name: getattr(self.index, name) for name in ("gain", "clip")}
        scaling |= {"along": self.along, "area": self.area, "seed": self.label.seed}
        return Stage(
            "survey", {"volume": self.volume["digest"], "encoder": weights_digest(), **scaling, "code": SURVEY_CODE}
        )

    @cached_property
    def points_stage(self) -> Stage | None:
        """Stage of the mapper that learns from points; None if no class has a click, a stroke or a confirmed line."""
        strokes = [learnt(stroke) for stroke in self.strokes]
        if not any(kind != "reject" for *_, kind in self.clicks) and not strokes and not self.confirmed:
            return None
        inputs = {"survey": self.survey_stage.key, "clicks": self.clicks, "strokes": strokes, "code": POINTS_CODE}
        missing = [path for path, plan in self.joined if plan is None]  # fitting raises ValueError for them
        inputs |= {"missing": missing} if missing else {}
        inputs |= {"confirmed": self.confirmed} if self.confirmed else {}
        return Stage("mapper", inputs | {"background": self.background, "classes": list(self.names)})

    @cached_property
    def mapper_stage(self) -> Stage | None:
        """Stage of the mapper; None if there is no evidence, or if the mapper is borrowed from another job."""
        if self.label.mapper:
            return None
        if self.by_points:
            return self.points_stage
        if self.retrieved_stage is None:
            return None
        inputs = {
            "retrieved": self.retrieved_stage.key,
            "strokes": [learnt(stroke) for stroke in self.state.strokes],
            "mapping": self.label.mapping,
            "seed": self.label.seed,
            "background": self.background,
            "with": [path for path, _ in self.joined],
            "code": MAPPER_CODE,
        }
        return Stage("mapper", inputs)

    @property
    def mapper_key(self) -> str | None:
        """Cache key of the mapper; None if there is no evidence yet."""
        return self.label.mapper or (self.mapper_stage and self.mapper_stage.key)

    @cached_property
    def votes_stage(self) -> Stage | None:
        """Stage of the votes for each class on every line; None if there is no evidence for a mapper yet."""
        if self.mapper_key is None:
            return None
        grid = {name: getattr(self.index, name) for name in ("along", "gain", "clip")} | {"area": self.area}
        if self.across:
            grid["along"] = DIRECTIONS[self.along]
        plain = {"grid": grid, "code": POINTS_CODE}
        if not self.by_points:  # `across`: lines that vote
            plain = {"grid": grid | {"size": self.index.size}, "step": self.label.step, "across": 1, "code": VOTES_CODE}
        return Stage("votes", {"mapper": self.mapper_key, "volume": self.volume["digest"], **plain})

    @property
    def area(self) -> dict[str, Any] | None:
        """Area of interest of the whole survey, also if the index covers only lines around one line."""
        area = self.index.area if self.survey is None else self.survey.area
        return area and {name: [float(end) for end in ends] for name, ends in area.items()}

    @property
    def keys(self) -> dict[str, str | None]:
        """Cache key of every stage, None if the stage has no inputs yet."""
        stages = {"index": self.index_stage, "retrieved": self.retrieved_stage, "votes": self.votes_stage}
        keys = {name: stage and stage.key for name, stage in stages.items()}
        return {"volume": self.volume["digest"], **keys, "mapper": self.mapper_key}


@dataclass(frozen=True)
class Chosen:
    """Options of the stages as a person chose them, without automatic values."""

    index: IndexOptions
    retrieval: RetrievalOptions
    label: LabelOptions


def resolve(volume: Mapping[str, Any], state: State, codes: Mapping[str, int], joined: Sequence[Joined] = ()) -> Plan:
    """Return the plan that follows from a volume and the state of a job.

    Parameters
    ----------
    volume : dict
        From `known_volume`.
    state : State
    codes : dict
        First name of a class (the name under which it was added) -> its code.
    joined : sequence of Joined
        Jobs from which the mapper learns too.
    """
    chosen = chosen_options(state)
    mark = state.options.get(NEIGHBOURHOOD) or {}
    around_a_line = bool(mark) and mark["area"] == state.options.get("index", {}).get("area")
    return Plan(
        volume,
        state,
        codes,
        chosen.index.fitted(tuple(volume["shape"])),
        IndexOptions.read(mark["survey"]) if around_a_line else None,
        chosen.retrieval,
        chosen.label,
        tuple(joined),
    )


def chosen_options(state: State) -> Chosen:
    """Return the options that a person chose, without automatic values, from the state of a job."""
    chosen = state.options
    label = dict(chosen.get("label", {}))
    label["with_jobs"] = label.pop("with", ())
    if label.get("mapping") in REMOVED.values():
        label["mapping"] = DEFAULT_MAPPING
    return Chosen(
        IndexOptions.read(chosen.get("index", {})),
        RetrievalOptions(chosen.get("count", "auto"), chosen.get("per_exemplar", False)),
        LabelOptions.read(label | chosen.get("limits", {})),
    )


def option_values(index: IndexOptions, retrieval: RetrievalOptions, label: LabelOptions) -> dict[str, Any]:
    """Return option name -> value, in the form that decisions of kind ``set`` store; None stands for the default."""
    kept = label.changed()
    limits = {name: kept.pop(name) for name in ("min_confidence", "max_error") if name in kept}
    if "with_jobs" in kept:
        kept["with"] = kept.pop("with_jobs")
    return {
        "index": index.changed() or None,
        "count": retrieval.changed().get("count"),
        "per_exemplar": retrieval.changed().get("per_exemplar"),
        "label": kept or None,
        "limits": limits or None,
    }


def learnt(stroke: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stroke that a mapper learns from."""
    return {name: stroke[name] for name in LEARNT if name in stroke}
