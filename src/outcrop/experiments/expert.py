"""The yardstick: every mapper's labels of whole F3 sections against the expert's, from two kinds of supervision.

``patches`` are the 2000 patches of the paper with their image labels. ``exemplars`` are at most two places a class on
one line, given to an `oc.Job` with default options: what it labels is what a user gets. Expert labels are used for
scoring only.
"""

import tempfile
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from outcrop import datasets, plots
from outcrop.evaluate.calibration import calibration_error
from outcrop.evaluate.pixels import pixel_scores
from outcrop.experiments import Result
from outcrop.experiments.evolution import training_set
from outcrop.experiments.references import flat, references
from outcrop.experiments.retrieval import eye_exemplars
from outcrop.job.core import Job
from outcrop.job.options import IndexOptions
from outcrop.labels.volume import label_volume
from outcrop.mapping.confidence import labelled
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.registry import MAPPERS
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import build_index
from outcrop.retrieval.ranking import retrieve

SUPERVISIONS = ("patches", "exemplars")
APART = 10  # lines between a training patch and the scored line in the stricter kind of supervision
DRAWS = 5
EXEMPLAR_LINES = (310, 330)
BELOW_CAPTION = 212.0  # ms; a caption is burnt into the pictures above
QUICK = {"atoms_per_class": 4, "iterations": 5, "members": 1, "patches_per_class": 3, "n_features": 50, "steps": 2}


class Task(NamedTuple):
    """Something to learn from, and the lines to score what was learnt on."""

    patches: np.ndarray | list
    classes: np.ndarray
    lines: list
    weights: np.ndarray | None = None
    masks: np.ndarray | None = None


class JobTask(NamedTuple):
    """Exemplars to give to a job, and the lines to score what it labels on."""

    places: dict
    lines: list


def run(data, *, quick=False, device=None, mappings=None, supervision=None, seeds=1):
    """Score all mappers, the same under stricter conditions, and references that any mapper should beat or cannot."""
    asked = {"mappings": mappings, "seeds": seeds, "device": device}
    with opened(data, quick) as yard:
        kinds = [kind for kind in RUNS if kind.split(",")[0] in _asked(supervision, SUPERVISIONS)]
        kinds = [kind for kind in kinds if kind in SUPERVISIONS or not quick]
        found = [score(yard, kind, **asked) for kind in kinds]
        drawn = [table for kind, table in zip(kinds, found, strict=True) if "draw" in kind]
        found = [table for kind, table in zip(kinds, found, strict=True) if "draw" not in kind]
        table = pd.concat([*found, *draws(drawn), references(yard)], ignore_index=True)
        table["data"] = f"inlines {', '.join(map(str, yard.lines))}"
    remark = (
        "The paper scores no pixel against an expert; here its labels lose to painting each patch whole with its image "
        "label, and one line's expert labels copied to the next, 20 lines on, reach .755: that is about the ceiling."
    )
    return Result(table, draw(table), remark)


def rows(data, *, mappings=None, supervision=None, seeds=1, quick=False, device=None, progress=None):
    """Score mappers on every expert-labelled line and on all of them together.

    Parameters
    ----------
    data : path or None
        Folder of the F3 sections, expert labels and SEG 2017 patches; None for OUTCROP_DATA.
    mappings : sequence of str, optional
        Names from `outcrop.MAPPERS`; all by default.
    supervision : str or sequence of str, optional
        ``patches``, ``exemplars``; both by default.
    seeds : int
        Scores are means over so many seeds of the mapper.
    quick : bool
        Small sizes, to see that everything runs.
    device : str, optional
        A torch device.
    progress : callable, optional
        Called with the number of mappers fitted so far.

    Returns
    -------
    list of dict
        ``mapper``, ``supervision``, ``inline`` (a number or ``all``), ``PA``, ``MA``, ``MIU``, ``FWIU``, ``IU`` by
        class name, ``coverage``, ``calibration_error``, ``seconds``, and with several seeds ``MIU_sd``.
    """
    asked = {"mappings": mappings, "seeds": seeds, "device": device, "progress": progress}
    with opened(data, quick) as yard:
        table = pd.concat([score(yard, kind, **asked) for kind in _asked(supervision, SUPERVISIONS)])
    return [_nested(row) for row in table.to_dict("records")]


