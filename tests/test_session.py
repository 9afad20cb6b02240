"""The session behind the page, without a browser: decisions, search, labels, exports and the job folder."""

import shlex
import threading
import time

import numpy as np
import pytest
import xarray as xr
from sklearn.base import clone

import outcrop as oc
from outcrop import datasets
from outcrop.app.pictures import Axis, Sections, crop, encode
from outcrop.app.places import places as places_to_check
from outcrop.app.session import Session
from outcrop.app.shown_labels import Before
from outcrop.cli.program import app
from outcrop.job import labelling as stages
from outcrop.job.choosing import choose_counts, choose_labels
from outcrop.job.strokes import covered
from outcrop.mapping.label_mapper import LabelMapper
from outcrop.mapping.points import PointMapper

SIZE = 32


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Return the path of a small survey with truth, and a place of every class."""
    path = tmp_path_factory.mktemp("survey") / "small.sgy"
    datasets.write_synthetic(path, (20, 120, 120), seed=3)
    truth = oc.open_volume(path.with_suffix(".truth.sgy"))
    half = SIZE // 2
    section = truth[10].values[half:-half, half:-half]  # where a patch fits
    axes = [truth[name].values for name in truth.dims]
    places = {}
    for code in np.unique(section):
        traces, samples = np.nonzero(section == code)
        middle = len(traces) // 2
        place = axes[0][10], axes[1][half + traces[middle]], axes[2][half + samples[middle]]
        places[truth.attrs["classes"][int(code) - 1]] = [float(value) for value in place]
    assert len(places) >= 2
    return path, places


@pytest.fixture
def session(survey, tmp_path):
    """Yield a new session on the survey, with its classes."""
    path, places = survey
    one = Session(path, tmp_path / "job.outcrop", size=SIZE, truth=path.with_suffix(".truth.sgy"))
    for name in places:
        one.decide(one.job.add_class, name)
    yield one
    one.close()


def reopened(session):
    """Close a session, and open another one on its job."""
    session.close()
    return Session(session.path)


def place_all(session, places):
    """Place an exemplar of every class."""
    for name, place in places.items():
        session.add_exemplar(name, place)


def searched(session, places):
    """Place exemplars, search, and let the index of the survey finish."""
    place_all(session, places)
    session.search.retrieve(places[next(iter(places))][0])
    session.work.wait()
    while session.work.behind and session.work.behind.alive:
        time.sleep(0.05)
    session.search.wait()  # the page searches the survey after indexing it
    return session


def labelled(session, lines):
    """Label lines and wait for them."""
    session.labelling.label(lines)
    session.work.wait()
    return session


def files(folder):
    """Return the bytes of all files of a job except the view and the locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "view.json" and not path.name.endswith(".lock")
    }


