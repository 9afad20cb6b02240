"""Scores of the labels of every mapper against an expert's labels of F3 sections, with two kinds of supervision.

With the supervision ``patches``, mappers learn from the 2000 patches of the paper, each with one class. With
``exemplars``, they learn from at most two positions per class on one line, in a job with default options, as users
work. Expert labels are used for scoring only.
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import clone

import outcrop as oc
from outcrop.evaluate.calibration import calibration_error
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.drawing import bars
from outcrop.experiments.evolution import on_device, training_set
from outcrop.experiments.f3 import BELOW_CAPTION, Places, eye_exemplars
from outcrop.experiments.references import flat, references
from outcrop.job.choosing import choose_options
from outcrop.job.options import IndexOptions
from outcrop.mapping.confidence import labelled
from outcrop.mapping.registry import POINTS
from outcrop.parallel import Progress
from outcrop.volumes.neighbours import NEAR, USUAL

SUPERVISIONS = ("patches", "exemplars")
# smallest distance from a training patch to the scored line with stricter supervision, in lines of F3 (25 m apart)
APART = int(NEAR // USUAL)
DRAWS = 5
EXEMPLAR_LINES = (310, 330)
QUICK = {"atoms_per_class": 4, "iterations": 5}
NAMES = [POINTS, *oc.MAPPERS]


class Task(NamedTuple):
    """Patches with their classes, from which a mapper learns, and the lines on which its labels are scored."""

    patches: np.ndarray
    classes: np.ndarray
    lines: list[int]


class JobTask(NamedTuple):
    """Exemplars, from which a job learns, and the lines on which its labels are scored."""

    places: Places
    lines: list[int]


Runs = Sequence[Sequence[Task]]
Names = str | Sequence[str] | None


def run(
    data: Data,
    *,
    mappings: Names = None,
    supervision: Names = None,
    seeds: int = 1,
    quick: bool = False,
    device: Device = None,
) -> Result:
    """Score mappers against the expert's labels with each kind of supervision, and add reference scores.

    A full run also scores mappers that learn from patches far from the scored line, or from random exemplars.
    `mappings` and `supervision` restrict the run to the given names; None means all. Each mapper is fitted with as many
    seeds as `seeds` states.
    """
    chosen = check_choices(supervision, SUPERVISIONS)
    kinds = [kind for kind in (SUPERVISIONS if quick else RUNS) if kind.split(",")[0] in chosen]
    with opened(data, quick) as survey:
        found = {kind: score(survey, kind, mappings=mappings, seeds=seeds, device=device) for kind in kinds}
        drawn = [found.pop(kind) for kind in kinds if "draw" in kind]
        table = pd.concat([*found.values(), *draws(drawn), references(survey)], ignore_index=True)
        table["data"] = f"inlines {', '.join(map(str, survey.lines))}"
    return Result(table, draw(table))


def rows(data: Data, *, quick: bool = False, **options: Any) -> list[dict[str, Any]]:
    """Score mappers on every expert-labelled line, and on all these lines together.

    Parameters
    ----------
    data : path or None
        Folder of the F3 sections, expert labels and SEG 2017 patches; None for OUTCROP_DATA.
    quick : bool
        Use small sizes, to check that everything runs.
    **options
        Options of `score`, and ``supervision``: ``"patches"``, ``"exemplars"`` or both, the default.

    Returns
    -------
    list of dict
        Keys: ``mapper``, ``supervision``, ``inline`` (a number or ``all``), ``PA``, ``MA``, ``MIU``, ``FWIU``, ``IU``
        (a dict by class name), ``coverage``, ``calibration_error``, ``seconds``, and with several seeds ``MIU_sd``.
    """
    kinds = check_choices(options.pop("supervision", None), SUPERVISIONS)
    with opened(data, quick) as survey:
        table = pd.concat([score(survey, kind, **options) for kind in kinds])
    out = []
    for row in table.to_dict("records"):
        plain: dict[str, Any] = {"IU": {}}
        for key, value in row.items():
            missing = isinstance(value, float) and np.isnan(value)
            if not key.startswith("IU "):
                plain[key] = None if missing else value
            elif not missing:
                plain["IU"][key.removeprefix("IU ")] = value
        out.append(plain)
    return out


def check_choices(chosen: Names, known: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Return the chosen names in the order of the known names; raise a ValueError for an unknown name.

    If `chosen` is None or empty, return all known names.

    Examples
    --------
    >>> check_choices(["global", "both"], ["both", "local", "global"])
    ['both', 'global']
    """
    names = [chosen] if isinstance(chosen, str) else list(chosen or known)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is unknown; choose from {', '.join(known)}.")
    return [name for name in known if name in names]


