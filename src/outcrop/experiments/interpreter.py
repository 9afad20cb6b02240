"""Effect of corrections: a simulated interpreter corrects wrong labels of one line, stroke after stroke.

For each stroke the interpreter finds the largest connected region in which one true class has wrong labels, and paints
around its innermost point with the true class; painted pixels are not painted again. After each stroke the labels of
the whole line are scored, including painted pixels; after the last stroke the labels of a line without strokes are
scored too.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.ndimage import distance_transform_edt, label

import outcrop as oc
from outcrop.experiments import Data, Result
from outcrop.experiments.expert import Names, add_exemplars, check_choices
from outcrop.experiments.f3 import BELOW_CAPTION, Places, eye_exemplars
from outcrop.job.choosing import choose_options
from outcrop.job.labelling import label_view
from outcrop.job.options import IndexOptions
from outcrop.job.strokes import covered
from outcrop.volumes.axes import position_of

STROKES, QUICK_STROKES = 30, 3
SHOWN = (0, 5, 10, 20, 30)  # numbers of strokes after which the score is a column of the table
AIMS = (0.80, 0.85)  # values of mean IU to reach
SHAPE, QUICK_SHAPE = (120, 200, 256), (60, 160, 200)
F3_LINES = ((330, 310), (310, 330))  # painted line, and line without strokes
SYNTHETIC = (1, 2, 3)  # seeds of the synthetic volumes; the demo volume has seed 0
AWAY = 30  # distance in lines between the painted line and the line without strokes
JITTER, WRONG = 4.0, 0.05  # careless interpreter: standard deviation in pixels, share of strokes with a wrong class
REACH = 4  # pixels around a stroke in which wrong labels should become right
Painted = np.ndarray | None  # codes of the strokes on the painted line; None for the other line


class Setting(NamedTuple):
    """A test case: a survey with true labels, initial exemplars, the line that is painted and a line without strokes.

    The labels of both lines are scored.
    """

    name: str
    volume: xr.DataArray
    truth: xr.DataArray
    places: Places
    line: int
    other: int
    options: dict[str, Any]  # options of the index


class Stroke(NamedTuple):
    """One stroke: code of its class, positions of its points on the line, and its radius."""

    code: int
    spots: list[Any]  # trace and sample of each point
    radius: float


class Start(NamedTuple):
    """The start of a test case: a job labelled before the first stroke, and the true labels in the codes of the job."""

    setting: Setting
    job: oc.Job
    truth: np.ndarray  # codes of the painted line
    other_truth: np.ndarray  # codes of the line without strokes
    stores: dict[int, Any]  # the mapper's votes on both lines before any stroke


def run(
    data: Data, *, quick: bool = False, seeds: int | None = None, only: Names = None, methods: Names = None
) -> Result:
    """Simulate strokes on one line of each test case with each method, and score the labels.

    `only` restricts the run to the named test cases, `methods` to names in `METHODS`; None means all. `seeds` is the
    number of seeds with which each test case is repeated: by default 3, or 1 in a quick run. A quick run takes ten
    seconds, a full run about two hours on two cores.
    """
    chosen = check_choices(methods, METHODS)
    if not any(METHODS[method][0] for method in chosen):
        raise ValueError(f"Methods are {', '.join(chosen)}, which draw no strokes; add the method 'strokes'.")
    rows, curves = [], []
    for setting in settings(data, quick=quick, only=only):
        for seed in range(seeds or (1 if quick else 3)):
            with opened(setting, seed, quick) as start:
                drawn: list[Stroke] = []
                for method in chosen:
                    n_strokes = QUICK_STROKES if quick else STROKES
                    curve, row, made = paint(start, method, n_strokes, seed, drawn)
                    drawn = drawn or made
                    about = {"setting": setting.name, "method": method}
                    rows.append(about | row)
                    curves.append(about | {"curve": curve})
    table = pd.DataFrame(rows).groupby(["setting", "method"], sort=False).mean().reset_index()
    return Result(table, draw(curves))


def settings(data: Data, *, quick: bool, only: Names) -> Iterator[Setting]:
    """Yield the test cases named in `only`; by default two lines of F3, the demo volume and three synthetic volumes.

    A quick run has only the demo volume.
    """
    real = {} if quick else {f"F3 {line}": (line, other) for line, other in F3_LINES}
    made = {"demo": 0} | ({} if quick else {f"synthetic {number}": number for number in SYNTHETIC})
    for name in check_choices(only, [*real, *made]):
        if name in real:
            line, other = real[name]
            sections, truth = oc.datasets.f3_sections(data)
            sections = sections.sel(time=slice(BELOW_CAPTION, None)).load()
            yield Setting(name, sections, truth, eye_exemplars(other), line, other, {})
        else:
            size, least = (48, 0.2) if quick else (64, 0.6)
            volume, truth = oc.datasets.synthetic(QUICK_SHAPE if quick else SHAPE, seed=made[name])
            inlines = volume["inline"].values.tolist()
            middle = len(inlines) // 2
            places = oc.datasets.exemplars(truth, size, min_share=least, seed=made[name])
            other = inlines[max(0, middle - AWAY)]
            yield Setting(name, volume, truth, places, inlines[middle], other, {"size": size, "every": 4})


@contextmanager
def opened(setting: Setting, seed: int, quick: bool) -> Iterator[Start]:
    """Yield the `Start` of a test case: a job in a temporary folder, labelled from the initial exemplars."""
    with (
        tempfile.TemporaryDirectory() as folder,
        oc.Job(Path(folder) / "job.outcrop", volume=setting.volume) as job,
    ):
        choose_options(job, index=IndexOptions(**setting.options))
        add_exemplars(job, setting.places)
        job.label([setting.line, setting.other], seed=seed)
        codes = np.array([0, *(job.classes.get(name, 0) for name in setting.truth.attrs["classes"])], np.uint8)
        truth = setting.truth.sel(inline=[setting.line, setting.other], time=setting.volume["time"])
        painted, other = codes[truth.values]
        yield Start(setting, job, painted, other, label_view(job, job.plan)[0].stores)


def paint(
    start: Start, method: str, n_strokes: int, seed: int, drawn: Sequence[Stroke] = ()
) -> tuple[list[float], dict[str, float], list[Stroke]]:
    """Paint stroke after stroke with one method, and return (mean IU of the line, row of the table, strokes).

    The mean IU is a list: before the first stroke and after each stroke. A method that makes no strokes of its own
    repeats the strokes in `drawn`. The strokes are undone afterwards.
    """
    make, labels_of, careless = METHODS[method]
    rng = np.random.default_rng(seed)
    job, truth, line = start.job, start.truth, start.setting.line
    names = {code: name for name, code in job.classes.items()}
    known = truth > 0
    painted = np.zeros(truth.shape, np.uint8)
    labels = labels_of(start, painted)
    first, other = known & (labels != truth), mean_iu(labels_of(start, None), start.other_truth)
    curve, waits, broken, near, corrected = [mean_iu(labels, truth)], [], [], 0, 0
    made: list[Stroke] = []
    for number in range(n_strokes if make else min(n_strokes, len(drawn))):
        if make:
            region, code = largest_error(labels, truth, painted > 0)
            if region is None:
                break
            stroke = make(region, code)
            stroke = noisy(stroke, rng, sorted(names)) if careless else stroke
        else:
            stroke, code = drawn[number], drawn[number].code
        made.append(stroke)
        mask = covered(truth.shape, stroke.spots, stroke.radius)
        painted[mask] = stroke.code
        begin, before = time.perf_counter(), labels
        job.paint(names[stroke.code], places_on(job, line, stroke.spots), radius=stroke.radius)
        labels = labels_of(start, painted)
        waits.append(time.perf_counter() - begin)
        right = known & (before == truth) & (painted == 0)
        broken.append((right & (labels != truth)).sum() / max(right.sum(), 1))
        if names[code] == "fault":
            close = (distance_transform_edt(~mask) <= REACH) & (painted == 0) & (truth == code) & (before != code)
            near, corrected = near + close.sum(), corrected + (close & (labels == code)).sum()
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
    row |= {"fault corrected nearby": corrected / near if near else np.nan, "median wait": np.median(waits or [0])}
    return curve, row, made


def mean_iu(labels: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean IU over the classes of the truth, or 0 if the line has no labels."""
    return oc.pixel_scores(labels, truth)["MIU"] if (labels > 0).any() else 0.0


