"""The table of retrieved patches: asked for by the decisions, kept under its key, published for people, read back."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
from filelock import FileLock

from outcrop.job.entries import STROKES
from outcrop.job.imports import holding, scope
from outcrop.job.options import RETRIEVE
from outcrop.patches.grid import PatchGrid
from outcrop.retrieval.index import GRID_OPTIONS, drop_damaged
from outcrop.retrieval.ranking import retrieve
from outcrop.retrieval.weak import read_table
from outcrop.storage.stages import append_line, digest, read_lines
from outcrop.storage.workspace import Damaged, whole_file

CODE = 4  # raised when the same inputs would give another table
TABLE = "retrieved.csv"
FACTS = ("suggested", "accepted", "rejected")  # of weak labels, by class, that the table does not have
PUBLISHED = "published.txt"  # what this program wrote to it, the last line last
DOUBTFUL = 0.5  # estimated share of wrong patches from which a class is warned about
MOST = 0.5  # share of the index from which a class is warned about


def retrieval_options(state):
    """What else the decisions ask of `outcrop.retrieve`, by first names of classes: verdicts, counts, ways."""
    verdicts: dict = {"accepted": {}, "rejected": {}}
    queries = state.queries()
    for one in sorted(state.verdicts, key=lambda one: (one.place, one.along)):
        if one.name in queries:
            verdicts["accepted" if one.accept else "rejected"].setdefault(one.name, []).append([*one.place, one.along])
    return verdicts | {name: state.options.get(name, default) for name, default in RETRIEVE.items()}


def retrieved_key(state, index_key):
    """Key of the table that the decisions lead to, None where there is no exemplar."""
    return digest("retrieved", _inputs(state, index_key)) if state.queries() else None


def _inputs(state, index_key):
    """What a table is made from, in plain values."""
    exemplars = {name: [one.packed or list(one.place) for one in some] for name, some in state.queries().items()}
    options = retrieval_options(state)
    code = CODE + bool(options["rejected"])  # since 5 a rejected patch is barred from its own class only
    made_from = {"index": index_key, "code": code, "classes": list(exemplars), "exemplars": exemplars}
    return made_from | options


def retrieved(job, index, state, *, device=None):
    """The table that decisions lead to, made where it is not there.

    Returns
    -------
    key : str
    weak : WeakLabels
        Classes under their present names.
    """
    key = job.stages.begin("retrieved", _inputs(state, index.key))
    folder, weak = job.stages.path("retrieved", key), None
    if (folder / "table.csv").is_file():
        try:
            weak = _read(folder, index)
        except ValueError:  # damaged: it is made again, and what was there is kept
            job.stages.set_aside("retrieved", key, "table.csv")
            job.stages.set_aside("retrieved", key, "facts.json")
    return key, _renamed(weak or _make(job, index, state, key, device), state)


def kept(job, state):
    """The table that decisions lead to where it was made before, None where it was not; nothing is written."""
    key = retrieved_key(state, job.index_key(state))
    folder = None if key is None else job.stages.path("retrieved", key)
    if folder is None or not (folder / "table.csv").is_file() or not job.indexed(state):
        return None
    try:
        return _renamed(_read(folder, job.open_index(state)), state)
    except ValueError:  # damaged: the next search makes it again
        return None


def newest(job, state):
    """Key and patches of the table that was made last, of whatever decisions; None where none can be read."""
    for key, *_ in reversed(job.stages.journal("retrieved")):
        index = job.stages.facts("retrieved", key).get("inputs", {}).get("index", "")
        given = job.stages.facts("index", index).get("inputs")
        if not given:
            continue
        options = {name: given[name] for name in GRID_OPTIONS if name != "between"}  # its files may be others by now
        about = SimpleNamespace(volume=job.volume, grid=PatchGrid(job.volume, **options))
        try:
            return key, _renamed(_read(job.stages.path("retrieved", key), about), state)
        except ValueError:  # damaged
            continue
    return None


def earlier(job):
    """Tables of the same index that earlier decisions led to, the last one first, by their column `row`."""
    state = job.state
    index = job.open_index(state)
    for key, *_ in reversed(job.stages.journal("retrieved")):
        if job.stages.facts("retrieved", key).get("inputs", {}).get("index") == index.key:
            try:
                weak = _read(job.stages.path("retrieved", key), index)
            except ValueError:  # damaged
                continue
            yield _renamed(weak, state).table.set_index("row")


def _make(job, index, state, key, device):
    """Search, and keep the table; the weak labels are those that `_read` would give."""
    exemplars = fitting(index.grid, state)
    if not exemplars:
        raise ValueError(
            "No exemplar lies inside the volume with the whole of its patch; move one, or choose a smaller size."
        )
    options = retrieval_options(state)
    if isinstance(options["count"], dict):
        options["count"] = {name: n for name, n in options["count"].items() if name in exemplars}
    options["count"] = _bounded(options["count"], index)
    options.pop("diverse")  # an option of older jobs that has no effect any more
    try:
        weak = retrieve(index, exemplars, **options, device=device)
    except Damaged:
        drop_damaged(job.path, index)
        job._opened.pop("index", None)
        raise
    weak.similarity, weak.weights = np.round(weak.similarity.astype(float), 6), np.round(weak.weights, 4)
    weak.curves = {name: np.round(curve.astype(float), 6) for name, curve in weak.curves.items()}
    folder = job.stages.path("retrieved", key)
    facts = {name: getattr(weak, name) for name in FACTS}
    facts["curves"] = {name: curve.tolist() for name, curve in weak.curves.items()}
    with whole_file(folder / "facts.json") as aside:
        aside.write_text(json.dumps(facts), encoding="utf-8")
    weak.save(folder / "table.csv")
    job.stages.note("retrieved", key)
    return weak


def _bounded(count, index):
    """A count that was decided for another index is no more than this one has."""
    usable = int((index.status == 0).sum())
    if isinstance(count, dict):
        return {name: n if n == "auto" else min(n, usable) for name, n in count.items()}
    return count if count == "auto" else min(count, usable)


def fitting(grid, state):
    """Exemplars as `outcrop.retrieve` takes them, by class, without those whose patch is not all in the volume."""
    found = {name: [one.patch for one in some if fits(grid, one)] for name, some in state.queries().items()}
    return {name: some for name, some in found.items() if some}


def fits(grid, exemplar):
    """Whether the whole patch of an exemplar is in the volume; a picture needs no place in it."""
    try:
        return exemplar.place is None or grid.start_at(exemplar.place) is not None
    except ValueError:
        return False


def _read(folder, index):
    """Weak labels that `_make` kept, classes by their first names."""
    weak = read_table(folder / "table.csv", index)
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        weak.curves = {name: np.array(curve) for name, curve in facts["curves"].items()}
        for name in FACTS:
            setattr(weak, name, facts[name])
    except (OSError, KeyError, AttributeError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder} is damaged ({error}).") from None
    return weak


def _renamed(weak, state):
    """Weak labels under the present names of the classes."""
    names = {first: about["name"] for first, about in state.classes.items()}
    weak.classes = np.array([names.get(name, name) for name in weak.classes], str)
    for what in (*FACTS, "curves"):
        setattr(weak, what, {names.get(name, name): value for name, value in getattr(weak, what).items()})
    return weak


def warnings(weak, usable):
    """Sentences about classes that take most of the index, and about those that are likely wrong."""
    counts = pd.Series(weak.classes).value_counts(sort=False)
    doubtful = [
        f"{wrong:.0%} of the patches of {name!r} are likely wrong; take fewer (--count), another exemplar, or some "
        "verdicts back."
        for name, wrong in weak.wrong.items()
        if wrong > DOUBTFUL
    ]
    return doubtful + [
        f"Class {name!r} takes {n} of the {usable} patches of the index; a smaller step (more patches) or a smaller "
        "count keeps it to what really looks like it."
        for name, n in counts.items()
        if n > MOST * usable
    ]


def class_counts(path):
    """Patches of every class in a table, empty where it cannot be read."""
    try:
        return pd.read_csv(path, usecols=["class"], dtype=str)["class"].value_counts(sort=False).to_dict()
    except (OSError, ValueError):
        return {}


# ---- for people ----------------------------------------------------------------------------------------------------


def publish(job, key, weak):
    """Write the table for people as ``retrieved.csv``, where it is not that already."""
    text = weak.table.to_csv(index=False)
    path, known = job.path / TABLE, hashlib.sha256(text.encode()).hexdigest()
    folder = job.stages.root / "retrieved"
    copy = folder / f"published-{known[:16]}.csv"
    if _last_published(job) == [known] and copy.is_file() and _content(path) == known:
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


def _last_published(job):
    """Content of ``retrieved.csv`` as this program left it; two of them where a kill came between note and table."""
    rows = [line.split() for line in read_lines(job.stages.root / "retrieved" / PUBLISHED) if line.strip()]
    for number in range(len(rows) - 1, -1, -1):
        if rows[number][1:] in (["written"], ["edited"]):
            return list(dict.fromkeys(row[0] for row in [rows[number], *rows[number + 1 :]]))
    return [row[0] for row in rows[-2:]]  # of an older program, which noted nothing after the table


def _content(path):
    """Digest of a file, None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def edited(job):
    """Whether ``retrieved.csv`` was changed by hand since this program wrote it."""
    known, content = _last_published(job), _content(job.path / TABLE)
    return content is not None and bool(known) and content not in known


