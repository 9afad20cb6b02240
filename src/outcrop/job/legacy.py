"""Folders written by Outcrop 0.1.0: their decisions are imported, and nothing in them is removed."""

import contextlib
import json
import os
import tomllib
from pathlib import Path

import pandas as pd

from outcrop.job.decisions import FOLDER
from outcrop.storage.stages import append_line
from outcrop.volumes.identity import take_volume
from outcrop.volumes.opening import open_volume

WHO = "outcrop-0.1.0"
KEPT = "job-0.1.0.toml"
GRID = ("size", "step", "along", "every", "area", "between", "sample", "gain", "clip", "seed", "truncate", "finest")


def import_legacy(path):
    """Take over what was decided in a folder of 0.1.0; a folder of today, or none, is left alone."""
    path = Path(path)
    record, page = _record(path), _page(path)
    if record is None and page is None:
        return
    source, options = _source(record or {}, page or {})
    entries = list(_entries(path, record or {}, page or {}))
    if not (path / FOLDER / f"{WHO}.jsonl").exists() and entries:
        lines = [json.dumps(_signed(number, entry)) for number, entry in enumerate(entries)]
        append_line(path / FOLDER / f"{WHO}.jsonl", "\n".join(lines))
    if record is not None:
        os.replace(path / "job.toml", path / KEPT)
    if page is not None:
        os.replace(path / "page.json", path / "page-0.1.0.json")
    if source and Path(source).exists():
        take_volume(path, open_volume(source, **options))


def _record(path):
    """Contents of a ``job.toml`` of format 1, None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        record = tomllib.loads((path / "job.toml").read_text(encoding="utf-8"))
        return record if record.get("format") == 1 else None
    return None


def _page(path):
    """Contents of a ``page.json`` of format 1, None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        page = json.loads((path / "page.json").read_text(encoding="utf-8"))
        return page if page.get("format") == 1 else None
    return None


def _source(record, page):
    volume = record.get("volume") or page.get("about") or {}
    options = {"header_bytes": tuple(volume["options"]["header_bytes"])} if volume.get("options") else {}
    return volume.get("source", ""), options


def _signed(number, entry):
    """An entry with an id; all of them are as old as can be."""
    about = {"id": f"{WHO}-{number}", "time": f"1970-01-01T00:00:00.{number:06d}+00:00", "who": WHO, "from": "import"}
    return about | {"group": f"{WHO}-{number}"} | entry


def _entries(path, record, page):
    """Decisions of the page where there was one, of the shell otherwise, and the pixels painted."""
    index = {name: record["index"][name] for name in GRID if name in record.get("index", {})}
    if index:
        yield {"what": "set", "name": "index", "value": index}
    if page:
        yield from _of_page(page["decisions"])
    else:
        yield from _of_shell(path, record.get("retrieve", {}))
        yield from _painted(path)


def _of_page(decisions):
    names: dict = {}
    for one in decisions.get("classes", []):
        names[one["name"]] = one["name"]
        yield {"what": "class", "class": one["name"], "colour": one["colour"]}
    for one in decisions.get("exemplars", []):
        yield {"what": "exemplar", "class": one["class"], "place": one["place"]}
    for one in decisions.get("judged", []):
        what = "accept" if one["accept"] else "reject"
        yield {"what": what, "class": one["class"], "place": one["place"], "along": one.get("along", "inline")}
    for one in decisions.get("painted", []):
        stroke = {name: one[name] for name in ("class", "along", "line", "runs")}
        yield {"what": "stroke", **stroke}
    if decisions.get("counts"):
        yield {"what": "set", "name": "count", "value": decisions["counts"]}
    if decisions.get("mapping", "texture") != "texture":
        yield {"what": "set", "name": "label", "value": {"mapping": decisions["mapping"]}}


def _of_shell(path, asked):
    """Exemplars, counts and verdicts of ``outcrop retrieve``; rows become places by the table."""
    from outcrop.job.inputs import class_name

    for text in asked.get("exemplars", []):
        name, _, place = text.partition("=")
        with contextlib.suppress(ValueError):
            yield {"what": "exemplar", "class": class_name(name), "place": [float(part) for part in place.split(",")]}
    count = str(asked.get("count", ""))
    if count.isdigit():
        yield {"what": "set", "name": "count", "value": int(count)}
    elif "=" in count:
        pairs = (part.split("=") for part in count.split(","))
        yield {"what": "set", "name": "count", "value": {class_name(name): int(n) for name, n in pairs}}
    for name in ("per_exemplar", "diverse"):
        if asked.get(name):
            yield {"what": "set", "name": name, "value": True}
    yield from _verdicts(path, asked)


def _verdicts(path, asked):
    """Accepted and rejected rows as places; rejected ones are not in the table, so the plan of patches tells."""
    rows = [
        ("accept" if what == "accepted" else "reject", name, row)
        for what in ("accepted", "rejected")
        for name, some in asked.get(what, {}).items()
        for row in some
    ]
    if not rows:
        return
    centres = _centres(path, [row for *_, row in rows])
    for (what, name, _), (place, along) in zip(rows, centres, strict=True):
        if place is not None:
            yield {"what": what, "class": name, "place": place, "along": along}


def _centres(path, rows):
    """Place and direction of rows of the index of a folder of 0.1.0, None where the volume is not at hand."""
    from outcrop.patches.grid import PatchGrid

    record = _record(path) or {}
    source, options = _source(record, {})
    if not (source and Path(source).exists()):
        table = pd.read_csv(path / "retrieved.csv").set_index("row") if (path / "retrieved.csv").is_file() else None
        vertical = "depth" if table is not None and "depth" in table else "time"
        for row in rows:
            if table is None or row not in table.index:
                yield None, ""
            else:
                one = table.loc[row]
                yield [float(one[name]) for name in ("inline", "crossline", vertical)], str(one["along"])
        return
    names = [name for name in GRID if name not in ("truncate", "finest")]
    volume = open_volume(source, **options)
    grid = PatchGrid(volume, **{name: record["index"][name] for name in names if name in record["index"]})
    for _, one in grid.centres(rows).iterrows():
        yield [float(one[name]) for name in volume.dims], str(one["along"])


def _painted(path):
    """Strokes of ``painted.csv``, one for each class and section in their order."""
    if not (path / "painted.csv").is_file():
        return
    table = pd.read_csv(path / "painted.csv")
    change = (table[["class", "along", "line"]] != table[["class", "along", "line"]].shift()).any(axis=1).cumsum()
    for _, some in table.groupby(change, sort=False):
        first = some.iloc[0]
        runs = some[["trace", "first", "last"]].to_numpy(float).tolist()
        line = float(first["line"])
        yield {"what": "stroke", "class": str(first["class"]), "along": str(first["along"]), "line": line, "runs": runs}
