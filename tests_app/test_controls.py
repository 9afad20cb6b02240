"""The controls of the page in a real browser: brush, keys, legend, gallery, restart of the server, small screens."""

import shutil
import signal

import numpy as np
import pytest
from tab import CHROMIUM, NOTES, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.plots.colours import COLOURS

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SIZE = 40
SCREENS = [(1440, 900), (1000, 700)]
PLACES = {"fault": (116, 397, 416), "other": (116, 435, 100), "chaotic": (116, 330, 240)}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Return the path of a job with three classes, retrieved patches and two labelled lines."""
    folder = tmp_path_factory.mktemp("labelled")
    datasets.write_synthetic(folder / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(folder / "job.outcrop", volume=folder / "survey.sgy") as job:
        job.choose_index(size=SIZE)
        for name, place in PLACES.items():
            job.add_exemplar(name, place)
        job.retrieve(count=30)
        job.label([116, 117])
    return folder / "job.outcrop"


@pytest.fixture
def job(labelled, tmp_path):
    """Return the path of a copy that a test may change."""
    return shutil.copytree(labelled, tmp_path / "job.outcrop")


def codes(tab, name):
    """Return the samples of a picture that are not 0, as (trace, time) in survey labels."""
    found = tab.model(
        name,
        """(() => { const d = m.data_source.data, out = [];
        if (!d.image.length) return out;
        const [rows, columns] = d.image[0].shape;
        d.image[0].forEach((code, i) => { if (code) out.push([
          d.x[0] + (i % columns + .5) * d.dw[0] / columns,
          d.y[0] + (Math.floor(i / columns) + .5) * d.dh[0] / rows]); });
        return out; })()""",
    )
    return {(round(x), round(y)) for x, y in found}


@pytest.mark.parametrize("screen", SCREENS)
def test_the_brush_paints_the_samples_of_its_preview(job, browser, screen):
    """With keys: the outline has the size of the brush, and the samples of the preview are painted."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.press("b", "2", "]", "]")
        tab.wait_model("tool", "m.active === 2")
        tab.wait_model("radius", "m.value === 6")
        tab.wait_model("brush-class", "m.value === 'other'")
        tab.page.mouse.move(*tab.pixel(350, 200))
        tab.wait_model("cursor", "m.data_source.data.x[0] === 350 && m.data_source.data.y[0] === 200")
        assert tab.model("cursor", "[m.data_source.data.width[0], m.data_source.data.height[0]]") == [13, 52]
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(380, 320), steps=5)
        tab.page.mouse.move(*tab.pixel(372, 320), steps=3)
        preview = codes(tab, "preview")
        tab.page.mouse.up()
        tab.wait_model("painted", "m.data_source.data.image.length === 1")
        assert codes(tab, "painted") == preview and len(preview) > 400
        tab.wait_model("preview", "m.data_source.data.image.length === 0")
        tab.press("s")
        tab.wait_model("painted", "!m.visible")
        # with the brush selected, holding Space pans, the wheel zooms, and nothing is painted
        before = tab.model("section", "m.x_range.start")
        tab.page.keyboard.down("Space")
        tab.drag((380, 300), (360, 300))
        tab.page.keyboard.up("Space")
        tab.wait_model("section", f"Math.abs(m.x_range.start - {before} - 20) < 2")
        tab.page.mouse.wheel(0, -600)
        tab.wait_model("section", "m.x_range.end - m.x_range.start < 150")
        # another step selects the tool Navigate
        tab.step("4 Results")
        tab.wait_model("tool", "m.active === 0")
        tab.drag((380, 300), (390, 300))
        assert len(oc.Job(job).plan.state.strokes) == 1
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_keys_work_outside_input_fields(job, browser, screen):
    """Keys select tools and classes, change lines and undo; keys typed into a field are text."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.press("p", "3")
        tab.wait_model("tool", "m.active === 1")
        tab.page.wait_for_selector(".class.selected[data-name='chaotic']")
        tab.click(360, 300)
        tab.page.wait_for_function("() => Bokeh.documents[0].get_model_by_name('status').text === 'Ready.'")
        tab.page.locator(".class[data-name='chaotic'] .count", has_text="2 exemplars").wait_for()
        tab.press("Control+z")
        tab.page.locator(".class[data-name='chaotic'] .count", has_text="1 exemplar").wait_for()
        tab.page.locator(".class.add input").click()
        tab.page.keyboard.type("bright lobes [?]")
        assert tab.page.locator(".class.add input").input_value() == "bright lobes [?]"
        assert tab.model("tool", "m.active") == 1 and not tab.page.locator("#key-list").is_visible()
        tab.page.locator(".class.add input").fill("")
        tab.page.get_by_role("button", name="Keys").click()
        tab.page.locator("#key-list").wait_for()
        for key, says in (("r", "right"), ("w", "wrong"), ("e", "erase")):
            tab.press(key)
            tab.wait_model("brush-class", f"m.value === '{says}'")
        if tab.page.locator("#key-list").is_visible():  # it covers the section of a small window
            tab.page.locator("#key-list").click()
        tab.page.mouse.move(*tab.pixel(380, 300))
        tab.page.mouse.wheel(0, -600)
        tab.wait_model("section", "m.x_range.end - m.x_range.start < 150")
        tab.press("f")
        tab.wait_model("section", "m.x_range.end - m.x_range.start > 159")
        tab.press("l", "ArrowRight")
        tab.wait_model("section", "m.title.text === 'inline 117'")
        tab.wait_model("tool", "m.active === 0")
        tab.press("o")
        tab.wait_model("labels", "!m.visible")
        tab.press("o")
        tab.wait_model("labels", "m.visible")
        tab.close()


def chosen(tab):
    """Return the choices of the view."""
    found = {name: tab.model(name, "m.value") for name in ("gain", "exaggeration", "radius", "brush-class")}
    found |= {name: tab.model(name, "m.active") for name in ("scheme", "polarity", "overlay", "tool")}
    found["shown"] = [eye.get_attribute("aria-pressed") for eye in tab.page.locator(".layer .eye").all()]
    found["sliders"] = [slider.input_value() for slider in tab.page.locator(".layer input").all()]
    found["palette"] = tab.model("amplitudes", "m.glyph.color_mapper.palette[200]")
    found["alpha"] = tab.model("labels", "m.glyph.global_alpha.value")
    found["section"] = tab.model("section", "m.title.text")
    found["zoom"] = [round(end) for end in tab.model("section", "[m.x_range.start, m.x_range.end, m.y_range.start]")]
    found["hidden"] = tab.page.locator(".chip.hidden").all_inner_texts()
    found["bar"] = tab.model("colour-bar", "m.visible")
    return found


def test_the_view_survives_a_reload_and_a_restart(job, browser):
    """The choices and the address are restored, and an open tab continues by itself after a restart of the server."""
    with server(job) as (address, process):
        tab = Tab(browser, address)
        tab.line(117)
        tab.press("b", "w")
        tab.wait_model("tool", "m.active === 2")
        tab.wait_model("brush-class", "m.value === 'wrong'")
        tab.model("scheme", "m.active = 1")
        tab.model("gain", "m.value = 2.5")
        tab.page.get_by_label("Opacity of labels").fill("0.6")
        tab.model("radius", "m.value = 9")
        tab.page.get_by_role("button", name="confidence", exact=True).click()
        tab.page.locator(".chip", has_text="fault").click()
        tab.page.locator(".chip.hidden").wait_for()
        tab.page.mouse.move(*tab.pixel(380, 300))
        tab.page.mouse.wheel(0, -500)
        tab.wait_model("section", "m.x_range.end - m.x_range.start < 150")
        tab.page.wait_for_timeout(800)
        before = chosen(tab)
        assert before["bar"] and before["hidden"] and before["alpha"] == 0.6
        assert (before["tool"], before["brush-class"]) == (2, "wrong")
        tab.page.reload()
        tab.ready()
        tab.wait_model("colour-bar", "m.visible")
        tab.page.locator(".chip.hidden").wait_for()
        assert chosen(tab) == before
        process.send_signal(signal.SIGKILL)
        tab.page.wait_for_selector("#connection-lost", state="visible", timeout=30_000)
        assert "this page then continues by itself" in tab.page.locator("#connection-lost").inner_text()
    with server(job) as (again, _):
        assert again == address
        tab.page.wait_for_selector("#connection-lost", state="hidden", timeout=60_000)
        tab.ready()
        tab.wait_model("colour-bar", "m.visible")
        tab.page.locator(".chip.hidden").wait_for()
        assert chosen(tab) == before
        with server(job) as (other, _):  # a second server at the same time has another address
            assert other != address
        tab.page.close()
    assert not tab.foreign and not [text for text in tab.errors if "WebSocket" not in text and "ERR_" not in text]


@pytest.mark.parametrize("screen", SCREENS)
def test_labels_shares_limit_and_changes(job, browser, screen):
    """The page shows shares of classes, hides classes, logs the minimum confidence, and shows changed labels."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.step("3 Labels")
        shares = [text.split()[-2] for text in tab.page.locator(".chip").all_inner_texts()]
        assert abs(sum(map(float, shares)) - 100) < 0.2
        tab.page.locator(".chip", has_text="chaotic").click()
        tab.wait_model("labels", "m.glyph.color_mapper.palette[3] === '#00000000'")
        tab.page.locator(".chip", has_text="chaotic").click()
        tab.wait_model("labels", "m.glyph.color_mapper.palette[3] !== '#00000000'")
        # releasing the slider logs the limit in the job
        box = tab.page.locator(".noUi-target:visible").nth(2).bounding_box()
        tab.page.mouse.move(box["x"] + 1, box["y"] + box["height"] / 2)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2, steps=5)
        tab.page.mouse.up()
        tab.step("4 Results")
        tab.wait_model("commands", "m.text.includes('--min-confidence')")
        limit = oc.Job(job).plan.state.options["limits"]["min_confidence"]
        assert 0.4 < limit < 0.6
        tab.wait_model("lines", f"m.text.includes('below {round(100 * limit)} % confidence')")
        tab.wait_model("lines", f"m.text.includes('chaotic {COLOURS['chaotic']}')")
        tab.page.locator(".chip:disabled", has_text="uncertain").wait_for()
        shares = [text.split()[-2] for text in tab.page.locator(".chip").all_inner_texts()]
        assert abs(sum(map(float, shares)) - 100) < 0.25
        labels = oc.Job(job).labels.sel(inline=116)
        shown = np.reshape(tab.model("labels", "Array.from(m.data_source.data.image[0])"), (160, 160)).T > 0
        certain, near = (labels["label"] < 255).values, np.abs(labels["confidence"].values - 255 * limit) <= 1
        assert 0 < certain.mean() < 1 and (shown == certain)[~near].all()  # the page has 8 bits of confidence
        tab.press("Control+z")
        tab.wait_model("confidence", "m.value === 0")
        # after a stroke: show the changes, and the labels before it while C is held
        before = tab.model("labels", "Array.from(m.data_source.data.image[0])")
        tab.step("3 Labels")
        tab.page.get_by_role("button", name="changes", exact=True).click()
        tab.wait_model("share", "m.text.includes('no changes to show')")
        tab.page.get_by_role("button", name="all labels", exact=True).click()
        tab.wait_model("share", "m.text.includes('above the minimum confidence')")
        tab.paint("other", (320, 240), (345, 240))
        tab.wait_model("changed", "m.text.includes('the last correction changed')")
        now = tab.model("labels", "Array.from(m.data_source.data.image[0])")
        tab.page.keyboard.down("c")
        assert tab.model("labels", "Array.from(m.data_source.data.image[0])") == before
        tab.page.keyboard.up("c")
        assert tab.model("labels", "Array.from(m.data_source.data.image[0])") == now
        tab.page.get_by_role("button", name="changes", exact=True).click()
        seen = np.array(tab.model("labels", "Array.from(m.data_source.data.image[0])"))
        np.testing.assert_array_equal(seen > 0, np.array(now) != np.array(before))
        assert (seen > 0).any()
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_class_that_vanishes_is_reported(job, browser, screen):
    """A class that is painted over is marked in the legend with its earlier share; undo clears the warning."""
    with oc.Job(job) as notebook:
        notebook.paint("fault", [(116, 300, 0), (116, 459, 0), (116, 459, 636), (116, 300, 636)], filled=True)
        notebook.paint("chaotic", [(116, 360, 300), (116, 390, 300)], radius=6)  # the only other class of the line
        notebook.label([116])
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.press("b", "1")
        tab.wait_model("brush-class", "m.value === 'fault'")
        tab.wait_model("radius", "m.value === 4")
        for _ in range(6):
            tab.press("]")
        tab.wait_model("radius", "m.value === 10")
        tab.drag((352, 300), (398, 300))
        tab.page.locator(".chip.warning", has_text="chaotic 0.0 % (was").wait_for()
        tab.wait_model("changed", "m.text.includes('chaotic nearly vanished')")
        tab.press("Control+z")
        tab.page.locator(".chip.warning").wait_for(state="detached")
        tab.close()


