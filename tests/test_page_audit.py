"""Audits and patches unlike anything marked, on the page without a browser: answers, undo, exemplars of groups."""

import numpy as np
import pytest

import outcrop as oc
from outcrop.app.session import Session
from outcrop.job.choosing import choose_counts

pytest.importorskip("panel")
LINE = 104
PLACES = {"fault": (LINE, 350, 200), "other": (105, 330, 100), "salt dome": (103, 380, 260)}


@pytest.fixture
def session(source, tmp_path):
    """Yield a session with an index and three exemplars."""
    one = Session(source, tmp_path / "v.outcrop", size=32)
    one.job.index(32, step=16)
    for name, place in PLACES.items():
        one.add_exemplar(name, place, new=True)
    choose_counts(one.job, 30)
    yield one
    one.close()


def opened(session):
    """Return a page on a session."""
    from bokeh.document import Document

    from outcrop.app.page import Page

    page = Page(session, Document())
    page.layout()
    return page


def asked(session, of="patches"):
    """Return the audit panel of a page after the questions were drawn."""
    session.audits.start(of)
    session.work.wait()
    return shown(opened(session))


def shown(page):
    """Return the audit panel of an updated page."""
    page._catch_up()
    page.audit.show()
    return page.audit


def answer(panel, **given):
    """Answer the shown question, like the browser."""
    panel._on_question({"verb": "answer", "number": panel.question.item["number"], "really": "", **given})
    panel.show()


def test_an_audit_continues_with_the_first_open_question(session):
    """Answers are decisions; another page, and another session, show the first question without an answer."""
    panel = asked(session)
    assert panel.question.item["number"] == 1 and len(panel.audits.audit.questions) == 30
    for given in ("yes", "no", "unknown"):
        answer(panel, answer=given)
    again = shown(opened(session))
    assert again.question.item["number"] == 4 and "3 of 30 answered" in again.note.text
    session.close()
    session = Session(session.path)
    assert session.audits.audit is None
    assert asked(session).question.item["number"] == 4
    assert [one["answer"] for one in session.job.plan.state.audits] == ["yes", "no", "unknown"]
    session.close()


def test_back_and_undo(session):
    """Back shows an answer, which can be changed; undo clears the last answer with a message."""
    panel = asked(session)
    answer(panel, answer="yes")
    answer(panel, answer="yes")
    panel._on_question({"verb": "back", "number": 3})
    assert panel.question.item["number"] == 2 and panel.question.item["answer"] == "yes"
    answer(panel, answer="no")
    assert [one["answer"] for one in session.job.plan.state.audits] == ["yes", "no"]
    assert panel.question.item["number"] == 3
    session.undo()
    panel.show()
    assert "Undone: answer about" in session.work.message
    assert panel.audits.audit.questions["answer"][2] == "yes"
    session.undo()
    panel.show()
    assert panel.question.item["number"] == 2 and "1 of 30 answered" in panel.note.text


def test_a_second_click_answers_nothing(session):
    """A click on a question that is no longer shown has no effect."""
    panel = asked(session)
    for _ in range(2):
        panel._on_question({"verb": "answer", "number": 1, "answer": "yes", "really": ""})
        panel.show()
    assert len(session.job.plan.state.audits) == 1


def test_the_picture_shows_the_patch_in_its_surroundings(session):
    """The box lies inside the picture, has the size of a patch, and contains the amplitudes of the patch."""
    panel = asked(session)
    item, row = panel.question.item, panel.audits.audit.questions.loc[1]
    top, left, height, width = item["box"]
    assert (height, width) == (32, 32) and item["height"] > 32 and item["width"] > 32
    assert 0 <= top <= item["height"] - 32 and 0 <= left <= item["width"] - 32
    picture = panel.audits.audit.picture(1)[0][top : top + 32, left : left + 32]
    patch = session.job.grid().extract(session.job.volume, [row["row"]])[0]
    np.testing.assert_allclose(picture, patch, atol=1e-6)


def test_the_true_class_of_wrong_samples_gives_iou(session):
    """An answer "no" may state the true class; the table has IoU if every "no" does."""
    session.job.label(lines=[LINE])
    panel = asked(session, "samples")
    item = panel.question.item
    assert item["box"][2:] == [1, 1] and item["name"] not in [one["name"] for one in item["classes"]]
    answer(panel, answer="no", really=item["classes"][0]["name"])
    assert session.job.plan.state.audits[-1]["really"] == item["classes"][0]["name"]
    assert "IoU</th>" in panel.table.text
    answer(panel, answer="no")
    assert "IoU</th>" not in panel.table.text and "IoU needs" in panel.table.text


