"""Actions of an interpreter in the browser, for the tests and the screenshots."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
STATE = tempfile.mkdtemp()  # folder in which the servers store their addresses
NOTES = """(function all(root) {
  let found = [...root.querySelectorAll(".card .note")];
  for (const one of root.querySelectorAll("*")) if (one.shadowRoot) found = found.concat(all(one.shadowRoot));
  return found;
})(document)"""


@contextlib.contextmanager
def chromium():
    """Open a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def server(*words, folder=None):
    """Run `outcrop app` in a process; yield its address and the process."""
    command = [sys.executable, "-m", "outcrop", "app", *map(str, words), "--no-browser"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XDG_STATE_HOME": STATE}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # the same package in any folder
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def expression(name, code):
    """Return JavaScript for an expression of `m`, the Bokeh model with a name."""
    return f"(() => {{const m = Bokeh.documents[0].get_model_by_name('{name}'); return {code}}})()"


class Tab:
    """A tab of the browser with the actions of an interpreter."""

    def __init__(self, browser, address, screen=(1440, 900)):
        self.errors, self.foreign = [], []
        self.page = browser.new_page(viewport={"width": screen[0], "height": screen[1]})
        self.page.set_default_timeout(int(os.environ.get("TAB_TIMEOUT", 60_000)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        home = address.split("/")[2]
        self.page.on("request", lambda request: self._watch(request.url, home))
        self.page.goto(address)
        self.ready()

    def ready(self):
        """Wait until the page is drawn."""
        self.page.wait_for_selector(".class.add", state="attached")
        self.wait_model("section", "m?.tags.length")
        self.page.wait_for_function("Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('section'))?.frame")
        self.model(
            "status",
            "(window.messages = [m.text], m.properties.text.change.connect(() => window.messages.push(m.text)))",
        )

    def press(self, *keys):
        """Press keys in order."""
        for key in keys:
            self.page.keyboard.press(key)

    def _watch(self, url, home):
        if not url.startswith(("data:", "blob:")) and url.split("/")[2] != home:
            self.foreign.append(url)

    def model(self, name, code):
        """Return the value of an expression of `m`, the Bokeh model with a name."""
        return self.page.evaluate(expression(name, code))

    def wait_model(self, name, code, **options):
        """Wait until an expression of `m`, the Bokeh model with a name, is true."""
        self.page.wait_for_function(expression(name, code), **options)

    def wait_message(self, text):
        """Wait until the page shows a message with a text, even if another message replaces it at once."""
        self.page.wait_for_function("text => window.messages.some((one) => one.includes(text))", arg=text)
        self.model("status", "window.messages.splice(0, window.messages.length, m.text)")

    def pixel(self, x, y, name="section"):
        """Return the position of a point of a plot on the screen."""
        return self.page.evaluate(
            """([x, y, name]) => {
              const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name(name));
              const box = view.el.getBoundingClientRect();
              return [box.left + view.frame.x_scale.compute(x), box.top + view.frame.y_scale.compute(y)];
            }""",
            [x, y, name],
        )

    def click(self, x, y, name="section"):
        """Click on a point of a plot."""
        self.page.mouse.click(*self.pixel(x, y, name))

    def step(self, name):
        """Show a step by the name of its tab."""
        self.page.get_by_text(name, exact=True).click()

    def exemplar(self, name, x, y):
        """Add a class and place an exemplar of it."""
        count = self.page.locator(".card .note").count()
        self.page.locator(".class.add input").fill(name)
        self.page.locator(".class.add button").click()
        self.page.wait_for_selector(f".class[data-name='{name}']")
        self.wait_model("tool", "m.active === 1")
        self.click(x, y)
        self.page.wait_for_function(f"count => {NOTES}.length > count", arg=count)

    def line(self, number):
        """Show an inline by its number."""
        self.page.locator("input[type=text]").first.fill(str(number))
        self.page.keyboard.press("Enter")
        self.wait_model("section", f"m.title.text === 'inline {number}'")

    def drag(self, *points, steps=6, rest=0):
        """Drag the mouse over the section, after a rest of some milliseconds."""
        self.page.mouse.move(*self.pixel(*points[0]))
        self.page.mouse.down()
        self.page.wait_for_timeout(rest)
        for point in points[1:]:
            self.page.mouse.move(*self.pixel(*point), steps=steps)
        self.page.mouse.up()

    def find(self):
        """Find similar patches."""
        self.page.get_by_role("button", name="Find similar patches").click()
        self.page.wait_for_selector(".card button.reject")

    def label(self):
        """Label the line in view, and wait until it is scored."""
        self.step("3 Labels")
        self.page.get_by_role("button", name="Label this line").click()
        self.wait_model("scores", "m?.text.includes('mean IoU')", timeout=600_000)

    def paint(self, name, *points):
        """Paint a stroke of a class."""
        self.page.locator("select[name='brush-class']").select_option(name)
        self.press("b")  # choosing the present value of a list sends no event
        self.wait_model("tool", "m.active === 2")
        self.wait_model("pan", "!m.active")
        self.drag(*points)
        self.wait_model("painted", "m.data_source.data.image.length === 1")

    def export(self):
        """Export the labels as SEG-Y."""
        self.step("4 Results")
        self.page.get_by_text("SEG-Y labels").click()
        self.wait_model("exported", "m.text.includes('labels.sgy')")

    def audit(self, of):
        """Start an audit of patches or labels."""
        self.step("4 Results")
        self.page.get_by_role("button", name=f"the {of}").click()
        self.page.get_by_role("button", name="Ask 30 questions").click()

    def question(self, number):
        """Wait until a question of the audit is shown."""
        self.page.locator(".question .where", has_text=re.compile(f"^{number} of ")).wait_for()

    def notes(self):
        """Return the texts below the thumbnails of the exemplars."""
        return self.page.locator(".card:has(button.remove) .note").all_inner_texts()

    def close(self):
        """Close the tab; check that no error occurred and no other computer was contacted."""
        self.page.close()
        assert not self.errors
        assert not self.foreign
