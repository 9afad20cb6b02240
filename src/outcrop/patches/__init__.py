"""Place patches in a volume, cut them out and stitch them together."""
