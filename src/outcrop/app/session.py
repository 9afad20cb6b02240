"""The state and the actions behind the page of one job: decisions, search, labels and exports."""

import functools
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import outcrop as oc
from outcrop.app.advice import PageAdvice
from outcrop.app.audit import Audits
from outcrop.app.geology import Geology
from outcrop.app.labelling import PageLabels
from outcrop.app.lines import Lines
from outcrop.app.page_job import open_job
from outcrop.app.pictures import Codes, Picture, Window, crop
from outcrop.app.results import Results
from outcrop.app.search import Search
from outcrop.app.survey import Place, Survey
from outcrop.app.unseen import Unseen
from outcrop.app.view import View
from outcrop.app.words import in_words, kind_of, person_of
from outcrop.app.work import Work
from outcrop.job.choices import judge, move_exemplar
from outcrop.job.choosing import choose_counts, choose_labels
from outcrop.measures.curvelet import SMALLEST
from outcrop.patches.grid import DIRECTIONS
from outcrop.volumes.lengths import parse_size
from outcrop.words import counted

STRIPES = 6  # traces between the stripes that show an excluded class
POLL = 1.0  # seconds between two checks for decisions of other writers
MARKS = ("right", "wrong", "erase")  # values of the brush that do not name a class
T = TypeVar("T")


