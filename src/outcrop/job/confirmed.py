"""Labels of confirmed lines: they replace computed labels, and the mapper learns from them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from outcrop.job.imports import Entry, Scope, scope
from outcrop.job.line_files import LineFiles, LineLabels
from outcrop.job.plan import Plan
from outcrop.job.state import State, wins_over_line
from outcrop.job.strokes import Section, section_of, stroke_mask
from outcrop.labels.vote_store import EVERY, Part
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.kept import Kept, content
from outcrop.storage.workspace import Damaged
from outcrop.volumes.axes import SAME, positions_of

if TYPE_CHECKING:
    from outcrop.job.folder import JobFolder

CLICK_RADIUS = 4.0  # radius in samples and traces around a later click within which samples get its class


@dataclass(eq=False)
class Confirmed:
    """Confirmed labels of a survey, with all later strokes and clicks applied; files are read when they are needed.

    Parameters
    ----------
    parts : list of ((direction, position), callable)
        Confirmed sections, in the order of confirmation, each with a function that returns its codes: uint8, shape
        (n_traces, n_samples), 0 for samples that are not confirmed; see `confirmed_parts`.
    names : list of str
        Class of each code, starting with code 1.
    along : int
        Direction of the lines: 0 inline, 1 crossline.
    shape : (int, int, int)
        Shape of the volume.
    partial : set of (direction, position)
        Sections of which only a part is confirmed.
    """

    parts: Sequence[tuple[Section, Callable[[], np.ndarray]]]
    names: Sequence[str]
    along: int
    shape: Sequence[int]
    partial: Collection[Section] = ()
    own: set[int] = field(init=False)  # positions of the confirmed lines
    whole: set[int] = field(init=False)  # positions of the lines that are confirmed completely
    lines: set[int] = field(init=False)  # positions of all lines that a confirmed line or section touches

    def __post_init__(self) -> None:
        self.own = {position for (direction, position), _ in self.parts if direction == self.along}
        self.whole = {position for position in self.own if (self.along, position) not in self.partial}
        self.lines = set(self.own)
        for (direction, _), read in self.parts:
            if direction != self.along:
                self.lines |= set(np.flatnonzero(read().any(axis=1)).tolist())

    def section(self, direction: int, position: int) -> np.ndarray:
        """Return the confirmed codes of a section, shape (n_traces, n_samples); 0 at samples that are not confirmed.

        A confirmed section that crosses this one gives its codes on the common trace; the section confirmed last wins.
        """
        codes = np.zeros((self.shape[1 - direction], self.shape[2]), np.uint8)
        for (way, at), read in self.parts:
            if (way, at) == (direction, position):
                found = read()
                codes = np.where(found > 0, found, codes)
            elif way != direction:
                crossing = read()[position]
                codes[at] = np.where(crossing > 0, crossing, codes[at])
        return codes

    def codes(self, line: int) -> np.ndarray:
        """Return the confirmed codes of the line at position `line`, shape (n_traces, n_samples); see `section`."""
        return self.section(self.along, line)

    def over(
        self, line: int, classes: list[str], votes: np.ndarray, traces: Part = EVERY, samples: Part = EVERY
    ) -> tuple[list[str], np.ndarray]:
        """Return (classes, votes) of a line, changed so that each confirmed sample has votes for its class only.

        `line` is the position of the line. `votes` are the unchanged votes for `classes`; `traces` and `samples` select
        the part of the line that they cover. Confirmed classes that `classes` lacks are added to the returned classes.
        """
        if line not in self.lines:
            return classes, votes
        codes = self.codes(line)[traces][:, samples]
        present = [(code, self.names[code - 1]) for code in np.flatnonzero(np.bincount(codes.ravel())).tolist() if code]
        classes = [*classes, *(name for _, name in present if name not in classes)]
        found = np.zeros((len(classes), *codes.shape), np.uint8)
        found[: len(votes)] = np.where(codes > 0, 0, votes)
        for code, name in present:
            found[classes.index(name), codes == code] = 255
        return classes, found

    def block(self, lines: np.ndarray, traces: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Return the confirmed codes at given positions on the axes, shape (n_lines, n_traces, n_samples)."""
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        for i, line in enumerate(lines.tolist()):
            if line in self.lines:
                out[i] = self.codes(line)[traces][:, samples]
        return out