@contextmanager
def opened(data: Data, quick: bool) -> Iterator["F3Data"]:
    """Yield the sections and training data as `F3Data`; its jobs are in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield F3Data(data, folder, quick=quick)


class F3Data:
    """F3 sections with expert labels, and the patches and exemplars that mappers learn from."""

    def __init__(self, data: Data, folder: str, *, quick: bool):
        self.sections, self.truth = oc.datasets.f3_sections(data)
        if not self.truth.sizes["inline"]:
            raise ValueError(f"{data} has no expert labels; add GT211.mat or another label file to the F3 sections.")
        self.dataset, _ = training_set(data, per_class=10 if quick else None)
        self.lines: list[int] = self.truth["inline"].values.tolist()
        self.clean = self.sections.sel(time=slice(BELOW_CAPTION, None))
        self.grid = oc.PatchGrid(self.clean, size=99, step=66 if quick else 11)
        self.folder, self.quick = Path(folder), quick

    def patches(self, apart: int | None = None) -> list[list[Task]]:
        """Return a list with one run: a list of tasks, in which mappers learn from the paper's patches.

        If `apart` is None, a single task has all patches and all scored lines. Otherwise each scored line has a task
        with the patches that are at least `apart` lines away from it.
        """
        image, weak = self.dataset["image"].values, self.dataset["weak"].values
        if apart is None:
            return [[Task(image, weak, self.lines)]]
        far = [np.abs(self.inlines() - line) >= apart for line in self.lines]
        return [[Task(image[keep], weak[keep], [line]) for keep, line in zip(far, self.lines, strict=True)]]

    def inlines(self) -> np.ndarray:
        """Return the inline number of every patch of the paper."""
        if "inline" not in self.dataset.coords:
            raise ValueError("The patches have no positions; name a folder with seg2017_patches.npz.")
        return self.dataset["inline"].values.astype(int)

    def jobs(self, seed: int | None = None) -> list[list[JobTask]]:
        """Return a list of runs, one for each line in `EXEMPLAR_LINES`; each run is a list with one task.

        A job learns from exemplars on this line, and its labels are scored on the other expert lines. If `seed` is
        None, the exemplars are those chosen by eye, else they are drawn at random with this seed. A line is left out if
        no other line has expert labels. It is also left out if exemplars are drawn and it has no expert labels.
        """
        runs = []
        for line in EXEMPLAR_LINES:
            others = [other for other in self.lines if other != line]
            if others and (seed is None or line in self.lines):
                places = eye_exemplars(line)
                runs.append([JobTask(places if seed is None else self.drawn(line, places, seed), others)])
        return runs

    def drawn(self, line: int, places: Places, seed: int) -> Places:
        """Return random exemplars on a line that show their class, as many for each class as in `places`."""
        found = oc.datasets.exemplars(self.truth.sel(inline=[line]), 99, count=2, min_share=0.2, seed=seed)
        return {name: found[name][: len(some)] for name, some in places.items()}


RUNS: dict[str, Callable[[F3Data], Sequence[Sequence[Task | JobTask]]]] = {
    "patches": F3Data.patches,
    "exemplars": F3Data.jobs,
    f"patches, {APART} lines apart": partial(F3Data.patches, apart=APART),
    **{f"exemplars, draw {seed}": partial(F3Data.jobs, seed=seed) for seed in range(DRAWS)},
}


def score(
    survey: F3Data,
    kind: str,
    *,
    mappings: Names = None,
    seeds: int = 1,
    device: Device = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return the scores of mappers with one kind of supervision, a row for each mapper and line.

    A further row for each mapper scores all lines together. A kind of supervision has one or more runs; the lines of
    all tasks of a run are scored together.

    Parameters
    ----------
    survey : F3Data
    kind : str
        A name in `RUNS`.
    mappings : sequence of str, optional
        ``"points"`` and names in `outcrop.MAPPERS`; by default all. ``"points"`` learns from exemplars only.
    seeds : int
        Number of seeds with which each mapper is fitted; scores are means over runs and seeds.
    device : str, optional
        A torch device.
    progress : callable, optional
        Called as ``progress(what, done, total)`` after every fit; ``done`` counts fitted mappers, ``total`` is 0.
    """
    out, count = [], 0
    for name in check_choices(mappings, NAMES):
        if name == POINTS and "patches" in kind:
            continue
        for seed in range(seeds):
            for number, tasks in enumerate(RUNS[kind](survey)):
                found: list[xr.Dataset] = []
                for task in tasks:
                    if isinstance(task, JobTask):
                        found += label_by_job(survey, task, name, seed, device)
                    else:
                        found += label(survey, task, fresh(name, seed, survey.quick), device)
                    count += 1
                    if progress:
                        progress(f"labels of {name}", count, 0)
                about = {"mapper": name, "supervision": kind, "seed": seed, "run": number}
                out += [about | row for row in against_expert(survey, found)]
    return means(pd.DataFrame(out), several=seeds > 1)