class Session:
    """A job that the page has opened.

    Opening does not change the job, and several sessions of one job can be open.

    Parameters
    ----------
    source : path or DataArray
        A volume, or a job folder.
    job : path, optional
        The job folder of a volume; by default NAME.outcrop in the current folder.
    size : int, (int, int) or str, optional
        Patch size of a new job, in the format of `parse_size`; by default 99, or less in a smaller volume.
    truth : path or DataArray, optional
        Expert labels to compare with.

    Attributes
    ----------
    job : PageJob
        The open job; change it only with `decide` and the methods below.
    survey : Survey
        The volume of the job, with its sections and axes.
    view : View
        The stored settings of the page, such as the section in view.
    work : Work
        Running tasks, and the message to the interpreter.
    search : Search
        The search for similar patches.
    labelling : PageLabels
        The labels and their computation.
    lines : Lines
        Whether each line is labelled, stale or confirmed, and its mean confidence.
    results : Results
        Exports.
    geology : Geology
        Fault sticks and geobodies.
    audits : Audits
        Questions of audits.
    unseen : Unseen
        Groups of patches unlike all exemplars.
    advice : PageAdvice
        Warnings and notes to the interpreter.
    """

    def __init__(self, source: Any, job: str | Path | None = None, *, size: Any = None, truth: Any = None) -> None:
        truth_path = None if hasattr(truth, "dims") else truth
        truth = truth if truth_path is None else oc.open_volume(truth_path)
        self.job = open_job(source, job, size)
        self._listeners: list[Callable[[str], object]] = []
        self.survey = Survey(self.job)
        self.survey.sections.refined = lambda: self.tell("section")
        self.view = View(self.job.path)
        self.work = Work(self.tell)
        self.search = Search(self.job, self.survey, self.work)
        self.labelling = PageLabels(self.job, self.survey, self.work, self.view, truth)
        self.lines = Lines(self.labelling, self.tell)
        self.results = Results(self.labelling, truth_path)
        self.geology = Geology(self)
        self.audits, self.unseen = Audits(self), Unseen(self)
        self._keys: dict[str, int] = self.view.get("class-keys", {})  # first name of a class -> its number key
        self.advice = PageAdvice(self)
        self._seen = self._now()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        self.work.say(self.labelling.broken_off())
        self.labelling.look()

    @property
    def path(self) -> Path:
        """The job folder."""
        return self.job.path

    def listen(self, function: Callable[[str], object]) -> Callable[[], None]:
        """Call a function with the kind of every later change; return a function that ends these calls.

        Kinds are "state" (decisions), "strokes", "work" (tasks and messages), "weak" (retrieved patches), "labels",
        "lines" (confidence of lines), "places" (the places to check next), "section" (a finer picture of the section),
        "geology", "audit", "unseen" and "advice".
        """
        self._listeners.append(function)
        return lambda: self._listeners.remove(function) if function in self._listeners else None

    def tell(self, what: str) -> None:
        """Report a change to every page; `what` is one of the kinds that `listen` lists."""
        for function in list(self._listeners):
            function(what)

    def close(self) -> None:
        """Stop all work and close the job folder."""
        self._closed.set()
        self._watcher.join()
        for part in (
            self.view, self.work, self.search, self.labelling, self.lines, self.geology, self.advice,
            self.survey.sections, self.job,
        ):  # fmt: skip
            part.close()

    # ---- other writers ----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closed.wait(POLL):
            try:
                self.catch_up()
            except OSError as error:  # the disk may be unavailable for a moment
                self.work.say(str(error), wrong=True)

    def catch_up(self) -> None:
        """Show new decisions, patches and labels that other programs or persons wrote into the job."""
        now = self._now()
        (plan, tables, labels), self._seen = self._seen, now
        if now[0] is not plan:
            self.tell("state")
        if now[0] is not plan or now[1] != tables:
            self.search.refresh(mine=False)
        if now[2] != labels:
            self.tell("labels")
            self.labelling.look()

    def _now(self) -> tuple[Any, int, int]:
        """Return three values that show by their change that another program changed the job.

        They are the plan (the decisions and options of the job), and the sizes in bytes of two kinds of files: files
        that list searches, and files that list labelled lines.
        """
        return self.job.plan, self.job.written("retrieved"), self.job.labels_written()

    # ---- decisions --------------------------------------------------------------------------------------------------

    def decide(self, decision: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a method that logs a decision, for instance ``decide(session.job.rename_class, "fault", "faults")``.

        Returns what the method returns. The pages are updated, and a thread updates the retrieved patches.
        """
        self.advice.forget_notes()
        made = decision(*arguments, **options)
        self._notify("state")
        self.search.refresh()
        return made

    def _notify(self, what: str) -> None:
        """Report a decision of this session to the pages; `what` is one of the kinds that `listen` lists."""
        self.work.forget()
        self._seen = (self.job.plan, *self._seen[1:])
        self.tell(what)

    def add_exemplar(self, name: str, place: Place, *, new: bool = False) -> list[float]:
        """Place an exemplar of a class; return its centre (inline, crossline, time) on the nearest sample.

        If `new` is True, a class that the job does not have is added; else an unknown class raises an error.
        """
        if not new:
            self._check_class(name)
        place = self.survey.snap(place)
        self.decide(self.job.add_exemplar, name, place)
        return place

    def move_exemplar(self, id: str, place: Place) -> list[float]:
        """Move an exemplar; return its new centre (inline, crossline, time) on the sample nearest to `place`."""
        place = self.survey.snap(place)
        self.decide(move_exemplar, self.job, id, place)
        return place

    def judge(self, name: str, place: Place, *, along: str = "inline", accept: bool | None = None) -> None:
        """Accept a retrieved patch for a class, or reject it, or clear its verdict; then re-rank.

        `accept` is True to accept, False to reject, and None to clear the verdict.
        """
        self.judge_all(name, [(place, along)], accept=accept)

    def judge_all(self, name: str, patches: Iterable[tuple[Place, str]], *, accept: bool | None = None) -> None:
        """Accept or reject patches for a class, or clear their verdicts, as one act.

        `patches` holds (place, direction) of each patch; `accept` is as in `judge`.
        """
        verdict = "forget" if accept is None else "accept" if accept else "reject"
        self.decide(judge, self.job, [(name, place, along) for place, along in patches], verdict)

    def set_count(self, name: str, count: int | None) -> None:
        """Set the number of patches that are used for a class; None chooses the automatic number (`auto_count`)."""
        counts = self.job.counts() | {name: "auto" if count is None else max(1, count)}
        self.decide(choose_counts, self.job, counts)

    def set_size(self, size: str | Sequence[int], line: float | None = None) -> None:
        """Set the patch size: (samples, traces), or a text in the format of `parse_size`.

        Exemplars keep their positions. In a large survey, the next search covers only the lines near line number
        `line`.
        """
        height, width = parse_size(size, self.job.volume) if isinstance(size, str) else size
        if min(height, width) < SMALLEST:
            raise ValueError(
                f"A patch of {height} samples x {width} traces is too small; choose at least {SMALLEST} x {SMALLEST}."
            )
        if (height, width) != self.survey.size:
            self.decide(self.search.choose_size, (height, width), line)

    def cut_at(self, name: str, similarity: float) -> None:
        """Use all patches of a class that have at least the given similarity."""
        self.set_count(name, int(np.count_nonzero(self.search.weak.curves[name] >= similarity)))

    def set_mapping(self, name: str) -> None:
        """Choose the mapping by its name; the other options of labelling stay unchanged."""
        if name != self.job.plan.label.mapping:
            self.decide(choose_labels, self.job, mapping=name)

    def set_limit(self, confidence: float) -> None:
        """Set the minimum confidence of labels, 0 to 1; labels then change without a new computation of votes."""
        if abs(confidence - self.labelling.limit) > 1e-6:
            self.decide(choose_labels, self.job, min_confidence=float(confidence))

    def class_keys(self) -> dict[str, int]:
        """Return a dict: class -> number of its key; a class keeps its number when another class is removed."""
        names = self.job.plan.names
        kept = {first: self._keys[first] for first in names if first in self._keys}
        free = (number for number in itertools.count(1) if number not in kept.values())
        keys = {first: kept[first] if first in kept else next(free) for first in names}
        if keys != self._keys:
            self._keys = keys
            self.view.keep(**{"class-keys": keys})
        return {names[first]: number for first, number in keys.items()}

    def belongings(self, name: str) -> str:
        """Return a text that counts the decisions removed together with a class, such as "2 exemplars"; "" for none."""
        first, confirmed = self.job.first_name(name), self.job.plan.state.confirmed
        exemplars = sum(one.name == name for one in self.job.exemplars)
        strokes = sum(one["class"] == first for one in self.job.strokes)
        counts = {
            "exemplars": exemplars,
            "strokes": strokes,
            "accepted or rejected patches": len(self.job.verdicts(name)),
            "confirmed lines": sum(first in one["classes"] and first not in one["without"] for one in confirmed),
        }
        return " and ".join(counted(n, things) for things, n in counts.items() if n)

    def _check_class(self, name: str) -> None:
        palette = self.job.palette
        if name not in palette:
            remedy = f"choose one of {', '.join(palette)}" if palette else "add it first"
            raise ValueError(f"Class {name!r} is unknown; {remedy}.")

    # ---- undo -------------------------------------------------------------------------------------------------------

    def undo(self, act: str | None = None) -> bool:
        """Undo the last act of this page, or an act from `last_acts` by its id; return whether an act was undone."""
        return self._go_back(functools.partial(self.job.undo, act), "undo")

    def last_acts(self) -> list[tuple[str, str]]:
        """Return a list of (id, description): the last act of each kind and person that can be undone."""
        names = self.job.plan.names
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for entries in self.job.log.undoable():
            last = entries[-1]
            when = f"{last['time'][:16].replace('T', ' ')} UTC"
            text = f"{in_words(entries, names)}, {self._whose(last)}, {when}"
            found.setdefault((kind_of(entries), person_of(last)), (entries[0]["id"], text))
        return list(found.values())

    def _whose(self, entry: dict[str, Any]) -> str:
        """Return the name of the person who made a decision; "you" for the person at this page."""
        person = person_of(entry)
        return "you" if person == self.job.person else person

    def redo(self) -> bool:
        """Redo the last undone act; return whether an act was redone."""
        return self._go_back(self.job.redo, "redo")

    def _go_back(self, change: Callable[[], Any], verb: str) -> bool:
        """Call `change`, which undoes or redoes an act; show a message that names the act.

        Returns False if there was nothing to undo or redo.
        """
        before = self.job.plan.names
        done = self.decide(self._follow_strokes, change)
        if done:
            act = self.job.last_act()
            words = in_words(act, before if verb == "undo" else self.job.plan.names)
            self.work.say(f"{'Undone' if verb == 'undo' else 'Redone'}: {words} ({self._whose(act[-1])}).")
        else:
            self.work.say(f"There is nothing to {verb}.")
        return done

    def _follow_strokes(self, change: Callable[[], Any]) -> bool:
        """Call `change`, which undoes or redoes an act; if this changes the strokes, update the labels of their lines.

        Returns False if there was nothing to undo or redo.
        """
        before, shown = self.job.strokes, self.labelling.shown()
        done = change()
        now = self.job.strokes
        for stroke in [*(one for one in before if one not in now), *(one for one in now if one not in before)]:
            section = self.job.section_of(stroke)
            if section is not None and section[0] == self.survey.along:
                self.labelling.begin_correction(section[1], shown)
                self.labelling.follow(section[1])
        return bool(done)

    # ---- brush ------------------------------------------------------------------------------------------------------

    def paint(
        self, name: str, direction: int, position: int, points: Sequence[tuple[float, float]], radius: float = 4, *,
        filled: bool = False, id: str | None = None,
    ) -> None:  # fmt: skip
        """Label the samples under a brush stroke; see `Job.paint`.

        Parameters
        ----------
        name : str
            A class, or ``right``, ``wrong`` or ``erase``.
        direction, position : int
            Direction of the section (0 inline, 1 crossline), and its position on that axis.
        points : sequence of (float, float)
            Points of the stroke: coordinates across and down the section.
        radius : float
            Radius of the brush, in samples and traces.
        filled : bool
            Whether to join the last point to the first and to paint the enclosed area too.
        id : str, optional
            Id of the stroke; a stroke that the browser sends twice is stored once.
        """
        if id is not None and not re.fullmatch("[0-9a-f]{16}", str(id)):
            raise ValueError(f"{str(id)[:40]!r} is not the id of a stroke; give 16 hexadecimal digits.")
        if direction not in (0, 1):
            raise ValueError("Paint on an inline or a crossline; time slices cannot be painted.")
        if name not in MARKS:
            self._check_class(name)
        places = [self.survey.place(direction, position, x, y) for x, y in points[:5000]]
        if direction != self.survey.along:  # a stroke across the lines first updates the line through its middle
            position = self.survey.line_at(float(np.mean([place[self.survey.along] for place in places])))
        how: dict[str, Any] = {"radius": float(np.clip(radius, 0.5, 100)), "along": DIRECTIONS[direction]}
        self.decide_on(position, self.job.paint, name, places, filled=filled, id=id, **how)

    def decide_on(self, position: int, decision: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Call a method that logs a decision about samples of a line, and update labels in threads.

        The labels of the line at `position` are updated first, then the labels of stale lines near it.
        """
        self.advice.forget_notes()
        self.labelling.begin_correction(position)
        decision(*arguments, **options)
        self.labelling.follow(position)
        self._notify("strokes")

    # ---- confirmed lines --------------------------------------------------------------------------------------------

    def confirm(self, direction: int, position: int) -> None:
        """Confirm the present labels of an inline or a crossline; see `Job.confirm`."""
        along, line = self._line(direction, position)
        if direction != self.survey.along:
            self.decide(self.job.confirm, [line], along)
            return
        if position not in self.labelling.done():
            raise ValueError(f"{along.capitalize()} {line:g} has no labels yet; label it before you confirm it.")
        if self.labelling.correcting == position:
            raise ValueError("This line is still being updated after your last stroke; confirm it in a moment.")
        self.decide_on(position, self.job.confirm, [line], along)
        self.tell("labels")

    def unconfirm(self, direction: int, position: int) -> None:
        """Clear the confirmation of an inline or a crossline; see `Job.unconfirm`."""
        along, line = self._line(direction, position)
        if direction == self.survey.along:
            self.decide_on(position, self.job.unconfirm, [line], along)
        else:
            self.decide(self.job.unconfirm, [line], along)
        self.tell("labels")

    def _line(self, direction: int, position: int) -> tuple[str, float]:
        """Return ("inline" or "crossline", line number) of a section; raise an error for a time slice."""
        if direction == 2:
            raise ValueError("A time slice cannot be confirmed; show an inline or a crossline.")
        return DIRECTIONS[direction], self.survey.axes[direction].labels[position].item()

    def painted_picture(self, direction: int, position: int, window: Window | None = None) -> Picture | None:
        """Return a picture of the painted classes of a section, as codes; None if nothing is painted.

        Where strokes marked labels of a class as wrong, the picture has stripes with the code of this class.
        """
        codes, excluded = self.job.painted_on(direction, position)
        if excluded is not None:
            striped = stripes(excluded)
            codes = striped if codes is None else np.where(codes > 0, codes, striped)
        if codes is None:
            return None
        return crop(codes.T, self.survey.sections.frame(direction), window, mean=False)


def stripes(excluded: npt.NDArray[np.bool_]) -> Codes:
    """Return a picture that shows excluded classes as stripes of their codes, side by side if a sample has several.

    `excluded` has the shape (n_classes, n_traces, n_samples); True states that the label is not this class.

    Examples
    --------
    >>> stripes(np.ones((1, 2, 6), bool))
    array([[1, 1, 0, 0, 0, 0],
           [1, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    codes = np.zeros(excluded.shape[1:], np.uint8)
    diagonal = np.add.outer(*map(np.arange, codes.shape)) % STRIPES
    for i, mask in enumerate(excluded):
        codes[mask & ((diagonal + 2 * i) % STRIPES < 2)] = i + 1
    return codes
