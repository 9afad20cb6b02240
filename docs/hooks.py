"""Hooks of the documentation build: run tutorials, convert formulas to MathML, insert the reference of commands.

Blocks of Python and of shell in ``docs/tutorials`` and on the paper's page are run, and their output is inserted below
them, as in a notebook: printed lines, the value of the last line, tables and figures. All tutorials share one folder:
a page finds the files of the pages before it. A block that fails ends the build. Blocks marked ``f3`` need real data
and run only if OUTCROP_DATA is set. OUTCROP_DOCS=plain runs no block, to work on the text.
"""

import ast
import base64
import contextlib
import io
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r"^```(python|sh)( f3)?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^::: oc\.(\w+)$", re.MULTILINE)
FORMULA = re.compile(r'<(div|span) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
ROLE = re.compile(r":math:<code>(.*?)</code>", re.DOTALL)  # a formula in a docstring
log = logging.getLogger("mkdocs.hooks")
work: dict = {}


def on_pre_build(config):
    """Create the working folder of the tutorials."""
    work["folder"] = tempfile.mkdtemp(prefix="tutorials-")


def on_post_build(config):
    """Remove the working folder of the tutorials."""
    shutil.rmtree(work.pop("folder"), ignore_errors=True)


def on_page_markdown(markdown, page, config, files):
    """Return the page with the output of its blocks, the help of all commands, or full names in the reference."""
    name = page.file.src_uri
    if (name.startswith("tutorials/") or name == "paper.md") and os.environ.get("OUTCROP_DOCS") != "plain":
        begin = time.perf_counter()
        shown = run_page(markdown, name, work["folder"])
        log.info("%s was run in %.0f s", name, time.perf_counter() - begin)
        return shown
    if name == "commands.md":
        return markdown + command_reference()
    return NAME.sub(directive, markdown)


def on_page_content(html, page, config, files):
    """Convert formulas to MathML, which browsers draw without a script."""
    html = FORMULA.sub(lambda found: as_mathml(found[2], "block" if found[1] == "div" else "inline"), html)
    return ROLE.sub(lambda found: as_mathml(found[1], "inline"), html)


def directive(found):
    """Return the mkdocstrings line of a name: ``::: oc.similarity`` -> ``::: outcrop.measures.registry.similarity``."""
    import outcrop

    home = f"{outcrop._HOMES[found[1]]}.{found[1]}"
    inherited = "\n      inherited_members: true" if found[1] == "Job" else ""  # its parts are classes as well
    return f"::: {home}\n    options:\n      heading: oc.{found[1]}\n      toc_label: {found[1]}{inherited}"


def command_reference():
    """Return the help of every command, with arguments and options, as printed by the program."""
    import typer

    from outcrop import cli

    text = []
    for name, command in typer.main.get_command(cli.app).commands.items():
        arguments = [part for part in command.params if part.param_type_name == "argument"]
        options = [part for part in command.params if part.param_type_name == "option" and not part.hidden]
        words = [part.name.upper() if part.required else f"[{part.name.upper()}]" for part in arguments]
        text += [f"\n## {name}\n", f"`outcrop {' '.join([name, *words])}`\n", f"{command.help}\n"]
        text += ["| option | |", "|---|---|"] if options else []
        for part in options:
            flags = ", ".join(f"`{flag}`" for flag in (*part.opts, *part.secondary_opts))
            needed = " **Needed.**" if part.required else ""
            text.append(f"| {flags} | {(part.help or '').replace('|', chr(92) + '|')}{needed} |")
    return "\n".join(text) + "\n"


def as_mathml(formula, display):
    """Return a LaTeX formula as MathML, on a line of its own (`block`) or within a line (`inline`)."""
    from html import unescape

    from latex2mathml.converter import convert

    return convert(unescape(formula), display=display)


def run_page(markdown, name, folder):
    """Return the text of a tutorial with the output of its blocks."""
    names: dict = {"__name__": "__main__"}

    def run(found):
        language, real, code = found.groups()
        shown = f"```{language}\n{code}```\n"
        if real and not os.environ.get("OUTCROP_DATA"):
            return shown + "\n*Not run here: it needs the data that OUTCROP_DATA names.*\n"
        try:
            with contextlib.chdir(folder):
                result = run_shell(code) if language == "sh" else run_python(code, names)
        except Exception as error:
            raise RuntimeError(f"{name}: {type(error).__name__} in this block: {error}\n\n{code}") from error
        return f"{shown}\n{result.replace(f'{folder}/', '')}\n" if result else shown

    return BLOCK.sub(run, markdown)


def run_python(code, names):
    """Run a block of Python; return its printed lines and the value of its last line as Markdown."""
    tree = ast.parse(code)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "tutorial", "exec"), names)
        value = None if last is None else eval(compile(last, "tutorial", "eval"), names)
    return "\n\n".join(part for part in (as_text(printed.getvalue()), as_markdown(value)) if part)


def run_shell(code):
    """Run commands with the Python that builds the site; return their output as Markdown."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", code], env={**os.environ, "PATH": path, "COLUMNS": "100"}, text=True, capture_output=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return as_text(done.stdout)


def as_text(text):
    """Return printed lines as a block of Markdown."""
    return f"``` {{.text .output}}\n{text.rstrip()}\n```" if text.strip() else ""


def as_markdown(value):
    """Return a value as in a notebook: figures as pictures, tables as tables, other values as text."""
    if value is None:
        return ""
    figure = getattr(value, "figure", value)
    if hasattr(figure, "savefig"):
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=80)
        return f'<img alt="figure" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'
    if hasattr(value, "to_html"):
        return f'<div class="table">{value.to_html(border=0, float_format="{:.4g}".format)}</div>'
    return as_text(repr(value))
