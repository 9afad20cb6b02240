"""Confirmed lines and the strip of all lines, in a real browser."""

import shutil

import numpy as np
import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.app.lines import CONFIRMED, LABELLED, STALE, UNKNOWN, UNLABELLED

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]
PLACES = {"fault": (116, 397, 416), "other": (116, 435, 100), "chaotic": (116, 330, 240)}
LABELS = [106, 110, 116, 117]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return the path of a job with three classes and four of thirty lines labelled."""
    folder = tmp_path_factory.mktemp("labelled")
    datasets.write_synthetic(folder / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(folder / "job.outcrop", volume=folder / "survey.sgy") as job:
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.label(LABELS)
    return folder / "job.outcrop"


@pytest.fixture
def job(labelled, tmp_path):
    """Return the path of a copy that a test may change."""
    return shutil.copytree(labelled, tmp_path / "job.outcrop")


def strip(tab, row="image"):
    """Return the states of the lines in the browser, or their confidence in percent."""
    return np.array(tab.model("line-states", f"Array.from(m.data_source.data.{row}[0] ?? [])"))


def wait_state(tab, line, state):
    """Wait until a line has a state in the strip."""
    tab.wait_model("line-states", f"m.data_source.data.image[0]?.[{line - 100}] === {state}")


def wait_learnt(tab):
    """Wait until the mapping has learnt and all labelled lines are updated."""
    words = ("learning", "again after", "stale")
    done = " && ".join(f"!m.text.includes('{word}')" for word in words)
    tab.wait_model("changed", f"m.text.includes('labelled') && {done}", timeout=200_000)


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_a_line_is_confirmed_and_the_confirmation_cleared(job, browser, screen, by):
    """A confirmed line keeps its labels and has a frame, and other lines are updated; a button or undo clears it."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.step("3 Labels")
        tab.line(116)
        tab.wait_model("line-states", "m.data_source.data.image.length === 1")
        tab.wait_model("labels", "m.data_source.data.image.length === 1")
        before = np.array(tab.model("labels", "Array.from(m.data_source.data.image[0])"))
        right = tab.page.get_by_role("button", name="Line is right")
        wrong = tab.page.get_by_role("button", name="Clear confirmation")
        assert not wrong.is_visible() and not tab.model("confirmed-notice", "m.visible")

        def act(button, key):
            button.click() if by == "mouse" else tab.press(key)

        act(right, "Shift+C")
        wrong.wait_for()
        wait_state(tab, 116, CONFIRMED)
        tab.wait_model("confirmed-notice", "m.visible && m.text.startsWith('✓ Confirmed')")
        tab.wait_model("confirmed", "m.data_source.data.left.length === 1")
        wait_learnt(tab)
        with oc.Job(job) as notebook:
            assert [(one["along"], one["line"]) for one in notebook.plan.state.confirmed] == [("inline", 116)]
            kept = notebook.labels.sel(inline=116)
            assert (kept["confidence"] == 255).all()
        np.testing.assert_array_equal(kept["label"].values.T.ravel(), before)
        np.testing.assert_array_equal(tab.model("labels", "Array.from(m.data_source.data.image[0])"), before)
        # a crossline shows the crossing with the line, another line shows nothing
        tab.line(117)
        tab.wait_model("confirmed-notice", "!m.visible")
        wrong.wait_for(state="hidden")
        tab.page.get_by_role("button", name="crossline", exact=True).click()
        tab.wait_model("section", "m.title.text.startsWith('crossline')")
        tab.wait_model("confirmed", "m.data_source.data.left[0] === 115.5 && m.data_source.data.right[0] === 116.5")
        tab.page.get_by_role("button", name="inline", exact=True).click()
        tab.line(116)
        wrong.wait_for()
        act(wrong, "Shift+W")
        wait_state(tab, 116, LABELLED)
        assert not oc.Job(job).plan.state.confirmed
        tab.press("Control+z")  # confirmed again
        wait_state(tab, 116, CONFIRMED)
        tab.wait_message("confirming inline 116")
        tab.close()


def test_sections_that_cannot_be_confirmed_are_refused(job, browser):
    """A line without labels and a time slice are refused with a message."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(103)
        tab.press("Shift+C")
        tab.wait_message("Inline 103 has no labels yet")
        tab.page.get_by_role("button", name="time", exact=True).click()
        tab.wait_model("section", "m.title.text.startsWith('time')")
        tab.wait_model("confirm", "m.disabled")
        tab.press("Shift+C")
        tab.wait_message("time slice cannot be confirmed")
        assert not oc.Job(job).plan.state.confirmed
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_strip_shows_all_lines_and_a_click_opens_one(job, browser, screen):
    """The strip shows state and confidence of every line; a click shows a line, a button the line to correct next."""
    with oc.Job(job) as notebook:
        notebook.confirm([116])
        notebook.label([116, 117])  # the others are stale
        advice = notebook.status()["correct_next"]
        sure = notebook.labels["confidence"].sel(inline=[106, 110, 117]).mean(dim=["crossline", "time"]) / 2.55
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.step("3 Labels")
        tab.wait_model("line-states", f"m.data_source.data.sure[0]?.[6] !== {UNKNOWN}")
        states = np.full(30, UNLABELLED)
        states[[6, 10, 17]], states[16] = (STALE, STALE, LABELLED), CONFIRMED
        np.testing.assert_array_equal(strip(tab), states)
        percent = strip(tab, "sure")
        np.testing.assert_allclose(percent[[6, 10, 17]], sure, atol=1)
        assert percent[16] == 100 and (percent[states == UNLABELLED] == UNKNOWN).all()
        words = tab.model("line-strip", "m.html_attributes['aria-label']")
        assert words.startswith("30 inlines: 26 not labelled, 1 labelled, 2 stale, 1 confirmed")
        tab.click(10.2, 1, name="line-strip")
        tab.wait_model("section", "m.title.text === 'inline 110'")
        tab.wait_model("line-marks", "m.data_source.data.x[0] === 10")
        tab.page.mouse.move(*tab.pixel(6, 1.5, "line-strip"))
        tab.page.locator(".bk-tooltip-content, .bk-Tooltip", has_text="inline 106: stale").first.wait_for()
        tab.wait_model("next-line", f"m.label === 'Correct next: {advice['line']}'")
        tab.page.get_by_role("button", name="Correct next").click()
        tab.wait_model("section", f"m.title.text === 'inline {advice['line']}'")
        tab.wait_model("marked", "m.data_source.data.x.length === 1 && m.data_source.data.x[0] !== null")
        marked = tab.model("marked", "[m.data_source.data.x[0], m.data_source.data.y[0]]")
        assert np.allclose(marked, advice["place"][1:], atol=30)  # centre of its box, which is moved inwards at the rim
        tab.line(117)
        tab.press("Shift+N")
        tab.wait_model("section", f"m.title.text === 'inline {advice['line']}'")
        tab.close()
