"""Run the command line, with ``python -m outcrop`` or as ``outcrop``."""

import sys


def main() -> None:
    """Run a command; being stopped while the program is still loading is no error either."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console or pipe of Windows may lack a letter of a name
            stream.reconfigure(errors="replace")
    try:
        from outcrop.cli.program import main as run
    except KeyboardInterrupt:
        print("Error: Interrupted; run the same command again.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
