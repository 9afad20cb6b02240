"""The paper's claims one by one: held or not on the data at hand, with our number.

Claims that another experiment measures are read from its table in the output folder, so run them first (``all`` does);
the others are measured here.
"""

import json
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from outcrop import plots
from outcrop.arrays import to_numpy
from outcrop.evaluate.retrieval import retrieval_scores
from outcrop.experiments import Result
from outcrop.experiments.evolution import shares, training_set
from outcrop.experiments.robustness import relative_performance
from outcrop.experiments.table1 import matrix, patch_sets
from outcrop.mapping.confidence import label, median_filter
from outcrop.mapping.factorisation import factorise
from outcrop.mapping.label_mapper import LabelMapper, class_scores
from outcrop.mapping.sparsity import sparsity
from outcrop.measures.registry import PAPER

OPEN = "not tested"


def run(data, *, quick=False, device=None, folder=None):
    """One row per claim."""
    tables = measured(folder, quick) if folder else {}
    sizes = {"per_class": 10 if quick else 100, "atoms": 4 if quick else 50, "iterations": 5 if quick else 200}
    rows = [
        *retrieval_claims(data, quick, device),
        *mapping_claims(tables, gpu_seconds(folder)),
        *choice_claims(data, device, **sizes),
        *reach(data, quick, **sizes),
    ]
    table = pd.DataFrame(rows, columns=["claim", "held", "number", "what the number is"])
    remark = (
        "The paper argues most of these from pictures or on LANDMASS-2; a number here is on the data at hand, and held "
        "follows from the number alone by the rule in its last column."
    )
    return Result(table, draw(table), remark)


def measured(folder, quick):
    """Tables of the experiments in a folder by name, those of the same kind of run."""
    facts = {path: path.with_suffix(".json") for path in sorted(Path(folder).glob("*.csv"))}
    return {
        table.stem: pd.read_csv(table)
        for table, about in facts.items()
        if about.is_file() and json.loads(about.read_text(encoding="utf-8"))["quick"] == quick
    }


def verdict(claim, held, number, what):
    """A row of the table; a number that is not there leaves the claim open."""
    known = number is not None and np.isfinite(number)
    return {
        "claim": claim,
        "held": ("yes" if held else "no") if known else OPEN,
        "number": float(number) if known else np.nan,
        "what the number is": what,
    }


def landmass(data, quick):
    """Name and patches of the LANDMASS data set at hand, the second where there are both, or None."""
    sets = patch_sets(data, quick)[0]
    names = [name for name in sets if name.startswith("LANDMASS") and "own range" not in name]
    return (max(names), sets[max(names)]) if names else None


def retrieval_claims(data, quick, device):
    """Claims on the classes of LANDMASS."""
    lowest = gap = np.nan
    found = landmass(data, quick)
    if found:
        name, patches = found
        scores = retrieval_scores(matrix(data, name, "curvelet-svd", quick, device).similarity, patches.classes)
        most = int((patches.classes == "horizon").sum()) - 1
        lowest = scores["precision_by_class"]["horizon"][:most].min() if most > 0 else np.nan
        others = [value for key, value in scores["RA_by_class"].items() if key != "fault"]
        gap = scores["RA_by_class"].get("fault", np.nan) - min(others)
    what = "lowest precision at M up to the size of the class, on LANDMASS; held if 1"
    yield verdict("Horizons are retrieved without error", lowest == 1, lowest, what)
    what = "retrieval accuracy of faults less the lowest of the other classes, on LANDMASS; held if negative"
    yield verdict("Faults are the hardest class", gap < 0, gap, what)


