"""Record the options of the index, of retrieval and of labels as decisions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from outcrop.job.options import IndexOptions, LabelOptions, RetrievalOptions
from outcrop.job.plan import NEIGHBOURHOOD, chosen_options, option_values
from outcrop.mapping.registry import MAPPERS, POINTS
from outcrop.storage.stages import as_json

if TYPE_CHECKING:
    from outcrop.job.choices import JobChoices


def choose_options(
    job: "JobChoices",
    *,
    index: IndexOptions | None = None,
    retrieval: RetrievalOptions | None = None,
    label: LabelOptions | None = None,
    neighbourhood: Mapping[str, Any] | None = None,
) -> None:
    """Record the options that differ from the present ones; a stage that is not given keeps its options.

    Parameters
    ----------
    index, retrieval, label
        New options, made from those of `chosen_options` with the method ``updated``.
    neighbourhood : dict, optional
        Only for an index that covers a few lines around one line: ``area``, the area of these lines, and ``survey``,
        the index options of the whole survey.
    """
    now = chosen_options(job.log.state())
    if index is not None and index != now.index:
        job._grid_of(index)  # raises ValueError if the patches do not fit into the volume
    before = option_values(now.index, now.retrieval, now.label)
    after = option_values(index or now.index, retrieval or now.retrieval, label or now.label)
    if neighbourhood is not None:
        after[NEIGHBOURHOOD] = as_json(neighbourhood)
    changed = {name: value for name, value in after.items() if as_json(before.get(name)) != as_json(value)}
    if changed:
        job._decide(*({"what": "set", "name": name, "value": value} for name, value in changed.items()))


def choose_counts(
    job: "JobChoices",
    count: int | str | Mapping[str, int | str] | None = None,
    per_exemplar: bool | None = None,
) -> None:
    """Choose how many patches are retrieved for each class; None keeps the present choice.

    `count` is a number, ``auto``, or a dict of class -> number or ``auto``. If `per_exemplar` is True, the number is
    divided evenly among the exemplars of the class.
    """
    if isinstance(count, Mapping):
        count = {job._class(name): n for name, n in count.items()}
    retrieval = chosen_options(job.log.state()).retrieval
    choose_options(job, retrieval=retrieval.updated(count=count, per_exemplar=per_exemplar))


def choose_labels(
    job: "JobChoices",
    *,
    mapping: str | None = None,
    seed: int | None = None,
    min_confidence: float | None = None,
    max_error: float | None = None,
    step: int | str | None = None,
    with_jobs: Sequence[str | Path] | None = None,
) -> None:
    """Choose how labels are made and which labels are uncertain; None keeps an option. See `Job.label`."""
    options = chosen_options(job.log.state())
    if mapping is not None and mapping not in (*MAPPERS, POINTS):
        raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join((*MAPPERS, POINTS))}.")
    size = cast(tuple[int, int], options.index.fitted(tuple(job._known["shape"])).size)
    most = min(size)
    if isinstance(step, int | np.integer) and step > most:
        raise ValueError(f"step is {step}; choose 1 to {most}, the size of a patch, or auto for a third of it.")
    mapper = None if mapping is None else "auto"  # a chosen mapping replaces a borrowed mapper
    chosen = options.label.updated(mapping=mapping, mapper=mapper, seed=seed, step=step)
    if min_confidence is not None or max_error is not None:
        LabelOptions(min_confidence=min_confidence, max_error=max_error)  # raises ValueError if both are given
        limits = {"min_confidence": min_confidence or "auto", "max_error": max_error or "auto"}
        chosen = chosen.updated(min_confidence="auto", max_error="auto").updated(**limits)
    names: list[str] = []
    if with_jobs is not None:
        chosen = chosen.updated(with_jobs=tuple(str(Path(path).resolve()) for path in with_jobs))
        names = [name for path in chosen.with_jobs for name in job._joined_job(path).classes]
    with job.log.act():
        job._add_classes(names)
        choose_options(job, label=chosen)
