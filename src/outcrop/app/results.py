"""What an interpreter takes home: exported labels, and the command lines that repeat the work."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import outcrop as oc
from outcrop.job import tables
from outcrop.mapping.registry import DEFAULT_MAPPING
from outcrop.patches.grid import DIRECTIONS

EXPORTS = {
    "segy": "labels.sgy",
    "confidence": "confidence.sgy",
    "zarr": "labels.zarr",
    "training": "training",
    "figure": "figure.png",
}
AGAIN = "again.outcrop"  # job folder of the command lines


class Written(NamedTuple):
    """An export, and a sentence about it."""

    path: Path
    text: str


class Results:
    """Exports of a session.

    Parameters
    ----------
    labelling : Labelling
    truth : str, optional
        Path of the expert's labels.

    Attributes
    ----------
    written : list of Written
        What was exported so far.
    """

    def __init__(self, labelling, truth=None):
        self.labelling, self.job, self.truth = labelling, labelling.job, truth
        self.folder = self.job.path / "export"
        self.written: list = []

    def start(self, kind, *, line=None, stale=False):
        """Export in a thread."""

        def write(_):
            self.written.append(self.export(kind, line=line, stale=stale))  # shown when the work has ended

        return self.labelling.work.start(f"writing {EXPORTS[kind]}", write)

    def export(self, kind, name=None, *, line=None, stale=False):
        """Write a result into the export folder.

        Parameters
        ----------
        kind : {"segy", "confidence", "zarr", "training", "figure"}
        name : str, optional
            Of the file or folder; never a path that leads out of the export folder.
        line : int, optional
            For the figure.
        stale : bool
            Write lines of older decisions too; refused otherwise.

        Returns
        -------
        Written
        """
        if not self.labelling.done():
            raise ValueError("There are no labels to export yet; label a line or the survey first.")
        self.check_stale(self._positions(kind, line), stale)
        out = free_name(self.folder, name or EXPORTS[kind])
        if kind == "figure":
            self._draw(out, line)
            return Written(out, f"{out} written: {DIRECTIONS[self.labelling.survey.along]} {line:g}")
        what = "confidence" if kind == "confidence" else "label"
        return Written(out, self.job.export(out, what=what, stale=stale))

    def check_stale(self, positions, stale):
        """How many of some lines have labels of older decisions; refused unless `stale` ones are wanted too."""
        old = sum(self.labelling.is_stale(i) for i in positions)
        if old and not stale:
            raise ValueError(
                f"{old} labelled line{'s are' if old > 1 else ' is'} of older decisions (hatched); label again, or "
                "tick the box for stale lines."
            )
        return old

    def _positions(self, kind, line):
        """Positions of the labelled lines that an export shows."""
        if kind != "figure":
            return self.labelling.done()
        lines = self.labelling.survey.lines
        return [i for i in self.labelling.done() if lines[i] == line]

    def _draw(self, out, line):
        if line is None or self.labelling.codes(line) is None:
            raise ValueError("This section has no labels to draw; show a labelled line.")
        place, survey = {DIRECTIONS[self.labelling.survey.along]: line}, self.labelling.survey
        truth = self.labelling.truth.sel(place) if self.labelling.scores(line) else None
        labels = self.job.labels.sel(place)
        oc.plots.labelled_section(survey.volume.sel(place), labels, truth=truth).savefig(out, dpi=150)

    def summary(self):
        """Lines labelled, stale and missing, in words."""
        total, labelled, stale = self.labelling.counts()
        words = [f"{labelled} of {total} lines labelled"]
        words += [f"{stale} of them stale"] if stale else []
        words += [f"{total - labelled} not labelled, written as 0"] if labelled < total else []
        limit = self.labelling.limit
        words += [f"below {100 * limit:.0f} % confidence written as uncertain"] if limit else []
        return ", ".join(words)

    def colours(self):
        """Class -> colour, as tables of colours, attributes and figures of the exports have them."""
        return self.job.palette

    def commands(self):
        """Command lines that repeat the work in another job folder.

        What is no option of a command travels in a file of decisions: yes and no, strokes, colours, pictures.
        """
        if not self.job.indexed():
            return []
        job, state = AGAIN, self.job.state
        lines = [index_command(self.job, job)]
        if state.exemplars or state.strokes:
            lines.insert(0, ["outcrop", "decisions", shown_path(self.job.path), "--export", "decisions.jsonl"])
            lines.append(["outcrop", "decisions", job, "--import", "decisions.jsonl"])
            lines.append(retrieve_command(self.job, job))
        if self.labelling.done():
            lines.append(label_command(self.labelling, job))
            if self.truth:
                lines.append(["outcrop", "evaluate", job, "--truth", shown_path(self.truth)])
            lines.append(["outcrop", "export", job, "labels.sgy"])
        return [shlex.join(line) for line in lines]


def index_command(job, name):
    """Words of the command that makes the index of a job."""
    options, chosen = job.index_options(), job.state.options.get("index", {})
    source = shown_path(job.known["source"] or "VOLUME")
    words = ["outcrop", "index", source, "-o", name]
    words += ["--size", comma(options["size"]), "--step", comma(options["step"])]
    for option in ("along", "every", "gain", "clip", "measure"):
        words += [f"--{option}", str(chosen[option])] if option in chosen else []
    for axis, ends in (options["area"] or {}).items():
        word = {"inline": "--inlines", "crossline": "--crosslines"}.get(axis, "--times")
        words += [word, ",".join(f"{end:g}" for end in ends)]
    words += ["--between", ",".join(chosen["between"])] if "between" in chosen else []
    return words


def retrieve_command(job, name):
    """Words of the command that gives all exemplars and asks for as many patches."""
    state = job.state
    hyphened = {first: facts["name"].replace(" ", "-") for first, facts in state.classes.items()}
    words = ["outcrop", "retrieve", name]
    for one in state.exemplars:
        if one.place is not None:
            words += ["--exemplar", f"{hyphened[one.name]}=" + ",".join(f"{value:.10g}" for value in one.place)]
    asked = tables.retrieval_options(state)
    count = asked["count"]
    if isinstance(count, dict):
        count = ",".join(f"{hyphened[first]}={n}" for first, n in count.items() if first in hyphened)
    words += ["--count", str(count)]
    return words + [f"--{option.replace('_', '-')}" for option in ("per_exemplar", "diverse") if asked[option]]


def label_command(labelling, name):
    """Words of the command that labels the same lines in the same way."""
    state, done, axis = labelling.job.state, labelling.done(), labelling.survey.lines
    chosen, limits = state.options.get("label", {}), state.options.get("limits", {})
    words = ["outcrop", "label", name, "--mapping", chosen.get("mapping", DEFAULT_MAPPING)]
    for option in ("seed", "step"):
        words += [f"--{option}", str(chosen[option])] if option in chosen else []
    words += [word for path in chosen.get("with", ()) for word in ("--with", path)]
    for option, value in limits.items():
        words += [f"--{option.replace('_', '-')}", f"{value:g}"]
    if len(done) < len(axis):
        words += ["--lines", ",".join(f"{axis[i]:g}" for i in sorted(done))]
    return words


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