def strokes_to(curve: list[float], aim: float) -> float:
    """Return the number of strokes after which the mean IU in `curve` first reaches `aim`; NaN if it never does.

    Examples
    --------
    >>> strokes_to([0.7, 0.79, 0.81], 0.8), strokes_to([0.7], 0.8)
    (2.0, nan)
    """
    reached = np.flatnonzero(np.asarray(curve) >= aim)
    return float(reached[0]) if len(reached) else float("nan")


def places_on(job: oc.Job, line: int, spots: list[Any]) -> list[tuple[float, float, float]]:
    """Convert (trace, sample) positions on a line to (inline, crossline, time)."""
    traces, samples = job.axes[1:]
    return [
        (line, traces[min(round(trace), len(traces) - 1)].item(), samples[min(round(sample), len(samples) - 1)].item())
        for trace, sample in spots
    ]


def largest_error(labels: np.ndarray, truth: np.ndarray, painted: np.ndarray) -> tuple[np.ndarray | None, int]:
    """Return a mask of the largest connected, wrongly labelled region of one true class, and the code of the class.

    Painted pixels are left out. If all other pixels are right, the mask is None.
    """
    best: tuple[int, np.ndarray | None, int] = (0, None, 0)
    for code in np.unique(truth[truth > 0]):
        regions, _ = label((labels != truth) & (truth == code) & ~painted)
        sizes = np.bincount(regions.ravel())
        sizes[0] = 0
        if sizes.max() > best[0]:
            best = (sizes.max(), regions == sizes.argmax(), int(code))
    return best[1:]


