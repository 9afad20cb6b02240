"""The paper's two robustness figures: how many pixel labels change when some image labels are wrong.

An image label is the class of a whole patch. At the top, the module imports only NumPy and the mapper, so that
``benchmarks/robustness.py`` can run the factorisations on a GPU machine with few packages. The figures are drawn from
the JSON file with the results.
"""

import json
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outcrop.arrays import Array, to_numpy
from outcrop.mapping.label_mapper import LabelMapper

if TYPE_CHECKING:
    import pandas as pd

    from outcrop.experiments import Data, Device, Result

SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)  # of the image labels that are wrong
SWEEPS = {  # (atoms per class, sparsity) of every curve; the paper does not name k for the second figure
    "k": [(150, 0.4), (200, 0.4), (250, 0.4), (300, 0.4)],
    "sparsity": [(200, 0.4), (200, 0.5), (200, 0.6), (200, 0.7), (200, 0.8)],
}
SEEDS = 3
Sweep = Sequence[tuple[int, float]]


def swap(classes: Any, share: float, *, seed: int = 0) -> np.ndarray:
    """Replace a share of the patches of each class by patches of other classes; return the patch index by position.

    Parameters
    ----------
    classes : sequence of str, length n_patches
    share : float
        Share of wrong labels.
    seed : int
        With the same seed, a larger share contains all replacements of a smaller one.

    Returns
    -------
    source : int array, shape (n_patches,)
        Patch ``source[i]`` is moved to position i, where the image label is still ``classes[i]``. At positions where no
        patch was replaced, ``source[i] == i``.

    Examples
    --------
    >>> swap(["fault", "fault", "other", "other"], 0.5)
    array([2, 1, 1, 3])
    """
    classes = np.asarray(classes)
    rng = np.random.default_rng(seed)
    source = np.arange(len(classes))
    for name in dict.fromkeys(classes.tolist()):
        members, foreign = (rng.permutation(np.flatnonzero(mask)) for mask in (classes == name, classes != name))
        count = round(share * len(members))
        source[members[:count]] = foreign[:count]
    return source


def relative_performance(labels: np.ndarray, base: np.ndarray, kept: np.ndarray) -> float:
    """Return the share of pixels whose label is the same as in the base run.

    The base run has neither wrong image labels nor changed options. Only patches where `kept` is True count. Pixels
    that are uncertain in the base run do not count.

    Examples
    --------
    >>> base = np.array([[[1, 0]], [[2, 2]], [[1, 1]]])
    >>> relative_performance(np.array([[[1, 1]], [[2, 1]], [[2, 2]]]), base, np.array([True, True, False]))
    0.6666666666666666
    """
    counted = (base > 0) & np.asarray(kept)[:, None, None]
    return float((labels == base)[counted].mean())


def curves(
    patches: Array, classes: Array, *, seeds: int = SEEDS, shares: Any = SHARES, workers: int = 1, **options: Any
) -> dict[str, Any]:
    """Return the relative performance of one mapper setting, for every seed and every share of wrong labels.

    Parameters
    ----------
    patches : array, shape (n_patches, height, width)
        NumPy or torch array, on the device for the computation.
    classes : array of str, shape (n_patches,)
    seeds : int
    shares : sequence of float
        Shares of wrong labels; the first is 0, the base run.
    workers : int
        Number of seeds computed at the same time, so that k-means on the CPU and updates on a GPU overlap.
    **options
        Options of `LabelMapper`.

    Returns
    -------
    dict
        ``performance``: nested lists of shape (seeds, shares). ``another_seed``: for each pair of seeds, the share of
        labels that are equal in the two base runs.
    """

    def one(seed: int) -> tuple[list[float], np.ndarray]:
        found, base = [], np.empty(0)
        for share in shares:
            source = swap(classes, share, seed=seed)
            mapper = LabelMapper(random_state=seed, **options)
            labels = to_numpy(mapper.fit_predict(patches[source], classes))
            base = labels if share == 0 else base
            found.append(relative_performance(labels, base, source == np.arange(len(source))))
        return found, base

    with ThreadPoolExecutor(workers) as pool:
        performance, bases = zip(*pool.map(one, range(seeds)), strict=True)
    everywhere = np.ones(len(classes), bool)
    pairs = [(i, j) for i in range(seeds) for j in range(i)]
    return {
        "performance": list(performance),
        "another_seed": [relative_performance(bases[i], bases[j], everywhere) for i, j in pairs],
    }


def measure(
    patches: Array, classes: np.ndarray, path: str | Path, *, sweep: Sweep, device: str = "cpu", **sizes: Any
) -> dict[str, Any]:
    """Return the robustness curves of a sweep, which is a list of (atoms per class, sparsity); each pair has one curve.

    Finished curves are read from the JSON file `path`; missing curves are computed and added to the file.
    """
    workers = sizes.pop("workers", 1)
    sizes = dict[str, Any](seeds=SEEDS, shares=SHARES, iterations=200) | sizes
    about = {"patches": len(classes), **sizes, "shares": list(sizes["shares"])}
    path = Path(path)
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if known.get("about") != about:
        known = {"about": about, "device": device, "curves": {}}
    for atoms, sparsity in sweep:
        name = f"k {atoms}, sparsity {sparsity}"
        if name not in known["curves"]:
            options = {"atoms_per_class": atoms, "sparsity": sparsity, "workers": workers}
            known["curves"][name] = curves(patches, classes, **options, **sizes)
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(".part")
            aside.write_text(json.dumps(known, indent=1), encoding="utf-8")
            aside.replace(path)
    return known


