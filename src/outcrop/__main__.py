"""Run the command line, with ``python -m outcrop`` or as ``outcrop``."""

import sys


def main() -> None:
    """Run a command; Ctrl-C during loading prints one line without traceback."""
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
