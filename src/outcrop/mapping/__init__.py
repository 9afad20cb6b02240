"""Mappers: compute class scores of pixels from weak labels of patches or from points."""
