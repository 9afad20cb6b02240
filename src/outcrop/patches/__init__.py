"""Where patches lie, cutting and stitching."""