def run(data: "Data", *, axis: str, quick: bool = False, device: "Device" = None, folder: "Data" = None) -> "Result":
    """Return a table and a figure of the paper's curves and our curves.

    `axis` is the parameter that differs between curves: "k" (atoms per class) or "sparsity". Curves that are
    already in ``robustness.json`` in the folder are not computed again.
    """
    import tempfile

    from outcrop.experiments import Result
    from outcrop.experiments.evolution import training_set

    dataset, patches = training_set(data, per_class=10 if quick else None, device=device)
    sizes: dict[str, Any] = {
        "sweep": SWEEPS[axis],
        "workers": 1 if device is None else SEEDS,
        "device": device or "cpu",
    }
    if quick:
        sweep = [(k // 50, sparsity) for k, sparsity in SWEEPS[axis]]
        sizes |= {"sweep": sweep, "seeds": 2, "shares": (0.0, 0.25), "iterations": 5}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch if quick or folder is None else folder) / "robustness.json"
        found = measure(patches, dataset["weak"].values, path, **sizes)
    table = tabulate(found, axis, sizes["sweep"], SWEEPS[axis])
    worst = table[table["wrong labels"] == table["wrong labels"].max()]
    ours, paper = ([float(f(worst[column])) for f in (min, max)] for column in ("relative performance", "paper"))
    remark = (
        f"At {worst['wrong labels'].iloc[0]:.0%} wrong labels {ours[0]:.2f} to {ours[1]:.2f} of the pixels keep their "
        f"label, in the paper {paper[0]:.2f} to {paper[1]:.2f}. The paper names neither its seeds nor the patches with "
        f"wrong labels. With another seed and no wrong labels, {table['another seed'].mean():.2f} keep their label."
    )
    return Result(table, draw(table, axis), remark)


def tabulate(found: dict[str, Any], axis: str, sweep: Sweep, printed: Sweep) -> "pd.DataFrame":
    """Return a table with a row for each curve and each share of wrong image labels.

    A row has the relative performance (mean, lowest and highest over the seeds) and the paper's value. `printed` holds
    the parameters of the paper's curves, in the order of `sweep`.
    """
    import pandas as pd

    rows = []
    for (atoms, sparsity), (k, rho) in zip(sweep, printed, strict=True):
        curve = found["curves"][f"k {atoms}, sparsity {sparsity}"]
        reported = printed_curve(axis, k if axis == "k" else rho)
        for share, values in zip(found["about"]["shares"], np.transpose(curve["performance"]), strict=True):
            options = {"k": atoms, "sparsity": sparsity, "wrong labels": share, "paper": reported[round(100 * share)]}
            spread = {"relative performance": values.mean(), "lowest": values.min(), "highest": values.max()}
            another = np.mean(curve["another_seed"]) if curve["another_seed"] else np.nan
            rows.append({**options, **spread, "another seed": another})
    return pd.DataFrame(rows)


def printed_curve(axis: str, value: float) -> list[float]:
    """Return the paper's relative performance for 0, 1, ... 25 % wrong labels, at one value of k or sparsity."""
    text = Path(__file__).with_name("robustness.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)[axis][str(value)])


def draw(table: "pd.DataFrame", axis: str) -> Any:
    """Draw our curves with the range over the seeds, and the paper's curves dashed in the same colours."""
    from outcrop import plots

    ax = plots.new_axes(figsize=(8, 5))
    places = [atoms if axis == "k" else sparsity for atoms, sparsity in SWEEPS[axis]]
    for i, ((value, curve), place) in enumerate(zip(table.groupby(axis), places, strict=True)):
        colour = f"C{i}"
        ax.plot(curve["wrong labels"], curve["relative performance"], "o-", color=colour, label=f"{axis} {value:g}")
        ax.fill_between(curve["wrong labels"], curve["lowest"], curve["highest"], color=colour, alpha=0.15, lw=0)
        ax.axhline(curve["another seed"].iloc[0], color=colour, ls=":", lw=1)
        ax.plot(np.arange(26) / 100, printed_curve(axis, place), "--", color=colour, lw=1)
    ax.plot([], [], ":", color="grey", lw=1, label="ours, another seed and no wrong label")
    ax.plot([], [], "--", color="grey", lw=1, label="the paper's, same colours")
    ax.set(xlabel="share of wrong image labels", ylabel="pixels labelled as without wrong image labels")
    ax.set(ylim=(min(0.7, table["lowest"].min() - 0.02), 1.01))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", loc="lower left")
    return ax.figure
