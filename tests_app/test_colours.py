"""The default colours of classes can be distinguished, also with colour vision deficiencies (simulated by Chromium)."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image
from sight import difference, lab
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SIGHTS = ("none", "protanopia", "deuteranopia", "tritanopia")  # deficiencies that Chromium simulates
# CIEDE2000 differences; a difference of about 2 is just visible side by side. Measured minimum over all sights: 15.9
# between swatches, and 13.4 between labels with opacity 0.35 over the section.
LEAST_SWATCH, LEAST_LABEL = 14, 10


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return the path of a job with four classes and a labelled line."""
    folder = tmp_path_factory.mktemp("colours")
    truth = oc.open_volume(datasets.write_synthetic(folder / "survey.sgy", (30, 160, 160), seed=0))
    with oc.Job(folder / "job.outcrop", volume=folder / "survey.sgy") as one:
        one.choose_index(size=40)
        for name, places in datasets.exemplars(truth, 40, count=1, min_share=0.2, seed=0).items():
            one.add_exemplar(name, places[0])
        one.retrieve(count=30)
        one.label([116])
    return folder / "job.outcrop"


def pixels(tab):
    """Return a screenshot of the page, shape (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB"))


def least(colours):
    """Return the smallest difference between two colours, with the names of both."""
    pairs = itertools.combinations(colours.items(), 2)
    return min((difference(lab(a), lab(b)), one, other) for (one, a), (other, b) in pairs)


def swatches(tab, picture):
    """Return the colour of each class in the legend."""
    found = {}
    for chip in tab.page.locator(".chip").all():
        box = chip.locator(".swatch").bounding_box()
        at = round(box["y"] + box["height"] / 2), round(box["x"] + box["width"] / 2)
        found[chip.inner_text().split()[1]] = picture[at]
    return found


def labels(tab, picture):
    """Return the mean colour of the labels of each class over the section."""
    codes = np.reshape(tab.model("labels", "Array.from(m.data_source.data.image[0])"), (160, 160))
    names = tab.model("section", "m.tags[0].classes")
    (left, top), (right, bottom) = tab.pixel(300, 0), tab.pixel(459, 636)
    rows = np.round(np.linspace(top, bottom, 160)).astype(int)
    columns = np.round(np.linspace(left, right, 160)).astype(int)
    drawn = picture[np.ix_(rows, columns)].astype(float)
    return {name: drawn[codes == code].mean(axis=0) for code, name in enumerate(names, 1) if (codes == code).any()}


def test_colours_can_be_distinguished_with_any_colour_vision(job, browser):
    """In the legend and over the section, every pair of classes differs enough for every kind of colour vision."""
    with server(job) as (address, _):
        tab = Tab(browser, address)
        tab.line(116)
        for layer in ("fault sticks", "exemplars"):  # these layers cover the labels
            tab.page.get_by_role("button", name=layer, exact=True).click()
        tab.page.locator(".chip", has_text="other").click()  # the background has no colour at first
        tab.page.locator(".chip[aria-pressed=true]", has_text="other").wait_for()
        tab.page.mouse.move(5, 5)
        eyes = tab.page.context.new_cdp_session(tab.page)
        for sight in SIGHTS:
            eyes.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
            tab.page.wait_for_timeout(300)
            picture = pixels(tab)
            for what, floor in ((swatches, LEAST_SWATCH), (labels, LEAST_LABEL)):
                colours = what(tab, picture)
                assert len(colours) == 4, (sight, what.__name__)
                found = least(colours)
                print(f"{sight} {what.__name__}: {found[0]:.1f} between {found[1]} and {found[2]}")
                assert found[0] >= floor, (sight, what.__name__, found)
        tab.close()
