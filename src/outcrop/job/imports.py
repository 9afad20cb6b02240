"""Decisions that came from another job: in which order they count, and which of them hold.

A file that is taken over is kept whole, and each of its entries names it in ``import``: a list, so that an import of
an import keeps both names. An entry ``import`` of the writer who took it over says when; undoing that entry takes the
whole file out again. Entries of one file act on each other as they did where they were made, and on nothing else.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.state import State

Entry = dict[str, Any]
Scope = tuple[str, ...]
# Entries that act on earlier ones.
CHANGES = ("rename", "remove class", "move", "remove", "forget", "unconfirm", "undo", "redo")


def scope(entry: Entry) -> Scope:
    """Return the files through which an entry came, the last one first; empty for what was decided in this job."""
    return tuple(entry.get("import", ()))


def holding(entries: Sequence[Entry]) -> set[tuple[Scope, str]]:
    """Return which entries were not undone and are of no file that was taken out again, as (scope, id).

    Examples
    --------
    >>> mine = {"id": "1", "what": "import", "name": "f"}
    >>> hers = {"id": "2", "what": "exemplar", "import": ["f"]}
    >>> sorted(holding([mine, hers]))
    [((), '1'), (('f',), '2')]
    >>> holding([mine, hers, {"id": "3", "what": "undo", "of": ["1"]}])
    {((), '3')}
    """
    undone: set[tuple[Scope, str]] = set()
    for entry in entries:
        if entry["what"] == "undo":
            undone.update((scope(entry), one) for one in entry["of"])
        elif entry["what"] == "redo":
            undone.difference_update((scope(entry), one) for one in entry["of"])
    left = [entry for entry in entries if (scope(entry), entry["id"]) not in undone]
    taken = {(*scope(entry), entry["name"]) for entry in left if entry["what"] == "import"}
    return {(scope(entry), entry["id"]) for entry in left if all(part in taken for part in prefixes(scope(entry)))}


def prefixes(path: Scope) -> list[Scope]:
    """Return the beginnings of a tuple, the shortest first, itself last; none of the empty one."""
    return [path[:end] for end in range(1, len(path) + 1)]


def arrange(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries in the order in which they count, each of them once.

    What was imported counts when it was imported. Of an entry that is there twice the one decided in this job counts,
    else the one of the file that was taken over last.

    Parameters
    ----------
    entries : list of dict
        In the order of their time.
    """
    holds = holding(entries)
    when: dict[Scope, str] = {}  # of the last time that a file was taken over
    for entry in entries:
        if entry["what"] == "import" and (scope(entry), entry["id"]) in holds:
            when[(*scope(entry), entry["name"])] = entry["time"]
    placed: dict[str, tuple[Any, Any, Entry]] = {}
    for number, entry in enumerate(entries):
        path = scope(entry)
        times = [when.get(part, "") for part in prefixes(path)]
        rank = (not path, (path, entry["id"]) in holds, times)
        if entry["id"] not in placed or rank > placed[entry["id"]][0]:
            placed[entry["id"]] = rank, ([*times, entry["time"]], number), entry
    return [entry for *_, entry in sorted(placed.values(), key=lambda item: item[1])]


def import_words(entries: Iterable[Entry], name: str, before: "State", after: "State") -> list[str]:
    """Return sentences on what an import changed and what of it was left out.

    Parameters
    ----------
    entries : list of dict
        All entries of the job.
    name : str
        Of the imported file.
    before, after : State
        What held before and holds after it.
    """
    if before == after:
        return ["Nothing changed: its decisions were taken over before, or were undone where they come from"]
    kinds = ("classes", "exemplars", "verdicts", "strokes", "confirmed")
    more = {kind: len(getattr(after, kind)) - len(getattr(before, kind)) for kind in kinds}
    more["confirmed lines"] = more.pop("confirmed")
    added = ", ".join(counted(n, kind) for kind, n in more.items() if n)
    words = [f"New here: {added or 'nothing'}; 'outcrop decisions JOB --undo' takes all of it back"]
    of_file = [entry for entry in entries if scope(entry)[:1] == (name,)]
    options = {entry["name"]: entry["value"] for entry in of_file if entry["what"] == "set"}
    taken = [key for key in options if after.options.get(key) != before.options.get(key)]
    kept = [key for key, value in options.items() if after.options.get(key) != value]
    words += [f"Options taken over, for this job had decided nothing yet: {', '.join(sorted(taken))}"] if taken else []
    words += [f"Options left out, those of this job stay: {', '.join(sorted(kept))}"] if kept else []
    changes = Counter(entry["what"] for entry in of_file if entry["what"] in CHANGES)
    acting = ", ".join(f"{n} {what}" for what, n in changes.items())
    words += [f"Acting on decisions of the imported file alone: {acting}"] if acting else []
    mine = {(one.place, one.along): (one.name, one.accept) for one in before.verdicts}
    theirs = [entry for entry in of_file if entry["what"] in ("accept", "reject")]
    held = [mine.get((tuple(entry["place"]), entry.get("along", "inline"))) for entry in theirs]
    said = [(entry["class"], entry["what"] == "accept") for entry in theirs]
    other = sum(here not in (None, there) for here, there in zip(held, said, strict=True))
    if other:
        words.append(f"On {counted(other, 'patches')} the verdict is another one than here; that of this job stays")
    return words
