"""Audits of a job: random patches or samples to say yes, no or cannot tell to, and what follows from the answers."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from outcrop import plots
from outcrop.job.entries import AUDIT_ANSWERS as ANSWERS
from outcrop.job.pictures import save
from outcrop.job.sections import marked_sections
from outcrop.mapping.confidence import UNCERTAIN
from outcrop.patches.grid import DIRECTIONS
from outcrop.retrieval.audit import draw_order, estimate, groups_by_class, iou_estimates

SUBJECTS = ("patches", "samples")
POOL = 4000  # samples of labelled lines from which questions are drawn
LINES = 50  # labelled lines that they are taken from at most
TERCILES = 3  # groups of a class by the confidence of its samples
CONTEXT = 48  # samples and traces around a patch that are shown, and twice that around a sample
SHEET = 6  # questions in a row of the picture


class Population(NamedTuple):
    """What is audited: `sizes` members in each of the groups, and those that may be asked about."""

    key: str  # of the retrieved table, or of the votes
    table: pd.DataFrame  # class, place, along, confidence of the members
    groups: np.ndarray  # of each member of the table
    sizes: pd.Series  # by group
    classes: pd.Series  # class of each group


class Audit:
    """Random questions about the retrieved patches or the labels of a job, and estimates from the answers.

    The same job, seed and number of questions give the same questions; more of them go on where fewer ended.

    Parameters
    ----------
    job : Job
    clicks : int
        Questions.
    of : {"patches", "samples"}
        Retrieved patches, or labelled samples.
    seed : int
    """

    def __init__(self, job, clicks=30, *, of="patches", seed=0):
        if of not in SUBJECTS:
            raise ValueError(f"An audit of {of!r} is unknown; choose {' or '.join(SUBJECTS)}.")
        if int(clicks) != clicks or clicks < 1:
            raise ValueError(f"An audit has {clicks} clicks; choose a whole number from 1 on, 30 for instance.")
        self.job, self.of, self.seed = job, of, int(seed)
        self.population = (patches if of == "patches" else samples)(job, self.seed)
        chosen = draw_order(self.population.groups, int(clicks), seed=self.seed)
        chosen = np.random.default_rng(self.seed).permutation(chosen)
        table = self.population.table.iloc[chosen].reset_index(drop=True)
        self._questions = table.assign(stratum=self.population.groups[chosen])

    @property
    def questions(self) -> pd.DataFrame:
        """One row a question, numbered from 1: class, place, direction, and the answer where it was given."""
        given = self._given()
        answers = [given.get((row["class"], *self._place(row)), "") for _, row in self._questions.iterrows()]
        table = self._questions.drop(columns="stratum").assign(answer=answers)
        return table.set_axis(pd.RangeIndex(1, len(table) + 1, name="number"))

    def answer(
        self,
        yes: Iterable[int] = (),
        no: Iterable[int] = (),
        unknown: Iterable[int] = (),
        really: Mapping[int, str] | None = None,
    ) -> None:
        """Keep answers to questions, given by their numbers, as one decision.

        Parameters
        ----------
        yes, no, unknown : sequence of int
        really : dict, optional
            Number -> class that a wrong sample really is; where all wrong ones have one, `estimates` has IoU.
        """
        entries = []
        given: dict = {}
        really = {int(number): self._class(name) for number, name in (really or {}).items()}
        no = [*np.atleast_1d(np.asarray(no, int)).tolist(), *really]
        for answer, numbers in zip(ANSWERS, (yes, no, unknown), strict=True):
            for number in np.atleast_1d(np.asarray(numbers, int)).tolist():
                if not 1 <= number <= len(self._questions):
                    raise ValueError(f"There is no question {number}; answer 1 to {len(self._questions)}.")
                if given.setdefault(number, answer) != answer:
                    raise ValueError(f"Question {number} is answered {given[number]} and {answer}; say one of them.")
        for number, answer in sorted(given.items()):
            row = self._questions.iloc[number - 1]
            *place, along = self._place(row)
            more: dict = {"confidence": round(float(row["confidence"]), 4)} if self.of == "samples" else {}
            more |= {"really": really[number]} if number in really else {}
            if more.get("really") == self.job.plan.firsts.get(row["class"]):
                raise ValueError(f"Question {number} is labelled {row['class']}; say yes if that is what it is.")
            entries.append(
                {
                    "what": "audit", "class": self.job.plan.firsts.get(row["class"]), "place": place, "along": along,
                    "answer": answer, "subject": self.of, "of": self.population.key, "stratum": int(row["stratum"]),
                    **more,
                }
            )  # fmt: skip
        if entries:
            self.job._decide(*entries)

    def _class(self, name):
        """First name of a class of the job."""
        if name not in self.job.classes:
            raise ValueError(f"There is no class {name!r}; choose one of {', '.join(self.job.classes)}.")
        return self.job.plan.firsts[name]

    @property
    def estimates(self) -> pd.DataFrame:
        """Share of right ones by class and of all, with intervals of 95 %, from the answers given so far.

        Of samples also IoU with its interval (of all: its mean), where the true class of every wrong one was given.
        """
        answers = self._answers()
        known = [one for one in answers if one["answer"] != "unknown"]
        groups, right = [one["stratum"] for one in known], [one["answer"] == "yes" for one in known]
        rows = []
        for name in [*dict.fromkeys(self.population.classes), None]:
            counted = self.population.classes == name if name else pd.Series(True, self.population.classes.index)
            sizes = np.where(counted, self.population.sizes, 0)
            found = estimate(self.population.sizes.index, sizes, groups, right)
            first = None if name is None else self.job.plan.firsts.get(name)
            asked = [one["answer"] for one in answers if first in (None, one["class"])]
            counts = {answer: asked.count(answer) for answer in ANSWERS}
            rows.append({"class": name or "all", **counts, "right": found.share, "low": found.low, "high": found.high})
        return pd.DataFrame(rows).join(self._iou(known), on="class")

    def _iou(self, known):
        """IoU of every class and their mean, with intervals; empty where it cannot be estimated."""
        if self.of != "samples" or not known or any(one["answer"] == "no" and "really" not in one for one in known):
            return pd.DataFrame()
        names = self.job.plan.names
        truths = [names.get(one.get("really", one["class"]), one["class"]) for one in known]
        classes = list(dict.fromkeys([*self.population.classes, *truths]))
        found = iou_estimates(
            self.population.sizes, self.population.classes, [one["stratum"] for one in known], truths, classes
        )
        rows = {name: {"IoU": one.share, "IoU_low": one.low, "IoU_high": one.high} for name, one in found.items()}
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def older(self) -> int:
        """Answers about patches, or about samples, of older decisions, which are kept and not counted here."""
        return sum(one["subject"] == self.of for one in self.job.plan.state.audits) - len(self._answers())

    def picture(self, number):
        """Amplitudes around a question, rows downwards, and where in them the patch or sample lies: top, left, size."""
        row = self._questions.iloc[number - 1]
        grid, volume = self.job._grid(self.job.plan), self.job.volume
        direction = DIRECTIONS.index(row["along"])
        axes = [volume[name].values for name in (row["along"], DIRECTIONS[1 - direction], volume.dims[2])]
        line, trace, sample = (
            int(np.abs(axis - row[name]).argmin())
            for axis, name in zip(axes, (row["along"], DIRECTIONS[1 - direction], volume.dims[2]), strict=True)
        )
        height, width = grid.size if self.of == "patches" else (1, 1)
        margin = CONTEXT if self.of == "patches" else 2 * CONTEXT
        top, left = sample - height // 2, trace - width // 2
        first = max(0, top - margin), max(0, left - margin)
        section = grid.section(volume, direction, line)[0].T
        shown = section[first[0] : top + height + margin, first[1] : left + width + margin]
        return shown, (top - first[0], left - first[1], height, width)

    def draw(self, path=None):
        """Save all questions with their numbers as one picture; where it is."""
        path = path or self.job.path / f"audit-{self.of}.png"
        save(sheet(self), path)
        return path

    def _place(self, row):
        return (*(float(row[name]) for name in self.job.volume.dims), str(row["along"]))

    def _given(self):
        """Answer by class, place and direction; the last one counts."""
        names = self.job.plan.names
        return {(names.get(one["class"]), *one["place"], one["along"]): one["answer"] for one in self._answers()}

    def _answers(self):
        """Answers about what is audited here."""
        subject = (self.of, self.population.key)
        return [one for one in self.job.plan.state.audits if (one["subject"], one["of"]) == subject]


def patches(job, seed):
    """Retrieved patches of the present decisions, in groups that look alike."""
    weak = job.retrieve()
    index = job._index(job.plan)
    table = weak.table[["class", *job.volume.dims, "along", "row"]].assign(confidence=weak.weights)
    on = (table["row"] >= 0).to_numpy()
    table = table[on].reset_index(drop=True)
    found = index.descriptors(table["row"].to_numpy())
    groups, owners = groups_by_class(found, table["class"].to_numpy(), table["confidence"].to_numpy())
    sizes = pd.Series(np.bincount(groups, minlength=len(owners)))
    return Population(job.plan.keys["retrieved"], table, groups, sizes, pd.Series(owners))


def samples(job, seed):
    """Samples of labelled lines that are not painted, in groups by class and confidence."""
    labels = job.labels
    lines = np.array(sorted(line for line, stale in job.labelled.items() if not stale))
    if not len(lines):
        raise ValueError(f"{job.path} has no labels of the present decisions; run 'outcrop label {job.path}' first.")
    rng = np.random.default_rng(seed)
    lines = np.sort(rng.choice(lines, min(LINES, len(lines)), replace=False))
    parts = [_line_samples(job, labels, int(line), POOL // len(lines) + 1, rng) for line in lines]
    pool = pd.concat([part for part, _ in parts], ignore_index=True)
    if pool.empty:
        raise ValueError(
            f"None of the {len(lines)} labelled lines has a sample to ask about: all are uncertain or painted; choose "
            "a lower confidence (--min-confidence) or a larger error (--max-error), or label other lines."
        )
    counts = pd.concat([count for _, count in parts]).groupby(level=[0, 1]).sum()
    owners = [name for name, _ in counts.index]
    numbers = {key: number for number, key in enumerate(counts.index)}
    groups = np.array([numbers[key] for key in zip(pool["class"], pool["level"], strict=True)])
    return Population(
        job.plan.keys["votes"], pool.drop(columns="level"), groups, pd.Series(counts.to_numpy()), pd.Series(owners)
    )


def _line_samples(job, labels, line, n, rng):
    """Some labelled samples of a line with class, place and level of confidence, and how many there are of each."""
    direction = job.plan.along
    along, across = DIRECTIONS[direction], DIRECTIONS[1 - direction]
    section = labels.isel({along: line})
    codes, confidence = section["label"].values, section["confidence"].values
    painted = marked_sections(job, job.plan)[0].get((direction, line))
    counted = (codes > 0) & (codes != UNCERTAIN)
    counted &= painted == 0 if painted is not None else True
    traces, times = np.nonzero(counted)
    names = np.array(["", *labels.attrs["classes"]])[codes[counted]]
    level = np.minimum(confidence[counted].astype(int) * TERCILES // 256, TERCILES - 1)
    counts = pd.Series(1, index=pd.MultiIndex.from_arrays([names, level])).groupby(level=[0, 1]).sum()
    some = rng.choice(len(names), min(n, len(names)), replace=False)
    table = pd.DataFrame(
        {
            "class": names[some], along: labels[along].values[line], across: labels[across].values[traces[some]],
            job.volume.dims[2]: labels[job.volume.dims[2]].values[times[some]], "along": along,
            "confidence": confidence[counted][some] / 255, "level": level[some],
        }
    )  # fmt: skip
    return table[["class", *job.volume.dims, "along", "confidence", "level"]], counts


def sheet(audit):
    """All questions of an audit with what lies around them, numbered; titles have the answers."""
    from matplotlib.patches import Rectangle

    questions, palette = audit.questions, audit.job.palette
    rows = -(-len(questions) // SHEET)
    figure = plots.new_figure(figsize=(2.35 * SHEET, 2.75 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, SHEET, squeeze=False)).ravel()
    for ax, (number, row) in zip(axes, questions.iterrows(), strict=False):
        shown, (top, left, height, width) = audit.picture(number)
        ax.imshow(np.nan_to_num(shown, nan=0.5), cmap="gray", vmin=0, vmax=1, aspect="auto")
        colour = palette[row["class"]]
        if audit.of == "patches":
            ax.add_patch(Rectangle((left - 0.5, top - 0.5), width, height, fill=False, lw=1.8, ec=colour))
        else:
            ax.axhline(top, color=colour, lw=0.8, alpha=0.7)
            ax.axvline(left, color=colour, lw=0.8, alpha=0.7)
            ax.plot(left, top, "o", mfc="none", mec=colour, ms=11, mew=2)
        answer = f": {row['answer']}" if row["answer"] else "?"
        ax.set_title(f"{number}. {row['class']}{answer}", fontsize=10, loc="left", color="black", pad=3)
        ax.set_xlabel(", ".join(f"{row[name]:g}" for name in audit.job.volume.dims), fontsize=7, labelpad=1)
        ax.set(xticks=[], yticks=[])
    for ax in axes[len(questions) :]:
        ax.axis("off")
    return figure
