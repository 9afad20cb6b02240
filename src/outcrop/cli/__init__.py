"""The command line: a module for each group of commands, in the order of the help."""

from outcrop.cli import survey, indexing, retrieving, labelling, results, deciding, fault_sticks, whole  # noqa: I001
from outcrop.cli.program import app, main
