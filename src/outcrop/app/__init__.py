"""The interpreter's page: pick exemplars, see what is retrieved, correct it, see labels, export."""
