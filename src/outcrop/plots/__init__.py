"""Figures: most functions draw on given matplotlib axes, or on new ones, and return these axes."""

from outcrop.plots.charts import confusion, convergence, evolution, gallery, purity_curves, similarity_curves
from outcrop.plots.colours import COLOURS, EXTRA, colours
from outcrop.plots.figure import frame, new_axes, new_figure
from outcrop.plots.geology import horizon_map, horizons, sticks
from outcrop.plots.sections import labelled_section, overlay, section

__all__ = [
    "COLOURS", "EXTRA", "colours", "confusion", "convergence", "evolution", "frame", "gallery", "horizon_map",
    "horizons", "labelled_section", "new_axes", "new_figure", "overlay", "purity_curves", "section",
    "similarity_curves", "sticks",
]  # fmt: skip