def test_answers_of_older_patches_no_longer_count(session):
    """After another exemplar, answers to the old questions are refused, and earlier answers are not counted."""
    panel = asked(session)
    answer(panel, answer="yes")
    session.add_exemplar("fault", (106, 352, 220))
    panel.show()
    assert not panel.question.item["current"] and "changed since" in panel.note.text
    with pytest.raises(ValueError, match="draw the questions again"):
        session.decide(session.audits.answer, 2, "yes")
    panel = asked(session)
    assert panel.question.item["number"] == 1 and "1 older answer not counted" in panel.note.text
    session.job.label(lines=[LINE])
    assert "older" not in asked(session, "samples").note.text  # the earlier answers are not about labels


def test_questions_use_the_new_name_of_a_renamed_class(session):
    """After a rename, questions must be drawn again; they have the new name and keep their answers."""
    panel = asked(session)
    name = panel.question.item["name"]
    answer(panel, answer="yes")
    session.decide(session.job.rename_class, name, "renamed")
    panel.show()
    assert not panel.audits.is_current(panel.audits.audit)
    panel = asked(session)
    assert panel.audits.audit.questions.loc[1, ["class", "answer"]].tolist() == ["renamed", "yes"]


def test_more_questions_keep_the_answers(session):
    """When all questions are answered, further questions can be added."""
    panel = asked(session)
    assert not panel.more.visible
    panel.audits.audit.answer(yes=range(1, 31))
    panel.show()
    assert panel.more.visible and "src" not in panel.question.item
    panel._on_more()
    session.work.wait()
    panel.show()
    assert len(panel.audits.audit.questions) > 30 and (panel.audits.audit.questions["answer"] == "yes").sum() == 30


def test_missing_prerequisites_give_an_error_with_remedy(source, tmp_path):
    """Without patches, labels, exemplars or an index, the error states what to do first."""
    session = Session(source, tmp_path / "bare.outcrop", size=32)
    for refused, words in (
        (lambda: session.audits.start("patches"), "find similar patches first"),
        (lambda: session.audits.start("samples"), "label a line first"),
        (session.unseen.look, "choose a class and click"),
    ):
        with pytest.raises(ValueError, match=words):
            refused()
    session.add_exemplar("fault", PLACES["fault"], new=True)
    with pytest.raises(ValueError, match="find similar patches first"):
        session.unseen.look()
    session.close()


def looked(session):
    """Return the panel of groups of a page after the groups were found."""
    session.unseen.look()
    session.work.wait()
    page = opened(session)
    page._catch_up()
    return page.unseen


def test_groups_of_patches_unlike_anything_marked(session):
    """Groups have the pictures and shares of `Job.unseen`, and another page shows them too."""
    panel = looked(session)
    table = session.job.unseen(5)
    assert [len(cards.items) for cards in panel.cards] == table.groupby("group").size().tolist()
    shares = table.groupby("group")["share"].first()
    assert (
        f"{100 * shares[1]:.1f} % of the survey" in panel.titles[0].text
        and "Unlike everything you marked" in panel.note.text
    )
    panel._on_card(1, {"verb": "go", "key": "0"})
    assert panel.viewer.line == panel.unseen.groups[1].places[0][0]


def test_a_click_makes_an_exemplar(session):
    """A click makes an exemplar of an unnamed, a new or an existing class; one undo removes exemplar and new class."""
    panel = looked(session)
    plus = [{"verb": "exemplar", "key": str(i)} for i in range(3)]
    panel._on_card(0, plus[0])
    panel._on_card(1, plus[0])
    panel._on_card(0, plus[1])
    panel.name.value = "mass transport"
    panel._on_card(2, plus[0])
    panel.of.value = "fault"
    panel._on_card(2, plus[1])
    made = [(one.name, one.place) for one in session.job.exemplars[len(PLACES) :]]
    places = [tuple(one.places[i]) for one, i in zip([panel.unseen.groups[g] for g in (0, 1, 0, 2, 2)], (0, 0, 1, 0, 1),
                                                     strict=True)]  # fmt: skip
    names = ["unnamed 1", "unnamed 2", "unnamed 1", "mass transport", "fault"]
    assert made == list(zip(names, places, strict=True))
    assert panel.unseen.old and panel.cards[2].items[0]["title"] == "mass transport"
    session.undo()
    session.undo()
    assert "mass transport" not in session.job.palette and len(session.job.exemplars) == len(PLACES) + 3
    with oc.Job(session.path) as again:
        assert [one.place for one in again.plan.state.exemplars][-1] == places[2]
