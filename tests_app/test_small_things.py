"""Panel width, verdicts on several patches, corners, tooltips and accessible names, by mouse and keys."""

import shutil

import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]
PLACES = {"fault": (116, 397, 416), "other": (116, 435, 100), "chaotic": (116, 330, 240)}
STEPS = ("1 Exemplars", "2 Retrieved", "3 Labels", "4 Results", "5 Geology")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return the path of a job with three classes, retrieved patches and a labelled line."""
    folder = tmp_path_factory.mktemp("labelled")
    datasets.write_synthetic(folder / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(folder / "job.outcrop", volume=folder / "survey.sgy") as job:
        job.choose_index(size=40)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.retrieve(count=30)
        job.label([116])
    return folder / "job.outcrop"


@pytest.fixture
def judged(labelled, tmp_path):
    """Return the path of a copy that a test may change."""
    return shutil.copytree(labelled, tmp_path / "job.outcrop")


def verdicts(job):
    """Return place -> verdict of a job."""
    return {one.place: one.accept for one in oc.Job(job).plan.state.verdicts}


def places(tab):
    """Return the places below the cards of the gallery."""
    notes = tab.page.locator(".card:has(button.accept) .note").all_inner_texts()
    return [tuple(map(float, note.split(", "))) for note in notes]


@pytest.mark.parametrize("screen", SCREENS)
def test_several_patches_are_judged_at_once(judged, browser, screen):
    """Shift with arrows, Shift with a click, and the button for all shown patches each give one act."""
    with server(judged) as (address, _):
        tab = Tab(browser, address, screen)
        tab.step("2 Retrieved")
        cards = tab.page.locator(".card:has(button.accept)")
        cards.first.wait_for()
        shown = places(tab)
        assert len(shown) == 24 and all(place[0] in range(100, 130) for place in shown)
        tab.page.locator(".thumbnails:has(button.accept)").focus()
        tab.press("Shift+ArrowRight", "Shift+ArrowRight", "a")
        tab.page.locator(".card.accepted:has(button.accept)").nth(2).wait_for()
        assert verdicts(judged) == dict.fromkeys(shown[:3], True)
        tab.press("Control+z")
        tab.page.locator(".card.accepted:has(button.accept)").first.wait_for(state="detached")
        assert verdicts(judged) == {}
        cards.nth(3).locator("img").click()
        cards.nth(6).locator("img").click(modifiers=["Shift"])
        tab.page.locator(".card.chosen").nth(3).wait_for()
        cards.nth(4).locator("button.reject").click()
        tab.wait_model("gallery-note", "m.text.includes('4 rejected')")
        assert verdicts(judged) == dict.fromkeys(shown[3:7], False)
        tab.page.get_by_role("button", name="Accept all shown").click()
        tab.page.locator(".card.accepted:has(button.accept)").nth(23).wait_for()
        assert verdicts(judged) == dict.fromkeys(shown, True)
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_panel_is_resized_and_folded(job, browser, screen):
    """Mouse and keys resize the panel, the section takes the space, and a reload keeps the width."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        border = tab.page.get_by_role("separator", name="Width of the panel")
        box, panel = border.bounding_box(), tab.page.get_by_text("5 Geology")
        wide = tab.model("section", "m.inner_width")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        tab.page.mouse.move(x, y)
        tab.page.mouse.down()
        tab.page.mouse.move(x - 100, y, steps=4)
        tab.page.mouse.up()
        tab.wait_model("section", f"Math.abs(m.inner_width - {wide} + 100) < 20")
        border.focus()
        tab.press("ArrowRight", "ArrowRight", "ArrowRight")
        tab.wait_model("section", f"Math.abs(m.inner_width - {wide} + 40) < 20")
        tab.press("Enter")
        panel.wait_for(state="hidden")
        tab.wait_model("section", f"m.inner_width > {screen[0] - 150}")
        tab.page.wait_for_timeout(500)
        tab.page.reload()
        tab.ready()
        tab.wait_model("section", f"m.inner_width > {screen[0] - 150}")
        tab.press("m")
        panel.wait_for()
        tab.wait_model("section", f"Math.abs(m.inner_width - {wide} + 40) < 20")
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_corners_of_an_outline_are_moved(job, browser, screen):
    """A drag moves the corner under the mouse, Shift with arrows the chosen corner; the stroke has them."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.press("u", "1")
        tab.wait_model("tool", "m.active === 4")
        for corner in ((360, 200), (400, 200), (400, 300)):
            tab.click(*corner)
            tab.page.wait_for_timeout(350)
        tab.wait_model("corners", "m.data_source.data.x.length === 3")
        tab.drag((400, 200), (410, 240), (420, 260))
        tab.wait_model("corners", "m.data_source.data.x[1] === 420 && m.data_source.data.y[1] === 260")
        tab.press("Shift+ArrowLeft", "Shift+ArrowDown", ".", "Shift+ArrowRight")
        tab.wait_model("corners", "m.data_source.data.x[2] === 401")
        tab.press("Enter")
        tab.wait_model("painted", "m.data_source.data.image.length === 1")
        (stroke,) = oc.Job(job).plan.state.strokes
        assert [tuple(point[1:]) for point in stroke["points"]] == [(360, 200), (419, 264), (401, 300)]
        tab.wait_model("corners", "m.data_source.data.x.length === 0")
        tab.close()


def test_tooltips_name_the_keys(job, browser):
    """The tooltip of every tool and button at the top ends with its key."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        for name, key in (("Brush", "B"), ("Outline", "U"), ("Undo", "Ctrl+Z"), ("Linked views", "V"), ("Fit", "F")):
            button = tab.page.get_by_role("button", name=name)
            assert button.get_attribute("title").endswith(f"({key})")
            assert button.get_attribute("aria-keyshortcuts") == key.replace("Ctrl", "Control")
        for name in ("line", "gain"):
            tab.page.get_by_role("slider", name=name, exact=True).wait_for()
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_serious(labelled, browser, screen):
    """Every step, the list of keys, both dialogs and the start screen have names, roles and contrast (axe-core)."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    shutil.rmtree(labelled / "export", ignore_errors=True)

    def serious(page):
        found = axe.run(page).response["violations"]
        return [
            (one["id"], node["html"][:200])
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    with server(labelled) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        for step in STEPS:
            tab.step(step)
            tab.page.wait_for_timeout(500)
            assert (step, serious(tab.page)) == (step, [])
        tab.step("1 Exemplars")
        tab.press("h")
        tab.page.get_by_role("dialog").wait_for()
        assert serious(tab.page) == []
        tab.press("Escape")
        tab.page.get_by_role("button", name="Keys").click()
        assert serious(tab.page) == []
        tab.page.get_by_role("button", name="Jobs").click()
        tab.page.get_by_role("heading", name="Volumes").wait_for()
        assert serious(tab.page) == []
        tab.page.close()
