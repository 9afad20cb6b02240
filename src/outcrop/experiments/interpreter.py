"""What corrections teach: a simulated interpreter paints one line where it is wrong, stroke after stroke.

Before each stroke the interpreter looks at the labels of the line, takes the largest connected region in which they are
wrong and of one true class, and paints at its innermost point with that class, never twice on the same pixel. After
each stroke the labels of the whole line are scored as the interpreter sees them, and in the end a line nobody painted.
"""

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.ndimage import distance_transform_edt, label
from sklearn.ensemble import RandomForestClassifier

from outcrop import datasets, plots
from outcrop.evaluate.pixels import pixel_scores
from outcrop.experiments import Result
from outcrop.experiments.expert import BELOW_CAPTION, small_mappers
from outcrop.experiments.retrieval import eye_exemplars
from outcrop.job.core import Job
from outcrop.job.corrections import cell_means
from outcrop.job.fitting import base_mapper
from outcrop.job.labelling import label_view
from outcrop.job.options import IndexOptions
from outcrop.job.sections import filled_section, marked_sections
from outcrop.job.strokes import covered
from outcrop.labels.decision import decide
from outcrop.mapping.pixels import upsample

STROKES, QUICK_STROKES = 30, 3
SHOWN = (0, 5, 10, 20, 30)  # strokes after which the score stands in the table
AIMS = (0.80, 0.85)  # mean IU
SHAPE, QUICK_SHAPE = (120, 200, 256), (60, 160, 200)
F3_LINES = ((330, 310), (310, 330))  # painted, and not painted
SYNTHETIC = (1, 2, 3)  # seeds of the volumes besides the demo's, which is 0
AWAY = 30  # lines from the painted one to the one that nobody paints: farther than a stroke spreads
JITTER, WRONG = 4.0, 0.05  # of a careless interpreter: pixels off, and share of strokes with a wrong class
REACH = 4  # pixels around a stroke within which it should mend what is wrong
TREES = 100


class Setting(NamedTuple):
    """A survey with truth, exemplars to start from, the line that is painted and the one that is not."""

    name: str
    volume: Any  # DataArrays
    truth: Any
    places: dict
    line: int
    other: int
    options: dict  # of the index


class Stroke(NamedTuple):
    """One stroke: class by its code in the truth, positions of its points on the line, and its radius."""

    code: int
    spots: list
    radius: float


def run(data, *, quick=False, seeds=None, strokes=None, only=None, methods=None):
    """Paint every line of every setting, or of those in `only`, by every method, or by some of them.

    Ten seconds if quick; in full about two hours on two cores.
    """
    seeds, strokes = seeds or (1 if quick else 3), strokes or (QUICK_STROKES if quick else STROKES)
    methods = check_choices(methods, METHODS, "method")
    if not any(METHODS[method][0] for method in methods):
        raise ValueError(f"Methods are {', '.join(methods)}, which draw no strokes; choose both as well.")
    real = [] if quick else [f"F3 {line}" for line, _ in F3_LINES]
    made = ["demo"] if quick else ["demo", *(f"synthetic {number}" for number in SYNTHETIC)]
    only = check_choices(only, [*real, *made], "line")
    rows, curves = [], []
    for setting in settings(data, quick=quick, only=only):
        for seed in range(seeds):
            with opened(setting, seed, quick) as start:
                drawn: list = []
                for method in methods:
                    curve, row, made = paint(start, method, strokes, seed, drawn)
                    drawn = drawn or made
                    about = {"setting": setting.name, "method": method, "seed": seed}
                    rows.append(about | row)
                    curves.append(about | {"curve": curve})
    table = pd.DataFrame(rows).drop(columns="seed").groupby(["setting", "method"], sort=False).mean().reset_index()
    remark = (
        "The paper has no interpreter in the loop. Both: a stroke spreads over its line by a random walker and updates "
        "the regression; local and global are its halves. On the strokes of both, paint only changes what is painted; "
        "the random forest learns from the strokes alone, on the same features."
    )
    return Result(table, draw(curves), remark)


def check_choices(chosen, known, what):
    """Names that were chosen, in the order in which they are known; all of them where nothing was.

    Examples
    --------
    >>> check_choices(["global", "both"], ["both", "local", "global"], "method")
    ['both', 'global']
    """
    for name in chosen or ():
        if name not in known:
            raise ValueError(f"There is no {what} {name!r}; choose one of {', '.join(known)}.")
    return [name for name in known if not chosen or name in chosen]


