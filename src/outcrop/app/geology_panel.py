"""Step 5 of the page: fault sticks, tops and bases over the section, verdicts on sticks, and exports."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import panel as pn
from bokeh import events
from bokeh.models import CheckboxGroup, Div, Select
from matplotlib.colors import to_hex, to_rgba

from outcrop.app.components import SMALL, escape, guarded, heading, hint, note, scrolled
from outcrop.app.geology import ALL
from outcrop.app.layer_bar import STICKS, TOPS, LayerBar
from outcrop.app.pictures import Axis
from outcrop.app.plot import Columns, source
from outcrop.app.result_panel import ExportPanel
from outcrop.app.viewer import LASSO, LOOK, Viewer
from outcrop.geometry.bodies import SIDES
from outcrop.geometry.crossings import FaultTrace
from outcrop.plots.geology_lines import STICK

CHOSEN, ACCEPTED, REJECTED = "#00e5ff", "#00e676", "#e0e0e0"  # colours of sticks; sticks without a verdict have STICK
SCREEN = (900, 650)  # approximate pixels of a section, across and down
NEAR = 12  # pixels: largest distance from a click to the stick that it chooses
SPOTS = 50  # points of a stick that are compared with the lasso
LINES = ("xs", "ys", "colour", "width")
GLYPHS = (  # from the lowest to the highest
    "top-outlines", "tops", "base-outlines", "bases", "rejected-outlines", "rejected-sticks", "stick-outlines",
    "sticks", "chosen-stick",
)  # fmt: skip
DASHED = ("base-outlines", "bases", "rejected-outlines", "rejected-sticks")
EXPORTS = {"sticks.csv": "Sticks as csv", "sticks.dat": "OpendTect", "sticks.charisma": "Charisma"}
OLD = "Tops out of date: recompute"


class Chosen(NamedTuple):
    """A fault stick that the interpreter chose or can choose; it stays unchanged when faults are picked again."""

    of: str  # class whose sticks were shown when this stick was drawn, or `ALL`
    trace: FaultTrace
    points: pd.DataFrame


class GeologyPanel(ExportPanel):
    """The panel of step 5, with the controls of fault sticks and geobodies.

    Parameters
    ----------
    viewer : Viewer
    layers : LayerBar
        States whether sticks, tops and bases are shown, and the minimum likelihood of sticks.
    """

    def __init__(self, viewer: Viewer, layers: LayerBar) -> None:
        super().__init__(viewer, "geology-stale", "geology-exported", geology=True)
        self.geology, self.layers = self.session.geology, layers
        self.chosen: list[Chosen] = []
        self._adding = False  # whether the lasso adds to the chosen sticks
        self._section: tuple[int, int] | None = None  # direction and position of the section shown
        self._found: list[Chosen] = []  # sticks that can be chosen
        self._traces: list[FaultTrace] = []
        self._rejected: list[FaultTrace] = []
        self._judged: list[Chosen] = []  # sticks with a verdict since the sticks in view were picked
        layers.after_change = lambda _: self.show()
        self.of = self.react(Select(title="sticks of", options=[], width=150, name="sticks-class"), self._on_class)
        self.becomes = self.react(
            Select(title="accepted sticks become", options=[], width=150, name="fault-class"), self._on_fault_class
        )
        hidden = CheckboxGroup(labels=["show rejected sticks"], active=[], name="rejected-shown")
        self.with_rejected = self.react(self.view.follow(hidden), lambda _: self.show())
        self.note, self.about, self.bodies = note("sticks-note"), note("stick-about"), note("bodies-note")
        verdicts = {"accept": "✓ Accept ( A )", "reject": "✕ Reject ( X )", "forget": "Clear verdict"}
        self.verdicts = [
            self.button(text, functools.partial(self._on_verdict, what), f"stick-{what}")
            for what, text in verdicts.items()
        ]
        self.extend = CheckboxGroup(labels=["Extend to next click"], active=[], name="stick-extend")
        self.actions = [
            self.button("Pick the survey", self.geology.pick_all, "pick-all"),
            self.button("Find bodies", self._on_bodies, "find-bodies"),
            *(
                self.button(text, functools.partial(self._on_export, name), f"export-{name}")
                for name, text in EXPORTS.items()
            ),
            self.button(
                "Bodies, tops and bases", lambda: self.geology.export_bodies(stale=self.wants_stale), "export-bodies"
            ),
        ]
        self._make_lines()
        figure = viewer.plot.figure
        figure.on_event(events.Tap, self._on_tap)
        figure.on_event(events.PanStart, self._on_drag)
        figure.on_event(events.SelectionGeometry, self._on_lasso)

    def _make_lines(self) -> None:
        """Add the glyphs of sticks, tops and bases over the section; outlines lie below the coloured lines."""
        figure = self.viewer.plot.figure
        self.lines = {name: source(LINES) for name in GLYPHS}
        look = {"line_color": "colour", "line_width": "width"}
        dashed = {"line_dash": [9, 6], "line_cap": "butt"}  # round caps would fill the gaps
        for name, lines in self.lines.items():
            style = dashed if name in DASHED else {"line_cap": "round"}
            figure.multi_line("xs", "ys", source=lines, name=name, **style, **look)
        self.points = source(("x", "y"))
        figure.scatter("x", "y", source=self.points, size=5, color=STICK, name="stick-points")
        self.old = self.viewer.plot.words(8, 36, OLD, "#56606c", padding=4, name="old-horizons")

    def layout(self) -> Any:
        """Return the widgets of the panel, arranged in a column."""
        look = hint(
            "Click on a stick to choose it, or draw the lasso (G) around several; hold Shift to add to the choice. J "
            "chooses the next stick without a verdict, Shift+A all sticks. Accepted sticks are painted with the "
            "class. Rejected sticks are hidden and not exported. Labels learn from accepted and rejected sticks."
        )
        solid = hint(
            "Tops are solid and bases dashed, in the colours of their classes; on time slices, both are contours."
        )
        pick, find, *exports = self.actions
        chosen = pn.Row(self.of, self.becomes)
        faults = [
            heading("Faults"), chosen, pn.Row(pick), self.note, verdict_key(), look, self.about,
            pn.Row(*self.verdicts), self.extend, self.with_rejected,
        ]  # fmt: skip
        bodies = [heading("Bodies"), solid, pn.Row(find), self.bodies]
        files = [heading("Export into the job folder"), self.stale, pn.FlexBox(*exports), self.written, self.downloads]
        return scrolled(*faults, *bodies, *files)

    # ---- showing ----------------------------------------------------------------------------------------------------

    @guarded
    def show(self) -> None:
        """Update the panel, and draw the sticks, tops and bases on the section in view."""
        section = self.viewer.direction, self.viewer.position
        choices, of = self.geology.choices(), self.geology.of
        self.of.update(options=choices, value=of)
        self.becomes.update(options=self.geology.fault_classes(), value=self.geology.fault_class())
        self.becomes.visible = of == ALL
        self._traces, self._found, self._rejected, self.note.text = [], [], [], ""
        if self.layers.shown(STICKS):
            found, least = self.geology.shown(*section), self.layers.likelihood
            self._judged = self._judged if self.geology.picking else []
            self._traces = [one for one in found.traces if one.accepted or one.likelihood >= least]
            hidden = len({one.stick for one in found.traces}) - len({one.stick for one in self._traces})
            words = f"; {hidden} hidden by the slider of the minimum likelihood, but exported" if hidden else ""
            self.note.text = escape(found.note) + words
            self._rejected = found.rejected_traces if self.with_rejected.active else []
            for traces, sticks in ((self._traces, found.sticks), (self._rejected, found.rejected)):
                groups = dict(list(sticks.groupby("stick")))
                self._found += [Chosen(of, one, groups[one.stick]) for one in traces if one.stick >= 0]
        if not self.layers.shown(STICKS) or section != self._section or any(one.of != of for one in self.chosen):
            self.chosen = []
        self._section = section
        self._show_sticks()
        self._show_horizons(self.geology.horizons(*section) if self.layers.shown(TOPS) else [])
        self.bodies.text = escape(self.geology.bodies_note())
        self.stale.visible = self.labelling.counts()[2] > 0

    def _show_sticks(self) -> None:
        lines, rejected = ([one for one in some if len(one.across) > 1] for some in (self._traces, self._rejected))
        self.lines["stick-outlines"].data = self._lines([(one, "white", 5.0, 1.0) for one in lines if one.accepted])
        self.lines["sticks"].data = self._lines(
            [
                (one, ACCEPTED, 3.0, 1.0) if one.accepted
                else (one, STICK, 1.2 + 1.8 * one.likelihood, 0.5 + 0.5 * one.likelihood) for one in lines
            ]
        )  # fmt: skip
        self.lines["rejected-outlines"].data = self._lines([(one, "black", 4.0, 0.9) for one in rejected])
        self.lines["rejected-sticks"].data = self._lines([(one, REJECTED, 2.4, 1.0) for one in rejected])
        chosen = [one.trace for one in self.chosen]
        self.lines["chosen-stick"].data = self._lines([(one, CHOSEN, 3.5, 1.0) for one in chosen])
        singles = [self._placed(one.across, one.down) for one in self._traces if len(one.across) == 1]
        self.points.data = {"x": [x[0] for x, _ in singles], "y": [y[0] for _, y in singles]}
        off = self.viewer.line is None or not chosen
        single = not off and len(chosen) == 1
        if not single and self.extend.active:
            self.extend.active = []
        for one in self.verdicts:
            one.disabled = off
        self.extend.disabled = not single
        self.about.text = "" if off else escape(self._in_words(chosen))

    def _in_words(self, chosen: Sequence[FaultTrace]) -> str:
        """Return a text about the chosen sticks: how many are accepted.

        For a single stick, the text states its two ends, and its verdict or its likelihood.
        """
        accepted = sum(one.accepted for one in chosen)
        if len(chosen) > 1:
            return f"{len(chosen)} sticks chosen, {accepted} of them accepted"
        axis, one = self.survey.volume.dims[2], chosen[0]
        rejected = any(one is other for other in self._rejected)
        state = "accepted" if accepted else "rejected" if rejected else f"likelihood {one.likelihood:.2f}"
        return f"chosen stick: {axis} {one.down[0]:g} to {one.down[-1]:g}, {state}"

    def _show_horizons(self, horizons: list[tuple[str, str, Any]]) -> None:
        colours, old = self.job.palette, self.geology.bodies_old()
        alpha = 0.45 if old else 1.0
        for side in SIDES:
            rows = [
                (*self._placed(*line), colours.get(name, "#888888"), 2.0, alpha)
                for name, which, line in horizons
                if which == side and name not in self.viewer.hidden
            ]
            self.lines[f"{side}s"].data = as_columns(rows)
            self.lines[f"{side}-outlines"].data = as_columns([(*row[:2], "black", 3.6, 0.8 * alpha) for row in rows])
        self.old.visible = old and any(self.lines[f"{side}s"].data["xs"] for side in SIDES)

    def _lines(self, looks: Sequence[tuple[FaultTrace, str, float, float]]) -> Columns:
        return as_columns([(*self._placed(one.across, one.down), *look) for one, *look in looks])

    def _placed(self, across: npt.ArrayLike, down: npt.ArrayLike) -> list[list[float]]:
        """Convert the points of a line from axis values (across, down) to coordinates [x, y] of the plot."""
        axes = self.survey.sections.frame(self.viewer.direction)
        return [_coordinates(axis, values).tolist() for axis, values in zip(axes, (across, down), strict=True)]

    # ---- doing ------------------------------------------------------------------------------------------------------

    def _on_class(self, new: str) -> None:
        if new and new != self.geology.of:
            self.geology.choose(new)

    def _on_fault_class(self, new: str) -> None:
        if new and new != self.geology.fault_class():
            self.geology.choose_fault_class(new)

    @property
    def _choosing(self) -> bool:
        """Whether sticks can be chosen: the tool is Navigate or Lasso, sticks are shown, and a line is in view."""
        tool = self.viewer.tool_buttons.active
        return tool in (LOOK, LASSO) and self.layers.shown(STICKS) and self.viewer.line is not None

    @guarded
    def _on_tap(self, event: Any) -> None:
        """Choose the stick under the cursor; with Shift, add it to the chosen sticks or remove it from them.

        If *Extend to next click* is ticked, extend the chosen stick to the cursor instead.
        """
        viewer, figure = self.viewer, self.viewer.plot.figure
        if not self._choosing:
            return
        if self.extend.active and len(self.chosen) == 1:
            place = self.survey.place(viewer.direction, viewer.position, event.x, event.y)
            self.extend.active = []
            self.geology.extend(self.chosen[0].points, place, viewer.position)
            self._choose([])
            return
        scale = np.array(SCREEN) / [abs(one.end - one.start) for one in (figure.x_range, figure.y_range)]
        found = [(distance((event.x, event.y), *self._xy(one), scale), one) for one in self._found]
        off, nearest = min(found, key=lambda one: one[0], default=(np.inf, None))
        hit = [nearest] if nearest is not None and off <= NEAR else []
        if not with_shift(event):
            self._choose(hit)
        elif hit:
            known = [one for one in self.chosen if not same(one, hit[0])]
            self._choose(known if len(known) < len(self.chosen) else [*known, *hit])

    def _on_drag(self, event: Any) -> None:
        self._adding = with_shift(event)

    @guarded
    def _on_lasso(self, event: Any) -> None:
        """Choose the sticks that lie at least half inside the lasso; with Shift, add them to the chosen sticks."""
        if not self._choosing or event.geometry.get("type") != "poly":
            return
        corners = np.stack([np.asarray(event.geometry[name], float) for name in ("x", "y")], axis=1)
        inside = [one for one in self._found if share_inside(*self._xy(one), corners) >= 0.5]
        kept = [one for one in self.chosen if self._adding and not any(same(one, other) for other in inside)]
        self._choose([*kept, *inside])

    def _xy(self, one: Chosen) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the points of a stick as coordinates (x, y) of the plot."""
        x, y = map(np.array, self._placed(one.trace.across, one.trace.down))
        return x, y

    @guarded
    def on_key(self, what: str) -> None:
        """Choose or judge sticks after a key was pressed.

        Parameters
        ----------
        what : {"next", "previous", "all", "accept", "reject"}
            Choose the next or previous stick without a verdict, choose all sticks of the section, or accept or reject
            the chosen sticks.
        """
        if what in ("accept", "reject"):
            self._on_verdict(what)
            return
        if not self.layers.shown(STICKS) or self.viewer.line is None:
            raise ValueError(
                f"Sticks can be chosen on {self.survey.line_name}s only; show one, with the layer {STICKS!r}."
            )
        if what == "all":
            self._choose(self._found)
            return
        still = [one for one in self._found if not one.trace.accepted and one.trace not in self._rejected]
        still = [one for one in still if not any(same(one, other) for other in self._judged)]
        still.sort(key=lambda one: float(np.mean(one.trace.across)))
        if not still:
            raise ValueError("Every stick of this line has a verdict; go to another line.")
        at = next((i for i, one in enumerate(still) for other in self.chosen if same(one, other)), None)
        by = -1 if what == "previous" else 1
        self._choose([still[(at + by) % len(still) if at is not None else min(by, 0)]])

    @guarded
    def _on_verdict(self, what: str) -> None:
        if not self.chosen:
            raise ValueError(
                "No stick is chosen; click on a stick with the tool Navigate, or draw the lasso around sticks."
            )
        sticks = pd.concat([one.points.assign(stick=number) for number, one in enumerate(self.chosen)])
        self._judged += self.chosen if what != "forget" else []
        self.geology.judge(sticks, what, self.viewer.position)
        self._choose([])

    def _choose(self, sticks: Sequence[Chosen]) -> None:
        """Make the given sticks the chosen ones; an empty list clears the choice."""
        self.chosen = list(sticks)
        self._show_sticks()

    def _on_export(self, name: str) -> None:
        self.geology.export_sticks(name, stale=self.wants_stale)

    def _on_bodies(self) -> None:
        self.geology.find_bodies()


