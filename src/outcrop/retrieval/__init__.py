"""The index on disk, exact search in it, feedback, audits."""
