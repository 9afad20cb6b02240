"""Fault sticks in a real browser: choose by click, lasso and keys, accept, reject, export."""

import numpy as np
import pytest
from tab import CHROMIUM, Tab, server

import outcrop as oc
from outcrop import datasets
from outcrop.geometry.coordinates import map_grid
from outcrop.geometry.sticks import read_sticks
from outcrop.job import faults

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
SCREENS = [(1440, 900), (1000, 700)]
LINE = 104


@pytest.fixture(scope="module")
def picked(tmp_path_factory):
    """Return the path of a job without decisions on a survey with four domino faults; one line is picked."""
    folder = tmp_path_factory.mktemp("picked")
    datasets.write_synthetic(folder / "faults.sgy", (10, 200, 200), seed=0)
    with oc.Job(folder / "faults.outcrop", volume=folder / "faults.sgy") as job:
        faults.all_sticks(job, [LINE])
    return folder / "faults.outcrop"


@pytest.fixture
def job(picked, tmp_path):
    """Return the path of a copy that a test may change."""
    import shutil

    return shutil.copytree(picked, tmp_path / "faults.outcrop")


def open_sticks(browser, address, screen=SCREENS[0]):
    """Show the picked line with its sticks."""
    tab = Tab(browser, address, screen)
    tab.line(LINE)
    tab.step("5 Geology")
    tab.wait_model("sticks", "m.data_source.data.xs.length > 2")
    return tab


def drawn(tab, name="sticks"):
    """Return the drawn sticks, each as a list of (trace, time)."""
    both = "[d.xs, d.ys].map((lines) => Array.from(lines, (one) => Array.from(one)))"
    xs, ys = tab.model(name, f"((d) => {both})(m.data_source.data)")
    return [list(zip(x, y, strict=True)) for x, y in zip(xs, ys, strict=True)]


def lasso(tab, sticks, shift=False):
    """Draw the lasso around sticks, with a margin of 4 traces and 30 ms."""
    spots = np.concatenate(sticks)
    (left, top), (right, bottom) = spots.min(axis=0) - (4, 30), spots.max(axis=0) + (4, 30)
    if shift:
        tab.page.keyboard.down("Shift")
    tab.drag((left, top), (right, top), (right, bottom), (left, bottom), (left, top + 20))
    if shift:
        tab.page.keyboard.up("Shift")


def has(tab, name, count):
    """Wait until a number of lines of a name are drawn."""
    tab.wait_model(name, f"m.data_source.data.xs.length === {count}")