def test_shares_across_lines(job, browser):
    """On crosslines and time slices, the legend shows the shares of the labels in view."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        for direction in ("crossline", "time"):
            tab.page.get_by_text(direction, exact=True).first.click()
            tab.wait_model("section", f"m.title.text.startsWith('{direction}')")
            tab.page.locator(".chip", has_text="%").first.wait_for()
            shares = [float(text.split()[-2]) for text in tab.page.locator(".chip").all_inner_texts()]
            codes = np.array(tab.model("labels", "Array.from(m.data_source.data.image[0])"))
            expected = [100 * (codes == code).sum() / (codes > 0).sum() for code in (1, 2, 3)]
            np.testing.assert_allclose(shares, expected, atol=0.06)  # one decimal
        tab.close()


def shown(tab):
    """Return the label codes in the browser, shape (n_traces, n_samples)."""
    tab.wait_model("labels", "m.data_source.data.image.length === 1")
    return np.reshape(tab.model("labels", "Array.from(m.data_source.data.image[0])"), (160, 160)).T


def wait_learnt(tab, strokes):
    """Wait until the mapping has learnt from a number of strokes, and other lines are updated."""
    done = ["'learning'", "'again after'", "'stale'"]
    done = " && ".join(f"!m.text.includes({word})" for word in done)
    tab.wait_model("changed", f"m.text.includes('strokes painted: {strokes}') && {done}")


def test_a_stroke_teaches_at_once(job, browser):
    """A stroke changes its line, then the mapping learns, other lines are updated, and undo restores all labels."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.press("b", "3")
        tab.wait_model("brush-class", "m.value === 'chaotic'")
        before = shown(tab)
        tab.drag((420, 120), (440, 120))
        tab.drag((420, 500), (440, 500))  # a second stroke while the mapping learns from the first
        tab.wait_model("changed", "m.text.includes('learning')")
        wait_learnt(tab, 2)
        tab.wait_model("changed", "m.text.includes('the last correction changed')")
        with oc.Job(job) as notebook:
            np.testing.assert_array_equal(shown(tab), notebook.labels["label"].sel(inline=116).values)
            assert notebook.labelled == {16: False, 17: False}
        assert (shown(tab)[115:146, 29:32] == 3).all() and (shown(tab) != before).sum() > 400
        tab.page.keyboard.down("c")
        np.testing.assert_array_equal(shown(tab), before)
        tab.page.keyboard.up("c")
        tab.press("Control+z", "Control+z")
        tab.wait_model("changed", "!m.text.includes('strokes') && !m.text.includes('learning')")
        np.testing.assert_array_equal(shown(tab), before)
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_lines_outlines_and_wrong_labels(job, browser, screen):
    """A line of two points, a filled outline of clicks; samples marked wrong are striped and get another label."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.press("t", "1")
        tab.wait_model("tool", "m.active === 3")
        tab.wait_model("radius", "m.value === 1")
        tab.drag((340, 300), (350, 400))
        tab.wait_model("painted", "m.data_source.data.image.length === 1")
        tab.press("u", "2")
        tab.wait_model("tool", "m.active === 4")
        tab.wait_model("brush-class", "m.value === 'other'")
        for corner in ((400, 300), (430, 300)):
            tab.click(*corner)
            tab.page.wait_for_timeout(350)
        tab.press("Escape")  # discarded
        tab.wait_model("preview", "m.data_source.data.image.length === 0")
        line = codes(tab, "painted")
        for corner in ((400, 300), (430, 320), (420, 400), (405, 420)):
            tab.click(*corner)
            tab.page.wait_for_timeout(350)  # two fast clicks would be a double click
        preview = codes(tab, "preview")
        tab.press("Enter")
        tab.wait_model("preview", "m.data_source.data.image.length === 0")
        assert codes(tab, "painted") == line | preview and len(preview) > 300
        tab.press("w")
        tab.wait_model("brush-class", "m.value === 'wrong'")
        was = shown(tab)[100:120, 20:25]
        tab.drag((400, 80), (420, 80), (420, 100), (400, 100))
        wait_learnt(tab, 2 + len(np.unique(was)))
        strokes = oc.Job(job).plan.state.strokes
        assert [one.get("filled", False) for one in strokes[:2]] == [False, True]
        assert len(strokes[0]["points"]) == 2 and strokes[0]["radius"] == 1
        assert {one["what"] for one in strokes[2:]} == {"exclude"}
        assert not (shown(tab)[100:120, 20:25] == was).any()
        assert len({place for place in codes(tab, "painted") if place[1] <= 100}) > 30  # stripes
        tab.close()


def test_strokes_do_not_cover_other_views(job, browser):
    """Strokes are filled over labels, and outlines over confidence, changes and the right side of a swipe."""
    with oc.Job(job) as notebook:
        notebook.paint("chaotic", [(116, 340, 300), (116, 420, 300)], radius=6)
        notebook.label([116])
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        tab.step("3 Labels")
        tab.wait_model("painted", "m.data_source.data.image.length === 1")
        filled = codes(tab, "painted")
        rim = {(x, y) for x, y in filled if not {(x - 1, y), (x + 1, y), (x, y - 4), (x, y + 4)} <= filled}
        assert len(rim) < len(filled) / 3
        for view, back in (("confidence", "confidence"), ("changes", "all labels")):
            tab.page.get_by_role("button", name=view, exact=True).click()
            tab.page.wait_for_timeout(300)
            assert codes(tab, "painted") == rim
            tab.page.get_by_role("button", name=back, exact=True).click()
            tab.page.wait_for_timeout(300)
            assert codes(tab, "painted") == filled
        tab.page.get_by_text("Swipe", exact=True).click()
        tab.wait_model("cut", "m.visible")
        tab.page.wait_for_timeout(300)
        at = tab.model("cut", "m.location")
        assert codes(tab, "painted") == rim | {(x, y) for x, y in filled if x < at}
        tab.page.get_by_text("Mine", exact=True).click()
        colours = tab.model("painted", "m.glyph.color_mapper.palette.length")
        tab.page.locator(".chip", has_text="chaotic").click()
        tab.wait_model("painted", "m.glyph.color_mapper.palette[3] === '#00000000'")
        assert tab.model("painted", "m.glyph.color_mapper.palette.length") == colours
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_key_goes_to_the_next_uncertain_place(job, browser, screen):
    """N goes to an uncertain place, N again to another place; both are marked as seen."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.step("3 Labels")
        tab.page.locator(".card", has_text="% sure").first.wait_for()
        seen = []
        for number in (1, 2):
            tab.press("n")
            tab.page.wait_for_function(
                f"() => {NOTES}.filter((one) => one.textContent.includes('seen')).length === {number}"
            )
            notes = tab.page.locator(".card .note", has_text="seen").all_inner_texts()
            assert all(note.startswith("inline 11") for note in notes)  # a truncated text keeps the number
            seen.append(
                [
                    tab.model("section", "m.title.text"),
                    *tab.model("marked", "[m.data_source.data.x[0], m.data_source.data.y[0]]"),
                ]
            )
        assert seen[0] != seen[1] and {title for title, *_ in seen} <= {"inline 116", "inline 117"}
        tab.close()


