"""What is decided and done in a job, what would run next, and what space could be freed."""

import contextlib
import shlex
from typing import Any

import numpy as np
import zarr

from outcrop.job import tables
from outcrop.job.folder import QUICK
from outcrop.job.fusion import CrossLabelling
from outcrop.job.labelling import Labelling
from outcrop.job.votes import VoteStore
from outcrop.storage.chunks import stored_bytes


def status(job):
    """What a program or a person wants to know of a job; nothing is computed and nothing is written.

    Returns
    -------
    dict
        ``volume``, and in ``volume_unread`` what is not known of it; ``classes`` (name -> code) and ``background``;
        ``decisions``, how many of each kind; ``writers``; ``retrieved`` (class -> patches) with ``retrieved_stale``
        where the table is of older decisions and ``retrieved_edited`` where it was edited by hand; ``lines``
        (``total``, ``labelled``, ``stale``); ``index``, ``label``: options and how far they got; ``keys``; ``damaged``,
        lines of decisions that cannot be read; ``disk``, bytes of index and votes, a patch and a labelled sample;
        ``next``, a command line, or Python where the volume is an array.
    """
    try:
        unread = job.check_volume(most=QUICK)
    except (ValueError, OSError) as error:  # the file that is there now is another one, or none
        unread = str(error)
    state, known = job.state, job.known
    verdicts = [one.accept for one in state.verdicts]
    work = Labelling(job)
    lines = work.lines()
    stale = sum(lines.values())
    retrieved, old = _retrieved(job, state)
    report = {
        "volume": known["source"] or "array",
        "volume_unread": unread,
        "classes": job.classes,
        "background": job.background,
        "decisions": {
            "exemplars": len(state.exemplars),
            "accepted": sum(verdicts),
            "rejected": len(verdicts) - sum(verdicts),
            "strokes": len(state.strokes),
        },
        "writers": sorted({entry["who"] for entry in job.log.entries}),
        "retrieved": retrieved,
        "retrieved_stale": old,
        "retrieved_edited": tables.edited(job),
        "lines": {"total": known["shape"][work.along], "labelled": len(lines), "stale": stale},
        "index": job.index_options(state) | {"finished": job.indexed()},
        "label": work.options | state.options.get("limits", {}),
        "keys": {
            "volume": known["digest"],
            "index": job.index_key(state),
            "retrieved": job.retrieved_key(state),
            "mapper": work.mapper_key(),
            "votes": work.votes_key(),
        },
        "damaged": dict(job.log.damaged),
        "disk": _disk(job, work, state),
    }
    report["next"] = _next(job, report)
    return report


def _disk(job, work, state):
    """Bytes of the descriptors of the index and of the votes of all labelled lines, and what one patch and sample take.

    What is not there, or cannot be read, is left out.
    """
    found = {}
    index = job.index_key(state)
    with contextlib.suppress(ValueError, OSError, KeyError):
        features: Any = zarr.open_group(job.stages.path("index", index) / "features.zarr", mode="r")["features"]
        if job.indexed():
            found["index"] = stored_bytes(features)
            found["bytes_a_patch"] = round(found["index"] / features.shape[0], 1)
    with contextlib.suppress(ValueError, OSError, KeyError):
        sources = work.sources()
        stores = [VoteStore(job.stages.path("votes", key)) for key in sorted(set(sources.values()))]
        if stores:
            lines = sum(len(store.done.read()) for store in stores)
            found["votes"] = sum(stored_bytes(store.votes) for store in stores)
            found["bytes_a_sample"] = round(found["votes"] / (lines * np.prod(stores[0].votes.shape[2:])), 3)
    return found


def _retrieved(job, state):
    """Patches of every class in the table of the present decisions, or in the last one made; whether it is older."""
    key = job.retrieved_key(state)
    current = key is not None and (job.stages.path("retrieved", key) / "table.csv").is_file()
    if not current:
        key = job.stages.last("retrieved")
    if key is None:
        return {}, False
    counts = tables.class_counts(job.stages.path("retrieved", key) / "table.csv")
    names = {first: facts["name"] for first, facts in state.classes.items()}
    return {names.get(name, name): n for name, n in counts.items()}, not current


def _next(job, report):
    """The command that would go on."""
    name, lines = shlex.quote(str(job.path)), report["lines"]
    if report["volume"] == "array":
        ready = lines["labelled"] and not lines["stale"]
        step = 'export("labels.zarr")' if ready else "label()" if report["keys"]["mapper"] else "add_exemplar(...)"
        return f"oc.Job({str(job.path)!r}, volume=array).{step}"
    if report["label"]["mapper"]:
        ready = lines["labelled"] and not lines["stale"]
        return f"outcrop export {name} labels.sgy" if ready else f"outcrop label {name}"
    if not report["index"]["finished"]:
        return f"outcrop index {shlex.quote(report['volume'])} -o {name}"
    if report["keys"]["retrieved"] is None:
        return f"outcrop retrieve {name} --exemplar CLASS=INLINE,CROSSLINE,TIME"
    if not report["retrieved"] or report["retrieved_stale"] or report["retrieved_edited"]:
        return f"outcrop retrieve {name}"
    if lines["labelled"] == 0 or lines["stale"]:
        return f"outcrop label {name}"
    return f"outcrop export {name} labels.sgy"


def clean(job, *, keep=None, dry_run=False):
    """Remove stages that the present decisions do not lead to and that show nothing any more.

    Parameters
    ----------
    job : Job
    keep : int, optional
        Bytes that older stages may go on to take, the newest first.
    dry_run : bool
        Only say what would be removed.

    Returns
    -------
    list of dict
        ``kind``, ``key``, ``bytes``, ``made`` and ``removed`` of every stage but those in use.
    """
    stages, used = job.stages, in_use(job)
    rows = []
    for (kind, key), size in stages.sizes().items():
        if (kind, key) not in used:
            made = stages.facts(kind, key).get("made", "")
            rows.append({"kind": kind, "key": key, "bytes": size, "made": made})
    rows.sort(key=lambda row: row["made"], reverse=True)
    total = 0
    for row in rows:
        total += row["bytes"]
        row["removed"] = not dry_run and total > (keep or 0)
        if row["removed"]:
            stages.remove(row["kind"], row["key"])
    return rows


def in_use(job):
    """Stages that the present decisions lead to, and those whose labels are shown: (kind, key)."""
    work = Labelling(job)
    keys = {("index", job.index_key()), ("retrieved", job.retrieved_key()), ("mapper", work.mapper_key())}
    keys.add(("mapper", work.base_key()))
    keys |= {("votes", work.votes_key()), ("votes", CrossLabelling(job).votes_key())}
    keys |= {("votes", key) for key in work.sources().values()}
    keys |= {(kind, job.stages.last(kind)) for kind in ("net", "faults")}
    if not job.indexed():  # made by build_index alone
        keys.add(("index", job.stages.last("index")))
    return keys
