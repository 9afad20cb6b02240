"""Counts of the source: lines, files, lengths of bodies, and words of a private dialect in names and in prose.

Run ``python tools/house.py``; the words are those that `WORDS` lists, and each should become a word of the field.
"""

import ast
import io
import keyword
import re
import tokenize
from collections import Counter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
WORDS = ("own", "said", "there", "usual", "ask", "beside", "told", "strife")


def body_lines(tree):
    """Lines of the body of every function, its docstring left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield body[-1].end_lineno - body[0].lineno + 1 if body else 0


def dialect(text):
    """How often each word stands in names (as one of their words) and in comments and docstrings."""
    names, prose = Counter(), Counter()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        words = re.findall(r"[a-z]+", token.string.lower())
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            names.update(word for word in words if word in WORDS)
        elif token.type in (tokenize.COMMENT, tokenize.STRING):
            prose.update(word for word in words if word in WORDS)
    return names, prose


def main():
    """Print the counts."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
    lengths = {path: text.count("\n") for path, text in texts.items()}
    largest = max(lengths, key=lambda path: lengths[path])
    bodies = sorted(length for text in texts.values() for length in body_lines(ast.parse(text)))
    found = [dialect(text) for text in texts.values()]
    names, prose = (sum(part, Counter()) for part in zip(*found, strict=True))
    print(f"lines {sum(lengths.values())}, files {len(texts)}, median file {median(lengths.values()):.0f}")
    print(f"largest {largest.relative_to(ROOT)} with {lengths[largest]}", end=", ")
    print(f"over 400: {sum(n > 400 for n in lengths.values())}, over 600: {sum(n > 600 for n in lengths.values())}")
    print(f"functions {len(bodies)}, median body {median(bodies):.0f}, 90 % {bodies[len(bodies) * 9 // 10]}")
    for kind, counts in (("names", names), ("prose", prose)):
        print(f"dialect in {kind}: {sum(counts.values())} (" + ", ".join(f"{w} {counts[w]}" for w in WORDS) + ")")


if __name__ == "__main__":
    main()
