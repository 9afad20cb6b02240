"""The package matches its description: rooms in picture and table, working templates, unused words, quick checks."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import outcrop as oc
from tools import check, house, prose, rooms, walk

ROOT = Path(__file__).parents[1]
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]["layers"]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_rooms_of_the_picture_are_those_of_the_contract():
    """Every room of the import contract is drawn, in a row below the rooms that may import it."""
    drawn = [room for row in rooms.ROWS for room in row]
    assert sorted(drawn) == sorted(set(LAYERS) - {"__main__"})
    rank = {room: number for number, row in enumerate(rooms.ROWS) for room in row}
    assert [rank[room] for room in LAYERS if room in rank] == sorted(rank[room] for room in LAYERS if room in rank)
    picture = (ROOT / "docs" / "rooms.svg").read_text("utf-8")
    assert all(f">{room}</text>" in picture for room in drawn)


def test_the_table_of_rooms_names_every_room():
    """CONTRIBUTING lists all rooms of the contract, and only modules that exist."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?`(?:, `.+?`)*) \| (.*) \|$", text, re.MULTILINE)
    named = {name for first, _ in rows for name in re.findall(r"`(\w+)`", first)}
    assert named == set(LAYERS) - {"__main__"}
    for first, about in rows:
        room = Path(oc.__file__).parent / re.findall(r"`(\w+)`", first)[0]
        for name in re.findall(r"`(\w+)`", about) if room.is_dir() else ():
            exported = name[:1].isupper() or name == "pretraining"
            assert exported or (room / f"{name}.py").is_file() or (room / name).is_dir(), f"{room.name}.{name}"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"^\| (`.+?`) \|", ARCHITECTURE, re.MULTILINE))))
def test_the_architecture_page_names_existing_modules(name):
    """Each module of the table is a file or a folder."""
    for module in re.findall(r"`([\w.]+)`", name):
        path = Path(oc.__file__).parent / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), module


def test_templates_of_a_measure_and_a_mapper_run():
    """The code blocks of the page run without changes."""
    blocks = re.findall(r"^```python\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    before = dict(oc.MEASURES), dict(oc.MAPPERS)
    names: dict = {}
    try:
        for block in blocks:
            exec(block, names)
    finally:
        for registry, known in zip((oc.MEASURES, oc.MAPPERS), before, strict=True):
            registry.clear()
            registry.update(known)
    assert len(blocks) == 2 and "Loudness" in names


def test_the_quick_check_finds_the_tests_of_a_module():
    """A change of the windows of patches selects their doctests and the tests of patches."""
    found = [path.name for path in check.tests_of([ROOT / "src" / "outcrop" / "patches" / "windows.py"])]
    assert found[0] == "windows.py" and "test_patches.py" in found and len(found) <= 1 + check.MOST


def test_lines_of_code_exclude_docstrings_comments_and_blank_lines():
    """Only the head and the body of a function count, with every line of a long statement."""
    docstring = '    """Say.\n\n    More.\n    """\n'
    text = "def f(a):\n" + docstring + '\n    # why\n    return (\n        a,\n        """text\n""",\n    )\n'
    assert house.code_lines(text) == 6


@pytest.mark.parametrize(
    ("text", "annotated"),
    [("def f(a: int) -> int: ...", True), ("def f(a) -> int: ...", False), ("def f(a: int): ...", False),
     ("def f(*, a) -> int: ...", False), ("def f(*a) -> int: ...", False), ("def f(self) -> int: ...", True),
     ("def __init__(self): ...", True), ("def __init__(self, a): ...", False)],
)  # fmt: skip
def test_functions_without_types_are_found(text, annotated):
    """Every argument except self, and the result of every function except `__init__`, needs a type."""
    assert [house.is_annotated(function) for function in house.functions(text)] == [annotated]


@pytest.mark.parametrize("planted", ["as it {}", "as_it_{}", 'as it "\n    "{}', "as\n    # it {}", "As it {}"])
def test_unused_words_are_found(planted):
    """A phrase is found in prose and names, and across line breaks, quotes and comment signs."""
    text = f"\n{planted.format('is')}"
    assert [(line, better) for line, _, better in prose.unused_words(text)] == [
        (2, prose.BETTER["as it " + "is|as they " + "are"])
    ]
    assert not list(prose.unused_words("Was it isolated?"))


def test_drawn_texts_are_docstrings_help_texts_and_messages():
    """The same seed draws the same texts, as many of each kind as asked for, with file and line."""
    counts = {"docstring": 3, "help": 2, "message": 1}
    texts = list(prose.drawn(ROOT, 0, counts))
    assert texts == list(prose.drawn(ROOT, 0, counts))
    for kind, n in counts.items():
        found = [text for text in texts if re.match(rf"{kind} \d+  src/outcrop/[\w/]+\.py:\d+\n    \S", text)]
        assert len(found) == n


def test_calls_are_counted_in_every_module_that_imported_the_function(monkeypatch):
    """A call is counted in a module that imported the function by name."""
    from outcrop.patches import area, grid, windows

    for module in (area, grid, windows):  # restored after the test
        monkeypatch.setattr(module, "patch_starts", windows.patch_starts)
    counts: Counter = Counter()
    walk.count_calls(counts, "starts", windows, "patch_starts")
    grid.patch_starts(11, size=4, step=3)
    assert counts == {"starts": 1}


def test_a_command_repeats_no_work():
    """A command opens one job, plans one grid, scans headers once, parses no table and reads each trace about once."""
    found = subprocess.run([sys.executable, ROOT / "tools" / "walk.py"], capture_output=True, text=True, check=True)
    rows = [re.split(r"  +", line.strip()) for line in found.stdout.splitlines()[1:]]
    counts = {name: dict(zip(walk.COLUMNS, map(int, numbers), strict=True)) for name, *numbers in rows}
    assert list(counts) == ["index", "index, again", "retrieve", "label", "export"]
    traces = walk.SHAPE[0] * walk.SHAPE[1]
    for once in counts.values():
        assert once["tables parsed"] == 0 and once["grid planned"] <= 1 and once["traces"] <= traces + 8
        assert once["job opened"] == once["options resolved"] == once["headers scanned"] == 1
