"""Index of patches on disk, search in the index, ranking of patches with verdicts, and audit of results."""
