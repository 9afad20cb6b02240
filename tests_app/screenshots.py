"""Make the pictures of docs/app.md again: python tests_app/screenshots.py docs/app (needs chromium)."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from test_page import CHROMIUM, FLAGS, Tab, playwright, server

from outcrop import datasets

EXEMPLARS = {"chaotic": (356, 228), "other": (433, 104), "fault": (429, 688), "salt dome": (327, 664)}


def main(folder):
    """Walk through the page on a synthetic survey and keep a picture of each step."""
    survey = Path(tempfile.mkdtemp()) / "survey.sgy"
    truth = datasets.write_synthetic(survey, (60, 160, 200), seed=0)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    words = (survey.name, "--size", 48, "--truth", truth.name)
    with playwright.sync_playwright() as api, server(*words, folder=survey.parent) as (address, _):
        browser = api.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = Tab(browser, address)

        def keep(name):
            tab.page.wait_for_timeout(700)
            picture = Image.open(io.BytesIO(tab.page.screenshot()))
            picture.quantize(255).save(folder / f"{name}.png", optimize=True)

        tab.page.locator("input[type=text]").first.fill("116")
        tab.page.keyboard.press("Enter")
        tab.wait_model("section", "m.title.text === 'inline 116'")
        tab.page.mouse.move(*tab.pixel(380, 300))
        keep("open")
        for name, place in EXEMPLARS.items():
            tab.exemplar(name, *place)
        keep("exemplars")
        tab.page.get_by_text("Find similar patches").click()
        tab.page.wait_for_selector(".card button.reject")
        tab.page.locator(".card button.accept").nth(1).click()
        tab.page.locator(".card button.reject").nth(5).click()
        tab.wait_model("gallery-note", "m.text.includes('1 rejected')")
        keep("retrieved")
        tab.step("3 Labels")
        tab.page.get_by_text("Label this line").click()
        tab.page.wait_for_function("Bokeh.documents[0].get_model_by_name('scores')?.text", timeout=180_000)
        tab.page.get_by_text("Look", exact=True).click()
        tab.page.mouse.move(*tab.pixel(380, 300))
        keep("labels")
        tab.page.evaluate("Bokeh.documents[0].get_model_by_name('confidence').value = 55")
        tab.page.get_by_text("expert beside").click()
        tab.wait("Bokeh.documents[0].get_model_by_name('expert-section').renderers[1].data_source.data.image.length")
        keep("threshold")
        tab.page.get_by_text("expert beside").click()
        tab.page.evaluate("Bokeh.documents[0].get_model_by_name('confidence').value = 0")
        tab.page.locator("select:visible").nth(1).select_option("other")
        tab.wait_model("tool", "m.active === 2")
        tab.page.mouse.move(*tab.pixel(352, 330))
        tab.page.mouse.down()
        tab.page.mouse.move(*tab.pixel(395, 400), steps=6)
        tab.page.mouse.up()
        tab.wait_model("section", "m.renderers[3].data_source.data.image.length === 1")
        keep("brush")
        tab.page.get_by_text("Label this line").click()
        tab.page.wait_for_function(
            "Bokeh.documents[0].get_model_by_name('changed').text.includes('the last fit')", timeout=180_000
        )
        keep("corrected")
        tab.step("4 Results")
        tab.page.get_by_text("SEG-Y labels").click()
        tab.wait_model("exported", "m.text.includes('labels.sgy')")
        keep("results")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