def wait_for(condition, seconds):
    """Return whether a condition becomes true within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def opened(session):
    """Return a page on a session."""
    pytest.importorskip("panel")
    from bokeh.document import Document

    from outcrop.app.page import Page

    page = Page(session, Document())
    page.layout()
    return page


def settled(page):
    """Wait until the faults of the shown section are picked, and return the message of the page."""
    page.session.geology._picker.wait()
    page._update("geology")
    return page.status.text


def test_decisions_are_written_at_once(session, survey):
    """A decision is in the folder when the call returns, so that another reader has it."""
    name, place = next(iter(survey[1].items()))
    placed = session.add_exemplar(name, place)
    exemplars = oc.Job(session.path).plan.state.exemplars
    assert [(one.name, list(one.place)) for one in exemplars] == [(name, placed)]


def test_opening_the_page_changes_nothing(session, survey):
    """No file of the job changes when a page is opened, shows sections and is closed; picked faults are stored."""
    pytest.importorskip("panel")
    from bokeh.document import Document

    from outcrop.app.page import Page

    labelled(searched(session, survey[1]), [survey[1][next(iter(survey[1]))][0]])
    choose_counts(session.job, 7)  # a decision whose patches are not retrieved yet
    session.close()
    before = files(session.path)
    second = Session(session.path)
    page = Page(second, Document())
    page.layout()
    for direction in (0, 1, 2):
        page.viewer.go(direction, 3)
    time.sleep(1.5)
    page.close()
    second.close()
    after = files(session.path)
    assert {name: after[name] for name in before} == before
    assert all(name.startswith("stages/faults/") for name in after.keys() - before)  # sticks of the shown sections


def test_a_decision_of_another_writer_appears(session, survey):
    """A decision of a notebook or the command line appears on the page within two seconds, without a lock."""
    changes = []
    session.listen(changes.append)
    name, place = next(iter(survey[1].items()))
    with oc.Job(session.path, origin="shell") as other:
        other.add_exemplar(name, session.survey.snap(place))
        assert wait_for(lambda: "state" in changes and session.job.plan.state.exemplars, 2)
        second = Session(session.path)  # another page
        second.add_exemplar(name, [place[0], place[1], place[2] + 40])
        assert wait_for(lambda: len(session.job.plan.state.exemplars) == 2 == len(other.plan.state.exemplars), 2)
        second.close()


def test_labels_stay_and_are_stale_after_a_change(session, survey):
    """A decision makes labels stale and removes none; undo makes them fresh again."""
    searched(session, survey[1])
    lines = [float(line) for line in session.survey.lines[[3, 10]]]
    labelled(session, lines)
    codes = [session.labelling.codes(line) for line in lines]
    assert session.labelling.counts() == (20, 2, 0)
    name, place = session.search.weak.classes[0], session.search.places()[1]
    session.judge(name, place, accept=False)
    assert session.labelling.counts() == (20, 2, 2) and session.labelling.stale_parts(0, 3)
    labelled(session, lines[:1])
    assert session.labelling.counts() == (20, 2, 1)
    assert not session.labelling.stale_parts(0, 3) and len(session.labelling.stale_parts(1, 50)) == 1
    changed = np.argwhere(session.labelling.codes(lines[1]) != codes[1])
    if place[0] == lines[1]:  # the centre of the rejected patch loses the class at once
        centre = [
            np.argmin(abs(session.survey.volume[axis].values - at))
            for axis, at in zip(session.survey.volume.dims[1:], place[1:], strict=True)
        ]
        assert changed.tolist() in ([], [centre])
    else:
        assert not changed.size
    with pytest.raises(ValueError, match="1 labelled line has labels from older decisions"):
        session.results.export("segy")
    assert "1 of them stale" in session.results.export("segy", stale=True).text
    session.undo()
    assert session.labelling.counts() == (20, 2, 0)
    for line, found in zip(lines, codes, strict=True):
        np.testing.assert_array_equal(session.labelling.codes(line), found)


def test_decisions_do_not_wait_while_the_survey_is_labelled(session, survey, monkeypatch):
    """Verdicts, renames and undo take less than 0.3 s during labelling, and cancel ends it."""
    searched(session, survey[1])
    released = threading.Event()
    votes = PointMapper.votes
    monkeypatch.setattr(PointMapper, "votes", lambda self, *words: (released.wait(60), votes(self, *words))[1])
    task = session.labelling.label()
    assert wait_for(lambda: task.title == "labelling", 60)
    name, place = session.search.weak.classes[0], session.search.places()[2].tolist()
    for click in (
        lambda: session.judge(name, place, accept=False),
        lambda: session.judge(name, place, accept=True),
        lambda: session.add_exemplar(name, place),
        lambda: session.decide(session.job.rename_class, name, "renamed"),
        session.undo,
        session.work.cancel,
    ):
        begin = time.monotonic()
        click()
        assert time.monotonic() - begin < 0.3
    assert session.work.busy and session.job.plan.state.verdicts[0].accept
    session.search.wait()
    assert session.search.accepted()[0] and not session.search.stale
    released.set()
    session.work.wait()
    assert "Cancelled" in session.work.message


def test_undoing_a_rename_shows_the_old_name_at_once(session, survey):
    """The class names of labels and retrieved patches follow rename and undo; label codes stay."""
    labelled(searched(session, survey[1]), [survey[1][next(iter(survey[1]))][0]])
    position = session.survey.positions(survey[1][next(iter(survey[1]))])[0]
    old = next(iter(survey[1]))
    codes, _, names = session.labelling.pictures(0, position)
    session.decide(session.job.rename_class, old, "renamed")
    again, _, renamed = session.labelling.pictures(0, position)
    assert renamed == ["renamed" if name == old else name for name in names] and session.labelling.counts()[2] == 0
    session.search.wait()
    assert "renamed" in session.search.weak.classes and old not in session.search.weak.classes
    session.undo()
    session.search.wait()
    assert session.labelling.pictures(0, position)[2] == names and old in session.search.weak.classes
    np.testing.assert_array_equal(again.codes, codes.codes)


def test_an_exemplar_lies_on_the_nearest_trace_and_sample(session, survey):
    """The place of an exemplar is a trace and a sample of the survey; a click outside is moved to the rim."""
    name = next(iter(survey[1]))
    line, trace, sample = (session.survey.volume[dim].values for dim in session.survey.volume.dims)
    assert session.add_exemplar(name, (line[5] + 0.3, trace[60] - 0.4, sample[50] + 1.1)) == [
        line[5],
        trace[60],
        sample[50],
    ]
    assert session.add_exemplar(name, (line[5], -1e9, 1e9)) == [line[5], trace[0], sample[-1]]


def test_undo_and_redo_are_inverse(session, survey):
    """Undo of every act gives the initial state, and redo of every act the final state."""
    place_all(session, survey[1])
    session.decide(session.job.rename_class, next(iter(survey[1])), "renamed")
    session.decide(session.job.recolour_class, "renamed", "#123456")
    first = session.job.plan.state.exemplars[0].id
    session.move_exemplar(first, [110, 350, 200])
    session.paint("renamed", 0, 3, [(340, 100), (350, 140)])
    session.decide(session.job.remove_exemplar, first)
    end, steps = session.job.plan.state, 0
    while session.undo():
        steps += 1
    assert session.job.plan.state.exemplars == [] and session.job.plan.state.classes == {}
    for _ in range(steps):
        session.redo()
    assert session.job.plan.state == end


def test_undo_survives_a_restart(session, survey):
    """After a restart every act can be undone and redone, also an act that was undone before the restart."""
    place_all(session, survey[1])
    session.paint(next(iter(survey[1])), 0, 3, [(340, 100), (350, 140)])
    session.paint("erase", 0, 3, [(340, 100), (345, 120)])
    end = session.job.plan.state
    session.undo()
    second = reopened(session)
    second.redo()
    assert second.job.plan.state == end
    while second.undo():
        pass
    assert second.job.plan.state.exemplars == [] and second.job.plan.state.classes == {}
    third = reopened(second)
    while third.redo():
        pass
    assert third.job.plan.state == end
    third.close()


def test_a_refused_change_changes_nothing(session):
    """Invalid names, colours, places and options are refused, and the state stays."""
    before = session.job.plan.state
    name = next(iter(session.job.palette))
    for change in (
        lambda: session.decide(session.job.add_class, name),
        lambda: session.decide(session.job.add_class, "<script>"),
        lambda: session.decide(session.job.add_class, "uncertain"),
        lambda: session.decide(session.job.add_class, "Uncertain"),
        lambda: session.decide(session.job.add_class, name.upper()),
        lambda: session.decide(session.job.rename_class, name, ""),
        lambda: session.decide(session.job.rename_class, name, "Wrong"),
        lambda: session.decide(session.job.rename_class, name, list(session.job.palette)[1].title()),
        lambda: session.add_exemplar(name.upper(), (1, 2, 3)),
        lambda: session.set_size("5"),
        lambda: session.paint(name, 0, 3, [(340, 100)], id="../x"),
        lambda: session.decide(session.job.recolour_class, name, "red; background: url(x)"),
        lambda: session.add_exemplar("unknown", (1, 2, 3)),
        lambda: session.add_exemplar(name, (1, 2, float("nan"))),
        lambda: session.judge("unknown", (1, 2, 3), accept=True),
        lambda: session.set_mapping("no such"),
    ):
        with pytest.raises(ValueError):
            change()
    assert session.job.plan.state == before
    session.decide(session.job.rename_class, name, name.upper())  # the same class
    assert name.upper() in session.job.palette


def test_a_stroke_on_a_crossline_updates_the_inline_through_its_middle(session, monkeypatch):
    """After a stroke across the lines, the line through its middle is updated first."""
    followed: list = []
    monkeypatch.setattr(session.labelling, "follow", followed.append)
    lines = session.survey.axes[0]
    across = [(lines.coordinate(lines.labels[k]), 100) for k in (2, 4, 6)]
    session.paint(next(iter(session.job.palette)), 1, 5, across)
    session.paint(next(iter(session.job.palette)), 0, 3, [(340, 100)])
    assert followed == [4, 3]


def test_a_stroke_that_is_sent_twice_is_stored_once(session):
    """A stroke that the browser sends again has no effect, also on another server and after an undo."""
    name, id = next(iter(session.job.palette)), "0123456789abcdef"
    for _ in range(2):
        session.paint(name, 0, 3, [(340, 100), (350, 140)], id=id)
    second = reopened(session)
    second.paint(name, 0, 3, [(340, 100), (350, 140)], id=id)
    assert [one["id"] for one in second.job.plan.state.strokes] == [id]
    assert second.undo() and second.work.message == f"Undone: stroke of {name} on inline 103 (you)."
    second.paint(name, 0, 3, [(340, 100), (350, 140)], id=id)
    assert second.job.plan.state.strokes == []
    second.redo()
    assert len(second.job.plan.state.strokes) == 1 and second.work.message.startswith("Redone: stroke")
    second.close()


def test_messages_of_the_page_are_up_to_date(session, survey):
    """The next decision clears an error, and notes report strokes to be learnt later and changed numbers of patches."""
    line = next(iter(survey[1].values()))[0]
    labelled(searched(session, survey[1]), [line])
    position = int(np.flatnonzero(session.survey.lines == line)[0])
    name = session.search.weak.classes[0]
    place = session.search.places()[1]
    page = opened(session)
    page.viewer.go(0, position)
    page.viewer.outlined = name
    page.retrieved.show()
    count = page.retrieved.count.value
    session.judge(name, place, accept=False)
    session.search.wait()
    session.results.start("segy")
    with pytest.raises(ValueError, match="from older decisions"):
        session.work.wait()
    page._update("work")
    assert "from older decisions" in page.status.text
    session.paint(name, 0, position, [(340, 100), (350, 140)])
    session.labelling.wait()
    page._update("strokes")
    assert settled(page) == "Ready."
    assert "stale" not in page.labels.changed.text  # the default mapping learnt from the stroke at once
    session.decide(choose_labels, session.job, mapping="paper")
    page._update("strokes")
    assert "the mapping learns from it when you label again" in page.labels.changed.text
    # the gallery keeps its order, and a note explains a different number of patches
    page.retrieved.show()
    taken = int(np.count_nonzero(session.search.weak.classes == name))
    assert page.retrieved.count.value == taken and f"1 to 24 of {count}" in page.retrieved.note.text
    assert (f"after your verdicts, {taken} patches instead of {count}" in page.retrieved.note.text) == (taken != count)
    page.close()


def stroke(page, number, says=None):
    """Return the message of the browser for a stroke."""
    says = page.labels.says.value if says is None else says
    where = {"direction": 0, "position": 3, "xs": [340, 350], "ys": [100, 140], "radius": 4, "filled": False}
    return {"verb": "stroke", "id": f"{number:016x}", "says": says} | where


def test_choices_follow_a_renamed_class(session):
    """Exemplars, brush, gallery and legend keep a class after any rename, undo and restart."""
    first, second, *_ = session.job.palette
    page = opened(session)
    assert page.labels.says.value == first
    page.exemplars.choose(second)
    assert page.labels.says.value == second  # the brush follows the chosen class
    page.labels.brush_with(second)
    page.viewer.outlined, page.viewer.hidden = second, {second}
    for rename, name in (
        (lambda: session.decide(session.job.rename_class, second, "renamed"), "renamed"),
        (session.undo, second),
        (lambda: oc.Job(session.path).rename_class(second, "elsewhere"), "elsewhere"),
    ):
        rename()
        page._update("state")
        assert page.viewer.chosen == page.exemplars.classes.selected == page.viewer.outlined == name
        assert page.viewer.hidden == {name} and (page.labels.says.value, name) in page.labels.says.options
    page._on_connection(stroke(page, 1))
    second_page = opened(reopened(session))
    assert second_page.viewer.chosen == second_page.viewer.outlined == "elsewhere"
    assert second_page.labels.says.value == second
    assert [one["class"] for one in second_page.session.job.plan.state.strokes] == [second]
    second_page.session.close()


def test_a_stroke_of_a_removed_class_is_refused(session):
    """A stroke of a class that another tab removed gives an error and is not stored; after undo it is stored."""
    name = list(session.job.palette)[1]
    page = opened(session)
    page.labels.brush_with(name)
    session.decide(session.job.remove_class, name)
    page._update("state")
    page._on_connection(stroke(page, 1))
    assert f"its class {name!r} was removed".replace("'", "&#x27;") in page.status.text
    assert session.job.plan.state.strokes == [] and page.connection.stored == [f"{1:016x}"]
    session.undo()
    page._update("state")
    page._on_connection(stroke(page, 2))
    assert [one["class"] for one in session.job.plan.state.strokes] == [name]


def test_a_tool_is_restored_only_in_its_step(session):
    """After a restart, a painting tool is selected in step 3 and not in other steps."""
    page = opened(session)
    page.viewer.take(4)
    page._show_step()
    session = reopened(session)
    page = opened(session)
    assert page.viewer.tool_buttons.active == 4 and page.viewer.radius.disabled
    session.view.keep(step=0)
    assert opened(session).viewer.tool_buttons.active == 0
    session.close()


def test_a_change_of_line_clears_messages(session):
    """A change of line clears a message about the line; an error stays until the next decision."""
    page = opened(session)
    session.undo()
    page._update("work")
    assert "Undone" in page.status.text
    page.viewer.step(1)
    assert settled(page) == "Ready."
    session.work.say("no space left", wrong=True)
    page._update("work")
    page.viewer.step(1)
    assert page.status.text == "no space left"


@pytest.mark.parametrize(
    ("name", "words"),
    [("x" * 52, "52 characters, more than 40"), ("a/b", "it has '/'"), ("", "empty"), ("Right", "reserved"),
     (".a", "begins with neither")],
)  # fmt: skip
def test_the_error_for_a_class_name_states_the_reason(session, name, words):
    """The error for an invalid class name states what is wrong."""
    with pytest.raises(ValueError, match=words):
        session.decide(session.job.add_class, name)


def test_a_rejected_patch_is_removed_and_an_accepted_one_comes_first(session, survey):
    """Feedback changes the retrieved patches at once, also in retrieved.csv."""
    searched(session, survey[1])
    weak, name = session.search.weak, session.search.weak.classes[0]
    places = weak.positions[list(session.survey.volume.dims)].to_numpy()
    session.judge(name, places[1], accept=False)
    session.search.wait()
    assert weak.rows[1] not in session.search.weak.rows
    session.judge(name, places[3], accept=True)
    session.search.wait()
    assert session.search.weak.rows[0] == weak.rows[3] and session.search.accepted()[0]
    saved = np.genfromtxt(session.path / "retrieved.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert saved["row"].tolist() == session.search.weak.rows.tolist()
    session.undo()
    session.undo()
    session.search.wait()
    assert session.search.weak.rows.tolist() == weak.rows.tolist()


def test_a_cut_of_the_curve_sets_the_number_of_patches(session, survey):
    """A cut at the similarity of rank 7 uses seven patches."""
    searched(session, survey[1])
    name = session.search.weak.classes[0]
    session.cut_at(name, session.search.weak.curves[name][6])
    session.search.wait()
    assert (session.search.weak.classes == name).sum() == 7


def test_the_line_of_the_curve_lies_at_the_last_used_patch(session, survey):
    """The line is at the similarity of the last used patch; a class without exemplars has no curve."""
    pytest.importorskip("panel")
    from outcrop.app.retrieved_panel import RetrievedPanel
    from outcrop.app.viewer import Viewer

    searched(session, survey[1])
    panel = RetrievedPanel(Viewer(session, print), print)
    panel.show_classes()
    panel.show()
    name = panel.viewer.outlined
    count, _ = session.search.asked(name)
    assert panel.cut.location == session.search.weak.curves[name][count - 1]
    assert panel.count.value == count and panel.curve.yaxis.axis_label == "similarity"
    panel.viewer.outlined = session.decide(session.job.add_class, "nothing yet")
    panel.show()
    assert not panel.curve.visible and "place one in step 1" in panel.note.text


def test_the_search_covers_the_neighbourhood_of_the_line_and_then_the_survey(session, survey, monkeypatch):
    """The first search covers lines near the given line; after indexing, the page searches the survey by itself."""
    from outcrop.app import search as module

    monkeypatch.setattr(module, "NEAR_PATCHES", 60)
    line = next(iter(survey[1].values()))[0]
    place_all(session, survey[1])
    build, begun, go_on = session.job.build, threading.Event(), threading.Event()

    def wait_and_build(*arguments):
        begun.set()
        go_on.wait(60)
        build(*arguments)

    monkeypatch.setattr(session.job, "build", wait_and_build)
    session.search.retrieve(line)
    session.work.wait()
    assert begun.wait(60)
    lines = session.job.grid().table["inline"]
    assert session.search.scope == "neighbourhood" and lines.min() <= line <= lines.max() and lines.nunique() < 20
    near = session.search.key
    go_on.set()
    session.work.behind.thread.join(60)
    session.search.wait()
    assert session.search.key not in (None, near) and not session.search.stale
    assert "indexed and searched" in session.work.message
    far = float(session.survey.lines[-1 if line < session.survey.lines[10] else 0])
    labelled(session, [line, far])
    session.undo()  # undoes the last exemplar of the interpreter, not the area that the page chose
    session.redo()
    session.search.wait()
    assert session.search.scope == "survey" and session.job.grid().table["inline"].nunique() == 20
    assert oc.Job(session.path).plan.index.area is None  # the command line has the same state
    assert session.labelling.counts() == (20, 2, 0)


def test_labels_survive_and_the_command_line_agrees(session, survey, tmp_path, monkeypatch):
    """Labels of the page are there after reopening, and its commands make the same labels in another job."""
    searched(session, survey[1])
    session.judge(session.search.weak.classes[0], session.search.places()[2], accept=False)
    line = next(iter(survey[1].values()))[0]
    session.paint(next(iter(survey[1])), 0, 4, [(350, 100), (360, 160)])
    session.labelling.wait()  # before any labels, a stroke labels no line
    labelled(session, [line])
    labels = session.labelling.codes(line)
    assert labels is not None and (labels > 0).all() and session.labelling.counts()[2] == 0
    session.decide(session.job.recolour_class, "fault", "#123456")
    session.set_limit(0.4)
    labels = session.labelling.codes(line)
    commands, fresh = [shlex.split(text)[1:] for text in session.results.commands()], tmp_path / "again.outcrop"
    second = reopened(session)
    np.testing.assert_array_equal(second.labelling.codes(line), labels)
    assert len(second.search.weak) == len(session.search.weak)
    second.close()
    monkeypatch.chdir(tmp_path)
    for words in commands:
        app(words, standalone_mode=False)
    again = oc.Job(fresh)
    np.testing.assert_array_equal(again.labels["label"].sel(inline=line).values, labels)
    assert (labels == 255).any() and again.palette["fault"] == "#123456" and len(again.plan.state.strokes) == 1
    assert "18,52,86,255" in (tmp_path / "labels.sgy.alut").read_text()
    text = (tmp_path / "labels.sgy").read_bytes()[:3200].decode("cp037")
    assert "below 40 % confidence" in text and "1 of 20 lines labelled" in text


def test_the_mapper_learns_from_painted_samples(session, survey):
    """A stroke changes labels under it and elsewhere on the line; undo restores them."""
    searched(session, survey[1])
    line = next(iter(survey[1].values()))[0]
    position = int(np.flatnonzero(session.survey.volume["inline"].values == line)[0])
    session.labelling.label([line])
    session.work.wait()
    before, names = session.labelling.codes(line), list(session.job.labels.attrs["classes"])
    code = 1 + int(np.argmin(np.bincount(before.ravel(), minlength=len(names) + 1)[1:]))
    across, down = session.survey.sections.frame(0)
    mask = covered(before.shape, [(40, 40), (80, 80)], 12)
    session.paint(
        names[code - 1], 0, position, [(across.labels[40], down.labels[40]), (across.labels[80], down.labels[80])], 12
    )
    picture = session.painted_picture(0, position)
    assert (picture.codes.T[mask] == session.job.classes[names[code - 1]]).all()
    assert not session.labelling.is_stale(position)  # the line is updated without a command
    session.labelling.wait()
    after = session.labelling.codes(line)
    np.testing.assert_array_equal(after, oc.Job(session.path).label([line])["label"].values[0])
    assert (after[mask] == code).all() and (before[mask] == code).mean() < 1
    assert (after[~mask] != before[~mask]).any()
    assert session.labelling.changed == (after != before).mean() > 0  # changed by the stroke and by learning from it
    np.testing.assert_array_equal(session.labelling.before(0, position).T, before)
    session.undo()
    session.labelling.wait()
    np.testing.assert_array_equal(session.labelling.codes(line), before)
    assert session.labelling.changed == (after != before).mean()  # undo changes the same share


def test_several_strokes_in_a_row_update_the_mapper_fewer_times(session, survey, monkeypatch):
    """Strokes during an update are not queued one by one, none is lost, and labelled lines nearby are updated."""
    lines = session.survey.lines[3:6]
    labelled(searched(session, survey[1]), lines)
    keys, label = [], stages.label_lines

    def noted(job, plan, *some, **more):
        keys.append(plan.keys["votes"])
        return label(job, plan, *some, **more)

    monkeypatch.setattr(stages, "label_lines", noted)
    before = session.labelling.codes(lines[1])
    for x in range(330, 390, 6):
        session.paint("fault", 0, 4, [(x, 100)], 3)
        assert session.labelling.counts()[2] <= 2  # the line being updated does not count as stale
        time.sleep(0.05)
    session.labelling.wait()
    assert len(session.job.plan.state.strokes) == 10 and len(set(keys)) < 10
    assert session.labelling.counts() == (20, 3, 0) and session.labelling.following() == []
    with oc.Job(session.path) as notebook:
        np.testing.assert_array_equal(session.labelling.codes(lines[1]), notebook.labels["label"].values[4])
    assert (session.labelling.codes(lines[1]) != before).any() and session.labelling.changed > 0


def test_strokes_of_wrong_labels_are_striped(session, survey):
    """A stroke `wrong` shows stripes of the excluded classes, and no sample under it keeps its label."""
    lines = session.survey.lines[4:5]
    labelled(searched(session, survey[1]), lines)
    before = session.labelling.codes(lines[0])
    frame = session.survey.sections.frame(0)
    corners = [(frame[0].labels[i], frame[1].labels[j]) for i, j in ((20, 20), (40, 20), (40, 40), (20, 40))]
    session.paint("wrong", 0, 4, corners, 0.5, filled=True)
    session.labelling.wait()
    inside = (slice(21, 40), slice(21, 40))
    assert (session.labelling.codes(lines[0])[inside] != before[inside]).all()
    striped = session.painted_picture(0, 4).codes.T
    assert 0.2 < (striped[inside] > 0).mean() < 0.5 and not striped[60:].any()
    assert (striped[inside] == before[inside])[striped[inside] > 0].all()


def test_a_class_that_vanishes_is_reported(session, survey, monkeypatch):
    """A class of which a correction leaves less than a tenth is reported, with both shares."""
    line = searched(session, survey[1]) and survey[1]["fault"][0]
    labelled(session, [line])
    position = session.survey.positions(survey[1]["fault"])[0]
    before = session.labelling.shares(line)
    other = min(before, key=before.get)
    frame = session.survey.sections.frame(0)
    middle = [(axis.low + axis.high) / 2 for axis in frame]
    session.paint(other, 0, position, [(frame[0].low, middle[1]), (frame[0].high, middle[1])], 100)
    session.labelling.wait()
    assert [one[0] for one in session.labelling.vanished] == [
        one for one in before if one != other and before[one] >= 0.005
    ]
    assert session.labelling.vanished[0][1] == before[session.labelling.vanished[0][0]]
    assert session.labelling.vanished[0][2] == 0


def test_a_class_that_vanishes_from_a_line_nearby_is_reported(session, survey):
    """Lines that are updated after a stroke are compared with their earlier labels."""
    line = searched(session, survey[1]) and survey[1]["fault"][0]
    position = session.survey.positions(survey[1]["fault"])[0]
    near = session.survey.lines[position + 1]
    labelled(session, [line])
    labelled(session, [near])
    before = session.labelling.shares(near)
    other = min(before, key=before.get)
    frame = session.survey.sections.frame(0)
    middle = [(axis.low + axis.high) / 2 for axis in frame]
    session.paint(other, 0, position, [(frame[0].low, middle[1]), (frame[0].high, middle[1])], 100)
    session.labelling.wait()
    found = session.labelling.vanished_near
    assert {one[0] for one in found} == {near}
    assert {one[1]: one[2] for one in found} == {
        name: pytest.approx(before[name], abs=0.02) for name in before if name in {one[1] for one in found}
    }


def test_losses_of_a_class_outside_strokes_are_reported(session, survey, monkeypatch):
    """A loss of a fifth of a class and a hundredth of the line outside strokes is reported, smaller losses are not."""
    pytest.importorskip("panel")
    from bokeh.document import Document

    from outcrop.app.page import Page

    line = searched(session, survey[1]) and survey[1]["fault"][0]
    labelled(session, [line])
    position, labelling = session.survey.positions(survey[1]["fault"])[0], session.labelling
    name, code = "fault", labelling.shown().names.index("fault") + 1
    after = np.full_like(labelling.codes(line), labelling.shown().names.index("other") + 1)
    after[-30:] = code  # so that the class stays on the line
    monkeypatch.setattr(labelling, "codes", lambda line: after)

    def correct(rows, painted=False):
        """Set a block of the earlier labels to the class, and end the correction; return the lost shares."""
        before = after.copy()
        before[:rows, :40] = code
        if painted:
            frame = session.survey.sections.frame(0)
            corners = [(frame[0].low, frame[1].low), (frame[0].high, frame[1].high)]
            session.job.paint(name, [session.survey.place(0, position, *one) for one in corners], radius=200)
        labelling._before = Before(position, before, 1, fitted=False)
        labelling._end_correction(position)
        lost = np.count_nonzero((before == code) & (after != code))
        return lost / np.count_nonzero(before == code), lost / after.size

    correct(60)
    assert labelling.taken == []  # no stroke is painted, as after an undo
    frame = session.survey.sections.frame(0)
    corner = session.survey.place(0, position, frame[0].high, frame[1].high)
    session.job.paint("other", [corner], radius=1)
    whole = correct(60)
    assert whole[0] >= 0.2 and whole[1] > 0.01 and labelling.taken == [(name, *map(pytest.approx, whole))]
    page = Page(session, Document())
    page.viewer.go(0, position)
    lost = f"{100 * whole[0]:.0f} % of {name} ({100 * whole[1]:.1f} % of the line)"
    assert f"{lost} removed outside your strokes" in page.labels.changed.text
    page.close()
    little = correct(2)
    assert (little[0] < 0.2 or little[1] <= 0.01) and labelling.taken == []
    correct(60, painted=True)
    assert labelling.taken == []


def test_an_interrupted_labelling_of_the_survey_is_reported(session, survey, monkeypatch):
    """After a restart the page shows the progress; after the survey is labelled it shows no message."""
    label = stages.label_lines

    def some(job, plan, lines=None, **options):
        label(job, plan, session.survey.lines[:3], **options)
        raise ValueError("the server ends here")

    searched(session, survey[1])
    monkeypatch.setattr(stages, "label_lines", some)
    session.labelling.label()
    with pytest.raises(ValueError, match="ends here"):
        session.work.wait()
    monkeypatch.setattr(stages, "label_lines", label)
    again = reopened(session)
    assert "interrupted: 3 of 20 lines are labelled. Label the survey to continue" in again.work.message
    again.labelling.label()
    again.work.wait()
    last = reopened(again)
    assert last.work.message == "" and last.labelling.counts() == (20, 20, 0)
    last.close()


def test_another_patch_size_is_one_decision(session, survey):
    """Undo restores patch size and neighbourhood together; earlier patches stay, marked stale."""
    searched(session, survey[1])
    before = (session.job.plan.index, len(session.search.weak))
    session.set_size("40,36")
    session.search.wait()
    assert session.survey.size == (40, 36) and session.search.stale and len(session.search.weak) == before[1]
    with pytest.raises(ValueError, match="4000"):
        session.set_size("4000")
    session.undo()
    session.search.wait()
    assert session.job.plan.index == before[0] and not session.search.stale
    session.set_size("40,36")
    second = reopened(session)
    assert second.search.stale and len(second.search.weak) == before[1]  # shown after a restart as stale
    second.search.retrieve(survey[1]["fault"][0])
    second.work.wait()
    assert not second.search.stale and second.job.grid().size == (40, 36)
    second.close()


def test_scores_and_the_least_certain_places(session, survey):
    """A labelled line has scores, and the least certain place has the mean confidence of its window."""
    searched(session, survey[1])
    line = next(iter(survey[1].values()))[0]
    assert session.labelling.scores(line) is None
    session.labelling.label([line])
    session.work.wait()
    assert 0 < session.labelling.scores(line)["PA"] <= 1
    places = places_to_check(session.survey, session.labelling.shown().labels, count=3)
    sure = session.job.labels["confidence"].sel(inline=line).values / 255
    at = [
        int(np.flatnonzero(session.survey.volume[dim].values == value)[0])
        for dim, value in zip(session.survey.volume.dims, places[0].place, strict=True)
    ]
    half = SIZE // 2
    window = sure[at[1] - half : at[1] + half, at[2] - half : at[2] + half]
    assert window.mean() == pytest.approx(places[0].confidence, abs=0.02)
    assert places[0].confidence <= sure.mean()
    again = places_to_check(session.survey, session.labelling.shown().labels, [places[0].place], count=3)
    assert places[0].place not in [one.place for one in again]


def test_export_round_trip_and_invalid_names(session, survey):
    """Exported SEG-Y is read back equal; a path in place of a file name is refused."""
    searched(session, survey[1])
    line = next(iter(survey[1].values()))[0]
    with pytest.raises(ValueError, match="No line is labelled yet"):
        session.results.export("segy")
    session.labelling.label([line])
    session.work.wait()
    path, text = session.results.export("segy")[:2]
    assert "1 of 20 lines labelled, 19 missing" in text
    np.testing.assert_array_equal(oc.open_volume(path).sel(inline=line).values, session.labelling.codes(line))
    session.results.start("segy")
    session.work.wait()
    assert session.results.written[0].path.exists() and session.results.written[0].path != path
    for kind in ("confidence", "zarr", "training", "figure"):
        assert session.results.export(kind, line=line).path.exists()
    for name in ("../out.sgy", "/out.sgy", "a/b.sgy", "..", "", ".hidden", "x\x00y", "a\\b"):
        with pytest.raises(ValueError):
            session.results.export("segy", name or " ")


def test_labels_across_the_labelled_lines(session, survey, monkeypatch):
    """Crosslines and time slices show the labels of labelled lines only; at first a subset of lines is read."""
    from outcrop.app import shown_labels as module

    searched(session, survey[1])
    lines = session.survey.volume["inline"].values
    for line in lines[[3, 10]]:
        session.labelling.label([int(line)])
        session.work.wait()
    for direction, position in ((1, 50), (2, 60)):
        label, _, _ = session.labelling.pictures(direction, position)
        codes = label.codes if direction == 2 else label.codes.T
        for row in range(20):
            line_codes = session.labelling.codes(lines[row])
            want = 0
            if line_codes is not None:
                want = line_codes[position] if direction == 1 else line_codes[:, position]
            np.testing.assert_array_equal(codes[row], want)
    monkeypatch.setattr(module, "MOST_LINES", 1)
    codes = session.labelling.pictures(1, 50)[0].codes.T
    np.testing.assert_array_equal(codes[10], codes[3])


def test_a_folder_of_another_volume_is_refused(session, tmp_path):
    """A job of one volume does not open on another."""
    other = tmp_path / "other.npy"
    np.save(other, np.random.default_rng(0).standard_normal((3, 60, 60)).astype("f4"))
    session.close()
    with pytest.raises(ValueError, match="another survey"):
        Session(other, session.path)


def test_cancelled_work_leaves_the_session_usable(session, survey, monkeypatch):
    """Cancel ends a task; a second task while one runs is refused."""
    place_all(session, survey[1])
    session.work.start("waiting", lambda task: [(time.sleep(0.02), task.progress(i)) for i in range(500)])
    with pytest.raises(ValueError, match="waiting"):
        session.search.retrieve()
    session.work.cancel()
    session.work.wait()
    assert "Cancelled" in session.work.message
    session.search.retrieve()
    session.work.wait()
    assert len(session.search.weak)


def test_labels_need_exemplars_but_no_search(session, survey):
    """A line can be labelled from clicks without an index; without exemplars it is refused."""
    with pytest.raises(ValueError, match="Nothing is marked yet"):
        session.labelling.label([110])
    place_all(session, survey[1])
    line = next(iter(survey[1].values()))[0]
    session.labelling.label([line])
    session.work.wait()
    assert (session.labelling.codes(line) > 0).all() and not session.job.ever_indexed()


def test_a_running_fit_can_be_cancelled(session, survey, monkeypatch):
    """Cancel ends a fit of a million iterations at once, without labels; the next fit works."""
    much = LabelMapper(4, iterations=10**6)
    monkeypatch.setitem(oc.MAPPERS, "paper", lambda: clone(much))
    searched(session, survey[1])
    session.set_mapping("paper")
    line = next(iter(survey[1].values()))[0]
    task = session.labelling.label([line])
    while not task.title.startswith("fitting") or not task.done:
        time.sleep(0.01)
    begin = time.monotonic()
    session.work.cancel()
    session.work.wait()
    assert time.monotonic() - begin < 2 and "Cancelled" in session.work.message
    assert session.labelling.codes(line) is None
    much.set_params(iterations=3)
    session.labelling.label([line])
    session.work.wait()
    assert session.labelling.codes(line) is not None


def test_a_job_of_the_command_line_opens_with_its_exemplars(survey, tmp_path):
    """Exemplars of `outcrop retrieve` appear on the page."""
    path, places = survey
    job = str(tmp_path / "cli.outcrop")
    app(["index", str(path), "-o", job, "--size", str(SIZE), "--step", "16", "--every", "4"], standalone_mode=False)
    texts = {name: ",".join(map(str, place)) for name, place in places.items()}
    words = [word for name, text in texts.items() for word in ("--exemplar", f"{name.replace(' ', '-')}={text}")]
    app(["retrieve", job, *words, "--count", "10"], standalone_mode=False)
    session = Session(job)
    assert list(session.job.palette) == list(places) and session.search.scope == "survey"
    assert (session.search.weak.classes == next(iter(places))).sum() == 10
    session.judge(session.search.weak.classes[0], session.search.places()[1], accept=False)
    session.search.wait()
    assert (session.search.weak.classes == next(iter(places))).sum() == 10  # the number given on the command line stays
    session.close()


def test_pictures_equal_the_section(survey):
    """A picture has the samples of the section as codes, and the coordinates of its edges."""
    volume = oc.open_volume(survey[0])
    sections = Sections(volume)
    for direction, position in ((0, 3), (1, 50), (2, 60), (2, 63), (2, 64), (2, 119)):
        picture = sections.picture(direction, position, ahead=1)
        values = volume[(slice(None),) * direction + (position,)].values
        values = values if direction == 2 else values.T
        np.testing.assert_array_equal(picture.codes, encode(values, sections.clip))
        across, down = sections.frame(direction)
        assert (picture.left, picture.right) == (across.low, across.high)
        assert (picture.top, picture.bottom) == (down.low, down.high)
    sections.close()


def unusual_volumes():
    """Return unusual volumes by name."""
    values = np.random.default_rng(0).standard_normal((5, 70, 60)).astype("f4")
    descending = xr.DataArray(values, {"inline": range(5), "crossline": range(270, 200, -1), "depth": range(60)})
    holes = oc.open_volume(values).copy()
    holes.values[2, 3:8] = np.nan
    live = np.isfinite(holes.values[..., 0])
    uneven = oc.open_volume(values).assign_coords(inline=[10, 11, 13, 17, 30])
    return {
        "picture": oc.open_volume(np.random.default_rng(0).random((60, 80))).assign_attrs(scaled=True),
        "descending crosslines, depth": oc.open_volume(descending),
        "missing traces": holes.assign_coords(live=(("inline", "crossline"), live)),
        "uneven lines": uneven,
    }


@pytest.mark.parametrize("name", unusual_volumes())
def test_unusual_volumes_are_shown(name, tmp_path):
    """Every direction is drawn, a click gives the trace and sample under the cursor, and a search works."""
    pytest.importorskip("panel")
    from bokeh.document import Document

    from outcrop.app.page import Page

    session = Session(unusual_volumes()[name], tmp_path / "odd.outcrop", size=SIZE)
    page = Page(session, Document())
    page.layout()
    session.decide(session.job.add_class, "fault")
    for direction in (0, 1, 2):
        page.viewer.go(direction, session.survey.volume.shape[direction] // 2)
        assert page.viewer.plot.image.data["image"] and settled(page) == "Ready."
        across, down = session.survey.sections.frame(direction)
        x, y = across.coordinate(across.labels[len(across) // 2]), down.coordinate(down.labels[len(down) // 2])
        place = session.survey.place(
            direction, session.survey.volume.shape[direction] // 2, x + 0.2 * across.step, y - 0.2 * down.step
        )
        at = [
            int(np.flatnonzero(axis.labels == value)[0])
            for axis, value in zip(session.survey.sections.axes, place, strict=True)
        ]
        assert at == [n // 2 for n in session.survey.volume.shape]
    session.add_exemplar("fault", [axis.labels[len(axis) // 2].item() for axis in session.survey.sections.axes])
    page.viewer.go(0, session.survey.volume.shape[0] // 2)
    assert len(page.viewer.plot.exemplars.data["x"]) == 1
    session.search.retrieve()
    session.work.wait()
    assert len(session.search.weak)
    page.close()
    session.close()


@pytest.mark.parametrize(("inlines", "ratio"), [([61, 211, 231, 281], 0), (range(60), 2)])
def test_a_time_slice_has_the_ratio_of_its_bins(inlines, ratio, tmp_path):
    """Large and small view have the ratio; unevenly spaced lines have none, and ticks show their numbers."""
    pytest.importorskip("panel")
    from bokeh.document import Document

    from outcrop.app.page import Page

    values = np.random.default_rng(0).standard_normal((len(inlines), 90, 60)).astype("f4")
    volume = oc.open_volume(values).assign_coords(inline=list(inlines)).assign_attrs(bin_size=(25.0, 12.5))
    session = Session(volume, tmp_path / "few.outcrop", size=SIZE)
    page = Page(session, Document())
    page.layout()
    page.linked.toggle.active = True
    page.viewer.go(0, 1)
    for figure in (page.linked.panes[1].figure, page.viewer.plot.figure):
        if figure is page.viewer.plot.figure:
            assert figure.tags[0]["ratio"] is None  # sections use the chosen exaggeration
            page.viewer.go(2, 10)
        assert figure.tags[0]["ratio"] == ratio
        assert figure.tags[0]["whole"] == [-0.5, 89.5, len(inlines) - 0.5, -0.5]
    axis = page.viewer.plot.figure.yaxis[0]
    if ratio == 0:
        assert axis.formatter.args["labels"] == list(inlines) and axis.ticker.min_interval == 1
    page.close()
    session.close()


def test_a_time_slice_is_refined_to_screen_resolution(tmp_path, monkeypatch):
    """A subset of the traces is shown at once, all traces in view soon after; of a large slice only the window."""
    monkeypatch.setattr("outcrop.app.pictures.MOST_TRACES", 100)
    values = np.random.default_rng(0).normal(size=(60, 80, 20)).astype("f4")
    sections = Sections(oc.open_volume(values))
    refined = threading.Event()
    sections.refined = refined.set
    true = encode(values[:, :, 7], sections.clip)
    assert (sections.picture(2, 7).codes == true).mean() < 0.1
    assert refined.wait(10)
    np.testing.assert_array_equal(sections.picture(2, 7).codes, true)
    monkeypatch.setattr("outcrop.app.pictures.MOST_PIXELS", (20, 20))
    refined.clear()
    window = (10, 25, 5, 20)
    sections.picture(2, 15, window)
    assert refined.wait(10)
    np.testing.assert_array_equal(
        sections.picture(2, 15, window).codes, encode(values[5:21, 10:26, 15], sections.clip)
    )  # fmt: skip
    sections.close()


def test_a_window_is_cut_at_whole_samples():
    """A window of a descending axis has ascending coordinates."""
    frame = (Axis(np.array([30, 20, 10])), Axis(np.array([0.0, 4.0, 8.0, 12.0])))
    codes = np.arange(12, dtype=np.uint8).reshape(4, 3)
    picture = crop(codes, frame, (9, 21, 3, 9))
    np.testing.assert_array_equal(picture.codes, codes[1:3, 1:][:, ::-1])
    assert picture[1:] == (5.0, 25.0, 2.0, 10.0)


def test_a_large_section_is_thinned_to_the_screen():
    """Blocks of samples are averaged, and the edges stay."""
    frame = (Axis(np.arange(4000)), Axis(np.arange(2500)))
    codes = np.random.default_rng(0).integers(0, 255, (2500, 4000)).astype(np.uint8)
    picture = crop(codes, frame)
    assert picture.codes.shape == (834, 1334)
    assert picture.codes[0, 0] == int(codes[:3, :3].mean())
    assert (picture.right, picture.bottom) == (3999.5, 2499.5)
