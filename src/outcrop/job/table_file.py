"""``retrieved.csv``: the retrieved patches as a table, and edits that a person makes in it."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from filelock import FileLock

from outcrop.retrieval.index import Index
from outcrop.retrieval.weak import WeakLabels, read_table
from outcrop.storage.stages import append_line, read_lines
from outcrop.storage.workspace import whole_file
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

TABLE = "retrieved.csv"
REMEDY = "Name the wrong patches with 'outcrop retrieve --reject' or Job.reject()"
PUBLISHED = "published.txt"  # digests of the tables that this program wrote, the latest last


def publish(job: "Job", key: str, weak: WeakLabels) -> None:
    """Write the retrieved patches `weak`, stored under a cache key, to ``retrieved.csv``; skip an unchanged table."""
    text = weak.table.to_csv(index=False)
    path, known = job.path / TABLE, hashlib.sha256(text.encode()).hexdigest()
    folder = job.stages.root / "retrieved"
    copy = folder / f"published-{known[:16]}.csv"
    if _last_written(job) == [known] and copy.is_file() and _content(path) == known:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".published.lock", timeout=10):
        with whole_file(copy) as aside:
            aside.write_text(text, encoding="utf-8", newline="")
        append_line(folder / PUBLISHED, f"{known} {key}")
        with whole_file(path) as aside:
            aside.write_text(text, encoding="utf-8", newline="")
        append_line(folder / PUBLISHED, f"{known} written")
        for old in folder.glob("published-*.csv"):
            if old != copy:
                old.unlink(missing_ok=True)


def _last_written(job: "Job") -> list[str]:
    """Return a list with the digest of the last table written; two digests if the program was killed while writing."""
    rows = [line.split() for line in read_lines(job.stages.root / "retrieved" / PUBLISHED) if line.strip()]
    for number in range(len(rows) - 1, -1, -1):
        if rows[number][1:] in (["written"], ["edited"]):
            return list(dict.fromkeys(row[0] for row in [rows[number], *rows[number + 1 :]]))
    return [row[0] for row in rows[-2:]]  # older versions wrote no line after the table


def _content(path: Path) -> str | None:
    """Return the digest of a file; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def is_edited(job: "Job") -> bool:
    """Return whether ``retrieved.csv`` was changed by hand since this program wrote it."""
    known, content = _last_written(job), _content(job.path / TABLE)
    return content is not None and bool(known) and content not in known


def published(job: "Job") -> pd.DataFrame | None:
    """Return class, place and direction of the patches in ``retrieved.csv``; None if the file cannot be read."""
    try:
        table = pd.read_csv(job.path / TABLE, dtype={"class": str})
        return table.set_index("row")[["class", *job.volume.dims, "along"]]
    except (OSError, ValueError, KeyError):
        return None


def take_edits(job: "Job", index: Index) -> str:
    """Record edits of ``retrieved.csv`` as verdicts; return a sentence about them, or an empty text without edits.

    A removed row rejects its patch; an added row, and a row with a changed class, accepts its patch for that class.
    """
    path, folder = job.path / TABLE, job.stages.root / "retrieved"
    if not is_edited(job):
        return ""
    content = path.read_bytes()
    last = _last_written(job)[-1][:16]
    base = next((copy for kind in ("published", "edited") if (copy := folder / f"{kind}-{last}.csv").is_file()), None)
    if base is None:
        return f"{path} was edited by hand, and its earlier content is lost, so the edit is ignored. {REMEDY}."
    before, after = (_patches(read_table(table, index), index) for table in (base, path))
    if not after:
        raise ValueError(f"{path} holds no patch; remove the file. {REMEDY}.")
    for name in {name for name, _ in before} - {name for name, _ in after}:
        raise ValueError(
            f"{path} holds no patch of {name!r}, as if its end was cut off; restore the rows, or remove the file. "
            f"{REMEDY}."
        )
    gone, new = before - after, after - before
    added = {place for _, place in new}
    made, entries = [], []
    firsts = dict(job.plan.firsts)
    for name, place in sorted(gone):
        if name in firsts and place not in added:
            entries.append(_verdict("reject", firsts[name], place))
    for name, place in sorted(new):
        if name not in firsts:
            extra, firsts[name] = job._new_class(name)
            made += extra
        entries.append(_verdict("accept", firsts[name], place))
    if entries:
        job._decide(*made, *entries)
    with whole_file(folder / f"edited-{hashlib.sha256(content).hexdigest()[:16]}.csv") as aside:
        aside.write_bytes(content)
    append_line(folder / PUBLISHED, f"{hashlib.sha256(content).hexdigest()} edited")
    if not entries:
        return ""
    named = [entry["class"] for entry in made if entry["what"] == "class"]
    classes = f" New classes: {', '.join(named)}." if named else ""
    rows = f"{counted(len(gone), 'rows')} removed and {len(new)} added count as rejected and accepted patches"
    return f"{path} was edited by hand: {rows}.{classes}"


def _verdict(what: str, name: str, place: tuple[Any, ...]) -> dict[str, Any]:
    """Return the entry of a verdict on a patch, for the file of decisions."""
    return {"what": what, "class": name, "place": list(place[:3]), "along": place[3]}


def _patches(weak: WeakLabels, index: Index) -> set[tuple[str, tuple[Any, ...]]]:
    """Return a set of (class, (inline, crossline, time, direction)) of the patches in a table."""
    dims = list(index.volume.dims)
    places = weak.positions[dims].to_numpy(float).tolist()
    along = [str(name) for name in weak.positions["along"]]
    return {(str(name), (*place, way)) for name, place, way in zip(weak.classes, places, along, strict=True)}


def summarise(weak: WeakLabels) -> dict[str, dict[str, Any]]:
    """Return a dict: class -> facts about its retrieved patches.

    The facts are the number of ``patches``, the similarity of the ``best`` and of the ``last`` patch, and the share of
    patches that are likely ``wrong``.
    """
    rows = {}
    for name in dict.fromkeys(weak.classes):
        similarity = weak.similarity[weak.classes == name]
        rows[str(name)] = {
            "patches": len(similarity),
            "best": round(float(similarity[0]), 4),
            "last": round(float(similarity[-1]), 4),
            "wrong": round(weak.wrong[name], 3),
        }
    return rows
