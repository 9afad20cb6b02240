"""Strokes and class names are stored as the interpreter entered them, by clicks, keys and drags."""

import pytest
from tab import CHROMIUM, Tab, server
from test_connection import strokes, take_brush, wait_strokes

import outcrop as oc

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


def corners(tab, *places):
    """Click corners, slowly enough to avoid double clicks."""
    for place in places:
        tab.click(*place)
        tab.page.wait_for_timeout(350)


def names(job):
    """Return the present names of the classes."""
    return [facts["name"] for facts in oc.Job(job).plan.state.classes.values()]


def test_a_click_chooses_and_a_double_click_renames(job, browser):
    """A click chooses the class of the brush; a refused name shows the reason and can be corrected."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.page.locator(".class[data-name='other'] span").first.click()
        tab.page.wait_for_selector(".class.selected[data-name='other']")
        tab.press("b")
        tab.wait_model("tool", "m.active === 2")
        tab.drag((320, 200), (330, 220))
        wait_strokes(job, 1)
        assert strokes(job) == [(116, 320, "other")] and names(job) == ["fault", "other"]
        tab.step("1 Exemplars")
        tab.page.locator(".class[data-name='other'] span").first.dblclick()
        field = tab.page.locator(".class[data-name='other'] input:not([type=color])")
        for name, words in (("b" * 45, "45 characters, more than 40"), ("Fault", "exists as")):
            field.fill(name)
            field.press("Enter")
            tab.wait_model("status", f"m.text.includes('{words}')")
            assert field.input_value() == name
        with oc.Job(job) as shell:
            shell.add_class("third")  # another program adds a class while a name is typed
        tab.page.wait_for_selector(".class[data-name='third']")
        assert field.input_value() == "Fault" and names(job) == ["fault", "other", "third"]
        field.fill("salt")
        field.press("Enter")
        tab.page.wait_for_selector(".class.selected[data-name='salt'] span")
        assert tab.page.locator(".class[data-name] input:not([type=color])").count() == 0
        add = tab.page.locator(".class.add input")
        for name, text in (("c" * 45, "c" * 45), ("fourth", "")):
            add.fill(name)
            add.press("Enter")
            if text:
                tab.wait_message("45 characters, more than 40")
            else:
                tab.page.wait_for_selector(".class.selected[data-name='fourth']")
            assert add.input_value() == text
        assert names(job) == ["fault", "salt", "third", "fourth"]
        tab.close()


def test_corners_are_removed_counted_and_kept(job, browser):
    """Ctrl+Z removes the last corner before a stroke, too few corners give a message, and a reload keeps corners."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        take_brush(tab)
        tab.drag((320, 200), (330, 220))
        wait_strokes(job, 1)
        tab.press("u")
        tab.wait_model("tool", "m.active === 4")
        corners(tab, (400, 300), (430, 320), (420, 400))
        tab.press("Control+z")
        tab.wait_model("section", "m.stroke.points.length === 2")
        tab.press("Enter")
        tab.wait_message("An outline needs 3 corners and has 2")
        tab.page.wait_for_timeout(500)
        assert len(strokes(job)) == 1
        tab.page.reload()
        tab.ready()
        tab.wait_message("An outline on inline 116 is not finished (2 corners)")
        tab.wait_model("preview", "m.data_source.data.image.length === 1")
        tab.wait_model("tool", "m.active === 4")
        tab.press("2")  # the outline keeps the class with which it began
        tab.wait_model("brush-class", "m.value === 'other'")
        corners(tab, (425, 390))
        tab.press("Enter")
        wait_strokes(job, 2)
        assert strokes(job)[1] == (116, 400, "fault")
        assert len(oc.Job(job).plan.state.strokes[1]["points"]) == 3
        corners(tab, (350, 300))
        tab.page.get_by_role("button", name="Undo").click()  # same as the key
        tab.wait_model("section", "!m.stroke")
        assert len(strokes(job)) == 2
        tab.press("Control+z")
        tab.wait_message("Undone: stroke of fault")
        assert len(strokes(job)) == 1
        tab.press("ArrowRight")
        tab.wait_model("status", "m.text === 'Ready.'")
        tab.page.reload()
        tab.ready()
        assert not tab.model("section", "m.stroke")
        tab.press("t")
        corners(tab, (350, 300))
        tab.press("Enter")
        tab.wait_message("A line needs 2 corners and has 1")
        tab.press("Escape")
        tab.close()


def test_a_drag_keeps_its_class_and_paints_inside_the_section_only(job, browser):
    """A class key during a drag applies to the next stroke; parts of a drag outside the section paint nothing."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        take_brush(tab)
        tab.page.mouse.move(*tab.pixel(340, 200))
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(350, 220), steps=4)
        tab.press("2")
        tab.wait_model("brush-class", "m.value === 'other'")
        tab.page.mouse.move(*tab.pixel(360, 240), steps=4)
        tab.page.mouse.up()
        wait_strokes(job, 1)
        # zoom out, so that the section has a margin
        tab.page.mouse.wheel(0, 600)
        tab.wait_model("section", "m.x_range.start < 280")
        tab.drag((330, 200), (285, 200), (285, 400), (330, 400), steps=10)
        wait_strokes(job, 3)
        tab.click(285, 300)
        tab.wait_message("click inside the section")
        tab.press("t")
        tab.wait_model("tool", "m.active === 3")
        tab.drag((320, 500), (280, 500))
        wait_strokes(job, 4)
        _, *found = oc.Job(job).plan.state.strokes
        assert [name for *_, name in strokes(job)] == ["fault", "other", "other", "other"]
        ends = [[tuple(map(round, one["points"][i][1:])) for i in (0, -1)] for one in found]
        for (begin, end), (first, last) in zip(
            ends, [((330, 200), (300, 200)), ((300, 400), (330, 400)), ((320, 500), (300, 500))], strict=True
        ):
            for found_end, expected_end in ((begin, first), (end, last)):
                assert abs(found_end[0] - expected_end[0]) <= 1  # trace
                assert abs(found_end[1] - expected_end[1]) <= 4  # one sample in ms
        assert all(abs(time - one["points"][0][2]) <= 4 for one in found for *_, time in one["points"])
        tab.close()


def test_a_list_loses_the_focus_after_a_choice(job, browser):
    """After a choice in the list of the brush, the next key selects a tool."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.step("3 Labels")
        assert tab.model("brush-class", "m.value") == "fault"
        tab.page.locator("select[name='brush-class']").focus()
        tab.press("ArrowDown")
        tab.wait_model("brush-class", "m.value === 'other'")
        tab.wait_model("tool", "m.active === 2")
        tab.press("t")
        tab.wait_model("tool", "m.active === 3")
        assert tab.model("brush-class", "m.value") == "other"
        tab.close()
