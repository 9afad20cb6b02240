"""Geology from labels and volumes: shapes with a size and a place, instead of samples."""
