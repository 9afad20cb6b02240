"""No stroke is lost when the server ends or stalls during painting, or when the section changes."""

import re
import signal
import time

import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


def strokes(job):
    """Return line, first trace and class of every stroke."""
    return [
        (one["points"][0][0], round(one["points"][0][1]), one["class"]) for one in oc.Job(job).plan.state.strokes
    ]  # fmt: skip


def wait_strokes(job, count, seconds=20):
    """Wait until a job has a number of strokes."""
    end = time.monotonic() + seconds
    while len(strokes(job)) < count and time.monotonic() < end:
        time.sleep(0.1)
    assert len(strokes(job)) == count


def take_brush(tab, number="1"):
    """Show inline 116 and select the brush."""
    tab.line(116)
    tab.press("b")
    tab.wait_model("tool", "m.active === 2")
    tab.press(number)


def test_a_stroke_may_begin_with_a_rest_of_the_mouse(job, browser):
    """A drag after a rest and a long click are stored as strokes; a tool selected by its key paints at once."""
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


def test_strokes_survive_the_end_of_the_server(job, browser):
    """Strokes painted while the server ends wait in the tab, and a new server stores each of them once."""
    with server(job) as (address, process):
        tab, other = Tab(browser, address), Tab(browser, address)
        take_brush(tab)
        other.line(120)
        tab.drag((320, 200), (330, 220))
        wait_strokes(job, 1)
        process.send_signal(signal.SIGSTOP)  # the stopped server cannot answer
        tab.press("2")
        tab.drag((340, 200), (350, 220))
        tab.page.mouse.move(*tab.pixel(360, 200))
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(370, 220), steps=6)
        process.send_signal(signal.SIGKILL)  # in the middle of a drag
        # 3 if the server could not confirm the first stroke before it was stopped
        banner = tab.page.locator("#connection-lost", has_text=re.compile("[23] strokes are not saved yet"))
        banner.wait_for(timeout=8000)
        tab.page.mouse.up()
    assert len(strokes(job)) == 1
    with server(job) as (again, _):
        assert again == address
        restarted = time.monotonic()
        tab.page.wait_for_selector("#connection-lost", state="hidden", timeout=60_000)
        tab.ready()
        assert time.monotonic() - restarted < 30  # seconds, on a machine with other work
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


def test_a_stall_of_the_server_needs_no_reload(job, browser):
    """After a stall of ten seconds the page continues without a reload, and strokes of that time are stored."""
    with server(job) as (address, process):
        tabs = [Tab(browser, address), Tab(browser, address)]
        take_brush(tabs[0])
        requested = []
        for tab in tabs:
            tab.page.on("request", lambda request: requested.append(request.url))
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
        assert {url.rsplit("/", 1)[1] for url in requested} == {"alive"} and len(requested) < 10
        for tab in tabs:
            tab.close()


def test_a_stroke_belongs_to_the_line_on_which_it_began(job, browser):
    """Arrow keys do not end a drag, and an outline is stored on its own line even if another section is in view."""
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
            tab.wait_model("preview", "m.data_source.data.image.length === 0")  # the outline is not on this section
            tab.click(*((420, 350) if key else (380, 110)))
            tab.wait_message("An outline on inline 116 is not finished")
            tab.press("Enter")
            wait_strokes(job, number)
            tab.page.get_by_text("inline", exact=True).first.click()
            tab.line(116)
        assert [line for line, *_ in strokes(job)] == [116, 116, 116]
        assert [len(one["points"]) for one in oc.Job(job).plan.state.strokes[1:]] == [3, 3]
        tab.close()


def test_the_readout_follows_the_section(job, browser):
    """The readout under the cursor shows the new section after a step."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.page.mouse.click(*tab.pixel(380, 300))
        tab.wait_model("readout", "m.text.includes('inline 116')")
        tab.press("ArrowRight")
        tab.wait_model("readout", "m.text.includes('inline 117')")
        tab.close()


def test_a_page_whose_server_ended_before_it_was_drawn(job, browser):
    """It shows a message instead of a blank page, and opens when a server runs again."""
    with server(job) as (address, process):
        page = browser.new_page()

        def answer(route):
            """Pass on the page, and end the server before other requests."""
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
