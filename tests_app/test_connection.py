"""Nothing painted is lost: servers that end or stall in the middle of it, and sections that change."""

import re
import signal
import time

import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


def strokes(job):
    """Line, first trace and class of every stroke."""
    return [
        (one["points"][0][0], round(one["points"][0][1]), one["class"]) for one in oc.Job(job).plan.state.strokes
    ]  # fmt: skip


def wait_strokes(job, count, seconds=20):
    """Wait until a job has so many strokes."""
    end = time.monotonic() + seconds
    while len(strokes(job)) < count and time.monotonic() < end:
        time.sleep(0.1)
    assert len(strokes(job)) == count


def take_brush(tab, number="1"):
    """Take the brush, on inline 116."""
    tab.line(116)
    tab.press("b")
    tab.wait_model("tool", "m.active === 2")
    tab.press(number)


def test_a_mouse_may_rest_before_it_moves(job, browser):
    """Whoever aims carefully keeps the stroke, and a dab that is held; a tool taken by its key paints at once."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        take_brush(tab)
        tab.drag((320, 200), (330, 220), rest=700)
        wait_strokes(job, 1)
        tab.drag((340, 200), rest=700)
        wait_strokes(job, 2)
        tab.press("l", "b")
        assert tab.model("tool", "m.active") == 2
        tab.close()


def test_strokes_outlive_the_server(job, browser):
    """What is painted while the server dies is said to wait in the tab, and stored once when another one is there."""
    with server(job) as (address, process):
        tab, other = Tab(browser, address), Tab(browser, address)
        take_brush(tab)
        other.line(120)
        tab.drag((320, 200), (330, 220))
        wait_strokes(job, 1)
        process.send_signal(signal.SIGSTOP)  # it can answer nothing any more
        tab.press("2")
        tab.drag((340, 200), (350, 220))
        tab.page.mouse.move(*tab.pixel(360, 200))
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(370, 220), steps=6)
        process.send_signal(signal.SIGKILL)  # in the middle of a drag
        # three where the server could not say any more that it has the first one
        said = tab.page.locator("#connection-lost", has_text=re.compile("[23] strokes are not saved yet"))
        said.wait_for(timeout=8000)
        tab.page.mouse.up()
    assert len(strokes(job)) == 1
    with server(job) as (again, _):
        assert again == address
        back = time.monotonic()
        tab.page.wait_for_selector("#connection-lost", state="hidden", timeout=60_000)
        tab.ready()
        assert time.monotonic() - back < 30  # seconds, on a machine with other work
        wait_strokes(job, 3)
        tab.wait_model("section", "m.title.text === 'inline 116'")  # each tab shows the section it showed before
        other.page.wait_for_selector("#connection-lost", state="hidden", timeout=60_000)
        other.ready()
        other.wait_model("section", "m.title.text === 'inline 120'")
        tab.page.reload()
        tab.ready()
        tab.page.wait_for_timeout(1000)
        assert strokes(job) == [(116, 320, "fault"), (116, 340, "other"), (116, 360, "other")]
        for one in (tab, other):
            assert not one.foreign
            one.page.close()


def test_a_stall_needs_no_reload(job, browser):
    """A server that was silent for ten seconds goes on with the same page, and has what was painted meanwhile."""
    with server(job) as (address, process):
        tabs = [Tab(browser, address), Tab(browser, address)]
        take_brush(tabs[0])
        asked = []
        for tab in tabs:
            tab.page.on("request", lambda request: asked.append(request.url))
            tab.page.evaluate("window.same = true")
        process.send_signal(signal.SIGSTOP)
        tabs[0].drag((320, 200), (330, 220))
        tabs[0].drag((340, 200), (350, 220))
        for tab in tabs:
            tab.page.wait_for_selector("#connection-lost", state="visible", timeout=12_000)
        assert "2 strokes are not saved yet" in tabs[0].page.locator("#connection-lost").inner_text()
        tabs[0].page.wait_for_timeout(3000)
        process.send_signal(signal.SIGCONT)
        for tab in tabs:
            tab.page.wait_for_selector("#connection-lost", state="hidden", timeout=10_000)
        wait_strokes(job, 2, 5)
        assert all(tab.page.evaluate("window.same") for tab in tabs)
        assert {url.rsplit("/", 1)[1] for url in asked} == {"alive"} and len(asked) < 10
        for tab in tabs:
            tab.close()


def test_a_stroke_belongs_to_the_line_it_was_begun_on(job, browser):
    """Arrows do not end a drag, and corners stay on their line whatever is in view when they are ended."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        take_brush(tab)
        tab.page.mouse.move(*tab.pixel(320, 200))
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(330, 220), steps=3)
        tab.press("ArrowLeft")
        tab.page.mouse.move(*tab.pixel(335, 230), steps=3)
        tab.page.mouse.up()
        wait_strokes(job, 1)
        assert tab.model("section", "m.title.text") == "inline 116"
        tab.press("u")
        tab.wait_model("tool", "m.active === 4")
        for number, (key, title) in enumerate((("ArrowLeft", "inline 115"), (None, "time")), 2):
            for corner in ((400, 300), (430, 320), (420, 400)):
                tab.click(*corner)
                tab.page.wait_for_timeout(350)
            if key:
                tab.press(key)
            else:
                tab.page.get_by_text("time", exact=True).first.click()
            tab.wait_model("section", f"m.title.text.startsWith('{title}')")
            tab.wait_model("preview", "m.data_source.data.image.length === 0")  # it is not of this section
            tab.click(*((420, 350) if key else (380, 110)))
            tab.wait_model("status", "m.text.includes('An outline on inline 116 is not finished')")
            tab.press("Enter")
            wait_strokes(job, number)
            tab.page.get_by_text("inline", exact=True).first.click()
            tab.line(116)
        assert [line for line, *_ in strokes(job)] == [116, 116, 116]
        assert [len(one["points"]) for one in oc.Job(job).plan.state.strokes[1:]] == [3, 3]
        tab.close()


def test_the_readout_is_that_of_now(job, browser):
    """What is read under the cursor follows the section."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.page.mouse.click(*tab.pixel(380, 300))
        tab.wait_model("readout", "m.text.includes('inline 116')")
        tab.press("ArrowRight")
        tab.wait_model("readout", "m.text.includes('inline 117')")
        tab.close()


def test_a_page_that_lost_its_server_before_it_was_drawn(job, browser):
    """It says so instead of staying blank, and opens when a server is back."""
    with server(job) as (address, process):
        page = browser.new_page()

        def answer(route):
            """Hand over the page, from a server that ends before anything else is asked for."""
            response = route.fetch()
            process.kill()
            process.wait()
            route.fulfill(response=response)

        page.route(address, answer, times=1)
        page.goto(address)
        page.locator("#opening", has_text="The server ended before this page was drawn").wait_for(timeout=15_000)
    with server(job) as (again, _):
        assert again == address
        page.locator(".class[data-name='fault']").wait_for(timeout=30_000)
        assert page.locator("#opening").count() == 0
        page.close()
