"""The start screen in a real browser: jobs and volumes, other job names, the way back, volumes without data."""

import numpy as np
import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a job, its volume, another volume of the same name, and a volume without data."""
    datasets.write_synthetic(tmp_path / "survey.sgy", (30, 160, 160), seed=0)
    with oc.Job(tmp_path / "survey.outcrop", volume=tmp_path / "survey.sgy") as job:
        job.add_class("fault")
    np.save(tmp_path / "survey.npy", np.random.default_rng(0).normal(size=(4, 120, 100)).astype("f4"))
    np.save(tmp_path / "empty.npy", np.full((4, 120, 100), np.nan, np.float32))
    return tmp_path


def section(page, title):
    """Wait until a section is shown."""
    name = "window.Bokeh?.documents?.[0]?.get_model_by_name('section')"
    page.wait_for_function(f"title => {name}?.title.text.startsWith(title)", arg=title)


@pytest.mark.parametrize("screen", SCREENS)
def test_jobs_and_volumes_are_listed_and_opened(folder, browser, screen):
    """By mouse, a job is opened and the page leads back; by keys, a volume is opened in a job of another name."""
    with server("--size", 32, folder=folder) as (address, _):
        page = browser.new_page(viewport={"width": screen[0], "height": screen[1]})
        page.set_default_timeout(12_000)
        page.goto(address)
        page.get_by_role("heading", name="Jobs").wait_for()
        page.get_by_role("heading", name="Volumes").wait_for()
        buttons = page.get_by_role("button").all_inner_texts()
        assert buttons == ["survey.outcrop", "empty.npy", "survey.npy", "survey.sgy"]
        for fact in ("30 x 160 x 160 of survey.sgy", "4 x 120 x 100", "4800 traces of 160 samples", "192.1 kB"):
            page.get_by_text(fact).first.wait_for()
        assert page.get_by_role("textbox", name="job for survey.sgy").input_value() == "survey.outcrop"
        page.get_by_role("button", name="survey.outcrop").click()
        section(page, "inline 115")
        page.locator(".class[data-name='fault']").wait_for()
        page.get_by_text("4 Results").click()
        page.get_by_role("button", name="Jobs").click()
        field = page.get_by_role("textbox", name="job for survey.npy")
        assert field.input_value() == "survey-2.outcrop"  # another volume uses the first name
        field.fill("noise")
        page.get_by_role("button", name="survey.npy").focus()
        page.keyboard.press("Enter")
        section(page, "inline 2")
        assert (folder / "noise.outcrop" / "job.toml").is_file()
        page.reload()
        section(page, "inline 2")
        page.get_by_role("button", name="Jobs").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="noise.outcrop").wait_for()
        page.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_unusable_volumes_and_job_names_are_refused(folder, browser, screen):
    """A volume of NaN, the job name of another volume, and a path as job name give a message and make no job."""
    with server("--size", 32, folder=folder) as (address, _):
        page = browser.new_page(viewport={"width": screen[0], "height": screen[1]})
        page.set_default_timeout(12_000)
        page.goto(address)
        page.get_by_role("button", name="empty.npy").click()
        page.get_by_role("alert").filter(has_text="holds only zeros or NaN").wait_for()
        assert not (folder / "empty.outcrop").exists()
        for name, words in (("survey", "work on another survey"), ("../else", "not a valid job name")):
            page.get_by_role("textbox", name="job for survey.npy").fill(name)
            page.keyboard.press("Tab")
            page.get_by_role("button", name="survey.npy").click()
            page.get_by_role("alert").filter(has_text=words).wait_for()
        assert sorted(path.name for path in folder.glob("*.outcrop")) == ["survey.outcrop"]
        page.goto(f"{address}?job=gone.outcrop")
        page.get_by_role("alert").filter(has_text="'gone.outcrop' is not a job of this folder").wait_for()
        page.close()


def test_the_page_of_one_volume_leads_to_the_others(folder, browser):
    """The page of a job leads to the start screen of its folder; each of two jobs keeps its own unfinished stroke."""
    with server("survey.outcrop", folder=folder) as (address, _):
        tab = Tab(browser, address)
        tab.press("u")
        tab.wait_model("tool", "m.active === 4")
        tab.click(400, 300)
        tab.wait_model("section", "m.stroke.points.length === 1")
        tab.page.get_by_role("button", name="Jobs").click()
        tab.page.get_by_role("button", name="survey.npy").click()
        section(tab.page, "inline 2")
        assert not tab.model("section", "m.stroke")
        tab.page.go_back()
        tab.page.get_by_role("button", name="survey.outcrop").click()
        section(tab.page, "inline 115")
        tab.wait_model("section", "m.stroke?.points.length === 1")
        tab.close()


def test_exports_are_downloaded(job, browser):
    """An exported file can be downloaded with the browser."""
    with oc.Job(job) as notebook:
        notebook.add_exemplar("fault", (116, 397, 416))
        notebook.add_exemplar("other", (116, 435, 100))
        notebook.label([116])
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.export()
        with tab.page.expect_download() as waiting:
            tab.page.get_by_role("link", name="labels.sgy", exact=True).click()
        expected = (job / "export" / "labels.sgy").read_bytes()
        assert waiting.value.suggested_filename == "labels.sgy"
        with open(waiting.value.path(), "rb") as file:
            assert file.read() == expected
        tab.close()
