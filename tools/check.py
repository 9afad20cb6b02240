"""Run a quick check of changes: style, types, import order, vocabulary, and the tests of changed modules.

``python tools/check.py [REVISION]`` compares the working tree with a revision, by default `main` if it exists and is
not the current commit, otherwise `HEAD`. It runs the doctests of the changed modules, the changed test files, and a few
test files that import changed modules; `--print` only lists them. ``make test`` runs all tests.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SLOW = {"test_experiments_mapping", "test_experiments_training", "test_stateful", "test_survives", "test_fuzz"}
MOST = 6  # largest number of unchanged test files to run


def git(*words):
    """Return the lines that a git command prints; an empty list if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def changed_files(revision):
    """Return the Python files that differ from a revision, including new files."""
    names = git("diff", "--name-only", revision) + git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in sorted(set(names)) if name.endswith(".py") and (ROOT / name).is_file()]


def module_name(path):
    """Return ``outcrop.volumes.segy`` for ``src/outcrop/volumes/segy.py``; empty for a file outside the package."""
    if not path.is_relative_to(ROOT / "src"):
        return ""
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


def tests_of(files):
    """Return arguments of pytest: changed modules and tests, and the test files that import most changed modules."""
    modules = {name for path in files if (name := module_name(path))}
    found = [path for path in files if path.parent == ROOT / "tests" and path.stem.startswith("test_")]
    counts = {}
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        imports = set(re.findall(r"outcrop(?:\.\w+)+", path.read_text(encoding="utf-8")))
        rooms = {f"outcrop.{name}" for name in re.findall(r"test_(\w+)\.py", path.name)}
        counts[path] = len(modules & imports) + len(
            {room for room in rooms if any(m.startswith(room) for m in modules)}
        )
    near = sorted((path for path, n in counts.items() if n and path.stem not in SLOW), key=lambda path: -counts[path])
    sources = [path for path in files if path.is_relative_to(ROOT / "src")]
    return sources + list(dict.fromkeys(found + near[:MOST]))


def main():
    """Run all checks; exit at the first failure."""
    words = [word for word in sys.argv[1:] if word != "--print"]
    here, there = git("rev-parse", "HEAD"), git("rev-parse", "main")
    tests = tests_of(changed_files(words[0] if words else "main" if there and here != there else "HEAD"))
    if "--print" in sys.argv:
        print("\n".join(str(path.relative_to(ROOT)) for path in tests))
        return
    commands = [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "src", "tests", "tools"],
        ["mypy"],
        ["lint-imports"],
    ]
    commands += [["python", "tools/prose.py", "--check"]]
    commands += [["pytest", "-x", *map(str, tests)]] if tests else []
    for command in commands:
        print(" ".join(command[:3]), "...", flush=True)
        done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main()
