"""Votes, labels and confidence of survey lines."""
