"""A job: what interpreters decided, what was computed from it under its keys, and the one way into the folder."""