class NoVotes:
    """Substitute for a `VoteStore` on confirmed lines without stored votes: it has no classes and no votes."""

    classes: list[str] = []  # noqa: RUF012

    def __init__(self, shape: Sequence[int], along: int):
        self._shape = shape[1 - along], shape[2]
        self.counts = np.broadcast_to(np.zeros(256, np.uint32), (shape[along], 256))

    def read(self, line: int, traces: Part = EVERY, samples: Part = EVERY) -> np.ndarray:
        """Return an empty array of votes, shape (0, n_traces, n_samples), for a line or a part of it."""
        n_traces, n_samples = (len(np.arange(n)[part]) for n, part in zip(self._shape, (traces, samples), strict=True))
        return np.zeros((0, n_traces, n_samples), np.uint8)


def job_confirmed(job: "JobFolder", plan: Plan) -> Confirmed:
    """Return the confirmed labels of a job, for lines in the direction that `plan` labels; they stay in memory."""
    names = sorted(plan.codes, key=plan.codes.__getitem__)

    def make() -> Confirmed:
        codes = {name: plan.codes[name] for name in plan.names}
        kept = job._held("labels of confirmed lines", None, Kept)
        parts = confirmed_parts(plan.state, job.log.line_files, codes, job.axes, kept) if plan.state.confirmed else []
        places = [(section_of(entry, job.axes), bool(entry.get("part"))) for entry in plan.state.confirmed]
        whole = {place for place, part in places if not part}
        partial = {place for place, _ in places if place is not None and place not in whole}
        return Confirmed(parts, names, plan.along, plan.volume["shape"], partial)

    return job._held(f"confirmed along {plan.along}", (plan.state, plan.codes, plan.volume["digest"]), make)


def confirmed_parts(
    state: State, files: LineFiles, codes: Mapping[str, int], axes: Sequence[np.ndarray], kept: Kept
) -> Sequence[tuple[Section, Callable[[], np.ndarray]]]:
    """Return a list of (section, function that returns its codes), one for each confirmed section of a volume.

    The list is in the order of confirmation; a section is (direction, position). For the codes see `Confirmed`.

    Parameters
    ----------
    state : State
    files : LineFiles
        Files of the job; a line whose file is missing or damaged has no confirmed sample.
    codes : dict
        Name of a class in use -> its code. The name is the one under which the class was first added.
    axes : list of three arrays
        Inline numbers, crossline numbers and times of the volume.
    kept : Kept
        Cache in memory of codes that were read before.
    """
    strokes = [*_clicks(state), *((stroke["id"], scope(stroke), stroke) for stroke in state.strokes)]
    marks = [Mark(one, path, section_of(stroke, axes), stroke) for one, path, stroke in strokes]
    places = [(section_of(entry, axes), entry) for entry in state.confirmed]
    on_disk = content(*axes), files.changed()
    parts = []
    for place, entry in places:
        if place is None:
            continue
        later = [mark for mark in marks if mark.touches(place) and wins_over_line(mark.id, mark.scope, entry)]
        used = {name: code for name, code in codes.items() if name not in entry["without"]}
        make = partial(_labels_on, entry, place, files, used, codes, later, axes)
        key = entry["file"], place, *entry["classes"], *used.items(), on_disk, *(mark.id for mark in later)
        moved = tuple(tuple(mark.stroke.get("points", [()])[0]) for mark in later)
        parts.append((place, partial(kept.get, (*key, moved), make)))
    return parts


class Mark(NamedTuple):
    """A stroke with its section (None if the volume lacks the line); a click is a stroke of one point."""

    id: str
    scope: Scope
    place: Section | None
    stroke: Entry

    def touches(self, place: Section) -> bool:
        """Return whether this stroke or click may cover samples of the section at `place`.

        A stroke may also cover samples on sections that cross its own section. A click has one mark for each of the two
        sections through it.
        """
        if self.place is None or "click" in self.stroke:
            return self.place == place
        return self.place == place or self.place[0] != place[0]


def _labels_on(
    entry: Entry,
    place: Section,
    files: LineFiles,
    used: Mapping[str, int],
    codes: Mapping[str, int],
    later: Sequence[Mark],
    axes: Sequence[np.ndarray],
) -> np.ndarray:
    """Return the codes of a confirmed line on the axes of a volume, with the strokes and clicks in `later` applied.

    `entry` confirms the line; `place` is its section. `codes` maps all classes in use to their codes, and `used` only
    the classes that were not removed after the confirmation. If the file of the line is missing or damaged, all
    returned codes are 0.
    """
    try:
        labels = files.read(entry["file"])._replace(classes=entry["classes"])
    except Damaged:
        return np.zeros((len(axes[1 - place[0]]), len(axes[2])), np.uint8)
    section = on_axes(labels, used, axes[1 - place[0]], axes[2])
    for mark in later:
        mask, part = stroke_mask(mark.stroke, axes), section
        if mark.place is not None and mark.place != place:
            mask, part = mask[place[1]], section[mark.place[1]]
        code = codes.get(mark.stroke["class"], 0)
        if mark.stroke["what"] == "exclude":
            part[mask & (part == code)] = 0
        else:  # on samples that are not confirmed, strokes are applied elsewhere
            part[mask & (part > 0)] = code
    return section


