"""Confirmed lines: which samples a person confirmed, on top of all votes and as evidence for a mapper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from outcrop.job.imports import Entry, Scope, scope
from outcrop.job.line_files import LineFiles, LineLabels
from outcrop.job.plan import Plan
from outcrop.job.state import State, is_later
from outcrop.job.strokes import Section, section_of, stroke_mask
from outcrop.labels.vote_store import EVERY, Part
from outcrop.patches.grid import DIRECTIONS
from outcrop.storage.kept import Kept
from outcrop.storage.workspace import Damaged
from outcrop.volumes.axes import SAME, positions_of

if TYPE_CHECKING:
    from outcrop.job.folder import JobFolder

CLICK_RADIUS = 4.0  # samples and traces around a later click that have its class, as those of a stroke


@dataclass(eq=False)
class Confirmed:
    """What is confirmed in a survey after all later decisions, read along one direction.

    Parameters
    ----------
    sections : dict
        (direction, position) -> codes, uint8, shape (n_traces, n_samples); 0 is open. See `confirmed_sections`.
    names : list of str
        Class of each code, that of code 1 first.
    along : int
        Direction of the lines.
    shape : (int, int, int)
        Of the volume.
    """

    sections: Mapping[Section, np.ndarray]
    names: Sequence[str]
    along: int
    shape: Sequence[int]
    own: set[int] = field(init=False)  # positions of the lines that are confirmed themselves
    lines: set[int] = field(init=False)  # positions of the lines with a confirmed sample

    def __post_init__(self) -> None:
        self.own = {position for direction, position in self.sections if direction == self.along}
        self.lines = set(self.own)
        for (direction, _), codes in self.sections.items():
            if direction != self.along:
                self.lines |= set(np.flatnonzero(codes.any(axis=1)).tolist())

    def codes(self, line: int) -> np.ndarray:
        """Return the codes confirmed on a line, on it or where a confirmed section crosses it."""
        codes = self.sections.get((self.along, line))
        codes = np.zeros((self.shape[1 - self.along], self.shape[2]), np.uint8) if codes is None else codes.copy()
        for (direction, position), section in self.sections.items():
            if direction != self.along:
                codes[position] = np.where(codes[position] > 0, codes[position], section[line])
        return codes

    def over(
        self, line: int, classes: list[str], votes: np.ndarray, traces: Part = EVERY, samples: Part = EVERY
    ) -> tuple[list[str], np.ndarray]:
        """Return classes and votes of a part of a line in which confirmed samples have all votes for their class."""
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
        """Return the confirmed codes of a block, given by positions, shape (n_lines, n_traces, n_samples)."""
        out = np.zeros((len(lines), len(traces), len(samples)), np.uint8)
        for i, line in enumerate(lines.tolist()):
            if line in self.lines:
                out[i] = self.codes(line)[traces][:, samples]
        return out


class NoVotes:
    """Stands for the votes of a line that has none: no class, no vote."""

    classes: list[str] = []  # noqa: RUF012

    def __init__(self, shape: Sequence[int], along: int):
        self._shape = shape[1 - along], shape[2]
        self.counts = np.broadcast_to(np.zeros(256, np.uint32), (shape[along], 256))

    def read(self, line: int, traces: Part = EVERY, samples: Part = EVERY) -> np.ndarray:
        """Return the votes of a line, or of a part of it: of no class."""
        n_traces, n_samples = (len(np.arange(n)[part]) for n, part in zip(self._shape, (traces, samples), strict=True))
        return np.zeros((0, n_traces, n_samples), np.uint8)


def job_confirmed(job: "JobFolder", plan: Plan) -> Confirmed:
    """Return what is confirmed in a job, read along the lines of a plan; the last one is held."""
    names = sorted(plan.codes, key=plan.codes.__getitem__)
    key = plan.state, plan.codes, plan.volume["digest"]

    def read() -> dict[Section, np.ndarray]:
        codes = {name: plan.codes[name] for name in plan.names}
        return confirmed_sections(plan.state, job.log.line_files, codes, job.axes)

    def make() -> Confirmed:
        sections = job._held("confirmed sections", key, read) if plan.state.confirmed else {}
        return Confirmed(sections, names, plan.along, plan.volume["shape"])

    return job._held(f"confirmed along {plan.along}", key, make)


def confirmed_sections(
    state: State, files: LineFiles, codes: Mapping[str, int], axes: Sequence[np.ndarray]
) -> dict[Section, np.ndarray]:
    """Return codes of what is confirmed, section by section; later confirmations, strokes and clicks win.

    Parameters
    ----------
    state : State
    files : LineFiles
        Of the job; a line whose file is lost is left out.
    codes : dict
        First name of a class in use -> its code.
    axes : list of three arrays
        Labels of the volume.

    Returns
    -------
    dict
        (direction, position) -> uint8 array, shape (n_traces, n_samples); 0 is open.
    """
    marks = [*_clicks(state), *((stroke["id"], scope(stroke), stroke) for stroke in state.strokes)]
    masks: dict[int, np.ndarray] = {}
    found: dict[Section, np.ndarray] = {}
    for entry in state.confirmed:
        place = section_of(entry, axes)
        try:
            labels = files.read(entry["file"])._replace(classes=entry["classes"])
        except Damaged:
            continue
        if place is None:
            continue
        used = {name: code for name, code in codes.items() if name not in entry["without"]}
        own = on_axes(labels, used, axes[1 - place[0]], axes[2])
        for number, (mark, path, stroke) in enumerate(marks):
            where = section_of(stroke, axes)
            if where is None or not is_later(mark, path, entry):
                continue
            if where != place and (where[0] == place[0] or stroke.get("click")):
                continue
            if number not in masks:
                masks[number] = stroke_mask(stroke, axes)
            _mark(own, masks[number], stroke, codes, None if where == place else (where[1], place[1]))
        _put_on_top(found, place, own)
    return {place: section for place, section in found.items() if section.any()}


def _clicks(state: State) -> Iterable[tuple[str, Scope, Entry]]:
    """Yield id, scope and a stroke of one point on both sections through each exemplar."""
    for one in state.exemplars:
        for along in DIRECTIONS if one.place else ():
            stroke = {"what": "stroke", "class": one.name, "along": along, "points": [one.place]}
            yield one.id, one.scope, stroke | {"radius": CLICK_RADIUS, "click": True}


def _mark(
    section: np.ndarray, mask: np.ndarray, stroke: Entry, codes: Mapping[str, int], crossing: tuple[int, int] | None
) -> None:
    """Write a stroke into a confirmed section, in place; `crossing`: trace of the section, and row of the mask."""
    if crossing is not None:
        section, mask = section[crossing[0]], mask[crossing[1]]
    code = codes.get(stroke["class"], 0)
    if stroke["what"] == "exclude":
        section[mask & (section == code)] = 0
    else:  # where the line is open the stroke shows as on any other line
        section[mask & (section > 0)] = code


def _put_on_top(found: dict[Section, np.ndarray], place: Section, codes: np.ndarray) -> None:
    """Put a confirmed section over those before it, also where they cross it."""
    section = found.setdefault(place, np.zeros_like(codes))
    section[codes > 0] = codes[codes > 0]
    for (direction, position), other in found.items():
        if direction != place[0]:
            crossing = codes[position]
            other[place[1]][crossing > 0] = crossing[crossing > 0]


def on_axes(labels: LineLabels, codes: Mapping[str, int], traces: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Return the labels of a line on the axes of a volume, in other codes; samples take those of the nearest one.

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
    padded = np.pad(table[labels.codes], [(0, 1), (0, 1)])  # position -1 is open
    found: np.ndarray = padded[rows][:, columns]
    return found


def agree(
    painted: dict[Section, np.ndarray], excluded: dict[Section, np.ndarray], sections: Mapping[Section, np.ndarray]
) -> None:
    """Remove what was painted or excluded before and contradicts a confirmed sample, in place."""
    for place, codes in sections.items():
        for marked, keep in ((painted, _same_class), (excluded, _not_excluded)):
            for other, section in marked.items():
                if other == place:
                    section *= keep(section, codes)
                elif other[0] != place[0]:
                    section[..., place[1], :] *= keep(section[..., place[1], :], codes[other[1]])


def _same_class(painted: np.ndarray, codes: np.ndarray) -> np.ndarray:
    kept: np.ndarray = (codes == 0) | (painted == codes)
    return kept


def _not_excluded(excluded: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return where no confirmed class is excluded, for masks of shape (n_codes, ...)."""
    number = np.arange(1, len(excluded) + 1).reshape(-1, *(1,) * codes.ndim)
    kept: np.ndarray = codes != number
    return kept


def is_open(job: "JobFolder", line: int, codes: np.ndarray, store: Any) -> bool:
    """Return whether a line has a sample with votes that is not confirmed; a line without votes any open sample."""
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
    """Return the confirmed codes that a mapper learns from, by position of a line, shape (n_samples, n_traces).

    Lines that are confirmed give all their samples. Sections across them give a strip of four traces, the distance
    of grid points, on some sampled lines.
    """
    found = {float(line): confirmed.codes(line).T for line in sorted(confirmed.own)}
    across = [(position, codes) for (way, position), codes in confirmed.sections.items() if way != confirmed.along]
    shape = confirmed.shape[2], confirmed.shape[1 - confirmed.along]
    for line in sampled if across else ():
        section = found.setdefault(float(line), np.zeros(shape, np.uint8))
        for position, codes in across:
            strip = section[:, position // 4 * 4 : position // 4 * 4 + 4]
            strip[...] = np.where(strip > 0, strip, codes[line][:, None])
    return {line: codes for line, codes in found.items() if codes.any()}
