"""Votes and label volumes, line by line."""
