"""Scores of retrieval, clusters, pixel labels and confidence."""
