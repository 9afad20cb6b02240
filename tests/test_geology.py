"""Fault sticks and geobodies on the page, without a browser: display on sections, verdicts and exports."""

import time

import numpy as np
import pandas as pd
import pytest

from outcrop import datasets
from outcrop.app.geology import ALL
from outcrop.app.geology_panel import GeologyPanel, same
from outcrop.app.layer_bar import LayerBar
from outcrop.app.session import Session
from outcrop.app.viewer import Viewer
from outcrop.geometry.sticks import read_sticks

LINE = 104


@pytest.fixture
def session(tmp_path):
    """Yield a session on a survey with four domino faults, two of them painted as fault, and one labelled line."""
    path = tmp_path / "v.sgy"
    datasets.write_synthetic(path, (10, 200, 200), seed=0)
    one = Session(path, tmp_path / "v.outcrop", size=48)
    for name in ("fault", "other"):
        one.decide(one.job.add_class, name)
    one.job.index(48, step=24)
    one.add_exemplar("fault", (LINE, 440, 560))
    one.add_exemplar("other", (LINE, 340, 120))
    for name, trace in (("fault", 441), ("fault", 464), ("other", 416), ("other", 490)):
        one.job.paint(name, [(LINE, trace - 5, 320), (LINE, trace + 5, 790)], radius=9)
    one.job.label(lines=[LINE])
    one.geology.choose("fault")
    yield one
    one.close()


@pytest.fixture
def panel(session):
    """Return the panel of a page that shows the labelled line, with sticks and horizons."""
    messages = []
    viewer = Viewer(session, lambda text, **_: messages.append(text))
    viewer.messages = messages
    one = GeologyPanel(viewer, LayerBar(viewer))
    viewer.go(0, 4)
    return one


def shown(session, direction, position):
    """Return the sticks on a section after they are picked."""
    for _ in range(600):
        found = session.geology.shown(direction, position)
        if "picking" not in found.note:
            return found
        time.sleep(0.05)
    raise AssertionError("still picking")


def drawn(panel):
    """Return the sticks that the panel draws after the section in view is picked."""
    shown(panel.session, panel.viewer.direction, panel.viewer.position)
    panel.show()
    return panel.lines["sticks"].data


def test_a_line_shows_the_sticks_of_the_class(session):
    """The page shows sticks that agree with the labels, or all sticks; an unlabelled line shows accepted sticks."""
    mine = shown(session, 0, 4)
    assert mine.sticks["stick"].nunique() == len(mine.traces) == 2 and "2 sticks of fault" in mine.note
    unlabelled = shown(session, 0, 5)
    assert not unlabelled.traces and "label the line" in unlabelled.note
    session.geology.choose(ALL)
    assert len(shown(session, 0, 4).traces) > 2


def test_less_likely_sticks_are_hidden(session):
    """The slider of the layer hides less likely sticks, and the page shows their number."""
    session.geology.choose(ALL)
    viewer = Viewer(session, lambda *_, **__: None)
    layers = LayerBar(viewer)
    panel = GeologyPanel(viewer, layers)
    viewer.go(0, 4)
    every = len(drawn(panel)["xs"])
    likely = sorted(one.likelihood for one in panel._traces)
    layers._on_message({"name": "fault sticks", "likelihood": (likely[0] + likely[1]) / 2})
    assert len(panel.lines["sticks"].data["xs"]) == every - 1 and "1 hidden by the slider" in panel.note.text
    layers._on_message({"name": "fault sticks", "shown": False})
    assert not panel.lines["sticks"].data["xs"] and not panel.note.text


def test_slices_and_crosslines_show_picked_sticks(session):
    """Every picked stick that reaches a time slice is shown as a point."""
    sticks = shown(session, 0, 4).sticks
    position = 140
    label = session.survey.axes[2].labels[position]
    ends = sticks.groupby("stick")["time"].agg(["min", "max"])
    crossing = (ends["min"] <= label) & (ends["max"] >= label)
    assert len(shown(session, 2, position).traces) == crossing.sum() > 0


