"""Status of a job: decisions, results, the next command, and disk space that can be freed."""

import contextlib
import shlex
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from outcrop.job import retrieved, table_file
from outcrop.job.advice import next_line
from outcrop.job.decisions import LINES
from outcrop.job.folder import QUICK
from outcrop.job.labelling import labelled_lines, vote_keys
from outcrop.job.plan import Plan
from outcrop.job.sections import labelling_grid
from outcrop.labels.vote_store import VoteStore
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.chunks import stored_bytes
from outcrop.volumes.folders import KINDS
from outcrop.volumes.identity import place_of
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job


def checked_lines(job: "Job", *, stale: bool = False, option: bool = True) -> dict[int, bool]:
    """Return a dict: position of each labelled line -> whether it is stale; raise ValueError if no line is labelled.

    Parameters
    ----------
    stale : bool
        If True, stale lines are accepted; if False, they raise ValueError.
    option : bool
        If True, the message about stale lines proposes the option ``--stale``.
    """
    lines = job.labelled
    if not lines:
        raise ValueError(f"{job.path} has no labels yet; run 'outcrop label {job.path}', or Job.label(), first.")
    old = sum(lines.values())
    if old and not stale:
        message = (
            f"{old} of {counted(len(lines), 'labelled lines', 'are')} stale (labelled from older decisions or "
            f"samples); run 'outcrop label {job.path}' or Job.label() to bring them up to date, or use them unchanged "
            "with --stale (in Python: stale=True)."
        )
        raise ValueError(message if option else message.partition(", or use")[0] + ".")
    return lines


def status(job: "Job") -> dict[str, Any]:
    """Return decisions, results and the next command of a job; nothing is computed or written.

    Returns
    -------
    dict
        ``volume``: its path, or ``array``. ``volume_unread``: a sentence if the volume is missing or was not compared,
        else empty. ``classes``: name -> code. ``background``: name of this class. ``decisions``: their number by kind.
        ``audits``: number of answers by subject. ``writers``: their names.
        ``retrieved``: class -> number of retrieved patches. ``retrieved_stale``: whether they are older than the
        decisions. ``retrieved_edited``: whether the table of these patches was edited by hand.
        ``lines``: number of lines, by ``total``, ``labelled``, ``stale`` and ``confirmed``. ``index``: its options, and
        whether it is ``finished``. ``label``: its options. ``keys``: cache key of each stage.
        ``damaged``: file -> number of decisions that cannot be read. ``disk``: bytes of index, survey subset, mappers
        and votes, and bytes per patch and per labelled sample.
        ``next``: the next command line, or Python statement if the volume is an array. ``correct_next``: the line to
        correct next and a place on it, see `next_line`; None if no line is confirmed.
    """
    try:
        unread = job._check_volume(most=QUICK)
        place = place_of(job.path, job.plan.volume)
        if place != job.plan.volume["source"] and place:
            unread = f"The volume was at {job.plan.volume['source']}. {unread}".rstrip()
    except (ValueError, OSError) as error:  # the file is missing, or holds another volume
        unread = str(error)
    plan = job.plan
    state, known = plan.state, plan.volume
    verdicts = [one.accept for one in state.verdicts]
    lines = labelled_lines(job, plan)
    stale = sum(lines.values())
    along = DIRECTIONS[plan.along]
    confirmed = len({one["line"] for one in state.confirmed if one["along"] == along and not one.get("part")})
    counts, old = _retrieved(job, plan)
    lost = {one["file"] for one in job.log.state().confirmed if job.log.line_files.problem(one["file"])}
    report = {
        "volume": place_of(job.path, known) or known["source"] or "array",
        "volume_unread": unread,
        "classes": job.classes,
        "background": job.plan.background_name,
        "decisions": {
            "exemplars": len(state.exemplars),
            "accepted": sum(verdicts),
            "rejected": len(verdicts) - sum(verdicts),
            "strokes": len(state.strokes),
            "confirmed": len({(one["along"], one["line"]) for one in state.confirmed}),
        },
        "audits": dict(Counter(one["subject"] for one in state.audits)),
        "writers": sorted({entry["who"] for entry in job.log.entries}),
        "retrieved": counts,
        "retrieved_stale": old,
        "retrieved_edited": table_file.is_edited(job),
        "lines": {"total": known["shape"][plan.along], "labelled": len(lines), "stale": stale, "confirmed": confirmed},
        "index": asdict(plan.index) | {"finished": job._indexed(job.plan)},
        "label": asdict(plan.label),
        "keys": plan.keys,
        "damaged": job.log.damaged | {f"{LINES}/{name}.npz": 1 for name in sorted(lost)},
        "disk": _disk(job, plan),
    }
    report["next"] = _next(job, report)
    report["correct_next"] = None
    if confirmed:
        with contextlib.suppress(ValueError, OSError):  # volume or votes are missing
            report["correct_next"] = next_line(job, plan)
    return report


