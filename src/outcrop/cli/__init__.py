"""The command line: each module defines a group of commands; their import order is the order in the help."""

from outcrop.cli import survey, indexing, retrieving, labelling, results, deciding, fault_sticks, whole  # noqa: I001
from outcrop.cli.program import app, main
