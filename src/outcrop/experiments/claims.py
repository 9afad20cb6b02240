"""The paper's claims one by one: whether each claim holds on the available data, with the number that decides it.

Some of these numbers are read from the tables of other experiments in the output folder; run these experiments first,
as ``outcrop reproduce all`` does. The other numbers are computed here.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop.arrays import to_numpy
from outcrop.experiments import Data, Device, Result
from outcrop.experiments.evolution import shares, training_set
from outcrop.experiments.robustness import relative_performance
from outcrop.experiments.table1 import Patches, matrix, patch_sets
from outcrop.mapping.confidence import label, median_filter
from outcrop.mapping.factorisation import factorise
from outcrop.mapping.label_mapper import class_scores
from outcrop.mapping.sparsity import sparsity
from outcrop.measures.registry import PAPER

OPEN = "not tested"


def run(data: Data, *, quick: bool = False, device: Device = None, folder: Data = None) -> Result:
    """Return a table with one row per claim, and a figure of it.

    `folder` is the output folder with the tables of other experiments. If it is None, claims that need these tables are
    not tested.
    """
    tables = measured(folder, quick) if folder else {}
    sizes = {"per_class": 10 if quick else 100, "atoms": 4 if quick else 50, "iterations": 5 if quick else 200}
    rows = [
        *retrieval_claims(data, quick, device),
        *mapping_claims(tables, gpu_seconds(folder)),
        *choice_claims(data, device, **sizes),
        reach(data, quick, **sizes),
    ]
    table = pd.DataFrame(rows, columns=["claim", "held", "number", "what the number is"])
    return Result(table, draw(table))


def measured(folder: str | Path, quick: bool) -> dict[str, pd.DataFrame]:
    """Return a dict: name of an experiment -> its table, for each experiment with output files in a folder.

    If `quick` is True, only tables of quick runs are returned, else only tables of full runs.
    """
    facts = {path: path.with_suffix(".json") for path in sorted(Path(folder).glob("*.csv"))}
    return {
        table.stem: pd.read_csv(table)
        for table, about in facts.items()
        if about.is_file() and json.loads(about.read_text(encoding="utf-8"))["quick"] == quick
    }


def verdict(claim: str, held: bool, number: float, what: str) -> dict[str, Any]:
    """Return one claim as a row of the table of claims.

    `number` is the measured value; if it is NaN, the claim was not tested. `what` states in words what the number is,
    and which values confirm the claim.
    """
    answer = ("yes" if held else "no") if np.isfinite(number) else OPEN
    return {"claim": claim, "held": answer, "number": float(number), "what the number is": what}


def landmass(data: Data, quick: bool) -> tuple[str, Patches] | None:
    """Return (name, patches) of LANDMASS-2, or of LANDMASS-1 if LANDMASS-2 is missing; None if both are missing."""
    sets = patch_sets(data, quick)[0]
    names = [name for name in sets if name.startswith("LANDMASS") and "own range" not in name]
    return (max(names), sets[max(names)]) if names else None


def retrieval_claims(data: Data, quick: bool, device: Device) -> Iterator[dict[str, Any]]:
    """Yield a row for each claim about the retrieval of one class; these claims are tested on LANDMASS."""
    lowest = gap = np.nan
    found = landmass(data, quick)
    if found:
        name, patches = found
        scores = oc.retrieval_scores(matrix(data, name, "curvelet-svd", quick, device).similarity, patches.classes)
        most = int((patches.classes == "horizon").sum()) - 1
        lowest = scores["precision_by_class"]["horizon"][:most].min() if most > 0 else np.nan
        others = [value for key, value in scores["RA_by_class"].items() if key != "fault"]
        gap = scores["RA_by_class"].get("fault", np.nan) - min(others)
    what = "lowest precision at any M up to the size of the class, on LANDMASS; held if 1"
    yield verdict("Horizons are retrieved without error", lowest == 1, lowest, what)
    what = "retrieval accuracy of faults minus the lowest of the other classes, on LANDMASS; held if negative"
    yield verdict("Faults are the hardest class", gap < 0, gap, what)


def mapping_claims(tables: dict[str, pd.DataFrame], gpu: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each claim that is tested with the results of other experiments.

    `tables` is a dict: name of an experiment -> its table. `gpu` is the time in s of one fit on a GPU.
    """

    def number(experiment: str, measure: Callable[[pd.DataFrame], float]) -> float:
        return measure(tables[experiment]) if experiment in tables else np.nan

    lead = number("table1", smallest_lead)
    what = "smallest lead of curvelet-svd over the best other measure in RA, MAP, AUC and Rand index; held if positive"
    yield verdict("The paper's measure is best on all four scores", lead > 0, lead, what)
    for axis, words in (("k", "more atoms per class"), ("sparsity", "sparser atoms")):
        gain = number(f"robustness-{axis}", partial(robustness_gain, axis=axis))
        what = (
            f"relative performance at the largest minus at the smallest {axis}, mean over shares of wrong labels; "
            "held if above .01"
        )
        yield verdict(f"Labels are more robust with {words}", gain > 0.01, gain, what)
    rises = number("convergence", lambda table: table[table["variant"] == "paper"]["rises"].max())
    what = "iterations in which F rose; held if 0"
    yield verdict("The two update rules lower the overall objective", rises == 0, rises, what)
    yield verdict("200 iterations take about 4 s on a GPU", gpu <= 4, gpu, "seconds of one fit of 2000 patches, k 250")
    unsure = number("evolution", lambda table: table[table["iteration"] == 1]["uncertain"].min())
    what = "share of uncertain pixels after one iteration, lowest of the classes; held if above .99"
    yield verdict("Every pixel is uncertain after the first iteration", unsure > 0.99, unsure, what)
    noise = number("comparison", lambda table: difference(table, "foreign", "full", "NMF"))
    what = "share of certainly wrong labels, full minus plain factorisation; held if negative"
    yield verdict("The full formulation is less noisy than plain factorisation", noise < 0, noise, what)
    band = number("comparison", lambda table: difference(table, "band", "sparse", "full"))
    what = (
        "wrong labels in the middle third of the rows divided by wrong labels in all rows, sparse minus full; held if "
        "above .1: without orthogonality wrong labels gather in a band"
    )
    yield verdict("Bands of wrong labels without orthogonality, none with it", band > 0.1, band, what)
    gain = number("expert", gain_over_painting)
    what = "mean IU of the authors' released labels minus mean IU if each patch is painted whole; held if positive"
    yield verdict("Pixel labels show where the structures are", gain > 0, gain, what)


