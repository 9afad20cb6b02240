"""The program ``outcrop``: run a command, and print its errors and warnings."""

import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

import outcrop as oc
from outcrop.cli.console import explain, fail, warn

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
INTERRUPTED = 130  # exit code of a command that was stopped by Ctrl-C
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # typer may carry its own copy of click


def main() -> NoReturn:
    """Run the command that the command line names, and exit; an error is printed on one line of standard error.

    The exit code is 0 after success, 2 after an error such as wrong input, and 130 after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: warn(message)
            code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code
            raise KeyboardInterrupt
    except USAGE_ERROR as error:
        fail(error.format_message())
    except (ValueError, ImportError) as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        fail("Interrupted; run the same command again to resume it.", code=INTERRUPTED)
    except MemoryError:
        fail("Not enough memory for this request; choose a smaller area or size.")
    except OSError as error:
        fail(explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def show_version(asked: bool) -> None:
    """Print the version and exit if `asked` is True (--version is given)."""
    if asked:
        print(f"outcrop {oc.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Show the version.")
    ] = False,
) -> None:
    """Label seismic volumes from a few exemplars: mark exemplars, label, correct the labels, export.

    A job folder keeps your decisions on a volume and the results. Positions are inline, crossline, and time in ms (or
    depth in m). 'outcrop COMMAND --help' shows the help of a command.
    """