def mapping_claims(tables, gpu):
    """Claims that other experiments measure, from their tables."""
    yield best_measure(tables.get("table1"))
    for axis, word in (("k", "more atoms per class"), ("sparsity", "sparser atoms")):
        gain = robustness_gain(tables.get(f"robustness-{axis}"), axis)
        what = f"relative performance at the largest {axis} less at the smallest, mean over shares; held if above .01"
        yield verdict(f"Labels are more robust with {word}", gain > 0.01, gain, what)
    course = tables.get("convergence")
    rises = course[course["variant"] == "paper"]["rises"].max() if course is not None else np.nan
    yield verdict(
        "The two update rules lower the overall objective", rises == 0, rises, "iterations in which F rose; held if 0"
    )
    yield verdict("200 iterations take about 4 s on a GPU", gpu <= 4, gpu, "seconds of one fit of 2000 patches, k 250")
    labels = tables.get("evolution")
    unsure = labels[labels["iteration"] == 1]["uncertain"].min() if labels is not None else np.nan
    what = "share of uncertain pixels after one iteration, lowest of the classes; held if above .99"
    yield verdict("Every pixel is uncertain after the first iteration", unsure > 0.99, unsure, what)
    yield from constraint_claims(tables.get("comparison"))
    yield accuracy_claim(tables.get("expert"))


def gpu_seconds(folder):
    """Seconds of one fit on a GPU, from the file that ``benchmarks/robustness.py`` writes there."""
    path = Path(folder or ".") / "robustness.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found.get("fit seconds", np.nan) if found.get("device", "cpu") != "cpu" else np.nan


def best_measure(table):
    """Whether the paper's measure is first on all four scores."""
    margin = np.nan
    if table is not None:
        largest = table.loc[table["images"].idxmax(), "data"]
        rows = table[(table["data"] == largest) & table["measure"].isin(PAPER)].set_index("measure")
        scores = rows[["RA", "MAP", "AUC row", "RI"]]
        margin = (scores.loc["curvelet-svd"] - scores.drop(index="curvelet-svd").max()).min()
    what = "smallest lead of curvelet-svd over the best other measure in RA, MAP, AUC and Rand index; held if positive"
    return verdict("The paper's measure is best on all four scores", margin > 0, margin, what)


def robustness_gain(table, axis):
    """Gain in relative performance from the smallest to the largest value of a sweep."""
    if table is None:
        return np.nan
    mean = table[table["wrong labels"] > 0].groupby(axis)["relative performance"].mean()
    return mean.loc[mean.index.max()] - mean.loc[mean.index.min()]


def constraint_claims(table):
    """What sparsity and orthogonality do to the labels."""
    noise = band = np.nan
    if table is not None:
        by = table.groupby("formulation", sort=False)[["foreign", "band"]].mean()
        noise, band = (
            by.loc["full", "foreign"] - by.loc["NMF", "foreign"],
            by.loc["sparse", "band"] - by.loc["full", "band"],
        )
    what = "share of certainly wrong labels, full less plain factorisation; held if negative"
    yield verdict("The full formulation is less noisy than plain factorisation", noise < 0, noise, what)
    what = (
        "wrong labels in the middle third of the rows over their mean, sparse less full; held if above .1: without "
        "orthogonality they gather in a band"
    )
    yield verdict("Bands of wrong labels without orthogonality, none with it", band > 0.1, band, what)


def accuracy_claim(table):
    """Whether the labels are better than painting each patch whole."""
    gain = np.nan
    if table is not None:
        scores = table[table["inline"] == "all"].set_index("mapper")["MIU"]
        where = "patches on the expert's lines"
        if f"painted whole, {where}" in scores:
            gain = scores[f"authors' labels, {where}"] - scores[f"painted whole, {where}"]
    what = "mean IU of the authors' released labels less that of painting the same patches whole; held if positive"
    return verdict("Pixel labels show where the structures are", gain > 0, gain, what)


