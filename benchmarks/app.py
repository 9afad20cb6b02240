"""Time, bytes and server memory of moves through a large volume on the interpreter's page.

python benchmarks/app.py                  # a sparse SEG-Y file of 10 GB, removed afterwards
python benchmarks/app.py --gigabytes 1 --moves 200
python benchmarks/app.py --first FILE.sgy # from opening a new file to labels of its middle line
python benchmarks/app.py --clicks 200     # response times of the page in Chromium while it labels a survey
python benchmarks/app.py --strokes 50     # from mouse up to changed labels on the screen: 10 GB, inlines of 951 x 462
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bokeh.document import Document
from bokeh.protocol import Protocol

import outcrop as oc
from outcrop import datasets
from outcrop.app.page import Page
from outcrop.app.session import Session
from outcrop.volumes import segy_write

CROSSLINES, SAMPLES = 1200, 2000


def write_sparse(path, inlines):
    """Write a sparse SEG-Y file with all trace headers, and amplitudes on every 20th inline."""
    crosslines = np.arange(1000, 1000 + CROSSLINES)
    times = np.arange(SAMPLES) * 2.0
    section = np.random.default_rng(0).standard_normal((CROSSLINES, SAMPLES)).astype("f4") * 1000
    with segy_write.create(path, np.array([100]), crosslines, times) as write:
        write(0, section)
    first = path.read_bytes()
    start, trace = 3600, 240 + 4 * SAMPLES
    line = np.frombuffer(first[start:], np.uint8).reshape(CROSSLINES, trace).copy()
    with open(path, "r+b") as file:
        for number in range(1, inlines):
            line[:, 188:192] = np.frombuffer(np.array(100 + number, ">i4").tobytes(), np.uint8)
            offset = start + number * CROSSLINES * trace
            if number % 20 == 0:
                os.pwrite(file.fileno(), line.tobytes(), offset)
                continue
            for k, header in enumerate(line[:, :240]):
                os.pwrite(file.fileno(), header.tobytes(), offset + k * trace)
        file.truncate(start + inlines * CROSSLINES * trace)


def resident(process="self"):
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def walk(page, document, direction, positions, *, ahead=0):
    """Return milliseconds and bytes of every move."""
    seconds, sizes, changes = [], [], []
    document.on_change(changes.append)
    for position in positions:
        changes.clear()
        begin = time.perf_counter()
        page.viewer.go(direction, int(position), ahead=ahead)
        message = Protocol().create("PATCH-DOC", list(changes))
        seconds.append(1000 * (time.perf_counter() - begin))
        sizes.append(len(message.content_json) + sum(len(buffer.to_bytes()) for buffer in message.buffers))
    document.remove_on_change(changes.append)
    return seconds, sizes


def first_labels(path):
    """Print the seconds from opening a volume to patches and to labels of its middle line, with three exemplars."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        session = Session(path, Path(folder) / "first.outcrop")
        times: list = []
        session.listen(lambda what: what == "labels" and times.append(time.perf_counter() - begin))
        axes = [session.survey.volume[name].values for name in session.survey.volume.dims]
        line = axes[0][len(axes[0]) // 2].item()
        for name, across, down in (("fault", 0.3, 0.7), ("chaotic", 0.5, 0.4), ("other", 0.7, 0.6)):
            session.decide(session.job.add_class, name)
            session.add_exemplar(
                name, (line, *(a[int(at * len(a))] for a, at in zip(axes[1:], (across, down), strict=True)))
            )
        session.search.retrieve(line)
        session.work.wait()
        found = time.perf_counter() - begin
        session.labelling.label([line])
        session.work.wait()
        scope, shape = session.search.scope, session.survey.volume.shape
        print(f"{Path(path).name} {shape}: patches found after {found:.0f} s ({scope}), ", end="")
        print(f"labels after {times[-1]:.0f} s")
        session.close()


FIND = """
const all = (selector, root = document) => {
  let found = [...root.querySelectorAll(selector)];
  for (const one of root.querySelectorAll("*")) if (one.shadowRoot) found = found.concat(all(selector, one.shadowRoot));
  return found;
};
const model = (name) => Bokeh.documents[0].get_model_by_name(name);
const seen = (card) => card.className + card.querySelector("img").src;
const cards = () => all(".card:has(button.accept)").map(seen).join();
"""
CLICKS = {  # action, and JavaScript expression whose value changes when the page has responded
    "accept": ("all('.card button.accept').at(-1).click()", "model('gallery-note').text + cards()"),
    "reject": ("all('.card button.reject').at(-2).click()", "model('gallery-note').text"),
    "undo": (
        "all('button').find((b) => b.textContent.includes('Undo')).click()",
        "model('gallery-note').text + cards()",
    ),
    "move": (
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, composed: true}))",
        "model('section').title.text",
    ),
    "recolour": (
        "(() => {const one = all('.class input[type=color]')[0];"
        "one.value = '#' + Math.floor(1e6 + 9e6 * Math.random()).toString(16).slice(0, 6).padStart(6, '0');"
        "one.dispatchEvent(new Event('change'))})()",
        "all('.legend .swatch').map((one) => one.style.background).join()",
    ),
}
TIMED = """async () => {{ {find}
  const before = {shown}, begin = performance.now();
  {act};
  while ({shown} === before && performance.now() - begin < 20000) await new Promise((go) => setTimeout(go, 2));
  return performance.now() - begin;
}}"""


