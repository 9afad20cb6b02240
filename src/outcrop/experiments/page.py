"""One page of every experiment that a folder holds: figures, numbers, what the paper says, and why they differ."""

import base64
import json
from html import escape
from pathlib import Path

import pandas as pd

from outcrop.experiments import EXPERIMENTS
from outcrop.workspace import whole_file

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
h2 small { font-weight: normal; color: #666; font-size: 1rem; }
img { max-width: 100%; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #eee; }
th { border-bottom: 2px solid #999; vertical-align: bottom; }
th:first-child, td:first-child, td.text { text-align: left; }
th.paper, td.paper { background: #f4f4f4; }
p.remark { border-left: 4px solid #0a7; padding-left: .8rem; max-width: 55rem; }
p.failed { border-left: 4px solid #c30; padding-left: .8rem; }
.facts, nav { color: #666; font-size: .85rem; }
"""


def write(folder):
    """Write ``index.html``, one file with every picture in it, from what the experiments left in a folder."""
    folder = Path(folder)
    names = [name for name in EXPERIMENTS if (folder / f"{name}.json").is_file()]
    links = " · ".join(f'<a href="#{name}">{name}</a>' for name in names)
    text = (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Outcrop: the experiments</title>'
        f"<style>{STYLE}</style><h1>Structure labels by retrieval and weak supervision, made again</h1>"
        "<p>Tables and figures after Alaudah, Alfarraj and AlRegib, GEOPHYSICS 84(1), 2019, computed by Outcrop. Grey "
        "columns are numbers printed in the paper; the green line under a figure says why ours differ.</p>"
        f"<nav>{links}</nav>" + "".join(_section(folder, name) for name in names)
    )
    with whole_file(folder / "index.html") as aside:
        aside.write_text(text, encoding="utf-8")


def _section(folder, name):
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    picture = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
    size = "quick run, small sizes" if facts["quick"] else "full run"
    where = facts["device"] or f"{facts['cores']} cores"
    failed = "".join(f'<p class="failed">Not as expected: {escape(text)}</p>' for text in facts["deviations"])
    return (
        f'<h2 id="{name}">{name} <small>{escape(EXPERIMENTS[name])}</small></h2>'
        f'<img alt="{escape(EXPERIMENTS[name])}" src="data:image/png;base64,{picture}">'
        f'<p class="remark">{escape(facts["remark"])}</p>{failed}'
        f'<div class="wide">{_table(pd.read_csv(folder / f"{name}.csv"))}</div>'
        f'<p class="facts">{size}, {facts["seconds"]:.0f} s on {where}, Outcrop {facts["version"]}; '
        f"<code>outcrop reproduce {name}{' --quick' if facts['quick'] else ''}</code>; "
        f'<a href="{name}.csv">numbers</a>, <a href="{name}.svg">drawing</a></p>'
    )


def _table(frame):
    """A DataFrame as HTML; columns named after the paper are set apart."""
    head = "".join(f"<th{_class(column)}>{escape(str(column))}</th>" for column in frame.columns)
    rows = (
        "".join(f"<td{_class(column, value)}>{_cell(value)}</td>" for column, value in row.items())
        for row in frame.to_dict("records")
    )
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _class(column, value=0.0):
    kind = "paper" if str(column).startswith("paper") else "text" if isinstance(value, str) else ""
    return f' class="{kind}"' if kind else ""


def _cell(value):
    if isinstance(value, str):
        return escape(value)
    return "" if pd.isna(value) else f"{value:.3f}" if isinstance(value, float) and abs(value) < 10 else f"{value:g}"
