"""Draw texts of the package at random for readers to judge, and list unwanted phrases.

``python tools/prose.py --seed 0`` prints docstrings, help texts of the command line and messages with file and line;
``--source FOLDER`` draws from another checkout. ``python tools/prose.py --check [FILE ...]`` lists every phrase of
`BETTER` in code, tests and documentation with a better one; the exit code is 1 if there is any.
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# unwanted phrase, as a regular expression of words -> better phrase
BETTER = {
    "told|telling": "given, recognised, distinguished, informative",
    "what is there|which it is|what holds|what was done": "name the object",
    "those that|that which|the ones that": "repeat the noun",
    "the rest": "the other ..., the remaining ...",
    "as it is|as they are": "unchanged, directly",
    "as before": "unchanged",
    "there (is|are|was|were) none(?! of)|there is no (one|other)": "name the object: if no line is labelled",
    "any more": "no longer",
    "anew": "again",
    "once more": "again",
    "for a while": "temporarily",
    "for good": "permanently",
    "put up with": "tolerate, accept",
    "in a hurry": "draft",
    "stand in line": "are aligned",
    "sure enough": "above the minimum confidence",
    "taken back|take back|takes back": "undone, cleared",
    "hands? on": "pass on, return",
    "at hand": "available, current",
    "nobody|whoever": "name the person or the state: not used, not confirmed",
    "wherever|whatever": "name the cases: any class, every kind",
    "mends?|mended|mending": "repair, correct",
    "dies|died of": "ends, fails",
    "lifts (it|them|the limit|that)": "clears, removes",
    "is to be|are to be": "shall be, must be",
    "patches taken": "patches used",
    "not shown yet|what was not shown": "patches unlike anything marked",
    "sort anew": "re-rank",
    "expert beside": "side by side",
}
SPEAKING = {"say", "warn", "print", "fail", "tell", "hint", "heading", "note", "button", "secho", "echo"}


def pattern_of(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds a phrase across line breaks, quotes, comment signs and the underscores of names."""
    spaced = phrase.replace(" ", r"""[\s"'#/_*]+""")
    return re.compile(rf"(?<![a-z])(?:{spaced})(?![a-z])", re.IGNORECASE)


PATTERNS = {pattern_of(phrase): better for phrase, better in BETTER.items()}


def unused_words(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and better phrase for every unwanted phrase in a text.

    Examples
    --------
    >>> list(unused_words("Return the labels.\\n\\nNone where there" + " is none."))
    [(3, 'there is none', 'name the object: if no line is labelled')]
    """
    for pattern, better in PATTERNS.items():
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), better


def written_files(root: Path) -> list[Path]:
    """Return the files of code, tests and documentation, without this file."""
    found = [path for path in root.glob("*.md") if path.name != "CHANGELOG.md"]
    for folder in ("src", "tests", "tests_app", "tools", "benchmarks", "docs"):
        found += [path for ending in ("py", "js", "md", "toml") for path in (root / folder).rglob(f"*.{ending}")]
    return sorted(path for path in found if path.name != "prose.py")


def check(files: list[Path]) -> int:
    """Print every unwanted phrase in files, and return their number."""
    count = 0
    for path in files:
        for line, phrase, better in sorted(unused_words(path.read_text(encoding="utf-8"))):
            print(f"{path}:{line}: {phrase!r}; better: {better}")
            count += 1
    return count


def name_of(function: ast.expr) -> str:
    """Return the last part of the name of a called function: ``say`` for ``self.work.say``."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def texts_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the outermost strings in a piece of code, with values in braces."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
            for part in node.values
        ]
        yield node.lineno, "".join(parts)
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts_of(child)


def is_sentence(text: str) -> bool:
    """Return whether a string looks like a sentence."""
    return text[:1].isupper() and len(text.split()) > 3 and not re.search("[<;]", text)


def help_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and help text of the options and arguments of commands, each after its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.Assign):
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.targets[0])
            calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
            for call in calls:
                given = [one.value for one in call.keywords if one.arg == "help"]
                if given and name_of(call.func) in ("Option", "Argument"):
                    for line, text in texts_of(given[0]):
                        yield line, f"--{name.lower().strip('_').replace('_', '-')}: {text}"


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of strings that are raised or shown, and of other strings that are sentences."""
    for node in ast.walk(tree):
        shown = isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and name_of(node.func) in SPEAKING)
        if shown or isinstance(node, ast.JoinedStr | ast.Constant):
            for line, text in texts_of(node):
                if is_sentence(text) or (shown and len(text.split()) > 2):
                    yield line, text


def texts(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield kind, line and text of the docstrings, help texts and messages of a module."""
    seen: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                line = node.body[0].lineno
                seen.add(line)
                decorators = [name_of(getattr(one, "func", one)) for one in getattr(node, "decorator_list", [])]
                yield "help" if "command" in decorators else "docstring", line, text
    for kind, found in (("help", help_texts(tree)), ("message", messages(tree))):
        for line, text in found:
            if line not in seen:
                seen.add(line)
                yield kind, line, text


def drawn(source: Path, seed: int, counts: dict[str, int]) -> Iterator[str]:
    """Yield texts of a checkout drawn at random: a given number of each kind."""
    found: dict[str, list[str]] = {kind: [] for kind in counts}
    for path in sorted((source / "src" / "outcrop").rglob("*.py")):
        for kind, line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            found[kind].append(f"{path.relative_to(source).as_posix()}:{line}\n    " + text.replace("\n", "\n    "))
    for kind, n in counts.items():
        chosen = random.Random(seed).sample(found[kind], min(n, len(found[kind])))
        yield f"==== {kind}: {len(chosen)} of {len(found[kind])} ===="
        yield from (f"{kind} {number}  {text}\n" for number, text in enumerate(chosen, 1))


def main() -> None:
    """Print texts drawn at random, or check files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to draw from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docstrings", type=int, default=100)
    parser.add_argument("--help-texts", type=int, default=50)
    parser.add_argument("--messages", type=int, default=50)
    parser.add_argument("--check", nargs="*", type=Path, metavar="FILE", help="check files, by default all")
    given = parser.parse_args()
    if given.check is not None:
        sys.exit(1 if check(given.check or written_files(ROOT)) else 0)
    counts = {"docstring": given.docstrings, "help": given.help_texts, "message": given.messages}
    print("\n".join(drawn(given.source, given.seed, counts)))


if __name__ == "__main__":
    main()
