"""Linked views in a real browser: one crosshair in inline, crossline and time slice."""

import numpy as np
import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.app.pictures import Sections

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]


@pytest.fixture
def survey(tmp_path):
    """Return the path of a synthetic survey."""
    datasets.write_synthetic(tmp_path / "survey.sgy", (30, 160, 160), seed=0)
    return tmp_path / "survey.sgy"


def cross(tab, name):
    """Return the position of the crosshair of a view."""
    return tab.model(f"cross-{name}", "[m.data.x[0], m.data.y[0]]")


def title(tab, name):
    """Return the title of the section in a view."""
    return tab.model(name, "m.title.text")


@pytest.mark.parametrize("screen", SCREENS)
def test_a_click_moves_the_other_views(survey, browser, screen):
    """A click in any view moves the crosshair, the others show their section through it, and a reload keeps it."""
    with server(survey, "--size", 40, folder=survey.parent) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        assert tab.model("cross-section", "m.data.x.length") == 0
        tab.press("v")
        tab.wait_model("linked", "m.active")
        tab.wait_model("linked-1", "m.title.text === 'crossline 380'")
        tab.click(350, 200)
        tab.wait_model("linked-1", "m.title.text === 'crossline 350'")
        tab.wait_model("linked-2", "m.title.text === 'time 200 ms'")
        assert cross(tab, "section") == [350, 200]
        assert cross(tab, "linked-1") == [116, 200] and cross(tab, "linked-2") == [350, 116]
        volume = oc.open_volume(survey)
        shown = tab.model("linked-amplitudes-1", "Array.from(m.data_source.data.image[0])")
        np.testing.assert_array_equal(np.reshape(shown, (160, 30)), Sections(volume).codes(1, 50))
        # a click on a small view moves the large view
        tab.click(105, 400, "linked-1")
        tab.wait_model("section", "m.title.text === 'inline 105'")
        tab.wait_model("linked-2", "m.title.text === 'time 400 ms'")
        # the crosshairs follow a change of line
        tab.page.mouse.move(5, 5)
        tab.press("ArrowRight")
        tab.wait_model("section", "m.title.text === 'inline 106'")
        tab.wait_model("cross-linked-1", "m.data.x[0] === 106")
        # another direction in the large view shows the section through the crosshair
        tab.page.get_by_text("crossline", exact=True).first.click()
        tab.wait_model("section", "m.title.text === 'crossline 350'")
        tab.wait_model("linked-1", "m.title.text === 'inline 106'")
        tab.page.wait_for_timeout(800)
        tab.page.reload()
        tab.ready()
        tab.wait_model("linked-1", "m.title.text === 'inline 106'")
        assert title(tab, "linked-2") == "time 400 ms" and cross(tab, "section") == [106, 400]
        tab.press("v")
        tab.wait_model("cross-section", "m.data.x.length === 0")
        tab.close()


def test_the_mouse_is_shown_in_the_other_views(survey, browser):
    """The crosshairs of other views follow the mouse, and a click with another tool does not move them."""
    with server(survey, "--size", 40, folder=survey.parent) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.press("v")
        tab.wait_model("linked-1", "m.title.text === 'crossline 380'")
        tab.click(350, 200)
        tab.wait_model("linked-2", "m.title.text === 'time 200 ms'")
        tab.page.mouse.move(*tab.pixel(420, 500))
        near = "Math.abs(m.data.x[0] - {}) < 1 && Math.abs(m.data.y[0] - {}) < 4"
        tab.wait_model("cross-linked-1", near.format(116, 500))
        tab.wait_model("cross-linked-2", near.format(420, 116))
        assert cross(tab, "section") == [350, 200]
        tab.page.mouse.move(*tab.pixel(400, 110, "linked-2"))
        tab.wait_model("cross-section", near.format(400, 200))
        tab.wait_model("cross-linked-1", near.format(110, 200))
        tab.page.mouse.move(5, 5)
        tab.wait_model("cross-section", near.format(350, 200))
        tab.press("b")
        tab.wait_model("tool", "m.active === 2")
        tab.click(400, 300)
        tab.page.wait_for_timeout(500)
        assert title(tab, "linked-1") == "crossline 350" and cross(tab, "section") == [350, 200]
        tab.close()