def gpu_seconds(folder: Data) -> float:
    """Return the time in s of one fit on a GPU; NaN if it is not known.

    It is read from ``robustness.json`` in the folder, which ``benchmarks/robustness.py`` writes.
    """
    path = Path(folder or ".") / "robustness.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return float(found.get("fit seconds", np.nan)) if found.get("device", "cpu") != "cpu" else np.nan


def smallest_lead(table: pd.DataFrame) -> float:
    """Return the smallest lead of the paper's measure over the best other measure among the four scores.

    Only the data set with the most images counts.
    """
    largest = table.loc[table["images"].idxmax(), "data"]
    rows = table[(table["data"] == largest) & table["measure"].isin(PAPER)].set_index("measure")
    scores = rows[["RA", "MAP", "AUC row", "RI"]]
    return float((scores.loc["curvelet-svd"] - scores.drop(index="curvelet-svd").max()).min())


def robustness_gain(table: pd.DataFrame, axis: str) -> float:
    """Return how much higher the mean relative performance is at the largest value of a parameter than at the smallest.

    `axis` is the column of the parameter. For relative performance, see `robustness.relative_performance`.
    """
    mean = table[table["wrong labels"] > 0].groupby(axis)["relative performance"].mean()
    return float(mean.loc[mean.index.max()] - mean.loc[mean.index.min()])


def difference(table: pd.DataFrame, column: str, more: str, less: str) -> float:
    """Return how much larger the mean of a column over all classes is for formulation `more` than for `less`.

    A formulation is a variant of the factorisation; see `outcrop.experiments.comparison`.
    """
    mean = table.groupby("formulation", sort=False)[column].mean()
    return float(mean[more] - mean[less])


def gain_over_painting(table: pd.DataFrame) -> float:
    """Return the mean IU of the authors' released labels minus the mean IU of patches painted whole.

    In a patch painted whole, every pixel has the class of the patch. Both are scored on patches that lie on the
    expert's lines; the result is NaN if they are not scored.
    """
    scores = table[table["inline"] == "all"].set_index("mapper")["MIU"]
    where = "patches on the expert's lines"
    return float(scores.get(f"authors' labels, {where}", np.nan) - scores.get(f"painted whole, {where}", np.nan))


