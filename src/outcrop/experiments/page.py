"""One page of every experiment that a folder holds: figures, numbers, the paper's numbers, and why they differ."""

import json
from pathlib import Path

import pandas as pd

from outcrop.experiments import EXPERIMENTS
from outcrop.report import write_report

ABOUT = (
    "Every table and figure of Alaudah, Alfarraj and AlRegib, GEOPHYSICS 84(1), V67-V79, 2019, computed anew, and what "
    "goes beyond it. Columns that begin with `paper` are numbers printed there; the sentence under a figure says why "
    "ours differ. Beside this page lie the numbers of every table (.csv) and its drawing (.png, .svg)."
)


def write(folder):
    """Write ``index.html`` from what the experiments left in a folder."""
    folder = Path(folder)
    names = [name for name in EXPERIMENTS if (folder / f"{name}.json").is_file()]
    sections = {"About": ABOUT} | {name: _section(folder, name) for name in names}
    write_report(folder / "index.html", title="The paper's experiments, made again", sections=sections)


def _section(folder, name):
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    size, where = (
        "quick run, small sizes" if facts["quick"] else "full run",
        facts["device"] or f"{facts['cores']} cores",
    )
    command = f"outcrop reproduce {name}" + " --quick" * facts["quick"]
    return [
        (folder / f"{name}.png", EXPERIMENTS[name]),
        facts["remark"],
        *(f"Not as expected: {text}" for text in facts["deviations"]),
        pd.read_csv(folder / f"{name}.csv"),
        f"{command} ({size}): {facts['seconds']:.0f} s on {where}",
    ]
