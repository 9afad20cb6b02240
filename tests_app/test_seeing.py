"""The first minute on a volume, warnings, and the display of a section, in a real browser."""

import re

import numpy as np
import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.geometry.coordinates import map_grid

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]
STEPS = ("1 Exemplars", "2 Retrieved", "3 Labels", "4 Results", "5 Geology")
LAYERS = ["seismic", "fault sticks", "labels", "confidence", "exemplars", "strokes", "tops"]


@pytest.fixture
def survey(tmp_path):
    """Return the path of a small survey with expert labels."""
    datasets.write_synthetic(tmp_path / "survey.sgy", (30, 160, 160), seed=0)
    return tmp_path / "survey.sgy"


def scale(tab, name="section"):
    """Return the vertical exaggeration: pixels per sample divided by pixels per trace."""
    return tab.model(
        name,
        "(m.inner_height / (m.y_range.start - m.y_range.end) * Math.abs(m.tags[0].axes[1].step))"
        " / (m.inner_width / (m.x_range.end - m.x_range.start) * Math.abs(m.tags[0].axes[0].step))",
    )


def settled(tab):
    """Wait until the vertical exaggeration is locked."""
    tab.wait_model("exaggeration", "m.settled")


@pytest.mark.parametrize("screen", SCREENS)
def test_an_opened_volume_shows_sticks_and_layers(survey, browser, screen):
    """Sticks appear without a click; every step has the eyes and opacities of all layers, and a minimum likelihood."""
    with server(survey, "--size", 40, folder=survey.parent) as (address, _):
        tab = Tab(browser, address, screen)
        tab.wait_model("sticks", "m.data_source.data.xs.length > 1")
        count = tab.model("sticks", "m.data_source.data.xs.length")
        group = tab.page.get_by_role("group", name="Layers")
        for step in STEPS:
            tab.step(step)
            assert group.get_by_role("button").all_inner_texts() == LAYERS
            assert group.get_by_role("button", name="fault sticks").is_visible()
        eye = group.get_by_role("button", name="fault sticks")
        eye.click()
        tab.wait_model("sticks", "!m.visible")
        assert eye.get_attribute("aria-pressed") == "false"
        eye.press("Enter")
        tab.wait_model("sticks", "m.visible")
        group.get_by_role("slider", name="Opacity of fault sticks").fill("0.4")
        tab.wait_model("sticks", "m.glyph.line_alpha.value === 0.4")
        group.get_by_role("slider", name="Opacity of seismic").press("ArrowLeft")
        tab.wait_model("amplitudes", "m.glyph.global_alpha.value === 0.95")
        likelihood = group.get_by_role("slider", name="Minimum likelihood of fault sticks")
        likelihood.fill("1")
        tab.wait_model("sticks", "m.data_source.data.xs.length === 0")
        likelihood.fill("0.4")
        tab.wait_model("sticks", f"m.data_source.data.xs.length === {count}")
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_shows_the_next_step_and_its_reason(survey, browser, screen):
    """The guide leads from a class to labels, in one line at any size of the window."""
    with server(survey, "--size", 40, folder=survey.parent) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        guide = tab.page.get_by_role("status").first
        assert "Add a class" in guide.inner_text()
        tab.exemplar("salt dome", 330, 520)
        tab.wait_model("guide", "m.text.includes('add a class for everything else')")
        assert "salt dome&#x27; is the only class" in tab.model("class-warnings", "m.text")
        tab.exemplar("fault", 397, 416)
        tab.wait_model("guide", "m.text.includes('every sample becomes')")
        assert "every sample becomes" in tab.model("class-warnings", "m.text")
        tab.exemplar("other", 435, 100)
        tab.wait_model("guide", "m.text.includes('Label this line')")
        tab.wait_model("class-warnings", "!m.visible")
        assert guide.bounding_box()["height"] < 25
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_warnings_are_shown_next_to_their_cause_until_it_is_removed(survey, browser, screen):
    """Warnings: a class that covers nothing, exemplars like another class, different names in expert labels."""
    with oc.Job(survey.parent / "job.outcrop", volume=survey) as job:
        job.choose_index(size=40)
        job.add_exemplar("salt", (116, 330, 520))
        job.add_exemplar("other", (116, 435, 100))
        job.paint("gas", [(125, 440, 40)], radius=2)
        job.add_class("mud")
        job.label([116])
    with server(survey.parent / "job.outcrop", "--truth", survey.with_suffix(".truth.sgy")) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.wait_model("section-warnings", "m.text.includes('mud&#x27; covers nothing of inline 116')")
        tab.wait_model("class-warnings", "m.text.includes('look more like') || m.text.includes('looks more like')")
        tab.wait_model("expert-warnings", "m.text.includes('The expert calls salt') && m.text.includes('No label')")
        with oc.Job(survey.parent / "job.outcrop") as job:
            job.rename_class("salt", "salt dome")
            job.remove_class("gas")
            job.remove_class("mud")
            job.label([116])
        tab.wait_model("section-warnings", "!m.visible")
        tab.wait_model("class-warnings", "!m.visible")
        tab.wait_model("expert-warnings", "!m.text.includes('calls salt')")
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_vertical_exaggeration_is_locked(survey, browser, screen):
    """Zoom, a resized window, linked views and Fit keep the exaggeration; a choice sets it."""
    with server(survey, "--size", 40, folder=survey.parent) as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        settled(tab)
        locked = pytest.approx(scale(tab), rel=0.01)
        tab.page.mouse.move(*tab.pixel(380, 300))
        tab.page.mouse.wheel(0, -400)
        tab.wait_model("section", "m.x_range.end - m.x_range.start < 120")
        assert scale(tab) == locked
        tab.page.set_viewport_size({"width": screen[0] - 150, "height": screen[1] + 80})
        tab.page.wait_for_timeout(1500)
        assert scale(tab) == locked
        tab.press("v")
        tab.wait_model("linked-1", "m.inner_width > 0 && m.title.text.startsWith('crossline')")
        tab.page.wait_for_timeout(1500)
        assert scale(tab) == locked and scale(tab, "linked-1") == locked
        tab.press("f")
        tab.page.wait_for_timeout(500)
        assert scale(tab) == locked and tab.model("section", "m.x_range.end - m.x_range.start") >= 160
        tab.page.get_by_label("exaggeration").select_option("↕ 0.5 : 1")
        tab.page.wait_for_timeout(500)
        assert scale(tab) == pytest.approx(0.5, rel=0.01) and scale(tab, "linked-1") == pytest.approx(0.5, rel=0.01)
        assert tab.model("section", "[m.x_range.start <= 299.5, m.y_range.start >= 638]") == [True, True]
        tab.close()