def test_a_click_chooses_a_stick_and_accept_stores_it(panel):
    """The accepted stick is a stroke of the class and has an outline; undo removes it."""
    data = drawn(panel)
    tap = type("Tap", (), {"x": data["xs"][0][1], "y": data["ys"][0][1]})
    panel._on_tap(tap)
    assert panel.chosen is not None and not panel.verdicts[0].disabled
    before = panel.session.job.status()["decisions"]["strokes"]
    panel._on_verdict("accept")
    assert panel.session.job.status()["decisions"]["strokes"] == before + 1
    drawn(panel)
    assert len(panel.lines["stick-outlines"].data["xs"]) == 1 and not panel.chosen
    panel.session.undo()
    assert "Undone: fault stick of fault on inline 104 (you)." in panel.session.work.message
    drawn(panel)
    assert not panel.lines["stick-outlines"].data["xs"]


def tap(panel, number, middle=None):
    """Click on a drawn stick, in its middle or at one of its points."""
    data = panel.lines["sticks"].data
    at = len(data["xs"][number]) // 2 if middle is None else middle
    panel._on_tap(type("Tap", (), {"x": data["xs"][number][at], "y": data["ys"][number][at]}))


def label_another_line(session, line):
    """Label a line that is not in view, as after a decision."""
    before = session.job.labels_written()
    session.job.label(lines=[line])
    assert session.job.labels_written() > before


@pytest.mark.parametrize("what", ["reject", "extend"])
def test_a_chosen_stick_stays_chosen_while_lines_are_labelled(panel, what):
    """After a verdict, other lines are labelled one by one; a stick chosen meanwhile gets the next verdict."""
    session = panel.session
    drawn(panel)
    tap(panel, 0)
    panel._on_verdict("accept")
    session.labelling.wait()
    drawn(panel)
    accepted = [list(one) for one in panel.lines["stick-outlines"].data["xs"]]
    number = next(i for i, one in enumerate(panel.lines["sticks"].data["xs"]) if list(one) not in accepted)
    tap(panel, number)
    points = panel.chosen[0].points
    if what == "extend":
        panel.extend.active = [0]
    label_another_line(session, LINE + 1)
    picked = session.geology._picked[False]
    panel.show()
    assert (
        session.geology._picked[False] is picked and not session.geology.picking
    )  # the labels of this line did not change
    session.job.label(lines=[LINE])
    session.set_limit(0.01)  # the labels of this line change
    drawn(panel)
    assert panel.chosen[0].points is points and panel.lines["chosen-stick"].data["xs"]
    strokes = len(session.job.plan.state.strokes)
    if what == "extend":
        assert panel.extend.active == [0] and not panel.extend.disabled
        panel._on_tap(type("Tap", (), {"x": points["crossline"].iloc[0], "y": 150}))
    else:
        panel._on_verdict("reject")
    assert len(session.job.plan.state.strokes) == strokes + 1 and not panel.chosen
    places = np.array(session.job.plan.state.strokes[-1]["points"])
    assert np.isin(points["crossline"], places[:, 1]).all()


def test_another_section_clears_the_choice_of_sticks(panel):
    """The choice and the check box for the extension are cleared."""
    drawn(panel)
    tap(panel, 0)
    panel.extend.active = [0]
    panel.viewer.go(0, 5)
    panel.show()
    assert not panel.chosen and panel.extend.active == [] and panel.extend.disabled


def test_a_click_away_from_all_sticks_chooses_none(panel):
    """A verdict without a chosen stick gives a message with the remedy."""
    drawn(panel)
    panel._on_tap(type("Tap", (), {"x": 310, "y": 40}))
    assert not panel.chosen and panel.verdicts[0].disabled
    panel._on_verdict("reject")
    assert "click on a stick" in panel.viewer.messages[-1]


def test_verdicts_by_key_in_quick_succession_judge_different_sticks(panel, monkeypatch):
    """The next stick is never one that was judged while the sticks in view are those before the verdict."""
    drawn(panel)
    monkeypatch.setattr(panel.session.geology._picker, "request", lambda: None)  # picking again has not ended
    chosen = []
    for _ in range(2):
        panel.on_key("next")
        chosen += panel.chosen
        panel.on_key("reject")
        panel.show()
    assert len(chosen) == 2 and not same(*chosen)