def as_columns(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Convert rows (xs, ys, colour, width, alpha) to columns of a glyph; the alpha becomes part of the colour."""
    rows = [(xs, ys, to_hex(to_rgba(colour, alpha), keep_alpha=True), width) for xs, ys, colour, width, alpha in rows]
    return {name: [row[i] for row in rows] for i, name in enumerate(LINES)}


def verdict_key() -> Any:
    """Return a legend of the colours that show the verdicts on sticks."""
    colours = {"no verdict": STICK, "accepted": ACCEPTED, "rejected (dashed)": "#8a96a3", "chosen": CHOSEN}
    return Div(
        text=" ".join(f"<b style='color:{colour}'>━</b>&nbsp;{name}" for name, colour in colours.items()), **SMALL
    )


def with_shift(event: Any) -> bool:
    """Return whether Shift was held during a mouse event."""
    return bool((getattr(event, "modifiers", None) or {}).get("shift"))


def same(one: Chosen, other: Chosen) -> bool:
    """Return whether two chosen sticks have the same points, so that they are the same stick."""
    (x, y), (x2, y2) = ((each.trace.across, each.trace.down) for each in (one, other))
    return len(x) == len(x2) and np.allclose(x, x2) and np.allclose(y, y2)


def share_inside(x: npt.NDArray[Any], y: npt.NDArray[Any], corners: npt.NDArray[Any]) -> float:
    """Return the share of a line, 0 to 1, that lies inside a closed polygon.

    `x` and `y` are points of the line, which is evaluated at `SPOTS` points with equal steps in y. `corners` are the
    points (x, y) of the polygon, with the shape (n_corners, 2).

    Examples
    --------
    >>> square = np.array([(0, 0), (10, 0), (10, 5), (0, 5)])
    >>> round(share_inside(np.array([5.0, 5.0]), np.array([0.0, 10.0]), square), 1)
    0.5
    """
    order = np.argsort(y)
    down = np.linspace(y.min(), y.max(), SPOTS)[:, None]
    across = np.interp(down, y[order], x[order])
    (x1, y1), (x2, y2) = corners.T, np.roll(corners, -1, axis=0).T
    level = np.where(y1 == y2, 1, y2 - y1)  # a horizontal edge is never crossed
    right = ((y1 > down) != (y2 > down)) & (across < x1 + (down - y1) / level * (x2 - x1))
    return float(np.mean(right.sum(axis=1) % 2))


def distance(point: tuple[float, float], x: npt.NDArray[Any], y: npt.NDArray[Any], scale: npt.NDArray[Any]) -> float:
    """Return the distance in pixels from a point to the line through points (x, y).

    `scale` is the number of pixels per unit of x and per unit of y.

    Examples
    --------
    >>> distance((3.0, 4.0), np.array([0.0, 0.0]), np.array([0.0, 10.0]), np.array([2.0, 1.0]))
    6.0
    """
    spots = np.stack([x - point[0], y - point[1]], axis=1) * scale
    steps = np.diff(spots, axis=0)
    share = np.clip(-np.sum(spots[:-1] * steps, axis=1) / np.maximum(np.sum(steps**2, axis=1), 1e-12), 0, 1)
    return float(np.sqrt(np.sum((spots[:-1] + share[:, None] * steps) ** 2, axis=1)).min())


def _coordinates(axis: Axis, labels: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert `labels` (axis values, such as line numbers or times) to coordinates of the picture.

    Coordinates between the values of the axis are interpolated linearly.
    """
    places = axis.start + axis.step * np.arange(len(axis))
    order = np.argsort(axis.labels)
    return np.asarray(np.interp(np.asarray(labels, float), axis.labels[order], places[order]))