def fresh(name: str, seed: int, quick: bool) -> Any:
    """Return a new mapper with the given name and seed; if `quick` is True, with few atoms and iterations."""
    mapper = oc.MAPPERS[name]()
    options = {"random_state": seed, **(QUICK if quick else {})}
    return mapper.set_params(**{key: value for key, value in options.items() if key in mapper.get_params()})


def label(survey: F3Data, task: Task, mapper: Any, device: Device = None) -> list[xr.Dataset]:
    """Fit a mapper to a task, and return the labels of each line of the task.

    The attribute ``seconds`` of the labels is the time of the fit plus the time of labelling the line. The attribute
    ``share`` is the same sum, with the time of the fit divided by the number of lines.
    """
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Class .* has .* patches, fewer than")
        mapper.fit(on_device(task.patches, device), task.classes)
    fitted, out = time.perf_counter() - begin, []
    for line in task.lines:
        begin = time.perf_counter()
        section = survey.clean.sel(inline=[line])
        grid = oc.PatchGrid(section, size=99, step=survey.grid.step)
        labels = oc.label_volume(section, grid, mapper, device=device)
        labelled_in = time.perf_counter() - begin
        out.append(labels.assign_attrs(seconds=fitted + labelled_in, share=fitted / len(task.lines) + labelled_in))
    return out


def label_by_job(survey: F3Data, task: JobTask, name: str, seed: int, device: Device) -> list[xr.Dataset]:
    """Return the labels that a job with default options and the mapping `name` makes for each line of a task."""
    begin = time.perf_counter()
    folder, options = survey.folder / "default.outcrop", {"mapping": name, "device": device}
    labels = job_labels(survey.clean, task.places, folder, lines=task.lines, seed=seed, quick=survey.quick, **options)
    seconds = time.perf_counter() - begin
    labels = labels.assign_attrs(seconds=seconds, share=seconds / len(task.lines))
    return [labels.sel(inline=[line]) for line in task.lines]


def job_labels(
    volume: xr.DataArray, places: Places, folder: Path, *, quick: bool, lines: list[int] | None = None, **options: Any
) -> xr.Dataset:
    """Return the labels that a job makes from exemplars; the exemplars are removed from the job afterwards.

    `places` is a dict: class -> positions of its exemplars. `lines` are the inlines to label, by default all. `options`
    are those of `Job.label`.
    """
    with oc.Job(folder, volume=volume) as job, small_mappers(quick):
        if quick:
            choose_options(job, index=IndexOptions(step=66))
        add_exemplars(job, places)
        labels: xr.Dataset = job.label(lines, **options).load()
        for one in job.plan.state.exemplars:
            job.remove_exemplar(one.id)
    return labels


def add_exemplars(job: oc.Job, places: Places) -> None:
    """Add the exemplars in `places` (class -> positions) to a job."""
    for name, some in places.items():
        for place in some:
            job.add_exemplar(name, place)


