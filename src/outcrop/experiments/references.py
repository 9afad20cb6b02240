"""Reference scores for the experiment `expert`: scores of labels made without a mapper, as lower and upper bounds."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import fft, ndimage

import outcrop as oc
from outcrop.experiments.comparison import expert_patches
from outcrop.patches.windows import add_windows

if TYPE_CHECKING:
    from outcrop.experiments.expert import F3Data

SCORES = ("PA", "MA", "MIU", "FWIU", "coverage")
Labelled = tuple[str, xr.DataArray, xr.DataArray]  # name of the reference, labels, truth


def flat(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores of `pixel_scores` as a flat dict, with the key ``IU CLASS`` for the IU of each class."""
    return {key: scores[key] for key in SCORES} | {f"IU {name}": value for name, value in scores["IU"].items()}


def references(survey: "F3Data") -> pd.DataFrame:
    """Return a table with the scores of labels that are made without a mapper.

    The labels come from the paper's patches, from position alone, or from the expert's labels of another line.
    """
    found = []
    for name, labels, true in [*on_patches(survey), *on_sections(survey)]:
        found.append({"mapper": name, "inline": "all"} | flat(oc.pixel_scores(labels, true)))
    if len(survey.lines) > 1:
        found += between_lines(survey)
    return pd.DataFrame(found).assign(supervision="reference")


def on_patches(survey: "F3Data") -> Iterator[Labelled]:
    """Yield (name, labels, truth) of the patches on an expert's line, then of the patches within five lines of one.

    The labels are the authors' released labels, or the class of the patch at all of its pixels.
    """
    names = survey.dataset.attrs["classes"]
    for reach, where in ((0, "on the expert's lines"), (5, "within 5 lines")):
        rows, truth = expert_patches(survey.dataset, survey.truth, reach=reach)
        if len(rows):
            weak = np.array([names.index(name) + 1 for name in survey.dataset["weak"].values[rows]])
            painted = np.broadcast_to(weak[:, None, None], truth.shape)
            published = survey.dataset["published"].values[rows]
            for what, codes in (("authors' labels", published), ("painted whole", painted)):
                labels = truth.copy(data=codes).assign_attrs(classes=names)
                yield f"{what}, patches {where}", labels, truth


def on_sections(survey: "F3Data") -> Iterator[Labelled]:
    """Yield (name, labels, truth) of the sections with expert labels, for two kinds of labels.

    First, all labels are `other`; then the label at each position is the most frequent class of the paper's patches
    that cover this position on any line.
    """
    truth, names = survey.truth, survey.truth.attrs["classes"]
    yield "all other", truth.copy(data=np.full(truth.shape, names.index("other") + 1)), truth
    if "crossline" in survey.dataset.coords:
        total = np.zeros((*truth.shape[1:], len(names)), np.float32)
        weak = np.array([names.index(name) for name in survey.dataset["weak"].values])
        starts = np.column_stack([survey.dataset["crossline"].values - 300, survey.dataset["sample"].values - 20])
        size, counts = survey.dataset["image"].shape[1:], np.zeros(truth.shape[1:], np.float32)
        for code in range(len(names)):
            of_class = starts[weak == code]
            add_windows(total[..., code], counts, np.ones((len(of_class), *size)), of_class)
        total[..., names.index("other")] += 1e-6  # `other` where no patch lies
        yield "position prior", truth.copy(data=np.broadcast_to(total.argmax(axis=-1) + 1, truth.shape)), truth


def between_lines(survey: "F3Data") -> list[dict[str, Any]]:
    """Predict each expert line from the expert's labels of the nearest other line in three ways; return the scores.

    These labels are copied, replaced by their most frequent class at each time, or used to train boosted trees. The
    scores are rows for each line, and a row ``all`` with their mean.
    """
    ways: dict[str, Callable[..., np.ndarray]] = {
        "majority class per row of the nearest line": row_majority,
        "expert labels of the nearest line": lambda _, truth, __: truth.values,
        "boosted trees trained on the nearest line": partial(trees, quick=survey.quick),
    }
    out = []
    for name, way in ways.items():
        rows = []
        for line in survey.lines:
            nearest = min(set(survey.lines) - {line}, key=lambda other: abs(other - line))
            learnt, scored = (survey.sections.sel(inline=one).values for one in (nearest, line))
            truth = survey.truth.sel(inline=line)
            labels = truth.copy(data=way(learnt, survey.truth.sel(inline=nearest), scored))
            rows.append({"inline": line} | flat(oc.pixel_scores(labels, truth)))
        mean = pd.DataFrame(rows).drop(columns="inline").mean().to_dict()
        out += [{"mapper": name} | row for row in [*rows, {"inline": "all"} | mean]]
    return out


def row_majority(_: np.ndarray, truth: xr.DataArray, __: np.ndarray) -> np.ndarray:
    """Return labels that give all pixels at one time the class that is most frequent in `truth` at this time."""
    counts = [(truth.values == code).sum(axis=0) for code in range(1, len(truth.attrs["classes"]) + 1)]
    return np.broadcast_to(np.argmax(counts, axis=0) + 1, truth.shape)


def trees(learnt: np.ndarray, truth: xr.DataArray, scored: np.ndarray, *, quick: bool) -> np.ndarray:
    """Train boosted trees on the section `learnt`, and return the labels that they predict on the section `scored`.

    The features are position and Gabor energies; `truth` holds the expert's labels of the section `learnt`.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    known = np.argwhere(truth.values > 0)
    known = known[np.random.default_rng(0).choice(len(known), 1000 if quick else 40_000, replace=False)]
    few: dict[str, Any] = {"periods": (8,), "directions": 2, "widths": (9,)} if quick else {}
    a, b = gabor_energies(learnt, **few), gabor_energies(scored, **few)
    model = HistGradientBoostingClassifier(max_iter=5 if quick else 100, random_state=0)
    model.fit(a[tuple(known.T)], truth.values[tuple(known.T)])
    labels = np.zeros(truth.shape, np.uint8)
    expert = truth.values > 0
    labels[expert] = model.predict(b[expert])
    return labels


def gabor_energies(
    section: np.ndarray, *, periods: Sequence[int] = (4, 8, 16, 32), directions: int = 8, widths: Sequence[int] = (4, 9)
) -> np.ndarray:
    """Return features of every sample: its position, and local energies by wavelength and direction (Gabor energies).

    `periods` are wavelengths and `widths` the widths of the smoothing, both in samples and traces.

    Returns
    -------
    features : float32 array, shape (n_traces, n_samples, 2 + periods * directions * widths)
    """
    margin = max(periods)
    spectrum = fft.fft2(np.pad(section - 0.5, margin, mode="reflect"))
    across, down = fft.fftfreq(spectrum.shape[0])[:, None], fft.fftfreq(spectrum.shape[1])
    features = [*np.indices(section.shape)]
    inside = (slice(margin, -margin), slice(margin, -margin))
    for period in periods:
        for angle in np.pi * np.arange(directions) / directions:
            distance = (across - np.sin(angle) / period) ** 2 + (down - np.cos(angle) / period) ** 2
            energy = np.abs(fft.ifft2(spectrum * np.exp(-distance / (2 * (0.35 / period) ** 2))))
            features += [ndimage.gaussian_filter(energy, width)[inside] for width in widths]
    return np.stack(features, axis=-1).astype(np.float32)