def clicks(count):
    """Print the milliseconds from click to response on the screen while a survey is labelled, by kind of click."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests_app"))
    from tab import Tab, chromium, server

    times: dict = {name: [] for name in CLICKS}
    with tempfile.TemporaryDirectory() as folder:
        survey = Path(folder) / "survey.sgy"
        datasets.write_synthetic(survey, (120, 300, 300), seed=0)
        with chromium() as browser, server(survey.name, "--size", 48, folder=folder) as (address, _):
            tab = Tab(browser, address)
            for name, place in (("chaotic", (356, 228)), ("other", (433, 104)), ("fault", (429, 688))):
                tab.exemplar(name, *place)
            tab.find()
            labelled = 0
            for number in range(count):
                labelled += start_labelling(tab)
                name = list(CLICKS)[number % len(CLICKS)]
                act, shown = CLICKS[name]
                times[name].append(tab.page.evaluate(TIMED.format(find=FIND, shown=shown, act=act)))
                tab.page.wait_for_timeout(100)
            tab.page.close()
    every = [value for some in times.values() for value in some]
    print(f"{len(every)} clicks while a survey of 120 lines is labelled ({labelled} runs started)")
    for name, some in [*times.items(), ("all", every)]:
        print(
            f"{name:<10} median {np.median(some):6.0f} ms, 95 % {np.percentile(some, 95):6.0f}, worst {max(some):6.0f}"
        )


WATCH = """() => {
  const source = Bokeh.documents[0].get_model_by_name("labels").data_source, hold = { up: 0, seen: 0, before: null };
  window.watched = hold;
  hold.arm = () => { hold.before = new Uint8Array(source.data.image[0]); hold.seen = 0; };
  document.addEventListener("pointerup", () => { hold.up = performance.now(); }, true);
  source.properties.data.change.connect(() => {
    const codes = source.data.image[0];
    if (!hold.before || hold.seen || codes.every((code, i) => code === hold.before[i])) return;
    requestAnimationFrame(() => setTimeout(() => { hold.seen = performance.now(); }));  // once the frame is drawn
  });
}"""
LINES = 3  # labelled lines
EVERY, PAUSE = 5, 1500  # after every 5th stroke wait until it is learnt, after other strokes 1500 ms
MADE = (12, 951, 462)  # shape of the synthetic volume that is repeated in the large volume


def write_repeated(small, path, gigabytes):
    """Write a large SEG-Y file of repeated inlines of a small one, numbered consecutively; return their number."""
    every = np.fromfile(small, np.uint8)
    lines = every[3600:].reshape(*MADE[:2], -1)
    inlines = max(MADE[0], int(gigabytes * 1e9 / lines[0].size))
    with open(path, "wb") as file:
        every[:3600].tofile(file)
        for number in range(inlines):
            line = lines[number % MADE[0]]
            line[:, 188:192] = np.frombuffer(np.array(100 + number, ">i4").tobytes(), np.uint8)
            line.tofile(file)
    return inlines


def painted_survey(folder, gigabytes=0):
    """Make a job on inlines of 951 x 462 with some labelled lines; return the number of the middle one."""
    small, survey = Path(folder) / "small.sgy", Path(folder) / "survey.sgy"
    truth = oc.open_volume(datasets.write_synthetic(small, MADE, seed=0))
    first = write_repeated(small, survey, gigabytes) // 2 // MADE[0] * MADE[0]  # a whole copy in the middle
    with oc.Job(Path(folder) / "job.outcrop", volume=survey) as job:
        job.choose_index(every=4, area={"inline": [100 + first, 100 + first + MADE[0] - 1]})
        for name, places in datasets.exemplars(truth, 99, count=1, min_share=0.3, seed=0).items():
            for inline, *place in places:
                job.add_exemplar(name, (inline + first, *place))
        job.retrieve(count=60)
        line = 100 + first + MADE[0] // 2
        job.label(range(line - LINES // 2, line + LINES // 2 + 1))
    return line


def strokes(count, gigabytes):
    """Print the seconds from mouse up to changed labels on the screen, and until the mapping has learnt the stroke."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests_app"))
    from tab import Tab, chromium, server

    rng, seen, learnt = np.random.default_rng(0), [], []
    with tempfile.TemporaryDirectory() as folder:
        line = painted_survey(folder, gigabytes)
        size = (Path(folder) / "survey.sgy").stat().st_size / 1e9
        with chromium() as browser, server("job.outcrop", folder=folder) as (address, process):
            begin = time.perf_counter()
            tab = Tab(browser, address)
            opened = time.perf_counter() - begin
            tab.line(line)
            tab.press("b")
            tab.wait_model("tool", "m.active === 2")
            tab.page.wait_for_timeout(3000)
            tab.page.evaluate(WATCH)
            options = tab.model("brush-class", "m.options.map((one) => one[0])")
            classes = options[2:-1]  # right and wrong come first, erase last
            for number in range(count):
                x, y = rng.uniform(340, 1150), rng.uniform(100, 1700)
                column, row = round(x - 300), round(y / 4)
                now = tab.model("labels", f"m.data_source.data.image[0][{row * 951 + column}]")
                chosen = (now - 1 + rng.integers(1, len(classes))) % len(classes)  # not the current label
                tab.press(str(1 + chosen))
                tab.wait_model("brush-class", f"m.value === '{classes[chosen]}'")
                tab.page.evaluate("watched.arm()")
                tab.drag((x, y), (x + rng.uniform(10, 60), y + rng.uniform(-80, 80)))
                tab.page.wait_for_function("watched.seen", timeout=180_000)
                seen.append(tab.page.evaluate("(watched.seen - watched.up) / 1000"))
                if number % EVERY == EVERY - 1:
                    done = f"m.text.includes('painted: {number + 1}') && !m.text.includes('learning')"
                    tab.wait_model("changed", done, timeout=120_000)
                    learnt.append(tab.page.evaluate("(performance.now() - watched.up) / 1000"))
                else:
                    tab.page.wait_for_timeout(PAUSE)
            memory = resident(process.pid)
            tab.page.close()
    print(f"{count} strokes on a line of 951 x 462, {LINES} lines labelled, a stroke every {PAUSE / 1000:g} s")
    print(f"{size:.1f} GB of SEG-Y, page drawn after {opened:.1f} s, memory of the server at the end {memory:.0f} MB")
    for what, some in (("changed labels on the screen", seen), ("learnt by the mapping", learnt)):
        ends = f"median {np.median(some):5.2f} s, 95 % {np.percentile(some, 95):5.2f}, worst {max(some):5.2f}"
        print(f"{what:<30} {ends} (of {len(some)})")


