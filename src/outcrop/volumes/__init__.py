"""Volumes as lazy arrays: opening, formats, axes, amplitudes and identity; writing of SEG-Y."""
