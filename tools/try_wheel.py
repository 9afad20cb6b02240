"""Build the wheel, install it into an empty environment, and use it in a folder with a space and an umlaut in its name.

    python tools/try_wheel.py                                  # the newest dependencies
    python tools/try_wheel.py --oldest --tests tests/test_segy.py ...   # the oldest that pyproject.toml allows

The script checks that the wheel contains every file of the package, runs ``outcrop demo``, scores its labels against
the truth, and opens the page. With ``--tests`` the given tests run on the installed wheel.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS_OF_TESTS = ("hypothesis", "pytest", "segyio")
SCORE = """
import outcrop as oc
labels, truth = (oc.open_volume(path).values.astype(int) for path in ("demo/labels.sgy", "demo/synthetic.truth.sgy"))
print(oc.pixel_scores(labels, truth)["MIU"])
"""
LEAST_SCORE = 0.6  # mean IoU of the demo's labels; .64 with the newest dependencies


def main():
    """Build, install and try the wheel according to the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--oldest", action="store_true", help="install the oldest dependencies that pyproject.toml allows"
    )
    parser.add_argument("--tests", nargs="*", default=[], help="test files to run on the installed wheel")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="Prüf wheel ") as folder:
        place = Path(folder)
        wheel = build(place)
        python = install(place, wheel, oldest=options.oldest, tests=bool(options.tests))
        use(place, python)
        if options.tests:
            run(python, "-m", "pytest", "-p", "no:cacheprovider", *options.tests, cwd=ROOT)
    print(f"The wheel works with the {'oldest' if options.oldest else 'newest'} dependencies:", duration(begin))


def build(place):
    """Build the wheel of this checkout and check that it contains every file of the package."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, ROOT)
    (wheel,) = place.glob("*.whl")
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = {path.relative_to(ROOT / "src").as_posix() for path in files} - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}.")
    print(f"{wheel.name}: {len(files)} files, {wheel.stat().st_size / 1e6:.1f} MB")
    return wheel


def install(place, wheel, *, oldest, tests):
    """Create an environment with the wheel and its extras for page and cluster; return its Python."""
    begin = time.monotonic()
    run(sys.executable, "-m", "venv", place / "environment")
    python = place / "environment" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    words = ["-q", f"{wheel}[app,dask]"]
    if oldest:
        (place / "oldest.txt").write_text("\n".join(lower_bounds()), encoding="utf-8")
        words += ["--only-binary", ":all:", "--constraint", place / "oldest.txt"]
    run(python, "-m", "pip", "install", *words, *(TOOLS_OF_TESTS if tests else ()))
    print(f"installed in {duration(begin)}")
    return python


def lower_bounds():
    """Return every dependency of the package and of the tested extras, pinned to its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [re.sub(">=", "==", name) for name in [*project["dependencies"], *extras["app"], *extras["dask"]]]


def use(place, python):
    """Run version, help, demo, its score and the page, in a folder with a space in its name."""
    work = place / "my wörk"
    work.mkdir()
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/outcrop/__init__.py").read_text(encoding="utf-8"))
    shown = run(python, "-m", "outcrop", "--version", cwd=work, capture_output=True, text=True).stdout
    if version is None or shown.split() != ["outcrop", version[1]]:
        sys.exit(f"outcrop --version prints {shown!r}.")
    run(python, "-m", "outcrop", "--help", cwd=work, stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    run(python, "-m", "outcrop", "demo", cwd=work, stdout=subprocess.DEVNULL)
    score = float(run(python, "-c", SCORE, cwd=work, capture_output=True, text=True).stdout)
    print(f"demo in {duration(begin)}, mean IoU {score:.3f}")
    if score < LEAST_SCORE:
        sys.exit(f"The demo's labels reach a mean IoU of {score:.3f}, less than {LEAST_SCORE}.")
    command = [python, "-m", "outcrop", "app", "demo/synthetic.outcrop", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as page:
        try:
            address = next(found[0] for line in page.stdout if (found := re.search(r"http://\S+", line)))
            status = urllib.request.urlopen(address, timeout=60).status
        finally:
            page.kill()
    print(f"the page answers with status {status}")


def run(*command, **options):
    """Run a command; exit if it fails."""
    done = subprocess.run([str(word) for word in command], **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stderr or ''}")
    return done


def duration(begin):
    """Return the minutes and seconds since a point in time."""
    return "{} min {} s".format(*divmod(round(time.monotonic() - begin), 60))


if __name__ == "__main__":
    main()