def test_small_views_have_the_scale_and_the_hatching_of_the_large_view(survey, browser):
    """The small time slice has equal scales across and down; stale lines are hatched in every view."""
    with oc.Job(survey.parent / "job.outcrop", volume=survey) as job:
        job.choose_index(size=40)
        for name, place in (("fault", (116, 377, 316)), ("other", (116, 435, 100))):
            job.add_exemplar(name, place)
        job.retrieve(count=20)
        job.label([116])
        job.add_exemplar("other", (116, 340, 80))
    with server(survey.parent / "job.outcrop") as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.press("v")
        tab.wait_model("linked-2", "m.inner_width > 0 && m.title.text.startsWith('time')")
        tab.page.wait_for_timeout(800)
        (x0, y0), (x1, y1) = tab.pixel(320, 105, "linked-2"), tab.pixel(340, 125, "linked-2")
        spacing = oc.open_volume(survey).attrs["bin_size"]
        assert (x1 - x0) / spacing[1] == pytest.approx(abs(y1 - y0) / spacing[0], rel=0.02)
        for number, edges in ((1, "['left', 'right']"), (2, "['top', 'bottom']")):
            found = tab.model(f"linked-stale-{number}", f"{edges}.map((edge) => m.data_source.data[edge][0])")
            assert sorted(found) == [115.5, 116.5] and tab.model(f"linked-stale-{number}", "m.visible")
        tab.page.get_by_role("button", name="labels", exact=True).click()
        tab.wait_model("linked-stale-1", "!m.visible")
        tab.close()


def test_uneven_lines_are_numbered(browser, tmp_path):
    """The ticks of unevenly spaced lines show their numbers, without ticks between the lines."""
    values = np.random.default_rng(0).normal(size=(4, 90, 60)).astype("f4")
    volume = oc.open_volume(values).assign_coords(inline=[61, 211, 231, 281])
    explorer = oc.explore(volume, job=tmp_path / "uneven.outcrop", size=32)
    tab = Tab(browser, explorer.address)
    tab.model("direction", "m.active = 1")
    tab.wait_model("section", "m.below[0].axis_label === 'inline' && m.below[0].formatter.code")
    numbers = tab.model("section", "m.below[0].formatter.doFormat([-1, 0, 1, 1.5, 3, 4], {})")
    assert numbers == ["", "61", "211", "", "281", ""]
    tab.close()
    explorer.close()


def test_a_narrow_window_shows_the_expert_section_or_linked_views(survey, browser):
    """Opening one closes the other, so that the section stays wide; the names of all steps fit next to it."""
    with server(survey, "--size", 40, "--truth", "survey.truth.sgy", folder=survey.parent) as (address, _):
        tab = Tab(browser, address, (1000, 700))
        tab.line(116)
        ends = [tab.page.get_by_text(name, exact=True).bounding_box() for name in ("1 Exemplars", "5 Geology")]
        assert ends[0]["y"] == ends[1]["y"] and ends[1]["x"] + ends[1]["width"] <= 1000
        tab.step("3 Labels")
        tab.page.get_by_text("Side by side").click()
        tab.wait_model("expert-section", "m.visible")
        tab.press("v")
        tab.wait_model("linked", "m.active")
        tab.wait_model("expert-section", "!m.visible")
        tab.page.get_by_text("Side by side").click()
        tab.wait_model("expert-section", "m.visible")
        tab.wait_model("linked", "!m.active")
        tab.wait_model("section", "m.inner_width > 200")
        tab.close()