def small_mappers(quick: bool) -> AbstractContextManager[Any]:
    """Return a context manager that replaces all mappers in `outcrop.MAPPERS` by small ones if `quick` is True.

    Small mappers have few atoms and iterations.
    """
    small = {name: partial(clone, fresh(name, 0, quick)) for name in oc.MAPPERS} if quick else {}
    return mock.patch.dict(oc.MAPPERS, small)


def against_expert(survey: F3Data, found: list[xr.Dataset]) -> list[dict[str, Any]]:
    """Return the scores of labels against the expert's labels, for each line and for all lines together."""
    together = xr.concat(found, "inline", combine_attrs="override")
    seconds = sum(labels.attrs["share"] for labels in found)  # a fit that is used for two lines counts once
    each = [(labels["inline"].item(), labels) for labels in found]
    out = []
    for name, labels in (*each, ("all", together.assign_attrs(seconds=seconds))):
        truth = survey.truth.sel(inline=labels["inline"], time=labels["time"])
        scores = oc.pixel_scores(labels["label"].assign_attrs(classes=labels.attrs["classes"]), truth)
        sure, right = answers(survey, labels)
        error = calibration_error(sure, right) if len(sure) else np.nan
        out.append({"inline": name} | flat(scores) | {"calibration_error": error, "seconds": labels.attrs["seconds"]})
    return out


def answers(survey: F3Data, labels: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return (confidence, whether the label is right), for all pixels that both mapper and expert labelled."""
    truth = survey.truth.sel(inline=labels["inline"], time=labels["time"])
    known = labelled(labels["label"].values) & labelled(truth.values)
    found, true = (np.array(["", *one.attrs["classes"]]) for one in (labels, truth))
    right = found[labels["label"].values[known]] == true[truth.values[known]]
    return labels["confidence"].values[known] / 255, right


def means(table: pd.DataFrame, *, several: bool) -> pd.DataFrame:
    """Return scores averaged over runs, then over seeds.

    If `several` is True, the column ``MIU_sd`` is the standard deviation of the mean IU over the seeds.
    """
    keys = ["mapper", "supervision", "inline"]
    by_seed = table.groupby([*keys, "seed"], sort=False).mean().drop(columns="run").reset_index("seed", drop=True)
    out = by_seed.groupby(keys, sort=False).mean()
    if several:
        out["MIU_sd"] = by_seed.groupby(keys, sort=False)["MIU"].std()
    order = sorted(out.index, key=lambda row: (NAMES.index(row[0]), row[2] == "all", row[2]))
    return out.loc[order].reset_index()


def draws(tables: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return two tables of scores: each mapper's mean over random draws of exemplars, and each mapper's worst draw.

    `tables` holds one table of scores for each draw; without tables, an empty list is returned. ``MIU_sd`` is the
    standard deviation of mean IU over the draws.
    """
    if not tables:
        return []
    scores = pd.concat([table[table["inline"] == "all"].set_index("mapper") for table in tables])
    scores, name = scores.drop(columns=["supervision", "inline"]), f"of {len(tables)} draws"
    mean = scores.groupby("mapper", sort=False).mean().assign(MIU_sd=scores.groupby("mapper")["MIU"].std())
    worst = scores.sort_values("MIU").groupby("mapper").head(1).loc[mean.index]
    return [
        part.reset_index().assign(supervision=f"exemplars, {what} {name}", inline="all")
        for what, part in (("mean", mean), ("worst", worst))
    ]


def draw(table: pd.DataFrame) -> Any:
    """Draw the mean IU over all lines of each mapper and reference, with a colour for each kind of supervision."""
    scores = table[table["inline"] == "all"]
    kinds = scores["supervision"]
    names = scores["mapper"].where(kinds == "reference", scores["mapper"] + ": " + kinds)
    palette = {kind: f"C{i}" for i, kind in enumerate(dict.fromkeys(kinds))} | {"reference": "lightgrey"}
    words = "mean intersection over union against the expert, all lines"
    values = scores[["MIU"]].set_index(names)
    return bars(values, words, figsize=(9, 1 + 0.27 * len(scores)), color=kinds.map(palette))
