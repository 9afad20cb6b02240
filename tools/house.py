"""Count the source: lines of code by room, files, and functions without types.

Run ``python tools/house.py``. A line of code is one that is not blank, a comment or part of a docstring.
"""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "outcrop"
EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(text: str) -> int:
    """Return the number of lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in EMPTY:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def functions(text: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions and methods of a module."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of the body of a function, without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the result and every argument but self and cls have a type; `__init__` needs no result.

    Examples
    --------
    >>> [is_annotated(one) for one in functions("def f(a: int) -> int: ...")]
    [True]
    >>> [is_annotated(one) for one in functions("def f(*a) -> int: ...")]
    [False]
    """
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    arguments = [one for one in found if one is not None and one.arg not in ("self", "cls")]
    result = function.returns is not None or function.name == "__init__"
    return result and all(one.annotation is not None for one in arguments)


def public_names(name: str) -> list[str]:
    """Return the public attributes of a class of the package and of its bases."""
    import outcrop

    return [one for one in dir(getattr(outcrop, name)) if not one.startswith("_")]


def report() -> Iterator[str]:
    """Yield one line for each kind of count."""
    texts = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    code = {path: code_lines(text) for path, text in texts.items()}
    rooms: Counter[str] = Counter()
    for path, lines in code.items():
        rooms[path.parts[0]] += lines
    found = [function for text in texts.values() for function in functions(text)]
    bodies = sorted(map(body_lines, found))
    largest = max(code, key=lambda path: code[path])
    yield f"code lines {sum(code.values())}: " + ", ".join(f"{room} {lines}" for room, lines in rooms.most_common())
    yield (
        f"files {len(code)}, median {median(code.values()):.0f}, largest {largest.as_posix()} with {code[largest]}, "
        f"over 300: {sum(lines > 300 for lines in code.values())}"
    )
    yield (
        f"functions {len(found)}, median body {median(bodies):.0f}, 90 % {bodies[len(bodies) * 9 // 10]}, "
        f"without all types {sum(not is_annotated(function) for function in found)}"
    )
    yield f"public names of Job {len(public_names('Job'))}"


if __name__ == "__main__":
    print("\n".join(report()))