def _asked(names, known):
    """The names that were asked for, all by default, refused where unknown."""
    names = [names] if isinstance(names, str) else list(names or known)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is unknown; choose from {', '.join(known)}.")
    return names


def _nested(row):
    """A row of the table as JSON wants it: IU by class in a dict, no NaN."""
    plain = {key: None if isinstance(v, float) and np.isnan(v) else v for key, v in row.items()}
    iu = {key.removeprefix("IU "): plain.pop(key) for key in row if key.startswith("IU ")}
    plain["IU"] = {name: value for name, value in iu.items() if value is not None}
    return plain


@contextmanager
def opened(data, quick):
    """A `Yard` whose index lives in a folder that goes away with it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Yard(data, folder, quick=quick)


class Yard:
    """Sections, expert labels, and what mappers may learn from."""

    def __init__(self, data, folder, *, quick):
        self.sections, self.truth = datasets.f3_sections(data)
        if not self.truth.sizes["inline"]:
            raise ValueError(f"{data} holds no expert labels; add GT211.mat or another of them to the F3 sections.")
        self.dataset, _ = training_set(data, per_class=10 if quick else None)
        self.lines = self.truth["inline"].values.tolist()
        self.clean = self.sections.sel(time=slice(BELOW_CAPTION, None))
        self.grid = PatchGrid(self.clean, size=99, step=66 if quick else 11)
        self.folder, self.quick = Path(folder), quick

    def patches(self, apart=None):
        """Patches of the paper; with `apart`, for every line only those at least so many lines away."""
        image, weak = self.dataset["image"].values, self.dataset["weak"].values
        if apart is None:
            return [[Task(image, weak, self.lines)]]
        if "inline" not in self.dataset.coords:
            raise ValueError("The data do not say where the patches lie; name a folder with seg2017_patches.npz.")
        away = [np.abs(self.dataset["inline"].values - line) >= apart for line in self.lines]
        return [[Task(image[keep], weak[keep], [line]) for keep, line in zip(away, self.lines, strict=True)]]

    def jobs(self, seed=None):
        """Exemplars of one line, to be scored on the others; those chosen by eye, or a random draw."""
        runs = []
        for line in EXEMPLAR_LINES:
            others = [other for other in self.lines if other != line]
            if others and (seed is None or line in self.lines):
                places = eye_exemplars(line)
                runs.append([JobTask(places if seed is None else self.drawn(line, places, seed), others)])
        return runs

    def exemplars(self, **cleaning):
        """Patches that the exemplars chosen by eye retrieve, for experiments that change what is done with them."""
        return [[self.retrieved(*task, **cleaning) for task in tasks] for tasks in self.jobs()]

    def drawn(self, line, places, seed):
        """As many random exemplars a class as were chosen by eye, each of which shows its class to an expert."""
        found = datasets.exemplars(self.truth.sel(inline=[line]), 99, count=2, min_share=0.2, seed=seed)
        return {name: found[name][: len(some)] for name, some in places.items()}

    def retrieved(self, places, lines, *, weighted=False, painted=False, sizes=None):
        """Patches that exemplars retrieve with default options; weighted by certainty where asked.

        With `painted` the expert says what their pixels are, but not on the lines to be scored: a reference.
        A class in `sizes` has patches of that size, cut and compared separately.
        """
        parts = []
        for size in dict.fromkeys([99, *(sizes or {}).values()]):
            grid = PatchGrid(self.clean, size=size, step=self.grid.step)
            index = build_index(self.clean, grid, self.folder / f"{size}.outcrop")
            weak = retrieve(index, places)
            of_size = [(sizes or {}).get(name, 99) == size for name in weak.classes]
            parts.append((grid.extract(self.clean, weak.rows[of_size]), weak.classes[of_size], weak.weights[of_size]))
        patches, classes, weights = map(list, zip(*parts, strict=True))
        stacked = patches if sizes else patches[0]
        masks = self.painted(grid.places(weak.rows), weak.classes, lines) if painted else None
        return Task(stacked, np.concatenate(classes), lines, np.concatenate(weights) if weighted else None, masks)

    def painted(self, starts, classes, lines):
        """The expert's labels in patches of one size, as masks for a mapper; some lines are left out."""
        names = list(dict.fromkeys(classes))
        codes = np.array([0, *(names.index(name) + 1 for name in self.truth.attrs["classes"])], np.uint8)
        expert = self.truth.drop_sel(inline=lines).reindex_like(self.clean, fill_value=0)
        (height, width), expert = self.grid.size, codes[expert.values]
        return np.stack([expert[line, i : i + width, j : j + height].T for _, line, i, j in starts])


