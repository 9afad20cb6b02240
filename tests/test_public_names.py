"""Public names are annotated and known to type checkers, and the version is the same everywhere."""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

import outcrop as oc

ROOT = Path(__file__).parents[1]
PACKAGE = Path(oc.__file__).parent


def functions(name):
    """Yield name, signature and number of skipped parameters of the functions and methods of a public name."""
    found = getattr(oc, name)
    if inspect.isfunction(found):
        yield name, inspect.signature(found), 0
    if inspect.isclass(found):
        for kind in found.__mro__:
            for part, value in vars(kind).items() if kind.__module__.startswith("outcrop") else ():
                value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if inspect.isfunction(value) and (part == "__init__" or not part.startswith("_")):
                    yield f"{name}.{part}", inspect.signature(value), 1


@pytest.mark.parametrize("name", oc.__all__)
def test_every_public_name_is_annotated(name):
    """Parameters and results of functions, methods and properties have a type."""
    for where, signature, skipped in functions(name):
        parameters = list(signature.parameters.values())[skipped:]
        bare = [one.name for one in parameters if one.annotation is one.empty]
        if signature.return_annotation is signature.empty and not where.endswith("__init__"):
            bare.append("return")
        assert not bare, f"{where} lacks types of {', '.join(bare)}"


def test_type_checkers_know_lazily_loaded_names():
    """The stub of the lazy imports exports each name under its own name and defines nothing else."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    assert {node.target.id for node in tree.body if node not in imports} == {"__version__", "__all__"}
    assert oc.datasets is sys.modules["outcrop.datasets"] and oc.plots is sys.modules["outcrop.plots"]
    for name in set(oc.__all__) - {"__version__", "explore"}:  # explore needs the page
        assert getattr(oc, name) is vars(sys.modules[oc._HOMES[name]])[name]
    assert (PACKAGE / "py.typed").is_file()


def test_one_version_everywhere():
    """Package, citation and the newest version in the changelog agree."""
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    changed = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert cited[1] == changed[1] == oc.__version__


def test_a_misspelt_name_of_a_job_is_an_error():
    """No class of a job defines `__getattr__`, so that misspelt attributes are errors, also for type checkers."""
    assert not any("__getattr__" in vars(kind) or "__getattribute__" in vars(kind) for kind in oc.Job.__mro__[:-1])