def settings(data, *, quick, only):
    """Those in `only` of both lines of F3 with an expert's labels, the demo's volume and three more synthetic ones."""
    for line, other in () if quick else F3_LINES:
        if f"F3 {line}" in only:
            sections, truth = datasets.f3_sections(data)
            sections = sections.sel(time=slice(BELOW_CAPTION, None)).load()
            yield Setting(f"F3 {line}", sections, truth, eye_exemplars(other), line, other, {})
    for number in (0,) if quick else (0, *SYNTHETIC):
        name = "demo" if number == 0 else f"synthetic {number}"
        if name in only:
            yield synthetic(name, number, QUICK_SHAPE if quick else SHAPE, 48 if quick else 64)


def synthetic(name, number, shape, size):
    """A synthetic volume, its middle line to be painted."""
    volume, truth = datasets.synthetic(shape, seed=number)
    inlines = volume["inline"].values
    middle = len(inlines) // 2
    other = inlines[max(0, middle - AWAY)].item()
    places = datasets.exemplars(truth, size, min_share=0.2 if shape == QUICK_SHAPE else 0.6, seed=number)
    return Setting(name, volume, truth, places, inlines[middle].item(), other, {"size": size, "every": 4})


class Start(NamedTuple):
    """A job on a setting, labelled before anything is painted, and the truth in the codes of the job."""

    setting: Setting
    job: Job
    truth: np.ndarray  # of the painted line
    other_truth: np.ndarray
    stores: dict  # votes of both lines by the mapper that has seen no stroke