def depths(region: np.ndarray) -> np.ndarray:
    """Return, for every pixel of a region, the distance in pixels to the edge of the region or of the section."""
    return np.asarray(distance_transform_edt(np.pad(region, 1)))[1:-1, 1:-1]


def disc(region: np.ndarray, code: int) -> Stroke:
    """Return a stroke that is a disc at the innermost point of a region.

    The radius is 0.8 times the distance to the edge of the region, but at least 3 and at most 10 pixels.
    """
    depth = depths(region)
    spot = np.unravel_index(depth.argmax(), depth.shape)
    return Stroke(code, [tuple(map(int, spot))], float(np.clip(0.8 * depth.max(), 3, 10)))


def line_along(region: np.ndarray, code: int, longest: int = 30) -> Stroke:
    """Return a straight stroke through the innermost point of a region, along the region and inside it.

    Its ends are at most `longest` pixels from this point.
    """
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


def noisy(stroke: Stroke, rng: np.random.Generator, codes: list[int]) -> Stroke:
    """Return the stroke of a careless interpreter: displaced by a few pixels, sometimes with a wrong class.

    `codes` are the codes of all classes.
    """
    off = rng.normal(0, JITTER, 2)
    code = stroke.code
    if rng.random() < WRONG:
        code = int(rng.choice([other for other in codes if other != code]))
    return Stroke(code, [tuple(np.maximum(np.round(spot + off), 0)) for spot in stroke.spots], stroke.radius)


# ---- methods: labels (n_traces, n_samples) of the painted line, or of the other line if `painted` is None -----------


def learnt(start: Start, painted: Painted) -> np.ndarray:
    """Return the labels that the job makes of a line after its mapper has learnt from the strokes."""
    line = _line(start, painted)
    return start.job.label([line], seed=_seed(start))["label"].sel(inline=line).values


def paint_only(start: Start, painted: Painted) -> np.ndarray:
    """Return the labels of a line before any stroke, with the painted class at painted samples."""
    found = label_view(start.job, start.job.plan)[0]._replace(stores=start.stores)
    return np.asarray(found.section(position_of(start.job.axes[0], _line(start, painted)))[0])


def _line(start: Start, painted: Painted) -> int:
    return start.setting.other if painted is None else start.setting.line


def _seed(start: Start) -> int:
    return start.job.plan.label.seed


Make = Callable[[np.ndarray, int], Stroke] | None
# name -> function that makes a stroke (None: repeat strokes of another method), function that labels, careless or not
METHODS: dict[str, tuple[Make, Callable[[Start, Painted], np.ndarray], bool]] = {
    "strokes": (disc, learnt, False),
    "strokes, lines": (line_along, learnt, False),
    "strokes, careless": (disc, learnt, True),
    "paint only": (None, paint_only, False),
}


def draw(curves: list[dict[str, Any]]) -> Any:
    """Draw mean IU, averaged over the seeds, against the number of strokes, with a panel for each test case."""
    table = pd.DataFrame(curves)
    names = list(dict.fromkeys(table["setting"]))
    figure = oc.plots.new_figure(figsize=(4.2 * min(3, len(names)), 3.4 * -(-len(names) // 3)), layout="constrained")
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
