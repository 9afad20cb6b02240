"""The stages of a job folder after its index, as the command line and the page run them; nothing is printed."""

import hashlib
import re
import shlex
from typing import Any

import numpy as np
import pandas as pd
import zarr

from outcrop import plots
from outcrop.evaluate import boundary_distance, pixel_scores, zone_scores
from outcrop.export import export_training_set
from outcrop.labels import (
    MAPPERS,
    confidence_for,
    decide,
    label_volume,
    open_labels,
    section_votes,
    stability,
    unchanged,
)
from outcrop.mapping import LabelMapper
from outcrop.nets import NetMapper
from outcrop.painted import keep_painted, painted_patches, supervision
from outcrop.parallel import memory_budget
from outcrop.patches import PatchGrid
from outcrop.retrieval import BLOCK, open_index, read_retrieved, refine, retrieve
from outcrop.train import train
from outcrop.volume import open_volume
from outcrop.workspace import DoneLog, Workspace, damage, remove, whole_file

ACROSS = 1  # lines on either side that vote too
UNLABELLED = 600  # patches from anywhere that nets see beside the retrieved ones
SURE = 1e3  # weight of a patch that was painted, so that a mapper which draws some patches draws it
TRAINING_PATCHES = 3000  # at most, drawn from all labelled lines; neighbouring lines are near-copies


def status(path):
    """What is done in a job folder, with what parameters, and which command would go on.

    Returns
    -------
    dict
        ``volume``; ``index``, ``retrieve``, ``label`` and ``train``, each with its parameters and how far it got (None
        where it was not begun, ``damaged`` where it cannot be read); ``next``, a command line.
    """
    workspace, name = Workspace(path), shlex.quote(str(path))
    job = {key: table for key, table in workspace.read().items() if isinstance(table, dict)}
    source = str(job.get("volume", {}).get("source") or "VOLUME")
    report: dict[str, Any] = {"volume": source, "index": None, "retrieve": None, "label": None, "train": None}
    report["next"] = f"outcrop index {shlex.quote(source)} -o {name}"
    stages = {
        "index": (_index_status, f"outcrop retrieve {name} --exemplar CLASS=INLINE,CROSSLINE,TIME"),
        "retrieve": (_retrieve_status, f"outcrop label {name}"),
        "label": (_label_status, f"outcrop export {name} labels.sgy"),
        "train": (_train_status, f"outcrop export {name} net.sgy --net"),
    }
    for stage, (look, follows) in stages.items():
        try:
            found, finished = look(workspace, job)
        except (ValueError, KeyError, TypeError, OSError) as error:
            found, finished = {"damaged": " ".join(str(error).split())}, False
        report[stage] = found and job.get(stage, {}) | found
        if not finished:
            break
        report["next"] = follows
    return report


