"""The documentation is correct: names, commands, options, links, messages and constants exist, and examples run."""

import ast
import doctest
import importlib
import inspect
import re
import shlex
import textwrap
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer

import outcrop as oc
from docs.hooks import command_reference, run_page, run_python
from outcrop import cli
from outcrop.retrieval.weak import WeakLabels
from outcrop.volumes import segy_write

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [name for name in oc.__all__ if name != "__version__"]


def docstring(name):
    """Return the text about a public name: its docstring, or the string below a dict."""
    found = getattr(oc, name)
    if not isinstance(found, dict):
        return inspect.getdoc(found)
    module = oc._HOMES[name].replace(".", "/")
    tree = ast.parse((ROOT / "src" / f"{module}.py").read_text(encoding="utf-8"))
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and node.target.id == name and isinstance(below, ast.Expr):
            return inspect.cleandoc(below.value.value)
    raise AssertionError(f"{name} has no text below it")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_in_the_reference_with_an_example(name):
    """The reference page includes the name, and its text has an example."""
    assert f"::: oc.{name}\n" in (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    text = docstring(name)
    assert "Examples\n--------\n" in text
    assert ">>> " in text.split("Examples\n--------\n")[1]


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(getattr(oc, name), dict)])
def test_examples_of_dicts_run(name):
    """Examples in the text below a dict run; doctest does not find them, because this text is not a docstring."""
    examples = doctest.DocTestParser().get_doctest(docstring(name), {}, name, None, 0)
    assert examples.examples and doctest.DocTestRunner().run(examples).failed == 0


def test_the_reference_names_nothing_else():
    """The reference has no name that was removed."""
    named = re.findall(r"^::: oc\.(\w+)$", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(NAMES)


def test_functions_of_submodules_in_the_reference_exist():
    """The listed functions of `oc.datasets` and `oc.plots` exist and have a docstring."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: outcrop\.(\w+)\n(?: .*\n)*?      members: \[(.*)\]$", text, re.MULTILINE)
    assert [module for module, _ in listed] == ["datasets", "plots"]
    for module, names in listed:
        for name in names.split(", "):
            assert getattr(getattr(oc, module), name).__doc__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page):
    """The files and headings that a page links to exist."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not heading or heading in headings(target), link


@cache
def headings(page):
    """Return the anchors of the headings of a page."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", line).strip().lower()) for line in lines}


def commands():
    """Yield the page and the text of every command that starts with ``outcrop`` in the documentation."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^(?: {4}|)outcrop .*$", text, re.MULTILINE):
            yield page, line.strip()
        for line in re.findall(r"`(outcrop [^`]*)`", text):
            yield page, line


def test_commands_and_their_options_exist():
    """The program has every command and option that README and docs use."""
    known = typer.main.get_command(cli.app).commands
    options = {
        name: {word for part in one.params for word in (*part.opts, *part.secondary_opts)}
        for name, one in known.items()
    }
    seen = 0
    for page, line in commands():
        words = shlex.split(re.split(r" \|| >|;", line, maxsplit=1)[0], comments=True)[1:]
        if not words or words[0].isupper() or words[0].startswith("-"):
            continue
        assert words[0] in known, f"{page.name}: {line}"
        for word in words[1:]:
            if word.startswith("--"):
                assert word in options[words[0]] | {"--help"}, f"{page.name}: {line}"
        seen += 1
    assert seen > 80


