"""Seismic volumes as lazy arrays: opening, file formats, axes, amplitudes and identity; also writing of SEG-Y files."""