def choice_claims(
    data: Data, device: Device, *, per_class: int, atoms: int, iterations: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each claim that an option of the mapping, such as its sparsity, matters.

    An option matters if changing it changes more labels than another seed does. The last row is that of
    `kept_sparsity`.
    """
    dataset, patches = training_set(data, per_class=per_class, device=device)
    classes = dataset["weak"].values

    def labels(**options: Any) -> np.ndarray:
        mapper = oc.LabelMapper(atoms, iterations=iterations, **options)
        return np.asarray(to_numpy(mapper.fit_predict(patches, classes)))

    base, everywhere = labels(), np.ones(len(classes), bool)
    floor = relative_performance(labels(random_state=1), base, everywhere)
    choices = [
        ("the sparsity rho_w", "rho_w .8", labels(sparsity=0.8)),
        ("the orthogonality gamma", "gamma 0", labels(orthogonality=0.0)),
        ("the penalties lambda", "lambda 0", labels(atom_penalty=0.0, coefficient_penalty=0.0)),
        ("the initial atoms W0", "random atoms", random_start(patches, classes, atoms, iterations)),
    ]
    for choice, change, found in choices:
        same = relative_performance(found, base, everywhere)
        what = f"share of labels unchanged with {change}; held if lower than with another seed ({floor:.2f})"
        yield verdict(f"The choice of {choice} matters", same < floor - 0.01, same, what)
    yield kept_sparsity(patches, classes, atoms, iterations)


def random_start(patches: Any, classes: np.ndarray, atoms: int, iterations: int) -> np.ndarray:
    """Return labels of a factorisation that starts from random atoms instead of k-means centres."""
    patches = to_numpy(patches)
    names, n_pixels = list(dict.fromkeys(classes)), patches[0].size
    rng = np.random.default_rng(0)
    W = rng.random((n_pixels, atoms * len(names)), dtype=np.float32)
    H = rng.random((W.shape[1], len(patches)), dtype=np.float32)
    *_, (W, H, _) = islice(factorise(patches.reshape(len(patches), -1).T, W, H), iterations + 1)
    owners = np.repeat(np.arange(len(names)), atoms)
    evidence = class_scores(W.T.reshape(-1, *patches.shape[1:]), H.T, owners)
    return np.asarray(label(evidence, smooth=median_filter))


def kept_sparsity(patches: Any, classes: np.ndarray, atoms: int, iterations: int) -> dict[str, Any]:
    """Return the row of the claim that the atoms keep their initial sparsity."""
    mapper = oc.LabelMapper(atoms, iterations=iterations).fit(patches, classes)
    end = sparsity(to_numpy(mapper.atoms_).reshape(len(mapper.atoms_), -1))
    drift = float(np.abs(end - mapper.sparsity).max())
    what = "largest change of an atom's Hoyer sparsity over the iterations; held if below .01 (zeros stay zeros)"
    return verdict("The sparsity of the initial atoms is preserved", drift < 0.01, drift, what)


def reach(data: Data, quick: bool, *, per_class: int, atoms: int, iterations: int) -> dict[str, Any]:
    """Return the row of the claim that the mapping works for other classes; it is tested on the classes of LANDMASS."""
    lead, found = np.nan, landmass(data, quick)
    if found:
        patches = found[1]
        rows = np.concatenate(
            [np.flatnonzero(patches.classes == name)[:per_class] for name in np.unique(patches.classes)]
        )
        mapper = oc.LabelMapper(atoms, iterations=iterations)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Class .* has .* patches, fewer than")
            labels = mapper.fit_predict(patches.images[rows], patches.classes[rows])
        parts = shares(labels, patches.classes[rows], mapper.classes_)
        lead = float((parts["its class"] - parts["foreign"]).min())
    what = "share of pixels with their class minus wrong labels, lowest class, on LANDMASS; held if above 0"
    return verdict("It works for any other class of structures", lead > 0, lead, what)


def draw(table: pd.DataFrame) -> Any:
    """Draw the table of claims, one claim per row; the colour of an answer shows whether the claim holds."""
    ax = oc.plots.new_axes(figsize=(14, 0.36 * len(table) + 0.6))
    colour = {"yes": "tab:green", "no": "tab:red", OPEN: "tab:grey"}
    for i, row in table.iterrows():
        ax.text(0.0, i, row["held"], color=colour[row["held"]], weight="bold", va="center")
        ax.text(0.09, i, row["claim"], va="center")
        ax.text(0.5, i, "" if np.isnan(row["number"]) else f"{row['number']:.3f}", va="center", ha="right")
        ax.text(0.52, i, row["what the number is"].split(";")[0], va="center", fontsize=8, color="dimgrey")
    ax.set(xlim=(0, 1), ylim=(len(table) - 0.5, -0.5))
    ax.axis("off")
    return ax.figure
