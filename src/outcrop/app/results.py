"""Exports from the page, and the commands that repeat the work in a terminal."""

import re
import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from outcrop.app.page_job import PageJob
from outcrop.app.shown_labels import ShownLabels
from outcrop.app.work import Task

EXPORTS = {  # kind -> name of the file or folder
    "segy": "labels.sgy", "confidence": "confidence.sgy", "zarr": "labels.zarr", "training": "training",
    "figure": "figure.png",
}  # fmt: skip
AGAIN = "again.outcrop"  # job folder in the commands


class Written(NamedTuple):
    """A written export: its path, a sentence that describes it, and whether it holds fault sticks or geobodies."""

    path: Path
    text: str
    geology: bool = False


class Results:
    """Writes exports of the job for a session of the page.

    Parameters
    ----------
    labelling : ShownLabels
    truth : str, optional
        Path of the expert labels, for the command that evaluates the labels.

    Attributes
    ----------
    written : list of Written
        Exports that this session has written.
    """

    def __init__(self, labelling: ShownLabels, truth: str | Path | None = None) -> None:
        self.labelling, self.job, self.survey = labelling, labelling.job, labelling.survey
        self.truth = truth
        self.written: list[Written] = []

    def start(self, kind: str, *, line: float | None = None, stale: bool = False) -> Task:
        """Start a task that writes an export, and return the task; the arguments are those of `export`."""

        def write(_: Task) -> None:
            self.written.append(self.export(kind, line=line, stale=stale))  # shown when the task has ended

        return self.labelling.work.start(f"writing {EXPORTS[kind]}", write)

    def export(self, kind: str, name: str | None = None, *, line: float | None = None, stale: bool = False) -> Written:
        """Write an export into the export folder.

        Parameters
        ----------
        kind : {"segy", "confidence", "zarr", "training", "figure"}
        name : str, optional
            Name of the file or folder, inside the export folder.
        line : int, optional
            Number of the line that the figure shows.
        stale : bool
            Whether to include stale lines; if False, a stale line raises an error.

        Returns
        -------
        Written
            The path of the export, and a sentence that describes it.
        """
        if not self.labelling.done():
            raise ValueError("No line is labelled yet; label a line or the survey before you export.")
        here = {self.survey.line_at(line)} if kind == "figure" and line is not None else None
        self.check_stale(here, stale=stale)
        out = self.free_path(name or EXPORTS[kind])
        if kind == "figure":
            self._draw(out, line)
            return Written(out, f"{out} written: {self.survey.line_name} {line:g}")
        what = "confidence" if kind == "confidence" else "label"
        return Written(out, self.job.export(out, what=what, stale=stale))

    def check_stale(self, positions: Collection[int] | None = None, *, stale: bool) -> int:
        """Return the number of stale lines among the given positions, by default among all labelled lines.

        If there are stale lines and `stale` is False, raise an error.
        """
        done = self.labelling.done()
        old = sum(self.labelling.is_stale(i) for i in (done if positions is None else done.intersection(positions)))
        if old and not stale:
            raise ValueError(
                f"{old} labelled line{'s have' if old > 1 else ' has'} labels from older decisions (hatched); label "
                "again, or tick 'include stale lines'."
            )
        return old

    def free_path(self, name: str) -> Path:
        """Return the path of a new file in the export folder; add a number to the name if it is in use."""
        folder = (self.job.path / "export").resolve()
        out = (folder / name).resolve()
        if out.parent != folder or not re.fullmatch(r"[\w][\w .()-]{0,100}", name):
            raise ValueError(f"{name!r} is not a valid file name; use letters, digits, dots and hyphens.")
        folder.mkdir(parents=True, exist_ok=True)
        stem, dot, suffix = name.partition(".")
        number = 1
        while out.exists():
            number += 1
            out = folder / f"{stem}-{number}{dot}{suffix}"
        return out

    def _draw(self, out: Path, line: float | None) -> None:
        from outcrop.plots.sections import labelled_section

        if line is None or self.labelling.codes(line) is None:
            raise ValueError("The section in view is not a labelled line; show a labelled line to draw it.")
        place = {self.survey.line_name: line}
        truth = self.labelling.truth
        truth = truth.sel(place) if truth is not None and self.labelling.scores(line) else None
        labels = self.job.labels.sel(place)
        labelled_section(self.survey.volume.sel(place), labels, truth=truth).savefig(out, dpi=150)

    def summary(self) -> str:
        """Return a sentence with the numbers of labelled, stale and unlabelled lines, and the minimum confidence."""
        total, labelled, stale = self.labelling.counts()
        words = [f"{labelled} of {total} lines labelled"]
        words += [f"{stale} of them stale"] if stale else []
        words += [f"{total - labelled} not labelled, written as 0"] if labelled < total else []
        limit = self.labelling.limit
        words += [f"samples below {100 * limit:.0f} % confidence written as uncertain"] if limit else []
        return ", ".join(words)

    def commands(self) -> list[str]:
        """Return commands that repeat the work in another job folder.

        The file decisions.jsonl transfers the decisions that no option expresses: verdicts, strokes, colours and
        exemplars given as pictures. Without an index, the list is empty.
        """
        if not self.job.indexed:
            return []
        lines = [index_command(self.job)]
        if self.job.exemplars or self.job.strokes:
            lines.insert(0, ["outcrop", "decisions", shown_path(self.job.path), "--export", "decisions.jsonl"])
            lines.append(["outcrop", "decisions", AGAIN, "--import", "decisions.jsonl"])
            lines.append(retrieve_command(self.job))
        if done := self.labelling.done():
            lines.append(label_command(self.job, self.survey.lines[sorted(done)], len(self.survey.lines)))
            if self.truth:
                lines.append(["outcrop", "evaluate", AGAIN, "--truth", shown_path(self.truth)])
            lines.append(["outcrop", "export", AGAIN, "labels.sgy"])
        return [shlex.join(line) for line in lines]


