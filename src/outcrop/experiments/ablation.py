"""What each part of the texture mapper is worth: the same yardstick with one part changed at a time."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any
from unittest import mock

import pandas as pd

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.drawing import bars
from outcrop.experiments.expert import Runs, Yard, against_expert, fresh, label, opened
from outcrop.features import energies
from outcrop.mapping import constraint, pixels


class OfPatches(oc.TextureMapper):
    """Labels patch by patch, which then vote, as the paper's mappings must."""

    any_size = False


def changed(constants: dict[str, Any]) -> ExitStack:
    """Return a context with other constants, in every module of the mapper that has them."""
    stack = ExitStack()
    for module in (energies, constraint, pixels):
        known = {name: value for name, value in constants.items() if hasattr(module, name)}
        if known:
            stack.enter_context(mock.patch.multiple(module, **known))
    return stack


# part -> (constants, mapper)
PARTS: dict[str, tuple[dict[str, Any], Callable[[], oc.TextureMapper]]] = {
    "all of it": ({}, oc.TextureMapper),
    "descriptor: one direction": ({"N_DIRECTIONS": 1}, oc.TextureMapper),
    "descriptor: two wavelengths": ({"WAVELENGTHS": (7, 12)}, oc.TextureMapper),
    "scale: near energies only": ({"SMOOTHING": (5,)}, oc.TextureMapper),
    "scale: far energies only": ({"SMOOTHING": (14,)}, oc.TextureMapper),
    "invariance: amplitudes as they are": ({"GAIN": 0.0, "COLOUR": 0.0}, oc.TextureMapper),
    "features: descriptors as they are": ({}, partial(oc.TextureMapper, n_features=64)),
    "constraint: none, patches painted whole": ({}, partial(oc.TextureMapper, rounds=0)),
    "shares: rounds never moved on": ({"STEP": 0.0}, oc.TextureMapper),
    "background: votes on strange textures as they are": ({"DOUBT": 0.0}, oc.TextureMapper),
    "regularity: votes not averaged along reflectors": ({"NODE_WEIGHT": 1e6}, oc.TextureMapper),
    "voting: one member": ({}, partial(oc.TextureMapper, members=1)),
    "voting: patches instead of sections": ({}, OfPatches),
}
CLEANING: dict[str, dict[str, Any]] = {
    "constraint: the expert paints what is retrieved on the exemplars' line": {"painted": True},
    "retrieval: doubtful patches drawn less": {"weighted": True},
    "scale: patches of faults half as large": {"sizes": {"fault": 49}},
    "scale: patches of chaos a third smaller": {"sizes": {"chaotic": 67}},
}


def run(data: Data, *, quick: bool = False) -> Result:
    """Score every variation from patches and from the exemplars chosen by eye."""
    rows = []
    with opened(data, quick) as yard:
        kinds = {"patches": yard.patches(), "exemplars": yard.exemplars()}
        for part, (constants, make) in list(PARTS.items())[: 2 if quick else None]:
            with changed(constants):
                energies._log_gabor.cache_clear()
                rows += [scored(yard, part, kind, runs, make) for kind, runs in kinds.items()]
        energies._log_gabor.cache_clear()
        for part, cleaning in CLEANING.items():
            rows.append(scored(yard, part, "exemplars", yard.exemplars(**cleaning), oc.TextureMapper))
    table = pd.DataFrame(rows)
    whole = table[table["part"] == "all of it"].set_index("supervision")["MIU"]
    table.insert(3, "MIU lost", table["supervision"].map(whole) - table["MIU"])
    wide = table.pivot(index="part", columns="supervision", values="MIU").loc[list(dict.fromkeys(table["part"]))]
    label = "mean intersection over union against the expert"
    return Result(table, bars(wide, label, figsize=(9, 1.2 + 0.5 * len(wide))))


def scored(yard: Yard, part: str, kind: str, runs: Runs, make: Callable[[], oc.TextureMapper]) -> dict[str, Any]:
    """Return the mean scores of one variation."""
    tasks = chain.from_iterable(runs)
    scores = [against_expert(yard, label(yard, task, fresh(part, 0, yard.quick, {part: make})))[-1] for task in tasks]
    mean = pd.DataFrame(scores).drop(columns="inline").mean()
    return {"part": part, "supervision": kind, **mean.filter(regex="^(MIU|IU )").to_dict()}