def _index_status(workspace, job):
    """How many patches there are and how many are described; whether all are."""
    if not (workspace / "features.zarr").is_dir():
        return None, False
    with damage(workspace / "features.zarr", "remove it and index again"):
        features: Any = zarr.open_group(workspace / "features.zarr", mode="r")
        n = features["status"].shape[0]
    done = DoneLog(workspace / "features.done").read() & set(range(-(-n // BLOCK)))
    described = min(len(done) * BLOCK, n)
    return {"patches": n, "described": described}, described == n


def _retrieve_status(workspace, job):
    """How many patches of each class the table holds; there is nothing in between."""
    if not (workspace / "retrieved.csv").is_file():
        return None, False
    classes = pd.read_csv(workspace / "retrieved.csv", usecols=["class"])["class"]
    return {"patches": classes.value_counts(sort=False).to_dict()}, True


def _label_status(workspace, job):
    """How many lines there are, were asked for and are labelled; whether those asked for are."""
    if not (workspace / "labels.zarr").is_dir():
        return None, False
    labels = open_labels(workspace / "labels.zarr")
    lines = labels.sizes[_along(job.get("index", {}).get("along"))]
    done = len(DoneLog(workspace / "labels.done").read() & set(range(lines)))
    return {"lines": lines, "labelled": done}, done >= min(lines, int(job.get("label", {}).get("asked", lines)))


def _train_status(workspace, job):
    """How many lines the net has labelled; whether any."""
    if not (workspace / "net.npz").is_file():
        return None, False
    done = len(DoneLog(workspace / "net.done").read())
    return {"labelled": done}, done > 0


def ask(index, asked, *, device=None):
    """Weak labels that a record of ``job.toml`` asks for, with the yes and no it holds.

    Parameters
    ----------
    index : Index
        Of the job.
    asked : dict
        ``exemplars`` (texts ``CLASS=INLINE,CROSSLINE,TIME`` or ``CLASS=PICTURE``), and optionally ``count``,
        ``per_exemplar``, ``diverse``, ``accepted`` and ``rejected`` (class -> rows).
    device : str, optional
        As in `retrieve`.
    """
    with index.workspace.edited():
        exemplars = parse_exemplars(list(asked["exemplars"]))
        options = {name: bool(asked.get(name)) for name in ("per_exemplar", "diverse")}
        count = parse_count(asked.get("count"), exemplars)
        yes, no = (
            {name: list(rows) for name, rows in asked.get(key, {}).items() if name in exemplars}
            for key in ("accepted", "rejected")
        )
    weak = retrieve(index, exemplars, count, **options, device=device)
    return refine(index, weak, accept=yes, reject=no) if yes or no else weak


def record_retrieval(index, weak, asked):
    """Keep weak labels in the job: the table, what was asked, what was accepted and rejected, and pictures."""
    verdicts = {"accepted": weak.accepted, "rejected": weak.rejected}
    with index.workspace.lock():
        weak.save(index.workspace / "retrieved.csv")
        index.workspace.write(index.workspace.read() | {"retrieve": asked | verdicts})
        index.workspace.log("retrieve", patches=len(weak), lost=weak.lost)
        draw_retrieval(index, weak, index.workspace.path)


def class_name(text):
    """Class name as the project writes it: hyphens and underscores are spaces.

    Examples
    --------
    >>> class_name("salt-dome")
    'salt dome'
    """
    name = re.sub(r"[-_\s]+", " ", text).strip()
    if not name or "," in name or name == "uncertain":
        raise ValueError(f"{text!r} is not a class name; use a word such as fault or salt-dome ('uncertain' is taken).")
    return name


def parse_exemplars(texts):
    """Exemplars of --exemplar options: class -> positions and pictures."""
    found: dict = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not equals or not place:
            raise ValueError(f"--exemplar is {text!r}; write CLASS=INLINE,CROSSLINE,TIME or CLASS=PICTURE.")
        try:
            position = tuple(float(part) for part in place.split(","))
        except ValueError:
            position = open_volume(place)[0].transpose().values
        found.setdefault(class_name(name), []).append(position)
    return found


def parse_count(text, exemplars):
    """Patches per class of a --count option."""
    if not text or text == "auto":
        return text or None
    if text.isdigit():
        return int(text)
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(number.isdigit() for *_, number in pairs):
        raise ValueError(f"--count is {text!r}; write 500, auto, or fault=500,salt-dome=200.")
    counts = {class_name(name): int(number) for name, _, number in pairs}
    unknown = [name for name in counts if name not in exemplars] + [name for name in exemplars if name not in counts]
    if unknown:
        raise ValueError(
            f"--count and --exemplar do not name the same classes ({', '.join(unknown)}); give both for each class."
        )
    return counts


def draw_retrieval(index, weak, folder):
    """Save a gallery, the similarity curves and the section with most retrieved patches."""
    picks = weak.picks(10)
    patches = index.grid.extract(index.volume, weak.rows[picks])
    _save(plots.gallery(patches, weak.table.iloc[picks]), folder / "gallery.png")
    _save(plots.similarity_curves(weak).figure, folder / "similarity.png")
    along = weak.table["along"].mode()[0]
    section = index.volume.sel({along: weak.table.loc[weak.table["along"] == along, along].mode()[0]})
    _save(plots.section(section, weak=weak, size=index.grid.size).figure, folder / "section.png")


def _save(figure, path):
    """Save a picture, whole or not at all."""
    with whole_file(path) as aside:
        figure.savefig(aside, dpi=110, format="png")


def summarise(weak):
    """Per class: how many, how similar, how many lost to a nearer class, how many to take, how many likely wrong."""
    rows = {}
    for name in dict.fromkeys(weak.classes):
        own = weak.similarity[weak.classes == name]
        rows[str(name)] = {
            "patches": len(own), "best": round(float(own[0]), 4), "last": round(float(own[-1]), 4),
            "lost": weak.lost[name], "suggested": weak.suggested[name], "wrong": round(weak.wrong[name], 3),
        }  # fmt: skip
    return rows


def labelling_grid(index, step=None):
    """Grid of a job made dense: every line, patches that overlap by two thirds unless `step` says otherwise."""
    grid = index.grid
    options = grid.parameters | {"sample": None, "every": 1, "between": None}
    options["step"] = step or tuple(max(1, n // 3) for n in grid.size)
    options["along"] = _along(grid.along)
    return PatchGrid(index.volume, **options)


def fit_mapper(index, mapping, *, beside=(), seed=0, device=None, client=None, memory=None, draft=None, progress=None):
    """Mapper of that name, fitted on the retrieved and painted patches of a job.

    Parameters
    ----------
    index : Index
        Of the job.
    mapping : str
        Name in `MAPPERS`.
    beside : sequence of Index
        Jobs on the same volume with patches of other sizes, whose retrieved patches are learnt from as well.
    seed : int
    device : str, optional
        Torch device to fit on.
    client : distributed.Client, optional
        A Dask cluster, for the mappers that know how.
    memory : int, optional
        Bytes that may be used.
    draft : int, optional
        Fit in a hurry: so many patches per class, and one member of an ensemble.
    progress : callable, optional
        Called as ``progress(done, total)`` between steps; what it raises ends the fit.
    """
    if mapping not in MAPPERS:
        raise ValueError(f"Mapping {mapping!r} is unknown; choose one of {', '.join(MAPPERS)}.")
    mapper = MAPPERS[mapping]().set_params(random_state=seed)
    if beside and mapping != "texture":
        raise ValueError(f"Mapping {mapping!r} takes patches of one size; use texture for jobs of several sizes.")
    if draft and "members" in mapper.get_params():
        mapper.set_params(members=1)
    parts = [_weak_patches(own, draft, memory or memory_budget()) for own in (index, *beside)]
    if beside:
        return mapper.fit(*_joined(parts), progress=progress)
    patches, classes, masks, weights = parts[0]
    if device:
        import torch

        patches = torch.from_numpy(patches).to(device)
    own: dict = {"client": client} if isinstance(mapper, LabelMapper) else {"weights": weights}
    if isinstance(mapper, NetMapper):
        own["unlabelled"] = _anywhere(index, UNLABELLED, seed)
    return mapper.fit(patches, classes, masks=masks, progress=progress, **own)


def _weak_patches(index, draft, memory):
    """Retrieved and painted patches of a job, their classes, what is painted in them, and how sure they are."""
    weak, starts = read_retrieved(index)
    rows = np.arange(len(weak)) if draft is None else weak.picks(draft)
    need = 12 * len(rows) * int(np.prod(index.grid.size))
    if need > memory:
        raise ValueError(
            f"{len(rows)} retrieved patches need about {need / 1e9:.1f} GB and {memory / 1e9:.1f} GB may be used; "
            "retrieve fewer of them (--count) or raise --memory."
        )
    starts, classes, masks = painted_patches(index, starts[rows], weak.classes[rows])
    weights = np.append(weak.weights[rows], np.full(len(starts) - len(rows), SURE))
    return index.grid.cut(index.volume, starts), classes, masks, weights


def _joined(parts):
    """Patches of several jobs as a mapper takes them; what is painted gets the codes of all classes together."""
    patches, classes, masks, weights = map(list, zip(*parts, strict=True))
    names = list(dict.fromkeys(name for own in classes for name in own))
    for i, (own, mask) in enumerate(zip(classes, masks, strict=True)):
        codes = np.array([0, *(names.index(name) + 1 for name in dict.fromkeys(own))], np.uint8)
        masks[i] = np.zeros((len(own), 1, 1), np.uint8) if mask is None else codes[mask]
    return patches, np.concatenate(classes), masks, np.concatenate(weights)


def _anywhere(index, count, seed):
    """Patches drawn from all that are alive."""
    rows = np.flatnonzero(index.status == 0)
    rows = np.sort(np.random.default_rng(seed).permutation(rows)[:count])
    return index.grid.extract(index.volume, rows)


def open_beside(index, paths):
    """Other jobs on the same volume, or one line why not."""
    volume = {**index.workspace.read()["volume"], "source": 0}
    others = [open_index(path) for path in paths]
    for path, other in zip(paths, others, strict=True):
        if {**other.workspace.read()["volume"], "source": 0} != volume:
            raise ValueError(f"Job {path} is of another volume; index the same one with another --size.")
    return others


def record_labelling(index, *, mapping, step, seed, min_confidence, beside=(), scores=False, lines=None):
    """Note with what the labels of a job are made and of how many lines; labels made with anything else are dropped."""
    record = {"mapping": mapping, "step": list(step), "seed": seed, "weak": supervision(index.workspace)}
    if min_confidence is not None:
        record["min_confidence"] = min_confidence
    if scores:
        record["scores"] = True
    if beside:
        record["with"] = {str(own.workspace.path): supervision(own.workspace) for own in beside}
    job = index.workspace.read()
    old = job.get("label")
    if not isinstance(old, dict) or old | {"asked": 0} != record | {"asked": 0}:
        for name in ("labels.done", "labels.zarr"):
            remove(index.workspace / name)
    axis = index.volume[_along(index.grid.along)].values
    done = DoneLog(index.workspace / "labels.done").read() & set(range(len(axis)))
    asked = len(np.union1d(axis if lines is None else lines, axis[sorted(done)]))
    index.workspace.write(job | {"label": record | {"asked": asked}})
    return record


def _along(along):
    """Kind of line that a job labels."""
    return "crossline" if along == "crossline" else "inline"


def limit_for(index, grid, mapper, max_error, *, device=None):
    """Confidence below which labels become uncertain so that the others hold a wanted share of errors; see `label`.

    No truth is asked for: the confidence of four lines, spread over the survey, is taken at its word.
    """
    rows = [rows for *_, rows in grid.lines()]
    few = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, 4).round().astype(int))]
    sure = [decide(section_votes(index.volume, grid, mapper, one, device=device))[1].ravel() for one in few]
    return confidence_for(np.concatenate(sure), max_error)


def label_lines(index, grid, mapper, *, store="labels.zarr", **options):
    """Label lines of a job into its folder, each with its neighbours where a mapper takes whole sections.

    Options as in `label_volume`.
    """
    across = ACROSS if getattr(mapper, "any_size", False) else 0
    labels = label_volume(index.volume, grid, mapper, across=across, path=index.workspace / store, **options)
    keep_painted(index, index.workspace / store)
    return labels


def draw_labels(index, line, *, truth=None, name="labels.png", labels=None):
    """Save a picture of one labelled line into the job; of other labels than its own where given."""
    labels = open_labels(index.workspace / "labels.zarr") if labels is None else labels
    place = {_along(index.grid.along): line}
    figure = plots.labelled_section(index.volume.sel(place), labels.sel(place), truth=truth)
    _save(figure, index.workspace / name)


def labelled_inlines(labels):
    """Inlines on which something was labelled."""
    return [int(line) for line in labels["inline"].values if labels["confidence"].sel(inline=line).values.any()]


def score_labels(index, truth_path, *, lines=None, labels=None):
    """Scores of a job's labels against expert labels, on the inlines that both have; pictures go into the job.

    Other labels than the job's own, for instance `net_labels`, are scored where given.

    Returns
    -------
    dict
        As `pixel_scores`, with ``MIU_without_boundary`` (5 pixels around the truth's boundaries left out), ``inlines``
        and ``bodies``: per structure its boundary distance and its hits and false alarms per connected zone.
    """
    labels = open_labels(index.workspace / "labels.zarr") if labels is None else labels
    truth = open_volume(truth_path)
    if not truth.attrs.get("classes"):
        raise ValueError(f"{truth_path} does not name its codes; write a table {truth_path}.classes.toml beside it.")
    common = np.intersect1d(lines or labelled_inlines(labels), truth["inline"].values)
    if not len(common):
        raise ValueError(f"{truth_path} has none of the labelled inlines; label some of its lines with --lines.")
    coded = labels["label"].sel(inline=common).assign_attrs(classes=list(labels.attrs["classes"]))
    truth = truth.sel(inline=common).astype("uint8")
    scores = pixel_scores(coded, truth)
    scores["MIU_without_boundary"] = pixel_scores(coded, truth, band=5)["MIU"]
    scores["inlines"] = common.tolist()
    samples = index.volume[index.volume.dims[2]].values
    spacing = (abs(float(samples[1] - samples[0])), float(index.volume.attrs.get("bin_size", (1.0, 1.0))[1]))
    found, true = (codes.transpose("inline", codes.dims[2], "crossline") for codes in (coded, truth))
    scores["bodies"] = [
        {"class": name, **boundary_distance(found, true, name, spacing=spacing), **zone_scores(found, true, name)}
        for name in scores["IU"]
        if name != "other"
    ]
    middle = common[len(common) // 2]
    draw_labels(index, middle, truth=truth.sel(inline=middle), name="evaluation.png", labels=labels)
    figure = plots.confusion(scores["confusion"], scores["classes"]).figure
    _save(figure, index.workspace / "confusion.png")
    return scores


def probe_labels(index, lines, *, progress=None):
    """Share of a job's labels that stay the same under changes that should not matter; see `stability`."""
    record = index.workspace.read().get("label")
    if not record:
        raise ValueError(f"{index.workspace.path} has no labels yet; run 'outcrop label' first.")
    with index.workspace.edited():
        grid, mapping, seed = labelling_grid(index, tuple(record["step"])), str(record["mapping"]), int(record["seed"])

    def fit(change):
        return fit_mapper(index, mapping, seed=seed + change)

    return stability(index.volume, grid, fit, lines=lines, progress=progress)


def training_set(index, *, epochs=None, seed=0):
    """Folder of patches of all labelled lines, with their labels; a set and a net of other labels are dropped first."""
    workspace = index.workspace
    labels, job = open_labels(workspace / "labels.zarr"), workspace.read()
    record = {"epochs": epochs or 0, "seed": seed, "labels": _labels_digest(index)}
    if job.get("train") != record:
        for name in ("training", "net.npz", "net.done", "net.zarr"):
            remove(workspace / name)
        workspace.write(job | {"train": record})
    folder = workspace / "training"
    if not folder.is_dir():
        grid = labelling_grid(index, tuple(max(1, n // 2) for n in index.grid.size))
        done = DoneLog(workspace / "labels.done").read()
        spans = [np.arange(rows.start, rows.stop) for _, line, rows in grid.lines() if line in done]
        rows = np.random.default_rng(seed).permutation(np.concatenate([*spans, []]).astype(int))[:TRAINING_PATCHES]
        export_training_set(labels, folder, volume=index.volume, grid=grid.take(np.sort(rows)), seed=seed)
    return folder


def _labels_digest(index):
    """What tells the labels of a job from earlier ones: how they were made, and which lines are done."""
    made, done = index.workspace.read().get("label", {}), index.workspace / "labels.done"
    return hashlib.sha256(repr(sorted(made.items())).encode() + done.read_bytes()).hexdigest()[:16]


def train_net(index, *, epochs=None, seed=0, device=None, progress=None):
    """Train a U-Net on the labels of a job, in its folder; goes on where it was stopped. See `train.train`."""
    folder = training_set(index, epochs=epochs, seed=seed)
    path = index.workspace / "net.npz"
    return train(folder, path, epochs=epochs, seed=seed, device=device, progress=progress)


def net_labels(index):
    """Labels that the net of a job gave; refused where the labels it was trained on have changed."""
    if index.workspace.read().get("train", {}).get("labels") != _labels_digest(index):
        raise ValueError(
            f"The labels of {index.workspace.path} are not those a net was trained on; run 'outcrop train'."
        )
    return open_labels(index.workspace / "net.zarr")


def net_gain(index, *, truth=None):
    """What the net changed: agreement with the labels it was trained on and, with a truth, the scores of both.

    Returns
    -------
    dict
        ``inlines`` that both label; ``agreement``, by class of the labels and in ``all``; with a truth also ``rows``:
        the scores of the labels and of the net.
    """
    old, new = open_labels(index.workspace / "labels.zarr"), net_labels(index)
    lines = np.intersect1d(labelled_inlines(old), labelled_inlines(new)).tolist()
    if not lines:
        raise ValueError(
            "The net and the labels it was trained on have no line in common; label one of each with --lines."
        )
    before, after = (labels["label"].sel(inline=lines).values for labels in (old, new))
    gain: dict[str, Any] = {"inlines": lines, "agreement": unchanged(before, after, old.attrs["classes"])}
    if truth:
        scores = {
            name: score_labels(index, truth, lines=lines, labels=own) for name, own in (("labels", old), ("net", new))
        }
        keys = ("MIU", "MIU_without_boundary", "PA", "FWIU", "coverage")
        gain["rows"] = [
            {"what": w} | {k: s[k] for k in keys} | {f"IU {n}": v for n, v in s["IU"].items()}
            for w, s in scores.items()
        ]
    return gain