@contextmanager
def opened(setting, seed, quick):
    """A `Start` whose job goes away with it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        small_mappers(quick),
        Job(Path(folder) / "job.outcrop", volume=setting.volume) as job,
    ):
        job.choose(index=IndexOptions(**setting.options))
        for name, places in setting.places.items():
            for place in places:
                job.add_exemplar(name, place)
        job.label([setting.line, setting.other], seed=seed)
        names = setting.truth.attrs["classes"]
        codes = np.array([0, *(job.classes.get(name, 0) for name in names)], np.uint8)
        truth = codes[setting.truth.sel(inline=[setting.line, setting.other], time=setting.volume["time"]).values]
        yield Start(setting, job, truth[0], truth[1], label_view(job, job.plan)[0].stores)


def paint(start, method, n_strokes, seed, drawn=()):
    """Paint stroke after stroke; mean IU of the line after each, a row of the table, and the strokes.

    Baselines get the strokes that were `drawn` before.
    """
    make, labels_of, careless = METHODS[method]
    rng = np.random.default_rng(seed)
    job, truth, line = start.job, start.truth, start.setting.line
    known = truth > 0
    painted = np.zeros(truth.shape, np.uint8)
    labels = labels_of(start, painted)
    first, other = known & (labels != truth), mean_iu(labels_of(start, None), start.other_truth)
    curve, waits, broken, near, mended, made = [mean_iu(labels, truth)], [], [], 0, 0, []
    for number in range(n_strokes if make else min(n_strokes, len(drawn))):
        if make:
            region, code = largest_error(labels, truth, painted > 0)
            if region is None:
                break
            stroke = make(region, code)
            stroke = noisy(stroke, rng, sorted(job.classes.values())) if careless else stroke
        else:
            stroke, code = drawn[number], drawn[number].code
        made.append(stroke)
        mask = covered(truth.shape, stroke.spots, stroke.radius)
        painted[mask] = stroke.code
        begin, before = time.perf_counter(), labels
        job.paint(class_of(job, stroke.code), places_on(job, line, stroke.spots), radius=stroke.radius)
        labels = labels_of(start, painted)
        waits.append(time.perf_counter() - begin)
        right = known & (before == truth) & (painted == 0)
        broken.append((right & (labels != truth)).sum() / max(right.sum(), 1))
        if class_of(job, code) == "fault":
            close = (distance_transform_edt(~mask) <= REACH) & (painted == 0) & (truth == code) & (before != code)
            near, mended = near + close.sum(), mended + (close & (labels == code)).sum()
        curve.append(mean_iu(labels, truth))
    curve += [curve[-1]] * (n_strokes + 1 - len(curve))
    left = (known & (labels != truth) & (painted == 0)).sum() / max(first.sum(), 1)
    after = mean_iu(labels_of(start, None), start.other_truth)
    for _ in waits:
        job.undo()
    row = {f"MIU after {n}": curve[n] for n in sorted({*SHOWN, n_strokes}) if n <= n_strokes}
    row |= {"area": float(np.mean(curve))}
    row |= {f"strokes to {aim:.2f}": strokes_to(curve, aim) for aim in AIMS}
    row |= {"error left outside": left, "other line before": other, "other line after": after}
    row |= {"broken in a round, mean": np.mean(broken or [0]), "broken in a round, most": np.max(broken or [0])}
    row |= {"fault mended nearby": mended / near if near else np.nan, "median wait": np.median(waits or [0])}
    return curve, row, made


def mean_iu(labels, truth):
    """Mean IU over the classes of the truth; a line without labels has 0."""
    if not (labels > 0).any():
        return 0.0
    return pixel_scores(labels, np.where(truth > 0, truth, 0))["MIU"]


def strokes_to(curve, aim):
    """Strokes until a curve reaches an aim for the first time, NaN where it never does.

    Examples
    --------
    >>> strokes_to([0.7, 0.79, 0.81], 0.8), strokes_to([0.7], 0.8)
    (2.0, nan)
    """
    reached = np.flatnonzero(np.asarray(curve) >= aim)
    return float(reached[0]) if len(reached) else float("nan")


def class_of(job, code):
    """Name of the class of a code."""
    return next(name for name, number in job.classes.items() if number == code)


def places_on(job, line, spots):
    """Positions on a line as survey labels."""
    traces, samples = job.axes[1:]
    return [
        (line, traces[min(round(trace), len(traces) - 1)].item(), samples[min(round(sample), len(samples) - 1)].item())
        for trace, sample in spots
    ]


def largest_error(labels, truth, painted):
    """Largest connected region of one true class in which labels are wrong and nothing is painted, and its code."""
    best = (0, None, 0)
    for code in np.unique(truth[truth > 0]):
        regions, _ = label((labels != truth) & (truth == code) & ~painted)
        sizes = np.bincount(regions.ravel())
        sizes[0] = 0
        if sizes.max() > best[0]:
            best = (sizes.max(), regions == sizes.argmax(), int(code))
    return best[1:]


def depths(region):
    """Distance of every pixel of a region to its edge; the edge of the section counts too."""
    return distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]


def disc(region, code):
    """A disc at the innermost point: radius .8 of the distance to the edge, 3 to 10 pixels."""
    depth = depths(region)
    spot = np.unravel_index(depth.argmax(), depth.shape)
    return Stroke(code, [tuple(map(int, spot))], float(np.clip(0.8 * depth.max(), 3, 10)))


def line_along(region, code, longest=30):
    """A straight line through the innermost point along the region, as far as its width fits."""
    depth = depths(region)
    spot = np.array(np.unravel_index(depth.argmax(), depth.shape))
    radius = float(np.clip(0.4 * depth.max(), 1.5, 4))
    pixels = np.argwhere(region) - spot
    pixels = pixels[np.abs(pixels).max(axis=1) <= longest]
    axis = np.linalg.eigh(pixels.T @ pixels)[1][:, -1]
    ends = []
    for way in (axis, -axis):
        steps = np.round(spot + np.arange(longest + 1)[:, None] * way).astype(int)
        fits = ((steps >= 0) & (steps < region.shape)).all(axis=1)
        fits[fits] = depth[tuple(steps[fits].T)] > radius
        last = int(np.argmin(fits)) - 1 if not fits.all() else longest
        ends.append(tuple(steps[max(last, 0)].tolist()))
    return Stroke(code, ends, radius)


def noisy(stroke, rng, codes):
    """A stroke by a careless interpreter: some pixels off, sometimes of another class."""
    off = rng.normal(0, JITTER, 2)
    code = stroke.code
    if rng.random() < WRONG:
        code = int(rng.choice([other for other in codes if other != code]))
    return Stroke(code, [tuple(np.maximum(np.round(spot + off), 0)) for spot in stroke.spots], stroke.radius)


# ---- methods: labels of the painted line (n_traces, n_samples), or of the other one where nothing is given -----------


def both(start, painted):
    """Labels as the product gives them: the regression updated, and the strokes spread."""
    line = _line(start, painted)
    return start.job.label([line], seed=_seed(start))["label"].sel(inline=line).values


def spread_only(start, painted):
    """Votes of the mapper without strokes, and the strokes spread."""
    found = label_view(start.job, start.job.plan)[0]._replace(stores=start.stores)
    return found.section(_position(start, _line(start, painted)))[0]


def update_only(start, painted):
    """The regression updated, and nothing spread."""
    line = _line(start, painted)
    start.job.label([line], seed=_seed(start))
    return _unspread(start, label_view(start.job, start.job.plan)[0].stores, line, painted)


def paint_only(start, painted):
    """Votes of the mapper without strokes, and what is painted."""
    return _unspread(start, start.stores, _line(start, painted), painted)


def _line(start, painted):
    return start.setting.other if painted is None else start.setting.line


def _position(start, line):
    return int(np.flatnonzero(start.job.axes[0] == line)[0])


def _seed(start):
    return start.job.plan.label.seed


def _unspread(start, stores, line, painted):
    """Labels by the votes of a line as they are kept, under what is painted."""
    position, table = _position(start, line), start.job.plan.codes
    store = stores[position]
    codes = np.array([0, *(table[name] for name in store.classes)], np.uint8)
    labels = codes[decide(store.read(position))[0]]
    return labels if painted is None else np.where(painted > 0, painted, labels)


def forest(start, painted):
    """A random forest on the features of the nodes that are painted; nothing before two classes are."""
    job, plan, position = start.job, start.job.plan, _position(start, start.setting.line)
    mapper, line = base_mapper(job, plan), _line(start, painted)
    strokes = marked_sections(job, plan)[0].get((0, position), np.zeros(start.truth.shape, np.uint8))
    shares = np.stack([cell_means(strokes == code) for code in range(1, 1 + max(start.job.classes.values()))])
    rows = np.argwhere(shares.any(axis=0))
    codes = shares[:, rows[:, 0], rows[:, 1]].argmax(axis=0) + 1
    if len(np.unique(codes)) < 2:
        return np.zeros(start.truth.shape, np.uint8) if painted is None else painted
    nodes = mapper.nodes(filled_section(job, plan, 0, position))[0].swapaxes(0, 1)
    trees = RandomForestClassifier(TREES, random_state=_seed(start), n_jobs=-1)
    trees.fit(nodes[rows[:, 0], rows[:, 1]], codes)
    nodes = mapper.nodes(filled_section(job, plan, 0, _position(start, line)))[0].swapaxes(0, 1)
    votes = trees.predict_proba(nodes.reshape(-1, nodes.shape[-1])).reshape(1, *nodes.shape[:2], -1)
    labels = trees.classes_[upsample(votes, strokes.shape)[0].argmax(axis=-1)].astype(np.uint8)
    return labels if painted is None else np.where(painted > 0, painted, labels)


METHODS: dict = {  # name -> shape of a stroke (None: those of the first), labels, whether the interpreter is careless
    "both": (disc, both, False),
    "local": (disc, spread_only, False),
    "global": (disc, update_only, False),
    "both, lines": (line_along, both, False),
    "both, careless": (disc, both, True),
    "paint only": (None, paint_only, False),
    "random forest": (None, forest, False),
}


def draw(curves):
    """Mean IU by the number of strokes, mean over the seeds, a panel for each setting."""
    table = pd.DataFrame(curves)
    names = list(dict.fromkeys(table["setting"]))
    figure = plots.new_figure(figsize=(4.2 * min(3, len(names)), 3.4 * -(-len(names) // 3)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(-(-len(names) // 3), min(3, len(names)), sharey=True)).ravel()
    for ax, name in zip(axes, names, strict=False):
        for method, some in table[table["setting"] == name].groupby("method", sort=False):
            ax.plot(np.mean(np.stack(some["curve"].to_list()), axis=0), label=method)
        ax.set_title(name, loc="left")
        ax.set(xlabel="strokes", ylim=(0, 1))
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    axes[0].set_ylabel("mean IU of the painted line")
    axes[0].legend(fontsize="x-small", loc="lower right")
    return figure
