"""Every table and figure of the paper, and further experiments: one module per experiment, run by name.

The paper is Alaudah, Alfarraj and AlRegib, Geophysics 84(1), 2019. Each module has ``run(data, *, quick) -> Result``;
``robustness-k`` and ``robustness-sparsity`` run the module `robustness` with different parameters. The table of a
result is checked against the values in ``expected.toml``; ``about.toml`` describes each experiment.
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
from outcrop.report import write_report
from outcrop.storage.workspace import whole_file

HERE = Path(__file__).parent
TEXTS = tomllib.loads((HERE / "about.toml").read_text(encoding="utf-8"))
EXPERIMENTS: dict[str, str] = {name: text["what"] for name, text in TEXTS["experiments"].items()}
Data = str | Path | None  # folder of the real data; None for the environment variable OUTCROP_DATA
Device = str | None  # torch device, for instance "cuda"; None for NumPy


class Result(NamedTuple):
    """Results of an experiment: table, figure and remark."""

    table: pd.DataFrame
    figure: Any  # matplotlib Figure
    remark: str = ""  # how and why results differ from the paper; appended to the remark of ``about.toml``


def run(
    name: str, data: Data, folder: str | Path, *, quick: bool = False, device: Device = None, **options: Any
) -> tuple[Result, list[str]]:
    """Run one experiment, write its figure (PNG, SVG) and table (CSV), and update the page of all experiments.

    Parameters
    ----------
    name : str
        A name in `EXPERIMENTS`.
    data : path or None
        Folder of the real data; None for the environment variable OUTCROP_DATA.
    folder : path
        Folder for the files and the page ``index.html``.
    quick : bool
        Use small sizes, to check that everything runs.
    device : str, optional
        Torch device, for instance ``"cuda"``, for the experiments that can use one.
    **options
        Options of the experiment; options that are None are left out.

    Returns
    -------
    result : Result
    deviations : list of str
        A sentence for each value outside the tolerance of ``expected.toml``; always empty for quick runs, because
        their sizes differ.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"Unknown experiment {name!r}; choose 'all' or one of {', '.join(EXPERIMENTS)}.")
    if data is not None and not Path(data).is_dir():
        raise ValueError(f"Data folder {data} does not exist; name another with --data, or set OUTCROP_DATA.")
    home, _, axis = name.partition("-")
    module = importlib.import_module(f"outcrop.experiments.{home}")
    options = {key: value for key, value in options.items() if value is not None}
    known = inspect.signature(module.run).parameters
    for key in options.keys() - known.keys():
        raise ValueError(f"Experiment {name!r} has no option {key!r}; leave it out.")
    options |= {key: value for key, value in {"device": device, "folder": folder}.items() if key in known}
    options |= {"axis": axis} if axis else {}
    begin = perf_counter()
    try:
        result = module.run(data, quick=quick, **options)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from error
    result = result._replace(remark=f"{TEXTS['experiments'][name].get('remark', '')} {result.remark}".strip())
    failed = [] if quick else deviations(name, result.table)
    facts = {"remark": result.remark, "quick": quick, "device": device, "seconds": perf_counter() - begin}
    _write(Path(folder), name, result, facts | {"deviations": failed, "version": __version__, "cores": n_cores()})
    write_page(Path(folder))
    return result, failed


def _write(folder: Path, name: str, result: Result, facts: dict[str, Any]) -> None:
    """Write table, figure and facts (remark, run time, version) of one experiment to files named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / f"{name}.csv") as aside:
        result.table.to_csv(aside, index=False, float_format="%.4f")
    for suffix in ("png", "svg"):
        with whole_file(folder / f"{name}.{suffix}") as aside:
            result.figure.savefig(aside, format=suffix, dpi=130)
    with whole_file(folder / f"{name}.json") as aside:
        aside.write_text(json.dumps(facts, indent=1), encoding="utf-8")


def write_page(folder: Path) -> None:
    """Write ``index.html``, a page of all experiments whose output files are in the folder."""
    sections: dict[str, Any] = {"About": TEXTS["page"]}
    for name, title in EXPERIMENTS.items():
        if (folder / f"{name}.json").is_file():
            facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            command = f"outcrop reproduce {name}" + (" --quick (quick" if facts["quick"] else " (full")
            where = facts["device"] or f"{facts['cores']} cores"
            sections[name] = [
                (folder / f"{name}.png", title),
                facts["remark"],
                *(f"Outside the tolerance: {text}" for text in facts["deviations"]),
                pd.read_csv(folder / f"{name}.csv"),
                f"{command} run): {facts['seconds']:.0f} s on {where}",
            ]
    write_report(folder / "index.html", title="The paper's experiments, recomputed", sections=sections)


def deviations(name: str, table: pd.DataFrame) -> list[str]:
    """Return a sentence for each expected value that is missing in the table or differs by more than its tolerance.

    ``expected.toml`` holds the expected values of experiment `name`. Values of a data set that is not in the table are
    skipped.
    """
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    out = []
    for entry in expected.get(name, []):
        rows = table
        for column, value in entry["where"].items():
            rows = rows[rows[column] == value]
        if "data" in entry["where"] and entry["where"]["data"] not in set(table["data"]):
            continue  # the expected data set was not part of the run
        if len(rows) != 1:
            out.append(f"{name}: no single row for {entry['where']}")
        elif not abs(rows[entry["column"]].iloc[0] - entry["value"]) <= entry["tolerance"]:
            found = rows[entry["column"]].iloc[0]
            out.append(f"{name}: {entry['where']} {entry['column']} is {found:.4f}, expected {entry['value']}")
    return out