def start_labelling(tab):
    """Start to label the survey if this is possible; return the number of started runs, 0 or 1."""
    if tab.model("label-all", "m.disabled"):
        return 0
    tab.step("3 Labels")
    tab.page.get_by_text("Label the survey").click()
    tab.wait_model("label-all", "m.disabled")
    tab.step("2 Retrieved")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--first", help="measure only the time to the first labels of this file")
    parser.add_argument(
        "--clicks", type=int, help="measure only the response times of this many clicks while labelling"
    )
    parser.add_argument("--strokes", type=int, help="measure only the response times of so many brush strokes")
    options = parser.parse_args()
    if options.strokes:
        strokes(options.strokes, options.gigabytes)
        return
    if options.clicks:
        clicks(options.clicks)
        return
    if options.first:
        first_labels(options.first)
        return
    inlines = int(options.gigabytes * 1e9 / (CROSSLINES * (240 + 4 * SAMPLES)))
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sgy"
        write_sparse(path, inlines)
        print(f"{path.stat().st_size / 1e9:.1f} GB of SEG-Y, {path.stat().st_blocks * 512 / 1e9:.1f} GB on the disk")
        begin = time.perf_counter()
        session, document = Session(path, Path(folder) / "large.outcrop"), Document()
        page = Page(session, document)
        page.layout().server_doc(document)
        print(f"opened in {time.perf_counter() - begin:.1f} s")
        for direction, name, n in ((0, "inline", inlines), (1, "crossline", CROSSLINES), (2, "time slice", SAMPLES)):
            for way, positions in (("next", np.arange(200) % n), ("random", rng.integers(0, n, 200))):
                some = positions if direction < 2 else positions[:20]
                seconds, sizes = walk(page, document, direction, some, ahead=int(way == "next"))
                median, most = np.percentile(seconds, [50, 95])
                size = np.median(sizes) / 1e3
                print(f"{name:<10} {way:<7} median {median:6.1f} ms, 95 % {most:6.1f} ms, {size:6.0f} kB a move")
        for done in range(0, options.moves, 250):
            walk(page, document, 0, rng.integers(0, inlines, min(250, options.moves - done)))
            print(f"memory after {done + 250:5d} more moves: {resident():6.0f} MB", flush=True)
        page.close()
        session.close()


if __name__ == "__main__":
    main()