@cache
def messages():
    """Return every string of the source, with … in place of values."""
    found = []
    for file in sorted((ROOT / "src" / "outcrop").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_quoted_messages_are_messages_of_the_program():
    """The source contains every message that the troubleshooting page quotes, word for word."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert len(quoted) > 30
    missing = [text for text in quoted if not any(text in message for message in messages())]
    assert not missing


def python_block(page):
    """Return the first block of Python of a page."""
    return re.search(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("page", ["README.md", "docs/notebook.md"])
def test_examples_for_a_notebook_run(page, tmp_path, monkeypatch):
    """The first Python block runs on a synthetic survey with the line numbers of the example."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    shape = (6, 270, 290)
    inlines, crosslines = np.array([308, 309, 310, 311, 330, 331]), np.arange(490, 490 + shape[1])
    times = 680 + 4.0 * np.arange(shape[2])
    with segy_write.create("f3.sgy", inlines, crosslines, times) as write:
        for row, (section, _) in enumerate(oc.datasets.synthetic_lines(shape)):
            write(row, section)
    names: dict = {}
    exec(compile(python_block(page), page, "exec"), names)
    assert names["labels"].sizes["inline"] == 2
    if page != "README.md":
        assert (tmp_path / "labels.sgy").is_file()
        assert names["weight"].shape == names["mask"].shape


def test_the_page_of_commands_is_complete():
    """The page has every command, and every option has a help text."""
    page = command_reference()
    for name, command in typer.main.get_command(cli.app).commands.items():
        assert f"\n## {name}\n" in page
        assert all(part.help for part in command.params if part.param_type_name == "option"), name
    assert "| `--accept` |" in page and "`--no-per-exemplar`" in page


def test_the_output_of_a_block_is_that_of_a_notebook():
    """Output shows printed lines, then the value of the last line; tables are HTML tables."""
    assert run_python("print('a')\n1 + 1", {}) == "``` {.text .output}\na\n```\n\n``` {.text .output}\n2\n```"
    assert "<table" in run_python("import pandas as pd\npd.DataFrame({'a': [1]})", {})
    assert run_python("x = 1", {}) == ""


def test_a_block_that_fails_ends_the_build(tmp_path):
    """A block of Python or shell that fails gives an error with the name of the page."""
    for block in ("```python\n1 / 0\n```\n", "```sh\nfalse\n```\n"):
        with pytest.raises(RuntimeError, match=r"page\.md"):
            run_page(block, "page.md", tmp_path)


def test_blocks_of_real_data_are_not_run_without_it(tmp_path, monkeypatch):
    """Without OUTCROP_DATA these blocks are shown and not run."""
    monkeypatch.delenv("OUTCROP_DATA", raising=False)
    assert "Not run here" in run_page("```python f3\n1 / 0\n```\n", "page.md", tmp_path)


def test_python_blocks_of_the_pages_parse():
    """Every block of Python is valid syntax, also if it is not run."""
    for page in PAGES:
        for block in re.findall(r"^```python.*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            ast.parse(textwrap.dedent(block), page.name)


def constant_tables():
    """Yield the name of every module on the page of constants, and its table: constant -> value."""
    text = (ROOT / "docs" / "constants.md").read_text(encoding="utf-8")
    for heading, section in re.findall(r"^## `([\w.]+)`\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL):
        yield heading, dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))


@pytest.mark.parametrize(("module", "table"), constant_tables())
def test_the_page_of_constants_has_the_values_of_the_code(module, table):
    """Each value on the page equals the value in the module."""
    home = importlib.import_module(f"outcrop.{module}")
    for name, value in table.items():
        found = eval(value, {"geomspace": np.geomspace})
        np.testing.assert_array_equal(found, getattr(home, name), err_msg=name)


@pytest.mark.parametrize(("module", "table"), constant_tables())
def test_the_page_of_constants_is_complete(module, table):
    """Each numeric constant of a module is in its table, or listed under "Not tuned"."""
    text = (ROOT / "docs" / "constants.md").read_text(encoding="utf-8").split("## Not tuned")[1]
    row = re.search(rf"^\| (.*?) \| `{re.escape(module)}` \|", text, re.MULTILINE)
    known = set(table) | set(re.findall(r"`(\w+)`", row[1] if row else ""))
    home = importlib.import_module(f"outcrop.{module}")
    names = {
        name.id
        for node in ast.parse(inspect.getsource(home)).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    numbers = {name for name in names if name.isupper() and np.asarray(getattr(home, name)).dtype.kind in "iuf"}
    assert numbers <= known


def test_the_page_of_constants_has_all_measured_constants():
    """Each constant that benchmarks/constants.py halves and doubles has a row."""
    text = (ROOT / "benchmarks" / "constants.py").read_text(encoding="utf-8")
    tables = dict(constant_tables())
    for module, name in re.findall(r'^    Constant\((\w+), "(\w+)"', text, re.MULTILINE):
        assert name in tables[f"mapping.{module}"], name


def test_each_column_of_retrieved_patches_is_explained():
    """The page on retrieval has a row for each column of retrieved.csv, and no other."""
    text = (ROOT / "docs" / "retrieval.md").read_text(encoding="utf-8")
    section = text.split("## Columns of `retrieved.csv`")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in section.splitlines() if row.startswith("| `")))
    volume = oc.datasets.synthetic((2, 64, 80), seed=0)[0]
    grid = oc.PatchGrid(volume, size=32)
    empty = WeakLabels(*np.zeros((4, 0), int), np.zeros((0, 4), int), grid)
    assert set(named) == {*empty.table.columns, "depth"}


def test_each_option_of_label_is_explained():
    """The page on the shell has a row for each option of `outcrop label`, and no other."""
    text = (ROOT / "docs" / "shell.md").read_text(encoding="utf-8")
    section = text.split("## Options of `outcrop label`")[1].split("\n## ")[0]
    cells = "".join(row.split("|")[1] for row in section.splitlines() if row.startswith("| `"))
    named = set(re.findall(r"(?<!\S)`?(--?[\w-]+)", cells))
    command = typer.main.get_command(cli.app).commands["label"]
    assert named == {flag for part in command.params for flag in part.opts if flag.startswith("-")}
