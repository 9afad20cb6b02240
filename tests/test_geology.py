"""Faults and bodies on the page, without a browser: what is shown on a section, and what is decided about it."""

import time

import numpy as np
import pandas as pd
import pytest

from outcrop import datasets
from outcrop.app.geology import ALL
from outcrop.app.geology_panel import GeologyPanel
from outcrop.app.session import Session
from outcrop.app.viewer import Viewer
from outcrop.geometry.sticks import read_sticks

LINE = 104


@pytest.fixture
def session(tmp_path, quick_mapping):
    """A session on a survey with four domino faults, of which two are painted as fault, one line labelled."""
    path = tmp_path / "v.sgy"
    datasets.write_synthetic(path, (10, 200, 200), seed=0)
    one = Session(path, tmp_path / "v.outcrop", size=48)
    for name in ("fault", "other"):
        one.add_class(name)
    one.job.index(48, step=24)
    one.add_exemplar("fault", (LINE, 440, 560))
    one.add_exemplar("other", (LINE, 340, 120))
    for name, trace in (("fault", 441), ("fault", 464), ("other", 416), ("other", 490)):
        one.job.paint(name, [(LINE, trace - 5, 320), (LINE, trace + 5, 790)], radius=9)
    one.job.label(lines=[LINE])
    yield one
    one.close()


@pytest.fixture
def panel(session):
    """The panel of a page that shows the labelled line, with sticks and horizons."""
    said = []
    viewer = Viewer(session, lambda text, **_: said.append(text))
    viewer.said = said
    one = GeologyPanel(viewer)
    viewer.go(0, 4)
    one.shown.active = [0, 1]
    return one


def shown(session, direction, position):
    """What is shown on a section once it is picked."""
    for _ in range(600):
        found = session.geology.shown(direction, position)
        if "picking" not in found.note:
            return found
        time.sleep(0.05)
    raise AssertionError("still picking")


def drawn(panel):
    """Panel once the sticks of the section in view are picked."""
    shown(panel.session, panel.viewer.direction, panel.viewer.position)
    panel.show()
    return panel.lines["sticks"].data


def test_a_line_shows_the_sticks_of_the_class(session):
    """Those the labels agree with; all of them when asked; on an unlabelled line what was accepted, and it says so."""
    mine = shown(session, 0, 4)
    assert mine.sticks["stick"].nunique() == len(mine.traces) == 2 and "2 sticks of fault" in mine.note
    unlabelled = shown(session, 0, 5)
    assert not unlabelled.traces and "label the line" in unlabelled.note
    session.geology.choose(ALL)
    assert len(shown(session, 0, 4).traces) > 2


def test_slices_and_crosslines_show_what_is_picked(session):
    """Every stick that reaches the slice crosses it at a point."""
    sticks = shown(session, 0, 4).sticks
    position = 140
    label = session.survey.axes[2].labels[position]
    ends = sticks.groupby("stick")["time"].agg(["min", "max"])
    crossing = (ends["min"] <= label) & (ends["max"] >= label)
    assert len(shown(session, 2, position).traces) == crossing.sum() > 0


def test_a_click_chooses_a_stick_and_yes_keeps_it(panel):
    """The chosen stick is a decision of the class, drawn outlined; undo takes it back."""
    data = drawn(panel)
    tap = type("Tap", (), {"x": data["xs"][0][1], "y": data["ys"][0][1]})
    panel._on_tap(tap)
    assert panel.chosen is not None and not panel.verdicts[0].disabled
    before = panel.session.job.status()["decisions"]["strokes"]
    panel._on_verdict("accept")
    assert panel.session.job.status()["decisions"]["strokes"] == before + 1
    drawn(panel)
    assert len(panel.lines["stick-outlines"].data["xs"]) == 1 and panel.chosen is None
    panel.session.undo()
    assert "Taken back: fault stick of fault on inline 104." in panel.session.work.message
    drawn(panel)
    assert not panel.lines["stick-outlines"].data["xs"]


def test_a_click_beside_all_sticks_chooses_none(panel):
    """And a verdict without a choice says what to do."""
    drawn(panel)
    panel._on_tap(type("Tap", (), {"x": 310, "y": 40}))
    assert panel.chosen is None and panel.verdicts[0].disabled
    panel._on_verdict("reject")
    assert "click on one" in panel.viewer.said[-1]


def test_a_chosen_stick_is_extended_to_the_next_click(panel):
    """Its new end is the place that was clicked."""
    data = drawn(panel)
    middle = len(data["xs"][0]) // 2
    panel._on_tap(type("Tap", (), {"x": data["xs"][0][middle], "y": data["ys"][0][middle]}))
    panel.extend.active = [0]
    panel._on_tap(type("Tap", (), {"x": 430, "y": 200}))
    assert not panel.extend.active
    found = shown(panel.session, 0, 4).sticks.query("accepted")
    assert found.iloc[0][["inline", "crossline", "time"]].tolist() == [LINE, 430, 200]


def test_tops_of_bodies_lie_on_the_section(panel):
    """After bodies are found their tops are drawn where labels of the class begin."""
    session = panel.session
    session.geology.find_bodies()
    session.work.wait()
    panel.show()
    data = panel.lines["tops"].data
    assert data["xs"] and "bodies" in panel.bodies.text
    codes = session.job.labels["label"].sel(inline=LINE)
    top = np.concatenate([np.array(ys) for ys in data["ys"]])
    assert np.isfinite(top).all() and top.max() <= float(codes["time"].max())
    panel.viewer.hidden = {"fault"}
    panel.show()
    assert not panel.lines["tops"].data["xs"]


def test_sticks_and_bodies_are_exported(session):
    """Files of the export folder that read back."""
    session.geology.choices()
    session.geology.export_sticks()
    session.work.wait()
    session.geology.export_bodies()
    session.work.wait()
    sticks, bodies = (one.path for one in session.results.written)
    assert read_sticks(sticks, session.job.volume)["stick"].nunique() == 2
    assert set(pd.read_csv(bodies / "bodies.csv")["class"]) == {"fault"}