STRICTER = {
    f"patches, {APART} lines apart": partial(Yard.patches, apart=APART),
    **{f"exemplars, draw {seed}": partial(Yard.jobs, seed=seed) for seed in range(DRAWS)},
}
RUNS: dict = {"patches": Yard.patches, "exemplars": Yard.jobs, **STRICTER}


def score(yard, kind, *, mappings=None, seeds=1, device=None, progress=None):
    """Scores of mappers under one kind of supervision, flat: one row per mapper and line, and one for all lines.

    A kind of supervision is one or more runs, each a list of tasks whose lines are scored together; rows are means over
    runs and seeds.
    """
    runs, out, count = RUNS[kind](yard), [], 0
    for name in _asked(mappings, list(MAPPERS)):
        for seed in range(seeds):
            for number, tasks in enumerate(runs):
                found = []
                for task in tasks:
                    if isinstance(task, JobTask):
                        found += label_by_job(yard, task, name, seed, device)
                    else:
                        found += label(yard, task, fresh(name, seed, yard.quick), device)
                    count += 1
                    if progress:
                        progress(count)
                about = {"mapper": name, "supervision": kind, "seed": seed, "run": number}
                out += [about | row for row in against_expert(yard, found)]
    return means(pd.DataFrame(out), several=seeds > 1)


def fresh(name, seed, quick, mappers=MAPPERS):
    """A mapper by name with a seed, small where only its running matters."""
    mapper = mappers[name]()
    options = {"random_state": seed, **(QUICK if quick else {})}
    return mapper.set_params(**{key: value for key, value in options.items() if key in mapper.get_params()})