def _disk(job: "Job", plan: Plan) -> dict[str, float]:
    """Return the bytes of index, survey subset, mappers and votes, and the bytes per patch and per labelled sample.

    Results that are missing or cannot be read are left out.
    """
    found: dict[str, float] = {}
    with contextlib.suppress(ValueError, OSError, KeyError):
        folder = job.stages.path("index", plan.index_stage.key)
        features: Any = zarr.open_group(folder / "features.zarr", mode="r")["features"]
        if job._indexed(job.plan):
            found["index"] = stored_bytes(features)
            found["bytes_a_patch"] = round(found["index"] / features.shape[0], 1)
    for kind in ("survey", "mapper"):
        with contextlib.suppress(OSError):
            files = (job.stages.root / kind).rglob("*")
            found |= {kind: size} if (size := sum(file.stat().st_size for file in files if file.is_file())) else {}
    with contextlib.suppress(ValueError, OSError, KeyError):
        stores = [VoteStore(job.stages.path("votes", key)) for key in sorted(set(vote_keys(job, plan).values()))]
        if stores:
            lines = sum(len(store.done.read()) for store in stores)
            found["votes"] = sum(stored_bytes(store.votes) for store in stores)
            found["bytes_a_sample"] = round(found["votes"] / (lines * np.prod(stores[0].votes.shape[2:])), 3)
    return found


def _retrieved(job: "Job", plan: Plan) -> tuple[dict[str, int], bool]:
    """Return a dict, class -> number of retrieved patches, and whether these patches are stale.

    They are the patches that `plan` retrieves; if those are not stored, the patches of the last search.
    """
    key = plan.keys["retrieved"]
    current = key is not None and retrieved.is_stored(job.stages.path("retrieved", key))
    if not current:
        key = job.stages.last("retrieved")
    if key is None:
        return {}, False
    counts = retrieved.class_counts(job.stages.path("retrieved", key))
    return {plan.names.get(name, name): n for name, n in counts.items()}, not current


def _next(job: "Job", report: dict[str, Any]) -> str:
    """Return the command line that a user should run next; for a volume in an array, a Python statement.

    `report` is the dict that `status` returns.
    """
    name, lines, able = shlex.quote(str(job.path)), report["lines"], report["lines"]["total"]
    if 0 < lines["labelled"] < able:
        with contextlib.suppress(ValueError, OSError):  # the volume is missing
            grid = labelling_grid(job, job.plan)
            able = len(grid.live_lines() if job.plan.by_points else list(grid.lines()))
    ready = 0 < lines["labelled"] >= able and not lines["stale"]
    if job.plan.volume["source"] and not place_of(job.path, job.plan.volume):
        return f"outcrop index VOLUME -o {name}"
    if report["volume"] == "array":
        step = 'export("labels.zarr")' if ready else "label()" if report["keys"]["mapper"] else "add_exemplar(...)"
        return f"oc.Job({str(job.path)!r}, volume=array).{step}"
    export = f"outcrop export {name} labels{_export_suffix(report['volume'])}"
    has_mapper = job.plan.by_points and report["keys"]["mapper"] and not report["retrieved_edited"]
    if report["label"]["mapper"] or has_mapper:
        return export if ready else f"outcrop label {name}"
    if job.plan.by_points and not report["retrieved_edited"]:
        return f"outcrop label {name} --exemplar CLASS=INLINE,CROSSLINE,TIME"
    if not report["index"]["finished"]:
        return f"outcrop index {shlex.quote(report['volume'])} -o {name}"
    if report["keys"]["retrieved"] is None:
        return f"outcrop retrieve {name} --exemplar CLASS=INLINE,CROSSLINE,TIME"
    if not report["retrieved"] or report["retrieved_stale"] or report["retrieved_edited"]:
        return f"outcrop retrieve {name}"
    return export if ready else f"outcrop label {name}"


def _export_suffix(volume: str) -> str:
    """Return the file suffix to export labels with: .npy for a NumPy volume, .png for a picture, otherwise .sgy."""
    suffix = Path(volume).suffix.lower()
    return ".npy" if suffix == ".npy" else ".png" if suffix in KINDS["pictures"] else ".sgy"


def clean(job: "Job", *, keep: int | None = None, dry_run: bool = False) -> list[dict[str, Any]]:
    """Remove results that neither the present decisions nor the present labels, including stale ones, use.

    Parameters
    ----------
    job : Job
    keep : int, optional
        Bytes of unused results to keep, the newest first.
    dry_run : bool
        If True, nothing is removed.

    Returns
    -------
    list of dict
        For every result that is not in use: ``kind`` and ``key`` (cache key), its size in ``bytes``, the time when it
        was ``made``, and whether it was ``removed``.
    """
    stages, used = job.stages, in_use(job)
    rows: list[dict[str, Any]] = [
        {"kind": kind, "key": key, "bytes": size, "made": stages.facts(kind, key).get("made", "")}
        for (kind, key), size in stages.sizes().items()
        if (kind, key) not in used
    ]
    rows.sort(key=lambda row: row["made"], reverse=True)
    total = 0
    for row in rows:
        total += row["bytes"]
        row["removed"] = not dry_run and total > (keep or 0)
        if row["removed"]:
            stages.remove(row["kind"], row["key"])
    return rows


def in_use(job: "Job") -> set[tuple[str, str | None]]:
    """Return a set of (kind, cache key) of the results that the present decisions or labels use.

    Stale labels are included.
    """
    plan = job.plan
    keys: set[tuple[str, str | None]] = {(kind, key) for kind, key in plan.keys.items() if kind != "volume"}
    for one in (plan, replace(plan, across=True)):
        keys |= {("survey", one.survey_stage.key), ("mapper", one.mapper_key), ("votes", one.keys["votes"])}
    keys |= {("votes", key) for key in vote_keys(job, plan).values()}
    keys |= {(kind, job.stages.last(kind)) for kind in ("net", "faults")}
    if not job._indexed(job.plan):  # made by build_index alone
        keys.add(("index", job.stages.last("index")))
    return keys
