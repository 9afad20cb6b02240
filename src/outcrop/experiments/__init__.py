"""Every table and figure of the paper, and what goes beyond: one module per experiment, run by name.

A module has ``run(data, *, quick) -> Result``. Values that stand in ``expected.toml`` are checked against the table.
"""

import importlib
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from outcrop.workspace import whole_file

EXPERIMENTS = {
    "retrieval": "purity of what is retrieved on real and synthetic sections, by rank",
    "gain": "how the paper's measure follows gain, polarity and sampling",
}


class Result(NamedTuple):
    """What an experiment found."""

    table: pd.DataFrame
    figure: Any  # matplotlib Figure
    remark: str  # one sentence on what differs from the paper and why


def run(name, data, folder, *, quick=False):
    """Run one experiment and write its figure (PNG, SVG) and table (CSV) into a folder.

    Parameters
    ----------
    name : str
        From `EXPERIMENTS`.
    data : path or None
        Folder of the real data; None for the environment variable OUTCROP_DATA.
    folder : path
        Where the files go.
    quick : bool
        Small sizes, to see that everything runs.

    Returns
    -------
    result : Result
    deviations : list of str
        Values outside the tolerance of ``expected.toml``; always empty for quick runs, which have other sizes.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment {name!r}; choose all or one of {', '.join(EXPERIMENTS)}.")
    module = importlib.import_module(f"outcrop.experiments.{name.replace('-', '_')}")
    result = module.run(data, quick=quick)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / f"{name}.csv") as aside:
        result.table.to_csv(aside, index=False, float_format="%.4f")
    for suffix in ("png", "svg"):
        with whole_file(folder / f"{name}.{suffix}") as aside:
            result.figure.savefig(aside, format=suffix, dpi=130)
    return result, [] if quick else deviations(name, result.table)


def deviations(name, table):
    """Expected values that the table does not meet, each as a sentence."""
    expected = tomllib.loads((Path(__file__).parent / "expected.toml").read_text(encoding="utf-8"))
    out = []
    for entry in expected.get(name, []):
        rows = table
        for column, value in entry["where"].items():
            rows = rows[rows[column] == value]
        if len(rows) != 1:
            out.append(f"{name}: no single row for {entry['where']}")
        elif abs(rows[entry["column"]].iloc[0] - entry["value"]) > entry["tolerance"]:
            found = rows[entry["column"]].iloc[0]
            out.append(f"{name}: {entry['where']} {entry['column']} is {found:.4f}, expected {entry['value']}")
    return out
