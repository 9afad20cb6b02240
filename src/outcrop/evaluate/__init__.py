"""Scores of retrieval, clusters and pixels."""