def test_a_chosen_stick_is_extended_to_the_next_click(panel):
    """The new end of the stick is the clicked place."""
    data = drawn(panel)
    middle = len(data["xs"][0]) // 2
    panel._on_tap(type("Tap", (), {"x": data["xs"][0][middle], "y": data["ys"][0][middle]}))
    panel.extend.active = [0]
    panel._on_tap(type("Tap", (), {"x": 430, "y": 200}))
    assert not panel.extend.active
    found = shown(panel.session, 0, 4).sticks.query("accepted")
    assert found.iloc[0][["inline", "crossline", "time"]].tolist() == [LINE, 430, 200]


def test_tops_of_geobodies_are_drawn_on_the_section(panel):
    """Tops are drawn after geobodies are found; stale tops are faint with a notice, hidden classes have none."""
    session = panel.session
    session.geology.find_bodies()
    session.work.wait()
    panel.show()
    data = panel.lines["tops"].data
    assert data["xs"] and "bod" in panel.bodies.text
    codes = session.job.labels["label"].sel(inline=LINE)
    top = np.concatenate([np.array(ys) for ys in data["ys"]])
    assert np.isfinite(top).all() and top.max() <= float(codes["time"].max())
    assert not panel.old.visible
    session.job.paint("other", [(LINE, 340, 120)], radius=3)
    panel.show()
    assert (
        panel.old.visible
        and "Tops out of date" in panel.old.text
        and int(panel.lines["tops"].data["colour"][0][7:], 16) < 128
    )
    panel.viewer.hidden = {"fault"}
    panel.show()
    assert not panel.lines["tops"].data["xs"] and not panel.old.visible


def test_bases_are_dashed(panel):
    """Dashes have flat ends, because round ends would fill the gaps."""
    (bases,) = panel.viewer.plot.figure.select({"name": "bases"})
    assert len(bases.glyph.line_dash) == 2 and bases.glyph.line_cap == "butt"


def test_sticks_and_geobodies_are_exported(session):
    """The exported files can be read and hold the sticks and the geobodies of the class."""
    session.geology.choices()
    session.geology.export_sticks()
    session.work.wait()
    session.geology.export_bodies()
    session.work.wait()
    sticks, bodies = (one.path for one in session.results.written)
    assert read_sticks(sticks, session.job.volume)["stick"].nunique() == 2
    assert set(pd.read_csv(bodies / "bodies.csv")["class"]) == {"fault"}


def test_exports_of_stale_labels_are_refused(panel):
    """Exports of stale labels are refused unless the box is ticked; then the list of exports states the stale lines."""
    from bokeh.events import ButtonClick

    session = panel.session
    session.add_exemplar("other", (LINE, 340, 160))
    drawn(panel)
    assert panel.stale.visible
    for button in panel.actions[2:]:
        button._trigger_event(ButtonClick(button))
        with pytest.raises(
            ValueError, match=r"1 labelled line has labels from older decisions.*tick 'include stale lines'"
        ):
            session.work.wait()
    assert not session.results.written
    panel.stale.active = [0]
    for button in panel.actions[2:]:
        button._trigger_event(ButtonClick(button))
        session.work.wait()
    panel.show_written()
    for name in ("sticks.csv", "sticks.dat", "sticks.charisma", "bodies"):
        assert f"export/{name} written" in panel.written.text
    assert panel.written.text.count("including 1 stale line") == 4


def test_the_page_shows_that_faults_are_being_picked(session):
    """The message appears while a line is picked, not before or after."""
    from bokeh.document import Document

    from outcrop.app.page import Page

    page = Page(session, Document())
    page.layout()
    page.layers._on_message({"name": "fault sticks", "shown": False})
    session.geology._picker.wait()
    page.viewer.go(0, 6)
    page._update("work")
    assert page.status.text == "Ready." and not page.geology.lines["sticks"].data["xs"]
    ended, session.geology._picker._function = session.geology._picker._function, lambda: None
    page.layers._on_message({"name": "fault sticks", "shown": True})
    page._update("work")
    assert page.status.text == "Picking faults of this section ..."
    session.geology._picker._function = ended
    session.geology._picker.request()
    session.geology._picker.wait()
    page._update("geology")
    assert page.status.text == "Ready." and "sticks" in page.geology.note.text
    page.close()
