"""Make the pictures of docs/app.md: python tests_app/screenshots.py docs/app (needs chromium)."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from tab import Tab, chromium, server

from outcrop import datasets

EXEMPLARS = {"chaotic": (356, 228), "other": (433, 104), "fault": (429, 688), "salt dome": (327, 664)}


def main(folder):
    """Use the page on a synthetic survey, and save a picture of each step."""
    survey = Path(tempfile.mkdtemp()) / "survey.sgy"
    truth = datasets.write_synthetic(survey, (60, 160, 200), seed=0)
    Path(folder).mkdir(parents=True, exist_ok=True)
    words = (survey.name, "--size", 48, "--truth", truth.name)
    with chromium() as browser, server(*words, folder=survey.parent) as (address, _):
        walk(Tab(browser, address), Path(folder))


def walk(tab, folder):
    """Do the work of an interpreter in all steps, and save a picture of each step."""

    def keep(name):
        tab.page.wait_for_timeout(700)
        picture = Image.open(io.BytesIO(tab.page.screenshot()))
        reduced = picture.convert("RGB").quantize(255, method=Image.Quantize.MAXCOVERAGE)  # keeps the class colours
        reduced.save(folder / f"{name}.png", optimize=True)

    tab.line(116)
    tab.page.mouse.move(*tab.pixel(380, 300))
    keep("open")
    tab.press("v")
    tab.wait_model("linked", "m.active")
    tab.page.wait_for_timeout(500)
    tab.click(345, 470)
    tab.wait_model("linked-1", "m.title.text === 'crossline 345'")
    tab.page.mouse.move(*tab.pixel(440, 600))
    keep("linked")
    tab.press("v")
    tab.wait_model("linked", "!m.active")
    for name, place in EXEMPLARS.items():
        tab.exemplar(name, *place)
    keep("exemplars")
    tab.find()
    tab.page.locator(".card button.accept").nth(1).click()
    tab.page.locator(".card button.reject").nth(5).click()
    tab.wait_model("gallery-note", "m.text.includes('1 rejected')")
    keep("retrieved")
    tab.label()
    tab.page.get_by_text("Navigate", exact=True).click()
    tab.page.mouse.move(*tab.pixel(380, 300))
    keep("labels")
    tab.model("confidence", "m.value = 55")
    tab.page.get_by_text("Side by side").click()
    tab.wait_model("truth", "m.data_source.data.image.length")
    keep("threshold")
    tab.model("confidence", "m.value = 0")
    tab.page.get_by_text("Swipe", exact=True).click()
    tab.wait_model("cut", "m.visible")
    tab.drag((tab.model("cut", "m.location"), 560), (360, 560))
    keep("swipe")
    tab.page.get_by_text("Mine", exact=True).click()
    tab.page.locator("select[name='brush-class']").select_option("other")
    tab.wait_model("tool", "m.active === 2")
    tab.page.mouse.move(*tab.pixel(306, 420))
    tab.page.mouse.down()
    tab.page.mouse.move(*tab.pixel(324, 340), steps=6)
    keep("brush")
    tab.page.mouse.up()
    tab.wait_model("changed", "m.text.includes('the last correction')", timeout=600_000)
    keep("corrected")
    tab.export()
    keep("results")
    tab.audit("patches")
    for number, key in enumerate("yynyuyyn", 1):
        tab.question(number)
        tab.press(key)
    tab.question(9)
    keep("audit")
    tab.page.get_by_role("button", name="Close").click()
    tab.step("1 Exemplars")
    tab.page.get_by_role("button", name="Find patches unlike anything marked").click()
    tab.wait_model("unseen-note", "m.text.includes('Unlike everything you marked')")
    tab.page.get_by_text("Patches unlike all exemplars").evaluate("heading => heading.scrollIntoView()")
    keep("unseen")
    tab.close()


if __name__ == "__main__":
    main(sys.argv[1])
