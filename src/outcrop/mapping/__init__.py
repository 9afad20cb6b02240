"""From weak labels of patches to scores of pixels: one registry, one interface."""
