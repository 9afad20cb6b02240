"""Simulate half an hour of an interpreter on the demo volume, from a new job to useful labels, on the page alone.

A script opens the page in Chromium and works like an interpreter: it names the classes, places an exemplar of each,
judges retrieved patches, labels a line, corrects it by strokes, labels the survey, corrects the places that the page
suggests, labels again, and exports. The truth of the synthetic volume decides where exemplars lie and which patches and
labels are wrong. All actions use mouse and keys and are counted. Each has an assumed time to look and think; the time
of the page is measured.

python benchmarks/halfhour.py                     # about ten minutes on two cores
python benchmarks/halfhour.py --strokes 5 --places 1 --screenshots FOLDER
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import outcrop as oc
from outcrop import datasets
from outcrop.demo import SHAPE, SIZE
from outcrop.experiments.interpreter import largest_error, line_along, mean_iu

sys.path.insert(0, str(Path(__file__).parent.parent / "tests_app"))
from tab import Tab, chromium, server

THOUGHT = {"click": 2.0, "key": 0.5, "drag": 4.0, "look": 10.0}  # seconds of an interpreter, by what is done
SHOWN = 24  # patches of a class in the gallery
MOST_REJECTED = 5  # of a class


class Hand:
    """Mouse and keyboard of the interpreter: acts on the page and counts the actions.

    Parameters
    ----------
    tab : Tab
    """

    def __init__(self, tab):
        self.tab, self.page = tab, tab.page
        self.counts = dict.fromkeys(THOUGHT, 0)
        self.begin = time.perf_counter()

    def press(self, key):
        """Press a key."""
        self.page.keyboard.press(key)
        self.counts["key"] += 1

    def type(self, text):
        """Type into the active field and press Enter."""
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")
        self.counts["key"] += len(text) + 1

    def click(self, what):
        """Click on a locator, or on a point of the section."""
        if isinstance(what, tuple):
            self.tab.click(*what)
        else:
            what.click()
        self.counts["click"] += 1

    def button(self, name):
        """Click on a text of the page."""
        self.click(self.page.get_by_text(name, exact=True).first)

    def drag(self, *points):
        """Drag over the section."""
        self.tab.drag(*points)
        self.counts["drag"] += 1

    def look(self):
        """Count the time for looking at a new view."""
        self.counts["look"] += 1

    @property
    def clicks(self):
        """Number of clicks and drags."""
        return self.counts["click"] + self.counts["drag"]

    @property
    def waited(self):
        """Minutes that page and script have taken."""
        return (time.perf_counter() - self.begin) / 60

    @property
    def minutes(self):
        """Minutes including those of the interpreter."""
        return self.waited + sum(THOUGHT[what] * count for what, count in self.counts.items()) / 60


class Eye:
    """The interpreter's knowledge: the truth of the volume, in the codes of the page.

    Parameters
    ----------
    truth : DataArray
    """

    def __init__(self, truth):
        self.truth, self.names = truth, list(truth.attrs["classes"])

    def line(self, tab):
        """Return labels and truth of the line in view, shape (n_traces, n_samples), in the codes of the truth."""
        number = int(tab.model("section", "m.title.text").split()[1])
        truth = self.truth.sel(inline=number).values
        codes = tab.model("labels", "Array.from(m.data_source.data.image[0] ?? [])")
        if not codes:
            return np.zeros(truth.shape, np.uint8), truth
        classes = tab.model("section", "m.tags[0].classes")
        table = np.zeros(256, np.uint8)
        table[1 : 1 + len(classes)] = [self.names.index(name) + 1 for name in classes]
        return table[np.reshape(codes, truth.shape[::-1]).T], truth

    def survey(self, job):
        """Return the mean IU over all labelled lines of a job, and the number of lines."""
        with oc.Job(job) as reader:
            lines = sorted(int(reader.lines[i]) for i in reader.labelled)
            labels = reader.labels["label"].sel(inline=lines).load()
        return oc.pixel_scores(labels, self.truth.sel(inline=lines))["MIU"], len(lines)

    def wrong(self, job, name):
        """Return the rows of patches in the gallery that hardly show their class."""
        table = pd.read_csv(job / "retrieved.csv").query("`class` == @name").head(SHOWN)
        code, found = self.names.index(name) + 1, []
        for one in table.to_dict("records"):
            half = SIZE // 2
            place = self.truth.sel(inline=one["inline"])
            at = [int(np.argmin(np.abs(place[axis].values - one[axis]))) for axis in ("crossline", "time")]
            patch = place.values[tuple(slice(max(0, i - half), i + half) for i in at)]
            if (patch == code).mean() < 0.1:
                found.append(int(one["row"]))
        return found[:MOST_REJECTED]


def place_exemplars(hand, places):
    """Add each class with one exemplar."""
    tab = hand.tab
    for name, (inline, crossline, when) in places.items():
        hand.click(hand.page.locator("input[type=text]").first)
        hand.press("Control+a")
        hand.type(str(inline))
        tab.wait_model("section", f"m.title.text === 'inline {inline}'")
        hand.look()
        hand.click(hand.page.locator(".class.add input"))
        hand.type(name)
        hand.page.wait_for_selector(f".class[data-name='{name}']")
        tab.wait_model("tool", "m.active === 1")
        hand.click((crossline, when))
        hand.page.locator(f".class[data-name='{name}'] .count", has_text="1 exemplar").wait_for()


def look_through(hand, eye, job, names):
    """Find patches, and reject patches that do not show their class."""
    hand.click(hand.page.get_by_text("Find similar patches"))
    hand.page.wait_for_selector(".card button.reject", timeout=300_000)
    hand.tab.wait_model("status", "m.text.includes('whole survey is indexed')", timeout=1_200_000)
    hand.click(hand.page.get_by_role("button", name="Search again"))
    hand.tab.wait_model("gallery-note", "m.text.includes('in the survey')", timeout=300_000)
    hand.tab.wait_model("status", "m.text === 'Ready.'", timeout=300_000)
    rejected = 0
    for number, name in enumerate(names, 1):
        hand.press(str(number))
        hand.tab.wait_model("gallery-note", f"m.text.includes('<b>{name}</b>')")
        hand.look()
        for row in eye.wrong(job, name):
            card = hand.page.locator(".card:has(button.reject)", has_text=f"row {row}").first
            if card.count():
                hand.click(card.locator("button.reject"))
                rejected += 1
                hand.tab.wait_model("gallery-note", f"m.text.includes('{rejected} rejected')")
    return rejected


def wait_labelled(hand):
    """Wait until the current work is done."""
    hand.tab.wait_model("label", "m.disabled")
    hand.tab.wait_model("label", "!m.disabled", timeout=1_800_000)


def correct(hand, eye, painted, count):
    """Paint strokes on the largest errors of the line in view; return the number of strokes."""
    tab, made = hand.tab, 0
    axes = tab.model("section", "m.tags[0].axes")
    for _ in range(count):
        labels, truth = eye.line(tab)
        mask = painted.setdefault(tab.model("section", "m.title.text"), np.zeros(truth.shape, bool))
        region, code = largest_error(labels, truth, mask)
        if region is None or region.sum() < 40:  # too small to see
            break
        hand.look()
        stroke = line_along(region, code)
        classes = tab.model("section", "m.tags[0].classes")
        name = eye.names[code - 1]
        hand.press(str(classes.index(name) + 1))
        tab.wait_model("brush-class", f"m.value === '{name}'")
        radius = max(1, round(stroke.radius))
        while (now := tab.model("radius", "m.value")) != radius:
            hand.press("[" if now > radius else "]")
            tab.wait_model("radius", f"m.value !== {now}")
        before = int((tab.model("changed", "m.text.match(/painted: (\\d+)/)?.[1]")) or 0)
        ends = [
            tuple(axis["start"] + i * axis["step"] for axis, i in zip(axes, spot, strict=True)) for spot in stroke.spots
        ]
        hand.drag(*ends)
        done = f"m.text.includes('painted: {before + 1}') && !m.text.includes('learning')"
        tab.wait_model("changed", done, timeout=120_000)
        rows, columns = np.ogrid[: truth.shape[0], : truth.shape[1]]
        for t in np.linspace(0, 1, 50):
            a, b = (np.array(one) for one in stroke.spots)
            i, j = a + t * (b - a)
            mask |= (rows - i) ** 2 + (columns - j) ** 2 <= radius**2
        made += 1
    return made


def walk(tab, job, truth, options):
    """Run all stages; return a table row for each."""
    hand, eye, rows = Hand(tab), Eye(truth), []
    painted: dict = {}

    def stage(name, *, survey=False):
        line = mean_iu(*eye.line(tab))
        over, lines = eye.survey(job) if survey else (np.nan, 1 if line else 0)
        counts = {"clicks": hand.clicks, "keys": hand.counts["key"]}
        times = {"minutes": hand.minutes, "of them the page": hand.waited}
        rows.append({"stage": name} | counts | times | {"line": line, "lines": lines, "survey": over})
        print(f"{name}: {rows[-1]}", flush=True)
        if options.screenshots:
            tab.page.screenshot(path=Path(options.screenshots) / f"{len(rows)}.png")

    places = {name: some[0] for name, some in datasets.exemplars(truth, SIZE, seed=0).items()}
    place_exemplars(hand, places)
    stage("four classes with an exemplar each")
    rejected = look_through(hand, eye, job, list(places))
    middle = int(truth["inline"].values[len(truth["inline"]) // 2])
    stage(f"retrieved patches judged, {rejected} rejected")
    hand.click(hand.page.locator("input[type=text]").first)
    hand.press("Control+a")
    hand.type(str(middle))
    tab.wait_model("section", f"m.title.text === 'inline {middle}'")
    hand.button("3 Labels")
    hand.button("Label this line")
    wait_labelled(hand)
    hand.look()
    stage(f"inline {middle} labelled")
    hand.press("b")
    tab.wait_model("tool", "m.active === 2")
    for number in (1, 2):
        made = correct(hand, eye, painted, options.strokes)
        stage(f"{made} {'more ' if number > 1 else ''}strokes on this line")
    hand.button("Label the survey")
    wait_labelled(hand)
    hand.look()
    stage("survey labelled", survey=True)
    for number in range(1, options.places + 1):
        hand.press("n")
        hand.page.wait_for_timeout(1000)
        made = correct(hand, eye, painted, max(1, options.strokes // 2))
        stage(f"suggested place {number}, {made} strokes", survey=number == options.places)
    hand.button("Label the survey")
    wait_labelled(hand)
    stage("survey labelled again", survey=True)
    hand.button("4 Results")
    hand.button("SEG-Y labels")
    tab.wait_model("exported", "m.text.includes('labels.sgy')", timeout=300_000)
    exported = oc.open_volume(job / "export" / "labels.sgy")
    rows.append(rows[-1] | {"stage": "exported", "clicks": hand.clicks, "minutes": hand.minutes})
    rows[-1] |= {"of them the page": hand.waited, "survey": oc.pixel_scores(exported.load(), truth)["MIU"]}
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strokes", type=int, default=8, help="twice so many on the first line, half at each place")
    parser.add_argument("--places", type=int, default=4, help="number of suggested places to correct")
    parser.add_argument("--seed", type=int, default=0, help="seed of the volume")
    parser.add_argument("--screenshots", help="folder for a screenshot of every stage")
    options = parser.parse_args()
    if options.screenshots:
        Path(options.screenshots).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        survey = Path(folder) / "survey.sgy"
        truth = oc.open_volume(datasets.write_synthetic(survey, SHAPE, seed=options.seed)).load()
        with chromium() as browser, server(survey.name, "--size", SIZE, folder=folder) as (address, _):
            tab = Tab(browser, address)
            table = walk(tab, Path(folder) / "survey.outcrop", truth.astype("uint8"), options)
            tab.close()
    print(table.round(3).to_string(index=False))
    assumed = ", ".join(f"{seconds:g} s per {what}" for what, seconds in THOUGHT.items())
    print(f"Volume of {' x '.join(map(str, SHAPE))}; minutes are the time of the page and, assumed, {assumed}.")


if __name__ == "__main__":
    main()
