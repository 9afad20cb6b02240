"""Index patches on disk, search the index, rank patches with feedback, and audit results."""