def published(job):
    """The table that people see, by row; None where there is none or it cannot be read."""
    try:
        table = pd.read_csv(job.path / TABLE, dtype={"class": str})
        return table.set_index("row")[["class", *job.volume.dims, "along"]]
    except (OSError, ValueError, KeyError):
        return None


def take_edits(job, index):
    """Take what was changed in ``retrieved.csv`` by hand as decisions; a sentence that says so, or nothing.

    A row that is gone is a no to that patch, a row that is new a yes, one with another class both.
    """
    path, folder = job.path / TABLE, job.stages.root / "retrieved"
    if not edited(job):
        return []
    content = path.read_bytes()
    last = _last_published(job)[-1][:16]
    base = next((copy for kind in ("published", "edited") if (copy := folder / f"{kind}-{last}.csv").is_file()), None)
    if base is None:
        return [f"{path} was edited by hand, and what it was before is gone: the edit is not taken. Use --reject."]
    before, after = (_patches(read_table(table, index), index) for table in (base, path))
    if not after:
        raise ValueError(
            f"{path} holds no patch any more; to reject all of them say so with --reject, or remove the file."
        )
    for name in {name for name, _ in before} - {name for name, _ in after}:
        raise ValueError(
            f"{path} holds no patch of {name!r} any more, as if it was cut off; put rows back, or remove the file, and "
            "say with --reject which are wrong."
        )
    gone, new = before - after, after - before
    known = {facts["name"]: first for first, facts in job.state.classes.items()}
    rejects = [(name, place) for name, place in gone if name in known]
    made, entries = [], []
    for name, (*place, along) in sorted(rejects):
        if not any((name, place) != other and tuple([*place, along]) == other[1] for other in new):
            entries.append({"what": "reject", "class": known[name], "place": place, "along": along})
    for name, (*place, along) in sorted(new):
        if name not in known:
            extra, known[name] = job._new_class(name)
            made += extra
        entries.append({"what": "accept", "class": known[name], "place": place, "along": along})
    if entries:
        job._decide(*made, *entries)
    with whole_file(folder / f"edited-{hashlib.sha256(content).hexdigest()[:16]}.csv") as aside:
        aside.write_bytes(content)
    append_line(folder / PUBLISHED, f"{hashlib.sha256(content).hexdigest()} edited")
    if not entries:
        return []
    named = [entry["class"] for entry in made if entry["what"] == "class"]
    classes = f" New classes: {', '.join(named)}." if named else ""
    return [f"{path} was edited by hand: {len(gone)} rows taken out and {len(new)} added count as no and yes.{classes}"]