def choice_claims(data, device, *, per_class, atoms, iterations):
    """How much each choice changes the labels, compared with what another seed alone changes."""
    dataset, patches = training_set(data, per_class=per_class, device=device)
    classes = dataset["weak"].values

    def labels(**options):
        mapper = LabelMapper(atoms, iterations=iterations, **options)
        return to_numpy(mapper.fit_predict(patches, classes))

    base, everywhere = labels(), np.ones(len(classes), bool)
    floor = relative_performance(labels(random_state=1), base, everywhere)
    choices = {
        "The choice of the sparsity rho_w matters": labels(sparsity=0.8),
        "The choice of the orthogonality gamma matters": labels(orthogonality=0.0),
        "The choice of the penalties lambda matters": labels(atom_penalty=0.0, coefficient_penalty=0.0),
        "The choice of the initial atoms W0 matters": random_start(patches, classes, atoms, iterations),
    }
    asked = ("rho_w .8", "gamma 0", "lambda 0", "random atoms")
    for (claim, changed), change in zip(choices.items(), asked, strict=True):
        same = relative_performance(changed, base, everywhere)
        what = f"share of labels that stay with {change}; held if more change than with another seed ({floor:.2f} stay)"
        yield verdict(claim, same < floor - 0.01, same, what)
    yield kept_sparsity(patches, classes, atoms, iterations)


def random_start(patches, classes, atoms, iterations):
    """Labels from atoms that are random numbers instead of k-means centres."""
    patches = to_numpy(patches)
    names, n_pixels = list(dict.fromkeys(classes)), patches[0].size
    rng = np.random.default_rng(0)
    W = rng.random((n_pixels, atoms * len(names)), dtype=np.float32)
    H = rng.random((W.shape[1], len(patches)), dtype=np.float32)
    *_, (W, H, _) = islice(factorise(patches.reshape(len(patches), -1).T, W, H), iterations + 1)
    owners = np.repeat(np.arange(len(names)), atoms)
    return label(class_scores(W.T.reshape(-1, *patches.shape[1:]), H.T, owners), smooth=median_filter)


def kept_sparsity(patches, classes, atoms, iterations):
    """Whether the atoms are as sparse at the end as they were made at the start."""
    mapper = LabelMapper(atoms, iterations=iterations).fit(patches, classes)
    end = sparsity(to_numpy(mapper.atoms_).reshape(len(mapper.atoms_), -1))
    drift = float(np.abs(end - mapper.sparsity).max())
    what = "largest change of an atom's Hoyer sparsity over the iterations; held if below .01 (zeros do stay zeros)"
    return verdict("The sparsity of the initial atoms is preserved", drift < 0.01, drift, what)


def reach(data, quick, *, per_class, atoms, iterations):
    """Whether other classes than the paper's work as well: horizons of LANDMASS in place of `other`."""
    lead, found = np.nan, landmass(data, quick)
    if found:
        patches = found[1]
        rows = np.concatenate(
            [np.flatnonzero(patches.classes == name)[:per_class] for name in np.unique(patches.classes)]
        )
        mapper = LabelMapper(atoms, iterations=iterations)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Class .* has .* patches, fewer than")
            labels = mapper.fit_predict(patches.images[rows], patches.classes[rows])
        parts = shares(labels, patches.classes[rows], mapper.classes_)
        lead = float((parts["its class"] - parts["foreign"]).min())
    what = "share of a class's pixels labelled as it less all others', lowest class, on LANDMASS; held if above 0"
    yield verdict("It works for any other class of structures", lead > 0, lead, what)


def draw(table):
    """The table as a picture: a claim a line, its verdict in colour."""
    ax = plots.new_axes(figsize=(14, 0.36 * len(table) + 0.6))
    colour = {"yes": "tab:green", "no": "tab:red", OPEN: "tab:grey"}
    for i, row in table.iterrows():
        ax.text(0.0, i, row["held"], color=colour[row["held"]], weight="bold", va="center")
        ax.text(0.09, i, row["claim"], va="center")
        ax.text(0.5, i, "" if np.isnan(row["number"]) else f"{row['number']:.3f}", va="center", ha="right")
        ax.text(0.52, i, row["what the number is"].split(";")[0], va="center", fontsize=8, color="dimgrey")
    ax.set(xlim=(0, 1), ylim=(len(table) - 0.5, -0.5))
    ax.axis("off")
    return ax.figure