@pytest.mark.parametrize("screen", SCREENS)
def test_several_sticks_are_judged_with_the_lasso(job, browser, screen):
    """Sticks inside the lasso are accepted together and change colour; one undo clears all verdicts."""
    with server(job) as (address, _):
        tab = open_sticks(browser, address, screen)
        sticks = drawn(tab)
        red = tab.model("sticks", "m.data_source.data.colour[0]")
        tab.page.get_by_role("button", name="Lasso").click()
        tab.wait_model("lasso", "m.active")
        lasso(tab, sticks)
        has(tab, "chosen-stick", len(sticks))
        tab.wait_model("stick-about", f"m.text.startsWith('{len(sticks)} sticks chosen')")
        tab.page.get_by_role("button", name="Accept").click()
        has(tab, "stick-outlines", len(sticks))
        assert red not in tab.model("sticks", "Array.from(m.data_source.data.colour)")
        state = oc.Job(job).plan.state
        assert len(state.strokes) == len(sticks) and list(state.classes) == ["fault"]
        tab.press("Control+z")
        has(tab, "stick-outlines", 0)
        assert not oc.Job(job).plan.state.strokes
        # a lasso with Shift adds to the clicked stick
        narrow = sorted(sticks, key=lambda one: np.ptp([x for x, _ in one]))[:2]
        at = narrow[0][len(narrow[0]) // 2]
        tab.page.wait_for_timeout(400)
        tab.click(*at)
        has(tab, "chosen-stick", 1)
        tab.page.keyboard.down("Space")  # panning with Space keeps the lasso selected
        tab.page.keyboard.up("Space")
        tab.wait_model("lasso", "m.active")
        lasso(tab, [narrow[1]], shift=True)
        tab.wait_model("chosen-stick", "m.data_source.data.xs.length >= 2")
        tab.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_rejected_stick_is_hidden_and_paints_nothing(job, browser, screen):
    """Keys reject a stick: it is hidden and paints no sample; it can be shown, and its verdict cleared."""
    with server(job) as (address, _):
        tab = open_sticks(browser, address, screen)
        sticks = sorted(drawn(tab), key=lambda one: np.mean([x for x, _ in one]))
        count, chosen = len(sticks), sticks[1]
        tab.press("j", "j", "Shift+J", "j")  # the second stick from the left
        tab.wait_model("chosen-stick", f"m.data_source.data.xs[0]?.[0] === {chosen[0][0]}")
        tab.press("x")
        has(tab, "sticks", count - 1)
        assert chosen not in drawn(tab) and not drawn(tab, "rejected-sticks")
        assert tab.model("painted", "m.data_source.data.image.length") == 0
        (stroke,) = oc.Job(job).plan.state.strokes
        assert (stroke["what"], stroke["class"], stroke["stick"]) == ("exclude", "fault", True)
        assert list(oc.Job(job).classes) == ["fault"]  # no background class was added
        tab.page.get_by_label("show rejected sticks").check()
        has(tab, "rejected-sticks", 1)
        at = chosen[len(chosen) // 2]
        tab.click(*at)
        tab.wait_model("stick-about", "m.text.endsWith('rejected')")
        tab.page.get_by_role("button", name="Clear verdict").click()
        has(tab, "sticks", count)
        has(tab, "rejected-sticks", 0)
        tab.press("Shift+A")
        has(tab, "chosen-stick", count)
        tab.press("a")
        has(tab, "stick-outlines", count)
        tab.close()


def test_accepted_sticks_become_the_chosen_class(job, browser):
    """The class may have any name; files for OpendTect and Charisma have X and Y and contain no rejected stick."""
    with oc.Job(job) as notebook:
        for name in ("Bruch", "other"):
            notebook.add_class(name)
    with server(job) as (address, _):
        tab = open_sticks(browser, address)
        tab.page.get_by_label("accepted sticks become").select_option("Bruch")
        tab.page.wait_for_timeout(500)  # after a choice the list loses the focus
        count = len(drawn(tab))
        tab.press("j")
        has(tab, "chosen-stick", 1)
        tab.press("x")
        has(tab, "sticks", count - 1)
        tab.press("j")
        has(tab, "chosen-stick", 1)
        tab.press("a")
        has(tab, "stick-outlines", 1)
        strokes = oc.Job(job).plan.state.strokes
        assert [(one["what"], one["class"]) for one in strokes] == [("exclude", "Bruch"), ("stroke", "Bruch")]
        for button, name in (("OpendTect", "sticks.dat"), ("Charisma", "sticks.charisma")):
            tab.page.get_by_role("button", name=button).click()
            tab.wait_model("geology-exported", f"m.text.includes('{name} written') && m.text.includes('X and Y')")
        tab.close()
    with oc.Job(job) as notebook:
        every, volume = faults.judged_sticks(notebook, "Bruch"), notebook.volume
        assert list(notebook.classes) == ["Bruch", "other"]
    for name in ("sticks.dat", "sticks.charisma"):
        found = read_sticks(job / "export" / name, volume)
        assert found["stick"].nunique() == every["stick"].nunique()
        assert found.query(f"inline == {LINE}")["stick"].nunique() == count - 1
        words = (job / "export" / name).read_text().split("\n")[0].split()
        x, y = words[:2] if name == "sticks.dat" else words[3:5]
        places = map_grid(volume).to_map(found["inline"][:1], found["crossline"][:1])
        np.testing.assert_allclose([float(x), float(y)], np.ravel(places), atol=0.05)
        assert abs(float(x)) > 1000  # metres, not the number of a crossline
