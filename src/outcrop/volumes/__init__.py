"""Volumes as lazy arrays: opening, formats, axes, what tells one volume from another."""
