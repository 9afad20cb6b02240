"""Run the command line with ``python -m outcrop``."""

from outcrop.cli import main

main()