def label(yard, task, mapper, device):
    """Fit on a task and label its lines: one Dataset per line, with the seconds of the fit and of the line."""
    begin = time.perf_counter()
    patches = task.patches
    device = device if isinstance(mapper, LabelMapper) else None  # the others choose their own
    if device is not None:
        import torch

        patches = torch.from_numpy(patches).to(device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Class .* has .* patches, fewer than")  # the knee decides
        more = {key: value for key in ("weights", "masks") if (value := getattr(task, key)) is not None}
        mapper.fit(patches, task.classes, **more)
    fitted, out = time.perf_counter() - begin, []
    for line in task.lines:
        begin = time.perf_counter()
        section = yard.clean.sel(inline=[line])
        grid = PatchGrid(section, size=99, step=yard.grid.step)
        labels = label_volume(section, grid, mapper, device=device)
        labelled_in = time.perf_counter() - begin
        out.append(labels.assign_attrs(seconds=fitted + labelled_in, share=fitted / len(task.lines) + labelled_in))
    return out


def label_by_job(yard, task, name, seed, device):
    """Label the lines of a task by a job with default options, from nothing but the exemplars; as `label`."""
    begin, out = time.perf_counter(), []
    with Job(yard.folder / "default.outcrop", volume=yard.clean) as job, small_mappers(yard.quick):
        if yard.quick:
            job.choose(index=IndexOptions(step=66))
        for kind, places in task.places.items():
            for place in places:
                job.add_exemplar(kind, place)
        labels = job.label(task.lines, mapping=name, seed=seed, device=device).load()
        for one in job.plan.state.exemplars:
            job.remove_exemplar(one.id)
    seconds = time.perf_counter() - begin
    for line in task.lines:
        share = seconds / len(task.lines)
        out.append(labels.sel(inline=[line]).assign_attrs(seconds=seconds, share=share))
    return out


@contextmanager
def small_mappers(quick):
    """Small mappers under the names of all, where only their running matters."""
    before = dict(MAPPERS)
    if quick:
        MAPPERS.update({name: partial(fresh, name, 0, quick, before) for name in before})
    try:
        yield
    finally:
        MAPPERS.update(before)


def against_expert(yard, found):
    """Scores of some labelled lines, each alone and all together."""
    out = [{"inline": labels["inline"].item(), **_scores(yard, labels)} for labels in found]
    together = xr.concat(found, "inline", combine_attrs="override")
    seconds = sum(labels.attrs["share"] for labels in found)  # a fit that served two lines counts once
    return [*out, {"inline": "all", **_scores(yard, together.assign_attrs(seconds=seconds))}]


def _scores(yard, labels):
    truth = yard.truth.sel(inline=labels["inline"], time=labels["time"])
    codes = labels["label"].assign_attrs(classes=labels.attrs["classes"])
    found = pixel_scores(codes, truth)
    names = np.array(["", *codes.attrs["classes"]]), np.array(["", *truth.attrs["classes"]])
    known = labelled(codes.values) & labelled(truth.values)
    right = names[0][codes.values[known]] == names[1][truth.values[known]]
    sure = labels["confidence"].values[known] / 255
    error = calibration_error(sure, right) if known.any() else np.nan
    return flat(found) | {"calibration_error": error, "seconds": labels.attrs["seconds"]}


def means(table, *, several):
    """Means over runs and then over seeds, with the spread of MIU over the seeds."""
    keys = ["mapper", "supervision", "inline"]
    by_seed = table.groupby([*keys, "seed"], sort=False).mean().drop(columns="run").reset_index("seed", drop=True)
    out = by_seed.groupby(keys, sort=False).mean()
    if several:
        out["MIU_sd"] = by_seed.groupby(keys, sort=False)["MIU"].std()
    order = sorted(out.index, key=lambda row: (list(MAPPERS).index(row[0]), row[2] == "all", row[2]))
    return out.loc[order].reset_index()


def draws(tables):
    """Mean over the random draws of exemplars, with the spread of MIU, and the worst of them."""
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


def draw(table):
    """Mean IU over all lines, mapper by mapper and reference by reference."""
    scores = table[table["inline"] == "all"].reset_index(drop=True)
    kinds = list(dict.fromkeys(scores["supervision"]))
    ax = plots.new_axes(figsize=(9, 1 + 0.27 * len(scores)))
    palette = {kind: "lightgrey" if kind == "reference" else f"C{i}" for i, kind in enumerate(kinds)}
    names = [
        row["mapper"] if row["supervision"] == "reference" else f"{row['mapper']}: {row['supervision']}"
        for _, row in scores.iterrows()
    ]
    drawn = ax.barh(np.arange(len(scores)), scores["MIU"], color=[palette[kind] for kind in scores["supervision"]])
    ax.bar_label(drawn, fmt="%.3f", padding=3, fontsize=8)
    ax.set_yticks(np.arange(len(scores)), names, fontsize=8)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="mean intersection over union against the expert, all lines")
    return ax.figure
