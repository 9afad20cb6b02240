"""Advice about labels: classes that cover nothing or most of a line, clicks that look like another class."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcrop.job.plan import Plan
from outcrop.job.votes import Labels
from outcrop.mapping.points import PointMapper
from outcrop.patches.grid import DIRECTIONS

LEAST, MOST = 0.0005, 0.6  # shares of a line below and above which there is advice about a class
LINES = 5  # number of lines that are examined


class Advice(UserWarning):
    """Advice about labels, shown as a warning."""


def without_background(names: Sequence[str]) -> str:
    """Return advice for a job that has no background class."""
    if len(names) == 1:
        text = f"{names[0]!r} is the only class, so there are scores and no labels"
    else:
        text = f"No class is the background, so every sample becomes {' or '.join(map(repr, names))}"
    return f"{text}; add a class for everything else, for instance 'other'."


def added_background(name: str, share: float) -> str:
    """Return a sentence about a background class that was added because much of the survey looks like no class."""
    return (
        f"{share:.0%} of the survey looks like none of the classes, so class {name!r} was added for it; remove that "
        "class if every sample belongs to one of the others."
    )


def look_alikes(plan: Plan, mapper: Any) -> list[str]:
    """Return sentences about classes whose clicks look like another class."""
    texts = []
    for (name, other), n in Counter(map(tuple, getattr(mapper, "contradicted_", []))).items():
        here, there = (plan.names.get(one, one) for one in (name, other))
        clicks = "A click" if n == 1 else f"{n} clicks"
        verb = "looks" if n == 1 else "look"
        texts.append(
            f"{clicks} of {here!r} {verb} more like {there!r}: click {here!r} again where it shows best, and "
            f"click its surroundings as {there!r}."
        )
    return texts


def background_advice(plan: Plan, mapper: Any) -> list[str]:
    """Return a list with advice to add a background class; the list is empty if no background is needed."""
    names = [plan.names.get(str(name), str(name)) for name in mapper.classes_]
    open_ended = isinstance(mapper, PointMapper) and mapper.background is None and not mapper.layered_
    return [without_background(names)] if len(names) == 1 or open_ended else []


def coverage(plan: Plan, view: Labels, lines: Sequence[int], axis: np.ndarray) -> list[str]:
    """Return sentences about classes that cover nothing or most of some lines.

    `lines` are positions, of which at most five are examined; `axis` has the line number of each position.
    """
    some = [lines[at] for at in np.unique(np.linspace(0, len(lines) - 1, LINES).round().astype(int))] if lines else []
    name = DIRECTIONS[plan.along]
    where = f"{name} {axis[some[0]]:g}" if len(some) == 1 else f"{len(some)} of {len(lines)} labelled {name}s"
    return section_coverage(plan, [view.section(line)[0] for line in some], where)


def section_coverage(plan: Plan, sections: Sequence[np.ndarray], where: str) -> list[str]:
    """Return sentences about classes that cover nothing or most of sections, given by their label codes.

    Parameters
    ----------
    plan : Plan
    sections : sequence of array
        Label codes of each section.
    where : str
        Name of the sections in the sentences.
    """
    if not len(sections):
        return []
    counts = np.stack([np.bincount(codes.ravel(), minlength=256)[1:255] for codes in sections])
    every = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shares, most = np.median(every, axis=0), every.max(axis=0)
    texts = []
    for name, code in plan.classes.items():
        if shares[code - 1] > MOST and plan.firsts[name] != plan.background:
            share = f"{shares[code - 1]:.0%}"
            texts.append(f"{name!r} covers {share} of {where}: where it is wrong, click with the right class.")
        elif most[code - 1] < LEAST and counts.any():
            texts.append(f"{name!r} covers nothing of {where}: if it shows there, click on it.")
    return texts


def advice(plan: Plan, mapper: Any, view: Labels, lines: Sequence[int], axis: np.ndarray) -> list[str]:
    """Return advice about the labels of some lines.

    Parameters
    ----------
    plan : Plan
    mapper : mapper
        The mapper that made the labels, as from `job_mapper`.
    view : Labels
        The labels.
    lines : sequence of int
        Positions of the lines; at most five lines are examined.
    axis : array
        Line number of each position.
    """
    background = background_advice(plan, mapper)
    if len(mapper.classes_) == 1:
        return background
    return [*background, *look_alikes(plan, mapper), *coverage(plan, view, lines, axis)]
