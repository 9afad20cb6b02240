"""The page in a real browser, from an unknown volume to exported labels."""

import re
import signal

import numpy as np
import pytest
from tab import CHROMIUM, NOTES, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.app.pictures import Sections

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SIZE = 40


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Return the path of a synthetic survey."""
    path = tmp_path_factory.mktemp("survey") / "survey.sgy"
    datasets.write_synthetic(path, (30, 160, 160), seed=0)
    return path


def overlay_pixels(tab):
    """Return the number of coloured pixels of the labels in the browser."""
    return tab.model("labels", "m.data_source.data.image[0].filter((code) => code > 0).length")


def test_the_whole_work_of_an_interpreter(survey, browser, tmp_path):
    """Open, move, zoom, place, retrieve, reject, label, drag the threshold, undo, kill, reopen, export."""
    job = tmp_path / "walk.outcrop"
    truth = survey.with_suffix(".truth.sgy")
    volume = oc.open_volume(survey)
    with server(survey, "-o", job, "--size", SIZE, "--truth", truth) as (address, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", address)
        tab = Tab(browser, address)
        # move through lines
        assert tab.model("section", "m.title.text") == "inline 115"
        tab.page.keyboard.press("ArrowRight")
        tab.wait_model("section", "m.title.text === 'inline 116'")
        code = tab.model("amplitudes", "m.data_source.data.image[0][160 * 50 + 70]")
        assert code == Sections(volume).codes(0, 16)[50, 70]
        # zoom by the wheel, then click: the exemplar lies on the sample under the cursor
        x, y = tab.pixel(380, 300)
        tab.page.mouse.move(x, y)
        tab.page.mouse.wheel(0, -600)
        tab.wait_model("section", "m.x_range.end - m.x_range.start < 150")
        tab.exemplar("fault", 377, 316)
        assert tab.notes() == ["116, 377, 316"]
        tab.model("section", "m.reset.emit()")
        tab.wait_model("section", "m.x_range.end - m.x_range.start > 159")
        # a box is moved by dragging
        tab.drag((377, 316), (390, 400), (397, 416), steps=4)
        tab.page.wait_for_function(f"() => {NOTES}[0].textContent.startsWith('116, 397, 416')")
        tab.exemplar("other", 435, 100)
        tab.exemplar("chaotic", 330, 240)
        # retrieve, reject one
        tab.find()
        tab.page.locator(".thumbnails:has(button.accept)").focus()
        tab.page.keyboard.press("ArrowRight")
        tab.page.keyboard.press("a")
        tab.page.wait_for_selector(".card.accepted")
        first = tab.page.locator(".card:has(button.reject) img").first.get_attribute("src")
        tab.page.locator(".card button.reject").first.click()
        tab.wait_model("gallery-note", "m.text.includes('1 rejected')")
        tab.page.locator(f".card.rejected:has(button.reject) img[src='{first}']").wait_for()
        tab.page.get_by_role("button", name="Re-rank").click()
        tab.page.locator(f".card:has(button.reject) img[src='{first}']").wait_for(state="detached")
        # label
        tab.label()
        # drag the threshold: the browser applies it without the server
        before = overlay_pixels(tab)
        handle = tab.page.locator("[aria-label='Minimum confidence']")
        box = tab.page.locator(".noUi-target", has=handle).bounding_box()
        tab.page.mouse.move(box["x"] + 1, box["y"] + box["height"] / 2)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2, steps=5)
        tab.wait_model("confidence", "m.value > 60")
        after = overlay_pixels(tab)
        tab.page.mouse.up()
        assert 0 <= after < before == 160 * 160
        # the limit was a decision, which undo cancels
        tab.press("Control+z")
        tab.wait_model("confidence", "m.value === 0")
        # swipe: labels of the job left of the line, expert labels right of it
        tab.page.get_by_text("Swipe", exact=True).click()
        tab.wait_model("truth", "m.visible && m.data_source.data.image.length")
        tab.drag((tab.model("cut", "m.location"), 300), (340, 300))
        tab.wait_model("cut", "Math.abs(m.location - 340) < 1")
        at = tab.model("cut", "Math.round(m.location - 299.5)")  # traces left of the line
        for name, sides in (("labels", (160 * at, 0)), ("truth", (0, 160 * (160 - at)))):
            for left, pixels in zip(("true", "false"), sides, strict=True):
                seen = f"m.data_source.data.image[0].filter((c, i) => c > 0 && (i % 160 < {at}) === {left}).length"
                assert tab.model(name, seen) == pixels
        tab.page.get_by_text("Mine", exact=True).click()
        tab.wait_model("labels", "m.data_source.data.image[0].every((code) => code > 0)")
        # undo clears the rejection: the labels of the line stay, hatched, until redo
        tab.page.get_by_role("button", name="Undo").click()
        tab.wait_model("gallery-note", "!m.text.includes('rejected')")
        tab.wait_model("stale", "m.data_source.data.left.length === 1")
        assert tab.model("stale-notice", "m.visible") and overlay_pixels(tab) == 160 * 160
        tab.wait_model("changed", "m.text.includes('labels of this line are stale')")
        tab.page.get_by_role("button", name="Redo").click()
        tab.wait_model("stale", "m.data_source.data.left.length === 0")
        tab.page.get_by_role("button", name="Undo").click()
        tab.wait_model("stale", "m.data_source.data.left.length === 1")
        # without a server, the page shows a banner
        process.send_signal(signal.SIGKILL)
        tab.page.wait_for_selector("#connection-lost", state="visible", timeout=8000)
        assert "What you decided before is saved" in tab.page.locator("#connection-lost").inner_text()
        tab.page.close()
        assert not tab.foreign and not [text for text in tab.errors if "WebSocket" not in text and "ERR_" not in text]
    with server(job, "--truth", truth) as (address, _):
        tab = Tab(browser, address)
        assert tab.model("section", "m.title.text") == "inline 116"
        tab.step("1 Exemplars")
        tab.page.get_by_text("116, 397, 416").wait_for()
        assert tab.notes()[0] == "116, 397, 416" and len(tab.notes()) == 3
        assert overlay_pixels(tab) == 160 * 160
        tab.step("4 Results")
        tab.page.get_by_text("SEG-Y labels").click()
        tab.wait_message("from older decisions")
        tab.page.locator("label:visible", has_text="include stale lines").click()
        tab.export()
        tab.wait_model("exported", "m.text.includes('1 of 30 lines labelled, 1 of them stale, 29 missing')")
        tab.close()
    exported = oc.open_volume(job / "export/labels.sgy")
    assert exported.attrs["classes"] == ["fault", "other", "chaotic"]
    assert set(np.unique(exported.sel(inline=116).values)) <= {1, 2, 3}


def state(job):
    """Return the state of a job, read as by another process."""
    return oc.Job(job).plan.state


def test_a_decision_of_another_program_appears(survey, browser, tmp_path):
    """A class and an exemplar added in a notebook appear on an open page within two seconds."""
    job = tmp_path / "elsewhere.outcrop"
    with server(survey, "-o", job, "--size", SIZE) as (address, _):
        tab = Tab(browser, address)
        with oc.Job(job) as notebook:
            notebook.add_exemplar("fault", (115, 377, 316))
        tab.page.wait_for_selector(".class[data-name='fault']", timeout=2000)
        tab.page.wait_for_function(f"() => {NOTES}.length === 1", timeout=2000)
        tab.close()


def test_two_tabs_share_one_state(survey, browser, tmp_path):
    """Each tab shows the decisions of the other, and simultaneous decisions of both are kept."""
    job = tmp_path / "tabs.outcrop"
    with server(survey, "-o", job, "--size", SIZE) as (address, _):
        one, two = Tab(browser, address), Tab(browser, address)
        one.exemplar("fault", 377, 316)
        two.page.wait_for_selector(".class[data-name='fault']")
        two.page.wait_for_function(f"() => {NOTES}.length === 1")
        two.model("tool", "m.active = 1")
        one.click(340, 200)
        two.click(400, 300)
        one.click(360, 200)
        two.click(420, 300)
        for tab in (one, two):
            tab.page.wait_for_function(f"() => {NOTES}.length === 5")
        assert len(state(job).exemplars) == 5
        two.page.locator(".card button.remove").first.click()
        one.page.wait_for_function(f"() => {NOTES}.length === 4")
        one.close()
        two.close()
    assert len(state(job).exemplars) == 4


def test_brush_keys_and_views(survey, browser, tmp_path):
    """The brush paints along the drag, keys undo, every direction shows its axes, and a class name cannot be markup."""
    job = tmp_path / "brush.outcrop"
    with server(survey, "-o", job, "--size", SIZE) as (address, _):
        tab = Tab(browser, address)
        tab.exemplar("fault", 377, 316)
        tab.step("3 Labels")
        tab.paint("fault", (350, 200), (380, 260))
        painted = state(job).strokes
        assert [one["class"] for one in painted] == ["fault"]
        traces = [trace for _, trace, _ in painted[0]["points"]]
        assert abs(min(traces) - 350) <= 1 and abs(max(traces) - 380) <= 1
        tab.page.keyboard.press("Control+z")
        tab.wait_model("painted", "m.data_source.data.image.length === 0")
        assert state(job).strokes == []
        tab.step("4 Results")  # this step selects the tool Navigate
        tab.wait_model("tool", "m.active === 0")
        tab.step("3 Labels")
        tab.press("b")  # immediately after the change of step
        tab.page.wait_for_timeout(1500)
        tab.wait_model("tool", "m.active === 2")
        for name, down in (("crossline", "time (ms)"), ("time", "inline")):
            tab.page.get_by_text(name, exact=True).first.click()
            tab.wait_model("section", f"m.title.text.startsWith('{name}') && m.left[0].axis_label === '{down}'")
        tab.step("1 Exemplars")
        tab.page.locator(".class.add input").fill("<img src=x onerror=alert(1)>")
        tab.page.locator(".class.add button").click()
        tab.wait_message("not a class name")
        assert list(state(job).classes) == ["fault"]
        tab.close()


def test_choose_a_volume_and_show_it_in_a_frame(survey, browser, tmp_path, monkeypatch):
    """Without an argument the page offers the volumes of the folder; the page also works in the frame of a notebook."""
    monkeypatch.chdir(survey.parent)
    with server("-o", tmp_path / "chosen.outcrop", "--size", SIZE) as (address, _):
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("button", name="survey.sgy").click()
        page.wait_for_selector(".class.add")
        page.close()
    explorer = oc.explore(survey, job=tmp_path / "frame.outcrop", size=SIZE)
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.set_content(explorer._repr_html_())
    page.frame_locator("iframe").locator(".class.add input").fill("fault")
    page.frame_locator("iframe").locator(".class.add button").click()
    page.frame_locator("iframe").locator(".class[data-name='fault']").wait_for()
    assert list(explorer.session.job.palette) == ["fault"]
    page.close()
    explorer.close()


def test_sticks_are_picked_and_accepted(survey, browser, tmp_path):
    """Sticks of the line in view appear, a click chooses one, and accepting it draws its outline."""
    with server(survey, "-o", tmp_path / "sticks.outcrop", "--size", SIZE) as (address, _):
        tab = Tab(browser, address)
        tab.line(112)
        tab.exemplar("fault", 420, 560)
        tab.step("5 Geology")
        tab.page.get_by_text("Navigate", exact=True).click()
        tab.wait_model("sticks", "m.data_source.data.xs.length > 1")
        xs, ys = (tab.model("sticks", f"m.data_source.data.{name}[0]") for name in ("xs", "ys"))
        tab.page.wait_for_timeout(300)
        tab.click(xs[len(xs) // 2], ys[len(ys) // 2])
        tab.wait_model("chosen-stick", "m.data_source.data.xs.length === 1")
        tab.page.get_by_text("✓ Accept").click()
        tab.model("sticks-class", "m.value = 'fault'")
        tab.wait_model("stick-outlines", "m.data_source.data.xs.length === 1")
        tab.close()


def test_verdicts_on_sticks_while_lines_follow(browser, tmp_path):
    """A stick that is chosen while other lines are updated stays chosen, and the next click gives it a verdict."""
    job, line = tmp_path / "faults.outcrop", 104
    datasets.write_synthetic(tmp_path / "faults.sgy", (10, 200, 200), seed=0)
    with oc.Job(job, volume=tmp_path / "faults.sgy") as notebook:
        notebook.index(48, step=24)
        notebook.add_exemplar("fault", (line, 440, 560))
        notebook.add_exemplar("other", (line, 340, 120))
        for name, trace in (("fault", 441), ("fault", 464), ("other", 416), ("other", 490)):
            notebook.paint(name, [(line, trace - 5, 320), (line, trace + 5, 790)], radius=9)
        notebook.label(lines=[102, 103, line, 105, 106])
    before = len(state(job).strokes)
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(line)
        tab.step("5 Geology")
        tab.model("sticks-class", "m.value = 'fault'")
        tab.wait_model("sticks", "m.data_source.data.xs.length > 1")
        xs, ys = (tab.model("sticks", f"m.data_source.data.{name}") for name in ("xs", "ys"))
        for number, (choice, verdict) in enumerate((("accept", "✓ Accept"), ("reject", "✕ Reject"))):
            at = len(xs[number]) // 2
            tab.page.wait_for_timeout(400)  # two fast clicks would be a double click
            tab.click(xs[number][at], ys[number][at])
            tab.wait_model("chosen-stick", "m.data_source.data.xs.length === 1")
            if choice == "reject":  # meanwhile the other lines are updated
                tab.wait_model("changed", "m.text.includes('again after')")
                tab.wait_model(
                    "changed", "!m.text.includes('again after') && !m.text.includes('learning')", timeout=200_000
                )
                assert tab.model("chosen-stick", "m.data_source.data.xs.length") == 1
            tab.page.get_by_text(verdict).click()
            tab.wait_model("chosen-stick", "m.data_source.data.xs.length === 0")
        tab.close()
    added = state(job).strokes[before:]
    verdicts = [(one["what"], one["class"], one.get("stick")) for one in added]
    assert verdicts == [("stroke", "fault", True), ("exclude", "fault", True)]
