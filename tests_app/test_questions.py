"""Audits and patches unlike anything marked in a real browser: answers by keys and buttons, reload, undo, exemplars."""

import shutil

import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SIZE = 40
SCREENS = [(1366, 768), (1920, 1080)]
PLACES = {"fault": (116, 397, 416), "other": (116, 435, 100), "chaotic": (116, 330, 240)}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return the path of a job with three classes, retrieved patches and two labelled lines."""
    folder = tmp_path_factory.mktemp("labelled")
    datasets.write_synthetic(folder / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(folder / "job.outcrop", volume=folder / "survey.sgy") as job:
        job.index(SIZE, step=20)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.retrieve(count=30)
        job.label([116, 117])
    return folder / "job.outcrop"


@pytest.fixture
def job(labelled, tmp_path):
    """Return the path of a copy that a test may change."""
    return shutil.copytree(labelled, tmp_path / "job.outcrop")


def answers(job):
    """Return the answers of a job, read as by another program."""
    with oc.Job(job) as other:
        return [(one["subject"], one["answer"], one.get("really")) for one in other.plan.state.audits]


@pytest.mark.parametrize("screen", SCREENS)
def test_patches_are_audited(job, browser, screen):
    """Keys and buttons answer, a reload continues, undo and Back change answers; all of it fits on the screen."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.audit("patches")
        tab.question(1)
        tab.press("y")
        tab.question(2)
        tab.press("n")  # in other steps N is the next place, and U the outline
        tab.question(3)
        tab.press("u")
        tab.question(4)
        assert tab.model("tool", "m.active") == 0
        tab.page.get_by_role("button", name="Yes (Y)").click()
        tab.question(5)
        assert answers(job) == [("patches", one, None) for one in ("yes", "no", "unknown", "yes")]
        tab.wait_model("audit-note", "m.text.includes('4 of 30 answered')")
        shown = tab.page.locator(".question svg").bounding_box()
        assert min(shown["width"], shown["height"]) > 330
        table = tab.page.locator("table:visible").bounding_box()
        assert table["y"] > shown["y"] + shown["height"] and table["y"] + table["height"] < screen[1]
        tab.page.reload()
        tab.ready()
        tab.question(5)
        tab.page.get_by_role("button", name="Back").click()
        tab.question(4)
        assert tab.page.locator(".question button[aria-pressed=true]").inner_text() == "Yes (Y)"
        tab.press("n")
        tab.question(5)
        assert answers(job)[-1] == ("patches", "no", None)
        tab.press("Control+z", "Control+z")
        tab.question(4)
        tab.wait_message("Undone: answer about")
        assert len(answers(job)) == 3
        tab.page.locator(".question svg").click()
        tab.wait_model("section", "m.title.text.startsWith('inline ')")
        place = tab.page.locator(".question .where").inner_text().split("· ")[1]
        tab.wait_model("section", f"m.title.text === 'inline {place.split(',')[0]}'")
        tab.page.get_by_role("button", name="Close").click()
        tab.page.locator(".question svg").wait_for(state="hidden")
        tab.close()


def test_labels_are_audited(job, browser):
    """After "no", the true class is chosen by its number or a click, or left open; Esc cancels the "no"."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.audit("labels")
        tab.question(1)
        others = [name for name in PLACES if f"Is this {name}?" != tab.page.locator(".question b").inner_text()]
        tab.press("n")
        tab.page.get_by_text("What is it?").wait_for()
        tab.press("Escape")
        tab.page.get_by_text("What is it?").wait_for(state="detached")
        tab.press("n", "2")
        tab.question(2)
        tab.wait_model("audit-table", "m.text.includes('IoU</th>')")
        tab.press("n")
        tab.page.locator(".question .class-name").last.click()
        tab.question(3)
        tab.wait_model("audit-table", "m.text.includes('IoU needs')")
        assert answers(job) == [("samples", "no", others[1]), ("samples", "no", None)]
        tab.close()


def test_a_group_becomes_a_class(job, browser):
    """Patches unlike anything marked appear in groups; clicks show a patch and make it an exemplar; undo removes it."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.step("1 Exemplars")
        tab.page.get_by_role("button", name="Find patches unlike anything marked").click()
        tab.wait_model("unseen-note", "m.text.includes('Unlike everything you marked')")
        cards = tab.page.locator(".card", has=tab.page.locator("button.exemplar"))
        assert cards.count() > 8
        line = cards.nth(2).locator(".line span").inner_text()
        cards.nth(2).locator("img").click()
        tab.wait_model("section", f"m.title.text === '{line}'")
        tab.page.get_by_placeholder("unnamed").fill("mass transport")
        cards.nth(2).locator("button.exemplar").click()
        tab.page.locator(".class[data-name='mass transport'] .count", has_text="1 exemplar").wait_for()
        tab.wait_model("unseen-note", "m.text.includes('find the groups again')")
        tab.page.locator("select:visible").last.select_option("fault")
        cards.nth(3).locator("button.exemplar").click()
        tab.page.locator(".class[data-name=fault] .count", has_text="2 exemplars").wait_for()
        tab.page.reload()
        tab.ready()
        tab.page.locator(".card.accepted", has_text="mass transport").wait_for()
        tab.press("Control+z", "Control+z")
        tab.page.locator(".class[data-name='mass transport']").wait_for(state="detached")
        with oc.Job(job) as other:
            assert [one.place for one in other.plan.state.exemplars] == list(PLACES.values())
        tab.close()