def _clicks(state: State) -> Iterable[tuple[str, Scope, Entry]]:
    """Yield (id, scope, stroke) twice for each exemplar with a place: for the inline and the crossline through it.

    The stroke has one point. The scope lists the files through which the exemplar was imported.
    """
    for one in state.exemplars:
        for along in DIRECTIONS if one.place else ():
            stroke = {"what": "stroke", "class": one.name, "along": along, "points": [one.place]}
            yield one.id, one.scope, stroke | {"radius": CLICK_RADIUS, "click": True}


def on_axes(labels: LineLabels, codes: Mapping[str, int], traces: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return the codes of a line at given trace numbers and sample times, shape (n_traces, n_samples).

    `codes` maps the classes of the labels to the codes that are returned. The label at the nearest sample time counts;
    traces and times outside the labels have code 0.

    Examples
    --------
    >>> labels = LineLabels(["salt"], np.array([7.0, 9.0]), np.array([0.0, 4.0]), np.array([[1, 0], [1, 1]], np.uint8))
    >>> on_axes(labels, {"salt": 3}, np.array([8, 9]), np.array([0.0, 4.0, 8.0]))
    array([[0, 0, 0],
           [3, 3, 0]], dtype=uint8)
    """
    table = np.array([0, *(codes.get(name, 0) for name in labels.classes)], np.uint8)
    rows = positions_of(labels.traces, traces)
    own, wanted = np.round(labels.samples / SAME), np.round(np.asarray(samples, np.float64) / SAME)
    columns = np.rint(np.interp(wanted, own, np.arange(len(own)), left=-1, right=-1)).astype(int)
    padded = np.pad(table[labels.codes], [(0, 1), (0, 1)])  # position -1 is not confirmed
    found: np.ndarray = padded[rows][:, columns]
    return found


def agree(painted: dict[Section, np.ndarray], excluded: dict[Section, np.ndarray], confirmed: Confirmed) -> None:
    """Remove painted and excluded samples that contradict a confirmed label, in place."""
    if not confirmed.parts:
        return
    for place, section in painted.items():
        codes = confirmed.section(*place)
        section[(codes > 0) & (codes != section)] = 0
    for place, masks in excluded.items():
        codes = confirmed.section(*place)
        for number, mask in enumerate(masks, 1):
            mask[codes == number] = False


def is_open(job: "JobFolder", line: int, codes: np.ndarray, store: Any) -> bool:
    """Return whether a line has a sample that is not confirmed; if votes are stored, only samples with votes count.

    `codes` are the confirmed codes of the line at position `line`; `store` is the store of its votes, or None.
    """
    if codes.all():
        return False
    if store is None:
        return True
    held: Kept = job._held("voted samples", None, Kept)
    try:
        voted = held.get((store.folder.name, line), lambda: store.read(line).any(axis=0))
    except (ValueError, OSError):
        return True
    return bool((voted & (codes == 0)).any())


def confirmed_evidence(confirmed: Confirmed, sampled: Iterable[int]) -> dict[float, np.ndarray]:
    """Return a dict: line position -> confirmed codes from which a mapper learns, shape (n_samples, n_traces).

    A confirmed line gives all its samples. A confirmed section across the lines gives a strip of four traces (the
    spacing of grid points) on every line whose position is in `sampled`.
    """
    found = {float(line): confirmed.codes(line).T for line in sorted(confirmed.own)}
    across = [(position, read()) for (way, position), read in confirmed.parts if way != confirmed.along]
    shape = confirmed.shape[2], confirmed.shape[1 - confirmed.along]
    for line in sampled if across else ():
        if line not in confirmed.own:
            section = found.setdefault(float(line), np.zeros(shape, np.uint8))
            for position, codes in across:
                section[:, position // 4 * 4 : position // 4 * 4 + 4] = codes[line][:, None]
    return {line: codes for line, codes in found.items() if codes.any()}
