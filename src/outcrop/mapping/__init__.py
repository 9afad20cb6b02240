"""Mappers: from weak labels of patches, or from points, to class scores of pixels."""