def index_command(job: PageJob) -> list[str]:
    """Return the words of the command that builds the index of a job."""
    full: Any = job.plan.index
    chosen = job.chosen_index.changed()
    words = ["outcrop", "index", shown_path(job.plan.volume["source"] or "VOLUME"), "-o", AGAIN]
    words += ["--size", comma(job.plan.size), "--step", comma(full.step)]
    for option in ("along", "every", "gain", "clip", "measure"):
        words += [f"--{option}", str(chosen[option])] if option in chosen else []
    for axis, ends in (full.area or {}).items():
        word = {"inline": "--inlines", "crossline": "--crosslines"}.get(axis, "--times")
        words += [word, comma(ends)]
    return words + (["--between", comma(full.between)] if full.between else [])


def retrieve_command(job: PageJob) -> list[str]:
    """Return the words of the command that retrieves patches for the exemplars of a job, as many as the job did."""
    words = ["outcrop", "retrieve", AGAIN]
    for one in job.exemplars:
        if one.place is not None:
            words += ["--exemplar", f"{hyphened(one.name)}={comma(one.place)}"]
    count: Any = job.plan.retrieval.count
    if isinstance(count, dict):
        count = ",".join(f"{hyphened(name)}={n}" for name, n in job.counts().items())
    return [*words, "--count", str(count), *(["--per-exemplar"] if job.plan.retrieval.per_exemplar else [])]


def label_command(job: PageJob, done: Collection[float], total: int) -> list[str]:
    """Return the words of the command that labels the lines with the numbers `done`.

    `total` is the number of lines in the survey; if all of them are labelled, the command names no lines.
    """
    chosen = job.plan.label.changed()
    words = ["outcrop", "label", AGAIN, "--mapping", job.plan.label.mapping]
    for option in ("seed", "step", "min_confidence", "max_error"):
        words += [f"--{option.replace('_', '-')}", f"{chosen[option]:g}"] if option in chosen else []
    words += [word for path in job.plan.label.with_jobs for word in ("--with", path)]
    return words + (["--lines", comma(done)] if len(done) < total else [])


def hyphened(name: str) -> str:
    """Return the name of a class in the form that the command line uses, with hyphens."""
    return name.replace(" ", "-")


def shown_path(path: str | Path) -> str:
    """Return a path as text: relative to the current folder if it lies in this folder, else unchanged."""
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def comma(values: Iterable[float | str]) -> str:
    """Return numbers or names joined by commas, as the options of commands need them.

    Examples
    --------
    >>> comma([99, 330.0, 12.5, "a.hor"])
    '99,330,12.5,a.hor'
    """
    return ",".join(value if isinstance(value, str) else f"{value:.10g}" for value in values)
