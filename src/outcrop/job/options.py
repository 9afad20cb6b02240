"""Options of the stages as a job keeps them: defaults, and what follows from the size of a survey."""

import numpy as np

from outcrop.mapping.registry import DEFAULT_MAPPING
from outcrop.measures.registry import DEFAULT
from outcrop.patches.windows import patch_starts
from outcrop.retrieval.index import GRID_OPTIONS

INDEX = dict.fromkeys(GRID_OPTIONS) | {"every": 1, "along": "inline", "gain": "volume", "seed": 0}
INDEX |= {"measure": DEFAULT, "truncate": True, "finest": True}
RETRIEVE = {"count": "auto", "per_exemplar": False, "diverse": False}
LABEL = {"mapping": DEFAULT_MAPPING, "seed": 0, "step": None, "with": [], "mapper": None}
NEIGHBOURHOOD = "neighbourhood"  # option of a job: see `whole_survey`
SIZE = 99  # samples and traces of a patch, as in the paper
PATCHES = 40_000  # in an index whose step is not given: half a minute on two cores
PARTS = (9, 6, 4, 3)  # parts of a patch from one to the next, the densest first


def index_options(options, shape):
    """Options of an index with the size and the step that fit a survey.

    Parameters
    ----------
    options : dict
        Those that were given.
    shape : (int, int, int)
        Of the volume.

    Examples
    --------
    >>> index_options({}, (4, 951, 409))["step"], index_options({}, (600, 951, 462))["step"]
    ([11, 11], [33, 33])
    """
    found = INDEX | {name: value for name, value in options.items() if value is not None}
    if found["every"] < 1:
        raise ValueError(f"every is {found['every']}; choose 1 (each line) or more.")
    across = shape[0 if found["along"] == "crossline" else 1]
    if found["size"] is None:
        found["size"] = [min(SIZE, shape[2]), min(SIZE, across)]
    found["size"] = [int(n) for n in np.broadcast_to(found["size"], 2)]
    if found["step"] is None:
        steps = [[max(1, n // part) for n in found["size"]] for part in PARTS]
        found["step"] = next((step for step in steps if patch_count(found, shape, step) <= PATCHES), steps[-1])
    found["step"] = [int(n) for n in np.broadcast_to(found["step"], 2)]
    if found["area"]:
        found["area"] = {name: [float(end) for end in ends] for name, ends in found["area"].items()}
    return found


def whole_survey(chosen):
    """Options of the index of the whole survey while patches are looked for around one line only, None otherwise.

    Parameters
    ----------
    chosen : dict
        Options of a job. ``neighbourhood`` has the ``area`` that a page chose and the options of the ``survey``.

    Examples
    --------
    >>> near = {"inline": [100.0, 110.0]}
    >>> whole_survey({"index": {"area": near}, "neighbourhood": {"area": near, "survey": {"every": 2}}})
    {'every': 2}
    >>> whole_survey({"index": {"area": {"inline": [1, 9]}}, "neighbourhood": {"area": near, "survey": {}}}) is None
    True
    """
    mark = chosen.get(NEIGHBOURHOOD)
    if not mark or mark["area"] != chosen.get("index", {}).get("area"):
        return None
    return mark["survey"]


def patch_count(options, shape, step):
    """About how many patches an index has: missing traces and an area of interest are not looked at."""
    lines = 1 if options["along"] == "crossline" else 0
    total = 0
    for direction in (0, 1) if options["along"] == "both" else (lines,):
        if min(shape[2] - options["size"][0], shape[1 - direction] - options["size"][1]) >= 0:
            down = len(patch_starts(shape[2], options["size"][0], step[0]))
            total += (
                -(-shape[direction] // options["every"])
                * down
                * len(patch_starts(shape[1 - direction], options["size"][1], step[1]))
            )
    return total
