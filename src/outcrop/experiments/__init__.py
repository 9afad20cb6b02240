"""Every table and figure of the paper, and what goes beyond: one module per experiment, run by name.

A module has ``run(data, *, quick) -> Result``. Values that stand in ``expected.toml`` are checked against the table.
"""

import importlib
import inspect
import json
import tomllib
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pandas as pd

from outcrop import __version__
from outcrop.parallel import n_cores
from outcrop.storage.workspace import whole_file

EXPERIMENTS = {
    "supervision": "full and weak supervision: what an interpreter may draw on one patch",
    "workflow": "the whole method on real patches, from exemplars to pixel labels",
    "exemplars": "one or two exemplars a class, and how much of the class each retrieves",
    "curvelet": "tiling of the frequency plane, and one curvelet in frequency and in space",
    "table1": "seven similarity measures by retrieval and by clustering",
    "roc": "pairs of patches told apart by each measure, at every threshold",
    "precision": "precision by number of retrieved patches, class by class",
    "mds": "patches in a plane by their similarity, and the clusters found there",
    "retrieval": "purity of what is retrieved on real and synthetic sections, by rank",
    "measures": "the paper's measure and the encoder's on changed patches, another survey and expert labels",
    "audit": "how often the intervals of simulated audits hold the truth, and how wide they are",
    "gain": "how the paper's measure follows gain, polarity and sampling",
    "robustness-k": "pixel labels under wrong image labels, by the number of atoms",
    "robustness-sparsity": "pixel labels under wrong image labels, by the sparsity of the atoms",
    "convergence": "course of the three objectives over 200 iterations",
    "evolution": "labels of the paper's own patches from the start to iteration 200",
    "comparison": "plain, sparse, orthogonal and full factorisation on the paper's own patches",
    "expert": "every mapper against expert labels, from patches and from exemplars",
    "training": "one net trained on the authors', the paper's, our and the expert's labels, on lines it never saw",
    "trust": "confidence against accuracy, error by coverage, and the sections to look at",
    "ablation": "what each part of the texture mapper is worth",
    "sensitivity": "wrong image labels, the number of exemplars, and a class that nobody named",
    "interpreter": "what strokes of a simulated interpreter teach, on the painted line and on others",
    "claims": "the paper's claims one by one, held or not",
}


class Result(NamedTuple):
    """What an experiment found."""

    table: pd.DataFrame
    figure: Any  # matplotlib Figure
    remark: str  # one sentence on what differs from the paper and why


def run(name, data, folder, *, quick=False, device=None, **options):
    """Run one experiment, write its figure (PNG, SVG) and table (CSV), and renew the folder's page.

    Parameters
    ----------
    name : str
        From `EXPERIMENTS`.
    data : path or None
        Folder of the real data; None for the environment variable OUTCROP_DATA.
    folder : path
        Where the files and the page ``index.html`` go.
    quick : bool
        Small sizes, to see that everything runs.
    device : str, optional
        Torch device, for instance ``"cuda"``, for the experiments that can use one.
    **options
        Passed to the experiment; None means that nothing was asked for.

    Returns
    -------
    result : Result
    deviations : list of str
        Values outside the tolerance of ``expected.toml``; always empty for quick runs, which have other sizes.
    """
    from outcrop.experiments import page

    if name not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment {name!r}; choose all or one of {', '.join(EXPERIMENTS)}.")
    if data is not None and not Path(data).is_dir():
        raise ValueError(f"Data folder {data} does not exist; name one with --data, or set OUTCROP_DATA.")
    module = importlib.import_module(f"outcrop.experiments.{name.replace('-', '_')}")
    options = {key: value for key, value in options.items() if value is not None}
    known = inspect.signature(module.run).parameters
    for key in options.keys() - known.keys():
        raise ValueError(f"Experiment {name!r} has no option {key!r}; leave it out.")
    options |= {key: value for key, value in {"device": device, "folder": folder}.items() if key in known}
    begin = perf_counter()
    try:
        result = module.run(data, quick=quick, **options)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from error
    failed = [] if quick else deviations(name, result.table)
    facts = {"remark": result.remark, "quick": quick, "device": device, "seconds": perf_counter() - begin}
    _write(Path(folder), name, result, facts | {"deviations": failed, "version": __version__, "cores": n_cores()})
    page.write(folder)
    return result, failed


def _write(folder, name, result, facts):
    """Table, figure and facts of one experiment as files of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / f"{name}.csv") as aside:
        result.table.to_csv(aside, index=False, float_format="%.4f")
    for suffix in ("png", "svg"):
        with whole_file(folder / f"{name}.{suffix}") as aside:
            result.figure.savefig(aside, format=suffix, dpi=130)
    with whole_file(folder / f"{name}.json") as aside:
        aside.write_text(json.dumps(facts, indent=1), encoding="utf-8")


def deviations(name, table):
    """Expected values that the table does not meet, each as a sentence."""
    expected = tomllib.loads((Path(__file__).parent / "expected.toml").read_text(encoding="utf-8"))
    out = []
    for entry in expected.get(name, []):
        rows = table
        for column, value in entry["where"].items():
            rows = rows[rows[column] == value]
        if "data" in entry["where"] and entry["where"]["data"] not in set(table["data"]):
            continue  # another data set was given
        if len(rows) != 1:
            out.append(f"{name}: no single row for {entry['where']}")
        elif not abs(rows[entry["column"]].iloc[0] - entry["value"]) <= entry["tolerance"]:
            found = rows[entry["column"]].iloc[0]
            out.append(f"{name}: {entry['where']} {entry['column']} is {found:.4f}, expected {entry['value']}")
    return out
