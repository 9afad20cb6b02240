"""Undo by kind and person, removed classes and hidden classes, by mouse and keys."""

import pytest
from tab import CHROMIUM, Tab, server
from test_connection import strokes, wait_strokes

import outcrop as oc

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]


def exemplars(job):
    """Return the classes of the exemplars."""
    return [one.name for one in oc.Job(job).plan.state.exemplars]


@pytest.mark.parametrize("screen", SCREENS)
def test_the_last_decision_of_one_kind_is_undone(job, browser, screen):
    """The list has the last act of each kind; the mouse undoes the exemplar, keys undo the class, and strokes stay."""
    with oc.Job(job) as notebook:
        notebook.add_exemplar("fault", (116, 397, 416))
        notebook.paint("other", [(116, 340, 200), (116, 350, 220)])
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.page.get_by_role("button", name="History").click()
        dialog = tab.page.get_by_role("dialog", name="Undo one decision")
        dialog.wait_for()
        texts = dialog.get_by_role("button").all_inner_texts()
        kinds = [text.split(", you, ")[0] for text in texts[:-1]]
        assert kinds == ["stroke of other on inline 116", "exemplar of fault", "class other"]
        dialog.get_by_role("button", name="exemplar of fault").click()
        tab.wait_message("Undone: exemplar of fault (you)")
        assert exemplars(job) == [] and strokes(job) == [(116, 340, "other")]
        tab.press("h")
        dialog.wait_for()
        tab.press("Tab", "Enter")  # from the stroke to the class
        tab.wait_message("Undone: class other (you)")
        assert strokes(job) == [(116, 340, "other")]
        tab.press("h")
        dialog.wait_for()
        tab.press("Escape")
        dialog.wait_for(state="hidden")
        tab.press("Control+y")
        tab.wait_message("Redone: class other (you)")
        tab.close()


def test_a_decision_of_another_person_is_undone(job, browser):
    """The list shows an exemplar of another person with the name of the person, and can undo it."""
    with oc.Job(job) as notebook:
        notebook.add_exemplar("fault", (116, 397, 416))
    mine = next((job / "decisions").glob("*.jsonl"))
    hers = mine.with_name("ann@ws1-1.jsonl")
    hers.write_text(mine.read_text().replace(f'"{mine.stem}"', '"ann@ws1-1"'))
    mine.unlink()
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.press("Control+z")
        tab.wait_message("There is nothing to undo")
        tab.press("h")
        tab.page.get_by_role("button", name="exemplar of fault, ann@ws1").click()
        tab.wait_message("Undone: exemplar of fault (ann@ws1)")
        assert exemplars(job) == []
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_class_with_exemplars_is_removed_after_a_question(job, browser, screen):
    """A class with decisions is removed after a dialog, another at once; the remaining classes keep their keys."""
    with oc.Job(job) as notebook:
        notebook.add_class("salt")
        notebook.add_class("empty")
        notebook.add_exemplar("fault", (116, 397, 416))
        notebook.paint("fault", [(116, 340, 200), (116, 350, 220)])
    with server(job) as (address, process):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.page.get_by_role("button", name="Remove class empty").click()
        tab.page.wait_for_selector(".class[data-name='empty']", state="detached")
        tab.page.get_by_role("button", name="Remove class fault").click()
        dialog = tab.page.get_by_role("dialog", name="Remove class fault?")
        dialog.wait_for()
        assert "This also removes 1 exemplar and 1 stroke" in dialog.inner_text()
        dialog.get_by_role("button", name="Keep fault").click()
        dialog.wait_for(state="hidden")
        assert exemplars(job) == ["fault"]
        tab.page.get_by_role("button", name="Remove class fault").focus()
        tab.press("Enter")
        dialog.wait_for()
        tab.press("Enter")
        tab.page.wait_for_selector(".class[data-name='fault']", state="detached")
        tab.page.locator(".chip", has_text="2 other").wait_for()
        tab.press("p", "3")
        tab.page.wait_for_selector(".class.selected[data-name='salt']")
        tab.press("1")
        tab.wait_message("No class has the key 1; choose one of 2, 3")
        tab.page.wait_for_timeout(500)
        process.kill()
        tab.page.close()
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.page.locator(".chip", has_text="3 salt").wait_for()
        tab.press("b", "3")
        tab.wait_model("brush-class", "m.value === 'salt'")
        tab.page.get_by_role("button", name="Undo").click()
        tab.page.locator(".chip", has_text="1 fault").wait_for()
        tab.close()


def test_a_hidden_class_that_is_painted_is_shown(job, browser):
    """The stroke is stored, the class is shown again, and a message reports it."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.page.locator(".chip", has_text="fault").click()
        tab.page.locator(".chip.hidden", has_text="fault").wait_for()
        tab.press("b", "1")
        tab.wait_model("brush-class", "m.value === 'fault'")
        tab.drag((320, 200), (330, 220))
        wait_strokes(job, 1)
        tab.page.locator(".chip.hidden").wait_for(state="detached")
        tab.wait_message("Class fault was hidden; it is shown")
        assert tab.model("painted", "m.glyph.color_mapper.palette[1]") != "#00000000"
        tab.close()
