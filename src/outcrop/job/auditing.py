"""Audits of a job: random patches or samples that a person judges, and estimates of purity and IoU from the answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from outcrop.job.confirmed import job_confirmed
from outcrop.job.entries import AUDIT_ANSWERS as ANSWERS
from outcrop.job.imports import Entry
from outcrop.job.pictures import image_axes, save
from outcrop.job.sections import marked_sections
from outcrop.mapping.confidence import labelled
from outcrop.patches.grid import DIRECTIONS
from outcrop.retrieval.audit import draw_order, estimate, groups_by_class, iou_estimates
from outcrop.volumes.axes import nearest_position
from outcrop.words import counted

if TYPE_CHECKING:
    from outcrop.job.core import Job

SUBJECTS = ("patches", "samples")
POOL = 4000  # samples of labelled lines from which questions are drawn
LINES = 50  # maximum number of labelled lines from which questions are drawn
TERCILES = 3  # number of groups into which the samples of a class are divided by their confidence
CONTEXT = 48  # samples and traces shown around a patch; twice as many around a sample
SHEET = 6  # questions in a row of the picture


class Population(NamedTuple):
    """The patches or samples that an audit draws its questions from, in groups of similar patches or samples."""

    key: str | None  # cache key of the retrieved patches or of the votes
    table: pd.DataFrame  # candidates for questions: class, place, direction (along) and confidence
    groups: np.ndarray  # group of each row of the table
    sizes: pd.Series  # number of patches or samples in each group
    classes: pd.Series  # class of each group


class Audit:
    """Random questions about the retrieved patches or the labels of a job, and estimates from the answers.

    Each question asks whether a patch or a sample shows the class that retrieval or labelling gave it. The same job,
    seed and number of questions give the same questions. An audit with more questions contains the questions of a
    shorter audit.

    Parameters
    ----------
    job : Job
    clicks : int
        Number of questions.
    of : {"patches", "samples"}
        Subject of the questions: retrieved patches, or labelled samples.
    seed : int
        Seed of the random choice of questions.
    """

    def __init__(self, job: "Job", clicks: int = 30, *, of: str = "patches", seed: int = 0):
        if of not in SUBJECTS:
            raise ValueError(f"Audit subject {of!r} is unknown; choose {' or '.join(SUBJECTS)}.")
        if int(clicks) != clicks or clicks < 1:
            raise ValueError(f"The number of clicks is {clicks}; choose a whole number, 1 or more.")
        self.job, self.of, self.seed = job, of, int(seed)
        self.population = patches(job) if of == "patches" else samples(job, self.seed)
        chosen = draw_order(self.population.groups, int(clicks), seed=self.seed)
        chosen = np.random.default_rng(self.seed).permutation(chosen)
        numbers = pd.RangeIndex(1, len(chosen) + 1, name="number")
        table = self.population.table.iloc[chosen].set_axis(numbers)
        self._questions = table.assign(stratum=self.population.groups[chosen])

    @property
    def questions(self) -> pd.DataFrame:
        """Table with one row per question, numbered from 1: class, place, direction, and answer (empty if missing)."""
        names = self.job.plan.names
        given = {(names.get(one["class"]), *one["place"], one["along"]): one["answer"] for one in self._answers()}
        keys = self._questions[["class", *self.job.volume.dims, "along"]].itertuples(index=False, name=None)
        return self._questions.drop(columns="stratum").assign(answer=[given.get(key, "") for key in keys])

    def answer(
        self,
        yes: npt.ArrayLike = (),
        no: npt.ArrayLike = (),
        unknown: npt.ArrayLike = (),
        really: Mapping[int, str] | None = None,
    ) -> None:
        """Record answers to questions as one act.

        Parameters
        ----------
        yes, no, unknown : sequence of int
            Numbers of the questions with this answer: the patch or sample shows its class, does not, or cannot be
            judged.
        really : dict, optional
            Number of a question -> true class of its sample. Such a question counts as answered no. `estimates`
            contains the IoU only if the true class of every wrong sample is known.
        """
        firsts = self.job.plan.firsts
        for name in (really or {}).values():
            if name not in firsts:
                raise ValueError(f"There is no class {name!r}; choose one of {', '.join(firsts)}.")
        truths = {int(number): name for number, name in (really or {}).items()}
        given: dict[int, str] = {}
        no = [*np.atleast_1d(np.asarray(no, int)).tolist(), *truths]
        for answer, numbers in zip(ANSWERS, (yes, no, unknown), strict=True):
            for number in np.atleast_1d(np.asarray(numbers, int)).tolist():
                if number not in self._questions.index:
                    raise ValueError(f"There is no question {number}; choose 1 to {len(self._questions)}.")
                if given.setdefault(number, answer) != answer:
                    raise ValueError(f"Question {number} has answers {given[number]} and {answer}; give one answer.")
        entries = []
        for number, answer in sorted(given.items()):
            row = self._questions.loc[number]
            entry: Entry = {"what": "audit", "class": firsts.get(row["class"]), "answer": answer, "subject": self.of}
            entry |= {"place": [float(row[name]) for name in self.job.volume.dims], "along": str(row["along"])}
            entry |= {"of": self.population.key, "stratum": int(row["stratum"])}
            if self.of == "samples":
                entry["confidence"] = round(float(row["confidence"]), 4)
            if number in truths:
                entry["really"] = firsts[truths[number]]
                if truths[number] == row["class"]:
                    raise ValueError(
                        f"The true class given for question {number} is {row['class']}, the class that it asks about; "
                        "answer yes, or name another class."
                    )
            entries.append(entry)
        if entries:
            self.job._decide(*entries)

    @property
    def estimates(self) -> pd.DataFrame:
        """Table of the estimated share of right patches or samples, by class and for all, with 95 % intervals.

        An audit of samples also gives the IoU of each class, and the mean IoU in the row ``all``, if the true class of
        every wrong sample is known. The shares of a class without an answer are NaN.
        """
        answers = self._answers()
        known = [one for one in answers if one["answer"] != "unknown"]
        groups, right = [one["stratum"] for one in known], [one["answer"] == "yes" for one in known]
        sizes, rows = self.population.sizes, []
        scopes: list[str | None] = [*dict.fromkeys(self.population.classes), None]
        for name in scopes:
            inside = np.ones(len(sizes), bool) if name is None else self.population.classes == name
            found = estimate(sizes.index, np.where(inside, sizes, 0), groups, right)
            first = None if name is None else self.job.plan.firsts.get(name)
            asked = [one["answer"] for one in answers if first in (None, one["class"])]
            interval = (found.low, found.high) if found.answers else (np.nan, np.nan)
            counts = {answer: asked.count(answer) for answer in ANSWERS}
            rows.append(
                {"class": name or "all", **counts, "right": found.share, "low": interval[0], "high": interval[1]}
            )
        return pd.DataFrame(rows).join(self._iou(known), on="class")

    def _iou(self, known: list[Entry]) -> pd.DataFrame:
        """Return a table of the IoU of each class and the mean IoU, with 95 % intervals.

        `known` are the answers yes and no. The table is empty for an audit of patches, without answers, and if a wrong
        sample lacks its true class.
        """
        if self.of != "samples" or not known or any(one["answer"] == "no" and "really" not in one for one in known):
            return pd.DataFrame()
        names = self.job.plan.names
        judged = [names.get(one["class"], one["class"]) for one in known]
        really = [str(one.get("really", one["class"])) for one in known]
        truths = [str(names.get(true, one["class"])) for true, one in zip(really, known, strict=True)]
        classes = list(dict.fromkeys([*self.population.classes, *truths]))
        groups = [one["stratum"] for one in known]
        found = iou_estimates(self.population.sizes, self.population.classes, groups, truths, classes)
        rows = {name: {"IoU": one.share, "IoU_low": one.low, "IoU_high": one.high} for name, one in found.items()}
        table = pd.DataFrame.from_dict(rows, orient="index")
        missing = [name for name in classes if name not in {*judged, *truths}]
        table.loc[missing + ["all"] * bool(missing)] = np.nan
        return table

    @property
    def older(self) -> int:
        """Number of answers that do not count, because they judge patches or labels that are now out of date."""
        answers = [one for one in self.job.plan.state.audits if one["subject"] == self.of]
        return len(answers) - len(self._answers())

    def picture(self, number: int) -> tuple[np.ndarray, tuple[int, int, int, int]]:
        """Return the amplitudes around the patch or sample of a question, and the box of this patch or sample.

        The amplitudes have the shape (n_samples, n_traces). The box is (top, left, height, width), in samples and
        traces of these amplitudes.
        """
        row = self._questions.loc[number]
        grid, volume = self.job._grid(self.job.plan), self.job.volume
        direction = DIRECTIONS.index(row["along"])
        names = (row["along"], DIRECTIONS[1 - direction], volume.dims[2])
        line, trace, sample = (nearest_position(volume[name].values, row[name]) for name in names)
        (height, width), margin = (grid.size, CONTEXT) if self.of == "patches" else ((1, 1), 2 * CONTEXT)
        top, left = sample - height // 2, trace - width // 2
        first = max(0, top - margin), max(0, left - margin)
        section = grid.section(volume, direction, line)[0].T
        shown = section[first[0] : top + height + margin, first[1] : left + width + margin]
        return shown, (top - first[0], left - first[1], height, width)

    def draw(self, path: str | Path | None = None) -> Path:
        """Save a picture of all questions with numbers and answers, by default in the job folder; return its path."""
        from matplotlib.patches import Rectangle

        path = Path(path or self.job.path / f"audit-{self.of}.png")
        questions, palette = self.questions, self.job.palette
        drawn = {number: self.picture(number) for number in questions.index}
        images = {divmod(number - 1, SHEET): shown for number, (shown, _) in drawn.items()}
        figure, axes = image_axes(images, columns=SHEET, size=(2.35, 2.75))
        for ax, (number, row) in zip(axes, questions.iterrows(), strict=True):
            top, left, height, width = drawn[number][1]
            colour = palette[row["class"]]
            if self.of == "patches":
                ax.add_patch(Rectangle((left - 0.5, top - 0.5), width, height, fill=False, lw=1.8, ec=colour))
            else:
                ax.axhline(top, color=colour, lw=0.8, alpha=0.7)
                ax.axvline(left, color=colour, lw=0.8, alpha=0.7)
                ax.plot(left, top, "o", mfc="none", mec=colour, ms=11, mew=2)
            answer = f": {row['answer']}" if row["answer"] else "?"
            ax.set_title(f"{number}. {row['class']}{answer}", fontsize=10, loc="left", color="black", pad=3)
            ax.set_xlabel(", ".join(f"{row[name]:g}" for name in self.job.volume.dims), fontsize=7, labelpad=1)
        save(figure, path)
        return path

    def _answers(self) -> list[Entry]:
        """Return the answers that judge the present retrieved patches or labels; older answers are left out."""
        subject = (self.of, self.population.key)
        return [one for one in self.job.plan.state.audits if (one["subject"], one["of"]) == subject]


def patches(job: "Job") -> Population:
    """Return the population of an audit of patches: all retrieved patches, in groups of similar patches."""
    weak = job.retrieve()
    table = weak.table[["class", *job.volume.dims, "along", "row"]].assign(confidence=weak.weights)
    table = table[table["row"] >= 0].reset_index(drop=True)
    found = job._index(job.plan).descriptors(table["row"].to_numpy())
    groups, owners = groups_by_class(found, table["class"].to_numpy(), table["confidence"].to_numpy())
    sizes = pd.Series(np.bincount(groups, minlength=len(owners)))
    return Population(job.plan.keys["retrieved"], table, groups, sizes, pd.Series(owners))


def samples(job: "Job", seed: int) -> Population:
    """Return the population of an audit of samples: labelled samples, in groups by class and confidence.

    The samples are drawn at random from at most 50 lines. Stale lines are left out, and so are painted samples and
    confirmed samples.
    """
    labels = job.labels
    lines = np.array(sorted(line for line, stale in job.labelled.items() if not stale))
    if not len(lines):
        raise ValueError(
            f"{job.path} has no labels of the latest decisions; run 'outcrop label {job.path}', or Job.label(), first."
        )
    rng = np.random.default_rng(seed)
    lines = np.sort(rng.choice(lines, min(LINES, len(lines)), replace=False))
    parts = [_line_samples(job, labels, int(line), POOL // len(lines) + 1, rng) for line in lines]
    pool = pd.concat([part for part, _ in parts], ignore_index=True)
    if pool.empty:
        raise ValueError(
            f"None of {counted(len(lines), 'labelled lines')} has a sample to ask about: all samples are uncertain, "
            "painted or confirmed; choose a lower minimum confidence or a larger maximum error, or label other lines."
        )
    counts = pd.concat([count for _, count in parts]).groupby(level=[0, 1]).sum()
    groups = counts.index.get_indexer(pd.MultiIndex.from_frame(pool[["class", "level"]]))
    owners = pd.Series(counts.index.get_level_values(0))
    return Population(job.plan.keys["votes"], pool.drop(columns="level"), groups, pd.Series(counts.to_numpy()), owners)


def _line_samples(
    job: "Job", labels: xr.Dataset, line: int, n: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.Series]:
    """Return a table of up to `n` random labelled samples of a line, and the count of its samples by class and level.

    `line` is the position of the line. The level (0, 1 or 2) states in which third of the range from 0 to 1 the
    confidence lies. Painted and confirmed samples are neither drawn nor counted.
    """
    direction, vertical = job.plan.along, str(job.volume.dims[2])
    along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    section = labels.isel({along: line})
    codes = section["label"].values
    painted = marked_sections(job, job.plan)[0].get((direction, line), np.zeros_like(codes))
    confirmed = job_confirmed(job, job.plan).codes(line)
    eligible = labelled(codes) & (painted == 0) & (confirmed == 0)
    traces, times = np.nonzero(eligible)
    names = np.array(["", *labels.attrs["classes"]])[codes[eligible]]
    confidence = section["confidence"].values[eligible]
    level = np.minimum(confidence.astype(int) * TERCILES // 256, TERCILES - 1)
    counts = pd.DataFrame({"class": names, "level": level}).value_counts(sort=False)
    some = rng.choice(len(names), min(n, len(names)), replace=False)
    place: dict[str, Any] = {along: labels[along].values[line], across: labels[across].values[traces[some]]}
    place[vertical] = labels[vertical].values[times[some]]
    about = {"along": along, "confidence": confidence[some] / 255, "level": level[some]}
    table = pd.DataFrame({"class": names[some], **place, **about})
    return table[["class", *job.volume.dims, "along", "confidence", "level"]], counts
