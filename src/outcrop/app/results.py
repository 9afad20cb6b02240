"""What an interpreter takes home: exported labels, and the command lines that repeat the work."""

import re
import shlex
from pathlib import Path

import outcrop as oc
from outcrop.patches import DIRECTIONS

EXPORTS = {
    "segy": "labels.sgy",
    "confidence": "confidence.sgy",
    "zarr": "labels.zarr",
    "training": "training",
    "figure": "figure.png",
}


class Results:
    """Exports of a session.

    Parameters
    ----------
    labelling : Labelling
    folder : Path
        Where everything is written.
    truth : str, optional
        Path of the expert's labels.

    Attributes
    ----------
    written : list of Path
        What was exported so far.
    """

    def __init__(self, labelling, folder, truth=None):
        self.labelling, self.folder, self.truth = labelling, folder, truth
        self.written: list = []

    def start(self, kind, *, line=None):
        """Export in a thread."""

        def write(_):
            self.written.append(self.export(kind, line=line))
            self.labelling.work.tell("exports")

        return self.labelling.work.start(f"writing {EXPORTS[kind]}", write)

    def export(self, kind, name=None, *, line=None):
        """Write a result into the export folder; its path.

        Parameters
        ----------
        kind : {"segy", "confidence", "zarr", "training", "figure"}
        name : str, optional
            Of the file or folder; never a path that leads out of the export folder.
        line : int, optional
            For the figure.
        """
        labels, survey, search = self.labelling.dataset(), self.labelling.survey, self.labelling.search
        if labels is None:
            raise ValueError("There are no labels to export yet; label a line or the survey first.")
        out = free_name(self.folder, name or EXPORTS[kind])
        if kind in ("segy", "confidence"):
            oc.export_segy(labels, out, like=survey.volume, what="label" if kind == "segy" else "confidence")
        elif kind == "zarr":
            oc.export_zarr(labels, out)
        elif kind == "training":
            oc.export_training_set(labels, out, volume=survey.volume, grid=search.index.grid, weak=search.weak)
        else:
            place = {DIRECTIONS[survey.along]: line}
            truth = self.labelling.truth.sel(place) if self.labelling.scores(line) else None
            oc.plots.labelled_section(survey.volume.sel(place), labels.sel(place), truth=truth).savefig(out, dpi=150)
        return out

    def commands(self):
        """Command lines that repeat the work."""
        search, labelling = self.labelling.search, self.labelling
        if search.index is None:
            return []
        job = shown_path(search.index.workspace.path)
        lines = [index_command(search, job)]
        if search.weak is not None:
            lines += retrieve_commands(search, job)
        if labelling.dataset() is not None:
            done, axis = labelling.done(), labelling.survey.lines
            some = [] if len(done) == len(axis) else ["--lines", ",".join(f"{axis[i]:g}" for i in sorted(done))]
            lines.append(["outcrop", "label", job, "--mapping", labelling.state.data["mapping"], *some])
            if self.truth:
                lines.append(["outcrop", "evaluate", job, "--truth", shown_path(self.truth)])
            lines.append(["outcrop", "export", job, "labels.sgy"])
        return [shlex.join(line) for line in lines]


def index_command(search, job):
    """Words of the command that makes the index of a search."""
    grid = search.index.grid
    source = shown_path(search.survey.volume.attrs.get("source") or "VOLUME")
    words = ["outcrop", "index", source, "-o", job, "--size", comma(grid.size), "--step", comma(grid.step)]
    words += ["--along", grid.along, "--every", str(grid.every)]
    for name, ends in (grid.parameters["area"] or {}).items():
        words += [f"--{name}s", ",".join(f"{end:g}" for end in ends)]
    return words


def retrieve_commands(search, job):
    """Words of the commands that repeat a search, and the judgements after it."""
    asked = search.request()
    exemplars = [word for text in asked["exemplars"] for word in ("--exemplar", text)]
    commands = [["outcrop", "retrieve", job, *exemplars, "--count", asked["count"]]]
    judged = {"--accept": asked["accepted"], "--reject": asked["rejected"]}
    words = [(option, comma(row for own in rows.values() for row in own)) for option, rows in judged.items() if rows]
    if words:
        commands.append(["outcrop", "retrieve", job, *(word for both in words for word in both)])
    return commands


def free_name(folder, name):
    """Path of that name in a folder, numbered where it is taken."""
    folder = folder.resolve()
    out = (folder / name).resolve()
    if out.parent != folder or not re.fullmatch(r"[\w][\w .()-]{0,100}", name):
        raise ValueError(f"{name!r} is not a plain file name; use letters, digits, dots and hyphens.")
    folder.mkdir(parents=True, exist_ok=True)
    stem, dot, suffix = name.partition(".")
    number = 1
    while out.exists():
        number += 1
        out = folder / f"{stem}-{number}{dot}{suffix}"
    return out


def shown_path(path):
    """Path from the current folder where it lies inside, whole otherwise."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def comma(values):
    """Numbers as an option takes them."""
    return ",".join(str(value) for value in values)