def _patches(weak, index):
    """Class and place of the patches of a table."""
    dims = list(index.volume.dims)
    places = weak.positions[dims].to_numpy(float).tolist()
    along = [str(name) for name in weak.positions["along"]]
    return {(str(name), (*place, way)) for name, place, way in zip(weak.classes, places, along, strict=True)}


def summarise(weak):
    """Per class: how many patches, how similar, how many are suggested, what share is likely wrong."""
    rows = {}
    for name in dict.fromkeys(weak.classes):
        similarity = weak.similarity[weak.classes == name]
        rows[str(name)] = {
            "patches": len(similarity), "best": round(float(similarity[0]), 4), "last": round(float(similarity[-1]), 4),
            "suggested": weak.suggested[name], "wrong": round(weak.wrong[name], 3),
        }  # fmt: skip
    return rows


def decisions_table(entries):
    """Decisions as a DataFrame that people read: when, who, from where, what, class, where, and whether it holds."""
    holds = holding(entries)
    rows = [
        {
            "when": pd.Timestamp(entry["time"]),
            "who": entry["who"],
            "from": entry.get("from", ""),
            "what": entry["what"],
            "class": entry.get("class", ""),
            "where": _where(entry),
            "undone": (scope(entry), entry["id"]) not in holds,
            "id": entry["id"],
        }
        for entry in entries
    ]
    return pd.DataFrame(rows, columns=["when", "who", "from", "what", "class", "where", "undone", "id"])


def _where(entry):
    """Place, section or value of a decision in words."""
    if entry["what"] in STROKES:
        line = entry["line"] if "runs" in entry else entry["points"][0][0 if entry["along"] == "inline" else 1]
        return f"{entry['along']} {line:g}"
    if "place" in entry:
        place = ", ".join(f"{part:g}" for part in entry["place"])
        return f"{place}: {entry['answer']}" if entry["what"] == "audit" else place
    if entry["what"] == "set":
        return f"{entry['name']} = {json.dumps(entry['value'])}"
    return str(entry.get("name") or entry.get("colour") or ("picture" if "picture" in entry else ""))
