"""Decisions imported from other jobs: their order, and which entries are in force.

An imported file is copied into the job, and the field ``import`` of each of its entries names the file. An entry that
was imported twice, from job to job, names both files; this list is the scope of the entry. For each import, the job
also writes an entry of kind ``import`` with the time; undoing that entry removes all entries of the file. Entries of
one file change each other as in their own job; they change no other entries.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.state import State

Entry = dict[str, Any]
Scope = tuple[str, ...]
# Kinds of entries that change earlier entries.
CHANGES = ("rename", "remove class", "move", "remove", "forget", "unconfirm", "undo", "redo")


def scope(entry: Entry) -> Scope:
    """Return the names of the files through which an entry was imported, the last import first; () for own entries."""
    return tuple(entry.get("import", ()))


def entries_in_force(entries: Sequence[Entry]) -> set[tuple[Scope, str]]:
    """Return a set of (scope, id) of the entries in force.

    An entry is in force if neither the entry nor the import of one of its files was undone. The scope of an entry is
    the list of files through which it was imported.

    Examples
    --------
    >>> mine = {"id": "1", "what": "import", "name": "f"}
    >>> hers = {"id": "2", "what": "exemplar", "import": ["f"]}
    >>> sorted(entries_in_force([mine, hers]))
    [((), '1'), (('f',), '2')]
    >>> entries_in_force([mine, hers, {"id": "3", "what": "undo", "of": ["1"]}])
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
    """Return the non-empty prefixes of a scope, the shortest first; each of them names one import."""
    return [path[:end] for end in range(1, len(path) + 1)]


def arrange(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries in the order in which they are replayed, without duplicates.

    Imported entries count from the time of the import. Of duplicates the entry of this job is kept, else that of the
    file that was imported last.

    Parameters
    ----------
    entries : list of dict
        Sorted by time.
    """
    in_force = entries_in_force(entries)
    when: dict[Scope, str] = {}  # time of the last import of each file
    for entry in entries:
        if entry["what"] == "import" and (scope(entry), entry["id"]) in in_force:
            when[(*scope(entry), entry["name"])] = entry["time"]
    placed: dict[str, tuple[Any, Any, Entry]] = {}
    for number, entry in enumerate(entries):
        path = scope(entry)
        times = [when.get(part, "") for part in prefixes(path)]
        rank = (not path, (path, entry["id"]) in in_force, times)
        if entry["id"] not in placed or rank > placed[entry["id"]][0]:
            placed[entry["id"]] = rank, ([*times, entry["time"]], number), entry
    return [entry for *_, entry in sorted(placed.values(), key=lambda item: item[1])]


def import_words(entries: Iterable[Entry], name: str, before: "State", after: "State") -> list[str]:
    """Return sentences about the decisions that an import added and the decisions that it left out.

    Parameters
    ----------
    entries : list of dict
        All entries of the job.
    name : str
        Name of the imported file.
    before, after : State
        State before and after the import.
    """
    if before == after:
        return ["Nothing changed: these decisions were imported before, or were undone in their job"]
    kinds = ("classes", "exemplars", "verdicts", "strokes", "confirmed")
    growth = {kind: len(getattr(after, kind)) - len(getattr(before, kind)) for kind in kinds}
    growth["confirmed lines"] = growth.pop("confirmed")
    added = ", ".join(counted(n, kind) for kind, n in growth.items() if n)
    words = [f"Added: {added or 'nothing'}; 'outcrop decisions JOB --undo' removes the whole import"]
    of_file = [entry for entry in entries if scope(entry)[:1] == (name,)]
    options = {entry["name"]: entry["value"] for entry in of_file if entry["what"] == "set"}
    taken = [key for key in options if after.options.get(key) != before.options.get(key)]
    kept = [key for key, value in options.items() if after.options.get(key) != value]
    words += [f"Imported options, because this job had no decisions: {', '.join(sorted(taken))}"] if taken else []
    words += [f"Options left out because this job keeps its own: {', '.join(sorted(kept))}"] if kept else []
    changes = Counter(entry["what"] for entry in of_file if entry["what"] in CHANGES)
    acting = ", ".join(f"{n} {what}" for what, n in changes.items())
    words += [f"Changes in the file (they affect only decisions that came with it): {acting}"] if acting else []
    mine = {(one.place, one.along): (one.name, one.accept) for one in before.verdicts}
    theirs = [entry for entry in of_file if entry["what"] in ("accept", "reject")]
    held = [mine.get((tuple(entry["place"]), entry.get("along", "inline"))) for entry in theirs]
    given = [(entry["class"], entry["what"] == "accept") for entry in theirs]
    other = sum(here not in (None, there) for here, there in zip(held, given, strict=True))
    if other:
        words.append(f"On {counted(other, 'patches')} the imported verdict differs; this job keeps its own")
    return words
