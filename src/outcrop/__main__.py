"""Run the command line, with ``python -m outcrop`` or as ``outcrop``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while its modules load prints one line and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the encoding of a Windows console may lack a character
            stream.reconfigure(errors="replace")
    try:
        from outcrop.cli.program import main as run
    except KeyboardInterrupt:
        print("Error: Interrupted; run the same command again.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