def gallery(tab):
    """Return the places of the patches of the gallery, in order."""
    return tab.page.locator(".card:has(button.accept) .note").all_inner_texts()


def ranks(tab):
    """Return the ranks of the patches of the gallery, in order."""
    titles = tab.page.locator(".card:has(button.accept) .line span").all_inner_texts()
    return [int(title.split(".")[0]) for title in titles]


@pytest.mark.parametrize("screen", SCREENS)
def test_the_gallery_keeps_its_order_and_lists_rejected_patches(job, browser, screen):
    """Verdicts mark patches without sorting them, rejections can be cleared, and number and size can be chosen."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.step("2 Retrieved")
        tab.page.locator(".card button.accept").first.wait_for()
        before = gallery(tab)
        assert ranks(tab) == list(range(1, 25))
        tab.page.locator(".card button.accept").nth(7).click()
        tab.page.wait_for_selector(".card.accepted")
        tab.page.locator(".card button.reject").nth(2).click()
        tab.page.wait_for_selector(".card.rejected")
        tab.wait_model("gallery-note", "m.text.includes('re-rank to see')")
        assert gallery(tab) == before
        tab.page.get_by_role("button", name="Re-rank").click()
        accepted, rejected = before[7], before[2]
        for _ in range(600):  # the order follows a ranking that may still run
            after = gallery(tab)
            if after[0] == accepted and rejected not in after:
                break
            tab.page.wait_for_timeout(100)
        assert after[0] == accepted and rejected not in after
        tab.page.get_by_role("button", name="rejected (1)").click()
        tab.page.locator(".card.rejected button.reject").click()
        tab.wait_model("gallery-note", "!m.text.includes('rejected')")
        assert [one.accept for one in oc.Job(job).plan.state.verdicts] == [True]
        tab.page.get_by_role("button", name="rejected (0)").click()
        # choose the number of patches
        tab.page.get_by_role("button", name="suggested").click()
        tab.wait_model("suggested", "m.disabled")
        tab.model("count", "m.value = 12")
        tab.wait_model("suggested", "!m.disabled")
        tab.wait_model("gallery-note", "m.text.includes('of 12')")
        # choose the patch size
        tab.step("1 Exemplars")
        tab.page.locator("input[type=text]:visible").last.fill("32,48")
        tab.page.keyboard.press("Enter")
        tab.wait_model("size-note", "m.text.includes('32 samples (128 ms) by 48 traces')")
        assert oc.Job(job).plan.size == (32, 48)
        tab.step("2 Retrieved")
        tab.wait_model("gallery-note", "m.text.includes('from older decisions')")
        tab.close()
    with server(job) as (address, _):  # after a restart, the patches are shown as stale
        tab = Tab(browser, address, screen)
        tab.wait_model("gallery-note", "m.text.includes('from older decisions')")
        assert len(gallery(tab)) == 12
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_exemplars_are_drawn_and_placed_across_lines(job, browser, screen):
    """Crosslines and time slices show the boxes of exemplars that cross them; a click places an exemplar."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        for direction, at, boxes in ((1, "397", 1), (2, "240", 1), (2, "600", 0)):
            tab.model("direction", f"m.active = {direction}")
            tab.wait_model("section", f"m.title.text.startsWith('{('inline', 'crossline', 'time')[direction]}')")
            tab.page.locator("input[type=text]").first.fill(at)
            tab.press("Enter")
            tab.wait_model("section", f"m.title.text.includes('{at}')")
            tab.wait_model("exemplar-boxes", f"m.data_source.data.x.length === {boxes}")
        tab.press("p")
        tab.wait_model("tool", "m.active === 1")
        tab.click(380, 110)
        tab.wait_message("The exemplar lies on inline 110")
        assert oc.Job(job).plan.state.exemplars[-1].place == (110, 380, 600)
        tab.close()


