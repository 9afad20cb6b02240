"""Outcrop: from a few exemplar patches of seismic to thousands of pixel labels."""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.3.0"

# public name -> module, as ``__init__.pyi`` imports it; loaded when it is first used (PEP 562)
_HOMES = {
    alias.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = ["__version__", *(name for name, home in _HOMES.items() if home != "outcrop")]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'outcrop' has no attribute {name!r}")
    if _HOMES[name] == "outcrop":
        return importlib.import_module(f"outcrop.{name}")
    return getattr(importlib.import_module(str(_HOMES[name])), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
