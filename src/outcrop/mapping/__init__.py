"""Mappers: methods that learn classes from labelled patches or points and compute class scores of pixels."""