def test_a_time_slice_of_one_line_is_visible(browser, tmp_path):
    """A volume of one line fills the screen in every direction."""
    np.save(tmp_path / "line.npy", np.random.default_rng(0).normal(size=(1, 120, 100)).astype("f4"))
    with server(tmp_path / "line.npy", "-o", tmp_path / "line.outcrop", "--size", 32) as (address, _):
        tab = Tab(browser, address)
        tab.model("direction", "m.active = 2")
        tab.wait_model("section", "m.left[0].axis_label === 'inline'")
        tab.wait_model("amplitudes", "m.data_source.data.image[0].shape[0] === 1")
        top, bottom = tab.pixel(60, -0.5)[1], tab.pixel(60, 0.5)[1]
        assert abs(bottom - top) > 300
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_overlaps(job, browser, screen):
    """In every step no control covers another or lies outside the window."""
    with server(job) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        for step in ("1 Exemplars", "2 Retrieved", "3 Labels", "4 Results", "5 Geology"):
            tab.step(step)
            tab.page.wait_for_timeout(400)
            boxes = tab.page.evaluate(
                """() => { const out = []; (function all(root) { for (const one of root.querySelectorAll("*")) {
                  if (one.matches("button.bk-btn, .noUi-base, input.bk-input, select.bk-input, .chip")) {
                    const b = one.getBoundingClientRect();
                    if (b.width && one.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
                      out.push([one.textContent || one.className, b.left, b.top, b.right, b.bottom]);
                  }
                  if (one.shadowRoot) all(one.shadowRoot); } })(document); return out; }"""
            )  # fmt: skip
            boxes = [box for box in boxes if box[4] < screen[1]]  # controls below this are reached by scrolling
            assert len(boxes) > 10
            for i, (name, left, top, right, bottom) in enumerate(boxes):
                assert left >= 0 and right <= screen[0] + 1, (step, name)
                for other, left2, top2, right2, bottom2 in boxes[:i]:
                    apart = right <= left2 + 1 or right2 <= left + 1 or bottom <= top2 + 1 or bottom2 <= top + 1
                    assert apart, (step, name, other)
        height = tab.pixel(380, 636)[1] - tab.pixel(380, 0)[1]
        assert height > 0.5 * screen[1]  # most of the screen is the section
        tab.close()


def test_an_interrupted_labelling_of_the_survey_is_reported(job, browser):
    """After the server was killed, the page shows the progress, and labelling the survey again completes it."""
    with server(job) as (address, process):
        tab = Tab(browser, address)
        tab.step("3 Labels")
        tab.page.get_by_role("button", name="Label the survey").click()
        tab.wait_model("changed", "/([4-9]|1[0-9]) of 30 lines labelled/.test(m.text)", timeout=200_000)
        process.kill()
        process.wait()
        tab.page.close()
    with oc.Job(job) as notebook:
        done = len(notebook.labelled)
    assert 2 < done < 30
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.wait_model(
            "status", f"m.text.includes('interrupted: {done} of 30 lines are labelled. Label the survey to continue')"
        )
        tab.step("3 Labels")
        tab.page.get_by_role("button", name="Label the survey").click()
        tab.wait_model("changed", "m.text.includes('30 of 30 lines labelled')", timeout=200_000)
        tab.wait_model("status", "m.text === 'Ready.'")
        tab.close()