def test_a_short_volume_is_not_stretched(browser, tmp_path):
    """Forty samples of 300 traces do not fill the height of the window."""
    np.save(tmp_path / "short.npy", np.random.default_rng(0).normal(size=(3, 300, 40)).astype("f4"))
    with server(tmp_path / "short.npy", "-o", tmp_path / "short.outcrop", "--size", 32) as (address, _):
        tab = Tab(browser, address)
        settled(tab)
        height = tab.pixel(0, 39.5)[1] - tab.pixel(0, -0.5)[1]
        width = tab.pixel(299.5, 0)[0] - tab.pixel(-0.5, 0)[0]
        assert height / 40 == pytest.approx(2.5 * width / 300, rel=0.02) and height < 0.6 * tab.model(
            "section", "m.inner_height"
        )
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_amplitude_position_and_label_at_the_cursor(survey, browser, screen):
    """The readout shows position, X, Y, amplitude and label; the scale of amplitudes shows the sign of a peak."""
    with oc.Job(survey.parent / "job.outcrop", volume=survey) as job:
        job.choose_index(size=40)
        job.add_exemplar("salt dome", (116, 330, 520))
        job.add_exemplar("other", (116, 435, 100))
        job.label([116])
    with server(survey.parent / "job.outcrop") as (address, _):
        tab = Tab(browser, address, screen)
        tab.line(116)
        tab.page.mouse.move(*tab.pixel(340, 520))
        tab.wait_model("readout", "m.text.includes('crossline 340')")
        text = tab.model("readout", "m.text")
        (x,), (y,) = map_grid(oc.open_volume(survey)).to_map([116], [340])
        for part in ("inline 116", "time 520", f"X {x:.1f}", f"Y {y:.1f}", "salt dome", "amplitude"):
            assert part in text
        bar = tab.page.get_by_role("img", name=re.compile("Amplitude from .*trough, to .*peak"))
        assert bar.is_visible()
        tab.page.get_by_role("button", name="Reverse polarity").click()
        tab.page.get_by_role("img", name=re.compile("Amplitude from .*peak, to .*trough")).wait_for()
        # the background has no colour until its legend is clicked
        palette = "m.glyph.color_mapper.palette"
        assert tab.model("labels", f"{palette}[2]") == "#00000000" != tab.model("labels", f"{palette}[1]")
        chip = tab.page.locator(".chip", has_text="other")
        assert chip.get_attribute("aria-pressed") == "false"
        chip.click()
        tab.wait_model("labels", f"{palette}[2] !== '#00000000'")
        chip.click()
        tab.wait_model("labels", f"{palette}[2] === '#00000000'")
        tab.close()


def test_zoom_is_smooth_and_sharp(browser, tmp_path):
    """A notch of the wheel zooms by a tenth, and a zoomed section shows every sample."""
    volume = np.random.default_rng(0).normal(size=(2, 400, 2400)).astype("f4")
    np.save(tmp_path / "long.npy", volume)
    with server(tmp_path / "long.npy", "-o", tmp_path / "long.outcrop", "--size", 32) as (address, _):
        tab = Tab(browser, address)
        settled(tab)
        before = tab.model("section", "m.x_range.end - m.x_range.start")
        tab.page.mouse.move(*tab.pixel(200, 1200))
        tab.page.mouse.wheel(0, -100)
        tab.wait_model("section", f"m.x_range.end - m.x_range.start < {0.95 * before}")
        assert tab.model("section", "m.x_range.end - m.x_range.start") > 0.85 * before
        assert tab.model("amplitudes", "m.data_source.data.image[0].shape[0]") < 2400
        for _ in range(9):
            tab.page.mouse.wheel(0, -100)
        tab.wait_model("amplitudes", "m.data_source.data.image[0].shape[0] === m.data_source.data.dh[0]")
        tab.close()
