"""What a mapper is fitted on: patches and strokes of a job, and of others that are labelled with it."""

import numpy as np

from outcrop.job import tables
from outcrop.job.strokes import painted_patches, painted_sections

SURE = 1e3  # weight of a patch that was painted, so that a mapper which draws some patches draws it


def joined_jobs(paths):
    """Jobs with their states, and the paths at which there is none any more."""
    from outcrop.job.core import Job

    found, missing = [], []
    for path in paths:
        try:
            other = Job(path)
            found.append((other, other.state))
        except (ValueError, OSError):
            missing.append(path)
    return found, missing


def weak_patches(job, state, first, *, draft, memory, background, painted):
    """Retrieved patches of a job, their classes, what is painted in them, and how sure they are.

    ``first`` gives the first name of a class by its present one, in the job that is labelled. Without `painted` the
    strokes are left out.
    """
    index = job.open_index(state)
    _, weak = tables.retrieved(job, index, state)
    classes = np.array([first.get(name, name) for name in weak.classes], str)
    rows = np.arange(len(weak)) if draft is None else weak.picks(draft)
    need = 12 * len(rows) * int(np.prod(index.grid.size))
    if need > memory:
        raise ValueError(
            f"{len(rows)} retrieved patches need about {need / 1e9:.1f} GB and {memory / 1e9:.1f} GB may be used; "
            "retrieve fewer of them (--count) or raise --memory."
        )
    strokes = renamed_strokes(state, first) if painted else []
    names = list(dict.fromkeys([*classes[rows], *(stroke["class"] for stroke in strokes)]))
    names = [str(name) for name in names if name != "erase"]
    sections = painted_sections(strokes, names, job.axes)
    starts, classes, masks = painted_patches(
        index.grid, sections, weak.starts[rows], classes[rows], names, background=background
    )
    weights = np.append(weak.weights[rows], np.full(len(starts) - len(rows), SURE))
    return index.grid.cut(index.volume, starts), classes, masks, weights, (index, starts)


def renamed_strokes(state, first):
    """Strokes with the classes as another job calls them first."""
    present = {name: facts["name"] for name, facts in state.classes.items()} | {"erase": "erase"}
    known = [stroke for stroke in state.strokes if stroke["class"] in present]
    return [stroke | {"class": first.get(present[stroke["class"]], stroke["class"])} for stroke in known]


def joined_patches(parts):
    """Patches of several jobs as a mapper takes them; what is painted gets the codes of all classes together."""
    patches, classes, masks, weights = map(list, zip(*parts, strict=True))
    names = list(dict.fromkeys(name for some in classes for name in some))
    for i, (some, mask) in enumerate(zip(classes, masks, strict=True)):
        codes = np.array([0, *(names.index(name) + 1 for name in dict.fromkeys(some))], np.uint8)
        masks[i] = np.zeros((len(some), 1, 1), np.uint8) if mask is None else codes[mask]
    return patches, np.concatenate(classes), masks, np.concatenate(weights)
